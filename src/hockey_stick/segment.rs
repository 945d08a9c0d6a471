//! Steps that share one privacy loss, and the moments of their sum.

use crate::pair::StepLoss;
use crate::pair::laplace_loss::LaplaceLoss;
use crate::special::gauss_legendre::GaussLegendre;
use crate::special::log_space::LogSum;

/// Tolerance of the moments that only steer: which tilt, which period.
const STEERING: f64 = -28.0;

/// A loss and how often it is added.
#[derive(Debug)]
pub struct Segment {
    /// Privacy loss of one step.
    pub loss: StepLoss,
    /// Number of steps, at least 1.
    pub steps: f64,
}

/// A(c) = Σ T·K(c) of some segments, with the mean and variance of the tilted sum.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    /// A(c).
    pub(super) log_moment: f64,
    error: f64,
    /// A'(c).
    pub(super) mean: f64,
    /// A''(c).
    pub(super) variance: f64,
}

impl Total {
    /// The moments at c > −1; `None` where they are beyond the range of an `f64`.
    pub(super) fn at(segments: &mut [Segment], c: f64) -> Option<Self> {
        let mut total = Self::default();
        for segment in segments {
            let steps = segment.steps;
            let (log_moment, error, mean, variance) = moments(&mut segment.loss, c, steps);
            total.log_moment += steps * log_moment;
            total.error += steps * (error + f64::EPSILON * log_moment.abs());
            total.mean += steps * mean;
            total.variance += steps * variance;
        }
        let finite = total.log_moment.is_finite()
            && total.error.is_finite()
            && total.mean.is_finite()
            && total.variance.is_finite();
        finite.then_some(total)
    }

    /// An upper bound on A(c).
    pub(super) fn log_moment_upper(&self) -> f64 {
        self.log_moment + self.error
    }
}

/// K(c), its error, K'(c) and K''(c) of one of `steps` steps.
fn moments(loss: &mut StepLoss, c: f64, steps: f64) -> (f64, f64, f64, f64) {
    match loss {
        StepLoss::Smooth(loss) => {
            let none = vec![0.0; loss.pieces().len()];
            let nodes = loss.nodes(c, 0.0, &none, STEERING - steps.ln());
            (nodes.log_moment, nodes.log_moment_error, nodes.mean, nodes.variance)
        }
        StepLoss::Gaussian(loss) => {
            let law = loss.tilted(c);
            let (mean, variance) = law.mean_and_variance();
            (law.log_moment, law.log_moment_error, mean, variance)
        }
        StepLoss::Laplace(loss) => laplace_moments(loss, c),
    }
}

/// K(c) of one step, for scaling; `None` beyond the range of an `f64`.
pub(super) fn log_moment(loss: &mut StepLoss, c: f64) -> Option<f64> {
    let (value, ..) = moments(loss, c, 1.0);
    value.is_finite().then_some(value)
}

/// K, its error, K' and K'' of a Laplace loss by quadrature.
///
/// On panels of half-width w the integrand r^{1+c}e^{−x/b} is analytic for |Im x| < πb/2, and on the Bernstein ellipse
/// at most e^{3w(1 + |c|)/b} times its largest value on the panel. With w ≤ b/2 and w(1 + |c|) ≤ 4b the relative
/// error of the 32-node rule is below 3e-24·e^12.
fn laplace_moments(loss: &LaplaceLoss, c: f64) -> (f64, f64, f64, f64) {
    const MOST_PANELS: f64 = 2e5;
    let rule = GaussLegendre::get();
    let sign = loss.direction().sign();
    let wanted = (0.5 / loss.scale() * (2.0f64).max(0.25 * (1.0 + c.abs())))
        .ceil()
        .max(1.0);
    let panels = wanted.min((MOST_PANELS / loss.pieces().max(1) as f64).max(1.0).floor());
    let mut parts: Vec<(f64, f64)> = loss.atoms().to_vec();
    let half_width = 0.5 / panels;
    for j in 0..loss.pieces() {
        for panel in 0..panels as usize {
            for (node, weight) in rule.nodes.iter().zip(&rule.weights) {
                let x = j as f64 + (2 * panel + 1) as f64 * half_width + half_width * node;
                let (log_ratio, _) = loss.log_ratio(j, x);
                parts.push((
                    sign * log_ratio,
                    loss.log_density(x, log_ratio) + (half_width * weight).ln(),
                ));
            }
        }
    }
    let mut total = LogSum::default();
    for (value, log_weight) in &parts {
        total.add(log_weight + c * value);
    }
    let log_moment = total.ln();
    let (mut mean, mut size) = (0.0, 0.0);
    for (value, log_weight) in &mut parts {
        *log_weight = (*log_weight + c * *value - log_moment).exp(); // from here on the tilted weight
        mean += *log_weight * *value;
        size += *log_weight * (8.0 + (1.0 + c.abs()) * value.abs());
    }
    // In two passes: near the largest loss the variance is far below the mean's square.
    let variance: f64 = parts
        .iter()
        .map(|(value, weight)| weight * (value - mean).powi(2))
        .sum();
    let error = if panels < wanted {
        f64::INFINITY // not certified
    } else {
        1e-14 + 8.0 * f64::EPSILON * (4.0 + size)
    };
    (log_moment, error, mean, variance)
}
