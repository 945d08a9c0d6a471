//! Accounts that hold the whole privacy loss of each example's steps: Chebyshev moments of their norms.

use crate::error::{Error, Result};
use crate::individual::basis::{TERMS, Terms, place, polynomials};
use crate::individual::losses::Content;
use crate::individual::norms::{
    MAX_MERGED_RATES, MAX_STEPS, MIN_RATE, ShiftScale, batch_probability, rate_index, require_step,
    with_gaussian_steps,
};
use crate::threads::in_pool;
use rayon::prelude::*;

/// Number of examples that one task handles.
const BLOCK: usize = 1024;
/// Octaves of v = (s/σ)² that a saved slot may have; steps make −240 to 39 (`MIN_V`·`MIN_SQUARE` to `MAX_V`).
const OCTAVES: std::ops::RangeInclusive<i16> = -300..=60;

/// Number of moments of a slot.
pub const SLOT_TERMS: usize = TERMS;

/// Moments of the steps at one sample rate whose v lies in one octave.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// Index of the sample rate.
    pub rate: u16,
    /// Octave of v.
    pub octave: i16,
    /// Number of additions so far.
    pub additions: u32,
    /// Σ T_n(τ).
    pub moments: [f64; TERMS],
}

/// The account of one example.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// Σ v of the steps that every example took part in, which are Gaussian.
    pub gaussian: f64,
    /// True after steps with so little noise that they reveal whether the record was in the batch.
    pub revealing: bool,
    /// The other steps, ordered by rate and octave.
    pub slots: Vec<Slot>,
}

/// One account for each example.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Accounts {
    /// Sample rates so far, each in (0, 1).
    pub rates: Vec<f64>,
    /// The accounts.
    pub examples: Vec<Account>,
}

impl Account {
    /// The kind of steps in the account, from which some answers follow without any computation.
    pub(crate) fn content(&self) -> Content {
        Content::of(self.revealing, self.gaussian, self.slots.is_empty())
    }

    /// Σ qT, which is no less than the probability of being in any batch; infinite after Gaussian steps, in which all records
    /// are.
    pub(crate) fn batch_probability(&self, rates: &[f64]) -> f64 {
        let of_slots = self
            .slots
            .iter()
            .map(|slot| rates[usize::from(slot.rate)] * slot.moments[0]);
        batch_probability(self.gaussian, of_slots.sum())
    }

    /// Adds `steps` steps at rate `rate` and v.
    fn add(&mut self, rate: u16, v: f64, steps: f64) {
        let (octave, tau) = place(v);
        let octave = octave as i16;
        let values: Terms = polynomials(tau);
        let place = self
            .slots
            .partition_point(|slot| (slot.rate, slot.octave) < (rate, octave));
        let known = self
            .slots
            .get(place)
            .is_some_and(|slot| (slot.rate, slot.octave) == (rate, octave));
        if !known {
            let slot = Slot {
                rate,
                octave,
                additions: 0,
                moments: [0.0; TERMS],
            };
            self.slots.reserve_exact(1);
            self.slots.insert(place, slot);
        }
        let slot = &mut self.slots[place];
        slot.additions = slot.additions.saturating_add(1);
        for (moment, value) in slot.moments.iter_mut().zip(values) {
            *moment += steps * value;
        }
    }
}

impl Accounts {
    /// Accounts without any step.
    pub fn new(examples: usize) -> Self {
        Self {
            rates: Vec::new(),
            examples: vec![Account::default(); examples],
        }
    }

    /// Adds `steps` steps at a sample rate and noise σ to all accounts; example i moves the mean of the output by at most
    /// `shifts[i]` ≤ `largest`. Shifts below 2⁻²⁰ of the largest are rounded up to it.
    ///
    /// # Errors
    /// Values out of range, or a wrong number of shifts; the accounts are then as they were.
    pub fn add(
        &mut self,
        shifts: &[f64],
        largest: f64,
        noise_multiplier: f64,
        sample_rate: f64,
        steps: f64,
    ) -> Result<()> {
        require_step(self.examples.len(), shifts, noise_multiplier, sample_rate, steps)?;
        if sample_rate == 0.0 || steps == 0.0 {
            return Ok(());
        }
        let scale = ShiftScale::new(largest, noise_multiplier);
        let rate = (sample_rate < 1.0)
            .then(|| rate_index(&mut self.rates, sample_rate))
            .transpose()?;
        let examples = &mut self.examples;
        in_pool(|| {
            examples
                .par_chunks_mut(BLOCK)
                .zip(shifts.par_chunks(BLOCK))
                .for_each(|(accounts, shifts)| {
                    for (account, &shift) in accounts.iter_mut().zip(shifts) {
                        if shift == 0.0 {
                            continue;
                        }
                        let v = scale.v(shift);
                        match rate {
                            _ if scale.is_revealing => account.revealing = true,
                            Some(rate) => account.add(rate, v, steps),
                            None => account.gaussian = with_gaussian_steps(account.gaussian, steps, v),
                        }
                    }
                });
        });
        Ok(())
    }

    /// Puts back a slot of a saved account.
    ///
    /// # Errors
    /// A slot that no steps can have made.
    pub fn restore(&mut self, example: usize, slot: Slot) -> Result<()> {
        let steps = slot.moments[0];
        // |T_n| ≤ 1, and numbers of steps add up with rounding.
        let largest = steps * (1.0 + 1e-6);
        let good = usize::from(slot.rate) < self.rates.len()
            && OCTAVES.contains(&slot.octave)
            && steps > 0.0
            && steps <= MAX_STEPS
            && slot.moments.iter().all(|moment| moment.abs() <= largest);
        let account = self.examples.get_mut(example).filter(|_| good).ok_or_else(damaged)?;
        let after = account
            .slots
            .last()
            .is_none_or(|last| (last.rate, last.octave) < (slot.rate, slot.octave));
        if !after {
            return Err(damaged());
        }
        account.slots.push(slot);
        Ok(())
    }

    /// Checks what [`Accounts::restore`] does not.
    ///
    /// # Errors
    /// A rate or a sum that no steps can have made, or more rates than have indices.
    pub fn check(&self) -> Result<()> {
        let rates = self.rates.iter().all(|&rate| (MIN_RATE..1.0).contains(&rate));
        let sums = self
            .examples
            .iter()
            .all(|account| account.gaussian >= 0.0 && account.gaussian.is_finite());
        let has_indices = self.rates.len() <= MAX_MERGED_RATES;
        if rates && sums && has_indices {
            Ok(())
        } else {
            Err(damaged())
        }
    }
}

fn damaged() -> Error {
    Error::Mismatch("the saved accounts are damaged: a number is out of range".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_steps_changes_no_slot_but_by_rounding() {
        let mut one = Accounts::new(2);
        one.add(&[1.0, 0.3], 1.0, 2.0, 0.1, 3.0).unwrap();
        one.add(&[0.2, 0.0], 1.0, 2.0, 0.1, 5.0).unwrap();
        let mut other = Accounts::new(2);
        other.add(&[0.2, 0.0], 1.0, 2.0, 0.1, 5.0).unwrap();
        other.add(&[1.0, 0.3], 1.0, 2.0, 0.1, 3.0).unwrap();
        assert_eq!(one, other);
        assert_eq!(one.examples[0].slots.len(), 2);
        assert_eq!(one.examples[1].slots.len(), 1);
    }

    #[test]
    fn a_failed_step_changes_nothing() {
        let mut accounts = Accounts::new(2);
        for (shifts, noise, rate) in [
            (vec![1.0], 1.0, 0.1),
            (vec![1.0, -1.0], 1.0, 0.1),
            (vec![1.0, 1.0], -1.0, 0.1),
            (vec![1.0, 1.0], 1.0, 1.1),
        ] {
            assert!(accounts.add(&shifts, 1.0, noise, rate, 1.0).is_err());
            assert_eq!(accounts, Accounts::new(2));
        }
    }

    /// A slot of steps with v = 2^`octave`/4.
    fn slot(octave: i16, steps: f64) -> Slot {
        let mut moments = [-steps; TERMS];
        moments[0] = steps;
        Slot {
            rate: 0,
            octave,
            additions: 1,
            moments,
        }
    }

    #[test]
    fn slots_that_no_steps_have_made_are_refused() {
        let mut accounts = Accounts::new(1);
        accounts.rates.push(0.1);
        for slot in [
            Slot {
                rate: 1,
                ..slot(0, 1.0)
            },
            slot(61, 1.0),
            slot(-301, 1.0),
            slot(0, 0.0),
            slot(0, -1.0),
            slot(0, f64::NAN),
            slot(0, 2.0 * MAX_STEPS),
            Slot {
                moments: slot(0, 2.0)
                    .moments
                    .map(|moment| if moment > 0.0 { 1.9 } else { moment }),
                ..slot(0, 2.0)
            },
        ] {
            let before = accounts.clone();
            let text = format!("{slot:?}");
            assert!(accounts.restore(0, slot).is_err(), "{text}");
            assert_eq!(accounts, before);
        }
        for (rates, gaussian) in [
            (vec![0.0], 0.0),
            (vec![0.1 * MIN_RATE], 0.0),
            (vec![1.0], 0.0),
            (vec![f64::NAN], 0.0),
            (vec![0.1], -1.0),
            (vec![0.1], f64::NAN),
            (vec![0.1], f64::INFINITY),
        ] {
            let mut damaged = Accounts::new(1);
            damaged.rates = rates;
            damaged.examples[0].gaussian = gaussian;
            assert!(damaged.check().is_err());
        }
        let mut full = Accounts::new(1);
        full.rates = vec![0.1; MAX_MERGED_RATES];
        assert!(full.check().is_ok());
        full.rates.push(0.9);
        assert!(full.check().is_err());
    }
}
