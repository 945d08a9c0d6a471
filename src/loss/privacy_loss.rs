//! The interface between the engines and the privacy loss of one step: one trait, with one implementation for each kind of loss.

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::clusters::{BesideClusters, Cluster};
use crate::loss::gate::Separation;
use crate::loss::loss_curve::{Atom, Support};
use crate::loss::max_loss::MaxLoss;
use realfft::num_complex::Complex64;
use std::collections::BTreeSet;
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

    /// Moments as [`PrivacyLoss::moments`] has them, or estimates of them, by which a search chooses a tilt.
    ///
    /// An estimate has an infinite error of K(c), so that a bound that were made of it would say nothing. The default is the certified moments.
    fn estimated_moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        self.moments(c, log_tolerance)
    }

    /// An upper bound on K(c), c > 0, which is smaller than that of [`PrivacyLoss::moments`] where these are not computed for so large a c.
    ///
    /// No pair of components is farther apart than the widest, and E[e^{cℓ}] is jointly convex in both laws: K(c) ≤ c(c + 1)μ²/2.
    fn log_moment_above(&mut self, c: f64, log_tolerance: f64) -> f64 {
        let known = self.moments(c, log_tolerance).log_moment.upper();
        let of_widest = |mu: f64| 0.5 * c * (c + 1.0) * mu * mu * (1.0 + 8.0 * f64::EPSILON);
        // What is no number is no bound either.
        self.widest_distance().map_or(f64::INFINITY, of_widest).min(known)
    }

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

    /// δ(ε) of a run of this step alone, certified, by means that no other run has a use for; nothing is known where there are none.
    ///
    /// It is asked for before all other routes, to a relative width of about `width`, and once more if they do not answer to that: then `is_last`.
    fn alone(&self, _epsilon: f64, _width: f64, _is_last: bool, _tables: &mut SharedTables) -> Enclosure {
        Enclosure::TRIVIAL
    }

    /// An ε at which δ of a run of this step alone is about e^`log_delta`, and −d log δ/dε there, where [`PrivacyLoss::alone`] answers; `None` where nothing is
    /// known.
    fn estimate_alone(&self, _log_delta: f64) -> Option<(f64, f64)> {
        None
    }

    /// Whether a moment costs little in comparison with an inversion. Where it does not, the engines compute fewer moments.
    fn has_cheap_moments(&self) -> bool {
        true
    }

    /// Whether the characteristic function is known. Where it is not, [`TiltedLoss::changes`] says so by its errors, and inversion is not tried.
    fn has_transform(&self) -> bool {
        true
    }

    /// Whether inversion should also be tried without a truncation, if it fails with one.
    fn is_better_whole(&self) -> bool {
        false
    }

    /// A copy without the outputs of the far tail that P has with a probability of about e^`log_mass`, and the log of the
    /// probability that was really left out: far tails make moments explode. −∞ where nothing is left out. The more `steps` a run has, the smaller
    /// are the tilts at which moments are needed: of one step they are largest.
    fn truncated(&self, log_mass: f64, steps: f64) -> (StepLoss, f64);

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

    /// Clusters of outputs whose losses are within about `width` of each other: of the atoms of a loss that has a density beside them, and the outputs
    /// next to these. `None` where [`TiltedLoss::beside_clusters`] does not tell them apart.
    fn clusters(&self, _width: f64) -> Option<Vec<Cluster>> {
        None
    }

    /// The distance of the atoms of the loss, which a grid should have as a multiple of its spacing.
    fn atom_gap(&self) -> Option<f64> {
        None
    }

    /// The loss that nearly every output has if members of the group are rarely in a batch; `None` if there is no such loss.
    fn common_loss(&self) -> Option<f64> {
        None
    }

    /// How losses around the common one are separated from those above `level`, within about `width` of it.
    fn separation(&self, _level: f64, _width: f64) -> Option<Separation> {
        None
    }

    /// The losses below the gate, as a law of mass below 1. Outputs more than `reach` widths of the gate above the gate are cut off: the
    /// gate lets them pass with a probability of at most Φ(−`reach`), but they would dominate high moments.
    fn near_part(&self, _separation: Separation, _reach: f64) -> Option<StepLoss> {
        None
    }

    /// The other losses, as a law of mass below 1.
    fn far_part(&self, _separation: Separation) -> Option<StepLoss> {
        None
    }

    /// The loss split by its large likelihood ratios; without any where that is of no use.
    fn by_large_ratio(&self, split: &RatioSplit) -> LossByRatio {
        LossByRatio::without_large(self, split)
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

/// Work on tables that questions share: each counts once for every question that uses it, whoever made it first, so that no answer depends on
/// what was asked before.
#[derive(Debug, Clone, Default)]
pub struct SharedTables {
    /// Those of this question.
    used: BTreeSet<(i64, i64, u8)>,
    /// Work of all questions so far, in terms of densities.
    pub(crate) work: u64,
}

impl SharedTables {
    /// Counts a table, if this question has not used it yet.
    pub(crate) fn count(&mut self, table: (i64, i64, u8), work: u64) {
        if self.used.insert(table) {
            self.work += work;
        }
    }

    /// The next question.
    pub(crate) fn forget(&mut self) {
        self.used.clear();
    }
}

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

/// How the outputs of an epoch are split.
#[derive(Debug, Clone, Copy)]
pub struct RatioSplit<'a> {
    /// Number of steps of the run.
    pub(crate) steps: f64,
    /// log of the probability under P that some ratio is large, about.
    pub(crate) log_mass: f64,
    /// log of the probability under P of a ratio that is beyond all ranges, at most.
    pub(crate) log_mass_beyond: f64,
    /// Losses between the ranges, ascending: that of an epoch in which all other ratios are 1.
    pub(crate) losses: &'a [f64],
}

/// A range of a large likelihood ratio.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RatioRange {
    /// The loss of an epoch at its lower end, where all other ratios are 1.
    pub(crate) lowest: f64,
    /// log of a bound on the probability under P of a ratio above that end.
    pub(crate) log_mass: f64,
    /// Which of the kinds of batches it is of, and its normal variables.
    pub(crate) part: usize,
    pub(crate) ends: (f64, f64),
}

/// Bounds on moments E_Q[W^{1+c}] of a step over outputs with large likelihood ratios.
pub(crate) trait ManyRatios: Debug + Send + Sync {
    /// log of a bound over outputs with at least one large ratio, where all normal variables are at most `high`.
    fn log_some(&self, c: f64, high: f64) -> f64;

    /// log of a bound over outputs with exactly one large ratio, which is in this range.
    fn log_one(&self, c: f64, range: &RatioRange) -> f64;

    /// log of a bound over outputs with at least two large ratios, of which one is in this range and none above it.
    fn log_several(&self, c: f64, range: &RatioRange) -> f64;
}

/// A loss that is split by large likelihood ratios.
#[derive(Debug)]
pub struct LossByRatio {
    /// Where no ratio is large.
    pub(crate) none: StepLoss,
    /// Where exactly one is, which is within a range.
    pub(crate) one: Vec<(StepLoss, RatioRange)>,
    /// Bounds where more than one may be; `None` where none is large.
    pub(crate) many: Option<Box<dyn ManyRatios>>,
    /// log of bounds on the probabilities under P that some ratio is large, and that one is beyond all ranges.
    pub(crate) log_some: f64,
    pub(crate) log_beyond: f64,
}

impl LossByRatio {
    /// A loss of which no ratio counts as large, without the outputs that P has hardly ever.
    pub(crate) fn without_large(loss: &(impl PrivacyLoss + ?Sized), split: &RatioSplit) -> Self {
        let (none, log_beyond) = loss.truncated(split.log_mass_beyond, split.steps);
        Self {
            none,
            one: Vec::new(),
            many: None,
            log_some: f64::NEG_INFINITY,
            log_beyond,
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

    /// What the tilted law has beside the clusters of [`PrivacyLoss::clusters`].
    fn beside_clusters(&self, _width: f64) -> Option<BesideClusters> {
        None
    }

    /// The part of φ that is of these clusters, and the rest, at y = 0, h, …, `last`·h for h = `spacing`; `None` where that takes too many nodes.
    fn transforms_by_clusters(
        &mut self,
        _width: f64,
        _spacing: f64,
        _last: usize,
    ) -> Option<Vec<[Approx<Complex64>; 2]>> {
        None
    }

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
mod tests;
