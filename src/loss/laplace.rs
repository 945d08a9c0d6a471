//! Privacy loss of the one-dimensional Laplace mechanism under Poisson sampling (`docs/theory/dominating-pairs.md`).
//!
//! With noise of scale b the ratio of the mixture Σ w_j Lap(j, b) to Lap(0, b) is constant left of 0 and right of
//! k, and A_j + B_j e^{2x/b} on [j, j + 1]: the loss has two atoms and k smooth pieces.
//!
//! A record replaced in a fixed batch takes the outputs on one side of the middle twice: once for each [`Branch`].

use crate::approx::Approx;
use crate::loss::laplace_sums::{Knot, knots};
use crate::loss::loss_curve::Atom;
use crate::loss::max_loss::MaxLoss;
use crate::step::{Direction, GroupLaw};

/// The outputs from a whole number on, of one of the two pairs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch {
    /// "add" or "remove".
    pub direction: Direction,
    /// The first of its pieces.
    pub first: usize,
}

/// Mixture of Laplace distributions against the one at 0.
#[derive(Debug, Clone)]
pub(crate) struct LaplaceLoss {
    pub(crate) scale: f64,
    pub(crate) branches: Vec<Branch>,
    /// Atoms of the loss, ascending.
    pub(crate) atoms: Vec<Atom>,
    /// The logs of the weights of 0, 1, …, k.
    pub(crate) log_weights: Vec<f64>,
    /// The ratio r at 0, 1, …, k.
    pub(crate) knots: Vec<Knot>,
    /// The largest loss, rounded up, as the sum of a number and a small one.
    pub(crate) max_loss: MaxLoss,
    /// Densities that moments took so far.
    pub(crate) work: u64,
}

impl LaplaceLoss {
    /// The loss of `law`, whose shifts must be whole numbers from 0 on, at noise of scale b > 0.
    pub(crate) fn new(law: &GroupLaw, scale: f64, direction: Direction) -> Self {
        let last = law.shifts().last().copied().unwrap_or(0.0) as usize;
        let mut weights = vec![f64::NEG_INFINITY; last + 1];
        for (log_weight, shift) in law.log_weights().iter().zip(law.shifts()) {
            weights[*shift as usize] = *log_weight;
        }
        let knots = knots(&weights, scale);
        let first = Branch { direction, first: 0 };
        let mut loss = Self {
            scale,
            branches: vec![first],
            atoms: Vec::new(),
            log_weights: weights,
            knots,
            max_loss: MaxLoss::NOTHING,
            work: 0,
        };
        loss.atoms = match direction {
            Direction::Remove => vec![loss.lowest(direction), loss.highest(direction)],
            Direction::Add => vec![loss.highest(direction), loss.lowest(direction)],
        };
        loss.max_loss = match (law.shifts(), direction) {
            ([shift], _) => MaxLoss::quotient(*shift, scale),
            (_, Direction::Remove) => loss.max_loss_at(last),
            (_, Direction::Add) => loss.max_loss_at(0),
        };
        loss
    }

    /// One record replaced in a fixed batch of which it is part with probability γ = `seen` in (0, 1), at noise of scale b in
    /// units of half the distance of the two answers (PITFALLS Theorem 14 and §8): the hockey-stick curve is that of
    /// (1−γ)Lap(0) + γLap(2) against Lap(0) for ε ≥ 0 and that of Lap(0) against the mixture for ε < 0.
    ///
    /// As for Gaussian noise (`StepLoss::replace_fixed_batch`) this is the law of the first pair above 0, that of the second
    /// below 0, and the rest of the mass at 0. Both ratios pass through 1 at x = 1. With a = P(Lap(0) > 1) = e^{−1/b}/2,
    /// P(ℓ > 0) = (1−γ)a + γ(1−a) and P(ℓ < 0) = a, which leaves (1−γ)(1 − e^{−1/b}).
    pub(crate) fn replaced(seen: f64, scale: f64) -> Self {
        let weights = vec![(-seen).ln_1p(), f64::NEG_INFINITY, seen.ln()];
        let mut knots = knots(&weights, scale);
        // r(1) = (1 − γ) + γ, which logarithms would round.
        let nothing = Approx::default();
        (knots[1].excess, knots[1].log_ratio) = (nothing, nothing);
        let both = [Direction::Add, Direction::Remove];
        let mut loss = Self {
            scale,
            branches: both.map(|direction| Branch { direction, first: 1 }).to_vec(),
            atoms: Vec::new(),
            log_weights: weights,
            knots,
            max_loss: MaxLoss::NOTHING,
            work: 0,
        };
        let still = (-seen).ln_1p() + (-(-1.0 / scale).exp_m1()).ln();
        loss.atoms = vec![
            loss.highest(Direction::Add),
            Atom::new(0.0, still),
            loss.highest(Direction::Remove),
        ];
        loss.max_loss = loss.max_loss_at(2);
        loss
    }

    /// Adds the logarithms and exponentials of `nodes`.
    pub(crate) fn add_work(&mut self, nodes: usize) {
        self.work += 10 * nodes as u64;
    }

    /// b.
    pub(crate) fn scale(&self) -> f64 {
        self.scale
    }

    /// Which outputs have losses other than those of the atoms.
    pub(crate) fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Number of smooth pieces, [j, j + 1] for j below it.
    pub(crate) fn pieces(&self) -> usize {
        self.knots.len() - 1
    }

    /// log r and its derivative at x in [j, j + 1].
    pub(crate) fn log_ratio(&self, j: usize, x: f64) -> (f64, f64) {
        let (log_ratio, rising) = self.knots[j].log_ratio_at(x, x - j as f64, self.scale);
        (log_ratio, 2.0 / self.scale * (rising - log_ratio).exp())
    }

    /// A bound on the error of the log ratio that [`LaplaceLoss::log_ratio`] found.
    pub(crate) fn log_ratio_error(&self, j: usize, x: f64, log_ratio: f64) -> f64 {
        self.knots[j].log_ratio_error(x, x - j as f64, self.scale, log_ratio)
    }

    /// A bound on the errors of the losses of the atoms.
    pub(crate) fn atom_error(&self) -> f64 {
        let ends = [self.knots.first(), self.knots.last()];
        ends.into_iter()
            .flatten()
            .map(|knot| knot.log_ratio.error)
            .fold(0.0, f64::max)
    }

    /// Atoms of the loss, ascending.
    pub(crate) fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    /// |log r| at the whole number j, where it is largest.
    fn max_loss_at(&self, j: usize) -> MaxLoss {
        let Approx { value, error } = self.knots[j].log_ratio;
        let bound = (value.abs() + error) * (1.0 + f64::EPSILON);
        MaxLoss::within(bound, 2.0 * self.atom_error() + 4.0 * f64::EPSILON * bound)
    }

    /// The outputs below 0.
    pub(crate) fn lowest(&self, direction: Direction) -> Atom {
        let (level, mass) = (self.knots[0].log_ratio.value, 0.5f64.ln());
        match direction {
            Direction::Remove => Atom::new(level, mass + level),
            Direction::Add => Atom::new(-level, mass),
        }
    }

    /// The outputs above k.
    pub(crate) fn highest(&self, direction: Direction) -> Atom {
        let last = self.pieces();
        let mass = 0.5f64.ln() - last as f64 / self.scale;
        let level = self.knots[last].log_ratio.value;
        match direction {
            Direction::Remove => Atom::new(level, mass + level),
            Direction::Add => Atom::new(-level, mass),
        }
    }

    /// log of the density of P at x ≥ 0 with log ratio u.
    pub(crate) fn log_density(&self, direction: Direction, x: f64, log_ratio: f64) -> f64 {
        let noise = -(2.0 * self.scale).ln() - x / self.scale;
        match direction {
            Direction::Remove => noise + log_ratio,
            Direction::Add => noise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::privacy_loss::PrivacyLoss;

    fn removed(records: u64, rate: f64, scale: f64) -> LaplaceLoss {
        LaplaceLoss::new(&GroupLaw::binomial(records, rate).unwrap(), scale, Direction::Remove)
    }

    /// Without sampling the largest loss is k/b; with it, log r(k) or −log r(0) (mpmath:
    /// log(sum(binomial(3,j)*q**j*(1-q)**(3-j)*exp((3-abs(3-j))/b) for j in range(4))) and its like at 0, q = mpf(0.1), b =
    /// mpf(0.7)).
    #[test]
    fn the_largest_loss_is_bounded_closely_and_no_lower() {
        let whole = removed(3, 1.0, 0.25);
        assert_eq!((whole.max_loss().rounded_up(), whole.max_loss().slack), (12.0, 0.0));
        let law = GroupLaw::binomial(3, 0.1).unwrap();
        for (direction, exact) in [
            (Direction::Remove, 0.826_691_956_183_630_7),
            (Direction::Add, 0.237_242_924_017_455_12),
        ] {
            let loss = LaplaceLoss::new(&law, 0.7, direction);
            let (most, slack) = (loss.max_loss().rounded_up(), loss.max_loss().slack);
            assert!(most >= exact && most - slack <= exact, "{direction:?} {most} {slack}");
            assert!(slack <= 2e-14, "{slack}");
            // P has that loss beyond the outermost knot.
            let log_mass = match direction {
                Direction::Remove => 0.5f64.ln() - 3.0 / 0.7 + exact,
                Direction::Add => 0.5f64.ln(),
            };
            let found = loss.log_mass_of_max_loss();
            assert!(found <= log_mass && log_mass - found <= 1e-14, "{direction:?} {found}");
        }
    }

    /// One record of which both halves of the batch's law are used: the atoms and both branches have mass 1 under P and under Q.
    #[test]
    fn a_replaced_record_leaves_no_mass_out() {
        let mut loss = LaplaceLoss::replaced(0.3, 0.9);
        let at = |loss: &mut LaplaceLoss, c: f64| {
            let nodes = loss.nodes(c, 0.0);
            (nodes.log_moment, nodes.weights.iter().sum::<f64>())
        };
        let (log_mass, weights) = at(&mut loss, 0.0);
        assert!(log_mass.value.abs() <= log_mass.error && log_mass.error < 1e-13 && (weights - 1.0).abs() < 1e-13);
        // E_P[e^{−ℓ}] is Q's mass; tilts end above −1.
        let (log_mass, _) = at(&mut loss, -1.0 + 1e-12);
        assert!(log_mass.value.abs() <= log_mass.error + 1e-12, "{log_mass:?}");
        assert!(loss.atoms().is_sorted_by(|a, b| a.loss < b.loss));
        assert_eq!(loss.atoms()[1].loss, 0.0);
    }
}
