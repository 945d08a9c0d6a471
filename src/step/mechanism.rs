//! The noise of a step.

use crate::error::{Result, require, require_noise_multiplier};

/// The noise of one step, in units of one record's sensitivity; Skellam noise, which lives on whole numbers, has its
/// own variance and sensitivity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mechanism {
    /// Gaussian noise of any dimension: standard deviation over the l2 sensitivity.
    Gaussian {
        /// σ ≥ 0.
        noise_multiplier: f64,
    },
    /// Laplace noise: scale over the l1 sensitivity. On a one-dimensional query, except for Rényi divergences.
    Laplace {
        /// b > 0.
        scale: f64,
    },
    /// Symmetric Skellam noise on whole numbers, the difference of two Poisson variables; for Rényi divergences only.
    Skellam {
        /// V > 0: the variance of the noise, twice the rate of either Poisson variable.
        variance: f64,
        /// C ≥ 1, whole: the l1 sensitivity of one record.
        sensitivity: u64,
    },
    /// Randomised response on a bit that is set if a member of the group is in the batch: the answer is true with probability p.
    RandomizedResponse {
        /// p in (0.5, 1).
        keep: f64,
    },
}

/// Largest sensitivity of Skellam noise.
const MAX_SENSITIVITY: u64 = 1 << 20;

impl Mechanism {
    /// This mechanism with another amount of noise: its noise multiplier, scale, variance or probability of keeping the bit, which is
    /// not checked.
    #[must_use]
    pub fn with_parameter(self, parameter: f64) -> Self {
        match self {
            Self::Gaussian { .. } => Self::Gaussian {
                noise_multiplier: parameter,
            },
            Self::Laplace { .. } => Self::Laplace { scale: parameter },
            Self::Skellam { sensitivity, .. } => Self::Skellam {
                variance: parameter,
                sensitivity,
            },
            Self::RandomizedResponse { .. } => Self::RandomizedResponse { keep: parameter },
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// One outside its range.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Gaussian { noise_multiplier } => require_noise_multiplier(noise_multiplier),
            Self::Laplace { scale } => require(scale > 0.0 && scale.is_finite(), "scale", scale, "in (0, inf)"),
            Self::Skellam { variance, sensitivity } => {
                require(
                    variance > 0.0 && variance.is_finite(),
                    "variance",
                    variance,
                    "in (0, inf)",
                )?;
                require(
                    (1..=MAX_SENSITIVITY).contains(&sensitivity),
                    "sensitivity",
                    sensitivity,
                    "a whole number in [1, 1048576]",
                )
            }
            Self::RandomizedResponse { keep } => require(keep > 0.5 && keep < 1.0, "p", keep, "in (0.5, 1)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        for (noise, name) in [
            (Mechanism::Gaussian { noise_multiplier: -1.0 }, "noise_multiplier"),
            (Mechanism::Laplace { scale: 0.0 }, "scale"),
            (
                Mechanism::Skellam {
                    variance: f64::NAN,
                    sensitivity: 1,
                },
                "variance",
            ),
            (
                Mechanism::Skellam {
                    variance: 1.0,
                    sensitivity: 0,
                },
                "sensitivity",
            ),
            (Mechanism::RandomizedResponse { keep: 0.5 }, "p must"),
            (Mechanism::RandomizedResponse { keep: 1.0 }, "p must"),
        ] {
            assert!(noise.check().unwrap_err().to_string().contains(name));
        }
    }
}
