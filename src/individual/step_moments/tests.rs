use super::*;
use crate::loss::MixturePair;
use crate::loss::moment::Moments;
use crate::step::GroupLaw;
use realfft::num_complex::Complex64;

#[test]
fn moments_agree_with_certified_quadrature() {
    for rate in [1e-6, 0.001, 0.08, 0.5, 0.97] {
        let law = GroupLaw::binomial(1, rate).unwrap();
        for variance in [1e-12f64, 1e-4, 0.01, 0.25, 1.0, 9.0, 100.0, 1000.0, 1e4] {
            let mut certified = Moments::new(MixturePair::new(&law, 1.0 / variance.sqrt()).unwrap());
            for order in [
                1.0 + f64::EPSILON,
                1.0 + 1e-9,
                1.00001,
                1.01,
                1.7,
                2.0,
                6.5,
                64.0,
                300.0,
                -1e-9,
                -1e-4,
                -0.3,
                -5.0,
                -40.0,
            ] {
                let found = Outputs::new(rate, variance, order).log_moment(order).value;
                let expected = certified.log_power_moment(order).value;
                assert!(
                    (found / expected - 1.0).abs() < 0.75 * RELATIVE_ERROR,
                    "q {rate} v {variance} α {order}: {found} {expected}"
                );
            }
        }
    }
}

#[test]
fn complex_moments_at_large_frequencies_are_those_of_finer_nodes() {
    for (rate, variance, c) in [
        (0.004, 1e-3f64, 3.0),
        (1e-6, 0.1, 0.5),
        (0.2, 1e-4, 20.0),
        (1e-4, 0.01, 1.0),
    ] {
        for direction in [Direction::Remove, Direction::Add] {
            let exponent = exponent(direction, c);
            // Where the loss, about q(e^y − 1) around an output, has gone through many periods.
            let reach = 12.0 / (rate * (variance.exp_m1()).sqrt());
            let nodes = Outputs::for_line(rate, variance, exponent, reach);
            let finer = Outputs::with_spacing(rate, variance, exponent, nodes.spacing / 3.0);
            assert!(nodes.len() < 3000, "{rate} {variance} {c}: {}", nodes.len());
            let at = |outputs: &Outputs, y: f64| {
                let law = outputs.tilted(c, exponent);
                let pairs = law.weights.iter().zip(&law.losses);
                pairs
                    .map(|(weight, loss)| weight * Complex64::cis(y * loss))
                    .sum::<Complex64>()
            };
            for part in [0.01, 0.3, 0.7, 1.0] {
                let (one, other) = (at(&nodes, part * reach), at(&finer, part * reach));
                let apart = (one - other).norm();
                assert!(
                    apart < 1e-13,
                    "{rate} {variance} {c} {direction:?} {part}: {one:?} {other:?}"
                );
            }
        }
    }
}

#[test]
fn nodes_for_large_exponents_serve_small_ones() {
    for (rate, variance) in [(0.01, 1.0), (0.3, 0.1), (1e-6, 4.0)] {
        for (largest, exponents) in [(900.0, [1.2, 3.0, 40.0, 700.0]), (-900.0, [-0.2, -3.0, -40.0, -700.0])] {
            let wide = Outputs::new(rate, variance, largest);
            for exponent in exponents {
                let (found, own) = (
                    wide.log_moment(exponent).value,
                    Outputs::new(rate, variance, exponent).log_moment(exponent).value,
                );
                // Each of the two has the error that is claimed.
                assert!(
                    (found / own - 1.0).abs() < 2.0 * RELATIVE_ERROR,
                    "q {rate} v {variance} {exponent}: {found} {own}"
                );
            }
        }
    }
}

#[test]
fn moments_agree_with_values_of_mpmath() {
    // from mpmath import *; mp.dps = 40
    // def K(q, v, p):
    //     q, v, p = mpf(q), mpf(v), mpf(p); s = sqrt(v); r = lambda t: 1 + q*(exp(s*t - v/2) - 1)
    //     f = lambda t: (r(t)**p - 1 - p*(r(t) - 1)) * exp(-t*t/2) / sqrt(2*pi)
    //     return log(1 + quad(f, linspace(-14 - abs(p)*s*(p < 0), max(p, 2)*s + 14, 60)))
    for (rate, variance, exponent, expected) in [
        (0.01, 1.0, 2.5, 0.000_326_362_998_422_820_7),
        (0.3, 0.25, -3.2, 0.131_084_362_625_130_87),
        (1e-4, 4.0, 8.0, 38.317_277_079_500_28),
        (0.08, 0.01, 64.0, 0.136_013_752_019_016_28),
        (0.5, 9.0, 1.25, 0.777_901_958_843_588_8),
        (1e-6, 0.04, 300.0, 1.830_385_785_863_216_8e-9),
        (0.97, 0.5, -40.0, 109.405_601_255_431_92),
        // Negative exponents so large that |1 + u|^p grows on the imaginary shift of the rule.
        (0.9, 0.1, -300.0, 566.334_109_515_107_3),
        (0.9, 0.1, -25_000.0, 57_172.262_966_020_4),
        (0.5, 1.0, -1000.0, 675.777_545_631_307_7),
        (0.9, 2.0, -40.0, 84.983_030_610_471_73),
        (0.3, 0.01, -9000.0, 2_591.169_851_697_321),
        (0.01, 1.0, -16.0, 0.017_042_117_054_828_474),
    ] {
        let found = Outputs::new(rate, variance, exponent).log_moment(exponent).value;
        assert!(
            (found / expected - 1.0).abs() < RELATIVE_ERROR,
            "{rate} {variance} {exponent}: {found}"
        );
    }
}

#[test]
fn the_rounding_of_exponents_that_cancel_is_part_of_the_error() {
    // Just above the phase transition, where p·log(1/q) and half of p²v are equal. From the binomial theorem, mpmath with 60 digits:
    // K = log(1 + sum(binomial(p, j)·(1 − q)^(p − j)·q^j·expm1(j·(j − 1)·v/2) for j in range(p + 1))).
    let mut beyond = 0;
    for (rate, exponent, variance, expected) in [
        (1e-6, 300.0, 0.092_411_441_859_292_8, 0.693_297_195_927_159_6),
        (1e-6, 1000.0, 0.027_658_682_561_592_256, 0.694_338_676_936_345_3),
        (1e-4, 2000.0, 0.009_214_947_845_899_131, 0.798_307_737_452_511_9),
    ] {
        let Approx { value, error } = Outputs::new(rate, variance, exponent).log_moment(exponent);
        let off = (value - expected).abs();
        assert!(off <= error, "{rate} {exponent}: {off:e} {error:e}");
        let exponents = -exponent * f64::ln(rate);
        assert!(error < RELATIVE_ERROR * expected + 3.0 * EXPONENT_ROUNDING * exponents);
        beyond += u8::from(off > RELATIVE_ERROR * expected);
    }
    assert!(beyond > 0);
    // Where exponents are small, so is what they add.
    for (rate, exponent, variance) in [(0.01, 2.0, 1.0), (0.001, 8.0, 0.25), (0.1, -3.0, 0.5)] {
        let Approx { value, error } = Outputs::new(rate, variance, exponent).log_moment(exponent);
        assert!(
            error < 1.3 * RELATIVE_ERROR * value,
            "{rate} {exponent}: {value} {error:e}"
        );
    }
}

#[test]
fn ratios_near_zero_keep_their_digits() {
    // log(1 − q + q·e^y) with q = 1 − 1e-12 as a double, mpmath with 40 digits.
    for (y, expected) in [
        (-1.0, -0.999_999_999_998_281_7),
        (-20.0, -19.999_514_963_187_654),
        (-40.0, -27.631_038_989_454_144),
    ] {
        let rate: f64 = 1.0 - 1e-12;
        let found = log_ratio(rate, y, rate * y.exp_m1());
        assert!((found / expected - 1.0).abs() < 1e-15, "{y} {found}");
    }
}

#[test]
fn the_error_of_the_rule_is_that_of_its_level() {
    // Levels so low that the error of the rule is far above rounding; half the level would make it the square root.
    for (rate, variance, exponent) in [(0.1, 0.5, 3.0), (0.01, 0.1, 2.0), (0.3, 1.0, -2.0), (0.02, 0.01, 9.0)] {
        let moment = |outputs: Outputs| outputs.log_moment(exponent).value.exp_m1();
        let exact = moment(Outputs::new(rate, variance, exponent));
        for level in [12.0, 18.0, 24.0] {
            let spacing = spacing(variance, level, 0.0);
            let coarse = moment(Outputs::with_spacing(rate, variance, exponent, spacing));
            let error = (coarse / exact - 1.0).abs();
            assert!(
                error < 1e3 * f64::exp(-level),
                "{rate} {variance} {exponent} {level}: {error:e}"
            );
        }
    }
}
