//! δ(ε) of any number of equal steps with two outcomes: a sum over the number of heads.
//!
//! With losses a > b and probability p of a under P, i heads in T steps have the loss S_i = ia + (T − i)b, and
//!
//! > δ = Σ_{S_i > ε} C(T, i)·p^i (1 − p)^{T−i}·(1 − e^{ε − S_i}).
//!
//! The largest mass that counts comes from [`Binomial`] ([`Binomial::relative_error`]), and the others by the ratio of neighbours, in units of
//! the largest: they fall on both sides of it, faster than any geometric sequence, so that none that counts underflows. What is left out on
//! either side is at most the geometric series that begins like the terms there.

use crate::interval::Enclosure;
use crate::loss::PrivacyLoss;
use crate::loss::loss_curve::Atom;
use crate::special::binomial::Binomial;

/// A sum ends where what follows is below e^−45 of it; what that leaves out is bounded.
const NEGLIGIBLE: f64 = 45.0;

/// Largest number of terms on either side of the mode, which take some ten milliseconds: those of 4·10¹⁰ steps with p = ½.
const MAX_REACH: f64 = 1e6;

/// log of the smallest probability of an outcome, far above the end of the range of an `f64`.
const LEAST_LOG_MASS: f64 = -700.0;

/// δ at ε of `steps` steps; `None` unless the loss has two values, neither of which is too rare, and the sum is short enough.
pub(crate) fn delta(loss: &dyn PrivacyLoss, steps: f64, epsilon: f64) -> Option<Enclosure> {
    let coin = Coin::of(loss, steps)?;
    // Bound on the error of any S_i: that of its sum, and that of both losses themselves.
    let slack = coin.rounding(epsilon) + steps * loss.max_loss().slack;
    Some(Enclosure::of_logs(
        coin.sum(epsilon + slack).log_lower(),
        coin.sum(epsilon - slack).log_upper(),
    ))
}

/// True if [`delta`] answers at every ε.
pub(crate) fn applies(loss: &dyn PrivacyLoss, steps: f64) -> bool {
    Coin::of(loss, steps).is_some()
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
    /// Sums end where what follows is below e^−this of them: [`NEGLIGIBLE`].
    negligible: f64,
}

/// A sum of terms in units of e^`log_scale`.
struct Sum {
    log_scale: f64,
    value: f64,
    /// A bound on the terms that were left out.
    left_out: f64,
    /// Relative error of both.
    error: f64,
}

impl Sum {
    fn log_lower(&self) -> f64 {
        self.log(self.value * (1.0 - self.error), -1.0)
    }

    fn log_upper(&self) -> f64 {
        self.log((self.value + self.left_out) * (1.0 + self.error), 1.0)
    }

    /// log of `value` units, rounded to that side.
    fn log(&self, value: f64, side: f64) -> f64 {
        if value <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let log = self.log_scale + value.ln();
        log + side * f64::EPSILON * (1.0 + log.abs())
    }
}

impl Coin {
    /// The coin of a loss with two values, if its sums are short enough and none of its probabilities is next to the end of the range.
    fn of(loss: &dyn PrivacyLoss, steps: f64) -> Option<Self> {
        let &[high, low] = loss.outcomes()? else {
            return None;
        };
        let coin = Self::new(high, low, steps);
        (high.log_mass.min(low.log_mass) > LEAST_LOG_MASS && coin.reach() <= MAX_REACH).then_some(coin)
    }

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

    /// A bound on the rounding of S_i − ε, of any i.
    fn rounding(&self, epsilon: f64) -> f64 {
        8.0 * f64::EPSILON * (self.steps * (self.high.abs() + self.low.abs()) + epsilon.abs())
    }

    /// δ at ε as the sum of some terms with its rounding error, and a bound on the terms that were left out.
    fn sum(&self, epsilon: f64) -> Sum {
        let steps = self.steps;
        let law = self.law();
        let gap = self.high - self.low;
        // The first count whose loss is above ε, and before it what rounding may have misplaced: its terms vanish there.
        let first = (((epsilon - steps * self.low - self.rounding(epsilon)) / gap).floor() - 1.0).max(0.0);
        let mode = ((steps + 1.0) * self.p).floor().clamp(0.0, steps);
        let top = first.max(mode);
        let mut sum = Sum {
            log_scale: 0.0,
            value: 0.0,
            left_out: 0.0,
            error: 0.0,
        };
        if top > steps {
            return sum;
        }
        sum.log_scale = law.log_mass(top);
        let odds = (self.p / self.rest, self.rest / self.p);
        let up = |i: f64| (steps - i) / (i + 1.0) * odds.0;
        let above = self.add_terms(&mut sum, epsilon, (top, 1.0, 1.0), up);
        let down = |i: f64| i / (steps - i + 1.0) * odds.1;
        let below = if top > first {
            self.add_terms(&mut sum, epsilon, (top - 1.0, down(top), -1.0), down)
        } else {
            0.0
        };
        // Errors of the rounding of sums and ratios; of log C and the deviance at the top; of p, which changes the log of a mass by
        // (i − Tp) times its relative error, over at least one half, with room for what the deviance loses far from its 0; of
        // p + (1 − p) = 1.
        let far = (top - steps * self.p).abs() + above.max(below);
        sum.error = 8.0 * f64::EPSILON * (16.0 + above + below + law.deviance(top))
            + 8.0 * far * self.error
            + steps * f64::EPSILON;
        sum
    }

    /// Adds the terms of counts that are `step` apart, from `start` on, where the mass is `mass`; `ratio` is that of the next mass to the one
    /// at a count, which falls on the way. Returns the number of terms.
    fn add_terms(
        &self,
        sum: &mut Sum,
        epsilon: f64,
        (start, mut mass, step): (f64, f64, f64),
        ratio: impl Fn(f64) -> f64,
    ) -> f64 {
        let negligible = (-self.negligible).exp();
        let (mut i, mut terms) = (start, 0.0);
        loop {
            let next = ratio(i);
            // Each term is at most its mass. A mass that underflows where no term is positive yet counts as the least normal number.
            let least = (negligible * sum.value).max(f64::MIN_POSITIVE);
            if next < 1.0 && mass <= least * (1.0 - next) {
                sum.left_out += mass.max(f64::MIN_POSITIVE) / (1.0 - next);
                return terms;
            }
            let excess = i * self.high + (self.steps - i) * self.low - epsilon;
            if excess > 0.0 {
                sum.value += mass * -(-excess).exp_m1();
            } else if step < 0.0 {
                // Losses of smaller counts are smaller.
                return terms;
            }
            terms += 1.0;
            if next <= 0.0 {
                return terms;
            }
            mass *= next;
            i += step;
        }
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

    /// A bit that is kept next to always: the smallest masses of 80 to 100 steps are below 1e-600, and δ is 1 to within 1e-300, by mpmath with
    /// the sum of the definition in 60 digits.
    #[test]
    fn masses_that_underflow_far_from_the_mode_hide_no_others() {
        let keeps = [
            (1.0 - 1e-10, 100.0, 0.0),
            (1.0 - 1e-10, 100.0, 1.0),
            (1.0 - 2f64.powi(-30), 80.0, 5.0),
            (1.0 - 10f64.powf(-7.85), 85.0, 0.5),
        ];
        for (keep, steps, epsilon) in keeps {
            let loss = AtomLoss::response((1.0, 0.0), keep, Direction::Remove);
            let found = delta(&loss, steps, epsilon).unwrap();
            assert!(
                found.log_upper == 0.0 && found.log_lower > -1e-12,
                "{keep} {steps} {epsilon}: {found:?}"
            );
        }
    }

    /// log δ = −948.538102096076137…, by mpmath with the sum of the definition in 60 digits: δ is 1.1e-412.
    #[test]
    fn a_delta_below_the_range_of_numbers_has_a_logarithm() {
        let loss = AtomLoss::response((1.0, 0.0), 0.55, Direction::Remove);
        let exact = -948.538_102_096_076;
        let found = delta(&loss, 20_000.0, 1605.0).unwrap();
        assert!(found.log_lower <= exact && exact <= found.log_upper, "{found:?}");
        assert!(found.width() < 1e-9, "{found:?}");
        // No sum of losses is above ε.
        assert_eq!(delta(&loss, 20_000.0, 5000.0), Some(Enclosure::ZERO));
    }

    /// Losses of 1e-6 that are right to a few units in the last place of 1 alone: 10⁸ of them are off by 2e-8 together, which moves δ by 4e-6
    /// of it.
    #[test]
    fn the_error_of_the_losses_themselves_is_counted() {
        let right = AtomLoss::response((1.0, 0.0), 0.5 + 2.5e-7, Direction::Remove);
        let exact = delta(&right, 1e8, 0.01).unwrap();
        for wrong in [-f64::EPSILON, f64::EPSILON] {
            let atoms = right.outcomes().unwrap().iter();
            let moved = atoms.map(|atom| Atom::new(atom.loss + wrong, atom.log_mass));
            let found = delta(&AtomLoss::new(moved.collect()), 1e8, 0.01).unwrap();
            assert!(
                found.log_lower <= exact.log_lower && exact.log_upper <= found.log_upper,
                "{wrong}: {found:?} {exact:?}"
            );
            assert!(found.width() < 1e-3 && exact.width() < 1e-6, "{found:?} {exact:?}");
        }
    }

    #[test]
    fn a_billion_steps_are_a_gaussian() {
        // T losses ±x have variance Tx² and mean Tx²/2, those of a Gaussian pair with μ² = Tx².
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
                let sum = coin.sum(epsilon);
                let missing = exact / sum.log_scale.exp() - sum.value;
                let left_out = sum.left_out;
                assert!(
                    missing <= left_out + sum.error * sum.value && missing > 0.0,
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
        let found = closest(&coins, &[3.0, 4.0, 6.0], |_, _| -1e6);
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
