use super::*;
use crate::renyi::mixture_divergences;

/// Numbers in [0, 1) that look random.
fn numbers(count: usize) -> Vec<f64> {
    (1..=count)
        .map(|i| (i as f64 * 0.618_033_988_749_895).fract())
        .collect()
}

#[test]
fn accounts_are_above_the_divergence_by_at_most_a_ten_billionth() {
    let orders: Vec<f64> = (1..=20)
        .map(|i| 1.0 + 0.4 * f64::from(i))
        .chain([12.0, 20.0, 33.3, 48.0, 64.0, 128.0, 257.5, 1024.0])
        .collect();
    for (rate, noise) in [
        (0.08, 2.0),
        (0.08, 1.0),
        (0.001, 0.6),
        (0.5, 4.0),
        (1e-6, 1.0),
        (0.95, 3.0),
    ] {
        let step = StepRdp::new(rate, &orders).unwrap();
        let law = GroupLaw::binomial(1, rate).unwrap();
        for norm in numbers(30).into_iter().map(|t| 1e-3f64.powf(t)).chain([1.0]) {
            let mut accounts = vec![0.0; orders.len()];
            step.accumulate(&mut accounts, &[norm], noise, 1.0).unwrap();
            let exact = mixture_divergences(law.clone(), noise / norm, &orders, Direction::Remove).unwrap();
            for ((found, exact), order) in accounts.iter().zip(&exact).zip(&orders) {
                let excess = found / exact - 1.0;
                assert!(
                    (1.9e-11..4.1e-11).contains(&excess),
                    "q {rate} σ {noise} s {norm} α {order}: {found} {exact} {excess:e}"
                );
            }
        }
    }
}

#[test]
fn extremes_have_their_closed_forms() {
    let orders = [2.0, 5.0];
    let add = |rate: f64, norm: f64, noise: f64| {
        let mut accounts = vec![1.0; 2];
        StepRdp::new(rate, &orders)
            .unwrap()
            .accumulate(&mut accounts, &[norm], noise, 3.0)
            .unwrap();
        accounts
    };
    assert_eq!(add(0.0, 1.0, 1.0), [1.0, 1.0]);
    assert_eq!(add(0.3, 0.0, 1.0), [1.0, 1.0]);
    assert_eq!(add(0.3, 0.0, 0.0), [1.0, 1.0]);
    assert_eq!(add(0.3, 0.1, 0.0), [f64::INFINITY, f64::INFINITY]);
    let full = add(1.0, 0.5, 2.0);
    assert!((full[0] - (1.0 + 3.0 * 2.0 / 32.0)).abs() < 1e-14);
    // q²·v is too small for a table, and still added.
    let tiny = add(0.1, 1e-12, 1.0);
    assert!(tiny[0] >= 1.0);
}

#[test]
fn a_steep_divergence_is_not_rounded_down() {
    // Near the phase transition of order 10⁴ at sample rate 10⁻⁶ D falls 1.4·10⁵ times as fast as w, in relative terms, so that the
    // rounding of (σ/s)² counts. By the binomial theorem, mpmath with 60 digits: D = 1.009566934456945773867e-7.
    let (norm, noise, exact) = (
        0.938_928_904_094_405_1,
        17.861_724_373_903_45,
        1.009_566_934_456_945_8e-7,
    );
    let mut accounts = [0.0];
    let step = StepRdp::new(1e-6, &[1e4]).unwrap();
    step.accumulate(&mut accounts, &[norm], noise, 1.0).unwrap();
    let excess = accounts[0] / exact - 1.0;
    // 1 + 10⁻¹⁰ + 10⁻¹⁴·α·log(1/q).
    assert!((0.0..1e-10 + 1.4e-9).contains(&excess), "{excess:e}");
}

#[test]
fn the_square_of_the_noise_over_the_norm_is_rounded_down() {
    let step = StepRdp::new(0.1, &[2.0]).unwrap();
    let prepared = step.prepared(&[], 1.0, 1.0).unwrap();
    for norm in 1..1000u32 {
        let w = prepared.inverse_of(f64::from(norm));
        // w = m/2^k with whole numbers, and w·s² is at most 1.
        let (m, k) = ((w.to_bits() & ((1 << 52) - 1)) | (1 << 52), 1075 - (w.to_bits() >> 52));
        assert!(u128::from(m) * u128::from(norm).pow(2) <= 1 << k, "{norm}");
        assert!(w * f64::from(norm).powi(2) >= 1.0 - 5.0 * f64::EPSILON, "{norm}: {w}");
    }
}

#[test]
fn sums_of_gaussian_steps_are_not_below_the_exact_sum() {
    // Order 2 at σ = 11: D = 1/121. The sum times 2^49 is a whole number below 2^53.
    let step = StepRdp::new(1.0, &[2.0]).unwrap();
    let mut accounts = [0.0];
    for count in 1..=1000u128 {
        step.accumulate(&mut accounts, &[1.0], 11.0, 1.0).unwrap();
        if accounts[0] >= 1.0 {
            let sum = (accounts[0] * 2f64.powi(49)) as u128;
            assert!(sum * 121 >= count << 49, "{count}");
        }
    }
    assert!(accounts[0] < 1000.0 / 121.0 * (1.0 + 1e-12));
    // A square that underflows is a loss nevertheless.
    let mut accounts = [0.0];
    step.accumulate(&mut accounts, &[1e-170], 1.0, 1.0).unwrap();
    assert!(accounts[0] > 0.0 && accounts[0] < 1e-280);
}

#[test]
fn accounts_that_do_not_fit_are_refused() {
    let step = StepRdp::new(0.1, &[2.0, 3.0]).unwrap();
    let (mut first, mut second, mut short) = ([0.0; 2], [0.0; 2], [0.0; 1]);
    let is_refused = |found: Result<()>| assert!(matches!(found, Err(Error::Mismatch(_))), "{found:?}");
    is_refused(step.accumulate_rows(vec![&mut first[..]], &[1.0, 1.0], 1.0, 1.0));
    is_refused(step.accumulate_rows(vec![&mut first[..], &mut second[..]], &[1.0], 1.0, 1.0));
    is_refused(step.accumulate_rows(vec![&mut first[..], &mut short[..]], &[1.0, 1.0], 1.0, 1.0));
    // So little noise that no table holds it.
    let prepared = step.prepared(&[1.0], 1e-4, 1.0).unwrap();
    is_refused(step.add(&mut [&mut first[..]], &[0.5], &prepared));
    assert_eq!((first, second, short), ([0.0; 2], [0.0; 2], [0.0; 1]));
    step.add(&mut [&mut first[..]], &[1.0], &prepared).unwrap();
    assert!(first[0] > 1e7);
}

#[test]
fn bad_norms_are_named() {
    let step = StepRdp::new(0.1, &[2.0]).unwrap();
    let mut accounts = vec![0.0; 3];
    let error = step
        .accumulate(&mut accounts, &[0.1, -1.0, f64::NAN], 1.0, 1.0)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "norms must be in [0, inf), got -1.0 at index 1, NaN at index 2"
    );
    assert_eq!(accounts, [0.0; 3]);
    assert!(step.accumulate(&mut accounts, &[0.1], 1.0, 1.0).is_err());
}
