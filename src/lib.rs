//! Exact privacy accounting for DP-SGD: one record, one person's records, any group.
//!
//! The privacy of a run is that of a pair of distributions which dominates what neighbouring data sets can produce. This
//! crate composes the pairs of all steps and computes δ(ε) and ε(δ) of the composition as intervals that are certified to
//! contain the value: discretisation, truncation, quadrature and rounding are bounded on the safe side.
//!
//! ε of 1,000 steps of DP-SGD for a person with eight records, in three lines:
//!
//! ```
//! use hockeystick::{Adjacency, Composition, Mechanism, Step};
//!
//! let step = Step::poisson(Mechanism::Gaussian { noise_multiplier: 2.0 }, 0.01, 8);
//! let epsilon = Composition::new(&[(step, 1000)], Adjacency::AddRemove)?.epsilon(1e-5, 1e-6)?;
//! assert_eq!(format!("{:.4} {:.4}", epsilon.lower, epsilon.upper), "6.4602 6.4602");
//! # Ok::<(), hockeystick::Error>(())
//! ```
//!
//! The noise with which ε of that person is at most 3, and what it gives when part of the run has fixed batches:
//!
//! ```
//! use hockeystick::planning::{Target, noise_multiplier};
//! use hockeystick::{Adjacency, Composition, Group, Mechanism, Sampling, Step};
//!
//! let poisson = Step::poisson(Mechanism::Gaussian { noise_multiplier: 1.0 }, 0.01, 8);
//! let target = Target { epsilon: 3.0, delta: 1e-5, tolerance: 1e-6 };
//! let noise = noise_multiplier(&poisson, 1000, Adjacency::AddRemove, target)?.safe;
//! assert_eq!(format!("{noise:.4}"), "3.6453");
//!
//! let mechanism = Mechanism::Gaussian { noise_multiplier: noise };
//! let poisson = Step { mechanism, ..poisson };
//! let fixed = Step {
//!     mechanism,
//!     sampling: Sampling::FixedBatch { batch_size: 600, dataset_size: 60_000 },
//!     group: Group::of(8),
//! };
//! let mut run = Composition::new(&[(poisson, 500), (fixed, 500)], Adjacency::AddRemove)?;
//! assert_eq!(format!("{:.4}", run.epsilon(1e-5, 1e-6)?.upper), "5.5313");
//! # Ok::<(), hockeystick::Error>(())
//! ```
//!
//! # Modules
//!
//! The root has the vocabulary ([`Mechanism`], [`Sampling`], [`Group`], [`Adjacency`], [`Step`]), the curve of a composition
//! ([`Composition`]) and planning ([`planning`]). Every other module is a room of its own; dependencies point one way, from each
//! row of this table to those above it. Nothing but `python` knows of Python.
//!
//! | module | computes |
//! |---|---|
//! | `approx`, `error`, `interval`, `monitor`, `process`, `threads` | numbers with error bounds; the one error type; certified intervals, of which two that do not meet are an error; progress and interruption; threads, none where there are no processes |
//! | `special` | numerics that know nothing of privacy: extended range, log-space sums, normal tails, quadrature, roots |
//! | `step` | the vocabulary, and the law of how far a group moves the sum of a batch |
//! | `loss` | which pair of distributions dominates a step, and the moments of its privacy loss, of real and complex order |
//! | `inversion` | δ of a sum of losses from its characteristic function |
//! | `grid` | δ of a sum of losses from upper and lower laws on a grid |
//! | [`simulation`] | δ by Monte Carlo, with confidence intervals |
//! | `curve` | δ(ε) and ε(δ) of whole runs: closed forms, the choice between ways to compute, bounds for groups, planning |
//! | [`renyi`] | exact Rényi divergences, published group bounds, conversion to (ε, δ), whole runs, calibration |
//! | [`shuffle`] | how often a group takes part in shuffled and subsampled batches; both ends of ε of shuffled ones |
//! | [`tradeoff`] | trade-off functions and their algebra |
//! | [`individual`] | accounts of single examples, from the norms of their gradients: Rényi and exact |
//! | [`bins`] | δ and ε of one record in a random bin, under correlated noise |
//! | [`auditing`] | lower bounds on ε from what attacks found |
//! | `python` | the extension module `hockeystick._core`: argument checks and array views |

// Links to what is private are for readers of the code: `cargo doc --document-private-items`, which CI builds.
#![allow(rustdoc::private_intra_doc_links)]

mod approx;
pub mod auditing;
pub mod bins;
mod curve;
mod error;
mod grid;
pub mod individual;
mod interval;
mod inversion;
mod locks;
mod loss;
mod monitor;
mod process;
#[cfg(test)]
mod properties;
#[cfg(feature = "python")]
mod python;
pub mod renyi;
pub mod shuffle;
pub mod simulation;
mod special;
mod step;
mod stopping;
mod threads;
pub mod tradeoff;

pub use curve::composition::{Bound, Composition};
pub use curve::routes::Route;
pub use curve::{black_box, planning};
pub use error::{Error, Result};
pub use interval::{Enclosure, Interval};
pub use loss::MixturePair;
pub use monitor::{Monitor, Unwatched};
pub use step::{Adjacency, Direction, Group, GroupLaw, Mechanism, Sampling, Step};
