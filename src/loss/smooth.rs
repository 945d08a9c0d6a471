//! A privacy loss that is a smooth function of the output: Gaussian noise under every kind of sampling.
//!
//! The loss consists of pieces ([`Piece`]) on which it is analytic and grows with the output, and perhaps of an atom at 0.
//! Moments are integrals over the output (`smooth_nodes`); the characteristic function decays because the integral may be
//! taken along a line above the real axis (`smooth_decay`).

use crate::interval::Enclosure;
use crate::loss::gate::{Gate, Separation};
use crate::loss::loss_curve::{LossCurve, Support, Sweep};
use crate::loss::one_step::{self, Effort};
use crate::loss::privacy_loss::{PrivacyLoss, TiltedLoss, TiltedMoments};
use crate::loss::smooth_decay::TiltedSmoothLoss;
use crate::loss::smooth_nodes::Address;
use crate::loss::smooth_panel::PiecePanel;
use crate::loss::smooth_piece::{Piece, Point, Scratch};
use crate::loss::step_loss::{StepLoss, rounded_up};
use crate::special::log_space::LogSum;
use rustc_hash::FxHashMap;

/// The privacy loss of a step as smooth pieces and an atom at loss 0, with the panels found so far.
#[derive(Debug)]
pub(crate) struct SmoothLoss {
    pub(crate) pieces: Vec<Piece>,
    /// P's probability of a loss of exactly 0, where that is an atom.
    atom: f64,
    pub(crate) panels: FxHashMap<Address, PiecePanel>,
    pub(crate) scratch: Scratch,
    /// The latest answers about moments.
    moments: Vec<Remembered>,
    /// Cost of all questions so far, in evaluations of a density, as if none could use panels of another: so the same questions
    /// cost the same in any order.
    pub(crate) work: u64,
}

/// Moments at one tilt and tolerance, and what they cost.
#[derive(Debug)]
struct Remembered {
    question: (f64, f64),
    answer: TiltedMoments,
    work: u64,
}

/// Number of moments that are remembered.
const REMEMBERED: usize = 16;

impl SmoothLoss {
    /// The loss made of `pieces` and an atom of P-probability `atom` at 0.
    pub(crate) fn new(pieces: Vec<Piece>, atom: f64) -> Self {
        Self {
            pieces,
            atom,
            panels: FxHashMap::default(),
            scratch: Scratch::default(),
            moments: Vec::new(),
            work: 0,
        }
    }

    /// The pieces.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// P's probability of the atom at loss 0.
    pub(crate) fn atom(&self) -> f64 {
        self.atom
    }

    /// No imaginary shift in any piece.
    fn no_imaginary_shifts(&self) -> Vec<f64> {
        vec![0.0; self.pieces.len()]
    }

    /// The losses on one side of a gate at the outputs of the first piece. The other pieces and the atom belong to the near side.
    fn side(&self, gate: Gate) -> Self {
        let mut pieces = self.pieces.clone();
        if gate.open {
            pieces.truncate(1);
        }
        if let Some(first) = pieces.first_mut() {
            first.gate = Some(gate);
        }
        Self::new(pieces, if gate.open { 0.0 } else { self.atom })
    }
}

impl PrivacyLoss for SmoothLoss {
    fn moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        let question = (c, log_tolerance);
        if let Some(known) = self.moments.iter().find(|known| known.question == question) {
            self.work += known.work;
            return known.answer;
        }
        let before = self.work;
        let none = self.no_imaginary_shifts();
        let answer = self.nodes(c, 0.0, &none, log_tolerance).moments();
        if self.moments.len() == REMEMBERED {
            self.moments.remove(0);
        }
        self.moments.push(Remembered {
            question,
            answer,
            work: self.work - before,
        });
        answer
    }

    fn tilted(&mut self, c: f64, log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        Box::new(TiltedSmoothLoss::new(self, c, log_tolerance))
    }

    fn support(&mut self, c: f64, log_tolerance: f64) -> Support<'_> {
        let none = self.no_imaginary_shifts();
        let nodes = self.nodes(c, 0.0, &none, log_tolerance);
        let mut atoms = Vec::new();
        if self.atom > 0.0 {
            atoms.push((0.0, self.atom.ln()));
        }
        let pieces = self.pieces.iter().zip(&nodes.supports);
        let sweeps = pieces
            .filter(|(_, support)| support.0 < support.1)
            .map(|(piece, support)| Sweep {
                curve: Box::new(piece.clone()) as Box<dyn LossCurve>,
                start: support.0,
                end: support.1,
            })
            .collect();
        Support {
            sweeps,
            atoms,
            outside: nodes.error,
        }
    }

    fn one_step(&self, epsilon: f64, width: f64, effort: &mut Effort) -> Enclosure {
        // Pieces descend: where there are two, the first has the losses above 0 and the second those below
        // (for ε < 0 the curve is that of the second pair everywhere).
        let piece = match self.pieces() {
            [above, ..] if epsilon >= 0.0 => above,
            [.., last] => last,
            [] => return Enclosure::ZERO,
        };
        one_step::of_piece(piece, epsilon, width.max(one_step::NARROWEST), effort)
    }

    fn truncated(&self, log_mass: f64) -> (StepLoss, f64) {
        /// Bisections of the output, and the width in σ at which they end: where the cut is need not be exact.
        const BISECTIONS: usize = 60;
        const ACCURACY: f64 = 1e-3;
        /// Standard deviations beyond the outermost centre that are searched: P has e^-1800 beyond.
        const REACH: f64 = 60.0;
        let mut lost = LogSum::default();
        let mut pieces = self.pieces.clone();
        for piece in pieces.iter_mut().filter(|piece| piece.end.is_infinite()) {
            let sigma = piece.noise_multiplier();
            let (mut low, mut high) = (piece.start.max(-REACH * sigma), piece.largest_shift() + REACH * sigma);
            for _ in 0..BISECTIONS {
                let middle = 0.5 * (low + high);
                if piece.log_masses_above(middle).0 > log_mass {
                    low = middle;
                } else {
                    high = middle;
                }
                if high - low < ACCURACY * sigma {
                    break;
                }
            }
            piece.end = high;
            lost.add(piece.log_masses_above(high).0);
        }
        // Room for the errors of the tails, which are below 1e-11.
        (StepLoss::new(Self::new(pieces, self.atom)), lost.ln() + 1e-9)
    }

    fn density_terms(&self) -> usize {
        self.pieces.iter().map(Piece::atoms).max().unwrap_or(0)
    }

    fn work(&self) -> u64 {
        self.work
    }

    fn most_loss(&self) -> (f64, f64) {
        let most = self
            .pieces
            .iter()
            .map(Piece::most_loss)
            .fold(f64::NEG_INFINITY, f64::max);
        (rounded_up(most), 0.0)
    }

    fn widest_distance(&self) -> Option<f64> {
        Some(self.pieces.iter().map(Piece::widest_distance).fold(0.0, f64::max))
    }

    fn usual_loss(&self) -> Option<f64> {
        let first = self.pieces.first().filter(|piece| piece.in_p)?;
        if first.start.is_finite() || first.in_q {
            return Some(0.0);
        }
        first.least_loss()
    }

    fn separation(&self, level: f64, width: f64) -> Option<Separation> {
        let piece = self.pieces.first()?;
        let mut scratch = Scratch::default();
        let centre = piece.output_at(level, &mut scratch);
        let inside = centre.is_finite() && centre > piece.start && centre < piece.end;
        inside.then(|| {
            Separation::Gate(Gate {
                centre,
                width: (width / piece.point(centre, &mut scratch).slope).min(0.5 * piece.noise_multiplier()),
                open: true,
            })
        })
    }

    fn near_part(&self, separation: Separation) -> Option<StepLoss> {
        let Separation::Gate(gate) = separation else {
            return None;
        };
        Some(StepLoss::new(self.side(Gate { open: false, ..gate })))
    }

    fn far_part(&self, separation: Separation) -> Option<StepLoss> {
        let Separation::Gate(gate) = separation else {
            return None;
        };
        Some(StepLoss::new(self.side(Gate { open: true, ..gate })))
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
    use super::*;
    use crate::special::normal::log_upper_tail;
    use crate::step::{Direction, GroupLaw};

    fn mixture(records: u64, rate: f64, sigma: f64, direction: Direction) -> StepLoss {
        let law = GroupLaw::binomial(records, rate).unwrap();
        StepLoss::mixture(&law, sigma, direction).unwrap().unwrap()
    }

    /// What is left out has the probability that is said, and about the one that was allowed; for "add", where P is the noise
    /// alone, it is a tail of N(0, σ²).
    #[test]
    fn truncation_leaves_out_what_it_says() {
        for (direction, log_mass) in [
            (Direction::Remove, -6.0),
            (Direction::Add, -6.0),
            (Direction::Add, -300.0),
        ] {
            let whole = mixture(2, 0.1, 1.3, direction);
            let (mut truncated, log_lost) = whole.truncated(log_mass);
            assert!(
                log_lost <= log_mass + 1e-8 && log_lost >= log_mass - 0.1,
                "{direction:?}: {log_lost}"
            );
            let sweep = truncated.support(0.0, -40.0).sweeps.remove(0);
            if direction == Direction::Add && log_mass > -40.0 {
                let exact = log_upper_tail(sweep.end / 1.3);
                assert!(log_lost >= exact && log_lost <= exact + 1e-8, "{log_lost} {exact}");
            }
        }
    }

    #[test]
    fn the_gate_opens_where_the_loss_is_the_level() {
        let loss = mixture(1, 0.01, 1.0, Direction::Remove);
        let usual = loss.usual_loss().unwrap();
        assert!((usual - 0.99f64.ln()).abs() < 1e-15);
        let Some(Separation::Gate(gate)) = loss.separation(1.0, 0.2) else {
            panic!()
        };
        // ℓ(x) = log(0.99 + 0.01·e^{x − 1/2}), whose slope is 1 − 0.99·e^{−ℓ}.
        let loss_there = (0.99 + 0.01 * (gate.centre - 0.5).exp()).ln();
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
        let (most, rest) = add.most_loss();
        assert!(rest == 0.0 && most >= exact && most - exact <= 16.0 * f64::EPSILON * exact);
        assert_eq!(mixture(3, 0.2, 1.5, Direction::Remove).most_loss().0, f64::INFINITY);
        assert!((add.widest_distance().unwrap() - 2.0).abs() < 1e-15);
        let replaced = StepLoss::replace_poisson(0.2, 1.5).unwrap().unwrap();
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
