//! Sums of exponentials that neither overflow nor underflow.

use realfft::num_complex::Complex64;

/// e^−this is less than half the last bit of any sum of at least 1; exponentials that underflow are slow.
const LEAST_EXPONENT: f64 = 700.0;

/// log Σ exp(terms); −∞ for an empty slice or all −∞; +∞ if any term is.
pub(crate) fn log_sum_exp(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest.is_infinite() {
        return largest;
    }
    largest + terms.iter().map(|t| (t - largest).exp()).sum::<f64>().ln()
}

/// log(e^a + e^b).
pub(crate) fn log_add(a: f64, b: f64) -> f64 {
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    if small == f64::NEG_INFINITY {
        large
    } else {
        large + (small - large).exp().ln_1p()
    }
}

/// log(e^a − e^b); −∞ where that is not positive. The rounding of a and of b is part of their errors.
pub(crate) fn log_difference(a: f64, b: f64) -> f64 {
    if b >= a {
        f64::NEG_INFINITY
    } else if b == f64::NEG_INFINITY {
        a
    } else {
        // Of two next to each other the difference has its digits in the exponential less 1.
        let ratio = b - a;
        a + if ratio < -std::f64::consts::LN_2 {
            (-ratio.exp()).ln_1p()
        } else {
            (-ratio.exp_m1()).ln()
        }
    }
}

/// e^x − 1 − x ≥ 0, right to a few units in the last place.
pub(crate) fn exp_m1_minus(x: f64) -> f64 {
    const NEAR: f64 = 0.3;
    const TERMS: i32 = 14;
    if x.abs() > NEAR {
        return x.exp_m1() - x;
    }
    // x²/2·(1 + x/3·(1 + x/4·(…)))
    let nested = (3..=TERMS).rev().fold(1.0, |rest, n| 1.0 + x / f64::from(n) * rest);
    0.5 * x * x * nested
}

/// log(1 + e^x): from the logarithm of a small excess to a logarithm near 0, and no overflow for large x.
pub(crate) fn log1p_exp(x: f64) -> f64 {
    if x > 36.0 { x + (-x).exp() } else { x.exp().ln_1p() }
}

/// log(1 + z), of which the real part is accurate in relative terms near z = 0 and in absolute terms of |1 + z| near z = −1.
pub(crate) fn complex_ln_1p(z: Complex64) -> Complex64 {
    let square = z.re * (2.0 + z.re) + z.im * z.im;
    let log_modulus = if square < -0.5 {
        // |1 + z|² as 1 + square would keep nothing of a modulus below 1e-8.
        (1.0 + z.re).hypot(z.im).ln()
    } else {
        0.5 * square.ln_1p()
    };
    Complex64::new(log_modulus, z.im.atan2(1.0 + z.re))
}

/// e^z − 1, accurate in relative terms near z = 0.
pub(crate) fn complex_exp_m1(z: Complex64) -> Complex64 {
    let (sine, cosine) = z.im.sin_cos();
    let versine = 2.0 * (0.5 * z.im).sin().powi(2); // 1 − cos
    Complex64::new(z.re.exp_m1() * cosine - versine, z.re.exp() * sine)
}

/// A running sum of exponentials, kept as `scale` and a sum of exp(term − scale).
///
/// The order of additions fixes the result, so a caller that adds in a fixed order gets the same bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSum {
    scale: f64,
    sum: f64,
}

impl Default for LogSum {
    fn default() -> Self {
        Self {
            scale: f64::NEG_INFINITY,
            sum: 0.0,
        }
    }
}

impl LogSum {
    /// Adds e^term.
    pub(crate) fn add(&mut self, term: f64) {
        if term == f64::NEG_INFINITY {
            return;
        }
        if term > self.scale {
            self.sum = self.sum * (self.scale - term).exp() + 1.0;
            self.scale = term;
        } else if term > self.scale - LEAST_EXPONENT {
            self.sum += (term - self.scale).exp();
        }
    }

    /// True if adding e^term, even 10⁴ times, would change no digit of the sum.
    pub(crate) fn outweighs(self, term: f64) -> bool {
        term < self.scale - 60.0
    }

    /// log of the sum so far.
    pub(crate) fn ln(self) -> f64 {
        if self.sum == 0.0 {
            f64::NEG_INFINITY
        } else {
            self.scale + self.sum.ln()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_of_differences_keep_their_digits() {
        assert_eq!(log_difference(1.0, 1.0), f64::NEG_INFINITY);
        assert_eq!(log_difference(1.0, 2.0), f64::NEG_INFINITY);
        assert_eq!(log_difference(f64::NEG_INFINITY, -1.0), f64::NEG_INFINITY);
        assert_eq!(log_difference(-3.0, f64::NEG_INFINITY), -3.0);
        assert!((log_difference(5.0f64.ln(), 2.0f64.ln()) - 3.0f64.ln()).abs() < 1e-15);
        let found = log_difference(-700.0, -700.0 - 1e-9);
        assert!((found - (-700.0 + 1e-9f64.ln())).abs() < 1e-4, "{found}");
    }

    #[test]
    fn a_modulus_keeps_its_digits_near_both_ends() {
        assert!((complex_ln_1p(Complex64::from(1e-20)).re / 1e-20 - 1.0).abs() < 1e-12);
        for small in [1e-9f64, 1e-5] {
            let z = Complex64::new(small - 1.0, 2.0 * small);
            let exact = ((1.0 + z.re).powi(2) + z.im * z.im).sqrt();
            assert!((complex_ln_1p(z).re.exp() / exact - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn sums_of_exponentials_survive_any_scale() {
        assert!((log_sum_exp(&[1e4, 1e4]) - (1e4 + 2f64.ln())).abs() < 1e-11);
        assert_eq!(log_sum_exp(&[]), f64::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[0.0, f64::INFINITY]), f64::INFINITY);
        let mut running = LogSum::default();
        for term in [-5e3, 2e3, 2e3, -7.0] {
            running.add(term);
        }
        assert!((running.ln() - (2e3 + 2f64.ln())).abs() < 1e-12);
        assert!((log1p_exp(-50.0) / (-50f64).exp() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn example_of_log_sum_exp() {
        assert!((log_sum_exp(&[1000.0, 1000.0]) - (1000.0 + 2f64.ln())).abs() < 1e-12);
    }

    #[test]
    fn example_of_log_add() {
        assert!((log_add(1000.0, 1000.0) - (1000.0 + 2f64.ln())).abs() < 1e-12);
    }

    #[test]
    fn example_of_exp_m1_minus() {
        assert!((exp_m1_minus(1e-8) / 0.5e-16 - 1.0).abs() < 4e-9);
    }
}
