//! Accounts of Rényi divergences, one for each example.

use crate::error::{Error, Result, require, require_noise_multiplier, require_sample_rate};
use crate::individual::norms::require_norms;
use crate::individual::rdp_table::{FLOOR, LANES, MARGIN, Piece, RdpTable, Row, interval_of};
use crate::locks::{ForkLock, Renewable};
use crate::renyi::{GaussianPair, require_orders};
use crate::step::{Direction, GroupLaw};
use crate::stopping::carried;
use crate::threads::in_pool;
use rayon::prelude::*;
use std::sync::Arc;

/// Number of examples that one task handles.
const BLOCK: usize = 2048;
/// Limits of the w that are tabulated.
const LIMITS: (f64, f64) = (1e-4, 1e14);
/// Relative amount by which certified divergences are raised for the roundings of 10⁵ additions: what [`MARGIN`] leaves for them.
const ROOM_FOR_ADDITIONS: f64 = 2e-11;
/// Number of tables in the cache.
const CACHED: usize = 8;

/// Rényi divergences of one record's step at sample rate q, for any norm and noise: tables that grow as they are asked.
///
/// # Example
/// ```
/// use hockeystick::individual::StepRdp;
/// let step = StepRdp::new(0.01, &[2.0, 8.0])?;
/// let mut accounts = [0.0; 4];
/// step.accumulate(&mut accounts, &[1.0, 0.5], 2.0, 100.0)?;
/// // D_2 = log(1 + q²(e^{1/σ²} − 1)) at full norm
/// assert!((accounts[0] / (100.0 * (1e-4 * 0.25f64.exp_m1()).ln_1p()) - 1.0).abs() < 1e-10);
/// # Ok::<(), hockeystick::Error>(())
/// ```
#[derive(Debug)]
pub struct StepRdp {
    sample_rate: f64,
    orders: Vec<f64>,
    table: ForkLock<RdpTable>,
}

impl StepRdp {
    /// # Errors
    /// q outside [0, 1], an order outside (1, 10⁴], or no order.
    pub fn new(sample_rate: f64, orders: &[f64]) -> Result<Self> {
        require_sample_rate(sample_rate)?;
        require_orders(orders)?;
        Ok(Self {
            sample_rate,
            orders: orders.to_vec(),
            table: ForkLock::new(RdpTable::new(sample_rate, orders)),
        })
    }

    /// [`StepRdp::new`] with a table from a cache of the eight last used.
    ///
    /// # Errors
    /// As [`StepRdp::new`].
    pub fn cached(sample_rate: f64, orders: &[f64]) -> Result<Arc<Self>> {
        static TABLES: Renewable<Vec<Arc<StepRdp>>> = Renewable::empty();
        let ask = |tables: &mut Vec<Arc<Self>>| {
            tables.retain(|step| step.table.is_of_use());
            let known = tables
                .iter()
                .position(|step| step.sample_rate == sample_rate && step.orders == orders);
            let found = match known {
                Some(place) => tables.remove(place),
                None => Arc::new(Self::new(sample_rate, orders)?),
            };
            tables.truncate(CACHED - 1);
            tables.insert(0, found.clone());
            Ok(found)
        };
        TABLES.with(|| Ok(Vec::new()), ask)
    }

    /// Adds `steps` times D_α of a step to each example's account, for each order α: accounts are rows of `accounts`, one number
    /// an order. Norms are in units of the clipping norm.
    ///
    /// The number that is added is at least the divergence of the step, and at most 1 + 10⁻¹⁰ + 10⁻¹⁴·α·log(1/q) times that plus
    /// 10⁻²⁹⁰/(α − 1). The third term counts near the phase transition of large orders. Steps at sample rates below 1 whose σ/s is
    /// beyond the table and the engine's largest noise are charged as those with that noise.
    ///
    /// # Errors
    /// σ or a norm negative or not finite; sizes that do not fit. The accounts are then as they were.
    pub fn accumulate(
        &self,
        accounts: &mut [f64],
        norms: &[f64],
        noise_multiplier: f64,
        steps: f64,
    ) -> Result<()> {
        if accounts.len() != norms.len() * self.orders.len() {
            return Err(Error::Mismatch(format!(
                "rdp must have one row of {} orders for each of {} norms, got {} numbers",
                self.orders.len(),
                norms.len(),
                accounts.len()
            )));
        }
        let rows: Vec<&mut [f64]> = accounts.chunks_exact_mut(self.orders.len()).collect();
        self.accumulate_rows(rows, norms, noise_multiplier, steps)
    }

    /// Adds a step to accounts as [`StepRdp::accumulate`] does, in rows that need not be adjacent.
    ///
    /// # Errors
    /// As [`StepRdp::accumulate`]; not one row for each norm, or one of another length than there are orders.
    pub fn accumulate_rows(
        &self,
        mut rows: Vec<&mut [f64]>,
        norms: &[f64],
        noise_multiplier: f64,
        steps: f64,
    ) -> Result<()> {
        let prepared = self.prepared(norms, noise_multiplier, steps)?;
        self.add(&mut rows, norms, &prepared)
    }

    /// Does the part of [`StepRdp::accumulate_rows`] that needs no account: all that takes long, may fail or may be interrupted.
    ///
    /// # Errors
    /// σ, a norm or the number of steps negative or not finite.
    pub fn prepared(&self, norms: &[f64], noise_multiplier: f64, steps: f64) -> Result<Prepared> {
        require_noise_multiplier(noise_multiplier)?;
        require_norms(norms)?;
        require(steps >= 0.0 && steps.is_finite(), "steps", steps, "in [0, inf)")?;
        let mut prepared = Prepared {
            noise_multiplier,
            steps,
            direct: Vec::new(),
        };
        if self.sample_rate == 0.0 || self.sample_rate == 1.0 || steps == 0.0 {
            return Ok(prepared);
        }
        let mut wanted: Vec<u32> = Vec::with_capacity(norms.len());
        let mut direct: Vec<u64> = Vec::new();
        for &norm in norms.iter().filter(|&&norm| norm > 0.0) {
            match interval(prepared.inverse_of(norm)) {
                Some(interval) => wanted.push(interval),
                None => direct.push(norm.to_bits()),
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        self.make_rows(&wanted)?;
        let unknown = self.table.read(|table| {
            wanted.retain(|&interval| table.row(interval).is_some_and(|row| row.iter().any(Piece::has_gaps)));
            wanted
        })?;
        if !unknown.is_empty() {
            let is_unknown = |&norm: &f64| {
                norm > 0.0
                    && interval(prepared.inverse_of(norm)).is_some_and(|i| unknown.binary_search(&i).is_ok())
            };
            direct.extend(norms.iter().copied().filter(is_unknown).map(f64::to_bits));
        }
        direct.sort_unstable();
        direct.dedup();
        let one = carried(|bits: u64| Ok((bits, self.without_table(f64::from_bits(bits), &prepared)?)));
        prepared.direct = in_pool(|| direct.into_par_iter().map(one).collect::<Result<_>>())?;
        Ok(prepared)
    }

    /// Adds a prepared step of these norms to accounts, in rows that need not be adjacent. It cannot be interrupted half-way.
    ///
    /// # Errors
    /// Not one row for each norm, or one of another length than there are orders: the accounts are then as they were. In a forked
    /// process, see [`Error::Forked`]. Norms that the step was not prepared for, after which some accounts may lack it.
    pub fn add(&self, rows: &mut [&mut [f64]], norms: &[f64], prepared: &Prepared) -> Result<()> {
        let orders = self.orders.len();
        if rows.len() != norms.len() || rows.iter().any(|row| row.len() != orders) {
            return Err(Error::Mismatch(format!(
                "accounts must be one row of {orders} orders for each of {} norms",
                norms.len()
            )));
        }
        if self.sample_rate == 0.0 || prepared.steps == 0.0 {
            return Ok(());
        }
        self.table.read(|table| {
            in_pool(|| {
                rows.par_chunks_mut(BLOCK)
                    .zip(norms.par_chunks(BLOCK))
                    .try_for_each(|(rows, norms)| self.add_block(table, rows, norms, prepared))
            })
        })?
    }

    fn add_block(
        &self,
        table: &RdpTable,
        rows: &mut [&mut [f64]],
        norms: &[f64],
        prepared: &Prepared,
    ) -> Result<()> {
        let arch = pulp::Arch::new();
        let mut order: Vec<(u64, usize)> = Vec::with_capacity(rows.len());
        for (i, &norm) in norms.iter().enumerate() {
            if norm == 0.0 {
                continue;
            }
            let w = prepared.inverse_of(norm);
            if self.sample_rate == 1.0 {
                self.add_gaussian(rows[i], norm, prepared);
            } else if interval(w).is_some() {
                order.push((w.to_bits(), i));
            } else {
                prepared.add_direct(rows[i], norm)?;
            }
        }
        // Sorted by the rows of the table, so that each stays in the nearest cache. Equal norms are evaluated once.
        order.sort_unstable();
        let mut values = Vec::new();
        for run in order.chunk_by(|a, b| interval_of(f64::from_bits(a.0)) == interval_of(f64::from_bits(b.0))) {
            let Some(pieces) = table.row(interval_of(f64::from_bits(run[0].0))) else {
                return Err(Error::Internal);
            };
            let known = arch.dispatch(Add {
                pieces,
                rows: &mut *rows,
                run,
                steps: prepared.steps,
                values: &mut values,
            });
            if !known {
                for &(_, i) in run {
                    prepared.add_direct(rows[i], norms[i])?;
                }
            }
        }
        Ok(())
    }

    /// Makes the rows of the table for these intervals.
    fn make_rows(&self, wanted: &[u32]) -> Result<()> {
        let (missing, groups, made) = self.table.read(|table| {
            let (missing, groups) = (table.missing(wanted), table.groups());
            let make = carried(|i: usize| table.make(missing[i / groups], i % groups));
            let made: Vec<Piece> = in_pool(|| (0..missing.len() * groups).into_par_iter().map(make).collect());
            (missing, groups, made)
        })?;
        if missing.is_empty() {
            return Ok(());
        }
        self.table.write(|table| {
            let mut made = made.into_iter();
            for interval in missing {
                table.insert(interval, made.by_ref().take(groups).collect());
            }
        })
    }

    /// D of the orders that have no polynomial at this norm; 0 for the others, whose D is in the table.
    fn without_table(&self, norm: f64, prepared: &Prepared) -> Result<Vec<f64>> {
        let w = prepared.inverse_of(norm);
        let Some(interval) = interval(w) else {
            return self.divergences(&self.orders, norm, prepared.noise_multiplier);
        };
        let known = self.table.read(|table| {
            let row = table.row(interval)?;
            Some(row.iter().map(|piece| piece.value(w).is_some()).collect::<Vec<bool>>())
        })?;
        // Rows are made before they are asked for, and never taken back.
        let known = known.ok_or(Error::Internal)?;
        let mut values = Vec::with_capacity(self.orders.len());
        for (orders, known) in self.orders.chunks(LANES).zip(known) {
            if known {
                values.extend(orders.iter().map(|_| 0.0));
            } else {
                values.extend(self.divergences(orders, norm, prepared.noise_multiplier)?);
            }
        }
        Ok(values)
    }

    /// D of these orders without a table.
    fn divergences(&self, orders: &[f64], norm: f64, noise_multiplier: f64) -> Result<Vec<f64>> {
        let law = GroupLaw::binomial(1, self.sample_rate)?;
        // Noise in units of the norm, rounded down: D falls with it.
        let noise = (noise_multiplier / norm).next_down().max(0.0);
        let mut step = GaussianPair::new(law, noise)?;
        let raised = |&order: &f64| {
            let found = step.of_order(order, Direction::Remove);
            let value = found.value * (1.0 + MARGIN);
            // The certified bound is above that where exponents nearly cancel, as near the phase transition of large orders, and has
            // to leave as much for the roundings of additions. Divergences below the floor need no bound but that.
            let upper = if found.value > FLOOR {
                found.upper * (1.0 + ROOM_FOR_ADDITIONS)
            } else {
                0.0
            };
            value.max(upper) + FLOOR
        };
        Ok(orders.iter().map(raised).collect())
    }

    /// Adds the steps of an example that is in every batch.
    fn add_gaussian(&self, row: &mut [f64], norm: f64, prepared: &Prepared) {
        // Seven roundings of half an ε, those of the products below among them; squares that underflow are below the floor.
        let half = 0.5 * (norm / prepared.noise_multiplier).powi(2) * (1.0 + 4.0 * f64::EPSILON);
        for (account, order) in row.iter_mut().zip(&self.orders) {
            *account = (*account + prepared.steps * (order * half + FLOOR)).next_up();
        }
    }
}

/// A step of given norms that is ready to be added, see [`StepRdp::prepared`].
#[derive(Debug)]
pub struct Prepared {
    noise_multiplier: f64,
    steps: f64,
    /// Norms, as bits and sorted by them, with D of each order that no table has for them.
    direct: Vec<(u64, Vec<f64>)>,
}

impl Prepared {
    /// w = (σ/s)², at which the table is evaluated, rounded down: D falls with w, at large orders by 10⁵ times as much in relative
    /// terms. The square of the quotient is off by up to three halves of ε, and the last product by one half.
    fn inverse_of(&self, norm: f64) -> f64 {
        (self.noise_multiplier / norm).powi(2) * (1.0 - 2.0 * f64::EPSILON)
    }

    /// Adds the steps of a norm that has no row in the table, or gaps in it.
    fn add_direct(&self, row: &mut [f64], norm: f64) -> Result<()> {
        let place = self.direct.binary_search_by_key(&norm.to_bits(), |(bits, _)| *bits);
        let place = place.map_err(|_| Error::Mismatch("the step was prepared for other norms".into()))?;
        for (account, value) in row.iter_mut().zip(&self.direct[place].1) {
            *account += self.steps * value;
        }
        Ok(())
    }
}

/// The interval of the table in which w lies, if it is tabulated.
fn interval(w: f64) -> Option<u32> {
    (w > LIMITS.0 && w < LIMITS.1).then(|| interval_of(w))
}

/// Adds the steps of examples on one interval to their accounts, which `pulp` compiles for several instruction sets. False if a
/// piece is unknown.
struct Add<'a, 'b> {
    pieces: &'a Row,
    rows: &'a mut [&'b mut [f64]],
    /// w, as bits, and the place of each example.
    run: &'a [(u64, usize)],
    steps: f64,
    values: &'a mut Vec<[f64; LANES]>,
}

impl pulp::NullaryFnOnce for Add<'_, '_> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let mut known = true;
        let mut latest = None;
        for &(bits, i) in self.run {
            if latest != Some(bits) {
                latest = Some(bits);
                self.values.clear();
                for piece in self.pieces {
                    let mut values = piece.value(f64::from_bits(bits)).unwrap_or_else(|| {
                        known = false;
                        [0.0; LANES]
                    });
                    for value in &mut values {
                        *value *= self.steps;
                    }
                    self.values.push(values);
                }
            }
            for (accounts, values) in self.rows[i].chunks_mut(LANES).zip(&*self.values) {
                if let Ok(accounts) = <&mut [f64; LANES]>::try_from(&mut *accounts) {
                    for lane in 0..LANES {
                        accounts[lane] += values[lane];
                    }
                } else {
                    for (account, value) in accounts.iter_mut().zip(values) {
                        *account += value;
                    }
                }
            }
        }
        known
    }
}

#[cfg(test)]
mod tests;
