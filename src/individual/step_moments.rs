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
/// Bound on the relative error of E[r^p] − 1 for p from −10⁵ to 10⁴ as long as that is at most 1, and of K above:
/// quadrature, truncation and the roundings of a few exponentials.
///
/// The rule and its ends leave e^−54·10⁹ and 2e-21, far below it: it is room for rounding, of exponents of some hundred (a hundred
/// units of 2e-16 each) that are summed over some hundred nodes. The values of mpmath below attain a five-hundredth of it, and the
/// comparisons with certified quadrature, which rounds as well, less than a fifth.
pub(crate) const RELATIVE_ERROR: f64 = 2e-13;
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
            outputs.log_ratios.push(if y < FAR {
                change.ln_1p()
            } else {
                y + sample_rate.ln() + ((1.0 - sample_rate) / sample_rate * (-y).exp()).ln_1p()
            });
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

    /// K = log E[r^p] for p ≥ 1 or p ≤ 0, with a relative error of [`RELATIVE_ERROR`].
    pub(crate) fn log_moment(&self, exponent: f64) -> f64 {
        let nodes = self.nodes_for(exponent);
        let (changes, log_ratios) = (&self.changes[nodes.clone()], &self.log_ratios[nodes.clone()]);
        let log_weights = &self.log_weights[nodes.clone()];
        // K of the step without sampling, which is an upper bound.
        let crude = 0.5 * exponent * (exponent - 1.0) * self.variance;
        if crude > 0.5 {
            let terms = || {
                let pairs = log_ratios.iter().zip(log_weights);
                pairs.map(|(ratio, weight)| exponent * ratio + weight)
            };
            let largest = terms().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = terms().map(|term| exp_or_zero(term - largest)).sum();
            let found = largest + sum.ln();
            if found > 0.5 {
                return found;
            }
        }
        let mut excess = 0.0;
        let found = changes.iter().zip(log_ratios).zip(log_weights);
        for (place, ((&change, &ratio), &weight)) in found.enumerate() {
            if ratio >= FAR_RATIO || exponent * ratio >= FAR_RATIO {
                let log_weight = self.log_mixture_weight(nodes.start + place);
                excess += far_power_excess(ratio, log_weight, exponent);
            } else if weight >= UNDERFLOW {
                excess += weight.exp() * power_excess(change, ratio, exponent);
            }
        }
        excess.ln_1p()
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
mod tests {
    use super::*;
    use crate::loss::MixturePair;
    use crate::loss::moment::Moments;
    use crate::step::GroupLaw;
    use realfft::num_complex::Complex64;

    #[test]
    fn moments_agree_with_certified_quadrature() {
        for rate in [1e-6, 0.001, 0.08, 0.5, 0.97] {
            let law = GroupLaw::binomial(1, rate).unwrap();
            for variance in [1e-12f64, 1e-4, 0.01, 0.25, 1.0, 9.0, 100.0, 1000.0, 1e4] {
                let mut certified = Moments::new(MixturePair::new(&law, 1.0 / variance.sqrt()).unwrap());
                for order in [
                    1.0 + f64::EPSILON,
                    1.0 + 1e-9,
                    1.00001,
                    1.01,
                    1.7,
                    2.0,
                    6.5,
                    64.0,
                    300.0,
                    -1e-9,
                    -1e-4,
                    -0.3,
                    -5.0,
                    -40.0,
                ] {
                    let found = Outputs::new(rate, variance, order).log_moment(order);
                    let expected = certified.log_power_moment(order).value;
                    assert!(
                        (found / expected - 1.0).abs() < 0.75 * RELATIVE_ERROR,
                        "q {rate} v {variance} α {order}: {found} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn complex_moments_at_large_frequencies_are_those_of_finer_nodes() {
        for (rate, variance, c) in [
            (0.004, 1e-3f64, 3.0),
            (1e-6, 0.1, 0.5),
            (0.2, 1e-4, 20.0),
            (1e-4, 0.01, 1.0),
        ] {
            for direction in [Direction::Remove, Direction::Add] {
                let exponent = exponent(direction, c);
                // Where the loss, about q(e^y − 1) around an output, has gone through many periods.
                let reach = 12.0 / (rate * (variance.exp_m1()).sqrt());
                let nodes = Outputs::for_line(rate, variance, exponent, reach);
                let finer = Outputs::with_spacing(rate, variance, exponent, nodes.spacing / 3.0);
                assert!(nodes.len() < 3000, "{rate} {variance} {c}: {}", nodes.len());
                let at = |outputs: &Outputs, y: f64| {
                    let law = outputs.tilted(c, exponent);
                    let pairs = law.weights.iter().zip(&law.losses);
                    pairs
                        .map(|(weight, loss)| weight * Complex64::cis(y * loss))
                        .sum::<Complex64>()
                };
                for part in [0.01, 0.3, 0.7, 1.0] {
                    let (one, other) = (at(&nodes, part * reach), at(&finer, part * reach));
                    let apart = (one - other).norm();
                    assert!(
                        apart < 1e-13,
                        "{rate} {variance} {c} {direction:?} {part}: {one:?} {other:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn nodes_for_large_exponents_serve_small_ones() {
        for (rate, variance) in [(0.01, 1.0), (0.3, 0.1), (1e-6, 4.0)] {
            for (largest, exponents) in [(900.0, [1.2, 3.0, 40.0, 700.0]), (-900.0, [-0.2, -3.0, -40.0, -700.0])] {
                let wide = Outputs::new(rate, variance, largest);
                for exponent in exponents {
                    let (found, own) = (
                        wide.log_moment(exponent),
                        Outputs::new(rate, variance, exponent).log_moment(exponent),
                    );
                    // Each of the two has the error that is claimed.
                    assert!(
                        (found / own - 1.0).abs() < 2.0 * RELATIVE_ERROR,
                        "q {rate} v {variance} {exponent}: {found} {own}"
                    );
                }
            }
        }
    }

    #[test]
    fn moments_agree_with_values_of_mpmath() {
        // from mpmath import *; mp.dps = 40
        // def K(q, v, p):
        //     q, v, p = mpf(q), mpf(v), mpf(p); s = sqrt(v); r = lambda t: 1 + q*(exp(s*t - v/2) - 1)
        //     f = lambda t: (r(t)**p - 1 - p*(r(t) - 1)) * exp(-t*t/2) / sqrt(2*pi)
        //     return log(1 + quad(f, linspace(-14 - abs(p)*s*(p < 0), max(p, 2)*s + 14, 60)))
        for (rate, variance, exponent, expected) in [
            (0.01, 1.0, 2.5, 0.000_326_362_998_422_820_7),
            (0.3, 0.25, -3.2, 0.131_084_362_625_130_87),
            (1e-4, 4.0, 8.0, 38.317_277_079_500_28),
            (0.08, 0.01, 64.0, 0.136_013_752_019_016_28),
            (0.5, 9.0, 1.25, 0.777_901_958_843_588_8),
            (1e-6, 0.04, 300.0, 1.830_385_785_863_216_8e-9),
            (0.97, 0.5, -40.0, 109.405_601_255_431_92),
            // Negative exponents so large that |1 + u|^p grows on the imaginary shift of the rule.
            (0.9, 0.1, -300.0, 566.334_109_515_107_3),
            (0.9, 0.1, -25_000.0, 57_172.262_966_020_4),
            (0.5, 1.0, -1000.0, 675.777_545_631_307_7),
            (0.9, 2.0, -40.0, 84.983_030_610_471_73),
            (0.3, 0.01, -9000.0, 2_591.169_851_697_321),
            (0.01, 1.0, -16.0, 0.017_042_117_054_828_474),
        ] {
            let found = Outputs::new(rate, variance, exponent).log_moment(exponent);
            assert!(
                (found / expected - 1.0).abs() < RELATIVE_ERROR,
                "{rate} {variance} {exponent}: {found}"
            );
        }
    }

    #[test]
    fn the_error_of_the_rule_is_that_of_its_level() {
        // Levels so low that the error of the rule is far above rounding; half the level would make it the square root.
        for (rate, variance, exponent) in [(0.1, 0.5, 3.0), (0.01, 0.1, 2.0), (0.3, 1.0, -2.0), (0.02, 0.01, 9.0)]
        {
            let exact = Outputs::new(rate, variance, exponent).log_moment(exponent).exp_m1();
            for level in [12.0, 18.0, 24.0] {
                let spacing = spacing(variance, level, 0.0);
                let coarse = Outputs::with_spacing(rate, variance, exponent, spacing).log_moment(exponent);
                let error = (coarse.exp_m1() / exact - 1.0).abs();
                assert!(
                    error < 1e3 * f64::exp(-level),
                    "{rate} {variance} {exponent} {level}: {error:e}"
                );
            }
        }
    }
}
