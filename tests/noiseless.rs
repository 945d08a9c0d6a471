//! Runs with next to no noise: what their outputs tell is what batches would.

use hockeystick::Composition;
use hockeystick::Result;
use hockeystick::{Adjacency, Group, Mechanism, Sampling, Step};

fn scheme(noise_multiplier: f64, sample_rate: f64, size: u64) -> Step {
    Step {
        mechanism: Mechanism::Gaussian { noise_multiplier },
        sampling: Sampling::Poisson { sample_rate },
        group: Group::of(size),
    }
}

fn delta(segments: &[(Step, u64)], neighbours: Adjacency, epsilon: f64) -> Result<(f64, f64)> {
    let found = Composition::new(segments, neighbours)?.delta(epsilon, 1e-6)?;
    Ok((found.lower(), found.upper()))
}

fn assert_narrow_about((lower, upper): (f64, f64), expected: f64, width: f64) {
    assert!(
        lower <= expected * (1.0 + 1e-14) && expected * (1.0 - 1e-14) <= upper,
        "{lower} {expected} {upper}"
    );
    assert!(upper - lower <= width * upper, "{lower} {upper}");
}

#[test]
fn batches_are_seen_through_little_noise() -> Result<()> {
    for noise in [1e-7, 1e-5, 1e-3, 0.02] {
        for (rate, steps, size) in [
            (1e-7f64, 100u64, 1u64),
            (1e-3, 7, 1),
            (1e-4, 15_000, 1),
            (0.01, 3, 20),
            (0.2, 2, 3),
        ] {
            let log_unseen = (steps * size) as f64 * (-rate).ln_1p();
            let run = [(scheme(noise, rate, size), steps)];
            for epsilon in [0.0, 0.5 * -log_unseen, 3.0] {
                let seen = -log_unseen.exp_m1();
                assert_narrow_about(delta(&run, Adjacency::Remove, epsilon)?, seen, 1e-12);
                let unseen = (-(epsilon + log_unseen).exp_m1()).max(0.0);
                assert_narrow_about(delta(&run, Adjacency::Add, epsilon)?, unseen, 1e-9);
            }
        }
    }
    Ok(())
}

#[test]
fn members_with_norms_of_their_own_are_seen_as_rarely_as_they_take_part() -> Result<()> {
    let mut scheme = scheme(1e-3, 1e-6, 4);
    scheme.group.norms = Some(vec![1.0, 0.5, 0.3, 0.0]);
    for (rates, log_unseen) in [
        (None, 3.0 * (-1e-6f64).ln_1p()),
        (
            Some(vec![3e-7, 1e-8, 1e-9, 0.5]),
            (-3e-7f64).ln_1p() + (-1e-8f64).ln_1p() + (-1e-9f64).ln_1p(),
        ),
    ] {
        scheme.group.rates = rates;
        let run = [(scheme.clone(), 1000)];
        let seen = -(1000.0 * log_unseen).exp_m1();
        assert_narrow_about(delta(&run, Adjacency::Remove, 0.1)?, seen, 1e-12);
    }
    Ok(())
}

#[test]
fn little_noise_beside_more_is_no_noise_beside_it() -> Result<()> {
    let noisy = scheme(1.0, 0.01, 1);
    for neighbours in [Adjacency::Add, Adjacency::Remove] {
        let none = delta(&[(scheme(0.0, 1e-3, 1), 10), (noisy.clone(), 100)], neighbours, 0.3)?;
        let little = delta(&[(scheme(0.01, 1e-3, 1), 10), (noisy.clone(), 100)], neighbours, 0.3)?;
        assert!(none.0 <= little.1 && little.0 <= none.1, "{none:?} {little:?}");
        assert!(little.1 - little.0 <= 3e-6 * little.1, "{little:?}");
    }
    Ok(())
}

/// A batch that is seen without noise tells which record it has, with probability q, and nothing otherwise: δ(ε) = q + (1 − q)·δ'(ε), where δ'
/// is that of the step beside it, N(1, 1) against N(0, 1); its values are Φ(1/2 − ε) − e^ε·Φ(−1/2 − ε) by mpmath in 30 digits.
#[test]
fn replaced_records_have_no_loss_where_batches_without_noise_do_not_have_them() -> Result<()> {
    let full = scheme(2.0, 1.0, 1);
    for (epsilon, beside) in [(0.0, 0.382_924_922_548_026_2), (0.5, 0.238_421_708_134_876_63)] {
        for (rate, steps) in [(0.5f64, 1u64), (0.1, 3)] {
            let run = [(scheme(0.0, rate, 1), steps), (full.clone(), 1)];
            let unseen = (1.0 - rate).powi(steps as i32);
            let exact = 1.0 - unseen + unseen * beside;
            assert_narrow_about(delta(&run, Adjacency::Replace, epsilon)?, exact, 1e-9);
        }
    }
    Ok(())
}

#[test]
fn noise_counts_where_epsilon_is_large() -> Result<()> {
    // Beyond what shifts of 1/σ tell, as without noise nothing is.
    let noise = 0.02f64;
    let (lower, upper) = delta(&[(scheme(noise, 0.1, 1), 1)], Adjacency::Remove, 0.55 / (noise * noise))?;
    assert!(upper - lower < 1e-5 * upper && upper < 0.02, "{lower} {upper}");
    let seen = delta(&[(scheme(noise, 0.1, 1), 1)], Adjacency::Remove, 0.3 / (noise * noise))?;
    assert!((seen.1 - 0.1).abs() < 1e-4, "{seen:?}");
    Ok(())
}

#[test]
fn epsilon_is_that_of_the_batches_if_they_have_one() -> Result<()> {
    let epsilon = |run: &[(Step, u64)], neighbours, delta| -> Result<(f64, f64)> {
        let found = Composition::new(run, neighbours)?.epsilon(delta, 1e-6)?;
        Ok((found.lower, found.upper))
    };
    for noise in [1e-6, 1e-4, 0.01] {
        let run = [(scheme(noise, 1e-7, 1), 100)];
        assert_eq!(epsilon(&run, Adjacency::Remove, 1.001e-5)?, (0.0, 0.0));
        // (1 − q)^T e^ε = 1 − δ.
        let exact = (-1e-6f64).ln_1p() - 100.0 * (-1e-7f64).ln_1p();
        let (lower, upper) = epsilon(&run, Adjacency::Add, 1e-6)?;
        assert!(
            lower <= exact * (1.0 + 1e-12) && exact * (1.0 - 1e-12) <= upper,
            "{lower} {exact} {upper}"
        );
        assert!(upper - lower <= 2e-6 * upper, "{lower} {upper}");
    }
    // What batches alone tell has no ε then, but noise has one.
    let run = [(scheme(0.01, 1e-7, 1), 100)];
    let (lower, upper) = epsilon(&run, Adjacency::Remove, 1e-6)?;
    assert!(4000.0 < lower && upper < 6000.0, "{lower} {upper}");
    Ok(())
}

#[test]
fn thousands_of_kinds_of_steps_are_added_up_with_their_roundings() -> Result<()> {
    let rates: Vec<f64> = (1..=8000).map(|i| 1e-7 / f64::from(i).sqrt()).collect();
    let run: Vec<_> = rates.iter().map(|rate| (scheme(0.0, *rate, 1), 3)).collect();
    // Adjacency first: few roundings for each term.
    let mut sums: Vec<f64> = rates.iter().map(|rate| 3.0 * (-rate).ln_1p()).collect();
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| pair.iter().sum()).collect();
    }
    let seen = -sums[0].exp_m1();
    for (neighbours, epsilon) in [(Adjacency::Remove, 0.1), (Adjacency::Add, 0.0)] {
        let (lower, upper) = delta(&run, neighbours, epsilon)?;
        // Wider than what a few roundings leave, on both sides.
        assert!(
            lower < seen * (1.0 - 1e-13) && seen * (1.0 + 1e-13) < upper,
            "{lower} {seen} {upper}"
        );
        assert!(upper - lower <= 1e-11 * upper, "{lower} {upper}");
    }
    Ok(())
}
