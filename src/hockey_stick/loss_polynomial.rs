//! The log-likelihood ratio on a short interval, as a polynomial with a certified error.

use crate::pair::MixturePair;

/// Number of coefficients (degree 7): one cache line.
pub(super) const COEFFICIENTS: usize = 8;

/// Degree of the interpolant.
const DEGREE: usize = COEFFICIENTS - 1;

/// Parameter ρ of the Bernstein ellipse in which the ratio is bounded.
///
/// The error of the interpolant is 4Mρ^-7/(ρ − 1): 1.4e-14·M at 64, against intervals four times shorter
/// than at 16, where it would be 1e-9·M.
const ELLIPSE: f64 = 64.0;

/// A polynomial in u ∈ [−1, 1], x = centre + half_width·u.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct LossPolynomial([f64; COEFFICIENTS]);

impl LossPolynomial {
    /// The interpolant of `sign`·log r at the Chebyshev points of an interval, and a bound on its error.
    ///
    /// A constant and a linear part are interpolated exactly, so M bounds |log r(z) − tangent(z)| on the
    /// ellipse. With g the gap of log r over its tangent on the real line, |r(z)| is between
    /// kept·r(x) and r(x) (see `pair::panel` for `kept` and the angle φ) and the argument of r(z) differs
    /// from the tangent's by at most 2φ, plus what the posterior law outside its central range can turn
    /// it: M ≤ max(g, −log kept) + 2φ + 1/2. (Trefethen, Approximation Theory and Approximation Practice,
    /// Theorem 8.2.)
    ///
    /// `None` if the interval is too long for an error below `tolerance`.
    pub(super) fn interpolate(
        pair: &MixturePair,
        centre: f64,
        half_width: f64,
        sign: f64,
        tolerance: f64,
        scratch: &mut Vec<f64>,
    ) -> Option<(Self, f64)> {
        let reach = 0.5 * (ELLIPSE + 1.0 / ELLIPSE) * half_width;
        let surroundings = pair.surroundings(centre, reach, reach, scratch);
        let kept = surroundings.kept;
        if kept <= 0.0 {
            return None;
        }
        let largest = surroundings.gap.max(-kept.ln()) + 2.0 * surroundings.angle + 0.5;
        let interpolation = 4.0 * largest * ELLIPSE.powi(-(DEGREE as i32)) / (ELLIPSE - 1.0);
        if interpolation > tolerance {
            return None;
        }
        let values: [f64; COEFFICIENTS] =
            std::array::from_fn(|i| sign * pair.log_ratio(centre + half_width * chebyshev_point(i)));
        let polynomial = Self(monomials(&chebyshev_coefficients(&values)));
        // Values and the sum below are rounded to a few units in the last place of the largest value.
        let size = values.iter().fold(0.0, |size: f64, v| size.max(v.abs()));
        Some((polynomial, interpolation + 16.0 * f64::EPSILON * size))
    }

    /// The polynomial at u.
    ///
    /// Even and odd parts run side by side, which halves the chain of dependent operations.
    #[inline(always)]
    pub(super) fn at(&self, u: f64) -> f64 {
        let c = &self.0;
        let square = u * u;
        let even = c[0] + square * (c[2] + square * (c[4] + square * c[6]));
        let odd = c[1] + square * (c[3] + square * (c[5] + square * c[7]));
        even + u * odd
    }
}

/// Chebyshev point (extremum) i of 0..=7.
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
    use crate::pair::GroupLaw;

    #[test]
    fn the_polynomial_is_within_its_error_of_the_log_ratio() {
        for (k, q, sigma) in [(1, 0.01, 1.0), (16, 0.1, 1.0), (64, 0.5, 0.3), (4, 0.2, 20.0)] {
            let pair = MixturePair::new(&GroupLaw::binomial(k, q).unwrap(), sigma).unwrap();
            let mut half_width = sigma;
            for centre in [-1.0, 0.4, 3.0] {
                let (polynomial, error) = loop {
                    let found =
                        LossPolynomial::interpolate(&pair, centre, half_width, 1.0, 1e-13, &mut Vec::new());
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
}
