//! E[e^{sY/t}] of one batch whose normal variable is at most b, at complex s, by a trapezoid rule that ends at b.
//!
//! The terms of the power series cancel where |s|Y_b/t is large; those of the rule do not. The integrand f(g) = φ(g)·e^{sY(g)/t} is entire. Let the
//! nodes be b − h/2, b − 3h/2, …: then b lies halfway between two nodes of the unending rule, where e^{2πig/h} is −1 times a positive number on
//! the whole line Re g = b. Residues of f(g)/(1 − e^{∓2πig/h}) in the half strips above and below give, for every a > 0,
//!
//! > |h Σ f(g_i) − ∫_{−∞}^b f| ≤ Σ_± [ ∫_{−∞}^b |f(g ± ia)| dg/(e^{2πa/h} − 1) + ∫_0^a |f(b ± iη)|/(e^{2πη/h} + 1) dη ].
//!
//! The first integrals are e^{a²/2}·E[e^{xY/t}; g ≤ b] with x = Re(s·e^{±i√va}), the second at most h·log 2/(2π)·φ(b)·e^{a²/2}·e^{x'Y_b/t} with the
//! largest x' = Re(s·e^{iη√v}), |η| ≤ a.

use crate::approx::Approx;
use crate::special::normal::log_upper_tail;
use realfft::num_complex::Complex64;
use std::f64::consts::{LN_2, TAU};

/// The distance a at most, and the largest turn √v·a.
const FARTHEST_LINE: f64 = 2.5;
const LARGEST_TURN: f64 = 0.4;
/// 2πa/h.
const LEVEL: f64 = 48.0;
/// −log of the terms at b over the largest from which on a real transform is right to 1e-14.
const LEAST_END: f64 = 34.0;
/// How far below 0 nodes reach.
const REACH: f64 = 10.0;

/// Nodes at most. There are about 19√v(b + 10) of them where the noise is little, so that b = 30 is served down to √v = 26, a noise multiplier
/// of 0.04 of one release.
const MAX_NODES: f64 = 20_000.0;

/// log E[e^{λW}] at real λ, and its first two derivatives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tilting {
    pub(crate) log: f64,
    pub(crate) first: f64,
    pub(crate) second: f64,
}

/// The rule of one kind of batches.
#[derive(Debug, Clone)]
pub(crate) struct EndedRule {
    /// b, Y_b/t and √v.
    end: f64,
    largest: f64,
    root: f64,
    /// a and h.
    line: f64,
    spacing: f64,
    /// Y/t and g²/2.
    outputs: Vec<(f64, f64)>,
    /// log of the probability below the last node, and Y/t there.
    log_below: f64,
    least: f64,
}

impl EndedRule {
    /// For g ≤ `end`; `None` where it would have more than [`MAX_NODES`].
    pub(crate) fn new(variance: f64, end: f64, total: f64) -> Option<Self> {
        let root = variance.sqrt();
        let line = FARTHEST_LINE.min(LARGEST_TURN / root);
        let spacing = TAU * line / LEVEL;
        let count = ((end + REACH) / spacing).ceil();
        if count.is_nan() || count > MAX_NODES {
            return None;
        }
        let count = count as usize;
        let ratio = |g: f64| (root * g - 0.5 * variance).exp() / total;
        let at = |i: usize| end - (i as f64 + 0.5) * spacing;
        let outputs = (0..count).map(|i| (ratio(at(i)), 0.5 * at(i) * at(i))).collect();
        let below = end - count as f64 * spacing;
        Some(Self {
            end,
            largest: ratio(end),
            root,
            line,
            spacing,
            outputs,
            log_below: log_upper_tail(-below - spacing),
            least: ratio(below),
        })
    }

    /// log E[e^{λY/t}; g ≤ b] for real λ > 0 with its derivatives; `None` where outputs at b count.
    ///
    /// On the lines e^{sY/t} is at most e^{λY/t}, so that what they add is at most e^{a²/2 − 2πa/h} of the whole.
    pub(crate) fn tilting(&self, lambda: f64) -> Option<Tilting> {
        let log_term = |&(y, half_square): &(f64, f64)| lambda * y - half_square;
        let log = self.outputs.iter().map(log_term).fold(f64::NEG_INFINITY, f64::max);
        let at_end = lambda * self.largest - 0.5 * self.end * self.end - log;
        (at_end <= -LEAST_END).then(|| self.about(lambda))
    }

    /// An estimate of [`EndedRule::tilting`] for choices, also where outputs at b count.
    pub(crate) fn about(&self, lambda: f64) -> Tilting {
        let log_term = |&(y, half_square): &(f64, f64)| lambda * y - half_square;
        let log = self.outputs.iter().map(log_term).fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for output in &self.outputs {
            let modulus = (log_term(output) - log).exp();
            sum += modulus;
            first += modulus * output.0;
            second += modulus * output.0 * output.0;
        }
        let mean = first / sum;
        Tilting {
            log: log + (sum * self.spacing / TAU.sqrt()).ln(),
            first: mean,
            second: (second / sum - mean * mean).max(0.0),
        }
    }

    /// log E[e^{sY/t}; g ≤ b] for Re s > 0, where `log_real` bounds it for real s.
    pub(crate) fn log_transform(&self, s: Complex64, log_real: impl Fn(f64) -> f64) -> Approx<Complex64> {
        let log_term = |&(y, half_square): &(f64, f64)| s.re * y - half_square;
        let log = self.outputs.iter().map(log_term).fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut size, mut rounding) = (Complex64::default(), 0.0, 0.0);
        for output in &self.outputs {
            let (y, half_square) = *output;
            let modulus = (log_term(output) - log).exp();
            if modulus < 1e-18 {
                size += modulus;
                rounding += modulus / f64::EPSILON;
                continue;
            }
            sum += Complex64::from_polar(modulus, s.im * y);
            size += modulus;
            rounding += modulus * (3.0 * half_square + 4.0 * (s.re + s.im.abs()) * y);
        }
        let scale = self.spacing / TAU.sqrt();
        let additions = 0.5 * self.outputs.len() as f64 + log.abs() + 8.0;
        let rounding = scale * f64::EPSILON * (rounding + additions * size);
        let turn = self.root * self.line;
        let growth = 0.5 * self.line * self.line;
        let level = TAU * self.line / self.spacing;
        let suppressed = growth - level - (-(-level).exp()).ln_1p() - log;
        let on_lines = [turn, -turn].map(|turn| {
            let x = (s * Complex64::cis(turn)).re.max(0.0);
            (suppressed + log_real(x)).exp()
        });
        let farthest = (s.arg().abs() - turn).max(0.0).cos() * s.norm();
        let at_end = growth + farthest * self.largest - 0.5 * self.end * self.end - log;
        let at_end = self.spacing * LN_2 / TAU / TAU.sqrt() * 2.0 * at_end.exp();
        let below = 2.0 * (self.log_below + s.re * self.least - log).exp();
        let value = sum * scale;
        let relative = (rounding + on_lines[0] + on_lines[1] + at_end + below) / value.norm();
        let found = value.ln() + log;
        let known = if relative < 0.1 { 1.1 * relative } else { f64::INFINITY };
        Approx::new(found, known + 4.0 * f64::EPSILON * (found.norm() + log.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E[e^{sY}; g ≤ b] by the midpoint rule with 200 times as many terms, and its change to half as many.
    fn fine(rule: &EndedRule, v: f64, s: Complex64) -> (Complex64, f64) {
        let sum = |parts: usize| {
            let (spacing, mut sum) = (rule.spacing / parts as f64, Complex64::default());
            for i in 0..parts * (rule.outputs.len() + 8) {
                let g = rule.end - (i as f64 + 0.5) * spacing;
                sum += (s * (v.sqrt() * g - 0.5 * v).exp() - 0.5 * g * g).exp() * (spacing / TAU.sqrt());
            }
            sum
        };
        let (finer, fine) = (sum(200), sum(100));
        (finer, ((finer - fine) / finer).norm())
    }

    #[test]
    fn transforms_are_those_of_a_fine_sum() {
        for (v, b, s) in [
            (0.01f64, 14.0f64, Complex64::new(20.0, 15.0)),
            (0.0025, 20.0, Complex64::new(60.0, 90.0)),
            (0.25, 3.0, Complex64::new(1.0, 4.0)),
        ] {
            let rule = EndedRule::new(v, b, 1.0).unwrap();
            let (exact, change) = fine(&rule, v, s);
            let found = rule.log_transform(s, |x| fine(&rule, v, Complex64::from(x)).0.re.ln());
            let off = (found.value.exp() / exact - 1.0).norm();
            assert!(off <= found.error + change + 1e-12, "{v} {b} {s}: {found:?} {off}");
            assert!(v > 0.1 || found.error < 1e-5, "{v} {b} {s}: {found:?}");
        }
    }

    /// Real transforms and their derivatives are those of the sum; where outputs at b count, nothing is claimed.
    #[test]
    fn real_transforms_are_those_of_a_fine_sum() {
        let (v, b, lambda, step) = (0.04f64, 12.0, 3.0, 1e-3);
        let rule = EndedRule::new(v, b, 1.0).unwrap();
        let at = |lambda: f64| fine(&rule, v, Complex64::from(lambda)).0.re.ln();
        let found = rule.tilting(lambda).unwrap();
        let (below, here, above) = (at(lambda - step), at(lambda), at(lambda + step));
        assert!((found.log - here).abs() < 1e-12, "{found:?} {here}");
        assert!((found.first - (above - below) / (2.0 * step)).abs() < 1e-6, "{found:?}");
        assert!(
            (found.second - (above + below - 2.0 * here) / (step * step)).abs() < 1e-5,
            "{found:?}"
        );
        assert!(EndedRule::new(1.0, 6.0, 1.0).unwrap().tilting(1.0).is_none());
    }

    /// A wide spacing and s next to 0: by Poisson's formula the rule adds 2e^{−2π²/h²} with the sign of the phase of its nodes. The bound at
    /// a = 2π/h holds, and half of it would not.
    #[test]
    fn the_error_of_the_spacing_is_bounded_and_attained() {
        let mut rule = EndedRule::new(1e-4, 9.0, 1.0).unwrap();
        (rule.spacing, rule.line) = (2.0, TAU / 2.0);
        let at = |i: i32| 9.0 - (f64::from(i) + 0.5) * rule.spacing;
        rule.outputs = (0..10).map(|i| (1.0, 0.5 * at(i) * at(i))).collect();
        let found = rule.log_transform(Complex64::from(1e-12), |_| 0.0);
        let off = (found.value.re.exp() - 1.0).abs();
        assert!(
            off <= found.error.exp_m1() && found.error < 1.5 * off,
            "{found:?} {off}"
        );
    }

    /// Where outputs at b count, the integrals along the segments at b are what the bound consists of, for slow and for fast phases.
    #[test]
    fn the_error_at_the_end_is_bounded() {
        for turning in [0.0, 20.0, 60.0, 100.0, 140.0] {
            let (v, b) = (0.01f64, 1.0f64);
            let s = Complex64::new(5.0, turning);
            let rule = EndedRule::new(v, b, 1.0).unwrap();
            let (exact, change) = fine(&rule, v, s);
            let found = rule.log_transform(s, |x| x * rule.largest);
            let off = (found.value.exp() / exact - 1.0).norm();
            assert!(off <= found.error + change, "{s}: {found:?} {off}");
        }
    }
}
