//! Privacy losses that are mixtures of Gaussians: all moments have a closed form.
//!
//! N(μ, 1) against N(0, 1) has the loss N(μ²/2, μ²) under P. Replacing k records of a fixed batch is bounded by a
//! mixture of these over the number j of them in the batch, with μ = 2j/σ (`docs/theory/dominating-pairs.md`; convexity of the
//! hockey-stick divergence in the pair).

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::gate::Separation;
use crate::loss::gaussian_curve::GaussianCurve;
use crate::loss::loss_curve::Atom;
use crate::loss::loss_curve::{LossCurve, Support, Sweep};
use crate::loss::one_step;
use crate::loss::privacy_loss::StepLoss;
use crate::loss::privacy_loss::{Effort, PrivacyLoss, TiltedLoss, TiltedMoments};
use crate::loss::smooth_piece::Scratch;
use crate::special::log_space::complex_exp_m1;
use crate::special::log_space::{LogSum, log_sum_exp};
use realfft::num_complex::Complex64;

/// Half of the range of a standardised output that a grid sweeps: P(|N(0, 1)| > 9.6) = 8e-22.
const SWEEP_REACH: f64 = 9.6;
/// Probability that two sweeps of that range may leave out.
const OUTSIDE_SWEEP: f64 = 2e-21;
/// Components with less than e^−this of a sum have no part in its rounding.
const UNSEEN: f64 = 100.0;
/// Cost of the characteristic function at one y, in nodes: a few exponentials and sines.
const CHANGE_COST: usize = 8;

/// A loss that is N(μ_j²/2, μ_j²) with probability h_j.
#[derive(Debug, Clone)]
pub(crate) struct GaussianLoss {
    log_weights: Vec<f64>,
    distances: Vec<f64>,
    /// True if the probabilities do not sum to 1.
    partial: bool,
}

impl GaussianLoss {
    /// The mixture with probabilities e^`log_weights` of the distances μ ≥ 0.
    pub(crate) fn new(log_weights: Vec<f64>, distances: Vec<f64>) -> Self {
        Self {
            log_weights,
            distances,
            partial: false,
        }
    }

    /// The parts with and without a loss, each with its part of the probability; `None` if either is missing.
    fn split(&self) -> Option<(Self, Self)> {
        let (still, moving): (Vec<_>, Vec<_>) = self.parts().partition(|(distance, _)| *distance == 0.0);
        if still.is_empty() || moving.is_empty() {
            return None;
        }
        let log_still = log_sum_exp(&still.iter().map(|part| part.1).collect::<Vec<_>>());
        let still = Self {
            log_weights: vec![log_still],
            distances: vec![0.0],
            partial: true,
        };
        let moving = Self {
            log_weights: moving.iter().map(|part| part.1).collect(),
            distances: moving.iter().map(|part| part.0).collect(),
            partial: true,
        };
        Some((moving, still))
    }

    /// The distances μ_j and the logarithms of their probabilities.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.distances.iter().copied().zip(self.log_weights.iter().copied())
    }

    /// The law tilted by e^{cℓ}.
    pub(crate) fn tilted_by(&self, c: f64) -> TiltedGaussians {
        let order = c * (c + 1.0);
        let halves: Vec<f64> = self.distances.iter().map(|m| 0.5 * m * m).collect();
        let logs: Vec<f64> = self
            .log_weights
            .iter()
            .zip(&halves)
            .map(|(w, half)| w + order * half)
            .collect();
        let total = log_sum_exp(&logs);
        let sizes = self.sizes(order, &halves, &logs, total);
        let near_one = total.abs() < 0.5 && !self.partial;
        let log_moment = if near_one {
            self.near_one(order, &halves)
        } else {
            Approx::new(total, sizes.of_total)
        };
        TiltedGaussians {
            c,
            weights: logs.iter().map(|l| (l - total).exp()).collect(),
            weight_rounding: if logs.len() > 1 {
                sizes.of_weight
            } else {
                0.0 // e^0
            },
            halves,
            log_moment,
        }
    }

    /// Bounds on the roundings of `total` = log Σ e^`logs` and of the tilted weights e^(log − total).
    ///
    /// In units of 2⁻⁵³ the logarithm of a weight is off by |w|, its product with the order by 4 times itself, of which 2 are those of the
    /// order, and their sum by |l|, however far both cancel. In a tilted weight the error of the order counts with the distance from others
    /// only. Components below e^−[`UNSEEN`] of the sum change nothing.
    fn sizes(&self, order: f64, halves: &[f64], logs: &[f64], total: f64) -> Rounding {
        let mut of_log = (0.0f64, 0.0f64);
        let mut range = (f64::INFINITY, f64::NEG_INFINITY);
        let mut count = 0.0;
        for ((w, half), log) in self.log_weights.iter().zip(halves).zip(logs) {
            if *log < total - UNSEEN {
                continue;
            }
            let product = order * half;
            let own = w.abs() + 2.0 * product.abs() + log.abs();
            of_log = (of_log.0.max(own), of_log.1.max(own + 2.0 * product.abs()));
            range = (range.0.min(product), range.1.max(product));
            count += 1.0;
        }
        let unit = 0.5 * f64::EPSILON;
        Rounding {
            of_total: unit * (4.0 + count + of_log.1 + 3.0 * total.abs()),
            of_weight: unit * (5.0 + count + 2.0 * (of_log.0 + (range.1 - range.0).max(0.0)) + 3.0 * total.abs()),
        }
    }

    /// log Σ h_j e^{k_j} near 0 for the k_j = `order`·μ_j²/2, from the sum of the h_j (e^{k_j} − 1), which keeps its digits.
    fn near_one(&self, order: f64, halves: &[f64]) -> Approx {
        let count = halves.len() as f64;
        let (mut excess, mut error) = (0.0, 0.0);
        for (w, half) in self.log_weights.iter().zip(halves) {
            let k = order * half;
            let (change, size) = if k.abs() < 1.0 {
                let change = w.exp() * k.exp_m1();
                (change, change.abs())
            } else {
                // A weight may be as small as the power is large.
                let (moment, weight) = ((w + k).exp(), w.exp());
                (moment - weight, moment + weight)
            };
            excess += change;
            error += size * f64::EPSILON * (8.0 + 0.5 * count + w.abs().min(f64::MAX) + 3.0 * k.abs());
        }
        let log_moment = excess.ln_1p();
        // 1 + excess is at least e^−0.5, and errors that matter are far below it.
        let relative = error / (1.0 + excess);
        Approx::new(log_moment, 1.1 * relative + 4.0 * f64::EPSILON * log_moment.abs())
    }
}

/// Bounds on rounding errors.
struct Rounding {
    /// Of the logarithm of a sum.
    of_total: f64,
    /// Of the parts of the sum, in relation to themselves.
    of_weight: f64,
}

impl GaussianLoss {
    /// δ of the mixture, which is the mean of that of its parts.
    fn delta(&self, epsilon: f64, effort: &mut Effort) -> Enclosure {
        let (mut lower, mut upper) = (LogSum::default(), LogSum::default());
        let mut sum = Enclosure::ZERO; // contradicted if one of its parts is
        let mut scratch = Scratch::default();
        for (distance, log_weight) in self.parts() {
            let room = (2.0 * f64::EPSILON * log_weight.abs()).min(1.0);
            let part = if distance == 0.0 {
                let log = log_weight + (-epsilon.exp_m1()).max(0.0).ln();
                one_step::around(log, 4.0 * f64::EPSILON + room)
            } else {
                let found = one_step::of_shift(distance, epsilon, &mut scratch, effort);
                with_rounded_logs(found, (found.log_lower, found.log_upper), log_weight, room)
            };
            lower.add(part.log_lower);
            upper.add(part.log_upper);
            sum = sum.max(part);
        }
        // Sums of logarithms round each term, and each new scale.
        let room = 2.0 * f64::EPSILON * (1 + self.distances.len()) as f64;
        with_rounded_logs(sum, (lower.ln(), upper.ln()), 0.0, room)
    }
}

/// `found` with bounds that have these logarithms plus `log_factor`, which are wrong by `room`, and by their rounding in addition.
fn with_rounded_logs(found: Enclosure, (lower, upper): (f64, f64), log_factor: f64, room: f64) -> Enclosure {
    let rounded = one_step::of_rounded_logs(lower + log_factor - room, upper + log_factor + room);
    found.with_logs(rounded.log_lower, rounded.log_upper)
}

impl StepLoss {
    /// N(μ, 1) against N(0, 1).
    pub fn shift(distance: f64) -> Self {
        Self::new(GaussianLoss::new(vec![0.0], vec![distance]))
    }

    /// A pair that is one of N(μ_j, 1) against N(0, 1), and everyone sees which: e^`log_weights` are their probabilities.
    pub fn gaussians(log_weights: Vec<f64>, distances: Vec<f64>) -> Self {
        Self::new(GaussianLoss::new(log_weights, distances))
    }
}

impl PrivacyLoss for GaussianLoss {
    fn moments(&mut self, c: f64, _: f64) -> TiltedMoments {
        self.tilted_by(c).moments()
    }

    fn tilted(&mut self, c: f64, _: f64) -> Box<dyn TiltedLoss + '_> {
        Box::new(self.tilted_by(c))
    }

    fn support(&mut self, c: f64, _: f64) -> Support<'_> {
        let mut atoms = Vec::new();
        let mut sweeps = Vec::new();
        for (distance, log_weight) in self.parts() {
            if distance == 0.0 {
                atoms.push(Atom::new(0.0, log_weight));
                continue;
            }
            // Tilting by e^{cℓ} moves the centre to cμ.
            let centre = c * distance;
            sweeps.push(Sweep {
                curve: Box::new(GaussianCurve { distance, log_weight }) as Box<dyn LossCurve>,
                start: centre.min(0.0) - SWEEP_REACH,
                end: centre.max(0.0) + SWEEP_REACH,
            });
        }
        Support {
            sweeps,
            atoms,
            fine: None,
            outside: OUTSIDE_SWEEP,
        }
    }

    fn one_step(&self, epsilon: f64, _: f64, effort: &mut Effort) -> Enclosure {
        self.delta(epsilon, effort)
    }

    fn truncated(&self, _: f64, _steps: f64) -> (StepLoss, f64) {
        (StepLoss::new(self.clone()), f64::NEG_INFINITY)
    }

    fn density_terms(&self) -> usize {
        self.distances.len()
    }

    fn widest_distance(&self) -> Option<f64> {
        Some(self.distances.iter().copied().fold(0.0, f64::max))
    }

    fn single_gaussian(&self) -> Option<f64> {
        match self.distances.as_slice() {
            [distance] => Some(*distance),
            _ => None,
        }
    }

    fn common_loss(&self) -> Option<f64> {
        self.split().map(|_| 0.0)
    }

    fn separation(&self, _: f64, _: f64) -> Option<Separation> {
        self.split().map(|_| Separation::Atom)
    }

    fn near_part(&self, _: Separation, _: f64) -> Option<StepLoss> {
        self.split().map(|(_, still)| StepLoss::new(still))
    }

    fn far_part(&self, _: Separation) -> Option<StepLoss> {
        self.split().map(|(moving, _)| StepLoss::new(moving))
    }
}

/// A mixture of Gaussian losses under P tilted by e^{cℓ}.
#[derive(Debug, Clone)]
pub(crate) struct TiltedGaussians {
    c: f64,
    weights: Vec<f64>,
    /// Bound on the relative rounding error of a weight.
    weight_rounding: f64,
    /// μ²/2.
    halves: Vec<f64>,
    /// K(c).
    pub log_moment: Approx,
}

impl TiltedGaussians {
    /// Mean and variance of the tilted loss: component j is N((2c + 1)μ²/2, μ²).
    fn mean_and_variance(&self) -> (f64, f64) {
        let parts = || self.weights.iter().zip(&self.halves);
        let scale = 2.0 * self.c + 1.0;
        let mean: f64 = parts().map(|(w, h)| w * scale * h).sum();
        let variance = parts().map(|(w, h)| w * (2.0 * h + (scale * h - mean).powi(2))).sum();
        (mean, variance)
    }

    /// E[e^{(c + iy)ℓ}]/E[e^{cℓ}] − 1.
    fn change(&self, y: f64) -> Approx<Complex64> {
        let mut change = Approx::<Complex64>::default();
        for (weight, half) in self.weights.iter().zip(&self.halves) {
            let (fall, phase) = (-y * y * half, y * (2.0 * self.c + 1.0) * half);
            change.value += weight * complex_exp_m1(Complex64::new(fall, phase));
            let size = (fall.abs() + phase.abs()).min(2.0) + fall.exp() * phase.abs();
            change.error += weight * (8.0 * f64::EPSILON + self.weight_rounding) * size;
        }
        change
    }
}

impl TiltedLoss for TiltedGaussians {
    fn moments(&self) -> TiltedMoments {
        let (mean, variance) = self.mean_and_variance();
        TiltedMoments {
            log_moment: self.log_moment,
            mean,
            variance,
        }
    }

    fn size(&self) -> usize {
        CHANGE_COST
    }

    /// As Re z(z + 1) = c(c + 1) − y², component j contributes its weight times e^{−y²μ²/2}.
    fn log_decay(&mut self, y: f64) -> f64 {
        /// Smallest modulus that is claimed.
        const LEAST: f64 = 1e-15;
        let parts = || self.weights.iter().zip(&self.halves);
        let change: f64 = parts().map(|(w, h)| w * (-y * y * h).exp_m1()).sum();
        // All terms have one sign, so that the change has the relative error of a weight.
        if change > -0.5 {
            return change.ln_1p() * (1.0 - self.weight_rounding - 8.0 * f64::EPSILON);
        }
        // 1 + change would have lost its digits.
        let modulus: f64 = parts().map(|(w, h)| w * (-y * y * h).exp()).sum();
        // An exponent rounds with a few units in its last place, and is at most that of LEAST where it counts.
        modulus.max(LEAST).ln() + self.weight_rounding + 128.0 * f64::EPSILON
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        (0..=last).map(|j| self.change(j as f64 * spacing)).collect()
    }
}

#[cfg(test)]
mod tests;
