//! A cache for curves of which many points are asked: contours and grids of one ε also answer questions in a range around it.
//!
//! The axis of ε is divided into ranges as wide as the loss spreads. Contours and grids that are computed for the middle of a range are
//! accurate near it, and their errors are bounded at every ε. An answer depends on its ε alone, not on earlier questions, as every range
//! is computed as if nothing had been asked before.

use crate::curve::accuracy::PointAccuracy;
use crate::curve::composed_loss::ComposedLoss;
use crate::curve::evaluators::Evaluators;
use crate::interval::Enclosure;
use std::collections::HashMap;

/// Width of the interval in the middle of a range over the width that is asked for, as intervals widen towards the ends of the range.
const FINER: f64 = 0.2;
/// Width of a range in standard deviations of the loss.
const RANGE_WIDTH: f64 = 0.7;
/// Ranges on either side of the first one that are cached; an ε farther out is computed on its own.
const MAX_RANGES: f64 = 1e6;

/// Room for the rounding of the ends of a range, of which ε may be a unit outside.
const ROOM: f64 = 1.0 + 1e-9;
/// How accurately the other pair's δ is computed where it is compared with a bound, which is loose by a factor of several.
const ROUGH: PointAccuracy = PointAccuracy {
    relative: 1e-2,
    absolute: 0.0,
    coarse: 1e-2,
};

/// The ranges of one ordered pair that questions needed so far, by their places and accuracies.
#[derive(Debug, Default)]
pub(crate) struct RangeCache {
    ranges: HashMap<(i64, [u64; 3]), Range>,
    /// Whether δ of another ordered pair is larger in a whole range, by its place.
    dominated: HashMap<i64, bool>,
}

/// Contours and grids for the middle of a range, δ there, and the work that they took in density evaluations.
#[derive(Debug)]
struct Range {
    evaluators: Vec<Evaluators>,
    middle: Enclosure,
    work: u64,
}

impl Range {
    /// The range around `middle`, as if nothing had been asked before.
    fn around(middle: f64, loss: &mut ComposedLoss, accuracy: PointAccuracy) -> Self {
        let (found, work) = from_scratch(loss, middle, accuracy, FINER);
        let evaluators = loss.take_evaluators();
        loss.forget();
        Self {
            evaluators,
            middle: found,
            work,
        }
    }

    /// δ of `loss` at ε by these contours and grids.
    fn delta(&self, loss: &ComposedLoss, epsilon: f64) -> Enclosure {
        let common = loss.common_at(epsilon, |epsilon| {
            let each = self.evaluators.iter().map(|evaluators| evaluators.delta(epsilon));
            each.fold(Enclosure::TRIVIAL, Enclosure::meet)
        });
        loss.with_singular_mass(common)
    }
}

impl RangeCache {
    /// δ at ε, from its range if that is accurate enough, else from scratch; and the work that it took in density evaluations, which
    /// includes that of the range whether it was computed now or for an earlier question.
    pub(crate) fn delta(
        &mut self,
        loss: &mut ComposedLoss,
        epsilon: f64,
        accuracy: PointAccuracy,
    ) -> (Enclosure, u64) {
        let Some((place, middle, _)) = range_of(loss, epsilon) else {
            return from_scratch(loss, epsilon, accuracy, 1.0);
        };
        let range = self
            .ranges
            .entry((place, accuracy.bits()))
            .or_insert_with(|| Range::around(middle, loss, accuracy));
        let found = range.delta(loss, epsilon);
        if accuracy.or_reached(range.middle).is_met(found) {
            return (found, range.work);
        }
        let (fresh, work) = from_scratch(loss, epsilon, accuracy, 1.0);
        (fresh.meet(found), range.work + work)
    }
}

impl RangeCache {
    /// Whether δ of this pair, `loss`, is at most that of another one in the whole range of ε: a cheap bound at the lower end is below
    /// the other's δ at the upper one, and both fall. Next to its largest loss a pair has a δ that takes a second, and does not count.
    ///
    /// It is decided once for a range, from its ends alone, so that answers do not depend on the order of questions.
    pub(crate) fn is_dominated(&mut self, loss: &mut ComposedLoss, by: &mut ComposedLoss, epsilon: f64) -> bool {
        let Some((place, middle, width)) = range_of(loss, epsilon) else {
            return false;
        };
        let half = 0.5 * width * ROOM;
        *self.dominated.entry(place).or_insert_with(|| {
            loss.forget();
            let bound = loss.cheap_bound(middle - half);
            loss.forget();
            bound.is_some_and(|bound| {
                let (least, _) = from_scratch(by, middle + half, ROUGH, 1.0);
                least.certified().is_ok() && bound <= least.log_lower
            })
        })
    }
}

/// The range that holds ε: its place, its middle and its width; `None` where there are no ranges.
fn range_of(loss: &mut ComposedLoss, epsilon: f64) -> Option<(i64, f64, f64)> {
    let width = RANGE_WIDTH * loss.standard_deviation()?;
    let place = ((epsilon - loss.offset()) / width).round();
    (width > 0.0 && place.abs() < MAX_RANGES).then(|| (place as i64, place * width + loss.offset(), width))
}

/// δ at ε as if nothing had been asked before, to `finer` times the widths of `accuracy`, and the work that it took.
fn from_scratch(loss: &mut ComposedLoss, epsilon: f64, accuracy: PointAccuracy, finer: f64) -> (Enclosure, u64) {
    loss.forget();
    let before = loss.work();
    let mut found = loss.delta(epsilon, finer * accuracy.coarse);
    let needed = (accuracy.absolute / found.upper()).clamp(accuracy.relative, accuracy.coarse);
    if needed < accuracy.coarse {
        found = loss.delta(epsilon, finer * needed).meet(found);
    }
    (found, loss.work() - before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::pair_curve::PairCurve;
    use crate::loss::StepLoss;
    use crate::loss::pairs::StepOutcome;
    use crate::step::{Adjacency, Direction, Group, GroupLaw, Mechanism, Sampling, Step};

    const ACCURACY: PointAccuracy = PointAccuracy {
        relative: 1e-6,
        absolute: 0.0,
        coarse: 1e-6,
    };

    fn run() -> ComposedLoss {
        let law = GroupLaw::binomial(1, 0.1).unwrap();
        let loss = StepLoss::mixture(&law, 1.0, Direction::Remove).unwrap().unwrap();
        ComposedLoss::new(vec![(StepOutcome::Loss(loss), 60)], false)
    }

    /// Answers in ascending and in descending order are the same to the last bit, and enclose what an engine that was asked nothing else
    /// encloses more narrowly.
    #[test]
    fn answers_do_not_depend_on_the_order_of_questions() {
        let points: Vec<f64> = (0..24).map(|i| 0.15 * f64::from(i)).collect();
        let answers = |points: &mut dyn Iterator<Item = f64>| {
            let (mut loss, mut cache) = (run(), RangeCache::default());
            let mut of = |epsilon| (epsilon, cache.delta(&mut loss, epsilon, ACCURACY));
            points.map(&mut of).collect::<Vec<_>>()
        };
        let ascending = answers(&mut points.iter().copied());
        let mut descending = answers(&mut points.iter().rev().copied());
        descending.reverse();
        assert_eq!(ascending, descending);
        let mut narrow = run();
        for (epsilon, (found, work)) in ascending.into_iter().step_by(5) {
            narrow.forget();
            let exact = narrow.delta(epsilon, 1e-9);
            assert!(found.log_lower <= exact.log_upper && exact.log_lower <= found.log_upper);
            assert!(ACCURACY.is_met(found) && work > 0, "{epsilon}: {found:?}");
        }
    }

    /// Ten steps at rate 0.05: the largest loss of added records is 10·log(1/0.95) = 0.51293, and δ just below it takes a second.
    #[test]
    fn the_smaller_pair_is_left_out_where_a_bound_shows_that_it_is_smaller() {
        let of = |direction| {
            let law = GroupLaw::binomial(1, 0.05).unwrap();
            let loss = StepLoss::mixture(&law, 2.0, direction).unwrap().unwrap();
            ComposedLoss::new(vec![(StepOutcome::Loss(loss), 10)], direction == Direction::Add)
        };
        let (mut removed, mut added) = (of(Direction::Remove), of(Direction::Add));
        let mut cache = RangeCache::default();
        assert!(cache.is_dominated(&mut added, &mut removed, 0.5102));
        assert!(added.work() < 1_000_000, "{}", added.work());
        // At 0 both are the same.
        assert!(!cache.is_dominated(&mut added, &mut removed, 0.0));
        assert!(!cache.is_dominated(&mut removed, &mut added, 0.0));
        let mut dominated = 0;
        for epsilon in (0..45).map(|i| 0.01 * f64::from(i)) {
            if cache.is_dominated(&mut added, &mut removed, epsilon) {
                dominated += 1;
                let (smaller, larger) = (added.delta(epsilon, 1e-6), removed.delta(epsilon, 1e-6));
                assert!(
                    smaller.log_upper <= larger.log_lower,
                    "{epsilon}: {smaller:?} {larger:?}"
                );
            }
        }
        assert!(dominated > 10, "{dominated}");
        // The curve of both asks for the larger one alone.
        let step = Step {
            mechanism: Mechanism::Gaussian { noise_multiplier: 2.0 },
            sampling: Sampling::Poisson { sample_rate: 0.05 },
            group: Group::of(1),
        };
        let mut both = PairCurve::new(&[(step, 10)], Adjacency::AddRemove).unwrap();
        let (found, work) = both.delta_and_work(0.5102, ACCURACY).unwrap();
        let alone = removed.delta(0.5102, 1e-6);
        assert!(found.log_lower <= alone.log_upper && alone.log_lower <= found.log_upper);
        assert!(work < 2_000_000, "{work}");
    }

    /// An answer from a range takes no more work than the range did, and the same question no work at all.
    #[test]
    fn a_range_is_computed_once() {
        let (mut loss, mut cache) = (run(), RangeCache::default());
        let first = cache.delta(&mut loss, 1.0, ACCURACY);
        let before = loss.work();
        assert_eq!(cache.delta(&mut loss, 1.0, ACCURACY), first);
        assert_eq!(loss.work(), before);
    }
}
