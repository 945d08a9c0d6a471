//! Individual accounting: norms in, per-example accounts out (INDIVIDUAL; `docs/theory/individual.md`).
//!
//! An example whose clipped gradient has norm s·C adds one step of the pair ((1 − q)N(0, σ²) + qN(s, σ²), N(0, σ²)) to its
//! account. The pair depends on s and σ through v = (s/σ)² alone, and its moments are analytic in v, so that tables of
//! polynomials in v (or 1/v), made once for a sample rate, serve all examples and steps:
//!
//! | module | does |
//! |---|---|
//! | `step_moments` | log E[r^α] of one step by the trapezoidal rule |
//! | `rdp_table` | D_α of one step as certified polynomials in 1/v |
//! | [`rdp`] | adds a step to accounts of Rényi divergences |
//! | `basis` | Chebyshev polynomials on octaves of v, and where they are certified |
//! | [`accounts`] | keeps the Chebyshev moments of each example's steps: all that its privacy loss depends on |
//! | `octaves` | K(z; v) of complex order as coefficients of those polynomials |
//! | `plans` | on which line, and how finely, a loss is inverted |
//! | `moment_losses` | the losses of accounts from those coefficients |
//! | `cells` | E[e^{zℓ}] of complex order as polynomials on parts of octaves |
//! | [`histories`] | keeps all norms of examples, and their losses from cells |
//! | [`mod@epsilons`] | ε of many losses by complex-order inversion |
//! | `one_by_one` | ε of single histories by the exact engine |

mod accounts;
mod basis;
mod cells;
mod epsilons;
mod histories;
mod moment_losses;
mod octaves;
mod one_by_one;
mod plans;
mod rdp;
mod rdp_table;
mod step_moments;

pub use accounts::{Account, Accounts, SLOT_TERMS, Slot};
pub use epsilons::{epsilons, epsilons_of_histories};
pub use histories::Histories;
pub use rdp::{Prepared, StepRdp, require_norms};

/// Makes what threads share: otherwise it is made at its first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    basis::prepare();
}
