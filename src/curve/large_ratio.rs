//! The curve of a run as a sum over where its large likelihood ratios are: nowhere, or in one step within a range.
//!
//! Let the outputs of every step be split into those without a large likelihood ratio, those with exactly one within a range, and a rest. Outputs of the run with none in all steps,
//! and those with one in one step and none in the others, are parts of it whose curves add up to at most δ. Of the rest, P has those with two large ratios with a probability of at
//! most half of the square of the sum p of the probabilities that a step has one, and those with one beyond all ranges with at most their sum. What the first add to δ is far less where
//! two ratios that are just large do not reach ε: then moments bound it ([`many`]), and ratios may be called large of which a run has two far more often than δ. The fewer are not large,
//! the closer is the curve of what has none.

mod many;

use crate::curve::accuracy::Accuracy;
use crate::curve::large_ratio::many::Many;
use crate::curve::singular_mass::rounded;
use crate::curve::truncated::Truncated;
use crate::interval::Enclosure;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::segment::Segment;
use crate::loss::privacy_loss::{RatioRange, RatioSplit};
use crate::special::log_space::{LogSum, log_add};
use std::f64::consts::LN_2;

/// Questions that are not answered after which none is asked for the same answer, of few large ratios and of many, and levels that are tried for one question. With one of many, 211 epochs of
/// 33,686 batches with noise 1.046 had an ε 0.2 % wide at δ = 4e-52 that is 8e-7 wide.
const MOST_FAILURES: [usize; 2] = [1, 2];
const LEVELS: usize = 4;
/// The largest ε, and number of different steps, for which outputs are split. Of 300 random runs at δ between 1e-100 and 1e-15 none had a narrower ε above 40 with it; and each different step makes parts of its own,
/// of as many steps.
const LARGEST_EPSILON: f64 = 25.0;
const MOST_KINDS: usize = 8;
/// Levels are multiples of this, so that questions about similar δ share one.
const LEVEL_STEP: f64 = 8.0;
/// −log of the probability under P of a large ratio over the level: with a half two of them may be left out for their probability alone, and other splits are tried where that one does not
/// answer. From 0.25 on it grows in whole steps until moments say that two may be left out, so that questions about one level share splits. With 0.25 tried first, 680 epochs of
/// 149,513 batches with noise 0.776 had an ε 1e-3 wide at δ = 4e-20 that is 1e-6 wide; without it, five of 54,302 with noise 1.291 one 4 % wide at 1.6e-88.
const SHARES: [f64; 2] = [0.5, 0.25];
const STEP_OF_SHARE: f64 = 0.05;
/// How many times wider than asked for an enclosure is where splits of many are tried: four epochs of 46,749 batches with noise 0.644 took 5 s more for an ε that is 1.1e-7 wide at
/// δ = 8e-40 without this.
const WORTH_MANY: f64 = 8.0;
/// log of how much more than what the level says may be left out.
const LITTLE_MORE: f64 = 1.0;
/// Losses between ranges: each is this many times the one before, from the smallest on, as long as ranges are shorter than the longest; from there on they
/// are as long as that. The density of one large loss falls about like a power, so that within such a range a tilt hardly favours one end. With ranges that
/// contain all losses above 0.8·ε, eight epochs of 2,352 batches with noise 1.354 had a δ 7 % wide at 3e-42.
const QUOTIENT: f64 = 2.5;
const SMALLEST: f64 = 1e-4;
const LONGEST: f64 = 0.5;
/// The largest loss between ranges.
const LARGEST: f64 = 20.0;
/// The least tilt for a range, and that times the distance of its lower end from ε, to which a part of the range is added. Ranges above ε have no saddle point;
/// at a small tilt their lines have too many points, and at a large one a contour lacks digits: with twice this product intervals are up to eight times wider.
const LEAST_TILT: f64 = 2.0;
const LEAST_TILTED: f64 = 8.0;
const PART_OF_RANGE: f64 = 0.25;
/// log of the part of the width that is asked for which may be left out.
const LEFT_OUT: f64 = -3.0;
/// The part of the width that is asked for which each part of the run may have.
const SHARE: f64 = 0.25;
/// log of how much larger than a part the others are for its width not to matter: where a part that matters is not known, the others are not asked.
const IRRELEVANT: f64 = 4.0;
/// Widest enclosure of a part that is asked for.
const WIDEST: f64 = 0.3;

/// How many ratios of a split are large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// So few that a run has two of them hardly ever.
    Few = 0,
    /// As many as moments allow, which costs more.
    Many = 1,
}

/// The splits of one run that questions needed so far.
#[derive(Debug, Default)]
pub(super) struct LargeRatios {
    /// By level and its share; `None` where a split is of no use.
    splits: Vec<((f64, f64), Option<ByLargeRatio>)>,
    /// What answered the last question, and how many questions each did not answer.
    answered: Option<Share>,
    failures: [usize; 2],
}

impl LargeRatios {
    /// Forgets what could make the next answer depend on earlier questions.
    pub(super) fn forget(&mut self) {
        let splits = self.splits.iter_mut().filter_map(|(_, split)| split.as_mut());
        splits.for_each(ByLargeRatio::forget);
        (self.answered, self.failures) = (None, [0, 0]);
    }

    /// Work so far.
    pub(super) fn work(&self) -> u64 {
        let splits = self.splits.iter().filter_map(|(_, split)| split.as_ref());
        splits.map(ByLargeRatio::work).sum()
    }

    /// What answered the last question to the accuracy that was asked for.
    pub(super) fn answered(&self) -> Option<Share> {
        self.answered
    }

    /// δ of the run at ε > 0, if it is about e^`log_delta`; nothing after some questions for the same answer that were not answered, and where what is `known` needs no
    /// split of many.
    pub(super) fn delta(
        &mut self,
        segments: &[Segment],
        (epsilon, log_delta): (f64, f64),
        accuracy: &Accuracy,
        (share, known): (Share, Enclosure),
    ) -> Enclosure {
        let is_needed = share == Share::Few
            || (known.width() > WORTH_MANY * accuracy.sufficient_width
                && !known.is_on_one_side_of(accuracy.threshold));
        let is_outside = epsilon <= 0.0 || epsilon > LARGEST_EPSILON || segments.len() > MOST_KINDS;
        if is_outside || self.failures[share as usize] >= MOST_FAILURES[share as usize] || !is_needed {
            return Enclosure::TRIVIAL;
        }
        let found = self.by_share(segments, (epsilon, log_delta), accuracy, SHARES[share as usize]);
        let is_answered = accuracy.is_met(found);
        self.answered = is_answered.then_some(share);
        self.failures[share as usize] += usize::from(!is_answered);
        found
    }

    /// δ by splits from a least share of the level on.
    fn by_share(
        &mut self,
        segments: &[Segment],
        (epsilon, log_delta): (f64, f64),
        accuracy: &Accuracy,
        least: f64,
    ) -> Enclosure {
        let (mut found, mut expected) = (Enclosure::TRIVIAL, log_delta);
        for _ in 0..LEVELS {
            let level = level_for(expected, accuracy.width);
            let Some(split) = self.split_for(segments, (level, least), epsilon) else {
                return found;
            };
            found = found.meet(split.delta(epsilon, accuracy));
            let is_little_left_out = split.log_left_out(epsilon) < found.log_upper + accuracy.log_fraction();
            if accuracy.is_met(found) || is_little_left_out {
                break;
            }
            expected = expected.min(found.log_upper);
        }
        found
    }

    /// The split with the most large ratios of which little more than e^−`level` is left out at ε, or the one with the fewest.
    ///
    /// What is left out falls about like the probability of a large ratio.
    fn split_for(
        &mut self,
        segments: &[Segment],
        (level, least): (f64, f64),
        epsilon: f64,
    ) -> Option<&mut ByLargeRatio> {
        let (mut best, mut share) = (None, least);
        loop {
            let known = self.splits.iter().position(|(known, _)| *known == (level, share));
            let place = known.unwrap_or_else(|| {
                self.splits
                    .push(((level, share), ByLargeRatio::new(segments, level, share)));
                self.splits.len() - 1
            });
            let Some(split) = &mut self.splits[place].1 else {
                break;
            };
            best = Some(place);
            let excess = (split.log_left_out(epsilon) + level - LITTLE_MORE) / level;
            if excess <= 0.0 || share >= SHARES[0] {
                break;
            }
            let steps = (excess.min(1.0) / STEP_OF_SHARE).ceil().max(1.0);
            share = (share + steps * STEP_OF_SHARE).min(SHARES[0]);
        }
        self.splits.get_mut(best?).and_then(|(_, split)| split.as_mut())
    }
}

/// −log of what is to be left out at most where δ is about e^`log_delta`, and its relative width is to be `width`.
fn level_for(log_delta: f64, width: f64) -> f64 {
    let level = -(log_delta + width.min(1.0).ln() + LEFT_OUT);
    (level / LEVEL_STEP).ceil() * LEVEL_STEP
}

/// A run that is split by its large likelihood ratios.
#[derive(Debug)]
struct ByLargeRatio {
    parts: Vec<Part>,
    many: Many,
    /// log of bounds on the probabilities under P of two large ratios, and of one beyond all ranges.
    log_two: f64,
    log_beyond: f64,
}

/// The losses between ranges.
fn losses() -> Vec<f64> {
    let mut all = vec![SMALLEST];
    let mut last = SMALLEST;
    while last < LARGEST {
        last = (QUOTIENT * last).min(last + LONGEST);
        all.push(last);
    }
    all
}

/// A part of the run.
#[derive(Debug)]
struct Part {
    /// log of how often it counts.
    log_count: f64,
    run: Truncated,
    /// The range of the large ratio, where there is one.
    range: Option<RatioRange>,
    /// A bound on its moment at the tilt of the last question.
    moment: Option<MomentBound>,
}

/// A copy of these segments, without a step of one of them.
fn without(segments: &[Segment], one: Option<usize>) -> Vec<Segment> {
    let of = |(i, segment): (usize, &Segment)| Segment {
        loss: segment.loss.truncated(f64::NEG_INFINITY, segment.steps).0,
        steps: segment.steps - f64::from(u8::from(one == Some(i))),
    };
    let all = segments.iter().enumerate().map(of);
    all.filter(|segment| segment.steps > 0.0).collect()
}

impl Part {
    fn new(log_count: f64, run: Vec<Segment>, range: Option<RatioRange>) -> Self {
        Self {
            log_count,
            run: Truncated::whole(run),
            range,
            moment: None,
        }
    }

    /// The tilt for questions about ε; `None` where there is none, or a negative one: there a contour tells how much the law has of its whole mass.
    fn tilt(&mut self, epsilon: f64) -> Option<f64> {
        let saddle = self.run.saddle(epsilon);
        let Some(RatioRange { lowest, .. }) = self.range else {
            return saddle.filter(|c| *c > 0.0);
        };
        let distance = (lowest - epsilon).max(0.0) + PART_OF_RANGE * lowest.min(LONGEST);
        let least = (LEAST_TILTED / distance).max(LEAST_TILT);
        Some(saddle.filter(|c| *c > LEAST_TILT).unwrap_or(least))
    }

    /// log of a bound on its δ at ε, by a tilt.
    fn log_bound(&mut self, tilt: Option<f64>, epsilon: f64) -> f64 {
        self.moment = tilt.and_then(|c| self.run.moment_at(c));
        let bound = match tilt {
            Some(_) => self.moment.map_or(0.0, |moment| moment.chernoff(epsilon).log_upper),
            None => self.run.chernoff(epsilon).log_upper,
        };
        self.log_count + bound.min(self.log_mass())
    }

    /// log of its probability, at most.
    fn log_mass(&self) -> f64 {
        self.range.map_or(0.0, |range| range.log_mass)
    }

    /// log of bounds on its δ at ε by what earlier questions found.
    fn known(&self, epsilon: f64) -> (f64, f64) {
        let bound = self.moment.map_or(0.0, |moment| moment.chernoff(epsilon).log_upper);
        let known = self.run.known(epsilon);
        let upper = known.log_upper.min(bound).min(self.log_mass());
        (self.log_count + known.log_lower, self.log_count + upper)
    }

    /// Forgets what could make the next answer depend on earlier questions.
    fn forget(&mut self) {
        self.run.forget();
        self.moment = None;
    }
}

impl ByLargeRatio {
    /// `None` where no step is split, or where the run is a single step.
    fn new(segments: &[Segment], level: f64, share: f64) -> Option<Self> {
        let steps: f64 = segments.iter().map(|segment| segment.steps).sum();
        if steps <= 1.0 {
            return None;
        }
        let losses = losses();
        let split = RatioSplit {
            steps,
            log_mass: -share * level - steps.ln(),
            log_mass_beyond: -level - steps.ln(),
            losses: &losses,
        };
        let (mut some, mut beyond) = (LogSum::default(), LogSum::default());
        let (mut none, mut one, mut many) = (Vec::new(), Vec::new(), Vec::new());
        for segment in segments {
            let found = segment.loss.by_large_ratio(&split);
            some.add(found.log_some + segment.steps.ln());
            beyond.add(found.log_beyond + segment.steps.ln());
            none.push(Segment {
                loss: found.none,
                steps: segment.steps,
            });
            one.push(found.one);
            many.push(found.many);
        }
        // Each addition rounds the sum, and now and then its scale.
        let rounding = 8.0 * f64::EPSILON * segments.len() as f64;
        let [log_some, log_beyond] = [some, beyond].map(|sum| rounded(sum.ln() + rounding, 1.0));
        let (mut parts, mut ranges) = (vec![Part::new(0.0, without(&none, None), None)], Vec::new());
        for (i, losses) in one.into_iter().enumerate() {
            for (loss, range) in losses {
                let mut all = without(&none, Some(i));
                all.push(Segment { loss, steps: 1.0 });
                parts.push(Part::new(segments[i].steps.ln(), all, Some(range)));
                ranges.push((i, range));
            }
        }
        let is_split = parts.len() > 1;
        is_split.then(|| Self {
            parts,
            many: Many::new(none, many, ranges.into_iter(), (log_some, -level)),
            log_two: rounded(2.0 * log_some - LN_2, 1.0),
            log_beyond,
        })
    }

    /// Forgets what could make the next answer depend on earlier questions.
    fn forget(&mut self) {
        self.parts.iter_mut().for_each(Part::forget);
    }

    /// Work so far.
    fn work(&self) -> u64 {
        self.many.work() + self.parts.iter().map(|part| part.run.work()).sum::<u64>()
    }

    /// log of a bound on what is left out.
    fn log_left_out(&mut self, epsilon: f64) -> f64 {
        let by_pairs = self.log_two;
        let log_two = if by_pairs > self.many.log_wanted() {
            self.many.log_bound(epsilon).min(by_pairs)
        } else {
            by_pairs
        };
        log_add(log_two, self.log_beyond)
    }

    /// δ by the contours and moments of earlier questions.
    fn known(&mut self, epsilon: f64) -> Enclosure {
        let (mut lower, mut upper) = (LogSum::default(), LogSum::default());
        for part in &self.parts {
            let known = part.known(epsilon);
            lower.add(known.0);
            upper.add(known.1);
        }
        // What is left out may take a search, which is in vain where nothing else is known.
        if lower.ln() > f64::NEG_INFINITY {
            upper.add(self.log_left_out(epsilon));
        }
        self.sum((lower, upper), Enclosure::TRIVIAL)
    }

    /// The enclosure of the sum of all parts, marked as `like` is.
    fn sum(&self, (lower, upper): (LogSum, LogSum), like: Enclosure) -> Enclosure {
        // Each addition rounds the sum, and now and then its scale.
        let rounding = 8.0 * f64::EPSILON * self.parts.len() as f64;
        like.with_logs(
            rounded(lower.ln() - rounding, -1.0),
            rounded(upper.ln() + rounding, 1.0),
        )
    }

    /// δ.
    fn delta(&mut self, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        let known = self.known(epsilon);
        if known.log_lower > f64::NEG_INFINITY && accuracy.is_met(known) {
            return known;
        }
        let mut bounds: Vec<(f64, Option<f64>, usize)> = Vec::new();
        for (i, part) in self.parts.iter_mut().enumerate() {
            let tilt = part.tilt(epsilon);
            bounds.push((part.log_bound(tilt, epsilon), tilt, i));
        }
        bounds.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut lower, mut upper) = (LogSum::default(), LogSum::default());
        let (mut marked, mut is_hopeless) = (Enclosure::TRIVIAL, false);
        upper.add(self.log_left_out(epsilon));
        for (bound, tilt, i) in bounds {
            let Part { log_count, run, .. } = &mut self.parts[i];
            let excess = (lower.ln() - bound).max(0.0);
            let width = SHARE * accuracy.width * excess.exp();
            let Some(tilt) = tilt.filter(|_| width <= 1.0 && !is_hopeless) else {
                upper.add(bound);
                continue;
            };
            let wanted = Accuracy::of_width(width.min(WIDEST));
            let found = run.at_tilt(tilt, epsilon, &wanted);
            if found.certified().is_err() {
                marked = found;
            }
            // A part that counts and of which little is known makes all of the curve as wide.
            is_hopeless = found.width() > WIDEST && excess < IRRELEVANT;
            lower.add(found.log_lower + *log_count);
            upper.add((found.log_upper + *log_count).min(bound));
        }
        self.sum((lower, upper), marked)
    }
}

#[cfg(test)]
mod tests;
