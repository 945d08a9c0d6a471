use super::*;
use crate::curve::composition::Composition;
use crate::monitor::Unwatched;
use crate::step::{Adjacency, Direction, Group, Mechanism, Sampling};

fn step(sampling: Sampling, noise_multiplier: f64, members: u64) -> Step {
    Step {
        mechanism: Mechanism::Gaussian { noise_multiplier },
        sampling,
        group: Group::of(members),
    }
}

fn settings(samples: u64, direction: Direction, seed: u64) -> Settings {
    Settings {
        samples,
        direction,
        tilt: None,
        seed,
        confidence: 0.999,
    }
}

fn allocation(batches: u64, times: u64) -> Sampling {
    Sampling::RandomAllocation { batches, times }
}

/// One record: the exact values, from likely to rare, whole epochs, parts of epochs and bins that stay.
#[test]
fn exact_values_of_one_record_lie_inside_narrow_intervals() {
    let bins = |batches| Sampling::FixedBins { batches };
    for (sampling, noise, steps, epsilon) in [
        (allocation(10, 1), 1.0, 10, 1.0),
        (allocation(100, 1), 1.0, 100, 0.857_986),
        (allocation(100, 1), 2.0, 1000, 0.6031),
        (allocation(20, 1), 1.0, 47, 2.0),
        (bins(20), 2.0, 130, 1.0),
        (bins(20), 2.0, 13, 0.3),
    ] {
        let step = step(sampling, noise, 1);
        for (direction, adjacency) in [(Direction::Remove, Adjacency::Remove), (Direction::Add, Adjacency::Add)] {
            let mut run = Composition::new(&[(step.clone(), steps)], adjacency).unwrap();
            let exact = run.delta(epsilon, 1e-7).unwrap().certified().unwrap().upper();
            let found =
                allocation_monte_carlo_delta(epsilon, &step, steps, &settings(40_000, direction, 7), &Unwatched)
                    .unwrap();
            assert!(
                found.lower <= exact * (1.0 + 1e-6) && exact <= found.upper,
                "{sampling:?} {direction:?}: {found:?} {exact:e}"
            );
            assert!(
                found.upper < 1.7 * found.lower,
                "{sampling:?} {direction:?}: {found:?} {exact:e}"
            );
        }
    }
}

/// Added records with ratios far below 1e-12: the interval holds δ whether a tilt serves it or not.
///
/// One bin is the Gaussian mechanism with σ/2, δ(12) = Φ(−5) − e^12·Φ(−7) (mpmath); the others are integrals over the law of the mean ratio.
#[test]
fn intervals_hold_where_added_records_have_very_small_ratios() {
    let bins = |batches| Sampling::FixedBins { batches };
    for (sampling, noise, steps, epsilon, low, high) in [
        (bins(1), 1.0, 4, 12.0, 7.835_594e-8, 7.835_595e-8),
        (bins(10), 1.0, 400, 28.5, 3.69e-10, 3.71e-10),
        (allocation(5, 1), 0.1, 5, 40.0, 0.19, 0.52),
    ] {
        let step = step(sampling, noise, 1);
        let settings = settings(20_000, Direction::Add, 5);
        let found = allocation_monte_carlo_delta(epsilon, &step, steps, &settings, &Unwatched).unwrap();
        assert!(found.lower <= high && low <= found.upper, "{sampling:?}: {found:?}");
    }
}

/// Steps of several schemes in one run: the exact values of one record, which is in the sum of a Poisson step up to twice, and groups of
/// Poisson samples alone, whose curve is exact too.
#[test]
fn exact_values_of_mixed_runs_lie_inside_narrow_intervals() {
    let poisson = |sample_rate| Sampling::Poisson { sample_rate };
    let bins = Sampling::FixedBins { batches: 6 };
    let dealt = vec![
        (step(allocation(10, 1), 1.0, 1), 20),
        (step(allocation(10, 1), 1.5, 1), 13),
        (step(poisson(0.1), 1.2, 2), 4),
        (step(bins, 3.0, 1), 15),
    ];
    let singles = vec![
        (step(allocation(10, 1), 1.0, 1), 20),
        (step(poisson(0.1), 1.2, 1), 4),
        (step(bins, 3.0, 1), 15),
    ];
    let samples = vec![(step(poisson(0.05), 1.0, 3), 8), (step(poisson(1.0), 6.0, 3), 2)];
    for (run, epsilon, closely) in [(&singles, 2.5, 1.6), (&dealt, 2.5, 1.6), (&samples, 2.0, 2.5)] {
        for (direction, adjacency) in [(Direction::Remove, Adjacency::Remove), (Direction::Add, Adjacency::Add)] {
            let mut curve = Composition::new(run, adjacency).unwrap();
            let exact = curve.delta(epsilon, 1e-7).unwrap().certified().unwrap().upper();
            let found = run_monte_carlo_delta(epsilon, run, &settings(40_000, direction, 11), &Unwatched).unwrap();
            assert!(
                found.lower <= exact * (1.0 + 1e-6) && exact <= found.upper,
                "{direction:?}: {found:?} {exact:e}"
            );
            // Where the sum of a step holds more than one member, added members are drawn without a tilt.
            let is_tilted = direction == Direction::Remove || run.iter().all(|(step, _)| step.group.size == 1);
            assert!(
                !is_tilted || found.upper < closely * found.lower,
                "{direction:?}: {found:?} {exact:e}"
            );
        }
    }
}

/// δ of two members or of a record in several batches: by a grid over the two or three outputs of an epoch.
fn by_grid(
    density: impl Fn(&[f64]) -> f64,
    outputs: usize,
    sigma: f64,
    epsilon: f64,
    direction: Direction,
) -> f64 {
    const POINTS: usize = 120;
    let (low, width) = (-8.0 * sigma, (16.0 * sigma + 2.0) / POINTS as f64);
    let normal = |x: f64| (-0.5 * (x / sigma).powi(2)).exp() / (sigma * (2.0 * std::f64::consts::PI).sqrt());
    let mut sum = 0.0;
    for code in 0..POINTS.pow(outputs as u32) {
        let x: Vec<f64> = (0..outputs)
            .map(|i| low + width * (code / POINTS.pow(i as u32) % POINTS) as f64)
            .collect();
        let q: f64 = x.iter().map(|x| normal(*x)).product();
        let w = density(&x);
        let value = match direction {
            Direction::Remove => w - epsilon.exp(),
            Direction::Add => 1.0 - epsilon.exp() * w,
        };
        sum += value.max(0.0) * q;
    }
    sum * width.powi(outputs as i32)
}

#[test]
fn two_members_and_two_batches_of_three_agree_with_integrals() {
    let (sigma, epsilon) = (1.3f64, 0.9);
    let v = sigma.powi(-2);
    let shifted = |x: &[f64], counts: [f64; 3]| -> f64 {
        x.iter()
            .zip(counts)
            .map(|(x, n)| n * x * v - 0.5 * n * n * v)
            .sum::<f64>()
            .exp()
    };
    let pairs = [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]];
    let singles = [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]];
    let several = |x: &[f64]| pairs.iter().map(|counts| shifted(x, *counts)).sum::<f64>() / 3.0;
    let members = |x: &[f64]| {
        (2.0 * pairs.iter().map(|counts| shifted(x, *counts)).sum::<f64>()
            + singles.iter().map(|counts| shifted(x, *counts)).sum::<f64>())
            / 9.0
    };
    for direction in Direction::BOTH {
        let cases = [
            (
                step(allocation(3, 2), sigma, 1),
                by_grid(several, 3, sigma, epsilon, direction),
            ),
            (
                step(allocation(3, 1), sigma, 2),
                by_grid(members, 3, sigma, epsilon, direction),
            ),
        ];
        for (step, exact) in cases {
            let found =
                allocation_monte_carlo_delta(epsilon, &step, 3, &settings(100_000, direction, 3), &Unwatched)
                    .unwrap();
            assert!(
                found.lower <= exact && exact <= found.upper,
                "{step:?} {direction:?}: {found:?} {exact}"
            );
            assert!(found.upper < 1.1 * found.lower, "{found:?}");
        }
    }
}

/// Groups: below the certified bound with the pattern published, above δ of one record, and above the same batches after fewer epochs.
#[test]
fn groups_lie_between_one_record_and_the_bound() {
    let delta = |members, steps, direction| {
        let step = step(allocation(100, 1), 2.0, members);
        allocation_monte_carlo_delta(1.2, &step, steps, &settings(20_000, direction, 1), &Unwatched).unwrap()
    };
    for direction in Direction::BOTH {
        let (two, four, fewer) = (
            delta(2, 1000, direction),
            delta(4, 1000, direction),
            delta(4, 700, direction),
        );
        assert!(
            two.upper < four.lower && fewer.upper < four.lower,
            "{direction:?}: {two:?} {four:?} {fewer:?}"
        );
        assert!(
            two.upper < 2.5 * two.lower && four.upper < 2.5 * four.lower,
            "{direction:?}: {two:?} {four:?}"
        );
        let adjacency = if direction == Direction::Add {
            Adjacency::Add
        } else {
            Adjacency::Remove
        };
        let mut bound = Composition::new(&[(step(allocation(100, 1), 2.0, 2), 1000)], adjacency).unwrap();
        let bound = bound.delta(1.2, 1e-4).unwrap().certified().unwrap().upper();
        assert!(two.lower <= bound, "{two:?} {bound:e}");
    }
}

/// Rare losses of a group of eight, and of a record in five batches, have an interval.
#[test]
fn rare_losses_have_intervals() {
    let (group, several) = (step(allocation(200, 1), 2.0, 8), step(allocation(200, 5), 2.0, 1));
    for (step, epsilon, direction) in [
        (&group, 1.5, Direction::Remove),
        (&several, 0.5, Direction::Remove),
        (&several, 0.5, Direction::Add),
    ] {
        let settings = settings(20_000, direction, 2);
        let found = allocation_monte_carlo_delta(epsilon, step, 400, &settings, &Unwatched).unwrap();
        assert!(
            found.lower > 0.0 && found.upper < 1e-2 && found.upper < 10.0 * found.lower,
            "{step:?} {direction:?} {found:?}"
        );
    }
}

#[test]
fn intervals_cover_as_often_as_they_say() {
    let step = step(allocation(10, 1), 1.0, 1);
    let mut missed = 0;
    for seed in 0..200 {
        let settings = Settings {
            confidence: 0.9,
            ..settings(500, Direction::Remove, seed)
        };
        let found = allocation_monte_carlo_delta(1.0, &step, 10, &settings, &Unwatched).unwrap();
        missed += u32::from(!(found.lower <= 2.782_848_682_9e-3 && 2.782_848_682_9e-3 <= found.upper));
    }
    // Twenty are expected at most; 35 have a probability of 1e-3.
    assert!(missed < 35, "{missed}");
}

#[test]
fn threads_change_nothing_and_no_steps_reveal_nothing() {
    let step = step(allocation(7, 1), 1.0, 3);
    let run =
        || allocation_monte_carlo_delta(1.0, &step, 16, &settings(30_000, Direction::Add, 4), &Unwatched).unwrap();
    let of = |threads| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap()
            .install(run)
    };
    assert_eq!(of(1), of(3));
    let none = allocation_monte_carlo_delta(1.0, &step, 0, &settings(10, Direction::Add, 4), &Unwatched).unwrap();
    assert_eq!(none.upper, 0.0);
}

#[test]
fn what_has_no_estimate_is_refused() {
    let settings = settings(100, Direction::Remove, 1);
    let of = |step: &Step| allocation_monte_carlo_delta(1.0, step, 10, &settings, &Unwatched);
    assert!(of(&step(allocation(10, 2), 1.0, 2)).is_err());
    assert!(of(&step(allocation(10, 1), 0.0, 1)).is_err());
    assert!(of(&step(allocation(10, 1), 1.0, 257)).is_err());
    assert!(of(&step(Sampling::Poisson { sample_rate: 0.1 }, 1.0, 1)).is_err());
    let run = |step: Step| run_monte_carlo_delta(1.0, &[(step, 10)], &settings, &Unwatched);
    assert!(run(step(Sampling::Poisson { sample_rate: 1e-10 }, 1.0, 1)).is_err());
    assert_eq!(
        run(step(Sampling::Poisson { sample_rate: 0.0 }, 1.0, 1)).unwrap().upper,
        0.0
    );
    let fixed = Sampling::FixedBatch {
        batch_size: 2,
        dataset_size: 10,
    };
    assert!(run(step(fixed, 1.0, 1)).is_err());
}
