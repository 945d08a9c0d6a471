//! Steps that share one privacy loss, and the moments of their sum.

use crate::approx::Approx;
use crate::loss::StepLoss;
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::TiltedMoments;
use crate::special::compensated_sum::CompensatedSum;

/// log of the part of a moment that quadrature may leave out; the moment's error counts it.
const CHOICE_TOLERANCE: f64 = -28.0;

/// Number of different steps up to which the panels of each (about 20 kB) stay in memory for the next question.
pub(crate) const KEEPING_PANELS: usize = 1000;

/// A loss and how often it is added.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Privacy loss of one step.
    pub loss: StepLoss,
    /// Number of steps, at least 1.
    pub steps: f64,
}

/// Number of different steps in all of them, as far as their cost is concerned.
pub(crate) fn kinds(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.loss.kinds()).sum()
}

/// The largest loss of the sum.
pub(crate) fn max_loss(segments: &[Segment]) -> MaxLoss {
    MaxLoss::sum(segments.iter().map(|segment| (segment.steps, segment.loss.max_loss())))
}

/// A sum of numbers with errors, of which there may be a million: plain addition would round off a million times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ApproxSum {
    value: CompensatedSum,
    error: f64,
}

impl ApproxSum {
    /// Adds a number.
    pub(crate) fn add(&mut self, Approx { value, error }: Approx) {
        self.value.add(value);
        self.error += error;
    }

    /// The sum; its error includes its own rounding.
    pub(crate) fn value(self) -> Approx {
        let value = self.value.value();
        Approx::new(value, self.error + f64::EPSILON * value.abs())
    }
}

/// A(c) = Σ T·K(c) of some segments, with the mean and variance of the tilted sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Total {
    /// A(c).
    pub(crate) log_moment: Approx,
    /// A'(c).
    pub(crate) mean: f64,
    /// A''(c).
    pub(crate) variance: f64,
}

impl Total {
    /// The moments at c > −1; `None` where they are beyond the range of an `f64`.
    pub(crate) fn at(segments: &mut [Segment], c: f64) -> Option<Self> {
        let total = Self::of(segments, |loss, log_tolerance| loss.moments(c, log_tolerance))?;
        total.is_certified().then_some(total)
    }

    /// Estimates of the moments at c > −1, by which tilts are chosen; likewise.
    pub(crate) fn estimated(segments: &mut [Segment], c: f64) -> Option<Self> {
        Self::of(segments, |loss, log_tolerance| loss.estimated_moments(c, log_tolerance))
    }

    fn of(segments: &mut [Segment], moments: impl Fn(&mut StepLoss, f64) -> TiltedMoments) -> Option<Self> {
        let mut total = Self::default();
        let mut log_moment = ApproxSum::default();
        for segment in segments {
            let steps = segment.steps;
            let one = moments(&mut segment.loss, CHOICE_TOLERANCE - steps.ln());
            log_moment.add(one.log_moment.times(steps));
            total.mean += steps * one.mean;
            total.variance += steps * one.variance;
        }
        total.log_moment = log_moment.value();
        let finite = total.log_moment.value.is_finite() && total.mean.is_finite() && total.variance.is_finite();
        finite.then_some(total)
    }

    /// Whether the error of A(c) is known.
    pub(crate) fn is_certified(&self) -> bool {
        self.log_moment.upper().is_finite()
    }
}

/// An upper bound on A(c) = Σ T·K(c), c > 0.
pub(crate) fn log_moment_above(segments: &mut [Segment], c: f64) -> f64 {
    let mut total = 0.0;
    for segment in &mut *segments {
        let tolerance = CHOICE_TOLERANCE - segment.steps.ln();
        total += segment.steps * segment.loss.log_moment_above(c, tolerance);
    }
    // Sums of the bounds, which are not negative but for their rounding.
    total + f64::EPSILON * (2.0 + segments.len() as f64) * total.abs()
}

/// K(c) of one step, for scaling; `None` beyond the range of an `f64`.
pub(crate) fn log_moment(loss: &mut StepLoss, c: f64) -> Option<f64> {
    let value = loss.moments(c, CHOICE_TOLERANCE).log_moment.value;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Direction, GroupLaw};

    #[test]
    fn totals_of_gaussians_have_their_closed_form() {
        let segment = |distance: f64, steps: f64| Segment {
            loss: StepLoss::shift(distance),
            steps,
        };
        let mut segments = [segment(0.5, 12.0), segment(1.0, 3.0)];
        let variance = 12.0 * 0.25 + 3.0;
        for c in [-0.5, 0.3, 10.0] {
            let total = Total::at(&mut segments, c).unwrap();
            let exact = 0.5 * c * (c + 1.0) * variance;
            assert!(
                (total.log_moment.value - exact).abs() <= total.log_moment.error && total.log_moment.error < 1e-11,
                "{total:?}"
            );
            assert!((total.mean - 0.5 * (2.0 * c + 1.0) * variance).abs() < 1e-12 * variance * (1.0 + c));
            assert!((total.variance - variance).abs() < 1e-12 * variance);
        }
    }

    /// 0.1 ten thousand times, added one after the other, is off by 1.6e-10, and 0.01 as often by 1.4e-11.
    #[test]
    fn totals_of_many_segments_are_within_their_error() {
        const COUNT: usize = 10_000;
        let mut sum = ApproxSum::default();
        (0..COUNT).for_each(|_| sum.add(Approx::exact(0.1)));
        let Approx { value, error } = sum.value();
        let exact = 0.1 * COUNT as f64;
        assert!((value - exact).abs() <= error && error < 1e-12, "{value} {error}");
        // c(c + 1)/2·μ² with c = 1 and μ = 0.1.
        let of_one = |_| Segment {
            loss: StepLoss::shift(0.1),
            steps: 1.0,
        };
        let mut segments: Vec<Segment> = (0..COUNT).map(of_one).collect();
        let Approx { value, error } = Total::at(&mut segments, 1.0).unwrap().log_moment;
        let exact = 0.01 * COUNT as f64;
        assert!((value - exact).abs() < 2e-13 && error < 1e-11, "{value} {error}");
    }

    #[test]
    fn the_upper_bound_on_a_moment_is_above_it_and_close() {
        // mpmath, 40 digits: log(quad(lambda x: npdf(x, 0, 1)*(1-q+q*exp(x-0.5))**4, linspace(-12, 14, 97))), q = mpf(0.1)
        const LOG_MOMENT: f64 = 0.176_017_820_880_241_5;
        let law = GroupLaw::binomial(1, 0.1).unwrap();
        let loss = StepLoss::mixture(&law, 1.0, Direction::Remove).unwrap().unwrap();
        let total = Total::at(&mut [Segment { loss, steps: 1e3 }], 3.0).unwrap();
        let upper = total.log_moment.upper();
        assert!(
            (1e3 * LOG_MOMENT - 1e-13..1e3 * LOG_MOMENT + 1e-4).contains(&upper),
            "{total:?}"
        );
    }

    #[test]
    fn moments_beyond_the_range_of_numbers_are_none() {
        let mut segments = [Segment {
            loss: StepLoss::shift(1e150),
            steps: 1e10,
        }];
        assert!(Total::at(&mut segments, 1e6).is_none());
    }
}
