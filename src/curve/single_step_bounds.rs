//! Bounds on δ of a run from its steps, each taken alone. They cost a fraction of an inversion, and often suffice.

use crate::curve::largest_loss::LargestLoss;
use crate::curve::one_step;
use crate::curve::one_step::Effort;
use crate::interval::Enclosure;
use crate::inversion::segment::Segment;
use crate::loss::StepLoss;
use crate::special::log_space::LogSum;

/// Width of δ of one step over the width that is asked for of the run.
const FINER: f64 = 0.1;
/// Relative width of δ of the pair that dominates the whole run: only its upper end is used.
const WIDTH_OF_DOMINATING: f64 = 1e-3;

/// Bounds on δ(ε) of a run. It is at least
///
/// * δ of any single step, as the others may be ignored,
/// * the part of it where every step has its largest loss,
///
/// and at most
///
/// * the sum of the total variations of all steps, for ε ≥ 0, e^`log_variation`,
/// * δ of as many steps in which the whole group always takes part: a Gaussian pair.
pub(super) fn delta(
    segments: &[Segment],
    epsilon: f64,
    width: f64,
    log_variation: Option<f64>,
    effort: &mut Effort,
) -> Enclosure {
    let mut found = Enclosure::TRIVIAL;
    for segment in segments {
        let one = one_step::delta_within(&segment.loss, epsilon, FINER * width, effort);
        found = found.meet(one.with_logs(one.log_lower, 0.0));
    }
    found = found.meet(part_of_largest_losses(segments, epsilon));
    if let Some(log_variation) = log_variation {
        found = found.meet(Enclosure::of_logs(f64::NEG_INFINITY, log_variation));
    }
    let square = |segment: &Segment| Some(segment.steps * segment.loss.widest_distance()?.powi(2));
    if let Some(square) = segments.iter().map(square).sum::<Option<f64>>() {
        let widest = StepLoss::shift(square.sqrt() * (1.0 + 1e-12));
        let whole = one_step::delta_within(&widest, epsilon, WIDTH_OF_DOMINATING, effort);
        found = found.meet(whole.with_logs(f64::NEG_INFINITY, whole.log_upper));
    }
    found
}

/// δ ≥ p·(1 − e^{ε − S}), where every step has its largest loss with probability p and S is the sum of these losses.
fn part_of_largest_losses(segments: &[Segment], epsilon: f64) -> Enclosure {
    let of = |segment: &Segment| segment.steps * segment.loss.log_mass_of_most_loss();
    let log_mass: f64 = segments.iter().map(of).sum();
    let distance = LargestLoss::of(segments).surely_above(epsilon);
    if !(log_mass > f64::NEG_INFINITY && distance > 0.0) {
        return Enclosure::TRIVIAL;
    }
    let part = log_mass + (-(-distance).exp_m1()).ln();
    Enclosure::of_logs(part - 1e-13 * (1.0 + part.abs()), 0.0)
}

/// δ(ε) ≤ P(S > ε)·(1 − e^{−d}), where the largest sum of losses is d > 0 above ε: the gain of an output is at most 1 − e^{−d}, and
/// S > ε only where no step falls short of its own largest loss by d or more.
pub(super) fn near_largest_loss(segments: &[Segment], distance: f64) -> Enclosure {
    let log_mass = if distance.is_finite() {
        let of = |segment: &Segment| {
            let (largest, _) = segment.loss.most_loss();
            let level = largest - distance - 4.0 * f64::EPSILON * (largest.abs() + distance);
            segment.steps * segment.loss.log_mass_above(level).min(0.0)
        };
        segments.iter().map(of).sum()
    } else {
        0.0
    };
    let log_gain = (-(-distance).exp_m1()).ln();
    let rounding = f64::EPSILON * (4.0 + log_gain.abs() + log_mass.abs());
    Enclosure::of_logs(f64::NEG_INFINITY, log_mass + log_gain + rounding)
}

/// log of an upper bound on the sum of the total variations of all steps.
pub(super) fn log_variation(segments: &[Segment]) -> f64 {
    log_sum_of_deltas(segments, 0.0, 0.0) + 1e-12
}

/// log of an upper bound on the sum of δ(ε) of all steps, each taken alone, to a relative `width`.
pub(super) fn log_sum_of_deltas(segments: &[Segment], epsilon: f64, width: f64) -> f64 {
    let mut sum = LogSum::default();
    // A budget of its own, so that the bound is the same whenever it is asked for.
    let mut effort = Effort::default();
    for segment in segments {
        sum.add(one_step::delta_within(&segment.loss, epsilon, width, &mut effort).log_upper + segment.steps.ln());
    }
    sum.ln()
}
