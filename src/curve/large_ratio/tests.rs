use super::*;
use crate::curve::loss_sum::LossSum;
use crate::inversion::chernoff::MomentBound;
use crate::loss::StepLoss;
use crate::loss::allocation::bins::Bins;
use crate::special::normal::log_upper_tail;
use crate::step::{Direction, GroupLaw};

fn segments(batches: u64, noise: f64, epochs: f64) -> Vec<Segment> {
    let bins = Bins::new(&[(batches, noise.powi(-2))]).unwrap();
    vec![Segment {
        loss: StepLoss::allocation(bins, Direction::Remove),
        steps: epochs,
    }]
}

fn poisson(records: u64, rate: f64, noise: f64, steps: f64) -> Vec<Segment> {
    let law = GroupLaw::binomial(records, rate).unwrap();
    let loss = StepLoss::mixture(&law, noise, Direction::Remove).unwrap().unwrap();
    vec![Segment { loss, steps }]
}

/// Where both routes know the curve they agree; the other one is asked to a width that the split is not asked for.
#[test]
fn the_parts_add_up_to_the_curve() {
    let mut beside_others = poisson(4, 0.002, 1.5, 30.0);
    beside_others.push(Segment {
        loss: StepLoss::shift(0.1),
        steps: 3.0,
    });
    for (segments, epsilon) in [
        (segments(1000, 1.5, 5.0), 0.5),
        (segments(3000, 1.0, 3.0), 0.25),
        (segments(1000, 1.2, 12.0), 0.9),
        (poisson(1, 9.5e-4, 3.07, 231.0), 0.05),
        (poisson(6, 0.01, 1.5, 20.0), 17.5),
        (beside_others, 6.0),
    ] {
        let named = format!("{epsilon} {segments:?}");
        let accuracy = Accuracy::of_width(1e-6);
        let mut sum = LossSum::new(segments, 1e-15);
        let whole = crate::curve::routes::delta(&mut sum, epsilon, &accuracy);
        for share in [Share::Few, Share::Many] {
            let share = (share, Enclosure::TRIVIAL);
            let split = sum.by_large_ratio((epsilon, whole.log_upper), &accuracy, share);
            let named = format!("{named}: {split:?} {whole:?}");
            assert!(split.width() < 1e-5, "{named}");
            assert!(
                split.log_lower <= whole.log_upper && whole.log_lower <= split.log_upper,
                "{named}"
            );
        }
        assert!(whole.width() < 1e-5, "{named}: {whole:?}");
    }
}

/// Two large ratios in a run, in one epoch or in two: their probability under P is at most the bound, and half of it is too little.
#[test]
fn what_has_two_large_ratios_is_bounded() {
    let (batches, epochs) = (2000u32, 300.0);
    let split = ByLargeRatio::new(&segments(u64::from(batches), 1.1, epochs), 24.0, 0.5).unwrap();
    // What an epoch has with a probability of at most e^−12/300 under P.
    let (count, shift) = (f64::from(batches), 1.1f64.recip());
    let mass = |g: f64| count * log_upper_tail(g).exp() + log_upper_tail(g - shift).exp();
    let (mut low, mut high) = (0.0, 20.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if mass(middle) * epochs > (-12f64).exp() {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (tail, of_record) = (log_upper_tail(high).exp(), log_upper_tail(high - shift).exp());
    // Without a large ratio, and with exactly one.
    let none = (count - 1.0) * (-tail).ln_1p() + (-of_record).ln_1p();
    let others = (count - 1.0) * tail / (1.0 - tail) + of_record / (1.0 - of_record);
    // log(1 + x) − x of the number of epochs that have one, as a series: the probabilities of two and more.
    let one = others * none.exp();
    let of_two_epochs = 0.5 * epochs * (epochs - 1.0) * one * one;
    let of_one_epoch = epochs * 0.5 * others * others * (1.0 - 1.0 / count);
    let exact = ((of_two_epochs + of_one_epoch) * (epochs * none).exp()).ln();
    let bound = split.log_two;
    assert!(exact <= bound + 1e-3 && bound < exact + LN_2, "{bound} {exact}");
}

/// What is left out is at most what was asked for, so that the curve of the split is as wide as that.
#[test]
fn the_level_says_what_is_left_out() {
    for level in [40.0, 64.0, 80.0] {
        let split = ByLargeRatio::new(&segments(20_000, 0.9, 20.0), level, 0.5);
        let split = split.unwrap_or_else(|| panic!("{level}"));
        let log_left_out = log_add(split.log_two, split.log_beyond);
        assert!(
            log_left_out <= -level + 0.5 && log_left_out > -level - 2.0,
            "{level}: {log_left_out}"
        );
    }
}

/// Runs of a single epoch, with few batches, without a large ratio or of many different steps are not split.
#[test]
fn other_runs_are_not_split() {
    assert!(ByLargeRatio::new(&segments(5000, 1.0, 1.0), 48.0, 0.5).is_none());
    assert!(ByLargeRatio::new(&segments(50, 1.0, 10.0), 48.0, 0.5).is_none());
    let shifts = [0.1, 0.2].map(|shift| Segment {
        loss: StepLoss::shift(shift),
        steps: 2.0,
    });
    assert!(ByLargeRatio::new(&shifts, 48.0, 0.5).is_none());
    let different = (1..=MOST_KINDS + 1).flat_map(|i| poisson(1, 1e-3 * i as f64, 2.0, 3.0));
    let (mut all, accuracy) = (LargeRatios::default(), Accuracy::of_width(1e-3));
    let mut delta = |segments: &[Segment]| {
        let question = (Share::Few, Enclosure::TRIVIAL);
        all.delta(segments, (1.0, -100.0), &accuracy, question)
    };
    let segments: Vec<Segment> = different.collect();
    assert_eq!(delta(&segments), Enclosure::TRIVIAL);
    assert_ne!(delta(&segments[..1]), Enclosure::TRIVIAL);
}

/// Two large ratios of which the larger is in the last range: the probability under P that one epoch has one there, another one has one below, and all others have
/// none, is at most the bound by pairs, and half of that would be too little.
#[test]
fn pairs_with_one_in_a_range_are_as_likely_as_their_bound() {
    let (batches, noise, epochs) = (3000u32, 1.0f64, 300.0);
    let (count, shift) = (f64::from(batches), noise.recip());
    let segments = segments(u64::from(batches), noise, epochs);
    let losses = [0.01, 0.02, 0.03, 0.045, 0.07, 0.1, 0.13];
    let split = RatioSplit {
        steps: epochs,
        log_mass: -12.0,
        log_mass_beyond: -40.0,
        losses: &losses,
    };
    let found = segments[0].loss.by_large_ratio(&split);
    let ranges: Vec<RatioRange> = found.one.iter().map(|(_, range)| *range).collect();
    let (first, last) = (ranges[0], *ranges.last().unwrap());
    let none = Segment {
        loss: found.none,
        steps: epochs,
    };
    // Nothing is so large that a moment is worthwhile.
    let known = (found.log_some + epochs.ln(), 0.0);
    let mut many = Many::new(vec![none], vec![found.many], std::iter::once((0, last)), known);
    let bound = many.log_bound(1.0);
    // Of an epoch with the record in one batch: one ratio between two ends, and no other above the first end.
    let tails = |end: f64| [log_upper_tail(end).exp(), log_upper_tail(end - shift).exp()];
    let [tail, of_record] = tails(first.ends.0);
    let no_ratio = (1.0 - of_record) * ((count - 1.0) * (-tail).ln_1p()).exp();
    let one = |low: f64, high: f64| {
        let ([low, low_of_record], [high, high_of_record]) = (tails(low), tails(high));
        no_ratio
            * ((count - 1.0) * (low - high) / (1.0 - tail) + (low_of_record - high_of_record) / (1.0 - of_record))
    };
    let (in_last, below) = (one(last.ends.0, last.ends.1), one(first.ends.0, last.ends.0));
    let exact = (epochs * (epochs - 1.0) * in_last * below).ln() + (epochs - 2.0) * no_ratio.ln();
    assert!(exact <= bound && bound < exact + LN_2, "{exact} {bound}");
}

/// The moment of a run over outputs with two large ratios or more: that of all outputs up to an end without those that have none and those that have one. The
/// bounds for all ranges add up to at least that, and half of them would be too little.
#[test]
fn moments_of_what_has_two_large_ratios_are_bounded() {
    let (batches, noise, epochs) = (3000, 1.0, 4.0);
    let segments = segments(batches, noise, epochs);
    let losses = [0.01, 0.02, 0.03, 0.045, 0.07, 0.1, 0.13];
    let split = |log_mass: f64, log_mass_beyond: f64| {
        let split = RatioSplit {
            steps: epochs,
            log_mass,
            log_mass_beyond,
            losses: &losses,
        };
        segments[0].loss.by_large_ratio(&split)
    };
    let (mut found, mut all) = (split(-6.0, -20.0), split(-20.0, -21.0));
    let none = Segment {
        loss: found.none.truncated(f64::NEG_INFINITY, 1.0).0,
        steps: epochs,
    };
    let ranges: Vec<RatioRange> = found.one.iter().map(|(_, range)| *range).collect();
    let known = (found.log_some + epochs.ln(), -100.0);
    let of_many = vec![found.many];
    let mut many = Many::new(vec![none], of_many, ranges.iter().map(|range| (0, *range)), known);
    for j in [3, 6] {
        let c = many::tilt(j);
        let moment = |loss: &mut StepLoss| loss.moments(c, -30.0).log_moment.value;
        let base = moment(&mut found.none);
        let whole = (moment(&mut all.none) - base).exp();
        let single: f64 = found.one.iter_mut().map(|(one, _)| (moment(one) - base).exp()).sum();
        let exact = epochs * base + (whole.powf(epochs) - 1.0 - epochs * single).ln();
        let bounds: Vec<f64> = (0..ranges.len()).map(|k| many.log_moment(k, j)).collect();
        let bound = bounds.iter().map(|log| log.exp()).sum::<f64>().ln();
        assert!(exact <= bound && bound < exact + LN_2, "{c}: {exact} {bound}");
        // δ by these moments.
        let by_moment = |log_moment: &f64| {
            let log_moment = *log_moment;
            MomentBound { c, log_moment }.chernoff(2.0).log_upper.exp()
        };
        let log = many.log_bound(2.0);
        let by_moments = bounds.iter().map(by_moment).sum::<f64>().ln();
        assert!(log <= by_moments + 1e-9, "{log} {by_moments}");
    }
}

/// Where two large ratios may not be left out for their probability, their bound by moments is far below it, and curves are known.
#[test]
fn two_large_ratios_matter_less_than_they_are_likely() {
    let segments = segments(14_000, 1.0, 4.0);
    let (mut few, mut most) = (
        ByLargeRatio::new(&segments, 96.0, 0.5).unwrap(),
        ByLargeRatio::new(&segments, 96.0, 0.3).unwrap(),
    );
    let epsilon = 5.0;
    assert!(most.log_two > -60.0 && most.log_left_out(epsilon) < -80.0);
    let accuracy = Accuracy::of_width(1e-4);
    let (one, other) = (few.delta(epsilon, &accuracy), most.delta(epsilon, &accuracy));
    assert!(
        one.log_lower <= other.log_upper && other.log_lower <= one.log_upper,
        "{one:?} {other:?}"
    );
}

/// The moment of a run over outputs with two large losses or more of which the largest is in a range: that of all outputs up to its upper end without those up to its lower
/// end, and those with one large loss. Above the first range the bound is close, and half of it would be too little.
#[test]
fn pairs_of_large_losses_are_bounded_by_moments() {
    for segments in [poisson(1, 0.01, 2.0, 4.0), poisson(3, 0.05, 2.5, 20.0)] {
        let steps = segments[0].steps;
        let split = RatioSplit {
            steps,
            log_mass: -6.0,
            log_mass_beyond: -70.0,
            losses: &[],
        };
        let mut found = segments[0].loss.by_large_ratio(&split);
        let ranges: Vec<RatioRange> = found.one.iter().map(|(_, range)| *range).collect();
        let loss = found.none.truncated(f64::NEG_INFINITY, 1.0).0;
        let known = (found.log_some + steps.ln(), -100.0);
        let all = ranges.iter().map(|range| (0, *range));
        // The first is the largest range.
        let mut many = Many::new(vec![Segment { loss, steps }], vec![found.many], all, known);
        for j in [0, 3, 6] {
            let c = many::tilt(j);
            let moment = |loss: &mut StepLoss| loss.moments(c, -30.0).log_moment.value;
            let base = moment(&mut found.none);
            let mut below = 0.0f64;
            for (i, (one, range)) in found.one.iter_mut().enumerate() {
                let here = (moment(one) - base).exp();
                // (1 + b + h)ⁿ − (1 + b)ⁿ − n·h, without the digits that cancel.
                let more = steps * (here / (1.0 + below)).ln_1p();
                let pairs = (steps * below.ln_1p()).exp() * more.exp_m1() - steps * here;
                below += here;
                if i == 0 {
                    continue;
                }
                let exact = steps * base + pairs.ln();
                let bound = many.log_moment(ranges.len() - 1 - i, j);
                assert!(
                    exact <= bound && bound < exact + LN_2,
                    "{steps} {c} {range:?}: {exact} {bound}"
                );
            }
        }
    }
}
