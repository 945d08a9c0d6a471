//! Chernoff's bound on the curve of a truncated composition.

use crate::curve::truncated::Truncated;
use crate::interval::Enclosure;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::segment::Total;

/// Tilts, over 1/ε, for bounds where all losses that are kept add up to less than ε: if to half of it, the second is e^−500.
const TILTS_BEYOND: [f64; 3] = [1e2, 1e3, 1e4];
/// log of the factor by which they are below the mass that is truncated, so that it decides.
const LARGEST_BEYOND: f64 = 3.0;

impl Truncated {
    /// Chernoff's bound at the tilt that inversion would use; where there is none, as all losses that are kept add up to less than ε, at tilts at which
    /// it is far below the mass that is truncated.
    pub(crate) fn chernoff(&mut self, epsilon: f64) -> Enclosure {
        let bound = match self.tilt_for(epsilon) {
            Some(c) => self.bound_at(c, epsilon).unwrap_or(Enclosure::TRIVIAL),
            None => self.bound_beyond(epsilon),
        };
        self.evaluators.whole(bound)
    }

    /// Chernoff's bound on δ of the truncated law at a tilt; `None` where it has no moment there.
    fn bound_at(&mut self, c: f64, epsilon: f64) -> Option<Enclosure> {
        let total = Total::at(&mut self.segments, c).filter(|_| c > 0.0)?;
        let log_moment = total.log_moment.upper();
        Some(MomentBound { c, log_moment }.chernoff(epsilon))
    }

    /// Chernoff's bounds at larger and larger tilts, until one is far below the mass that is truncated.
    pub(super) fn bound_beyond(&mut self, epsilon: f64) -> Enclosure {
        let mut found = Enclosure::TRIVIAL;
        if epsilon <= 0.0 {
            return found;
        }
        for factor in TILTS_BEYOND {
            let Some(bound) = self.bound_at(factor / epsilon, epsilon) else {
                break;
            };
            found = found.meet(bound);
            if found.log_upper < self.log_truncated_mass() - LARGEST_BEYOND {
                break;
            }
        }
        found
    }
}
