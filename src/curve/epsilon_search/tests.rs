//! Tests of the search for ε on curves whose roots are known.

use super::*;
use crate::curve::accuracy::MARGIN;

/// A number in [0, 1) that looks random, but depends on x alone.
fn noise(x: f64) -> f64 {
    let mixed = x.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) as f64 / 2f64.powi(64)
}

fn query(log_delta: f64, start: (f64, f64)) -> Query {
    let (epsilon, slope) = start;
    Query {
        log_delta,
        tolerance: 1e-6,
        margin: 0.0,
        start: StartingPoint { epsilon, slope },
        largest_loss: f64::INFINITY,
    }
}

/// log δ = −1 − ε/2 − ε², whose root is that of a quadratic equation.
fn log_curve(epsilon: f64) -> f64 {
    -1.0 - 0.5 * epsilon - epsilon * epsilon
}

fn root(log_delta: f64) -> f64 {
    0.25 * ((1.0 - 16.0 * (1.0 + log_delta)).sqrt() - 1.0)
}

/// However wide the enclosures are, wherever the number lies in them and wherever the search starts, the answer contains the root; it is
/// narrow where they are.
#[test]
fn the_answer_contains_the_root_of_an_analytic_curve() {
    for log_delta in [-1.5, -12.0, -700.0] {
        let exact = root(log_delta);
        for width in [1e-10, 1e-7, 1e-3, 0.5, 30.0] {
            for start in [(exact, 2.0 * exact + 0.5), (1e-9, 1e-3), (1e3, 1e9), (f64::NAN, 1.0)] {
                let curve = |epsilon: f64, _: &Accuracy| {
                    let (middle, below) = (log_curve(epsilon), noise(epsilon));
                    Enclosure::of_logs(middle - below * width, middle + (1.0 - below) * width)
                };
                let found = epsilon(curve, &query(log_delta, start)).unwrap().interval;
                let named = format!("{log_delta} {width} {start:?}: {found:?} {exact}");
                assert!(found.lower <= exact && exact <= found.upper, "{named}");
                assert!(found.upper.is_finite(), "{named}");
                if width <= 1e-7 {
                    assert!(found.upper - found.lower <= 2e-6 * exact, "{named}");
                }
            }
        }
    }
}

/// A question for δ to the tolerance confirms the answer: with the contours of the search, whether that has a margin or not.
#[test]
fn a_search_asks_for_the_contours_of_the_question_that_confirms_it() {
    let wanted = Accuracy::of_width(1e-6).cell_width;
    let exact = root(-3.0);
    for margin in [0.0, MARGIN * 1e-6] {
        let mut widths = Vec::new();
        let curve = |epsilon: f64, accuracy: &Accuracy| {
            widths.push(accuracy.cell_width);
            Enclosure::of_logs(log_curve(epsilon) - 1e-7, log_curve(epsilon) + 1e-7)
        };
        let query = Query {
            margin,
            ..query(-3.0, (exact, 2.0 * exact + 0.5))
        };
        epsilon(curve, &query).unwrap();
        assert!(widths.iter().all(|&width| width == wanted), "{margin}: {widths:?}");
    }
}

/// The ends are ε at which the curve was asked and answered on their side of δ.
#[test]
fn both_ends_were_certified_by_the_curve() {
    let log_delta = -12.0;
    let mut asked = Vec::new();
    let curve = |epsilon: f64, _: &Accuracy| {
        let found = Enclosure::of_logs(log_curve(epsilon) - 0.2, log_curve(epsilon) + 0.1);
        asked.push((epsilon, found));
        found
    };
    let found = epsilon(curve, &query(log_delta, (1.0, 1.0))).unwrap().interval;
    let at = |epsilon: f64| asked.iter().find(|(known, _)| *known == epsilon).unwrap().1;
    assert!(at(found.upper).log_upper <= log_delta && at(found.lower).log_lower > log_delta);
}

/// Answers to questions as wide as the margin, from the curve up, are at most δ at the upper end; with twice that width they are not. The margin is what was asked for, a
/// fiftieth of the tolerance where that is more, and no less than the search knew the curve to.
#[test]
fn an_upper_end_has_the_margin_or_says_that_it_has_none() {
    let margin = 1e-6;
    let with_margin = |log_delta: f64, width: f64| {
        let curve =
            |epsilon: f64, _: &Accuracy| Enclosure::of_logs(log_curve(epsilon), log_curve(epsilon) + width);
        let query = Query {
            margin,
            ..query(log_delta, (1.0, 1.0))
        };
        epsilon(curve, &query).unwrap()
    };
    for log_delta in [-12.0, -30.0, -200.0] {
        let exact = root(log_delta);
        // What log δ changes by within the tolerance.
        let change = 1e-6 * exact * (0.5 + 2.0 * exact);
        let margin = margin.max(HARDLY_LARGER * change);
        for width in [1e-8, 3.0 * margin] {
            let Found {
                interval, has_margin, ..
            } = with_margin(log_delta, width);
            assert!(has_margin, "{log_delta} {width}");
            let (at_upper, margin) = (log_curve(interval.upper) + width, 0.999 * margin.max(width));
            assert!(
                at_upper + margin <= log_delta && at_upper + 2.0 * margin > log_delta,
                "{log_delta} {width}"
            );
            assert!(interval.upper - interval.lower <= 1e-6 * interval.upper, "{log_delta}");
        }
        // What the search itself knows no better leaves room for nothing.
        assert!(!with_margin(log_delta, 0.6 * change).has_margin, "{log_delta}");
    }
    // Next to ε = 0 the margin would be more than the tolerance.
    let Found {
        interval, has_margin, ..
    } = with_margin(-1.01, 1e-12);
    assert!(!has_margin && interval.upper - interval.lower <= 1e-6 * interval.upper);
}

/// Where a search starts at the root and δ falls steeply, the slope is measured beside it: there is room for a margin as wide as the enclosures, which are far wider
/// than the margin that is asked for. On a curve that is flat there is none.
#[test]
fn a_steep_curve_has_a_margin_as_wide_as_its_enclosures() {
    for (slope, width, is_wide) in [
        (1e5, 2e-3, true),
        (1e5, 6e-3, true),
        (1e5, 0.05, false),
        (30.0, 2e-5, false),
    ] {
        let log_delta = -20.0;
        let curve = |epsilon: f64, _: &Accuracy| {
            let middle = log_delta - slope * (epsilon - 1.0);
            Enclosure::of_logs(middle - 0.5 * width, middle + 0.5 * width)
        };
        let query = Query {
            margin: 1e-6,
            ..query(log_delta, (1.0, 0.7 * slope))
        };
        let Found {
            interval, has_margin, ..
        } = epsilon(curve, &query).unwrap();
        assert_eq!(has_margin, is_wide, "{slope} {width}");
        let upper = curve(interval.upper, &Accuracy::of_width(1e-6)).log_upper;
        assert!(!has_margin || upper <= log_delta - width, "{slope} {width}: {upper}");
        assert!(interval.lower <= 1.0 && interval.upper >= 1.0, "{interval:?}");
        assert!(!has_margin || interval.upper - interval.lower <= 1e-6, "{interval:?}");
    }
}

#[test]
fn a_curve_without_lower_bounds_has_an_upper_end_only() {
    let curve = |epsilon: f64, _: &Accuracy| Enclosure::of_logs(f64::NEG_INFINITY, log_curve(epsilon));
    let found = epsilon(curve, &query(-12.0, (2.0, 4.0))).unwrap().interval;
    assert_eq!(found.lower, 0.0);
    assert!(
        found.upper >= root(-12.0) && found.upper < 1.01 * root(-12.0),
        "{found:?}"
    );
}

#[test]
fn a_start_whose_enclosure_says_little_is_left() {
    let log_delta = -12.0;
    let exact = root(log_delta);
    let curve = |epsilon: f64, _: &Accuracy| {
        let (below, above) = if epsilon < 0.1 { (40.0, 2.0) } else { (1e-9, 1e-9) };
        Enclosure::of_logs(log_curve(epsilon) - below, log_curve(epsilon) + above)
    };
    let found = epsilon(curve, &query(log_delta, (-1.0, 10.0))).unwrap().interval;
    assert!(found.lower <= exact && exact <= found.upper, "{found:?}");
    assert!(found.upper - found.lower <= 2e-6 * exact, "{found:?}");
}

#[test]
fn no_epsilon_is_needed_where_delta_is_small_enough_at_zero() {
    let curve = |epsilon: f64, _: &Accuracy| Enclosure::of_logs(log_curve(epsilon), log_curve(epsilon));
    assert_eq!(
        epsilon(curve, &query(-0.99, (0.1, 1.0))),
        Ok(Interval::exact(0.0).into())
    );
    // Beyond all bounds.
    let flat = |_: f64, _: &Accuracy| Enclosure::of_logs(-1.0, -1.0);
    assert_eq!(
        epsilon(flat, &query(-2.0, (1.0, 1.0))).unwrap().interval.upper,
        f64::INFINITY
    );
}

/// δ = 1 − e^{ε − L} of a loss that is L for certain.
#[test]
fn the_answer_is_below_the_largest_loss() {
    for (largest, delta) in [(3.0f64, 1e-12), (3.0, 0.3), (1e-3, 1e-7), (600.0, 1e-5)] {
        let curve = |epsilon: f64, _: &Accuracy| {
            let log = (-(epsilon - largest).exp_m1()).max(0.0).ln();
            Enclosure::of_logs(log - 1e-12, log + 1e-12)
        };
        let query = Query {
            largest_loss: largest,
            ..query(f64::ln(delta), (largest - 3.0 * delta, 1.0 / delta))
        };
        let exact = largest + (-delta).ln_1p();
        let found = epsilon(curve, &query).unwrap().interval;
        assert!(
            found.lower <= exact + 1e-15 * largest && exact <= found.upper + 1e-15 * largest,
            "{found:?} {exact}"
        );
        assert!(
            found.upper <= largest && found.upper - found.lower <= 2e-6 * largest,
            "{found:?} {exact}"
        );
    }
}

#[test]
fn contradictions_are_an_error() {
    let curve = |epsilon: f64, _: &Accuracy| {
        let log = log_curve(epsilon);
        Enclosure::of_logs(log - 1e-9, log).meet(Enclosure::of_logs(log + 0.1, log + 0.2))
    };
    assert_eq!(epsilon(curve, &query(-12.0, (2.0, 4.0))), Err(Error::Contradiction));
}

/// The first answer at 0 is contradicted and says nothing of the side of δ; a later one, which is not, says that 0 is the answer.
#[test]
fn a_contradiction_on_the_way_to_zero_is_an_error() {
    let mut asked = 0;
    let curve = |epsilon: f64, _: &Accuracy| {
        if epsilon > 0.0 {
            return Enclosure::of_logs(-13.0, -13.0);
        }
        asked += 1;
        if asked == 1 {
            Enclosure::of_logs(-13.0, -12.9).meet(Enclosure::of_logs(-11.1, -11.0))
        } else {
            Enclosure::of_logs(-14.0, -13.9)
        }
    };
    let found = epsilon(curve, &query(-12.0, (1e-3, 1.0)));
    assert_eq!((found, asked), (Err(Error::Contradiction), 2));
}

/// At ε = 0 even the coarsest answer must be at most δ.
#[test]
fn an_epsilon_of_zero_has_a_margin_where_a_coarse_answer_suffices() {
    let at = |excess: f64, margin: f64| {
        let curve = |epsilon: f64, _: &Accuracy| Enclosure::of_logs(-5.0 - epsilon - 0.01, -5.0 - epsilon);
        let query = Query {
            margin,
            ..query(-5.0 + excess, (0.0, 1.0))
        };
        let found = epsilon(curve, &query).unwrap();
        assert_eq!(found.interval, Interval::exact(0.0), "{excess}");
        found.has_margin
    };
    assert!(at(MARGIN_AT_ZERO + 1e-9, 1e-6) && !at(MARGIN_AT_ZERO - 1e-9, 1e-6));
    // Those who want none get none.
    assert!(!at(1.0, 0.0));
}

/// log δ = log(m(1 − e^{ε − L})), the curve next to a largest loss L of probability m.
fn next_to_largest(epsilon: f64, largest: f64, mass: f64) -> Enclosure {
    let log = mass.ln() + (-(epsilon - largest).exp_m1()).max(0.0).ln();
    Enclosure::of_logs(log - 1e-9, log + 1e-9)
}

/// A search that is to start beyond the largest loss starts below it by one over the slope. From half of it, with a slope for next to it, the search
/// took the first ε for the root: four steps of Laplace noise had an ε between 4.7 and 9.5.
#[test]
fn a_search_next_to_the_largest_loss_finds_both_ends() {
    let (largest, mass) = (9.5, 0.06f64);
    for distance in [1e-3, 1e-6, 1e-9, 1e-12] {
        let log_delta = mass.ln() + f64::ln(distance);
        let wanted = Query {
            largest_loss: largest,
            ..query(log_delta, (10.0, 1.0 / distance))
        };
        let mut asked = Vec::new();
        let curve = |epsilon: f64, _: &Accuracy| {
            asked.push(epsilon);
            next_to_largest(epsilon, largest, mass)
        };
        let Interval { lower, upper } = epsilon(curve, &wanted).unwrap().interval;
        let exact = largest + f64::ln_1p(-distance);
        assert!(
            lower <= exact && exact <= upper && upper - lower < 1e-5,
            "{lower} {upper} {exact}"
        );
        assert!(
            (largest - asked[0] - distance).abs() < 1e-3 * distance + 1e-14,
            "{asked:?}"
        );
        assert!(asked.len() < 12, "{asked:?}");
    }
}

/// A slope that is far too large does not end the search where it starts.
#[test]
fn a_steep_slope_at_the_start_is_measured_before_it_is_believed() {
    let log_delta = -12.0;
    let curve =
        |epsilon: f64, _: &Accuracy| Enclosure::of_logs(log_curve(epsilon) - 1e-9, log_curve(epsilon) + 1e-9);
    let found = epsilon(curve, &query(log_delta, (0.5, 1e12))).unwrap().interval;
    let exact = root(log_delta);
    assert!(
        found.lower <= exact && exact <= found.upper && found.width() < 1e-5,
        "{found:?}"
    );
}
