//! Which data sets are neighbours, and in which order the adversary compares two of them.

use crate::error::{Error, Result};

/// Which data set the adversary's loss is measured from.
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
    /// The ordered pairs of which the worst counts: the usually larger one first; replacement is one symmetric pair.
    pub fn pairs(self) -> &'static [Option<Direction>] {
        match self {
            Self::AddRemove => &[Some(Direction::Remove), Some(Direction::Add)],
            Self::Add => &[Some(Direction::Add)],
            Self::Remove => &[Some(Direction::Remove)],
            Self::Replace => &[None],
        }
    }
    /// The directions of which the worst counts, as [`Adjacency::pairs`], for what has no symmetric pair.
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
