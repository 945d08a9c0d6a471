//! One step's loss, tilted, and the part of it with large losses.

use crate::approx::Approx;
use crate::inversion::segment::Segment;
use crate::loss::StepLoss;
use crate::loss::privacy_loss::TiltedLoss;

/// Largest quadrature error of a characteristic function: beyond it, nodes say too little, and another route serves.
const MAX_ERROR: f64 = 1e-3;

/// One segment's loss, tilted, and the part of it with large losses.
pub(super) struct Split<'a> {
    pub(super) steps: f64,
    pub(super) whole: Box<dyn TiltedLoss + 'a>,
    pub(super) far: Box<dyn TiltedLoss + 'a>,
    /// log of the far fraction H(c)/φ(c).
    pub(super) log_fraction: Approx,
}

impl<'a> Split<'a> {
    pub(super) fn new(segment: &'a mut Segment, far: &'a mut StepLoss, c: f64, tolerance: f64) -> Option<Self> {
        let mut split = Self {
            steps: segment.steps,
            whole: segment.loss.tilted(c, tolerance),
            far: far.tilted(c, tolerance),
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
