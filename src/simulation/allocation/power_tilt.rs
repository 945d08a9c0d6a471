//! Outputs of removed records, drawn where losses are large: a law with more balls than the group has.
//!
//! The law with density W₁^K with respect to the noise alone, over its mass E[W₁^K], is that of K balls: the noise is moved by the number of
//! balls in each batch, which have the weights of [`Occupancy`]. As W ≤ c·W₁^m, the variable of δ is bounded under it for K ≥ m.

use crate::simulation::allocation::epochs::{Balls, Epoch, Run};
use crate::simulation::allocation::occupancy::Occupancy;
use rand::Rng;
use std::sync::Arc;

/// Numbers of balls that are tried.
const TRIES: usize = 6;

/// Most balls, for a group of m: laws with more are not needed, as the mean loss under them is above every ε of interest.
fn most_balls(members: u64) -> usize {
    (32 + 16 * members as usize).min(640)
}

/// The greatest common divisor.
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A law with K balls in each epoch.
#[derive(Debug)]
pub(crate) struct PowerTilt {
    /// K, for each kind of epoch.
    pub(crate) balls: Vec<usize>,
    /// Weights of each kind of epoch.
    occupancies: Arc<Vec<Occupancy>>,
    /// Σ log E[W₁^K] over all epochs.
    pub(crate) log_moment: f64,
    /// log of a bound on the variable (W − e^ε)₊·ΠE[W₁^K]/W₁^K.
    pub(crate) log_bound: f64,
}

/// log of the largest (w − 1)·w^{−κ} over w ≥ 1, κ ≥ 1.
fn log_peak(kappa: f64) -> f64 {
    if kappa <= 1.0 {
        0.0
    } else {
        (kappa - 1.0) * (kappa - 1.0).ln() - kappa * kappa.ln()
    }
}

/// log of a c with W ≤ c·W₁^m in one epoch: the mean over independent draws of the batches with equal probabilities, which is the largest one
/// (`docs/theory/allocation-estimate.md`); 1 for several batches of one record (Maclaurin's inequality).
pub(crate) fn log_excess(epoch: &Epoch) -> f64 {
    let Balls::Members(members) = epoch.balls else {
        return 0.0;
    };
    let (_, smallest) = epoch.variances();
    if members == 1 || smallest == 0.0 {
        return 0.0;
    }
    let all = Epoch {
        parts: vec![crate::simulation::allocation::epochs::Part {
            count: epoch.released(),
            variance: smallest,
        }],
        still: 0.0,
        repeats: 1,
        balls: epoch.balls,
    };
    Occupancy::new(&all, members as usize, -1.0).log_moments(epoch.batches())[members as usize]
}

impl PowerTilt {
    /// Laws for this ε, from that with as many balls as members to that with the smallest bound.
    ///
    /// All epochs have the same number κ of balls for each member, so that ΠW₁^K is a power of ΠW₁^m. With very many balls most outputs
    /// have nearly all of them in one batch, where a group has a ratio far below W₁^m: the smallest bound is not always the best.
    pub(crate) fn all(run: &Run, epsilon: f64) -> Vec<Self> {
        let members: Vec<usize> = run.epochs.iter().map(|epoch| epoch.balls.number() as usize).collect();
        // κ is a multiple of one over the common divisor.
        let unit = members.iter().fold(0, |divisor, number| gcd(divisor, *number)).max(1);
        let balls = |multiple: usize| members.iter().map(|number| number / unit * multiple).collect();
        let most = (members
            .iter()
            .map(|number| most_balls(*number as u64) / (number / unit)))
        .min()
        .unwrap_or(unit);
        let mut occupancies = Vec::new();
        let (mut log_moments, mut excess) = (vec![0.0; most + 1], 0.0);
        for (epoch, number) in run.epochs.iter().zip(&members) {
            let occupancy = Occupancy::new(epoch, number / unit * most, 1.0);
            let of_epoch = occupancy.log_moments(epoch.batches());
            for (multiple, sum) in log_moments.iter_mut().enumerate() {
                *sum += epoch.repeats as f64 * of_epoch[number / unit * multiple];
            }
            excess += epoch.repeats as f64 * log_excess(epoch);
            occupancies.push(occupancy);
        }
        let log_bound = |multiple: usize| {
            let kappa = multiple as f64 / unit as f64;
            log_moments[multiple] + kappa * excess + (1.0 - kappa) * epsilon + log_peak(kappa)
        };
        let mut best = unit;
        for other in unit..=most {
            if log_bound(other) < log_bound(best) {
                best = other;
            }
        }
        let occupancies = Arc::new(occupancies);
        let between =
            |i: usize| (unit as f64 * (best as f64 / unit as f64).powf(i as f64 / TRIES as f64)).round() as usize;
        let mut found: Vec<usize> = (1..=TRIES).map(between).collect();
        found.dedup();
        let law = |multiple: usize| Self {
            balls: balls(multiple),
            log_moment: log_moments[multiple],
            log_bound: log_bound(multiple),
            occupancies: Arc::clone(&occupancies),
        };
        found.into_iter().map(law).collect()
    }

    /// Draws the batches of the balls of one epoch of this kind.
    pub(crate) fn places(&self, kind: usize, rng: &mut impl Rng, places: &mut Vec<(usize, f64)>) {
        self.occupancies[kind].draw(self.balls[kind], rng, places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::allocation::epochs::tests::run;
    use crate::simulation::allocation::ratio::{Ratio, Scratch};
    use crate::step::Sampling;

    #[test]
    fn the_peak_is_attained() {
        for kappa in [1.0f64, 1.3, 4.0] {
            let largest = (0..400_000)
                .map(|i| 1.0 + 1e-4 * f64::from(i) * f64::from(i))
                .map(|w| (w - 1.0) * w.powf(-kappa))
                .fold(0.0, f64::max);
            assert!(
                (largest / log_peak(kappa).exp() - 1.0).abs() < 1e-3,
                "{kappa} {largest}"
            );
        }
    }

    /// W ≤ c·W₁^m, with equality where all y are equal.
    #[test]
    fn ratios_are_at_most_powers_of_the_mean() {
        for (members, times) in [(2, 1), (5, 1), (1, 3)] {
            let run = run(Sampling::RandomAllocation { batches: 6, times }, 0.8, members, 6);
            let ratio = Ratio::new(&run.epochs[0]);
            let log_c = log_excess(&run.epochs[0]);
            for case in 0..50u64 {
                let mut log_ys: Vec<f64> = (0..6)
                    .map(|i| 1e-3 * case as f64 * ((i * i * 31 + case * 17) % 97) as f64 - 1.0)
                    .collect();
                let (log_mean, log_ratio) = ratio.at(&mut log_ys, &mut Scratch::default());
                let bound = log_c + run.epochs[0].balls.number() as f64 * log_mean;
                assert!(log_ratio <= bound + 1e-12);
                assert!(case > 0 || (log_ratio - bound).abs() < 1e-12, "{log_ratio} {bound}");
            }
        }
    }

    #[test]
    fn the_bound_is_that_of_the_best_number_of_balls() {
        // One epoch, one record: δ(0.858) is 1e-6, and no bound can be below it.
        let run = run(Sampling::RandomAllocation { batches: 100, times: 1 }, 1.0, 1, 100);
        let tilts = PowerTilt::all(&run, 0.857_986);
        assert!(tilts.len() > 2 && tilts.windows(2).all(|pair| pair[0].balls[0] < pair[1].balls[0]));
        let tilt = &tilts[tilts.len() - 1];
        assert!(
            tilt.log_bound > 1e-6f64.ln() && tilt.log_bound < 2e-4f64.ln(),
            "{}",
            tilt.log_bound
        );
    }
}
