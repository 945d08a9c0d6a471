//! A run of whole epochs, and the law of c² that it has (see `membership`).

use crate::error::{Error, Result, require};
use crate::shuffle::convolution::{MAX_VALUES, power};
use crate::shuffle::integer_law::{IntegerLaw, Real, Work};
use crate::shuffle::occupancy::{MAX_POSITIONS, MAX_WORK, units_hit};
use crate::shuffle::rounds::squares;
use crate::special::extended::Extended;

/// How the batches of an epoch are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochSampling {
    /// Every epoch is a fresh random permutation, cut into rounds.
    Shuffling,
    /// Every round draws a uniformly random subset, independently of the other rounds.
    Subsampling,
}

/// A run of whole epochs, and the group whose membership is counted.
///
/// # Example
/// Batches of 64 records clipped in 8 units of 8:
/// ```
/// use hockeystick::shuffle::{EpochRun, EpochSampling};
/// let run = EpochRun {
///     sampling: EpochSampling::Shuffling,
///     dataset_size: 60_000,
///     batch_size: 64,
///     units_per_batch: 8,
///     group_size: 4,
///     epochs: 10,
/// };
/// assert_eq!(run.rounds(), 937);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochRun {
    /// The scheme by which rounds are drawn.
    pub sampling: EpochSampling,
    /// N, in [1, 2^53]: records in the data set.
    pub dataset_size: u64,
    /// b, in [1, N]: records in a round.
    pub batch_size: u64,
    /// m, a divisor of b: the number of parts of a round, each of which is clipped as one. 1 is batch clipping, b individual clipping.
    pub units_per_batch: u64,
    /// g, in [1, N]: records that differ.
    pub group_size: u64,
    /// E, at least 1.
    pub epochs: u64,
}

impl EpochRun {
    /// R = ⌊N/b⌋, the rounds of one epoch (0 for a batch size of 0).
    pub fn rounds(&self) -> u64 {
        self.dataset_size.checked_div(self.batch_size).unwrap_or(0)
    }

    /// Checks every field.
    pub(crate) fn check(&self) -> Result<()> {
        require(
            (1..=MAX_POSITIONS).contains(&self.dataset_size),
            "dataset_size",
            self.dataset_size,
            "in [1, 2^53]",
        )?;
        require(
            (1..=self.dataset_size).contains(&self.batch_size),
            "batch_size",
            self.batch_size,
            "in [1, dataset_size]",
        )?;
        require(
            self.units_per_batch >= 1 && self.batch_size.is_multiple_of(self.units_per_batch),
            "units_per_batch",
            self.units_per_batch,
            "a divisor of batch_size",
        )?;
        require(
            (1..=self.dataset_size).contains(&self.group_size),
            "group_size",
            self.group_size,
            "in [1, dataset_size]",
        )?;
        require(self.epochs >= 1, "epochs", self.epochs, "at least 1")?;
        // c² ≤ R E min(g, m)² must be a whole number with room to spare.
        let units = u128::from(self.group_size.min(self.units_per_batch));
        let largest = (u128::from(self.rounds()) * u128::from(self.epochs)).checked_mul(units * units);
        if largest.is_none_or(|largest| largest > 1 << 62) {
            return Err(Error::Mismatch(format!(
                "rounds * epochs * min(group_size, units_per_batch)^2 must be at most 2^62; got {} rounds, {} epochs",
                self.rounds(),
                self.epochs
            )));
        }
        Ok(())
    }

    /// The law of Σ L_b² over `rounds` rounds of one epoch (shuffling) or over one round (subsampling).
    fn part<T: Real>(&self, rounds: u64, most_work: u64) -> Option<IntegerLaw<Extended>> {
        let work = &mut Work(most_work);
        let per_round = self.units_per_batch;
        let units = match self.sampling {
            EpochSampling::Shuffling => rounds * per_round,
            EpochSampling::Subsampling => per_round,
        };
        let slots = self.batch_size / per_round;
        let hit = units_hit::<T>(self.group_size, units, slots, self.dataset_size, work)?;
        let law = match self.sampling {
            EpochSampling::Shuffling => squares(rounds, per_round, &hit, work)?,
            EpochSampling::Subsampling => squared(&hit)?,
        };
        Some(law.into_extended())
    }

    /// The law of c² over `epochs` times the first `rounds` rounds; `None` if it takes too much work.
    pub(crate) fn law(&self, rounds: u64, epochs: u64) -> Option<IntegerLaw<Extended>> {
        let part = self
            .part::<Extended>(rounds, MAX_WORK.0)
            .or_else(|| self.part::<f64>(rounds, MAX_WORK.1))?;
        match self.sampling {
            EpochSampling::Shuffling => power(&part, epochs),
            EpochSampling::Subsampling => power(&part, rounds.checked_mul(epochs)?),
        }
    }

    /// The error for a law that takes too much work.
    pub(crate) fn too_much(&self) -> Error {
        let Self {
            batch_size,
            units_per_batch,
            group_size,
            epochs,
            ..
        } = self;
        Error::Mismatch(format!(
            "the law of a group_size of {group_size} in {} rounds of units_per_batch = {units_per_batch} (batch_size \
             {batch_size}, {epochs} epochs) takes more than 3e9 multiplications or {MAX_VALUES} values; it can be had \
             for smaller groups or fewer units_per_batch (shuffling is fast for groups up to the number of rounds)",
            self.rounds()
        ))
    }
}

/// The law of L² from that of L; `None` if the squares are too far apart to list.
fn squared<T: Real>(law: &IntegerLaw<T>) -> Option<IntegerLaw<T>> {
    let (first, last) = (law.first.checked_mul(law.first)?, law.last().checked_mul(law.last())?);
    if last - first >= MAX_VALUES {
        return None;
    }
    let mut masses = vec![T::ZERO; (last - first + 1) as usize];
    for (root, &mass) in (law.first..).zip(&law.masses) {
        masses[(root * root - first) as usize] = mass;
    }
    Some(IntegerLaw {
        first,
        masses,
        left_out: law.left_out,
        rounding: law.rounding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: EpochRun = EpochRun {
        sampling: EpochSampling::Shuffling,
        dataset_size: 23,
        batch_size: 6,
        units_per_batch: 3,
        group_size: 2,
        epochs: 2,
    };

    #[test]
    fn rounds_are_whole_batches() {
        assert_eq!(RUN.rounds(), 3);
        assert_eq!(EpochRun { batch_size: 0, ..RUN }.rounds(), 0);
        assert!(RUN.check().is_ok());
        let largest = EpochRun {
            epochs: u64::MAX,
            ..RUN
        };
        assert!(largest.check().unwrap_err().to_string().contains("2^62"));
    }

    #[test]
    fn squares_have_the_masses_of_their_roots() {
        let law = IntegerLaw {
            first: 1,
            masses: vec![0.5, 0.25, 0.125],
            left_out: 0.125,
            rounding: 1e-3,
        };
        let found = squared(&law).unwrap();
        assert_eq!((found.first, found.last()), (1, 9));
        let positive: Vec<(usize, f64)> = found.positive().collect();
        assert_eq!(positive, [(0, 0.5), (3, 0.25), (8, 0.125)]);
        assert_eq!((found.left_out, found.rounding), (0.125, 1e-3));
        let far = IntegerLaw {
            first: MAX_VALUES,
            ..law
        };
        assert!(squared(&far).is_none());
    }

    #[test]
    fn one_record_takes_part_in_an_epoch_as_often_as_there_are_slots() {
        // Shuffling: 18 of 23 positions belong to a round. Subsampling: 6 of 23 in each of the three rounds.
        let one = EpochRun {
            group_size: 1,
            epochs: 1,
            ..RUN
        };
        let mass = |run: &EpochRun, square: usize| run.law(3, 1).unwrap().masses[square].to_f64();
        assert!((mass(&one, 1) - 18.0 / 23.0).abs() < 1e-15);
        let subsampled = EpochRun {
            sampling: EpochSampling::Subsampling,
            ..one
        };
        let (hit, miss) = (6.0f64 / 23.0, 17.0f64 / 23.0);
        assert!((mass(&subsampled, 0) - miss.powi(3)).abs() < 1e-15);
        assert!((mass(&subsampled, 2) - 3.0 * hit * hit * miss).abs() < 1e-15);
    }

    #[test]
    fn laws_that_take_too_much_work_are_refused() {
        let huge = EpochRun {
            sampling: EpochSampling::Shuffling,
            dataset_size: 1 << 30,
            batch_size: 1 << 29,
            units_per_batch: 1 << 29,
            group_size: 1 << 17,
            epochs: 1,
        };
        assert!(huge.part::<f64>(2, 1000).is_none());
        assert!(huge.too_much().to_string().contains("131072"));
    }
}
