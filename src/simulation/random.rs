//! Blocks of random words from eight xoshiro256++ generators that advance together.
//!
//! A task of a simulation has a generator a jump of 2^128 words away from every other task's. It draws the 256-bit states of the
//! eight, whose sequences overlap with probability below 2^-120, and is then used for rare decisions. Stored as four arrays of
//! eight, one step of all of them is a handful of vector instructions; their outputs are those of `rand_xoshiro`.

use rand::Rng;
use rand::rand_core::block::Generator;

/// Number of generators.
const LANES: usize = 8;

/// Number of words in a block: the working memory of a block of draws stays in the first-level cache.
pub(crate) const BLOCK: usize = 256;

/// Eight xoshiro256++ generators.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    state: [[u64; LANES]; 4],
}

impl Lanes {
    /// Generators whose states are the next words of `source`.
    pub(crate) fn from_rng(source: &mut impl Rng) -> Self {
        Self {
            state: std::array::from_fn(|_| std::array::from_fn(|_| source.next_u64())),
        }
    }
}

impl Generator for Lanes {
    type Output = [u64; BLOCK];

    /// Fills a block with uniform words: word i is the next one of generator i modulo 8.
    #[inline(always)]
    fn generate(&mut self, block: &mut [u64; BLOCK]) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn every_lane_is_a_generator_of_rand_xoshiro() {
        let mut words = Lanes::from_rng(&mut Xoshiro256PlusPlus::seed_from_u64(42));
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
            words.generate(&mut block);
            for (i, &word) in block.iter().enumerate() {
                assert_eq!(word, lanes[i % LANES].next_u64());
            }
        }
    }
}
