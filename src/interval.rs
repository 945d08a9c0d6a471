//! Certified intervals: [`Interval`] for ε and other plain numbers, [`Enclosure`] for δ, whose bounds are logarithms so that neither 1e-300
//! nor 1 − 1e-20 loses digits.

use crate::error::{Error, Result};

/// A number in [`lower`, `upper`], both of which are certified; the upper end may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Certified lower bound.
    pub lower: f64,
    /// Certified upper bound.
    pub upper: f64,
}

/// Certified bounds on one number may cross by this part of it (of 1 + |log δ| for log δ), and by no more.
///
/// The error that a bound allows for is that of its computation. The last steps to the number that is compared (a logarithm,
/// sums of exponents of up to a few thousand, conversions from δ and back) round by some 1e-16 of it each. A thousand of them
/// are far below the narrowest tolerance, 1e-9.
const LAST_BITS: f64 = 1e-12;

impl Interval {
    /// A number that is known exactly.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self {
            lower: value,
            upper: value,
        }
    }

    /// `value` with a relative error of at most `error`.
    pub(crate) fn around(value: f64, error: f64) -> Self {
        Self {
            lower: value - error * value.abs(),
            upper: value + error * value.abs(),
        }
    }

    /// Both ends clamped to [low, high], which holds the number.
    #[must_use]
    pub(crate) fn within(self, low: f64, high: f64) -> Self {
        Self {
            lower: self.lower.clamp(low, high),
            upper: self.upper.clamp(low, high),
        }
    }

    /// The interval between the largest certified lower bound and the smallest certified upper bound on one number. They may cross
    /// by the last bits, and are then exchanged.
    ///
    /// # Errors
    /// [`Error::Contradiction`] where they cross by more.
    pub(crate) fn of_bounds(lower: f64, upper: f64) -> Result<Self> {
        if lower <= upper {
            Ok(Self { lower, upper })
        } else if lower.is_finite() && lower - upper <= LAST_BITS * lower.abs() {
            Ok(Self {
                lower: upper,
                upper: lower,
            })
        } else {
            Err(Error::Contradiction)
        }
    }

    /// The interval of the larger of two numbers.
    #[must_use]
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            lower: self.lower.max(other.lower),
            upper: self.upper.max(other.upper),
        }
    }

    /// The interval of the smaller of two numbers.
    #[must_use]
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            lower: self.lower.min(other.lower),
            upper: self.upper.min(other.upper),
        }
    }

    /// Centre of the interval.
    pub(crate) fn middle(self) -> f64 {
        0.5 * (self.lower + self.upper)
    }

    /// upper − lower.
    pub(crate) fn width(self) -> f64 {
        self.upper - self.lower
    }
}

/// Certified bounds on log δ.
///
/// Where two enclosures of one number do not intersect, at least one of them is wrong. Their intersection is marked as contradicted,
/// and so is everything derived from it, until [`Enclosure::certified`] turns the mark into an error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enclosure {
    /// Lower bound on log δ; −∞ for none.
    pub log_lower: f64,
    /// Upper bound on log δ, at most 0.
    pub log_upper: f64,
    /// True if bounds that this enclosure was derived from contradict each other.
    contradicted: bool,
}

impl Enclosure {
    /// δ = 0.
    pub const ZERO: Self = Self {
        log_lower: f64::NEG_INFINITY,
        log_upper: f64::NEG_INFINITY,
        contradicted: false,
    };
    /// 0 ≤ δ ≤ 1, which always holds.
    pub const TRIVIAL: Self = Self {
        log_lower: f64::NEG_INFINITY,
        log_upper: 0.0,
        contradicted: false,
    };

    /// From bounds on log δ; NaN counts as no bound.
    pub fn of_logs(lower: f64, upper: f64) -> Self {
        let lower = if lower.is_nan() {
            f64::NEG_INFINITY
        } else {
            lower.min(0.0)
        };
        let upper = if upper.is_nan() { 0.0 } else { upper.min(0.0) };
        if lower <= upper {
            return Self {
                log_lower: lower,
                log_upper: upper,
                contradicted: false,
            };
        }
        Self {
            log_lower: upper,
            log_upper: lower,
            contradicted: lower - upper > LAST_BITS * (1.0 + lower.abs()),
        }
    }

    /// An enclosure with bounds that were derived from this one: contradicted if this one is.
    #[must_use]
    pub(crate) fn with_logs(self, lower: f64, upper: f64) -> Self {
        let derived = Self::of_logs(lower, upper);
        Self {
            contradicted: self.contradicted || derived.contradicted,
            ..derived
        }
    }

    /// The enclosure, unless bounds behind it contradict each other.
    ///
    /// # Errors
    /// [`Error::Contradiction`], a defect of this crate.
    pub fn certified(self) -> Result<Self> {
        if self.contradicted {
            Err(Error::Contradiction)
        } else {
            Ok(self)
        }
    }

    /// From bounds on log(1 − δ); NaN counts as no bound.
    pub fn of_complement_logs(lower: f64, upper: f64) -> Self {
        // The smaller of NaN and 0 is 0, which is no bound on the upper side only.
        let lower = if lower.is_nan() { f64::NEG_INFINITY } else { lower };
        let complement = |log: f64| -log.min(0.0).exp_m1();
        // The complement and its logarithm are rounded once each; that of 0 is exact.
        let moved = |log: f64, sign: f64| {
            let found = complement(log).ln();
            let error = f64::EPSILON * (2.0 + found.abs());
            if found.is_finite() { found + sign * error } else { found }
        };
        Self::of_logs(moved(upper, -1.0), moved(lower, 1.0))
    }

    /// Lower bound on δ, rounded down.
    pub fn lower(self) -> f64 {
        let value = self.log_lower.exp();
        (value * (1.0 - 8.0 * f64::EPSILON) - f64::from_bits(1)).max(0.0)
    }

    /// Upper bound on δ, rounded up.
    pub fn upper(self) -> f64 {
        if self.log_upper == f64::NEG_INFINITY {
            return 0.0;
        }
        let value = self.log_upper.exp();
        (value * (1.0 + 8.0 * f64::EPSILON) + f64::from_bits(1)).min(1.0)
    }

    /// log of upper over lower: the relative width while that is small.
    pub fn width(self) -> f64 {
        if self.log_upper == self.log_lower {
            0.0
        } else {
            self.log_upper - self.log_lower
        }
    }

    /// True if the number is known to differ from `hint` by a factor of 2 or more.
    pub fn is_far_from(self, hint: Option<f64>) -> bool {
        const FACTOR: f64 = std::f64::consts::LN_2;
        hint.is_some_and(|hint| self.log_upper < hint - FACTOR || self.log_lower > hint + FACTOR)
    }

    /// True if all of the enclosure is at most the number whose logarithm is `hint`, or all of it is above.
    pub(crate) fn is_on_one_side_of(self, hint: Option<f64>) -> bool {
        hint.is_some_and(|hint| self.log_upper <= hint || self.log_lower > hint)
    }

    /// The intersection of two enclosures of one number.
    ///
    /// Where they are disjoint by rounding alone, the result is their union; where they are disjoint by more, it is contradicted.
    #[must_use]
    pub fn meet(self, other: Self) -> Self {
        let both = self.with_logs(self.log_lower.max(other.log_lower), self.log_upper.min(other.log_upper));
        let contradicted = both.contradicted || other.contradicted;
        if self.log_lower.max(other.log_lower) <= self.log_upper.min(other.log_upper) {
            return Self { contradicted, ..both };
        }
        Self {
            log_lower: self.log_lower.min(other.log_lower),
            log_upper: self.log_upper.max(other.log_upper),
            contradicted,
        }
    }

    /// Enclosure of the larger of two numbers.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            log_lower: self.log_lower.max(other.log_lower),
            log_upper: self.log_upper.max(other.log_upper),
            contradicted: self.contradicted || other.contradicted,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_cross_are_an_error_beyond_the_last_bits() {
        let interval = |lower, upper| Ok(Interval { lower, upper });
        assert_eq!(Interval::of_bounds(1.0, 2.0), interval(1.0, 2.0));
        assert_eq!(Interval::of_bounds(0.0, f64::INFINITY), interval(0.0, f64::INFINITY));
        assert_eq!(Interval::of_bounds(1.0 + 1e-14, 1.0), interval(1.0, 1.0 + 1e-14));
        for (lower, upper) in [(1.0 + 1e-9, 1.0), (1e-300, 0.0), (f64::INFINITY, 1e9)] {
            assert_eq!(
                Interval::of_bounds(lower, upper),
                Err(Error::Contradiction),
                "{lower} {upper}"
            );
        }
    }

    #[test]
    fn what_is_not_a_number_is_no_bound() {
        assert_eq!(Enclosure::of_logs(f64::NAN, f64::NAN), Enclosure::TRIVIAL);
        assert_eq!(Enclosure::of_complement_logs(f64::NAN, f64::NAN), Enclosure::TRIVIAL);
        // 1 − δ is at most 1/2, and at least 1/2.
        let half = 0.5f64.ln();
        let least = Enclosure::of_complement_logs(f64::NAN, half);
        assert!(
            least.log_upper == 0.0 && (least.lower() - 0.5).abs() < 1e-14,
            "{least:?}"
        );
        let most = Enclosure::of_complement_logs(half, f64::NAN);
        assert!(most.lower() == 0.0 && (most.upper() - 0.5).abs() < 1e-14, "{most:?}");
    }

    /// Two steps of rounding at either end: δ itself must lie between the ends that are handed out.
    #[test]
    fn the_ends_of_an_enclosure_are_rounded_outwards() {
        for log in [-1e-17f64, -0.3, -7.7, -300.0, -720.0, -744.0] {
            let found = Enclosure::of_logs(log, log);
            let value = log.exp();
            assert!(found.lower() < value || value == 0.0, "{log}");
            assert!(found.upper() > value || value == 1.0, "{log}");
            assert!(
                found.upper() - found.lower() <= 32.0 * f64::EPSILON * value + 1e-323,
                "{log}"
            );
        }
        assert_eq!((Enclosure::ZERO.lower(), Enclosure::ZERO.upper()), (0.0, 0.0));
    }

    #[test]
    fn the_larger_and_the_smaller_of_two_numbers_are_taken_end_by_end() {
        let (one, other) = (Interval { lower: 1.0, upper: 4.0 }, Interval { lower: 2.0, upper: 3.0 });
        assert_eq!(one.max(other), Interval { lower: 2.0, upper: 4.0 });
        assert_eq!(one.min(other), Interval { lower: 1.0, upper: 3.0 });
    }

    #[test]
    fn enclosures_that_meet_are_cut_and_those_that_miss_by_a_bit_are_joined() {
        let wide = Enclosure::of_logs(-9.0, -7.0);
        let narrow = Enclosure::of_logs(-8.0, -6.0);
        assert_eq!(wide.meet(narrow), Enclosure::of_logs(-8.0, -7.0));
        let (low, high) = (Enclosure::of_logs(-9.0, -8.0), Enclosure::of_logs(-8.0 + 1e-15, -7.0));
        assert_eq!(low.meet(high), Enclosure::of_logs(-9.0, -7.0));
        assert!(low.meet(high).certified().is_ok());
    }

    #[test]
    fn enclosures_that_miss_each_other_are_an_error_whatever_is_made_of_them() {
        let (low, high) = (Enclosure::of_logs(-9.0, -8.0), Enclosure::of_logs(-7.9, -7.0));
        for wrong in [
            low.meet(high),
            high.meet(low),
            Enclosure::ZERO.meet(high),
            Enclosure::of_logs(-7.9, -8.0),
        ] {
            assert_eq!(wrong.certified(), Err(Error::Contradiction));
            for made in [
                wrong.meet(Enclosure::TRIVIAL),
                Enclosure::TRIVIAL.meet(wrong),
                wrong.max(Enclosure::of_logs(-1.0, -0.5)),
                Enclosure::ZERO.max(wrong),
                wrong.with_logs(-3.0, -2.0),
            ] {
                assert_eq!(made.certified(), Err(Error::Contradiction), "{made:?}");
            }
        }
        assert_eq!(low.certified(), Ok(low));
    }

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

    /// log(1 − e^x) by mpmath, in two numbers: the nearest one and what it leaves.
    #[test]
    fn complements_are_rounded_outwards() {
        for (log, head, rest) in [
            (-2.038_324_073_523_145_4e-260, -597.959_996_240_825_3, -1.523_513_4e-14),
            (-1.698_717_188_284_648e-46, -105.389_040_906_640_82, -2.717_386_2e-15),
            (-1.356_393_478_338_354_7e-71, -163.178_712_279_386_13, -3.372_740_1e-15),
            (-40.0, -4.248_354_255_291_589e-18, -1.333_989_6e-34),
            (-0.5, -0.932_752_129_567_188_6, -1.261_646_2e-17),
        ] {
            let found = Enclosure::of_complement_logs(log, log);
            // The difference of neighbouring numbers is exact.
            assert!(
                found.log_lower - head <= rest && found.log_upper - head >= rest,
                "{log} {found:?}"
            );
            assert!(
                found.width() <= 8.0 * f64::EPSILON * (2.0 + f64::abs(head)),
                "{log} {found:?}"
            );
        }
        assert_eq!(Enclosure::of_complement_logs(0.0, 0.0), Enclosure::ZERO);
        assert_eq!(
            Enclosure::of_complement_logs(f64::NEG_INFINITY, 0.0),
            Enclosure::TRIVIAL
        );
    }
}
