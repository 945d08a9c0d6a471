//! A composition without outputs that P rarely has, and the ways to compute its curve.
//!
//! Outputs that P has with probability p in all steps together change δ by at most p, as (1 − e^{ε−S})₊ ≤ 1:
//!
//! > δ' ≤ δ ≤ δ' + p, δ' = E[(1 − e^{ε−S})₊; no output is truncated].
//!
//! The same holds of components of a mixture P that are left out (`docs/theory/inversion.md`, Proposition 8). Without them moments exist where a far tail
//! would dominate them (a whole group in one batch), so that tilts and periods are those of the losses that contribute to δ. The law without them has a mass
//! below 1, and is treated as any other.

mod bounds;
mod fall;
mod form;

use crate::curve::accuracy::Accuracy;
use crate::curve::cell_contours::{CellContours, CellInversion};
use crate::curve::epsilon_search::StartingPoint;
use crate::curve::evaluators::Evaluators;
use crate::curve::singular_mass::rounded;
use crate::curve::starting_point;
use crate::grid::composition::{Grid, Plan};
use crate::interval::Enclosure;
use crate::inversion::contour::Limits;
use crate::inversion::contour_sum::ContourSum;
use crate::inversion::segment::{Segment, Total, kinds};
use crate::inversion::split::Suitability;
use crate::inversion::tilt::Tilt;
use crate::inversion::tilt_lattice::Cell;
use crate::inversion::{cluster_runs, saddle, split};
use crate::special::log_space::LogSum;
use std::sync::Arc;

use fall::{Errors, fall_from_zero, margin_next_to_zero};
pub(crate) use form::Form;

/// Failed inversions of one form after which it is not tried again for the same question.
const MAX_FAILURES: usize = 3;
/// Distance of the logarithms of two tilts below which an inversion that failed at one is not tried at the other.
const SAME_TILT: f64 = 0.2;
/// Contours for one question, each designed for less error than the one before.
const MAX_CONTOURS: usize = 3;
/// A contour of all runs that is wider than this part of the one before is as wide as rounding lets it be, so that no further one is tried.
const HARDLY_NARROWER: f64 = 0.7;
/// log of the factor by which a contour fell short of a width beyond which no further contour is tried.
const MAX_LOG_SHORTFALL: f64 = 16.0;
/// Steps of Newton's method for a starting point within a cell.
const NEWTON_STEPS: usize = 3;
/// log of the factor between the errors that contours of one cell are designed for. At 6 the second contour of few steps of Laplace noise, whose transform falls
/// like 1/y³ beside clusters, has nine times as many points where three times as many are enough.
const CELL_LOG_STEP: f64 = 3.0;
/// log of the factor by which errors of a contour are designed to be below the width that is asked for.
const LOG_MARGIN: f64 = 2.0;
/// log of a further factor for questions that no search asks: they confirm an ε, which has to grow by as much as δ is wide. Without it an ε next
/// to 0 was 1.25e-6 wide that is 0.37e-6 wide with it.
const LOG_CONFIRMING_MARGIN: f64 = 1.5;
/// How many times narrower than what is known the narrowest interval of a grid must be for the grid to be computed, where it misses
/// the width that is asked for.
const MIN_GAIN: f64 = 4.0;
/// A grid's tilt is this part of the saddle point, or one over the standard deviation below it, whichever is larger: a flatter tilt reduces
/// what far outputs contribute to the errors, and costs less than a digit.
const FLATTER: f64 = 0.8;
/// Width of log δ up to which its lower end says which errors matter. The saddle point of three steps can be so far off that no contour is
/// found. At 1 a random box takes an eighth longer, its slowest answer a third; at 12 nothing changes.
const ROUGHLY_KNOWN: f64 = 6.0;
/// Grids tried for one question, each finer than the last.
const REFINEMENTS: usize = 3;
/// log of the error of the tilted law over the width that a grid is asked for.
const LOG_GRID_MARGIN: f64 = 5.0;
/// Widest interval that a grid's tilt is chosen for.
const WIDEST_GRID: f64 = 0.1;
/// What log δ is expected to be, first for the errors of a contour and then for its tilt, where it is `known` to lie.
fn expectations(form: Form, accuracy: &Accuracy, known: Enclosure) -> (Option<f64>, Option<f64>) {
    let is_roughly_known = known.width() < ROUGHLY_KNOWN;
    let middle = 0.5 * (known.log_lower + known.log_upper);
    let expected = accuracy.expected().or(is_roughly_known.then_some(middle));
    // Where δ comes out smaller than the middle of its bounds, the next contour of split runs knows it.
    let hint = match form {
        Form::SplitInversion => expected,
        _ => accuracy.expected().or(is_roughly_known.then_some(known.log_lower)),
    };
    (hint, expected)
}

/// Losses truncated at one level, with what was computed from them.
#[derive(Debug)]
pub(crate) struct Truncated {
    level: f64,
    segments: Vec<Segment>,
    evaluators: Evaluators,
    cells: CellContours,
    /// Tilts at which no contour was found, by form.
    failures: [Vec<f64>; 3],
    /// Questions for which even the finest grid was too coarse: after two, no more grids are computed.
    too_coarse: usize,
    /// The tilt of the last question.
    tilt: Option<f64>,
    /// Work of contours and grids so far, beyond that of the segments' moments.
    work: u64,
}

impl Truncated {
    /// `segments` without outputs of probability e^−`level` over all steps.
    pub(crate) fn new(segments: &[Segment], level: f64) -> Self {
        let steps: f64 = segments.iter().map(|segment| segment.steps).sum();
        let mut truncated_mass = LogSum::default();
        let mut cut = |segment: &Segment| {
            let (loss, log_mass) = segment.loss.truncated(-level - steps.ln(), segment.steps);
            truncated_mass.add(log_mass + segment.steps.ln());
            Segment {
                loss,
                steps: segment.steps,
            }
        };
        let segments: Vec<Segment> = segments.iter().map(&mut cut).collect();
        // Each addition rounds the sum, and now and then its scale.
        let rounding = 4.0 * f64::EPSILON * segments.len() as f64;
        let log_truncated_mass = rounded(truncated_mass.ln() + rounding, 1.0);
        Self::of((level, log_truncated_mass), segments)
    }

    /// `segments` as they are.
    pub(crate) fn whole(segments: Vec<Segment>) -> Self {
        Self::of((f64::INFINITY, f64::NEG_INFINITY), segments)
    }

    fn of((level, log_truncated_mass): (f64, f64), segments: Vec<Segment>) -> Self {
        Self {
            level,
            segments,
            evaluators: Evaluators::new(log_truncated_mass),
            cells: CellContours::default(),
            failures: [Vec::new(), Vec::new(), Vec::new()],
            too_coarse: 0,
            tilt: None,
            work: 0,
        }
    }

    /// Work so far, in density evaluations (two or three nanoseconds each).
    pub(crate) fn work(&self) -> u64 {
        self.work + self.cells.work() + self.segments.iter().map(|segment| segment.loss.work()).sum::<u64>()
    }

    /// Removes contours and grids, so that the next answer does not depend on earlier questions; the panels, which are the same for
    /// every question, stay.
    pub(crate) fn forget(&mut self) {
        self.evaluators.clear();
        self.cells.forget();
        self.forget_failures();
        self.too_coarse = 0;
        self.tilt = None;
    }

    /// Forgets at which tilts no contour was found, before one of less accuracy is asked for.
    pub(crate) fn forget_failures(&mut self) {
        self.failures.iter_mut().for_each(Vec::clear);
    }

    /// Moves out the contours and grids that were computed for earlier questions.
    pub(crate) fn take_evaluators(&mut self) -> Evaluators {
        self.evaluators.take()
    }

    /// −log of the probability that may be truncated.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// log of the probability that is truncated.
    pub(crate) fn log_truncated_mass(&self) -> f64 {
        self.evaluators.log_truncated_mass()
    }

    /// The ε whose δ is about e^`log_delta`, by saddle points.
    pub(crate) fn starting_point(&mut self, log_delta: f64) -> Option<StartingPoint> {
        let cell = self.cells.cell_of_delta(&mut self.segments, log_delta);
        let Some(cell) = cell.filter(Cell::is_narrow) else {
            let found = saddle::for_log_delta(&mut self.segments, log_delta);
            self.tilt = found.map(|saddle| saddle.c);
            let start = found.map(|saddle| StartingPoint {
                epsilon: saddle.epsilon,
                slope: saddle.c,
            })?;
            if Suitability::at(&self.segments, start.epsilon) == Suitability::Unsuited {
                return Some(start);
            }
            return Some(starting_point::of_smoothed_loss(&mut self.segments, start, log_delta).unwrap_or(start));
        };
        let (low, high) = (cell.low.saddle, cell.high.saddle);
        self.tilt = Some(low.c);
        let (width, fall) = (high.epsilon - low.epsilon, low.log_delta - high.log_delta);
        if !(width > 0.0 && fall > 0.0) {
            return Some(StartingPoint {
                epsilon: low.epsilon,
                slope: low.c,
            });
        }
        // The cubic through both ends with the slopes −c there, as d log δ/dε is about −c.
        let (start, end) = (low.c * width / fall, high.c * width / fall);
        let fallen = |x: f64| x * (start + x * (3.0 - 2.0 * start - end + x * (start + end - 2.0)));
        let slope = |x: f64| start + x * (2.0 * (3.0 - 2.0 * start - end) + 3.0 * x * (start + end - 2.0));
        let wanted = ((low.log_delta - log_delta) / fall).clamp(0.0, 1.0);
        let mut x = wanted;
        for _ in 0..NEWTON_STEPS {
            let next = x + (wanted - fallen(x)) / slope(x);
            x = if (0.0..=1.0).contains(&next) { next } else { wanted };
        }
        Some(StartingPoint {
            epsilon: low.epsilon + x * width,
            slope: (low.c * (1.0 - x) + high.c * x).max(0.5 * fall / width),
        })
    }

    /// An estimate of log δ at ε, at most `most`, where no step has a large loss with a probability that is not small: there the saddle point
    /// tells little.
    pub(crate) fn smoothed_log_delta(&mut self, epsilon: f64, most: f64) -> Option<f64> {
        match Suitability::at(&self.segments, epsilon) {
            Suitability::Unsuited => None,
            _ => starting_point::smoothed_log_delta(&mut self.segments, epsilon, most),
        }
    }

    /// The cell of ε; `None` where its saddle point is not above 0.
    pub(crate) fn cell(&mut self, epsilon: f64) -> Option<Cell> {
        self.cells.cell(&mut self.segments, epsilon)
    }

    /// δ of the whole law by the contour of the cell of ε, or by Chernoff's bound at its tilt where that is an answer.
    pub(crate) fn by_cell(&mut self, cell: &Cell, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        let bound = cell.low.bound.chernoff(epsilon);
        if accuracy.bounds_first && accuracy.is_met(self.evaluators.whole(bound)) {
            return self.evaluators.whole(bound);
        }
        let kinds = kinds(&self.segments);
        let limits = |suitability| Form::Inversion.limits(suitability, kinds);
        let mut log_tolerance = accuracy.cell_width.min(1.0).ln() - LOG_MARGIN;
        // Which side of a threshold δ lies on says the same for any ε.
        let margin = match accuracy.is_side_enough {
            true => 0.0,
            false => margin_next_to_zero(cell.low.saddle.c, epsilon),
        };
        let mut found = bound;
        for _ in 0..MAX_CONTOURS {
            let segments = &mut self.segments;
            match self.cells.contour(segments, cell, log_tolerance - margin, limits) {
                CellInversion::Contour(contour) => {
                    found = found.meet(self.evaluators.by_contour(&contour, epsilon));
                    self.evaluators.add_contour(contour);
                }
                // One without the margin may be short enough, and is left to the next form.
                CellInversion::TooLong if margin > 0.0 => break,
                CellInversion::TooLong => {
                    self.failures[Form::Inversion as usize].push(cell.low.saddle.c);
                    break;
                }
                CellInversion::LeftToSplit => break,
            }
            // δ may be smaller than the saddle point suggests. Few steps, so that questions about one cell share them.
            let shortfall = (found.width() / accuracy.cell_width).ln() + 1.0;
            if accuracy.is_met(found) || shortfall > MAX_LOG_SHORTFALL {
                break;
            }
            log_tolerance -= (shortfall / CELL_LOG_STEP).ceil().max(1.0) * CELL_LOG_STEP;
        }
        self.evaluators.whole(found)
    }

    /// The saddle point of ε, searched from that of the last question; `None` where there is none.
    fn tilt_for(&mut self, epsilon: f64) -> Option<f64> {
        let found = saddle::for_epsilon(&mut self.segments, epsilon, self.tilt)?;
        self.tilt = Some(found);
        Some(found)
    }

    /// δ of the whole law, as far as contours and grids of earlier questions know it.
    pub(crate) fn known(&self, epsilon: f64) -> Enclosure {
        self.evaluators.delta(epsilon)
    }

    /// Certified log δ of the whole loss by one form of computation; what is `known` of it says which errors matter.
    pub(crate) fn delta(&mut self, form: Form, epsilon: f64, accuracy: &Accuracy, known: Enclosure) -> Enclosure {
        let found = self.evaluators.truncated_delta(epsilon);
        if accuracy.is_met(found) {
            return self.evaluators.whole(found);
        }
        let Some(c) = self.tilt_for(epsilon) else {
            return self.evaluators.whole(found);
        };
        let suitability = match form {
            Form::Inversion => Suitability::at(&self.segments, epsilon),
            _ => Suitability::Unsuited,
        };
        let here = match form {
            Form::Grid => self.on_grids(c, epsilon, accuracy, found),
            Form::Inversion if suitability == Suitability::Needed => Enclosure::TRIVIAL,
            _ => {
                let failures = &self.failures[form as usize];
                let exhausted = failures.len() >= MAX_FAILURES;
                if exhausted || failures.iter().any(|failed| (failed / c).ln().abs() < SAME_TILT) {
                    Enclosure::TRIVIAL
                } else {
                    let limits = form.limits(suitability, kinds(&self.segments));
                    self.on_contours((form, limits), c, epsilon, accuracy, known)
                }
            }
        };
        self.evaluators.whole(found.meet(here))
    }

    /// log δ of the law as it is by a contour at this tilt.
    pub(crate) fn at_tilt(&mut self, c: f64, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        let found = self.evaluators.truncated_delta(epsilon);
        if accuracy.is_met(found) {
            return found;
        }
        let form = Form::Inversion;
        let limits = form.limits(Suitability::Unsuited, kinds(&self.segments));
        found.meet(self.on_contours((form, limits), c, epsilon, accuracy, found))
    }

    /// log δ of the whole law by a contour at this tilt for a δ that is expected, within `limits`.
    pub(crate) fn by_tilt(&mut self, c: f64, epsilon: f64, accuracy: &Accuracy, limits: Limits) -> Enclosure {
        let accurate = (accuracy.log_fraction() - LOG_MARGIN, None, accuracy.expected());
        let contour = self.contours_for(Form::Inversion, (c, epsilon), accurate, limits);
        let found = contour.map_or(Enclosure::TRIVIAL, |contour| {
            self.work += contour.work();
            self.evaluators.by_contour(&contour, epsilon)
        });
        self.evaluators.whole(found)
    }

    /// By one route; `None` if it does not apply.
    pub(crate) fn delta_by(&mut self, form: Form, epsilon: f64, width: f64) -> Option<Enclosure> {
        let c = self.tilt_for(epsilon)?;
        let found = match form {
            Form::Grid => self.on_grids(c, epsilon, &Accuracy::of_width(width), Enclosure::TRIVIAL),
            _ => {
                let most = form.limits(Suitability::Unsuited, kinds(&self.segments));
                self.on_contours((form, most), c, epsilon, &Accuracy::of_width(width), Enclosure::TRIVIAL)
            }
        };
        Some(self.evaluators.whole(found))
    }

    /// Contours at a tilt for δ at `epsilon`, with errors of about e^`log_tolerance` of it, where δ is known to be about e^`hint`, and expected to be
    /// e^`expected`.
    fn contours_for(
        &mut self,
        form: Form,
        (c, epsilon): (f64, f64),
        (log_tolerance, hint, expected): (f64, Option<f64>, Option<f64>),
        limits: Limits,
    ) -> Option<ContourSum> {
        let segments = &mut self.segments;
        if form == Form::SplitInversion {
            let (accuracy, work) = ((log_tolerance, hint), &mut self.work);
            return split::contours(segments, c, epsilon, accuracy, limits.products, work);
        }
        let tilt = Tilt::near(segments, c, epsilon, (log_tolerance, expected))?;
        cluster_runs::contours(segments, &tilt, log_tolerance, limits)
    }

    /// A contour for the accuracy that is asked for, and others if δ is smaller than the saddle point suggests, each of which has these
    /// limits.
    fn on_contours(
        &mut self,
        (form, limits): (Form, Limits),
        c: f64,
        epsilon: f64,
        accuracy: &Accuracy,
        known: Enclosure,
    ) -> Enclosure {
        let mut found = Enclosure::TRIVIAL;
        let (mut hint, expected) = expectations(form, accuracy, known);
        let is_confirming = accuracy.threshold.is_none();
        let is_split = form == Form::SplitInversion;
        let mut errors = Errors {
            log_tolerance: accuracy.log_fraction() - LOG_MARGIN,
            margin: 0.0,
            // The last form before a grid: errors as large as the width that is asked for may do.
            spare: if form == Form::LongInversion { LOG_MARGIN } else { 0.0 },
        };
        if is_confirming {
            errors.log_tolerance -= LOG_CONFIRMING_MARGIN;
            // Where runs are split log δ falls faster than by c for each unit of ε: by how much a first contour tells.
            errors.margin = if is_split { 0.0 } else { margin_next_to_zero(c, epsilon) };
        }
        for _ in 0..MAX_CONTOURS + errors.tries() {
            let contour = self.contours_for(form, (c, epsilon), (errors.log(), hint, expected), limits);
            let Some(contour) = contour.map(Arc::new) else {
                if errors.relax() {
                    continue;
                }
                self.failures[form as usize].push(c);
                break;
            };
            let before = found.width();
            found = found.meet(self.evaluators.by_contour(&contour, epsilon));
            let fall = if is_confirming && is_split {
                fall_from_zero(&contour, epsilon)
            } else {
                1.0
            };
            self.work += contour.work();
            self.evaluators.add_contour(contour);
            let is_hardly_narrower = found.width() > HARDLY_NARROWER * before && before.is_finite();
            if is_hardly_narrower && !is_split {
                break;
            }
            let shortfall = (found.width() / (fall * accuracy.width)).ln() + 1.0;
            if accuracy.is_met(found) && (fall >= 1.0 || shortfall <= 1.0) {
                break;
            }
            if shortfall <= MAX_LOG_SHORTFALL {
                errors.log_tolerance -= shortfall;
            } else if is_split && hint.is_none_or(|hint| found.log_upper < hint - 1.0) {
                // δ is smaller than it was said to be.
                hint = Some(found.log_upper);
            } else {
                break;
            }
        }
        found
    }

    /// Grids, each finer than the last, until the width is met or a finer grid would be too large.
    fn on_grids(&mut self, c: f64, epsilon: f64, accuracy: &Accuracy, known: Enclosure) -> Enclosure {
        let mut found = known;
        // The cost of a grid grows with its accuracy.
        let width = accuracy.sufficient_width;
        let mut spacing = f64::INFINITY;
        let tries = match self.too_coarse {
            0 => REFINEMENTS,
            1 => 1,
            _ => 0,
        };
        let mut is_finest = tries == 0;
        for _ in 0..tries {
            let Some(grid) = self.grid(c, epsilon, width, spacing, found.width()) else {
                is_finest = true;
                break;
            };
            let here = grid.delta(epsilon);
            self.work += grid.work();
            found = found.meet(here);
            let (done, at_limit, used) = (found.width() <= width, grid.at_limit, grid.spacing());
            self.evaluators.add_grid(grid);
            is_finest = at_limit;
            if done || at_limit {
                break;
            }
            // The width of a grid's interval is of second order in its spacing.
            spacing = used * (0.6 * width / here.width()).sqrt().clamp(0.02, 0.7);
        }
        if is_finest && found.width() > width {
            self.too_coarse += 1;
        }
        found
    }

    /// A grid for an interval of that width, with at most that spacing; `None` where not even the finest grid would narrow the known
    /// width enough, or where it would be too large.
    fn grid(&mut self, c: f64, epsilon: f64, width: f64, spacing: f64, known_width: f64) -> Option<Grid> {
        let untilted = Total::at(&mut self.segments, if c > 0.0 { c } else { 0.0 })?;
        let deviation = untilted.variance.sqrt();
        let c = if c > 0.0 {
            (FLATTER * c).max(c - 1.0 / deviation)
        } else {
            0.5 / deviation
        };
        let log_tolerance = width.min(WIDEST_GRID).ln() - LOG_GRID_MARGIN;
        let tilt = Tilt::near(&mut self.segments, c, epsilon, (log_tolerance, None))?;
        let plan = Plan {
            tilt,
            epsilon,
            width,
            spacing,
        };
        let steps: f64 = self.segments.iter().map(|segment| segment.steps).sum();
        let narrowest = plan.least_width(steps);
        if narrowest > width && MIN_GAIN * narrowest > known_width {
            return None;
        }
        Grid::new(&mut self.segments, &plan, &mut self.work)
    }
}

#[cfg(test)]
mod tests;
