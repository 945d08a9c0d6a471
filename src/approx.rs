//! A computed number with a bound on its error.
//!
//! Quadrature, truncation and rounding leave most numbers of this crate a little off. [`Approx`] keeps such a number together
//! with the bound, so that neither is passed on without the other. The number is real, or complex where it is a value of a
//! characteristic function. An interval ([`Interval`](crate::Interval), [`Enclosure`](crate::Enclosure)) says the same of an
//! answer; this type is for what answers are computed from, where the value itself is needed and the error is small.

use std::ops::{Add, AddAssign, Sub};

/// A number that is within `error` of the true one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Approx<T = f64> {
    /// The computed value.
    pub value: T,
    /// Bound on the absolute value of the difference between `value` and the truth; infinite where nothing is known.
    pub error: f64,
}

impl<T> Approx<T> {
    /// `value`, which is within `error` of the truth.
    pub(crate) const fn new(value: T, error: f64) -> Self {
        Self { value, error }
    }

    /// A number without an error.
    pub(crate) const fn exact(value: T) -> Self {
        Self::new(value, 0.0)
    }
}

impl Approx {
    /// An upper bound on the true number, but for the rounding of this sum.
    pub(crate) fn upper(self) -> f64 {
        self.value + self.error
    }

    /// A lower bound on the true number, but for the rounding of this difference.
    pub(crate) fn lower(self) -> f64 {
        self.value - self.error
    }

    /// The number times an exact `factor` that is not negative. The error grows by the factor and by what the product is rounded.
    #[must_use]
    pub(crate) fn times(self, factor: f64) -> Self {
        Self::new(
            factor * self.value,
            factor * (self.error + f64::EPSILON * self.value.abs()),
        )
    }
}

/// Errors add up; the rounding of the sum itself is not counted, as the callers count theirs together.
impl<T: Add<Output = T>> Add for Approx<T> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.value + other.value, self.error + other.error)
    }
}

/// Errors add up, as in a sum.
impl<T: Sub<Output = T>> Sub for Approx<T> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::new(self.value - other.value, self.error + other.error)
    }
}

impl<T: Copy + Add<Output = T>> AddAssign for Approx<T> {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use realfft::num_complex::Complex64;

    #[test]
    fn errors_add_up_in_sums_and_differences() {
        let (a, b) = (Approx::new(3.0, 0.25), Approx::new(1.0, 0.5));
        assert_eq!(a + b, Approx::new(4.0, 0.75));
        assert_eq!(a - b, Approx::new(2.0, 0.75));
        // Both bounds are attained where both numbers are off by all of their errors.
        assert_eq!(((a - b).lower(), (a - b).upper()), (2.75 - 1.5, 3.25 - 0.5));
        let i = Complex64::new(0.0, 1.0);
        let mut sum = Approx::exact(Complex64::new(3.0, 3.0));
        sum += Approx::new(i, 0.125);
        assert_eq!((sum.value.norm(), sum.error), (5.0, 0.125));
    }

    #[test]
    fn a_product_counts_its_rounding() {
        let third = Approx::exact(1.0 / 3.0);
        let product = third.times(3.0e15);
        // The product of the two numbers at twice the precision.
        let exact = 3.0e15f64.mul_add(third.value, -product.value);
        assert!(
            exact.abs() <= product.error && product.error <= 1.0,
            "{exact} {product:?}"
        );
    }
}
