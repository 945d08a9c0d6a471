//! Piecewise linear hockey-stick curves: convex hulls, interpolation and conjugates of their corners.

use crate::special::root::last_descent;

/// One (ε, δ) statement, a corner of a hockey-stick curve: P(S) ≤ δ + tQ(S) for every event S.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Edge {
    /// t = e^ε > 0, the slope of the edge of 1 − f.
    pub(crate) slope: f64,
    /// δ in [0, 1].
    pub(crate) delta: f64,
}

/// The lower convex hull of points that ascend in t, from t = `first` on.
pub(super) fn lower_hull(points: impl IntoIterator<Item = Edge>, first: f64) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for next in points {
        if next.slope < first {
            continue;
        }
        while let [.., a, b] = edges[..] {
            if (b.delta - a.delta) * (next.slope - b.slope) < (next.delta - b.delta) * (b.slope - a.slope) {
                break;
            }
            edges.pop();
        }
        if edges.last().is_none_or(|last| next.slope > last.slope) {
            edges.push(next);
        }
    }
    edges
}

/// δ at t: linear between the corners, constant beyond the last one; 1 without corners.
pub(super) fn interpolated(edges: &[Edge], t: f64) -> f64 {
    let next = edges.partition_point(|edge| edge.slope <= t);
    match (next.checked_sub(1).and_then(|i| edges.get(i)), edges.get(next)) {
        (Some(left), Some(right)) => {
            let fraction = (t - left.slope) / (right.slope - left.slope);
            left.delta * (1.0 - fraction) + right.delta * fraction
        }
        (Some(last), None) => last.delta,
        (None, Some(first)) => first.delta,
        (None, None) => 1.0,
    }
}

/// The minimum over the corners of a `value` that falls and then rises along them; 1 without corners.
///
/// Rounding makes values not quite convex and may mislead the search: [`search_rounding`] bounds by how much.
pub(super) fn minimum_over(edges: &[Edge], value: impl Fn(&Edge) -> f64) -> f64 {
    edges.get(last_descent(edges, &value)).map_or(1.0, value)
}

/// Bound on how far [`minimum_over`] may be above the minimum, relative to values of at most 1.
///
/// Each of the comparisons errs by the rounding of two values, and the values between the point found and the minimum rise by at most
/// that from one corner to the next.
pub(super) fn search_rounding(edges: &[Edge]) -> f64 {
    f64::EPSILON * (8.0 + edges.len() as f64)
}

/// The edges of the lower convex hull of points (α, f(α)) that ascend in α, the flattest first.
pub(super) fn edges_of_points(points: &[(f64, f64)]) -> Vec<Edge> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., (a0, b0), (a1, b1)] = hull[..] {
            if (b1 - b0) * (point.0 - a0) < (point.1 - b0) * (a1 - a0) {
                break;
            }
            hull.pop();
        }
        if hull.last().is_some_and(|last| last.0 == point.0) {
            hull.pop(); // A jump: the lower point counts.
        }
        hull.push(point);
    }
    let mut edges = Vec::new();
    for pair in hull.windows(2) {
        let slope = (pair[0].1 - pair[1].1) / (pair[1].0 - pair[0].0);
        // Where the distance in α is too small for a finite slope, the curve jumps.
        if slope > 0.0 && slope.is_finite() {
            let delta = (1.0 - pair[0].1 - slope * pair[0].0).clamp(0.0, 1.0);
            edges.push(Edge { slope, delta });
        }
    }
    edges.reverse();
    edges
}

/// sup_α F(α) − tα for t ≥ 1, F being the concave hull of `points`, which ascend in α from 0: linear between the slopes of F.
///
/// Slopes above `max_slope` are left out: an upper bound stays constant from there on, a lower bound continues at `at_infinity`.
pub(super) fn conjugate(points: &[(f64, f64)], at_infinity: Option<f64>, max_slope: f64) -> Vec<Edge> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for &next in points {
        while let [.., a, b] = corners[..] {
            if (b.1 - a.1) * (next.0 - b.0) > (next.1 - b.1) * (b.0 - a.0) {
                break;
            }
            corners.pop();
        }
        if corners.last().is_none_or(|last| next.0 > last.0) {
            corners.push(next);
        }
    }
    let largest = corners.iter().map(|corner| corner.1 - corner.0).fold(0.0, f64::max);
    let mut edges = vec![Edge {
        slope: 1.0,
        delta: largest,
    }];
    for pair in corners.windows(2).rev() {
        let slope = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
        if slope > edges.last().map_or(1.0, |edge| edge.slope) && slope < max_slope {
            edges.push(Edge {
                slope,
                delta: (pair[0].1 - slope * pair[0].0).max(0.0),
            });
        }
    }
    if let Some(delta) = at_infinity {
        edges.push(Edge {
            slope: max_slope,
            delta,
        });
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(slope: f64, delta: f64) -> Edge {
        Edge { slope, delta }
    }

    #[test]
    fn a_hull_is_convex_and_below_all_points() {
        let points: Vec<Edge> = (0..60)
            .map(|i| {
                let t = 1.0 + f64::from(i) * 0.1;
                edge(t, 1.0 / t + 0.05 * f64::from(i * i % 7))
            })
            .collect();
        let hull = lower_hull(points.iter().copied(), 1.3);
        assert!(hull[0].slope >= 1.3 && hull.len() > 2);
        for point in points.iter().filter(|point| point.slope >= 1.3) {
            assert!(interpolated(&hull, point.slope) <= point.delta + 1e-15);
        }
        for corner in hull.windows(3) {
            let slope = |a: Edge, b: Edge| (b.delta - a.delta) / (b.slope - a.slope);
            assert!(slope(corner[0], corner[1]) < slope(corner[1], corner[2]));
        }
        // Corners are points: nothing lower would do.
        assert!(hull.iter().all(|corner| points.contains(corner)));
    }

    #[test]
    fn the_minimum_over_corners_is_within_its_rounding_of_the_smallest_value() {
        // Lines through (0.5, 0.3) up to one rounding: neighbouring values tie, so that comparisons are decided by rounding.
        let edges: Vec<Edge> = (0..500)
            .map(|i| {
                let slope = 0.2 + f64::from(i) * 1e-4 / 3.0;
                edge(slope, 0.3 - 0.5 * slope)
            })
            .collect();
        let value = |edge: &Edge| edge.delta + edge.slope * 0.5;
        let smallest = edges.iter().map(value).fold(f64::INFINITY, f64::min);
        let found = minimum_over(&edges, value);
        assert!(found >= smallest && found - smallest <= search_rounding(&edges));
        assert_eq!(minimum_over(&[], value), 1.0);
    }

    #[test]
    fn the_conjugate_of_corners_is_the_supremum_over_them() {
        let points = [
            (0.0, 0.05),
            (0.01, 0.2),
            (0.05, 0.45),
            (0.06, 0.46),
            (0.3, 0.8),
            (1.0, 1.0),
        ];
        let edges = conjugate(&points, Some(0.05), 1e9);
        for t in [1.0, 1.2, 3.0, 6.0, 14.9, 15.0, 80.0] {
            let supremum = points.iter().map(|(a, f)| f - t * a).fold(f64::NEG_INFINITY, f64::max);
            assert!((interpolated(&edges, t) - supremum).abs() < 1e-12, "{t}");
        }
    }
}
