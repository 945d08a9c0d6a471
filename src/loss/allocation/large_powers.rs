//! Upper bounds on log E[W^w] at real w ≥ 1, however large: the exponents of Rényi divergences of large orders.
//!
//! The integral of [`mellin`](super::mellin) ends at the exponents that δ needs. E[W^n] of whole n has a closed form, n!/t^n times the
//! coefficient of x^n in Π_i Σ_k E[Y_i^k]·x^k/k!, of which all terms are positive; and log E[W^w] is convex in w, so that it is below the
//! chord between whole exponents.
//!
//! From some exponent on a few terms are nearly all of the coefficient: those in which one Y has more than half of the exponent. Let
//! S = Σ Y_i. As no two Y can have more than half of it,
//!
//! E[S^n] ≤ Σ_i Σ_{j < n/2} C(n, j)·E[Y_i^{n−j}]·E[S^j] + t^n·max,
//!
//! where the last term is that of all products in which no Y has more than n/2, each of which is at most max = e^{v·n(n/2 − 1)/2} for the
//! largest v. E[S^j] in turn is the closed form for small j, and at most t^j·e^{v·j(j − 1)/2} for others.

use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::series::{Coefficient, power, product};
use crate::special::log_space::{LogSum, log_add};
use std::ops::{Add, Mul};

/// Largest whole exponent that is a coefficient of a series: 80 ms, and 250 ms for a thousand batches. Twice as large a one would take four
/// times as long.
const LARGEST_SERIES: usize = 1024;
/// Largest exponent of the sum of all Y beside a dominating one for which the closed form is used.
const LARGEST_REST: usize = 32;
/// Largest exponent whose terms are added up one by one; one of 10⁴ takes 1.4 ms, and the time grows with the exponent.
const LARGEST: f64 = 1e5;
/// Rounding errors of a coefficient in units of the last place, for each of the n² operations that it is made of at most: n sums of n
/// terms in Miller's recurrence, or squarings, which double the error before them and are fewer than n in all.
const ROUNDINGS: f64 = 4.0;

/// log E[W^n] at whole n, of one law.
#[derive(Debug, Clone, Default)]
pub(super) struct LargePowers {
    /// log E[S^k] for k ≤ 2^i, at place i. The numbers of a place do not depend on the other places.
    octaves: Vec<Option<Vec<f64>>>,
}

impl LargePowers {
    /// An upper bound on log E[W^w], w ≥ 1; infinite beyond what is computed.
    pub(super) fn log_above(&mut self, bins: &Bins, w: f64) -> f64 {
        if w > LARGEST {
            return f64::INFINITY;
        }
        let low = w.floor();
        let at_low = self.log_whole_above(bins, low);
        if w == low {
            return at_low;
        }
        let at_high = self.log_whole_above(bins, low + 1.0);
        let chord = at_low + (w - low) * (at_high - at_low);
        chord + 4.0 * f64::EPSILON * (at_low.abs() + at_high.abs())
    }

    /// An upper bound on log E[W^n] of a whole n ≥ 1.
    fn log_whole_above(&mut self, bins: &Bins, n: f64) -> f64 {
        let log_sum = if n <= LARGEST_SERIES as f64 {
            self.log_of_sum(bins, n as usize)
        } else {
            self.log_dominated(bins, n)
        };
        let log_total = n * bins.total.ln();
        log_sum - log_total + 4.0 * f64::EPSILON * log_total
    }

    /// An upper bound on log E[S^n] by the closed form.
    fn log_of_sum(&mut self, bins: &Bins, n: usize) -> f64 {
        let octave = n.next_power_of_two().ilog2() as usize;
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, None);
        }
        let known = self.octaves[octave].get_or_insert_with(|| log_moments(bins, 1 << octave));
        known[n]
    }

    /// An upper bound on log E[S^n], close to it where one Y dominates.
    fn log_dominated(&mut self, bins: &Bins, n: f64) -> f64 {
        let widest = bins.widest();
        // Batches that are not released have Y = 1.
        let still = (bins.still * bins.total, 0.0);
        let released = bins.parts.iter().map(|part| (part.count, part.variance));
        let batches: Vec<_> = released.chain((still.0 > 0.0).then_some(still)).collect();
        let (mut sum, mut log_binomial) = (LogSum::default(), 0.0);
        let mut j = 0.0;
        while 2.0 * j < n {
            let rest = if j <= LARGEST_REST as f64 {
                self.log_of_sum(bins, j as usize)
            } else {
                j * bins.total.ln() + 0.5 * widest * j * (j - 1.0)
            };
            for (count, variance) in &batches {
                let left = n - j;
                sum.add(log_binomial + count.ln() + 0.5 * variance * left * (left - 1.0) + rest);
            }
            log_binomial += ((n - j) / (j + 1.0)).ln();
            j += 1.0;
        }
        sum.add(n * bins.total.ln() + 0.25 * widest * n * (n - 2.0));
        // Of exponents, of the sum of n terms, and of the binomial coefficients, which are at most 2^n and products of n ratios.
        let log = sum.ln();
        log + f64::EPSILON * (8.0 * log.abs() + 4.0 * n + n * n)
    }
}

/// A positive number as its logarithm, as a coefficient of a series.
#[derive(Debug, Clone, Copy)]
struct Positive(f64);

impl From<f64> for Positive {
    fn from(value: f64) -> Self {
        Self(value.ln())
    }
}

impl Add for Positive {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(log_add(self.0, other.0))
    }
}

impl Mul for Positive {
    type Output = Self;

    #[expect(clippy::suspicious_arithmetic_impl, reason = "the logarithm of a product is a sum")]
    fn mul(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Mul<f64> for Positive {
    type Output = Self;

    #[expect(clippy::suspicious_arithmetic_impl, reason = "the logarithm of a product is a sum")]
    fn mul(self, factor: f64) -> Self {
        Self(self.0 + factor.ln())
    }
}

impl Coefficient for Positive {}

/// Upper bounds on log E[S^k] for k = 0, …, n.
fn log_moments(bins: &Bins, n: usize) -> Vec<f64> {
    let mut log_factorials = vec![0.0];
    for k in 1..=n {
        log_factorials.push(log_factorials[k - 1] + (k as f64).ln());
    }
    // Batches that are not released have the series e^{count·x}.
    let still = bins.still * bins.total;
    let term = |(k, log_factorial): (usize, &f64)| {
        Positive(if k == 0 { 0.0 } else { k as f64 * still.ln() } - log_factorial)
    };
    let mut whole: Vec<Positive> = log_factorials.iter().enumerate().map(term).collect();
    for part in &bins.parts {
        let log_moment = |k: usize| 0.5 * part.variance * (k as f64) * (k as f64 - 1.0);
        let series: Vec<Positive> = (0..=n).map(|k| Positive(log_moment(k) - log_factorials[k])).collect();
        whole = product(&whole, &power(&series, part.count));
    }
    // No logarithm in between is larger than the sum of these two, because E[S^k] grows with k.
    let error = |k: usize, log: f64| {
        ROUNDINGS * (1.0 + bins.parts.len() as f64) * (1.0 + k as f64).powi(2) * (1.0 + log + log_factorials[k])
    };
    let logs = whole
        .iter()
        .zip(&log_factorials)
        .map(|(coefficient, log_factorial)| coefficient.0 + log_factorial);
    logs.enumerate()
        .map(|(k, log)| log + f64::EPSILON * error(k, log))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::mellin::Mellin;

    /// log E[S^n] of `variances.len()` batches, one by one over all ways to give n factors to them.
    fn enumerated(variances: &[f64], n: usize) -> f64 {
        let batches = variances.len();
        let mut sum = LogSum::default();
        for code in 0..batches.pow(n as u32) {
            let mut powers = vec![0.0; batches];
            let mut rest = code;
            for _ in 0..n {
                powers[rest % batches] += 1.0;
                rest /= batches;
            }
            let log = |(v, k): (&f64, &f64)| 0.5 * v * k * (k - 1.0);
            sum.add(variances.iter().zip(&powers).map(log).sum());
        }
        sum.ln()
    }

    #[test]
    fn whole_powers_are_those_of_enumeration() {
        for (batches, variances) in [
            (vec![(3, 0.5)], vec![0.5; 3]),
            (vec![(2, 0.3), (1, 1.5)], vec![0.3, 0.3, 1.5]),
            (vec![(2, 0.8), (2, 0.0)], vec![0.8, 0.8, 0.0, 0.0]),
        ] {
            let bins = Bins::new(&batches).unwrap();
            let mut powers = LargePowers::default();
            for n in 1..=7 {
                let exact = enumerated(&variances, n);
                let found = powers.log_of_sum(&bins, n);
                assert!(
                    found >= exact && found < exact + 1e-11,
                    "{batches:?} {n}: {found} {exact}"
                );
                let scaled = powers.log_above(&bins, n as f64) + n as f64 * bins.total.ln();
                assert!(scaled >= exact - 1e-14 && scaled < exact + 1e-11, "{batches:?} {n}");
            }
        }
    }

    /// Both ways to bound a power, where one batch dominates: no more than a thousandth apart, so that neither could be halved. Where none
    /// does, the second is above.
    #[test]
    fn a_dominating_batch_is_nearly_all_of_a_large_power() {
        for (batches, n) in [
            (vec![(10, 0.25)], 120.0),
            (vec![(100, 1.0)], 50.0),
            (vec![(7, 0.5), (3, 0.0)], 60.0),
            (vec![(5, 0.5), (4, 0.6)], 80.0),
            (vec![(1000, 0.04)], 1000.0),
        ] {
            let bins = Bins::new(&batches).unwrap();
            let mut powers = LargePowers::default();
            let series = powers.log_of_sum(&bins, n as usize);
            let dominated = powers.log_dominated(&bins, n);
            // The series is a bound too, with room for the rounding of n² terms.
            let room = f64::EPSILON * 20.0 * n * n * series;
            assert!(dominated > series - room, "{batches:?}: {dominated} {series}");
            assert!(dominated < series + 1e-3, "{batches:?}: {dominated} {series}");
        }
        for (batches, n) in [(2, 4usize), (2, 6), (3, 6)] {
            let bins = Bins::new(&[(batches, 0.5)]).unwrap();
            let exact = enumerated(&vec![0.5; batches as usize], n);
            let found = LargePowers::default().log_dominated(&bins, n as f64);
            assert!(found > exact && found < exact + 1.4, "{batches} {n}: {found} {exact}");
        }
    }

    /// Products in which no batch has more than half of the power: of two batches with the power 2 there is one, and the term for them is
    /// twice as large as these two products.
    #[test]
    fn what_nobody_dominates_is_counted() {
        let bins = Bins::new(&[(2, 1e-9)]).unwrap();
        let mut powers = LargePowers::default();
        // j = 0 alone: 2·E[Y²] = 2, and E[S²] = 4.
        let found = powers.log_dominated(&bins, 2.0).exp();
        assert!((found - 6.0).abs() < 1e-6, "{found}");
    }

    #[test]
    fn powers_between_whole_ones_are_below_the_chord() {
        let bins = Bins::new(&[(10, 0.25)]).unwrap();
        let mut mellin = Mellin::new(bins.clone());
        let mut powers = LargePowers::default();
        for w in [2.5, 4.25, 7.75, 9.0] {
            let exact = mellin.real(w).unwrap();
            let found = powers.log_above(&bins, w);
            assert!(found > exact.log - exact.error, "{w}: {found} {exact:?}");
            assert!(found < exact.log + exact.error + 0.01, "{w}: {found} {exact:?}");
        }
        assert_eq!(powers.log_above(&bins, 2e5), f64::INFINITY);
    }
}
