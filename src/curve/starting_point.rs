//! Where a search for ε starts: ε and the slope of log δ near the answer. A bad starting point costs time, but no accuracy.

use crate::curve::epsilon_search::StartingPoint;
use crate::curve::single_step_bounds::log_sum_of_deltas;
use crate::inversion::saddle;
use crate::inversion::segment::{Segment, Total};
use crate::inversion::smoothed::Smoothed;
use crate::inversion::tilt::Tilt;
use crate::special::root::solve_decreasing_between;

/// Relative accuracy of the starting point.
const ACCURACY: f64 = 1e-4;
/// Relative width to which δ of single steps is computed.
const WIDTH: f64 = 1e-3;
/// The first positive ε that is tried, and the factor by which the next ones grow.
const FIRST: (f64, f64) = (1e-6, 8.0);
/// Largest ε that is tried.
const FARTHEST: f64 = 1e12;

/// Distance from the largest loss of a step times the slope of log δ, below which it is the end of all losses of one step that makes δ fall: then it is 1. Without this limit seventeen
/// questions led from one largest loss of Laplace noise to two.
const NEXT_TO_LARGEST: f64 = 2.0;

/// log of the relative error of δ that an estimate by a smoothed loss is designed for.
const LOG_ERROR: f64 = -7.0;
/// The tilt of an estimate over its saddle point, which is often one of the rare event that a whole group is in one batch: that makes the
/// period long.
const FLATTER: f64 = 0.5;
/// Steps of Newton's method for one line, and lines tried.
const NEWTON_STEPS: usize = 8;
const LINES: usize = 4;
/// The starting point is good enough where log δ is that close.
const CLOSE: f64 = 0.02;
/// Distance in log δ beyond which a line does not serve, so that another one is chosen there.
const FAR: f64 = 3.0;
/// The largest step in log δ.
const LONGEST: f64 = 8.0;
/// How far log δ is taken to be below what was expected where it is lost in the errors.
const LOST: f64 = 6.0;

/// A line for estimates of δ near ε, where δ is about e^`log_delta`; the search for its tilt starts at `c`.
fn line_near(segments: &mut [Segment], epsilon: f64, c: Option<f64>, log_delta: f64) -> Option<Smoothed> {
    let c = FLATTER * saddle::for_epsilon(segments, epsilon, c).filter(|&c| c > 0.0)?;
    let log_moment = Total::estimated(segments, c)?.log_moment.value;
    let level = log_moment - c * epsilon - log_delta - LOG_ERROR;
    let tilt = Tilt::at_level(segments, c, epsilon, level.max(-LOG_ERROR))?;
    Smoothed::new(segments, &tilt, epsilon, log_delta)
}

/// An estimate of log δ(ε), which is at most `most`, by the loss plus a little noise (`inversion::smoothed`).
pub(super) fn smoothed_log_delta(segments: &mut [Segment], epsilon: f64, most: f64) -> Option<f64> {
    let mut expected = saddle::log_delta_at(segments, epsilon)?.min(most);
    for _ in 0..LINES {
        let found = line_near(segments, epsilon, None, expected)?.log_delta(epsilon);
        if found > expected - FAR {
            return Some(found.min(most));
        }
        expected -= LOST;
    }
    None
}

/// The ε near `start` at which δ is e^`log_delta`, by the loss plus a little noise.
pub(super) fn of_smoothed_loss(
    segments: &mut [Segment],
    start: StartingPoint,
    log_delta: f64,
) -> Option<StartingPoint> {
    let StartingPoint { mut epsilon, mut slope } = start;
    let newton = |epsilon: f64, excess: f64, slope: f64| epsilon + excess.clamp(-LONGEST, LONGEST) / slope;
    let is_slope = |slope: &f64| *slope > 0.0 && slope.is_finite();
    let mut far: Option<(f64, f64)> = None;
    for _ in 0..LINES {
        let line = line_near(segments, epsilon, Some(slope), log_delta)?;
        let mut excess = line.log_delta(epsilon) - log_delta;
        if excess.is_nan() {
            excess = -LOST;
        }
        if excess.abs() > FAR {
            let measured = far.map(|(before, there)| (there - excess) / (epsilon - before));
            slope = measured.filter(is_slope).unwrap_or(slope);
            far = Some((epsilon, excess));
            epsilon = Some(newton(epsilon, excess, slope)).filter(|&next| next > 0.0)?;
            continue;
        }
        for _ in 0..NEWTON_STEPS {
            let next = Some(newton(epsilon, excess, slope)).filter(|&next| next > 0.0)?;
            let there = line.log_delta(next) - log_delta;
            slope = Some((excess - there) / (next - epsilon)).filter(is_slope)?;
            (epsilon, excess) = (next, there);
            if excess.abs() < CLOSE {
                break;
            }
        }
        return Some(StartingPoint { epsilon, slope });
    }
    None
}

/// The ε at which the sum of δ of single steps is e^`log_delta`, or 0 where it is not larger there: near the answer where losses are so rare that δ is about that sum.
/// `None` next to the largest loss of a step: the run has larger ones.
pub(super) fn of_rare_losses(segments: &[Segment], log_delta: f64) -> Option<StartingPoint> {
    let excess = |epsilon: f64| log_sum_of_deltas(segments, epsilon, WIDTH) - log_delta;
    let mut low = (0.0, excess(0.0));
    if low.1 <= 0.0 {
        return Some(StartingPoint {
            epsilon: 0.0,
            slope: 1.0,
        });
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
    let largest_loss = |segment: &Segment| segment.loss.max_loss().rounded_up();
    let largest = segments.iter().map(largest_loss).fold(0.0, f64::max);
    let is_next_to_largest = (largest - epsilon) * slope < NEXT_TO_LARGEST;
    (slope.is_finite() && slope > 0.0 && !is_next_to_largest).then_some(StartingPoint { epsilon, slope })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::composed_loss::ComposedLoss;
    use crate::loss::StepLoss;
    use crate::loss::pairs::StepOutcome;
    use crate::step::{Direction, GroupLaw};

    fn loss() -> StepLoss {
        let law = GroupLaw::hypergeometric(8, 1_000, 50_000).unwrap();
        StepLoss::mixture(&law, 1.149, Direction::Remove).unwrap().unwrap()
    }

    /// 28 fixed batches with a group of eight: the saddle point is off by a third, estimates by noise by less than a percent, wherever the
    /// search starts.
    #[test]
    fn estimates_by_noise_are_close_where_the_saddle_point_is_not() {
        let log_delta = 1e-7f64.ln();
        let mut composed = ComposedLoss::new(vec![(StepOutcome::Loss(loss()), 28)], true);
        let exact = composed.epsilon(log_delta, 1e-6).unwrap();
        let (loss, _) = loss().truncated(-60.0, 1.0);
        let mut segments = [Segment { loss, steps: 28.0 }];
        let saddle = saddle::for_log_delta(&mut segments, log_delta).unwrap();
        assert!((saddle.epsilon / exact.upper - 1.0).abs() > 0.2, "{saddle:?}");
        for factor in [0.5, 1.0, 1.8] {
            let start = StartingPoint {
                epsilon: factor * saddle.epsilon,
                slope: saddle.c,
            };
            let found = of_smoothed_loss(&mut segments, start, log_delta).unwrap();
            assert!((found.epsilon / exact.upper - 1.0).abs() < 0.01, "{factor}: {found:?}");
        }
        for epsilon in [20.0, 47.0, 60.0] {
            let found = smoothed_log_delta(&mut segments, epsilon, 0.0).unwrap();
            let exact = composed.delta(epsilon, 1e-6).log_upper;
            assert!((found - exact).abs() < 0.1, "{epsilon}: {found} {exact}");
        }
    }

    /// Where so little noise is needed that no line has few enough points, there is no estimate.
    #[test]
    fn there_is_no_estimate_next_to_zero() {
        let (loss, _) = loss().truncated(-60.0, 1.0);
        let mut segments = [Segment { loss, steps: 28.0 }];
        assert_eq!(smoothed_log_delta(&mut segments, 1e-9, 0.0), None);
    }

    /// Two steps of seven records with Laplace noise: δ is so small that a single one has it next to its largest loss alone, and the run at twice that.
    #[test]
    fn the_largest_loss_of_one_step_is_no_start_for_several() {
        let law = GroupLaw::binomial(7, 0.0059).unwrap();
        let segment = |steps: f64| Segment {
            loss: StepLoss::laplace(&law, 5.92, Direction::Remove).unwrap(),
            steps,
        };
        let largest = segment(1.0).loss.max_loss().rounded_up();
        let log_delta = 2e-6f64.ln();
        assert!(of_rare_losses(&[segment(2.0)], log_delta).is_none());
        let exact = ComposedLoss::new(vec![(StepOutcome::Loss(segment(1.0).loss), 2)], false)
            .epsilon(log_delta, 1e-6)
            .unwrap();
        assert!(exact.lower > 1.9 * largest, "{exact:?} {largest}");
        // Gaussian noise has no largest loss.
        let law = GroupLaw::binomial(1, 1e-6).unwrap();
        let loss = StepLoss::mixture(&law, 0.5, Direction::Remove).unwrap().unwrap();
        let found = of_rare_losses(&[Segment { loss, steps: 100.0 }], 1e-6f64.ln()).unwrap();
        assert!(found.epsilon > 0.0, "{found:?}");
    }
}
