//! Where the saddle point of the runs with at least one far step lies, and how large their δ is, roughly.
//!
//! The estimates are made of moments of which no error is known. They choose the gates and the tilt: they decide how narrow the answer is, not whether it is
//! true. What is neglected is bounded by certified moments ([`log_bound`]).

use crate::inversion::segment::Segment;
use crate::loss::StepLoss;
use crate::loss::privacy_loss::TiltedMoments;
use crate::special::log_space::LogSum;
use crate::special::root::false_position;
use std::f64::consts::PI;

/// log of the part of a moment that quadrature may leave out: enough for two digits of the estimates.
const LOG_TOLERANCE: f64 = -12.0;
/// The tilt is multiplied by this factor until the saddle point lies between two tilts, and at most so often: down to 0.0008 of the
/// first one.
const STEP_FACTOR: f64 = 0.6;
const MAX_STEPS: usize = 14;
/// Steps of the search between these two tilts. A tilt a few per cent below the saddle point serves as well, and its transform decays sooner: with a search
/// that comes within half a per cent, inversion took half as long again.
const REFINEMENTS: usize = 3;
/// A near part of less than 1e-9 has no digits of its own as a difference.
const MAX_FAR_FRACTION: f64 = 1.0 - 1e-9;

/// Estimates for the runs with a far step at one tilt.
pub(super) struct FarRuns {
    pub(super) c: f64,
    /// Mean of their tilted loss.
    mean: f64,
    /// Approximate log δ, if c is the saddle point.
    pub(super) log_delta: f64,
    /// log E[e^{cS}; some step is far], approximately.
    pub(super) log_moment: f64,
}

impl FarRuns {
    /// The estimates at tilt c, where `far` are the far parts of the segments; `None` where a moment is beyond the range of an `f64`.
    pub(super) fn at(segments: &mut [Segment], far: &mut [StepLoss], c: f64, epsilon: f64) -> Option<Self> {
        let (mut log_moment, mut log_near) = (0.0, 0.0);
        let (mut mean, mut variance) = (0.0, 0.0);
        let (mut near_mean, mut near_variance) = (0.0, 0.0);
        for (segment, far) in segments.iter_mut().zip(far) {
            let steps = segment.steps;
            let log_tolerance = LOG_TOLERANCE - steps.ln();
            let whole = segment.loss.estimated_moments(c, log_tolerance);
            let far = far.estimated_moments(c, log_tolerance);
            let log_fraction = far.log_moment.value - whole.log_moment.value;
            if !log_fraction.is_finite() {
                return None;
            }
            let far_fraction = log_fraction.exp().min(MAX_FAR_FRACTION);
            // Moments of the near part of a step: φ = N + H.
            let square = |of: TiltedMoments| of.variance + of.mean * of.mean;
            let one = (whole.mean - far_fraction * far.mean) / (1.0 - far_fraction);
            let two = (square(whole) - far_fraction * square(far)) / (1.0 - far_fraction);
            log_moment += steps * whole.log_moment.value;
            log_near += steps * (-far_fraction).ln_1p();
            mean += steps * whole.mean;
            variance += steps * whole.variance;
            near_mean += steps * one;
            near_variance += steps * (two - one * one).max(0.0);
        }
        let near = log_near.exp();
        let far = -log_near.exp_m1();
        let runs_mean = (mean - near * near_mean) / far;
        let square = variance + mean * mean - near * (near_variance + near_mean * near_mean);
        let runs_variance = (square / far - runs_mean * runs_mean).max(0.0);
        let curvature = runs_variance + c.powi(-2) + (c + 1.0).powi(-2);
        let found = Self {
            c,
            mean: runs_mean,
            log_moment: log_moment + far.ln(),
            log_delta: log_moment + far.ln()
                - c * epsilon
                - (c * (c + 1.0)).ln()
                - 0.5 * (2.0 * PI * curvature).ln(),
        };
        found.log_delta.is_finite().then_some(found)
    }

    /// How far the mean is above that at which c would be the saddle point of `epsilon`.
    fn excess(&self, epsilon: f64) -> f64 {
        self.mean - epsilon - 1.0 / self.c - 1.0 / (self.c + 1.0)
    }

    /// The estimates at or below the saddle point between two tilts around it.
    fn between(
        segments: &mut [Segment],
        far: &mut [StepLoss],
        (below, above): (Self, Self),
        epsilon: f64,
    ) -> Self {
        let point = |of: &Self| (of.c.ln(), -of.excess(epsilon));
        let ends = (point(&below), point(&above));
        let mut best = below;
        false_position(ends, REFINEMENTS, |log_c| {
            let middle = Self::at(segments, far, log_c.exp(), epsilon)?;
            let (_, value) = point(&middle);
            if value > 0.0 {
                best = middle;
            }
            Some(value)
        });
        best
    }

    /// The estimates at the saddle point of these runs, which is at or below `c`, that of the whole law.
    pub(super) fn saddle(segments: &mut [Segment], far: &mut [StepLoss], c: f64, epsilon: f64) -> Option<Self> {
        let here = Self::at(segments, far, c, epsilon)?;
        if here.excess(epsilon) <= 0.0 {
            return Some(here);
        }
        Some(here.search(segments, far, epsilon))
    }

    /// The estimates at the saddle point of these runs, searched on both sides of `c`.
    pub(super) fn saddle_around(
        segments: &mut [Segment],
        far: &mut [StepLoss],
        c: f64,
        epsilon: f64,
    ) -> Option<Self> {
        Some(Self::at(segments, far, c, epsilon)?.search(segments, far, epsilon))
    }

    /// The saddle point on the side on which it is from here.
    fn search(self, segments: &mut [Segment], far: &mut [StepLoss], epsilon: f64) -> Self {
        let mut here = self;
        let is_above = here.excess(epsilon) > 0.0;
        let factor = if is_above { STEP_FACTOR } else { 1.0 / STEP_FACTOR };
        for _ in 0..MAX_STEPS {
            let Some(next) = Self::at(segments, far, factor * here.c, epsilon) else {
                break;
            };
            if (next.excess(epsilon) > 0.0) != is_above {
                let ends = if is_above { (next, here) } else { (here, next) };
                return Self::between(segments, far, ends, epsilon);
            }
            here = next;
        }
        here
    }
}

/// log of a bound on E[e^{cS}; some step is far], where `far` are the far parts of the segments.
///
/// With φ the moments of the steps, N those of their near and H of their far parts, it is |Π φ^T − Π N^T| ≤ Π φ^T·Σ T·H/φ and ≤ Π φ^T.
pub(super) fn log_bound(segments: &mut [Segment], far: &mut [StepLoss], c: f64) -> f64 {
    let (mut log_upper, mut far_steps) = (0.0, LogSum::default());
    for (segment, far) in segments.iter_mut().zip(far) {
        let log_tolerance = LOG_TOLERANCE - segment.steps.ln();
        let whole = segment.loss.moments(c, log_tolerance).log_moment;
        let fraction = far.moments(c, log_tolerance).log_moment - whole;
        log_upper += segment.steps * whole.upper();
        far_steps.add(segment.steps.ln() + fraction.upper());
    }
    log_upper + far_steps.ln().min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Direction, GroupLaw};

    /// E[e^{cS}; some step is far] is M^T − N^T, with N = M − H: the bound T·H·M^{T−1} is nearly attained where far steps are rare, and M^T
    /// where nearly all are.
    #[test]
    fn the_moment_of_runs_with_a_far_step_is_bounded_and_nearly_attained() {
        let law = GroupLaw::binomial(1, 1e-3).unwrap();
        for (steps, level, c) in [(3.0, 1.0, 0.5), (20.0, 2.0, 1.0), (4.0, 0.5, 12.0)] {
            let mut loss = StepLoss::mixture(&law, 0.7, Direction::Remove).unwrap().unwrap();
            let gate = loss.separation(level, 0.1 * level).unwrap();
            let mut far = loss.far_part(gate).unwrap();
            let moment = |of: &mut StepLoss| of.moments(c, -30.0).log_moment.value;
            let (log_whole, log_far) = (moment(&mut loss), moment(&mut far));
            let exact = steps * log_whole + (-(steps * (-(log_far - log_whole).exp()).ln_1p()).exp_m1()).ln();
            let mut segments = [Segment { loss, steps }];
            let found = log_bound(&mut segments, &mut [far], c);
            // Its moments leave out e^−12.
            assert!(exact <= found + 1e-5, "{steps} {c}: {exact} {found}");
            assert!(found < exact + 0.5, "{steps} {c}: {exact} {found}");
        }
    }
}
