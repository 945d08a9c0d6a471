//! Individual accounting: norms in, per-example accounts out (INDIVIDUAL; `docs/theory/individual.md`).
//!
//! An example whose clipped gradient has norm s·C adds one step of the pair ((1 − q)N(0, σ²) + qN(s, σ²), N(0, σ²)) to its
//! account. The pair depends on s and σ through v = (s/σ)² alone, and its moments are analytic in v, so that tables of
//! polynomials in v (or 1/v), made once for a sample rate, serve all examples and steps. Each module uses those above it:
//!
//! | module | does |
//! |---|---|
//! | `norms` | checks what is added to accounts, and rounds it up to what is tabulated |
//! | `basis` | Chebyshev polynomials on octaves of v, and the ellipses in which interpolation is certified |
//! | `step_moments` | log E[r^α] of one step by the trapezoidal rule |
//! | `decay` | bounds on moments of complex order far from the real axis |
//! | `rdp_bounds` | bounds on the error of polynomials in 1/v |
//! | `rdp_table` | D_α of one step as certified polynomials in 1/v |
//! | [`rdp`] | adds a step to accounts of Rényi divergences |
//! | `plans` | on which line, and how finely, a loss is inverted |
//! | `losses` | what the inversion asks of losses: a trait |
//! | [`accounts`] | data: the Chebyshev moments of each example's steps, all that its privacy loss depends on |
//! | [`histories`] | data: all norms of each example |
//! | `octaves` | K(z; v) of complex order as coefficients of polynomials on octaves |
//! | `cells` | E[e^{zℓ}] of complex order as polynomials on parts of octaves |
//! | `moment_losses` | the losses of accounts, from `octaves` |
//! | `history_losses` | the losses of histories, from `cells` |
//! | `inversion` | ε of many losses by complex-order inversion |
//! | `one_by_one` | ε of single histories by the exact engine |
//! | [`mod@epsilons`] | ε of accounts and of histories |

mod accounts;
mod basis;
mod cells;
mod decay;
#[cfg(test)]
mod direct;
mod epsilons;
mod histories;
mod history_losses;
mod inversion;
mod losses;
mod moment_losses;
mod norms;
mod octaves;
mod one_by_one;
mod plans;
mod rdp;
mod rdp_bounds;
mod rdp_table;
mod step_moments;

pub use accounts::{Account, Accounts, SLOT_TERMS, Slot};
pub use epsilons::{epsilons, epsilons_of_histories};
pub use histories::Histories;
pub use norms::require_norms;
pub use rdp::{Prepared, StepRdp};

/// Computes the tables that threads share, which are otherwise computed at their first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    basis::prepare();
}
