//! Truncated power series: products and powers, with complex coefficients or with bounds on them.
//!
//! Sums of several coefficients grow side by side, row by row, and real and imaginary parts are rows of their own: then processors do
//! several additions at a time.

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

    /// The power where the exponent is smaller, and not 0.
    fn power_by_squares(a: &[Self], exponent: u64) -> Vec<Self> {
        by_squares(a.to_vec(), exponent)
    }
}

/// A series that can be multiplied.
trait Series: Clone {
    fn product(&self, other: &Self) -> Self;
    /// Each product of two different coefficients is computed once and doubled, which is exact.
    fn square(&self) -> Self;
}

impl<T: Coefficient> Series for Vec<T> {
    fn product(&self, other: &Self) -> Self {
        product(self, other)
    }

    fn square(&self) -> Self {
        let mut found = vec![T::from(0.0); self.len()];
        for i in 0..self.len().div_ceil(2) {
            let twice = self[i] + self[i];
            found[2 * i] = found[2 * i] + self[i] * self[i];
            add_multiple(&mut found[2 * i + 1..], twice, &self[i + 1..]);
        }
        found
    }
}

/// Complex coefficients, their real and imaginary parts apart.
#[derive(Debug, Clone)]
struct Parts {
    re: Vec<f64>,
    im: Vec<f64>,
}

impl Parts {
    fn new(a: &[Complex64]) -> Self {
        let (re, im) = a.iter().map(|a| (a.re, a.im)).unzip();
        Self { re, im }
    }

    fn zero(length: usize) -> Self {
        Self {
            re: vec![0.0; length],
            im: vec![0.0; length],
        }
    }

    fn at(&self, i: usize) -> Complex64 {
        Complex64::new(self.re[i], self.im[i])
    }

    fn add(&mut self, i: usize, value: Complex64) {
        self.re[i] += value.re;
        self.im[i] += value.im;
    }

    /// Adds `factor` times the coefficients of `other` from `from` on to those from `to` on.
    fn add_multiple(&mut self, to: usize, factor: Complex64, other: &Self, from: usize) {
        let (re, im) = (&other.re[from..], &other.im[from..]);
        add_two_multiples(&mut self.re[to..], (factor.re, re), (-factor.im, im));
        add_two_multiples(&mut self.im[to..], (factor.im, re), (factor.re, im));
    }

    fn into_coefficients(self) -> Vec<Complex64> {
        let parts = self.re.into_iter().zip(self.im);
        parts.map(|(re, im)| Complex64::new(re, im)).collect()
    }
}

impl Series for Parts {
    fn product(&self, other: &Self) -> Self {
        let mut found = Self::zero(self.re.len());
        for i in 0..self.re.len() {
            found.add_multiple(i, self.at(i), other, 0);
        }
        found
    }

    fn square(&self) -> Self {
        let mut found = Self::zero(self.re.len());
        for i in 0..self.re.len().div_ceil(2) {
            let factor = self.at(i);
            found.add(2 * i, factor * factor);
            found.add_multiple(2 * i + 1, factor + factor, self, i + 1);
        }
        found
    }
}

impl Coefficient for f64 {}

impl Coefficient for Complex64 {
    fn power_by_recurrence(a: &[Complex64], exponent: f64) -> Vec<Complex64> {
        let multiples = multiples(a.len(), exponent);
        let later = Parts::new(&a[1..]);
        let mut sums = Parts::zero(a.len());
        sums.re[0] = 1.0;
        for j in 0..multiples.len() {
            let p = sums.at(j);
            let rows = (&mut sums.re[j + 1..], &mut sums.im[j + 1..]);
            add_later_parts(rows, (&later.re, &later.im), &multiples, (p, j as f64));
            let next = 1.0 / (j + 1) as f64;
            sums.re[j + 1] *= next;
            sums.im[j + 1] *= next;
        }
        sums.into_coefficients()
    }

    fn power_by_squares(a: &[Complex64], exponent: u64) -> Vec<Complex64> {
        by_squares(Parts::new(a), exponent).into_coefficients()
    }
}

/// iN for i from 1 to the order of a series of this length.
fn multiples(length: usize, exponent: f64) -> Vec<f64> {
    (1..length).map(|i| i as f64 * exponent).collect()
}

// Rows are arguments of functions of their own, so that compilers know that they do not overlap.

/// One row of Miller's recurrence: adds (iN − j)·a_i·p_j to the i-th of these sums, i = 1, 2, …
#[inline(never)]
fn add_later<T: Coefficient>(sums: &mut [T], a: &[T], multiples: &[f64], (p, j): (T, f64)) {
    for ((sum, &a), multiple) in sums.iter_mut().zip(a).zip(multiples) {
        *sum = *sum + a * (multiple - j) * p;
    }
}

/// One row of Miller's recurrence where a_i, p_j and the sums are complex, given by their real and imaginary parts.
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

/// Adds a multiple of each coefficient to a sum.
#[inline(never)]
fn add_multiple<T: Coefficient>(sums: &mut [T], factor: T, others: &[T]) {
    for (sum, &other) in sums.iter_mut().zip(others) {
        *sum = *sum + factor * other;
    }
}

/// Adds multiples of two coefficients to each sum: of real and imaginary parts, for a complex factor.
#[inline(never)]
fn add_two_multiples(sums: &mut [f64], first: (f64, &[f64]), second: (f64, &[f64])) {
    for ((sum, one), two) in sums.iter_mut().zip(first.1).zip(second.1) {
        *sum += first.0 * one + second.0 * two;
    }
}

/// The product of two series, as long as the first.
pub(crate) fn product<T: Coefficient>(a: &[T], b: &[T]) -> Vec<T> {
    let mut found = vec![T::from(0.0); a.len()];
    for (i, &factor) in a.iter().enumerate() {
        add_multiple(&mut found[i..], factor, b);
    }
    found
}

/// The power of a series whose first coefficient is 1.
///
/// J. C. P. Miller's recurrence k·p_k = Σ_i (iN − k + i)·a_i·p_{k−i} has no negative factor where N is at least the order, so that
/// errors do not grow; smaller powers are multiplied out. Each p_j is added to all later sums at once, with the factor iN − j to the one
/// of p_{j+i}.
pub(crate) fn power<T: Coefficient>(a: &[T], exponent: f64) -> Vec<T> {
    let order = a.len().saturating_sub(1);
    if exponent >= order as f64 {
        return T::power_by_recurrence(a, exponent);
    }
    if exponent < 1.0 {
        return (0..a.len()).map(|k| T::from(if k == 0 { 1.0 } else { 0.0 })).collect();
    }
    T::power_by_squares(a, exponent as u64)
}

/// The power with a whole exponent from 1 on, by squaring and multiplying.
fn by_squares<S: Series>(series: S, mut exponent: u64) -> S {
    let mut repeated = series;
    while exponent & 1 == 0 && exponent > 0 {
        repeated = repeated.square();
        exponent >>= 1;
    }
    let mut found = repeated.clone();
    while exponent > 1 {
        repeated = repeated.square();
        exponent >>= 1;
        if exponent & 1 == 1 {
            found = found.product(&repeated);
        }
    }
    found
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
            assert_eq!(real.square(), product(&real, &real));
            let complex: Vec<Complex64> = real.iter().map(|&x| Complex64::new(x, 0.5 * x + 1.0)).collect();
            let parts = Parts::new(&complex);
            assert_eq!(complex.square(), product(&complex, &complex));
            assert_eq!(parts.square().into_coefficients(), complex.square());
            assert_eq!(parts.product(&parts).into_coefficients(), complex.square());
        }
        assert_eq!(power(&[1.0, 3.0, 2.0], 0.0), [1.0, 0.0, 0.0]);
    }

    /// Powers of complex series, above and below the order, are repeated products.
    #[test]
    fn powers_of_complex_series_are_repeated_products() {
        let a: Vec<Complex64> = (0..24)
            .map(|k| Complex64::from_polar(1.0 / f64::from(1 + k * k), 0.7 * f64::from(k)))
            .collect();
        let mut repeated = a.clone();
        for exponent in 2..40 {
            repeated = product(&repeated, &a);
            let bound = power(&a.iter().map(|c| c.norm()).collect::<Vec<f64>>(), f64::from(exponent));
            for ((found, exact), bound) in power(&a, f64::from(exponent)).iter().zip(&repeated).zip(bound) {
                assert!((found - exact).norm() <= 1e-13 * bound, "{exponent}: {found} {exact}");
            }
        }
    }
}
