//! The law of the sum of the places of all batches, by a power of a Fourier transform under a tilt.

use super::batch::{Batch, PlaceMoments};
use crate::special::fourier::{POWER_ERROR, forward, inverse, transform_error, whole_power};
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;
use std::f64::consts::TAU;

/// Error of a value of the two atoms at the ends, of which the one is a root of unity: its angle, at most 2π, is right to 7e-16, its two
/// tabulated factors to 1.6e-16 each, their product to 2.5e-16, and the sum of three numbers of modulus at most 1 to 3.2e-16.
const ATOM_ERROR: f64 = 1.7e-15;
/// Error of a value of the transform at most, times the number of batches: then (1 + error)^r ≤ 1 + 1.06·r·error.
const MAX_POINTWISE_ERROR: f64 = 0.1;
/// Factor by which second-order terms can make errors grow, with room.
const POWER_MARGIN: f64 = 1.2;
/// Powers below e^this count as 0.
const NEGLIGIBLE_LOG_POWER: f64 = -80.0;
/// Tilts away from the first that are tried for what is outside a window, each half as far as the one before: the first is best for a normal
/// law, others where the law ends nearby.
const AWAY: i32 = 8;
/// Sums up to this have all their places in a window.
const SHORT: f64 = 65_536.0;
/// Windows are widened, by half each time, until what is outside is less likely than this: laws next to the end of their range have long tails.
const NEGLIGIBLE: f64 = 1e-13;
const WIDENINGS: usize = 4;
/// Most batches, and most places of their sum, of a convolution term by term: half the square of the places are 4e8 products, a tenth of a
/// second. All masses of few batches then have their digits; of more batches those that a transform gets wrong do not count.
const FEW_BATCHES: f64 = 8.0;
const MOST_CONVOLVED: f64 = 28_000.0;
/// A mass that underflows is below this.
const UNDERFLOW: f64 = 1e-300;
/// Half of a window in standard deviations.
pub(super) const REACH: f64 = 10.5;

/// The sum K of the places of independent batches.
#[derive(Debug, Clone)]
pub(super) struct PlaceSum {
    pub(super) batch: Batch,
    /// Number of batches.
    pub(super) count: f64,
}

/// The law of K under the tilt e^{θK}, in a window.
#[derive(Debug)]
pub(super) struct TiltedLaw {
    /// θ.
    pub(super) tilt: f64,
    /// The place of the first mass.
    pub(super) first: f64,
    /// Probabilities under the tilt.
    pub(super) masses: Vec<f64>,
    /// log E[e^{θK}], by which they are divided.
    pub(super) log_scale: f64,
    /// Bound on the sum of the errors of all masses, but for the relative one.
    pub(super) error: f64,
    /// Bound on a relative error of all masses.
    pub(super) relative_error: f64,
    /// Mean and standard deviation of K under the tilt.
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

/// The law of one batch under the tilt, without the atoms at its ends.
struct TiltedBatch {
    rest: Vec<f64>,
    ends: (f64, f64),
    norm: f64,
}

impl PlaceSum {
    /// The largest sum.
    pub(super) fn top(&self) -> f64 {
        self.count * self.batch.top() as f64
    }

    /// log E[e^{θK}], mean and variance of K under the tilt.
    pub(super) fn moments(&self, tilt: f64) -> PlaceMoments {
        let one = self.batch.moments(tilt);
        PlaceMoments {
            log_moment: self.count * one.log_moment,
            mean: self.count * one.mean,
            variance: self.count * one.variance,
        }
    }

    /// An upper bound on log E[e^{θK}].
    pub(super) fn log_moment_bound(&self, tilt: f64) -> f64 {
        let found = self.moments(tilt).log_moment;
        found + self.count * self.batch.moment_error(tilt) + 4.0 * f64::EPSILON * found.abs()
    }

    /// The law under a tilt, in a window of [`REACH`] standard deviations on either side of its mean, or more.
    pub(super) fn tilted(&self, tilt: f64) -> TiltedLaw {
        let moments = self.moments(tilt);
        let deviation = moments.variance.sqrt();
        let (mut first, mut last, mut outside) = (0.0, self.top(), 0.0);
        if self.top() > SHORT {
            let mut reach = REACH * deviation + 64.0;
            for _ in 0..WIDENINGS {
                first = (moments.mean - reach).floor().max(0.0);
                last = (moments.mean + reach).ceil().min(self.top());
                outside = self.outside(tilt, moments.log_moment, (first, last), deviation);
                if outside < NEGLIGIBLE {
                    break;
                }
                reach *= 1.5;
            }
        }
        let places = (last - first) as usize + 1;
        let one = self.tilted_batch(tilt, moments.log_moment / self.count);
        // The window is then all places, as MOST_CONVOLVED < SHORT.
        let is_direct = self.count <= FEW_BATCHES && self.top() <= MOST_CONVOLVED;
        let (masses, transform_error, of_sums) = if is_direct {
            // A mass is a sum of at most `top` + 1 positive products, of masses that were found likewise.
            (
                self.convolved(&one),
                places as f64 * UNDERFLOW,
                self.count * f64::EPSILON * (self.batch.top() + 2) as f64,
            )
        } else {
            let (masses, error) = self.power(&one, first, places, places.next_power_of_two().max(2));
            (masses, error, 0.0)
        };
        let relative = of_sums
            + self.count * (self.batch.error + f64::EPSILON * (8.0 + 4.0 * tilt.abs() * self.batch.top() as f64))
            + 8.0 * f64::EPSILON * moments.log_moment.abs();
        TiltedLaw {
            tilt,
            first,
            masses,
            log_scale: moments.log_moment,
            // What is outside the window is found at other places within it.
            error: transform_error + outside,
            relative_error: relative,
            mean: moments.mean,
            deviation,
        }
    }

    fn tilted_batch(&self, tilt: f64, log_scale: f64) -> TiltedBatch {
        let masses = self.batch.masses.iter().enumerate();
        let mut rest: Vec<f64> = masses
            .map(|(j, mass)| mass * (tilt * j as f64 - log_scale).exp())
            .collect();
        let top = self.batch.top();
        let ends = (rest[0], rest[top]);
        (rest[0], rest[top]) = (0.0, 0.0);
        let norm = rest.iter().map(|mass| mass * mass).sum::<f64>().sqrt();
        TiltedBatch { rest, ends, norm }
    }

    /// The masses of all places, by convolutions term by term.
    fn convolved(&self, one: &TiltedBatch) -> Vec<f64> {
        let mut of_one = one.rest.clone();
        let top = self.batch.top();
        of_one[0] += one.ends.0;
        of_one[top] += one.ends.1;
        let mut law = of_one.clone();
        for _ in 1..self.count as u64 {
            checkpoint();
            let mut next = vec![0.0; law.len() + top];
            for (i, mass) in law.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
                for (sum, other) in next[i..].iter_mut().zip(&of_one) {
                    *sum += mass * other;
                }
            }
            law = next;
        }
        law
    }

    /// The masses of so many places from `first` on, and a bound on the sum of their errors.
    ///
    /// A value φ of the transform is off by η√N‖v‖ and the error of the atoms, where v is the law without its ends and |φ| ≤ 1. Its power is
    /// then off by at most r times that in the 2-norm, and the inverse transform adds a relative error η of its own; a sum of L errors is
    /// at most √L times their 2-norm.
    fn power(&self, one: &TiltedBatch, first: f64, places: usize, length: usize) -> (Vec<f64>, f64) {
        let forward = forward(length);
        let mut buffer = forward.make_input_vec();
        for (j, mass) in one.rest.iter().enumerate() {
            buffer[j % length] += mass;
        }
        let mut spectrum = forward.make_output_vec();
        if forward.process(&mut buffer, &mut spectrum).is_err() {
            return (vec![0.0; places], f64::INFINITY);
        }
        checkpoint();
        let roots = Roots::new(length);
        let least = (2.0 * NEGLIGIBLE_LOG_POWER / self.count).exp();
        let mut step = 0;
        let top = self.batch.top() % length;
        for value in &mut spectrum {
            *value += one.ends.0 + one.ends.1 * roots.at(step);
            step = (step + top) % length;
            *value = if value.norm_sqr() < least {
                Complex64::default()
            } else {
                whole_power(*value, self.count as u64)
            };
        }
        checkpoint();
        spectrum[0].im = 0.0;
        if let Some(last) = spectrum.last_mut() {
            last.im = 0.0;
        }
        let inverse = inverse(length);
        let mut folded = inverse.make_output_vec();
        if inverse.process(&mut spectrum, &mut folded).is_err() {
            return (vec![0.0; places], f64::INFINITY);
        }
        let offset = first.rem_euclid(length as f64) as usize;
        let scale = 1.0 / length as f64;
        let masses: Vec<f64> = (0..places)
            .map(|i| (folded[(offset + i) % length] * scale).max(0.0))
            .collect();
        let norm = masses.iter().map(|mass| mass * mass).sum::<f64>().sqrt();
        let eta = transform_error(length);
        let pointwise = eta * (length as f64).sqrt() * one.norm + ATOM_ERROR;
        if pointwise.is_nan() || self.count * pointwise >= MAX_POINTWISE_ERROR {
            return (masses, f64::INFINITY);
        }
        let of_spectrum = POWER_MARGIN * self.count * (eta * one.norm + ATOM_ERROR);
        let of_powers = (POWER_ERROR * self.count + eta) * (norm + of_spectrum) + NEGLIGIBLE_LOG_POWER.exp();
        let error = (places as f64).sqrt() * (of_spectrum + of_powers);
        (masses, error)
    }

    /// A bound on the probability, under the tilt, of all places outside [first, last], by the best of some of Chernoff's inequalities.
    fn outside(&self, tilt: f64, log_scale: f64, (first, last): (f64, f64), deviation: f64) -> f64 {
        let bound = |other: f64, place: f64| {
            let log_bound = self.log_moment_bound(other) - log_scale - (other - tilt) * place;
            (log_bound + self.count * self.batch.moment_error(tilt)).exp().min(1.0)
        };
        let best = |sign: f64, place: f64| {
            let away = (0..AWAY).map(|k| sign * REACH / deviation.max(1e-3) * 0.5f64.powi(k));
            away.map(|away| bound(tilt + away, place)).fold(1.0, f64::min)
        };
        let above = if last >= self.top() { 0.0 } else { best(1.0, last + 1.0) };
        let below = if first <= 0.0 { 0.0 } else { best(-1.0, first - 1.0) };
        above + below
    }
}

/// The roots of unity e^{−2πij/N} as products of two tabulated ones.
struct Roots {
    fine: Vec<Complex64>,
    coarse: Vec<Complex64>,
    shift: u32,
}

impl Roots {
    fn new(length: usize) -> Self {
        let shift = length.next_power_of_two().trailing_zeros().div_ceil(2);
        let root = |j: usize| Complex64::from_polar(1.0, -TAU * (j as f64 / length as f64));
        let fine = (0..1 << shift).map(root).collect();
        let coarse = (0..(length >> shift) + 1).map(|j| root(j << shift)).collect();
        Self { fine, coarse, shift }
    }

    fn at(&self, j: usize) -> Complex64 {
        self.coarse[j >> self.shift] * self.fine[j & ((1 << self.shift) - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(scale: f64, cells: usize, count: f64) -> PlaceSum {
        PlaceSum {
            batch: Batch::new(scale, cells),
            count,
        }
    }

    /// With one cell the sum is binomial: masses under several tilts, back without the tilt.
    #[test]
    fn sums_have_binomial_masses() {
        for count in [11u64, 400] {
            let sum = sum(1.0, 1, count as f64);
            let p = sum.batch.masses[1];
            for tilt in [-1.5, 0.0, 0.7, 3.0] {
                let law = sum.tilted(tilt);
                let mut log_choose = 0.0;
                let (mut missing, mut total) = (0.0, 0.0);
                for k in 0..=count {
                    let exact = log_choose + k as f64 * p.ln() + (count - k) as f64 * (-p).ln_1p();
                    let tilted = (exact + tilt * k as f64 - law.log_scale).exp();
                    let place = k as f64 - law.first;
                    let found = if place >= 0.0 {
                        law.masses.get(place as usize)
                    } else {
                        None
                    };
                    missing += (found.unwrap_or(&0.0) - tilted).abs();
                    total += tilted;
                    log_choose += ((count - k) as f64 / (k + 1) as f64).ln();
                }
                assert!((total - 1.0).abs() < 1e-10);
                assert!(
                    missing < law.error + law.relative_error + 1e-12,
                    "{count} {tilt}: {missing} {}",
                    law.error
                );
                assert!(law.error < 1e-9);
            }
        }
    }

    /// Masses by a power of a transform and by convolutions term by term are within the error of the first, for tilts of either sign.
    #[test]
    fn masses_by_transforms_are_within_their_error_of_convolutions() {
        let mut used = 0.0f64;
        for (scale, cells, count) in [(1.0, 40, 30.0), (0.3, 300, 7.0), (4.0, 2000, 3.0)] {
            let sum = sum(scale, cells, count);
            for tilt in [-0.02, 0.0, 0.01] {
                let one = sum.tilted_batch(tilt, sum.moments(tilt).log_moment / count);
                let exact = sum.convolved(&one);
                let places = sum.top() as usize + 1;
                assert_eq!(exact.len(), places);
                let (masses, error) = sum.power(&one, 0.0, places, places.next_power_of_two());
                let apart: f64 = masses.iter().zip(&exact).map(|(a, b)| (a - b).abs()).sum();
                assert!(apart <= error && error < 1e-10, "{scale} {tilt}: {apart} {error}");
                used = used.max(apart / error);
            }
        }
        assert!(used > 1e-3, "{used}");
    }

    /// Few batches have digits where a transform has noise: the tilt of a large power is far from the masses that count.
    #[test]
    fn masses_of_few_batches_have_all_their_digits() {
        let law = sum(1.0, 100, 3.0).tilted(0.3);
        assert!(law.error < 1e-290 && law.relative_error < 1e-12, "{law:?}");
        let one = sum(1.0, 100, 1.0).tilted(0.3);
        // The first mass is that of the first place three times over.
        let cubed = one.masses[0].powi(3) * (3.0 * one.log_scale - law.log_scale).exp();
        assert!((law.masses[0] / cubed - 1.0).abs() < law.relative_error + 3.0 * one.relative_error);
    }

    /// The Chernoff bound on what a window leaves out, and the window itself: what is left has mass 1 but for that.
    #[test]
    fn windows_hold_nearly_everything() {
        let sum = sum(1.0, 40, 3000.0);
        for tilt in [-0.01, 0.0, 0.02] {
            let law = sum.tilted(tilt);
            assert!(law.first > 0.0 && law.first + (law.masses.len() as f64) < sum.top());
            let mass: f64 = law.masses.iter().sum();
            assert!(
                (mass - 1.0).abs() < law.error + law.relative_error,
                "{mass} {}",
                law.error
            );
            assert!(law.error < 1e-8, "{}", law.error);
        }
    }

    #[test]
    fn roots_of_unity_are_within_their_error() {
        let length = 16_384;
        let roots = Roots::new(length);
        for j in (0..length).step_by(37) {
            let exact = Complex64::from_polar(1.0, -TAU * (j as f64 / length as f64));
            assert!((roots.at(j) - exact).norm() < ATOM_ERROR);
        }
    }
}
