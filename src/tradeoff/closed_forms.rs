//! Trade-off functions and hockey-stick curves with a formula.

use crate::approx::Approx;
use crate::interval::Interval;
use crate::special::log_space::log1p_exp;
use crate::special::normal::{log_upper_tail, quantile};

/// The product of two numbers that are at least 0: between two neighbouring numbers where it is rounded.
pub(crate) fn product(a: f64, b: f64) -> Interval {
    /// Smaller products round by more than their last place.
    const SMALLEST: f64 = 1e-290;
    let value = a * b;
    if a == 0.0 || b == 0.0 {
        return Interval::exact(0.0);
    }
    if value < SMALLEST {
        return Interval {
            lower: value.next_down().max(0.0),
            upper: value.next_up(),
        };
    }
    let error = a.mul_add(b, -value);
    Interval {
        lower: if error < 0.0 { value.next_down() } else { value },
        upper: if error > 0.0 { value.next_up() } else { value },
    }
}

/// Φ(Φ^{-1}(α) + μ) or, if not `below`, its complement to 1.
pub(crate) fn gaussian_tail(distance: f64, alpha: f64, below: bool) -> Interval {
    let Approx { value: t, error } = quantile(alpha);
    if t.is_infinite() {
        return Interval::exact(if (t > 0.0) == below { 1.0 } else { 0.0 });
    }
    let threshold = if below { -(t + distance) } else { t + distance };
    let hazard = threshold.max(0.0) + 1.0;
    // The distance itself may be wrong by two units in its last place.
    let wrong = error + f64::EPSILON * (t.abs() + 3.0 * distance);
    Interval::around(
        log_upper_tail(threshold).exp(),
        hazard * wrong + 2e-15 * (4.0 + threshold.max(0.0).powi(2)),
    )
}

/// 1 − f(α) of Laplace noise: e^μ α up to e^{−μ}/2, then 1 − e^{−μ}/4α up to 1/2, then 1 − e^{−μ}(1 − α).
pub(crate) fn laplace_power(distance: f64, alpha: f64) -> f64 {
    let shrink = (-distance).exp();
    if alpha <= 0.5 * shrink {
        alpha * distance.exp()
    } else if alpha <= 0.5 {
        1.0 - shrink / (4.0 * alpha)
    } else {
        1.0 - shrink * (1.0 - alpha)
    }
}

/// δ(ε) of Laplace noise: 1 − e^{(ε − μ)/2} for |ε| ≤ μ.
pub(crate) fn laplace_delta(distance: f64, epsilon: f64) -> f64 {
    if epsilon >= distance {
        0.0
    } else if epsilon >= -distance {
        -(0.5 * (epsilon - distance)).exp_m1()
    } else {
        -epsilon.exp_m1()
    }
}

/// δ(ε) of f_{`bound`,`delta`}: the hypothesis is revealed with probability δ, and the rest is randomised response.
pub(crate) fn delta_of_pair(bound: f64, delta: f64, epsilon: f64) -> Interval {
    // P(ℓ = ±bound) = 1/(1 + e^{∓bound})
    let part = |loss: f64, log_mass: f64| {
        let gain = loss - epsilon;
        if gain > 0.0 {
            log_mass.exp() * -(-gain).exp_m1()
        } else {
            0.0
        }
    };
    if epsilon >= bound {
        return Interval::exact(delta);
    }
    let rest = part(bound, -log1p_exp(-bound)) + part(-bound, -log1p_exp(bound));
    Interval::around(delta + (1.0 - delta) * rest, 4e-15)
}

/// δ(ε) of a symmetric curve from that of |ε|: δ(ε) = 1 − e^ε + e^ε δ(−ε).
pub(crate) fn mirrored(epsilon: f64, of_size: Interval) -> Interval {
    if epsilon >= 0.0 {
        return of_size;
    }
    let (gap, t) = (-epsilon.exp_m1(), epsilon.exp());
    Interval {
        lower: (gap + t * of_size.lower) * (1.0 - 4.0 * f64::EPSILON),
        upper: (gap + t * of_size.upper) * (1.0 + 4.0 * f64::EPSILON),
    }
}

/// Upper bound on the smallest μ with G_μ ≤ f_{ε,0}, which is attained at the corner α = β = 1/(1 + e^ε) of the latter.
pub(crate) fn distance_of_pure(epsilon: f64) -> f64 {
    -2.0 * quantile((-log1p_exp(epsilon)).exp()).lower()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mpmath.mp.dps = 40; q = lambda p: -mpmath.sqrt(2)*mpmath.erfinv(1 - 2*p); mpmath.ncdf(q(p) + mu)`, and with both signs changed
    /// for the complement.
    #[test]
    fn gaussian_tails_are_within_their_relative_error() {
        for (alpha, distance, below, above) in [
            (0.125, 1.0, 0.440_244_487_906_995_9, 0.559_755_512_093_004_1),
            (
                f64::powi(2.0, -40),
                3.0,
                2.586_166_213_315_685_2e-5,
                0.999_974_138_337_866_9,
            ),
        ] {
            for (is_below, exact) in [(true, below), (false, above)] {
                let found = gaussian_tail(distance, alpha, is_below);
                assert!(
                    found.lower <= exact && exact <= found.upper && found.width() < 2e-11 * exact,
                    "{found:?} {exact}"
                );
            }
        }
        assert_eq!(gaussian_tail(1.0, 0.0, true), Interval::exact(0.0));
        assert_eq!(gaussian_tail(1.0, 1.0, false), Interval::exact(0.0));
    }

    #[test]
    fn products_are_enclosed_by_neighbouring_numbers() {
        assert_eq!(product(3.0, 0.5), Interval::exact(1.5));
        assert_eq!(product(0.0, 0.1), Interval::exact(0.0));
        // 3·1.8600191988901231 and 3·0.1 in whole numbers of 2^-60: the first is rounded down, the second up.
        let whole = |x: f64| (x * f64::powi(2.0, 60)) as u128;
        for factor in [1.860_019_198_890_123_1, 0.1] {
            let found = product(3.0, factor);
            assert!(found.lower.next_up() == found.upper, "{found:?}");
            assert!(whole(found.lower) < 3 * whole(factor) && 3 * whole(factor) < whole(found.upper));
        }
    }

    #[test]
    fn laplace_power_and_delta_are_conjugates() {
        for distance in [0.1, 1.0, 4.0] {
            for epsilon in [-1.5 * distance, -0.4 * distance, 0.0, 0.7 * distance, 1.2 * distance] {
                let supremum = (0..=200_000)
                    .map(|i| f64::from(i) / 200_000.0)
                    .map(|alpha| laplace_power(distance, alpha) - epsilon.exp() * alpha)
                    .fold(0.0, f64::max);
                let found = laplace_delta(distance, epsilon);
                assert!(
                    found >= supremum - 1e-15 && found - supremum < 1e-5,
                    "{distance} {epsilon} {found} {supremum}"
                );
            }
        }
    }

    #[test]
    fn delta_of_an_epsilon_delta_curve_is_that_of_its_four_outcomes() {
        // With probability δ the hypothesis is revealed, otherwise one of two answers has the odds e^ε.
        let (bound, delta) = (0.8f64, 0.03);
        let likely = 1.0 / (1.0 + (-bound).exp());
        for epsilon in [-2.0, -0.5, 0.0, 0.3, 0.79, 0.8, 3.0] {
            let t = f64::exp(epsilon);
            let exact = delta
                + (1.0 - delta) * ((likely - t * (1.0 - likely)).max(0.0) + (1.0 - likely - t * likely).max(0.0));
            let found = delta_of_pair(bound, delta, epsilon);
            assert!(found.lower <= exact + 4e-16 && exact <= found.upper + 4e-16 && found.width() < 2e-14);
        }
    }

    #[test]
    fn mirrored_delta_is_that_of_a_symmetric_curve_below_zero() {
        for epsilon in [-0.3, -2.0, -40.0] {
            let exact = -f64::exp_m1(epsilon) + f64::exp(epsilon) * laplace_delta(1.3, -epsilon);
            assert!((laplace_delta(1.3, epsilon) - exact).abs() < 1e-15);
            let found = mirrored(epsilon, Interval::exact(laplace_delta(1.3, -epsilon)));
            assert!(found.lower <= exact && exact <= found.upper && found.width() < 1e-14);
        }
    }

    #[test]
    fn the_gaussian_below_a_pure_curve_meets_its_corner() {
        for epsilon in [1e-6, 0.3, 2.0, 20.0] {
            let distance = distance_of_pure(epsilon);
            // Φ(−μ/2) is at most the corner, and hardly less.
            let corner = (-log1p_exp(epsilon)).exp();
            let reached = log_upper_tail(0.5 * distance).exp();
            assert!(
                reached <= corner * (1.0 + 1e-15) && reached >= corner * (1.0 - 1e-11),
                "{epsilon}"
            );
        }
    }
}
