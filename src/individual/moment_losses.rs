//! The losses of accounts that hold moments of their norms.
//!
//! A(z) = Σ_t K(z; v_t) of an account is a scalar product of its moments with the coefficients of K (`basis`, `octaves`), so that
//! one set of coefficients serves all accounts on the same line.

use crate::approx::Approx;
use crate::individual::accounts::{Account, Accounts, Slot};
use crate::individual::basis::{product, size};
use crate::individual::losses::{AccountLosses, Content, Frequencies, LogPoint};
use crate::individual::octaves::{LineTerms, Octave, RealTerms};
use crate::individual::plans::{CumulantGrid, LINES, line_at};
use crate::step::Direction;
use crate::threads::in_pool;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Index of a sample rate, and octave of v.
type Key = (u16, i16);

/// Accounts and the coefficients of their octaves.
pub(crate) struct MomentLosses<'a> {
    accounts: &'a Accounts,
    tables: [Tables; 2],
}

/// Coefficients of one direction.
struct Tables {
    octaves: FxHashMap<Key, Octave>,
    real: FxHashMap<Key, Vec<RealTerms>>,
}

impl<'a> MomentLosses<'a> {
    pub(crate) fn new(accounts: &'a Accounts) -> Self {
        let all: Vec<usize> = (0..accounts.examples.len()).collect();
        let keys = keys(accounts, &all);
        Self {
            accounts,
            tables: Direction::BOTH.map(|direction| Tables::new(accounts, &keys, direction)),
        }
    }
}

/// Rates and octaves of some accounts.
fn keys(accounts: &Accounts, members: &[usize]) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for &i in members {
        for slot in &accounts.examples[i].slots {
            let key = (slot.rate, slot.octave);
            if let Err(place) = keys.binary_search(&key) {
                keys.insert(place, key);
            }
        }
    }
    keys
}

/// Bound on the rounding of a product of a slot's moments with coefficients of this Σ of moduli.
fn rounding(slot: &Slot, size: f64) -> f64 {
    f64::EPSILON * (32.0 + f64::from(slot.additions)) * slot.moments[0] * size
}

impl Tables {
    fn new(accounts: &Accounts, keys: &[Key], direction: Direction) -> Self {
        let made: Vec<(Key, Octave, Vec<RealTerms>)> = in_pool(|| {
            keys.par_iter()
                .map(|&key| {
                    let octave = Octave::new(accounts.rates[usize::from(key.0)], i32::from(key.1), direction);
                    let real = octave.real(&(0..LINES).map(line_at).collect::<Vec<f64>>());
                    (key, octave, real)
                })
                .collect()
        });
        let mut tables = Self {
            octaves: FxHashMap::default(),
            real: FxHashMap::default(),
        };
        for (key, octave, real) in made {
            tables.octaves.insert(key, octave);
            tables.real.insert(key, real);
        }
        tables
    }

    /// A(c) of an account on the grid.
    fn grid(&self, account: &Account) -> CumulantGrid {
        let rows: Vec<(&Slot, &Vec<RealTerms>)> = account
            .slots
            .iter()
            .filter_map(|slot| Some((slot, self.real.get(&(slot.rate, slot.octave))?)))
            .collect();
        let count = rows.iter().map(|(_, row)| row.len()).fold(LINES, usize::min);
        let value = |k: usize| {
            let c = line_at(k);
            let mut total = 0.5 * c * (c + 1.0) * account.gaussian;
            let mut error = 8.0 * f64::EPSILON * total;
            for (slot, row) in &rows {
                let terms = &row[k];
                total += product(&terms.value, &slot.moments);
                error += terms.error * slot.moments[0] + rounding(slot, terms.size);
            }
            Approx::new(total, error)
        };
        let reach = |k: usize| rows.iter().map(|(_, row)| row[k].reach).fold(f64::INFINITY, f64::min);
        CumulantGrid {
            values: (0..count).map(value).collect(),
            reaches: (0..count).map(reach).collect(),
        }
    }
}

impl AccountLosses for MomentLosses<'_> {
    type Table = FxHashMap<Key, LineTerms>;

    // Further left, coefficients are certified up to larger frequencies.
    const ATTEMPTS: &'static [(usize, f64)] = &[(0, 1.0), (2, 1.0), (4, 1.0), (6, 1.0)];

    fn content(&self, account: usize) -> Content {
        self.accounts.examples[account].content()
    }

    fn batch_probability(&self, account: usize) -> f64 {
        self.accounts.examples[account].batch_probability(&self.accounts.rates)
    }

    fn gaussian(&self, account: usize) -> f64 {
        self.accounts.examples[account].gaussian
    }

    fn grid(&self, account: usize, side: usize) -> CumulantGrid {
        self.tables[side].grid(&self.accounts.examples[account])
    }

    fn table(&self, accounts: &[usize], side: usize, frequencies: &Frequencies) -> Self::Table {
        let found: Vec<(Key, LineTerms)> = in_pool(|| {
            keys(self.accounts, accounts)
                .par_iter()
                .filter_map(|key| {
                    let octave = self.tables[side].octaves.get(key)?;
                    Some((*key, octave.line(frequencies)))
                })
                .collect()
        });
        found.into_iter().collect()
    }

    fn log_decay(&self, account: usize, table: &Self::Table, place: usize) -> Option<f64> {
        let mut total = 0.0;
        for slot in &self.accounts.examples[account].slots {
            let (terms, error) = table.get(&(slot.rate, slot.octave))?.decays.get(place)?;
            total += product(terms, &slot.moments) + error * slot.moments[0] + rounding(slot, size(terms));
        }
        Some(total)
    }

    fn points(&self, account: usize, table: &Self::Table, count: usize) -> Vec<LogPoint> {
        let mut sums = vec![[0.0; 3]; count];
        for slot in &self.accounts.examples[account].slots {
            if let Some(columns) = table.get(&(slot.rate, slot.octave)) {
                columns.add(&mut sums, slot);
            }
        }
        // Errors of log and phase together are at most as large as that of a complex logarithm.
        sums.iter()
            .map(|&[real, imaginary, error]| LogPoint {
                modulus: real,
                upper: real + error,
                phase: imaginary,
            })
            .collect()
    }
}

impl LineTerms {
    /// Adds a slot's part of the real part, the imaginary part and the error of log φ at each frequency.
    fn add(&self, sums: &mut [[f64; 3]], slot: &Slot) {
        for (sum, change) in sums.iter_mut().zip(&self.changes) {
            sum[0] += product(&change.real, &slot.moments);
            sum[1] += product(&change.imaginary, &slot.moments);
            sum[2] += change.error * slot.moments[0] + rounding(slot, change.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::individual::direct::assert_loss_is;

    #[test]
    fn losses_of_accounts_are_within_their_bounds() {
        let mut accounts = Accounts::new(1);
        accounts.add(&[1.0], 1.0, 1.6, 0.02, 30.0).unwrap();
        accounts.add(&[0.45], 1.0, 1.6, 0.02, 50.0).unwrap();
        accounts.add(&[0.2], 1.0, 1.0, 0.05, 70.0).unwrap();
        let steps = [
            (0.02, 1.0 / 2.56, 30.0),
            (0.02, 0.2025 / 2.56, 50.0),
            (0.05, 0.04, 70.0),
        ];
        assert_loss_is(&MomentLosses::new(&accounts), &steps, 12);
    }
}
