//! The records that are protected together.

use crate::error::{Result, require};

/// Largest supported number of members in a group.
pub(crate) const MAX_GROUP_SIZE: u64 = 10_000;

/// The records of one owner, who is protected.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Number of records.
    pub size: u64,
    /// A Poisson sampling rate for each record, in place of the common one.
    pub rates: Option<Vec<f64>>,
    /// A bound on the norm of each record's gradient, in units of the clipping norm.
    pub norms: Option<Vec<f64>>,
    /// True if the gradients are known to be mutually orthogonal: see [`Step::factors`](crate::Step::factors).
    pub orthogonal: bool,
}

impl Group {
    /// k records without rates or norms of their own.
    pub fn of(size: u64) -> Self {
        Self {
            size,
            rates: None,
            norms: None,
            orthogonal: false,
        }
    }
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
