//! Central moments and the series against closed forms, and each bound against what it bounds.

use super::*;
use std::f64::consts::TAU;

/// The exponent w.
fn power(w: f64) -> Power {
    Power { whole: 0.0, rest: w }
}

fn of(batches: &[(u64, f64)]) -> CentralMoments {
    CentralMoments::new(&Bins::new(batches).unwrap())
}

/// E[f(Y)] of one batch by a sum over its normal variable.
fn of_one_batch(v: f64, f: impl Fn(f64) -> f64) -> f64 {
    let step = 1e-3;
    let term = |i: i64| {
        let g = step * (i as f64 + 0.5);
        f((v.sqrt() * g - 0.5 * v).exp()) * (-0.5 * g * g).exp()
    };
    (-40_000..40_000).map(term).sum::<f64>() * step / TAU.sqrt()
}

/// E[(Y − 1)^k] of one batch by the binomial formula, and those of a mean from those of its terms.
#[test]
fn moments_are_those_of_closed_forms() {
    let binomial = |n: i32, k: i32| (1..=k).map(|j| f64::from(n + 1 - j) / f64::from(j)).product::<f64>();
    let exact = |v: f64, k: i32| -> f64 {
        let term = |j: i32| (-1f64).powi(k - j) * binomial(k, j) * (0.5 * f64::from(j * (j - 1)) * v).exp();
        (0..=k).map(term).sum()
    };
    let moment = |central: &CentralMoments, k: usize| {
        let Approx { value, error } = central.moments[k];
        let factor = (central.log_factorials[k]).exp() * central.unit.powi(k as i32);
        (value * factor, error * factor)
    };
    for v in [0.5, 1.0, 2.0] {
        let one = of(&[(1, v)]);
        for k in 2..=8 {
            let (value, error) = moment(&one, k as usize);
            assert!((value / exact(v, k) - 1.0).abs() < 1e-10, "{v} {k}: {value}");
            assert!(error < 1e-12 * value);
        }
    }
    // Two batches of one kind, three of another, and five that are not released.
    let (v, u) = (0.5, 1.0);
    let some = of(&[(2, v), (3, u), (5, 0.0)]);
    let second = (2.0 * exact(v, 2) + 3.0 * exact(u, 2)) / 1e2;
    let third = (2.0 * exact(v, 3) + 3.0 * exact(u, 3)) / 1e3;
    let excess = |v: f64| exact(v, 4) - 3.0 * exact(v, 2).powi(2);
    let fourth = (2.0 * excess(v) + 3.0 * excess(u)) / 1e4 + 3.0 * second * second;
    for (k, exact) in [(2, second), (3, third), (4, fourth)] {
        let (value, _) = moment(&some, k);
        assert!((value / exact - 1.0).abs() < 1e-12, "{k}: {value} {exact}");
    }
}

/// M(z) = e^{z(z − 1)v/2} of one batch, at complex z: the series is within its error, which is a few roundings of M − 1.
#[test]
fn one_batch_is_a_gaussian_loss() {
    for (v, w, y) in [
        (1e-4f64, 1.5, 20.0),
        (1e-6, -30.0, 500.0),
        (1e-3, 9.0, 3.0),
        (1e-4, 1.01, 2.0),
    ] {
        let central = of(&[(1, v)]);
        let series = central.series(power(w), y).unwrap();
        let log = 0.5 * v * w * (w - 1.0);
        let found = series.log_moment();
        assert!((found.value - log).abs() <= found.error && found.error < 1e-12 * log.abs());
        assert!((series.mean / (v * (w - 0.5)) - 1.0).abs() < 1e-6 && (series.variance / v - 1.0).abs() < 1e-3);
        for part in [0.01, 0.5, 1.0] {
            let y = part * y;
            let exact = Complex64::new(-0.5 * v * y * y, v * y * (w - 0.5)).exp() - 1.0;
            let found = central.change(&series, y);
            let off = (found.value - exact).norm();
            assert!(
                off <= found.error + 1e-15 && found.error < 3e-14,
                "{v} {w} {y}: {off:e} {found:?}"
            );
        }
    }
}

/// W of two batches is e^{√v·(g + g')/2 − v/2}·cosh(√v·(g − g')/2), so that M is one integral.
#[test]
fn two_batches_meet_their_integral() {
    for (v, w) in [(1e-3f64, 40.0), (1e-3, -20.0), (1e-7, 2.5)] {
        let shift = 0.25 * v * w * (w - 2.0);
        let step = 1e-3;
        let term = |i: i32| {
            let g = step * f64::from(i);
            // log cosh x without its cancellation at small x
            let sinh = (0.5 * (0.5 * v).sqrt() * g).sinh();
            let log = w * (2.0 * sinh * sinh).ln_1p() + shift;
            log.exp_m1() * (-0.5 * g * g).exp()
        };
        let exact = ((-30_000..=30_000).map(term).sum::<f64>() * step / TAU.sqrt()).ln_1p();
        let found = of(&[(2, v)]).series(power(w), 0.0).unwrap().log_moment();
        assert!(
            (found.value / exact - 1.0).abs() < 1e-11,
            "{v} {w}: {found:?} {exact:e}"
        );
        assert!(found.error < 1e-12 * exact.abs());
    }
}

/// What the series lacks is nearly the bound on it, on either side of w = K.
#[test]
fn the_remainder_is_bounded_and_attained() {
    for (v, w, y) in [
        (1e-4f64, 2.5, 3.0),
        (1e-4, -3.0, 8.0),
        (1e-4, 9.0, 2.0),
        (1e-4, 4.0, 0.5),
    ] {
        let central = of(&[(1, v)]);
        let mut series = central.series(power(w), y).unwrap();
        series.terms = 4;
        series.remainder = central.log_remainder(4, w).exp();
        let z = Complex64::new(w, y);
        let exact = (z * (z - 1.0) * 0.5 * v).exp() - 1.0;
        let (found, _) = central.sum(y, &series);
        let off = (found.value - exact).norm();
        assert!(
            off <= found.error && found.error < 1.9 * off,
            "{v} {w} {y}: {off:e} {found:?}"
        );
    }
}

/// Where W is its own geometric mean, the bound on low outcomes is nearly attained.
#[test]
fn low_outcomes_are_bounded_and_attained() {
    let (v, terms, x) = (1.0, 4, 0.9);
    let central = of(&[(1, v)]);
    let factor = terms as f64 * central.unit.ln() + central.log_factorials[terms];
    for exponent in [1.0, 4.0, 10.0] {
        let f = |y: f64| {
            if y < 1.0 - x {
                (y - 1.0).powi(4) * y.powf(-exponent)
            } else {
                0.0
            }
        };
        let exact = of_one_batch(v, f);
        let bound = (central.log_below(terms, exponent, x) + factor).exp();
        assert!(exact <= bound && bound < 2.0 * exact, "{exponent}: {exact:e} {bound:e}");
    }
}

/// The probability of a fall: of one batch that of its normal variable, and of many, whose mean is far above the geometric mean, next to the normal
/// probability, half of whose logarithm is too little.
#[test]
fn probabilities_of_falls_are_bounded_and_attained() {
    let one = of(&[(1, 0.3)]);
    for fall in &one.falls {
        let exact = log_upper_tail(-((-fall.x).ln_1p() + 0.15) / 0.3f64.sqrt());
        assert!(exact <= fall.log_probability && fall.log_probability < exact + 1e-6);
    }
    let many = of(&[(1_000_000, 1.0)]);
    for fall in many.falls.iter().filter(|fall| fall.log_deviations > 1.5) {
        let normal = log_upper_tail(fall.log_deviations.exp());
        let bound = fall.log_probability;
        assert!(bound >= normal && bound < 0.7 * normal, "{fall:?}: {normal}");
    }
}

/// E[X^K·W^{w − K}] of one batch where single places of a split would leave far more.
#[test]
fn remainders_with_falls_are_bounded_and_not_generous() {
    let (v, terms) = (0.01f64, 12);
    let central = of(&[(1, v)]);
    let factor = terms as f64 * central.unit.ln() + central.log_factorials[terms];
    for w in [2.0, -5.0] {
        let exact = of_one_batch(v, |y| (y - 1.0).powi(12) * y.powf(w - 12.0).max(1.0)).ln();
        let bound = central.log_remainder(terms, w) + factor;
        assert!(exact <= bound && bound < exact + 3.0, "{w}: {exact} {bound}");
    }
}

/// E[X^K·W^e; X > x] of one batch.
#[test]
fn high_outcomes_are_bounded() {
    let (v, terms, exponent) = (0.01f64, 8, 2.0);
    let central = of(&[(1, v)]);
    let factor = terms as f64 * central.unit.ln() + central.log_factorials[terms];
    for deviations in [4.0, 6.0] {
        let x = deviations * central.unit;
        let f = |y: f64| {
            if y > 1.0 + x {
                (y - 1.0).powi(8) * y.powf(exponent)
            } else {
                0.0
            }
        };
        let exact = of_one_batch(v, f).ln();
        let bound = central.log_beyond(terms, exponent, deviations) + factor;
        assert!(exact <= bound && bound < exact + 8.0, "{deviations}: {exact} {bound}");
    }
}

/// E[W^n] of two batches by enumeration; of one batch the bound is nearly attained by small exponents.
#[test]
fn powers_are_bounded_and_attained() {
    for v in [1e-3, 0.1] {
        let central = of(&[(2, v)]);
        for n in [2, 3, 6] {
            let binomial = |k: i32| (1..=k).map(|j| f64::from(n + 1 - j) / f64::from(j)).product::<f64>();
            let pairs = |k: i32| 0.5 * f64::from(k * (k - 1)) * v;
            let term = |k: i32| binomial(k) * (pairs(k) + pairs(n - k)).exp();
            let exact = ((0..=n).map(term).sum::<f64>() / 2f64.powi(n)).ln();
            let bound = central.log_power(f64::from(n));
            assert!(exact <= bound && bound < 2.0 * exact, "{v} {n}: {exact} {bound}");
        }
    }
}

/// Where terms would cancel, or moments are those of outcomes that are absurdly rare, there is no series.
#[test]
fn there_is_no_series_beyond_its_reach() {
    assert!(of(&[(10, 0.01)]).series(power(2.0), 300.0).is_none());
    assert!(of(&[(10, 4.0)]).series(power(5.0), 0.0).is_none());
    assert!(of(&[(1000, 9.0)]).series(power(0.5), 0.0).is_none());
    // Next to w = 1 the series is accurate, but its derivatives are not.
    assert!(of(&[(1000, 9.0)]).series(power(1.0 + 1e-12), 0.0).is_none());
}

/// Next to the exponent 1, log M is v·c/2·(1 + c) for c = z − 1 as it is, where 1 + c is rounded by more than c's own digits.
#[test]
fn exponents_next_to_one_are_not_rounded() {
    let (v, c) = (1e-4f64, 1.234_567_891_2e-7);
    let series = of(&[(1, v)]).series(Power { whole: 1.0, rest: c }, 0.0).unwrap();
    let (found, exact) = (series.log_moment(), 0.5 * v * c * (1.0 + c));
    assert!((found.value / exact - 1.0).abs() < 1e-14 && found.error < 1e-13 * exact);
}
