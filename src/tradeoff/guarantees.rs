//! Guarantees that a trade-off function implies: (ε, δ), advantage, attack success, probability of an event.

use crate::error::{Result, require, require_delta, require_epsilon};
use crate::interval::Interval;
use crate::special::root::solve_decreasing;
use crate::tradeoff::curve::TradeoffCurve;

/// Largest ε of a search; beyond, ε counts as infinite. It is doubled from 1, so that 50 values of δ lead there.
const MAX_EPSILON: f64 = 1e15;

impl TradeoffCurve {
    /// δ with f ≥ f_{ε,δ} at ε ≥ 0: (ε, δ)-differential privacy, in both orders.
    ///
    /// # Errors
    /// ε negative or not finite.
    pub fn delta_of_epsilon(&self, epsilon: f64) -> Result<Interval> {
        require_epsilon(epsilon)?;
        self.symmetrize()?.delta(epsilon)
    }

    /// The smallest ε ≥ 0 with f ≥ f_{ε,δ}; infinite if there is none.
    ///
    /// # Errors
    /// δ outside (0, 1).
    pub fn epsilon_of_delta(&self, delta: f64) -> Result<Interval> {
        require_delta(delta)?;
        let curve = self.symmetrize()?;
        if let Some(found) = curve.direct_epsilon(delta)? {
            return Ok(found);
        }
        let upper = curve.epsilon_of_bound(delta, true)?;
        let lower = curve.epsilon_of_bound(delta, false)?.min(upper);
        Ok(Interval {
            lower: lower * (1.0 - 8.0 * f64::EPSILON),
            upper: upper * (1.0 + 4.0 * f64::EPSILON),
        })
    }

    /// The smallest ε ≥ 0 at which the upper bound on δ(ε), or the lower one, is at most `delta`.
    fn epsilon_of_bound(&self, delta: f64, is_upper: bool) -> Result<f64> {
        let bound = |found: Interval| if is_upper { found.upper } else { found.lower };
        let excess = |epsilon: f64| -> Result<f64> {
            let value = bound(self.delta(epsilon)?);
            Ok(if value > 0.0 {
                value.ln() - delta.ln()
            } else {
                f64::NEG_INFINITY
            })
        };
        if excess(0.0)? <= 0.0 {
            return Ok(0.0);
        }
        if bound(self.delta_at_infinity()?) > delta {
            return Ok(f64::INFINITY);
        }
        let (mut low, mut high) = (0.0, 1.0f64);
        while excess(high)? > 0.0 {
            (low, high) = (high, 2.0 * high);
            if high > MAX_EPSILON {
                return Ok(if is_upper { f64::INFINITY } else { low });
            }
        }
        solve_decreasing(low, high, 4.0 * f64::EPSILON * high, excess)
    }

    /// sup_α 1 − f(α) − α, the largest difference between the true and the false positive rate of an attack.
    ///
    /// # Errors
    /// As the curve's.
    pub fn advantage(&self) -> Result<Interval> {
        self.delta(0.0)
    }

    /// Probability that the best attack decides correctly which hypothesis holds, where the second does with probability
    /// π = `prior`: sup_α (1 − π)(1 − α) + π(1 − f(α)) = (1 − π) + π·δ(log((1 − π)/π)); over both orders.
    ///
    /// # Errors
    /// π outside [0, 1].
    pub fn attack_success(&self, prior: f64) -> Result<Interval> {
        require((0.0..=1.0).contains(&prior), "prior", prior, "in [0, 1]")?;
        if prior == 0.0 || prior == 1.0 {
            return Ok(Interval::exact(1.0));
        }
        let delta = self.symmetrize()?.delta((-prior).ln_1p() - prior.ln())?;
        Ok(Interval {
            lower: ((1.0 - prior) + prior * delta.lower) * (1.0 - 4.0 * f64::EPSILON),
            upper: (((1.0 - prior) + prior * delta.upper) * (1.0 + 4.0 * f64::EPSILON)).min(1.0),
        })
    }

    /// Largest probability, on one data set, of an event that has probability p on the other: 1 − f(p), over both orders. It bounds
    /// what data poisoning can reach (GROUP §6).
    ///
    /// # Errors
    /// p outside [0, 1].
    pub fn worst_case_probability(&self, probability: f64) -> Result<Interval> {
        require((0.0..=1.0).contains(&probability), "p", probability, "in [0, 1]")?;
        self.symmetrize()?.power(probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_is_the_inverse_of_delta() {
        for curve in [
            TradeoffCurve::laplace(1.5).unwrap(),
            TradeoffCurve::gaussian(1.0).unwrap().subsample(0.2).unwrap(),
            TradeoffCurve::points(&[0.0, 0.1, 0.4, 1.0], &[0.9, 0.5, 0.1, 0.0]).unwrap(),
        ] {
            for delta in [0.11, 0.2, 0.3] {
                let epsilon = curve.epsilon_of_delta(delta).unwrap();
                assert!(epsilon.lower <= epsilon.upper && epsilon.width() < 1e-11, "{epsilon:?}");
                if epsilon.lower > 0.0 {
                    // The upper bound is private enough, the lower one not certainly.
                    assert!(curve.delta_of_epsilon(epsilon.upper).unwrap().lower <= delta);
                    assert!(curve.delta_of_epsilon(epsilon.lower).unwrap().upper >= delta);
                }
            }
        }
        let corners = TradeoffCurve::points(&[0.0, 0.1, 0.4, 1.0], &[0.9, 0.5, 0.1, 0.0]).unwrap();
        assert_eq!(corners.epsilon_of_delta(0.05).unwrap().upper, f64::INFINITY);
    }

    #[test]
    fn attacks_on_randomised_response_succeed_as_often_as_its_answers_are_right() {
        let curve = TradeoffCurve::epsilon_delta(1.0, 0.0).unwrap();
        let likely = 1.0 / (1.0 + (-1f64).exp());
        let found = curve.attack_success(0.5).unwrap();
        assert!(
            found.lower <= likely && likely <= found.upper && found.width() < 1e-13,
            "{found:?}"
        );
        // Above odds of e the prior alone decides.
        assert!((curve.attack_success(0.8).unwrap().middle() - 0.8).abs() < 1e-14);
        let advantage = curve.advantage().unwrap();
        assert!((advantage.middle() - (2.0 * likely - 1.0)).abs() < 1e-14);
        let worst = curve.worst_case_probability(0.1).unwrap();
        assert!((worst.middle() - 0.1 * 1f64.exp()).abs() < 1e-14);
    }
}
