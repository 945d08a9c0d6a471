//! Bounds on δ of a run from its steps, each taken alone. They cost a fraction of an inversion, and often suffice.

use crate::curve::one_step;
use crate::curve::singular_mass::rounded;
use crate::interval::Enclosure;
use crate::inversion::segment;
use crate::inversion::segment::Segment;
use crate::loss::StepLoss;
use crate::loss::privacy_loss::Effort;
use crate::special::log_space::LogSum;
use crate::special::root::solve_decreasing;
use std::convert::Infallible;

/// Width of δ of one step over the width that is asked for of the run.
const FINER: f64 = 0.1;
/// Relative width of δ of the pair that dominates the whole run: only its upper end is used.
const WIDTH_OF_DOMINATING: f64 = 1e-3;

/// Bounds on δ(ε) of a run. It is at least
///
/// * δ of any single step, as the others may be ignored (which is all of δ where there are no others),
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
        let is_all = segments.len() == 1 && segment.steps == 1.0;
        let log_upper = if is_all { one.log_upper } else { 0.0 };
        found = found.meet(one.with_logs(one.log_lower, log_upper));
    }
    found = found.meet(part_of_largest_losses(segments, epsilon));
    if let Some(log_variation) = log_variation {
        found = found.meet(Enclosure::of_logs(f64::NEG_INFINITY, log_variation));
    }
    if let Some(distance) = widest_distance(segments) {
        let whole = one_step::delta_within(&StepLoss::shift(distance), epsilon, WIDTH_OF_DOMINATING, effort);
        found = found.meet(whole.with_logs(f64::NEG_INFINITY, whole.log_upper));
    }
    found
}

/// A μ such that N(μ, 1) against N(0, 1) dominates the run: the whole group always takes part. `None` without Gaussian noise.
fn widest_distance(segments: &[Segment]) -> Option<f64> {
    let square = |segment: &Segment| Some(segment.steps * segment.loss.widest_distance()?.powi(2));
    let square = segments.iter().map(square).sum::<Option<f64>>()?;
    // A square root halves the roundings of the sum.
    Some(square.sqrt() * (1.0 + 1e-12 + f64::EPSILON * segments.len() as f64))
}

/// An upper bound on the ε at which log δ = `log_delta`: that of the Gaussian pair that dominates the run, where there is one.
///
/// δ of that pair is at most P(N(0, 1) > z) < e^{−z²/2} at ε = μ²/2 + μz, where the search starts.
pub(super) fn epsilon_of_dominating(segments: &[Segment], log_delta: f64) -> Option<f64> {
    /// Relative accuracy of the bound: it replaces ends that are off by factors.
    const ACCURACY: f64 = 1e-6;
    let distance = widest_distance(segments).filter(|distance| distance.is_finite())?;
    let excess = |epsilon: f64| one_step::gaussian_delta(distance, epsilon).log_upper - log_delta;
    if excess(0.0) <= 0.0 {
        return Some(0.0);
    }
    let far = 0.5 * distance * distance + distance * (-2.0 * log_delta).max(0.0).sqrt();
    let found = solve_decreasing(0.0, far, ACCURACY * far, |epsilon| Ok::<_, Infallible>(excess(epsilon)));
    let Ok(found) = found;
    (excess(found) <= 0.0).then_some(found)
}

/// δ ≥ p·(1 − e^{ε − S}), where every step has its largest loss with probability p and S is the sum of these losses.
fn part_of_largest_losses(segments: &[Segment], epsilon: f64) -> Enclosure {
    let of = |segment: &Segment| segment.steps * segment.loss.log_mass_of_max_loss();
    let log_mass: f64 = segments.iter().map(of).sum();
    let distance = segment::max_loss(segments).surely_above(epsilon);
    if !(log_mass > f64::NEG_INFINITY && distance > 0.0) {
        return Enclosure::TRIVIAL;
    }
    let part = log_mass + (-(-distance).exp_m1()).ln();
    let rounding = 1e-13 + f64::EPSILON * segments.len() as f64;
    Enclosure::of_logs(part - rounding * (1.0 + part.abs()), 0.0)
}

/// δ(ε) ≤ P(S > ε)·(1 − e^{−d}), where the largest sum of losses is d > 0 above ε: the gain of an output is at most 1 − e^{−d}, and
/// S > ε only where no step falls short of its own largest loss by d or more.
pub(super) fn near_largest_loss(segments: &[Segment], distance: f64) -> Enclosure {
    let log_mass = if distance.is_finite() {
        let of = |segment: &Segment| {
            let largest = segment.loss.max_loss().size;
            let level = largest - distance - 4.0 * f64::EPSILON * (largest.abs() + distance);
            segment.steps * segment.loss.log_mass_above(level).min(0.0)
        };
        segments.iter().map(of).sum()
    } else {
        0.0
    };
    let log_gain = (-(-distance).exp_m1()).ln();
    // Each addition rounds a sum that is at most as large as the last one.
    let terms = 1.0 + segments.len() as f64;
    let rounding = f64::EPSILON * (4.0 + log_gain.abs() + terms * log_mass.abs());
    Enclosure::of_logs(f64::NEG_INFINITY, log_mass + log_gain + rounding)
}

/// log of an upper bound on the sum of the total variations of all steps.
pub(super) fn log_variation(segments: &[Segment]) -> f64 {
    log_sum_of_deltas(segments, 0.0, 0.0)
}

/// log of an upper bound on the sum of δ(ε) of all steps, each taken alone, to a relative `width`.
pub(super) fn log_sum_of_deltas(segments: &[Segment], epsilon: f64, width: f64) -> f64 {
    let mut sum = LogSum::default();
    // A budget of its own, so that the bound is the same whenever it is asked for.
    let mut effort = Effort::default();
    for segment in segments {
        sum.add(one_step::delta_within(&segment.loss, epsilon, width, &mut effort).log_upper + segment.steps.ln());
    }
    // Each addition rounds the sum, and now and then its scale; both logarithms of a term are rounded.
    rounded(sum.ln() + 1e-12 + 4.0 * f64::EPSILON * segments.len() as f64, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::coin_count;
    use crate::step::{Direction, GroupLaw};

    /// `steps` steps of randomised response, in each of which the record takes part with probability `rate`.
    fn response(rate: f64, keep: f64, steps: f64) -> Segment {
        let law = GroupLaw::binomial(1, rate).unwrap();
        let loss = StepLoss::response(&law, keep, Direction::Remove).unwrap();
        Segment { loss, steps }
    }

    /// δ by the sum over the number of heads.
    fn exact(segment: &Segment, epsilon: f64) -> f64 {
        coin_count::delta(&*segment.loss, segment.steps, epsilon)
            .unwrap()
            .log_upper
    }

    /// Where every step must have its largest loss for the sum to exceed ε, both bounds are δ itself: p³(1 − e^{ε − 3 log 3}).
    #[test]
    fn bounds_by_the_largest_loss_are_attained_next_to_it() {
        let segments = [response(1.0, 0.75, 3.0)];
        let largest = 3.0 * 3f64.ln();
        for distance in [1e-6f64, 0.1, 2.0] {
            let exact = 3.0 * 0.75f64.ln() + (-(-distance).exp_m1()).ln();
            let slack = 1e-9;
            let lower = part_of_largest_losses(&segments, largest - distance).log_lower;
            assert!(
                lower <= exact + 1e-8 && lower > exact - slack - 1e-8,
                "{distance}: {lower} {exact}"
            );
            let upper = near_largest_loss(&segments, distance).log_upper;
            assert!(upper >= exact && upper < exact + slack, "{distance}: {upper} {exact}");
        }
    }

    /// Twenty thousand kinds of steps: the sum of log 0.74, added one after the other, is −6022.101855675646, and 20,000·log 0.74 is
    /// −6022.101855678433 (mpmath).
    #[test]
    fn sums_over_very_many_kinds_have_room_for_their_roundings() {
        let segments: Vec<Segment> = (0..20_000).map(|_| response(1.0, 0.74, 1.0)).collect();
        let (exact, gain) = (-6_022.101_855_678_432, (-(-2f64).exp_m1()).ln());
        let largest = 20_000.0 * (0.74f64 / 0.26).ln();
        let lower = part_of_largest_losses(&segments, largest - 2.0).log_lower;
        assert!(lower < exact + gain && lower > exact + gain - 1e-6, "{lower}");
    }

    /// Four steps in which a record that is seen takes part with probability q = 1e-5: δ(0) of the run is at least what the runs with the
    /// record in one batch contribute, 4q(1 − q)³·δ(0) of one Gaussian pair, which is the sum of total variations but for 3q of it.
    #[test]
    fn the_sum_of_total_variations_is_nearly_attained_by_rare_losses() {
        let rate = 1e-5f64;
        let loss = StepLoss::gaussians(vec![(-rate).ln_1p(), rate.ln()], vec![0.0, 3.0]);
        let segments = [Segment { loss, steps: 4.0 }];
        let attained = (4.0 * rate).ln() + 3.0 * (-rate).ln_1p() + one_step::gaussian_delta(3.0, 0.0).log_lower;
        for found in [log_variation(&segments), log_sum_of_deltas(&segments, 0.0, 1e-9)] {
            assert!(attained <= found && found < attained + 1e-4, "{attained} {found}");
        }
    }

    /// Four steps in which all but one record in 1000 always takes part: δ is between that of one Gaussian pair of distance 2 and the
    /// part of it where every step has the record.
    #[test]
    fn the_gaussian_pair_in_which_everyone_takes_part_dominates() {
        let loss = StepLoss::gaussians(vec![1e-3f64.ln(), 0.999f64.ln()], vec![0.0, 1.0]);
        let segments = [Segment { loss, steps: 4.0 }];
        let whole = one_step::gaussian_delta(2.0, 1.0);
        let found = delta(&segments, 1.0, 1e-6, None, &mut Effort::default());
        assert!(found.log_upper >= whole.log_lower + 4.0 * 0.999f64.ln());
        assert!(found.log_upper <= whole.log_upper + 1e-3);
        // A single step of the four bounds δ from below.
        let one = one_step::gaussian_delta(1.0, 1.0).log_upper + 0.999f64.ln();
        assert!((found.log_lower - one).abs() < 1e-6 && found.log_lower <= one + 1e-12);
    }

    #[test]
    fn bounds_enclose_the_curve_of_randomised_response() {
        for (rate, keep, steps) in [(0.3, 0.75, 5.0), (1.0, 0.6, 12.0), (0.01, 0.9, 40.0)] {
            let segments = [response(rate, keep, steps)];
            let variation = log_variation(&segments);
            for epsilon in [0.0, 0.2, 1.0, 3.0] {
                let exact = exact(&segments[0], epsilon);
                let found = delta(&segments, epsilon, 1e-6, Some(variation), &mut Effort::default());
                assert!(
                    found.log_lower <= exact + 1e-9 && exact <= found.log_upper + 1e-9,
                    "{rate} {keep} {steps} {epsilon}: {found:?} {exact}"
                );
            }
        }
    }

    /// Of a Gaussian pair itself the bound is its ε: δ there is the one that was asked for, to a part in a million of ε.
    #[test]
    fn epsilon_of_the_dominating_pair_is_attained_by_it() {
        let segments = [Segment {
            loss: StepLoss::shift(0.5),
            steps: 9.0,
        }];
        for log_delta in [-2.0f64, -11.5, -100.0] {
            let found = epsilon_of_dominating(&segments, log_delta).unwrap();
            let there = one_step::gaussian_delta(1.5, found);
            assert!(
                there.log_upper <= log_delta + 1e-9 && there.log_lower > log_delta - 1e-4 * (1.0 + found),
                "{found}"
            );
        }
        assert_eq!(epsilon_of_dominating(&segments, -0.1), Some(0.0));
        assert_eq!(epsilon_of_dominating(&[response(0.1, 0.7, 3.0)], -5.0), None);
    }
}
