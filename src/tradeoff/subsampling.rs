//! C_p(f), from f.

use crate::error::Result;
use crate::special::normal::log_upper_tail;
use crate::special::root::solve_decreasing;
use crate::tradeoff::closed_forms::mirrored;
use crate::tradeoff::convex::Bounds;
use crate::tradeoff::curve::{Node, TradeoffCurve};
use crate::tradeoff::polygon::{Edge, Polygon};

/// Below this distance the fixed point of a Gaussian is a normal number.
const MOST_FIXED: f64 = 60.0;

impl TradeoffCurve {
    /// α with f(α) = α and f'(α) = −1 there, where a closed form is known.
    pub(crate) fn fixed_point(&self) -> Option<f64> {
        match &*self.0 {
            Node::Gaussian { distance } if *distance < MOST_FIXED => Some(log_upper_tail(0.5 * distance).exp()),
            Node::Laplace { distance } => Some(0.5 * (-0.5 * distance).exp()),
            _ => None,
        }
    }

    /// 1 − C_p(f)(α) for a symmetric f with a known fixed point x: f_p up to x, then the line of slope −1, then f_p^{-1}
    /// (Dong, Roth and Su 2022, Section 4.2).
    pub(crate) fn subsampled_power(&self, rate: f64, alpha: f64) -> Result<Bounds> {
        let x = self.fixed_point().unwrap_or(0.0);
        let mixed = |alpha: f64| -> Result<Bounds> {
            let power = self.power(alpha)?;
            let rest = (1.0 - rate) * alpha;
            Ok(Bounds {
                lower: (rate * power.lower + rest) * (1.0 - 2.0 * f64::EPSILON),
                upper: (rate * power.upper + rest) * (1.0 + 2.0 * f64::EPSILON),
            })
        };
        if alpha <= x {
            return mixed(alpha);
        }
        let at_x = mixed(x)?;
        let line = Bounds {
            lower: at_x.lower + (alpha - x) * (1.0 - 2.0 * f64::EPSILON) - f64::EPSILON,
            upper: at_x.upper + (alpha - x) * (1.0 + 2.0 * f64::EPSILON) + f64::EPSILON,
        };
        if alpha <= 1.0 - at_x.upper || alpha == 1.0 {
            return Ok(line);
        }
        // t with f_p(t) = α; f_p falls faster than t grows, so that an error of f_p is one of t at most.
        let t = solve_decreasing(0.0, x, f64::EPSILON * x, |t| {
            mixed(t).map(|power| (1.0 - power.lower) - alpha)
        })?;
        let power = mixed(t)?;
        let error = (alpha - (1.0 - power.upper))
            .abs()
            .max((alpha - (1.0 - power.lower)).abs())
            + 4.0 * f64::EPSILON;
        Ok(Bounds {
            lower: (1.0 - t) - error,
            upper: ((1.0 - t) + error).min(line.upper),
        })
    }
}

/// C_p of a symmetric polygon with the points (ε ≥ 0, δ), of which the first has ε = 0.
pub(crate) fn subsampled(steep: &[(f64, f64)], rate: f64) -> Polygon {
    let edge = |&(epsilon, delta): &(f64, f64)| Edge {
        slope: 1.0 + rate * epsilon.exp_m1(),
        delta: rate * delta,
    };
    let mut edges: Vec<Edge> = steep.iter().map(edge).collect();
    edges.dedup_by(|next, first| next.slope <= first.slope);
    Polygon::symmetric(&edges)
}

/// δ of C_p(f): p·δ(log(1 + (e^ε − 1)/p)) for ε ≥ 0, of f or its inverse; below, by the symmetry of C_p(f).
///
/// f_p^{-1} has (1 − (1 − p)e^ε)·δ(log(1/(1 − (1 − e^{−ε})/p))), which is no more where f is symmetric: it is that of "add"
/// against "remove" after one step.
pub(crate) fn subsampled_delta(of: &TradeoffCurve, rate: f64, epsilon: f64) -> Result<Bounds> {
    let raised = epsilon.abs();
    let inner = (raised.exp_m1() / rate).ln_1p();
    let inner = if inner.is_finite() { inner } else { raised - rate.ln() };
    let mut found = of.delta(inner)?;
    if !of.is_symmetric() {
        found = found.max(of.inverse()?.delta(inner)?);
    }
    let mut found = Bounds {
        lower: rate * found.lower,
        upper: rate * found.upper,
    };
    if !of.is_symmetric() {
        let (left, below) = (1.0 - (1.0 - rate) * raised.exp(), 1.0 + (-raised).exp_m1() / rate);
        if left > 0.0 && below > 0.0 {
            let other = of.delta(-below.ln())?.max(of.inverse()?.delta(-below.ln())?);
            found = found.max(Bounds {
                lower: left * other.lower,
                upper: left * other.upper,
            });
        }
    }
    // The slope of log δ in ε is at most 1 + 1/p or so where δ counts.
    let rounding = 8.0 * f64::EPSILON * (2.0 + raised + inner);
    let found = Bounds {
        lower: found.lower * (1.0 - rounding),
        upper: found.upper * (1.0 + rounding),
    };
    Ok(mirrored(epsilon, found))
}
