//! One side of a curve from the other: minima of convex functions.

use crate::error::Result;
use crate::special::normal::quantile;
use crate::stopping::checkpoint;
use crate::tradeoff::convex::{Bounds, minimum};
use crate::tradeoff::curve::{Node, TradeoffCurve};

/// log of the smallest α and of the largest e^ε that conjugates are searched over.
const LOG_RANGE: f64 = 700.0;
/// ε beyond which a curve that is known by its power is not looked at.
const FARTHEST: f64 = 650.0;
/// Below this α the power is that at it: e^ε would be out of range.
const LEAST_ALPHA: f64 = 1e-290;

/// What is known from points is used where δ has this width at most, and δ or ε that relative to it.
const TIGHT: (f64, f64) = (4e-8, 1e-4);

impl TradeoffCurve {
    /// ε at δ in (0, 1) by the engine of a composition; `None` for other curves.
    pub(crate) fn composed_epsilon(&self, delta: f64) -> Option<Result<Bounds>> {
        checkpoint();
        match &*self.0 {
            Node::Composed(composed) if composed.is_symmetric() => composed.epsilon(delta),
            _ => None,
        }
    }

    /// ε at δ in (0, 1) of a curve that is known by its power, `None` for others: e^ε = sup_α (1 − f(α) − δ)/α, in one search.
    ///
    /// With x = 1/α that is the supremum of x(1 − f(1/x)) − δx, concave as the perspective of a concave function is.
    ///
    /// # Errors
    /// As those of the power.
    pub(crate) fn epsilon_by_power(&self, delta: f64) -> Result<Option<Bounds>> {
        checkpoint();
        if !matches!(&*self.0, Node::Group { .. } | Node::Most(..)) {
            return Ok(None);
        }
        if let Some(quick) = self.quick_group()?
            && let Some(found) = quick.epsilon_by_power(delta)?
            && found.upper - found.lower <= TIGHT.1 * found.upper
        {
            return Ok(Some(found));
        }
        let mut failure = None;
        let found = minimum((0.0, LOG_RANGE), (2.0, 0.25), None, |x| {
            match self.power((1.0 / x).min(1.0)) {
                Ok(power) => Bounds {
                    lower: x * (delta - power.upper) - 2.0 * f64::EPSILON * x,
                    upper: x * (delta - power.lower) + 2.0 * f64::EPSILON * x,
                },
                Err(error) => {
                    failure = Some(error);
                    Bounds::exactly(f64::INFINITY)
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let log = |t: f64| if t > 1.0 { t.ln() } else { 0.0 };
        // What even the smallest α that was looked at finds: should it be more than δ, the supremum may lie beyond.
        let lost = self.power((-LOG_RANGE).exp())?;
        Ok(Some(Bounds {
            lower: log(-found.upper) * (1.0 - 4.0 * f64::EPSILON),
            upper: if lost.upper >= delta {
                f64::INFINITY
            } else {
                log(-found.lower) * (1.0 + 4.0 * f64::EPSILON)
            },
        }))
    }

    /// The conjugate: inf over e^ε = t of δ + tα.
    pub(crate) fn power_by_delta(&self, alpha: f64) -> Result<Bounds> {
        checkpoint();
        if alpha == 0.0 {
            return self.delta_at_infinity();
        }
        if alpha == 1.0 {
            return Ok(Bounds::exactly(1.0));
        }
        if alpha < LEAST_ALPHA {
            return Ok(Bounds {
                lower: self.delta_at_infinity()?.lower,
                upper: self.power_by_delta(LEAST_ALPHA)?.upper,
            });
        }
        // Where the optimum would be for G_μ of the same advantage 2Φ(μ/2) − 1.
        let advantage = self.delta(0.0)?.upper;
        let mu = (2.0 * quantile(0.5 + 0.5 * advantage).0).clamp(1e-3, 30.0);
        let start = (-mu * quantile(alpha).0 - 0.5 * mu * mu, 0.25 * mu.min(1.0));
        let mut failure = None;
        let found = minimum((-LOG_RANGE, LOG_RANGE), start, Some(0.0), |t| {
            match self.delta(t.ln()) {
                Ok(delta) => Bounds {
                    lower: delta.lower + t * alpha * (1.0 - f64::EPSILON),
                    upper: delta.upper + t * alpha * (1.0 + f64::EPSILON),
                },
                Err(error) => {
                    failure = Some(error);
                    Bounds::exactly(f64::INFINITY)
                }
            }
        });
        match failure {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// The conjugate: sup over α of 1 − f(α) − tα.
    pub(crate) fn delta_by_power(&self, epsilon: f64) -> Result<Bounds> {
        checkpoint();
        if epsilon > FARTHEST {
            // δ falls.
            return Ok(Bounds {
                lower: self.delta_at_infinity()?.lower,
                upper: self.delta_by_power(FARTHEST)?.upper,
            });
        }
        if let Some(quick) = self.quick_group()? {
            let found = quick.delta_by_power(epsilon)?;
            if found.upper - found.lower <= TIGHT.0.min(TIGHT.1 * found.upper) {
                return Ok(found);
            }
        }
        let t = epsilon.exp();
        let start = (-0.5 * epsilon.abs() - 1.0, 0.25);
        let mut failure = None;
        // 1 + tα − power is convex in α.
        let found = minimum((-LOG_RANGE, 0.0), start, None, |alpha| {
            match self.power(alpha.min(1.0)) {
                Ok(power) => Bounds {
                    lower: t * alpha * (1.0 - f64::EPSILON) - power.upper,
                    upper: t * alpha * (1.0 + f64::EPSILON) - power.lower,
                },
                Err(error) => {
                    failure = Some(error);
                    Bounds::exactly(f64::INFINITY)
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        // What is left of the range of α.
        let (at_zero, beside) = (self.power(0.0)?, self.power((-LOG_RANGE).exp())?);
        Ok(Bounds {
            lower: (-found.upper).max(at_zero.lower),
            upper: (-found.lower).max(beside.upper),
        })
    }
}
