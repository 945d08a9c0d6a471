//! What one step of a run is: its noise, how its batch is drawn, whose records are protected, and which data sets are neighbours.
//!
//! [`mechanism`], [`sampling`], [`group`] and [`adjacency`] are the nouns that every other room uses; [`group_law`] is the law of how far a
//! group moves the sum of a batch. Which of their combinations have a dominating pair, and which one, is in [`crate::loss::pairs`].

pub mod adjacency;
pub mod group;
pub mod group_law;
pub mod mechanism;
pub mod members;
pub mod sampling;
#[allow(clippy::module_inception)]
pub mod step;

pub use adjacency::{Adjacency, Direction, Neighbours};
pub use group::Group;
pub use group_law::GroupLaw;
pub use mechanism::Mechanism;
pub use sampling::Sampling;
pub use step::Step;
