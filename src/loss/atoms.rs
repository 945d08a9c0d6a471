//! Privacy loss of a step with finitely many outcomes: randomised response on one bit, or a law on a lattice.

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::characteristic_function::smooth_changes;
use crate::loss::loss_curve::{Atom, Support};
use crate::loss::max_loss::MaxLoss;
use crate::loss::nodes::Nodes;
use crate::loss::one_step;
use crate::loss::privacy_loss::Effort;
use crate::loss::privacy_loss::{PrivacyLoss, TiltedLoss, TiltedMoments};
use crate::loss::privacy_loss::{StepLoss, rounded_up};
use crate::special::compensated_sum::CompensatedSum;
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

    /// Records replaced of which one is in the batch with probability γ = `seen` and none with `unseen` = 1 − γ (PITFALLS Theorem 14): the
    /// losses above 0 of (1−γ)RR(0) + γRR(1) against RR(0), those below 0 of RR(1) against (1−γ)RR(1) + γRR(0),
    /// and the rest of the mass at 0.
    pub(crate) fn replaced_response((seen, unseen): (f64, f64), keep: f64) -> Self {
        let revealed = seen * (2.0 * keep - 1.0);
        let set = 1.0 - keep;
        let mut atoms = vec![Atom::new((revealed / set).ln_1p(), (set + revealed).ln())];
        let rest = unseen * (2.0 * keep - 1.0);
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
        // The largest term, by which all are divided; there may be very many, so that both sums carry what additions round off.
        let terms = self.atoms.iter().map(|atom| c * atom.loss + atom.log_mass);
        let largest_term = terms.fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut excess) = (CompensatedSum::default(), CompensatedSum::default()); // E[e^{cℓ}], and what it is over 1
        let mut error = 0.0;
        let of_floor = c.abs() * self.loss_floor;
        for &Atom { loss, log_mass } in &self.atoms {
            sum.add((c * loss + log_mass - largest_term).exp());
            let change = log_mass.exp() * (c * loss).exp_m1();
            excess.add(change);
            error += change.abs() * (4.0 + log_mass.abs() + (c * loss).abs());
            error += (c * loss + log_mass).exp() * of_floor;
        }
        let excess = excess.value();
        let near_one = excess.abs() < 0.5;
        let log_moment = if near_one {
            excess.ln_1p()
        } else {
            largest_term + sum.value().ln()
        };
        let size = |&Atom { loss, log_mass }: &Atom| (c * loss).abs() + log_mass.abs();
        let largest = self.atoms.iter().map(size).fold(0.0, f64::max);
        let of_sum = 4.0 + largest + of_floor + largest_term.abs();
        let mut law = Nodes {
            c,
            log_moment: Approx::new(
                log_moment,
                4.0 * f64::EPSILON * if near_one { 2.0 * error } else { of_sum },
            ),
            ..Nodes::default()
        };
        for &Atom { loss, log_mass } in &self.atoms {
            let weight = (c * loss + log_mass - log_moment).exp();
            let size = 4.0 + log_mass.abs() + (c * loss).abs() + log_moment.abs();
            let rounding = 4.0 * f64::EPSILON * (size + of_floor);
            law.losses.push(loss);
            law.weights.push(weight);
            law.mean += weight * loss;
            law.mean_size += weight * loss.abs();
            law.loss_rounding += weight * 4.0 * f64::EPSILON * (loss.abs() + self.loss_floor);
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
        let (mut value, mut error) = (CompensatedSum::default(), 0.0);
        for &Atom { loss, log_mass } in &self.atoms {
            let gap = loss - epsilon;
            let wrong = 4.0 * f64::EPSILON * (4.0 * self.loss_floor + 2.0 * loss.abs() + gap.abs());
            let mass = log_mass.exp();
            if gap > 0.0 {
                let part = mass * -(-gap).exp_m1();
                value.add(part);
                error += part * 4.0 * f64::EPSILON * (4.0 + log_mass.abs());
            }
            if gap > -wrong {
                error += mass * wrong;
            }
        }
        Approx::new(value.value(), error)
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
        let log_unseen = law.log_probability_of_zero();
        let (seen, unseen) = (-log_unseen.exp_m1(), log_unseen.exp());
        (seen > 0.0).then(|| Self::new(AtomLoss::replaced_response((seen, unseen), keep)))
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
        one_step::of_rounded_logs(delta.lower().max(0.0).ln(), delta.upper().ln())
    }

    fn truncated(&self, _: f64, _steps: f64) -> (StepLoss, f64) {
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
        /// Room for the rounding of the sum, besides a unit in the last place for each term and for the logarithms.
        const ROOM: f64 = 1e-12;
        let mut mass = LogSum::default();
        for &Atom { loss, log_mass } in &self.atoms {
            if loss + 8.0 * f64::EPSILON * (loss.abs() + self.loss_floor) > level {
                mass.add(log_mass);
            }
        }
        let log = mass.ln();
        let rounding = if log.is_finite() {
            f64::EPSILON * (self.atoms.len() as f64 + 4.0 * log.abs())
        } else {
            0.0
        };
        (log + ROOM + rounding).min(0.0)
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
                    AtomLoss::replaced_response((seen, 1.0 - seen), keep),
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

    /// δ(0) = q(2p − 1), in which a unit in the last place of log δ is 10⁻¹³ of δ.
    #[test]
    fn the_logarithm_of_a_far_tail_is_rounded_outwards() {
        for i in 0..300 {
            let rate = 1e-290 * (1.0 + 0.37 * f64::from(i));
            let law = GroupLaw::binomial(1, rate).unwrap();
            let found = StepLoss::response(&law, 0.6, Direction::Remove).unwrap();
            let found = found.one_step(0.0, 1e-10, &mut Effort::default());
            let exact = rate * (2.0 * 0.6 - 1.0);
            assert!(
                found.lower() <= exact && exact <= found.upper(),
                "{rate}: {found:?} {exact}"
            );
            assert!(found.width() < 1e-11, "{rate}: {found:?}");
        }
    }

    /// Losses on a lattice are right to a unit in the last place of 1 only: the moment of two atoms at ±2⁻⁶⁰ with all of the room for it.
    #[test]
    fn what_losses_are_off_by_counts_in_moments() {
        let tiny = 0.5f64.powi(60);
        let atoms = || vec![Atom::new(tiny, 0.5f64.ln()), Atom::new(-tiny, 0.5f64.ln())];
        let off = 4.0 * f64::EPSILON;
        for c in [1.0, 100.0] {
            let moved = c * off;
            let found = AtomLoss::new(atoms()).nodes(c).log_moment;
            assert!(
                moved <= found.upper() && found.error < 4.0 * moved,
                "{c}: {found:?} {moved}"
            );
            let law = AtomLoss::new(atoms()).nodes(c);
            assert!(law.loss_rounding >= off * 0.99);
        }
    }

    /// One outcome and 2^18 others of probability 2⁻⁵⁴, each of which is less than half of a unit in the last place of the sum. All have
    /// the same loss, so that K(c) is c times that.
    #[test]
    fn moments_of_very_many_atoms_keep_their_digits() {
        let (count, rare, rest) = (1usize << 18, 0.5f64.powi(54), 0.5f64.powi(36));
        let mut atoms = vec![Atom::new(3.0, (-rest).ln_1p())];
        atoms.resize(count + 1, Atom::new(3.0, rare.ln()));
        let loss = AtomLoss::new(atoms);
        for c in [0.1, 1.0] {
            let found = loss.nodes(c).log_moment;
            assert!(
                (found.value - 3.0 * c).abs() <= found.error && found.error < 1e-13,
                "{c}: {found:?}"
            );
        }
    }

    #[test]
    fn a_replaced_bit_that_is_always_seen_is_randomised_response_itself() {
        let loss = AtomLoss::replaced_response((1.0, 0.0), 0.75);
        let Approx { value, error } = loss.delta(0.5);
        assert!((value - (0.75 - 0.5f64.exp() * 0.25)).abs() < 1e-15 && error < 1e-13);
        assert_eq!(loss.atoms.len(), 2);
    }
}
