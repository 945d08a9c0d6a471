//! Positive numbers with 106 significant bits and an exponent that does not run out.
//!
//! Group laws multiply up to 10,000 probabilities: the products underflow an `f64` (0.01^10000) and,
//! one rounding a factor, lose four digits. A double-double significand with a separate exponent does
//! neither; a chain of n operations has relative error below n·2^-102.

use std::f64::consts::{LN_2, SQRT_2};

/// A non-negative number `(high + low)·2^exponent`, with `high` in [1, 2) unless the number is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extended {
    high: f64,
    low: f64,
    exponent: i64,
}

/// `a + b` exactly, as a rounded sum and its error (Knuth).
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// `a · b` exactly, as a rounded product and its error.
pub(crate) fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

impl Extended {
    /// The number 0.
    pub(crate) const ZERO: Self = Self {
        high: 0.0,
        low: 0.0,
        exponent: 0,
    };
    /// The number 1.
    pub(crate) const ONE: Self = Self {
        high: 1.0,
        low: 0.0,
        exponent: 0,
    };

    /// `high + low` for a finite non-negative `high` and a `low` that does not overlap it.
    fn new(high: f64, low: f64, exponent: i64) -> Self {
        if high == 0.0 {
            return Self::ZERO;
        }
        let (fraction, shift) = libm::frexp(high); // fraction in [1/2, 1)
        let scale = 1 - shift;
        Self {
            high: 2.0 * fraction,
            low: libm::scalbn(low, scale),
            exponent: exponent + i64::from(shift) - 1,
        }
    }

    /// `high + low` for `high` in [1/2, 4): what products, quotients and sums of normalised numbers give.
    fn nearly_normalised(high: f64, low: f64, exponent: i64) -> Self {
        let (factor, shift) = if high >= 2.0 {
            (0.5, 1)
        } else if high < 1.0 {
            (2.0, -1)
        } else {
            (1.0, 0)
        };
        Self {
            high: high * factor,
            low: low * factor,
            exponent: exponent + shift,
        }
    }

    /// 1 − p without rounding, for p in [0, 1].
    pub(crate) fn one_minus(p: f64) -> Self {
        let (high, low) = two_sum(1.0, -p);
        Self::new(high, low, 0)
    }

    /// True for 0.
    pub(crate) fn is_zero(self) -> bool {
        self.high == 0.0
    }

    /// The significand times a plain number, unnormalised.
    fn scaled_by(self, factor: f64) -> (f64, f64) {
        let (high, error) = two_product(self.high, factor);
        two_sum(high, self.low.mul_add(factor, error))
    }

    /// Natural logarithm, correctly rounded but for the last bit; −∞ for 0.
    pub(crate) fn ln(self) -> f64 {
        if self.is_zero() {
            return f64::NEG_INFINITY;
        }
        // Move the significand to [1/√2, √2) so that numbers just below 1 do not cancel.
        let (high, low, exponent) = if self.high > SQRT_2 {
            (self.high / 2.0, self.low / 2.0, self.exponent + 1)
        } else {
            (self.high, self.low, self.exponent)
        };
        // ln(high + low) = ln(1 + ((high − 1) + low)); high − 1 is exact on this range.
        let significand = libm::log1p((high - 1.0) + low);
        if exponent == 0 {
            return significand;
        }
        /// ln 2 − LN_2, so that exponent·ln 2 is good to twice the precision.
        const LN_2_LOW: f64 = 2.319_046_813_846_299_6e-17;
        let exponent = exponent as f64;
        let (product, error) = two_product(exponent, LN_2);
        let (sum, rest) = two_sum(product, significand);
        sum + (rest + error + exponent * LN_2_LOW)
    }

    /// Nearest `f64`, which is 0 below the smallest subnormal.
    pub(crate) fn to_f64(self) -> f64 {
        let exponent = self.exponent.clamp(-5000, 5000) as i32;
        libm::scalbn(self.high + self.low, exponent)
    }
}

impl From<f64> for Extended {
    fn from(value: f64) -> Self {
        Self::new(value, 0.0, 0)
    }
}

impl std::ops::Mul for Extended {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        if self.is_zero() || other.is_zero() {
            return Self::ZERO;
        }
        let (high, error) = two_product(self.high, other.high);
        let cross = self.high.mul_add(other.low, self.low * other.high);
        let (high, low) = two_sum(high, error + cross);
        Self::nearly_normalised(high, low, self.exponent + other.exponent)
    }
}

impl std::ops::Div for Extended {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        if self.is_zero() {
            return Self::ZERO;
        }
        let first = self.high / other.high;
        // One correction: the remainder self − first·other is exact enough in double-double.
        let product = other.scaled_by(first);
        let remainder = (self.high - product.0) - product.1 + self.low;
        let second = remainder / other.high;
        let (high, low) = two_sum(first, second);
        Self::nearly_normalised(high, low, self.exponent - other.exponent)
    }
}

impl std::ops::Add for Extended {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        if self.is_zero() {
            return other;
        }
        if other.is_zero() {
            return self;
        }
        let (large, small) = if self.exponent >= other.exponent {
            (self, other)
        } else {
            (other, self)
        };
        let shift = large.exponent - small.exponent;
        if shift > 120 {
            return large;
        }
        let scale = f64::from_bits((1023 - shift as u64) << 52); // 2^-shift
        let (high, error) = two_sum(large.high, small.high * scale);
        let (high, low) = two_sum(high, error + (large.low + small.low * scale));
        Self::nearly_normalised(high, low, large.exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_far_below_the_range_of_f64_keep_their_logarithm() {
        let mut product = Extended::ONE;
        for _ in 0..10_000 {
            product = product * Extended::from(0.01);
        }
        // 0.01 is stored as 0.01·(1 + 2.0816681711721684e-17), which the logarithm must show.
        let exact = 10_000.0 * -4.605_170_185_988_092;
        assert!((product.ln() - exact).abs() <= 1.5e-11);
        assert_eq!(product.to_f64(), 0.0);
    }

    #[test]
    fn one_minus_a_tiny_number_is_not_rounded_to_one() {
        let p = 1e-20;
        let mut product = Extended::ONE;
        for _ in 0..1000 {
            product = product * Extended::one_minus(p);
        }
        assert!((product.ln() / (-1000.0 * p) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn sums_and_quotients_agree_with_integers() {
        let third = Extended::ONE / Extended::from(3.0);
        let one = third + third + third;
        assert!(one.ln().abs() < 1e-31);
        let large = Extended::from(1e300);
        let ratio = (large * large * large) / (large * large);
        assert!((ratio.to_f64() / 1e300 - 1.0).abs() < 1e-15);
    }
}
