//! The sums of the losses of steps that are all in clusters.
//!
//! With n clusters, i of T equal steps are in each of them with the probability T!/Π i!·Π p^i under P, and likewise under Q. Steps of several kinds add up
//! independently.

use crate::interval::Interval;
use crate::loss::clusters::Cluster;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::log_space::log_add;

/// Most sums that are listed: with three losses those of 126 steps, with four those of 34. A δ takes a closed form of one step for each
/// that counts, a few tenths of a microsecond.
const MAX_SUMS: usize = 8192;

/// Clusters of a step, and the number of such steps.
pub(super) type Kind = (Vec<Cluster>, f64);

/// Runs with the same number of steps in each cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    /// Logs of their probabilities under P and Q.
    pub(super) log_p: f64,
    pub(super) log_q: f64,
    /// The log of the probability of these and all that are less likely, under P.
    pub(super) log_rest: f64,
    /// Bounds on the log of P's probability over Q's, and on their losses.
    pub(super) mean: Interval,
    pub(super) losses: Interval,
    /// The sum of the absolute values of their losses, at most.
    size: f64,
}

/// All sums, the likeliest first.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    pub(super) all: Vec<Sum>,
    /// Bound on the errors of all logs of probabilities.
    pub(super) error: f64,
}

impl Sum {
    /// No step at all.
    const NOTHING: Self = Self {
        log_p: 0.0,
        log_q: 0.0,
        log_rest: 0.0,
        mean: Interval::exact(0.0),
        losses: Interval::exact(0.0),
        size: 0.0,
    };

    /// With `count` steps in a cluster more.
    fn with(&self, cluster: &Cluster, count: usize, log_factorial: f64) -> Self {
        let count = count as f64;
        // No step is in a cluster of probability 0.
        let times = |log: f64| if count == 0.0 { 0.0 } else { count * log };
        let add = |sum: Interval, one: Interval| Interval {
            lower: sum.lower + times(one.lower),
            upper: sum.upper + times(one.upper),
        };
        Self {
            log_p: self.log_p + times(cluster.log_p) - log_factorial,
            log_q: self.log_q + times(cluster.log_q) - log_factorial,
            log_rest: self.log_rest,
            mean: add(self.mean, cluster.mean),
            losses: add(self.losses, cluster.losses),
            size: self.size + count * cluster.losses.lower.abs().max(cluster.losses.upper.abs()),
        }
    }

    /// Those of independent steps.
    fn and(&self, other: &Self) -> Self {
        let add = |a: Interval, b: Interval| Interval {
            lower: a.lower + b.lower,
            upper: a.upper + b.upper,
        };
        Self {
            log_p: self.log_p + other.log_p,
            log_q: self.log_q + other.log_q,
            log_rest: 0.0,
            mean: add(self.mean, other.mean),
            losses: add(self.losses, other.losses),
            size: self.size + other.size,
        }
    }

    /// With room for the rounding of so many additions and products to each bound on losses.
    fn rounded(self, roundings: f64) -> Self {
        let slack = roundings * self.size;
        let wider = |bounds: Interval| Interval {
            lower: bounds.lower - slack,
            upper: bounds.upper + slack,
        };
        Self {
            mean: wider(self.mean),
            losses: wider(self.losses),
            ..self
        }
    }
}

/// Whether there are so few sums of so many steps in clusters, `losses` of which each step has, that they are listed.
pub(super) fn are_few(kinds: impl Iterator<Item = (usize, f64)>) -> bool {
    let mut all = 1.0;
    for (losses, steps) in kinds {
        all *= number(losses, steps);
        if steps.fract() != 0.0 {
            return false;
        }
    }
    all <= MAX_SUMS as f64
}

impl Sums {
    /// The sums of so many steps with these clusters each.
    pub(super) fn of(kinds: &[Kind]) -> Self {
        let mut all = vec![Sum::NOTHING];
        for (clusters, steps) in kinds {
            let of_kind = of_equal_steps(clusters, *steps as usize);
            let pairs = all.iter().flat_map(|one| of_kind.iter().map(|other| one.and(other)));
            all = pairs.collect();
        }
        let roundings = roundings(kinds);
        all = all.into_iter().map(|sum| sum.rounded(roundings)).collect();
        all.sort_by(|a, b| b.log_p.total_cmp(&a.log_p));
        let mut log_rest = f64::NEG_INFINITY;
        for sum in all.iter_mut().rev() {
            log_rest = log_add(log_rest, sum.log_p);
            sum.log_rest = log_rest;
        }
        Self {
            all,
            error: error(kinds),
        }
    }
}

/// The number of ways to divide so many steps among some clusters.
fn number(clusters: usize, steps: f64) -> f64 {
    (1..clusters).fold(1.0, |ways, i| ways * (steps + i as f64) / i as f64)
}

/// The sums of equal steps.
fn of_equal_steps(clusters: &[Cluster], steps: usize) -> Vec<Sum> {
    let mut log_factorials = Vec::with_capacity(steps + 1);
    let mut sum = CompensatedSum::default();
    for i in 0..=steps {
        sum.add((i.max(1) as f64).ln());
        log_factorials.push(sum.value());
    }
    let start = Sum {
        log_p: log_factorials[steps],
        log_q: log_factorials[steps],
        ..Sum::NOTHING
    };
    let mut found = Vec::new();
    divide(clusters, steps, start, &log_factorials, &mut found);
    found
}

/// Adds to `found` the sums of the steps that are `left`, in these clusters, and of those before.
fn divide(clusters: &[Cluster], left: usize, before: Sum, log_factorials: &[f64], found: &mut Vec<Sum>) {
    match clusters {
        [] => {}
        [last] => found.push(before.with(last, left, log_factorials[left])),
        [cluster, others @ ..] => {
            for count in 0..=left {
                let with = before.with(cluster, count, log_factorials[count]);
                divide(others, left - count, with, log_factorials, found);
            }
        }
    }
}

/// Relative rounding of a sum over all clusters of all kinds, in which each term has a product.
fn roundings(kinds: &[Kind]) -> f64 {
    f64::EPSILON
        * kinds
            .iter()
            .map(|(clusters, _)| clusters.len() as f64 + 2.0)
            .sum::<f64>()
}

/// A bound on the errors of all logs of probabilities: those of single steps add up. A log factorial is a sum that is rounded once, of logarithms with
/// an error of half a unit each; no partial sum is larger than twice that of T and all logs of T steps.
fn error(kinds: &[Kind]) -> f64 {
    let of = |(clusters, steps): &Kind| {
        let largest = |part: fn(&Cluster) -> f64| clusters.iter().map(|one| part(one).abs()).fold(0.0, f64::max);
        let size = largest(|one| one.log_p).max(largest(|one| one.log_q)) + 2.0 * steps.ln().max(0.0);
        steps * (largest(|one| one.error) + roundings(kinds) * size)
    };
    kinds.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(p: f64, loss: f64) -> Cluster {
        Cluster {
            log_p: p.ln(),
            log_q: p.ln() - loss,
            error: 0.0,
            mean: Interval::exact(loss),
            losses: Interval::exact(loss),
        }
    }

    /// Three clusters of probabilities 0.2, 0.3 and 0.1: those of all sums add up to 0.6^T, and so do the means of e^{-loss} under Q.
    #[test]
    fn probabilities_of_sums_add_up() {
        let clusters = vec![cluster(0.2, 1.0), cluster(0.3, -0.5), cluster(0.1, 2.5)];
        let of_q: f64 = clusters.iter().map(|one| one.log_q.exp()).sum();
        for steps in [0usize, 1, 5, 40] {
            let sums = Sums::of(&[(clusters.clone(), steps as f64)]);
            assert_eq!(sums.all.len(), (steps + 1) * (steps + 2) / 2);
            assert_eq!(number(3, steps as f64), sums.all.len() as f64);
            let total = |part: fn(&Sum) -> f64| sums.all.iter().map(|sum| part(sum).exp()).sum::<f64>().ln();
            let (p, q) = (total(|sum| sum.log_p), total(|sum| sum.log_q));
            assert!(
                (p - steps as f64 * 0.6f64.ln()).abs() <= sums.error + 1e-14,
                "{steps}: {p}"
            );
            assert!(
                (q - steps as f64 * of_q.ln()).abs() <= sums.error + 1e-14,
                "{steps}: {q}"
            );
            assert!(sums.error < 1e-12);
            assert!(sums.all.is_sorted_by(|a, b| a.log_p >= b.log_p));
            assert!((sums.all[0].log_rest - p).abs() < 1e-13);
            let last = sums.all.last().unwrap();
            assert_eq!(last.log_rest, last.log_p);
        }
    }

    /// Losses 0.1 and −0.1, which are no numbers, many times: bounds hold 0 where as many steps have the one as the other.
    #[test]
    fn sums_of_losses_are_within_their_rounding() {
        let clusters = vec![cluster(0.5, 0.1), cluster(0.5, -0.1)];
        let sums = Sums::of(&[(clusters.clone(), 300.0), (clusters, 3.0)]);
        for sum in &sums.all {
            let middle = 0.5 * (sum.mean.lower + sum.mean.upper);
            let exact = (middle / 0.2).round() * 2.0 / 10.0 + 0.1 * ((middle / 0.1).round() as i64 % 2) as f64;
            let nearest = if (exact - middle).abs() < 0.05 {
                exact
            } else {
                (middle * 10.0).round() / 10.0
            };
            assert!(
                sum.mean.lower <= nearest && nearest <= sum.mean.upper,
                "{sum:?} {nearest}"
            );
            assert!(sum.mean.width() < 1e-12);
        }
    }

    /// Errors of single steps add up, and those of clusters that are hardly known make all sums so.
    #[test]
    fn errors_of_steps_add_up() {
        let mut clusters = vec![cluster(0.5, 0.1), cluster(0.5, -0.1)];
        clusters[1].error = 1e-9;
        let found = Sums::of(&[(clusters.clone(), 7.0)]).error;
        assert!((7e-9..7.1e-9).contains(&found), "{found}");
        clusters[0].error = f64::INFINITY;
        assert_eq!(Sums::of(&[(clusters, 7.0)]).error, f64::INFINITY);
    }

    #[test]
    fn many_sums_are_not_listed() {
        assert!(are_few([(3, 126.0)].into_iter()) && !are_few([(3, 127.0)].into_iter()));
        assert!(are_few([(2, 50.0), (2, 50.0)].into_iter()) && !are_few([(2, 100.0), (2, 100.0)].into_iter()));
        // Steps that are no whole number have no counts.
        assert!(!are_few([(2, 1.5)].into_iter()));
    }
}
