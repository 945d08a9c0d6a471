//! Privacy curves δ(ε) of whole runs: composition of steps, the choice between ways to compute, the search for ε, and planning.

pub mod black_box;
mod coin_count;
pub(crate) mod composition;
pub(crate) mod directed;
pub(crate) mod epsilon_search;
mod group_chain;
mod largest_loss;
pub mod planning;
pub(crate) mod range_cache;
mod threshold;
mod truncated;

pub(crate) use crate::loss::one_step;
