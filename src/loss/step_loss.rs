//! The privacy loss of one step in one direction: which pair, and in which form its moments are computed.

use crate::error::Result;
use crate::loss::MixturePair;
use crate::loss::atoms::AtomLoss;
use crate::loss::gaussian::GaussianLoss;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_piece::{Piece, Point, Scratch};
use crate::step::{Direction, GroupLaw};
use std::sync::Arc;

/// Privacy loss ℓ = log dP/dQ of one step under P.
#[derive(Debug)]
pub enum StepLoss {
    /// Gaussian noise: analytic pieces, perhaps an atom at 0.
    Smooth(Box<SmoothLoss>),
    /// Mixtures of Gaussian losses, a single one included.
    Gaussian(GaussianLoss),
    /// One-dimensional Laplace noise.
    Laplace(LaplaceLoss),
    /// Few outcomes.
    Atoms(AtomLoss),
}

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
        Ok(Some(Self::Smooth(Box::new(SmoothLoss::new(vec![piece], 0.0)))))
    }

    /// Number of parts the densities are sums of: what an evaluation costs.
    pub fn atoms(&self) -> usize {
        match self {
            Self::Smooth(loss) => loss.pieces().iter().map(Piece::atoms).max().unwrap_or(0),
            Self::Gaussian(loss) => loss.parts().count(),
            Self::Laplace(_) => 1,
            Self::Atoms(loss) => loss.atoms().len(),
        }
    }

    /// μ such that N(μ, 1) against N(0, 1) dominates the step: every member of the group always takes part (mixtures are
    /// dominated by their widest pair, as the hockey-stick divergence is jointly convex). `None` without Gaussian noise.
    pub fn widest_distance(&self) -> Option<f64> {
        match self {
            Self::Smooth(loss) => Some(loss.pieces().iter().map(Piece::widest_distance).fold(0.0, f64::max)),
            Self::Gaussian(loss) => Some(loss.parts().map(|part| part.0).fold(0.0, f64::max)),
            Self::Laplace(_) | Self::Atoms(_) => None,
        }
    }

    /// What questions about moments cost so far, see [`SmoothLoss::work`].
    pub fn work(&self) -> u64 {
        match self {
            Self::Smooth(loss) => loss.work(),
            Self::Gaussian(_) | Self::Atoms(_) => 0,
            Self::Laplace(loss) => loss.work(),
        }
    }

    /// The least upper bound of the loss, rounded up, as the sum of a number and a small one.
    pub fn most_loss(&self) -> (f64, f64) {
        let above = |loss: f64| loss + 8.0 * f64::EPSILON * loss.abs();
        let one = match self {
            Self::Smooth(loss) => loss
                .pieces()
                .iter()
                .map(Piece::most_loss)
                .fold(f64::NEG_INFINITY, f64::max),
            Self::Gaussian(_) => f64::INFINITY,
            Self::Laplace(loss) => return loss.most_loss(),
            Self::Atoms(loss) => loss.atoms()[0].0,
        };
        (above(one), 0.0)
    }

    /// A bound on how far [`StepLoss::most_loss`] is above the least upper bound, where that has some probability.
    pub fn most_loss_slack(&self) -> f64 {
        match self {
            Self::Smooth(_) | Self::Gaussian(_) => 0.0,
            Self::Laplace(loss) => loss.most_loss_slack(),
            Self::Atoms(loss) => 16.0 * f64::EPSILON * (loss.atoms()[0].0.abs() + loss.floor()),
        }
    }

    /// log of the probability of the largest loss under P.
    pub fn log_mass_of_most_loss(&self) -> f64 {
        match self {
            Self::Smooth(_) | Self::Gaussian(_) => f64::NEG_INFINITY,
            Self::Laplace(loss) => loss.log_mass_of_most_loss(),
            Self::Atoms(loss) => loss.atoms()[0].1,
        }
    }

    /// log of an upper bound on P(ℓ > `level`); 0 where none is at hand.
    pub fn log_mass_above(&self, level: f64) -> f64 {
        match self {
            Self::Smooth(_) | Self::Gaussian(_) => 0.0,
            Self::Laplace(loss) => loss.log_mass_above(level),
            Self::Atoms(loss) => loss.log_mass_above(level),
        }
    }

    /// N(μ, 1) against N(0, 1).
    pub fn shift(distance: f64) -> Self {
        Self::Gaussian(GaussianLoss::new(vec![0.0], vec![distance]))
    }

    /// A pair that is one of N(μ_j, 1) against N(0, 1), and everyone sees which: e^`log_weights` are their probabilities.
    pub fn gaussians(log_weights: Vec<f64>, distances: Vec<f64>) -> Self {
        Self::Gaussian(GaussianLoss::new(log_weights, distances))
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
        Ok(Some(Self::Smooth(Box::new(SmoothLoss::new(vec![piece], 0.0)))))
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
        Ok(Some(Self::Smooth(Box::new(loss))))
    }

    /// k records replaced in a fixed batch: an upper bound, as the divergence of Σ h_j P_j against Σ h_j Q_j is at
    /// most Σ h_j times that of P_j against Q_j (joint convexity; `docs/theory/dominating-pairs.md`). The shifts of `law` are distances.
    pub fn replace_group_fixed_batch(law: &GroupLaw, noise_multiplier: f64) -> Option<Self> {
        let distances: Vec<f64> = law.shifts().iter().map(|s| s / noise_multiplier).collect();
        let moves = distances.iter().any(|&m| m != 0.0);
        moves.then(|| Self::Gaussian(GaussianLoss::new(law.log_weights().to_vec(), distances)))
    }

    /// Randomised response on a bit that is set if a member of the group is in the batch, by the law of their count.
    pub fn response(law: &GroupLaw, keep: f64, direction: Direction) -> Option<Self> {
        let log_unseen = law.log_probability_of_zero();
        let (seen, unseen) = (-log_unseen.exp_m1(), log_unseen.exp());
        (seen > 0.0).then(|| Self::Atoms(AtomLoss::response((seen, unseen), keep, direction)))
    }

    /// Randomised response on that bit where one record is replaced in a fixed batch (PITFALLS Theorem 14).
    pub fn replaced_response(law: &GroupLaw, keep: f64) -> Option<Self> {
        let seen = -law.log_probability_of_zero().exp_m1();
        (seen > 0.0).then(|| Self::Atoms(AtomLoss::replaced_response(seen, keep)))
    }

    /// One-dimensional Laplace noise of scale b; the shifts of `law` are whole.
    pub fn laplace(law: &GroupLaw, scale: f64, direction: Direction) -> Option<Self> {
        (law.shifts() != [0.0]).then(|| Self::Laplace(LaplaceLoss::new(law, scale, direction)))
    }

    /// Laplace noise where one record is replaced in a fixed batch (PITFALLS Theorem 14); b in units of the clipping norm.
    pub fn replaced_laplace(law: &GroupLaw, scale: f64) -> Option<Self> {
        let seen = -law.log_probability_of_zero().exp_m1();
        match seen {
            0.0 => None,
            1.0 => Self::laplace(law, scale, Direction::Remove),
            _ => Some(Self::Laplace(LaplaceLoss::replaced(seen, scale))),
        }
    }
}

/// A loss as a function of one coordinate, cut where it is not smooth: what the grid route sweeps.
pub(crate) trait LossCurve: Sync {
    /// Loss, slope and log density of P at x.
    fn point(&self, x: f64, scratch: &mut Scratch) -> Point;
    /// After `point`: an upper bound on the distance from x to the centres of the parts of P's density that
    /// count, and of Q's too if `both`, in units of [`LossCurve::scale`].
    fn reach(&self, x: f64, both: bool, scratch: &Scratch) -> f64;
    /// Width over which the density changes.
    fn scale(&self) -> f64;
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

/// A Gaussian loss N(μ²/2, μ²) in its standardised coordinate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GaussianCurve {
    /// μ > 0.
    pub distance: f64,
    /// log of its probability.
    pub log_weight: f64,
}

impl LossCurve for GaussianCurve {
    fn point(&self, x: f64, _: &mut Scratch) -> Point {
        let loss = self.distance * (0.5 * self.distance + x);
        Point {
            loss,
            slope: self.distance,
            log_density: self.log_weight - 0.5 * x * x - 0.5 * (2.0 * std::f64::consts::PI).ln(),
            size: loss.abs(),
        }
    }
    fn reach(&self, x: f64, both: bool, _: &Scratch) -> f64 {
        // Q's density is centred at −μ.
        x.abs() + if both { self.distance } else { 0.0 }
    }
    fn scale(&self) -> f64 {
        1.0
    }
}

/// One smooth piece [j, j + 1] of a branch of a Laplace loss, run backwards for "add" so that the loss grows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaplaceCurve<'a> {
    /// The loss.
    pub loss: &'a LaplaceLoss,
    /// The branch's pair.
    pub direction: Direction,
    /// j.
    pub piece: usize,
}

impl LaplaceCurve<'_> {
    /// The coordinates of the piece's ends, ascending in the loss.
    pub(crate) fn ends(&self) -> (f64, f64) {
        let (low, high) = (self.piece as f64, (self.piece + 1) as f64);
        match self.direction {
            Direction::Remove => (low, high),
            Direction::Add => (-high, -low),
        }
    }
}

impl LossCurve for LaplaceCurve<'_> {
    fn point(&self, x: f64, _: &mut Scratch) -> Point {
        let sign = self.direction.sign();
        let output = sign * x;
        let (log_ratio, slope) = self.loss.log_ratio(self.piece, output);
        Point {
            loss: sign * log_ratio,
            slope,
            log_density: self.loss.log_density(self.direction, output, log_ratio),
            size: self.loss.log_ratio_error(self.piece, output, log_ratio) / f64::EPSILON,
        }
    }
    fn reach(&self, _: f64, _: bool, _: &Scratch) -> f64 {
        2.0 // exponentials of rates 1/b: derivatives stay below 1/bⁿ
    }
    fn scale(&self) -> f64 {
        self.loss.scale()
    }
}
