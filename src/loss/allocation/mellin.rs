//! M(w) = E_Q[W^w] at real w, from one integral over u = log s.
//!
//! For p = n − w > 0, Γ(p)·M(w) = ∫ e^{pu}·ψ_n(e^u) du. The trapezoid rule with spacing h adds the values of Γ(p − iy)·M(w + iy) at the
//! multiples of 2π/h and nothing else, which are bounded by |Γ(p − iy)|, which is explicit, times M(w) times the decay of M.

use crate::loss::allocation::bins::{Bins, LARGEST_VARIANCE};
use crate::loss::allocation::decay::Decay;
use crate::loss::allocation::kernel::{MAX_ORDER, Node};
use crate::loss::allocation::normal_rule::Points;
use crate::loss::allocation::series::{power, product};
use crate::loss::allocation::shifted::MAX_SHIFTED_ORDER;
use crate::loss::allocation::spacings::Spacings;
use crate::loss::allocation::table::Tables;
use crate::special::complex_gamma::{digamma_and_trigamma, ln_gamma};
use crate::special::log_space::LogSum;
use realfft::num_complex::Complex64;
use std::f64::consts::FRAC_1_SQRT_2;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Orders n that are used, up to the largest one of the law.
const ORDERS: [usize; 13] = [0, 8, 10, 12, 16, 20, 24, 32, 48, MAX_ORDER, 96, 128, MAX_SHIFTED_ORDER];
/// Least and largest p: below, the left end of the integral is long, above it is too narrow.
const LEAST_POWER: f64 = 7.0;
const LARGEST_POWER: f64 = 1e6;
/// −log of the part of an integral that its ends may leave out, and that the spacing may add.
pub(crate) const LEVEL: f64 = 37.0;
/// Spacing of the values by which the range of u is found: one of those of integrals, which then share the values.
const COARSE: f64 = WIDEST * FRAC_1_SQRT_2;
/// Most values of one integral.
const MOST_VALUES: i64 = 1000;
/// Orders from which on no more than so many coarse values are computed: more are needed where a moment comes from outcomes that are
/// absurdly rare, and then a smaller exponent serves better. From order 16 on, as it was once, 4 % of a random box of dealt batches had an ε that is wider than
/// 1e-3, where 1 % have; from 128 on searches for a tilt in the box take a tenth longer.
const HIGH_ORDER: usize = 96;
/// [`HIGH_ORDER`] for laws whose derivatives are no shifts of one table: batches of several kinds, or much noise. Each node then takes a sum for every order.
/// With 96 in its place 155,726 bins with noise 12.4, of which most are released 193 times and the others 192 times, take 10 s; they take 0.1 s.
const HIGH_ORDER_OF_SUMS: usize = 16;
const MOST_COARSE: i64 = 88;
/// A coefficient from which on no other one that it consists of has underflowed.
const LEAST_COEFFICIENT: f64 = 1e-200;
/// The widest spacing of an integral; others are smaller by powers of √2.
const WIDEST: f64 = 0.32;

/// A real exponent, and how its moment is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exponent {
    /// w.
    pub(crate) w: f64,
    /// n.
    pub(crate) order: usize,
    /// p = n − w.
    pub(crate) power: f64,
}

impl Exponent {
    /// The exponent w by orders up to `max_order`; `None` where it is beyond those that are computed.
    pub(crate) fn new(w: f64, max_order: usize) -> Option<Self> {
        let mut orders = ORDERS.into_iter().filter(|n| *n <= max_order);
        let order = orders.find(|n| *n as f64 - w >= LEAST_POWER)?;
        let power = order as f64 - w;
        (power <= LARGEST_POWER).then_some(Self { w, order, power })
    }
}

/// log M at a real exponent, its derivatives, and the range of u.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RealMoment {
    pub(crate) exponent: Exponent,
    pub(crate) log: f64,
    pub(crate) error: f64,
    /// d log M/dw and its derivative.
    pub(crate) mean: f64,
    pub(crate) variance: f64,
    /// The range of u.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// log of a bound on what it leaves out, over Γ(p)·M.
    pub(crate) log_left_out: f64,
}

/// Moments of one law of W, with the tables found so far.
#[derive(Debug)]
pub(crate) struct Mellin {
    pub(crate) bins: Bins,
    tables: Tables,
    /// The spacing of the values by which the range of u is found.
    coarse: f64,
    known: Vec<RealMoment>,
}

/// Moments that are remembered.
const REMEMBERED: usize = 64;

struct Range {
    low: f64,
    high: f64,
    log_left_out: f64,
}

/// The moments, whatever became of a thread that computed some of them.
pub(super) fn locked(mellin: &Mutex<Mellin>) -> MutexGuard<'_, Mellin> {
    mellin.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mellin {
    pub(crate) fn new(bins: Bins) -> Self {
        let tables = Tables::new(&bins);
        Self {
            coarse: tables.spacings.at_most(COARSE),
            bins,
            tables,
            known: Vec::new(),
        }
    }

    fn values(&mut self, order: usize, spacing: f64, (from, to): (i64, i64)) -> Option<Vec<(f64, f64)>> {
        if to - from > MOST_VALUES {
            return None;
        }
        let log = |node: &Node| (node.log_scale + node.value.re.ln(), node.error / node.value.re);
        Some(self.on_ray(order, spacing, 0.0, (from, to)).iter().map(log).collect())
    }

    /// Nodes of quadrature rules so far.
    pub(crate) fn work(&self) -> u64 {
        self.tables.work()
    }

    /// ψ_n at e^{ih + iθ} for i from `from` to `to`.
    pub(crate) fn on_ray(&mut self, order: usize, spacing: f64, angle: f64, (from, to): (i64, i64)) -> Vec<Node> {
        self.tables.values(&self.bins, order, (spacing, angle), (from, to))
    }

    /// The spacings of u that serve this law.
    pub(crate) fn spacings(&self) -> Spacings {
        self.tables.spacings
    }

    /// Upper bounds on log ψ_n next to coarse steps, all of which are off by [`Points::common_error`]: users have room for that.
    fn upper_values(&mut self, order: usize, range: (i64, i64)) -> Option<Vec<f64>> {
        let values = self.values(order, self.coarse, range)?;
        let upper: Vec<f64> = values.iter().map(|(log, error)| log + error.ln_1p()).collect();
        upper.iter().all(|log| log.is_finite()).then_some(upper)
    }

    /// (λ, an upper bound on log E[e^{−λW}]) for λ from next to 0 to far beyond 1/W.
    pub(crate) fn transform(&mut self) -> Vec<(f64, f64)> {
        const ENDS: (i64, i64) = (-16, 64);
        let values = self.upper_values(0, ENDS).unwrap_or_default();
        let coarse = self.coarse;
        let at = |(i, log): (usize, &f64)| ((coarse * (ENDS.0 + i as i64) as f64).exp(), log + 1e-12 * log.abs());
        values.iter().enumerate().map(at).collect()
    }

    /// log M(w) at a real exponent; `None` where it cannot be computed.
    pub(crate) fn real(&mut self, w: f64) -> Option<RealMoment> {
        if let Some(known) = self.known.iter().find(|known| known.exponent.w == w) {
            return Some(*known);
        }
        if self.bins.widest() > LARGEST_VARIANCE {
            return None;
        }
        let exponent = Exponent::new(w, self.tables.max_order())?;
        let range = self.range(exponent)?;
        let decay = Decay::new(&self.bins, &[], (w, 0.0));
        let spacing = spacing(self.spacings(), (exponent.power, 0.0), &[0.0], &|y| decay.log_bound(y))?;
        let found = self.integrate(exponent, &range, spacing, &decay)?;
        if self.known.len() >= REMEMBERED {
            self.known.remove(0);
        }
        self.known.push(found);
        Some(found)
    }

    fn integrate(&mut self, exponent: Exponent, range: &Range, spacing: f64, decay: &Decay) -> Option<RealMoment> {
        let Exponent { order, power, .. } = exponent;
        let (from, to) = (
            (range.low / spacing).ceil() as i64,
            (range.high / spacing).floor() as i64,
        );
        let values = self.values(order, spacing, (from, to))?;
        let term =
            |(j, (log, error)): (usize, &(f64, f64))| (power * (from + j as i64) as f64 * spacing + log, *error);
        let largest = values
            .iter()
            .enumerate()
            .map(|value| term(value).0)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut errors) = (0.0, 0.0);
        for value in values.iter().enumerate() {
            let (log, error) = term(value);
            let weight = (log - largest).exp();
            sum += weight;
            let of_place = power * ((from + value.0 as i64) as f64 * spacing).abs();
            errors += weight * (error + f64::EPSILON * (2.0 * (log.abs() + largest.abs()) + of_place + 4.0));
        }
        let (mut mean, mut square) = (0.0, 0.0);
        for value in values.iter().enumerate() {
            mean += (term(value).0 - largest).exp() / sum * (value.0 as f64 * spacing);
        }
        for value in values.iter().enumerate() {
            square += (term(value).0 - largest).exp() / sum * (value.0 as f64 * spacing - mean).powi(2);
        }
        let (gamma, gamma_error) = ln_gamma(Complex64::new(power, 0.0));
        let log = largest + (sum * spacing).ln() - gamma.re;
        let aliasing = log_aliasing(power, 0.0, spacing, 0.0, &|y| decay.log_bound(y)).exp();
        let log_left_out = range.log_left_out - gamma.re - log;
        let offset = power * Points::common_error(self.bins.total.ln());
        let relative = errors / sum + aliasing + log_left_out.exp() + values.len() as f64 * f64::EPSILON + offset;
        let (digamma, trigamma) = digamma_and_trigamma(power);
        let start = from as f64 * spacing;
        (relative < 0.01).then_some(RealMoment {
            exponent,
            log,
            error: 1.1 * relative + gamma_error + 4.0 * f64::EPSILON * (largest.abs() + gamma.re.abs()),
            mean: digamma - start - mean,
            variance: square - trigamma,
            low: range.low,
            high: range.high,
            log_left_out,
        })
    }

    /// A bound on log E[W^n] for a whole n.
    ///
    /// It is that of the n-th coefficient of E[e^{xW}], in units of x in which all coefficients are at most e^n; where some may have underflowed,
    /// that of the widest Y.
    fn log_whole_moment(&self, n: usize) -> f64 {
        let order = n as f64;
        let widest = 0.5 * self.bins.widest() * order * (order - 1.0).max(0.0);
        // log of the unit times t.
        let log_unit = order.max(1.0).ln() - 0.5 * self.bins.widest() * (order - 1.0).max(0.0);
        let mut whole = vec![1.0];
        let step = self.bins.still * log_unit.exp();
        for k in 1..=n {
            whole.push(whole[k - 1] * step / k as f64);
        }
        let log_size = log_unit - self.bins.total.ln();
        let mut log_factorial = 0.0;
        let log_factorials: Vec<f64> = (1..=n)
            .map(|k| {
                log_factorial += (k as f64).ln();
                log_factorial
            })
            .collect();
        for part in &self.bins.parts {
            let coefficient = |k: usize| {
                let order = k as f64;
                (0.5 * part.variance * order * (order - 1.0) + order * log_size - log_factorials[k - 1]).exp()
            };
            let mut series = vec![1.0];
            series.extend((1..=n).map(coefficient));
            whole = product(&whole, &power(&series, part.count));
        }
        if !(whole[n] > LEAST_COEFFICIENT && whole[n].is_finite()) {
            return widest;
        }
        (whole[n].ln() + log_factorial - order * log_unit + 1e-9).min(widest)
    }

    /// Where e^{pu}·ψ_n(e^u) counts, and a bound on its integral, or the sum of a rule, elsewhere.
    ///
    /// Crude ends are where e^{pu}·E[W^n] and e^{−κu}·Γ(p + κ)·E[W^{w − κ}] are negligible. In between, log ψ_n is convex in s, as that of
    /// every Laplace transform, and so below the chords of coarse values.
    fn range(&mut self, exponent: Exponent) -> Option<Range> {
        let Exponent { w, order, power } = exponent;
        let gamma = |x: f64| ln_gamma(Complex64::new(x, 0.0)).0.re;
        let margin = LEVEL + 8.0;
        let left = (gamma(power) + power.ln() - margin - self.log_whole_moment(order)) / power;
        let steeper = (0..20).map(|i| w.max(0.0) + 0.5 * 2f64.powi(i));
        let right = steeper
            .map(|kappa| {
                (margin + gamma(power + kappa) - gamma(power) + self.bins.log_negative_moment(kappa - w)) / kappa
            })
            .fold(f64::INFINITY, f64::min);
        let coarse = self.coarse;
        let (from, to) = ((left / coarse).floor() as i64, (right / coarse).ceil() as i64);
        let high = if self.spacings().has_shift() {
            HIGH_ORDER
        } else {
            HIGH_ORDER_OF_SUMS
        };
        if order >= high && to - from > MOST_COARSE {
            return None;
        }
        let values = self.upper_values(order, (from, to))?;
        let at = |i: usize| (from + i as i64) as f64 * coarse;
        let mut bounds = Vec::with_capacity(values.len());
        let mut peak = f64::NEG_INFINITY;
        for (i, pair) in values.windows(2).enumerate() {
            let (low, high) = (at(i).exp(), at(i + 1).exp());
            let slope = (pair[0] - pair[1]) / (high - low);
            let top = (power / slope.max(1e-300)).clamp(low, high);
            bounds.push(power * top.ln() + pair[0] - slope * (top - low) + (2.0 * coarse).ln() + 0.01);
            peak = peak.max(power * at(i) + pair[0]);
        }
        let allowed = peak - (1.0 + power.sqrt()).ln() - LEVEL;
        let mut left_out = LogSum::default();
        // Each crude end is e^−margin of Γ(p) at most, and a rule's sum there at most twice the integral and one term.
        left_out.add(gamma(power) - margin + 2.0);
        let mut count = |indices: &mut dyn Iterator<Item = usize>| {
            let (mut sum, mut last) = (LogSum::default(), None);
            for i in indices {
                let mut next = sum;
                next.add(bounds[i]);
                if next.ln() > allowed {
                    break;
                }
                sum = next;
                last = Some(i);
            }
            left_out.add(sum.ln());
            last
        };
        let low = count(&mut (0..bounds.len())).map_or(0, |i| i + 1);
        let high = count(&mut (0..bounds.len()).rev()).unwrap_or(bounds.len());
        Some(Range {
            low: at(low),
            high: at(high),
            log_left_out: left_out.ln(),
        })
    }
}

/// log of a bound on what the rule with spacing h adds at y to the transform along the ray at `angle`, relative to it at its largest:
/// Σ |Γ(p − iy_k)/Γ(p − iy)|·e^{θ(y_k − y)}·|M(w + iy_k)|/M(w), y_k = y + 2πk/h, where `log_decay` bounds log |M(w + iy)|/M(w).
pub(crate) fn log_aliasing(power: f64, angle: f64, spacing: f64, y: f64, log_decay: &dyn Fn(f64) -> f64) -> f64 {
    /// Terms on either side at most.
    const TERMS: usize = 40;
    let period = std::f64::consts::TAU / spacing;
    let size = |y: f64| ln_gamma(Complex64::new(power, y)).0.re + angle * y;
    let here = size(y);
    let mut sum = LogSum::default();
    for sign in [1.0, -1.0] {
        let mut before = f64::INFINITY;
        let mut ended = false;
        for k in 1..=TERMS {
            let at = y + sign * k as f64 * period;
            let term = size(at) - here + log_decay(at.abs());
            sum.add(term);
            // |Γ(p + iy)|·e^{θy} is log-concave in y, and so is the bound on the decay: the rest is at most this term again.
            if term < before - 1.0 && (term < sum.ln() - 5.0 || term < -3.0 * LEVEL) {
                sum.add(term);
                ended = true;
                break;
            }
            before = term;
        }
        if !ended {
            return f64::INFINITY;
        }
    }
    sum.ln()
}

/// The widest of these spacings for which aliasing is negligible at all `ys`, along the ray at `angle`.
pub(crate) fn spacing(
    spacings: Spacings,
    (power, angle): (f64, f64),
    ys: &[f64],
    log_decay: &dyn Fn(f64) -> f64,
) -> Option<f64> {
    let candidates = (0..60).map(|i| spacings.at_most(WIDEST * FRAC_1_SQRT_2.powi(i)));
    let mut before = f64::INFINITY;
    let mut fine = candidates.skip_while(|&h| {
        if h <= 0.0 || h == before {
            return true;
        }
        before = h;
        let worst = ys
            .iter()
            .map(|&y| log_aliasing(power, angle, h, y, log_decay))
            .fold(f64::NEG_INFINITY, f64::max);
        worst.is_nan() || worst > -LEVEL
    });
    fine.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One batch, n = 0: the rule's sum of e^{pu}·L(e^u) against Γ(p)·E[Y^{−p}] at coarse spacings. The bound holds, and half of it would
    /// not.
    #[test]
    fn aliasing_is_bounded_and_nearly_attained() {
        let mut largest = 0.0f64;
        for (v, p, h) in [(0.5, 3.0, 1.6), (0.5, 4.0, 1.5), (0.2, 2.5, 1.9), (1.0, 5.0, 1.4)] {
            let bins = Bins::new(&[(1, v)]).unwrap();
            let mut mellin = Mellin::new(bins.clone());
            let range = (-40, 12);
            let values = mellin.values(0, h, range).unwrap();
            let terms = (range.0..=range.1)
                .zip(&values)
                .map(|(i, (log, _))| (p * h * i as f64 + log).exp());
            let gamma = ln_gamma(Complex64::new(p, 0.0)).0.re;
            let exact = (gamma + 0.5 * v * p * (p + 1.0)).exp();
            let wrong = (terms.sum::<f64>() * h / exact - 1.0).abs();
            let decay = Decay::new(&bins, &[], (-p, 0.0));
            let bound = log_aliasing(p, 0.0, h, 0.0, &|y| decay.log_bound(y)).exp();
            assert!(wrong <= bound * (1.0 + 1e-9), "{v} {p} {h}: {wrong} {bound}");
            largest = largest.max(wrong / bound);
        }
        assert!(largest > 0.5, "{largest}");
    }

    /// E[Y^n] = e^{n(n−1)v/2} of one batch and E[((Y + 1)/2)^n] of two, where factorials are far beyond the range of numbers.
    #[test]
    fn whole_moments_are_those_of_few_batches() {
        for (v, n) in [(0.01, 192), (0.3, 64), (4.0, 192)] {
            let n_real = n as f64;
            let one = 0.5 * v * n_real * (n_real - 1.0);
            let found = Mellin::new(Bins::new(&[(1, v)]).unwrap()).log_whole_moment(n);
            assert!(
                found >= one && found < one + 2e-9 + 1e-13 * one,
                "{v} {n}: {found} {one}"
            );
            // E[((Y + 1)/2)^n] = Σ C(n, k)·E[Y^k]/2^n.
            let mut sum = LogSum::default();
            let mut log_binomial = 0.0;
            for k in 0..=n {
                let order = k as f64;
                sum.add(log_binomial + 0.5 * v * order * (order - 1.0) - n_real * std::f64::consts::LN_2);
                log_binomial += ((n_real - order) / (order + 1.0)).ln();
            }
            let found = Mellin::new(Bins::new(&[(1, v), (1, 0.0)]).unwrap()).log_whole_moment(n);
            // Where a coefficient may underflow, the bound is that of the widest Y.
            let is_close = found < sum.ln() + 1e-8 || (v > 1.0 && found == one);
            assert!(found >= sum.ln() - 1e-9 && is_close, "{v} {n}: {found} {}", sum.ln());
        }
    }

    /// What a real moment leaves out at both ends and its whole error, against M(w) = e^{w(w − 1)v/2} of one batch.
    #[test]
    fn moments_of_one_batch_are_within_their_error() {
        let mut computed = 0;
        for (v, largest) in [(0.01, 12.0), (0.5, 12.0), (2.0, 4.7)] {
            let mut mellin = Mellin::new(Bins::new(&[(1, v)]).unwrap());
            for w in [-30.0, -2.5, 0.3, 1.0, 3.1, largest] {
                let Some(found) = mellin.real(w) else { continue };
                computed += 1;
                let exact = 0.5 * v * w * (w - 1.0);
                assert!((found.log - exact).abs() <= found.error, "{v} {w}: {found:?} {exact}");
            }
        }
        assert!(computed >= 8, "{computed}");
    }
}
