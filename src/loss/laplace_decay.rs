//! The characteristic function of a tilted Laplace loss, and how it decays.

use crate::approx::Approx;
use crate::loss::characteristic_function::{cost_of_frequency, smooth_changes};
use crate::loss::clusters::{BesideClusters, decay_of};
use crate::loss::laplace::{Branch, LaplaceLoss};
use crate::loss::laplace_moments::LEAST_LOG_TOLERANCE;
use crate::loss::nodes::Nodes;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use crate::step::Direction;
use realfft::num_complex::Complex64;

/// Largest error of a rule with which a transform is of any use.
const MOST_ERROR: f64 = 1e-3;

/// A Laplace loss tilted by e^{cℓ}.
#[derive(Debug)]
pub(crate) struct TiltedLaplace<'a> {
    loss: &'a mut LaplaceLoss,
    nodes: Nodes,
    decay: LaplaceDecay,
    /// log of the errors of the characteristic function that do not matter.
    log_tolerance: f64,
}

impl<'a> TiltedLaplace<'a> {
    /// The loss tilted by e^{cℓ}, where errors of e^`log_tolerance` of its moment do not matter.
    pub(crate) fn new(loss: &'a mut LaplaceLoss, c: f64, log_tolerance: f64) -> Self {
        let nodes = loss.nodes(c, 0.0);
        let decay = loss.decay(&nodes);
        Self {
            loss,
            nodes,
            decay,
            log_tolerance,
        }
    }
}

impl TiltedLoss for TiltedLaplace<'_> {
    fn moments(&self) -> TiltedMoments {
        self.nodes.moments()
    }

    fn size(&self) -> usize {
        cost_of_frequency(&self.nodes)
    }

    fn certify(&mut self, reach: f64) {
        // Errors of the moment count as often as there are steps: where they must be small, so must those of the nodes.
        self.nodes = if self.log_tolerance < LEAST_LOG_TOLERANCE {
            self.loss.nodes(self.nodes.c, reach)
        } else {
            self.loss.nodes_of_transform(self.nodes.c, reach, self.log_tolerance)
        };
    }

    fn quadrature_error(&self) -> f64 {
        self.nodes.error
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        self.decay.log_at(y)
    }

    fn beside_clusters(&self, width: f64) -> Option<BesideClusters> {
        Some(self.loss.beside_clusters(width, &self.nodes, &self.decay))
    }

    /// By nodes of their own, whose moment may differ from that of the nodes at y = 0 by what quadrature leaves out and by rounding.
    fn transforms_by_clusters(
        &mut self,
        width: f64,
        spacing: f64,
        last: usize,
    ) -> Option<Vec<[Approx<Complex64>; 2]>> {
        let nodes = self
            .loss
            .nodes_of_transform(self.nodes.c, last as f64 * spacing, self.log_tolerance);
        if nodes.error.is_nan() || nodes.error > MOST_ERROR {
            return None;
        }
        let of_moment = 2.0 * nodes.error
            + nodes.weight_rounding.0
            + nodes.c.abs() * nodes.loss_rounding
            + self.nodes.log_moment.error;
        let [first, second] = self.loss.nodes_by_clusters(width, &nodes).map(|part| {
            let mass: f64 = part.weights.iter().sum();
            // A sum of so many positive weights, and what quadrature and rounding may have left out of it.
            let rounding = part.weight_rounding.0 + part.error + f64::EPSILON * part.weights.len() as f64 * mass;
            let changes = smooth_changes(&part, spacing, last, self.log_tolerance.exp());
            changes.into_iter().map(move |change| {
                let (value, error) = (mass + change.value, change.error + rounding);
                Approx::new(value, error + of_moment * (value.norm() + error))
            })
        });
        Some(first.zip(second).map(|(first, second)| [first, second]).collect())
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        smooth_changes(&self.nodes, spacing, last, self.log_tolerance.exp())
    }
}

/// A bound on the transform of a tilted Laplace loss far out: for |Im z| ≥ y, |E[e^{zℓ}]|/E[e^{cℓ}] is at most the mass of
/// the atoms and, for each stretch of outputs between them, its mass or the total variation of its density over y.
#[derive(Debug, Clone)]
pub(crate) struct LaplaceDecay {
    atoms: f64,
    /// Tilted mass of each stretch, and a bound on the total variation of the density of its losses, jumps included.
    stretches: Vec<(f64, f64)>,
    /// A bound on the total variation of the density of all losses together.
    variation: f64,
}

impl LaplaceDecay {
    /// log of the bound at y.
    pub(crate) fn log_at(&self, y: f64) -> f64 {
        // Where the moment is not known, neither are the tilted masses, and 1 is a bound.
        let smooth = decay_of((&self.stretches, self.variation), y);
        ((self.atoms + smooth) * (1.0 + 1e-12)).ln().min(0.0)
    }
}

/// A stretch of outputs of a branch, from `first` to `last` in units of which there are [`LaplaceLoss::stretches`] in a piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) branch: Branch,
    /// Place of the branch.
    pub(crate) index: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl LaplaceLoss {
    /// See [`LaplaceDecay`]; `nodes` are those at Re z = c.
    ///
    /// With f the density of the loss at x and ℓ' = (2/b)Be^{2x/b}/r, log f = p log r − 3x/b + const. with p = 2 + c for "remove"
    /// and 1 − c for "add". log r is convex on a piece and grows, so that f is quasi-convex there,
    /// or falls: its variation on a part of a piece, the jumps at both ends included, is at most twice the sum of its values
    /// at the ends. An integral of f·e^{iyℓ} is at most its variation over y.
    pub(crate) fn decay(&self, nodes: &Nodes) -> LaplaceDecay {
        let atoms = self.atoms().iter();
        let atoms = atoms
            .map(|atom| self.tilted_mass(nodes, (atom.loss, self.atom_error()), atom.log_mass).0)
            .sum();
        let each = self.stretches();
        let whole = self.pieces() * each;
        // Weights may be off by their rounding, and by that of losses times the tilt.
        let rounding = nodes.weight_rounding.0 + nodes.c.abs() * nodes.loss_rounding;
        let mut stretches = vec![(nodes.error + rounding, 0.0); self.branches().len() * whole];
        // The first nodes are the atoms; no panel belongs to two stretches.
        let smooth = nodes.weights.iter().zip(&nodes.outputs).skip(self.atoms().len());
        for (weight, &(index, x)) in smooth {
            if let Some(found) = stretches.get_mut(index * whole + (x * each as f64) as usize) {
                found.0 += weight;
            }
        }
        for (index, branch, piece) in self.all_pieces() {
            for i in piece * each..(piece + 1) * each {
                for end in [i, i + 1] {
                    let ((density, _), _) =
                        self.density_of_loss(nodes, branch.direction, piece, end as f64 / each as f64);
                    stretches[index * whole + i].1 += 2.0 * density;
                }
            }
        }
        let all = |(index, &branch): (usize, &Branch)| Range {
            branch,
            index,
            first: branch.first * each,
            last: whole,
        };
        let all: Vec<Range> = self.branches().iter().enumerate().map(all).collect();
        LaplaceDecay {
            atoms,
            stretches,
            variation: self.variation(nodes, &all),
        }
    }

    /// e^{cℓ} times the mass of an output with a loss that is off by `loss_error` at most, over the moment of the nodes: rounded up, and the relative error
    /// by which it may be too large.
    fn tilted_mass(&self, nodes: &Nodes, (loss, loss_error): (f64, f64), log_mass: f64) -> (f64, f64) {
        let Approx { value, error } = nodes.log_moment;
        let room = self.log_factor().error + error + nodes.c.abs() * loss_error;
        let rounding = 4.0 * f64::EPSILON * (log_mass.abs() + (nodes.c * loss).abs() + value.abs());
        let mass = (log_mass + nodes.c * loss - value + room + rounding).exp();
        (mass, (2.0 * (room + rounding)).exp_m1())
    }

    /// f at an output of a piece, rounded up, with its relative error, and ℓ'.
    fn density_of_loss(&self, nodes: &Nodes, direction: Direction, piece: usize, x: f64) -> ((f64, f64), f64) {
        let (log_ratio, slope) = self.log_ratio(piece, x);
        let log_mass = self.log_density(direction, x, log_ratio);
        let loss_error = self.atom_error().max(self.log_ratio_error(piece, x, log_ratio));
        let (mass, error) = self.tilted_mass(nodes, (direction.sign() * log_ratio, loss_error), log_mass);
        ((mass / slope, error), slope)
    }

    /// A bound on the total variation of the density of the losses of some outputs together.
    ///
    /// Where a piece begins, f jumps by the difference of both sides. On a piece on which f grows, or falls, it changes by the difference of its ends;
    /// it grows where p·ℓ' > 3/b. As ℓ' grows, that is so on all of a piece with p > 0 if it is so at its start, and nowhere on it if not at its end.
    fn variation(&self, nodes: &Nodes, ranges: &[Range]) -> f64 {
        /// Room for the rounding of a difference of two densities, and for that of the comparison that tells whether a density grows.
        const ROOM: f64 = 1e-9;
        let each = self.stretches();
        let mut total = 0.0;
        for range in ranges {
            let direction = range.branch.direction;
            let power = match direction {
                Direction::Remove => 2.0 + nodes.c,
                Direction::Add => 1.0 - nodes.c,
            };
            let mut before = 0.0;
            let mut first = range.first;
            while first < range.last {
                let piece = first / each;
                let last = range.last.min((piece + 1) * each);
                let at = |i: usize| self.density_of_loss(nodes, direction, piece, i as f64 / each as f64);
                let (((start, of_start), slope_first), ((end, of_end), slope_last)) = (at(first), at(last));
                let room = ROOM + of_start.max(of_end);
                let grows = |slope: f64| power * slope >= 3.0 / self.scale();
                let is_monotone = power <= 0.0 || grows(slope_first) || !grows(slope_last);
                let inner = if is_monotone { (end - start).abs() } else { start + end };
                total += (start - before).abs() + inner + room * (before + start + end);
                (before, first) = (end, last);
            }
            total += before;
        }
        total * (1.0 + 1e-12)
    }

    /// What the tilted law of `nodes` has in some ranges of outputs, and its mass in none of them, which is that of the clusters; `decay` is that of all
    /// of it.
    pub(crate) fn beside(&self, nodes: &Nodes, decay: &LaplaceDecay, ranges: &[Range]) -> BesideClusters {
        let whole = self.pieces() * self.stretches();
        let (mut stretches, mut all_in_ranges) = (Vec::new(), 0.0);
        for range in ranges {
            let own = &decay.stretches[range.index * whole + range.first..range.index * whole + range.last];
            stretches.extend_from_slice(own);
            all_in_ranges += own.iter().map(|stretch| stretch.0).sum::<f64>();
        }
        let all: f64 = decay.stretches.iter().map(|stretch| stretch.0).sum();
        // The difference of the two sums is rounded by what they are.
        let rest = (all - all_in_ranges).max(0.0) + 1e-12 * all;
        BesideClusters {
            mass_of_clusters: decay.atoms + rest,
            stretches,
            variation: self.variation(nodes, ranges),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::GroupLaw;

    /// A transform that may have errors of e^−22 takes fewer nodes than one without, and its moment and its values are within their own errors of those.
    #[test]
    fn transforms_take_nodes_for_the_errors_that_are_asked_for() {
        for (records, rate, scale, c, spacing) in [(40, 0.02, 0.6, 30.0, 40.0), (3, 0.2, 2.0, 12.0, 60.0)] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            for direction in Direction::BOTH {
                let mut loss = LaplaceLoss::new(&law, scale, direction);
                let mut other = loss.clone();
                let at = |loss: &mut LaplaceLoss, log_tolerance: f64| {
                    let mut tilted = TiltedLaplace::new(loss, c, log_tolerance);
                    tilted.certify(100.0 * spacing);
                    let moment = tilted.moments().log_moment;
                    (tilted.nodes.weights.len(), moment, tilted.changes(spacing, 100))
                };
                let (few, rough, changes) = at(&mut loss, -22.0);
                let (many, fine, exact) = at(&mut other, -60.0);
                assert!(few < many, "{records} {direction:?}: {few} {many}");
                assert!((rough.value - fine.value).abs() <= rough.error + fine.error);
                assert!(rough.error < 1e-8 && fine.error < 1e-11, "{rough:?} {fine:?}");
                for (change, exact) in changes.iter().zip(&exact) {
                    // Both are over their own moment.
                    let off = (change.value - exact.value).norm();
                    assert!(
                        off <= change.error + exact.error + 2.0 * (rough.error + fine.error),
                        "{off}"
                    );
                    assert!(change.error < 1e-8, "{change:?}");
                }
            }
        }
    }

    /// A loss that is uniform on [0, 1] has the variation 2, and |E[e^{iyℓ}]| = |sin(y/2)|·2/y: at odd multiples of π half of it is too
    /// little.
    #[test]
    fn the_bound_by_the_variation_is_attained_by_a_uniform_loss() {
        let decay = LaplaceDecay {
            atoms: 0.0,
            stretches: vec![(1.0, 2.0)],
            variation: 2.0,
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
            variation: 42.0,
        };
        for (y, exact) in [(1e-3, 1.0f64), (10.0, 0.25 + 0.5 + 0.2), (1e6, 0.25 + 4.2e-5)] {
            let bound = decay.log_at(y);
            assert!(
                (bound - exact.ln()).abs() < 1e-11 && bound >= exact.ln(),
                "{y}: {bound}"
            );
        }
    }

    /// The variation of the density on a fine grid, its jumps included, is at most the bound, and more than half of it.
    #[test]
    fn the_variation_of_the_density_is_bounded_and_nearly_attained() {
        for (records, rate, scale) in [(1, 0.2, 1.0), (1, 1.0, 3.0), (3, 0.1, 0.7), (4, 0.4, 5.0)] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            for direction in Direction::BOTH {
                let mut loss = LaplaceLoss::new(&law, scale, direction);
                for c in [-0.5, 0.8, 30.0] {
                    let nodes = loss.nodes(c, 0.0);
                    let decay = loss.decay(&nodes);
                    let (mut exact, mut before) = (0.0, 0.0);
                    for piece in 0..loss.pieces() {
                        for i in 0..=2000 {
                            let x = piece as f64 + f64::from(i) / 2000.0;
                            let ((density, _), _) = loss.density_of_loss(&nodes, direction, piece, x);
                            exact += (density - before).abs();
                            before = density;
                        }
                    }
                    exact += before;
                    assert!(
                        exact <= decay.variation && 1.9 * exact > decay.variation,
                        "{records} {direction:?} {c}: {exact} {}",
                        decay.variation
                    );
                }
            }
        }
    }

    /// Stretches have the variation that all of them together have, or more, and the smaller bound counts.
    #[test]
    fn all_stretches_together_have_a_bound_of_their_own() {
        let decay = LaplaceDecay {
            atoms: 0.25,
            stretches: vec![(0.5, 40.0), (0.25, 2.0)],
            variation: 3.0,
        };
        for (y, exact) in [(1e-3, 1.0f64), (10.0, 0.25 + 0.3), (1e6, 0.25 + 3e-6)] {
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
                let mut tilted = TiltedLaplace::new(&mut loss, c, -60.0);
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
