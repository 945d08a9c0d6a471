use super::*;
use crate::special::log_space::complex_ln_1p;
use realfft::num_complex::Complex64;

/// A schedule of noise from 1.5 to 3, or to 2 if rates change too, by the factor `rates` above 1; and the same losses one by one.
fn example(pair: Pair, rates: f64) -> (Schedule, Vec<(StepLoss, f64)>) {
    const KINDS: u32 = 600;
    let widest: f64 = if rates > 1.0 { 4.0 / 3.0 } else { 2.0 };
    let kind = |i: u32| {
        let part = f64::from(i) / f64::from(KINDS);
        Kind {
            noise_multiplier: 1.5 * widest.powf(part),
            sample_rate: 0.02 * rates.powf((0.618 * f64::from(i)).fract()),
            steps: f64::from(1 + i % 3),
        }
    };
    let kinds: Vec<Kind> = (0..KINDS).map(kind).collect();
    let loss = |kind: &Kind| (pair.loss(kind.noise_multiplier, kind.sample_rate).unwrap(), kind.steps);
    let alone = kinds.iter().map(loss).collect();
    (Schedule::new(pair, kinds).unwrap(), alone)
}

/// Groups with few nodes, and both kinds of differences.
fn cases() -> Vec<(Pair, f64)> {
    let pair = |records, adds| Pair { records, adds };
    vec![
        (pair(1, false), 1.0),
        (pair(1, true), 1.05),
        (pair(2, false), 1.0),
        (pair(3, true), 1.0),
    ]
}

#[test]
fn sums_by_nodes_are_within_their_errors() {
    for (pair, rates) in cases() {
        let (mut schedule, mut alone) = example(pair, rates);
        assert!(schedule.kinds() <= 256, "{}", schedule.kinds());
        // Rounding of the weights counts for each of 256 nodes where rates differ too, and of 16 a cell where they do not.
        let narrow = if rates > 1.0 { 1e-6 } else { 1e-8 };
        for c in [0.4, 1.5, 5.0, -0.5] {
            let found = schedule.moments(c, -30.0);
            let each: Vec<(TiltedMoments, f64)> = alone
                .iter_mut()
                .map(|(loss, steps)| (loss.moments(c, -36.0), *steps))
                .collect();
            let total =
                |of: &dyn Fn(&TiltedMoments) -> f64| each.iter().map(|(one, steps)| steps * of(one)).sum::<f64>();
            let exact = total(&|one| one.log_moment.value);
            let error = found.log_moment.error + total(&|one| one.log_moment.error) + 1e-14;
            assert!(
                (found.log_moment.value - exact).abs() <= error,
                "{pair:?} {c}: {found:?} {exact}"
            );
            assert!(error <= narrow, "{pair:?} {c}: {error}");
            assert!(
                (found.mean - total(&|one| one.mean)).abs() <= 1e-8,
                "{pair:?} {c}: {found:?}"
            );
            assert!(
                (found.variance - total(&|one| one.variance)).abs() <= 1e-8,
                "{pair:?} {c}: {found:?}"
            );

            let (spacing, last) = (0.5, 12);
            let mut tilted = schedule.tilted(c, -30.0);
            tilted.certify(spacing * last as f64);
            let mut logs = vec![Complex64::default(); last + 1];
            for (loss, steps) in &mut alone {
                let mut one = loss.tilted(c, -36.0);
                one.certify(spacing * last as f64);
                for (log, change) in logs.iter_mut().zip(one.changes(spacing, last)) {
                    *log += *steps * complex_ln_1p(change.value);
                }
            }
            for (j, (change, log)) in tilted.changes(spacing, last).into_iter().zip(logs).enumerate() {
                let off = (1.0 + change.value - log.exp()).norm();
                assert!(off <= change.error + 1e-11, "{pair:?} {c} {j}: {off} {change:?}");
                assert!(change.error <= narrow, "{pair:?} {c} {j}: {change:?}");
            }
        }
    }
}

#[test]
fn the_decay_bounds_every_later_frequency() {
    for (pair, rates) in cases() {
        let (mut schedule, mut alone) = example(pair, rates);
        let c = 1.5;
        let exact = |alone: &mut Vec<(StepLoss, f64)>, y: f64| -> f64 {
            let of = |(loss, steps): &mut (StepLoss, f64)| {
                let mut one = loss.tilted(c, -36.0);
                one.certify(y);
                *steps * complex_ln_1p(one.changes(y, 1)[1].value).re
            };
            alone.iter_mut().map(of).sum()
        };
        let mut tilted = schedule.tilted(c, -30.0);
        for y in [3.0, 8.0] {
            let bound = tilted.best_log_decay(y, 50.0);
            let found = [1.0, 1.2, 1.7]
                .map(|factor| exact(&mut alone, factor * y))
                .into_iter()
                .fold(f64::MIN, f64::max);
            assert!(found <= bound, "{pair:?} {y}: {found} {bound}");
            // Cells are octaves: the loss with the most noise varies half as much as that with the least.
            assert!(4.0 * bound < found && bound < 0.0, "{pair:?} {y}: {found} {bound}");
        }
    }
}

/// A cell in which a single step reveals too much for any ellipse says that nothing is known.
#[test]
fn large_losses_are_not_certified() {
    let pair = Pair {
        records: 1,
        adds: false,
    };
    let kind = |i: u32| Kind {
        noise_multiplier: 0.3 + 0.0005 * f64::from(i),
        sample_rate: 0.5,
        steps: 1.0,
    };
    let mut schedule = Schedule::new(pair, (0..200).map(kind).collect()).unwrap();
    let found = schedule.moments(4.0, -30.0).log_moment;
    assert!(found.error > 1e-3 || found.value.is_infinite(), "{found:?}");
}

#[test]
fn the_largest_loss_and_the_widest_pair_are_those_of_all_steps() {
    let pair = Pair { records: 3, adds: true };
    let (schedule, alone) = example(pair, 1.0);
    let total = |of: &dyn Fn(&StepLoss) -> f64| alone.iter().map(|(loss, steps)| steps * of(loss)).sum::<f64>();
    let largest = schedule.max_loss().rounded_up();
    let exact = total(&|loss| loss.max_loss().rounded_up());
    assert!(
        largest >= exact * (1.0 - 1e-14) && largest <= exact * (1.0 + 1e-11),
        "{largest} {exact}"
    );
    let exact = total(&|loss| loss.widest_distance().unwrap().powi(2)).sqrt();
    assert!((schedule.widest_distance().unwrap() / exact - 1.0).abs() < 1e-11);
    let remove = example(Pair { adds: false, ..pair }, 1.0).0;
    assert_eq!(remove.max_loss().rounded_up(), f64::INFINITY);
}

/// One kind of steps, and 600 of which each adds a little less, or a little more, than half a unit in the last place of the first.
fn with_rounding(first: Kind, other: Kind, part: f64, adds: bool) -> Schedule {
    let other = Kind {
        steps: other.steps * part,
        ..other
    };
    let kinds = [first].into_iter().chain((0..600).map(|_| other)).collect();
    Schedule::new(Pair { records: 1, adds }, kinds).unwrap()
}

#[test]
fn the_rounding_of_the_largest_loss_is_attained_in_both_directions() {
    // 1,512,776 steps of log 2 are 2²⁰ + 0.4, and half a unit in the last place of that is 2⁻³³.
    let first = Kind {
        noise_multiplier: 1.0,
        sample_rate: 0.5,
        steps: 1_512_776.0,
    };
    let rate = f64::powi(2.0, -33);
    let other = Kind {
        noise_multiplier: 1.0,
        sample_rate: rate,
        steps: 1.0,
    };
    let largest = first.steps * std::f64::consts::LN_2;
    for part in [0.99, 1.01] {
        let found = with_rounding(first, other, part, true).max_loss();
        // −log(1 − q) is q to 33 bits.
        let above = found.rounded_up() - largest - 600.0 * part * rate;
        let slack = found.slack;
        assert!(above >= 0.0 && above <= slack, "{above:e} {slack:e}");
        if part < 1.0 {
            // Of the half of the slack that was added, nearly all was lost.
            assert!(above < 0.05 * slack, "{above:e} {slack:e}");
        } else {
            assert!(above > 0.95 * slack, "{above:e} {slack:e}");
        }
    }
}

#[test]
fn the_rounding_of_the_widest_distance_is_nearly_attained() {
    // 2⁴⁰ steps of distance 1, and half a unit in the last place of that sum is 2⁻¹³.
    let first = Kind {
        noise_multiplier: 1.0,
        sample_rate: 0.01,
        steps: f64::powi(2.0, 40),
    };
    let other = Kind {
        noise_multiplier: 128.0,
        sample_rate: 0.01,
        steps: 2.0,
    };
    let found = with_rounding(first, other, 0.99, false).widest_distance().unwrap();
    let root = f64::powi(2.0, 20);
    // √(2⁴⁰ + t) is 2²⁰ + t/2²¹ to first order.
    let (added, exact) = (found - root, 600.0 * 0.99 * f64::powi(2.0, -13 - 21));
    assert!(exact <= added && added < 1.05 * exact, "{exact:e} {added:e}");
}
