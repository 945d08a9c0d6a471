//! A curve between two polygons: what makes a factor of a tensor product of a curve without a pair of laws of its own.
//!
//! The hockey-stick curve is evaluated at knots t_j until its chords are within 1e-10 of it, or within 1e-8 or 1e-6 where that
//! takes too many. The chords give a curve from above
//! (connect the dots: Doroshenko et al. 2022), hence a polygon below f. A convex function lies above each chord outside its
//! interval, and above the extended neighbouring chords inside: no more than e_j below the chord. The largest of all chords,
//! each lowered by its e_j, is therefore a curve from below, hence a polygon above f.

use super::convex::Bounds;
use super::polygon::{Edge, Polygon};
use crate::error::{Error, Result};

/// How far a chord may be above the curve: the first that takes few enough knots.
const TOLERANCES: [f64; 3] = [1e-10, 1e-8, 1e-6];
/// Tails of δ below this are cut: the curve stays where it is.
const NEGLIGIBLE: f64 = 1e-13;
/// Intervals to begin with.
const FIRST: usize = 64;
/// Knots at most.
const MOST_KNOTS: usize = 12_000;

/// Polygons on both sides of a trade-off function.
#[derive(Debug, Clone, PartialEq)]
pub struct Between {
    /// Nowhere above f.
    pub below: Polygon,
    /// Nowhere below f.
    pub above: Polygon,
}

impl Between {
    /// Both sides exchanged with their inverses.
    pub fn inverted(&self) -> Self {
        Self {
            below: self.below.inverted(),
            above: self.above.inverted(),
        }
    }
}

/// Polygons on both sides of the trade-off function with the hockey-stick curve `delta`, which falls to `at_infinity`; of a
/// `symmetric` one only ε ≥ 0 is asked for.
///
/// # Errors
/// Those of `delta`; [`Error::Mismatch`] for a curve that takes too many edges.
pub fn straightened(
    symmetric: bool,
    at_infinity: f64,
    mut delta: impl FnMut(f64) -> Result<Bounds>,
) -> Result<Between> {
    let mut farthest = 1.0;
    while delta(farthest)?.upper > at_infinity + NEGLIGIBLE && farthest < 600.0 {
        farthest *= 1.5;
    }
    let mut nearest = 0.0;
    if !symmetric {
        nearest = -1.0;
        // Towards t = 0 the curve nears 1 − κ't.
        while delta(nearest)?.upper < 1.0 - 1e-12 && nearest > -600.0 {
            nearest *= 1.5;
        }
    }
    let mut knots: Vec<(f64, Bounds)> = Vec::new();
    for i in 0..=FIRST {
        let epsilon = nearest + (farthest - nearest) * i as f64 / FIRST as f64;
        knots.push((epsilon, delta(epsilon)?));
    }
    let mut refined = None;
    for tolerance in TOLERANCES {
        refined = refine(&knots, tolerance, &mut delta)?;
        if refined.is_some() {
            break;
        }
    }
    let Some(done) = refined else {
        return Err(Error::Mismatch(format!(
            "a curve of more than {MOST_KNOTS} edges cannot be composed: compose before other operations"
        )));
    };
    let knots: Vec<(f64, Bounds)> = done
        .into_iter()
        .map(|(epsilon, found)| (epsilon.exp(), found))
        .collect();
    let (upper, lower) = (hull(&knots), lowered_chords(&knots));
    let polygon = |edges: Vec<Edge>| {
        if symmetric {
            Polygon::symmetric(&edges)
        } else {
            Polygon::of_edges(edges)
        }
    };
    Ok(Between {
        below: polygon(upper),
        above: polygon(lower),
    })
}

/// Halves intervals whose chord is too far above their middle; `None` if that takes too many knots.
fn refine(
    knots: &[(f64, Bounds)],
    tolerance: f64,
    delta: &mut impl FnMut(f64) -> Result<Bounds>,
) -> Result<Option<Vec<(f64, Bounds)>>> {
    let mut done: Vec<(f64, Bounds)> = vec![knots[0]];
    let mut open: Vec<(f64, Bounds)> = knots.iter().skip(1).rev().copied().collect();
    while let (Some(&left), Some(&right)) = (done.last(), open.last()) {
        let middle = 0.5 * (left.0 + right.0);
        let found = delta(middle)?;
        let (a, t, b) = (left.0.exp(), middle.exp(), right.0.exp());
        let share = (t - a) / (b - a);
        let chord = left.1.upper * (1.0 - share) + right.1.upper * share;
        // A chord's error is a quarter of the one over twice the width.
        if chord - found.upper > 4.0 * tolerance && b - a > 1e-9 * a {
            open.push((middle, found));
        } else {
            done.push((middle, found));
            done.push(right);
            open.pop();
        }
        if done.len() + open.len() > MOST_KNOTS {
            return Ok(None);
        }
    }
    Ok(Some(done))
}

/// The largest convex function below the upper bounds at the knots, which the curve is below too.
fn hull(knots: &[(f64, Bounds)]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::with_capacity(knots.len());
    for &(slope, found) in knots {
        let next = Edge {
            slope,
            delta: found.upper,
        };
        while let [.., first, second] = edges[..] {
            let (rise, run) = (second.delta - first.delta, second.slope - first.slope);
            if rise * (next.slope - first.slope) < (next.delta - first.delta) * run {
                break;
            }
            edges.pop();
        }
        edges.push(next);
    }
    edges
}

/// The corners of the largest of all lowered chords.
fn lowered_chords(knots: &[(f64, Bounds)]) -> Vec<Edge> {
    // Chords as (slope, value at 0), ascending in the slope.
    let chord = |left: &(f64, Bounds), right: &(f64, Bounds)| {
        let slope = (right.1.lower - left.1.lower) / (right.0 - left.0);
        (slope, left.1.lower - slope * left.0)
    };
    let chords: Vec<(f64, f64)> = knots.windows(2).map(|pair| chord(&pair[0], &pair[1])).collect();
    let noise = knots.iter().map(|knot| knot.1.upper - knot.1.lower).fold(0.0, f64::max);
    let mut lines: Vec<(f64, f64)> = Vec::new();
    for (i, &(slope, at_zero)) in chords.iter().enumerate() {
        let (a, b) = (knots[i].0, knots[i + 1].0);
        let value = |line: (f64, f64), t: f64| line.1 + line.0 * t;
        let before = if i > 0 { Some(chords[i - 1]) } else { None };
        let error = match (before, chords.get(i + 1)) {
            (Some(first), Some(&second)) if second.0 > first.0 => {
                let meeting = ((first.1 - second.1) / (second.0 - first.0)).clamp(a, b);
                value((slope, at_zero), meeting) - value(first, meeting).max(value(second, meeting))
            }
            // At an end: below the chord's own fall.
            _ => (-slope).max(0.0) * (b - a),
        };
        // Convexity of the true curve carries the noise of a knot to both neighbouring chords.
        let line = (slope, at_zero - error.max(0.0) - 4.0 * noise - 1e-16);
        while let [.., first, second] = lines[..] {
            let meeting = (first.1 - line.1) / (line.0 - first.0);
            if line.0 > second.0 && value(second, meeting) > value(first, meeting) {
                break;
            }
            lines.pop();
        }
        if lines.last().is_none_or(|last| line.0 > last.0) {
            lines.push(line);
        }
    }
    let (first, last) = (knots[0].0, knots[knots.len() - 1].0);
    let mut edges = Vec::with_capacity(lines.len() + 1);
    if let Some(line) = lines.first() {
        edges.push(Edge {
            slope: first,
            delta: (line.1 + line.0 * first).clamp(0.0, 1.0),
        });
    }
    for pair in lines.windows(2) {
        let slope = (pair[0].1 - pair[1].1) / (pair[1].0 - pair[0].0);
        let delta = pair[0].1 + pair[0].0 * slope;
        if slope > first && slope < last && delta > 0.0 {
            edges.push(Edge { slope, delta });
        }
    }
    // The last line down to 0.
    if let Some(line) = lines.last() {
        let slope = -line.1 / line.0;
        if line.0 < 0.0 && slope.is_finite() && edges.last().is_some_and(|edge| slope > edge.slope) {
            edges.push(Edge { slope, delta: 0.0 });
        }
    }
    edges
}
