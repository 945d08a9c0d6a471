//! A bound on the part of δ that outputs with two and more large likelihood ratios have, by moments.
//!
//! Outputs are told apart by the largest of their normal variables, which is within one range. With S the loss of the run, (1 − e^{ε − S})₊ is at most
//! e^{c(S − ε)} times c^c/(1 + c)^{1 + c}, and E[e^{cS}] over these outputs is a sum over the step that has the largest one. Either it has no other large ratio, so that another step has
//! one, or it has two. With the moments M_i of step i without large ratios, S_i over those with some up to the upper end of the range, and O and D of a step over those with
//! exactly one in the range and with several, it is at most the number of steps times Π M_i times O·(Π (1 + S_i/M_i) − 1) + D·Π (1 + S_i/M_i), with products
//! over all other steps. Or, as there are at most the pairs of two large ratios one of which is in the range, the probability under P.

use crate::curve::singular_mass::rounded;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::segment::Segment;
use crate::loss::privacy_loss::{ManyRatios, RatioRange};
use crate::special::log_space::{LogSum, log_add};

/// Tilts at which moments are taken: the first one, how many times the one before each is, and how many there are. The first is the least at which moments without large ratios are sums over
/// a line, and the last, above 2,000, beyond the saddle points of all ranges whose pairs matter.
const LEAST_TILT: f64 = 1.5;
const QUOTIENT: f64 = 1.35;
const TILTS: usize = 26;
/// The tilt that is tried first.
const FIRST: usize = 8;
/// log of the part of what may be left out that is not worth a moment: without it nearly all ranges would be as wide as what may be left out.
const NEGLIGIBLE: f64 = -3.0;
/// Evaluations of a density that the three bounds for one range and tilt take, about: each a dozen steps of Newton's method with two rules.
const WORK_OF_MOMENT: u64 = 20_000;
/// Tolerance of the moments.
const LOG_TOLERANCE: f64 = -30.0;

/// The steps of a run with what is known of those with several large ratios.
#[derive(Debug)]
pub(super) struct Many {
    /// Without large ratios.
    none: Vec<Segment>,
    many: Vec<Option<Box<dyn ManyRatios>>>,
    /// With the number of the segment, from the largest on, and logs of the moments of the run by tilt as far as they were needed.
    ranges: Vec<(usize, RatioRange, Vec<Option<f64>>)>,
    /// Bounds of the logarithms of the moments M_i by tilt.
    of_none: Vec<Option<Vec<(f64, f64)>>>,
    /// log of a bound on the probability under P that some ratio is large, and of what may be left out.
    log_some: f64,
    log_wanted: f64,
    /// How many moments of ranges were needed.
    count: u64,
}

/// The tilts.
pub(super) fn tilt(i: usize) -> f64 {
    LEAST_TILT * QUOTIENT.powi(i as i32)
}

impl Many {
    /// Of segments without large ratios, with what is known of those with some, and ranges by segment.
    pub(super) fn new(
        none: Vec<Segment>,
        many: Vec<Option<Box<dyn ManyRatios>>>,
        ranges: impl Iterator<Item = (usize, RatioRange)>,
        (log_some, log_wanted): (f64, f64),
    ) -> Self {
        let mut ranges: Vec<_> = ranges.map(|(i, range)| (i, range, vec![None; TILTS])).collect();
        ranges.sort_by(|a, b| b.1.ends.1.total_cmp(&a.1.ends.1));
        Self {
            none,
            many,
            ranges,
            of_none: vec![None; TILTS],
            log_some,
            log_wanted,
            count: 0,
        }
    }

    /// Work so far.
    pub(super) fn work(&self) -> u64 {
        let of_none = self.none.iter().map(|segment| segment.loss.work());
        of_none.sum::<u64>() + WORK_OF_MOMENT * self.count
    }

    /// log of what may be left out.
    pub(super) fn log_wanted(&self) -> f64 {
        self.log_wanted
    }

    /// log of a bound on what outputs with two and more large ratios add to δ(ε).
    pub(super) fn log_bound(&mut self, epsilon: f64) -> f64 {
        let (mut sum, mut place) = (LogSum::default(), FIRST);
        let negligible = self.log_wanted + NEGLIGIBLE - (self.ranges.len() as f64).ln();
        for k in 0..self.ranges.len() {
            let (i, range, _) = &self.ranges[k];
            let of_pairs = range.log_mass + self.none[*i].steps.ln() + self.log_some;
            if of_pairs < negligible {
                sum.add(of_pairs);
                continue;
            }
            let (best, log) = self.least((k, place), epsilon);
            place = best;
            sum.add(log.min(of_pairs));
        }
        // Each addition rounds the sum, and now and then its scale.
        rounded(sum.ln() + 8.0 * f64::EPSILON * self.ranges.len() as f64, 1.0)
    }

    /// The tilt with the least bound for a range, sought from a first one on, and log of that bound: its logarithm is a convex function of the tilt.
    fn least(&mut self, (k, start): (usize, usize), epsilon: f64) -> (usize, f64) {
        let mut best = (start, self.bound((k, start), epsilon));
        for forward in [true, false] {
            let beside = |i: usize| if forward { Some(i + 1) } else { i.checked_sub(1) };
            while let Some(next) = beside(best.0).filter(|i| *i < TILTS) {
                let log = self.bound((k, next), epsilon);
                if log.is_nan() || log >= best.1 {
                    break;
                }
                best = (next, log);
            }
        }
        best
    }

    /// log of the bound for a range by the moment at a tilt.
    fn bound(&mut self, (k, j): (usize, usize), epsilon: f64) -> f64 {
        let known = self.ranges[k].2[j];
        let log_moment = known.unwrap_or_else(|| self.log_moment(k, j));
        self.ranges[k].2[j] = Some(log_moment);
        MomentBound { c: tilt(j), log_moment }.chernoff(epsilon).log_upper
    }

    /// log of a bound on E[e^{cS}] over the outputs with several large ratios of which the largest is in a range.
    pub(super) fn log_moment(&mut self, k: usize, j: usize) -> f64 {
        self.count += 1;
        let c = tilt(j);
        let none = &mut self.none;
        let of_none = self.of_none[j].get_or_insert_with(|| {
            let moments = none
                .iter_mut()
                .map(|segment| segment.loss.moments(c, LOG_TOLERANCE).log_moment);
            moments.map(|log| (log.lower(), log.upper())).collect()
        });
        let (own, range, _) = &self.ranges[k];
        let Some(many) = self.many[*own].as_deref() else {
            return f64::INFINITY;
        };
        // log of Π M_i over all steps but one, and of Π (1 + S_i/M_i).
        let (mut log_none, mut log_any) = (0.0, 0.0);
        for (i, (segment, (least, most))) in none.iter().zip(of_none.iter()).enumerate() {
            let others = segment.steps - f64::from(u8::from(i == *own));
            log_none += others * most;
            if let Some(many) = &self.many[i] {
                let log_ratio = many.log_some(c, range.ends.1) - least;
                // A ratio below the range of an `f64` is not 0.
                let least = if log_ratio > f64::NEG_INFINITY {
                    f64::MIN_POSITIVE
                } else {
                    0.0
                };
                log_any += others * log_ratio.exp().ln_1p().max(least);
            }
        }
        let another = many.log_one(c, range) + log_any.exp_m1().ln();
        let several = many.log_several(c, range) + log_any;
        // A moment of 0 has no rounding.
        let size = |log: f64| if log == f64::NEG_INFINITY { 0.0 } else { log.abs() };
        let rounding = 8.0 * f64::EPSILON * (log_none.abs() + size(another) + size(several) + 8.0);
        none[*own].steps.ln() + log_none + log_add(another, several) + rounding
    }
}
