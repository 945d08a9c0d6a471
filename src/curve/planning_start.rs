//! Where a search for an unknown of the equation starts: near the threshold, by estimates of δ that take a few moments each.
//!
//! A certified verdict far from the threshold can take many times as long as one next to it: with little noise, or few steps, a run is hard.
//! Saddle points say about where the threshold is, so that verdicts are asked for next to it only. Bad estimates cost time, but no accuracy.

use crate::curve::axis::Axis;
use crate::special::root::{bracket_decreasing, solve_decreasing_between};

/// Steps along the axis by which a bracket grows: one too small to go on with, the first (a factor of 2), and the largest.
const STEPS: [f64; 3] = [0.05, 0.7, 6.0];
/// The search ends where an estimate of log δ is as close to the target: verdicts next to it are needed in any case.
const CLOSE: f64 = 0.05;
/// The search ends with a bracket this long on the logarithmic axis, whatever the estimates say.
const SHORT: f64 = 1e-3;
/// Values beyond this are cut for interpolation.
const LARGEST: f64 = 30.0;

/// Where a search starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Start {
    /// The first point.
    pub(crate) x: f64,
    /// By how much the excess grows for each e-fold of the unknown next to it, about; `None` where nothing is known.
    pub(crate) slope: Option<f64>,
}

impl From<f64> for Start {
    fn from(x: f64) -> Self {
        Self { x, slope: None }
    }
}

/// A start near the root of `excess`, which grows along the axis and is `None` where nothing is known of it; `default` if none is found.
pub(super) fn near_root(axis: &Axis, default: f64, mut excess: impl FnMut(f64) -> Option<f64>) -> Start {
    let coordinate = |x: f64| if axis.whole { x.max(1.0).ln() } else { x };
    let point = |coordinate: f64| {
        let x = if axis.whole {
            coordinate.exp().round()
        } else {
            coordinate
        };
        x.clamp(axis.ends.0, axis.ends.1)
    };
    // The roots of `special::root` are those of decreasing functions.
    let mut last = [None::<(f64, f64)>; 2];
    let mut value = |reversed: f64| {
        let found = excess(point(-reversed))?.clamp(-LARGEST, LARGEST);
        last = [last[1], Some((reversed, found))];
        (!found.is_nan()).then_some(found)
    };
    let first = -coordinate(default);
    // Beyond an end `point` is the end itself, so that a step that is too long does not miss a root before it.
    let limits = -coordinate(axis.ends.1) - STEPS[2]..=-coordinate(axis.ends.0) + STEPS[2];
    let bracket = value(first).and_then(|at_first| {
        if at_first.abs() <= CLOSE {
            return None;
        }
        bracket_decreasing((first, at_first), STEPS, limits, &mut value)
    });
    let Some([low, high]) = bracket else {
        return default.into();
    };
    let found = solve_decreasing_between((low, high), SHORT, |x| match value(x) {
        Some(found) if found.abs() <= CLOSE => Err(Some(x)),
        Some(found) => Ok(found),
        None => Err(None),
    });
    let Some(root) = found.map_or_else(|close| close, Some) else {
        return default.into();
    };
    let slope = match last {
        [Some((a, at_a)), Some((b, at_b))] => Some((at_a - at_b) / (b - a)),
        _ => None,
    };
    Start {
        x: point(-root),
        slope: slope.filter(|slope| slope.is_finite() && *slope > 0.0),
    }
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
        // The root is beyond the end of the axis.
        assert_eq!(near_root(&axis, 0.0, |x| Some(x - 11.0)), Start::from(0.0));
        let lost = near_root(&axis, 0.0, |x| (x < 2.0).then_some(x - 5.0));
        assert_eq!(lost, Start::from(0.0));
    }
}
