use super::*;
use crate::curve::composition::Composition;
use crate::interval::Interval;
use crate::step::Adjacency;

fn run(sampling: Sampling, scale: f64, steps: u64, adjacency: Adjacency) -> Composition {
    let step = Step {
        mechanism: Mechanism::Laplace { scale },
        sampling,
        group: Group::of(1),
    };
    Composition::new(&[(step, steps)], adjacency).unwrap()
}

fn delta(sampling: Sampling, scale: f64, steps: u64, adjacency: Adjacency, epsilon: f64) -> Enclosure {
    run(sampling, scale, steps, adjacency).delta(epsilon, 1e-7).unwrap()
}

fn allocation(batches: u64) -> Sampling {
    Sampling::RandomAllocation { batches, times: 1 }
}

/// Likelihood ratios of one batch and their probabilities under Q, without cells: log Y is −1/b with probability 1/2, 1/b with e^{−1/b}/2, and
/// (2x − 1)/b at x in [0, 1] with the density e^{−x/b}/(2b).
fn ratios(scale: f64, points: i32) -> Vec<(f64, f64)> {
    let width = 1.0 / f64::from(points);
    let at = |i: i32| {
        let x = (f64::from(i) + 0.5) * width;
        (
            ((2.0 * x - 1.0) / scale).exp(),
            0.5 / scale * (-x / scale).exp() * width,
        )
    };
    let mut found: Vec<(f64, f64)> = (0..points).map(at).collect();
    found.extend([
        ((-1.0 / scale).exp(), 0.5),
        ((1.0 / scale).exp(), 0.5 * (-1.0 / scale).exp()),
    ]);
    found
}

/// Two batches of which both or, of three, two are released: the integral over both outputs is in the interval, which is narrow.
#[test]
fn epochs_of_two_batches_hold_their_integral() {
    let epsilon = 0.3f64;
    for (scale, total, still) in [(1.0, 2, 0.0), (0.6, 3, 1.0)] {
        let outputs = ratios(scale, 3000);
        let (mut removed, mut added) = (0.0, 0.0);
        for (y, p) in &outputs {
            for (z, q) in &outputs {
                let w = (still + y + z) / f64::from(total);
                removed += p * q * (w - epsilon.exp()).max(0.0);
                added += p * q * (1.0 - epsilon.exp() * w).max(0.0);
            }
        }
        for (adjacency, exact) in [(Adjacency::Remove, removed), (Adjacency::Add, added)] {
            let found = delta(allocation(total as u64), scale, 2, adjacency, epsilon);
            // The sum over points is right to the square of their distance.
            let room = 1e-6 * exact;
            assert!(
                found.lower() - room < exact && exact < found.upper() + room,
                "{adjacency:?} {found:?} {exact}"
            );
            assert!(found.upper() - found.lower() < 3e-6 * exact, "{adjacency:?} {found:?}");
        }
    }
}

/// The interval of an epoch holds those of coarser lattices, whose γ is smaller; a γ of 1 on a coarse lattice would give a lower end above it.
#[test]
fn intervals_of_coarse_lattices_hold_those_of_fine_ones() {
    for direction in [Direction::Remove, Direction::Add] {
        let loss = |cells: usize| DealtLaplace {
            epoch: Arc::new(Epoch::new(Batch::new(1.0, cells), 20, 20)),
            ..DealtLaplace::new(1.0, (20, 20), direction)
        };
        let at = |cells: usize, epsilon: f64| loss(cells).one_step(epsilon, 1e-6, &mut Effort::default());
        for epsilon in [-0.2, 0.0, 0.3, 0.8] {
            let fine = at(2000, epsilon);
            for cells in [8, 40, 200] {
                let coarse = at(cells, epsilon);
                assert!(
                    coarse.lower() <= fine.lower() && fine.upper() <= coarse.upper(),
                    "{epsilon} {cells}"
                );
            }
            let spread = loss(8).epoch;
            let uncontracted = match direction {
                Direction::Remove => spread.log_above(&Threshold::of_log(epsilon), End::Lower).exp(),
                Direction::Add => (epsilon + spread.log_below(&Threshold::of_log(-epsilon), End::Lower)).exp(),
            };
            assert!(uncontracted > fine.upper());
        }
    }
}

/// Two and five epochs: the grid's interval holds the sum over all pairs of atoms of a coarse lattice, and its moments those of the atoms.
#[test]
fn epochs_are_composed() {
    let (batches, cells) = (6u64, 20);
    for direction in [Direction::Remove, Direction::Add] {
        let epoch = Arc::new(Epoch::new(Batch::new(1.0, cells), batches, batches));
        let mut loss = DealtLaplace {
            epoch: Arc::clone(&epoch),
            coarse: Arc::clone(&epoch),
            ..DealtLaplace::new(1.0, (batches, batches), direction)
        };
        let law = epoch.law(0).unwrap();
        let ratios: Vec<(f64, f64)> = law
            .masses
            .iter()
            .enumerate()
            .map(|(i, q)| (1.0 + epoch.excess(law.first + i as f64), *q))
            .collect();
        for c in [-0.4f64, 0.7, 2.0] {
            let exponent = loss.tilt(c).exponent();
            let exact: f64 = ratios.iter().map(|(w, q)| q * w.powf(exponent)).sum();
            let found = loss.moments(c, -30.0).log_moment;
            assert!(exact.ln() <= found.upper() + 1e-12, "{c}: {} {found:?}", exact.ln());
            assert!(found.error < 0.05 * exact.ln().abs(), "{c}: {} {found:?}", exact.ln());
        }
        let epsilon = 0.4f64;
        let mut exact = 0.0;
        for (w, q) in &ratios {
            for (v, p) in &ratios {
                exact += q
                    * p
                    * match direction {
                        Direction::Remove => (w * v - epsilon.exp()).max(0.0),
                        Direction::Add => (1.0 - epsilon.exp() * w * v).max(0.0),
                    };
            }
        }
        let mut run = crate::curve::composed_loss::ComposedLoss::new(
            vec![(StepOutcome::Loss(StepLoss::new(loss)), 2)],
            direction == Direction::Add,
        );
        let found = run.delta(epsilon, 1e-6);
        assert!(
            found.lower() <= exact && exact <= found.upper() * (1.0 + 1e-12),
            "{found:?} {exact}"
        );
    }
}

/// One batch is the full batch; many batches after many epochs are near Poisson sampling; a part of an epoch reveals less than a whole one.
#[test]
fn limits_are_those_of_other_schemes() {
    let full = delta(Sampling::Poisson { sample_rate: 1.0 }, 2.0, 3, Adjacency::Remove, 0.7);
    let one = delta(allocation(1), 2.0, 3, Adjacency::Remove, 0.7);
    assert_eq!(one, full);
    let dealt = delta(allocation(200), 1.0, 10_000, Adjacency::AddRemove, 1.5);
    let poisson = delta(
        Sampling::Poisson { sample_rate: 0.005 },
        1.0,
        10_000,
        Adjacency::AddRemove,
        1.5,
    );
    assert!(
        (dealt.upper() / poisson.upper() - 1.0).abs() < 0.2,
        "{dealt:?} {poisson:?}"
    );
    let of = |steps: u64| delta(allocation(10), 1.0, steps, Adjacency::AddRemove, 0.5).upper();
    assert!(of(10) < of(13) && of(13) < of(17) && of(17) < of(20));
}

/// ε to 1e-6 after one epoch, and to 2e-5 after several, which a grid composes.
#[test]
fn epsilon_is_narrow() {
    for (scale, batches, epochs, log_delta) in [
        (1.0, 100, 1, -5),
        (20.0, 1000, 1, -9),
        (1.0, 100, 1, -50),
        (1.0, 100, 10, -5),
        (1.0, 10, 2, -6),
        (1.0, 200, 50, -5),
    ] {
        let mut run = run(allocation(batches), scale, batches * epochs, Adjacency::AddRemove);
        let Interval { lower, upper } = run.epsilon(10f64.powi(log_delta), 1e-6).unwrap();
        let width = if epochs == 1 { 1e-6 } else { 2e-5 };
        assert!(
            upper > 0.0 && upper - lower <= width * upper,
            "{scale} {batches} {epochs}: {lower} {upper}"
        );
    }
}

/// Orders 2 and 3 of two batches by their moments: E_Q[W²] = (1 + m₂)/2 and E_Q[W³] = (m₃ + 3m₂)/4 with the moments m of one Y; huge orders
/// end at the largest loss.
#[test]
fn renyi_divergences_are_finite_and_those_of_the_moments() {
    let scale = 1.0f64;
    let moment = |k: f64| {
        let ends = 0.5 * (-k / scale).exp() + 0.5 * ((k - 1.0) / scale).exp();
        let rate = (2.0 * k - 1.0) / scale;
        ends + 0.5 / scale * (-k / scale).exp() * rate.exp_m1() / rate
    };
    assert!((moment(1.0) - 1.0).abs() < 1e-14);
    let mut run = run(allocation(2), scale, 6, Adjacency::Remove);
    for (order, exact) in [
        (2.0, 0.5 * (1.0 + moment(2.0))),
        (3.0, 0.25 * (moment(3.0) + 3.0 * moment(2.0))),
    ] {
        let (found, exact) = (run.renyi(order).unwrap(), 3.0 * exact.ln() / (order - 1.0));
        assert!(
            found >= exact * (1.0 - 1e-12) && found < exact * (1.0 + 1e-5),
            "{order}: {found} {exact}"
        );
    }
    let huge = run.renyi(1e9).unwrap();
    assert!(huge > 2.999 && huge <= 3.0 * (1.0 + 1e-9), "{huge}");
    assert!(run.epsilon(1e-18, 1e-6).unwrap().upper <= 3.0 * (1.0 + 1e-9));
    assert_eq!(run.delta(3.01, 1e-6).unwrap().certified().unwrap().upper(), 0.0);
}

/// The largest loss is 1/b, and of two added records with it δ is at least ¼(1 − e^{ε − 1/b}) for each epoch of two batches.
#[test]
fn ends_of_little_noise_are_those_of_the_largest_loss() {
    for scale in [0.3, 0.1, 1.0 / 30.0, 0.02] {
        let most = 1.0 / scale;
        for distance in [1e-3, 1e-6, 1e-9, 1e-12] {
            let at = |epsilon: f64, adjacency| delta(allocation(2), scale, 2, adjacency, epsilon);
            let least = -0.25 * (most * (1.0 - distance) - most).exp_m1();
            assert!(at(most * (1.0 - distance), Adjacency::Add).upper() >= least * (1.0 - 1e-3));
            for adjacency in [Adjacency::Add, Adjacency::Remove] {
                assert_eq!(at(most * (1.0 + distance), adjacency), Enclosure::ZERO);
                assert_eq!(at(720.0, adjacency), Enclosure::ZERO);
            }
        }
    }
    // Two epochs, and the largest ε that an interval for a small δ has to hold.
    assert_eq!(
        delta(allocation(2), 1.0 / 36.0, 4, Adjacency::Add, 72.000_02),
        Enclosure::ZERO
    );
    let upper = run(allocation(2), 0.02, 2, Adjacency::Add)
        .epsilon(1e-5, 1e-6)
        .unwrap()
        .upper;
    // ¼(1 − e^{ε − 50}) = 1e-5 at ε = 50 + log1p(−4e-5).
    assert!((50.0 - 4.1e-5..=50.0 + 1e-9).contains(&upper), "{upper}");
}

/// With next to no noise nothing is known but the largest loss, and the curve of a batch that is published.
#[test]
fn little_noise_has_the_bounds_of_a_published_batch() {
    let scale = 0.009;
    let most = 1.0 / scale;
    for (steps, epochs) in [(2, 1.0), (4, 2.0)] {
        for adjacency in [Adjacency::Add, Adjacency::Remove] {
            let at = |epsilon: f64| delta(allocation(2), scale, steps, adjacency, epsilon);
            for epsilon in [most * epochs * (1.0 + 1e-12), 720.0, 1e4] {
                assert_eq!(at(epsilon), Enclosure::ZERO, "{epsilon}");
            }
            // All ratios are at their end with a probability of e^{−n·log 2} under the law without the record.
            let inside = at(most * epochs - 1.0);
            let least = match adjacency {
                Adjacency::Add => 0.25f64.powf(epochs) * 0.6,
                _ => 0.0,
            };
            assert!(inside.upper() >= least && inside.lower() < 1.0, "{inside:?}");
        }
    }
    // 1 − e^{(ε − 1/b)/2} of one batch, two of three of which are released.
    let found = delta(allocation(3), scale, 2, Adjacency::Remove, most - 1.5);
    let exact = -2.0 / 3.0 * f64::exp_m1(-0.75);
    assert!(
        found.lower() == 0.0 && (found.upper() / exact - 1.0).abs() < 1e-9,
        "{found:?}"
    );
    assert!(matches!(
        outcome(0.001, 3, 4, Direction::Remove).unwrap(),
        StepOutcome::Loss(_)
    ));
    assert!(matches!(
        outcome(1e-301, 3, 4, Direction::Remove).unwrap(),
        StepOutcome::RevealsMembership { log_unseen } if (log_unseen - 0.25f64.ln()).abs() < 1e-15
    ));
    assert!(outcome(-1.0, 2, 2, Direction::Add).is_err() && outcome(1.0, 2, 1 << 21, Direction::Add).is_err());
}
