//! Certified intervals for δ, kept as logarithms so that 1e-300 and 1 − 1e-20 lose nothing.

use crate::error::{Error, LAST_BITS, Result};

/// What is wanted of an enclosure of log δ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim {
    /// Width that contours are laid out for, so that they serve later questions.
    pub(crate) width: f64,
    /// Width that is good enough now.
    pub(crate) enough: f64,
    /// Where only the side of this number matters, unless log δ is close to it.
    pub(crate) hint: Option<f64>,
    /// Bounds are tried before δ is computed; without a hint they always are.
    pub(crate) bounds_first: bool,
}

impl Aim {
    /// A relative width of δ and nothing else.
    pub(crate) fn of_width(width: f64) -> Self {
        Self {
            width,
            enough: width,
            hint: None,
            bounds_first: true,
        }
    }

    /// A question that only asks on which side of `hint` log δ lies, or for that width where it is close to it.
    pub(crate) fn beside(hint: f64, width: f64) -> Self {
        Self {
            hint: Some(hint),
            ..Self::of_width(width)
        }
    }

    /// True if nothing more need be found.
    pub(crate) fn is_met(&self, found: Enclosure) -> bool {
        // A contradiction ends the search: nothing more can mend it.
        found.contradicted || found.width() <= self.enough || found.is_far_from(self.hint)
    }

    /// log of the part of δ that may be neglected.
    pub(crate) fn log_share(&self) -> f64 {
        self.width.min(1.0).ln()
    }
}

/// log δ is in [lower, upper].
///
/// Where two enclosures of one number have nothing in common, at least one of them is wrong. What comes of them is marked
/// as contradicted, and stays so in whatever is made of it, until [`Enclosure::certified`] turns it into an error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enclosure {
    /// Lower bound on log δ; −∞ for none.
    pub log_lower: f64,
    /// Upper bound on log δ, at most 0.
    pub log_upper: f64,
    /// True if bounds that this was made of contradict each other.
    contradicted: bool,
}

impl Enclosure {
    /// δ = 0.
    pub const ZERO: Self = Self {
        log_lower: f64::NEG_INFINITY,
        log_upper: f64::NEG_INFINITY,
        contradicted: false,
    };
    /// Nothing is known.
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

    /// Bounds that were derived from this enclosure: contradicted if it is.
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

    /// From bounds on log(1 − δ).
    pub fn of_complement_logs(lower: f64, upper: f64) -> Self {
        let complement = |log: f64| -log.min(0.0).exp_m1();
        Self::of_logs(
            (complement(upper) * (1.0 - f64::EPSILON)).ln(),
            (complement(lower) * (1.0 + f64::EPSILON)).ln(),
        )
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

    /// What both enclosures of one number allow.
    ///
    /// Where they miss each other by rounding alone, that is all that either allows; where they miss by more, the result is
    /// contradicted.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
