//! Interval on a mixture of Gaussian trade-off functions from one split of its law (SHUFFLE Definitions 5.3 and 5.4).
//!
//! Let c have the law q(c), and μ = c/σ at the split. With u ≥ P(c < split), where all below the split counts as no
//! information and all above it as the split, no guarantee is better than
//!
//! > f^U = min{û, û^{-1}}**, û(α) = u + (1 − u)G_μ(α).
//!
//! With l ≥ P(c > split), where all above the split counts as revealing the hypothesis, the run is f^L-DP with
//!
//! > f^L = max{f̂, f̂^{-1}}, f̂(α) = G_μ(min{1, α + l}).
//!
//! Both are symmetric. For ε ≥ 0 only the part of slope −1 and steeper counts. There 1 − û = (1 − u)(1 − G_μ), so that
//! δ(ε) = (1 − u)·δ_μ(ε − log(1 − u)); and f^L is G_μ − l up to its fixed point β = G_μ(β) − l, so that
//! δ(ε) = l + δ_μ(ε) as long as that is attained left of β, and 1 − β − e^ε β from there on.

use crate::curve::one_step;
use crate::interval::Interval;
use crate::loss::StepLoss;
use crate::special::normal::{log_upper_tail, quantile};
use crate::special::root::solve_decreasing;

/// f^U or f^L.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitBound {
    /// True for f^U.
    pub is_upper: bool,
    /// u or l, in [0, 1].
    pub tail: f64,
    /// μ > 0.
    pub distance: f64,
}

/// Relative error that is allowed for a value of G_μ; `values_hold_those_at_high_precision` compares.
const GAUSSIAN_ERROR: f64 = 1e-13;

impl SplitBound {
    /// Φ(Φ^{-1}(α) + μ) = 1 − G_μ(α).
    fn gaussian_power(&self, alpha: f64) -> f64 {
        log_upper_tail(-(quantile(alpha).value + self.distance)).exp()
    }

    fn gaussian_delta(&self, epsilon: f64) -> Interval {
        one_step::delta(&StepLoss::shift(self.distance), epsilon).into()
    }

    /// β with G_μ(β) − l = β.
    fn fixed_point(&self) -> f64 {
        let excess = |beta: f64| Ok::<_, ()>(1.0 - self.gaussian_power(beta) - self.tail - beta);
        solve_decreasing(0.0, 0.5, f64::EPSILON, excess).unwrap_or(0.5)
    }

    /// 1 − f(α).
    pub(crate) fn power(&self, alpha: f64) -> Interval {
        let value = if self.is_upper {
            // The ends of the part of slope −1.
            let shift = -(-self.tail).ln_1p() / self.distance;
            let first = log_upper_tail(0.5 * self.distance + shift).exp();
            let last = self.tail + (1.0 - self.tail) * log_upper_tail(0.5 * self.distance - shift).exp();
            if alpha <= first {
                (1.0 - self.tail) * self.gaussian_power(alpha)
            } else if alpha <= last {
                1.0 - (first + last - alpha)
            } else {
                self.gaussian_power((alpha - self.tail) / (1.0 - self.tail))
            }
        } else if alpha <= self.fixed_point() {
            (self.gaussian_power(alpha) + self.tail).min(1.0)
        } else {
            self.gaussian_power((alpha + self.tail).min(1.0))
        };
        Interval::around(value, GAUSSIAN_ERROR)
    }

    /// δ(ε) for ε ≥ 0.
    pub(crate) fn delta(&self, epsilon: f64) -> Interval {
        if self.is_upper {
            if self.tail >= 1.0 {
                return Interval::exact(0.0);
            }
            let found = self.gaussian_delta(epsilon - (-self.tail).ln_1p());
            let rest = 1.0 - self.tail;
            return Interval {
                lower: rest * found.lower * (1.0 - GAUSSIAN_ERROR),
                upper: rest * found.upper * (1.0 + GAUSSIAN_ERROR),
            };
        }
        let attained = log_upper_tail(epsilon / self.distance + 0.5 * self.distance).exp();
        let beta = self.fixed_point();
        if attained <= beta {
            let found = self.gaussian_delta(epsilon);
            return Interval {
                lower: (self.tail + found.lower) * (1.0 - GAUSSIAN_ERROR),
                upper: (self.tail + found.upper) * (1.0 + GAUSSIAN_ERROR),
            };
        }
        let value = 1.0 - beta * (1.0 + epsilon.exp());
        Interval {
            lower: value - GAUSSIAN_ERROR,
            upper: value + GAUSSIAN_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_symmetric_and_conjugates_of_their_deltas() {
        for (is_upper, tail, distance) in [
            (true, 0.2, 1.5),
            (false, 0.1, 1.0),
            (true, 1e-4, 0.3),
            (false, 1e-3, 3.0),
        ] {
            let bound = SplitBound {
                is_upper,
                tail,
                distance,
            };
            let beta = |alpha: f64| 1.0 - bound.power(alpha).upper;
            for alpha in [0.01, 0.1, 0.3, 0.45] {
                let back = beta(beta(alpha));
                assert!(
                    (back - alpha).abs() < 1e-9 || beta(alpha) == 0.0,
                    "{bound:?} {alpha} {back}"
                );
            }
            for epsilon in [0.0f64, 0.3, 1.0, 2.5] {
                let largest = (1..20_000)
                    .map(|i| f64::from(i) * 5e-5)
                    .map(|alpha| 1.0 - beta(alpha) - epsilon.exp() * alpha)
                    .fold(1.0 - beta(0.0), f64::max);
                let found = bound.delta(epsilon);
                assert!(
                    found.upper >= largest - 1e-12 && found.upper - largest < 5e-5,
                    "{bound:?} {epsilon} {largest} {found:?}"
                );
            }
        }
    }

    /// `mpmath.mp.dps = 40` with Φ = mpmath.ncdf: (1 − u)·δ_μ(ε − log(1 − u)), l + δ_μ(ε), (1 − u)·Φ(Φ^{-1}(α) + μ) and Φ(Φ^{-1}(α) + μ) + l.
    #[test]
    fn values_hold_those_at_high_precision() {
        let bound = |is_upper, tail, distance| SplitBound {
            is_upper,
            tail,
            distance,
        };
        let (upper, lower) = (bound(true, 0.25, 1.5), bound(false, 1.0 / 1024.0, 1.0));
        for (found, exact) in [
            (upper.delta(0.5), 0.274_982_000_110_372_1),
            (lower.delta(2.0), 0.021_900_198_321_113_732),
            (upper.power(0.03125), 0.268_801_946_986_016_17),
            (lower.power(1.0 / 1024.0), 0.018_961_443_761_487_076),
        ] {
            assert!(found.lower <= exact && exact <= found.upper, "{found:?} {exact}");
            assert!(found.width() < 1e-12);
        }
    }

    /// A law of two distances, split at either: f^L says no more than the run satisfies, f^U no less than it can. Half of a tail fails.
    #[test]
    fn bounds_of_a_split_enclose_the_run() {
        let (near, far, probability) = (0.5, 3.0, 0.7);
        let gaussian = |distance: f64, epsilon: f64| one_step::delta(&StepLoss::shift(distance), epsilon).upper();
        for epsilon in [0.0, 0.5, 1.5, 3.0] {
            let run = probability * gaussian(near, epsilon) + (1.0 - probability) * gaussian(far, epsilon);
            let optimistic = SplitBound {
                is_upper: true,
                tail: probability,
                distance: far,
            };
            assert!(optimistic.delta(epsilon).lower <= run, "{epsilon} {run}");
            let pessimistic = SplitBound {
                is_upper: false,
                tail: 1.0 - probability,
                distance: near,
            };
            assert!(pessimistic.delta(epsilon).upper >= run, "{epsilon} {run}");
            let half = SplitBound {
                tail: 0.5 * (1.0 - probability),
                ..pessimistic
            };
            assert!(epsilon > 1.0 || half.delta(epsilon).upper < run, "{epsilon} {run}");
        }
    }
}
