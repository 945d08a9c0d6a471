//! Accounts that hold all norms of each example.

use crate::error::Result;
use crate::individual::basis::octave_of;
use crate::individual::losses::Content;
use crate::individual::norms::{ShiftScale, batch_probability, rate_index, require_step, with_gaussian_steps};

/// Number of steps up to which the exact engine is asked first (see `one_by_one`): after thirty different steps it takes a
/// fifth of the time that tables for fifty examples do, after a hundred as long.
const FEW_STEPS: f64 = 32.0;

/// Steps of one example at one sample rate and one norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Steps {
    /// The number of steps.
    pub(crate) count: f64,
    /// Index of the sample rate.
    pub(crate) rate: u16,
    /// Octave of v.
    pub(crate) octave: i16,
    /// log₂(v/2^octave), in [0, 1).
    pub(crate) part: f64,
    /// (s/σ)².
    pub(crate) v: f64,
}

/// All steps of one example.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    gaussian: f64,
    revealing: bool,
    steps: Vec<Steps>,
}

/// All steps of some examples.
#[derive(Debug, Clone, Default)]
pub struct Histories {
    rates: Vec<f64>,
    examples: Vec<History>,
}

impl Histories {
    /// Examples without any step.
    pub fn new(examples: usize) -> Self {
        Self {
            rates: Vec::new(),
            examples: vec![History::default(); examples],
        }
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.examples.len()
    }

    /// True without examples.
    pub fn is_empty(&self) -> bool {
        self.examples.is_empty()
    }

    /// Sample rates of all steps, each in (0, 1).
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// The steps of one example.
    pub(crate) fn history(&self, example: usize) -> &History {
        &self.examples[example]
    }

    /// A copy of some examples.
    pub(crate) fn subset(&self, members: &[usize]) -> Self {
        Self {
            rates: self.rates.clone(),
            examples: members.iter().map(|&member| self.examples[member].clone()).collect(),
        }
    }

    /// Adds steps as [`crate::individual::accounts::Accounts::add`] does.
    ///
    /// # Errors
    /// Values out of range, or a wrong number of shifts; the histories are then as they were.
    pub fn add(
        &mut self,
        shifts: &[f64],
        largest: f64,
        noise_multiplier: f64,
        sample_rate: f64,
        steps: f64,
    ) -> Result<()> {
        require_step(self.len(), shifts, noise_multiplier, sample_rate, steps)?;
        if sample_rate == 0.0 || steps == 0.0 {
            return Ok(());
        }
        let scale = ShiftScale::new(largest, noise_multiplier);
        let rate = (sample_rate < 1.0)
            .then(|| rate_index(&mut self.rates, sample_rate))
            .transpose()?;
        for (history, &shift) in self.examples.iter_mut().zip(shifts) {
            if shift == 0.0 {
                continue;
            }
            let v = scale.v(shift);
            match rate {
                _ if scale.is_revealing => history.revealing = true,
                Some(rate) => history.add(rate, v, steps),
                None => history.gaussian = with_gaussian_steps(history.gaussian, steps, v),
            }
        }
        Ok(())
    }
}

impl History {
    /// The steps at sample rates below 1.
    pub(crate) fn steps(&self) -> &[Steps] {
        &self.steps
    }

    /// Σ v of the Gaussian steps.
    pub(crate) fn gaussian(&self) -> f64 {
        self.gaussian
    }

    /// The kind of steps in the history, from which some answers follow without any computation.
    pub(crate) fn content(&self) -> Content {
        Content::of(self.revealing, self.gaussian, self.steps.is_empty())
    }

    /// Σ qT, which is no less than the probability of being in any batch; infinite after Gaussian steps, in which all records
    /// are.
    pub(crate) fn batch_probability(&self, rates: &[f64]) -> f64 {
        let of_steps = |steps: &Steps| rates[usize::from(steps.rate)] * steps.count;
        batch_probability(self.gaussian, self.steps.iter().map(of_steps).sum())
    }

    /// Number of steps; all Gaussian ones together count as one.
    pub(crate) fn count(&self) -> f64 {
        self.steps.iter().map(|steps| steps.count).sum::<f64>() + f64::from(u8::from(self.gaussian > 0.0))
    }

    /// True after so few steps that the exact engine is asked first.
    pub(crate) fn is_short(&self) -> bool {
        self.count() <= FEW_STEPS
    }

    /// Bits that are equal for two histories if and only if these are equal.
    pub(crate) fn key(&self) -> Vec<u64> {
        let steps = self.steps.iter();
        let parts = steps.flat_map(|steps| [u64::from(steps.rate), steps.v.to_bits(), steps.count.to_bits()]);
        [self.gaussian.to_bits(), u64::from(self.revealing)]
            .into_iter()
            .chain(parts)
            .collect()
    }

    /// Adds steps, sorted by rate and v so that their order in time makes no difference.
    fn add(&mut self, rate: u16, v: f64, count: f64) {
        let place = self.steps.partition_point(|known| (known.rate, known.v) < (rate, v));
        if let Some(known) = self
            .steps
            .get_mut(place)
            .filter(|known| (known.rate, known.v) == (rate, v))
        {
            known.count += count;
            return;
        }
        let (octave, part) = octave_of(v);
        let steps = Steps {
            count,
            rate,
            octave: octave as i16,
            part,
            v,
        };
        self.steps.insert(place, steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_changes_nothing() {
        let mut histories = Histories::new(2);
        assert!(histories.add(&[1.0], 1.0, 1.0, 0.1, 1.0).is_err());
        assert!(histories.add(&[1.0, f64::NAN], 1.0, 1.0, 0.1, 1.0).is_err());
        assert!(histories.examples.iter().all(|history| history.steps.is_empty()));
    }
}
