//! The minimum of a convex function of which only intervals are known, with bounds on both sides.
//!
//! Trade-off functions and hockey-stick curves are each other's conjugates, so that each side of a curve is such a minimum over the
//! other side.

use crate::interval::Interval;
use crate::special::root::brent;
use crate::stopping::checkpoint;

/// Width, relative to x, of the bracket that the search ends with. The gap of the bounds is of second order in it, 1e-10 here; at a tenth
/// of the width rounding takes over and the search needs twice the values.
const SEARCH_WIDTH: f64 = 1e-5;
/// Bound on the number of values of one search; smooth functions take a dozen.
const MAX_ROUNDS: usize = 80;
/// Bound on the number of points that are added where the lower bound is smallest; kinks take up to ten.
const MAX_CUTS: usize = 16;
/// Width of the bounds that is narrow enough: relative to the minimum, or absolute where the minimum is larger than that.
const NARROW: (f64, f64) = (2e-11, 1e-10);
/// Fraction of an interval next to its ends in which the meeting point of two lines is not evaluated, but the midpoint.
const END: f64 = 1e-3;

/// A point u = log x and the interval of the value there.
type Known = (f64, Interval);

/// Bounds on the minimum of h over x = e^u with u in [`lowest`, `highest`], where h is convex in x; the search begins at `start` with
/// steps of size `step`, and h may have a kink at u = `kink`.
///
/// The upper bound is a value of h. The lower bound comes from all values: between neighbours h is above the lines through the points on
/// either side. Where a smooth function has its minimum, points at a distance d leave a gap of order d²; at a kink, the lines of both
/// sides meet in it, and it is evaluated.
pub(super) fn minimum(
    (lowest, highest): (f64, f64),
    (start, step): (f64, f64),
    kink: Option<f64>,
    mut h: impl FnMut(f64) -> Interval,
) -> Interval {
    let mut all: Vec<Known> = Vec::with_capacity(40);
    let mut at = |u: f64| {
        checkpoint();
        let found = (u, h(u.exp()));
        all.push(found);
        (u, found.1.middle())
    };
    if let Some(bracket) = bracket((lowest, highest), (start.clamp(lowest, highest), step), &mut at) {
        brent(bracket, SEARCH_WIDTH, MAX_ROUNDS, |u| at(u).1);
    }
    if let Some(kink) = kink.filter(|kink| (lowest..=highest).contains(kink)) {
        at(kink);
    }
    let mut lower = f64::NEG_INFINITY;
    for cut in 0..=MAX_CUTS {
        checkpoint();
        let upper = smallest_upper(&all);
        let (bound, next) = lower_bound(&mut all, lowest, highest);
        lower = f64::max(lower, bound.min(upper));
        let gap = upper - lower;
        let is_narrow = gap <= NARROW.0 * upper.abs() || (gap <= NARROW.1 && upper.abs() > NARROW.1);
        match next {
            Some(u) if !is_narrow && cut < MAX_CUTS => all.push((u, h(u.exp()))),
            _ => break,
        }
    }
    Interval {
        lower,
        upper: smallest_upper(&all),
    }
}

fn smallest_upper(all: &[Known]) -> f64 {
    all.iter().map(|known| known.1.upper).fold(f64::INFINITY, f64::min)
}

/// A lower bound on a convex function of x = e^u from its values at points, and the u at which that bound is attained, if a value
/// there can raise it.
///
/// Between neighbours the bound is that of [`Points::between`]. Beyond the first and the last point the function is above the line
/// through them, which must not fall, unless the range ends there; where it falls, the next point is farther out.
fn lower_bound(all: &mut Vec<Known>, lowest: f64, highest: f64) -> (f64, Option<f64>) {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.dedup_by(|a, b| a.0 == b.0);
    all.retain(|known| known.1.lower.is_finite() && known.1.upper.is_finite());
    let count = all.len();
    if count < 2 {
        return (f64::NEG_INFINITY, None);
    }
    let points = Points::new(all);
    let (first, last) = (all[0].0, all[count - 1].0);
    let range = last - first;
    let mut candidates: Vec<(f64, Option<f64>)> = Vec::with_capacity(3 * count);
    if first > lowest {
        candidates.push(if points.max_slope_left_of(0) <= 0.0 {
            (all[0].1.lower, None)
        } else {
            (f64::NEG_INFINITY, Some((first - range).max(lowest)))
        });
    }
    if last < highest {
        candidates.push(if points.min_slope_right_of(count - 1) >= 0.0 {
            (all[count - 1].1.lower, None)
        } else {
            (f64::NEG_INFINITY, Some((last + range).min(highest)))
        });
    }
    for i in 0..count - 1 {
        points.between(i, &mut candidates);
    }
    let none = (f64::INFINITY, None);
    candidates.into_iter().fold(none, |a, b| if b.0 < a.0 { b } else { a })
}

/// Values of a convex function at ascending points.
struct Points<'a> {
    all: &'a [Known],
    x: Vec<f64>,
}

impl<'a> Points<'a> {
    fn new(all: &'a [Known]) -> Self {
        Self {
            all,
            x: all.iter().map(|known| known.0.exp()).collect(),
        }
    }

    fn lower(&self, i: usize) -> f64 {
        self.all[i].1.lower
    }

    fn upper(&self, i: usize) -> f64 {
        self.all[i].1.upper
    }

    /// Lower bound on the slope right of point i: no smaller than the slope from any point j < i to i.
    fn min_slope_right_of(&self, i: usize) -> f64 {
        (0..i)
            .map(|j| (self.lower(i) - self.upper(j)) / (self.x[i] - self.x[j]))
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// Upper bound on the slope left of point i: no larger than the slope from i to any point j > i.
    fn max_slope_left_of(&self, i: usize) -> f64 {
        (i + 1..self.all.len())
            .map(|j| (self.upper(j) - self.lower(i)) / (self.x[j] - self.x[i]))
            .fold(f64::INFINITY, f64::min)
    }

    /// Lower bounds on the function between the points i and i + 1, with the u to evaluate next: it is above the line that rises from i
    /// and above the one that falls, going left, from i + 1, and the minimum of the larger of both is where they meet, or at an end.
    fn between(&self, i: usize, bounds: &mut Vec<(f64, Option<f64>)>) {
        let width = self.x[i + 1] - self.x[i];
        if width <= 0.0 {
            bounds.push((self.lower(i).min(self.lower(i + 1)), None));
            return;
        }
        let (rise, fall) = (self.min_slope_right_of(i), self.max_slope_left_of(i + 1));
        let value = |w: f64| {
            let left = self.lower(i) + rise * w;
            let right = self.lower(i + 1) - fall * (width - w);
            if left.is_nan() || left == f64::NEG_INFINITY {
                right
            } else if right.is_nan() || right == f64::NEG_INFINITY {
                left
            } else {
                left.max(right)
            }
        };
        let meeting = (self.lower(i + 1) - fall * width - self.lower(i)) / (rise - fall);
        let meeting = (meeting > 0.0 && meeting < width).then_some(meeting);
        for w in [0.0, width].into_iter().chain(meeting) {
            let is_inside = w > END * width && w < (1.0 - END) * width;
            let u = (self.x[i] + if is_inside { w } else { 0.5 * width }).ln();
            let is_new = u > self.all[i].0 && u < self.all[i + 1].0;
            bounds.push((value(w), is_new.then_some(u)));
        }
    }
}

/// Points around the minimum, ascending in u, by steps that double; `None` where values are not finite.
fn bracket(
    (lowest, highest): (f64, f64),
    (start, mut step): (f64, f64),
    at: &mut impl FnMut(f64) -> (f64, f64),
) -> Option<[(f64, f64); 3]> {
    let mut middle = at(start);
    let mut ahead = at((start + step).min(highest));
    let mut direction = 1.0;
    let mut behind = middle;
    if ahead.1 >= middle.1 {
        direction = -1.0;
        behind = ahead;
        ahead = at((start - step).max(lowest));
    }
    while ahead.1 < middle.1 {
        step *= 2.0;
        behind = middle;
        middle = ahead;
        let next = (middle.0 + direction * step).clamp(lowest, highest);
        if next == middle.0 {
            break;
        }
        ahead = at(next);
    }
    if !middle.1.is_finite() {
        return None;
    }
    Some(if direction > 0.0 {
        [behind, middle, ahead]
    } else {
        [ahead, middle, behind]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gap of the search is of second order in [`SEARCH_WIDTH`]; the bounds must hold for values that err to either side.
    #[test]
    fn minima_of_values_that_err_to_one_side_are_bounded() {
        for (below, above) in [(0.0, 1e-6), (1e-6, 0.0), (1e-6, 1e-6)] {
            for phase in 0..20u32 {
                // The value is anywhere in an interval of this width around it; the minimum is 1 at x = 1.
                let mut calls = 0u32;
                let found = minimum((-50.0, 50.0), (0.5, 0.25), None, |x| {
                    calls += 1;
                    let value = 1.0 + (x - 1.0).powi(2);
                    let fraction = f64::from(calls * (phase + 3) % 11) / 10.0;
                    Interval {
                        lower: value - below * fraction,
                        upper: value + above * (1.0 - fraction),
                    }
                });
                assert!(found.lower <= 1.0 && found.upper >= 1.0, "{found:?}");
                assert!(found.width() < 1e-4, "{found:?}");
            }
        }
    }

    #[test]
    fn the_lower_bound_is_attained_by_a_convex_function_with_the_same_values() {
        // max(3 − 2x, x − 0.6) at 0.5, 0.8, 1.6 and 2: its minimum 0.6 at x = 1.2 is where the lines through the points meet.
        let h = |x: f64| (3.0 - 2.0 * x).max(x - 0.6);
        let mut all: Vec<Known> = [0.5f64, 0.8, 1.6, 2.0]
            .map(|x| (x.ln(), Interval::exact(h(x))))
            .to_vec();
        let (bound, next) = lower_bound(&mut all, 0.1f64.ln(), 9f64.ln());
        assert!((bound - 0.6).abs() < 1e-12, "{bound}");
        assert!((next.unwrap() - 1.2f64.ln()).abs() < 1e-12);
        // Not within the range of the points: the line through the last two falls.
        let mut falling: Vec<Known> = [0.5f64, 0.8].map(|x| (x.ln(), Interval::exact(h(x)))).to_vec();
        assert_eq!(lower_bound(&mut falling, 0.1f64.ln(), 9f64.ln()).0, f64::NEG_INFINITY);
    }

    #[test]
    fn minima_lie_in_narrow_bounds() {
        for centre in [1e-9f64, 0.3, 7.0, 1e5] {
            let mut calls = 0;
            let found = minimum((-700.0, 700.0), (0.0, 0.25), None, |x| {
                calls += 1;
                Interval::around(x / centre - (x / centre).ln(), 1e-15)
            });
            assert!(found.lower <= 1.0 && found.upper >= 1.0 - 1e-14, "{found:?}");
            assert!(found.upper - found.lower < 1e-9, "{found:?}");
            assert!(calls < 30, "{calls}");
        }
    }

    #[test]
    fn kinks_are_met() {
        for (kink, hint) in [(2.0, None), (1.0, Some(0.0)), (1e-6, None)] {
            let found = minimum((-50.0, 50.0), (0.3, 0.25), hint, |x| {
                Interval::exact(1.0 + (0.3 * (kink - x)).max(x - kink) / kink)
            });
            assert!(found.lower <= 1.0 && found.upper >= 1.0, "{found:?}");
            assert!(found.upper - found.lower < 1e-9, "{kink} {found:?}");
        }
    }

    #[test]
    fn flat_minima_are_met_from_both_sides() {
        let found = minimum((-50.0, 50.0), (0.0, 0.25), None, |x| {
            Interval::around(0.4 + (1.0 - x).max(0.0) + 0.1 * (x - 3.0).max(0.0), 1e-15)
        });
        assert!(
            found.lower <= 0.4 && found.upper >= 0.4 && found.upper - found.lower < 1e-9,
            "{found:?}"
        );
    }

    #[test]
    fn noise_and_ends_widen_the_bounds_and_no_more() {
        let noisy = minimum((-50.0, 50.0), (0.0, 0.25), None, |x| Interval {
            lower: (x - 2.0).powi(2) - 1e-9,
            upper: (x - 2.0).powi(2) + 1e-9,
        });
        assert!(
            noisy.lower <= 0.0 && noisy.upper >= 0.0 && noisy.upper - noisy.lower < 1e-7,
            "{noisy:?}"
        );
        let end = minimum((-2.0, 1.0), (0.0, 0.25), None, Interval::exact);
        let smallest = (-2f64).exp();
        assert!((end.upper - smallest).abs() < 1e-9 && end.upper >= smallest, "{end:?}");
        assert!(end.lower <= smallest && end.lower > smallest - 1e-4, "{end:?}");
    }
}
