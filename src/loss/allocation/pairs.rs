//! The rows of the table of pairs for batches into which records are allocated (`docs/theory/random-allocation.md`).

use crate::error::{Error, Result, require};
use crate::loss::StepLoss;
use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::groups::{self, MAX_MEMBERS};
use crate::loss::dealt_laplace;
use crate::loss::pairs::StepOutcome;
use crate::step::{Direction, Group, Mechanism, Sampling, Step};

/// Outcomes and how often each is composed.
type Outcomes = Vec<(StepOutcome, u64)>;

impl Step {
    /// What `count` of these steps say about the group: independent outcomes and their numbers.
    ///
    /// Steps are independent of each other, but for batches into which records are allocated: there an epoch is one outcome.
    ///
    /// # Errors
    /// As [`Step::outcome`].
    pub fn outcomes(&self, direction: Option<Direction>, count: u64) -> Result<Outcomes> {
        if self.sampling.is_allocated() {
            self.allocated(direction, count)
        } else {
            Ok(vec![(self.outcome(direction)?, count)])
        }
    }

    /// True for groups whose batches are all taken as published: their answers come from a chain of single records
    /// (`docs/theory/random-allocation.md`), as the pair with a public pattern ([`groups`]) is not computed to any use.
    pub(crate) fn is_allocated_in_public(&self) -> bool {
        let several = self.group.size > 1;
        let is_laplace = matches!(self.mechanism, Mechanism::Laplace { .. });
        match self.sampling {
            Sampling::RandomAllocation { times, .. } => {
                several && (is_laplace || times > 1 || self.group.size > MAX_MEMBERS)
            }
            Sampling::FixedBins { .. } => self.group.size > MAX_MEMBERS,
            _ => false,
        }
    }

    /// [`Step::outcomes`] of allocated batches.
    pub(crate) fn allocated(&self, direction: Option<Direction>, count: u64) -> Result<Outcomes> {
        let Some(direction) = direction else {
            return Err(unsupported("replaced records"));
        };
        let noise_multiplier = match self.mechanism {
            Mechanism::Gaussian { noise_multiplier } => noise_multiplier,
            Mechanism::Laplace { scale } => return self.allocated_with_laplace(scale, direction, count),
            _ => return Err(unsupported("other noise than Gaussian and Laplace noise")),
        };
        self.mechanism.check()?;
        let members = self.group.size;
        if self.group != Group::of(members) || members == 0 {
            return Err(unsupported("a group with rates or norms of its own"));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let variance = noise_multiplier.powi(-2);
        match self.sampling {
            Sampling::RandomAllocation { batches, times } => {
                require(batches >= 1, "batches", batches, "at least 1")?;
                require((1..=batches).contains(&times), "times", times, "in [1, batches]")?;
                let epochs = count.div_ceil(batches);
                match (members, times) {
                    (1, 1) => fresh_bins(batches, variance, count, direction),
                    (1, _) => blocks(batches, times, variance, epochs, direction),
                    _ if self.is_allocated_in_public() => {
                        Ok(vec![(public(variance * times as f64, members), epochs)])
                    }
                    _ => Ok(vec![(group(batches, variance, members, direction)?, epochs)]),
                }
            }
            Sampling::FixedBins { batches } => {
                require(batches >= 1, "batches", batches, "at least 1")?;
                let (whole, rest) = (count / batches, count % batches);
                let of = |times: u64| if times == 0 { 0.0 } else { variance * times as f64 };
                let found = if members == 1 {
                    outcome(&[(rest, of(whole + 1)), (batches - rest, of(whole))], direction)?
                } else if self.is_allocated_in_public() {
                    public(of(count.div_ceil(batches)), members)
                } else {
                    group(batches, of(count.div_ceil(batches)), members, direction)?
                };
                Ok(vec![(found, 1)])
            }
            _ => Err(unsupported("this way to draw batches")),
        }
    }
}

impl Step {
    /// [`Step::outcomes`] of allocated batches with Laplace noise: one record, in blocks of batches where it is in several. For groups, and
    /// in bins that stay for more than one epoch, batches are taken as published, and there and in blocks the last epoch counts as a whole one.
    fn allocated_with_laplace(&self, scale: f64, direction: Direction, count: u64) -> Result<Outcomes> {
        let members = self.group.size;
        if self.group != Group::of(members) || members == 0 {
            return Err(unsupported("a group with rates or norms of its own"));
        }
        let batches = match self.sampling {
            Sampling::RandomAllocation { batches, .. } | Sampling::FixedBins { batches } => batches,
            _ => return Err(unsupported("this way to draw batches")),
        };
        require(batches >= 1, "batches", batches, "at least 1")?;
        let epochs = count.div_ceil(batches);
        let times = match self.sampling {
            Sampling::RandomAllocation { times, .. } => times,
            // Bins of one epoch are dealt as any other batches are.
            _ if members == 1 && epochs == 1 => 1,
            _ => return Ok(vec![(public_with_laplace(scale, members, direction)?, epochs)]),
        };
        require((1..=batches).contains(&times), "times", times, "in [1, batches]")?;
        if members > 1 {
            let moved = members.saturating_mul(times);
            return Ok(vec![(public_with_laplace(scale, moved, direction)?, epochs)]);
        }
        let of = |released: u64, size: u64| dealt_laplace::outcome(scale, released, size, direction);
        if times > 1 {
            return in_blocks(batches, times, epochs, |size| of(size, size));
        }
        let mut found = Vec::new();
        for (released, number) in [(batches, count / batches), (count % batches, 1)] {
            if released > 0 && number > 0 {
                found.push((of(released, batches)?, number));
            }
        }
        Ok(found)
    }
}

/// The outcome of an epoch with Laplace noise that hides nothing: all `moved` places of members are in one batch.
///
/// A chain of so many links leads from no member to all, each of which is a shift of one output by 1. Whatever outputs are shifted, the curve
/// is at most that of the chain, which one output that is shifted by all of it attains (`docs/theory/random-allocation.md`, Proposition 7).
fn public_with_laplace(scale: f64, moved: u64, direction: Direction) -> Result<StepOutcome> {
    let step = Step {
        mechanism: Mechanism::Laplace { scale },
        sampling: Sampling::Poisson { sample_rate: 1.0 },
        group: Group::of(moved),
    };
    step.outcome(Some(direction))
}

/// One record in one batch of each epoch: whole epochs, and the last one as far as it is released.
fn fresh_bins(batches: u64, variance: f64, count: u64, direction: Direction) -> Result<Outcomes> {
    let (whole, rest) = (count / batches, count % batches);
    let mut found = Vec::new();
    if whole > 0 {
        found.push((outcome(&[(batches, variance)], direction)?, whole));
    }
    if rest > 0 {
        found.push((outcome(&[(rest, variance), (batches - rest, 0.0)], direction)?, 1));
    }
    Ok(found)
}

/// One record in `times` batches of each epoch, an upper bound: the batches are cut at random into so many blocks, everybody sees how, and
/// the record is in one batch of each. The last epoch counts as a whole one, of which what is released is a part.
fn blocks(batches: u64, times: u64, variance: f64, epochs: u64, direction: Direction) -> Result<Outcomes> {
    in_blocks(batches, times, epochs, |size| outcome(&[(size, variance)], direction))
}

/// The outcomes of `epochs` epochs in `times` blocks each, of which `of` gives the outcome by their size.
fn in_blocks(batches: u64, times: u64, epochs: u64, of: impl Fn(u64) -> Result<StepOutcome>) -> Result<Outcomes> {
    let (size, larger) = (batches / times, batches % times);
    let mut found = Vec::new();
    for (size, number) in [(size + 1, larger), (size, times - larger)] {
        let number = number.checked_mul(epochs);
        let number = number.ok_or_else(|| Error::out_of_range("steps", epochs, "below 2^64 over times"))?;
        if number > 0 {
            found.push((of(size)?, number));
        }
    }
    Ok(found)
}

/// The outcome of an epoch that hides nothing: all members are in the same batches, of which `variance` is the sum of all v.
///
/// Whatever batches the members are in, their sums move by a vector of at most this length, so that Lemma 1 and Lemma 3 of
/// `docs/theory/dominating-pairs.md` give this pair.
fn public(variance: f64, members: u64) -> StepOutcome {
    if variance == f64::INFINITY {
        return StepOutcome::RevealsMembership {
            log_unseen: f64::NEG_INFINITY,
        };
    }
    StepOutcome::Loss(StepLoss::shift(variance.sqrt() * members as f64))
}

/// The outcome of an epoch for a group of several records; noise too small for it reveals the group.
fn group(batches: u64, variance: f64, members: u64, direction: Direction) -> Result<StepOutcome> {
    if variance == f64::INFINITY {
        return Ok(StepOutcome::RevealsMembership {
            log_unseen: f64::NEG_INFINITY,
        });
    }
    Ok(StepOutcome::Loss(groups::loss(batches, variance, members, direction)?))
}

/// The outcome of an epoch with these numbers of batches and their v.
fn outcome(batches: &[(u64, f64)], direction: Direction) -> Result<StepOutcome> {
    let total: u64 = batches.iter().map(|(count, _)| count).sum();
    if batches.iter().any(|(count, v)| *count > 0 && *v == f64::INFINITY) {
        let unseen: u64 = batches.iter().filter(|(_, v)| *v == 0.0).map(|(count, _)| count).sum();
        let log_unseen = (unseen as f64 / total as f64).ln();
        return Ok(StepOutcome::RevealsMembership { log_unseen });
    }
    let mut moving = batches.iter().filter(|(count, v)| *count > 0 && *v > 0.0);
    if let (Some(&(1, v)), None) = (moving.next(), moving.next()) {
        return one_batch(v, total).outcome(Some(direction));
    }
    let bins = Bins::new(batches)?;
    Ok(StepOutcome::Loss(match bins.parts.as_slice() {
        // One batch is all of the data.
        [part] if part.count == 1.0 && bins.still == 0.0 => StepLoss::shift(part.variance.sqrt()),
        _ => StepLoss::allocation(bins, direction),
    }))
}

/// The only batch of an epoch that was released: the record is in it with probability one over the number of batches, as in a Poisson sample
/// of that rate.
fn one_batch(variance: f64, batches: u64) -> Step {
    Step {
        mechanism: Mechanism::Gaussian {
            noise_multiplier: variance.sqrt().recip(),
        },
        sampling: Sampling::Poisson {
            sample_rate: (batches as f64).recip(),
        },
        group: Group::of(1),
    }
}

fn unsupported(what: &str) -> Error {
    Error::Mismatch(format!(
        "random allocation and fixed bins are not supported with {what}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::composition::Composition;
    use crate::step::Adjacency;

    /// δ at ε of so many steps with Laplace noise of scale 3.
    fn delta(sampling: Sampling, members: u64, steps: u64, epsilon: f64) -> f64 {
        let step = Step {
            mechanism: Mechanism::Laplace { scale: 3.0 },
            sampling,
            group: Group::of(members),
        };
        let mut run = Composition::new(&[(step, steps)], Adjacency::AddRemove).unwrap();
        run.delta(epsilon, 1e-6).unwrap().log_upper.exp()
    }

    /// The first batch of an epoch says what a Poisson sample of rate 1/t says, whichever way batches are dealt.
    #[test]
    fn the_first_batch_is_a_poisson_sample() {
        let step = |sampling| Step {
            mechanism: Mechanism::Gaussian { noise_multiplier: 2.0 },
            sampling,
            group: Group::of(1),
        };
        let epsilon = |sampling| {
            let mut run = Composition::new(&[(step(sampling), 1)], Adjacency::AddRemove).unwrap();
            run.epsilon(1e-5, 1e-6).unwrap()
        };
        let poisson = epsilon(Sampling::Poisson { sample_rate: 0.1 });
        assert!(poisson.upper - poisson.lower <= 1e-6 * poisson.upper);
        for sampling in [
            Sampling::RandomAllocation { batches: 10, times: 1 },
            Sampling::FixedBins { batches: 10 },
        ] {
            assert_eq!(epsilon(sampling), poisson);
        }
    }

    /// Bins are dealt once, so that an epoch of them is one of any dealt batches; from the second epoch on they are taken as published.
    #[test]
    fn bins_of_one_epoch_with_laplace_noise_are_dealt_batches() {
        let dealt = Sampling::RandomAllocation { batches: 5, times: 1 };
        let bins = Sampling::FixedBins { batches: 5 };
        for count in [2, 5] {
            assert_eq!(delta(bins, 1, count, 0.1), delta(dealt, 1, count, 0.1));
        }
        assert!(delta(bins, 1, 6, 0.1) > 1.1 * delta(dealt, 1, 6, 0.1));
    }

    /// One batch moves by the whole group, 1 − e^{(ε − m/b)/2} as in closed form: with half of the shift δ would be too small.
    #[test]
    fn groups_with_laplace_noise_attain_the_bound_in_one_batch() {
        let (members, epsilon) = (2u64, 0.2f64);
        let exact = -(0.5 * (epsilon - members as f64 / 3.0)).exp_m1();
        let sampling = Sampling::RandomAllocation { batches: 1, times: 1 };
        assert!((delta(sampling, members, 1, epsilon) - exact).abs() < 1e-6 * exact);
        assert!((delta(Sampling::FixedBins { batches: 1 }, members, 1, epsilon) - exact).abs() < 1e-6 * exact);
        // Two batches of two for each: the same shift as four members in one.
        let exact = -(0.5 * (epsilon - 4.0 / 3.0)).exp_m1();
        let sampling = Sampling::RandomAllocation { batches: 2, times: 2 };
        assert!(delta(sampling, members, 2, epsilon) <= exact * (1.0 + 1e-6));
    }

    /// Two batches and two members: the bound is above the true δ where nothing is published, by a sum over both outputs.
    #[test]
    fn the_bound_with_laplace_noise_is_above_two_members_in_two_batches() {
        let (epsilon, step) = (0.2f64, 0.02);
        let density = |x: f64, shift: f64| (-(x - shift).abs() / 3.0).exp() / 6.0;
        let (mut removed, mut added) = (0.0, 0.0);
        for i in -2500..2500 {
            let x = (f64::from(i) + 0.5) * step;
            for j in -2500..2500 {
                let y = (f64::from(j) + 0.5) * step;
                let q = density(x, 0.0) * density(y, 0.0);
                let apart = density(x, 1.0) * density(y, 1.0);
                let together = density(x, 2.0) * density(y, 0.0) + density(x, 0.0) * density(y, 2.0);
                let p = 0.5 * apart + 0.25 * together;
                removed += (p - epsilon.exp() * q).max(0.0) * step * step;
                added += (q - epsilon.exp() * p).max(0.0) * step * step;
            }
        }
        let sampling = Sampling::RandomAllocation { batches: 2, times: 1 };
        let bound = delta(sampling, 2, 2, epsilon);
        let exact = f64::max(removed, added);
        assert!(bound >= exact * (1.0 - 1e-4) && bound < 2.0 * exact, "{bound} {exact}");
    }
}
