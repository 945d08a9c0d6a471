use super::*;
use std::f64::consts::PI;

fn bins(batches: &[(u64, f64)]) -> Bins {
    Bins::new(batches).unwrap()
}

/// E[f(g, e^{√v·g − v/2})] over standard normal g in a range, by the trapezoid rule.
fn mean(v: f64, (low, high): (f64, f64), f: impl Fn(f64) -> f64) -> f64 {
    let steps = 100_000;
    let width = (high - low) / f64::from(steps);
    let at = |i: i32| {
        let g = low + width * f64::from(i);
        let weight = if i == 0 || i == steps { 0.5 } else { 1.0 };
        weight * (-0.5 * g * g).exp() * f((v.sqrt() * g - 0.5 * v).exp())
    };
    (0..=steps).map(at).sum::<f64>() * width / (2.0 * PI).sqrt()
}

/// The normal variable at which Y is `y`.
fn variable(v: f64, y: f64) -> f64 {
    y.ln() / v.sqrt() + 0.5 * v.sqrt()
}

/// E[(Y − u)₊] for every u.
fn curve(v: f64, u: f64) -> f64 {
    if u > 0.0 {
        gaussian_delta(v.sqrt(), u.ln()).upper()
    } else {
        1.0 - u
    }
}

/// δ of two batches that are released, given one of which the other has the curve of a Gaussian pair.
fn exact_of_two(v: f64, still: f64, epsilon: f64) -> f64 {
    let total = 2.0 / (1.0 - still);
    let left = total * (epsilon.exp() - still);
    mean(v, (-9.0, v.sqrt() + 12.0), |y| curve(v, left - y)) / total
}

/// Both ends are δ, with little noise and with much of it, and as closely where two of five batches are released.
#[test]
fn two_batches_are_enclosed() {
    let mut narrow = 0;
    for (v, epsilon) in [
        (40.0, 30.0),
        (16.0, 12.0),
        (4.0, 8.0),
        (1.0, 4.0),
        (0.25, 2.5),
        (2.0, 1.5),
    ] {
        for (batches, still) in [(vec![(2, v)], 0.0), (vec![(2, v), (3, 0.0)], 0.6)] {
            let exact = exact_of_two(v, still, epsilon);
            let Some(found) = delta(&bins(&batches), epsilon) else {
                continue;
            };
            let (lower, upper) = (found.lower(), found.upper());
            assert!(
                lower <= exact * (1.0 + 1e-6) && exact <= upper * (1.0 + 1e-6),
                "{v}: {exact} {found:?}"
            );
            narrow += u32::from(upper < lower * (1.0 + 1e-3));
        }
    }
    assert!(narrow >= 6, "{narrow}");
}

/// One batch alone has the curve of a Gaussian pair; of two kinds of many batches each adds that of its own pair, moved by the mean of the others.
#[test]
fn batches_of_two_kinds_add_their_curves() {
    let found = delta(&bins(&[(1, 4.0)]), 30.0).unwrap();
    let exact = gaussian_delta(2.0, 30.0).upper();
    assert!((found.upper() / exact - 1.0).abs() < 1e-9, "{found:?} {exact}");
    assert!((found.lower() / exact - 1.0).abs() < 1e-9, "{found:?} {exact}");
    let found = delta(&bins(&[(30, 9.0), (70, 10.0)]), 12.0).unwrap();
    let at = (100.0 * 12f64.exp_m1() + 1.0).ln();
    let exact = 0.3 * gaussian_delta(3.0, at).upper() + 0.7 * gaussian_delta(10f64.sqrt(), at).upper();
    assert!(found.upper() < found.lower() * (1.0 + 1e-6), "{found:?}");
    assert!((found.upper() / exact - 1.0).abs() < 1e-6, "{found:?} {exact}");
}

/// What the others vary by adds nearly half of f·E[X²] where they hardly vary, up to what f changes between u and u − b.
#[test]
fn the_curvature_is_bounded_and_nearly_attained() {
    let (v, epsilon) = (0.25, 3.0);
    let bins = bins(&[(2, v)]);
    let sum = OneLarge::new(&bins, epsilon).unwrap();
    let (limit, u) = (sum.limit(1.5), sum.moved.value.exp());
    let most = |far: f64| sum.log_curvature(&limit, far).unwrap().exp();
    let change = |y: f64| curve(v, u + 1.0 - y) - curve(v, u);
    for far in [8.0, 20.0] {
        // Each of both may be the large one.
        let end = 1.0 + u / far;
        let exact = 2.0 * mean(v, (-9.0, variable(v, end)), change);
        assert!(exact <= most(far), "{far}: {exact} {}", most(far));
    }
    // Of a variable that hardly varies both are the same but for the change of f.
    let bins = Bins::new(&[(1, 0.25), (1, 1e-4)]).unwrap();
    let sum = OneLarge::new(&bins, epsilon).unwrap();
    let (limit, u) = (sum.limit(1.5), sum.moved.value.exp());
    let exact = mean(1e-4, (-8.0, 8.0), |y| curve(v, u + 1.0 - y) - curve(v, u));
    // The variance of the large batch counts too where it is not large.
    let share = 1e-4f64.exp_m1() / (1e-4f64.exp_m1() + 0.25f64.exp_m1());
    let bound = share * sum.log_curvature(&limit, 64.0).unwrap().exp();
    assert!(
        exact <= bound * (1.0 + 1e-2) && exact > 0.5 * bound,
        "{exact:e} {bound:e}"
    );
}

/// E[S; both are large] of two batches is attained; of three at least half of the bound is.
#[test]
fn two_large_ratios_are_bounded_and_attained() {
    let (v, limit) = (0.5f64, 3.0f64);
    let tail = |power: i32| mean(v, (variable(v, limit), 14.0), |y| y.powi(power));
    let bound = |count: f64| log_pairs(&[Part { count, variance: v }], limit.ln()).exp();
    let (mass, large) = (tail(0), tail(1));
    assert!(
        (bound(2.0) / (2.0 * large * mass) - 1.0).abs() < 1e-6,
        "{} {}",
        bound(2.0),
        large * mass
    );
    let (small, none) = (1.0 - large, 1.0 - mass);
    let exact = 3.0 * (2.0 * large * mass * none + mass * mass * small) + 3.0 * large * mass * mass;
    assert!(
        exact <= bound(3.0) && exact > 0.5 * bound(3.0),
        "{exact} {}",
        bound(3.0)
    );
}

/// The bounds on exponential moments hold at all λ, and where λ is small at least half of their logarithm is attained.
#[test]
fn exponential_moments_are_bounded_and_nearly_attained() {
    let mut closest = f64::INFINITY;
    for (v, limit, rate) in [
        (0.25, 4.0, 0.5),
        (0.25, 4.0, 8.0),
        (2.0, 50.0, 20.0),
        (10.0, 1e6, 60.0),
        (1.0, 300.0, 3.0),
    ] {
        let bins = bins(&[(3, v)]);
        let sum = OneLarge {
            parts: &bins.parts,
            moved: exact(10.0),
        };
        let lambda = rate / limit;
        let excess = mean(v, (-9.0, variable(v, limit)), |y| (lambda * (y - 1.0)).exp() - 1.0);
        let tail = mean(v, (variable(v, limit), v.sqrt() + 40.0), |_| 1.0);
        let (found, exact) = (sum.log_exponential(f64::ln(limit), rate), 3.0 * (excess - tail).ln_1p());
        assert!(exact <= found, "{v} {rate}: {exact} {found}");
        closest = closest.min(found / exact);
    }
    assert!(closest < 2.0, "{closest}");
}

/// What is far adds Y + X where X is b surely, and S − w is 1/λ where no Y is large and S is w + 1/λ surely.
#[test]
fn bounds_by_exponential_moments_are_attained() {
    let bins = bins(&[(2, 1.0)]);
    let sum = OneLarge::new(&bins, 4.0).unwrap();
    let (limit, far) = (sum.limit(3.0), 8.0);
    let b = sum.moved.value.exp() / far;
    // E[e^{λX}] is e^{λb}.
    let found = sum.log_far(&limit, (20.0, far), 20.0).exp();
    let exact = limit.log_mean.exp() + b * limit.log_mass.exp();
    assert!(
        exact <= found * (1.0 + 1e-12) && exact > 0.99 * found,
        "{exact} {found}"
    );
    assert_eq!(sum.log_far(&limit, (0.5, far), 0.0), f64::INFINITY);
    // Σ (Y − 1) is u − 1 + 1/λ.
    let (lambda, u) = (0.5f64, 30.0);
    let found = log_none(lambda * u, -lambda.ln(), lambda * (u - 1.0) + 1.0);
    assert!((found - (1.0 / lambda).ln()).abs() < 1e-12, "{found}");
}

/// E[(Y − 1)²; Y ≤ y] is below its bound, and hardly below it where few Y are above.
#[test]
fn squares_about_the_mean_are_bounded_and_attained() {
    for (v, y) in [(1e-6, 2.0), (0.25, 3.0), (0.25, 30.0), (4.0, 100.0), (12.0, 1e5)] {
        let part = Part {
            count: 1.0,
            variance: v,
        };
        let exact = mean(v, (-9.0, variable(v, y).min(20.0)), |y| (y - 1.0).powi(2));
        let found = log_square(&part, exact_log(y)).exp();
        assert!(
            exact <= found * (1.0 + 1e-6) && found < 1.5 * exact,
            "{v} {y}: {exact} {found}"
        );
    }
}

fn exact_log(y: f64) -> Logarithm {
    exact(y.ln())
}

/// At the estimate δ is what was asked for, and the slope is that of log δ. Where many Y count nothing is known.
#[test]
fn estimates_are_answers() {
    for (batches, log_delta) in [
        (vec![(684_109, 10.0)], -99.0),
        (vec![(31, 10.0)], -41.0),
        (vec![(40, 4.0), (60, 0.0)], -30.0),
    ] {
        let bins = Bins::new(&batches).unwrap();
        let (epsilon, slope) = estimate(&bins, log_delta).unwrap();
        let found = delta(&bins, epsilon).unwrap();
        assert!((found.log_upper - log_delta).abs() < 2e-3, "{epsilon}: {found:?}");
        let change = 1e-4 * epsilon;
        let measured = (found.log_upper - delta(&bins, epsilon + change).unwrap().log_upper) / change;
        assert!((slope / measured - 1.0).abs() < 1e-2, "{slope} {measured}");
    }
    assert!(estimate(&bins(&[(1000, 0.25)]), -12.0).is_none());
}
