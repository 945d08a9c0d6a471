//! The records that are protected together.

use crate::error::{Error, Result, require};

/// Largest supported number of members in a group.
pub(crate) const MAX_GROUP_SIZE: u64 = 10_000;

/// Longest list of rates or norms that is made: longer ones would take memory before the size of the group is refused.
const MAX_LISTED: u64 = 100_000;

/// The records of one owner, who is protected.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Number of records.
    pub size: u64,
    /// A Poisson sampling rate for each record, in place of the common one.
    pub rates: Option<Vec<f64>>,
    /// A bound on the norm of each record's gradient, in units of the clipping norm.
    pub norms: Option<Vec<f64>>,
    /// A bound in [0, 1] on the cosine of the angle between the gradients of any two members: 1 where nothing is known, and 0 where
    /// they are orthogonal, whose steps are those of their members ([`Step::factors`](crate::Step::factors)).
    pub cosine: f64,
}

impl Group {
    /// k records without rates or norms of their own.
    pub fn of(size: u64) -> Self {
        Self {
            size,
            rates: None,
            norms: None,
            cosine: 1.0,
        }
    }

    /// Whether no two members' gradients have a common direction; one alone has nobody to share it with.
    pub(crate) fn is_orthogonal(&self) -> bool {
        self.cosine == 0.0 && self.size > 1
    }

    /// The group that has the law of this one in `batches` batches that are added up before noise (gradient accumulation): each member
    /// once for every batch.
    ///
    /// Batches are drawn independently, so that a member is in each of them as another record would be, and its gradients in several
    /// batches are one and the same: aligned, as those of other records are at worst. The cosine of a single record says nothing.
    ///
    /// # Errors
    /// More than 100,000 rates or norms; several batches and several members with a cosine below 1, as the cosine of two copies of one
    /// member is 1.
    ///
    /// # Example
    /// ```
    /// use hockeystick::Group;
    /// let one = Group { norms: Some(vec![0.5]), ..Group::of(1) };
    /// let accumulated = one.in_batches(3)?;
    /// assert_eq!((accumulated.size, accumulated.norms), (3, Some(vec![0.5; 3])));
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn in_batches(self, batches: u64) -> Result<Self> {
        let of_all = |values: Option<Vec<f64>>| -> Result<Option<Vec<f64>>> {
            let Some(values) = values else { return Ok(None) };
            let copies = listable((values.len() as u64).saturating_mul(batches))? / values.len().max(1);
            Ok(Some(values.repeat(copies)))
        };
        let is_bounded = batches > 1 && self.cosine < 1.0;
        if is_bounded && self.size > 1 {
            return Err(Error::Mismatch(
                "batches that are added up take aligned records only: those of one member have one gradient"
                    .into(),
            ));
        }
        Ok(Self {
            size: self.size.saturating_mul(batches),
            rates: of_all(self.rates)?,
            norms: of_all(self.norms)?,
            cosine: if is_bounded { 1.0 } else { self.cosine },
        })
    }
}

/// The length of a list of members.
///
/// # Errors
/// More than 100,000 of them.
pub(crate) fn listable(size: u64) -> Result<usize> {
    if size <= MAX_LISTED {
        return Ok(size as usize);
    }
    Err(Error::out_of_range("group_size", size, "a whole number in [1, 100000]"))
}

/// Checks that `group_size` is supported.
pub(crate) fn require_group_size(group_size: u64) -> Result<()> {
    require(
        (1..=MAX_GROUP_SIZE).contains(&group_size),
        "group_size",
        group_size,
        "in [1, 10000]",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{GroupLaw, Mechanism, Sampling, Step};

    /// A record in two accumulated batches at rates 0.3 is in 0, 1 or 2 of them with probabilities 0.49, 0.42 and 0.09.
    #[test]
    fn a_record_is_in_each_accumulated_batch_on_its_own() {
        let step = |group: Group| Step {
            mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
            sampling: Sampling::Poisson { sample_rate: 0.3 },
            group,
        };
        let law = step(Group::of(1).in_batches(2).unwrap()).law().unwrap();
        let exact = GroupLaw::explicit(&[0.49, 0.42, 0.09], &[0.0, 1.0, 2.0]).unwrap();
        assert_eq!(law.shifts(), exact.shifts());
        for (found, exact) in law.log_weights().iter().zip(exact.log_weights()) {
            assert!((found - exact).abs() < 1e-14);
        }
    }

    /// The copies of one record are aligned whatever is known of other records, and with several members no one cosine is that of all copies.
    #[test]
    fn copies_in_accumulated_batches_have_one_direction() {
        for cosine in [0.0, 0.4] {
            let group = |size| Group {
                cosine,
                ..Group::of(size)
            };
            assert_eq!(group(1).in_batches(3).unwrap(), Group::of(3));
            assert!(group(2).in_batches(3).is_err());
            assert_eq!(group(2).in_batches(1).unwrap(), group(2));
        }
        assert_eq!(Group::of(2).in_batches(3).unwrap(), Group::of(6));
    }

    #[test]
    fn lists_that_no_memory_holds_are_refused() {
        let group = Group {
            rates: Some(vec![0.1; 1000]),
            ..Group::of(1000)
        };
        assert!(group.clone().in_batches(100).is_ok());
        assert!(group.in_batches(101).unwrap_err().to_string().contains("group_size"));
        assert_eq!(Group::of(u64::MAX).in_batches(2).unwrap().size, u64::MAX);
    }
}
