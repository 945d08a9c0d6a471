//! log L(ς), L(ς) = E[e^{−ςY}] of one batch, along a ray of complex ς of any size.
//!
//! All that is needed of a batch is this one function: as Y^k times the density of Y is e^{k(k−1)v/2} times that of e^{kv}·Y,
//! E[Y^k e^{−ςY}] = e^{k(k−1)v/2}·L(e^{kv}ς), with e^{kv}ς on the same ray.
//!
//! L is a sum by the trapezoid rule over the standard normal g in log Y = √v·g − v/2, on a line g − iβ. The saddle point of its integrand is
//! at g = −√v·q, log q + vq = log ς − v/2; with β = √v·Im q the terms have nearly one phase, and with q their curvature is 1 + v·Re q.
//!
//! * **Spacing.** The integrand is entire, and its modulus on the lines Im g = −b, b = β ± a, has the integral e^{b²/2}·E[e^{−xY}],
//!   x = |ς|·cos(θ − √vb), if the cosine is positive. So the error is at most the sum of both times e^{−2πa/h}/(1 − e^{−2πa/h}). For every q > 0,
//!   with Y₀ = q/x, Y ≥ Y₀(1 + log(Y/Y₀)) gives e^{−xY} ≤ e^{−q}(Y/Y₀)^{−q}, whose expectation is e^{−q}·(q/x)^q·e^{q(q+1)v/2}.
//! * **Ends.** The logarithms of the moduli of the terms are concave: what is left out is below a geometric series with the ratio of
//!   the two outermost terms.
//! * **Centred.** For |ς| ≤ 1 the sum is that of e^{−ς(Y − 1)} − 1 + ς(Y − 1), whose expectation is e^ς·L(ς) − 1: then log L has the error of its
//!   own second order. It is at most |ς|²(1 + |Y|)²e^{|ς|}/2, on the lines too.

use crate::loss::allocation::excess::excess_at;
use crate::special::log_space::complex_ln_1p;
use realfft::num_complex::Complex64;
use rustc_hash::FxHashMap;
use std::f64::consts::TAU;

/// Distances a of the lines that bound the error of the rule, over the width of the terms: the one with the widest spacing is taken.
const LINES: [f64; 15] = [
    8.0, 6.5, 5.2, 4.2, 3.4, 2.7, 2.1, 1.7, 1.3, 1.0, 0.75, 0.5, 0.35, 0.25, 0.16,
];
/// The largest phase of ςY on these lines.
const WIDEST_PHASE: f64 = 1.5;
/// How much further than to the saddle point Y is turned at most, in widths of the terms: it costs digits.
const MOST_TURNED: f64 = 1.3;
/// −log of the relative error that the spacing may leave.
const LEVEL: f64 = 38.5;
/// Widths of terms to which sums reach.
const REACH: f64 = 9.2;
/// Terms whose logarithm is so far below the largest are left out, and counted as errors.
const NEGLIGIBLE: f64 = 42.0;
/// Rules are made for log |ς| in intervals of this length.
const LENGTH: f64 = 1.0;
/// Moments of Y − 1 that are used for small |ς|, and the largest |ς|: the logarithm of 1 plus the excess is then small.
const MOST_MOMENTS: usize = 14;
const LARGEST_SERIES: f64 = 0.05;
/// Steps of Newton's method: what it finds serves as a choice.
const ROUNDS: usize = 6;
/// Terms that are added up before their sum is added.
const BLOCK: usize = 12;
/// A step of it that is the last.
const CLOSE: f64 = 1e-3;

/// The trapezoid rules of one batch along the ray at one angle.
#[derive(Debug)]
pub(crate) struct Transform {
    variance: f64,
    angle: f64,
    moments: Moments,
    centred: Rule,
    /// By the interval of log |ς| > 0.
    rules: FxHashMap<u32, Rule>,
}

/// One rule.
#[derive(Debug)]
struct Rule {
    beta: f64,
    /// cos and sin of the phase θ − √vβ of ςY.
    phase: (f64, f64),
    /// For both lines: log of e^{b²/2 − 2πa/h}/(1 − e^{−2πa/h}), and cos(θ − √vb).
    lines: [(f64, f64); 2],
    /// log(h/√2π) + β²/2.
    log_weight: f64,
    outputs: Vec<Output>,
}

/// A node.
#[derive(Debug, Clone, Copy)]
struct Output {
    y: f64,
    /// The relative rounding of |ς|Y in exponents and phases.
    y_slack: f64,
    /// g²/2 and gβ.
    half_square: f64,
    turn: f64,
    /// e^{−g²/2}, and the same times e^{igβ}.
    weight: f64,
    turned: Complex64,
}

/// log L at a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogTransform {
    pub(crate) value: Complex64,
    pub(crate) error: f64,
}

impl LogTransform {
    const UNKNOWN: Self = Self {
        value: Complex64::new(0.0, 0.0),
        error: f64::INFINITY,
    };
}

/// Sums of terms over a common factor, and of what bounds their errors.
#[derive(Default)]
struct Sum {
    value: Complex64,
    size: f64,
    /// Moduli times |ς|Y, and times the roundings of their exponents and phases in units of the machine's.
    with_y: f64,
    roundings: f64,
}

/// q with log q + qv = `target`, about: vq is Lambert's function of v·e^`target`.
fn saddle(target: Complex64, variance: f64) -> Complex64 {
    let power = target.exp();
    let mut scaled = (power * variance + 1.0).ln();
    if scaled.norm() > 2.0 {
        scaled -= scaled.ln();
    }
    let mut q = if variance * power.norm() < 1e-3 {
        power
    } else {
        scaled / variance
    };
    for _ in 0..ROUNDS {
        let step = (q.ln() + q * variance - target) / (q * variance + 1.0);
        q *= (-step).exp();
        if step.norm() < CLOSE {
            break;
        }
    }
    q
}

/// log of a bound on E[e^{−xY}], x > 0: the best of e^{−q}·(q/x)^q·e^{q(q+1)v/2} that Newton's method finds, and 1.
fn log_suppressed(x: f64, variance: f64) -> f64 {
    let q = saddle(Complex64::from(x.ln() - 0.5 * variance), variance).re;
    let log = -q + q * (q / x).ln() + 0.5 * q * (q + 1.0) * variance;
    let size = q * (1.0 + q * variance + (q / x).ln().abs());
    if log < 0.0 { log + 1e-14 * size } else { 0.0 }
}

/// A choice of lines: β, a, h.
struct Choice {
    beta: f64,
    line: f64,
    spacing: f64,
}

impl Choice {
    /// The widest spacing, where `log_on_line` bounds the integral on a line over the sum.
    fn best((variance, angle, beta): (f64, f64, f64), width: f64, log_on_line: impl Fn(f64) -> f64) -> Self {
        let root = variance.sqrt();
        let mut best = Self {
            beta,
            line: 0.1 * width,
            spacing: 1e-3 * width,
        };
        let natural = beta;
        for line in LINES.map(|line| line * width) {
            let beta = natural.max(line - (WIDEST_PHASE - angle) / root);
            if beta > natural + MOST_TURNED * width {
                continue;
            }
            let lines = [beta - line, beta + line];
            let phases = lines.map(|b| angle - root * b);
            if phases.iter().any(|phase| phase.abs() > WIDEST_PHASE + 1e-9) {
                continue;
            }
            let worst = lines.map(&log_on_line);
            let level = LEVEL + worst[0].max(worst[1]).max(0.0);
            let spacing = TAU * line / level;
            if spacing > best.spacing {
                best = Self { beta, line, spacing };
            }
        }
        best
    }
}

impl Rule {
    /// With these lines, nodes from g = `low` to `high`.
    fn new(variance: f64, angle: f64, choice: &Choice, (low, high): (f64, f64)) -> Self {
        let root = variance.sqrt();
        let &Choice { beta, line, spacing } = choice;
        let suppressed = -TAU * line / spacing;
        let of = |b: f64| {
            (
                0.5 * b * b + suppressed - (-suppressed.exp()).ln_1p(),
                (angle - root * b).cos(),
            )
        };
        let output = |i: i64| {
            let g = i as f64 * spacing;
            let log = root * g - 0.5 * variance;
            Output {
                y: log.exp(),
                y_slack: 3.0 + root * g.abs() + variance,
                half_square: 0.5 * g * g,
                turn: g * beta,
                weight: (-0.5 * g * g).exp(),
                turned: Complex64::from_polar((-0.5 * g * g).exp(), g * beta),
            }
        };
        let (first, last) = ((low / spacing).floor() as i64, (high / spacing).ceil() as i64);
        let phase = angle - root * beta;
        Self {
            beta,
            phase: (phase.cos(), phase.sin()),
            lines: [of(beta - line), of(beta + line)],
            log_weight: (spacing / TAU.sqrt()).ln() + 0.5 * beta * beta,
            outputs: (first..=last).map(output).collect(),
        }
    }

    /// For |ς| ≤ 1.
    fn centred(variance: f64, angle: f64) -> Self {
        let root = variance.sqrt();
        let choice = Choice::best((variance, angle, 0.0), 1.0, |b| 0.5 * b * b + 2.0);
        Self::new(variance, angle, &choice, (-REACH, REACH + 2.0 * root))
    }

    /// For log |ς| in an interval.
    fn direct(variance: f64, angle: f64, (low, high): (f64, f64)) -> Self {
        let root = variance.sqrt();
        let target = |log: f64| Complex64::new(log - 0.5 * variance, angle);
        let middle = 0.5 * (low + high);
        let q = saddle(target(middle), variance);
        let width = |q: Complex64| (1.0 + variance * q.re.max(0.0)).sqrt().recip();
        let beta = (root * q.im).max(0.0);
        let log = (-0.5 * variance * q * q - q).re + width(q).ln();
        let size = middle.exp();
        let choice = Choice::best((variance, angle, beta), width(q), |b| {
            0.5 * b * b + log_suppressed(size * (angle - root * b).cos(), variance) - log
        });
        let ends = [low, high].map(|log| saddle(target(log), variance));
        let right = -root * ends[0].re + REACH * width(ends[0]);
        let left = -root * ends[1].re - REACH;
        Self::new(variance, angle, &choice, (left, right.max(left + 1.0)))
    }

    fn is_real(&self) -> bool {
        self.phase.1 == 0.0 && self.beta == 0.0
    }

    /// log of a bound on the error that the spacing leaves, where the integrand on a line has the modulus of e^{−xY} times e^`more`.
    fn log_spacing_error(&self, log_integral: impl Fn(f64) -> f64) -> f64 {
        let [first, second] = self.lines.map(|(log, cosine)| log + log_integral(cosine));
        first.max(second) + std::f64::consts::LN_2
    }

    /// log of the modulus of the term at a node.
    fn log_term(&self, size: f64, i: usize) -> f64 {
        -self.outputs[i].half_square - size * self.outputs[i].y * self.phase.0
    }

    /// The range of nodes whose terms count at |ς| = `size`, and the logarithm of the largest.
    fn range(&self, size: f64) -> (usize, usize, f64) {
        let last = self.outputs.len() - 1;
        let first_where = |from: usize, to: usize, holds: &dyn Fn(usize) -> bool| {
            let (mut low, mut high) = (from, to);
            while high > low {
                let middle = (low + high) / 2;
                if holds(middle) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            low
        };
        let top = first_where(0, last, &|i| self.log_term(size, i + 1) <= self.log_term(size, i));
        let log = self.log_term(size, top);
        let start = first_where(0, top, &|i| self.log_term(size, i) > log - NEGLIGIBLE);
        let end = first_where(top, last, &|i| self.log_term(size, i) <= log - NEGLIGIBLE);
        (start, end, log)
    }

    /// A bound on what lies beyond the node `outer`, next to which `inner` is, over e^`log`.
    fn beyond(&self, size: f64, inner: usize, outer: usize, log: f64) -> f64 {
        let (inner, outer) = (self.log_term(size, inner), self.log_term(size, outer));
        geometric((inner - log).exp(), (outer - log).exp())
    }

    fn log_direct(&self, variance: f64, size: f64, off: f64) -> LogTransform {
        let (start, end, log) = self.range(size);
        if end < start + 2 {
            return LogTransform::UNKNOWN;
        }
        let is_real = self.is_real();
        let mut sum = Sum::default();
        for outputs in self.outputs[start..=end].chunks(BLOCK) {
            let mut block = Complex64::default();
            for output in outputs {
                let x = size * output.y;
                let modulus = (-output.half_square - x * self.phase.0 - log).exp();
                block += if is_real {
                    Complex64::from(modulus)
                } else {
                    Complex64::from_polar(modulus, output.turn - x * self.phase.1)
                };
                sum.size += modulus;
                sum.with_y += modulus * x;
                sum.roundings +=
                    modulus * (1.5 * output.half_square + output.y_slack * x + 0.5 * output.turn.abs());
            }
            sum.value += block;
        }
        let ends = self.beyond(size, start + 1, start, log) + self.beyond(size, end - 1, end, log);
        let on_lines = self.log_spacing_error(|cosine| log_suppressed(size * cosine, variance));
        let spacing = (on_lines - self.log_weight - log).exp();
        let blocks = (end - start) / BLOCK + 1;
        let additions = 0.5 * (BLOCK + blocks) as f64 + 4.0 + 0.5 * log.abs();
        let rounding = f64::EPSILON * (additions * sum.size + sum.roundings);
        let relative = (rounding + ends + spacing + 1.1 * off * sum.with_y) / sum.value.norm();
        if relative.is_nan() || relative > 0.5 {
            return LogTransform::UNKNOWN;
        }
        let value = sum.value.ln() + (log + self.log_weight);
        LogTransform {
            value,
            error: 1.5 * relative + 4.0 * f64::EPSILON * (value.norm() + log.abs()),
        }
    }

    fn log_centred(&self, variance: f64, (s, off): (Complex64, f64)) -> LogTransform {
        let size = s.norm();
        let common = self.log_weight.exp();
        let (mut sum, mut sizes, mut errors, mut last) = (Complex64::default(), 0.0, 0.0, [0.0; 2]);
        let mut ends = 0.0;
        for (i, output) in self.outputs.iter().enumerate() {
            let x = size * output.y;
            let z = Complex64::new(s.re - x * self.phase.0, s.im - x * self.phase.1);
            let weight = output.weight;
            let (value, error) = excess_at(z, 3.0 * (x + size));
            sum += output.turned * value;
            sizes += weight * (value.re.abs() + value.im.abs()) * (output.half_square + output.turn.abs() + 4.0);
            errors += weight * error;
            last = [last[1], weight * (size * (1.0 + output.y)).powi(2)];
            if i == 1 {
                ends += geometric(last[1], last[0]);
            }
        }
        ends += geometric(last[0], last[1]);
        let of_base = 0.5 * size * size * size.exp() * (variance.exp() + 3.0);
        let additions = 1.0 + 0.125 * self.outputs.len() as f64;
        let rounding = f64::EPSILON * (additions * sizes + errors);
        let error =
            common * (rounding + 0.5 * ends * size.exp()) + of_base * self.log_spacing_error(|_| 0.0).exp();
        let zeroth = sum * common;
        let base = (zeroth + 1.0).norm();
        let relative = error / base;
        if relative.is_nan() || relative > 0.5 {
            return LogTransform::UNKNOWN;
        }
        let value = complex_ln_1p(zeroth) - s;
        let moved = 1.1 * off * size / (base * (-s.re).exp());
        LogTransform {
            value,
            error: 1.5 * relative + moved + 4.0 * f64::EPSILON * (size + value.norm()),
        }
    }
}

impl Transform {
    /// For ς with arg ς = `angle` in [0, π/2).
    pub(crate) fn new(variance: f64, angle: f64) -> Self {
        Self {
            variance,
            angle,
            moments: Moments::new(variance),
            centred: Rule::centred(variance, angle),
            rules: FxHashMap::default(),
        }
    }

    /// Nodes of a point, about.
    pub(crate) fn size(&self) -> usize {
        self.centred.outputs.len()
    }

    /// log L at |ς| = e^`log_size`, where `off` bounds by how much that is inexact.
    pub(crate) fn at(&mut self, log_size: f64, off: f64) -> LogTransform {
        let size = log_size.exp();
        let (variance, angle) = (self.variance, self.angle);
        if let Some(found) = self.moments.log_transform(size, (angle, off)) {
            return found;
        }
        if log_size <= 0.0 {
            return self
                .centred
                .log_centred(variance, (Complex64::from_polar(size, angle), off));
        }
        let place = (log_size / LENGTH).floor();
        let range = (place * LENGTH, (place + 1.0) * LENGTH);
        let make = || Rule::direct(variance, angle, range);
        let rule = self.rules.entry(place as u32).or_insert_with(make);
        rule.log_direct(variance, size, off)
    }
}

/// The excess over its first terms, for small ς.
///
/// With X = Y − 1 ≥ −1 and Re ς ≥ 0, e^{−ςX} differs from its Taylor polynomial of degree J − 1 by at most |ςX|^J·e^{|ς|}/J!, and |X|^J is at most 1 + Y^J,
/// whose expectation is 1 + e^{J(J−1)v/2}. The moments E[X^j] are sums of (−1)^{j−k}·C(j, k)·e^{k(k−1)v/2}, which are at most
/// 2^j·e^{j(j−1)v/2} together.
#[derive(Debug)]
struct Moments {
    /// (−1)^j·E[X^j]/j!, bounds on their errors, and (1 + e^{j(j−1)v/2})/j!, by j.
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
            // (−1)^j·Σ (−1)^{j−k} C(j, k) m_k; the second one without cancellation.
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
        Some(LogTransform {
            value: log,
            error: 1.5 * error + (1.5 * off + 4.0 * f64::EPSILON) * size + 4.0 * f64::EPSILON * log.norm(),
        })
    }
}

/// What follows a term `outer` after `inner` at most.
fn geometric(inner: f64, outer: f64) -> f64 {
    let ratio = outer / inner;
    match ratio {
        _ if outer == 0.0 => 0.0,
        ratio if ratio < 0.99 => outer * ratio / (1.0 - ratio),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests;
