//! The group bound that uses the curve of one record as a black box (GROUP Theorem 4).
//!
//! (ε, δ)-DP for one record is (kε, δ·(e^{kε} − 1)/(e^ε − 1))-DP for k. The theorem's statement has a further factor
//! k that its proof does not need.

use crate::curve::composition::Composition;
use crate::error::{Result, require_delta};
use crate::step::group_law::require_group_size;

/// ε of one record looked at, evenly spaced in its logarithm, before the best interval is halved.
const COARSE: usize = 64;
/// Halvings.
const FINE: usize = 44;

/// Upper bound on ε at δ for a group of `group_size`, from the exact curve of one record, at the best split: the
/// smallest ε₁ with log δ₁(ε₁) + log((e^{kε₁} − 1)/(e^{ε₁} − 1)) ≤ log δ, times k.
///
/// # Errors
/// δ outside (0, 1), `group_size` outside [1, 10000].
pub fn epsilon(one: &mut Composition, group_size: u64, delta: f64, tolerance: f64) -> Result<f64> {
    require_delta(delta)?;
    require_group_size(group_size)?;
    let k = group_size as f64;
    if group_size == 1 {
        return Ok(one.epsilon(delta, tolerance)?.upper);
    }
    let log_delta = delta.ln();
    // log((e^{kε} − 1)/(e^ε − 1)), which is log k at 0, rounded up.
    let log_factor = |epsilon: f64| {
        let exact = if epsilon < 1e-12 {
            k.ln() + (k - 1.0) * epsilon
        } else {
            (k - 1.0) * epsilon + (-(-k * epsilon).exp_m1()).ln() - (-(-epsilon).exp_m1()).ln()
        };
        exact + 1e-14 * (1.0 + exact.abs())
    };
    let mut enough = |epsilon: f64| -> Result<bool> {
        let found = one.delta(epsilon, 1e-4)?;
        Ok(found.log_upper + log_factor(epsilon) <= log_delta)
    };
    if enough(0.0)? {
        return Ok(0.0);
    }
    // No ε₁ below this is enough: the factor is at least k.
    let (start, _) = one_epsilon(&mut enough)?;
    Ok(start * k)
}

/// The smallest ε₁ found that is enough, and one below it that is not.
fn one_epsilon(enough: &mut impl FnMut(f64) -> Result<bool>) -> Result<(f64, f64)> {
    let (lowest, highest) = (1e-8f64.ln(), 1e7f64.ln());
    let at = |i: usize| (lowest + (highest - lowest) * i as f64 / (COARSE - 1) as f64).exp();
    // Every ε₁ that is enough gives a valid bound, so a gap between the points costs tightness only.
    let mut previous = 0.0;
    for i in 0..COARSE {
        let epsilon = at(i);
        if !enough(epsilon)? {
            previous = epsilon;
            continue;
        }
        let (mut low, mut high) = (previous, epsilon);
        for _ in 0..FINE {
            let middle = 0.5 * (low + high);
            if high - low <= 1e-9 * high || middle <= low || middle >= high {
                break;
            }
            if enough(middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        return Ok((high, low));
    }
    Ok((f64::INFINITY, f64::INFINITY))
}
