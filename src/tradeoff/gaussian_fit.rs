//! The smallest μ for which a Gaussian curve is below a given one, up to a regret.

use crate::error::{Error, Result, require};
use crate::special::normal::quantile;
use crate::stopping::checkpoint;
use crate::tradeoff::curve::TradeoffCurve;

/// Supporting lines of the first fit, and of the last; each doubling of their number quarters the error of μ.
const LINES: (usize, usize) = (128, 16_384);
/// Largest ε of a supporting line: e^ε is far from overflow, at 709.
const MAX_EPSILON: f64 = 600.0;
/// Relative change of μ, from one number of lines to the next, that ends the fit.
const TOLERANCE: f64 = 1e-10;
/// Fraction of the regret that the farthest supporting line may neglect.
const NEGLECTED: f64 = 0.999;

impl TradeoffCurve {
    /// A μ with f(α) ≥ G_μ(α + κ) − κ for all α, κ = `regret` ≥ 0: the smallest, up to 1e-10 or so.
    ///
    /// A convex curve that is below f's supporting lines at the corners of their envelope is below them everywhere, as it is
    /// below its own chords; so μ is the largest Φ^{-1}(1 − f − κ) − Φ^{-1}(α + κ) at the corners. With κ = 0 the supporting
    /// lines of a curve of unbounded loss do not close the gap at α = 0; there 1 − f(α) approaches that of the farthest pair of the
    /// expression, whose μ is the answer.
    ///
    /// # Errors
    /// κ outside [0, 1), or a curve that lies above no G_μ.
    pub fn mu(&self, regret: f64) -> Result<f64> {
        require((0.0..1.0).contains(&regret), "regret", regret, "in [0, 1)")?;
        let widest = self.widest_distance();
        let max_loss = self.max_loss();
        if regret == 0.0 && max_loss.is_infinite() {
            return if widest.is_finite() {
                Ok(widest)
            } else {
                Err(Error::Mismatch(
                    "mu does not exist: no G_mu with a finite mu is below a curve with f(0) < 1; give a regret"
                        .into(),
                ))
            };
        }
        if max_loss == 0.0 {
            return Ok(0.0);
        }
        let curve = self.symmetrize()?;
        let farthest = if regret == 0.0 {
            max_loss
        } else {
            curve.epsilon_of_delta(NEGLECTED * regret)?.upper.min(max_loss)
        };
        require(farthest.is_finite(), "regret", regret, "above 1 - f(0)")?;
        if farthest > MAX_EPSILON {
            return Ok(widest);
        }
        let mut before = f64::INFINITY;
        let mut lines = LINES.0;
        loop {
            let corners = curve.corners(lines, farthest, farthest == max_loss)?;
            let largest = smallest_mu(&corners, regret);
            if (before - largest).abs() <= TOLERANCE * largest || lines >= LINES.1 {
                return Ok(largest.min(before).min(widest));
            }
            before = largest.min(before);
            lines *= 2;
        }
    }

    /// Corners (α, 1 − f(α)) of the envelope of supporting lines at evenly spaced ε up to `farthest`. At the largest loss, which
    /// `farthest` is if `is_max_loss`, δ is 0 whatever rounding leaves of it.
    fn corners(&self, lines: usize, farthest: f64, is_max_loss: bool) -> Result<Vec<(f64, f64)>> {
        let mut corners = Vec::with_capacity(lines + 1);
        let mut last: Option<(f64, f64)> = None;
        for i in 0..=lines {
            let epsilon = farthest * i as f64 / lines as f64;
            checkpoint();
            let delta = if i == lines && is_max_loss {
                0.0
            } else {
                self.delta(epsilon)?.upper
            };
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
        Ok(corners)
    }
}

/// The smallest μ ≥ 0 with 1 − G_μ(α + κ) + κ at least the power at all corners (α, power), and so at their mirror images.
fn smallest_mu(corners: &[(f64, f64)], regret: f64) -> f64 {
    let needed = |&(alpha, power): &(f64, f64)| {
        let (hits, alarms) = (quantile((power - regret).min(1.0)), quantile((alpha + regret).min(1.0)));
        if hits.value == f64::NEG_INFINITY {
            return 0.0; // A power of at most κ is reached by any μ.
        }
        (hits - alarms).upper()
    };
    corners.iter().map(needed).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitted_gaussian_is_below_the_curve_and_touches_it() {
        for (curve, regret) in [
            (TradeoffCurve::laplace(1.3).unwrap(), 0.0),
            (TradeoffCurve::epsilon_delta(1.0, 1e-3).unwrap(), 0.01),
            (TradeoffCurve::gaussian(1.0).unwrap().subsample(0.3).unwrap(), 1e-4),
        ] {
            let mu = curve.mu(regret).unwrap();
            let gaussian = TradeoffCurve::gaussian(mu).unwrap();
            let margin = |alpha: f64| {
                let below = gaussian.beta((alpha + regret).min(1.0)).unwrap().lower - regret;
                curve.beta(alpha).unwrap().upper - below
            };
            let margins: Vec<f64> = (0..=4000).map(|i| margin(f64::from(i) / 4000.0)).collect();
            let smallest = margins.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(smallest >= -1e-12, "{curve:?} {smallest}");
            // Half of μ, or 1% less, would not do.
            let less = TradeoffCurve::gaussian(0.99 * mu).unwrap();
            let violated = (1..4000).map(|i| f64::from(i) / 4000.0).any(|alpha| {
                let below = less.beta((alpha + regret).min(1.0)).unwrap().lower - regret;
                curve.beta(alpha).unwrap().upper < below
            });
            assert!(violated, "{curve:?} {mu}");
        }
    }

    #[test]
    fn randomised_response_touches_at_its_corner() {
        // f_{ε,0} has the corner α = β = 1/(1 + e^ε), where G_μ has Φ(−μ/2).
        let mu = TradeoffCurve::epsilon_delta(1.0, 0.0).unwrap().mu(0.0).unwrap();
        assert!((mu - MU_OF_UNIT_EPSILON).abs() < 1e-9, "{mu}");
    }

    /// `mpmath.mp.dps = 30; -2*mpmath.sqrt(2)*mpmath.erfinv(2/(1 + mpmath.e) - 1)`
    const MU_OF_UNIT_EPSILON: f64 = 1.232_035_385_344_901;
}
