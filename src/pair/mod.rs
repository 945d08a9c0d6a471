//! Dominating pairs of one step: N(0, σ²) against a mixture Σ_j w_j N(s_j, σ²).
//!
//! GROUP Theorem 18 and Lemma 14 (`docs/theory/dominating-pairs.md`): every k-neighbouring pair of data sets is dominated by such
//! a pair, with weights that say how many members of the group are in the batch.

pub mod atom_loss;
pub mod gate;
pub mod gaussian_loss;
pub mod laplace_loss;
pub mod laplace_moments;
mod laplace_power;
mod laplace_step;
mod laplace_sums;
pub mod law;
pub mod line;
pub mod loss;
pub mod members;
pub mod moment;
pub mod nodes;
mod panel;
pub mod piece;
pub mod posterior;
pub mod power_excess;
mod ratio;
pub mod scheme;

pub use law::GroupLaw;
pub use loss::StepLoss;
pub use ratio::{Local, MixturePair, Surroundings};

/// Which data set the adversary's loss is measured from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// P = N(0, σ²), Q = mixture: the group is added.
    Add,
    /// P = mixture, Q = N(0, σ²): the group is removed.
    Remove,
}

impl Direction {
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

/// Which pairs of data sets count as neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adjacency {
    /// The group is added or removed: the larger of the two divergences.
    AddRemove,
    /// The group is added.
    Add,
    /// The group is removed.
    Remove,
}

impl Adjacency {
    /// The directions whose maximum is the guarantee, the usually larger one first.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Self::AddRemove => &[Direction::Remove, Direction::Add],
            Self::Add => &[Direction::Add],
            Self::Remove => &[Direction::Remove],
        }
    }
}
