//! The tilt c that suits a question: the saddle point of e^{A(c) − cε}/(c(c + 1)).
//!
//! Every tilt gives a certified answer and the saddle point the narrowest, so that nothing here needs to be exact.

use crate::inversion::chernoff::MomentBound;
use crate::inversion::segment::{Segment, Total};
use crate::special::root::{bracket_decreasing, solve_decreasing_between};
use std::f64::consts::PI;
use std::ops::RangeInclusive;

/// The smallest and the largest tilt that a search looks at; where the saddle point lies beyond, none is found.
const MIN_TILT: f64 = 1e-12;
const MAX_TILT: f64 = 1e12;
/// The largest tilt that a search starts at.
const MAX_START: f64 = 1e6;
/// Distance from −1 and 0 of the tilts in (−1, 0) that a search looks at.
const MIN_DISTANCE: f64 = 1e-9;
/// A tilt is accepted where the excess, in the units of its caller, is below this: within a tenth of the spread of the
/// loss, or 0.1 in log δ.
const EXCESS_TOLERANCE: f64 = 0.02;
/// Largest difference of ε, in widths of the range of losses that δ comes from, and of log δ between an estimate and certified moments that
/// confirm it: a third of what [`EXCESS_TOLERANCE`] allows.
const AGREEMENT: f64 = 0.03;
/// Makes the excess of a search 1 where ε is five spreads, or log δ five units, away.
const EXCESS_SCALE: f64 = 0.2;
/// Steps by which a bracket grows, in the coordinate of the strip: the first, a factor of 2 in c; the largest, a factor of 64; and one
/// with which the search gives up.
const FIRST_STEP: f64 = std::f64::consts::LN_2;
const MAX_STEP: f64 = 6.0 * FIRST_STEP;
const MIN_STEP: f64 = 0.01;
/// Limits of the accuracy of a coordinate.
const MIN_ACCURACY: f64 = 1e-3;
const MAX_ACCURACY: f64 = 0.1;
/// Values beyond this are cut for interpolation: where the moments explode they do not say how far the root is.
const MAX_INTERPOLATED: f64 = 3.0;
/// The saddle-point approximation of log δ is bounded near c = 0; larger δ belong to ε below the mean of the loss.
pub(crate) const MAX_LOG_DELTA: f64 = -1.5;

/// A tilt and the ε of which it is the saddle point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saddle {
    /// c.
    pub(crate) c: f64,
    /// A(c), without its error.
    pub(crate) log_moment: f64,
    /// ε.
    pub(crate) epsilon: f64,
    /// Approximate log δ(ε).
    pub(crate) log_delta: f64,
    /// Approximate width of the range of losses that δ(ε) comes from: the square root of dε/dc.
    pub(crate) width: f64,
}

/// A saddle point with a bound on the moment there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    /// The tilt, the ε of which it is the saddle point, and approximately its log δ.
    pub(crate) saddle: Saddle,
    /// A bound on the moment at this tilt; infinite where the moments are estimates.
    pub(crate) bound: MomentBound,
}

/// The interval in which a tilt is searched, with a coordinate that grows with c from −∞ to ∞.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Strip {
    /// c > 0, for the upper tail of the loss: the coordinate is log c.
    Upper,
    /// −1 < c < 0, for ε below the mean: the coordinate is log((1 + c)/−c).
    Lower,
}

impl Strip {
    fn tilt(self, coordinate: f64) -> f64 {
        match self {
            Self::Upper => coordinate.exp(),
            Self::Lower => -1.0 / (1.0 + coordinate.exp()),
        }
    }

    fn coordinate(self, c: f64) -> f64 {
        match self {
            Self::Upper => c.ln(),
            Self::Lower => ((1.0 + c) / -c).ln(),
        }
    }

    /// The coordinates that a search looks at.
    fn range(self) -> RangeInclusive<f64> {
        match self {
            Self::Upper => MIN_TILT.ln()..=MAX_TILT.ln(),
            Self::Lower => MIN_DISTANCE.ln()..=-MIN_DISTANCE.ln(),
        }
    }
}

/// Moments of some segments at c: [`Total::at`] or [`Total::estimated`].
pub(crate) type Moments = fn(&mut [Segment], f64) -> Option<Total>;

/// The saddle point at c with the bound on its moment; `None` where the loss does not vary or the moment is beyond the range of an `f64`.
pub(crate) fn node(segments: &mut [Segment], c: f64, moments: Moments) -> Option<Node> {
    let total = moments(segments, c).filter(|total| total.variance > 0.0)?;
    let log_moment = total.log_moment.upper();
    Some(Node {
        saddle: of_total(&total, c),
        bound: MomentBound { c, log_moment },
    })
}

/// The saddle point at c, where these are the moments.
fn of_total(total: &Total, c: f64) -> Saddle {
    let epsilon = total.mean - 1.0 / c - 1.0 / (c + 1.0);
    let curvature = total.variance + c.powi(-2) + (c + 1.0).powi(-2);
    let at_saddle = total.log_moment.value - c * epsilon;
    let log_delta = at_saddle - (c * (c + 1.0)).abs().ln() - 0.5 * (2.0 * PI * curvature).ln();
    Saddle {
        c,
        log_moment: total.log_moment.value,
        epsilon,
        log_delta,
        width: curvature.sqrt(),
    }
}

/// One search for the tilt at which an excess that decreases in c passes through 0.
struct Search<'a, F> {
    segments: &'a mut [Segment],
    moments: Moments,
    strip: Strip,
    excess: F,
    /// Whether all moments so far have an error that is known.
    is_certified: bool,
    /// The last saddle point that was evaluated, and the highest one at which the excess was positive.
    last: Option<Saddle>,
    lower: Option<Saddle>,
    /// The interval of coordinates that the root is known to lie in.
    bracket: (f64, f64),
    /// How close its ends have to be: half a standard deviation of the loss at the last tilt.
    accuracy: f64,
}

impl<F: Fn(&Saddle) -> f64> Search<'_, F> {
    /// The excess at a coordinate; `None` where the moments are beyond the range of an `f64`.
    fn evaluate(&mut self, coordinate: f64) -> Option<f64> {
        let c = self.strip.tilt(coordinate);
        let total = (self.moments)(self.segments, c)?;
        self.is_certified &= total.is_certified();
        let (saddle, spread) = (of_total(&total, c), total.variance.sqrt());
        let excess = (self.excess)(&saddle);
        self.last = Some(saddle);
        self.accuracy = (0.5 / (saddle.c.abs() * spread)).clamp(MIN_ACCURACY, MAX_ACCURACY);
        if excess <= 0.0 {
            self.bracket.1 = self.bracket.1.min(coordinate);
        } else if coordinate > self.bracket.0 {
            self.bracket.0 = coordinate;
            self.lower = Some(saddle);
        }
        Some(excess.clamp(-MAX_INTERPOLATED, MAX_INTERPOLATED))
    }

    /// The last tilt, if the excess there is as small as it has to be.
    fn close_enough(&self, excess: f64) -> Option<Saddle> {
        self.last.filter(|_| excess.abs() < EXCESS_TOLERANCE)
    }

    /// The tilt; where the excess jumps, the largest one at which it was positive, as the moments may explode above.
    fn run(&mut self, start: f64) -> Option<Saddle> {
        let range = self.strip.range();
        let first = self.first_finite(self.strip.coordinate(start))?;
        if let Some(found) = self.close_enough(first.1) {
            return Some(found);
        }
        let steps = [MIN_STEP, FIRST_STEP, MAX_STEP];
        let [low, high] = bracket_decreasing(first, steps, range, |x| self.evaluate(x))?;
        // The search ends with an error at a tilt that is good enough, or beyond the range of numbers.
        let found = solve_decreasing_between((low, high), MIN_ACCURACY, |x| {
            let excess = self.evaluate(x).ok_or(None)?;
            if let Some(found) = self.close_enough(excess) {
                Err(Some(found))
            } else if self.bracket.1 - self.bracket.0 < self.accuracy {
                Err(self.lower)
            } else {
                Ok(excess)
            }
        });
        found.map_or_else(|found| found, |_| self.lower)
    }

    /// The start, or the first tilt below it by factors of 8 whose moments are within the range of an `f64`.
    fn first_finite(&mut self, start: f64) -> Option<(f64, f64)> {
        let mut x = start;
        loop {
            match self.evaluate(x) {
                Some(excess) => return Some((x, excess)),
                None if x > *self.strip.range().start() => x -= 3.0 * std::f64::consts::LN_2,
                None => return None,
            }
        }
    }
}

/// The saddle point in a strip where `excess` (decreasing in c) passes through 0, up to [`EXCESS_TOLERANCE`].
///
/// The search looks at estimates. Where certified moments do not agree with what it found, it is made again with these.
fn solve(segments: &mut [Segment], strip: Strip, start: f64, excess: impl Fn(&Saddle) -> f64) -> Option<Saddle> {
    let search_by = |moments: Moments, segments: &mut [Segment]| {
        let mut search = Search {
            segments,
            moments,
            strip,
            excess: &excess,
            is_certified: true,
            last: None,
            lower: None,
            bracket: (f64::NEG_INFINITY, f64::INFINITY),
            accuracy: MAX_ACCURACY,
        };
        (search.run(start), search.is_certified)
    };
    let (found, is_certified) = search_by(Total::estimated, segments);
    if is_certified {
        return found;
    }
    let found = found.and_then(|found| confirmed(segments, &found));
    found.or_else(|| search_by(Total::at, segments).0)
}

/// The saddle point by certified moments at the tilt of one by estimates, if they agree.
fn confirmed(segments: &mut [Segment], estimate: &Saddle) -> Option<Saddle> {
    let total = Total::at(segments, estimate.c)?;
    let saddle = of_total(&total, estimate.c);
    agree(estimate, &saddle).then_some(saddle)
}

/// Whether an estimate is so good that a search by estimates is as good as one by certified moments.
pub(crate) fn agree(estimate: &Saddle, certified: &Saddle) -> bool {
    (estimate.epsilon - certified.epsilon).abs() <= AGREEMENT * certified.width
        && (estimate.log_delta - certified.log_delta).abs() <= AGREEMENT
}

/// The tilt for δ at `epsilon`: above 0 in the upper tail of the loss, in (−1, 0) below its mean. The search starts from
/// `known`, the tilt of an ε nearby, or as if the loss were Gaussian.
pub(crate) fn for_epsilon(segments: &mut [Segment], epsilon: f64, known: Option<f64>) -> Option<f64> {
    let total = Total::estimated(segments, 0.0)?;
    let spread = total.variance.sqrt();
    if spread.is_nan() || spread <= 0.0 {
        return None;
    }
    let above = (epsilon - total.mean) / spread;
    let (strip, start) = if above > -1.0 {
        let guess = (above.max(0.0) + 1.0) / spread;
        let start = known.filter(|&c| c > 0.0).unwrap_or(guess);
        (Strip::Upper, start.min(MAX_START))
    } else {
        (Strip::Lower, (above / spread).clamp(-0.5, -2.0 * MIN_DISTANCE))
    };
    // In units of the spread of the loss, or of that at the tilt: near the largest loss that is far smaller.
    let found = solve(segments, strip, start, |saddle| {
        (epsilon - saddle.epsilon) / spread.min(saddle.width) * EXCESS_SCALE
    })?;
    Some(found.c)
}

/// The tilt for δ at `epsilon` if the loss were Gaussian; `None` where that is not above 0.
pub(crate) fn upper_guess(segments: &mut [Segment], epsilon: f64) -> Option<f64> {
    let total = Total::estimated(segments, 0.0)?;
    let spread = total.variance.sqrt();
    let above = (epsilon - total.mean) / spread;
    (spread > 0.0 && above > -1.0).then(|| ((above.max(0.0) + 1.0) / spread).min(MAX_START))
}

/// The tilt whose δ is about e^`log_delta` if the loss were Gaussian.
pub(crate) fn guess_for_log_delta(segments: &mut [Segment], log_delta: f64) -> Option<f64> {
    let spread = Total::estimated(segments, 0.0)?.variance.sqrt();
    (spread > 0.0).then(|| ((1.0 + (-2.0 * log_delta).sqrt()) / spread).min(MAX_START))
}

/// Approximate log δ at an ε above the mean of the loss; `None` where nothing is known.
pub(crate) fn log_delta_at(segments: &mut [Segment], epsilon: f64) -> Option<f64> {
    let c = for_epsilon(segments, epsilon, None).filter(|&c| c > 0.0)?;
    Total::at(segments, c).map(|total| of_total(&total, c).log_delta)
}

/// The saddle point whose δ is about e^`log_delta`.
pub(crate) fn for_log_delta(segments: &mut [Segment], log_delta: f64) -> Option<Saddle> {
    let target = log_delta.min(MAX_LOG_DELTA);
    let start = guess_for_log_delta(segments, target)?;
    solve(segments, Strip::Upper, start, |saddle| {
        EXCESS_SCALE * (saddle.log_delta - target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;
    use crate::special::root::bisect;

    /// A'(c) − 1/c − 1/(c + 1) of a Gaussian run: the ε of which c is the saddle point.
    fn epsilon_of(run: GaussianRun, c: f64) -> f64 {
        0.5 * (2.0 * c + 1.0) * run.variance - 1.0 / c - 1.0 / (c + 1.0)
    }

    /// The root of `epsilon_of(c) = epsilon` in (low, high).
    fn exact_root(run: GaussianRun, epsilon: f64, ends: (f64, f64)) -> f64 {
        bisect(ends, 200, |_| 0.0, |c| Ok::<_, ()>(epsilon_of(run, c) >= epsilon)).unwrap()
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
