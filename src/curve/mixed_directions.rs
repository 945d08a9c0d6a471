//! Runs of which some steps are seen in one order of the data sets and others in another: a group that is added in some steps and removed
//! in others (PITFALLS, Figure 3).
//!
//! Let the data sets of each step be those of one ordered pair, (P_i, Q_i). The whole run has the laws ⊗P_i and ⊗Q_i, so that its privacy loss
//! is the sum of the losses of all steps, each in its own direction. Where a part of the run is about records that are added *or* removed, all of
//! its steps have the same direction, and the curve is the larger one of both.

use crate::curve::composed_loss::ComposedLoss;
use crate::curve::composition::{Composition, MAX_SEGMENTS};
use crate::error::{Result, require};
use crate::loss::pairs::StepOutcome;
use crate::step::members::factored;
use crate::step::{Adjacency, Direction, Step};

/// A part of a run, with the neighbouring relation that its steps are seen under.
pub(crate) type Part = (Vec<(Step, u64)>, Adjacency);

impl Composition {
    /// The composition of parts that are seen under relations of their own; of "add_remove" there is one part at most.
    ///
    /// # Errors
    /// As [`Composition::new`], and more than one part of "add_remove".
    ///
    /// # Example
    /// ```
    /// use hockeystick::{Adjacency, Composition, Mechanism, Step};
    /// let step = Step::poisson(Mechanism::Laplace { scale: 2.0 }, 0.5, 1);
    /// let delta = |first, second| {
    ///     let parts = [(vec![(step.clone(), 1)], first), (vec![(step.clone(), 1)], second)];
    ///     Composition::of_parts(&parts)?.delta(0.1, 1e-6).map(|found| found.upper())
    /// };
    /// let mixed = delta(Adjacency::Add, Adjacency::Remove)?;
    /// assert!((mixed / delta(Adjacency::Remove, Adjacency::Add)? - 1.0).abs() < 1e-6);
    /// assert!(mixed != delta(Adjacency::Add, Adjacency::Add)?);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn of_parts(parts: &[Part]) -> Result<Self> {
        let parts = parts
            .iter()
            .map(|(steps, adjacency)| Ok((factored(steps)?, *adjacency)))
            .collect::<Result<Vec<Part>>>()?;
        // The larger of two curves would take all of them in one direction.
        let both = parts.iter().filter(|(_, adjacency)| *adjacency == Adjacency::AddRemove);
        let both = both.count();
        require(both <= 1, "parts", both, "at most one of \"add_remove\"")?;
        let kinds: usize = parts.iter().map(|(steps, _)| steps.len()).sum();
        require(
            kinds <= MAX_SEGMENTS,
            "segments",
            kinds,
            "at most 1000000 different ones",
        )?;
        let choices = parts
            .iter()
            .map(|(_, adjacency)| adjacency.pairs().len())
            .max()
            .unwrap_or(1);
        let losses = (0..choices).map(|choice| {
            let mut outcomes = Vec::with_capacity(kinds);
            for (steps, adjacency) in &parts {
                let pairs = adjacency.pairs();
                let direction = pairs[choice.min(pairs.len() - 1)];
                for (step, count) in steps {
                    let found = step.outcomes(direction, *count)?;
                    outcomes.extend(
                        found
                            .into_iter()
                            .map(|(outcome, count)| (directed(outcome, direction), count)),
                    );
                }
            }
            Ok(ComposedLoss::new(outcomes, false))
        });
        Ok(Self::of_directions(losses.collect::<Result<_>>()?))
    }
}

/// An outcome that says itself in which direction it reveals membership: without a member in the batch, all of P's outputs are Q's and
/// Q has them with the probability e^`log_unseen` if the group is added, and the reverse if it is removed. If it is replaced, both have them with
/// that probability.
fn directed(outcome: StepOutcome, direction: Option<Direction>) -> StepOutcome {
    let StepOutcome::RevealsMembership { log_unseen } = outcome else {
        return outcome;
    };
    let (log_common, offset) = match direction {
        Some(Direction::Add) => (0.0, -log_unseen),
        Some(Direction::Remove) => (log_unseen, log_unseen),
        None => (log_unseen, 0.0),
    };
    StepOutcome::Partly {
        log_common,
        offset,
        loss: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::step::Mechanism;

    fn part(noise_multiplier: f64, count: u64, adjacency: Adjacency) -> Part {
        let step = Step::poisson(Mechanism::Gaussian { noise_multiplier }, 0.25, 1);
        (vec![(step, count)], adjacency)
    }

    #[test]
    fn parts_of_one_relation_are_one_run() {
        for adjacency in [Adjacency::Add, Adjacency::Remove, Adjacency::Replace] {
            let mut parts = Composition::of_parts(&[part(1.5, 3, adjacency), part(1.5, 4, adjacency)]).unwrap();
            let mut whole = Composition::new(&part(1.5, 7, adjacency).0, adjacency).unwrap();
            for epsilon in [0.0, 0.7, 2.0] {
                let (found, exact) = (parts.delta(epsilon, 1e-7).unwrap(), whole.delta(epsilon, 1e-7).unwrap());
                assert!(
                    found.lower() <= exact.upper() && exact.lower() <= found.upper(),
                    "{adjacency:?} {epsilon}: {found:?} {exact:?}"
                );
            }
        }
    }

    /// Two such parts have four pairs of directions, not two.
    #[test]
    fn of_parts_in_both_directions_there_is_one() {
        let both = || part(1.5, 3, Adjacency::AddRemove);
        assert!(Composition::of_parts(&[both(), part(1.5, 2, Adjacency::Add)]).is_ok());
        assert!(matches!(
            Composition::of_parts(&[both(), both()]),
            Err(Error::OutOfRange { .. })
        ));
    }

    /// Without noise the output says who was in the batch: with probability 3/4 a step does not. Added, Q alone reveals it and the loss of the
    /// common part is −log 3/4; removed, P does, and it is log 3/4.
    #[test]
    fn noiseless_steps_reveal_membership_in_the_direction_of_their_part() {
        let parts = [part(0.0, 2, Adjacency::Add), part(0.0, 1, Adjacency::Remove)];
        let mut run = Composition::of_parts(&parts).unwrap();
        let common: f64 = -(0.75f64.ln());
        for epsilon in [0.0, 0.1, 0.5] {
            let exact = 0.25 + 0.75 * (1.0 - (epsilon - common).exp()).max(0.0);
            let found = run.delta(epsilon, 1e-9).unwrap();
            assert!(
                found.lower() <= exact * (1.0 + 1e-12) && found.upper() >= exact * (1.0 - 1e-12),
                "{epsilon}: {found:?} {exact}"
            );
            assert!(found.upper() <= exact * (1.0 + 1e-9));
        }
    }

    /// Replaced, P reveals the record with probability 1/4, and the common part has the same law under both: only the two steps in which it is
    /// added have a loss, −2·log 3/4.
    #[test]
    fn noiseless_steps_of_replaced_records_have_no_loss_where_they_reveal_nothing() {
        let parts = [part(0.0, 1, Adjacency::Replace), part(0.0, 2, Adjacency::Add)];
        let mut run = Composition::of_parts(&parts).unwrap();
        let common: f64 = -2.0 * 0.75f64.ln();
        for epsilon in [0.0, 0.1, 0.5, 0.6] {
            let exact = 0.25 + 0.75 * (1.0 - (epsilon - common).exp()).max(0.0);
            let found = run.delta(epsilon, 1e-9).unwrap();
            assert!(
                found.lower() <= exact * (1.0 + 1e-12) && found.upper() >= exact * (1.0 - 1e-12),
                "{epsilon}: {found:?} {exact}"
            );
            assert!(found.upper() <= exact * (1.0 + 1e-9));
        }
    }
}
