//! The privacy curve of the dominating pairs of a run: the larger one of its ordered pairs.

use crate::curve::accuracy::{Accuracy, MARGIN, PointAccuracy};
use crate::curve::composed_loss::ComposedLoss;
use crate::curve::epsilon_search;
use crate::curve::epsilon_search::{Found, MARGIN_AT_ZERO, Query, StartingPoint};
use crate::curve::range_cache::RangeCache;
use crate::curve::routes::Route;
use crate::error::{Result, require_finite_epsilon};
use crate::interval::{Enclosure, Interval};
use crate::loss::pairs::{Noiseless, StepOutcome};
use crate::loss::schedule;
use crate::special::log_space::LogSum;
use crate::step::{Adjacency, Direction, Step};

/// log δ below which every ε is confirmed: so far out, an answer for δ is now and then wider than asked for where that for ε is not.
const LEAST_WITH_MARGIN: f64 = -27.7;
/// First step out from an ε that is not confirmed, in units of the tolerance: an ε is found to 0.6 of it.
const FIRST_STEP: f64 = 0.1;
/// Below this ε, steps out are as long as at this ε: steps in proportion to ε would never leave 0. With 1e-3 a tenth of a percent of random answers, those
/// next to 0, were wider than 1e-6.
const LEAST_FOR_STEPS: f64 = 1e-9;
/// Factors by which the steps out grow, at least and at most. The step is chosen so that δ is small enough after it if log δ goes on falling
/// as it fell, with this factor to spare.
const GROWTH: (f64, f64) = (2.0, 64.0);
const OVERSHOOT: f64 = 1.1;
/// Steps out at most. Each is at least [`GROWTH`].0 times the one before, so that 24 of them lead 2²⁴ first steps away; an ε that large would be of
/// no use.
const MAX_STEPS_OUT: usize = 24;

/// Largest width of an enclosure of log δ with which another direction is compared. Without it a bound that decided at 1e-8 made another direction
/// ask whether its δ is below e^−16000; those that are asked for accurately are far narrower.
const COMPARABLE: f64 = 1.0;

/// Different steps besides those of noise schedules for which merging the latter is worthwhile: each costs as much as a node of a schedule.
const MAX_OTHERS: usize = 2_000;

/// The curve of the dominating pairs of a run. Work on one question serves the next, but no answer depends on what was asked before.
#[derive(Debug)]
pub(crate) struct PairCurve {
    losses: Vec<ComposedLoss>,
    /// By ordered pair, for [`PairCurve::delta_and_work`].
    caches: Vec<RangeCache>,
}

/// The outcomes of steps and their numbers.
type Outcomes = Vec<(StepOutcome, u64)>;

/// The steps without noise where the noise hides next to nothing, if there are any, and log of a bound on the probability that it hides
/// something after all.
fn noiseless(steps: &[(Step, u64)], direction: Option<Direction>) -> Result<Option<(Outcomes, f64)>> {
    let found: Vec<Option<Noiseless>> = steps
        .iter()
        .map(|(step, _)| step.noiseless(direction))
        .collect::<Result<_>>()?;
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut outcomes = Vec::with_capacity(steps.len());
    let mut confusion = LogSum::default();
    for ((step, count), noiseless) in steps.iter().zip(found) {
        let outcome = match noiseless {
            Some(Noiseless {
                log_unseen,
                log_confusion,
            }) => {
                confusion.add(log_confusion + (*count as f64).ln());
                StepOutcome::RevealsMembership { log_unseen }
            }
            None => {
                outcomes.extend(step.outcomes(direction, *count)?);
                continue;
            }
        };
        outcomes.push((outcome, *count));
    }
    Ok(Some((outcomes, confusion.ln() + 1e-9)))
}

impl PairCurve {
    /// The curve of a run of each step with its number.
    ///
    /// # Errors
    /// An argument out of range, or a combination without a pair in `docs/theory/dominating-pairs.md`.
    pub(crate) fn new(steps: &[(Step, u64)], adjacency: Adjacency) -> Result<Self> {
        Self::made_of(steps, adjacency, |direction| {
            let mut outcomes = Vec::with_capacity(steps.len());
            for (step, count) in steps {
                outcomes.extend(step.outcomes(direction, *count)?);
            }
            Ok(outcomes)
        })
    }

    /// The curve of a run of very many different steps, those of noise schedules merged to one loss each ([`schedule`]); `None` where
    /// more than [`MAX_OTHERS`] different steps belong to none.
    ///
    /// # Errors
    /// As [`PairCurve::new`].
    pub(crate) fn merged(steps: &[(Step, u64)], adjacency: Adjacency) -> Result<Option<Self>> {
        // Of a run with steps that have next to no noise there is another one, without the noise of these, which is not merged.
        let is_noiseless =
            |(step, _): &(Step, u64)| matches!(step.noiseless(Some(Direction::Remove)), Ok(Some(_)));
        if steps.iter().any(is_noiseless) {
            return Ok(None);
        }
        let mut is_large = false;
        let found = Self::made_of(steps, adjacency, |direction| {
            let (losses, others) = match direction {
                Some(direction) if !is_large => schedule::merged(steps, direction),
                _ => (Vec::new(), Vec::new()),
            };
            is_large |= losses.is_empty() || others.len() > MAX_OTHERS;
            if is_large {
                return Ok(Vec::new());
            }
            let mut outcomes: Outcomes = losses.into_iter().map(|loss| (StepOutcome::Loss(loss), 1)).collect();
            for (step, count) in others {
                outcomes.extend(step.outcomes(direction, *count)?);
            }
            Ok(outcomes)
        })?;
        Ok((!is_large).then_some(found))
    }

    fn made_of(
        steps: &[(Step, u64)],
        adjacency: Adjacency,
        mut outcomes_of: impl FnMut(Option<Direction>) -> Result<Outcomes>,
    ) -> Result<Self> {
        let mut losses = Vec::new();
        for &direction in adjacency.pairs() {
            let outcomes = outcomes_of(direction)?;
            let adds = direction == Some(Direction::Add);
            let loss = ComposedLoss::new(outcomes, adds);
            losses.push(match noiseless(steps, direction)? {
                Some((outcomes, log_confusion)) => {
                    loss.with_noiseless(ComposedLoss::new(outcomes, adds), log_confusion)
                }
                None => loss,
            });
        }
        Ok(Self::of_losses(losses))
    }

    /// The curve of some ordered pairs.
    pub(crate) fn of_losses(losses: Vec<ComposedLoss>) -> Self {
        Self {
            caches: losses.iter().map(|_| RangeCache::default()).collect(),
            losses,
        }
    }

    /// Forgets what could make the next answer depend on earlier questions.
    pub(super) fn forget(&mut self) {
        self.losses.iter_mut().for_each(ComposedLoss::forget);
    }

    /// Certified δ at ε, as accurately as asked for where that can be had. The answer does not depend on earlier questions.
    pub(super) fn delta(&mut self, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        self.forget();
        self.delta_of_search(epsilon, accuracy)
    }

    /// [`PairCurve::delta`] within a search, which begins with [`PairCurve::forget`]: earlier questions of the search help.
    fn delta_of_search(&mut self, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        let (mut found, mut tilt) = (Enclosure::ZERO, None);
        for (i, loss) in self.losses.iter_mut().enumerate() {
            let mut known = Enclosure::TRIVIAL;
            // Another direction counts only where its δ may be larger: often a bound shows that it is not. What little may be known of the first,
            // where a bound decides, is nothing to compare with.
            if i > 0 && found.width() < COMPARABLE {
                known = loss.delta_beside(epsilon, (found.log_lower, accuracy.width), tilt);
                if known.log_upper <= found.log_lower && known.certified().is_ok() {
                    continue;
                }
            }
            found = found.max(loss.delta_for(epsilon, accuracy).meet(known));
            tilt = tilt.or(loss.tilt());
            loss.shrink();
        }
        found
    }

    /// An estimate of ε at log δ < 0; `None` where there is none.
    pub(super) fn estimate(&mut self, log_delta: f64) -> Option<StartingPoint> {
        let mut largest: Option<StartingPoint> = None;
        for loss in &mut self.losses {
            if largest.is_some_and(|at| loss.bound_at(at.slope, at.epsilon).log_upper <= log_delta) {
                continue;
            }
            let found = loss.estimate(log_delta)?;
            if largest.is_none_or(|known| found.epsilon > known.epsilon) {
                largest = Some(found);
            }
        }
        largest
    }

    /// δ at ε of every direction to a relative width, within a search.
    pub(super) fn delta_of_all(&mut self, epsilon: f64, width: f64) -> Enclosure {
        let all = self.losses.iter_mut().map(|loss| loss.delta(epsilon, width));
        all.fold(Enclosure::ZERO, Enclosure::max)
    }

    /// Certified δ at ε for callers that ask for many points of one curve, and its work in density evaluations if nothing is known yet.
    ///
    /// # Errors
    /// ε not finite; certified bounds that contradict each other.
    pub(crate) fn delta_and_work(&mut self, epsilon: f64, accuracy: PointAccuracy) -> Result<(Enclosure, u64)> {
        require_finite_epsilon(epsilon)?;
        let (mut found, mut work) = (Enclosure::ZERO, 0);
        if let ([first, others @ ..], [cache, caches @ ..]) = (&mut self.losses[..], &mut self.caches[..]) {
            (found, work) = cache.delta(first, epsilon, accuracy);
            for (loss, cache) in others.iter_mut().zip(caches) {
                if !cache.is_dominated(loss, first, epsilon) {
                    let (here, spent) = cache.delta(loss, epsilon, accuracy);
                    (found, work) = (found.max(here), work + spent);
                }
            }
        }
        Ok((found.certified()?, work))
    }

    /// Certified δ at ε by one route alone.
    ///
    /// # Errors
    /// A route that does not apply; certified bounds that contradict each other.
    pub(super) fn delta_by(&mut self, route: Route, epsilon: f64, tolerance: f64) -> Result<Enclosure> {
        self.forget();
        let mut found = Enclosure::ZERO;
        for loss in &mut self.losses {
            found = found.max(loss.delta_by(route, epsilon, tolerance)?);
        }
        found.certified()
    }

    /// Bounds on ε at log δ < 0, which may be below the range of an `f64`; δ at the upper one, asked for on its own, is at most that δ.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub(crate) fn confirmed_epsilon(&mut self, log_delta: f64, tolerance: f64) -> Result<Interval> {
        let is_met = |found: Enclosure| found.log_upper <= log_delta;
        let Found {
            interval: found,
            has_margin,
            slope,
        } = self.epsilon_with_margin(log_delta, tolerance)?;
        if has_margin && (found.lower > 0.0 || found.upper == 0.0) {
            return Ok(found);
        }
        let accuracy = Accuracy::of_width(tolerance);
        if found.lower == 0.0
            && (self.is_met_by_crude_bounds(tolerance, is_met) || is_met(self.delta(0.0, &accuracy).certified()?))
        {
            return Ok(Interval::exact(0.0));
        }
        confirmed((found, slope), log_delta, tolerance, is_met, |epsilon| {
            self.delta(epsilon, &accuracy).certified()
        })
    }

    /// Bounds on ε at log δ < 0: the larger ε of all directions.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub(super) fn epsilon(&mut self, log_delta: f64, tolerance: f64) -> Result<Interval> {
        Ok(self.epsilon_with_margin(log_delta, tolerance)?.interval)
    }

    /// [`PairCurve::epsilon`], and whether a question for δ at the upper end, to a relative width of `tolerance`, needs no confirmation.
    ///
    /// If log δ there is below `log_delta` by more than the width of such an answer, then so is the upper end of the answer:
    ///
    /// > log U ≤ log L + w ≤ log δ(ε) + w ≤ `log_delta` − m + w with L ≤ δ(ε) ≤ U, w ≤ m.
    ///
    /// The search knew δ to that width at some ε on its way. That the question will know it too is expected, and not proven: where its
    /// interval comes out wider, its upper end may be above δ. Of 1,500 random runs none did.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub(super) fn epsilon_with_margin(&mut self, log_delta: f64, tolerance: f64) -> Result<Found> {
        self.forget();
        let margin = if log_delta > LEAST_WITH_MARGIN {
            MARGIN * tolerance
        } else {
            0.0
        };
        let mut found = Found::from(Interval::exact(0.0));
        for (i, loss) in self.losses.iter_mut().enumerate() {
            // Another direction counts only if its δ is larger at the ε found so far.
            let upper = found.interval.upper;
            let needed = match (found.has_margin, upper > 0.0) {
                (true, true) => log_delta - margin,
                (true, false) => log_delta - margin.max(MARGIN_AT_ZERO),
                (false, _) => log_delta,
            };
            if i > 0 {
                let there = loss.delta_beside(upper, (needed, tolerance), Some(found.slope));
                if there.certified()?.log_upper <= needed {
                    continue;
                }
            }
            let other = loss.epsilon_with_margin(log_delta, tolerance, margin)?;
            found = Found {
                interval: found.interval.max(other.interval),
                has_margin: (i == 0 || found.has_margin) && other.has_margin,
                slope: other.slope,
            };
            loss.shrink();
        }
        Ok(found)
    }

    /// Bounds on the ε ≥ 0 at which δ(ε)·e^`log_factor`(ε) falls to e^`log_delta`, and the work that they took in density evaluations.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub(crate) fn epsilon_of_multiple(
        &mut self,
        log_factor: impl Fn(f64) -> f64,
        (log_delta, tolerance): (f64, f64),
        start: StartingPoint,
    ) -> Result<(Interval, u64)> {
        self.forget();
        let work = |curve: &Self| curve.losses.iter().map(ComposedLoss::work).sum::<u64>();
        let before = work(self);
        let curve = |epsilon: f64, accuracy: &Accuracy| {
            let factor = log_factor(epsilon);
            let rounding = 16.0 * f64::EPSILON * (2.0 + factor.abs());
            let threshold = accuracy.threshold.map(|log| log - factor);
            let found = self.delta_of_search(epsilon, &Accuracy { threshold, ..*accuracy });
            found.with_logs(found.log_lower + factor - rounding, found.log_upper + factor + rounding)
        };
        let query = Query {
            log_delta,
            tolerance,
            margin: 0.0,
            start,
            largest_loss: f64::INFINITY,
        };
        let found = epsilon_search::epsilon(curve, &query)?.interval;
        Ok((found, work(self) - before))
    }

    /// An ε at which δ is about e^`log_delta` or less, at most `limit`, within a search.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub(super) fn rough_epsilon(&mut self, log_delta: f64, tolerance: f64, limit: f64) -> Result<f64> {
        let mut largest = 0.0f64;
        for loss in &mut self.losses {
            largest = largest.max(loss.epsilon(log_delta, tolerance)?.upper.min(limit));
        }
        Ok(largest)
    }

    /// True if bounds that δ(0) never exceeds are small enough, so that it need not be asked for.
    pub(super) fn is_met_by_crude_bounds(&mut self, tolerance: f64, is_met: impl Fn(Enclosure) -> bool) -> bool {
        self.losses.iter_mut().all(|loss| {
            loss.forget();
            let bound = loss.crude_bound_at_zero(tolerance);
            bound.is_some_and(|log_delta| is_met(Enclosure::of_logs(f64::NEG_INFINITY, log_delta)))
        })
    }

    /// The largest loss of any output, rounded up; infinite where there is none.
    pub(super) fn largest_loss(&self) -> f64 {
        self.losses.iter().map(ComposedLoss::largest_loss).fold(0.0, f64::max)
    }

    /// Upper bound on the Rényi divergence of order α > 1.
    pub(crate) fn renyi(&mut self, order: f64) -> f64 {
        let each = self.losses.iter_mut().map(|loss| loss.renyi(order));
        each.fold(0.0, f64::max)
    }
}

/// The bounds on ε with an upper one at which δ, asked for on its own, is small enough.
///
/// A search for ε uses what it found on the way, and asks for other widths than a question for δ does, so that two certified upper
/// bounds on δ at one ε may differ. Where the search left no margin for that ([`PairCurve::epsilon_with_margin`]) and the bound of a
/// question for δ is too large, ε grows until it is not: first as far as log δ, which falls by `slope`, is too large, where that is known.
///
/// # Errors
/// Those of `delta`.
pub(super) fn confirmed(
    (found, slope): (Interval, f64),
    log_delta: f64,
    tolerance: f64,
    is_met: impl Fn(Enclosure) -> bool,
    mut delta: impl FnMut(f64) -> Result<Enclosure>,
) -> Result<Interval> {
    let Interval { lower, upper } = found;
    if upper.is_infinite() {
        return Ok(found);
    }
    let (mut epsilon, mut step) = (upper, FIRST_STEP * tolerance * upper.max(LEAST_FOR_STEPS));
    let mut there = delta(epsilon)?;
    for _ in 0..MAX_STEPS_OUT {
        if is_met(there) {
            return Ok(Interval { lower, upper: epsilon });
        }
        let excess = there.log_upper - log_delta;
        if slope > 0.0 {
            step = step.max((OVERSHOOT * excess / slope).min(GROWTH.1 * step));
        }
        epsilon += step;
        there = delta(epsilon)?;
        let missing = there.log_upper - log_delta;
        let ahead = OVERSHOOT * missing / (excess - missing);
        step *= if ahead.is_nan() {
            GROWTH.0
        } else {
            ahead.clamp(GROWTH.0, GROWTH.1)
        };
    }
    Ok(Interval {
        lower,
        upper: f64::INFINITY,
    })
}

#[cfg(test)]
mod tests;
