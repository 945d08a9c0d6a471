//! The log-likelihood ratio on a short interval, as a polynomial with a certified error.

use crate::loss::MixturePair;

/// Number of coefficients. With its padding a polynomial fills one cache line.
pub(crate) const COEFFICIENTS: usize = 6;

/// Degree of the interpolant.
const DEGREE: usize = COEFFICIENTS - 1;

/// The bound M (see [`LossPolynomial::interpolate`]) that an interval is expected to have; a larger one makes the interval
/// shorter.
const EXPECTED_BOUND: f64 = 2.0;

/// Parameter ρ of the Bernstein ellipse in which the ratio is bounded: 4·M·ρ^-5/(ρ − 1) is about `tolerance` at the expected M.
fn ellipse(tolerance: f64) -> f64 {
    (4.0 * EXPECTED_BOUND / tolerance).powf(1.0 / (DEGREE + 1) as f64) + 1.0
}

/// 4Mρ^-5/(ρ − 1), by which the interpolant at six Chebyshev points errs if M bounds the function in the ellipse of parameter ρ.
fn interpolation_error(largest: f64, rho: f64) -> f64 {
    4.0 * largest * rho.powi(-(DEGREE as i32)) / (rho - 1.0)
}

/// A polynomial in u ∈ [−1, 1], x = centre + half_width·u.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct LossPolynomial([[f64; 2]; COEFFICIENTS / 2]);

impl LossPolynomial {
    /// A placeholder where no polynomial was made; its values are NaN.
    pub(crate) const UNKNOWN: Self = Self([[f64::NAN; 2]; COEFFICIENTS / 2]);

    /// True for [`LossPolynomial::UNKNOWN`].
    pub(crate) fn is_unknown(&self) -> bool {
        self.0[0][0].is_nan()
    }

    /// The interpolant of `sign`·log r at the Chebyshev points of an interval, and a bound on its error.
    ///
    /// A constant and a linear part are interpolated exactly, so M bounds |log r(z) − tangent(z)| on the
    /// ellipse. With g the gap of log r over its tangent on the real line, |r(z)| is between a fraction κ of r(x) and r(x) itself
    /// (see `loss::panel` for κ, the field `kept`, and the angle φ) and the argument of r(z) differs from the tangent's by at
    /// most 2φ, plus the effect of the posterior law outside its central range: M ≤ max(g, −log κ) + 2φ + 1/2. (Trefethen,
    /// Approximation Theory and Approximation Practice, Theorem 8.2.)
    ///
    /// `None` if the interval is too long for an error below `tolerance`.
    pub(crate) fn interpolate(
        pair: &MixturePair,
        centre: f64,
        half_width: f64,
        sign: f64,
        tolerance: f64,
        scratch: &mut Vec<f64>,
    ) -> Option<(Self, f64)> {
        let ellipse = ellipse(tolerance);
        let reach = 0.5 * (ellipse + 1.0 / ellipse) * half_width;
        let surroundings = pair.surroundings(centre, reach, reach, scratch);
        let kept = surroundings.kept;
        if kept <= 0.0 {
            return None;
        }
        let largest = surroundings.gap.max(-kept.ln()) + 2.0 * surroundings.angle + 0.5;
        let interpolation = interpolation_error(largest, ellipse);
        if interpolation > tolerance {
            return None;
        }
        let values: [f64; COEFFICIENTS] =
            std::array::from_fn(|i| sign * pair.log_ratio(centre + half_width * chebyshev_point(i)));
        let powers = monomials(&chebyshev_coefficients(&values));
        let polynomial = Self(std::array::from_fn(|i| [powers[2 * i], powers[2 * i + 1]]));
        // Values and the sum below are rounded to a few units in the last place of the largest value.
        let size = values.iter().fold(0.0, |size: f64, v| size.max(v.abs()));
        Some((polynomial, interpolation + 16.0 * f64::EPSILON * size))
    }

    /// The polynomial at u.
    ///
    /// Even and odd coefficients stand in pairs, so both parts are summed by the same vector instructions.
    #[inline(always)]
    pub(crate) fn at(&self, u: f64) -> f64 {
        let square = u * u;
        let [c01, c23, mut sum] = self.0;
        for pair in [c23, c01] {
            sum = [pair[0] + square * sum[0], pair[1] + square * sum[1]];
        }
        sum[0] + u * sum[1]
    }
}

/// Chebyshev point (extremum) i of 0..=5.
fn chebyshev_point(i: usize) -> f64 {
    (std::f64::consts::PI * i as f64 / DEGREE as f64).cos()
}

/// Coefficients of the interpolant in Chebyshev polynomials.
fn chebyshev_coefficients(values: &[f64; COEFFICIENTS]) -> [f64; COEFFICIENTS] {
    let halved_at_ends = |i: usize| if i == 0 || i == DEGREE { 0.5 } else { 1.0 };
    std::array::from_fn(|n| {
        let sum: f64 = values
            .iter()
            .enumerate()
            .map(|(i, value)| {
                halved_at_ends(i) * value * (std::f64::consts::PI * (n * i) as f64 / DEGREE as f64).cos()
            })
            .sum();
        2.0 / DEGREE as f64 * halved_at_ends(n) * sum
    })
}

/// Chebyshev coefficients to powers of u, by the recurrence T_{n+1} = 2u·T_n − T_{n−1}.
fn monomials(chebyshev: &[f64; COEFFICIENTS]) -> [f64; COEFFICIENTS] {
    let mut powers = [0.0; COEFFICIENTS];
    let mut previous = [0.0; COEFFICIENTS];
    let mut current = [0.0; COEFFICIENTS];
    previous[0] = 1.0;
    current[1] = 1.0;
    powers[0] += chebyshev[0];
    for &coefficient in &chebyshev[1..] {
        for (power, part) in powers.iter_mut().zip(&current) {
            *power += coefficient * part;
        }
        let mut next = [0.0; COEFFICIENTS];
        for i in 0..COEFFICIENTS {
            let raised = if i == 0 { 0.0 } else { current[i - 1] };
            next[i] = 2.0 * raised - previous[i];
        }
        (previous, current) = (current, next);
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::GroupLaw;
    use realfft::num_complex::Complex64;

    #[test]
    fn the_polynomial_is_within_its_error_of_the_log_ratio() {
        let settings = [(1, 0.01, 1.0), (16, 0.1, 1.0), (64, 0.5, 0.3), (4, 0.2, 20.0)];
        for ((k, q, sigma), tolerance) in settings.into_iter().zip([1e-9, 1e-13, 1e-10, 1e-12]) {
            let pair = MixturePair::new(&GroupLaw::binomial(k, q).unwrap(), sigma).unwrap();
            let mut half_width = sigma;
            for centre in [-1.0, 0.4, 3.0] {
                let (polynomial, error) = loop {
                    let found =
                        LossPolynomial::interpolate(&pair, centre, half_width, 1.0, tolerance, &mut Vec::new());
                    if let Some(found) = found {
                        break found;
                    }
                    half_width *= 0.5;
                };
                for i in -10..=10 {
                    let u = f64::from(i) / 10.0;
                    let exact = pair.log_ratio(centre + half_width * u);
                    assert!(
                        (polynomial.at(u) - exact).abs() <= error,
                        "{k} {q} {sigma} {centre} {u}"
                    );
                }
                assert!(half_width > 1e-4 * sigma);
            }
        }
    }

    #[test]
    fn the_error_is_the_sum_of_all_coefficients_that_are_cut_off_or_aliased() {
        // |a_k| ≤ 2Mρ^−k, and T_k for k ≥ 6 is replaced by some T_j.
        for rho in [3.0f64, 40.0] {
            let sum: f64 = (COEFFICIENTS as i32..200).map(|k| 4.0 * 0.7 * rho.powi(-k)).sum();
            assert!((interpolation_error(0.7, rho) / sum - 1.0).abs() < 1e-12, "{rho}");
        }
    }

    #[test]
    fn the_surroundings_bound_the_log_ratio_on_the_ellipse() {
        for (k, q, sigma, centre, half_width) in [
            (1, 0.01, 1.0, 3.0, 0.02),
            (16, 0.1, 1.0, 1.0, 0.01),
            (4, 0.2, 5.0, -4.0, 0.1),
        ] {
            let law = GroupLaw::binomial(k, q).unwrap();
            let pair = MixturePair::new(&law, sigma).unwrap();
            let variance = sigma * sigma;
            let log_ratio = |z: Complex64| -> Complex64 {
                let terms = law.log_weights().iter().zip(law.shifts());
                terms
                    .map(|(weight, shift)| (weight + shift * (z - 0.5 * shift) / variance).exp())
                    .sum::<Complex64>()
                    .ln()
            };
            let rho = ellipse(1e-10);
            let reach = 0.5 * (rho + 1.0 / rho) * half_width;
            let found = pair.surroundings(centre, reach, reach, &mut Vec::new());
            assert!(found.kept > 0.0);
            let bound = found.gap.max(-found.kept.ln()) + 2.0 * found.angle + 0.5;
            let (value, slope) = (found.centre.log_ratio, found.centre.mean_shift / variance);
            for i in 0..48 {
                let unit = Complex64::from_polar(rho, std::f64::consts::PI * f64::from(i) / 24.0);
                let offset = 0.5 * half_width * (unit + unit.inv());
                let apart = (log_ratio(centre + offset) - value - slope * offset).norm();
                assert!(apart <= bound, "{k} {q} {sigma} {i}: {apart} {bound}");
            }
        }
    }
}
