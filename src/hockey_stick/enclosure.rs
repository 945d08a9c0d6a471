//! Certified intervals for δ, kept as logarithms so that 1e-300 and 1 − 1e-20 lose nothing.

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
    pub(super) fn of_width(width: f64) -> Self {
        Self {
            width,
            enough: width,
            hint: None,
            bounds_first: true,
        }
    }

    /// The same where only the side of log δ = `hint` matters, from which it may be far.
    pub(super) fn beside(hint: f64, width: f64) -> Self {
        Self {
            hint: Some(hint),
            ..Self::of_width(width)
        }
    }

    /// True if nothing more need be found.
    pub(super) fn is_met(&self, found: Enclosure) -> bool {
        found.width() <= self.enough || found.is_far_from(self.hint)
    }

    /// log of the part of δ that may be neglected.
    pub(super) fn log_share(&self) -> f64 {
        self.width.min(1.0).ln()
    }
}

/// log δ is in [lower, upper].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enclosure {
    /// Lower bound on log δ; −∞ for none.
    pub log_lower: f64,
    /// Upper bound on log δ, at most 0.
    pub log_upper: f64,
}

impl Enclosure {
    /// δ = 0.
    pub const ZERO: Self = Self {
        log_lower: f64::NEG_INFINITY,
        log_upper: f64::NEG_INFINITY,
    };
    /// Nothing is known.
    pub const TRIVIAL: Self = Self {
        log_lower: f64::NEG_INFINITY,
        log_upper: 0.0,
    };

    /// From bounds on log δ; NaN counts as no bound.
    pub fn of_logs(lower: f64, upper: f64) -> Self {
        Self {
            log_lower: if lower.is_nan() {
                f64::NEG_INFINITY
            } else {
                lower.min(0.0)
            },
            log_upper: if upper.is_nan() { 0.0 } else { upper.min(0.0) },
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
    /// Enclosures of one number have something in common. Should an error in this library make two contradict each
    /// other, the answer is all that lies between them and not a bound that one of them refutes.
    pub fn meet(self, other: Self) -> Self {
        let both = Self {
            log_lower: self.log_lower.max(other.log_lower),
            log_upper: self.log_upper.min(other.log_upper),
        };
        if both.log_lower <= both.log_upper {
            return both;
        }
        // The last bits of the logarithms may differ.
        debug_assert!(
            both.log_lower <= both.log_upper + 1e-12 * (1.0 + both.log_upper.abs()),
            "{self:?} and {other:?} contradict each other"
        );
        Self {
            log_lower: self.log_lower.min(other.log_lower),
            log_upper: self.log_upper.max(other.log_upper),
        }
    }

    /// Enclosure of the larger of two numbers.
    pub fn max(self, other: Self) -> Self {
        Self {
            log_lower: self.log_lower.max(other.log_lower),
            log_upper: self.log_upper.max(other.log_upper),
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
    }
}
