//! Privacy losses of one step.
//!
//! [`pairs`] is the table of dominating pairs: it turns a step into the loss of the pair that dominates it. A loss is a
//! [`PrivacyLoss`], the trait through which every engine (inversion, grid, closed forms) works; [`StepLoss`] is one of any kind.
//! A new kind of noise or batch is one file here and one row of that table.
//!
//! | kind | loss | files |
//! |---|---|---|
//! | Gaussian noise, sampled | smooth in the output | `smooth*`, `pair_panel`, `piece_lattice`, `joint`, `continuation`, `mixture_pair`, `posterior`, `gate`, `line` |
//! | Gaussian noise, all members known to be there or not | mixture of Gaussians | `gaussian*` |
//! | Laplace noise | two or three atoms, and smooth pieces | `laplace*` |
//! | Laplace noise, records dealt into batches | two laws of atoms on a fine lattice | `dealt_laplace` |
//! | finitely many outcomes | atoms | `atoms` |
//! | several independent outputs | a sum of losses | `independent_sum` |
//! | very many steps of different noise and rates | a sum of losses, interpolated | `schedule` |
//! | one of several of these at random, and everybody sees which | their mixture | `public_outcome` |
//!
//! `lattice` has laws of sums of variables on a lattice, for the dealt batches; [`clusters`] the outputs of a step that have nearly one loss.
//!
//! `moment` and `panel` integrate real powers of the ratio of a Gaussian mixture, which is what Rényi divergences are made of.
//!
//! GROUP Theorem 18 and Lemma 14 (`docs/theory/dominating-pairs.md`): every k-neighbouring pair of data sets is dominated by
//! N(0, σ²) against a mixture Σ_j w_j N(s_j, σ²), with weights that say how many members of the group are in the batch.

pub(crate) mod allocation;
pub(crate) mod atoms;
pub(crate) mod characteristic_function;
pub(crate) mod clusters;
mod continuation;
mod dealt_laplace;
mod fixed_rule;
pub(crate) mod gate;
pub(crate) mod gaussian;
mod gaussian_curve;
pub(crate) mod independent_sum;
mod joint;
pub(crate) mod laplace;
mod laplace_clusters;
mod laplace_curve;
mod laplace_decay;
mod laplace_estimate;
mod laplace_law;
mod laplace_moments;
mod laplace_pairs;
mod laplace_power;
mod laplace_step;
mod laplace_sums;
mod laplace_truncation;
mod lattice;
pub(crate) mod line;
pub(crate) mod loss_curve;
pub(crate) mod max_loss;
mod mixture_pair;
pub(crate) mod moment;
pub(crate) mod nodes;
pub(crate) mod one_step;
mod pair_panel;
pub(crate) mod pairs;
mod panel;
mod path;
mod piece_lattice;
pub(crate) mod posterior;
pub(crate) mod power_excess;
pub(crate) mod privacy_loss;
pub(crate) mod public_outcome;
pub(crate) mod schedule;
mod smooth;
mod smooth_decay;
mod smooth_estimate;
mod smooth_large;
mod smooth_nodes;
mod smooth_pairs;
mod smooth_panel;
pub(crate) mod smooth_piece;
mod truncated_pairs;

pub(crate) use mixture_pair::Local;
pub use mixture_pair::MixturePair;
pub(crate) use privacy_loss::{PrivacyLoss, StepLoss};
