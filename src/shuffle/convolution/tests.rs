use super::*;

fn law(masses: &[f64]) -> IntegerLaw<Extended> {
    IntegerLaw {
        first: 2,
        masses: masses.iter().map(|&mass| Extended::from(mass)).collect(),
        left_out: 0.0,
        rounding: 0.0,
    }
}

/// A law of `length` values with sum 1, near enough.
fn bell(length: usize) -> Vec<f64> {
    let centre = length as f64 / 2.0;
    let weights: Vec<f64> = (0..length)
        .map(|i| (-((i as f64 - centre) / (0.08 * length as f64)).powi(2)).exp())
        .collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn assert_agree(a: &IntegerLaw<Extended>, b: &IntegerLaw<Extended>, relative: f64) {
    let lacking = a.left_out + b.left_out;
    for value in a.first.min(b.first)..=a.last().max(b.last()) {
        let at = |law: &IntegerLaw<Extended>| {
            let index = value.checked_sub(law.first);
            index
                .and_then(|i| law.masses.get(i as usize))
                .map_or(0.0, |mass| mass.to_f64())
        };
        assert!((at(a) - at(b)).abs() <= relative * at(a) + lacking, "{value}");
    }
}

#[test]
fn powers_agree_however_they_are_computed() {
    for masses in [
        &[0.9, 0.06, 0.0, 0.03, 0.01][..],
        &[0.5, 0.0, 0.25, 0.125, 0.125],
        &[0.875, 0.125],
    ] {
        let one = law(masses);
        let mut by_hand = IntegerLaw::point(0);
        for times in 0..40 {
            assert_agree(&power(&one, times).unwrap(), &by_hand, 1e-15);
            by_hand = convolve(&by_hand, &one).unwrap();
        }
        let values: Vec<_> = one.positive().collect();
        if masses[0] == 0.9 {
            assert!(recurrence_end(&one, &values, 1000).is_some());
        }
        let halves = power(&one, 500).unwrap();
        assert_agree(&power(&one, 1000).unwrap(), &convolve(&halves, &halves).unwrap(), 1e-15);
    }
}

#[test]
fn faster_convolutions_are_within_their_stated_errors() {
    let (a, b) = (bell(1500), bell(700));
    let (exact, small) = (convolve_directly(&a, &b), law(&a));
    let (transformed, error) = convolve_by_transform(&a, &b).unwrap();
    let apart: f64 = exact.iter().zip(&transformed).map(|(x, y)| (x - y).abs()).sum();
    assert!(apart < error && error < 1e-12, "{apart} {error}");
    // Digit by digit, a block at a time, against f64.
    let mut digits = vec![Extended::ZERO; exact.len()];
    for (j, &weight) in b.iter().enumerate() {
        add_scaled(&mut digits[j..], &small.masses, Extended::from(weight));
    }
    let bound = (4 + BLOCK + b.len() / BLOCK) as f64 * f64::UNIT;
    for (fast, slow) in exact.iter().zip(&digits) {
        assert!((fast / slow.to_f64() - 1.0).abs() <= bound);
    }
}

#[test]
fn laws_that_are_too_long_are_refused() {
    let mut masses = vec![0.0; 5_000_000];
    masses[0] = 0.5;
    masses[1] = 0.25;
    masses[4_999_999] = 0.25;
    assert!(power(&law(&masses), 2).is_none());
    assert!(power(&law(&[0.5, 0.5]), 1 << 50).is_none());
}

/// Σ |a − b| over all whole numbers.
fn distance(a: &IntegerLaw<Extended>, b: &IntegerLaw<Extended>) -> f64 {
    (a.first.min(b.first)..=a.last().max(b.last()))
        .map(|value| {
            let at = |law: &IntegerLaw<Extended>| {
                let index = value.checked_sub(law.first);
                index
                    .and_then(|i| law.masses.get(i as usize))
                    .map_or(0.0, |mass| mass.to_f64())
            };
            (at(a) - at(b)).abs()
        })
        .sum()
}

#[test]
fn mass_that_a_factor_left_out_is_left_out_of_its_powers() {
    for masses in [
        &[0.75, 0.125, 0.124][..],
        &[0.5, 0.0, 0.25, 0.125, 0.124],
        &[0.875, 0.124],
    ] {
        let listed = IntegerLaw {
            left_out: 0.001,
            ..law(masses)
        };
        // The missing mass on the last value: all of it moves.
        let mut complete = masses.to_vec();
        complete.resize(masses.len() + 3, 0.0);
        complete[masses.len() + 2] = 0.001;
        for times in [1, 2, 7, 20] {
            let (found, exact) = (power(&listed, times).unwrap(), power(&law(&complete), times).unwrap());
            let apart_by = distance(&found, &exact);
            assert!(
                apart_by <= found.left_out,
                "{masses:?} {times} {apart_by} {}",
                found.left_out
            );
            // Half of the bound would not hold.
            assert!(
                apart_by > 0.55 * found.left_out,
                "{masses:?} {times} {apart_by} {}",
                found.left_out
            );
        }
    }
}

#[test]
fn rounding_of_a_factor_is_amplified_in_its_powers() {
    const ERROR: f64 = 1e-4;
    for masses in [
        &[0.75, 0.125, 0.125][..],
        &[0.5, 0.0, 0.25, 0.125, 0.125],
        &[0.875, 0.125],
    ] {
        // All masses too large, or (for two values, whose power is normalised) one too large and one too small.
        let errors = |i: usize| {
            if masses.len() == 2 && i == 0 {
                1.0 - ERROR
            } else {
                1.0 + ERROR
            }
        };
        let rounded: Vec<f64> = masses.iter().enumerate().map(|(i, mass)| mass * errors(i)).collect();
        let rounded = IntegerLaw {
            rounding: ERROR,
            ..law(&rounded)
        };
        for times in [2, 7, 40] {
            let (found, exact) = (power(&rounded, times).unwrap(), power(&law(masses), times).unwrap());
            let mut largest = 0.0f64;
            for (a, b) in found
                .masses
                .iter()
                .zip(&exact.masses)
                .filter(|(_, b)| b.to_f64() > 1e-30)
            {
                largest = largest.max((a.to_f64() / b.to_f64() - 1.0).abs());
            }
            assert!(
                largest <= found.rounding * (1.0 + 1e-9),
                "{masses:?} {times} {largest} {}",
                found.rounding
            );
            assert!(
                largest > 0.55 * found.rounding,
                "{masses:?} {times} {largest} {}",
                found.rounding
            );
        }
    }
}

#[test]
fn the_recurrence_ends_where_a_negligible_tail_is_left() {
    // 10⁶ copies of a law with the mass 10⁻⁶ off 0: the offset is N + 2M with N, M Poisson variables of mean 1/2, nearly.
    let (times, rate) = (1_000_000u64, 1e-6);
    let one = law(&[1.0 - rate, 0.5 * rate, 0.5 * rate]);
    let values: Vec<_> = one.positive().collect();
    let end = recurrence_end(&one, &values, times).unwrap() as usize;
    let mut masses = vec![(-1f64).exp(), 0.5 * (-1f64).exp()];
    for n in 2..2 * end {
        masses.push((0.5 * masses[n - 1] + masses[n - 2]) / n as f64);
    }
    let beyond = |n: usize| masses[n + 1..].iter().sum::<f64>();
    assert!(
        beyond(end) < NEGLIGIBLE_TAIL && beyond(end / 2) > NEGLIGIBLE_TAIL,
        "{end} {}",
        beyond(end)
    );
}

/// Transforms that are off by η in the 2-norm, all at the frequency 0, where the spectrum of the other law is 1; the same at the inverse
/// transform. Each of the three errors is then the same for all values of the convolution, which its length fills.
#[test]
fn errors_of_transforms_attain_the_error_of_a_convolution() {
    const ETA: f64 = 1e-6;
    // A law of two values and one of 63: the smaller norm is that of the convolution, nearly.
    let (a, b) = ([1.0, 0.0], bell(63));
    let size = a.len() + b.len() - 1;
    assert_eq!(size, 64);
    let (forward, inverse) = (forward(size), inverse(size));
    let spectrum = |law: &[f64]| {
        let mut buffer = forward.make_input_vec();
        buffer[..law.len()].copy_from_slice(law);
        let mut spectrum = forward.make_output_vec();
        forward.process(&mut buffer, &mut spectrum).unwrap();
        let norm = law.iter().map(|mass| mass * mass).sum::<f64>().sqrt();
        spectrum[0].re += ETA * norm * (size as f64).sqrt();
        spectrum
    };
    let mut product = spectrum(&a);
    for (value, factor) in product.iter_mut().zip(spectrum(&b)) {
        *value *= factor;
    }
    let mut sum = inverse.make_output_vec();
    inverse.process(&mut product, &mut sum).unwrap();
    let norm = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
    let rounding = ETA * norm / (size as f64).sqrt();
    let exact = convolve_directly(&b, &a);
    let apart: f64 = sum
        .iter()
        .zip(&exact)
        .map(|(value, exact)| ((value + rounding) / size as f64 - exact).abs())
        .sum();
    let bound = convolution_error(&a, &b, ETA);
    assert!(apart <= bound && apart > 0.9 * bound, "{apart:e} {bound:e}");
}
