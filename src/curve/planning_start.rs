//! Where a search for an unknown of the equation starts: near the threshold, by estimates of ε that take a few moments each.
//!
//! A certified verdict far from the threshold can take many times as long as one next to it: with little noise, or few steps, a run is hard.
//! Saddle points say about where the threshold is, so that verdicts are asked for next to it only. Bad estimates cost time, but no accuracy.
//!
//! log ε is nearly a straight line over the logarithm of each unknown, which log δ is not, so that a few steps of the secant method suffice.

use crate::curve::axis::Axis;

/// The slope of log ε that is expected before it is measured: ε grows as the rate, as the square root of the number of steps, and as the
/// inverse of the noise or faster.
const FIRST_SLOPE: f64 = 1.0;
/// The first step along the axis at most, and along that of whole numbers, and the growth of the limit from one step to the next.
const FIRST_STEP: f64 = 2.0;
const FIRST_WHOLE_STEP: f64 = 0.7;
const GROWTH: f64 = 2.0;
/// The least slope along the axis of whole numbers. Between few steps the measured slope may be too flat; dividing by it would lead to many more
/// steps than are needed, where an estimate is slow: dealt batches with Laplace noise would take minutes.
const LEAST_WHOLE_SLOPE: f64 = 0.5;
/// The search ends where an estimate of log ε is this close to the target: the next point of the secant method is the start, without an estimate
/// there.
const CLOSE: f64 = 0.02;
/// The distance at least over which a slope is measured.
const MEASURING_STEP: f64 = 0.01;
/// The search ends with a bracket this long on the logarithmic axis, whatever the estimates say.
const SHORT: f64 = 1e-3;
/// Values beyond this are cut, and say only on which side the root is.
const LARGEST: f64 = 30.0;
/// Estimates at most.
const ESTIMATES: usize = 40;

/// Where a search starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Start {
    /// The first point.
    pub(crate) x: f64,
    /// The slope of log ε along the axis next to it, about: over the logarithm of the unknown, or minus that for noise; `None` where it was not
    /// measured.
    pub(crate) slope: Option<f64>,
}

impl From<f64> for Start {
    fn from(x: f64) -> Self {
        Self { x, slope: None }
    }
}

/// The state of a search by the secant method, in coordinates of the axis.
struct Secant {
    /// The ends between which the root is known to be.
    low: f64,
    high: f64,
    /// The last point and the excess there.
    last: Option<(f64, f64)>,
    /// The slope of the last chord that says something.
    slope: Option<f64>,
    /// The slope of a step at least.
    least_slope: f64,
    /// The length of the next step at most.
    longest: f64,
}

impl Secant {
    /// The next point after `x`, where the excess is `found`.
    fn next(&mut self, x: f64, found: f64) -> f64 {
        if found > 0.0 {
            self.high = x;
        } else {
            self.low = x;
        }
        let is_cut = |value: f64| value.abs() >= LARGEST;
        let mut chord_says_little = is_cut(found);
        if let Some((before, at_before)) = self.last.replace((x, found)) {
            let slope = (found - at_before) / (x - before);
            chord_says_little |= is_cut(at_before) || slope.is_nan() || slope <= 0.0;
            if !chord_says_little {
                self.slope = Some(slope);
            }
        }
        let step = -found / self.slope.unwrap_or(FIRST_SLOPE).max(self.least_slope);
        let next = x + step.clamp(-self.longest, self.longest);
        self.longest *= GROWTH;
        let is_bracketed = self.low.is_finite() && self.high.is_finite();
        if is_bracketed && (chord_says_little || next < self.low || next > self.high) {
            0.5 * (self.low + self.high)
        } else {
            next
        }
    }
}

/// A start near the root of `excess`, which grows along the axis and is `None` where nothing is known of it; `default` if none is found.
pub(super) fn near_root(axis: &Axis, default: f64, mut excess: impl FnMut(f64) -> Option<f64>) -> Start {
    let point = |coordinate: f64| {
        let x = if axis.whole {
            coordinate.exp().round()
        } else {
            coordinate
        };
        x.clamp(axis.ends.0, axis.ends.1)
    };
    // A run of no steps has no epsilon to estimate.
    let least = if axis.whole { 1.0 } else { f64::NEG_INFINITY };
    let ends = (axis.coordinate(axis.ends.0.max(least)), axis.coordinate(axis.ends.1));
    let mut search = Secant {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        last: None,
        slope: None,
        least_slope: if axis.whole { LEAST_WHOLE_SLOPE } else { 0.0 },
        longest: if axis.whole { FIRST_WHOLE_STEP } else { FIRST_STEP },
    };
    let mut x = axis.coordinate(default);
    for _ in 0..ESTIMATES {
        // Whole numbers are asked for where they are.
        let asked = axis.coordinate(point(x));
        let Some(found) = excess(point(x)).filter(|found| !found.is_nan()) else {
            break;
        };
        let found = found.clamp(-LARGEST, LARGEST);
        let next = search.next(asked, found).clamp(ends.0, ends.1);
        let is_close = found.abs() <= CLOSE;
        let is_known = is_close && search.slope.is_some();
        let is_short = search.high - search.low <= SHORT;
        // Next to the root at once: a second point measures the slope.
        let is_too_near = is_close && !is_known && !is_short && (next - x).abs() < MEASURING_STEP;
        let next = if is_too_near {
            let aside = if next < x { -MEASURING_STEP } else { MEASURING_STEP };
            (x + aside).clamp(ends.0, ends.1)
        } else {
            next
        };
        if is_known || is_short || point(next) == point(x) {
            return Start {
                x: point(next),
                slope: search.slope,
            };
        }
        x = next;
    }
    default.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_near_the_root_and_knows_the_slope_there() {
        let axis = Axis::continuous((-30.0, 10.0), 1e-6);
        for root in [-12.0, -0.1, 0.0, 3.3] {
            let found = near_root(&axis, 0.0, |x| Some(7.0 * (x - root)));
            assert!((found.x - root).abs() < 0.01, "{root}: {found:?}");
            assert!(
                root == 0.0 || (found.slope.unwrap() - 7.0).abs() < 1e-6,
                "{root}: {found:?}"
            );
        }
    }

    /// One estimate tells no slope.
    #[test]
    fn a_start_next_to_the_root_at_once_knows_the_slope() {
        let axis = Axis::continuous((-30.0, 10.0), 1e-6);
        for off in [-0.009, 0.0, 1e-6, 0.009] {
            let found = near_root(&axis, 0.5 + off, |x| Some(2.0 * (x - 0.5)));
            assert!(
                (found.x - 0.5).abs() < 1e-9 && (found.slope.unwrap() - 2.0).abs() < 1e-6,
                "{off}: {found:?}"
            );
        }
    }

    #[test]
    fn whole_numbers_are_searched_by_their_logarithm() {
        let axis = Axis::whole((0, 1_000_000_000), 1e-6);
        for root in [1.0, 17.0, 123_456.0, 9e8] {
            let found = near_root(&axis, 1.0, |x| Some(2.0 * (x.max(0.5) / root).ln()));
            assert!((found.x / root - 1.0).abs() < 0.06, "{root}: {found:?}");
        }
    }

    #[test]
    fn a_search_without_estimates_starts_where_it_always_does() {
        let axis = Axis::continuous((-30.0, 10.0), 1e-6);
        assert_eq!(near_root(&axis, 0.0, |_| None), Start::from(0.0));
        assert_eq!(near_root(&axis, 0.0, |_| Some(f64::NAN)), Start::from(0.0));
        let lost = near_root(&axis, 0.0, |x| (x < 2.0).then_some(x - 5.0));
        assert_eq!(lost, Start::from(0.0));
    }

    #[test]
    fn a_root_beyond_an_end_is_looked_for_there() {
        let axis = Axis::continuous((-30.0, 10.0), 1e-6);
        assert_eq!(near_root(&axis, 0.0, |x| Some(x - 11.0)).x, 10.0);
        assert_eq!(near_root(&axis, 0.0, |x| Some(x + 31.0)).x, -30.0);
    }

    /// As ε is 0 on one side of it, or as another estimate takes over: the root is between, and found by halves.
    #[test]
    fn a_jump_is_found_by_halves() {
        let axis = Axis::continuous((-30.0, 10.0), 1e-6);
        for jump in [-20.0, -3.0, 7.7] {
            let (mut count, below) = (0, f64::NEG_INFINITY);
            let found = near_root(&axis, 0.0, |x| {
                count += 1;
                Some(if x < jump { below } else { 2.0 })
            });
            assert!((found.x - jump).abs() < 0.01, "{jump}: {found:?}");
            assert!(count <= 25, "{count}");
        }
    }

    /// log ε of Gaussian noise over log of the noise, which is hardly a straight line where noise is small.
    #[test]
    fn a_few_estimates_suffice_for_a_smooth_excess() {
        let axis = Axis::continuous((-30.0, 10.0), 1e-6);
        for target in [0.01, 1.0, 8.0, 300.0] {
            let mut count = 0;
            let excess = |x: f64| (0.1 * (x.exp() + (2.0 * x).exp())).ln() - f64::ln(target);
            let found = near_root(&axis, 0.0, |x| {
                count += 1;
                Some(excess(x))
            });
            assert!(
                excess(found.x).abs() < 1e-3 && count <= 6,
                "{target}: {found:?} {count}"
            );
        }
    }
}
