//! ψ_n(s) = E_Q[W^n e^{−sW}] along a ray of complex s, with bounds on all errors.
//!
//! ψ_n(s)/n! is the coefficient of x^n in Π_j L_j((s − x)/t)^{count_j}·e^{−a(s − x)}, where L_j(ς) = E[e^{−ςY}] and a is the share of
//! batches that are not released. The coefficients E[Y^k e^{−ςY}]/k! of L_j are sums by the trapezoid rule over the standard normal g in
//! log Y = √v·g − v/2, along the line g − iβ, on which Y is turned by √v·β so that e^{−ςY} is small where Y is large.
//!
//! * **Spacing.** The integrand is entire and at most e^{b²/2}·φ(g)·B_k on the lines Im g = −b, b = β ± a, with B_k a bound on
//!   |Y^k e^{−ςY}| there: both keep the phase of ςY within [−1.2, 1.2]. The error is at most 2·e^{b²/2}·E[B_k]·q/(1 − q), where
//!   q = e^{−2πa/h} = e^{−42}.
//! * **Ends.** The moduli of the terms are log-concave in g, so that those that are left out are below those of
//!   a geometric series with the ratio of the last two that are not.
//! * **Rounding.** Bounds on all terms are summed along. For |ς| ≤ 1 the sum is that of e^{−ς(Y − 1)} − 1 + ς(Y − 1), whose expectation is
//!   e^ς·L(ς) − 1: the power L^t has then the relative error of its exponent and not t times that of L.

use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::series::{power, product};
use crate::special::log_space::log_modulus_1p;
use realfft::num_complex::Complex64;
use std::f64::consts::PI;

/// Largest order n.
pub(crate) const MAX_ORDER: usize = 24;
/// Largest phase of ςY on the lines that bound the error of the trapezoid rule.
const WIDEST_PHASE: f64 = 1.2;
/// The distance a of these lines, at most.
const FARTHEST_LINE: f64 = 1.4;
/// −log q: what the spacing of the nodes leaves.
const LEVEL: f64 = 42.0;
/// Standard deviations to which the normal law is summed.
const REACH: f64 = 9.6;
/// Terms below this part of the sum end it.
const NEGLIGIBLE: f64 = 1e-21;
/// Terms that are added up before they are added to the others.
const BLOCK: usize = 8;

/// ψ_n at one point: e^`log_scale`·(`value` ± `error`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) log_scale: f64,
    pub(crate) value: Complex64,
    pub(crate) error: f64,
}

/// ψ_n along s = r·e^{iθ}, θ in [0, π/2).
#[derive(Debug)]
pub(crate) struct Ray {
    order: usize,
    total: f64,
    still: f64,
    /// e^{iθ}.
    direction: Complex64,
    /// The least scale of the series, for which E[Y^k]·scale^k is at most 1.
    least_scale: f64,
    rules: Vec<Rule>,
}

/// The trapezoid rule for one kind of batch.
#[derive(Debug)]
struct Rule {
    part: Part,
    outputs: Vec<Output>,
    /// e^{−i√vβ}.
    turn: Complex64,
    /// cos and sin of the phase of ςY.
    phase: (f64, f64),
    /// 2·e^{b²/2}·q/(1 − q).
    spacing_error: f64,
}

/// A node: |Y|, the weight and its modulus.
#[derive(Debug, Clone, Copy)]
struct Output {
    y: f64,
    weight: Complex64,
    size: f64,
}

/// Sums over the nodes, by k.
#[derive(Clone, Copy)]
struct Sums {
    values: [Complex64; MAX_ORDER + 1],
    /// Sums of moduli, and of moduli times their relative errors in units of the machine's.
    sizes: [f64; MAX_ORDER + 1],
    errors: [f64; MAX_ORDER + 1],
}

/// log L^count and the series of L/L(ς), to the power of the count.
struct Factor {
    exponent: Complex64,
    exponent_error: f64,
    coefficients: Vec<Complex64>,
    majorants: Vec<f64>,
    coefficient_error: f64,
}

impl Ray {
    /// The ray at `angle` for r ≤ e^`log_largest`.
    pub(crate) fn new(bins: &Bins, order: usize, angle: f64, log_largest: f64) -> Self {
        let largest = log_largest.exp() / bins.total;
        let rule = |part: &Part| Rule::new(*part, order, angle, largest);
        Self {
            order,
            total: bins.total,
            still: bins.still,
            direction: Complex64::from_polar(1.0, angle),
            least_scale: (-0.5 * bins.widest() * order.saturating_sub(1) as f64).exp(),
            rules: bins.parts.iter().map(rule).collect(),
        }
    }

    /// Number of nodes that one point takes.
    pub(crate) fn size(&self) -> usize {
        self.rules.iter().map(|rule| rule.outputs.len() * (4 + self.order)).sum::<usize>() / 4
    }

    /// ψ_n at s = e^`log_s`·e^{iθ}.
    pub(crate) fn at(&self, log_s: f64) -> Node {
        let r = log_s.exp();
        let size = r / self.total;
        let scale = size.max(self.least_scale);
        let n = self.order;
        let mut exponent = self.direction * (-self.still * r);
        let mut exponent_error = 4.0 * f64::EPSILON * (exponent.norm() + log_s.abs().min(1.0) * r);
        let step = self.still * self.total * scale;
        let mut series = vec![Complex64::new(1.0, 0.0)];
        let mut bounds = vec![1.0];
        for k in 1..=n {
            series.push(series[k - 1] * (step / k as f64));
            bounds.push(bounds[k - 1] * (step / k as f64));
        }
        let mut coefficient_error: f64 = 0.0;
        for rule in &self.rules {
            let factor = rule.factor(self.direction * size, size, scale, n);
            exponent += factor.exponent;
            exponent_error += factor.exponent_error;
            coefficient_error = coefficient_error.max(factor.coefficient_error);
            if n > 0 {
                series = product(&series, &factor.coefficients);
                bounds = product(&bounds, &factor.majorants);
            }
        }
        let order = n as f64;
        let log_factorial = (1..=n).map(|k| (k as f64).ln()).sum::<f64>();
        let shift = order * (self.total * scale).ln();
        let roundings = (order * (order + 12.0) + 8.0) * f64::EPSILON * (1.0 + self.rules.len() as f64);
        let in_terms = (order * coefficient_error).exp_m1() + roundings;
        let value = series[n] * Complex64::from_polar(1.0, exponent.im);
        let outer = exponent_error + 4.0 * f64::EPSILON * (exponent.norm() + log_factorial + shift.abs() + 2.0);
        Node {
            log_scale: exponent.re + log_factorial - shift,
            value,
            error: bounds[n] * in_terms + value.norm() * outer.exp_m1(),
        }
    }
}

impl Rule {
    fn new(part: Part, order: usize, angle: f64, largest: f64) -> Self {
        let root = part.variance.sqrt();
        let line = FARTHEST_LINE.min(WIDEST_PHASE / root);
        let beta = (line - (WIDEST_PHASE - angle) / root).max(0.0);
        let spacing = 2.0 * PI * line / LEVEL;
        let farthest = (beta - line).abs().max(beta + line);
        let low = REACH + (root * largest).min(largest.ln_1p() / root);
        let high = REACH + order as f64 * root;
        let (first, last) = (-(low / spacing).ceil() as i64, (high / spacing).ceil() as i64);
        let output = |i: i64| {
            let g = i as f64 * spacing;
            let size = spacing / (2.0 * PI).sqrt() * (0.5 * (beta * beta - g * g)).exp();
            Output {
                y: (root * g - 0.5 * part.variance).exp(),
                weight: Complex64::from_polar(size, g * beta),
                size,
            }
        };
        let q = (-LEVEL).exp();
        Self {
            part,
            outputs: (first..=last).map(output).collect(),
            turn: Complex64::from_polar(1.0, -root * beta),
            phase: ((angle - root * beta).cos(), (angle - root * beta).sin()),
            spacing_error: 2.0 * (0.5 * farthest * farthest).exp() * q / (1.0 - q),
        }
    }

    /// The factor at ς, |ς| = `size`, with the coefficients of x^k times (t·`scale`)^k.
    fn factor(&self, s: Complex64, size: f64, scale: f64, n: usize) -> Factor {
        let centred = size <= 1.0;
        let (sums, ends) = self.sums(s, size, scale, n, centred);
        let unit = f64::EPSILON;
        let growth = if centred { s.re.exp() } else { 1.0 };
        let base = if centred { sums.values[0] + 1.0 } else { sums.values[0] };
        // Of the expectation of e^{−ς(Y−1)} − 1 + ς(Y − 1): at most |ς|²|Y − 1|²/2·e^{|ς|} on the lines.
        let of_base = if centred {
            0.5 * size * size * size.exp() * (self.part.variance.exp() + 3.0)
        } else {
            1.0
        };
        let base_error = sums.errors[0] * unit + ends[0] + self.spacing_error * of_base;
        let relative = base_error / base.norm();
        let (log, own) = if centred {
            (Complex64::new(log_modulus_1p(sums.values[0].re, sums.values[0].im), base.arg()) - s, s.norm())
        } else {
            (base.ln(), 0.0)
        };
        let count = self.part.count;
        let exponent_error = if relative < 0.5 {
            count * (1.5 * relative + 4.0 * unit * (own + log.norm()))
        } else {
            f64::INFINITY
        };
        let mut coefficients = vec![Complex64::new(1.0, 0.0); n + 1];
        let mut majorants = vec![1.0; n + 1];
        let (mut coefficient_error, mut turn, mut factorial) = (0.0f64, Complex64::new(1.0, 0.0), 1.0);
        for k in 1..=n {
            turn *= self.turn;
            factorial *= k as f64;
            coefficients[k] = sums.values[k] * turn / (base * factorial);
            majorants[k] = sums.sizes[k] / (base.norm() * factorial);
            let error = sums.errors[k] * unit + ends[k] + self.spacing_error * growth * self.on_lines(k, size, scale);
            coefficient_error = coefficient_error.max(error / sums.sizes[k] + 2.0 * relative + 8.0 * unit);
        }
        if n > 0 {
            coefficients = power(&coefficients, count);
            majorants = power(&majorants, count);
        }
        Factor {
            exponent: log * count,
            exponent_error,
            coefficients,
            majorants,
            coefficient_error,
        }
    }

    /// A bound on E[|Y^k e^{−ςY}|]·scale^k on the lines.
    fn on_lines(&self, k: usize, size: f64, scale: f64) -> f64 {
        let k = k as f64;
        let moment = 0.5 * self.part.variance * k * (k - 1.0) + k * scale.ln();
        let largest = k * ((k * scale / (size * WIDEST_PHASE.cos())).ln() - 1.0);
        moment.min(largest).exp()
    }

    /// The sums over the nodes, and bounds on what they leave out.
    fn sums(&self, s: Complex64, size: f64, scale: f64, n: usize, centred: bool) -> (Sums, [f64; MAX_ORDER + 1]) {
        let empty = Sums {
            values: [Complex64::default(); MAX_ORDER + 1],
            sizes: [0.0; MAX_ORDER + 1],
            errors: [0.0; MAX_ORDER + 1],
        };
        let (mut all, mut block) = (empty, empty);
        let mut ends = [0.0; MAX_ORDER + 1];
        let (mut before, mut last) = ([0.0f64; MAX_ORDER + 1], [0.0f64; MAX_ORDER + 1]);
        let shift = if centred { s } else { Complex64::default() };
        let first_sizes = 2usize;
        let mut used = 0;
        for (place, output) in self.outputs.iter().enumerate() {
            let x = size * output.y;
            let z = Complex64::new(shift.re - x * self.phase.0, shift.im - x * self.phase.1);
            let modulus = z.re.exp();
            let (sine, cosine) = z.im.sin_cos();
            let turned = Complex64::new(modulus * cosine, modulus * sine);
            let slack = 3.0 * (x + size);
            let (mut term, mut part) = (output.weight * turned, output.size * modulus);
            (before, last) = (last, before);
            if centred {
                let (value, error) = excess(z, turned, slack);
                block.values[0] += output.weight * value;
                block.sizes[0] += output.size * value.norm();
                block.errors[0] += output.size * (error + 8.0 * value.norm());
                last[0] = output.size * size * size * (1.0 + output.y) * (1.0 + output.y) * 0.5 * size.exp();
            } else {
                block.values[0] += term;
                block.sizes[0] += part;
                block.errors[0] += part * (10.0 + slack);
                last[0] = part;
            }
            let factor = output.y * scale;
            for k in 1..=n {
                term *= factor;
                part *= factor;
                block.values[k] += term;
                block.sizes[k] += part;
                block.errors[k] += part * (10.0 + 2.0 * k as f64 + slack);
                last[k] = part;
            }
            used = place + 1;
            if used % BLOCK == 0 {
                all.take(&mut block, n);
            }
            if used == first_sizes {
                leave_out(&mut ends, &last, &before, n);
            }
            let enough = last[0] < NEGLIGIBLE * all.sizes[0] && last[n] < NEGLIGIBLE * all.sizes[n];
            if output.y > 1.0 && enough && last[0] < 0.25 * before[0] && (1..=n).all(|k| last[k] < 0.25 * before[k]) {
                break;
            }
        }
        all.take(&mut block, n);
        leave_out(&mut ends, &before, &last, n);
        let additions = (BLOCK + used.div_ceil(BLOCK)) as f64;
        for k in 0..=n {
            all.errors[k] += additions * all.sizes[k];
        }
        (all, ends)
    }
}

impl Sums {
    /// Adds `block` and empties it.
    fn take(&mut self, block: &mut Self, n: usize) {
        for k in 0..=n {
            self.values[k] += block.values[k];
            self.sizes[k] += block.sizes[k];
            self.errors[k] += block.errors[k];
            block.values[k] = Complex64::default();
            (block.sizes[k], block.errors[k]) = (0.0, 0.0);
        }
    }
}

/// Adds a bound on what lies beyond the term `outer`, next to which `inner` is: a geometric series, as terms are log-concave.
fn leave_out(ends: &mut [f64], inner: &[f64], outer: &[f64], n: usize) {
    for k in 0..=n {
        let ratio = outer[k] / inner[k];
        ends[k] += match ratio {
            _ if outer[k] == 0.0 => 0.0,
            ratio if ratio < 0.99 => outer[k] * ratio / (1.0 - ratio),
            _ => f64::INFINITY,
        };
    }
}

/// e^z − 1 − z, where e^z is `exponential`, and a bound on its error in units of the machine's.
fn excess(z: Complex64, exponential: Complex64, slack: f64) -> (Complex64, f64) {
    /// Terms of the series for |z| < 0.3: the first that is left out is below 1e-16 of the sum.
    const TERMS: usize = 12;
    if z.norm_sqr() > 0.09 {
        let value = exponential - 1.0 - z;
        return (value, exponential.norm() * (3.0 + slack) + 2.0 + slack + 2.0 * z.norm());
    }
    let mut sum = Complex64::new(1.0, 0.0);
    for k in (3..TERMS + 3).rev() {
        sum = Complex64::new(1.0, 0.0) + sum * z * (1.0 / k as f64);
    }
    let value = z * z * sum * 0.5;
    (value, value.norm() * 8.0 + z.norm() * slack)
}

#[cfg(test)]
mod tests;
