//! The kinds of steps of a schedule, and what all of its steps have in common.

use crate::loss::StepLoss;
use crate::step::{Direction, GroupLaw};

/// Steps of one noise multiplier and one sample rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kind {
    pub(super) noise_multiplier: f64,
    pub(super) sample_rate: f64,
    /// Their number.
    pub(super) steps: f64,
}

impl Kind {
    /// log v = −2 log σ.
    pub(super) fn log_v(&self) -> f64 {
        -2.0 * self.noise_multiplier.ln()
    }

    /// log q.
    pub(super) fn log_rate(&self) -> f64 {
        self.sample_rate.ln()
    }
}

/// The properties that all steps of a schedule share: the size of the group, and the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) records: u64,
    pub(super) adds: bool,
}

impl Pair {
    fn direction(self) -> Direction {
        if self.adds { Direction::Add } else { Direction::Remove }
    }

    /// p' = Re p, where E[e^{zℓ}] = E[r^p] under the noise alone, at Re z = c.
    pub(super) fn exponent(self, c: f64) -> f64 {
        if self.adds { -c } else { 1.0 + c }
    }

    /// The loss of a step; `None` where that is not a mixture.
    pub(super) fn loss(self, noise_multiplier: f64, sample_rate: f64) -> Option<StepLoss> {
        let law = GroupLaw::binomial(self.records, sample_rate).ok()?;
        StepLoss::mixture(&law, noise_multiplier, self.direction()).ok()?
    }

    /// The loss of the step at these logarithms.
    pub(super) fn loss_at(self, log_v: f64, log_rate: f64) -> Option<StepLoss> {
        self.loss((-0.5 * log_v).exp(), log_rate.exp())
    }
}
