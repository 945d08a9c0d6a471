//! The way out of an enclosure: from an ε near the root to one at which δ is certified to be small enough, and to one at which it is too large.

use crate::curve::accuracy::{Accuracy, WIDTH_FRACTION};
use crate::curve::epsilon_search::{CLOSE_TO_WIDTH, ROUNDING, ROUNDS, Search, middle};
use crate::interval::Enclosure;

/// Corrections of the point from which steps lead out of the enclosure.
const CORRECTIONS: usize = 2;
/// The first step out of an enclosure over its width, so that it ends outside.
const OVERSHOOT: f64 = 1.02;
/// The first step where one side of an enclosure is not known: this part of ε and that part of the change of ε by which δ falls by e.
const FIRST_STEP: (f64, f64) = (1e-6, 1e-3);
/// Halvings of a step that was too long,
const HALVINGS: usize = 10;
/// until it is this part of the tolerance.
const FINE: f64 = 0.2;

/// Distance, in parts of the tolerance, at which the slope is measured, and by how many widths of an enclosure log δ is to fall over it.
const SLOPE_STEP: f64 = 0.25;
const MEASURABLE: f64 = 4.0;

impl<C: FnMut(f64, &Accuracy) -> Enclosure> Search<'_, C> {
    /// Narrows the certified interval by steps out of the enclosure at `root`, on both sides. Returns whether the upper end has the margin of
    /// the query.
    pub(super) fn step_out_of_enclosure(&mut self, root: f64) -> bool {
        let log_delta = self.query.log_delta;
        let (centre, found) = self.centred(root);
        self.measure_slope(centre, found);
        let margin = self.margin_beside(centre, found.width());
        let slope = self.slope;
        let first = |gap: f64| {
            let step = OVERSHOOT * gap.max(0.0) / slope + ROUNDING * centre.abs();
            if step.is_finite() {
                step
            } else {
                FIRST_STEP.0 * centre.abs() + FIRST_STEP.1 / slope
            }
        };
        let (reach, before) = (first(found.log_upper + margin - log_delta), self.found.upper);
        // What is certified so far has the margin of the query, and may have no larger one.
        let known = if margin > self.query.margin {
            self.query.largest_loss
        } else {
            before
        };
        let is_safe =
            |search: &mut Self, epsilon: f64| search.ask_at(epsilon, 1.0).log_upper <= log_delta - margin;
        let upper = self.step_out(centre, reach, known, is_safe);
        let is_near = upper <= before || upper - centre <= self.query.tolerance * centre;
        let has_margin = margin > 0.0 && upper < known && is_near && self.narrowest <= margin;
        self.found.upper = if has_margin { upper } else { upper.min(before) };
        let (reach, known) = (first(log_delta - found.log_lower), self.found.lower);
        let misses = |search: &mut Self, epsilon: f64| search.ask_at(epsilon, 1.0).log_lower > log_delta;
        self.found.lower = self.step_out(centre, -reach, known, misses);
        has_margin
    }

    /// An ε at which the middle of a narrow enclosure is close to the δ that is given, and that enclosure.
    fn centred(&mut self, root: f64) -> (f64, Enclosure) {
        let excess = |found: Enclosure, log_delta: f64| middle(found) - log_delta;
        let log_delta = self.query.log_delta;
        let (mut epsilon, mut found) = (root, self.ask_at(root, 1.0));
        for _ in 0..CORRECTIONS {
            let change = excess(found, log_delta) / self.slope;
            let is_small = change.abs() * self.slope < CLOSE_TO_WIDTH * found.width();
            if is_small || change.abs() <= ROUNDING * epsilon.abs() {
                break;
            }
            // The width that is asked for is that of the enclosure to be replaced.
            let width = WIDTH_FRACTION * self.query.tolerance * epsilon.abs() * self.slope;
            let corrected = self.ask(epsilon + change, width, 1.0);
            let fall = excess(found, log_delta) - excess(corrected, log_delta);
            if fall.abs() > found.width() + corrected.width() && fall / change > 0.0 {
                (self.slope, self.is_slope_measured) = (fall / change, true);
            }
            if excess(corrected, log_delta).abs() >= excess(found, log_delta).abs() {
                break;
            }
            (epsilon, found) = (epsilon + change, corrected);
        }
        (epsilon, found)
    }

    /// Measures the slope next to an ε where only that of the start is known and the enclosure there is wider than the margin of the query: where δ falls
    /// steeply there is room for a margin as wide.
    fn measure_slope(&mut self, epsilon: f64, found: Enclosure) {
        if !self.is_slope_measured && self.query.margin > 0.0 && found.width() > self.query.margin {
            let step = SLOPE_STEP * self.query.tolerance * epsilon;
            let fall = middle(found) - middle(self.ask_at(epsilon + step, 1.0));
            if fall > MEASURABLE * found.width() {
                (self.slope, self.is_slope_measured) = (fall / step, true);
            }
        }
    }

    /// The first ε found that `holds`, from `start` by steps that double from `reach` on (its sign tells the direction) towards `known`,
    /// which holds; then back by halving the last step, while that gains more than a part of the tolerance.
    fn step_out(&mut self, start: f64, reach: f64, known: f64, holds: impl Fn(&mut Self, f64) -> bool) -> f64 {
        let is_beyond = |x: f64| if reach > 0.0 { x >= known } else { x <= known };
        let (mut best, mut fails) = (known, start);
        let mut out = reach;
        for _ in 0..ROUNDS {
            let candidate = start + out;
            if is_beyond(candidate) || !candidate.is_finite() {
                break;
            }
            if holds(self, candidate) {
                best = candidate;
                break;
            }
            fails = candidate;
            out *= 2.0;
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (best + fails);
            // The first step is as long as the enclosure is wide: half of it does not hold.
            let is_first = fails == start && best == start + reach;
            if is_first || (best - fails).abs() <= FINE * self.query.tolerance * best.abs() {
                break;
            }
            if !middle.is_finite() || middle == best || middle == fails {
                break;
            }
            if holds(self, middle) {
                best = middle;
            } else {
                fails = middle;
            }
        }
        best
    }
}
