//! Trade-off functions (f-DP) and their algebra; shuffling and batch clipping against an adversary who knows every batch.
//!
//! [`curve`] holds the expressions, [`readouts`] what they say; [`composed`] tensor products through the exact engine,
//! [`polygon`] curves with straight edges, [`convex`] the conjugates.
//!
//! [`membership`] is the law of how often a group takes part (SHUFFLE Definition 5.1), from that of the units it falls into,
//! [`occupancy`]; exact combinatorics with positive terms, and every probability that is left out accounted for.

pub mod between;
mod closed_forms;
pub mod composed;
mod conjugate;
pub mod convex;
mod convolution;
mod counts;
pub mod curve;
mod laplace_sum;
pub mod lattice;
pub mod membership;
pub mod occupancy;
mod plan;
pub mod polygon;
pub mod readouts;
mod rounds;
pub mod split_bounds;
mod straighten;
mod subsampling;
mod tensor;

/// Makes what threads share: otherwise it is made at its first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    curve::prepare();
}
