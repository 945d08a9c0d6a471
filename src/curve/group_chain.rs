//! The privacy curve of a group from that of one record: a chain of data sets of which neighbours differ in one record.
//!
//! Let D_0, …, D_k be data sets, each with one record replaced, added or removed. If every step of the chain has the privacy curve
//! δ₁, then P_i(S) ≤ e^{ε_i} P_{i−1}(S) + δ₁(ε_i) for every event S and every ε_i, negative ones too, and by induction
//!
//! > P_k(S) ≤ e^{ε} P_0(S) + Σ_i e^{ε_{i+1} + … + ε_k} δ₁(ε_i), ε = ε_1 + … + ε_k.
//!
//! The best split of ε is the trade-off function 1 − (1 − f)^{∘k} of GROUP Theorem 5; equal parts are its Theorem 4. It is found from a
//! table of δ₁ ([`chain_split`](super::chain_split)); any split is a valid bound.
//!
//! It is needed where the dominating pair of a group is not tight: after many steps of replaced records in fixed batches the
//! pair, which reveals how many members are in each batch, can be far larger. Where records are dealt into the batches of an epoch, it is
//! the bound for groups whose pair reveals everything; a record is added or removed in each link then, and the curve of one record is the larger one
//! of both directions, for the smallest data set of the chain where steps draw fixed batches.

use crate::curve::accuracy::{Accuracy, PointAccuracy};
use crate::curve::chain_split::{Run, SplitTable, falling, joined, log_geometric_sum, stretched, sum_of};
use crate::curve::epsilon_search;
use crate::curve::epsilon_search::{Query, StartingPoint};
use crate::curve::pair_curve::PairCurve;
use crate::error::Result;
use crate::interval::{Enclosure, Interval};
use crate::special::log_space::log_add;
use crate::special::root::golden_section;
use crate::step::{Adjacency, Group, Mechanism, Sampling, Step};

/// Accuracy of the curve of one record, and of the sum over the chain with it.
const ACCURACY: PointAccuracy = PointAccuracy {
    relative: 5e-7,
    absolute: 0.0,
    coarse: 5e-7,
};
/// Accuracy of the points of the table of δ₁, which only says where splits are good: any split is a bound. With [`ACCURACY`] the
/// median of 200 groups takes 1.8 times as long, one of them with an ε that is a thousandth smaller.
const ACCURACY_OF_TABLE: PointAccuracy = PointAccuracy {
    relative: 1e-3,
    absolute: 0.0,
    coarse: 1e-3,
};
/// Different ε_i at most: longer chains are divided into this many runs of links, each with the mean ε of the run, at a loss of
/// second order in the length of a run.
const MAX_PARTS: u64 = 32;
/// Points of the table of δ₁ down to [`SMALLEST_LOG_DELTA`], at squares. With half of them ε was up to a part in 3,000 larger, with 32 as
/// much as a part in 10⁵ smaller.
const POINTS: u32 = 24;
/// Splits of so few parts are stretched by factors in this range, of which so many are tried: a curve of few steps bends where the table does
/// not see it, and two records of a fixed batch had an ε 0.6 % larger.
const FEW_PARTS: usize = 4;
const STRETCHES: (f64, f64) = (0.6, 1.6);
const ROUNDS: usize = 5;
/// Points of the table further out, where Chernoff's bound stands for the curve, and the factor from each to the next.
const FAR_POINTS: i32 = 40;
const FAR_FACTOR: f64 = 1.15;
/// log δ₁ below which Chernoff's bound is used: so far out the curve takes seconds a point, and its links add next to nothing to any δ of
/// practical size.
const SMALLEST_LOG_DELTA: f64 = -80.0;
/// Rényi orders of that bound less 1: √2 apart, which costs a few per cent of its exponent at most.
const ORDERS: std::ops::Range<i32> = -6..22;
/// Where the ε of equal parts is this many times that of the pair, no other split is tried. For curves with tails like Gaussian ones they gain
/// a few per cent; a chain of many dealt records might gain more.
const HOPELESS: f64 = 1.5;
/// Work on the curve of one record, in density evaluations, beyond which no further split is tried: a tenth of a second. The table may take
/// three times as much. With twice the value an answer takes about twice as long after few steps, where curves are that expensive.
const EXPENSIVE: u64 = 20_000_000;

/// Equal parts are near other splits where their ε is at most this many times what the table expects of those.
const NEAR: f64 = 2.0;

/// Relative width of the ε of one record that bounds that of a chain from below.
const ROUGH: f64 = 1e-2;
/// Where the search for the ε_i of equal parts starts, over the ε of one record.
const BEYOND_ONE_RECORD: f64 = 1.05;
/// log δ above which smaller ε are tried, and these ε over the one that is asked for.
const USELESS: f64 = -1.0;
const SMALLER: [f64; 6] = [0.9, 0.8, 0.65, 0.5, 0.25, 0.125];
/// Rounding of a product of three numbers, relatively.
const ROUNDING: f64 = 1e-15;

/// A group of records as a chain of data sets that differ in one record each.
#[derive(Debug)]
pub(crate) struct GroupChain {
    one: PairCurve,
    group_size: u64,
    /// Rényi divergence of order 2 of one record.
    variance: f64,
    /// True if only equal parts are tried: a point of the curve of Laplace noise or randomised response takes long, and the
    /// best split gains next to nothing.
    equal_parts: bool,
    /// α − 1 and an upper bound on the Rényi divergence of one record at order α.
    divergences: Vec<(f64, f64)>,
    /// What splits are found from; made where it is first asked for, and none where it is too expensive.
    table: Option<Option<SplitTable>>,
}

impl GroupChain {
    /// The chain of a run; `None` unless several records of a fixed batch are replaced, or so many are dealt into the batches of an epoch
    /// that their pair hides nothing, the same number in every step.
    ///
    /// # Errors
    /// Those of one record.
    pub(crate) fn of(segments: &[(Step, u64)], adjacency: Adjacency) -> Result<Option<Self>> {
        let size = segments.first().map_or(1, |(step, _)| step.group.size);
        let alike = segments.iter().all(|(step, _)| step.group == Group::of(size));
        let is_sampled = |step: &Step| match step.sampling {
            Sampling::FixedBatch {
                batch_size,
                dataset_size,
            } => batch_size < dataset_size,
            _ => false,
        };
        let needs_chain = |step: &Step| match adjacency {
            Adjacency::Replace => is_sampled(step),
            _ => step.is_allocated_in_public(),
        };
        if size < 2 || !alike || !segments.iter().any(|(step, _)| needs_chain(step)) {
            return Ok(None);
        }
        let mut single = Vec::new();
        for (step, count) in segments {
            let sampling = match adjacency {
                Adjacency::Replace => step.sampling,
                _ => match Self::sampling_of_last_link(step.sampling, size) {
                    Some(sampling) => sampling,
                    None => return Ok(None),
                },
            };
            let one = Step {
                group: Group::of(1),
                sampling,
                ..step.clone()
            };
            single.push((one, *count));
        }
        // The curve of one record must hold in both orders.
        let both = match adjacency {
            Adjacency::Replace => Adjacency::Replace,
            _ => Adjacency::AddRemove,
        };
        let one = PairCurve::new(&single, both)?;
        let is_gaussian = |step: &Step| matches!(step.mechanism, Mechanism::Gaussian { .. });
        let equal_parts = !segments.iter().all(|(step, _)| is_gaussian(step));
        let chain = Self::of_one(one, size);
        Ok(Some(Self { equal_parts, ..chain }))
    }

    /// The sampling whose curve of one record holds for every link where records are removed one by one: the smallest data set's, in whose fixed
    /// batches a record is most often, as every pair of a smaller rate is a kernel of it. `None` for truncated samples, of which that is not known.
    fn sampling_of_last_link(sampling: Sampling, size: u64) -> Option<Sampling> {
        match sampling {
            Sampling::FixedBatch {
                batch_size,
                dataset_size,
            } => Some(Sampling::FixedBatch {
                batch_size,
                dataset_size: batch_size.max(dataset_size.saturating_sub(size - 1)),
            }),
            Sampling::TruncatedPoisson { .. } => None,
            other => Some(other),
        }
    }

    /// The chain of `group_size` records with this curve each.
    fn of_one(mut one: PairCurve, group_size: u64) -> Self {
        let variance = one.renyi(2.0);
        let orders = ORDERS.map(|i| 2f64.powf(0.5 * f64::from(i)));
        let divergences = orders.map(|beyond| (beyond, one.renyi(1.0 + beyond))).collect();
        Self {
            divergences,
            one,
            group_size,
            variance,
            equal_parts: false,
            table: None,
        }
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
        Ok(Some(self.delta(epsilon)?.0))
    }

    /// The bound on δ at ε ≥ 0 by the better of equal parts and of the split from the table, and the work on the curve of one record,
    /// beyond [`EXPENSIVE`] where that cut the search short.
    ///
    /// # Errors
    /// ε not finite.
    pub(crate) fn delta(&mut self, epsilon: f64) -> Result<(Enclosure, u64)> {
        let equal = Run {
            links: self.group_size,
            epsilon: epsilon / self.group_size as f64,
        };
        let (mut best, mut cost) = self.sum(epsilon, &[equal])?;
        // A chain for a smaller ε is one for ε: far out little is known of the curve of one record.
        for part in [1.0].into_iter().chain(SMALLER) {
            if cost > EXPENSIVE || (part < 1.0 && best.log_upper < USELESS) {
                break;
            }
            let Some(split) = self.split(part * epsilon)? else {
                return Ok((best, cost));
            };
            for found in self.tried(part * epsilon, &split, cost)? {
                cost += found.1;
                if found.0.log_upper < best.log_upper {
                    best = found.0;
                }
            }
        }
        Ok((best, cost))
    }

    /// The bounds by a split of ε, and by some that are stretched where it has few parts, each with the work on the curve of one record;
    /// `spent` of what may be done is done.
    fn tried(&mut self, epsilon: f64, split: &[Run], spent: u64) -> Result<Vec<(Enclosure, u64)>> {
        let first = self.sum(epsilon, split)?;
        let mut cost = spent + first.1;
        let mut found = vec![first];
        if split.len() > FEW_PARTS {
            return Ok(found);
        }
        let mut failed = None;
        golden_section(STRETCHES.0, STRETCHES.1, ROUNDS, |factor| {
            if cost > EXPENSIVE {
                return 0.0;
            }
            match self.sum(epsilon, &stretched(split, factor)) {
                Ok(other) => {
                    cost += other.1;
                    found.push(other);
                    other.0.log_upper
                }
                Err(error) => {
                    failed = Some(error);
                    0.0
                }
            }
        });
        failed.map_or(Ok(found), Err)
    }

    /// The best split of ε in a few runs of links as far as a table tells, or that of a Gaussian curve; none where only equal parts are tried.
    fn split(&mut self, epsilon: f64) -> Result<Option<Vec<Run>>> {
        if self.equal_parts || !self.variance.is_finite() {
            return Ok(None);
        }
        let (size, fall) = (self.group_size, self.variance);
        Ok(Some(match self.table()? {
            Some(table) => joined(&table.of_total(size, epsilon), MAX_PARTS),
            None => falling(size, MAX_PARTS, epsilon, fall),
        }))
    }

    /// The table of the curve of one record, where that does not take too long.
    fn table(&mut self) -> Result<Option<&SplitTable>> {
        if self.table.is_none() {
            self.table = Some(self.new_table()?);
        }
        Ok(self.table.as_ref().and_then(Option::as_ref))
    }

    /// The table of the curve of one record: computed at small ε and bounded by Chernoff farther out; `None` where it costs too much.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    fn new_table(&mut self) -> Result<Option<SplitTable>> {
        // Chernoff's bound is 0 at ε = 0 and falls in it.
        let mut end = 1e-9;
        while self.log_chernoff(end) > SMALLEST_LOG_DELTA && end < 1e9 {
            end *= FAR_FACTOR;
        }
        let (mut curve, mut cost) = (Vec::new(), 0);
        for i in 0..POINTS {
            let epsilon = end * (f64::from(i) / f64::from(POINTS)).powi(2);
            let (found, work) = self.one.delta_and_work(epsilon, ACCURACY_OF_TABLE)?;
            cost += work;
            if cost > 3 * EXPENSIVE {
                return Ok(None);
            }
            curve.push((epsilon, found.log_upper));
        }
        for i in 0..FAR_POINTS {
            let epsilon = end * FAR_FACTOR.powi(i);
            curve.push((epsilon, self.log_chernoff(epsilon)));
        }
        Ok(SplitTable::new(&curve))
    }

    /// Certified bounds on the smallest ε at which the bound is at most e^`log_delta`, if that is below `limit`.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub(crate) fn epsilon_below(
        &mut self,
        log_delta: f64,
        limit: f64,
        tolerance: f64,
    ) -> Result<Option<Interval>> {
        // As in `is_above`, ε/k is at least that of one record at δ.
        let count = self.group_size as f64;
        let smallest = count * self.one.confirmed_epsilon(log_delta, ROUGH)?.lower;
        if limit == 0.0 || smallest >= limit {
            return Ok(None);
        }
        let (equal, work) = self.epsilon_of_equal_parts(log_delta, tolerance, smallest)?;
        if equal.lower > HOPELESS * limit {
            return Ok(None);
        }
        let is_expensive = |work: u64| work > EXPENSIVE;
        let size = self.group_size;
        if self.equal_parts || !self.variance.is_finite() {
            return Ok((equal.upper < limit).then_some(equal));
        }
        let expected = match self.table()? {
            Some(table) => table.total_at(size, log_delta),
            None => self.gaussian_epsilon(smallest),
        };
        // Equal parts of a long chain may be far above others, where a point of the curve of one record takes long.
        let start = equal.upper.min(limit).min(expected);
        let is_near = equal.upper < NEAR * expected;
        if is_near && (is_expensive(work) || is_expensive(self.delta(start)?.1)) {
            return Ok((equal.upper < limit).then_some(equal));
        }
        let found = self.epsilon_of_best_split(log_delta, tolerance, start)?;
        let best = if found.upper <= equal.upper { found } else { equal };
        Ok((best.upper < limit).then_some(best))
    }

    /// ε of the chain if one record has a Gaussian trade-off function: with ε₁ = μz + μ²/2 it is kμz + k²μ²/2, where `smallest` = kε₁.
    fn gaussian_epsilon(&self, smallest: f64) -> f64 {
        let count = self.group_size as f64;
        smallest + 0.5 * count * (count - 1.0) * self.variance
    }

    /// Bounds on ε for equal parts, and the work that they took: k times the ε₁ at which δ₁·(1 + e^{ε₁} + … + e^{(k − 1)ε₁}) is
    /// e^`log_delta`. It is a little above `smallest`.
    fn epsilon_of_equal_parts(
        &mut self,
        log_delta: f64,
        tolerance: f64,
        smallest: f64,
    ) -> Result<(Interval, u64)> {
        let count = self.group_size as f64;
        let start = StartingPoint {
            epsilon: BEYOND_ONE_RECORD * smallest / count,
            slope: gaussian_slope(log_delta, smallest / count),
        };
        let factor = |one: f64| log_geometric_sum(one, count);
        let (one, work) = self.one.epsilon_of_multiple(factor, (log_delta, tolerance), start)?;
        // Rounding must not make k·ε₁ smaller.
        let equal = Interval {
            lower: count * one.lower * (1.0 - ROUNDING),
            upper: count * one.upper * (1.0 + ROUNDING),
        };
        Ok((equal, work))
    }

    /// Bounds on ε for the best split of those that are tried, which is near `start`.
    fn epsilon_of_best_split(&mut self, log_delta: f64, tolerance: f64, start: f64) -> Result<Interval> {
        let mut failed = None;
        let curve = |epsilon: f64, _: &Accuracy| match self.delta(epsilon) {
            Ok((found, _)) => found,
            Err(error) => {
                failed = Some(error);
                Enclosure::TRIVIAL
            }
        };
        let query = Query {
            log_delta,
            tolerance,
            margin: 0.0,
            start: StartingPoint {
                epsilon: start,
                slope: gaussian_slope(log_delta, start),
            },
            largest_loss: f64::INFINITY,
        };
        let found = epsilon_search::epsilon(curve, &query)?.interval;
        failed.map_or(Ok(found), Err)
    }

    /// Σ_i e^{ε_{i+1} + … + ε_k} δ₁(ε_i) for a split of ε, and the work on the curve of one record.
    fn sum(&mut self, epsilon: f64, split: &[Run]) -> Result<(Enclosure, u64)> {
        let count = self.group_size as f64;
        // Rounding must not make the sum of the ε_i larger than ε.
        let sizes: f64 = split.iter().map(|run| run.links as f64 * run.epsilon.abs()).sum();
        let above = (sum_of(split) - epsilon + 1e-13 * (sizes + epsilon)) / count;
        let (mut lower, mut upper) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let (mut size, mut cost) = (1.0f64, 0);
        for run in split {
            let (one, links) = (run.epsilon - above, run.links as f64);
            let (delta, work) = self.one_record(one)?;
            cost += work;
            if cost > EXPENSIVE && split.len() > 1 {
                return Ok((Enclosure::TRIVIAL, cost));
            }
            let (growth, factor) = (links * one, log_geometric_sum(one, links));
            lower = log_add(lower + growth, delta.log_lower + factor);
            upper = log_add(upper + growth, delta.log_upper + factor);
            for exponent in [growth, factor, upper] {
                size = size.max(if exponent.is_finite() { exponent.abs() } else { 0.0 });
            }
        }
        let rounding = 16.0 * f64::EPSILON * (split.len() as f64 + 2.0) * (2.0 + size);
        Ok((Enclosure::of_logs(lower - rounding, upper + rounding), cost))
    }

    /// δ₁ at any ε, and the work that it takes: below 0, δ₁(−ε) = 1 − e^{−ε} + e^{−ε} δ₁(ε), as the curve holds in both orders.
    fn one_record(&mut self, epsilon: f64) -> Result<(Enclosure, u64)> {
        let limit = self.log_chernoff(epsilon.abs());
        let (found, cost) = if limit > SMALLEST_LOG_DELTA {
            self.one.delta_and_work(epsilon.abs(), ACCURACY)?
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

/// −d log δ/dε at ε of a Gaussian trade-off function, which is about −2·log δ/ε where δ is small.
fn gaussian_slope(log_delta: f64, epsilon: f64) -> f64 {
    (-2.0 * log_delta).max(1.0) / epsilon.max(1e-300)
}

#[cfg(test)]
mod tests;
