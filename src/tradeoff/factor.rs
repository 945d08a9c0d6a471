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
    /// Those of [`Step::outcome`].
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
    /// Those of [`Step::outcome`].
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
