//! E[X₊] for X = S − w, or w − S, from the transform of the sum S of the likelihood ratios of all batches on one line Re s = λ.
//!
//! Over the outcomes without a large Y, E[X₊] = (2πi)⁻¹·∫ E[e^{sX}]·s⁻² ds. The trapezoid rule of spacing h = 2π/D gives Σ_n e^{−λnD}·E[(X + nD)₊]. Its terms
//! with n ≥ 1 are at most e^{−λnD}·(nD + E[X₊]), and those with n ≤ −1, as x₊ ≤ e^{λ'x − 1}/λ', at most e^{−(λ' − λ)|n|D}·E[e^{λ'X}]/(eλ') for every λ' > λ.
//! E[X₊] is at most E[e^{λX}]/(eλ) for the same reason. With d(τ) from [`Modulus`], what lies beyond the last point τ is at most E[e^{λX}]·d(τ)/(πτ).
//!
//! Outcomes with a large Y add E[S − w; A] + E[(w − S)₊; A] where the record is removed. There (w − S)₊ ≤ (x − S')₊ with x = w − c, the limit c of Y and the sum S' of
//! all batches but one with a large Y, so that E[(w − S)₊; A] is at most the sum of P(Y > c) over the batches times e^{μx − 1}·E[e^{−μS'}]/μ for every μ > 0. Where
//! the record is added, A adds nothing if Y > w there, and at most w·P(A) anyway.

use crate::approx::Approx;
use crate::loss::allocation::large_outcomes::LargeOutcomes;
use crate::loss::allocation::on_line::batch::{Batch, Tilted};
use crate::loss::allocation::on_line::choice::{Choice, Others, Target, large_outcomes, log_large_mean};
use crate::loss::allocation::on_line::modulus::Modulus;
use crate::loss::allocation::threshold::{Threshold, count};
use crate::special::log_space::log_add;
use crate::step::Direction;
use realfft::num_complex::Complex64;
use std::f64::consts::{LN_2, PI, TAU};

/// −log of what spacing and ends may change of the expectation.
const LEVEL: f64 = 30.0;
/// −log of the part that outcomes without a large Y may be for a bound on it to be enough.
const LOG_NEGLIGIBLE: f64 = 24.0;
/// The least expectation whose factors are within the range of numbers.
const LEAST: f64 = 1e-280;
/// log of an expectation below which a bound is enough.
const LEAST_LOG: f64 = -600.0;
/// λ over the saddle point that are tried, for the line up to 1, and distances from the saddle point times the limit of Y: with more, the tilt would make
/// nearly all Y large.
const FACTORS: [f64; 10] = [0.4, 0.55, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.2, 4.0];
const LARGER_BY: [f64; 3] = [1.0, 2.0, 3.0];
/// log of the cancellation of terms that is accepted.
const CANCELLATION: f64 = 9.0;
/// How much less than expected log of an expectation may be for a line to serve well.
const MUCH: f64 = 2.0;
/// Points at most, and points times nodes.
const MOST_POINTS: usize = 32_768;
const MOST_TERMS: usize = 16_000_000;
/// Points from which on turned variables are looked at.
const MANY_POINTS: usize = 1024;
/// −log of the error of a rule for one batch, besides log of the number of batches, and the largest.
const RULE: f64 = 34.0;
const BEST_RULE: f64 = 46.0;
/// The first guess of the last τ, in reciprocal standard deviations.
const FIRST_REACH: f64 = 10.0;
/// Relative error from which on a bound on the modulus takes the place of a value.
const UNKNOWN: f64 = 0.5;

/// A line that serves a range of thresholds.
#[derive(Debug)]
pub(super) struct SumLine {
    direction: Direction,
    limit: f64,
    lambda: f64,
    /// log E[e^{±λS}; no Y is large].
    log_transform: Approx,
    spacing: f64,
    points: Vec<Point>,
    /// log of a bound on what lies beyond the last point, over E[e^{λX}].
    log_beyond: f64,
    /// λ', and log of an upper bound on E[e^{±λ'S}; no Y is large].
    larger: Vec<(f64, f64)>,
    large: LargeOutcomes,
    /// The number of batches, and the transform of all but one.
    count: f64,
    others: Others,
    /// log of a bound on E[S; some Y is large].
    log_large_mean: f64,
    /// Evaluations of densities and turns.
    pub(super) work: u64,
    /// One that is made for a smaller expectation, where this one expected too much. As it bounds outcomes with a large Y more closely, Y may be larger, and terms may
    /// cancel the more for it: each of both is the narrower one for some thresholds.
    other: Option<Box<SumLine>>,
}

/// The transform at one τ over that at 0.
#[derive(Debug, Clone, Copy)]
struct Point {
    log: Complex64,
    error: f64,
    log_most: f64,
}

impl SumLine {
    /// The line for a range of thresholds; `None` where it would have too many points.
    pub(super) fn new(target: &Target<'_>) -> Option<Self> {
        let (line, expected) = Self::expecting(target)?;
        let middle = Threshold {
            value: target.range.middle,
            error: 0.0,
        };
        let (_, found) = line.log_expectation(&middle);
        if found > expected - MUCH {
            return Some(line);
        }
        let better = Self::expecting(&Target {
            log_most: found,
            ..*target
        });
        Some(match better {
            Some((better, _)) => Self {
                work: line.work + better.work,
                other: Some(Box::new(better)),
                ..line
            },
            None => line,
        })
    }

    /// The line, and log of the expectation that it is made for.
    fn expecting(target: &Target<'_>) -> Option<(Self, f64)> {
        let choice = target.choose()?;
        let lambda = choice.saddle.lambda;
        let parts = target.parts;
        let log_expectation = choice.log_estimate.max(choice.log_large);
        let mut line = Self {
            direction: target.direction,
            limit: choice.limit,
            lambda,
            log_transform: Approx::default(),
            spacing: 0.0,
            points: Vec::new(),
            log_beyond: f64::NEG_INFINITY,
            larger: Vec::new(),
            large: large_outcomes(parts, choice.limit),
            count: count(parts),
            others: choice.others,
            log_large_mean: log_large_mean(parts, choice.limit),
            work: 0,
            other: None,
        };
        if choice.log_estimate < (log_expectation - LOG_NEGLIGIBLE).max(LEAST_LOG) {
            line.batches(target, 0.0)?;
            return Some((line, f64::NEG_INFINITY));
        }
        line.find_line(target, &choice, log_expectation)?;
        let reach = FIRST_REACH / choice.saddle.variance.sqrt();
        let batches = line.batches(target, reach)?;
        let log_here = line.log_transform.value - target.sign() * line.lambda * target.range.middle;
        let log_negligible = log_expectation - LEVEL - log_here;
        let mut modulus = Modulus::new(&batches);
        let mut last = line.last(&modulus, log_negligible);
        let is_turned = last.is_none_or(|last| last > MANY_POINTS);
        if is_turned {
            modulus.turn(&batches);
            last = line.last(&modulus, log_negligible);
        }
        let last = last?;
        let batches = line.batches(target, line.spacing * last as f64)?;
        let nodes: usize = batches.iter().map(|(_, batch)| batch.size()).sum();
        if last * nodes > MOST_TERMS {
            return None;
        }
        line.work += (last * nodes / 8) as u64;
        line.log_beyond = line.log_beyond_of(&modulus, last);
        line.fill(&batches, last);
        Some((line, log_expectation))
    }

    /// The tilted batches, for |τ| ≤ `reach`.
    fn batches(&mut self, target: &Target<'_>, reach: f64) -> Option<Vec<(f64, Tilted)>> {
        let tolerance = -(RULE + self.count.ln()).min(BEST_RULE);
        let mut log = Approx::default();
        let mut batches = Vec::with_capacity(target.parts.len());
        for part in target.parts {
            let one = Batch::new(part.variance, self.limit);
            let one = one.tilted(target.sign() * self.lambda, reach, tolerance)?;
            log.value += part.count * one.log_transform.value;
            log.error +=
                part.count * (one.log_transform.error + 2.0 * f64::EPSILON * one.log_transform.value.abs());
            self.work += 16 * one.size() as u64;
            batches.push((part.count, one));
        }
        self.log_transform = log;
        Some(batches)
    }

    /// λ and h, for which the spacing changes e^−[`LEVEL`] of the expectation.
    ///
    /// At the saddle point terms hardly cancel. To the left of it they do, but larger sums are less likely, so that the period is shorter.
    fn find_line(&mut self, target: &Target<'_>, choice: &Choice, log_expectation: f64) -> Option<()> {
        let saddle = choice.saddle.lambda;
        let threshold = target.sign() * target.range.middle;
        let by_limit = LARGER_BY.map(|difference| saddle + difference / self.limit);
        let tilts = FACTORS.map(|factor| factor * saddle).into_iter().chain(by_limit);
        let transform = |lambda: f64| {
            let (log, ..) = target.moments(choice.limit, lambda)?;
            let at = log.upper + lambda * threshold;
            Some((lambda, at + 1e-12 * (1.0 + at.abs())))
        };
        let transforms: Vec<(f64, f64)> = tilts.filter_map(transform).collect();
        // log of the bound e^{−λw}·E[e^{±λS}]/(eλ).
        let bound = |&(lambda, log): &(f64, f64)| log - lambda * threshold - 1.0 - lambda.ln();
        let mut best: Option<(f64, f64)> = None;
        for here in &transforms {
            let lambda = here.0;
            if lambda > saddle || (lambda < saddle && bound(here) > log_expectation + CANCELLATION) {
                continue;
            }
            let larger = transforms.iter().filter(|(other, _)| *other > lambda);
            let needed = |other: &(f64, f64)| (bound(other) - log_expectation + LEVEL + LN_2) / (other.0 - lambda);
            let mut period = larger.map(needed).fold(f64::INFINITY, f64::min).max(1.0 / lambda);
            for _ in 0..4 {
                period = period.max((period.ln() - log_expectation + LEVEL + LN_2) / lambda);
            }
            if best.is_none_or(|(_, shortest)| period < shortest) {
                best = Some((lambda, period));
            }
        }
        let (lambda, period) = best?;
        (self.lambda, self.spacing) = (lambda, TAU / period);
        self.larger = transforms.into_iter().filter(|(other, _)| *other > lambda).collect();
        (period.is_finite() && self.spacing > 0.0).then_some(())
    }

    /// log of a bound on what lies beyond the k-th point, over E[e^{λX}].
    fn log_beyond_of(&self, modulus: &Modulus, k: usize) -> f64 {
        let tau = k as f64 * self.spacing;
        modulus.log(tau) - (PI * tau).ln()
    }

    /// The last point, beyond which next to nothing is left.
    fn last(&self, modulus: &Modulus, log_negligible: f64) -> Option<usize> {
        let is_enough = |k: usize| self.log_beyond_of(modulus, k) <= log_negligible;
        let mut high = 16;
        while !is_enough(high) {
            high *= 2;
            if high > MOST_POINTS {
                return None;
            }
        }
        let mut low = high / 2;
        while high - low > 1 + high / 16 {
            let middle = usize::midpoint(low, high);
            if is_enough(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }

    fn fill(&mut self, batches: &[(f64, Tilted)], last: usize) {
        let zero = Point {
            log: Complex64::default(),
            error: 0.0,
            log_most: 0.0,
        };
        self.points = vec![zero; last + 1];
        for (count, batch) in batches {
            for (point, value) in self.points.iter_mut().zip(batch.values(self.spacing, last)) {
                point.log += value.log.value * *count;
                point.error += count * value.log.error + 2.0 * f64::EPSILON * point.log.norm();
                point.log_most += count * value.log_most;
            }
        }
    }

    /// Bounds on log E[X₊].
    pub(super) fn log_expectation(&self, threshold: &Threshold) -> (f64, f64) {
        let (lower, upper) = self.log_without_large(threshold);
        let (more, most) = self.log_large_part(threshold);
        let (lower, upper) = (log_add(lower, more), log_add(upper, most));
        let other = self.other.as_ref().map(|other| other.log_expectation(threshold));
        other.map_or((lower, upper), |(more, most)| (lower.max(more), upper.min(most)))
    }

    /// Bounds on log E[X₊; no Y is large].
    fn log_without_large(&self, threshold: &Threshold) -> (f64, f64) {
        let Threshold { value: w, error: wrong } = *threshold;
        let sign = self.direction.sign();
        let log = self.log_transform.value - sign * self.lambda * w;
        let size = self.log_transform.value.abs() + self.lambda * w.abs();
        let slack = self.log_transform.error + self.lambda * wrong + 4.0 * f64::EPSILON * (1.0 + size);
        let most = -1.0 - self.lambda.ln();
        if self.points.is_empty() {
            return (f64::NEG_INFINITY, log + slack + most);
        }
        let (mut sum, mut errors, mut sizes) = (0.0, 0.0, 0.0);
        for (k, point) in self.points.iter().enumerate() {
            let tau = k as f64 * self.spacing;
            let square = self.lambda.powi(2) + tau * tau;
            let weight = if k == 0 { 0.5 } else { 1.0 };
            let turn = point.log.im - tau * w;
            let rounding = 4.0 * f64::EPSILON * (point.log.norm() + tau * w.abs() + 2.0) + tau * wrong;
            let error = point.error + rounding;
            if error >= UNKNOWN {
                errors += weight * 2.0 * point.log_most.exp() / square;
                continue;
            }
            let term =
                Complex64::from_polar(point.log.re.exp(), turn) / Complex64::new(self.lambda, sign * tau).powi(2);
            sum += weight * 2.0 * term.re;
            let size = weight * 2.0 * point.log.re.exp() / square;
            sizes += size;
            errors += size * error.exp_m1();
        }
        let factor = self.spacing / TAU;
        let rounding = (self.points.len() as f64 + 8.0) * f64::EPSILON * sizes;
        let error = factor * (errors + rounding) + self.log_beyond.exp();
        let aliases = self.aliases((w, wrong), log, most.exp()) * (2.0 * slack).exp();
        let value = factor * sum;
        (
            log - slack + (value - error - aliases).max(0.0).ln(),
            log + slack + (value + error).min(1.001 * most.exp()).ln(),
        )
    }

    /// A bound on what the spacing adds, over E[e^{λX}], where E[X₊] is at most `most` of it.
    fn aliases(&self, (w, wrong): (f64, f64), log: f64, most: f64) -> f64 {
        let period = TAU / self.spacing;
        // Σ e^{−nx}·(nD + m) = m·r/(1 − r) + D·r/(1 − r)², r = e^{−x}.
        let ratio = (-self.lambda * period).exp();
        let left = most * ratio / (1.0 - ratio) + (period.ln() - log).exp() * ratio / (1.0 - ratio).powi(2);
        let sign = self.direction.sign();
        let right = self.larger.iter().map(|&(other, log_other)| {
            let first = log_other - sign * other * w + other * wrong - 1.0 - other.ln() - log;
            let rate = (other - self.lambda) * period;
            (first - rate).exp() / -(-rate).exp_m1()
        });
        (left + right.fold(f64::INFINITY, f64::min)) * (1.0 + 1e-9)
    }

    /// Bounds on log E[X₊] over the outcomes with a large Y.
    fn log_large_part(&self, threshold: &Threshold) -> (f64, f64) {
        let Threshold { value: w, error: wrong } = *threshold;
        if self.direction == Direction::Add {
            // P(A) is less than the sum that bounds E[S; A].
            let mass = self.large.most_mass();
            let log_mass = if mass < LEAST { self.log_large_mean } else { mass.ln() };
            let most = if self.limit >= w + wrong {
                f64::NEG_INFINITY
            } else {
                (w + wrong).ln() + log_mass
            };
            return (f64::NEG_INFINITY, most);
        }
        let most = self.large.mean.upper * (1.0 + 1e-12);
        if most < LEAST {
            return (f64::NEG_INFINITY, self.log_large_mean);
        }
        let above = self.large.mean_above((w, wrong));
        let low = self.large.most_sum * self.others.excess_below(w + wrong - self.limit);
        (above.lower.max(0.0).ln(), (above.upper.max(0.0) + low).min(most).ln())
    }
}

#[cfg(test)]
mod tests;
