//! The law of the number of occupied units when the members of a group fall on distinct positions.
//!
//! Of N positions, U·s belong to U disjoint units of s slots each; g members take distinct positions, every choice of
//! g positions being equally likely. Place them one after the other. If the first j have hit l units, all slots of
//! the other units are free, so the next member, uniform on the N − j free positions, hits a new unit with
//! probability
//!
//! > (U − l)·s / (N − j)
//!
//! and otherwise l stays. Both probabilities are quotients of whole numbers: the law follows in O(g·min(g, U))
//! products and sums of positive terms. SHUFFLE Theorem F.1 counts occupancy patterns as if all were equally likely,
//! which they are not: four members in 50 rounds of 100 are in four distinct rounds with probability
//! 0.885414…, against 0.786477… there.

use crate::error::{Error, Result, require};
use crate::shuffle::integer_law::{IntegerLaw, NEGLIGIBLE_TAIL, Real, Work};
use crate::special::extended::Extended;
use crate::stopping::checkpoint;

/// Largest number of multiplications in extended precision (0.3 s), and in `f64` (3 s).
pub(crate) const MAX_WORK: (u64, u64) = (1 << 23, 3_000_000_000);
/// Largest number of positions: whole numbers up to this are exact in an `f64`.
pub(crate) const MAX_POSITIONS: u64 = 1 << 53;

/// The law of the number of units hit.
///
/// There are numbers tⱼ with Σⱼ |tⱼ − P(j units are hit)| ≤ `left_out`, over all j, listed or not, and each listed
/// probability is within a factor 1 ± `rounding` of its tⱼ.
#[derive(Debug, Clone, PartialEq)]
pub struct OccupancyLaw {
    /// Smallest number of units that is listed.
    pub first: u64,
    /// Probability that `first + i` units are hit.
    pub probabilities: Vec<f64>,
    /// Bound on the probability of what is not listed: in the order of 1e-40 a member.
    pub left_out: f64,
    /// Bound on the relative rounding error of every listed probability.
    pub rounding: f64,
}

impl OccupancyLaw {
    /// The law of the number of units hit by `members` on distinct uniformly random positions.
    ///
    /// `units` disjoint units have `slots` positions each; the other of the `positions` belong to no unit.
    ///
    /// # Errors
    /// `positions` outside [1, 2^53]; `slots` or `units` of 0, or units that do not fit into `positions`; `members`
    /// above `positions`; more than 3e9 multiplications.
    ///
    /// # Example
    /// Four members among 50 rounds of 100 slots:
    /// ```
    /// use hockeystick::shuffle::OccupancyLaw;
    /// let law = OccupancyLaw::new(4, 50, 100, 5000)?;
    /// assert_eq!((law.first, law.probabilities.len()), (1, 4));
    /// assert!((law.probabilities[3] - 0.885_414).abs() < 1e-6);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn new(members: u64, units: u64, slots: u64, positions: u64) -> Result<Self> {
        require(
            (1..=MAX_POSITIONS).contains(&positions),
            "positions",
            positions,
            "in [1, 2^53]",
        )?;
        require(slots >= 1, "slots", slots, "at least 1")?;
        let fits = units.checked_mul(slots).is_some_and(|all| all <= positions);
        require(
            units >= 1 && fits,
            "units",
            units,
            "at least 1, with units * slots at most positions",
        )?;
        require(members <= positions, "members", members, "at most positions")?;
        let law = units_hit::<Extended>(members, units, slots, positions, &mut Work(MAX_WORK.0))
            .or_else(|| {
                units_hit::<f64>(members, units, slots, positions, &mut Work(MAX_WORK.1))
                    .map(IntegerLaw::into_extended)
            })
            .ok_or_else(|| {
                Error::Mismatch(format!(
                    "{members} members on {units} units need more than 3e9 multiplications; take fewer members"
                ))
            })?;
        Ok(Self {
            first: law.first,
            probabilities: law.masses.iter().map(|mass| mass.to_f64()).collect(),
            left_out: law.left_out,
            rounding: law.rounding + f64::UNIT,
        })
    }
}

/// The chain of the module's doc, for arguments that were checked; `None` if it takes more than `work`.
pub(crate) fn units_hit<T: Real>(
    members: u64,
    units: u64,
    slots: u64,
    positions: u64,
    work: &mut Work,
) -> Option<IntegerLaw<T>> {
    let mut law = IntegerLaw::<T>::point(0);
    for placed in 0..members {
        checkpoint();
        let free = positions - placed;
        let one_over_free = T::of(Extended::ONE / Extended::whole(free));
        let first = law.first;
        work.spend(4 * law.masses.len() as u64)?;
        // In place, from the largest l down: l + 1 has been updated before l adds to it.
        law.masses.push(T::ZERO);
        for i in (0..law.masses.len() - 1).rev() {
            let untouched = (units - (first + i as u64)) * slots;
            let mass = law.masses[i] * one_over_free;
            law.masses[i + 1] = law.masses[i + 1] + mass * T::whole(untouched);
            law.masses[i] = mass * T::whole(free.saturating_sub(untouched));
        }
        law.trim(NEGLIGIBLE_TAIL);
    }
    // A member costs three products (one with a rounded inverse) and a sum.
    law.rounding = 5.0 * members as f64 * T::UNIT;
    Some(law)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binomial(n: u64, k: u64) -> f64 {
        (0..k).map(|i| (n - i) as f64 / (k - i) as f64).product()
    }

    #[test]
    fn four_members_in_fifty_rounds_agree_with_inclusion_and_exclusion() {
        let (rounds, slots, members) = (50, 100, 4);
        let law = OccupancyLaw::new(members, rounds, slots, rounds * slots).unwrap();
        assert_eq!(law.first, 1);
        for (i, probability) in law.probabilities.iter().enumerate() {
            let j = i as u64 + 1;
            let patterns: f64 = (0..j)
                .map(|i| (-1f64).powi(i as i32) * binomial(j, i) * binomial((j - i) * slots, members))
                .sum();
            let exact = binomial(rounds, j) * patterns / binomial(rounds * slots, members);
            assert!((probability / exact - 1.0).abs() < 1e-9, "{j}: {probability} {exact}");
        }
        // SHUFFLE Theorem F.1 has 0.786477.
        assert!((law.probabilities[3] - 0.885_414).abs() < 1e-6);
    }

    #[test]
    fn every_digit_type_gives_one_law_that_sums_to_one() {
        for (members, units, slots, positions) in [(300, 937, 64, 60_000), (200, 40, 3, 1000), (7, 7, 1, 7)] {
            let exact = units_hit::<Extended>(members, units, slots, positions, &mut Work(u64::MAX)).unwrap();
            let fast = units_hit::<f64>(members, units, slots, positions, &mut Work(u64::MAX)).unwrap();
            let sum: f64 = exact.masses.iter().map(|mass| mass.to_f64()).sum();
            assert!((sum - 1.0).abs() < 1e-14 && exact.left_out < 1e-37);
            for (i, mass) in exact.positive() {
                let index = exact.first + i as u64 - fast.first;
                let ratio = fast.masses[index as usize] / mass.to_f64();
                // Masses next to the trimmed ends lack what was trimmed.
                let lacking = (exact.left_out + fast.left_out) / mass.to_f64();
                assert!((ratio - 1.0).abs() <= fast.rounding + lacking, "{members} {i} {ratio}");
            }
        }
    }

    #[test]
    fn bad_arguments_are_refused_by_name() {
        for ((members, units, slots, positions), name) in [
            ((1, 1, 1, 0), "positions"),
            ((1, 1, 0, 5), "slots"),
            ((1, 0, 1, 5), "units"),
            ((1, 3, 2, 5), "units"),
            ((6, 2, 2, 5), "members"),
        ] {
            let error = OccupancyLaw::new(members, units, slots, positions).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        let law = OccupancyLaw::new(0, 2, 2, 5).unwrap();
        assert_eq!((law.first, law.probabilities), (0, vec![1.0]));
    }
}
