//! Σ W·(e^{iτX} − 1) over the nodes of a rule, at many τ, where X = Y − c is the place of Y from some c.
//!
//! For many batches this is next to 0, and its digits count. Nodes with τ|X| ≤ 1 at all τ are summed as moments, Σ_n (iτ)^n·Σ W·X^n/n!; for the others e^{iτX} is
//! turned from one τ to the next, and computed anew now and then.

use crate::approx::Approx;
use crate::special::compensated_sum::CompensatedSum;
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;

/// Terms of the series of moments: with τ|X| ≤ 1 what is left out is below 1e-17 of the first one.
const MOMENTS: usize = 18;
/// Turns after which e^{iτX} is computed anew.
const TURNS: usize = 256;

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
    let reach = spacing * last as f64;
    let is_small = |node: &&Node| node.place.abs() * reach <= 1.0;
    let moments = Moments::new(nodes.iter().filter(is_small));
    let mut turning = Turning::new(nodes.iter().filter(|node| !is_small(node)), spacing);
    let size: f64 = nodes.iter().map(|node| node.weight * node.place.abs()).sum();
    let additions = (turning.weights.len() + 16) as f64 * f64::EPSILON;
    let at = |k: usize| {
        let tau = spacing * k as f64;
        let turns = 4.0 * (k % TURNS + 2) as f64 * f64::EPSILON * turning.mass;
        let sums = 16.0 * f64::EPSILON * tau * size + additions * turning.mass;
        Approx::new(moments.at(tau) + turning.at(k), turns + sums)
    };
    (0..=last).map(at).collect()
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

/// Nodes whose e^{iτX} are turned from one τ to the next.
struct Turning {
    weights: Vec<f64>,
    /// hX, and the cosines and sines of hX and of khX.
    angles: Vec<f64>,
    steps: [Vec<f64>; 2],
    now: [Vec<f64>; 2],
    mass: f64,
}

impl Turning {
    fn new<'a>(nodes: impl Iterator<Item = &'a Node>, spacing: f64) -> Self {
        let (weights, angles): (Vec<f64>, Vec<f64>) =
            nodes.map(|node| (node.weight, node.place * spacing)).unzip();
        Self {
            mass: weights.iter().sum(),
            now: [vec![1.0; weights.len()], vec![0.0; weights.len()]],
            steps: cosines_and_sines(&angles, 1.0),
            weights,
            angles,
        }
    }

    /// Σ W·(e^{ikhX} − 1), for k = 0, 1, … in turn.
    fn at(&mut self, k: usize) -> Complex64 {
        if k.is_multiple_of(TURNS) {
            checkpoint();
            self.now = cosines_and_sines(&self.angles, k as f64);
        }
        let ([cosines, sines], [next_cosines, next_sines]) = (&mut self.now, &self.steps);
        let (mut real, mut imaginary) = (0.0, 0.0);
        let nodes = cosines
            .iter_mut()
            .zip(sines)
            .zip(next_cosines)
            .zip(next_sines)
            .zip(&self.weights);
        for ((((cosine, sine), next_cosine), next_sine), weight) in nodes {
            real += weight * (*cosine - 1.0);
            imaginary += weight * *sine;
            let turned = *cosine * next_cosine - *sine * next_sine;
            *sine = *cosine * next_sine + *sine * next_cosine;
            *cosine = turned;
        }
        Complex64::new(real, imaginary)
    }
}

/// The cosines and the sines of some angles, each times a factor.
fn cosines_and_sines(angles: &[f64], factor: f64) -> [Vec<f64>; 2] {
    let both = angles.iter().map(|angle| (angle * factor).sin_cos());
    let (sines, cosines) = both.unzip();
    [cosines, sines]
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
