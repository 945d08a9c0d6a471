//! The closed form of one step against integrals, and next to the ends of its range.

use super::*;
use crate::step::GroupLaw;

/// mpmath, 34 digits: x where log r(x) = ±e by bisection; P and Q the masses beyond it from the tails of Lap(0, b);
/// log(P - exp(e)*Q) and log(P).
#[test]
fn delta_and_tails_are_enclosed_closely() {
    use Direction::{Add, Remove};
    #[rustfmt::skip]
    let cases = [
        (3, 0.1, 0.7, Remove, -0.077_652_691_987_292_24, -1.816_100_569_475_551_5, -0.872_231_782_253_199_7),
        (3, 0.1, 0.7, Remove, 0.294_724_516_083_087_8, -2.532_989_255_712_032_7, -1.241_376_530_090_449_3),
        (3, 0.1, 0.7, Remove, 0.752_216_514_569_554_7, -5.610_605_952_929_696_5, -2.633_295_777_337_996),
        (3, 0.1, 0.7, Add, -0.667_101_724_153_467_8, -0.709_334_414_166_504_8, -0.044_594_199_960_107_4),
        (3, 0.1, 0.7, Add, -0.294_724_516_083_087_8, -1.157_053_587_176_839_3, -0.169_686_520_348_500_9),
        (3, 0.1, 0.7, Add, 0.162_767_482_403_379_15, -3.167_045_854_615_6, -0.433_568_763_224_793_43),
        (2, 1e-6, 3.0, Remove, -3.632_131_362_764_4e-7, -14.573_817_571_471_274, -0.759_607_199_698_039_6),
        (2, 1e-6, 3.0, Remove, 1.121_436_172_280_474_4e-7, -15.161_738_115_023_557, -0.887_091_280_659_909),
        (2, 1e-6, 3.0, Remove, 6.961_533_429_621_32e-7, -17.186_493_662_033_38, -1.009_152_681_593_676),
        (2, 1e-6, 3.0, Add, -5.875_003_707_325_348e-7, -14.228_196_226_769_274, -0.465_377_960_850_101_3),
        (2, 1e-6, 3.0, Add, -1.121_436_172_280_474_4e-7, -14.803_394_883_622_402, -0.530_776_096_857_072_5),
        (2, 1e-6, 3.0, Add, 4.718_661_085_060_371_4e-7, -16.845_855_944_301_256, -0.662_029_887_896_847_2),
    ];
    for (k, q, b, direction, epsilon, log_delta, log_tail) in cases {
        let loss = LaplaceLoss::new(&GroupLaw::binomial(k, q).unwrap(), b, direction);
        let Interval { lower, upper } = loss.log_one_step(epsilon);
        let named = format!("{k} {direction:?} {epsilon}");
        assert!(lower <= log_delta && log_delta <= upper, "{named}: {lower} {upper}");
        assert!(upper - lower <= 1e-10, "{named}: {lower} {upper}");
        let tail = loss.log_tail(epsilon);
        // Near 0 the crossing is known to some digits of r − 1 only, and the tail to as many.
        assert!(tail >= log_tail && tail - log_tail <= 1e-7, "{named}: {tail}");
    }
}

#[test]
fn outside_the_range_of_losses_all_outputs_or_none_count() {
    let law = GroupLaw::binomial(3, 0.1).unwrap();
    for direction in [Direction::Remove, Direction::Add] {
        let loss = LaplaceLoss::new(&law, 0.7, direction);
        assert_eq!(loss.log_one_step(5.0).upper, f64::NEG_INFINITY);
        let Interval { lower, upper } = loss.log_one_step(-5.0);
        let exact = (-(-5.0f64).exp()).ln_1p();
        assert!(lower <= exact && exact <= upper && upper - lower < 1e-14);
    }
}

/// Next to 0 the ratio of a mirrored pair is next to 1, and what it grows by has as many digits as everywhere.
/// mpmath, 60 digits, with b = mpf(0.1), q = mpf(0.3), t = mpf(2e-13): q*exp(-1/b)*expm1(2*t/b)/(1 - q + q*exp(-1/b)) - expm1(mpf(1e-16)).
#[test]
fn the_growth_of_a_mirrored_ratio_has_its_digits_next_to_nothing() {
    let loss = LaplaceLoss::mirrored(&GroupLaw::binomial(1, 0.3).unwrap(), 0.1);
    let (Gap { value, error, unit }, exact) = (loss.gap(2e-13, 1e-16), -2.217_306_326_592_514_6e-17);
    let (found, error) = (value * unit.exp(), error * unit.exp());
    assert!(
        (found - exact).abs() <= error && error < 1e-11 * exact.abs(),
        "{found} {exact} {error}"
    );
}

/// Two records that are in a batch with probability 1e-200 have half of their 1e-400 beyond 2, where the loss is largest.
#[test]
fn tails_that_underflow_are_bounded() {
    assert!((log_upper_tail(-1.0) - upper_tail(-1.0).ln()).abs() < 1e-15);
    let loss = LaplaceLoss::new(&GroupLaw::binomial(2, 1e-200).unwrap(), 1e-3, Direction::Remove);
    let most = loss.max_loss.rounded_up();
    let (found, least) = (loss.log_tail(most * (1.0 - 1e-6)), 2.0 * 1e-200f64.ln() + 0.5f64.ln());
    assert!(found >= least && found < least + 0.01, "{found} {least}");
}

/// Each term is off by less than its bound, which is not far from what rounding does: 10⁴ terms of 0.1 each.
#[test]
fn sums_of_positive_terms_are_within_their_error() {
    let terms = (1..=10_000).map(|_| (0.1f64.ln(), 1.0, 0.0));
    let sum = PositiveSum::of(terms);
    let Interval { lower, upper } = sum.within(f64::NEG_INFINITY);
    assert!(lower <= 1000f64.ln() && 1000f64.ln() <= upper && upper - lower < 1e-11);
    // What else may be missing widens both bounds.
    let sum = PositiveSum::of([(0.0, 1.0, 0.0)].into_iter());
    let Interval { lower, upper } = sum.within(0.01f64.ln());
    assert!(lower <= (1.0f64 - 0.01).ln() && upper >= 1.01f64.ln());
}
