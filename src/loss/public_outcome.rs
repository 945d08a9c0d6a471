//! Privacy loss of a step with a public outcome: with probability w_i the step is the i-th of several pairs, and everybody sees which.
//!
//! The law of which pair it is does not depend on the data, so that the outcome itself has no loss: under P the loss is that of the i-th
//! pair with probability w_i, and every expectation of it is the mean of theirs. By joint convexity such a step dominates every step that is
//! the same mixture but does not publish the outcome (Lemma 1 of `docs/theory/dominating-pairs.md`), which is how steps that are one of
//! several kinds at random get a pair.
//!
//! With M_i(z) = E[e^{zℓ}] of the i-th loss, M(z) = Σ w_i M_i(z). Tilted by e^{cℓ} the step is of kind i with probability
//! p_i = w_i M_i(c)/M(c), and its characteristic function is Σ p_i φ_i(y).
//!
//! The losses around the common one and the larger ones are those of all parts, whose gates are at one place ([`gates`]).

mod gates;
mod weights;

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::atoms::AtomLoss;
use crate::loss::gate::{Gate, Separation};
use crate::loss::loss_curve::{Atom, LossCurve, Support, Sweep};
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::{Effort, PrivacyLoss, StepLoss, TiltedLoss, TiltedMoments};
use crate::loss::public_outcome::gates::{Gates, Place};
use crate::loss::public_outcome::weights::{EXP_ROUNDING, TiltedWeights, Weights};
use crate::loss::smooth_piece::{Point, Scratch};
use crate::special::log_space::{LogSum, log_sum_exp};
use realfft::num_complex::Complex64;
use std::sync::OnceLock;

/// Room for the rounding of a sum of a few probabilities.
const SUM_ROUNDING: f64 = 1e-14;

/// Room for the rounding of the logarithm of a product or a sum from those of its parts, however far these cancel; 0 where a part is 0 or
/// without bound.
fn rounding(log_weight: f64, log: f64) -> f64 {
    let size = log_weight.abs() + log.abs();
    if size.is_finite() {
        f64::EPSILON * (EXP_ROUNDING + 2.0 * size)
    } else {
        0.0
    }
}

/// A loss that is the i-th of several with probability w_i.
#[derive(Debug)]
pub(crate) struct PublicOutcomeLoss {
    /// log w_i and the loss of the i-th pair.
    parts: Vec<(f64, StepLoss)>,
    /// True if the w_i sum to 1.
    complete: bool,
    /// The places of the gates in all parts, computed when first needed; `None` where there are none.
    gates: OnceLock<Option<Gates>>,
}

impl StepLoss {
    /// The loss of a step that is one of several pairs, and everybody sees which: logs of probabilities, which sum to 1, and losses.
    ///
    /// A pair that reveals nothing is `StepLoss::gaussians(vec![0.0], vec![0.0])`. Pairs of probability 0 are left out, and finitely many
    /// outcomes of all pairs together are those of one pair.
    pub fn public_outcome(mut parts: Vec<(f64, Self)>) -> Self {
        parts.retain(|part| part.0 > f64::NEG_INFINITY);
        if parts.len() == 1
            && let Some((_, only)) = parts.pop()
        {
            return only;
        }
        if let Some(atoms) = atoms_of_all(&parts) {
            return Self::new(AtomLoss::new(atoms));
        }
        Self::new(PublicOutcomeLoss {
            parts,
            complete: true,
            gates: OnceLock::new(),
        })
    }
}

/// The atoms of all parts by loss, descending, where every part has finitely many.
fn atoms_of_all(parts: &[(f64, StepLoss)]) -> Option<Vec<Atom>> {
    let mut atoms = Vec::new();
    for (log_weight, loss) in parts {
        atoms.extend(
            loss.outcomes()?
                .iter()
                .map(|atom| Atom::new(atom.loss, log_weight + atom.log_mass)),
        );
    }
    atoms.sort_by(|a, b| b.loss.total_cmp(&a.loss));
    let merge = |alike: &[Atom]| {
        Atom::new(
            alike[0].loss,
            log_sum_exp(&alike.iter().map(|atom| atom.log_mass).collect::<Vec<_>>()),
        )
    };
    Some(atoms.chunk_by(|a, b| a.loss == b.loss).map(merge).collect())
}

impl PublicOutcomeLoss {
    fn weights(&self) -> Weights {
        Weights {
            logs: self.parts.iter().map(|part| part.0).collect(),
            complete: self.complete,
        }
    }

    fn gates(&self) -> Option<&Gates> {
        self.gates.get_or_init(|| Gates::new(&self.parts)).as_ref()
    }

    /// The law of the parts whose place `is_left`: whole parts as they are, and of a part with a gate what `of` leaves.
    fn separated(
        &self,
        is_left: impl Fn(&Place) -> bool,
        gate: Gate,
        of: impl Fn(&StepLoss, Gate) -> Option<StepLoss>,
    ) -> Option<StepLoss> {
        let gates = self.gates()?;
        let left = |(_, place): &(&(f64, StepLoss), &Place)| is_left(place);
        let part = |((log_weight, loss), place): (&(f64, StepLoss), &Place)| {
            let part = match place {
                Place::Gated(map) => of(loss, map.gate(gate))?,
                Place::Near | Place::Far => gates::copy(loss)?,
            };
            Some((*log_weight, part))
        };
        let parts: Vec<_> = self
            .parts
            .iter()
            .zip(&gates.places)
            .filter(left)
            .map(part)
            .collect::<Option<_>>()?;
        Some(StepLoss::new(Self {
            complete: self.complete && parts.len() == self.parts.len(),
            parts,
            gates: OnceLock::from(Some(gates.retain(is_left))),
        }))
    }

    /// The part with the largest loss.
    fn largest(&self) -> Option<&(f64, StepLoss)> {
        let most = |part: &(f64, StepLoss)| part.1.max_loss().rounded_up();
        self.parts.iter().max_by(|a, b| most(a).total_cmp(&most(b)))
    }
}

impl PrivacyLoss for PublicOutcomeLoss {
    fn moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        let parts = self.parts.iter_mut();
        let moments: Vec<_> = parts.map(|part| part.1.moments(c, log_tolerance)).collect();
        self.weights().tilted(&moments).moments
    }

    fn estimated_moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        let parts = self.parts.iter_mut();
        let moments: Vec<_> = parts.map(|part| part.1.estimated_moments(c, log_tolerance)).collect();
        let mut mixed = self.weights().tilted(&moments).moments;
        if moments.iter().any(|part| part.log_moment.error.is_infinite()) {
            mixed.log_moment.error = f64::INFINITY;
        }
        mixed
    }

    fn log_moment_above(&mut self, c: f64, log_tolerance: f64) -> f64 {
        let known = self.moments(c, log_tolerance).log_moment.upper();
        let mut sum = LogSum::default();
        for (log_weight, part) in &mut self.parts {
            let log_moment = part.log_moment_above(c, log_tolerance);
            sum.add(*log_weight + log_moment + rounding(*log_weight, log_moment));
        }
        let log = sum.ln();
        (log + SUM_ROUNDING + rounding(log, 0.0)).min(known)
    }

    fn is_better_whole(&self) -> bool {
        self.parts.iter().any(|(_, part)| part.is_better_whole())
    }

    fn has_transform(&self) -> bool {
        self.parts.iter().all(|(_, part)| part.has_transform())
    }

    fn has_cheap_moments(&self) -> bool {
        self.parts.iter().all(|(_, part)| part.has_cheap_moments())
    }

    fn tilted(&mut self, c: f64, log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        let weights = self.weights();
        let parts: Vec<_> = self
            .parts
            .iter_mut()
            .map(|part| part.1.tilted(c, log_tolerance))
            .collect();
        let moments: Vec<_> = parts.iter().map(|part| part.moments()).collect();
        let tilted = weights.tilted(&moments);
        Box::new(TiltedPublicOutcome { tilted, parts })
    }

    fn support(&mut self, c: f64, log_tolerance: f64) -> Support<'_> {
        let mut whole = Support {
            sweeps: Vec::new(),
            atoms: Vec::new(),
            fine: None,
            outside: 0.0,
        };
        for (log_weight, loss) in &mut self.parts {
            let part = loss.support(c, log_tolerance);
            for sweep in part.sweeps {
                let (curve, log_weight) = (sweep.curve, *log_weight);
                whole.sweeps.push(Sweep {
                    curve: Box::new(WeightedCurve { curve, log_weight }),
                    start: sweep.start,
                    end: sweep.end,
                });
            }
            whole.atoms.extend(
                part.atoms
                    .iter()
                    .map(|atom| Atom::new(atom.loss, atom.log_mass + *log_weight)),
            );
            // What a part lacks is a fraction of its own moment; of all moments together no more than the largest of these fractions.
            whole.outside = whole.outside.max(part.outside);
        }
        whole
    }

    fn has_closed_form(&self) -> bool {
        self.parts.iter().all(|part| part.1.has_closed_form())
    }

    fn one_step(&self, epsilon: f64, width: f64, effort: &mut Effort) -> Enclosure {
        let (mut lower, mut upper) = (LogSum::default(), LogSum::default());
        let mut sum = Enclosure::ZERO; // contradicted if one of its parts is
        for (log_weight, loss) in &self.parts {
            let part = loss.one_step(epsilon, width, effort);
            lower.add(part.log_lower + log_weight - rounding(*log_weight, part.log_lower));
            upper.add(part.log_upper + log_weight + rounding(*log_weight, part.log_upper));
            sum = sum.max(part);
        }
        let (lower, upper) = (lower.ln(), upper.ln());
        sum.with_logs(
            lower - SUM_ROUNDING - rounding(lower, 0.0),
            upper + SUM_ROUNDING + rounding(upper, 0.0),
        )
    }

    /// Every part may lose the same probability, in terms of the whole: rare parts lose more of their own tail, and a part that is rarer
    /// than that is left out.
    fn truncated(&self, log_mass: f64, steps: f64) -> (StepLoss, f64) {
        let mut lost = LogSum::default();
        let mut parts = Vec::new();
        for (log_weight, loss) in &self.parts {
            let allowed = log_mass - (self.parts.len() as f64).ln() - log_weight;
            if allowed >= 0.0 {
                lost.add(*log_weight);
                continue;
            }
            let (part, log_lost) = loss.truncated(allowed, steps);
            lost.add(log_lost + log_weight);
            parts.push((*log_weight, part));
        }
        let truncated = Self {
            complete: self.complete && parts.len() == self.parts.len(),
            parts,
            gates: OnceLock::new(),
        };
        (StepLoss::new(truncated), lost.ln())
    }

    fn density_terms(&self) -> usize {
        self.parts.iter().map(|part| part.1.density_terms()).sum()
    }

    fn work(&self) -> u64 {
        self.parts.iter().map(|part| part.1.work()).sum()
    }

    fn max_loss(&self) -> MaxLoss {
        self.largest().map_or(MaxLoss::NOTHING, |part| part.1.max_loss())
    }

    fn log_mass_of_max_loss(&self) -> f64 {
        let largest = |part: &(f64, StepLoss)| part.0 + part.1.log_mass_of_max_loss();
        self.largest().map_or(f64::NEG_INFINITY, largest)
    }

    fn log_mass_above(&self, level: f64) -> f64 {
        let mut mass = LogSum::default();
        for (log_weight, loss) in &self.parts {
            let log_mass = loss.log_mass_above(level);
            mass.add(log_weight + log_mass + rounding(*log_weight, log_mass));
        }
        let log = mass.ln();
        (log + SUM_ROUNDING + rounding(log, 0.0)).min(0.0)
    }

    /// A pair that dominates every part dominates their mixture.
    fn widest_distance(&self) -> Option<f64> {
        self.parts
            .iter()
            .try_fold(0.0, |widest: f64, part| Some(widest.max(part.1.widest_distance()?)))
    }

    fn common_loss(&self) -> Option<f64> {
        self.gates().map(|gates| gates.common_loss)
    }

    fn separation(&self, level: f64, width: f64) -> Option<Separation> {
        self.gates()?.separation(&self.parts, level, width)
    }

    fn near_part(&self, separation: Separation, reach: f64) -> Option<StepLoss> {
        let near = |loss: &StepLoss, gate: Gate| loss.near_part(Separation::Gate(gate), reach);
        self.separated(|place| !matches!(place, Place::Far), separation.gate()?, near)
    }

    fn far_part(&self, separation: Separation) -> Option<StepLoss> {
        let far = |loss: &StepLoss, gate: Gate| loss.far_part(Separation::Gate(gate));
        self.separated(|place| !matches!(place, Place::Near), separation.gate()?, far)
    }
}

/// A curve whose density is multiplied by a probability.
struct WeightedCurve<'a> {
    curve: Box<dyn LossCurve + 'a>,
    log_weight: f64,
}

impl LossCurve for WeightedCurve<'_> {
    fn point(&self, x: f64, scratch: &mut Scratch) -> Point {
        let mut point = self.curve.point(x, scratch);
        point.log_density += self.log_weight;
        point
    }
    fn reach(&self, x: f64, both: bool, scratch: &Scratch) -> f64 {
        self.curve.reach(x, both, scratch)
    }
    fn scale(&self) -> f64 {
        self.curve.scale()
    }
}

/// A loss with a public outcome, tilted: φ = Σ p_i φ_i.
struct TiltedPublicOutcome<'a> {
    tilted: TiltedWeights,
    parts: Vec<Box<dyn TiltedLoss + 'a>>,
}

impl TiltedPublicOutcome<'_> {
    /// log of a bound on Σ p_i e^{d_i} from the parts' own bounds d_i.
    fn log_decay_of(&self, bounds: &[f64]) -> f64 {
        let parts = || {
            self.tilted
                .log_probabilities
                .iter()
                .zip(&self.tilted.errors)
                .zip(bounds)
        };
        // All terms have one sign, so that what is certain of each probability is certain of the sum, as they sum to 1.
        let change: f64 = parts()
            .map(|((log_probability, error), bound)| {
                log_probability.exp() * (1.0 - error).max(0.0) * bound.min(0.0).exp_m1()
            })
            .sum();
        if change > -0.5 {
            return change.ln_1p() * (1.0 - 16.0 * f64::EPSILON);
        }
        let terms: Vec<f64> = parts()
            .map(|((log_probability, error), bound)| log_probability + error.ln_1p() + bound.min(0.0))
            .collect();
        let modulus = log_sum_exp(&terms);
        (modulus + f64::EPSILON * (16.0 + 2.0 * modulus.abs())).min(0.0)
    }
}

impl TiltedLoss for TiltedPublicOutcome<'_> {
    fn moments(&self) -> TiltedMoments {
        self.tilted.moments
    }

    fn size(&self) -> usize {
        self.parts.iter().map(|part| part.size()).sum()
    }

    fn certify(&mut self, reach: f64) {
        self.parts.iter_mut().for_each(|part| part.certify(reach));
    }

    fn quadrature_error(&self) -> f64 {
        let tilted = self.tilted.log_probabilities.iter().zip(&self.tilted.errors);
        let parts = self.parts.iter().map(|part| part.quadrature_error());
        let of =
            |((log_probability, error), wrong): ((&f64, &f64), f64)| log_probability.exp() * (1.0 + error) * wrong;
        tilted.zip(parts).map(of).sum()
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        let bounds: Vec<f64> = self.parts.iter_mut().map(|part| part.log_decay(y)).collect();
        self.log_decay_of(&bounds)
    }

    /// A part needs no smaller bound than one that its probability makes as small as what is wanted of all.
    fn best_log_decay(&mut self, y: f64, wanted: f64) -> f64 {
        let room = (self.parts.len() as f64).ln();
        let tilted = self.tilted.log_probabilities.iter();
        let best = |(part, log_probability): (&mut Box<dyn TiltedLoss + '_>, &f64)| {
            part.best_log_decay(y, (wanted + room + log_probability).max(0.0))
        };
        let bounds: Vec<f64> = self.parts.iter_mut().zip(tilted).map(best).collect();
        self.log_decay_of(&bounds)
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let mut sums = vec![Approx::exact(Complex64::default()); last + 1];
        for ((log_probability, error), part) in self
            .tilted
            .log_probabilities
            .iter()
            .zip(&self.tilted.errors)
            .zip(&self.parts)
        {
            let probability = log_probability.exp();
            for (sum, change) in sums.iter_mut().zip(part.changes(spacing, last)) {
                let size = change.value.norm() + change.error;
                *sum += Approx::new(
                    probability * change.value,
                    probability * (change.error + (error + SUM_ROUNDING) * size),
                );
            }
        }
        sums
    }

    fn forget_panels(&mut self) {
        self.parts.iter_mut().for_each(|part| part.forget_panels());
    }
}

#[cfg(test)]
pub(crate) mod tests;
