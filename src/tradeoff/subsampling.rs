//! C_p(f) = min{f_p, f_p^{-1}}** with f_p(α) = pf(α) + (1 − p)(1 − α): f of a mechanism that runs on a random part of the data.

use crate::error::Result;
use crate::interval::Interval;
use crate::special::root::solve_decreasing;
use crate::tradeoff::closed_forms::mirrored;
use crate::tradeoff::edges::Edge;
use crate::tradeoff::polygon::Polygon;

/// Relative error of a few roundings, of which one is that of the rate.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// 1 − C_p(f)(α) for a symmetric f = 1 − `power` with the fixed point x: f_p up to x, then the line of slope −1, then f_p^{-1}
/// (Dong, Roth and Su 2022, Section 4.2).
///
/// # Errors
/// The errors of `power`.
pub(super) fn subsampled_power(
    power: impl Fn(f64) -> Result<Interval>,
    x: f64,
    rate: f64,
    alpha: f64,
) -> Result<Interval> {
    let mixed = |alpha: f64| -> Result<Interval> {
        let power = power(alpha)?;
        let rest = (1.0 - rate) * alpha;
        Ok(Interval {
            lower: (rate * power.lower + rest) * (1.0 - 4.0 * f64::EPSILON),
            upper: (rate * power.upper + rest) * (1.0 + 4.0 * f64::EPSILON),
        })
    };
    if alpha <= x {
        return mixed(alpha);
    }
    let at_x = mixed(x)?;
    let line = Interval {
        lower: at_x.lower + (alpha - x) * (1.0 - 2.0 * f64::EPSILON) - f64::EPSILON,
        upper: at_x.upper + (alpha - x) * (1.0 + 2.0 * f64::EPSILON) + f64::EPSILON,
    };
    if alpha == 1.0 {
        return Ok(Interval::exact(1.0));
    }
    if alpha <= 1.0 - at_x.upper {
        return Ok(line);
    }
    // t with f_p(t) = α; f_p falls faster than t grows, so that an error of f_p is at most one of t.
    let t = solve_decreasing(0.0, x, f64::EPSILON * x, |t| {
        mixed(t).map(|power| (1.0 - power.lower) - alpha)
    })?;
    let power = mixed(t)?;
    let error = (alpha - (1.0 - power.upper))
        .abs()
        .max((alpha - (1.0 - power.lower)).abs())
        + 4.0 * f64::EPSILON;
    Ok(Interval {
        lower: (1.0 - t) - error,
        upper: ((1.0 - t) + error).min(line.upper),
    })
}

/// C_p of a symmetric polygon with the corners (ε ≥ 0, δ), of which the first has ε = 0.
pub(super) fn subsampled_polygon(corners: &[(f64, f64)], rate: f64) -> Polygon {
    let edge = |&(epsilon, delta): &(f64, f64)| Edge {
        slope: 1.0 + rate * epsilon.exp_m1(),
        delta: rate * delta,
    };
    let mut edges: Vec<Edge> = corners.iter().map(edge).collect();
    edges.dedup_by(|next, first| next.slope <= first.slope);
    Polygon::symmetric(&edges)
}

/// δ of C_p(f): p·δ(log(1 + (e^ε − 1)/p)) for ε ≥ 0, the larger of f and of its inverse; for ε < 0 by the symmetry of C_p(f).
///
/// f_p^{-1} has (1 − (1 − p)e^ε)·δ(log(1/(1 − (1 − e^{−ε})/p))), which is no larger where f is symmetric: it is that of "add"
/// against "remove" after one step. `larger` is the larger δ of f and its inverse.
///
/// # Errors
/// The errors of `larger`.
pub(super) fn subsampled_delta(
    larger: impl Fn(f64) -> Result<Interval>,
    is_symmetric: bool,
    rate: f64,
    epsilon: f64,
) -> Result<Interval> {
    let raised = epsilon.abs();
    let inner = (raised.exp_m1() / rate).ln_1p();
    let inner = if inner.is_finite() { inner } else { raised - rate.ln() };
    // δ falls with ε by any factor where it is next to 0: it is taken at both ends of what the inner ε, of a few roundings, may be.
    let mut found = Interval {
        lower: rate * larger((inner * (1.0 + ROUNDING)).min(f64::MAX))?.lower,
        upper: rate * larger(inner * (1.0 - ROUNDING))?.upper,
    };
    // The ratio is wrong by a few units of 1, the larger of the terms of its difference; 1 − (1 − p)e^ε is pe^ε times the ratio.
    let ratio = 1.0 + (-raised).exp_m1() / rate;
    let (least, most) = (ratio - ROUNDING, ratio + ROUNDING);
    if !is_symmetric && least > 0.0 {
        let scale = rate * raised.exp();
        found = found.max(Interval {
            lower: scale * least * larger(-least.ln() + ROUNDING)?.lower,
            upper: scale * most * larger(-most.ln() - ROUNDING)?.upper,
        });
    } else if !is_symmetric && most > 0.0 {
        // δ is at most 1.
        found.upper = found.upper.max(rate * raised.exp() * most);
    }
    let found = Interval {
        lower: found.lower * (1.0 - ROUNDING),
        upper: found.upper * (1.0 + ROUNDING),
    };
    Ok(mirrored(epsilon, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tradeoff::closed_forms::{laplace_delta, laplace_power};

    /// sup_α F(α) − tα on a fine grid, for the concave hull of the smaller of f_p's and its inverse's F.
    fn brute_delta(rate: f64, mu: f64, epsilon: f64) -> f64 {
        let mixed = |alpha: f64| rate * laplace_power(mu, alpha) + (1.0 - rate) * alpha;
        let t = epsilon.exp();
        // The conjugate of the larger F is the larger conjugate; that of the inverse has the points (1 − F, 1 − α).
        (0..=100_000)
            .map(|i| f64::from(i) / 100_000.0)
            .map(|alpha| {
                let power = mixed(alpha);
                (power - t * alpha).max((1.0 - alpha) - t * (1.0 - power))
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn delta_is_the_conjugate_of_the_larger_power() {
        let mu = 1.5;
        for rate in [0.01, 0.3, 0.9] {
            for epsilon in [-0.5, 0.0, 0.2, 0.8, 1.4] {
                let larger = |epsilon: f64| Ok(Interval::exact(laplace_delta(mu, epsilon)));
                for is_symmetric in [true, false] {
                    let found = subsampled_delta(larger, is_symmetric, rate, epsilon).unwrap();
                    let brute = brute_delta(rate, mu, epsilon);
                    assert!(
                        found.upper >= brute && found.lower <= brute + 2e-5,
                        "{rate} {epsilon} {found:?} {brute}"
                    );
                    assert!(found.width() < 1e-13);
                }
            }
        }
    }

    /// `mpmath.mp.dps = 40; dg = lambda m, e: mpmath.ncdf(m/2 - e/m) - mpmath.exp(e)*mpmath.ncdf(-m/2 - e/m)`, then
    /// `dg(mpmath.mpf(1), mpmath.log(1 + (mpmath.exp(mpmath.mpf('0.5')) - 1)*4))/4`
    #[test]
    fn delta_of_a_subsampled_gaussian_holds_its_value_at_high_precision() {
        let gaussian = crate::tradeoff::TradeoffCurve::gaussian(1.0).unwrap();
        let found = subsampled_delta(|epsilon| gaussian.delta(epsilon), true, 0.25, 0.5).unwrap();
        let exact = 0.020_687_686_757_765_28;
        assert!(
            found.lower <= exact && exact <= found.upper && found.width() < 1e-14,
            "{found:?}"
        );
    }

    /// mpmath at 60 digits: p·(1 − e^{(ε' − μ)/2}) with ε' = log(1 + (e^ε − 1)/p), which is next to μ.
    #[test]
    fn delta_next_to_the_largest_loss_is_enclosed() {
        let (mu, rate) = (2.812_994_335_023_974_6, 0.898_703_297_450_372);
        let larger = |epsilon: f64| Ok(Interval::around(laplace_delta(mu, epsilon), 1e-15));
        let exact = 1.228_457_391_729_578_8e-13;
        for is_symmetric in [true, false] {
            let found = subsampled_delta(larger, is_symmetric, rate, 2.712_934_889_185_681_7).unwrap();
            assert!(
                found.lower <= exact && exact <= found.upper && found.width() < 2e-14,
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_power_is_the_conjugate_of_delta() {
        let mu = 1.5;
        let x = 0.5 * f64::exp(-0.5 * mu);
        let power = |alpha: f64| Ok(Interval::around(laplace_power(mu, alpha), 1e-15));
        for rate in [0.01, 0.3, 0.9] {
            for alpha in [0.0, 0.01, 0.2, x, 0.3, 0.5, 0.8, 0.99, 1.0] {
                let found = subsampled_power(power, x, rate, alpha).unwrap();
                // inf over ε on a fine grid, from above.
                let delta = |epsilon: f64| {
                    let larger = |epsilon: f64| Ok(Interval::exact(laplace_delta(mu, epsilon)));
                    subsampled_delta(larger, true, rate, epsilon).unwrap().middle()
                };
                let brute = (-3000..=3000)
                    .map(|i| f64::from(i) * 5e-4)
                    .map(|epsilon| delta(epsilon) + epsilon.exp() * alpha)
                    .fold(1.0, f64::min);
                assert!(
                    found.lower <= brute + 1e-13 && brute - found.upper < 5e-5,
                    "{rate} {alpha} {found:?} {brute}"
                );
                assert!(found.width() < 1e-12, "{found:?}");
            }
        }
    }

    #[test]
    fn a_subsampled_polygon_has_the_subsampled_corners() {
        let whole = Polygon::of_epsilon_delta(1.0, 0.1);
        let rate = 0.2;
        let advantage = whole.delta(1.0).middle();
        let found = subsampled_polygon(&[(0.0, advantage), (1.0, 0.1)], rate);
        for epsilon in [-0.2, 0.0, 0.1, 0.25, 1.0] {
            let larger = |epsilon: f64| Ok(whole.delta(f64::exp(epsilon)));
            let exact = subsampled_delta(larger, true, rate, epsilon).unwrap();
            let delta = found.delta(f64::exp(epsilon));
            assert!(
                delta.lower <= exact.upper && exact.lower <= delta.upper,
                "{epsilon} {delta:?} {exact:?}"
            );
        }
    }
}
