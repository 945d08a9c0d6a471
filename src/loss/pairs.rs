//! The table of supported pairs: which pair of distributions dominates a step (`docs/theory/dominating-pairs.md`).

use crate::error::{Error, Result};
use crate::loss::StepLoss;
use crate::special::extended::Extended;
use crate::special::normal::log_upper_tail;
use crate::step::group::require_group_size;
use crate::step::{Direction, GroupLaw, Mechanism, Sampling, Step};

/// Below this multiple of the smallest shift that is not 0 the noise reveals whether an output is shifted: both kinds are 10⁸ standard deviations
/// apart, and their densities overlap by less than e^-1e15.
pub(super) const REVEALING_NOISE: f64 = 1e-8;
/// The least noise multiplier that a mixture is made with: with less, shifts are taken to be told apart.
const LEAST_NOISE: f64 = 1e-100;
/// Laplace noise of smaller scales reveals the shift of every output: 1/b, and exponents of e^{1/b}, are next to the end of the range of an `f64`.
pub(super) const REVEALING_SCALE: f64 = 1e-300;
/// Larger noise multipliers are replaced by this one, which can only overstate the loss.
pub(super) const MAX_NOISE: f64 = 1e30;

/// The dominating pair of one step: its privacy loss, where there is one, and the outputs that only one of P and Q may have.
#[derive(Debug)]
pub enum StepOutcome {
    /// Nothing, as no member is ever in a batch.
    Nothing,
    /// A loss of finite size at every output.
    Loss(StepLoss),
    /// A loss on the outputs that both P and Q may have. P has such an output with probability κ and Q with κ'. The loss is
    /// that of the two laws given such an output, plus the offset log(κ/κ').
    Partly {
        /// log κ.
        log_common: f64,
        /// The offset log κ − log κ'.
        offset: f64,
        /// The loss of the conditional laws; none if they are equal.
        loss: Option<StepLoss>,
    },
    /// The output reveals whether a member that is added or removed was in the batch, as the noise is too small to hide it. With probability
    /// e^`log_unseen` no member is.
    RevealsMembership {
        /// log w_0.
        log_unseen: f64,
    },
}

/// A step with little noise, as if it had none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noiseless {
    /// log of the probability that no member is in the batch.
    pub log_unseen: f64,
    /// log of a bound on the probability that noise makes a batch with a member look like one without, or the reverse.
    pub log_confusion: f64,
}

/// The smallest shift that is not 0; infinite where there is none.
fn nearest_shift(law: &GroupLaw) -> f64 {
    let shifted = law.shifts().iter().filter(|shift| **shift > 0.0);
    shifted.copied().fold(f64::INFINITY, f64::min)
}

/// A step whose outputs reveal whether a member is in the batch, where that is not so with the probability e^`log_unseen`. Where records are replaced, a batch
/// without one has one law before and after.
fn revealing(log_unseen: f64, direction: Option<Direction>) -> StepOutcome {
    match direction {
        Some(_) => StepOutcome::RevealsMembership { log_unseen },
        None => StepOutcome::Partly {
            log_common: log_unseen,
            offset: 0.0,
            loss: None,
        },
    }
}

impl Step {
    /// This step without its noise, where the noise is so small that it rarely hides who was in the batch; `None` where it is
    /// larger, for other mechanisms and for replacement.
    ///
    /// # Errors
    /// As [`Step::outcome`].
    ///
    /// # Example
    /// ```
    /// use hockeystick::{Direction, Group, Mechanism, Sampling, Step};
    /// let mut scheme = Step {
    ///     mechanism: Mechanism::Gaussian { noise_multiplier: 0.01 },
    ///     sampling: Sampling::Poisson { sample_rate: 0.1 },
    ///     group: Group::of(1),
    /// };
    /// let noiseless = scheme.noiseless(Some(Direction::Add))?.unwrap();
    /// assert!((noiseless.log_unseen - 0.9f64.ln()).abs() < 1e-15);
    /// // An output nearer to the other mean is 50 standard deviations away.
    /// assert!((noiseless.log_confusion + 1254.8).abs() < 0.1);
    /// scheme.mechanism = Mechanism::Gaussian { noise_multiplier: 1.0 };
    /// assert_eq!(scheme.noiseless(Some(Direction::Add))?, None);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn noiseless(&self, direction: Option<Direction>) -> Result<Option<Noiseless>> {
        /// Half of the least distance of two means in standard deviations.
        const LEAST: f64 = 20.0;
        let Mechanism::Gaussian { noise_multiplier } = self.mechanism else {
            return Ok(None);
        };
        // The nearest other mean is at 1, at 2 for fixed batches, or at the smallest norm, which is at most 1. Weights that are
        // given say no better than to their own rounding how rare it is to be seen.
        if direction.is_none() || self.sampling.has_no_single_law() || LEAST * noise_multiplier > 1.0 {
            return Ok(None);
        }
        let law = self.law()?;
        let distance = 0.5 * nearest_shift(&law) / noise_multiplier;
        Ok((LEAST..f64::INFINITY).contains(&distance).then(|| Noiseless {
            log_unseen: self.log_unseen(&law),
            log_confusion: log_upper_tail(distance * (1.0 - 1e-12)),
        }))
    }

    /// log of the probability that no member is seen in a batch, to a few roundings even where it is next to 0: sums over
    /// subsets of members have that only in relation to 1.
    fn log_unseen(&self, law: &GroupLaw) -> f64 {
        let (Sampling::Poisson { sample_rate }, Some(norms)) = (self.sampling, &self.group.norms) else {
            return law.log_probability_of_zero();
        };
        let rate = |i: usize| self.group.rates.as_ref().map_or(sample_rate, |rates| rates[i]);
        let seen = norms.iter().enumerate().filter(|(_, norm)| **norm > 0.0);
        let unseen = seen.map(|(i, _)| Extended::one_minus(rate(i)));
        unseen.fold(Extended::ONE, |product, one| product * one).ln()
    }

    /// The privacy loss of one step; `direction` is `None` for replacement.
    ///
    /// # Errors
    /// An argument out of range, or a combination without a pair in `docs/theory/dominating-pairs.md`.
    pub fn outcome(&self, direction: Option<Direction>) -> Result<StepOutcome> {
        require_group_size(self.group.size)?;
        self.mechanism.check()?;
        if let Some(sample) = self.truncated_sample() {
            return self.truncated(&sample, direction);
        }
        let loss = match (self.mechanism, direction) {
            // The steps of an epoch are one release: see `Step::outcomes`.
            _ if self.sampling.is_allocated() => {
                return Err(unsupported("allocation into batches", "steps on their own"));
            }
            (Mechanism::Gaussian { noise_multiplier }, direction) => {
                let law = self.law()?;
                let nearest = nearest_shift(&law);
                if nearest.is_finite() && noise_multiplier < (REVEALING_NOISE * nearest).max(LEAST_NOISE) {
                    return Ok(revealing(self.log_unseen(&law), direction));
                }
                let sigma = noise_multiplier.clamp(LEAST_NOISE, MAX_NOISE);
                match (direction, self.sampling) {
                    (Some(direction), _) => StepLoss::mixture(&law, sigma, direction)?,
                    (None, Sampling::Poisson { .. }) => StepLoss::replace_poisson(&law, sigma)?,
                    (None, Sampling::FixedBatch { .. }) if self.group.size == 1 => {
                        StepLoss::replace_fixed_batch(&law, sigma)?
                    }
                    // The shift of a mixture is published where it is not 0: `docs/theory/batch-clipping.md`, Theorem 6.
                    (None, Sampling::FixedBatch { .. } | Sampling::Mixture) => {
                        StepLoss::replace_group_fixed_batch(&law, sigma)?
                    }
                    (None, sampling) => return Err(unsupported(sampling.name(), "replacement")),
                }
            }
            (Mechanism::Laplace { scale }, direction) if scale < REVEALING_SCALE => {
                return self.laplace_without_noise(direction);
            }
            (Mechanism::Laplace { scale }, direction) => self.laplace(scale, direction)?,
            (Mechanism::Skellam { .. }, _) => return Err(unsupported("Skellam", "the exact engine")),
            (Mechanism::RandomizedResponse { keep }, direction) => self.response(keep, direction)?,
        };
        Ok(loss.map_or(StepOutcome::Nothing, StepOutcome::Loss))
    }

    /// Laplace noise: the pair of `docs/theory/dominating-pairs.md` for Poisson sampling, by PITFALLS Proposition 9 for fixed
    /// batches, where that holds for groups too ([`GroupLaw::hypergeometric`]), and by Theorem 14 where records of a fixed
    /// batch are replaced.
    ///
    /// Several replaced records of a fixed batch: let h be the probability that no member is in the batch, A and B the laws of the output
    /// given that one is, before and after, and M that given none, which is one law. For α = e^ε ≥ 1 and α' = (α − h)/(1 − h),
    /// hM + (1 − h)A − α(hM + (1 − h)B) = (1 − h)(A − α'((1 − β)M + βB)) with β = α/α', so that δ is at most (1 − h) times
    /// the larger of the divergences at α' of A from M and from B. A batch is shifted by at most twice its number of members,
    /// hence by at most the largest such distance d, in both: δ is at most that of (1 − h)Lap(d) + h Lap(0) from Lap(0), as
    /// for one record that is in the batch with probability 1 − h.
    fn laplace(&self, scale: f64, direction: Option<Direction>) -> Result<Option<StepLoss>> {
        let law = self.law()?;
        let all = law.log_probability_of_zero() == f64::NEG_INFINITY;
        match (self.sampling, direction) {
            _ if self.group.norms.is_some() => Err(unsupported("Laplace", "norms of its own")),
            (Sampling::Poisson { .. }, Some(direction)) => Ok(StepLoss::laplace(&law, scale, direction)),
            // In units of two, which is what a member that pushes another record out moves.
            (Sampling::FixedBatch { .. }, Some(direction)) => {
                Ok(StepLoss::laplace(&law.in_units_of(2.0), 0.5 * scale, direction))
            }
            (Sampling::FixedBatch { .. }, None) if all => {
                // One distance for all that may be in a batch; full batches have no other.
                let farthest = law.shifts().last().copied().unwrap_or(0.0);
                let widest = GroupLaw::explicit(&[1.0], &[farthest])?;
                Ok(StepLoss::laplace(&widest, scale, Direction::Remove))
            }
            (Sampling::FixedBatch { .. }, None) => {
                let farthest = law.shifts().last().copied().unwrap_or(2.0);
                Ok(StepLoss::replaced_laplace(&law, scale * 2.0 / farthest))
            }
            (Sampling::Poisson { .. }, None) => StepLoss::mirrored_laplace(&law, scale),
            (sampling, _) => Err(unsupported("Laplace", sampling.name())),
        }
    }

    /// Laplace noise of so small a scale that an output looks like one of the other kind with a probability below e^−1e299. Where records are
    /// replaced, a batch without one has one law before and after.
    fn laplace_without_noise(&self, direction: Option<Direction>) -> Result<StepOutcome> {
        // What is refused is refused with any noise.
        if self.laplace(1.0, direction)?.is_none() {
            return Ok(StepOutcome::Nothing);
        }
        Ok(revealing(self.law()?.log_probability_of_zero(), direction))
    }

    /// Randomised response: the pair of `docs/theory/dominating-pairs.md` for Poisson sampling; for fixed batches by Theorems
    /// 10 and 14 of PITFALLS. The two answers dominate whatever a batch holds: what counts is whether it holds a member.
    fn response(&self, keep: f64, direction: Option<Direction>) -> Result<Option<StepLoss>> {
        let law = self.law()?;
        match (self.sampling, direction) {
            _ if self.group.norms.is_some() => Err(unsupported("RandomizedResponse", "norms of its own")),
            (Sampling::Poisson { .. } | Sampling::FixedBatch { .. }, Some(direction)) => {
                Ok(StepLoss::response(&law, keep, direction))
            }
            (Sampling::Poisson { .. } | Sampling::FixedBatch { .. }, None) => {
                Ok(StepLoss::replaced_response(&law, keep))
            }
            (sampling, _) => Err(unsupported("RandomizedResponse", sampling.name())),
        }
    }
}

/// A combination without a pair in `docs/theory/dominating-pairs.md`.
pub(super) fn unsupported(mechanism: &str, what: &str) -> Error {
    Error::Mismatch(format!("{mechanism} is not supported with {what}"))
}
