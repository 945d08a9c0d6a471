//! A lower bound on what one epoch of shuffled batches reveals: the pair of laws that two certain neighbouring data sets produce.
//!
//! In both data sets every record but the k of the group has the clipped gradient −e for one unit vector e. Those of the group have the
//! gradient e in the one, and 0 (zeroed out) or −e (replaced) in the other. A batch of b records with j members has the sum (2j − b)e in
//! the first data set and (vj − b)e in the second, v = 1 or 0. So the adversary sees noise around u·j, with u = 2 under the first and
//! u = v under the second, where (j_1, j_2, …) are the members in each batch: a multivariate hypergeometric law.
//!
//! The pair here is that of the *largest sum* of an epoch. Anything computed from the outputs reveals no more than the outputs do, so
//! that its curve is a lower bound on that of the run. Its distribution function is a coefficient of a power: given where the members
//! fall, sums are independent, and each of the C(N, k) sets of positions is as likely as any other,
//!
//! > P(largest ≤ c) = [z^k] (Σ_j C(b, j) Φ((c − uj)/σ) z^j)^n (1 + z)^{N − nb} / C(N, k)
//!
//! for n batches, as N − nb positions are in none of them. Batches may be added up in blocks first, which is a computation on the outputs
//! as well: b, σ and n are then those of a block. The largest of single batches tells most where the noise is small, the sum of
//! all where it is large.
//!
//! The mass of a cell (a, c] is the change of that coefficient. It is computed without cancellation, by the product rule
//! Δ(fg) = f(c)·Δg + Δf·g(a), whose terms are positive (`docs/theory/shuffling-interval.md`).

use crate::special::normal::log_upper_tail;
use crate::stopping::checkpoint;

/// Maximum number of members that differ between the two data sets of a lower end; the other members of a larger group are the same in both.
const MAX_MEMBERS: u64 = 64;
/// Probability of the outermost cells, about: where cells begin and end.
const OUTERMOST: f64 = 1e-100;
/// Smallest mass of a cell under either law. Smaller ones are joined to their neighbours, so that no factor of a mass that counts is
/// below the smallest normal number, 1e-308, by more than rounding.
const MIN_MASS: f64 = 1e-150;
/// Standard deviations from a mean beyond which a normal tail is below the smallest number.
const NO_TAIL: f64 = 39.0;

/// The part of an epoch that counts, in blocks of batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    /// n, at least 1.
    pub(super) blocks: u64,
    /// Records in a block.
    pub(super) block_size: u64,
    /// N, of which n·`block_size` are in some block.
    pub(super) dataset_size: u64,
    /// k, at most N.
    pub(super) group_size: u64,
    /// Standard deviation of the noise of a block, over the clipping norm.
    pub(super) noise: f64,
}

/// One cell: its probabilities under the two data sets.
pub(super) type Cell = (f64, f64);

/// A polynomial at both ends of a cell, and by how much it grows in between; coefficients are not negative.
#[derive(Debug, Clone)]
struct Ends {
    low: Vec<f64>,
    high: Vec<f64>,
    change: Vec<f64>,
}

impl Ends {
    /// The product, up to the degree that both have.
    fn times(&self, other: &Self) -> Self {
        let mut change = product(&self.high, &other.change);
        for (sum, term) in change.iter_mut().zip(product(&self.change, &other.low)) {
            *sum += term;
        }
        Self {
            low: product(&self.low, &other.low),
            high: product(&self.high, &other.high),
            change,
        }
    }

    /// The power with a whole exponent of at least 1, by squaring.
    fn power(&self, exponent: u64) -> Self {
        let (mut square, mut rest) = (self.clone(), exponent);
        let mut found: Option<Self> = None;
        loop {
            if rest & 1 == 1 {
                found = Some(found.map_or_else(|| square.clone(), |known| known.times(&square)));
            }
            rest >>= 1;
            if rest == 0 {
                return found.unwrap_or(square);
            }
            square = square.times(&square);
        }
    }
}

/// The first coefficients of a product, as many as the factors have.
fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    let coefficient = |n: usize| (0..=n).map(|i| a[i] * b[n - i]).sum();
    (0..a.len()).map(coefficient).collect()
}

/// Φ(t), with a relative error below 1e-15·(5 + t²).
fn below(t: f64) -> f64 {
    log_upper_tail(-t).exp()
}

/// Φ(high) − Φ(low) as a difference of the smaller tails: relative to the larger of the two, its error is that of [`below`].
fn between(low: f64, high: f64) -> f64 {
    let difference = if low > 0.0 {
        below(-low) - below(-high)
    } else {
        below(high) - below(low)
    };
    difference.max(0.0)
}

/// C(n, j)·scale^j for j ≤ `degree`.
fn binomials(n: u64, degree: usize, scale: f64) -> Vec<f64> {
    let mut found = vec![1.0];
    for j in 0..degree as u64 {
        let ratio = n.saturating_sub(j) as f64 / (j + 1) as f64 * scale;
        found.push(found[j as usize] * ratio);
    }
    found
}

impl Blocks {
    /// Members that are followed.
    fn members(&self) -> u64 {
        self.group_size.min(MAX_MEMBERS)
    }

    /// Bound on the relative error of every mass that [`Blocks::cells`] returns, for cells of a width of at least `width` standard
    /// deviations (`docs/theory/shuffling-interval.md`, Proposition 3).
    pub(super) fn error(&self, width: f64) -> f64 {
        let (members, blocks) = (self.members() as f64, self.blocks as f64);
        // Arguments of Φ are at most this, and rounded by two units in their last place.
        let reach = 2.0 * members / self.noise + 2.0 * NO_TAIL;
        let rounding = 2.0 * f64::EPSILON * reach;
        let difference = 5e-12 + 2e-13 / width + rounding * (NO_TAIL + 2.0 / width);
        let shifted = members * (2e-12 + NO_TAIL * rounding);
        let powers = 2e-12 + blocks * (6e-15 + 16.0 * f64::EPSILON * (members + 8.0));
        // To first order, and as much again.
        (2.0 * (difference + shifted + powers + 32.0 * f64::EPSILON * members)).exp_m1()
    }

    /// The mass of (`low`, `high`], in standard deviations, where members are at multiples of `shift`.
    fn mass(&self, shift: f64, low: f64, high: f64, plan: &Plan) -> f64 {
        let center = |j: usize| shift * j as f64 / self.noise;
        let at = |t: f64| -> Vec<f64> {
            let weights = plan.weights.iter().enumerate();
            weights.map(|(j, weight)| weight * below(t - center(j))).collect()
        };
        let weights = plan.weights.iter().enumerate();
        let one = Ends {
            low: at(low),
            high: at(high),
            change: weights
                .map(|(j, weight)| weight * between(low - center(j), high - center(j)))
                .collect(),
        };
        let change = one.power(self.blocks).change;
        let last = change.len() - 1;
        let found: f64 = (0..=last).map(|i| change[i] * plan.outside[last - i]).sum();
        found / plan.total
    }

    /// The laws of the largest sum of a block, in about `count` cells: members at multiples of `shifts.0` under the first, of `shifts.1`
    /// under the second. Also the width of the narrowest cell, in standard deviations.
    pub(super) fn cells(&self, shifts: (f64, f64), count: usize) -> (Vec<Cell>, f64) {
        let plan = Plan::new(self);
        let (start, end) = self.range(shifts, &plan);
        let width = (end - start) / count as f64;
        let mut found: Vec<Cell> = Vec::with_capacity(count + 2);
        let mut open = (0.0, 0.0);
        let mut low = f64::NEG_INFINITY;
        for i in 0..=count + 1 {
            checkpoint();
            let high = if i > count {
                f64::INFINITY
            } else {
                start + width * i as f64
            };
            open.0 += self.mass(shifts.0, low, high, &plan);
            open.1 += self.mass(shifts.1, low, high, &plan);
            if open.0 >= MIN_MASS && open.1 >= MIN_MASS {
                found.push(open);
                open = (0.0, 0.0);
            }
            low = high;
        }
        match found.last_mut() {
            Some(last) => *last = (last.0 + open.0, last.1 + open.1),
            None => found.push(open),
        }
        (found, width)
    }

    /// The ends of the cells, in standard deviations. Beyond the outermost ones both laws have less than about [`OUTERMOST`].
    fn range(&self, shifts: (f64, f64), plan: &Plan) -> (f64, f64) {
        let farthest = shifts.0.max(shifts.1) * self.members() as f64 / self.noise + NO_TAIL;
        let both = |low: f64, high: f64| {
            let masses = (
                self.mass(shifts.0, low, high, plan),
                self.mass(shifts.1, low, high, plan),
            );
            masses.0.max(masses.1)
        };
        let bisected = |is_beyond: &dyn Fn(f64) -> bool, mut outer: f64, mut inner: f64| {
            for _ in 0..20 {
                let middle = 0.5 * (outer + inner);
                if is_beyond(middle) {
                    outer = middle;
                } else {
                    inner = middle;
                }
            }
            outer
        };
        let start = bisected(&|t| both(f64::NEG_INFINITY, t) < OUTERMOST, -NO_TAIL, farthest);
        let end = bisected(&|t| both(t, f64::INFINITY) < OUTERMOST, farthest, start);
        (start, end)
    }
}

/// The factors that are the same in all cells. Powers of z are scaled, so that no coefficient overflows.
struct Plan {
    /// C(b, j).
    weights: Vec<f64>,
    /// C(N − nb, j).
    outside: Vec<f64>,
    /// C(N, k).
    total: f64,
}

impl Plan {
    fn new(blocks: &Blocks) -> Self {
        let members = blocks.members();
        let (degree, scale) = (members as usize, members as f64 / blocks.dataset_size as f64);
        let outside = blocks.dataset_size.saturating_sub(blocks.blocks * blocks.block_size);
        Self {
            weights: binomials(blocks.block_size, degree, scale),
            outside: binomials(outside, degree, scale),
            total: binomials(blocks.dataset_size, degree, scale)[degree],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(blocks: u64, block_size: u64, dataset_size: u64, group_size: u64, noise: f64) -> Blocks {
        Blocks {
            blocks,
            block_size,
            dataset_size,
            group_size,
            noise,
        }
    }

    /// Every set of positions of two members in three batches of two and one position in none: the law of the largest sum from its
    /// definition, C(7, 2) = 21 sets.
    #[test]
    fn masses_agree_with_every_placement_of_the_members() {
        let (run, sigma) = (blocks(3, 2, 7, 2, 0.8), 0.8);
        let plan = Plan::new(&run);
        for shift in [2.0, 1.0, 0.0] {
            for (low, high) in [(-1.0, 0.5), (0.5, 0.51), (3.0, 3.3), (4.0, f64::INFINITY)] {
                let mut exact = 0.0;
                for first in 0..7usize {
                    for second in first + 1..7 {
                        let mut members = [0.0; 4];
                        members[first / 2] += 1.0;
                        members[second / 2] += 1.0;
                        let function = |t: f64| -> f64 {
                            members[..3].iter().map(|j| below(t - shift * j / sigma)).product()
                        };
                        exact += (function(high) - function(low)) / 21.0;
                    }
                }
                let found = run.mass(shift, low, high, &plan);
                assert!((found - exact).abs() < 1e-13, "{shift} {low} {high}: {found} {exact}");
            }
        }
    }

    /// One record: [z] is n·b·Φ^{n−1}(c)·Φ(c − u) + (N − nb)·Φ^n(c), over N.
    #[test]
    fn the_law_of_one_record_has_its_closed_form() {
        let run = blocks(100, 6, 605, 1, 0.5);
        let plan = Plan::new(&run);
        let function = |t: f64| {
            let rate = 600.0 / 605.0;
            below(t).powi(99) * (rate * below(t - 4.0) + (1.0 - rate) * below(t))
        };
        for (low, high) in [(1.0, 2.0), (2.0, 2.2), (3.0, 5.0)] {
            let (found, exact) = (run.mass(2.0, low, high, &plan), function(high) - function(low));
            assert!((found / exact - 1.0).abs() < 1e-12, "{found} {exact}");
        }
    }

    #[test]
    fn cells_have_all_of_the_mass() {
        for (run, shifts) in [
            (blocks(100, 600, 60_000, 1, 1.0), (2.0, 1.0)),
            (blocks(1000, 6, 6005, 8, 0.4), (2.0, 0.0)),
            (blocks(1, 50, 60, 40, 20.0), (2.0, 1.0)),
            (blocks(3, 1, 3, 1, 0.05), (2.0, 1.0)),
            (blocks(1_000_000, 60, 60_000_000, 40, 1.0), (2.0, 1.0)),
        ] {
            let (cells, width) = run.cells(shifts, 300);
            let error = run.error(width);
            assert!(error < 1e-4 && cells.len() > 100, "{run:?} {error} {}", cells.len());
            let sums = cells
                .iter()
                .fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
            assert!((sums.0 - 1.0).abs() <= error + 1e-13, "{run:?} {sums:?} {error}");
            assert!((sums.1 - 1.0).abs() <= error + 1e-13, "{run:?} {sums:?} {error}");
            assert!(cells.iter().all(|cell| cell.0 >= MIN_MASS && cell.1 >= MIN_MASS));
        }
    }

    /// Masses in the far tails by mpmath 1.3 with 250 digits, from the closed form of one record: 100 batches, σ = 1/2.
    #[test]
    fn masses_are_right_to_the_stated_error() {
        for (low, high, shift, exact) in MASSES {
            let run = blocks(100, 6, 605, 1, 0.5);
            let found = run.mass(shift, low, high, &Plan::new(&run));
            let error = run.error(high - low);
            assert!((found / exact - 1.0).abs() <= error, "{low} {shift}: {found} {exact}");
        }
    }

    /// low, high, shift and mass.
    const MASSES: [(f64, f64, f64, f64); 4] = [
        (1.0, 1.007_812_5, 2.0, 7.909_163_198_594_917e-11),
        (12.0, 12.007_812_5, 1.0, 5.734_735_208_788_041e-25),
        (20.0, 20.007_812_5, 2.0, 7.473_728_374_083_003e-59),
        (-0.5, -0.492_187_5, 1.0, 3.504_208_801_612_323e-53),
    ];
}
