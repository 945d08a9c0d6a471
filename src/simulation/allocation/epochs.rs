//! A run with dealt batches as independent epochs, each of which is one release.

use crate::error::{Error, Result, require};
use crate::step::{Group, Mechanism, Sampling, Step};

/// Most batches of an epoch, and most members of a group: what a sample is made of must fit in memory.
const MOST_BATCHES: u64 = 1 << 24;
const MOST_MEMBERS: u64 = 256;
/// Least sample rate: a place among 1/q batches is drawn with 53 bits.
const LEAST_RATE: f64 = 1e-9;
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
    /// This number of members of a group, each in one batch, independently of the others.
    Members(u64),
    /// One record, in this number of different batches.
    Times(u64),
}

impl Balls {
    /// Number of places in batches that are taken: "balls", as in the classical problem of balls and bins.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Members(number) | Self::Times(number) => number,
        }
    }
}

/// Equal epochs. A Poisson sample of rate q is an epoch too: of 1/q batches, of which one is released.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Epoch {
    /// Batches that are released: one or two kinds.
    pub(crate) parts: Vec<Part>,
    /// Batches that are not. A whole number, but for a Poisson sample, where 1/q − 1 stands for being in no batch.
    pub(crate) still: f64,
    /// How many such epochs the run has.
    pub(crate) repeats: u64,
    /// Who goes into the batches.
    pub(crate) balls: Balls,
}

impl Epoch {
    fn new(parts: &[(u64, f64)], still: f64, repeats: u64, balls: Balls) -> Self {
        let parts = parts.iter().filter(|part| part.0 > 0 && part.1 > 0.0);
        Self {
            parts: parts.map(|&(count, variance)| Part { count, variance }).collect(),
            still,
            repeats,
            balls,
        }
    }

    /// Batches that are released.
    pub(crate) fn released(&self) -> u64 {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// t, all batches.
    pub(crate) fn batches(&self) -> f64 {
        self.released() as f64 + self.still
    }

    /// The largest and the smallest v of any batch.
    pub(crate) fn variances(&self) -> (f64, f64) {
        let of_still = if self.still > 0.0 { 0.0 } else { f64::INFINITY };
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
}

impl Run {
    /// Steps with dealt batches and Poisson samples, with how often each is taken.
    ///
    /// # Errors
    /// Other schemes, noise that is not Gaussian or none, groups whose members differ or that go into several batches each, and runs that
    /// are too large for one sample.
    pub(crate) fn new(steps: &[(Step, u64)]) -> Result<Self> {
        let mut epochs: Vec<Epoch> = Vec::new();
        for (step, count) in steps {
            for epoch in of_step(step, *count)? {
                let alike = |known: &&mut Epoch| {
                    (&known.parts, known.still, known.balls) == (&epoch.parts, epoch.still, epoch.balls)
                };
                match epochs.iter_mut().find(alike) {
                    Some(known) => known.repeats = known.repeats.saturating_add(epoch.repeats),
                    None => epochs.push(epoch),
                }
            }
        }
        let run = Self { epochs };
        let draws = run.draws();
        require(draws <= MOST_DRAWS, "steps", draws, "at most 2^26 outputs in a sample")?;
        Ok(run)
    }

    /// Whether every epoch has a single ball.
    pub(crate) fn has_one_ball(&self) -> bool {
        self.epochs.iter().all(|epoch| epoch.balls.number() == 1)
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

/// 1/σ² of a step, after a check of its noise and its group.
fn variance_of(step: &Step) -> Result<f64> {
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
    Ok(noise_multiplier.powi(-2))
}

/// The epochs of `steps` repetitions of a step, of which some outputs are released.
fn of_step(step: &Step, steps: u64) -> Result<Vec<Epoch>> {
    let (variance, members) = (variance_of(step)?, step.group.size);
    let (batches, times) = match step.sampling {
        Sampling::RandomAllocation { batches, times } => (batches, times),
        Sampling::FixedBins { batches } => (batches, 1),
        Sampling::Poisson { sample_rate } => return of_poisson(sample_rate, variance, steps, members),
        _ => {
            return Err(Error::Mismatch(
                "only dealt batches and Poisson samples are estimated here".into(),
            ));
        }
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
    let balls = if times > 1 {
        Balls::Times(times)
    } else {
        Balls::Members(members)
    };
    let epochs = epochs_of(batches, variance, steps, stays, balls);
    let is_released = |epoch: &Epoch| epoch.repeats > 0 && epoch.released() > 0;
    Ok(epochs.into_iter().filter(is_released).collect())
}

/// Poisson samples of rate q: the members that go into the first of 1/q batches.
fn of_poisson(sample_rate: f64, variance: f64, steps: u64, members: u64) -> Result<Vec<Epoch>> {
    require(
        (0.0..=1.0).contains(&sample_rate),
        "sample_rate",
        sample_rate,
        "in [0, 1]",
    )?;
    if steps == 0 || sample_rate == 0.0 {
        return Ok(Vec::new());
    }
    require(
        sample_rate >= LEAST_RATE,
        "sample_rate",
        sample_rate,
        "0 or in [1e-9, 1] beside dealt batches",
    )?;
    let still = (1.0 - sample_rate) / sample_rate;
    Ok(vec![Epoch::new(
        &[(1, variance)],
        still,
        steps,
        Balls::Members(members),
    )])
}

/// The epochs of `steps` batches, with fresh bins or with bins that stay.
fn epochs_of(batches: u64, variance: f64, steps: u64, stays: bool, balls: Balls) -> Vec<Epoch> {
    let (whole, rest) = (steps / batches, steps % batches);
    if stays {
        let (more, less) = (variance * (whole + 1) as f64, variance * whole as f64);
        let still = if whole == 0 { batches - rest } else { 0 };
        let parts = [(rest, more), (batches - rest, less)];
        return vec![Epoch::new(&parts, still as f64, 1, balls)];
    }
    let left = (batches - rest) as f64;
    vec![
        Epoch::new(&[(batches, variance)], 0.0, whole, balls),
        Epoch::new(&[(rest, variance)], left, u64::from(rest > 0), balls),
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
        Run::new(&[(step, steps)]).unwrap()
    }

    #[test]
    fn epochs_are_whole_but_for_the_last() {
        let found = run(Sampling::RandomAllocation { batches: 10, times: 1 }, 2.0, 3, 27);
        let three = Balls::Members(3);
        assert_eq!(found.epochs[0], Epoch::new(&[(10, 0.25)], 0.0, 2, three));
        assert_eq!(found.epochs[1], Epoch::new(&[(7, 0.25)], 3.0, 1, three));
        assert_eq!(found.draws(), 27);
        let one = Balls::Members(1);
        let found = run(Sampling::FixedBins { batches: 10 }, 2.0, 1, 27);
        assert_eq!(found.epochs, [Epoch::new(&[(7, 0.75), (3, 0.5)], 0.0, 1, one)]);
        assert_eq!(found.epochs[0].variances(), (0.75, 0.5));
        let found = run(Sampling::FixedBins { batches: 10 }, 2.0, 1, 4);
        assert_eq!(found.epochs, [Epoch::new(&[(4, 0.25)], 6.0, 1, one)]);
        assert_eq!(found.epochs[0].variances(), (0.25, 0.0));
    }
    #[test]
    fn runs_of_several_schemes_have_the_epochs_of_all() {
        let step = |sampling, members| Step {
            mechanism: Mechanism::Gaussian { noise_multiplier: 2.0 },
            sampling,
            group: Group::of(members),
        };
        let sample = Sampling::Poisson { sample_rate: 0.125 };
        let dealt = Sampling::RandomAllocation { batches: 10, times: 1 };
        let segments = [(sample, 2, 3), (dealt, 1, 20), (sample, 2, 4), (dealt, 1, 10)];
        let segments = segments.map(|(sampling, members, count)| (step(sampling, members), count));
        let found = Run::new(&segments).unwrap();
        assert_eq!(
            found.epochs,
            [
                Epoch::new(&[(1, 0.25)], 7.0, 7, Balls::Members(2)),
                Epoch::new(&[(10, 0.25)], 0.0, 3, Balls::Members(1)),
            ]
        );
        assert_eq!((found.number(), found.draws()), (10.0, 37));
        assert!(!found.has_one_ball());
    }
}
