//! Bounds on |E[e^{zℓ}]| far from the real axis, by an imaginary shift of the line of integration.

use crate::approx::Approx;
use crate::individual::step_moments::{LINE_ERROR, Outputs};
use crate::loss::nodes::Nodes;

/// Largest imaginary shift of y. The bounds on the trapezoidal rule hold up to a + b ≤ 2π/3 with b ≤ π/2.
const MAX_SHIFT: f64 = 0.5;
/// Shifts that are tried, in units of the saddle point of the shifted integrand.
const SHIFTS: [f64; 6] = [2.0, 1.4, 1.0, 0.7, 0.5, 0.3];

impl Outputs {
    /// log of a bound on |E[(1 + u)^{p + iy}]|/E[(1 + u)^p] for all y ≥ Y > 0, on the line of integration Im y = a in
    /// (0, π/2), where |(1 + u)^{iy}| = e^{−yθ} with the argument θ ≥ 0 of 1 + u; `tilted` is the law at p.
    ///
    /// The trapezoidal rule over the same nodes, for 0 < a ≤ [`Outputs::max_shift`]: at Im y = b the argument θ becomes
    /// complex, and its real part is the mean of those at Im y = a + b and a − b, lower than θ by at most b·min(M, 1), which
    /// the nodes allow for (see [`Outputs::for_line`]; cos(a + b) ≥ −½). A negative exponent p grows by cos((a + b)/2)^p, where
    /// the nodes allow for e^{−pb/2}: by no more than e^{−0.9pa} beyond that, as a + b ≤ 0.5 + π/2.
    ///
    /// The value is the bound, raised by all errors; its `error` says how far above the number without errors it may be.
    pub(crate) fn log_decay(&self, tilted: &Nodes, exponent: f64, y: f64, shift: f64) -> Approx {
        /// Rounding of the last logarithm and sums.
        const LAST: f64 = 1e-14;
        let (sine, cosine) = shift.sin_cos();
        let mut sum = 0.0;
        for (weight, change) in tilted.weights.iter().zip(&self.changes) {
            // The fraction of qe^y in 1 + u.
            let part = (change + self.sample_rate) / (1.0 + change);
            let part = if part.is_nan() { 1.0 } else { part };
            let (real, imaginary) = (1.0 - part * (1.0 - cosine), part * sine);
            let log_modulus = 0.5 * (-2.0 * part * (1.0 - part) * (1.0 - cosine)).ln_1p();
            sum += weight * (exponent * log_modulus - y * imaginary.atan2(real)).exp_m1();
        }
        let error = LINE_ERROR * (0.9 * shift * (-exponent).max(0.0)).exp()
            + tilted.weight_rounding.0
            + 16.0 * f64::EPSILON;
        let upper = (sum + error).ln_1p();
        let above = if sum - error > -1.0 {
            upper - (sum - error).ln_1p()
        } else {
            f64::INFINITY
        };
        Approx::new(upper + shift * shift / (2.0 * self.variance) + LAST, above + 2.0 * LAST)
    }

    /// Mean of qe^y/(1 + u) under the tilted law.
    pub(crate) fn mean_part(&self, tilted: &Nodes) -> f64 {
        let parts = tilted.weights.iter().zip(&self.changes);
        let of = |(weight, change): (&f64, &f64)| {
            if change.is_finite() {
                weight * (change + self.sample_rate) / (1.0 + change)
            } else {
                *weight
            }
        };
        parts.map(of).sum()
    }
}

/// The imaginary shift of y, at most `highest`, with the lowest bound on the modulus at frequency Y; c comes with its exponent.
pub(crate) fn best_shift(rate: f64, v: f64, (c, exponent): (f64, f64), y: f64, highest: f64) -> f64 {
    let outputs = Outputs::for_line(rate, v, exponent, y);
    let tilted = outputs.tilted(c, exponent);
    let saddle = y * v * outputs.mean_part(&tilted);
    let of = |factor: f64| {
        let shift = (factor * saddle).min(MAX_SHIFT).min(highest);
        (shift, outputs.log_decay(&tilted, exponent, y, shift).value)
    };
    let best = SHIFTS.map(of).into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(0.0, |(shift, _)| shift)
}

/// A bound on the relative increase of |(1 + u)^{−c}| under the shift ia: (1 − a²)^{−c/2} − 1, as |1 + u| shrinks by √(1 − a²)
/// at most.
pub(crate) fn growth(c: f64, shift: f64) -> f64 {
    (-0.5 * c * (-shift * shift).ln_1p()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::individual::direct::excess;
    use crate::individual::step_moments::exponent;
    use crate::step::Direction;
    use realfft::num_complex::Complex64;

    #[test]
    fn decays_bound_the_modulus_at_all_larger_frequencies() {
        for (rate, v, c, y) in [
            (0.999, 0.05, 2.0, 8.0),
            (0.5, 0.2, 1.0, 3.0),
            (0.1, 0.3, 4.0, 2.0),
            (0.02, 0.5, 3.0, 10.0),
        ] {
            for direction in Direction::BOTH {
                let exponent = exponent(direction, c);
                let outputs = Outputs::for_line(rate, v, exponent, 2.0 * y);
                let tilted = outputs.tilted(c, exponent);
                let shift = best_shift(rate, v, (c, exponent), y, Outputs::max_shift(v));
                let Approx { value: bound, error } = outputs.log_decay(&tilted, exponent, y, shift);
                assert!(0.0 < error && error < 1e-10, "{rate} {direction:?}: {error:e}");
                let modulus = |y: f64| {
                    let at = |y: f64| 1.0 + excess(rate, v.into(), Complex64::new(exponent, y));
                    (at(y).norm() / at(0.0).norm()).ln()
                };
                for factor in [1.0, 1.1, 1.5, 2.0] {
                    let exact = modulus(factor * y);
                    assert!(exact <= bound + 1e-11, "{rate} {direction:?} {factor}: {exact} {bound}");
                }
                // Nearly Gaussian: the bound is attained, so that half the modulus would be too little.
                if rate > 0.99 {
                    assert!(
                        bound < modulus(y) + 0.1 && bound < -1.0,
                        "{direction:?} {bound} {}",
                        modulus(y)
                    );
                }
            }
        }
    }

    #[test]
    fn growth_bounds_the_modulus_under_an_imaginary_shift() {
        for c in [0.2f64, 3.0, 40.0] {
            for shift in [0.05f64, 0.3, 0.5] {
                let growths = (0..=100).map(|i| {
                    let part = f64::from(i) / 100.0;
                    let ratio = 1.0 - part + part * Complex64::from_polar(1.0, shift);
                    ratio.norm().powf(-c) - 1.0
                });
                let largest = growths.fold(0.0, f64::max);
                // (1 − 2π(1 − π)(1 − cos a))^{−c/2} is largest at π = 1/2, where a²/4 stands for a².
                assert!(largest <= growth(c, shift), "{c} {shift}: {largest}");
                assert!(growth(c, 0.49 * shift) < largest, "{c} {shift}: {largest}");
            }
        }
    }
}
