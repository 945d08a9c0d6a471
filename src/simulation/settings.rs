//! The input of a simulation, segments of steps and settings, and its output, an estimate.

use crate::error::{Error, Result, require};
use crate::step::{Direction, GroupLaw, Mechanism, Step};

/// Equal steps with Gaussian noise.
///
/// A [`Step`] names what is sampled and who is protected; what is drawn depends on the law of the shift alone, which may also
/// come from elsewhere.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Law of the shift of the sum.
    pub law: GroupLaw,
    /// σ ≥ 0, the standard deviation of the noise in units of one record's sensitivity.
    pub noise_multiplier: f64,
    /// Number of steps.
    pub steps: u64,
}

impl Segment {
    /// `steps` repetitions of a step.
    ///
    /// # Errors
    /// The errors of [`Step::law`]; noise that is not Gaussian.
    ///
    /// # Example
    /// ```
    /// use hockeystick::simulation::Segment;
    /// use hockeystick::{Group, GroupLaw, Mechanism, Sampling, Step};
    /// let step = Step {
    ///     mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
    ///     sampling: Sampling::Poisson { sample_rate: 0.01 },
    ///     group: Group::of(4),
    /// };
    /// assert_eq!(Segment::new(&step, 10)?.law, GroupLaw::binomial(4, 0.01)?);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn new(step: &Step, steps: u64) -> Result<Self> {
        let Mechanism::Gaussian { noise_multiplier } = step.mechanism else {
            return Err(Error::Mismatch(
                "Monte Carlo simulation takes Gaussian noise only".into(),
            ));
        };
        Ok(Self {
            law: step.law()?,
            noise_multiplier,
            steps,
        })
    }
}

/// The number of samples, the law that they are drawn from, and the confidence of the interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Number of samples of the whole run.
    pub samples: u64,
    /// Which law the loss is drawn from.
    pub direction: Direction,
    /// λ ≥ 0, or `None` for the automatic choice.
    pub tilt: Option<f64>,
    /// Seed, which fixes all bits of the result for any number of threads.
    pub seed: u64,
    /// Probability that the interval holds δ.
    pub confidence: f64,
}

/// An unbiased estimate and an interval that holds δ with the probability `confidence` of the settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Estimate of δ.
    pub estimate: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

impl Settings {
    /// Checks the settings and ε.
    ///
    /// # Errors
    /// ε not finite, no samples, λ outside [0, 10000], a confidence outside (0, 1).
    pub(crate) fn check(&self, epsilon: f64) -> Result<()> {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
        require(self.samples >= 1, "samples", self.samples, "at least 1")?;
        let confidence = self.confidence;
        require(
            confidence > 0.0 && confidence < 1.0,
            "confidence",
            confidence,
            "in (0, 1)",
        )?;
        if let Some(tilt) = self.tilt {
            require((0.0..=1e4).contains(&tilt), "tilt", tilt, "in [0, 10000]")?;
        }
        Ok(())
    }
}

/// Bound on the relative rounding error of the few operations of a closed form.
pub(crate) const ROUNDING: f64 = 4.0 * f64::EPSILON;

impl Estimate {
    /// δ(ε) of steps without losses, which is known but for rounding: 1 − e^ε below 0, and 0 from there on, at an ε with this absolute
    /// `error`.
    pub(crate) fn without_losses(epsilon: f64, error: f64) -> Self {
        let delta = |epsilon: f64| if epsilon < 0.0 { -epsilon.exp_m1() } else { 0.0 };
        Self {
            estimate: delta(epsilon),
            lower: delta(epsilon + error) * (1.0 - ROUNDING),
            upper: (delta(epsilon - error) * (1.0 + ROUNDING)).min(1.0),
        }
    }
}
