//! ε(δ) from a certified curve: the smallest ε ≥ 0 whose upper bound on δ is small enough, from both sides.
//!
//! 1. Newton's method, in a bracket, finds the root of the middle of the enclosures of log δ. Rough enclosures suffice on the way.
//! 2. Around it, steps as long as the enclosure is wide lead to an ε whose upper bound on δ is small enough, and to one whose lower bound
//!    is too large. Only these two are certified, and only they are returned: whatever happens in step 1 costs time, but no accuracy.

mod steps_out;

use crate::curve::accuracy::{Accuracy, WIDTH_FRACTION, cell_width};
use crate::error::{Error, Result};
use crate::interval::{Enclosure, Interval};

/// ε beyond which nothing is searched.
const FARTHEST: f64 = 1e300;
/// Smallest slope of log δ, and smallest distance of two ε, that are told from 0.
const TINY: f64 = 1e-300;
/// Rounding of ε in sums, relatively.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// The narrowest and the widest relative width of δ that is asked for.
const WIDTHS: (f64, f64) = (1e-10, 2.0);
/// How much wider than at the end enclosures may be while the root is approached, and up to which width.
const ROUGHNESS: f64 = 100.0;
const WIDEST_ROUGH: f64 = 1e-2;
/// After an enclosure wider than asked for: the next ones are asked for this many times its width, but for no more than that many times
/// the width that was asked for.
const RELAXATION: (f64, f64) = (1.1, 30.0);
/// The part of the tolerance that a margin below δ may take: where it would take more, there is none. With half of it a random box takes a
/// fifth longer, as more answers are confirmed by a question of their own; with more there is no room for the enclosure.
const MARGIN_FRACTION: f64 = 0.5;
/// The part of the tolerance that a margin takes in any case: where δ falls steeply, it is far more than an answer for δ is wide, and contours may be as much wider.
const HARDLY_LARGER: f64 = 0.02;
/// The part of the tolerance that an enclosure and a margin as wide may take together: with the steps out of both the answer keeps to the tolerance.
const WIDEST_MARGIN: f64 = 0.75;
/// A margin over the width of the enclosure beside it, with room for the rounding of logarithms: a question for δ is answered at least as narrowly.
const AS_WIDE: f64 = 1.0 + 1e-6;
/// The part of the tolerance that a margin and the enclosure may take together: steps out of the enclosure need the rest.
const MARGIN_AND_WIDTH: f64 = 0.85;
/// Widths that are asked for at ε = 0, where only the side of δ matters, one after the other until it is known. The first is one that bounds
/// and coarse grids have. Asked for the last one at once, two fixed batches of which a record is replaced take 1.5 s where they take a tenth of a second.
const WIDTHS_AT_ZERO: [f64; 4] = [0.3, 1e-2, 1e-4, 1e-6];

/// An answer of ε = 0 counts as having a margin if log δ(0) is below the given log δ by this much, which is more than the coarsest tolerance,
/// 30 %.
pub(super) const MARGIN_AT_ZERO: f64 = 0.35;

/// Steps of Newton's method to below 0 after which δ is asked for there.
const STEPS_BELOW: usize = 2;
/// Evaluations at most while the root is approached, and on the way out of an enclosure.
const ROUNDS: usize = 80;
/// Distance of log δ from the one that is given beyond which a slope is measured before it is said to be next to it.
const FAR_OFF: f64 = 1.0;
/// The root is close enough within this part of the tolerance,
const CLOSE: f64 = 0.05;
/// or of the change of ε that an enclosure is wide, for enclosures below [`WIDEST_ROUGH`].
const CLOSE_TO_WIDTH: f64 = 0.1;

/// Where a search starts: bad values cost time, but no accuracy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartingPoint {
    /// An ε near the answer.
    pub(crate) epsilon: f64,
    /// −d log δ/dε there.
    pub(crate) slope: f64,
}

/// A question for ε.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    /// log of the δ that is given.
    pub(crate) log_delta: f64,
    /// Relative width of the answer.
    pub(crate) tolerance: f64,
    /// How far log δ is to be below that value at the upper end, at least, where ε is hardly larger for it.
    pub(crate) margin: f64,
    /// Where the search starts.
    pub(crate) start: StartingPoint,
    /// δ is 0 from this ε on; it may be infinite.
    pub(crate) largest_loss: f64,
}

/// Bounds on ε.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    pub(crate) interval: Interval,
    /// Whether the upper bound on log δ at the upper end is below its value by the margin of the query, and some enclosure on the way was no
    /// wider than that.
    pub(crate) has_margin: bool,
    /// −d log δ/dε near the answer, as far as it is known; 0 where it is not.
    pub(crate) slope: f64,
}

impl From<Interval> for Found {
    /// Without a margin.
    fn from(interval: Interval) -> Self {
        Self {
            interval,
            has_margin: false,
            slope: 0.0,
        }
    }
}

/// Certified bounds on the smallest ε ≥ 0 with δ(ε) ≤ e^`log_delta`, where `curve(ε, accuracy)` encloses log δ(ε). The upper bound is an ε
/// at which the curve's own upper bound is at most `log_delta`.
///
/// # Errors
/// An enclosure that is contradicted, or an ε at which δ is certified to be too large above one at which it is certified to be small
/// enough.
pub(crate) fn epsilon(curve: impl FnMut(f64, &Accuracy) -> Enclosure, query: &Query) -> Result<Found> {
    let mut search = Search {
        curve,
        query,
        slope: query.start.slope.max(TINY),
        is_slope_measured: false,
        attainable_width: WIDTHS.0,
        narrowest: f64::INFINITY,
        upper_at_zero: f64::INFINITY,
        is_contradicted: false,
        found: Interval {
            lower: 0.0,
            upper: query.largest_loss,
        },
    };
    let found = search.answer()?;
    if search.is_contradicted {
        return Err(Error::Contradiction);
    }
    Ok(found)
}

/// Where the approach to the root ended.
enum Approach {
    /// Near the root.
    Root(f64),
    /// δ is small enough at 0.
    Zero,
    /// The root is beyond all bounds.
    Beyond,
}

/// The state of a search.
struct Search<'a, C> {
    curve: C,
    query: &'a Query,
    /// −d log δ/dε, as far as it is known.
    slope: f64,
    /// Whether it is that between two ε of this search, and not that of its start.
    is_slope_measured: bool,
    /// The width that the curve can attain, so that what failed once is not asked for again.
    attainable_width: f64,
    /// Width of the narrowest enclosure so far, but for that at 0.
    narrowest: f64,
    /// The last upper bound on log δ at 0.
    upper_at_zero: f64,
    is_contradicted: bool,
    /// The ε certified so far: δ is too large at the lower one and small enough at the upper one.
    found: Interval,
}

impl<C: FnMut(f64, &Accuracy) -> Enclosure> Search<'_, C> {
    /// The answer, if no enclosure was contradicted.
    fn answer(&mut self) -> Result<Found> {
        let Some(start) = self.start()? else {
            return Ok(self.zero());
        };
        let root = match self.approach(start)? {
            Approach::Root(root) => root,
            Approach::Zero => return Ok(self.zero()),
            Approach::Beyond => {
                let lower = self.found.lower;
                let upper = f64::INFINITY;
                return Ok(Interval { lower, upper }.into());
            }
        };
        let has_margin = self.step_out_of_enclosure(root);
        // δ may be small enough at a negative ε.
        let interval = Interval::of_bounds(self.found.lower, self.found.upper.max(0.0))?;
        Ok(Found {
            interval,
            has_margin,
            slope: self.slope,
        })
    }

    /// An enclosure of log δ to about `width`; one `roughness` times as wide suffices.
    fn ask(&mut self, epsilon: f64, width: f64, roughness: f64) -> Enclosure {
        let width = width.max(self.attainable_width).clamp(WIDTHS.0, WIDTHS.1);
        // Contours are designed to fit into the margin, where there is one: that costs a few points. It is no reason to refuse others. Without a margin a
        // question for δ confirms the answer, whose contours those of cells are: they are narrower than its tolerance where ε is next to 0.
        let (designed, cell_width) = match self.margin_at(epsilon) {
            0.0 => (width, cell_width(self.query.tolerance)),
            margin => {
                let designed = width.min(WIDTH_FRACTION * margin);
                (designed, designed)
            }
        };
        let accuracy = Accuracy {
            width: designed,
            cell_width,
            sufficient_width: (roughness * width).min(WIDEST_ROUGH).max(width),
            threshold: Some(self.query.log_delta),
            estimate: None,
            is_side_enough: false,
            bounds_first: false,
        };
        let found = (self.curve)(epsilon, &accuracy);
        self.is_contradicted |= found.certified().is_err();
        if epsilon > 0.0 {
            self.narrowest = self.narrowest.min(found.width());
        }
        // What a rough question did not attain says nothing of the final ones, which grids are made finer for.
        if roughness == 1.0 && found.width().is_finite() && !accuracy.is_met(found) {
            let (factor, limit) = RELAXATION;
            self.attainable_width = (factor * found.width()).min(limit * width);
        }
        found
    }

    /// An enclosure of log δ from which steps out fit into the tolerance; `roughness` times as wide suffices.
    fn ask_at(&mut self, epsilon: f64, roughness: f64) -> Enclosure {
        let width = WIDTH_FRACTION * self.query.tolerance * epsilon.abs() * self.slope;
        self.ask(epsilon, width, roughness)
    }

    /// The margin of an upper end beside an enclosure that wide: at least its width, if there is room for that; 0 where both together take too much of the
    /// tolerance. As long as the slope is only that of the start, which may be off by much, it is no larger than asked for.
    fn margin_beside(&self, epsilon: f64, width: f64) -> f64 {
        let change = self.query.tolerance * epsilon.abs() * self.slope;
        let least = self.margin_at(epsilon);
        let wider = least.max(AS_WIDE * width);
        let has_room = least > 0.0 && self.is_slope_measured && wider + width <= WIDEST_MARGIN * change;
        let margin = if has_room { wider } else { least.min(self.query.margin) };
        if width + margin <= MARGIN_AND_WIDTH * change {
            margin
        } else {
            0.0
        }
    }

    /// The margin of an upper end near ε; 0 where it would take too much of the tolerance.
    fn margin_at(&self, epsilon: f64) -> f64 {
        let change = self.query.tolerance * epsilon.abs() * self.slope;
        if self.query.margin > 0.0 && self.query.margin <= MARGIN_FRACTION * change {
            self.query.margin.max(HARDLY_LARGER * change)
        } else {
            0.0
        }
    }

    /// The first ε of the search; `None` if δ is small enough at 0.
    fn start(&mut self) -> Result<Option<f64>> {
        let mut epsilon = self.query.start.epsilon;
        if epsilon.is_nan() || epsilon <= 0.0 || epsilon * self.slope < 1.0 {
            // Where there is a starting point above 0, the rest is asked when the search comes near 0.
            let is_above = epsilon > 0.0;
            let widths = &WIDTHS_AT_ZERO[..if is_above { 1 } else { WIDTHS_AT_ZERO.len() }];
            if self.is_met_at_zero(widths)? {
                return Ok(None);
            }
            epsilon = epsilon.max(0.0);
        }
        let largest = self.query.largest_loss;
        if epsilon < largest {
            return Ok(Some(epsilon));
        }
        // Next to the largest loss δ falls in proportion to the distance from it, so that the slope of its logarithm is one over that.
        let below = largest - 1.0 / self.slope;
        Ok(Some(below.max(0.5 * largest).min(largest * (1.0 - ROUNDING))))
    }

    /// True if δ is known to be small enough at 0, by enclosures of these widths.
    fn is_met_at_zero(&mut self, widths: &[f64]) -> Result<bool> {
        let threshold = self.query.log_delta;
        for &width in widths {
            let accuracy = Accuracy {
                threshold: Some(threshold),
                is_side_enough: true,
                bounds_first: false,
                ..Accuracy::of_width(width)
            };
            let at_zero = (self.curve)(0.0, &accuracy);
            self.is_contradicted |= at_zero.certified().is_err();
            if at_zero.is_on_one_side_of(Some(threshold)) {
                at_zero.certified()?;
                self.upper_at_zero = at_zero.log_upper;
                return Ok(at_zero.log_upper <= threshold);
            }
            if at_zero.width() > width {
                break; // no more is known of it
            }
        }
        Ok(false)
    }

    /// The answer where δ is small enough at 0.
    fn zero(&self) -> Found {
        let margin = self.query.margin;
        Found {
            has_margin: margin > 0.0 && self.upper_at_zero <= self.query.log_delta - margin.max(MARGIN_AT_ZERO),
            ..Found::from(Interval::exact(0.0))
        }
    }

    /// An ε near the root of the middle of the enclosures, by Newton's method in a bracket.
    fn approach(&mut self, start: f64) -> Result<Approach> {
        let log_delta = self.query.log_delta;
        let (mut low, mut high) = (0.0, self.query.largest_loss); // δ too large; small enough
        let mut epsilon = start;
        let mut last: Option<(f64, f64)> = None;
        let mut below = 0;
        for _ in 0..ROUNDS {
            let found = self.ask_at(epsilon, ROUGHNESS);
            if found.log_upper <= log_delta - self.query.margin {
                self.found.upper = self.found.upper.min(epsilon);
            }
            if found.log_lower > log_delta {
                self.found.lower = self.found.lower.max(epsilon);
            }
            // Where δ is not known to be small enough at 0, the root is beyond it, and the middle of a wide enclosure says nothing: a part of an epoch
            // of 165,512 batches with noise 0.78 had [0, 1.05] for an epsilon of 0.0066.
            let about = if epsilon > 0.0 { middle(found) } else { found.log_upper };
            let excess = about - log_delta;
            if excess > 0.0 {
                low = epsilon;
            } else {
                high = epsilon;
            }
            if let Some((before, excess_before)) = last {
                let measured = -(excess - excess_before) / (epsilon - before);
                if measured.is_finite() && measured > 0.0 {
                    (self.slope, self.is_slope_measured) = (measured, true);
                }
            }
            last = Some((epsilon, excess));
            let close = self.close(epsilon, found);
            // Far from the root the slope where the search starts says little.
            let is_slope_known = excess.abs() < FAR_OFF || epsilon != start;
            if (is_slope_known && (excess / self.slope).abs() <= close) || high - low <= close {
                break;
            }
            let newton = epsilon + excess / self.slope;
            below += usize::from(newton <= low && low == 0.0);
            if below == STEPS_BELOW && self.is_met_at_zero(&WIDTHS_AT_ZERO)? {
                return Ok(Approach::Zero);
            }
            epsilon = if newton > low && newton < high {
                newton
            } else if high.is_finite() {
                0.5 * (low + high)
            } else {
                (2.0 * low).max(low + 1.0 / self.slope)
            };
            if epsilon > FARTHEST {
                return found.certified().map(|_| Approach::Beyond);
            }
        }
        Ok(Approach::Root(epsilon))
    }

    /// The distance from the root at which the search may end, at an ε with that enclosure.
    fn close(&self, epsilon: f64, found: Enclosure) -> f64 {
        let blurred = if found.width() < WIDEST_ROUGH {
            CLOSE_TO_WIDTH * found.width() / self.slope
        } else {
            0.0
        };
        (self.query.tolerance * CLOSE * epsilon.abs())
            .max(blurred)
            .max(ROUNDING * epsilon.abs())
            .max(TINY)
    }
}

/// The middle of an enclosure of log δ; its upper end where it has no lower one.
fn middle(found: Enclosure) -> f64 {
    if found.log_lower == f64::NEG_INFINITY {
        found.log_upper
    } else {
        0.5 * (found.log_lower + found.log_upper)
    }
}

#[cfg(test)]
mod tests;
