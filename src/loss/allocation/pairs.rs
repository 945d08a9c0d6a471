//! The rows of the table of pairs for batches into which records are allocated (`docs/theory/random-allocation.md`).

use crate::error::{Error, Result, require};
use crate::loss::StepLoss;
use crate::loss::allocation::bins::Bins;
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

    /// [`Step::outcomes`] of allocated batches.
    pub(crate) fn allocated(&self, direction: Option<Direction>, count: u64) -> Result<Outcomes> {
        let Mechanism::Gaussian { noise_multiplier } = self.mechanism else {
            return Err(unsupported("anything but Gaussian noise"));
        };
        self.mechanism.check()?;
        let Some(direction) = direction else {
            return Err(unsupported("replaced records"));
        };
        if self.group != Group::of(1) {
            return Err(unsupported(
                "a group of several records, or with rates or norms of its own",
            ));
        }
        let v = noise_multiplier.powi(-2);
        let epochs = |batches: u64| -> Result<(u64, u64)> {
            require(batches >= 1, "batches", batches, "at least 1")?;
            Ok((count / batches, count % batches))
        };
        let mut found = Vec::new();
        match self.sampling {
            Sampling::RandomAllocation { batches } => {
                let (whole, rest) = epochs(batches)?;
                if whole > 0 {
                    found.push((outcome(&[(batches, v)], direction)?, whole));
                }
                if rest > 0 {
                    found.push((outcome(&[(rest, v), (batches - rest, 0.0)], direction)?, 1));
                }
            }
            Sampling::FixedBins { batches } => {
                let (whole, rest) = epochs(batches)?;
                let of = |times: u64| if times == 0 { 0.0 } else { v * times as f64 };
                let bins = [(rest, of(whole + 1)), (batches - rest, of(whole))];
                if count > 0 {
                    found.push((outcome(&bins, direction)?, 1));
                }
            }
            _ => return Err(unsupported("this way to draw batches")),
        }
        Ok(found)
    }
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
