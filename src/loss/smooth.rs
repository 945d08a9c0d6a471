//! A privacy loss that is a smooth function of the output: Gaussian noise under every kind of sampling.
//!
//! The loss consists of pieces ([`Piece`]) on which it is analytic and grows with the output, and perhaps of an atom at 0.
//! Moments are integrals over the output (`smooth_nodes`); the characteristic function decays because the integral may be
//! taken along a line above the real axis (`smooth_decay`).

use crate::approx::Approx;
use crate::loss::gate::Gate;
use crate::loss::loss_curve::LossCurve;

use crate::loss::fixed_rule::FixedRule;
use crate::loss::pair_panel::PairPanels;
use crate::loss::path::Path;
use crate::loss::privacy_loss::TiltedMoments;
use crate::loss::smooth_panel::PiecePanel;
use crate::loss::smooth_piece::{Piece, Point, Scratch};
use crate::special::adaptive::Address;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The privacy loss of a step as smooth pieces and an atom at loss 0, with the panels found so far.
#[derive(Debug)]
pub(crate) struct SmoothLoss {
    pub(crate) pieces: Vec<Piece>,
    /// P's probability of a loss of exactly 0, where that is an atom.
    pub(crate) atom: f64,
    /// P-mass of outputs that a truncation has removed.
    pub(crate) removed: Approx,
    pub(crate) panels: FxHashMap<Address, PiecePanel>,
    /// What these panels share with those of all parts of this loss, for each piece.
    pub(crate) lattices: Vec<Arc<PairPanels>>,
    pub(crate) scratch: Scratch,
    /// Nodes of the rule by which moments are estimated, once it was looked for.
    pub(crate) fixed_rule: Option<Option<FixedRule>>,
    /// The latest answers about moments.
    pub(crate) moments: Vec<Remembered>,
    /// Cost of all questions so far, in evaluations of a density, as if none could use panels of another: so the same questions
    /// cost the same in any order.
    pub(crate) work: u64,
}

/// Moments at one tilt and tolerance, and what they cost.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) question: (f64, f64),
    pub(crate) answer: TiltedMoments,
    pub(crate) work: u64,
}

/// Number of moments that are remembered.
pub(crate) const REMEMBERED: usize = 16;

impl SmoothLoss {
    /// The loss made of `pieces` and an atom of P-probability `atom` at 0.
    pub(crate) fn new(pieces: Vec<Piece>, atom: f64) -> Self {
        Self {
            lattices: pieces.iter().map(|_| Arc::default()).collect(),
            pieces,
            atom,
            removed: Approx::default(),
            panels: FxHashMap::default(),
            scratch: Scratch::default(),
            fixed_rule: None,
            moments: Vec::new(),
            work: 0,
        }
    }

    /// Frees the panels.
    pub(crate) fn forget_panels(&mut self) {
        self.panels = FxHashMap::default();
        self.lattices.fill_with(Arc::default);
    }

    /// The pieces.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// P's probability of the atom at loss 0.
    pub(crate) fn atom(&self) -> f64 {
        self.atom
    }

    /// The real line in every piece.
    pub(crate) fn real_paths(&self) -> Vec<Path> {
        vec![Path::REAL; self.pieces.len()]
    }

    /// The part of the losses that passes a gate at the outputs of the first piece. The other pieces and the atom are below every gate.
    /// `None` if nothing of this loss, which may be a part itself, passes it.
    pub(crate) fn part(&self, gate: Gate) -> Option<Self> {
        let mut pieces = self.pieces.clone();
        let is_near = gate.from == f64::NEG_INFINITY;
        if !is_near {
            pieces.truncate(1);
        }
        if let Some(first) = pieces.first_mut() {
            first.gate = Some(match first.gate {
                Some(other) => other.and(gate)?,
                None => gate,
            });
        }
        let lattices = self.lattices[..pieces.len()].to_vec();
        Some(Self {
            lattices,
            ..Self::new(pieces, if is_near { self.atom } else { 0.0 })
        })
    }
}

impl LossCurve for Piece {
    fn point(&self, x: f64, scratch: &mut Scratch) -> Point {
        Piece::point(self, x, scratch)
    }
    fn reach(&self, x: f64, both: bool, scratch: &Scratch) -> f64 {
        self.farthest(x, both, scratch)
    }
    fn scale(&self) -> f64 {
        self.noise_multiplier()
    }
}

#[cfg(test)]
mod tests {
    use crate::loss::StepLoss;
    use crate::loss::gate::Separation;
    use crate::special::normal::log_upper_tail;
    use crate::step::{Direction, GroupLaw};

    fn mixture(records: u64, rate: f64, sigma: f64, direction: Direction) -> StepLoss {
        let law = GroupLaw::binomial(records, rate).unwrap();
        StepLoss::mixture(&law, sigma, direction).unwrap().unwrap()
    }

    /// The part that is left out has the reported probability, and no more than was allowed. For "add", where P is the noise
    /// alone, it is a tail of N(0, σ²).
    #[test]
    fn truncation_leaves_out_what_it_says() {
        for (direction, log_mass) in [
            (Direction::Remove, -6.0),
            (Direction::Add, -6.0),
            (Direction::Add, -300.0),
        ] {
            let whole = mixture(2, 0.1, 1.3, direction);
            let (mut truncated, log_lost) = whole.truncated(log_mass, 1.0);
            assert!(log_lost <= log_mass + 1e-8, "{direction:?}: {log_lost}");
            let sweep = truncated.support(0.0, -40.0).sweeps.remove(0);
            if direction == Direction::Add && log_mass > -40.0 {
                let exact = log_upper_tail(sweep.end / 1.3);
                assert!(log_lost >= exact && log_lost <= exact + 1e-8, "{log_lost} {exact}");
                // Half a standard deviation sooner it would leave out too much.
                let sooner = log_upper_tail(sweep.end / 1.3 - 0.5);
                assert!(sooner > log_mass, "{sooner}");
            }
        }
    }

    #[test]
    fn the_gate_opens_where_the_loss_is_the_level() {
        let loss = mixture(1, 0.01, 1.0, Direction::Remove);
        let common = loss.common_loss().unwrap();
        assert!((common - 0.99f64.ln()).abs() < 1e-15);
        let Some(Separation::Gate(gate)) = loss.separation(1.0, 0.2) else {
            panic!()
        };
        // ℓ(x) = log(0.99 + 0.01·e^{x − 1/2}), whose slope is 1 − 0.99·e^{−ℓ}.
        let loss_there = (0.99 + 0.01 * (gate.from - 0.5).exp()).ln();
        assert!((loss_there - 1.0).abs() < 1e-12);
        assert!((gate.width - 0.2 / (1.0 - 0.99 * (-1.0f64).exp())).abs() < 1e-12);
        // No output has such a loss.
        assert_eq!(mixture(1, 0.01, 1.0, Direction::Add).separation(1.0, 0.2), None);
    }

    /// The noise against the mixture never has a loss above −log w₀.
    #[test]
    fn the_largest_loss_and_the_widest_pair() {
        let add = mixture(3, 0.2, 1.5, Direction::Add);
        let exact = -3.0 * 0.8f64.ln();
        let most = add.max_loss().rounded_up();
        assert!(most >= exact && most - exact <= 16.0 * f64::EPSILON * exact);
        assert_eq!(
            mixture(3, 0.2, 1.5, Direction::Remove).max_loss().rounded_up(),
            f64::INFINITY
        );
        assert!((add.widest_distance().unwrap() - 2.0).abs() < 1e-15);
        let replaced = StepLoss::replace_poisson(&GroupLaw::binomial(1, 0.2).unwrap(), 1.5)
            .unwrap()
            .unwrap();
        assert!((replaced.widest_distance().unwrap() - 2.0 / 1.5).abs() < 1e-15);
    }

    /// Moments that are asked for again cost as much as the first time, so that limits on work do not depend on the past.
    #[test]
    fn remembered_moments_count_their_work() {
        let mut loss = mixture(2, 0.1, 1.3, Direction::Remove);
        let first = loss.moments(0.5, -20.0);
        let work = loss.work();
        let second = loss.moments(0.5, -20.0);
        assert_eq!(first.log_moment, second.log_moment);
        assert_eq!(loss.work(), 2 * work);
    }
}
