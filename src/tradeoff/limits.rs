//! Simple trade-off functions below a curve, which exist for bounded and for Gaussian losses.

/// The closest of some families of trade-off functions that are known to be nowhere above a curve f.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    /// Upper bound on the μ with f ≥ G_μ; infinite if none is known.
    pub(super) distance: f64,
    /// Upper bound on the ε with f ≥ f_{ε,0}, the largest |loss|; infinite if none is known.
    pub(super) epsilon: f64,
    /// Upper bound on 1 − f(0): the probability of outcomes that only one hypothesis has.
    pub(super) singular: f64,
}

impl Limits {
    /// Limits of the curve of no information, α ↦ 1 − α.
    pub(super) const NO_INFORMATION: Self = Self {
        distance: 0.0,
        epsilon: 0.0,
        singular: 0.0,
    };

    /// Limits of a curve of unbounded loss whose outcomes of one hypothesis alone have the probability `singular`.
    pub(super) fn singular(singular: f64) -> Self {
        Self {
            distance: f64::INFINITY,
            epsilon: f64::INFINITY,
            singular,
        }
    }

    /// Limits of a curve above G_μ of unbounded loss.
    pub(super) fn gaussian(distance: f64) -> Self {
        Self {
            distance,
            epsilon: f64::INFINITY,
            singular: 0.0,
        }
    }

    /// Limits of a curve above f_{ε,0}.
    pub(super) fn pure(epsilon: f64) -> Self {
        Self {
            distance: super::closed_forms::distance_of_pure(epsilon),
            epsilon,
            singular: 0.0,
        }
    }
}
