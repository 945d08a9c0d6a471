//! Exact privacy accounting for DP-SGD: one record, one person's records, any group.
//!
//! The crate knows nothing of Python outside its extension module (`src/python`, feature `python`).
//! Dependencies point one way: [`special`] ← [`pair`] ← [`renyi`], [`hockey_stick`], [`tradeoff`] ← [`individual`] ← `python`.
//!
//! | module | computes |
//! |---|---|
//! | [`special`] | numerics that know nothing of privacy: extended range, log-space sums, quadrature, roots |
//! | [`pair`] | dominating pairs: group laws, the likelihood ratio, its certified moments |
//! | [`renyi`] | exact Rényi divergences, published group bounds, conversion to (ε, δ), whole runs |
//! | [`hockey_stick`] | δ from samples and by Monte Carlo |
//! | [`tradeoff`] | how often a group is in the batches: laws of shuffled and subsampled runs |
//! | [`individual`] | accounts of single examples, from the norms of their gradients |
//! | [`error`] | the one error type |
//!
//! ε of 1,000 steps of DP-SGD for a person with eight records:
//!
//! ```
//! use hockeystick::pair::Adjacency;
//! use hockeystick::renyi::group_rdp::GroupBound;
//! use hockeystick::renyi::run::{Run, Segment};
//!
//! let segment = Segment::gaussian(2.0, 0.01, 1000);
//! let mut run = Run::new(&[segment], 8, Adjacency::AddRemove, GroupBound::Exact)?;
//! let epsilon = run.epsilon(1e-5)?.value;
//! assert_eq!(format!("{epsilon:.2}"), "7.00");
//! # Ok::<(), hockeystick::error::Error>(())
//! ```

pub mod error;
pub mod hockey_stick;
pub mod individual;
pub mod pair;
#[cfg(test)]
mod properties;
#[cfg(feature = "python")]
mod python;
pub mod renyi;
pub mod special;
mod threads;
pub mod tradeoff;
