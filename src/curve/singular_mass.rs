//! Steps whose outputs may reveal whether a member was in the batch, summed over a run.
//!
//! Let κ be the probability, under P, that the outputs of all steps are possible under Q, and κ' that, under Q, they are possible under P. Any
//! other output reveals that it was P, so that with the common part's conditional laws, which have the curve δ',
//!
//! > δ(ε) = (1 − κ) + κ·δ'(ε − log(κ/κ')).

use crate::interval::Enclosure;

/// Roundings in a sum over one kind of steps and in δ; each further kind adds one.
pub(crate) const ROUNDINGS: f64 = 8.0;

/// The singular mass of P and the offset of the other losses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SingularMass {
    /// log κ: 1 − κ is P's singular mass.
    log_common: f64,
    /// log(κ/κ').
    offset: f64,
    /// The sum of the sizes of its terms, which may cancel where a group is added in some steps and removed in others.
    offset_size: f64,
    /// Relative error of these sums, the offset's in relation to the sizes, and of what is computed from them.
    rounding: f64,
}

impl SingularMass {
    /// None, before `kinds` kinds of steps are added.
    pub(crate) fn none(kinds: usize) -> Self {
        Self {
            log_common: 0.0,
            offset: 0.0,
            offset_size: 0.0,
            rounding: f64::EPSILON * (ROUNDINGS + kinds as f64),
        }
    }

    /// Adds `steps` steps, each with that log κ and that log(κ/κ').
    pub(crate) fn add(&mut self, steps: f64, log_common: f64, offset: f64) {
        self.log_common += steps * log_common;
        self.offset += steps * offset;
        self.offset_size += (steps * offset).abs();
    }

    /// log(κ/κ'), by which the losses of the common part are increased.
    pub(crate) fn offset(&self) -> f64 {
        self.offset
    }

    /// A bound on the rounding error of the offset.
    pub(crate) fn offset_error(&self) -> f64 {
        self.rounding * self.offset_size
    }

    /// A bound on `loss` plus the offset: a loss of the whole run from one of the common part.
    pub(crate) fn with_offset(&self, loss: f64) -> f64 {
        let rounding = 4.0 * f64::EPSILON * (loss.abs() + self.offset.abs());
        loss + self.offset + (self.offset_error() + rounding)
    }

    /// The ends of an interval that contains ε − `offset`: all of them are the same where there is no offset.
    pub(crate) fn without_offset(&self, epsilon: f64) -> (f64, f64) {
        let inner = epsilon - self.offset;
        if self.offset_size == 0.0 {
            return (inner, inner);
        }
        let rounding = self.offset_error() + f64::EPSILON * inner.abs();
        (inner - rounding, inner + rounding)
    }

    /// Relative rounding error of the sums.
    pub(crate) fn rounding(&self) -> f64 {
        self.rounding
    }

    /// True if κ = κ' = 1: every output of P is possible under Q and the reverse, so that δ = δ'.
    pub(crate) fn is_absent(&self) -> bool {
        self.offset_size == 0.0 && self.log_common == 0.0
    }

    /// True if P has outputs that Q does not have.
    pub(crate) fn is_positive(&self) -> bool {
        self.log_common < 0.0
    }

    /// True if some step reveals P for certain: δ = 1 at every ε.
    pub(crate) fn is_total(&self) -> bool {
        self.log_common == f64::NEG_INFINITY || self.offset == f64::INFINITY
    }

    /// log(1 − κ), below which δ is at no ε.
    pub(crate) fn log_mass(&self) -> f64 {
        (-self.log_common.exp_m1()).ln()
    }

    /// δ of the run from δ' of the common part at ε − `offset`.
    pub(crate) fn with_common(&self, common: Enclosure) -> Enclosure {
        if self.log_common == 0.0 {
            return common;
        }
        let singular = -self.log_common.exp_m1();
        let with = |log: f64, sign: f64| {
            let slack = sign * self.rounding * (2.0 + self.log_common.abs());
            let common = rounded(self.log_common + log, sign).exp();
            rounded(((singular + common) * (1.0 + slack)).ln(), sign)
        };
        common.with_logs(with(common.log_lower, -1.0), with(common.log_upper, 1.0))
    }

    /// δ' at ε − `offset`, from `curve` at both ends of what rounding leaves open, as it falls.
    pub(crate) fn common_at(&self, epsilon: f64, mut curve: impl FnMut(f64) -> Enclosure) -> Enclosure {
        let (least, largest) = self.without_offset(epsilon);
        let above = curve(least);
        if least == largest {
            return above;
        }
        let below = curve(largest);
        above.max(below).with_logs(below.log_lower, above.log_upper)
    }
}

/// δ of a loss that is 0 for certain, at an ε between two numbers: 1 − e^ε if that is positive.
pub(crate) fn delta_of_nothing((least, largest): (f64, f64)) -> Enclosure {
    let at = |epsilon: f64| (-epsilon.exp_m1()).max(0.0).ln();
    Enclosure::of_logs(rounded(at(largest), -1.0), rounded(at(least), 1.0))
}

/// A logarithm, or a sum of two, rounded to the side of the sign: the error of both, and that of what it is the logarithm of, which is a few units
/// in the last place.
pub(crate) fn rounded(log: f64, sign: f64) -> f64 {
    if log.is_finite() {
        log + sign * 4.0 * f64::EPSILON * (1.0 + log.abs())
    } else {
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two steps of which each reveals with probability 1/4, in numbers that an `f64` adds exactly.
    #[test]
    fn the_singular_mass_of_several_steps_is_that_of_at_least_one() {
        let mut mass = SingularMass::none(1);
        mass.add(2.0, 0.75f64.ln(), 0.0);
        assert!((mass.log_mass() - 0.4375f64.ln()).abs() < 1e-15);
        let whole = mass.with_common(Enclosure::of_logs(0.25f64.ln(), 0.5f64.ln()));
        let (low, high) = (0.4375 + 0.5625 * 0.25f64, 0.4375 + 0.5625 * 0.5f64);
        assert!(whole.log_lower <= low.ln() && whole.log_lower > low.ln() - 1e-14);
        assert!(whole.log_upper >= high.ln() && whole.log_upper < high.ln() + 1e-14);
    }

    fn of_offset(value: f64) -> SingularMass {
        let mut mass = SingularMass::none(1);
        mass.add(1.0, 0.0, value);
        mass
    }

    fn constant(mass: &SingularMass, epsilon: f64) -> Enclosure {
        delta_of_nothing(mass.without_offset(epsilon))
    }

    #[test]
    fn a_constant_loss_has_the_curve_of_its_definition() {
        for (epsilon, value) in [(0.0, 0.5f64), (0.25, 3.0), (-1.0, -0.5), (2.0, 2.0 + 1e-9)] {
            let exact = -(epsilon - value).exp_m1();
            let found = constant(&of_offset(value), epsilon);
            assert!(found.lower() <= exact && exact <= found.upper(), "{epsilon} {value}");
        }
        assert_eq!(constant(&of_offset(0.5), 1.0), Enclosure::ZERO);
        assert_eq!(delta_of_nothing((0.0, 0.0)), Enclosure::ZERO);
    }

    /// Terms of both signs that cancel: the error is that of the terms, whatever is left of them.
    #[test]
    fn the_error_of_an_offset_is_that_of_its_terms() {
        let mut mass = SingularMass::none(2);
        mass.add(1000.0, 0.0, 0.7);
        mass.add(1.0, 0.0, -700.0);
        // Both terms are rounded by half a unit in the last place.
        assert!(mass.offset().abs() <= 1e-12 && mass.offset_error() >= 700.0 * f64::EPSILON);
        let (least, largest) = mass.without_offset(1e-3);
        assert!(least <= 1e-3 - 700.0 * f64::EPSILON && largest >= 1e-3 + 700.0 * f64::EPSILON);
        assert!(largest - least < 1e-11);
        assert!(mass.with_offset(2.0) >= 2.0 + 700.0 * f64::EPSILON);
        assert_eq!(SingularMass::none(5).without_offset(0.3), (0.3, 0.3));
    }

    /// The upper end of a falling curve is taken at the least ε that rounding leaves open and the lower one at the largest.
    #[test]
    fn both_ends_of_the_common_part_are_those_at_the_ends_of_epsilon() {
        let mass = of_offset(500.0);
        let found = mass.common_at(501.0, |epsilon| Enclosure::of_logs(-epsilon, -epsilon));
        let wrong = 500.0 * f64::EPSILON;
        assert!(found.log_upper >= -1.0 + wrong && found.log_lower <= -1.0 - wrong);
        assert!(found.width() < 1e-11);
        let without = SingularMass::none(1).common_at(501.0, |epsilon| Enclosure::of_logs(-epsilon, -epsilon));
        assert_eq!(without, Enclosure::of_logs(-501.0, -501.0));
    }

    /// δ' of e^−600 beside a singular mass of 1e-300: log κ + log δ' is rounded by 1e-13, and so is the logarithm of δ.
    #[test]
    fn sums_of_logarithms_are_rounded_outwards() {
        let mut mass = SingularMass::none(1);
        mass.add(1.0, -1e-300, 0.0);
        let whole = mass.with_common(Enclosure::of_logs(-600.0, -600.0));
        // log(1e-300 + e^−600) is −600 + log1p(1e-300·e^600), e^600 = 3.773e260.
        assert!(whole.log_lower <= -600.0 - 1e-13 && whole.log_upper >= -600.0 + 1e-13);
        assert!(whole.width() < 1e-11);
    }

    /// A sum that is wrong by its rounding error still gives an enclosure of the exact δ.
    #[test]
    fn rounding_of_the_sums_is_covered() {
        let value = 1.0 + 1e-8;
        let mut mass = of_offset(value);
        mass.rounding = 1e-10;
        let exact = |value: f64| -(1.0 - value).exp_m1();
        let found = constant(&mass, 1.0);
        let wrong = 0.9 * mass.rounding * value;
        assert!(found.lower() <= exact(value - wrong) && exact(value + wrong) <= found.upper());
        let mut mass = SingularMass::none(0);
        mass.add(1.0, -30.0, 0.0);
        let common = Enclosure::of_logs(-1.0, -1.0);
        let whole = mass.with_common(common);
        // log κ may be off by `rounding` of itself, and so may κ and what is multiplied by it.
        let slack = mass.rounding() * 31.0;
        assert!(whole.upper() / whole.lower() - 1.0 >= 2.0 * slack);
    }
}
