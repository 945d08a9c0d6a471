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
            weight_rounding: if logs.len() > 1 {
                f64::EPSILON * (4.0 + 2.0 * size)
            } else {
                0.0 // e^0
            },
            halves,
            log_moment: Approx::new(log_moment, error + f64::EPSILON * log_moment.abs()),
        }
    }
}

impl GaussianLoss {
    /// δ of the mixture, which is the mean of that of its parts.
    fn delta(&self, epsilon: f64, effort: &mut Effort) -> Enclosure {
        let (mut lower, mut upper) = (LogSum::default(), LogSum::default());
        let mut sum = Enclosure::ZERO; // contradicted if one of its parts is
        let mut scratch = Scratch::default();
        for (distance, log_weight) in self.parts() {
            let part = if distance == 0.0 {
                one_step::around(log_weight + (-epsilon.exp_m1()).max(0.0).ln(), 4.0 * f64::EPSILON)
            } else {
                let found = one_step::of_shift(distance, epsilon, &mut scratch, effort);
                found.with_logs(found.log_lower + log_weight, found.log_upper + log_weight)
            };
            lower.add(part.log_lower);
            upper.add(part.log_upper);
            sum = sum.max(part);
        }
        sum.with_logs(lower.ln() - 1e-15, upper.ln() + 1e-15)
    }
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

    fn truncated(&self, _: f64) -> (StepLoss, f64) {
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
mod tests {
    use super::*;
    use crate::loss::privacy_loss::Effort;

    /// Weights 0.2, 0.5, 0.3 of the distances 0, 0.7, 2.5.
    fn mixture() -> GaussianLoss {
        let logs = [0.2f64, 0.5, 0.3].map(f64::ln);
        GaussianLoss::new(logs.to_vec(), vec![0.0, 0.7, 2.5])
    }

    /// mpmath, 34 digits, with e = [w*exp(c*(c+1)*d*d/2) for w, d in zip(W, D)] and z = sum(e):
    /// log(z), m = sum(a*(2*c+1)*d*d/2 for a, d in zip(e, D))/z, sum(a*(d*d + ((2*c+1)*d*d/2 - m)**2) for a, d in zip(e, D))/z.
    #[test]
    fn moments_have_their_closed_form() {
        for (c, log_moment, mean, variance) in [
            (-0.5, -0.213_633_861_819_217_55, 0.0, 1.348_219_728_778_022_3),
            (
                1e-9,
                1.060_000_001_978_05e-9,
                1.060_000_003_956_1,
                3.956_100_013_149_412_4,
            ),
            (
                0.3,
                0.568_161_361_803_052_8,
                2.997_184_051_078_465,
                9.186_278_178_434_554,
            ),
            (7.0, 173.796_027_195_674_06, 46.875, 6.25),
        ] {
            let found = mixture().moments(c, 0.0);
            let error = found.log_moment.error;
            assert!((found.log_moment.value - log_moment).abs() <= error, "{c}: {found:?}");
            assert!(error <= 1e-14 * log_moment.abs().max(1.0), "{c}: {error}");
            // A probability is right to a unit in its last place, and a moment next to 1 keeps its digits.
            assert!(error <= 2e-14 * log_moment.abs() || c == -0.5, "{c}: {error}");
            assert!((found.mean - mean).abs() <= 1e-14 * (1.0 + mean), "{c}: {found:?}");
            assert!((found.variance / variance - 1.0).abs() <= 1e-12, "{c}: {found:?}");
        }
    }

    /// mpmath, as above: sum(w*exp(z*(z+1)*d*d/2) for w, d in zip(W, D))/sum(e) - 1 at z = 0.3 + iy.
    #[test]
    fn the_characteristic_function_has_its_closed_form() {
        let law = mixture().tilted_by(0.3);
        for (y, real, imaginary) in [
            (1e-3, -9.084_654_949_249_702e-6, 0.002_997_163_054_517_302_4),
            (0.8, -0.684_094_332_119_266_2, 0.023_303_915_706_321_864),
            (5.0, -0.886_945_475_890_896_9, 0.000_630_819_090_835_075_8),
        ] {
            let (found, exact) = (law.change(y), Complex64::new(real, imaginary));
            assert!((found.value - exact).norm() <= found.error, "{y}: {found:?}");
            assert!(found.error <= 1e-14 * exact.norm(), "{y}: {found:?}");
        }
    }

    /// The modulus of one component is e^{−y²μ²/2}: the bound is that number, and half of it would be wrong.
    #[test]
    fn the_decay_of_one_component_is_exact_and_bounds_that_of_several() {
        let mut one = GaussianLoss::new(vec![0.0], vec![1.7]).tilted_by(0.4);
        let mut several = mixture().tilted_by(0.4);
        for y in [1e-4f64, 0.1, 1.0, 3.0] {
            let exact = -0.5 * (1.7 * y).powi(2);
            let found = one.log_decay(y);
            let room = 1e-13 * exact.abs().clamp(1e-2, 1.0);
            assert!(found >= exact && found - exact <= room, "{y}: {found} {exact}");
            let modulus = |y: f64| (1.0 + several.change(y).value).norm().ln();
            let largest = [1.0, 1.1, 1.7, 4.0].map(|factor| modulus(factor * y));
            let largest = largest.into_iter().fold(f64::NEG_INFINITY, f64::max);
            assert!(several.log_decay(y) >= largest - 1e-15, "{y}: {largest}");
        }
    }

    #[test]
    fn the_parts_with_and_without_a_loss_make_up_the_whole() {
        let whole = mixture();
        assert_eq!(whole.separation(1.0, 0.1), Some(Separation::Atom));
        let mut near = whole.near_part(Separation::Atom, 9.0).unwrap();
        let mut far = whole.far_part(Separation::Atom).unwrap();
        for c in [-0.5, 0.3, 2.0] {
            let [near, far, both] = [near.moments(c, 0.0), far.moments(c, 0.0), mixture().moments(c, 0.0)];
            assert!((near.log_moment.value - 0.2f64.ln()).abs() <= near.log_moment.error && near.mean == 0.0);
            let sum = (near.log_moment.value.exp() + far.log_moment.value.exp()).ln();
            assert!((sum - both.log_moment.value).abs() <= 1e-14 * (1.0 + sum.abs()), "{c}");
        }
        // Steeper than any tilt in use: the atom stays what it is.
        assert!((near.moments(1e150, 0.0).log_moment.upper() - 0.2f64.ln()).abs() < 1e-14);
        let single = GaussianLoss::new(vec![0.0], vec![1.7]);
        assert_eq!((single.single_gaussian(), single.common_loss()), (Some(1.7), None));
    }

    /// P(|N(0, 1)| > 9.6) = 8e-22, so that what lies beyond both ends of a sweep is at most that.
    #[test]
    fn sweeps_leave_out_no_more_than_they_say() {
        let outside = 2.0 * crate::special::normal::log_upper_tail(SWEEP_REACH).exp();
        assert!(outside <= OUTSIDE_SWEEP && outside > 0.25 * OUTSIDE_SWEEP, "{outside}");
    }

    /// δ of a mixture in which everyone sees which component it is: the mean of theirs.
    #[test]
    fn one_step_of_a_mixture_is_the_mean_of_its_components() {
        for epsilon in [-0.5, 0.0, 0.8, 3.0] {
            let found = mixture().one_step(epsilon, 1e-10, &mut Effort::default());
            let part = |distance: f64| one_step::gaussian_delta(distance, epsilon);
            let still = 0.2 * (-epsilon.exp_m1()).max(0.0);
            let (lower, upper) = (
                still + 0.5 * part(0.7).lower() + 0.3 * part(2.5).lower(),
                still + 0.5 * part(0.7).upper() + 0.3 * part(2.5).upper(),
            );
            assert!(found.lower() <= upper * (1.0 + 1e-14) && found.upper() >= lower * (1.0 - 1e-14));
            assert!(found.width() < 1e-11, "{epsilon}: {found:?}");
        }
    }
}
