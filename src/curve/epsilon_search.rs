//! ε(δ) from a certified curve: the smallest ε ≥ 0 whose upper bound on δ is small enough, from both sides.

use crate::error::{Error, Result, ordered};
use crate::interval::{Aim, Enclosure};

/// ε beyond which nothing is searched.
const FARTHEST: f64 = 1e300;
/// How much wider than at last enclosures may be on the way.
const ROUGHNESS: f64 = 100.0;
/// Halvings of a step that was too long.
const HALVINGS: usize = 10;
/// Evaluations at most.
const ROUNDS: usize = 80;

/// Certified bounds on the least ε ≥ 0 with δ(ε) ≤ e^`log_delta`.
///
/// `curve(ε, aim)` encloses log δ(ε); `guess` is an ε nearby and −d log δ/dε there. The upper
/// bound is an ε at which the curve's own upper bound is at most `log_delta`. δ is known to be 0 from `most` on, which may be
/// infinite.
///
/// # Errors
/// An enclosure that is contradicted, or an ε at which δ is certified to be too large above one at which it is certified
/// to be small enough.
pub(crate) fn epsilon(
    mut curve: impl FnMut(f64, &Aim) -> Enclosure,
    log_delta: f64,
    tolerance: f64,
    guess: (f64, f64),
    most: f64,
) -> Result<(f64, f64)> {
    let mut slope = guess.1.max(1e-300);
    // What the curve could not do once is not asked for again.
    let mut least_width = 1e-10f64;
    // The steps out of an enclosure must fit into the tolerance with it.
    let width_at = |epsilon: f64, slope: f64| 0.6 * tolerance * epsilon.abs() * slope;
    // While the root is approached a rough answer will do, from what is laid out for a fine one.
    let mut contradicted = false;
    let mut ask = |epsilon: f64, width: f64, roughness: f64| {
        let width = width.max(least_width).clamp(1e-10, 2.0);
        let aim = Aim {
            width,
            enough: (roughness * width).min(1e-2).max(width),
            hint: Some(log_delta),
            bounds_first: false,
        };
        let found = curve(epsilon, &aim);
        contradicted |= found.certified().is_err();
        if found.width().is_finite() && !aim.is_met(found) {
            least_width = (1.1 * found.width()).min(30.0 * width);
        }
        found
    };
    // Is any ε needed?
    let mut epsilon = guess.0;
    if epsilon.is_nan() || epsilon <= 0.0 || epsilon * slope < 1.0 {
        let at_zero = ask(0.0, 1e-6, 1.0);
        if at_zero.log_upper <= log_delta {
            return at_zero.certified().map(|_| (0.0, 0.0));
        }
        epsilon = epsilon.max(0.0);
    }
    if epsilon >= most {
        epsilon = 0.5 * most;
    }
    // Bracket of the middle of the enclosure, and Newton's method on its logarithm inside it.
    let middle = |found: Enclosure| {
        if found.log_lower == f64::NEG_INFINITY {
            found.log_upper
        } else {
            0.5 * (found.log_lower + found.log_upper)
        }
    };
    let (mut low, mut high) = (0.0, most); // δ too large; small enough
    let (mut upper, mut lower) = (most, 0.0f64);
    let mut last: Option<(f64, f64)> = None;
    for _ in 0..ROUNDS {
        let found = ask(epsilon, width_at(epsilon, slope), ROUGHNESS);
        if found.log_upper <= log_delta {
            upper = upper.min(epsilon);
        }
        if found.log_lower > log_delta {
            lower = lower.max(epsilon);
        }
        let excess = middle(found) - log_delta;
        if excess > 0.0 {
            low = epsilon;
        } else {
            high = epsilon;
        }
        if let Some((before, excess_before)) = last {
            let measured = -(excess - excess_before) / (epsilon - before);
            if measured.is_finite() && measured > 0.0 {
                slope = measured;
            }
        }
        last = Some((epsilon, excess));
        let blurred = if found.width() < 1e-2 {
            0.1 * found.width() / slope
        } else {
            0.0
        };
        let close = (tolerance * 0.05 * epsilon.abs())
            .max(blurred)
            .max(4.0 * f64::EPSILON * epsilon.abs())
            .max(1e-300);
        if (excess / slope).abs() <= close || high - low <= close {
            break;
        }
        let newton = epsilon + excess / slope;
        epsilon = if newton > low && newton < high {
            newton
        } else if high.is_finite() {
            0.5 * (low + high)
        } else {
            (2.0 * low).max(low + 1.0 / slope)
        };
        if epsilon > FARTHEST {
            return found.certified().map(|_| (lower, f64::INFINITY));
        }
    }
    // Step out of the enclosure's width on both sides, from its middle.
    let mut found = ask(epsilon, width_at(epsilon, slope), 1.0);
    for _ in 0..2 {
        let change = (middle(found) - log_delta) / slope;
        if change.abs() * slope < 0.1 * found.width() || change.abs() <= 4.0 * f64::EPSILON * epsilon.abs() {
            break;
        }
        let moved = ask(epsilon + change, width_at(epsilon, slope), 1.0);
        if (middle(moved) - log_delta).abs() >= (middle(found) - log_delta).abs() {
            break;
        }
        (epsilon, found) = (epsilon + change, moved);
    }
    let step = |gap: f64| (1.02 * gap.max(0.0) / slope) + 4.0 * f64::EPSILON * epsilon.abs();
    // Where one side is not known at all, look near first.
    let near = |out: f64| {
        if out.is_finite() {
            out
        } else {
            1e-6 * epsilon.abs() + 1e-3 / slope
        }
    };
    let reach = near(step(found.log_upper - log_delta));
    let is_safe = |candidate: f64| ask(candidate, width_at(candidate, slope), 1.0).log_upper <= log_delta;
    upper = step_out(epsilon, reach, upper, tolerance, is_safe);
    let reach = near(step(log_delta - found.log_lower));
    let misses = |candidate: f64| ask(candidate, width_at(candidate, slope), 1.0).log_lower > log_delta;
    lower = step_out(epsilon, -reach, lower, tolerance, misses);
    if contradicted {
        return Err(Error::Contradiction);
    }
    // δ may be small enough at a negative ε.
    ordered(lower, upper.max(0.0))
}

/// The first ε found that `holds`, from `start` by steps that double from `reach` on (its sign says which way) towards
/// `known`, which holds; then back by halving the last step, while that is worth it.
fn step_out(start: f64, reach: f64, known: f64, tolerance: f64, mut holds: impl FnMut(f64) -> bool) -> f64 {
    let beyond = |x: f64| if reach > 0.0 { x >= known } else { x <= known };
    let (mut best, mut fails) = (known, start);
    let mut out = reach;
    for _ in 0..ROUNDS {
        let candidate = start + out;
        if beyond(candidate) || !candidate.is_finite() {
            break;
        }
        if holds(candidate) {
            best = candidate;
            break;
        }
        fails = candidate;
        out *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (best + fails);
        // The first step is as long as the enclosure is wide: no use in halving that.
        if fails == start && best == start + reach || (best - fails).abs() <= 0.2 * tolerance * best.abs() {
            break;
        }
        if !middle.is_finite() || middle == best || middle == fails {
            break;
        }
        if holds(middle) {
            best = middle;
        } else {
            fails = middle;
        }
    }
    best
}
