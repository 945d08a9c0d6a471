//! Random bins with correlated noise: certified δ and ε where the losses of the bins form a Markov chain.
//!
//! One record stays in one of b batches of each of E epochs, and the noise is correlated by a Toeplitz matrix with the first column
//! c·(1, α, αλ, αλ², ...). The likelihood ratio W is then a mean of b log-normal variables that form a cyclic chain, so that its
//! Laplace transform is the trace of a product of b one-dimensional operators. δ is an integral of it along a hyperbola. Statement and
//! proof of every bound: `docs/theory/correlated-bins.md`.
//!
//! | file | what |
//! |---|---|
//! | `chain.rs` | the law of the chain, and the constants of its bounds |
//! | `lattice.rs` | the lattice on which the operators are matrices, and what it leaves out |
//! | `trace.rs` | products of the matrices |
//! | `transform.rs` | the transform at one point, with a bound on its error |
//! | `contour.rs` | the hyperbola, its number of nodes, and the error of the rule on it |
//! | `run.rs` | δ and ε of a run |

mod chain;
mod contour;
mod lattice;
mod run;
mod trace;
mod transform;

pub use run::{ChainCurve, ChainRun};
