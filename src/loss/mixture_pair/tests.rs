//! Ratios of mixtures against sums of their terms.

use super::*;

fn pair(group_size: u64, sample_rate: f64, noise_multiplier: f64) -> MixturePair {
    MixturePair::new(&GroupLaw::binomial(group_size, sample_rate).unwrap(), noise_multiplier).unwrap()
}

#[test]
fn the_log_ratio_of_one_record_is_its_definition() {
    let pair = pair(1, 0.25, 2.0);
    for x in [-30.0, -1.0, 0.0, 0.5, 3.0, 40.0] {
        let direct = (0.75 + 0.25 * ((x - 0.5f64) / 4.0).exp()).ln();
        assert!((pair.log_ratio(x) - direct).abs() <= 1e-14 * direct.abs().max(1.0));
    }
}

#[test]
fn a_log_ratio_of_1e_12_keeps_ten_digits() {
    let pair = pair(1, 1e-9, 1000.0);
    // q·(e^y − 1) with y = (x − 1/2)/σ².
    for x in [-2000.0, 0.0, 1.0, 3000.0] {
        let excess = 1e-9 * ((x - 0.5f64) / 1e6).exp_m1();
        assert!((pair.log_ratio(x) / excess - 1.0).abs() < 1e-8); // log1p(v) = v(1 − v/2)
    }
}

#[test]
fn the_window_of_a_large_group_changes_nothing() {
    let law = GroupLaw::binomial(2000, 0.3).unwrap();
    let windowed = MixturePair::new(&law, 1.0).unwrap();
    let mut full = windowed.clone();
    full.unimodal = false;
    assert!(windowed.unimodal);
    for x in [-5.0, 100.0, 600.25, 1999.0, 5000.0] {
        let (a, b) = (windowed.log_ratio(x), full.log_ratio(x));
        assert!((a - b).abs() <= 1e-15 * b.abs().max(1.0), "{x}: {a} {b}");
    }
}

#[test]
fn the_slope_is_the_posterior_mean() {
    let pair = pair(8, 0.1, 1.5);
    let mut scratch = Vec::new();
    for x in [-2.0, 0.7, 4.0, 9.0] {
        let step = 1e-5;
        let slope = (pair.log_ratio(x + step) - pair.log_ratio(x - step)) / (2.0 * step);
        let local = pair.local(x, &mut scratch);
        assert!((slope * 2.25 - local.mean_shift).abs() < 1e-8);
        assert!(local.low_shift <= local.mean_shift && local.mean_shift <= local.high_shift);
    }
}
