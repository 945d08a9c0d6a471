//! δ of a few steps of Laplace noise, and of losses with a few values, as a finite sum.
//!
//! Under P, the loss ℓ of Laplace noise at distance μ is μ or −μ, or has a density envelope. Divided by e^{ℓ/2}, its law is
//! symmetric and flat there:
//!
//! > e^{−μ/2}·(½·δ_μ + ½·δ_{−μ} + ¼ on [−μ, μ]), of transform ½e^{−μ/2}·((1 + z)e^{sμ} + (1 − z)e^{−sμ}), z = 1/(2s).
//!
//! A loss with values ℓ_i of probability p_i has Σ p_i e^{−ℓ_i/2}·e^{sℓ_i}. Laws of sums of losses are the products: sums of terms
//! w·z^k·e^{sb}, each of which is k times half the integral over what is above, of a point at b. As
//! δ(ε) = e^{ε/2} ∫ 2 sinh((ℓ − ε)/2) over ℓ > ε under this law,
//!
//! > δ(ε) = e^{ε/2} Σ w·H_k((b − ε)/2) over b > ε, H_0(v) = 2 sinh v, H_k(v) = ∫_0^v H_{k−1} = 2 Σ_j v^{2j+1+k}/(2j + 1 + k)!.
//!
//! The H_k are positive, and those of one v follow from each other from above by additions: H_k = H_{k+2} + 2v^{k+1}/(k + 1)!. What
//! cancels in the sum is bounded by the same sum of |w|, at most Π (1 + e^{−μ}) for Laplace noise: no more than 2^n for n steps.

use crate::curve::one_step;
use crate::interval::Interval;
use crate::loss::loss_curve::Atom;
use crate::loss::pairs::StepOutcome;
use crate::stopping::checkpoint;

/// Largest number of steps of Laplace noise: at 24, cancellation takes up to seven of the sixteen digits, and with each more another
/// 0.3 digits.
const MAX_STEPS: u64 = 24;
/// Largest number of places of the composed law: one δ takes 50 µs with that many, where the exact engine takes milliseconds.
const MAX_PLACES: usize = 512;
/// Largest sum of losses: its exponential is far from overflow, at 709.
const MAX_LOSS: f64 = 600.0;

/// The composed law.
#[derive(Debug)]
pub(crate) struct LaplaceSum {
    places: Vec<Place>,
    /// −Σ μ/2 of the steps of Laplace noise.
    log_scale: f64,
    /// Largest loss.
    max_loss: f64,
    /// Bound on the sum of all |ℓ|, which rounding errors of places are relative to.
    size: f64,
    /// log of the probability of outcomes that both hypotheses have, and the offset of their losses.
    log_common: f64,
    offset: f64,
    /// Bound on the relative rounding error of weights.
    rounding: f64,
    /// Largest k.
    degree: usize,
    /// μ² of Gaussian noise, which goes with atoms alone.
    square: f64,
    factors: usize,
}

/// Σ w_k z^k e^{sb}.
#[derive(Debug, Clone)]
struct Place {
    b: f64,
    /// w_k and a bound on it that sums no terms of different sign.
    weights: Vec<(f64, f64)>,
}

/// One term of a sum of losses.
pub(crate) enum Summand {
    /// μ.
    Laplace(f64),
    /// μ.
    Gaussian(f64),
    /// A loss with finitely many values.
    Outcome(StepOutcome),
}

impl LaplaceSum {
    /// The sum of the losses of `factors`; `None` if one of another kind is among them, or too many.
    pub(crate) fn new(factors: &[(Summand, u64)]) -> Option<Self> {
        let mut sum = Self {
            places: vec![Place {
                b: 0.0,
                weights: vec![(1.0, 1.0)],
            }],
            log_scale: 0.0,
            max_loss: 0.0,
            size: 0.0,
            log_common: 0.0,
            offset: 0.0,
            rounding: 0.0,
            degree: 0,
            square: 0.0,
            factors: factors.len(),
        };
        for (factor, count) in factors {
            match factor {
                Summand::Laplace(distance) => sum.add_laplace(*distance, *count)?,
                Summand::Gaussian(distance) => sum.square += *count as f64 * distance * distance,
                Summand::Outcome(outcome) => sum.add_outcome(outcome, *count)?,
            }
        }
        let within = (sum.degree > 0) != (sum.square > 0.0)
            && sum.size + sum.offset.abs() <= MAX_LOSS
            && sum.log_common.is_finite();
        within.then_some(sum)
    }

    fn add_laplace(&mut self, distance: f64, count: u64) -> Option<()> {
        if count > MAX_STEPS.checked_sub(self.degree as u64)? {
            return None;
        }
        let n = count as usize;
        // C(n, j)(1 + z)^j(1 − z)^{n−j}/2^n: whole numbers below 2^53 over a power of two.
        let factor: Vec<Place> = (0..=n)
            .map(|j| {
                let mut weights = vec![0.5f64.powi(n as i32)];
                for i in 0..n {
                    let sign = if i < j { 1.0 } else { -1.0 };
                    weights.push(0.0);
                    for k in (1..weights.len()).rev() {
                        weights[k] += sign * weights[k - 1];
                    }
                }
                let choices = (0..j).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64);
                Place {
                    b: (2.0 * j as f64 - n as f64) * distance,
                    weights: weights.iter().map(|w| (choices * w, (choices * w).abs())).collect(),
                }
            })
            .collect();
        self.multiply(&factor)?;
        let all = count as f64 * distance;
        self.log_scale -= 0.5 * all;
        self.max_loss += all;
        self.size += all;
        self.degree += n;
        Some(())
    }

    fn add_outcome(&mut self, outcome: &StepOutcome, count: u64) -> Option<()> {
        let steps = count as f64;
        let loss = match outcome {
            StepOutcome::Nothing => return Some(()),
            StepOutcome::Loss(loss) => Some(loss),
            StepOutcome::Partly {
                log_common,
                offset,
                loss,
            } => {
                self.log_common += steps * log_common;
                self.offset += steps * offset;
                loss.as_ref()
            }
            StepOutcome::RevealsMembership { .. } => return None,
        };
        let Some(loss) = loss else { return Some(()) };
        let atoms = loss.outcomes()?;
        if count > MAX_STEPS || atoms.len() < 2 {
            return None;
        }
        let (mut largest, mut farthest, mut rounding) = (f64::NEG_INFINITY, 0.0f64, 0.0f64);
        let factor: Vec<Place> = atoms
            .iter()
            .map(|&Atom { loss: b, log_mass }| {
                largest = largest.max(b);
                farthest = farthest.max(b.abs());
                let exponent = log_mass - 0.5 * b;
                // Of the sum and the exponential, and as much again for the logarithm as it is given.
                rounding = rounding.max(f64::EPSILON * (2.0 + 2.0 * log_mass.abs() + b.abs()));
                let weight = exponent.exp();
                Place {
                    b,
                    weights: vec![(weight, weight)],
                }
            })
            .collect();
        if steps * farthest > MAX_LOSS {
            return None;
        }
        for _ in 0..count {
            self.multiply(&factor)?;
        }
        self.max_loss += steps * largest;
        self.size += steps * farthest;
        self.rounding += steps * rounding;
        Some(())
    }

    fn multiply(&mut self, factor: &[Place]) -> Option<()> {
        if self.places.len() * factor.len() > MAX_PLACES {
            return None;
        }
        let mut product = Vec::with_capacity(self.places.len() * factor.len());
        for first in &self.places {
            for second in factor {
                checkpoint();
                let mut weights = vec![(0.0, 0.0); first.weights.len() + second.weights.len() - 1];
                for (i, a) in first.weights.iter().enumerate() {
                    for (j, b) in second.weights.iter().enumerate() {
                        weights[i + j].0 += a.0 * b.0;
                        weights[i + j].1 += a.1 * b.1;
                    }
                }
                product.push(Place {
                    b: first.b + second.b,
                    weights,
                });
            }
        }
        product.sort_by(|a, b| b.b.total_cmp(&a.b));
        self.places = product;
        // Products, and sums of up to so many of them.
        self.rounding += (MAX_STEPS + 2) as f64 * f64::EPSILON;
        Some(())
    }

    /// δ at any real ε.
    pub(crate) fn delta(&self, epsilon: f64) -> Interval {
        let rest = self.smooth_delta(epsilon - self.offset, epsilon.abs());
        if self.log_common == 0.0 {
            return rest;
        }
        let (singular, common) = (-self.log_common.exp_m1(), self.log_common.exp());
        let slack = 8.0 * f64::EPSILON * (2.0 + self.log_common.abs());
        Interval {
            lower: (singular + common * rest.lower) * (1.0 - slack),
            upper: ((singular + common * rest.upper) * (1.0 + slack)).min(1.0),
        }
    }

    /// δ given an outcome that both hypotheses have; `asked` is the |ε| of the question, before the offset is subtracted.
    fn smooth_delta(&self, epsilon: f64, asked: f64) -> Interval {
        // Of b − ε: each product at least doubles the places, so that b is the sum of no more than log₂ MAX_PLACES + 1 products, with
        // half a unit of the size each. Where this is the largest part of the error, half of it is attained by every value, as v is
        // taken that much too large; the rest would need all roundings to have one sign.
        let apart = f64::EPSILON * (16.0 * self.size + 2.0 * (self.offset.abs() + asked.min(2.0 * MAX_LOSS)));
        if self.square > 0.0 {
            return self.gaussian_delta(epsilon, apart);
        }
        if epsilon >= self.max_loss + 2.0 * apart {
            return Interval::exact(0.0);
        }
        if epsilon < -MAX_LOSS {
            return Interval {
                lower: -epsilon.exp_m1() * (1.0 - 4.0 * f64::EPSILON),
                upper: 1.0,
            };
        }
        let mut values = vec![0.0; self.degree + 2];
        // Σ w·H, Σ |w|·H, and the derivative of the latter with respect to b − ε.
        let (mut total, mut size, mut change) = (0.0f64, 0.0f64, 0.0f64);
        let mut underflow = 0.0;
        let mut relative = self.rounding;
        for place in &self.places {
            checkpoint();
            // At least the true v, and at most `apart` above it: v is half of b − ε.
            let v = 0.5 * (place.b - epsilon + apart);
            if v <= 0.0 {
                break;
            }
            let added = kernels(v, place.weights.len(), &mut values);
            relative = relative.max(self.rounding + added);
            let mut here = 0.0;
            for (k, (weight, bound)) in place.weights.iter().enumerate() {
                here += weight * values[k + 1];
                size += bound * values[k + 1];
                change += bound * values[k];
                underflow += 1e-300 * bound;
            }
            total += here;
        }
        let log_scale = self.log_scale + 0.5 * epsilon;
        let scale = log_scale.exp();
        let additions = (self.places.len() + self.degree) as f64;
        relative += f64::EPSILON * (8.0 + additions + 4.0 * (self.log_scale.abs() + epsilon.abs()));
        let error = scale * 1.01 * (relative * size + apart * change + underflow) + 1e-300;
        Interval {
            lower: (scale * total - error).max(0.0),
            upper: (scale * total + error).min(1.0),
        }
    }

    /// Σ p·δ(ε − b) of Gaussian noise.
    fn gaussian_delta(&self, epsilon: f64, apart: f64) -> Interval {
        let distance = self.square.sqrt();
        // Of the root of a sum of squares.
        let wrong = f64::EPSILON * (4.0 + self.factors as f64);
        let mut found = Interval::exact(0.0);
        let mut relative = self.rounding + f64::EPSILON * (8.0 + self.places.len() as f64);
        for place in &self.places {
            let mass = place.weights.iter().map(|weight| weight.0).sum::<f64>() * (0.5 * place.b).exp();
            relative =
                relative.max(self.rounding + f64::EPSILON * (8.0 + self.places.len() as f64 + place.b.abs()));
            let at = epsilon - place.b;
            found.lower += mass * one_step::gaussian_delta(distance * (1.0 - wrong), at + apart).lower();
            found.upper += mass * one_step::gaussian_delta(distance * (1.0 + wrong), at - apart).upper();
        }
        Interval {
            lower: found.lower * (1.0 - relative),
            upper: (found.upper * (1.0 + relative) + 1e-300).min(1.0),
        }
    }
}

/// Writes H_k(v) for −1 ≤ k < `count` to `values[k + 1]`, H_{−1} being 2 cosh v; returns a bound on their relative error.
fn kernels(v: f64, count: usize, values: &mut [f64]) -> f64 {
    // v^i/i! for i < count
    let mut power = 1.0;
    for (i, value) in values.iter_mut().enumerate().take(count) {
        *value = power;
        power *= v / (i + 1) as f64;
    }
    // H_{count−1} and H_count by their series: every other term from v^count/count! on, and from the next.
    let mut sums = [0.0, 0.0];
    let mut i = count;
    loop {
        sums[(i - count) % 2] += 2.0 * power;
        i += 1;
        power *= v / i as f64;
        // From 2v on each term is less than half the one before.
        if power == 0.0 || (i as f64 > 2.0 * v && power <= 0.125 * f64::EPSILON * sums[0].min(sums[1])) {
            break;
        }
    }
    let [mut same, mut above] = sums;
    values[count] = same;
    for value in values[..count].iter_mut().rev() {
        // H_{k−1} = H_{k+1} + 2v^k/k!
        *value = above + 2.0 * *value;
        (same, above) = (*value, same);
    }
    f64::EPSILON * (4.0 + 1.5 * i as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::StepLoss;
    use crate::loss::atoms::AtomLoss;
    use crate::tradeoff::closed_forms::laplace_delta;

    #[test]
    fn kernels_are_iterated_integrals_of_the_hyperbolic_sine() {
        for v in [1e-8f64, 0.3, 2.0, 40.0] {
            let mut values = vec![0.0; 6];
            let error = kernels(v, 5, &mut values);
            assert!(error < 1e-13);
            let expected = [2.0 * v.cosh(), 2.0 * v.sinh()];
            for (value, expected) in values.iter().zip(expected) {
                assert!((value / expected - 1.0).abs() < 1e-14, "{v} {value} {expected}");
            }
            for k in 2..6 {
                // H_k = H_{k−2} − 2v^{k−1}/(k − 1)!; values[k] is H_{k−1}
                let power: f64 = (1..k - 1).map(|i| v / i as f64).product();
                let difference = values[k - 2] - values[k] - 2.0 * power;
                assert!(difference.abs() <= 1e-14 * values[k - 2], "{v} {k} {difference}");
            }
        }
    }

    #[test]
    fn one_step_is_the_closed_form() {
        for distance in [1e-6, 0.3, 2.0, 100.0] {
            let sum = LaplaceSum::new(&[(Summand::Laplace(distance), 1)]).unwrap();
            for fraction in [-1.5, -0.3, 0.0, 0.2, 0.9, 0.999_999, 1.0, 2.0] {
                let (epsilon, found) = (fraction * distance, sum.delta(fraction * distance));
                let exact = laplace_delta(distance, epsilon);
                assert!(
                    found.lower <= exact * (1.0 + 1e-15) && found.upper >= exact * (1.0 - 1e-15),
                    "{distance} {epsilon} {found:?} {exact}"
                );
                assert!(
                    found.upper - found.lower <= 3e-13 * (1.0 + distance),
                    "{distance} {epsilon} {found:?}"
                );
            }
        }
    }

    /// E δ(ε − S) over the atoms of another loss S.
    #[test]
    fn atoms_move_the_curve() {
        // P = (0.5, 0.3, 0.2) and Q = (0.2, 0.3, 0.5).
        let far = 2.5f64.ln();
        let atoms = [(far, 0.5f64), (0.0, 0.3), (-far, 0.2)].map(|(loss, mass)| Atom::new(loss, mass.ln()));
        let outcome = StepOutcome::Partly {
            log_common: (0.9f64).ln(),
            offset: 0.1,
            loss: Some(StepLoss::new(AtomLoss::new(atoms.to_vec()))),
        };
        let sum = LaplaceSum::new(&[(Summand::Outcome(outcome), 1), (Summand::Laplace(1.3), 1)]).unwrap();
        for epsilon in [-2.0, 0.0, 0.4, 1.7, 3.0] {
            let rest = |atom: &Atom| atom.log_mass.exp() * laplace_delta(1.3, epsilon - 0.1 - atom.loss);
            let exact = 0.1 + 0.9 * atoms.iter().map(rest).sum::<f64>();
            let found = sum.delta(epsilon);
            assert!(
                found.lower <= exact + 1e-15 && found.upper >= exact - 1e-15 && found.upper - found.lower < 1e-12,
                "{epsilon} {found:?} {exact}"
            );
        }
    }

    #[test]
    fn two_steps_are_the_integral_over_one() {
        let sum = LaplaceSum::new(&[(Summand::Laplace(1.0), 1), (Summand::Laplace(0.6), 1)]).unwrap();
        for epsilon in [0.0, 0.3, 0.5, 1.1, 1.599] {
            // Midpoints between the kinks of the integrand.
            let mut exact = 0.5 * laplace_delta(1.0, epsilon - 0.6)
                + 0.5 * (-0.6f64).exp() * laplace_delta(1.0, epsilon + 0.6);
            let mut kinks = vec![-0.6, 0.6, epsilon - 1.0, epsilon + 1.0];
            kinks.retain(|kink: &f64| kink.abs() <= 0.6);
            kinks.sort_by(f64::total_cmp);
            for pair in kinks.windows(2) {
                let width = (pair[1] - pair[0]) / 20_000.0;
                for i in 0..20_000 {
                    let loss = pair[0] + (f64::from(i) + 0.5) * width;
                    exact += width * 0.25 * (0.5 * (loss - 0.6)).exp() * laplace_delta(1.0, epsilon - loss);
                }
            }
            let found = sum.delta(epsilon);
            assert!(found.upper - found.lower < 1e-12, "{found:?}");
            assert!((found.upper - exact).abs() < 1e-9, "{epsilon} {found:?} {exact}");
        }
    }

    #[test]
    fn gaussian_noise_goes_with_atoms() {
        let far = 0.5f64;
        let odds = 1.0 / (1.0 + (-far).exp());
        let atoms = vec![Atom::new(far, odds.ln()), Atom::new(-far, (1.0 - odds).ln())];
        let outcome = StepOutcome::Loss(StepLoss::new(AtomLoss::new(atoms)));
        let sum = LaplaceSum::new(&[(Summand::Outcome(outcome), 1), (Summand::Gaussian(0.3), 4)]).unwrap();
        for epsilon in [-1.0, 0.0, 0.5, 1.3, 4.0] {
            let part = |loss: f64| one_step::delta(&StepLoss::shift(0.6), epsilon - loss);
            let exact = odds * part(far).upper() + (1.0 - odds) * part(-far).upper();
            let found = sum.delta(epsilon);
            assert!(
                found.lower <= exact * (1.0 + 1e-10) && found.upper >= exact * (1.0 - 1e-10),
                "{epsilon} {found:?} {exact}"
            );
            assert!(found.upper - found.lower <= 1e-12, "{epsilon} {found:?}");
        }
    }

    #[test]
    fn many_small_steps_cancel_and_say_so() {
        let sum = LaplaceSum::new(&[(Summand::Laplace(0.01), 24)]).unwrap();
        let found = sum.delta(0.02);
        assert!(
            found.lower <= found.upper && found.upper - found.lower < 1e-6,
            "{found:?}"
        );
        assert!(LaplaceSum::new(&[(Summand::Laplace(0.01), 25)]).is_none());
    }

    /// Values of the density of a sum of uniform variables (Irwin and Hall), integrated by `mpmath.quad` at 60 digits: with a steps at
    /// μ, b at −μ and c = n − a − b in between, δ = e^{−nμ/2} Σ n!/(a! b! c!) 2^{−a−b} (μ/2)^c E (e^{ℓ/2} − e^{ε − ℓ/2})_+ over
    /// ℓ = (a − b + U_1 + … + U_c)μ, U_i uniform on [−1, 1].
    #[test]
    fn sums_hold_their_values_at_high_precision() {
        let mut attained = 0.0f64;
        for (steps, distance, epsilon, exact) in [
            (3, 0.5, 0.25, 0.241_016_021_279_713_06),
            (3, 0.5, 1.375, 0.016_093_252_082_565_644),
            (5, 1.0, 2.0, 0.313_903_810_949_847_6),
            (8, 0.25, 0.5, 0.110_431_691_968_490_47),
            (12, 0.0625, 0.125, 0.038_282_856_916_045_31),
        ] {
            let found = LaplaceSum::new(&[(Summand::Laplace(distance), steps)])
                .unwrap()
                .delta(epsilon);
            assert!(
                found.lower <= exact && exact <= found.upper,
                "{steps} {found:?} {exact}"
            );
            assert!(found.width() < 1e-11, "{steps} {found:?}");
            attained = attained.max((found.middle() - exact).abs() / (0.5 * found.width()));
        }
        assert!(attained > 0.4, "{attained}");
    }
}
