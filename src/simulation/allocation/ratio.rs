//! The likelihood ratio W of one epoch at an output, as a coefficient of a power series.
//!
//! With y_i = exp(x_i/σ² − v_i/2) for the output x_i of batch i, a group of m members has
//! W = m!/t^m · [z^m] Π_i F_i(z·y_i), F_i(z) = Σ_j z^j/j!·e^{−v_i·j(j−1)/2}, and a record in k different batches
//! W = [z^k] Π_i (1 + z·y_i) / (t choose k). All terms are positive. At z = θ the terms of each factor are probabilities after division by
//! its value there, so that the coefficient is P(ΣJ_i = m)·Π F_i(θy_i)/θ^m with independent numbers J_i, and the θ with E(ΣJ_i) = m makes
//! that probability at least of the order 1/√m. Terms below 1e-22 of a factor are left out: the cost is a few operations for each batch and member.

use crate::simulation::allocation::epochs::{Balls, Epoch};

/// Terms of a factor that are smaller in relative terms are left out, as it has a few tens of them at most, and 2^24 factors.
const SMALLEST_TERM: f64 = 1e-22;
/// How far from m, in standard deviations and beyond a twentieth, the mean of ΣJ_i may be: that takes a factor of e^−0.3 of the probability.
const SLACK: f64 = 0.7;
/// Largest product that is taken without its logarithm.
const LARGE: f64 = 1e200;

/// Factors F of one kind of batch.
#[derive(Debug)]
struct Factor {
    /// Ratio of the j-th coefficient to the one before, from j = 1.
    ratios: Vec<f64>,
    /// log of the coefficients.
    logs: Vec<f64>,
    /// How many batches there are.
    count: usize,
}

/// The likelihood ratio of an epoch.
#[derive(Debug)]
pub(crate) struct Ratio {
    factors: Vec<Factor>,
    balls: Balls,
    still: f64,
    batches: f64,
    log_scale: f64,
}

/// Memory for one evaluation.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    terms: Vec<f64>,
    sums: Vec<f64>,
}

impl Ratio {
    pub(crate) fn new(epoch: &Epoch) -> Self {
        let (balls, number) = (epoch.balls, epoch.balls.number());
        let factors = epoch.parts.iter().map(|part| {
            let ratios: Vec<f64> = match balls {
                Balls::Times(_) => vec![1.0],
                Balls::Members(_) => (1..=number)
                    .map(|j| (-part.variance * (j - 1) as f64).exp() / j as f64)
                    .collect(),
            };
            let log_ratios = (1..=ratios.len()).map(|j| match balls {
                Balls::Times(_) => 0.0,
                Balls::Members(_) => -part.variance * (j - 1) as f64 - (j as f64).ln(),
            });
            let logs = std::iter::once(0.0)
                .chain(log_ratios.scan(0.0, |sum, log| {
                    *sum += log;
                    Some(*sum)
                }))
                .collect();
            Factor {
                ratios,
                logs,
                count: part.count as usize,
            }
        });
        let batches = epoch.batches();
        // m!/t^m, or k!/(t(t − 1)…(t − k + 1)).
        let log_scale = (0..number)
            .map(|i| match balls {
                Balls::Members(_) => ((i + 1) as f64 / batches).ln(),
                Balls::Times(_) => ((i + 1) as f64 / (batches - i as f64)).ln(),
            })
            .sum();
        Self {
            factors: factors.collect(),
            balls,
            still: epoch.still,
            batches,
            log_scale,
        }
    }

    /// log W₁ and log W at an output with these log y, which are used up: W₁ = Σy/t is the ratio of one record in one batch.
    pub(crate) fn at(&self, log_ys: &mut [f64], scratch: &mut Scratch) -> (f64, f64) {
        let floor = if self.still > 0.0 { 0.0 } else { f64::NEG_INFINITY };
        let largest = log_ys.iter().copied().fold(floor, f64::max);
        for log_y in &mut *log_ys {
            *log_y = (*log_y - largest).exp();
        }
        let ys: &[f64] = log_ys;
        let of_still = (-largest).exp();
        let sum = ys.iter().sum::<f64>() + self.still * of_still;
        let log_mean = largest + (sum / self.batches).ln();
        let number = self.balls.number();
        if number == 1 {
            return (log_mean, log_mean);
        }
        if self.balls == Balls::Times(ys.len() as u64) && self.still == 0.0 {
            let log_ratio = ys.iter().map(|y| y.ln() + largest).sum();
            return (log_mean, log_ratio);
        }
        let theta = self.saddle(ys, of_still, number as f64 / sum, scratch);
        let log_coefficient = self.log_coefficient(ys, of_still, theta, scratch);
        let log_ratio = self.log_scale + log_coefficient + number as f64 * (largest - theta.ln());
        (log_mean, log_ratio)
    }

    /// A θ at which ΣJ_i has a mean near the number of balls, from one below it.
    fn saddle(&self, ys: &[f64], of_still: f64, start: f64, scratch: &mut Scratch) -> f64 {
        let number = self.balls.number() as f64;
        let mut theta = start;
        for _ in 0..60 {
            let (mut mean, mut variance) = self.moments_of_still(theta * of_still);
            let mut rest = ys;
            for factor in &self.factors {
                let (own, others) = rest.split_at(factor.count);
                for y in own {
                    factor.probabilities(theta * y, &mut scratch.terms);
                    let (mut first, mut second) = (0.0, 0.0);
                    for (j, p) in scratch.terms.iter().enumerate().skip(1) {
                        first += j as f64 * p;
                        second += (j * j) as f64 * p;
                    }
                    mean += first;
                    variance += second - first * first;
                }
                rest = others;
            }
            let off = number - mean;
            if off.abs() <= SLACK * variance.max(0.0).sqrt() + 0.05 || theta > 1e250 {
                break;
            }
            theta *= (off / variance.max(1e-3)).clamp(-2.0, 2.0).exp();
        }
        theta
    }

    /// Mean and variance of the number of balls in batches that are not released.
    fn moments_of_still(&self, r: f64) -> (f64, f64) {
        match self.balls {
            Balls::Members(_) => (self.still * r, self.still * r),
            Balls::Times(_) => {
                let p = r / (1.0 + r);
                (self.still * p, self.still * p * (1.0 - p))
            }
        }
    }

    /// log of the coefficient of z^m in the product of the factors, times θ^m.
    fn log_coefficient(&self, ys: &[f64], of_still: f64, theta: f64, scratch: &mut Scratch) -> f64 {
        let degree = self.balls.number() as usize;
        let mut logs = self.start(theta * of_still, degree, &mut scratch.sums);
        let mut product = 1.0;
        let mut rest = ys;
        for factor in &self.factors {
            let (own, others) = rest.split_at(factor.count);
            for y in own {
                let (sum, log) = factor.probabilities(theta * y, &mut scratch.terms);
                logs += log;
                product *= sum;
                if product > LARGE {
                    logs += f64::ln(product);
                    product = 1.0;
                }
                multiply(&mut scratch.sums, &scratch.terms);
            }
            rest = others;
        }
        logs + product.ln() + scratch.sums[degree].ln()
    }

    /// The probabilities that 0, 1, … balls lie in batches that are not released, and log of the value of their factors.
    fn start(&self, r: f64, degree: usize, sums: &mut Vec<f64>) -> f64 {
        sums.clear();
        sums.resize(degree + 1, 0.0);
        if self.still == 0.0 {
            sums[0] = 1.0;
            return 0.0;
        }
        let log_value = match self.balls {
            Balls::Members(_) => self.still * r,
            Balls::Times(_) => self.still * r.ln_1p(),
        };
        let mut log_term = -log_value;
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = log_term.exp();
            let choices = match self.balls {
                Balls::Members(_) => self.still,
                Balls::Times(_) => (self.still - j as f64).max(0.0),
            };
            log_term += (choices * r / (j + 1) as f64).ln();
        }
        log_value
    }
}

impl Factor {
    /// The terms of the factor at r, divided by their sum, which is the first number returned times the exponential of the second.
    fn probabilities(&self, r: f64, terms: &mut Vec<f64>) -> (f64, f64) {
        terms.clear();
        // The largest term.
        let mut mode = 0;
        while mode < self.ratios.len() && r * self.ratios[mode] > 1.0 {
            mode += 1;
        }
        if mode > 0 {
            terms.resize(mode + 1, 1.0);
            for j in (0..mode).rev() {
                terms[j] = terms[j + 1] / (r * self.ratios[j]);
            }
        } else {
            terms.push(1.0);
        }
        let mut term = 1.0;
        for ratio in &self.ratios[mode..] {
            term *= r * ratio;
            if term < SMALLEST_TERM {
                break;
            }
            terms.push(term);
        }
        let sum: f64 = terms.iter().sum();
        let inverse = 1.0 / sum;
        for term in terms {
            *term *= inverse;
        }
        let log = if mode > 0 {
            self.logs[mode] + mode as f64 * r.ln()
        } else {
            0.0
        };
        (sum, log)
    }
}

/// Convolves the law of a sum with that of one more number, up to the largest sum of interest.
fn multiply(sums: &mut [f64], terms: &[f64]) {
    for k in (0..sums.len()).rev() {
        let most = terms.len().min(k + 1);
        let low = k + 1 - most;
        sums[k] = terms[..most]
            .iter()
            .zip(sums[low..=k].iter().rev())
            .map(|(term, sum)| term * sum)
            .sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::allocation::epochs::tests::run;
    use crate::step::Sampling;

    /// W at an output by the sum over all ways to place the balls.
    fn by_enumeration(log_ys: &[f64], variances: &[f64], balls: Balls) -> f64 {
        let t = log_ys.len();
        let (mut sum, mut ways) = (0.0, 0.0);
        let number = balls.number() as usize;
        for code in 0..t.pow(number as u32) {
            let mut counts = vec![0i32; t];
            let mut rest = code;
            for _ in 0..number {
                counts[rest % t] += 1;
                rest /= t;
            }
            if matches!(balls, Balls::Times(_)) && counts.iter().any(|n| *n > 1) {
                continue;
            }
            ways += 1.0;
            let log: f64 = (0..t)
                .map(|i| {
                    let n = f64::from(counts[i]);
                    n * log_ys[i] - 0.5 * n * (n - 1.0) * variances[i]
                })
                .sum();
            sum += log.exp();
        }
        (sum / ways).ln()
    }

    #[test]
    fn ratios_are_those_of_enumeration() {
        for (noise, members, times, steps) in [
            (1.0, 3, 1, 5),
            (0.3, 4, 1, 5),
            (5.0, 2, 1, 3),
            (1.0, 1, 3, 5),
            (0.5, 1, 2, 3),
            (0.7, 5, 1, 2),
            (0.1, 4, 1, 5),
        ] {
            let run = run(Sampling::RandomAllocation { batches: 5, times }, noise, members, steps);
            let (ratio, released) = (Ratio::new(&run.epochs[0]), steps as usize);
            for case in 0..4 {
                let mut log_ys: Vec<f64> = (0..released)
                    .map(|i| ((i * 7 + case * 3) % 5) as f64 * 0.9 / noise - 1.0)
                    .collect();
                let mut all = log_ys.clone();
                all.resize(5, 0.0);
                let mut variances = vec![noise.powi(-2); released];
                variances.resize(5, 0.0);
                let exact = by_enumeration(&all, &variances, run.epochs[0].balls);
                let mean = (all.iter().map(|log| log.exp()).sum::<f64>() / 5.0).ln();
                let found = ratio.at(&mut log_ys, &mut Scratch::default());
                assert!((found.0 - mean).abs() < 1e-13 * (1.0 + mean.abs()));
                assert!(
                    (found.1 - exact).abs() < 1e-12 * (1.0 + exact.abs()),
                    "{noise} {members}: {found:?} {exact}"
                );
            }
        }
    }

    #[test]
    fn two_members_have_the_closed_form() {
        // W = (S₁² − (1 − e^{−v})·S₂)/t², with batches of different noise.
        let run = run(Sampling::FixedBins { batches: 4 }, 1.5, 2, 6);
        let ratio = Ratio::new(&run.epochs[0]);
        let log_ys = [0.3, -1.2, 4.0, 0.7];
        let v = [2.0 / 2.25, 2.0 / 2.25, 1.0 / 2.25, 1.0 / 2.25];
        let sum: f64 = log_ys.iter().map(|log: &f64| log.exp()).sum();
        let lost: f64 = log_ys
            .iter()
            .zip(v)
            .map(|(log, v): (&f64, f64)| (2.0 * log).exp() * -(-v).exp_m1())
            .sum();
        let exact = ((sum * sum - lost) / 16.0).ln();
        let found = ratio.at(&mut log_ys.to_vec(), &mut Scratch::default()).1;
        assert!((found - exact).abs() < 1e-13, "{found} {exact}");
    }
}
