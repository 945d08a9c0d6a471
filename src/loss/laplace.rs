//! Privacy loss of the one-dimensional Laplace mechanism under Poisson sampling (`docs/theory/dominating-pairs.md`).
//!
//! With noise of scale b the ratio of the mixture Σ w_j Lap(j, b) to Lap(0, b) is constant left of 0 and right of
//! k, and A_j + B_j e^{2x/b} on [j, j + 1]: the loss has two atoms and k smooth pieces.
//!
//! A record replaced in a fixed batch takes the outputs on one side of the middle twice: once for each [`Branch`]. So do records
//! replaced in a Poisson sample, whose pair is its own mirror image.

use crate::approx::Approx;
use crate::loss::fixed_rule::FixedRule;
use crate::loss::laplace_sums::{Knot, knots, over_first};
use crate::loss::loss_curve::Atom;
use crate::loss::max_loss::MaxLoss;
use crate::special::gauss_legendre::NODES;
use crate::step::{Direction, GroupLaw};
use std::sync::{Arc, OnceLock};

/// The outputs from a whole number on, of one of the two pairs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch {
    /// "add" or "remove".
    pub direction: Direction,
    /// The first of its pieces.
    pub first: usize,
}

/// A rule of fixed nodes for moments, and the largest change of the loss on one of its panels.
#[derive(Debug)]
pub(crate) struct LaplaceRule {
    pub(crate) rule: FixedRule,
    pub(crate) change: f64,
}

/// What a truncated loss lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    /// What its weights lack of 1.
    pub(crate) weight: Approx,
    /// The probabilities under P and Q of what is left out.
    pub(crate) p: Approx,
    pub(crate) q: Approx,
    /// log of a bound on P's.
    pub(crate) log_p: f64,
}

/// Mixture of Laplace distributions against the one at 0.
#[derive(Debug, Clone)]
pub(crate) struct LaplaceLoss {
    pub(crate) scale: f64,
    pub(crate) branches: Vec<Branch>,
    /// Atoms of the loss, ascending.
    pub(crate) atoms: Vec<Atom>,
    /// The logs of the weights of 0, 1, …, k, over the factor of `mirrored`.
    pub(crate) log_weights: Vec<f64>,
    /// The ratio r at 0, 1, …, k.
    pub(crate) knots: Vec<Knot>,
    /// For a pair that is its own mirror image, the log of the factor by which the other density right of 0 exceeds that of Lap(0, b).
    pub(crate) mirrored: Option<Approx>,
    /// The largest loss, rounded up, as the sum of a number and a small one.
    pub(crate) max_loss: MaxLoss,
    /// Densities that moments took so far.
    pub(crate) work: u64,
    /// What is left out of it ([`crate::loss::laplace_truncation`]).
    pub(crate) missing: Option<Missing>,
    /// Nodes by which moments are estimated, shared by all copies, once they were asked for.
    pub(crate) fixed_rule: Arc<OnceLock<LaplaceRule>>,
}

impl LaplaceLoss {
    /// The loss of `law`, whose shifts must be whole numbers from 0 on, at noise of scale b > 0.
    pub(crate) fn new(law: &GroupLaw, scale: f64, direction: Direction) -> Self {
        let weights = weights_of_whole_numbers(law);
        let last = weights.len() - 1;
        let knots = knots(&weights, scale);
        let mut loss = Self::of(scale, (&[direction], 0), weights, knots);
        loss.atoms = match direction {
            Direction::Remove => vec![loss.lowest(direction), loss.highest(direction)],
            Direction::Add => vec![loss.highest(direction), loss.lowest(direction)],
        };
        if let [shift] = law.shifts() {
            // One shift is certain: P has the largest loss with probability 1/2, and sums that nearly cancel are no better.
            loss.atoms[1] = Atom::new(*shift / scale, 0.5f64.ln());
        }
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
        Self::replaced_or_not((seen, (-seen).ln_1p()), scale)
    }

    /// The same with log(1 − γ) as it is known, which 1 − γ has no digits of where γ is next to 1.
    pub(crate) fn replaced_or_not((seen, log_unseen): (f64, f64), scale: f64) -> Self {
        let weights = vec![log_unseen, f64::NEG_INFINITY, seen.ln()];
        let mut knots = knots(&weights, scale);
        // r(1) = (1 − γ) + γ, which logarithms would round.
        let nothing = Approx::default();
        (knots[1].excess, knots[1].log_ratio) = (nothing, nothing);
        let mut loss = Self::of(scale, (&[Direction::Add, Direction::Remove], 1), weights, knots);
        let still = log_unseen + (-(-1.0 / scale).exp_m1()).ln();
        loss.atoms = vec![
            loss.highest(Direction::Add),
            Atom::new(0.0, still),
            loss.highest(Direction::Remove),
        ];
        loss.max_loss = loss.max_loss_at(2);
        loss
    }

    /// Records replaced in a Poisson sample, at noise of scale b: Σ w_j Lap(j) against Σ w_j Lap(−j), w and the whole shifts those of
    /// `law` (`docs/theory/dominating-pairs.md`, Theorem 7).
    ///
    /// Right of 0 the density of the second is C·e^{−x/b}/2b with C = Σ w_j e^{−j/b} = r(0), so that the ratio is r(x)/C. At −x it
    /// is the inverse of that at x. The losses of the outputs right of 0 are those of "remove" for the weights w_j/C, those left of 0
    /// the ones of "add", and all densities have the factor C.
    pub(crate) fn mirrored(law: &GroupLaw, scale: f64) -> Self {
        let weights = weights_of_whole_numbers(law);
        let last = weights.len() - 1;
        let (knots, factor) = over_first(knots(&weights, scale), scale);
        let both = [Direction::Add, Direction::Remove];
        let weights = weights.iter().map(|weight| weight - factor.value).collect();
        let mut loss = Self::of(scale, (&both, 0), weights, knots);
        loss.mirrored = Some(factor);
        loss.atoms = both.map(|direction| loss.highest(direction)).to_vec();
        loss.max_loss = loss.max_loss_at(last);
        loss
    }

    /// A loss with branches in these directions from a whole number on, whose atoms and largest loss are still to be found.
    fn of(
        scale: f64,
        (directions, first): (&[Direction], usize),
        log_weights: Vec<f64>,
        knots: Vec<Knot>,
    ) -> Self {
        let branch = |&direction: &Direction| Branch { direction, first };
        Self {
            scale,
            branches: directions.iter().map(branch).collect(),
            atoms: Vec::new(),
            log_weights,
            knots,
            mirrored: None,
            max_loss: MaxLoss::NOTHING,
            work: 0,
            missing: None,
            fixed_rule: Arc::default(),
        }
    }

    /// log of the factor of the densities, which is 1 but for mirrored pairs.
    pub(crate) fn log_factor(&self) -> Approx {
        self.mirrored.unwrap_or_default()
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

    /// log r with its error at the nodes of a panel of [j, j + 1].
    pub(crate) fn log_ratios(&self, j: usize, nodes: &[f64; NODES]) -> [Approx; NODES] {
        self.knots[j].log_ratios(nodes, j, self.scale)
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
    pub(crate) fn max_loss_at(&self, j: usize) -> MaxLoss {
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
        let mass = 0.5f64.ln() - last as f64 / self.scale + self.log_factor().value;
        let level = self.knots[last].log_ratio.value;
        match direction {
            Direction::Remove => Atom::new(level, mass + level),
            Direction::Add => Atom::new(-level, mass),
        }
    }

    /// log of the density of P at x ≥ 0 with log ratio u.
    pub(crate) fn log_density(&self, direction: Direction, x: f64, log_ratio: f64) -> f64 {
        let noise = -(2.0 * self.scale).ln() - x / self.scale + self.log_factor().value;
        match direction {
            Direction::Remove => noise + log_ratio,
            Direction::Add => noise,
        }
    }
}

/// The logs of the weights of 0, 1, … up to the largest of the shifts, which are whole.
fn weights_of_whole_numbers(law: &GroupLaw) -> Vec<f64> {
    let last = law.shifts().last().copied().unwrap_or(0.0) as usize;
    let mut weights = vec![f64::NEG_INFINITY; last + 1];
    for (log_weight, shift) in law.log_weights().iter().zip(law.shifts()) {
        weights[*shift as usize] = *log_weight;
    }
    weights
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

    /// Of one shift that is certain, half of P is at the largest loss, in either direction: ln ½ − 1000 + 1000 would lose three digits.
    #[test]
    fn a_certain_shift_has_half_of_its_outputs_at_the_largest_loss() {
        for direction in [Direction::Remove, Direction::Add] {
            let loss = LaplaceLoss::new(&GroupLaw::binomial(1, 1.0).unwrap(), 1e-3, direction);
            let largest = loss.atoms()[1];
            assert_eq!((largest.loss, largest.log_mass), (1000.0, 0.5f64.ln()));
        }
    }

    /// log(1 − γ) = −40 where γ is 1 to all digits: the mass at 0 is that times 1 − e^{−1/b}.
    #[test]
    fn a_record_that_is_hardly_ever_left_out_keeps_the_mass_at_no_loss() {
        let loss = LaplaceLoss::replaced_or_not((1.0, -40.0), 0.5);
        let exact = -40.0 + (-(-2.0f64).exp()).ln_1p();
        assert!((loss.atoms()[1].log_mass - exact).abs() < 1e-13);
    }

    /// The laws of groups of which the mirrored pair is asked.
    fn groups() -> [GroupLaw; 3] {
        let binomial = |records, rate| GroupLaw::binomial(records, rate).unwrap();
        [binomial(1, 0.3), binomial(3, 0.02), binomial(6, 0.7)]
    }

    /// Density of Σ w_j Lap(j) at x.
    fn density(law: &GroupLaw, scale: f64, x: f64) -> f64 {
        let of = |(log_weight, shift): (&f64, &f64)| (log_weight - (x - shift).abs() / scale).exp();
        law.log_weights().iter().zip(law.shifts()).map(of).sum::<f64>() / (2.0 * scale)
    }

    /// Its losses are those of the two densities, and so are its masses.
    #[test]
    fn mirrored_losses_are_those_of_the_densities() {
        for law in groups() {
            for scale in [0.4, 1.0, 6.0] {
                let loss = LaplaceLoss::mirrored(&law, scale);
                for j in 0..loss.pieces() {
                    for part in [0.0, 0.2, 0.9] {
                        let x = j as f64 + part;
                        let (found, _) = loss.log_ratio(j, x);
                        let (right, left) = (density(&law, scale, x), density(&law, scale, -x));
                        let exact = (right / left).ln();
                        let error = loss.log_ratio_error(j, x, found);
                        assert!(
                            (found - exact).abs() < 1e-13 * (1.0 + exact),
                            "{j} {x}: {found} {exact}"
                        );
                        assert!(
                            (found - exact).abs() <= error + 1e-14 * (1.0 + exact)
                                && error < 1e-13 * (1.0 + exact)
                        );
                        let of = |direction| loss.log_density(direction, x, found).exp();
                        assert!((of(Direction::Remove) / right - 1.0).abs() < 1e-12);
                        assert!((of(Direction::Add) / left - 1.0).abs() < 1e-12);
                    }
                }
            }
        }
    }

    /// The atoms and both branches have mass 1 under P and under Q, also where next to nobody takes part.
    #[test]
    fn mirrored_pairs_leave_no_mass_out() {
        for law in groups().into_iter().chain([GroupLaw::binomial(2, 1e-9).unwrap()]) {
            for scale in [0.3, 1.0, 7.0] {
                let mut loss = LaplaceLoss::mirrored(&law, scale);
                for c in [0.0, -1.0 + 1e-12] {
                    let nodes = loss.nodes(c, 0.0);
                    let mass = nodes.log_moment;
                    // E_Q[e^{−ℓ}] = 1 at c = −1; next to it the logarithm is at most the distance times the largest loss.
                    let near = if c < 0.0 {
                        1e-12 * loss.max_loss().rounded_up()
                    } else {
                        0.0
                    };
                    assert!(mass.value.abs() <= mass.error + near, "{c}: {mass:?}");
                    assert!(mass.error < 1e-12 && (nodes.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                }
                // E_P[e^ℓ] and E_Q[e^{−ℓ}] are the same.
                let (found, mirror) = (
                    loss.nodes(1.0, 0.0).log_moment,
                    loss.nodes(-2.0 + 1e-13, 0.0).log_moment,
                );
                assert!((found.value - mirror.value).abs() <= found.error + mirror.error + 1e-10 * found.value);
            }
        }
    }

    /// δ of one step against the integral of its definition, for positive and negative ε.
    #[test]
    fn one_step_of_a_mirrored_pair_is_its_definition() {
        for law in groups() {
            for scale in [0.7, 3.0] {
                let loss = LaplaceLoss::mirrored(&law, scale);
                for epsilon in [-1.5, -0.2, 0.0, 0.05, 0.6, 2.0] {
                    let steps = 400_000;
                    let (start, width) = (-60.0 * scale - 8.0, 120.0 * scale + 16.0);
                    let step = width / f64::from(steps);
                    let term = |i: i32| {
                        let x = start + (f64::from(i) + 0.5) * step;
                        (density(&law, scale, x) - f64::exp(epsilon) * density(&law, scale, -x)).max(0.0) * step
                    };
                    let exact: f64 = (0..steps).map(term).sum();
                    let found = loss.log_one_step(epsilon);
                    let (lower, upper) = (found.lower.exp(), found.upper.exp());
                    assert!(
                        lower <= exact + 1e-7 && upper >= exact - 1e-7 && upper - lower <= 1e-12,
                        "{scale} {epsilon}: {lower} {upper} {exact}"
                    );
                }
            }
        }
    }
}
