//! The line of integration for a threshold w, and the limit above which a likelihood ratio Y counts as large.
//!
//! With X = S − w if the record is removed, or w − S if it is added, the line is that through the saddle point of E[e^{sX}; no Y is large]/s², where the
//! terms of the sum hardly cancel.
//!
//! If the record is removed, a loss above ε is due to many moderate Y or to a single large one. Let x be so far below the mean of the sum of all other batches
//! that this sum is hardly ever below x. Where one Y is above w − x, S exceeds w almost surely, so that such outcomes are computed in closed form.
//! They must not be part of the transform: under a tilt by e^{λS} they would outweigh all others, and S would be far above w.

use crate::interval::Interval;
use crate::loss::allocation::bins::Part;
use crate::loss::allocation::large_outcomes::{LargeOutcomes, LargeRatios};
use crate::loss::allocation::log_normal::LogNormal;
use crate::loss::allocation::on_line::batch::Batch;
use crate::loss::allocation::on_line::rough::Rough;
use crate::loss::allocation::threshold::{Range, count};
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;
use crate::special::root::{bisect, newton_bracket};
use crate::step::Direction;
use std::convert::Infallible;
use std::f64::consts::TAU;

/// −log of the probability that the sum of the other batches is below x.
const LOG_LOW: f64 = 45.0;
/// Tilts μ of the bounds on low sums, over the best μ of a Gaussian sum, which is far from the best one where Y is far from normal.
const LOW_TILTS: [f64; 6] = [0.3, 0.6, 1.0, 1.6, 2.5, 5.0];
/// −log of the part of the expectation below which outcomes with a large Y need no closer bound.
const LOG_NEGLIGIBLE: f64 = 27.0;
/// The least quantile, in standard deviations of log Y, at which Y counts as large.
const LEAST_LARGE: f64 = 3.0;
/// Steps in which the saddle point is found, how near to it is enough in standard deviations, the least relative bracket, and the longest step in log λ.
const STEPS: usize = 40;
const NEAR: f64 = 0.3;
const CLOSE: f64 = 1e-3;
const LONGEST: f64 = 2.0;
/// log of the relative error of transforms that are looked at on the way.
const ROUGH: f64 = -14.0;
/// Rounds in which the limit of Y is found, and the part of it that is not worth another one.
const ROUNDS: usize = 4;
const MUCH: f64 = 0.97;

/// A line and the limit of Y.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// Y above this is large.
    pub(super) limit: f64,
    pub(super) others: Others,
    pub(super) saddle: Saddle,
    /// log of E[X₊] by the outcomes without a large Y and by those with one, about.
    pub(super) log_estimate: f64,
    pub(super) log_large: f64,
}

/// Some μ, each with log of a bound on E[e^{−μS'}] for the sum S' of all batches but one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others {
    transforms: [(f64, f64); LOW_TILTS.len()],
}

/// The saddle point of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saddle {
    pub(super) lambda: f64,
    /// log E[e^{λX}; no Y is large].
    log: f64,
    /// Variance of S under the tilt.
    pub(super) variance: f64,
}

/// What a line is chosen for: X = S − w if the record is removed, or w − S.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) parts: &'a [Part],
    pub(super) direction: Direction,
    pub(super) range: Range,
    /// An upper bound on log E[X₊] in the middle of the range. Saddle points overstate it where X₊ is due to many moderate Y and to a large one alike.
    pub(super) log_most: f64,
}

/// The outcomes in which some Y is above `limit`.
pub(super) fn large_outcomes(parts: &[Part], limit: f64) -> LargeOutcomes {
    let of = |part: &Part| {
        let tails = LogNormal::new(part.variance).above(limit);
        LargeRatios {
            count: part.count,
            mass: tails.mass,
            mean: tails.mean,
        }
    };
    LargeOutcomes::new(&parts.iter().map(of).collect::<Vec<_>>())
}

/// log of a bound on the expectation of S over the outcomes with some Y above `limit` = c, which may be below the range of numbers: the sum over all batches
/// of E\[Y; Y > c\] and of P(Y > c) times the mean of the others.
pub(super) fn log_large_mean(parts: &[Part], limit: f64) -> f64 {
    let mut sum = LogSum::default();
    for part in parts {
        let deviation = part.variance.sqrt();
        let normal = (limit.ln() + 0.5 * part.variance) / deviation;
        sum.add(part.count.ln() + log_upper_tail(normal - deviation));
        sum.add(part.count.ln() + count(parts).ln() + log_upper_tail(normal));
    }
    let log = sum.ln();
    log + 1e-9 + 1e-13 * log.abs()
}

impl Target<'_> {
    /// The sign of S in X.
    pub(super) fn sign(&self) -> f64 {
        self.direction.sign()
    }

    /// The line; `None` where there is none.
    pub(super) fn choose(&self) -> Option<Choice> {
        let others = self.others()?;
        let mut limit = self.first_limit(&others);
        let mut saddle = match self.saddle(limit, self.first_tilt()) {
            Some(saddle) => saddle,
            None => {
                // Far out E[e^{λY}] may be beyond the range of numbers for all λ that count. A lower limit leaves the largest Y out of it.
                let rough = Rough::new(self.parts, self.direction).log_expectation(self.range.middle);
                limit = self.sufficient_limit(&others, rough.min(self.log_most)).min(limit);
                self.saddle(limit, self.first_tilt())?
            }
        };
        for _ in 0..ROUNDS {
            let log_estimate = saddle.log_estimate().min(self.log_most);
            let next = self.sufficient_limit(&others, log_estimate.max(self.log_large(limit)));
            if next >= MUCH * limit {
                break;
            }
            limit = next;
            saddle = self.saddle(limit, saddle.lambda)?;
        }
        Some(Choice {
            limit,
            saddle,
            log_estimate: saddle.log_estimate().min(self.log_most),
            log_large: self.log_large(limit),
            others,
        })
    }

    /// log of a lower bound on the part of E[X₊] that is due to outcomes with a large Y.
    fn log_large(&self, limit: f64) -> f64 {
        match self.direction {
            Direction::Remove => {
                let above = large_outcomes(self.parts, limit).mean_above((self.range.middle, 0.0));
                above.lower.max(0.0).ln()
            }
            Direction::Add => f64::NEG_INFINITY,
        }
    }

    /// About the least Y with which S is almost surely above w; w where that is not below w.
    fn first_limit(&self, others: &Others) -> f64 {
        let largest = self.range.largest;
        let low = others.low_place(LOG_LOW);
        if self.direction == Direction::Remove && low > 0.0 {
            largest - low
        } else {
            largest
        }
    }

    /// Transforms of all batches but one.
    fn others(&self) -> Option<Others> {
        let variance: f64 = self.parts.iter().map(|part| part.count * part.variance.exp_m1()).sum();
        let normal = (2.0 * LOG_LOW / variance).sqrt();
        let mut transforms = [(0.0, 0.0); LOW_TILTS.len()];
        for (transform, factor) in transforms.iter_mut().zip(LOW_TILTS) {
            let mu = factor * normal;
            let (mut sum, mut least) = (0.0, 0.0f64);
            for part in self.parts {
                let one = Batch::whole(part.variance).tilted(-mu, 0.0, ROUGH)?;
                sum += part.count * one.log_transform.upper();
                least = least.min(one.log_transform.lower());
            }
            *transform = (mu, sum - least + 1e-12 * (1.0 + sum.abs()));
        }
        Some(Others { transforms })
    }

    /// The least limit at which the bounds on outcomes with a large Y are negligibly far apart.
    fn sufficient_limit(&self, others: &Others, log_expectation: f64) -> f64 {
        let largest = self.range.largest;
        let log_unknown = |limit: f64| {
            let large = large_outcomes(self.parts, limit);
            match self.direction {
                Direction::Remove => large
                    .mean
                    .upper
                    .min(large.most_sum * others.excess_below(largest - limit))
                    .ln(),
                Direction::Add => (largest * large.most_mass()).ln(),
            }
        };
        let widest = self.parts.iter().fold(0.0f64, |widest, part| part.variance.max(widest));
        let (low, high) = (LEAST_LARGE * widest.sqrt() - 0.5 * widest, largest.ln());
        if low >= high {
            return f64::INFINITY;
        }
        let negligible = log_expectation - LOG_NEGLIGIBLE;
        let is_met = |log: f64| Ok::<_, Infallible>(log_unknown(log.exp()) <= negligible);
        let Ok(found) = bisect((low, high), 40, |high| 1e-3 * high.abs().max(1.0), is_met);
        if log_unknown(found.exp()) <= negligible {
            found.exp()
        } else {
            f64::INFINITY
        }
    }

    /// The saddle point if S were Gaussian.
    fn first_tilt(&self) -> f64 {
        let variance: f64 = self.parts.iter().map(|part| part.count * part.variance.exp_m1()).sum();
        let distance = self.sign() * (self.range.middle - count(self.parts));
        // (d − σ²λ)λ = −2 where the factor 1/λ² counts.
        let half = 0.5 * distance / variance;
        half + (half * half + 2.0 / variance).sqrt()
    }

    /// log E[e^{λX}; no Y is large], the mean of S and its variance under this tilt.
    pub(super) fn moments(&self, limit: f64, lambda: f64) -> Option<(Interval, f64, f64)> {
        let sign = self.sign();
        let (mut log, mut error, mut mean, mut variance) = (-sign * lambda * self.range.middle, 0.0, 0.0, 0.0);
        for part in self.parts {
            let one = Batch::new(part.variance, limit).tilted(sign * lambda, 0.0, ROUGH)?;
            log += part.count * one.log_transform.value;
            error += part.count * one.log_transform.error;
            mean += part.count * one.mean;
            variance += part.count * one.variance;
        }
        Some((
            Interval {
                lower: log - error,
                upper: log + error,
            },
            mean,
            variance,
        ))
    }

    /// The saddle point, by Newton's method in log λ; `None` where no transform is within the range of numbers.
    fn saddle(&self, limit: f64, start: f64) -> Option<Saddle> {
        let mut last = None;
        let step = |log_lambda: f64| {
            let lambda = log_lambda.exp();
            let Some((log, mean, variance)) = self.moments(limit, lambda) else {
                return -LONGEST;
            };
            last = Some(Saddle {
                lambda,
                log: log.middle(),
                variance,
            });
            let missing = 2.0 / lambda - self.sign() * (mean - self.range.middle);
            let slope = variance + 2.0 / (lambda * lambda);
            if missing.abs() <= NEAR * slope.sqrt() {
                return 0.0;
            }
            (missing / (lambda * slope)).clamp(-LONGEST, LONGEST)
        };
        newton_bracket(start.ln(), STEPS, |_| CLOSE, step)?;
        last
    }
}

impl Others {
    /// The highest place below which S' is with a probability of about e^−`level` at most.
    fn low_place(&self, level: f64) -> f64 {
        let places = self.transforms.iter().map(|(mu, log)| -(log + level) / mu);
        places.fold(f64::NEG_INFINITY, f64::max)
    }

    /// A bound on E[(x − S')₊], as z₊ ≤ e^{μz − 1}/μ.
    pub(super) fn excess_below(&self, x: f64) -> f64 {
        let of = |&(mu, log_transform): &(f64, f64)| {
            let log = mu * x - 1.0 - mu.ln() + log_transform;
            (log + 8.0 * f64::EPSILON * ((mu * x).abs() + log_transform.abs() + 4.0)).exp()
        };
        self.transforms.iter().map(of).fold(x.max(0.0), f64::min)
    }
}

impl Saddle {
    /// log E[X₊; no Y is large], about.
    fn log_estimate(&self) -> f64 {
        let square = self.lambda * self.lambda * self.variance + 2.0;
        self.log - self.lambda.ln() - 0.5 * (TAU * square).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(parts: &[Part], direction: Direction, middle: f64) -> Target<'_> {
        let range = Range {
            number: 0,
            middle,
            largest: middle,
        };
        Target {
            parts,
            direction,
            range,
            log_most: f64::INFINITY,
        }
    }

    /// With one other batch E[(x − S')₊] is that of one log-normal variable; its bound is within a factor of ten, and half of it would be too little where x is
    /// most likely.
    #[test]
    fn the_other_batches_are_seldom_low() {
        let parts = [Part {
            count: 2.0,
            variance: 0.25,
        }];
        let others = target(&parts, Direction::Remove, 3.0).others().unwrap();
        let law = LogNormal::new(0.25);
        let mut closest = f64::INFINITY;
        for x in [0.15, 0.3, 0.5, 0.8, 1.0, 3.0, 8.0] {
            let (exact, bound) = (law.excess_below(x).upper, others.excess_below(x));
            assert!(exact <= bound && bound < 20.0 * exact, "{x}: {exact} {bound}");
            closest = closest.min(bound / exact);
        }
        assert!(closest < 2.0 && others.excess_below(-1.0) == 0.0, "{closest}");
    }

    /// The saddle point has the mean of X under its tilt at 2/λ.
    #[test]
    fn the_line_goes_through_the_saddle_point() {
        for (count, variance, middle, direction) in [
            (1000.0, 0.25, 1150.0, Direction::Remove),
            (1e5, 1.0, 1.1e5, Direction::Remove),
            (100.0, 1.0, 60.0, Direction::Add),
            (2.0, 0.0025, 2.7, Direction::Remove),
        ] {
            let parts = [Part { count, variance }];
            let target = target(&parts, direction, middle);
            let found = target.choose().unwrap();
            let lambda = found.saddle.lambda;
            let (_, mean, variance) = target.moments(found.limit, lambda).unwrap();
            let off = direction.sign() * (mean - middle) - 2.0 / lambda;
            let scale = (variance + 2.0 / (lambda * lambda)).sqrt();
            // Where large Y begin to count the bracket ends first.
            assert!(off.abs() < 0.5 * scale, "{count} {middle}: {off} {scale}");
            assert!(found.limit <= middle && found.limit > 1.0);
        }
    }

    /// The bound on E[S; some Y is large] where numbers do not end, against what is known there.
    #[test]
    fn the_bound_in_logarithms_is_near_the_truth() {
        let parts = [Part {
            count: 100.0,
            variance: 0.25,
        }];
        for limit in [3.0, 10.0, 20.0] {
            let exact = large_outcomes(&parts, limit).mean.upper.ln();
            let bound = log_large_mean(&parts, limit);
            assert!(exact <= bound && bound < exact + 0.5, "{limit}: {exact} {bound}");
        }
    }
}
