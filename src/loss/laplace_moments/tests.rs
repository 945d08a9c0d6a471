//! Nodes of Laplace losses against closed forms, integrals, and finer nodes.

use super::*;
use crate::loss::privacy_loss::{PrivacyLoss, TiltedMoments};
use crate::step::GroupLaw;
use realfft::num_complex::Complex64;

fn log_moment(loss: &mut LaplaceLoss, c: f64) -> Approx {
    loss.moments(c, 0.0).log_moment
}

/// With one record, r = A + B e^{2x/b} from e^{−u} to e^{v}, and E[e^ℓ; "remove"] has a closed form.
#[test]
fn moments_of_whole_order_are_sums_of_exponentials() {
    let (scale, rate) = (0.7, 0.2);
    let law = GroupLaw::binomial(1, rate).unwrap();
    let mut loss = LaplaceLoss::new(&law, scale, Direction::Remove);
    let constant = 1.0 - rate;
    // r = (1 − q) + q e^{(2x − 1)/b} on [0, 1], under Q of density e^{−x/b}/2b.
    let rising = rate * (-1.0 / scale).exp();
    let ends = 0.5
        * ((constant + rising).powi(2) + (-1.0 / scale).exp() * (constant + rate * (1.0 / scale).exp()).powi(2));
    let between = 0.5
        * (constant * constant * -(-1.0 / scale).exp_m1()
            + 2.0 * constant * rising * (1.0 / scale).exp_m1()
            + rising * rising / 3.0 * (3.0 / scale).exp_m1());
    let Approx {
        value: log_moment,
        error,
    } = log_moment(&mut loss, 1.0);
    assert!(error < 1e-12);
    assert!((log_moment - (ends + between).ln()).abs() < 1e-13);
}

#[test]
fn a_large_tilt_leaves_the_largest_loss() {
    let law = GroupLaw::binomial(3, 0.1).unwrap();
    for direction in [Direction::Remove, Direction::Add] {
        let mut loss = LaplaceLoss::new(&law, 2.0, direction);
        let &[low, high] = loss.atoms() else { panic!() };
        let atom = if low.loss > high.loss { low } else { high };
        let c = 1e7;
        let TiltedMoments {
            log_moment: Approx {
                value: log_moment,
                error,
            },
            mean,
            variance,
        } = loss.moments(c, 0.0);
        assert!(error < 1e-6 && variance < 1e-9, "{direction:?} {error} {variance}");
        assert!((mean - atom.loss).abs() < 1e-6, "{direction:?} {mean} {atom:?}");
        let rest = log_moment - c * atom.loss - atom.log_mass; // what the continuous part next to the atom adds
        assert!(rest >= -error && rest < 1e-4, "{direction:?} {rest} {error}");
    }
}

/// log E[e^{cℓ}] by integration of the definition at 30 digits.
#[test]
fn outputs_that_a_tilt_hides_keep_their_probability() {
    for (scale, rate, records, c, expected) in [
        (0.1, 1e-3, 1, 100.0, 0.098_161_359_469_491_1),
        (0.1, 1e-3, 1, 300.0, 0.296_873_822_458_523_7),
        (0.2, 1e-2, 2, 30.0, 0.544_972_243_841_120_1),
        (0.2, 1e-3, 2, 200.0, 0.353_106_754_212_323_8),
    ] {
        let law = GroupLaw::binomial(records, rate).unwrap();
        let Approx { value: found, error } = log_moment(&mut LaplaceLoss::new(&law, scale, Direction::Add), c);
        assert!(
            (found - expected).abs() <= error + 2e-16 && error < 1e-12,
            "{scale} {rate} {c}: {found} {expected} {error}"
        );
    }
}

/// On the ellipse of a panel the integrand is at most e^growth times as large as on the panel; where the rising part of r is small and the power
/// negative, by hardly less.
#[test]
fn the_growth_of_the_integrand_on_an_ellipse_is_bounded_and_nearly_attained() {
    let (mut closest, mut largest) = (f64::INFINITY, 0.0f64);
    for (scale, rate, c, y, half) in [
        (1.0, 1e-3, 2e4, 0.0, 0.02),
        (1.0, 1e-3, 2e4, 300.0, 0.02),
        (0.7, 0.3, 40.0, 100.0, 0.05),
        (3.0, 0.9, 5.0, 10.0, 0.4),
    ] {
        let law = GroupLaw::binomial(1, rate).unwrap();
        for direction in Direction::BOTH {
            let loss = LaplaceLoss::new(&law, scale, direction);
            let centre = 0.5;
            let rising = rate * (-1.0 / scale).exp();
            let p = match direction {
                Direction::Remove => Complex64::new(1.0 + c, y),
                Direction::Add => Complex64::new(-c, -y),
            };
            let log_integrand = |x: Complex64| {
                let r = 1.0 - rate + rising * (2.0 * x / scale).exp();
                (p * r.ln() - x / scale).re
            };
            let on_panel =
                (0..=40).map(|i| log_integrand(Complex64::from(centre + half * (f64::from(i) / 20.0 - 1.0))));
            let most = on_panel.fold(f64::NEG_INFINITY, f64::max);
            let on_ellipse = (0..2000).map(|i| {
                let (sine, cosine) = (f64::from(i) * std::f64::consts::PI / 1000.0).sin_cos();
                log_integrand(Complex64::new(
                    centre + half * REAL_AXIS * cosine,
                    half * IMAGINARY_AXIS * sine,
                ))
            });
            let exact = on_ellipse.fold(f64::NEG_INFINITY, f64::max) - most;
            let bound = loss.growth(direction, (0, centre + half, half), (c, y));
            assert!(exact <= bound, "{scale} {direction:?}: {exact} {bound}");
            closest = closest.min(bound / exact);
            largest = largest.max(exact);
        }
    }
    assert!(closest < 1.3 && largest > 1.0, "{closest} {largest}");
}

/// With a large power of a ratio that hardly rises, only the rise counts: panels need not be narrow.
#[test]
fn flat_ratios_take_few_nodes_at_large_tilts() {
    let law = GroupLaw::binomial(2, 1e-5).unwrap();
    for direction in Direction::BOTH {
        let mut loss = LaplaceLoss::new(&law, 1.0, direction);
        let count = loss.nodes(1e9, 0.0).losses.len();
        assert!(count < 2_000, "{direction:?}: {count}");
    }
}

/// Nodes for a transform are fewer, and its error is what is certified: within it of finer ones, and more than rounding.
#[test]
fn nodes_for_a_transform_are_few_and_within_their_error() {
    for (scale, rate, records) in [(0.3, 0.05, 2), (3.0, 0.2, 1)] {
        let law = GroupLaw::binomial(records, rate).unwrap();
        for direction in Direction::BOTH {
            let mut loss = LaplaceLoss::new(&law, scale, direction);
            let (c, y) = (40.0, 3000.0);
            let fine = loss.nodes(c, y);
            let moment = |nodes: &Nodes, y: f64| -> Complex64 {
                let parts = nodes.weights.iter().zip(&nodes.losses);
                parts.map(|(weight, loss)| weight * Complex64::cis(y * loss)).sum()
            };
            let mut counts = Vec::new();
            for log_tolerance in [-10.0, -24.0, -60.0] {
                let few = loss.nodes_of_transform(c, y, log_tolerance);
                let allowed = f64::exp(log_tolerance.max(LEAST_LOG_TOLERANCE));
                assert!(
                    few.error > 0.0 && few.error < 0.5 * allowed,
                    "{log_tolerance}: {}",
                    few.error
                );
                for part in [0.1, 0.7, 1.0] {
                    let off = (moment(&few, part * y) - moment(&fine, part * y)).norm();
                    assert!(
                        off <= 2.0 * few.error + 1e-13,
                        "{log_tolerance} {part}: {off} {}",
                        few.error
                    );
                }
                counts.push(few.losses.len());
            }
            assert!(counts.is_sorted() && 2 * counts[1] < fine.losses.len(), "{counts:?}");
        }
    }
}

#[test]
fn nodes_give_moments_of_complex_order_and_decay_bounds_them() {
    for (scale, rate, records) in [(0.3, 0.05, 2), (3.0, 0.2, 1), (1.0, 1e-3, 4)] {
        let law = GroupLaw::binomial(records, rate).unwrap();
        for direction in [Direction::Remove, Direction::Add] {
            let mut loss = LaplaceLoss::new(&law, scale, direction);
            for c in [-0.5, 0.7, 3.0] {
                let real = loss.nodes(c, 0.0);
                let decay = loss.decay(&real);
                for y in [0.3, 20.0, 150.0] {
                    let nodes = loss.nodes(c, y);
                    let moment = |nodes: &Nodes, y: f64| -> Complex64 {
                        let parts = nodes.weights.iter().zip(&nodes.losses);
                        parts.map(|(weight, loss)| weight * Complex64::cis(y * loss)).sum()
                    };
                    let found = moment(&nodes, y);
                    // Panels for a height four times as far are at least twice as fine.
                    let finer = moment(&loss.nodes(c, 4.0 * y + 400.0), y);
                    assert!(nodes.error < 1e-13, "{}", nodes.error);
                    assert!((found - finer).norm() < 1e-12);
                    assert!(found.norm() <= decay.log_at(y).exp());
                    assert!(
                        (nodes.log_moment.value - real.log_moment.value).abs() <= 2.0 * nodes.log_moment.error
                    );
                }
            }
        }
    }
}
