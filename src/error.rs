//! The one error type of the crate: which argument was wrong, its value and what is allowed.

use std::fmt::Debug;

/// Why a computation was refused or stopped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument lies outside its domain.
    #[error("{argument} must be {allowed}, got {value}")]
    OutOfRange {
        /// Name of the argument, as the caller spells it.
        argument: &'static str,
        /// The offending value, printed.
        value: String,
        /// The allowed range, in words.
        allowed: &'static str,
    },
    /// Two arguments do not fit together.
    #[error("{0}")]
    Mismatch(String),
    /// No value of the unknown reaches the target.
    #[error("{0}")]
    Unreachable(String),
    /// A defect of this crate, caught where it would have left it.
    #[error("hockeystick failed internally; please report the arguments")]
    Internal,
    /// The caller asked to stop (Ctrl-C).
    #[error("interrupted")]
    Interrupted,
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::OutOfRange`] that prints `value`: numbers as `1e-20` and `-1.0`, text as `format_args!` gives it.
    pub fn out_of_range(argument: &'static str, value: impl Debug, allowed: &'static str) -> Self {
        Self::OutOfRange {
            argument,
            value: format!("{value:?}"),
            allowed,
        }
    }
}

/// Checks `condition` on a value of `argument`; NaN must make the condition false.
pub fn require(condition: bool, argument: &'static str, value: impl Debug, allowed: &'static str) -> Result<()> {
    if condition {
        Ok(())
    } else {
        Err(Error::out_of_range(argument, value, allowed))
    }
}

/// Checks that `sample_rate` is a probability.
pub fn require_sample_rate(sample_rate: f64) -> Result<()> {
    require(
        (0.0..=1.0).contains(&sample_rate),
        "sample_rate",
        sample_rate,
        "in [0, 1]",
    )
}

/// Checks that `noise_multiplier` is finite and not negative.
pub fn require_noise_multiplier(noise_multiplier: f64) -> Result<()> {
    require(
        noise_multiplier >= 0.0 && noise_multiplier.is_finite(),
        "noise_multiplier",
        noise_multiplier,
        "in [0, inf)",
    )
}

/// Checks that `delta` lies strictly between 0 and 1.
pub fn require_delta(delta: f64) -> Result<()> {
    require(delta > 0.0 && delta < 1.0, "delta", delta, "in (0, 1)")
}

/// Checks that ε is finite and not negative.
pub fn require_epsilon(epsilon: f64) -> Result<()> {
    require((0.0..=f64::MAX).contains(&epsilon), "epsilon", epsilon, "in [0, inf)")
}
