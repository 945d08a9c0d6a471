//! δ and ε of a composition in one direction: the one place that chooses between the routes.
//!
//! | route | when |
//! |---|---|
//! | closed form (`one_step`) | one step, or Gaussian losses only (they add up to one) |
//! | sum over counts (`coin_count`) | equal steps with two outcomes: randomised response |
//! | inversion (`contour`) | where the characteristic function is seen to decay: most runs; cost independent of T |
//! | inversion of the runs with a large loss in some step (`split`) | few steps, small sample rates |
//! | the run without noise (`Noiseless`) | noise so little that outputs tell who was in the batch |
//! | grid (`grid`) | losses that are nearly lattices, a few steps of Laplace noise |
//! | Chernoff's bound | what is left: an upper bound only |
//!
//! Every route gives a certified interval; where one is wider than wanted, the next is asked too, and what all of
//! them allow is returned.

use crate::curve::largest_loss::MostLoss;
use crate::curve::one_step::Effort;
use crate::curve::range_cache::Kept;
use crate::curve::truncated::{Form, Truncated};
use crate::curve::{coin_count, epsilon_search, one_step};
use crate::error::{Error, Result};
use crate::grid::composition::is_on_lattice;
use crate::interval::{Aim, Enclosure};
use crate::inversion::chernoff::chernoff;
use crate::inversion::saddle;
use crate::inversion::segment::{KEEPING_PANELS, Segment, Total};
use crate::loss::StepLoss;
use crate::loss::pairs::StepOutcome;
use crate::special::log_space::{LogSum, log1p_exp};
use crate::special::root::solve_decreasing_between;
use crate::stopping::checkpoint;

/// Truncations tried for one δ, each further out.
const TRUNCATIONS: usize = 4;
/// What is tried at each truncation, and how much further out: an edge in the far losses would hardly let the transform
/// of the runs decay that have some.
const ATTEMPTS: [(Form, f64); 5] = [
    (Form::Inversion, 0.0),
    (Form::SplitInversion, 24.0),
    (Form::SplitInversion, 48.0),
    (Form::LongInversion, 0.0),
    (Form::Grid, 0.0),
];
/// Work budget of one answer, in density evaluations (about 3 ns each). When it runs out, the best interval so far is returned.
const MOST_WORK: u64 = 120_000_000;
/// Further budget for Chernoff's bound once [`MOST_WORK`] is spent, so that every answer has an upper end.
const RESERVE: u64 = 40_000_000;
/// log of the sum of the total variations of all steps below which δ is close to the sum of the δ of single steps.
const RARE: f64 = -1.2;
/// Number of different steps for which the budget doubles.
const SEGMENTS: u64 = 100;
/// Width of log δ from which on next to nothing is known: then coarse inversions are tried.
const UNKNOWN: f64 = 0.5;
/// Orders beyond which the Rényi divergence of a bounded loss is taken as its largest value: it is smaller by at most the log of the
/// probability of that value over the order, and moments of such orders have too narrow peaks to be integrated.
const HUGE_ORDER: f64 = 1e9;
/// Below this log δ has no `f64`: an upper bound is all that is wanted.
const UNDERFLOW: f64 = -800.0;

/// A route, for questions that ask for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// One step in closed form.
    OneStep,
    /// Complex-order inversion.
    Inversion,
    /// Complex-order inversion of the runs with a large loss in some step.
    SplitInversion,
    /// Discretised losses.
    Grid,
    /// Chernoff's bound: the Rényi divergence at the best order.
    Renyi,
}

/// The composed privacy loss of a run in one direction.
#[derive(Debug)]
pub struct Directed {
    segments: Vec<Segment>,
    /// Steps whose output tells whether a member was in the batch: δ = (1 − kept) + kept·δ'(ε − moved).
    log_kept: f64,
    moved: f64,
    /// Relative error of these sums and of what is made of them.
    rounding: f64,
    /// The losses without their far outputs, one entry for each distance that questions needed so far.
    truncated: Vec<Truncated>,
    /// log of a bound on the sum of the total variations of all steps.
    log_variation: Option<f64>,
    /// (c, an upper bound on A(c)) of earlier questions.
    moments: Vec<(f64, f64)>,
    /// Standard deviation of the loss, once it was asked for.
    deviation: Option<f64>,
    /// What single steps took so far, in terms of densities.
    single_steps: u64,
    /// [`Directed::work`] at which no route but bounds is tried any more.
    limit: u64,
    noiseless: Option<Noiseless>,
}

/// A run without the noise of those of its steps in which that hides next to nothing.
///
/// The run is that one with noise added afterwards: its δ is no larger. Outputs nearer to the mean with a member than to that without
/// say whether there was one, but for the outputs that are confused: with a probability of β in all, at most, for P and for
/// Q. So its δ(ε) is smaller by at most (1 + e^ε)β.
#[derive(Debug)]
struct Noiseless {
    run: Box<Directed>,
    /// log β.
    log_confusion: f64,
}

/// Roundings in a sum over one kind of steps and in δ; each further kind adds one.
const ROUNDINGS: f64 = 8.0;

/// 1 − e^{ε − moved} if that is positive: δ of a loss that is `moved` for certain, which is a sum with this relative rounding.
fn certain_delta(epsilon: f64, moved: f64, rounding: f64) -> Enclosure {
    let rounding = rounding * (epsilon.abs() + moved.abs());
    let at = |gap: f64| (-gap.exp_m1()).max(0.0).ln();
    let (lower, upper) = (at(epsilon - moved + rounding), at(epsilon - moved - rounding));
    Enclosure::of_logs(lower - 1e-15, upper + 1e-15)
}

impl Directed {
    /// The composition of `steps` with their numbers; `adds` if P has no member of the group.
    pub fn new(steps: Vec<(StepOutcome, u64)>, adds: bool) -> Self {
        let mut composed = Self {
            segments: Vec::new(),
            log_kept: 0.0,
            moved: 0.0,
            rounding: f64::EPSILON * (ROUNDINGS + steps.len() as f64),
            truncated: Vec::new(),
            log_variation: None,
            moments: Vec::new(),
            deviation: None,
            single_steps: 0,
            limit: 0,
            noiseless: None,
        };
        // Gaussian losses N(μ²/2, μ²) add up to one.
        let mut square = 0.0;
        let mut add = |segments: &mut Vec<Segment>, loss: StepLoss, steps: f64| match loss.single_gaussian() {
            Some(distance) => square += steps * distance.powi(2),
            None => segments.push(Segment { loss, steps }),
        };
        for (outcome, count) in steps {
            let steps = count as f64;
            if count == 0 {
                continue;
            }
            match outcome {
                StepOutcome::Nothing => {}
                StepOutcome::Telling { log_unseen } if adds => composed.moved -= steps * log_unseen,
                StepOutcome::Telling { log_unseen } => {
                    composed.log_kept += steps * log_unseen;
                    composed.moved += steps * log_unseen;
                }
                StepOutcome::Loss(loss) => add(&mut composed.segments, loss, steps),
                StepOutcome::Partly { log_kept, moved, loss } => {
                    composed.log_kept += steps * log_kept;
                    composed.moved += steps * moved;
                    if let Some(loss) = loss {
                        add(&mut composed.segments, loss, steps);
                    }
                }
            }
        }
        if square > 0.0 {
            composed.segments.push(Segment {
                loss: StepLoss::shift(square.sqrt()),
                steps: 1.0,
            });
        }
        composed.limit = composed.allowance(MOST_WORK);
        composed
    }

    /// Adds what is known of the run without the noise of those of its steps that have next to none: `run` is that run, and
    /// e^`log_confusion` bounds the probability that noise changes what an output reveals.
    #[must_use]
    pub fn with_noiseless(mut self, run: Self, log_confusion: f64) -> Self {
        self.noiseless = Some(Noiseless {
            run: Box::new(run),
            log_confusion,
        });
        self
    }

    /// Forgets what could make the next answer depend on earlier questions.
    pub(crate) fn forget(&mut self) {
        if let Some(noiseless) = &mut self.noiseless {
            noiseless.run.forget();
        }
        self.truncated.iter_mut().for_each(Truncated::forget);
        self.moments.clear();
        self.limit = self.work() + self.allowance(MOST_WORK);
    }

    /// Gives back the panels of runs of so many different steps that those of both directions would take too much memory.
    pub(crate) fn shrink(&mut self) {
        if self.segments.len() > KEEPING_PANELS {
            self.truncated.clear();
        }
    }

    /// What one answer may cost: more for a run of very many different steps.
    fn allowance(&self, work: u64) -> u64 {
        work + work / SEGMENTS * self.segments.len() as u64
    }

    /// What was done so far, in terms of densities.
    pub(crate) fn work(&self) -> u64 {
        let whole: u64 = self.segments.iter().map(|segment| segment.loss.work()).sum();
        whole + self.single_steps + self.truncated.iter().map(Truncated::work).sum::<u64>()
    }

    /// Certified log δ at any real ε, to a relative width of about `width` of δ where that can be had.
    pub fn delta(&mut self, epsilon: f64, width: f64) -> Enclosure {
        self.delta_for(epsilon, &Aim::of_width(width))
    }

    /// Certified log δ at any real ε, as closely as `aim` asks.
    pub(crate) fn delta_for(&mut self, epsilon: f64, aim: &Aim) -> Enclosure {
        checkpoint();
        let Some(noiseless) = &mut self.noiseless else {
            return self.noisy_delta(epsilon, aim);
        };
        let seen = noiseless.run.delta_for(epsilon, aim);
        let confused = noiseless.log_confusion + log1p_exp(epsilon);
        let lower = if confused < seen.log_lower {
            seen.log_lower + (-(confused - seen.log_lower).exp()).ln_1p() - 1e-15
        } else {
            f64::NEG_INFINITY
        };
        let known = seen.with_logs(lower, seen.log_upper);
        if aim.is_met(known) {
            return known;
        }
        known.meet(self.noisy_delta(epsilon, aim))
    }

    fn noisy_delta(&mut self, epsilon: f64, aim: &Aim) -> Enclosure {
        if self.moved == 0.0 && self.log_kept == 0.0 {
            return self.smooth_delta(epsilon, aim);
        }
        if self.log_kept == f64::NEG_INFINITY || self.moved == f64::INFINITY {
            return Enclosure::of_logs(0.0, 0.0); // every step tells
        }
        if self.log_kept < 0.0 && self.is_on_lattice() {
            // Beside what is lost the rest may not count: a bound tells.
            let bound = self.chernoff(epsilon - self.moved).log_upper;
            let whole = self.with_lost(Enclosure::of_logs(f64::NEG_INFINITY, bound));
            if aim.is_met(whole) {
                return whole;
            }
        }
        if self.segments.is_empty() {
            return self.with_lost(certain_delta(epsilon, self.moved, self.rounding));
        }
        let rest = self.smooth_delta(epsilon - self.moved, &Aim::of_width(aim.enough));
        self.with_lost(rest)
    }

    /// δ of the whole from δ' of the outcomes that do not tell.
    pub(crate) fn with_lost(&self, rest: Enclosure) -> Enclosure {
        if self.log_kept == 0.0 {
            return rest;
        }
        let lost = -self.log_kept.exp_m1();
        let with = |log: f64, slack: f64| ((lost + (self.log_kept + log).exp()) * (1.0 + slack)).ln();
        let slack = self.rounding * (2.0 + self.log_kept.abs());
        rest.with_logs(with(rest.log_lower, -slack), with(rest.log_upper, slack))
    }

    /// By how much the losses of outcomes that do not tell are moved.
    pub(crate) fn moved(&self) -> f64 {
        self.moved
    }

    /// Standard deviation of the loss; `None` where closed forms answer at once, or every step tells.
    pub(crate) fn spread(&mut self) -> Option<f64> {
        let closed = match self.segments.as_slice() {
            [] => true,
            [segment] => segment.steps == 1.0 || coin_count::delta(&*segment.loss, segment.steps, 0.0).is_some(),
            _ => false,
        };
        if closed || self.log_kept == f64::NEG_INFINITY || self.moved.is_infinite() {
            return None;
        }
        if self.deviation.is_none() {
            self.deviation = Total::at(&mut self.segments, 0.0).map(|total| total.variance.sqrt());
        }
        self.deviation
    }

    /// Hands over what was made for earlier questions.
    pub(crate) fn take_kept(&mut self) -> Vec<Kept> {
        self.truncated.iter_mut().map(Truncated::take_kept).collect()
    }

    fn smooth_delta(&mut self, epsilon: f64, aim: &Aim) -> Enclosure {
        if self.segments.is_empty() {
            return certain_delta(epsilon, 0.0, self.rounding);
        }
        let most = MostLoss::of(&self.segments);
        let room = most.above(epsilon);
        if room <= 0.0 {
            return Enclosure::ZERO;
        }
        // E[(1 − e^{ε − ℓ})₊] where no loss is above the largest. None counts where one step falls short of its own by as much.
        let log_mass = if room.is_finite() {
            self.log_mass_near_most(room)
        } else {
            0.0
        };
        let log_gain = (-(-room).exp_m1()).ln();
        let ceiling = Enclosure::of_logs(
            f64::NEG_INFINITY,
            log_mass + log_gain + f64::EPSILON * (4.0 + log_gain.abs() + log_mass.abs()),
        );
        if let Some(found) = self.closed_form(epsilon) {
            return found.meet(ceiling);
        }
        if room.is_finite() && room <= ROUNDINGS * self.rounding * most.size {
            return ceiling; // about what rounding may have made of ε
        }
        self.delta_below(epsilon, aim, ceiling)
    }

    /// log of an upper bound on the probability that no step's loss is `room` or more below its largest.
    fn log_mass_near_most(&self, room: f64) -> f64 {
        let each = |segment: &Segment| {
            let (most, _) = segment.loss.most_loss();
            let level = most - room - 4.0 * f64::EPSILON * (most.abs() + room);
            segment.steps * segment.loss.log_mass_above(level).min(0.0)
        };
        self.segments.iter().map(each).sum()
    }

    /// δ of one step, or of equal steps with two outcomes.
    fn closed_form(&self, epsilon: f64) -> Option<Enclosure> {
        match self.segments.as_slice() {
            [Segment { loss, steps: 1.0 }] => Some(one_step::delta(loss, epsilon)),
            [Segment { loss, steps }] => coin_count::delta(&**loss, *steps, epsilon),
            _ => None,
        }
    }

    /// δ at an ε below the largest loss, where it is at most that of `ceiling`.
    fn delta_below(&mut self, epsilon: f64, aim: &Aim, ceiling: Enclosure) -> Enclosure {
        // While a root is searched the answer is often at hand.
        if let Some(hint) = aim.hint {
            for (_, deeper) in &ATTEMPTS[..2] {
                let known = self
                    .truncated(hint + aim.log_share() - deeper)
                    .known(epsilon)
                    .meet(ceiling);
                if aim.is_met(known) {
                    return known;
                }
            }
        }
        let mut found = self.by_single_steps(epsilon, aim.width).meet(ceiling);
        if aim.is_met(found) {
            return found;
        }
        // Chernoff's bound says where δ is about; where that is known it is kept for what inversion cannot do.
        let mut bounded = false;
        match aim.hint {
            None => {
                found = found.meet(self.chernoff(epsilon));
                found = found.meet(self.truncated_bound(epsilon, aim, found));
                bounded = true;
            }
            Some(hint) if aim.bounds_first => {
                let truncated = self.truncated(hint + aim.log_share());
                found = found.meet(truncated.chernoff(epsilon));
                if aim.is_met(found) {
                    return found;
                }
            }
            Some(_) => {}
        }
        let mut expected = aim.hint.unwrap_or(-20.0).min(found.log_upper);
        for _ in 0..TRUNCATIONS {
            for (form, deeper) in ATTEMPTS {
                // The transform of a lattice never decays, and its grid is exact.
                if form != Form::Grid && self.is_on_lattice() {
                    continue;
                }
                let exhausted = self.work() > self.limit;
                if (exhausted || form == Form::Grid) && !bounded {
                    found = found.meet(self.chernoff(epsilon));
                    bounded = true;
                }
                if exhausted || aim.is_met(found) || found.log_upper < UNDERFLOW {
                    return found;
                }
                if form == Form::LongInversion && found.width() > UNKNOWN {
                    found = self.coarsely(epsilon, aim, expected, found);
                }
                let truncated = self.truncated(expected + aim.log_share() - deeper);
                found = found.meet(truncated.delta(form, epsilon, aim));
                if aim.is_met(found) {
                    return found;
                }
            }
            // Is what was left out the reason for the width?
            let lost = self.truncated(expected + aim.log_share()).log_lost();
            if lost < found.log_upper + aim.log_share() - 0.7 {
                break;
            }
            expected = expected.min(found.log_upper) - 24.0;
        }
        found
    }

    /// δ at coarser tolerances, from 30 % down to 1e-4, each tried only while the one before succeeded. Where a narrow interval takes
    /// too many points, one of a digit or two often does not, and is far better than Chernoff's bound: the coarser the
    /// tolerance, the more outputs may be truncated.
    fn coarsely(&mut self, epsilon: f64, aim: &Aim, expected: f64, known: Enclosure) -> Enclosure {
        const WIDTHS: [f64; 4] = [0.3, 1e-2, 1e-3, 1e-4];
        const FORMS: [(Form, f64); 3] = [(Form::Inversion, 0.0), (Form::SplitInversion, 24.0), (Form::Grid, 0.0)];
        let mut found = known;
        for width in WIDTHS.into_iter().filter(|width| *width > 3.0 * aim.width) {
            let coarse = Aim {
                width,
                enough: width,
                ..*aim
            };
            self.truncated.iter_mut().for_each(Truncated::forget_failures);
            for _ in 0..TRUNCATIONS {
                // Without a hint nothing is known of δ but its bound.
                let about = aim.hint.map_or(found.log_upper, |_| expected.min(found.log_upper));
                for (form, deeper) in FORMS {
                    if coarse.is_met(found) || self.work() > self.limit {
                        break;
                    }
                    let truncated = self.truncated(about + coarse.log_share() - deeper);
                    found = found.meet(truncated.delta(form, epsilon, &coarse));
                }
                let lost = self.truncated(about + coarse.log_share()).log_lost();
                if coarse.is_met(found)
                    || lost < found.log_upper + coarse.log_share() - 0.7
                    || self.work() > self.limit
                {
                    break;
                }
            }
            if !coarse.is_met(found) {
                break;
            }
        }
        found
    }

    /// What single steps say: δ of a run is at least that of any of its steps (the others may be ignored) and the part of
    /// it where every step has its largest loss, at most that of as many steps in which the whole group always takes
    /// part and, for ε ≥ 0, at most the sum of their total variations.
    fn by_single_steps(&mut self, epsilon: f64, width: f64) -> Enclosure {
        let mut found = Enclosure::TRIVIAL;
        let mut effort = Effort {
            done: 0,
            limit: self.limit.saturating_sub(self.work()),
        };
        for segment in &self.segments {
            let one = one_step::delta_within(&segment.loss, epsilon, 0.1 * width, &mut effort);
            found = found.meet(one.with_logs(one.log_lower, 0.0));
        }
        let all_most = |segment: &Segment| segment.steps * segment.loss.log_mass_of_most_loss();
        let log_mass: f64 = self.segments.iter().map(all_most).sum();
        let most = MostLoss::of(&self.segments);
        let below = most.surely_above(epsilon);
        if log_mass > f64::NEG_INFINITY && below > 0.0 {
            let part = log_mass + (-(-below).exp_m1()).ln();
            found = found.meet(Enclosure::of_logs(part - 1e-13 * (1.0 + part.abs()), 0.0));
        }
        if epsilon >= 0.0 {
            found = found.meet(Enclosure::of_logs(f64::NEG_INFINITY, self.log_variation()));
        }
        let square = |segment: &Segment| Some(segment.steps * segment.loss.widest_distance()?.powi(2));
        if let Some(square) = self.segments.iter().map(square).sum::<Option<f64>>() {
            let widest = StepLoss::shift(square.sqrt() * (1.0 + 1e-12));
            let whole = one_step::delta_within(&widest, epsilon, 1e-3, &mut effort);
            found = found.meet(whole.with_logs(f64::NEG_INFINITY, whole.log_upper));
        }
        self.single_steps += effort.done;
        found
    }

    /// A bound on log δ at ε = 0 that no answer exceeds, for a fraction of what an answer takes; `None` where there is none.
    pub(crate) fn crude_bound_at_zero(&mut self, width: f64) -> Option<f64> {
        let applies = self.noiseless.is_none()
            && self.moved == 0.0
            && self.log_kept == 0.0
            && !matches!(self.segments.as_slice(), [] | [Segment { steps: 1.0, .. }]);
        // An answer is what this and other bounds allow together.
        applies.then(|| self.by_single_steps(0.0, width).log_upper)
    }

    /// log of a bound on the sum of the total variations of all steps.
    fn log_variation(&mut self) -> f64 {
        let segments = &self.segments;
        *self
            .log_variation
            .get_or_insert_with(|| log_sum_of_steps(segments, 0.0, 0.0) + 1e-12)
    }

    /// The losses without outputs that P has with a probability of more than about e^`log_needed` altogether.
    fn truncated(&mut self, log_needed: f64) -> &mut Truncated {
        const STEP: f64 = 24.0;
        let level = ((3.0 - log_needed) / STEP).ceil().max(1.0) * STEP;
        let position = self.truncated.iter().position(|known| known.level() == level);
        let place = position.unwrap_or_else(|| {
            self.truncated.push(Truncated::new(&self.segments, level));
            self.truncated.len() - 1
        });
        &mut self.truncated[place]
    }

    /// The best of Chernoff's bounds on what truncations leave, each with what that leaves out: where δ is about, even if far
    /// outputs spoil the bound on the whole law.
    ///
    /// Truncations are tried farther out by twice as much each time, until what is left out is not what the bound consists of;
    /// and between the last two, where the last one's far outputs spoil the bound already.
    fn truncated_bound(&mut self, epsilon: f64, aim: &Aim, known: Enclosure) -> Enclosure {
        const USUAL: f64 = -20.0;
        const CLOSEST: f64 = 24.0;
        let mut found = known;
        let mut bound = |directed: &mut Self, expected: f64| {
            let truncated = directed.truncated(expected + aim.log_share());
            let here = truncated.chernoff(epsilon);
            found = found.meet(here);
            here.log_upper <= truncated.log_lost() + 2.0
        };
        let (mut near, mut far) = (0.0, USUAL.min(known.log_upper));
        while bound(self, far) && far > UNDERFLOW && self.work() <= self.limit {
            (near, far) = (far, 2.0 * far);
        }
        while near < 0.0 && near - far > CLOSEST && self.work() <= self.limit {
            let middle = 0.5 * (near + far);
            if bound(self, middle) {
                near = middle;
            } else {
                far = middle;
            }
        }
        found
    }

    /// Chernoff's bound at the best tilt, or at those of earlier questions if that is all that work is left for: any will do.
    fn chernoff(&mut self, epsilon: f64) -> Enclosure {
        if self.work() <= self.limit + self.allowance(RESERVE)
            && let Some(c) = saddle::for_epsilon(&mut self.segments, epsilon, None)
            && let Some(total) = Total::at(&mut self.segments, c)
        {
            self.moments.push((c, total.log_moment_upper()));
        }
        let at = |&(c, log_moment): &(f64, f64)| chernoff(c, log_moment, epsilon);
        self.moments.iter().map(at).fold(Enclosure::TRIVIAL, Enclosure::meet)
    }

    /// δ by one route alone.
    ///
    /// # Errors
    /// The route does not apply to this run.
    pub fn delta_by(&mut self, route: Route, epsilon: f64, width: f64) -> Result<Enclosure> {
        let none = || Error::Mismatch(format!("the route {route:?} does not apply here"));
        if self.moved != 0.0 || self.log_kept != 0.0 || self.segments.is_empty() {
            return Err(none());
        }
        match route {
            Route::OneStep => match self.segments.as_slice() {
                [Segment { loss, steps: 1.0 }] => Ok(one_step::delta(loss, epsilon)),
                _ => Err(none()),
            },
            Route::Renyi => Ok(self.chernoff(epsilon)),
            Route::Inversion | Route::SplitInversion | Route::Grid => {
                // Where δ is about: any bound will do.
                let expected = self.delta(epsilon, 1e-2).log_upper;
                let (form, deeper) = match route {
                    Route::Inversion => (Form::LongInversion, 0.0),
                    Route::SplitInversion => ATTEMPTS[1],
                    _ => (Form::Grid, 0.0),
                };
                let truncated = self.truncated(expected + width.min(1.0).ln() - deeper);
                truncated.delta_by(form, epsilon, width).ok_or_else(none)
            }
        }
    }

    /// Upper bound on the Rényi divergence of order α > 1: A(α − 1)/(α − 1).
    pub fn renyi(&mut self, order: f64) -> f64 {
        if self.log_kept < 0.0 || self.moved == f64::INFINITY {
            return f64::INFINITY;
        }
        let c = order - 1.0;
        let most = self.most_loss().max(0.0);
        // No divergence is above the largest loss, which is what those of huge orders come to.
        let rest = if most.is_finite() && order > HUGE_ORDER {
            most
        } else {
            let log_moment =
                Total::at(&mut self.segments, c).map_or(f64::INFINITY, |total| total.log_moment_upper());
            (log_moment.max(0.0) / c).min(most)
        };
        (rest + self.moved) * (1.0 + 4.0 * f64::EPSILON)
    }

    /// Where log δ = `log_delta` may be: certified lower and upper bounds on ε ≥ 0, to a relative width of about
    /// `tolerance`.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub fn epsilon(&mut self, log_delta: f64, tolerance: f64) -> Result<(f64, f64)> {
        // What telling steps lose no ε makes good.
        if (-self.log_kept.exp_m1()).ln() > log_delta + 1e-12 || self.moved == f64::INFINITY {
            return Ok((f64::INFINITY, f64::INFINITY));
        }
        if let Some(found) = self.noiseless_epsilon(log_delta, tolerance)? {
            return Ok(found);
        }
        let guess = self.guess(log_delta);
        let most = self.most_loss();
        let curve = |epsilon: f64, aim: &Aim| self.delta_for(epsilon, aim);
        epsilon_search::epsilon(curve, log_delta, tolerance, guess, most)
    }

    /// Bounds on ε where that of the run without noise is finite: it is no less, and hardly more.
    fn noiseless_epsilon(&mut self, log_delta: f64, tolerance: f64) -> Result<Option<(f64, f64)>> {
        let Some(noiseless) = &mut self.noiseless else {
            return Ok(None);
        };
        let (low, high) = noiseless.run.epsilon(log_delta, 0.5 * tolerance)?;
        if high == 0.0 {
            return Ok(Some((0.0, 0.0)));
        }
        if high.is_infinite() {
            return Ok(None);
        }
        let below = low * (1.0 - 0.4 * tolerance);
        let there = self.delta_for(below, &Aim::beside(log_delta, tolerance)).certified()?;
        Ok((there.log_lower > log_delta).then_some((below, high)))
    }

    /// ε and −d log δ/dε near where log δ = `log_delta`.
    fn guess(&mut self, log_delta: f64) -> (f64, f64) {
        let moved = if self.moved.is_finite() { self.moved } else { 0.0 };
        if self.segments.is_empty() {
            return (moved, 1.0);
        }
        if self.log_variation() < RARE
            && let Some((epsilon, slope)) = self.guess_of_single_steps(log_delta)
        {
            return (epsilon + moved, slope);
        }
        let truncated = self.truncated(log_delta - 14.0);
        match truncated.saddle(log_delta) {
            Some(saddle) => (saddle.epsilon + moved, saddle.c),
            None => (1.0 + moved, 1.0),
        }
    }

    /// ε and −d log δ/dε near the answer where losses are rare, so that δ is about the sum of the δ of single steps.
    fn guess_of_single_steps(&self, log_delta: f64) -> Option<(f64, f64)> {
        const ACCURACY: f64 = 1e-4;
        const FARTHEST: f64 = 1e12;
        let excess = |epsilon: f64| log_sum_of_steps(&self.segments, epsilon, 1e-3) - log_delta;
        let mut low = (0.0, excess(0.0));
        if low.1 <= 0.0 {
            return None;
        }
        let mut high = (1e-6, excess(1e-6));
        while high.1 > 0.0 {
            low = high;
            let next = 8.0 * high.0;
            high = (next, excess(next));
            if next > FARTHEST {
                return None;
            }
        }
        let root =
            solve_decreasing_between((low, high), ACCURACY * high.0, |epsilon| Ok::<_, ()>(excess(epsilon)));
        let epsilon = root.ok()?;
        let beyond = epsilon * (1.0 + ACCURACY);
        let slope = (excess(epsilon) - excess(beyond)) / (beyond - epsilon);
        (slope.is_finite() && slope > 0.0).then_some((epsilon, slope))
    }

    /// True if all losses are known to lie on lattices.
    fn is_on_lattice(&self) -> bool {
        self.segments.iter().all(|segment| is_on_lattice(&segment.loss))
    }

    /// The largest loss of the run, rounded up; infinite where an output may tell whether a member was there.
    pub fn most_loss(&self) -> f64 {
        if self.log_kept < 0.0 {
            return f64::INFINITY;
        }
        let rest = MostLoss::of(&self.segments).rounded_up();
        if self.moved == 0.0 {
            rest
        } else {
            (rest + self.moved) * (1.0 + 4.0 * self.rounding)
        }
    }
}

/// log of an upper bound on the sum of δ(ε) of all steps, each taken alone, to a relative `width`.
fn log_sum_of_steps(segments: &[Segment], epsilon: f64, width: f64) -> f64 {
    let mut sum = LogSum::default();
    // A limit of its own, so that the bound is the same whenever it is asked for.
    let mut effort = Effort::default();
    for segment in segments {
        sum.add(one_step::delta_within(&segment.loss, epsilon, width, &mut effort).log_upper + segment.steps.ln());
    }
    sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Direction, GroupLaw};

    /// δ of "remove" at −x is 1 − e^{−x} + e^{−x}·δ of "add" at x. Below 0 the line of integration runs between the poles at 0 and −1,
    /// with 10^5 points.
    #[test]
    fn both_directions_agree_to_ten_digits_where_the_line_has_very_many_points() {
        let law = GroupLaw::binomial(1, 0.001_646_274_475_538_499).unwrap();
        let of = |direction| {
            let loss = StepLoss::mixture(&law, 108.536_197_305_646_82, direction)
                .unwrap()
                .unwrap();
            Directed::new(vec![(StepOutcome::Loss(loss), 2059)], direction == Direction::Add)
        };
        let (mut remove, mut add) = (of(Direction::Remove), of(Direction::Add));
        for x in [1e-5, 2e-4, 7.1e-4, 1.3e-3] {
            let other = add.delta(x, 1e-10);
            let from = |log: f64| (-(-x).exp_m1() + (log - x).exp()).ln();
            let aim = Aim {
                width: 1e-10,
                enough: 1e-10,
                hint: Some(1e-3f64.ln()),
                bounds_first: false,
            };
            let found = remove.delta_for(-x, &aim);
            assert!(found.certified().is_ok(), "{x}");
            let (low, high) = (from(other.log_lower) - 1e-14, from(other.log_upper) + 1e-14);
            assert!(
                found.log_lower <= high && low <= found.log_upper,
                "{x}: {found:?} {low} {high}"
            );
            assert!(found.width() < 1e-9 && high - low < 1e-9, "{x}");
        }
    }
}
