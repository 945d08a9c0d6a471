//! The other unknowns of the equation δ(ε; σ, q, T, k) ≤ δ: noise multiplier, sample rate, steps and group size.
//!
//! The curve is monotone in each of them: by data processing, more noise, a smaller rate, fewer steps or a smaller group cannot increase δ. A
//! certified verdict at one value therefore holds for all values on one side of it. Every value that is tried is judged by certified
//! intervals: it meets the target, it misses it, or the intervals leave that open. An open value is never taken for either. Every answer is
//! on the safe side and has been confirmed: the certified ε at it is at most the target. The certified δ is asked for too, where it is known to the tolerance and the search for
//! ε left no room for what an answer for it may know less.

use crate::curve::axis::Axis;
use crate::curve::composition::Composition;
use crate::curve::gaussian_limit::GaussianLimit;
use crate::curve::planning_start::{Start, near_root};
use crate::curve::threshold;
use crate::curve::threshold::{Judged, Verdict};
use crate::error::{Error, Result, require_delta, require_epsilon};
use crate::interval::Interval;
use crate::step::group::MAX_GROUP_SIZE;
use crate::step::truncated_poisson::MAX_TRUNCATED_GROUP;
use crate::step::{Adjacency, Mechanism, Sampling, Step};

/// Noise multipliers that are searched.
const NOISE: (f64, f64) = (1e-3, 1e6);
/// log of the smallest sample rate that is searched; below it the answer is 0.
const MIN_LOG_RATE: f64 = -740.0;
/// Largest number of steps that is searched.
const MAX_STEPS: u64 = 1_000_000_000;
/// Largest relative width of δ while a root is searched: with a larger one interpolation takes more evaluations than it saves work.
const ROUGHEST: f64 = 1e-4;
/// Largest logarithm of a ratio in interpolation: those of ratios that are 0 or infinite are cut to it.
const LARGEST_EXCESS: f64 = 1e3;

/// The guarantee that a run must give, and the accuracy to which it is computed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// ε ≥ 0.
    pub epsilon: f64,
    /// δ in (0, 1).
    pub delta: f64,
    /// Relative width of the certified intervals, and of the answers that are not whole.
    pub tolerance: f64,
}

/// The answer of a search, and a value beyond it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// A value that is certified to meet the target. (Rate 0 and 0 steps meet every target, as nothing is released.)
    pub safe: f64,
    /// A value that is certified to miss the target. Where none is known it is the natural limit of the unknown (noise 0, rate 1) or infinite,
    /// or equal to `safe` if that is such a limit.
    pub unsafe_side: f64,
    /// True if the two are farther apart than the tolerance, because the certified intervals in between are too wide. False if all of the range
    /// that is searched meets the target.
    pub wide: bool,
}

impl Bracket {
    /// A natural limit of the unknown that meets the target.
    fn exact(value: f64) -> Self {
        Self {
            safe: value,
            unsafe_side: value,
            wide: false,
        }
    }
}

/// Judges runs by a target: by their ε at the target's δ, or by their δ at the target's ε. The first question is that for ε if the search started
/// with a slope of log ε, and later the one that decided the last run that only one of them decided.
struct Judge {
    target: Target,
    epsilon_first: bool,
    /// The run that met the target with the greatest privacy loss, and its point on the axis: it is likely to be the answer.
    nearest: Option<(f64, Composition)>,
}

impl Judge {
    fn new(target: Target) -> Result<Self> {
        require_epsilon(target.epsilon)?;
        require_delta(target.delta)?;
        Ok(Self {
            target,
            epsilon_first: false,
            nearest: None,
        })
    }

    /// Whether the run at `x` meets the target, as far as that can be certified.
    fn judge(&mut self, x: f64, mut run: Composition) -> Result<Judged> {
        let judged = self.by_both(&mut run)?;
        if judged.verdict == Verdict::Meets && self.nearest.as_ref().is_none_or(|&(known, _)| x > known) {
            self.nearest = Some((x, run));
        }
        Ok(judged)
    }

    /// The verdict of ε or δ. Far in the tail the interval for δ may be wide where that for ε is narrow, and the other way round, so that one
    /// question may decide what the other leaves open.
    fn by_both(&mut self, run: &mut Composition) -> Result<Judged> {
        let first = self.ask(run, self.epsilon_first)?;
        if first.verdict != Verdict::Open {
            return Ok(first);
        }
        let second = self.ask(run, !self.epsilon_first)?;
        if second.verdict == Verdict::Open {
            return Ok(first);
        }
        self.epsilon_first = !self.epsilon_first;
        Ok(second)
    }

    fn ask(&self, run: &mut Composition, for_epsilon: bool) -> Result<Judged> {
        if for_epsilon {
            self.by_epsilon(run)
        } else {
            self.by_delta(run)
        }
    }

    /// The verdict of δ at the target's ε.
    fn by_delta(&self, run: &mut Composition) -> Result<Judged> {
        let log_delta = self.target.delta.ln();
        let found =
            run.delta_compared_with(log_delta, self.target.epsilon, self.target.tolerance.min(ROUGHEST))?;
        // A run misses the target only if it does so by more than the rounding of log δ.
        let rounding = f64::EPSILON * log_delta.abs();
        Ok(judged(
            found.log_lower - log_delta - rounding,
            found.log_upper - log_delta,
        ))
    }

    /// The verdict of ε at the target's δ.
    fn by_epsilon(&self, run: &mut Composition) -> Result<Judged> {
        let Interval { lower, upper } = run.epsilon(self.target.delta, self.target.tolerance)?;
        let excess = |epsilon: f64| {
            let log = (epsilon / self.target.epsilon).ln();
            // The verdict must not depend on the rounding of the logarithm.
            if epsilon > self.target.epsilon {
                log.max(f64::MIN_POSITIVE)
            } else {
                log.min(0.0)
            }
        };
        Ok(judged(excess(lower), excess(upper)))
    }

    /// About where the threshold is, by the central limit theorem.
    fn limit(&self, step: &Step) -> Option<GaussianLimit> {
        GaussianLimit::new(step, (self.target.epsilon, self.target.delta))
    }

    /// Where a search along an axis starts that would start at `default`: near the threshold, as far as estimates of ε tell.
    fn start(&mut self, axis: &Axis, default: f64, mut run: impl FnMut(f64) -> Result<Composition>) -> Start {
        let Target { epsilon, delta, .. } = self.target;
        let default = default.clamp(axis.ends.0, axis.ends.1);
        let default = if axis.whole { default.round() } else { default };
        if epsilon == 0.0 {
            return default.into();
        }
        let found = near_root(axis, default, |x| {
            let found = run(x).ok()?.estimate(delta.ln())?;
            Some((found.epsilon.max(0.0) / epsilon).ln())
        });
        self.epsilon_first = found.slope.is_some();
        found
    }

    /// True if the run at `x` may be the answer: the upper end of its ε is at most the target, and so is that of its δ, unless the interval for
    /// δ is wider than the tolerance and holds the target, so that ε alone decides. The run that was kept is used up.
    fn accepts(&mut self, x: f64, run: impl FnOnce() -> Result<Composition>) -> Result<bool> {
        match self.nearest.take() {
            Some((known, mut run)) if known == x => self.accepts_run(&mut run),
            _ => self.accepts_run(&mut run()?),
        }
    }

    fn accepts_run(&self, run: &mut Composition) -> Result<bool> {
        let Target {
            epsilon,
            delta,
            tolerance,
        } = self.target;
        let (found, has_margin) = run.epsilon_with_margin(delta, tolerance)?;
        if found.upper > epsilon {
            return Ok(false);
        }
        // δ at the target is no larger than at the upper end.
        if has_margin {
            return Ok(true);
        }
        let found = run.delta(epsilon, tolerance)?;
        Ok(found.upper() <= delta || (found.width() > tolerance && found.lower() <= delta))
    }
}

/// The verdict of a certified interval for how far log δ, or log ε, lies above its target: the target is met if the whole interval
/// is at most 0, missed if the whole interval is above 0, and open otherwise.
fn judged(lower: f64, upper: f64) -> Judged {
    let verdict = match (upper <= 0.0, lower > 0.0) {
        (true, _) => Verdict::Meets,
        (false, true) => Verdict::Misses,
        (false, false) => Verdict::Open,
    };
    let middle = if lower == f64::NEG_INFINITY {
        upper
    } else {
        0.5 * (lower + upper)
    };
    let excess = if middle.is_nan() { 0.0 } else { middle };
    let uncertainty = if upper.is_finite() { upper - middle } else { 0.0 };
    Judged {
        verdict,
        excess: excess.clamp(-LARGEST_EXCESS, LARGEST_EXCESS),
        uncertainty,
    }
}

/// A run of equal steps.
fn run_of(step: &Step, steps: u64, adjacency: Adjacency) -> Result<Composition> {
    Composition::new(&[(step.clone(), steps)], adjacency)
}

/// The smallest noise multiplier that meets the target.
///
/// # Errors
/// An argument out of range; a target that even the largest noise multiplier does not meet, naming the nearest ε.
pub fn noise_multiplier(step: &Step, steps: u64, adjacency: Adjacency, target: Target) -> Result<Bracket> {
    let mut judge = Judge::new(target)?;
    let with = |noise_multiplier: f64| {
        let mut step = step.clone();
        step.mechanism = Mechanism::Gaussian { noise_multiplier };
        run_of(&step, steps, adjacency)
    };
    if judge.accepts_run(&mut with(0.0)?)? {
        return Ok(Bracket::exact(0.0));
    }
    // Along −log σ, on which the privacy loss grows.
    let axis = Axis::continuous((-NOISE.1.ln(), -NOISE.0.ln()), target.tolerance);
    let value = |x: f64| (-x).exp();
    let limit = judge.limit(step).and_then(|limit| limit.noise_multiplier(steps as f64));
    let start = judge.start(&axis, limit.map_or(0.0, |noise| -noise.ln()), |x| with(value(x)));
    let found = threshold::search(
        &axis,
        start,
        None,
        &mut judge,
        |judge, x| judge.judge(x, with(value(x))?),
        |judge, x| judge.accepts(x, || with(value(x))),
    )?;
    let Some(safe) = found.meets else {
        let nearest = with(NOISE.1)?.epsilon(target.delta, target.tolerance)?.upper;
        return Err(Error::Unreachable(format!(
            "epsilon = {:?} cannot be reached at delta = {:?} with a noise multiplier up to {:?}; the nearest \
             reachable epsilon is {nearest:?}",
            target.epsilon, target.delta, NOISE.1
        )));
    };
    Ok(Bracket {
        safe: value(safe),
        unsafe_side: found.misses.map_or(0.0, value),
        // Where all of the range meets the target its end is the answer, and it is not wide.
        wide: found.wide,
    })
}

/// The largest Poisson sample rate that meets the target; 1 if every rate does.
///
/// # Errors
/// An argument out of range.
pub fn sample_rate(step: &Step, steps: u64, adjacency: Adjacency, target: Target) -> Result<Bracket> {
    let mut judge = Judge::new(target)?;
    let with = |sample_rate: f64| {
        let mut step = step.clone();
        step.sampling = Sampling::Poisson { sample_rate };
        run_of(&step, steps, adjacency)
    };
    if judge.accepts_run(&mut with(1.0)?)? {
        return Ok(Bracket::exact(1.0));
    }
    let axis = Axis::continuous((MIN_LOG_RATE, 0.0), target.tolerance);
    let limit = judge.limit(step).and_then(|limit| limit.sample_rate(steps as f64));
    let start = judge.start(&axis, limit.map_or(-1.0, f64::ln), |x| with(x.exp()));
    let found = threshold::search(
        &axis,
        start,
        None,
        &mut judge,
        |judge, x| judge.judge(x, with(x.exp())?),
        |judge, x| judge.accepts(x, || with(x.exp())),
    )?;
    Ok(Bracket {
        // At rate 0 no record is in a batch, and there is no privacy loss.
        safe: found.meets.map_or(0.0, f64::exp),
        unsafe_side: found.misses.map_or(1.0, f64::exp),
        wide: found.wide || found.meets.is_none(),
    })
}

/// The largest number of steps up to 10⁹ that meets the target.
///
/// # Errors
/// An argument out of range.
pub fn steps(step: &Step, adjacency: Adjacency, target: Target) -> Result<Bracket> {
    let mut judge = Judge::new(target)?;
    // Without steps there is no privacy loss.
    let axis = Axis::whole((0, MAX_STEPS), target.tolerance);
    let with = |count: f64| run_of(step, count as u64, adjacency);
    let limit = judge.limit(step).and_then(GaussianLimit::steps);
    let start = judge.start(&axis, limit.unwrap_or(1.0), with);
    let found = threshold::search(
        &axis,
        start,
        Some(0.0),
        &mut judge,
        |judge, count| judge.judge(count, with(count)?),
        |judge, count| judge.accepts(count, || with(count)),
    )?;
    Ok(Bracket {
        safe: found.meets.unwrap_or(0.0),
        unsafe_side: found.misses.unwrap_or(f64::INFINITY),
        wide: found.wide,
    })
}

/// The largest group size that meets the target, up to the largest that the sampling has: 10,000 records or the data set, 128 records for
/// truncated Poisson batches, and one for mixtures and for truncated batches of which records are replaced. If that meets the target,
/// `unsafe_side` is infinite.
///
/// # Errors
/// An argument out of range; a target that a single record misses, naming the ε of one record.
pub fn group_size(step: &Step, steps: u64, adjacency: Adjacency, target: Target) -> Result<Bracket> {
    let mut judge = Judge::new(target)?;
    let with = |size: f64| {
        let mut step = step.clone();
        step.group.size = size as u64;
        run_of(&step, steps, adjacency)
    };
    let is_cut = matches!(step.sampling, Sampling::TruncatedPoisson { .. });
    let single = adjacency == Adjacency::Replace && is_cut;
    let largest = match step.sampling {
        _ if single => 1,
        Sampling::Mixture => 1,
        Sampling::RandomAllocation { .. } | Sampling::FixedBins { .. } => MAX_GROUP_SIZE,
        Sampling::FixedBatch { dataset_size, .. } => MAX_GROUP_SIZE.min(dataset_size),
        Sampling::Poisson { .. } => MAX_GROUP_SIZE,
        Sampling::TruncatedPoisson { dataset_size, .. } => MAX_TRUNCATED_GROUP.min(dataset_size),
    };
    let axis = Axis::whole((1, largest), target.tolerance);
    let limit = judge.limit(step).and_then(|limit| limit.group_size(steps as f64));
    let start = judge.start(&axis, limit.unwrap_or(1.0), with);
    let found = threshold::search(
        &axis,
        start,
        None,
        &mut judge,
        |judge, size| judge.judge(size, with(size)?),
        |judge, size| judge.accepts(size, || with(size)),
    )?;
    let Some(safe) = found.meets else {
        let nearest = with(1.0)?.epsilon(target.delta, target.tolerance)?.upper;
        return Err(Error::Unreachable(format!(
            "epsilon = {:?} cannot be reached at delta = {:?} for any group_size; one record has epsilon = {nearest:?}",
            target.epsilon, target.delta
        )));
    };
    Ok(Bracket {
        safe,
        unsafe_side: found.misses.unwrap_or(f64::INFINITY),
        wide: found.wide,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Group;

    /// The μ at which G_μ has δ(1) = 1e-5, by mpmath 1.3 with 40 digits:
    /// findroot(Φ(μ/2 − 1/μ) − e·Φ(−μ/2 − 1/μ) − 1e-5).
    const DISTANCE: f64 = 0.268_051_123_211_294_2;

    const TARGET: Target = Target {
        epsilon: 1.0,
        delta: 1e-5,
        tolerance: 1e-6,
    };

    fn step(noise_multiplier: f64, sample_rate: f64) -> Step {
        Step {
            mechanism: Mechanism::Gaussian { noise_multiplier },
            sampling: Sampling::Poisson { sample_rate },
            group: Group::of(1),
        }
    }

    /// T steps of full batches with noise σ are G_μ with μ = √T/σ.
    #[test]
    fn the_noise_multiplier_of_full_batches_is_that_of_one_gaussian_pair() {
        for steps in [1u64, 100] {
            let exact = (steps as f64).sqrt() / DISTANCE;
            let found = noise_multiplier(&step(1.0, 1.0), steps, Adjacency::AddRemove, TARGET).unwrap();
            assert!(
                found.unsafe_side <= exact * (1.0 + 1e-15) && exact * (1.0 - 1e-15) <= found.safe,
                "{found:?}"
            );
            assert!(
                !found.wide && found.safe - found.unsafe_side <= 2e-6 * exact,
                "{found:?} {exact}"
            );
        }
    }

    /// 179.63 = (50μ)² steps of noise 50 would meet the target.
    #[test]
    fn the_steps_of_full_batches_are_those_of_one_gaussian_pair() {
        let found = steps(&step(50.0, 1.0), Adjacency::AddRemove, TARGET).unwrap();
        assert_eq!((found.safe, found.unsafe_side, found.wide), (179.0, 180.0, false));
    }

    /// 26.8 = 100μ records in a full batch with noise 100 would meet the target.
    #[test]
    fn the_group_of_full_batches_is_that_of_one_gaussian_pair() {
        let found = group_size(&step(100.0, 1.0), 1, Adjacency::AddRemove, TARGET).unwrap();
        assert_eq!((found.safe, found.unsafe_side, found.wide), (26.0, 27.0, false));
        let none = group_size(&step(1.0, 1.0), 1, Adjacency::AddRemove, TARGET).unwrap_err();
        assert!(matches!(none, Error::Unreachable(_)));
    }

    /// One step with σ = 1 meets ε = 1/2 and δ = 1e-3 up to the rate q at which δ of "remove" is 1e-3, by mpmath 1.3: findroot of
    /// (1 − q)Φ(−x) + qΦ(1 − x) − e^ε Φ(−x) − 1e-3 with x = log((e^ε − (1 − q))/q) + 1/2. That of "add" is 0 there.
    #[test]
    fn the_sample_rate_of_one_step_is_that_of_its_closed_form() {
        let exact = 0.079_019_524_625_249_13;
        let target = Target {
            epsilon: 0.5,
            delta: 1e-3,
            ..TARGET
        };
        let found = sample_rate(&step(1.0, 1.0), 1, Adjacency::AddRemove, target).unwrap();
        assert!(
            found.safe <= exact * (1.0 + 1e-15) && exact * (1.0 - 1e-15) <= found.unsafe_side,
            "{found:?}"
        );
        assert!(
            !found.wide && found.unsafe_side - found.safe <= 2e-6 * exact,
            "{found:?}"
        );
    }

    #[test]
    fn targets_are_checked() {
        let refused = |target| {
            steps(&step(1.0, 0.1), Adjacency::AddRemove, target)
                .unwrap_err()
                .to_string()
        };
        assert!(
            refused(Target {
                epsilon: -1.0,
                ..TARGET
            })
            .starts_with("epsilon must be in [0, inf)")
        );
        assert!(refused(Target { delta: 1.0, ..TARGET }).starts_with("delta must be in (0, 1)"));
    }

    #[test]
    fn verdicts_are_certain_or_open() {
        let verdict = |lower, upper| judged(lower, upper).verdict;
        assert_eq!(verdict(-1.0, 0.0), Verdict::Meets);
        assert_eq!(verdict(1e-300, 1.0), Verdict::Misses);
        assert_eq!(verdict(0.0, 1.0), Verdict::Open);
        assert_eq!(verdict(f64::NEG_INFINITY, f64::INFINITY), Verdict::Open);
    }
}
