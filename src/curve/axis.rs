//! The axis along which a threshold is searched: whole numbers, or the logarithm of a number.

use crate::error::Result;

/// Fraction of the tolerance to which an end of a bracket is located.
const RESOLUTION: f64 = 0.5;
/// Growth of the distance from the start of a search: the whole of a logarithmic axis is crossed in some 15 steps.
const GROWTH: f64 = 1.7;
/// Growth while the distance is below [`FIRST_STEP`]. With 2 searches for steps take a tenth longer; 10 changes nothing.
const GROWTH_NEARBY: f64 = 4.0;
/// A length over that gone so far which is no step.
const NO_PROGRESS: f64 = 1.0 + 1e-9;
/// The first step from the start along a logarithmic axis: a factor of 2.
const FIRST_STEP: f64 = 0.7;
/// log of the ratio by which the target must be undershot for whole numbers to grow by [`FAST`] and not by 2.
const FAR: f64 = -3.0;
/// Factor by which whole numbers grow far from the target.
const FAST: f64 = 8.0;
/// Halvings at most on the way back from an answer that was refused.
const HALVINGS: usize = 12;

/// The points among which a threshold is searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    /// The point of least and the point of greatest privacy loss.
    pub(super) ends: (f64, f64),
    /// Whether its points are whole numbers, and not logarithms.
    pub(super) whole: bool,
    tolerance: f64,
}

impl Axis {
    /// The logarithm of a number that is searched to a relative `tolerance`, or its negative.
    pub(super) fn continuous(ends: (f64, f64), tolerance: f64) -> Self {
        Self {
            ends,
            whole: false,
            tolerance,
        }
    }

    /// Whole numbers.
    pub(super) fn whole(ends: (u64, u64), tolerance: f64) -> Self {
        Self {
            ends: (ends.0 as f64, ends.1 as f64),
            whole: true,
            tolerance,
        }
    }

    /// The distance to which an end near `x` is located.
    pub(super) fn resolution(&self, x: f64) -> f64 {
        let relative = RESOLUTION * self.tolerance;
        if self.whole {
            (relative * x).floor().max(1.0)
        } else {
            relative
        }
    }

    /// The shortest step from `x` on the logarithmic axis at which another question is worth its time.
    pub(super) fn finest_step(&self, x: f64) -> f64 {
        if self.whole { 0.0 } else { self.resolution(x) }
    }

    /// True if `low` < `high`, whose verdicts are known, are so close that no question between them is left.
    pub(super) fn is_closed(&self, low: f64, high: f64) -> bool {
        high - low <= if self.whole { 1.0 } else { self.resolution(low) }
    }

    /// The place of a point on the logarithmic axis: 0 counts as one half.
    pub(super) fn coordinate(&self, x: f64) -> f64 {
        if self.whole { x.max(0.5).ln() } else { x }
    }

    /// The distance of two points on the logarithmic axis.
    pub(super) fn distance(&self, a: f64, b: f64) -> f64 {
        (self.coordinate(a) - self.coordinate(b)).abs()
    }

    /// True if two ends are further apart than the tolerance.
    pub(super) fn is_wide(&self, low: f64, high: f64) -> bool {
        high - low
            > if self.whole {
                1.0 + self.tolerance * high
            } else {
                self.tolerance
            }
    }

    /// A point between `low` and `high`, at about `fraction` of the way (of the logarithm, for whole numbers), and at least half of the
    /// resolution away from the ends, so that a good guess closes the bracket.
    pub(super) fn between(&self, low: f64, high: f64, fraction: f64) -> f64 {
        if self.whole {
            let (a, b) = (low.max(0.5).ln(), high.ln());
            let guess = (a + fraction * (b - a)).exp().round();
            return guess.clamp(low + 1.0, high - 1.0);
        }
        let apart = (0.5 * self.resolution(low)).min(0.5 * (high - low));
        (low + fraction * (high - low)).clamp(low + apart, high - apart)
    }

    /// The next point after `x` on the way from `start` to greater privacy loss (`to_greater_loss`) or to less, by a first step whose length
    /// on the logarithmic axis is given and by longer ones that grow, unless the length given is that of this step.
    pub(super) fn further_from_guess(
        &self,
        start: f64,
        x: f64,
        (first_step, excess): (f64, f64),
        (grows, to_greater_loss): (bool, bool),
    ) -> f64 {
        let gone = self.distance(x, start);
        if gone.max(first_step) >= FIRST_STEP {
            return self.further(start, x, excess, to_greater_loss);
        }
        // A length that is hardly more than what is behind would ask for the same point again.
        let out = if grows || first_step <= NO_PROGRESS * gone {
            (GROWTH_NEARBY * gone).max(first_step)
        } else {
            first_step
        };
        let next = match (self.whole, to_greater_loss) {
            (false, true) => start + out,
            (false, false) => start - out,
            (true, true) => (start * out.exp()).ceil().max(x + 1.0),
            (true, false) => (start * (-out).exp()).floor().min(x - 1.0),
        };
        next.clamp(self.ends.0, self.ends.1)
    }

    /// The next point after `x` on the way from `start` to greater privacy loss (`to_greater_loss`) or to less.
    pub(super) fn further(&self, start: f64, x: f64, excess: f64, to_greater_loss: bool) -> f64 {
        let next = if self.whole {
            let factor = if excess < FAR { FAST } else { 2.0 };
            if to_greater_loss { x * factor } else { (x / 2.0).floor() }
        } else {
            let out = (GROWTH * (x - start).abs()).max(FIRST_STEP);
            if to_greater_loss { start + out } else { start - out }
        };
        next.clamp(self.ends.0, self.ends.1)
    }

    /// The last point up to `last` that is accepted, to a `resolution` that is at least that of the axis; `None` if not even the first
    /// is.
    pub(super) fn last_accepted(
        &self,
        (last, resolution): (f64, f64),
        mut accepts: impl FnMut(f64) -> Result<bool>,
    ) -> Result<Option<f64>> {
        let resolution = if self.whole { resolution.floor() } else { resolution };
        let (mut x, mut refused, mut step) = (last, None, resolution);
        while !accepts(x)? {
            if x <= self.ends.0 {
                return Ok(None);
            }
            refused = Some(x);
            x = (x - step).max(self.ends.0);
            step *= 2.0;
        }
        let Some(mut refused) = refused else {
            return Ok(Some(x));
        };
        for _ in 0..HALVINGS {
            if refused - x <= resolution {
                break;
            }
            let middle = 0.5 * (x + refused);
            let middle = if self.whole { middle.floor() } else { middle };
            if accepts(middle)? {
                x = middle;
            } else {
                refused = middle;
            }
        }
        Ok(Some(x))
    }
}
