//! φ(s) = E[e^{−sW}] for complex s, and its analytic continuation beyond the imaginary axis, with bounds on all errors.
//!
//! For every θ the line of integration of all coordinates may be moved so that every term of W is turned by −θ. Hence
//! |φ(s)| ≤ e^{θ²B/2}·φ(Re(s·e^{−iθ})), and s is computed by the θ with the smallest bound on the error. The errors are those of the
//! lattice, of its ends and of rounding; each is bounded by values of φ at real points, of which a table has upper bounds.

use crate::approx::Approx;
use crate::bins::chain::{Chain, Closing};
use crate::bins::lattice::Lattice;
use crate::bins::trace::{BLOCK, Operators, SAME_DRIFT_OPERATIONS};
use crate::stopping::carried;
use rayon::prelude::*;
use realfft::num_complex::Complex64;

/// Relative rounding error of one floating-point operation.
const UNIT: f64 = 1.0 / 9_007_199_254_740_992.0;
/// Steps of θ and of the phase by which lines are moved for the error of the lattice.
const TURN_STEP: f64 = 0.05;
/// The last turn that is tried for the modulus, a right angle: beyond it the turned point has a negative real part.
const LAST_MODULUS_TURN: u32 = 31;
/// The last turn that is tried for the rule: 2 radians, more than a phase and the largest rest together.
const LAST_TURN: u32 = 40;
const PHASE_STEP: f64 = 0.1;
/// Largest phase of s·e^{g} on a line: below π/2, with room for the rounding of phases.
const LARGEST_PHASE: f64 = 1.5608;
/// The first real point of the table, the ratio of two that follow each other, and the last.
const FIRST_POINT: f64 = 0.125;
const POINT_RATIO: f64 = std::f64::consts::SQRT_2;
const LAST_POINT: f64 = 4096.0;
/// Points whose values are computed together; those after the last one that is needed are not used.
const POINTS_AT_ONCE: usize = 4;
/// The table of bounds ends at the first value below this.
const SMALLEST_VALUE: f64 = 1e-40;
/// Rounding errors of a factor of the product: the matrices and the phases, and those of exponents in standard deviations.
const FACTOR_OPERATIONS: f64 = 20.0;
/// Rounding errors of the exponent of the kernel that closes the chain, over w̄·(λ^b·x − H_1): 18 of w̄ and its product, times √3 for the fourth moments of two
/// Gaussian variables.
const CLOSING_OPERATIONS: f64 = 32.0;
/// Values of κ that are tried: e^{−s} is split into e^{−κs}, whose mean is bounded by φ, and e^{−(1 − κ)s}, which bounds a factor. Large
/// ones are better where φ falls steeply.
const KEPT: [f64; 4] = [0.75, 0.87, 0.93, 0.97];
/// Rounding errors of a node s of a contour, relative to |s|: 36 of them, times e, as Cauchy's formula has no such factor.
const NODE_OPERATIONS: f64 = 100.0;
/// Smallest exponent of an entry that is not 0.
const SMALLEST_EXPONENT: f64 = 746.0;

/// The transform of one run.
#[derive(Debug)]
pub(super) struct Transform {
    chain: Chain,
    lattice: Lattice,
    operators: Operators,
    /// Real points r, from 0, and upper bounds on log φ(r).
    table: Vec<(f64, f64)>,
    /// Rounding errors in units of [`UNIT`]: of products, of exponents of densities (without and with what grows with θ), and of e^g.
    products: f64,
    exponents: (f64, f64),
    growth: f64,
    /// Rounding errors of the factor by which the turn by θ enlarges the terms, over θ².
    cost: f64,
}

/// The real points at which φ is bounded, but 0.
fn points_of_the_table() -> Vec<f64> {
    std::iter::successors(Some(FIRST_POINT), |point| Some(point * POINT_RATIO))
        .take_while(|point| *point < LAST_POINT)
        .collect()
}

/// The θ by which φ(s) is computed, and the bound on the error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    theta: f64,
    /// Bound on the absolute error of the value.
    pub(super) error: f64,
}

impl Transform {
    /// The transform of `chain` on `lattice`.
    pub(super) fn new(chain: Chain, lattice: Lattice) -> Self {
        let operators = Operators::new(&chain, &lattice);
        let bins = chain.bins as f64;
        let size = 2.0 * lattice.half as f64 + 1.0;
        let deviation = chain.largest_variance.sqrt();
        let closing = chain.closing.map_or(0.0, |closing| {
            let spread = deviation / closing.variance.sqrt();
            let closing = CLOSING_OPERATIONS * closing.weight * (1.0 + closing.power) * spread;
            closing + 1.5 * Closing::variance_operations(chain.epochs) + FACTOR_OPERATIONS
        });
        let alone = (1.0 + chain.excess.abs() + 2.0 * chain.decay) / chain.noise;
        let mut found = Self {
            products: 1.5 * (BLOCK as f64 + 4.0 + size / BLOCK as f64) * (bins + 2.0)
                + FACTOR_OPERATIONS * (bins + 1.0),
            exponents: (FACTOR_OPERATIONS * bins + closing, deviation * chain.pull_operations),
            growth: NODE_OPERATIONS
                + SAME_DRIFT_OPERATIONS
                + chain.exponent_operations
                + 6.0 * lattice.end() * alone,
            cost: 0.5 * chain.cost_operations,
            chain,
            lattice,
            operators,
            table: vec![(0.0, 0.0)],
        };
        found.tabulate();
        found
    }

    /// Fills the table from small points to large ones: the error at a point needs bounds at smaller ones.
    fn tabulate(&mut self) {
        let bins = self.chain.bins as f64;
        let relative =
            bins * SMALLEST_EXPONENT * (self.growth + 2.0 * FACTOR_OPERATIONS) * UNIT + self.products * UNIT;
        for block in points_of_the_table().chunks(POINTS_AT_ONCE) {
            let value = carried(|point: f64| self.operators.trace(Complex64::new(point, 0.0), 0.0).re);
            let values: Vec<f64> = block.par_iter().with_max_len(1).map(|point| value(*point)).collect();
            for (&point, value) in block.iter().zip(values) {
                let error = self.aliasing(point, 0.0, 0.0) + self.lattice.beyond;
                let bound = value * (1.0 + relative) + error * (1.0 + 1e-12) + f64::MIN_POSITIVE;
                let before = self.table[self.table.len() - 1].1;
                self.table.push((point, (bound.ln() + 1e-13).min(before)));
                if bound < 3.0 * error || bound < SMALLEST_VALUE {
                    return;
                }
            }
        }
    }

    /// Upper bound on log φ(r): chords of a convex function lie above it, and it decreases.
    pub(super) fn log_bound(&self, point: f64) -> f64 {
        let next = self.table.partition_point(|(r, _)| *r <= point);
        match (self.table.get(next.wrapping_sub(1)), self.table.get(next)) {
            (Some((r, low)), Some((after, high))) => low + (high - low) * ((point - r) / (after - r)),
            (Some((_, low)), None) => *low,
            _ => 0.0,
        }
    }

    /// Upper bound on log P(W ≤ `level`): Chernoff's inequality at the points of the table.
    pub(super) fn log_chernoff(&self, level: f64) -> f64 {
        let exponents = self.table.iter().map(|(r, bound)| r * level * (1.0 + 1e-12) + bound);
        exponents.fold(0.0, f64::min)
    }

    /// Upper bound on |φ(s)|, which does not increase where s moves along a hyperbola that turns by at most `least`.
    pub(super) fn log_modulus(&self, s: Complex64, least: f64) -> f64 {
        self.log_modulus_between(s.re, s.im, least)
    }

    /// log of a bound on |φ(s)| for all s with Re s ≥ `real` and Im s ≥ `imaginary`.
    pub(super) fn log_modulus_between(&self, real: f64, imaginary: f64, least: f64) -> f64 {
        let mut best = f64::INFINITY;
        for step in 0..=LAST_MODULUS_TURN {
            let theta = TURN_STEP * f64::from(step);
            let point = real * theta.cos() + imaginary * theta.sin();
            if theta >= least && point >= 0.0 {
                best = best.min(0.5 * theta * theta * self.chain.turning_cost + self.log_bound(point));
            }
        }
        best + 1e-12
    }

    /// Bound on the error of the lattice at |s| = `modulus` with the phase `rest` after s was turned by `turn`.
    fn aliasing(&self, modulus: f64, rest: f64, turn: f64) -> f64 {
        let mut best = f64::INFINITY;
        for step in 1..16 {
            let phase = PHASE_STEP * f64::from(step);
            let widest = rest + phase;
            if widest < LARGEST_PHASE {
                let factor = self.lattice.aliasing(&self.chain, phase / self.chain.reach, turn);
                best = best.min(factor * self.log_bound(modulus * widest.cos()).exp());
            }
        }
        best
    }

    /// The θ with the smallest bound on the error of φ(s), Im s ≥ 0.
    pub(super) fn turn(&self, s: Complex64) -> Turn {
        let (modulus, phase) = (s.norm(), s.arg());
        let mut best = Turn {
            theta: 0.0,
            error: f64::INFINITY,
        };
        for step in 0..=LAST_TURN {
            let theta = TURN_STEP * f64::from(step);
            let rest = (phase - theta).abs();
            if rest + PHASE_STEP >= LARGEST_PHASE {
                continue;
            }
            let cost = (0.5 * theta * theta * self.chain.turning_cost).exp();
            let least = cost * self.lattice.beyond;
            if least < best.error {
                let error =
                    least + cost * (self.aliasing(modulus, rest, theta) + self.rounding(modulus, rest, theta));
                if error < best.error {
                    best = Turn {
                        theta,
                        error: error * (1.0 + 1e-12),
                    };
                }
            }
        }
        best
    }

    /// Bound on the rounding error of the sum over the lattice, without the factor of turning.
    fn rounding(&self, modulus: f64, rest: f64, turn: f64) -> f64 {
        let real = modulus * rest.cos();
        let at = |point: f64| self.log_bound(point).exp();
        let exponents = self.exponents.0 + turn * self.exponents.1;
        // |z|e^{−c|z|} ≤ e^{−κc|z|}/(e·(1 − κ)·c). By Cauchy's formula on a circle of radius (1 − κ)c|s|, an error of s counts alike.
        let shifted = |kept: f64| 1.02 / (std::f64::consts::E * (1.0 - kept)) * at(kept * real);
        let growth = KEPT.iter().map(|kept| shifted(*kept)).fold(f64::INFINITY, f64::min);
        UNIT * ((self.products + turn * turn * self.cost) * at(real)
            + exponents * at(2.0 * real).sqrt()
            + self.growth / rest.cos() * growth)
    }

    /// φ(s), Im s ≥ 0.
    pub(super) fn at(&self, s: Complex64) -> Approx<Complex64> {
        let turn = self.turn(s);
        let value = self.operators.trace(s * Complex64::cis(-turn.theta), turn.theta);
        let cost = (0.5 * turn.theta * turn.theta * self.chain.turning_cost).exp();
        Approx::new(value * cost, turn.error)
    }
}

#[cfg(test)]
mod tests;
