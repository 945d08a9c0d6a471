//! The likelihood ratio W' of an epoch on its lattice, and δ of one epoch.
//!
//! δ(ε) of one epoch is E_Q[(W' − e^ε)₊] if the record is removed and E_Q[(1 − e^ε·W')₊] if it is added: sums over the lattice. They are computed from
//! the distribution under an exponential tilt, so that errors are relative to δ however small it is. The lattice is cut to a window; Chernoff's
//! inequality bounds what is outside it.

use super::batch::Batch;
use super::sum::{PlaceSum, TiltedLaw};
use crate::interval::Interval;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Distance of two tilts whose laws are computed, in reciprocals of the standard deviation of the sum.
const TILT_STEP: f64 = 2.0;
/// Largest number of a tilt: 80 standard deviations from the mean.
const MAX_TILT: i64 = 40;
/// Tilts that are tried for a bound on what is beyond a place.
const SADDLES: i32 = 6;
/// Terms whose exponentials follow from one of them by multiplication.
const BLOCK: usize = 64;
/// Rounding of a sum of positive terms and of its exponentials, relative.
const SUM_ERROR: f64 = 2e-12;

/// W' = 1 + (Σ (Y'_i − 1))/t over the batches of an epoch of t that were released.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) sum: PlaceSum,
    /// t.
    total: f64,
    /// Standard deviation of the sum of places.
    deviation: f64,
    /// The laws that were computed, by the numbers of their tilts. None depends on what was asked before.
    laws: Mutex<BTreeMap<i64, Arc<TiltedLaw>>>,
}

impl Epoch {
    /// The epoch of `total` batches of which `released` are.
    pub(super) fn new(batch: Batch, released: u64, total: u64) -> Self {
        let sum = PlaceSum {
            batch,
            count: released as f64,
        };
        Self {
            total: total as f64,
            deviation: sum.moments(0.0).variance.sqrt().max(f64::MIN_POSITIVE),
            sum,
            laws: Mutex::default(),
        }
    }

    /// W' − 1 at a place.
    pub(super) fn excess(&self, place: f64) -> f64 {
        (self.sum.count * self.sum.batch.lowest + self.sum.batch.width * place) / self.total
    }

    /// The place at which W' − 1 is `excess`, a real number.
    fn place(&self, excess: f64) -> f64 {
        (excess * self.total - self.sum.count * self.sum.batch.lowest) / self.sum.batch.width
    }

    /// log W' at a place.
    pub(super) fn log_ratio(&self, place: f64) -> f64 {
        self.excess(place).ln_1p()
    }

    /// W' of two neighbouring places differs by this.
    pub(super) fn step(&self) -> f64 {
        self.sum.batch.width / self.total
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
            let ratio = 1.0 + self.excess(self.sum.moments(tilt).mean);
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
            exponent * self.step() / (1.0 + self.excess(place))
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
            let rounding = 16.0 * f64::EPSILON * ((tilt * place).abs() + exponent.abs());
            exponent * here + self.sum.log_moment_bound(tilt) - tilt * place + rounding
        };
        (0..SADDLES).map(bound).fold(f64::INFINITY, f64::min)
    }

    /// log E_Q[(W' − 1 − x)₊], certified.
    pub(super) fn log_above(&self, x: f64) -> Interval {
        self.side(x, true)
    }

    /// log E_Q[(1 + x − W')₊], certified.
    pub(super) fn log_below(&self, x: f64) -> Interval {
        self.side(x, false)
    }

    /// One of both. Their difference is −x, as E_Q[W'] = 1, so that the smaller one is computed.
    fn side(&self, x: f64, above: bool) -> Interval {
        let place = self.place(x);
        let is_out = if above { place >= self.sum.top() } else { place <= 0.0 };
        if is_out && x.abs() > 64.0 * f64::EPSILON {
            return Interval::exact(f64::NEG_INFINITY);
        }
        if above != (x >= 0.0) {
            let other = self.side(x, !above);
            let add = |log: f64| (x.abs() + log.exp()).ln();
            let slack = 8.0 * f64::EPSILON;
            return Interval {
                lower: add(other.lower) - slack,
                upper: add(other.upper) + slack,
            };
        }
        let Some(law) = self.law(self.tilt_at(place)) else {
            // W' is at most e^{1/b}, and E_Q[(1 + x − W')₊] at most 1 + x.
            return Interval {
                lower: f64::NEG_INFINITY,
                upper: x.max(0.0).ln_1p(),
            };
        };
        self.smaller_side(x, place, above, &law)
    }

    fn smaller_side(&self, x: f64, place: f64, above: bool, law: &TiltedLaw) -> Interval {
        let last = law.first + (law.masses.len() - 1) as f64;
        let (value, farthest) = law.distances(place, above);
        // The largest of u·e^{∓θu} over these distances.
        let rate = if above { law.tilt } else { -law.tilt };
        let largest = if rate * farthest > 1.0 {
            1.0 / (std::f64::consts::E * rate)
        } else {
            farthest * (-rate * farthest).exp()
        };
        let log_scale = law.log_scale - law.tilt * place + self.step().ln();
        let error = law.error * largest;
        let terms = (BLOCK + law.masses.len() / BLOCK) as f64;
        let slack = law.relative_error
            + SUM_ERROR
            + f64::EPSILON * (terms + 8.0 * (law.log_scale.abs() + (law.tilt * place).abs()));
        // What counts outside the window: at most W' above, at most 1 + x below.
        let (power, log_size) = if above { (1.0, 0.0) } else { (0.0, x.ln_1p()) };
        let outer = |place: f64, above: bool| log_size + self.log_beyond(power, place, above, law);
        let mut outside = outer(if above { last + 1.0 } else { law.first - 1.0 }, above).exp();
        if (above && place < law.first) || (!above && place > last) {
            outside += outer(if above { law.first - 1.0 } else { last + 1.0 }, !above).exp();
        }
        let log = |value: f64| {
            if value > 0.0 {
                value.ln() + log_scale
            } else {
                f64::NEG_INFINITY
            }
        };
        let direct = log((value + error) * (1.0 + slack));
        let upper = if outside == 0.0 {
            direct
        } else {
            (direct.exp() + outside).ln().max(direct)
        };
        Interval {
            lower: log((value - error) * (1.0 - slack)).min(upper),
            upper,
        }
    }
}

impl TiltedLaw {
    /// Σ v·u·e^{∓θu} over the masses v at the distances u ≥ 0 above, or below, a place, and a bound on these distances.
    fn distances(&self, place: f64, above: bool) -> (f64, f64) {
        let last = self.first + (self.masses.len() - 1) as f64;
        let (sign, nearest) = if above {
            (1.0, place.ceil().max(self.first))
        } else {
            (-1.0, place.floor().min(last))
        };
        let number = if above { last - nearest } else { nearest - self.first };
        if number < 0.0 {
            return (0.0, 0.0);
        }
        let fall = (-sign * self.tilt).exp();
        let (terms, distance) = (number as usize + 1, (nearest - place).abs());
        let mut value = 0.0;
        for next in (0..terms).step_by(BLOCK) {
            let start = distance + next as f64;
            let (mut factor, mut part) = ((-sign * self.tilt * start).exp(), 0.0);
            for i in 0..BLOCK.min(terms - next) {
                let at = nearest + sign * (next + i) as f64;
                part += self.masses[(at - self.first) as usize] * factor * (start + i as f64);
                factor *= fall;
            }
            value += part;
        }
        (value, distance + number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places and probabilities of all sums of so few batches.
    fn all_sums(batch: &Batch, count: u64) -> Vec<f64> {
        let mut law = vec![1.0];
        for _ in 0..count {
            let mut next = vec![0.0; law.len() + batch.top()];
            for (i, p) in law.iter().enumerate() {
                for (j, q) in batch.masses.iter().enumerate() {
                    next[i + j] += p * q;
                }
            }
            law = next;
        }
        law
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
                for (found, exact) in [(epoch.log_above(x), above), (epoch.log_below(x), below)] {
                    let (lower, upper) = (found.lower.exp(), found.upper.exp());
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
