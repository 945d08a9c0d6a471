//! The grid, the tilt and the two laws of one step on it: the types that the files of this room share.

use crate::special::log_space::LogSum;
use std::sync::atomic::{AtomicU64, Ordering};

/// Relative error of the mass of a half-cell under P, and of that under Q: w^{2n}e^w(n!)⁴/((2n+1)(2n)!³) for n nodes and the widths w of
/// `chunk` (`docs/theory/grid.md`, Proposition 4), which is 9.9e-14 for 3 nodes and 9.1e-14 for 6. Half of it would not cover either.
pub(crate) const QUADRATURE: f64 = 1e-13;
/// Grid intervals that one task sweeps, and that share one resolution.
pub(crate) const CHUNK: i64 = 256;
/// Coarsest resolution: 2^this grid intervals in one cell, so that every chunk is a whole number of cells.
pub(crate) const COARSEST: i32 = 8;
/// Spacing above which most of Q's part of a cell lies in a corner of it, where quadrature would miss it.
const MAX_FINE_SPACING: f64 = 1.0;
/// Tilted masses below e^this may have underflowed to 0.
const MIN_LOG_MASS: f64 = -670.0;
/// Powers of one factor that are tabulated at once, and the logarithm of the largest of them: no mass above
/// e^[`MIN_LOG_MASS`] underflows when it is multiplied.
const MAX_POWERS: f64 = 64.0;
const MAX_LOG_POWER: f64 = 30.0;

/// One law on the grid, tilted: masses times e^{c·loss − scale}.
#[derive(Debug, Clone, Default)]
pub(crate) struct GridLaw {
    /// Index of the first mass.
    pub(crate) first: i64,
    /// Tilted masses.
    pub(crate) masses: Vec<f64>,
    /// Loss of index 0.
    pub(crate) origin: f64,
}

/// Both laws of one step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    pub(crate) upper: GridLaw,
    pub(crate) lower: GridLaw,
    /// log of what the masses are divided by.
    pub(crate) log_scale: f64,
    /// Bound on the error of a loss: rounding, and boundaries out of place.
    pub(crate) loss_error: f64,
    /// Bound on the error of all masses together (tilted): quadrature, rounding, what lies outside the support.
    pub(crate) mass_error: f64,
}

/// Masses of consecutive half-cells, of which the two laws are made.
#[derive(Debug, Default)]
pub(crate) struct HalfCells {
    /// Index of the first grid point.
    pub(crate) first: i64,
    /// Masses of the upper law.
    pub(crate) upper: Vec<f64>,
    /// p, the P-mass of the outputs nearest to each grid point g, and p − q·e^g with their Q-mass q.
    pub(crate) nearest: Vec<(f64, f64)>,
    pub(crate) loss_error: f64,
    pub(crate) mass_error: f64,
    /// Densities that were evaluated, in terms of their sums.
    pub(crate) work: u64,
}

/// One half of the cell between the grid points `first` and `first + size`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HalfCell {
    pub(crate) first: i64,
    pub(crate) size: i64,
    /// True for the upper half.
    pub(crate) above: bool,
}

/// The grid g_i = `origin` + i·`spacing` and the tilt.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) origin: f64,
    pub(crate) spacing: f64,
    /// c.
    pub(crate) c: f64,
    /// log of what tilted masses are divided by.
    pub(crate) log_scale: f64,
    /// Work budget in terms of densities, and what all threads have spent of it: next to no noise makes panels so narrow
    /// that no end of them would be seen. Whether the budget runs out does not depend on the number of threads.
    allowance: u64,
    spent: AtomicU64,
}

impl GridLaw {
    /// log of a bound on the moment at c' ≥ 0: Σ mass·e^{(c' − c)·loss}.
    ///
    /// Masses whose tilted value may underflow, m·e^{cℓ − scale} < e^[`MIN_LOG_MASS`], add m^{1 − θ}·(m·e^{cℓ})^θ each with θ = c'/c. Of N masses
    /// Σ m^{1 − θ} is at most N^θ, as Σ m ≤ 1, so that they add at most (N·e^{scale + MIN_LOG_MASS})^θ. A grid point may gather many outputs, but
    /// those of them that underflow are below e^−708. At c' = 0 the law has mass 1.
    pub(crate) fn log_moment(&self, other: f64, c: f64, spacing: f64, log_scale: f64) -> f64 {
        if other == 0.0 {
            return 1e-9;
        }
        // e^{(c' − c)h} to the powers 0, 1, … of one block.
        let step = (other - c) * spacing;
        let length = (MAX_LOG_POWER / step.abs()).clamp(1.0, MAX_POWERS) as usize;
        let powers: Vec<f64> = (0..length).map(|i| (step * i as f64).exp()).collect();
        let mut sum = LogSum::default();
        for (i, block) in self.masses.chunks(length).enumerate() {
            let tilted: f64 = block.iter().zip(&powers).map(|(mass, power)| mass * power).sum();
            if tilted > 0.0 {
                let loss = self.origin + (self.first + (i * length) as i64) as f64 * spacing;
                sum.add(tilted.ln() + (other - c) * loss + log_scale);
            }
        }
        if other < c {
            let log_count = (self.masses.len() as f64).max(1.0).ln();
            sum.add((log_scale + MIN_LOG_MASS + log_count) * other / c);
        }
        sum.ln()
    }
}

impl HalfCells {
    /// Room for grid points `first`..=`first + cells`.
    pub(crate) fn starting(first: i64, cells: usize) -> Self {
        Self {
            first,
            upper: vec![0.0; cells + 1],
            nearest: vec![(0.0, 0.0); cells + 1],
            ..Self::default()
        }
    }
}

impl Frame {
    /// The grid through `origin`, with a work budget of `allowance`.
    pub(crate) fn new((origin, spacing): (f64, f64), c: f64, log_scale: f64, allowance: u64) -> Self {
        Self {
            origin,
            spacing,
            c,
            log_scale,
            allowance,
            spent: AtomicU64::new(0),
        }
    }

    /// Work done so far, in terms of densities.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// True while less than the budget is spent.
    pub(crate) fn has_budget(&self) -> bool {
        self.spent() < self.allowance
    }

    /// Counts work.
    pub(crate) fn spend(&self, work: u64) {
        self.spent.fetch_add(work, Ordering::Relaxed);
    }

    /// False if cells are so wide that quadrature would miss most of Q's part of a cell: then all mass is moved to the
    /// upper end of its cell, or to the lower one, and Q is not needed.
    pub(crate) fn is_fine(&self) -> bool {
        self.spacing <= MAX_FINE_SPACING
    }

    /// Loss of grid point i.
    pub(crate) fn at(&self, i: i64) -> f64 {
        self.origin + i as f64 * self.spacing
    }

    /// Adds mass at `loss` in a half-cell to both laws.
    pub(crate) fn deposit(&self, masses: &mut HalfCells, cell: HalfCell, loss: f64, log_mass: f64) {
        let place = (cell.first - masses.first) as usize;
        let width = cell.size as f64 * self.spacing;
        let t = (loss - self.at(cell.first)).clamp(0.0, width);
        // Part that goes to the upper end. The masses under P and Q may both be off, in opposite directions: Q's part of the upper law,
        // of which there is no more than of P's at the lower end, is made that much smaller (`docs/theory/grid.md`, Proposition 5).
        let fraction = if self.is_fine() {
            (((-t).exp_m1() - 2.0 * QUADRATURE) / (-width).exp_m1()).min(1.0)
        } else {
            1.0
        };
        let mass = (log_mass + self.c * self.at(cell.first) - self.log_scale).exp();
        let rise = (self.c * width).exp();
        let end = place + cell.size as usize;
        masses.upper[place] += mass * (1.0 - fraction);
        masses.upper[end] += mass * fraction * rise;
        if !self.is_fine() {
            masses.nearest[place].0 += mass;
            return;
        }
        let (nearest, distance, mass) = if cell.above {
            (end, t - width, mass * rise)
        } else {
            (place, t, mass)
        };
        let entry = &mut masses.nearest[nearest];
        entry.0 += mass;
        entry.1 += mass * -(-distance).exp_m1();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deposit_keeps_the_masses_under_p_and_q_in_both_laws() {
        for (c, above) in [(0.0, false), (1.5, true), (1.5, false)] {
            let frame = Frame::new((-0.3, 0.125), c, 0.0, u64::MAX);
            let mut masses = HalfCells::starting(8, 4);
            // A third, or two thirds, of the way through a cell of two grid intervals.
            let loss = frame.at(9) + if above { 0.17 } else { 0.08 };
            let cell = HalfCell {
                first: 9,
                size: 2,
                above,
            };
            frame.deposit(&mut masses, cell, loss, 0.0);
            let untilt = |i: usize| (-c * frame.at(8 + i as i64)).exp();
            let p: f64 = (0..5).map(|i| masses.upper[i] * untilt(i)).sum();
            let q: f64 = (0..5)
                .map(|i| masses.upper[i] * untilt(i) * (-frame.at(8 + i as i64)).exp())
                .sum();
            assert!((p - 1.0).abs() < 1e-14);
            // Q's mass is too small by 2·QUADRATURE of that at the lower end, which makes the upper law larger.
            let exact = (-loss).exp() - 2.0 * QUADRATURE * (-frame.at(9)).exp();
            assert!((q - exact).abs() < 1e-15, "{q} {exact}");
            let (place, at) = if above { (3, frame.at(11)) } else { (1, frame.at(9)) };
            let (mass, missing) = masses.nearest[place];
            assert!((mass * untilt(place) - 1.0).abs() < 1e-14);
            assert!((missing / mass - (1.0 - (at - loss).exp())).abs() < 1e-14, "{above}");
        }
    }

    /// The mass under P is too small by all of its error, and that under Q too large: the upper law has no more of Q than there is, to
    /// a part of P, and just as much where the outputs are at the lower end of their cell.
    #[test]
    fn errors_of_the_masses_under_p_and_q_are_covered_and_attained() {
        let frame = Frame::new((0.0, 0.125), 0.0, 0.0, u64::MAX);
        for (t, above) in [(1e-6f64, false), (0.03, false), (0.1, true)] {
            let mut masses = HalfCells::starting(0, 1);
            // Q over P of what is deposited is that of a loss lower by two errors.
            let (p, q) = (1.0 - QUADRATURE, (-t).exp() * (1.0 + QUADRATURE));
            frame.deposit(
                &mut masses,
                HalfCell {
                    first: 0,
                    size: 1,
                    above,
                },
                (p / q).ln(),
                p.ln(),
            );
            let of_p: f64 = masses.upper.iter().sum();
            let of_q = masses.upper[0] + masses.upper[1] * (-0.125f64).exp();
            let (found, exact) = (of_q / of_p, (-t).exp());
            assert!(found <= exact + 1e-15, "{t} {found} {exact}");
            assert!(t > 1e-3 || found > exact - 2e-15, "{found} {exact}");
        }
    }

    #[test]
    fn moments_are_bounded_and_the_bound_is_attained() {
        let masses: Vec<f64> = (0..500)
            .map(|i| (-0.5 * ((f64::from(i) - 200.0) / 40.0).powi(2)).exp())
            .collect();
        let sum: f64 = masses.iter().sum();
        let law = GridLaw {
            first: -150,
            masses: masses.iter().map(|mass| mass / sum).collect(),
            origin: 0.02,
        };
        let (c, spacing, log_scale) = (2.0, 0.01, 0.7);
        for other in [0.5, 1.9, 2.0, 5.0, 300.0] {
            // Scaled by the largest term, as e^1014 is not a number.
            let exponent = |i: usize| (other - c) * (0.02 + (i as f64 - 150.0) * spacing) - (other - c) * 3.5;
            let exact: f64 = (0..500).map(|i| law.masses[i] * exponent(i).exp()).sum();
            let exact = exact.ln() + (other - c) * 3.5 + log_scale;
            let found = law.log_moment(other, c, spacing, log_scale);
            assert!(
                (found - exact).abs() < 1e-12 * (1.0 + other),
                "{other}: {found} {exact}"
            );
        }
        assert!(law.log_moment(0.0, c, spacing, log_scale) >= 0.0);
        // A law of mass 1 at −400, tilted by e^{2·(−400)}: nothing is left of it, and the moment at 1 is e^−400.
        let empty = GridLaw {
            masses: vec![0.0],
            ..law
        };
        let bound = empty.log_moment(1.0, c, spacing, 0.0);
        assert!((-400.0..-300.0).contains(&bound), "{bound}");
        // A thousand masses of 1/1000 where the tilted ones are e^−671: E[e^ℓ] of them is e^{(ln 1000 − 671)/2}.
        let spread = GridLaw {
            masses: vec![0.0; 1000],
            ..empty
        };
        let (bound, exact) = (spread.log_moment(1.0, c, spacing, 0.0), 0.5 * (1000f64.ln() - 671.0));
        assert!(bound >= exact && bound < exact + 1.0, "{bound} {exact}");
    }
}
