//! e^x and e^x − 1 of many numbers at once, in the lanes of the processor's vectors.
//!
//! The densities of mixtures are sums of exponentials, and the C library's functions, which take one number at a time, were half of the time
//! of an ε for groups with several rates and norms.
//!
//! With n the whole number next to x/log 2 and r = x − n·log 2, |r| ≤ 0.3466, both are found from p = e^r − 1, the sum of its series up to
//! r¹³, which leaves out less than 2e-17 of it: e^x = 2ⁿ(1 + p) and e^x − 1 = 2ⁿp + (2ⁿ − 1).

use crate::special::vector::{has_fused_multiply_add, multiply_add};

/// Bounds on the relative errors of [`exp`] and of [`exp_m1`] where their results have all digits of an `f64`.
///
/// With u half of [`f64::EPSILON`]: r is exact for n = 0, else off by u/4, as n times the high part of log 2 and the difference are exact. What is added to
/// r in p, below 0.068, has at most 3.2 roundings, and p below 1/2 one of u/4 at most: together p is off by less than 0.47u, and by e^r/4·u of r's. The sum
/// 1 + p adds u/2 below 1, where it is at least 0.7, and u above: less than 2u of e^x in all. Of e^x − 1 the least results are those of n = 1, from 0.414
/// on, which twice the error of p, u/4·0.71 for r, and u/4 for the last addition make wrong by less than 4u, and those of n = −1, from 0.293 on, with half of the former.
/// For n = 0 the error of p is less than 1.7u|p|.
#[cfg(test)]
const ERRORS: [f64; 2] = [f64::EPSILON, 2.0 * f64::EPSILON];

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

    /// How far a result is from e^x or e^x − 1, over it. The C library's functions serve as a reference that is off by half a unit in the last place and a
    /// fortieth.
    fn relative_error(x: f64, found: f64, minus_one: bool) -> f64 {
        let exact = if minus_one { x.exp_m1() } else { x.exp() };
        (found - exact).abs() / exact.abs()
    }

    const ERROR_OF_REFERENCE: f64 = 0.53 * f64::EPSILON;

    #[test]
    fn errors_are_below_their_bounds() {
        let arguments = arguments();
        for minus_one in [false, true] {
            let bound = ERRORS[usize::from(minus_one)];
            let mut found = arguments.clone();
            if minus_one {
                exp_m1(&mut found);
            } else {
                exp(&mut found);
            }
            for (&x, found) in arguments
                .iter()
                .zip(found)
                .filter(|(x, _)| **x != 0.0 && x.abs() < 700.0)
            {
                let error = relative_error(x, found, minus_one);
                assert!(error <= bound + ERROR_OF_REFERENCE, "{x}: {found:e} {error:e}");
            }
        }
    }

    /// Half of each bound does not hold at the worst of 10⁵ random arguments, whose results are given by two numbers each (mpmath, 160 bits).
    #[test]
    fn halves_of_the_bounds_are_exceeded() {
        const E_TO_X: [[f64; 3]; 2] = [
            [
                0.351_403_308_705_996_56,
                1.421_060_336_359_777_4,
                2.472_121_223_175_461_8e-17,
            ],
            [
                0.356_349_215_263_376_5,
                1.428_106_177_669_242_3,
                1.684_539_748_632_721_5e-17,
            ],
        ];
        const LESS_ONE: [[f64; 3]; 2] = [
            [
                0.356_455_567_538_342_57,
                0.428_258_068_086_933_1,
                8.324_815_426_998_423e-18,
            ],
            [
                0.347_716_286_139_446_16,
                0.415_830_502_014_402_86,
                1.907_590_664_095_071e-17,
            ],
        ];
        let error = |found: f64, [_, exact, rest]: [f64; 3]| ((found - exact) - rest).abs() / exact;
        let whole = E_TO_X.map(|case| {
            let [fused, apart] = [one::<true, false>(case[0]), one::<false, false>(case[0])];
            error(fused, case).max(error(apart, case))
        });
        let less = LESS_ONE.map(|case| {
            let [fused, apart] = [one::<true, true>(case[0]), one::<false, true>(case[0])];
            error(fused, case).max(error(apart, case))
        });
        for (errors, bound) in [whole, less].into_iter().zip(ERRORS) {
            let worst = errors[0].max(errors[1]);
            assert!(worst <= bound && worst > 0.5 * bound, "{errors:?} {bound:e}");
        }
    }

    #[test]
    fn both_ways_of_multiplying_agree() {
        for x in arguments() {
            for (fused, apart) in [
                (one::<true, false>(x), one::<false, false>(x)),
                (one::<true, true>(x), one::<false, true>(x)),
            ] {
                assert!((fused - apart).abs() <= 2.0 * ERRORS[1] * fused.abs() + 1e-323, "{x}");
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
                let is_close = (found - exact).abs() <= 2.0 * ERRORS[1] * exact.abs() + 5e-324;
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
