//! Where a search for ε starts: ε and the slope of log δ near the answer. A bad starting point costs time, but no accuracy.

use crate::curve::epsilon_search::StartingPoint;
use crate::curve::single_step_bounds::log_sum_of_deltas;
use crate::inversion::segment::Segment;
use crate::special::root::solve_decreasing_between;

/// Relative accuracy of the starting point.
const ACCURACY: f64 = 1e-4;
/// Relative width to which δ of single steps is computed.
const WIDTH: f64 = 1e-3;
/// The first positive ε that is tried, and the factor by which the next ones grow.
const FIRST: (f64, f64) = (1e-6, 8.0);
/// Largest ε that is tried.
const FARTHEST: f64 = 1e12;

/// The ε at which the sum of δ of single steps is e^`log_delta`: near the answer where losses are so rare that δ is about that sum.
pub(super) fn of_rare_losses(segments: &[Segment], log_delta: f64) -> Option<StartingPoint> {
    let excess = |epsilon: f64| log_sum_of_deltas(segments, epsilon, WIDTH) - log_delta;
    let mut low = (0.0, excess(0.0));
    if low.1 <= 0.0 {
        return None;
    }
    let (first, growth) = FIRST;
    let mut high = (first, excess(first));
    while high.1 > 0.0 {
        low = high;
        let next = growth * high.0;
        high = (next, excess(next));
        if next > FARTHEST {
            return None;
        }
    }
    let root = solve_decreasing_between((low, high), ACCURACY * high.0, |epsilon| Ok::<_, ()>(excess(epsilon)));
    let epsilon = root.ok()?;
    let beyond = epsilon * (1.0 + ACCURACY);
    let slope = (excess(epsilon) - excess(beyond)) / (beyond - epsilon);
    (slope.is_finite() && slope > 0.0).then_some(StartingPoint { epsilon, slope })
}
