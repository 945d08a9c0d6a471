//! What a trade-off function says: (ε, δ), advantage, attack success, the best Gaussian below it.

use crate::error::{Error, Result, require, require_delta, require_epsilon};
use crate::special::normal::quantile;
use crate::special::root::solve_decreasing;
use crate::stopping::checkpoint;
use crate::tradeoff::convex::Bounds;
use crate::tradeoff::curve::TradeoffCurve;

/// Largest ε that is looked for.
const MOST_EPSILON: f64 = 1e15;
/// Supporting lines of the first fit, and of the last.
const LINES: (usize, usize) = (128, 16_384);
/// Largest ε of a supporting line.
const MOST_FITTED: f64 = 600.0;
/// Change of μ that ends the fit.
const FITTED: f64 = 1e-10;

impl TradeoffCurve {
    /// δ with f ≥ f_{ε,δ} at ε ≥ 0: (ε, δ)-differential privacy, in both orders.
    ///
    /// # Errors
    /// ε negative or not finite.
    pub fn delta_of_epsilon(&self, epsilon: f64) -> Result<Bounds> {
        require_epsilon(epsilon)?;
        self.symmetrize()?.delta(epsilon)
    }

    /// The smallest ε ≥ 0 with f ≥ f_{ε,δ}; infinite if there is none.
    ///
    /// # Errors
    /// δ outside (0, 1).
    pub fn epsilon_of_delta(&self, delta: f64) -> Result<Bounds> {
        require_delta(delta)?;
        let curve = self.symmetrize()?;
        if let Some(found) = curve.composed_epsilon(delta) {
            return found;
        }
        if let Some(found) = curve.epsilon_by_power(delta)? {
            return Ok(found);
        }
        let side = |upper: bool| -> Result<f64> {
            let excess = |epsilon: f64| -> Result<f64> {
                let found = curve.delta(epsilon)?;
                let value = if upper { found.upper } else { found.lower };
                Ok(if value > 0.0 {
                    value.ln() - delta.ln()
                } else {
                    f64::NEG_INFINITY
                })
            };
            if excess(0.0)? <= 0.0 {
                return Ok(0.0);
            }
            let lost = curve.delta_at_infinity()?;
            if (if upper { lost.upper } else { lost.lower }) > delta {
                return Ok(f64::INFINITY);
            }
            let (mut low, mut high) = (0.0, 1.0f64);
            while excess(high)? > 0.0 {
                (low, high) = (high, 2.0 * high);
                if high > MOST_EPSILON {
                    return Ok(if upper { f64::INFINITY } else { low });
                }
            }
            solve_decreasing(low, high, 4.0 * f64::EPSILON * high, excess)
        };
        let upper = side(true)?;
        let lower = side(false)?.min(upper);
        Ok(Bounds {
            lower: lower * (1.0 - 8.0 * f64::EPSILON),
            upper: upper * (1.0 + 4.0 * f64::EPSILON),
        })
    }

    /// sup_α 1 − f(α) − α: by how much an attack's hits may exceed its false alarms.
    ///
    /// # Errors
    /// As the curve's.
    pub fn advantage(&self) -> Result<Bounds> {
        self.delta(0.0)
    }

    /// Probability that the best attack tells rightly whether the second hypothesis holds, which it does with probability
    /// π = `prior`: sup_α (1 − π)(1 − α) + π(1 − f(α)) = (1 − π) + π·δ(log((1 − π)/π)); over both orders.
    ///
    /// # Errors
    /// π outside [0, 1].
    pub fn attack_success(&self, prior: f64) -> Result<Bounds> {
        require((0.0..=1.0).contains(&prior), "prior", prior, "in [0, 1]")?;
        if prior == 0.0 || prior == 1.0 {
            return Ok(Bounds::exactly(1.0));
        }
        let delta = self.symmetrize()?.delta((-prior).ln_1p() - prior.ln())?;
        Ok(Bounds {
            lower: ((1.0 - prior) + prior * delta.lower) * (1.0 - 4.0 * f64::EPSILON),
            upper: (((1.0 - prior) + prior * delta.upper) * (1.0 + 4.0 * f64::EPSILON)).min(1.0),
        })
    }

    /// The largest probability on the one data set of an event that has probability p on the other: 1 − f(p), over both
    /// orders (GROUP §6: what poisoning can reach).
    ///
    /// # Errors
    /// p outside [0, 1].
    pub fn worst_case_probability(&self, probability: f64) -> Result<Bounds> {
        require((0.0..=1.0).contains(&probability), "p", probability, "in [0, 1]")?;
        self.symmetrize()?.power(probability)
    }

    /// A μ with f(α) ≥ G_μ(α + κ) − κ for all α, κ = `regret` ≥ 0: the smallest, up to 1e-10 or so.
    ///
    /// A convex curve that is below f's supporting lines at the corners of their envelope is below them everywhere, as it is
    /// below its own chords; so μ is the largest Φ^{-1}(1 − f − κ) − Φ^{-1}(α + κ) at the corners. With κ = 0 the supporting
    /// lines of a curve of unbounded loss do not close the gap at α = 0; there 1 − f(α) nears that of the widest pair behind
    /// the curve, whose μ is the answer.
    ///
    /// # Errors
    /// κ outside [0, 1), or a curve that lies above no G_μ.
    pub fn mu(&self, regret: f64) -> Result<f64> {
        require((0.0..1.0).contains(&regret), "regret", regret, "in [0, 1)")?;
        let widest = self.widest_distance();
        let most_loss = self.most_loss();
        if regret == 0.0 && most_loss.is_infinite() {
            return if widest.is_finite() {
                Ok(widest)
            } else {
                Err(Error::Mismatch(
                    "mu does not exist: no G_mu with a finite mu is below a curve with f(0) < 1; give a regret"
                        .into(),
                ))
            };
        }
        if most_loss == 0.0 {
            return Ok(0.0);
        }
        let curve = self.symmetrize()?;
        let farthest = if regret == 0.0 {
            most_loss
        } else {
            curve.epsilon_of_delta(0.999 * regret)?.upper.min(most_loss)
        };
        require(farthest.is_finite(), "regret", regret, "above 1 - f(0)")?;
        if farthest > MOST_FITTED {
            // e^ε would be out of range.
            return Ok(widest);
        }
        let mut before = f64::INFINITY;
        let mut lines = LINES.0;
        loop {
            let mut corners = Vec::with_capacity(2 * lines);
            let mut last: Option<(f64, f64)> = None;
            for i in 0..=lines {
                let epsilon = farthest * i as f64 / lines as f64;
                checkpoint();
                // At the largest loss δ is 0, whatever rounding leaves of it.
                let ends = i == lines && farthest == most_loss;
                let delta = if ends { 0.0 } else { curve.delta(epsilon)?.upper };
                let line = (epsilon.exp(), delta);
                if let Some((t, delta)) = last {
                    // δ + tα = δ' + t'α
                    let alpha = ((delta - line.1) / (line.0 - t)).max(0.0);
                    corners.push((alpha, delta + t * alpha));
                }
                last = Some(line);
            }
            if let Some((_, delta)) = last {
                corners.push((0.0, delta));
            }
            // The corners' mirror images, (1 − power, 1 − α), ask for the same.
            let largest = corners
                .iter()
                .map(|&(alpha, power)| {
                    let (hits, alarms) =
                        (quantile((power - regret).min(1.0)), quantile((alpha + regret).min(1.0)));
                    let difference = hits.0 - alarms.0 + hits.1 + alarms.1;
                    // No hits ask for nothing.
                    if hits.0 == f64::NEG_INFINITY { 0.0 } else { difference }
                })
                .fold(0.0, f64::max);
            if (before - largest).abs() <= FITTED * largest || lines >= LINES.1 {
                return Ok(largest.min(before).min(widest));
            }
            before = largest.min(before);
            lines *= 2;
        }
    }
}
