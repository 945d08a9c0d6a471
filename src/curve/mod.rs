//! Privacy curves δ(ε) of whole runs: composition of steps, the choice between ways to compute, the search for ε, and planning.
//!
//! A [`composition`] is the larger curve of its ordered pairs ([`pair_curve`]), or that of a chain of single records where it is smaller
//! ([`group_chain`], whose ε is divided by [`chain_split`]). The loss of one ordered pair ([`composed_loss`]) is a sum of losses ([`loss_sum`]) beyond its singular mass; [`routes`]
//! chooses how the curve of the sum is computed.

mod accuracy;
mod answers;
mod axis;
pub mod black_box;
mod cell_contours;
mod chain_split;
mod coin_count;
pub(crate) mod composed_loss;
pub(crate) mod composition;
pub(crate) mod epsilon_search;
mod evaluators;
mod gaussian_limit;
mod group_chain;
mod large_ratio;
mod loss_sum;
pub(crate) mod mixed_directions;
mod pair_curve;
pub mod planning;
mod planning_start;
mod range_cache;
pub(crate) mod routes;
mod single_step_bounds;
mod singular_mass;
mod starting_point;
mod threshold;
mod truncated;
mod type_two_error;

pub(crate) use crate::loss::one_step;
pub(crate) use accuracy::{Accuracy, PointAccuracy};
