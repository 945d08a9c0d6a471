//! A hockey-stick curve between two with straight edges: what is known of a curve from finitely many points of it.
//!
//! δ(t) = sup_α F(α) − tα and F(α) = 1 − f(α) = inf_t δ(t) + tα are each other's conjugates, δ convex and F concave. Enclosures at
//! points of either determine both up to second order in the distance of the points:
//!
//! * chords of δ lie above it; the lines through a point and its neighbour on the other side lie below it, beyond that point
//!   (slopes from the upper bound of the one to the lower bound of the other, so that errors of the values do no harm);
//! * chords of F lie below it, and such lines above it.
//!
//! The convex hull of the bound from below, and the hull of that from above, are the two curves. Only t ≥ 1 is kept, of the curve
//! and of that of the inverse: δ(1/t) = 1 − 1/t + δ'(t)/t.

use crate::error::Result;
use crate::stopping::carried;
use crate::threads::in_pool;
use crate::tradeoff::convex::Bounds;
use crate::tradeoff::polygon::Edge;
use rayon::prelude::*;

/// Points that are looked at first.
const FIRST: usize = 64;
/// Points that are looked at altogether, about.
const MOST_POINTS: usize = 1 << 16;
/// How far a chord may be off, over √δ.
const GOAL: f64 = 5e-11;
/// δ that is cut off: the curve stays where it is.
const NEGLIGIBLE: f64 = 1e-19;
/// Largest ε that is looked at.
const FARTHEST: f64 = 640.0;
/// Smallest α that is looked at.
const LEAST_ALPHA: f64 = 1e-60;
/// Part of the standard deviation within which masses are in one place.
const SAME_PLACE: f64 = 1e-5;
/// Intervals are not cut further beyond this part of the range.
const SHORTEST: f64 = 1e-9;

/// δ for t ≥ 1: straight between the points, ascending in t from 1 on, and constant beyond the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Above the curve, convex.
    pub upper: Vec<Edge>,
    /// Below the curve, convex.
    pub lower: Vec<Edge>,
}

/// What is known of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Between {
    /// Of the curve, and of the inverse where that is another.
    forward: Branch,
    backward: Option<Branch>,
    /// (μ such that f ≥ G_μ, ε such that f ≥ f_{ε,0}, 1 − f(0)) and the same of the inverse.
    limits: [(f64, f64, f64); 2],
}

/// An x (ε or α) and what is known there.
type Sample = (f64, Bounds);
/// A question with a certified answer.
pub(super) type Question<'a> = &'a (dyn Fn(f64) -> Result<Bounds> + Sync);

impl Branch {
    /// From δ at ε ≥ 0; `other` is that of the inverse. `parallel` says that questions do not wait for each other.
    ///
    /// # Errors
    /// Those of the questions.
    pub fn of_deltas(
        delta: Question<'_>,
        other: Question<'_>,
        at_infinity: Bounds,
        parallel: bool,
    ) -> Result<Self> {
        let mut farthest = 1.0f64 / 4096.0;
        let floor = at_infinity.upper + NEGLIGIBLE;
        while farthest < FARTHEST && delta(farthest)?.upper > floor {
            farthest *= 2.0;
        }
        farthest = farthest.min(FARTHEST);
        let start: Vec<f64> = (0..=FIRST).map(|i| farthest * i as f64 / FIRST as f64).collect();
        let judge = |left: &Sample, middle: &Sample, right: &Sample| {
            let (wide, near) = ((right.0 - left.0).exp_m1(), (middle.0 - left.0).exp_m1());
            let chord = left.1.upper + (right.1.upper - left.1.upper) * (near / wide);
            let noise = 2.0 * (middle.1.upper - middle.1.lower) + 4.0 * f64::EPSILON * middle.1.upper;
            let allowed = GOAL * middle.1.upper.sqrt();
            ratio(
                chord - middle.1.upper - noise,
                allowed,
                right.0 - left.0 > SHORTEST * farthest,
            )
        };
        let samples = refined(&start, delta, judge, parallel)?;
        // A point on the other side of t = 1, to continue the first chord from.
        let step = samples.get(1).map_or(1.0, |sample| sample.0);
        let beyond = other(step)?;
        let t = (-step).exp();
        let left = Edge {
            slope: t,
            delta: -(-step).exp_m1() + t * beyond.upper + 2.0 * f64::EPSILON,
        };
        Ok(Self {
            upper: hull(
                samples.iter().map(|known| Edge {
                    slope: known.0.exp(),
                    delta: known.1.upper,
                }),
                1.0,
            ),
            lower: below(left, &samples, at_infinity.lower),
        })
    }

    /// From F at α in [0, 1], where `at_zero` is F(0); of a symmetric curve only slopes of 1 and more are looked at closely.
    ///
    /// # Errors
    /// Those of the questions.
    pub fn of_powers(power: Question<'_>, at_zero: Bounds, is_symmetric: bool, parallel: bool) -> Result<Self> {
        let mut start = vec![1.0];
        let mut alpha = 1.0f64;
        while alpha > LEAST_ALPHA && power(alpha)?.upper > at_zero.upper + NEGLIGIBLE {
            let next = alpha * if alpha > 1e-3 { 0.9 } else { 0.7 };
            start.push(next);
            alpha = next;
        }
        start.reverse();
        let judge = |left: &Sample, middle: &Sample, right: &Sample| {
            let run = right.0 - left.0;
            let slope = (right.1.upper - left.1.upper) / run;
            if is_symmetric && left.0 + left.1.lower > 1.0 {
                return 0.0; // beyond the slope of 1
            }
            let chord = 0.5 * (left.1.upper + right.1.upper);
            let noise = 2.0 * (middle.1.upper - middle.1.lower) + 4.0 * f64::EPSILON * middle.1.upper;
            let delta = (middle.1.upper - slope * middle.0).max(0.0);
            ratio(
                middle.1.upper - chord - noise,
                GOAL * delta.sqrt(),
                run > SHORTEST * right.0,
            )
        };
        let samples = refined(&start, power, judge, parallel)?;
        let mut chords = vec![(0.0, at_zero.lower)];
        chords.extend(samples.iter().map(|&(alpha, known)| (alpha, known.lower)));
        Ok(Self {
            upper: conjugate(&above(&samples), None),
            lower: conjugate(&chords, Some(at_zero.lower)),
        })
    }

    /// δ at t ≥ 1.
    fn delta(&self, t: f64) -> Bounds {
        Bounds {
            lower: interpolated(&self.lower, t) * (1.0 - 8.0 * f64::EPSILON),
            upper: interpolated(&self.upper, t) * (1.0 + 8.0 * f64::EPSILON),
        }
    }

    /// inf over t ≥ 1 of δ(t) + tα.
    fn power(&self, alpha: f64) -> Bounds {
        let (upper, _) = least(&self.upper, |edge| edge.delta + edge.slope * alpha);
        // A search among values that rounding makes not quite convex may end beside the least.
        let (lower, rounding) = least(&self.lower, |edge| edge.delta + edge.slope * alpha);
        Bounds {
            lower: lower * (1.0 - rounding),
            upper: upper * (1.0 + 4.0 * f64::EPSILON),
        }
    }

    /// sup over u ≥ 1 of (1 − δ(u) − α)/u: what the inverse makes of t = 1/u.
    fn mirrored_power(&self, alpha: f64) -> Bounds {
        let (upper, _) = least(&self.upper, |edge| 1.0 - (1.0 - edge.delta - alpha) / edge.slope);
        let (lower, rounding) = least(&self.lower, |edge| 1.0 - (1.0 - edge.delta - alpha) / edge.slope);
        Bounds {
            lower: lower - rounding,
            upper: (upper + 4.0 * f64::EPSILON).min(1.0),
        }
    }
}

impl Between {
    /// From both branches, the second one `None` for a symmetric curve, and what is known of its ends.
    pub fn new(forward: Branch, backward: Option<Branch>, limits: [(f64, f64, f64); 2]) -> Self {
        Self {
            forward,
            backward,
            limits,
        }
    }

    /// The branches of the curve and of its inverse.
    pub fn branches(&self) -> [&Branch; 2] {
        [&self.forward, self.backward.as_ref().unwrap_or(&self.forward)]
    }

    /// True if the curve is its own inverse.
    pub fn is_symmetric(&self) -> bool {
        self.backward.is_none()
    }

    /// That of the inverse.
    pub fn inverted(&self) -> Self {
        match &self.backward {
            None => self.clone(),
            Some(backward) => Self {
                forward: backward.clone(),
                backward: Some(self.forward.clone()),
                limits: [self.limits[1], self.limits[0]],
            },
        }
    }

    /// (μ such that f ≥ G_μ, ε such that f ≥ f_{ε,0}, a bound on 1 − f(0)).
    pub fn limits(&self) -> (f64, f64, f64) {
        self.limits[0]
    }

    /// P's masses at losses other than 0, about; of Q's at those below 0.
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

    /// About the variance of the loss under P, without what tells all.
    pub fn variance(&self) -> f64 {
        let masses = self.masses();
        let mean: f64 = masses.iter().map(|(loss, mass)| mass * loss).sum();
        let square: f64 = masses.iter().map(|(loss, mass)| mass * loss * loss).sum();
        (square - mean * mean).max(0.0)
    }

    /// The largest mass that is in one place other than 0, as far as the points can tell, and the |loss| there.
    pub fn heaviest(&self) -> (f64, f64) {
        let mut masses = self.masses();
        masses.sort_by(|a, b| a.0.total_cmp(&b.0));
        let reach = SAME_PLACE * self.variance().sqrt();
        let (mut best, mut start, mut sum) = ((0.0, 1.0), 0, 0.0);
        for end in 0..masses.len() {
            sum += masses[end].1;
            while masses[end].0 - masses[start].0 > reach {
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
    pub fn delta(&self, epsilon: f64) -> Bounds {
        let [forward, backward] = self.branches();
        if epsilon >= 0.0 {
            return forward.delta(epsilon.exp());
        }
        let found = backward.delta((-epsilon).exp());
        let (gap, t) = (-epsilon.exp_m1(), epsilon.exp());
        Bounds {
            lower: (gap + t * found.lower) * (1.0 - 4.0 * f64::EPSILON),
            upper: (gap + t * found.upper) * (1.0 + 4.0 * f64::EPSILON),
        }
    }

    /// F(α).
    pub fn power(&self, alpha: f64) -> Bounds {
        let [forward, backward] = self.branches();
        forward.power(alpha).min(backward.mirrored_power(alpha))
    }
}

/// How often a chord is too far off; 0 if it need not be looked at again. A quarter of it is left after cutting in half.
fn ratio(error: f64, allowed: f64, is_long: bool) -> f64 {
    if is_long && error > NEGLIGIBLE {
        error / (4.0 * allowed)
    } else {
        0.0
    }
}

/// Answers at `start`, which ascends, and at the middles of intervals until `judge` finds all chords close enough.
fn refined(
    start: &[f64],
    ask: Question<'_>,
    judge: impl Fn(&Sample, &Sample, &Sample) -> f64,
    parallel: bool,
) -> Result<Vec<Sample>> {
    let answers = |all: &[f64]| -> Result<Vec<Sample>> {
        let one = carried(|&x: &f64| ask(x).map(|found| (x, found)));
        if parallel {
            in_pool(|| all.par_iter().map(one).collect())
        } else {
            all.iter().map(one).collect()
        }
    };
    let mut known = answers(start)?;
    let mut open: Vec<(Sample, Sample)> = known.windows(2).map(|pair| (pair[0], pair[1])).collect();
    while !open.is_empty() {
        let middles: Vec<f64> = open.iter().map(|(left, right)| 0.5 * (left.0 + right.0)).collect();
        let found = answers(&middles)?;
        let mut next = Vec::new();
        for ((left, right), middle) in open.iter().zip(&found) {
            let excess = judge(left, middle, right);
            if excess > 1.0 {
                next.push((excess, (*left, *middle)));
                next.push((excess, (*middle, *right)));
            }
        }
        known.extend(found);
        let room = MOST_POINTS.saturating_sub(known.len());
        if next.len() > room {
            next.sort_by(|a, b| b.0.total_cmp(&a.0));
            next.truncate(room);
        }
        open = next.into_iter().map(|(_, interval)| interval).collect();
    }
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(known)
}

/// The convex hull from below of points that ascend in t, from `first` on.
fn hull(points: impl IntoIterator<Item = Edge>, first: f64) -> Vec<Edge> {
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

/// A convex curve below δ from t = 1 on: lines through neighbours, where they meet.
fn below(left: Edge, samples: &[Sample], at_infinity: f64) -> Vec<Edge> {
    let known: Vec<(f64, Bounds)> = samples.iter().map(|&(epsilon, found)| (epsilon.exp(), found)).collect();
    let mut points: Vec<Edge> = Vec::with_capacity(2 * known.len());
    let mut before = (left.slope, left.delta);
    for (i, &(t, found)) in known.iter().enumerate() {
        points.push(Edge {
            slope: t,
            delta: found.lower,
        });
        let Some(&(next, there)) = known.get(i + 1) else { break };
        // From the left, and from the right; δ falls.
        let falling = ((found.lower - before.1) / (t - before.0)).min(0.0);
        let rising = known
            .get(i + 2)
            .map_or(0.0, |&(after, value)| (value.upper - there.lower) / (after - next))
            .min(0.0);
        let run = next - t;
        // found.lower + falling·w = there.lower − rising·(run − w)
        let meeting = (there.lower - rising * run - found.lower) / (falling - rising);
        if meeting > 0.0 && meeting < run {
            points.push(Edge {
                slope: t + meeting,
                delta: (found.lower + falling * meeting) * (1.0 - 8.0 * f64::EPSILON),
            });
        }
        before = (t, found.upper);
    }
    let mut edges = hull(points, 1.0);
    if let Some(last) = edges.last_mut() {
        last.delta = last.delta.min(at_infinity.max(0.0));
    }
    for edge in &mut edges {
        edge.delta = edge.delta.max(0.0);
    }
    edges
}

/// A concave curve above F: lines through neighbours, where they meet.
fn above(samples: &[Sample]) -> Vec<(f64, f64)> {
    let mut points = vec![(0.0, samples.first().map_or(1.0, |sample| sample.1.upper))];
    for (i, &(alpha, found)) in samples.iter().enumerate() {
        points.push((alpha, found.upper));
        let Some(&(next, there)) = samples.get(i + 1) else {
            break;
        };
        let rising = match i.checked_sub(1).and_then(|before| samples.get(before)) {
            Some(&(before, value)) => (found.upper - value.lower) / (alpha - before),
            None => (found.upper - 0.0) / alpha,
        };
        let flat = samples
            .get(i + 2)
            .map_or(0.0, |&(after, value)| (value.lower - there.upper) / (after - next))
            .max(0.0);
        let run = next - alpha;
        // found.upper + rising·w = there.upper − flat·(run − w)
        let meeting = (there.upper - flat * run - found.upper) / (rising - flat);
        if meeting > 0.0 && meeting < run {
            points.push((
                alpha + meeting,
                (found.upper + rising * meeting) * (1.0 + 8.0 * f64::EPSILON),
            ));
        }
    }
    points
}

/// sup_α F(α) − tα for t ≥ 1, F being the concave hull of `points`, which ascend in α from 0: straight between the slopes of F.
///
/// Slopes out of range are left out: a bound from above stays where it is, one from below goes on at `at_infinity`.
fn conjugate(points: &[(f64, f64)], at_infinity: Option<f64>) -> Vec<Edge> {
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
        if slope > edges.last().map_or(1.0, |edge| edge.slope) && slope < FARTHEST.exp() {
            edges.push(Edge {
                slope,
                delta: (pair[0].1 - slope * pair[0].0).max(0.0),
            });
        }
    }
    if let Some(delta) = at_infinity {
        edges.push(Edge {
            slope: FARTHEST.exp(),
            delta,
        });
    }
    edges
}

fn interpolated(edges: &[Edge], t: f64) -> f64 {
    let next = edges.partition_point(|edge| edge.slope <= t);
    match (next.checked_sub(1).and_then(|i| edges.get(i)), edges.get(next)) {
        (Some(left), Some(right)) => {
            let share = (t - left.slope) / (right.slope - left.slope);
            left.delta * (1.0 - share) + right.delta * share
        }
        (Some(last), None) => last.delta,
        (None, Some(first)) => first.delta,
        (None, None) => 1.0,
    }
}

/// The least of values that fall and then rise, and a bound on how far rounding may have led the search astray, relative to values
/// of up to 1.
fn least(edges: &[Edge], value: impl Fn(&Edge) -> f64) -> (f64, f64) {
    let (mut low, mut high) = (0, edges.len());
    while high - low > 1 {
        let middle = (low + high) / 2;
        if value(&edges[middle]) <= value(&edges[middle - 1]) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (
        edges.get(low).map_or(1.0, value),
        f64::EPSILON * (8.0 + edges.len() as f64),
    )
}
