//! Trade-off functions (f-DP) and their algebra.
//!
//! [`curve`] holds the expressions, [`readouts`] what they say; [`composed`] tensor products through the exact engine,
//! [`polygon`] curves with straight edges, [`convex`] the conjugates.

mod bracket;
mod closed_forms;
mod composed;
mod conjugate;
mod convex;
mod curve;
mod from_points;
mod laplace_sum;
mod lattice;
mod polygon;
mod readouts;
mod split_bounds;
mod subsampling;
mod tensor;

pub use composed::{Law, Mixture};
pub use convex::Bounds;
pub use curve::{LARGEST_GROUP, TradeoffCurve};
pub use split_bounds::SplitBound;

/// Makes what threads share: otherwise it is made at its first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    curve::prepare();
}
