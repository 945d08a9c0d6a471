//! Bounds along shifted paths against sums over many outputs and heights.

use super::segments::LEAST_MODULUS;
use super::*;
use crate::loss::smooth_piece::Scratch;
use crate::loss::{MixturePair, StepLoss};
use crate::step::{Direction, GroupLaw};
use std::sync::Arc;

/// A pair whose law is not known to have real zeros, unless it is that of one record.
fn pair(records: u64, rate: f64, sigma: f64) -> Arc<MixturePair> {
    let law = GroupLaw::binomial(records, rate).unwrap();
    let weights = law.log_weights();
    Arc::new(MixturePair::new(&GroupLaw::explicit_log(weights, law.shifts()).unwrap(), sigma).unwrap())
}

fn piece(pair: &Arc<MixturePair>, is_in: (bool, bool), end: f64) -> Piece {
    Piece::new(pair, is_in, f64::NEG_INFINITY, end)
}

/// r(x + ib)/r(x) by its definition.
fn ratio(pair: &MixturePair, x: f64, height: f64) -> Complex64 {
    let rate = height / pair.noise_multiplier().powi(2);
    let log_ratio = pair.log_ratio(x);
    let terms = (0..pair.shifts.len())
        .map(|j| Complex64::from_polar((pair.term(j, x) - log_ratio).exp(), rate * pair.shifts[j]));
    terms.sum()
}

const OUTPUTS: usize = 150;
const HEIGHTS: usize = 60;

/// Proposition 4a: up to the height at which the largest significant shift has the angle 3 no imaginary part is negative, however large the
/// other shifts are. At twice the height some is, where the largest significant shift is as probable as any.
#[test]
fn imaginary_parts_are_positive_below_the_height_of_the_largest_significant_shift() {
    for (records, rate, sigma, high) in [
        (500, 1e-3, 1.0, 5.0),
        (60, 0.05, 0.4, 6.0),
        (800, 1e-3, 6.0, 40.0),
        (5, 0.3, 1.0, 12.0),
        (1, 0.01, 1.0, 6.0),
    ] {
        let pair = pair(records, rate, sigma);
        let of = piece(&pair, (true, false), f64::INFINITY);
        let shift = of.largest_significant_shifts((f64::NEG_INFINITY, high))[0].unwrap();
        assert!(records <= 5 || shift < 0.7 * of.largest_shift(), "{records}: {shift}");
        let largest = LARGEST_ANGLE * sigma * sigma / shift;
        let least = |height: f64| {
            let outputs = (0..=OUTPUTS).map(|i| high - i as f64 * 0.1 * sigma);
            let at = |x: f64| {
                let of_height = |j: usize| ratio(&pair, x, height * j as f64 / HEIGHTS as f64).im;
                (1..=HEIGHTS).map(of_height).fold(f64::INFINITY, f64::min)
            };
            outputs.map(at).fold(f64::INFINITY, f64::min)
        };
        let (here, beyond) = (least(largest), least(2.0 * largest));
        assert!(
            here > -1e-15 && (records > 5 || beyond < -1e-3),
            "{records}: {here} {beyond}"
        );
    }
}

/// Proposition 4b: where the angles between shifts that are significant together are small, r has no zero and its angle grows with the
/// height, beyond π; the angle that is found is that of small steps. At twice the height the modulus is below its bound for two shifts.
#[test]
fn angles_grow_where_shifts_that_are_significant_together_are_close() {
    for (records, rate, sigma, interval) in [
        (1, 0.3, 0.5, (-1.0, 2.0)),
        (187, 0.2, 0.6, (25.0, 60.0)),
        (160, 0.2, 0.49, (20.0, 45.0)),
        (300, 0.1, 3.0, (15.0, 60.0)),
    ] {
        let pair = pair(records, rate, sigma);
        let of = piece(&pair, (true, false), f64::INFINITY);
        let range = of.widest_significant_ranges(interval)[0].unwrap();
        let height = LARGEST_DIFFERENCE * sigma * sigma / range;
        let mut smallest_of_twice = f64::INFINITY;
        let mut largest_angle = 0.0f64;
        for i in 0..=OUTPUTS {
            let x = interval.0 + (interval.1 - interval.0) * i as f64 / OUTPUTS as f64;
            let mut angle = 0.0;
            let mut before = Complex64::new(1.0, 0.0);
            for j in 1..=10 * HEIGHTS {
                let there = ratio(&pair, x, height * j as f64 / (10 * HEIGHTS) as f64);
                assert!(
                    there.norm() >= LEAST_MODULUS && there.norm() <= 1.0 + 1e-12,
                    "{records} {x}: {there}"
                );
                let turn = (there / before).arg();
                assert!(turn > 0.0, "{records} {x}: {turn}");
                angle += turn;
                before = there;
            }
            let found = of.continued(x, &ImaginaryShift::new(&of, height), &mut Scratch::default());
            assert!(
                (found.angle - angle).abs() < 1e-9 * angle && (found.log_p - before.norm().ln()).abs() < 1e-9,
                "{x}: {found:?} {angle}"
            );
            largest_angle = largest_angle.max(angle);
            smallest_of_twice = smallest_of_twice.min(ratio(&pair, x, 2.0 * height).norm());
        }
        assert!(records == 1 || largest_angle > 4.0, "{records}: {largest_angle}");
        assert!(
            records > 1 || smallest_of_twice < 0.5 * LEAST_MODULUS,
            "{smallest_of_twice}"
        );
    }
    // Where only the shift 0 counts, the others might be left out of a sum.
    let rare = piece(&pair(40, 1e-6, 0.3), (true, false), f64::INFINITY);
    assert_eq!(
        rare.widest_significant_ranges((-20.0, 3.0)),
        [Some(f64::INFINITY), None]
    );
}

/// Sums of a thousand parts are right to a part in 500; with y they fall within a tenth of the segment.
#[test]
fn the_segment_at_an_end_is_bounded_and_nearly_attained() {
    let law = GroupLaw::hypergeometric(1, 300, 1000).unwrap();
    let pair = Arc::new(MixturePair::new(&law, 0.7).unwrap());
    let mut scratch = Scratch::default();
    for mixed in [(true, false), (false, true)] {
        let piece = piece(&pair, mixed, 0.4);
        for c in [-0.6, 0.0, 0.7, 4.0, 20.0] {
            for (shift, y) in [(0.05, 0.0), (0.3, 0.0), (0.7, 0.0), (0.3, 5.0), (0.7, 40.0)] {
                let modulus = |i: usize| {
                    let height = shift * (i as f64 + 0.5) / 1000.0;
                    let table = ImaginaryShift::new(&piece, height);
                    let continued = piece.continued(0.4, &table, &mut Scratch::default());
                    (continued.log_change(c, height, piece.imaginary_scale()) - y * continued.angle).exp()
                };
                let exact: f64 = (0..1000).map(modulus).sum::<f64>() * shift / 1000.0;
                let bound = end_segment(
                    &piece,
                    0.4,
                    Complex64::new(c, y),
                    (0.0, Path::above(shift)),
                    &mut scratch,
                );
                let named = format!("{mixed:?} {c} {shift} {y}: {bound} {exact}");
                assert!(bound >= exact * 0.998, "{named}");
                assert!(bound < 2.0 * exact, "{named}");
                let z = Complex64::new(c, y);
                let crude = crude_end_segment(&piece, z, (0.0, shift));
                assert!(crude >= exact, "{named} {crude}");
                assert_eq!(crude.is_infinite(), mixed.1 && c > 0.0, "{named}");
                // It counts no ratio, whose modulus falls, and no frequency.
                assert!(
                    shift > 0.1 || crude.is_infinite() || crude < 1.1 * exact,
                    "{named} {crude}"
                );
                assert_eq!(
                    crude_end_segment(&piece, z, (shift, 0.5 * shift)),
                    if crude.is_infinite() { crude } else { 0.0 }
                );
            }
        }
    }
}

/// Where angles are larger than π the bound on a segment is the largest modulus on it.
#[test]
fn the_segment_of_a_path_with_large_angles_is_bounded_and_nearly_attained() {
    let pair = pair(160, 0.2, 0.49);
    for (mixed, x) in [((true, false), 38.5), ((false, true), -30.0)] {
        let piece = piece(&pair, mixed, f64::INFINITY);
        let path = Path {
            height: 0.1,
            from: x,
            to: x,
            turns: true,
        };
        for (c, y) in [(-0.4, 0.0), (0.3, 0.0), (0.3, 2.0)] {
            let modulus = |i: usize| {
                let height = path.height * (i as f64 + 0.5) / 1000.0;
                let continued = piece.continued(x, &ImaginaryShift::new(&piece, height), &mut Scratch::default());
                (continued.log_change(c, height, piece.imaginary_scale()) - y * continued.angle).exp()
            };
            let exact: f64 = (0..1000).map(modulus).sum::<f64>() * path.height / 1000.0;
            let bound = end_segment(&piece, x, Complex64::new(c, y), (0.0, path), &mut Scratch::default());
            assert!(bound >= exact, "{mixed:?} {c} {y}: {bound} {exact}");
            assert!(y > 0.0 || bound < 2.0 * exact, "{mixed:?} {c}: {bound} {exact}");
        }
    }
}

/// A ratio of which nothing but the shift 0 counts, as of Q far on P's side, has no zero up to the height at which its own significant shifts have the angle
/// 3. At an end of a path with large angles its modulus is bounded by what it is at the top, where that is below the bound for close shifts.
#[test]
fn a_segment_is_bounded_where_one_ratio_turns_and_the_other_has_few_shifts() {
    for (records, rate, sigma, x) in [(40, 0.3, 0.5, 6.0), (60, 1e-3, 0.5, 2.0)] {
        let pair = pair(records, rate, sigma);
        let piece = piece(&pair, (true, true), f64::INFINITY);
        let [_, of_q] = piece.largest_significant_shifts((x, x + 1.0));
        let height = LARGEST_ANGLE * sigma * sigma / of_q.unwrap();
        let path = Path {
            height,
            from: x,
            to: x,
            turns: true,
        };
        for c in [0.0, 0.5, 3.0] {
            let modulus = |i: usize| {
                let height = height * (f64::from(i as u32) + 0.5) / 1000.0;
                let table = ImaginaryShift::new(&piece, height);
                let continued = piece.continued(x, &table, &mut Scratch::default());
                assert!(ratio(&pair, -x, height).im > -1e-15, "{x} {height}");
                continued.log_change(c, height, piece.imaginary_scale()).exp()
            };
            let exact: f64 = (0..1000).map(modulus).sum::<f64>() * height / 1000.0;
            let bound = end_segment(&piece, x, Complex64::new(c, 0.0), (0.0, path), &mut Scratch::default());
            assert!(bound >= exact, "{records} {c}: {bound} {exact}");
        }
    }
}

/// Where Q's ratio falls far below its modulus for close shifts, as next to a zero just above the path, no constant bounds it.
#[test]
fn the_modulus_at_the_top_of_a_segment_counts_where_it_is_small() {
    // Two shifts of the same weight at x = 0: r(ib) = (1 + e^{ib/σ²})/2, which is small at the angle 3. With a third one zeros are not known to be real.
    let law = GroupLaw::explicit(&[0.5, 0.5 - 1e-12, 1e-12], &[0.0, 1.0, 1.5]).unwrap();
    let sigma = 0.8f64;
    let pair = Arc::new(MixturePair::new(&law, sigma).unwrap());
    let piece = piece(&pair, (false, true), f64::INFINITY);
    let x = -0.5; // where both terms of r(−x) are the same
    let path = Path {
        height: LARGEST_ANGLE * sigma * sigma,
        from: x,
        to: x,
        turns: true,
    };
    let c = 4.0;
    let modulus = |i: usize| {
        let height = path.height * (f64::from(i as u32) + 0.5) / 4000.0;
        let continued = piece.continued(x, &ImaginaryShift::new(&piece, height), &mut Scratch::default());
        continued.log_change(c, height, piece.imaginary_scale()).exp()
    };
    let exact: f64 = (0..4000).map(modulus).sum::<f64>() * path.height / 4000.0;
    let bound = end_segment(&piece, x, Complex64::new(c, 0.0), (0.0, path), &mut Scratch::default());
    let by_constant =
        path.height * (0.5 * (path.height / piece.imaginary_scale()).powi(2) - c * LEAST_MODULUS.ln()).exp();
    assert!(bound >= exact && exact > by_constant, "{bound} {exact} {by_constant}");
}

/// Few steps of a group: with real zeros the characteristic function is known to have decayed where it is not otherwise.
#[test]
fn decays_of_groups_are_seen_at_lower_frequencies_where_zeros_are_real() {
    let law = GroupLaw::binomial(32, 0.05).unwrap();
    let any_law = GroupLaw::explicit_log(law.log_weights(), law.shifts()).unwrap();
    let decay = |law: &GroupLaw| {
        let mut loss = StepLoss::mixture(law, 1.0, Direction::Remove).unwrap().unwrap();
        loss.tilted(0.19, -22.6).best_log_decay(11.0, f64::INFINITY)
    };
    let (real, any) = (decay(&law), decay(&any_law));
    assert!(real < 1.25 * any && any < 0.0, "{real} {any}");
}

/// Where zeros are real: sums of a thousand parts, also where angles are larger than π.
#[test]
fn a_segment_below_real_zeros_is_bounded_and_nearly_attained() {
    for (records, rate, sigma, x) in [
        (160, 0.2, 0.49, 38.5),
        (16, 0.01, 1.0, 1.0),
        (1, 0.3, 0.7, 0.4),
        (30, 0.4, 2.0, 9.0),
    ] {
        let law = GroupLaw::binomial(records, rate).unwrap();
        let pair = Arc::new(MixturePair::new(&law, sigma).unwrap());
        for (mixed, x) in [((true, false), x), ((false, true), -x), ((true, true), 0.3 * x)] {
            let piece = piece(&pair, mixed, f64::INFINITY);
            let path = Path {
                height: 1.7 * sigma * sigma,
                from: x,
                to: x,
                turns: true,
            };
            for (c, y) in [(-0.4, 0.0), (0.3, 0.0), (0.3, 2.0), (1.0, 20.0)] {
                let modulus = |i: usize| {
                    let height = path.height * (i as f64 + 0.5) / 4000.0;
                    let table = ImaginaryShift::new(&piece, height);
                    let continued = piece.continued(x, &table, &mut Scratch::default());
                    (continued.log_change(c, height, piece.imaginary_scale()) - y * continued.angle).exp()
                };
                let exact: f64 = (0..4000).map(modulus).sum::<f64>() * path.height / 4000.0;
                let bound = end_segment(&piece, x, Complex64::new(c, y), (0.0, path), &mut Scratch::default());
                let named = format!("{records} {mixed:?} {c} {y}: {bound} {exact}");
                assert!(bound >= 0.999 * exact, "{named}");
                assert!(bound < if y > 0.0 { 2.0 } else { 3.0 } * exact, "{named}");
            }
        }
    }
}

/// The bound is at least the modulus of the characteristic function, by quadrature over real outputs, at that frequency and beyond; and
/// the largest shift of the group, which would have allowed a twentieth of the height, does not make it useless.
#[test]
fn the_decay_of_large_groups_is_bounded_and_not_limited_by_shifts_that_are_never_seen() {
    for (records, rate, sigma, direction, c, y, wanted) in [
        (500, 1e-3, 1.0, Some(Direction::Remove), 0.5, 8.0, 2.0),
        (500, 1e-3, 1.0, Some(Direction::Add), 2.0, 20.0, 0.05),
        (160, 0.2, 0.49, Some(Direction::Remove), 1e-3, 0.1, 0.9),
        (40, 0.3, 2.0, Some(Direction::Add), 0.3, 2.0, 0.2),
        // Replaced: members are seen together in one of the two laws, and hardly any in the other.
        (205, 0.23, 0.3, None, 6e-4, 0.04, 1.0),
        (160, 0.2, 0.49, None, 1e-3, 0.1, 0.9),
    ] {
        let law = GroupLaw::binomial(records, rate).unwrap();
        let whole = match direction {
            Some(direction) => StepLoss::mixture(&law, sigma, direction),
            None => StepLoss::replace_poisson(&law, sigma),
        };
        let whole = whole.unwrap().unwrap();
        let (mut loss, _) = whole.truncated(-40.0, 1.0);
        let mut tilted = loss.tilted(c, -25.0);
        let least = tilted.best_log_decay(y, f64::INFINITY);
        tilted.certify(4.0 * y);
        assert!(tilted.quadrature_error() < 1e-9, "{records} {direction:?}");
        let bound = tilted.log_decay(y);
        assert!((bound - least).abs() < 1e-3 * least.abs() + 1e-6, "{bound} {least}");
        for (j, change) in tilted.changes(0.05 * y, 80).iter().enumerate().skip(20) {
            let exact = (1.0 + change.value).norm();
            assert!(
                exact <= bound.exp() + change.error,
                "{records} {direction:?} {j}: {exact} {bound}"
            );
        }
        assert!(bound < -wanted, "{records} {direction:?}: {bound}");
    }
}

/// The bound is at least the modulus at that frequency and beyond. Where frequencies are so small that losses next to 0 hardly turn, it is at least a
/// twentieth of what the variance says; with a bound for each end alone it would be above 1.
#[test]
fn the_decay_of_a_replaced_record_is_seen_at_small_frequencies() {
    for (batch, sigma, c) in [(1, 1.4, 0.0), (10, 1.0, 0.7), (300, 2.0, 0.5), (800, 1.5, 0.2)] {
        let law = GroupLaw::hypergeometric(1, batch, 1000).unwrap();
        let whole = StepLoss::replace_fixed_batch(&law, sigma).unwrap().unwrap();
        let (mut loss, _) = whole.truncated(-40.0, 1.0);
        let mut tilted = loss.tilted(c, -30.0);
        let deviation = tilted.moments().variance.sqrt();
        for turn in [0.003, 0.03, 0.3, 3.0] {
            let y = turn / deviation;
            tilted.best_log_decay(y, f64::INFINITY);
            tilted.certify(4.0 * y);
            let bound = tilted.log_decay(y);
            let changes = tilted.changes(0.05 * y, 80);
            for (j, change) in changes.iter().enumerate().skip(20) {
                let exact = (1.0 + change.value).norm();
                assert!(
                    exact <= bound.exp() + change.error,
                    "{batch} {turn} {j}: {exact} {bound}"
                );
            }
            let of_variance = -0.5 * turn * turn;
            assert!(
                turn > 0.3 || bound < of_variance / 20.0,
                "{batch} {turn}: {bound} {of_variance}"
            );
        }
    }
}

/// Losses below 0 may have next to no weight, and no height: the others keep theirs, as if no ends met.
#[test]
fn a_piece_of_little_weight_does_not_keep_the_path_of_the_other_low() {
    for (batch, sigma, c, turn, most) in [
        (100, 0.12, 0.0, 3.0, -0.01),
        (1, 1.0, 5.0, 3.0, -1.0),
        (10, 1.0, 3.0, 1.0, -0.05),
    ] {
        let law = GroupLaw::hypergeometric(1, batch, 1000).unwrap();
        let mut loss = StepLoss::replace_fixed_batch(&law, sigma).unwrap().unwrap();
        let mut tilted = loss.tilted(c, -30.0);
        let y = turn / tilted.moments().variance.sqrt();
        let bound = tilted.best_log_decay(y, f64::INFINITY);
        assert!(bound < most, "{batch} {sigma} {c}: {bound}");
    }
}

/// A node that is not evaluated counts with the growth of the noise, which it attains next to loss 0: nothing turns there.
#[test]
fn nodes_of_little_weight_count_with_a_bound_that_is_nearly_attained() {
    for (rate, y, height) in [(1e-6, 0.01, 0.8), (0.01, 3.0, 0.9), (0.3, 2.0, 0.5)] {
        let of = piece(&pair(1, rate, 1.0), (true, false), f64::INFINITY);
        let mut loss = SmoothLoss::new(vec![of], 0.0);
        let paths = vec![Path::above(height)];
        let nodes = loss.nodes(1.5, y, &paths, -20.0);
        let mut laws = NodeLaws::new(nodes.outputs.len());
        let mut change = |negligible: f64| loss.log_decay((&nodes, &mut laws), y, &paths, negligible).exp_m1();
        let exact = change(0.0);
        let mut added = 0.0f64;
        for negligible in [1e-6, 1e-3, 0.1] {
            let rough = change(negligible);
            assert!(
                rough >= exact && rough <= exact + negligible,
                "{rate} {negligible}: {rough} {exact}"
            );
            added = added.max(rough - exact);
        }
        // With half of the bound, the sum over all nodes would be below what they add next to loss 0.
        if rate < 1e-3 {
            let all = change(1e3);
            let growth = (0.5 * height * height).exp_m1();
            assert!(
                0.5 * growth < exact && exact <= all && all <= 1.01 * growth,
                "{exact} {all} {growth}"
            );
        } else {
            assert!(added > 1e-7, "{rate}: {added}");
        }
    }
}
