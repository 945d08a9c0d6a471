//! M(z) = E_Q[W^z] by the binomial series in X = W − 1, for runs in which W is close to 1.
//!
//! M(z) = Σ_{k<K} C(z, k)·E[X^k] up to a remainder of at most |C(z, K)|·E[|X|^K·max(1, W^{Re z − K})]. All central moments are positive and follow from
//! positive recursions, so that M − 1 is known to some roundings of itself. An integral ([`mellin`](super::mellin)) knows it to some
//! roundings of 1, which many epochs multiply, and takes a hundred nodes where the series takes ten terms.
//! The proof is in `docs/theory/random-allocation.md` (Proposition 17).

use crate::approx::Approx;
use crate::loss::allocation::bins::Bins;
use crate::special::log_space::log_add;
use crate::special::normal::log_upper_tail;
use realfft::num_complex::Complex64;

/// Largest order of a moment.
const LARGEST_ORDER: usize = 64;
/// Orders K at which the series may end.
const ENDS: [usize; 12] = [4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40];
/// A remainder below this part of the terms is as small as their roundings.
const NEGLIGIBLE: f64 = 1e-16;
/// Errors of a moment up to which the series is used: those of an integral are larger.
const ACCURATE: f64 = 2e-14;
/// Places at which the expectation in the remainder may be split, in standard deviations.
const SPLITS: [f64; 8] = [3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 40.0];
/// Falls over the variance below which Bernstein's inequality stands for Bennett's.
const SMALL_FALL: f64 = 1e-3;
/// Falls of W that are looked at, in standard deviations, how many, and the largest one: W would be 0 at 1.
const FALL_STEP: f64 = 0.5;
const MOST_FALLS: usize = 40;
const LARGEST_FALL: f64 = 0.9;
/// Relative size of the remainder in derivatives, which only serve choices.
const KNOWN: f64 = 1e-3;
/// Standard deviations over 1/|z| beyond which no series is tried: terms would cancel.
const MOST_SPREAD: f64 = 8.0;

/// E[X^k] for one law of W.
#[derive(Debug)]
pub(crate) struct CentralMoments {
    bins: Bins,
    /// The standard deviation of X.
    unit: f64,
    /// E[(X/unit)^k]/k!, with bounds on their errors, as far as they are in the range of numbers.
    moments: Vec<Approx>,
    /// Upper bounds on the logarithms of those of even k.
    log_moments: Vec<f64>,
    /// log k!
    log_factorials: Vec<f64>,
    /// Falls of W below 1, ascending.
    falls: Vec<Fall>,
}

/// W < 1 − x.
#[derive(Debug, Clone, Copy)]
struct Fall {
    /// x, the logarithms of x over the standard deviation and of 1 − x, and log of a bound on the probability.
    x: f64,
    log_deviations: f64,
    log_rest: f64,
    log_probability: f64,
}

/// An exponent of W, which is a whole number plus a number that is not rounded: next to z = 1, M − 1 is in proportion to z − 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Power {
    pub(crate) whole: f64,
    pub(crate) rest: f64,
}

impl Power {
    /// The exponent, rounded.
    pub(crate) fn value(self) -> f64 {
        self.whole + self.rest
    }

    /// The exponent plus iy, less k.
    fn less(self, k: f64, y: f64) -> Complex64 {
        Complex64::new(self.rest + (self.whole - k), y)
    }
}

/// The series at one exponent, and on the line above it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BinomialSeries {
    /// Re z.
    pub(crate) power: Power,
    /// K.
    pub(crate) terms: usize,
    /// A bound on E[|X/unit|^K·max(1, W^{w − K})]/K!
    remainder: f64,
    /// M(w) − 1.
    change: Approx,
    /// d log M/dw and its derivative.
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

impl CentralMoments {
    pub(crate) fn new(bins: &Bins) -> Self {
        let total = bins.total;
        let square: f64 = bins.parts.iter().map(|part| part.count * part.variance.exp_m1()).sum();
        let unit = square.sqrt() / total;
        // κ_k/((k − 1)!·unit^k) for the cumulants κ_k of X, with bounds on their errors.
        let mut cumulants = vec![Approx::exact(0.0); LARGEST_ORDER + 1];
        for part in &bins.parts {
            let of_one = scaled_cumulants(part.variance, total, unit);
            for (sum, one) in cumulants.iter_mut().zip(of_one).skip(2) {
                *sum += one.times(part.count / total);
            }
        }
        let mut moments = vec![Approx::exact(1.0), Approx::exact(0.0)];
        for n in 2..=LARGEST_ORDER {
            let mut sum = Approx::exact(0.0);
            for j in 2..=n {
                sum += product(cumulants[j], moments[n - j]);
            }
            let value = sum.value / n as f64;
            let error = sum.error / n as f64 + value * f64::EPSILON * (n as f64 + 2.0);
            if !(value.is_finite() && error.is_finite()) {
                break;
            }
            moments.push(Approx::new(value, error));
        }
        let mut log_factorials = vec![0.0];
        for k in 1..=LARGEST_ORDER {
            log_factorials.push(log_factorials[k - 1] + (k as f64).ln());
        }
        let mut found = Self {
            bins: bins.clone(),
            unit,
            falls: Vec::new(),
            log_moments: moments.iter().map(|moment| moment.upper().ln()).collect(),
            moments,
            log_factorials,
        };
        let fall = |deviations: f64| Fall {
            x: deviations * unit,
            log_deviations: deviations.ln(),
            log_rest: (-deviations * unit).ln_1p(),
            log_probability: found.log_probability_below(deviations * unit),
        };
        let places = (1..=MOST_FALLS).map(|k| FALL_STEP * k as f64);
        found.falls = places
            .filter(|deviations| deviations * unit < LARGEST_FALL)
            .map(fall)
            .collect();
        found
    }

    /// The series at an exponent that is accurate up to |Im z| = `reach`; `None` if there is none.
    pub(crate) fn series(&self, power: Power, reach: f64) -> Option<BinomialSeries> {
        if power.less(0.0, reach).norm() * self.unit > MOST_SPREAD {
            return None;
        }
        let mut best: Option<(BinomialSeries, f64)> = None;
        for terms in ENDS {
            if terms >= self.moments.len() {
                break;
            }
            let series = BinomialSeries {
                power,
                terms,
                remainder: self.log_remainder(terms, power.value()).exp(),
                change: Approx::exact(0.0),
                mean: 0.0,
                variance: 0.0,
            };
            let (sum, size) = self.sum(reach, &series);
            if sum.error.is_finite() && best.as_ref().is_none_or(|(_, error)| sum.error < *error) {
                best = Some((series, sum.error));
            }
            if sum.error < NEGLIGIBLE * size {
                break;
            }
        }
        let (series, error) = best?;
        (error <= ACCURATE).then(|| self.with_derivatives(series)).flatten()
    }

    /// The series with M(w) and what follows from it.
    fn with_derivatives(&self, series: BinomialSeries) -> Option<BinomialSeries> {
        let (change, _) = self.sum(0.0, &series);
        let factor = |k: usize| series.power.less(k as f64 - 1.0, 0.0).re * self.unit;
        // C(w, k)·k!·unit^k with its derivatives.
        let (mut value, mut first, mut second) = (factor(1), self.unit, 0.0);
        let (mut mean, mut square) = (0.0, 0.0);
        for k in 2..series.terms {
            let factor = factor(k);
            second = second * factor + 2.0 * first * self.unit;
            first = first * factor + value * self.unit;
            value *= factor;
            mean += first * self.moments[k].value;
            square += second * self.moments[k].value;
        }
        // The remainder has derivatives too, which count where w is next to 0 or 1.
        let last = factor(series.terms);
        let of_mean = (first * last + value * self.unit) * series.remainder;
        let of_square = (second * last + 2.0 * first * self.unit) * series.remainder;
        let is_known = of_mean.abs() < KNOWN * mean.abs() && of_square.abs() < KNOWN * square.abs();
        let whole = 1.0 + change.value.re;
        (is_known && whole > 0.5 && change.error < 0.1).then(|| BinomialSeries {
            change: Approx::new(change.value.re, change.error),
            mean: mean / whole,
            variance: square / whole - (mean / whole).powi(2),
            ..series
        })
    }

    /// M(w + iy) − 1 with a bound on its error, and the sum of the moduli of its terms.
    fn sum(&self, y: f64, series: &BinomialSeries) -> (Approx<Complex64>, f64) {
        let at = |k: usize| series.power.less(k as f64 - 1.0, y) * self.unit;
        let mut factor = at(1);
        let (mut sum, mut error, mut size) = (Complex64::default(), 0.0, 0.0);
        for k in 2..series.terms {
            factor *= at(k);
            let Approx { value, error: own } = self.moments[k];
            let modulus = factor.norm();
            sum += factor * value;
            // Four roundings of a complex product and two of its factors, for each of them.
            error += modulus * (own + value * f64::EPSILON * 6.0 * (k as f64 + 1.0));
            size += modulus * value;
        }
        let next = (factor * at(series.terms)).norm();
        let additions = 0.5 * series.terms as f64 * f64::EPSILON * size;
        (
            Approx::new(sum, error + additions + 1.01 * next * series.remainder),
            size,
        )
    }

    /// M(w + iy)/M(w) − 1.
    pub(crate) fn change(&self, series: &BinomialSeries, y: f64) -> Approx<Complex64> {
        let (at, _) = self.sum(y, series);
        let whole = 1.0 + series.change.value;
        let value = (at.value - series.change.value) / whole;
        let error = (at.error + series.change.error * (1.0 + value.norm())) / (whole - series.change.error);
        Approx::new(value, 1.01 * error + 2.0 * f64::EPSILON * value.norm())
    }

    /// log of a bound on E[|X/unit|^K·max(1, W^{w − K})]/K! for even K.
    fn log_remainder(&self, terms: usize, w: f64) -> f64 {
        let excess = w - terms as f64;
        if excess > 0.0 {
            self.log_remainder_above(terms, excess)
        } else if excess < 0.0 {
            self.log_remainder_below(terms, -excess)
        } else {
            self.log_moments[terms]
        }
    }

    /// log of a bound on E[|X/unit|^K·max(1, W^e)]/K! for e = w − K > 0.
    ///
    /// The power W^e matters where X > 0. The expectation is split at some x: where X ≤ x, the power is at most (1 + x)^e, and where X > x, the inequality of
    /// Cauchy and Schwarz separates it from |X|^K. The best of several x counts.
    fn log_remainder_above(&self, terms: usize, exponent: f64) -> f64 {
        let at = |deviations: &f64| {
            let within = self.log_moments[terms] + exponent * (deviations * self.unit).ln_1p();
            log_add(within, self.log_beyond(terms, exponent, *deviations)) + 1e-9
        };
        SPLITS.iter().map(at).fold(f64::INFINITY, f64::min)
    }

    /// log of a bound on E[|X/unit|^K·max(1, W^−e)]/K! for e = K − w > 0.
    ///
    /// The power W^−e matters where W < 1. Where W ≥ 1 − x₁ for the first of some falls x₁ < x₂ < …, the power is at most (1 − x₁)^−e. Between two falls
    /// |X|^K·W^−e is at most its value at the larger fall, times the probability of the smaller one. The best first fall counts.
    fn log_remainder_below(&self, terms: usize, exponent: f64) -> f64 {
        let Some(last) = self.falls.last() else {
            return f64::INFINITY;
        };
        let plain = self.log_moments[terms];
        let mut lower = self.log_below(terms, exponent, last.x);
        let mut best = log_add(plain - exponent * last.log_rest, lower);
        for pair in self.falls.windows(2).rev() {
            let [upper_end, lower_end] = pair else { break };
            let largest = terms as f64 * lower_end.log_deviations - self.log_factorials[terms];
            lower = log_add(
                lower,
                largest - exponent * lower_end.log_rest + upper_end.log_probability,
            );
            best = best.min(log_add(plain - exponent * upper_end.log_rest, lower));
        }
        best + 1e-9
    }

    /// log of a bound on E[(X/unit)^K·W^e; X > x]/K! for x = `deviations`·unit: for every even L ≥ 2K it is at most the root of
    /// (x/unit)^{2K − L}·E[(X/unit)^L]·E[W^{2e}].
    fn log_beyond(&self, terms: usize, exponent: f64, deviations: f64) -> f64 {
        let log_deviations = deviations.ln();
        let tail = |order: usize| {
            let steeper = (order - 2 * terms) as f64 * log_deviations;
            self.log_moments[order] + self.log_factorials[order] - steeper
        };
        let orders = (2 * terms..self.moments.len()).step_by(2);
        let tail = orders.map(tail).fold(f64::INFINITY, f64::min);
        0.5 * (tail + self.log_power(2.0 * exponent)) - self.log_factorials[terms]
    }

    /// log of a bound on P(X < −x), x ≥ 0.
    ///
    /// By Bennett's inequality, as no 1 − Y is above 1: with V = Σ Var Y it is at most e^{−V·h(xt/V)}, h(u) = (1 + u)·log(1 + u) − u. And W is at least the
    /// geometric mean of all Y.
    fn log_probability_below(&self, x: f64) -> f64 {
        let variance = (self.unit * self.bins.total).powi(2);
        let u = x * self.bins.total / variance;
        // h(u) ≥ u²/(2 + 2u/3), which has no terms that cancel.
        let h = if u < SMALL_FALL {
            u * u / (2.0 + 2.0 * u / 3.0)
        } else {
            (1.0 + u) * u.ln_1p() - u
        };
        (-variance * h * (1.0 - 1e-9)).min(self.log_mean_below(0.0, x))
    }

    /// log of a bound on E[G^−e; G < 1 − x] for the geometric mean G of all Y, whose logarithm is N(−v/2, v/t) with the mean v of all v_i.
    fn log_mean_below(&self, exponent: f64, x: f64) -> f64 {
        let v = self.bins.mean_variance();
        let terms = [(-x).ln_1p(), 0.5 * v, exponent * v / self.bins.total];
        let size: f64 = terms.iter().map(|term| term.abs()).sum();
        let distance = -terms.iter().sum::<f64>() - 4.0 * f64::EPSILON * size;
        self.bins.log_negative_moment(exponent) + log_upper_tail(distance / (v / self.bins.total).sqrt()) + 1e-9
    }

    /// log of a bound on E[|X/unit|^K·W^−e; X < −x]/K!, where |X| is below 1: by the inequality of Cauchy and Schwarz, and by the geometric mean of all Y.
    fn log_below(&self, terms: usize, exponent: f64, x: f64) -> f64 {
        let log_power = self.bins.log_negative_moment(2.0 * exponent);
        let by_probability = 0.5 * (self.log_probability_below(x) + log_power);
        let of_whole = by_probability.min(self.log_mean_below(exponent, x));
        of_whole - terms as f64 * self.unit.ln() - self.log_factorials[terms]
    }

    /// log of a bound on E[W^p], p > 0: that of a whole n ≥ p is at most Π_{j<n} (1 + (e^{jv} − 1)/t), by adding one factor after the other,
    /// and the logarithm of that at most the sum of the (e^{jv} − 1)/t.
    fn log_power(&self, p: f64) -> f64 {
        let (n, v) = (p.ceil(), self.bins.widest());
        let sum = ((n * v).exp_m1() / v.exp_m1() - n).max(0.0) / self.bins.total;
        (sum + 4.0 * f64::EPSILON * n) * (1.0 + 1e-9)
    }
}

impl BinomialSeries {
    /// log M(w).
    pub(crate) fn log_moment(&self) -> Approx {
        let Approx { value, error } = self.change;
        let log = value.ln_1p();
        Approx::new(log, 1.2 * error / (1.0 + value) + 2.0 * f64::EPSILON * log.abs())
    }
}

/// κ_k·t^{1 − k}/((k − 1)!·unit^k) for the cumulants κ_k of one Y, from κ_{n+1} = Σ_{k<n} C(n − 1, k)·(e^{(k+1)v} − 1)·κ_{k+1}·κ_{n−k}.
fn scaled_cumulants(v: f64, total: f64, unit: f64) -> Vec<Approx> {
    let growth = |k: usize| {
        let exponent = k as f64 * v;
        let value = exponent.exp_m1() / total;
        Approx::new(value, value * f64::EPSILON * (4.0 + 2.0 * exponent))
    };
    let first = unit.recip();
    let mut found = vec![Approx::exact(0.0), Approx::new(first, first * f64::EPSILON)];
    for n in 1..LARGEST_ORDER {
        let mut sum = Approx::exact(0.0);
        for k in 0..n {
            sum += product(growth(k + 1), product(found[k + 1], found[n - k]));
        }
        let value = sum.value / n as f64;
        found.push(Approx::new(
            value,
            sum.error / n as f64 + value * f64::EPSILON * (n as f64 + 2.0),
        ));
    }
    found
}

/// The product of two numbers that are not negative.
fn product(left: Approx, right: Approx) -> Approx {
    let value = left.value * right.value;
    let error = left.error * right.value + right.error * left.value + left.error * right.error;
    Approx::new(value, error + value * f64::EPSILON)
}

#[cfg(test)]
mod tests;
