//! δ(ε) of a single step: the loss grows with the output x, so that outputs above a threshold x* count,
//!
//! > δ = P(X > x*) − e^ε Q(X > x*) = ∫_{x*}^∞ P(x)·(1 − e^{ε − ℓ(x)}) dx.
//!
//! The first form is a difference of normal tails. Where they all but cancel (hardly any privacy loss) the
//! second is used: its integrand is positive, and a sum of Gaussians times constants, whose derivatives bound the error
//! of Gauss–Legendre quadrature. An error of x* is of second order, as the integrand vanishes there.
//!
//! The second form is computed only where the tails cancel: rounding makes the logarithm of a density wrong by some 1e-16 of its size in
//! either form. Its cost is counted (see [`Effort`]), and ends with the work that a caller allows.

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::StepLoss;
use crate::loss::gaussian_curve::GaussianCurve;
use crate::loss::loss_curve::LossCurve;
use crate::loss::privacy_loss::Effort;
use crate::loss::smooth_piece::{Piece, Scratch};
use crate::special::gauss_legendre::GaussLegendre;
use crate::special::log_space::LogSum;
use crate::special::normal::{log_mills, log_upper_tail};
use crate::stopping::checkpoint;
use std::f64::consts::PI;

/// The narrowest relative width that is computed.
pub(crate) const NARROWEST: f64 = 1e-10;
/// The integral is computed where the difference of tails is at most this fraction of P's tail: above, it would be no more accurate.
const CANCELLED: f64 = 0.25;
/// log of P's mass beyond all outputs that are searched (see `Piece::output_at`).
const LOG_BEYOND_REACH: f64 = -1000.0;
/// The part of the narrowest width below which a difference of tails is narrow enough.
const WELL_WITHIN: f64 = 0.01;
/// −log of the part of an integral at which its rest is left out: e^−42 is less than 1e-18.
const LOG_NEGLIGIBLE: f64 = 42.0;
/// log of a mass that is 0 for every purpose, so that an integral of nothing ends.
const LOG_NOTHING: f64 = -1e5;
/// Cost of an evaluation besides that of the terms of the densities, in terms.
const EVALUATION: u64 = 16;
/// A panel is 16σ/(z + 16) wide, z being the distance at its start; then width·(z' + 5) ≤ 16σ for the distance z' at its end. The derivative
/// of order 64 of a Gaussian is at most (z' + 5)^64 of it, which leaves an error of 16^64·(32!)⁴/(65·(64!)³) < 1e-50.
const PANEL_WIDTH: f64 = 16.0;

/// δ of one step at any real ε.
pub(crate) fn delta(loss: &StepLoss, epsilon: f64) -> Enclosure {
    delta_within(loss, epsilon, NARROWEST, &mut Effort::default())
}

/// δ of one step to a relative width of `width`, for which the difference of tails nearly always suffices. The cost of integrals is added to
/// `effort`; beyond its limit there are none, and the enclosure is wider.
pub(crate) fn delta_within(loss: &StepLoss, epsilon: f64, width: f64, effort: &mut Effort) -> Enclosure {
    checkpoint();
    loss.one_step(epsilon, width, effort)
}

/// e^{value}·(1 ± error).
pub(crate) fn around(log_value: f64, error: f64) -> Enclosure {
    of_rounded_logs(log_value + (-error).max(-1.0).ln_1p(), log_value + error.ln_1p())
}

/// An enclosure by two logarithms that are bounds but for their own rounding: in far tails a unit in the last place of log δ is 10⁻¹³ of δ.
pub(crate) fn of_rounded_logs(lower: f64, upper: f64) -> Enclosure {
    let room = |log: f64| {
        if log.is_finite() {
            f64::EPSILON * (1.0 + log.abs())
        } else {
            0.0
        }
    };
    Enclosure::of_logs(lower - room(lower), upper + room(upper))
}

/// δ of a smooth piece, to a relative width of about `width`.
pub(crate) fn of_piece(piece: &Piece, epsilon: f64, width: f64, effort: &mut Effort) -> Enclosure {
    let mut scratch = Scratch::default();
    let threshold = piece.output_at(epsilon, &mut scratch);
    if threshold == f64::INFINITY {
        return above_all(piece, epsilon);
    }
    if threshold == f64::NEG_INFINITY {
        let value = (-epsilon.exp_m1()).ln();
        return around(value, 8.0 * f64::EPSILON);
    }
    let (p, q) = piece.tails_above(threshold);
    let (difference, part) = difference(p, q, epsilon);
    if difference.width() < width || part > CANCELLED {
        return difference;
    }
    let tail = |x: f64| piece.log_masses_above(x).0;
    integral(piece, threshold, epsilon, tail, &mut scratch, effort).meet(difference)
}

/// No output within reach has a loss of ε: the mass that P has beyond is an upper bound.
fn above_all(piece: &Piece, epsilon: f64) -> Enclosure {
    if piece.max_loss() <= epsilon {
        return Enclosure::ZERO;
    }
    Enclosure::of_logs(f64::NEG_INFINITY, LOG_BEYOND_REACH)
}

/// P's tail less e^ε times Q's, and the fraction of P's tail that this is.
///
/// The relative error of Q's tail is multiplied by that tail: where Q is far away the relative error is large, and the tail itself is close
/// to 0.
fn difference(p: Approx, q: Approx, epsilon: f64) -> (Enclosure, f64) {
    let (a, b) = (p.value, q.value + epsilon);
    let below = (b - a).min(0.0); // log of Q's part over P's
    let value = -below.exp_m1(); // over e^a
    let rounding = 2.0 * f64::EPSILON;
    let (p_error, q_error) = (
        p.error + rounding * (4.0 + a.abs()),
        q.error + rounding * (4.0 + q.value.abs() + epsilon.abs()),
    );
    let wrong = p_error.exp_m1() + ((below + q_error).min(0.0).exp() - below.exp()).max(0.0) + rounding;
    let log = |x: f64| if x > 0.0 { a + x.ln() } else { f64::NEG_INFINITY };
    (Enclosure::of_logs(log(value - wrong), log(value + wrong)), value)
}

/// N(μ, 1) against N(0, 1): δ = Φ(−t) − e^ε Φ(−t − μ) with t = ε/μ − μ/2. As e^ε φ(t + μ) = φ(t), the second term is
/// φ(t) times Mills' ratio at t + μ: no exponent is larger than t²/2, however large ε is.
///
/// Let a and b be the logs of both terms, a as computed wrong by at most d and b by d'. As b ≤ a,
///
/// > δ = e^a·(e^{±d} − e^{b−a}e^{±d'}) is within e^a·(e^{d+d'} − 1) of e^a·(1 − e^{b−a}).
///
/// `log_upper_tail` errs by 1e-15·(4 + t²) and `log_mills` by 1e-15·(8 + min(t + μ, 25)²); squares, sums and the last
/// exponential and logarithm add less than 1e-15·(2 + t²/2). The rounding of t moves a by the hazard rate, and b by |−t + (log
/// m)'(t + μ)|, m being Mills' ratio: |(log m)'(s)| < 0.8 for s > 0, and the sum is μ less a hazard rate below 0.8 for s ≤ 0,
/// where μ ≤ |t|; both are below 2 + |t|.
fn of_gaussian(distance: f64, epsilon: f64) -> Enclosure {
    let threshold = epsilon / distance - 0.5 * distance;
    let log_p = log_upper_tail(threshold);
    let log_q = log_mills(threshold + distance) - 0.5 * threshold * threshold - 0.5 * (2.0 * PI).ln();
    let rounding = 2.0 * f64::EPSILON * (epsilon.abs() / distance + 0.5 * distance);
    let hazard = 2.0 + threshold.abs();
    let squares = 1.5 * threshold * threshold + (threshold + distance).min(25.0).powi(2);
    let wrong = (1e-15 * (14.0 + squares) + 2.0 * hazard * rounding).exp_m1();
    let value = -(log_q - log_p).min(0.0).exp_m1();
    let log = |x: f64| if x > 0.0 { log_p + x.ln() } else { f64::NEG_INFINITY };
    Enclosure::of_logs(log(value - wrong), log(value + wrong))
}

/// δ of N(μ, 1) against N(0, 1) at any real ε as a difference of tails, with an error of about 1e-13 of P's tail: where the tails cancel, few
/// digits are correct.
pub(crate) fn gaussian_delta(distance: f64, epsilon: f64) -> Enclosure {
    if epsilon >= 0.0 {
        return of_gaussian(distance, epsilon);
    }
    // δ(ε) = 1 − e^ε + e^ε δ(−ε)
    let found = of_gaussian(distance, -epsilon);
    let with = |delta: f64, slack: f64| ((-epsilon.exp_m1() + epsilon.exp() * delta) * (1.0 + slack)).ln();
    let slack = 8.0 * f64::EPSILON;
    found.with_logs(with(found.lower(), -slack), with(found.upper(), slack))
}

/// δ of N(μ, 1) against N(0, 1): by the difference of tails or, where these cancel, by the integral.
pub(crate) fn of_shift(distance: f64, epsilon: f64, scratch: &mut Scratch, effort: &mut Effort) -> Enclosure {
    let found = of_gaussian(distance, epsilon);
    // Where the tails do not cancel, the integral would be no narrower.
    if found.width() < WELL_WITHIN * NARROWEST || distance > 1.0 {
        return found;
    }
    let threshold = epsilon / distance - 0.5 * distance;
    let curve = GaussianCurve {
        distance,
        log_weight: 0.0,
    };
    integral(&curve, threshold, epsilon, log_upper_tail, scratch, effort).meet(found)
}

/// The integral from x*, panel by panel until the tail that is left, of mass e^`log_tail`, is negligible.
fn integral(
    curve: &dyn LossCurve,
    threshold: f64,
    epsilon: f64,
    log_tail: impl Fn(f64) -> f64,
    scratch: &mut Scratch,
    effort: &mut Effort,
) -> Enclosure {
    let rule = GaussLegendre::get();
    let mut start = threshold;
    let mut total = LogSum::default();
    let mut wrong = LogSum::default();
    while effort.done < effort.limit {
        checkpoint();
        curve.point(start, scratch);
        let half_width = 0.5 * PANEL_WIDTH * curve.scale() / (curve.reach(start, true, scratch) + PANEL_WIDTH);
        for (node, weight) in rule.nodes.iter().zip(&rule.weights) {
            let point = curve.point(start + half_width * (1.0 + node), scratch);
            effort.done += EVALUATION + 2 * scratch.terms();
            let gain = point.loss - epsilon;
            let log_mass = point.log_density + (weight * half_width).ln();
            if gain > 0.0 {
                total.add(log_mass + (-(-gain).exp_m1()).ln());
            }
            let rounding =
                (-gain.max(0.0)).exp() * point.size + (2.0 + point.log_density.abs()) * gain.clamp(0.0, 1.0);
            wrong.add(log_mass + (8.0 * f64::EPSILON * rounding).ln());
        }
        start += 2.0 * half_width;
        let rest = log_tail(start);
        if rest < total.ln() - LOG_NEGLIGIBLE || rest < LOG_NOTHING {
            let value = total.ln();
            let error = (rest - value).exp() + (wrong.ln() - value).exp() + 1e-13;
            return around(value, error);
        }
    }
    Enclosure::TRIVIAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Direction, GroupLaw};

    /// True if the enclosure contains log δ = `exact`, but for the rounding of that literal.
    fn contains(found: Enclosure, exact: f64) -> bool {
        let literal = 2.0 * f64::EPSILON * exact.abs();
        found.log_lower <= exact + literal && exact - literal <= found.log_upper
    }

    /// μ, ε and log δ of N(μ, 1) against N(0, 1), by mpmath 1.3 with 60 digits: log(Φ(−t) − e^ε Φ(−t − μ)), t = ε/μ − μ/2, where
    /// Φ(x) = erfc(−x/√2)/2 and μ, ε are the exact values of these literals.
    const GAUSSIAN: [(f64, f64, f64); 8] = [
        (1.0, 0.5, -1.433_714_290_323_697_6),
        (0.01, 0.02, -9.363_963_538_377_323),
        (0.001, 0.003, -14.775_941_446_794_022),
        (5.0, 30.0, -8.937_825_712_028_71),
        (40.0, 900.0, -5.150_334_925_593_307),
        (0.25, -0.5, -0.928_585_100_876_448_3),
        (3.0, -2.0, -0.043_442_413_106_314_08),
        (1e-6, 0.0, -14.734_449_091_168_989),
    ];

    #[test]
    fn gaussian_curves_enclose_values_of_high_precision() {
        for (distance, epsilon, exact) in GAUSSIAN {
            let tails = gaussian_delta(distance, epsilon);
            assert!(contains(tails, exact), "{distance} {epsilon}: {tails:?} {exact}");
            // Where the tails cancel their difference is wide; the integral is not.
            let found = delta(&StepLoss::shift(distance), epsilon);
            assert!(contains(found, exact), "{distance} {epsilon}: {found:?} {exact}");
            assert!(found.width() < NARROWEST, "{distance} {epsilon}: {found:?}");
        }
    }

    /// q, σ, ε and log δ of one record under Poisson sampling, by mpmath 1.3 with 60 digits: with r = e^{±ε} and
    /// x = σ² log((r − (1 − q))/q) + 1/2, the difference of P's and e^ε times Q's tails beyond x.
    const MIXTURES: [(f64, f64, f64, Direction, f64); 8] = [
        (0.01, 1.0, 0.5, Direction::Remove, -15.323_060_420_859_687),
        (0.01, 1.0, 3.0, Direction::Remove, -34.498_030_049_434_69),
        (0.0001, 2.0, 0.0001, Direction::Remove, -12.854_776_050_596_288),
        (0.0001, 2.0, 0.00005, Direction::Add, -13.547_653_544_363_629),
        (0.3, 0.5, -0.2, Direction::Remove, -1.413_135_061_973_559),
        (0.3, 0.5, -0.2, Direction::Add, -1.120_316_754_988_862_7),
        (0.5, 20.0, 0.03, Direction::Remove, -6.504_369_119_022),
        (0.5, 20.0, 0.03, Direction::Add, -6.608_323_298_681_268),
    ];

    #[test]
    fn curves_of_one_step_enclose_values_of_high_precision() {
        for (rate, sigma, epsilon, direction, exact) in MIXTURES {
            let law = GroupLaw::binomial(1, rate).unwrap();
            let loss = StepLoss::mixture(&law, sigma, direction).unwrap().unwrap();
            let found = delta(&loss, epsilon);
            assert!(
                contains(found, exact),
                "{rate} {sigma} {epsilon} {direction:?}: {found:?} {exact}"
            );
            assert!(
                found.width() < 1e-9,
                "{rate} {sigma} {epsilon} {direction:?}: {found:?}"
            );
            // A wide interval costs less and encloses δ as well.
            let mut effort = Effort::default();
            let rough = delta_within(&loss, epsilon, 0.1, &mut effort);
            assert!(contains(rough, exact) && rough.width() < 0.1, "{rough:?}");
        }
    }

    /// "Add" has no loss above −log(1 − q).
    #[test]
    fn no_output_has_a_loss_above_the_largest() {
        let law = GroupLaw::binomial(1, 0.3).unwrap();
        let loss = StepLoss::mixture(&law, 1.0, Direction::Add).unwrap().unwrap();
        let largest = -(-0.3f64).ln_1p();
        assert_eq!(delta(&loss, largest * (1.0 + 1e-12)), Enclosure::ZERO);
        assert!(delta(&loss, 0.9 * largest).log_lower > f64::NEG_INFINITY);
    }

    /// Mixtures of Gaussian pairs are sums of their curves.
    #[test]
    fn mixtures_of_gaussian_pairs_add_up() {
        let (log_weights, distances) = (vec![0.25f64.ln(), 0.5f64.ln(), 0.25f64.ln()], vec![0.0, 0.3, 2.0]);
        let loss = StepLoss::gaussians(log_weights, distances);
        for epsilon in [0.0, 0.7, 3.0] {
            let exact = 0.5 * gaussian_delta(0.3, epsilon).upper() + 0.25 * gaussian_delta(2.0, epsilon).upper();
            let found = delta(&loss, epsilon);
            assert!(
                contains(found, exact.ln()) || (found.log_upper - exact.ln()).abs() < 1e-12,
                "{epsilon}"
            );
            assert!(found.width() < 1e-9);
        }
    }

    /// Without a budget for integrals there are none, and the enclosure is that of the tails.
    #[test]
    fn an_exhausted_budget_widens_the_enclosure() {
        let mut spent = Effort { done: 1, limit: 1 };
        let found = delta_within(&StepLoss::shift(1e-3), 0.003, 1e-10, &mut spent);
        assert!(
            contains(found, -14.775_941_446_794_022) && found.width() > 1e-11,
            "{found:?}"
        );
        assert_eq!(spent.done, 1);
    }
}
