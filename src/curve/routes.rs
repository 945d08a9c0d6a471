//! The choice between the ways to compute δ of a sum of losses: the one place that chooses.
//!
//! | route | when |
//! |---|---|
//! | closed form (`one_step`) | one step, or Gaussian losses only (they add up to one) |
//! | law of a sum on a lattice (`loss::allocation::on_lattice`) | a part of an epoch of dealt batches: before other routes where it takes few places, and after them |
//! | sum over counts (`coin_count`) | equal steps with two outcomes: randomised response |
//! | inversion (`contour`) | where the characteristic function is seen to decay: most runs; cost independent of T |
//! | inversion beside the runs whose steps have atoms (`inversion::cluster_runs`) | few steps of Laplace noise: part of the former, where it takes fewer points |
//! | inversion of the runs with a large loss in some step (`split`) | few steps, small sample rates |
//! | runs split by their large likelihood ratios (`large_ratio`) | several epochs of thousands of dealt batches, where inversion of all of the law fails |
//! | the run without noise (`composed_loss`) | noise so little that outputs reveal who was in the batch |
//! | grid (`grid`) | losses that are nearly lattices, hard cases of few steps |
//! | Chernoff's bound | what is left: an upper bound only |
//!
//! Every route gives a certified interval. Where one is wider than the accuracy that is asked for, the next is tried too, and the
//! intersection of all of them is returned.

use crate::curve::accuracy::{Accuracy, attainable_at};
use crate::curve::large_ratio::Share;
use crate::curve::loss_sum::{LEVEL_STEP, LossSum, TRUNCATIONS, TYPICAL_LOG_DELTA};
use crate::curve::singular_mass::delta_of_nothing;
use crate::curve::truncated::Form;
use crate::error::Error;
use crate::interval::Enclosure;

/// How much farther out losses are truncated for inversion of the runs with a large loss: an edge in the far losses would hardly let the
/// transform of the runs decay that have some.
const FARTHER: [f64; 2] = [24.0, 48.0];
/// How much farther out losses are truncated that are better inverted as they are: they keep everything then, but for noise multipliers
/// above 10 with thousands of batches. With everything kept there too, 5,000 of 10,000 batches with noise 20 had an ε 10 % wide after 9 s that is
/// 2 % wide after 1 s.
const WHOLE: f64 = 1e4;
/// The forms that are tried at each level, and how much farther out losses are truncated for them.
const ATTEMPTS: [(Form, f64); 6] = [
    (Form::Inversion, 0.0),
    (Form::Inversion, WHOLE),
    (Form::SplitInversion, FARTHER[0]),
    (Form::SplitInversion, FARTHER[1]),
    (Form::LongInversion, 0.0),
    (Form::Grid, 0.0),
];
/// The forms that are tried at coarse tolerances.
const COARSE_ATTEMPTS: [(Form, f64); 3] = [
    (Form::Inversion, 0.0),
    (Form::SplitInversion, FARTHER[0]),
    (Form::Grid, 0.0),
];
/// Coarse tolerances, from 30 % down to 1e-4.
const COARSE_WIDTHS: [f64; 4] = [0.3, 1e-2, 1e-3, 1e-4];
/// Coarse tolerances are this many times the width that is asked for, at least.
const COARSER: f64 = 3.0;
/// Relative width to which δ of a single step is computed first by means of its own: while a root is searched that often suffices.
const ROUGH_ALONE: f64 = 1e-3;
/// Width of log δ from which on little is known: then coarse inversions are tried. With 0.5, 1,532 batches with σ 1.77 had a δ 14 % wide that a
/// contour for 1e-4 knows to 2e-5.
const UNKNOWN: f64 = 1e-2;
/// Next to the largest loss δ is in proportion to the distance of ε from it, so that its relative error is that of the losses over this distance. An
/// enclosure of so many roundings of the largest loss is accepted there once inversion found it: all other routes were tried in vain, for seconds.
const ROUNDINGS_NEXT_TO_LARGEST: f64 = 64.0;
/// Relative distance from the largest loss below which nothing is left out of losses that have one: there the search for a tilt fails now and then for a law that
/// lacks a little. Two kinds of Laplace steps had an ε 8 % wide otherwise.
const NEXT_TO_LARGEST: f64 = 1e-5;
/// Below this log δ is less than half of the least `f64`, so that an upper bound suffices.
const UNDERFLOW: f64 = -745.2;
/// log of the factor by which truncated mass must be below the width that is asked for, so that it is not the reason for the width.
const NEGLIGIBLE_TRUNCATION: f64 = 0.7;
/// log of the factor by which a bound must exceed the truncated mass, so that it does not consist of it.
const LARGE_BOUND: f64 = 2.0;

/// A route, for questions that ask for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// One step in closed form.
    OneStep,
    /// Complex-order inversion.
    Inversion,
    /// Complex-order inversion of the runs with a large loss in some step.
    SplitInversion,
    /// Discretised losses.
    Grid,
    /// Chernoff's bound: the Rényi divergence at the best order.
    Renyi,
}

/// Certified log δ at any real ε, by the routes that apply until one is accurate enough.
pub(super) fn delta(sum: &mut LossSum, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
    if sum.is_empty() {
        return delta_of_nothing((epsilon, epsilon));
    }
    let largest = sum.max_loss();
    let distance = largest.above(epsilon);
    if distance <= 0.0 {
        return Enclosure::ZERO;
    }
    let ceiling = sum.bound_near_largest_loss(distance);
    if let Some(found) = sum.closed_form(epsilon) {
        return found.meet(ceiling);
    }
    let rounding = sum.rounding_of(largest);
    if distance.is_finite() && distance <= rounding {
        return ceiling; // ε may be the largest loss
    }
    sum.keep_everything(distance <= NEXT_TO_LARGEST * epsilon.abs());
    let attainable = ROUNDINGS_NEXT_TO_LARGEST * rounding / distance;
    below_largest_loss(sum, epsilon, (accuracy, attainable), ceiling)
}

/// δ at an ε below the largest loss, where it is at most that of `ceiling`; no route may know it better than to a relative width of `attainable`.
fn below_largest_loss(
    sum: &mut LossSum,
    epsilon: f64,
    (accuracy, attainable): (&Accuracy, f64),
    ceiling: Enclosure,
) -> Enclosure {
    let known = known_answer(sum, epsilon, accuracy).meet(ceiling);
    if accuracy.threshold.is_some() && accuracy.is_met(known) {
        return known;
    }
    let mut found = sum.single_step_bounds(epsilon, accuracy.width).meet(known);
    if accuracy.is_met(found) {
        return found;
    }
    for width in [ROUGH_ALONE, accuracy.width] {
        found = found.meet(sum.alone(epsilon, width, false));
        if accuracy.is_met(found) {
            return found;
        }
    }
    let mut attainable = attainable;
    if !sum.is_exhausted() {
        let (here, slope) = sum.by_cell(epsilon, accuracy);
        found = found.meet(here);
        attainable = attainable.max(attainable_at(slope, epsilon));
        if accuracy.accepting(attainable).is_met(found) {
            return found;
        }
    }
    // Chernoff's bound locates δ. Where a threshold does that, the bound is computed only once inversion has failed.
    match accuracy.threshold {
        None => {
            found = found.meet(sum.chernoff(epsilon));
            found = found.meet(truncated_bound(sum, epsilon, accuracy, found));
        }
        Some(threshold) if accuracy.bounds_first => {
            let truncated = sum.truncated(threshold + accuracy.log_fraction());
            found = found.meet(truncated.chernoff(epsilon));
        }
        Some(_) => {}
    }
    if accuracy.is_met(found) {
        return found;
    }
    found = by_attempts(sum, epsilon, (accuracy, attainable), found);
    if accuracy.is_met(found) {
        return found;
    }
    found.meet(sum.alone(epsilon, accuracy.width, true))
}

/// What contours and grids of earlier questions know: while a root is searched that often suffices, and where the budget is spent it is
/// all that there is. Nothing for questions without a threshold, which no search asks.
fn known_answer(sum: &mut LossSum, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
    let Some(threshold) = accuracy.threshold else {
        return Enclosure::TRIVIAL;
    };
    let mut known = Enclosure::TRIVIAL;
    for farther in [0.0, FARTHER[0], WHOLE] {
        if farther >= WHOLE && !sum.is_better_whole() {
            break;
        }
        let truncated = sum.truncated(threshold + accuracy.log_fraction() - farther);
        known = known.meet(truncated.known(epsilon));
        if accuracy.is_met(known) {
            break;
        }
    }
    known
}

/// δ by one form after the other, with losses truncated farther and farther out, until the accuracy is met, or the one that is attainable was found by
/// inversion, or the budget is spent.
fn by_attempts(
    sum: &mut LossSum,
    epsilon: f64,
    (accuracy, attainable): (&Accuracy, f64),
    bounds: Enclosure,
) -> Enclosure {
    let mut found = bounds;
    let mut is_bounded = accuracy.threshold.is_none();
    let accuracy = &with_estimate(sum, epsilon, accuracy, bounds);
    let mut expected = accuracy.estimate.unwrap_or(TYPICAL_LOG_DELTA).min(found.log_upper);
    if let Some(share) = sum.preferred_share() {
        found = by_large_ratio(sum, (epsilon, expected), accuracy, (share, found));
    }
    for _ in 0..TRUNCATIONS {
        for (form, farther) in ATTEMPTS {
            // The transform of a lattice never decays, and its grid is exact.
            let is_grid_better = form != Form::Grid && (sum.is_on_lattice() || !sum.has_transform());
            if is_grid_better || (farther >= WHOLE && !sum.is_better_whole()) {
                continue;
            }
            let is_exhausted = sum.is_exhausted();
            if (is_exhausted || form == Form::Grid) && !is_bounded {
                found = found.meet(sum.chernoff(epsilon));
                is_bounded = true;
            }
            if is_exhausted || accuracy.is_met(found) || found.log_upper < UNDERFLOW {
                return found;
            }
            // A grid costs the most, and a digit or two of a coarse contour are often enough for it to be left out.
            if form == Form::Grid {
                found = coarse(sum, epsilon, accuracy, expected, found);
                if accuracy.is_met(found) {
                    return found;
                }
            }
            let before = sum.work();
            let truncated = sum.truncated(expected + accuracy.log_fraction() - farther);
            let here = truncated.delta(form, epsilon, accuracy, found);
            if form == Form::SplitInversion && here.width().is_infinite() {
                // It finds no contour only after some search, which would leave nothing for the routes after it.
                sum.forgive(sum.work() - before);
            }
            found = found.meet(here);
            if form == Form::Inversion && farther == 0.0 && !accuracy.accepting(attainable).is_met(found) {
                for share in [Share::Few, Share::Many] {
                    found = by_large_ratio(sum, (epsilon, expected), accuracy, (share, found));
                }
            }
            if accuracy.accepting(attainable).is_met(found) {
                return found;
            }
        }
        if is_truncation_negligible(sum, expected, accuracy, found) {
            break;
        }
        expected = expected.min(found.log_upper) - LEVEL_STEP;
    }
    found
}

/// The accuracy with what log δ is expected to be, where something is known of it.
fn with_estimate(sum: &mut LossSum, epsilon: f64, accuracy: &Accuracy, bounds: Enclosure) -> Accuracy {
    let expected = accuracy.expected();
    let estimate = expected.or_else(|| sum.smoothed_log_delta(epsilon, bounds.log_upper));
    Accuracy { estimate, ..*accuracy }
}

/// What is known of δ, narrowed by the large likelihood ratios of single steps. What was in vain leaves the routes after it what they need.
fn by_large_ratio(
    sum: &mut LossSum,
    (epsilon, expected): (f64, f64),
    accuracy: &Accuracy,
    (share, known): (Share, Enclosure),
) -> Enclosure {
    let before = sum.work();
    let found = known.meet(sum.by_large_ratio((epsilon, expected), accuracy, (share, known)));
    if !accuracy.is_met(found) {
        sum.forgive(sum.work() - before);
    }
    found
}

/// True if the mass that is truncated for an `expected` log δ is not the reason why `found` is wider than asked for.
fn is_truncation_negligible(sum: &mut LossSum, expected: f64, accuracy: &Accuracy, found: Enclosure) -> bool {
    let truncated = sum.truncated(expected + accuracy.log_fraction());
    truncated.log_truncated_mass() < found.log_upper + accuracy.log_fraction() - NEGLIGIBLE_TRUNCATION
}

/// δ at coarser tolerances, each tried only while the one before succeeded. Where a narrow interval takes too many points, one of a digit
/// or two often does not, and is far better than Chernoff's bound: the coarser the tolerance, the more outputs may be truncated.
fn coarse(sum: &mut LossSum, epsilon: f64, accuracy: &Accuracy, expected: f64, known: Enclosure) -> Enclosure {
    if known.width() <= UNKNOWN || sum.is_on_lattice() || !sum.has_transform() {
        return known;
    }
    let mut found = known;
    for width in COARSE_WIDTHS
        .into_iter()
        .filter(|width| *width > COARSER * accuracy.width)
    {
        let coarse = Accuracy {
            width,
            sufficient_width: width,
            ..*accuracy
        };
        sum.forget_failures();
        for _ in 0..TRUNCATIONS {
            // Without a threshold nothing is known of δ but its bound.
            let about = accuracy
                .threshold
                .map_or(found.log_upper, |_| expected.min(found.log_upper));
            for (form, farther) in COARSE_ATTEMPTS {
                if coarse.is_met(found) || sum.is_exhausted() {
                    break;
                }
                let truncated = sum.truncated(about + coarse.log_fraction() - farther);
                found = found.meet(truncated.delta(form, epsilon, &coarse, found));
            }
            let is_negligible = is_truncation_negligible(sum, about, &coarse, found);
            if coarse.is_met(found) || is_negligible || sum.is_exhausted() {
                break;
            }
        }
        if !coarse.is_met(found) {
            break;
        }
    }
    found
}

/// The best of Chernoff's bounds on truncated losses, each with the mass that is truncated: it locates δ even where far outputs make the
/// bound on the whole law useless.
///
/// Losses are truncated farther out by a factor of two each time, until the bound does not consist of the truncated mass; and between
/// the last two levels, where far outputs within the last one make the bound useless already.
fn truncated_bound(sum: &mut LossSum, epsilon: f64, accuracy: &Accuracy, known: Enclosure) -> Enclosure {
    let mut found = known;
    let mut is_truncated_mass = |sum: &mut LossSum, expected: f64| {
        let truncated = sum.truncated(expected + accuracy.log_fraction());
        let here = truncated.chernoff(epsilon);
        found = found.meet(here);
        here.log_upper <= truncated.log_truncated_mass() + LARGE_BOUND
    };
    let (mut near, mut far) = (0.0, TYPICAL_LOG_DELTA.min(known.log_upper));
    while is_truncated_mass(sum, far) && far > UNDERFLOW && !sum.is_exhausted() {
        (near, far) = (far, 2.0 * far);
    }
    while near < 0.0 && near - far > LEVEL_STEP && !sum.is_exhausted() {
        let middle = 0.5 * (near + far);
        if is_truncated_mass(sum, middle) {
            near = middle;
        } else {
            far = middle;
        }
    }
    found
}

impl Route {
    /// The form in which truncated losses are inverted or discretised, and how much farther out they are truncated; `None` for routes
    /// that do not truncate.
    pub(super) fn form(self) -> Option<(Form, f64)> {
        match self {
            Self::OneStep | Self::Renyi => None,
            Self::Inversion => Some((Form::LongInversion, 0.0)),
            Self::SplitInversion => Some((Form::SplitInversion, FARTHER[0])),
            Self::Grid => Some((Form::Grid, 0.0)),
        }
    }

    /// The error of a route that does not apply.
    pub(super) fn does_not_apply(self) -> Error {
        Error::Mismatch(format!("the route {self:?} does not apply here"))
    }
}
