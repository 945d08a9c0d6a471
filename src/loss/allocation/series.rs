//! Truncated power series: products and powers, with complex coefficients or with bounds on them.

use std::ops::{Add, Mul};

/// What coefficients must be able to do.
pub(crate) trait Coefficient:
    Copy + From<f64> + Add<Output = Self> + Mul<Output = Self> + Mul<f64, Output = Self>
{
}
impl<T: Copy + From<f64> + Add<Output = T> + Mul<Output = T> + Mul<f64, Output = T>> Coefficient for T {}

/// The product of two series, as long as the first.
///
/// Row by row, so that the sums of several coefficients grow side by side.
pub(crate) fn product<T: Coefficient>(a: &[T], b: &[T]) -> Vec<T> {
    let mut found = vec![T::from(0.0); a.len()];
    for (i, &factor) in a.iter().enumerate() {
        for (sum, &other) in found[i..].iter_mut().zip(b) {
            *sum = *sum + factor * other;
        }
    }
    found
}

/// The square of a series: each product of two different coefficients is computed once and doubled, which is exact.
fn square<T: Coefficient>(a: &[T]) -> Vec<T> {
    let mut found = vec![T::from(0.0); a.len()];
    for (i, &factor) in a.iter().enumerate().take(a.len().div_ceil(2)) {
        let twice = factor + factor;
        let (first, rest) = found[2 * i..].split_at_mut(1);
        first[0] = first[0] + factor * factor;
        for (sum, &other) in rest.iter_mut().zip(&a[i + 1..]) {
            *sum = *sum + twice * other;
        }
    }
    found
}

/// The power of a series whose first coefficient is 1.
///
/// J. C. P. Miller's recurrence k·p_k = Σ_i (iN − k + i)·a_i·p_{k−i} has no negative factor where N is at least the order, so that
/// errors do not grow; smaller powers are multiplied out.
pub(crate) fn power<T: Coefficient>(a: &[T], exponent: f64) -> Vec<T> {
    let order = a.len().saturating_sub(1);
    if exponent < order as f64 {
        return small_power(a, exponent as u64);
    }
    let mut found = Vec::with_capacity(a.len());
    found.push(T::from(1.0));
    for k in 1..=order {
        let sum = (1..=k).fold(T::from(0.0), |sum, i| {
            let factor = (i as f64) * (exponent + 1.0) - k as f64;
            sum + a[i] * found[k - i] * factor
        });
        found.push(sum * (1.0 / k as f64));
    }
    found
}

/// By squaring and multiplying.
fn small_power<T: Coefficient>(a: &[T], mut exponent: u64) -> Vec<T> {
    let mut found: Option<Vec<T>> = None;
    let mut repeated = a.to_vec();
    while exponent > 0 {
        if exponent & 1 == 1 {
            found = Some(match found {
                Some(found) => product(&found, &repeated),
                None => repeated.clone(),
            });
        }
        exponent >>= 1;
        if exponent > 0 {
            repeated = square(&repeated);
        }
    }
    found.unwrap_or_else(|| (0..a.len()).map(|k| T::from(if k == 0 { 1.0 } else { 0.0 })).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (1 + x)^N has binomial coefficients, (e^x)^N those of e^{Nx}.
    #[test]
    fn powers_are_those_of_closed_forms() {
        for exponent in [1.0, 3.0, 7.0, 50.0, 1e4] {
            let mut binomial = vec![1.0; 9];
            let mut exponential = vec![1.0; 9];
            let (mut line, mut growth) = (vec![0.0; 9], vec![1.0; 9]);
            (line[0], line[1]) = (1.0, 1.0);
            for k in 1..9 {
                let j = k as f64;
                binomial[k] = binomial[k - 1] * (exponent - j + 1.0).max(0.0) / j;
                exponential[k] = exponential[k - 1] * exponent / j;
                growth[k] = growth[k - 1] / j;
            }
            for (found, exact) in [
                (power(&line, exponent), binomial),
                (power(&growth, exponent), exponential),
            ] {
                for (a, b) in found.iter().zip(&exact) {
                    assert!((a - b).abs() <= 1e-13 * b.abs(), "{exponent}: {a} {b}");
                }
            }
        }
    }

    /// Squares are those of the product, of an even and an odd number of coefficients, real and complex.
    #[test]
    fn squares_are_products_with_themselves() {
        use realfft::num_complex::Complex64;
        for length in 1..10 {
            let real: Vec<f64> = (0..length).map(|k| f64::from(k * k) - 2.5).collect();
            assert_eq!(square(&real), product(&real, &real));
            let complex: Vec<Complex64> = real.iter().map(|&x| Complex64::new(x, 0.5 * x + 1.0)).collect();
            assert_eq!(square(&complex), product(&complex, &complex));
        }
        assert_eq!(power(&[1.0, 3.0, 2.0], 0.0), [1.0, 0.0, 0.0]);
    }
}
