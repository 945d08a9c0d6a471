//! The threshold of a monotone property of which some points may stay undecided.
//!
//! Along an axis on which the privacy loss grows, points meet a target up to a threshold and miss it beyond. A point is judged by certified
//! intervals, so that the verdict may stay open. Where intervals are wide at some points and narrow at others, open points may lie far from
//! the threshold, on either side. The search therefore maintains the last point known to meet the target and the first known to miss it,
//! passes over open points on its way out, and asks near an open point only where it lies between the two.

use crate::curve::axis::Axis;
use crate::curve::planning_start::Start;
use crate::error::Result;

/// Verdicts that may stay open in each part of a search before it ends with what is known: each may take seconds. With half the value
/// the ends of long open stretches stay where they were found first.
const MAX_OPEN: usize = 8;
/// An end of a stretch of open points is located to this fraction of the stretch: the threshold is no better known with more.
const OPEN_FRACTION: f64 = 1.0 / 8.0;
/// A step out over the distance at which the threshold is expected by two points, so that it ends on the other side. With 1.3 the points after it are farther from the
/// threshold. The first step has no such factor: its slope is an estimate, and that between its ends tells the threshold the better the nearer to it the second one is.
const OVERSHOOT: f64 = 1.15;
/// Steps whose length is that at which the threshold is expected; from there on they grow.
const EXPECTED_STEPS: usize = 3;
/// The distance from the start up to which the slope between two points decides how long the next step is, a little less than a factor of 2.
/// Farther out steps grow by the factors of the axis.
const FARTHEST_STEP: f64 = 0.69;
/// Half of the second derivative of log ε over its slope, about: the root of a chord is off by this times the product of its distances from
/// both ends. It is 0.3 for a rate of 0.01, and less for noise. With 1 the last points of a search are farther from the threshold than they
/// need be, with 0 some stay open.
const CURVATURE: f64 = 0.3;
/// Distance from the root at which a point next to it is asked, in units of the resolution: two of them fit into it.
const ASIDE: f64 = 0.4;
/// Excess of a point that is judged, at least, so that regula falsi has two signs.
const SMALLEST_EXCESS: f64 = 1e-12;

/// What is known of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Certified to meet the target.
    Meets,
    /// Certified to miss it.
    Misses,
    /// Neither.
    Open,
}

/// A verdict, and about how far from the target the point is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    /// The logarithm of δ or of ε, whichever question decided, over the target, cut to moderate sizes: negative where the target is met. Points
    /// with different questions are compared nevertheless, which costs time but no accuracy.
    pub(crate) excess: f64,
    /// Half the width of the interval of which `excess` is the middle: how far the excess must change before a verdict is likely. Where the
    /// interval has no lower end, `excess` is its upper end and this is 0.
    pub(crate) uncertainty: f64,
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    /// The last point known to meet the target, accepted as an answer; `None` if no point is.
    pub(crate) meets: Option<f64>,
    /// The first point known to miss the target; `None` if no point is.
    pub(crate) misses: Option<f64>,
    /// True if the two are further apart than the tolerance asks for.
    pub(crate) wide: bool,
}

/// The state of a search: what is known so far.
struct Search<'a, S, J> {
    axis: &'a Axis,
    state: &'a mut S,
    judge: J,
    meets: Option<(f64, f64)>,
    misses: Option<(f64, f64)>,
    /// Open points between the two, in increasing order.
    open: Vec<(f64, Judged)>,
    /// Verdicts that stayed open so far.
    opened: usize,
}

impl<S, J: FnMut(&mut S, f64) -> Result<Judged>> Search<'_, S, J> {
    /// Judges `x` and records the verdict.
    fn ask(&mut self, x: f64) -> Result<Judged> {
        let judged = (self.judge)(self.state, x)?;
        match judged.verdict {
            Verdict::Meets => {
                if self.meets.is_none_or(|(known, _)| x > known) {
                    self.meets = Some((x, judged.excess.min(-SMALLEST_EXCESS)));
                }
                self.open.retain(|&(open, _)| open > x);
            }
            Verdict::Misses => {
                if self.misses.is_none_or(|(known, _)| x < known) {
                    self.misses = Some((x, judged.excess.max(SMALLEST_EXCESS)));
                }
                self.open.retain(|&(open, _)| open < x);
            }
            Verdict::Open => {
                self.opened += 1;
                self.open.push((x, judged));
                self.open.sort_by(|a, b| a.0.total_cmp(&b.0));
            }
        }
        Ok(judged)
    }

    /// From `start` to where the target is missed, and back to where it is met, in steps that grow.
    fn gallop(&mut self, Start { x: start, slope }: Start) -> Result<()> {
        let first = self.ask(start)?;
        // Without a guess steps are those of the axis.
        let first_step = slope.map_or(f64::INFINITY, |slope| {
            (first.excess.abs() + first.uncertainty) / slope + self.aside(start)
        });
        let first_step = first_step.max(self.axis.finest_step(start));
        self.walk((start, first), first_step, true)?;
        if self.meets.is_none() {
            self.walk((start, first), first_step, false)?;
        }
        Ok(())
    }

    /// From a point that is judged to where the target is missed (`to_greater_loss`) or met, by a first step that long and by longer ones.
    fn walk(&mut self, (start, first): (f64, Judged), first_step: f64, to_greater_loss: bool) -> Result<()> {
        let before = self.opened;
        let (mut x, mut judged, mut step) = (start, first, first_step);
        let (wanted, end) = if to_greater_loss {
            (Verdict::Misses, self.axis.ends.1)
        } else {
            (Verdict::Meets, self.axis.ends.0)
        };
        let mut expected = 0;
        while judged.verdict != wanted && x != end && self.opened < before + MAX_OPEN {
            let grows = expected == 0 || expected > EXPECTED_STEPS;
            let next = self
                .axis
                .further_from_guess(start, x, (step, judged.excess), (grows, to_greater_loss));
            let there = self.ask(next)?;
            // As far out as the threshold is expected by these two points, where that is nearby.
            let apart = self.axis.distance(x, next);
            let slope = (there.excess - judged.excess).abs() / apart;
            let ahead = self.beyond_root(next, (there.excess.abs() + there.uncertainty) / slope, apart);
            if first_step.is_finite() && ahead.is_finite() {
                step = (self.axis.distance(start, next) + ahead).min(FARTHEST_STEP).max(step);
                expected += 1;
            }
            (x, judged) = (next, there);
        }
        Ok(())
    }

    /// How far beside a root that is expected next to `x` to ask, as the verdict at the root would stay open; nothing on the axis of whole numbers.
    fn aside(&self, x: f64) -> f64 {
        if self.axis.whole {
            0.0
        } else {
            ASIDE * self.axis.resolution(x)
        }
    }

    /// How far from `x` to go for a root that is expected so far ahead, by a chord between `x` and a point that far behind it: beyond it, or next to it where that is as good as the
    /// resolution.
    fn beyond_root(&self, x: f64, ahead: f64, behind: f64) -> f64 {
        let aside = self.aside(x);
        if !self.axis.whole && CURVATURE * ahead * (behind + ahead) <= aside {
            ahead + aside
        } else {
            OVERSHOOT * ahead
        }
    }

    /// Brings the two ends together by regula falsi, as far as no point between them stays open.
    fn close(&mut self) -> Result<()> {
        let mut lengths = [f64::INFINITY; 2];
        let (mut last, mut was_sure) = (None, false);
        let mut weights = (1.0, 1.0);
        while let (Some((low, at_low)), Some((high, at_high))) = (self.meets, self.misses)
            && self.open.is_empty()
            && !self.axis.is_closed(low, high)
        {
            let root = at_low / (at_low - at_high);
            let is_sure = !was_sure && self.is_known_at(low, high, root);
            // Bisection where two points have not halved the bracket, unless the root is known to the resolution: then a point beside it is asked once.
            let fraction = if is_sure {
                root
            } else if high - low > 0.5 * lengths[0] {
                0.5
            } else {
                weights.0 * at_low / (weights.0 * at_low - weights.1 * at_high)
            };
            (was_sure, lengths) = (is_sure, [lengths[1], high - low]);
            let guess = self.beside_root(low, high, fraction);
            let verdict = self.ask(self.axis.between(low, high, guess))?.verdict;
            // An end that stays twice counts half (Illinois).
            let stays = if last == Some(verdict) { 0.5 } else { 1.0 };
            weights = match verdict {
                Verdict::Meets => (1.0, stays * weights.1),
                _ => (stays * weights.0, 1.0),
            };
            last = Some(verdict);
        }
        Ok(())
    }

    /// The fraction of the way between `low` and `high` at which to ask, where the root is expected at `fraction`.
    ///
    /// Where interpolation finds the root to less than the resolution, the verdict there would stay open. So a point next to it is asked, on
    /// the side of the farther end: two such points close the bracket.
    fn beside_root(&self, low: f64, high: f64, fraction: f64) -> f64 {
        if !self.is_known_at(low, high, fraction) {
            return fraction;
        }
        let aside = if fraction < 0.5 { ASIDE } else { -ASIDE };
        fraction + aside * self.axis.resolution(low) / (high - low)
    }

    /// Whether interpolation at a fraction of the way finds the root to the resolution.
    fn is_known_at(&self, low: f64, high: f64, fraction: f64) -> bool {
        let (from_low, from_high) = (fraction * (high - low), (1.0 - fraction) * (high - low));
        !self.axis.whole && CURVATURE * from_low * from_high <= ASIDE * self.axis.resolution(low)
    }

    /// The distance from an open point at which a verdict is expected: there the excess has changed by the part of the point's interval on
    /// the other side of the target, at the average slope between the two points that are judged. 0 where that is not known.
    fn distance_to_verdict(&self, x: f64, judged: Judged, meets: bool) -> f64 {
        let (Some((low, at_low)), Some((high, at_high))) = (self.meets, self.misses) else {
            return 0.0;
        };
        let side = if meets { judged.excess } else { -judged.excess };
        let change = side + judged.uncertainty;
        let width = self.axis.distance(high, low);
        let distance = change * width / (at_high - at_low);
        if !(distance > 0.0 && distance.is_finite()) {
            return 0.0;
        }
        match (self.axis.whole, meets) {
            (false, _) => distance,
            (true, true) => x * -(-distance).exp_m1(),
            (true, false) => x * distance.min(width).exp_m1(),
        }
    }

    /// Locates one end of the stretch of open points: the last point that meets the target, or the first that misses it.
    fn locate(&mut self, meets: bool) -> Result<()> {
        let mut out = None;
        let before = self.opened;
        while self.opened < before + MAX_OPEN
            && let (Some(&first), Some(&last)) = (self.open.first(), self.open.last())
        {
            let (near, known) = if meets {
                (first, self.meets)
            } else {
                (last, self.misses)
            };
            let Some((known, _)) = known else { break };
            let (near, judged) = near;
            let gap = (known - near).abs();
            let fine = self.axis.resolution(near).max(OPEN_FRACTION * (last.0 - first.0));
            if gap <= fine {
                break;
            }
            // First just beyond where a verdict is expected; if the known end lies just beyond it already, just before. Where that is wrong,
            // steps out grow fourfold while points stay open, and after a verdict the gap is halved.
            let expected = self.distance_to_verdict(near, judged, meets);
            let aside = ASIDE * self.axis.resolution(near);
            let step = *out.get_or_insert((expected + aside).min(0.5 * gap));
            let is_beside = expected > aside && (expected..expected + 2.0 * aside).contains(&gap);
            let distance = if is_beside {
                expected - aside
            } else {
                step.min(0.5 * gap)
            };
            let distance = if self.axis.whole {
                distance.ceil().min(gap - 1.0)
            } else {
                distance
            };
            out = Some(4.0 * step.max(distance));
            let verdict = self.ask(if meets { near - distance } else { near + distance })?.verdict;
            if verdict != Verdict::Open {
                out = Some(f64::INFINITY);
            }
        }
        Ok(())
    }
}

/// Searches from `start` for the threshold between the points that meet a target and those that miss it.
///
/// `judge(state, x)` judges a point; `accepts(state, x)` says whether a point that meets the target may be the answer,
/// which may require a margin. `known` meets the target and is accepted without being asked.
///
/// # Errors
/// Those of `judge` and `accepts`.
pub(crate) fn search<S>(
    axis: &Axis,
    start: Start,
    known: Option<f64>,
    state: &mut S,
    judge: impl FnMut(&mut S, f64) -> Result<Judged>,
    mut accepts: impl FnMut(&mut S, f64) -> Result<bool>,
) -> Result<Found> {
    let mut search = Search {
        axis,
        state: &mut *state,
        judge,
        meets: known.map(|x| (x, -1.0)),
        misses: None,
        open: Vec::new(),
        opened: 0,
    };
    search.gallop(start)?;
    loop {
        search.close()?;
        let open = !search.open.is_empty();
        search.locate(true)?;
        search.locate(false)?;
        // Near one end of a stretch of open points the other end, or the threshold itself, may come to light.
        if !open || !search.open.is_empty() {
            break;
        }
    }
    let misses = search.misses.map(|(x, _)| x);
    let Some((last, _)) = search.meets else {
        return Ok(Found {
            meets: None,
            misses,
            wide: misses.is_none_or(|x| x > axis.ends.0),
        });
    };
    let apart = misses.map_or(0.0, |x| x - last);
    let resolution = axis.resolution(last).max(OPEN_FRACTION * apart);
    let meets = axis.last_accepted((last, resolution), |x| {
        if known == Some(x) { Ok(true) } else { accepts(state, x) }
    })?;
    let wide = match (meets, misses) {
        (Some(low), Some(high)) => axis.is_wide(low, high),
        (low, _) => low != Some(axis.ends.1),
    };
    Ok(Found { meets, misses, wide })
}

#[cfg(test)]
mod tests;
