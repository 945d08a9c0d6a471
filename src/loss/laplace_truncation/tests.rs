//! What is left of truncated Laplace losses, and what they lack, against sums over the outputs.

use super::*;
use crate::loss::laplace_law::change_without_tilt;
use crate::step::GroupLaw;

/// Pairs of every kind: with few of many members in a batch, with many, with a certain shift, with much and little noise.
fn pairs() -> Vec<LaplaceLoss> {
    let binomial = |records, rate| GroupLaw::binomial(records, rate).unwrap();
    let mut found = Vec::new();
    for (law, scale) in [
        (binomial(60, 1e-3), 0.5),
        (binomial(60, 0.4), 0.4),
        (binomial(12, 0.02), 3.0),
        (binomial(40, 1.0), 0.3),
    ] {
        for direction in Direction::BOTH {
            found.push(LaplaceLoss::new(&law, scale, direction));
        }
        if law.shifts().len() > 1 {
            found.push(LaplaceLoss::mirrored(&law, scale));
        }
    }
    found
}

/// P's and Q's probabilities of all outputs that a loss has, by the rule of the middle, with e^{cℓ} under P.
fn masses(loss: &LaplaceLoss, c: f64) -> (f64, f64, f64) {
    const CELLS: usize = 4000;
    let (mut p, mut q, mut tilted) = (0.0, 0.0, 0.0);
    let mut add = |log_mass: f64, value: f64| {
        p += log_mass.exp();
        q += (log_mass - value).exp();
        tilted += (log_mass + c * value).exp();
    };
    for atom in loss.atoms() {
        add(atom.log_mass, atom.loss);
    }
    for (_, branch, piece) in loss.all_pieces() {
        for i in 0..CELLS {
            let x = piece as f64 + (i as f64 + 0.5) / CELLS as f64;
            let (log_ratio, _) = loss.log_ratio(piece, x);
            let log_density = loss.log_density(branch.direction, x, log_ratio);
            add(log_density - (CELLS as f64).ln(), branch.direction.sign() * log_ratio);
        }
    }
    (p, q, tilted)
}

/// What is left and what is left out have all the probability of both laws, and P's part of it is at most what may be left out.
#[test]
fn what_is_left_out_has_the_probabilities_that_the_rest_lacks() {
    let mut cut = 0;
    for whole in pairs() {
        for log_mass in [-3.0f64, -8.0] {
            let Some((kept, log_left_out)) = whole.without_rare(log_mass) else {
                continue;
            };
            cut += 1;
            let missing = kept.missing.unwrap();
            let (p, q, _) = masses(&kept, 0.0);
            assert!((p + missing.p.value - 1.0).abs() < 1e-6, "{log_mass}: {p} {missing:?}");
            assert!((q + missing.q.value - 1.0).abs() < 1e-6, "{log_mass}: {q} {missing:?}");
            assert!(log_left_out <= log_mass + 1e-8, "{log_left_out} {log_mass}");
            // Half of it is too little, even for the rule of the middle.
            let lacking = 1.0 - p;
            assert!(lacking <= log_left_out.exp() + 1e-6 && lacking > 0.5 * log_left_out.exp() + 2e-6);
            assert!(kept.pieces() < whole.pieces() || kept.branches()[0].first > 0);
            assert!(kept.without_rare(-1.0).is_none());
        }
    }
    assert!(cut > 12, "{cut}");
}

/// Moments of what is left, at positive and negative tilts, are sums over its outputs, where they are near 1 and where they are not.
#[test]
fn moments_are_those_of_the_outputs_that_are_left() {
    for whole in pairs() {
        let Some((mut kept, _)) = whole.without_rare(-6.0) else {
            continue;
        };
        let typical = 1.0 / kept.max_loss.rounded_up();
        for c in [
            -0.3 * typical.min(1.0),
            0.0,
            1e-3 * typical,
            0.4 * typical,
            5.0 * typical,
        ] {
            let found = kept.nodes(c, 0.0).log_moment;
            let (.., exact) = masses(&kept, c);
            assert!(found.error < 1e-10, "{c}: {found:?}");
            assert!((found.value - exact.ln()).abs() < 2e-6, "{c}: {found:?} {}", exact.ln());
            if let Some(estimate) = kept.estimate(c) {
                assert!(
                    (estimate.log_moment.value - found.value).abs() < 1e-7,
                    "{c}: {estimate:?}"
                );
            }
        }
    }
}

/// One step: δ of what is left is between that of everything and as much less as is left out, by sums over the outputs.
#[test]
fn one_step_is_enclosed() {
    const CELLS: usize = 2000;
    for whole in pairs() {
        let Some((kept, log_left_out)) = whole.without_rare(-5.0) else {
            continue;
        };
        let largest = whole.max_loss.rounded_up();
        for epsilon in [-0.5, -0.01, 0.0, 1e-3, 0.03, 0.4, 3.0, 0.9 * largest] {
            let gain = |log_mass: f64, value: f64| log_mass.exp() * (-(epsilon - value).exp_m1()).max(0.0);
            let atoms: f64 = kept.atoms().iter().map(|atom| gain(atom.log_mass, atom.loss)).sum();
            let of = |(_, branch, piece): (usize, crate::loss::laplace::Branch, usize)| -> f64 {
                let cell = |i: usize| {
                    let x = piece as f64 + (i as f64 + 0.5) / CELLS as f64;
                    let (log_ratio, _) = kept.log_ratio(piece, x);
                    let log_density = kept.log_density(branch.direction, x, log_ratio);
                    gain(log_density, branch.direction.sign() * log_ratio) / CELLS as f64
                };
                (0..CELLS).map(cell).sum()
            };
            let exact = atoms + kept.all_pieces().into_iter().map(of).sum::<f64>();
            let found = kept.enclosure_of_one_step(epsilon);
            let of_whole = whole.enclosure_of_one_step(epsilon);
            let room = 2e-6 * (1.0 + exact);
            assert!(
                found.lower() <= exact + room && exact <= found.upper() + room,
                "{epsilon}: {found:?} {exact}"
            );
            let most = exact + log_left_out.exp() + room;
            assert!(
                exact <= of_whole.upper() + room && of_whole.lower() <= most,
                "{epsilon}"
            );
            assert!(
                found.upper() - found.lower() <= 2.1 * log_left_out.exp() + 1e-9,
                "{epsilon}: {found:?}"
            );
        }
    }
}

/// Of "add" every kept output counts where ε is below all losses: 1 − e^ε would leave out what Q lacks.
#[test]
fn all_that_is_left_counts_below_its_smallest_loss() {
    let law = GroupLaw::binomial(60, 0.4).unwrap();
    let whole = LaplaceLoss::new(&law, 0.4, Direction::Add);
    let (kept, _) = whole.without_rare(-4.0).unwrap();
    let last = kept.pieces() as f64;
    let epsilon = -kept.log_ratio(kept.pieces() - 1, last).0 - 0.1;
    // Q has Σ w_j P(Lap(j) ≤ last).
    let left = |(log_weight, shift): (&f64, &f64)| {
        let below = (last - shift) / 0.4;
        let part = if below > 0.0 {
            1.0 - 0.5 * (-below).exp()
        } else {
            0.5 * below.exp()
        };
        (log_weight + epsilon).exp() * part
    };
    let of_q: f64 = law.log_weights().iter().zip(law.shifts()).map(left).sum();
    let exact = 1.0 - 0.5 * (-last / 0.4).exp() - of_q;
    let found = kept.log_one_step(epsilon);
    assert!(
        found.lower.exp() <= exact + 1e-15 && exact <= found.upper.exp() + 1e-15 && found.width() < 1e-8,
        "{found:?} {exact}"
    );
    assert!(kept.missing.unwrap().q.value > 0.9);
}

/// The components beyond the last output that is kept are one component there: closed forms agree up to what is left out.
#[test]
fn gathered_components_have_the_density_of_all() {
    let law = GroupLaw::binomial(200, 0.1).unwrap();
    let whole = LaplaceLoss::new(&law, 0.7, Direction::Add);
    let (kept, _) = whole.without_rare(-30.0).unwrap();
    assert_eq!(kept.log_weights.len(), kept.pieces() + 2);
    for epsilon in [0.5, 3.0, 8.0, 14.0] {
        let (of_all, of_kept) = (whole.log_one_step(epsilon), kept.log_one_step(epsilon));
        assert!(
            (of_all.upper - of_kept.upper).abs() < 1e-9,
            "{epsilon}: {of_all:?} {of_kept:?}"
        );
    }
}

/// One record has two atoms and one piece, and a record that is replaced in a fixed batch three and two: nothing is rare there.
#[test]
fn nothing_is_left_out_of_one_record() {
    let law = GroupLaw::binomial(1, 1e-9).unwrap();
    for direction in Direction::BOTH {
        assert!(LaplaceLoss::new(&law, 0.01, direction).without_rare(-2.0).is_none());
    }
    assert!(LaplaceLoss::replaced(0.3, 0.05).without_rare(-2.0).is_none());
    let group = LaplaceLoss::new(&GroupLaw::binomial(30, 0.5).unwrap(), 1.0, Direction::Remove);
    assert!(group.without_rare(f64::NEG_INFINITY).is_none());
}

/// Clusters, and what is between them, have what is left of both laws.
#[test]
fn clusters_have_what_is_left() {
    const CELLS: usize = 2000;
    for whole in pairs() {
        let Some((kept, _)) = whole.without_rare(-6.0) else {
            continue;
        };
        let missing = kept.missing.unwrap();
        let range = kept.max_loss.rounded_up();
        for width in [0.0, 1e-3 * range, 3.0 * range] {
            let (mut p, mut q) = (missing.p.value, missing.q.value);
            for cluster in kept.clusters_within(width) {
                p += cluster.log_p.exp();
                q += cluster.log_q.exp();
            }
            let each = kept.stretches();
            for range in kept.between(width) {
                for cell in range.first * CELLS..range.last * CELLS {
                    let x = (cell as f64 + 0.5) / (CELLS * each) as f64;
                    let (log_ratio, _) = kept.log_ratio((x as usize).min(kept.pieces() - 1), x);
                    let direction = range.branch.direction;
                    let mass = kept.log_density(direction, x, log_ratio).exp() / (CELLS * each) as f64;
                    p += mass;
                    q += mass * (-direction.sign() * log_ratio).exp();
                }
            }
            assert!((p - 1.0).abs() < 1e-6 && (q - 1.0).abs() < 1e-6, "{width}: {p} {q}");
        }
    }
}

/// A panel of which e^{cℓ} is next to nothing counts like what is left out.
#[test]
fn what_is_left_out_counts_like_a_panel_without_tilt() {
    let whole = LaplaceLoss::new(&GroupLaw::binomial(60, 1e-3).unwrap(), 0.5, Direction::Add);
    let (kept, _) = whole.without_rare(-6.0).unwrap();
    let Missing { p, q, .. } = kept.missing.unwrap();
    let found = change_without_tilt(2.0, p, q);
    assert!((found.value - (2.0 * (q.value - p.value) - p.value)).abs() < 1e-15);
}
