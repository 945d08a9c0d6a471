//! Laplace losses without what P rarely has: the components of many members, and outputs far out.
//!
//! The mixture of a group of hundreds has as many pieces, though hardly ever are more than a few members in a batch; and the moments of its loss consist
//! of the one output that all members together have. Any measure P' ≤ P that lacks the probability p of all steps together has the curve δ' with
//! δ' ≤ δ ≤ δ' + p (`docs/theory/inversion.md`, Proposition 8). With P' in place of P
//!
//! | pair | what P' lacks |
//! |---|---|
//! | "remove": Σ w_j Lap(j) against Lap(0) | the components of more than J members, and then the outputs below a whole number |
//! | "add", and pairs that are their own mirror images | the outputs beyond a whole number, on one or on both sides |
//!
//! The first leaves the loss of Σ_{j ≤ J} w_j Lap(j) against Lap(0), which is constant beyond J. The second leaves the loss as it is, on fewer pieces and
//! without the atom of the outputs that are left out. Few pieces take few nodes.

use crate::approx::Approx;
use crate::interval::{Enclosure, Interval};
use crate::loss::laplace::{LaplaceLoss, Missing};
use crate::loss::laplace_step::log_upper_tail;
use crate::loss::laplace_sums::knots_of_measure;
use crate::special::log_space::{LogSum, log_add, log_difference};
use crate::special::root::first_where;
use crate::step::Direction;
use std::f64::consts::LN_2;
use std::sync::Arc;

/// Relative room for the rounding of sums of up to ten thousand positive terms.
const ROOM: f64 = 1e-9;
/// Room for that of a difference of two logarithms.
const ROUNDING: f64 = 1e-14;

impl LaplaceLoss {
    /// The loss without what P has with a probability of about e^`log_mass`, and the log of a bound on that; `None` where nothing is left out.
    pub(crate) fn without_rare(&self, log_mass: f64) -> Option<(Self, f64)> {
        if self.missing.is_some() {
            return None;
        }
        let found = match (self.branches.as_slice(), self.mirrored) {
            ([one], None) if one.direction == Direction::Remove => self.with_few_members(log_mass - LN_2),
            ([_], _) | (_, Some(_)) => self.with_near_outputs(log_mass),
            // A record that is replaced in a fixed batch: of two pieces there are none to spare.
            _ => None,
        }?;
        let log_p = found.missing?.log_p;
        Some((found, log_p))
    }

    /// δ of one step. The closed form is that of all outputs; without some of them δ is smaller by their probability at most, and where ε < 0 the closed
    /// form is made of δ(−ε), so that it may be smaller by twice that.
    pub(crate) fn enclosure_of_one_step(&self, epsilon: f64) -> Enclosure {
        let found = self.log_one_step(epsilon);
        let lower = match self.missing {
            None => found.lower,
            Some(Missing { log_p, .. }) => log_difference(found.lower, log_p + LN_2) - ROUNDING,
        };
        Enclosure::of_logs(lower, found.upper)
    }

    /// log δ(ε) where every output of "add" that is left counts: (1 − p) − e^ε·Q(left), in which what e^ε multiplies may be tiny.
    pub(crate) fn all_but(&self, missing: Missing, epsilon: f64) -> Interval {
        let left = (epsilon + log_mass_beyond(&self.log_weights, -1.0, self.pieces(), self.scale)).exp();
        let value = 1.0 - missing.p.value - left;
        let error = missing.p.error + ROOM * left + 4.0 * f64::EPSILON;
        let [lower, upper] = [value - error, value + error].map(|end| end.max(0.0).ln());
        Interval {
            lower: lower - ROUNDING,
            upper: upper + ROUNDING,
        }
    }

    /// The loss of a record that is removed, without the components of more than J members, and without the outputs below a whole number; each has a
    /// probability of at most e^`log_mass`.
    fn with_few_members(&self, log_mass: f64) -> Option<Self> {
        let (mut last, mut more) = (self.pieces(), LogSum::default());
        while last > 1 {
            let mut with_one = more;
            with_one.add(self.log_weights[last]);
            if with_one.ln() > log_mass {
                break;
            }
            (last, more) = (last - 1, with_one);
        }
        let log_weights = self.log_weights[..=last].to_vec();
        let below = |first: usize| log_mass_beyond(&log_weights, -1.0, first, self.scale);
        let first = first_where(1, last, |first| below(first) > log_mass) - 1;
        if last == self.pieces() && first == 0 {
            return None;
        }
        let (log_more, weight) = (more.ln(), rounded(more.ln()));
        let mut found = self.clone_without_rule();
        if last < self.pieces() {
            found.knots = knots_of_measure(&log_weights, weight, self.scale);
            found.max_loss = found.max_loss_at(last);
            found.atoms = vec![found.lowest(Direction::Remove), found.highest(Direction::Remove)];
        }
        let (mut log_p, mut q) = (log_more, Approx::default());
        if first > 0 {
            found.branches[0].first = first;
            found.atoms.remove(0);
            log_p = log_add(log_p, below(first));
            let noise = 1.0 - 0.5 * (-(first as f64) / self.scale).exp();
            q = Approx::new(noise, 4.0 * f64::EPSILON);
        }
        found.log_weights = log_weights;
        Some(found.lacking(weight, log_p, q))
    }

    /// The loss without the outputs beyond a whole number, which P has with a probability of at most e^`log_mass`.
    fn with_near_outputs(&self, log_mass: f64) -> Option<Self> {
        let is_mirrored = self.mirrored.is_some();
        // Of the noise alone, and of the mixture; of a mirrored pair either is one side of both laws.
        let tails = |last: usize| {
            let factor = self.log_factor().upper();
            let of_noise = log_upper_tail(last as f64 / self.scale) + factor;
            let of_mixture = log_mass_beyond(&self.log_weights, 1.0, last, self.scale) + factor;
            if is_mirrored {
                let both = log_add(of_noise, of_mixture);
                (both, both)
            } else {
                (of_noise, of_mixture)
            }
        };
        let last = first_where(1, self.pieces(), |last| tails(last).0 <= log_mass);
        if last == self.pieces() {
            return None;
        }
        let mut found = self.clone_without_rule();
        found.knots.truncate(last + 1);
        if is_mirrored {
            found.atoms.clear();
            found.max_loss = found.max_loss_at(last);
        } else {
            found.atoms.remove(0);
        }
        let (log_p, log_q) = tails(last);
        let weight = if is_mirrored {
            Approx::default()
        } else {
            found.gather_weights_beyond(last)
        };
        Some(found.lacking(weight, log_p, rounded(log_q)))
    }

    /// A copy that makes its own rule for estimates.
    fn clone_without_rule(&self) -> Self {
        Self {
            work: 0,
            fixed_rule: Arc::default(),
            ..self.clone()
        }
    }

    /// One component for all beyond a whole number, with the same density up to there; what the weights lack of 1 then.
    ///
    /// Left of j the density of Lap(j) over that of the noise is e^{(2x − j)/b}, so that the components of all j > `last` have the density of one with the
    /// weight Σ w_j e^{−(j − last − 1)/b} at `last` + 1.
    fn gather_weights_beyond(&mut self, last: usize) -> Approx {
        let (mut weights, mut gathered) = (LogSum::default(), LogSum::default());
        for (j, log_weight) in self.log_weights.iter().enumerate().skip(last + 1) {
            weights.add(*log_weight);
            gathered.add(log_weight - (j - last - 1) as f64 / self.scale);
        }
        self.log_weights.truncate(last + 1);
        self.log_weights.push(gathered.ln());
        let (weights, gathered) = (rounded(weights.ln()), rounded(gathered.ln()));
        Approx::new(weights.value - gathered.value, weights.error + gathered.error)
    }

    /// This loss, which lacks what P and Q have with these probabilities.
    fn lacking(mut self, weight: Approx, log_p: f64, q: Approx) -> Self {
        self.missing = Some(Missing {
            weight,
            p: rounded(log_p),
            q,
            log_p: log_p + ROOM * (1.0 + log_p.abs()),
        });
        self
    }
}

/// log of the probability that Σ w_j Lap(j) has beyond a whole number: above it for `sign` = 1, below it for −1.
fn log_mass_beyond(log_weights: &[f64], sign: f64, end: usize, scale: f64) -> f64 {
    let mut sum = LogSum::default();
    for (j, log_weight) in log_weights.iter().enumerate() {
        sum.add(log_weight + log_upper_tail(sign * (end as f64 - j as f64) / scale));
    }
    sum.ln()
}

/// A probability from its logarithm.
fn rounded(log: f64) -> Approx {
    let value = log.exp();
    Approx::new(value, ROOM * value)
}

#[cfg(test)]
mod tests;
