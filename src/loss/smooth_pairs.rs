//! Pairs with Gaussian noise whose loss is smooth: which pieces make up the loss of each (`docs/theory/dominating-pairs.md`).

use crate::approx::Approx;
use crate::error::Result;
use crate::interval::Enclosure;
use crate::loss::MixturePair;
use crate::loss::gate::{Gate, Separation};
use crate::loss::loss_curve::Atom;
use crate::loss::loss_curve::{LossCurve, Support, Sweep};
use crate::loss::max_loss::MaxLoss;
use crate::loss::one_step;
use crate::loss::privacy_loss::StepLoss;
use crate::loss::privacy_loss::{
    Effort, LossByRatio, PrivacyLoss, RatioSplit, TiltedLoss, TiltedMoments, rounded_up,
};
use crate::loss::smooth::{REMEMBERED, Remembered, SmoothLoss};
use crate::loss::smooth_decay::TiltedSmoothLoss;
use crate::loss::smooth_large;
use crate::loss::smooth_piece::{Piece, Scratch};
use crate::special::log_space::LogSum;
use crate::special::root::bisect;
use crate::step::{Direction, GroupLaw};
use std::convert::Infallible;
use std::sync::Arc;

impl StepLoss {
    /// The mixture of `law` with Gaussian noise σ against the noise alone (GROUP Theorem 18, Lemma 14; PITFALLS
    /// Proposition 9); `None` if the law never moves anything.
    ///
    /// # Errors
    /// `noise_multiplier` outside [1e-100, 1e100].
    pub fn mixture(law: &GroupLaw, noise_multiplier: f64, direction: Direction) -> Result<Option<Self>> {
        let pair = MixturePair::new(law, noise_multiplier)?;
        if let Some(shift) = pair.single_shift() {
            return Ok((shift != 0.0).then(|| Self::shift(shift.abs() / noise_multiplier)));
        }
        let piece = Piece::whole(pair, (direction == Direction::Remove, direction == Direction::Add));
        Ok(Some(Self::new(SmoothLoss::new(vec![piece], 0.0))))
    }

    /// Records replaced under Poisson sampling: the mixture of `law` against its mirror image, Σ_j w_j N(s_j) against
    /// Σ_j w_j N(−s_j) (`docs/theory/dominating-pairs.md`, Theorem 7; PITFALLS Proposition 13 for one record).
    ///
    /// # Errors
    /// As [`MixturePair::new`].
    pub fn replace_poisson(law: &GroupLaw, noise_multiplier: f64) -> Result<Option<Self>> {
        let pair = MixturePair::new(law, noise_multiplier)?;
        if let Some(shift) = pair.single_shift() {
            return Ok((shift != 0.0).then(|| Self::shift(2.0 * shift.abs() / noise_multiplier)));
        }
        Ok(Some(Self::new(SmoothLoss::new(
            vec![Piece::whole(pair, (true, true))],
            0.0,
        ))))
    }

    /// One record replaced in a fixed batch (PITFALLS Theorem 14 and §8): the hockey-stick curve is that of the
    /// mixture (1−γ)N(0) + γN(2) against N(0) for ε ≥ 0 and that of N(0) against the mixture for ε < 0.
    ///
    /// The slope of a hockey-stick curve in e^ε is −Q(ℓ > ε), so the joined curve is that of a loss that has the law
    /// of the first pair above 0, that of the second below 0, and the rest of its mass at 0. Both ratios pass
    /// through 1 midway, at x = 1 (mirrored: −1), so that
    /// P(ℓ > 0) = (1−γ)a + γ(1−a) and P(ℓ < 0) = a with a = P(N(0, σ²) > 1), which leaves (1−γ)(1−2a).
    ///
    /// # Errors
    /// As [`MixturePair::new`].
    pub fn replace_fixed_batch(law: &GroupLaw, noise_multiplier: f64) -> Result<Option<Self>> {
        let pair = MixturePair::new(law, noise_multiplier)?;
        if let Some(shift) = pair.single_shift() {
            return Ok((shift != 0.0).then(|| Self::shift(shift / noise_multiplier)));
        }
        let middle = 0.5 * pair.shift_range().1;
        let unshifted = law.log_probability_of_zero().exp();
        let inside = libm::erf(middle / (noise_multiplier * std::f64::consts::SQRT_2)); // 1 − 2a
        let pair = Arc::new(pair);
        let above = Piece::new(&pair, (true, false), middle, f64::INFINITY);
        let below = Piece::new(&pair, (false, true), f64::NEG_INFINITY, -middle);
        let loss = SmoothLoss::new(vec![above, below], unshifted * inside);
        Ok(Some(Self::new(loss)))
    }

    /// k records replaced in a fixed batch, an upper bound (`docs/theory/replaced-groups.md`): the number j ≥ 1 of members in the batch is
    /// published, given that there is one, and whether there is one is hidden as for one record. The shifts of `law` are distances.
    ///
    /// For groups of more than [`MAX_HIDDEN`] whether a member is in the batch is published too, which is cheaper.
    ///
    /// # Errors
    /// As [`MixturePair::new`].
    pub fn replace_group_fixed_batch(law: &GroupLaw, noise_multiplier: f64) -> Result<Option<Self>> {
        let log_absent = law.log_probability_of_zero();
        let shifted = || {
            law.shifts()
                .iter()
                .zip(law.log_weights())
                .filter(|(shift, _)| **shift > 0.0)
        };
        if shifted().next().is_none() {
            return Ok(None);
        }
        if log_absent == f64::NEG_INFINITY || shifted().count() > MAX_HIDDEN {
            let distances: Vec<f64> = law.shifts().iter().map(|s| s / noise_multiplier).collect();
            return Ok(Some(Self::gaussians(law.log_weights().to_vec(), distances)));
        }
        let present = -log_absent.exp_m1();
        let mut parts = Vec::new();
        for (&shift, &log_weight) in shifted() {
            let one = GroupLaw::explicit(&[log_absent.exp(), present], &[0.0, shift])?;
            if let Some(loss) = Self::replace_fixed_batch(&one, noise_multiplier)? {
                parts.push((log_weight - present.ln(), loss));
            }
        }
        Ok(Some(Self::public_outcome(parts)))
    }
}

/// Largest group of which it is hidden whether a member is in the batch: each number of members is a loss of its own, a millisecond each.
const MAX_HIDDEN: usize = 16;

impl PrivacyLoss for SmoothLoss {
    fn moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        let question = (c, log_tolerance);
        if let Some(known) = self.moments.iter().find(|known| known.question == question) {
            self.work += known.work;
            return known.answer;
        }
        let before = self.work;
        let real = self.real_paths();
        let answer = self.nodes(c, 0.0, &real, log_tolerance).moments();
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

    fn estimated_moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        self.estimate(c).unwrap_or_else(|| self.moments(c, log_tolerance))
    }

    fn tilted(&mut self, c: f64, log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        Box::new(TiltedSmoothLoss::new(self, c, log_tolerance))
    }

    fn support(&mut self, c: f64, log_tolerance: f64) -> Support<'_> {
        let real = self.real_paths();
        let nodes = self.nodes(c, 0.0, &real, log_tolerance);
        let mut atoms = Vec::new();
        if self.atom > 0.0 {
            atoms.push(Atom::new(0.0, self.atom.ln()));
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
            fine: None,
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

    fn truncated(&self, log_mass: f64, _steps: f64) -> (StepLoss, f64) {
        /// Bisections of the output, and the width in σ at which they end: where the cut is need not be exact.
        const BISECTIONS: usize = 60;
        const ACCURACY: f64 = 1e-3;
        /// Standard deviations beyond the outermost centre that are searched: P has e^-1800 beyond.
        const REACH: f64 = 60.0;
        let mut lost = LogSum::default();
        let mut pieces = self.pieces.clone();
        for piece in pieces.iter_mut().filter(|piece| piece.end.is_infinite()) {
            let sigma = piece.noise_multiplier();
            let (low, high) = (piece.start.max(-REACH * sigma), piece.largest_shift() + REACH * sigma);
            let is_light = |x: f64| Ok::<_, Infallible>(piece.log_masses_above(x).0 <= log_mass);
            let Ok(end) = bisect((low, high), BISECTIONS, |_| ACCURACY * sigma, is_light);
            *piece = piece.clone().truncated(end);
            lost.add(piece.log_masses_above(piece.end).0);
        }
        /// Room for the errors of the tails, which are below 1e-11.
        const ROOM: f64 = 1e-9;
        let removed = lost.ln().exp();
        let mut truncated = Self::new(pieces, self.atom);
        truncated.removed = self.removed + Approx::new(removed, ROOM * removed);
        (StepLoss::new(truncated), lost.ln() + ROOM)
    }

    fn density_terms(&self) -> usize {
        self.pieces.iter().map(Piece::atoms).max().unwrap_or(0)
    }

    fn work(&self) -> u64 {
        self.work
    }

    fn max_loss(&self) -> MaxLoss {
        let most = self
            .pieces
            .iter()
            .map(Piece::max_loss)
            .fold(f64::NEG_INFINITY, f64::max);
        MaxLoss::at_most(rounded_up(most))
    }

    fn widest_distance(&self) -> Option<f64> {
        Some(self.pieces.iter().map(Piece::widest_distance).fold(0.0, f64::max))
    }

    fn common_loss(&self) -> Option<f64> {
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
            let width = (width / piece.point(centre, &mut scratch).slope).min(0.5 * piece.noise_multiplier());
            Separation::Gate(Gate::above(centre, width))
        })
    }

    fn near_part(&self, separation: Separation, reach: f64) -> Option<StepLoss> {
        let gate = separation.gate()?.below();
        let mut near = self.part(gate)?;
        if let Some(first) = near.pieces.first_mut() {
            // Gates of other outputs may be mapped below the start of these: then a width of the gate is left.
            let end = (gate.to + reach * gate.width).max(first.start + gate.width);
            first.cut_near(end);
        }
        Some(StepLoss::new(near))
    }

    fn far_part(&self, separation: Separation) -> Option<StepLoss> {
        self.part(separation.gate()?).map(StepLoss::new)
    }

    fn by_large_ratio(&self, split: &RatioSplit) -> LossByRatio {
        smooth_large::by_large_ratio(self, split)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept has the rest of the mass, for one curve and for two with an atom between them; half of what is said to be lost would
    /// be too little.
    #[test]
    fn a_truncated_loss_has_lost_what_it_says() {
        let law = GroupLaw::binomial(2, 0.1).unwrap();
        let batch = GroupLaw::hypergeometric(1, 20, 100).unwrap();
        for loss in [
            StepLoss::mixture(&law, 0.8, Direction::Remove).unwrap().unwrap(),
            StepLoss::mixture(&law, 0.8, Direction::Add).unwrap().unwrap(),
            StepLoss::replace_poisson(&law, 1.5).unwrap().unwrap(),
            StepLoss::replace_fixed_batch(&batch, 1.0).unwrap().unwrap(),
        ] {
            for log_mass in [-3.0, -6.0, -10.0] {
                let (mut kept, lost) = loss.truncated(log_mass, 1.0);
                let Approx { value, error } = kept.moments(0.0, -40.0).log_moment;
                let exact = -value.exp_m1();
                let (found, room) = (lost.exp(), error + 1e-13);
                assert!(
                    found >= exact - room && found < exact * (1.0 + 1e-8) + room,
                    "{loss:?} {log_mass}: {exact} {found}"
                );
                assert!(lost <= log_mass + 1e-8, "{log_mass} {lost}");
            }
        }
    }
}
