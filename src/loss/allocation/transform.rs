//! log L(ς), L(ς) = E[e^{−ςY}] of one batch, along a ray of complex ς of any size.
//!
//! All that is needed of a batch is this one function: as Y^k times the density of Y is e^{k(k−1)v/2} times that of e^{kv}·Y,
//! E[Y^k e^{−ςY}] = e^{k(k−1)v/2}·L(e^{kv}ς), with e^{kv}ς on the same ray.
//!
//! There are three ways. For small ς, log L follows from the moments of Y − 1. For |ς| ≤ 1 the nodes of a [`Rule`] give the expectation of
//! e^{−ςY} − 1 + ςY, which is L(ς) − 1 + ς, so that log L has an error in proportion to |ς|: the modulus of what is summed is at most
//! min(|ςY|²/2, 2|ςY|), on the lines too, as Re ςY is not negative there. For larger ς, L itself is a sum over the nodes of a rule.

use crate::loss::allocation::excess::excess_at;
use crate::loss::allocation::normal_rule::{Points, Product, Rule, RuleNode, geometric, log_suppressed};
use crate::loss::allocation::places::Places;
use crate::special::log_space::complex_ln_1p;
use realfft::num_complex::Complex64;
use rustc_hash::FxHashMap;

/// Rules are made for log |ς| in intervals of this length.
const LENGTH: f64 = 1.0;
/// The highest moment of Y − 1 that is used for small |ς|, and the largest |ς| for which that is tried.
const MOST_MOMENTS: usize = 14;
const LARGEST_SERIES: f64 = 0.05;
/// Terms that are added up before their sum is added.
const BLOCK: usize = 12;
/// Largest modulus of the two exponents whose exponentials are multiplied to give a term. Beyond it, a term is one exponential of their sum.
const LARGEST_EXPONENT: f64 = 600.0;

/// The trapezoid rules of one batch along the ray at one angle.
#[derive(Debug)]
pub(crate) struct Transform {
    points: Points,
    variance: f64,
    angle: f64,
    moments: Moments,
    centred: Centred,
    /// By the interval of log |ς| > 0.
    rules: FxHashMap<u32, Direct>,
}

/// A sum of e^{−ςY}.
#[derive(Debug)]
struct Direct {
    rule: Rule,
    /// Of g²/2 and of |ς|Y·cos φ: those at the saddle point, so that weights and factors are moderate.
    references: (f64, f64),
    /// The weights of the nodes, with the roundings of their exponents and phases.
    weights: Vec<(f64, f64)>,
    factors: Places<Factor>,
}

/// e^{−ςY}: its modulus over that of the reference, and its phase factor.
#[derive(Debug, Clone, Copy)]
struct Factor {
    x: f64,
    modulus: f64,
    phase: Complex64,
    /// Roundings of its exponent and phase in units of the machine's.
    roundings: f64,
}

/// A sum of e^{−ςY} − 1 + ςY.
#[derive(Debug)]
struct Centred {
    rule: Rule,
    weights: Vec<f64>,
    terms: Places<Term>,
}

/// e^{−ςY} − 1 + ςY, and its error in units of the machine's but for that of the node.
#[derive(Debug, Clone, Copy)]
struct Term {
    x: f64,
    value: Complex64,
    error: f64,
}

/// log L at a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogTransform {
    pub(crate) value: Complex64,
    pub(crate) error: f64,
    /// The modulus of the value.
    pub(crate) modulus: f64,
    /// The phase factor of L: e^{iz} for the imaginary part z of the value.
    pub(crate) turn: Complex64,
}

impl LogTransform {
    const UNKNOWN: Self = Self {
        value: Complex64::new(0.0, 0.0),
        error: f64::INFINITY,
        modulus: 0.0,
        turn: Complex64::new(1.0, 0.0),
    };

    /// Where the value has this error, and roundings in proportion to its modulus and to `more`.
    fn new(value: Complex64, error: f64, more: f64) -> Self {
        let modulus = value.norm();
        Self {
            value,
            error: error + 4.0 * f64::EPSILON * (modulus + more),
            modulus,
            turn: if value.im == 0.0 {
                Complex64::from(1.0)
            } else {
                Complex64::cis(value.im)
            },
        }
    }
}

/// Sums of terms over a common factor, and of what bounds their errors.
#[derive(Default)]
struct Sum {
    value: Complex64,
    size: f64,
    /// Moduli times the roundings of their exponents and phases in units of the machine's.
    roundings: f64,
}

impl Direct {
    /// For log |ς| in an interval.
    fn new(points: Points, (variance, angle): (f64, f64), range: (f64, f64)) -> Self {
        let rule = Rule::direct(points, (variance, angle), range);
        let size = (0.5 * (range.0 + range.1)).exp();
        let (.., top) = rule.range(size);
        let node = &rule.nodes[top];
        let references = (node.half_square, size * node.y * rule.phase.0);
        let roundings = |node: &RuleNode| node.roundings + 0.5 * (references.0 - node.half_square).abs();
        let weights = rule.weights(references.0).into_iter();
        Self {
            weights: weights.zip(rule.nodes.iter().map(roundings)).collect(),
            rule,
            references,
            factors: Places::new(),
        }
    }

    fn factor(&mut self, place: i64) -> Factor {
        let Self { rule, references, .. } = self;
        let is_real = rule.is_real();
        rule.cached(&mut self.factors, place, |Product { x, slack }| {
            let exponent = references.1 - x * rule.phase.0;
            Factor {
                x,
                modulus: exponent.exp(),
                phase: if is_real {
                    Complex64::from(1.0)
                } else {
                    Complex64::from_polar(1.0, -x * rule.phase.1)
                },
                roundings: slack * x + 0.5 * exponent.abs(),
            }
        })
    }

    /// log L at a point, where |ς| is about `size`.
    fn log_transform(&mut self, point: i64, size: f64, variance: f64) -> LogTransform {
        let (start, end, top) = self.rule.range(size);
        if end < start + 2 {
            return LogTransform::UNKNOWN;
        }
        let log = self.rule.log_term(size, top);
        let common = self.references.0 + self.references.1;
        let exponent = |i: usize| {
            let of_weight = self.references.0 - self.rule.nodes[i].half_square;
            of_weight
                .abs()
                .max((self.rule.log_term(size, i) + common - of_weight).abs())
        };
        let is_moderate = self.references.0 <= LARGEST_EXPONENT
            && (common + log).abs() <= LARGEST_EXPONENT
            && exponent(start).max(exponent(end)) <= LARGEST_EXPONENT;
        let scale = (-common - log).exp();
        let mut sum = Sum::default();
        let mut from = start;
        while from <= end {
            let mut block = Complex64::default();
            let until = (from + BLOCK).min(end + 1);
            for i in from..until {
                let factor = self.factor(self.rule.place(point, i));
                let (node, (weight, roundings)) = (&self.rule.nodes[i], self.weights[i]);
                let modulus = if is_moderate {
                    weight * factor.modulus * scale
                } else {
                    (-node.half_square - factor.x * self.rule.phase.0 - log).exp()
                };
                block += node.turned * factor.phase * modulus;
                sum.size += modulus;
                sum.roundings += modulus * (roundings + factor.roundings + node.y_slack * factor.x);
            }
            sum.value += block;
            from = until;
        }
        let rule = &self.rule;
        let ends = rule.beyond(size, start + 1, start, log) + rule.beyond(size, end - 1, end, log);
        let on_lines = rule.log_spacing_error(|cosine| log_suppressed(size * cosine, variance));
        let spacing = (on_lines - rule.log_weight - log).exp();
        let blocks = (end - start) / BLOCK + 1;
        // Of the sum of the references, and of the exponent of the scale.
        let exponents = 0.5 * (common.abs() + (common + log).abs());
        let additions = 0.5 * (BLOCK + blocks) as f64 + 8.0 + exponents;
        let rounding = f64::EPSILON * (additions * sum.size + sum.roundings);
        let relative = (rounding + ends + spacing) / sum.value.norm();
        if relative.is_nan() || relative > 0.5 {
            return LogTransform::UNKNOWN;
        }
        let value = sum.value.ln() + (log + rule.log_weight);
        LogTransform::new(value, 1.5 * relative + rule.log_weight_error, log.abs())
    }
}

impl Centred {
    fn new(points: Points, (variance, angle): (f64, f64)) -> Self {
        let rule = Rule::centred(points, (variance, angle));
        Self {
            weights: rule.weights(0.0),
            rule,
            terms: Places::new(),
        }
    }

    fn term(&mut self, place: i64) -> Term {
        let Self { rule, terms, .. } = self;
        rule.cached(terms, place, |Product { x, slack }| {
            let z = Complex64::new(rule.phase.0, rule.phase.1) * -x;
            let (value, error) = excess_at(z, (slack + 2.0) * x);
            Term { x, value, error }
        })
    }

    /// log L at a point ς, whose relative rounding is `off`.
    fn log_transform(&mut self, point: i64, (s, off): (Complex64, f64), variance: f64) -> LogTransform {
        let size = s.norm();
        let common = self.rule.log_weight.exp();
        let (mut sum, mut sizes, mut errors, mut last) = (Complex64::default(), 0.0, 0.0, [0.0; 2]);
        let mut ends = 0.0;
        for i in 0..self.rule.nodes.len() {
            let term = self.term(self.rule.place(point, i));
            let (node, weight) = (&self.rule.nodes[i], self.weights[i]);
            let x = term.x;
            sum += node.turned * term.value * weight;
            sizes += weight * (term.value.re.abs() + term.value.im.abs()) * (node.roundings + 4.0);
            // |e^{−z} − 1| ≤ min(|z|, 2), so that a rounding of Y moves the term by at most as much of that times x.
            errors += weight * (term.error + node.y_slack * x * x.min(2.0));
            last = [last[1], weight * (x * x).min(4.0 * x)];
            if i == 1 {
                ends += geometric(last[1], last[0]);
            }
        }
        ends += geometric(last[0], last[1]);
        let of_base = (0.5 * size * size * variance.exp()).min(2.0 * size);
        let additions = 1.0 + 0.125 * self.rule.nodes.len() as f64;
        let of_common = (f64::EPSILON + self.rule.log_weight_error) * sum.norm();
        let rounding = f64::EPSILON * (additions * sizes + errors) + of_common;
        let error = common * (rounding + 0.5 * ends) + of_base * self.rule.log_spacing_error(|_| 0.0).exp();
        let change = sum * common - s;
        let base = (change + 1.0).norm();
        let relative = (error + f64::EPSILON * size) / base;
        if relative.is_nan() || relative > 0.5 {
            return LogTransform::UNKNOWN;
        }
        // The ς that is subtracted has the relative error `off`.
        LogTransform::new(complex_ln_1p(change), 1.5 * (relative + off * size / base), size)
    }
}

impl Transform {
    /// At these points ς with arg ς = `angle` in [0, π/2).
    pub(crate) fn new(points: Points, (variance, angle): (f64, f64)) -> Self {
        Self {
            points,
            variance,
            angle,
            moments: Moments::new(variance),
            centred: Centred::new(points, (variance, angle)),
            rules: FxHashMap::default(),
        }
    }

    /// Nodes of a point, about.
    pub(crate) fn size(&self) -> usize {
        self.centred.rule.nodes.len()
    }

    /// log L at point `i`.
    pub(crate) fn at(&mut self, i: i64) -> LogTransform {
        let log_size = self.points.log_size(i);
        let size = log_size.exp();
        let off = f64::EPSILON * (2.5 * log_size.abs() + 2.5);
        let law = (self.variance, self.angle);
        if let Some(found) = self.moments.log_transform(size, (self.angle, off)) {
            return found;
        }
        if log_size <= 0.0 {
            let s = Complex64::from_polar(size, self.angle);
            return self.centred.log_transform(i, (s, off), self.variance);
        }
        let place = (log_size / LENGTH).floor();
        let range = (place * LENGTH, (place + 1.0) * LENGTH);
        let points = self.points;
        let make = || Direct::new(points, law, range);
        let rule = self.rules.entry(place as u32).or_insert_with(make);
        rule.log_transform(i, size, self.variance)
    }
}

/// log L for small ς, from the Taylor series of E[e^{−ς(Y−1)}] in the moments of Y − 1: log L is the logarithm of that series, minus ς.
///
/// With X = Y − 1 ≥ −1 and Re ς ≥ 0, e^{−ςX} differs from its Taylor polynomial of degree J − 1 by at most |ςX|^J·e^{|ς|}/J!, and |X|^J is at most 1 + Y^J,
/// whose expectation is 1 + e^{J(J−1)v/2}. The moments E[X^j] are sums of (−1)^{j−k}·C(j, k)·e^{k(k−1)v/2}, which are at most
/// 2^j·e^{j(j−1)v/2} together.
#[derive(Debug)]
struct Moments {
    /// By j: (−1)^j·E[X^j]/j!, a bound on its rounding error, and the factor (1 + e^{j(j−1)v/2})/j! of |ς|^j in the bound on the remainder of a
    /// series that ends before j.
    terms: [(f64, f64, f64); MOST_MOMENTS + 1],
}

impl Moments {
    fn new(variance: f64) -> Self {
        let raw = |k: usize| (0.5 * (k * k.saturating_sub(1)) as f64 * variance).exp();
        let mut factorial = 1.0;
        let terms = std::array::from_fn(|j| {
            factorial *= j.max(1) as f64;
            let (mut moment, mut binomial, mut sign) = (0.0, 1.0, 1.0);
            for k in (0..=j).rev() {
                moment += sign * binomial * raw(k);
                binomial *= k as f64 / (j + 1 - k) as f64;
                sign = -sign;
            }
            // (−1)^j·Σ (−1)^{j−k} C(j, k) m_k; the second central moment is e^v − 1, without cancellation.
            let exact = if j == 2 { variance.exp_m1() } else { moment };
            let signed = if j % 2 == 0 { exact } else { -exact };
            let size = raw(j) * if j == 2 { 1.0 } else { (2.0f64).powi(j as i32) };
            (
                signed / factorial,
                size / factorial * 4.0 * (j + 1) as f64 * f64::EPSILON * (1.0 + 0.5 * (j * j) as f64 * variance),
                (1.0 + raw(j)) / factorial,
            )
        });
        Self { terms }
    }

    /// log L at `size`·e^{i·angle}, where the series is as accurate as ς itself.
    fn log_transform(&self, size: f64, (angle, off): (f64, f64)) -> Option<LogTransform> {
        if size > LARGEST_SERIES {
            return None;
        }
        let rest = |j: usize| 1.1 * self.terms[j].2 * size.powi(j as i32);
        let count = (3..=MOST_MOMENTS).find(|&j| rest(j) <= 0.25 * f64::EPSILON * size)?;
        let s = Complex64::from_polar(size, angle);
        let (mut sum, mut error, mut sizes) = (Complex64::default(), 0.0, 0.0);
        for &(term, off, _) in self.terms[2..count].iter().rev() {
            sum = sum * s + term;
            error = error * size + off;
            sizes = sizes * size + term.abs();
        }
        let square = size * size;
        let value = sum * s * s;
        let error = error * square + 8.0 * f64::EPSILON * sizes * square + rest(count);
        let log = complex_ln_1p(value) - s;
        Some(LogTransform::new(log, 1.5 * (error + off * size), size))
    }
}

#[cfg(test)]
mod tests;
