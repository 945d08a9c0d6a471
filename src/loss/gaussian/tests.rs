use super::*;
use crate::loss::privacy_loss::Effort;

/// Weights 0.2, 0.5, 0.3 of the distances 0, 0.7, 2.5.
fn mixture() -> GaussianLoss {
    let logs = [0.2f64, 0.5, 0.3].map(f64::ln);
    GaussianLoss::new(logs.to_vec(), vec![0.0, 0.7, 2.5])
}

/// mpmath, 34 digits, with e = [w*exp(c*(c+1)*d*d/2) for w, d in zip(W, D)] and z = sum(e):
/// log(z), m = sum(a*(2*c+1)*d*d/2 for a, d in zip(e, D))/z, sum(a*(d*d + ((2*c+1)*d*d/2 - m)**2) for a, d in zip(e, D))/z.
#[test]
fn moments_have_their_closed_form() {
    for (c, log_moment, mean, variance) in [
        (-0.5, -0.213_633_861_819_217_55, 0.0, 1.348_219_728_778_022_3),
        (
            1e-9,
            1.060_000_001_978_05e-9,
            1.060_000_003_956_1,
            3.956_100_013_149_412_4,
        ),
        (
            0.3,
            0.568_161_361_803_052_8,
            2.997_184_051_078_465,
            9.186_278_178_434_554,
        ),
        (7.0, 173.796_027_195_674_06, 46.875, 6.25),
    ] {
        let found = mixture().moments(c, 0.0);
        let error = found.log_moment.error;
        assert!((found.log_moment.value - log_moment).abs() <= error, "{c}: {found:?}");
        assert!(error <= 1e-14 * log_moment.abs().max(1.0), "{c}: {error}");
        // A probability is right to a unit in its last place, and a moment next to 1 keeps its digits.
        assert!(error <= 2e-14 * log_moment.abs() || c == -0.5, "{c}: {error}");
        assert!((found.mean - mean).abs() <= 1e-14 * (1.0 + mean), "{c}: {found:?}");
        assert!((found.variance / variance - 1.0).abs() <= 1e-12, "{c}: {found:?}");
    }
}

/// Logarithms of a weight and of its power cancel, near 1 and far from it: mpmath, 60 digits, log(sum(exp(w + c*(c+1)*d*d/2))) for the
/// distances 0 and d with the logarithms of weights log(1 - exp(w)) and w.
#[test]
fn roundings_of_logarithms_that_cancel_count() {
    for (w, distance, c, exact) in [
        (
            -14.718_784_513_359_655,
            1.614_124_105_847_377_6,
            3.046_377_613_268_574_7,
            1.572_028_192_988_718_3,
        ),
        (
            -216.797_814_792_469_18,
            5.660_585_957_056_031,
            3.223_737_710_980_673,
            1.579_933_173_532_763,
        ),
        (
            -234.674_454_683_504_3,
            5.820_022_725_598_746,
            3.249_763_583_682_691_7,
            0.380_056_921_882_655_94,
        ),
    ] {
        let weights = vec![(-f64::exp(w)).ln_1p(), w];
        let found = GaussianLoss::new(weights, vec![0.0, distance]).tilted_by(c).log_moment;
        let off = (found.value - exact).abs();
        assert!(off <= found.error && found.error < 2e-13, "{w} {off:e} {found:?}");
    }
}

/// log δ is −4714.6 for μ = 1 and ε = 97.5, and its last place is 9e-13: δ of a mixture, half of which is that component and the rest of
/// which reveals nothing, has bounds that lie outside the rounded ones. mpmath, 60 digits, with t = ε/μ − μ/2:
/// log(erfc(t/sqrt(2))/2 - exp(ε)*erfc((t+μ)/sqrt(2))/2).
#[test]
fn the_rounding_of_far_tails_of_a_mixture_counts() {
    let half = 0.5f64.ln();
    let loss = GaussianLoss::new(vec![half, half], vec![0.0, 1.0]);
    let found = loss.one_step(97.5, 1e-10, &mut Effort::default());
    let part = one_step::of_shift(1.0, 97.5, &mut Scratch::default(), &mut Effort::default());
    assert!(found.log_lower < part.log_lower + half && found.log_upper > part.log_upper + half);
    let exact = -4_714.578_932_475_468 + half;
    assert!(found.log_lower <= exact && exact <= found.log_upper, "{found:?}");
}

/// mpmath, as above: sum(w*exp(z*(z+1)*d*d/2) for w, d in zip(W, D))/sum(e) - 1 at z = 0.3 + iy.
#[test]
fn the_characteristic_function_has_its_closed_form() {
    let law = mixture().tilted_by(0.3);
    for (y, real, imaginary) in [
        (1e-3, -9.084_654_949_249_702e-6, 0.002_997_163_054_517_302_4),
        (0.8, -0.684_094_332_119_266_2, 0.023_303_915_706_321_864),
        (5.0, -0.886_945_475_890_896_9, 0.000_630_819_090_835_075_8),
    ] {
        let (found, exact) = (law.change(y), Complex64::new(real, imaginary));
        assert!((found.value - exact).norm() <= found.error, "{y}: {found:?}");
        assert!(found.error <= 1e-14 * exact.norm(), "{y}: {found:?}");
    }
}

/// The modulus of one component is e^{−y²μ²/2}: the bound is that number, and half of it would be wrong.
#[test]
fn the_decay_of_one_component_is_exact_and_bounds_that_of_several() {
    let mut one = GaussianLoss::new(vec![0.0], vec![1.7]).tilted_by(0.4);
    let mut several = mixture().tilted_by(0.4);
    for y in [1e-4f64, 0.1, 1.0, 3.0] {
        let exact = -0.5 * (1.7 * y).powi(2);
        let found = one.log_decay(y);
        let room = 1e-13 * exact.abs().clamp(1e-2, 1.0);
        assert!(found >= exact && found - exact <= room, "{y}: {found} {exact}");
        let modulus = |y: f64| (1.0 + several.change(y).value).norm().ln();
        let largest = [1.0, 1.1, 1.7, 4.0].map(|factor| modulus(factor * y));
        let largest = largest.into_iter().fold(f64::NEG_INFINITY, f64::max);
        assert!(several.log_decay(y) >= largest - 1e-15, "{y}: {largest}");
    }
}

#[test]
fn the_parts_with_and_without_a_loss_make_up_the_whole() {
    let whole = mixture();
    assert_eq!(whole.separation(1.0, 0.1), Some(Separation::Atom));
    let mut near = whole.near_part(Separation::Atom, 9.0).unwrap();
    let mut far = whole.far_part(Separation::Atom).unwrap();
    for c in [-0.5, 0.3, 2.0] {
        let [near, far, both] = [near.moments(c, 0.0), far.moments(c, 0.0), mixture().moments(c, 0.0)];
        assert!((near.log_moment.value - 0.2f64.ln()).abs() <= near.log_moment.error && near.mean == 0.0);
        let sum = (near.log_moment.value.exp() + far.log_moment.value.exp()).ln();
        assert!((sum - both.log_moment.value).abs() <= 1e-14 * (1.0 + sum.abs()), "{c}");
    }
    // Steeper than any tilt in use: the atom stays what it is.
    assert!((near.moments(1e150, 0.0).log_moment.upper() - 0.2f64.ln()).abs() < 1e-14);
    let single = GaussianLoss::new(vec![0.0], vec![1.7]);
    assert_eq!((single.single_gaussian(), single.common_loss()), (Some(1.7), None));
}

/// P(|N(0, 1)| > 9.6) = 8e-22, so that what lies beyond both ends of a sweep is at most that.
#[test]
fn sweeps_leave_out_no_more_than_they_say() {
    let outside = 2.0 * crate::special::normal::log_upper_tail(SWEEP_REACH).exp();
    assert!(outside <= OUTSIDE_SWEEP && outside > 0.25 * OUTSIDE_SWEEP, "{outside}");
}

/// δ of a mixture in which everyone sees which component it is: the mean of theirs.
#[test]
fn one_step_of_a_mixture_is_the_mean_of_its_components() {
    for epsilon in [-0.5, 0.0, 0.8, 3.0] {
        let found = mixture().one_step(epsilon, 1e-10, &mut Effort::default());
        let part = |distance: f64| one_step::gaussian_delta(distance, epsilon);
        let still = 0.2 * (-epsilon.exp_m1()).max(0.0);
        let (lower, upper) = (
            still + 0.5 * part(0.7).lower() + 0.3 * part(2.5).lower(),
            still + 0.5 * part(0.7).upper() + 0.3 * part(2.5).upper(),
        );
        assert!(found.lower() <= upper * (1.0 + 1e-14) && found.upper() >= lower * (1.0 - 1e-14));
        assert!(found.width() < 1e-11, "{epsilon}: {found:?}");
    }
}
