//! Which steps of a run make up noise schedules, and the losses of those.

use crate::loss::StepLoss;
use crate::loss::schedule::kind::{Kind, Pair};
use crate::loss::schedule::sum::Schedule;
use crate::step::{Direction, Mechanism, Sampling, Step};
use std::collections::BTreeMap;

/// Kinds of steps below which a sum is not worth the nodes of its cells.
const MIN_KINDS: usize = 100;
/// Noise multipliers of a schedule: steps with less noise are rarely many, and need cells too short to be of use.
const NOISE_MULTIPLIERS: std::ops::RangeInclusive<f64> = 0.05..=1e4;
/// Sample rates of a schedule, for the same reason.
const SAMPLE_RATES: std::ops::RangeInclusive<f64> = 1e-12..=0.9;

/// A step of a schedule, with the step of the run that it is.
type Member<'a> = (Kind, &'a (Step, u64));

/// The losses of the schedules in a run, seen in one direction, and the steps that belong to none.
pub(crate) fn merged(steps: &[(Step, u64)], direction: Direction) -> (Vec<StepLoss>, Vec<&(Step, u64)>) {
    let mut schedules: BTreeMap<u64, Vec<Member<'_>>> = BTreeMap::new();
    let mut others = Vec::new();
    for step in steps {
        match kind_of(step) {
            Some(kind) => schedules.entry(step.0.group.size).or_default().push((kind, step)),
            None => others.push(step),
        }
    }
    let mut losses = Vec::new();
    for (records, mut members) in schedules {
        let pair = Pair {
            records,
            adds: direction == Direction::Add,
        };
        members.sort_by(|(a, _), (b, _)| {
            a.noise_multiplier
                .total_cmp(&b.noise_multiplier)
                .then(a.sample_rate.total_cmp(&b.sample_rate))
        });
        let kinds = members.iter().map(|(kind, _)| *kind).collect();
        let is_worthwhile = members.len() >= MIN_KINDS;
        match is_worthwhile.then(|| Schedule::new(pair, kinds)).flatten() {
            Some(schedule) => losses.push(StepLoss::new(schedule)),
            None => others.extend(members.into_iter().map(|(_, step)| step)),
        }
    }
    (losses, others)
}

/// The kind of a step, if it is one of a schedule: Gaussian noise on a Poisson sample, in which all members have one rate and norm.
fn kind_of((step, count): &(Step, u64)) -> Option<Kind> {
    let (Mechanism::Gaussian { noise_multiplier }, Sampling::Poisson { sample_rate }) =
        (step.mechanism, step.sampling)
    else {
        return None;
    };
    let is_plain = step.group.rates.is_none() && step.group.norms.is_none() && step.group.size > 0;
    let is_usual = NOISE_MULTIPLIERS.contains(&noise_multiplier) && SAMPLE_RATES.contains(&sample_rate);
    (is_plain && is_usual && *count > 0).then_some(Kind {
        noise_multiplier,
        sample_rate,
        steps: *count as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Group;

    #[test]
    fn steps_of_different_noise_are_merged_and_others_are_kept() {
        let step = |noise_multiplier: f64, sample_rate: f64, size: u64| {
            (
                Step::poisson(Mechanism::Gaussian { noise_multiplier }, sample_rate, size),
                1,
            )
        };
        let mut steps: Vec<(Step, u64)> = (0..300).map(|i| step(1.0 + 0.001 * f64::from(i), 0.01, 2)).collect();
        // Full batches, too few of one size, norms, another mechanism, and no step at all.
        steps.push(step(1.0, 1.0, 2));
        steps.push(step(1.0, 0.01, 3));
        let mut normed = step(1.0, 0.01, 1);
        normed.0.group = Group {
            norms: Some(vec![0.5]),
            ..Group::of(1)
        };
        steps.push(normed);
        steps.push((Step::poisson(Mechanism::Laplace { scale: 1.0 }, 0.01, 2), 1));
        steps.push((steps[0].0.clone(), 0));
        for direction in Direction::BOTH {
            let (losses, others) = merged(&steps, direction);
            assert_eq!((losses.len(), others.len()), (1, 5));
            assert!(losses[0].kinds() < 100);
        }
        // In any order the loss is the same, to the last bit.
        let moment = |steps: &[(Step, u64)]| merged(steps, Direction::Add).0[0].moments(1.0, -30.0).log_moment;
        let first = moment(&steps);
        steps.reverse();
        assert_eq!(moment(&steps), first);
    }
}
