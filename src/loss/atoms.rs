//! Privacy loss of a step with finitely many outcomes: randomised response on one bit, or a law on a lattice.

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::characteristic_function::smooth_changes;
use crate::loss::loss_curve::{Atom, Support};
use crate::loss::max_loss::MaxLoss;
use crate::loss::nodes::Nodes;
use crate::loss::privacy_loss::Effort;
use crate::loss::privacy_loss::{PrivacyLoss, TiltedLoss, TiltedMoments};
use crate::loss::privacy_loss::{StepLoss, rounded_up};
use crate::special::log_space::LogSum;
use crate::step::{Direction, GroupLaw};
use realfft::num_complex::Complex64;

/// A loss with finitely many values, their probabilities under P summing to 1.
#[derive(Debug, Clone)]
pub(crate) struct AtomLoss {
    /// By loss, descending.
    atoms: Vec<Atom>,
    /// All losses are a whole number of this apart, up to rounding, where that is known.
    gap: Option<f64>,
    /// Losses are right to a few units in the last place of themselves and of this: 0 where they keep their digits next to 0.
    loss_floor: f64,
}

impl AtomLoss {
    /// Randomised response whose bit is set if a member of the group is in the batch, which one is with probability s = `seen`
    /// in (0, 1] and none with `unseen` = 1 − s; the answer is true with probability p (`docs/theory/dominating-pairs.md`).
    ///
    /// The outcome 1 has probability 1 − p under Q and (1 − s)(1 − p) + sp under P; "add" exchanges P and Q.
    pub(crate) fn response((seen, unseen): (f64, f64), keep: f64, direction: Direction) -> Self {
        let revealed = seen * (2.0 * keep - 1.0);
        let (set, unset) = (1.0 - keep, keep);
        let (yes, no) = (unseen * set + seen * keep, unseen * keep + seen * set);
        // No differences of nearly equal numbers, and no logarithms of quotients next to 1.
        let log = |likely: f64, rest: f64| if likely < 0.5 { likely.ln() } else { (-rest).ln_1p() };
        let fall = revealed / unset;
        let losses = (
            (revealed / set).ln_1p(),
            if fall < 0.5 { (-fall).ln_1p() } else { (no / unset).ln() },
        );
        let atoms = match direction {
            Direction::Remove => vec![Atom::new(losses.0, log(yes, no)), Atom::new(losses.1, log(no, yes))],
            Direction::Add => vec![Atom::new(-losses.1, keep.ln()), Atom::new(-losses.0, set.ln())],
        };
        Self {
            loss_floor: 0.0,
            ..Self::new(atoms)
        }
    }

    /// Records replaced of which one is in the batch with probability γ = `seen` (PITFALLS Theorem 14): the
    /// losses above 0 of (1−γ)RR(0) + γRR(1) against RR(0), those below 0 of RR(1) against (1−γ)RR(1) + γRR(0),
    /// and the rest of the mass at 0.
    pub(crate) fn replaced_response(seen: f64, keep: f64) -> Self {
        let revealed = seen * (2.0 * keep - 1.0);
        let set = 1.0 - keep;
        let mut atoms = vec![Atom::new((revealed / set).ln_1p(), (set + revealed).ln())];
        let rest = (1.0 - seen) * (2.0 * keep - 1.0);
        if rest > 0.0 {
            atoms.push(Atom::new(0.0, rest.ln()));
        }
        atoms.push(Atom::new(-(revealed / set).ln_1p(), set.ln()));
        Self {
            loss_floor: 0.0,
            ..Self::new(atoms)
        }
    }

    /// The law with these atoms, by loss, descending, whose probabilities sum to 1.
    pub(crate) fn new(atoms: Vec<Atom>) -> Self {
        Self {
            atoms,
            gap: None,
            loss_floor: 1.0,
        }
    }

    /// A loss with these atoms, all of which are a whole number of `gap` > 0 apart, up to rounding.
    pub(crate) fn on_lattice(atoms: Vec<Atom>, gap: f64) -> Self {
        Self {
            gap: Some(gap),
            ..Self::new(atoms)
        }
    }

    /// The loss tilted by e^{cℓ}: its own nodes.
    pub(crate) fn nodes(&self, c: f64) -> Nodes {
        let mut sum = LogSum::default();
        let (mut excess, mut error) = (0.0, 0.0); // of E[e^{cℓ}] over 1
        for &Atom { loss, log_mass } in &self.atoms {
            sum.add(c * loss + log_mass);
            let change = log_mass.exp() * (c * loss).exp_m1();
            excess += change;
            error += change.abs() * (4.0 + log_mass.abs() + (c * loss).abs());
        }
        let near_one = excess.abs() < 0.5;
        let log_moment = if near_one { excess.ln_1p() } else { sum.ln() };
        let size = |&Atom { loss, log_mass }: &Atom| (c * loss).abs() + log_mass.abs();
        let largest = self.atoms.iter().map(size).fold(0.0, f64::max);
        let mut law = Nodes {
            c,
            log_moment: Approx::new(
                log_moment,
                4.0 * f64::EPSILON * if near_one { 2.0 * error } else { 4.0 + largest },
            ),
            ..Nodes::default()
        };
        for &Atom { loss, log_mass } in &self.atoms {
            let weight = (c * loss + log_mass - log_moment).exp();
            let rounding = 4.0 * f64::EPSILON * (4.0 + log_mass.abs() + (c * loss).abs() + log_moment.abs());
            law.losses.push(loss);
            law.weights.push(weight);
            law.mean += weight * loss;
            law.mean_size += weight * loss.abs();
            law.loss_rounding += weight * 4.0 * f64::EPSILON * loss.abs();
            law.weight_rounding.0 += weight * rounding;
            law.weight_rounding.1 += weight * rounding * loss.abs();
        }
        law.variance = self
            .atoms
            .iter()
            .zip(&law.weights)
            .map(|(atom, weight)| weight * (atom.loss - law.mean).powi(2))
            .sum();
        law
    }

    /// δ of one step at ε.
    fn delta(&self, epsilon: f64) -> Approx {
        let (mut value, mut error) = (0.0, 0.0);
        for &Atom { loss, log_mass } in &self.atoms {
            let gap = loss - epsilon;
            let wrong = 4.0 * f64::EPSILON * (4.0 * self.loss_floor + 2.0 * loss.abs() + gap.abs());
            let mass = log_mass.exp();
            if gap > 0.0 {
                let part = mass * -(-gap).exp_m1();
                value += part;
                error += part * 4.0 * f64::EPSILON * (4.0 + log_mass.abs());
            }
            if gap > -wrong {
                error += mass * wrong;
            }
        }
        Approx::new(value, error)
    }
}

impl StepLoss {
    /// Randomised response on a bit that is set if a member of the group is in the batch, by the law of their count.
    pub fn response(law: &GroupLaw, keep: f64, direction: Direction) -> Option<Self> {
        let log_unseen = law.log_probability_of_zero();
        let (seen, unseen) = (-log_unseen.exp_m1(), log_unseen.exp());
        (seen > 0.0).then(|| Self::new(AtomLoss::response((seen, unseen), keep, direction)))
    }

    /// Randomised response on that bit where records are replaced, in a fixed batch (PITFALLS Theorem 14) or in a Poisson sample
    /// (`docs/theory/dominating-pairs.md`, Theorem 8).
    pub fn replaced_response(law: &GroupLaw, keep: f64) -> Option<Self> {
        let seen = -law.log_probability_of_zero().exp_m1();
        (seen > 0.0).then(|| Self::new(AtomLoss::replaced_response(seen, keep)))
    }
}

impl PrivacyLoss for AtomLoss {
    fn moments(&mut self, c: f64, _: f64) -> TiltedMoments {
        self.nodes(c).moments()
    }

    fn tilted(&mut self, c: f64, _: f64) -> Box<dyn TiltedLoss + '_> {
        Box::new(TiltedAtoms(self.nodes(c)))
    }

    fn support(&mut self, _: f64, _: f64) -> Support<'_> {
        Support {
            sweeps: Vec::new(),
            atoms: self.atoms.clone(),
            fine: None,
            outside: 0.0,
        }
    }

    fn one_step(&self, epsilon: f64, _: f64, _: &mut Effort) -> Enclosure {
        let delta = self.delta(epsilon);
        Enclosure::of_logs(delta.lower().max(0.0).ln(), delta.upper().ln())
    }

    fn truncated(&self, _: f64) -> (StepLoss, f64) {
        (StepLoss::new(self.clone()), f64::NEG_INFINITY)
    }

    fn density_terms(&self) -> usize {
        0
    }

    fn max_loss(&self) -> MaxLoss {
        let loss = self.atoms[0].loss;
        let slack = 16.0 * f64::EPSILON * (loss.abs() + self.loss_floor);
        MaxLoss::within(rounded_up(loss), slack)
    }

    fn log_mass_of_max_loss(&self) -> f64 {
        self.atoms[0].log_mass
    }

    fn log_mass_above(&self, level: f64) -> f64 {
        /// Room for the rounding of the sum.
        const ROOM: f64 = 1e-12;
        let mut mass = LogSum::default();
        for &Atom { loss, log_mass } in &self.atoms {
            if loss + 8.0 * f64::EPSILON * (loss.abs() + self.loss_floor) > level {
                mass.add(log_mass);
            }
        }
        (mass.ln() + ROOM).min(0.0)
    }

    fn outcomes(&self) -> Option<&[Atom]> {
        Some(&self.atoms)
    }

    fn lattice_gap(&self) -> Option<f64> {
        self.gap
    }

    /// More than three atoms are rarely on any common grid.
    fn atom_gap(&self) -> Option<f64> {
        (2..=3)
            .contains(&self.atoms.len())
            .then(|| self.atoms[0].loss - self.atoms[1].loss)
    }
}

/// A law with finitely many outcomes, tilted: its characteristic function never decays, so that other losses of a run have to.
struct TiltedAtoms(Nodes);

impl TiltedLoss for TiltedAtoms {
    fn moments(&self) -> TiltedMoments {
        self.0.moments()
    }

    fn size(&self) -> usize {
        self.0.losses.len()
    }

    fn log_decay(&mut self, _: f64) -> f64 {
        0.0
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        smooth_changes(&self.0, spacing, last, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one_under_both_laws() {
        for keep in [0.5 + 1e-9, 0.6, 0.99] {
            for seen in [1e-6, 0.3, 1.0] {
                for loss in [
                    AtomLoss::response((seen, 1.0 - seen), keep, Direction::Remove),
                    AtomLoss::response((seen, 1.0 - seen), keep, Direction::Add),
                    AtomLoss::replaced_response(seen, keep),
                ] {
                    let p: f64 = loss.atoms.iter().map(|atom| atom.log_mass.exp()).sum();
                    let q: f64 = loss.atoms.iter().map(|atom| (atom.log_mass - atom.loss).exp()).sum();
                    assert!(
                        (p - 1.0).abs() < 1e-14 && (q - 1.0).abs() < 1e-14,
                        "{keep} {seen} {p} {q}"
                    );
                    assert!(loss.atoms.is_sorted_by(|a, b| a.loss > b.loss));
                }
            }
        }
    }

    #[test]
    fn a_replaced_bit_that_is_always_seen_is_randomised_response_itself() {
        let loss = AtomLoss::replaced_response(1.0, 0.75);
        let Approx { value, error } = loss.delta(0.5);
        assert!((value - (0.75 - 0.5f64.exp() * 0.25)).abs() < 1e-15 && error < 1e-13);
        assert_eq!(loss.atoms.len(), 2);
    }
}
