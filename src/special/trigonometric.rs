//! Sines and cosines of many angles at once, in the lanes of the processor's vectors.

use crate::special::vector::{has_fused_multiply_add, multiply_add};

/// Bound on the absolute error of [`sin_cos`] for angles up to [`LARGEST`].
///
/// With n the whole number next to 2x/π, below 2³², products of n with the first two parts of π/2 are exact, and so are x less the first and less both: they
/// are multiples of the last place of x or of 2⁻⁴⁰, and below 2³³ of these. With u half of [`f64::EPSILON`], the product with the third part is off by less than
/// 0.01u, as is what is lacking of π/2, and the last difference r by u/2. Of a sine r³·(−1/6 + …), below 0.08, is off by less than 5u of itself, and the sum by u/2. Of a
/// cosine, which changes by 0.71 of the error of r at most, r²/2 is off by 0.31u, the two sums by u/2 each, and r⁴·(1/24 − …), below 0.016, by less than 5u of itself:
/// less than 1.75u in all.
pub(crate) const ERROR: f64 = 0.9 * f64::EPSILON;

/// Angles beyond it are left to the C library, which takes fifty times as long: contours far out, where ε times their points is large, have angles of
/// millions.
const LARGEST: f64 = 4_294_967_296.0;

/// Replaces every angle by its cosine, and puts its sine into `sines`.
pub(crate) fn sin_cos(angles: &mut [f64], sines: &mut [f64]) {
    assert_eq!(angles.len(), sines.len());
    let arch = pulp::Arch::new();
    let is_any_large = if has_fused_multiply_add(arch) {
        arch.dispatch(SinesAndCosines::<true> { angles, sines })
    } else {
        arch.dispatch(SinesAndCosines::<false> { angles, sines })
    };
    if is_any_large {
        for (angle, sine) in angles.iter_mut().zip(sines) {
            // What was too large, or no number, was left as it is.
            if sine.is_infinite() {
                (*sine, *angle) = angle.sin_cos();
            }
        }
    }
}

struct SinesAndCosines<'a, const FUSED: bool> {
    angles: &'a mut [f64],
    sines: &'a mut [f64],
}

impl<const FUSED: bool> pulp::NullaryFnOnce for SinesAndCosines<'_, FUSED> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let mut is_any_large = false;
        for (angle, sine) in self.angles.iter_mut().zip(self.sines) {
            let x = *angle;
            let is_small = x.abs() <= LARGEST;
            is_any_large |= !is_small;
            let [found_sine, found_cosine] = one::<FUSED>(x);
            *sine = if is_small { found_sine } else { f64::INFINITY };
            *angle = if is_small { found_cosine } else { x };
        }
        is_any_large
    }
}

/// Added to a number below 2⁵¹ and taken away again, it leaves the whole number next to it, which is also in the last bits of the sum.
const TO_WHOLE: f64 = 6_755_399_441_055_744.0;

/// π/2 in three parts, of which the first is a multiple of 2⁻¹⁹ and the second one of 2⁻⁴⁰.
const HALF_PI: [f64; 3] = [
    f64::from_bits(0x3ff9_21fa_0000_0000),
    f64::from_bits(0x3eb5_4442_0000_0000),
    f64::from_bits(0x3d6a_308d_3131_98a3),
];

/// −1/3!, 1/5!, … 1/17!, of which the next term is below 1e-19 of the sine of π/4.
const SINE: [f64; 8] = [
    -1.0 / 6.0,
    1.0 / 120.0,
    -1.0 / 5_040.0,
    1.0 / 362_880.0,
    -1.0 / 39_916_800.0,
    1.0 / 6_227_020_800.0,
    -1.0 / 1_307_674_368_000.0,
    1.0 / 355_687_428_096_000.0,
];

/// 1/4!, −1/6!, … 1/16!.
const COSINE: [f64; 7] = [
    1.0 / 24.0,
    -1.0 / 720.0,
    1.0 / 40_320.0,
    -1.0 / 3_628_800.0,
    1.0 / 479_001_600.0,
    -1.0 / 87_178_291_200.0,
    1.0 / 20_922_789_888_000.0,
];

/// Sine and cosine of an angle up to [`LARGEST`].
#[inline(always)]
fn one<const FUSED: bool>(x: f64) -> [f64; 2] {
    let shifted = multiply_add::<FUSED>(x, std::f64::consts::FRAC_2_PI, TO_WHOLE);
    let n = shifted - TO_WHOLE;
    let r = multiply_add::<FUSED>(-n, HALF_PI[0], x);
    let r = multiply_add::<FUSED>(-n, HALF_PI[1], r);
    let r = multiply_add::<FUSED>(-n, HALF_PI[2], r);
    let square = r * r;
    let mut sine = SINE[7];
    for coefficient in SINE[..7].iter().rev() {
        sine = multiply_add::<FUSED>(sine, square, *coefficient);
    }
    let sine = multiply_add::<FUSED>(r * square, sine, r);
    let mut cosine = COSINE[6];
    for coefficient in COSINE[..6].iter().rev() {
        cosine = multiply_add::<FUSED>(cosine, square, *coefficient);
    }
    let cosine = multiply_add::<FUSED>(square * square, cosine, multiply_add::<FUSED>(-0.5, square, 1.0));
    // A quarter turn exchanges the two, and changes the sign of the cosine; half a turn changes both signs.
    let turns = shifted.to_bits();
    let is_odd = turns & 1 == 1;
    let (a, b) = if is_odd { (cosine, sine) } else { (sine, cosine) };
    let sign_of_sine = (turns & 2) << 62;
    let sign_of_cosine = ((turns + 1) & 2) << 62;
    [
        f64::from_bits(a.to_bits() ^ sign_of_sine),
        f64::from_bits(b.to_bits() ^ sign_of_cosine),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::FRAC_PI_4;

    /// Of all sizes, next to multiples of π/4, and beyond what is reduced here.
    fn angles() -> Vec<f64> {
        let spread = (0..40_000).map(|i| {
            let fraction = (f64::from(i) * 0.618_033_988_749_894_9).fract();
            let size = 10f64.powf(-20.0 + 29.6 * fraction);
            if i % 2 == 0 { size } else { -size }
        });
        let near = |multiple: f64| {
            let at = move |i: i32| [-1e-9, 0.0, 1e-9].map(|off| f64::from(i) * FRAC_PI_4 * multiple + off);
            (-4_000..4_000).flat_map(at)
        };
        let near = near(151.0).chain(near(1_000_003.0));
        let others = [0.0, -0.0, 1e10, -1e22, f64::MAX, f64::INFINITY, f64::NAN];
        spread.chain(near).chain(others).collect()
    }

    /// The error of the C library's, which are within half a unit in the last place and a fortieth.
    const ERROR_OF_REFERENCE: f64 = 0.27 * f64::EPSILON;

    #[test]
    fn errors_are_below_their_bound() {
        let angles = angles();
        let (mut cosines, mut sines) = (angles.clone(), vec![0.0; angles.len()]);
        sin_cos(&mut cosines, &mut sines);
        for ((x, sine), cosine) in angles.iter().zip(sines).zip(cosines) {
            let exact = x.sin_cos();
            if !x.is_finite() {
                assert!(sine.is_nan() && cosine.is_nan());
                continue;
            }
            let off = (sine - exact.0).abs().max((cosine - exact.1).abs());
            assert!(off <= ERROR + ERROR_OF_REFERENCE, "{x}: {sine} {cosine} {exact:?}");
            // Next to 0 sines keep their digits.
            let is_close = (sine - exact.0).abs() <= 4.0 * f64::EPSILON * exact.0.abs();
            assert!(x.abs() > 0.5 || is_close, "{x}: {sine:e} {:e}", exact.0);
        }
    }

    /// At the worst of some thousand angles, whose sine is given by two numbers (mpmath, 160 bits).
    #[test]
    fn half_of_the_bound_is_exceeded() {
        const SINE: [f64; 2] = [0.740_632_331_166_368_8, 3.264_689_608_707_48e-17];
        let x = 7.117_196_272_349_974;
        for found in [one::<true>(x)[0], one::<false>(x)[0]] {
            let off = ((found - SINE[0]) - SINE[1]).abs();
            assert!(off <= ERROR && off > 0.5 * ERROR, "{off:e}");
        }
    }

    #[test]
    fn both_ways_of_multiplying_agree() {
        for x in angles().into_iter().filter(|x| x.abs() <= LARGEST) {
            for (fused, apart) in one::<true>(x).into_iter().zip(one::<false>(x)) {
                assert!((fused - apart).abs() <= 2.0 * ERROR, "{x}");
            }
        }
    }
}
