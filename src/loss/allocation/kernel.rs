//! ψ_n(s) = E_Q[W^n e^{−sW}] along a ray of complex s, with bounds on all errors.
//!
//! ψ_n(s)/n! is the coefficient of x^n in Π_j L_j((s − x)/t)^{count_j}·e^{−a(s − x)}, where L_j(ς) = E[e^{−ςY}] and a is the share of
//! batches that are not released. The coefficients E[Y^k e^{−ςY}]/k! of L_j are sums by the trapezoid rule over the standard normal g in
//! log Y = √v·g − v/2, along the line g − iβ, on which Y is turned by √v·β so that e^{−ςY} is small where Y is large.
//!
//! * **Spacing.** The integrand is entire and at most e^{b²/2}·φ(g)·B_k on the lines Im g = −b, b = β ± a, with B_k a bound on
//!   |Y^k e^{−ςY}| there: both keep the phase of ςY within [−1.5, 1.5]. The error is at most 2·e^{b²/2}·E\[B_k\]·q/(1 − q), where
//!   q = e^{−2πa/h} = e^{−40}.
//! * **Ends.** The moduli of the terms are log-concave in g, so that those that are left out are below those of
//!   a geometric series with the ratio of the last two that are not.
//! * **Rounding.** Bounds on all terms are summed along. For |ς| ≤ 1 the sum is that of e^{−ς(Y − 1)} − 1 + ς(Y − 1), whose expectation is
//!   e^ς·L(ς) − 1: the power L^t has then the relative error of its exponent and not t times that of L.

use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::excess::excess;
use crate::loss::allocation::kernel::sums::{LANES, Lanes, Moduli, Sums, Terms, leave_out, outweighs};
use crate::loss::allocation::series::{power, product};
use crate::special::log_space::complex_ln_1p;
use realfft::num_complex::Complex64;
use std::f64::consts::PI;

mod sums;

/// Largest order n of sums over nodes.
pub(crate) const MAX_ORDER: usize = 64;
/// Largest phase of ςY on the lines that bound the error of the trapezoid rule, where v is small and elsewhere: turning further costs
/// digits where v is small, as e^{b²/2} grows, and turning less where it is large, as large Y are then hardly suppressed on the lines.
const WIDEST_PHASES: (f64, f64) = (1.5, 1.3);
/// The largest v that is small.
const SMALL_VARIANCE: f64 = 0.5;
/// The distance a of these lines, at most.
const FARTHEST_LINE: f64 = 1.0;
/// The distance a at most, times the root of the order.
const ORDER_LINE: f64 = 2.0;
/// −log q: what the spacing of the nodes leaves.
const LEVEL: f64 = 40.0;
/// Standard deviations to which the normal law is summed.
const REACH: f64 = 9.0;
/// Terms below this part of the sum end it.
const NEGLIGIBLE: f64 = 1e-21;
/// Weights below this are those of no node: their reciprocals would be beyond the range of numbers.
const LEAST_WEIGHT: f64 = 1e-290;

/// ψ_n at one point: e^`log_scale`·(`value` ± `error`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) log_scale: f64,
    pub(crate) value: Complex64,
    pub(crate) error: f64,
}

impl Node {
    /// A value of which nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        log_scale: 0.0,
        value: Complex64::new(1.0, 0.0),
        error: f64::INFINITY,
    };
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
    /// The cosine of the largest phase of ςY on the lines that bound the error of the rule.
    on_lines: f64,
    /// 2·e^{b²/2}·q/(1 − q).
    spacing_error: f64,
    /// m·log m by m.
    entropies: ByOrder,
}

/// A node: |Y|, the weight, its modulus and their ratio.
#[derive(Debug, Clone, Copy)]
struct Output {
    y: f64,
    weight: Complex64,
    size: f64,
    direction: Complex64,
}

/// Numbers by k.
type ByOrder = [f64; MAX_ORDER + 1];

/// log L^count and the series of L/L(ς), to the power of the count.
struct Factor {
    exponent: Complex64,
    exponent_error: f64,
    coefficients: Vec<Complex64>,
    /// Bounds on the coefficients, computed or exact.
    majorants: Vec<f64>,
    /// The number of batches times bounds on the errors of the coefficients of L: those of the power are the product with the majorants.
    errors: Vec<f64>,
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
        self.rules
            .iter()
            .map(|rule| rule.outputs.len() * (4 + self.order))
            .sum::<usize>()
            / 4
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
        let mut errors = vec![0.0; n + 1];
        for rule in &self.rules {
            let factor = rule.factor(self.direction * size, size, scale, n);
            exponent += factor.exponent;
            exponent_error += factor.exponent_error;
            for (sum, error) in errors.iter_mut().zip(&factor.errors) {
                *sum += error;
            }
            if n > 0 {
                series = product(&series, &factor.coefficients);
                bounds = product(&bounds, &factor.majorants);
            }
        }
        let order = n as f64;
        let log_factorial = (1..=n).map(|k| (k as f64).ln()).sum::<f64>();
        let shift = order * (self.total * scale).ln();
        let roundings = (0.5 * order * (order + 12.0) + 8.0) * f64::EPSILON * (1.0 + self.rules.len() as f64);
        let in_terms: f64 = (1..=n).map(|k| errors[k] * bounds[n - k]).sum();
        let value = series[n] * Complex64::from_polar(1.0, exponent.im);
        let outer = exponent_error + 4.0 * f64::EPSILON * (exponent.norm() + log_factorial + shift.abs() + 2.0);
        Node {
            log_scale: exponent.re + log_factorial - shift,
            value,
            error: 1.01 * in_terms + bounds[n] * roundings + value.norm() * outer.exp_m1(),
        }
    }
}

impl Rule {
    fn new(part: Part, order: usize, angle: f64, largest: f64) -> Self {
        let root = part.variance.sqrt();
        let widest = if part.variance <= SMALL_VARIANCE {
            WIDEST_PHASES.0
        } else {
            WIDEST_PHASES.1
        };
        // Moduli of the terms are e^{β²/2} too large, and their products in the n-th coefficient the n-th power of that.
        let line = FARTHEST_LINE
            .min(widest / root)
            .min(ORDER_LINE / (order.max(1) as f64).sqrt());
        let beta = (line - (widest - angle) / root).max(0.0);
        let on_lines = (angle - root * (beta - line))
            .abs()
            .max((angle - root * (beta + line)).abs());
        let spacing = 2.0 * PI * line / LEVEL;
        let farthest = (beta - line).abs().max(beta + line);
        let low = REACH + (root * largest).min(largest.ln_1p() / root);
        // The bound on what the centred sum leaves out has the second moment of Y.
        let high = REACH + order.max(2) as f64 * root;
        let (first, last) = (-(low / spacing).ceil() as i64, (high / spacing).ceil() as i64);
        let output = |i: i64| {
            let g = i as f64 * spacing;
            let size = spacing / (2.0 * PI).sqrt() * (0.5 * (beta * beta - g * g)).exp();
            Output {
                y: (root * g - 0.5 * part.variance).exp(),
                weight: Complex64::from_polar(size, g * beta),
                size,
                direction: Complex64::from_polar(1.0, g * beta),
            }
        };
        let q = (-LEVEL).exp();
        Self {
            part,
            outputs: (first..=last)
                .map(output)
                .filter(|output| output.size > LEAST_WEIGHT)
                .collect(),
            turn: Complex64::from_polar(1.0, -root * beta),
            phase: ((angle - root * beta).cos(), (angle - root * beta).sin()),
            on_lines: on_lines.cos(),
            spacing_error: 2.0 * (0.5 * farthest * farthest).exp() * q / (1.0 - q),
            entropies: std::array::from_fn(|m| if m > 0 { m as f64 * (m as f64).ln() } else { 0.0 }),
        }
    }

    /// The factor at ς, |ς| = `size`, with the coefficients of x^k times (t·`scale`)^k.
    fn factor(&self, s: Complex64, size: f64, scale: f64, n: usize) -> Factor {
        let centred = size <= 1.0;
        let (sums, ends) = self.sums(s, size, scale, n, centred);
        let unit = f64::EPSILON;
        let growth = if centred { s.re.exp() } else { 1.0 };
        let zeroth = Complex64::new(sums.real[0], sums.imaginary[0]);
        let base = if centred { zeroth + 1.0 } else { zeroth };
        let on_lines = if centred {
            self.crude(size, scale, n).map(|bound| growth * bound)
        } else {
            self.suppressed(size, scale, n)
        };
        // Of the expectation of e^{−ς(Y−1)} − 1 + ς(Y − 1): at most |ς|²|Y − 1|²/2·e^{|ς|} on the lines.
        let of_base = if centred {
            0.5 * size * size * size.exp() * (self.part.variance.exp() + 3.0)
        } else {
            on_lines[0]
        };
        let base_error = (sums.phases[0] + 10.0 * sums.sizes[0]) * unit + ends[0] + self.spacing_error * of_base;
        let relative = base_error / base.norm();
        let (log, own) = if centred {
            (complex_ln_1p(zeroth) - s, s.norm())
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
        let (mut majorants, mut errors) = (vec![1.0; n + 1], vec![0.0; n + 1]);
        let (mut turn, mut factorial) = (Complex64::new(1.0, 0.0), 1.0);
        for k in 1..=n {
            turn *= self.turn;
            factorial *= k as f64;
            let unit_size = 1.0 / (base.norm() * factorial);
            coefficients[k] = Complex64::new(sums.real[k], sums.imaginary[k]) * turn / (base * factorial);
            let rounding = (sums.phases[k] + (14.0 + 4.0 * k as f64) * sums.sizes[k]) * unit;
            let spacing = self.spacing_error * on_lines[k];
            errors[k] = (rounding + ends[k] + spacing) * unit_size + 2.0 * relative * coefficients[k].norm();
            majorants[k] = sums.sizes[k] * unit_size + errors[k];
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
            errors: errors.into_iter().map(|error| error * count).collect(),
        }
    }

    /// Bounds on E[|Y^k e^{−ςY}|]·scale^k on the lines, by the rule itself for β = 0, whose own error is bounded crudely.
    fn suppressed(&self, size: f64, scale: f64, n: usize) -> ByOrder {
        let x = size * self.on_lines;
        let mut bounds = [0.0; MAX_ORDER + 1];
        for output in &self.outputs {
            let mut term = output.size * (-x * output.y).exp();
            for bound in bounds.iter_mut().take(n + 1) {
                *bound += term;
                term *= output.y * scale;
            }
        }
        for (bound, crude) in bounds.iter_mut().zip(self.crude(size, scale, n)) {
            *bound = (*bound * 1.01 + self.spacing_error * crude).min(crude);
        }
        bounds
    }

    /// Bounds on E[|Y^k e^{−ςY}|]·scale^k on the lines, k ≤ n: the best of E[Y^j] times the largest Y^{k−j}·e^{−|ςY|cos}, j ≤ k.
    ///
    /// The latter is (m/(e|ς|cos))^m, m = k − j, so that its logarithm for every m is known before k is.
    fn crude(&self, size: f64, scale: f64, n: usize) -> ByOrder {
        let (log_cut, log_scale) = ((size * self.on_lines).ln() + 1.0, scale.ln());
        let cut: ByOrder = std::array::from_fn(|m| self.entropies[m] - m as f64 * log_cut);
        let half = 0.5 * self.part.variance;
        std::array::from_fn(|k| {
            if k > n {
                return 0.0;
            }
            let bound = |j: usize| half * (j * j.saturating_sub(1)) as f64 + cut[k - j];
            let least = (0..=k).map(bound).fold(f64::INFINITY, f64::min);
            (least + k as f64 * log_scale).exp()
        })
    }

    /// The sums over the nodes, and bounds on what they leave out.
    fn sums(&self, s: Complex64, size: f64, scale: f64, n: usize, centred: bool) -> (Sums, ByOrder) {
        let mut lanes = [Lanes::default(); MAX_ORDER + 1];
        let mut ends = [0.0; MAX_ORDER + 1];
        let (mut before, mut last) = (Moduli::default(), Moduli::default());
        let shift = if centred { s } else { Complex64::default() };
        let mut used = 0;
        for outputs in self.outputs.chunks(LANES) {
            let mut terms = Terms::default();
            for (lane, output) in outputs.iter().enumerate() {
                let x = size * output.y;
                let z = Complex64::new(shift.re - x * self.phase.0, shift.im - x * self.phase.1);
                let modulus = z.re.exp();
                let (sine, cosine) = if z.im == 0.0 { (0.0, 1.0) } else { z.im.sin_cos() };
                let slack = 3.0 * (x + size);
                before = last;
                last = Moduli {
                    zeroth: output.size * modulus,
                    first: output.size * modulus,
                    factor: output.y * scale,
                };
                if centred {
                    let (value, error) = excess(z, modulus, (sine, cosine), slack);
                    let bound = output.size * (value.re.abs() + value.im.abs());
                    lanes[0].add(lane, output.weight * value, bound, output.size * error);
                    last.zeroth = 0.5 * output.size * (size * (1.0 + output.y)).powi(2) * size.exp();
                } else {
                    let turned = Complex64::new(modulus * cosine, modulus * sine);
                    lanes[0].add(lane, output.weight * turned, last.first, last.first * slack);
                }
                if n > 0 {
                    terms.set(lane, output.direction * Complex64::new(cosine, sine), last, slack);
                }
                used += 1;
                if used == 2 {
                    leave_out(&mut ends, last, before, n);
                }
            }
            terms.add_to(&mut lanes[1..=n]);
            if last.factor > scale && used % LANES == 0 && outweighs(&lanes[..=n], last, before) {
                break;
            }
        }
        leave_out(&mut ends, before, last, n);
        let mut all = Sums::EMPTY;
        let additions = (LANES + used.div_ceil(LANES)) as f64;
        for (k, lanes) in lanes.iter().enumerate().take(n + 1) {
            all.real[k] = lanes.real.iter().sum();
            all.imaginary[k] = lanes.imaginary.iter().sum();
            all.sizes[k] = lanes.sizes.iter().sum();
            all.phases[k] = lanes.phases.iter().sum::<f64>() + additions * all.sizes[k];
        }
        (all, ends)
    }
}

#[cfg(test)]
mod tests;
