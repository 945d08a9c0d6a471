//! The largest loss of a run: the ε from which on δ is 0, where losses are bounded, as those of Laplace noise and of randomised response.

use crate::inversion::segment::Segment;
use crate::special::extended::{two_product, two_sum};

/// An upper bound on the largest loss, `size` + `rest`.
///
/// Sums have twice the precision of an `f64`. Where the largest losses of all steps have no rounding error, as those of Laplace noise of
/// scale 1 without sampling, and their sum has none, the bound is that sum itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargestLoss {
    pub(crate) size: f64,
    rest: f64,
    /// How far the bound may be above the largest loss, which is the rounding of all steps' losses.
    pub(crate) slack: f64,
}

impl LargestLoss {
    pub(crate) fn of(segments: &[Segment]) -> Self {
        let (mut size, mut rest, mut low_parts, mut slack) = (0.0, 0.0, 0.0, 0.0);
        for segment in segments {
            let (high, low) = segment.loss.most_loss();
            let (product, below) = two_product(segment.steps, high);
            if !product.is_finite() {
                return Self {
                    size: f64::INFINITY,
                    rest: 0.0,
                    slack: f64::INFINITY,
                };
            }
            slack += segment.steps * segment.loss.most_loss_slack();
            let (sum, beyond) = two_sum(size, product);
            size = sum;
            for part in [beyond, below, segment.steps * low] {
                rest += part;
                low_parts += part.abs();
            }
        }
        // Each part and each sum of parts is rounded once.
        let roundings = 4.0 + 3.0 * segments.len() as f64;
        Self {
            size,
            rest: rest + roundings * f64::EPSILON * low_parts,
            slack: (slack + f64::EPSILON * roundings * low_parts) * (1.0 + 1e-9),
        }
    }

    /// An upper bound on how far the largest loss is above ε: not positive if it is certainly not.
    pub(crate) fn above(self, epsilon: f64) -> f64 {
        if self.size == f64::INFINITY {
            return self.size;
        }
        let (gap, beyond) = two_sum(self.size, -epsilon);
        let distance = gap + (beyond + self.rest);
        distance + f64::EPSILON * (distance.abs() + beyond.abs() + self.rest.abs())
    }

    /// A lower bound on how far the largest loss is above ε, which may be negative.
    pub(crate) fn surely_above(self, epsilon: f64) -> f64 {
        let distance = self.above(epsilon);
        let rounding = distance.abs() + epsilon.abs() * f64::EPSILON + self.rest.abs();
        distance - self.slack - 4.0 * f64::EPSILON * rounding
    }

    /// The bound as one number.
    pub(crate) fn rounded_up(self) -> f64 {
        let sum = self.size + self.rest;
        if self.above(sum) > 0.0 { sum.next_up() } else { sum }
    }
}
