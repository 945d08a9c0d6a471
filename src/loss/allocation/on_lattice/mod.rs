//! δ of a part of an epoch, or of an epoch, by the law of the sum of likelihood ratios on a lattice.
//!
//! With the sum S of the likelihood ratios Y of the m batches that are released, of t, δ(ε) is E_Q[(S − w)₊]/t, w = t(e^ε − 1) + m, where the record is
//! removed, and e^ε·E_Q[(w − S)₊]/t, w = t(e^{−ε} − 1) + m, where it is added. Both grow with the law of Y in the convex order, so that two laws on lattices
//! on either side of it ([`laws`]) give both ends. What they differ by is of the order of h², the square of the spacing.
//!
//! Each sum is tilted so that its mean is next to w, whatever δ is. Outcomes with some Y above the last place, which is above w, count S − w as a whole:
//! their part of the first expectation is in closed form, and they have none of the second (`docs/theory/random-allocation.md`, Proposition 15).
//!
//! | file | what |
//! |---|---|
//! | [`cells`] | what it gives to both ends of a cell |
//! | [`laws`] | the two laws on lattices |
//! | [`side`] | the sum of the batches under one of the two, and both expectations |

mod cells;
mod laws;
mod side;

use crate::interval::Enclosure;
use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::log_normal::LogNormal;
use crate::loss::allocation::on_lattice::side::Side;
use crate::loss::allocation::threshold::{Range, Threshold, released};
use crate::loss::lattice::excess::End;
use crate::loss::privacy_loss::SharedTables;
use crate::special::root::bisect;
use crate::step::Direction;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

/// ε below which thresholds are next to the mean, where other routes serve.
const LEAST_EPSILON: f64 = 1e-6;
/// Digits of δ that lattices are made for.
const FEWEST_DIGITS: f64 = 3.0;
const MOST_DIGITS: f64 = 9.0;
/// The part of the wanted width that the spacing leaves.
const PART: f64 = 0.7;
/// A spacing that is not smaller than this part of the last one is not worth another lattice, and none is smaller than that part of it: far
/// extrapolations are too long.
const CLOSE: f64 = 0.8;
const FINER: f64 = 0.02;
/// Places where a tilt is estimated, and limits of the number that is chosen.
const COARSE: usize = 512;
const FEWEST_PLACES: f64 = 2048.0;
/// Places of a law and of a window, about, up to which a lattice takes no more than other routes: some twenty milliseconds.
const FEW_PLACES: f64 = 120_000.0;
const MOST_PLACES: f64 = 262_144.0;
/// A window in standard deviations, about, and most places in it.
const WINDOW: f64 = 12.0;
const MOST_IN_WINDOW: f64 = 1_000_000.0;
/// The part of δ that outcomes with a large Y may be for places to end before them. The last place is looked for in so many rounds at most, until its
/// logarithm changes by no more than this.
const NEGLIGIBLE: f64 = 1e-9;
const ROUNDS: usize = 6;
const MUCH: f64 = 0.3;

/// Width at the ends of a range over that in its middle, at most, about: up to three were seen.
const ENDS: f64 = 4.0;
/// Most batches: errors of a power of a transform grow in proportion to their number, and δ would have few digits.
const MOST_BATCHES: f64 = 1e5;
/// Places that are kept, 100 MB of them: all are forgotten when there are more.
const MOST_KEPT: usize = 6_000_000;
/// Evaluations of a density that a place of a lattice takes: its mass, its part of moments and of transforms.
const WORK_OF_PLACE: u64 = 40;

/// Both laws for a range of thresholds.
#[derive(Debug)]
struct Sides {
    upper: Side,
    lower: Option<Side>,
}

/// The last place that is of use, the tilt for a threshold in units of S, and the standard deviation of S under it.
struct Rough {
    last: f64,
    tilt: f64,
    deviation: f64,
}

/// How many places a lattice may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceLimit {
    /// So few that it takes no more time than other routes.
    Few,
    /// Few, or as many as the wanted width takes, if that is within the limits.
    Enough,
    /// As many as the limits allow.
    Any,
}

/// Number of a range, digits of δ, and how many places there may be.
type Key = (i64, i64, u8);

/// δ of one epoch, or of a part of it. What is found for a range of thresholds is kept; none of it depends on what was asked before.
#[derive(Debug)]
pub(super) struct SumsOnLattice {
    bins: Bins,
    direction: Direction,
    known: Mutex<BTreeMap<Key, Option<Arc<Sides>>>>,
}

impl SumsOnLattice {
    pub(super) fn new(bins: Bins, direction: Direction) -> Self {
        Self {
            bins,
            direction,
            known: Mutex::default(),
        }
    }

    /// Bounds on δ(ε), to a relative width of about `width` where that takes no more than so many places.
    pub(super) fn delta(
        &self,
        epsilon: f64,
        width: f64,
        places: PlaceLimit,
        tables: &mut SharedTables,
    ) -> Enclosure {
        if epsilon.is_nan() || epsilon < LEAST_EPSILON || released(&self.bins) > MOST_BATCHES {
            return Enclosure::TRIVIAL;
        }
        let threshold = Threshold::new(&self.bins, self.direction, epsilon);
        if self.direction == Direction::Add && threshold.value + threshold.error <= 0.0 {
            // W is at least the share of batches that are not released.
            return Enclosure::ZERO;
        }
        let log_factor = match self.direction {
            Direction::Remove => -self.bins.total.ln(),
            Direction::Add => epsilon - self.bins.total.ln(),
        };
        let slack = 8.0 * f64::EPSILON * (1.0 + log_factor.abs() + epsilon);
        let digits = (-width.log10()).ceil().clamp(FEWEST_DIGITS, MOST_DIGITS);
        let mut found = Enclosure::TRIVIAL;
        // At the ends of a range δ may be a few times as wide as in its middle. What is wider than that is limited by the number of places.
        for digits in [digits, digits + 1.0] {
            let Some(sides) = self.sides(&threshold, digits, places, tables) else {
                break;
            };
            let (lower, upper) = self.log_excess(&sides, &threshold);
            found = found.meet(Enclosure::of_logs(
                lower + log_factor - slack,
                upper + log_factor + slack,
            ));
            if found.width() <= width || found.width() > ENDS * width {
                break;
            }
        }
        found
    }

    fn sides(
        &self,
        threshold: &Threshold,
        digits: f64,
        most: PlaceLimit,
        tables: &mut SharedTables,
    ) -> Option<Arc<Sides>> {
        let range = threshold.range(&self.bins, self.direction)?;
        let key = (range.number, digits as i64, most as u8);
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        let places = |sides: &Option<Arc<Sides>>| sides.as_ref().map_or(0, |sides| sides.upper.places());
        let found = known.unwrap_or_else(|| {
            let sides = self.sides_of(&range, 10f64.powf(-digits), most).map(Arc::new);
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.values().map(places).sum::<usize>() > MOST_KEPT {
                known.clear();
            }
            known.insert(key, sides.clone());
            sides
        });
        tables.count(key, WORK_OF_PLACE * places(&found) as u64);
        found
    }

    /// The laws for a range, on a lattice whose spacing h leaves δ about a part of a width: what is left of it is about proportional to h², and known
    /// from lattices of few places.
    fn sides_of(&self, range: &Range, width: f64, most: PlaceLimit) -> Option<Sides> {
        let rough = self.rough(range)?;
        let threshold = Threshold {
            value: range.middle,
            error: 0.0,
        };
        let least = (rough.last / MOST_PLACES).max(WINDOW * rough.deviation / MOST_IN_WINDOW);
        let mut spacing = (rough.last / FEWEST_PLACES).max(least);
        loop {
            let sides = self.on(range, &rough, spacing)?;
            let (lower, upper) = self.log_excess(&sides, &threshold);
            let gap = upper - lower;
            let wanted = spacing * (PART * width / gap).sqrt().min(1.0);
            let next = wanted.max(FINER * spacing).max(least);
            let is_long = (rough.last + WINDOW * rough.deviation) / next > FEW_PLACES;
            let is_worthwhile = match most {
                PlaceLimit::Few => false,
                PlaceLimit::Enough => wanted >= least,
                PlaceLimit::Any => true,
            };
            if gap <= width || next > CLOSE * spacing || (is_long && !is_worthwhile) {
                return Some(sides);
            }
            spacing = next;
        }
    }

    /// The laws for a range on a lattice of about this spacing.
    fn on(&self, range: &Range, rough: &Rough, spacing: f64) -> Option<Sides> {
        let parts = &self.bins.parts;
        let places = (rough.last / spacing).ceil() as usize + 1;
        let tilted = |side: Side| {
            let tilt = side.tilt_for(range.middle, rough.tilt * spacing)?;
            Some(side.tilted(tilt))
        };
        Some(Sides {
            upper: tilted(Side::spread(parts, spacing, places)?)?,
            lower: Side::merged(parts, spacing, places).and_then(tilted),
        })
    }

    /// Both ends of log E[(S − w)₊], or of log E[(w − S)₊].
    fn log_excess(&self, sides: &Sides, threshold: &Threshold) -> (f64, f64) {
        let above = self.direction == Direction::Remove;
        let lower = sides.lower.as_ref();
        (
            lower.map_or(f64::NEG_INFINITY, |side| side.log_excess(threshold, above, End::Lower)),
            sides.upper.log_excess(threshold, above, End::Upper),
        )
    }

    /// The last place that is of use, the tilt for the threshold in units of S, and the standard deviation of S under it.
    ///
    /// Outcomes in which some Y is above a threshold are in closed form. Where they hardly count, places end earlier, and the tilted law is narrower. How
    /// much they count is seen on coarse lattices, each finer than the one before.
    fn rough(&self, range: &Range) -> Option<Rough> {
        let above = self.direction == Direction::Remove;
        let threshold = Threshold {
            value: range.middle,
            error: 0.0,
        };
        let big = self.by_one_batch(range.middle);
        let mut last = range.largest;
        for _ in 0..ROUNDS {
            let spacing = last / COARSE as f64;
            let side = Side::spread(&self.bins.parts, spacing, COARSE)?;
            let tilt = side.tilt_for(range.middle, 0.0)?;
            let deviation = side.deviation(tilt);
            // A law below: with too large a value places would end too early.
            let lower = Side::merged(&self.bins.parts, spacing, COARSE).and_then(|side| {
                let tilt = side.tilt_for(range.middle, tilt)?;
                Some(side.tilted(tilt).log_excess(&threshold, above, End::Lower).exp())
            });
            let needed = self.reach(range.largest, NEGLIGIBLE * lower.unwrap_or(0.0).max(big));
            if (needed / last).ln().abs() < MUCH {
                return Some(Rough {
                    last,
                    tilt: tilt / spacing,
                    deviation,
                });
            }
            last = needed;
        }
        None
    }

    /// About E[(S − w)₊] where one Y is large and the others have their mean; nothing where the record is added.
    fn by_one_batch(&self, threshold: f64) -> f64 {
        if self.direction == Direction::Add {
            return 0.0;
        }
        let rest = threshold - released(&self.bins) + 1.0;
        let of = |part: &Part| part.count * LogNormal::new(part.variance).excess_above(rest).lower;
        self.bins.parts.iter().map(of).sum()
    }

    /// A place beyond which outcomes count for less than `negligible`, or `largest`.
    fn reach(&self, largest: f64, negligible: f64) -> f64 {
        let released = released(&self.bins);
        let rest = |y: f64| -> f64 {
            let of = |part: &Part| {
                let above = LogNormal::new(part.variance).above(y);
                part.count * (above.mean.upper + released.max(largest) * above.mass.upper)
            };
            self.bins.parts.iter().map(of).sum()
        };
        let is_met = |y: f64| Ok::<_, Infallible>(rest(y) <= negligible);
        let Ok(found) = bisect((0.0, largest), 40, |high| 0.02 * high, is_met);
        found
    }
}

#[cfg(test)]
mod tests;
