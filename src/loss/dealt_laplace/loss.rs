//! The privacy loss of one epoch of dealt batches with Laplace noise.

use super::batch::{Batch, range, shrinking, standard_deviation};
use super::epoch::Epoch;
use super::extremes::Extremes;
use super::little_noise::LittleNoise;
use super::threshold::Threshold;
use super::unknown::Unknown;
use super::weighted::{Cells, Tilt, atoms};
use crate::approx::Approx;
use crate::error::{Error, Result, require};
use crate::interval::Enclosure;
use crate::loss::StepLoss;
use crate::loss::lattice::excess::End;
use crate::loss::lattice::sum::REACH;
use crate::loss::loss_curve::{FineAtoms, Support};
use crate::loss::max_loss::MaxLoss;
use crate::loss::pairs::{REVEALING_SCALE, StepOutcome};
use crate::loss::privacy_loss::{Effort, PrivacyLoss, TiltedLoss, TiltedMoments};
use crate::step::{Direction, Group, Mechanism, Sampling, Step};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// 1 − γ that is aimed at, about the relative width of ε that it leaves. Half of it takes 1.4 times as many points.
const GAP: f64 = 2.5e-7;
/// Most cells of one batch.
const MAX_CELLS: f64 = 16_384.0;
/// Most places of a window: a quarter of a second.
const MAX_PLACES: f64 = 900_000.0;
/// Most batches.
const MOST_BATCHES: u64 = 1 << 20;
/// With less noise than this, of several batches the outputs are bounded as if everybody saw which batch the record is in: cells of likelihood
/// ratios up to e^100 are too wide for a lattice to say more.
const SMALLEST_SCALE: f64 = 0.01;
/// Below this, e^ε is less than any rounding of 1.
const LEAST_EPSILON: f64 = -600.0;
/// Most cells of one batch, and most places of a window, for moments: they leave K(c) a relative gap of 1e-5 or so.
const COARSE_CELLS: f64 = 512.0;
const COARSE_PLACES: f64 = 16_000.0;
/// Evaluations of a density that a place takes: its part of the transforms, its two logarithms and exponentials.
const WORK_OF_PLACE: u64 = 25;

/// The loss of one epoch for one record.
#[derive(Debug, Clone)]
struct DealtLaplace {
    direction: Direction,
    /// On a fine lattice, for curves, and on a coarse one, for moments. Shared by all copies.
    epoch: Arc<Epoch>,
    coarse: Arc<Epoch>,
    /// Its largest loss.
    extremes: Extremes,
    /// Cells by the number of their tilt, shared by all copies. None depends on what was asked before.
    cells: Arc<Mutex<BTreeMap<i64, Arc<Cells>>>>,
    /// The atoms of the last question, and its c.
    atoms: Option<(f64, Arc<FineAtoms>)>,
    work: u64,
}

/// The outcome of an epoch of `total` batches for one record, of which `released` are released.
///
/// # Errors
/// A scale that is not positive and finite; too many batches.
pub(in crate::loss) fn outcome(
    scale: f64,
    released: u64,
    total: u64,
    direction: Direction,
) -> Result<StepOutcome> {
    require(scale > 0.0 && scale.is_finite(), "scale", scale, "positive and finite")?;
    if !(1..=MOST_BATCHES).contains(&total) {
        return Err(Error::out_of_range("batches", total, "in [1, 2^20] with Laplace noise"));
    }
    if released == 1 {
        // The record is in the only batch that is released with probability one over their number, as in a Poisson sample.
        let step = Step {
            mechanism: Mechanism::Laplace { scale },
            sampling: Sampling::Poisson {
                sample_rate: (total as f64).recip(),
            },
            group: Group::of(1),
        };
        return step.outcome(Some(direction));
    }
    if scale < REVEALING_SCALE {
        let log_unseen = ((total - released) as f64 / total as f64).ln();
        return Ok(StepOutcome::RevealsMembership { log_unseen });
    }
    Ok(StepOutcome::Loss(if scale < SMALLEST_SCALE {
        StepLoss::new(LittleNoise::new(scale, (released, total), direction)?)
    } else {
        StepLoss::new(DealtLaplace::new(scale, (released, total), direction))
    }))
}

/// Cells of one batch: as many as the wanted γ needs, and as a window of so many places has room for.
fn cells(scale: f64, released: f64, (max_cells, max_places): (f64, f64)) -> usize {
    let range = range(scale);
    let wanted = (shrinking(scale, range) / GAP).sqrt();
    let of_window = max_places * range / (2.0 * REACH * standard_deviation(scale) * released.sqrt());
    let of_all = max_places / released;
    wanted.min(of_window.max(of_all)).clamp(1.0, max_cells).ceil() as usize
}

impl DealtLaplace {
    fn new(scale: f64, (released, total): (u64, u64), direction: Direction) -> Self {
        let on_lattice = |limits: (f64, f64)| {
            let batch = Batch::new(scale, cells(scale, released as f64, limits));
            Arc::new(Epoch::new(batch, released, total))
        };
        Self {
            direction,
            epoch: on_lattice((MAX_CELLS, MAX_PLACES)),
            coarse: on_lattice((COARSE_CELLS, COARSE_PLACES)),
            extremes: Extremes::new(scale, (released, total), direction),
            cells: Arc::default(),
            atoms: None,
            work: 0,
        }
    }

    fn tilt(&self, c: f64) -> Tilt {
        Tilt {
            direction: self.direction,
            c,
        }
    }

    fn known_cells(&self) -> MutexGuard<'_, BTreeMap<i64, Arc<Cells>>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cells for c.
    fn cells_for(&mut self, c: f64) -> Option<Arc<Cells>> {
        let number = self.coarse.number_of_power(self.tilt(c).exponent())?;
        let known = self.known_cells().get(&number).cloned();
        if known.is_some() {
            return known;
        }
        let law = self.coarse.law(number)?;
        // The c whose power is next to this tilt.
        let exponent = law.tilt * self.coarse.ratio(law.mean) / self.coarse.step();
        let c = match self.direction {
            Direction::Remove => exponent - 1.0,
            Direction::Add => -exponent,
        };
        let cells = Arc::new(Cells::new(&atoms(&self.coarse, &law, self.tilt(c)), c));
        self.work += WORK_OF_PLACE * law.masses.len() as u64;
        self.known_cells().insert(number, Arc::clone(&cells));
        Some(cells)
    }

    fn moments_at(&mut self, c: f64) -> TiltedMoments {
        let Some(cells) = self.cells_for(c) else {
            return self.extremes.crude_moments(c);
        };
        let mut found = cells.moments(c);
        let crude = self.extremes.crude_moments(c);
        let upper = found.log_moment.upper();
        if upper.is_nan() || upper > crude.log_moment.upper() {
            found.log_moment = crude.log_moment;
        }
        if c == 0.0 {
            found.log_moment = Approx::exact(0.0);
        }
        found
    }

    /// The atoms tilted by e^{cℓ}.
    fn atoms_for(&mut self, c: f64) -> Option<Arc<FineAtoms>> {
        if let Some((known, atoms)) = &self.atoms
            && *known == c
        {
            return Some(Arc::clone(atoms));
        }
        let number = self.epoch.number_of_power(self.tilt(c).exponent())?;
        let law = self.epoch.law(number)?;
        let found = Arc::new(atoms(&self.epoch, &law, self.tilt(c)));
        self.work += WORK_OF_PLACE * found.upper.len() as u64;
        self.atoms = Some((c, Arc::clone(&found)));
        Some(found)
    }
}

impl PrivacyLoss for DealtLaplace {
    fn moments(&mut self, c: f64, _: f64) -> TiltedMoments {
        self.moments_at(c)
    }

    fn tilted(&mut self, c: f64, _: f64) -> Box<dyn TiltedLoss + '_> {
        Box::new(Unknown(self.moments_at(c)))
    }

    fn support(&mut self, c: f64, _: f64) -> Support<'_> {
        self.atoms_for(c).map_or(Support::NONE, |atoms| Support {
            outside: atoms.error,
            fine: Some(atoms),
            ..Support::NONE
        })
    }

    /// E_Q[(W − e^ε)₊] or E_Q[(1 − e^ε·W)₊], between those of the contracted and the spread ratio.
    fn one_step(&self, epsilon: f64, _: f64, _: &mut Effort) -> Enclosure {
        if self.max_loss().above(epsilon) <= 0.0 {
            return Enclosure::ZERO;
        }
        if epsilon < LEAST_EPSILON {
            // δ is at least 1 − e^ε.
            return Enclosure::of_logs(-f64::EPSILON, 0.0);
        }
        let (k, log_factor) = match self.direction {
            Direction::Remove => (Threshold::of_log(epsilon), 0.0),
            Direction::Add => (Threshold::of_log(-epsilon), epsilon),
        };
        let side = |k: &Threshold, end: End| match self.direction {
            Direction::Remove => self.epoch.log_above(k, end),
            Direction::Add => self.epoch.log_below(k, end),
        };
        // Sums with logarithms of factors are rounded.
        let slack = 4.0 * f64::EPSILON * (1.0 + epsilon.abs());
        let upper = side(&k, End::Upper) + log_factor + slack;
        let contraction = self.epoch.batch.contraction;
        let lower = if contraction > 0.0 {
            side(&k.contracted(contraction), End::Lower) + contraction.ln() + log_factor - slack
        } else {
            f64::NEG_INFINITY
        };
        Enclosure::of_logs(lower.min(upper), upper.min(0.0))
    }

    fn truncated(&self, _: f64, _steps: f64) -> (StepLoss, f64) {
        (StepLoss::new(self.clone()), f64::NEG_INFINITY)
    }

    fn density_terms(&self) -> usize {
        0
    }

    /// Moments at neighbouring tilts share what is computed, and each range of tilts is computed on its own.
    fn has_cheap_moments(&self) -> bool {
        false
    }

    fn has_transform(&self) -> bool {
        false
    }

    fn work(&self) -> u64 {
        self.work
    }

    fn max_loss(&self) -> MaxLoss {
        self.extremes.max_loss()
    }

    fn log_mass_of_max_loss(&self) -> f64 {
        self.extremes.log_mass_of_max_loss()
    }
}

#[cfg(test)]
mod tests;
