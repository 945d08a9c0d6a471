//! The law of W without outputs in which some batch has a large likelihood ratio, and its transform E[e^{sW}] at any complex s.
//!
//! With the normal variable of every batch at most b, Y^k has the mean m_k = e^{k(k−1)v/2}·Φ(b − k√v), so that
//! E[e^{ςY}] = Σ_k m_k·ς^k/k! for every complex ς: in closed form, with positive coefficients. As Y is at most Y_b = e^{√v·b − v/2},
//! m_{k+1} ≤ Y_b·m_k, and what follows the k-th term, k ≥ 2|ς|Y_b, is below it.

use crate::approx::Approx;
use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::ends::{far_end, largest, least_end, log_left_out};
use crate::loss::allocation::truncated_rule::{EndedRule, Tilting};
use crate::loss::allocation::windows::{Window, of_log_normal};
use crate::special::log_space::{LogSum, complex_ln_1p};
use crate::special::normal::{log_mills, log_upper_tail};
use realfft::num_complex::Complex64;
use std::f64::consts::TAU;

/// Terms of a series at most.
const MOST_TERMS: usize = 1500;
/// The first term that is left out is below this.
const NEGLIGIBLE: f64 = 1e-25;
/// The unit of |ς|Y_b in the series, so that no coefficient is beyond the range of numbers.
const UNIT: f64 = 500.0;
/// b of the series over that of what is kept.
const LEVELS: [f64; 5] = [1.0, 0.85, 0.72, 0.6, 0.5];
/// Relative rounding of a real transform.
const ROUNDING: f64 = 1e-12;
/// Errors of all batches together for which no other series is tried.
const ACCURATE: f64 = 1e-11;
/// W where the normal variables of all batches are at most b.
#[derive(Debug, Clone)]
pub(crate) struct TruncatedLaw {
    /// t.
    pub(crate) total: f64,
    /// The share of batches that are not released.
    pub(crate) still: f64,
    pub(crate) parts: Vec<TruncatedPart>,
    /// log of bounds on the probabilities under P and Q of what is left out.
    pub(crate) log_left_out: f64,
    log_left_out_of_q: f64,
}

/// Batches that are alike.
#[derive(Debug, Clone)]
pub(super) struct TruncatedPart {
    pub(crate) count: f64,
    pub(crate) variance: f64,
    /// b.
    pub(crate) end: f64,
    /// Y_b/t.
    pub(crate) largest: f64,
    /// The series of what is kept, and those of less: the terms of the first one cancel where |ς|Y_b is large.
    levels: Vec<Series>,
    /// Where all of them cancel.
    rule: EndedRule,
    /// Ranges of Y, by which its transform decays.
    pub(super) windows: Vec<Window>,
}

/// The series of E[e^{sY/t}] where the normal variable is at most some b.
#[derive(Debug, Clone)]
struct Series {
    /// Y_b/t, and the same over the unit of the series.
    largest: f64,
    scale: f64,
    /// log Φ(b).
    log_mass: f64,
    /// m_k·(Y_b/UNIT)^{−k}/(k!·m_0) for k = 1, 2, …, and bounds on the errors.
    terms: Vec<Approx>,
}

/// A series that serves a line, how many of its terms, and a bound on what it lacks there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usable {
    level: usize,
    terms: usize,
    lacking: f64,
}

impl TruncatedLaw {
    /// The law without outputs that P has with a probability of at most e^`log_mass`; `None` where that leaves Y/t above `most`.
    pub(crate) fn new(bins: &Bins, log_mass: f64, most: f64) -> Option<Self> {
        let end = least_end(bins, log_mass);
        let is_enough = largest(bins.widest(), end) <= most * bins.total;
        is_enough.then(|| Self::up_to(bins, end)).flatten()
    }

    /// The law up to a larger b, where outputs beyond it hardly count under the tilts that δ of e^`log_mass` takes either: moments are then
    /// nearly those of the whole law. `None` where they would count.
    pub(crate) fn far(bins: &Bins, log_mass: f64) -> Option<Self> {
        far_end(bins, log_mass).and_then(|end| Self::up_to(bins, end))
    }

    /// The law with g ≤ `end`; `None` where its rule has too many nodes.
    fn up_to(bins: &Bins, end: f64) -> Option<Self> {
        let (log_left_out, log_left_out_of_q) = log_left_out(bins, end);
        let parts = bins.parts.iter().map(|part| TruncatedPart::new(part, end, bins.total));
        Some(Self {
            total: bins.total,
            still: bins.still,
            parts: parts.collect::<Option<_>>()?,
            log_left_out,
            log_left_out_of_q,
        })
    }

    /// The series that serve Re s = λ, |s| ≤ `size`, by parts; `None` if there is none.
    pub(crate) fn usable(&self, lambda: f64, size: f64) -> Option<Vec<Vec<Usable>>> {
        self.parts.iter().map(|part| part.usable(lambda, size)).collect()
    }

    /// log E[e^{sW}], its imaginary part up to multiples of 2π, with a bound on its error.
    pub(crate) fn log_transform(&self, s: Complex64, usable: &[Vec<Usable>]) -> Approx<Complex64> {
        let mut sum = Approx::new(s * self.still, 2.0 * f64::EPSILON * self.still * s.norm());
        for (part, usable) in self.parts.iter().zip(usable) {
            let one = part.log_transform(s, usable);
            sum.value += one.value * part.count;
            sum.error += part.count * one.error;
        }
        sum
    }

    /// log E[e^{λW}] for λ > 0 with its derivatives, for choices; `None` where it takes too many terms.
    pub(crate) fn tilting(&self, lambda: f64) -> Option<Tilting> {
        let mut all = Tilting {
            log: self.still * lambda,
            first: self.still,
            second: 0.0,
        };
        for part in &self.parts {
            let one = part.tilting(lambda)?;
            all.log += part.count * one.log;
            all.first += part.count * one.first;
            all.second += part.count * one.second;
        }
        Some(all)
    }

    /// log of a bound on E_Q[W^w; what is left out], w > 0.
    ///
    /// Powers w ≥ 1 are convex, so that W^w is at most the mean of the Y^w, and either that Y or another one is left out. For w < 1,
    /// W^w ≤ 1 + W.
    pub(crate) fn log_moment_left_out(&self, w: f64) -> f64 {
        let mut sum = LogSum::default();
        let order = w.max(1.0);
        for part in &self.parts {
            let share = (part.count / self.total).ln() + 0.5 * order * (order - 1.0) * part.variance;
            sum.add(share + log_upper_tail(part.end - order * part.variance.sqrt()));
            sum.add(share + self.log_left_out_of_q);
        }
        sum.add(self.log_left_out_of_q + (self.still + f64::from(u8::from(w < 1.0))).ln());
        sum.ln() + 1e-9
    }
}

impl TruncatedPart {
    fn new(part: &Part, end: f64, total: f64) -> Option<Self> {
        let rule = EndedRule::new(part.variance, end, total)?;
        let levels: Vec<Series> = LEVELS
            .iter()
            .map(|level| Series::new(part.variance, level * end, total))
            .collect();
        Some(Self {
            count: part.count,
            variance: part.variance,
            end,
            largest: levels.first().map_or(0.0, |series| series.largest),
            levels,
            rule,
            windows: of_log_normal(part.variance, largest(part.variance, end)).collect(),
        })
    }

    /// Where less is kept, the transform lacks no more than it does at Re s.
    fn usable(&self, lambda: f64, size: f64) -> Option<Vec<Usable>> {
        let whole = self.tilting(lambda)?.log;
        let of = |(level, series): (usize, &Series)| {
            let terms = series.terms(size)?;
            let found = series.tilting(lambda)?.log;
            let lacking = if level == 0 {
                0.0
            } else {
                (whole - series.log_mass).exp() * ((-(found - whole).exp_m1()).max(0.0) + ROUNDING)
            };
            Some(Usable { level, terms, lacking })
        };
        Some(self.levels.iter().enumerate().filter_map(of).collect())
    }

    /// By the first series that is accurate, or the most accurate one.
    fn log_transform(&self, s: Complex64, usable: &[Usable]) -> Approx<Complex64> {
        let mut best = Approx::new(Complex64::default(), f64::INFINITY);
        for one in usable {
            let found = self.levels[one.level].log_transform(s, one);
            if found.error < best.error {
                best = found;
            }
            if best.error * self.count < ACCURATE {
                return best;
            }
        }
        let log_real = |x: f64| self.tilting(x).map_or(f64::INFINITY, |at| at.log);
        let found = self.rule.log_transform(s, log_real);
        if found.error < best.error { found } else { best }
    }

    /// log E[e^{λY/t}] for one batch, with its derivatives.
    pub(crate) fn tilting(&self, lambda: f64) -> Option<Tilting> {
        let series = self.levels.first().and_then(|series| series.tilting(lambda));
        series.or_else(|| self.rule.tilting(lambda))
    }

    /// A bound on the total variation of the density of Y/t under the law tilted by e^{λY/t}, without the outputs left out.
    ///
    /// The density q of Y has its largest value e^v/√(2πv) at e^{−3v/2}. With a growing factor e the parts of ∫|(qe)'| add up to at most
    /// twice the value of qe there, and twice ∫qe' = (λ/t)∫qe.
    pub(crate) fn total_variation(&self, lambda: f64, total: f64, log_transform: f64) -> f64 {
        let highest = self.variance - 0.5 * (TAU * self.variance).ln();
        let tilt = lambda / total * (-1.5 * self.variance).exp();
        2.0 * total * (highest + tilt - log_transform).exp() * (1.0 + 1e-9) + 2.0 * lambda
    }
}

impl Series {
    fn new(variance: f64, end: f64, total: f64) -> Self {
        let root = variance.sqrt();
        let log_mass = log_upper_tail(-end);
        let largest = largest(variance, end);
        let mut terms = Vec::with_capacity(MOST_TERMS);
        let mut log_factorial = 0.0;
        for k in 1..=MOST_TERMS {
            let order = k as f64;
            log_factorial += order.ln();
            let beyond = order * root - end;
            // log of m_k·Y_b^{−k} and bounds on its error, without the squares that cancel.
            let (log, error) = if k == 1 {
                (log_upper_tail(root - end) - largest.ln(), 12.0)
            } else if beyond > 0.0 {
                let log = log_mills(beyond) - 0.5 * end * end - 0.5 * TAU.ln();
                (log, 5.0 * (8.0 + beyond.min(25.0).powi(2)) + end * end)
            } else {
                let log = 0.5 * order * root * (order * root - 2.0 * end) + log_upper_tail(beyond);
                (log, 5.0 * (4.0 + beyond * beyond) + 2.0 * end * end)
            };
            let value = (log - log_mass - log_factorial + order * UNIT.ln()).exp();
            let roundings = 16.0 + order * (16.0 + 2.0 * (root * end + variance)) + 2.0 * log_factorial;
            let roundings = if k == 1 {
                12.0 + 2.0 * root * end
            } else {
                error + roundings
            };
            terms.push(Approx::new(value, value * roundings * f64::EPSILON));
            if value < f64::MIN_POSITIVE {
                break;
            }
        }
        Self {
            largest: largest / total,
            scale: largest / (total * UNIT),
            log_mass,
            terms,
        }
    }

    fn terms(&self, size: f64) -> Option<usize> {
        let x = size * self.largest;
        let log = (x / UNIT).ln();
        let first = (2.0 * x).ceil() as usize + 2;
        let small = |&k: &usize| self.terms[k - 1].value.ln() + k as f64 * log < NEGLIGIBLE.ln();
        (first..=self.terms.len()).find(small)
    }

    fn log_transform(&self, s: Complex64, usable: &Usable) -> Approx<Complex64> {
        let x = s * self.scale;
        let size = x.norm();
        let (mut sum, mut error) = (Complex64::default(), 0.0);
        for term in self.terms[..usable.terms].iter().rev() {
            sum = sum * x + term.value;
            error = error * size + term.error;
        }
        let value = sum * x;
        let error = (error * size + NEGLIGIBLE + usable.lacking) / (1.0 + value).norm();
        let log = complex_ln_1p(value);
        let known = if error < 0.1 { 1.1 * error } else { f64::INFINITY };
        Approx::new(
            log + self.log_mass,
            known + 4.0 * f64::EPSILON * (log.norm() + self.log_mass.abs()),
        )
    }

    fn tilting(&self, lambda: f64) -> Option<Tilting> {
        let terms = self.terms(lambda)?;
        let x = lambda * self.scale;
        let (mut value, mut first, mut second) = (0.0, 0.0, 0.0);
        for term in self.terms[..terms].iter().rev() {
            second = second * x + first;
            first = first * x + value;
            value = value * x + term.value;
        }
        // The series is 1 + x·value.
        let whole = 1.0 + x * value;
        let (one, two) = ((value + x * first) / whole, (2.0 * first + 2.0 * x * second) / whole);
        Some(Tilting {
            log: self.log_mass + (x * value).ln_1p(),
            first: one * self.scale,
            second: (two - one * one) * self.scale * self.scale,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E[e^{sY}; g ≤ b] of one batch against a sum over the normal law, by every series that serves.
    #[test]
    fn transforms_are_those_of_one_integral() {
        for (v, s) in [(0.04f64, Complex64::new(10.0, 0.0)), (0.04, Complex64::new(5.0, 12.0))] {
            let law = TruncatedLaw::new(&Bins::new(&[(1, v)]).unwrap(), -28.0, f64::INFINITY).unwrap();
            let end = law.parts[0].end;
            let step = 1e-4;
            let (mut sum, mut g) = (Complex64::default(), end - 0.5 * step);
            while g > -12.0 {
                let y = (v.sqrt() * g - 0.5 * v).exp();
                sum += (s * y - 0.5 * g * g).exp() * step;
                g -= step;
            }
            let exact = sum / TAU.sqrt();
            for one in &law.parts[0].usable(s.re, s.norm()).unwrap() {
                let found = law.log_transform(s, &[vec![*one]]);
                let off = (found.value.exp() - exact).norm() / exact.norm();
                assert!(
                    off <= found.error.exp_m1() + 1e-8,
                    "{v} {s} {one:?}: {found:?} {exact} {off}"
                );
            }
            let found = law.log_transform(s, &law.usable(s.re, s.norm()).unwrap());
            assert!(found.error < 1e-2, "{v} {s}: {found:?}");
        }
    }

    /// What is left out of P, of Q and of moments, for one batch, where half of each bound would be too small.
    #[test]
    fn what_is_left_out_is_bounded() {
        for (v, log_mass) in [(0.25f64, -20.0), (1.0, -60.0)] {
            let law = TruncatedLaw::new(&Bins::new(&[(1, v)]).unwrap(), log_mass, f64::INFINITY).unwrap();
            let end = law.parts[0].end;
            let exact = log_upper_tail(end - v.sqrt());
            assert!(law.log_left_out <= log_mass && law.log_left_out > log_mass - 1e-6);
            assert!(
                exact <= law.log_left_out && law.log_left_out < exact + 0.1,
                "{v}: {exact}"
            );
            for w in [1.0, 3.0, 7.5] {
                let exact = 0.5 * w * (w - 1.0) * v + log_upper_tail(end - w * v.sqrt());
                let bound = law.log_moment_left_out(w);
                assert!(exact <= bound && bound < exact + 0.5, "{v} {w}: {exact} {bound}");
            }
        }
    }

    /// What a shorter series lacks is nearly attained at real s.
    #[test]
    fn what_shorter_series_lack_is_bounded_and_attained() {
        let law = TruncatedLaw::new(&Bins::new(&[(1, 0.25)]).unwrap(), -20.0, f64::INFINITY).unwrap();
        let usable = law.parts[0].usable(0.01, 0.01).unwrap();
        let levels = &law.parts[0].levels;
        let at = |one: &Usable| levels[one.level].log_transform(Complex64::from(0.01), one);
        let (whole, found) = (at(&usable[0]).value.re, at(&usable[1]));
        let missing = whole - found.value.re;
        assert!(
            missing <= found.error && found.error < 2.0 * missing,
            "{missing} {found:?}"
        );
    }
}
