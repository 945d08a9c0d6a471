//! Fourier transforms of real numbers, powers of their values, and bounds on the rounding errors of both.
//!
//! Transforms are those of `realfft`. A plan holds the roots of unity of its length, which take as long to compute as a transform does, so
//! that plans are kept: lengths are powers of two, of which there are few.

use crate::locks::Renewable;
use realfft::num_complex::Complex64;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Rounding error of a transform of length N in the 2-norm, relative, over log₂N + 2 (Higham 2002, Theorem 24.2).
///
/// That is μ + γ₄(√2 + μ) for each of log₂N stages, with γ₄ = 4u, u = 2⁻⁵³ and weights right to μ = u: 7.4e-16. Weights are the cosine and
/// sine of 2πk/N as an `f64`, which may be off by 7u, but transforms of powers of two multiply by one of them in two or more stages: with two
/// sums and a product, which is right to √5·u, two stages have (2 + √5 + 7 + 1)u = 1.36e-15. The two further stages
/// are those that make a real transform of a complex one of half the length. The bound holds for the worst signs of all roundings;
/// transforms of random signs attain some three hundredths of it, which is what the test below finds.
const TRANSFORM_ERROR: f64 = 7.4e-16;

/// Error of [`whole_power`], relative and over its exponent.
///
/// A product of complex numbers is right to √5·u (Brent, Percival and Zimmermann 2007), and squaring doubles the errors of what is squared:
/// n − 1 times √5·u for the power n, whatever the order. The base may be off by another 2u. That is 4.7e-16.
pub(crate) const POWER_ERROR: f64 = 5e-16;

/// Largest length whose plan is kept: all powers of two up to it together take some 50 MB.
const LONGEST_KEPT: usize = 1 << 20;

/// Made anew in a process that was forked while another thread made a plan.
static PLANNER: Renewable<RealFftPlanner<f64>> = Renewable::empty();

/// What `plan` makes by the kept planner, or by one for this length alone.
fn planned<T>(length: usize, plan: impl Fn(&mut RealFftPlanner<f64>) -> T) -> T {
    let kept = if length > LONGEST_KEPT {
        None
    } else {
        let made = PLANNER.with(|| Ok(RealFftPlanner::new()), |planner| Ok(plan(planner)));
        made.ok()
    };
    kept.unwrap_or_else(|| plan(&mut RealFftPlanner::new()))
}

/// The transform of so many real numbers.
pub(crate) fn forward(length: usize) -> Arc<dyn RealToComplex<f64>> {
    planned(length, |planner| planner.plan_fft_forward(length))
}

/// The inverse transform to so many real numbers, times their number.
pub(crate) fn inverse(length: usize) -> Arc<dyn ComplexToReal<f64>> {
    planned(length, |planner| planner.plan_fft_inverse(length))
}

/// η: a bound on the relative error of a transform in the 2-norm.
pub(crate) fn transform_error(length: usize) -> f64 {
    ((length as f64).log2() + 2.0) * TRANSFORM_ERROR
}

/// z to a whole power, by squaring.
pub(crate) fn whole_power(z: Complex64, mut exponent: u64) -> Complex64 {
    let (mut result, mut square) = (Complex64::new(1.0, 0.0), z);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        exponent >>= 1;
        if exponent > 0 {
            square *= square;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::compensated_sum::CompensatedSum;
    use std::f64::consts::{PI, TAU};

    #[test]
    fn the_error_of_a_transform_is_within_its_bound_and_uses_some_of_it() {
        // Signs in no order, whose transform is summed term by term at every 1/64 of the frequencies.
        let mut worst = 0.0f64;
        for length in [64usize, 1024, 16_384] {
            let forward = forward(length);
            let sign = |j: usize| 1.0 - 2.0 * ((j * j * 7 + j * 3) / 11 % 2) as f64;
            let mut values: Vec<f64> = (0..length).map(sign).collect();
            let mut spectrum = forward.make_output_vec();
            forward.process(&mut values, &mut spectrum).unwrap();
            let (mut square, mut norm) = (0.0, 0.0);
            for k in (1..length / 2).step_by((length / 64).max(1)) {
                let (mut real, mut imaginary) = (CompensatedSum::default(), CompensatedSum::default());
                for j in 0..length {
                    let turn = (j * k % length) as f64 / length as f64;
                    let turn = if turn > 0.5 { turn - 1.0 } else { turn };
                    let (sine, cosine) = (-2.0 * PI * turn).sin_cos();
                    real.add(sign(j) * cosine);
                    imaginary.add(sign(j) * sine);
                }
                let exact = Complex64::new(real.value(), imaginary.value());
                square += (spectrum[k] - exact).norm_sqr();
                norm += length as f64;
            }
            let error = (square / norm).sqrt();
            assert!(error <= transform_error(length), "{length}: {error}");
            worst = worst.max(error / transform_error(length));
        }
        assert!(worst > 0.01, "{worst}");
    }

    /// The constant is that of the theorem, μ + γ₄(√2 + μ) with γ₄ = 4u and μ = u = 2⁻⁵³ for each of log₂N stages, and two more for real
    /// transforms.
    #[test]
    fn the_error_of_a_transform_is_that_of_the_theorem() {
        let unit = 0.5 * f64::EPSILON;
        let stage = unit + 4.0 * unit * (2f64.sqrt() + unit);
        for (size, stages) in [(2usize, 3.0), (1024, 12.0), (1 << 23, 25.0)] {
            let bound = transform_error(size);
            assert!(
                bound >= stages * stage && bound < 1.1 * stages * stage,
                "{size} {bound:e}"
            );
        }
    }

    /// The constant is that of the rounding analysis, n times √5·u for products and 2u for the base, and not much larger.
    #[test]
    fn the_error_of_a_power_is_that_of_the_analysis() {
        let of_analysis = (5f64.sqrt() + 2.0) * 0.5 * f64::EPSILON;
        assert!((of_analysis..1.1 * of_analysis).contains(&POWER_ERROR), "{of_analysis}");
    }

    /// A root of unity of order 1,024 to a power is another one, which is known to a rounding.
    #[test]
    fn powers_are_within_their_error_and_use_some_of_it() {
        let mut worst = 0.0f64;
        for exponent in [2u64, 3, 31, 1000, 65_535, 1_000_003] {
            for j in 1..400u32 {
                let turn = f64::from(j) / 1024.0;
                let base = Complex64::from_polar(1.0, TAU * turn);
                let whole = (u64::from(j) * exponent % 1024) as f64 / 1024.0;
                let exact = Complex64::from_polar(1.0, TAU * whole);
                let error = (whole_power(base, exponent) - exact).norm();
                let bound = POWER_ERROR * exponent as f64;
                assert!(error <= bound + 5e-16, "{exponent} {j}: {error} {bound}");
                worst = worst.max(error / bound);
            }
        }
        assert!(worst > 0.3, "{worst}");
    }
}
