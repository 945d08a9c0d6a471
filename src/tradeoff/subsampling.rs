//! C_p(f) = min{f_p, f_p^{-1}}** with f_p(α) = pf(α) + (1 − p)(1 − α): f of a mechanism that runs on a random part of the data.

use crate::error::Result;
use crate::interval::Interval;
use crate::special::root::solve_decreasing;
use crate::tradeoff::closed_forms::mirrored;
use crate::tradeoff::edges::Edge;
use crate::tradeoff::polygon::Polygon;

/// 1 − C_p(f)(α) for a symmetric f = 1 − `power` with the fixed point x: f_p up to x, then the line of slope −1, then f_p^{-1}
/// (Dong, Roth and Su 2022, Section 4.2).
///
/// # Errors
/// Those of `power`.
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
            lower: (rate * power.lower + rest) * (1.0 - 2.0 * f64::EPSILON),
            upper: (rate * power.upper + rest) * (1.0 + 2.0 * f64::EPSILON),
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
    if alpha <= 1.0 - at_x.upper || alpha == 1.0 {
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
/// Those of `larger`.
pub(super) fn subsampled_delta(
    larger: impl Fn(f64) -> Result<Interval>,
    is_symmetric: bool,
    rate: f64,
    epsilon: f64,
) -> Result<Interval> {
    let raised = epsilon.abs();
    let inner = (raised.exp_m1() / rate).ln_1p();
    let inner = if inner.is_finite() { inner } else { raised - rate.ln() };
    let scaled = |factor: f64, delta: Interval| Interval {
        lower: factor * delta.lower,
        upper: factor * delta.upper,
    };
    let mut found = scaled(rate, larger(inner)?);
    if !is_symmetric {
        let (factor, ratio) = (1.0 - (1.0 - rate) * raised.exp(), 1.0 + (-raised).exp_m1() / rate);
        if factor > 0.0 && ratio > 0.0 {
            found = found.max(scaled(factor, larger(-ratio.ln())?));
        }
    }
    // The slope of log δ in ε is at most 1 + 1/p or so where δ counts.
    let rounding = 8.0 * f64::EPSILON * (2.0 + raised + inner);
    let found = Interval {
        lower: found.lower * (1.0 - rounding),
        upper: found.upper * (1.0 + rounding),
    };
    Ok(mirrored(epsilon, found))
}
