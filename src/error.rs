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
    /// Two certified bounds on one number leave no room for it: a defect of this crate.
    #[error(
        "two certified bounds on one number contradict each other, so that at least one of them is wrong; this is a \
         defect of hockeystick: please report it with the arguments"
    )]
    Contradiction,
    /// A defect of this crate, caught where it would have left it.
    #[error("hockeystick failed internally; please report the arguments")]
    Internal,
    /// Another thread used what was asked for while this process was forked.
    #[error(
        "another thread was using this object when this process was forked, so that its state in this process is unknown: \
         make a new one here, or load a saved one"
    )]
    Forked,
    /// The memory that an argument asks for is not there.
    #[error("{argument} asks for more memory than there is, got {value}")]
    TooLarge {
        /// Name of the argument.
        argument: &'static str,
        /// Its value, printed.
        value: String,
    },
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
            value: shortened(format!("{value:?}")),
            allowed,
        }
    }
}

/// The beginning of words too long for a message.
fn shortened(mut words: String) -> String {
    /// Characters that a message repeats.
    const MOST: usize = 300;
    if let Some((end, _)) = words.char_indices().nth(MOST) {
        words.truncate(end);
        words.push_str("...");
    }
    words
}

/// Checks `condition` on a value of `argument`; NaN must make the condition false.
pub(crate) fn require(
    condition: bool,
    argument: &'static str,
    value: impl Debug,
    allowed: &'static str,
) -> Result<()> {
    if condition {
        Ok(())
    } else {
        Err(Error::out_of_range(argument, value, allowed))
    }
}

/// Checks that `value` is a probability.
pub(crate) fn require_probability(argument: &'static str, value: f64) -> Result<()> {
    require((0.0..=1.0).contains(&value), argument, value, "in [0, 1]")
}

/// Checks that `sample_rate` is a probability.
pub(crate) fn require_sample_rate(sample_rate: f64) -> Result<()> {
    require_probability("sample_rate", sample_rate)
}

/// Checks that `noise_multiplier` is finite and not negative.
pub(crate) fn require_noise_multiplier(noise_multiplier: f64) -> Result<()> {
    require(
        noise_multiplier >= 0.0 && noise_multiplier.is_finite(),
        "noise_multiplier",
        noise_multiplier,
        "in [0, inf)",
    )
}

/// Checks that `delta` lies strictly between 0 and 1.
pub(crate) fn require_delta(delta: f64) -> Result<()> {
    require(delta > 0.0 && delta < 1.0, "delta", delta, "in (0, 1)")
}

/// Checks that ε is finite and not negative.
pub(crate) fn require_epsilon(epsilon: f64) -> Result<()> {
    require((0.0..=f64::MAX).contains(&epsilon), "epsilon", epsilon, "in [0, inf)")
}

/// Checks that ε is finite: a privacy curve extends to negative ε.
pub(crate) fn require_finite_epsilon(epsilon: f64) -> Result<()> {
    require(epsilon.is_finite(), "epsilon", epsilon, "finite")
}

/// Checks that a Rényi order is finite and above 1.
pub(crate) fn require_order(argument: &'static str, order: f64) -> Result<()> {
    require(order > 1.0 && order.is_finite(), argument, order, "in (1, inf)")
}
