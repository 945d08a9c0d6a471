//! log(1 + x) of many numbers at once, in the lanes of the processor's vectors.
//!
//! Privacy losses are logarithms of likelihood ratios, which are close to 1 where members are rarely in a batch.

use crate::special::vector::{has_fused_multiply_add, multiply_add};

/// Bound on the relative error of [`ln_1p`].
///
/// With u half of [`f64::EPSILON`]: the quotient t has two roundings, and what 1 + x has lost of x is added with all its digits. Without a power of 2
/// the last sum is a third: 3u in all. With one, the logarithm is 0.34 at least, of which t, 0.35 at most, may be off by 2u, and two sums add 2u.
#[cfg(test)]
const ERROR: f64 = 2.1 * f64::EPSILON;

/// Replaces every x > −1 by log(1 + x).
pub(crate) fn ln_1p(values: &mut [f64]) {
    let arch = pulp::Arch::new();
    if has_fused_multiply_add(arch) {
        arch.dispatch(Logarithms::<true> { values });
    } else {
        arch.dispatch(Logarithms::<false> { values });
    }
}

struct Logarithms<'a, const FUSED: bool> {
    values: &'a mut [f64],
}

impl<const FUSED: bool> pulp::NullaryFnOnce for Logarithms<'_, FUSED> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for value in self.values {
            *value = one::<FUSED>(*value);
        }
    }
}

/// log(1 + x). There are no branches, so that a loop over it becomes one over vectors.
#[inline(always)]
fn one<const FUSED: bool>(x: f64) -> f64 {
    let whole = 1.0 + x;
    // What the sum has lost: of x, or of 1 where x is larger.
    let rest = if x < 1.0 { x - (whole - 1.0) } else { 1.0 - (whole - x) };
    let found = log::<FUSED>(whole, rest);
    let found = if whole > 0.0 { found } else { f64::NAN };
    let found = if x == -1.0 { f64::NEG_INFINITY } else { found };
    // An infinite x, which has lost more than there is.
    if x == f64::INFINITY { x } else { found }
}

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

/// Sum of c_j·x^j.
#[inline(always)]
pub(super) fn polynomial<const FUSED: bool>(coefficients: &[f64; 11], x: f64) -> f64 {
    let mut sum = coefficients[10];
    for coefficient in coefficients[..10].iter().rev() {
        sum = multiply_add::<FUSED>(sum, x, *coefficient);
    }
    sum
}

/// log of `whole` + `rest`, of which the second is so small that its square over that of `whole`, which is a normal number above 0, is nothing.
#[inline(always)]
pub(super) fn log<const FUSED: bool>(whole: f64, rest: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all sizes and both signs, and next to −1.
    fn arguments() -> Vec<f64> {
        let fraction = |i: u32| (f64::from(i) * 0.618_033_988_749_894_9).fract();
        let sizes = |i: u32| 10f64.powf(-18.0 + 22.0 * fraction(i));
        let positive = (0..100_000).map(sizes);
        let negative = (0..100_000)
            .map(|i| -10f64.powf(-18.0 * fraction(i)))
            .filter(|x| *x > -1.0);
        let next = (0..50_000).map(|i| -1.0 + 10f64.powf(-15.0 * fraction(i)));
        let even = (0..400_000).map(|i| -0.5 + 5e-6 * f64::from(i));
        positive
            .chain(negative)
            .chain(next)
            .chain(even)
            .filter(|x| *x != 0.0)
            .collect()
    }

    #[test]
    fn errors_are_below_their_bound_and_above_half_of_it() {
        let mut worst = 0.0f64;
        for x in arguments() {
            let exact = x.ln_1p();
            for found in [one::<true>(x), one::<false>(x)] {
                worst = worst.max(((found - exact) / exact).abs());
            }
        }
        // The C library's are within a unit in the last place, which is half of ε at most.
        assert!(worst <= ERROR && worst > 0.5 * ERROR + 0.26 * f64::EPSILON, "{worst:e}");
    }

    #[test]
    fn many_numbers_at_once_are_those_of_one_after_the_other() {
        let arguments = arguments();
        let mut found = arguments.clone();
        ln_1p(&mut found);
        for (x, found) in arguments.into_iter().zip(found) {
            assert!((found - x.ln_1p()).abs() <= 2.0 * ERROR * found.abs(), "{x}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_those_of_f64() {
        let mut found = [0.0, -0.0, -1.0, f64::INFINITY, 1e300, -1.5, f64::NAN];
        ln_1p(&mut found);
        assert_eq!(found[..4], [0.0, -0.0, f64::NEG_INFINITY, f64::INFINITY]);
        assert!((found[4] - 1e300f64.ln()).abs() < 1e-12);
        assert!(found[5].is_nan() && found[6].is_nan());
    }
}
