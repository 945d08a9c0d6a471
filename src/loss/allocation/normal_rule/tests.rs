use super::*;

/// v, |ς|, log L(ς) by a sum with 50 digits.
const REFERENCES: [(f64, f64, f64); 3] = [
    (0.25, 200.0, -27.067_614_599_571_467),
    (1.0, 0.3, -0.251_254_814_228_917_24),
    (0.0001, 0.9, -0.899_959_501_619_981_1),
];

/// A rule without an angle whose nodes have this spacing.
fn rule(v: f64, (line, spacing): (f64, f64)) -> Rule {
    let points = Points::new(spacing * v.sqrt(), 0.0);
    let choice = Choice {
        beta: 0.0,
        line,
        spacing: spacing * (1.0 + 1e-12),
    };
    let rule = Rule::new(points, (v, 0.0), &choice, (-12.0, 12.0));
    assert!((rule.lattice.by_node, rule.lattice.by_point) == (1, 1));
    rule
}

/// The bound on real L is attained where v is small, and off by the width of the terms elsewhere.
#[test]
fn the_bound_on_real_transforms_is_nearly_attained() {
    for (v, size, exact) in REFERENCES {
        let bound = log_suppressed(size, v);
        let q = saddle(size.ln() - 0.5 * v, v);
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
    let rule = rule(v, (TAU / spacing, spacing));
    let sum: f64 = rule.weights(0.0).iter().sum();
    let off = (sum * rule.log_weight.exp() - 1.0).abs();
    let bound = (rule.log_spacing_error(|cosine| log_suppressed(1e-9 * cosine, v))).exp();
    assert!(off <= bound && bound < 1.1 * off, "{off} {bound}");
}

/// A line on which |e^{−ςY}| may be above 1 has no bound.
#[test]
fn lines_beyond_a_right_angle_have_no_bound() {
    let points = Points::new(0.1, 0.0);
    for (line, is_admissible) in [(1.0, true), (1.6, false), (4.0, false)] {
        let choice = Choice {
            beta: 0.0,
            line,
            spacing: 0.1,
        };
        let rule = Rule::new(points, (1.0, 0.0), &choice, (-9.0, 9.0));
        assert_eq!(rule.log_spacing_error(|_| 0.0).is_finite(), is_admissible, "{line}");
    }
}

/// What lies beyond the ends is below the geometric series, and half of it is not.
#[test]
fn terms_beyond_the_ends_are_bounded() {
    let rule = rule(0.25, (1.0, 0.1));
    let (size, last) = (3.0, rule.nodes.len() / 4);
    let bound = rule.beyond(size, last + 1, last, 0.0);
    let missing: f64 = (0..last).map(|i| rule.log_term(size, i).exp()).sum();
    assert!(missing <= bound && bound < 1.5 * missing, "{missing} {bound}");
}

/// Spacings are at most what was chosen and more than half of it, and |ς|Y at every point and node is that of its place.
#[test]
fn products_lie_on_a_lattice() {
    for (v, angle, unit) in [(1.0, 0.0, 0.1), (4.0, 1.2, 0.03), (0.01, 0.7, 0.3), (1e-6, 0.0, 0.3)] {
        let points = Points::new(unit, 1.5);
        let rule = Rule::direct(points, (v, angle), (1.0, 2.0));
        for (point, index) in [(4, 0), (7, 11), (40, 20)] {
            let found = rule.product(rule.place(point, index));
            let exact = (unit * point as f64 - 1.5).exp() * rule.nodes[index].y;
            let slack = (found.slack + rule.nodes[index].y_slack) * f64::EPSILON;
            assert!((found.x / exact - 1.0).abs() <= slack, "{v} {point}: {found:?} {exact}");
        }
        let lattice = CommonLattice::at_most(0.2 * v.sqrt(), unit);
        let spacing = lattice.by_node as f64 * lattice.step;
        assert!(spacing <= 0.2 * v.sqrt() * (1.0 + 1e-15) && spacing > 0.1 * v.sqrt());
        assert!((lattice.by_point as f64 * lattice.step - unit).abs() <= 1e-15);
    }
}
