//! Bounds on a mixture of Gaussian trade-off functions from one split of its law (SHUFFLE Definitions 5.3 and 5.4).
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
//! δ(ε) = l + δ_μ(ε) as long as that is attained left of β, and 1 − β − e^ε β from there on. With β = Φ(−w − μ) the fixed point is
//! Φ(w) − Φ(−w − μ) = l, and the optimum Φ(−ε/μ − μ/2) is left of it where ε/μ − μ/2 ≥ w. Whichever of both holds, 1 − β − e^ε β
//! is a lower bound and l + δ_μ(ε) an upper one.

use crate::curve::one_step;
use crate::interval::Interval;
use crate::loss::StepLoss;
use crate::special::log_space::log1p_exp;
use crate::special::normal::{log_upper_tail, upper_tail};
use crate::special::root::solve_decreasing;
use crate::tradeoff::closed_forms::gaussian_tail;

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

/// Relative error that is allowed for a value of δ_μ; `values_hold_those_at_high_precision` compares.
const GAUSSIAN_ERROR: f64 = 1e-13;
/// The w of a fixed point is within this of 0: P(N(0, 1) > 40) is below the smallest positive number.
const LARGEST_QUANTILE: f64 = 40.0;
/// Relative rounding error of a sum or product of a few terms.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

impl SplitBound {
    fn gaussian_delta(&self, epsilon: f64) -> Interval {
        one_step::delta(&StepLoss::shift(self.distance), epsilon).into()
    }

    /// l − Φ(w) + Φ(−w − μ), which falls with w, and a bound on its error.
    fn excess(&self, w: f64) -> (f64, f64) {
        let far = w + self.distance;
        let (beyond, beyond_error) = upper_tail(far, f64::EPSILON * far.abs());
        // Sums of small terms, of which none but l, or 1 − l, is known without a rounding.
        let (value, term, term_error) = if self.tail < 0.5 {
            let (below, error) = upper_tail(-w, 0.0);
            (self.tail + (beyond - below), below, error)
        } else {
            let (above, error) = upper_tail(w, 0.0);
            ((above + beyond) - (1.0 - self.tail), above, error)
        };
        let size = self.tail.min(1.0 - self.tail) + term + beyond;
        let error = beyond * beyond_error + term * term_error + ROUNDING * size + 4.0 * f64::MIN_POSITIVE;
        (value, error)
    }

    /// Bounds on the w of the fixed point, for l in (0, 1).
    fn fixed_point(&self) -> Interval {
        let (low, high) = ((-0.5 * self.distance).max(-LARGEST_QUANTILE), LARGEST_QUANTILE);
        let Ok(root) = solve_decreasing(low, high, f64::EPSILON, |w| {
            Ok::<f64, std::convert::Infallible>(self.excess(w).0)
        });
        // Steps away from the root that double, until the sign is certain.
        let certain = |direction: f64, end: f64| {
            let mut step = ROUNDING * (1.0 + root.abs());
            loop {
                let w = root + direction * step;
                if (w - end) * direction >= 0.0 {
                    return end;
                }
                let (value, error) = self.excess(w);
                if -direction * value > error {
                    return w;
                }
                step *= 2.0;
            }
        };
        Interval {
            lower: certain(-1.0, low),
            upper: certain(1.0, high),
        }
    }

    /// 1 − f(α).
    pub(crate) fn power(&self, alpha: f64) -> Interval {
        if self.is_upper {
            return self.power_of_upper(alpha);
        }
        // f^L is the larger of G_μ(α) − l and G_μ(α + l).
        let first = gaussian_tail(self.distance, alpha, true);
        let first = Interval {
            lower: (first.lower + self.tail) * (1.0 - ROUNDING),
            upper: (first.upper + self.tail) * (1.0 + ROUNDING),
        };
        let sum = alpha + self.tail;
        let second = |alpha: f64| gaussian_tail(self.distance, alpha.clamp(0.0, 1.0), true);
        first
            .min(Interval {
                lower: second(sum.next_down()).lower,
                upper: second(sum.next_up()).upper,
            })
            .within(0.0, 1.0)
    }

    /// 1 − f^U(α).
    fn power_of_upper(&self, alpha: f64) -> Interval {
        if self.tail >= 1.0 {
            return Interval::exact(alpha);
        }
        // The ends of the part of slope −1.
        let shift = -(-self.tail).ln_1p() / self.distance;
        let wrong = f64::EPSILON * (0.5 * self.distance + 2.0 * shift);
        let rest = 1.0 - self.tail;
        let (first, first_error) = upper_tail(0.5 * self.distance + shift, wrong);
        let (near, near_error) = upper_tail(0.5 * self.distance - shift, wrong);
        let last = self.tail + rest * near;
        if alpha <= first {
            let power = gaussian_tail(self.distance, alpha, true);
            return Interval {
                lower: rest * power.lower * (1.0 - ROUNDING),
                upper: rest * power.upper * (1.0 + ROUNDING),
            };
        }
        let (value, error) = if alpha <= last {
            (
                1.0 - (first + last - alpha),
                first * first_error + rest * near * near_error,
            )
        } else {
            // The slope is at most 1 here, so that a rounding of α counts once.
            let power = gaussian_tail(self.distance, (alpha - self.tail) / rest, true);
            (power.middle(), 0.5 * power.width())
        };
        Interval {
            lower: value - error - 2.0 * ROUNDING,
            upper: value + error + 2.0 * ROUNDING,
        }
    }

    /// δ(ε) for ε ≥ 0.
    pub(crate) fn delta(&self, epsilon: f64) -> Interval {
        if self.is_upper {
            if self.tail >= 1.0 {
                return Interval::exact(0.0);
            }
            let inner = epsilon - (-self.tail).ln_1p();
            let rest = 1.0 - self.tail;
            return Interval {
                lower: rest * self.gaussian_delta(inner * (1.0 + ROUNDING)).lower * (1.0 - GAUSSIAN_ERROR),
                upper: rest * self.gaussian_delta(inner * (1.0 - ROUNDING)).upper * (1.0 + GAUSSIAN_ERROR),
            };
        }
        if self.tail >= 1.0 {
            return Interval::exact(1.0);
        }
        let found = self.gaussian_delta(epsilon);
        let mut bounds = Interval {
            lower: (self.tail + found.lower) * (1.0 - GAUSSIAN_ERROR),
            upper: (self.tail + found.upper) * (1.0 + GAUSSIAN_ERROR),
        };
        if self.tail == 0.0 {
            return bounds;
        }
        let threshold = epsilon / self.distance - 0.5 * self.distance;
        let wrong = ROUNDING * (epsilon / self.distance + 0.5 * self.distance);
        let w = self.fixed_point();
        if threshold - wrong < w.upper {
            let at_fixed_point = self.delta_at_fixed_point(w, epsilon);
            bounds.lower = at_fixed_point.lower;
            if threshold + wrong <= w.lower {
                bounds.upper = bounds.upper.min(at_fixed_point.upper);
            }
        }
        bounds
    }

    /// 1 − β(1 + e^ε) for the fixed point β = Φ(−w − μ).
    fn delta_at_fixed_point(&self, w: Interval, epsilon: f64) -> Interval {
        let log_odds = log1p_exp(epsilon);
        let value = |w: f64, sign: f64| {
            let far = w + self.distance;
            let log_beta = log_upper_tail(far);
            let error = upper_tail(far, f64::EPSILON * far.abs()).1 + ROUNDING * (log_beta.abs() + log_odds + 1.0);
            -(log_beta + log_odds + sign * error).exp_m1()
        };
        Interval {
            lower: value(w.lower, 1.0) - ROUNDING,
            upper: value(w.upper, -1.0) + ROUNDING,
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

    /// mpmath at 60 digits: z with Φ(z − μ) − Φ(−z) = l by `mpmath.findroot`, δ = 1 − Φ(−z)(1 + e^ε); and min(Φ(Φ^{-1}(α) + μ) + l,
    /// Φ(Φ^{-1}(α + l) + μ)), Φ(Φ^{-1}(α) + μ)·(1 − u).
    #[test]
    fn fixed_points_and_powers_in_the_tails_hold_those_at_high_precision() {
        let bound = |is_upper, tail, distance| SplitBound {
            is_upper,
            tail,
            distance,
        };
        for (found, exact, width) in [
            (bound(false, 0.5, 8.1).delta(30.0), 0.997_063_400_180_207_2, 1e-12),
            (bound(false, 0.5, 8.1).delta(20.0), 0.999_999_866_678_574_2, 1e-12),
            (
                bound(false, 0.000_976_562_5, 16.0).delta(100.0),
                0.954_892_243_120_305_6,
                1e-12,
            ),
            (
                bound(false, 9.094947017729282e-13, 16.0).delta(60.0),
                0.999_985_279_112_825_4,
                1e-12,
            ),
            (bound(false, 0.75, 1000.0).delta(501_000.0), 0.908_413_525_177_179, 1e-8),
            (
                bound(false, 0.984_375, 0.25).delta(0.25),
                0.988_088_700_847_307_4,
                1e-12,
            ),
            (
                bound(true, 0.001, 0.377).power(1.305e-245),
                3.680_392_335_107_354e-240,
                1e-10,
            ),
            (bound(false, 0.001, 0.377).power(1.90109156629516e-211), 0.001, 1e-10),
        ] {
            assert!(found.lower <= exact && exact <= found.upper, "{found:?} {exact}");
            assert!(found.width() < width * exact, "{found:?} {exact}");
        }
        // Without any tail on either side nothing is known, or everything.
        assert_eq!(bound(false, 1.0, 2.0).delta(3.0), Interval::exact(1.0));
        assert_eq!(bound(true, 1.0, 2.0).power(0.25), Interval::exact(0.25));
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
