//! How many members of a group are in the batch of a step, and how far each of them shifts its sum.

use crate::error::{Error, Result, require};
use crate::renyi::MAX_GROUP_SIZE;
use crate::step::run_step::require_rates_of_all;
use crate::step::{Adjacency, GroupLaw, Mechanism, Sampling, Step};

/// The law of the number of members in a batch, and the noise in units of the shift of one member.
///
/// A member that is added or removed shifts the sum of a Poisson sample by one clipping norm. One that is replaced shifts it by two, and so
/// does one that is added to a batch of fixed size, where it takes another record's place.
#[derive(Debug, Clone)]
pub(super) struct BatchLaw {
    /// The noise over the shift of one member.
    pub(super) mechanism: Mechanism,
    /// The noise over the shift of one member, in the data sets of the lower bound.
    pub(super) of_lower_bound: Mechanism,
    /// The number of members in a batch.
    pub(super) law: GroupLaw,
    /// The number of members in a batch where the group is one record: the black box is a chain of such groups (RGP, Lemma 2.3).
    pub(super) one: GroupLaw,
    /// The rate of that record, where samples are Poisson and records are added or removed.
    pub(super) rate_of_one: Option<f64>,
}

impl BatchLaw {
    /// The law for a step whose members are added or removed, or replaced.
    ///
    /// # Errors
    /// An argument out of range; other sampling than Poisson and fixed batches; a group with norms or a bound on cosines, or with rates in
    /// fixed batches.
    pub(super) fn of(step: &Step, adjacency: Adjacency) -> Result<Self> {
        step.mechanism.check()?;
        let group = &step.group;
        require(
            (1..=MAX_GROUP_SIZE).contains(&group.size),
            "group_size",
            group.size,
            "in [1, 100000]",
        )?;
        let is_aligned = group.norms.is_none() && (group.cosine == 1.0 || group.size == 1);
        let replaced = adjacency == Adjacency::Replace;
        match step.sampling {
            Sampling::Poisson { sample_rate } if is_aligned => {
                require_rates_of_all(group)?;
                let (law, rate) = match &group.rates {
                    None => (GroupLaw::binomial_of_any_size(group.size, sample_rate)?, sample_rate),
                    Some(rates) => (
                        GroupLaw::poisson_binomial(rates)?,
                        rates.iter().copied().fold(0.0, f64::max),
                    ),
                };
                let mechanism = if replaced { step.mechanism.with_shifts_doubled() } else { step.mechanism };
                Ok(Self {
                    mechanism,
                    of_lower_bound: step.mechanism,
                    law,
                    one: GroupLaw::binomial_of_any_size(1, rate)?,
                    rate_of_one: (!replaced).then_some(rate),
                })
            }
            Sampling::FixedBatch {
                batch_size,
                dataset_size,
            } if is_aligned && group.rates.is_none() => {
                let law = GroupLaw::hypergeometric(group.size, batch_size, dataset_size)?;
                // In a chain of data sets each with one record less, the smallest has the largest part of its records in a batch.
                let smallest = if replaced { dataset_size } else { dataset_size - (group.size - 1) };
                let one = GroupLaw::hypergeometric(1, batch_size.min(smallest), smallest)?;
                let mechanism = step.mechanism.with_shifts_doubled();
                Ok(Self {
                    mechanism,
                    of_lower_bound: mechanism,
                    law: law.in_units_of(2.0),
                    one: one.in_units_of(2.0),
                    rate_of_one: None,
                })
            }
            _ => Err(Error::Mismatch(
                "Rényi bounds take steps with Poisson samples, fixed or full batches, and groups of records of which nothing more is \
                 known than rates in Poisson samples"
                    .into(),
            )),
        }
    }

    /// True if every member is in every batch.
    pub(super) fn is_certain(&self) -> bool {
        self.law.log_probability_of_zero() == f64::NEG_INFINITY && self.law.shifts().len() == 1
    }
}

impl Mechanism {
    /// This noise in units of two clipping norms: as seen by a record that moves a sum by two of them.
    ///
    /// Randomised response is the same for any change of the batch.
    fn with_shifts_doubled(self) -> Self {
        match self {
            Self::Gaussian { noise_multiplier } => Self::Gaussian {
                noise_multiplier: 0.5 * noise_multiplier,
            },
            Self::Laplace { scale } => Self::Laplace { scale: 0.5 * scale },
            Self::Skellam { variance, sensitivity } => Self::Skellam {
                variance,
                sensitivity: 2 * sensitivity,
            },
            Self::RandomizedResponse { .. } => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Group;

    const NOISE: Mechanism = Mechanism::Gaussian { noise_multiplier: 3.0 };

    fn fixed(batch_size: u64, dataset_size: u64, size: u64) -> Step {
        Step {
            mechanism: NOISE,
            sampling: Sampling::FixedBatch {
                batch_size,
                dataset_size,
            },
            group: Group::of(size),
        }
    }

    #[test]
    fn a_replaced_member_and_one_of_a_fixed_batch_move_two_norms() {
        let half = Mechanism::Gaussian { noise_multiplier: 1.5 };
        let poisson = Step::poisson(NOISE, 0.25, 2);
        assert_eq!(BatchLaw::of(&poisson, Adjacency::AddRemove).unwrap().mechanism, NOISE);
        assert_eq!(BatchLaw::of(&poisson, Adjacency::Replace).unwrap().mechanism, half);
        for adjacency in [Adjacency::AddRemove, Adjacency::Replace] {
            let found = BatchLaw::of(&fixed(3, 10, 2), adjacency).unwrap();
            assert_eq!((found.mechanism, found.law.shifts()), (half, &[0.0, 1.0, 2.0][..]));
            // Of 45 pairs of positions 21 have no member in them, and 3 have two.
            let weights: Vec<f64> = found.law.log_weights().iter().map(|w| 45.0 * w.exp()).collect();
            assert!(
                (weights[0] - 21.0).abs() < 1e-12 && (weights[2] - 3.0).abs() < 1e-12,
                "{weights:?}"
            );
        }
    }

    #[test]
    fn the_smallest_data_set_of_a_chain_is_the_worst() {
        let of = |adjacency| BatchLaw::of(&fixed(3, 10, 5), adjacency).unwrap().one.log_weights()[1].exp();
        assert!((of(Adjacency::AddRemove) - 0.5).abs() < 1e-15 && (of(Adjacency::Replace) - 0.3).abs() < 1e-15);
        let all = BatchLaw::of(&fixed(9, 10, 5), Adjacency::AddRemove).unwrap();
        assert_eq!(all.one.shifts(), [1.0]);
    }

    #[test]
    fn rates_of_the_members_take_the_place_of_the_common_one() {
        let mut step = Step::poisson(NOISE, 0.9, 2);
        step.group.rates = Some(vec![0.5, 0.25]);
        let found = BatchLaw::of(&step, Adjacency::Replace).unwrap();
        assert!((found.law.log_weights()[0].exp() - 0.375).abs() < 1e-15);
        assert!((found.one.log_weights()[1].exp() - 0.5).abs() < 1e-15);
        step.group.size = 3;
        assert!(BatchLaw::of(&step, Adjacency::AddRemove).is_err());
        step.group.size = 2;
        step.group.norms = Some(vec![1.0, 0.5]);
        assert!(BatchLaw::of(&step, Adjacency::Replace).is_err());
        let mut step = fixed(3, 10, 2);
        step.group.rates = Some(vec![0.5, 0.25]);
        assert!(BatchLaw::of(&step, Adjacency::AddRemove).is_err());
    }
}
