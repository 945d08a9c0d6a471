//! Exact draws of the privacy loss of one step, under a tilted law, at a cost that does not grow with the
//! group.
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
//! bits), the first 10 bits of the acceptance and the point (26 bits, midpoints of 2^26 parts of the cell:
//! by the midpoint rule the mean of a smooth function moves by less than 2^-52·(its variation in the cell)).

use crate::error::{Error, Result};
use crate::loss::MixturePair;
use crate::loss::line::{Line, Normal};
use crate::loss::moment::{Integrand, Moments};
use crate::monitor::Monitor;
use crate::simulation::polynomial::LossPolynomial;
use crate::simulation::random::{BLOCK, Words};
use crate::step::Direction;

/// Bound wanted on the error of a loss: at most this, and at least that.
const LOSS_TOLERANCE: (f64, f64) = (1e-9, 1e-13);
/// Bound wanted on the relative error of the law of all losses together.
const LAW_TOLERANCE: f64 = 1e-5;
/// The density varies by at most this factor (as a logarithm) in a cell at its peak: one draw in fifty needs
/// the exact decision, and the likely cells fit the first-level cache.
const LOG_VARIATION: f64 = 1.0 / 48.0;
/// How much more it may vary for every factor e below the peak, where draws are rare.
const VARIATION_GROWTH: f64 = 0.5 * LOG_VARIATION;
/// So far below the peak (a factor e^14) draws are too rare for a polynomial to pay: the loss is found from
/// the pair, and cells are as wide as a density that varies by a factor e allows.
const RARE: f64 = 14.0;
const RARE_VARIATION: f64 = 1.0;
/// Points at which the peak of the density is looked for.
const PEAK_POINTS: usize = 512;
/// Cells at most: 64 MB of polynomials.
const MAX_CELLS: usize = 1 << 20;
/// Part of the tilted law that may lie outside the table.
const OUTSIDE_TABLE: f64 = 1e-18;

/// Bits of a word that pick the cell, that decide on acceptance, and that place the point.
const CELL_BITS: u32 = 28;
const ACCEPT_BITS: u32 = 10;
const POINT_BITS: u32 = 64 - CELL_BITS - ACCEPT_BITS;

/// What the rare exact decision on acceptance needs.
#[derive(Debug, Clone, Copy)]
struct Exact {
    centre: f64,
    half_width: f64,
    log_envelope: f64,
}

/// Draws of one step's loss under the law tilted by e^{λ·loss}.
#[derive(Debug)]
pub(crate) struct LossTable {
    /// Alias table. The high bits of a slot are a threshold: coins below it keep the slot's own cell, others
    /// take the cell in the low bits. Their number is a power of two.
    slots: Vec<u32>,
    polynomials: Vec<LossPolynomial>,
    /// Accept at once below this, in units of 2^-10.
    surely: Vec<u16>,
    exact: Vec<Exact>,
    pair: MixturePair,
    normal: Normal,
    sign: f64,
    /// sign·p: log f = `power`·loss + log N(x; 0, σ²).
    power: f64,
    /// log E_P[e^{λ·loss}] and an upper bound on it.
    pub(crate) log_moment: (f64, f64),
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

/// A cell under construction.
struct Cell {
    polynomial: LossPolynomial,
    centre: f64,
    half_width: f64,
    log_highest: f64,
    log_lowest: f64,
    /// Bound on |loss|.
    size: f64,
}

impl LossTable {
    /// The table of one pair in one direction, tilted by e^{λ·loss} with λ ≥ 0, for a run of `steps` steps.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the law needs more than a million cells (σ below 0.05 with thousands of
    /// likely shifts); [`Error::Interrupted`].
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
            (0.0, 0.0)
        } else {
            moments.log_power_moment(exponent)
        };
        let integral = moments.integrate(exponent, Integrand::Power, OUTSIDE_TABLE);
        let pair = moments.pair();
        let normal = Normal::new(pair.noise_multiplier());
        let mut builder = Builder {
            pair,
            normal,
            exponent,
            sign,
            tolerance,
            monitor,
            scratch: Vec::new(),
            cells: Vec::new(),
            loss_error: 0.0,
            log_peak: f64::NEG_INFINITY,
        };
        let (low, high) = integral.support;
        builder.find_peak(low, high);
        builder.cover(0.5 * (low + high), 0.5 * (high - low))?;
        let Builder { cells, loss_error, .. } = builder;

        let counts = proposal_counts(&cells);
        let mean_size = cells
            .iter()
            .map(|cell| cell.size * (cell.log_highest + (2.0 * cell.half_width).ln() - integral.log_value).exp())
            .sum();
        let unit = -f64::from(CELL_BITS) * std::f64::consts::LN_2;
        let log_proposal = |cell: &Cell, count: u32| f64::from(count).ln() + unit - (2.0 * cell.half_width).ln();
        let log_constant = cells
            .iter()
            .zip(&counts)
            .map(|(cell, &count)| cell.log_highest - log_proposal(cell, count))
            .fold(f64::NEG_INFINITY, f64::max);
        let exact: Vec<Exact> = cells
            .iter()
            .zip(&counts)
            .map(|(cell, &count)| Exact {
                centre: cell.centre,
                half_width: cell.half_width,
                log_envelope: log_constant + log_proposal(cell, count),
            })
            .collect();
        let surely = cells
            .iter()
            .zip(&exact)
            .map(|(cell, exact)| {
                if cell.polynomial.is_unknown() {
                    return 0;
                }
                let share = (cell.log_lowest - exact.log_envelope).exp();
                (share * f64::from(1u32 << ACCEPT_BITS) * (1.0 - 1e-9)) as u16
            })
            .collect();
        let slot_bits = cells.len().next_power_of_two().trailing_zeros();
        Ok(Self {
            slots: alias_slots(&counts, slot_bits),
            polynomials: cells.iter().map(|cell| cell.polynomial).collect(),
            surely,
            exact,
            pair: pair.clone(),
            normal,
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
    /// Separate passes, so that the loads of many draws are under way at once and nothing is branched on that
    /// cannot be predicted; the few draws that are not surely accepted are settled at the end.
    #[inline(always)]
    fn draw(&self, words: &mut Words, block: &mut Block) {
        words.fill(&mut block.words);
        for (point, &word) in block.points.iter_mut().zip(&block.words) {
            *point = point_of(word);
        }
        for i in 0..BLOCK {
            let cell = self.cell_of(block.words[i]);
            block.cells[i] = cell;
            block.surely[i] = self.surely[cell as usize];
        }
        for i in 0..BLOCK {
            block.losses[i] = self.polynomials[block.cells[i] as usize].at(block.points[i]);
        }
        for i in 0..BLOCK {
            block.unsure[i] = u8::from(accept_bits(block.words[i]) >= block.surely[i]);
        }
        for group in 0..BLOCK / 8 {
            let mut flags = block
                .unsure
                .as_chunks::<8>()
                .0
                .get(group)
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
            while flags != 0 {
                let i = 8 * group + flags.trailing_zeros() as usize / 8;
                flags &= flags - 1;
                block.losses[i] = self.settle(block.words[i], words);
            }
        }
    }

    /// The cell that a word picks.
    #[inline(always)]
    fn cell_of(&self, word: u64) -> u32 {
        let low = word as u32 & ((1 << CELL_BITS) - 1);
        let mask = self.slots.len() - 1;
        let own = low as usize & mask;
        let slot = self.slots[own];
        // The coin, in the high bits of `low`, is below the threshold in those of the slot.
        let keep = low < slot & !(mask as u32);
        std::hint::select_unpredictable(keep, own as u32, slot & mask as u32)
    }

    /// Accepts a word's draw by the density itself, or draws again until one is accepted.
    #[cold]
    #[inline(never)]
    fn settle(&self, mut word: u64, words: &mut Words) -> f64 {
        loop {
            let cell = self.cell_of(word) as usize;
            let loss = self.loss_of(cell, word);
            if accept_bits(word) < self.surely[cell] || self.decide(cell, word, loss, words) {
                return loss;
            }
            word = words.next();
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
    fn decide(&self, cell: usize, word: u64, loss: f64, words: &mut Words) -> bool {
        let Exact {
            centre,
            half_width,
            log_envelope,
        } = self.exact[cell];
        let uniform = (f64::from(accept_bits(word)) + words.uniform()) / f64::from(1u32 << ACCEPT_BITS);
        let x = centre + half_width * point_of(word);
        let log_share = self.power * loss + self.normal.log_density(x) - log_envelope;
        // 1 + d ≤ e^d ≤ 1 + d + d²/2 for d ≤ 0, which all but always spares the exponential.
        let lower = 1.0 + log_share;
        uniform < lower || (uniform < lower + 0.5 * log_share * log_share && uniform < log_share.exp())
    }
}

fn too_little_noise(noise_multiplier: f64) -> Error {
    Error::Unreachable(format!(
        "noise_multiplier {noise_multiplier:?} is too small for Monte Carlo with such shifts: \
         the table of the privacy loss would exceed {MAX_CELLS} cells"
    ))
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
    surely: [u16; BLOCK],
    unsure: [u8; BLOCK],
    pub(crate) losses: [f64; BLOCK],
}

impl Block {
    pub(crate) fn new() -> Self {
        Self {
            words: [0; BLOCK],
            cells: [0; BLOCK],
            points: [0.0; BLOCK],
            surely: [0; BLOCK],
            unsure: [0; BLOCK],
            losses: [0.0; BLOCK],
        }
    }
}

/// One block of draws, which `pulp` compiles for several instruction sets; [`pulp::Arch`] picks one at run time.
pub(crate) struct Draw<'a> {
    pub(crate) table: &'a LossTable,
    pub(crate) words: &'a mut Words,
    pub(crate) block: &'a mut Block,
}

impl pulp::NullaryFnOnce for Draw<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.table.draw(self.words, self.block);
    }
}

/// Cuts the line into cells.
struct Builder<'a> {
    pair: &'a MixturePair,
    normal: Normal,
    exponent: f64,
    sign: f64,
    tolerance: f64,
    monitor: &'a dyn Monitor,
    scratch: Vec<f64>,
    cells: Vec<Cell>,
    loss_error: f64,
    /// Largest log density seen; a smaller value than the true one only makes cells smaller.
    log_peak: f64,
}

impl Builder<'_> {
    fn find_peak(&mut self, low: f64, high: f64) {
        for i in 0..=PEAK_POINTS {
            let x = low + (high - low) * i as f64 / PEAK_POINTS as f64;
            let log_density = self.exponent * self.pair.log_ratio(x) + self.normal.log_density(x);
            self.log_peak = self.log_peak.max(log_density);
        }
    }

    /// Covers an interval with cells, halving it until one cell will do.
    fn cover(&mut self, centre: f64, half_width: f64) -> Result<()> {
        if self.monitor.cancelled() {
            return Err(Error::Interrupted);
        }
        if self.cells.len() > MAX_CELLS {
            return Err(too_little_noise(self.pair.noise_multiplier()));
        }
        if !self.add(centre, half_width) {
            self.cover(centre - 0.5 * half_width, 0.5 * half_width)?;
            self.cover(centre + 0.5 * half_width, 0.5 * half_width)?;
        }
        Ok(())
    }

    /// Adds the interval as one cell if the loss and the density are tame on it.
    fn add(&mut self, centre: f64, half_width: f64) -> bool {
        let (left, right) = (centre - half_width, centre + half_width);
        let at = self.pair.surroundings(centre, half_width, 0.0, &mut self.scratch);
        let chord = Line {
            at: left,
            value: at.left.log_ratio,
            slope: (at.right.log_ratio - at.left.log_ratio) / (2.0 * half_width),
        };
        let tangent = Line {
            at: centre,
            value: at.centre.log_ratio,
            slope: at.centre.mean_shift / self.normal.variance,
        };
        // log r is convex: p·log r is below its chord for p > 0 and below its tangent for p < 0.
        let (above, below) = if self.exponent > 0.0 {
            (chord, tangent)
        } else {
            (tangent, chord)
        };
        let log_highest = self.normal.highest(above, self.exponent, left, right);
        let log_lowest = self.normal.lowest(below, self.exponent, left, right);
        // Far out both are so large that they carry rounding errors above the variation asked for.
        let resolution =
            64.0 * f64::EPSILON * (log_highest.abs() + at.centre.log_ratio.abs() * self.exponent.abs());
        let below_peak = (self.log_peak - log_highest).max(0.0);
        let is_rare = below_peak > RARE;
        let variation = if is_rare {
            RARE_VARIATION
        } else {
            LOG_VARIATION + VARIATION_GROWTH * below_peak
        };
        if log_highest - log_lowest > variation.max(resolution) {
            return false;
        }
        let found = if is_rare {
            Some((LossPolynomial::UNKNOWN, 0.0))
        } else {
            LossPolynomial::interpolate(
                self.pair,
                centre,
                half_width,
                self.sign,
                self.tolerance,
                &mut self.scratch,
            )
        };
        let Some((polynomial, error)) = found else {
            return false;
        };
        self.loss_error = self.loss_error.max(error);
        let (first, middle, last) = (at.left.log_ratio, at.centre.log_ratio, at.right.log_ratio);
        self.cells.push(Cell {
            size: middle.abs() + (first - middle).abs().max((last - middle).abs()) + at.gap,
            polynomial,
            centre,
            half_width,
            log_highest: log_highest + resolution,
            log_lowest: log_lowest - resolution,
        });
        true
    }
}

/// Proposal probabilities of the cells in units of 2^-28, each at least one unit, in proportion to their areas.
fn proposal_counts(cells: &[Cell]) -> Vec<u32> {
    let log_area = |cell: &Cell| cell.log_highest + cell.half_width.ln();
    let largest = cells.iter().map(log_area).fold(f64::NEG_INFINITY, f64::max);
    let areas: Vec<f64> = cells.iter().map(|cell| (log_area(cell) - largest).exp()).collect();
    let units = 1u32 << CELL_BITS;
    // Rounding up never makes a cell rarer than its area asks, which would inflate the envelope of all;
    // one unit a cell is set aside for it, and what is then left over goes to the likeliest cell.
    let scale = f64::from(units - cells.len() as u32) / areas.iter().sum::<f64>();
    let mut counts: Vec<u32> = areas.iter().map(|area| ((area * scale).ceil() as u32).max(1)).collect();
    let surplus = units.saturating_sub(counts.iter().sum());
    if let Some(likeliest) = counts.iter_mut().max() {
        *likeliest += surplus;
    }
    counts
}

/// Vose's alias method in integers: `counts` sum to 2^28, every one of 2^`slot_bits` slots holds an equal
/// share of it, packed as `threshold << slot_bits | other`. A slot that is one cell's alone has threshold 0.
fn alias_slots(counts: &[u32], slot_bits: u32) -> Vec<u32> {
    let size = 1usize << slot_bits;
    let share = 1u32 << (CELL_BITS - slot_bits);
    let mut left: Vec<u32> = counts.to_vec();
    left.resize(size, 0);
    let mut slots: Vec<u32> = (0..size as u32).collect();
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..size).partition(|&i| left[i] < share);
    while let (Some(&giver), Some(taker)) = (rich.last(), poor.pop()) {
        slots[taker] = (left[taker] << slot_bits) | giver as u32;
        left[giver] -= share - left[taker];
        if left[giver] < share {
            rich.pop();
            poor.push(giver);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Unwatched;
    use crate::step::GroupLaw;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn moments(k: u64, q: f64, sigma: f64) -> Moments {
        Moments::new(MixturePair::new(&GroupLaw::binomial(k, q).unwrap(), sigma).unwrap())
    }

    #[test]
    fn alias_slots_give_every_cell_its_share() {
        let mut counts = vec![1u32, 5, 1 << 20, 77];
        counts.push((1 << CELL_BITS) - counts.iter().sum::<u32>());
        let slots = alias_slots(&counts, 3);
        let share = 1u32 << (CELL_BITS - 3);
        let mut got = [0u32; 8];
        for (i, slot) in slots.iter().enumerate() {
            got[i] += slot >> 3;
            got[(slot & 7) as usize] += share - (slot >> 3);
        }
        assert_eq!(got[..5], counts[..]);
        assert_eq!(got[5..], [0, 0, 0]);
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
            let mut words = Words::new(Xoshiro256PlusPlus::seed_from_u64(7));
            let mu = 0.5;
            let (mut sum, mut squares, mut draws) = (0.0, 0.0, 0);
            let mut block = Block::new();
            for _ in 0..8000 {
                table.draw(&mut words, &mut block);
                draws += BLOCK as u32;
                for loss in &block.losses {
                    let value = (mu * loss).exp();
                    sum += value;
                    squares += value * value;
                }
            }
            let mean = sum / f64::from(draws);
            let error = ((squares / f64::from(draws) - mean * mean) / f64::from(draws)).sqrt();
            let mut cumulant = |lambda: f64| moments.log_power_moment(direction.ratio_exponent(1.0 + lambda)).0;
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
        let mut words = Words::new(Xoshiro256PlusPlus::seed_from_u64(1));
        let mut block = Block::new();
        table.draw(&mut words, &mut block);
        let unsure = (0..10_000).filter(|_| {
            let word = words.next();
            accept_bits(word) >= table.surely[table.cell_of(word) as usize]
        });
        assert!(unsure.count() < 500);
    }
}
