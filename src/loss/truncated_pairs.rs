//! The pairs of Poisson samples with a largest size (`docs/theory/truncated-poisson.md`).
//!
//! Which of several laws the group's shift has depends on how many other records are in the sample, which is no secret of the group: the
//! step is the public mixture of one pair for each of them.

use crate::error::{Result, require};
use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::loss_curve::Atom;
use crate::loss::pairs::{MAX_NOISE, REVEALING_NOISE, StepOutcome, unsupported};
use crate::special::log_space::LogSum;
use crate::step::members::needs_poisson;
use crate::step::truncated_poisson::{PublicLaw, TruncatedSample};
use crate::step::{Direction, GroupLaw, Mechanism, Sampling, Step};

impl Step {
    /// The sample of this step, where it has a largest size.
    pub(super) fn truncated_sample(&self) -> Option<TruncatedSample> {
        let Sampling::TruncatedPoisson {
            sample_rate,
            max_batch_size,
            dataset_size,
        } = self.sampling
        else {
            return None;
        };
        Some(TruncatedSample {
            sample_rate,
            max_batch_size,
            dataset_size,
        })
    }

    /// The pair of a step on such a sample: for Gaussian noise and records that are alike.
    ///
    /// Given the public outcome, a group that is added or removed has the pair of its law (Lemma 3 of
    /// `docs/theory/dominating-pairs.md`). One record that is replaced has that of Poisson sampling where nobody is dropped, and
    /// otherwise that of a fixed batch.
    ///
    /// # Errors
    /// Other noise, rates or norms, several records that are replaced, or an argument out of range.
    pub(super) fn truncated(&self, sample: &TruncatedSample, direction: Option<Direction>) -> Result<StepOutcome> {
        let Mechanism::Gaussian { noise_multiplier } = self.mechanism else {
            return Err(unsupported("noise other than Gaussian", "a largest batch size"));
        };
        let group = &self.group;
        if group.rates.is_some() || group.norms.is_some() {
            return Err(needs_poisson());
        }
        if direction.is_none() {
            require(
                group.size == 1,
                "group_size",
                group.size,
                "1 for replacement under Poisson sampling",
            )?;
        }
        let laws = sample.public_laws(group.size)?;
        if noise_multiplier < REVEALING_NOISE {
            return Ok(without_noise(&laws, direction));
        }
        let sigma = noise_multiplier.min(MAX_NOISE);
        let mut parts = Vec::with_capacity(laws.len());
        let mut moves = false;
        for public in &laws {
            let loss = match direction {
                Some(direction) => StepLoss::mixture(&public.law, sigma, direction)?,
                None if public.is_poisson => {
                    StepLoss::replace_poisson(&GroupLaw::binomial(1, sample.sample_rate)?, sigma)?
                }
                None => StepLoss::replace_fixed_batch(&public.law, sigma)?,
            };
            moves |= loss.is_some();
            let nothing = || StepLoss::gaussians(vec![0.0], vec![0.0]);
            parts.push((public.log_probability, loss.unwrap_or_else(nothing)));
        }
        Ok(match moves {
            true => StepOutcome::Loss(StepLoss::public_outcome(parts)),
            false => StepOutcome::Nothing,
        })
    }
}

/// The step without noise, whose output shows how many members are kept: P and Q have those outputs in common in which none is.
///
/// Let w_i be the probability of a public outcome and h_i that of no member given this outcome. Removed, P has a common output with
/// probability Σ w_i h_i and the loss log h_i, and Q always; added, the reverse. Replaced, both have one with the first probability, and
/// there is no loss.
fn without_noise(laws: &[PublicLaw], direction: Option<Direction>) -> StepOutcome {
    let (mut both, mut alone) = (LogSum::default(), LogSum::default());
    let unseen: Vec<(f64, f64)> = laws
        .iter()
        .map(|public| (public.log_probability, public.law.log_probability_of_zero()))
        .filter(|(_, log_unseen)| *log_unseen > f64::NEG_INFINITY)
        .collect();
    for (log_probability, log_unseen) in &unseen {
        both.add(log_probability + log_unseen);
        alone.add(*log_probability);
    }
    if unseen.is_empty() {
        return StepOutcome::RevealsMembership {
            log_unseen: f64::NEG_INFINITY,
        };
    }
    // Sums of all probabilities are 1 but for rounding.
    let all = unseen.len() == laws.len();
    let (log_both, log_alone) = (both.ln().min(0.0), if all { 0.0 } else { alone.ln().min(0.0) });
    if log_both == 0.0 {
        return StepOutcome::Nothing;
    }
    let conditional = |log_mass: fn(&(f64, f64)) -> f64, log_total: f64, sign: f64| {
        let mut atoms: Vec<Atom> = unseen
            .iter()
            .map(|part| Atom::new(sign * (part.1 - log_both + log_alone), log_mass(part) - log_total))
            .collect();
        atoms.sort_by(|a, b| b.loss.total_cmp(&a.loss));
        (atoms.len() > 1).then(|| StepLoss::new(AtomLoss::new(atoms)))
    };
    let (log_common, offset, loss) = match direction {
        None => (log_both, 0.0, None),
        Some(Direction::Remove) => (
            log_both,
            log_both - log_alone,
            conditional(|part| part.0 + part.1, log_both, 1.0),
        ),
        Some(Direction::Add) => (
            log_alone,
            log_alone - log_both,
            conditional(|part| part.0, log_alone, -1.0),
        ),
    };
    StepOutcome::Partly {
        log_common,
        offset,
        loss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::composed_loss::ComposedLoss;
    use crate::curve::composition::Composition;
    use crate::step::{Adjacency, Group};

    fn step(sigma: f64, (sample_rate, max_batch_size, dataset_size): (f64, u64, u64), size: u64) -> Step {
        Step {
            mechanism: Mechanism::Gaussian {
                noise_multiplier: sigma,
            },
            sampling: Sampling::TruncatedPoisson {
                sample_rate,
                max_batch_size,
                dataset_size,
            },
            group: Group::of(size),
        }
    }

    /// The two curves of a step where the pair is one of Poisson sampling if nobody is dropped, and otherwise `at_the_cap` has it.
    fn curve(steps: &[(Step, u64)], at_the_cap: impl Fn(&PublicLaw) -> StepLoss) -> Composition {
        let curves = Direction::BOTH.map(|direction| {
            let loss = |public: &PublicLaw| match public.is_poisson {
                true => StepLoss::mixture(&public.law, 1.0, direction).unwrap().unwrap(),
                false => at_the_cap(public),
            };
            let outcome = |(step, count): &(Step, u64)| {
                let laws = step.truncated_sample().unwrap().public_laws(1).unwrap();
                let parts = laws.iter().map(|public| (public.log_probability, loss(public)));
                (StepOutcome::Loss(StepLoss::public_outcome(parts.collect())), *count)
            };
            ComposedLoss::new(steps.iter().map(outcome).collect(), direction == Direction::Add)
        });
        Composition::of_directions(curves.into())
    }

    /// dp_accounting 0.6.0, `test_truncated_subsampled_gaussian_basic`: three steps and two, ε = 17.904330 at δ = 1e-6, from a grid of 1e-4
    /// that rounds up. Where the sample is cut it has two shifts by 2 in opposite directions in place of one, which is more.
    #[test]
    fn the_published_pair_has_the_published_epsilon_and_ours_less() {
        let steps = [(step(1.0, (0.5, 2, 4), 1), 3), (step(1.0, (0.5, 2, 3), 1), 2)];
        let epsilon = |mut curve: Composition| curve.epsilon(1e-6, 1e-6).unwrap();
        let published = epsilon(curve(&steps, |public| {
            let rate = -public.law.log_probability_of_zero().exp_m1();
            StepLoss::replace_poisson(&GroupLaw::binomial(1, rate).unwrap(), 0.5)
                .unwrap()
                .unwrap()
        }));
        assert!((published.upper - 17.904_330).abs() < 2e-3, "{published:?}");
        // A record that is replaced by one of value zero: the theorem of `docs/theory/truncated-poisson.md`.
        let zeroed = epsilon(curve(&steps, |public| {
            StepLoss::replace_fixed_batch(&public.law, 1.0).unwrap().unwrap()
        }));
        assert!(
            (zeroed.upper - 16.505_83).abs() < 1e-4 && zeroed.upper - zeroed.lower < 1e-4,
            "{zeroed:?}"
        );
        let of = |adjacency| epsilon(Composition::new(&steps, adjacency).unwrap());
        let (added, replaced) = (of(Adjacency::AddRemove), of(Adjacency::Replace));
        assert!(
            added.upper < zeroed.lower && zeroed.upper < replaced.lower,
            "{added:?} {replaced:?}"
        );
        assert!(replaced.upper < published.lower, "{replaced:?}");
    }

    /// One step is the mean of its parts: δ by the definition from normal tails.
    #[test]
    fn one_step_is_the_mean_over_the_public_outcomes() {
        let truncated = step(1.3, (0.4, 3, 6), 2);
        for direction in Direction::BOTH {
            let Ok(StepOutcome::Loss(loss)) = truncated.outcome(Some(direction)) else {
                panic!()
            };
            let laws = truncated.truncated_sample().unwrap().public_laws(2).unwrap();
            assert_eq!(laws.len(), 3);
            for epsilon in [-0.4, 0.1, 1.0, 3.0] {
                let delta = |loss: &StepLoss| loss.one_step(epsilon, 1e-10, &mut Default::default());
                let part = |public: &PublicLaw| {
                    let loss = StepLoss::mixture(&public.law, 1.3, direction).unwrap().unwrap();
                    public.log_probability.exp() * delta(&loss).lower()
                };
                let exact: f64 = laws.iter().map(part).sum();
                let found = delta(&loss);
                assert!((found.upper() - exact).abs() < 1e-10 && found.lower() <= exact * (1.0 + 1e-12));
            }
        }
    }

    #[test]
    fn a_batch_that_holds_everybody_is_that_of_poisson_sampling() {
        for direction in [Some(Direction::Remove), Some(Direction::Add), None] {
            let Ok(StepOutcome::Loss(mut all)) = step(1.0, (0.2, 9, 9), 1).outcome(direction) else {
                panic!()
            };
            let poisson = Step::poisson(Mechanism::Gaussian { noise_multiplier: 1.0 }, 0.2, 1);
            let Ok(StepOutcome::Loss(mut one)) = poisson.outcome(direction) else {
                panic!()
            };
            assert_eq!(all.moments(0.7, -30.0).log_moment, one.moments(0.7, -30.0).log_moment);
        }
    }

    /// With next to no noise the output shows the law of the kept members: ε is infinite below the probability that none is kept in any
    /// step, and what is known to be so without noise is the limit of what is known with little.
    #[test]
    fn without_noise_the_output_shows_who_is_kept() {
        let sampling = (0.3, 2, 4);
        let curve = |sigma: f64, adjacency| Composition::new(&[(step(sigma, sampling, 1), 3)], adjacency).unwrap();
        let laws = step(1.0, sampling, 1)
            .truncated_sample()
            .unwrap()
            .public_laws(1)
            .unwrap();
        let unseen: f64 = laws
            .iter()
            .map(|public| (public.log_probability + public.law.log_probability_of_zero()).exp())
            .sum();
        for adjacency in [Adjacency::Remove, Adjacency::Add, Adjacency::Replace] {
            for epsilon in [0.0, 0.3, 1.2] {
                let [none, little] =
                    [0.0, 0.04].map(|sigma| curve(sigma, adjacency).delta(epsilon, 1e-9).unwrap());
                assert!(
                    (none.upper() - little.upper()).abs() < 1e-8,
                    "{adjacency:?} {epsilon}: {none:?} {little:?}"
                );
            }
        }
        let seen = 1.0 - unseen.powi(3);
        let remove = curve(0.0, Adjacency::Remove).delta(0.5, 1e-9).unwrap();
        assert!((remove.upper() - seen).abs() < 1e-12 && remove.upper() >= seen * (1.0 - 1e-14));
        assert!((curve(0.0, Adjacency::Replace).delta(0.5, 1e-9).unwrap().upper() - seen).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_proven_pair_is_refused() {
        let mut refused = step(1.0, (0.5, 2, 4), 2);
        assert!(refused.outcome(None).unwrap_err().to_string().contains("group_size"));
        assert!(refused.law().is_err());
        refused.group.rates = Some(vec![0.1, 0.2]);
        assert!(refused.outcome(Some(Direction::Add)).is_err());
        refused.group = Group::of(1);
        refused.mechanism = Mechanism::Laplace { scale: 1.0 };
        assert!(refused.outcome(Some(Direction::Add)).is_err());
    }
}
