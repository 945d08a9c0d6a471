//! Properties that hold for every input, checked on random ones over the whole documented range.

use crate::loss::MixturePair;
use crate::monitor::Unwatched;
use crate::renyi::Conversion;
use crate::renyi::{DpTarget, NoiseSearch, calibrate_dp};
use crate::renyi::{GaussianPair, GroupBound, Run, group_rdp};
use crate::simulation;
use crate::simulation::Sample;
use crate::simulation::{Settings, monte_carlo_delta};
use crate::special::log_space::log_sum_exp;
use crate::step::{Adjacency, Direction, GroupLaw, Mechanism, Step};
use proptest::prelude::*;

/// σ in [0.05, 10⁴], evenly in its logarithm.
fn noise_multipliers() -> impl Strategy<Value = f64> {
    (-3.0..9.2f64).prop_map(f64::exp)
}

/// q in [1e-9, 1], evenly in its logarithm.
fn sample_rates() -> impl Strategy<Value = f64> {
    (-20.7..0.0f64).prop_map(f64::exp)
}

/// Orders in (1, 10⁴], evenly in log(α − 1).
fn orders() -> impl Strategy<Value = f64> {
    (-9.0..9.2f64).prop_map(|position| 1.0 + position.exp())
}

/// Group sizes in [1, 2000], evenly in their logarithm.
fn group_sizes() -> impl Strategy<Value = u64> {
    (0.0..7.6f64).prop_map(|position| position.exp() as u64)
}

fn directions() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Add), Just(Direction::Remove)]
}

fn gaussian(noise_multiplier: f64, sample_rate: f64, group_size: u64) -> Step {
    Step::poisson(Mechanism::Gaussian { noise_multiplier }, sample_rate, group_size)
}

fn divergence(k: u64, q: f64, sigma: f64, order: f64, direction: Direction) -> (f64, f64) {
    let mut step = GaussianPair::new(GroupLaw::binomial(k, q).unwrap(), sigma).unwrap();
    let found = step.of_order(order, direction);
    (found.value, found.upper)
}

/// Comparisons of two computed values allow for the error that either may have.
const RELATIVE_ERROR: f64 = 1e-10;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn divergences_are_certified_and_finite(
        k in group_sizes(), q in sample_rates(), sigma in noise_multipliers(), order in orders(), direction in directions(),
    ) {
        let (value, upper) = divergence(k, q, sigma, order, direction);
        prop_assert!(value >= 0.0 && upper >= value && upper.is_finite());
        prop_assert!(upper <= value * (1.0 + RELATIVE_ERROR));
    }

    #[test]
    fn divergences_grow_with_the_order_the_rate_the_group_and_less_noise(
        k in group_sizes(), q in sample_rates(), sigma in noise_multipliers(), order in orders(), direction in directions(),
    ) {
        let here = divergence(k, q, sigma, order, direction).0 * (1.0 - RELATIVE_ERROR);
        prop_assert!(here <= divergence(k, q, sigma, (1.5 * order).min(1e4), direction).0);
        prop_assert!(here <= divergence(k, (1.5 * q).min(1.0), sigma, order, direction).0);
        prop_assert!(here <= divergence(k + 1, q, sigma, order, direction).0);
        prop_assert!(here <= divergence(k, q, 0.9 * sigma, order, direction).0);
    }

    #[test]
    fn published_bounds_are_above_the_exact_divergence(
        k in group_sizes(), q in sample_rates(), sigma in noise_multipliers(), order in 1.0001..64.0f64, direction in directions(),
    ) {
        let exact = divergence(k, q, sigma, order, direction).0;
        let step = gaussian(sigma, q, k);
        for bound in [GroupBound::Jensen, GroupBound::BlackBox] {
            let published = group_rdp(&step, &[order], bound, Adjacency::AddRemove).unwrap()[0];
            prop_assert!(exact <= published * (1.0 + RELATIVE_ERROR), "{bound:?} {published} < {exact}");
        }
        let lower = group_rdp(&step, &[order], GroupBound::Lower, Adjacency::AddRemove).unwrap()[0];
        prop_assert!(direction == Direction::Add || lower <= exact * (1.0 + RELATIVE_ERROR), "{lower} > {exact}");
    }

    #[test]
    fn group_laws_sum_to_one(k in group_sizes(), q in sample_rates(), rates in prop::collection::vec(0.0..=1.0f64, 1..40)) {
        prop_assert!(log_sum_exp(GroupLaw::binomial(k, q).unwrap().log_weights()).abs() < 1e-12);
        prop_assert!(log_sum_exp(GroupLaw::poisson_binomial(&rates).unwrap().log_weights()).abs() < 1e-12);
        prop_assert!(log_sum_exp(GroupLaw::hypergeometric(k, 256, 60_000).unwrap().log_weights()).abs() < 1e-12);
    }

    #[test]
    fn the_log_ratio_increases_and_is_finite(
        k in group_sizes(), q in sample_rates(), sigma in noise_multipliers(), x in -1e6..1e6f64, step in 1e-3..10.0f64,
    ) {
        let pair = MixturePair::new(&GroupLaw::binomial(k, q).unwrap(), sigma).unwrap();
        let (low, high) = (pair.log_ratio(x), pair.log_ratio(x + step));
        prop_assert!(low.is_finite() && high >= low - 1e-14 * low.abs());
    }

    #[test]
    fn intervals_hold_the_mean_of_what_was_seen(values in prop::collection::vec(0.0..=1.0f64, 1..200), confidence in 0.01..0.9999f64) {
        let sample = Sample {
            count: values.len() as f64,
            sum: values.iter().sum(),
            sum_of_squares: values.iter().map(|v| v * v).sum(),
        };
        let (lower, upper) = sample.interval(confidence);
        prop_assert!(0.0 <= lower && lower <= sample.mean() + 1e-15 && sample.mean() <= upper + 1e-15 && upper <= 1.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn epsilon_and_delta_are_consistent_and_monotone(
        k in group_sizes(), q in sample_rates(), sigma in noise_multipliers(), steps in 1..1_000_000u64, log_delta in -60.0..-1.0f64,
    ) {
        let delta = log_delta.exp();
        let of = |steps| {
            Run::new(&[(gaussian(sigma, q, k), steps)], Adjacency::AddRemove, GroupBound::Exact).unwrap()
        };
        let epsilon = of(steps).epsilon(delta).unwrap().value;
        prop_assert!(epsilon.is_finite() && epsilon >= 0.0);
        prop_assert!(of(2 * steps).epsilon(delta).unwrap().value >= epsilon * (1.0 - 1e-5));
        prop_assert!(of(steps).epsilon(0.5 * delta).unwrap().value >= epsilon * (1.0 - 1e-5));
        // δ(ε) found for that ε is at most the δ asked for, but for where the search over orders ended.
        prop_assert!(of(steps).delta(epsilon).unwrap().value.ln() <= log_delta + 1e-3 * log_delta.abs());
    }

    #[test]
    fn the_noise_multiplier_keeps_its_promise(
        k in 1..64u64, q in sample_rates(), steps in 1..10_000u64, epsilon in 0.1..100.0f64,
    ) {
        let run = NoiseSearch { step: gaussian(f64::NAN, q, k), count: steps, bound: GroupBound::Exact, adjacency: Adjacency::AddRemove };
        let target = DpTarget { epsilon, delta: 1e-6, conversion: Conversion::Canonne };
        let sigma = calibrate_dp(&run, target, &[]).unwrap();
        let steps = [(gaussian(sigma, q, k), steps)];
        let reached = Run::new(&steps, Adjacency::AddRemove, GroupBound::Exact).unwrap().epsilon(1e-6).unwrap();
        prop_assert!(reached.value <= epsilon);
    }

    #[test]
    fn renyi_bounds_are_above_monte_carlo(
        k in 1..20u64, q in sample_rates(), log_sigma in -1.0..3.0f64, steps in 1..50u64, direction in directions(),
    ) {
        let sigma = log_sigma.exp();
        let epsilon = 0.5;
        let bound = Run::new(&[(gaussian(sigma, q, k), steps)], Adjacency::AddRemove, GroupBound::Exact).unwrap().delta(epsilon).unwrap().value;
        let drawn = [simulation::Segment { law: GroupLaw::binomial(k, q).unwrap(), noise_multiplier: sigma, steps }];
        let settings = Settings { samples: 2000, direction, tilt: None, seed: 5, confidence: 1.0 - 1e-9 };
        let found = monte_carlo_delta(epsilon, &drawn, &settings, &Unwatched).unwrap();
        prop_assert!(found.lower <= bound && found.lower <= found.estimate && found.estimate <= found.upper);
    }
}
