//! δ and ε of a composition in one direction: the one place that chooses between the routes.
//!
//! | route | when |
//! |---|---|
//! | closed form (`one_step`) | one step, or Gaussian losses only (they add up to one) |
//! | inversion (`contour`) | where the characteristic function is seen to decay: most runs; cost independent of T |
//! | grid (`grid`) | few steps, losses that are nearly lattices, Laplace noise |
//! | Chernoff's bound | what is left: an upper bound only |
//!
//! Every route gives a certified interval; where one is wider than wanted, the next is asked too, and what all of
//! them allow is returned.

use super::contour::Contour;
use super::enclosure::Enclosure;
use super::grid::{Grid, Plan};
use super::inverse;
use super::one_step;
use super::saddle;
use super::segment::{Segment, Total};
use super::tilt::Tilt;
use crate::error::{Error, Result};
use crate::pair::StepLoss;
use crate::pair::scheme::StepOutcome;

/// Contours and grids kept for later questions.
const KEPT: usize = 8;
/// Grids tried for one question, each finer than the last.
const REFINEMENTS: usize = 3;

/// A route, for questions that ask for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// One step in closed form.
    OneStep,
    /// Complex-order inversion.
    Inversion,
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
    contours: Vec<Contour>,
    grids: Vec<Grid>,
    /// Tilts at which no contour could be made.
    failures: Vec<f64>,
}

impl Directed {
    /// The composition of `steps` with their numbers; `adds` if P has no member of the group.
    pub fn new(steps: Vec<(StepOutcome, u64)>, adds: bool) -> Self {
        let mut composed = Self {
            segments: Vec::new(),
            log_kept: 0.0,
            moved: 0.0,
            contours: Vec::new(),
            grids: Vec::new(),
            failures: Vec::new(),
        };
        // Gaussian losses N(μ²/2, μ²) add up to one.
        let mut square = 0.0;
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
                StepOutcome::Loss(loss) => match &loss {
                    StepLoss::Gaussian(gaussian) if gaussian.single().is_some() => {
                        square += steps * gaussian.single().unwrap_or(0.0).powi(2);
                    }
                    _ => composed.segments.push(Segment { loss, steps }),
                },
            }
        }
        if square > 0.0 {
            composed.segments.push(Segment {
                loss: StepLoss::shift(square.sqrt()),
                steps: 1.0,
            });
        }
        composed
    }

    /// Certified log δ at any real ε, to a relative width of about `width` of δ where that can be had.
    pub fn delta(&mut self, epsilon: f64, width: f64) -> Enclosure {
        if self.moved == 0.0 && self.log_kept == 0.0 {
            return self.smooth_delta(epsilon, width);
        }
        if self.log_kept == f64::NEG_INFINITY || self.moved == f64::INFINITY {
            return Enclosure::of_logs(0.0, 0.0); // every step tells
        }
        let rest = self.smooth_delta(epsilon - self.moved, width);
        let lost = -self.log_kept.exp_m1();
        let with = |log: f64, slack: f64| ((lost + (self.log_kept + log).exp()) * (1.0 + slack)).ln();
        let slack = 8.0 * f64::EPSILON * (2.0 + self.log_kept.abs());
        Enclosure::of_logs(with(rest.log_lower, -slack), with(rest.log_upper, slack))
    }

    fn smooth_delta(&mut self, epsilon: f64, width: f64) -> Enclosure {
        if self.segments.is_empty() {
            return Enclosure::of_logs((-epsilon.exp_m1()).max(0.0).ln() - 1e-15, (-epsilon.exp_m1()).max(0.0).ln());
        }
        if epsilon >= self.most_loss() {
            return Enclosure::ZERO;
        }
        if let [Segment { loss, steps: 1.0 }] = self.segments.as_slice() {
            return one_step::delta(loss, epsilon);
        }
        let mut found = Enclosure::TRIVIAL;
        for contour in &self.contours {
            found = found.meet(contour.delta(epsilon));
        }
        if found.width() <= width {
            return found;
        }
        for grid in &self.grids {
            found = found.meet(grid.delta(epsilon));
        }
        if found.width() <= width {
            return found;
        }
        let Some(c) = saddle::for_epsilon(&mut self.segments, epsilon) else {
            return found;
        };
        if !self.failures.iter().any(|failed| (failed / c).ln().abs() < 0.2) {
            match self.contour(c, epsilon, width) {
                Some(contour) => {
                    found = found.meet(contour.delta(epsilon));
                    keep(&mut self.contours, contour);
                }
                None => keep(&mut self.failures, c),
            }
        }
        if found.width() > width {
            found = found.meet(self.on_grids(c.max(0.0), epsilon, width, found));
        }
        if found.width() > width {
            found = found.meet(self.chernoff(c, epsilon));
        }
        found
    }

    fn contour(&mut self, c: f64, epsilon: f64, width: f64) -> Option<Contour> {
        let tilt = Tilt::near(&mut self.segments, c, epsilon, width.min(1.0).ln() - 2.0)?;
        Contour::new(&mut self.segments, &tilt)
    }

    /// Grids, finer each time until the width is met or a finer one is too large.
    fn on_grids(&mut self, c: f64, epsilon: f64, width: f64, known: Enclosure) -> Enclosure {
        let mut found = known;
        let mut spacing = f64::INFINITY;
        for _ in 0..REFINEMENTS {
            let Some(grid) = self.grid(c, epsilon, width, spacing) else { break };
            let here = grid.delta(epsilon);
            found = found.meet(here);
            let (done, at_limit, used) = (found.width() <= width, grid.at_limit, grid.spacing());
            keep(&mut self.grids, grid);
            if done || at_limit {
                break;
            }
            // Both laws are of second order.
            spacing = used * (0.8 * width / here.width()).sqrt().clamp(0.1, 0.7);
        }
        found
    }

    fn grid(&mut self, c: f64, epsilon: f64, width: f64, spacing: f64) -> Option<Grid> {
        let c = if c > 0.0 {
            c
        } else {
            0.5 / Total::at(&mut self.segments, 0.0)?.variance.sqrt()
        };
        let tilt = Tilt::near(&mut self.segments, c, epsilon, width.min(0.1).ln() - 5.0)?;
        let plan = Plan {
            tilt,
            epsilon,
            width,
            spacing,
        };
        Grid::new(&mut self.segments, &plan)
    }

    /// δ ≤ e^{A(c) − cε}·sup (1 − e^{−u})e^{−cu}: the bound of the Rényi divergence of order c + 1, converted as by
    /// RGP Lemma 2.2.
    fn chernoff(&mut self, c: f64, epsilon: f64) -> Enclosure {
        if !(c > 0.0) {
            return Enclosure::TRIVIAL;
        }
        let Some(total) = Total::at(&mut self.segments, c) else {
            return Enclosure::TRIVIAL;
        };
        let most = c * (c / (c + 1.0)).ln() - (c + 1.0).ln();
        let log = total.log_moment_upper() - c * epsilon + most;
        let rounding = 8.0 * f64::EPSILON * (total.log_moment.abs() + (c * epsilon).abs() + most.abs());
        Enclosure::of_logs(f64::NEG_INFINITY, log + rounding)
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
        if route == Route::OneStep {
            return match self.segments.as_slice() {
                [Segment { loss, steps: 1.0 }] => Ok(one_step::delta(loss, epsilon)),
                _ => Err(none()),
            };
        }
        let c = saddle::for_epsilon(&mut self.segments, epsilon).ok_or_else(none)?;
        match route {
            Route::Inversion => {
                let contour = self.contour(c, epsilon, width).ok_or_else(none)?;
                Ok(contour.delta(epsilon))
            }
            Route::Grid => Ok(self.on_grids(c.max(0.0), epsilon, width, Enclosure::TRIVIAL)),
            Route::Renyi | Route::OneStep => Ok(self.chernoff(c, epsilon)),
        }
    }

    /// Upper bound on the Rényi divergence of order α > 1: A(α − 1)/(α − 1).
    pub fn renyi(&mut self, order: f64) -> f64 {
        if self.log_kept < 0.0 || self.moved == f64::INFINITY {
            return f64::INFINITY;
        }
        let c = order - 1.0;
        let rest = Total::at(&mut self.segments, c).map_or(f64::INFINITY, |total| total.log_moment_upper());
        (rest.max(0.0) / c + self.moved) * (1.0 + 4.0 * f64::EPSILON)
    }

    /// Where log δ = `log_delta` may be: certified lower and upper bounds on ε ≥ 0, to a relative width of about
    /// `tolerance`.
    pub fn epsilon(&mut self, log_delta: f64, tolerance: f64) -> (f64, f64) {
        let guess = self.guess(log_delta);
        inverse::epsilon(|epsilon, width| self.delta(epsilon, width), log_delta, tolerance, guess)
    }

    /// ε and −d log δ/dε near where log δ = `log_delta`.
    fn guess(&mut self, log_delta: f64) -> (f64, f64) {
        let moved = if self.moved.is_finite() { self.moved } else { 0.0 };
        match saddle::for_log_delta(&mut self.segments, log_delta) {
            Some(saddle) => (saddle.epsilon + moved, saddle.c),
            None => (1.0 + moved, 1.0),
        }
    }

    /// The least upper bound of the loss.
    fn most_loss(&self) -> f64 {
        let most = |segment: &Segment| segment.steps * segment.loss.most_loss();
        self.segments.iter().map(most).sum::<f64>() * (1.0 + 4.0 * f64::EPSILON)
    }
}

/// Keeps the latest few.
fn keep<T>(all: &mut Vec<T>, new: T) {
    if all.len() >= KEPT {
        all.remove(0);
    }
    all.push(new);
}
