//! How a chain of data sets divides its ε among its links, found from a table of the curve of one record.
//!
//! A chain bounds P_k(S) by h(h(…h(α))) with α = P_0(S) and h(α) = min_ε e^ε·α + δ₁(ε) ([`GroupChain`](super::group_chain::GroupChain)).
//! δ₁ is convex in e^ε, so that the best ε is the one at which −dδ₁/de^ε, the curve's steepness here, is α: it falls from link to link, as
//! α grows. One number, α at the start of the chain, so gives a whole split, and the larger it is the smaller is the sum of the ε.
//!
//! No bound depends on this file: every split is a valid one, and its sum is computed from the certified curve.

use crate::special::log_space::log_add;

/// Runs of links with one ε at most, along which α is followed.
const MOST_RUNS: u64 = 64;
/// Halvings of the range of log α: it is found to a part in 10¹² of it, and the sum is flat next to the best split.
const HALVINGS: u32 = 40;

/// The curve of one record at one ε, as far as the table knows it.
#[derive(Debug, Clone, Copy)]
struct Point {
    epsilon: f64,
    log_delta: f64,
    /// log of −dδ₁/de^ε.
    log_steepness: f64,
}

/// The curve of one record at some ε, ascending, and its mirror image below 0.
#[derive(Debug)]
pub(crate) struct SplitTable {
    /// By ε, ascending; the steepness does not increase.
    points: Vec<Point>,
}

/// Links of one ε each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    pub(crate) links: u64,
    pub(crate) epsilon: f64,
}

impl SplitTable {
    /// The table of log δ₁ at ε ≥ 0, ascending from 0; `None` where fewer than three of them are finite.
    pub(crate) fn new(curve: &[(f64, f64)]) -> Option<Self> {
        let curve = convex(curve);
        if curve.len() < 3 {
            return None;
        }
        let mut steepest = f64::INFINITY;
        let mut above: Vec<Point> = Vec::with_capacity(curve.len());
        for (i, &(epsilon, log_delta)) in curve.iter().enumerate() {
            // −d log δ/dε, by the parabola through three neighbours.
            let middle = i.clamp(1, curve.len() - 2);
            let [(a, left), (b, at), (c, right)] = [curve[middle - 1], curve[middle], curve[middle + 1]];
            let (first, second) = ((at - left) / (b - a), (right - at) / (c - b));
            let bend = (second - first) / (c - a);
            let slope = -(first + bend * ((epsilon - a) + (epsilon - b)));
            let steepness = log_delta + slope.max(1e-12).ln() - epsilon;
            steepest = steepness.min(steepest);
            above.push(Point {
                epsilon,
                log_delta,
                log_steepness: steepest,
            });
        }
        // δ₁(−ε) = 1 − e^{−ε} + e^{−ε}δ₁(ε), whose steepness is 1 − δ₁(ε) − e^ε times that at ε.
        let mirrored = |point: &Point| {
            let lost = log_add(point.log_delta, point.epsilon + point.log_steepness);
            Point {
                epsilon: -point.epsilon,
                log_delta: log_add((-(-point.epsilon).exp_m1()).ln(), point.log_delta - point.epsilon),
                log_steepness: (-lost.exp()).max(-1.0 + f64::EPSILON).ln_1p(),
            }
        };
        let mut points: Vec<Point> = above.iter().skip(1).rev().map(mirrored).collect();
        points.append(&mut above);
        let mut least = f64::INFINITY;
        for point in &mut points {
            least = point.log_steepness.min(least);
            point.log_steepness = least;
        }
        Some(Self { points })
    }

    /// ε and log δ₁ where the steepness is e^`log_alpha`, by parabolas through three points of the table.
    fn at(&self, log_alpha: f64) -> (f64, f64) {
        let after = self.points.partition_point(|point| point.log_steepness > log_alpha);
        let end = after.clamp(1, self.points.len() - 1);
        let (low, high) = (self.points[end - 1], self.points[end]);
        let width = low.log_steepness - high.log_steepness;
        if width <= 0.0 {
            return (low.epsilon, low.log_delta);
        }
        let third = self.points[if end > 1 {
            end - 2
        } else {
            (end + 1).min(self.points.len() - 1)
        }];
        let by_steepness = [third, low, high].map(|point| (point.log_steepness, point.epsilon));
        let epsilon = parabola(by_steepness, log_alpha).max(low.epsilon).min(high.epsilon);
        let by_epsilon = [third, low, high].map(|point| (point.epsilon, point.log_delta));
        let log_delta = parabola(by_epsilon, epsilon);
        (epsilon, log_delta.max(high.log_delta).min(low.log_delta))
    }

    /// The split of a chain of `count` links that starts at e^`log_alpha`, and log P_k.
    fn from(&self, count: u64, log_alpha: f64) -> (Vec<Run>, f64) {
        let runs = count.min(MOST_RUNS);
        let (mut split, mut log, mut done) = (Vec::with_capacity(runs as usize), log_alpha, 0);
        for run in 0..runs {
            let links = count * (run + 1) / runs - done;
            done += links;
            let (epsilon, log_delta) = self.at(log);
            let growth = links as f64 * epsilon;
            log = log_add(log + growth, log_delta + log_geometric_sum(epsilon, links as f64)).min(0.0);
            split.push(Run { links, epsilon });
        }
        (split, log)
    }

    /// The range of the logarithms of α that the table knows.
    fn range(&self) -> (f64, f64) {
        let last = self.points.last().map_or(0.0, |point| point.log_steepness);
        (last, 0.0)
    }

    /// The largest log α at which `is_enough`, which holds at small ones.
    fn largest(&self, is_enough: impl Fn(f64) -> bool) -> f64 {
        let (mut low, mut high) = self.range();
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if is_enough(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The best split of ε = `total` among `count` links, as far as the table knows.
    pub(crate) fn of_total(&self, count: u64, total: f64) -> Vec<Run> {
        let log_alpha = self.largest(|log_alpha| sum_of(&self.from(count, log_alpha).0) >= total);
        let mut split = self.from(count, log_alpha).0;
        let missing = (total - sum_of(&split)) / count as f64;
        for run in &mut split {
            run.epsilon += missing;
        }
        split
    }

    /// About the ε at which the chain's δ is e^`log_delta`: that of the split whose tangent passes there.
    pub(crate) fn total_at(&self, count: u64, log_delta: f64) -> f64 {
        // δ at the tangent, P_k − e^ε·P_0, grows with α.
        let is_enough = |log_alpha: f64| {
            let (split, log) = self.from(count, log_alpha);
            let lost = sum_of(&split) + log_alpha - log;
            log + (-lost.exp().min(1.0)).ln_1p() <= log_delta
        };
        sum_of(&self.from(count, self.largest(is_enough)).0)
    }
}

/// The value at x of the parabola through three points, or of the line through the last two where the first has the place of one of them.
fn parabola([third, low, high]: [(f64, f64); 3], x: f64) -> f64 {
    let line = low.1 + (high.1 - low.1) * (x - low.0) / (high.0 - low.0);
    if third.0 == low.0 || third.0 == high.0 {
        return line;
    }
    let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
    let bend = (slope(low, high) - slope(third, low)) / (high.0 - third.0);
    line + bend * (x - low.0) * (x - high.0)
}

/// The points at which δ is convex in e^ε: Chernoff's bound, which stands for the curve far out, may be above the last points of the curve.
fn convex(curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    // log of −Δδ/Δe^ε.
    let steepness = |(near, high): (f64, f64), (far, low): (f64, f64)| {
        let fallen = high + (-(low - high).min(0.0).exp_m1()).ln();
        fallen - near - (far - near).exp_m1().ln()
    };
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(curve.len());
    for &point in curve.iter().take_while(|(_, log)| log.is_finite()) {
        while let [.., before, last] = kept[..] {
            if steepness(before, last) > steepness(last, point) {
                break;
            }
            kept.pop();
        }
        kept.push(point);
    }
    kept
}

/// Σ of the ε of all links.
pub(crate) fn sum_of(split: &[Run]) -> f64 {
    split.iter().map(|run| run.links as f64 * run.epsilon).sum()
}

/// A split of ε = `total` that falls by `fall` from each of `count` links to the next, in at most `most` runs: the best one of Gaussian curves,
/// for the square of μ.
pub(crate) fn falling(count: u64, most: u64, total: f64, fall: f64) -> Vec<Run> {
    let (runs, mut done) = (count.min(most), 0);
    let run = |i: u64| {
        let links = count * (i + 1) / runs - done;
        let middle = done as f64 + 0.5 * (links as f64 - 1.0); // of places 0, 1, …, k − 1
        done += links;
        Run {
            links,
            epsilon: total / count as f64 + fall * (0.5 * (count as f64 - 1.0) - middle),
        }
    };
    (0..runs).map(run).collect()
}

/// Spreads a split: every ε is moved to `factor` times its distance from the mean, which keeps their sum. A factor above 1 makes the ε fall
/// faster from link to link.
pub(crate) fn stretched(split: &[Run], factor: f64) -> Vec<Run> {
    let links: u64 = split.iter().map(|run| run.links).sum();
    let mean = sum_of(split) / links as f64;
    let stretch = |run: &Run| Run {
        links: run.links,
        epsilon: mean + factor * (run.epsilon - mean),
    };
    split.iter().map(stretch).collect()
}

/// Shortens a split: neighbouring runs are joined until there are at most `most`, so that the curve of one record is evaluated that often. A
/// joined run has the mean ε of its links, which keeps their sum.
pub(crate) fn joined(split: &[Run], most: u64) -> Vec<Run> {
    let size = split.len().div_ceil(most.max(1) as usize).max(1);
    let join = |some: &[Run]| {
        let links = some.iter().map(|run| run.links).sum();
        Run {
            links,
            epsilon: sum_of(some) / links as f64,
        }
    };
    split.chunks(size).map(join).collect()
}

/// log(1 + e^ε + … + e^{(n−1)ε}).
pub(crate) fn log_geometric_sum(epsilon: f64, count: f64) -> f64 {
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

    fn gaussian(mu: f64) -> SplitTable {
        let at = |i: i32| {
            let epsilon = 0.02 * f64::from(i * i) * mu;
            (epsilon, gaussian_delta(mu, epsilon).log_upper)
        };
        SplitTable::new(&(0..60).map(at).collect::<Vec<_>>()).unwrap()
    }

    /// The best split of a chain of G_μ falls by μ² from each link to the next, and its tangent is that of G_{kμ}.
    #[test]
    fn splits_of_gaussian_curves_fall_by_the_square_of_mu() {
        for (mu, count) in [(0.3, 4u64), (1.0, 7), (0.1, 60)] {
            let table = gaussian(mu);
            let total = table.total_at(count, -11.5);
            let exact = gaussian_delta(count as f64 * mu, total).log_upper;
            assert!((exact + 11.5).abs() < 0.1, "{mu} {count}: {exact}");
            let split = table.of_total(count, total);
            assert!((sum_of(&split) - total).abs() < 1e-9 * total);
            for pair in split.windows(2) {
                let fall = pair[0].epsilon - pair[1].epsilon;
                assert!((fall / (mu * mu) - 1.0).abs() < 0.1, "{mu} {count}: {fall}");
            }
        }
    }

    #[test]
    fn joined_runs_have_the_same_links_and_the_same_sum() {
        let split: Vec<Run> = (0..21)
            .map(|i| Run {
                links: 2 + i % 2,
                epsilon: 5.0 - i as f64,
            })
            .collect();
        for most in [1, 4, 16, 40] {
            let found = joined(&split, most);
            assert!(found.len() as u64 <= most);
            assert_eq!(
                found.iter().map(|run| run.links).sum::<u64>(),
                split.iter().map(|run| run.links).sum::<u64>()
            );
            assert!((sum_of(&found) - sum_of(&split)).abs() < 1e-12);
        }
    }

    #[test]
    fn falling_splits_fall_evenly_and_have_the_sum() {
        for (count, most) in [(2, 16), (7, 16), (100, 16)] {
            let split = falling(count, most, 3.5, 0.2);
            assert_eq!(split.iter().map(|run| run.links).sum::<u64>(), count);
            assert!((sum_of(&split) - 3.5).abs() < 1e-12 * f64::powi(count as f64, 2));
            let places = 0.5 * (split[0].links + split[1].links) as f64;
            assert!((split[0].epsilon - split[1].epsilon - 0.2 * places).abs() < 1e-12);
        }
    }

    #[test]
    fn stretched_splits_have_the_same_sum() {
        let split: Vec<Run> = [3.0, 2.5, 0.4].map(|epsilon| Run { links: 2, epsilon }).to_vec();
        let found = stretched(&split, 1.3);
        assert!((sum_of(&found) - sum_of(&split)).abs() < 1e-12);
        assert!((found[0].epsilon - found[2].epsilon - 1.3 * 2.6).abs() < 1e-12);
    }

    #[test]
    fn curves_with_too_few_points_have_no_table() {
        assert!(SplitTable::new(&[(0.0, -1.0), (1.0, -2.0)]).is_none());
        assert!(SplitTable::new(&[(0.0, -1.0), (1.0, f64::NEG_INFINITY), (2.0, -3.0), (3.0, -4.0)]).is_none());
    }
}
