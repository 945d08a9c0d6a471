//! The values of trade-off functions: power, type II error and δ of an expression, from those of its parts.

use crate::curve::one_step;
use crate::error::{Result, require};
use crate::interval::Interval;
use crate::loss::StepLoss;
use crate::special::normal::log_upper_tail;
use crate::stopping::checkpoint;
use crate::tradeoff::closed_forms::{
    delta_of_pair, distance_of_pure, gaussian_tail, laplace_delta, laplace_power, mirrored,
};
use crate::tradeoff::conjugate::{self, MAX_EPSILON, MIN_ALPHA};
use crate::tradeoff::curve::{Node, TradeoffCurve};
use crate::tradeoff::subsampling::{subsampled_delta, subsampled_power};

/// Largest μ at which the fixed point Φ(−μ/2) of a Gaussian curve is a normal number.
const MAX_FIXED_POINT_DISTANCE: f64 = 60.0;
/// Width of δ that is good enough when bounds stand in for a curve: absolute, and relative to δ or ε. Wider values are computed from the
/// curve itself.
const ENVELOPE_WIDTH: (f64, f64) = (4e-8, 1e-4);

impl TradeoffCurve {
    /// 1 − f(α): the power of the most powerful test with the false positive rate α.
    ///
    /// # Errors
    /// α outside [0, 1].
    pub fn power(&self, alpha: f64) -> Result<Interval> {
        require((0.0..=1.0).contains(&alpha), "alpha", alpha, "in [0, 1]")?;
        let found = match &*self.0 {
            Node::Gaussian { distance } => gaussian_tail(*distance, alpha, true),
            Node::Laplace { distance, nearest } => Interval {
                lower: laplace_power(*nearest, alpha) * (1.0 - 1e-15),
                upper: laplace_power(*distance, alpha) * (1.0 + 1e-15),
            },
            Node::EpsilonDelta { epsilon, delta } => {
                let steep = delta + epsilon.exp() * alpha;
                let flat = -(-epsilon).exp_m1() + (-epsilon).exp() * (delta + alpha);
                Interval::around(steep.min(flat).min(1.0), 1e-15)
            }
            Node::Polygon(polygon) => polygon.power(alpha),
            Node::Split(bound) => bound.power(alpha),
            Node::Envelope(envelope) => envelope.power(alpha),
            Node::Group { size, of, .. } => {
                let (mut lower, mut upper) = (alpha, alpha);
                for _ in 0..*size {
                    let same = lower == upper;
                    let above = of.power(upper)?;
                    lower = if same { above.lower } else { of.power(lower)?.lower };
                    upper = above.upper;
                    lower = lower.clamp(0.0, 1.0);
                    upper = upper.clamp(0.0, 1.0);
                }
                Interval { lower, upper }
            }
            Node::Maximum(a, b) => a.power(alpha)?.min(b.power(alpha)?),
            Node::Subsampled { rate, of } => match of.fixed_point() {
                Some(x) => subsampled_power(|alpha| of.power(alpha), x, *rate, alpha)?,
                None => self.power_by_delta(alpha)?,
            },
            Node::Composed(_) | Node::Minimum(..) => self.power_by_delta(alpha)?,
        };
        // f is at most 1 − α.
        Ok(found.within(alpha, 1.0))
    }

    /// f(α): the smallest type II error of a test with the false positive rate α.
    ///
    /// # Errors
    /// α outside [0, 1].
    pub fn beta(&self, alpha: f64) -> Result<Interval> {
        if let Node::Gaussian { distance } = &*self.0 {
            require((0.0..=1.0).contains(&alpha), "alpha", alpha, "in [0, 1]")?;
            return Ok(gaussian_tail(*distance, alpha, false).within(0.0, 1.0 - alpha));
        }
        let power = self.power(alpha)?;
        Ok(Interval {
            lower: (1.0 - power.upper) - f64::EPSILON,
            upper: (1.0 - power.lower) + f64::EPSILON,
        }
        .within(0.0, 1.0 - alpha))
    }

    /// δ(ε) = sup_α 1 − f(α) − e^ε α for any real ε: δ of the pair in one order.
    ///
    /// # Errors
    /// ε not finite.
    pub fn delta(&self, epsilon: f64) -> Result<Interval> {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
        let found = match &*self.0 {
            Node::Gaussian { distance: 0.0 } => Interval::around(-epsilon.min(0.0).exp_m1(), 1e-15),
            Node::Gaussian { distance } => {
                // For ε < 0 the closed form would cancel.
                let found = one_step::delta(&StepLoss::shift(*distance), epsilon.abs());
                mirrored(epsilon, found.into())
            }
            Node::Laplace { distance, nearest } => Interval {
                lower: laplace_delta(*nearest, epsilon) * (1.0 - 1e-15),
                upper: laplace_delta(*distance, epsilon) * (1.0 + 1e-15),
            },
            Node::EpsilonDelta { epsilon: bound, delta } => delta_of_pair(*bound, *delta, epsilon),
            Node::Polygon(polygon) => polygon.delta(epsilon.exp()),
            Node::Split(bound) => mirrored(epsilon, bound.delta(epsilon.abs())),
            Node::Composed(composed) => composed.delta(epsilon)?,
            Node::Envelope(envelope) => envelope.delta(epsilon),
            Node::Subsampled { rate, of } => {
                let larger = |epsilon: f64| of.larger_delta(epsilon);
                subsampled_delta(larger, of.is_symmetric(), *rate, epsilon)?
            }
            Node::Minimum(a, b) => a.delta(epsilon)?.max(b.delta(epsilon)?),
            Node::Group { .. } | Node::Maximum(..) => self.delta_by_power(epsilon)?,
        };
        Ok(found.within((-epsilon.exp_m1()).max(0.0) * (1.0 - 4.0 * f64::EPSILON), 1.0))
    }

    /// 1 − f(0), the limit of δ(ε) for large ε.
    ///
    /// # Errors
    /// As those of the factors of a composition.
    pub fn delta_at_infinity(&self) -> Result<Interval> {
        Ok(match &*self.0 {
            Node::Gaussian { .. } | Node::Laplace { .. } => Interval::exact(0.0),
            Node::EpsilonDelta { delta, .. } => Interval::exact(*delta),
            Node::Polygon(polygon) => polygon.power(0.0),
            Node::Split(bound) => Interval::exact(if bound.is_upper { 0.0 } else { bound.tail }),
            Node::Composed(composed) => composed.delta_at_infinity(),
            Node::Envelope(envelope) => envelope.power(0.0),
            Node::Subsampled { rate, of } => {
                let found = of.symmetrize()?.delta_at_infinity()?;
                Interval {
                    lower: rate * found.lower * (1.0 - 4.0 * f64::EPSILON),
                    upper: rate * found.upper * (1.0 + 4.0 * f64::EPSILON),
                }
            }
            Node::Group { .. } => self.power(0.0)?,
            Node::Minimum(a, b) => a.delta_at_infinity()?.max(b.delta_at_infinity()?),
            Node::Maximum(a, b) => a.delta_at_infinity()?.min(b.delta_at_infinity()?),
        })
    }

    /// Upper bound on the largest |loss|: an ε with f ≥ f_{ε,0}, infinite if there is none.
    pub fn max_loss(&self) -> f64 {
        match &*self.0 {
            Node::Gaussian { distance: 0.0 } => 0.0,
            Node::Gaussian { .. } | Node::Split(_) => f64::INFINITY,
            Node::Laplace { distance, .. } => *distance,
            Node::EpsilonDelta { epsilon, delta: 0.0 } => *epsilon,
            Node::EpsilonDelta { .. } => f64::INFINITY,
            Node::Polygon(polygon) => polygon.limits().epsilon,
            Node::Composed(composed) => composed.limits().epsilon,
            Node::Envelope(envelope) => envelope.limits().epsilon,
            Node::Subsampled { rate, of } => (rate * of.max_loss().exp_m1()).ln_1p() * (1.0 + 1e-14),
            Node::Group { size, of, .. } => (*size as f64 * of.max_loss()).next_up(),
            Node::Minimum(a, b) => a.max_loss().max(b.max_loss()),
            Node::Maximum(a, b) => a.max_loss().min(b.max_loss()),
        }
    }

    /// Upper bound on the smallest μ with f ≥ G_μ, infinite if none is known: that of the farthest pair of the expression.
    pub fn widest_distance(&self) -> f64 {
        match &*self.0 {
            Node::Gaussian { distance } => *distance,
            Node::Split(bound) if bound.is_upper || bound.tail == 0.0 => bound.distance,
            Node::Composed(composed) => composed.limits().distance,
            Node::Envelope(envelope) => envelope.limits().distance,
            Node::Subsampled { of, .. } => of.widest_distance(),
            Node::Group { size, of, .. } => (*size as f64 * of.widest_distance()).next_up(),
            Node::Minimum(a, b) => a.widest_distance().max(b.widest_distance()),
            Node::Maximum(a, b) => a.widest_distance().min(b.widest_distance()),
            _ => distance_of_pure(self.max_loss()),
        }
    }

    /// The larger of δ(ε) and of that of the inverse.
    fn larger_delta(&self, epsilon: f64) -> Result<Interval> {
        let found = self.delta(epsilon)?;
        if self.is_symmetric() {
            return Ok(found);
        }
        Ok(found.max(self.inverse()?.delta(epsilon)?))
    }

    /// α with f(α) = α and f'(α) = −1 there, where a closed form is known.
    pub(crate) fn fixed_point(&self) -> Option<f64> {
        match &*self.0 {
            Node::Gaussian { distance } if *distance < MAX_FIXED_POINT_DISTANCE => {
                Some(log_upper_tail(0.5 * distance).exp())
            }
            Node::Laplace { distance, .. } => Some(0.5 * (-0.5 * distance).exp()),
            _ => None,
        }
    }

    /// The smallest ε ≥ 0 with f ≥ f_{ε,δ} where that is computed without a search over δ(ε): by the engine of a composition, or by
    /// one search over α. `None` for other curves.
    ///
    /// # Errors
    /// The errors of the power, and of the engine.
    pub(crate) fn direct_epsilon(&self, delta: f64) -> Result<Option<Interval>> {
        checkpoint();
        match &*self.0 {
            Node::Composed(composed) if composed.is_symmetric() => composed.epsilon(delta).transpose(),
            Node::Group { .. } | Node::Maximum(..) => {
                if let Some(bounds) = self.enveloped_group()?
                    && let Some(found) = bounds.direct_epsilon(delta)?
                    && found.width() <= ENVELOPE_WIDTH.1 * found.upper
                {
                    return Ok(Some(found));
                }
                conjugate::epsilon_by_power(delta, |alpha| self.power(alpha)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// 1 − f(α) of a curve that is known by δ.
    fn power_by_delta(&self, alpha: f64) -> Result<Interval> {
        checkpoint();
        if alpha == 0.0 {
            return self.delta_at_infinity();
        }
        if alpha == 1.0 {
            return Ok(Interval::exact(1.0));
        }
        let found = conjugate::power_by_delta(alpha.max(MIN_ALPHA), |epsilon| self.delta(epsilon))?;
        if alpha < MIN_ALPHA {
            // The power grows with α.
            return Ok(Interval {
                lower: self.delta_at_infinity()?.lower,
                upper: found.upper,
            });
        }
        Ok(found)
    }

    /// δ(ε) of a curve that is known by its power.
    fn delta_by_power(&self, epsilon: f64) -> Result<Interval> {
        checkpoint();
        if epsilon > MAX_EPSILON {
            // δ falls with ε.
            return Ok(Interval {
                lower: self.delta_at_infinity()?.lower,
                upper: self.delta_by_power(MAX_EPSILON)?.upper,
            });
        }
        if let Some(bounds) = self.enveloped_group()? {
            let found = bounds.delta_by_power(epsilon)?;
            if found.width() <= ENVELOPE_WIDTH.0.min(ENVELOPE_WIDTH.1 * found.upper) {
                return Ok(found);
            }
        }
        conjugate::delta_by_power(epsilon, |alpha| self.power(alpha))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves() -> Vec<TradeoffCurve> {
        let corners = TradeoffCurve::points(&[0.0, 0.1, 0.4, 1.0], &[0.9, 0.5, 0.1, 0.0]).unwrap();
        let (gaussian, laplace) = (
            TradeoffCurve::gaussian(1.0).unwrap(),
            TradeoffCurve::laplace(1.2).unwrap(),
        );
        let response = TradeoffCurve::epsilon_delta(0.8, 0.02).unwrap();
        vec![
            gaussian.subsample(0.3).unwrap(),
            corners.subsample(0.3).unwrap(),
            response.subsample(0.4).unwrap(),
            response.group(3).unwrap(),
            corners.group(2).unwrap(),
            corners.minimum(&laplace),
            corners.maximum(&laplace),
            corners,
            gaussian,
            laplace,
            response,
        ]
    }

    /// Young's inequality F(α) ≤ δ(ε) + e^ε α, with equality for the best α: the sides are computed by different routes.
    #[test]
    fn power_and_delta_of_every_expression_are_conjugates() {
        let alphas: Vec<f64> = (0..=2000).map(|i| (f64::from(i) / 2000.0).powi(2)).collect();
        for curve in curves() {
            let powers: Vec<Interval> = alphas.iter().map(|&alpha| curve.power(alpha).unwrap()).collect();
            for epsilon in [-1.0f64, -0.2, 0.0, 0.3, 0.79, 1.1, 2.5] {
                let delta = curve.delta(epsilon).unwrap();
                let values = alphas
                    .iter()
                    .zip(&powers)
                    .map(|(alpha, power)| power.middle() - epsilon.exp() * alpha);
                let supremum = values.fold(0.0, f64::max);
                assert!(
                    supremum <= delta.upper + 1e-9,
                    "{curve:?} {epsilon} {supremum} {delta:?}"
                );
                assert!(
                    delta.lower <= supremum + 2e-3,
                    "{curve:?} {epsilon} {supremum} {delta:?}"
                );
                assert!(delta.width() < 1e-8, "{curve:?} {delta:?}");
            }
        }
    }

    #[test]
    fn inverses_undo_the_curve() {
        for curve in curves() {
            let inverse = curve.inverse().unwrap();
            for alpha in [0.02, 0.2, 0.5] {
                let beta = curve.beta(alpha).unwrap();
                if beta.lower > 0.01 {
                    let back = inverse.beta(beta.lower).unwrap();
                    assert!(
                        back.lower <= alpha + 1e-7 && back.upper >= alpha - 1e-7,
                        "{curve:?} {alpha} {back:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn groups_are_iterates_of_the_power() {
        let curve = TradeoffCurve::epsilon_delta(0.8, 0.02).unwrap();
        let group = curve.group(3).unwrap();
        for alpha in [0.0, 0.01, 0.1, 0.4] {
            let once = |alpha: f64| curve.power(alpha).unwrap().middle();
            let found = group.power(alpha).unwrap();
            assert!(
                (found.middle() - once(once(once(alpha)))).abs() < 1e-14,
                "{alpha} {found:?}"
            );
        }
        assert!((group.delta_at_infinity().unwrap().middle() - group.power(0.0).unwrap().middle()).abs() < 1e-15);
        assert_eq!(group.max_loss(), f64::INFINITY);
    }

    #[test]
    fn limits_of_expressions_are_below_the_curve() {
        for curve in curves() {
            let (loss, distance) = (curve.max_loss(), curve.widest_distance());
            if loss.is_finite() {
                assert!(curve.delta(loss + 1e-9).unwrap().upper < 1e-8, "{curve:?} {loss}");
            }
            if distance.is_finite() {
                let gaussian = TradeoffCurve::gaussian(distance).unwrap();
                for alpha in [1e-6, 0.01, 0.3, 0.7] {
                    assert!(
                        gaussian.beta(alpha).unwrap().lower <= curve.beta(alpha).unwrap().upper,
                        "{curve:?}"
                    );
                }
            }
        }
    }
}
