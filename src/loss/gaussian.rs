//! Privacy losses that are mixtures of Gaussians: all moments have a closed form.
//!
//! N(μ, 1) against N(0, 1) has the loss N(μ²/2, μ²) under P. Replacing k records of a fixed batch is bounded by a
//! mixture of these over the number j of them in the batch, with μ = 2j/σ (`docs/theory/dominating-pairs.md`; convexity of the
//! hockey-stick divergence in the pair).

use crate::special::log_space::log_sum_exp;

/// A loss that is N(μ_j²/2, μ_j²) with probability h_j.
#[derive(Debug, Clone)]
pub struct GaussianLoss {
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

    /// The part with a loss and the log of the probability of no loss; `None` if either is missing.
    pub fn split(&self) -> Option<(Self, f64)> {
        let (still, moving): (Vec<_>, Vec<_>) = self.parts().partition(|(distance, _)| *distance == 0.0);
        if still.is_empty() || moving.is_empty() {
            return None;
        }
        let log_still = log_sum_exp(&still.iter().map(|part| part.1).collect::<Vec<_>>());
        let moving = Self {
            log_weights: moving.iter().map(|part| part.1).collect(),
            distances: moving.iter().map(|part| part.0).collect(),
            partial: true,
        };
        Some((moving, log_still))
    }

    /// The distances μ_j and the logarithms of their probabilities.
    pub fn parts(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.distances.iter().copied().zip(self.log_weights.iter().copied())
    }

    /// μ, if there is only one.
    pub fn single(&self) -> Option<f64> {
        match self.distances.as_slice() {
            [distance] => Some(*distance),
            _ => None,
        }
    }

    /// The law tilted by e^{cℓ}.
    pub fn tilted(&self, c: f64) -> TiltedGaussians {
        let order = c * (c + 1.0);
        let halves: Vec<f64> = self.distances.iter().map(|m| 0.5 * m * m).collect();
        let logs: Vec<f64> = self
            .log_weights
            .iter()
            .zip(&halves)
            .map(|(w, half)| w + order * half)
            .collect();
        let total = log_sum_exp(&logs);
        // Near 0 the sum of the differences to 1 keeps the digits.
        let excess: f64 = self
            .log_weights
            .iter()
            .zip(&halves)
            .map(|(w, half)| w.exp() * (order * half).exp_m1())
            .sum();
        let near_one = total.abs() < 0.5 && !self.partial;
        let log_moment = if near_one { excess.ln_1p() } else { total };
        let size = logs
            .iter()
            .fold(1.0 + total.abs(), |size: f64, l| size.max(l.abs().min(800.0)));
        let error = if near_one {
            1e-14 * log_moment.abs()
        } else {
            1e-15 * size
        };
        TiltedGaussians {
            c,
            weights: logs.iter().map(|l| (l - total).exp()).collect(),
            halves,
            log_moment,
            log_moment_error: error + f64::EPSILON * log_moment.abs(),
        }
    }
}

/// A mixture of Gaussian losses under P tilted by e^{cℓ}.
#[derive(Debug, Clone)]
pub struct TiltedGaussians {
    c: f64,
    weights: Vec<f64>,
    /// μ²/2.
    halves: Vec<f64>,
    /// K(c).
    pub log_moment: f64,
    /// Bound on the rounding error of `log_moment`.
    pub log_moment_error: f64,
}

impl TiltedGaussians {
    /// Mean and variance of the tilted loss: component j is N((2c + 1)μ²/2, μ²).
    pub fn mean_and_variance(&self) -> (f64, f64) {
        let parts = || self.weights.iter().zip(&self.halves);
        let scale = 2.0 * self.c + 1.0;
        let mean: f64 = parts().map(|(w, h)| w * scale * h).sum();
        let variance = parts().map(|(w, h)| w * (2.0 * h + (scale * h - mean).powi(2))).sum();
        (mean, variance)
    }

    /// E[e^{(c + iy)ℓ}]/E[e^{cℓ}] − 1, real and imaginary part, and a bound on its rounding error.
    pub fn change(&self, y: f64) -> (f64, f64, f64) {
        let (mut real, mut imaginary, mut rounding) = (0.0, 0.0, 0.0);
        for (weight, half) in self.weights.iter().zip(&self.halves) {
            let (fall, phase) = (-y * y * half, y * (2.0 * self.c + 1.0) * half);
            let (sine, cosine) = phase.sin_cos();
            let versine = 2.0 * (0.5 * phase).sin().powi(2);
            real += weight * (fall.exp_m1() * cosine - versine);
            imaginary += weight * fall.exp() * sine;
            let size = (fall.abs() + phase.abs()).min(2.0) + fall.exp() * phase.abs();
            rounding += weight * 8.0 * f64::EPSILON * size;
        }
        (real, imaginary, rounding)
    }

    /// log of a bound on |E[e^{zℓ}]|/E[e^{cℓ}] for |Im z| ≥ y: Re z(z + 1) = c(c + 1) − y².
    pub fn log_decay(&self, y: f64) -> f64 {
        let change: f64 = self
            .weights
            .iter()
            .zip(&self.halves)
            .map(|(w, h)| w * (-y * y * h).exp_m1())
            .sum();
        // Rounding can make a vanishing bound negative.
        change.max(-1.0 + 1e-15).ln_1p()
    }
}
