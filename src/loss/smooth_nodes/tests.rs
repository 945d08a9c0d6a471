//! Moments of the nodes against high precision and sums over many outputs.

use super::*;
use crate::loss::MixturePair;
use crate::loss::characteristic_function::smooth_changes;
use crate::loss::smooth_piece::Piece;
use crate::step::{Direction, GroupLaw};
use realfft::num_complex::Complex64;

fn loss(records: u64, rate: f64, sigma: f64, direction: Direction) -> SmoothLoss {
    let pair = MixturePair::new(&GroupLaw::binomial(records, rate).unwrap(), sigma).unwrap();
    let is_in = (direction == Direction::Remove, direction == Direction::Add);
    SmoothLoss::new(vec![Piece::whole(pair, is_in)], 0.0)
}

/// mpmath, 34 digits, with r(x) = sum(w[j]*exp((j*x - j*j/2)/sigma**2)), N(x) the density of the noise and
/// g = N*r**(1+z) for "remove", N*r**(-z) for "add": log(quad(g(c))) and quad(g(c+iy))/quad(g(c)).
#[test]
fn moments_of_complex_order_are_within_their_errors() {
    use Direction::{Add, Remove};
    #[rustfmt::skip]
    let cases = [
        (1, 0.02, 0.9, Remove, -0.4, 1.5, -1.064_591_499_733_293_3e-4, 0.999_004_645_929_669_4, 0.000_034_240_728_748_371_72),
        (1, 0.02, 0.9, Remove, 0.5, 4.0, 0.000_352_478_678_502_695_1, 0.992_334_113_981_248_4, 0.001_802_325_507_956_488_4),
        (1, 0.02, 0.9, Remove, 6.0, 2.0, 0.287_669_067_708_129_34, 0.758_290_294_607_099_7, 0.031_939_401_228_694_216),
        (1, 0.02, 0.9, Add, -0.4, 1.5, -0.000_105_201_875_898_173_26, 0.999_038_413_038_814_2, 0.000_223_401_780_332_422_62),
        (1, 0.02, 0.9, Add, 0.5, 4.0, 3.127_240_678_712_841e-4, 0.994_330_692_384_366_5, 0.004_314_892_550_693_498_7),
        (1, 0.02, 0.9, Add, 6.0, 2.0, 0.013_908_614_914_937_441, 0.999_150_756_075_704_2, 0.007_696_193_946_789_47),
        (3, 0.1, 2.0, Remove, -0.4, 1.5, -0.002_885_716_297_033_246, 0.973_379_201_379_051_1, 0.000_325_200_248_907_815_2),
        (3, 0.1, 2.0, Remove, 0.5, 4.0, 0.009_670_261_122_896_837, 0.808_337_935_524_907_4, 0.030_554_423_001_404_27),
        (3, 0.1, 2.0, Remove, 6.0, 2.0, 2.259_084_355_711_782, 0.102_420_821_477_402_98, 0.122_972_305_048_037_52),
    ];
    for (k, q, sigma, direction, c, y, log_moment, real, imaginary) in cases {
        let mut loss = loss(k, q, sigma, direction);
        let named = format!("{k} {direction:?} {c}");
        for log_tolerance in [-8.0, -20.0, -33.0] {
            let nodes = loss.nodes(c, y, &[Path::REAL], log_tolerance);
            let wrong = (nodes.log_moment.value - log_moment).abs();
            assert!(wrong <= nodes.log_moment.error, "{named} {log_tolerance}: {nodes:?}");
            let change = smooth_changes(&nodes, y, 1, 0.0)[1];
            let wrong = (1.0 + change.value - Complex64::new(real, imaginary)).norm();
            assert!(wrong <= change.error, "{named} {log_tolerance}: {wrong} {change:?}");
            // The search does not leave out much more than it may.
            assert!(
                nodes.error <= 2.0 * f64::exp(log_tolerance) + 1e-14,
                "{named}: {}",
                nodes.error
            );
        }
        let nodes = loss.nodes(c, y, &[Path::REAL], -33.0);
        assert!(
            nodes.log_moment.error <= 1e-12 * (1.0 + log_moment.abs()),
            "{named}: {}",
            nodes.log_moment.error
        );
    }
}

/// Where the tilted mass lies far out, the bulk with losses of 1e-6 is left out, and yet counts.
///
/// mpmath, 30 digits: f = lambda z: quad(lambda x: npdf(x, 0, s)*exp((1+z)*log(1-q+q*exp((2*x-1)/(2*s*s)))), ...) as in the test of
/// `loss::characteristic_function`, log(f(c)) and f(c+iy)/f(c) at q = 1e-6, s = 0.5, y = 0.1875.
#[test]
fn mass_that_is_left_out_at_losses_next_to_zero_is_counted() {
    #[rustfmt::skip]
    let cases = [
        (7.0, 1.681_770_416_283_740_8, -0.568_305_417_448_470_8, 0.081_028_354_100_612_64),
        (7.5, 10.068_203_460_345_937, -0.898_748_344_085_283_4, -0.246_812_088_062_188_04),
        (8.0, 19.660_405_095_193_86, -0.745_962_660_509_326, -0.558_887_024_105_172_6),
    ];
    let mut lacking = 0.0f64;
    for (c, log_moment, real, imaginary) in cases {
        let mut loss = loss(1, 1e-6, 0.5, Direction::Remove);
        for log_tolerance in [-4.0, -6.0, -8.0, -12.0, -20.0, -33.0] {
            let nodes = loss.nodes(c, 0.1875, &[Path::REAL], log_tolerance);
            let wrong = (nodes.log_moment.value - log_moment).abs();
            assert!(wrong <= nodes.log_moment.error, "{c} {log_tolerance}: {wrong}");
            let change = smooth_changes(&nodes, 0.1875, 1, 0.0)[1];
            let scale = (log_moment - nodes.log_moment.value).exp();
            let exact = scale * Complex64::new(real, imaginary);
            let wrong = (1.0 + change.value - exact).norm();
            assert!(wrong <= change.error, "{c} {log_tolerance}: {wrong} {change:?}");
            // The nodes alone, without what they lack, would be off by far more than the error.
            let sum: f64 = nodes.weights.iter().sum();
            let alone = 1.0 + change.value / sum;
            lacking = lacking.max((alone - exact).norm() / change.error);
        }
    }
    assert!(lacking > 50.0, "{lacking}");
}

/// The part of a replaced record's loss below a gate, by sums over 200,000 outputs: nothing is missing beside a gate, where a bound on
/// P·(e^{zℓ} − 1) alone would leave out ten thousand times the error.
#[test]
fn beside_a_gate_no_mass_is_missing() {
    use crate::loss::gate::Gate;
    use crate::loss::smooth_piece::Scratch;
    const OUTPUTS: i32 = 100_000;
    let (sigma, present) = (1.2, 4e-5);
    let pieces = crate::loss::joint::tests::pieces(present, sigma, 2.0);
    let atom = (1.0 - present) * libm::erf(1.0 / (sigma * std::f64::consts::SQRT_2));
    let mut near = SmoothLoss::new(pieces, atom)
        .part(Gate::above(8.5, 0.1).below())
        .unwrap();
    let width = 24.0 * sigma / f64::from(OUTPUTS);
    let mut law = vec![(0.0, atom)];
    for piece in &near.pieces {
        let mut scratch = Scratch::default();
        for i in 0..OUTPUTS {
            let away = (f64::from(i) + 0.5) * width;
            let x = if piece.in_p { 1.0 + away } else { -1.0 - away };
            let point = piece.point(x, &mut scratch);
            law.push((point.loss, point.log_density.exp() * width));
        }
    }
    let (c, y) = (1.5, 35.0);
    let moment = |y: f64| -> Complex64 {
        let term = |(loss, mass): &(f64, f64)| mass * (Complex64::new(c, y) * loss).exp();
        law.iter().map(term).sum()
    };
    for log_tolerance in [-5.0, -12.0, -20.0] {
        let nodes = near.nodes(c, y, &[Path::REAL; 2], log_tolerance);
        let error = nodes.error + nodes.missing;
        assert!(
            nodes.missing == 0.0 && error < 2.0 * log_tolerance.exp(),
            "{log_tolerance}: {error}"
        );
        let exact = moment(0.0).re.ln();
        let wrong = (nodes.log_moment.value - exact).abs();
        assert!(wrong <= nodes.log_moment.error + 1e-9, "{log_tolerance}: {wrong}");
        let change = smooth_changes(&nodes, y, 1, 0.0)[1];
        let wrong = (1.0 + change.value - moment(y) * (-nodes.log_moment.value).exp()).norm();
        assert!(wrong <= change.error + 1e-9, "{log_tolerance}: {wrong} {change:?}");
    }
}

#[test]
fn outputs_beyond_the_digits_of_a_number_are_not_searched() {
    let nodes = loss(1, 0.02, 0.9, Direction::Remove).nodes(1e16, 0.0, &[Path::REAL], -20.0);
    assert!(nodes.error.is_infinite() && nodes.log_moment.error.is_infinite() && nodes.losses.is_empty());
}

/// Where zeros are known to be real panels are not shorter for many members: the same weights without that knowledge take four times the nodes.
#[test]
fn real_zeros_make_panels_of_groups_long() {
    let count = |law: &GroupLaw| {
        let piece = Piece::whole(MixturePair::new(law, 1.0).unwrap(), (true, false));
        let nodes = SmoothLoss::new(vec![piece], 0.0).nodes(0.47, 0.0, &[Path::REAL], -34.9);
        assert!(nodes.error < 1e-14);
        nodes.losses.len()
    };
    let law = GroupLaw::binomial(16, 0.01).unwrap();
    let any_law = GroupLaw::explicit_log(law.log_weights(), law.shifts()).unwrap();
    let (few, many) = (count(&law), count(&any_law));
    assert!(few < 350 && many > 4 * few, "{few} {many}");
}

/// No panel is as accurate as e^−60 asks for, and none is examined; with e^−45 some are.
#[test]
fn a_tolerance_that_no_panel_meets_takes_no_search() {
    for (log_tolerance, is_found) in [(-60.0, false), (-45.0, true)] {
        let mut loss = loss(1, 0.02, 0.9, Direction::Remove);
        let nodes = loss.nodes(1.3, 0.0, &[Path::REAL], log_tolerance);
        assert_eq!(nodes.error.is_finite(), is_found);
        assert_eq!(loss.panels.is_empty(), !is_found);
    }
}

/// A piece that is cut far out has panels from there on: they cover the outputs below 0 too.
#[test]
fn a_cut_far_out_leaves_nothing_out_on_the_other_side() {
    for direction in [Direction::Remove, Direction::Add] {
        let whole = loss(2, 5.34e-4, 18.0, direction).nodes(36.0, 0.0, &[Path::REAL], -33.0);
        for sigmas in [10.0, 50.0, 58.0, 60.0] {
            let mut cut = loss(2, 5.34e-4, 18.0, direction);
            cut.pieces[0].cut_near(18.0 * sigmas);
            let nodes = cut.nodes(36.0, 0.0, &[Path::REAL], -33.0);
            let off = (nodes.log_moment.value - whole.log_moment.value).abs();
            assert!(
                off <= nodes.log_moment.error + whole.log_moment.error,
                "{direction:?} {sigmas}: {off}"
            );
        }
    }
}

/// Answers and their cost are the same whatever was asked before.
#[test]
fn earlier_questions_change_neither_answers_nor_costs() {
    let mut fresh = loss(2, 0.1, 1.0, Direction::Add);
    let alone = fresh.nodes(0.7, 3.0, &[Path::REAL], -25.0);
    let alone_work = fresh.work;
    let mut used = loss(2, 0.1, 1.0, Direction::Add);
    used.nodes(5.0, 40.0, &[Path::above(0.2)], -30.0);
    let before = used.work;
    let again = used.nodes(0.7, 3.0, &[Path::REAL], -25.0);
    assert_eq!((again.weights, again.losses), (alone.weights, alone.losses));
    assert_eq!(used.work - before, alone_work);
}
