//! The Gaussian loss as a curve.

use crate::loss::loss_curve::LossCurve;
use crate::loss::smooth_piece::{Point, Scratch};

/// A Gaussian loss N(μ²/2, μ²) in its standardised coordinate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GaussianCurve {
    /// μ > 0.
    pub distance: f64,
    /// log of its probability.
    pub log_weight: f64,
}

impl LossCurve for GaussianCurve {
    fn point(&self, x: f64, _: &mut Scratch) -> Point {
        let loss = self.distance * (0.5 * self.distance + x);
        Point {
            loss,
            slope: self.distance,
            log_density: self.log_weight - 0.5 * x * x - 0.5 * (2.0 * std::f64::consts::PI).ln(),
            size: loss.abs(),
        }
    }
    fn reach(&self, x: f64, both: bool, _: &Scratch) -> f64 {
        // Q's density is centred at −μ.
        x.abs() + if both { self.distance } else { 0.0 }
    }
    fn scale(&self) -> f64 {
        1.0
    }
}
