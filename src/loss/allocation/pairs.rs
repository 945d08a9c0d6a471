//! The rows of the table of pairs for batches into which records are allocated (`docs/theory/random-allocation.md`).

use crate::error::{Error, Result, require};
use crate::loss::StepLoss;
use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::groups::{self, MAX_MEMBERS};
use crate::loss::allocation_laplace;
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
    /// in bins that stay, batches are taken as published. The last epoch counts as a whole one.
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
        let Sampling::RandomAllocation { times, .. } = self.sampling else {
            return Ok(vec![(public_with_laplace(scale, members, direction)?, epochs)]);
        };
        require((1..=batches).contains(&times), "times", times, "in [1, batches]")?;
        if members > 1 {
            let moved = members.saturating_mul(times);
            return Ok(vec![(public_with_laplace(scale, moved, direction)?, epochs)]);
        }
        let of = |size: u64| allocation_laplace::outcome(scale, size, direction);
        in_blocks(batches, times, epochs, of)
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
    let bins = Bins::new(batches)?;
    Ok(StepOutcome::Loss(match bins.parts.as_slice() {
        // One batch is all of the data.
        [part] if part.count == 1.0 && bins.still == 0.0 => StepLoss::shift(part.variance.sqrt()),
        _ => StepLoss::allocation(bins, direction),
    }))
}

fn unsupported(what: &str) -> Error {
    Error::Mismatch(format!(
        "random allocation and fixed bins are not supported with {what}"
    ))
}
