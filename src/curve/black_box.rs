//! The group bound that uses the curve of one record as a black box (GROUP Theorem 4).
//!
//! (ε, δ)-DP for one record is (kε, δ·(e^{kε} − 1)/(e^ε − 1))-DP for k. The theorem's statement has a further factor
//! k that its proof does not need.

use crate::curve::composition::Composition;
use crate::error::{Result, require_delta};
use crate::special::root::bisect;
use crate::step::group::require_group_size;

/// Number of ε of one record that are tried, evenly spaced in their logarithm, before the best interval is halved.
const POINTS: usize = 64;
/// Halvings of that interval.
const HALVINGS: usize = 44;

/// Range of the ε of one record that are tried.
const RANGE: (f64, f64) = (1e-8, 1e7);
/// Relative distance of two ε at which halving ends.
const RESOLUTION: f64 = 1e-9;
/// Relative width of δ of one record, whose upper end is used.
const WIDTH: f64 = 1e-4;

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
    let mut is_met = |epsilon: f64| -> Result<bool> {
        let found = one.delta(epsilon, WIDTH)?;
        Ok(found.log_upper + log_factor(epsilon) <= log_delta)
    };
    if is_met(0.0)? {
        return Ok(0.0);
    }
    Ok((smallest_epsilon(is_met)? * k).next_up())
}

/// The smallest ε₁ found that meets the condition; infinite if none does.
fn smallest_epsilon(mut is_met: impl FnMut(f64) -> Result<bool>) -> Result<f64> {
    let (lowest, highest) = (RANGE.0.ln(), RANGE.1.ln());
    let at = |i: usize| (lowest + (highest - lowest) * i as f64 / (POINTS - 1) as f64).exp();
    // Every ε₁ that meets the condition gives a valid bound, so that a gap between the points costs tightness only.
    let mut previous = 0.0;
    for i in 0..POINTS {
        let epsilon = at(i);
        if !is_met(epsilon)? {
            previous = epsilon;
            continue;
        }
        return bisect((previous, epsilon), HALVINGS, |high| RESOLUTION * high, is_met);
    }
    Ok(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Adjacency, Group, Mechanism, Sampling, Step};

    fn full_batch(noise_multiplier: f64, group_size: u64) -> Composition {
        let step = Step {
            mechanism: Mechanism::Gaussian { noise_multiplier },
            sampling: Sampling::Poisson { sample_rate: 1.0 },
            group: Group::of(group_size),
        };
        Composition::new(&[(step, 1)], Adjacency::AddRemove).unwrap()
    }

    /// k records of a full batch are one Gaussian pair of k times the distance: the theorem's ε is above that one's, by a few per cent.
    #[test]
    fn the_bound_is_above_the_curve_of_the_group_and_close_to_it() {
        for (size, looseness) in [(1, 1.0001), (2, 1.2), (8, 1.5)] {
            let exact = full_batch(10.0, size).epsilon(1e-5, 1e-6).unwrap();
            let found = epsilon(&mut full_batch(10.0, 1), size, 1e-5, 1e-6).unwrap();
            assert!(
                found >= exact.lower && found <= looseness * exact.upper,
                "{size}: {found} {exact:?}"
            );
        }
    }

    /// At the ε₁ found the theorem's δ, Σ_{i < k} e^{iε₁}·δ₁(ε₁), is at most δ, and at a slightly smaller one it is not.
    #[test]
    fn the_bound_is_the_smallest_that_the_theorem_gives() {
        let (size, delta) = (5u64, 1e-6);
        let one = epsilon(&mut full_batch(8.0, 1), size, delta, 1e-6).unwrap() / 5.0;
        let of_theorem = |one: f64| {
            let factor: f64 = (0..5).map(|i| (f64::from(i) * one).exp()).sum();
            factor * full_batch(8.0, 1).delta(one, 1e-6).unwrap().upper()
        };
        assert!(of_theorem(one * (1.0 + 1e-6)) <= delta && of_theorem(one * (1.0 - 1e-3)) > delta);
    }
}
