//! The interface between the engines and the privacy loss of one step: one trait, with one implementation for each kind of loss.

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::gate::Separation;
use crate::loss::loss_curve::{Atom, Support};
use crate::loss::max_loss::MaxLoss;
use realfft::num_complex::Complex64;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

/// The privacy loss ℓ = log dP/dQ of one step, as a random variable under P.
///
/// A composition adds up independent losses, and every way to compute its curve needs some of the following. A new kind of noise
/// or batch implements this trait in a file of its own and gets a row in the table of pairs ([`crate::loss::pairs`]).
///
/// Methods without a default are needed by every engine. Those with a default describe a special structure, which makes answers
/// cheaper or narrower; the default says that there is none.
pub trait PrivacyLoss: Debug + Send + Sync {
    /// K(c) = log E[e^{cℓ}] for real c > −1, with the mean and the variance of the loss tilted by e^{cℓ}.
    ///
    /// Quadrature may leave out e^`log_tolerance` of the moment.
    fn moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments;

    /// The loss tilted by e^{cℓ}, c > −1, from which its characteristic function on the line Re z = c is computed.
    ///
    /// Quadrature may leave out e^`log_tolerance` of E[e^{cℓ}].
    fn tilted(&mut self, c: f64, log_tolerance: f64) -> Box<dyn TiltedLoss + '_>;

    /// The loss as curves and atoms, for a grid: all but about e^`log_tolerance` of the mass tilted by e^{cℓ}, if grids serve it.
    fn support(&mut self, _c: f64, _log_tolerance: f64) -> Support<'_> {
        Support::NONE
    }

    /// δ(ε) of this step alone, certified, to a relative width of about `width`; nothing is known where there is no closed form.
    ///
    /// Integrals add what they cost to `effort` and stop at its limit; the enclosure is then wider.
    fn one_step(&self, _epsilon: f64, _width: f64, _effort: &mut Effort) -> Enclosure {
        Enclosure::TRIVIAL
    }

    /// Whether [`PrivacyLoss::one_step`] answers to the wanted width. Where it does not, one step is inverted like a run of several.
    fn has_closed_form(&self) -> bool {
        true
    }

    /// Whether a moment costs little in comparison with an inversion. Where it does not, the engines compute fewer moments.
    fn has_cheap_moments(&self) -> bool {
        true
    }

    /// A copy without the outputs of the far tail that P has with a probability of about e^`log_mass`, and the log of the
    /// probability that was really left out: far tails make moments explode. −∞ where nothing is left out.
    fn truncated(&self, log_mass: f64) -> (StepLoss, f64);

    /// Number of terms in the densities that a grid evaluates at each output; 0 where it evaluates none.
    fn density_terms(&self) -> usize;

    /// Number of different steps that the loss is made of, as far as its cost is concerned.
    fn kinds(&self) -> usize {
        1
    }

    /// Cost of all moments so far, in evaluations of a density (two or three nanoseconds each).
    fn work(&self) -> u64 {
        0
    }

    /// The largest loss; unbounded where there is none.
    fn max_loss(&self) -> MaxLoss {
        MaxLoss::UNBOUNDED
    }

    /// log of a lower bound on the probability, under P, of the largest loss.
    fn log_mass_of_max_loss(&self) -> f64 {
        f64::NEG_INFINITY
    }

    /// log of an upper bound on P(ℓ > `level`).
    fn log_mass_above(&self, _level: f64) -> f64 {
        0.0
    }

    /// A μ such that N(μ, 1) against N(0, 1) dominates the step; `None` without Gaussian noise.
    ///
    /// It is the distance of the widest pair of components, as the hockey-stick divergence is jointly convex.
    fn widest_distance(&self) -> Option<f64> {
        None
    }

    /// μ, if the loss is that of N(μ, 1) against N(0, 1): such losses add up to another one.
    fn single_gaussian(&self) -> Option<f64> {
        None
    }

    /// All outcomes by loss, descending, if the step has finitely many.
    fn outcomes(&self) -> Option<&[Atom]> {
        None
    }

    /// The spacing of a lattice on which all losses are known to lie, up to a common offset.
    fn lattice_gap(&self) -> Option<f64> {
        None
    }

    /// The distance of the atoms of the loss, which a grid should have as a multiple of its spacing.
    fn atom_gap(&self) -> Option<f64> {
        None
    }

    /// The loss that nearly every output has if members of the group are rarely in a batch; `None` if there is no such loss.
    fn usual_loss(&self) -> Option<f64> {
        None
    }

    /// How losses around the usual one are separated from those above `level`, within about `width` of it.
    fn separation(&self, _level: f64, _width: f64) -> Option<Separation> {
        None
    }

    /// The losses around the usual one, as a law of mass below 1, without outputs more than `reach` widths of a gate above it: they have
    /// a probability of at most Φ(−`reach`), and moments of high orders would consist of them.
    fn near_part(&self, _separation: Separation, _reach: f64) -> Option<StepLoss> {
        None
    }

    /// The other losses, as a law of mass below 1.
    fn far_part(&self, _separation: Separation) -> Option<StepLoss> {
        None
    }
}

/// Privacy loss ℓ = log dP/dQ of one step under P: a [`PrivacyLoss`] of any kind.
///
/// The constructors of a kind stand beside its implementation.
#[derive(Debug)]
pub struct StepLoss(Box<dyn PrivacyLoss>);

impl StepLoss {
    /// The loss of this kind.
    pub fn new(loss: impl PrivacyLoss + 'static) -> Self {
        Self(Box::new(loss))
    }
}

impl Deref for StepLoss {
    type Target = dyn PrivacyLoss;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for StepLoss {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

/// A bound on a loss that is computed to a few units in the last place.
pub(crate) fn rounded_up(loss: f64) -> f64 {
    loss + 8.0 * f64::EPSILON * loss.abs()
}

/// Terms of densities that one integral may evaluate where nothing else limits it: a few tenths of a second.
const MAX_WORK: u64 = 120_000_000;

/// Work on integrals so far, in terms of densities, and how much of it may be done.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Terms of densities evaluated so far.
    pub(crate) done: u64,
    /// No integral goes on beyond this.
    pub(crate) limit: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            done: 0,
            limit: MAX_WORK,
        }
    }
}

/// Moments of a loss tilted by e^{cℓ}.
#[derive(Debug, Clone, Copy)]
pub struct TiltedMoments {
    /// K(c) = log E[e^{cℓ}].
    pub log_moment: Approx,
    /// K'(c), the mean of the tilted loss.
    pub mean: f64,
    /// K''(c), its variance.
    pub variance: f64,
}

/// A loss tilted by e^{cℓ}, and what bounds its characteristic function φ(y) = E[e^{(c + iy)ℓ}]/E[e^{cℓ}].
pub trait TiltedLoss {
    /// The moments at y = 0.
    fn moments(&self) -> TiltedMoments;

    /// Cost of φ at one y, in nodes of a quadrature rule.
    fn size(&self) -> usize;

    /// Makes [`TiltedLoss::changes`] valid for |y| ≤ `reach`; before, they are so for y = 0.
    fn certify(&mut self, _reach: f64) {}

    /// Bound on the errors of quadrature and truncation in φ up to the certified y.
    fn quadrature_error(&self) -> f64 {
        0.0
    }

    /// log of a bound on |φ(y')| for all |y'| ≥ `y`.
    fn log_decay(&mut self, y: f64) -> f64;

    /// The smallest such bound that is found, or the first below −`wanted`; later calls of [`TiltedLoss::log_decay`] use what
    /// was chosen for it.
    fn best_log_decay(&mut self, y: f64, _wanted: f64) -> f64 {
        self.log_decay(y)
    }

    /// φ − 1 at y = 0, h, …, `last`·h for h = `spacing`.
    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>>;

    /// Gives back memory that can be computed again.
    fn forget_panels(&mut self) {}
}

#[cfg(test)]
mod tests {
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
                    let turned =
                        |&(l, mass): &(f64, f64)| mass * Complex64::from_polar((c * l).exp() / scale, y * l);
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
            let (mut truncated, log_lost) = loss.truncated(-7.0);
            let missing =
                sum(&brute_force(&mut loss, 0.0), |_| 1.0) - sum(&brute_force(&mut truncated, 0.0), |_| 1.0);
            let lost = log_lost.exp();
            assert!((missing - lost).abs() <= 1e-8, "{name}: {missing} {lost}");
            assert!(log_lost <= -7.0 + 1e-8, "{name}: {log_lost}");
        }
    }

    #[test]
    fn near_and_far_losses_make_up_the_whole() {
        let mut separated = 0;
        for (name, mut loss) in all_kinds() {
            let Some(usual) = loss.usual_loss() else { continue };
            let Some(separation) = loss.separation(usual + 0.3, 0.05) else {
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
                bound >= loss + 4.0 * f64::EPSILON * loss.abs()
                    && bound <= loss + 16.0 * f64::EPSILON * loss.abs()
            );
        }
        assert_eq!(rounded_up(f64::INFINITY), f64::INFINITY);
    }
}
