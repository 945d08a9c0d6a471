//! The likelihood ratio W' of an epoch on its lattice, and δ of one epoch.
//!
//! δ(ε) of one epoch is E_Q[(W' − e^ε)₊] if the record is removed and E_Q[(1 − e^ε·W')₊] if it is added: sums over the lattice. They are computed from
//! the distribution under an exponential tilt, so that errors are relative to δ however small it is. The lattice is cut to a window; Chernoff's
//! inequality bounds what is outside it.

use super::batch::Batch;
use super::threshold::Threshold;
use crate::approx::Approx;
use crate::loss::lattice::excess::End;
use crate::loss::lattice::sum::{PlaceSum, TiltedLaw};
use crate::special::log_space::log_add;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Distance of two tilts whose laws are computed, in reciprocals of the standard deviation of the sum.
const TILT_STEP: f64 = 2.0;
/// Largest number of a tilt: 80 standard deviations from the mean.
const MAX_TILT: i64 = 40;
/// Tilts that are tried for a bound on what is beyond a place.
const SADDLES: i32 = 6;
/// Logarithms of ratios nearer to 1 than this come from W' − 1, others from W', which is a sum of positive terms.
const NEAR_ONE: f64 = 0.5;
/// Exponentials of logarithms above this do not underflow.
const LEAST_EXPONENT: f64 = -700.0;

/// W' = 1 + (Σ (Y'_i − 1))/t over the batches of an epoch of t that were released.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) batch: Batch,
    /// Number of batches that were released, and the sum of their places.
    released: f64,
    pub(super) sum: PlaceSum,
    /// t, and how many of its batches were not released.
    total: f64,
    still: f64,
    /// Standard deviation of the sum of places.
    deviation: f64,
    /// The laws that were computed, by the numbers of their tilts. None depends on what was asked before.
    laws: Mutex<BTreeMap<i64, Arc<TiltedLaw>>>,
}

impl Epoch {
    /// The epoch of `total` batches of which `released` are.
    pub(super) fn new(batch: Batch, released: u64, total: u64) -> Self {
        let sum = PlaceSum::of_equal(Arc::clone(&batch.places), released as f64);
        Self {
            batch,
            released: released as f64,
            total: total as f64,
            still: (total - released) as f64,
            deviation: sum.moments(0.0).variance.sqrt().max(f64::MIN_POSITIVE),
            sum,
            laws: Mutex::default(),
        }
    }

    /// W' − 1 at a place.
    pub(super) fn excess(&self, place: f64) -> f64 {
        (self.released * self.batch.lowest + self.batch.width * place) / self.total
    }

    /// W' at a place: a sum of positive terms, which has all its digits where W' is next to 0.
    pub(super) fn ratio(&self, place: f64) -> f64 {
        let batch = &self.batch;
        (self.still + self.released * batch.low + batch.width * place) / self.total
    }

    /// The place at which W' is k, a real number, from k or from k − 1, whichever gives it the smaller error.
    ///
    /// In units of the last place, e^{−1/b} and the width of a cell are off by at most half of 1/b, as 1/b is rounded, and by three for
    /// exponentials and roundings; e^{−1/b} − 1 is off by two.
    fn place(&self, k: &Threshold) -> Approx {
        let batch = &self.batch;
        let units = 4.0 + batch.exponent;
        let (low, lowest) = (self.released * batch.low, self.released * batch.lowest);
        let (size, size_above) = (k.ratio.abs() * self.total + self.still, k.excess.abs() * self.total);
        let of_ratio = Approx::new(
            k.ratio * self.total - self.still - low,
            self.total * k.ratio_error + f64::EPSILON * (2.0 * size + units * low),
        );
        let of_excess = Approx::new(
            k.excess * self.total - lowest,
            self.total * k.excess_error + f64::EPSILON * (2.0 * size_above + units * lowest.abs()),
        );
        let distance = if of_ratio.error < of_excess.error {
            of_ratio
        } else {
            of_excess
        };
        let place = distance.value / batch.width;
        Approx::new(place, distance.error / batch.width + f64::EPSILON * units * place.abs())
    }

    /// log W' at a place.
    pub(super) fn log_ratio(&self, place: f64) -> f64 {
        self.log_contracted(place, 1.0)
    }

    /// log(1 + γ(W' − 1)) at a place, for a γ of at most 1.
    pub(super) fn log_contracted(&self, place: f64, contraction: f64) -> f64 {
        let excess = contraction * self.excess(place);
        if excess.abs() < NEAR_ONE {
            excess.ln_1p()
        } else {
            ((1.0 - contraction) + contraction * self.ratio(place)).ln()
        }
    }

    /// A bound on the errors of these logarithms at all places between two, besides a unit in the last place of their own.
    ///
    /// The two terms of W' − 1 have so many units of error, and their sum is divided by W'; that quotient is monotone in the place. W' itself has
    /// a relative error of fewer units. For W' between 1/2 and 3/2 the quotient is at most three times as many, as both terms are at most 3/2.
    pub(super) fn log_error(&self, first: f64, last: f64) -> f64 {
        let batch = &self.batch;
        let units = 4.0 + batch.exponent;
        let of = |place: f64| {
            let excess = self.excess(place);
            if excess.abs() < NEAR_ONE {
                let size = (batch.width * place - self.released * batch.lowest) / self.total;
                units * size / (1.0 + excess)
            } else {
                4.0 * units
            }
        };
        f64::EPSILON * of(first).max(of(last))
    }

    /// W' of two neighbouring places differs by this.
    pub(super) fn step(&self) -> f64 {
        self.batch.width / self.total
    }

    /// The law under the tilt of this number; `None` where it is not computed to any use.
    pub(super) fn law(&self, number: i64) -> Option<Arc<TiltedLaw>> {
        let known = self
            .laws
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&number)
            .cloned();
        let law = known.unwrap_or_else(|| {
            let law = Arc::new(self.sum.tilted(self.tilt(number)));
            let mut laws = self.laws.lock().unwrap_or_else(PoisonError::into_inner);
            laws.insert(number, Arc::clone(&law));
            law
        });
        law.error.is_finite().then_some(law)
    }

    /// The tilt of a number.
    fn tilt(&self, number: i64) -> f64 {
        number as f64 * TILT_STEP / self.deviation
    }

    /// The number of the tilt e^{θK} that is next to W'^s: that with θ·W' = s·(step of W') at its own mean; `None` beyond what is computed.
    ///
    /// Numbers are tried one after the other, as the equation may have several solutions: the first is where the mass of W'^s is.
    pub(super) fn number_of_power(&self, s: f64) -> Option<i64> {
        let sign = if s < 0.0 { -1 } else { 1 };
        let excess = |number: i64| {
            let tilt = self.tilt(number);
            let ratio = self.ratio(self.sum.moments(tilt).mean);
            tilt.abs() * ratio - s.abs() * self.step()
        };
        let mut last = excess(0);
        for i in 1..=MAX_TILT {
            let here = excess(sign * i);
            if here >= 0.0 {
                return Some(sign * if here < -last { i } else { i - 1 });
            }
            last = here;
        }
        None
    }

    /// The number of the tilt whose law has its mean next to a place; the last one where all means are on one side of it.
    fn tilt_at(&self, place: f64) -> i64 {
        let mean = |number: i64| self.sum.moments(self.tilt(number)).mean;
        let mut last = mean(0);
        let sign = if place < last { -1 } else { 1 };
        for i in 1..=MAX_TILT {
            let here = mean(sign * i);
            if (here >= place) == (sign > 0) {
                return sign
                    * if (here - place).abs() < (last - place).abs() {
                        i
                    } else {
                        i - 1
                    };
            }
            last = here;
        }
        sign * MAX_TILT
    }

    /// log of an upper bound on the expectation under Q of W' to the power `exponent` over the places from `place` on, `above` or below it.
    ///
    /// (`docs/theory/random-allocation.md`, Proposition 14). With W'^s ≤ W'(e)^s·e^{λ(K − e)} on that side of the place e, and any θ ≥ λ (above;
    /// below, θ ≤ λ), Chernoff's inequality bounds it by W'(e)^s·E[e^{θ(K − e)}].
    pub(super) fn log_beyond(&self, exponent: f64, place: f64, above: bool, near: &TiltedLaw) -> f64 {
        let end = if above { self.sum.top() } else { 0.0 };
        if (above && place > end) || (!above && place < end) {
            return f64::NEG_INFINITY;
        }
        let here = self.log_ratio(place);
        let slope = if exponent >= 0.0 {
            // log W' is below its tangent.
            exponent * self.step() / self.ratio(place)
        } else if place == end {
            0.0
        } else {
            // −log W' is below its chord.
            exponent * (self.log_ratio(end) - here) / (end - place)
        };
        // The saddle point of a normal law, and tilts on the way to it: all are bounds.
        let away = (place - near.mean) / near.deviation.max(1e-3).powi(2);
        let bound = |k: i32| {
            let saddle = near.tilt + away * 0.5f64.powi(k);
            let tilt = if above { saddle.max(slope) } else { saddle.min(slope) };
            let of_ratios = exponent.abs() * (4.0 + self.batch.exponent + here.abs());
            let rounding = 16.0 * f64::EPSILON * ((tilt * place).abs() + of_ratios);
            exponent * here + self.sum.log_moment_bound(tilt) - tilt * place + rounding
        };
        (0..SADDLES).map(bound).fold(f64::INFINITY, f64::min)
    }

    /// An end of log E_Q[(W' − k)₊], certified.
    pub(super) fn log_above(&self, k: &Threshold, end: End) -> f64 {
        self.side(k, true, end)
    }

    /// An end of log E_Q[(k − W')₊], certified.
    pub(super) fn log_below(&self, k: &Threshold, end: End) -> f64 {
        self.side(k, false, end)
    }

    /// One of both. Their difference is 1 − k, as E_Q[W'] = 1, so that the smaller one is computed.
    ///
    /// Next to the end of the range of W' both are proportional to a power of the distance of k to that end, in which the error of k's place is
    /// not small. So that place is moved by its error, away from the end for an upper bound and towards it for a lower one.
    fn side(&self, k: &Threshold, above: bool, end: End) -> f64 {
        let Approx { value, error } = self.place(k);
        let place = if above == (end == End::Upper) {
            value - error
        } else {
            value + error
        };
        let is_out = if above { place >= self.sum.top() } else { place <= 0.0 };
        if is_out {
            return f64::NEG_INFINITY;
        }
        if above != (k.excess >= 0.0) {
            return with_difference(k, self.side(k, !above, end), end);
        }
        let Some(law) = self.law(self.tilt_at(place)) else {
            // E_Q[(W' − k)₊] ≤ E_Q[W'] = 1 for k ≥ 1, and E_Q[(k − W')₊] ≤ 1 for k < 1.
            return if end == End::Upper { 0.0 } else { f64::NEG_INFINITY };
        };
        self.smaller_side(k, place, above, end, &law)
    }

    fn smaller_side(&self, k: &Threshold, place: f64, above: bool, end: End, law: &TiltedLaw) -> f64 {
        let last = law.last();
        let direct = law.log_excess(place, above, end) + self.step().ln();
        if end == End::Lower {
            return direct;
        }
        // What counts outside the window: at most W' above, at most k below.
        let (power, log_size) = if above {
            (1.0, 0.0)
        } else {
            (0.0, (k.ratio + k.ratio_error).ln())
        };
        let outer = |place: f64, above: bool| log_size + self.log_beyond(power, place, above, law);
        let mut outside = outer(if above { last + 1.0 } else { law.first - 1.0 }, above);
        if (above && place < law.first) || (!above && place > last) {
            let between = outer(if above { law.first - 1.0 } else { last + 1.0 }, !above);
            outside = log_add(outside, between);
        }
        // Sums of logarithms keep what is too small for an exponential.
        if outside == f64::NEG_INFINITY {
            direct
        } else {
            let sum = log_add(direct, outside);
            sum + 8.0 * f64::EPSILON * (1.0 + sum.abs())
        }
    }
}

/// An end of the logarithm of the sum of |1 − k| and a number with such an end of its logarithm.
fn with_difference(k: &Threshold, log: f64, end: End) -> f64 {
    let (difference, sign) = match end {
        End::Lower => ((k.excess.abs() - k.excess_error).max(0.0), -1.0),
        End::Upper => (k.excess.abs() + k.excess_error, 1.0),
    };
    let sum = if log < LEAST_EXPONENT {
        log_add(difference.ln(), log)
    } else {
        (difference + log.exp()).ln()
    };
    sum + sign * f64::EPSILON * (8.0 + 2.0 * sum.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places and probabilities of all sums of so few batches.
    fn all_sums(batch: &Batch, count: u64) -> Vec<f64> {
        let mut law = vec![1.0];
        for _ in 0..count {
            let mut next = vec![0.0; law.len() + batch.places.top()];
            for (i, p) in law.iter().enumerate() {
                for (j, q) in batch.places.masses.iter().enumerate() {
                    next[i + j] += p * q;
                }
            }
            law = next;
        }
        law
    }

    /// 1 + x.
    fn number(x: f64) -> Threshold {
        Threshold {
            ratio: 1.0 + x,
            ratio_error: f64::EPSILON,
            excess: x,
            excess_error: 0.0,
        }
    }

    fn both_ends(epoch: &Epoch, k: &Threshold, above: bool) -> [f64; 2] {
        [End::Lower, End::Upper].map(|end| epoch.side(k, above, end).exp())
    }

    /// Two batches with one cell each: q = 1/(e^{1/b} + 1) is the probability of e^{1/b}, and next to either end of the range of W' only one place
    /// counts. In mpmath with 60 digits, a = 1/mpf(b) and e = mpf(ε): q**2*(exp(a) - exp(e)) above, (1 - q)**2*(exp(-e) - exp(-a)) below.
    #[test]
    fn ends_next_to_the_end_of_the_range_hold_what_is_left() {
        let below = |value: f64, units: u64| f64::from_bits(value.to_bits() - units);
        for (scale, epsilon, above, exact) in [
            (1.0, below(1.0, 1), true, 2.182_830_952_007_573_4e-17),
            (1.0, below(1.0, 2), true, 4.365_661_904_015_146e-17),
            (1.0, below(1.0, 300), true, 6.548_492_856_022_611e-15),
            (0.2, below(5.0, 10), false, 5.720_139_828_316_2e-17),
            (0.2, below(5.0, 4000), false, 2.361_679_666_540_282_7e-14),
            (0.02, below(50.0, 3), false, 3.910_626_722_274_539_5e-36),
            (0.02, below(50.0, 3), true, 3.910_626_722_274_461e-36),
            (0.3, below(1.0 / 0.3, 20), false, 2.945_762_639_757_459_4e-16),
        ] {
            let epoch = Epoch::new(Batch::new(scale, 1), 2, 2);
            let k = Threshold::of_log(if above { epsilon } else { -epsilon });
            let [lower, upper] = both_ends(&epoch, &k, above);
            assert!(
                lower <= exact && exact <= upper,
                "{scale} {epsilon}: {lower} {exact} {upper}"
            );
        }
    }

    /// Places of an epoch whose noise is so little that W' next to its smallest value is far below the last digit of 1.
    #[test]
    fn logarithms_of_ratios_have_their_digits() {
        // The smallest W' is e^−50, or 1/3 of 1 + 2e^−50; both are −log of the largest loss.
        for (released, total, exact) in [(2, 2, -50.0), (2, 3, -(3.0f64.ln()))] {
            let epoch = Epoch::new(Batch::new(0.02, 64), released, total);
            let error = epoch.log_error(0.0, 0.0) + f64::EPSILON * 50.0;
            assert!((epoch.log_ratio(0.0) - exact).abs() <= error && error < 1e-12);
        }
        // mpmath: log((exp(-a) + (exp(a) - exp(-a))*3/64)/1) with a = 1/mpf(0.02), one batch.
        let epoch = Epoch::new(Batch::new(0.02, 64), 1, 1);
        let error = epoch.log_error(3.0, 3.0) + f64::EPSILON * 50.0;
        assert!((epoch.log_ratio(3.0) - 46.939_729_205_308_44).abs() <= error && error < 1e-12);
    }

    /// Both sides at many numbers, by sums over all places; three batches of which none, or two, are not released.
    #[test]
    fn both_sides_are_sums_over_all_places() {
        for (scale, cells, released, total) in [(1.0, 30, 3, 3), (0.5, 50, 2, 4), (6.0, 9, 5, 5)] {
            let batch = Batch::new(scale, cells);
            let law = all_sums(&batch, released);
            let epoch = Epoch::new(batch, released, total);
            for i in -40..60 {
                let x = 0.031 * f64::from(i) / scale;
                let excess = |k: usize| epoch.excess(k as f64) - x;
                let masses = || law.iter().enumerate();
                let above: f64 = masses().map(|(k, mass)| mass * excess(k).max(0.0)).sum();
                let below: f64 = masses().map(|(k, mass)| mass * (-excess(k)).max(0.0)).sum();
                for (is_above, exact) in [(true, above), (false, below)] {
                    let [lower, upper] = both_ends(&epoch, &number(x), is_above);
                    let slack = 1e-13 * exact + 1e-16;
                    assert!(
                        lower <= exact + slack && exact - slack <= upper,
                        "{x}: {lower} {exact} {upper}"
                    );
                    assert!(upper - lower <= 1e-9 * exact + 1e-12, "{x}: {lower} {exact} {upper}");
                }
            }
        }
    }

    /// The bound on what is beyond a place is above the sum, and within a factor of it in the tail.
    #[test]
    fn what_is_beyond_a_place_is_bounded() {
        let batch = Batch::new(1.0, 30);
        let law = all_sums(&batch, 12);
        let epoch = Epoch::new(batch, 12, 12);
        for exponent in [-4.0, -1.0, 0.0, 1.0, 9.0] {
            let number = epoch.number_of_power(exponent).unwrap();
            let near = epoch.law(number).unwrap();
            for (place, above) in [(330.0, true), (250.0, true), (60.0, false), (30.0, false)] {
                let is_beyond = |k: f64| if above { k >= place } else { k <= place };
                let exact: f64 = law
                    .iter()
                    .enumerate()
                    .filter(|(k, _)| is_beyond(*k as f64))
                    .map(|(k, mass)| mass * (exponent * epoch.log_ratio(k as f64)).exp())
                    .sum();
                let bound = epoch.log_beyond(exponent, place, above, &near).exp();
                assert!(bound >= exact, "{exponent} {place}: {bound} {exact}");
                assert!(bound <= 40.0 * exact, "{exponent} {place}: {bound} {exact}");
            }
        }
    }
}
