//! One batch of an epoch with a large likelihood ratio: the normal variable of its Y is between two limits.
//!
//! Any of some batches may be the one, so that E_Q[e^{sY/t}; a < g ≤ b] counts as often as there are batches. It is a sum over the nodes of a quadrature
//! rule ([`Batch`]): as a difference of the transforms with g ≤ b and with g ≤ a all of its digits would cancel.

use crate::approx::Approx;
use crate::loss::allocation::on_line::batch::Batch;
use crate::loss::allocation::tilting::{Tilting, tilting_of};
use crate::loss::privacy_loss::TiltedMoments;

/// The batch with the large likelihood ratio.
#[derive(Debug, Clone)]
pub(super) struct LargeBatch {
    pub(super) batch: Batch,
    /// log of the number of batches that it may be.
    log_count: f64,
    /// t.
    total: f64,
}

impl LargeBatch {
    /// One of `count` batches of `total`, whose normal variable is within a range.
    pub(super) fn new(variance: f64, range: (f64, f64), (count, total): (f64, f64)) -> Self {
        Self {
            batch: Batch::between(variance, range),
            log_count: count.ln(),
            total,
        }
    }

    /// log of how many batches it may be.
    pub(super) fn log_count(&self) -> Approx {
        Approx::new(self.log_count, f64::EPSILON * self.log_count)
    }

    /// Estimates of the moments of W^w, where the rest of W has this mean and variance: it varies little beside the one batch.
    pub(super) fn estimated_moments(&self, w: f64, (mean, variance): (f64, f64)) -> TiltedMoments {
        let terms: Vec<(f64, f64, f64)> = self
            .batch
            .rough_nodes()
            .map(|(log_weight, ratio)| {
                let whole = mean + ratio / self.total;
                let spread = variance / (whole * whole);
                let log = log_weight + w * whole.ln() + 0.5 * w * (w - 1.0) * spread;
                (log, whole.ln() + (w - 0.5) * spread, spread)
            })
            .collect();
        let most = terms.iter().fold(f64::NEG_INFINITY, |most, term| term.0.max(most));
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for (log, loss, spread) in terms {
            let weight = (log - most).exp();
            sum += weight;
            first += weight * loss;
            second += weight * (loss * loss + spread);
        }
        TiltedMoments {
            log_moment: Approx::new(self.log_count + most + sum.ln(), f64::INFINITY),
            mean: first / sum,
            variance: second / sum - (first / sum).powi(2),
        }
    }

    /// log of a bound on the transform at λ that is nearly attained, with its derivatives.
    pub(super) fn tilting(&self, lambda: f64) -> Option<Tilting> {
        let one = tilting_of(&self.batch, lambda, self.total)?;
        Some(Tilting {
            log: one.log + self.log_count().upper(),
            ..one
        })
    }
}
