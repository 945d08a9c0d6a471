//! A pair of laws on a lattice of losses whose curve is above a given one, for the exact engine to compose.
//!
//! The chords of an upper bound on δ between points of the lattice t_i = e^{ih} are a hockey-stick curve themselves (connect the
//! dots: Doroshenko et al. 2022): that of a law with losses ih, whose masses are the changes of slope. The losses of a
//! composition are on the same lattice, so that nothing is rounded to a grid there.
//!
//! How far the composed curve may be above the true one: with D the largest δ̂(ε) − δ(ε) of one factor over all ε of either
//! sign, exchanging one factor changes the composition by E[δ̂(ε − S) − δ(ε − S)] ≤ D, S being the loss of the rest; and all by
//! the sum of their D.

use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::pairs::StepOutcome;
use crate::tradeoff::bracket::{Between, Branch};
use crate::tradeoff::polygon::Edge;

/// Advantage from which on a pair is taken to tell all.
const TELLING: f64 = 1.0 - 1e-9;

/// The pair, and what it lacks to the curve.
#[derive(Debug, Clone)]
pub(super) struct LatticeLaw {
    /// (loss, its log probability under P), descending.
    atoms: Vec<(f64, f64)>,
    gap: f64,
    /// P's and Q's mass on what the other has too.
    kept: (f64, f64),
    /// Probability of telling all that makes good what rounding takes.
    repair: f64,
    /// D.
    excess: f64,
}

impl LatticeLaw {
    /// On the lattice of whole multiples of `gap`.
    pub(super) fn new(between: &Between, gap: f64) -> Self {
        let [forward, backward] = between.branches();
        let mut knots = [knots(forward, gap), knots(backward, gap)];
        // What both say of t = 1.
        let advantage = knots[0][0].delta.max(knots[1][0].delta);
        for side in &mut knots {
            side[0].delta = advantage;
            *side = convex(side);
        }
        let mut excess = largest_gap(&knots[0], forward).max(largest_gap(&knots[1], backward));
        if advantage >= TELLING {
            return Self {
                atoms: Vec::new(),
                gap,
                kept: (0.0, 0.0),
                repair: 1.0,
                excess: 1.0,
            };
        }
        let slopes = [falls(&knots[0]), falls(&knots[1])];
        let first = |side: &[f64]| side.first().copied().unwrap_or(0.0);
        let mut atoms = Vec::with_capacity(knots[0].len() + knots[1].len());
        for i in (1..knots[0].len()).rev() {
            let mass = slopes[0][i - 1] - slopes[0].get(i).copied().unwrap_or(0.0);
            if mass > 0.0 {
                let loss = knots[0][i].slope.ln();
                let loss = (loss / gap).round() * gap;
                atoms.push((loss, mass.ln() + loss));
            }
        }
        let middle = 1.0 - advantage - first(&slopes[0]) - first(&slopes[1]);
        if middle > 0.0 {
            atoms.push((0.0, middle.ln()));
        }
        for i in 1..knots[1].len() {
            let mass = slopes[1][i - 1] - slopes[1].get(i).copied().unwrap_or(0.0);
            if mass > 0.0 {
                let loss = (knots[1][i].slope.ln() / gap).round() * gap;
                atoms.push((-loss, mass.ln()));
            }
        }
        let p = sum(atoms.iter().map(|atom| atom.1.exp()));
        let q = sum(atoms.iter().map(|atom| (atom.1 - atom.0).exp()));
        let reversed: Vec<(f64, f64)> = atoms.iter().rev().map(|atom| (-atom.0, atom.1 - atom.0)).collect();
        let short = shortfall(&atoms, 1.0 - p, &knots[0], gap).max(shortfall(&reversed, 1.0 - q, &knots[1], gap));
        let repair = (short.max(0.0) + 8.0 * f64::EPSILON) / (1.0 - advantage);
        excess += repair + short.abs();
        Self {
            atoms,
            gap,
            kept: (p, q),
            repair,
            excess,
        }
    }

    /// The privacy loss.
    pub(super) fn outcome(&self) -> StepOutcome {
        let (p, q) = self.kept;
        if p <= 0.0 || q <= 0.0 || self.repair >= 1.0 {
            return StepOutcome::Partly {
                log_kept: f64::NEG_INFINITY,
                moved: 0.0,
                loss: None,
            };
        }
        let moved = p.ln() - q.ln();
        let law: Vec<(f64, f64)> = self
            .atoms
            .iter()
            .map(|atom| (atom.0 - moved, atom.1 - p.ln()))
            .collect();
        StepOutcome::Partly {
            // Above 1 by rounding only, which is more than δ̂ loses by it.
            log_kept: p.ln().min(0.0) + (-self.repair).ln_1p(),
            moved,
            loss: (law.len() > 1).then(|| StepLoss::new(AtomLoss::on_lattice(law, self.gap))),
        }
    }

    /// D: the composed curve of n of these is above the true one by nD at most.
    pub(super) fn excess(&self) -> f64 {
        self.excess
    }
}

/// The upper bound at the points of the lattice around its corners.
fn knots(branch: &Branch, gap: f64) -> Vec<Edge> {
    let mut places: Vec<f64> = vec![0.0];
    for edge in &branch.upper {
        let place = edge.slope.ln() / gap;
        for place in [place.floor(), place.ceil()] {
            if places.last().is_some_and(|last| place > *last) {
                places.push(place);
            }
        }
    }
    let mut knots = Vec::with_capacity(places.len());
    let mut next = 0;
    for place in places {
        let slope = (place * gap).exp();
        while branch.upper.get(next).is_some_and(|edge| edge.slope <= slope) {
            next += 1;
        }
        let left = next.checked_sub(1).and_then(|i| branch.upper.get(i));
        let delta = match (left, branch.upper.get(next)) {
            (Some(left), Some(right)) => {
                let share = (slope - left.slope) / (right.slope - left.slope);
                left.delta * (1.0 - share) + right.delta * share
            }
            (Some(last), None) => last.delta,
            (None, Some(first)) => first.delta,
            (None, None) => 1.0,
        };
        knots.push(Edge {
            slope,
            delta: (delta * (1.0 + 4.0 * f64::EPSILON)).min(1.0),
        });
    }
    knots
}

/// Without the points that rounding, or the first value, puts above the chord of their neighbours.
fn convex(knots: &[Edge]) -> Vec<Edge> {
    let mut kept: Vec<Edge> = Vec::with_capacity(knots.len());
    for &next in knots {
        while let [.., a, b] = kept[..] {
            if (b.delta - a.delta) * (next.slope - b.slope) < (next.delta - b.delta) * (b.slope - a.slope) {
                break;
            }
            kept.pop();
        }
        kept.push(next);
    }
    kept
}

/// By how much δ falls per unit of t after each knot.
fn falls(knots: &[Edge]) -> Vec<f64> {
    let fall = |pair: &[Edge]| (pair[0].delta - pair[1].delta) / (pair[1].slope - pair[0].slope);
    knots.windows(2).map(|pair| fall(pair).max(0.0)).collect()
}

/// The largest difference of the chords between `knots` and the lower bound: at a corner of either.
fn largest_gap(knots: &[Edge], branch: &Branch) -> f64 {
    let at_knots = knots.iter().map(|edge| edge.delta - value(&branch.lower, edge.slope));
    let at_corners = branch.lower.iter().map(|edge| value(knots, edge.slope) - edge.delta);
    at_knots.chain(at_corners).fold(0.0, f64::max) + 16.0 * f64::EPSILON
}

fn value(edges: &[Edge], t: f64) -> f64 {
    let next = edges.partition_point(|edge| edge.slope <= t);
    match (next.checked_sub(1).and_then(|i| edges.get(i)), edges.get(next)) {
        (Some(left), Some(right)) => {
            let share = (t - left.slope) / (right.slope - left.slope);
            left.delta * (1.0 - share) + right.delta * share
        }
        (Some(last), None) => last.delta,
        (None, Some(first)) => first.delta,
        (None, None) => 1.0,
    }
}

/// How far the curve of a law is below the knots at most; `atoms` descend in the loss, `lost` is P's mass beyond. All losses are
/// multiples of `gap`, whose differences are exact: terms are positive and right to a few roundings, and so is their sum.
fn shortfall(atoms: &[(f64, f64)], lost: f64, knots: &[Edge], gap: f64) -> f64 {
    let (mut mass, mut delta, mut short) = (Sum::default(), Sum::default(), f64::NEG_INFINITY);
    delta.add(lost);
    let mut next = 0;
    let mut level = f64::NAN;
    // e^from − e^to
    let run = |from: f64, to: f64| from.exp() * -(to - from).exp_m1();
    for knot in knots.iter().rev() {
        let place = (knot.slope.ln() / gap).round() * gap;
        // Down to the knot, past the atoms above it.
        while let Some(&(loss, log_mass)) = atoms.get(next) {
            if loss <= place {
                break;
            }
            if !level.is_nan() {
                delta.add(run(level, loss) * mass.value());
            }
            mass.add((log_mass - loss).exp());
            level = loss;
            next += 1;
        }
        if !level.is_nan() {
            delta.add(run(level, place) * mass.value());
            level = place;
        }
        short = short.max(knot.delta - delta.value());
    }
    short
}

fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut total = Sum::default();
    terms.for_each(|term| total.add(term));
    total.value()
}

/// Neumaier's sum: the rounding errors are summed too.
#[derive(Debug, Default)]
struct Sum {
    total: f64,
    rest: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        let total = self.total + term;
        self.rest += if self.total.abs() >= term.abs() {
            (self.total - total) + term
        } else {
            (term - total) + self.total
        };
        self.total = total;
    }

    fn value(&self) -> f64 {
        self.total + self.rest
    }
}
