//! The law of the mean ratio W₁ = Σy/t of one epoch under the noise alone: Laplace transforms and bounds on lower tails.

use crate::simulation::allocation::epochs::Epoch;
use crate::stopping::checkpoint;

/// Reach of the normal variables in quadratures, and a bound on the probability of what lies beyond on one side: below e^−200, so that lower
/// tails of that probability have a bound also where there is one batch.
const REACH: f64 = 21.0;
const BEYOND: f64 = 3.3e-98;
/// Spacing of the trapezoid rule for noise above this, and over √v for less: its error is e^{−π²/(0.25)} at most, below rounding.
const SPACING: f64 = 0.2;

/// log E[e^{−ςY}], where log Y is N(−v/2, v), and a bound on it that counts the normal variables that are left out: from 1 − e^{−ςY} where that
/// is small, else from e^{−ςY}, so that the relative error is small.
fn log_laplace(variance: f64, scale: f64) -> [f64; 2] {
    let deviation = variance.sqrt();
    // Terms of e^{−ςY} change within 1/√v of each other.
    let step = (SPACING / deviation.max(1.0)).min(SPACING);
    let most = (REACH / step).ceil() as i64;
    let (mut sum, mut direct) = (0.0f64, 0.0f64);
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
    if direct > 0.5 {
        [sum.ln_1p(); 2]
    } else {
        [direct.ln(), (direct + BEYOND).ln()]
    }
}

impl Epoch {
    /// log E[e^{−sW₁}] and a bound on it.
    pub(crate) fn log_laplace(&self, s: f64) -> [f64; 2] {
        let t = self.batches();
        let mut logs = [-s * self.still / t; 2];
        for part in &self.parts {
            let of_one = log_laplace(part.variance, s / t);
            for (sum, log) in logs.iter_mut().zip(of_one) {
                *sum += part.count as f64 * log;
            }
        }
        logs
    }

    /// log E[e^{−sW₁}] at many s.
    pub(crate) fn laplace_table(&self) -> LaplaceTable {
        let range = self.log_reach() - LOW.ln();
        let count = (POINTS * range).ceil().min(MOST_POINTS);
        let spacing = range / count;
        let points = (0..=count as i32).map(|i| {
            let s = LOW * (f64::from(i) * spacing).exp();
            let [log, bound] = self.log_laplace(s);
            [s, log, bound]
        });
        LaplaceTable {
            points: points.collect(),
            spacing,
        }
    }

    /// log of the largest s of a table. W₁ is below a w with a probability of e^−200 where all of its outputs are below it, each with the
    /// probability e^{−200/n}, and s is some multiple of 1/w. Where that is beyond the range of numbers, the table is short: it has no bound
    /// on such tails.
    fn log_reach(&self) -> f64 {
        if self.still > 0.0 {
            return HIGH.ln();
        }
        let deviations = (400.0 / self.released() as f64).sqrt() + 3.0;
        let farthest = self
            .parts
            .iter()
            .map(|part| 0.5 * part.variance + deviations * part.variance.sqrt())
            .fold(0.0, f64::max);
        let reach = farthest + self.batches().ln() + 8.0;
        if reach > LARGEST_LOG {
            HIGH.ln()
        } else {
            reach.max(HIGH.ln())
        }
    }
}

/// The range of s in a table: up to this at least, and to the exponential of this at most.
const LOW: f64 = 1e-4;
const HIGH: f64 = 1e12;
const LARGEST_LOG: f64 = 650.0;
/// Points in a table for each unit of log s, and in all.
const POINTS: f64 = 3.5;
const MOST_POINTS: f64 = 512.0;

/// log E[e^{−sW₁}] over s.
#[derive(Debug)]
pub(crate) struct LaplaceTable {
    /// s, log E[e^{−sW₁}] and a bound on it.
    points: Vec<[f64; 3]>,
    /// Of log s.
    spacing: f64,
}

impl LaplaceTable {
    /// A w with P(W₁ < w) ≤ e^`log_probability`: Chernoff's bound E[e^{−sW₁}]·e^{sw}. 0 where the table does not reach far
    /// enough for any other bound.
    pub(crate) fn lower_quantile(&self, log_probability: f64) -> f64 {
        let of = |[s, _, log]: &[f64; 3]| (log_probability - log) / s;
        self.points.iter().map(of).fold(0.0, f64::max)
    }

    /// log E[W₁^−θ], roughly.
    pub(crate) fn log_inverse_moment(&self, theta: f64) -> f64 {
        let spacing = self.spacing;
        // Below the table the transform is 1, and the sum goes on as a geometric series.
        let below = theta * LOW.ln() - (theta * spacing).exp_m1().ln();
        let points = self.points.iter().map(|[s, log, _]| theta * s.ln() + log);
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
            assert!((log_laplace(v, s)[0].exp_m1() / series - 1.0).abs() < 1e-9, "{v}");
        }
        assert!((log_laplace(1e-8, 3.0)[0] + 3.0).abs() < 1e-7);
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

    /// The mean of few ratios under very little noise, which is below 1e-12 with a probability of e^−2 and more.
    #[test]
    fn lower_tails_far_below_one_have_a_bound() {
        for (batches, variance) in [(1, 40u64), (10, 40), (5, 100)] {
            let sampling = Sampling::FixedBins { batches };
            let run = run(sampling, 1.0, 1, batches * variance);
            let w = run.epochs[0].laplace_table().lower_quantile(-200.0);
            // All ratios are below w with a probability below that of a mean below w, and one is below w·t with one above it.
            let (v, t) = (variance as f64, batches as f64);
            let log = |w: f64| t * crate::special::normal::log_upper_tail(-(w.ln() + 0.5 * v) / v.sqrt());
            assert!(
                w > 0.0 && log(w) <= -200.0 && log(w * t) > -240.0,
                "{batches} {variance}: {w}"
            );
        }
        // No number is as small as the tail of one ratio here.
        let run = run(Sampling::FixedBins { batches: 1 }, 1.0, 1, 2000);
        assert_eq!(run.epochs[0].laplace_table().lower_quantile(-200.0), 0.0);
    }
}
