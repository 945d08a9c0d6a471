//! The noise of a step.

/// What is added to a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mechanism {
    /// N(0, σ²), σ ≥ 0.
    Gaussian {
        /// σ.
        noise_multiplier: f64,
    },
    /// Laplace noise on a one-dimensional query.
    Laplace {
        /// b > 0, in units of the clipping norm.
        scale: f64,
    },
    /// Randomised response on a bit that is set if a member of the group is in the batch.
    RandomizedResponse {
        /// Probability of the true answer, in (0.5, 1).
        keep: f64,
    },
}
