//! The characteristic function of a tilted Laplace loss, and how it decays.

use crate::approx::Approx;
use crate::loss::characteristic_function::smooth_changes;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::nodes::Nodes;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use realfft::num_complex::Complex64;

/// A Laplace loss tilted by e^{cℓ}.
#[derive(Debug)]
pub(crate) struct TiltedLaplace<'a> {
    loss: &'a mut LaplaceLoss,
    nodes: Nodes,
    decay: LaplaceDecay,
}

impl<'a> TiltedLaplace<'a> {
    /// The loss tilted by e^{cℓ}.
    pub(crate) fn new(loss: &'a mut LaplaceLoss, c: f64) -> Self {
        let nodes = loss.nodes(c, 0.0);
        let decay = loss.decay(&nodes);
        Self { loss, nodes, decay }
    }
}

impl TiltedLoss for TiltedLaplace<'_> {
    fn moments(&self) -> TiltedMoments {
        self.nodes.moments()
    }

    fn size(&self) -> usize {
        self.nodes.losses.len()
    }

    fn certify(&mut self, reach: f64) {
        self.nodes = self.loss.nodes(self.nodes.c, reach);
    }

    fn quadrature_error(&self) -> f64 {
        self.nodes.error
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        self.decay.log_at(y)
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        smooth_changes(&self.nodes, spacing, last, 0.0)
    }
}

/// A bound on the transform of a tilted Laplace loss far out: for |Im z| ≥ y, |E[e^{zℓ}]|/E[e^{cℓ}] is at most the mass of
/// the atoms and, for each stretch of outputs between them, its mass or the total variation of its density over y.
#[derive(Debug, Clone)]
pub(crate) struct LaplaceDecay {
    atoms: f64,
    /// Tilted mass of each stretch, and a bound on the total variation of the density of its losses, jumps included.
    stretches: Vec<(f64, f64)>,
}

impl LaplaceDecay {
    /// log of the bound at y.
    pub(crate) fn log_at(&self, y: f64) -> f64 {
        let of = |&(mass, variation): &(f64, f64)| mass.min(variation / y);
        let smooth: f64 = self.stretches.iter().map(of).sum();
        // Where the moment is not known, neither are the tilted masses, and 1 is a bound.
        ((self.atoms + smooth) * (1.0 + 1e-12)).ln().min(0.0)
    }
}

impl LaplaceLoss {
    /// See [`LaplaceDecay`]; `nodes` are those at Re z = c.
    ///
    /// With f the density of the loss at x and ℓ' = (2/b)Be^{2x/b}/r, log f = (2 + c) log r − 3x/b + const. for "remove"
    /// and (1 − c) log r − 3x/b + const. for "add". log r is convex on a piece and grows, so that f is quasi-convex there,
    /// or falls: its variation on a part of a piece, the jumps at both ends included, is at most twice the sum of its values
    /// at the ends. An integral of f·e^{iyℓ} is at most its variation over y.
    pub(crate) fn decay(&self, nodes: &Nodes) -> LaplaceDecay {
        let Approx { value, error } = nodes.log_moment;
        let room = self.log_factor().error + error + nodes.c.abs() * self.atom_error();
        let tilted = |loss: f64, log_mass: f64| {
            let rounding = 4.0 * f64::EPSILON * (log_mass.abs() + (nodes.c * loss).abs() + value.abs());
            (log_mass + nodes.c * loss - value + room + rounding).exp()
        };
        let atoms = self.atoms().iter().map(|atom| tilted(atom.loss, atom.log_mass)).sum();
        let each = self.stretches();
        let whole = self.pieces() * each;
        let mut stretches = vec![(nodes.error, 0.0); self.branches().len() * whole];
        // The first nodes are the atoms; no panel belongs to two stretches.
        let smooth = nodes.weights.iter().zip(&nodes.outputs).skip(self.atoms().len());
        for (weight, &(index, x)) in smooth {
            if let Some(found) = stretches.get_mut(index * whole + (x * each as f64) as usize) {
                found.0 += weight;
            }
        }
        for (index, branch, piece) in self.all_pieces() {
            let (direction, sign) = (branch.direction, branch.direction.sign());
            for i in piece * each..(piece + 1) * each {
                for end in [i, i + 1] {
                    let x = end as f64 / each as f64;
                    let (log_ratio, slope) = self.log_ratio(piece, x);
                    let log_mass = self.log_density(direction, x, log_ratio);
                    stretches[index * whole + i].1 += 2.0 * tilted(sign * log_ratio, log_mass) / slope;
                }
            }
        }
        LaplaceDecay { atoms, stretches }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Direction, GroupLaw};

    /// A loss that is uniform on [0, 1] has the variation 2, and |E[e^{iyℓ}]| = |sin(y/2)|·2/y: at odd multiples of π half of it is too
    /// little.
    #[test]
    fn the_bound_by_the_variation_is_attained_by_a_uniform_loss() {
        let decay = LaplaceDecay {
            atoms: 0.0,
            stretches: vec![(1.0, 2.0)],
        };
        for half_turns in [1.0, 3.0, 15.0, 101.0] {
            let y = half_turns * std::f64::consts::PI;
            let exact = (2.0 * (0.5 * y).sin().abs() / y).ln();
            let bound = decay.log_at(y);
            assert!(bound >= exact && bound < exact + 1e-11, "{y}: {bound} {exact}");
        }
    }

    /// Atoms of one loss turn together, and a stretch counts by no more than its mass.
    #[test]
    fn atoms_count_in_full_and_stretches_by_their_mass_at_most() {
        let decay = LaplaceDecay {
            atoms: 0.25,
            stretches: vec![(0.5, 40.0), (0.25, 2.0)],
        };
        for (y, exact) in [(1e-3, 1.0f64), (10.0, 0.25 + 0.5 + 0.2), (1e6, 0.25 + 4.2e-5)] {
            let bound = decay.log_at(y);
            assert!(
                (bound - exact.ln()).abs() < 1e-11 && bound >= exact.ln(),
                "{y}: {bound}"
            );
        }
    }

    /// The masses of a tilted loss add up to 1, and its transform at the certified frequencies is below the bound; at low frequencies, where
    /// all of a stretch turns together, by less than a factor of two.
    #[test]
    fn transforms_of_tilted_losses_are_below_the_bound() {
        let law = GroupLaw::binomial(2, 0.3).unwrap();
        for direction in Direction::BOTH {
            for c in [-0.4, 0.7] {
                let mut loss = LaplaceLoss::new(&law, 0.8, direction);
                let mut tilted = TiltedLaplace::new(&mut loss, c);
                let whole = tilted.decay.atoms + tilted.decay.stretches.iter().map(|part| part.0).sum::<f64>();
                assert!((whole - 1.0).abs() < 1e-10, "{whole}");
                tilted.certify(60.0);
                let mut closest = f64::INFINITY;
                for (j, change) in tilted.changes(0.5, 120).into_iter().enumerate().skip(1) {
                    let exact = (1.0 + change.value).norm().ln();
                    let bound = tilted.log_decay(0.5 * j as f64);
                    assert!(bound >= exact - 1e-11, "{direction:?} {c} {j}: {bound} {exact}");
                    closest = closest.min(bound - exact);
                }
                assert!(closest < std::f64::consts::LN_2, "{closest}");
            }
        }
    }
}
