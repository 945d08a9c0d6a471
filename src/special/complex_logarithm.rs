//! log(1 + z) of many complex numbers at once, in the lanes of the processor's vectors.
//!
//! Characteristic functions decay as the angles of likelihood ratios off the real line say, and one logarithm and one arctangent at a time
//! were a quarter of the time of a group with little noise.
//!
//! The real part is half the logarithm of |1 + z|² = 1 + x(2 + x) + y², z = x + iy. The imaginary part is the angle of a point of the plane.

use crate::special::vector::{has_fused_multiply_add, multiply_add};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// Bounds on the absolute errors of both parts of [`ln_1p`]: that of the real part in units of its size plus the smaller one of 1 and
/// (|x(2 + x)| + y²)/|1 + z|², that of the imaginary part in units of its size.
///
/// With u half of [`f64::EPSILON`], the terms of |1 + z|² have two roundings of x(2 + x) or one of y², and their sum one: less than 1.5u of the second unit for
/// half of the logarithm, and next to −1 the square of 1 + x less than 2u of 1. Without a power of 2 the quotient t has two roundings, and the
/// last sum is one: 3u of the logarithm. With one, t adds 0.35u, which is less than 1.25u of the second unit, and two sums 2u of the logarithm.
///
/// An angle below π/16 is off by a rounding of the quotient and one of its arctangent. Of others the difference from π/8 or π/4, below 0.199, is
/// off by 3u of itself, 0.4u where its products are not fused with sums, and 0.25u for tan(π/8). The angle of 0.197 at least that it is
/// added to has 0.1u more, and the last sum u: less than 8u in all. Differences from π/2 and π are larger, and have two more roundings.
#[cfg(test)]
const ERRORS: [f64; 2] = [1.5 * f64::EPSILON, 4.0 * f64::EPSILON];

/// Replaces the real parts x and the imaginary parts y of numbers z by those of log(1 + z), the latter within [−π, π].
///
/// # Panics
/// If there are not as many of both.
pub(crate) fn ln_1p(real: &mut [f64], imaginary: &mut [f64]) {
    assert_eq!(real.len(), imaginary.len());
    let arch = pulp::Arch::new();
    if has_fused_multiply_add(arch) {
        arch.dispatch(Logarithms::<true> { real, imaginary });
    } else {
        arch.dispatch(Logarithms::<false> { real, imaginary });
    }
}

struct Logarithms<'a, const FUSED: bool> {
    real: &'a mut [f64],
    imaginary: &'a mut [f64],
}

impl<const FUSED: bool> pulp::NullaryFnOnce for Logarithms<'_, FUSED> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (x, y) in self.real.iter_mut().zip(self.imaginary) {
            (*x, *y) = (log_modulus::<FUSED>(*x, *y), angle::<FUSED>(1.0 + *x, *y));
        }
    }
}

/// Squares below this are 0 as far as the logarithm is concerned: it stays finite.
const LEAST_SQUARE: f64 = f64::MIN_POSITIVE;

/// Below it, 1 + x(2 + x) + y² would keep little of |1 + z|², of which the sum of the squares of both parts keeps all.
const NEAR_ZERO: f64 = -0.5;

/// log 2 in two parts, of which the first has so few digits that products with whole numbers up to 2²⁰ are exact.
const LN_2: [f64; 2] = [
    f64::from_bits(0x3fe6_2e42_fee0_0000),
    f64::from_bits(0x3dea_39ef_3579_3c76),
];

/// 2/3, 2/5, … 2/23: log((1 + t)/(1 − t)) = 2t + t³·(2/3 + 2t²/5 + …), whose next term is below 4e-19 of the sum for t² ≤ 0.0295.
const LOGARITHM: [f64; 11] = [
    2.0 / 3.0,
    2.0 / 5.0,
    2.0 / 7.0,
    2.0 / 9.0,
    2.0 / 11.0,
    2.0 / 13.0,
    2.0 / 15.0,
    2.0 / 17.0,
    2.0 / 19.0,
    2.0 / 21.0,
    2.0 / 23.0,
];

/// Bits of 1 and of √½; bits of the exponent begin at 52.
const ONE: u64 = 1.0f64.to_bits();
const ROOT_OF_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
/// 2⁵², whose last bits are those of a whole number that is added to it.
const TO_WHOLE: f64 = 4_503_599_627_370_496.0;

/// −1/3, 1/5, … −1/23: arctan t = t + t³·(−1/3 + t²/5 − …), whose next term is below 7e-19 of the sum for |t| ≤ tan(π/16).
const ARCTANGENT: [f64; 11] = [
    -1.0 / 3.0,
    1.0 / 5.0,
    -1.0 / 7.0,
    1.0 / 9.0,
    -1.0 / 11.0,
    1.0 / 13.0,
    -1.0 / 15.0,
    1.0 / 17.0,
    -1.0 / 19.0,
    1.0 / 21.0,
    -1.0 / 23.0,
];

/// tan(π/16), tan(π/8) and tan(3π/16): quotients between the first and the last are measured from π/8, larger ones from π/4.
const TANGENTS: [f64; 3] = [0.198_912_367_379_658, 0.414_213_562_373_095_03, 0.668_178_637_919_298_9];

/// Sum of c_j·x^j.
#[inline(always)]
fn polynomial<const FUSED: bool>(coefficients: &[f64; 11], x: f64) -> f64 {
    let mut sum = coefficients[10];
    for coefficient in coefficients[..10].iter().rev() {
        sum = multiply_add::<FUSED>(sum, x, *coefficient);
    }
    sum
}

/// log of `whole` + `rest`, of which the second is so small that its square over that of `whole`, which is a normal number above 0, is nothing.
#[inline(always)]
fn log<const FUSED: bool>(whole: f64, rest: f64) -> f64 {
    // 2^k·m with m in [√½, √2).
    let bits = whole.to_bits();
    let exponent = bits.wrapping_add(ONE - ROOT_OF_HALF) >> 52;
    let k = f64::from_bits(exponent | TO_WHOLE.to_bits()) - (TO_WHOLE + 1023.0);
    let m = f64::from_bits(bits.wrapping_add(ONE).wrapping_sub(exponent << 52));
    let t = (m - 1.0) / (m + 1.0);
    let z = t * t;
    let series = multiply_add::<FUSED>(t * z, polynomial::<FUSED>(&LOGARITHM, z), rest / whole);
    let small = multiply_add::<FUSED>(k, LN_2[1], series);
    multiply_add::<FUSED>(k, LN_2[0], 2.0 * t) + small
}

/// log|1 + x + iy|. There are no branches, so that a loop over it becomes one over vectors.
#[inline(always)]
fn log_modulus<const FUSED: bool>(x: f64, y: f64) -> f64 {
    let square = multiply_add::<FUSED>(y, y, x * (2.0 + x));
    let (plain, shifted) = (1.0 + square, 1.0 + x);
    let is_near_zero = square < NEAR_ZERO;
    let whole = multiply_add::<FUSED>(shifted, shifted, y * y);
    let whole = if is_near_zero { whole } else { plain };
    let whole = if whole < LEAST_SQUARE { LEAST_SQUARE } else { whole };
    // What the sum 1 + s has lost of s.
    let rest = if is_near_zero { 0.0 } else { square - (plain - 1.0) };
    0.5 * log::<FUSED>(whole, rest)
}

/// The angle of the point (x, y), without branches.
#[inline(always)]
fn angle<const FUSED: bool>(x: f64, y: f64) -> f64 {
    let (width, height) = (x.abs(), y.abs());
    let is_steep = height > width;
    let (low, high) = if is_steep { (width, height) } else { (height, width) };
    // The angle of (high, low), in [0, π/4], from the nearest of 0, π/8 and π/4.
    let (tangent, from) = if low > TANGENTS[0] * high {
        (TANGENTS[1], 0.5 * FRAC_PI_4)
    } else {
        (0.0, 0.0)
    };
    let (tangent, from) = if low > TANGENTS[2] * high {
        (1.0, FRAC_PI_4)
    } else {
        (tangent, from)
    };
    let below = multiply_add::<FUSED>(tangent, low, high);
    let below = if below < f64::MIN_POSITIVE {
        f64::MIN_POSITIVE
    } else {
        below
    };
    let t = multiply_add::<FUSED>(-tangent, high, low) / below;
    let z = t * t;
    let found = from + multiply_add::<FUSED>(t * z, polynomial::<FUSED>(&ARCTANGENT, z), t);
    let found = if is_steep { FRAC_PI_2 - found } else { found };
    let found = if x < 0.0 { PI - found } else { found };
    found.copysign(y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::log_space::complex_ln_1p;
    use realfft::num_complex::Complex64;

    /// All directions and sizes, and next to 0 and −1.
    fn arguments() -> Vec<Complex64> {
        let spread = |i: u32, factor: f64| (f64::from(i) * factor).fract();
        let far = (0..60_000).map(|i| {
            let size = 10f64.powf(-17.0 + 20.0 * spread(i, 0.618_033_988_749_894_9));
            Complex64::from_polar(size, 2.0 * PI * spread(i, 0.754_877_666_246_692_7))
        });
        let unit = (0..40_000).map(|i| {
            let size = 10f64.powf(-12.0 * spread(i, 0.569_840_290_998_053_3));
            Complex64::from_polar(size, 2.0 * PI * spread(i, 0.754_877_666_246_692_7)) - 1.0
        });
        far.chain(unit).collect()
    }

    /// Units of the errors of both parts of log(1 + z) = `log`.
    fn units(z: Complex64, log: Complex64) -> [f64; 2] {
        let square = (z + 1.0).norm_sqr();
        let terms = (z.re * (2.0 + z.re)).abs() + z.im * z.im;
        [log.re.abs() + (terms / square).min(1.0), log.im.abs()]
    }

    /// Points 1 + z with angles just above π/16, where sums lose most.
    fn above_least_difference() -> impl Iterator<Item = Complex64> {
        (0..600_000u32).map(|i| {
            let size = 1.0 + (f64::from(i) * 0.618_033_988_749_894_9).fract();
            Complex64::from_polar(size, PI / 16.0 + 1e-8 * f64::from(i)) - 1.0
        })
    }

    /// The largest errors of both parts with or without fused operations, in their units. Those of the reference are included.
    fn largest_errors<const FUSED: bool>() -> [f64; 2] {
        let mut worst = [0.0f64; 2];
        for z in arguments().into_iter().chain(above_least_difference()) {
            let found = [log_modulus::<FUSED>(z.re, z.im), angle::<FUSED>(1.0 + z.re, z.im)];
            let exact = complex_ln_1p(z);
            let units = units(z, exact);
            let errors = [
                (found[0] - exact.re).abs() / units[0],
                (found[1] - exact.im).abs() / units[1],
            ];
            worst = [worst[0].max(errors[0]), worst[1].max(errors[1])];
        }
        worst
    }

    #[test]
    fn errors_are_below_their_bounds_and_above_half_of_them() {
        let (fused, apart) = (largest_errors::<true>(), largest_errors::<false>());
        for ((bound, fused), apart) in ERRORS.into_iter().zip(fused).zip(apart) {
            let worst = fused.max(apart);
            assert!(worst <= bound && worst > 0.5 * bound, "{fused:e} {apart:e} {bound:e}");
        }
    }

    #[test]
    fn many_numbers_at_once_are_those_of_one_after_the_other() {
        let arguments = arguments();
        let mut real: Vec<f64> = arguments.iter().map(|z| z.re).collect();
        let mut imaginary: Vec<f64> = arguments.iter().map(|z| z.im).collect();
        ln_1p(&mut real, &mut imaginary);
        for (z, (real, imaginary)) in arguments.into_iter().zip(real.into_iter().zip(imaginary)) {
            let one = Complex64::new(log_modulus::<false>(z.re, z.im), angle::<false>(1.0 + z.re, z.im));
            let units = units(z, one);
            assert!((real - one.re).abs() <= 2.0 * ERRORS[0] * units[0], "{z}");
            assert!((imaginary - one.im).abs() <= 2.0 * ERRORS[1] * units[1], "{z}");
        }
    }

    #[test]
    fn angles_on_the_axes_are_exact_and_nothing_is_infinite_at_minus_1() {
        let mut real = [0.0, 0.0, -1.0, -1.0, -2.0, -2.0, -1.0, 2.0];
        let mut imaginary = [0.0, -0.0, 3.0, -3.0, 0.0, -0.0, 0.0, f64::NAN];
        ln_1p(&mut real, &mut imaginary);
        assert_eq!(real[..6], [0.0, 0.0, 3f64.ln(), 3f64.ln(), 0.0, 0.0]);
        assert_eq!(imaginary[..6], [0.0, -0.0, FRAC_PI_2, -FRAC_PI_2, PI, -PI]);
        assert!((-400.0..-300.0).contains(&real[6]) && imaginary[6] == 0.0);
        assert!(real[7].is_nan() && imaginary[7].is_nan());
    }
}
