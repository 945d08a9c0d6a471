//! The largest loss of an epoch, where all likelihood ratios are at one end of their range.

use crate::approx::Approx;
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::{TiltedMoments, rounded_up};
use crate::special::log_space::log1p_exp;
use crate::step::Direction;

/// e^{1/b} is within the range of an `f64` up to this 1/b, with room.
const LARGEST_EXPONENT: f64 = 600.0;
/// Logarithms of ratios nearer to 1 than this come from the difference.
const NEAR_ONE: f64 = 0.5;

/// An epoch as far as its largest loss is concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extremes {
    direction: Direction,
    scale: f64,
    /// Released and all batches.
    released: f64,
    total: f64,
}

impl Extremes {
    pub(super) fn new(scale: f64, (released, total): (u64, u64), direction: Direction) -> Self {
        Self {
            direction,
            scale,
            released: released as f64,
            total: total as f64,
        }
    }

    /// The largest loss, with its error.
    ///
    /// W is then the mean of the ratios e^{1/b}, or e^{−1/b}, and of the ones of the batches that were not released. In units of the last place,
    /// e^{±1/b} is off by at most half of 1/b, as 1/b is rounded, and by one; 1 − e^{−1/b} by two.
    fn largest(self) -> Approx {
        let Self { released, total, .. } = self;
        let exponent = 1.0 / self.scale;
        if released == total {
            return Approx::new(exponent, f64::EPSILON * exponent);
        }
        let units = 4.0 + exponent;
        let (loss, error) = match self.direction {
            Direction::Remove if exponent > LARGEST_EXPONENT => {
                (log1p_exp(exponent + (released / total).ln()), units)
            }
            Direction::Remove => {
                let rise = released * exponent.exp_m1() / total;
                (rise.ln_1p(), units * rise / (1.0 + rise))
            }
            Direction::Add => {
                let fall = -(released * (-exponent).exp_m1() / total);
                if fall < NEAR_ONE {
                    (-(-fall).ln_1p(), 4.0 * fall / (1.0 - fall))
                } else {
                    let (still, low) = (total - released, released * (-exponent).exp());
                    (-((still + low) / total).ln(), 4.0 + exponent * low / (still + low))
                }
            }
        };
        Approx::new(loss, f64::EPSILON * (error + 2.0 * loss))
    }

    /// A bound on the largest loss: where all batches were released it is 1/b, to twice the precision.
    pub(super) fn max_loss(self) -> MaxLoss {
        if self.released == self.total {
            return MaxLoss::quotient(1.0, self.scale);
        }
        let Approx { value, error } = self.largest();
        MaxLoss::within(value + error, 2.0 * error)
    }

    /// All likelihood ratios at one end.
    pub(super) fn log_mass_of_max_loss(self) -> f64 {
        let found = match self.direction {
            Direction::Remove => self.released * (0.5f64.ln() - 1.0 / self.scale) + self.largest().value,
            Direction::Add => self.released * 0.5f64.ln(),
        };
        found - 1e-12 * (1.0 + found.abs())
    }

    /// K(c) where nothing is known but the largest loss: between 0 and c times that, as K is convex and 0 at 0 and −1.
    pub(super) fn crude_moments(self, c: f64) -> TiltedMoments {
        let largest = self.largest();
        let half = 0.5 * c * rounded_up(largest.upper());
        TiltedMoments {
            log_moment: Approx::new(half, half.abs() * (1.0 + 4.0 * f64::EPSILON)),
            mean: largest.value,
            variance: 1.0,
        }
    }

    /// The probabilities that the record is in a batch that is released, and that it is in another one.
    pub(super) fn parts(self) -> (f64, f64) {
        (self.released / self.total, (self.total - self.released) / self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mpmath, 40 digits, with a = 1/mpf(b): log(((t - r) + r*exp(a))/t) and -log(((t - r) + r*exp(-a))/t). One record added to two batches
    /// with b = 1/30 has the loss 30, of which 1 + (e^−30 − 1) leaves three digits.
    #[test]
    fn largest_losses_have_their_digits() {
        for (scale, released, total, direction, exact) in [
            (1.0 / 30.0, 2, 2, Direction::Add, 30.0),
            (0.02, 3, 3, Direction::Add, 50.0),
            (0.02, 2, 3, Direction::Add, 1.098_612_288_668_109_8),
            (0.05, 999, 1000, Direction::Add, 6.907_753_219_891_788),
            (0.3, 1000, 1001, Direction::Add, 3.306_686_903_590_555),
            (0.01, 2, 1000, Direction::Remove, 93.785_391_901_577_81),
            (1.0, 2, 3, Direction::Remove, 0.763_382_515_390_141_3),
            (1e4, 5, 1000, Direction::Add, 4.999_751_258_208_549e-7),
            (1e4, 5, 1000, Direction::Remove, 5.000_248_758_208_951e-7),
            (1e-3, 2, 1000, Direction::Remove, 993.785_391_901_577_8),
        ] {
            let extremes = Extremes::new(scale, (released, total), direction);
            let Approx { value, error } = extremes.largest();
            assert!((value - exact).abs() <= error, "{extremes:?}: {value} {exact}");
            assert!(error <= 2e-14 * exact, "{extremes:?}: {error}");
            let most = extremes.max_loss();
            assert!(
                most.rounded_up() >= exact && most.rounded_up().next_down() - most.slack <= exact,
                "{extremes:?}: {most:?} {exact}"
            );
        }
        // The quotient of 1 and 1/32 is a number.
        let whole = Extremes::new(1.0 / 32.0, (2, 2), Direction::Add).max_loss();
        assert_eq!((whole.rounded_up(), whole.slack), (32.0, 0.0));
    }
}
