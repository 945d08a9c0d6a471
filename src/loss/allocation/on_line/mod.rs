//! δ of one epoch, or of a part of it, from the transform of the sum of likelihood ratios on one line.
//!
//! With the sum S of the likelihood ratios Y of the m batches that are released, of t, δ(ε) is E_Q[(S − w)₊]/t, w = t(e^ε − 1) + m, where the record is
//! removed, and e^ε·E_Q[(w − S)₊]/t, w = t(e^{−ε} − 1) + m, where it is added. Each expectation is one integral over a line on which the transform of S is the
//! product of those of its terms (`docs/theory/random-allocation.md`, Proposition 16). A line serves a range of thresholds.
//!
//! | file | what |
//! |---|---|
//! | [`batch`] | the transform of one likelihood ratio |
//! | [`sums`], [`frequencies`] | its sums over nodes, at one λ and at many frequencies |
//! | [`modulus`] | how the transform of the sum falls |
//! | [`choice`] | which line, and which Y are large |
//! | [`mod@line`] | both expectations |
//! | [`rough`] | about how large both are |
//! | [`start`] | where a search for ε starts |

pub(super) mod batch;
mod choice;
mod frequencies;
mod line;
mod modulus;
mod rough;
mod start;
mod sums;

use crate::interval::Enclosure;
use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::on_line::choice::Target;
use crate::loss::allocation::on_line::line::SumLine;
use crate::loss::allocation::on_line::rough::Rough;
use crate::loss::allocation::threshold::{Range, Threshold, released};
use crate::loss::privacy_loss::SharedTables;
use crate::special::log_space::log_add;
use crate::step::Direction;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Lines that are kept: all are forgotten when there are more.
const MOST_KEPT: usize = 256;
/// The mark of lines among the tables of a question.
const MARK: u8 = 16;

/// Thresholds within this part of a standard deviation of S from its mean share one line; where that is large, this part of the mean takes its place.
const NEXT_TO_MEAN: f64 = 0.25;
const LARGEST_SHARE: f64 = 0.2;
/// Largest width of δ where a line is of use.
const USEFUL: f64 = 1e-2;
/// Their range.
const AT_MEAN: i64 = 1 << 41;

/// Number of a range, and whether X = S − w.
type Key = (i64, bool);

/// δ of one epoch, or of a part of it. What is found for a range of thresholds is kept; none of it depends on what was asked before.
#[derive(Debug)]
pub(super) struct SumsOnLine {
    bins: Bins,
    direction: Direction,
    known: Mutex<BTreeMap<Key, Option<Arc<SumLine>>>>,
}

impl SumsOnLine {
    pub(super) fn new(bins: Bins, direction: Direction) -> Self {
        Self {
            bins,
            direction,
            known: Mutex::default(),
        }
    }

    /// Bounds on δ(ε).
    pub(super) fn delta(&self, epsilon: f64, tables: &mut SharedTables) -> Enclosure {
        if epsilon.is_nan() || self.bins.parts.is_empty() {
            return Enclosure::TRIVIAL;
        }
        let threshold = Threshold::new(&self.bins, self.direction, epsilon);
        let Some((lower, upper)) = self.log_expectation(&threshold, tables) else {
            return Enclosure::TRIVIAL;
        };
        if lower.is_nan() || upper.is_nan() {
            return Enclosure::TRIVIAL; // beyond the range of numbers
        }
        let log_factor = match self.direction {
            Direction::Remove => -self.bins.total.ln(),
            Direction::Add => epsilon - self.bins.total.ln(),
        };
        let slack = 8.0 * f64::EPSILON * (1.0 + log_factor.abs() + epsilon.abs() + upper.abs().min(1e6));
        Enclosure::of_logs(lower + log_factor - slack, upper + log_factor + slack)
    }

    /// An ε at which δ is about e^`log_delta`, and −d log δ/dε there; `None` where no line serves it, as estimates are of little use then.
    pub(super) fn estimate(&self, log_delta: f64) -> Option<(f64, f64)> {
        let found = start::estimate(&self.bins, self.direction, log_delta)?;
        let there = self.delta(found.0, &mut SharedTables::default());
        (there.width() < USEFUL).then_some(found)
    }

    /// Bounds on log E[X₊] for X = S − w, or w − S. Where the mean of X is positive, E[X₊] = E[(−X)₊] + E\[X\].
    fn log_expectation(&self, threshold: &Threshold, tables: &mut SharedTables) -> Option<(f64, f64)> {
        let excess = self.direction.sign() * (threshold.value - released(&self.bins));
        let error = threshold.error + 2.0 * f64::EPSILON * excess.abs();
        if self.direction == Direction::Remove && threshold.value <= threshold.error {
            // S is positive, so that X is.
            return Some(((-excess - error).max(0.0).ln(), (-excess + 2.0 * error).ln()));
        }
        let deviation = Rough::new(&self.bins.parts, self.direction).deviation;
        let near = NEXT_TO_MEAN * deviation.min(LARGEST_SHARE * released(&self.bins));
        let direction = if excess >= -near {
            self.direction
        } else {
            self.direction.other()
        };
        let (lower, upper) = if direction == Direction::Add && threshold.value + threshold.error <= 0.0 {
            // S is positive.
            (f64::NEG_INFINITY, f64::NEG_INFINITY)
        } else {
            let range = if excess.abs() <= near {
                Range {
                    number: AT_MEAN,
                    middle: released(&self.bins),
                    largest: released(&self.bins) + near,
                }
            } else {
                threshold.range(&self.bins, direction)?
            };
            self.line(direction, range, tables)?.log_expectation(threshold)
        };
        if direction == self.direction {
            return Some((lower, upper));
        }
        let at = |log: f64, mean: f64| log_add(log, mean.max(0.0).ln());
        Some((at(lower, -excess - error), at(upper, -excess + error)))
    }

    fn line(&self, direction: Direction, range: Range, tables: &mut SharedTables) -> Option<Arc<SumLine>> {
        let key = (range.number, direction == Direction::Remove);
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        let found = known.unwrap_or_else(|| {
            let target = Target {
                parts: &self.bins.parts,
                direction,
                range,
                log_most: f64::INFINITY,
            };
            let line = SumLine::new(&target).map(Arc::new);
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() > MOST_KEPT {
                known.clear();
            }
            known.insert(key, line.clone());
            line
        });
        let work = found.as_ref().map_or(0, |line| line.work);
        tables.count((key.0, i64::from(key.1), MARK), work);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(bins: &Bins, direction: Direction, epsilon: f64) -> Enclosure {
        SumsOnLine::new(bins.clone(), direction).delta(epsilon, &mut SharedTables::default())
    }

    /// For negative ε both directions are one another's: δ_add(ε) = 1 − e^ε + e^ε·δ_remove(−ε).
    #[test]
    fn negative_epsilons_are_those_of_the_other_direction() {
        for (batches, v) in [(vec![(100, 0.25)], 0.25), (vec![(20, 1.0), (30, 0.0)], 1.0)] {
            let bins = Bins::new(&batches).unwrap();
            for epsilon in [-0.3f64, -0.05, 0.0, 0.05] {
                for direction in Direction::BOTH {
                    let here = delta(&bins, direction, epsilon);
                    let there = delta(&bins, direction.other(), -epsilon);
                    let of = |value: f64| -epsilon.exp_m1() + epsilon.exp() * value;
                    let slack = 1e-12;
                    assert!(
                        here.lower() <= of(there.upper()) + slack,
                        "{v} {epsilon}: {here:?} {there:?}"
                    );
                    assert!(
                        of(there.lower()) <= here.upper() + slack,
                        "{v} {epsilon}: {here:?} {there:?}"
                    );
                    assert!(here.upper() - here.lower() < 1e-9, "{v} {epsilon}: {here:?}");
                }
            }
        }
    }

    /// On both sides of the edges between ranges of thresholds δ is the same, and it falls.
    #[test]
    fn ranges_of_thresholds_agree_at_their_edges() {
        let bins = Bins::new(&[(1000, 0.25)]).unwrap();
        for direction in Direction::BOTH {
            let mut last = f64::INFINITY;
            for i in 6..22 {
                // log of the distance of w from its mean is at the end of a range.
                let distance = ((f64::from(i) + 0.5) * 0.25).exp();
                let epsilon = direction.sign() * (direction.sign() * distance / 1000.0).ln_1p();
                let [before, after] =
                    [1.0 - 1e-9, 1.0 + 1e-9].map(|factor| delta(&bins, direction, factor * epsilon));
                assert!(before.log_upper >= after.log_lower, "{i}: {before:?} {after:?}");
                assert!(before.log_lower - after.log_upper < 1e-5, "{i}: {before:?} {after:?}");
                assert!(before.log_lower <= last + 1e-12, "{i}");
                last = after.log_upper;
            }
        }
    }

    /// No W is below the share of batches that are not released.
    #[test]
    fn nothing_is_added_beyond_the_largest_loss() {
        let bins = Bins::new(&[(3, 1.0), (1, 0.0)]).unwrap();
        assert_eq!(delta(&bins, Direction::Add, 4f64.ln() + 1e-9), Enclosure::ZERO);
        assert_eq!(delta(&bins, Direction::Add, f64::NAN), Enclosure::TRIVIAL);
    }
}
