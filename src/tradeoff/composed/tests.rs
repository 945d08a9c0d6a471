//! Compositions of curves.

use super::*;
use crate::tradeoff::TradeoffCurve;
use crate::tradeoff::factor::PublicMixture;
use crate::tradeoff::polygon::Polygon;
use std::sync::Arc;

/// A Gaussian curve by 200 tangents, whose losses are on no lattice that is known: eight of them are nearly a Gaussian curve.
#[test]
fn atoms_on_no_lattice_have_narrow_intervals() {
    // scipy: brentq(lambda e: ndtr(m/2 - e/m) - exp(e)*ndtr(-m/2 - e/m) - 1e-3, 0.1, 2), m = 0.1*sqrt(8)
    const EPSILON: f64 = 0.685_602_3;
    let one = TradeoffCurve::gaussian(0.1).unwrap();
    let alpha: Vec<f64> = (0..=200)
        .map(|i| 1.0 / (1.0 + (0.15 * f64::from(100 - i)).exp()))
        .collect();
    let beta: Vec<f64> = alpha.iter().map(|&a| one.beta(a).unwrap().lower).collect();
    let ends = |middle: &[f64], first: f64, last: f64| [&[first], middle, &[last]].concat();
    let polygon = Polygon::of_points(&ends(&alpha, 0.0, 1.0), &ends(&beta, 1.0, 0.0)).unwrap();
    let product = vec![(Factor::Polygon(Arc::new(polygon)), 8)];
    let composed = Composed::new(vec![product], false).unwrap();
    let found = composed.epsilon(1e-3).unwrap().unwrap();
    assert!(found.width() < 1e-3 * found.upper, "{found:?}");
    assert!((found.upper / EPSILON - 1.0).abs() < 1e-3, "{found:?}");
}

/// A mixture of N(0, 1) against N(1, 1) with probability 0.9; nothing is known of the rest but that no distance is above 40.
fn incomplete(rounding: f64) -> Composed {
    let mixture = PublicMixture {
        distances: vec![1.0],
        log_weights: vec![0.9f64.ln()],
        left_out: 0.1,
        rounding,
        widest: 40.0,
    };
    Composed::new(vec![vec![(Factor::Mixture(Arc::new(mixture)), 1)]], false).unwrap()
}

#[test]
fn intervals_hold_every_completion_of_a_law() {
    let gaussian = TradeoffCurve::gaussian(1.0).unwrap();
    for epsilon in [0.0, 0.5, 2.0] {
        let found = incomplete(0.0).delta(epsilon).unwrap();
        let part = 0.9 * gaussian.delta(epsilon).unwrap().middle();
        // The rest reveals nothing, or nearly everything; half of the bound would not hold both.
        assert!(
            found.lower <= part + 1e-12 && part + 0.1 <= found.upper + 1e-12,
            "{epsilon} {found:?} {part}"
        );
        assert!(found.width() < 0.21);
        // Weights that were rounded by 10% in either direction.
        let rounded = incomplete(0.1).delta(epsilon).unwrap();
        assert!(
            rounded.lower <= 0.9 * part && 1.1 * part + 0.1 <= rounded.upper + 1e-3,
            "{rounded:?} {part}"
        );
    }
}

/// The inverse of δ counts the same errors: with half of what is left out, or of the rounding, δ at the ends would be off by more.
#[test]
fn epsilon_counts_what_is_left_out_and_the_rounding() {
    const DELTA: f64 = 0.05;
    for (left_out, rounding) in [(4e-3, 0.0), (0.0, 4e-2)] {
        let mixture = PublicMixture {
            distances: vec![1.0],
            log_weights: vec![f64::ln_1p(-left_out)],
            left_out,
            rounding,
            widest: 40.0,
        };
        let composed = Composed::new(vec![vec![(Factor::Mixture(Arc::new(mixture)), 1)]], false).unwrap();
        let found = composed.epsilon(DELTA).unwrap().unwrap();
        let (at_upper, at_lower) = (
            composed.delta(found.upper).unwrap(),
            composed.delta(found.lower).unwrap(),
        );
        // δ of every completion is at most DELTA at the upper end, and of every one at least DELTA at the lower.
        assert!((at_upper.upper / DELTA - 1.0).abs() < 1e-3, "{at_upper:?}");
        assert!((at_lower.lower / DELTA - 1.0).abs() < 1e-3, "{at_lower:?}");
    }
}

#[test]
fn limits_of_a_product_are_those_of_the_composition() {
    let product = vec![
        (
            Factor::EpsilonDelta {
                epsilon: 0.5,
                delta: 0.1,
            },
            3,
        ),
        (Factor::Laplace { distance: 0.2 }, 2),
    ];
    let composed = Composed::new(vec![product], false).unwrap();
    let singular = 1.0 - 0.9f64.powi(3);
    assert!((composed.limits().singular - singular).abs() < 1e-15);
    let found = composed.delta_at_infinity();
    assert!(found.lower <= singular && singular <= found.upper && found.width() < 1e-13);
    let pure = vec![
        (Factor::Laplace { distance: 0.2 }, 5),
        (
            Factor::EpsilonDelta {
                epsilon: 0.5,
                delta: 0.0,
            },
            1,
        ),
    ];
    let limits = Composed::new(vec![pure], false).unwrap().limits();
    assert!(limits.epsilon >= 1.5 && limits.epsilon < 1.5 + 1e-12);
    assert!(limits.distance.is_finite());
}

#[test]
fn few_steps_are_those_whose_losses_are_not_smooth() {
    let laplace = |count| vec![(Factor::Laplace { distance: 0.2 }, count)];
    let sampled = |count| {
        vec![(
            Factor::SubsampledGaussian {
                rate: 0.1,
                distance: 1.0,
            },
            count,
        )]
    };
    assert!(!is_few_steps(&laplace(1)) && is_few_steps(&laplace(2)) && !is_few_steps(&laplace(FEW_LAPLACE_STEPS)));
    assert!(is_few_steps(&sampled(1)) && !is_few_steps(&sampled(FEW_SAMPLED_STEPS)));
}
