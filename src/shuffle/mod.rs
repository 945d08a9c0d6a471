//! How often a group takes part in shuffled and in subsampled batches (SHUFFLE Definition 5.1).
//!
//! [`membership`] is the law of the squared sensitivity of a run ([`epoch_run`]) to a group, from the law of the number of units that its
//! members fall into ([`occupancy`]) and that of how these units fall into rounds ([`rounds`]); [`patterns`] is the law of how many rounds
//! have how many of them. [`integer_law`] and [`convolution`] are the arithmetic of such laws: sums of products of positive numbers, with a
//! bound on all that is left out (`docs/theory/shuffling.md`).
//!
//! [`certified_interval`] bounds ε and δ of shuffled batches against the ordinary adversary on both sides: by what two data sets certainly
//! reveal ([`lower_end`], [`epoch_pair`]), and by what an adversary learns who knows the batches.

mod certified_interval;
mod convolution;
mod epoch_pair;
mod epoch_run;
mod integer_law;
mod lower_end;
mod membership;
mod occupancy;
mod patterns;
mod rounds;
mod shuffled_run;

pub use epoch_run::{EpochRun, EpochSampling};
pub use membership::MembershipLaw;
pub use occupancy::OccupancyLaw;
pub use patterns::PatternLaw;
pub use shuffled_run::{RecordChange, ShuffledRun};
