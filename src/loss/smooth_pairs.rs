//! Pairs with Gaussian noise whose loss is smooth: which pieces make up the loss of each (`docs/theory/dominating-pairs.md`).

use crate::error::Result;
use crate::loss::MixturePair;
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_piece::Piece;
use crate::loss::step_loss::StepLoss;
use crate::step::{Direction, GroupLaw};
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
        let piece = Piece {
            pair: Arc::new(pair),
            in_p: direction == Direction::Remove,
            in_q: direction == Direction::Add,
            start: f64::NEG_INFINITY,
            end: f64::INFINITY,
            gate: None,
        };
        Ok(Some(Self::new(SmoothLoss::new(vec![piece], 0.0))))
    }

    /// One record replaced under Poisson sampling at rate q: (1−q)N(0) + qN(1) against (1−q)N(0) + qN(−1)
    /// (PITFALLS Proposition 13; mirrored, so that the loss grows).
    ///
    /// # Errors
    /// As [`MixturePair::new`] and [`GroupLaw::binomial`].
    pub fn replace_poisson(sample_rate: f64, noise_multiplier: f64) -> Result<Option<Self>> {
        let law = GroupLaw::binomial(1, sample_rate)?;
        let pair = MixturePair::new(&law, noise_multiplier)?;
        if let Some(shift) = pair.single_shift() {
            return Ok((shift != 0.0).then(|| Self::shift(2.0 / noise_multiplier)));
        }
        let piece = Piece {
            pair: Arc::new(pair),
            in_p: true,
            in_q: true,
            start: f64::NEG_INFINITY,
            end: f64::INFINITY,
            gate: None,
        };
        Ok(Some(Self::new(SmoothLoss::new(vec![piece], 0.0))))
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
        let unmoved = law.log_probability_of_zero().exp();
        let inside = libm::erf(middle / (noise_multiplier * std::f64::consts::SQRT_2)); // 1 − 2a
        let pair = Arc::new(pair);
        let above = Piece {
            pair: pair.clone(),
            in_p: true,
            in_q: false,
            start: middle,
            end: f64::INFINITY,
            gate: None,
        };
        let below = Piece {
            pair,
            in_p: false,
            in_q: true,
            start: f64::NEG_INFINITY,
            end: -middle,
            gate: None,
        };
        let loss = SmoothLoss::new(vec![above, below], unmoved * inside);
        Ok(Some(Self::new(loss)))
    }
}
