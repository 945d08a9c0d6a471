//! Sums over losses that are small at all frequencies, by their moments.
//!
//! Where |yℓ| ≤ 2 at the last frequency, e^{iyℓ} − 1 = Σ_p (iyℓ)^p/p! converges fast: Σ w(e^{iyℓ} − 1) = Σ_p (iy)^p/p!·Σ wℓ^p takes one
//! evaluation of a polynomial for each frequency, however many losses there are.

use crate::loss::characteristic_function::Law;
use crate::special::compensated_sum::CompensatedSum;
use realfft::num_complex::Complex64;

/// Largest |yℓ|.
pub(super) const LARGEST: f64 = 2.0;

/// Terms of the series. What lies beyond is at most 2^24/25! = 1.1e-18 times y·E|ℓ|.
const TERMS: usize = 24;

/// Bound on the rounding error of the sum at y, over y·E|ℓ|.
///
/// With x = y/y_last and L = 2/y_last, (2x)^p/p!·Σ w(ℓ/L)^p is off by at most (6.5p + 10)u of (2x)^p/p!·Σ w|ℓ/L|: 4p + 6 roundings are those of
/// powers and of the sum, 2.5p + 4 those of Horner's rule in (2x)². As Σ w|ℓ/L|·2x = y·E|ℓ|, all terms together are off by at most
/// (6.5e² + 5(e² − 1))u = 80u of it.
pub(super) const ERROR: f64 = 40.0 * f64::EPSILON;

/// Frequencies whose polynomials are evaluated side by side.
const LANES: usize = 8;

/// Adds Σ w(e^{ijhℓ} − 1) to the sum of every j.
pub(super) fn add(law: &Law, spacing: f64, sums: &mut [Complex64]) {
    if law.losses.is_empty() || sums.len() < 2 {
        return;
    }
    let last = (sums.len() - 1) as f64;
    let terms = Terms::of(law, LARGEST / (spacing * last));
    for (block, sums) in sums.chunks_mut(LANES).enumerate() {
        let doubled: [f64; LANES] = std::array::from_fn(|i| LARGEST * ((block * LANES + i) as f64 / last));
        let (even, odd) = (Terms::at(&terms.even, &doubled), Terms::at(&terms.odd, &doubled));
        for (i, sum) in sums.iter_mut().enumerate() {
            let x = doubled[i];
            *sum += Complex64::new(x * x * even[i], x * odd[i]);
        }
    }
}

/// Σ w(ℓ/L)^p/p! times the sign of i^p or of i^{p−1}: of p = 2, 4, … and of p = 1, 3, ….
struct Terms {
    even: [f64; TERMS / 2],
    odd: [f64; TERMS / 2],
}

impl Terms {
    fn of(law: &Law, largest: f64) -> Self {
        let mut sums = [CompensatedSum::default(); TERMS];
        for (weight, loss) in law.weights.iter().zip(&law.losses) {
            let ratio = loss / largest;
            let mut power = *weight;
            for sum in &mut sums {
                power *= ratio;
                sum.add(power);
            }
        }
        let mut factorial = 1.0;
        let terms: [f64; TERMS] = std::array::from_fn(|i| {
            factorial *= (i + 1) as f64;
            // i, −1, −i, 1, and so on.
            let sign = if matches!(i % 4, 0 | 3) { 1.0 } else { -1.0 };
            sign * sums[i].value() / factorial
        });
        Self {
            even: std::array::from_fn(|k| terms[2 * k + 1]),
            odd: std::array::from_fn(|k| terms[2 * k]),
        }
    }

    /// The polynomial Σ aₖ·x^{2k} with these terms aₖ.
    fn at(terms: &[f64; TERMS / 2], x: &[f64; LANES]) -> [f64; LANES] {
        let square = x.map(|x| x * x);
        let mut values = [0.0; LANES];
        for term in terms.iter().rev() {
            for (value, square) in values.iter_mut().zip(&square) {
                *value = *value * square + term;
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::characteristic_function::tests::{direct, law_of};

    #[test]
    fn sums_by_moments_are_within_their_error() {
        let mut most = 0.0f64;
        for (losses, last) in [(1..=64, 100usize), (60..=64, 1_000), (-64..=64, 40)] {
            let count = losses.clone().count() as f64;
            let nodes: Vec<(f64, f64)> = losses.map(|i| (f64::from(i) / 1024.0, 1.0 / count)).collect();
            let law = law_of(&nodes);
            // The largest loss is LARGEST at the last frequency.
            let spacing = LARGEST * 16.0 / last as f64;
            let mut sums = vec![Complex64::default(); last + 1];
            add(&law, spacing, &mut sums);
            for (j, sum) in sums.into_iter().enumerate() {
                let y = j as f64 * spacing;
                let off = (sum - direct(&nodes, spacing, j)).norm();
                let bound = ERROR * y * law.mean_size;
                assert!(off <= bound, "{last} {j}: {off} {bound}");
                most = most.max(off / bound.max(f64::MIN_POSITIVE));
            }
        }
        assert!(most > 0.01, "{most}");
    }
}
