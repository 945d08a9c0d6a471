//! What every kind of loss must satisfy, tested on all of them.

use super::*;
use crate::loss::smooth_piece::Scratch;
use crate::special::gauss_legendre::GaussLegendre;
use crate::step::{Direction, GroupLaw};

/// A loss of each kind, of pairs in which members are rare and of others.
fn all_kinds() -> Vec<(&'static str, StepLoss)> {
    let law = |records, rate| GroupLaw::binomial(records, rate).unwrap();
    let batch = GroupLaw::hypergeometric(1, 20, 100).unwrap();
    let half = [0.5f64.ln(), 0.5f64.ln()].to_vec();
    let mut losses = vec![
        ("one Gaussian", StepLoss::shift(1.3)),
        ("two Gaussians", StepLoss::gaussians(half, vec![0.0, 1.1])),
        (
            "replaced, Poisson",
            StepLoss::replace_poisson(&GroupLaw::binomial(1, 0.1).unwrap(), 1.2)
                .unwrap()
                .unwrap(),
        ),
        (
            "replaced, batch",
            StepLoss::replace_fixed_batch(&batch, 1.7).unwrap().unwrap(),
        ),
        (
            "mirrored, Laplace",
            StepLoss::mirrored_laplace(&GroupLaw::binomial(2, 0.1).unwrap(), 1.7)
                .unwrap()
                .unwrap(),
        ),
        ("replaced, Laplace", StepLoss::replaced_laplace(&batch, 0.8).unwrap()),
        ("replaced, bit", StepLoss::replaced_response(&batch, 0.7).unwrap()),
    ];
    losses.extend(crate::loss::public_outcome::tests::kinds());
    for direction in [Direction::Remove, Direction::Add] {
        losses.push((
            "mixture",
            StepLoss::mixture(&law(3, 0.1), 1.1, direction).unwrap().unwrap(),
        ));
        losses.push((
            "rare",
            StepLoss::mixture(&law(1, 1e-3), 0.8, direction).unwrap().unwrap(),
        ));
        losses.push(("Laplace", StepLoss::laplace(&law(3, 0.1), 0.7, direction).unwrap()));
        losses.push(("bit", StepLoss::response(&law(2, 0.3), 0.8, direction).unwrap()));
    }
    losses
}

/// (loss, mass under P): the atoms and a fine quadrature rule on every curve that counts at tilt c.
fn brute_force(loss: &mut StepLoss, c: f64) -> Vec<(f64, f64)> {
    const PANELS: usize = 200;
    let support = loss.support(c, -40.0);
    let mut masses: Vec<(f64, f64)> = support
        .atoms
        .iter()
        .map(|atom| (atom.loss, atom.log_mass.exp()))
        .collect();
    let rule = GaussLegendre::get();
    let mut scratch = Scratch::default();
    for sweep in &support.sweeps {
        let half = 0.5 * (sweep.end - sweep.start) / PANELS as f64;
        for i in 0..PANELS {
            let middle = sweep.start + (2 * i + 1) as f64 * half;
            for (node, weight) in rule.nodes.iter().zip(&rule.weights) {
                let point = sweep.curve.point(middle + half * node, &mut scratch);
                masses.push((point.loss, point.log_density.exp() * weight * half));
            }
        }
    }
    masses
}

fn sum(masses: &[(f64, f64)], of: impl Fn(f64) -> f64) -> f64 {
    masses.iter().map(|&(loss, mass)| mass * of(loss)).sum()
}

#[test]
fn moments_are_those_of_the_curves_and_atoms() {
    for (name, mut loss) in all_kinds() {
        for c in [-0.6, 0.0, 0.8, 4.0] {
            let masses = brute_force(&mut loss, c);
            let scale = sum(&masses, |l| (c * l).exp());
            let mean = sum(&masses, |l| (c * l).exp() * l) / scale;
            let variance = sum(&masses, |l| (c * l).exp() * (l - mean).powi(2)) / scale;
            for found in [loss.moments(c, -35.0), loss.tilted(c, -35.0).moments()] {
                let wrong = (found.log_moment.value - scale.ln()).abs();
                assert!(
                    wrong <= found.log_moment.error + 1e-12,
                    "{name} {c}: {found:?} {}",
                    scale.ln()
                );
                assert!(
                    found.log_moment.error <= 1e-12 * (1.0 + found.log_moment.value.abs()),
                    "{name} {c}: {found:?}"
                );
                assert!(
                    (found.mean - mean).abs() <= 1e-10 * (1.0 + mean.abs()),
                    "{name} {c}: {found:?} {mean}"
                );
                assert!(
                    (found.variance / variance - 1.0).abs() <= 1e-9,
                    "{name} {c}: {found:?} {variance}"
                );
            }
        }
    }
}

#[test]
fn characteristic_functions_are_within_their_errors_and_decay_as_bounded() {
    const LAST: usize = 40;
    for (name, mut loss) in all_kinds() {
        for (c, spacing) in [(0.8, 0.15), (-0.4, 1.1)] {
            let masses = brute_force(&mut loss, c);
            let scale = sum(&masses, |l| (c * l).exp());
            let exact = |j: usize| -> Complex64 {
                let y = j as f64 * spacing;
                let turned = |&(l, mass): &(f64, f64)| mass * Complex64::from_polar((c * l).exp() / scale, y * l);
                masses.iter().map(turned).sum()
            };
            let exact: Vec<Complex64> = (0..=LAST).map(exact).collect();
            let mut tilted = loss.tilted(c, -33.0);
            assert!(tilted.size() > 0);
            for shift in [false, true] {
                // Once along the real line of outputs, once with what shows the decay best.
                if shift {
                    tilted.best_log_decay(LAST as f64 * spacing, 50.0);
                }
                tilted.certify(LAST as f64 * spacing);
                assert!(tilted.quadrature_error() < 1e-13, "{name} {c}");
                for (j, Approx { value, error }) in tilted.changes(spacing, LAST).into_iter().enumerate() {
                    let wrong = (1.0 + value - exact[j]).norm();
                    assert!(wrong <= error + 1e-12, "{name} {c} {j}: {wrong} {error}");
                    assert!(error <= 1e-11, "{name} {c} {j}: {error}");
                }
                for from in [1, 7, 20, LAST] {
                    let bound = tilted.log_decay(from as f64 * spacing);
                    let largest = exact[from..].iter().map(|value| value.norm()).fold(0.0, f64::max);
                    assert!(
                        bound.exp() >= largest - 1e-13,
                        "{name} {c} {from}: {bound} {}",
                        largest.ln()
                    );
                }
            }
        }
    }
}

#[test]
fn one_step_is_the_expectation_of_what_the_loss_exceeds() {
    for (name, mut loss) in all_kinds() {
        let masses = brute_force(&mut loss, 0.0);
        for epsilon in [-0.7, -0.05, 0.0, 0.02, 0.6, 1.4] {
            let exact = sum(&masses, |l| -(epsilon - l).min(0.0).exp_m1());
            let found = loss.one_step(epsilon, 1e-10, &mut Effort::default());
            // A rule whose panels do not end at the kink of the integrand is off by less than 1e-6.
            assert!(
                found.lower() <= exact + 1e-6 && found.upper() >= exact - 1e-6,
                "{name} {epsilon}: {found:?} {exact}"
            );
            assert!(found.upper() - found.lower() <= 1e-10, "{name} {epsilon}: {found:?}");
        }
    }
}

#[test]
fn tails_and_the_largest_loss_are_bounded() {
    for (name, mut loss) in all_kinds() {
        let masses = brute_force(&mut loss, 0.0);
        let found = loss.max_loss();
        let most = found.rounded_up();
        let largest = masses.iter().map(|mass| mass.0).fold(f64::NEG_INFINITY, f64::max);
        assert!(largest <= most, "{name}: {largest} {found:?}");
        let log_mass = loss.log_mass_of_max_loss();
        if log_mass > f64::NEG_INFINITY {
            assert!(largest >= most - found.slack - 1e-14, "{name}: {largest} {found:?}");
            let there = sum(&masses, |l| f64::from(u8::from(l >= largest))).ln();
            assert!((log_mass - there).abs() <= 1e-13, "{name}: {log_mass} {there}");
        }
        for level in [-0.4, 0.0, 0.1, 0.7, 2.0] {
            let mass = sum(&masses, |l| f64::from(u8::from(l > level)));
            let bound = loss.log_mass_above(level).exp();
            assert!(bound >= mass - 1e-3, "{name} {level}: {bound} {mass}");
            // Where there is a bound, and losses above the level, it is the mass: the rule counts whole nodes.
            assert!(
                bound <= mass + 1e-3 || bound == 1.0 || level > most,
                "{name} {level}: {bound} {mass}"
            );
        }
    }
}

#[test]
fn truncated_losses_lack_the_mass_that_is_said() {
    for (name, mut loss) in all_kinds() {
        let (mut truncated, log_lost) = loss.truncated(-7.0, 1.0);
        let missing = sum(&brute_force(&mut loss, 0.0), |_| 1.0) - sum(&brute_force(&mut truncated, 0.0), |_| 1.0);
        let lost = log_lost.exp();
        assert!((missing - lost).abs() <= 1e-8, "{name}: {missing} {lost}");
        assert!(log_lost <= -7.0 + 1e-8, "{name}: {log_lost}");
    }
}

#[test]
fn near_and_far_losses_make_up_the_whole() {
    let mut separated = 0;
    for (name, mut loss) in all_kinds() {
        let Some(common) = loss.common_loss() else { continue };
        let Some(separation) = loss.separation(common + 0.3, 0.05) else {
            continue;
        };
        separated += 1;
        let mut near = loss.near_part(separation, f64::INFINITY).unwrap();
        let mut far = loss.far_part(separation).unwrap();
        for c in [0.0, 0.8, 3.0] {
            let [near, far, whole] = [&mut near, &mut far, &mut loss].map(|part| part.moments(c, -33.0));
            let both = (near.log_moment.value.exp() + far.log_moment.value.exp()).ln();
            let slack = near.log_moment.error + far.log_moment.error + whole.log_moment.error + 1e-14;
            assert!(
                (both - whole.log_moment.value).abs() <= slack,
                "{name} {c}: {both} {whole:?}"
            );
            assert!(slack < 1e-8, "{name} {c}: {slack}");
        }
    }
    assert!(separated >= 7, "{separated}");
}

/// The widest pair of components dominates the step.
#[test]
fn the_widest_distance_dominates() {
    for (name, loss) in all_kinds() {
        let Some(distance) = loss.widest_distance() else {
            continue;
        };
        let widest = StepLoss::shift(distance);
        for epsilon in [-0.5, 0.0, 0.3, 2.0] {
            let [found, bound] =
                [&loss, &widest].map(|loss| loss.one_step(epsilon, 1e-10, &mut Effort::default()));
            assert!(found.lower() <= bound.upper(), "{name} {epsilon}");
        }
    }
}

#[test]
fn special_structure_is_told_by_those_that_have_it() {
    for (name, loss) in all_kinds() {
        assert_eq!(loss.single_gaussian().is_some(), name == "one Gaussian");
        assert_eq!(loss.outcomes().is_some(), name.ends_with("bit"));
        assert_eq!(loss.density_terms() == 0, name.ends_with("bit"));
        let few_atoms = name.ends_with("bit") || name.ends_with("Laplace");
        assert_eq!(loss.atom_gap().is_some(), few_atoms && !name.starts_with("public"));
        assert_eq!(loss.lattice_gap(), None);
        if let Some(outcomes) = loss.outcomes() {
            assert!((outcomes.iter().map(|outcome| outcome.log_mass.exp()).sum::<f64>() - 1.0).abs() < 1e-14);
        }
    }
}

#[test]
fn a_loss_is_rounded_away_from_below_by_a_few_units() {
    for loss in [1.0, -3.0, 1e-300, 1e300] {
        let bound = rounded_up(loss);
        assert!(
            bound >= loss + 4.0 * f64::EPSILON * loss.abs() && bound <= loss + 16.0 * f64::EPSILON * loss.abs()
        );
    }
    assert_eq!(rounded_up(f64::INFINITY), f64::INFINITY);
}

/// A Gaussian step attains the bound of the widest pair; a mixture, parts that are published and a sum are below theirs, and close to it at
/// large orders, where their own moments are not computed.
#[test]
fn moments_of_large_orders_are_bounded_by_the_widest_pair() {
    let sampled = || {
        let law = GroupLaw::binomial(2, 0.1).unwrap();
        StepLoss::mixture(&law, 1.0, Direction::Remove).unwrap().unwrap()
    };
    let published =
        |parts| StepLoss::public_outcome(vec![(0.5f64.ln(), StepLoss::shift(0.5)), (0.5f64.ln(), parts)]);
    for (mut loss, mu) in [
        (StepLoss::shift(0.5), 0.5f64),
        (sampled(), 2.0),
        (published(sampled()), 2.0),
        (StepLoss::independent_sum(vec![sampled(), sampled()]), 8f64.sqrt()),
    ] {
        for c in [0.5, 3.0, 40.0, 1e4, 1e6] {
            let widest = 0.5 * c * (c + 1.0) * mu * mu;
            let (found, known) = (loss.log_moment_above(c, -30.0), loss.moments(c, -30.0).log_moment);
            assert!(found <= widest * (1.0 + 1e-12), "{c}: {found} {widest}");
            assert!(
                known.error > 1e-3 * known.value || found >= known.value - known.error,
                "{c}: {found} {known:?}"
            );
            assert!(c < 1e4 || found > 0.999 * widest, "{c}: {found} {widest}");
        }
    }
}
