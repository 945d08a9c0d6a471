//! The minimum of a convex function of which only enclosures are known, with bounds on both sides.
//!
//! Trade-off functions and hockey-stick curves are each other's conjugates, so that every question about the one is such a
//! minimum over the other.

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
/// Brackets at most after that: narrower ones where the function has a kink, wider ones where noise hides that it rises.
const MOST_BRACKETS: usize = 8;
/// Width of the bounds that is good enough: relative to the minimum, or of any minimum.
const GOOD: (f64, f64) = (2e-11, 1e-10);

/// A point u and the value there.
type Known = (f64, Bounds);

/// Bounds on the minimum of h over x = e^u with u in [`lowest`, `highest`], where h is convex in x; `start` is where to begin
/// and `kink` a place where h may have a kink.
///
/// The upper bound is a value of h. For the lower bound take points a < b < c with h(a) and h(c) certainly not below h(b):
/// the minimum lies between a and c. On [a, b] a convex function lies above the line through b and c, on [b, c] above that
/// through a and b. Where a smooth function has its minimum that loses something of second order. Should that be too much,
/// as at a kink, points a' < a and c' > c add the lines through a' and a, and through c and c'; they meet at the kink, which
/// is tried as b, and the least of what each pair of lines allows loses nothing then.
pub fn minimum(
    (lowest, highest): (f64, f64),
    start: f64,
    kink: Option<f64>,
    mut h: impl FnMut(f64) -> Bounds,
) -> Bounds {
    let mut upper = f64::INFINITY;
    let mut at = |u: f64| {
        let found = h(u.exp());
        upper = upper.min(found.upper);
        (u, found)
    };
    let Some(bracket) = bracket(lowest, highest, start.clamp(lowest, highest), &mut at) else {
        return Bounds {
            lower: f64::NEG_INFINITY,
            upper,
        };
    };
    let [mut a, mut b, mut c] = brent(bracket, &mut at);
    if let Some(kink) = kink.filter(|kink| (lowest..=highest).contains(kink) && *kink != b.0) {
        let found = at(kink);
        if found.1.middle() <= b.1.middle() {
            b = found;
            (a, c) = (
                at((kink - SEARCH_WIDTH).max(lowest)),
                at((kink + SEARCH_WIDTH).min(highest)),
            );
        }
    }
    let mut lower = f64::NEG_INFINITY;
    let mut half_width = (b.0 - a.0).max(c.0 - b.0).max(SEARCH_WIDTH);
    for _ in 0..MOST_BRACKETS {
        let least = if a.1.middle() < c.1.middle() { a } else { c };
        let rises = (a.0 <= lowest || a.1.lower >= b.1.upper) && (c.0 >= highest || c.1.lower >= b.1.upper);
        if rises {
            let inner = Lines::of(a, b, c, None);
            lower = f64::max(lower, inner.least());
            let gap = b.1.upper - lower;
            if gap <= f64::max(GOOD.0 * b.1.upper.abs(), 0.0) || (gap <= GOOD.1 && b.1.upper.abs() > GOOD.1) {
                break;
            }
            let outer = (at((2.0 * a.0 - b.0).max(lowest)), at((2.0 * c.0 - b.0).min(highest)));
            let lines = Lines::of(a, b, c, Some(outer));
            lower = f64::max(lower, lines.least());
            if b.1.upper - lower <= GOOD.0 * b.1.upper.abs() {
                break;
            }
            if let Some(u) = lines.meeting() {
                let found = at(u);
                if found.1.middle() < b.1.middle() {
                    b = found;
                }
            }
            half_width /= 8.0;
        } else if a.0 <= lowest && c.0 >= highest {
            break;
        } else {
            if least.1.upper < b.1.lower {
                b = least;
            }
            half_width *= 6.0;
        }
        a = at((b.0 - half_width).max(lowest));
        c = at((b.0 + half_width).min(highest));
    }
    Bounds {
        lower: lower.min(upper),
        upper,
    }
}

/// The straight lines around a minimum.
struct Lines {
    a: Known,
    b: Known,
    c: Known,
    outer: Option<(Known, Known)>,
}

impl Lines {
    fn of(a: Known, b: Known, c: Known, outer: Option<(Known, Known)>) -> Self {
        Self { a, b, c, outer }
    }

    /// The least that they allow between a and c.
    fn least(&self) -> f64 {
        let x = |known: Known| known.0.exp();
        let (below, above) = (x(self.b) - x(self.a), x(self.c) - x(self.b));
        let lower = self.b.1.lower;
        let inner_fall = steepness(self.a.1.upper - lower, below);
        let inner_rise = steepness(self.c.1.upper - lower, above);
        let (outer_fall, outer_rise) = match self.outer {
            None => (f64::INFINITY, f64::INFINITY),
            Some((first, last)) => (
                steepness(first.1.upper - self.a.1.lower, x(self.a) - x(first)),
                steepness(last.1.upper - self.c.1.lower, x(last) - x(self.c)),
            ),
        };
        let on_left = least_of_lines(lower, inner_rise, self.a.1.lower, outer_fall, below);
        let on_right = least_of_lines(lower, inner_fall, self.c.1.lower, outer_rise, above);
        on_left.min(on_right)
    }

    /// Where the outer lines meet, if that is between a and c: h(a) − fall·(x − a) = h(c) − rise·(c − x).
    fn meeting(&self) -> Option<f64> {
        let (first, last) = self.outer?;
        let slope =
            |left: Known, right: Known| (right.1.middle() - left.1.middle()) / (right.0.exp() - left.0.exp());
        let (fall, rise) = (-slope(first, self.a), slope(self.c, last));
        let (a, c) = (self.a.0.exp(), self.c.0.exp());
        let x = (self.a.1.middle() - self.c.1.middle() + fall * a + rise * c) / (fall + rise);
        (x > a && x < c).then(|| x.ln())
    }
}

/// drop/width, infinite without a width.
fn steepness(drop: f64, width: f64) -> f64 {
    if width > 0.0 { drop / width } else { f64::INFINITY }
}

/// A lower bound between b and a point `width` away: above the line that falls from `at_b` by `rise` and above that which
/// falls from `at_end` by `fall` the other way.
fn least_of_lines(at_b: f64, rise: f64, at_end: f64, fall: f64, width: f64) -> f64 {
    if width <= 0.0 {
        return at_b;
    }
    let (rise, fall) = (rise.max(0.0), fall.max(0.0));
    // at_b − rise·w = at_end − fall·(width − w)
    let meeting = (at_b - at_end + fall * width) / (rise + fall);
    if rise.is_infinite() {
        // One line alone.
        return at_b.min(at_end - fall * width);
    }
    if fall.is_infinite() || meeting.is_nan() {
        return at_b - rise * width;
    }
    at_b - rise * meeting.clamp(0.0, width)
}

/// Points around the minimum, ascending in u, by steps that double; `None` where values are not finite.
fn bracket(lowest: f64, highest: f64, start: f64, at: &mut impl FnMut(f64) -> Known) -> Option<[Known; 3]> {
    let mut step = 0.25;
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

/// Brent's method: parabolas through the three best points, golden sections where they do not help. Returns the bracket it
/// ends with.
fn brent([mut low, mut best, mut high]: [Known; 3], at: &mut impl FnMut(f64) -> Known) -> [Known; 3] {
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
    [low, best, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_lie_in_narrow_bounds() {
        for centre in [1e-9f64, 0.3, 7.0, 1e5] {
            let mut calls = 0;
            let found = minimum((-700.0, 700.0), 0.0, None, |x| {
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
            let found = minimum((-50.0, 50.0), 0.3, hint, |x| {
                Bounds::exactly(1.0 + (0.3 * (kink - x)).max(x - kink) / kink)
            });
            assert!(found.lower <= 1.0 && found.upper >= 1.0, "{found:?}");
            assert!(found.upper - found.lower < 1e-9, "{kink} {found:?}");
        }
    }

    #[test]
    fn noise_and_ends_widen_the_bounds_and_no_more() {
        let noisy = minimum((-50.0, 50.0), 0.0, None, |x| Bounds {
            lower: (x - 2.0).powi(2) - 1e-9,
            upper: (x - 2.0).powi(2) + 1e-9,
        });
        assert!(
            noisy.lower <= 0.0 && noisy.upper >= 0.0 && noisy.upper - noisy.lower < 1e-7,
            "{noisy:?}"
        );
        let end = minimum((-2.0, 1.0), 0.0, None, Bounds::exactly);
        let least = (-2f64).exp();
        assert!((end.upper - least).abs() < 1e-9 && end.upper >= least, "{end:?}");
        assert!(end.lower <= least && end.lower > least - 1e-4, "{end:?}");
    }
}
