//! Rényi divergences of the dominating pairs of replaced records, from the moments of their privacy loss.
//!
//! The pair of a Poisson sample is a mixture against its mirror image, and that of a fixed batch is joined from two halves
//! (`docs/theory/dominating-pairs.md`): neither is a power of one ratio, as those of added and removed records are.

use crate::error::Result;
use crate::loss::StepLoss;
use crate::loss::pairs::StepOutcome;
use crate::renyi::divergence::{ConstantPair, Divergence, ExactPair};
use crate::step::{Direction, Step};
use crate::stopping::checkpoint;

/// log of the part of a moment that quadrature may leave out.
const LOG_TOLERANCE: f64 = -34.0;
/// Smallest α − 1 at which the moment is asked for. Its absolute error, 1e-13 or so, is divided by α − 1; divergences grow with the order, so
/// that the one here bounds those below, from which it differs by less than a part in a hundred in ordinary steps.
const MIN_EXCESS: f64 = 1e-3;

/// The pair of a step whose records are replaced, D_α(P‖Q) = log E_P[e^{(α−1)ℓ}]/(α − 1).
#[derive(Debug)]
struct ReplacedPair(StepLoss);

/// The pair of `step`, the same for both orders of the data sets.
///
/// # Errors
/// A combination without a pair in `docs/theory/dominating-pairs.md`.
pub(super) fn replaced_pair(step: &Step) -> Result<Box<dyn ExactPair>> {
    Ok(match step.outcome(None)? {
        StepOutcome::Nothing => Box::new(ConstantPair(0.0)),
        StepOutcome::Loss(loss) => Box::new(ReplacedPair(loss)),
        StepOutcome::Partly { .. } | StepOutcome::RevealsMembership { .. } => {
            Box::new(ConstantPair(f64::INFINITY))
        }
    })
}

impl ExactPair for ReplacedPair {
    fn of_order(&mut self, order: f64, _: Direction) -> Result<Divergence> {
        checkpoint();
        let excess = (order - 1.0).max(MIN_EXCESS);
        let moment = self.0.moments(excess, LOG_TOLERANCE).log_moment;
        let upper = moment.upper().max(0.0) / excess * (1.0 + 4.0 * f64::EPSILON);
        // NaN: beyond the range of an f64.
        let upper = if upper >= 0.0 { upper } else { f64::INFINITY };
        Ok(Divergence {
            value: (moment.value.max(0.0) / excess).min(upper),
            upper,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Group, Mechanism, Sampling};

    /// log(∫ P^α Q^{1−α})/(α − 1) of Σ_j w_j N(j, σ²) against its mirror image, by the trapezoidal rule, which is exact to rounding here.
    fn by_definition(law: &[f64], sigma: f64, order: f64) -> f64 {
        let density = |x: f64| -> f64 {
            let terms = law.iter().enumerate();
            let scale = sigma * (2.0 * std::f64::consts::PI).sqrt();
            terms
                .map(|(j, weight)| weight * (-0.5 * ((x - j as f64) / sigma).powi(2)).exp() / scale)
                .sum()
        };
        let width = sigma / 64.0;
        let reach = 20.0 * sigma + order * law.len() as f64 * 2.0;
        let last = (reach / width) as i64;
        let sum: f64 = (-last..=last)
            .map(|i| {
                let x = i as f64 * width;
                let (p, q) = (density(x), density(-x));
                if p.min(q) > 0.0 {
                    (order * p.ln() + (1.0 - order) * q.ln()).exp()
                } else {
                    0.0
                }
            })
            .sum();
        (sum * width).ln() / (order - 1.0)
    }

    #[test]
    fn the_divergence_is_the_integral_of_its_definition() {
        let law = [
            0.75f64.powi(3),
            3.0 * 0.25 * 0.5625,
            3.0 * 0.0625 * 0.75,
            0.25f64.powi(3),
        ];
        for (sigma, order) in [(3.0, 2.0), (6.0, 3.5), (8.0, 1.25), (20.0, 12.0)] {
            let step = Step::poisson(
                Mechanism::Gaussian {
                    noise_multiplier: sigma,
                },
                0.25,
                3,
            );
            let exact = by_definition(&law, sigma, order);
            let found = replaced_pair(&step).unwrap().of_order(order, Direction::Add).unwrap();
            assert!(
                (found.value / exact - 1.0).abs() < 1e-10 && found.upper >= exact * (1.0 - 1e-11),
                "{sigma} {order}: {found:?} {exact}"
            );
            assert!(
                found.upper <= exact * (1.0 + 1e-8),
                "{sigma} {order}: {found:?} {exact}"
            );
        }
    }

    #[test]
    fn orders_next_to_1_are_bounded_by_those_above() {
        let sampling = Sampling::FixedBatch {
            batch_size: 10,
            dataset_size: 100,
        };
        let step = Step {
            mechanism: Mechanism::Gaussian { noise_multiplier: 4.0 },
            sampling,
            group: Group::of(1),
        };
        let mut pair = replaced_pair(&step).unwrap();
        let above = pair.of_order(1.002, Direction::Add).unwrap();
        for order in [1.0 + f64::EPSILON, 1.0 + 1e-9, 1.0005] {
            let found = pair.of_order(order, Direction::Add).unwrap();
            assert!(
                found.upper <= above.upper && found.upper > 0.98 * above.value,
                "{order}: {found:?}"
            );
        }
    }
}
