//! About where the threshold of an unknown is, by the central limit theorem: where a search for it starts.
//!
//! Drawn at a rate q, a group of k records makes a loss of a variance of about q²k²(e^{1/σ²} − 1) in each step, so that T steps are about one Gaussian pair of the distance μ,
//! μ² = T·q²k²(e^{1/σ²} − 1). Its μ follows from the target, and from that each unknown. Where the loss is far from Gaussian the start is bad, which costs time, but no accuracy.

use crate::loss::one_step::gaussian_delta;
use crate::special::root::bisect;
use crate::step::{Mechanism, Sampling, Step};
use std::convert::Infallible;

/// Logarithms of the distances that are looked at, and the accuracy to which one is found.
const DISTANCES: (f64, f64) = (-14.0, 7.0);
const ACCURACY: f64 = 0.01;
const ROUNDS: usize = 40;

/// A run that is taken for a Gaussian pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct GaussianLimit {
    /// μ².
    square: f64,
    rate: f64,
    size: f64,
    /// e^{1/σ²} − 1.
    variance: f64,
}

impl GaussianLimit {
    /// The pair with that δ at that ε; `None` where batches are drawn otherwise, members differ, or there is other noise. What is unknown of `step` may have any value.
    pub(super) fn new(step: &Step, (epsilon, delta): (f64, f64)) -> Option<Self> {
        let Mechanism::Gaussian { noise_multiplier } = step.mechanism else {
            return None;
        };
        let rate = match step.sampling {
            Sampling::Poisson { sample_rate } => sample_rate,
            Sampling::FixedBatch {
                batch_size,
                dataset_size,
            } => batch_size as f64 / dataset_size as f64,
            // An epoch of t batches has the variance (e^{1/σ²} − 1)/t: that of t steps at a rate of 1/t.
            Sampling::RandomAllocation { batches, times } => times as f64 / batches as f64,
            _ => return None,
        };
        if step.group.rates.is_some() || step.group.norms.is_some() || step.group.cosine != 1.0 {
            return None;
        }
        let log_delta = delta.ln();
        let is_met = |log: f64| Ok::<_, Infallible>(gaussian_delta(log.exp(), epsilon).log_upper > log_delta);
        let Ok(log_distance) = bisect(DISTANCES, ROUNDS, |_| ACCURACY, is_met);
        Some(Self {
            square: (2.0 * log_distance).exp(),
            rate,
            size: step.group.size as f64,
            variance: noise_multiplier.powi(-2).exp_m1(),
        })
    }

    /// σ after T steps.
    pub(super) fn noise_multiplier(self, steps: f64) -> Option<f64> {
        let of_step = self.square / (steps * (self.rate * self.size).powi(2));
        usable(of_step.ln_1p().powf(-0.5))
    }

    /// q after T steps.
    pub(super) fn sample_rate(self, steps: f64) -> Option<f64> {
        usable((self.square / (steps * self.variance)).sqrt() / self.size)
    }

    /// T.
    pub(super) fn steps(self) -> Option<f64> {
        usable(self.square / (self.variance * (self.rate * self.size).powi(2)))
    }

    /// k after T steps.
    pub(super) fn group_size(self, steps: f64) -> Option<f64> {
        usable((self.square / (steps * self.variance)).sqrt() / self.rate)
    }
}

fn usable(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Group;

    fn step(noise_multiplier: f64, sample_rate: f64, size: u64) -> Step {
        Step {
            mechanism: Mechanism::Gaussian { noise_multiplier },
            sampling: Sampling::Poisson { sample_rate },
            group: Group::of(size),
        }
    }

    /// Full batches are that pair, of μ = k√T/σ: each unknown is found from the others.
    #[test]
    fn the_unknowns_of_full_batches_are_those_of_a_gaussian_pair() {
        let (noise, size, steps) = (40.0, 3u64, 100.0f64);
        let distance = size as f64 * steps.sqrt() / noise;
        let target = (1.0, gaussian_delta(distance, 1.0).upper());
        let of = |noise: f64, rate: f64, size: u64| GaussianLimit::new(&step(noise, rate, size), target).unwrap();
        let near =
            |found: Option<f64>, exact: f64| assert!((found.unwrap() / exact - 1.0).abs() < 0.03, "{found:?}");
        near(of(1.0, 1.0, size).noise_multiplier(steps), noise);
        near(of(noise, 0.5, size).sample_rate(steps), 1.0);
        near(of(noise, 1.0, size).steps(), steps);
        near(of(noise, 1.0, 1).group_size(steps), size as f64);
    }

    /// Ten epochs of fifty batches have the variance 10/50·(e^{1/σ²} − 1).
    #[test]
    fn dealt_batches_are_steps_at_the_rate_of_one_of_them() {
        let mut dealt = step(2.0, 1.0, 1);
        dealt.sampling = Sampling::RandomAllocation { batches: 50, times: 1 };
        let distance = (0.2 * 0.25f64.exp_m1()).sqrt();
        let limit = GaussianLimit::new(&dealt, (0.5, gaussian_delta(distance, 0.5).upper())).unwrap();
        assert!((limit.steps().unwrap() / 500.0 - 1.0).abs() < 0.03, "{limit:?}");
        assert!(
            (limit.noise_multiplier(500.0).unwrap() / 2.0 - 1.0).abs() < 0.03,
            "{limit:?}"
        );
    }

    #[test]
    fn what_is_no_gaussian_pair_has_no_limit() {
        let mut other = step(1.0, 0.1, 2);
        other.group.norms = Some(vec![1.0, 0.5]);
        assert!(GaussianLimit::new(&other, (1.0, 1e-5)).is_none());
        // A variance beyond the range of numbers.
        let found = GaussianLimit::new(&step(1e-3, 0.1, 2), (1.0, 1e-5)).unwrap();
        assert!(found.steps().is_none() && found.sample_rate(10.0).is_none());
        let mut other = step(1.0, 0.1, 2);
        other.mechanism = Mechanism::Laplace { scale: 1.0 };
        assert!(GaussianLimit::new(&other, (1.0, 1e-5)).is_none());
    }
}
