//! How many of K balls lie in each batch of an epoch, where n balls in a batch of variance v weigh e^{v·n(n−1)/2}/n!.
//!
//! The weights of all ways to put k balls into a block of batches are the coefficients of a power of a series. A block is cut into halves, and the
//! balls of a block are divided among its halves by the products of their coefficients, down to single batches: only halves that hold
//! balls are looked at.

use crate::simulation::allocation::epochs::Epoch;
use crate::special::log_space::log_sum_exp;
use rand::{Rng, RngExt};
use rustc_hash::FxHashMap;

/// logs of the weights of k = 0, 1, …, K balls in a block.
type LogWeights = Vec<f64>;

/// Weights of an epoch.
#[derive(Debug)]
pub(crate) struct Occupancy {
    /// For each kind of batch those of blocks of every size that occurs.
    blocks: Vec<FxHashMap<u64, LogWeights>>,
    counts: Vec<u64>,
    /// Those of the batches that are not released and the first kinds of those that are.
    unions: Vec<LogWeights>,
}

impl Occupancy {
    /// Weights for at most `most` balls. `sign` is 1, or −1 for weights e^{−v·n(n−1)/2}/n!.
    pub(crate) fn new(epoch: &Epoch, most: usize, sign: f64) -> Self {
        let log_factorials = log_factorials(most);
        let mut union: LogWeights = (0..=most)
            .map(|k| match (k, epoch.still) {
                (0, _) => 0.0,
                (_, 0.0) => f64::NEG_INFINITY,
                (k, still) => k as f64 * still.ln() - log_factorials[k],
            })
            .collect();
        let mut unions = vec![union.clone()];
        let mut blocks = Vec::new();
        for part in &epoch.parts {
            let single = (0..=most)
                .map(|k| 0.5 * sign * part.variance * (k * k.max(1) - k) as f64 - log_factorials[k])
                .collect();
            let mut own = FxHashMap::from_iter([(1, single)]);
            add_block(part.count, &mut own);
            union = product(&union, &own[&part.count]);
            unions.push(union.clone());
            blocks.push(own);
        }
        Self {
            blocks,
            counts: epoch.parts.iter().map(|part| part.count).collect(),
            unions,
        }
    }

    /// log of K!/t^K times the weight of all ways to put K balls into the batches: E[(Σy/t)^K] if the sign is 1.
    pub(crate) fn log_moments(&self, batches: f64) -> Vec<f64> {
        let all = &self.unions[self.unions.len() - 1];
        let log_factorials = log_factorials(all.len());
        let log_t = batches.ln();
        (0..all.len())
            .map(|k| all[k] + log_factorials[k] - k as f64 * log_t)
            .collect()
    }

    /// Draws where K balls lie: appends the released batches that hold any, and how many.
    pub(crate) fn draw(&self, balls: usize, rng: &mut impl Rng, places: &mut Vec<(usize, f64)>) {
        let mut balls = balls;
        let mut first: u64 = self.counts.iter().sum();
        for (kind, block) in self.blocks.iter().enumerate().rev() {
            let count = self.counts[kind];
            first -= count;
            let own = divided(&block[&count], &self.unions[kind], &self.unions[kind + 1], balls, rng);
            scatter(block, count, first, own, rng, places);
            balls -= own;
        }
    }
}

/// log 0!, …, log `most`!.
fn log_factorials(most: usize) -> Vec<f64> {
    let mut sum = 0.0;
    (0..=most)
        .map(|k| {
            sum += (k.max(1) as f64).ln();
            sum
        })
        .collect()
}

/// Adds the weights of a block of `size` batches, and those of the blocks that it is cut into.
fn add_block(size: u64, known: &mut FxHashMap<u64, LogWeights>) {
    if known.contains_key(&size) {
        return;
    }
    let (low, high) = (size / 2, size - size / 2);
    add_block(low, known);
    add_block(high, known);
    let weights = product(&known[&low], &known[&high]);
    known.insert(size, weights);
}

/// Coefficients of the product of two series.
fn product(a: &[f64], b: &[f64]) -> LogWeights {
    let mut terms = Vec::with_capacity(a.len());
    (0..a.len())
        .map(|k| {
            terms.clear();
            terms.extend((0..=k).map(|j| a[j] + b[k - j]));
            log_sum_exp(&terms)
        })
        .collect()
}

/// How many of `balls` are in the first of two blocks.
fn divided(first: &[f64], second: &[f64], both: &[f64], balls: usize, rng: &mut impl Rng) -> usize {
    if balls == 0 {
        return 0;
    }
    let mut left: f64 = rng.random();
    let mut last = 0;
    for j in 0..=balls {
        let log = first[j] + second[balls - j] - both[balls];
        if log == f64::NEG_INFINITY {
            continue;
        }
        last = j;
        left -= log.exp();
        if left < 0.0 {
            break;
        }
    }
    last
}

/// Draws the batches of `balls` balls in a block that begins with batch number `first`.
fn scatter(
    blocks: &FxHashMap<u64, LogWeights>,
    size: u64,
    first: u64,
    balls: usize,
    rng: &mut impl Rng,
    places: &mut Vec<(usize, f64)>,
) {
    if balls == 0 {
        return;
    }
    if size == 1 {
        places.push((first as usize, balls as f64));
        return;
    }
    if balls == 1 {
        // All batches are alike.
        places.push(((first + rng.random_range(0..size)) as usize, 1.0));
        return;
    }
    let (low, high) = (size / 2, size - size / 2);
    let own = divided(&blocks[&low], &blocks[&high], &blocks[&size], balls, rng);
    scatter(blocks, low, first, own, rng, places);
    scatter(blocks, high, first + low, balls - own, rng, places);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::allocation::epochs::tests::run;
    use crate::step::Sampling;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn moments_of_the_mean_are_those_of_all_pairs() {
        // Three batches of variance 1/2 and two that are not released: E[(Σy/5)²] = (3e^{1/2} + 2 + 20)/25, and for three balls by hand.
        let run = run(Sampling::RandomAllocation { batches: 5, times: 1 }, 2f64.sqrt(), 1, 3);
        let found = Occupancy::new(&run.epochs[0], 3, 1.0).log_moments(5.0);
        let e = 0.5f64.exp();
        let square = (3.0 * e + 22.0) / 25.0;
        // Triples: all equal 5, exactly two equal 5·4·3, else 60.
        let cube = (3.0 * e.powi(3) + 2.0 + 12.0 * 3.0 * e + 12.0 * 2.0 + 60.0) / 125.0;
        assert!(found[0].abs() + found[1].abs() < 1e-14);
        assert!((found[2].exp() - square).abs() < 1e-14 && (found[3].exp() - cube).abs() < 1e-14);
    }

    #[test]
    fn draws_have_the_weights_of_their_batches() {
        // Two balls in batches with v = 3/4, 3/4, 1/2: together in one of them with these weights.
        let run = run(Sampling::FixedBins { batches: 3 }, 2.0, 1, 8);
        let occupancy = Occupancy::new(&run.epochs[0], 2, 1.0);
        let weights: Vec<f64> = [0.75f64, 0.75, 0.5].iter().map(|v| 0.5 * v.exp()).collect();
        let total = weights.iter().sum::<f64>() + 3.0;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut together = [0.0; 3];
        let (mut places, count) = (Vec::new(), 200_000);
        for _ in 0..count {
            places.clear();
            occupancy.draw(2, &mut rng, &mut places);
            if let [(batch, _)] = places[..] {
                together[batch] += 1.0 / f64::from(count);
            }
        }
        for (found, weight) in together.iter().zip(&weights) {
            let exact = weight / total;
            let deviation = (exact * (1.0 - exact) / f64::from(count)).sqrt();
            assert!((found - exact).abs() < 5.0 * deviation, "{found} {exact}");
        }
    }
}
