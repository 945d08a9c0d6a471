//! A run of shuffled batches, and what is asked about it (see [`crate::shuffle::certified_interval`]).

use crate::shuffle::{EpochRun, EpochSampling};

/// The change of the records of a group: added or removed, or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordChange {
    /// Their gradients are replaced by 0.
    ZeroOut,
    /// They are replaced by other records.
    Replace,
}

impl RecordChange {
    /// By how much one record moves a sum, in units of the clipping norm.
    pub(super) fn sensitivity(self) -> f64 {
        match self {
            Self::ZeroOut => 1.0,
            Self::Replace => 2.0,
        }
    }

    /// By how much a member moves a sum away from that of the others, in the two data sets of the lower end.
    pub(super) fn shifts(self) -> (f64, f64) {
        match self {
            Self::ZeroOut => (2.0, 1.0),
            Self::Replace => (2.0, 0.0),
        }
    }
}

/// A run of shuffled batches with Gaussian noise.
///
/// # Example
/// One epoch of 100 batches with noise of the clipping norm: nearly nothing is gained by shuffling, where accounting for Poisson
/// sampling says 0.72.
/// ```
/// use hockeystick::shuffle::{RecordChange, ShuffledRun};
/// let run = ShuffledRun {
///     dataset_size: 60_000,
///     batch_size: 600,
///     group_size: 1,
///     steps: 100,
///     noise_multiplier: 1.0,
///     change: RecordChange::ZeroOut,
/// };
/// let epsilon = run.epsilon(1e-5, 1e-6)?;
/// assert_eq!(format!("{:.3} {:.3}", epsilon.lower, epsilon.upper), "4.063 4.377");
/// # Ok::<(), hockeystick::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShuffledRun {
    /// N, in [1, 2^53].
    pub dataset_size: u64,
    /// Records in a batch, in [1, N]; an epoch has ⌊N/b⌋ batches.
    pub batch_size: u64,
    /// Records that change together, in [1, N].
    pub group_size: u64,
    /// Batches of the run; the last epoch may be incomplete.
    pub steps: u64,
    /// Standard deviation of the noise over the clipping norm, at least 0.
    pub noise_multiplier: f64,
    /// The change of the records.
    pub change: RecordChange,
}

/// The unknown of a question about a curve.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
    /// δ at ε ≥ 0.
    Delta(f64),
    /// ε at δ.
    Epsilon(f64),
}

impl ShuffledRun {
    /// Complete epochs, and the batches of the last one that is not.
    pub(super) fn complete(&self) -> (u64, u64) {
        let rounds = self.epochs(1).rounds();
        (self.steps / rounds, self.steps % rounds)
    }

    pub(super) fn epochs(&self, epochs: u64) -> EpochRun {
        EpochRun {
            sampling: EpochSampling::Shuffling,
            dataset_size: self.dataset_size,
            batch_size: self.batch_size,
            units_per_batch: self.batch_size,
            group_size: self.group_size,
            epochs,
        }
    }

    /// The probability that one record is in some batch of the run.
    pub(super) fn taking_part(&self) -> f64 {
        let (complete, rest) = self.complete();
        // log of the probability that it is in none of the first so many rounds of an epoch, without the cancellation of 1 − x.
        let log_missed = |rounds: u64| (-((rounds * self.batch_size) as f64 / self.dataset_size as f64)).ln_1p();
        // No epoch at all misses every record, whether or not a whole one takes them all: 0·∞ is no number.
        let of_epochs = if complete == 0 {
            0.0
        } else {
            complete as f64 * log_missed(self.epochs(1).rounds())
        };
        (of_epochs + log_missed(rest)).exp_m1().abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quotients of whole numbers: 1 − (1 − Rb/N)^E·(1 − rb/N).
    #[test]
    fn taking_part_keeps_its_digits() {
        for (dataset_size, batch_size, steps, exact) in [
            (60_007, 1, 1, 1.0 / 60_007.0),
            (1 << 53, 1, 3, 3.0 / f64::powi(2.0, 53)),
            (60_007, 1, 0, 0.0),
            (12, 4, 3, 1.0),
            (12, 4, 7, 1.0),
            (13, 4, 2, 8.0 / 13.0),
            // 1 − 1/13·5/13
            (13, 4, 5, 164.0 / 169.0),
        ] {
            let run = ShuffledRun {
                dataset_size,
                batch_size,
                group_size: 1,
                steps,
                noise_multiplier: 0.0,
                change: RecordChange::ZeroOut,
            };
            let found = run.taking_part();
            assert!(
                (found - exact).abs() <= 4.0 * f64::EPSILON * exact,
                "{run:?} {found} {exact}"
            );
        }
    }
}
