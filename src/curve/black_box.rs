//! The group bound that uses the curve of one record as a black box (GROUP Theorem 4).
//!
//! (ε, δ)-DP for one record is (kε, δ·(e^{kε} − 1)/(e^ε − 1))-DP for k. The theorem's statement has a further factor
//! k that its proof does not need.

use crate::curve::chain_split::log_geometric_sum;
use crate::curve::composition::Composition;
use crate::curve::singular_mass::rounded;
use crate::error::{Result, require_delta, require_epsilon};
use crate::special::root::{bisect, golden_section};
use crate::step::group::require_group_size;

/// Number of ε of one record that are tried, evenly spaced in their logarithm, before the best interval is halved.
const POINTS: usize = 64;
/// Halvings of that interval.
const HALVINGS: usize = 44;

/// Range of the ε of one record that are tried.
const RANGE: (f64, f64) = (1e-8, 1e7);
/// Relative distance of two ε at which halving ends.
const RESOLUTION: f64 = 1e-9;
/// Parts of [0, ε/k] at whose ends δ is tried, before a golden section looks between the neighbours of the best.
const DIVISIONS: usize = 24;
/// Values in the neighbourhood of the best: it shrinks by 0.618¹² = 0.003, and the value, which is flat there, by less.
const SECTIONS: usize = 14;
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
    let mut is_met = |epsilon: f64| -> Result<bool> { Ok(log_bound(one, k, epsilon)? <= log_delta) };
    if is_met(0.0)? {
        return Ok(0.0);
    }
    Ok((smallest_epsilon(is_met)? * k).next_up())
}

/// Upper bound on δ at ε for a group of `group_size`, from the exact curve of one record, at the best split: the
/// smallest δ₁(ε₁)·(e^{kε₁} − 1)/(e^{ε₁} − 1) that is found among ε₁ ≤ ε/k.
///
/// The theorem's δ at kε₁ is a bound at every larger ε too. Where δ₁ falls slowly, as it does in the tail that little
/// noise and a small sample rate leave, a smaller ε₁ than ε/k gives the smaller bound, since the factor is smaller.
///
/// # Errors
/// ε negative or not a number, `group_size` outside [1, 10000].
pub fn delta(one: &mut Composition, group_size: u64, epsilon: f64, tolerance: f64) -> Result<f64> {
    require_epsilon(epsilon)?;
    require_group_size(group_size)?;
    if group_size == 1 {
        return Ok(one.delta(epsilon, tolerance)?.upper());
    }
    let k = group_size as f64;
    // The quotient is rounded to the nearest number, so that k times the number below it is at most ε.
    let largest = (epsilon / k).next_down().max(0.0);
    let log_delta = smallest_value(largest, |epsilon| log_bound(one, k, epsilon))?;
    Ok((log_delta.min(0.0).exp() * (1.0 + 4.0 * f64::EPSILON)).min(1.0))
}

/// log of the theorem's δ at kε, rounded up: δ₁(ε)·(e^{kε} − 1)/(e^ε − 1), whose factor is k at 0.
fn log_bound(one: &mut Composition, k: f64, epsilon: f64) -> Result<f64> {
    let factor = log_geometric_sum(epsilon, k);
    let factor = factor + 1e-14 * (1.0 + factor.abs());
    Ok(rounded(one.delta(epsilon, WIDTH)?.log_upper + factor, 1.0))
}

/// The smallest value of a function on [0, `largest`] that is found: at evenly spaced points, then by a golden section
/// between the neighbours of the best. Every value is a valid bound, so that a smaller one elsewhere costs tightness only.
fn smallest_value(largest: f64, mut value: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let step = largest / DIVISIONS as f64;
    let (mut best, mut place) = (f64::INFINITY, 0usize);
    for i in 0..=DIVISIONS {
        let found = value(if i == DIVISIONS { largest } else { step * i as f64 })?;
        if found < best {
            (best, place) = (found, i);
        }
    }
    let (low, high) = (
        step * place.saturating_sub(1) as f64,
        (step * (place + 1) as f64).min(largest),
    );
    let mut failure = None;
    let (_, found) = golden_section(low, high, SECTIONS, |at| {
        value(at).unwrap_or_else(|error| {
            failure = Some(error);
            f64::INFINITY
        })
    });
    failure.map_or(Ok(best.min(found)), Err)
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

    /// The δ of the theorem at its own ε is the δ that was asked for, above that of the group, and no ε₁ on a fine grid gives less.
    #[test]
    fn delta_is_the_smallest_that_the_theorem_gives() {
        for (size, asked) in [(2u64, 0.5), (5, 3.0), (16, 4.0)] {
            let found = delta(&mut full_batch(8.0, 1), size, asked, 1e-6).unwrap();
            assert!(found >= full_batch(8.0, size).delta(asked, 1e-6).unwrap().lower());
            let mut one = full_batch(8.0, 1);
            let scanned = (0..=1000)
                .map(|i| {
                    let part = asked / size as f64 * f64::from(i) / 1000.0;
                    let factor: f64 = (0..size).map(|j| (j as f64 * part).exp()).sum();
                    factor * one.delta(part, 1e-6).unwrap().upper()
                })
                .fold(1.0, f64::min);
            assert!(
                (found / scanned - 1.0).abs() < 1e-3,
                "{size} at {asked}: {found} {scanned}"
            );
        }
    }

    /// log δ₁ is −1.2e5 here, and the sum with log 2 is rounded by 7e-12: the bound is above it, and hardly.
    #[test]
    fn the_logarithm_of_a_tiny_bound_is_rounded_by_as_much_as_its_size_asks() {
        let (epsilon, mut one) = (500.0f64, full_batch(1.0, 1));
        let log_delta = one.delta(epsilon, WIDTH).unwrap().log_upper;
        let found = log_bound(&mut one, 2.0, epsilon).unwrap();
        // log(1 + e^ε) is ε to all digits.
        let excess = found - (log_delta + epsilon);
        assert!(
            log_delta < -1e4 && excess >= f64::EPSILON * found.abs() && excess < 1e-8,
            "{found} {log_delta}"
        );
    }

    #[test]
    fn delta_at_the_epsilon_of_a_delta_is_that_delta() {
        for (size, wanted) in [(2u64, 1e-3), (8, 1e-5), (64, 1e-6)] {
            let at = epsilon(&mut full_batch(20.0, 1), size, wanted, 1e-6).unwrap();
            let found = delta(&mut full_batch(20.0, 1), size, at, 1e-6).unwrap();
            assert!(
                found <= wanted * (1.0 + 1e-3) && found >= 0.98 * wanted,
                "{size}: {found}"
            );
        }
    }

    #[test]
    fn delta_is_at_most_one_and_that_of_one_record_is_its_own() {
        assert_eq!(delta(&mut full_batch(0.1, 1), 50, 1.0, 1e-6).unwrap(), 1.0);
        let own = full_batch(3.0, 1).delta(1.0, 1e-6).unwrap().upper();
        assert_eq!(delta(&mut full_batch(3.0, 1), 1, 1.0, 1e-6).unwrap(), own);
        assert!(delta(&mut full_batch(3.0, 1), 2, -1.0, 1e-6).is_err());
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
