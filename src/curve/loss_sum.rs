//! The sum of the privacy losses of all steps of a run in one direction, where P and Q have the same outputs.

mod at_tilt;

use crate::curve::accuracy::{Accuracy, attainable_at};
use crate::curve::epsilon_search::StartingPoint;
use crate::curve::evaluators::Evaluators;
use crate::curve::large_ratio::{LargeRatios, Share};
use crate::curve::singular_mass::ROUNDINGS;
use crate::curve::truncated::Truncated;
use crate::curve::{coin_count, one_step, single_step_bounds, starting_point};
use crate::grid::composition::is_on_lattice;
use crate::interval::Enclosure;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::saddle;
use crate::inversion::segment;
use crate::inversion::segment::{KEEPING_PANELS, Segment, Total, kinds};
use crate::inversion::tilt_lattice::Cell;
use crate::loss::StepLoss;
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::{Effort, SharedTables};

/// Work budget of one answer, in density evaluations (about 3 ns each). When it is spent, the best interval so far is returned.
const BUDGET: u64 = 120_000_000;
/// Further budget for Chernoff's bound once [`BUDGET`] is spent, so that every answer has an upper end.
const RESERVE: u64 = 40_000_000;
/// Number of different steps for which the budget doubles.
const SEGMENTS: u64 = 100;
/// Terms of a density that one budget is for, and most budgets of an answer. Forty members whose norms are multiples of a hundredth have
/// 2,100 sums: with one budget ten steps of them had epsilon in [7.53, 14.04], with six within 1e-6, and with twenty in no more time; replaced
/// ones, with twice the terms, are within 1.3 % after 1.5 s with six, and within 1e-4 after 40 s with twenty.
const TERMS: u64 = 256;
const MOST_BUDGETS: u64 = 6;
/// log of the sum of the total variations of all steps below which δ is close to the sum of the δ of single steps.
const RARE: f64 = -1.2;
/// Orders beyond which the Rényi divergence of a bounded loss is taken as its largest value: it is smaller by at most the log of the
/// probability of that value over the order, and moments of such orders have too narrow peaks to be integrated.
const HUGE_ORDER: f64 = 1e9;
/// Levels of truncation are multiples of this, so that questions about similar δ share one.
pub(super) const LEVEL_STEP: f64 = 24.0;
/// log of the factor by which the mass that is truncated is below the δ that is needed, at least.
const LEVEL_MARGIN: f64 = 3.0;
/// log δ where nothing is known of it, and levels of truncation that are tried for one δ or one cell, each farther out.
pub(super) const TYPICAL_LOG_DELTA: f64 = -20.0;
pub(super) const TRUNCATIONS: usize = 4;
/// log of the factor by which truncated mass is below δ where a search for ε starts.
const STARTING_LOG_FRACTION: f64 = 14.0;

/// How much farther out losses are truncated that keep everything.
const EVERYTHING: f64 = 1e4;

/// The sum of independent privacy losses.
#[derive(Debug)]
pub(crate) struct LossSum {
    segments: Vec<Segment>,
    /// Relative rounding error of sums over all kinds of steps.
    rounding: f64,
    /// The losses without their far outputs, one entry for each level of truncation that questions needed so far.
    truncations: Vec<Truncated>,
    /// The run split by its large likelihood ratios.
    by_large_ratio: LargeRatios,
    /// log of a bound on the sum of the total variations of all steps, once it was asked for.
    log_variation: Option<f64>,
    /// Bounds on moments of earlier questions.
    moments: Vec<MomentBound>,
    /// The tilt of the cell of the last ε.
    tilt: Option<f64>,
    /// Standard deviation of the loss, once it was asked for.
    deviation: Option<f64>,
    /// Work on single steps so far, in density evaluations.
    single_step_work: u64,
    /// Tables that all questions share.
    tables: SharedTables,
    /// [`LossSum::work`] at which no route but bounds is tried any more.
    limit: u64,
    /// Work by which that was raised for this answer.
    forgiven: u64,
    /// Whether losses are truncated so far out that those with a largest loss keep everything.
    keeps_everything: bool,
}

impl LossSum {
    /// The sum over `segments`, whose sums have a relative rounding error of `rounding`.
    pub(crate) fn new(segments: Vec<Segment>, rounding: f64) -> Self {
        let mut sum = Self {
            segments,
            rounding,
            truncations: Vec::new(),
            by_large_ratio: LargeRatios::default(),
            log_variation: None,
            moments: Vec::new(),
            tilt: None,
            deviation: None,
            single_step_work: 0,
            tables: SharedTables::default(),
            limit: 0,
            forgiven: 0,
            keeps_everything: false,
        };
        sum.limit = sum.allowance(BUDGET);
        sum
    }

    /// True if there is no step with a loss.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Forgets what could make the next answer depend on earlier questions.
    pub(crate) fn forget(&mut self) {
        self.truncations.iter_mut().for_each(Truncated::forget);
        self.by_large_ratio.forget();
        self.moments.clear();
        self.tilt = None;
        self.tables.forget();
        self.limit = self.work() + self.allowance(BUDGET);
        self.forgiven = 0;
        self.keeps_everything = false;
    }

    /// Frees the panels of runs of so many different steps that those of both directions would take too much memory.
    pub(crate) fn shrink(&mut self) {
        if kinds(&self.segments) > KEEPING_PANELS {
            self.truncations.clear();
        }
    }

    /// A budget, which is larger for a run of very many different steps, and for densities of very many terms.
    fn allowance(&self, work: u64) -> u64 {
        let terms = self
            .segments
            .iter()
            .map(|segment| segment.loss.density_terms())
            .max()
            .unwrap_or(0) as u64;
        (work + work / SEGMENTS * kinds(&self.segments) as u64) * (terms / TERMS).clamp(1, MOST_BUDGETS)
    }

    /// Work so far, in density evaluations.
    pub(crate) fn work(&self) -> u64 {
        let moments: u64 = self.segments.iter().map(|segment| segment.loss.work()).sum();
        moments
            + self.single_step_work
            + self.tables.work
            + self.truncations.iter().map(Truncated::work).sum::<u64>()
            + self.by_large_ratio.work()
    }

    /// True if the budget of this answer is spent.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work() > self.limit
    }

    /// Does not count work that was in vain, up to the budget of one more answer, so that the routes that are left may still be tried.
    pub(super) fn forgive(&mut self, work: u64) {
        let work = work.min(self.allowance(BUDGET).saturating_sub(self.forgiven));
        self.forgiven += work;
        self.limit += work;
    }

    /// δ of one step, or of equal steps with two outcomes.
    pub(super) fn closed_form(&self, epsilon: f64) -> Option<Enclosure> {
        match self.segments.as_slice() {
            [Segment { loss, steps: 1.0 }] if loss.has_closed_form() => Some(one_step::delta(loss, epsilon)),
            [Segment { loss, steps }] => coin_count::delta(&**loss, *steps, epsilon),
            _ => None,
        }
    }

    /// δ of a run of one step by means of its own.
    pub(super) fn alone(&mut self, epsilon: f64, width: f64, is_last: bool) -> Enclosure {
        match self.segments.as_slice() {
            [Segment { loss, steps: 1.0 }] => loss.alone(epsilon, width, is_last, &mut self.tables),
            _ => Enclosure::TRIVIAL,
        }
    }

    /// The loss of a run of one step.
    pub(super) fn only_step(&self) -> Option<&StepLoss> {
        match self.segments.as_slice() {
            [Segment { loss, steps: 1.0 }] if loss.has_closed_form() => Some(loss),
            _ => None,
        }
    }

    /// True where closed forms answer at once.
    pub(super) fn has_closed_form(&self) -> bool {
        match self.segments.as_slice() {
            [] => true,
            [segment] => {
                (segment.steps == 1.0 && segment.loss.has_closed_form())
                    || coin_count::applies(&*segment.loss, segment.steps)
            }
            _ => false,
        }
    }

    /// Standard deviation of the sum; `None` where closed forms answer at once.
    pub(crate) fn standard_deviation(&mut self) -> Option<f64> {
        if self.has_closed_form() {
            return None;
        }
        if self.deviation.is_none() {
            self.deviation = Total::at(&mut self.segments, 0.0).map(|total| total.variance.sqrt());
        }
        self.deviation
    }

    /// Moves out the contours and grids that were computed for earlier questions.
    pub(crate) fn take_evaluators(&mut self) -> Vec<Evaluators> {
        self.truncations.iter_mut().map(Truncated::take_evaluators).collect()
    }

    /// An upper bound at an ε that is `distance` > 0 below the largest loss.
    pub(super) fn bound_near_largest_loss(&self, distance: f64) -> Enclosure {
        single_step_bounds::near_largest_loss(&self.segments, distance)
    }

    /// Bounds from the steps, each taken alone.
    pub(super) fn single_step_bounds(&mut self, epsilon: f64, width: f64) -> Enclosure {
        let log_variation = (epsilon >= 0.0).then(|| self.log_variation());
        let mut effort = Effort {
            done: 0,
            limit: self.limit.saturating_sub(self.work()),
        };
        let found = single_step_bounds::delta(&self.segments, epsilon, width, log_variation, &mut effort);
        self.single_step_work += effort.done;
        found
    }

    /// An upper bound on the ε at which log δ = `log_delta`, from the Gaussian pair that dominates the run; `None` where there is none.
    pub(crate) fn epsilon_of_dominating(&self, log_delta: f64) -> Option<f64> {
        single_step_bounds::epsilon_of_dominating(&self.segments, log_delta)
    }

    /// A bound on log δ at ε = 0 that no answer exceeds, for a fraction of the cost of an answer; `None` where an answer is a closed
    /// form.
    pub(crate) fn crude_bound_at_zero(&mut self, width: f64) -> Option<f64> {
        let is_closed = self.is_empty() || self.only_step().is_some();
        // An answer is the intersection of this and other bounds.
        (!is_closed).then(|| self.single_step_bounds(0.0, width).log_upper)
    }

    /// log of a bound on the sum of the total variations of all steps.
    fn log_variation(&mut self) -> f64 {
        let segments = &self.segments;
        *self
            .log_variation
            .get_or_insert_with(|| single_step_bounds::log_variation(segments))
    }

    /// The losses without outputs that P has with a probability of more than about e^`log_needed` altogether.
    pub(super) fn truncated(&mut self, log_needed: f64) -> &mut Truncated {
        let farther = if self.keeps_everything { EVERYTHING } else { 0.0 };
        let level = level_for(log_needed - farther);
        let position = self.truncations.iter().position(|known| known.level() == level);
        let place = position.unwrap_or_else(|| {
            self.truncations.push(Truncated::new(&self.segments, level));
            self.truncations.len() - 1
        });
        &mut self.truncations[place]
    }

    /// With how many large ratios [`LossSum::by_large_ratio`] answered an earlier question that inversion of all of the law did not.
    pub(super) fn preferred_share(&self) -> Option<Share> {
        self.by_large_ratio.answered()
    }

    /// δ by so many large likelihood ratios of single steps, if it is about e^`log_delta`, and what is `known` of it is wider than asked for.
    pub(super) fn by_large_ratio(
        &mut self,
        (epsilon, log_delta): (f64, f64),
        accuracy: &Accuracy,
        (share, known): (Share, Enclosure),
    ) -> Enclosure {
        self.by_large_ratio
            .delta(&self.segments, (epsilon, log_delta), accuracy, (share, known))
    }

    /// Truncates losses so far out that those with a largest loss keep everything, or no longer.
    pub(super) fn keep_everything(&mut self, keeps: bool) {
        self.keeps_everything = keeps;
    }

    /// Forgets which inversions failed, before ones of less accuracy are tried.
    pub(super) fn forget_failures(&mut self) {
        self.truncations.iter_mut().for_each(Truncated::forget_failures);
    }

    /// Chernoff's bound at the best tilt, or at the tilts of earlier questions if the budget allows for no more: any tilt is valid.
    pub(crate) fn chernoff(&mut self, epsilon: f64) -> Enclosure {
        if self.work() <= self.limit + self.allowance(RESERVE)
            && let Some(c) = saddle::for_epsilon(&mut self.segments, epsilon, None)
            && let Some(total) = Total::at(&mut self.segments, c)
        {
            self.moments.push(MomentBound {
                c,
                log_moment: total.log_moment.upper(),
            });
        }
        self.moments
            .iter()
            .map(|bound| bound.chernoff(epsilon))
            .fold(Enclosure::TRIVIAL, Enclosure::meet)
    }

    /// Upper bound on the Rényi divergence of order α > 1: A(α − 1)/(α − 1), and the largest loss.
    pub(crate) fn renyi(&mut self, order: f64, largest_loss: f64) -> f64 {
        let c = order - 1.0;
        // Divergences of huge orders converge to the largest loss.
        if largest_loss.is_finite() && order > HUGE_ORDER {
            return largest_loss;
        }
        let log_moment = segment::log_moment_above(&mut self.segments, c);
        (log_moment.max(0.0) / c).min(largest_loss)
    }

    /// ε and −d log δ/dε near where log δ = `log_delta`; `None` where nothing is known.
    pub(crate) fn starting_point(&mut self, log_delta: f64) -> Option<StartingPoint> {
        if self.segments.is_empty() {
            return Some(StartingPoint {
                epsilon: 0.0,
                slope: 1.0,
            });
        }
        if let [Segment { loss, steps: 1.0 }] = self.segments.as_slice()
            && let Some((epsilon, slope)) = loss.estimate_alone(log_delta)
        {
            return Some(StartingPoint { epsilon, slope });
        }
        // The bounds of single steps without a closed form may be far from δ, so that their sum says nothing of where ε is.
        if self.segments.iter().all(|segment| segment.loss.has_closed_form())
            && self.log_variation() < RARE
            && let Some(found) = starting_point::of_rare_losses(&self.segments, log_delta)
        {
            return Some(found);
        }
        self.truncated(log_delta - STARTING_LOG_FRACTION)
            .starting_point(log_delta)
    }

    /// An estimate of log δ at ε, which is at most `most`, where the saddle point alone tells little.
    pub(super) fn smoothed_log_delta(&mut self, epsilon: f64, most: f64) -> Option<f64> {
        self.truncated(most - STARTING_LOG_FRACTION)
            .smoothed_log_delta(epsilon, most)
    }

    /// δ by the contour of the cell of ε, which every question about an ε of the cell shares; and about how steeply log δ falls there.
    ///
    /// Losses are truncated as far out as δ at the other end of the cell needs by its saddle point, so that this too depends on the cell
    /// alone.
    pub(super) fn by_cell(&mut self, epsilon: f64, accuracy: &Accuracy) -> (Enclosure, f64) {
        const NOTHING: (Enclosure, f64) = (Enclosure::TRIVIAL, 0.0);
        if self.is_on_lattice() {
            return NOTHING;
        }
        let log_fraction = accuracy.cell_width.min(1.0).ln();
        let mut expected = TYPICAL_LOG_DELTA;
        for _ in 0..TRUNCATIONS {
            let truncated = self.truncated(expected + log_fraction);
            let Some(cell) = truncated.cell(epsilon).filter(Cell::is_narrow) else {
                return NOTHING;
            };
            let smallest = cell.high.saddle.log_delta;
            if truncated.level() >= level_for(smallest + log_fraction) {
                let slope = cell.low.saddle.c;
                let accuracy = accuracy.accepting(attainable_at(slope, epsilon));
                let found = truncated.by_cell(&cell, epsilon, &accuracy);
                self.tilt = Some(slope);
                return (found, slope);
            }
            expected = smallest;
        }
        NOTHING
    }

    /// The tilt of the cell of the last ε since [`LossSum::forget`]; `None` where none was asked for.
    pub(crate) fn tilt(&self) -> Option<f64> {
        self.tilt
    }

    /// Whether the characteristic functions of all losses are known; where they are not, only grids serve.
    pub(crate) fn has_transform(&self) -> bool {
        self.segments.iter().all(|segment| segment.loss.has_transform())
    }

    /// Whether some loss may be inverted only as it is.
    pub(crate) fn is_better_whole(&self) -> bool {
        self.segments.iter().any(|segment| segment.loss.is_better_whole())
    }

    /// True if all losses are known to lie on lattices.
    pub(crate) fn is_on_lattice(&self) -> bool {
        self.segments.iter().all(|segment| is_on_lattice(&segment.loss))
    }

    /// The largest loss, which is infinite where losses are unbounded.
    pub(crate) fn max_loss(&self) -> MaxLoss {
        segment::max_loss(&self.segments)
    }

    /// Bound on the rounding of the largest loss.
    pub(super) fn rounding_of(&self, largest: MaxLoss) -> f64 {
        ROUNDINGS * self.rounding * largest.size
    }
}

/// The level of truncation at which less than about e^`log_needed` is left out.
fn level_for(log_needed: f64) -> f64 {
    ((LEVEL_MARGIN - log_needed) / LEVEL_STEP).ceil().max(1.0) * LEVEL_STEP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::routes;
    use crate::step::{Direction, GroupLaw};

    /// Two steps of randomised response, of which nearly every answer is true: S = 2·log(p/(1 − p)) = 13.814 with probability p² = 0.998, so
    /// that Chernoff's bound is nearly attained above the mean, 13.786, as it is by a loss that is constant.
    #[test]
    fn chernoffs_bound_is_nearly_attained_by_a_loss_that_hardly_varies() {
        let law = GroupLaw::binomial(1, 1.0).unwrap();
        let loss = StepLoss::response(&law, 0.999, Direction::Remove).unwrap();
        let mut sum = LossSum::new(vec![Segment { loss, steps: 2.0 }], 1e-15);
        let exact = sum.closed_form(13.79).unwrap();
        let bound = sum.chernoff(13.79);
        assert!(bound.log_upper >= exact.log_lower, "{bound:?} {exact:?}");
        // By a factor of less than 2.
        assert!(bound.log_upper <= exact.log_upper + 0.5, "{bound:?} {exact:?}");
        // The tilts of earlier questions bound δ at every ε.
        for epsilon in [1.0, 13.0, 13.8, 13.81] {
            let (exact, bound) = (sum.closed_form(epsilon).unwrap(), sum.chernoff(epsilon));
            assert!(
                bound.log_lower <= exact.log_upper && exact.log_lower <= bound.log_upper,
                "{epsilon}: {bound:?} {exact:?}"
            );
        }
    }

    /// Two steps of Laplace noise a billionth below their largest loss: rounding of the losses leaves δ wider than is asked for, which no route mends.
    /// Asked for as it was, all of them were tried.
    #[test]
    fn next_to_the_largest_loss_no_more_is_asked_than_rounding_allows() {
        let law = GroupLaw::binomial(1, 0.01).unwrap();
        let loss = StepLoss::laplace(&law, 0.4, Direction::Remove).unwrap();
        let mass = loss.log_mass_of_max_loss();
        let mut sum = LossSum::new(vec![Segment { loss, steps: 2.0 }], 8.0 * f64::EPSILON);
        let distance = 1e-9f64;
        let epsilon = sum.max_loss().rounded_up() - distance;
        let found = routes::delta(&mut sum, epsilon, &Accuracy::of_width(1e-6));
        let exact = 2.0 * mass + distance.ln();
        assert!(
            (found.log_lower - exact).abs() < 1e-2 && found.width() < 1e-3,
            "{found:?} {exact}"
        );
        assert!(found.width() > 1e-6, "{found:?}");
        assert!(sum.work() < 1_000_000, "{}", sum.work());
    }

    #[test]
    fn levels_of_truncation_leave_out_less_than_is_needed() {
        let law = GroupLaw::binomial(1, 0.01).unwrap();
        let loss = StepLoss::mixture(&law, 1.0, Direction::Remove).unwrap().unwrap();
        let mut sum = LossSum::new(vec![Segment { loss, steps: 1000.0 }], 1e-15);
        for log_needed in [-5.0, -30.0, -100.0] {
            let mass = sum.truncated(log_needed).log_truncated_mass();
            assert!(mass <= log_needed - LEVEL_MARGIN + 1e-6, "{log_needed}: {mass}");
        }
        assert_eq!(sum.truncations.len(), 3);
    }
}
