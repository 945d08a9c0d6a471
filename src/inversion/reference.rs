//! Closed forms of the composed Gaussian mechanism, with which the tests of this room compare.

use crate::inversion::chernoff::MomentBound;
use crate::inversion::contour::ContourPoint;
use crate::inversion::segment::Segment;
use crate::inversion::tilt::Tilt;
use crate::loss::StepLoss;
use crate::special::log_space::log_add;
use crate::special::normal::log_upper_tail;

/// T steps of N(μ, 1) against N(0, 1): the total loss is N(V/2, V) with V = Tμ².
#[derive(Debug, Clone, Copy)]
pub(crate) struct GaussianRun {
    distance: f64,
    steps: f64,
    /// V.
    pub(crate) variance: f64,
}

impl GaussianRun {
    pub(crate) fn new(distance: f64, steps: f64) -> Self {
        Self {
            distance,
            steps,
            variance: steps * distance * distance,
        }
    }

    pub(crate) fn segments(self) -> Vec<Segment> {
        vec![Segment {
            loss: StepLoss::shift(self.distance),
            steps: self.steps,
        }]
    }

    /// A(c) = c(c + 1)V/2.
    pub(crate) fn log_moment(self, c: f64) -> f64 {
        0.5 * c * (c + 1.0) * self.variance
    }

    /// E[e^{zS}]/e^{A(c)} = e^{−y²V/2 + iy(2c + 1)V/2}.
    pub(crate) fn point(self, c: f64, y: f64) -> ContourPoint {
        ContourPoint {
            modulus: (-0.5 * y * y * self.variance).exp(),
            phase: 0.5 * y * (2.0 * c + 1.0) * self.variance,
            error: 0.0,
        }
    }

    /// Standardised distances of ε from the mean of the loss under P and under Q.
    fn distances(self, epsilon: f64) -> (f64, f64) {
        let root = self.variance.sqrt();
        (epsilon / root - 0.5 * root, epsilon / root + 0.5 * root)
    }

    /// log δ(ε) = log(P(S > ε) − e^ε Q(S > ε)).
    pub(crate) fn log_delta(self, epsilon: f64) -> f64 {
        let (p, q) = self.distances(epsilon);
        let (log_p, log_q) = (log_upper_tail(p), epsilon + log_upper_tail(q));
        log_p + (-(log_q - log_p).exp_m1()).ln()
    }

    /// log(1 − δ(ε)) = log(P(S ≤ ε) + e^ε Q(S > ε)).
    pub(crate) fn log_complement(self, epsilon: f64) -> f64 {
        let (p, q) = self.distances(epsilon);
        log_add(log_upper_tail(-p), epsilon + log_upper_tail(q))
    }
}

/// A tilt for contours that tests put together by hand: only c, the two other tilts and the period matter to them.
pub(crate) fn tilt(c: f64, below: MomentBound, above: MomentBound, period: f64) -> Tilt {
    Tilt {
        c,
        saddle: c,
        spread: 1.0,
        level: 30.0,
        below,
        above,
        period,
    }
}
