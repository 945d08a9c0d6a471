//! Trade-off functions (f-DP) and their algebra.
//!
//! | files | what they hold |
//! |---|---|
//! | [`curve`] | trade-off functions as expressions, and the operations that build them |
//! | [`evaluation`], [`closed_forms`], [`subsampling`], [`split_bounds`] | values of f and of δ, by closed forms |
//! | [`conjugate`], [`convex`] | f from δ and δ from f: certified minima of convex functions |
//! | [`tensor`], [`composed`], [`factor`], [`laplace_sum`] | tensor products, from the privacy losses of their factors |
//! | [`polygon`], [`edges`] | curves with finitely many edges |
//! | [`envelope`], [`branch`], [`envelope_of_curve`], [`lattice`], [`limits`] | bounds on curves without a pair of laws, and factors from them |
//! | [`guarantees`], [`gaussian_fit`] | (ε, δ), advantage, attack success and μ of a curve |

mod branch;
mod closed_forms;
mod composed;
mod conjugate;
mod convex;
mod curve;
mod edges;
mod envelope;
mod envelope_of_curve;
mod evaluation;
mod factor;
mod gaussian_fit;
mod guarantees;
mod laplace_sum;
mod lattice;
mod limits;
mod polygon;
mod split_bounds;
mod subsampling;
mod tensor;

pub use curve::{MAX_GROUP, TradeoffCurve};
pub use factor::PublicMixture;
pub use split_bounds::SplitBound;

/// Initialises what threads share, which is otherwise initialised at its first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    curve::prepare();
}
