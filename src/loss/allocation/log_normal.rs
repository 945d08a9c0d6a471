//! The law of the likelihood ratio Y = dP/dQ of the output of one batch, where P has the record in that batch and Q has it in none.
//!
//! With Gaussian noise log Y is normal under Q, with the mean −v/2 and the variance v = 1/σ², so that Y is log-normal with the mean 1. Lattices need its
//! density, its tails P(Y > y), and the expectations E\[Y; Y > y\]: as Y is the density of P, these are tails of log Y under P, where its mean is v/2.

use crate::interval::Interval;
use crate::loss::one_step::gaussian_delta;
use crate::special::normal::upper_tail;
use std::f64::consts::PI;

/// A log-normal variable of mean 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogNormal {
    variance: f64,
    deviation: f64,
}

/// A probability and an expectation over the same outcomes, {Y > y} or {Y ≤ y}: P(·) and E\[Y; ·\].
#[derive(Debug, Clone, Copy)]
pub(super) struct Tails {
    pub(super) mass: Interval,
    pub(super) mean: Interval,
}

/// The tails on both sides of an outcome.
#[derive(Debug, Clone, Copy)]
pub(super) struct BothTails {
    pub(super) below: Tails,
    pub(super) above: Tails,
}

impl LogNormal {
    /// The variable with this v.
    pub(super) fn new(variance: f64) -> Self {
        Self {
            variance,
            deviation: variance.sqrt(),
        }
    }

    /// The standard normal variable of an outcome, and a bound on its rounding error.
    fn normal(&self, y: f64) -> (f64, f64) {
        let log = y.ln();
        let normal = (log + 0.5 * self.variance) / self.deviation;
        let size = (1.0 + log.abs() + self.variance) / self.deviation + normal.abs();
        (normal, 2.0 * f64::EPSILON * size)
    }

    /// How fast log f changes with log y at most, over all outcomes between two.
    pub(super) fn growth(&self, low: f64, high: f64) -> f64 {
        let at = |y: f64| (1.0 + (y.ln() + 0.5 * self.variance) / self.variance).abs();
        at(low).max(at(high)).max(1.0)
    }

    /// √v.
    pub(super) fn deviation(&self) -> f64 {
        self.deviation
    }

    /// The outcome where the density is largest.
    pub(super) fn mode(&self) -> f64 {
        (-1.5 * self.variance).exp()
    }

    /// The density f, and a bound on its relative error.
    pub(super) fn density(&self, y: f64) -> (f64, f64) {
        let (normal, wrong) = self.normal(y);
        let value = (-0.5 * normal * normal).exp() / (y * self.deviation * (2.0 * PI).sqrt());
        (
            value,
            2.0 * normal.abs() * wrong + f64::EPSILON * (8.0 + normal * normal),
        )
    }

    /// P(Y > y) and E\[Y; Y > y\].
    pub(super) fn above(&self, y: f64) -> Tails {
        let (normal, wrong) = self.normal(y);
        Tails {
            mass: tail(normal, wrong),
            mean: tail(normal - self.deviation, wrong + f64::EPSILON * self.deviation),
        }
    }

    /// P(Y ≤ y) and E\[Y; Y ≤ y\].
    pub(super) fn below(&self, y: f64) -> Tails {
        let (normal, wrong) = self.normal(y);
        Tails {
            mass: tail(-normal, wrong),
            mean: tail(self.deviation - normal, wrong + f64::EPSILON * self.deviation),
        }
    }

    /// E[Y²; Y ≤ y]: weighted with Y², log Y has the mean 3v/2.
    pub(super) fn square_below(&self, y: f64) -> Interval {
        let (normal, wrong) = self.normal(y);
        let Interval { lower, upper } = tail(
            2.0 * self.deviation - normal,
            wrong + 2.0 * f64::EPSILON * self.deviation,
        );
        let (factor, slack) = (self.variance.exp(), 4.0 * f64::EPSILON * (1.0 + self.variance));
        Interval {
            lower: factor * lower * (1.0 - slack),
            upper: factor * upper * (1.0 + slack),
        }
    }

    /// The tails on both sides of an outcome, which may be 0.
    pub(super) fn tails(&self, y: f64) -> BothTails {
        if y > 0.0 {
            return BothTails {
                below: self.below(y),
                above: self.above(y),
            };
        }
        let all = |value: f64| Tails {
            mass: Interval::exact(value),
            mean: Interval::exact(value),
        };
        BothTails {
            below: all(0.0),
            above: all(1.0),
        }
    }

    /// The outcomes with half of the probability, and with half of the mean, on either side.
    pub(super) fn medians(&self) -> (f64, f64) {
        ((-0.5 * self.variance).exp(), (0.5 * self.variance).exp())
    }

    /// E[(Y − y)₊]: the curve of a Gaussian pair.
    pub(super) fn excess_above(&self, y: f64) -> Interval {
        self.curve(y.ln())
    }

    /// E[(y − Y)₊], y times the same curve at −log y.
    pub(super) fn excess_below(&self, y: f64) -> Interval {
        let Interval { lower, upper } = self.curve(-y.ln());
        Interval {
            lower: y * lower * (1.0 - f64::EPSILON),
            upper: y * upper * (1.0 + f64::EPSILON),
        }
    }

    /// δ of N(√v, 1) against N(0, 1) at an ε that has a rounding error: at both ends of what it may be.
    fn curve(&self, epsilon: f64) -> Interval {
        let wrong = 2.0 * f64::EPSILON * epsilon.abs();
        Interval {
            lower: gaussian_delta(self.deviation.next_down(), epsilon + wrong).lower(),
            upper: gaussian_delta(self.deviation.next_up(), epsilon - wrong).upper(),
        }
    }
}

/// P(N(0, 1) > t) for a t with this rounding error.
fn tail(t: f64, wrong: f64) -> Interval {
    let (value, error) = upper_tail(t, wrong);
    Interval::around(value, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// v, y, P(Y > y), E\[Y; Y > y\] and the density at y.
    const CASES: [(f64, f64, f64, f64, f64); 7] = [
        (
            4.0,
            0.015_625,
            0.859_804_529_713_549_7,
            0.998_963_054_669_426,
            7.129_209_428_198_029,
        ),
        (
            4.0,
            1.5,
            0.114_539_916_013_600_83,
            0.787_352_138_712_046_5,
            0.064_516_542_179_496_44,
        ),
        (
            4.0,
            6674.0,
            3.277_004_546_641_985e-8,
            0.000_333_266_857_155_825_46,
            1.369_217_772_296_939_2e-11,
        ),
        (
            0.75,
            3.5,
            0.030_082_754_028_943_94,
            0.155_397_958_213_071,
            0.022_499_354_631_879_225,
        ),
        (
            0.75,
            0.062_5,
            0.997_184_224_694_442,
            0.999_860_751_965_08,
            0.159_645_976_510_118_5,
        ),
        (
            16.0,
            1_000_000.0,
            2.464_156_018_356_038_6e-8,
            0.072_990_116_598_896_19,
            3.466_194_118_987_78e-14,
        ),
        (
            0.25,
            40.0,
            1.194_348_710_420_678_3e-14,
            5.100_812_975_649_814e-13,
            4.630_906_360_406_639e-15,
        ),
    ];

    /// mpmath at 40 digits: with z = (log y + v/2)/√v, P(Y > y) = erfc(z/√2)/2, E\[Y; Y > y\] = erfc((z − √v)/√2)/2, and the density.
    /// The second moment against a sum over the density.
    #[test]
    fn second_moments_are_those_of_the_density() {
        for (v, y) in [(1.0f64, 3.0f64), (0.04, 1.1), (4.0, 500.0)] {
            let law = LogNormal::new(v);
            let step = 1e-4;
            let end = (y.ln() + 0.5 * v) / v.sqrt();
            let term = |i: i32| {
                let g = end - (f64::from(i) + 0.5) * step;
                (2.0 * (v.sqrt() * g - 0.5 * v) - 0.5 * g * g).exp() * step / (2.0 * PI).sqrt()
            };
            let exact: f64 = (0..150_000).map(term).sum();
            let found = law.square_below(y);
            let middle = 0.5 * (found.lower + found.upper);
            assert!(
                (middle / exact - 1.0).abs() < 1e-7 && found.upper - found.lower < 1e-12 * exact,
                "{v} {y}"
            );
        }
    }

    #[test]
    fn tails_and_excesses_hold_their_values() {
        for (variance, y, mass, mean, density) in CASES {
            let law = LogNormal::new(variance);
            let above = law.above(y);
            let holds = |found: Interval, exact: f64, width: f64| {
                assert!(
                    found.lower <= exact && exact <= found.upper,
                    "{variance} {y}: {found:?} {exact}"
                );
                assert!(found.width() <= width * exact, "{variance} {y}: {found:?}");
            };
            holds(above.mass, mass, 1e-12);
            holds(above.mean, mean, 1e-12);
            let (value, error) = law.density(y);
            holds(Interval::around(value, error), density, 1e-12);
            let below = law.below(y);
            assert!(
                (below.mass.middle() + mass - 1.0).abs() < 1e-14
                    && (below.mean.middle() + mean - 1.0).abs() < 1e-14
            );
            // Both excesses differ by the mean.
            let (call, put) = (law.excess_above(y), law.excess_below(y));
            assert!((call.middle() - (mean - y * mass)).abs() < 1e-12 * (mean + y * mass));
            assert!(
                (call.middle() - put.middle() - (1.0 - y)).abs() < 1e-12 * (1.0 + y),
                "{call:?} {put:?}"
            );
        }
    }
}
