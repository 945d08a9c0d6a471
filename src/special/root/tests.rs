use super::*;

#[test]
fn the_root_is_met_from_above_in_few_evaluations() {
    let mut evaluations = 0;
    let root = solve_decreasing(0.0, 4.0, 1e-12, |x: f64| {
        evaluations += 1;
        Ok::<_, ()>(2.0 - x * x)
    })
    .unwrap();
    assert!(root * root >= 2.0 && root - 2f64.sqrt() <= 1e-12);
    assert!(evaluations <= 20, "{evaluations}");
}

#[test]
fn a_step_function_takes_no_more_than_bisection() {
    let mut evaluations = 0;
    let root = solve_decreasing(0.0, 1.0, 1e-9, |x: f64| {
        evaluations += 1;
        Ok::<_, ()>(if x < 0.3 { f64::INFINITY } else { f64::NEG_INFINITY })
    })
    .unwrap();
    assert!(
        (0.3..0.3 + 1.1e-9).contains(&root) && evaluations <= 34,
        "{root} {evaluations}"
    );
}

#[test]
fn brackets_are_found_on_both_sides_and_where_values_end() {
    // 10 − x has its root at 10; beyond 12.3 there are no values.
    let value = |x: f64| (x < 12.3).then_some(10.0 - x);
    for start in [-30.0, 9.9, 10.5, 12.0] {
        let [low, high] = bracket_decreasing((start, 10.0 - start), [1e-3, 1.0, 8.0], -1e3..=1e3, value).unwrap();
        assert!(low.0 < 10.0 && high.0 >= 10.0, "{start} {low:?} {high:?}");
        assert_eq!((low.1, high.1), (10.0 - low.0, 10.0 - high.0));
    }
    let beyond = |x: f64| (x < 9.0).then_some(10.0 - x);
    assert!(bracket_decreasing((0.0, 10.0), [1e-3, 1.0, 8.0], -1e3..=1e3, beyond).is_none());
    assert!(bracket_decreasing((0.0, 10.0), [1e-3, 1.0, 8.0], -1e3..=9.0, value).is_none());
}

#[test]
fn false_positions_approach_the_root() {
    let (mut nearest, mut evaluations) = (f64::INFINITY, 0);
    false_position(((0.0, 2.0), (4.0, -14.0)), 8, |x| {
        evaluations += 1;
        nearest = nearest.min((x - 2f64.sqrt()).abs());
        Some(2.0 - x * x)
    });
    assert!(nearest < 0.05 && evaluations == 8, "{nearest} {evaluations}");
    false_position(((0.0, 1.0), (1.0, -1.0)), 8, |x| {
        evaluations += 1;
        assert_eq!(x, 0.5);
        None
    });
    assert_eq!(evaluations, 9);
}

#[test]
fn newton_in_a_bracket_finds_the_root_also_where_slopes_mislead() {
    let mut steps = 0;
    let cubic = newton_increasing((-10.0, 10.0), f64::EPSILON, 0.0, |x: f64| {
        steps += 1;
        (x * x * x - 2.0, 3.0 * x * x)
    });
    assert!((cubic - 2f64.cbrt()).abs() < 1e-15 && steps < 20, "{cubic} {steps}");
    // The arctangent sends Newton's method ever farther away from 1.4 on.
    let found = newton_increasing((-5.0, 100.0), 1e-15, 1.0, |x: f64| {
        ((x - 0.25).atan(), 1.0 / (1.0 + (x - 0.25).powi(2)))
    });
    assert!((found - 0.25).abs() < 1e-14, "{found}");
}

#[test]
fn newton_from_one_point_is_near_the_root_in_few_points() {
    for start in [-30.0, 0.5, 5.0] {
        let mut points = 0;
        let step = |x: f64| {
            points += 1;
            let step = 2.0 * (-x).exp() - 1.0;
            if step.abs() < 1e-3 { 0.0 } else { step.clamp(-2.0, 2.0) }
        };
        let (low, high) = newton_bracket(start, 40, |_| 1e-12, step).unwrap();
        assert!(
            low == high && (low - std::f64::consts::LN_2).abs() < 1e-3,
            "{start}: {low}"
        );
        assert!(points < 30, "{start}: {points}");
    }
}

#[test]
fn a_leap_is_enclosed_by_points_on_both_sides() {
    let mut points = 0;
    let step = |x: f64| {
        points += 1;
        if x < 0.3 { 1e-6 } else { -1.0 }
    };
    let (low, high) = newton_bracket(5.0, 40, |_| 1e-3, step).unwrap();
    assert!(low < 0.3 && high >= 0.3 && high - low <= 1e-3, "{low} {high}");
    // Six to an interval of length 1, and at most two for each of ten halvings.
    assert!(points <= 26, "{points}");
}

#[test]
fn newton_from_one_point_ends_where_points_or_numbers_do() {
    assert_eq!(newton_bracket(0.0, 3, |_| 1e-3, |_| 1.0), Some((2.0, f64::INFINITY)));
    assert_eq!(newton_bracket(0.0, 3, |_| 1e-3, |_| f64::INFINITY), None);
    assert_eq!(newton_bracket(0.0, 3, |_| 1e-3, |_| f64::NAN), None);
}

#[test]
fn bisection_ends_on_the_side_where_the_condition_is_met() {
    let found = bisect((0.0, 1.0), 100, |_| 1e-9, |x| Ok::<_, ()>(x > 0.3)).unwrap();
    assert!(found > 0.3 && found <= 0.3 + 1e-9, "{found}");
    let rough = bisect((0.0, 1.0), 3, |_| 0.0, |x| Ok::<_, ()>(x > 0.3)).unwrap();
    assert_eq!(rough, 0.375);
}

#[test]
fn golden_section_finds_a_minimum() {
    let (point, value) = golden_section(-3.0, 5.0, 60, |x| (x - 1.25).powi(2));
    assert!((point - 1.25).abs() < 1e-7 && value < 1e-14);
}

#[test]
fn brent_finds_a_smooth_minimum_in_few_values() {
    let mut calls = 0;
    let h = |x: f64| x.exp() - 2.0 * x;
    let found = brent([(-1.0, h(-1.0)), (0.5, h(0.5)), (3.0, h(3.0))], 1e-6, 80, |x| {
        calls += 1;
        h(x)
    });
    assert!(
        (found.0 - std::f64::consts::LN_2).abs() < 1e-6 && calls < 15,
        "{found:?} {calls}"
    );
}

#[test]
fn the_first_index_that_meets_a_condition_is_found() {
    for first in 3..=9 {
        assert_eq!(first_where(3, 9, |i| i >= first), first);
    }
    assert_eq!(first_where(4, 4, |_| true), 4);
}

#[test]
fn the_last_descent_is_the_minimum() {
    for (values, minimum) in [
        (&[3.0, 1.0, 0.5, 2.0][..], 2),
        (&[1.0, 2.0], 0),
        (&[2.0, 1.0, 1.0], 2),
        (&[], 0),
    ] {
        assert_eq!(last_descent(values, |&value| value), minimum);
    }
}

#[test]
fn a_tolerance_of_zero_ends_at_neighbouring_numbers() {
    let root = solve_decreasing(0.0, 2.0, 0.0, |x: f64| Ok::<_, ()>(2.0 - x * x)).unwrap();
    assert!(root * root >= 2.0 && root.next_down().powi(2) <= 2.0, "{root}");
}
