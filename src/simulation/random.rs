//! Random words for one task: eight xoshiro256++ generators side by side, and the one that seeded them.
//!
//! The task's generator is a jump of 2^128 words away from every other task's. It draws the 256-bit states of
//! the eight, whose sequences overlap with probability below 2^-120, and then serves rare decisions. Kept as
//! four arrays of eight, one step of all of them is a handful of vector instructions; the outputs are those
//! of `rand_xoshiro`.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

/// Generators side by side.
const LANES: usize = 8;

/// Words made at a time.
pub(crate) const BLOCK: usize = 256;

/// A source of random words that depends on the seed and the task alone.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    state: [[u64; LANES]; 4],
    spare: Xoshiro256PlusPlus,
}

impl Words {
    /// The words of the task whose stream is `source`.
    pub(crate) fn new(mut source: Xoshiro256PlusPlus) -> Self {
        let state = std::array::from_fn(|_| std::array::from_fn(|_| source.next_u64()));
        Self { state, spare: source }
    }

    /// Fills a block with uniform words.
    #[inline(always)]
    pub(crate) fn fill(&mut self, block: &mut [u64; BLOCK]) {
        let [mut s0, mut s1, mut s2, mut s3] = self.state;
        for group in block.as_chunks_mut::<LANES>().0 {
            for lane in 0..LANES {
                group[lane] = s0[lane].wrapping_add(s3[lane]).rotate_left(23).wrapping_add(s0[lane]);
                let shifted = s1[lane] << 17;
                s2[lane] ^= s0[lane];
                s3[lane] ^= s1[lane];
                s1[lane] ^= s2[lane];
                s0[lane] ^= s3[lane];
                s2[lane] ^= shifted;
                s3[lane] = s3[lane].rotate_left(45);
            }
        }
        self.state = [s0, s1, s2, s3];
    }

    /// A word from the task's own generator.
    pub(crate) fn next(&mut self) -> u64 {
        self.spare.next_u64()
    }

    /// A uniform number in [0, 1) with 53 bits, from the task's own generator.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn every_lane_is_a_generator_of_rand_xoshiro() {
        let mut words = Words::new(Xoshiro256PlusPlus::seed_from_u64(42));
        let mut lanes: Vec<Xoshiro256PlusPlus> = (0..LANES)
            .map(|lane| {
                let mut seed = [0; 32];
                for (bytes, row) in seed.chunks_mut(8).zip(&words.state) {
                    bytes.copy_from_slice(&row[lane].to_le_bytes());
                }
                Xoshiro256PlusPlus::from_seed(seed)
            })
            .collect();
        let mut block = [0; BLOCK];
        for _ in 0..3 {
            words.fill(&mut block);
            for (i, &word) in block.iter().enumerate() {
                assert_eq!(word, lanes[i % LANES].next_u64());
            }
        }
        let uniform = words.uniform();
        assert!((0.0..1.0).contains(&uniform));
    }
}
