//! The composed privacy loss of a run in one direction: δ and ε of one ordered pair of output laws.
//!
//! The steps whose outputs may reveal whether a member was in the batch are summed on their own ([`SingularMass`]); what remains is a sum of
//! privacy losses ([`LossSum`]), whose curve is computed by one of several routes ([`crate::curve::routes`]).

use crate::curve::accuracy::Accuracy;
use crate::curve::epsilon_search;
use crate::curve::epsilon_search::{Found, Query, StartingPoint};
use crate::curve::evaluators::{Evaluators, log_difference_below};
use crate::curve::loss_sum::LossSum;
use crate::curve::routes::Route;
use crate::curve::singular_mass::{SingularMass, delta_of_nothing};
use crate::curve::{one_step, routes};
use crate::error::Result;
use crate::interval::{Enclosure, Interval};
use crate::inversion::segment::Segment;
use crate::loss::StepLoss;
use crate::loss::pairs::StepOutcome;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::log_space::log1p_exp;
use crate::stopping::checkpoint;

/// log of the factor by which the singular mass must exceed δ for ε to be infinite, where its rounding error is smaller than half of it.
const SINGULAR_MARGIN: f64 = 1e-12;
/// An upper end of ε that is more than so many times the lower one is compared with that of a pair that dominates the run.
const WIDE: f64 = 1.1;
/// Relative width of δ that routes which truncate are given to see how far out they must, and of a δ that is only compared with another one.
const ROUGH_WIDTH: f64 = 1e-2;
/// log of the factor by which Chernoff's bound at a tilt may exceed a δ for it to be worthwhile to compare a contour there with it.
const WORTHWHILE: f64 = 5.0;
/// Relative width of an ε that is an estimate.
const ROUGH_TOLERANCE: f64 = 1e-3;
/// The starting point of a search where nothing is known of the answer.
const UNKNOWN: StartingPoint = StartingPoint {
    epsilon: 1.0,
    slope: 1.0,
};

/// The composed privacy loss of a run in one direction.
#[derive(Debug)]
pub struct ComposedLoss {
    singular: SingularMass,
    losses: LossSum,
    noiseless: Option<Noiseless>,
}

/// A run without the noise of those of its steps in which the noise hides next to nothing.
///
/// The run is that one with noise added afterwards, so that its δ is no larger. An output nearer to the mean with a member than to that
/// without is taken for one with a member, which is right except with a probability of at most β, for P and for Q. So δ(ε) of the run
/// with noise is smaller by at most (1 + e^ε)β.
#[derive(Debug)]
struct Noiseless {
    run: Box<ComposedLoss>,
    /// log β.
    log_confusion: f64,
}

impl Noiseless {
    /// Bounds on δ of the run with noise: [δ₀ − (1 + e^ε)β, δ₀], where δ₀ is that without.
    fn delta(&mut self, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        let found = self.run.delta_for(epsilon, accuracy);
        let confused = self.log_confusion + log1p_exp(epsilon);
        found.with_logs(log_difference_below(found.log_lower, confused), found.log_upper)
    }
}

impl ComposedLoss {
    /// The composition of `steps` with their numbers; `adds` if P has no member of the group.
    pub fn new(steps: Vec<(StepOutcome, u64)>, adds: bool) -> Self {
        let mut singular = SingularMass::none(steps.len());
        let mut segments = Vec::new();
        // Gaussian losses N(μ²/2, μ²) add up to one, which has no room for the roundings of very many terms.
        let mut square = CompensatedSum::default();
        let mut add = |loss: StepLoss, steps: f64| match loss.single_gaussian() {
            Some(distance) => square.add(steps * distance.powi(2)),
            None => segments.push(Segment { loss, steps }),
        };
        for (outcome, count) in steps {
            let steps = count as f64;
            if count == 0 {
                continue;
            }
            match outcome {
                StepOutcome::Nothing => {}
                StepOutcome::RevealsMembership { log_unseen } if adds => singular.add(steps, 0.0, -log_unseen),
                StepOutcome::RevealsMembership { log_unseen } => singular.add(steps, log_unseen, log_unseen),
                StepOutcome::Loss(loss) => add(loss, steps),
                StepOutcome::Partly {
                    log_common,
                    offset,
                    loss,
                } => {
                    singular.add(steps, log_common, offset);
                    if let Some(loss) = loss {
                        add(loss, steps);
                    }
                }
            }
        }
        if square.value() > 0.0 {
            segments.push(Segment {
                loss: StepLoss::shift(square.value().sqrt()),
                steps: 1.0,
            });
        }
        Self {
            singular,
            losses: LossSum::new(segments, singular.rounding()),
            noiseless: None,
        }
    }

    /// Adds bounds by `run`, which is this run without the noise of those of its steps that have next to none; e^`log_confusion` bounds the
    /// probability that the noise changes what an output reveals.
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
        self.losses.forget();
    }

    /// Frees the panels of runs of so many different steps that those of both directions would take too much memory.
    pub(crate) fn shrink(&mut self) {
        self.losses.shrink();
    }

    /// Work so far, in density evaluations.
    pub(crate) fn work(&self) -> u64 {
        self.losses.work()
    }

    /// Moves out the contours and grids that were computed for earlier questions.
    pub(crate) fn take_evaluators(&mut self) -> Vec<Evaluators> {
        self.losses.take_evaluators()
    }

    /// By how much the losses of outputs that reveal nothing for certain are increased.
    pub(crate) fn offset(&self) -> f64 {
        self.singular.offset()
    }

    /// δ of the outputs that P and Q have in common, given one of them, from the `curve` of the losses without the offset.
    pub(crate) fn common_at(&self, epsilon: f64, curve: impl FnMut(f64) -> Enclosure) -> Enclosure {
        self.singular.common_at(epsilon, curve)
    }

    /// δ of the whole run from that of the outputs that P and Q have in common.
    pub(crate) fn with_singular_mass(&self, common: Enclosure) -> Enclosure {
        self.singular.with_common(common)
    }

    /// Standard deviation of the loss; `None` where closed forms answer at once, or where δ is 1.
    pub(crate) fn standard_deviation(&mut self) -> Option<f64> {
        if self.singular.is_total() || self.offset().is_infinite() {
            return None;
        }
        self.losses.standard_deviation()
    }

    /// Certified log δ at any real ε, to a relative width of about `width` of δ where that can be had.
    pub fn delta(&mut self, epsilon: f64, width: f64) -> Enclosure {
        self.delta_for(epsilon, &Accuracy::of_width(width))
    }

    /// Certified log δ at any real ε, as accurately as asked for where that can be had.
    pub(crate) fn delta_for(&mut self, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        checkpoint();
        let Some(noiseless) = &mut self.noiseless else {
            return self.noisy_delta(epsilon, accuracy);
        };
        let known = noiseless.delta(epsilon, accuracy);
        if accuracy.is_met(known) {
            return known;
        }
        known.meet(self.noisy_delta(epsilon, accuracy))
    }

    /// Certified log δ at ε, as far as it says whether it is at most `threshold`: by Chernoff's bound at a tilt that may be near the best one, by a contour there,
    /// then roughly at a tilt of its own, and to a relative width of δ only where log δ is close to the threshold.
    pub(crate) fn delta_beside(
        &mut self,
        epsilon: f64,
        (threshold, width): (f64, f64),
        tilt: Option<f64>,
    ) -> Enclosure {
        let rough = Accuracy::side_of(threshold, width.max(ROUGH_WIDTH));
        if let Some(c) = tilt.filter(|c| self.has_bounds_at(*c)) {
            let bound = self.bound_at(c, epsilon);
            if bound.log_upper <= threshold {
                return bound;
            }
            if bound.log_upper <= threshold + WORTHWHILE {
                let found = bound.meet(self.losses.side_by_tilt(c, epsilon, &rough));
                if found.is_on_one_side_of(Some(threshold)) {
                    return found;
                }
            }
        }
        let roughly = self.delta_for(epsilon, &rough);
        if width >= ROUGH_WIDTH || roughly.is_on_one_side_of(Some(threshold)) {
            return roughly;
        }
        roughly.meet(self.delta_for(epsilon, &Accuracy::side_of(threshold, width)))
    }

    /// Whether δ is that of the losses, and bounds at this tilt are of use.
    fn has_bounds_at(&self, c: f64) -> bool {
        self.noiseless.is_none() && self.singular.is_absent() && c > 0.0 && c.is_finite()
    }

    /// Chernoff's bound at a tilt, where that is above 0 and the bound costs little.
    pub(crate) fn bound_at(&mut self, c: f64, epsilon: f64) -> Enclosure {
        if self.has_bounds_at(c) {
            self.losses.chernoff_at(c, epsilon)
        } else {
            Enclosure::TRIVIAL
        }
    }

    /// The tilt of the cell of the last ε since [`ComposedLoss::forget`]; `None` where none was asked for.
    pub(crate) fn tilt(&self) -> Option<f64> {
        self.losses.tilt()
    }

    /// An estimate of ε at log δ; `None` where there is none.
    pub(crate) fn estimate(&mut self, log_delta: f64) -> Option<StartingPoint> {
        if self.noiseless.is_some() || !self.singular.is_absent() {
            return None;
        }
        if self.losses.has_closed_form() {
            let found = self.epsilon_with_margin(log_delta, ROUGH_TOLERANCE, 0.0).ok()?;
            return Some(StartingPoint {
                epsilon: found.interval.upper,
                slope: found.slope,
            });
        }
        self.losses.starting_point(log_delta)
    }

    /// δ without the help of [`Noiseless`].
    fn noisy_delta(&mut self, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        if self.singular.is_absent() {
            return routes::delta(&mut self.losses, epsilon, accuracy);
        }
        if self.singular.is_total() {
            return Enclosure::of_logs(0.0, 0.0);
        }
        let (least, largest) = self.singular.without_offset(epsilon);
        if self.singular.is_positive() && self.losses.is_on_lattice() {
            // The singular mass may be so large that a bound on the other part suffices.
            let bound = self.losses.chernoff(least).log_upper;
            let whole = self.with_singular_mass(Enclosure::of_logs(f64::NEG_INFINITY, bound));
            if accuracy.is_met(whole) {
                return whole;
            }
        }
        if self.losses.is_empty() {
            return self.with_singular_mass(delta_of_nothing((least, largest)));
        }
        let accuracy = Accuracy::of_width(accuracy.sufficient_width);
        let losses = &mut self.losses;
        let common = self
            .singular
            .common_at(epsilon, |inner| routes::delta(losses, inner, &accuracy));
        self.with_singular_mass(common)
    }

    /// δ by one route alone.
    ///
    /// # Errors
    /// The route does not apply to this run.
    pub fn delta_by(&mut self, route: Route, epsilon: f64, width: f64) -> Result<Enclosure> {
        let none = || route.does_not_apply();
        if !self.singular.is_absent() || self.losses.is_empty() {
            return Err(none());
        }
        if let Some((form, farther)) = route.form() {
            let expected = self.delta(epsilon, ROUGH_WIDTH).log_upper;
            let truncated = self.losses.truncated(expected + width.min(1.0).ln() - farther);
            return truncated.delta_by(form, epsilon, width).ok_or_else(none);
        }
        match route {
            Route::OneStep => {
                let loss = self.losses.only_step().ok_or_else(none)?;
                Ok(one_step::delta(loss, epsilon))
            }
            _ => Ok(self.losses.chernoff(epsilon)),
        }
    }

    /// A bound on log δ at ε, for a fraction of the cost of an answer; `None` where there is none.
    pub(crate) fn cheap_bound(&mut self, epsilon: f64) -> Option<f64> {
        if self.noiseless.is_some() || !self.singular.is_absent() {
            return None;
        }
        if epsilon >= self.largest_loss() {
            return Some(f64::NEG_INFINITY);
        }
        Some(self.losses.chernoff(epsilon).log_upper)
    }

    /// A bound on log δ at ε = 0 that no answer exceeds, for a fraction of the cost of an answer; `None` where there is none.
    pub(crate) fn crude_bound_at_zero(&mut self, width: f64) -> Option<f64> {
        if self.noiseless.is_some() || !self.singular.is_absent() {
            return None;
        }
        self.losses.crude_bound_at_zero(width)
    }

    /// Upper bound on the Rényi divergence of order α > 1.
    pub fn renyi(&mut self, order: f64) -> f64 {
        if self.reveals() || self.offset() == f64::INFINITY {
            return f64::INFINITY;
        }
        let largest_loss = self.largest_loss().max(0.0);
        let common = self.losses.renyi(order, largest_loss).min(largest_loss);
        self.singular.with_offset(common)
    }

    /// Certified bounds on the ε ≥ 0 at which log δ = `log_delta`, to a relative width of about `tolerance`.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub fn epsilon(&mut self, log_delta: f64, tolerance: f64) -> Result<Interval> {
        Ok(self.epsilon_with_margin(log_delta, tolerance, 0.0)?.interval)
    }

    /// [`ComposedLoss::epsilon`] with an upper end at which log δ is below `log_delta` by a margin, where ε is hardly larger for it.
    ///
    /// # Errors
    /// As [`ComposedLoss::epsilon`].
    pub(crate) fn epsilon_with_margin(&mut self, log_delta: f64, tolerance: f64, margin: f64) -> Result<Found> {
        // The singular mass is part of δ at every ε.
        let margin_of_mass = SINGULAR_MARGIN.max(2.0 * self.singular.rounding());
        if self.singular.log_mass() > log_delta + margin_of_mass || self.offset() == f64::INFINITY {
            return Ok(Interval::exact(f64::INFINITY).into());
        }
        if let Some(found) = self.noiseless_epsilon(log_delta, tolerance)? {
            return Ok(found.into());
        }
        // A closed form gives the same answer to every question, and grids, which are all that there is without a transform, cost too much for room beside
        // their intervals.
        let has_margin = !self.losses.has_closed_form() && self.losses.has_transform();
        let margin = if has_margin { margin } else { 0.0 };
        let query = Query {
            log_delta,
            tolerance,
            margin,
            start: self.starting_point(log_delta),
            largest_loss: self.largest_loss(),
        };
        let found = epsilon_search::epsilon(|epsilon, accuracy| self.delta_for(epsilon, accuracy), &query)?;
        let Interval { lower, upper } = found.interval;
        if upper <= WIDE * lower || !self.singular.is_absent() {
            return Ok(found);
        }
        // Where no route is of use, a search that starts far off may end there.
        match self.losses.epsilon_of_dominating(log_delta) {
            Some(bound) if bound < upper => Ok(Interval::of_bounds(lower, bound)?.into()),
            _ => Ok(found),
        }
    }

    /// Bounds on ε where that of the run without noise is finite: ε is no larger, and hardly smaller.
    fn noiseless_epsilon(&mut self, log_delta: f64, tolerance: f64) -> Result<Option<Interval>> {
        let Some(noiseless) = &mut self.noiseless else {
            return Ok(None);
        };
        let found = noiseless.run.epsilon(log_delta, 0.5 * tolerance)?;
        if found.upper == 0.0 {
            return Ok(Some(Interval::exact(0.0)));
        }
        if found.upper.is_infinite() {
            return Ok(None);
        }
        let lower = found.lower * (1.0 - 0.4 * tolerance);
        let accuracy = Accuracy::compared_with(log_delta, tolerance);
        let there = self.delta_for(lower, &accuracy).certified()?;
        let upper = found.upper;
        Ok((there.log_lower > log_delta).then_some(Interval { lower, upper }))
    }

    /// Where a search for the ε at which log δ = `log_delta` starts.
    fn starting_point(&mut self, log_delta: f64) -> StartingPoint {
        let StartingPoint { epsilon, slope } = self.losses.starting_point(log_delta).unwrap_or(UNKNOWN);
        let offset = if self.offset().is_finite() { self.offset() } else { 0.0 };
        StartingPoint {
            epsilon: epsilon + offset,
            slope,
        }
    }

    /// Whether some output may reveal P for certain.
    fn reveals(&self) -> bool {
        self.singular.is_positive()
    }

    /// The largest loss of the run, rounded up; infinite where an output may reveal whether a member was there.
    pub fn largest_loss(&self) -> f64 {
        if self.reveals() {
            return f64::INFINITY;
        }
        let common = self.losses.max_loss().rounded_up();
        if self.singular.is_absent() {
            common
        } else {
            self.singular.with_offset(common)
        }
    }
}

#[cfg(test)]
mod tests;
