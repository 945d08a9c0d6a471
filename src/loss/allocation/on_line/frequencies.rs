//! Σ W·(e^{iτX} − 1) over the nodes of a rule, at many τ, where X = Y − c is the place of Y from some c.
//!
//! For many batches this is next to 0, and its digits count. Nodes with τ|X| ≤ 1 at all τ are summed as moments, Σ_n (iτ)^n·Σ W·X^n/n!, and the others as the nodes of a
//! characteristic function are.

use crate::approx::Approx;
use crate::loss::characteristic_function::{MANY_PRODUCTS, changes_at};
use crate::special::compensated_sum::CompensatedSum;
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;

/// Terms of the series of moments: with τ|X| ≤ 1 what is left out is below 1e-17 of the first one.
const MOMENTS: usize = 18;
/// A node of a rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// X, and Y, which has its digits where it is next to 0.
    pub(super) place: f64,
    pub(super) ratio: f64,
    /// W: all of them add up to 1.
    pub(super) weight: f64,
}

/// Σ W·(e^{iτX} − 1) at τ = kh for k = 0, …, `last`, with a bound on the rounding errors of these sums; those of weights and places are not counted.
pub(super) fn changes(nodes: &[Node], spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
    checkpoint();
    let reach = spacing * last as f64;
    let is_small = |node: &&Node| node.place.abs() * reach <= 1.0;
    let moments = Moments::new(nodes.iter().filter(is_small));
    let others = nodes.iter().filter(|node| !is_small(node));
    let (weights, places): (Vec<f64>, Vec<f64>) = others.map(|node| (node.weight, node.place)).unzip();
    let turned = changes_at((&weights, &places), spacing, last, MANY_PRODUCTS);
    let size: f64 = nodes.iter().map(|node| node.weight * node.place.abs()).sum();
    let with_moments = |(k, other): (usize, Approx<Complex64>)| {
        let tau = spacing * k as f64;
        Approx::new(
            moments.at(tau) + other.value,
            other.error + 16.0 * f64::EPSILON * tau * size,
        )
    };
    turned.into_iter().enumerate().map(with_moments).collect()
}

/// Σ W·X^n/n! for n = 1, 2, …
struct Moments {
    sums: [f64; MOMENTS],
}

impl Moments {
    fn new<'a>(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let mut sums = [CompensatedSum::default(); MOMENTS];
        for node in nodes {
            let mut power = node.weight;
            for (n, sum) in sums.iter_mut().enumerate() {
                power *= node.place / (n + 1) as f64;
                sum.add(power);
            }
        }
        Self {
            sums: sums.map(CompensatedSum::value),
        }
    }

    /// Σ W·(e^{iτX} − 1).
    fn at(&self, tau: f64) -> Complex64 {
        let square = -tau * tau;
        let (mut real, mut imaginary) = (0.0, 0.0);
        for pair in self.sums.chunks_exact(2).rev() {
            imaginary = imaginary * square + pair[0];
            real = real * square + pair[1];
        }
        Complex64::new(real * square, imaginary * tau)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against sums of sines and cosines: where all nodes are summed as moments, where none are, and beyond the turns after which they are computed anew. The
    /// error of single roundings is a hundredth of the bound, as it is for the worst case.
    #[test]
    fn changes_are_those_of_sines_and_cosines() {
        for (largest, spacing, last) in [(0.5, 0.01, 100), (40.0, 0.02, 100), (9.0, 0.05, 700)] {
            let node = |i: i32| Node {
                place: largest * f64::from(i - 25) / 25.0,
                ratio: 0.0,
                weight: 1.0 / 50.0,
            };
            let nodes: Vec<Node> = (1..=50).map(node).collect();
            let found = changes(&nodes, spacing, last);
            for (k, change) in found.iter().enumerate() {
                let tau = spacing * k as f64;
                let term = |node: &Node| {
                    let half = 0.5 * tau * node.place;
                    let versine = 2.0 * half.sin().powi(2);
                    Complex64::new(-versine, (tau * node.place).sin()) * node.weight
                };
                let exact: Complex64 = nodes.iter().map(term).sum();
                let off = (change.value - exact).norm();
                assert!(
                    off <= change.error + 4.0 * f64::EPSILON * tau * largest,
                    "{largest} {k}: {off}"
                );
                assert!(change.error < 5e-12, "{largest} {k}: {}", change.error);
            }
        }
    }
}
