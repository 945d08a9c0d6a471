//! Interpolation of a function of one variable, as weights of its values at nodes.

use crate::special::chebyshev::{self, interpolation_factor};
use std::f64::consts::PI;

/// Nodes of an interpolated axis. With twice as many the work doubles; with half as many cells must be four times as short.
pub(super) const NODES: usize = 16;
/// An upper bound on the Lebesgue constant of the zeros of T₁₆: the factor by which errors at the nodes may grow.
pub(super) const LEBESGUE: f64 = 2.75;
/// Minimum length of an interpolated axis: on a shorter one the rounding of places would matter in the sum.
const MIN_LENGTH: f64 = 0.02;
/// An upper bound on the derivative of the cardinal functions of the zeros of T₁₆ on [−1, 1]: 98.08, that of the second one at the end
/// next to it. Markov's inequality would give three times as much.
const STEEPEST: f64 = 98.1;
/// Roundings of a cardinal function that do not come from its argument, for each node.
const CARDINAL_ROUNDINGS: f64 = 16.0;
/// Roundings of a place in a cell, in units of the larger one of 1 and the coordinate.
const PLACE_ROUNDINGS: f64 = 8.0;

/// A function at the nodes, or the sums that make up the weights of the nodes.
pub(super) type Terms = [f64; NODES];

/// A representation of functions of one variable on a range of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Axis {
    /// By their values at all places that occur.
    Exact(Vec<f64>),
    /// By the polynomial through their values at Chebyshev nodes.
    Interpolated { start: f64, length: f64 },
}

impl Axis {
    /// The axis of ascending places, of which no two are equal; there is at least one.
    pub(super) fn of(places: &[f64]) -> Self {
        match (places.first(), places.last()) {
            (Some(&start), Some(&end)) if places.len() > NODES => {
                let length = (end - start).max(MIN_LENGTH);
                Self::Interpolated {
                    start: 0.5 * (start + end - length),
                    length,
                }
            }
            _ => Self::Exact(places.to_vec()),
        }
    }

    /// The places at which functions have to be evaluated.
    pub(super) fn nodes(&self) -> Vec<f64> {
        match self {
            Self::Exact(places) => places.clone(),
            Self::Interpolated { start, length } => {
                let node = |j| start + 0.5 * length * (1.0 + chebyshev::angle(NODES, j).cos());
                (0..NODES).map(node).collect()
            }
        }
    }

    /// The ends of a range that holds all places.
    pub(super) fn ends(&self) -> (f64, f64) {
        match self {
            Self::Exact(places) => (places[0], places[places.len() - 1]),
            Self::Interpolated { start, length } => (*start, start + length),
        }
    }

    /// Functions whose sums over all places determine the weights of the nodes: T₀, …, T₁₅, or for each place whether it is this.
    pub(super) fn functions(&self, place: f64) -> Terms {
        match self {
            Self::Exact(places) => {
                let own = places.partition_point(|known| *known < place).min(places.len() - 1);
                std::array::from_fn(|k| f64::from(u8::from(k == own)))
            }
            Self::Interpolated { start, length } => {
                chebyshev::polynomials((2.0 * (place - start) / length - 1.0).clamp(-1.0, 1.0))
            }
        }
    }

    /// The factors of the sums of [`Axis::functions`] in the weight of node `j`.
    pub(super) fn factors(&self, j: usize) -> Terms {
        match self {
            Self::Exact(_) => std::array::from_fn(|k| f64::from(u8::from(k == j))),
            Self::Interpolated { .. } => std::array::from_fn(|k| {
                let scale = if k == 0 { 1.0 } else { 2.0 } / NODES as f64;
                scale * (k as f64 * chebyshev::angle(NODES, j)).cos()
            }),
        }
    }

    /// The factor by which errors at the nodes may grow.
    pub(super) fn lebesgue(&self) -> f64 {
        match self {
            Self::Exact(_) => 1.0,
            Self::Interpolated { .. } => LEBESGUE,
        }
    }

    /// A bound on the rounding error of the weight that one step gives to a node.
    ///
    /// A place that is off by η moves a cardinal function by at most 2η/length times its largest derivative on [−1, 1].
    pub(super) fn rounding(&self) -> f64 {
        match self {
            Self::Exact(_) => 0.0,
            Self::Interpolated { start, length } => {
                let place = PLACE_ROUNDINGS * f64::EPSILON * (1.0 + start.abs() + length);
                STEEPEST * 2.0 * place / length + CARDINAL_ROUNDINGS * NODES as f64 * f64::EPSILON
            }
        }
    }

    /// The Bernstein ellipses around the axis that are tried, the widest first; none where nothing is interpolated.
    pub(super) fn ellipses(&self) -> Vec<Ellipse> {
        match self {
            Self::Exact(_) => Vec::new(),
            Self::Interpolated { start, length } => {
                let of = |rho: f64| Ellipse::new(start + 0.5 * length, 0.5 * length, rho);
                [8.0, 5.5, 4.0, 3.0, 2.2].map(of).to_vec()
            }
        }
    }
}

/// A Bernstein ellipse around the range of an axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ellipse {
    /// Interpolation errs by this times the largest modulus in the ellipse (`docs/theory/individual.md`, Proposition 3).
    pub(super) factor: f64,
    middle: f64,
    /// Semiaxis along the real line.
    long: f64,
    /// Semiaxis across it: the largest imaginary part.
    pub(super) short: f64,
}

impl Ellipse {
    fn new(middle: f64, half: f64, rho: f64) -> Self {
        Self {
            factor: interpolation_factor(NODES, rho),
            middle,
            long: 0.5 * half * (rho + 1.0 / rho),
            short: 0.5 * half * (rho - 1.0 / rho),
        }
    }

    /// The middle of the range.
    #[cfg(test)]
    pub(super) fn middle(&self) -> f64 {
        self.middle
    }

    /// The largest real part.
    pub(super) fn largest(&self) -> f64 {
        self.middle + self.long
    }

    /// log of a bound on e^{Re x}/cos(Im x); infinite where Im x may reach π/2.
    pub(super) fn log_farthest(&self) -> f64 {
        const ARCS: usize = 64;
        if self.short >= 0.5 * PI {
            return f64::INFINITY;
        }
        // On an arc from φ to φ' the real part is at most that at φ, the imaginary one that at φ'.
        let on_arc = |arc: usize| {
            let [from, to] = [arc, arc + 1].map(|end| end as f64 / ARCS as f64 * 0.5 * PI);
            self.long * from.cos() - (self.short * to.sin()).cos().ln()
        };
        self.middle + (0..ARCS).map(on_arc).fold(f64::NEG_INFINITY, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use realfft::num_complex::Complex64;

    fn axis() -> Axis {
        let places: Vec<f64> = (0..40).map(|i| -1.0 + 0.5 * f64::from(i) / 39.0).collect();
        Axis::of(&places)
    }

    /// The weights that a single place gives to the nodes.
    fn weights(axis: &Axis, place: f64) -> Vec<f64> {
        let functions = axis.functions(place);
        let of = |j| axis.factors(j).iter().zip(&functions).map(|(a, b)| a * b).sum();
        (0..axis.nodes().len()).map(of).collect()
    }

    fn interpolated(axis: &Axis, place: f64, of: impl Fn(f64) -> f64) -> f64 {
        axis.nodes()
            .iter()
            .zip(weights(axis, place))
            .map(|(&node, weight)| weight * of(node))
            .sum()
    }

    #[test]
    fn few_places_are_their_own_nodes() {
        let axis = Axis::of(&[0.25, 1.0, 3.0]);
        assert_eq!(axis.nodes(), [0.25, 1.0, 3.0]);
        assert_eq!(weights(&axis, 1.0), [0.0, 1.0, 0.0]);
        assert_eq!(
            (axis.ends(), axis.rounding(), axis.ellipses().len()),
            ((0.25, 3.0), 0.0, 0)
        );
    }

    #[test]
    fn places_next_to_each_other_keep_their_digits() {
        let places: Vec<f64> = (0..40).map(|i| 0.7 + 1e-12 * f64::from(i)).collect();
        let axis = Axis::of(&places);
        let (low, high) = axis.ends();
        assert!(low < 0.7 && high > places[39] && axis.rounding() < 1e-9, "{axis:?}");
        let found = interpolated(&axis, places[20], f64::exp);
        assert!((found - places[20].exp()).abs() < 1e-13, "{found}");
    }

    #[test]
    fn polynomials_are_reproduced_and_rounding_is_bounded() {
        let axis = axis();
        for place in [-1.0, -0.93, -0.777, -0.5] {
            let found = interpolated(&axis, place, |x| (x + 0.7).powi(15));
            assert!((found - (place + 0.7f64).powi(15)).abs() < 1e-15, "{place} {found}");
            let one: f64 = weights(&axis, place).iter().sum();
            assert!((one - 1.0).abs() <= NODES as f64 * axis.rounding(), "{place} {one}");
        }
    }

    /// With U_{k−1}(cos t) = sin kt/sin t, T_k' is kU_{k−1}; 5e-7 of [−1, 1] lies between two places, and no second derivative is above 15⁴.
    #[test]
    fn the_largest_derivative_of_a_cardinal_function_is_bounded() {
        let axis = axis();
        let mut largest = 0.0f64;
        for j in 0..NODES {
            let factors = axis.factors(j);
            for i in 0..=4000 {
                let t = PI * f64::from(i) / 8000.0;
                let (mut derivative, mut before, mut value) = (0.0, 0.0, 1.0);
                for (k, factor) in factors.iter().enumerate().skip(1) {
                    derivative += factor * k as f64 * value;
                    (before, value) = (value, 2.0 * t.cos() * value - before);
                }
                largest = largest.max(derivative.abs());
            }
        }
        assert!(largest <= STEEPEST && STEEPEST < 1.001 * largest, "{largest}");
    }

    /// A place at the end of the axis that is off by as much as is said moves the weight of the second node by nearly all of the bound.
    #[test]
    fn the_rounding_of_a_weight_is_bounded_and_nearly_attained() {
        let axis = axis();
        let place = PLACE_ROUNDINGS * f64::EPSILON * (1.0 + 1.0 + 0.5);
        let (exact, moved) = (weights(&axis, -0.5), weights(&axis, -0.5 - place));
        let largest = exact.iter().zip(moved).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let bound = axis.rounding();
        assert!(largest <= bound && largest > 0.8 * bound, "{largest:e} {bound:e}");
    }

    #[test]
    fn the_lebesgue_constant_is_bounded_and_nearly_attained() {
        let axis = axis();
        let of = |i: i32| {
            weights(&axis, -1.0 + 0.5 * f64::from(i) / 2000.0)
                .iter()
                .map(|w| w.abs())
                .sum::<f64>()
        };
        let largest = (0..=2000).map(of).fold(0.0, f64::max);
        assert!(largest <= LEBESGUE && LEBESGUE < 1.02 * largest, "{largest}");
    }

    /// 1/(p − x) has its pole just outside the ellipse: the error is a good part of the bound.
    #[test]
    fn interpolation_errs_by_less_than_the_factor_times_the_largest_modulus() {
        let axis = axis();
        for ellipse in axis.ellipses() {
            let pole = ellipse.largest() + 1e-3;
            let modulus = |i: i32| {
                let (sine, cosine) = (2.0 * PI * f64::from(i) / 1000.0).sin_cos();
                1.0 / (Complex64::new(ellipse.middle + ellipse.long * cosine, ellipse.short * sine) - pole).norm()
            };
            let largest = (0..1000).map(modulus).fold(0.0, f64::max);
            let error = (0..=500)
                .map(|i| -1.0 + 0.5 * f64::from(i) / 500.0)
                .map(|place| (interpolated(&axis, place, |x| 1.0 / (pole - x)) - 1.0 / (pole - place)).abs())
                .fold(0.0, f64::max);
            let bound = ellipse.factor * largest;
            assert!(error <= bound + 1e-14 && error > 1e-4 * bound, "{error:e} {bound:e}");
        }
    }

    /// T₁₆ is 0 at all nodes and 1 at the end of the axis: the interpolation errs by 1, in an ellipse where T₁₆ is at most M.
    #[test]
    fn the_polynomial_of_the_nodes_nearly_attains_the_factor() {
        let axis = axis();
        for (ellipse, rho) in axis.ellipses().iter().zip([8.0f64, 5.5, 4.0, 3.0, 2.2]) {
            let largest = 0.5 * (rho.powi(NODES as i32) + rho.powi(-(NODES as i32)));
            let of = |x: f64| (NODES as f64 * (4.0 * (x + 0.75)).clamp(-1.0, 1.0).acos()).cos();
            let error = (interpolated(&axis, -0.5, of) - of(-0.5)).abs();
            let bound = ellipse.factor * largest;
            assert!(error <= bound && error > 0.65 * bound, "{rho} {error} {bound}");
        }
    }

    #[test]
    fn the_farthest_point_of_an_ellipse_is_bounded_closely() {
        for ellipse in axis().ellipses() {
            let at = |i: i32| {
                let (sine, cosine) = (2.0 * PI * f64::from(i) / 4000.0).sin_cos();
                ellipse.middle + ellipse.long * cosine - (ellipse.short * sine).cos().ln()
            };
            let largest = (0..4000).map(at).fold(f64::NEG_INFINITY, f64::max);
            let bound = ellipse.log_farthest();
            assert!(largest <= bound && bound < largest + 0.1, "{largest} {bound}");
        }
        assert_eq!(Ellipse::new(0.0, 1.0, 8.0).log_farthest(), f64::INFINITY);
    }
}
