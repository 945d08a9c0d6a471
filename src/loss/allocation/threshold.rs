//! The threshold w of the sum S of the likelihood ratios of the released batches, and the range of thresholds that share one lattice with it.

use crate::loss::allocation::bins::{Bins, Part};
use crate::step::Direction;

/// Length of a range of thresholds, all of which share one lattice and one tilt, in the logarithm of their distance from the mean of S or from 0.
const LENGTH: f64 = 0.25;
/// Added to the numbers of ranges that are by the distance from 0, which tells them from those by the distance from the mean.
const FROM_ZERO: i64 = 1 << 40;

/// The threshold w of S at an ε. The privacy loss exceeds ε where S > w if the record is removed, and where S < w if it is added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threshold {
    /// w, and a bound on its error.
    pub(super) value: f64,
    pub(super) error: f64,
}

/// A range of thresholds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) number: i64,
    /// A threshold in the middle, and the largest one.
    pub(super) middle: f64,
    pub(super) largest: f64,
}

/// The number of batches that are released.
pub(super) fn released(bins: &Bins) -> f64 {
    count(&bins.parts)
}

/// The number of batches of some kinds.
pub(super) fn count(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.count).sum()
}

impl Range {
    /// A range of thresholds with the same ends, whose integral is to be most accurate at `middle`.
    pub(super) fn around(self, middle: f64) -> Self {
        Self { middle, ..self }
    }
}

impl Threshold {
    /// The threshold of ε: t(e^{±ε} − 1) + m, where m of the t batches are released.
    pub(super) fn new(bins: &Bins, direction: Direction, epsilon: f64) -> Self {
        let released = released(bins);
        let unreleased = bins.total - released;
        let epsilon = direction.sign() * epsilon;
        let of = |first: f64, second: f64| Self {
            value: first + second,
            error: 4.0 * f64::EPSILON * (first.abs() + second.abs()),
        };
        let by_excess = of(bins.total * epsilon.exp_m1(), released);
        let by_ratio = of(bins.total * epsilon.exp(), -unreleased);
        if by_ratio.error < by_excess.error {
            by_ratio
        } else {
            by_excess
        }
    }

    /// The range that the threshold is in; `None` where it is next to the mean of S or next to 0.
    pub(super) fn range(&self, bins: &Bins, direction: Direction) -> Option<Range> {
        let released = released(bins);
        let distance = direction.sign() * (self.value - released);
        if distance.is_nan() || distance <= 1e-9 * released || self.value <= 1e3 * self.error || self.value > 1e300
        {
            return None;
        }
        let is_low = direction == Direction::Add && self.value < 0.5 * released;
        let log = if is_low { self.value.ln() } else { distance.ln() };
        let number = (log / LENGTH).round() as i64;
        let at = |log: f64| {
            let size = log.exp();
            match direction {
                Direction::Remove => released + size,
                Direction::Add if is_low => size,
                Direction::Add => released - size,
            }
        };
        let middle = number as f64 * LENGTH;
        let outward = if direction == Direction::Remove || is_low {
            LENGTH
        } else {
            -LENGTH
        };
        Some(Range {
            number: if is_low { number + FROM_ZERO } else { number },
            middle: at(middle),
            largest: at(middle + 0.5 * outward) * (1.0 + 1e-9),
        })
    }
}
