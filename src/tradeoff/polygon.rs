//! Trade-off functions with finitely many straight edges, and hockey-stick curves with as many knots.
//!
//! f(α) = max(0, max_j 1 − δ_j − t_j α) is equivalent to (log t_j, δ_j)-DP for all j. Its hockey-stick curve δ(t) = sup_α 1 − f(α) −
//! tα is linear from (0, 1) through the (t_j, δ_j) and constant from the last one on (Dong, Roth and Su 2022,
//! Proposition 6). All of its values are sums of positive terms.

use crate::error::{Error, Result, require};
use crate::interval::Interval;
use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::loss_curve::Atom;
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
    /// Bounds on the relative and on the absolute rounding error of what is read off.
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

    /// Bounds on the relative and on the absolute rounding error of δ.
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
        let mut law: Vec<Atom> = atoms
            .iter()
            .rev()
            .map(|&(loss, mass)| Atom::new(loss - offset, loss + mass.ln() - common.ln()))
            .collect();
        // Atoms whose mass underflows are left out.
        law.retain(|atom| atom.log_mass > f64::NEG_INFINITY);
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
mod tests;
