//! Curves of pairs against those of Gaussian pairs, and how an ε is confirmed.

use super::*;
use crate::curve::one_step::gaussian_delta;
use crate::step::{Group, Mechanism, Sampling};

fn full_batches(noise_multiplier: f64, steps: u64) -> PairCurve {
    let step = Step {
        mechanism: Mechanism::Gaussian { noise_multiplier },
        sampling: Sampling::Poisson { sample_rate: 1.0 },
        group: Group::of(1),
    };
    PairCurve::new(&[(step, steps)], Adjacency::AddRemove).unwrap()
}

/// A question for δ that answers more than a search did: ε grows until it does not, and by little more than that takes.
#[test]
fn an_epsilon_is_confirmed_by_a_question_for_delta() {
    let found = Interval { lower: 1.0, upper: 2.0 };
    // log δ = −ε/2·10⁻³ + c is small enough from 2.01 on.
    let log_delta = -10.0;
    let delta = |epsilon: f64| Ok(Enclosure::of_logs(-20.0, log_delta - 1e-3 * (epsilon - 2.01)));
    let is_met = |found: Enclosure| found.log_upper <= log_delta;
    let confirm =
        |delta: &dyn Fn(f64) -> Result<Enclosure>| confirmed((found, 0.0), log_delta, 1e-6, is_met, delta);
    let answer = confirm(&delta).unwrap();
    assert_eq!(answer.lower, 1.0);
    assert!(answer.upper >= 2.01 && answer.upper < 2.03, "{answer:?}");
    // One that never does has no certified ε, and one that does at once is left as it is.
    let never = |_: f64| Ok(Enclosure::of_logs(-20.0, -9.0));
    assert_eq!(confirm(&never).unwrap().upper, f64::INFINITY);
    let always = |_: f64| Ok(Enclosure::of_logs(-20.0, -10.0));
    assert_eq!(confirm(&always), Ok(found));
}

/// 25 steps of noise 5 are one Gaussian pair of distance 1: at the ends of the interval for ε its curve is on either side of δ.
#[test]
fn bounds_on_epsilon_enclose_that_of_the_gaussian_curve() {
    for log_delta in [-3.0, -11.5, -300.0] {
        let found = full_batches(5.0, 25).confirmed_epsilon(log_delta, 1e-6).unwrap();
        assert!(gaussian_delta(1.0, found.upper).log_lower <= log_delta, "{found:?}");
        assert!(gaussian_delta(1.0, found.lower).log_upper >= log_delta, "{found:?}");
        assert!(found.upper - found.lower <= 2e-6 * found.upper, "{found:?}");
    }
    let zero = full_batches(5.0, 25).confirmed_epsilon(gaussian_delta(1.0, 0.0).log_upper + 1e-9, 1e-6);
    assert_eq!(zero, Ok(Interval::exact(0.0)));
}

/// An ε next to 0 grows by no more than its own tolerance, not by that of larger ones.
#[test]
fn an_epsilon_next_to_zero_is_confirmed_closely() {
    let found = Interval {
        lower: 3e-5,
        upper: 3.000_001e-5,
    };
    let log_delta = -10.0;
    // log δ falls by 10⁴ for each unit, and is too large by 1e-8.
    let delta = |epsilon: f64| {
        Ok(Enclosure::of_logs(
            -20.0,
            log_delta + 1e-8 - 1e4 * (epsilon - found.upper),
        ))
    };
    let is_met = |enclosure: Enclosure| enclosure.log_upper <= log_delta;
    for slope in [0.0, 1e4] {
        let answer = confirmed((found, slope), log_delta, 1e-6, is_met, delta).unwrap();
        assert!(answer.upper - found.upper < 0.2e-6 * found.upper, "{slope}: {answer:?}");
    }
}

/// Two steps of eight records that are rarely in a batch. δ for "add" is 0.4 of that for "remove", and no contour knows it to 1e-6: all that is asked of it is
/// that it is smaller. To 1e-6 it takes a grid and 200 ms, where the other direction takes one.
#[test]
fn of_the_other_direction_only_the_side_is_asked() {
    let step = Step {
        mechanism: Mechanism::Gaussian { noise_multiplier: 6.54 },
        sampling: Sampling::Poisson { sample_rate: 1.95e-4 },
        group: Group::of(8),
    };
    let mut curve = PairCurve::new(&[(step, 2)], Adjacency::AddRemove).unwrap();
    curve.confirmed_epsilon(9.46e-6f64.ln(), 1e-6).unwrap();
    let work = [0, 1].map(|i: usize| curve.losses[i].work());
    assert!(work[1] < 2 * work[0], "{work:?}");
}

/// Steps out from an ε of 0 lead away from it.
#[test]
fn an_epsilon_of_zero_that_is_not_confirmed_grows() {
    let delta = |epsilon: f64| Ok(Enclosure::of_logs(f64::NEG_INFINITY, -6.9 - 1e4 * epsilon));
    let is_met = |found: Enclosure| found.log_upper <= -7.0;
    let found = confirmed((Interval::exact(0.0), 0.0), -7.0, 1e-6, is_met, delta).unwrap();
    assert!(
        found.lower == 0.0 && found.upper >= 1e-5 && found.upper < 1e-3,
        "{found:?}"
    );
}

/// With the factor e^ε the root is that of log δ(ε) + ε.
#[test]
fn epsilon_of_a_multiple_is_the_root_of_the_product() {
    let start = StartingPoint {
        epsilon: 2.0,
        slope: 2.0,
    };
    let (found, _) = full_batches(5.0, 25)
        .epsilon_of_multiple(|epsilon| epsilon, (-8.0, 1e-6), start)
        .unwrap();
    assert!(
        gaussian_delta(1.0, found.upper).log_lower + found.upper <= -8.0,
        "{found:?}"
    );
    assert!(
        gaussian_delta(1.0, found.lower).log_upper + found.lower >= -8.0,
        "{found:?}"
    );
    assert!(found.upper - found.lower <= 2e-6 * found.upper, "{found:?}");
}
