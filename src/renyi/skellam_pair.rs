//! The exact Rényi divergence of Poisson-sampled Skellam noise on whole numbers, summed over the probability mass.
//!
//! Sk(0, V) has the masses e^{−V}I_n(V), with V its variance. A step of a group of m records whose count in the
//! batch is J has the pair P = Σ_j w_j Sk(jC, V) and Q = Sk(0, V) (`docs/theory/dominating-pairs.md`). Skellam laws are log-concave, so that
//! the ratio r = P/Q grows with n.

use crate::approx::Approx;
use crate::error::{Error, Result};
use crate::loss::power_excess::PowerExcess;
use crate::renyi::divergence::{Divergence, ExactPair};
use crate::special::log_space::{LogSum, log1p_exp};
use crate::special::root::{last_descent, solve_decreasing};
use crate::step::{Direction, GroupLaw};
use crate::stopping::checkpoint;

/// Bound on the number of masses that one divergence sums, which then takes about a second.
const MAX_MASSES: f64 = 1e6;
/// Counts whose term is below e^-60 of the largest are left out of a likelihood ratio: 10⁵ of them are below its last digit.
const NEGLIGIBLE: f64 = 60.0;
/// The sum over n ends where the bound on its remainder is below e^-42 of it, 1e-18: below the rounding that is counted anyway.
const SETTLED: f64 = 42.0;
/// Masses between two evaluations of the bound on the remainder, which costs about as much as two masses.
const REMAINDER_EVERY: usize = 16;
/// Accuracy of the position of the last peak, in masses: it serves estimates of the work only.
const PEAK_ACCURACY: f64 = 0.1;
/// Masses that are computed at first: so many standard deviations, and so many more where the variance is small.
const DEVIATIONS: f64 = 12.0;
const ROOM: f64 = 60.0;
/// How many more masses are computed whenever some are missing, so that their total cost is proportional to the last number.
const GROWTH: f64 = 1.5;
/// Standard deviations beyond its peak to which a sum extends.
const TAIL_DEVIATIONS: f64 = 9.0;

/// One step of a group with Skellam noise.
#[derive(Debug)]
pub(super) struct SkellamPair {
    /// log w_j, with the count j.
    law: Vec<(f64, usize)>,
    /// w_j.
    weights: Vec<f64>,
    /// V.
    variance: f64,
    /// C.
    sensitivity: usize,
    /// log of the mass at n = 0, 1, ….
    log_masses: Vec<f64>,
    /// log r at n = 0, 1, … and at −1, −2, …, with a bound on its error, as far as they were needed.
    above: Vec<Approx>,
    below: Vec<Approx>,
}

impl SkellamPair {
    /// The pair of a law of counts, at variance V and sensitivity C.
    pub(super) fn new(law: &GroupLaw, variance: f64, sensitivity: u64) -> Self {
        let weights = law.log_weights().iter().zip(law.shifts());
        let law = weights.map(|(&weight, &count)| (weight, count as usize)).collect();
        Self::of_counts(law, variance, sensitivity)
    }

    /// The pair of a group of `count` records that is always in the batch.
    pub(super) fn of_count(count: usize, variance: f64, sensitivity: u64) -> Self {
        Self::of_counts(vec![(0.0, count)], variance, sensitivity)
    }

    /// This noise for a group of `count` records that is always in the batch.
    #[must_use]
    pub(super) fn with_count(self, count: usize) -> Self {
        Self {
            log_masses: self.log_masses,
            ..Self::of_counts(vec![(0.0, count)], self.variance, self.sensitivity as u64)
        }
    }

    fn of_counts(law: Vec<(f64, usize)>, variance: f64, sensitivity: u64) -> Self {
        Self {
            weights: law.iter().map(|(log_weight, _)| log_weight.exp()).collect(),
            law,
            variance,
            sensitivity: sensitivity as usize,
            log_masses: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
        }
    }

    /// log of a bound on the terms of one side beyond n, +∞ where none is known yet.
    ///
    /// With M = mC, the ratio of neighbouring masses R_i = I_{i+1}/I_i falls with i, and by Amos 1974
    /// −asinh((i+1)/V) ≤ log R_i ≤ −asinh((i+½)/V) for i ≥ 0. P mixes shifts of 0 to M, so that its ratio of neighbours
    /// lies between those of the ends.
    ///
    /// - r above 1 under "remove", r below 1 under "add": the term is at most Q·r^β. With i = n − M above and
    ///   i = n below, it falls from n on by e^−g or more, g = α·asinh((i+½)/V) − (α−1)·asinh((i+M+1)/V), which grows with i.
    /// - r below 1 under "remove": at most (α−1)·Q. Under "add", by r ≥ w_0, also at most Q·w_0^{1−α}.
    /// - r above 1 under "add": at most (α−1)·P.
    fn log_remainder(&mut self, side: Side, n: usize, order: f64, direction: Direction) -> f64 {
        let v = self.variance;
        let farthest = (self.largest_count() * self.sensitivity) as f64;
        let distance = side.distance(n) as f64;
        // log of 1/(e^decay − 1), what a term that falls by e^−decay leaves behind.
        let after = |decay: f64| {
            if decay > 0.0 {
                -decay - (-(-decay).exp_m1()).ln()
            } else {
                f64::INFINITY
            }
        };
        let fall = |i: f64| if i < 0.0 { 0.0 } else { ((i + 0.5) / v).asinh() };
        let steep = |i: f64| {
            if i < 0.0 {
                0.0
            } else {
                order * ((i + 0.5) / v).asinh() - (order - 1.0) * ((i + farthest + 1.0) / v).asinh()
            }
        };
        let log_ratio = self.log_ratio(side, n).value;
        let log_mass = self.log_mass(side.distance(n));
        match (side, direction) {
            (Side::Above, Direction::Remove) => log_mass + order * log_ratio + after(steep(distance - farthest)),
            (Side::Below, Direction::Remove) => (order - 1.0).ln() + log_mass + after(fall(distance)),
            (Side::Above, Direction::Add) => {
                (order - 1.0).ln() + log_mass + log_ratio + after(fall(distance - farthest))
            }
            (Side::Below, Direction::Add) => {
                let by_ratio = log_mass + (1.0 - order) * log_ratio + after(steep(distance));
                let smallest_weight = match self.law.first() {
                    Some(&(log_weight, 0)) => log_weight,
                    _ => f64::NEG_INFINITY,
                };
                by_ratio.min(log_mass + (1.0 - order) * smallest_weight + after(fall(distance)))
            }
        }
    }

    fn largest_count(&self) -> usize {
        self.law.last().map_or(0, |&(_, count)| count)
    }

    /// The n beyond which P^α Q^{1−α} falls for a shift of P, by ratios of neighbours of about e^{−asinh(n/V)}.
    fn last_peak(&self, order: f64, shift: f64) -> f64 {
        let slope =
            |n: f64| (order - 1.0) * (n / self.variance).asinh() - order * ((n - shift) / self.variance).asinh();
        let Ok(peak) = solve_decreasing(shift, order * shift + 1.0, PEAK_ACCURACY, |n| {
            Ok::<f64, std::convert::Infallible>(slope(n))
        });
        peak
    }

    /// Estimate of log Σ P^α Q^{1−α} for a shift of P: its largest term, with log masses of −V·ψ(n/V), ψ(x) = x·asinh x − √(1+x²) + 1.
    pub(crate) fn rough_log_moment(&self, order: f64, shift: f64) -> f64 {
        let v = self.variance;
        let rate = |n: f64| {
            let x = n / v;
            v * (x * x.asinh() - x * x / (1.0 + x.hypot(1.0)))
        };
        let peak = self.last_peak(order, shift);
        (order - 1.0) * rate(peak) - order * rate(peak - shift)
    }

    /// log of the mass of the noise at ±n.
    fn log_mass(&mut self, n: usize) -> f64 {
        if n >= self.log_masses.len() {
            self.extend(n);
        }
        self.log_masses[n]
    }

    /// Computes all masses up to n, and half as many more, by R_n = I_{n+1}/I_n, which backwards is stable: R_{n−1} = 1/(2n/V + R_n).
    fn extend(&mut self, n: usize) {
        let v = self.variance;
        let minimum = DEVIATIONS * v.sqrt() + ROOM;
        let wanted = (GROWTH * n as f64)
            .max(minimum)
            .max(GROWTH * self.log_masses.len() as f64);
        // An error in the first ratio shrinks by Π R² on the way.
        let start = ((wanted * wanted + ROOM * v).sqrt() + ROOM) as usize;
        let wanted = wanted as usize;
        let first = (start + 1) as f64;
        let mut ratio = v / (first + (first * first + v * v).sqrt());
        let mut ratios = vec![0.0; wanted + 1];
        for i in (1..=start).rev() {
            ratio = 1.0 / (2.0 * i as f64 / v + ratio); // R_{i − 1}
            if i - 1 <= wanted {
                ratios[i - 1] = ratio;
            }
        }
        // The masses sum to 1.
        let mut relative = Vec::with_capacity(wanted + 2);
        relative.push(0.0);
        let (mut log, mut compensation) = (0.0f64, 0.0f64);
        for ratio in &ratios {
            // Kahan's sum, as differences of the logarithms are what is used.
            let step = ratio.ln() - compensation;
            let next = log + step;
            compensation = (next - log) - step;
            log = next;
            relative.push(log);
        }
        let mass = 1.0 + 2.0 * relative[1..].iter().map(|log| log.exp()).sum::<f64>();
        let log_zero = -mass.ln();
        self.log_masses = relative.into_iter().map(|log| log + log_zero).collect();
    }

    /// log r at n of one side.
    fn log_ratio(&mut self, side: Side, n: usize) -> Approx {
        let known = match side {
            Side::Above => self.above.get(n),
            Side::Below => self.below.get(n),
        };
        if let Some(&known) = known {
            return known;
        }
        let found = self.compute_ratio(side.position(n));
        match side {
            Side::Above => self.above.push(found),
            Side::Below => self.below.push(found),
        }
        found
    }

    /// r − 1 = Σ w_j (e^{d_j} − 1) with d_j the log of P_j/Q, over the counts around the likeliest: w_j P_j is log-concave
    /// in j.
    fn compute_ratio(&mut self, n: i64) -> Approx {
        let farthest = n.unsigned_abs() as usize + self.largest_count() * self.sensitivity;
        if farthest >= self.log_masses.len() {
            self.extend(farthest);
        }
        let here = self.log_masses[n.unsigned_abs() as usize];
        let step = self.sensitivity as i64;
        let change = |count: usize| self.log_masses[(n - count as i64 * step).unsigned_abs() as usize] - here;
        let term = |i: usize| self.law[i].0 + change(self.law[i].1);
        // The likeliest count.
        let low = last_descent(&self.law, |(log_weight, count)| -(log_weight + change(*count)));
        let top = term(low);
        let counts = |i: &usize| term(*i) > top - NEGLIGIBLE;
        let window = (0..=low)
            .rev()
            .take_while(counts)
            .chain((low + 1..self.law.len()).take_while(counts));
        let near = window.clone().all(|i| change(self.law[i].1).abs() < 1.0);
        let log_ratio = if near {
            let excess: f64 = window.map(|i| self.weights[i] * change(self.law[i].1).exp_m1()).sum();
            excess.ln_1p()
        } else {
            top + window.map(|i| (term(i) - top).exp()).sum::<f64>().ln()
        };
        let size = here.abs().min(self.variance) + (self.law[low].1 * self.sensitivity) as f64;
        let error = 8.0 * f64::EPSILON * (4.0 + log_ratio.abs() + size);
        Approx::new(log_ratio, error)
    }
}

impl ExactPair for SkellamPair {
    /// As r has mean 1 under Q, E_Q\[r^β\] = 1 + E_Q\[r^β − 1 − β(r − 1)\], whose terms are all positive for β = α and β = 1 − α.
    /// The sum ends where `log_remainder`, the bound on what is left out, is below e^-42 of it; that bound is counted in `upper`, as is
    /// the rounding of every term. More than 10⁶ masses are refused.
    fn of_order(&mut self, order: f64, direction: Direction) -> Result<Divergence> {
        checkpoint();
        let exponent = direction.ratio_exponent(order);
        let farthest = (self.largest_count() * self.sensitivity) as f64;
        if farthest == 0.0 {
            return Ok(Divergence::ZERO);
        }
        let peaks = match direction {
            Direction::Remove => self.last_peak(order, farthest),
            Direction::Add => farthest,
        };
        let variance = self.variance;
        let too_many = || {
            Error::Mismatch(format!(
                "the exact divergence of Skellam noise of variance {variance:?} at order {order:?} for a shift of {farthest:?} \
                 sums more than a million masses: use the bound \"jensen\""
            ))
        };
        if peaks + farthest + TAIL_DEVIATIONS * self.variance.sqrt() > MAX_MASSES {
            return Err(too_many());
        }
        let (mut total, mut error) = (LogSum::default(), LogSum::default());
        for side in [Side::Above, Side::Below] {
            for n in 0.. {
                checkpoint();
                if n as f64 > MAX_MASSES {
                    return Err(too_many());
                }
                let log_ratio = self.log_ratio(side, n);
                let log_mass = self.log_mass(side.distance(n));
                let excess = PowerExcess::at(log_ratio.value, exponent);
                let term = log_mass + excess.log_value;
                total.add(term);
                error.add(log_mass + excess.log_slope + log_ratio.error.ln());
                // Masses are products of n ratios, each right to a few units in the last place.
                let mass_error = 4.0 * f64::EPSILON * (8.0 + n as f64 + self.variance.sqrt());
                error.add(term + mass_error.ln());
                if n % REMAINDER_EVERY == 0 {
                    let remainder = self.log_remainder(side, n, order, direction);
                    if remainder < total.ln() - SETTLED {
                        // Twice, for the rounding of the bound itself.
                        error.add(remainder + std::f64::consts::LN_2);
                        break;
                    }
                }
            }
        }
        let log_moment = log1p_exp(total.ln());
        // E[r^β] is at least 1.
        let rounding = (error.ln() - log_moment).exp() + 1e-13 * log_moment;
        Ok(Divergence {
            value: log_moment / (order - 1.0),
            upper: (log_moment + rounding) / (order - 1.0) * (1.0 + 4.0 * f64::EPSILON),
        })
    }
}

/// The half-lines that a sum over the whole numbers is split into.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// n = 0, 1, ….
    Above,
    /// n = −1, −2, ….
    Below,
}

impl Side {
    fn position(self, n: usize) -> i64 {
        match self {
            Self::Above => n as i64,
            Self::Below => -(n as i64) - 1,
        }
    }

    fn distance(self, n: usize) -> usize {
        self.position(n).unsigned_abs() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I_n(x)e^{−x} by its series.
    fn mass(n: u64, x: f64) -> f64 {
        let mut term = (-x + n as f64 * (0.5 * x).ln() - (1..=n).map(|i| (i as f64).ln()).sum::<f64>()).exp();
        let mut sum = 0.0;
        for k in 1..400u32 {
            sum += term;
            term *= 0.25 * x * x / (f64::from(k) * (f64::from(k) + n as f64));
        }
        sum
    }

    #[test]
    fn masses_are_those_of_the_series() {
        for variance in [0.3, 4.0, 37.0] {
            let mut pair = SkellamPair::new(&GroupLaw::binomial(1, 0.5).unwrap(), variance, 1);
            for n in [0u64, 1, 2, 7, 25] {
                let expected = mass(n, variance).ln();
                let found = pair.log_mass(n as usize);
                assert!(
                    (found - expected).abs() < 1e-12 * (1.0 + expected.abs()),
                    "{variance} {n}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn the_divergence_is_the_sum_of_its_definition() {
        for (records, rate, variance, sensitivity) in [(3, 0.2, 9.0, 1u64), (2, 0.5, 6.0, 2), (5, 0.01, 40.0, 1)] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            let mut pair = SkellamPair::new(&law, variance, sensitivity);
            let sampled = |n: i64| -> f64 {
                let parts = law.log_weights().iter().zip(law.shifts());
                parts
                    .map(|(w, j)| w.exp() * mass((n - *j as i64 * sensitivity as i64).unsigned_abs(), variance))
                    .sum()
            };
            for order in [1.5, 2.0, 4.0, 7.5] {
                for direction in [Direction::Remove, Direction::Add] {
                    let sum: f64 = (-90i64..160)
                        .map(|n| {
                            let (p, q) = (sampled(n), mass(n.unsigned_abs(), variance));
                            match direction {
                                Direction::Remove => p.powf(order) * q.powf(1.0 - order),
                                Direction::Add => q.powf(order) * p.powf(1.0 - order),
                            }
                        })
                        .filter(|term| term.is_finite())
                        .sum();
                    let expected = sum.ln() / (order - 1.0);
                    let found = pair.of_order(order, direction).unwrap();
                    assert!(
                        (found.value / expected - 1.0).abs() < 1e-9 && found.upper >= found.value,
                        "{records} {rate} {variance} {order} {direction:?}: {found:?} {expected}"
                    );
                    assert!(found.upper < found.value * (1.0 + 1e-9));
                }
            }
        }
    }

    #[test]
    fn much_variance_is_a_gaussian() {
        let law = GroupLaw::binomial(4, 0.1).unwrap();
        let mut gaussian = crate::renyi::gaussian_pair::GaussianPair::new(law.clone(), 100.0).unwrap();
        let mut skellam = SkellamPair::new(&law, 1e4, 1);
        for direction in [Direction::Remove, Direction::Add] {
            let (a, b) = (
                gaussian.of_order(4.0, direction).value,
                skellam.of_order(4.0, direction).unwrap().value,
            );
            assert!((a / b - 1.0).abs() < 1e-3, "{a} {b}");
        }
    }
}
