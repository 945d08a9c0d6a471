//! δ(ε) of any number of equal steps with two outcomes: a sum over the number of heads.
//!
//! With losses a > b and probability p of a under P, i heads in T steps have the loss S_i = ia + (T − i)b, and
//!
//! > δ = Σ_{S_i > ε} C(T, i)·p^i (1 − p)^{T−i}·(1 − e^{ε − S_i}).
//!
//! Masses come from Loader's form of the binomial law, right to a part 1e-15·(1 + exponents), and then by the ratio of
//! neighbours. They rise to the mode and fall beyond it, faster than any geometric sequence: the sum covers the mode as far as
//! e^-45 of it, and what is left out is bounded.

use crate::interval::Enclosure;
use crate::loss::PrivacyLoss;

/// Masses below e^-this of the largest are left out of the sum.
const NEGLIGIBLE: f64 = 45.0;

/// Terms on either side of the mode at most, for some ten milliseconds: those of about 10¹⁰ steps.
const MOST_REACH: f64 = 1e6;

/// δ at ε of `steps` steps; `None` unless the loss has two values and the sum is short enough.
pub(crate) fn delta(loss: &dyn PrivacyLoss, steps: f64, epsilon: f64) -> Option<Enclosure> {
    let [(high, log_high), (low, log_low)] = *loss.outcomes()? else {
        return None;
    };
    let coin = Coin::new((high, log_high), (low, log_low), steps);
    if coin.reach() > MOST_REACH {
        return None;
    }
    // How far any S_i may be off.
    let slack = 8.0 * f64::EPSILON * (steps * (high.abs() + low.abs()) + epsilon.abs());
    let (lower, error, _) = coin.sum(epsilon + slack);
    let (upper, upper_error, left_out) = coin.sum(epsilon - slack);
    Some(Enclosure::of_logs(
        lower.ln() + (-error).max(-1.0).ln_1p(),
        (upper * (1.0 + upper_error) + left_out).ln(),
    ))
}

struct Coin {
    high: f64,
    low: f64,
    /// Probabilities, the larger one 1 less the smaller, so that their sum is off by 2^-54 at most.
    p: f64,
    rest: f64,
    steps: f64,
    /// Relative error of the smaller one.
    error: f64,
}

impl Coin {
    fn new((high, log_high): (f64, f64), (low, log_low): (f64, f64), steps: f64) -> Self {
        let smaller = log_high.min(log_low);
        let (p, rest) = if log_high < log_low {
            (log_high.exp(), 1.0 - log_high.exp())
        } else {
            (1.0 - log_low.exp(), log_low.exp())
        };
        Self {
            high,
            low,
            p,
            rest,
            steps,
            error: f64::EPSILON * (4.0 + smaller.abs()),
        }
    }

    /// δ at ε, a bound on its relative error, and a bound on what was left out.
    fn sum(&self, epsilon: f64) -> (f64, f64, f64) {
        let steps = self.steps;
        let gap = self.high - self.low;
        // The first count whose loss is above ε, and around it what rounding may have misplaced: its terms vanish there.
        let first = (((epsilon - steps * self.low) / gap).floor() - 1.0).max(0.0);
        if first > steps {
            return (0.0, 0.0, 0.0);
        }
        let mode = ((steps + 1.0) * self.p).floor().clamp(0.0, steps);
        let reach = self.reach();
        let start = first.max((mode - reach).floor());
        let top = start.max(mode.min(steps));
        let log_start = self.log_mass(start);
        let scale = self.log_mass(top);
        let (mut sum, mut mass, mut count) = (0.0, (log_start - scale).exp(), 0.0);
        let odds = self.p / self.rest;
        let mut i = start;
        let left_out = loop {
            let excess = i * self.high + (steps - i) * self.low - epsilon;
            if excess > 0.0 {
                sum += mass * -(-excess).exp_m1();
            }
            count += 1.0;
            if i >= steps {
                break 0.0;
            }
            let ratio = (steps - i) / (i + 1.0) * odds;
            mass *= ratio;
            i += 1.0;
            if i > top && ratio < 1.0 {
                // Ratios fall from here on.
                let rest = mass / (1.0 - ratio);
                if rest < sum * (-NEGLIGIBLE).exp() {
                    break rest;
                }
            }
        };
        // What lies below `start`: P(X < mode − reach) < e^-45, each of its terms at most 1.
        let below = if start > first { 2.0 * (-NEGLIGIBLE).exp() } else { 0.0 };
        // Of the rounding of sums and ratios; of log C and the deviance at the start; of p, which moves the log of a mass by
        // (i − Tp) times its relative error, over at least one half; of p + (1 − p) = 1.
        let far = (start - steps * self.p).abs() + (top - steps * self.p).abs() + reach;
        let exponents = self.deviance(start) + self.deviance(top);
        let error =
            8.0 * f64::EPSILON * (16.0 + count + exponents) + 4.0 * far * self.error + steps * f64::EPSILON;
        (sum * scale.exp(), error, left_out * scale.exp() * (1.0 + error) + below)
    }

    /// Distance from the mean beyond which there is less than e^-45 on either side, by Bernstein's inequality.
    fn reach(&self) -> f64 {
        (2.0 * NEGLIGIBLE * self.steps * self.p * self.rest).sqrt() + NEGLIGIBLE
    }

    /// log C(T, i)·p^i (1 − p)^{T − i}.
    fn log_mass(&self, i: f64) -> f64 {
        let n = self.steps;
        if i == 0.0 {
            return n * self.rest.ln();
        }
        if i == n {
            return n * self.p.ln();
        }
        stirling(n) - stirling(i) - stirling(n - i) - self.deviance(i)
            + 0.5 * (n / (2.0 * std::f64::consts::PI * i * (n - i))).ln()
    }

    /// i·log(i/Tp) + (T − i)·log((T − i)/T(1 − p)).
    fn deviance(&self, i: f64) -> f64 {
        let n = self.steps;
        half_deviance(i, n * self.p) + half_deviance(n - i, n * self.rest)
    }
}

/// x·log(x/m) + m − x ≥ 0, without cancellation near x = m.
fn half_deviance(x: f64, mean: f64) -> f64 {
    if x == 0.0 {
        return mean;
    }
    let u = (x - mean) / mean;
    if u.abs() > 0.1 {
        return x * (x / mean).ln() + mean - x;
    }
    // (1 + u)·log(1 + u) − u = Σ_{k ≥ 2} (−u)^k/(k(k − 1))
    let (mut sum, mut power) = (0.0, u * u);
    for k in 2..24 {
        let k = f64::from(k);
        sum += power / (k * (k - 1.0));
        power *= -u;
    }
    mean * sum
}

/// log n! − log(√(2πn)·(n/e)^n).
fn stirling(n: f64) -> f64 {
    if n < 16.0 {
        let log_factorial: f64 = (2..=n as u32).map(|k| f64::from(k).ln()).sum();
        return log_factorial - 0.5 * (2.0 * std::f64::consts::PI * n).ln() - n * (n.ln() - 1.0);
    }
    let square = n * n;
    // Asymptotic series, alternating: the error is below its first term left out, 1/(156·n¹¹)·691/2310.
    (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - (1.0 / 1188.0) / square) / square) / square) / square)
        / n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::atoms::AtomLoss;
    use crate::step::Direction;

    fn direct(loss: &AtomLoss, steps: u32, epsilon: f64) -> f64 {
        let [(high, log_high), (low, log_low)] = *loss.outcomes().unwrap() else {
            panic!()
        };
        let mut log_choose = 0.0;
        let mut sum = 0.0;
        for i in 0..=steps {
            let (heads, tails) = (f64::from(i), f64::from(steps - i));
            let excess = heads * high + tails * low - epsilon;
            if excess > 0.0 {
                sum += (log_choose + heads * log_high + tails * log_low).exp() * -(-excess).exp_m1();
            }
            log_choose += (tails / (heads + 1.0)).ln();
        }
        sum
    }

    #[test]
    fn the_sum_is_that_of_its_definition() {
        for (seen, keep) in [(0.3, 0.75), (1.0, 0.6), (0.01, 0.9), (0.5, 0.51)] {
            for direction in [Direction::Remove, Direction::Add] {
                let loss = AtomLoss::response((seen, 1.0 - seen), keep, direction);
                for steps in [1u32, 2, 7, 60, 900] {
                    for epsilon in [-0.5, 0.0, 0.3, 2.0] {
                        let expected = direct(&loss, steps, epsilon);
                        let found = delta(&loss, f64::from(steps), epsilon).unwrap();
                        let (low, high) = (found.log_lower.exp(), found.log_upper.exp());
                        let named =
                            format!("{seen} {keep} {direction:?} {steps} {epsilon}: {low} {expected} {high}");
                        assert!(
                            low <= expected * (1.0 + 1e-11) && expected <= high * (1.0 + 1e-11) + 1e-19,
                            "{named}"
                        );
                        assert!(high - low <= 1e-9 * high + 1e-18, "{named}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_billion_steps_are_a_gaussian() {
        // Losses ±x each step: mean Tx²/2·…; by the central limit theorem μ² = T·Var.
        let mut loss = AtomLoss::response((1.0, 0.0), 0.5 + 1e-5, Direction::Remove);
        let one = loss.moments(0.0, 0.0);
        let (mean, variance) = (one.mean, one.variance);
        let steps = 1e9;
        let found = delta(&loss, steps, 1.0).unwrap();
        let mu = (steps * variance).sqrt();
        assert!((steps * mean / (0.5 * mu * mu) - 1.0).abs() < 1e-3);
        let gaussian = crate::curve::one_step::delta(&crate::loss::StepLoss::shift(mu), 1.0);
        assert!(
            (found.log_upper - gaussian.log_upper).abs() < 1e-3,
            "{found:?} {gaussian:?}"
        );
        assert!(found.width() < 1e-4);
    }
}
