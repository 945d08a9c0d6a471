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

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of the density, and of the density times e^{−ℓ}, are the probabilities under P and Q.
    #[test]
    fn the_curve_has_the_densities_of_both_laws() {
        let curve = GaussianCurve {
            distance: 1.3,
            log_weight: 0.25f64.ln(),
        };
        let mut scratch = Scratch::default();
        let (mut p, mut q) = (0.0, 0.0);
        for i in -2000..=2000 {
            let point = curve.point(0.01 * f64::from(i), &mut scratch);
            p += 0.01 * point.log_density.exp();
            q += 0.01 * (point.log_density - point.loss).exp();
        }
        assert!((p - 0.25).abs() < 1e-14 && (q - 0.25).abs() < 1e-14, "{p} {q}");
    }

    /// P's density is centred at 0 and Q's at −μ.
    #[test]
    fn the_reach_is_the_distance_of_the_farther_centre() {
        let curve = GaussianCurve {
            distance: 1.5,
            log_weight: 0.0,
        };
        let mut scratch = Scratch::default();
        for x in [-3.0f64, 0.0, 2.0] {
            assert_eq!(curve.reach(x, false, &scratch), x.abs());
            let farther = x.abs().max((x + 1.5).abs());
            let reach = curve.reach(x, true, &scratch);
            assert!(reach >= farther && (x < 0.0 || reach == farther), "{x} {reach}");
        }
        let (low, high) = (curve.point(0.2, &mut scratch), curve.point(0.3, &mut scratch));
        assert!(((high.loss - low.loss) / 0.1 - low.slope).abs() < 1e-12);
    }
}
