//! Arithmetic that the compiler turns into that of the processor's vectors.

/// Whether products and sums are fused in one instruction where `arch` is what the processor has: elsewhere a fused operation is a call
/// of a function, hundreds of times slower than two operations.
pub(crate) fn has_fused_multiply_add(arch: pulp::Arch) -> bool {
    !matches!(arch, pulp::Arch::Scalar) && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// a·b + c, in one rounding where `FUSED`.
#[inline(always)]
pub(crate) fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Partial sums that are kept side by side. Their number is fixed, so that the order of additions, and with it every bit of a sum, does not depend
/// on the width of the processor's vectors.
const LANES: usize = 8;

/// Σ a_i.
pub(crate) fn sum(a: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (whole, rest) = a.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += value;
    }
    lanes.iter().sum()
}

/// Σ a_i·b_i.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((a, rest_of_a), (b, rest_of_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(rest_of_a.iter().zip(rest_of_b)) {
        *lane += a * b;
    }
    lanes.iter().sum()
}

/// The largest number; −∞ of none.
pub(crate) fn largest(a: &[f64]) -> f64 {
    let mut lanes = [f64::NEG_INFINITY; LANES];
    let (whole, rest) = a.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    lanes.iter().chain(rest).copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_count_are_summed() {
        for count in [0, 1, 2, 7, 8, 9, 16, 25] {
            let a: Vec<f64> = (0..count).map(|i| f64::from(i * i % 7) - 2.5).collect();
            let b: Vec<f64> = (0..count).map(|i| f64::from(i) + 0.25).collect();
            let products = a.iter().zip(&b).map(|(a, b)| a * b);
            // All of these have few digits, so that no order of additions rounds.
            assert_eq!(sum(&a), a.iter().sum::<f64>() + 0.0);
            assert_eq!(dot(&a, &b), products.sum::<f64>() + 0.0);
            assert_eq!(largest(&a), a.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
    }
}
