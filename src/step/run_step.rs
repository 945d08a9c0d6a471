//! One step of a run, and the law of the shift by which its group changes the sum of a batch.

use crate::error::{Error, Result, require, require_probability, require_sample_rate};
use crate::step::group::require_group_size;
use crate::step::members::{needs_poisson, norms_of_equal_sums, norms_of_sums};
use crate::step::{Group, GroupLaw, Mechanism, Sampling};

/// One step of a run: its noise, how its batch is drawn, and whose records are protected.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The noise.
    pub mechanism: Mechanism,
    /// The batch.
    pub sampling: Sampling,
    /// The group.
    pub group: Group,
}

impl Step {
    /// A step on a Poisson sample, seen by a group of `group_size` records of which nothing more is known.
    pub fn poisson(mechanism: Mechanism, sample_rate: f64, group_size: u64) -> Self {
        Self {
            mechanism,
            sampling: Sampling::Poisson { sample_rate },
            group: Group::of(group_size),
        }
    }

    /// The law of the shift by which the members in a batch change its sum.
    ///
    /// # Errors
    /// An argument out of range; several members with orthogonal gradients, whose shifts have different directions: they
    /// are steps of their own ([`Step::factors`]); or a Poisson sample with a largest size, whose step is one of several pairs.
    pub fn law(&self) -> Result<GroupLaw> {
        let group = &self.group;
        if group.is_orthogonal() {
            return Err(match self.sampling {
                Sampling::Poisson { .. } => Error::Mismatch(
                    "a step of several members with orthogonal gradients is the composition of its factors".into(),
                ),
                _ => needs_poisson(),
            });
        }
        match self.sampling {
            Sampling::Poisson { sample_rate } => {
                require_sample_rate(sample_rate)?;
                require_probability("cosine", group.cosine)?;
                require_group_size(group.size)?;
                require_rates_of_all(group)?;
                match (&group.rates, &group.norms) {
                    (None, None) => {
                        norms_of_equal_sums(GroupLaw::binomial(group.size, sample_rate)?, group.cosine)
                    }
                    (Some(rates), None) => norms_of_equal_sums(GroupLaw::poisson_binomial(rates)?, group.cosine),
                    (Some(rates), Some(norms)) => norms_of_sums(rates, norms, group.cosine),
                    (None, Some(norms)) => {
                        norms_of_sums(&vec![sample_rate; group.size as usize], norms, group.cosine)
                    }
                }
            }
            Sampling::FixedBatch {
                batch_size,
                dataset_size,
            } => {
                if group.rates.is_some() || group.norms.is_some() || (group.cosine < 1.0 && group.size > 1) {
                    return Err(needs_poisson());
                }
                GroupLaw::hypergeometric(group.size, batch_size, dataset_size)
            }
            Sampling::TruncatedPoisson { .. } => Err(Error::Mismatch(
                "a step on a Poisson sample with a largest size has one law for each public outcome".into(),
            )),
            Sampling::Mixture => match (&group.rates, &group.norms) {
                (Some(weights), Some(shifts)) => {
                    for &shift in shifts {
                        require(shift >= 0.0, "shifts", shift, "at least 0")?;
                    }
                    GroupLaw::explicit(weights, shifts)
                }
                _ => Err(Error::Mismatch("a mixture needs rates and norms".into())),
            },
            Sampling::RandomAllocation { .. } | Sampling::FixedBins { .. } => {
                let message = "batches of an epoch into which records are allocated have no law of their own";
                Err(Error::Mismatch(message.into()))
            }
        }
    }
}

/// Checks that every record of a group has a rate where any has its own.
pub(crate) fn require_rates_of_all(group: &Group) -> Result<()> {
    let rates = group.rates.as_ref().map_or(group.size, |rates| rates.len() as u64);
    if rates == group.size {
        return Ok(());
    }
    Err(Error::Mismatch(format!(
        "a group of {} records needs a rate for each, got {rates}",
        group.size
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::StepLoss;
    use crate::loss::pairs::StepOutcome;
    use crate::step::Direction;

    #[test]
    fn groups_whose_size_is_not_that_of_their_lists_are_refused() {
        let law = |size, rates: Option<Vec<f64>>, norms: Option<Vec<f64>>| {
            let group = Group {
                rates,
                norms,
                ..Group::of(size)
            };
            Step {
                group,
                ..Step::poisson(Mechanism::Gaussian { noise_multiplier: 1.0 }, 0.1, size)
            }
            .law()
        };
        let (rates, norms) = (Some(vec![0.1, 0.2]), Some(vec![1.0, 0.5]));
        assert!(law(2, rates.clone(), norms.clone()).is_ok() && law(2, None, norms.clone()).is_ok());
        for size in [0, 1, 3, 1 << 60, u64::MAX] {
            assert!(law(size, rates.clone(), None).is_err(), "{size}");
            assert!(law(size, rates.clone(), norms.clone()).is_err(), "{size}");
            assert!(law(size, None, norms.clone()).is_err(), "{size}");
        }
    }

    #[test]
    fn a_mixture_is_the_law_that_it_names() {
        let mut step = Step {
            mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
            sampling: Sampling::Mixture,
            group: Group {
                rates: Some(vec![0.81, 0.18, 0.01]),
                norms: Some(vec![0.0, 1.0, 2.0]),
                ..Group::of(1)
            },
        };
        let binomial = GroupLaw::binomial(2, 0.1).unwrap();
        let law = step.law().unwrap();
        assert_eq!(law.shifts(), binomial.shifts());
        for (found, exact) in law.log_weights().iter().zip(binomial.log_weights()) {
            assert!((found - exact).abs() < 1e-14);
        }
        // Its shifts are distances where records are replaced.
        let replaced = StepLoss::replace_group_fixed_batch(&law, 1.0).unwrap();
        assert!(matches!(step.outcome(None), Ok(StepOutcome::Loss(_))) && replaced.is_some());
        step.mechanism = Mechanism::Laplace { scale: 1.0 };
        assert!(step.outcome(Some(Direction::Add)).is_err());
        step.group.norms = Some(vec![0.0, -1.0, 2.0]);
        assert!(step.law().is_err());
        step.group.norms = None;
        assert!(step.law().is_err());
    }
}
