//! Tests of the curve of a run, of all routes together.

use super::*;
use crate::step::{Group, Mechanism, Sampling};

fn gaussian(sigma: f64, sampling: Sampling, size: u64) -> Step {
    Step {
        mechanism: Mechanism::Gaussian {
            noise_multiplier: sigma,
        },
        sampling,
        group: Group::of(size),
    }
}

fn poisson(sample_rate: f64) -> Sampling {
    Sampling::Poisson { sample_rate }
}

/// The rows of tests/data/privacy_curves.csv: step, number of steps, direction, ε, δ, error of δ.
fn references() -> Vec<(Step, u64, Adjacency, f64, f64, f64)> {
    let text = include_str!("../../../tests/data/privacy_curves.csv");
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |i: usize| fields[i].parse::<f64>().unwrap();
        let words: Vec<&str> = fields[2].split(' ').collect();
        let mut step = match words[0] {
            "binomial" => gaussian(number(1), poisson(words[2].parse().unwrap()), words[1].parse().unwrap()),
            "hypergeometric" => {
                let sampling = Sampling::FixedBatch {
                    batch_size: words[2].parse().unwrap(),
                    dataset_size: words[3].parse().unwrap(),
                };
                gaussian(number(1), sampling, words[1].parse().unwrap())
            }
            _ => gaussian(number(1), poisson(0.0), 1),
        };
        if words[0] == "rates" {
            let rates: Vec<f64> = words[1].split(';').map(|rate| rate.parse().unwrap()).collect();
            step.group.size = rates.len() as u64;
            step.group.rates = Some(rates);
        }
        let adjacency = if fields[4] == "add" {
            Adjacency::Add
        } else {
            Adjacency::Remove
        };
        let error = 3.0 * 10f64.powf(-number(7));
        (step, number(3) as u64, adjacency, number(5), number(6), error)
    })
    .collect()
}

#[test]
fn every_reference_lies_in_a_narrow_interval() {
    let rows = references();
    assert!(rows.len() > 20);
    for (step, steps, adjacency, epsilon, delta, error) in rows {
        let mut run = Composition::new(&[(step.clone(), steps)], adjacency).unwrap();
        let found = run.delta(epsilon, 1e-6).unwrap();
        let named = format!("{step:?} {steps} {adjacency:?}: {found:?} {delta}");
        assert!(
            found.lower() <= delta * (1.0 + error) && found.upper() >= delta * (1.0 - error),
            "{named}"
        );
        assert!(found.width() <= 1e-6, "{named}");
        let Interval { lower, upper } = run.epsilon(delta, 1e-6).unwrap();
        let slack = error / 0.01; // log δ falls by more than 0.01 per unit of ε in all of them
        assert!(
            lower <= epsilon + slack && upper >= epsilon - slack,
            "{named}: {lower} {upper}"
        );
    }
}

#[test]
fn routes_agree_where_they_overlap() {
    let fixed = Sampling::FixedBatch {
        batch_size: 100,
        dataset_size: 1000,
    };
    let cases = [
        (gaussian(1.0, poisson(0.2), 1), 10, Adjacency::Remove, 4.0),
        (gaussian(1.0, poisson(0.2), 1), 10, Adjacency::Add, 1.5),
        (gaussian(2.0, poisson(0.05), 3), 50, Adjacency::Add, 1.5),
        (gaussian(1.5, poisson(0.05), 1), 40, Adjacency::Replace, 2.0),
        (gaussian(3.0, fixed, 1), 60, Adjacency::Replace, 2.0),
        (gaussian(60.0, fixed, 3), 400, Adjacency::Replace, 1.0),
    ];
    for (step, steps, adjacency, epsilon) in cases {
        let mut run = Composition::new(&[(step.clone(), steps)], adjacency).unwrap();
        let inversion = run
            .delta_by(Route::Inversion, epsilon, 1e-6)
            .unwrap_or_else(|error| panic!("{step:?} {adjacency:?} {error}"));
        let grid = run.delta_by(Route::Grid, epsilon, 1e-4).unwrap();
        let renyi = run.delta_by(Route::Renyi, epsilon, 1e-4).unwrap();
        assert!(
            inversion.log_lower <= grid.log_upper && grid.log_lower <= inversion.log_upper,
            "{step:?} {adjacency:?}: {inversion:?} {grid:?}"
        );
        assert!(
            inversion.width() < 1e-4 && grid.width() < 1e-2,
            "{step:?}: {inversion:?} {grid:?}"
        );
        assert!(renyi.log_upper >= grid.log_lower);
    }
}

#[test]
fn one_step_on_a_grid_is_the_closed_form() {
    let laplace = Step {
        mechanism: Mechanism::Laplace { scale: 2.0 },
        sampling: poisson(0.1),
        group: Group::of(3),
    };
    for step in [gaussian(0.8, poisson(0.1), 3), laplace] {
        for adjacency in [Adjacency::Remove, Adjacency::Add] {
            let mut run = Composition::new(&[(step.clone(), 1)], adjacency).unwrap();
            for epsilon in [0.02, 0.1] {
                let exact = run.delta_by(Route::OneStep, epsilon, 1e-6).unwrap();
                let grid = run
                    .delta_by(Route::Grid, epsilon, 1e-4)
                    .unwrap_or_else(|error| panic!("{step:?} {adjacency:?} {epsilon} {exact:?} {error}"));
                assert!(exact.width() < 1e-9, "{exact:?}");
                assert!(
                    exact.log_lower <= grid.log_upper && grid.log_lower <= exact.log_upper,
                    "{step:?} {adjacency:?} {epsilon}: {exact:?} {grid:?}"
                );
            }
        }
    }
}

#[test]
fn no_noise_reveals_whether_a_member_was_there() {
    let step = gaussian(0.0, poisson(0.01), 1);
    let mut run = Composition::new(&[(step, 10)], Adjacency::AddRemove).unwrap();
    let seen = -(10.0 * (-0.01f64).ln_1p()).exp_m1();
    assert!((run.delta(3.0, 1e-6).unwrap().upper() / seen - 1.0).abs() < 1e-12);
    assert_eq!(run.epsilon(1e-5, 1e-6).unwrap(), Interval::exact(f64::INFINITY));
}

#[test]
fn extreme_corners_end_with_an_ordered_interval() {
    for (sigma, rate, steps, size, delta) in [
        (0.05, 0.5, 1_000, 10_000, 1e-5),
        (1e4, 1e-9, 1_000_000_000, 1, 1e-300),
        (0.3, 1e-6, 1_000_000, 100, 1e-30),
        (1e4, 1.0, 1, 1, 1e-300),
        (0.05, 1e-3, 3, 2, 0.5),
    ] {
        let step = gaussian(sigma, poisson(rate), size);
        let mut run = Composition::new(&[(step, steps)], Adjacency::AddRemove).unwrap();
        let Interval { lower, upper } = run.epsilon(delta, 1e-6).unwrap();
        assert!(
            0.0 <= lower && lower <= upper,
            "{sigma} {rate} {steps} {size}: {lower} {upper}"
        );
    }
}

/// Fresh questions for δ at answers for ε: one record, groups, few and many steps, far out and next to 0.
#[test]
fn delta_at_an_epsilon_is_at_most_the_delta_it_was_asked_for() {
    #[rustfmt::skip]
    let runs = [
        (1.0, 0.01, 1000, 1, 1e-5), (1.0, 0.01, 1000, 16, 1e-5), (0.7, 3e-4, 40, 2, 1e-7), (2.0, 0.2, 3, 5, 1e-3),
        (5.0, 0.001, 20, 1, 1e-4), (0.5, 1e-4, 2, 1, 1e-6), (1.3, 0.05, 300, 3, 1e-12), (19.07, 2.97e-4, 3, 1, 2.5e-7),
    ];
    for (sigma, rate, steps, size, delta) in runs {
        let new =
            || Composition::new(&[(gaussian(sigma, poisson(rate), size), steps)], Adjacency::AddRemove).unwrap();
        let epsilon = new().epsilon(delta, 1e-6).unwrap();
        let found = new().delta(epsilon.upper, 1e-6).unwrap();
        assert!(
            found.upper() <= delta,
            "{sigma} {rate} {steps} {size}: {epsilon:?} {found:?}"
        );
    }
}

/// The estimates by which planners start: within a fifth of a per cent for most typical runs. They are no bounds: of the first of these runs
/// the saddle point alone tells, and it is an eighth below.
#[test]
fn estimates_of_epsilon_are_close_for_most_typical_runs() {
    for (sigma, rate, steps, size, most) in [
        (1.0, 0.01, 1_000, 1, 0.13),
        (0.586, 0.01, 1_000, 1, 2e-3),
        (2.3, 0.02, 3_000, 1, 2e-3),
        (1.7, 0.01, 1_000, 8, 2e-3),
        (12.0, 0.01, 1_000, 64, 2e-3),
        (5.0, 1.0, 10, 1, 2e-3),
    ] {
        let step = gaussian(sigma, poisson(rate), size);
        let mut run = Composition::new(&[(step, steps)], Adjacency::AddRemove).unwrap();
        let found = run.estimate(1e-5f64.ln()).unwrap().epsilon;
        let exact = run.epsilon(1e-5, 1e-6).unwrap().upper;
        assert!((found / exact - 1.0).abs() < most, "{sigma} {size}: {found} {exact}");
    }
}

/// Far below the δ that it is compared with: the bound that decides for one direction knows next to nothing of its δ, and the other one is not
/// asked whether it is as small.
#[test]
fn a_comparison_that_a_bound_decides_is_right_in_all_directions() {
    let sampling = Sampling::FixedBatch {
        batch_size: 534,
        dataset_size: 1_000_000,
    };
    let step = gaussian(18.243_442_810_134_45, sampling, 2);
    let mut run = Composition::new(&[(step, 44_020_272)], Adjacency::AddRemove).unwrap();
    let (epsilon, log_delta) = (24.456_342_557_437_48, 8.435_042_122_609_203e-9f64.ln());
    let compared = run.delta_compared_with(log_delta, epsilon, 1e-6).unwrap();
    let exact = run.delta(epsilon, 1e-6).unwrap();
    assert!(
        compared.log_upper <= log_delta && exact.width() < 1e-6,
        "{compared:?} {exact:?}"
    );
    assert!(
        compared.log_lower <= exact.log_upper && exact.log_lower <= compared.log_upper,
        "{compared:?} {exact:?}"
    );
}
