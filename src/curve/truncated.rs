//! A composition without the far outputs of each step, and the routes that compute its curve.
//!
//! Outputs that P has with probability e^−level in all steps together change δ by no more than that. Without them the
//! moments do not explode where a far tail would take over (a whole group in one batch), so that tilts and periods
//! are those of the losses that matter. (1 − e^{ε−S})₊ ≤ 1, so with p the probability left out
//!
//! > δ' ≤ δ ≤ δ' + p, δ' = E[(1 − e^{ε−S})₊; nothing left out],
//!
//! and the law that is left, of mass below 1, is treated as any other.

use crate::curve::range_cache::Kept;
use crate::grid::composition::{Grid, Plan};
use crate::interval::{Aim, Enclosure};
use crate::inversion::chernoff::chernoff;
use crate::inversion::contour::Contour;
use crate::inversion::saddle::Saddle;
use crate::inversion::segment::{Segment, Total};
use crate::inversion::tilt::Tilt;
use crate::inversion::{saddle, split};
use crate::special::log_space::LogSum;

/// Contours and grids kept for later questions.
const KEPT: usize = 8;
/// Failed inversions after which none is tried again.
const FAILURES: usize = 3;
/// How many times narrower a grid must promise to be.
const GAIN: f64 = 4.0;
/// Least tilt of a grid over the saddle point, at most a spread away from it: less of what lies far out is in the way, for
/// less than a digit.
const FLATTER: f64 = 0.8;
/// Grids tried for one question, each finer than the last.
const REFINEMENTS: usize = 3;

/// How the curve of a truncated loss is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Inversion of all of the law.
    Inversion,
    /// Inversion of the runs with a large loss in some step.
    SplitInversion,
    /// Inversion of all of the law, where it takes many points.
    LongInversion,
    /// Discretised losses.
    Grid,
}

impl Form {
    /// Products of nodes in x and y that an inversion of so many segments may cost: 10⁸ of them take some 30 ms.
    fn most_products(self, segments: usize) -> f64 {
        let one = match self {
            Self::Inversion => 2e7,
            _ => 1.5e8,
        };
        one * (1.0 + segments as f64 / 100.0)
    }
}

/// Losses truncated at one level, with what was computed from them.
#[derive(Debug)]
pub(crate) struct Truncated {
    level: f64,
    log_lost: f64,
    segments: Vec<Segment>,
    contours: Vec<Contour>,
    grids: Vec<Grid>,
    /// Tilts at which no contour could be made, by form.
    failures: [Vec<f64>; 3],
    /// Questions for which even the finest grid was too coarse: after two, no more grids are made.
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
        let mut lost = LogSum::default();
        let mut cut = |segment: &Segment| {
            let (loss, log_lost) = segment.loss.truncated(-level - steps.ln());
            lost.add(log_lost + segment.steps.ln());
            Segment {
                loss,
                steps: segment.steps,
            }
        };
        let segments = segments.iter().map(&mut cut).collect();
        Self {
            level,
            log_lost: lost.ln(),
            segments,
            contours: Vec::new(),
            grids: Vec::new(),
            failures: [Vec::new(), Vec::new(), Vec::new()],
            too_coarse: 0,
            tilt: None,
            work: 0,
        }
    }

    /// What was done so far, in terms of densities (two or three nanoseconds each).
    pub(crate) fn work(&self) -> u64 {
        self.work + self.segments.iter().map(|segment| segment.loss.work()).sum::<u64>()
    }

    /// Forgets contours and grids, so that the next answer does not depend on earlier questions; the panels, which are
    /// the same whoever asks, are kept.
    pub(crate) fn forget(&mut self) {
        self.contours.clear();
        self.grids.clear();
        self.failures.iter_mut().for_each(Vec::clear);
        self.too_coarse = 0;
        self.tilt = None;
    }

    /// Forgets at which tilts no contour could be made, before less is asked of one.
    pub(crate) fn forget_failures(&mut self) {
        self.failures.iter_mut().for_each(Vec::clear);
    }

    /// Hands over what was made for earlier questions.
    pub(crate) fn take_kept(&mut self) -> Kept {
        Kept {
            contours: std::mem::take(&mut self.contours),
            grids: std::mem::take(&mut self.grids),
            log_lost: self.log_lost,
        }
    }

    /// −log of the probability that may be left out.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// log of the probability that is left out.
    pub(crate) fn log_lost(&self) -> f64 {
        self.log_lost
    }

    /// The saddle point whose δ is about e^`log_delta`.
    pub(crate) fn saddle(&mut self, log_delta: f64) -> Option<Saddle> {
        let found = saddle::for_log_delta(&mut self.segments, log_delta);
        self.tilt = found.map(|saddle| saddle.c);
        found
    }

    fn tilt_for(&mut self, epsilon: f64) -> Option<f64> {
        let found = saddle::for_epsilon(&mut self.segments, epsilon, self.tilt)?;
        self.tilt = Some(found);
        Some(found)
    }

    /// What the truncated curve says of the whole one.
    fn whole(&self, found: Enclosure) -> Enclosure {
        let mut upper = LogSum::default();
        upper.add(found.log_upper);
        upper.add(self.log_lost);
        found.with_logs(found.log_lower, upper.ln() + 2.0 * f64::EPSILON)
    }

    /// What contours and grids made for earlier questions say of the truncated curve.
    fn kept(&self, epsilon: f64) -> Enclosure {
        let contours = self.contours.iter().map(|contour| contour.delta(epsilon));
        let grids = self.grids.iter().map(|grid| grid.delta(epsilon));
        contours.chain(grids).fold(Enclosure::TRIVIAL, Enclosure::meet)
    }

    /// What contours and grids made for earlier questions say of the whole curve, the truncated outputs included.
    pub(crate) fn known(&self, epsilon: f64) -> Enclosure {
        self.whole(self.kept(epsilon))
    }

    /// Chernoff's bound at the tilt that inversion would use.
    pub(crate) fn chernoff(&mut self, epsilon: f64) -> Enclosure {
        let tilt = self.tilt_for(epsilon).filter(|&c| c > 0.0);
        let bound = tilt.and_then(|c| {
            let total = Total::at(&mut self.segments, c)?;
            Some(chernoff(c, total.log_moment_upper(), epsilon))
        });
        self.whole(bound.unwrap_or(Enclosure::TRIVIAL))
    }

    /// Certified log δ of the whole loss by one form of computation.
    pub(crate) fn delta(&mut self, form: Form, epsilon: f64, aim: &Aim) -> Enclosure {
        let found = self.kept(epsilon);
        if aim.is_met(found) {
            return self.whole(found);
        }
        let Some(c) = self.tilt_for(epsilon) else {
            return self.whole(found);
        };
        let here = match form {
            Form::Grid => self.on_grids(c, epsilon, aim, found),
            _ => {
                let failures = &self.failures[form as usize];
                let tired = failures.len() >= FAILURES;
                if tired || failures.iter().any(|failed| (failed / c).ln().abs() < 0.2) {
                    Enclosure::TRIVIAL
                } else {
                    self.on_contours(form, c, epsilon, aim)
                }
            }
        };
        self.whole(found.meet(here))
    }

    /// By one route; `None` if it does not apply.
    pub(crate) fn delta_by(&mut self, form: Form, epsilon: f64, width: f64) -> Option<Enclosure> {
        let c = self.tilt_for(epsilon)?;
        let found = match form {
            Form::Grid => self.on_grids(c, epsilon, &Aim::of_width(width), Enclosure::TRIVIAL),
            _ => self.on_contours(form, c, epsilon, &Aim::of_width(width)),
        };
        Some(self.whole(found))
    }

    /// A contour for what is wanted; and others, if δ turned out smaller than a saddle point suggests.
    fn on_contours(&mut self, form: Form, c: f64, epsilon: f64, aim: &Aim) -> Enclosure {
        let mut found = Enclosure::TRIVIAL;
        let most_products = form.most_products(self.segments.len());
        let mut log_tolerance = aim.log_share() - 2.0;
        for _ in 0..3 {
            let segments = &mut self.segments;
            let contour = match form {
                Form::SplitInversion => split::contour(
                    segments,
                    c,
                    epsilon,
                    (log_tolerance, aim.hint),
                    most_products,
                    &mut self.work,
                ),
                _ => Tilt::near(segments, c, epsilon, log_tolerance)
                    .and_then(|tilt| Contour::new(segments, &tilt, most_products)),
            };
            let Some(contour) = contour else {
                keep(&mut self.failures[form as usize], c);
                break;
            };
            found = found.meet(contour.delta(epsilon));
            self.work += contour.work();
            keep(&mut self.contours, contour);
            let short = (found.width() / aim.width).ln() + 1.0;
            if aim.is_met(found) || short > 16.0 {
                break;
            }
            log_tolerance -= short;
        }
        found
    }

    /// Grids, finer each time until the width is met or a finer one is too large.
    fn on_grids(&mut self, c: f64, epsilon: f64, aim: &Aim, known: Enclosure) -> Enclosure {
        let mut found = known;
        // The cost of a grid grows with what is wanted of it.
        let width = aim.enough;
        let mut spacing = f64::INFINITY;
        let tries = match self.too_coarse {
            0 => REFINEMENTS,
            1 => 1,
            _ => 0,
        };
        for _ in 0..tries {
            let Some(grid) = self.grid(c, epsilon, width, spacing, found.width()) else {
                break;
            };
            let here = grid.delta(epsilon);
            self.work += grid.work();
            found = found.meet(here);
            let (done, at_limit, used) = (found.width() <= width, grid.at_limit, grid.spacing());
            keep(&mut self.grids, grid);
            if done || at_limit {
                break;
            }
            // Both laws are of second order; a grid that cannot do settles it at once.
            spacing = used * (0.6 * width / here.width()).sqrt().clamp(0.02, 0.7);
        }
        if found.width() > width {
            self.too_coarse += 1;
        }
        found
    }

    fn grid(&mut self, c: f64, epsilon: f64, width: f64, spacing: f64, known: f64) -> Option<Grid> {
        let usual = Total::at(&mut self.segments, if c > 0.0 { c } else { 0.0 })?;
        let spread = usual.variance.sqrt();
        let c = if c > 0.0 {
            (FLATTER * c).max(c - 1.0 / spread)
        } else {
            0.5 / spread
        };
        let tilt = Tilt::near(&mut self.segments, c, epsilon, width.min(0.1).ln() - 5.0)?;
        let plan = Plan {
            tilt,
            epsilon,
            width,
            spacing,
        };
        // No use where even the finest would say little more than is known.
        let steps: f64 = self.segments.iter().map(|segment| segment.steps).sum();
        let least = plan.least_width(steps);
        if least > width && GAIN * least > known {
            return None;
        }
        Grid::new(&mut self.segments, &plan, &mut self.work)
    }
}

/// Keeps the latest few.
fn keep<T>(all: &mut Vec<T>, new: T) {
    if all.len() >= KEPT {
        all.remove(0);
    }
    all.push(new);
}
