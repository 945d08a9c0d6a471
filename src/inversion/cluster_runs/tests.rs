//! The contour of the runs without a closed form and its bounds against brute-force sums.

use super::*;
use crate::inversion::saddle;
use crate::loss::StepLoss;
use crate::loss::privacy_loss::Effort;
use crate::step::{Direction, GroupLaw};

/// A group of which each member is in a batch with a probability, and the noise.
#[derive(Debug, Clone, Copy)]
struct Sampled {
    members: u64,
    rate: f64,
    scale: f64,
}

impl Sampled {
    fn segments(self, direction: Direction, steps: f64) -> Vec<Segment> {
        let law = GroupLaw::binomial(self.members, self.rate).unwrap();
        let loss = StepLoss::laplace(&law, self.scale, direction).unwrap();
        vec![Segment { loss, steps }]
    }

    /// The mixture over the noise at an output.
    fn ratio(self, x: f64) -> f64 {
        let law = GroupLaw::binomial(self.members, self.rate).unwrap();
        let of =
            |(log_weight, shift): (&f64, &f64)| (log_weight + (x.abs() - (x - shift).abs()) / self.scale).exp();
        law.log_weights().iter().zip(law.shifts()).map(of).sum()
    }

    /// E_P of a function of the loss, by the atoms and the rule of the middle.
    fn mean(self, direction: Direction, function: impl Fn(f64) -> f64) -> f64 {
        const CELLS: i32 = 40_000;
        let last = self.members as f64;
        let term = |x: f64, mass: f64| {
            let ratio = self.ratio(x);
            let of_p = if direction == Direction::Remove { ratio } else { 1.0 };
            mass * of_p * function(direction.sign() * ratio.ln())
        };
        let cell = last / f64::from(CELLS);
        let between = (0..CELLS).map(|i| {
            let x = (f64::from(i) + 0.5) * cell;
            term(x, cell * (-x / self.scale).exp() / (2.0 * self.scale))
        });
        term(0.0, 0.5) + term(last, 0.5 * (-last / self.scale).exp()) + between.sum::<f64>()
    }
}

/// δ of two steps is the mean of that of one step at ε less the loss.
#[test]
fn the_curve_of_two_steps_is_enclosed() {
    for (members, rate, scale, part) in [
        (1, 1.0, 1.0, 0.6),
        (1, 1.0, 5.0, 0.95),
        (1, 0.01, 0.5, 0.4),
        (2, 0.05, 2.0, 0.7),
        (4, 0.01, 5.0, 0.5),
    ] {
        let sampled = Sampled { members, rate, scale };
        for direction in Direction::BOTH {
            let mut segments = sampled.segments(direction, 2.0);
            let largest = segments[0].loss.max_loss().rounded_up();
            let epsilon = part * 2.0 * largest;
            let mut one = sampled.segments(direction, 1.0);
            let one = one.pop().unwrap().loss;
            let of_one = |epsilon: f64| one.one_step(epsilon, 0.0, &mut Effort::default()).upper();
            let exact = sampled.mean(direction, |loss| of_one(epsilon - loss));
            let c = saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
            let log_tolerance = -15.0;
            let tilt = Tilt::near(&mut segments, c, epsilon, (log_tolerance, None)).unwrap();
            let found = contours(&mut segments, &tilt, log_tolerance, Limits::of_products(1e7)).unwrap();
            let delta = found.delta(epsilon);
            assert!(
                delta.lower() <= exact * (1.0 + 1e-8) && exact <= delta.upper() * (1.0 + 1e-8),
                "{sampled:?} {direction:?}: {delta:?} {}",
                exact.ln()
            );
            assert!(delta.width() < 1e-5, "{sampled:?} {direction:?}: {delta:?}");
        }
    }
}

/// Steps of two kinds, of which the second one is the other way around: neither order nor splitting a kind into two changes δ.
#[test]
fn kinds_of_steps_may_be_split_and_exchanged() {
    let sampled = Sampled {
        members: 1,
        rate: 0.2,
        scale: 2.0,
    };
    let step = |direction, steps| sampled.segments(direction, steps).pop().unwrap();
    let both = [Direction::Remove, Direction::Add];
    let runs = [
        vec![step(both[0], 4.0), step(both[1], 1.0)],
        vec![step(both[1], 1.0), step(both[0], 4.0)],
        vec![step(both[0], 1.0), step(both[1], 1.0), step(both[0], 3.0)],
    ];
    let found: Vec<_> = runs
        .into_iter()
        .map(|mut segments| {
            let epsilon = 0.3;
            let c = saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
            let tilt = Tilt::near(&mut segments, c, epsilon, (-16.0, None)).unwrap();
            let found = contours(&mut segments, &tilt, -16.0, Limits::of_products(1e3)).unwrap();
            found.delta(epsilon)
        })
        .collect();
    for one in &found {
        assert!(one.width() < 1e-5, "{found:?}");
        assert!(
            one.log_lower <= found[0].log_upper && found[0].log_lower <= one.log_upper,
            "{found:?}"
        );
    }
}

/// Σ_{m ≥ 2} C(T, m)·a^{T − m}·d^m of positive numbers is at most the bound, and more than half of it for few steps.
#[test]
fn the_remainder_beyond_the_linear_part_is_bounded() {
    for (a, d, steps) in [
        (0.9, 1e-3, 2u32),
        (0.5, 0.3, 2),
        (0.2, 0.01, 7),
        (0.99, 0.01, 40),
        (0.0, 0.4, 3),
    ] {
        let term = |m: u32| {
            let ways: f64 = (0..m).map(|i| f64::from(steps - i) / f64::from(i + 1)).product();
            ways * f64::powi(a, (steps - m) as i32) * f64::powi(d, m as i32)
        };
        let exact = (2..=steps).map(term).sum::<f64>().ln();
        let bound = log_remainder([(f64::from(steps), a, d)].into_iter());
        assert!(bound >= exact, "{a} {d} {steps}: {bound} {exact}");
        if steps == 2 {
            assert!(bound < exact + 1e-10, "{a} {d}: {bound} {exact}");
        }
    }
    // Of two kinds with one step each only the product of both parts is left.
    let bound = log_remainder([(1.0, 0.3, 0.2), (1.0, 0.6, 0.1)].into_iter());
    assert!((bound - 0.02f64.ln()).abs() < 1e-9 && bound >= 0.02f64.ln(), "{bound}");
    // Of thousands of steps the logarithm of a number next to 1 has its rounding thousands of times.
    let bound = log_remainder([(8000.0, 1.0 - 0.3e-13, 1e-30)].into_iter());
    let exact = 8000.0 * (-0.3e-13f64).ln_1p() + (0.5 * 8000.0 * 7999.0 * 1e-60f64).ln();
    assert!(bound >= exact && bound < exact + 1e-8, "{bound} {exact}");
    // As many kinds as one with that many steps.
    let of_equal = log_remainder([(3.0, 0.3, 0.2)].into_iter());
    let of_kinds = log_remainder([(1.0, 0.3, 0.2); 3].into_iter());
    assert!((of_equal - of_kinds).abs() < 1e-10);
}

/// With all errors in the direction of the numbers, results are off by what they may be off by.
#[test]
fn errors_of_powers_and_of_what_they_leave_are_attained() {
    const ERROR: f64 = 1e-6;
    let number = |size: f64, angle: f64, error: f64| Approx::new(Complex64::from_polar(size, angle), error);
    for steps in [2usize, 5, 12] {
        for (a, d) in [(0.7, 0.2), (0.3, 0.6), (0.95, 1e-3)] {
            let exact = rest_of_power([number(a, 0.0, 0.0), number(d, 0.0, 0.0)], steps).value;
            let off =
                rest_of_power([number(a + ERROR, 0.0, 0.0), number(d + ERROR, 0.0, 0.0)], steps).value - exact;
            let found = rest_of_power([number(a, 0.0, ERROR), number(d, 0.0, ERROR)], steps);
            assert!(
                off.norm() <= found.error && off.norm() > 0.99 * found.error,
                "{steps} {a} {d}: {off} {found:?}"
            );
        }
        for size in [0.0, 0.4, 0.999] {
            let exact = power(number(size, 0.3, 0.0), steps as f64).value;
            let off = power(number(size + ERROR, 0.3, 0.0), steps as f64).value - exact;
            let found = power(number(size, 0.3, ERROR), steps as f64);
            assert!(
                off.norm() <= found.error * (1.0 + 1e-9) && off.norm() >= 0.99 * (found.error - 1e-14),
                "{steps} {size}: {off} {found:?}"
            );
        }
    }
    let found = product(number(0.5, 1.0, ERROR), number(0.25, 0.2, 2.0 * ERROR));
    let off =
        (number(0.5 + ERROR, 1.0, 0.0).value * number(0.25 + 2.0 * ERROR, 0.2, 0.0).value - found.value).norm();
    assert!(off <= found.error && off > 0.999 * found.error, "{off} {found:?}");
}

/// A power of 10⁴ factors is within its rounding of the one by repeated squaring at twice the angle.
#[test]
fn powers_of_many_steps_are_within_their_rounding() {
    for (size, angle) in [(0.9995f64, 2.5f64), (1.0 - 1e-9, 0.7), (0.3, -3.0)] {
        let base = Complex64::from_polar(size, angle);
        for steps in [1u32, 17, 10_000] {
            let found = power(Approx::exact(base), f64::from(steps));
            let mut exact = Complex64::from(1.0);
            for _ in 0..steps {
                exact *= base;
            }
            let of_products = f64::from(steps) * 2.0 * f64::EPSILON * exact.norm();
            assert!(
                (found.value - exact).norm() <= found.error + of_products,
                "{size} {steps}"
            );
            assert!(found.error < 1e-10, "{found:?}");
        }
    }
}

/// Sum and difference of terms: both are within their errors of each other, and for few steps the sum keeps the digits that the difference lacks.
#[test]
fn what_is_left_of_a_power_keeps_its_digits() {
    let a = Approx::new(Complex64::from_polar(0.9, 0.4), 1e-16);
    let d = Approx::new(Complex64::from_polar(1e-7, -1.0), 1e-23);
    let rest = rest_of_power([a, d], 6);
    // C(6, 2)·|a|⁴·|d|², as d is so small.
    assert!(
        (rest.value.norm() / (15.0 * 0.9f64.powi(4) * 1e-14) - 1.0).abs() < 1e-6,
        "{rest:?}"
    );
    assert!(rest.error < 1e-12 * rest.value.norm(), "{rest:?}");
    let mut powers = Powers::default();
    powers.multiply([a, d], 6.0);
    let difference = powers.rest();
    assert!((difference.value - rest.value).norm() <= difference.error + rest.error);
    assert!(difference.error > 1e3 * rest.error, "{difference:?} {rest:?}");
}

/// More points where the bound falls late, and none where the density hardly counts.
#[test]
fn the_reach_is_where_the_bound_has_fallen() {
    let sampled = Sampled {
        members: 1,
        rate: 0.1,
        scale: 1.0,
    };
    let mut segments = sampled.segments(Direction::Remove, 5.0);
    let epsilon = 2.0 * segments[0].loss.max_loss().rounded_up();
    let c = saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
    let tilt = Tilt::at_level(&mut segments, c, epsilon, 20.0).unwrap();
    let steps = Steps::new(&mut segments, &tilt).unwrap();
    let beside = steps.beside(0.0).unwrap();
    let reach = steps.reach(&beside, &tilt).unwrap();
    let tail = |reach: f64| beside.log_decay(reach) - (PI * reach).ln();
    assert!(
        tail(reach) <= -tilt.level && tail(0.85 * reach) > -tilt.level,
        "{reach}"
    );
}
