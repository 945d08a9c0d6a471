//! The privacy curve of a group from that of one record: a chain of data sets of which neighbours differ in one record.
//!
//! Let D_0, …, D_k be data sets of one size, each with one record replaced. If every step of the chain has the privacy curve
//! δ₁, then P_i(S) ≤ e^{ε_i} P_{i−1}(S) + δ₁(ε_i) for every event S and every ε_i, negative ones too, and by induction
//!
//! > P_k(S) ≤ e^{ε} P_0(S) + Σ_i e^{ε_{i+1} + … + ε_k} δ₁(ε_i), ε = ε_1 + … + ε_k.
//!
//! The best split of ε is the trade-off function 1 − (1 − f)^{∘k} of GROUP Theorem 5; equal parts are its Theorem 4. For
//! Gaussian trade-off functions G_μ the best ε_i fall by μ² from each to the next, so splits are searched that fall evenly:
//! any of them is a valid bound.
//!
//! It is needed where the dominating pair of a group is not tight: after many steps of replaced records in fixed batches the
//! pair, which reveals how many members are in each batch, can be far larger.

use crate::curve::composition::Composition;
use crate::curve::epsilon_search;
use crate::curve::range_cache::Wanted;
use crate::error::Result;
use crate::interval::Enclosure;
use crate::special::log_space::log_add;
use crate::special::root::golden_section;
use crate::step::{Adjacency, Group, Mechanism, Sampling, Step};

/// How closely the curve of one record is wanted: the sum over the chain is as close.
const WANTED: Wanted = Wanted {
    relative: 5e-7,
    absolute: 0.0,
    coarse: 5e-7,
};
/// Links of one ε at most: longer chains have runs of equal ones, each replaced by its middle. Their sum is of second order
/// in the length of a run.
const MOST_PARTS: u64 = 16;
/// How fast the ε_i fall, in units of the Rényi divergence of order 2 of one record, which is μ² for G_μ: the search around 1,
/// and equal parts beside it.
const FALLS: (f64, f64) = (0.7, 1.15);
/// Logarithm of δ₁ below which Chernoff's bound is used: so far out the curve takes seconds a point, and its links add next
/// to nothing to any δ that counts.
const SMALLEST: f64 = -80.0;
/// Rényi orders of that bound less 1: √2 apart, which costs a few per cent of its exponent at most.
const ORDERS: std::ops::Range<i32> = -6..22;
/// Evaluations of that search: to a few per cent, where the sum is flat.
const ROUNDS: usize = 5;

/// Where the ε of equal parts is this many times that of the pair no other split is looked at: they gain a few per cent.
const HOPELESS: f64 = 1.5;
/// Work on the curve of one record, in density evaluations, beyond which equal parts are all that is looked at: a tenth of a
/// second. After few steps, where curves are that expensive, other splits lowered ε by two or three parts in ten thousand; with twice
/// the value an answer takes about twice as long there.
const EXPENSIVE: u64 = 20_000_000;

/// A group of several replaced records as a chain of single ones.
#[derive(Debug)]
pub(crate) struct GroupChain {
    one: Box<Composition>,
    group_size: u64,
    /// Rényi divergence of order 2 of one record.
    variance: f64,
    /// True if only equal parts are looked at: a point of the curve of Laplace noise or randomised response takes long, and the
    /// best split gains next to nothing.
    equal_parts: bool,
    /// α − 1 and an upper bound on the Rényi divergence of one record at order α.
    divergences: Vec<(f64, f64)>,
}

impl GroupChain {
    /// The chain of a run; `None` unless several records of a fixed batch are replaced, the same number in every step.
    ///
    /// # Errors
    /// Those of one record.
    pub(crate) fn of(segments: &[(Step, u64)], adjacency: Adjacency) -> Result<Option<Self>> {
        let size = segments.first().map_or(1, |(scheme, _)| scheme.group.size);
        let alike = segments.iter().all(|(scheme, _)| scheme.group == Group::of(size));
        let is_sampled = |scheme: &Step| match scheme.sampling {
            Sampling::FixedBatch {
                batch_size,
                dataset_size,
            } => batch_size < dataset_size,
            _ => false,
        };
        let sampled = segments.iter().any(|(scheme, _)| is_sampled(scheme));
        if adjacency != Adjacency::Replace || size < 2 || !alike || !sampled {
            return Ok(None);
        }
        let single = |(scheme, count): &(Step, u64)| {
            let one = Step {
                group: Group::of(1),
                ..scheme.clone()
            };
            (one, *count)
        };
        let single: Vec<(Step, u64)> = segments.iter().map(single).collect();
        let one = Composition::new(&single, adjacency)?;
        let is_gaussian = |scheme: &Step| matches!(scheme.mechanism, Mechanism::Gaussian { .. });
        let equal_parts = !segments.iter().all(|(scheme, _)| is_gaussian(scheme));
        let chain = Self::of_one(one, size)?;
        Ok(Some(Self { equal_parts, ..chain }))
    }

    /// The chain of `group_size` records with this curve each.
    fn of_one(mut one: Composition, group_size: u64) -> Result<Self> {
        let variance = one.renyi(2.0)?;
        let orders = ORDERS.map(|i| 2f64.powf(0.5 * f64::from(i)));
        let divergences = orders.map(|beyond| Ok((beyond, one.renyi(1.0 + beyond)?)));
        Ok(Self {
            divergences: divergences.collect::<Result<_>>()?,
            one: Box::new(one),
            group_size,
            variance,
            equal_parts: false,
        })
    }

    /// log of Chernoff's bound on δ₁ at ε ≥ 0: e^{(α − 1)(D_α − ε)} at the best order.
    fn log_chernoff(&self, epsilon: f64) -> f64 {
        let bounds = self
            .divergences
            .iter()
            .map(|(beyond, divergence)| beyond * (divergence - epsilon));
        bounds.fold(0.0, f64::min) * (1.0 - 1e-12)
    }

    /// True if no chain is below e^`log_delta` at ε: some ε_i is at most ε/k with ε_{i+1} + … + ε_k ≥ 0 (take the i at
    /// which that sum is the farthest above (k − i)·ε/k), so that every sum is at least δ₁(ε/k).
    fn is_above(&mut self, epsilon: f64, log_delta: f64) -> Result<bool> {
        let (one, _) = self.one_record(epsilon / self.group_size as f64)?;
        Ok(one.log_lower >= log_delta)
    }

    /// The bound on δ at ε ≥ 0 if it may be below e^`log_delta`.
    ///
    /// # Errors
    /// ε not finite.
    pub(crate) fn delta_below(&mut self, epsilon: f64, log_delta: f64) -> Result<Option<Enclosure>> {
        if log_delta == f64::NEG_INFINITY || self.is_above(epsilon, log_delta)? {
            return Ok(None);
        }
        Ok(Some(self.delta(epsilon, ROUNDS)?.0))
    }

    /// The bound on δ at ε ≥ 0 by the best of the splits that are looked at, and the work on the curve of one record, beyond
    /// [`EXPENSIVE`] where that cut the search short.
    ///
    /// # Errors
    /// ε not finite.
    pub(crate) fn delta(&mut self, epsilon: f64, rounds: usize) -> Result<(Enclosure, u64)> {
        let (mut best, mut cost) = self.sum(epsilon, 0.0)?;
        let mut failed = None;
        if self.variance.is_finite() && !self.equal_parts {
            let (low, high) = (FALLS.0 * self.variance, FALLS.1 * self.variance);
            golden_section(low, high, rounds, |fall| {
                if cost > EXPENSIVE {
                    return 0.0;
                }
                match self.sum(epsilon, fall) {
                    Ok((found, work)) => {
                        cost += work;
                        if found.log_upper < best.log_upper {
                            best = found;
                        }
                        found.log_upper
                    }
                    Err(error) => {
                        failed = Some(error);
                        0.0
                    }
                }
            });
        }
        failed.map_or(Ok((best, cost)), Err)
    }

    /// Certified bounds on the least ε at which the bound is at most e^`log_delta`, if that is below `limit`.
    ///
    /// # Errors
    /// None that the questions themselves have not.
    pub(crate) fn epsilon_below(
        &mut self,
        log_delta: f64,
        limit: f64,
        tolerance: f64,
    ) -> Result<Option<(f64, f64)>> {
        // As in `is_above`, ε/k is at least what one record has at δ.
        let least = self.group_size as f64 * self.one.epsilon_of_log(log_delta, 1e-2)?.0;
        if limit == 0.0 || least >= limit {
            return Ok(None);
        }
        let count = self.group_size as f64;
        // −d log δ/dε of a Gaussian trade-off function is about −2·log δ/ε where δ is small.
        let slope = |epsilon: f64| (-2.0 * log_delta).max(1.0) / epsilon.max(1e-300);
        let guess = (1.05 * least / count, slope(least / count));
        let factor = |one: f64| log_geometric_sum(one, count);
        let (one, cost) = self.one.epsilon_of_multiple(factor, (log_delta, tolerance), guess)?;
        // Rounding must not make k·ε₁ smaller.
        let equal = (count * one.0 * (1.0 - 1e-15), count * one.1 * (1.0 + 1e-15));
        if equal.0 > HOPELESS * limit {
            return Ok(None);
        }
        let is_expensive = |cost: u64| cost > EXPENSIVE;
        if self.equal_parts
            || is_expensive(cost)
            || equal.1.is_infinite()
            || is_expensive(self.delta(equal.1, ROUNDS)?.1)
        {
            return Ok((equal.1 < limit).then_some(equal));
        }
        let start = equal.1.min(limit);
        let mut failed = None;
        let curve = |epsilon: f64, _: &crate::interval::Aim| {
            let found = self.delta(epsilon, ROUNDS);
            found.map_or_else(
                |error| {
                    failed = Some(error);
                    Enclosure::TRIVIAL
                },
                |(found, _)| found,
            )
        };
        let found = epsilon_search::epsilon(curve, log_delta, tolerance, (start, slope(start)), f64::INFINITY)?;
        match failed {
            Some(error) => Err(error),
            None => Ok((found.1 < limit).then_some(found)),
        }
    }

    /// Σ_i e^{ε_{i+1} + … + ε_k} δ₁(ε_i) for ε_i that fall by `fall` from each to the next, and the work on the curve of one
    /// record.
    fn sum(&mut self, epsilon: f64, fall: f64) -> Result<(Enclosure, u64)> {
        let count = self.group_size as f64;
        // Rounding must not make the sum of the ε_i larger than ε.
        let least = epsilon - 1e-13 * (epsilon + fall * count * count);
        let parts = if fall == 0.0 {
            1
        } else {
            self.group_size.min(MOST_PARTS)
        };
        let (mut lower, mut upper) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let mut size = 1.0f64;
        let (mut done, mut cost) = (0, 0);
        for part in 0..parts {
            let links = self.group_size * (part + 1) / parts - done;
            let middle = done as f64 + 0.5 * (links as f64 - 1.0); // of places 0, 1, …, k − 1
            done += links;
            let one = least / count + fall * (0.5 * (count - 1.0) - middle);
            let (delta, work) = self.one_record(one)?;
            cost += work;
            if cost > EXPENSIVE && fall > 0.0 {
                return Ok((Enclosure::TRIVIAL, cost));
            }
            let (growth, factor) = (links as f64 * one, log_geometric_sum(one, links as f64));
            lower = log_add(lower + growth, delta.log_lower + factor);
            upper = log_add(upper + growth, delta.log_upper + factor);
            for exponent in [growth, factor, upper] {
                size = size.max(if exponent.is_finite() { exponent.abs() } else { 0.0 });
            }
        }
        let rounding = 16.0 * f64::EPSILON * (parts as f64 + 2.0) * (2.0 + size);
        Ok((Enclosure::of_logs(lower - rounding, upper + rounding), cost))
    }

    /// δ₁ at any ε, and the work that it takes: below 0, δ₁(−ε) = 1 − e^{−ε} + e^{−ε} δ₁(ε), as the curve holds in both orders.
    fn one_record(&mut self, epsilon: f64) -> Result<(Enclosure, u64)> {
        let limit = self.log_chernoff(epsilon.abs());
        let (found, cost) = if limit > SMALLEST {
            self.one.delta_and_cost(epsilon.abs(), WANTED)?
        } else {
            (Enclosure::of_logs(f64::NEG_INFINITY, limit), 0)
        };
        if epsilon >= 0.0 {
            return Ok((found, cost));
        }
        let certain = (-epsilon.exp_m1()).ln();
        let with = |log: f64| log_add(certain, epsilon + log);
        let rounding = 8.0 * f64::EPSILON * (1.0 + certain.abs());
        let below = Enclosure::of_logs(with(found.log_lower) - rounding, with(found.log_upper) + rounding);
        Ok((below, cost))
    }
}

/// log(1 + e^ε + … + e^{(n−1)ε}).
fn log_geometric_sum(epsilon: f64, count: f64) -> f64 {
    let size = epsilon.abs();
    let sum = if count * size < 1e-8 {
        count.ln() - 0.5 * (count - 1.0) * size
    } else {
        (-(-count * size).exp_m1()).ln() - (-(-size).exp_m1()).ln()
    };
    if epsilon > 0.0 {
        (count - 1.0) * epsilon + sum
    } else {
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::one_step::gaussian_delta;

    #[test]
    fn geometric_sums_are_those_of_their_terms() {
        for (epsilon, count) in [
            (0.0, 5),
            (1e-12, 7),
            (0.3, 4),
            (-0.3, 4),
            (2.0, 1),
            (-50.0, 3),
            (1e-4, 1000),
        ] {
            let terms: f64 = (0..count).map(|i| (f64::from(i) * epsilon).exp()).sum();
            let found = log_geometric_sum(epsilon, f64::from(count));
            assert!((found - terms.ln()).abs() < 1e-12, "{epsilon} {count} {found}");
        }
    }

    /// k replaced records of full batches are G_{kμ}, and so is the chain of k times G_μ (GROUP Theorem 5).
    #[test]
    fn a_chain_of_gaussian_curves_is_the_gaussian_curve_of_the_group() {
        let full = Sampling::FixedBatch {
            batch_size: 50,
            dataset_size: 50,
        };
        let scheme = Step {
            mechanism: Mechanism::Gaussian {
                noise_multiplier: 400.0,
            },
            sampling: full,
            group: Group::of(1),
        };
        let mu = 2.0 / 400.0 * 100f64.sqrt();
        for size in [2u64, 5, 20, 200] {
            let one = Composition::new(&[(scheme.clone(), 100)], Adjacency::Replace).unwrap();
            let mut chain = GroupChain::of_one(one, size).unwrap();
            assert!((chain.variance - mu * mu).abs() < 1e-9);
            for epsilon in [0.0, 0.3, 1.5] {
                let exact = gaussian_delta(size as f64 * mu, epsilon);
                let (found, _) = chain.delta(epsilon, ROUNDS).unwrap();
                assert!(found.log_upper >= exact.log_lower, "{size} {epsilon}");
                if exact.log_lower < SMALLEST {
                    continue; // Chernoff's bound stands for the curve there
                }
                assert!(
                    found.log_upper <= exact.log_upper + 0.01,
                    "{size} {epsilon}: {found:?} {exact:?}"
                );
                assert!(found.width() < 1e-6);
            }
        }
    }
}
