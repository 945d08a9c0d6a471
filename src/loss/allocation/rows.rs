//! Real and complex coefficients of series in rows of whole vectors.
//!
//! Each row is padded, so that every end of it can be processed in whole vectors: rows have only some thirty numbers, of which those after the
//! last whole vector would take most of the time. The padding may hold anything, and never reaches a coefficient. Real and imaginary parts are
//! rows of their own.

use realfft::num_complex::Complex64;
use std::ops::{Add, Mul};

/// Numbers of one vector. Rows are padded by one less.
pub(super) const LANES: usize = 4;

/// A series that can be multiplied.
pub(super) trait Series: Clone {
    type Item: Copy
        + From<f64>
        + Add<Output = Self::Item>
        + Mul<Output = Self::Item>
        + Mul<f64, Output = Self::Item>;

    fn zero(length: usize) -> Self;
    fn length(&self) -> usize;
    fn at(&self, i: usize) -> Self::Item;
    fn set(&mut self, i: usize, value: Self::Item);
    /// Adds `factor` times the coefficients of `other` from `from` on to those from `to` on. `from` is at most `to`, so that there are enough.
    fn add_multiple(&mut self, to: usize, factor: Self::Item, other: &Self, from: usize);
    /// One row of Miller's recurrence: adds (iN − j)·a_i·p_j for the j-th coefficient p_j to that of order j + i, i = 1, 2, …
    fn add_later(&mut self, a: &Self, multiples: &[f64], j: usize);

    #[inline(always)]
    fn product(&self, other: &Self) -> Self {
        let mut found = Self::zero(self.length());
        for i in 0..self.length() {
            found.add_multiple(i, self.at(i), other, 0);
        }
        found
    }

    /// Each product of two different coefficients is computed once and doubled, which is exact.
    #[inline(always)]
    fn square(&self) -> Self {
        let mut found = Self::zero(self.length());
        for i in 0..self.length().div_ceil(2) {
            let own = self.at(i);
            found.set(2 * i, found.at(2 * i) + own * own);
            found.add_multiple(2 * i + 1, own + own, self, i + 1);
        }
        found
    }
}

/// Real coefficients, and room for the rest of a vector. What stands in that room has no meaning.
#[derive(Debug, Clone)]
pub(super) struct Numbers(Vec<f64>);

impl Numbers {
    pub(super) fn new(a: &[f64]) -> Self {
        let mut padded = Vec::with_capacity(a.len() + LANES - 1);
        padded.extend_from_slice(a);
        padded.resize(a.len() + LANES - 1, 0.0);
        Self(padded)
    }

    pub(super) fn into_coefficients(mut self) -> Vec<f64> {
        self.0.truncate(self.length());
        self.0
    }
}

impl Series for Numbers {
    type Item = f64;

    #[inline(always)]
    fn zero(length: usize) -> Self {
        Self(vec![0.0; length + LANES - 1])
    }

    #[inline(always)]
    fn length(&self) -> usize {
        self.0.len() - (LANES - 1)
    }

    #[inline(always)]
    fn at(&self, i: usize) -> f64 {
        self.0[i]
    }

    #[inline(always)]
    fn set(&mut self, i: usize, value: f64) {
        self.0[i] = value;
    }

    #[inline(always)]
    fn add_multiple(&mut self, to: usize, factor: f64, other: &Self, from: usize) {
        let sums = vectors_mut(&mut self.0[to..]);
        let others = &vectors(&other.0[from..])[..sums.len()];
        for k in 0..sums.len() {
            let (old, other) = (sums[k], others[k]);
            for i in 0..LANES {
                sums[k][i] = old[i] + factor * other[i];
            }
        }
    }

    #[inline(always)]
    fn add_later(&mut self, a: &Self, multiples: &[f64], j: usize) {
        let p = self.0[j];
        let sums = vectors_mut(&mut self.0[j + 1..]);
        let (a, multiples) = (&vectors(&a.0[1..])[..sums.len()], &vectors(multiples)[..sums.len()]);
        for k in 0..sums.len() {
            let (old, a, multiple) = (sums[k], a[k], multiples[k]);
            for i in 0..LANES {
                sums[k][i] = old[i] + a[i] * (multiple[i] - j as f64) * p;
            }
        }
    }
}

/// Complex coefficients, their real and imaginary parts apart.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    re: Numbers,
    im: Numbers,
}

impl Parts {
    pub(super) fn new(a: &[Complex64]) -> Self {
        let (re, im): (Vec<f64>, Vec<f64>) = a.iter().map(|a| (a.re, a.im)).unzip();
        Self {
            re: Numbers::new(&re),
            im: Numbers::new(&im),
        }
    }

    pub(super) fn last_of_product(&self, other: &Self) -> Complex64 {
        let last = self.length() - 1;
        (0..=last).map(|i| self.at(i) * other.at(last - i)).sum()
    }

    pub(super) fn into_coefficients(self) -> Vec<Complex64> {
        let parts = self.re.into_coefficients().into_iter().zip(self.im.0);
        parts.map(|(re, im)| Complex64::new(re, im)).collect()
    }

    /// `count` vectors of the real and of the imaginary parts, from the coefficient `from` on.
    #[inline(always)]
    fn vectors(&self, from: usize, count: usize) -> (&[[f64; LANES]], &[[f64; LANES]]) {
        let (re, im) = (vectors(&self.re.0[from..]), vectors(&self.im.0[from..]));
        (&re[..count], &im[..count])
    }

    /// Vectors of the real and the imaginary parts from `from` on, to be changed.
    #[inline(always)]
    fn vectors_mut(&mut self, from: usize) -> (&mut [[f64; LANES]], &mut [[f64; LANES]]) {
        let (re, im) = (vectors_mut(&mut self.re.0[from..]), vectors_mut(&mut self.im.0[from..]));
        let count = re.len();
        (re, &mut im[..count])
    }
}

impl Series for Parts {
    type Item = Complex64;

    #[inline(always)]
    fn zero(length: usize) -> Self {
        Self {
            re: Numbers::zero(length),
            im: Numbers::zero(length),
        }
    }

    #[inline(always)]
    fn length(&self) -> usize {
        self.re.length()
    }

    #[inline(always)]
    fn at(&self, i: usize) -> Complex64 {
        Complex64::new(self.re.at(i), self.im.at(i))
    }

    #[inline(always)]
    fn set(&mut self, i: usize, value: Complex64) {
        self.re.set(i, value.re);
        self.im.set(i, value.im);
    }

    #[inline(always)]
    fn add_multiple(&mut self, to: usize, factor: Complex64, other: &Self, from: usize) {
        let (real, imaginary) = self.vectors_mut(to);
        let (re, im) = other.vectors(from, real.len());
        for k in 0..real.len() {
            // All of the old numbers are read before a new one is written: compilers need not ask whether rows overlap.
            let (old_re, old_im, re, im) = (real[k], imaginary[k], re[k], im[k]);
            for i in 0..LANES {
                real[k][i] = old_re[i] + (factor.re * re[i] - factor.im * im[i]);
            }
            for i in 0..LANES {
                imaginary[k][i] = old_im[i] + (factor.im * re[i] + factor.re * im[i]);
            }
        }
    }

    #[inline(always)]
    fn add_later(&mut self, a: &Self, multiples: &[f64], j: usize) {
        let p = self.at(j);
        let (real, imaginary) = self.vectors_mut(j + 1);
        let ((re, im), multiples) = (a.vectors(1, real.len()), vectors(multiples));
        for k in 0..real.len() {
            let (old_re, old_im, re, im, multiple) = (real[k], imaginary[k], re[k], im[k], multiples[k]);
            let (mut scaled_re, mut scaled_im) = ([0.0; LANES], [0.0; LANES]);
            for i in 0..LANES {
                let factor = multiple[i] - j as f64;
                (scaled_re[i], scaled_im[i]) = (factor * re[i], factor * im[i]);
            }
            for i in 0..LANES {
                real[k][i] = old_re[i] + (scaled_re[i] * p.re - scaled_im[i] * p.im);
            }
            for i in 0..LANES {
                imaginary[k][i] = old_im[i] + (scaled_re[i] * p.im + scaled_im[i] * p.re);
            }
        }
    }
}

#[inline(always)]
fn vectors(row: &[f64]) -> &[[f64; LANES]] {
    row.as_chunks().0
}

#[inline(always)]
fn vectors_mut(row: &mut [f64]) -> &mut [[f64; LANES]] {
    row.as_chunks_mut().0
}
