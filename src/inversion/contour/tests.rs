//! Every error of a contour against closed forms, or against a law that attains its bound.

use super::*;
use crate::approx::Approx;
use crate::inversion::reference::{GaussianRun, tilt};
use crate::special::extended::two_product;
use realfft::num_complex::Complex64;

/// A contour of a Gaussian run at tilt c with period `period`, so long that nothing is left beyond its end.
fn long_contour(run: GaussianRun, c: f64, (below, above): (f64, f64), period: f64) -> Contour {
    let spacing = 2.0 * PI / period;
    let last = (9.0 / run.variance.sqrt() / spacing).ceil();
    let line = Line {
        c,
        log_moment: Approx::exact(run.log_moment(c)),
        spacing,
        decayed: 0.0,
        left_out: Vec::new(),
        size: 1,
    };
    let with_moment = |c: f64| MomentBound {
        c,
        log_moment: run.log_moment(c),
    };
    let tilt = tilt(c, with_moment(below), with_moment(above), period);
    let points = (0..=last as usize).map(|j| run.point(c, j as f64 * spacing));
    Contour::through(line, &tilt, points.collect())
}

/// A contour of an atom at `loss` up to y = `reach`.
fn atom_contour(loss: f64, c: f64, (below, above): (f64, f64), (spacing, reach): (f64, f64)) -> Contour {
    let line = Line {
        c,
        log_moment: Approx::exact(c * loss),
        spacing,
        decayed: 1.0,
        left_out: Vec::new(),
        size: 1,
    };
    let with_moment = |c: f64| MomentBound {
        c,
        log_moment: c * loss,
    };
    let tilt = tilt(c, with_moment(below), with_moment(above), 2.0 * PI / spacing);
    let point = |j: f64| ContourPoint {
        modulus: 1.0,
        phase: j * spacing * loss,
        error: 0.0,
    };
    Contour::through(
        line,
        &tilt,
        (0..=(reach / spacing) as usize).map(|j| point(j as f64)).collect(),
    )
}

#[test]
fn aliasing_above_zero_attains_its_bound() {
    // g(S − ε + mP) is nearly 1 for every m ≥ 1, as c' = 0 has it; what comes from above is e^−50.
    let run = GaussianRun::new(1.0, 1.0);
    for (epsilon, period) in [(1.0, 12.0), (2.5, 15.0)] {
        let contour = long_contour(run, 0.3, (0.0, 10.0), period);
        let found = contour.delta(epsilon);
        let exact = run.log_delta(epsilon);
        assert!(
            found.log_lower <= exact + 1e-12 && exact <= found.log_upper,
            "{found:?} {exact}"
        );
        assert!(found.log_lower > exact - 1e-2, "{found:?} {exact}");
        // The sum is far above δ, so that half of the bound would not do.
        assert!(found.log_upper > exact + 0.1, "{found:?} {exact}");
    }
}

#[test]
fn aliasing_below_zero_attains_its_bound_from_both_sides() {
    let run = GaussianRun::new(1.0, 1.0);
    for (epsilon, period) in [(-1.0, 12.0), (-3.0, 14.0)] {
        let contour = long_contour(run, -0.5, (-1.0, 0.0), period);
        let Approx { value, error } = contour.sum(epsilon);
        let scale = (contour.log_moment.value - contour.c * epsilon).exp();
        let complement = run.log_complement(epsilon).exp();
        let (wrong, bound) = (-value * scale - complement, contour.aliasing(epsilon) * scale);
        assert!(wrong <= bound + error * scale && wrong > 0.9 * bound, "{wrong} {bound}");
        let found = contour.delta(epsilon);
        assert!(found.lower() <= 1.0 - complement && 1.0 - complement <= found.upper());
    }
}

#[test]
fn an_atom_at_epsilon_attains_the_bound_on_the_tail() {
    // Every term beyond the last point is −h/(πy²), all but.
    let epsilon = 2.0;
    for reach in [40.0, 300.0] {
        let contour = atom_contour(epsilon, 0.5, (0.0, 1.0), (0.1, reach));
        let Approx { value, error } = contour.sum(epsilon);
        let aliasing: f64 = (1..5)
            .map(|m| 2.0 * PI / 0.1 * f64::from(m))
            .map(|shift| -(-shift).exp_m1() * (-0.5 * shift).exp())
            .sum();
        let wrong = value - aliasing; // δ is 0
        assert!(wrong <= error && wrong > 0.9 * error, "{reach}: {wrong} {error}");
        assert_eq!(contour.delta(epsilon).lower(), 0.0);
        // Below 0 what is cut off makes 1 − δ = 1 too small.
        let contour = atom_contour(epsilon, -0.5, (-1.0, 0.0), (0.1, reach));
        assert_eq!(contour.delta(epsilon).lower(), 0.0);
        let Approx { value, error } = contour.sum(epsilon);
        assert!(
            1.0 + value <= error && 1.0 + value > 0.9 * error,
            "{reach}: {value} {error}"
        );
    }
}

#[test]
fn the_errors_of_the_points_bound_what_they_add_and_are_attained() {
    // Each point off by 1e-6 in the direction in which it counts most.
    let (run, c, epsilon) = (GaussianRun::new(1.0, 4.0), 0.8, 3.0);
    let exact = long_contour(run, c, (0.1, 10.0), 60.0);
    let mut wrong = long_contour(run, c, (0.1, 10.0), 60.0);
    for (j, point) in wrong.points.iter_mut().enumerate() {
        const ERROR: f64 = 1e-6;
        let y = j as f64 * exact.spacing;
        let towards = y * epsilon + (y * (2.0 * c + 1.0)).atan2(c * (c + 1.0) - y * y);
        let real = point.modulus * point.phase.cos() + ERROR * towards.cos();
        let imaginary = point.modulus * point.phase.sin() + ERROR * towards.sin();
        *point = ContourPoint {
            modulus: real.hypot(imaginary),
            phase: imaginary.atan2(real),
            error: ERROR,
        };
    }
    let (before, after) = (exact.sum(epsilon), wrong.sum(epsilon));
    let off = after.value - before.value;
    assert!(off <= after.error && off > 0.99 * after.error, "{off} {after:?}");
}

#[test]
fn rounding_is_within_its_bound_and_the_bound_is_not_idle() {
    // Far from c = 0 and at a large ε the phases are rounded by up to 1e-10.
    let mut worst = 0.0f64;
    for shift in [1e3, 1e5, 1e6] {
        let run = GaussianRun::new(1.0, 1.0);
        let mut contour = long_contour(run, 1.5, (0.1, 12.0), 40.0);
        let epsilon = 1.0;
        let plain = contour.sum(epsilon);
        // All losses moved by `shift`, and ε with them.
        for (j, point) in contour.points.iter_mut().enumerate() {
            point.phase += j as f64 * contour.spacing * shift;
        }
        let Approx { value, error } = contour.sum(epsilon + shift);
        assert!(
            (value - plain.value).abs() <= error + plain.error,
            "{shift}: {value} {plain:?} {error}"
        );
        worst = worst.max((value - plain.value).abs() / error);
    }
    assert!(worst > 0.001, "{worst}");
}

/// The roundings of an angle, found at twice the precision, come within a factor of two of their bound.
#[test]
fn the_rounding_of_an_angle_is_nearly_attained() {
    let mut worst = 0.0f64;
    for i in 1..20_000 {
        // Far above the roundings of the sine, and with digits in no order.
        let (j, spacing, epsilon) = (
            3.0 + f64::from(2 * i),
            0.1 + 1e-5 * f64::from(i).sqrt(),
            1e9 / f64::from(i),
        );
        let turn = (j * spacing) * epsilon;
        let (y, y_low) = two_product(j, spacing);
        let (high, low) = two_product(y, epsilon);
        let wrong = ((turn - high) - (low + y_low * epsilon)).abs();
        let bound = rounding_of_term(0.0, turn);
        assert!(wrong <= bound, "{j} {spacing} {epsilon}: {wrong} {bound}");
        worst = worst.max(wrong / bound);
    }
    assert!(worst > 0.5, "{worst}");
}

#[test]
fn what_the_points_leave_out_is_added_once() {
    // All that is left out lies 12 above ε, where 1 − e^−u is 1: with c' near 0 the bound is its mass.
    let (epsilon, log_mass) = (1.0, -8.0);
    let mut contour = long_contour(GaussianRun::new(1.0, 1.0), 1.5, (0.1, 12.0), 40.0);
    let without = contour.delta(epsilon);
    let moment = |c: f64| MomentBound {
        c,
        log_moment: log_mass + c * (epsilon + 12.0),
    };
    contour.left_out = [1e-4, 0.3].map(moment).to_vec();
    let with = contour.delta(epsilon);
    let added = with.log_upper.exp() - without.log_upper.exp();
    let mass = f64::exp(log_mass) * -(-12.0f64).exp_m1();
    assert!(added >= mass && added < 1.01 * mass, "{added} {mass}");
    assert_eq!(with.log_lower, without.log_lower);
}

#[test]
fn a_power_carries_the_error_of_its_base() {
    for (base, error, steps) in [
        (0.9f64, 1e-9, 7.0f64),
        (0.999, 1e-6, 2000.0),
        (0.5, 0.1, 3.0),
        (0.2, 0.3, 5.0),
    ] {
        let mut power = Power::default();
        power.multiply(Approx::new(Complex64::from(base - 1.0), error), steps);
        let point = power.point();
        let off = (base + error).powf(steps) - base.powf(steps);
        assert!(point.error + 1e-13 >= off, "{base} {steps}: {} {off}", point.error);
        assert!(
            point.error <= 1.1 * off + 1e-14,
            "{base} {steps}: {} {off}",
            point.error
        );
    }
}

/// Where the errors are so large that all digits are lost, the truth may have the opposite sign: φ̂^T with φ̂ = 0.99999 is 0.905, and
/// φ = φ̂·e^{iπ/T}, 3.14e-4 away, is of modulus below 1 and makes it −0.905.
#[test]
fn a_power_without_digits_may_have_the_other_sign() {
    let (steps, base) = (1e4, 0.99999f64);
    let mut power = Power::default();
    power.multiply(Approx::new(Complex64::from(base - 1.0), PI / steps), steps);
    let point = power.point();
    let off = 2.0 * base.powf(steps);
    assert!(point.error >= off, "{} {off}", point.error);
    // A power of next to nothing is off by no more than 1, and by what the moment at y = 0 may be off.
    let mut tiny = Power::default();
    tiny.multiply(Approx::new(Complex64::from(-1.0), 1e-3), 10.0);
    let point = tiny.point();
    assert!(point.error <= 1.02 && point.error >= 1e-30, "{}", point.error);
}

/// Phases of 10,000 segments, each 0.1 and a little: plain addition is off by 1.6e-10, and counts only the roundings of each term.
#[test]
fn a_product_of_many_powers_is_within_its_error() {
    const COUNT: usize = 10_000;
    let mut power = Power::default();
    let turn = Complex64::cis(0.1) - 1.0;
    (0..COUNT).for_each(|_| power.multiply(Approx::exact(turn), 1.0));
    let point = power.point();
    let one = complex_ln_1p(turn).im;
    let off = (point.phase - COUNT as f64 * one).abs();
    assert!(off <= 4.0 * f64::EPSILON * point.phase, "{off}");
    assert!(point.error < 1e-11, "{}", point.error);
}

#[test]
fn a_high_power_is_that_of_high_precision() {
    // mpmath: (1 + mpc(mpf(-1e-7), mpf(3e-4)))**10**7
    let (real, imaginary) = (-0.562_946_215_861_236_5, 0.126_343_400_674_526_37);
    let mut power = Power::default();
    power.multiply(Approx::exact(Complex64::new(-1e-7, 3e-4)), 1e7);
    let point = power.point();
    let off = (point.modulus * point.phase.cos() - real).hypot(point.modulus * point.phase.sin() - imaginary);
    assert!(off <= point.error && point.error < 1e-11, "{off} {}", point.error);
    // mpmath: (1 + mpc(mpf(-1e-7), mpf(3e-4)*(1 + mpf(1e-9))))**10**7 is off by 1e-9·3000 of its modulus.
    let mut moved = Power::default();
    moved.multiply(Approx::new(Complex64::new(-1e-7, 3e-4 * (1.0 + 1e-9)), 3e-13), 1e7);
    let moved = moved.point();
    let off = (moved.modulus * moved.phase.cos() - real).hypot(moved.modulus * moved.phase.sin() - imaginary);
    assert!(off <= moved.error && off > 0.9 * moved.error, "{off} {}", moved.error);
}

#[test]
fn a_difference_of_points_has_the_errors_of_both() {
    let point = |modulus: f64, phase: f64, error: f64| ContourPoint { modulus, phase, error };
    let difference = point(0.7, 0.0, 1e-5).minus(point(0.7 - 1e-5, 0.0, 1e-5));
    // The first may be too small by 1e-5 and the second too large.
    let off = (0.7 - 1e-5) - (0.7 - 1e-5 + 1e-5) - difference.modulus;
    assert!(off.abs() <= difference.error && off.abs() > 0.99 * difference.error);
    // Phases of 1e6 have 1e-10 in their last place: mpmath 2*sin(mpf(0.5)**21) is |e^{ia} − e^{ib}|, b − a = 2^−20.
    let turned = point(1.0, 1e6, 0.0).minus(point(1.0, 1e6 + 0.5f64.powi(20), 0.0));
    let exact = 9.536_743_164_062_139e-7;
    assert!((turned.modulus - exact).abs() <= turned.error && turned.error < 1e-9);
}

#[test]
fn the_reach_is_where_the_bound_has_fallen_to_the_level_and_not_far_beyond() {
    let (level, spacing) = (40.0, 1e-3);
    let wanted = |reach: f64| level - (PI * reach).ln();
    for (start, decay) in [
        (0.1, (|y| -y) as fn(f64) -> f64),
        (1.0, |y| -0.5 * y * y),
        (3.0, |y| -y.sqrt()),
    ] {
        let reach = find_reach(start, spacing, 1e9, level, |y, _| decay(y)).filter(|&reach| reach > 0.0);
        let Some(reach) = reach else {
            assert!(decay(4.0) == -2.0, "only √y needs more than {MAX_POINTS} points");
            continue;
        };
        assert!(-decay(reach) >= wanted(reach), "{reach}");
        assert!(-decay(0.6 * reach) < wanted(0.6 * reach), "{reach}");
    }
    // A transform that does not decay: no number of points would do.
    assert_eq!(find_reach(1.0, spacing, 1e9, level, |_, _| -0.5), None);
    assert_eq!(find_reach(1.0, spacing, 900.0, level, |y, _| -y), None);
}

#[test]
fn a_certified_contour_has_the_tail_of_a_gaussian_and_its_delta() {
    for (distance, steps, epsilon) in [(1.0, 1.0, 2.0), (0.1, 100.0, 3.0), (0.02, 1e5, 60.0)] {
        let run = GaussianRun::new(distance, steps);
        let mut segments = run.segments();
        let c = crate::inversion::saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
        let tilt = Tilt::near(&mut segments, c, epsilon, (-14.0, None)).unwrap();
        let contour = Contour::new(&mut segments, &tilt, Limits::of_products(1e8)).unwrap();
        // The bound on the modulus from the last point on is that modulus.
        let last = (contour.points.len() - 1) as f64 * contour.spacing;
        let bound = contour.tail * PI * last;
        let modulus = contour.points[contour.points.len() - 1].modulus;
        let at_reach = modulus.powf(((last - contour.spacing) / last).powi(2));
        assert!(bound >= modulus && bound <= 1.001 * at_reach, "{bound} {modulus}");
        let found = contour.delta(epsilon);
        let exact = run.log_delta(epsilon);
        let slack = 1e-13 * (10.0 + epsilon * epsilon);
        assert!(
            found.log_lower <= exact + slack && exact <= found.log_upper + slack,
            "{found:?} {exact}"
        );
        assert!(found.width() < 1e-4, "{found:?}");
    }
}
