//! Privacy losses of one step: which pair dominates it, and the moments of the loss of each kind of pair.
//!
//! GROUP Theorem 18 and Lemma 14 (`docs/theory/dominating-pairs.md`): every k-neighbouring pair of data sets is dominated by
//! N(0, σ²) against a mixture Σ_j w_j N(s_j, σ²), with weights that say how many members of the group are in the batch.

pub mod atoms;
pub mod gate;
pub mod gaussian;
pub mod laplace;
pub mod laplace_moments;
mod laplace_power;
mod laplace_step;
mod laplace_sums;
pub mod line;
mod mixture_pair;
pub mod moment;
pub mod pairs;
mod panel;
pub mod posterior;
pub mod power_excess;
pub mod smooth;
pub mod smooth_piece;
pub mod step_loss;

pub use mixture_pair::{Local, MixturePair, Surroundings};
pub use step_loss::StepLoss;
