//! Privacy losses of one step: which pair dominates it, and the moments of the loss of each kind of pair.
//!
//! GROUP Theorem 18 and Lemma 14 (`docs/theory/dominating-pairs.md`): every k-neighbouring pair of data sets is dominated by
//! N(0, σ²) against a mixture Σ_j w_j N(s_j, σ²), with weights that say how many members of the group are in the batch.

pub(crate) mod atoms;
pub(crate) mod characteristic_function;
pub(crate) mod gate;
pub(crate) mod gaussian;
pub(crate) mod laplace;
mod laplace_curve;
mod laplace_moments;
mod laplace_power;
mod laplace_step;
mod laplace_sums;
pub(crate) mod line;
pub(crate) mod loss_curve;
mod mixture_pair;
pub(crate) mod moment;
pub(crate) mod nodes;
pub(crate) mod one_step;
pub(crate) mod pairs;
mod panel;
pub(crate) mod posterior;
pub(crate) mod power_excess;
pub(crate) mod privacy_loss;
mod smooth;
mod smooth_decay;
mod smooth_nodes;
mod smooth_pairs;
mod smooth_panel;
pub(crate) mod smooth_piece;
mod step_loss;

pub(crate) use mixture_pair::Local;
pub use mixture_pair::MixturePair;
pub(crate) use privacy_loss::PrivacyLoss;
pub(crate) use step_loss::StepLoss;
