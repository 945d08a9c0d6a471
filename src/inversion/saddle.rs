//! The tilt c that suits a question: the saddle point of e^{A(c) − cε}/(c(c + 1)).
//!
//! Every tilt gives a certified answer and the saddle point the narrowest, so that nothing here needs to be exact.

use crate::inversion::segment::{Segment, Total};
use std::f64::consts::PI;

/// The smallest and the largest tilt that a search looks at; where the saddle point lies beyond, none is found.
const MIN_TILT: f64 = 1e-12;
const MAX_TILT: f64 = 1e12;
/// The largest tilt that a search starts at.
const MAX_START: f64 = 1e6;
/// A tilt is accepted where the excess, in the units of its caller, is below this: within a tenth of the spread of the
/// loss, or a tenth of log δ.
const EXCESS_TOLERANCE: f64 = 0.02;
/// Makes the excess of a search 1 where ε is five spreads, or log δ five units, away.
const EXCESS_SCALE: f64 = 0.2;
/// Factors by which brackets grow in c, the first and the largest, and one too small to go on with.
const FIRST_FACTOR: f64 = 2.0;
const MAX_FACTOR: f64 = 64.0;
const MIN_FACTOR: f64 = 1.01;
/// Steps of regula falsi.
const REFINEMENTS: usize = 40;
/// Values beyond this are cut for interpolation: where the moments explode they do not say how far the root is.
const MAX_INTERPOLATED: f64 = 3.0;
/// Steps of the search in (−1, 0).
const NEGATIVE_STEPS: usize = 24;
/// The saddle-point approximation of log δ is bounded near c = 0; larger δ belong to ε below the mean of the loss.
const MAX_LOG_DELTA: f64 = -1.5;

/// A tilt and the ε of which it is the saddle point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saddle {
    /// c.
    pub(crate) c: f64,
    /// ε.
    pub(crate) epsilon: f64,
    /// Approximate log δ(ε).
    pub(crate) log_delta: f64,
    /// Approximate width of the range of losses that δ(ε) comes from.
    width: f64,
}

/// One point of a search: a saddle point, the standard deviation of the tilted loss and the excess there.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    saddle: Saddle,
    spread: f64,
    excess: f64,
}

/// ε and log δ of which c > 0 is the saddle point, and the standard deviation of the tilted loss.
fn at(segments: &mut [Segment], c: f64) -> Option<(Saddle, f64)> {
    let total = Total::at(segments, c)?;
    let epsilon = total.mean - 1.0 / c - 1.0 / (c + 1.0);
    let curvature = total.variance + c.powi(-2) + (c + 1.0).powi(-2);
    let log_delta =
        total.log_moment.value - c * epsilon - (c * (c + 1.0)).ln() - 0.5 * (2.0 * PI * curvature).ln();
    let saddle = Saddle {
        c,
        epsilon,
        log_delta,
        width: curvature.sqrt(),
    };
    Some((saddle, total.variance.sqrt()))
}

/// The saddle point c > 0 where `excess` (decreasing in c) passes through 0, up to [`EXCESS_TOLERANCE`].
fn solve(segments: &mut [Segment], start: f64, excess: impl Fn(&Saddle) -> f64) -> Option<Saddle> {
    let mut evaluate = |c: f64| {
        at(segments, c).map(|(saddle, spread)| Candidate {
            saddle,
            spread,
            excess: excess(&saddle),
        })
    };
    let found = first_finite(&mut evaluate, start)?;
    if found.excess.abs() < EXCESS_TOLERANCE {
        return Some(found.saddle);
    }
    let ((low, high), spread) = bracket(&mut evaluate, found)?;
    refine(&mut evaluate, (low, high), spread)
}

/// The first of `start`, `start`/8, `start`/64, … whose moments are within the range of an `f64`.
fn first_finite(evaluate: &mut impl FnMut(f64) -> Option<Candidate>, mut start: f64) -> Option<Candidate> {
    loop {
        match evaluate(start) {
            Some(found) => return Some(found),
            None if start > MIN_TILT => start *= 0.125,
            None => return None,
        }
    }
}

/// Tilts on both sides of the root, in ascending order, by steps from `found` that grow in log c; and the spread at the
/// last tilt that was evaluated.
fn bracket(
    evaluate: &mut impl FnMut(f64) -> Option<Candidate>,
    found: Candidate,
) -> Option<((Candidate, Candidate), f64)> {
    let upwards = found.excess > 0.0;
    let (mut near, mut far) = (found, found);
    let mut factor = FIRST_FACTOR;
    while (far.excess > 0.0) == upwards {
        near = far;
        let c = if upwards {
            near.saddle.c * factor
        } else {
            near.saddle.c / factor
        };
        if !(MIN_TILT..=MAX_TILT).contains(&c) {
            return None;
        }
        let Some(next) = evaluate(c) else {
            // Beyond the range of numbers: bisect back towards the last tilt that is not.
            factor = factor.sqrt();
            if factor < MIN_FACTOR {
                return None;
            }
            continue;
        };
        far = next;
        factor = (factor * factor).min(MAX_FACTOR);
    }
    let ends = if upwards { (near, far) } else { (far, near) };
    Some((ends, far.spread))
}

/// Regula falsi in log c between tilts on both sides of the root; if it does not converge, the lower one, as the moments
/// may explode at the upper one.
fn refine(
    evaluate: &mut impl FnMut(f64) -> Option<Candidate>,
    (mut low, mut high): (Candidate, Candidate),
    mut spread: f64,
) -> Option<Saddle> {
    let mut best_c = low.saddle.c;
    for _ in 0..REFINEMENTS {
        let (a, b) = (low.saddle.c.ln(), high.saddle.c.ln());
        // Half a standard deviation of the loss at the tilt.
        let enough = (0.5 / (best_c * spread)).clamp(1e-3, 0.1);
        if b - a < enough {
            break;
        }
        let (below, above) = (low.excess.min(MAX_INTERPOLATED), high.excess.max(-MAX_INTERPOLATED));
        let fraction = (below / (below - above)).clamp(0.1, 0.9);
        let middle = evaluate((a + fraction * (b - a)).exp())?;
        (spread, best_c) = (middle.spread, middle.saddle.c);
        if middle.excess.abs() < EXCESS_TOLERANCE {
            return Some(middle.saddle);
        }
        if middle.excess > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low.saddle)
}

/// The tilt for δ at `epsilon`: above 0 in the upper tail of the loss, in (−1, 0) below its mean. The search starts from
/// `known`, the tilt of an ε nearby.
pub(crate) fn for_epsilon(segments: &mut [Segment], epsilon: f64, known: Option<f64>) -> Option<f64> {
    let total = Total::at(segments, 0.0)?;
    let spread = total.variance.sqrt();
    if spread.is_nan() || spread <= 0.0 {
        return None;
    }
    let above = (epsilon - total.mean) / spread;
    if above > -1.0 {
        // As if the loss were Gaussian.
        let guess = (above.max(0.0) + 1.0) / spread;
        let start = known.filter(|&c| c > 0.0).unwrap_or(guess);
        // In units of the spread of the loss, or of that at the tilt: near the largest loss that is far smaller.
        let found = solve(segments, start.min(MAX_START), |saddle| {
            (epsilon - saddle.epsilon) / spread.min(saddle.width) * EXCESS_SCALE
        })?;
        return Some(found.c);
    }
    negative(segments, &total, epsilon)
}

/// The tilt in (−1, 0) for an `epsilon` below the mean of the loss; `total` holds the moments at c = 0.
///
/// A'(c) − ε − 1/c − 1/(c + 1) grows from −∞ to ∞ there. The search starts as if the loss were Gaussian and goes on by
/// steps of a factor until there is a bracket, then by halving.
fn negative(segments: &mut [Segment], total: &Total, epsilon: f64) -> Option<f64> {
    let spread = total.variance.sqrt();
    let (mut low, mut high) = (-1.0 + 1e-9, -1e-9);
    let mut c = (-(total.mean - epsilon) / total.variance).clamp(-0.5, high);
    for _ in 0..NEGATIVE_STEPS {
        let value = Total::at(segments, c)?.mean - epsilon - 1.0 / c - 1.0 / (c + 1.0);
        if value > 0.0 {
            high = c;
        } else {
            low = c;
        }
        let next = match (low > -0.9, high < -1e-8) {
            (true, true) => 0.5 * (low + high),
            (false, _) => (1.5 * c).max(0.5 * (low + c)),
            (true, false) => c / 1.5,
        };
        if high - low < 0.3 / spread || high - low < 0.1 * c.abs() {
            break;
        }
        c = next;
    }
    Some(c)
}

/// The saddle point whose δ is about e^`log_delta`.
pub(crate) fn for_log_delta(segments: &mut [Segment], log_delta: f64) -> Option<Saddle> {
    let total = Total::at(segments, 0.0)?;
    let spread = total.variance.sqrt();
    if spread.is_nan() || spread <= 0.0 {
        return None;
    }
    let target = log_delta.min(MAX_LOG_DELTA);
    let start = (1.0 + (-2.0 * target).sqrt()) / spread;
    solve(segments, start.min(MAX_START), |saddle| {
        EXCESS_SCALE * (saddle.log_delta - target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;

    /// A'(c) − 1/c − 1/(c + 1) of a Gaussian run: the ε of which c is the saddle point.
    fn epsilon_of(run: GaussianRun, c: f64) -> f64 {
        0.5 * (2.0 * c + 1.0) * run.variance - 1.0 / c - 1.0 / (c + 1.0)
    }

    /// The root of `epsilon_of(c) = epsilon` in (low, high), by bisection.
    fn exact_root(run: GaussianRun, epsilon: f64, (mut low, mut high): (f64, f64)) -> f64 {
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if epsilon_of(run, middle) < epsilon {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    #[test]
    fn tilts_above_zero_solve_the_equation() {
        for (distance, steps) in [(1.0, 1.0), (0.05, 1000.0), (1e-3, 1e4), (4.0, 3.0)] {
            let run = GaussianRun::new(distance, steps);
            let spread = run.variance.sqrt();
            for above in [-0.9, 0.0, 1.0, 4.0, 12.0] {
                let epsilon = 0.5 * run.variance + above * spread;
                for known in [None, Some(1e-5), Some(1e5)] {
                    let c = for_epsilon(&mut run.segments(), epsilon, known).unwrap();
                    let residual = (epsilon_of(run, c) - epsilon).abs();
                    let relative = (c / exact_root(run, epsilon, (1e-9, 1e9))).ln().abs();
                    let enough = (0.5 / (c * spread)).clamp(1e-3, 0.1);
                    let is_root = residual <= 0.1 * spread || relative <= enough;
                    assert!(is_root, "{distance} {above} {known:?}: {c} {residual} {relative}");
                }
            }
        }
    }

    #[test]
    fn tilts_below_zero_are_within_a_tenth_of_the_root() {
        for (distance, steps) in [(1.0, 4.0), (0.05, 4000.0), (1e-3, 1e4)] {
            let run = GaussianRun::new(distance, steps);
            let spread = run.variance.sqrt();
            for below in [1.1, 3.0, 9.0] {
                let epsilon = 0.5 * run.variance - below * spread;
                let c = for_epsilon(&mut run.segments(), epsilon, None).unwrap();
                let root = exact_root(run, epsilon, (-1.0 + 1e-9, -1e-9));
                let allowed = (0.3 / spread).max(0.12 * root.abs());
                assert!(
                    (-1.0..0.0).contains(&c) && (c - root).abs() <= allowed,
                    "{below}: {c} {root}"
                );
            }
        }
    }

    #[test]
    fn a_wanted_delta_is_nearly_met() {
        for (distance, steps) in [(1.0, 1.0), (0.05, 1000.0), (4.0, 3.0)] {
            let run = GaussianRun::new(distance, steps);
            for log_delta in [-5.0, -12.0, -40.0, -300.0] {
                let saddle = for_log_delta(&mut run.segments(), log_delta).unwrap();
                // Within half a standard deviation of the loss.
                let allowed = (0.5 * saddle.c * saddle.width).max(0.1);
                assert!((saddle.log_delta - log_delta).abs() <= allowed, "{saddle:?}");
                assert!((saddle.epsilon - epsilon_of(run, saddle.c)).abs() <= 1e-9 * (1.0 + saddle.epsilon.abs()));
                // The approximation of the lowest order is right to some per cent in the tail.
                assert!(
                    (run.log_delta(saddle.epsilon) - saddle.log_delta).abs() <= 0.25,
                    "{saddle:?}"
                );
            }
        }
    }

    #[test]
    fn there_is_no_tilt_for_a_loss_that_does_not_vary() {
        assert_eq!(for_epsilon(&mut [], 1.0, None), None);
        assert!(for_log_delta(&mut [], -10.0).is_none());
    }
}
