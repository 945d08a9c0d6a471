//! What is known of a mixture's likelihood ratio around a point: the posterior law of the shift, and bounds for complex arguments near an interval.

use super::{MixturePair, position_past};
use crate::special::vector;
use std::f64::consts::PI;

/// Part of the posterior law of the shift that [`Local`] leaves outside its central range.
const OUTSIDE: f64 = 1e-6;

/// What happens at one point: the log ratio and the posterior law of the shift there.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// log(mixture / N(0, σ²)).
    pub log_ratio: f64,
    /// Posterior mean of the shift; the slope of the log ratio is this over σ².
    pub mean_shift: f64,
    /// Posterior mean of the shift's square.
    pub mean_square_shift: f64,
    /// The shift below which lies at most a part 5e-7 of the posterior law.
    pub low_shift: f64,
    /// The shift above which lies at most a part 5e-7.
    pub high_shift: f64,
}

/// What is known of the ratio for complex z = x + iy near a real interval.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    /// The log ratio and the posterior law of the shift at the left end, the centre and the right end.
    pub left: Local,
    /// At the centre.
    pub centre: Local,
    /// At the right end.
    pub right: Local,
    /// φ: the terms of r(z), but for a negligible part, point within ±φ of one direction.
    pub angle: f64,
    /// |r(z)|/r(x) is at least this; not above 0 if r may vanish.
    pub kept: f64,
    /// Largest distance of the log ratio from its tangent at the centre, on the real interval.
    pub gap: f64,
}

impl MixturePair {
    /// The log ratio and the posterior law of the shift at x.
    pub fn local(&self, x: f64, scratch: &mut Vec<f64>) -> Local {
        let window = self.terms_at(x, scratch);
        let shifts = &self.shifts[window.start..window.end];
        let sum = vector::sum(scratch);
        let moment = vector::dot(scratch, shifts);
        let square: f64 = scratch.iter().zip(shifts).map(|(p, s)| p * s * s).sum();
        let outside = 0.5 * OUTSIDE * sum;
        let low = position_past(scratch.iter().copied(), outside);
        let high = scratch.len() - 1 - position_past(scratch.iter().rev().copied(), outside);
        Local {
            log_ratio: self.refined(x, (window.start, window.end), window.largest + sum.ln()),
            mean_shift: moment / sum,
            mean_square_shift: square / sum,
            low_shift: self.shifts[window.start + low],
            high_shift: self.shifts[window.start + high],
        }
    }

    /// Bounds on the ratio for |Re z − centre| ≤ `reach` and |Im z| ≤ `height`.
    ///
    /// All but a part η of the posterior law of the shift lies, at every x of the interval, between its low
    /// quantile at the left end and its high quantile at the right end, because the law grows with x
    /// (monotone likelihood ratio). Those terms of r(z) point within ±φ of one direction,
    /// φ = height·(range of shifts)/2σ², so |r(z)| ≥ r(x)·((1 − η)·cos φ − η).
    pub fn surroundings(&self, centre: f64, reach: f64, height: f64, scratch: &mut Vec<f64>) -> Surroundings {
        let variance = self.noise_multiplier * self.noise_multiplier;
        let left = self.local(centre - reach, scratch);
        let right = self.local(centre + reach, scratch);
        let centre = self.local(centre, scratch);
        let angle = 0.5 * height * (right.high_shift - left.low_shift) / variance;
        let slope = centre.mean_shift / variance;
        let gap_left = left.log_ratio - (centre.log_ratio - slope * reach);
        let gap_right = right.log_ratio - (centre.log_ratio + slope * reach);
        Surroundings {
            left,
            centre,
            right,
            angle,
            kept: if angle < 0.5 * PI {
                (1.0 - OUTSIDE) * angle.cos() - OUTSIDE
            } else {
                0.0
            },
            gap: gap_left.max(gap_right).max(0.0),
        }
    }
}
