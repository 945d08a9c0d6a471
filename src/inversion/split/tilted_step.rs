//! One step's loss, tilted, and the part of it with large losses.

use crate::approx::Approx;
use crate::inversion::segment::Segment;
use crate::loss::StepLoss;
use crate::loss::privacy_loss::TiltedLoss;

/// Largest quadrature error of a characteristic function: beyond it, nodes say too little, and another route serves.
const MAX_ERROR: f64 = 1e-3;

/// log of the tolerance at which the far fraction is estimated.
const ROUGH: f64 = -12.0;
/// log of the largest tolerance of a moment.
const LARGEST_TOLERANCE: f64 = -12.0;
/// log of the far fraction of all steps below which the quotient of two powers is computed (`difference`).
const LOG_RARE: f64 = -2.0;

/// One segment's loss, tilted, and the part of it with large losses.
pub(super) struct Split<'a> {
    pub(super) steps: f64,
    pub(super) whole: Box<dyn TiltedLoss + 'a>,
    pub(super) far: Box<dyn TiltedLoss + 'a>,
    /// log of the far fraction H(c)/φ(c).
    pub(super) log_fraction: Approx,
}

impl<'a> Split<'a> {
    /// The loss and its far part tilted by e^{cℓ}, where quadrature may leave out e^`log_tolerance` of all steps' far parts together.
    ///
    /// With T steps, an error of one step's far part counts T times in the difference of the powers. An error of the whole counts T times the
    /// far fraction, where that of all steps is small (`difference`).
    pub(super) fn new(
        segment: &'a mut Segment,
        far: &'a mut StepLoss,
        c: f64,
        log_tolerance: f64,
    ) -> Option<Self> {
        let rough =
            far.estimated_moments(c, ROUGH).log_moment - segment.loss.estimated_moments(c, ROUGH).log_moment;
        let log_far = segment.steps.ln() + rough.value;
        let far_tolerance = (log_tolerance - log_far).min(LARGEST_TOLERANCE);
        let whole_tolerance = if log_far < LOG_RARE {
            far_tolerance
        } else {
            (log_tolerance - segment.steps.ln()).min(LARGEST_TOLERANCE)
        };
        let mut split = Self {
            steps: segment.steps,
            whole: segment.loss.tilted(c, whole_tolerance),
            far: far.tilted(c, far_tolerance),
            log_fraction: Approx::default(),
        };
        split.set_fraction();
        split.log_fraction.value.is_finite().then_some(split)
    }

    fn set_fraction(&mut self) {
        self.log_fraction = self.far.moments().log_moment - self.whole.moments().log_moment;
    }

    /// Standard deviation of the far loss.
    pub(super) fn far_spread(&self) -> f64 {
        self.far.moments().variance.sqrt()
    }

    /// Nodes, for the cost of a point.
    pub(super) fn size(&self) -> usize {
        self.whole.size() + self.far.size()
    }

    /// Nodes for every y up to `reach`.
    pub(super) fn certify(&mut self, reach: f64) -> Option<()> {
        self.whole.certify(reach);
        self.far.certify(reach);
        if self.whole.quadrature_error() > MAX_ERROR || self.far.quadrature_error() > MAX_ERROR {
            return None;
        }
        self.set_fraction();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::privacy_loss::{PrivacyLoss, TiltedMoments};
    use realfft::num_complex::Complex64;

    /// A loss of which nothing is used but its log moment, with a bound on the error, and the error of its quadrature.
    #[derive(Debug, Clone, Copy)]
    struct Known {
        log_moment: Approx,
        quadrature_error: f64,
    }

    impl PrivacyLoss for Known {
        fn moments(&mut self, _: f64, _: f64) -> TiltedMoments {
            TiltedLoss::moments(self)
        }

        fn tilted(&mut self, _: f64, _: f64) -> Box<dyn TiltedLoss + '_> {
            Box::new(*self)
        }

        fn truncated(&self, _: f64, _steps: f64) -> (StepLoss, f64) {
            (StepLoss::new(*self), f64::NEG_INFINITY)
        }

        fn density_terms(&self) -> usize {
            1
        }
    }

    impl TiltedLoss for Known {
        fn moments(&self) -> TiltedMoments {
            TiltedMoments {
                log_moment: self.log_moment,
                mean: 0.0,
                variance: 4.0,
            }
        }

        fn size(&self) -> usize {
            1
        }

        fn quadrature_error(&self) -> f64 {
            self.quadrature_error
        }

        fn log_decay(&mut self, _: f64) -> f64 {
            0.0
        }

        fn changes(&self, _: f64, last: usize) -> Vec<Approx<Complex64>> {
            vec![Approx::exact(Complex64::default()); last + 1]
        }
    }

    fn known(value: f64, error: f64, quadrature_error: f64) -> StepLoss {
        StepLoss::new(Known {
            log_moment: Approx::new(value, error),
            quadrature_error,
        })
    }

    /// The moment of the far part is too small by all of its error, and that of the whole too large.
    #[test]
    fn the_errors_of_both_moments_are_attained_by_the_far_fraction() {
        let mut segment = Segment {
            loss: known(0.25, 0.125, 0.0),
            steps: 3.0,
        };
        let mut far = known(-2.0, 0.0625, 0.0);
        let mut split = Split::new(&mut segment, &mut far, 1.0, -30.0).unwrap();
        split.certify(1.0).unwrap();
        let exact = (-2.0 + 0.0625) - (0.25 - 0.125);
        let Approx { value, error } = split.log_fraction;
        assert_eq!((value, error), (-2.25, exact + 2.25));
        assert_eq!((split.far_spread(), split.size()), (2.0, 2));
    }

    #[test]
    fn nodes_that_say_too_little_are_refused() {
        for (whole, far) in [(2e-3, 0.0), (0.0, 2e-3)] {
            let mut segment = Segment {
                loss: known(0.25, 0.0, whole),
                steps: 3.0,
            };
            let mut part = known(-2.0, 0.0, far);
            let mut split = Split::new(&mut segment, &mut part, 1.0, -30.0).unwrap();
            assert!(split.certify(1.0).is_none());
        }
    }
}
