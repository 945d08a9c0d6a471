//! e^x and e^x − 1 of many numbers at once, in the lanes of the processor's vectors.
//!
//! The densities of mixtures are sums of exponentials, and the C library's functions, which take one number at a time, were half of the time
//! of an ε for groups with several rates and norms.
//!
//! With n the whole number next to x/log 2 and r = x − n·log 2, |r| ≤ 0.3466, both are found from p = e^r − 1, the sum of its series up to
//! r¹³, which leaves out less than 2e-17 of it: e^x = 2ⁿ(1 + p) and e^x − 1 = 2ⁿp + (2ⁿ − 1).

use crate::special::vector::{has_fused_multiply_add, multiply_add};

/// Bound on the relative error of [`exp`] and [`exp_m1`] where their results have all digits of an `f64`.
///
/// With u half of [`f64::EPSILON`]: r is exact for n = 0, else off by u/4, as n times the high part of log 2 and the difference are exact; p is off by
/// less than 2u|p|. The sum 1 + p, above 0.7, adds u at most, and all together is below 4u. For e^x − 1 with n ≠ 0, which is at least 2ⁿ/√2 − 1 or
/// 1 − √2·2ⁿ in absolute value, 2ⁿ|p| is at most 1.42 and 2ⁿe^r at most 3.42 times that, so that it is off by 1.42·2u + 3.42u/4 + u, less than 5u.
#[cfg(test)]
const ERROR: f64 = 3.0 * f64::EPSILON;

/// Replaces every number by its exponential.
pub(crate) fn exp(values: &mut [f64]) {
    dispatch::<false>(values);
}

/// Replaces every number x by e^x − 1, which keeps its digits for small x.
pub(crate) fn exp_m1(values: &mut [f64]) {
    dispatch::<true>(values);
}

fn dispatch<const MINUS_ONE: bool>(values: &mut [f64]) {
    let arch = pulp::Arch::new();
    if has_fused_multiply_add(arch) {
        arch.dispatch(Exponentials::<true, MINUS_ONE> { values });
    } else {
        arch.dispatch(Exponentials::<false, MINUS_ONE> { values });
    }
}

struct Exponentials<'a, const FUSED: bool, const MINUS_ONE: bool> {
    values: &'a mut [f64],
}

impl<const FUSED: bool, const MINUS_ONE: bool> pulp::NullaryFnOnce for Exponentials<'_, FUSED, MINUS_ONE> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for value in self.values {
            *value = one::<FUSED, MINUS_ONE>(*value);
        }
    }
}

/// Exponents beyond which e^x is 0, or has no `f64`.
const LEAST: f64 = -746.0;
const MOST: f64 = 710.0;

/// Added to a number below 2⁵¹ and taken away again, it leaves the whole number next to it.
const TO_WHOLE: f64 = 6_755_399_441_055_744.0;

/// log 2 in two parts, of which the first has so few digits that products with whole numbers up to 2²⁰ are exact.
const LN_2: [f64; 2] = [
    f64::from_bits(0x3fe6_2e42_fee0_0000),
    f64::from_bits(0x3dea_39ef_3579_3c76),
];

/// Above 2^this, e^x − 1 is e^x.
const LARGE: f64 = 64.0;

/// 1/2!, 1/3!, … 1/13!.
const SERIES: [f64; 12] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

/// e^x, or e^x − 1. There are no branches, so that a loop over it becomes one over vectors.
#[inline(always)]
fn one<const FUSED: bool, const MINUS_ONE: bool>(x: f64) -> f64 {
    // Comparisons that leave what is not a number as it is.
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > MOST { MOST } else { x };
    let n = multiply_add::<FUSED>(x, std::f64::consts::LOG2_E, TO_WHOLE) - TO_WHOLE;
    let r = multiply_add::<FUSED>(-n, LN_2[0], x);
    let r = multiply_add::<FUSED>(-n, LN_2[1], r);
    let mut series = SERIES[11];
    for coefficient in SERIES[..11].iter().rev() {
        series = multiply_add::<FUSED>(series, r, *coefficient);
    }
    let p = multiply_add::<FUSED>(r * r, series, r);
    // 2ⁿ may have no f64 where e^x has one, so that it is multiplied by in two steps.
    let half = (0.5 * n + TO_WHOLE) - TO_WHOLE;
    let powers = [power_of_two(half), power_of_two(n - half)];
    let whole = (1.0 + p) * powers[0] * powers[1];
    if MINUS_ONE {
        let power = powers[0] * powers[1];
        let less = multiply_add::<FUSED>(p, power, power - 1.0);
        if n > LARGE { whole } else { less }
    } else {
        whole
    }
}

/// 2ⁿ for a whole number −1022 ≤ n ≤ 1023.
#[inline(always)]
fn power_of_two(n: f64) -> f64 {
    // The last bits of the sum are those of n + 1023, and they are moved to where an f64 has its exponent.
    f64::from_bits((n + (TO_WHOLE + 1023.0)).to_bits() << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All kinds of arguments, many of them and of every sign and size.
    fn arguments() -> Vec<f64> {
        let spread = (0..40_000).map(|i| {
            let fraction = (f64::from(i) * 0.618_033_988_749_894_9).fract();
            let size = 10f64.powf(-18.0 + 20.85 * fraction);
            if i % 2 == 0 { size } else { -size }
        });
        let even = (0..60_000).map(|i| -45.0 + 0.0015 * f64::from(i));
        spread.chain(even).collect()
    }

    /// The C library's functions are within a unit in the last place.
    #[test]
    fn errors_are_below_their_bound_and_not_below_a_sixth() {
        let arguments = arguments();
        for minus_one in [false, true] {
            let mut found = arguments.clone();
            if minus_one {
                exp_m1(&mut found);
            } else {
                exp(&mut found);
            }
            let mut worst = 0.0f64;
            for (x, found) in arguments.iter().zip(found) {
                let exact = if minus_one { x.exp_m1() } else { x.exp() };
                let off = (found - exact).abs();
                assert!(off <= ERROR * exact.abs() + 5e-324, "{x}: {found:e} {exact:e}");
                worst = worst.max(off / (ERROR * exact.abs()).max(1e-300));
            }
            assert!(worst > 1.0 / 6.0, "{worst}");
        }
    }

    #[test]
    fn both_ways_of_multiplying_agree() {
        for x in arguments() {
            for (fused, apart) in [
                (one::<true, false>(x), one::<false, false>(x)),
                (one::<true, true>(x), one::<false, true>(x)),
            ] {
                assert!((fused - apart).abs() <= 2.0 * ERROR * fused.abs() + 1e-323, "{x}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_are_those_of_f64() {
        let ends = [
            f64::NEG_INFINITY,
            -1e300,
            -745.2,
            -745.0,
            -708.5,
            0.0,
            -0.0,
            709.78,
            709.79,
            1e300,
            f64::INFINITY,
        ];
        let (mut whole, mut less) = (ends, ends);
        exp(&mut whole);
        exp_m1(&mut less);
        for (i, x) in ends.into_iter().enumerate() {
            for (found, exact) in [(whole[i], x.exp()), (less[i], x.exp_m1())] {
                let is_close = (found - exact).abs() <= ERROR * exact.abs() + 5e-324;
                assert!(found == exact || is_close, "{x}: {found:e} {exact:e}");
            }
        }
        let mut unknown = [f64::NAN; 5];
        exp(&mut unknown);
        assert!(unknown.iter().all(|value| value.is_nan()));
        let mut unknown = [f64::NAN; 5];
        exp_m1(&mut unknown);
        assert!(unknown.iter().all(|value| value.is_nan()));
    }
}
