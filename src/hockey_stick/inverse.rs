//! ε(δ) from a certified curve: the smallest ε ≥ 0 whose upper bound on δ is small enough, from both sides.

use super::enclosure::Enclosure;

/// ε beyond which nothing is searched.
const FARTHEST: f64 = 1e300;
/// Evaluations at most.
const ROUNDS: usize = 80;

/// Certified bounds on the least ε ≥ 0 with δ(ε) ≤ e^`log_delta`.
///
/// `curve(ε, width)` encloses log δ(ε), aiming for `width`; `guess` is an ε nearby and −d log δ/dε there. The upper
/// bound is an ε at which the curve's own upper bound is at most `log_delta`, so that asking for δ there confirms it.
pub(super) fn epsilon(
    mut curve: impl FnMut(f64, f64) -> Enclosure,
    log_delta: f64,
    tolerance: f64,
    guess: (f64, f64),
) -> (f64, f64) {
    let mut slope = guess.1.max(1e-300);
    // What the curve could not do once is not asked for again.
    let mut least_width = 1e-10f64;
    let width_at = |epsilon: f64, slope: f64| tolerance * epsilon.abs() * slope;
    let mut ask = |epsilon: f64, width: f64| {
        let width = width.max(least_width).clamp(1e-10, 2.0);
        let found = curve(epsilon, width);
        let settled = found.is_far_from(Some(log_delta));
        if found.width() > width && found.width().is_finite() && !settled {
            least_width = 1.1 * found.width();
        }
        found
    };
    // Is any ε needed?
    let mut epsilon = guess.0;
    if epsilon.is_nan() || epsilon <= 0.0 || epsilon * slope < 1.0 {
        let at_zero = ask(0.0, 1e-6);
        if at_zero.log_upper <= log_delta {
            return (0.0, 0.0);
        }
        epsilon = epsilon.max(0.0);
    }
    // Bracket of the middle of the enclosure, and Newton's method on its logarithm inside it.
    let middle = |found: Enclosure| {
        if found.log_lower == f64::NEG_INFINITY {
            found.log_upper
        } else {
            0.5 * (found.log_lower + found.log_upper)
        }
    };
    let (mut low, mut high) = (0.0, f64::INFINITY); // δ too large; small enough
    let (mut upper, mut lower) = (f64::INFINITY, 0.0f64);
    let mut last: Option<(f64, f64)> = None;
    for _ in 0..ROUNDS {
        let found = ask(epsilon, width_at(epsilon, slope));
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
        let close = (tolerance * 0.05 * epsilon.abs())
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
            return (lower, f64::INFINITY);
        }
    }
    // Step out of the enclosure's width on both sides.
    let found = ask(epsilon, width_at(epsilon, slope));
    let step = |gap: f64| (1.02 * gap.max(0.0) / slope) + 4.0 * f64::EPSILON * epsilon.abs();
    // Where one side is not known at all, look near first.
    let near = |out: f64| {
        if out.is_finite() {
            out
        } else {
            1e-6 * epsilon.abs() + 1e-3 / slope
        }
    };
    let mut out = near(step(found.log_upper - log_delta));
    for _ in 0..ROUNDS {
        let candidate = epsilon + out;
        if candidate >= upper {
            break;
        }
        if ask(candidate, width_at(candidate, slope)).log_upper <= log_delta {
            upper = candidate;
            break;
        }
        out *= 1.5;
        if !out.is_finite() {
            break;
        }
    }
    let mut out = near(step(log_delta - found.log_lower));
    for _ in 0..ROUNDS {
        let candidate = epsilon - out;
        if candidate <= lower {
            break;
        }
        if ask(candidate, width_at(candidate, slope)).log_lower > log_delta {
            lower = candidate;
            break;
        }
        out *= 2.0;
        if !out.is_finite() {
            break;
        }
    }
    (lower.min(upper), upper)
}
