//! Outputs of added records, drawn where losses are large: a law under which the mean ratio W₁ is small.
//!
//! The noise alone with the density e^{−sW₁} over its mean has independent outputs. A mixture of such laws over s, with weights near those of
//! s^{θ−1}·E[e^{−sW₁}] ds, has a density r(W₁) near W₁^{−θ}/E[W₁^{−θ}], which is known exactly as a sum over the nodes.

use crate::simulation::allocation::epochs::{Epoch, Part};
use crate::simulation::allocation::mean_law::LaplaceTable;
use crate::special::log_space::log_sum_exp;
use crate::stopping::checkpoint;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// Probability, over all epochs, of the node at s = 0, which keeps r from falling to 0 for large W₁.
const UNTILTED: f64 = 0.05;
/// What may be missing of the mixture below the first node.
const BELOW: f64 = 0.01;
/// How far the probabilities of all nodes of a run, together, may be off for the normal variables that quadratures leave out: a tenth of what
/// rounding may do to a mean (`ROUNDING` in `estimate.rs`), which therefore counts it.
const UNCOUNTED: f64 = 1e-10;

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
    parts: Vec<Part>,
    /// The laws of log y at each node, one for each part.
    outputs: Vec<Output>,
}

/// The density of N(−v/2, v) times e^{−ςy} at log y = x, over its mass.
///
/// With e^x ≥ e^{x₀}(1 + x − x₀) it is at most a multiple of the density of N(−v/2 − av, v), a = ςe^{x₀}, which is drawn, and accepted with the
/// ratio of the two: for x₀ near the mode that is seldom below a few per cent, also where ς is far above 1/y for nearly all y of the noise.
#[derive(Debug, Clone, Copy)]
struct Output {
    /// ς.
    scale: f64,
    /// x₀.
    tangent: f64,
    /// a.
    slope: f64,
    /// −v/2 − av and √v.
    mean: f64,
    deviation: f64,
}

impl Output {
    fn new(variance: f64, scale: f64) -> Self {
        let tangent = -0.5 * variance - depth((scale * variance).ln() - 0.5 * variance);
        let slope = if scale == 0.0 { 0.0 } else { scale * tangent.exp() };
        Self {
            scale,
            tangent,
            slope,
            mean: -0.5 * variance - slope * variance,
            deviation: variance.sqrt(),
        }
    }

    /// Draws log y.
    fn draw(&self, rng: &mut impl Rng) -> f64 {
        loop {
            let normal: f64 = rng.sample(StandardNormal);
            let log_y = self.deviation * normal + self.mean;
            if self.scale == 0.0 {
                return log_y;
            }
            let log_ratio = self.slope * (1.0 + log_y - self.tangent) - self.scale * log_y.exp();
            if rng.random::<f64>() < log_ratio.exp() {
                return log_y;
            }
            checkpoint();
        }
    }
}

/// The root z ≥ 0 of z + log z = `log`, by Newton's method for log z from above.
fn depth(log: f64) -> f64 {
    let mut log_z = if log < 1.0 { log } else { log.ln() };
    for _ in 0..50 {
        let z = log_z.exp();
        let step = (z + log_z - log) / (1.0 + z);
        // Also where the logarithm is −∞, and z is 0.
        if step.is_nan() || step <= 1e-12 {
            break;
        }
        log_z -= step;
    }
    log_z.exp()
}

impl Mixture {
    /// The mixture for W₁^−θ in a run of so many epochs, that serves W₁ from `lowest` on; `None` where the probabilities of its nodes are not
    /// known, as they are those of normal variables beyond the reach of quadratures.
    pub(crate) fn new(epoch: &Epoch, theta: f64, epochs: f64, lowest: f64) -> Option<Self> {
        let untilted = UNTILTED / epochs;
        // From here on the node at s = 0 is all that is left: W₁^−θ is the probability of that node.
        let highest = untilted.powf(-1.0 / theta);
        let log_below = (BELOW.ln() + statrs::function::gamma::ln_gamma(theta + 1.0)) / theta;
        let start = (log_below - highest.ln()).max(-40.0);
        let end = ((theta + 12.0 * theta.sqrt() + 30.0) / lowest).ln();
        // The rule has the relative error |Γ(θ + 2πi/h)|/Γ(θ), about e^{−(2π/h)²/(2θ)}.
        let spacing = (1.2 / theta.sqrt()).min(0.4);
        let count = ((end - start) / spacing).ceil().clamp(1.0, 2000.0) as i32;
        let (mut logs, mut bounds) = (Vec::new(), Vec::new());
        for i in 0..=count {
            let log_s = start + f64::from(i) * spacing;
            let [log_laplace, bound] = epoch.log_laplace(log_s.exp());
            bounds.push((theta * log_s + bound, log_laplace - bound));
            if log_laplace.is_finite() {
                logs.push((log_s.exp(), theta * log_s + log_laplace, log_laplace));
            }
        }
        let weights: Vec<f64> = logs.iter().map(|(_, log, _)| *log).collect();
        let total = log_sum_exp(&weights);
        // The difference of two logarithms is exactly 0 where what quadratures leave out is below their rounding.
        let left_out = |&(bound, below): &(f64, f64)| (bound - total).exp() * -f64::exp_m1(below);
        let uncounted: f64 = bounds.iter().map(left_out).sum();
        if uncounted.is_nan() || uncounted * epochs > UNCOUNTED {
            return None;
        }
        let scale = (1.0 - untilted).ln() - total;
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
        let nodes: Vec<Node> = nodes.collect();
        let laws = |node: &Node| {
            let scale = node.s / epoch.batches();
            epoch.parts.iter().map(move |part| Output::new(part.variance, scale))
        };
        Some(Self {
            outputs: nodes.iter().flat_map(laws).collect(),
            nodes,
            parts: epoch.parts.clone(),
        })
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
        let laws = &self.outputs[chosen * self.parts.len()..];
        for (part, law) in self.parts.iter().zip(laws) {
            for _ in 0..part.count {
                log_ys.push(law.draw(rng));
            }
        }
    }
}

/// log of the largest (1 − w)·w^κ over w in [0, 1].
pub(crate) fn log_peak(kappa: f64) -> f64 {
    if kappa == 0.0 {
        0.0
    } else {
        kappa * kappa.ln() - (1.0 + kappa) * kappa.ln_1p()
    }
}

/// W₁ from which on a mixture serves: below it W₁ lies with a probability of e^−200 at most. `None` where the table has no such number above 0.
pub(crate) fn lowest(table: &LaplaceTable) -> Option<f64> {
    let quantile = table.lower_quantile(LOG_LOWEST);
    (quantile > 0.0).then_some(quantile.min(0.999))
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
            let lowest = lowest(&table).unwrap();
            let mixture = Mixture::new(epoch, theta, 1.0, lowest).unwrap();
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
        let lowest = lowest(&epoch.laplace_table()).unwrap();
        let mixture = Mixture::new(epoch, 2.0, 1.0, lowest).unwrap();
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

    /// Mean and variance of log y, by quadrature (mpmath), also where e^{−ςy} is 1e-20 or so for nearly all y of the noise.
    #[test]
    fn outputs_have_the_moments_of_their_density() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        for (variance, log_scale, mean, square) in [
            (1.0, -2.0, -0.613_481_186_8, 0.902_497_971_7),
            (1.0, 3.0, -2.482_805_275, 0.358_338_832_6),
            (4.0, 14.0, -13.145_625_41, 0.376_621_574_3),
            (40.0, 35.0, -37.139_404_18, 4.586_328_951),
            (100.0, 120.0, -121.159_103_8, 2.585_432_11),
            (0.01, 2.0, -0.073_945_494_44, 0.009_355_196_212),
        ] {
            let law = Output::new(variance, f64::exp(log_scale));
            let count = 100_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..count {
                let off = law.draw(&mut rng) - mean;
                sum += off / f64::from(count);
                squares += off * off / f64::from(count);
            }
            assert!(sum.abs() < 0.016 * f64::sqrt(square), "{variance} {log_scale}: {sum}");
            assert!(
                (squares / square - 1.0).abs() < 0.05,
                "{variance} {log_scale}: {squares}"
            );
        }
    }

    #[test]
    fn mixtures_beyond_the_reach_of_quadratures_are_refused() {
        let run = run(Sampling::FixedBins { batches: 1 }, 1.0, 1, 1);
        let epoch = &run.epochs[0];
        let lowest = lowest(&epoch.laplace_table()).unwrap();
        // Y^−θ has its mean from normal variables near −θ.
        assert!(Mixture::new(epoch, 5.0, 1.0, lowest).is_some());
        assert!(Mixture::new(epoch, 30.0, 1.0, lowest).is_none());
    }
}
