//! Trade-off functions (f-DP) and their algebra.
//!
//! [`curve`] holds the expressions, [`readouts`] what they say; [`composed`] tensor products through the exact engine,
//! [`polygon`] curves with straight edges, [`convex`] the conjugates.

pub mod bracket;
mod closed_forms;
pub mod composed;
mod conjugate;
pub mod convex;
pub mod curve;
mod from_points;
mod laplace_sum;
pub mod lattice;
pub mod polygon;
pub mod readouts;
pub mod split_bounds;
mod subsampling;
mod tensor;

/// Makes what threads share: otherwise it is made at its first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    curve::prepare();
}
