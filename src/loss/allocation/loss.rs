//! The privacy loss of one epoch, or of one pass with fixed bins.

use crate::approx::Approx;
use crate::loss::StepLoss;
use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::decay::Decay;
use crate::loss::allocation::mellin::Mellin;
use crate::loss::allocation::tilted::TransformLine;
use crate::loss::privacy_loss::{PrivacyLoss, TiltedLoss, TiltedMoments};
use crate::step::Direction;
use realfft::num_complex::Complex64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Mean of the tilted loss, in place of one that is beyond what is computed: searches for a tilt turn back there.
const BEYOND: f64 = 1e9;

/// The loss of one epoch in which each record is in one batch.
#[derive(Debug, Clone)]
pub(crate) struct Allocation {
    bins: Bins,
    direction: Direction,
    /// Shared by all copies. What is found does not depend on what was found before.
    mellin: Arc<Mutex<Mellin>>,
}

impl StepLoss {
    /// The loss where a record is in one of the batches of `bins`.
    pub(crate) fn allocation(bins: Bins, direction: Direction) -> Self {
        Self::new(Allocation::new(bins, direction))
    }
}

/// The moments, whatever became of a thread that computed some of them.
pub(super) fn locked(mellin: &Mutex<Mellin>) -> MutexGuard<'_, Mellin> {
    mellin.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Allocation {
    /// The loss where a record is in one of the batches of `bins`.
    pub(super) fn new(bins: Bins, direction: Direction) -> Self {
        Self {
            mellin: Arc::new(Mutex::new(Mellin::new(bins.clone()))),
            bins,
            direction,
        }
    }

    fn mellin(&self) -> MutexGuard<'_, Mellin> {
        locked(&self.mellin)
    }

    /// The exponent of W in e^{cℓ} under P.
    fn exponent(&self, c: f64) -> f64 {
        match self.direction {
            Direction::Remove => 1.0 + c,
            Direction::Add => -c,
        }
    }

    /// K(c); beyond what is computed the bound c(c + 1)v/2, which holds as powers are convex, with an error of all of it.
    fn moments_at(&self, c: f64) -> TiltedMoments {
        if let Some(found) = self.mellin().real(self.exponent(c)) {
            let exact = c == 0.0;
            return TiltedMoments {
                log_moment: if exact {
                    Approx::exact(0.0)
                } else {
                    Approx::new(found.log, found.error)
                },
                mean: self.direction.sign() * found.mean,
                variance: found.variance,
            };
        }
        let half = 0.25 * self.bins.widest() * c * (c + 1.0) * (1.0 + 1e-14);
        TiltedMoments {
            log_moment: Approx::new(half, half.abs()),
            mean: BEYOND * (1.0 + c),
            variance: 1.0,
        }
    }
}

impl PrivacyLoss for Allocation {
    fn moments(&mut self, c: f64, _log_tolerance: f64) -> TiltedMoments {
        self.moments_at(c)
    }

    fn tilted(&mut self, c: f64, _log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        let moments = self.moments_at(c);
        let (real, transform) = {
            let mut mellin = self.mellin();
            let real = mellin.real(self.exponent(c));
            let transform = if real.is_some() && self.bins.still > 0.0 {
                mellin.transform()
            } else {
                Vec::new()
            };
            (real, transform)
        };
        let line = real.map(|real| TransformLine {
            decay: Decay::new(&self.bins, &transform, (real.exponent.w, real.log - real.error)),
            mellin: &self.mellin,
            real,
        });
        Box::new(TiltedAllocation {
            line,
            moments,
            direction: self.direction,
            reach: 0.0,
        })
    }

    /// An epoch alone is inverted like a run of several.
    fn has_closed_form(&self) -> bool {
        false
    }

    fn truncated(&self, _log_mass: f64) -> (StepLoss, f64) {
        (StepLoss::new(self.clone()), f64::NEG_INFINITY)
    }

    fn density_terms(&self) -> usize {
        1
    }

    fn work(&self) -> u64 {
        self.mellin().work()
    }

    /// The pair of the widest batch: that of an epoch is a mixture of such pairs with the same Q.
    fn widest_distance(&self) -> Option<f64> {
        Some(self.bins.widest().sqrt())
    }
}

/// The loss tilted by e^{cℓ}.
struct TiltedAllocation<'a> {
    /// `None` beyond what is computed.
    line: Option<TransformLine<'a>>,
    moments: TiltedMoments,
    direction: Direction,
    reach: f64,
}

impl TiltedLoss for TiltedAllocation<'_> {
    fn moments(&self) -> TiltedMoments {
        self.moments
    }

    fn size(&self) -> usize {
        self.line.as_ref().map_or(1, |line| line.size(self.reach))
    }

    fn certify(&mut self, reach: f64) {
        self.reach = reach;
    }

    fn quadrature_error(&self) -> f64 {
        if self.line.is_some() { 0.0 } else { 2.0 }
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        self.line.as_ref().map_or(0.0, |line| line.log_decay(y))
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let Some(line) = &self.line else {
            return vec![Approx::new(Complex64::default(), 2.0); last + 1];
        };
        let mut found = line.changes(spacing, last);
        if self.direction == Direction::Remove {
            for change in &mut found {
                change.value = change.value.conj();
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
