//! The minimum of a convex function of which only enclosures are known, with bounds on both sides.
//!
//! Trade-off functions and hockey-stick curves are each other's conjugates, so that every question about the one is such a
//! minimum over the other.

use crate::stopping::checkpoint;

/// A number in [lower, upper].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// At most the number.
    pub lower: f64,
    /// At least the number.
    pub upper: f64,
}

impl Bounds {
    /// A number that is known.
    pub fn exactly(value: f64) -> Self {
        Self {
            lower: value,
            upper: value,
        }
    }

    /// `value` with a relative error of at most `error`.
    pub fn around(value: f64, error: f64) -> Self {
        Self {
            lower: value - error * value.abs(),
            upper: value + error * value.abs(),
        }
    }

    /// Both ends within [low, high].
    pub fn within(self, low: f64, high: f64) -> Self {
        Self {
            lower: self.lower.clamp(low, high),
            upper: self.upper.clamp(low, high),
        }
    }

    /// Enclosure of the larger of two numbers.
    pub fn max(self, other: Self) -> Self {
        Self {
            lower: self.lower.max(other.lower),
            upper: self.upper.max(other.upper),
        }
    }

    /// Enclosure of the smaller of two numbers.
    pub fn min(self, other: Self) -> Self {
        Self {
            lower: self.lower.min(other.lower),
            upper: self.upper.min(other.upper),
        }
    }

    fn middle(self) -> f64 {
        0.5 * (self.lower + self.upper)
    }
}

/// Half-width, relative to x, of the bracket that the search ends with: what is lost is of second order in it.
const SEARCH_WIDTH: f64 = 1e-5;
/// Points at most that are added where the lower bound is lowest.
const MOST_CUTS: usize = 16;
/// Width of the bounds that is good enough: relative to the minimum, or of a minimum that is larger than that.
const GOOD: (f64, f64) = (2e-11, 1e-10);

/// A point u and the value there.
type Known = (f64, Bounds);

/// Bounds on the minimum of h over x = e^u with u in [`lowest`, `highest`], where h is convex in x; `start` is where to begin, `step`
/// how far to look first, and `kink` a place where h may have a kink.
///
/// The upper bound is a value of h. The lower bound comes from all values: between neighbours h is above the lines through the points on
/// either side. Where a smooth function has its
/// minimum, points at a distance d leave a gap of order d²; at a kink, the lines of both sides meet in it, and it is tried.
pub(super) fn minimum(
    (lowest, highest): (f64, f64),
    (start, step): (f64, f64),
    kink: Option<f64>,
    mut h: impl FnMut(f64) -> Bounds,
) -> Bounds {
    let mut all: Vec<Known> = Vec::with_capacity(40);
    let mut at = |u: f64| {
        checkpoint();
        let found = (u, h(u.exp()));
        all.push(found);
        found
    };
    if let Some(bracket) = bracket((lowest, highest), (start.clamp(lowest, highest), step), &mut at) {
        brent(bracket, &mut at);
    }
    if let Some(kink) = kink.filter(|kink| (lowest..=highest).contains(kink)) {
        at(kink);
    }
    let mut lower = f64::NEG_INFINITY;
    for cut in 0..=MOST_CUTS {
        checkpoint();
        let upper = least_upper(&all);
        let (bound, next) = lower_bound(&mut all, lowest, highest);
        lower = f64::max(lower, bound.min(upper));
        let gap = upper - lower;
        let good = gap <= GOOD.0 * upper.abs() || (gap <= GOOD.1 && upper.abs() > GOOD.1);
        match next {
            Some(u) if !good && cut < MOST_CUTS => all.push((u, h(u.exp()))),
            _ => break,
        }
    }
    Bounds {
        lower,
        upper: least_upper(&all),
    }
}

fn least_upper(all: &[Known]) -> f64 {
    all.iter().map(|known| known.1.upper).fold(f64::INFINITY, f64::min)
}

/// A lower bound on a convex function of x = e^u from values at points, and the u at which that bound is attained, if a value
/// there can raise it.
///
/// Right of a point i the function rises by at least the slope from any point j < i to i, and left of a point i it falls, going
/// left, by at most the slope from i to any j > i. So between neighbours i and i + 1 it is above two lines, and the least that they
/// allow is where they meet, or at an end. Beyond the first and the last point it is above the line through them, which must not
/// fall, unless the range ends there; where it does, a point farther out is asked for.
fn lower_bound(all: &mut Vec<Known>, lowest: f64, highest: f64) -> (f64, Option<f64>) {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.dedup_by(|a, b| a.0 == b.0);
    all.retain(|known| known.1.lower.is_finite() && known.1.upper.is_finite());
    let x: Vec<f64> = all.iter().map(|known| known.0.exp()).collect();
    let count = all.len();
    if count < 2 {
        return (f64::NEG_INFINITY, None);
    }
    let lower = |i: usize| all[i].1.lower;
    let upper = |i: usize| all[i].1.upper;
    // The least slope right of i, and the largest left of it.
    let rising = |i: usize| {
        (0..i)
            .map(|j| (lower(i) - upper(j)) / (x[i] - x[j]))
            .fold(f64::NEG_INFINITY, f64::max)
    };
    let falling = |i: usize| {
        (i + 1..count)
            .map(|j| (upper(j) - lower(i)) / (x[j] - x[i]))
            .fold(f64::INFINITY, f64::min)
    };
    let mut least = (f64::INFINITY, None);
    let mut consider = |value: f64, place: Option<f64>| {
        if value < least.0 {
            least = (value, place);
        }
    };
    let (first, last) = (all[0].0, all[count - 1].0);
    let beyond = last - first;
    if first > lowest {
        if falling(0) <= 0.0 {
            consider(lower(0), None);
        } else {
            consider(f64::NEG_INFINITY, Some((first - beyond).max(lowest)));
        }
    }
    if last < highest {
        if rising(count - 1) >= 0.0 {
            consider(lower(count - 1), None);
        } else {
            consider(f64::NEG_INFINITY, Some((last + beyond).min(highest)));
        }
    }
    for i in 0..count - 1 {
        let width = x[i + 1] - x[i];
        if width <= 0.0 {
            consider(lower(i).min(lower(i + 1)), None);
            continue;
        }
        let (rise, fall) = (rising(i), falling(i + 1));
        // lower(i) + rise·w and lower(i + 1) − fall·(width − w)
        let (left, right) = (|w: f64| lower(i) + rise * w, |w: f64| lower(i + 1) - fall * (width - w));
        let mut places = vec![0.0, width];
        let meeting = (lower(i + 1) - fall * width - lower(i)) / (rise - fall);
        if meeting > 0.0 && meeting < width {
            places.push(meeting);
        }
        let value = |w: f64| {
            let (a, b) = (left(w), right(w));
            if a.is_nan() || a == f64::NEG_INFINITY {
                b
            } else if b.is_nan() || b == f64::NEG_INFINITY {
                a
            } else {
                a.max(b)
            }
        };
        for w in places {
            let inside = w > 1e-3 * width && w < (1.0 - 1e-3) * width;
            let place = if inside { w } else { 0.5 * width };
            let u = (x[i] + place).ln();
            let new = (u > all[i].0 && u < all[i + 1].0).then_some(u);
            consider(value(w), new);
        }
    }
    least
}

/// Points around the minimum, ascending in u, by steps that double; `None` where values are not finite.
fn bracket(
    (lowest, highest): (f64, f64),
    (start, mut step): (f64, f64),
    at: &mut impl FnMut(f64) -> Known,
) -> Option<[Known; 3]> {
    let mut middle = at(start);
    let mut ahead = at((start + step).min(highest));
    let mut direction = 1.0;
    let mut behind = middle;
    if ahead.1.middle() >= middle.1.middle() {
        direction = -1.0;
        behind = ahead;
        ahead = at((start - step).max(lowest));
    }
    while ahead.1.middle() < middle.1.middle() {
        step *= 2.0;
        behind = middle;
        middle = ahead;
        let next = (middle.0 + direction * step).clamp(lowest, highest);
        if next == middle.0 {
            break;
        }
        ahead = at(next);
    }
    if !middle.1.middle().is_finite() {
        return None;
    }
    Some(if direction > 0.0 {
        [behind, middle, ahead]
    } else {
        [ahead, middle, behind]
    })
}

/// Brent's method: parabolas through the three best points, golden sections where they do not help.
fn brent([mut low, mut best, mut high]: [Known; 3], at: &mut impl FnMut(f64) -> Known) {
    const RATIO: f64 = 0.381_966_011_250_105;
    let (mut second, mut third) = if low.1.middle() <= high.1.middle() {
        (low, high)
    } else {
        (high, low)
    };
    let (mut step, mut before) = (high.0 - low.0, high.0 - low.0);
    for _ in 0..80 {
        let middle = 0.5 * (low.0 + high.0);
        if (best.0 - middle).abs() <= 2.0 * SEARCH_WIDTH - 0.5 * (high.0 - low.0) {
            break;
        }
        let value = |known: Known| known.1.middle();
        let x = best.0;
        let r = (x - second.0) * (value(best) - value(third));
        let q = (x - third.0) * (value(best) - value(second));
        let (p, q) = ((x - third.0) * q - (x - second.0) * r, 2.0 * (q - r));
        let (p, q) = if q > 0.0 { (-p, q) } else { (p, -q) };
        let parabola = p / q;
        let fits = q > 0.0 && parabola.abs() < 0.5 * before.abs() && x + parabola > low.0 && x + parabola < high.0;
        before = step;
        step = if fits {
            parabola
        } else if x < middle {
            RATIO * (high.0 - x)
        } else {
            RATIO * (low.0 - x)
        };
        let next = if step.abs() >= SEARCH_WIDTH {
            x + step
        } else if fits {
            // Close the bracket around the best point.
            x + SEARCH_WIDTH.copysign(if high.0 - x > x - low.0 { 1.0 } else { -1.0 })
        } else {
            x + SEARCH_WIDTH.copysign(step)
        };
        let found = at(next.clamp(low.0, high.0));
        if value(found) <= value(best) {
            if found.0 >= x {
                low = best;
            } else {
                high = best;
            }
            (third, second, best) = (second, best, found);
        } else {
            if found.0 < x {
                low = found;
            } else {
                high = found;
            }
            if value(found) <= value(second) || second.0 == x {
                (third, second) = (second, found);
            } else if value(found) <= value(third) || third.0 == x || third.0 == second.0 {
                third = found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_lie_in_narrow_bounds() {
        for centre in [1e-9f64, 0.3, 7.0, 1e5] {
            let mut calls = 0;
            let found = minimum((-700.0, 700.0), (0.0, 0.25), None, |x| {
                calls += 1;
                Bounds::around(x / centre - (x / centre).ln(), 1e-15)
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
                Bounds::exactly(1.0 + (0.3 * (kink - x)).max(x - kink) / kink)
            });
            assert!(found.lower <= 1.0 && found.upper >= 1.0, "{found:?}");
            assert!(found.upper - found.lower < 1e-9, "{kink} {found:?}");
        }
    }

    #[test]
    fn flat_minima_are_met_from_both_sides() {
        let found = minimum((-50.0, 50.0), (0.0, 0.25), None, |x| {
            Bounds::around(0.4 + (1.0 - x).max(0.0) + 0.1 * (x - 3.0).max(0.0), 1e-15)
        });
        assert!(
            found.lower <= 0.4 && found.upper >= 0.4 && found.upper - found.lower < 1e-9,
            "{found:?}"
        );
    }

    #[test]
    fn noise_and_ends_widen_the_bounds_and_no_more() {
        let noisy = minimum((-50.0, 50.0), (0.0, 0.25), None, |x| Bounds {
            lower: (x - 2.0).powi(2) - 1e-9,
            upper: (x - 2.0).powi(2) + 1e-9,
        });
        assert!(
            noisy.lower <= 0.0 && noisy.upper >= 0.0 && noisy.upper - noisy.lower < 1e-7,
            "{noisy:?}"
        );
        let end = minimum((-2.0, 1.0), (0.0, 0.25), None, Bounds::exactly);
        let least = (-2f64).exp();
        assert!((end.upper - least).abs() < 1e-9 && end.upper >= least, "{end:?}");
        assert!(end.lower <= least && end.lower > least - 1e-4, "{end:?}");
    }
}
