//! What the engines ask of the privacy loss of one step: one trait, with one implementation for each kind of noise.

use crate::interval::Enclosure;
use crate::loss::StepLoss;
use crate::loss::gate::Separation;
use crate::loss::loss_curve::Support;
use crate::loss::one_step::Effort;
use std::fmt::Debug;

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

    /// The loss as curves and atoms, for a grid: all but about e^`log_tolerance` of the mass tilted by e^{cℓ}.
    fn support(&mut self, c: f64, log_tolerance: f64) -> Support<'_>;

    /// δ(ε) of this step alone, certified, to a relative width of about `width`.
    ///
    /// Integrals add what they cost to `effort` and stop at its limit; the enclosure is then wider.
    fn one_step(&self, epsilon: f64, width: f64, effort: &mut Effort) -> Enclosure;

    /// A copy without the outputs of the far tail that P has with a probability of about e^`log_mass`, and the log of the
    /// probability that was really left out: far tails make moments explode. −∞ where nothing is left out.
    fn truncated(&self, log_mass: f64) -> (StepLoss, f64);

    /// Number of terms in the densities that a grid evaluates at each output; 0 where it evaluates none.
    fn density_terms(&self) -> usize;

    /// Cost of all moments so far, in evaluations of a density (two or three nanoseconds each).
    fn work(&self) -> u64 {
        0
    }

    /// An upper bound on the loss as the sum of a number and a small correction; infinite where there is none.
    fn most_loss(&self) -> (f64, f64) {
        (f64::INFINITY, 0.0)
    }

    /// A bound on how far [`PrivacyLoss::most_loss`] is above the least upper bound, where that is an atom.
    fn most_loss_slack(&self) -> f64 {
        0.0
    }

    /// log of a lower bound on the probability, under P, of the largest loss.
    fn log_mass_of_most_loss(&self) -> f64 {
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

    /// All losses, descending, with the logs of their probabilities under P, if the step has finitely many outcomes.
    fn outcomes(&self) -> Option<&[(f64, f64)]> {
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

    /// The losses around the usual one, as a law of mass below 1.
    fn near_part(&self, _separation: Separation) -> Option<StepLoss> {
        None
    }

    /// The other losses, as a law of mass below 1.
    fn far_part(&self, _separation: Separation) -> Option<StepLoss> {
        None
    }
}

/// Moments of a loss tilted by e^{cℓ}.
#[derive(Debug, Clone, Copy)]
pub struct TiltedMoments {
    /// K(c) = log E[e^{cℓ}].
    pub log_moment: f64,
    /// Bound on the error of `log_moment`.
    pub log_moment_error: f64,
    /// K'(c), the mean of the tilted loss.
    pub mean: f64,
    /// K''(c), its variance.
    pub variance: f64,
}

impl TiltedMoments {
    /// An upper bound on K(c).
    pub(crate) fn log_moment_upper(&self) -> f64 {
        self.log_moment + self.log_moment_error
    }
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

    /// φ − 1 at y = 0, h, …, `last`·h for h = `spacing`: real part, imaginary part and a bound on the error.
    fn changes(&self, spacing: f64, last: usize) -> Vec<(f64, f64, f64)>;

    /// Gives back memory that can be computed again.
    fn forget_panels(&mut self) {}
}
