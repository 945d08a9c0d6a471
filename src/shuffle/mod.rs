//! How often a group takes part in shuffled and in subsampled batches (SHUFFLE Definition 5.1).
//!
//! [`membership`] is the law of the squared number of clipping norms by which a run moves for a group, made from that of the units its
//! members fall into ([`occupancy`]) and of how these units fall into rounds. Everything is exact combinatorics with positive terms, and
//! every probability that is left out is accounted for.

mod convolution;
mod counts;
mod membership;
mod occupancy;
mod plan;
mod rounds;

pub use membership::MembershipLaw;
pub use occupancy::OccupancyLaw;
pub use plan::{Plan, Sampling};
