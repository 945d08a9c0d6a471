use super::*;
use crate::curve::composition::Composition;
use crate::interval::Enclosure;
use crate::loss::one_step;
use crate::step::{Adjacency, Group, Mechanism, Sampling, Step};
use realfft::num_complex::Complex64;

/// δ of one epoch: t, σ, ε, removed, added. Removed: E[(e^ε − W)₊] + 1 − e^ε from (1/2πi)∫ e^{s·e^ε}·E[e^{−sW}]·s^{−2} ds along Re s = 3/2
/// and Re s = 5/2, which agree to these digits, in numbers of 64 bits of precision. Added: in ball arithmetic, 40 digits.
const EPOCHS: [(u64, f64, f64, f64, f64); 8] = [
    (10, 1.0, 1.0, 2.782_868_999_181_5e-3, 4.861_858_084_4e-4),
    (100, 1.0, 0.5, 4.408_908_033_863e-5, 5.925_283_691_709e-7),
    (100, 1.0, 0.857_986, 9.999_997_944_6e-7, 3.491_027_071_5e-15),
    (100, 1.0, 1.2, 6.211_689_677e-8, 2.41e-27),
    (1000, 1.0, 0.1, 1.482_069_027_274e-4, 9.283_392_049_104e-5),
    (1000, 1.0, 0.171_283, 1.029_299_873_92e-6, 8.366_439_305_238e-8),
    (100, 2.0, 0.1, 6.737_179_842_694e-4, 6.384_510_050_890e-4),
    (100, 2.0, 0.25, 2.319_889_632_503e-8, 1.250_538_438_624e-8),
];

fn run(sampling: Sampling, sigma: f64, steps: u64, adjacency: Adjacency) -> Composition {
    let step = Step {
        mechanism: Mechanism::Gaussian {
            noise_multiplier: sigma,
        },
        sampling,
        group: Group::of(1),
    };
    Composition::new(&[(step, steps)], adjacency).unwrap()
}

fn allocation(batches: u64) -> Sampling {
    Sampling::RandomAllocation { batches, times: 1 }
}

/// Few batches and much noise: t, σ, epochs, ε, removed, added. From the density of W by a sum of its characteristic function, in double
/// precision; two epochs by a convolution of the density of log W.
const MUCH_NOISE: [(u64, f64, u64, f64, f64, f64); 3] = [
    (10, 20.0, 1, 0.04, 2.961_491_960_6e-5, 2.960_701_355_6e-5),
    (10, 5.0, 1, 0.2, 1.693_795_085_6e-5, 1.643_153_861_6e-5),
    (4, 100.0, 2, 0.0175, 1.545_163_397_7e-5, 1.545_160_486_0e-5),
];

/// The interval of δ holds the value to its digits and is narrow.
fn assert_near(found: Enclosure, exact: f64, digits: f64, name: &str) {
    let found = found.certified().unwrap();
    assert!(
        found.lower() <= exact * (1.0 + digits) && exact * (1.0 - digits) <= found.upper(),
        "{name}: {found:?} {exact}"
    );
    assert!(found.width() <= 1e-6, "{name}: {}", found.width());
}

#[test]
fn one_epoch_meets_the_references() {
    for (t, sigma, epsilon, remove, add) in EPOCHS {
        for (adjacency, exact) in [(Adjacency::Remove, remove), (Adjacency::Add, add)] {
            let found = run(allocation(t), sigma, t, adjacency).delta(epsilon, 1e-8).unwrap();
            let digits = if exact < 1e-20 { 2e-3 } else { 2e-9 };
            assert_near(found, exact, digits, &format!("{t} {sigma} {epsilon} {adjacency:?}"));
        }
    }
}

#[test]
fn few_batches_with_much_noise_meet_the_references() {
    for (t, sigma, epochs, epsilon, remove, add) in MUCH_NOISE {
        for (adjacency, exact) in [(Adjacency::Remove, remove), (Adjacency::Add, add)] {
            let found = run(allocation(t), sigma, t * epochs, adjacency)
                .delta(epsilon, 1e-8)
                .unwrap();
            assert_near(found, exact, 3e-9, &format!("{t} {sigma} {epochs} {adjacency:?}"));
        }
    }
}

/// t = 100, σ = 1, ε = 0.6, in ball arithmetic.
#[test]
fn two_epochs_meet_the_references() {
    for (adjacency, exact, digits) in [
        (Adjacency::Remove, 1.246_18e-4, 5e-6),
        (Adjacency::Add, 1.754_510_718_7e-5, 1e-10),
    ] {
        let found = run(allocation(100), 1.0, 200, adjacency).delta(0.6, 1e-8).unwrap();
        assert_near(found, exact, digits, &format!("{adjacency:?}"));
    }
}

/// Published ε of one epoch of two batches, and of ten epochs of 100.
#[test]
fn published_values_are_met() {
    for (t, sigma, steps, delta, remove, add) in [
        (2, 1.0, 2, 1e-3, 2.495_791_9, 2.173_855_9),
        (2, 2.0, 2, 1e-5, 1.461_945_3, 1.380_546_8),
    ] {
        for (adjacency, exact) in [(Adjacency::Remove, remove), (Adjacency::Add, add)] {
            let found = run(allocation(t), sigma, steps, adjacency)
                .epsilon(delta, 1e-8)
                .unwrap();
            assert!(
                found.lower <= exact + 1e-7 && exact - 1e-7 <= found.upper && found.upper - found.lower < 1e-6,
                "{t} {sigma} {adjacency:?}: {found:?}"
            );
        }
    }
    let found = run(allocation(10), 1.0, 10, Adjacency::AddRemove)
        .epsilon(1e-6, 1e-7)
        .unwrap();
    assert!(
        (found.lower - 2.652_405).abs() < 1e-6 && (found.upper - 2.652_405).abs() < 1e-6,
        "{found:?}"
    );
    let found = run(allocation(100), 2.0, 1000, Adjacency::AddRemove)
        .epsilon(1e-5, 1e-7)
        .unwrap();
    assert!(
        (found.lower - 0.6031).abs() < 1e-4 && found.upper - found.lower < 1e-6,
        "{found:?}"
    );
    let same = Sampling::FixedBins { batches: 100 };
    let found = run(same, 2.0, 1000, Adjacency::AddRemove).epsilon(1e-5, 1e-7).unwrap();
    assert!(
        (found.lower - 2.959).abs() < 1e-3 && found.upper - found.lower < 1e-6,
        "{found:?}"
    );
}

/// One batch is all of the data: the closed form of a Gaussian pair.
#[test]
fn one_batch_is_the_full_batch() {
    let mut found = run(allocation(1), 2.0, 4, Adjacency::AddRemove);
    let mut same = run(Sampling::FixedBins { batches: 1 }, 2.0, 4, Adjacency::AddRemove);
    for epsilon in [0.1, 1.0, 3.0] {
        let exact = one_step::gaussian_delta(1.0, epsilon);
        for found in [found.delta(epsilon, 1e-8).unwrap(), same.delta(epsilon, 1e-8).unwrap()] {
            assert!((found.log_upper - exact.log_upper).abs() < 1e-9, "{found:?} {exact:?}");
        }
    }
}

/// One of two batches: W = (1 + Y)/2 is what a record that is in the batch with probability 1/2 shows.
#[test]
fn half_an_epoch_of_two_batches_is_a_poisson_step_at_rate_one_half() {
    for adjacency in [Adjacency::Remove, Adjacency::Add] {
        let mut found = run(allocation(2), 1.0, 1, adjacency);
        let mut exact = run(Sampling::Poisson { sample_rate: 0.5 }, 1.0, 1, adjacency);
        for epsilon in [0.1, 0.4, 0.65] {
            let exact = exact.delta(epsilon, 1e-8).unwrap();
            let found = found.delta(epsilon, 1e-8).unwrap();
            assert!(
                found.log_lower <= exact.log_upper + 1e-9 && exact.log_lower <= found.log_upper + 1e-9,
                "{adjacency:?} {epsilon}: {found:?} {exact:?}"
            );
        }
    }
}

/// What is refused.
#[test]
fn combinations_without_a_proof_are_refused() {
    let step = |mechanism, size| Step {
        mechanism,
        sampling: allocation(10),
        group: Group::of(size),
    };
    let gaussian = Mechanism::Gaussian { noise_multiplier: 1.0 };
    for (step, adjacency) in [
        (step(Mechanism::Laplace { scale: 1.0 }, 2), Adjacency::Replace),
        (step(gaussian, 1), Adjacency::Replace),
        (
            step(
                Mechanism::Skellam {
                    variance: 1.0,
                    sensitivity: 1,
                },
                1,
            ),
            Adjacency::Add,
        ),
    ] {
        assert!(Composition::new(&[(step, 10)], adjacency).is_err());
    }
    assert!(step(gaussian, 1).outcome(Some(Direction::Add)).is_err());
}

/// Moments at c and φ at y = 6, from integrals over one variable.
#[test]
fn moments_and_transforms_are_those_of_one_integral() {
    for (name, v, w, log, real, imaginary) in MOMENTS {
        let batches = if name == "two" {
            vec![(2, v)]
        } else {
            vec![(1, v), (1, 0.0)]
        };
        let (direction, c) = if w > 0.0 {
            (Direction::Remove, w - 1.0)
        } else {
            (Direction::Add, -w)
        };
        let mut loss = StepLoss::allocation(Bins::new(&batches).unwrap(), direction);
        let mut tilted = loss.tilted(c, -30.0);
        let moments = tilted.moments();
        assert!(
            (moments.log_moment.value - log).abs() <= moments.log_moment.error,
            "{name} {v} {w}: {moments:?}"
        );
        assert!(moments.log_moment.error < 1e-10, "{name} {v} {w}: {moments:?}");
        tilted.certify(6.0);
        let change = tilted.changes(1.5, 4)[4];
        let imaginary = if w > 0.0 { -imaginary } else { imaginary };
        assert!(
            (change.value + 1.0 - Complex64::new(real, imaginary)).norm() <= change.error,
            "{name} {v} {w}: {change:?}"
        );
        assert!(change.error < 1e-8, "{name} {v} {w}: {change:?}");
        let decay = tilted.log_decay(6.0);
        assert!(real.hypot(imaginary).ln() <= decay + 1e-12, "{name} {v} {w}: {decay}");
    }
}

/// W = (Y₁ + Y₂)/2 and W = (Y + 1)/2: v, w, log M(w), M(w − 6i)/M(w). By mpmath with 30 digits, for two batches as
/// e^{w²v/4 − wv/2}·E[cosh(√(v/2)·g)^w].
const MOMENTS: [(&str, f64, f64, f64, f64, f64); 12] = [
    (
        "two",
        1.0,
        3.3,
        2.5147808885488665,
        2.309924732697999e-07,
        -1.66787129732533e-05,
    ),
    (
        "two",
        1.0,
        0.5,
        -0.07355918123888021,
        4.4603607452904634e-05,
        4.614073732502865e-05,
    ),
    (
        "two",
        1.0,
        -4.2,
        5.969757822134265,
        -9.11521245672982e-05,
        5.039604958472892e-05,
    ),
    (
        "two",
        0.25,
        3.3,
        0.5071861584787571,
        -0.04890062039099895,
        -0.07232037768359079,
    ),
    (
        "two",
        0.25,
        0.5,
        -0.016499704302724873,
        0.09457363111382458,
        0.004153822949170943,
    ),
    (
        "two",
        0.25,
        -4.2,
        1.4230939316975169,
        -0.08636030480386916,
        -0.0506838382584528,
    ),
    (
        "half",
        1.0,
        3.3,
        1.8938667628542536,
        0.0011902269306056236,
        0.005827965563180426,
    ),
    (
        "half",
        1.0,
        0.5,
        -0.03091529234658874,
        -0.0962679743106593,
        0.19036844771750447,
    ),
    (
        "half",
        1.0,
        -4.2,
        1.3275877977428265,
        -0.6136732170145287,
        0.2143587968109938,
    ),
    (
        "half",
        0.25,
        3.3,
        0.2841912945655466,
        0.14958765637115443,
        -0.11624869808317351,
    ),
    (
        "half",
        0.25,
        0.5,
        -0.007805694355806307,
        0.34708937591005407,
        0.13315434261978576,
    ),
    (
        "half",
        0.25,
        -4.2,
        0.5317482150612413,
        0.1286888300896819,
        0.5948137162876762,
    ),
];
