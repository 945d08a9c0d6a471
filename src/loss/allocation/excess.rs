//! e^z − 1 − z, from which logarithms of transforms near 1 keep their digits.

use realfft::num_complex::Complex64;

/// |z|² from which on e^z itself is computed.
const NEAR: f64 = 0.09;

/// e^z − 1 − z, and a bound on its error in units of the machine's, where z has a relative error of `slack` units over |z|.
pub(crate) fn excess_at(z: Complex64, slack: f64) -> (Complex64, f64) {
    if z.norm_sqr() <= NEAR {
        return near(z, slack);
    }
    let angle = if z.im == 0.0 { (0.0, 1.0) } else { z.im.sin_cos() };
    excess(z, z.re.exp(), angle, slack)
}

/// The series for |z| ≤ 0.3.
fn near(z: Complex64, slack: f64) -> (Complex64, f64) {
    /// Terms by |z|²: the first that is left out is below 1e-16 of the sum.
    const TERMS: [(f64, usize); 3] = [(2.5e-5, 6), (2.5e-3, 8), (NEAR, 12)];
    /// 1/k from k = 3 on.
    const INVERSE: [f64; 12] = {
        let mut inverse = [0.0; 12];
        let mut k = 0;
        while k < 12 {
            inverse[k] = 1.0 / (k + 3) as f64;
            k += 1;
        }
        inverse
    };
    let square = z.norm_sqr();
    let terms = TERMS
        .iter()
        .find(|(most, _)| square <= *most)
        .map_or(12, |(_, terms)| *terms);
    let mut sum = Complex64::new(1.0, 0.0);
    for inverse in INVERSE[..terms].iter().rev() {
        sum = sum * (z * *inverse) + 1.0;
    }
    let value = z * z * sum * 0.5;
    let size = z.re.abs() + z.im.abs();
    (value, (value.re.abs() + value.im.abs()) * 8.0 + size * slack)
}

/// e^z − 1 − z, where e^z has this modulus and this sine and cosine of its phase, and a bound on its error in units of the machine's.
pub(crate) fn excess(z: Complex64, modulus: f64, (sine, cosine): (f64, f64), slack: f64) -> (Complex64, f64) {
    if z.norm_sqr() <= NEAR {
        return near(z, slack);
    }
    let size = z.re.abs() + z.im.abs();
    let value = Complex64::new(modulus * cosine - 1.0 - z.re, modulus * sine - z.im);
    (value, modulus * (3.0 + slack) + 2.0 + slack + 2.0 * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the series with 40 terms, on both sides of every change of the number of terms.
    #[test]
    fn both_branches_are_within_their_error() {
        for size in [1e-9, 0.0049, 0.0051, 0.049, 0.051, 0.299, 0.301, 1.7] {
            for angle in [0.0, 0.7, 1.5, 3.0] {
                let z = Complex64::from_polar(size, angle);
                let mut exact = Complex64::new(1.0, 0.0);
                for k in (3..43).rev() {
                    exact = exact * z / f64::from(k) + 1.0;
                }
                exact = exact * z * z * 0.5;
                let (found, error) = excess_at(z, 0.0);
                let off = (found - exact).norm();
                assert!(
                    off <= (error + 4.0 * exact.norm()) * f64::EPSILON,
                    "{z}: {found} {exact} {off}"
                );
            }
        }
    }
}
