//! The nouns of one step of a run: its mechanism, the sampling of its batch, the group that is protected, and the adjacency.
//!
//! [`mechanism`], [`sampling`], [`group`] and [`adjacency`] are the nouns that every other room uses; [`group_law`] is the law of the
//! shift by which a group changes the sum of a batch. Which of their combinations have a dominating pair, and which one, is in [`crate::loss::pairs`].

pub(crate) mod adjacency;
pub(crate) mod group;
pub(crate) mod group_law;
pub(crate) mod mechanism;
pub(crate) mod members;
pub(crate) mod run_step;
pub(crate) mod sampling;
pub(crate) mod truncated_poisson;

pub use adjacency::{Adjacency, Direction};
pub use group::Group;
pub use group_law::GroupLaw;
pub use mechanism::Mechanism;
pub use run_step::Step;
pub use sampling::Sampling;
