//! Certified bounds on a hockey-stick curve for t ≥ 1, from finitely many values of δ or of the power.
//!
//! δ(t) = sup_α F(α) − tα and F(α) = 1 − f(α) = inf_t δ(t) + tα are each other's conjugates, δ convex and F concave. Intervals at
//! points of either determine both up to second order in the distance of the points:
//!
//! * chords of δ lie above it; beyond a point, the line through this point and its neighbour on the other side lies below it
//!   (slopes from the upper bound of one to the lower bound of the other, so that errors of the values are harmless);
//! * chords of F lie below it, and such lines above it.
//!
//! The convex hulls of the lower bound and of the upper bound are the two curves.

use crate::error::Result;
use crate::interval::Interval;
use crate::stopping::carried;
use crate::threads::in_pool;
use crate::tradeoff::edges::{Edge, conjugate, interpolated, lower_hull, minimum_over, search_rounding};
use rayon::prelude::*;

/// Intervals of ε of the first pass, evenly spaced. Refinement bisects them, so that twice as many cost time and gain nothing.
const FIRST_INTERVALS: usize = 64;
/// Bound on the number of values of one branch: the engine takes some 20 µs for each. At the limit the intervals with the largest
/// errors are refined first; the bounds stay valid and are wider.
const MAX_POINTS: usize = 1 << 16;
/// Distance of a chord from the curve that refinement aims at, over √δ: the sum over a thousand factors then stays below 1e-7.
const CHORD_GOAL: f64 = 5e-11;
/// Where δ is within this of its limit the curve is taken as constant; it is below all rounding of what is composed.
const NEGLIGIBLE: f64 = 1e-19;
/// Largest ε of a point: e^ε is far from overflow, which begins at 709.
const MAX_EPSILON: f64 = 640.0;
/// Smallest α of a point. Only slopes above e^130 have their optimum at smaller α, and δ there equals 1 − f(0) to all digits.
const MIN_ALPHA: f64 = 1e-60;
/// The ε from which the farthest one is searched, by doubling.
const FIRST_EPSILON: f64 = 1.0 / 4096.0;
/// Quotients of neighbouring α of the first samples: above `COMMON_ALPHA` and below it, where only logarithms matter.
const COMMON_ALPHA: f64 = 1e-3;
const COMMON_RATIO: f64 = 0.9;
const RARE_RATIO: f64 = 0.7;
/// Intervals below this fraction of the range are not bisected again: values there differ by rounding only.
const MIN_INTERVAL: f64 = 1e-9;

/// Bounds on δ for t ≥ 1, linear between corners that ascend in t from 1, and constant beyond the last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Branch {
    /// Above the curve, convex.
    pub(crate) upper: Vec<Edge>,
    /// Below the curve, convex.
    pub(crate) lower: Vec<Edge>,
}

/// An argument (ε or α) and the interval of the value there.
type Sample = (f64, Interval);
/// A function with certified values.
pub(super) type Certified<'a> = &'a (dyn Fn(f64) -> Result<Interval> + Sync);

impl Branch {
    /// Bounds from δ at ε ≥ 0; `of_inverse` is δ of the inverse. With `parallel`, values are computed in parallel.
    ///
    /// # Errors
    /// The errors of `delta` and `of_inverse`.
    pub(crate) fn of_deltas(
        delta: Certified<'_>,
        of_inverse: Certified<'_>,
        at_infinity: Interval,
        parallel: bool,
    ) -> Result<Self> {
        let mut farthest = FIRST_EPSILON;
        let floor = at_infinity.upper + NEGLIGIBLE;
        while farthest < MAX_EPSILON && delta(farthest)?.upper > floor {
            farthest *= 2.0;
        }
        farthest = farthest.min(MAX_EPSILON);
        let start: Vec<f64> = (0..=FIRST_INTERVALS)
            .map(|i| farthest * i as f64 / FIRST_INTERVALS as f64)
            .collect();
        let excess = |left: &Sample, middle: &Sample, right: &Sample| {
            let (wide, near) = ((right.0 - left.0).exp_m1(), (middle.0 - left.0).exp_m1());
            let chord = left.1.upper + (right.1.upper - left.1.upper) * (near / wide);
            let noise = 2.0 * (middle.1.upper - middle.1.lower) + 4.0 * f64::EPSILON * middle.1.upper;
            let allowed = CHORD_GOAL * middle.1.upper.sqrt();
            remaining_error(
                chord - middle.1.upper - noise,
                allowed,
                right.0 - left.0 > MIN_INTERVAL * farthest,
            )
        };
        let samples = refined(&start, delta, excess, parallel)?;
        // A point left of t = 1, from which the first line starts.
        let step = samples.get(1).map_or(1.0, |sample| sample.0);
        let beyond = of_inverse(step)?;
        let t = (-step).exp();
        let left = Edge {
            slope: t,
            delta: -(-step).exp_m1() + t * beyond.upper + 2.0 * f64::EPSILON,
        };
        Ok(Self {
            upper: lower_hull(
                samples.iter().map(|known| Edge {
                    slope: known.0.exp(),
                    delta: known.1.upper,
                }),
                1.0,
            ),
            lower: tangents_below(left, &samples, at_infinity.lower),
        })
    }

    /// Bounds from F at α in [0, 1], where `at_zero` is F(0); for a symmetric curve only slopes of at least 1 are refined.
    ///
    /// # Errors
    /// The errors of `power`.
    pub(crate) fn of_powers(
        power: Certified<'_>,
        at_zero: Interval,
        is_symmetric: bool,
        parallel: bool,
    ) -> Result<Self> {
        let mut start = vec![1.0];
        let mut alpha = 1.0f64;
        while alpha > MIN_ALPHA && power(alpha)?.upper > at_zero.upper + NEGLIGIBLE {
            let next = alpha * if alpha > COMMON_ALPHA { COMMON_RATIO } else { RARE_RATIO };
            start.push(next);
            alpha = next;
        }
        start.reverse();
        let excess = |left: &Sample, middle: &Sample, right: &Sample| {
            let run = right.0 - left.0;
            let slope = (right.1.upper - left.1.upper) / run;
            if is_symmetric && left.0 + left.1.lower > 1.0 {
                return 0.0; // The slope here is below 1.
            }
            let chord = 0.5 * (left.1.upper + right.1.upper);
            let noise = 2.0 * (middle.1.upper - middle.1.lower) + 4.0 * f64::EPSILON * middle.1.upper;
            let delta = (middle.1.upper - slope * middle.0).max(0.0);
            remaining_error(
                middle.1.upper - chord - noise,
                CHORD_GOAL * delta.sqrt(),
                run > MIN_INTERVAL * right.0,
            )
        };
        let samples = refined(&start, power, excess, parallel)?;
        let mut chords = vec![(0.0, at_zero.lower)];
        chords.extend(samples.iter().map(|&(alpha, known)| (alpha, known.lower)));
        Ok(Self {
            upper: conjugate(&tangents_above(&samples), None, MAX_EPSILON.exp()),
            lower: conjugate(&chords, Some(at_zero.lower), MAX_EPSILON.exp()),
        })
    }

    /// δ at t ≥ 1.
    pub(super) fn delta(&self, t: f64) -> Interval {
        Interval {
            lower: interpolated(&self.lower, t) * (1.0 - 8.0 * f64::EPSILON),
            upper: interpolated(&self.upper, t) * (1.0 + 8.0 * f64::EPSILON),
        }
    }

    /// inf over t ≥ 1 of δ(t) + tα.
    pub(super) fn power(&self, alpha: f64) -> Interval {
        let value = |edge: &Edge| edge.delta + edge.slope * alpha;
        let (lower, upper) = (minimum_over(&self.lower, value), minimum_over(&self.upper, value));
        Interval {
            lower: lower * (1.0 - search_rounding(&self.lower)),
            upper: upper * (1.0 + 4.0 * f64::EPSILON),
        }
    }

    /// inf over u ≥ 1 of 1 − (1 − δ'(u) − α)/u, δ' being this branch: the infimum over t = 1/u ≤ 1 for the inverse. It is 1 at most, for u → ∞.
    pub(super) fn mirrored_power(&self, alpha: f64) -> Interval {
        let value = |edge: &Edge| 1.0 - (1.0 - edge.delta - alpha) / edge.slope;
        let (lower, upper) = (minimum_over(&self.lower, value), minimum_over(&self.upper, value));
        Interval {
            lower: (lower - search_rounding(&self.lower)).min(1.0),
            upper: (upper + 4.0 * f64::EPSILON).min(1.0),
        }
    }
}

/// Error of a chord over the allowed one after its interval is bisected, which leaves a quarter; 0 if it need not be bisected.
fn remaining_error(error: f64, allowed: f64, is_long: bool) -> f64 {
    if is_long && error > NEGLIGIBLE {
        error / (4.0 * allowed)
    } else {
        0.0
    }
}

/// Values at `start`, which ascends, and at the midpoints of intervals until `excess` of no chord is above 1.
fn refined(
    start: &[f64],
    of: Certified<'_>,
    excess: impl Fn(&Sample, &Sample, &Sample) -> f64,
    parallel: bool,
) -> Result<Vec<Sample>> {
    let values = |all: &[f64]| -> Result<Vec<Sample>> {
        let one = carried(|&x: &f64| of(x).map(|found| (x, found)));
        if parallel {
            in_pool(|| all.par_iter().map(one).collect())
        } else {
            all.iter().map(one).collect()
        }
    };
    let mut known = values(start)?;
    let mut open: Vec<(Sample, Sample)> = known.windows(2).map(|pair| (pair[0], pair[1])).collect();
    while !open.is_empty() {
        let middles: Vec<f64> = open.iter().map(|(left, right)| 0.5 * (left.0 + right.0)).collect();
        let found = values(&middles)?;
        let mut next = Vec::new();
        for ((left, right), middle) in open.iter().zip(&found) {
            let error = excess(left, middle, right);
            if error > 1.0 {
                next.push((error, (*left, *middle)));
                next.push((error, (*middle, *right)));
            }
        }
        known.extend(found);
        let room = MAX_POINTS.saturating_sub(known.len());
        if next.len() > room {
            next.sort_by(|a, b| b.0.total_cmp(&a.0));
            next.truncate(room);
        }
        open = next.into_iter().map(|(_, interval)| interval).collect();
    }
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(known)
}

/// A convex curve below δ from t = 1 on: the lines through neighbouring points, extended to where they meet.
///
/// `left` is an upper bound on δ at some t < 1, from which the first line starts.
fn tangents_below(left: Edge, samples: &[Sample], at_infinity: f64) -> Vec<Edge> {
    let known: Vec<(f64, Interval)> = samples.iter().map(|&(epsilon, found)| (epsilon.exp(), found)).collect();
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
    let mut edges = lower_hull(points, 1.0);
    if let Some(last) = edges.last_mut() {
        last.delta = last.delta.min(at_infinity.max(0.0));
    }
    for edge in &mut edges {
        edge.delta = edge.delta.max(0.0);
    }
    edges
}

/// A concave curve above F: the lines through neighbouring points, extended to where they meet.
fn tangents_above(samples: &[Sample]) -> Vec<(f64, f64)> {
    let mut points = vec![(0.0, samples.first().map_or(1.0, |sample| sample.1.upper))];
    for (i, &(alpha, found)) in samples.iter().enumerate() {
        points.push((alpha, found.upper));
        let Some(&(next, there)) = samples.get(i + 1) else {
            break;
        };
        let rising = match i.checked_sub(1).and_then(|before| samples.get(before)) {
            Some(&(before, value)) => (found.upper - value.lower) / (alpha - before),
            None => found.upper / alpha,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tradeoff::TradeoffCurve;

    /// Exact values at ε of a fixed distance.
    fn samples(curve: &TradeoffCurve, count: usize) -> Vec<Sample> {
        (0..=count)
            .map(|i| 6.0 * i as f64 / count as f64)
            .map(|epsilon| (epsilon, Interval::exact(curve.delta(epsilon).unwrap().middle())))
            .collect()
    }

    /// Largest difference between the chords and the tangents of a Gaussian curve at `count` points, after checking that they enclose it.
    fn gap_at(count: usize) -> f64 {
        let curve = TradeoffCurve::gaussian(1.0).unwrap();
        let known = samples(&curve, count);
        let step = known[1].0;
        let left = Edge {
            slope: (-step).exp(),
            delta: curve.delta(-step).unwrap().upper,
        };
        let lower = tangents_below(left, &known, 0.0);
        let upper: Vec<Edge> = known
            .iter()
            .map(|sample| Edge {
                slope: sample.0.exp(),
                delta: sample.1.upper,
            })
            .collect();
        let mut largest = 0.0f64;
        for i in 0..2000 {
            let epsilon = f64::from(i) * 0.002;
            let (t, exact) = (epsilon.exp(), curve.delta(epsilon).unwrap().middle());
            let (below, above) = (interpolated(&lower, t), interpolated(&upper, t));
            assert!(
                below <= exact + 1e-14 && exact <= above + 1e-14,
                "{epsilon} {below} {exact} {above}"
            );
            largest = largest.max(above - below);
        }
        largest
    }

    #[test]
    fn chords_and_tangents_enclose_delta_with_a_gap_of_second_order() {
        let (wide, narrow) = (gap_at(60), gap_at(120));
        assert!((3.0..5.0).contains(&(wide / narrow)), "{wide} {narrow}");
        assert!(narrow < 1e-3);
    }

    #[test]
    fn chords_and_tangents_enclose_the_power() {
        let curve = TradeoffCurve::laplace(1.5).unwrap();
        let known: Vec<Sample> = (1..=40)
            .map(|i| f64::from(i) / 40.0)
            .map(|alpha| (alpha, Interval::exact(curve.power(alpha).unwrap().middle())))
            .collect();
        let upper = conjugate(&tangents_above(&known), None, 1e9);
        let mut points = vec![(0.0, 0.0)];
        points.extend(known.iter().map(|&(alpha, power)| (alpha, power.lower)));
        let lower = conjugate(&points, Some(0.0), 1e9);
        for i in 0..300 {
            let epsilon = f64::from(i) * 0.01;
            let exact = curve.delta(epsilon).unwrap().middle();
            let (below, above) = (interpolated(&lower, epsilon.exp()), interpolated(&upper, epsilon.exp()));
            assert!(
                below <= exact + 1e-14 && exact <= above + 1e-14,
                "{epsilon} {below} {exact} {above}"
            );
        }
    }
}
