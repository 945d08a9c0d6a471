//! Steps that share one privacy loss, and the moments of their sum.

use crate::loss::StepLoss;

/// Tolerance of the moments that only steer: which tilt, which period.
const STEERING: f64 = -28.0;

/// Different steps whose panels are kept beside their nodes and for the next question: they take 20 kB or so each.
pub(crate) const KEEPING_PANELS: usize = 1000;

/// A loss and how often it is added.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Privacy loss of one step.
    pub loss: StepLoss,
    /// Number of steps, at least 1.
    pub steps: f64,
}

/// A(c) = Σ T·K(c) of some segments, with the mean and variance of the tilted sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Total {
    /// A(c).
    pub(crate) log_moment: f64,
    error: f64,
    /// A'(c).
    pub(crate) mean: f64,
    /// A''(c).
    pub(crate) variance: f64,
}

impl Total {
    /// The moments at c > −1; `None` where they are beyond the range of an `f64`.
    pub(crate) fn at(segments: &mut [Segment], c: f64) -> Option<Self> {
        let mut total = Self::default();
        for segment in segments {
            let steps = segment.steps;
            let one = segment.loss.moments(c, STEERING - steps.ln());
            total.log_moment += steps * one.log_moment;
            total.error += steps * (one.log_moment_error + f64::EPSILON * one.log_moment.abs());
            total.mean += steps * one.mean;
            total.variance += steps * one.variance;
        }
        let finite = total.log_moment.is_finite()
            && total.error.is_finite()
            && total.mean.is_finite()
            && total.variance.is_finite();
        finite.then_some(total)
    }

    /// An upper bound on A(c).
    pub(crate) fn log_moment_upper(&self) -> f64 {
        self.log_moment + self.error
    }
}

/// K(c) of one step, for scaling; `None` beyond the range of an `f64`.
pub(crate) fn log_moment(loss: &mut StepLoss, c: f64) -> Option<f64> {
    let value = loss.moments(c, STEERING).log_moment;
    value.is_finite().then_some(value)
}
