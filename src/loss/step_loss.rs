//! The privacy loss of one step in one direction, of whatever kind.

use crate::loss::privacy_loss::PrivacyLoss;
use std::ops::{Deref, DerefMut};

/// Privacy loss ℓ = log dP/dQ of one step under P: a [`PrivacyLoss`] of any kind.
///
/// The constructors of a kind stand beside its implementation.
#[derive(Debug)]
pub struct StepLoss(Box<dyn PrivacyLoss>);

impl StepLoss {
    /// The loss of this kind.
    pub fn new(loss: impl PrivacyLoss + 'static) -> Self {
        Self(Box::new(loss))
    }
}

impl Deref for StepLoss {
    type Target = dyn PrivacyLoss;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for StepLoss {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

/// A bound on a loss that is computed to a few units in the last place.
pub(crate) fn rounded_up(loss: f64) -> f64 {
    loss + 8.0 * f64::EPSILON * loss.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_rounded_away_from_below_by_a_few_units() {
        for loss in [1.0, -3.0, 1e-300, 1e300] {
            let bound = rounded_up(loss);
            assert!(
                bound >= loss + 4.0 * f64::EPSILON * loss.abs()
                    && bound <= loss + 16.0 * f64::EPSILON * loss.abs()
            );
        }
        assert_eq!(rounded_up(f64::INFINITY), f64::INFINITY);
    }
}
