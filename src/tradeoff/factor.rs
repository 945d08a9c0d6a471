//! The factors of a tensor product: pairs of laws whose privacy losses the exact engine adds up.

use crate::error::Result;
use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::loss_curve::Atom;
use crate::loss::pairs::StepOutcome;
use crate::special::log_space::log1p_exp;
use crate::step::{Direction, GroupLaw, Step};
use crate::tradeoff::envelope::Envelope;
use crate::tradeoff::lattice::LatticeLaw;
use crate::tradeoff::limits::Limits;
use crate::tradeoff::polygon::Polygon;
use std::sync::Arc;

/// A pair of laws whose trade-off function is a factor of a tensor product.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Factor {
    /// N(0, 1) and N(μ, 1).
    Gaussian {
        /// μ > 0.
        distance: f64,
    },
    /// Laplace noise of scale 1 around 0 and μ.
    Laplace {
        /// μ > 0.
        distance: f64,
    },
    /// The symmetrised subsampled Gaussian, C_p(G_μ): one joined law (PITFALLS Theorem 14).
    SubsampledGaussian {
        /// p in (0, 1).
        rate: f64,
        /// μ > 0.
        distance: f64,
    },
    /// The symmetrised subsampled Laplace curve (PITFALLS Theorem 14).
    SubsampledLaplace {
        /// p in (0, 1).
        rate: f64,
        /// μ > 0.
        distance: f64,
    },
    /// f_{ε,δ}: with probability δ the output reveals the hypothesis, else it is one of two answers with odds e^ε.
    EpsilonDelta {
        /// ε ≥ 0.
        epsilon: f64,
        /// δ in [0, 1].
        delta: f64,
    },
    /// A trade-off function with finitely many edges.
    Polygon(Arc<Polygon>),
    /// A curve by its piecewise linear bounds; the pair is that of a curve nowhere above it ([`crate::tradeoff::lattice`]).
    Envelope(Arc<Envelope>),
    /// N(0, 1) and N(μ_j, 1) with probability w_j, where the adversary sees j.
    Mixture(Arc<PublicMixture>),
    /// A step of the exact engine; `direction` is `None` for replacement.
    Step {
        /// The step.
        step: Box<Step>,
        /// Which ordered pair.
        direction: Option<Direction>,
    },
}

/// A mixture of Gaussian pairs of which the adversary sees the component (SHUFFLE Definition 5.2).
#[derive(Debug, Clone, PartialEq)]
pub struct PublicMixture {
    /// μ_j ≥ 0.
    pub distances: Vec<f64>,
    /// log w_j.
    pub log_weights: Vec<f64>,
    /// Bound on the probability that is not listed, and on absolute errors of the listed.
    pub left_out: f64,
    /// Bound on the relative rounding error of the listed probabilities.
    pub rounding: f64,
    /// Bound on all distances, those that are not listed included.
    pub widest: f64,
}

impl Factor {
    /// The factor with the inverse trade-off function.
    pub(super) fn inverted(&self) -> Self {
        match self {
            Self::Polygon(polygon) => Self::Polygon(Arc::new(polygon.inverted())),
            Self::Envelope(envelope) if !envelope.is_symmetric() => Self::Envelope(Arc::new(envelope.inverted())),
            other => other.clone(),
        }
    }

    /// True if the trade-off function is its own inverse.
    pub(super) fn is_symmetric(&self) -> bool {
        match self {
            Self::Polygon(polygon) => polygon.is_symmetric(),
            Self::Envelope(envelope) => envelope.is_symmetric(),
            _ => true,
        }
    }

    /// The privacy loss; on a lattice of this `gap` for a curve that is known by its bounds.
    ///
    /// # Errors
    /// The errors of [`Step::outcome`].
    pub(super) fn outcome(&self, gap: f64) -> Result<StepOutcome> {
        let loss = match self {
            Self::Gaussian { distance } => StepLoss::shift(*distance),
            Self::Laplace { distance } => {
                let law = GroupLaw::explicit(&[1.0], &[1.0])?;
                StepLoss::new(LaplaceLoss::new(&law, 1.0 / distance, Direction::Remove))
            }
            Self::SubsampledGaussian { rate, distance } => {
                let law = GroupLaw::explicit_log(&[(-rate).ln_1p(), rate.ln()], &[0.0, 1.0])?;
                match StepLoss::replace_fixed_batch(&law, 1.0 / distance)? {
                    Some(loss) => loss,
                    None => return Ok(StepOutcome::Nothing),
                }
            }
            // In units of half the distance.
            Self::SubsampledLaplace { rate, distance } => {
                StepLoss::new(LaplaceLoss::replaced(*rate, 2.0 / distance))
            }
            Self::EpsilonDelta { epsilon, delta } => {
                let log_common = (-delta).ln_1p();
                if *epsilon == 0.0 || *delta == 1.0 {
                    return Ok(StepOutcome::Partly {
                        log_common,
                        offset: 0.0,
                        loss: None,
                    });
                }
                let (likely, unlikely) = (-log1p_exp(-epsilon), -log1p_exp(*epsilon));
                let loss = AtomLoss::new(vec![Atom::new(*epsilon, likely), Atom::new(-epsilon, unlikely)]);
                return Ok(StepOutcome::Partly {
                    log_common,
                    offset: 0.0,
                    loss: Some(StepLoss::new(loss)),
                });
            }
            Self::Polygon(polygon) => return Ok(polygon.outcome()),
            Self::Envelope(envelope) => return Ok(LatticeLaw::new(envelope, gap).outcome()),
            Self::Mixture(mixture) => StepLoss::gaussians(mixture.log_weights.clone(), mixture.distances.clone()),
            Self::Step { step, direction } => return step.outcome(*direction),
        };
        Ok(StepOutcome::Loss(loss))
    }

    /// Simple trade-off functions below the factor's.
    ///
    /// # Errors
    /// The errors of [`Step::outcome`].
    pub(super) fn limits(&self) -> Result<Limits> {
        Ok(match self {
            Self::Gaussian { distance } | Self::SubsampledGaussian { distance, .. } => Limits::gaussian(*distance),
            Self::Laplace { distance } => Limits::pure(*distance),
            Self::SubsampledLaplace { rate, distance } => Limits::pure((rate * distance.exp_m1()).ln_1p()),
            Self::EpsilonDelta { epsilon, delta: 0.0 } => Limits::pure(*epsilon),
            Self::EpsilonDelta { delta, .. } => Limits::singular(*delta),
            Self::Polygon(polygon) => polygon.limits(),
            Self::Mixture(mixture) => Limits::gaussian(mixture.widest),
            Self::Envelope(envelope) => envelope.limits(),
            Self::Step { step, direction } => match step.outcome(*direction)? {
                StepOutcome::Nothing => Limits::NO_INFORMATION,
                StepOutcome::Loss(loss) => match loss.widest_distance() {
                    Some(distance) => Limits::gaussian(distance),
                    None => Limits::pure(loss.max_loss().rounded_up().next_up()),
                },
                StepOutcome::RevealsMembership { log_unseen } => Limits::singular(-log_unseen.exp_m1()),
                StepOutcome::Partly { log_common, .. } => Limits::singular(-log_common.exp_m1()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::privacy_loss::Effort;
    use crate::special::normal::log_upper_tail;

    /// δ of N(0, 1) against N(μ, 1).
    fn gaussian_delta(distance: f64, epsilon: f64) -> f64 {
        let (a, b) = (0.5 * distance, epsilon / distance);
        log_upper_tail(b - a).exp() - (epsilon + log_upper_tail(a + b)).exp()
    }

    /// δ of Laplace noise of scale 1 at distance μ: 1 − e^{(ε − μ)/2}.
    fn laplace_delta(distance: f64, epsilon: f64) -> f64 {
        -(0.5 * (epsilon - distance).min(0.0)).exp_m1()
    }

    /// Subsampling at rate p turns δ(ε) into p·δ(ε'), e^ε' = 1 + (e^ε − 1)/p (Balle, Barthe and Gaboardi 2018, Theorem 8).
    fn subsampled(rate: f64, epsilon: f64, delta: impl Fn(f64) -> f64) -> f64 {
        rate * delta((epsilon.exp_m1() / rate).ln_1p())
    }

    #[test]
    fn losses_have_the_delta_of_their_curves() {
        let (rate, distance) = (0.2, 1.4);
        for epsilon in [0.05, 0.3, 0.9] {
            for (factor, exact) in [
                (Factor::Gaussian { distance }, gaussian_delta(distance, epsilon)),
                (Factor::Laplace { distance }, laplace_delta(distance, epsilon)),
                (
                    Factor::SubsampledGaussian { rate, distance },
                    subsampled(rate, epsilon, |e| gaussian_delta(distance, e)),
                ),
                (
                    Factor::SubsampledLaplace { rate, distance },
                    subsampled(rate, epsilon, |e| laplace_delta(distance, e)),
                ),
            ] {
                let StepOutcome::Loss(loss) = factor.outcome(1.0).unwrap() else {
                    panic!()
                };
                let found = loss.one_step(epsilon, 1e-10, &mut Effort::default());
                assert!(
                    found.lower() <= exact * (1.0 + 1e-11) && exact <= found.upper() * (1.0 + 1e-11),
                    "{factor:?} {epsilon}: {found:?} {exact}"
                );
                assert!(found.upper() - found.lower() < 1e-9, "{factor:?} {epsilon}: {found:?}");
            }
        }
    }

    /// f_{ε,δ} reveals the hypothesis with probability δ; otherwise a coin of odds e^ε is tossed.
    #[test]
    fn an_epsilon_delta_curve_is_a_coin_or_a_revelation() {
        let outcome = |epsilon, delta| Factor::EpsilonDelta { epsilon, delta }.outcome(1.0).unwrap();
        let StepOutcome::Partly {
            log_common,
            loss: Some(coin),
            ..
        } = outcome(0.8, 0.1)
        else {
            panic!()
        };
        assert!((log_common.exp() - 0.9).abs() < 1e-15);
        let atoms: Vec<(f64, f64)> = coin
            .outcomes()
            .unwrap()
            .iter()
            .map(|a| (a.loss, a.log_mass.exp()))
            .collect();
        let likely = 1.0 / (1.0 + (-0.8f64).exp());
        assert_eq!((atoms[0].0, atoms[1].0), (0.8, -0.8));
        assert!((atoms[0].1 - likely).abs() < 1e-15 && (atoms[1].1 - (1.0 - likely)).abs() < 1e-15);
        assert!(matches!(outcome(0.0, 0.1), StepOutcome::Partly { loss: None, .. }));
        assert!(matches!(outcome(0.8, 1.0), StepOutcome::Partly { loss: None, .. }));
    }

    /// The simple curves below a factor have a δ that is at least its own.
    #[test]
    fn limits_are_below_their_factors() {
        let (rate, distance) = (0.2, 1.4);
        for (factor, epsilon) in [
            (Factor::Laplace { distance }, distance),
            (
                Factor::SubsampledLaplace { rate, distance },
                (rate * distance.exp_m1()).ln_1p(),
            ),
            (
                Factor::EpsilonDelta {
                    epsilon: 0.6,
                    delta: 0.0,
                },
                0.6,
            ),
        ] {
            // A pure bound: no loss is larger, and half of it would be below some.
            let largest = factor.limits().unwrap().epsilon;
            assert!((largest - epsilon).abs() < 1e-14, "{factor:?}: {largest}");
        }
        let widest = Factor::SubsampledGaussian { rate, distance }.limits().unwrap().distance;
        assert_eq!(widest, distance);
        for factor in [Factor::Gaussian { distance }, Factor::Laplace { distance }] {
            assert!(factor.is_symmetric() && factor.inverted() == factor);
        }
    }
}
