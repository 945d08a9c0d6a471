//! The characteristic function of a tilted noise schedule.

use crate::approx::Approx;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use crate::loss::schedule::cell::{Cell, Node, SumError};
use crate::loss::schedule::kind::Pair;
use crate::loss::schedule::level::{Level, Total};
use crate::special::log_space::{complex_exp_m1, complex_ln_1p};
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;

/// Number of nodes from which on their panels are freed: about 20 kB each.
const KEEPING_PANELS: usize = 1_000;
/// Largest relative error of one factor whose logarithm is used.
const MAX_RELATIVE_ERROR: f64 = 0.5;

/// A schedule tilted by e^{cℓ}.
pub(super) struct TiltedSchedule<'a> {
    nodes: Vec<TiltedNode<'a>>,
    cells: Vec<TiltedCell<'a>>,
    /// The kinds that belong to no cell are the first so many nodes.
    alone: usize,
    reach: f64,
    /// False where nothing is known of the schedule.
    is_known: bool,
}

struct TiltedNode<'a> {
    weight: f64,
    rounding: f64,
    loss: Box<dyn TiltedLoss + 'a>,
}

struct TiltedCell<'a> {
    steps: f64,
    errors: SumError,
    /// λ.
    fraction: f64,
    lowest: Box<dyn TiltedLoss + 'a>,
}

impl<'a> TiltedSchedule<'a> {
    pub(super) fn new(level: Option<&'a mut Level>, pair: Pair, c: f64, log_tolerance: f64) -> Self {
        let mut tilted = Self {
            nodes: Vec::new(),
            cells: Vec::new(),
            alone: 0,
            reach: 0.0,
            is_known: level.is_some(),
        };
        let Some(level) = level else { return tilted };
        let tolerance = log_tolerance - (level.nodes() as f64).ln();
        let is_large = level.nodes() > KEEPING_PANELS;
        tilted.alone = level.alone.len();
        let mut add = |nodes: &'a mut [Node]| {
            for Node { weight, rounding, loss } in nodes {
                checkpoint();
                let mut loss = loss.tilted(c, tolerance - weight.abs().max(1.0).ln());
                if is_large {
                    loss.forget_panels();
                }
                tilted.nodes.push(TiltedNode {
                    weight: *weight,
                    rounding: *rounding,
                    loss,
                });
            }
        };
        let Level { cells, alone } = level;
        add(alone);
        for cell in cells {
            let (errors, fraction) = (cell.errors(pair, c), cell.log_fraction(c).exp());
            let Cell {
                steps, nodes, lowest, ..
            } = cell;
            add(nodes);
            let mut lowest = lowest.tilted(c, tolerance - steps.max(1.0).ln());
            if is_large {
                lowest.forget_panels();
            }
            tilted.cells.push(TiltedCell {
                steps: *steps,
                errors,
                fraction,
                lowest,
            });
        }
        tilted
    }

    /// The losses at all nodes, and the lowest ones of the cells, which only bound the decay.
    fn losses(&mut self) -> impl Iterator<Item = &mut Box<dyn TiltedLoss + 'a>> {
        let lowest = self.cells.iter_mut().map(|cell| &mut cell.lowest);
        self.nodes.iter_mut().map(|node| &mut node.loss).chain(lowest)
    }

    fn interpolation_error(&self, y: f64) -> f64 {
        self.cells.iter().map(|cell| cell.errors.at(y)).sum()
    }

    /// log of a bound on the characteristic function from y on, by `decay` of the parts; as many steps as it belongs to come with each part.
    fn log_decay_by(&mut self, y: f64, decay: impl Fn(&mut dyn TiltedLoss, f64, f64) -> f64) -> f64 {
        let mut sum = 0.0;
        for node in &mut self.nodes[..self.alone] {
            sum += node.weight * decay(&mut *node.loss, y, node.weight);
        }
        for cell in &mut self.cells {
            // The law of each loss is at least λ times that of the lowest one: |φ| ≤ 1 − λ(1 − B).
            let lowest = decay(&mut *cell.lowest, y, cell.steps * cell.fraction).min(0.0);
            sum += cell.steps * (cell.fraction * lowest.exp_m1()).ln_1p();
        }
        sum
    }
}

/// The logarithm of a product of powers of 1 + z, and how far it may be off.
#[derive(Debug, Clone, Copy, Default)]
struct LogProduct {
    log: Complex64,
    error: f64,
    size: f64,
}

impl LogProduct {
    /// Multiplies by (1 + z)^`weight`, where the weight is off by `rounding`.
    fn multiply(&mut self, Approx { value, error }: Approx<Complex64>, weight: f64, rounding: f64) {
        let log = complex_ln_1p(value);
        let relative = error / (1.0 + value).norm();
        // |log(1 + w)| ≤ −log(1 − |w|)
        let off = if relative < MAX_RELATIVE_ERROR {
            -(-relative).ln_1p()
        } else {
            f64::INFINITY
        };
        self.log += weight * log;
        self.error += (weight.abs() + rounding) * off + rounding * log.norm();
        self.size += weight.abs() * log.l1_norm();
    }

    /// The product less 1, where its logarithm is off by `interpolation` in addition.
    fn change(self, interpolation: f64, terms: usize) -> Approx<Complex64> {
        let rounding = f64::EPSILON * ((terms + 8) as f64 * self.size);
        let off = (self.error + interpolation + rounding).exp_m1();
        let modulus = self.log.re.exp();
        // Any characteristic function is at most 1 in modulus.
        Approx::new(
            complex_exp_m1(self.log),
            (modulus * off).min(1.0 + modulus) + 4.0 * f64::EPSILON,
        )
    }
}

impl TiltedLoss for TiltedSchedule<'_> {
    fn moments(&self) -> TiltedMoments {
        let mut total = Total::default();
        for node in &self.nodes {
            total.add(node.loss.moments(), node.weight, node.rounding);
        }
        total.moments(if self.is_known {
            self.interpolation_error(0.0)
        } else {
            f64::INFINITY
        })
    }

    fn size(&self) -> usize {
        self.nodes.iter().map(|node| node.loss.size()).sum()
    }

    fn certify(&mut self, reach: f64) {
        self.reach = reach;
        let is_large = self.nodes.len() > KEEPING_PANELS;
        for loss in self.losses() {
            checkpoint();
            loss.certify(reach);
            if is_large {
                loss.forget_panels();
            }
        }
    }

    fn quadrature_error(&self) -> f64 {
        if !self.is_known {
            return f64::INFINITY;
        }
        let of = |node: &TiltedNode<'_>| node.weight.abs() * node.loss.quadrature_error();
        let sum: f64 = self.nodes.iter().map(of).sum();
        (sum + self.interpolation_error(self.reach)).exp_m1()
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        self.log_decay_by(y, |loss, y, _| loss.log_decay(y))
    }

    fn best_log_decay(&mut self, y: f64, wanted: f64) -> f64 {
        self.log_decay_by(y, |loss, y, steps| loss.best_log_decay(y, wanted / steps))
    }

    /// φ − 1 as e^{Σ W log φ} − 1.
    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let mut products = vec![LogProduct::default(); last + 1];
        for node in &self.nodes {
            checkpoint();
            for (product, change) in products.iter_mut().zip(node.loss.changes(spacing, last)) {
                product.multiply(change, node.weight, node.rounding);
            }
        }
        let base = self.interpolation_error(0.0);
        let of = |(j, product): (usize, LogProduct)| {
            let interpolation = if j == 0 {
                0.0
            } else {
                base + self.interpolation_error(j as f64 * spacing)
            };
            product.change(interpolation, self.nodes.len())
        };
        products.into_iter().enumerate().map(of).collect()
    }

    fn forget_panels(&mut self) {
        self.losses().for_each(|loss| loss.forget_panels());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::schedule::kind::Kind;

    fn product(first: Complex64, error: f64, rounding: f64) -> LogProduct {
        let mut product = LogProduct::default();
        product.multiply(Approx::new(first, error), 3.0, rounding);
        product.multiply(Approx::exact(Complex64::new(-0.2, 0.4)), -0.5, 0.0);
        product
    }

    /// (1 + z)^3·(1 + z')^{−1/2} − 1 by powers, and errors of z and of the exponent that are attained to more than half.
    #[test]
    fn errors_of_factors_and_of_exponents_are_carried_and_attained() {
        const ERROR: f64 = 1e-7;
        let first = Complex64::new(0.1, -0.3);
        let other = Complex64::new(0.8, 0.4).powf(-0.5);
        let exact = |z: Complex64, exponent: f64| (1.0 + z).powf(exponent) * other - 1.0;
        let plain = product(first, 0.0, 0.0).change(0.0, 2);
        assert!(
            (plain.value - exact(first, 3.0)).norm() <= plain.error && plain.error < 1e-14,
            "{plain:?}"
        );
        let found = product(first, ERROR, 0.0).change(0.0, 2);
        // An error along 1 + z changes the modulus the most.
        let wrong = first + ERROR * (1.0 + first) / (1.0 + first).norm();
        let off = (exact(wrong, 3.0) - found.value).norm();
        assert!(off <= found.error && 1.9 * off > found.error, "{off} {}", found.error);
        let found = product(first, 0.0, ERROR).change(0.0, 2);
        let off = (exact(first, 3.0 + ERROR) - found.value).norm();
        assert!(off <= found.error && 1.9 * off > found.error, "{off} {}", found.error);
        // An error of the logarithm is one of the product, to first order.
        let found = product(first, 0.0, 0.0).change(ERROR, 2);
        let size = (1.0 + found.value).norm();
        assert!(found.error >= ERROR * size && found.error < 1.01 * ERROR * size);
    }

    /// A loss whose decay says how far it is certified.
    struct Certified(f64);

    impl TiltedLoss for Certified {
        fn moments(&self) -> TiltedMoments {
            TiltedMoments {
                log_moment: Approx::exact(0.0),
                mean: 0.0,
                variance: 0.0,
            }
        }

        fn size(&self) -> usize {
            1
        }

        fn certify(&mut self, reach: f64) {
            self.0 = reach;
        }

        fn log_decay(&mut self, _: f64) -> f64 {
            -self.0
        }

        fn changes(&self, _: f64, _: usize) -> Vec<Approx<Complex64>> {
            Vec::new()
        }
    }

    /// The losses that bound the decay of a cell are certified with those at its nodes.
    #[test]
    fn the_lowest_losses_of_cells_are_certified() {
        let pair = Pair {
            records: 1,
            adds: false,
        };
        let kind = |i: u32| Kind {
            noise_multiplier: 1.5 * 2f64.powf(f64::from(i) / 600.0),
            sample_rate: 0.02,
            steps: 1.0,
        };
        let kinds: Vec<Kind> = (0..600).map(kind).collect();
        let mut level = Level::new(pair, &kinds, 0).unwrap();
        let mut tilted = TiltedSchedule::new(Some(&mut level), pair, 1.5, -30.0);
        assert!(!tilted.cells.is_empty());
        for cell in &mut tilted.cells {
            cell.lowest = Box::new(Certified(0.0));
        }
        tilted.certify(8.0);
        assert!(tilted.cells.iter_mut().all(|cell| cell.lowest.log_decay(8.0) == -8.0));
    }

    #[test]
    fn nothing_is_known_of_a_product_with_a_factor_that_may_be_zero() {
        let found = product(Complex64::new(-0.9, 0.0), 0.2, 0.0).change(0.0, 2);
        assert!(found.error >= 1.0, "{found:?}");
    }
}
