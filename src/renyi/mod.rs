//! Rényi differential privacy of groups: exact divergences, bounds, conversion to (ε, δ), whole runs.
//!
//! [`pairs`] and [`replaced_pair`] hold the exact divergences of the dominating pairs behind one interface ([`divergence`]), [`components`],
//! [`group_bound`] and [`lower_bound`] the published bounds, and [`batch_law`] the law of the number of members in a batch.
//! [`mod@group_rdp`] applies any of these bounds to a step, and [`run`] to a composition. [`conversion`] and [`optimal_conversion`] convert
//! divergences to (ε, δ), and [`mod@calibrate`] finds the noise for a target (`docs/theory/renyi.md`).
//!
//! Bounds on ε by way of Rényi divergences are cheaper and larger than the exact value, which is 6.46 here:
//!
//! ```
//! use hockeystick::renyi::{GroupBound, Run};
//! use hockeystick::{Adjacency, Mechanism, Step};
//!
//! let step = Step::poisson(Mechanism::Gaussian { noise_multiplier: 2.0 }, 0.01, 8);
//! let mut run = Run::new(&[(step, 1000)], Adjacency::AddRemove, GroupBound::Exact)?;
//! assert_eq!(format!("{:.2}", run.epsilon(1e-5)?.value), "7.00");
//! # Ok::<(), hockeystick::Error>(())
//! ```

mod batch_law;
mod best_order;
mod calibrate;
mod components;
mod conversion;
mod divergence;
mod gaussian_pair;
mod group_bound;
mod group_rdp;
mod lower_bound;
mod optimal_conversion;
mod pairs;
mod replaced_pair;
mod run;
mod skellam_pair;

pub use best_order::Guarantee;
pub use calibrate::{DpTarget, NoiseSearch, calibrate, calibrate_dp};
pub use conversion::{Conversion, rdp_to_delta, rdp_to_epsilon};
pub use divergence::Divergence;
pub use gaussian_pair::{GaussianPair, mixture_divergences};
pub use group_bound::renyi_group_bound;
pub use group_rdp::{GroupBound, StepBound, group_rdp};
pub use run::Run;

use crate::error::{Result, require};

/// Largest order of a Rényi divergence that the public functions accept.
pub const MAX_ORDER: f64 = 1e4;

/// Largest group of the Rényi bounds.
pub const MAX_GROUP_SIZE: u64 = 100_000;

/// Checks that there is an order.
fn require_some_order(orders: &[f64]) -> Result<()> {
    require(
        !orders.is_empty(),
        "orders",
        format_args!("an empty array"),
        "of at least one order",
    )
}

/// Checks that every order lies in (1, 10⁴].
pub fn require_orders(orders: &[f64]) -> Result<()> {
    require_some_order(orders)?;
    for &order in orders {
        require(order > 1.0 && order <= MAX_ORDER, "orders", order, "in (1, 10000]")?;
    }
    Ok(())
}
