use super::*;

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
        let found = Transform::new(v, angle).at(size.ln(), 0.0);
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
        let mut transform = Transform::new(v, angle);
        let centred = transform
            .centred
            .log_centred(v, (Complex64::from_polar(1.0, angle), 0.0));
        let direct = transform.at(1e-300, 0.0);
        let off = (centred.value - direct.value).norm();
        assert!(
            off <= centred.error + direct.error,
            "{v} {angle}: {centred:?} {direct:?}"
        );
        let size = 1e-4;
        let Some(series) = transform.moments.log_transform(size, (angle, 0.0)) else {
            continue;
        };
        let centred = transform
            .centred
            .log_centred(v, (Complex64::from_polar(size, angle), 0.0));
        let off = (centred.value - series.value).norm();
        assert!(
            off <= centred.error + series.error,
            "{v} {angle}: {centred:?} {series:?}"
        );
        assert!(series.error < 1e-15 * (1.0 + v), "{v} {angle}: {series:?}");
    }
}

/// The bound on real L is attained where v is small, and off by the width of the terms elsewhere.
#[test]
fn the_bound_on_real_transforms_is_nearly_attained() {
    for (v, size) in [(0.25, 200.0), (1.0, 0.3), (0.0001, 0.9)] {
        let (.., exact, _) = REFERENCES.into_iter().find(|row| row.0 == v && row.1 == size).unwrap();
        let bound = log_suppressed(size, v);
        let q = saddle(Complex64::from(size.ln() - 0.5 * v), v).re;
        assert!(exact <= bound, "{v} {size}: {exact} {bound}");
        assert!(
            bound <= exact + 0.5 * (q * v).ln_1p() + 0.05,
            "{v} {size}: {exact} {bound}"
        );
    }
}

/// A wide spacing and little v: the rule adds 2·e^{−2π²/h²}, which the bound with a = 2π/h is.
#[test]
fn the_error_of_the_spacing_is_bounded_and_attained() {
    let (v, spacing) = (1e-4, 2.0);
    let choice = Choice {
        beta: 0.0,
        line: TAU / spacing,
        spacing,
    };
    let rule = Rule::new(v, 0.0, &choice, (-12.0, 12.0));
    let found = rule.log_direct(v, 1e-9, 0.0);
    let off = (found.value.re.exp() - 1.0).abs();
    let bound = (rule.log_spacing_error(|cosine| log_suppressed(1e-9 * cosine, v))).exp();
    assert!(off <= bound && bound < 1.1 * off, "{off} {bound}");
    assert!(off <= found.error);
}

/// What lies beyond the ends is below the geometric series, and half of it is not.
#[test]
fn terms_beyond_the_ends_are_bounded() {
    let choice = Choice {
        beta: 0.0,
        line: 1.0,
        spacing: 0.1,
    };
    let rule = Rule::new(0.25, 0.0, &choice, (-12.0, 12.0));
    let (size, last) = (3.0, rule.outputs.len() / 4);
    let bound = rule.beyond(size, last + 1, last, 0.0);
    let missing: f64 = (0..last).map(|i| rule.log_term(size, i).exp()).sum();
    assert!(missing <= bound && bound < 1.5 * missing, "{missing} {bound}");
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
