//! δ(ε) of any number of equal steps with two outcomes: a sum over the number of heads.
//!
//! With losses a > b and probability p of a under P, i heads in T steps have the loss S_i = ia + (T − i)b, and
//!
//! > δ = Σ_{S_i > ε} C(T, i)·p^i (1 − p)^{T−i}·(1 − e^{ε − S_i}).
//!
//! The first mass comes from [`Binomial`], with a relative error of 1e-15·(1 + exponents), and the others by the ratio of
//! neighbours. They rise to the mode and fall beyond it, faster than any geometric sequence: the sum covers the mode as far as
//! e^-45 of it, and what is left out on either side is at most the geometric series that begins like the terms there.

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::PrivacyLoss;
use crate::loss::loss_curve::Atom;
use crate::special::binomial::Binomial;

/// Masses below e^−45 of the largest are left out of the sum; what that leaves out is bounded.
const NEGLIGIBLE: f64 = 45.0;

/// Largest number of terms on either side of the mode, which take some ten milliseconds: those of about 10¹⁰ steps.
const MAX_REACH: f64 = 1e6;

/// δ at ε of `steps` steps; `None` unless the loss has two values and the sum is short enough.
pub(crate) fn delta(loss: &dyn PrivacyLoss, steps: f64, epsilon: f64) -> Option<Enclosure> {
    let [high, low] = *loss.outcomes()? else {
        return None;
    };
    let coin = Coin::new(high, low, steps);
    if coin.reach() > MAX_REACH {
        return None;
    }
    // Bound on the error of any S_i.
    let slack = 8.0 * f64::EPSILON * (steps * (high.loss.abs() + low.loss.abs()) + epsilon.abs());
    let (lower, _) = coin.sum(epsilon + slack);
    let (upper, left_out) = coin.sum(epsilon - slack);
    Some(Enclosure::of_logs(
        lower.lower().max(0.0).ln(),
        (upper.upper() + left_out).ln(),
    ))
}

/// Equal steps with two outcomes, `high` with probability `p` and `low` with probability `rest`.
struct Coin {
    high: f64,
    low: f64,
    /// Probabilities, the larger one computed as 1 less the smaller, so that their sum is 1 to within 2^-54.
    p: f64,
    rest: f64,
    steps: f64,
    /// Relative error of the smaller one.
    error: f64,
    /// Masses below e^−this of the largest are left out of sums: [`NEGLIGIBLE`].
    negligible: f64,
}

impl Coin {
    fn new(high: Atom, low: Atom, steps: f64) -> Self {
        let smaller = high.log_mass.min(low.log_mass);
        let (p, rest) = if high.log_mass < low.log_mass {
            (high.log_mass.exp(), 1.0 - high.log_mass.exp())
        } else {
            (1.0 - low.log_mass.exp(), low.log_mass.exp())
        };
        Self {
            high: high.loss,
            low: low.loss,
            p,
            rest,
            steps,
            error: f64::EPSILON * (4.0 + smaller.abs()),
            negligible: NEGLIGIBLE,
        }
    }

    /// The law of the number of `high` outcomes.
    fn law(&self) -> Binomial {
        Binomial {
            trials: self.steps,
            p: self.p,
            rest: self.rest,
        }
    }

    /// δ at ε as the sum of some terms with its rounding error, and a bound on the terms that were left out.
    fn sum(&self, epsilon: f64) -> (Approx, f64) {
        let steps = self.steps;
        let law = self.law();
        let gap = self.high - self.low;
        // The first count whose loss is above ε, and around it what rounding may have misplaced: its terms vanish there.
        let first = (((epsilon - steps * self.low) / gap).floor() - 1.0).max(0.0);
        if first > steps {
            return (Approx::exact(0.0), 0.0);
        }
        let mode = ((steps + 1.0) * self.p).floor().clamp(0.0, steps);
        let reach = self.reach();
        let start = first.max((mode - reach).floor());
        let top = start.max(mode.min(steps));
        let log_start = law.log_mass(start);
        let scale = law.log_mass(top);
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
                if rest < sum * (-self.negligible).exp() {
                    break rest;
                }
            }
        };
        // Each term is at most its mass, and masses below `start` fall by ratios that fall themselves.
        let below = if start > first {
            let fall = |i: f64| i / (steps - i + 1.0) / odds;
            log_start.exp() * fall(start) / (1.0 - fall(start - 1.0))
        } else {
            0.0
        };
        // Errors of the rounding of sums and ratios; of log C and the deviance at the start; of p, which changes the log of a mass by
        // (i − Tp) times its relative error, over at least one half; of p + (1 − p) = 1.
        let far = (start - steps * self.p).abs() + (top - steps * self.p).abs() + reach;
        let exponents = law.deviance(start) + law.deviance(top);
        let error =
            8.0 * f64::EPSILON * (16.0 + count + exponents) + 4.0 * far * self.error + steps * f64::EPSILON;
        let value = sum * scale.exp();
        let left_out = (left_out * scale.exp() + below) * (1.0 + error);
        (Approx::new(value, error * value), left_out)
    }

    /// Distance from the mean beyond which there is less than e^−[`Coin::negligible`] on either side, by Bernstein's inequality.
    fn reach(&self) -> f64 {
        (2.0 * self.negligible * self.steps * self.p * self.rest).sqrt() + self.negligible
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::atoms::AtomLoss;
    use crate::step::Direction;

    fn direct(loss: &AtomLoss, steps: u32, epsilon: f64) -> f64 {
        let &[high, low] = loss.outcomes().unwrap() else {
            panic!()
        };
        let mut log_choose = 0.0;
        let mut sum = 0.0;
        for i in 0..=steps {
            let (heads, tails) = (f64::from(i), f64::from(steps - i));
            let excess = heads * high.loss + tails * low.loss - epsilon;
            if excess > 0.0 {
                sum += (log_choose + heads * high.log_mass + tails * low.log_mass).exp() * -(-excess).exp_m1();
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

    /// A coin with losses so far apart that 1 − e^{ε − S} is 1 for all sums above the ε of the tests, and δ at ε with all terms.
    fn wide_coin(p: f64, steps: u32, negligible: f64, epsilon: f64) -> (Coin, f64) {
        let coin = Coin {
            negligible,
            ..Coin::new(Atom::new(1e3, p.ln()), Atom::new(-1.0, (-p).ln_1p()), f64::from(steps))
        };
        let exact = (0..=steps)
            .map(f64::from)
            .filter(|i| i * 1e3 - (f64::from(steps) - i) > epsilon)
            .map(|i| coin.law().log_mass(i).exp())
            .sum();
        (coin, exact)
    }

    /// The largest part of what is said to be left out that sums of these coins leave out, which end so early that it is seen beside their
    /// rounding.
    fn closest(coins: &[(f64, u32)], negligible: &[f64], epsilon: impl Fn(f64, f64) -> f64) -> f64 {
        let mut closest = 0.0f64;
        for &(p, steps) in coins {
            for &negligible in negligible {
                let epsilon = epsilon(p, f64::from(steps));
                let (coin, exact) = wide_coin(p, steps, negligible, epsilon);
                let (sum, left_out) = coin.sum(epsilon);
                let missing = exact - sum.value;
                assert!(
                    missing <= left_out + sum.error && missing > 0.0,
                    "{p} {negligible}: {missing:e} {left_out:e}"
                );
                closest = closest.max(missing / left_out);
            }
        }
        closest
    }

    /// The losses of all counts from the mode on are above ε, so that nothing is left out below.
    #[test]
    fn what_a_sum_leaves_out_above_is_bounded_and_nearly_attained() {
        let coins = [(0.5, 400), (0.02, 2000), (0.9, 700)];
        let epsilon = |p: f64, steps: f64| (steps * p).floor() * 1001.0 - steps - 500.0;
        let found = closest(&coins, &[1.0, 2.0, 4.0, 8.0], epsilon);
        assert!(found > 0.6, "{found}");
    }

    /// The mode is next to the largest count, so that nothing is left out above.
    #[test]
    fn what_a_sum_leaves_out_below_is_bounded_and_nearly_attained() {
        let coins = [(0.98, 50), (0.97, 100), (0.95, 40)];
        let found = closest(&coins, &[0.5, 1.0, 2.0], |_, _| -1e6);
        assert!(found > 0.6, "{found}");
    }

    /// Tail sums of the binomial law at the distance that is left out: e^−45 is an upper bound, and half the distance would not do.
    #[test]
    fn what_is_left_out_on_either_side_is_below_e_to_the_minus_45() {
        for (p, steps) in [(0.5f64, 1000.0f64), (0.1, 20_000.0), (0.9, 300.0)] {
            let coin = Coin::new(Atom::new(1.0, p.ln()), Atom::new(-1.0, (-p).ln_1p()), steps);
            let (mean, reach) = (steps * p, coin.reach());
            let mass = |counts: &mut dyn Iterator<Item = u32>| {
                counts.map(|i| coin.law().log_mass(f64::from(i)).exp()).sum::<f64>()
            };
            let below = mass(&mut (0..((mean - reach).max(0.0).floor() as u32)));
            let above = mass(&mut ((mean + reach).ceil().min(steps) as u32 + 1..=steps as u32));
            assert!(below.max(above) <= (-NEGLIGIBLE).exp(), "{p} {steps}: {below} {above}");
            let half = mass(&mut (0..((mean - 0.5 * reach).max(0.0).floor() as u32)));
            assert!(half > (-NEGLIGIBLE).exp(), "{p} {steps}: {half}");
        }
    }
}
