//! The loss of a noise schedule.

use crate::approx::Approx;
use crate::loss::StepLoss;
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::{PrivacyLoss, TiltedLoss, TiltedMoments};
use crate::loss::schedule::kind::{Kind, Pair};
use crate::loss::schedule::level::Level;
use crate::loss::schedule::tilted::TiltedSchedule;
use std::sync::Arc;

/// Finenesses that are tried: each makes the cells half as long as the one before, in noise and in rates.
const FINENESSES: u32 = 5;
/// The error of interpolation, as a part of log moments, with which no finer cells are tried: far below the tolerances of answers.
const SUFFICIENT: f64 = 1e-10;
/// Frequency up to which interpolation has to be accurate, in inverse standard deviations of the tilted loss: the transform of a Gaussian
/// is e^−50 there.
const REACH: f64 = 10.0;
/// log of the tolerance of the moments by which lines are chosen.
const CHOICE_TOLERANCE: f64 = -28.0;

/// The sum of the losses of the steps of a noise schedule.
#[derive(Debug)]
pub(crate) struct Schedule {
    pair: Pair,
    kinds: Arc<Vec<Kind>>,
    /// By fineness; `None` from that on at which there would be too many nodes.
    levels: Vec<Option<Level>>,
}

impl Schedule {
    /// The schedule of these kinds of steps, in an order that does not depend on theirs in the run; `None` where it takes too many nodes.
    pub(super) fn new(pair: Pair, kinds: Vec<Kind>) -> Option<Self> {
        Self::of(pair, Arc::new(kinds))
    }

    fn of(pair: Pair, kinds: Arc<Vec<Kind>>) -> Option<Self> {
        let first = Level::new(pair, &kinds, 0)?;
        Some(Self {
            pair,
            kinds,
            levels: vec![Some(first)],
        })
    }

    /// The coarsest fineness whose interpolation is accurate enough at c + iy, or the best one.
    fn fineness(&mut self, c: f64, y: f64) -> usize {
        let mut best = (f64::INFINITY, 0);
        for fineness in 0..FINENESSES as usize {
            if fineness == self.levels.len() {
                self.levels.push(Level::new(self.pair, &self.kinds, fineness as u32));
            }
            let Some(level) = &mut self.levels[fineness] else { break };
            let error = level.interpolation_error(self.pair, c, y);
            if error < best.0 {
                best = (error, fineness);
            }
            if error <= SUFFICIENT {
                break;
            }
        }
        best.1
    }

    fn level(&mut self, fineness: usize) -> Option<&mut Level> {
        self.levels.get_mut(fineness)?.as_mut()
    }

    fn moments_at(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        let (pair, fineness) = (self.pair, self.fineness(c, 0.0));
        let unknown = TiltedMoments {
            log_moment: Approx::new(f64::INFINITY, f64::INFINITY),
            mean: f64::INFINITY,
            variance: f64::INFINITY,
        };
        let Some(level) = self.level(fineness) else {
            return unknown;
        };
        let mut found = level.moments(pair, c, log_tolerance);
        if c == 0.0 {
            found.log_moment = Approx::exact(0.0);
        }
        found
    }
}

impl PrivacyLoss for Schedule {
    fn moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        self.moments_at(c, log_tolerance)
    }

    fn has_cheap_moments(&self) -> bool {
        false
    }

    fn tilted(&mut self, c: f64, log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        let variance = self.moments_at(c, CHOICE_TOLERANCE).variance;
        let pair = self.pair;
        let fineness = self.fineness(c, REACH / variance.sqrt());
        let level = self.level(fineness);
        Box::new(TiltedSchedule::new(level, pair, c, log_tolerance))
    }

    /// A schedule alone is inverted like a run of several steps.
    fn has_closed_form(&self) -> bool {
        false
    }

    /// Nothing is left out: cells need losses that are analytic in the noise.
    fn truncated(&self, _log_mass: f64, _steps: f64) -> (StepLoss, f64) {
        let copy = Self::of(self.pair, Arc::clone(&self.kinds)).unwrap_or_else(|| Self {
            pair: self.pair,
            kinds: Arc::clone(&self.kinds),
            levels: Vec::new(),
        });
        (StepLoss::new(copy), f64::NEG_INFINITY)
    }

    fn density_terms(&self) -> usize {
        self.kinds()
    }

    fn kinds(&self) -> usize {
        self.levels.iter().flatten().map(Level::nodes).max().unwrap_or(1)
    }

    fn work(&self) -> u64 {
        self.levels.iter().flatten().map(Level::work).sum()
    }

    /// For "add" a step's largest loss is −K log(1 − q), that of the noise where no member is seen.
    fn max_loss(&self) -> MaxLoss {
        if !self.pair.adds {
            return MaxLoss::UNBOUNDED;
        }
        let of = |kind: &Kind| -kind.steps * self.pair.records as f64 * (-kind.sample_rate).ln_1p();
        let sum: f64 = self.kinds.iter().map(of).sum();
        // Each sum is rounded by half a unit in the last place at most, and each term by four of these halves.
        let rounding = 0.5 * f64::EPSILON * (self.kinds.len() + 8) as f64 * sum;
        MaxLoss::within(sum + rounding, 2.0 * rounding)
    }

    /// Gaussian steps in which the whole group always takes part add up to one.
    fn widest_distance(&self) -> Option<f64> {
        let of = |kind: &Kind| kind.steps * (self.pair.records as f64 / kind.noise_multiplier).powi(2);
        let sum: f64 = self.kinds.iter().map(of).sum();
        // In units of 2⁻⁵³ each sum is rounded by 1 and each term by 4; the root has half of the relative error of the sum, and it, the
        // factor and their product round by 1 each.
        Some(sum.sqrt() * (1.0 + 0.25 * f64::EPSILON * (self.kinds.len() + 10) as f64))
    }
}

#[cfg(test)]
mod tests;
