//! Pairs with Laplace noise, and their loss as every engine asks for it.

use crate::error::Result;
use crate::interval::Enclosure;
use crate::loss::clusters::Cluster;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::laplace_curve::LaplaceCurve;
use crate::loss::laplace_decay::TiltedLaplace;
use crate::loss::loss_curve::Atom;
use crate::loss::loss_curve::{LossCurve, Support, Sweep};
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::{Effort, PrivacyLoss, StepLoss, TiltedLoss, TiltedMoments};
use crate::step::{Direction, GroupLaw};

impl StepLoss {
    /// One-dimensional Laplace noise of scale b; the shifts of `law` are whole.
    pub fn laplace(law: &GroupLaw, scale: f64, direction: Direction) -> Option<Self> {
        (law.shifts() != [0.0]).then(|| Self::new(LaplaceLoss::new(law, scale, direction)))
    }

    /// Laplace noise where records are replaced in a Poisson sample (`docs/theory/dominating-pairs.md`, Theorem 7); the shifts of `law`
    /// are whole.
    pub fn mirrored_laplace(law: &GroupLaw, scale: f64) -> Result<Option<Self>> {
        Ok(match law.shifts() {
            [0.0] => None,
            // In every batch: twice as far apart.
            [shift] => Self::laplace(&GroupLaw::explicit(&[1.0], &[2.0 * shift])?, scale, Direction::Remove),
            _ => Some(Self::new(LaplaceLoss::mirrored(law, scale))),
        })
    }

    /// Laplace noise where one record is replaced in a fixed batch (PITFALLS Theorem 14); b in units of half the distance of
    /// the two answers (the norm, for one record).
    pub fn replaced_laplace(law: &GroupLaw, scale: f64) -> Option<Self> {
        let log_unseen = law.log_probability_of_zero();
        let seen = -log_unseen.exp_m1();
        if seen == 0.0 {
            None
        } else if log_unseen == f64::NEG_INFINITY {
            Self::laplace(law, scale, Direction::Remove)
        } else {
            Some(Self::new(LaplaceLoss::replaced_or_not((seen, log_unseen), scale)))
        }
    }
}

impl PrivacyLoss for LaplaceLoss {
    fn moments(&mut self, c: f64, _: f64) -> TiltedMoments {
        self.nodes(c, 0.0).moments()
    }

    fn estimated_moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        self.estimate(c).unwrap_or_else(|| self.moments(c, log_tolerance))
    }

    fn tilted(&mut self, c: f64, log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        Box::new(TiltedLaplace::new(self, c, log_tolerance))
    }

    fn support(&mut self, _: f64, _: f64) -> Support<'_> {
        let loss = &*self;
        let sweeps = loss.all_pieces().into_iter().map(|(_, branch, piece)| {
            let curve = LaplaceCurve {
                loss,
                direction: branch.direction,
                piece,
            };
            let (start, end) = curve.ends();
            Sweep {
                curve: Box::new(curve) as Box<dyn LossCurve>,
                start,
                end,
            }
        });
        Support {
            sweeps: sweeps.collect(),
            atoms: loss.atoms().to_vec(),
            fine: None,
            outside: 0.0,
        }
    }

    fn one_step(&self, epsilon: f64, _: f64, _: &mut Effort) -> Enclosure {
        self.enclosure_of_one_step(epsilon)
    }

    fn truncated(&self, log_mass: f64, _steps: f64) -> (StepLoss, f64) {
        let (loss, log_left_out) = self
            .without_rare(log_mass)
            .unwrap_or_else(|| (self.clone(), f64::NEG_INFINITY));
        (StepLoss::new(loss), log_left_out)
    }

    fn density_terms(&self) -> usize {
        1
    }

    fn work(&self) -> u64 {
        self.work
    }

    /// Without sampling it is k/b, which may be a number or not.
    fn max_loss(&self) -> MaxLoss {
        self.max_loss
    }

    fn log_mass_of_max_loss(&self) -> f64 {
        let rounding =
            |log_mass: f64| self.atom_error() + self.log_factor().error + 4.0 * f64::EPSILON * log_mass.abs();
        let below = |atom: &Atom| atom.log_mass - rounding(atom.log_mass);
        self.atoms.last().map_or(f64::NEG_INFINITY, below)
    }

    fn log_mass_above(&self, level: f64) -> f64 {
        self.log_tail(level)
    }

    fn clusters(&self, width: f64) -> Option<Vec<Cluster>> {
        Some(self.clusters_within(width))
    }

    fn atom_gap(&self) -> Option<f64> {
        let [first, second, ..] = self.atoms.as_slice() else {
            return None;
        };
        Some(second.loss - first.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All outputs beyond the shift have the largest loss: half of the mass where the record is always there. With rate q, P has
    /// q/2 + (1 − q)e^{−1/b}/2 there.
    #[test]
    fn the_mass_of_the_largest_loss_is_bounded_from_below() {
        for (rate, scale) in [(1.0, 0.5), (0.2, 1.0), (1e-3, 3.0)] {
            let law = GroupLaw::binomial(1, rate).unwrap();
            let loss = StepLoss::laplace(&law, scale, Direction::Remove).unwrap();
            let exact: f64 = 0.5 * rate + 0.5 * (1.0 - rate) * (-1.0 / scale).exp();
            let (found, largest) = (loss.log_mass_of_max_loss(), exact.ln());
            assert!(
                found <= largest && found > largest - 1e-13,
                "{rate} {scale}: {found} {largest}"
            );
        }
    }

    /// A replaced record is in the batch with the probability γ, and moves the sum by two: both pairs of Theorem 14 have one loss at 0.
    #[test]
    fn replaced_records_have_the_loss_of_their_pair() {
        let law = GroupLaw::hypergeometric(1, 20, 100).unwrap();
        let loss = StepLoss::replaced_laplace(&law, 2.0).unwrap();
        // Removed: 1 − γ + γe^{2/b} in units in which the shift is 2, that is b in units of the norm.
        let exact = (0.8 + 0.2 * f64::exp(1.0)).ln().max((0.8 + 0.2 * f64::exp(0.5)).ln());
        assert!(
            loss.max_loss().rounded_up() <= exact * (1.0 + 1e-12),
            "{:?}",
            loss.max_loss()
        );
    }
}
