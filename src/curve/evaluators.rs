//! Contours and grids of one truncated law: each is computed for one ε, and encloses δ at every ε.
//!
//! With p the probability of the outputs that were truncated and δ' the curve of the law without them, δ' ≤ δ ≤ δ' + p.

use crate::curve::singular_mass::rounded;
use crate::grid::composition::Grid;
use crate::interval::Enclosure;
use crate::inversion::contour_sum::ContourSum;
use crate::special::log_space::{LogSum, log_difference};
use std::sync::Arc;

/// Number of contours, and of grids, that are kept: the latest ones. More take more memory and more time at every later ε.
const CAPACITY: usize = 8;

/// Contours and grids of one truncated law.
#[derive(Debug)]
pub(crate) struct Evaluators {
    contours: Vec<Arc<ContourSum>>,
    grids: Vec<Grid>,
    log_truncated_mass: f64,
}

impl Evaluators {
    /// No evaluators yet, of a law without outputs that have the probability e^`log_truncated_mass` under P.
    pub(crate) fn new(log_truncated_mass: f64) -> Self {
        Self {
            contours: Vec::new(),
            grids: Vec::new(),
            log_truncated_mass,
        }
    }

    /// log of the probability of the outputs that were truncated.
    pub(crate) fn log_truncated_mass(&self) -> f64 {
        self.log_truncated_mass
    }

    /// Adds a contour, if it is a new one; the oldest makes room.
    pub(crate) fn add_contour(&mut self, contour: Arc<ContourSum>) {
        if !self.contours.iter().any(|known| Arc::ptr_eq(known, &contour)) {
            add(&mut self.contours, contour);
        }
    }

    /// Adds a grid; the oldest makes room.
    pub(crate) fn add_grid(&mut self, grid: Grid) {
        add(&mut self.grids, grid);
    }

    /// Removes all of them.
    pub(crate) fn clear(&mut self) {
        self.contours.clear();
        self.grids.clear();
    }

    /// Returns all evaluators and leaves none behind.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.log_truncated_mass))
    }

    /// δ' of the truncated law at ε, as far as these evaluators know it.
    pub(crate) fn truncated_delta(&self, epsilon: f64) -> Enclosure {
        let contours = self.contours.iter().map(|contour| self.by_contour(contour, epsilon));
        let grids = self.grids.iter().map(|grid| grid.delta(epsilon));
        contours.chain(grids).fold(Enclosure::TRIVIAL, Enclosure::meet)
    }

    /// δ' of the truncated law at ε by one contour of it.
    ///
    /// At c < 0 it gives 1 − μ + δ' with μ the mass of the law, which is 1 − p ≤ μ ≤ 1 (Proposition 8 of
    /// `docs/theory/inversion.md`): its lower end may be p above δ'.
    pub(crate) fn by_contour(&self, contour: &ContourSum, epsilon: f64) -> Enclosure {
        let found = contour.delta(epsilon);
        if !contour.is_below_zero() {
            return found;
        }
        let lower = log_difference_below(found.log_lower, self.log_truncated_mass);
        found.with_logs(lower, found.log_upper)
    }

    /// δ of the whole law from δ' of the truncated one: [δ', δ' + p].
    pub(crate) fn whole(&self, truncated: Enclosure) -> Enclosure {
        let mut upper = LogSum::default();
        upper.add(truncated.log_upper);
        upper.add(self.log_truncated_mass);
        truncated.with_logs(truncated.log_lower, rounded(upper.ln(), 1.0))
    }

    /// δ of the whole law at ε, as far as these evaluators know it.
    pub(crate) fn delta(&self, epsilon: f64) -> Enclosure {
        self.whole(self.truncated_delta(epsilon))
    }
}

/// log(e^a − e^b), rounded down; −∞ where that is not positive.
pub(super) fn log_difference_below(a: f64, b: f64) -> f64 {
    let difference = log_difference(a, b);
    if b == f64::NEG_INFINITY {
        return difference;
    }
    rounded(difference, -1.0)
}

/// Appends `new` in place of the oldest where there is no room.
fn add<T>(all: &mut Vec<T>, new: T) {
    if all.len() >= CAPACITY {
        all.remove(0);
    }
    all.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The upper end is δ' + p and the lower end δ', in numbers that an `f64` adds exactly.
    #[test]
    fn truncated_outputs_are_added_to_the_upper_end_in_full() {
        let evaluators = Evaluators::new(0.125f64.ln());
        let whole = evaluators.whole(Enclosure::of_logs(0.25f64.ln(), 0.5f64.ln()));
        assert!((whole.log_lower - 0.25f64.ln()).abs() < 1e-15);
        assert!(whole.log_upper >= 0.625f64.ln() && whole.log_upper < 0.625f64.ln() + 1e-14);
        // log(2e^−600), with the rounding of a number of this size.
        let exact = -600.0 + std::f64::consts::LN_2;
        let small = Evaluators::new(-600.0).whole(Enclosure::of_logs(-600.0, -600.0));
        assert!(small.log_upper >= exact + 1e-13 && small.log_upper < exact + 1e-12);
    }

    #[test]
    fn a_difference_of_logarithms_is_rounded_down() {
        let found = log_difference_below(0.5f64.ln(), 0.125f64.ln());
        assert!(found <= 0.375f64.ln() && found > 0.375f64.ln() - 1e-14);
        assert_eq!(log_difference_below(-1.0, f64::NEG_INFINITY), -1.0);
        // −600 + log(1 − e^{−1}) and −600 + log(1 − e^{−2⁻³⁰}) by mpmath in 30 digits: sums of that size are rounded by 1e-13.
        for (b, exact, wide) in [
            (-601.0, -600.458_675_145_387_1, 1e-12),
            (-600.0 - 2f64.powi(-30), -620.794_415_417_264, 1e-11),
        ] {
            let found = log_difference_below(-600.0, b);
            assert!(found <= exact - 1e-13 && found > exact - wide, "{b}: {found} {exact}");
        }
        assert_eq!(log_difference_below(-2.0, -1.0), f64::NEG_INFINITY);
    }

    #[test]
    fn evaluators_that_are_taken_keep_the_mass_that_was_truncated() {
        let mut evaluators = Evaluators::new(-7.0);
        assert_eq!(evaluators.take().log_truncated_mass(), -7.0);
        assert_eq!(evaluators.log_truncated_mass(), -7.0);
        assert_eq!(evaluators.delta(1.0), Enclosure::TRIVIAL);
    }
}
