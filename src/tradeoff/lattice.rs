//! A pair of laws on a lattice of losses whose hockey-stick curve is nowhere below a given one, for the exact engine to compose.
//!
//! The chords of an upper bound on δ between points of the lattice t_i = e^{ih} are a hockey-stick curve themselves (connect the
//! dots: Doroshenko et al. 2022): that of a law with losses ih, whose masses are the changes of slope. The losses of a
//! composition are on the same lattice, so that nothing is rounded to a grid there.
//!
//! The composed curve exceeds the true one by at most the sum of the factors' excesses D. With D the largest δ̂(ε) − δ(ε) of one
//! factor over all ε of either sign, exchanging this factor changes the composition by E[δ̂(ε − S) − δ(ε − S)] ≤ D, S being the loss
//! of the rest; the factors are exchanged one after the other.

use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::loss_curve::Atom;
use crate::loss::pairs::StepOutcome;
use crate::special::compensated_sum::CompensatedSum;
use crate::tradeoff::branch::Branch;
use crate::tradeoff::edges::{Edge, interpolated, lower_hull};
use crate::tradeoff::envelope::Envelope;

/// Advantage from which on a pair is taken to reveal the hypothesis: 1 less the advantage, which the repair is divided by, has seven
/// digits here.
const MAX_ADVANTAGE: f64 = 1.0 - 1e-9;

/// The pair on a lattice, and by how much its curve exceeds the given one.
#[derive(Debug, Clone)]
pub(super) struct LatticeLaw {
    /// Descending in the loss.
    atoms: Vec<Atom>,
    gap: f64,
    /// Mass of P, and of Q, on outcomes that both have.
    common: (f64, f64),
    /// Probability of revealing the hypothesis that compensates for what rounding takes off δ̂.
    repair: f64,
    /// D.
    excess: f64,
}

impl LatticeLaw {
    /// The law on whole multiples of `gap`.
    pub(super) fn new(envelope: &Envelope, gap: f64) -> Self {
        let [forward, backward] = envelope.branches();
        let mut knots = [knots(forward, gap), knots(backward, gap)];
        // The branches have the point t = 1 in common.
        let advantage = knots[0][0].delta.max(knots[1][0].delta);
        for side in &mut knots {
            side[0].delta = advantage;
            // Rounding, or the new first value, may put points above the chord of their neighbours.
            *side = lower_hull(std::mem::take(side), 1.0);
        }
        if advantage >= MAX_ADVANTAGE {
            return Self {
                atoms: Vec::new(),
                gap,
                common: (0.0, 0.0),
                repair: 1.0,
                excess: 1.0,
            };
        }
        let atoms = atoms_between(&knots, advantage, gap);
        let p = sum(atoms.iter().map(|atom| atom.log_mass.exp()));
        let q = sum(atoms.iter().map(|atom| (atom.log_mass - atom.loss).exp()));
        let reversed: Vec<Atom> = atoms
            .iter()
            .rev()
            .map(|atom| Atom::new(-atom.loss, atom.log_mass - atom.loss))
            .collect();
        let short = shortfall(&atoms, 1.0 - p, &knots[0], gap).max(shortfall(&reversed, 1.0 - q, &knots[1], gap));
        let repair = (short.max(0.0) + 8.0 * f64::EPSILON) / (1.0 - advantage);
        let mut excess = largest_gap(&knots[0], forward).max(largest_gap(&knots[1], backward));
        excess += repair + short.abs();
        Self {
            atoms,
            gap,
            common: (p, q),
            repair,
            excess,
        }
    }

    /// The privacy loss.
    pub(super) fn outcome(&self) -> StepOutcome {
        let (p, q) = self.common;
        if p <= 0.0 || q <= 0.0 || self.repair >= 1.0 {
            return StepOutcome::Partly {
                log_common: f64::NEG_INFINITY,
                offset: 0.0,
                loss: None,
            };
        }
        let offset = p.ln() - q.ln();
        let law: Vec<Atom> = self
            .atoms
            .iter()
            .map(|atom| Atom::new(atom.loss - offset, atom.log_mass - p.ln()))
            .collect();
        StepOutcome::Partly {
            // The mass p exceeds 1 by rounding alone, which raises δ̂ more than cutting it to 1 lowers it.
            log_common: p.ln().min(0.0) + (-self.repair).ln_1p(),
            offset,
            loss: (law.len() > 1).then(|| StepLoss::new(AtomLoss::on_lattice(law, self.gap))),
        }
    }

    /// D: δ of a composition with n of these factors exceeds the true one by nD at most.
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
    let knot = |place: f64| {
        let slope = (place * gap).exp();
        Edge {
            slope,
            delta: (interpolated(&branch.upper, slope) * (1.0 + 4.0 * f64::EPSILON)).min(1.0),
        }
    };
    places.into_iter().map(knot).collect()
}

/// The law with these chords for its curve and for that of its inverse: masses are the changes of slope, descending in the loss.
fn atoms_between(knots: &[Vec<Edge>; 2], advantage: f64, gap: f64) -> Vec<Atom> {
    let slopes = [falls(&knots[0]), falls(&knots[1])];
    let first = |side: &[f64]| side.first().copied().unwrap_or(0.0);
    let change = |side: usize, i: usize| slopes[side][i - 1] - slopes[side].get(i).copied().unwrap_or(0.0);
    let loss = |side: usize, i: usize| (knots[side][i].slope.ln() / gap).round() * gap;
    let mut atoms = Vec::with_capacity(knots[0].len() + knots[1].len());
    for i in (1..knots[0].len()).rev() {
        let (mass, loss) = (change(0, i), loss(0, i));
        if mass > 0.0 {
            atoms.push(Atom::new(loss, mass.ln() + loss));
        }
    }
    let middle = 1.0 - advantage - first(&slopes[0]) - first(&slopes[1]);
    if middle > 0.0 {
        atoms.push(Atom::new(0.0, middle.ln()));
    }
    for i in 1..knots[1].len() {
        let mass = change(1, i);
        if mass > 0.0 {
            atoms.push(Atom::new(-loss(1, i), mass.ln()));
        }
    }
    atoms
}

/// −dδ/dt after each knot.
fn falls(knots: &[Edge]) -> Vec<f64> {
    let fall = |pair: &[Edge]| (pair[0].delta - pair[1].delta) / (pair[1].slope - pair[0].slope);
    knots.windows(2).map(|pair| fall(pair).max(0.0)).collect()
}

/// Largest difference between the chords of `knots` and the lower bound, which is at a corner of either.
fn largest_gap(knots: &[Edge], branch: &Branch) -> f64 {
    let at_knots = knots
        .iter()
        .map(|edge| edge.delta - interpolated(&branch.lower, edge.slope));
    let at_corners = branch
        .lower
        .iter()
        .map(|edge| interpolated(knots, edge.slope) - edge.delta);
    at_knots.chain(at_corners).fold(0.0, f64::max) + 16.0 * f64::EPSILON
}

/// Largest amount by which the curve of a law is below the knots; `atoms` descend in the loss, `singular` is P's mass beyond.
///
/// All losses are multiples of `gap`, whose differences are exact: terms are positive and right to a few roundings, and so is their
/// sum.
fn shortfall(atoms: &[Atom], singular: f64, knots: &[Edge], gap: f64) -> f64 {
    let (mut mass, mut delta, mut short) =
        (CompensatedSum::default(), CompensatedSum::default(), f64::NEG_INFINITY);
    delta.add(singular);
    let mut next = 0;
    let mut level = f64::NAN;
    // e^from − e^to
    let run = |from: f64, to: f64| from.exp() * -(to - from).exp_m1();
    for knot in knots.iter().rev() {
        let place = (knot.slope.ln() / gap).round() * gap;
        // Down to the knot, past the atoms above it.
        while let Some(&Atom { loss, log_mass }) = atoms.get(next) {
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
    let mut total = CompensatedSum::default();
    terms.for_each(|term| total.add(term));
    total.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tradeoff::TradeoffCurve;

    impl LatticeLaw {
        /// δ of the pair, from its atoms.
        fn delta(&self, epsilon: f64) -> f64 {
            let common: f64 = self.atoms.iter().map(|atom| atom.log_mass.exp()).sum();
            let excesses = self.atoms.iter().filter(|atom| atom.loss > epsilon);
            let part: f64 = excesses
                .map(|atom| atom.log_mass.exp() * -(epsilon - atom.loss).exp_m1())
                .sum();
            (1.0 - common).max(0.0) + self.repair + (1.0 - self.repair) * part
        }
    }

    #[test]
    fn the_excess_bounds_the_distance_from_the_curve_and_is_attained() {
        for curve in [
            TradeoffCurve::gaussian(1.0).unwrap(),
            TradeoffCurve::laplace(0.9).unwrap(),
            TradeoffCurve::gaussian(1.0).unwrap().subsample(0.3).unwrap(),
        ] {
            let envelope = curve.envelope().unwrap();
            for gap in [0.5, 0.125, 1.0 / 64.0] {
                let law = LatticeLaw::new(&envelope, gap);
                let mut largest = 0.0f64;
                for i in -4000..=4000 {
                    let epsilon = f64::from(i) * 1e-3;
                    let (found, exact) = (law.delta(epsilon), curve.delta(epsilon).unwrap());
                    assert!(found >= exact.lower - 1e-15, "{gap} {epsilon} {found} {exact:?}");
                    let above = found - exact.upper;
                    assert!(
                        above <= law.excess() + 1e-15,
                        "{gap} {epsilon} {above} {}",
                        law.excess()
                    );
                    largest = largest.max(above);
                }
                // A bound half as large would not hold.
                assert!(largest > 0.6 * law.excess(), "{gap} {largest} {}", law.excess());
            }
        }
    }

    #[test]
    fn masses_sum_to_one_and_losses_are_on_the_lattice() {
        let envelope = TradeoffCurve::gaussian(1.0).unwrap().envelope().unwrap();
        let law = LatticeLaw::new(&envelope, 0.25);
        let q: f64 = law.atoms.iter().map(|atom| (atom.log_mass - atom.loss).exp()).sum();
        assert!((q - law.common.1).abs() < 1e-14 && law.common.0 <= 1.0 + 1e-14);
        assert!(law.atoms.iter().all(|atom| (atom.loss / 0.25).fract() == 0.0));
        assert!(law.atoms.is_sorted_by(|a, b| a.loss > b.loss));
    }

    #[test]
    fn a_curve_that_reveals_the_hypothesis_stays_one() {
        let envelope = TradeoffCurve::points(&[0.0, 0.0, 1.0], &[1.0, 0.0, 0.0])
            .unwrap()
            .envelope()
            .unwrap();
        let law = LatticeLaw::new(&envelope, 0.25);
        assert_eq!((law.excess(), law.repair), (1.0, 1.0));
    }
}
