//! A schedule cut into cells of one fineness.

use crate::approx::Approx;
use crate::loss::privacy_loss::TiltedMoments;
use crate::loss::schedule::cell::{Cell, Node};
use crate::loss::schedule::kind::{Kind, Pair};
use crate::stopping::checkpoint;
use std::collections::BTreeMap;

/// Maximum number of nodes of a schedule. Each costs as much as one kind of steps, and with more of them it is faster to round the noise.
const MAX_NODES: usize = 6_000;
/// Cells of noise, times [`crate::loss::schedule::cell`]'s largest k(K − k)v/2, at most: where it is larger, the arguments of the terms
/// of a ratio differ too much in the ellipses around the cell.
const LONGEST_BEND: f64 = 0.35;

/// The cells of a schedule, and the kinds of steps of which there are too few for a cell.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) cells: Vec<Cell>,
    pub(super) alone: Vec<Node>,
}

impl Level {
    /// The cells with a length of 2^−`fineness` octaves in noise and in rates, and shorter ones for groups; `None` where that takes too
    /// many nodes.
    pub(super) fn new(pair: Pair, kinds: &[Kind], fineness: u32) -> Option<Self> {
        let mut places: BTreeMap<[i32; 4], Vec<Kind>> = BTreeMap::new();
        for kind in kinds {
            places.entry(place(pair, kind, fineness)).or_default().push(*kind);
        }
        let mut level = Self {
            cells: Vec::new(),
            alone: Vec::new(),
        };
        for members in places.values() {
            checkpoint();
            match Cell::new(pair, members) {
                Some(cell) => level.cells.push(cell),
                None => {
                    for kind in members {
                        level.alone.push(Node {
                            weight: kind.steps,
                            rounding: 0.0,
                            loss: pair.loss(kind.noise_multiplier, kind.sample_rate)?,
                        });
                    }
                }
            }
            (level.nodes() <= MAX_NODES).then_some(())?;
        }
        Some(level)
    }

    /// Number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.alone.len() + self.cells.iter().map(|cell| cell.nodes.len()).sum::<usize>()
    }

    /// Cost so far, in evaluations of a density.
    pub(super) fn work(&self) -> u64 {
        self.all_nodes().map(|node| node.loss.work()).sum()
    }

    fn all_nodes(&self) -> impl Iterator<Item = &Node> {
        self.alone.iter().chain(self.cells.iter().flat_map(|cell| &cell.nodes))
    }

    /// A bound on the error of interpolation at c + iy.
    pub(super) fn interpolation_error(&mut self, pair: Pair, c: f64, y: f64) -> f64 {
        self.cells.iter_mut().map(|cell| cell.errors(pair, c).at(y)).sum()
    }

    /// The moments of the sum at c, where quadrature may leave out e^`log_tolerance`.
    pub(super) fn moments(&mut self, pair: Pair, c: f64, log_tolerance: f64) -> TiltedMoments {
        let log_tolerance = log_tolerance - (self.nodes() as f64).ln();
        let error = self.interpolation_error(pair, c, 0.0);
        let nodes = self
            .alone
            .iter_mut()
            .chain(self.cells.iter_mut().flat_map(|cell| &mut cell.nodes));
        let mut total = Total::default();
        for node in nodes {
            checkpoint();
            let one = node.loss.moments(c, log_tolerance - node.weight.abs().max(1.0).ln());
            total.add(one, node.weight, node.rounding);
        }
        total.moments(error)
    }
}

/// The moments of a sum of losses with weights.
#[derive(Debug, Default)]
pub(super) struct Total {
    moments: (f64, f64, f64),
    error: f64,
    size: f64,
    terms: usize,
}

impl Total {
    pub(super) fn add(&mut self, one: TiltedMoments, weight: f64, rounding: f64) {
        let Approx { value, error } = one.log_moment;
        self.moments.0 += weight * value;
        self.moments.1 += weight * one.mean;
        self.moments.2 += weight * one.variance;
        self.error += (weight.abs() + rounding) * error + rounding * value.abs();
        self.size += weight.abs() * value.abs();
        self.terms += 1;
    }

    /// The moments, where interpolation is off by `error`.
    ///
    /// Each product and each sum is rounded by half a unit in the last place at most, of the sum of all moduli.
    pub(super) fn moments(&self, error: f64) -> TiltedMoments {
        let rounding = 0.5 * f64::EPSILON * (self.terms + 4) as f64 * self.size;
        TiltedMoments {
            log_moment: Approx::new(self.moments.0, self.error + rounding + error),
            mean: self.moments.1,
            variance: self.moments.2,
        }
    }
}

/// The cell of a kind: the octaves of v and q, and the parts of these.
fn place(pair: Pair, kind: &Kind, fineness: u32) -> [i32; 4] {
    let part = |log: f64, parts: f64| {
        let octaves = log / std::f64::consts::LN_2;
        let octave = octaves.floor();
        (octave as i32, ((octaves - octave) * parts).floor() as i32)
    };
    let log_v = kind.log_v();
    let highest = (log_v / std::f64::consts::LN_2).floor().exp2() * 2.0;
    let finer = |least: f64| f64::powi(2.0, fineness as i32 + least.max(1.0).log2().ceil() as i32);
    let half = (pair.records / 2) as f64;
    let bend = 0.5 * half * (pair.records as f64 - half);
    let (octave, part_of_noise) = part(log_v, finer(bend * highest / LONGEST_BEND));
    let (rate_octave, part_of_rates) = part(kind.log_rate(), finer(pair.records as f64));
    [octave, part_of_noise, rate_octave, part_of_rates]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(value: f64, error: f64) -> TiltedMoments {
        TiltedMoments {
            log_moment: Approx::new(value, error),
            mean: 2.0 * value,
            variance: 3.0 * value,
        }
    }

    /// Moments and weights that are off by their errors in the direction that adds up, and interpolation that is.
    #[test]
    fn errors_of_moments_of_weights_and_of_interpolation_are_attained_together() {
        const ERROR: f64 = 1e-3;
        let mut total = Total::default();
        total.add(moments(0.5, ERROR), 3.0, 0.01);
        total.add(moments(0.25, 2.0 * ERROR), -2.0, 0.02);
        let found = total.moments(ERROR);
        let exact = (3.0 + 0.01) * (0.5 + ERROR) + (-2.0 + 0.02) * (0.25 - 2.0 * ERROR) + ERROR;
        let off = exact - found.log_moment.value;
        // All but the products of errors with an error of the other sign.
        assert!(
            off <= found.log_moment.error && off > 0.97 * found.log_moment.error,
            "{off} {found:?}"
        );
        assert_eq!((found.mean, found.variance), (2.0, 3.0));
    }

    /// A thousand terms of nearly half a unit in the last place of the first one are lost in the sum.
    #[test]
    fn the_rounding_of_a_sum_is_bounded_and_nearly_attained() {
        let small = 0.5 * f64::EPSILON * (1.0 - 1e-3);
        let mut total = Total::default();
        total.add(moments(1.0, 0.0), 1.0, 0.0);
        for _ in 0..1000 {
            total.add(moments(small, 0.0), 1.0, 0.0);
        }
        let found = total.moments(0.0).log_moment;
        let off = 1000.0 * small;
        assert!(
            found.value == 1.0 && off <= found.error && off > 0.97 * found.error,
            "{off:e} {found:?}"
        );
    }
}
