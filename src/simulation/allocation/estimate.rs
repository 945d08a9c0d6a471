//! δ(ε) of a run with dealt batches, estimated from samples, with an interval.

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::simulation::allocation::epochs::Run;
use crate::simulation::allocation::proposal::{Memory, Proposal};
use crate::simulation::confidence::Sample;
use crate::simulation::settings::{Estimate, Settings};
use crate::step::Step;
use crate::stopping::carried;
use crate::threads::in_pool;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;

/// Outputs drawn by one task, a few milliseconds, and its largest number of samples.
const DRAWS_PER_TASK: u64 = 1 << 17;
const SAMPLES_PER_TASK: u64 = 1 << 12;
/// Number of tasks whose results are held at a time.
const TASKS_PER_WAVE: u64 = 256;
/// Tasks that try a law, the largest number of samples of each, and the part of all samples that they are at most; values that have to count, and the confidence of the interval by which laws are compared.
const PILOTS: (u64, u64) = (16, 128);
const PILOT_SHARE: u64 = 16;
const FEWEST: f64 = 8.0;
const PILOT_CONFIDENCE: f64 = 0.99;
/// What rounding may do to a mean, over the bound: values have relative errors of some 1e-12 for each epoch, which are not counted one by one.
/// Laws may be off by a tenth of it.
const ROUNDING: f64 = 1e-9;

/// δ(ε) of `steps` repetitions of a step with [random allocation](crate::Sampling::RandomAllocation) or [fixed
/// bins](crate::Sampling::FixedBins) in one direction, for groups and for records in several batches too: an unbiased estimate but
/// for a bias that the interval contains.
///
/// The automatic tilt of `settings` is the only one. Cost: about 20 ns for each output of one record, a few ns more for each member of a
/// group. Formulas: `docs/theory/allocation-estimate.md`.
///
/// # Errors
/// Settings out of range or with a tilt; other schemes; noise multipliers below 0.01; groups above 256 or with members that differ;
/// several records in several batches each; [`Error::Interrupted`] when the monitor says so.
///
/// # Example
/// ```
/// use hockeystick::simulation::{Settings, allocation_monte_carlo_delta};
/// use hockeystick::{Direction, Group, Mechanism, Sampling, Step, Unwatched};
/// let step = Step {
///     mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
///     sampling: Sampling::RandomAllocation { batches: 10, times: 1 },
///     group: Group::of(1),
/// };
/// let settings = Settings {
///     samples: 100_000,
///     direction: Direction::Remove,
///     tilt: None,
///     seed: 1,
///     confidence: 0.999,
/// };
/// let found = allocation_monte_carlo_delta(1.0, &step, 10, &settings, &Unwatched)?;
/// assert!(found.lower < 2.7828486829e-3 && 2.7828486829e-3 < found.upper);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn allocation_monte_carlo_delta(
    epsilon: f64,
    step: &Step,
    steps: u64,
    settings: &Settings,
    monitor: &dyn Monitor,
) -> Result<Estimate> {
    if step.sampling.is_allocated() {
        return run_monte_carlo_delta(epsilon, &[(step.clone(), steps)], settings, monitor);
    }
    Err(Error::Mismatch("only dealt batches are estimated here".into()))
}

/// δ(ε) of a run of several kinds of steps in one direction, with dealt batches and Poisson samples: an estimate as
/// [`allocation_monte_carlo_delta`] has for one kind.
///
/// Steps with fresh bins are whole epochs but for the last ones of their segment, and segments with bins that stay are one release each.
///
/// # Errors
/// As [`allocation_monte_carlo_delta`]; of other schemes Poisson samples with rates of 0 or in [1e-9, 1] are taken.
///
/// # Example
/// ```
/// use hockeystick::simulation::{Settings, run_monte_carlo_delta};
/// use hockeystick::{Direction, Group, Mechanism, Sampling, Step, Unwatched};
/// let step = |sampling| Step {
///     mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
///     sampling,
///     group: Group::of(1),
/// };
/// let settings = Settings {
///     samples: 100_000,
///     direction: Direction::Remove,
///     tilt: None,
///     seed: 1,
///     confidence: 0.999,
/// };
/// let dealt = (step(Sampling::RandomAllocation { batches: 10, times: 1 }), 10);
/// let samples = (step(Sampling::Poisson { sample_rate: 0.1 }), 10);
/// let found = run_monte_carlo_delta(1.0, &[dealt, samples], &settings, &Unwatched)?;
/// // More than one epoch of dealt batches has alone.
/// assert!(found.lower > 2.7828486829e-3);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn run_monte_carlo_delta(
    epsilon: f64,
    steps: &[(Step, u64)],
    settings: &Settings,
    monitor: &dyn Monitor,
) -> Result<Estimate> {
    settings.check(epsilon)?;
    if settings.tilt.is_some() {
        return Err(Error::Mismatch(
            "an estimate with dealt batches chooses its tilt itself".into(),
        ));
    }
    let run = Run::new(steps)?;
    if run.epochs.is_empty() {
        return Ok(Estimate::without_losses(epsilon, 0.0));
    }
    let mut stream = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
    let proposals = Proposal::all(&run, epsilon, settings.direction, settings.samples);
    let proposal = best(proposals, settings.samples, &mut stream, monitor)?;
    let per_task = (DRAWS_PER_TASK / proposal.draws().max(1)).clamp(1, SAMPLES_PER_TASK);
    let tasks = settings.samples.div_ceil(per_task);
    let mut all = Sample {
        count: settings.samples as f64,
        ..Sample::default()
    };
    monitor.progress(0, settings.samples);
    for first in (0..tasks).step_by(TASKS_PER_WAVE as usize) {
        let end = (first + TASKS_PER_WAVE).min(tasks);
        let streams: Vec<_> = (first..end)
            .map(|task| {
                let own = stream.clone();
                stream.jump();
                (own, per_task.min(settings.samples - task * per_task))
            })
            .collect();
        for part in drawn(&proposal, streams, monitor)? {
            all.sum += part.sum;
            all.sum_of_squares += part.sum_of_squares;
        }
        monitor.progress((end * per_task).min(settings.samples), settings.samples);
    }
    Ok(estimate(&proposal, all, settings.confidence))
}

/// The law that has the narrowest interval on a few samples, which are not used again: `stream` goes on behind theirs.
fn best(
    proposals: Vec<Proposal>,
    samples: u64,
    stream: &mut Xoshiro256PlusPlus,
    monitor: &dyn Monitor,
) -> Result<Proposal> {
    let only = proposals.len() == 1;
    let mut found: Option<(f64, Proposal)> = None;
    for proposal in proposals {
        let width = if only {
            0.0
        } else {
            pilot_width(&proposal, samples, stream, monitor)?
        };
        if found.as_ref().is_none_or(|known| width < known.0) {
            found = Some((width, proposal));
        }
    }
    found.map(|(_, proposal)| proposal).ok_or(Error::Internal)
}

/// The width of the interval that so many samples would have, from a few; the bound itself where hardly any of these count.
fn pilot_width(
    proposal: &Proposal,
    samples: u64,
    stream: &mut Xoshiro256PlusPlus,
    monitor: &dyn Monitor,
) -> Result<f64> {
    let each = (samples / (PILOT_SHARE * PILOTS.0)).clamp(1, PILOTS.1);
    let streams = (0..PILOTS.0).map(|_| {
        let own = stream.clone();
        stream.jump();
        (own, each)
    });
    let streams = streams.collect();
    let mut sum = Sample::default();
    for part in drawn(proposal, streams, monitor)? {
        sum.sum += part.sum;
        sum.sum_of_squares += part.sum_of_squares;
    }
    let (drawn, bound) = ((PILOTS.0 * each) as f64, proposal.log_bound.exp());
    // The number of equal values with these sums.
    if sum.sum * sum.sum < FEWEST * sum.sum_of_squares || sum.sum == 0.0 {
        return Ok(bound);
    }
    let scale = samples as f64 / drawn;
    let whole = Sample {
        count: samples as f64,
        sum: scale * sum.sum,
        sum_of_squares: scale * sum.sum_of_squares,
    };
    let (lower, upper) = whole.interval(PILOT_CONFIDENCE);
    Ok(bound * (upper - lower) + proposal.log_remainder.exp())
}

/// Draws tasks in parallel: one sample a task, in their order.
fn drawn(
    proposal: &Proposal,
    streams: Vec<(Xoshiro256PlusPlus, u64)>,
    monitor: &dyn Monitor,
) -> Result<Vec<Sample>> {
    let draw = carried(|(mut stream, count): (Xoshiro256PlusPlus, u64)| {
        let (mut sample, mut memory) = (Sample::default(), Memory::default());
        for _ in 0..count {
            if monitor.cancelled() {
                return Err(Error::Interrupted);
            }
            let value = proposal.value(&mut stream, &mut memory);
            sample.sum += value;
            sample.sum_of_squares += value * value;
        }
        Ok(sample)
    });
    in_pool(|| streams.into_par_iter().map(draw).collect())
}

/// The interval for δ from that of the mean of the variable.
fn estimate(proposal: &Proposal, sample: Sample, confidence: f64) -> Estimate {
    let (lower, upper) = sample.interval(confidence);
    let bound = proposal.log_bound.exp();
    let upper = (bound * (upper + ROUNDING) + proposal.log_remainder.exp()).min(1.0);
    let lower = (bound * (lower - ROUNDING)).clamp(0.0, upper);
    Estimate {
        estimate: (bound * sample.mean()).clamp(lower, upper),
        lower,
        upper,
    }
}

#[cfg(test)]
mod tests;
