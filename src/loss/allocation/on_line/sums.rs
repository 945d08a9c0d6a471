//! Sums over the points of a rule for one batch, and bounds on their rounding.

use crate::approx::Approx;
use crate::special::compensated_sum::CompensatedSum;

/// |λ| up to which e^{λ(Y − c)} − 1 is summed and not e^{λY}.
pub(super) const SMALL_TILT: f64 = 0.1;
/// Relative rounding of the weights of the rule.
const ROUNDING_OF_WEIGHTS: f64 = 64.0 * f64::EPSILON;
/// Relative rounding of a compensated sum.
pub(super) const ADDITIONS: f64 = 2.0 * f64::EPSILON;

/// A point of the rule.
pub(super) struct Point {
    /// The normal variable.
    pub(super) g: f64,
    /// Y, with a bound on its relative error.
    pub(super) ratio: Approx,
    /// Y − c.
    pub(super) place: Approx,
    /// The weight without the tilt, and log of the density with the tilt.
    pub(super) weight: f64,
    pub(super) log: f64,
}

/// Sums over the nodes that bound what rounding changes of f.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounding {
    /// Σ W·d, with the relative error d of each weight, and Σ W·d·|Y − c|.
    pub(super) weights: f64,
    pub(super) weighted_places: f64,
    /// Σ W·|Y − c|, and Σ W·d, with the error d of each place.
    pub(super) size: f64,
    pub(super) places: f64,
}

/// Sums over the points of a rule.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Tilted weights, and these times Y and Y², over a common factor.
    pub(super) moments: [CompensatedSum; 3],
    /// Weights times e^{λ(Y − c)} − 1 for small λ, and what rounding changes of it.
    pub(super) change: CompensatedSum,
    pub(super) change_rounding: f64,
    pub(super) rounding: Rounding,
}

impl Sums {
    /// Adds a point, and returns its tilted weight over e^`scale`.
    pub(super) fn add(&mut self, point: &Point, (lambda, scale): (f64, f64)) -> f64 {
        let (g, ratio, place) = (point.g, point.ratio.value, point.place.value);
        let value = point.weight * (point.log - scale).exp();
        let of_weight = ROUNDING_OF_WEIGHTS + f64::EPSILON * (16.0 + 4.0 * g * g);
        let wrong =
            of_weight + f64::EPSILON * scale.abs() + (lambda * ratio).abs() * (point.ratio.error + f64::EPSILON);
        for (sum, factor) in self.moments.iter_mut().zip([1.0, ratio, ratio * ratio]) {
            sum.add(value * factor);
        }
        self.rounding.weights += value * wrong;
        self.rounding.weighted_places += value * wrong * place.abs();
        self.rounding.size += value * place.abs();
        self.rounding.places += value * point.place.error;
        if lambda.abs() <= SMALL_TILT {
            let weight = point.weight * (-0.5 * g * g).exp();
            let term = weight * (lambda * place).exp_m1();
            self.change.add(term);
            let of_place = weight * (lambda * place).exp() * (lambda * point.place.error).abs();
            self.change_rounding += term.abs() * (of_weight + 4.0 * f64::EPSILON + ADDITIONS) + of_place;
        }
        value
    }
}
