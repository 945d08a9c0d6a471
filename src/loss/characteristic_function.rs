//! A characteristic function at evenly spaced frequencies: each node's e^{iyℓ} is turned from one frequency to the next.

use crate::loss::nodes::Nodes;

/// Σ w (e^{ijhℓ} − 1) for j = 0..=last, by turning each node's e^{ijhℓ} − 1 by e^{ihℓ} from one j to the next.
///
/// E ← E + D + ED with D = e^{ihℓ} − 1 exact: small changes keep their digits, and n turns add at most 3n
/// roundings of the largest |E|. After [`TURNS`] of them E is taken from an anchor, which is itself turned by [`TURNS`]
/// times the angle, and computed anew after as many of those.
pub(crate) fn smooth_changes(nodes: &Nodes, spacing: f64, last: usize) -> Vec<(f64, f64, f64)> {
    let mut sums = vec![(0.0, 0.0); last + 1];
    let mut block = Turns::default();
    let arch = pulp::Arch::new();
    let (weights, losses) = (nodes.weights.chunks(BLOCK), nodes.losses.chunks(BLOCK));
    for (weights, losses) in weights.zip(losses) {
        block.start(weights, losses, spacing);
        arch.dispatch(Run {
            block: &mut block,
            sums: &mut sums,
        });
    }
    sums.into_iter()
        .enumerate()
        .map(|(j, (real, imaginary))| {
            let y = j as f64 * spacing;
            let size = (y * nodes.mean_size).min(2.0);
            let turns = j.min(TURNS) + (j / TURNS).min(TURNS);
            // The angles of an anchor and of its turns have a relative error of one rounding.
            let rounding = (3.0 * turns as f64 + 16.0) * f64::EPSILON * size
                + 2.0 * f64::EPSILON * y * nodes.mean_size
                + (nodes.weight_rounding.1 * y).min(2.0 * nodes.weight_rounding.0)
                + nodes.c.hypot(y) * nodes.loss_rounding;
            (real, imaginary, 1.5 * nodes.error + rounding)
        })
        .collect()
}

/// Nodes handled at once, so that sums have a fixed order whatever the processor's vectors are.
const LANES: usize = 8;

/// Nodes that take all their turns before the next do: what a first-level cache holds.
const BLOCK: usize = 32 * LANES;

/// Turns between two anchors, and of an anchor.
const TURNS: usize = 64;

/// e^{iu} − 1 for each node of a block.
#[derive(Debug, Clone, Copy)]
struct Changes {
    real: [f64; BLOCK],
    imaginary: [f64; BLOCK],
}

/// A block of nodes on their way through j; missing nodes have weight 0.
#[derive(Debug)]
struct Turns {
    /// Nodes in the block, and more of weight 0.
    used: usize,
    weights: [f64; BLOCK],
    /// hℓ.
    angles: [f64; BLOCK],
    /// One turn, and [`TURNS`] of them.
    step: Changes,
    stride: Changes,
    state: Changes,
    anchor: Changes,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            used: 0,
            weights: [0.0; BLOCK],
            angles: [0.0; BLOCK],
            step: Changes::NONE,
            stride: Changes::NONE,
            state: Changes::NONE,
            anchor: Changes::NONE,
        }
    }
}

impl Changes {
    const NONE: Self = Self {
        real: [0.0; BLOCK],
        imaginary: [0.0; BLOCK],
    };

    /// e^{i·factor·angle} − 1.
    fn of(angles: &[f64; BLOCK], factor: f64) -> Self {
        let mut all = Self::NONE;
        for (i, angle) in angles.iter().enumerate() {
            let (sine, cosine) = (0.5 * factor * angle).sin_cos();
            all.real[i] = -2.0 * sine * sine;
            all.imaginary[i] = 2.0 * sine * cosine;
        }
        all
    }

    /// Turns each by another, and Σ weight·change of the results.
    #[inline(always)]
    fn turn(&mut self, by: &Self, weights: &[f64]) -> (f64, f64) {
        let states = self
            .real
            .chunks_exact_mut(LANES)
            .zip(self.imaginary.chunks_exact_mut(LANES));
        let turns = by.real.chunks_exact(LANES).zip(by.imaginary.chunks_exact(LANES));
        let (mut real, mut imaginary) = ([0.0; LANES], [0.0; LANES]);
        for ((w, (re, im)), (dr, di)) in weights.chunks_exact(LANES).zip(states).zip(turns) {
            for i in 0..LANES {
                let (a, b) = (re[i], im[i]);
                let turned = a + dr[i] + (a * dr[i] - b * di[i]);
                let other = b + di[i] + (a * di[i] + b * dr[i]);
                re[i] = turned;
                im[i] = other;
                real[i] += w[i] * turned;
                imaginary[i] += w[i] * other;
            }
        }
        (real.iter().sum(), imaginary.iter().sum())
    }
}

impl Turns {
    fn start(&mut self, weights: &[f64], losses: &[f64], spacing: f64) {
        self.used = weights.len().next_multiple_of(LANES);
        self.weights = [0.0; BLOCK];
        self.angles = [0.0; BLOCK];
        self.weights[..weights.len()].copy_from_slice(weights);
        for (angle, loss) in self.angles.iter_mut().zip(losses) {
            *angle = spacing * loss;
        }
        self.step = Changes::of(&self.angles, 1.0);
        self.stride = Changes::of(&self.angles, TURNS as f64);
        self.state = Changes::NONE;
        self.anchor = Changes::NONE;
    }

    /// Adds the sums over these nodes for every j.
    #[inline(always)]
    fn run(&mut self, sums: &mut [(f64, f64)]) {
        let weights = &self.weights[..self.used];
        for (j, sum) in sums.iter_mut().enumerate().skip(1) {
            let (real, imaginary) = if j % TURNS != 0 {
                self.state.turn(&self.step, weights)
            } else {
                if j % (TURNS * TURNS) == 0 {
                    // One stride before.
                    self.anchor = Changes::of(&self.angles, (j - TURNS) as f64);
                }
                let sums = self.anchor.turn(&self.stride, weights);
                self.state = self.anchor;
                sums
            };
            sum.0 += real;
            sum.1 += imaginary;
        }
    }
}

/// [`Turns::run`], which `pulp` compiles for several instruction sets; [`pulp::Arch`] picks one at run time.
struct Run<'a> {
    block: &'a mut Turns,
    sums: &'a mut [(f64, f64)],
}

impl pulp::NullaryFnOnce for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.block.run(self.sums);
    }
}
