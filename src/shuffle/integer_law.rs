//! Laws on whole numbers: a window of masses, a bound on what is missing and a bound on rounding.
//!
//! Every operation of the other files of this room is a sum of products of positive numbers. A law therefore carries two
//! errors that never mix: masses t_i that are right but for what was left out, Σ_i |t_i − P(X = i)| ≤ `left_out`
//! over all whole numbers, and stored masses with |p_i − t_i| ≤ `rounding`·t_i.

use crate::special::extended::Extended;
use std::ops::{Add, Mul};

/// Probability that may be dropped at one end of a law: far below any δ, so that 10²⁰ operations may drop it.
pub(crate) const NEGLIGIBLE_TAIL: f64 = 5e-41;
/// Masses inside a law below this are dropped, so that products of up to five masses and weights do not underflow.
const NEGLIGIBLE_MASS: f64 = 1e-60;

/// The arithmetic of a law: `f64` for speed, [`Extended`] where it is affordable.
pub(crate) trait Real: Copy + Add<Output = Self> + Mul<Output = Self> {
    /// 0.
    const ZERO: Self;
    /// Relative error of one operation, at most.
    const UNIT: f64;
    /// The nearest number of this type.
    fn of(value: Extended) -> Self;
    /// This number in extended precision.
    fn extended(self) -> Extended;
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
    /// A whole number up to 2^53.
    fn whole(count: u64) -> Self;
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const UNIT: f64 = 0.5 * Self::EPSILON;
    fn of(value: Extended) -> Self {
        value.to_f64()
    }
    fn extended(self) -> Extended {
        Extended::from(self)
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn whole(count: u64) -> Self {
        count as Self
    }
}

impl Real for Extended {
    const ZERO: Self = Self::ZERO;
    /// 2^-102.
    const UNIT: f64 = 1.972_152_263_052_53e-31;
    fn of(value: Extended) -> Self {
        value
    }
    fn extended(self) -> Extended {
        self
    }
    fn to_f64(self) -> f64 {
        self.to_f64()
    }
    fn whole(count: u64) -> Self {
        Self::from(count as f64)
    }
}

/// A law on whole numbers: X = `first` + i with probability `masses[i]`; see the module for the two errors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IntegerLaw<T> {
    pub(crate) first: u64,
    pub(crate) masses: Vec<T>,
    pub(crate) left_out: f64,
    pub(crate) rounding: f64,
}

impl<T: Real> IntegerLaw<T> {
    /// X = `value` for certain.
    pub(crate) fn point(value: u64) -> Self {
        Self {
            first: value,
            masses: vec![T::of(Extended::ONE)],
            left_out: 0.0,
            rounding: 0.0,
        }
    }

    /// Largest listed value (`first` if none is).
    pub(crate) fn last(&self) -> u64 {
        self.first + (self.masses.len() as u64).saturating_sub(1)
    }

    /// Values and masses that are not 0, as offsets from `first`.
    pub(crate) fn positive(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        self.masses
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, mass)| mass.to_f64() > 0.0)
    }

    /// Drops up to `tolerance` of probability at either end.
    pub(crate) fn trim(&mut self, tolerance: f64) {
        let dropped = |masses: &mut dyn Iterator<Item = &T>| {
            let (mut count, mut sum) = (0, 0.0);
            for mass in masses {
                let next = sum + mass.to_f64();
                if next > tolerance {
                    break;
                }
                (count, sum) = (count + 1, next);
            }
            (count, sum)
        };
        let (above, high) = dropped(&mut self.masses.iter().rev());
        self.masses.truncate(self.masses.len() - above);
        let (below, low) = dropped(&mut self.masses.iter());
        self.masses.drain(..below);
        self.first += below as u64;
        self.leave_out(high + low);
    }

    /// Drops negligible tails and negligible masses inside the window.
    pub(crate) fn clean(&mut self) {
        self.trim(NEGLIGIBLE_TAIL);
        let mut dropped = 0.0;
        for mass in &mut self.masses {
            let size = mass.to_f64();
            if size < NEGLIGIBLE_MASS {
                dropped += size;
                *mass = T::ZERO;
            }
        }
        self.leave_out(dropped);
    }

    /// Counts a sum of dropped masses as left out, with room for its rounding.
    pub(crate) fn leave_out(&mut self, sum: f64) {
        self.left_out += 1.001 * sum;
    }

    /// This law in extended precision.
    pub(crate) fn into_extended(self) -> IntegerLaw<Extended> {
        IntegerLaw {
            first: self.first,
            masses: self.masses.into_iter().map(T::extended).collect(),
            left_out: self.left_out,
            rounding: self.rounding,
        }
    }
}

/// `out[i] += weight · masses[i]`.
pub(crate) fn add_scaled<T: Real>(out: &mut [T], masses: &[T], weight: T) {
    for (sum, &mass) in out.iter_mut().zip(masses) {
        *sum = *sum + weight * mass;
    }
}

/// Number of multiplications that may still be done.
#[derive(Debug)]
pub(crate) struct Work(pub(crate) u64);

impl Work {
    /// Spends `count` multiplications; `None` if fewer are left.
    pub(crate) fn spend(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.checked_sub(count)?;
        Some(())
    }
}

/// A log-concave law on `first..=last` from its ratios of neighbours, `rise(j)` = P(j + 1)/P(j).
///
/// Starts with weight 1 at `start`, which should be near the mode, goes both ways until what remains is negligible
/// (ratios fall, so it is below a geometric series) and divides by the sum: no logarithm and no factorial.
pub(crate) fn log_concave(
    first: u64,
    last: u64,
    start: u64,
    rise: impl Fn(u64) -> Extended,
) -> IntegerLaw<Extended> {
    let start = start.clamp(first, last);
    let mut missed = 0.0;
    let mut walk = |steps: u64, ratio: &dyn Fn(u64) -> Extended| {
        let mut weights = Vec::new();
        let mut weight = Extended::ONE;
        for step in 0..steps {
            let ratio = ratio(step);
            let (size, fall) = (weight.to_f64(), ratio.to_f64());
            let rest = size * fall / (1.0 - fall);
            if fall < 1.0 && rest < NEGLIGIBLE_TAIL {
                missed += rest;
                break;
            }
            weight = weight * ratio;
            weights.push(weight);
        }
        weights
    };
    let above = walk(last - start, &|step| rise(start + step));
    let below = walk(start - first, &|step| Extended::ONE / rise(start - step - 1));
    let first = start - below.len() as u64;
    let weights: Vec<Extended> = below
        .into_iter()
        .rev()
        .chain(std::iter::once(Extended::ONE))
        .chain(above)
        .collect();
    let sum = weights.iter().fold(Extended::ZERO, |sum, &weight| sum + weight);
    let mut law = IntegerLaw {
        first,
        rounding: 8.0 * weights.len() as f64 * Extended::UNIT,
        masses: weights.into_iter().map(|weight| weight / sum).collect(),
        left_out: 0.0,
    };
    // Dividing by a sum that lacks `missed` makes the listed masses too large by as much again.
    law.leave_out(2.0 * missed);
    law
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_counts_what_it_drops() {
        let mut law = IntegerLaw {
            first: 3,
            masses: vec![1e-50, 2e-41, 0.5, 1e-70, 0.5, 3e-41],
            left_out: 0.0,
            rounding: 0.0,
        };
        law.clean();
        assert_eq!((law.first, law.last()), (5, 7));
        assert_eq!(law.masses, [0.5, 0.0, 0.5]);
        assert!(law.left_out >= 5e-41 && law.left_out < 5.1e-41);
    }

    #[test]
    fn laws_from_ratios_sum_to_one_from_any_start() {
        // Binomial(10, 1/2).
        let rise = |j: u64| Extended::whole(10 - j) / Extended::whole(j + 1);
        for start in [0, 5, 10, 99] {
            let law = log_concave(0, 10, start, rise);
            assert_eq!((law.first, law.last()), (0, 10));
            for (mass, exact) in law.masses.iter().zip([1.0, 10.0, 45.0, 120.0]) {
                assert!((mass.to_f64() * 1024.0 / exact - 1.0).abs() < 1e-15);
            }
        }
    }

    /// The geometric law with ratio r: beyond n it has the probability r^{n+1}. The start has weight 1, and nearly all of the mass.
    #[test]
    fn what_is_left_out_of_a_law_from_ratios_is_counted_twice() {
        for ratio in [1.0 / 64.0, 1.0 / 1024.0] {
            let law = log_concave(0, 1_000_000, 0, |_| Extended::from(ratio));
            let outside = f64::powi(ratio, law.last() as i32 + 1);
            // Outside as such, and inside, where all masses are too large by as much in total. Half of the bound would not do.
            assert!(
                law.left_out >= 2.0 * outside * (1.0 - 1e-12),
                "{} {outside}",
                law.left_out
            );
            assert!(law.left_out <= 2.05 * outside && outside < NEGLIGIBLE_TAIL);
        }
    }

    #[test]
    fn work_ends_when_it_is_spent() {
        let mut work = Work(5);
        assert_eq!(
            (work.spend(3), work.spend(2), work.spend(1)),
            (Some(()), Some(()), None)
        );
    }
}
