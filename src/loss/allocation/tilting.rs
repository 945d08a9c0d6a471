//! Transforms at real λ with their derivatives, for choices and bounds.

use crate::loss::allocation::on_line::batch::Batch;

/// log of the error of a transform at real λ by a rule.
const ROUGH: f64 = -24.0;

/// log E[e^{λW}] at real λ, and its first two derivatives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tilting {
    pub(crate) log: f64,
    pub(crate) first: f64,
    pub(crate) second: f64,
}

/// log of a bound on E[e^{λY/t}] of a batch that is nearly attained, with its derivatives.
pub(super) fn tilting_of(batch: &Batch, lambda: f64, total: f64) -> Option<Tilting> {
    let tilted = batch.tilted(lambda / total, 0.0, ROUGH)?;
    Some(Tilting {
        log: tilted.log_transform.upper(),
        first: tilted.mean / total,
        second: tilted.variance / (total * total),
    })
}
