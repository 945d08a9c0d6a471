//! Exact privacy accounting for DP-SGD: one record, one person's records, any group.
//!
//! The privacy of a run is that of a pair of distributions which dominates what neighbouring data sets can produce. This
//! crate composes the pairs of all steps and computes δ(ε) and ε(δ) of the composition as intervals that are certified to
//! contain the value: discretisation, truncation, quadrature and rounding are bounded on the safe side.
//!
//! ε of 1,000 steps of DP-SGD for a person with eight records, and δ at that ε:
//!
//! ```
//! use hockeystick::curve::composition::Composition;
//! use hockeystick::step::{Group, Mechanism, Neighbours, Sampling, Step};
//!
//! let scheme = Step {
//!     mechanism: Mechanism::Gaussian { noise_multiplier: 2.0 },
//!     sampling: Sampling::Poisson { sample_rate: 0.01 },
//!     group: Group::of(8),
//! };
//! let mut run = Composition::new(&[(scheme, 1000)], Neighbours::AddRemove)?;
//! let (lower, upper) = run.epsilon(1e-5, 1e-6)?;
//! assert_eq!(format!("{lower:.4} {upper:.4}"), "6.4602 6.4602");
//! assert!(run.delta(upper, 1e-6)?.upper() <= 1e-5);
//! # Ok::<(), hockeystick::error::Error>(())
//! ```
//!
//! An upper bound by way of Rényi divergences is cheaper and larger:
//!
//! ```
//! use hockeystick::step::Adjacency;
//! use hockeystick::renyi::group_rdp::GroupBound;
//! use hockeystick::renyi::run::{Run, Segment};
//!
//! let segment = Segment::gaussian(2.0, 0.01, 1000);
//! let mut run = Run::new(&[segment], 8, Adjacency::AddRemove, GroupBound::Exact)?;
//! assert_eq!(format!("{:.2}", run.epsilon(1e-5)?.value), "7.00");
//! # Ok::<(), hockeystick::error::Error>(())
//! ```
//!
//! # Modules
//!
//! Dependencies point one way, down this table from each module to those above it; nothing outside the extension module
//! `python` (feature `python`) knows of Python.
//!
//! | module | computes |
//! |---|---|
//! | [`error`] | the one error type: which argument was wrong, its value, what is allowed; contradictions between certified bounds |
//! | `threads` | the pool in which questions are answered in parallel |
//! | [`special`] | numerics that know nothing of privacy: extended range, log-space sums, normal tails, quadrature, roots |
//! | [`pair`] | from the description of a step (mechanism, sampling, group, neighbours) to its dominating pair: group laws, likelihood ratios, certified moments of real and complex order |
//! | [`hockey_stick`] | the exact engine: δ(ε) and ε(δ) of composed pairs by closed forms, inversion, grids and Chernoff's bound; planning (noise, rate, steps, group size); Monte Carlo |
//! | [`renyi`] | exact Rényi divergences, published group bounds, conversion to (ε, δ), whole runs, calibration |
//! | [`tradeoff`] | trade-off functions and their algebra; how often a group is in the batches of shuffled and subsampled runs |
//! | [`individual`] | accounts of single examples, from the norms of their gradients: Rényi and exact |
//! | `python` | the extension module `hockeystick._core`: argument checks and array views |

pub mod curve;
pub mod error;
mod grid;
pub mod individual;
pub mod interval;
mod inversion;
mod locks;
pub mod loss;
pub mod monitor;
#[cfg(test)]
mod properties;
#[cfg(feature = "python")]
mod python;
pub mod renyi;
pub mod shuffle;
pub mod simulation;
pub mod special;
pub mod step;
mod stopping;
mod threads;
pub mod tradeoff;
