use super::*;
use crate::loss::allocation::normal_rule::Choice;
use std::f64::consts::TAU;

/// The transform at points of which the first is |ς| = `size`.
fn transform_from(size: f64, v: f64, angle: f64) -> Transform {
    Transform::new(Points::new(0.1, -size.ln()), (v, angle))
}

/// v, |ς|, arg ς, log L(ς) by a sum with 50 digits.
const REFERENCES: [(f64, f64, f64, f64, f64); 12] = [
    (1.0, 0.3, 0.0, -0.251_254_814_228_917_24, 0.0),
    (1.0, 5.0, 1.4, -1.470_559_274_564_936, -1.594_377_292_786_015_1),
    (0.25, 200.0, 0.0, -27.067_614_599_571_467, 0.0),
    (0.25, 2000.0, 1.2, -58.549_268_500_172_32, 3.138_692_614_455_644_4),
    (4.0, 1e6, 0.9, -18.463_990_592_891_015, -2.469_953_144_285_781),
    (0.04, 60.0, 1.3, -24.076_185_969_741_64, 2.246_419_279_299_985_7),
    (0.04, 0.7, 1.5, -0.059_342_941_284_212_6, -0.696_556_101_503_002_7),
    (0.0025, 400.0, 0.8, -244.764_102_590_447_78, -0.432_727_672_745_045_5),
    (1.0, 1e-5, 1.1, -4.536_011_772_501_893_5e-6, -8.912_004_139_014_28e-6),
    (1.0, 0.02, 0.4, -0.018_188_462_970_553_838, -0.007_557_334_136_167_684_5),
    (16.0, 3.0, 1.5, -0.055_030_547_100_789_126, -0.046_648_102_501_110_27),
    (0.0001, 0.9, 0.0, -0.899_959_501_619_981_1, 0.0),
];

#[test]
fn logarithms_meet_the_references() {
    for (v, size, angle, real, imaginary) in REFERENCES {
        let found = transform_from(size, v, angle).at(0);
        // The imaginary part is known up to multiples of 2π, and the size to a rounding of its logarithm.
        let turns = ((found.value.im - imaginary) / TAU).round() * TAU;
        let off = (found.value - Complex64::new(real, imaginary + turns)).norm();
        let rounding = 4.0 * f64::EPSILON * (1.0 + size.ln().abs()) * (1.0 + real.abs());
        assert!(off <= found.error + rounding, "{v} {size} {angle}: {found:?} {off}");
        // Little v and a large |ς|: the line of a rule is that of the middle of an interval of |ς|, and costs digits at its ends.
        let digits = if v < 0.01 && size > 100.0 { 1e-10 } else { 1e-12 };
        assert!(
            found.error <= digits * (1.0 + real.abs()),
            "{v} {size} {angle}: {found:?}"
        );
    }
}

/// Next to |ς| = 1 and to the largest |ς| of the series of moments two ways to compute log L meet.
#[test]
fn the_ways_to_compute_it_meet() {
    for (v, angle) in [(1.0, 0.0), (0.04, 1.2), (4.0, 0.7), (0.005, 1.5)] {
        let mut transform = transform_from(1.0, v, angle);
        let centred = transform
            .centred
            .log_transform(0, (Complex64::from_polar(1.0, angle), 0.0), v);
        let direct = Direct::new(transform.points, (v, angle), (0.0, LENGTH)).log_transform(0, 1.0, v);
        let off = (centred.value - direct.value).norm();
        assert!(
            off <= centred.error + direct.error,
            "{v} {angle}: {centred:?} {direct:?}"
        );
        let size = 1e-4;
        let mut transform = transform_from(size, v, angle);
        let Some(series) = transform.moments.log_transform(size, (angle, 0.0)) else {
            continue;
        };
        let centred = transform
            .centred
            .log_transform(0, (Complex64::from_polar(size, angle), 0.0), v);
        let off = (centred.value - series.value).norm();
        assert!(
            off <= centred.error + series.error,
            "{v} {angle}: {centred:?} {series:?}"
        );
        assert!(series.error < 1e-15 * (1.0 + v), "{v} {angle}: {series:?}");
    }
}

/// Differences of exponentials are at most 2, however large the likelihood ratios are.
#[test]
fn little_noise_costs_no_digits_of_small_points() {
    for (v, angle) in [(8.0, 0.0), (16.0, 0.9), (25.0, 0.3)] {
        let mut transform = transform_from(0.8, v, angle);
        let found = transform.at(0);
        assert!(found.error < 1e-11, "{v} {angle}: {found:?}");
        let direct = Direct::new(transform.points, (v, angle), (-0.5, 0.5)).log_transform(0, 0.8, v);
        let off = (found.value - direct.value).norm();
        assert!(off <= found.error + direct.error, "{v} {angle}: {found:?} {direct:?}");
    }
}

/// Products of kept weights and factors against terms that are computed from their exponents.
#[test]
fn products_of_kept_factors_are_the_terms() {
    for (v, angle, log_size) in [(1.0, 0.0, 3.2), (0.25, 1.1, 5.5), (0.04, 1.4, 2.7), (4.0, 0.3, 20.0)] {
        let points = Points::new(0.25, 0.1);
        let mut direct = Direct::new(points, (v, angle), (log_size, log_size + LENGTH));
        for point in [(4.0 * log_size) as i64 + 1, (4.0 * log_size) as i64 + 3] {
            let size = (0.25 * point as f64 - 0.1).exp();
            let (start, end, top) = direct.rule.range(size);
            let log = direct.rule.log_term(size, top);
            for i in (start..=end).step_by(7) {
                let factor = direct.factor(direct.rule.place(point, i));
                let (own, node) = (direct.weights[i].0 * factor.modulus, direct.rule.nodes[i]);
                let exact = (direct.references.0 + direct.references.1 + direct.rule.log_term(size, i)).exp();
                assert!((own / exact - 1.0).abs() < 1e-11, "{v} {angle} {i}: {own} {exact}");
                let phase = Complex64::from_polar(1.0, -size * node.y * direct.rule.phase.1);
                assert!((factor.phase - phase).norm() < 1e-11, "{v} {angle} {i}: {factor:?}");
            }
            // Where exponents are too large, terms are computed from their sum.
            let found = direct.log_transform(point, size, v);
            direct.references.0 += 2.0 * LARGEST_EXPONENT;
            let other = direct.log_transform(point, size, v);
            direct.references.0 -= 2.0 * LARGEST_EXPONENT;
            let off = (found.value - other.value).norm();
            assert!(off <= found.error && found.error < 1e-11, "{found:?} {other:?} {log}");
        }
    }
}

/// A wide spacing, little v and small |ς|: the rule adds 2·e^{−2π²/h²} of |ς|²E[Y²]/2, which the bound with a = 2π/h is.
#[test]
fn the_error_of_the_spacing_for_small_points_is_attained() {
    let (v, spacing, size) = (1e-4, 2.0, 1e-3f64);
    let mut transform = transform_from(size, v, 0.0);
    let choice = Choice {
        beta: 0.0,
        line: TAU / spacing,
        spacing: spacing * (1.0 + 1e-12),
    };
    let points = Points::new(spacing * v.sqrt(), -size.ln());
    transform.centred.rule = Rule::new(points, (v, 0.0), &choice, (-12.0, 12.0));
    transform.centred.weights = transform.centred.rule.weights(0.0);
    let found = transform.centred.log_transform(0, (Complex64::from(size), 0.0), v);
    let exact = transform.moments.log_transform(size, (0.0, 0.0)).unwrap();
    let off = (found.value - exact.value).norm();
    assert!(off <= found.error && found.error < 2.0 * off, "{off} {found:?}");
}

/// What is found at a point does not depend on the points before it.
#[test]
fn kept_terms_are_those_of_a_point_alone() {
    for (v, angle, unit) in [
        (1.0, 0.4, 0.125),
        (0.04, 1.4, 0.02),
        (0.0025, 0.0, 0.3),
        (1e-8, 0.0, 0.3),
    ] {
        let points = Points::new(unit, 2.0);
        let mut together = Transform::new(points, (v, angle));
        for i in (-20..60).rev() {
            let (one, alone) = (together.at(i), Transform::new(points, (v, angle)).at(i));
            assert_eq!((one.value, one.error), (alone.value, alone.error), "{v} {i}");
        }
    }
}

/// Where the third moment is nearly all of E[Y³], the series without it lacks what the bound says.
#[test]
fn what_the_series_of_moments_lacks_is_bounded_and_attained() {
    let v = 4.0;
    let moments = Moments::new(v);
    let size = 1e-8f64;
    let third = (12f64.exp() - 3.0 * 4f64.exp() + 2.0) / 6.0 * size.powi(3);
    let bound = moments.terms[3].2 * size.powi(3);
    assert!(third <= bound && bound < 1.1 * third, "{third} {bound}");
    assert!((moments.terms[3].0 * size.powi(3) + third).abs() <= 1e-12 * third);
    assert!((moments.terms[2].0 - 0.5 * 4f64.exp_m1()).abs() < 1e-13);
}
