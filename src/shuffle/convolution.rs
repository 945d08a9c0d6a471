//! Sums of independent whole numbers: convolutions and T-fold powers of laws.
//!
//! **One convolution** uses the most accurate arithmetic that is affordable: [`Extended`] digits for short laws, `f64` in
//! blocks for longer ones, the fast Fourier transform beyond that. A transform of length N has a relative error of at
//! most η = (log₂N + 2)·7.4e-16 in the 2-norm (Higham 2002, Theorem 24.2). Spectra of laws are at most 1, so a product
//! of spectra is off by at most √N·η(‖a‖₂ + ‖b‖₂), and the convolution by
//!
//! > η(‖a‖₂ + ‖b‖₂ + min(‖a‖₂, ‖b‖₂))·1.1
//!
//! in the 2-norm and √(length) times that in the 1-norm, which is counted in `left_out`; masses are positive, so that cutting
//! negative ones to 0 does not increase it.
//!
//! **Powers.** A law of two values gives the binomial law, from its mode by ratios of neighbours. If T is large
//! against the result (which starts at offset 0 with mass b_0 = a_0^T), the power recurrence of J. C. P. Miller,
//!
//! > b_n = 1/(n·a_0) · Σ_k (kT − (n − k)) a_k b_{n−k},
//!
//! has no negative term for n ≤ k₁(T + 1), k₁ the smallest offset above 0; Chernoff's bound bounds
//! what lies beyond its end. Otherwise the power is the square of the power of half as many.

use crate::shuffle::integer_law::{IntegerLaw, NEGLIGIBLE_TAIL, Real, add_scaled, log_concave};
use crate::special::extended::Extended;
use crate::special::fourier::{forward, inverse, transform_error};
use crate::step::group_law::power as number_power;
use crate::stopping::checkpoint;

/// Largest number of products of a convolution in extended precision, which takes 0.1 s.
const MAX_EXTENDED: u64 = 1 << 21;
/// Largest number of products of a direct convolution in `f64`, which takes 0.1 s.
const MAX_DIRECT: u64 = 1 << 27;
/// Largest number of values of a law: its masses fill 128 MB in extended precision.
pub(crate) const MAX_VALUES: u64 = 1 << 23;
/// Largest number of terms of the power recurrence, in extended precision.
const MAX_TERMS: u64 = 1 << 22;
/// Length of a block of the direct convolution: a mass is a sum of that many products, and then of as many blocks as there are.
const BLOCK: usize = 64;
/// Factor by which products of errors of two transforms can make the error of a convolution grow, with much room.
const SECOND_ORDER: f64 = 1.1;
/// The part of the error of a transform below which its tails are noise and are cut off.
const NOISE: f64 = 0.1;
/// Minimum number of standard deviations of a binomial law that are listed.
const DEVIATIONS: f64 = 20.0;
/// Tilts at which a tail is bounded: 2^{i/4}, from 3e-8 to 3.
const TILTS: std::ops::Range<i32> = -100..8;

/// The law of X + Y for independent X, Y; `None` if it is too long.
pub(crate) fn convolve(a: &IntegerLaw<Extended>, b: &IntegerLaw<Extended>) -> Option<IntegerLaw<Extended>> {
    if b.masses.len() > a.masses.len() {
        return convolve(b, a);
    }
    let length = (a.masses.len() + b.masses.len()).saturating_sub(1);
    if length as u64 > MAX_VALUES {
        return None;
    }
    let mut law = IntegerLaw {
        first: a.first.checked_add(b.first)?,
        masses: Vec::new(),
        left_out: (a.left_out + b.left_out + a.left_out * b.left_out) * (1.0 + 1e-9),
        rounding: a.rounding + b.rounding + a.rounding * b.rounding,
    };
    let mut noise = 0.0;
    let (many, few) = (a.positive().count(), b.positive().count());
    if (many * few) as u64 <= MAX_EXTENDED {
        law.masses = vec![Extended::ZERO; length];
        for (j, weight) in b.positive() {
            checkpoint();
            for (i, mass) in a.positive() {
                law.masses[i + j] = law.masses[i + j] + weight * mass;
            }
        }
        law.rounding += (many.min(few) + 1) as f64 * Extended::UNIT;
    } else {
        let plain = |law: &IntegerLaw<Extended>| law.masses.iter().map(|mass| mass.to_f64()).collect::<Vec<f64>>();
        let (long, short) = (plain(a), plain(b));
        let sum = if (many * few) as u64 <= MAX_DIRECT {
            law.rounding += (4 + BLOCK + short.len() / BLOCK) as f64 * f64::UNIT;
            convolve_directly(&long, &short)
        } else {
            let (sum, error) = convolve_by_transform(&long, &short)?;
            law.rounding += 2.0 * f64::UNIT;
            law.left_out += error;
            noise = NOISE * error;
            sum
        };
        law.masses = sum.into_iter().map(Extended::from).collect();
    }
    // Tails below a tenth of the error of a transform are noise.
    law.trim(noise);
    law.clean();
    Some(law)
}

/// Σ of products, by blocks of the shorter law.
fn convolve_directly(long: &[f64], short: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; long.len() + short.len() - 1];
    let mut part = vec![0.0; long.len() + BLOCK - 1];
    for (start, block) in (0..).step_by(BLOCK).zip(short.chunks(BLOCK)) {
        checkpoint();
        part.fill(0.0);
        for (j, &weight) in block.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            add_scaled(&mut part[j..], long, weight);
        }
        add_scaled(&mut sum[start..], &part, 1.0);
    }
    sum
}

/// The convolution by transforms, and the bound of its error in the 1-norm.
fn convolve_by_transform(a: &[f64], b: &[f64]) -> Option<(Vec<f64>, f64)> {
    let length = a.len() + b.len() - 1;
    let size = length.next_power_of_two();
    let (forward, inverse) = (forward(size), inverse(size));
    let mut buffer = forward.make_input_vec();
    let mut spectra = [forward.make_output_vec(), forward.make_output_vec()];
    for (law, spectrum) in [a, b].into_iter().zip(&mut spectra) {
        buffer.fill(0.0);
        buffer[..law.len()].copy_from_slice(law);
        forward.process(&mut buffer, spectrum).ok()?;
    }
    let [mut product, other] = spectra;
    for (value, factor) in product.iter_mut().zip(other) {
        *value *= factor;
    }
    // The ends of a real spectrum are real.
    for end in [0, size / 2] {
        product[end].im = 0.0;
    }
    inverse.process(&mut product, &mut buffer).ok()?;
    let scale = 1.0 / size as f64;
    let sum = buffer[..length].iter().map(|value| (value * scale).max(0.0)).collect();
    let error = convolution_error(a, b, transform_error(size));
    Some((sum, error))
}

/// A bound on the error of a convolution in the 1-norm, by transforms with a relative error of at most η in the 2-norm.
fn convolution_error(a: &[f64], b: &[f64], eta: f64) -> f64 {
    let norm = |law: &[f64]| law.iter().map(|mass| mass * mass).sum::<f64>().sqrt();
    let (of_a, of_b) = (norm(a), norm(b));
    SECOND_ORDER * eta * (of_a + of_b + of_a.min(of_b)) * ((a.len() + b.len() - 1) as f64).sqrt()
}

/// The law of the sum of `times` independent copies; `None` if it is too long.
pub(crate) fn power(law: &IntegerLaw<Extended>, times: u64) -> Option<IntegerLaw<Extended>> {
    let mut law = law.clone();
    law.clean();
    if times == 0 {
        return Some(IntegerLaw::point(0));
    }
    if times == 1 || law.masses.len() <= 1 {
        law.first = law.first.checked_mul(times)?;
        if let [mass] = law.masses[..] {
            law.masses = vec![number_power(mass, times)];
        }
        law.left_out *= times as f64;
        law.rounding = amplified(law.rounding + 2.0 * Extended::UNIT, times);
        return Some(law);
    }
    let values: Vec<(usize, Extended)> = law.positive().collect();
    if let [(_, miss), (gap, hit)] = values[..] {
        return two_values(&law, gap, hit / miss, times);
    }
    if let Some(end) = recurrence_end(&law, &values, times) {
        return recurrence(&law, &values, times, end);
    }
    let half = power(&law, times / 2)?;
    let square = convolve(&half, &half)?;
    if times.is_multiple_of(2) {
        Some(square)
    } else {
        convolve(&square, &law)
    }
}

/// A relative error of every mass of a law, in the `times`-fold power: (1 + error)^times − 1.
fn amplified(error: f64, times: u64) -> f64 {
    (times as f64 * error.ln_1p()).exp_m1()
}

/// The power of a law on `first` and `first + gap`, with probabilities in proportion 1 : `odds`.
///
/// The binomial law sums to 1 and the power of the law to (1 − `left_out`)^T: the difference is counted.
fn two_values(law: &IntegerLaw<Extended>, gap: usize, odds: Extended, times: u64) -> Option<IntegerLaw<Extended>> {
    let hit = odds.to_f64() / (1.0 + odds.to_f64());
    if DEVIATIONS * (times as f64 * hit * (1.0 - hit)).sqrt() > MAX_VALUES as f64 {
        return None;
    }
    let mode = (times as f64 * hit) as u64;
    let counts = log_concave(0, times, mode, |j| {
        odds * Extended::whole(times - j) / Extended::whole(j + 1)
    });
    let length = (counts.masses.len() as u64 - 1).checked_mul(gap as u64)? + 1;
    if length > MAX_VALUES {
        return None;
    }
    let mut masses = vec![Extended::ZERO; length as usize];
    for (sum, mass) in masses.iter_mut().step_by(gap).zip(counts.masses) {
        *sum = mass;
    }
    Some(IntegerLaw {
        first: law.first.checked_mul(times)? + counts.first * gap as u64,
        masses,
        left_out: counts.left_out + 2.0 * times as f64 * law.left_out,
        rounding: counts.rounding + amplified(2.0 * law.rounding + 4.0 * Extended::UNIT, times),
    })
}

/// Where the recurrence may end, as an offset; `None` if it would meet negative terms or take too long.
fn recurrence_end(law: &IntegerLaw<Extended>, values: &[(usize, Extended)], times: u64) -> Option<u64> {
    let whole = (law.masses.len() as u64 - 1).checked_mul(times)?;
    let smallest = values.get(1)?.0 as u64;
    // P(offset > n) ≤ E[e^{θ·offset}]^T e^{−θn}, for the θ with the smallest n.
    let log_tail = NEGLIGIBLE_TAIL.ln();
    let mut end = whole as f64;
    for i in TILTS {
        let theta = (0.25 * f64::from(i)).exp2();
        let excess: f64 = values
            .iter()
            .map(|(k, mass)| (theta * *k as f64).exp_m1() * mass.to_f64())
            .sum();
        end = end.min((times as f64 * excess.ln_1p() - log_tail) / theta + 1.0);
    }
    let end = (end as u64).min(whole);
    let exact = whole <= 1 << 53;
    let positive = end <= smallest.checked_mul(times + 1)?;
    let cheap = end.checked_mul(values.len() as u64)? <= MAX_TERMS;
    (exact && positive && cheap).then_some(end)
}

/// The power recurrence up to offset `end`.
fn recurrence(
    law: &IntegerLaw<Extended>,
    values: &[(usize, Extended)],
    times: u64,
    end: u64,
) -> Option<IntegerLaw<Extended>> {
    let (&(_, base), steps) = values.split_first()?;
    let mut masses = vec![number_power(base, times)];
    for n in 1..=end {
        checkpoint();
        let mut sum = Extended::ZERO;
        for &(k, mass) in steps {
            let k = k as u64;
            if k > n {
                break;
            }
            let before = masses[(n - k) as usize];
            if !before.is_zero() {
                sum = sum + Extended::whole(k * times - (n - k)) * mass * before;
            }
        }
        masses.push(sum / (Extended::whole(n) * base));
    }
    let depth = end as f64 / steps[0].0 as f64;
    let errors = depth * (values.len() + 5) as f64 + 4.0 * times as f64;
    let mut power = IntegerLaw {
        first: law.first.checked_mul(times)?,
        masses,
        left_out: law.left_out * times as f64 * (1.0 + 1e-9) + 1.001 * NEGLIGIBLE_TAIL,
        rounding: amplified(law.rounding, times) + errors * Extended::UNIT,
    };
    power.clean();
    Some(power)
}

#[cfg(test)]
mod tests;
