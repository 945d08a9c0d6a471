//! The law of a sum of independent places, by powers of Fourier transforms under a tilt.

use crate::loss::lattice::places::{PlaceMoments, Places};
use crate::special::fourier::{POWER_ERROR, forward, inverse, transform_error, whole_power};
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;
use std::f64::consts::TAU;
use std::sync::Arc;

/// Error of a value of the two atoms at the ends, of which the one is a root of unity: its angle, at most 2π, is right to 7e-16, its two
/// tabulated factors to 1.6e-16 each, their product to 2.5e-16, and the sum of three numbers of modulus at most 1 to 3.2e-16.
const ATOM_ERROR: f64 = 1.7e-15;
/// Error of a value of the transform at most, times the number of terms: then (1 + error)^r ≤ 1 + 1.06·r·error.
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
/// Half of a narrow window in standard deviations, and what may be outside of it: where only masses next to the mean count, and the tails of one term
/// are heavy, so that a standard deviation is as large as the mean.
const NARROW: (f64, f64) = (5.0, 1e-11);
/// Most terms, and most places of their sum, of a convolution one by one: half the square of the places are 4e8 products, a tenth of a
/// second. All masses of few terms then have their digits; of more terms those that a transform gets wrong do not count.
const FEW_TERMS: f64 = 8.0;
const MOST_CONVOLVED: f64 = 28_000.0;
/// A mass that underflows is below this.
const UNDERFLOW: f64 = 1e-300;
/// Half of a window in standard deviations.
pub(in crate::loss) const REACH: f64 = 10.5;

/// The sum K of independent places.
#[derive(Debug, Clone)]
pub(in crate::loss) struct PlaceSum {
    /// Their laws, and how many have each.
    pub(in crate::loss) terms: Vec<(Arc<Places>, f64)>,
}

/// The law of K under the tilt e^{θK}, in a window.
#[derive(Debug)]
pub(in crate::loss) struct TiltedLaw {
    /// θ.
    pub(in crate::loss) tilt: f64,
    /// The place of the first mass.
    pub(in crate::loss) first: f64,
    /// Probabilities under the tilt.
    pub(in crate::loss) masses: Vec<f64>,
    /// log E[e^{θK}], by which they are divided.
    pub(in crate::loss) log_scale: f64,
    /// Bound on the sum of the errors of all masses, but for the relative one.
    pub(in crate::loss) error: f64,
    /// The part of it that is outside of the window, and a bound on the 2-norm of the errors of all masses but for that.
    pub(in crate::loss) outside: f64,
    pub(in crate::loss) error_norm: f64,
    /// Bound on a relative error of all masses.
    pub(in crate::loss) relative_error: f64,
    /// Mean and standard deviation of K under the tilt.
    pub(in crate::loss) mean: f64,
    pub(in crate::loss) deviation: f64,
}

/// The law of some terms under the tilt: of one of them without the atoms at its ends, whose 2-norm is `norm`.
struct TiltedTerm {
    rest: Vec<f64>,
    ends: (f64, f64),
    norm: f64,
    count: f64,
}

impl PlaceSum {
    /// The sum of so many places of one law.
    pub(in crate::loss) fn of_equal(places: Arc<Places>, count: f64) -> Self {
        Self {
            terms: vec![(places, count)],
        }
    }

    /// The number of terms.
    fn count(&self) -> f64 {
        self.terms.iter().map(|(_, count)| count).sum()
    }

    /// The sum of a number over all terms.
    fn total(&self, of_one: impl Fn(&Places) -> f64) -> f64 {
        self.terms.iter().map(|(places, count)| count * of_one(places)).sum()
    }

    /// The largest sum.
    pub(in crate::loss) fn top(&self) -> f64 {
        self.total(|places| places.top() as f64)
    }

    /// log E[e^{θK}], mean and variance of K under the tilt.
    pub(in crate::loss) fn moments(&self, tilt: f64) -> PlaceMoments {
        let mut sum = PlaceMoments {
            log_moment: 0.0,
            mean: 0.0,
            variance: 0.0,
        };
        for (places, count) in &self.terms {
            let one = places.moments(tilt);
            sum.log_moment += count * one.log_moment;
            sum.mean += count * one.mean;
            sum.variance += count * one.variance;
        }
        sum
    }

    /// log E[e^{θK}], and a bound on its error: of the terms, and of their sum, which may cancel.
    fn log_moment(&self, tilt: f64) -> (f64, f64) {
        let (mut sum, mut error) = (0.0, 0.0);
        for (places, count) in &self.terms {
            let one = count * places.moments(tilt).log_moment;
            sum += one;
            error += count * places.moment_error(tilt) + 4.0 * f64::EPSILON * (one.abs() + sum.abs());
        }
        (sum, error)
    }

    /// An upper bound on log E[e^{θK}].
    pub(in crate::loss) fn log_moment_bound(&self, tilt: f64) -> f64 {
        let (value, error) = self.log_moment(tilt);
        value + error
    }

    /// The law under a tilt, in a window of [`REACH`] standard deviations on either side of its mean, or more. Masses of few terms are those of
    /// convolutions, and have all their digits.
    pub(in crate::loss) fn tilted(&self, tilt: f64) -> TiltedLaw {
        let is_convolved = self.count() <= FEW_TERMS && self.top() <= MOST_CONVOLVED;
        self.tilted_by(tilt, is_convolved, (REACH, NEGLIGIBLE))
    }

    /// As [`PlaceSum::tilted`] by transforms alone, whose errors do not count near the mean of the tilted law, in a narrow window.
    pub(in crate::loss) fn tilted_by_transform(&self, tilt: f64) -> TiltedLaw {
        self.tilted_by(tilt, false, NARROW)
    }

    fn tilted_by(&self, tilt: f64, is_convolved: bool, (reach, negligible): (f64, f64)) -> TiltedLaw {
        let moments = self.moments(tilt);
        let deviation = moments.variance.sqrt();
        let (mut first, mut last, mut outside) = (0.0, self.top(), 0.0);
        if self.top() > SHORT {
            let mut reach = reach * deviation + 64.0;
            for _ in 0..WIDENINGS {
                first = (moments.mean - reach).floor().max(0.0);
                last = (moments.mean + reach).ceil().min(self.top());
                outside = self.outside(tilt, (first, last), (deviation, negligible));
                if outside < negligible {
                    break;
                }
                reach *= 1.5;
            }
        }
        let places = (last - first) as usize + 1;
        let terms: Vec<TiltedTerm> = self.terms.iter().map(|term| TiltedTerm::new(term, tilt)).collect();
        // The window is all places where masses are convolved, as MOST_CONVOLVED < SHORT.
        let (masses, error_norm) = if is_convolved {
            (convolved(&terms), (places as f64).sqrt() * UNDERFLOW)
        } else {
            power(&terms, first, places, places.next_power_of_two().max(2))
        };
        let relative = self.total(|one| {
            // A mass of a convolution is a sum of so many positive products, of masses that were found likewise.
            let of_sums = if is_convolved { one.top() as f64 + 2.0 } else { 0.0 };
            let of_exponents = 8.0 + 4.0 * tilt.abs() * one.top() as f64;
            one.error + f64::EPSILON * (of_sums + of_exponents)
        });
        let (_, scale_error) = self.log_moment(tilt);
        TiltedLaw {
            tilt,
            first,
            masses,
            log_scale: moments.log_moment,
            // What is outside the window is found at other places within it.
            error: (places as f64).sqrt() * error_norm + outside,
            outside,
            error_norm,
            relative_error: relative + 8.0 * f64::EPSILON * moments.log_moment.abs() + scale_error,
            mean: moments.mean,
            deviation,
        }
    }

    /// A bound on the probability, under the tilt, of all places outside [first, last], by the best of some of Chernoff's inequalities.
    ///
    /// Each is the first that is below half of `negligible`, or the smallest one.
    fn outside(&self, tilt: f64, (first, last): (f64, f64), (deviation, negligible): (f64, f64)) -> f64 {
        let (log_scale, error) = self.log_moment(tilt);
        let bound = |other: f64, place: f64| {
            let log_bound = self.log_moment_bound(other) - log_scale - (other - tilt) * place;
            (log_bound + error).exp().min(1.0)
        };
        let best = |sign: f64, place: f64| {
            let away = (0..AWAY).map(|k| sign * REACH / deviation.max(1e-3) * 0.5f64.powi(k));
            let mut least = 1.0f64;
            for away in away {
                least = least.min(bound(tilt + away, place));
                if least < 0.5 * negligible {
                    break;
                }
            }
            least
        };
        let above = if last >= self.top() { 0.0 } else { best(1.0, last + 1.0) };
        let below = if first <= 0.0 { 0.0 } else { best(-1.0, first - 1.0) };
        above + below
    }
}

impl TiltedTerm {
    fn new((places, count): &(Arc<Places>, f64), tilt: f64) -> Self {
        let log_scale = places.moments(tilt).log_moment;
        let masses = places.masses.iter().enumerate();
        let mut rest: Vec<f64> = masses
            .map(|(j, mass)| mass * (tilt * j as f64 - log_scale).exp())
            .collect();
        let top = places.top();
        let ends = (rest[0], rest[top]);
        (rest[0], rest[top]) = (0.0, 0.0);
        let norm = rest.iter().map(|mass| mass * mass).sum::<f64>().sqrt();
        Self {
            rest,
            ends,
            norm,
            count: *count,
        }
    }

    /// The law with its ends.
    fn whole(&self) -> Vec<f64> {
        let mut whole = self.rest.clone();
        if let [first, .., last] = whole.as_mut_slice() {
            *first += self.ends.0;
            *last += self.ends.1;
        }
        whole
    }

    /// A bound on the 2-norm of the masses but for the ends, folded to a length: that of a sum of so many pieces, and its rounding.
    fn folded_norm(&self, length: usize) -> f64 {
        let pieces = self.rest.len().div_ceil(length) as f64;
        pieces.sqrt() * self.norm * (1.0 + f64::EPSILON * (pieces + 4.0))
    }

    /// The transform at the frequencies of a length, to the power of the number of these terms.
    fn spectrum(&self, length: usize) -> Option<Vec<Complex64>> {
        let forward = forward(length);
        let mut buffer = forward.make_input_vec();
        for (j, mass) in self.rest.iter().enumerate() {
            buffer[j % length] += mass;
        }
        let mut spectrum = forward.make_output_vec();
        forward.process(&mut buffer, &mut spectrum).ok()?;
        checkpoint();
        let roots = Roots::new(length);
        let least = (2.0 * NEGLIGIBLE_LOG_POWER / self.count).exp();
        let mut step = 0;
        let top = (self.rest.len() - 1) % length;
        for value in &mut spectrum {
            *value += self.ends.0 + self.ends.1 * roots.at(step);
            step = (step + top) % length;
            *value = if value.norm_sqr() < least {
                Complex64::default()
            } else {
                whole_power(*value, self.count as u64)
            };
        }
        checkpoint();
        Some(spectrum)
    }
}

/// The masses of all places, by convolutions one by one.
fn convolved(terms: &[TiltedTerm]) -> Vec<f64> {
    let mut law = vec![1.0];
    for term in terms {
        let one = term.whole();
        for _ in 0..term.count as u64 {
            checkpoint();
            let mut next = vec![0.0; law.len() + one.len() - 1];
            for (i, mass) in law.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
                for (sum, other) in next[i..].iter_mut().zip(&one) {
                    *sum += mass * other;
                }
            }
            law = next;
        }
    }
    law
}

/// The masses of so many places from `first` on, and a bound on the 2-norm of their errors.
///
/// A value φ of the transform of a term is off by η√N‖v‖ and the error of the atoms, where v is its law without the ends, folded, and |φ| ≤ 1. A product
/// of r values is then off by at most r times that in the 2-norm, and the inverse transform adds a relative error η of its own. A sum of L errors is
/// at most √L times their 2-norm.
fn power(terms: &[TiltedTerm], first: f64, places: usize, length: usize) -> (Vec<f64>, f64) {
    let unknown = || (vec![0.0; places], f64::INFINITY);
    let mut product: Option<Vec<Complex64>> = None;
    for term in terms {
        let Some(spectrum) = term.spectrum(length) else {
            return unknown();
        };
        match &mut product {
            None => product = Some(spectrum),
            Some(product) => product
                .iter_mut()
                .zip(spectrum)
                .for_each(|(value, other)| *value *= other),
        }
    }
    let Some(mut spectrum) = product else {
        return unknown();
    };
    spectrum[0].im = 0.0;
    if let Some(last) = spectrum.last_mut() {
        last.im = 0.0;
    }
    let inverse = inverse(length);
    let mut folded = inverse.make_output_vec();
    if inverse.process(&mut spectrum, &mut folded).is_err() {
        return unknown();
    }
    let offset = first.rem_euclid(length as f64) as usize;
    let scale = 1.0 / length as f64;
    let masses: Vec<f64> = (0..places)
        .map(|i| (folded[(offset + i) % length] * scale).max(0.0))
        .collect();
    let norm = folded.iter().map(|mass| mass * mass).sum::<f64>().sqrt() * scale;
    let eta = transform_error(length);
    let total =
        |of_one: &dyn Fn(&TiltedTerm) -> f64| terms.iter().map(|term| term.count * of_one(term)).sum::<f64>();
    let pointwise = total(&|term| eta * (length as f64).sqrt() * term.folded_norm(length) + ATOM_ERROR);
    if pointwise.is_nan() || pointwise >= MAX_POINTWISE_ERROR {
        return (masses, f64::INFINITY);
    }
    let of_spectrum = POWER_MARGIN * total(&|term| eta * term.folded_norm(length) + ATOM_ERROR);
    // Products of the powers of several laws are one more product each.
    let products = total(&|_| 1.0) + 2.0 * terms.len() as f64;
    let of_powers =
        (POWER_ERROR * products + eta) * (norm + of_spectrum) + terms.len() as f64 * NEGLIGIBLE_LOG_POWER.exp();
    (masses, of_spectrum + of_powers)
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

    /// A law with atoms at both ends and a density in between that falls by `fall` from one end to the other.
    fn law(fall: f64, cells: usize) -> Arc<Places> {
        let inner = |j: usize| 0.3 / cells as f64 * (1.0 + fall * j as f64 / cells as f64).powf(-1.5);
        let mut masses: Vec<f64> = (0..=cells).map(inner).collect();
        (masses[0], masses[cells]) = (0.0, 0.2);
        masses[0] = 1.0 - masses.iter().sum::<f64>();
        Arc::new(Places { masses, error: 1e-14 })
    }

    /// Ten equal masses between two ends, folded to five places.
    #[test]
    fn the_norm_of_a_folded_law_is_bounded_and_half_of_it_is_too_little() {
        let (masses, error) = (vec![1.0 / 12.0; 12], 0.0);
        let term = TiltedTerm::new(&(Arc::new(Places { masses, error }), 2.0), 0.0);
        let (folded, bound) = (5f64.sqrt() / 6.0, term.folded_norm(5));
        assert!(bound >= folded && 0.5 * bound < folded, "{bound} {folded}");
        assert!((term.folded_norm(16) / term.norm - 1.0).abs() < 1e-14);
    }

    fn sum(fall: f64, cells: usize, count: f64) -> PlaceSum {
        PlaceSum::of_equal(law(fall, cells), count)
    }

    /// With one cell the sum is binomial: masses under several tilts, back without the tilt.
    #[test]
    fn sums_have_binomial_masses() {
        for count in [11u64, 400] {
            let sum = sum(1.0, 1, count as f64);
            let p = sum.terms[0].0.masses[1];
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

    /// Masses by a power of a transform and by convolutions one by one are within the error of the first, for tilts of either sign.
    #[test]
    fn masses_by_transforms_are_within_their_error_of_convolutions() {
        let mut used = 0.0f64;
        for (fall, cells, count) in [(1.0, 40, 30.0), (9.0, 300, 7.0), (0.1, 2000, 3.0)] {
            // Two kinds of terms, of which the second has other atoms.
            let mut sum = sum(fall, cells, count);
            sum.terms.push((law(3.0 * fall, 2 * cells / 3), 2.0));
            for tilt in [-0.02, 0.0, 0.01] {
                let terms: Vec<TiltedTerm> = sum.terms.iter().map(|term| TiltedTerm::new(term, tilt)).collect();
                let exact = convolved(&terms);
                let places = sum.top() as usize + 1;
                assert_eq!(exact.len(), places);
                let (masses, norm) = power(&terms, 0.0, places, places.next_power_of_two());
                let error = (places as f64).sqrt() * norm;
                let apart: f64 = masses.iter().zip(&exact).map(|(a, b)| (a - b).abs()).sum();
                assert!(apart <= error && error < 1e-10, "{fall} {tilt}: {apart} {error}");
                used = used.max(apart / error);
            }
        }
        assert!(used > 1e-3, "{used}");
    }

    /// Few terms have digits where a transform has noise: the tilt of a large power is far from the masses that count.
    #[test]
    fn masses_of_few_terms_have_all_their_digits() {
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
