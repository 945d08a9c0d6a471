//! The transform of the runs with at least one far step: a difference of two products that are nearly equal.
//!
//! Where far steps are rare, Π φ^T and Π N^T agree in all their digits. So log(Π φ^T/Π N^T) = Σ T·log(1 + H/N) is summed
//! as well, from H itself, and its error bound beside that of the plain difference.

use crate::inversion::contour::{ContourPoint, Power};
use crate::special::log_space::log_modulus_1p;

/// Where the quotient's logarithm, with its error, is larger than this, the plain difference loses at most a bit or two.
const MAX_LOG_QUOTIENT: f64 = 0.5;

/// Π φ^T and Π N^T at one frequency, both over φ(c)^T, with the quotient of the two.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Powers {
    whole: Power,
    near: Power,
    /// Σ T·log(1 + H/N), real and imaginary part, and a bound on its error.
    quotient: (f64, f64, f64),
}

impl Powers {
    /// Multiplies by `steps` steps with φ/φ(c) − 1 = `whole` and H/φ(c) = `far`, each with a bound on its error.
    pub(super) fn multiply(&mut self, whole: (f64, f64, f64), far: (f64, f64, f64), steps: f64) {
        let near = (whole.0 - far.0, whole.1 - far.1, whole.2 + far.2);
        self.whole.multiply(whole, steps);
        self.near.multiply(near, steps);
        let (real, imaginary) = (1.0 + near.0, near.1);
        let square = real * real + imaginary * imaginary;
        let ratio = (
            (far.0 * real + far.1 * imaginary) / square,
            (far.1 * real - far.0 * imaginary) / square,
        );
        let size = ratio.0.hypot(ratio.1);
        self.quotient.0 += steps * log_modulus_1p(ratio.0, ratio.1);
        self.quotient.1 += steps * ratio.1.atan2(1.0 + ratio.0);
        let error = (far.2 + size * near.2) / square.sqrt() + 8.0 * f64::EPSILON * size;
        // |log(1 + w)'| = 1/|1 + w|.
        let rest = 1.0 - size - error;
        self.quotient.2 += if rest > 0.0 {
            steps * error / rest
        } else {
            f64::INFINITY
        };
    }

    /// Π φ^T − Π N^T, as Π N^T·(e^{Σ T·log(1 + H/N)} − 1) where that has the smaller error.
    pub(super) fn difference(self) -> ContourPoint {
        let direct = self.whole.point().minus(self.near.point());
        let (real, imaginary, error) = self.quotient;
        if real.hypot(imaginary) + error > MAX_LOG_QUOTIENT || error.is_nan() {
            return direct;
        }
        let near = self.near.point();
        let (sine, cosine) = imaginary.sin_cos();
        let versine = 2.0 * (0.5 * imaginary).sin().powi(2);
        let change = (real.exp_m1() * cosine - versine, real.exp() * sine);
        let size = change.0.hypot(change.1);
        let modulus = near.modulus * size;
        let accurate = ContourPoint {
            modulus,
            phase: near.phase + change.1.atan2(change.0),
            error: near.error * size
                + (near.modulus + near.error) * real.exp() * error.exp_m1()
                + 8.0 * f64::EPSILON * modulus,
        };
        if accurate.error < direct.error {
            accurate
        } else {
            direct
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The real number that a point with phase 0 or π is.
    fn real(point: ContourPoint) -> f64 {
        point.modulus * point.phase.cos()
    }

    /// (a + b)^T − a^T for b > 0 without cancellation.
    fn exact(a: f64, b: f64, steps: f64) -> f64 {
        a.powf(steps) * (steps * (b / a).ln_1p()).exp_m1()
    }

    #[test]
    fn rare_far_steps_keep_their_digits() {
        for (near, far, steps) in [
            (0.9, 1e-18, 10.0),
            (0.999, 1e-30, 5e3),
            (0.5, 1e-3, 4.0),
            (0.3, 0.6, 3.0),
        ] {
            let mut powers = Powers::default();
            powers.multiply((near + far - 1.0, 0.0, 0.0), (far, 0.0, 0.0), steps);
            let found = powers.difference();
            // N is what is left of φ once H is taken away.
            let near = 1.0 + (near + far - 1.0) - far;
            let off = (real(found) - exact(near, far, steps)).abs();
            let allowed = found.error + 1e-15 * steps * found.modulus;
            assert!(
                off <= allowed && found.error < 1e-11 * found.modulus,
                "{far}: {off} {found:?}"
            );
        }
    }

    #[test]
    fn an_error_of_the_far_part_is_carried_and_attained() {
        for (near, far, error, steps) in [(0.9, 1e-8, 1e-12, 10.0), (0.99, 1e-6, 1e-7, 300.0)] {
            let mut powers = Powers::default();
            powers.multiply((near + far - 1.0, 0.0, 0.0), (far, 0.0, error), steps);
            let found = powers.difference();
            // φ is right and H is too small by `error`, which makes N too large.
            let off = exact(near - error, far + error, steps) - exact(near, far, steps);
            assert!(
                off <= found.error && found.error < 1.1 * off,
                "{far}: {off} {}",
                found.error
            );
        }
    }

    #[test]
    fn an_error_of_the_whole_is_carried_and_attained() {
        // Both products grow with φ, and so does their difference: (φ + e)^T − (φ + e − H)^T.
        let (near, far, error, steps) = (0.999, 1e-9, 1e-6, 2e3);
        let mut powers = Powers::default();
        powers.multiply((near + far - 1.0, 0.0, error), (far, 0.0, 0.0), steps);
        let found = powers.difference();
        let off = exact(near + error, far, steps) - exact(near, far, steps);
        assert!(off <= found.error && found.error < 1.1 * off, "{off} {}", found.error);
    }

    #[test]
    fn segments_multiply() {
        let mut powers = Powers::default();
        powers.multiply((-0.1, 0.0, 0.0), (0.2, 0.0, 0.0), 2.0);
        powers.multiply((-0.2, 0.0, 0.0), (0.3, 0.0, 0.0), 3.0);
        let found = powers.difference();
        let exact = 0.9f64.powi(2) * 0.8f64.powi(3) - 0.7f64.powi(2) * 0.5f64.powi(3);
        assert!(
            (real(found) - exact).abs() <= found.error && found.error < 1e-14,
            "{found:?}"
        );
    }
}
