//! A run with dealt batches as independent epochs, each of which is one release.

use crate::error::{Error, Result, require};
use crate::step::{Group, Mechanism, Sampling, Step};

/// Most batches of an epoch, and most members of a group: what a sample is made of must fit in memory.
const MOST_BATCHES: u64 = 1 << 24;
const MOST_MEMBERS: u64 = 256;
/// Most normal variables of one sample, a second's work.
const MOST_DRAWS: u64 = 1 << 26;

/// Batches that are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    /// How many there are.
    pub(crate) count: u64,
    /// v > 0: one divided by the variance of the noise, summed over all releases of the batch.
    pub(crate) variance: f64,
}

/// Who goes into the batches of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Balls {
    /// So many members of a group, each into any batch on its own.
    Members(u64),
    /// One record, into so many different batches.
    Times(u64),
}

impl Balls {
    /// How many balls lie in the batches.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Members(number) | Self::Times(number) => number,
        }
    }
}

/// Equal epochs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Epoch {
    /// Batches that are released: one or two kinds.
    pub(crate) parts: Vec<Part>,
    /// Batches that are not.
    pub(crate) still: u64,
    /// How many such epochs the run has.
    pub(crate) repeats: u64,
}

impl Epoch {
    fn new(parts: &[(u64, f64)], still: u64, repeats: u64) -> Self {
        let parts = parts.iter().filter(|part| part.0 > 0 && part.1 > 0.0);
        Self {
            parts: parts.map(|&(count, variance)| Part { count, variance }).collect(),
            still,
            repeats,
        }
    }

    /// Batches that are released.
    pub(crate) fn released(&self) -> u64 {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// t, all batches.
    pub(crate) fn batches(&self) -> u64 {
        self.released() + self.still
    }

    /// The largest and the smallest v of any batch.
    pub(crate) fn variances(&self) -> (f64, f64) {
        let of_still = if self.still > 0 { 0.0 } else { f64::INFINITY };
        self.parts
            .iter()
            .fold((0.0, of_still), |(largest, smallest): (f64, f64), part| {
                (largest.max(part.variance), smallest.min(part.variance))
            })
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    /// Epochs, those that are alike together.
    pub(crate) epochs: Vec<Epoch>,
    /// Who goes into the batches.
    pub(crate) balls: Balls,
}

impl Run {
    /// `steps` repetitions of a step with dealt batches.
    ///
    /// # Errors
    /// Other schemes, noise that is not Gaussian or none, groups whose members differ or that go into several batches each, and runs that
    /// are too large for one sample.
    pub(crate) fn new(step: &Step, steps: u64) -> Result<Self> {
        let Mechanism::Gaussian { noise_multiplier } = step.mechanism else {
            return Err(Error::Mismatch(
                "Monte Carlo simulation takes Gaussian noise only".into(),
            ));
        };
        require(
            noise_multiplier >= 0.01 && noise_multiplier.is_finite(),
            "noise_multiplier",
            noise_multiplier,
            "in [0.01, inf) for an estimate with dealt batches",
        )?;
        let members = step.group.size;
        require(
            (1..=MOST_MEMBERS).contains(&members),
            "group_size",
            members,
            "in [1, 256]",
        )?;
        if step.group != Group::of(members) {
            return Err(Error::Mismatch(
                "members with rates or norms of their own have no estimate here".into(),
            ));
        }
        let variance = noise_multiplier.powi(-2);
        let (batches, times) = match step.sampling {
            Sampling::RandomAllocation { batches, times } => (batches, times),
            Sampling::FixedBins { batches } => (batches, 1),
            _ => return Err(Error::Mismatch("only dealt batches are estimated here".into())),
        };
        require(
            (1..=MOST_BATCHES).contains(&batches),
            "batches",
            batches,
            "in [1, 2^24]",
        )?;
        require((1..=batches).contains(&times), "times", times, "in [1, batches]")?;
        if members > 1 && times > 1 {
            return Err(Error::Mismatch(
                "several records, each in several batches, have no estimate".into(),
            ));
        }
        require(times <= MOST_MEMBERS, "times", times, "at most 256 for an estimate")?;
        let stays = matches!(step.sampling, Sampling::FixedBins { .. });
        let epochs = epochs_of(batches, variance, steps, stays);
        let epochs: Vec<Epoch> = epochs
            .into_iter()
            .filter(|epoch| epoch.repeats > 0 && epoch.released() > 0)
            .collect();
        let balls = if times > 1 {
            Balls::Times(times)
        } else {
            Balls::Members(members)
        };
        let run = Self { epochs, balls };
        let draws = run.draws();
        require(draws <= MOST_DRAWS, "steps", steps, "at most 2^26 outputs in a sample")?;
        Ok(run)
    }

    /// Outputs of the run that are drawn for one sample.
    pub(crate) fn draws(&self) -> u64 {
        self.epochs
            .iter()
            .map(|epoch| epoch.released().saturating_mul(epoch.repeats))
            .fold(0, u64::saturating_add)
    }

    /// The number of epochs.
    pub(crate) fn number(&self) -> f64 {
        self.epochs.iter().map(|epoch| epoch.repeats as f64).sum()
    }
}

/// The epochs of `steps` batches, with fresh bins or with bins that stay.
fn epochs_of(batches: u64, variance: f64, steps: u64, stays: bool) -> Vec<Epoch> {
    let (whole, rest) = (steps / batches, steps % batches);
    if stays {
        let (more, less) = (variance * (whole + 1) as f64, variance * whole as f64);
        let still = if whole == 0 { batches - rest } else { 0 };
        return vec![Epoch::new(&[(rest, more), (batches - rest, less)], still, 1)];
    }
    vec![
        Epoch::new(&[(batches, variance)], 0, whole),
        Epoch::new(&[(rest, variance)], batches - rest, u64::from(rest > 0)),
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(sampling: Sampling, noise_multiplier: f64, members: u64, steps: u64) -> Run {
        let step = Step {
            mechanism: Mechanism::Gaussian { noise_multiplier },
            sampling,
            group: Group::of(members),
        };
        Run::new(&step, steps).unwrap()
    }

    #[test]
    fn epochs_are_whole_but_for_the_last() {
        let found = run(Sampling::RandomAllocation { batches: 10, times: 1 }, 2.0, 3, 27);
        assert_eq!(found.epochs[0], Epoch::new(&[(10, 0.25)], 0, 2));
        assert_eq!(found.epochs[1], Epoch::new(&[(7, 0.25)], 3, 1));
        assert_eq!((found.draws(), found.balls.number()), (27, 3));
        let found = run(Sampling::FixedBins { batches: 10 }, 2.0, 1, 27);
        assert_eq!(found.epochs, [Epoch::new(&[(7, 0.75), (3, 0.5)], 0, 1)]);
        assert_eq!(found.epochs[0].variances(), (0.75, 0.5));
        let found = run(Sampling::FixedBins { batches: 10 }, 2.0, 1, 4);
        assert_eq!(found.epochs, [Epoch::new(&[(4, 0.25)], 6, 1)]);
        assert_eq!(found.epochs[0].variances(), (0.25, 0.0));
    }
}
