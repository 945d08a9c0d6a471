use super::*;
use crate::special::normal::log_upper_tail;
use crate::step::{Direction, GroupLaw};

fn mixture(rate: f64, noise_multiplier: f64, direction: Direction) -> StepLoss {
    let law = GroupLaw::binomial(1, rate).unwrap();
    StepLoss::mixture(&law, noise_multiplier, direction).unwrap().unwrap()
}

fn response(rate: f64, keep: f64) -> StepLoss {
    let law = GroupLaw::binomial(1, rate).unwrap();
    StepLoss::response(&law, keep, Direction::Remove).unwrap()
}

/// δ of "remove" at −x is 1 − e^{−x} + e^{−x}·δ of "add" at x. Below 0 the line of integration runs between the poles at 0 and −1,
/// with 10^5 points.
#[test]
fn both_directions_agree_to_ten_digits_where_the_line_has_very_many_points() {
    let of = |direction| {
        let loss = mixture(0.001_646_274_475_538_499, 108.536_197_305_646_82, direction);
        ComposedLoss::new(vec![(StepOutcome::Loss(loss), 2059)], direction == Direction::Add)
    };
    let (mut remove, mut add) = (of(Direction::Remove), of(Direction::Add));
    for x in [1e-5, 2e-4, 7.1e-4, 1.3e-3] {
        let other = add.delta(x, 1e-10);
        let from = |log: f64| (-(-x).exp_m1() + (log - x).exp()).ln();
        let accuracy = Accuracy {
            width: 1e-10,
            cell_width: 1e-10,
            sufficient_width: 1e-10,
            threshold: Some(1e-3f64.ln()),
            estimate: None,
            is_side_enough: false,
            bounds_first: false,
        };
        let found = remove.delta_for(-x, &accuracy);
        assert!(found.certified().is_ok(), "{x}");
        let (low, high) = (from(other.log_lower) - 1e-14, from(other.log_upper) + 1e-14);
        assert!(
            found.log_lower <= high && low <= found.log_upper,
            "{x}: {found:?} {low} {high}"
        );
        assert!(found.width() < 1e-9 && high - low < 1e-9, "{x}");
    }
}

/// A record that is in the batch with probability q and noise of 1/5 of its norm: an output is nearer to the wrong mean with
/// probability β = Φ(−2.5). At ε = 0 the total variation is q(1 − 2β), which the bound q − 2β meets for q near 1.
#[test]
fn a_run_without_noise_bounds_the_run_with_noise() {
    let (rate, sigma) = (0.99f64, 0.2);
    let log_unseen = (1.0 - rate).ln();
    let mut noiseless = Noiseless {
        run: Box::new(ComposedLoss::new(
            vec![(StepOutcome::RevealsMembership { log_unseen }, 1)],
            false,
        )),
        log_confusion: log_upper_tail(2.5),
    };
    let loss = mixture(rate, sigma, Direction::Remove);
    for epsilon in [-1.0, 0.0, 0.5, 2.0, 5.0] {
        let found = noiseless.delta(epsilon, &Accuracy::of_width(1e-6));
        let exact = one_step::delta(&loss, epsilon);
        assert!(
            found.lower() <= exact.upper() && exact.lower() <= found.upper(),
            "{epsilon}: {found:?} {exact:?}"
        );
    }
    let at_zero = noiseless.delta(0.0, &Accuracy::of_width(1e-6));
    let exact = one_step::delta(&loss, 0.0);
    assert!(exact.lower() - at_zero.lower() < 0.03 * log_upper_tail(2.5).exp());
    // With the help of the run without noise answers are the same as without it.
    let with = ComposedLoss::new(
        vec![(StepOutcome::Loss(mixture(rate, sigma, Direction::Remove)), 1)],
        false,
    );
    let mut with = with.with_noiseless(*noiseless.run, noiseless.log_confusion);
    assert!(with.delta(0.5, 1e-9).certified().is_ok());
}

/// Two steps that reveal the record with probability 1/2 each, and one of randomised response: δ(ε) = 3/4 + δ'(ε + 2 log 2)/4 for "remove".
#[test]
fn steps_that_reveal_membership_add_their_singular_mass_and_their_offset() {
    let outcomes = |loss| {
        let reveals = StepOutcome::RevealsMembership {
            log_unseen: 0.5f64.ln(),
        };
        vec![(reveals, 2), (StepOutcome::Loss(loss), 1)]
    };
    let mut run = ComposedLoss::new(outcomes(response(0.3, 0.8)), false);
    let offset = 2.0 * 2f64.ln();
    for epsilon in [0.0, 0.5, 3.0] {
        let common = one_step::delta(&response(0.3, 0.8), epsilon + offset);
        let exact = 0.75 + 0.25 * common.upper();
        let found = run.delta(epsilon, 1e-9);
        assert!(found.lower() <= exact * (1.0 + 1e-14) && exact * (1.0 - 1e-14) <= found.upper());
        assert!(found.width() < 1e-9);
    }
    assert_eq!(run.epsilon(0.7f64.ln(), 1e-6).unwrap(), Interval::exact(f64::INFINITY));
    assert_eq!(run.renyi(2.0), f64::INFINITY);
    assert_eq!(run.largest_loss(), f64::INFINITY);
    // "Add" has no singular mass, and the offset is positive.
    let mut add = ComposedLoss::new(outcomes(response(0.3, 0.8)), true);
    let inner = one_step::delta(&response(0.3, 0.8), 0.1);
    let found = add.delta(0.1 + offset, 1e-9);
    assert!((found.log_upper - inner.log_upper).abs() < 1e-12);
}

/// What outputs reveal for certain is part of δ: bounds at a tilt, which are of the other losses alone, say nothing of it.
#[test]
fn a_comparison_counts_the_singular_mass() {
    let loss = mixture(0.01, 1.0, Direction::Remove);
    let revealing = StepOutcome::RevealsMembership {
        log_unseen: 0.9f64.ln(),
    };
    let mut run = ComposedLoss::new(vec![(revealing, 1), (StepOutcome::Loss(loss), 10)], false);
    let epsilon = 1.0;
    let found = run.delta(epsilon, 1e-6);
    assert!(found.log_lower > 0.1f64.ln() - 1e-9, "{found:?}");
    for threshold in [0.05f64.ln(), 0.099f64.ln()] {
        let beside = run.delta_beside(epsilon, (threshold, 1e-6), Some(1.0));
        assert!(beside.log_lower > threshold, "{threshold}: {beside:?}");
    }
    assert_eq!(run.bound_at(1.0, epsilon), Enclosure::TRIVIAL);
}

/// Five steps in which a record that is seen rarely takes part: the sum of total variations is nearly attained.
#[test]
fn the_crude_bound_at_zero_is_above_delta_and_close_to_it_for_rare_losses() {
    let rate = 1e-5f64;
    let loss = StepLoss::gaussians(vec![(-rate).ln_1p(), rate.ln()], vec![0.0, 3.0]);
    let mut run = ComposedLoss::new(vec![(StepOutcome::Loss(loss), 5)], false);
    let bound = run.crude_bound_at_zero(1e-6).unwrap();
    run.forget();
    let exact = run.delta(0.0, 1e-6);
    // The contribution of the runs with the record in one batch, by the closed form of that batch.
    let attained = (5.0 * rate).ln() + 4.0 * (-rate).ln_1p() + one_step::gaussian_delta(3.0, 0.0).log_lower;
    assert!(attained <= bound && bound <= attained + 1e-3, "{bound} {attained}");
    assert!(
        exact.log_lower <= bound && bound <= exact.log_upper + 1e-3,
        "{bound} {exact:?}"
    );
}

/// Rényi divergences of randomised response have the closed form log(p^α (1 − p)^{1−α} + (1 − p)^α p^{1−α})/(α − 1) a step.
#[test]
fn renyi_divergences_are_bounded_closely() {
    let mut run = ComposedLoss::new(vec![(StepOutcome::Loss(response(1.0, 0.8)), 3)], false);
    for order in [1.5f64, 2.0, 40.0] {
        let moment = 0.8f64.powf(order) * 0.2f64.powf(1.0 - order) + 0.2f64.powf(order) * 0.8f64.powf(1.0 - order);
        let exact = 3.0 * moment.ln() / (order - 1.0);
        let found = run.renyi(order);
        assert!(
            found >= exact * (1.0 - 1e-15) && found <= exact * (1.0 + 1e-12),
            "{order}: {found} {exact}"
        );
    }
    let largest = 3.0 * 4f64.ln();
    assert!(run.renyi(1e12) >= largest * (1.0 - 1e-9) && run.renyi(1e12) <= largest * (1.0 + 1e-14));
}

/// A thousand noiseless steps in which a record that is added is seen with probability q: their offset is 1000·log(1/(1 − q)), which a number
/// of that size rounds by 1e-13. With one randomised response, δ next to the end is keep·(1 − e^{ε − offset − log(keep/(1 − keep))}) = 9.2e-14,
/// by mpmath in 40 digits from the exact values of all three numbers.
#[test]
fn what_the_offset_is_rounded_by_counts_where_other_losses_end() {
    let (rate, keep, epsilon) = (0.546_047_994_105_463_5, 0.890_219_790_730_078_7, 791.856_788_536_309_8);
    let reveals = StepOutcome::RevealsMembership {
        log_unseen: f64::ln_1p(-rate),
    };
    let steps = vec![(reveals, 1000), (StepOutcome::Loss(response(1.0, keep)), 1)];
    let mut run = ComposedLoss::new(steps, true);
    let found = run.delta(epsilon, 1e-6);
    assert!(
        found.upper() >= 9.207_854e-14 && found.lower() <= 9.207_853e-14,
        "{found:?}"
    );
    // A loss less than the last the two ends are next to each other.
    assert!(run.delta(epsilon - 1.0, 1e-6).width() < 1e-9);
    assert!(run.largest_loss() >= epsilon);
}

/// 5000 kinds of steps that reveal an added record: 5000·0.1918, added one after the other, is 1.3e-10 below 959.
#[test]
fn sums_over_very_many_kinds_bound_what_they_add_up() {
    let reveals = || StepOutcome::RevealsMembership { log_unseen: -0.1918 };
    let mut run = ComposedLoss::new((0..5000).map(|_| (reveals(), 1)).collect(), true);
    for found in [run.renyi(2.0), run.largest_loss()] {
        assert!((959.0..959.0 * (1.0 + 1e-11)).contains(&found), "{found}");
    }
}

/// 100,000 kinds of steps that reveal a removed record: their singular mass, 1 − e^{−100,000·4.721e-12}, has a sum that is 2.7e-12 of it too
/// large, so that a δ above the mass by less is not known to be below it.
#[test]
fn epsilon_is_not_infinite_where_the_singular_mass_may_be_smaller() {
    let reveals = || StepOutcome::RevealsMembership { log_unseen: -4.721e-12 };
    let mut run = ComposedLoss::new((0..100_000).map(|_| (reveals(), 1)).collect(), false);
    let mass = -(-4.721e-7f64).exp_m1();
    assert_eq!(run.epsilon(mass.ln() + 5e-13, 1e-6).unwrap().lower, 0.0);
    assert_eq!(
        run.epsilon(mass.ln() - 1e-9, 1e-6).unwrap(),
        Interval::exact(f64::INFINITY)
    );
}

/// Gaussian losses of 100,000 kinds add up to one: their variances, 10⁵·0.1², are 1000 to within the rounding of 0.1², and 7.6e-13 of it less if
/// they are added one after the other. So far out log δ changes by some 400 and 600 times as much.
#[test]
fn the_variances_of_very_many_gaussian_losses_are_added_without_loss() {
    let steps = (0..100_000).map(|_| (StepOutcome::Loss(StepLoss::shift(0.1)), 1));
    let mut run = ComposedLoss::new(steps.collect(), false);
    let distance = 1000f64.sqrt();
    for epsilon in [1000.0, 1200.0] {
        let (found, exact) = (run.delta(epsilon, 1e-9), one_step::gaussian_delta(distance, epsilon));
        let wrong = (found.log_upper - exact.log_upper).abs();
        assert!(wrong < 4e-13 * (1.0 + exact.log_upper.abs()), "{found:?} {exact:?}");
    }
}
