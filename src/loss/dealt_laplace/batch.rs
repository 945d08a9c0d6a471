//! The distribution of the likelihood ratio Y of one batch with Laplace noise, rounded to a lattice.
//!
//! The likelihood ratio of an epoch is the mean of those of its batches. Sums of numbers on a lattice are on the same lattice, so that their
//! distribution is a convolution power. Rounding Y at random without changing its mean makes the curve larger; a factor by which
//! the rounded ratio is contracted towards its mean makes it smaller than the true one, and tells how far both are apart.

use crate::loss::lattice::places::Places;
use std::sync::Arc;

/// The law under Q of Y', the likelihood ratio Y of one batch that the record is in, moved to the two ends of its cell.
///
/// Y = e^{(|x| − |x − 1|)/b} is e^{−1/b} with probability 1/2 and e^{1/b} with e^{−1/b}/2. In between its density is e^{−1/(2b)}/4·y^{−3/2}.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    /// 1/b.
    pub(super) exponent: f64,
    /// Y' at place 0, e^{−1/b}, and Y' − 1 there: each has its own digits.
    pub(super) low: f64,
    pub(super) lowest: f64,
    /// Distance of two places.
    pub(super) width: f64,
    /// The law of the place.
    pub(super) places: Arc<Places>,
    /// γ: 1 + γ(Y' − 1) is below Y in the convex order (`docs/theory/random-allocation.md`, Proposition 13).
    pub(super) contraction: f64,
}

/// e^{1/b} − e^{−1/b}.
pub(super) fn range(scale: f64) -> f64 {
    (1.0 / scale).exp_m1() - (-1.0 / scale).exp_m1()
}

/// Standard deviation of Y under Q, whose second moment is e^{−2/b}/2 + e^{1/b}/2 + e^{−1/(2b)}/6·(e^{3/(2b)} − e^{−3/(2b)}).
pub(super) fn standard_deviation(scale: f64) -> f64 {
    let a = 1.0 / scale;
    // Over 1, each part on its own, so that much noise leaves digits.
    let ends = 0.5 * ((-2.0 * a).exp_m1() + a.exp_m1());
    let middle = (a.exp_m1() - (-2.0 * a).exp_m1()) / 6.0;
    (ends + middle).max(f64::MIN_POSITIVE).sqrt()
}

/// 1 − γ for cells of this width: width²·e^{1/b}/(16(1 − e^{−1/b})), rounded up.
pub(super) fn shrinking(scale: f64, width: f64) -> f64 {
    width * width * (1.0 / scale).exp() / (-16.0 * (-1.0 / scale).exp_m1()) * (1.0 + 1e-12)
}

impl Batch {
    /// The law in `cells` cells of equal width.
    ///
    /// A cell from y to z has the probability e^{−1/(2b)}/2·(1/√y − 1/√z) and the mean √(yz).
    pub(super) fn new(scale: f64, cells: usize) -> Self {
        let low = (-1.0 / scale).exp();
        let width = range(scale) / cells as f64;
        let root = |j: usize| (low + width * j as f64).sqrt();
        let mut masses = vec![0.0; cells + 1];
        masses[0] = 0.5;
        masses[cells] += 0.5 * low;
        for j in 0..cells {
            let (y, z) = (root(j), root(j + 1));
            let mass = 0.5 * (-0.5 / scale).exp() * width / ((y + z) * y * z);
            masses[j] += mass * z / (y + z);
            masses[j + 1] += mass * y / (y + z);
        }
        Self {
            exponent: 1.0 / scale,
            low,
            lowest: (-1.0 / scale).exp_m1(),
            width,
            places: Arc::new(Places {
                masses,
                error: 32.0 * f64::EPSILON * (1.0 + 1.0 / scale),
            }),
            // The subtraction may round up, by less than the distance to the number below.
            contraction: (1.0 - shrinking(scale, width)).next_down().max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masses_have_their_sum_and_mean() {
        for (scale, cells) in [(1.0f64, 1), (0.3, 17), (5.0, 512)] {
            let law = Batch::new(scale, cells);
            let at = |j: usize| law.lowest + law.width * j as f64;
            let sum: f64 = law.places.masses.iter().sum();
            let mean: f64 = law.places.masses.iter().enumerate().map(|(j, mass)| mass * at(j)).sum();
            assert!(
                (sum - 1.0).abs() < law.places.error && mean.abs() < 30.0 * law.places.error,
                "{scale}: {sum} {mean}"
            );
            let moments = law.places.moments(0.0);
            assert!(moments.log_moment.abs() < law.places.moment_error(0.0));
            assert!((law.lowest + law.width * moments.mean).abs() < 30.0 * law.places.error);
        }
    }

    /// E[Y²] by the substitution y = e^{u}: the density of log Y in between is e^{−1/(2b)}/4·e^{−u/2}.
    #[test]
    fn the_standard_deviation_is_that_of_the_density() {
        for scale in [0.4f64, 1.0, 30.0] {
            let a = 1.0 / scale;
            let nodes = 200_000;
            let step = 2.0 * a / f64::from(nodes);
            let inner: f64 = (0..nodes)
                .map(|i| -a + (f64::from(i) + 0.5) * step)
                .map(|u| (-0.5 * a).exp() / 4.0 * (1.5 * u).exp() * step)
                .sum();
            let second = 0.5 * (-2.0 * a).exp() + 0.5 * a.exp() + inner;
            let found = standard_deviation(scale);
            assert!((found * found / (second - 1.0) - 1.0).abs() < 1e-6, "{scale}");
        }
    }

    /// E[(Z − k)₊] of 1 + γ(Y' − 1) is at most that of Y at every k, and more than that somewhere if the contraction is halved.
    #[test]
    fn the_contracted_law_is_below_in_the_convex_order() {
        for (scale, cells) in [(1.0f64, 8), (0.5, 60), (4.0, 3)] {
            let law = Batch::new(scale, cells);
            let a = 1.0 / scale;
            let (low, high) = ((-a).exp(), a.exp());
            // E[(Y − k)₊] = e^{−1/b}/2·(e^{1/b} − k) + e^{−1/(2b)}/4·∫_k (y − k) y^{−3/2} dy
            let exact = |k: f64| {
                let inner = 2.0 * (high.sqrt() - k.sqrt()) - k * 2.0 * (k.sqrt().recip() - high.sqrt().recip());
                0.5 * low * (high - k) + 0.25 * (-0.5 * a).exp() * inner
            };
            let contracted = |k: f64, shrinking: f64| -> f64 {
                let at = |j: usize| 1.0 + (1.0 - shrinking) * (law.lowest + law.width * j as f64);
                law.places
                    .masses
                    .iter()
                    .enumerate()
                    .map(|(j, mass)| mass * (at(j) - k).max(0.0))
                    .sum()
            };
            let excess = |shrinking: f64| {
                let at = |i: i32| low + (high - low) * f64::from(i) / 4001.0;
                let gap = |i: i32| contracted(at(i), shrinking) - exact(at(i));
                (1..4001).map(gap).fold(f64::NEG_INFINITY, f64::max)
            };
            let needed = 1.0 - law.contraction;
            assert!(excess(needed) < 1e-15, "{scale}: {}", excess(needed));
            assert!(
                excess(0.5 * needed) > 0.0 && excess(0.0) > 0.0,
                "{scale}: {}",
                excess(0.5 * needed)
            );
        }
    }
}
