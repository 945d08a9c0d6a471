//! Trade-off functions with finitely many straight edges, and hockey-stick curves with as many knots.
//!
//! f(α) = max(0, max_j 1 − δ_j − t_j α) is equivalent to (log t_j, δ_j)-DP for all j. Its hockey-stick curve δ(t) = sup_α 1 − f(α) −
//! tα is linear from (0, 1) through the (t_j, δ_j) and constant from the last one on (Dong, Roth and Su 2022,
//! Proposition 6). All of its values are sums of positive terms.

use crate::error::{Error, Result, require};
use crate::interval::Interval;
use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::pairs::StepOutcome;
use crate::special::log_space::log1p_exp;
use crate::stopping::checkpoint;
use crate::tradeoff::edges::{Edge, edges_of_points, minimum_over};
use crate::tradeoff::limits::Limits;

/// Relative rounding error of a value, a sum of two products of positive terms with fractions.
///
/// That is at most nine roundings of half a unit (three of a fraction, one of what it leaves of 1, two products, their sum, and one of
/// each δ), of which this is more than three times the sum. As roundings have no order, examples attain some hundredths of it.
const ROUNDINGS: f64 = 16.0 * f64::EPSILON;

/// A trade-off function with finitely many edges, and its inverse.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Polygon {
    /// Ascending in t; δ falls and is convex in t.
    edges: Vec<Edge>,
    /// The edges of the inverse.
    inverse: Vec<Edge>,
    /// (loss, Q's mass) of the pair, ascending in the loss, and of the inverse.
    atoms: Vec<(f64, f64)>,
    inverse_atoms: Vec<(f64, f64)>,
    /// Interval on the relative and on the absolute rounding error of what is read off.
    rounding: f64,
    slack: f64,
}

/// Largest number of corners of a product, which takes 10 ms; beyond, the exact engine is as fast.
const MAX_CORNERS: usize = 1 << 18;
/// Largest number of factors of a power: beyond, the bound on rounding exceeds 1e-9 and the exact engine is as fast.
const MAX_FACTORS: u64 = 1000;
/// Largest loss of a product: its exponential is far from overflow, at 709.
const MAX_LOSS: f64 = 600.0;
/// Relative distance below which two sums of losses are merged: what differs by rounding only, and little else.
const SAME_LOSS: f64 = 1e-13;

impl Polygon {
    /// The largest convex function below the points (α_i, β_i): α ascends from 0 to 1, β falls to 0, β ≤ 1 − α.
    ///
    /// # Errors
    /// Points that are not such.
    pub(crate) fn of_points(alpha: &[f64], beta: &[f64]) -> Result<Self> {
        if alpha.len() != beta.len() || alpha.len() < 2 {
            return Err(Error::Mismatch(format!(
                "alpha and beta must have one length of at least 2, got {} and {}",
                alpha.len(),
                beta.len()
            )));
        }
        let (first, last) = (alpha[0], alpha[alpha.len() - 1]);
        require(first == 0.0, "alpha", first, "0 at the first point")?;
        require(last == 1.0, "alpha", last, "1 at the last point")?;
        for (&a, &b) in alpha.iter().zip(beta) {
            require((0.0..=1.0).contains(&a), "alpha", a, "in [0, 1]")?;
            require((0.0..=1.0).contains(&b), "beta", b, "in [0, 1]")?;
            require(b <= 1.0 - a + ROUNDINGS, "beta", b, "at most 1 - alpha")?;
        }
        for pair in alpha.windows(2) {
            require(pair[0] <= pair[1], "alpha", pair[1], "ascending")?;
        }
        for pair in beta.windows(2) {
            require(pair[0] >= pair[1], "beta", pair[1], "descending")?;
        }
        let points: Vec<(f64, f64)> = alpha.iter().copied().zip(beta.iter().copied()).collect();
        let swapped: Vec<(f64, f64)> = points.iter().rev().map(|&(a, b)| (b, a)).collect();
        Ok(Self::of_both(edges_of_points(&points), edges_of_points(&swapped)))
    }

    /// From the edges of f and of its inverse. Masses are differences of slopes, which are off by a rounding of δ over the
    /// distance of two edges: times that distance, and over all edges, that is the slack.
    fn of_both(edges: Vec<Edge>, inverse: Vec<Edge>) -> Self {
        let slack = ROUNDINGS * (4.0 + edges.len() as f64);
        Self {
            atoms: atoms(&edges),
            inverse_atoms: atoms(&inverse),
            edges,
            inverse,
            rounding: ROUNDINGS,
            slack,
        }
    }

    /// A symmetric one from the edges with t ≥ 1, ascending, of which the first has t = 1.
    pub(crate) fn symmetric(steep: &[Edge]) -> Self {
        let mut edges: Vec<Edge> = steep.iter().skip(1).rev().map(mirrored).collect();
        edges.extend_from_slice(steep);
        Self::of_both(edges.clone(), edges)
    }

    /// f_{ε,δ}.
    pub(crate) fn of_epsilon_delta(epsilon: f64, delta: f64) -> Self {
        let common = 1.0 - delta;
        let atoms = if epsilon > 0.0 {
            let mass = |loss: f64| common * (-log1p_exp(loss)).exp();
            vec![(-epsilon, mass(-epsilon)), (epsilon, mass(epsilon))]
        } else {
            vec![(0.0, common)]
        };
        let edges = edges_of(atoms.clone(), delta);
        Self {
            inverse: edges.clone(),
            inverse_atoms: atoms.clone(),
            edges,
            atoms,
            rounding: ROUNDINGS,
            slack: ROUNDINGS,
        }
    }

    /// f ⊗ g; `None` if that has too many corners, or losses at which Q has no mass that an `f64` can hold.
    pub(crate) fn product(&self, other: &Self) -> Option<Self> {
        let max_loss = |polygon: &Self| {
            let ends = [polygon.edges.first(), polygon.edges.last()];
            ends.iter()
                .flatten()
                .map(|edge| edge.slope.ln().abs())
                .fold(0.0, f64::max)
        };
        let corners = self.edges.len() * other.edges.len();
        if corners > MAX_CORNERS || max_loss(self) + max_loss(other) > MAX_LOSS {
            return None;
        }
        let last = |edges: &[Edge]| edges.last().map_or(1.0, |edge| edge.delta);
        let singular = |first: &[Edge], second: &[Edge]| last(first) + last(second) * (1.0 - last(first));
        let both = |first: &[(f64, f64)], second: &[(f64, f64)]| {
            let mut sums: Vec<(f64, f64)> = Vec::with_capacity(first.len() * second.len());
            for &(loss, mass) in first {
                checkpoint();
                sums.extend(second.iter().map(|&(l, m)| (loss + l, mass * m)));
            }
            merged(sums)
        };
        let (atoms, added) = both(&self.atoms, &other.atoms);
        let edges = edges_of(atoms.clone(), singular(&self.edges, &other.edges));
        let (inverse, inverse_atoms, inverse_added) = if self.is_symmetric() && other.is_symmetric() {
            (edges.clone(), atoms.clone(), added)
        } else {
            let (atoms, added) = both(&self.inverse_atoms, &other.inverse_atoms);
            let edges = edges_of(atoms.clone(), singular(&self.inverse, &other.inverse));
            (edges, atoms, added)
        };
        // Two logarithms, their sum and its exponential: relative to P's mass, which is at most 1.
        let of_losses = f64::EPSILON * (4.0 + max_loss(self) + max_loss(other));
        Some(Self {
            edges,
            inverse,
            atoms,
            inverse_atoms,
            slack: self.slack + other.slack + of_losses + 1.01 * added.max(inverse_added),
            rounding: self.rounding + other.rounding + 8.0 * f64::EPSILON * corners as f64,
        })
    }

    /// f ⊗ … ⊗ f, `times` ≥ 1 times; `None` if that has too many corners.
    pub(crate) fn power_of(&self, times: u64) -> Option<Self> {
        if times > MAX_FACTORS {
            return None;
        }
        let mut result: Option<Self> = None;
        let (mut square, mut left) = (self.clone(), times);
        loop {
            if left & 1 == 1 {
                result = Some(match result {
                    None => square.clone(),
                    Some(known) => known.product(&square)?,
                });
            }
            left >>= 1;
            if left == 0 {
                return result;
            }
            square = square.product(&square)?;
        }
    }

    /// f^{-1}; that of the inverse is the polygon itself, to the last bit.
    pub(crate) fn inverted(&self) -> Self {
        Self {
            edges: self.inverse.clone(),
            inverse: self.edges.clone(),
            atoms: self.inverse_atoms.clone(),
            inverse_atoms: self.atoms.clone(),
            ..*self
        }
    }

    /// True if f is its own inverse.
    pub(crate) fn is_symmetric(&self) -> bool {
        self.edges == self.inverse
    }

    /// The edges, ascending in t.
    pub(crate) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// 1 − f(α) = min(1, min_j δ_j + t_j α).
    pub(crate) fn power(&self, alpha: f64) -> Interval {
        // Convex in j: δ_j + t_j α falls and then rises.
        let smallest = minimum_over(&self.edges, |edge| edge.delta + edge.slope * alpha);
        self.around(smallest.min(1.0))
    }

    /// δ at e^ε = t > 0.
    pub(crate) fn delta(&self, t: f64) -> Interval {
        let next = self.edges.partition_point(|edge| edge.slope < t);
        let (left, right) = match next {
            0 => (Edge { slope: 0.0, delta: 1.0 }, self.edges.first()),
            i => (self.edges[i - 1], self.edges.get(i)),
        };
        let value = match right {
            None if self.edges.is_empty() => 1.0, // f = 0
            None => left.delta,
            Some(right) => {
                let fraction = (t - left.slope) / (right.slope - left.slope);
                left.delta * (1.0 - fraction) + right.delta * fraction
            }
        };
        self.around(value)
    }

    fn around(&self, value: f64) -> Interval {
        let found = Interval::around(value, self.rounding);
        Interval {
            lower: found.lower - self.slack,
            upper: found.upper + self.slack,
        }
    }

    /// Interval on the relative and on the absolute rounding error of δ.
    pub(crate) fn rounding(&self) -> (f64, f64) {
        (self.rounding, self.slack)
    }

    /// 1 − f(0).
    pub(crate) fn delta_at_infinity(&self) -> f64 {
        self.edges.last().map_or(1.0, |edge| edge.delta)
    }

    /// Simple trade-off functions below this one and its inverse, whose largest loss is that of the flattest edge.
    pub(super) fn limits(&self) -> Limits {
        let singular = self.delta_at_infinity();
        let inverse = self.inverse.last().map_or(1.0, |edge| edge.delta);
        match (self.edges.first(), self.edges.last()) {
            (Some(first), Some(last)) if singular == 0.0 && inverse == 0.0 => {
                Limits::pure(last.slope.ln().max(-first.slope.ln()))
            }
            _ => Limits::singular(singular),
        }
    }

    /// The privacy loss of a pair with this curve: an atom at each log t_j, of Q's mass as the slope of δ changes there.
    pub(crate) fn outcome(&self) -> StepOutcome {
        let atoms = &self.atoms;
        let common_of_q: f64 = atoms.iter().map(|atom| atom.1).sum();
        let common: f64 = atoms.iter().map(|atom| atom.1 * atom.0.exp()).sum();
        if atoms.is_empty() || common <= 0.0 {
            return StepOutcome::Partly {
                log_common: f64::NEG_INFINITY,
                offset: 0.0,
                loss: None,
            };
        }
        // 1 − δ of the last edge, which keeps the digits where δ is small.
        let log_common = (-self.delta_at_infinity()).ln_1p();
        let offset = common.ln() - common_of_q.ln();
        let mut law: Vec<(f64, f64)> = atoms
            .iter()
            .rev()
            .map(|&(loss, mass)| (loss - offset, loss + mass.ln() - common.ln()))
            .collect();
        // The largest loss that is 0 after the shift would be −0.
        law.retain(|atom| atom.1 > f64::NEG_INFINITY);
        let loss = if law.len() == 1 {
            None
        } else {
            Some(StepLoss::new(AtomLoss::new(law)))
        };
        StepOutcome::Partly {
            log_common,
            offset,
            loss,
        }
    }
}

/// The edge of the inverse.
fn mirrored(edge: &Edge) -> Edge {
    Edge {
        slope: 1.0 / edge.slope,
        delta: (1.0 - (1.0 - edge.delta) / edge.slope).max(0.0),
    }
}

/// (loss, Q's mass) of the pair with these edges, ascending in the loss.
fn atoms(edges: &[Edge]) -> Vec<(f64, f64)> {
    let mut found = Vec::with_capacity(edges.len());
    let mut left = Edge { slope: 0.0, delta: 1.0 };
    let fall = |left: &Edge, right: &Edge| (left.delta - right.delta) / (right.slope - left.slope);
    for (i, edge) in edges.iter().enumerate() {
        let after = edges.get(i + 1).map_or(0.0, |next| fall(edge, next));
        let mass = fall(&left, edge) - after;
        if mass > 0.0 {
            found.push((edge.slope.ln(), mass));
        }
        left = *edge;
    }
    found
}

/// Sums of losses, ascending, where those that nearly agree are merged at the larger loss, which is the safe side; and by how much
/// that raises P's mass, which is the most that it adds to δ at any ε.
fn merged(mut sums: Vec<(f64, f64)>) -> (Vec<(f64, f64)>, f64) {
    sums.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut merged: Vec<(f64, f64)> = Vec::with_capacity(sums.len());
    let mut added = 0.0;
    for (loss, mass) in sums {
        match merged.last_mut() {
            Some(last) if last.0 - loss <= SAME_LOSS * last.0.abs().max(1.0) => {
                added += mass * last.0.exp() * -(loss - last.0).exp_m1();
                last.1 += mass;
            }
            _ => merged.push((loss, mass)),
        }
    }
    merged.reverse();
    (merged, added)
}

/// The edges of a pair with these (loss, Q's mass), ascending in the loss, of which P has the singular mass `singular`: δ falls by
/// Q(ℓ > log t) per unit of t.
fn edges_of(atoms: Vec<(f64, f64)>, singular: f64) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::with_capacity(atoms.len());
    let mut above = 0.0;
    for (loss, mass) in atoms.into_iter().rev() {
        let slope = loss.exp();
        let delta = edges
            .last()
            .map_or(singular, |right| right.delta + (right.slope - slope) * above);
        edges.push(Edge {
            slope,
            delta: delta.min(1.0),
        });
        above += mass;
    }
    edges.reverse();
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Polygon {
        Polygon::of_points(&[0.0, 0.1, 0.4, 1.0], &[0.9, 0.5, 0.1, 0.0]).unwrap()
    }

    #[test]
    fn both_sides_are_conjugates() {
        let polygon = example();
        for (alpha, beta) in [(0.0, 0.9), (0.05, 0.7), (0.1, 0.5), (0.4, 0.1), (0.7, 0.05), (1.0, 0.0)] {
            let found = 1.0 - polygon.power(alpha).upper;
            assert!((found - beta).abs() < 1e-13, "{alpha} {found}");
        }
        for t in [1e-3, 0.1, 0.7, 1.0, 2.0, 3.9, 4.1, 100.0] {
            let by_points = [(0.0, 0.9), (0.1, 0.5), (0.4, 0.1), (1.0, 0.0)]
                .iter()
                .map(|(a, b)| 1.0 - b - t * a)
                .fold(0.0, f64::max);
            assert!((polygon.delta(t).upper - by_points).abs() < 1e-13, "{t}");
        }
    }

    #[test]
    fn the_inverse_is_found_by_points_and_its_inverse_is_the_polygon() {
        let inverse = example().inverted();
        for (alpha, beta) in [(0.0, 1.0), (0.1, 0.4), (0.5, 0.1), (0.9, 0.0), (0.95, 0.0)] {
            let found = 1.0 - inverse.power(alpha).upper;
            assert!((found - beta).abs() < 1e-13, "{alpha} {found}");
        }
        assert_eq!(inverse.inverted(), example());
    }

    #[test]
    fn products_are_those_of_all_pairs_of_outcomes() {
        let pair = Polygon::of_epsilon_delta(0.7, 0.01);
        let product = pair.power_of(3).unwrap();
        // Three answers with odds e^0.7, each lost with probability 0.01.
        let likely = 1.0 / (1.0 + (-0.7f64).exp());
        for t in [0.2f64, 0.9, 1.0, 1.5, 3.0, 9.0] {
            let mut delta = 1.0 - 0.99f64.powi(3);
            for answers in 0..8u32 {
                let ones = answers.count_ones() as i32;
                let (p, q) = (
                    likely.powi(ones) * (1.0 - likely).powi(3 - ones),
                    (1.0 - likely).powi(ones) * likely.powi(3 - ones),
                );
                delta += 0.99f64.powi(3) * (p - t * q).max(0.0);
            }
            let found = product.delta(t);
            assert!(found.lower <= delta && found.upper >= delta, "{t} {found:?} {delta}");
            assert!(found.upper - found.lower < 1e-11, "{t} {found:?}");
        }
        assert!(product.is_symmetric() && product.edges().len() == 4);
        assert!(pair.power_of(1 << 30).is_none());
    }

    #[test]
    fn points_above_their_hull_do_not_count() {
        let with_a_bump = Polygon::of_points(&[0.0, 0.05, 0.1, 0.4, 1.0], &[0.9, 0.8, 0.5, 0.1, 0.0]).unwrap();
        assert_eq!(with_a_bump, example());
        for (alpha, beta) in [
            (vec![0.0, 1.0], vec![1.1, 0.0]),
            (vec![0.1, 1.0], vec![0.5, 0.0]),
            (vec![0.0, 0.5], vec![0.5, 0.0]),
            (vec![0.0, 0.5, 1.0], vec![0.5, 0.6, 0.0]),
            (vec![0.0, f64::NAN, 1.0], vec![0.5, 0.4, 0.0]),
            (vec![0.0], vec![0.5]),
        ] {
            assert!(Polygon::of_points(&alpha, &beta).is_err(), "{alpha:?} {beta:?}");
        }
    }

    #[test]
    fn the_loss_has_the_masses_of_both_hypotheses() {
        let StepOutcome::Partly {
            log_common,
            offset,
            loss,
        } = example().outcome()
        else {
            panic!()
        };
        assert!((log_common - 0.9f64.ln()).abs() < 1e-14);
        let loss = loss.unwrap();
        let atoms = loss.outcomes().unwrap();
        let p: f64 = atoms.iter().map(|atom| atom.1.exp()).sum();
        let q: f64 = atoms.iter().map(|atom| (atom.1 - atom.0).exp()).sum();
        assert!((p - 1.0).abs() < 1e-13 && (q - 1.0).abs() < 1e-13);
        assert!(atoms.is_sorted_by(|a, b| a.0 > b.0));
        // P's mass on what Q has too is 0.9; Q's on what P has too is 1.
        assert!((offset - 0.9f64.ln()).abs() < 1e-13, "{offset}");
    }

    /// Rounding of products is bounded in relation to sums of positive terms: against exact sums for dyadic masses.
    #[test]
    fn products_hold_their_value_in_extended_precision() {
        use crate::special::extended::Extended;
        let whole = |count: u64| Extended::from(count as f64);
        // P = (3/4, 1/4), Q = (1/4, 3/4): the losses are ±log 3, and t = 3^k is at the corners of every product.
        let pair = Polygon::of_points(&[0.0, 0.25, 1.0], &[1.0, 0.25, 0.0]).unwrap();
        for times in [2u64, 7, 30, 200] {
            let product = pair.power_of(times).unwrap();
            // Atoms with j answers against Q, (3^j, C(n, j) 3^{n−j}/4^n under Q).
            let mut weight = (0..times).fold(Extended::ONE, |w, _| w * Extended::from(0.75));
            let mut atoms = Vec::new();
            for j in 0..=times {
                atoms.push((j, weight));
                weight = weight * whole(times - j) / whole(j + 1) / whole(3);
            }
            for t in [0.3f64, 1.0, 2.9, 81.0] {
                let mut exact = Extended::ZERO;
                for &(j, mass) in &atoms {
                    // r = 3^{2j − n}
                    let exponent = 2 * j as i64 - times as i64;
                    let three = whole(3);
                    let power = crate::step::group_law::power(three, exponent.unsigned_abs());
                    let ratio = if exponent < 0 { Extended::ONE / power } else { power };
                    if ratio.to_f64() > t {
                        exact = exact + mass * (ratio + Extended::from(-t));
                    }
                }
                let (found, exact) = (product.delta(t), exact.to_f64());
                assert!(
                    found.lower <= exact && exact <= found.upper,
                    "{times} {t} {found:?} {exact}"
                );
                assert!(found.width() < 1e-9, "{times} {t} {found:?}");
            }
        }
    }

    #[test]
    fn losses_that_rounding_separates_are_merged_to_the_larger() {
        let (found, added) = merged(vec![(1.0, 0.25), (1.0 + 5e-14, 0.25), (1.0 + 3e-13, 0.5)]);
        assert_eq!(found, [(1.0 + 5e-14, 0.5), (1.0 + 3e-13, 0.5)]);
        assert!((added / (0.25 * 5e-14 * 1f64.exp()) - 1.0).abs() < 0.01, "{added}");
    }

    /// P has 1/2 at each of the losses log 64 and log 1024, and at log 64 and log 1024 + 1e-12 in the other factor. The sums of one
    /// small and one large loss differ by 1e-12, and a quarter of P is moved by that.
    #[test]
    fn the_room_for_merged_losses_is_nearly_attained() {
        let of = |losses: [f64; 2]| {
            let atoms: Vec<(f64, f64)> = losses.map(|loss| (loss, 0.5 * (-loss).exp())).to_vec();
            let edges = edges_of(atoms.clone(), 0.0);
            Polygon {
                inverse: edges.clone(),
                inverse_atoms: atoms.clone(),
                edges,
                atoms,
                rounding: 0.0,
                slack: 0.0,
            }
        };
        let moved = 1e-12;
        let (small, large) = (64f64.ln(), 1024f64.ln());
        let product = of([small, large]).product(&of([small, large + moved])).unwrap();
        assert_eq!(product.edges().len(), 3);
        // Below all losses δ is P's mass, 1, less t times Q's.
        let t = 0.999 * 64.0 * 64.0;
        let q = 0.25 * ((-small).exp() + (-large).exp()) * ((-small).exp() + (-(large + moved)).exp());
        let (found, exact) = (product.delta(t), 1.0 - t * q);
        let value = found.middle();
        assert!(value - exact > 0.9 * 0.25 * moved, "{value} {exact}");
        assert!(found.lower <= exact && exact <= found.upper, "{found:?} {exact}");
        assert!(value - exact > 0.5 * (value - found.lower), "{found:?} {exact}");
    }

    #[test]
    fn limits_are_those_of_the_steepest_and_the_flattest_edge() {
        let symmetric = Polygon::of_epsilon_delta(0.7, 0.0).limits();
        assert!((symmetric.epsilon - 0.7).abs() < 1e-14 && symmetric.singular == 0.0);
        assert_eq!(example().limits().epsilon, f64::INFINITY);
        assert!((example().limits().singular - 0.1).abs() < 1e-15);
    }
}
