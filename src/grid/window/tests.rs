//! Transforms, composed laws and their errors against direct convolutions, closed forms and laws that attain the bounds.

use super::*;
use crate::loss::StepLoss;

/// `steps` steps; the loss itself is not looked at.
fn segments(steps: f64) -> Vec<Segment> {
    vec![Segment {
        loss: StepLoss::shift(1.0),
        steps,
    }]
}

/// The law with `masses` at 0, h, 2h, …, tilted by c and not scaled.
fn cells(masses: &[f64], (c, spacing): (f64, f64), mass_error: f64) -> Vec<Cells> {
    let tilted = |(i, mass): (usize, &f64)| mass * (c * i as f64 * spacing).exp();
    let law = GridLaw {
        first: 0,
        masses: masses.iter().enumerate().map(tilted).collect(),
        origin: 0.0,
    };
    vec![Cells {
        upper: law,
        mass_error,
        ..Cells::default()
    }]
}

fn compose(window: &Window, masses: &[f64], steps: f64, mass_error: f64) -> Composed {
    let cells = cells(masses, (window.c, window.spacing), mass_error);
    window.compose(&segments(steps), &cells, |cells| &cells.upper).unwrap()
}

/// δ(ε) of `steps` convolutions of `masses` at 0, h, …: positive terms only.
fn exact_delta(masses: &[f64], steps: usize, spacing: f64, epsilon: f64) -> f64 {
    let mut total = vec![1.0];
    for _ in 0..steps {
        let mut next = vec![0.0; total.len() + masses.len() - 1];
        for (i, a) in total.iter().enumerate() {
            for (j, b) in masses.iter().enumerate() {
                next[i + j] += a * b;
            }
        }
        total = next;
    }
    let gain = |(i, mass): (usize, &f64)| mass * -(epsilon - i as f64 * spacing).min(0.0).exp_m1();
    total.iter().enumerate().map(gain).sum()
}

/// Either way to a power has its error, for 1 + z = e^{2πij/N}, whose powers are known: squaring where z is not small or steps are few.
#[test]
fn powers_are_within_the_error_of_the_way_they_are_computed() {
    const ORDER: u64 = 1 << 20;
    let mut used = [0.0f64; 2];
    for steps in [2u64, 50, 1001, 30_003] {
        for j in [1u64, 3, 40, 5001, 100_003, 300_007] {
            let half = std::f64::consts::PI * j as f64 / ORDER as f64;
            let z = Complex64::new(-2.0 * half.sin().powi(2), (2.0 * half).sin());
            // The modulus of z is at most twice the mass.
            let way = Power::of(steps as f64, 0.5 * z.norm(), 1 << 10);
            assert!(way.by_squaring || (steps > 20 && z.norm() < 0.2), "{steps} {j}");
            let whole = (j * steps % ORDER) as f64 / ORDER as f64;
            let exact = Complex64::from_polar(1.0, 2.0 * std::f64::consts::PI * whole);
            let error = (way.of_one_and(z) - exact).norm();
            assert!(error <= way.error + 1e-15, "{steps} {j}: {error} {way:?}");
            let share = &mut used[usize::from(way.by_squaring)];
            *share = share.max((error - 1e-15) / way.error);
        }
    }
    // The bound for logarithms has much room: it is for the worst of their rounding at every size of z.
    assert!(used[0] > 1e-3 && used[1] > 0.05, "{used:?}");
}

#[test]
fn the_norm_of_the_payoff_is_bounded_and_nearly_attained() {
    for c in [0.05, 1.0, 30.0, 1e8] {
        for points in [0.3, 3.0, 300.0] {
            let spacing = 1.0 / (points * (c + 1.0));
            let bound = payoff_norm(c, spacing);
            let mut largest = 0.0f64;
            for start in 1..=20 {
                let payoff = |i: i32| {
                    let t = (f64::from(i) + f64::from(start) / 20.0) * spacing;
                    (-c * t).exp() * -(-t).exp_m1()
                };
                let norm = (0..2_000_000)
                    .map(payoff)
                    .take_while(|u| *u > 1e-12 * max_payoff(c))
                    .map(|u| u * u)
                    .sum::<f64>()
                    .sqrt();
                assert!(norm <= bound * (1.0 + 1e-12), "{c} {points}: {norm} {bound}");
                largest = largest.max(norm);
            }
            assert!(largest > 0.5 * bound, "{c} {points}: {largest} {bound}");
        }
        let at = |t: f64| (-c * t).exp() * -(-t).exp_m1();
        let top = c.recip().ln_1p();
        assert!((at(top) / max_payoff(c) - 1.0).abs() < 1e-14 && at(0.9 * top) < max_payoff(c));
    }
}

#[test]
fn composed_laws_are_within_their_error_of_direct_convolutions() {
    let bell: Vec<f64> = (0..60)
        .map(|i| (-0.5 * ((f64::from(i) - 25.0) / 8.0).powi(2)).exp())
        .collect();
    let sum: f64 = bell.iter().sum();
    let bell: Vec<f64> = bell.iter().map(|mass| mass / sum).collect();
    let rare = [1.0 - 2e-6, 1e-6, 0.0, 0.0, 1e-6];
    for (masses, steps, c, epsilon) in [
        (&bell[..], 20, 0.5, 70.0),
        (&rare[..], 5, 4.0, 0.35),
        (&bell[..], 3, 2.0, 11.0),
    ] {
        let spacing = 0.1;
        let window = Window {
            c,
            start: epsilon - 1.0,
            length: 4096,
            spacing,
            log_aliasing: -2000.0,
        };
        let composed = compose(&window, masses, f64::from(steps), 0.0);
        let exact = exact_delta(masses, steps as usize, spacing, epsilon).ln();
        let (low, high) = composed.delta(epsilon, c);
        assert!(
            low <= exact + 1e-14 && exact <= high + 1e-14,
            "{steps}: {low} {exact} {high}"
        );
        assert!(high - low < 1e-6, "{steps}: {low} {high}");
    }
}

#[test]
fn what_arrives_from_other_periods_attains_the_bound() {
    // Mass 1 − 1e−3 at 0 is found at P, 2P, … far above ε, where 1 − e^{−t} is 1.
    let (c, epsilon, spacing, length) = (0.25, 3.0, 0.5, 32usize);
    let mut masses = vec![0.0; 11];
    (masses[0], masses[10]) = (0.999, 0.001);
    let period = length as f64 * spacing;
    // Chernoff's bound at c' = 0, and nothing from above.
    let log_aliasing = -c * period - (-(-c * period).exp()).ln_1p();
    let window = Window {
        c,
        start: 2.5,
        length,
        spacing,
        log_aliasing,
    };
    let composed = compose(&window, &masses, 1.0, 0.0);
    let (low, high) = composed.delta(epsilon, c);
    let exact = exact_delta(&masses, 1, spacing, epsilon);
    assert!(low.exp() <= exact && exact <= high.exp(), "{low} {exact} {high}");
    // The sum that was found is too large by nearly all of the bound.
    let found = high.exp() - log_aliasing.exp();
    assert!(found - exact > 0.95 * log_aliasing.exp(), "{found} {exact}");
}

#[test]
fn an_error_of_the_masses_is_carried_and_attained() {
    // All mass at the t with the largest payoff, too large by 1 %, in ten steps.
    let (c, steps, relative) = (1.0f64, 10.0, 0.01);
    let spacing = 0.125;
    let mut masses = vec![0.0; 9];
    masses[8] = 1.0 + relative;
    let loss = 8.0 * spacing * steps;
    let epsilon = loss - ((c + 1.0) / c).ln();
    let window = Window {
        c,
        start: epsilon - 0.5,
        length: 256,
        spacing,
        log_aliasing: -2000.0,
    };
    let tilted = (c * 8.0 * spacing).exp();
    let composed = compose(&window, &masses, steps, relative * tilted);
    let (low, high) = composed.delta(epsilon, c);
    let exact = -(epsilon - loss).exp_m1();
    assert!(
        low.exp() <= exact && low.exp() > 0.95 * exact && high.exp() >= exact,
        "{low} {exact} {high}"
    );
}

/// All mass at a loss that is above the truth by its error, in ten steps.
#[test]
fn errors_of_losses_add_up_over_the_steps_and_are_attained() {
    let (c, steps, error) = (1.0, 10.0, 0.01);
    let window = Window {
        c,
        start: 5.0,
        length: 256,
        spacing: 0.125,
        log_aliasing: -2000.0,
    };
    let mut masses = vec![0.0; 9];
    masses[8] = 1.0;
    let mut cells = cells(&masses, (c, window.spacing), 0.0);
    cells[0].loss_error = error;
    let composed = window.compose(&segments(steps), &cells, |cells| &cells.upper).unwrap();
    let (epsilon, loss) = (7.0, steps * (1.0 - error));
    let exact = -f64::exp_m1(epsilon - loss);
    let lower = composed.delta(epsilon + composed.loss_error, c).0.exp();
    assert!(lower <= exact && lower > exact * (1.0 - 1e-6), "{lower} {exact}");
}

#[test]
fn running_sums_are_those_of_their_definition() {
    let window = Window {
        c: 0.7,
        start: 0.0,
        length: 8,
        spacing: 0.3,
        log_aliasing: 0.0,
    };
    let masses: Vec<f64> = (0..8).map(|i| f64::from(i * i % 5) + 0.5).collect();
    let sums = window.sums(&masses, 3);
    for (i, sum) in sums.iter().enumerate() {
        let term = |rate: f64| -> f64 {
            (i..8)
                .map(|j| masses[(3 + j) % 8] / 8.0 * (-rate * (j - i) as f64 * 0.3).exp())
                .sum()
        };
        assert!((sum.0 - term(0.7)).abs() < 1e-14 && (sum.1 - term(1.7)).abs() < 1e-14);
    }
}

/// A mass is carried over up to a million points, and the factor of the nearest point to such a power would be off by a million roundings. The
/// exponentials of the sums it is compared with are computed one by one.
#[test]
fn running_sums_over_a_million_points_are_within_their_error() {
    const LENGTH: usize = 1 << 20;
    let mass = |i: usize| (-0.5 * ((i as f64 / LENGTH as f64 - 0.5) / 0.15).powi(2)).exp();
    let masses: Vec<f64> = (0..LENGTH).map(mass).collect();
    for (c, spacing) in [(3.0, 1e-6), (4.1, 3e-7), (0.2, 1.7e-5)] {
        let window = Window {
            c,
            start: 0.0,
            length: LENGTH,
            spacing,
            log_aliasing: 0.0,
        };
        let sums = window.sums(&masses, 0);
        for first in [0, LENGTH / 3] {
            let exact = |rate: f64| {
                let fall = |j: usize| (-rate * ((j - first) as f64 * spacing)).exp();
                compensated((first..LENGTH).map(|j| masses[j] / LENGTH as f64 * fall(j)))
            };
            let (slow, fast) = sums[first];
            let off = (slow - exact(c)).abs() + (fast - exact(c + 1.0)).abs();
            let bound = window.sum_error() * (slow + fast);
            assert!(
                off <= bound && bound < 1e-13 * (slow + fast),
                "{c} {first}: {off} {bound}"
            );
        }
    }
}

/// The error of a difference of running sums is that of the largest of them, wherever that is: here at the upper end, as all mass is there.
#[test]
fn the_largest_running_sum_bounds_the_error_of_all() {
    let window = Window {
        c: 1.0,
        start: 0.0,
        length: 64,
        spacing: 0.5,
        log_aliasing: -2000.0,
    };
    let product = Product::new(&window, &[], &[], |cells| &cells.upper).unwrap();
    let mut sums = vec![(0.0, 0.0); 64];
    let none = window.error(&product, 0.0, &sums);
    sums[60] = (3.0, 2.0);
    let some = window.error(&product, 0.0, &sums);
    assert!(
        (some - none) / (5.0 * window.sum_error()) > 1.0 - 1e-12,
        "{none} {some}"
    );
}

/// A million masses of 1e-16 beside one of 1: added one after the other to it, none would be seen.
#[test]
fn the_sum_of_a_law_keeps_its_digits() {
    let mut masses = vec![1e-16; 1_000_001];
    masses[0] = 1.0;
    let law = GridLaw {
        first: 0,
        masses,
        origin: 0.0,
    };
    let mut buffer = vec![0.0; 1 << 20];
    let rest = Rest::fill(&mut buffer, &law).unwrap();
    assert!((rest.sum - (1.0 + 1e-10)).abs() < 4.0 * f64::EPSILON, "{}", rest.sum);
    let exact = 1e-10 / (1.0 + 1e-10);
    assert!((rest.mass / exact - 1.0).abs() < 4.0 * f64::EPSILON, "{}", rest.mass);
}

/// 0.1 ten thousand times is off by 1.6e-10 if it is added one after the other.
#[test]
fn places_and_moments_of_many_segments_add_up() {
    const COUNT: usize = 10_000;
    let window = Window {
        c: 1.0,
        start: 0.0,
        length: 16,
        spacing: 0.5,
        log_aliasing: -2000.0,
    };
    let of_one = |_| Segment {
        loss: StepLoss::shift(1.0),
        steps: 1.0,
    };
    let segments: Vec<Segment> = (0..COUNT).map(of_one).collect();
    let law = || GridLaw {
        first: 0,
        masses: vec![1.0],
        origin: 0.1,
    };
    let cells: Vec<Cells> = (0..COUNT)
        .map(|_| Cells {
            upper: law(),
            log_scale: 0.1,
            ..Cells::default()
        })
        .collect();
    let product = Product::new(&window, &segments, &cells, |cells| &cells.upper).unwrap();
    let exact = 0.1 * COUNT as f64;
    assert!((product.origin.value() - exact).abs() < 2.0 * f64::EPSILON * exact);
    assert!((product.log_scale.value() - exact).abs() < 2.0 * f64::EPSILON * exact);
    assert!((product.log_size / exact - 1.0).abs() < 1e-11);
    // The powers of all segments are multiplied, each product with its rounding.
    assert!(
        product.power_errors >= COUNT as f64 * 5.0 * f64::EPSILON,
        "{}",
        product.power_errors
    );
}
