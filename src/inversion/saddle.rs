//! Which tilt c suits a question: the saddle point of e^{A(c) − cε}/(c(c + 1)).
//!
//! Nothing here needs to be exact: every tilt gives a certified answer, the saddle point the narrowest.

use crate::inversion::segment::{Segment, Total};
use std::f64::consts::PI;

/// Tilts that are looked at.
const LEAST: f64 = 1e-12;
const MOST: f64 = 1e12;
/// A tilt is good enough where the excess is below this.
const GOOD: f64 = 0.02;

/// A tilt and where it is the saddle point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saddle {
    /// c.
    pub(crate) c: f64,
    /// ε.
    pub(crate) epsilon: f64,
    /// Approximate log δ(ε).
    pub(crate) log_delta: f64,
    /// Width of the losses that count, about.
    width: f64,
}

/// ε and log δ of which c > 0 is the saddle point.
fn at(segments: &mut [Segment], c: f64) -> Option<(Saddle, f64)> {
    let total = Total::at(segments, c)?;
    let epsilon = total.mean - 1.0 / c - 1.0 / (c + 1.0);
    let curvature = total.variance + c.powi(-2) + (c + 1.0).powi(-2);
    let log_delta = total.log_moment - c * epsilon - (c * (c + 1.0)).ln() - 0.5 * (2.0 * PI * curvature).ln();
    let saddle = Saddle {
        c,
        epsilon,
        log_delta,
        width: curvature.sqrt(),
    };
    Some((saddle, total.variance.sqrt()))
}

/// The saddle point c > 0 where `excess` (decreasing in c) passes through 0.
fn solve(segments: &mut [Segment], start: f64, excess: impl Fn(&Saddle) -> f64) -> Option<Saddle> {
    // Moments at too large a tilt may be beyond reach.
    let mut start = start;
    let (mut found, mut spread) = loop {
        match at(segments, start) {
            Some(found) => break found,
            None if start > LEAST => start *= 0.125,
            None => return None,
        }
    };
    let mut value = excess(&found);
    if value.abs() < GOOD {
        return Some(found);
    }
    // Bracket in log c.
    let up = value > 0.0;
    let mut other = found;
    let mut other_value = value;
    let mut factor = 2.0;
    while (other_value > 0.0) == up {
        (found, value) = (other, other_value);
        let c = if up { found.c * factor } else { found.c / factor };
        if !(LEAST..=MOST).contains(&c) {
            return None;
        }
        let Some((next, next_spread)) = at(segments, c) else {
            // Beyond the range of numbers: bisect back towards what worked.
            factor = factor.sqrt();
            if factor < 1.01 {
                return None;
            }
            continue;
        };
        (other, spread) = (next, next_spread);
        other_value = excess(&other);
        factor = (factor * factor).min(64.0);
    }
    let (mut low, mut low_value, mut high, mut high_value) = if up {
        (found, value, other, other_value)
    } else {
        (other, other_value, found, value)
    };
    // Regula falsi (Illinois) in log c until the tilt is good enough.
    let mut best = low;
    for _ in 0..40 {
        let (a, b) = (low.c.ln(), high.c.ln());
        let enough = (0.5 / (best.c * spread)).clamp(1e-3, 0.1);
        if b - a < enough {
            break;
        }
        // Where the moments explode the values say nothing about how far it is: nearly halve then.
        let (below, above) = (low_value.min(3.0), high_value.max(-3.0));
        let share = (below / (below - above)).clamp(0.1, 0.9);
        let c = (a + share * (b - a)).exp();
        let (middle, middle_spread) = at(segments, c)?;
        spread = middle_spread;
        best = middle;
        let middle_value = excess(&middle);
        if middle_value.abs() < GOOD {
            return Some(best);
        }
        if middle_value > 0.0 {
            (low, low_value) = (middle, middle_value);
        } else {
            (high, high_value) = (middle, middle_value);
        }
    }
    // The side below an explosion.
    Some(low)
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
        let usual = (above.max(0.0) + 1.0) / spread;
        let start = known.filter(|&c| c > 0.0).unwrap_or(usual);
        // In units of the spread of the loss, or that at the tilt: near the largest loss that is far less.
        let found = solve(segments, start.min(1e6), |saddle| {
            (epsilon - saddle.epsilon) / spread.min(saddle.width) * 0.2
        })?;
        return Some(found.c);
    }
    // On (−1, 0): A'(c) − ε − 1/c − 1/(c + 1) grows from −∞ to ∞.
    let (mut low, mut high) = (-1.0 + 1e-9, -1e-9);
    // As if the loss were Gaussian; then steps by a factor until there is a bracket, and halving.
    let mut c = (-(total.mean - epsilon) / total.variance).clamp(-0.5, high);
    for _ in 0..24 {
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
    // Near 0 the approximation is bounded: larger δ are below the mean of the loss.
    let target = log_delta.min(-1.5);
    let start = (1.0 + (-2.0 * target).sqrt()) / spread;
    solve(segments, start.min(1e6), |saddle| 0.2 * (saddle.log_delta - target))
}
