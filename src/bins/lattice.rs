//! The lattice of one coordinate of the chain, and how far the sum over it is from the integral.
//!
//! By Poisson's formula in all coordinates, the sum over the whole lattice of spacing h differs from the integral by the sum of the
//! Fourier transform over the dual lattice without 0. Where k_i ≠ 0, the coordinate is moved by η in the direction in which
//! e^{−2πi k·v/h} decays: every such coordinate brings a factor e^{−2πη|k_i|/h}, and the density at most e^{η²r_i/2 + ηθ|(Λt)_i|}.
//! The part beyond the ends of the lattice is bounded by the tail of each coordinate, as the density is convex there.

use crate::bins::chain::Chain;
use crate::special::normal::log_upper_tail;
use std::f64::consts::PI;

/// −log of the error that the spacing may cause in each coordinate: e^{−37} is half of the rounding of a number near 1.
const LEVEL: f64 = 37.0;
/// Phases of the terms of W by which the spacing is chosen: larger ones leave less to turn s by. At twice the largest e^{−sW} grows.
const PHASES: [f64; 6] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.72];
/// Phase by which s is turned where the spacing is chosen: a typical one.
const TYPICAL_TURN: f64 = 0.7;
/// −log of what the ends leave out, before it is multiplied by what turning by about 1 costs.
const ENDS: f64 = 40.0;
/// Largest turning cost for which the ends leave room.
const LARGEST_COST: f64 = 60.0;
/// θ²/2 of the turn θ for whose cost the ends leave room: most turns are smaller. What is beyond the ends is counted with the cost of the
/// turn that is used.
const COST_PART: f64 = 0.45;
/// Upper bound on the sum of a Gaussian density over the lattice, which is about 1.
const SLACK: f64 = 1.01;

/// The points −mh, ..., mh.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    /// h, with 8 bits, so that its multiples are exact.
    pub(super) spacing: f64,
    /// m.
    pub(super) half: usize,
    /// Bound on what the terms beyond the ends add up to where s is not turned.
    pub(super) beyond: f64,
}

impl Lattice {
    /// A lattice that leaves an error below the rounding of matrices.
    pub(super) fn new(chain: &Chain) -> Self {
        let coordinates = chain.coordinates() as f64;
        let few = (2.0 * coordinates).ln();
        let stiffness = chain.stiffness.iter().copied().fold(0.0, f64::max);
        let pull = chain.pull.iter().map(|p| p.abs()).fold(0.0, f64::max);
        let spacing = PHASES
            .iter()
            .map(|phase| phase / chain.reach)
            .map(|eta| 2.0 * PI * eta / (LEVEL + few + 0.5 * eta * eta * stiffness + TYPICAL_TURN * eta * pull))
            .fold(0.0, f64::max);
        let spacing = eight_bits(spacing);
        let cost = chain.turning_cost.min(LARGEST_COST);
        let deviations = (2.0 * (ENDS + few + COST_PART * cost)).sqrt();
        let half = (deviations * chain.largest_variance.sqrt() / spacing).floor();
        Self {
            spacing,
            half: half as usize,
            beyond: beyond(chain, spacing, half),
        }
    }

    /// The points, in increasing order.
    pub(super) fn points(&self) -> Vec<f64> {
        let half = self.half as f64;
        (0..=2 * self.half).map(|i| (i as f64 - half) * self.spacing).collect()
    }

    /// Largest absolute value of a point.
    pub(super) fn end(&self) -> f64 {
        self.half as f64 * self.spacing
    }

    /// Bound on the error of the sum over the whole lattice, over the bound of the integrand on the moved lines: every coordinate is
    /// moved by `eta` at most, and s was turned by `turn`.
    pub(super) fn aliasing(&self, chain: &Chain, eta: f64, turn: f64) -> f64 {
        let decay = (-2.0 * PI * eta / self.spacing).exp();
        let dual = 2.0 * decay / (1.0 - decay);
        let [head, middle, tail] = chain.stiffness;
        let factor = |stiffness: f64, pull: f64| {
            let growth = 0.5 * eta * eta * stiffness + eta * turn * pull.abs();
            (dual * growth.exp()).ln_1p()
        };
        let pulls = &chain.pull;
        let last = pulls.len() - 1;
        if last == 0 {
            return factor(head.max(tail), pulls[0]).exp_m1();
        }
        let inner = pulls[1..last].iter().map(|p| p.abs()).fold(0.0, f64::max);
        let sum = factor(head, pulls[0]) + factor(tail, pulls[last]) + (last as f64 - 1.0) * factor(middle, inner);
        sum.exp_m1() * SLACK
    }
}

/// Bound on the sum of the density over the points of which a coordinate is beyond ±`half`·`spacing`. A term of a convex function is at
/// most the integral over its cell, and the density of a coordinate is convex from one deviation on.
fn beyond(chain: &Chain, spacing: f64, half: f64) -> f64 {
    let deviation = chain.largest_variance.sqrt();
    if half * spacing < deviation {
        return f64::INFINITY;
    }
    let tail = log_upper_tail((half + 0.5) * spacing / deviation).exp();
    2.0 * chain.coordinates() as f64 * tail * SLACK
}

/// `value` rounded down to 8 bits.
fn eight_bits(value: f64) -> f64 {
    let scale = (8.0 - value.log2().floor()).exp2();
    (value * scale).floor() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacings_are_exact_in_eight_bits() {
        for value in [0.4137, 3.99, 1.0, 0.017] {
            let rounded = eight_bits(value);
            assert!(rounded <= value && value < rounded * (1.0 + 1.0 / 256.0));
            assert_eq!(rounded * 1001.0 / 1001.0, rounded);
        }
    }

    /// A Gaussian of one coordinate has its aliasing in closed form: 2·Σ_k e^{−2π²k²/(h²r)}; at the best η the bound is near it.
    #[test]
    fn the_bound_on_aliasing_holds_and_is_within_a_factor_of_two_where_s_is_zero() {
        let chain = Chain::new(1, 1, 0.0, 0.0, 1.0);
        for spacing in [2.0, 2.5, 3.0] {
            let lattice = Lattice {
                spacing,
                half: 100,
                beyond: 0.0,
            };
            let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * PI).sqrt() * spacing;
            let exact: f64 = lattice.points().iter().map(|x| density(*x)).sum::<f64>() - 1.0;
            let bound = (1..100)
                .map(|i| lattice.aliasing(&chain, 0.1 * f64::from(i), 0.0))
                .fold(f64::INFINITY, f64::min);
            assert!(exact <= bound && 0.5 * bound < exact, "{exact} {bound}");
        }
    }

    /// Two independent coordinates without s: the bound is that of a product, and half of it is too little.
    #[test]
    fn the_bound_on_aliasing_of_two_coordinates_is_needed() {
        let chain = Chain::new(2, 1, 0.0, 0.0, 1.0);
        for spacing in [2.0, 2.5, 3.0] {
            let lattice = Lattice {
                spacing,
                half: 100,
                beyond: 0.0,
            };
            let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * PI).sqrt() * spacing;
            let exact = lattice.points().iter().map(|x| density(*x)).sum::<f64>().powi(2) - 1.0;
            let bound = (1..100)
                .map(|i| lattice.aliasing(&chain, 0.1 * f64::from(i), 0.0))
                .fold(f64::INFINITY, f64::min);
            assert!(exact <= bound && 0.5 * bound < exact, "{exact} {bound}");
        }
    }

    /// Terms beyond the ends of a lattice of one coordinate, added up: half of the bound is too little.
    #[test]
    fn the_bound_on_the_ends_is_needed() {
        assert!(Lattice::new(&Chain::new(4, 3, 0.5, 0.5, 2.0)).beyond < 1e-18);
        let chain = Chain::new(1, 1, 0.0, 0.0, 1.0);
        for (spacing, half) in [(0.5, 3), (0.5, 6), (0.25, 20), (1.0, 3)] {
            let term = |k: i32| (-0.5 * (f64::from(k) * spacing).powi(2)).exp() * spacing / (2.0 * PI).sqrt();
            let exact = 2.0 * (half + 1..half + 400).map(term).sum::<f64>();
            let bound = beyond(&chain, spacing, f64::from(half));
            assert!(
                exact <= bound && 0.5 * bound < exact,
                "{spacing} {half}: {exact} {bound}"
            );
        }
        assert!(beyond(&chain, 0.5, 1.0).is_infinite());
    }
}
