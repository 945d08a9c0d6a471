//! Tails of the normal distribution, in logarithms.

use crate::approx::Approx;
use statrs::function::erf::erfc_inv;
use std::f64::consts::{PI, SQRT_2};

/// From here on the asymptotic series is accurate to the last bit.
const FAR: f64 = 25.0;

/// log P(N(0, 1) > t), with a relative error of the probability below 1e-15·(4 + t²).
pub(crate) fn log_upper_tail(t: f64) -> f64 {
    if t < -1.0 {
        return (-0.5 * libm::erfc(-t / SQRT_2)).ln_1p();
    }
    if t < FAR {
        return (0.5 * libm::erfc(t / SQRT_2)).ln();
    }
    log_mills(t) - 0.5 * t * t - 0.5 * (2.0 * PI).ln()
}

/// P(N(0, 1) > t) for a t that is wrong by at most `wrong`, and a bound on its relative error.
pub(crate) fn upper_tail(t: f64, wrong: f64) -> (f64, f64) {
    // The hazard rate is below t + 1 for t ≥ 0, and below 1 for t < 0.
    let hazard = t.max(0.0) + 1.0;
    (
        log_upper_tail(t).exp(),
        1e-15 * (5.0 + 2.0 * t.max(0.0).powi(2)) + 2.0 * hazard * wrong,
    )
}

/// log of Mills' ratio P(N(0, 1) > t)/φ(t), with an error below 1e-15·(8 + min(t, 25)²) for t > −25.
pub(crate) fn log_mills(t: f64) -> f64 {
    if t < FAR {
        return log_upper_tail(t) + 0.5 * t * t + 0.5 * (2.0 * PI).ln();
    }
    // 1/t·(1 − 1/t² + 1·3/t⁴ − …); the terms fall until the ninth is below 1e-17.
    let inverse = 1.0 / (t * t);
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 0..10 {
        term *= -f64::from(2 * n + 1) * inverse;
        sum += term;
    }
    sum.ln() - t.ln()
}

/// t with P(N(0, 1) < t) = `probability` in [0, 1]; infinite at both ends.
///
/// One Newton step on the logarithm of the tail corrects what the library's inverse leaves, down to the error of
/// [`log_upper_tail`] over the hazard rate.
pub(crate) fn quantile(probability: f64) -> Approx {
    if probability <= 0.0 {
        return Approx::exact(f64::NEG_INFINITY);
    }
    if probability >= 1.0 {
        return Approx::exact(f64::INFINITY);
    }
    // The smaller tail; 1 − p is exact above 1/2.
    let (tail, sign) = if probability < 0.5 {
        (probability, -1.0)
    } else {
        (1.0 - probability, 1.0)
    };
    let mut t = SQRT_2 * erfc_inv(2.0 * tail);
    for _ in 0..2 {
        // d log P(N > t)/dt = −1/Mills
        t += (log_upper_tail(t) - tail.ln()) * log_mills(t).exp();
    }
    let error = 1e-15 * (6.0 + t * t + tail.ln().abs()) * log_mills(t).exp() + f64::EPSILON * t.abs();
    Approx::new(sign * t, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_invert_the_tail() {
        for probability in [1e-300, 1e-20, 1e-3, 0.3, 0.5, 0.9, 1.0 - 1e-12] {
            let Approx { value: t, error } = quantile(probability);
            let back = log_upper_tail(-t).exp();
            let density = (-0.5 * t * t).exp() / (2.0 * PI).sqrt();
            let slack = error * density + 2e-15 * (4.0 + t * t) * probability;
            assert!((back - probability).abs() <= slack, "{probability} {back} {error}");
        }
        // mpmath, 30 digits
        assert!((quantile(1e-25).value + 10.420_452_200_803_098).abs() < 1e-14);
        assert!((quantile(1e-100).value + 21.273_453_560_965_325).abs() < 1e-14);
    }

    #[test]
    fn the_series_and_the_error_function_meet() {
        for t in [25.0, 26.0, 30.0] {
            let direct = (0.5 * libm::erfc(t / SQRT_2)).ln();
            assert!((log_upper_tail(t) - direct).abs() < 1e-12, "{t}");
        }
        // mpmath: log(erfc(50/sqrt(2))/2)
        assert!((log_upper_tail(50.0) + 1_254.831_361_139_419_9).abs() < 1e-9);
        assert!((log_upper_tail(-3.0).exp() - 0.998_650_101_968_369_9).abs() < 1e-15);
    }

    #[test]
    fn example_of_log_upper_tail() {
        assert!((log_upper_tail(0.0) - 0.5f64.ln()).abs() < 1e-15);
        assert!((log_upper_tail(40.0) + 804.608442).abs() < 1e-6);
    }

    #[test]
    fn example_of_log_mills() {
        assert!((log_mills(0.0) - 0.5 * (0.5 * PI).ln()).abs() < 1e-15);
        assert!((log_mills(1e8).exp() * 1e8 - 1.0).abs() < 1e-14);
    }

    #[test]
    fn example_of_quantile() {
        let Approx { value: t, error } = quantile(0.975);
        assert!((t - 1.959_963_984_540_054).abs() < 1e-15 + error && error < 1e-14);
        assert_eq!(quantile(0.0).value, f64::NEG_INFINITY);
    }
}
