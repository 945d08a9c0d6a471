//! Bounds on the loss of an epoch with so little noise that likelihood ratios have too wide a range for a lattice.

use super::extremes::Extremes;
use super::unknown::Unknown;
use crate::error::Result;
use crate::interval::Enclosure;
use crate::loss::StepLoss;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::{Effort, PrivacyLoss, TiltedLoss, TiltedMoments};
use crate::special::log_space::log_add;
use crate::step::{Direction, GroupLaw};

/// An epoch of which the largest loss is known, and an upper bound on δ: if everybody sees which batch the record is in, it is at least as large,
/// by joint convexity (Lemma 1 of `docs/theory/dominating-pairs.md`).
#[derive(Debug, Clone)]
pub(super) struct LittleNoise {
    extremes: Extremes,
    /// The loss of one batch that the record is known to be in.
    published: LaplaceLoss,
}

impl LittleNoise {
    /// An epoch of so many batches, released and all.
    ///
    /// # Errors
    /// None: the law of one record that is always there is one.
    pub(super) fn new(scale: f64, numbers: (u64, u64), direction: Direction) -> Result<Self> {
        Ok(Self {
            extremes: Extremes::new(scale, numbers, direction),
            published: LaplaceLoss::new(&GroupLaw::binomial(1, 1.0)?, scale, direction),
        })
    }
}

impl PrivacyLoss for LittleNoise {
    fn moments(&mut self, c: f64, _: f64) -> TiltedMoments {
        self.extremes.crude_moments(c)
    }

    fn tilted(&mut self, c: f64, _: f64) -> Box<dyn TiltedLoss + '_> {
        Box::new(Unknown(self.extremes.crude_moments(c)))
    }

    /// With the probability of a batch that is released δ is at most that of the published one, and otherwise (1 − e^ε)₊.
    fn one_step(&self, epsilon: f64, width: f64, effort: &mut Effort) -> Enclosure {
        if self.max_loss().above(epsilon) <= 0.0 {
            return Enclosure::ZERO;
        }
        let (seen, unseen) = self.extremes.parts();
        let published = self.published.one_step(epsilon, width, effort).log_upper;
        let nothing = (-epsilon.min(0.0).exp_m1()).ln();
        let upper = log_add(seen.ln() + published, unseen.ln() + nothing);
        if upper == f64::NEG_INFINITY {
            return Enclosure::ZERO;
        }
        let rounding = 8.0 * f64::EPSILON * (1.0 + upper.abs() + seen.ln().abs() + published.abs());
        Enclosure::of_logs(f64::NEG_INFINITY, (upper + rounding).min(0.0))
    }

    fn truncated(&self, _: f64, _steps: f64) -> (StepLoss, f64) {
        (StepLoss::new(self.clone()), f64::NEG_INFINITY)
    }

    fn density_terms(&self) -> usize {
        0
    }

    fn has_transform(&self) -> bool {
        false
    }

    fn max_loss(&self) -> MaxLoss {
        self.extremes.max_loss()
    }

    fn log_mass_of_max_loss(&self) -> f64 {
        self.extremes.log_mass_of_max_loss()
    }
}
