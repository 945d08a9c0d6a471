//! Privacy loss of a step with finitely many outcomes: randomised response on one bit, or a law on a lattice.

use crate::loss::smooth::Nodes;
use crate::special::log_space::LogSum;
use crate::step::Direction;

/// A loss with finitely many values, their probabilities under P summing to 1.
#[derive(Debug, Clone)]
pub struct AtomLoss {
    /// Losses, descending, with the logs of their probabilities.
    atoms: Vec<(f64, f64)>,
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
    pub fn response((seen, unseen): (f64, f64), keep: f64, direction: Direction) -> Self {
        let moved = seen * (2.0 * keep - 1.0);
        let (set, unset) = (1.0 - keep, keep);
        let (yes, no) = (unseen * set + seen * keep, unseen * keep + seen * set);
        // No differences of nearly equal numbers, and no logarithms of quotients next to 1.
        let log = |likely: f64, rest: f64| if likely < 0.5 { likely.ln() } else { (-rest).ln_1p() };
        let fall = moved / unset;
        let losses = (
            (moved / set).ln_1p(),
            if fall < 0.5 { (-fall).ln_1p() } else { (no / unset).ln() },
        );
        let atoms = match direction {
            Direction::Remove => vec![(losses.0, log(yes, no)), (losses.1, log(no, yes))],
            Direction::Add => vec![(-losses.1, keep.ln()), (-losses.0, set.ln())],
        };
        Self {
            loss_floor: 0.0,
            ..Self::new(atoms)
        }
    }

    /// One record replaced in a fixed batch of which it is part with probability γ = `seen` (PITFALLS Theorem 14): the
    /// losses above 0 of (1−γ)RR(0) + γRR(1) against RR(0), those below 0 of RR(1) against (1−γ)RR(1) + γRR(0),
    /// and the rest of the mass at 0.
    pub fn replaced_response(seen: f64, keep: f64) -> Self {
        let moved = seen * (2.0 * keep - 1.0);
        let set = 1.0 - keep;
        let mut atoms = vec![((moved / set).ln_1p(), (set + moved).ln())];
        let rest = (1.0 - seen) * (2.0 * keep - 1.0);
        if rest > 0.0 {
            atoms.push((0.0, rest.ln()));
        }
        atoms.push((-(moved / set).ln_1p(), set.ln()));
        Self {
            loss_floor: 0.0,
            ..Self::new(atoms)
        }
    }

    /// The law with these losses, descending, and the logs of their probabilities, which sum to 1.
    pub fn new(atoms: Vec<(f64, f64)>) -> Self {
        Self {
            atoms,
            gap: None,
            loss_floor: 1.0,
        }
    }

    /// A loss with these atoms, all of which are a whole number of `gap` > 0 apart, up to rounding.
    pub fn on_lattice(atoms: Vec<(f64, f64)>, gap: f64) -> Self {
        Self {
            gap: Some(gap),
            ..Self::new(atoms)
        }
    }

    /// What all losses are a whole number of apart, where that is known.
    pub fn gap(&self) -> Option<f64> {
        self.gap
    }

    /// 1 if losses next to 0 may be off by a few units in the last place of 1.
    pub fn floor(&self) -> f64 {
        self.loss_floor
    }

    /// Losses, descending, with the logs of their probabilities.
    pub fn atoms(&self) -> &[(f64, f64)] {
        &self.atoms
    }

    /// K(c) = log E_P[e^{cℓ}], a bound on its error, K'(c) and K''(c).
    pub fn moments(&self, c: f64) -> (f64, f64, f64, f64) {
        let law = self.tilted(c);
        (law.log_moment, law.log_moment_error, law.mean, law.variance)
    }

    /// The loss tilted by e^{cℓ}: its own nodes.
    pub fn tilted(&self, c: f64) -> Nodes {
        let mut sum = LogSum::default();
        let (mut excess, mut error) = (0.0, 0.0); // of E[e^{cℓ}] over 1
        for &(loss, log_mass) in &self.atoms {
            sum.add(c * loss + log_mass);
            let change = log_mass.exp() * (c * loss).exp_m1();
            excess += change;
            error += change.abs() * (4.0 + log_mass.abs() + (c * loss).abs());
        }
        let near_one = excess.abs() < 0.5;
        let log_moment = if near_one { excess.ln_1p() } else { sum.ln() };
        let size = |&(loss, log_mass): &(f64, f64)| (c * loss).abs() + log_mass.abs();
        let largest = self.atoms.iter().map(size).fold(0.0, f64::max);
        let mut law = Nodes {
            c,
            log_moment,
            log_moment_error: 4.0 * f64::EPSILON * if near_one { 2.0 * error } else { 4.0 + largest },
            ..Nodes::default()
        };
        for &(loss, log_mass) in &self.atoms {
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
            .map(|(atom, weight)| weight * (atom.0 - law.mean).powi(2))
            .sum();
        law
    }

    /// log of an upper bound on P(ℓ > `level`).
    pub fn log_mass_above(&self, level: f64) -> f64 {
        let mut mass = LogSum::default();
        for &(loss, log_mass) in &self.atoms {
            if loss + 8.0 * f64::EPSILON * (loss.abs() + self.loss_floor) > level {
                mass.add(log_mass);
            }
        }
        (mass.ln() + 1e-12).min(0.0)
    }

    /// δ of one step at ε, and a bound on its error.
    pub fn one_step(&self, epsilon: f64) -> (f64, f64) {
        let (mut value, mut error) = (0.0, 0.0);
        for &(loss, log_mass) in &self.atoms {
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
        (value, error)
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
                    let p: f64 = loss.atoms().iter().map(|atom| atom.1.exp()).sum();
                    let q: f64 = loss.atoms().iter().map(|atom| (atom.1 - atom.0).exp()).sum();
                    assert!(
                        (p - 1.0).abs() < 1e-14 && (q - 1.0).abs() < 1e-14,
                        "{keep} {seen} {p} {q}"
                    );
                    assert!(loss.atoms().is_sorted_by(|a, b| a.0 > b.0));
                }
            }
        }
    }

    #[test]
    fn a_replaced_bit_that_is_always_seen_is_randomised_response_itself() {
        let loss = AtomLoss::replaced_response(1.0, 0.75);
        let (value, error) = loss.one_step(0.5);
        assert!((value - (0.75 - 0.5f64.exp() * 0.25)).abs() < 1e-15 && error < 1e-13);
        assert_eq!(loss.atoms().len(), 2);
    }
}
