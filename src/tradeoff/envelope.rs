//! Certified piecewise linear bounds on a trade-off function and on its inverse.
//!
//! Operations that have no closed form on the side of f or δ that is needed, and tensor products of curves without a pair of laws, use
//! these bounds in place of the curve. Only t ≥ 1 is stored ([`Branch`]), for the curve and for its inverse: with δ' the
//! curve of the inverse, δ(1/t) = 1 − 1/t + δ'(t)/t.

use crate::interval::Interval;
use crate::tradeoff::branch::Branch;
use crate::tradeoff::closed_forms::mirrored;
use crate::tradeoff::edges::Edge;
use crate::tradeoff::limits::Limits;

/// Fraction of the standard deviation within which masses count as one atom.
const ATOM_WIDTH: f64 = 1e-5;
/// Bounds on a curve and on its inverse.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Envelope {
    forward: Branch,
    /// Bounds on the inverse, unless the curve is symmetric.
    backward: Option<Branch>,
    /// Limits of the curve and of its inverse.
    limits: [Limits; 2],
}

impl Envelope {
    /// Bounds with these branches for the curve and its inverse, the second `None` for a symmetric curve, and the limits of both.
    pub(crate) fn new(forward: Branch, backward: Option<Branch>, limits: [Limits; 2]) -> Self {
        Self {
            forward,
            backward,
            limits,
        }
    }

    /// The branches of the curve and of its inverse.
    pub(crate) fn branches(&self) -> [&Branch; 2] {
        [&self.forward, self.backward.as_ref().unwrap_or(&self.forward)]
    }

    /// True if the curve is its own inverse.
    pub(crate) fn is_symmetric(&self) -> bool {
        self.backward.is_none()
    }

    /// Bounds on the inverse.
    pub(crate) fn inverted(&self) -> Self {
        match &self.backward {
            None => self.clone(),
            Some(backward) => Self {
                forward: backward.clone(),
                backward: Some(self.forward.clone()),
                limits: [self.limits[1], self.limits[0]],
            },
        }
    }

    /// Limits of the curve.
    pub(crate) fn limits(&self) -> Limits {
        self.limits[0]
    }

    /// Estimates of P's masses at losses above 0 and of Q's at losses below 0, from the changes of slope of the upper bound.
    fn masses(&self) -> Vec<(f64, f64)> {
        let mut found = Vec::new();
        for (branch, sign) in self.branches().into_iter().zip([1.0, -1.0]) {
            let slope = |pair: &[Edge]| (pair[0].delta - pair[1].delta) / (pair[1].slope - pair[0].slope);
            let slopes: Vec<f64> = branch.upper.windows(2).map(slope).collect();
            for (i, edge) in branch.upper.iter().enumerate().skip(1) {
                let change = (slopes[i - 1] - slopes.get(i).copied().unwrap_or(0.0)).max(0.0);
                let mass = if sign > 0.0 { change * edge.slope } else { change };
                found.push((sign * edge.slope.ln(), mass));
            }
        }
        found
    }

    /// Estimate of the variance of the finite losses under P.
    pub(crate) fn variance(&self) -> f64 {
        let masses = self.masses();
        let mean: f64 = masses.iter().map(|(loss, mass)| mass * loss).sum();
        let square: f64 = masses.iter().map(|(loss, mass)| mass * loss * loss).sum();
        (square - mean * mean).max(0.0)
    }

    /// Estimate of the largest atom of the loss other than at 0: its mass and its |loss|.
    pub(crate) fn largest_atom(&self) -> (f64, f64) {
        let mut masses = self.masses();
        masses.sort_by(|a, b| a.0.total_cmp(&b.0));
        let width = ATOM_WIDTH * self.variance().sqrt();
        let (mut best, mut start, mut sum) = ((0.0, 1.0), 0, 0.0);
        for end in 0..masses.len() {
            sum += masses[end].1;
            while masses[end].0 - masses[start].0 > width {
                sum -= masses[start].1;
                start += 1;
            }
            if sum > best.0 {
                let heaviest = masses[start..=end]
                    .iter()
                    .fold((0.0, 0.0), |a, b| if b.1 > a.1 { *b } else { a });
                best = (sum, heaviest.0.abs());
            }
        }
        best
    }

    /// δ at any real ε.
    pub(crate) fn delta(&self, epsilon: f64) -> Interval {
        let [forward, backward] = self.branches();
        if epsilon >= 0.0 {
            return forward.delta(epsilon.exp());
        }
        mirrored(epsilon, backward.delta((-epsilon).exp()))
    }

    /// 1 − f(α).
    pub(crate) fn power(&self, alpha: f64) -> Interval {
        let [forward, backward] = self.branches();
        forward.power(alpha).min(backward.mirrored_power(alpha))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tradeoff::TradeoffCurve;

    fn of_deltas(curve: &TradeoffCurve) -> Branch {
        let delta = |epsilon: f64| curve.delta(epsilon);
        Branch::of_deltas(&delta, &delta, curve.delta_at_infinity().unwrap(), false).unwrap()
    }

    #[test]
    fn refined_branches_hold_the_curve_and_reach_their_goal() {
        for curve in [
            TradeoffCurve::gaussian(0.7).unwrap(),
            TradeoffCurve::laplace(2.0).unwrap(),
        ] {
            let power = |alpha: f64| curve.power(alpha);
            let at_zero = curve.delta_at_infinity().unwrap();
            let by_power = Branch::of_powers(&power, at_zero, true, false).unwrap();
            for branch in [of_deltas(&curve), by_power] {
                let limits = [Limits::singular(0.0); 2];
                let envelope = Envelope::new(branch, None, limits);
                for i in 0..400 {
                    let epsilon = f64::from(i - 100) * 0.013;
                    let (found, exact) = (envelope.delta(epsilon), curve.delta(epsilon).unwrap());
                    assert!(
                        found.lower <= exact.upper && exact.lower <= found.upper,
                        "{epsilon} {found:?} {exact:?}"
                    );
                    assert!(found.width() <= 2e-9, "{epsilon} {found:?} {exact:?}");
                    let alpha = f64::from(i) / 400.0;
                    let (found, exact) = (envelope.power(alpha), curve.power(alpha).unwrap());
                    assert!(
                        found.lower <= exact.upper && exact.lower <= found.upper,
                        "{alpha} {found:?} {exact:?}"
                    );
                    assert!(found.width() < 1e-8, "{alpha} {found:?}");
                }
            }
        }
    }

    #[test]
    fn estimates_of_the_loss_are_those_of_its_law() {
        // N(μ²/2, μ²) has no atoms; randomised response has atoms at ±ε.
        let limits = [Limits::singular(0.0); 2];
        let gaussian = Envelope::new(of_deltas(&TradeoffCurve::gaussian(0.7).unwrap()), None, limits);
        assert!(
            (gaussian.variance() / 0.49 - 1.0).abs() < 1e-3,
            "{}",
            gaussian.variance()
        );
        assert!(gaussian.largest_atom().0 < 1e-3);
        let response = TradeoffCurve::epsilon_delta(1.0, 0.0).unwrap();
        let (mass, loss) = Envelope::new(of_deltas(&response), None, limits).largest_atom();
        assert!(
            (mass - 1.0 / (1.0 + (-1f64).exp())).abs() < 1e-3 && (loss - 1.0).abs() < 1e-3,
            "{mass} {loss}"
        );
    }
}
