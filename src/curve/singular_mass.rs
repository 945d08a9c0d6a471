//! Steps whose outputs may reveal whether a member was in the batch, summed over a run.
//!
//! Let P have an output that Q has too with probability κ in every step of a run, and Q one that P has too with probability κ'. Any other
//! output reveals that it was P, so that with the common part's conditional laws, which have the curve δ',
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
    /// Relative error of these sums and of what is computed from them.
    rounding: f64,
}

impl SingularMass {
    /// None, before `kinds` kinds of steps are added.
    pub(crate) fn none(kinds: usize) -> Self {
        Self {
            log_common: 0.0,
            offset: 0.0,
            rounding: f64::EPSILON * (ROUNDINGS + kinds as f64),
        }
    }

    /// Adds `steps` steps, each with that log κ and that log(κ/κ').
    pub(crate) fn add(&mut self, steps: f64, log_common: f64, offset: f64) {
        self.log_common += steps * log_common;
        self.offset += steps * offset;
    }

    /// log(κ/κ'), by which the losses of the common part are increased.
    pub(crate) fn offset(&self) -> f64 {
        self.offset
    }

    /// Relative rounding error of the sums.
    pub(crate) fn rounding(&self) -> f64 {
        self.rounding
    }

    /// True if P and Q have the same outputs with the same probabilities, so that δ = δ'.
    pub(crate) fn is_absent(&self) -> bool {
        self.offset == 0.0 && self.log_common == 0.0
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
        let with = |log: f64, slack: f64| ((singular + (self.log_common + log).exp()) * (1.0 + slack)).ln();
        let slack = self.rounding * (2.0 + self.log_common.abs());
        common.with_logs(with(common.log_lower, -slack), with(common.log_upper, slack))
    }
}

/// δ of a loss that equals `value` for certain, a sum with that relative rounding error: 1 − e^{ε − value} if that is positive.
pub(crate) fn delta_of_constant(epsilon: f64, value: f64, rounding: f64) -> Enclosure {
    let rounding = rounding * (epsilon.abs() + value.abs());
    let at = |gap: f64| (-gap.exp_m1()).max(0.0).ln();
    let (lower, upper) = (at(epsilon - value + rounding), at(epsilon - value - rounding));
    Enclosure::of_logs(lower - 1e-15, upper + 1e-15)
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

    #[test]
    fn a_constant_loss_has_the_curve_of_its_definition() {
        for (epsilon, value) in [(0.0, 0.5f64), (0.25, 3.0), (-1.0, -0.5), (2.0, 2.0 + 1e-9)] {
            let exact = -(epsilon - value).exp_m1();
            let found = delta_of_constant(epsilon, value, 8.0 * f64::EPSILON);
            assert!(found.lower() <= exact && exact <= found.upper(), "{epsilon} {value}");
        }
        assert_eq!(delta_of_constant(1.0, 0.5, 1e-15), Enclosure::ZERO);
    }

    /// A sum that is wrong by its rounding error still gives an enclosure of the exact δ, where half the error would not.
    #[test]
    fn rounding_of_the_sums_is_covered() {
        let (epsilon, value, rounding) = (1.0, 1.0 + 1e-8, 1e-10);
        let exact = |value: f64| -(epsilon - value).exp_m1();
        let found = delta_of_constant(epsilon, value, rounding);
        let wrong = 0.9 * rounding * (epsilon + value);
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
