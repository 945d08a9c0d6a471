//! The law of the public outcome, tilted: with which probability the step is of each kind, from the moments of all kinds.

use crate::approx::Approx;
use crate::loss::privacy_loss::TiltedMoments;
use crate::special::log_space::log_sum_exp;

/// Relative rounding error of an exponential, besides what the rounding of its exponent adds, in units of the last place.
pub(super) const EXP_ROUNDING: f64 = 4.0;
/// A bound that says nothing: finite, so that its product with 0 is 0.
const NO_BOUND: f64 = 1e300;

/// Logs of the probabilities of the parts.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) logs: Vec<f64>,
    /// True if they sum to 1.
    pub(super) complete: bool,
}

/// The tilted law of which part the step is.
#[derive(Debug)]
pub(super) struct TiltedWeights {
    /// log p_i.
    pub(super) log_probabilities: Vec<f64>,
    /// Bounds on the relative errors of the p_i.
    pub(super) errors: Vec<f64>,
    /// The moments of all parts together.
    pub(super) moments: TiltedMoments,
}

impl Weights {
    /// The tilted law of the parts from their own moments.
    pub(super) fn tilted(&self, moments: &[TiltedMoments]) -> TiltedWeights {
        let weights = || self.logs.iter().copied();
        let logs: Vec<f64> = weights()
            .zip(moments)
            .map(|(w, part)| w + part.log_moment.value)
            .collect();
        let total = log_sum_exp(&logs);
        if !total.is_finite() {
            return TiltedWeights::beyond_reach(logs.len());
        }
        let rounding = |w: f64, k: f64| f64::EPSILON * (EXP_ROUNDING + 2.0 * (w.abs() + k.abs()));
        // M is the sum of terms that are wrong by factors between e^−e_i and e^e_i, hence by one of at most Σ p_i e^{e_i}.
        let wrong: Vec<f64> = weights()
            .zip(moments)
            .map(|(w, part)| (part.log_moment.error + rounding(w, part.log_moment.value)).min(NO_BOUND))
            .collect();
        let excess: f64 = logs
            .iter()
            .zip(&wrong)
            .map(|(l, e)| (l - total).exp() * e.exp_m1())
            .sum(); // not a number, and then no bound, where nothing is known of a part
        let whole = (excess.ln_1p() + f64::EPSILON * (EXP_ROUNDING + total.abs())).min(NO_BOUND);
        let log_moment = self.near_one(moments, total).unwrap_or(Approx::new(total, whole));
        let log_probabilities: Vec<f64> = logs.iter().map(|l| l - total).collect();
        let mean = expected(&log_probabilities, moments, |part| part.mean);
        TiltedWeights {
            errors: wrong.iter().map(|e| (e + whole).exp_m1().min(NO_BOUND)).collect(),
            moments: TiltedMoments {
                log_moment,
                mean,
                variance: expected(&log_probabilities, moments, |part| {
                    part.variance + (part.mean - mean).powi(2)
                }),
            },
            log_probabilities,
        }
    }

    /// K and a bound on its error where M is next to 1, from M − 1 = Σ w_i (M_i − 1), which keeps the digits of K; `None` elsewhere.
    fn near_one(&self, moments: &[TiltedMoments], total: f64) -> Option<Approx> {
        /// Moments farther from 1 than this are sums as they stand.
        const NEAR: f64 = 0.5;
        if !self.complete || total.abs() > NEAR {
            return None;
        }
        let (mut excess, mut error) = (0.0, 0.0);
        for (log_weight, part) in self.logs.iter().zip(moments) {
            let k = part.log_moment.value;
            let (change, size) = if k.abs() < 1.0 {
                let change = log_weight.exp() * k.exp_m1();
                (change, change.abs())
            } else {
                let (moment, weight) = ((log_weight + k).exp(), log_weight.exp());
                (moment - weight, moment + weight)
            };
            excess += change;
            error += (log_weight + k).exp() * part.log_moment.error.exp_m1()
                + size * f64::EPSILON * (2.0 * EXP_ROUNDING + 2.0 * (log_weight.abs() + k.abs()));
        }
        let relative = error / (1.0 + excess);
        (relative < NEAR).then(|| {
            let log_moment = excess.ln_1p();
            Approx::new(
                log_moment,
                relative / (1.0 - relative) + 4.0 * f64::EPSILON * log_moment.abs(),
            )
        })
    }
}

/// Σ p_i of a number for each part.
fn expected(log_probabilities: &[f64], moments: &[TiltedMoments], of: impl Fn(&TiltedMoments) -> f64) -> f64 {
    let term = |(log_probability, part): (&f64, &TiltedMoments)| match log_probability.exp() {
        0.0 => 0.0, // whatever is unknown about a part that does not count
        probability => probability * of(part),
    };
    log_probabilities.iter().zip(moments).map(term).sum()
}

impl TiltedWeights {
    /// Weights and moments of which nothing is known, for moments beyond the digits of an `f64`.
    fn beyond_reach(parts: usize) -> Self {
        Self {
            log_probabilities: vec![-(parts as f64).ln(); parts],
            errors: vec![NO_BOUND; parts],
            moments: TiltedMoments {
                log_moment: Approx::new(f64::INFINITY, f64::INFINITY),
                mean: 0.0,
                variance: 0.0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: f64 = 1e-6;

    fn part(value: f64) -> TiltedMoments {
        TiltedMoments {
            log_moment: Approx::new(value, ERROR),
            mean: value,
            variance: 1.0,
        }
    }

    /// Two parts, of which the first has the probability `weight`, with log moments that are off by `errors`: log M and log p of the first.
    fn exact(weight: f64, logs: [f64; 2], errors: [f64; 2]) -> (f64, f64) {
        let terms = [
            weight.ln() + logs[0] + errors[0],
            (-weight).ln_1p() + logs[1] + errors[1],
        ];
        let total = log_sum_exp(&terms);
        (total, terms[0] - total)
    }

    /// The moment of all parts is off by all of its error where those of the parts are, and the probability of a rare part where the others
    /// are off to the other side; next to 1, and far from it.
    #[test]
    fn errors_of_the_parts_are_carried_and_attained() {
        for (logs, complete) in [([0.1, -0.1], true), ([3.0, 2.0], true), ([0.1, -0.1], false)] {
            let weight = 0.01f64;
            let weights = Weights {
                logs: vec![weight.ln(), (-weight).ln_1p()],
                complete,
            };
            let found = weights.tilted(&logs.map(part));
            let Approx { value, error } = found.moments.log_moment;
            let off = (exact(weight, logs, [ERROR; 2]).0 - value).abs();
            assert!(
                off <= error && off > 0.99 * error,
                "{logs:?} {complete}: {off:e} {error:e}"
            );
            let off = (exact(weight, logs, [ERROR, -ERROR]).1 - found.log_probabilities[0]).exp_m1();
            let error = found.errors[0];
            assert!(
                off <= error && off > 0.95 * error,
                "{logs:?} {complete}: {off:e} {error:e}"
            );
        }
    }

    #[test]
    fn nothing_is_known_beyond_the_range_of_numbers() {
        let weights = Weights {
            logs: vec![0.5f64.ln(); 2],
            complete: true,
        };
        let found = weights.tilted(&[part(0.1), part(f64::INFINITY)]);
        assert_eq!(found.moments.log_moment.error, f64::INFINITY);
        assert!(found.errors.iter().all(|error| *error >= NO_BOUND));
    }
}
