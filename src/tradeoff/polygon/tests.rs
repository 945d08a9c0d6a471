//! Both sides of a polygon, its inverse, products and their rounding.

use super::*;

fn example() -> Polygon {
    Polygon::of_points(&[0.0, 0.1, 0.4, 1.0], &[0.9, 0.5, 0.1, 0.0]).unwrap()
}

#[test]
fn both_sides_are_conjugates() {
    let polygon = example();
    for (alpha, beta) in [(0.0, 0.9), (0.05, 0.7), (0.1, 0.5), (0.4, 0.1), (0.7, 0.05), (1.0, 0.0)] {
        let found = 1.0 - polygon.power(alpha).upper;
        assert!((found - beta).abs() < 1e-13, "{alpha} {found}");
    }
    for t in [1e-3, 0.1, 0.7, 1.0, 2.0, 3.9, 4.1, 100.0] {
        let by_points = [(0.0, 0.9), (0.1, 0.5), (0.4, 0.1), (1.0, 0.0)]
            .iter()
            .map(|(a, b)| 1.0 - b - t * a)
            .fold(0.0, f64::max);
        assert!((polygon.delta(t).upper - by_points).abs() < 1e-13, "{t}");
    }
}

#[test]
fn the_inverse_is_found_by_points_and_its_inverse_is_the_polygon() {
    let inverse = example().inverted();
    for (alpha, beta) in [(0.0, 1.0), (0.1, 0.4), (0.5, 0.1), (0.9, 0.0), (0.95, 0.0)] {
        let found = 1.0 - inverse.power(alpha).upper;
        assert!((found - beta).abs() < 1e-13, "{alpha} {found}");
    }
    assert_eq!(inverse.inverted(), example());
}

#[test]
fn products_are_those_of_all_pairs_of_outcomes() {
    let pair = Polygon::of_epsilon_delta(0.7, 0.01);
    let product = pair.power_of(3).unwrap();
    // Three answers with odds e^0.7, each lost with probability 0.01.
    let likely = 1.0 / (1.0 + (-0.7f64).exp());
    for t in [0.2f64, 0.9, 1.0, 1.5, 3.0, 9.0] {
        let mut delta = 1.0 - 0.99f64.powi(3);
        for answers in 0..8u32 {
            let ones = answers.count_ones() as i32;
            let (p, q) = (
                likely.powi(ones) * (1.0 - likely).powi(3 - ones),
                (1.0 - likely).powi(ones) * likely.powi(3 - ones),
            );
            delta += 0.99f64.powi(3) * (p - t * q).max(0.0);
        }
        let found = product.delta(t);
        assert!(found.lower <= delta && found.upper >= delta, "{t} {found:?} {delta}");
        assert!(found.upper - found.lower < 1e-11, "{t} {found:?}");
    }
    assert!(product.is_symmetric() && product.edges().len() == 4);
    assert!(pair.power_of(1 << 30).is_none());
}

#[test]
fn points_above_their_hull_do_not_count() {
    let with_a_bump = Polygon::of_points(&[0.0, 0.05, 0.1, 0.4, 1.0], &[0.9, 0.8, 0.5, 0.1, 0.0]).unwrap();
    assert_eq!(with_a_bump, example());
    for (alpha, beta) in [
        (vec![0.0, 1.0], vec![1.1, 0.0]),
        (vec![0.1, 1.0], vec![0.5, 0.0]),
        (vec![0.0, 0.5], vec![0.5, 0.0]),
        (vec![0.0, 0.5, 1.0], vec![0.5, 0.6, 0.0]),
        (vec![0.0, f64::NAN, 1.0], vec![0.5, 0.4, 0.0]),
        (vec![0.0], vec![0.5]),
    ] {
        assert!(Polygon::of_points(&alpha, &beta).is_err(), "{alpha:?} {beta:?}");
    }
}

#[test]
fn the_loss_has_the_masses_of_both_hypotheses() {
    let StepOutcome::Partly {
        log_common,
        offset,
        loss,
    } = example().outcome()
    else {
        panic!()
    };
    assert!((log_common - 0.9f64.ln()).abs() < 1e-14);
    let loss = loss.unwrap();
    let atoms = loss.outcomes().unwrap();
    let p: f64 = atoms.iter().map(|atom| atom.log_mass.exp()).sum();
    let q: f64 = atoms.iter().map(|atom| (atom.log_mass - atom.loss).exp()).sum();
    assert!((p - 1.0).abs() < 1e-13 && (q - 1.0).abs() < 1e-13);
    assert!(atoms.is_sorted_by(|a, b| a.loss > b.loss));
    // P's mass on what Q has too is 0.9; Q's on what P has too is 1.
    assert!((offset - 0.9f64.ln()).abs() < 1e-13, "{offset}");
}

/// Rounding of products is bounded in relation to sums of positive terms: against exact sums for dyadic masses.
#[test]
fn products_hold_their_value_in_extended_precision() {
    use crate::special::extended::Extended;
    let whole = |count: u64| Extended::from(count as f64);
    // P = (3/4, 1/4), Q = (1/4, 3/4): the losses are ±log 3, and t = 3^k is at the corners of every product.
    let pair = Polygon::of_points(&[0.0, 0.25, 1.0], &[1.0, 0.25, 0.0]).unwrap();
    for times in [2u64, 7, 30, 200] {
        let product = pair.power_of(times).unwrap();
        // Atoms with j answers against Q, (3^j, C(n, j) 3^{n−j}/4^n under Q).
        let mut weight = (0..times).fold(Extended::ONE, |w, _| w * Extended::from(0.75));
        let mut atoms = Vec::new();
        for j in 0..=times {
            atoms.push((j, weight));
            weight = weight * whole(times - j) / whole(j + 1) / whole(3);
        }
        for t in [0.3f64, 1.0, 2.9, 81.0] {
            let mut exact = Extended::ZERO;
            for &(j, mass) in &atoms {
                // r = 3^{2j − n}
                let exponent = 2 * j as i64 - times as i64;
                let three = whole(3);
                let power = crate::step::group_law::power(three, exponent.unsigned_abs());
                let ratio = if exponent < 0 { Extended::ONE / power } else { power };
                if ratio.to_f64() > t {
                    exact = exact + mass * (ratio + Extended::from(-t));
                }
            }
            let (found, exact) = (product.delta(t), exact.to_f64());
            assert!(
                found.lower <= exact && exact <= found.upper,
                "{times} {t} {found:?} {exact}"
            );
            assert!(found.width() < 1e-9, "{times} {t} {found:?}");
        }
    }
}

#[test]
fn losses_that_rounding_separates_are_merged_to_the_larger() {
    let (found, added) = merged(vec![(1.0, 0.25), (1.0 + 5e-14, 0.25), (1.0 + 3e-13, 0.5)]);
    assert_eq!(found, [(1.0 + 5e-14, 0.5), (1.0 + 3e-13, 0.5)]);
    assert!((added / (0.25 * 5e-14 * 1f64.exp()) - 1.0).abs() < 0.01, "{added}");
}

/// P has 1/2 at each of the losses log 64 and log 1024, and at log 64 and log 1024 + 1e-12 in the other factor. The sums of one
/// small and one large loss differ by 1e-12, and a quarter of P is moved by that.
#[test]
fn the_room_for_merged_losses_is_nearly_attained() {
    let of = |losses: [f64; 2]| {
        let atoms: Vec<(f64, f64)> = losses.map(|loss| (loss, 0.5 * (-loss).exp())).to_vec();
        let edges = edges_of(atoms.clone(), 0.0);
        Polygon {
            inverse: edges.clone(),
            inverse_atoms: atoms.clone(),
            edges,
            atoms,
            rounding: 0.0,
            slack: 0.0,
        }
    };
    let moved = 1e-12;
    let (small, large) = (64f64.ln(), 1024f64.ln());
    let product = of([small, large]).product(&of([small, large + moved])).unwrap();
    assert_eq!(product.edges().len(), 3);
    // Below all losses δ is P's mass, 1, less t times Q's.
    let t = 0.999 * 64.0 * 64.0;
    let q = 0.25 * ((-small).exp() + (-large).exp()) * ((-small).exp() + (-(large + moved)).exp());
    let (found, exact) = (product.delta(t), 1.0 - t * q);
    let value = found.middle();
    assert!(value - exact > 0.9 * 0.25 * moved, "{value} {exact}");
    assert!(found.lower <= exact && exact <= found.upper, "{found:?} {exact}");
    assert!(value - exact > 0.5 * (value - found.lower), "{found:?} {exact}");
}

#[test]
fn limits_are_those_of_the_steepest_and_the_flattest_edge() {
    let symmetric = Polygon::of_epsilon_delta(0.7, 0.0).limits();
    assert!((symmetric.epsilon - 0.7).abs() < 1e-14 && symmetric.singular == 0.0);
    assert_eq!(example().limits().epsilon, f64::INFINITY);
    assert!((example().limits().singular - 0.1).abs() < 1e-15);
}
