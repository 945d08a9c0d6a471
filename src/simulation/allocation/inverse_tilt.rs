//! Outputs of added records, drawn where losses are large: a law under which the mean ratio W₁ is small.
//!
//! The noise alone with the density e^{−sW₁} over its mean has independent outputs. A mixture of such laws over s, with weights near those of
//! s^{θ−1}·E[e^{−sW₁}] ds, has a density r(W₁) near W₁^{−θ}/E[W₁^{−θ}], which is known exactly as a sum over the nodes.

use crate::simulation::allocation::epochs::{Epoch, Part};
use crate::simulation::allocation::mean_law::LaplaceTable;
use crate::special::log_space::log_sum_exp;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// Probability, over all epochs, of the node at s = 0, which keeps r from falling to 0 for large W₁.
const UNTILTED: f64 = 0.05;
/// What may be missing of the mixture below the first node.
const BELOW: f64 = 0.01;
/// Tries after which a draw is taken as it is: nodes at which so many are needed have a probability below e^−1000.
const MOST_TRIES: u32 = 100_000;

/// One law of the mixture.
#[derive(Debug, Clone, Copy)]
struct Node {
    s: f64,
    /// log of its probability over E[e^{−sW₁}].
    log_density: f64,
    /// Probability of the nodes up to this one.
    cumulative: f64,
}

/// The mixture for one kind of epoch.
#[derive(Debug)]
pub(crate) struct Mixture {
    nodes: Vec<Node>,
    batches: f64,
    parts: Vec<Part>,
}

impl Mixture {
    /// The mixture for W₁^−θ in a run of so many epochs, that serves W₁ from `lowest` on.
    pub(crate) fn new(epoch: &Epoch, theta: f64, epochs: f64, lowest: f64) -> Self {
        let untilted = UNTILTED / epochs;
        // From here on the node at s = 0 is all that is left: W₁^−θ is the probability of that node.
        let highest = untilted.powf(-1.0 / theta);
        let log_below = (BELOW.ln() + statrs::function::gamma::ln_gamma(theta + 1.0)) / theta;
        let start = (log_below - highest.ln()).max(-40.0);
        let end = ((theta + 12.0 * theta.sqrt() + 30.0) / lowest).ln();
        // The rule has the relative error |Γ(θ + 2πi/h)|/Γ(θ), about e^{−(2π/h)²/(2θ)}.
        let spacing = (1.2 / theta.sqrt()).min(0.4);
        let count = ((end - start) / spacing).ceil().clamp(1.0, 2000.0) as i32;
        let mut logs: Vec<(f64, f64, f64)> = (0..=count)
            .map(|i| {
                let log_s = start + f64::from(i) * spacing;
                let log_laplace = epoch.log_laplace(log_s.exp());
                (log_s.exp(), theta * log_s + log_laplace, log_laplace)
            })
            .filter(|(_, log, _)| log.is_finite())
            .collect();
        let weights: Vec<f64> = logs.iter().map(|(_, log, _)| *log).collect();
        let scale = (1.0 - untilted).ln() - log_sum_exp(&weights);
        for (_, log, _) in &mut logs {
            *log += scale;
        }
        logs.insert(0, (0.0, untilted.ln(), 0.0));
        let mut cumulative = 0.0;
        let nodes = logs.into_iter().map(|(s, log, log_laplace)| {
            cumulative += log.exp();
            Node {
                s,
                log_density: log - log_laplace,
                cumulative,
            }
        });
        Self {
            nodes: nodes.collect(),
            batches: epoch.batches(),
            parts: epoch.parts.clone(),
        }
    }

    /// log r(w).
    pub(crate) fn log_density(&self, w: f64) -> f64 {
        let largest = self
            .nodes
            .iter()
            .map(|node| node.log_density - node.s * w)
            .fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self
            .nodes
            .iter()
            .map(|node| (node.log_density - node.s * w - largest).exp())
            .sum();
        largest + sum.ln()
    }

    /// −w·d log r/dw.
    fn slope(&self, w: f64) -> f64 {
        let log_density = self.log_density(w);
        let terms = self
            .nodes
            .iter()
            .map(|node| node.s * (node.log_density - node.s * w - log_density).exp());
        terms.sum::<f64>() * w
    }

    /// log of a b with r(w) ≥ b·max(w, `lowest`)^−θ.
    ///
    /// log r(w) + θ·log w changes in a cell of log w by at most its width times the excess of −w·r'/r over θ, and −r'/r decreases. r
    /// itself decreases, and is at least the probability of s = 0.
    pub(crate) fn log_floor(&self, theta: f64, epochs: f64, lowest: f64) -> f64 {
        let log_untilted = self.nodes[0].log_density;
        let highest = (-log_untilted / theta).exp().max(lowest);
        let width = (0.05 / (epochs * theta)).sqrt().min(0.02);
        let cells = ((highest / lowest).ln() / width).ceil().clamp(1.0, 20_000.0);
        let width = (highest / lowest).ln() / cells;
        let mut floor = log_untilted + theta * highest.ln();
        for i in 0..cells as i32 {
            let w = lowest * (f64::from(i) * width).exp();
            let fall = (self.slope(w) * width.exp() - theta).max(0.0) * width;
            floor = floor.min(self.log_density(w) + theta * w.ln() - fall);
        }
        floor - 1e-9
    }

    /// Draws the outputs of an epoch, as logs of y.
    pub(crate) fn draw(&self, rng: &mut impl Rng, log_ys: &mut Vec<f64>) {
        let place: f64 = rng.random();
        let chosen = self
            .nodes
            .partition_point(|node| node.cumulative <= place)
            .min(self.nodes.len() - 1);
        let scale = self.nodes[chosen].s / self.batches;
        for part in &self.parts {
            let deviation = part.variance.sqrt();
            for _ in 0..part.count {
                log_ys.push(one(deviation, scale, rng));
            }
        }
    }
}

/// log y drawn from the density of N(−v/2, v) times e^{−ςy}.
fn one(deviation: f64, scale: f64, rng: &mut impl Rng) -> f64 {
    for _ in 0..MOST_TRIES {
        let normal: f64 = rng.sample(StandardNormal);
        let log_y = deviation * normal - 0.5 * deviation * deviation;
        if scale == 0.0 || rng.random::<f64>() < (-scale * log_y.exp()).exp() {
            return log_y;
        }
    }
    f64::NEG_INFINITY
}

/// log of the largest (1 − w)·w^κ over w in [0, 1].
pub(crate) fn log_peak(kappa: f64) -> f64 {
    if kappa == 0.0 {
        0.0
    } else {
        kappa * kappa.ln() - (1.0 + kappa) * kappa.ln_1p()
    }
}

/// W₁ from which on a mixture serves: below it W₁ lies with a probability of e^−200 at most.
pub(crate) fn lowest(table: &LaplaceTable) -> f64 {
    table.lower_quantile(LOG_LOWEST).clamp(1e-12, 0.999)
}

/// log of the probability that is given up for [`lowest`].
pub(crate) const LOG_LOWEST: f64 = -200.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::allocation::epochs::tests::run;
    use crate::step::Sampling;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn the_density_is_near_a_power_and_above_its_floor() {
        let run = run(Sampling::RandomAllocation { batches: 20, times: 1 }, 1.0, 1, 13);
        let epoch = &run.epochs[0];
        let table = epoch.laplace_table();
        for theta in [0.3, 2.0, 17.0] {
            let lowest = lowest(&table);
            let mixture = Mixture::new(epoch, theta, 1.0, lowest);
            let floor = mixture.log_floor(theta, 1.0, lowest);
            for i in 0..300 {
                let w = lowest * 1.05f64.powi(i);
                assert!(mixture.log_density(w) >= floor - theta * w.ln(), "{theta} {w}");
            }
            // Near the power where most of the mass is.
            let expected = -table.log_inverse_moment(theta);
            assert!((floor - expected).abs() < 0.2, "{theta}: {floor} {expected}");
        }
    }

    /// E_Q[1] is the mean of the inverse density under the mixture.
    #[test]
    fn draws_have_the_density() {
        let run = run(Sampling::RandomAllocation { batches: 5, times: 1 }, 1.0, 1, 5);
        let epoch = &run.epochs[0];
        let mixture = Mixture::new(epoch, 2.0, 1.0, lowest(&epoch.laplace_table()));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let (mut sum, mut square, count) = (0.0, 0.0, 100_000);
        for _ in 0..count {
            let mut log_ys = Vec::new();
            mixture.draw(&mut rng, &mut log_ys);
            let mean = log_ys.iter().map(|log| log.exp()).sum::<f64>() / 5.0;
            let value = (-mixture.log_density(mean)).exp() * mean.min(1.0);
            sum += value;
            square += value * value;
        }
        // E_Q[min(W₁, 1)] by plain draws.
        let (mut plain, n) = (0.0, 400_000);
        for _ in 0..n {
            let mean: f64 = (0..5)
                .map(|_| (rng.sample::<f64, _>(StandardNormal) - 0.5).exp())
                .sum::<f64>()
                / 5.0;
            plain += mean.min(1.0) / f64::from(n);
        }
        let mean = sum / f64::from(count);
        let error = ((square / f64::from(count) - mean * mean) / f64::from(count)).sqrt();
        assert!((mean - plain).abs() < 5.0 * error + 2e-3, "{mean} {plain} {error}");
    }
}
