//! Sums at evenly spaced frequencies by rotations.
//!
//! Evaluating a sine and a cosine per node and frequency would dominate the cost of a contour. Each node's e^{ijhℓ} is
//! instead rotated from one frequency to the next: with j in base [`RADIX`], from the number with the last digits 0 by one digit after the other,
//! so that no value has gone through more rotations than j has digits, times three.

use crate::loss::characteristic_function::Law;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::vector::{has_fused_multiply_add, multiply_add};
use realfft::num_complex::Complex64;

/// Σ w (e^{ijhℓ} − 1) for every j = 0..=last.
///
/// The sums are differences to 1, so that small characteristic exponents keep their digits. With E = w(e^{ijhℓ} − 1),
/// C = e^{ihℓ} and D = C − 1 a rotation is E ← E' = EC + wD. With the unit roundoff u, half of the machine's ε, it adds at most u|E|/2 by the
/// rounding of Re C ≤ 1, u|wD| by that of wD, √2u|E| by those of products where they are not fused with sums, and u(|E| + 2|E'|) by
/// those of the sums. As |E| and |wD| are at most |w|·min(jhℓ, 2), n rotations add at most 6nu = 3nε of that. That D itself is off by three
/// roundings adds 3u|wD| for each, in all at most 3u·|w|jhℓ, as the angles of the rotations add up to jhℓ: it counts with the angles.
pub(super) fn sums(law: &Law, spacing: f64, last: usize) -> Vec<Complex64> {
    let mut sums = vec![[CompensatedSum::default(); 2]; last + 1];
    let mut block = Block::default();
    let arch = pulp::Arch::new();
    let (weights, losses) = (law.weights.chunks(BLOCK), law.losses.chunks(BLOCK));
    for (weights, losses) in weights.zip(losses) {
        block.start(weights, losses, spacing, last);
        let (block, sums) = (&mut block, &mut sums[..]);
        if has_fused_multiply_add(arch) {
            arch.dispatch(AddSums::<true> { block, sums });
        } else {
            arch.dispatch(AddSums::<false> { block, sums });
        }
    }
    let value = |[real, imaginary]: [CompensatedSum; 2]| Complex64::new(real.value(), imaginary.value());
    sums.into_iter().map(value).collect()
}

/// Bound on the rounding error of the sum at frequency j, over Σ w·min(jhℓ, 2); that of angles, sines and cosines is not part of it.
///
/// Rotations are counted by [`sums`]. A value that is evaluated directly has four roundings, and adding up a block has one for each
/// of its chunks and lanes.
pub(super) fn error(j: usize) -> f64 {
    let (mut rotations, mut rest) = (0, j % DIRECT);
    while rest > 0 {
        rotations += rest % RADIX;
        rest /= RADIX;
    }
    (3.0 * rotations as f64 + SUMMATION) * f64::EPSILON
}

/// Roundings of direct values and of sums, in units of ε.
const SUMMATION: f64 = 0.5 * (4 + BLOCK / LANES + LANES) as f64;

/// Nodes that are summed side by side. It is fixed, so that the order of additions, and with it every bit of the sums, does
/// not depend on the width of the processor's vectors.
const LANES: usize = 8;

/// The sum of the lanes. Inlined, it makes the compiler shuffle lanes at every node, which takes longer than all the rest.
#[inline(never)]
fn total(lanes: &[f64; LANES]) -> f64 {
    lanes.iter().sum()
}

/// Nodes that are rotated through all frequencies before the next are: the eight arrays of this length that the last digit takes are
/// 16 KB of a first-level cache of 32 KB or more.
const BLOCK: usize = 32 * LANES;

/// Base of the digits of a frequency. At most 18 rotations lead to one; in base 8 there would be 28 of them. The rotations by the last digit stay
/// in registers, which in base 2 would be every second one only.
const RADIX: usize = 4;
/// Digits.
const LEVELS: usize = 6;
/// Frequencies between two at which values are evaluated directly.
const DIRECT: usize = RADIX.pow(LEVELS as u32);

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
    /// By RADIX^d frequencies, for each digit d.
    steps: [Rotation; LEVELS],
    /// w(e^{ijhℓ} − 1) at the last j whose digits below d are 0.
    states: [Values; LEVELS],
}

impl Default for Block {
    fn default() -> Self {
        Self {
            used: 0,
            weights: [0.0; BLOCK],
            angles: [0.0; BLOCK],
            steps: [Rotation::NONE; LEVELS],
            states: [Values::ZERO; LEVELS],
        }
    }
}

impl Values {
    const ZERO: Self = Self {
        real: [0.0; BLOCK],
        imaginary: [0.0; BLOCK],
    };

    /// e^{iu} − 1 at the angles u = factor·angle.
    fn changes(angles: &[f64], factor: f64) -> Self {
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

    /// The sum of the first `used` nodes.
    #[inline(always)]
    fn sum(&self, used: usize) -> Complex64 {
        let (mut real, mut imaginary) = ([0.0; LANES], [0.0; LANES]);
        for (re, im) in self.chunks(used) {
            for i in 0..LANES {
                real[i] += re[i];
                imaginary[i] += im[i];
            }
        }
        Complex64::new(total(&real), total(&imaginary))
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
    fn of((weights, angles): (&[f64; BLOCK], &[f64]), factor: f64) -> Self {
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
        for (digit, step) in self.steps.iter_mut().enumerate() {
            let frequencies = RADIX.pow(digit as u32);
            if frequencies <= last {
                *step = Rotation::of((&self.weights, &self.angles[..self.used]), frequencies as f64);
            }
        }
        self.states = [Values::ZERO; LEVELS];
    }

    /// Adds Σ w(e^{ijhℓ} − 1) over these nodes to the sum of every j ≥ 1.
    #[inline(always)]
    fn add_sums<const FUSED: bool>(&mut self, sums: &mut [[CompensatedSum; 2]]) {
        const IN_REGISTERS: usize = RADIX - 1;
        for (group, sums) in sums.chunks_mut(RADIX).enumerate() {
            let (first, rest) = sums.split_at_mut(1);
            if group > 0 {
                add(&mut first[0], self.advance::<FUSED>(group * RADIX));
            }
            let (mut state, step) = (self.states[0], &self.steps[0]);
            if rest.len() == IN_REGISTERS {
                let found = state.rotate::<FUSED, IN_REGISTERS>(step, self.used);
                rest.iter_mut().zip(found).for_each(|(sum, found)| add(sum, found));
            } else {
                for sum in rest {
                    add(sum, state.rotate::<FUSED, 1>(step, self.used)[0]);
                }
            }
        }
    }

    /// Makes the states those of j, a multiple of [`RADIX`], and returns their sum.
    #[inline(always)]
    fn advance<const FUSED: bool>(&mut self, j: usize) -> Complex64 {
        let mut digit = 1;
        while digit < LEVELS && j.is_multiple_of(RADIX.pow(digit as u32 + 1)) {
            digit += 1;
        }
        let sum = if digit == LEVELS {
            digit = LEVELS - 1;
            self.states[digit] = Values::changes(&self.angles[..self.used], j as f64).weighted(&self.weights);
            self.states[digit].sum(self.used)
        } else {
            self.states[digit].rotate::<FUSED, 1>(&self.steps[digit], self.used)[0]
        };
        for lower in 0..digit {
            self.states[lower] = self.states[digit];
        }
        sum
    }
}

/// Adds to both parts of a sum.
#[inline(always)]
fn add([real, imaginary]: &mut [CompensatedSum; 2], value: Complex64) {
    real.add(value.re);
    imaginary.add(value.im);
}

/// A call of [`Block::add_sums`], which `pulp` compiles for several instruction sets; [`pulp::Arch`] picks one at run time.
struct AddSums<'a, const FUSED: bool> {
    block: &'a mut Block,
    sums: &'a mut [[CompensatedSum; 2]],
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
    use crate::loss::characteristic_function::tests::{direct, law_of};

    #[test]
    fn rotations_lose_no_more_than_their_bound_and_some_lose_a_good_part_of_it() {
        // Losses of 20 bits and a spacing that is a power of 2.
        let nodes: Vec<(f64, f64)> = (0..11)
            .map(|i| (0.75 + f64::from(i * i) / 8192.0, 1.0 / 11.0))
            .collect();
        for (nodes, spacing) in [(&nodes[..], 0.125), (&nodes[..1], 0.015_625), (&nodes[3..4], 1.0)] {
            let law = law_of(nodes);
            let weight: f64 = law.weights.iter().sum();
            let mut worst = 0.0f64;
            for (j, sum) in sums(&law, spacing, 10_000).into_iter().enumerate() {
                let y = j as f64 * spacing;
                let size = (y * law.mean_size).min(2.0 * weight);
                let bound = error(j) * size + 3.0 * f64::EPSILON * y * law.mean_size;
                let off = (sum - direct(nodes, spacing, j)).norm();
                assert!(off <= bound, "{spacing} {j}: {off} {bound}");
                worst = worst.max(off / bound.max(f64::MIN_POSITIVE));
            }
            assert!(worst > 0.02, "{spacing}: {worst}");
        }
    }

    /// Processors with and without fused operations give sums that differ by no more than the bound on rounding.
    #[test]
    fn fused_operations_change_no_more_than_the_last_digits() {
        let losses: Vec<f64> = (0..50).map(|i| 0.1 + f64::from(i).sqrt()).collect();
        let weights = vec![0.02; 50];
        let mut block = Block::default();
        let mut sums = |is_fused: bool| {
            let mut sums = vec![[CompensatedSum::default(); 2]; 5_001];
            block.start(&weights, &losses, 0.01, 5_000);
            if is_fused {
                block.add_sums::<true>(&mut sums);
            } else {
                block.add_sums::<false>(&mut sums);
            }
            let value = |[real, imaginary]: [CompensatedSum; 2]| Complex64::new(real.value(), imaginary.value());
            sums.into_iter().map(value).collect::<Vec<_>>()
        };
        let (fused, plain) = (sums(true), sums(false));
        for (j, (a, b)) in fused.iter().zip(&plain).enumerate() {
            assert!((a - b).norm() <= 4.0 * error(j), "{j}: {a} {b}");
        }
        assert!(fused != plain);
    }
}
