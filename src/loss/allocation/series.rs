//! Truncated power series: products and powers, with complex coefficients or with bounds on them.
//!
//! Sums of several coefficients grow side by side, row by row, so that processors do several additions at a time ([`super::rows`]).

use crate::loss::allocation::rows::{LANES, Numbers, Parts, Series};
use realfft::num_complex::Complex64;
use std::ops::{Add, Mul};

/// What coefficients must be able to do.
pub(crate) trait Coefficient:
    Copy + From<f64> + Add<Output = Self> + Mul<Output = Self> + Mul<f64, Output = Self>
{
    /// The power of a series whose first coefficient is 1, where the exponent is at least the order.
    fn power_by_recurrence(a: &[Self], exponent: f64) -> Vec<Self> {
        by_recurrence(&a.to_vec(), exponent)
    }

    /// The power where the exponent is smaller, and not 0.
    fn power_by_squares(a: &[Self], exponent: u64) -> Vec<Self> {
        by_squares(a.to_vec(), exponent)
    }
}

impl Coefficient for f64 {
    fn power_by_recurrence(a: &[Self], exponent: f64) -> Vec<Self> {
        vectorized(ByRecurrence(Numbers::new(a), exponent)).into_coefficients()
    }

    fn power_by_squares(a: &[Self], exponent: u64) -> Vec<Self> {
        vectorized(BySquares(Numbers::new(a), exponent)).into_coefficients()
    }
}

impl Coefficient for Complex64 {
    fn power_by_recurrence(a: &[Self], exponent: f64) -> Vec<Self> {
        vectorized(ByRecurrence(Parts::new(a), exponent)).into_coefficients()
    }

    fn power_by_squares(a: &[Self], exponent: u64) -> Vec<Self> {
        vectorized(BySquares(Parts::new(a), exponent)).into_coefficients()
    }
}

/// A computation that `pulp` compiles for several instruction sets: a power by Miller's recurrence.
struct ByRecurrence<S>(S, f64);

impl<S: Series> pulp::NullaryFnOnce for ByRecurrence<S> {
    type Output = S;

    #[inline(always)]
    fn call(self) -> S {
        by_recurrence(&self.0, self.1)
    }
}

/// A power by squares, as [`ByRecurrence`].
struct BySquares<S>(S, u64);

impl<S: Series> pulp::NullaryFnOnce for BySquares<S> {
    type Output = S;

    #[inline(always)]
    fn call(self) -> S {
        by_squares(self.0, self.1)
    }
}

/// Factors of a power, as [`ByRecurrence`].
struct Factors<S>(S, u64);

impl<S: Series> pulp::NullaryFnOnce for Factors<S> {
    type Output = (S, Option<S>);

    #[inline(always)]
    fn call(self) -> (S, Option<S>) {
        factors(self.0, self.1)
    }
}

/// What a computation returns on the widest vectors of this machine.
fn vectorized<T>(computation: impl pulp::NullaryFnOnce<Output = T>) -> T {
    pulp::Arch::new().dispatch(computation)
}

impl<T: Coefficient> Series for Vec<T> {
    type Item = T;

    fn zero(length: usize) -> Self {
        vec![T::from(0.0); length]
    }

    fn length(&self) -> usize {
        self.len()
    }

    fn at(&self, i: usize) -> T {
        self[i]
    }

    fn set(&mut self, i: usize, value: T) {
        self[i] = value;
    }

    fn add_multiple(&mut self, to: usize, factor: T, other: &Self, from: usize) {
        add_multiple(&mut self[to..], factor, &other[from..]);
    }

    fn add_later(&mut self, a: &Self, multiples: &[f64], j: usize) {
        let p = self[j];
        for ((sum, &a), multiple) in self[j + 1..].iter_mut().zip(&a[1..]).zip(multiples) {
            *sum = *sum + a * (multiple - j as f64) * p;
        }
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

/// Adds a multiple of each coefficient to a sum.
fn add_multiple<T: Coefficient>(sums: &mut [T], factor: T, others: &[T]) {
    for (sum, &other) in sums.iter_mut().zip(others) {
        *sum = *sum + factor * other;
    }
}

/// The power of a series whose first coefficient is 1.
///
/// J. C. P. Miller's recurrence k·p_k = Σ_i (iN − k + i)·a_i·p_{k−i} has no negative factor where N is at least the order, so that
/// errors stay small relative to the power of the series of moduli. Smaller exponents are whole, and multiplied out. Each p_j is added to all
/// later sums at once, with the factor iN − j to the one of p_{j+i}.
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

/// The last coefficient of [`power`]. Where the power is multiplied out, the last product is computed for this coefficient alone.
pub(crate) fn last_of_power(a: &[Complex64], exponent: f64) -> Complex64 {
    let order = a.len().saturating_sub(1);
    if exponent >= order as f64 || exponent < 2.0 {
        return power(a, exponent)[order];
    }
    let (one, other) = vectorized(Factors(Parts::new(a), exponent as u64));
    one.last_of_product(other.as_ref().unwrap_or(&one))
}

#[inline(always)]
fn by_recurrence<S: Series>(a: &S, exponent: f64) -> S {
    let multiples: Vec<f64> = (1..a.length() + LANES).map(|i| i as f64 * exponent).collect();
    let mut sums = S::zero(a.length());
    sums.set(0, S::Item::from(1.0));
    for j in 1..a.length() {
        sums.add_later(a, &multiples, j - 1);
        sums.set(j, sums.at(j) * (1.0 / j as f64));
    }
    sums
}

/// The power with a whole exponent from 1 on, by squaring and multiplying.
#[inline(always)]
fn by_squares<S: Series>(series: S, exponent: u64) -> S {
    if exponent == 1 {
        return series;
    }
    match factors(series, exponent) {
        (one, None) => one.square(),
        (one, Some(other)) => one.product(&other),
    }
}

/// Two series whose product is the power with a whole exponent from 2 on; one where they are the same.
#[inline(always)]
fn factors<S: Series>(series: S, mut exponent: u64) -> (S, Option<S>) {
    let mut repeated = series;
    while exponent > 2 && exponent & 1 == 0 {
        repeated = repeated.square();
        exponent >>= 1;
    }
    if exponent == 2 {
        return (repeated, None);
    }
    let mut found = repeated.clone();
    loop {
        repeated = repeated.square();
        exponent >>= 1;
        if exponent == 1 {
            return (found, Some(repeated));
        }
        if exponent & 1 == 1 {
            found = found.product(&repeated);
        }
    }
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
            assert_eq!(Numbers::new(&real).square().into_coefficients(), real.square());
            let complex: Vec<Complex64> = real.iter().map(|&x| Complex64::new(x, 0.5 * x + 1.0)).collect();
            let parts = Parts::new(&complex);
            assert_eq!(complex.square(), product(&complex, &complex));
            assert_eq!(parts.square().into_coefficients(), complex.square());
            assert_eq!(parts.product(&parts).into_coefficients(), complex.square());
        }
        assert_eq!(power(&[1.0, 3.0, 2.0], 0.0), [1.0, 0.0, 0.0]);
        let line = [1.0, 3.0, 2.0].map(Complex64::from);
        assert_eq!([0.0, 1.0].map(|exponent| last_of_power(&line, exponent).re), [0.0, 2.0]);
    }

    /// Powers of complex series, above and below the order, are repeated products, and so are their last coefficients.
    #[test]
    fn powers_of_complex_series_are_repeated_products() {
        let a: Vec<Complex64> = (0..24)
            .map(|k| Complex64::from_polar(1.0 / f64::from(1 + k * k), 0.7 * f64::from(k)))
            .collect();
        let mut repeated = a.clone();
        for exponent in 2..40 {
            repeated = product(&repeated, &a);
            let bounds = power(&a.iter().map(|c| c.norm()).collect::<Vec<f64>>(), f64::from(exponent));
            for ((found, exact), bound) in power(&a, f64::from(exponent)).iter().zip(&repeated).zip(&bounds) {
                assert!((found - exact).norm() <= 1e-13 * bound, "{exponent}: {found} {exact}");
            }
            let (last, exact) = (last_of_power(&a, f64::from(exponent)), repeated[a.len() - 1]);
            assert!(
                (last - exact).norm() <= 1e-13 * bounds[a.len() - 1],
                "{exponent}: {last} {exact}"
            );
        }
    }
}
