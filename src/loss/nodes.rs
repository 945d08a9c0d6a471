//! A discrete law that stands for a privacy loss: the nodes of a certified quadrature rule.

use crate::approx::Approx;
use crate::loss::privacy_loss::TiltedMoments;

/// A discrete law that has the moments of the loss under P tilted by e^{cℓ}.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nodes {
    /// The tilt c.
    pub c: f64,
    /// Losses.
    pub losses: Vec<f64>,
    /// Tilted weights; with `atom` they sum to 1.
    pub weights: Vec<f64>,
    /// Tilted weight of the loss 0.
    pub atom: f64,
    /// K(c) = log E_P[e^{cℓ}].
    pub log_moment: Approx,
    /// Bound on quadrature and truncation errors of E_P[e^{zℓ}]/E_P[e^{cℓ}] up to the certified Im z.
    pub error: f64,
    /// Bound on μ/E_P[e^{cℓ}], where μ is P's mass at losses next to 0 that no node has: every E_P[e^{zℓ}] lacks it. `error` does not
    /// include it.
    pub missing: f64,
    /// Mean and variance of the tilted loss.
    pub mean: f64,
    /// Variance of the tilted loss.
    pub variance: f64,
    /// Mean rounding error of a loss.
    pub loss_rounding: f64,
    /// Relative rounding error of a weight: the mean, and the mean of its product with |loss|.
    pub weight_rounding: (f64, f64),
    /// Mean |loss|.
    pub mean_size: f64,
    /// Mean slope of the loss in the output, for each piece, over the piece's weight.
    pub(crate) slopes: Vec<f64>,
    /// Piece and output of each node.
    pub(crate) outputs: Vec<(usize, f64)>,
    /// For each piece, an interval of outputs outside which the integrand adds no more than `error`.
    pub supports: Vec<(f64, f64)>,
}

impl Nodes {
    /// Moments of which nothing is known, for tilts whose outputs lie beyond the digits of an `f64`.
    pub(crate) fn beyond_reach(c: f64, pieces: usize) -> Self {
        Self {
            c,
            log_moment: Approx::new(f64::INFINITY, f64::INFINITY),
            error: f64::INFINITY,
            missing: f64::INFINITY,
            slopes: vec![0.0; pieces],
            supports: vec![(f64::INFINITY, f64::NEG_INFINITY); pieces],
            ..Self::default()
        }
    }

    /// Makes room for that many nodes.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.losses.reserve(count);
        self.weights.reserve(count);
        self.outputs.reserve(count);
    }

    /// The moments of the law.
    pub(crate) fn moments(&self) -> TiltedMoments {
        TiltedMoments {
            log_moment: self.log_moment,
            mean: self.mean,
            variance: self.variance,
        }
    }
}
