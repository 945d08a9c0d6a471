//! Which data sets are neighbours, and in which order the adversary compares two of them.

use crate::error::{Error, Result};

/// The order of an ordered pair of neighbours: which of them the adversary's privacy loss is measured under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// P = N(0, σ²), Q = mixture: the group is added.
    Add,
    /// P = mixture, Q = N(0, σ²): the group is removed.
    Remove,
}

impl Direction {
    /// Both directions, the one whose divergence is usually larger first.
    pub(crate) const BOTH: [Self; 2] = [Self::Remove, Self::Add];

    /// The exponent p with E_P[e^{(α−1)·loss}] = E_{N(0)}[r^p], where r = mixture / N(0, σ²).
    pub fn ratio_exponent(self, order: f64) -> f64 {
        match self {
            Self::Add => 1.0 - order,
            Self::Remove => order,
        }
    }

    /// The other order.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Add => Self::Remove,
            Self::Remove => Self::Add,
        }
    }

    /// The sign of log r in the privacy loss log(dP/dQ).
    pub fn sign(self) -> f64 {
        match self {
            Self::Add => -1.0,
            Self::Remove => 1.0,
        }
    }
}

/// Which data sets are neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adjacency {
    /// The group is added or removed: the larger of two divergences.
    AddRemove,
    /// Added.
    Add,
    /// Removed.
    Remove,
    /// Replaced by as many other records.
    Replace,
}

impl Adjacency {
    /// The ordered pairs whose larger divergence is the guarantee, the one that is usually larger first; replacement has one symmetric pair.
    pub fn pairs(self) -> &'static [Option<Direction>] {
        match self {
            Self::AddRemove => &[Some(Direction::Remove), Some(Direction::Add)],
            Self::Add => &[Some(Direction::Add)],
            Self::Remove => &[Some(Direction::Remove)],
            Self::Replace => &[None],
        }
    }

    /// [`Adjacency::pairs`] where replacement has no pair.
    ///
    /// # Errors
    /// Replacement.
    pub fn directions(self) -> Result<&'static [Direction]> {
        match self {
            Self::AddRemove => Ok(&[Direction::Remove, Direction::Add]),
            Self::Add => Ok(&[Direction::Add]),
            Self::Remove => Ok(&[Direction::Remove]),
            Self::Replace => Err(Error::out_of_range(
                "adjacency",
                "replace",
                "\"add_remove\", \"add\" or \"remove\"",
            )),
        }
    }
}
