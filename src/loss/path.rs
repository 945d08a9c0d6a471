//! The path along which the integral over the output of a step is taken.

/// Part of σ to which two outputs are the same end of a panel: ends of panels have a few roundings.
const SAME: f64 = 1e-9;
/// Largest half of a panel, in σ, above which a path may have ends. Its ellipse reaches 0.41 times as far beyond the panel, which is less
/// than [`BEYOND`].
const MAX_HALF_WIDTH: f64 = 1.0;
/// How far beyond the ends of a path, in σ, the conditions on its height hold.
pub(crate) const BEYOND: f64 = 0.5;

/// A path over the outputs of one piece of a loss: above the real line between two outputs, on it elsewhere, with vertical segments between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Path {
    /// Height above the real line.
    pub(crate) height: f64,
    /// Output at which the part above the real line begins; −∞ for the start of the piece.
    pub(crate) from: f64,
    /// Output at which it ends; +∞ for the end of the piece.
    pub(crate) to: f64,
    /// Whether angles of significant shifts may be larger than π: only those of shifts that are significant at one output are close.
    pub(crate) turns: bool,
}

impl Path {
    /// The real line.
    pub(crate) const REAL: Self = Self::above(0.0);

    /// All outputs at one height.
    pub(crate) const fn above(height: f64) -> Self {
        Self {
            height,
            from: f64::NEG_INFINITY,
            to: f64::INFINITY,
            turns: false,
        }
    }

    /// The path at this fraction of the height.
    pub(crate) fn lowered(self, fraction: f64) -> Self {
        Self {
            height: fraction * self.height,
            ..self
        }
    }

    /// The height over an output.
    pub(crate) fn height_at(&self, x: f64) -> f64 {
        if x > self.from && x < self.to { self.height } else { 0.0 }
    }

    /// The height over an interval of outputs, and whether the path is level there: of the same height all over it but for [`SAME`] of
    /// `sigma`, and the interval short enough where it has ends. If it is not level, the largest height.
    pub(crate) fn height_over(&self, (left, right): (f64, f64), sigma: f64) -> (f64, bool) {
        let slack = SAME * sigma;
        if right <= self.from + slack || left >= self.to - slack {
            return (0.0, true);
        }
        let is_inside = left >= self.from - slack && right <= self.to + slack;
        let has_ends = self.from.is_finite() || self.to.is_finite();
        let is_short = !has_ends || right - left <= 2.0 * MAX_HALF_WIDTH * sigma;
        (self.height, (is_inside && is_short) || self.height == 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_above_the_real_line_below_or_across_an_end() {
        let path = Path {
            height: 0.3,
            from: -1.0,
            to: 2.0,
            turns: false,
        };
        assert_eq!(path.height_over((-1.0, 1.0), 1.0), (0.3, true));
        assert_eq!(path.height_over((-1.0, 1.1), 1.0), (0.3, false));
        assert_eq!(path.height_over((-1.0, 2.0), 1.5), (0.3, true));
        assert_eq!(path.height_over((-1.0 - 1e-15, 0.0), 1.0), (0.3, true));
        assert_eq!(path.height_over((2.0 - 1e-15, 3.0), 1.0), (0.0, true));
        assert_eq!(path.height_over((-1.5, 0.0), 1.0), (0.3, false));
        assert_eq!(path.lowered(0.0).height_over((-1.5, 0.0), 1.0), (0.0, true));
        assert_eq!([-2.0, 0.0, 2.5].map(|x| path.height_at(x)), [0.0, 0.3, 0.0]);
        assert_eq!(Path::above(0.3).height_over((-9.0, f64::INFINITY), 1.0), (0.3, true));
    }
}
