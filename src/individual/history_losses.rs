//! The losses of examples from all norms that they had.
//!
//! E[e^{zS}] of an example is the product of F(z; v_t)^{n_t} over its different norms, n_t steps with each, and F is
//! interpolated in v (`cells`). That takes time in proportion to the different norms of an example, but nothing has to be known
//! of the zeros of F: it is certified for few steps and large excesses too.

use crate::approx::Approx;
use crate::individual::basis::{Terms, polynomials};
use crate::individual::cells::{Cell, CellOctave, HALVINGS, LineCell, RealCell};
use crate::individual::histories::{Histories, Steps};
use crate::individual::losses::{AccountLosses, Content, Frequencies, LogPoint};
use crate::individual::plans::{CumulantGrid, LINES, line_at};
use crate::threads::in_pool;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Factors that are multiplied before logarithms are taken. Each has a modulus with its error of at least 1e-17, so that twelve
/// stay above 1e-204; the product of twenty could underflow.
const FACTORS: usize = 12;

/// Index of a sample rate, and octave of v.
type Key = (u16, i16);

/// Real moments of one octave: the cells that are needed, for each range of lines with equal halvings.
#[derive(Debug)]
struct RealOctave {
    cells: CellOctave,
    ranges: Vec<RealRange>,
}

/// Real moments on some lines.
#[derive(Debug)]
struct RealRange {
    halvings: u32,
    lines: Range<usize>,
    cells: FxHashMap<Cell, Vec<RealCell>>,
}

/// The losses of histories, with the tables of the cells that hold their steps.
pub(crate) struct HistoryLosses<'a> {
    histories: &'a Histories,
    octaves: [FxHashMap<Key, RealOctave>; 2],
}

impl RealOctave {
    fn new(cells: CellOctave, parts: &[f64]) -> Self {
        let mut ranges: Vec<(u32, Range<usize>)> = Vec::new();
        for line in 0..cells.lines() {
            let halvings = cells.halvings(line);
            match ranges.last_mut() {
                Some((known, range)) if *known == halvings => range.end = line + 1,
                _ => ranges.push((halvings, line..line + 1)),
            }
        }
        let tables = ranges.into_iter().map(|(halvings, lines)| {
            let moments = |cell| (cell, cells.real(cell, lines.clone()));
            RealRange {
                halvings,
                cells: needed(parts, halvings).into_iter().map(moments).collect(),
                lines,
            }
        });
        let ranges = tables.collect();
        Self { cells, ranges }
    }
}

/// The cells that hold these parts of an octave.
fn needed(parts: &[f64], halvings: u32) -> Vec<Cell> {
    let mut cells: Vec<Cell> = parts.iter().map(|&part| Cell::of(part, halvings).0).collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// The places of the steps of some examples in their octaves, rounded to a sixteenth.
fn parts(histories: &Histories, members: &[usize]) -> Vec<(Key, Vec<f64>)> {
    let mut found: FxHashMap<Key, [bool; 16]> = FxHashMap::default();
    for &i in members {
        for steps in histories.history(i).steps() {
            let seen = found.entry((steps.rate, steps.octave)).or_default();
            seen[(steps.part * 16.0) as usize & 15] = true;
        }
    }
    let mut found: Vec<(Key, Vec<f64>)> = found
        .into_iter()
        .map(|(key, seen)| {
            let parts = seen.iter().enumerate().filter(|(_, seen)| **seen);
            (key, parts.map(|(i, _)| (i as f64 + 0.5) / 16.0).collect())
        })
        .collect();
    found.sort_unstable_by_key(|(key, _)| *key);
    found
}

impl<'a> HistoryLosses<'a> {
    pub(crate) fn new(histories: &'a Histories) -> Self {
        let all: Vec<usize> = (0..histories.len()).collect();
        let parts = parts(histories, &all);
        let made: Vec<(Key, [RealOctave; 2])> = in_pool(|| {
            parts
                .par_iter()
                .map(|(key, parts)| {
                    let both = CellOctave::both(histories.rates()[usize::from(key.0)], i32::from(key.1));
                    (*key, both.map(|cells| RealOctave::new(cells, parts)))
                })
                .collect()
        });
        let mut octaves = [FxHashMap::default(), FxHashMap::default()];
        for (key, both) in made {
            for (octaves, octave) in octaves.iter_mut().zip(both) {
                octaves.insert(key, octave);
            }
        }
        Self { histories, octaves }
    }
}

impl AccountLosses for HistoryLosses<'_> {
    type Table = FxHashMap<(Key, Cell), LineCell>;

    const ATTEMPTS: &'static [(usize, f64)] = &[(0, 1.0), (0, 2.2), (2, 2.2)];

    fn content(&self, account: usize) -> Content {
        self.histories.history(account).content()
    }

    fn batch_probability(&self, account: usize) -> f64 {
        let history = self.histories.history(account);
        history.batch_probability(self.histories.rates())
    }

    fn gaussian(&self, account: usize) -> f64 {
        self.histories.history(account).gaussian()
    }

    fn grid(&self, account: usize, side: usize) -> CumulantGrid {
        let history = self.histories.history(account);
        let mut values: Vec<Approx> = (0..LINES)
            .map(|k| {
                let c = line_at(k);
                let total = 0.5 * c * (c + 1.0) * history.gaussian();
                Approx::new(total, 8.0 * f64::EPSILON * total)
            })
            .collect();
        for steps in history.steps() {
            let Some(octave) = self.octaves[side].get(&(steps.rate, steps.octave)) else {
                values.clear();
                break;
            };
            values.truncate(octave.cells.lines());
            for range in &octave.ranges {
                let (cell, tau) = Cell::of(steps.part, range.halvings);
                let (Some(cells), at) = (range.cells.get(&cell), polynomials(tau)) else {
                    values.truncate(range.lines.start);
                    break;
                };
                for (value, cell) in values.iter_mut().skip(range.lines.start).zip(cells) {
                    let log = cell.log(&at);
                    value.value += steps.count * log.value;
                    value.error += steps.count * log.error + 2.0 * f64::EPSILON * value.value.abs();
                }
            }
        }
        let count = values.iter().take_while(|value| value.error.is_finite()).count();
        values.truncate(count);
        CumulantGrid {
            values,
            reaches: vec![f64::INFINITY; count],
        }
    }

    fn table(&self, accounts: &[usize], side: usize, frequencies: &Frequencies) -> Self::Table {
        let wanted: Vec<(Key, Cell)> = parts(self.histories, accounts)
            .into_iter()
            .filter_map(|(key, parts)| {
                let octave = &self.octaves[side].get(&key)?.cells;
                let halvings = (frequencies.line < octave.lines()).then(|| octave.halvings(frequencies.line))?;
                Some(needed(&parts, halvings).into_iter().map(move |cell| (key, cell)))
            })
            .flatten()
            .collect();
        let made: Vec<((Key, Cell), LineCell)> = in_pool(|| {
            wanted
                .into_par_iter()
                .filter_map(|(key, cell)| {
                    let octave = &self.octaves[side].get(&key)?.cells;
                    Some(((key, cell), octave.line(cell, frequencies)))
                })
                .collect()
        });
        made.into_iter().collect()
    }

    fn log_decay(&self, account: usize, table: &Self::Table, place: usize) -> Option<f64> {
        let mut total = 0.0;
        for steps in self.histories.history(account).steps() {
            let (line, at) = find(table, steps)?;
            total += steps.count * line.log_decay(&at, steps.v, place)?;
        }
        Some(total)
    }

    fn points(&self, account: usize, table: &Self::Table, count: usize) -> Vec<LogPoint> {
        let mut steps = self.histories.history(account).steps().to_vec();
        // Steps with equal counts are multiplied before one logarithm is taken.
        steps.sort_by(|a, b| a.count.total_cmp(&b.count));
        let mut product = Product::new(count);
        let arch = pulp::Arch::new();
        let mut factors = 0;
        for (i, each) in steps.iter().enumerate() {
            let Some((line, at)) = find(table, each) else {
                let unknown = LogPoint {
                    modulus: f64::NEG_INFINITY,
                    ..LogPoint::default()
                };
                return vec![unknown; count];
            };
            arch.dispatch(Multiply {
                product: &mut product,
                line,
                at: &at,
            });
            factors += 1;
            let is_last_of_count = steps.get(i + 1).is_none_or(|next| next.count != each.count);
            if factors == FACTORS || is_last_of_count {
                product.take_power(each.count, factors);
                factors = 0;
            }
        }
        product.logs
    }
}

/// The cell of some steps and T_n(τ) in it. All cells of an octave on a line are halved alike.
fn find<'t>(table: &'t FxHashMap<(Key, Cell), LineCell>, steps: &Steps) -> Option<(&'t LineCell, Terms)> {
    let key = (steps.rate, steps.octave);
    HALVINGS.into_iter().find_map(|halvings| {
        let (cell, tau) = Cell::of(steps.part, halvings);
        Some((table.get(&(key, cell))?, polynomials(tau)))
    })
}

/// A product of F(c + iy; v)/F(c; v) at all frequencies y, and the logs of what was raised to powers so far.
#[derive(Debug)]
struct Product {
    real: Vec<f64>,
    imaginary: Vec<f64>,
    /// Product of the moduli plus their errors.
    largest: Vec<f64>,
    scratch: [Vec<f64>; 2],
    /// The product of the powers so far.
    logs: Vec<LogPoint>,
}

impl Product {
    fn new(last: usize) -> Self {
        Self {
            real: vec![1.0; last],
            imaginary: vec![0.0; last],
            largest: vec![1.0; last],
            scratch: [vec![0.0; last], vec![0.0; last]],
            logs: vec![LogPoint::default(); last],
        }
    }

    /// Multiplies the whole by this power of the product, and starts a new one.
    fn take_power(&mut self, count: f64, factors: usize) {
        // Products of `factors` complex numbers, logarithms, phases.
        let rounding = (8.0 * factors as f64 + 16.0) * f64::EPSILON * count;
        for (j, logs) in self.logs.iter_mut().enumerate() {
            let (real, imaginary) = (self.real[j], self.imaginary[j]);
            let log_modulus = count * 0.5 * (real * real + imaginary * imaginary).ln();
            let log_largest = (count * self.largest[j].ln()).max(log_modulus);
            logs.modulus += log_modulus;
            logs.upper += log_largest + rounding + 4.0 * f64::EPSILON * log_largest.abs();
            logs.phase += count * imaginary.atan2(real);
            self.real[j] = 1.0;
            self.imaginary[j] = 0.0;
            self.largest[j] = 1.0;
        }
    }
}

/// Multiplies a product by one cell's factors; `pulp` compiles it for several instruction sets.
struct Multiply<'a> {
    product: &'a mut Product,
    line: &'a LineCell,
    at: &'a Terms,
}

impl pulp::NullaryFnOnce for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { product, line, at } = self;
        let count = product.real.len();
        let [real, imaginary] = &mut product.scratch;
        real.fill(1.0);
        imaginary.fill(0.0);
        for ([reals, imaginaries], &at) in line.columns.iter().zip(at) {
            for ((sum, column), (other, others)) in real
                .iter_mut()
                .zip(&reals[..count])
                .zip(imaginary.iter_mut().zip(&imaginaries[..count]))
            {
                *sum += at * column;
                *other += at * others;
            }
        }
        let middle = 1.0 / line.base.middle(at);
        let upper = 1.0 / line.base.lower(at).max(0.0);
        for j in 0..count {
            let (a, b) = (real[j] * middle, imaginary[j] * middle);
            let modulus = (real[j] * real[j] + imaginary[j] * imaginary[j]).sqrt();
            product.largest[j] *= (modulus + line.errors[j]) * upper;
            let (c, d) = (product.real[j], product.imaginary[j]);
            product.real[j] = a * c - b * d;
            product.imaginary[j] = a * d + b * c;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::individual::direct::assert_loss_is;

    #[test]
    fn losses_of_histories_are_within_their_bounds() {
        let mut histories = Histories::new(1);
        histories.add(&[1.0], 1.0, 1.6, 0.1, 3.0).unwrap();
        histories.add(&[0.45], 1.0, 1.6, 0.02, 50.0).unwrap();
        histories.add(&[0.2], 1.0, 1.0, 0.3, 7.0).unwrap();
        let steps = [(0.1, 1.0 / 2.56, 3.0), (0.02, 0.2025 / 2.56, 50.0), (0.3, 0.04, 7.0)];
        assert_loss_is(&HistoryLosses::new(&histories), &steps, 12);
    }
}
