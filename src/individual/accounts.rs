//! Accounts that keep the whole privacy loss of each example's steps: Chebyshev moments of their norms.

use crate::error::{Error, Result, require, require_noise_multiplier, require_sample_rate};
use crate::individual::basis::{TERMS, Terms, place, polynomials};
use crate::individual::epsilons::Content;
use crate::individual::rdp::require_norms;
use crate::threads::in_pool;
use rayon::prelude::*;

/// Examples that one task handles.
const BLOCK: usize = 1024;
/// Shifts below 2⁻²⁰ of the largest are rounded up to that, in terms of their squares.
const LEAST: f64 = 1.0 / (1u64 << 40) as f64;
/// Largest and smallest v that can be told.
const LIMITS: (f64, f64) = (1e-60, 1e12);
/// Steps of one kind at most.
const MOST_STEPS: f64 = 1e100;
/// Sample rates below that count as that: the squares of smaller ones underflow. After the most steps it adds 1e-40 to δ.
const LEAST_RATE: f64 = 1e-140;

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
    /// Steps without any noise.
    pub telling: bool,
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

/// One kind of step: what it adds to accounts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// v of the largest shift.
    full: f64,
    largest: f64,
    /// Noise this small tells the norm.
    pub(crate) is_telling: bool,
}

impl Kind {
    pub(crate) fn new(largest: f64, noise_multiplier: f64) -> Self {
        let full = (largest / noise_multiplier).powi(2);
        Self {
            is_telling: full > LIMITS.1,
            // Noise larger than that is taken to be smaller.
            full: full.max(LIMITS.0),
            largest,
        }
    }

    /// v of a shift.
    pub(crate) fn v(&self, shift: f64) -> f64 {
        self.full * (shift / self.largest).powi(2).max(LEAST)
    }
}

/// `gaussian` after Gaussian steps, rounded up.
pub(crate) fn with_gaussian_steps(gaussian: f64, steps: f64, v: f64) -> f64 {
    (gaussian + steps * v) * (1.0 + 4.0 * f64::EPSILON)
}

/// Σ qT of an account with these Gaussian steps.
pub(crate) fn with_gaussian_chance(gaussian: f64, chance: f64) -> f64 {
    if gaussian > 0.0 { f64::INFINITY } else { chance }
}

/// Checks what is added to accounts.
pub(crate) fn require_step(
    count: usize,
    shifts: &[f64],
    noise_multiplier: f64,
    sample_rate: f64,
    steps: f64,
) -> Result<()> {
    require_norms(shifts)?;
    require_noise_multiplier(noise_multiplier)?;
    require_sample_rate(sample_rate)?;
    require((0.0..=MOST_STEPS).contains(&steps), "steps", steps, "in [0, 1e100]")?;
    if shifts.len() != count {
        return Err(Error::Mismatch(format!(
            "there are {count} accounts, got {} norms",
            shifts.len()
        )));
    }
    Ok(())
}

/// Sample rates of a run that are kept as they are.
const MOST_RATES: usize = 10_000;
/// Sample rates at most, with those that were rounded; an index has 16 bits, so that a few runs can be merged.
const MOST_ROUNDED_RATES: usize = 20_000;
/// The largest rate below 1: steps at rate 1 are kept in another way.
const LARGEST_RATE: f64 = 1.0 - 0.5 * f64::EPSILON;

/// Index of a sample rate in (0, 1), which is put on the list if it is not there. Rates below [`LEAST_RATE`] count as that.
///
/// A run whose rate changes at every step is not refused: once there are [`MOST_RATES`], further rates are rounded up, by
/// less than one part in 256, which can only overstate what the steps leak.
pub(crate) fn rate_index(rates: &mut Vec<f64>, sample_rate: f64) -> u16 {
    let mut sample_rate = sample_rate.max(LEAST_RATE);
    let find = |rates: &[f64], wanted: f64| rates.iter().position(|&rate| rate == wanted);
    let mut known = find(rates, sample_rate);
    if known.is_none() && rates.len() >= MOST_RATES {
        sample_rate = rounded_up(sample_rate).min(LARGEST_RATE);
        known = find(rates, sample_rate);
        if known.is_none() && rates.len() >= MOST_ROUNDED_RATES {
            let above = rates.iter().copied().filter(|&rate| rate >= sample_rate);
            sample_rate = above.fold(LARGEST_RATE, f64::min);
            known = find(rates, sample_rate);
        }
    }
    let index = known.unwrap_or_else(|| {
        rates.push(sample_rate);
        rates.len() - 1
    });
    index as u16
}

/// A positive number rounded up to eight bits behind the leading one.
fn rounded_up(x: f64) -> f64 {
    const DROPPED: u64 = (1 << (52 - 8)) - 1;
    f64::from_bits((x.to_bits() + DROPPED) & !DROPPED)
}

impl Account {
    /// What is known beforehand.
    pub(crate) fn content(&self) -> Content {
        Content::of(self.telling, self.gaussian, self.slots.is_empty())
    }

    /// Σ qT, which is no less than the probability of being in any batch; infinite after Gaussian steps, in which all records are.
    pub(crate) fn chance(&self, rates: &[f64]) -> f64 {
        let chances = self
            .slots
            .iter()
            .map(|slot| rates[usize::from(slot.rate)] * slot.moments[0]);
        with_gaussian_chance(self.gaussian, chances.sum())
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
    /// `shifts[i]` ≤ `largest`. Shifts below 2⁻²⁰ of the largest count as that.
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
        let kind = Kind::new(largest, noise_multiplier);
        let rate = if sample_rate < 1.0 {
            Some(rate_index(&mut self.rates, sample_rate))
        } else {
            None
        };
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
                        let v = kind.v(shift);
                        match rate {
                            _ if kind.is_telling => account.telling = true,
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
        let most = steps * (1.0 + 1e-6);
        let good = usize::from(slot.rate) < self.rates.len()
            && (-300..=60).contains(&slot.octave)
            && steps > 0.0
            && steps <= MOST_STEPS
            && slot.moments.iter().all(|moment| moment.abs() <= most);
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
    /// A rate or a sum that no steps can have made.
    pub fn check(&self) -> Result<()> {
        let rates = self.rates.iter().all(|&rate| (LEAST_RATE..1.0).contains(&rate));
        let sums = self
            .examples
            .iter()
            .all(|account| account.gaussian >= 0.0 && account.gaussian.is_finite());
        if rates && sums { Ok(()) } else { Err(damaged()) }
    }
}

fn damaged() -> Error {
    Error::Mismatch("the saved accounts are damaged: a number is out of range".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::individual::epsilons::epsilons;
    use crate::monitor::Unwatched;

    #[test]
    fn no_rate_is_refused_and_those_beyond_the_limits_are_rounded_up() {
        let mut rates = Vec::new();
        let rate_of = |i: u32| 0.9999 * (-1e-4 * f64::from(i)).exp();
        for i in 0..200_000 {
            let rate = rate_of(i);
            let kept = rate_index(&mut rates, rate);
            let kept = rates[usize::from(kept)];
            let slack = if i < MOST_RATES as u32 { 0.0 } else { 1.0 / 256.0 };
            assert!(
                rate <= kept && kept <= rate * (1.0 + slack) && kept < 1.0,
                "{i} {rate} {kept}"
            );
        }
        assert!(rates.len() <= MOST_ROUNDED_RATES, "{}", rates.len());
        // A full list answers with what stands above.
        while rates.len() < MOST_ROUNDED_RATES {
            rates.push(1e-30 / rates.len() as f64);
        }
        let above = rates.iter().copied().filter(|&rate| rate > 1e-20).fold(1.0, f64::min);
        let kept = rate_index(&mut rates, 1e-20);
        assert_eq!(rates[usize::from(kept)], above);
        let kept = rate_index(&mut rates, 1.0 - 1e-15);
        assert_eq!(rates[usize::from(kept)], LARGEST_RATE);
    }

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
            slot(0, 2.0 * MOST_STEPS),
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
            (vec![0.1 * LEAST_RATE], 0.0),
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
    }

    #[test]
    fn octaves_of_which_nothing_is_certified_take_no_memory() {
        let mut accounts = Accounts::new(1);
        accounts.rates.push(0.1);
        accounts.restore(0, slot(52, 1.0)).unwrap();
        accounts.check().unwrap();
        assert_eq!(epsilons(&accounts, 1e-5, &Unwatched).unwrap(), [(0.0, f64::INFINITY)]);
    }

    #[test]
    fn who_is_hardly_ever_in_a_batch_has_no_loss() {
        let mut accounts = Accounts::new(2);
        accounts.add(&[1.0, 0.3], 1.0, 1.0, 0.9e-8, 1000.0).unwrap();
        assert_eq!(epsilons(&accounts, 1e-5, &Unwatched).unwrap(), [(0.0, 0.0); 2]);
        // Its δ(0) = 3.4e-6 is larger than that.
        let (_, upper) = epsilons(&accounts, 1e-6, &Unwatched).unwrap()[0];
        assert!(upper > 0.0);
        // Rates so small that their squares underflow are no reason for a false answer, nor for a late one.
        let mut accounts = Accounts::new(1);
        accounts.add(&[1.0], 1.0, 1.0, 5e-324, 1e9).unwrap();
        assert_eq!(epsilons(&accounts, 1e-100, &Unwatched).unwrap(), [(0.0, 0.0)]);
        // In every batch of some steps, in hardly any of others.
        let mut accounts = Accounts::new(1);
        accounts.add(&[1.0], 1.0, 10.0, 1.0, 1.0).unwrap();
        accounts.add(&[1.0], 1.0, 10.0, 1e-12, 1.0).unwrap();
        assert!(epsilons(&accounts, 1e-5, &Unwatched).unwrap()[0].1 > 0.1);
    }
}
