//! Roots and minima of functions of one variable, on a bracket.
//!
//! | what is known | search |
//! |---|---|
//! | values of a decreasing function | [`solve_decreasing`], from the values at both ends [`solve_decreasing_between`] |
//! | the same, where a rough root below the true one suffices | [`false_position`] |
//! | where such a search may start | [`bracket_decreasing`] |
//! | values and slopes of an increasing function | [`newton_increasing`], from one point [`newton_bracket`] |
//! | whether a condition is met | [`bisect`] |
//! | values of a function with one minimum | [`golden_section`], [`brent`], in a slice [`last_descent`] |
//!
//! A closure that returns an error ends its search at once, so that a search may also stop at a value that is good enough.
//! Searches whose values are enclosures, and which ask for them ever more accurately, are part of what they search: those of ε
//! in `curve/epsilon_search.rs` and of a threshold in `curve/threshold.rs`.

/// A point where the decreasing function `value` is not positive, within `tolerance` above its root.
///
/// `value(low)` must be positive and `value(high)` not; both may be infinite. The ITP method (Oliveira
/// and Takahashi 2020) with κ1 = 0.2/(high − low), κ2 = 2 and n0 = 1: the interpolated point is pulled
/// towards the middle just enough that the number of evaluations never exceeds bisection's by more than one,
/// while smooth functions take a handful.
pub(crate) fn solve_decreasing<E>(
    low: f64,
    high: f64,
    tolerance: f64,
    mut value: impl FnMut(f64) -> Result<f64, E>,
) -> Result<f64, E> {
    let ends = ((low, value(low)?), (high, value(high)?));
    solve_decreasing_between(ends, tolerance, value)
}

/// [`solve_decreasing`] where the values at the ends are known: (low, value(low)) and (high, value(high)).
///
/// # Errors
/// Those of `value`.
pub(crate) fn solve_decreasing_between<E>(
    ((mut low, at_low), (mut high, at_high)): ((f64, f64), (f64, f64)),
    tolerance: f64,
    mut value: impl FnMut(f64) -> Result<f64, E>,
) -> Result<f64, E> {
    /// Infinite values are cut to this: interpolation then amounts to bisection.
    const LARGE: f64 = 1e3;
    /// Halvings from the largest to the smallest positive `f64`: a tolerance that is negligible next to the bracket asks for more.
    const MAX_BISECTIONS: f64 = 2100.0;
    let mut evaluate = |x: f64| value(x).map(|y| y.clamp(-LARGE, LARGE));
    let (mut at_low, mut at_high) = (at_low.clamp(-LARGE, LARGE), at_high.clamp(-LARGE, LARGE));
    let half_tolerance = 0.5 * tolerance;
    let bisections = ((high - low) / tolerance).log2().ceil().clamp(0.0, MAX_BISECTIONS) as i32;
    let kappa = 0.2 / (high - low);
    for step in 0..=bisections + 1 {
        let width = high - low;
        let middle = 0.5 * (low + high);
        if width <= tolerance || middle <= low || middle >= high {
            break;
        }
        let interpolated = (at_low * high - at_high * low) / (at_low - at_high);
        let pull = (kappa * width * width).min((middle - interpolated).abs());
        let truncated = interpolated + pull * (middle - interpolated).signum();
        let radius = (half_tolerance * f64::powi(2.0, bisections + 1 - step) - 0.5 * width).max(0.0);
        let x = truncated.clamp(middle - radius, middle + radius);
        let at_x = evaluate(x)?;
        if at_x > 0.0 {
            (low, at_low) = (x, at_x);
        } else {
            (high, at_high) = (x, at_x);
        }
    }
    Ok(high)
}

/// Some `rounds` of regula falsi between two ends of a bracket with their values: `value`, which decreases, sees points ever closer to
/// the root, until it is `None`.
///
/// Each point is the root of the chord, but in the middle three fifths of the bracket, so that it shrinks by a fifth at least.
pub(crate) fn false_position(
    (mut low, mut high): ((f64, f64), (f64, f64)),
    rounds: usize,
    mut value: impl FnMut(f64) -> Option<f64>,
) {
    const MARGIN: f64 = 0.2;
    for _ in 0..rounds {
        let fraction = (low.1 / (low.1 - high.1)).clamp(MARGIN, 1.0 - MARGIN);
        let x = low.0 + fraction * (high.0 - low.0);
        match value(x) {
            Some(found) if found > 0.0 => low = (x, found),
            Some(found) => high = (x, found),
            None => return,
        }
    }
}

/// Points and values on both sides of the root of a decreasing function, in ascending order, by steps from `start` towards it that
/// double up to `max_step`.
///
/// `value` is `None` where it is beyond the range of numbers: the step is then halved, and below `min_step` there is no bracket;
/// neither is there one where the root lies outside `limits`.
pub(crate) fn bracket_decreasing(
    start: (f64, f64),
    [min_step, first_step, max_step]: [f64; 3],
    limits: std::ops::RangeInclusive<f64>,
    mut value: impl FnMut(f64) -> Option<f64>,
) -> Option<[(f64, f64); 2]> {
    let is_below = start.1 > 0.0;
    let (mut near, mut step) = (start, first_step);
    loop {
        let x = if is_below { near.0 + step } else { near.0 - step };
        if !limits.contains(&x) {
            return None;
        }
        let Some(found) = value(x) else {
            step *= 0.5;
            if step < min_step {
                return None;
            }
            continue;
        };
        let far = (x, found);
        if (far.1 > 0.0) != is_below {
            return Some(if is_below { [near, far] } else { [far, near] });
        }
        near = far;
        step = (2.0 * step).min(max_step);
    }
}

/// The ends of an interval that holds the root of an increasing function, by Newton's method from `start`; `None` where a step leads beyond the
/// range of numbers.
///
/// `step` returns the step from a point to the root of the tangent there, or as much of it as can be trusted. A step of 0 ends the search at a
/// point that is good enough, which both ends then are. Otherwise the ends are those of the points seen that are closest to the root from
/// below and from above, infinite if there is none, and the search ends where their distance is at most `width(high)`, or after `rounds`
/// points. Once both are finite, every second step and every one that leads out of the interval goes to its middle instead: Newton's method
/// follows a function that rises by leaps in small steps, or to and fro. This is for roots to a few digits.
pub(crate) fn newton_bracket(
    start: f64,
    rounds: usize,
    width: impl Fn(f64) -> f64,
    mut step: impl FnMut(f64) -> f64,
) -> Option<(f64, f64)> {
    let (mut x, mut low, mut high) = (start, f64::NEG_INFINITY, f64::INFINITY);
    for round in 0..rounds {
        let newton = step(x);
        if newton == 0.0 {
            return Some((x, x));
        }
        if newton > 0.0 {
            low = x;
        } else {
            high = x;
        }
        let is_bracketed = low.is_finite() && high.is_finite();
        if is_bracketed && high - low <= width(high) {
            return Some((low, high));
        }
        let next = x + newton;
        let is_inside = next > low && next < high;
        x = if is_bracketed && (round % 2 == 1 || !is_inside) {
            0.5 * (low + high)
        } else {
            next
        };
        if !x.is_finite() {
            return None;
        }
    }
    Some((low, high))
}

/// The root of an increasing function in [low, high] by Newton's method, from the middle; steps that would leave the bracket of all
/// values seen are halvings of it.
///
/// `evaluate` returns the value and the slope. The search ends where a step or the bracket is at most `resolution` times the
/// larger of |x| and `unit`.
pub(crate) fn newton_increasing(
    (mut low, mut high): (f64, f64),
    resolution: f64,
    unit: f64,
    mut evaluate: impl FnMut(f64) -> (f64, f64),
) -> f64 {
    /// Far more than bisection alone would take between numbers of one sign.
    const MAX_STEPS: usize = 200;
    let mut x = 0.5 * (low + high);
    for _ in 0..MAX_STEPS {
        let (value, slope) = evaluate(x);
        if value < 0.0 {
            low = x;
        } else {
            high = x;
        }
        let close = |x: f64| resolution * x.abs().max(unit);
        let newton = x - value / slope;
        // Checked first: x is itself an end of the bracket, and rounding may put the step on it.
        if (newton - x).abs() <= close(x) {
            return newton.clamp(low, high);
        }
        x = if newton > low && newton < high {
            newton
        } else {
            0.5 * (low + high)
        };
        if high - low <= close(high) {
            return x;
        }
    }
    x
}

/// A point where a condition is met, next to one where it is not: bisection between `low`, where it is not met, and `high`, where it
/// is, for at most `rounds` rounds or until they are no farther apart than `width(high)`.
pub(crate) fn bisect<E>(
    (mut low, mut high): (f64, f64),
    rounds: usize,
    width: impl Fn(f64) -> f64,
    mut is_met: impl FnMut(f64) -> Result<bool, E>,
) -> Result<f64, E> {
    for _ in 0..rounds {
        let middle = 0.5 * (low + high);
        if high - low <= width(high) || middle <= low || middle >= high {
            break;
        }
        if is_met(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// Minimum of `value` over [low, high] by golden-section search with `rounds` evaluations.
///
/// Returns the best point seen and its value. Exact for unimodal functions up to 0.618^rounds of the
/// bracket; for others it is still a point that was evaluated.
pub(crate) fn golden_section(
    mut low: f64,
    mut high: f64,
    rounds: usize,
    mut value: impl FnMut(f64) -> f64,
) -> (f64, f64) {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let mut left = high - RATIO * (high - low);
    let mut right = low + RATIO * (high - low);
    let (mut at_left, mut at_right) = (value(left), value(right));
    let mut best = if at_left <= at_right {
        (left, at_left)
    } else {
        (right, at_right)
    };
    for _ in 2..rounds {
        let (point, at_point) = if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - RATIO * (high - low);
            at_left = value(left);
            (left, at_left)
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + RATIO * (high - low);
            at_right = value(right);
            (right, at_right)
        };
        if at_point < best.1 {
            best = (point, at_point);
        }
    }
    best
}

/// The smaller part of a golden section, (3 − √5)/2.
const GOLDEN_PART: f64 = 0.381_966_011_250_105;

/// The point of the smallest value that Brent's method finds in a bracket: three points that ascend, with their values, of which that
/// in the middle is the smallest.
///
/// Parabolas through the three best points, golden sections where they do not help; ends when both halves of the bracket are shorter
/// than 2·`width`, or after `rounds` values. The bracket holds the minimum of a unimodal function throughout.
pub(crate) fn brent(
    [mut low, mut best, mut high]: [(f64, f64); 3],
    width: f64,
    rounds: usize,
    mut value: impl FnMut(f64) -> f64,
) -> (f64, f64) {
    let (mut second, mut third) = if low.1 <= high.1 { (low, high) } else { (high, low) };
    let (mut step, mut before) = (high.0 - low.0, high.0 - low.0);
    for _ in 0..rounds {
        let middle = 0.5 * (low.0 + high.0);
        if (best.0 - middle).abs() <= 2.0 * width - 0.5 * (high.0 - low.0) {
            break;
        }
        let x = best.0;
        let r = (x - second.0) * (best.1 - third.1);
        let q = (x - third.0) * (best.1 - second.1);
        let (p, q) = ((x - third.0) * q - (x - second.0) * r, 2.0 * (q - r));
        let (p, q) = if q > 0.0 { (-p, q) } else { (p, -q) };
        let parabola = p / q;
        let fits = q > 0.0 && parabola.abs() < 0.5 * before.abs() && x + parabola > low.0 && x + parabola < high.0;
        before = step;
        step = if fits {
            parabola
        } else if x < middle {
            GOLDEN_PART * (high.0 - x)
        } else {
            GOLDEN_PART * (low.0 - x)
        };
        let next = if step.abs() >= width {
            x + step
        } else if fits {
            // Close the bracket around the best point.
            x + width.copysign(if high.0 - x > x - low.0 { 1.0 } else { -1.0 })
        } else {
            x + width.copysign(step)
        };
        let next = next.clamp(low.0, high.0);
        let found = (next, value(next));
        if found.1 <= best.1 {
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
            if found.1 <= second.1 || second.0 == x {
                (third, second) = (second, found);
            } else if found.1 <= third.1 || third.0 == x || third.0 == second.0 {
                third = found;
            }
        }
    }
    best
}

/// Index of the last entry that is not above its predecessor: the minimum of values that fall and then rise, by bisection.
pub(crate) fn last_descent<T>(entries: &[T], value: impl Fn(&T) -> f64) -> usize {
    let (mut low, mut high) = (0, entries.len());
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if value(&entries[middle]) <= value(&entries[middle - 1]) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The first index of a range at which a condition is met that stays met; the end if there is none.
pub(crate) fn first_where(start: usize, end: usize, is_met: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (start, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_met(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests;
