//! Moments of the likelihood ratio of one record's step, as a function of v = (s/σ)².
//!
//! Let y be the log ratio of N(s, σ²) to N(0, σ²) at an output of the latter: y has the law N(−v/2, v), and the mixture's ratio
//! is r = 1 + u with u = q(e^y − 1). As E\[u\] = 0,
//!
//! > e^K = E[r^p] = 1 + E[(1 + u)^p − 1 − pu],
//!
//! whose integrand is not negative for p ≥ 1 or p ≤ 0. It is integrated by the trapezoidal rule with spacing h. On the line
//! Im y = a the modulus of the integrand is at most e^{a²/2v} times a moderate multiple of that on the real line as long as
//! a ≤ π/2, so that the rule errs by that multiple of 2e^{a²/2v − 2πa/h}. h makes the exponential e^-54 with the best such a,
//! which leaves room for a multiple of 10⁹ below the relative error that is claimed.
//!
//! A negative exponent takes more. With ρ = qe^y/(1 − q) and κ the largest ρ/(1 + ρ)² of all y,
//! |1 + u(y + ia)|² = (1 + u(y))²(1 − 2(1 − cos a)ρ/(1 + ρ)²), so that |1 + u|^{p − 2} grows by at most e^{log 2·(2 − p)κa²} for a ≤ π/2, as
//! −log(1 − t) ≤ 2 log 2·t for t ≤ ½. Where that is above e^15 it counts like a smaller v ([`effective_variance`]).

use crate::approx::Approx;
use crate::loss::nodes::Nodes;
use crate::step::Direction;
use std::f64::consts::{LN_2, PI};
use std::ops::Range;

/// Distance in standard deviations to which the integral extends beyond where the integrand can have its peaks: the tails there
/// are about 2e-21; at 4.75 they would be 2e-6.
const MARGIN: f64 = 9.5;
/// log of the inverse of the error of the trapezoidal rule, up to a multiple for which 10⁹ is left.
const LEVEL: f64 = 54.0;
/// log of the growth of a negative power for which the level has room: the rest of 10⁹ is for what the rule's bound omits. At twice the
/// value the relative error could reach 10⁻⁸.
const ALLOWED_GROWTH: f64 = 15.0;
/// log of the inverse of the trapezoidal rule's error for complex exponents, where it is relative to E[r^p] itself.
const LINE_LEVEL: f64 = 42.0;
/// That error plus the part of the integral beyond its range.
pub(crate) const LINE_ERROR: f64 = 1e-17;
/// Bound on the relative error of E[r^p] − 1 for p from −10⁵ to 10⁴ as long as that is at most 1, and of K above, but for the
/// rounding of the exponents: quadrature, truncation and the sum over the nodes.
///
/// The rule and its ends leave e^−54·10⁹ and 2e-21, far below it: it is room for the roundings of a sum over some hundred nodes, of
/// functions that have no exponents. The values of mpmath below attain a five-hundredth of it where exponents are small, and the
/// comparisons with certified quadrature, which rounds as well, less than a fifth.
pub(crate) const RELATIVE_ERROR: f64 = 2e-13;
/// Bound on the rounding of the exponent of a node, in units of |p log(1 + u)| plus the modulus of the log of its weight. The two may
/// nearly cancel: near the phase transition both are about p·log(1/q), up to 10⁵, and their sum is small.
///
/// log(1 + u) is off by five halves of ε (of itself), its product with p by one half more. The deviate is off by three halves, which
/// count twice in its square, and the weight's log by two halves more; the sum of both by another half. What is left is for the rounding
/// of y and of v, which move a node and its deviate by an ε or less.
const EXPONENT_ROUNDING: f64 = 6.0 * f64::EPSILON;
/// Bound on the relative rounding error of a weight or a loss.
const ROUNDINGS: f64 = 8.0 * f64::EPSILON;
/// y above which e^y is not computed.
const FAR: f64 = 600.0;
/// log(1 + u) and its product with p above which powers are not computed: the other terms are below their rounding.
const FAR_RATIO: f64 = 200.0;
/// Exponent below which e^x underflows to 0, and takes long to do so.
const UNDERFLOW: f64 = -746.0;
/// Largest number of terms of the binomial series.
const TERMS: i32 = 60;

/// Outputs of a step with weights: nodes of the trapezoidal rule.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(super) sample_rate: f64,
    pub(super) variance: f64,
    /// The first y, and the distance of two.
    low: f64,
    spacing: f64,
    /// log of h/√(2πv), the largest weight.
    log_scale: f64,
    /// u.
    pub(super) changes: Vec<f64>,
    /// log(1 + u).
    log_ratios: Vec<f64>,
    log_weights: Vec<f64>,
}

impl Outputs {
    /// Nodes for exponents p ≥ 1 up to `largest` at sample rate q < 1 and v > 0; or p ≤ 0 down to a negative `largest`.
    pub(crate) fn new(sample_rate: f64, variance: f64, largest: f64) -> Self {
        let spacing = spacing(effective_variance(sample_rate, variance, largest), LEVEL, 0.0);
        Self::with_spacing(sample_rate, variance, largest, spacing)
    }

    /// Nodes for E[(1 + u)^p] with Re p = `exponent` ≥ 1 or ≤ 0 and |Im p| ≤ `reach`, and for the decay of its modulus.
    ///
    /// On Im y = a, |e^{ip log(1 + u)}| adds at most e^{θ·reach} to the bound for real exponents, θ = arg(1 + u), and a negative
    /// exponent cos(a/2)^{exponent}, as |1 + u| is at least cos(a/2) times what it is on the real line. With ρ = qe^y/(1 − q),
    /// dθ/da = (ρ cos a + ρ²)/(1 + 2ρ cos a + ρ²) has a modulus of at most M = 2ρ/(1 + ρ) for ρ ≤ 1 and cos a ≥ −½, so that the
    /// logarithms are at most a times `reach`·min(M, 1) + |exponent|/2 for a ≤ π/2. M grows with y. What is summed ends at the
    /// last node, so the line of the bound may come down to the real axis within a standard deviation beyond it, where the
    /// integrand is negligible: up to there the bound counts.
    pub(crate) fn for_line(sample_rate: f64, variance: f64, exponent: f64, reach: f64) -> Self {
        let odds = highest_odds(sample_rate, variance, exponent);
        let slope = if odds < 1.0 { 2.0 * odds / (1.0 + odds) } else { 1.0 };
        let steepness = reach * slope + 0.5 * (-exponent).max(0.0);
        Self::with_spacing(
            sample_rate,
            variance,
            exponent,
            spacing(variance, LINE_LEVEL, steepness),
        )
    }

    fn with_spacing(sample_rate: f64, variance: f64, largest: f64, spacing: f64) -> Self {
        let deviation = variance.sqrt();
        let (low, _) = range(variance, largest);
        let count = intervals(variance, largest, spacing);
        let log_scale = (spacing / deviation).ln() - 0.5 * (2.0 * PI).ln();
        let mut outputs = Self {
            sample_rate,
            variance,
            low,
            spacing,
            log_scale,
            changes: Vec::with_capacity(count + 1),
            log_ratios: Vec::with_capacity(count + 1),
            log_weights: Vec::with_capacity(count + 1),
        };
        for m in 0..=count {
            let y = low + m as f64 * spacing;
            let change = sample_rate * y.exp_m1();
            outputs.changes.push(change);
            outputs.log_ratios.push(log_ratio(sample_rate, y, change));
            let deviate = (y + 0.5 * variance) / deviation;
            outputs.log_weights.push(log_scale - 0.5 * deviate * deviate);
        }
        outputs
    }

    /// Largest Im y for which the spacing of [`Outputs::for_line`] takes the integrand into account.
    pub(crate) fn max_shift(variance: f64) -> f64 {
        highest(variance, LINE_LEVEL)
    }

    /// Number of nodes that [`Outputs::new`] would make.
    pub(crate) fn count(sample_rate: f64, variance: f64, largest: f64) -> usize {
        let effective = effective_variance(sample_rate, variance, largest);
        intervals(variance, largest, spacing(effective, LEVEL, 0.0)) + 1
    }

    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The nodes that an exponent no farther from 0 than the largest needs: the others are for larger ones.
    fn nodes_for(&self, exponent: f64) -> Range<usize> {
        let (low, high) = range(self.variance, exponent);
        let first = ((low - self.low) / self.spacing).floor().max(0.0) as usize;
        let end = ((high - self.low) / self.spacing).ceil() as usize + 1;
        first.min(self.len())..end.min(self.len())
    }

    /// log of the node's weight times 1 + u, the weight of y under the mixture: where y is large no difference of large numbers.
    fn log_mixture_weight(&self, node: usize) -> f64 {
        let y = self.low + node as f64 * self.spacing;
        let deviation = self.variance.sqrt();
        let log_part = if self.log_ratios[node] < FAR_RATIO {
            self.log_ratios[node] - y
        } else {
            self.sample_rate.ln() // 1 − q is below the rounding of qe^y
        };
        let deviate = (y - 0.5 * self.variance) / deviation;
        log_part + self.log_scale - 0.5 * deviate * deviate
    }

    /// K = log E[r^p] for p ≥ 1 or p ≤ 0. Its error is [`RELATIVE_ERROR`] of it and the mean rounding of the exponents, each
    /// node's in proportion to what it contributes.
    pub(crate) fn log_moment(&self, exponent: f64) -> Approx {
        let nodes = self.nodes_for(exponent);
        let (changes, log_ratios) = (&self.changes[nodes.clone()], &self.log_ratios[nodes.clone()]);
        let log_weights = &self.log_weights[nodes.clone()];
        // K of the step without sampling, which is an upper bound.
        let crude = 0.5 * exponent * (exponent - 1.0) * self.variance;
        if crude > 0.5 {
            let terms = log_ratios.iter().zip(log_weights);
            let largest = terms
                .clone()
                .map(|(ratio, weight)| exponent * ratio + weight)
                .fold(f64::NEG_INFINITY, f64::max);
            let (mut sum, mut sizes) = (0.0f64, 0.0f64);
            for (ratio, weight) in terms {
                let power = exponent * ratio;
                let part = exp_or_zero(power + weight - largest);
                sum += part;
                sizes += part * (power.abs() + weight.abs());
            }
            let found = largest + sum.ln();
            if found > 0.5 {
                return Approx::new(found, RELATIVE_ERROR * found + EXPONENT_ROUNDING * sizes / sum);
            }
        }
        let (mut excess, mut sizes) = (0.0f64, 0.0f64);
        let found = changes.iter().zip(log_ratios).zip(log_weights);
        for (place, ((&change, &ratio), &weight)) in found.enumerate() {
            let power = exponent * ratio;
            let part = if ratio >= FAR_RATIO || power >= FAR_RATIO {
                let log_weight = self.log_mixture_weight(nodes.start + place);
                far_power_excess(ratio, log_weight, exponent)
            } else if weight >= UNDERFLOW {
                weight.exp() * power_excess(change, ratio, exponent)
            } else {
                continue;
            };
            excess += part;
            sizes += part.abs() * (power.abs() + weight.abs());
        }
        let found = excess.ln_1p();
        // An error of E is one of that over 1 + E of its logarithm.
        let rounding = EXPONENT_ROUNDING * sizes / (1.0 + excess);
        Approx::new(found, RELATIVE_ERROR * found + rounding)
    }

    /// The law of the privacy loss ±log(1 + u) tilted by (1 + u)^p, p = `exponent`, with bounds on its errors; the sign is that
    /// of the exponent.
    pub(crate) fn tilted(&self, c: f64, exponent: f64) -> Nodes {
        let log_densities = || {
            let pairs = self.log_ratios.iter().zip(&self.log_weights);
            pairs.map(|(ratio, weight)| exponent * ratio + weight)
        };
        let largest = log_densities().fold(f64::NEG_INFINITY, f64::max);
        let mut nodes = Nodes {
            c,
            weights: log_densities().map(|term| exp_or_zero(term - largest)).collect(),
            losses: self.log_ratios.iter().map(|ratio| exponent.signum() * ratio).collect(),
            ..Nodes::default()
        };
        let total: f64 = nodes.weights.iter().sum();
        let sized = nodes.weights.iter_mut().zip(&self.log_ratios).zip(&self.log_weights);
        for ((weight, ratio), log_weight) in sized {
            *weight /= total;
            let rounding = *weight * ROUNDINGS * (4.0 + (exponent * ratio).abs() + log_weight.abs());
            nodes.mean_size += *weight * ratio.abs();
            nodes.loss_rounding += *weight * ROUNDINGS * ratio.abs();
            nodes.weight_rounding.0 += rounding;
            nodes.weight_rounding.1 += rounding * ratio.abs();
        }
        nodes.error = LINE_ERROR;
        nodes
    }
}

/// p with E[(1 + u)^p] = E[e^{cℓ}]. It is `Direction::ratio_exponent` at c + 1, but without a rounding for "add".
pub(crate) fn exponent(direction: Direction, c: f64) -> f64 {
    match direction {
        Direction::Remove => c + 1.0,
        Direction::Add => -c,
    }
}

/// Number of intervals of the spacing in the range.
fn intervals(variance: f64, largest: f64, spacing: f64) -> usize {
    let (low, high) = range(variance, largest);
    ((high - low) / spacing).ceil() as usize
}

/// log(1 + u) at y, where u = `change`. Where 1 + u is small, which takes a sample rate above a half, it is the sum of two positive
/// numbers: 1 + u would have lost digits.
fn log_ratio(sample_rate: f64, y: f64, change: f64) -> f64 {
    if y >= FAR {
        y + sample_rate.ln() + ((1.0 - sample_rate) / sample_rate * (-y).exp()).ln_1p()
    } else if change > -0.5 {
        change.ln_1p()
    } else {
        (1.0 - sample_rate + sample_rate * y.exp()).ln()
    }
}

/// e^x as a term of a sum of at least 1: 0 below e^−100, as 10¹⁵ such terms are less than 10⁻²⁸.
fn exp_or_zero(x: f64) -> f64 {
    if x < -100.0 { 0.0 } else { x.exp() }
}

/// The range of y outside which the integrand is negligible, for exponents from p to 1, or to 0 if p is negative.
fn range(variance: f64, exponent: f64) -> (f64, f64) {
    let low = -0.5 * variance + exponent.min(0.0) * variance - MARGIN * variance.sqrt();
    // The logarithm of the integrand rises by at most max(p, 2) and what u = 0 adds.
    let high = -0.5 * variance + (exponent.max(2.0) + 1.0) * variance + MARGIN * variance.sqrt();
    (low, high)
}

/// The largest ρ = qe^y/(1 − q) up to a standard deviation beyond the last node.
fn highest_odds(sample_rate: f64, variance: f64, exponent: f64) -> f64 {
    let (_, high) = range(variance, exponent);
    sample_rate / (1.0 - sample_rate) * (high + variance.sqrt()).exp()
}

/// The v with which e^{a²/2v} bounds the growth of the integrand on Im y = a, but for a multiple of at most e^[`ALLOWED_GROWTH`].
fn effective_variance(sample_rate: f64, variance: f64, exponent: f64) -> f64 {
    let odds = highest_odds(sample_rate, variance, exponent);
    let kappa = if odds < 1.0 { odds / (1.0 + odds).powi(2) } else { 0.25 };
    // The bracket has, by Taylor's formula, two powers more.
    let rate = if exponent < 0.0 {
        LN_2 * (2.0 - exponent) * kappa
    } else {
        0.0
    };
    if rate * highest(variance, LEVEL).powi(2) <= ALLOWED_GROWTH {
        return variance;
    }
    (variance.recip() + 2.0 * rate).recip()
}

/// The best a for an integrand that grows by e^{a²/2v}, at most π/2.
fn highest(variance: f64, level: f64) -> f64 {
    (0.5 * PI).min((2.0 * variance * level).sqrt())
}

/// h for an error of e^−`level`, where the integrand grows by e^{a·steepness} besides e^{a²/2v} on Im y = a.
fn spacing(variance: f64, level: f64, steepness: f64) -> f64 {
    let height = highest(variance, level);
    2.0 * PI * height / (level + height * steepness + height * height / (2.0 * variance))
}

/// (1 + u)^p − 1 − pu, given also log(1 + u), for p ≥ 1 or p ≤ 0: that of `loss::power_excess`, but not as a logarithm, which
/// would take longer where millions are added up.
fn power_excess(change: f64, log_ratio: f64, exponent: f64) -> f64 {
    const NEAR: f64 = 0.3;
    if (change * exponent.abs().max(1.0)).abs() > NEAR {
        // Both terms are of order p, or p − 1, so that nothing cancels where these are tiny.
        if !(1.0..2.0).contains(&exponent) {
            return (exponent * log_ratio).exp_m1() - exponent * change;
        }
        let beyond = exponent - 1.0;
        return (1.0 + change) * (beyond * log_ratio).exp_m1() - beyond * change;
    }
    let mut term = 0.5 * exponent * (exponent - 1.0) * change * change;
    let mut sum = term;
    for n in 2..TERMS {
        term *= (exponent - f64::from(n)) / f64::from(n + 1) * change;
        sum += term;
        if term.abs() <= 1e-17 * sum.abs() {
            break;
        }
    }
    sum
}

/// A weight times (1 + u)^p − 1 − pu where 1 + u or its power is beyond e^[`FAR_RATIO`], so that the 1 is below their rounding;
/// given the log of 1 + u and that of (1 + u) times the weight.
fn far_power_excess(log_ratio: f64, log_mixture_weight: f64, exponent: f64) -> f64 {
    if exponent < 1.0 {
        return -exponent * log_mixture_weight.exp();
    }
    let growth = (exponent - 1.0) * log_ratio;
    if growth < 1.0 {
        return (growth.exp_m1() - (exponent - 1.0)) * log_mixture_weight.exp();
    }
    let power = (growth + log_mixture_weight).exp();
    // The other terms are below rounding beyond e^60, as p ≤ 10⁴.
    if growth > 60.0 {
        power
    } else {
        power * (1.0 - exponent * (-growth).exp())
    }
}

#[cfg(test)]
mod tests;
