//! The split contour and its bounds against brute-force sums.

use super::ladder::{NEAR_TOLERANCE, left_out};
use super::*;
use crate::approx::Approx;
use crate::inversion::saddle;
use crate::loss::gate::Gate;
use crate::special::normal::log_upper_tail;
use crate::step::{Direction, GroupLaw};
use realfft::num_complex::Complex64;

/// How far above a gate outputs are near, in its widths.
const REACH: f64 = 11.0;

/// (1 − q)N(0, σ²) + qN(1, σ²) against N(0, σ²).
#[derive(Clone, Copy)]
struct Sampled {
    rate: f64,
    sigma: f64,
}

impl Sampled {
    fn segment(self, steps: f64) -> Segment {
        let law = GroupLaw::binomial(1, self.rate).unwrap();
        let loss = StepLoss::mixture(&law, self.sigma, Direction::Remove).unwrap().unwrap();
        Segment { loss, steps }
    }

    fn loss(self, x: f64) -> f64 {
        let exponent = (x - 0.5) / (self.sigma * self.sigma);
        (-self.rate + self.rate * exponent.exp()).ln_1p()
    }

    /// δ(ε) of one step, by the output at which the loss passes ε.
    fn one_step(self, epsilon: f64) -> f64 {
        let excess = epsilon.exp() - 1.0 + self.rate;
        if excess <= 0.0 {
            return -epsilon.exp_m1();
        }
        let x = 0.5 + self.sigma * self.sigma * (excess / self.rate).ln();
        let tail = |shift: f64| log_upper_tail((x - shift) / self.sigma).exp();
        (1.0 - self.rate) * tail(0.0) + self.rate * tail(1.0) - epsilon.exp() * tail(0.0)
    }

    /// E_P of a function of the output, by the trapezoidal rule; kinks of the integrand cost 1e-9 or so.
    fn mean(self, function: impl Fn(f64) -> f64) -> f64 {
        let step = self.sigma / 10_000.0;
        let term = |i: i32| {
            let x = f64::from(i) * step;
            let scale = step / (self.sigma * (2.0 * PI).sqrt());
            scale * (-0.5 * (x / self.sigma).powi(2) + self.loss(x)).exp() * function(x)
        };
        (-120_000..160_000).map(term).sum()
    }
}

#[test]
fn the_split_contour_contains_the_delta_of_one_and_of_two_steps() {
    for (sampled, epsilon) in [
        (Sampled { rate: 1e-3, sigma: 0.7 }, 1.0),
        (Sampled { rate: 1e-5, sigma: 0.5 }, 2.0),
        (Sampled { rate: 0.02, sigma: 0.4 }, 4.0),
    ] {
        let exact = [
            sampled.one_step(epsilon),
            sampled.mean(|x| sampled.one_step(epsilon - sampled.loss(x))),
        ];
        for (i, exact) in exact.into_iter().enumerate() {
            let mut segments = [sampled.segment(1.0 + i as f64)];
            let c = saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
            let found = contours(&mut segments, c, epsilon, (-12.0, None), 1e9, &mut 0).unwrap();
            let delta = found.delta(epsilon);
            let (low, high) = (delta.lower() * (1.0 - 1e-8), delta.upper() * (1.0 + 1e-8));
            assert!(low <= exact && exact <= high, "{i}: {delta:?} {exact}");
            assert!(delta.width() < 1e-3, "{i}: {delta:?}");
        }
    }
}

/// Where large losses are rare and small ones are many, bands at several scales add up to the curve.
#[test]
fn bands_add_up_to_the_delta_of_one_and_of_two_steps() {
    for (sampled, epsilon) in [
        (Sampled { rate: 1e-4, sigma: 0.5 }, 0.02),
        (Sampled { rate: 6e-4, sigma: 0.9 }, 0.01),
        (Sampled { rate: 2e-3, sigma: 1.4 }, 0.02),
    ] {
        let exact = [
            sampled.one_step(epsilon),
            sampled.mean(|x| sampled.one_step(epsilon - sampled.loss(x))),
        ];
        for (i, exact) in exact.into_iter().enumerate() {
            let segments = [sampled.segment(1.0 + i as f64)];
            let log_tolerance = -14.0;
            let allowed = exact.ln() + log_tolerance;
            let ladder = Ladder::new(
                &segments,
                (epsilon, allowed),
                Lowest::LeftOut,
                ladder::MAX_GATES,
                &mut 0,
            )
            .unwrap();
            assert!(ladder.gates.len() >= 4 && ladder.is_closed, "{:?}", ladder.losses);
            let mut truncated = segments.map(|segment| Segment {
                loss: segment.loss.truncated(-90.0, 1.0).0,
                steps: segment.steps,
            });
            let hint = (log_tolerance, Some(exact.ln()));
            let found = contours(&mut truncated, 10.0, epsilon, hint, 1e9, &mut 0).unwrap();
            assert!(found.len() >= 2);
            let delta = found.delta(epsilon);
            let (low, high) = (delta.lower() * (1.0 - 1e-8), delta.upper() * (1.0 + 1e-8));
            assert!(low <= exact && exact <= high, "{i}: {delta:?} {exact}");
            assert!(delta.width() < 1e-4, "{i}: {delta:?}");
        }
    }
}

/// Many steps of small losses, whose sums reach ε too often to be left out: the contours of them and of the bands enclose what the contour
/// of all runs does, with more digits, and a hundredth of δ is that of the small losses.
#[test]
fn runs_of_small_losses_have_a_contour_of_their_own() {
    for (records, rate, sigma, steps, epsilon) in [
        (11, 3.207_03e-5, 0.987_986, 25_752.0, 0.615_936),
        (2, 1.111_92e-5, 1.042_65, 92_215.0, 0.049_503),
    ] {
        let law = GroupLaw::binomial(records, rate).unwrap();
        let loss = StepLoss::mixture(&law, sigma, Direction::Remove).unwrap().unwrap();
        let segments = |level: f64| {
            let loss = loss.truncated(-level, 1.0).0;
            [Segment { loss, steps }]
        };
        let mut near_ones = segments(60.0);
        let c = saddle::for_epsilon(&mut near_ones, epsilon, None).unwrap();
        let tilt = Tilt::near(&mut near_ones, c, epsilon, (-16.0, None)).unwrap();
        let of_all = Contour::new(&mut near_ones, &tilt, Limits::of_products(1e9))
            .unwrap()
            .delta(epsilon);

        let mut all = segments(84.0);
        let c = saddle::for_epsilon(&mut all, epsilon, None).unwrap();
        let allowed = of_all.log_upper - 20.0;
        let left_out = Ladder::new(&all, (epsilon, allowed), Lowest::LeftOut, 1, &mut 0);
        assert!(left_out.is_none(), "{records}");
        let ladder = Ladder::new(&all, (epsilon, allowed), Lowest::Inverted, ladder::MAX_GATES, &mut 0).unwrap();
        let question = Question {
            epsilon,
            allowed,
            most_products: 1e9,
        };
        let mut small = near_parts(&all, &ladder.gates[0], ladder.reach).unwrap();
        let of_small = small_losses(&mut small, &question).unwrap().delta(epsilon);
        let found = by_bands(&mut all, ladder, c, &question, &mut 0).unwrap().delta(epsilon);
        assert!(found.log_lower <= of_all.log_upper && of_all.log_lower <= found.log_upper);
        assert!(
            found.width() < 1e-5 && found.width() < 0.1 * of_all.width(),
            "{found:?} {of_all:?}"
        );
        assert!(of_small.log_lower > found.log_upper - 10.0, "{of_small:?} {found:?}");
    }
}

/// With seven members in a batch on average, no run of 25 batches is without any; with one in two batches there are some.
#[test]
fn runs_without_any_member_are_told_from_others_only_where_there_are_some() {
    for (records, rate, expected) in [(738, 0.01, false), (50, 0.01, true)] {
        let law = GroupLaw::binomial(records, rate).unwrap();
        let loss = StepLoss::mixture(&law, 0.3, Direction::Remove).unwrap().unwrap();
        assert_eq!(is_promising(&[Segment { loss, steps: 25.0 }]), expected, "{records}");
    }
}

/// Fifteen steps in which few records are drawn may be split, and have to be where none is drawn in nearly all runs; a thousand need not.
#[test]
fn runs_are_split_where_many_of_them_have_no_far_step() {
    for (rate, sigma, steps, epsilon, expected) in [
        (0.0032, 0.779, 15.0, 0.353, Suitability::Alternative),
        (1e-6, 1.0, 15.0, 0.353, Suitability::Needed),
        (0.1, 1.0, 1000.0, 20.0, Suitability::Unsuited),
    ] {
        let segments = [Sampled { rate, sigma }.segment(steps)];
        assert_eq!(Suitability::at(&segments, epsilon), expected, "{rate} {steps}");
    }
}

/// Outputs far above a gate that they were not found to pass: nearly all of Φ(−r) where all outputs are that far above it.
#[test]
fn what_is_left_out_above_a_gate_is_bounded_and_nearly_attained() {
    let sampled = Sampled {
        rate: 0.01,
        sigma: 0.05,
    };
    let (reach, width) = (3.0, 2.0);
    let gate = Separation::Gate(Gate::above(-0.3 - reach * width, width));
    let segment = sampled.segment(1.0);
    let mass = |reach: f64| {
        let mut part = segment.loss.near_part(gate, reach).unwrap();
        part.moments(0.0, NEAR_TOLERANCE).log_moment.value.exp()
    };
    let missing = mass(f64::INFINITY) - mass(reach);
    let bound = log_upper_tail(reach).exp();
    assert!(missing <= bound && missing > 0.5 * bound, "{missing} {bound}");
}

/// The bound by which a band is neglected is E[e^{cℓ}; far] itself for one step, and its T-fold where far steps are rare.
#[test]
fn the_bound_on_the_runs_with_a_far_step_holds_and_is_attained() {
    let sampled = Sampled { rate: 0.01, sigma: 0.8 };
    for (steps, c, slack) in [(1.0, 0.7, 1e-4), (5.0, 0.7, 0.1)] {
        let mut segments = [sampled.segment(steps)];
        let gate = segments[0].loss.separation(0.5, 0.06).unwrap();
        let open = gate.gate().unwrap();
        let far_moment = sampled.mean(|x| (open.log_probability(x) + c * sampled.loss(x)).exp());
        let whole = sampled.mean(|x| (c * sampled.loss(x)).exp());
        let exact = (whole.powf(steps) - (whole - far_moment).powf(steps)).ln();
        let far = &mut far_parts(&segments, &[gate]).unwrap();
        let found = far_runs::log_bound(&mut segments, far, c);
        assert!(found >= exact - 1e-8 && found < exact + slack, "{found} {exact}");
    }
}

#[test]
fn the_moments_of_the_near_part_are_bounded_to_five_digits() {
    let sampled = Sampled { rate: 0.05, sigma: 0.8 };
    let segment = sampled.segment(3.0);
    let separation = segment.loss.separation(0.6, 0.1).unwrap();
    let Separation::Gate(gate) = separation else {
        panic!("the loss has no atom")
    };
    let mut part = segment.loss.near_part(separation, REACH).unwrap();
    let mut near_moment = |c: f64| part.moments(c, NEAR_TOLERANCE).log_moment.upper();
    for c in [0.5, 4.0, 20.0] {
        let shut = |x: f64| log_upper_tail((x - gate.from) / gate.width).exp();
        let exact = sampled.mean(|x| shut(x) * (c * sampled.loss(x)).exp()).ln();
        let bound = near_moment(c);
        assert!(bound >= exact - 1e-12 && bound < exact + 2e-5, "{c}: {bound} {exact}");
    }
    // The bounds that are stored are these, for all three steps, and one of them is small enough.
    let (epsilon, allowed) = (6.0, -20.0);
    let stored = left_out((&[segment], &[separation], REACH), (epsilon, epsilon), allowed, &mut 0).unwrap();
    for moment in &stored {
        assert_eq!(moment.log_moment, 3.0 * near_moment(moment.c));
    }
    assert!(stored.iter().any(|moment| moment.log_above(epsilon) <= allowed));
}

#[test]
fn the_bound_on_the_decay_is_attained_by_one_step() {
    // A loss of 0 with probability 0.9 and else N(2, 4): H(z) = 0.1·e^{2z(z + 1)}.
    for steps in [1.0, 3.0] {
        let loss = StepLoss::gaussians(vec![0.9f64.ln(), 0.1f64.ln()], vec![0.0, 2.0]);
        let mut segments = [Segment { loss, steps }];
        let near = Near {
            gates: vec![Separation::Atom],
            left_out: Vec::new(),
        };
        let c = 0.4;
        let tilt = Tilt::at_level(&mut segments, c, 3.0, 20.0).unwrap();
        let mut far = far_parts(&segments, &near.gates).unwrap();
        let mut split = parts(&mut segments, &mut far, &tilt).unwrap();
        let whole = 0.9 + 0.1 * (2.0 * c * (c + 1.0)).exp();
        for y in [0.5f64, 1.0, 2.0] {
            let modulus = 0.1 * (2.0 * (c * (c + 1.0) - y * y)).exp() / whole;
            let far = Complex64::from_polar(modulus, 2.0 * y * (2.0 * c + 1.0));
            let mut powers = Powers::default();
            let both = 0.9 / whole + far - 1.0;
            powers.multiply(Approx::exact(both), Approx::exact(far), steps);
            let exact = powers.difference().modulus.ln();
            let bound = decay(&mut split, y, None);
            assert!(bound >= exact - 1e-12, "{steps} {y}: {bound} {exact}");
            assert!(
                bound < exact + if steps > 1.0 { 0.9 } else { 1e-12 },
                "{steps} {y}: {bound} {exact}"
            );
        }
    }
}
