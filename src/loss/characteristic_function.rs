//! The characteristic function of a discrete law at evenly spaced frequencies.
//!
//! Evaluating a sine and a cosine per node and frequency would dominate the cost of a contour. Each node's e^{ijhℓ} is
//! instead rotated by e^{ihℓ} from one frequency to the next, and recomputed before rounding errors build up.

use crate::approx::Approx;
use crate::loss::nodes::Nodes;
use realfft::num_complex::Complex64;

/// Σ w (e^{ijhℓ} − 1) for every j = 0..=last.
///
/// The sums are differences to 1, so that small characteristic exponents keep their digits. With E = w(e^{ijhℓ} − 1),
/// C = e^{ihℓ} and D = C − 1 a rotation is E ← E' = EC + wD. With the unit roundoff u, half of the machine's ε, it adds at most u|E|/2 by the
/// rounding of Re C ≤ 1, u|wD| by that of wD, √2u|E| by those of products where they are not fused with sums, and u(|E| + 2|E'|) by
/// those of the sums. As wD is the first E', n rotations add at most 6nu = 3nε of the largest |E|. After [`ROTATIONS`] of them E
/// restarts from an anchor, which is itself rotated by [`ROTATIONS`] times the angle, and is evaluated directly after as many
/// rotations of its own.
pub(crate) fn smooth_changes(nodes: &Nodes, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
    let mut sums = vec![Complex64::default(); last + 1];
    let mut block = Block::default();
    let arch = pulp::Arch::new();
    let (weights, losses) = (nodes.weights.chunks(BLOCK), nodes.losses.chunks(BLOCK));
    for (weights, losses) in weights.zip(losses) {
        block.start(weights, losses, spacing, last);
        let (block, sums) = (&mut block, &mut sums[..]);
        if has_fused_multiply_add(arch) {
            arch.dispatch(AddSums::<true> { block, sums });
        } else {
            arch.dispatch(AddSums::<false> { block, sums });
        }
    }
    sums.into_iter()
        .enumerate()
        .map(|(j, sum)| {
            let y = j as f64 * spacing;
            let size = (y * nodes.mean_size).min(2.0);
            let rotations = j.min(ROTATIONS) + (j / ROTATIONS).min(ROTATIONS);
            // The angles of an anchor and of its rotations have a relative error of one rounding.
            let rounding = (3.0 * rotations as f64 + 16.0) * f64::EPSILON * size
                + 2.0 * f64::EPSILON * y * nodes.mean_size
                + (nodes.weight_rounding.1 * y).min(2.0 * nodes.weight_rounding.0)
                // With a mass μ at loss 0 the sum would be (Σ w e^{iyℓ} + μ)/(1 + μ) − 1.
                + nodes.missing * size
                + nodes.c.hypot(y) * nodes.loss_rounding;
            // The nodes' error is relative to their own moment M, and so is φ = E[e^{zℓ}]/M; half as much again is for rounding.
            Approx::new(sum, 1.5 * nodes.error + rounding)
        })
        .collect()
}

/// Whether products and sums are fused in one instruction where `arch` is what the processor has: elsewhere a fused operation is a call
/// of a function, hundreds of times slower than two operations. Both have at most the roundings that are counted.
fn has_fused_multiply_add(arch: pulp::Arch) -> bool {
    !matches!(arch, pulp::Arch::Scalar) && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// a·b + c, in one rounding where `FUSED`.
#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Nodes that are summed side by side. It is fixed, so that the order of additions, and with it every bit of the sums, does
/// not depend on the width of the processor's vectors.
const LANES: usize = 8;

/// The sum of the lanes. Inlined, it makes the compiler shuffle lanes at every node, which takes longer than all the rest.
#[inline(never)]
fn total(lanes: &[f64; LANES]) -> f64 {
    lanes.iter().sum()
}

/// Nodes that are rotated through all frequencies before the next are: fourteen arrays of this length take
/// 28 KB of a first-level cache of 32 KB or more.
const BLOCK: usize = 32 * LANES;

/// Rotations of a node while it is in registers, a divisor of those between two anchors: loads and stores of one take as long as its
/// operations. 24 steps of noise 0.87 take 16.7 ms with two, 15.4 with three and with four.
const AT_ONCE: usize = 3;

/// Rotations between two anchors, and rotations of an anchor between two direct evaluations.
///
/// Twice as many would double the rounding error; half as many would evaluate sines at every 1024th frequency rather than
/// at every 4096th.
const ROTATIONS: usize = 64;

/// A complex number for each node of a block.
#[derive(Debug, Clone, Copy)]
struct Values {
    real: [f64; BLOCK],
    imaginary: [f64; BLOCK],
}

/// A rotation for each node: C, and wD.
#[derive(Debug, Clone, Copy)]
struct Rotation {
    factor: Values,
    change: Values,
}

/// A block of nodes while they are rotated from one frequency to the next; missing nodes have weight 0.
#[derive(Debug)]
struct Block {
    /// Nodes in the block, rounded up to a multiple of [`LANES`] by nodes of weight 0.
    used: usize,
    weights: [f64; BLOCK],
    /// hℓ.
    angles: [f64; BLOCK],
    /// From one frequency to the next.
    step: Rotation,
    /// By [`ROTATIONS`] steps at once.
    stride: Rotation,
    /// w(e^{ijhℓ} − 1) at the present j.
    state: Values,
    /// w(e^{ijhℓ} − 1) at the last multiple of [`ROTATIONS`].
    anchor: Values,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            used: 0,
            weights: [0.0; BLOCK],
            angles: [0.0; BLOCK],
            step: Rotation::NONE,
            stride: Rotation::NONE,
            state: Values::ZERO,
            anchor: Values::ZERO,
        }
    }
}

impl Values {
    const ZERO: Self = Self {
        real: [0.0; BLOCK],
        imaginary: [0.0; BLOCK],
    };

    /// e^{iu} − 1 at the angles u = factor·angle.
    fn changes(angles: &[f64; BLOCK], factor: f64) -> Self {
        let mut all = Self::ZERO;
        for (i, angle) in angles.iter().enumerate() {
            let (sine, cosine) = (0.5 * factor * angle).sin_cos();
            all.real[i] = -2.0 * sine * sine;
            all.imaginary[i] = 2.0 * sine * cosine;
        }
        all
    }

    fn weighted(mut self, weights: &[f64; BLOCK]) -> Self {
        let both = self.real.iter_mut().zip(&mut self.imaginary);
        for (weight, (real, imaginary)) in weights.iter().zip(both) {
            *real *= weight;
            *imaginary *= weight;
        }
        self
    }

    /// The values of the first `used` nodes, side by side.
    #[inline(always)]
    fn chunks(&self, used: usize) -> impl Iterator<Item = (&[f64], &[f64])> {
        let both = (&self.real[..used], &self.imaginary[..used]);
        both.0.chunks_exact(LANES).zip(both.1.chunks_exact(LANES))
    }

    /// Rotates the first `used` nodes N times, and returns their sum after each rotation.
    #[inline(always)]
    fn rotate<const FUSED: bool, const N: usize>(&mut self, by: &Rotation, used: usize) -> [Complex64; N] {
        let chunks = self.real[..used].chunks_exact_mut(LANES);
        let chunks = chunks.zip(self.imaginary[..used].chunks_exact_mut(LANES));
        let rotations = by.factor.chunks(used).zip(by.change.chunks(used));
        let (mut real, mut imaginary) = ([[0.0; LANES]; N], [[0.0; LANES]; N]);
        for ((re, im), ((cr, ci), (dr, di))) in chunks.zip(rotations) {
            let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
            a.copy_from_slice(re);
            b.copy_from_slice(im);
            for n in 0..N {
                for i in 0..LANES {
                    let shifted_re = multiply_add::<FUSED>(-b[i], ci[i], dr[i]);
                    let shifted_im = multiply_add::<FUSED>(b[i], cr[i], di[i]);
                    let turned = multiply_add::<FUSED>(a[i], cr[i], shifted_re);
                    b[i] = multiply_add::<FUSED>(a[i], ci[i], shifted_im);
                    a[i] = turned;
                    real[n][i] += turned;
                    imaginary[n][i] += b[i];
                }
            }
            re.copy_from_slice(&a);
            im.copy_from_slice(&b);
        }
        std::array::from_fn(|n| Complex64::new(total(&real[n]), total(&imaginary[n])))
    }
}

impl Rotation {
    const NONE: Self = Self {
        factor: Values::ZERO,
        change: Values::ZERO,
    };

    /// By the angles times `factor`.
    fn of((weights, angles): (&[f64; BLOCK], &[f64; BLOCK]), factor: f64) -> Self {
        let change = Values::changes(angles, factor);
        let mut turn = change;
        turn.real.iter_mut().for_each(|real| *real += 1.0);
        Self {
            factor: turn,
            change: change.weighted(weights),
        }
    }
}

impl Block {
    /// Fills the block with these nodes, all at frequency 0, for rotations up to frequency number `last`.
    fn start(&mut self, weights: &[f64], losses: &[f64], spacing: f64, last: usize) {
        self.used = weights.len().next_multiple_of(LANES);
        self.weights = [0.0; BLOCK];
        self.angles = [0.0; BLOCK];
        self.weights[..weights.len()].copy_from_slice(weights);
        for (angle, loss) in self.angles.iter_mut().zip(losses) {
            *angle = spacing * loss;
        }
        self.step = Rotation::of((&self.weights, &self.angles), 1.0);
        if last >= ROTATIONS {
            self.stride = Rotation::of((&self.weights, &self.angles), ROTATIONS as f64);
        }
        self.state = Values::ZERO;
        self.anchor = Values::ZERO;
    }

    /// Adds Σ w(e^{ijhℓ} − 1) over these nodes to the sum of every j ≥ 1.
    #[inline(always)]
    fn add_sums<const FUSED: bool>(&mut self, sums: &mut [Complex64]) {
        for (place, sums) in sums.chunks_mut(ROTATIONS).enumerate() {
            let (anchored, rest) = sums.split_at_mut(1);
            if place > 0 {
                if place % ROTATIONS == 0 {
                    // One stride back: the rotation below makes it that of j.
                    let before = ((place - 1) * ROTATIONS) as f64;
                    self.anchor = Values::changes(&self.angles, before).weighted(&self.weights);
                }
                anchored[0] += self.anchor.rotate::<FUSED, 1>(&self.stride, self.used)[0];
                self.state = self.anchor;
            }
            let mut groups = rest.chunks_exact_mut(AT_ONCE);
            for sums in &mut groups {
                let found = self.state.rotate::<FUSED, AT_ONCE>(&self.step, self.used);
                sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
            }
            for sum in groups.into_remainder() {
                *sum += self.state.rotate::<FUSED, 1>(&self.step, self.used)[0];
            }
        }
    }
}

/// A call of [`Block::add_sums`], which `pulp` compiles for several instruction sets; [`pulp::Arch`] picks one at run time.
struct AddSums<'a, const FUSED: bool> {
    block: &'a mut Block,
    sums: &'a mut [Complex64],
}

impl<const FUSED: bool> pulp::NullaryFnOnce for AddSums<'_, FUSED> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.block.add_sums::<FUSED>(self.sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::StepLoss;
    use crate::step::{Direction, GroupLaw};

    /// A law without any errors of its own.
    fn exact_nodes(law: &[(f64, f64)]) -> Nodes {
        Nodes {
            losses: law.iter().map(|node| node.0).collect(),
            weights: law.iter().map(|node| node.1).collect(),
            mean_size: law.iter().map(|(loss, weight)| weight * loss.abs()).sum(),
            ..Nodes::default()
        }
    }

    /// |a − b| at each j.
    fn distances(a: &[Approx<Complex64>], b: &[Approx<Complex64>]) -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| (a.value - b.value).norm()).collect()
    }

    /// Σ w (e^{ijhℓ} − 1) from one sine a node, where jhℓ has so few digits that it is exact.
    fn direct(law: &[(f64, f64)], spacing: f64, j: usize) -> Complex64 {
        let change = |(loss, weight): &(f64, f64)| {
            let (sine, cosine) = (0.5 * (j as f64 * spacing * loss)).sin_cos();
            2.0 * weight * sine * Complex64::new(-sine, cosine)
        };
        law.iter().map(change).sum()
    }

    #[test]
    fn rotations_lose_no_more_than_their_bound_and_some_lose_a_good_part_of_it() {
        // Losses of 20 bits and a spacing that is a power of 2.
        let law: Vec<(f64, f64)> = (0..11)
            .map(|i| (0.75 + f64::from(i * i) / 8192.0, 1.0 / 11.0))
            .collect();
        for (nodes, spacing) in [(&law[..], 0.125), (&law[..1], 0.015_625), (&law[3..4], 1.0)] {
            let nodes: Vec<(f64, f64)> = nodes.iter().map(|node| (node.0, 1.0 / nodes.len() as f64)).collect();
            let found = smooth_changes(&exact_nodes(&nodes), spacing, 10_000);
            let mut worst = 0.0f64;
            for (j, &Approx { value, error }) in found.iter().enumerate() {
                let off = (value - direct(&nodes, spacing, j)).norm();
                assert!(off <= error, "{spacing} {j}: {off} {error}");
                worst = worst.max(off / error.max(f64::MIN_POSITIVE));
            }
            assert!(worst > 0.002, "{spacing}: {worst}");
        }
    }

    /// Processors with and without fused operations give sums that differ by no more than the bound on rounding.
    #[test]
    fn fused_operations_change_no_more_than_the_last_digits() {
        let losses: Vec<f64> = (0..50).map(|i| 0.1 + f64::from(i).sqrt()).collect();
        let weights = vec![0.02; 50];
        let (mut fused, mut plain) = (vec![Complex64::default(); 3_001], vec![Complex64::default(); 3_001]);
        let mut block = Block::default();
        block.start(&weights, &losses, 0.01, 3_000);
        block.add_sums::<true>(&mut fused);
        block.start(&weights, &losses, 0.01, 3_000);
        block.add_sums::<false>(&mut plain);
        for (j, (a, b)) in fused.iter().zip(&plain).enumerate() {
            let rotations = (j.min(ROTATIONS) + j / ROTATIONS) as f64;
            assert!((a - b).norm() <= 4.0 * (rotations + 4.0) * f64::EPSILON, "{j}: {a} {b}");
        }
        assert!(fused != plain);
    }

    #[test]
    fn weights_and_losses_that_are_off_by_their_bounds_attain_the_bounds() {
        const ERROR: f64 = 1e-7;
        let law = [(1.0, 0.5), (-1.0, 0.25), (1.0, 0.25)];
        let exact = smooth_changes(&exact_nodes(&law), 0.03125, 100);
        // All weights too large by a relative 1e-7.
        let mut nodes = exact_nodes(&law.map(|(loss, weight)| (loss, weight * (1.0 + ERROR))));
        nodes.weight_rounding = (ERROR, ERROR * nodes.mean_size);
        let wrong = smooth_changes(&nodes, 0.03125, 100);
        let mut attained = [0.0f64; 2];
        for (j, off) in distances(&wrong, &exact).into_iter().enumerate() {
            assert!(off <= wrong[j].error, "{j}");
            let half = usize::from(j > 50);
            attained[half] = attained[half].max(off / wrong[j].error.max(1e-300));
        }
        // The real part of a mean over ±ℓ is all there is at yℓ = π, the imaginary part of 1/2 near 0.
        assert!(attained[0] > 0.5 && attained[1] > 0.8, "{attained:?}");

        // All losses too large by 1e-7: at c = 0 each e^{iyℓ} moves by 1e-7·y.
        let one = [(1.0, 1.0)];
        let exact = smooth_changes(&exact_nodes(&one), 0.03125, 100);
        let mut nodes = exact_nodes(&[(1.0 + ERROR, 1.0)]);
        nodes.loss_rounding = ERROR;
        let wrong = smooth_changes(&nodes, 0.03125, 100);
        for (j, off) in distances(&wrong, &exact).into_iter().enumerate().skip(1) {
            assert!(
                off <= wrong[j].error && off > 0.99 * wrong[j].error,
                "{j}: {off} {}",
                wrong[j].error
            );
        }
    }

    #[test]
    fn a_law_without_some_mass_is_off_by_no_more_than_its_error() {
        // A hundredth of the mass of e^{zℓ} is missing, at a loss where e^{iyℓ} = −1 while it is 1 elsewhere.
        const MISSING: f64 = 0.01;
        let mut nodes = exact_nodes(&[(2.0, 1.0)]);
        nodes.error = MISSING;
        let found = smooth_changes(&nodes, std::f64::consts::PI, 1)[1];
        // Relative to the moment of the nodes, E[e^{zℓ}] − 1 lacks MISSING·(e^{iyℓ} − 0).
        let off = (found.value + MISSING).norm();
        assert!(off <= found.error && 2.0 * off > found.error, "{off} {found:?}");
    }

    /// E[e^{zℓ}]/E[e^{cℓ}] − 1 of (1 − q)N(0, σ²) + qN(1, σ²) against N(0, σ²), z = c + iy. mpmath, 40 digits:
    ///
    /// `f = lambda z: quad(lambda x: npdf(x, 0, s)*exp((1+z)*log(1-q+q*exp((2*x-1)/(2*s*s)))), linspace(-12*s, 14, 97))`
    /// `f(mpc(c, y))/f(mpf(c)) - 1`
    #[test]
    fn nodes_of_a_sampled_gaussian_are_within_their_error_of_the_characteristic_function() {
        let cases = [
            (0.1, 1.0, 3.0, 0.5, -0.025_461_072_647_891_1, 0.081_039_746_973_857_49),
            (0.1, 1.0, 3.0, 1.5, -0.140_597_063_552_197_8, 0.140_999_943_047_970_9),
            (0.1, 1.0, 3.0, 4.0, -0.294_529_294_562_104_2, 0.095_970_234_527_211_63),
            // Half of the tilted mass lies far out, and the bulk has losses of 1e-6.
            (
                1e-6,
                0.5,
                6.875,
                0.1875,
                -0.715_249_329_377_667_4,
                0.069_481_326_265_192_51,
            ),
        ];
        for (rate, sigma, c, y, real, imaginary) in cases {
            let law = GroupLaw::binomial(1, rate).unwrap();
            let mut loss = StepLoss::mixture(&law, sigma, Direction::Remove).unwrap().unwrap();
            for log_tolerance in [-6.0, -9.0, -12.0, -16.0, -20.0, -30.0] {
                let mut tilted = loss.tilted(c, log_tolerance);
                tilted.certify(y);
                let found = tilted.changes(y, 1)[1];
                let off = (found.value - Complex64::new(real, imaginary)).norm();
                assert!(off <= found.error, "{rate} {log_tolerance}: {off} {found:?}");
            }
        }
    }
}
