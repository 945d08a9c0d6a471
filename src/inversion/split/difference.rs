//! The transform of the runs with at least one far step: a difference of two products that are nearly equal.
//!
//! Where far steps are rare, Π φ^T and Π N^T agree in all their digits. So log(Π φ^T/Π N^T) = Σ T·log(1 + H/N) is summed
//! as well, from H itself, and its error bound beside that of the plain difference.

use crate::approx::Approx;
use crate::inversion::contour::{ContourPoint, Power};
use crate::special::log_space::{complex_exp_m1, complex_ln_1p};
use realfft::num_complex::Complex64;

/// Where the quotient's logarithm, with its error, is larger than this, the plain difference loses at most a bit or two.
const MAX_LOG_QUOTIENT: f64 = 0.5;

/// Π φ^T and Π N^T at one frequency, both over φ(c)^T, with the quotient of the two.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Powers {
    whole: Power,
    near: Power,
    /// Σ T·log(1 + H/N).
    log_quotient: Approx<Complex64>,
}

impl Powers {
    /// Multiplies by `steps` steps with φ/φ(c) − 1 = `whole` and H/φ(c) = `far`.
    pub(super) fn multiply(&mut self, whole: Approx<Complex64>, far: Approx<Complex64>, steps: f64) {
        let near = whole - far;
        self.whole.multiply(whole, steps);
        self.near.multiply(near, steps);
        let of_near = 1.0 + near.value;
        let square = of_near.norm_sqr();
        let ratio = far.value * of_near.conj() / square;
        let size = ratio.norm();
        // The true |N| may be smaller than that which was found.
        let least = square.sqrt() - near.error;
        let error = (far.error + size * near.error) / least + 8.0 * f64::EPSILON * size;
        // |log(1 + w)'| = 1/|1 + w|.
        let rest = 1.0 - size - error;
        let error = if least > 0.0 && rest > 0.0 {
            steps * error / rest
        } else {
            f64::INFINITY
        };
        self.log_quotient += Approx::new(steps * complex_ln_1p(ratio), error);
        // The rounding of this addition; there may be very many.
        self.log_quotient.error += 0.5 * f64::EPSILON * self.log_quotient.value.l1_norm();
    }

    /// Π φ^T − Π N^T, as Π N^T·(e^{Σ T·log(1 + H/N)} − 1) where that has the smaller error.
    pub(super) fn difference(self) -> ContourPoint {
        let direct = self.whole.point().minus(self.near.point());
        let Approx { value: log, error } = self.log_quotient;
        if log.norm() + error > MAX_LOG_QUOTIENT || error.is_nan() {
            return direct;
        }
        let near = self.near.point();
        let (size, turn) = complex_exp_m1(log).to_polar();
        let modulus = near.modulus * size;
        let accurate = ContourPoint {
            modulus,
            phase: near.phase + turn,
            error: near.error * size
                + (near.modulus + near.error) * log.re.exp() * error.exp_m1()
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

    /// A real number with an error.
    fn number(value: f64, error: f64) -> Approx<Complex64> {
        Approx::new(Complex64::from(value), error)
    }

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
            powers.multiply(number(near + far - 1.0, 0.0), number(far, 0.0), steps);
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
            powers.multiply(number(near + far - 1.0, 0.0), number(far, error), steps);
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

    /// N is too large by all of its error, and H negative: log(1 + H/(N − e)) is farther off than 1/N² would have it.
    #[test]
    fn an_error_of_the_near_part_counts_over_the_smallest_that_it_can_be() {
        let (far, error) = (-0.1f64, 0.2);
        let mut powers = Powers::default();
        // 1 + whole − far is N = 1.
        powers.multiply(number(far, error), number(far, 0.0), 1.0);
        let found = powers.log_quotient;
        let off = (found.value.re - (far / (1.0 - error)).ln_1p()).abs();
        assert!(off <= found.error && found.error < 1.1 * off, "{off} {}", found.error);
    }

    #[test]
    fn an_error_of_the_whole_is_carried_and_attained() {
        // Both products grow with φ, and so does their difference: (φ + e)^T − (φ + e − H)^T.
        let (near, far, error, steps) = (0.999, 1e-9, 1e-6, 2e3);
        let mut powers = Powers::default();
        powers.multiply(number(near + far - 1.0, error), number(far, 0.0), steps);
        let found = powers.difference();
        let off = exact(near + error, far, steps) - exact(near, far, steps);
        assert!(off <= found.error && found.error < 1.1 * off, "{off} {}", found.error);
    }

    #[test]
    fn segments_multiply() {
        let mut powers = Powers::default();
        powers.multiply(number(-0.1, 0.0), number(0.2, 0.0), 2.0);
        powers.multiply(number(-0.2, 0.0), number(0.3, 0.0), 3.0);
        let found = powers.difference();
        let exact = 0.9f64.powi(2) * 0.8f64.powi(3) - 0.7f64.powi(2) * 0.5f64.powi(3);
        assert!(
            (real(found) - exact).abs() <= found.error && found.error < 1e-14,
            "{found:?}"
        );
    }
}
