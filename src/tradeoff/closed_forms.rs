//! Trade-off functions and hockey-stick curves with a formula.

use crate::interval::Interval;
use crate::special::log_space::log1p_exp;
use crate::special::normal::{log_upper_tail, quantile};

/// Φ(Φ^{-1}(α) + μ) or, if not `below`, its complement to 1, with a bound on the relative error.
pub(crate) fn gaussian_tail(distance: f64, alpha: f64, below: bool) -> (f64, f64) {
    let (t, error) = quantile(alpha);
    if t.is_infinite() {
        return (if (t > 0.0) == below { 1.0 } else { 0.0 }, 0.0);
    }
    let threshold = if below { -(t + distance) } else { t + distance };
    let hazard = threshold.max(0.0) + 1.0;
    let wrong = error + f64::EPSILON * (t.abs() + distance);
    (
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
    let (corner, error) = quantile((-log1p_exp(epsilon)).exp());
    2.0 * (error - corner)
}
