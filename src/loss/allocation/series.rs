//! Truncated power series: products and powers, with complex coefficients or with bounds on them.

use realfft::num_complex::Complex64;
use std::ops::{Add, Mul};

/// What coefficients must be able to do.
pub(crate) trait Coefficient:
    Copy + From<f64> + Add<Output = Self> + Mul<Output = Self> + Mul<f64, Output = Self>
{
    /// The power of a series whose first coefficient is 1, where the exponent is at least the order.
    fn power_by_recurrence(a: &[Self], exponent: f64) -> Vec<Self> {
        let multiples = multiples(a.len(), exponent);
        let mut sums = vec![Self::from(0.0); a.len()];
        sums[0] = Self::from(1.0);
        for j in 0..multiples.len() {
            let (found, later) = sums[j..].split_at_mut(1);
            add_later(later, &a[1..], &multiples, (found[0], j as f64));
            later[0] = later[0] * (1.0 / (j + 1) as f64);
        }
        sums
    }
}

/// iN for i from 1 to the order of a series of this length.
fn multiples(length: usize, exponent: f64) -> Vec<f64> {
    (1..length).map(|i| i as f64 * exponent).collect()
}

/// Adds (iN − j)·a_i·p_j to each sum. A function of its own, so that compilers know that the rows do not overlap.
#[inline(never)]
fn add_later<T: Coefficient>(sums: &mut [T], a: &[T], multiples: &[f64], (p, j): (T, f64)) {
    for ((sum, &a), multiple) in sums.iter_mut().zip(a).zip(multiples) {
        *sum = *sum + a * (multiple - j) * p;
    }
}

/// The same with real and imaginary parts in rows of their own.
#[inline(never)]
fn add_later_parts(
    (reals, imaginaries): (&mut [f64], &mut [f64]),
    (re, im): (&[f64], &[f64]),
    multiples: &[f64],
    (p, j): (Complex64, f64),
) {
    let sums = reals.iter_mut().zip(imaginaries);
    for (((real, imaginary), multiple), (re, im)) in sums.zip(multiples).zip(re.iter().zip(im)) {
        let factor = multiple - j;
        let (re, im) = (factor * re, factor * im);
        *real += re * p.re - im * p.im;
        *imaginary += re * p.im + im * p.re;
    }
}

impl Coefficient for f64 {}

impl Coefficient for Complex64 {
    fn power_by_recurrence(a: &[Complex64], exponent: f64) -> Vec<Complex64> {
        let multiples = multiples(a.len(), exponent);
        let (re, im): (Vec<f64>, Vec<f64>) = a[1..].iter().map(|a| (a.re, a.im)).unzip();
        let (mut reals, mut imaginaries) = (vec![0.0; a.len()], vec![0.0; a.len()]);
        reals[0] = 1.0;
        for j in 0..multiples.len() {
            let p = Complex64::new(reals[j], imaginaries[j]);
            let later = (&mut reals[j + 1..], &mut imaginaries[j + 1..]);
            add_later_parts(later, (&re, &im), &multiples, (p, j as f64));
            let next = 1.0 / (j + 1) as f64;
            reals[j + 1] *= next;
            imaginaries[j + 1] *= next;
        }
        let parts = reals.into_iter().zip(imaginaries);
        parts.map(|(re, im)| Complex64::new(re, im)).collect()
    }
}

/// The product of two series, as long as the first.
///
/// Row by row, so that the sums of several coefficients grow side by side.
pub(crate) fn product<T: Coefficient>(a: &[T], b: &[T]) -> Vec<T> {
    let mut found = vec![T::from(0.0); a.len()];
    for (i, &factor) in a.iter().enumerate() {
        for (sum, &other) in found[i..].iter_mut().zip(b) {
            *sum = *sum + factor * other;
        }
    }
    found
}

/// The square of a series: each product of two different coefficients is computed once and doubled, which is exact.
fn square<T: Coefficient>(a: &[T]) -> Vec<T> {
    let mut found = vec![T::from(0.0); a.len()];
    for (i, &factor) in a.iter().enumerate().take(a.len().div_ceil(2)) {
        let twice = factor + factor;
        let (first, rest) = found[2 * i..].split_at_mut(1);
        first[0] = first[0] + factor * factor;
        for (sum, &other) in rest.iter_mut().zip(&a[i + 1..]) {
            *sum = *sum + twice * other;
        }
    }
    found
}

/// The power of a series whose first coefficient is 1.
///
/// J. C. P. Miller's recurrence k·p_k = Σ_i (iN − k + i)·a_i·p_{k−i} has no negative factor where N is at least the order, so that
/// errors do not grow; smaller powers are multiplied out. Each p_j is added to all later sums at once, with the factor iN − j to the one
/// of p_{j+i}: these additions are independent of each other, and processors do several at a time.
pub(crate) fn power<T: Coefficient>(a: &[T], exponent: f64) -> Vec<T> {
    let order = a.len().saturating_sub(1);
    if exponent < order as f64 {
        return small_power(a, exponent as u64);
    }
    T::power_by_recurrence(a, exponent)
}

/// By squaring and multiplying.
fn small_power<T: Coefficient>(a: &[T], mut exponent: u64) -> Vec<T> {
    let mut found: Option<Vec<T>> = None;
    let mut repeated = a.to_vec();
    while exponent > 0 {
        if exponent & 1 == 1 {
            found = Some(match found {
                Some(found) => product(&found, &repeated),
                None => repeated.clone(),
            });
        }
        exponent >>= 1;
        if exponent > 0 {
            repeated = square(&repeated);
        }
    }
    found.unwrap_or_else(|| (0..a.len()).map(|k| T::from(if k == 0 { 1.0 } else { 0.0 })).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (1 + x)^N has binomial coefficients, (e^x)^N those of e^{Nx}.
    #[test]
    fn powers_are_those_of_closed_forms() {
        for exponent in [1.0, 3.0, 7.0, 50.0, 1e4] {
            let mut binomial = vec![1.0; 9];
            let mut exponential = vec![1.0; 9];
            let (mut line, mut growth) = (vec![0.0; 9], vec![1.0; 9]);
            (line[0], line[1]) = (1.0, 1.0);
            for k in 1..9 {
                let j = k as f64;
                binomial[k] = binomial[k - 1] * (exponent - j + 1.0).max(0.0) / j;
                exponential[k] = exponential[k - 1] * exponent / j;
                growth[k] = growth[k - 1] / j;
            }
            for (found, exact) in [
                (power(&line, exponent), binomial),
                (power(&growth, exponent), exponential),
            ] {
                for (a, b) in found.iter().zip(&exact) {
                    assert!((a - b).abs() <= 1e-13 * b.abs(), "{exponent}: {a} {b}");
                }
            }
        }
    }

    /// Squares are those of the product, of an even and an odd number of coefficients, real and complex.
    #[test]
    fn squares_are_products_with_themselves() {
        for length in 1..10 {
            let real: Vec<f64> = (0..length).map(|k| f64::from(k * k) - 2.5).collect();
            assert_eq!(square(&real), product(&real, &real));
            let complex: Vec<Complex64> = real.iter().map(|&x| Complex64::new(x, 0.5 * x + 1.0)).collect();
            assert_eq!(square(&complex), product(&complex, &complex));
        }
        assert_eq!(power(&[1.0, 3.0, 2.0], 0.0), [1.0, 0.0, 0.0]);
    }
}
