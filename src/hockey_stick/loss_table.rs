//! Exact draws of the privacy loss of one step, under a tilted law, at a cost that does not grow with the
//! group.
//!
//! The tilted law has density f(x) ∝ N(x; 0, σ²)·r(x)^p. The line is cut into cells so short that, on each,
//! the loss is a polynomial of degree 7 to 1e-13 and f varies by a few per cent. A draw
//!
//! 1. picks a cell with probability π (alias method, probabilities in units of 2^-28),
//! 2. picks a point uniformly in it, and
//! 3. accepts it with probability f(x)/(c·π/width), where c is the largest value of sup f·width/π:
//!    almost always decided by a lower bound on f over the cell, else by f itself.
//!
//! Accepted points have density f exactly, whatever the rounding of π. One 64-bit word gives the cell (28
//! bits), the first 10 bits of the acceptance and the point (26 bits, midpoints of 2^26 parts of the cell:
//! by the midpoint rule the mean of a smooth function moves by less than 2^-52·(its variation in the cell)).

use super::loss_polynomial::LossPolynomial;
use crate::error::{Error, Result};
use crate::pair::line::{Line, Normal};
use crate::pair::moment::{Integrand, Moments};
use crate::pair::{Direction, MixturePair};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

/// Bound wanted on the error of a loss.
const LOSS_TOLERANCE: f64 = 1e-13;
/// The density varies by at most this factor (as a logarithm) in a cell.
const LOG_VARIATION: f64 = 1.0 / 24.0;
/// Cells at most: 64 MB of polynomials.
const MAX_CELLS: usize = 1 << 20;
/// Part of the tilted law that may lie outside the table.
const OUTSIDE_TABLE: f64 = 1e-18;

/// Bits of a word that pick the cell, that decide on acceptance, and that place the point.
const CELL_BITS: u32 = 28;
const ACCEPT_BITS: u32 = 10;
const POINT_BITS: u32 = 64 - CELL_BITS - ACCEPT_BITS;

/// A slot of the alias table: coins below `threshold` keep the slot's own cell.
#[derive(Debug, Clone, Copy)]
struct Slot {
    threshold: u32,
    other: u32,
}

/// What the rare exact decision on acceptance needs.
#[derive(Debug, Clone, Copy)]
struct Exact {
    centre: f64,
    half_width: f64,
    log_envelope: f64,
}

/// Draws of one step's loss under the law tilted by e^{λ·loss}.
#[derive(Debug)]
pub(super) struct LossTable {
    slots: Vec<Slot>,
    slot_bits: u32,
    polynomials: Vec<LossPolynomial>,
    /// Accept at once below this, in units of 2^-10.
    surely: Vec<u32>,
    exact: Vec<Exact>,
    normal: Normal,
    /// sign·p: log f = `power`·loss + log N(x; 0, σ²).
    power: f64,
    /// log E_P[e^{λ·loss}] and an upper bound on it.
    pub(super) log_moment: (f64, f64),
    /// Bound on the error of a drawn loss.
    pub(super) loss_error: f64,
    /// Bound on the probability, per step, of what cannot be drawn, and on the effect of midpoints.
    pub(super) missing: f64,
}

/// A cell under construction.
struct Cell {
    polynomial: LossPolynomial,
    centre: f64,
    half_width: f64,
    log_highest: f64,
    log_lowest: f64,
}

impl LossTable {
    /// The table of one pair in one direction, tilted by e^{λ·loss} with λ ≥ 0.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the law needs more than a million cells (σ below 0.05 with thousands of
    /// likely shifts).
    pub(super) fn new(moments: &mut Moments, direction: Direction, tilt: f64) -> Result<Self> {
        let sign = direction.sign();
        let exponent = direction.ratio_exponent(1.0 + tilt);
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
            scratch: Vec::new(),
            cells: Vec::new(),
            loss_error: 0.0,
        };
        let (low, high) = integral.support;
        builder.cover(0.5 * (low + high), 0.5 * (high - low))?;
        let Builder { cells, loss_error, .. } = builder;

        let counts = proposal_counts(&cells);
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
                let share = (cell.log_lowest - exact.log_envelope).exp();
                (share * f64::from(1u32 << ACCEPT_BITS) * (1.0 - 1e-9)) as u32
            })
            .collect();
        let slot_bits = cells.len().next_power_of_two().trailing_zeros();
        Ok(Self {
            slots: alias_slots(&counts, slot_bits),
            slot_bits,
            polynomials: cells.iter().map(|cell| cell.polynomial).collect(),
            surely,
            exact,
            normal,
            power: sign * exponent,
            log_moment,
            loss_error,
            missing: integral.left_out + f64::EPSILON,
        })
    }

    /// One draw of the loss.
    #[inline(always)]
    pub(super) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> f64 {
        loop {
            let word = random.next_u64();
            let low = (word as u32) & ((1 << CELL_BITS) - 1);
            let slot_index = low & ((1 << self.slot_bits) - 1);
            let slot = self.slots[slot_index as usize];
            let coin = low >> self.slot_bits;
            let cell = if coin < slot.threshold { slot_index } else { slot.other } as usize;
            let part = (word >> (CELL_BITS + ACCEPT_BITS)) as f64 + 0.5;
            let u = part * (2.0 / (1u64 << POINT_BITS) as f64) - 1.0;
            let loss = self.polynomials[cell].at(u);
            let accept = (word >> CELL_BITS) as u32 & ((1 << ACCEPT_BITS) - 1);
            if accept < self.surely[cell] || self.decide(cell, u, loss, accept, random) {
                return loss;
            }
        }
    }

    /// Acceptance by the density itself: `accept` and a second word make a 63-bit uniform number.
    #[cold]
    fn decide(&self, cell: usize, u: f64, loss: f64, accept: u32, random: &mut Xoshiro256PlusPlus) -> bool {
        let Exact {
            centre,
            half_width,
            log_envelope,
        } = self.exact[cell];
        let rest = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let uniform = (f64::from(accept) + rest) / f64::from(1u32 << ACCEPT_BITS);
        let log_density = self.power * loss + self.normal.log_density(centre + half_width * u);
        uniform < (log_density - log_envelope).exp()
    }
}

/// Cuts the line into cells.
struct Builder<'a> {
    pair: &'a MixturePair,
    normal: Normal,
    exponent: f64,
    sign: f64,
    scratch: Vec<f64>,
    cells: Vec<Cell>,
    loss_error: f64,
}

impl Builder<'_> {
    /// Covers an interval with cells, halving it until one cell will do.
    fn cover(&mut self, centre: f64, half_width: f64) -> Result<()> {
        if self.cells.len() > MAX_CELLS {
            return Err(Error::Unreachable(format!(
                "noise_multiplier {} is too small for Monte Carlo with so many likely shifts: \
                 the table of the privacy loss would exceed {MAX_CELLS} cells",
                self.pair.noise_multiplier()
            )));
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
        if log_highest - log_lowest > LOG_VARIATION.max(resolution) {
            return false;
        }
        let Some((polynomial, error)) = LossPolynomial::interpolate(
            self.pair,
            centre,
            half_width,
            self.sign,
            LOSS_TOLERANCE,
            &mut self.scratch,
        ) else {
            return false;
        };
        self.loss_error = self.loss_error.max(error);
        self.cells.push(Cell {
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

/// Vose's alias method in integers: `counts` sum to 2^28, every one of 2^`slot_bits` slots holds an equal share.
fn alias_slots(counts: &[u32], slot_bits: u32) -> Vec<Slot> {
    let size = 1usize << slot_bits;
    let share = 1u32 << (CELL_BITS - slot_bits);
    let mut left: Vec<u32> = counts.to_vec();
    left.resize(size, 0);
    let mut slots: Vec<Slot> = (0..size as u32)
        .map(|other| Slot {
            threshold: share,
            other,
        })
        .collect();
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..size).partition(|&i| left[i] < share);
    while let (Some(&giver), Some(taker)) = (rich.last(), poor.pop()) {
        slots[taker] = Slot {
            threshold: left[taker],
            other: giver as u32,
        };
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
    use crate::pair::GroupLaw;
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
            got[i] += slot.threshold;
            got[slot.other as usize] += share - slot.threshold;
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
            let table = LossTable::new(&mut moments, direction, tilt).unwrap();
            let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
            let mu = 0.5;
            let draws = 2_000_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..draws {
                let value = (mu * table.draw(&mut random)).exp();
                sum += value;
                squares += value * value;
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
    fn few_draws_are_rejected() {
        let mut moments = moments(16, 0.01, 1.0);
        let table = LossTable::new(&mut moments, Direction::Remove, 0.0).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut words = Xoshiro256PlusPlus::seed_from_u64(1);
        let draws = 100_000;
        for _ in 0..draws {
            table.draw(&mut random);
        }
        let mut used = 0;
        while words != random {
            words.next_u64();
            used += 1;
        }
        assert!(used < draws + draws / 20, "{used}");
    }
}
