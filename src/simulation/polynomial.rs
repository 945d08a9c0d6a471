//! The log-likelihood ratio on a short interval, as a polynomial with a certified error.

use crate::loss::MixturePair;
use crate::special::chebyshev::{self, interpolation_factor};

/// Number of coefficients. With its padding a polynomial fills one cache line.
pub(crate) const COEFFICIENTS: usize = 6;

/// The bound M (see [`LossPolynomial::interpolate`]) that an interval is expected to have; a larger one makes the interval
/// shorter.
const EXPECTED_BOUND: f64 = 2.0;

/// Parameter ρ of the Bernstein ellipse in which the ratio is bounded: at the expected M the error is just below `tolerance`.
///
/// With r⁶ = 2M/tolerance and ρ² = r² + 1 the error is about 2Mρ⁻⁶·√((ρ² + 3)/(ρ² − 1)), which is the tolerance times
/// (1 + r⁻²)⁻³·√(1 + 4r⁻²) < 1.
fn ellipse(tolerance: f64) -> f64 {
    (2.0 * EXPECTED_BOUND / tolerance)
        .powf(1.0 / COEFFICIENTS as f64)
        .hypot(1.0)
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

    /// The interpolant of `sign`·log r at the Chebyshev nodes of an interval, and a bound on its error.
    ///
    /// A constant and a linear part are interpolated exactly, so M bounds |log r(z) − tangent(z)| on the
    /// ellipse. With g the gap of log r over its tangent on the real line, |r(z)| is between a fraction κ of r(x) and r(x) itself
    /// (see `loss::panel` for κ, the field `kept`, and the angle φ) and the argument of r(z) differs from the tangent's by at
    /// most 2φ, plus the effect of the posterior law outside its central range: M ≤ max(g, −log κ) + 2φ + 1/2.
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
        let interpolation = largest * interpolation_factor(COEFFICIENTS, ellipse);
        if interpolation > tolerance {
            return None;
        }
        let values: [f64; COEFFICIENTS] = std::array::from_fn(|i| {
            sign * pair.log_ratio(centre + half_width * chebyshev::angle(COEFFICIENTS, i).cos())
        });
        let powers = chebyshev::powers(&chebyshev::coefficients(&chebyshev::weights(), &values));
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
    fn the_ellipse_just_meets_the_tolerance_at_the_expected_bound() {
        for tolerance in [1e-6, 1e-9, 1e-13] {
            let error = EXPECTED_BOUND * interpolation_factor(COEFFICIENTS, ellipse(tolerance));
            assert!(error <= tolerance && error > 0.9 * tolerance, "{tolerance}: {error}");
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
