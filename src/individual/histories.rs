//! The losses of examples from all norms that they had.
//!
//! E[e^{zS}] of an example is the product of F(z; v_t)^{n_t} over its different norms, n_t steps with each, and F is interpolated in v
//! (`cells`). That takes time in proportion to the different norms of an example, but nothing has to be known of the zeros
//! of F: it is certified for few steps and large excesses too.

use crate::error::Result;
use crate::individual::accounts::{Kind, rate_index, require_step, with_gaussian_chance, with_gaussian_steps};
use crate::individual::basis::{Terms, octave_of, polynomials};
use crate::individual::cells::{Cell, CellOctave, LineCell, RealCell};
use crate::individual::epsilons::{Content, Heights, Losses};
use crate::individual::plans::{Grid, LINES};
use crate::threads::in_pool;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Factors that are multiplied before logarithms are taken: none is below 1e-17 with its error.
const FACTORS: usize = 12;

type Key = (u16, i16);

/// Steps in all up to which the exact engine is asked first (see `one_by_one`): after thirty different steps it takes a fifth of the
/// time that tables for fifty examples do, after a hundred as long.
const FEW_STEPS: f64 = 32.0;

/// Steps of one example at one sample rate and one norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Steps {
    pub(crate) count: f64,
    pub(crate) rate: u16,
    octave: i16,
    /// log₂(v/2^octave).
    part: f64,
    pub(crate) v: f64,
}

/// All steps of one example.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    gaussian: f64,
    telling: bool,
    steps: Vec<Steps>,
}

/// All steps of some examples.
#[derive(Debug, Clone, Default)]
pub struct Histories {
    rates: Vec<f64>,
    examples: Vec<History>,
}

impl Histories {
    /// Examples without any step.
    pub fn new(examples: usize) -> Self {
        Self {
            rates: Vec::new(),
            examples: vec![History::default(); examples],
        }
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.examples.len()
    }

    /// True without examples.
    pub fn is_empty(&self) -> bool {
        self.examples.is_empty()
    }

    /// Sample rates of all steps, each in (0, 1).
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// The steps of one example.
    pub(crate) fn history(&self, example: usize) -> &History {
        &self.examples[example]
    }

    /// A copy of some examples.
    pub(crate) fn taken(&self, members: &[usize]) -> Self {
        Self {
            rates: self.rates.clone(),
            examples: members.iter().map(|&member| self.examples[member].clone()).collect(),
        }
    }

    /// Adds steps as [`crate::individual::accounts::Accounts::add`] does.
    ///
    /// # Errors
    /// Values out of range, or a wrong number of shifts; the histories are then as they were.
    pub fn add(
        &mut self,
        shifts: &[f64],
        largest: f64,
        noise_multiplier: f64,
        sample_rate: f64,
        steps: f64,
    ) -> Result<()> {
        require_step(self.len(), shifts, noise_multiplier, sample_rate, steps)?;
        if sample_rate == 0.0 || steps == 0.0 {
            return Ok(());
        }
        let kind = Kind::new(largest, noise_multiplier);
        let rate = if sample_rate < 1.0 {
            Some(rate_index(&mut self.rates, sample_rate))
        } else {
            None
        };
        for (history, &shift) in self.examples.iter_mut().zip(shifts) {
            if shift == 0.0 {
                continue;
            }
            let v = kind.v(shift);
            match rate {
                _ if kind.is_telling => history.telling = true,
                Some(rate) => history.add(rate, v, steps),
                None => history.gaussian = with_gaussian_steps(history.gaussian, steps, v),
            }
        }
        Ok(())
    }
}

impl History {
    /// The steps at sample rates below 1.
    pub(crate) fn steps(&self) -> &[Steps] {
        &self.steps
    }

    /// Σ v of the Gaussian steps.
    pub(crate) fn gaussian(&self) -> f64 {
        self.gaussian
    }

    /// What is known beforehand.
    pub(crate) fn content(&self) -> Content {
        Content::of(self.telling, self.gaussian, self.steps.is_empty())
    }

    /// Σ qT, infinite after Gaussian steps.
    pub(crate) fn chance(&self, rates: &[f64]) -> f64 {
        let chance = |steps: &Steps| rates[usize::from(steps.rate)] * steps.count;
        with_gaussian_chance(self.gaussian, self.steps.iter().map(chance).sum())
    }

    /// Number of steps; all Gaussian ones together are one.
    pub(crate) fn count(&self) -> f64 {
        self.steps.iter().map(|steps| steps.count).sum::<f64>() + f64::from(u8::from(self.gaussian > 0.0))
    }

    /// True after so few steps that the exact engine is asked first.
    pub(crate) fn is_short(&self) -> bool {
        self.count() <= FEW_STEPS
    }

    /// Equal for equal histories alone.
    pub(crate) fn key(&self) -> Vec<u64> {
        let steps = self.steps.iter();
        let parts = steps.flat_map(|steps| [u64::from(steps.rate), steps.v.to_bits(), steps.count.to_bits()]);
        [self.gaussian.to_bits(), u64::from(self.telling)]
            .into_iter()
            .chain(parts)
            .collect()
    }

    /// Keeps steps sorted by rate and v, so that their order in time makes no difference.
    fn add(&mut self, rate: u16, v: f64, count: f64) {
        let place = self.steps.partition_point(|known| (known.rate, known.v) < (rate, v));
        if let Some(known) = self
            .steps
            .get_mut(place)
            .filter(|known| (known.rate, known.v) == (rate, v))
        {
            known.count += count;
            return;
        }
        let (octave, part) = octave_of(v);
        let steps = Steps {
            count,
            rate,
            octave: octave as i16,
            part,
            v,
        };
        self.steps.insert(place, steps);
    }
}

/// Real moments of one octave: for each range of lines with the same halvings, the cells that are needed.
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

/// Histories and the cells of their steps.
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

/// Where in their octaves the steps of some examples lie, to a sixteenth.
fn parts(histories: &Histories, members: &[usize]) -> Vec<(Key, Vec<f64>)> {
    let mut found: FxHashMap<Key, [bool; 16]> = FxHashMap::default();
    for &i in members {
        for steps in &histories.examples[i].steps {
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
                    let both = CellOctave::both(histories.rates[usize::from(key.0)], i32::from(key.1));
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

impl Losses for HistoryLosses<'_> {
    type Table = FxHashMap<(Key, Cell), LineCell>;

    const ATTEMPTS: &'static [(usize, f64)] = &[(0, 1.0), (0, 2.2), (2, 2.2)];

    fn content(&self, account: usize) -> Content {
        self.histories.examples[account].content()
    }

    fn chance(&self, account: usize) -> f64 {
        self.histories.examples[account].chance(&self.histories.rates)
    }

    fn gaussian(&self, account: usize) -> f64 {
        self.histories.examples[account].gaussian
    }

    fn grid(&self, account: usize, side: usize) -> Grid {
        let history = &self.histories.examples[account];
        let mut values: Vec<(f64, f64)> = (0..LINES)
            .map(|k| {
                let c = crate::individual::plans::line_at(k);
                let total = 0.5 * c * (c + 1.0) * history.gaussian;
                (total, 8.0 * f64::EPSILON * total)
            })
            .collect();
        for steps in &history.steps {
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
                    let (log, error) = cell.log(&at);
                    value.0 += steps.count * log;
                    value.1 += steps.count * error + 2.0 * f64::EPSILON * value.0.abs();
                }
            }
        }
        let count = values.iter().take_while(|(_, error)| error.is_finite()).count();
        values.truncate(count);
        Grid {
            values,
            reaches: vec![f64::INFINITY; count],
        }
    }

    fn table(&self, accounts: &[usize], side: usize, heights: &Heights) -> Self::Table {
        let wanted: Vec<(Key, Cell)> = parts(self.histories, accounts)
            .into_iter()
            .filter_map(|(key, parts)| {
                let octave = &self.octaves[side].get(&key)?.cells;
                let halvings = (heights.line < octave.lines()).then(|| octave.halvings(heights.line))?;
                Some(needed(&parts, halvings).into_iter().map(move |cell| (key, cell)))
            })
            .flatten()
            .collect();
        let made: Vec<((Key, Cell), LineCell)> = in_pool(|| {
            wanted
                .into_par_iter()
                .filter_map(|(key, cell)| {
                    let octave = &self.octaves[side].get(&key)?.cells;
                    Some((
                        (key, cell),
                        octave.line(heights.c, cell, heights.spacing, &heights.ends),
                    ))
                })
                .collect()
        });
        made.into_iter().collect()
    }

    fn log_decay(&self, account: usize, table: &Self::Table, place: usize) -> Option<f64> {
        let mut total = 0.0;
        for steps in &self.histories.examples[account].steps {
            let (line, at) = find(table, steps)?;
            total += steps.count * line.log_decay(&at, steps.v, place)?;
        }
        Some(total)
    }

    fn points(&self, account: usize, table: &Self::Table, last: usize) -> Vec<[f64; 3]> {
        let mut steps = self.histories.examples[account].steps.clone();
        // Steps with the same count share logarithms.
        steps.sort_by(|a, b| a.count.total_cmp(&b.count));
        let mut product = Product::new(last);
        let arch = pulp::Arch::new();
        let mut factors = 0;
        for (i, each) in steps.iter().enumerate() {
            let Some((line, at)) = find(table, each) else {
                return vec![[f64::NEG_INFINITY, 0.0, 0.0]; last];
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
    [0, 2, 4].into_iter().find_map(|halvings| {
        let (cell, tau) = Cell::of(steps.part, halvings);
        Some((table.get(&(key, cell))?, polynomials(tau)))
    })
}

/// A product of F(c + iy; v)/F(c; v) for all heights, and the logs of what was raised to powers so far.
#[derive(Debug)]
struct Product {
    real: Vec<f64>,
    imaginary: Vec<f64>,
    /// Product of the moduli with their errors.
    largest: Vec<f64>,
    scratch: [Vec<f64>; 2],
    /// Logs of the modulus and of it with its error, and the phase.
    logs: Vec<[f64; 3]>,
}

impl Product {
    fn new(last: usize) -> Self {
        Self {
            real: vec![1.0; last],
            imaginary: vec![0.0; last],
            largest: vec![1.0; last],
            scratch: [vec![0.0; last], vec![0.0; last]],
            logs: vec![[0.0; 3]; last],
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
            logs[0] += log_modulus;
            logs[1] += log_largest + rounding + 4.0 * f64::EPSILON * log_largest.abs();
            logs[2] += count * imaginary.atan2(real);
            self.real[j] = 1.0;
            self.imaginary[j] = 0.0;
            self.largest[j] = 1.0;
        }
    }
}

/// Multiplies a product by one cell's factors, which `pulp` compiles for several instruction sets.
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
        let most = 1.0 / line.base.least(at).max(0.0);
        for j in 0..count {
            let (a, b) = (real[j] * middle, imaginary[j] * middle);
            let modulus = (real[j] * real[j] + imaginary[j] * imaginary[j]).sqrt();
            product.largest[j] *= (modulus + line.errors[j]) * most;
            let (c, d) = (product.real[j], product.imaginary[j]);
            product.real[j] = a * c - b * d;
            product.imaginary[j] = a * d + b * c;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::individual::accounts::Accounts;
    use crate::individual::epsilons::{epsilons, epsilons_of_histories};
    use crate::monitor::Unwatched;

    /// Norms that shrink from 1 in some refreshes.
    fn shrinking(noise: f64, rate: f64, refreshes: usize, steps: f64) -> (Accounts, Histories) {
        let (mut accounts, mut histories) = (Accounts::new(5), Histories::new(5));
        for t in 0..refreshes {
            let norms: Vec<f64> = (0..5)
                .map(|i| (-f64::from(i) * t as f64 / refreshes as f64).exp())
                .collect();
            accounts.add(&norms, 1.0, noise, rate, steps).unwrap();
            histories.add(&norms, 1.0, noise, rate, steps).unwrap();
        }
        (accounts, histories)
    }

    #[test]
    fn both_ways_agree_where_both_are_certified() {
        let (accounts, histories) = shrinking(1.5, 0.02, 12, 200.0);
        let one = epsilons(&accounts, 1e-5, &Unwatched).unwrap();
        let other = epsilons_of_histories(&histories, 1e-5, &Unwatched).unwrap();
        for (one, other) in one.iter().zip(&other) {
            assert!(one.0 <= other.1 && other.0 <= one.1, "{one:?} {other:?}");
            assert!(other.1 - other.0 < 1e-9 * other.1, "{other:?}");
        }
    }

    #[test]
    fn few_steps_are_certified() {
        for (noise, rate, refreshes, steps) in [(1.0, 0.1, 8, 12.0), (0.7, 0.05, 10, 5.0), (2.0, 0.3, 4, 10.0)] {
            let (_, histories) = shrinking(noise, rate, refreshes, steps);
            for found in epsilons_of_histories(&histories, 1e-5, &Unwatched).unwrap() {
                assert!(found.1 - found.0 < 1e-9 * found.1, "σ {noise} q {rate} {found:?}");
            }
        }
    }

    #[test]
    fn the_order_of_steps_makes_no_difference() {
        let (mut one, mut other) = (Histories::new(1), Histories::new(1));
        let norms = [0.9, 0.2, 0.5, 0.2];
        for (i, norm) in norms.into_iter().enumerate() {
            one.add(&[norm], 1.0, 1.0, 0.1, 20.0).unwrap();
            other.add(&[norms[3 - i]], 1.0, 1.0, 0.1, 20.0).unwrap();
        }
        let of = |histories: &Histories| epsilons_of_histories(histories, 1e-5, &Unwatched).unwrap();
        assert_eq!(of(&one), of(&other));
    }

    #[test]
    fn a_failed_step_changes_nothing() {
        let mut histories = Histories::new(2);
        assert!(histories.add(&[1.0], 1.0, 1.0, 0.1, 1.0).is_err());
        assert!(histories.add(&[1.0, f64::NAN], 1.0, 1.0, 0.1, 1.0).is_err());
        assert!(histories.examples.iter().all(|history| history.steps.is_empty()));
    }
}
