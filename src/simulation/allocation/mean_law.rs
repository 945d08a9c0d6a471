//! The law of the mean ratio W₁ = Σy/t of one epoch under the noise alone: Laplace transforms and bounds on lower tails.

use crate::simulation::allocation::epochs::Epoch;
use crate::stopping::checkpoint;

/// Reach of the normal variables in quadratures, and a bound on the probability of what lies beyond on one side.
const REACH: f64 = 12.5;
const BEYOND: f64 = 4e-36;
/// Spacing of the trapezoid rule for noise above this, and over √v for less: its error is e^{−π²/(0.25)} at most, below rounding.
const SPACING: f64 = 0.2;

/// log E[e^{−ςY}], where log Y is N(−v/2, v): from 1 − e^{−ςY} where that is small, else from e^{−ςY}, so that the relative error is small.
///
/// `beyond` is added for normal variables that are left out: 0, or [`BEYOND`] for a bound.
pub(crate) fn log_laplace(variance: f64, scale: f64, beyond: f64) -> f64 {
    let deviation = variance.sqrt();
    // Terms of e^{−ςY} change within 1/√v of each other.
    let step = (SPACING / deviation.max(1.0)).min(SPACING);
    let most = (REACH / step).ceil() as i64;
    let (mut sum, mut direct) = (0.0, beyond);
    let density = step / (2.0 * std::f64::consts::PI).sqrt();
    for i in -most..=most {
        if i % 4096 == 0 {
            checkpoint();
        }
        let u = i as f64 * step;
        let ratio = (deviation * u - 0.5 * variance).exp();
        let mass = density * (-0.5 * u * u).exp();
        sum += mass * (-scale * ratio).exp_m1();
        direct += mass * (-scale * ratio).exp();
    }
    if direct > 0.5 { sum.ln_1p() } else { direct.ln() }
}

impl Epoch {
    /// log E[e^{−sW₁}].
    pub(crate) fn log_laplace(&self, s: f64) -> f64 {
        self.log_laplace_with(s, 0.0)
    }

    fn log_laplace_with(&self, s: f64, beyond: f64) -> f64 {
        let t = self.batches();
        let released: f64 = self
            .parts
            .iter()
            .map(|part| part.count as f64 * log_laplace(part.variance, s / t, beyond))
            .sum();
        released - s * self.still / t
    }

    /// log E[e^{−sW₁}] at many s.
    pub(crate) fn laplace_table(&self) -> LaplaceTable {
        let logs = (0..=TABLE).map(|i| LOW * (HIGH / LOW).powf(f64::from(i) / f64::from(TABLE)));
        LaplaceTable(
            logs.map(|s| [s, self.log_laplace(s), self.log_laplace_with(s, BEYOND)])
                .collect(),
        )
    }
}

/// The range of s and the number of points in a table.
const LOW: f64 = 1e-4;
const HIGH: f64 = 1e12;
const TABLE: i32 = 128;

/// s, log E[e^{−sW₁}] and a bound on it.
#[derive(Debug)]
pub(crate) struct LaplaceTable(Vec<[f64; 3]>);

impl LaplaceTable {
    /// A w with P(W₁ < w) ≤ e^`log_probability`: Chernoff's bound E[e^{−sW₁}]·e^{sw}. At least 0.
    pub(crate) fn lower_quantile(&self, log_probability: f64) -> f64 {
        let of = |[s, _, log]: &[f64; 3]| (log_probability - log) / s;
        self.0.iter().map(of).fold(0.0, f64::max)
    }

    /// log E[W₁^−θ], roughly.
    pub(crate) fn log_inverse_moment(&self, theta: f64) -> f64 {
        let spacing = (HIGH / LOW).ln() / f64::from(TABLE);
        // Below the table the transform is 1, and the sum goes on as a geometric series.
        let below = theta * LOW.ln() - (theta * spacing).exp_m1().ln();
        let points = self.0.iter().map(|[s, log, _]| theta * s.ln() + log);
        let terms: Vec<f64> = points.chain([below]).collect();
        crate::special::log_space::log_sum_exp(&terms) + spacing.ln() - statrs::function::gamma::ln_gamma(theta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::allocation::epochs::tests::run;
    use crate::step::Sampling;

    #[test]
    fn transforms_have_the_moments_of_a_log_normal() {
        // 1 − ς + ς²e^v/2 − ς³e^{3v}/6 for small ς; mpmath at ς = 2, v = 1.
        for v in [0.01f64, 1.0, 4.0] {
            let s = 1e-4 * (-2.0 * v).exp();
            let series = -s + 0.5 * s * s * v.exp() - s.powi(3) * (3.0 * v).exp() / 6.0;
            assert!((log_laplace(v, s, 0.0).exp_m1() / series - 1.0).abs() < 1e-9, "{v}");
        }
        assert!((log_laplace(1e-8, 3.0, 0.0) + 3.0).abs() < 1e-7);
    }

    #[test]
    fn negative_moments_and_lower_tails_are_those_of_one_batch() {
        let run = run(Sampling::RandomAllocation { batches: 1, times: 1 }, 1.0, 1, 1);
        let table = run.epochs[0].laplace_table();
        for theta in [0.05, 1.0, 2.0, 5.0] {
            // E[Y^−θ] = e^{θ(θ+1)/2}.
            assert!(
                (table.log_inverse_moment(theta) - 0.5 * theta * (theta + 1.0)).abs() < 1e-3,
                "{theta}"
            );
        }
        let w = table.lower_quantile(-20.0);
        let exact = crate::special::normal::log_upper_tail(-(w.ln() + 0.5));
        assert!(exact <= -20.0 && exact > -30.0, "{w} {exact}");
    }
}
