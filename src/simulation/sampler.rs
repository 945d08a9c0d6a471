//! Exact draws of the privacy loss of one step under a tilted law, at a cost that does not grow with the group.
//!
//! The tilted law has density f(x) ∝ N(x; 0, σ²)·r(x)^p. The line is cut into cells so short that, on each,
//! the loss is a polynomial of degree 5 to 1e-9 (a certified bound, carried into the interval) and f varies by
//! two per cent where it matters. A draw
//!
//! 1. picks a cell with probability π (alias method, probabilities in units of 2^-28),
//! 2. picks a point uniformly in it, and
//! 3. accepts it with probability f(x)/(c·π/width), where c is the largest value of sup f·width/π:
//!    almost always decided by a lower bound on f over the cell, else by f itself.
//!
//! Accepted points have density f exactly, whatever the rounding of π. One 64-bit word gives the cell (28
//! bits), the first 10 bits of the acceptance, and the point (26 bits, midpoints of 2^26 parts of the cell:
//! by the midpoint rule the mean of a smooth function changes by less than 2^-52·(its variation in the cell)).

use crate::error::Result;
use crate::loss::MixturePair;
use crate::loss::line::Normal;
use crate::loss::moment::LogMoment;
use crate::loss::moment::{Integrand, Moments};
use crate::monitor::Monitor;
use crate::simulation::alias::{AliasTable, CELL_BITS, proposal_counts};
use crate::simulation::density_cells::{Builder, Cell, too_little_noise};
use crate::simulation::polynomial::LossPolynomial;
use crate::simulation::random::BLOCK;
use crate::step::Direction;
use rand::rand_core::block::Generator;
use rand::{Rng, RngExt};

/// Largest and smallest bound that is asked for on the error of a loss.
const LOSS_TOLERANCE: (f64, f64) = (1e-9, 1e-13);
/// Bound that is asked for on the relative error of the law of all losses of a run together.
const LAW_TOLERANCE: f64 = 1e-5;
/// Largest mass of the tilted law outside the table.
const OUTSIDE_TABLE: f64 = 1e-18;

/// Bits of a word that decide on acceptance, and that place the point in its cell.
const ACCEPT_BITS: u32 = 10;
const POINT_BITS: u32 = 64 - CELL_BITS - ACCEPT_BITS;

/// A cell, with the envelope that the exact decision on acceptance needs.
#[derive(Debug, Clone, Copy)]
struct Exact {
    centre: f64,
    half_width: f64,
    log_envelope: f64,
}

/// Draws of one step's loss under the law tilted by e^{λ·loss}.
#[derive(Debug)]
pub(crate) struct LossTable {
    alias: AliasTable,
    polynomials: Vec<LossPolynomial>,
    /// For each cell a lower bound on its acceptance probability, in units of 2^-10.
    certain: Vec<u16>,
    exact: Vec<Exact>,
    pair: MixturePair,
    normal: Normal,
    sign: f64,
    /// sign·p: log f = `power`·loss + log N(x; 0, σ²).
    power: f64,
    /// log E_P[e^{λ·loss}].
    pub(crate) log_moment: LogMoment,
    /// Bound on the error of a drawn loss.
    pub(crate) loss_error: f64,
    /// Bound on |log| of the density of the draws over the tilted law's.
    ///
    /// A draw is accepted by f with the polynomial for the loss, or by a lower bound on f itself: its density
    /// is within e^±|p|·`loss_error` of f, and so is its normalisation.
    pub(crate) law_error: f64,
    /// Bound on the mean of |loss| under the tilted law.
    pub(crate) mean_size: f64,
    /// Bound on the probability, per step, of what cannot be drawn, and on the effect of midpoints.
    pub(crate) missing: f64,
}

impl LossTable {
    /// The table of one pair in one direction, tilted by e^{λ·loss} with λ ≥ 0, for a run of `steps` steps.
    ///
    /// # Errors
    /// [`Error::Unreachable`](crate::Error::Unreachable) if the law needs more than a million cells (σ below 0.05 with thousands of
    /// likely shifts); [`Error::Interrupted`](crate::Error::Interrupted).
    pub(crate) fn new(
        moments: &mut Moments,
        direction: Direction,
        tilt: f64,
        steps: u64,
        monitor: &dyn Monitor,
    ) -> Result<Self> {
        let sign = direction.sign();
        let exponent = direction.ratio_exponent(1.0 + tilt);
        let tolerance = (LAW_TOLERANCE / (steps as f64 * exponent.abs().max(1.0)))
            .min(LOSS_TOLERANCE.0)
            .max(LOSS_TOLERANCE.1);
        if !moments.is_in_reach(exponent) {
            return Err(too_little_noise(moments.pair().noise_multiplier()));
        }
        let log_moment = if tilt == 0.0 {
            LogMoment::default()
        } else {
            moments.log_power_moment(exponent)
        };
        let integral = moments.integrate(exponent, Integrand::Power, OUTSIDE_TABLE);
        let pair = moments.pair();
        let (low, high) = integral.support;
        let (cells, loss_error) = Builder::new(pair, exponent, sign, tolerance, monitor).cells(low, high)?;
        let log_areas: Vec<f64> = cells
            .iter()
            .map(|cell| cell.log_highest + cell.half_width.ln())
            .collect();
        let counts = proposal_counts(&log_areas);
        let mean_size = cells
            .iter()
            .map(|cell| cell.size * (cell.log_highest + (2.0 * cell.half_width).ln() - integral.log_value).exp())
            .sum();
        let exact = acceptance(&cells, &counts);
        let certain = cells
            .iter()
            .zip(&exact)
            .map(|(cell, exact)| certain_bits(cell, exact))
            .collect();
        Ok(Self {
            alias: AliasTable::new(&counts),
            polynomials: cells.iter().map(|cell| cell.polynomial).collect(),
            certain,
            exact,
            pair: pair.clone(),
            normal: Normal::new(pair.noise_multiplier()),
            sign,
            power: sign * exponent,
            log_moment,
            loss_error,
            law_error: 2.0 * exponent.abs() * loss_error,
            mean_size,
            missing: integral.left_out + f64::EPSILON,
        })
    }

    /// Draws a block of losses.
    ///
    /// Separate passes, so that the loads of many draws are under way at once and no branch is unpredictable; the few draws that
    /// the lower bound on the acceptance probability does not accept are decided at the end.
    #[inline(always)]
    fn draw(&self, words: &mut impl Generator<Output = [u64; BLOCK]>, rare: &mut impl Rng, block: &mut Block) {
        words.generate(&mut block.words);
        for (point, &word) in block.points.iter_mut().zip(&block.words) {
            *point = point_of(word);
        }
        for i in 0..BLOCK {
            let cell = self.alias.cell_of(block.words[i]);
            block.cells[i] = cell;
            block.certain[i] = self.certain[cell as usize];
        }
        for i in 0..BLOCK {
            block.losses[i] = self.polynomials[block.cells[i] as usize].at(block.points[i]);
        }
        for i in 0..BLOCK {
            block.undecided[i] = u8::from(accept_bits(block.words[i]) >= block.certain[i]);
        }
        for group in 0..BLOCK / 8 {
            let mut flags = block
                .undecided
                .as_chunks::<8>()
                .0
                .get(group)
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
            while flags != 0 {
                let i = 8 * group + flags.trailing_zeros() as usize / 8;
                flags &= flags - 1;
                block.losses[i] = self.accept(block.words[i], rare);
            }
        }
    }

    /// Decides on a word's draw by the density itself, and draws again until one is accepted.
    #[cold]
    #[inline(never)]
    fn accept(&self, mut word: u64, rare: &mut impl Rng) -> f64 {
        loop {
            let cell = self.alias.cell_of(word) as usize;
            let loss = self.loss_of(cell, word);
            if accept_bits(word) < self.certain[cell] || self.decide(cell, word, loss, rare) {
                return loss;
            }
            word = rare.next_u64();
        }
    }

    /// The loss at a word's point.
    fn loss_of(&self, cell: usize, word: u64) -> f64 {
        let polynomial = &self.polynomials[cell];
        if polynomial.is_unknown() {
            let Exact { centre, half_width, .. } = self.exact[cell];
            return self.sign * self.pair.log_ratio(centre + half_width * point_of(word));
        }
        polynomial.at(point_of(word))
    }

    /// Acceptance by the density itself: ten bits of the word and 53 more make a uniform number.
    fn decide(&self, cell: usize, word: u64, loss: f64, rare: &mut impl Rng) -> bool {
        let Exact {
            centre,
            half_width,
            log_envelope,
        } = self.exact[cell];
        let uniform = (f64::from(accept_bits(word)) + rare.random::<f64>()) / f64::from(1u32 << ACCEPT_BITS);
        let x = centre + half_width * point_of(word);
        let log_probability = self.power * loss + self.normal.log_density(x) - log_envelope;
        // 1 + d ≤ e^d ≤ 1 + d + d²/2 for d ≤ 0, which all but always spares the exponential.
        let lower = 1.0 + log_probability;
        uniform < lower
            || (uniform < lower + 0.5 * log_probability * log_probability && uniform < log_probability.exp())
    }
}

/// The cells with the log of the envelope c·π/width of each, c the smallest constant for which it is above the density
/// everywhere.
fn acceptance(cells: &[Cell], counts: &[u32]) -> Vec<Exact> {
    let unit = -f64::from(CELL_BITS) * std::f64::consts::LN_2;
    let log_proposal = |cell: &Cell, count: u32| f64::from(count).ln() + unit - (2.0 * cell.half_width).ln();
    let log_constant = cells
        .iter()
        .zip(counts)
        .map(|(cell, &count)| cell.log_highest - log_proposal(cell, count))
        .fold(f64::NEG_INFINITY, f64::max);
    let exact = cells.iter().zip(counts).map(|(cell, &count)| Exact {
        centre: cell.centre,
        half_width: cell.half_width,
        log_envelope: log_constant + log_proposal(cell, count),
    });
    exact.collect()
}

/// A lower bound on the acceptance probability in a cell in units of 2^-10; 0 where the loss has no polynomial.
fn certain_bits(cell: &Cell, exact: &Exact) -> u16 {
    if cell.polynomial.is_unknown() {
        return 0;
    }
    let probability = (cell.log_lowest - exact.log_envelope).exp();
    (probability * f64::from(1u32 << ACCEPT_BITS) * (1.0 - 1e-9)) as u16
}

/// The point of a word in its cell, in (−1, 1).
#[inline(always)]
fn point_of(word: u64) -> f64 {
    const SPACING: f64 = 2.0 / (1u64 << POINT_BITS) as f64;
    let part = (word >> (CELL_BITS + ACCEPT_BITS)) as i32;
    f64::from(part) * SPACING + (0.5 * SPACING - 1.0)
}

/// The first ten bits of the number that decides on acceptance.
#[inline(always)]
fn accept_bits(word: u64) -> u16 {
    (word >> CELL_BITS) as u16 & ((1 << ACCEPT_BITS) - 1)
}

/// Working memory of the draws of one task.
#[derive(Debug)]
pub(crate) struct Block {
    words: [u64; BLOCK],
    cells: [u32; BLOCK],
    points: [f64; BLOCK],
    certain: [u16; BLOCK],
    undecided: [u8; BLOCK],
    pub(crate) losses: [f64; BLOCK],
}

impl Block {
    pub(crate) fn new() -> Self {
        Self {
            words: [0; BLOCK],
            cells: [0; BLOCK],
            points: [0.0; BLOCK],
            certain: [0; BLOCK],
            undecided: [0; BLOCK],
            losses: [0.0; BLOCK],
        }
    }
}

/// One block of draws, which `pulp` compiles for several instruction sets; [`pulp::Arch`] picks one at run time.
pub(crate) struct Draw<'a, G, R> {
    pub(crate) table: &'a LossTable,
    /// Words for draws.
    pub(crate) words: &'a mut G,
    /// Words for the few that are not decided by them.
    pub(crate) rare: &'a mut R,
    pub(crate) block: &'a mut Block,
}

impl<G: Generator<Output = [u64; BLOCK]>, R: Rng> pulp::NullaryFnOnce for Draw<'_, G, R> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.table.draw(self.words, self.rare, self.block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Unwatched;
    use crate::simulation::random::Lanes;
    use crate::step::GroupLaw;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn moments(k: u64, q: f64, sigma: f64) -> Moments {
        Moments::new(MixturePair::new(&GroupLaw::binomial(k, q).unwrap(), sigma).unwrap())
    }

    #[test]
    fn drawn_losses_have_the_moments_of_the_tilted_law() {
        // Under the law tilted by λ: E[e^{μ·loss}] = exp(K(λ + μ) − K(λ)), K the cumulant function.
        for (k, q, sigma, direction, tilt) in [
            (1, 0.1, 1.0, Direction::Remove, 0.0),
            (4, 0.05, 1.0, Direction::Add, 0.0),
            (16, 0.01, 2.0, Direction::Remove, 3.0),
            (8, 0.3, 0.7, Direction::Add, 5.0),
        ] {
            let mut moments = moments(k, q, sigma);
            let table = LossTable::new(&mut moments, direction, tilt, 10, &Unwatched).unwrap();
            let mut rare = Xoshiro256PlusPlus::seed_from_u64(7);
            let mut words = Lanes::from_rng(&mut rare);
            let mu = 0.5;
            let (mut sum, mut squares, mut draws) = (0.0, 0.0, 0);
            let mut block = Block::new();
            for _ in 0..8000 {
                table.draw(&mut words, &mut rare, &mut block);
                draws += BLOCK as u32;
                for loss in &block.losses {
                    let value = (mu * loss).exp();
                    sum += value;
                    squares += value * value;
                }
            }
            let mean = sum / f64::from(draws);
            let error = ((squares / f64::from(draws) - mean * mean) / f64::from(draws)).sqrt();
            let mut cumulant =
                |lambda: f64| moments.log_power_moment(direction.ratio_exponent(1.0 + lambda)).value;
            let before = if tilt == 0.0 { 0.0 } else { cumulant(tilt) };
            let exact = (cumulant(tilt + mu) - before).exp();
            assert!(
                (mean - exact).abs() < 4.5 * error,
                "{k} {direction:?}: {mean} {exact} ± {error}"
            );
        }
    }

    #[test]
    fn few_draws_need_the_exact_decision() {
        let mut moments = moments(16, 0.01, 1.0);
        let table = LossTable::new(&mut moments, Direction::Remove, 0.0, 10, &Unwatched).unwrap();
        let mut words = Xoshiro256PlusPlus::seed_from_u64(1);
        let undecided = (0..10_000).filter(|_| {
            let word = words.next_u64();
            accept_bits(word) >= table.certain[table.alias.cell_of(word) as usize]
        });
        assert!(undecided.count() < 500);
    }

    #[test]
    fn acceptance_probabilities_are_at_most_1_and_not_below_their_lower_bounds() {
        for (k, q, sigma, direction, tilt) in [
            (1, 0.1, 1.0, Direction::Remove, 0.0),
            (16, 0.01, 2.0, Direction::Remove, 3.0),
            (8, 0.3, 0.7, Direction::Add, 5.0),
        ] {
            let mut moments = moments(k, q, sigma);
            let table = LossTable::new(&mut moments, direction, tilt, 10, &Unwatched).unwrap();
            let exponent = direction.ratio_exponent(1.0 + tilt);
            let mut highest = 0.0f64;
            for (cell, &certain) in table.exact.iter().zip(&table.certain) {
                for u in [-1.0, -0.6, 0.0, 0.3, 1.0] {
                    let x = cell.centre + cell.half_width * u;
                    let log_density = exponent * table.pair.log_ratio(x) + table.normal.log_density(x);
                    let probability = (log_density - cell.log_envelope).exp();
                    assert!(probability <= 1.0 + 1e-12, "{k} {direction:?} {x}: {probability}");
                    assert!(
                        f64::from(certain) <= 1024.0 * probability,
                        "{k} {direction:?} {x}: {certain}"
                    );
                    highest = highest.max(probability);
                }
            }
            // Some cell attains the envelope, so that a lower one would not be above the density.
            assert!(highest > 0.97, "{k} {direction:?}: {highest}");
        }
    }

    #[test]
    fn losses_are_within_their_error_and_their_mean_size() {
        for (k, q, sigma, direction) in [(4, 0.05, 1.0, Direction::Add), (8, 0.3, 0.7, Direction::Remove)] {
            let mut moments = moments(k, q, sigma);
            let table = LossTable::new(&mut moments, direction, 0.5, 10, &Unwatched).unwrap();
            assert!(table.loss_error <= LOSS_TOLERANCE.0);
            for (cell, exact) in table.exact.iter().enumerate() {
                let polynomial = &table.polynomials[cell];
                for u in [-0.9, -0.35, 0.5, 1.0] {
                    let loss = direction.sign() * table.pair.log_ratio(exact.centre + exact.half_width * u);
                    let error = (polynomial.at(u) - loss).abs();
                    assert!(
                        polynomial.is_unknown() || error <= table.loss_error,
                        "{k} {cell}: {error:e}"
                    );
                }
            }
            let mut rare = Xoshiro256PlusPlus::seed_from_u64(3);
            let (mut words, mut block) = (Lanes::from_rng(&mut rare), Block::new());
            let mut sum = 0.0;
            for _ in 0..400 {
                table.draw(&mut words, &mut rare, &mut block);
                sum += block.losses.iter().map(|loss| loss.abs()).sum::<f64>();
            }
            let mean = sum / (400.0 * BLOCK as f64);
            assert!(
                mean <= 1.01 * table.mean_size && table.mean_size < 1.1 * mean,
                "{mean} {}",
                table.mean_size
            );
        }
    }

    #[test]
    fn points_are_the_midpoints_of_equal_parts() {
        let spacing = 2.0 / f64::from(1u32 << POINT_BITS);
        assert_eq!(point_of(0), -1.0 + 0.5 * spacing);
        assert_eq!(point_of(u64::MAX), 1.0 - 0.5 * spacing);
        assert_eq!(accept_bits(u64::MAX), 1023);
    }
}
