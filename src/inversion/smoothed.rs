//! An estimate of δ(ε) by the sum of `contour` for the loss plus a little Gaussian noise, where a search starts.
//!
//! After a few steps δ is far from what its saddle point suggests: of 28 fixed batches with a group of eight the ε of a δ was a third too small.
//! The transform of such a loss hardly decays, so that a contour takes many points. Added noise of standard deviation s multiplies the
//! transform of the loss tilted by e^{cℓ} by e^{−y²s²/2}: some hundred points are enough. It hardly changes δ where s is small beside the
//! width 1/(c + 1) of the kernel (1 − e^{−u})₊, and beside ε, which a loss of next to nothing must not pass by the noise alone. Nothing here is
//! a bound.

use crate::inversion::contour::Power;
use crate::inversion::segment::Segment;
use crate::inversion::tilt::Tilt;
use realfft::num_complex::Complex64;
use std::f64::consts::PI;

/// s·(c + 1). For a Gaussian loss and for one with a rare large loss estimates of log δ are off by up to 0.01; with 0.5 it is 0.04, with 1
/// it is 0.2, and with 0.1 a line has two and a half times as many points.
const NOISE: f64 = 0.25;
/// The largest y, over 1/s: the noise has then reduced the transform to e^−6.
const REACH: f64 = 3.5;
/// Points at most: 1,600 of them took 2 ms, which is as much as an estimate saves.
const MOST_POINTS: f64 = 2_000.0;

/// The transform of a sum of tilted losses and noise, on a line.
#[derive(Debug)]
pub(crate) struct Smoothed {
    /// Re z.
    c: f64,
    /// A(c).
    log_moment: f64,
    /// The distance of points in y.
    spacing: f64,
    /// E[e^{zS}]/e^{A(c)}·e^{−y²s²/2}/(z(z + 1)), from y = 0 on.
    points: Vec<Complex64>,
}

impl Smoothed {
    /// The sum of the losses of `segments` at a tilt, for δ of about e^`log_delta` at `epsilon`; `None` where that takes too many points.
    pub(crate) fn new(segments: &mut [Segment], tilt: &Tilt, epsilon: f64, log_delta: f64) -> Option<Self> {
        let &Tilt { c, level, period, .. } = tilt;
        // The noise is above ε with a probability below e^{log δ}.
        let not_above = epsilon / (1.0 + (-2.0 * log_delta).max(0.0).sqrt());
        let noise = (NOISE / (c + 1.0)).min(not_above);
        let spacing = 2.0 * PI / period;
        let last = (REACH / (noise * spacing)).ceil().max(2.0);
        if !(noise > 0.0 && last <= MOST_POINTS) {
            return None;
        }
        let last = last as usize;
        let mut log_moment = 0.0;
        let mut powers = vec![Power::default(); last + 1];
        for segment in segments {
            let tilted = segment.loss.tilted(c, -level - segment.steps.ln());
            log_moment += segment.steps * tilted.moments().log_moment.value;
            for (power, change) in powers.iter_mut().zip(tilted.changes(spacing, last)) {
                power.multiply(change, segment.steps);
            }
        }
        let point = |(number, power): (usize, Power)| {
            let y = number as f64 * spacing;
            let point = power.point();
            let damped = point.modulus * (-0.5 * (y * noise).powi(2)).exp();
            let z = Complex64::new(c, y);
            Complex64::from_polar(damped, point.phase) / (z * (z + 1.0))
        };
        Some(Self {
            c,
            log_moment,
            spacing,
            points: powers.into_iter().enumerate().map(point).collect(),
        })
    }

    /// An estimate of log δ(ε), near the ε that the tilt is for; not a number where it is lost in the errors.
    pub(crate) fn log_delta(&self, epsilon: f64) -> f64 {
        let turn = Complex64::cis(-self.spacing * epsilon);
        let mut turned = Complex64::new(1.0, 0.0);
        let mut sum = -0.5 * self.points[0].re;
        for point in &self.points {
            sum += (point * turned).re;
            turned *= turn;
        }
        (self.spacing / PI * sum).ln() + self.log_moment - self.c * epsilon
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;

    /// The sum of Gaussian losses with a little noise added has nearly the δ of the sum, at every ε of some width.
    #[test]
    fn a_little_noise_hardly_changes_delta() {
        let run = GaussianRun::new(0.3, 20.0);
        let (epsilon, c) = (4.0, 1.2);
        let expected = run.log_delta(epsilon);
        let tilt = Tilt::at_level(&mut run.segments(), c, epsilon, 16.0).unwrap();
        let line = Smoothed::new(&mut run.segments(), &tilt, epsilon, expected).unwrap();
        for epsilon in [3.5, 4.0, 5.0] {
            let (found, exact) = (line.log_delta(epsilon), run.log_delta(epsilon));
            assert!((found - exact).abs() < 0.03, "{epsilon}: {found} {exact}");
        }
        assert!(line.points.len() < 200, "{}", line.points.len());
    }

    /// With an ε next to 0 noise must be small, which takes too many points.
    #[test]
    fn no_line_has_too_many_points() {
        let run = GaussianRun::new(0.3, 20.0);
        let tilt = Tilt::at_level(&mut run.segments(), 1.2, 1e-4, 16.0).unwrap();
        assert!(Smoothed::new(&mut run.segments(), &tilt, 1e-4, -10.0).is_none());
        assert!(Smoothed::new(&mut run.segments(), &tilt, 0.0, -10.0).is_none());
    }
}
