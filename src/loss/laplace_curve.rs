//! A smooth piece of a Laplace loss as a curve that a grid sweeps.

use crate::loss::laplace::LaplaceLoss;
use crate::loss::loss_curve::LossCurve;
use crate::loss::smooth_piece::{Point, Scratch};
use crate::step::Direction;

/// One smooth piece [j, j + 1] of a branch of a Laplace loss, run backwards for "add" so that the loss grows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaplaceCurve<'a> {
    /// The loss.
    pub loss: &'a LaplaceLoss,
    /// The branch's pair.
    pub direction: Direction,
    /// j.
    pub piece: usize,
}

impl LaplaceCurve<'_> {
    /// The coordinates of the piece's ends, ascending in the loss.
    pub(crate) fn ends(&self) -> (f64, f64) {
        let (low, high) = (self.piece as f64, (self.piece + 1) as f64);
        match self.direction {
            Direction::Remove => (low, high),
            Direction::Add => (-high, -low),
        }
    }
}

impl LossCurve for LaplaceCurve<'_> {
    fn point(&self, x: f64, _: &mut Scratch) -> Point {
        let sign = self.direction.sign();
        let output = sign * x;
        let (log_ratio, slope) = self.loss.log_ratio(self.piece, output);
        Point {
            loss: sign * log_ratio,
            slope,
            log_density: self.loss.log_density(self.direction, output, log_ratio),
            size: self.loss.log_ratio_error(self.piece, output, log_ratio) / f64::EPSILON,
        }
    }
    fn reach(&self, _: f64, _: bool, _: &Scratch) -> f64 {
        2.0 // exponentials of rates 1/b: derivatives stay below 1/bⁿ
    }
    fn scale(&self) -> f64 {
        self.loss.scale()
    }
}
