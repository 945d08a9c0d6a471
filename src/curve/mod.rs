//! Privacy curves δ(ε) of whole runs: composition of steps, the choice between ways to compute, the search for ε, and planning.

pub mod black_box;
mod coin_count;
pub mod composition;
pub mod directed;
pub mod epsilon_search;
mod group_chain;
mod largest_loss;
pub mod one_step;
pub mod planning;
pub mod range_cache;
mod threshold;
mod truncated;
