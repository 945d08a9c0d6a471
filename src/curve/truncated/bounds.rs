//! Chernoff's bound on the curve of a truncated composition.

use crate::curve::truncated::Truncated;
use crate::interval::Enclosure;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::segment::Total;

/// Tilts, times 1/ε, of Chernoff's bounds where the losses that are kept add up to s < ε at most: at c = a/ε the bound is about e^{−a(1 − s/ε)}, far below
/// any mass that an `f64` has for the last one unless s is within a tenth of ε.
const TILTS_BEYOND: [f64; 3] = [1e2, 1e3, 1e4];
/// Once the bound is below the truncated mass by e to this power, it adds 5 % to it at most, and no further tilt is tried.
const LOG_SMALL: f64 = 3.0;

impl Truncated {
    /// Chernoff's bound on δ of the whole law. It is taken at the tilt that inversion would use; where there is none, as the losses that are kept add up to
    /// less than ε, at large tilts, so that little but the truncated mass is left.
    pub(crate) fn chernoff(&mut self, epsilon: f64) -> Enclosure {
        let bound = match self.tilt_for(epsilon) {
            Some(c) => self
                .moment_at(c)
                .map_or(Enclosure::TRIVIAL, |bound| bound.chernoff(epsilon)),
            None => self.bound_beyond(epsilon),
        };
        self.evaluators.whole(bound)
    }

    /// The saddle point of ε above 0.
    pub(in crate::curve) fn saddle(&mut self, epsilon: f64) -> Option<f64> {
        self.tilt_for(epsilon).filter(|c| *c > 0.0)
    }

    /// A bound on the moment of the truncated law at a tilt; `None` where it has none there.
    pub(in crate::curve) fn moment_at(&mut self, c: f64) -> Option<MomentBound> {
        let total = Total::at(&mut self.segments, c).filter(|_| c > 0.0)?;
        let log_moment = total.log_moment.upper();
        Some(MomentBound { c, log_moment })
    }

    /// Chernoff's bounds at larger and larger tilts, until one is far below the mass that is truncated.
    pub(super) fn bound_beyond(&mut self, epsilon: f64) -> Enclosure {
        let mut found = Enclosure::TRIVIAL;
        if epsilon <= 0.0 {
            return found;
        }
        for factor in TILTS_BEYOND {
            let Some(bound) = self.moment_at(factor / epsilon) else {
                break;
            };
            let bound = bound.chernoff(epsilon);
            found = found.meet(bound);
            if found.log_upper < self.log_truncated_mass() - LOG_SMALL {
                break;
            }
        }
        found
    }
}
