//! Privacy loss of a step with a public outcome: with probability w_i the step is the i-th of several pairs, and everybody sees which.
//!
//! The law of which pair it is does not depend on the data, so that the outcome itself has no loss: under P the loss is that of the i-th
//! pair with probability w_i, and every expectation of it is the mean of theirs. By joint convexity such a step dominates every step that is
//! the same mixture but does not publish the outcome (Lemma 1 of `docs/theory/dominating-pairs.md`), which is how steps that are one of
//! several kinds at random get a pair.
//!
//! With M_i(z) = E[e^{zℓ}] of the i-th loss, M(z) = Σ w_i M_i(z). Tilted by e^{cℓ} the step is of kind i with probability
//! p_i = w_i M_i(c)/M(c), and its characteristic function is Σ p_i φ_i(y).

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::loss::atoms::AtomLoss;
use crate::loss::loss_curve::{Atom, LossCurve, Support, Sweep};
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::{Effort, PrivacyLoss, StepLoss, TiltedLoss, TiltedMoments};
use crate::loss::smooth_piece::{Point, Scratch};
use crate::special::log_space::{LogSum, log_sum_exp};
use realfft::num_complex::Complex64;

/// Relative rounding error of an exponential, besides what the rounding of its exponent adds, in units of the last place.
const EXP_ROUNDING: f64 = 4.0;
/// Room for the rounding of a sum of a few probabilities.
const SUM_ROUNDING: f64 = 1e-14;
/// A bound that says nothing: finite, so that its product with 0 is 0.
const NO_BOUND: f64 = 1e300;

/// A loss that is the i-th of several with probability w_i.
#[derive(Debug)]
pub(crate) struct PublicOutcomeLoss {
    /// log w_i and the loss of the i-th pair.
    parts: Vec<(f64, StepLoss)>,
    /// True if the w_i sum to 1.
    complete: bool,
}

/// Logs of the probabilities of the parts.
#[derive(Debug)]
struct Weights {
    logs: Vec<f64>,
    /// True if they sum to 1.
    complete: bool,
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
        Self::new(PublicOutcomeLoss { parts, complete: true })
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

/// The tilted law of which part the step is.
#[derive(Debug)]
struct Shares {
    /// log p_i.
    log_shares: Vec<f64>,
    /// Bounds on the relative errors of the p_i.
    errors: Vec<f64>,
    /// The moments of all parts together.
    moments: TiltedMoments,
}

impl Weights {
    /// The tilted law of the parts from their own moments.
    fn shares(&self, moments: &[TiltedMoments]) -> Shares {
        let weights = || self.logs.iter().copied();
        let logs: Vec<f64> = weights()
            .zip(moments)
            .map(|(w, part)| w + part.log_moment.value)
            .collect();
        let total = log_sum_exp(&logs);
        if !total.is_finite() {
            return Shares::beyond_reach(logs.len());
        }
        let rounding = |w: f64, k: f64| f64::EPSILON * (EXP_ROUNDING + 2.0 * (w.abs() + k.abs()));
        // M is the sum of terms that are wrong by factors between e^−e_i and e^e_i, hence by one of at most Σ p_i e^{e_i}.
        let wrong: Vec<f64> = weights()
            .zip(moments)
            .map(|(w, part)| (part.log_moment.error + rounding(w, part.log_moment.value)).min(NO_BOUND))
            .collect();
        let excess: f64 = logs
            .iter()
            .zip(&wrong)
            .map(|(l, e)| (l - total).exp() * e.exp_m1())
            .sum();
        let whole = (excess.ln_1p() + f64::EPSILON * (EXP_ROUNDING + total.abs())).min(NO_BOUND);
        let log_moment = self.near_one(moments, total).unwrap_or(Approx::new(total, whole));
        let log_shares: Vec<f64> = logs.iter().map(|l| l - total).collect();
        let mean = shared(&log_shares, moments, |part| part.mean);
        Shares {
            errors: wrong.iter().map(|e| (e + whole).exp_m1().min(NO_BOUND)).collect(),
            moments: TiltedMoments {
                log_moment,
                mean,
                variance: shared(&log_shares, moments, |part| part.variance + (part.mean - mean).powi(2)),
            },
            log_shares,
        }
    }

    /// K and a bound on its error where M is next to 1, from M − 1 = Σ w_i (M_i − 1), which keeps the digits of K; `None` elsewhere.
    fn near_one(&self, moments: &[TiltedMoments], total: f64) -> Option<Approx> {
        /// Moments farther from 1 than this are sums as they stand.
        const NEAR: f64 = 0.5;
        if !self.complete || total.abs() > NEAR {
            return None;
        }
        let (mut excess, mut error) = (0.0, 0.0);
        for (log_weight, part) in self.logs.iter().zip(moments) {
            let k = part.log_moment.value;
            let (change, size) = if k.abs() < 1.0 {
                let change = log_weight.exp() * k.exp_m1();
                (change, change.abs())
            } else {
                let (moment, weight) = ((log_weight + k).exp(), log_weight.exp());
                (moment - weight, moment + weight)
            };
            excess += change;
            error += (log_weight + k).exp() * part.log_moment.error.exp_m1()
                + size * f64::EPSILON * (2.0 * EXP_ROUNDING + 2.0 * (log_weight.abs() + k.abs()));
        }
        let relative = error / (1.0 + excess);
        (relative < NEAR).then(|| {
            let log_moment = excess.ln_1p();
            Approx::new(
                log_moment,
                relative / (1.0 - relative) + 4.0 * f64::EPSILON * log_moment.abs(),
            )
        })
    }
}

impl PublicOutcomeLoss {
    fn weights(&self) -> Weights {
        Weights {
            logs: self.parts.iter().map(|part| part.0).collect(),
            complete: self.complete,
        }
    }

    /// The part with the largest loss.
    fn largest(&self) -> Option<&(f64, StepLoss)> {
        let most = |part: &(f64, StepLoss)| part.1.max_loss().rounded_up();
        self.parts.iter().max_by(|a, b| most(a).total_cmp(&most(b)))
    }
}

/// Σ p_i of a number for each part.
fn shared(log_shares: &[f64], moments: &[TiltedMoments], of: impl Fn(&TiltedMoments) -> f64) -> f64 {
    let term = |(log_share, part): (&f64, &TiltedMoments)| match log_share.exp() {
        0.0 => 0.0, // whatever is unknown about a part that does not count
        share => share * of(part),
    };
    log_shares.iter().zip(moments).map(term).sum()
}

impl Shares {
    /// What stands for moments beyond the digits of an `f64`: nothing is known.
    fn beyond_reach(parts: usize) -> Self {
        Self {
            log_shares: vec![-(parts as f64).ln(); parts],
            errors: vec![NO_BOUND; parts],
            moments: TiltedMoments {
                log_moment: Approx::new(f64::INFINITY, f64::INFINITY),
                mean: 0.0,
                variance: 0.0,
            },
        }
    }
}

impl PrivacyLoss for PublicOutcomeLoss {
    fn moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        let parts = self.parts.iter_mut();
        let moments: Vec<_> = parts.map(|part| part.1.moments(c, log_tolerance)).collect();
        self.weights().shares(&moments).moments
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
        let shares = weights.shares(&moments);
        Box::new(TiltedPublicOutcome { shares, parts })
    }

    fn support(&mut self, c: f64, log_tolerance: f64) -> Support<'_> {
        let mut whole = Support {
            sweeps: Vec::new(),
            atoms: Vec::new(),
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
            let rounding = f64::EPSILON * (EXP_ROUNDING + 2.0 * log_weight.abs());
            lower.add(part.log_lower + log_weight - rounding);
            upper.add(part.log_upper + log_weight + rounding);
            sum = sum.max(part);
        }
        sum.with_logs(lower.ln() - SUM_ROUNDING, upper.ln() + SUM_ROUNDING)
    }

    /// Every part may lose the same probability, in terms of the whole: rare parts lose more of their own tail, and a part that is rarer
    /// than that is left out.
    fn truncated(&self, log_mass: f64) -> (StepLoss, f64) {
        let mut lost = LogSum::default();
        let mut kept = Vec::new();
        for (log_weight, loss) in &self.parts {
            let allowed = log_mass - (self.parts.len() as f64).ln() - log_weight;
            if allowed >= 0.0 {
                lost.add(*log_weight);
                continue;
            }
            let (part, log_lost) = loss.truncated(allowed);
            lost.add(log_lost + log_weight);
            kept.push((*log_weight, part));
        }
        let complete = self.complete && kept.len() == self.parts.len();
        (StepLoss::new(Self { parts: kept, complete }), lost.ln())
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
            mass.add(log_weight + loss.log_mass_above(level));
        }
        (mass.ln() + SUM_ROUNDING).min(0.0)
    }

    /// What dominates every part dominates their mixture.
    fn widest_distance(&self) -> Option<f64> {
        self.parts
            .iter()
            .try_fold(0.0, |widest: f64, part| Some(widest.max(part.1.widest_distance()?)))
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
    shares: Shares,
    parts: Vec<Box<dyn TiltedLoss + 'a>>,
}

impl TiltedPublicOutcome<'_> {
    /// log of a bound on Σ p_i e^{d_i} from the parts' own bounds d_i.
    fn log_decay_of(&self, bounds: &[f64]) -> f64 {
        let parts = || self.shares.log_shares.iter().zip(&self.shares.errors).zip(bounds);
        // All terms have one sign, so that what is certain of each share is certain of the sum: shares sum to 1.
        let change: f64 = parts()
            .map(|((log_share, error), bound)| log_share.exp() * (1.0 - error).max(0.0) * bound.min(0.0).exp_m1())
            .sum();
        if change > -0.5 {
            return change.ln_1p() * (1.0 - 16.0 * f64::EPSILON);
        }
        let terms: Vec<f64> = parts()
            .map(|((log_share, error), bound)| log_share + error.ln_1p() + bound.min(0.0))
            .collect();
        let modulus = log_sum_exp(&terms);
        (modulus + f64::EPSILON * (16.0 + 2.0 * modulus.abs())).min(0.0)
    }
}

impl TiltedLoss for TiltedPublicOutcome<'_> {
    fn moments(&self) -> TiltedMoments {
        self.shares.moments
    }

    fn size(&self) -> usize {
        self.parts.iter().map(|part| part.size()).sum()
    }

    fn certify(&mut self, reach: f64) {
        self.parts.iter_mut().for_each(|part| part.certify(reach));
    }

    fn quadrature_error(&self) -> f64 {
        let shares = self.shares.log_shares.iter().zip(&self.shares.errors);
        let parts = self.parts.iter().map(|part| part.quadrature_error());
        let of = |((log_share, error), wrong): ((&f64, &f64), f64)| log_share.exp() * (1.0 + error) * wrong;
        shares.zip(parts).map(of).sum()
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        let bounds: Vec<f64> = self.parts.iter_mut().map(|part| part.log_decay(y)).collect();
        self.log_decay_of(&bounds)
    }

    /// A part needs no smaller bound than one that its share makes as small as what is wanted of all.
    fn best_log_decay(&mut self, y: f64, wanted: f64) -> f64 {
        let room = (self.parts.len() as f64).ln();
        let shares = self.shares.log_shares.iter();
        let best = |(part, log_share): (&mut Box<dyn TiltedLoss + '_>, &f64)| {
            part.best_log_decay(y, (wanted + room + log_share).max(0.0))
        };
        let bounds: Vec<f64> = self.parts.iter_mut().zip(shares).map(best).collect();
        self.log_decay_of(&bounds)
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let mut sums = vec![Approx::exact(Complex64::default()); last + 1];
        for ((log_share, error), part) in self.shares.log_shares.iter().zip(&self.shares.errors).zip(&self.parts) {
            let share = log_share.exp();
            for (sum, change) in sums.iter_mut().zip(part.changes(spacing, last)) {
                let size = change.value.norm() + change.error;
                *sum += Approx::new(
                    share * change.value,
                    share * (change.error + (error + SUM_ROUNDING) * size),
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
