//! Certified intervals of numbers in linear scale: probabilities, ε, minima. Those of log δ are [`Enclosure`]s.

use crate::interval::Enclosure;

/// A number in [lower, upper].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// At most the number.
    pub lower: f64,
    /// At least the number.
    pub upper: f64,
}

impl From<Enclosure> for Interval {
    /// δ of an enclosure of log δ, rounded outwards.
    fn from(delta: Enclosure) -> Self {
        Self {
            lower: delta.lower(),
            upper: delta.upper(),
        }
    }
}

impl Interval {
    /// A number that is known exactly.
    pub fn exactly(value: f64) -> Self {
        Self {
            lower: value,
            upper: value,
        }
    }

    /// `value` with a relative error of at most `error`.
    pub fn around(value: f64, error: f64) -> Self {
        Self {
            lower: value - error * value.abs(),
            upper: value + error * value.abs(),
        }
    }

    /// Both ends clamped to [low, high], which holds the number.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> Self {
        Self {
            lower: self.lower.clamp(low, high),
            upper: self.upper.clamp(low, high),
        }
    }

    /// Interval of the larger of two numbers.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            lower: self.lower.max(other.lower),
            upper: self.upper.max(other.upper),
        }
    }

    /// Interval of the smaller of two numbers.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            lower: self.lower.min(other.lower),
            upper: self.upper.min(other.upper),
        }
    }

    /// Centre of the interval.
    pub fn middle(self) -> f64 {
        0.5 * (self.lower + self.upper)
    }

    /// upper − lower.
    pub fn width(self) -> f64 {
        self.upper - self.lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_of_numbers_in_two_intervals_stay_inside() {
        let (a, b) = (Interval { lower: 0.1, upper: 0.4 }, Interval { lower: 0.2, upper: 0.3 });
        for x in [0.1, 0.25, 0.4] {
            for y in [0.2, 0.3] {
                let (large, small) = (a.max(b), a.min(b));
                assert!(large.lower <= f64::max(x, y) && f64::max(x, y) <= large.upper);
                assert!(small.lower <= f64::min(x, y) && f64::min(x, y) <= small.upper);
            }
        }
        assert_eq!(a.max(b), Interval { lower: 0.2, upper: 0.4 });
    }

    #[test]
    fn a_relative_error_widens_to_both_sides_of_either_sign() {
        for value in [3.0, -3.0] {
            let found = Interval::around(value, 0.1);
            assert!(found.lower <= value - 0.29 && found.upper >= value + 0.29 && found.width() < 0.61);
            assert!((found.middle() - value).abs() < 1e-15);
        }
    }

    #[test]
    fn the_delta_of_an_enclosure_holds_both_ends() {
        let delta = Interval::from(Enclosure::of_logs(0.25f64.ln(), 0.5f64.ln()));
        assert!(delta.lower <= 0.25 && delta.upper >= 0.5 && delta.width() < 0.2501);
    }
}
