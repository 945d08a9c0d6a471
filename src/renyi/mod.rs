//! Rényi differential privacy of groups: exact divergences, bounds, conversion to (ε, δ), whole runs.

pub mod best_order;
pub mod calibrate;
pub mod conversion;
pub mod divergence;
pub mod group_bound;
pub mod group_rdp;
mod lower_bound;
pub mod noise;
mod optimal_conversion;
pub mod pair;
pub mod run;
pub mod skellam;

use crate::error::{Result, require};

/// Largest order of a Rényi divergence that the public functions accept.
pub const MAX_ORDER: f64 = 1e4;

/// Largest group of the Rényi bounds.
pub const MAX_GROUP_SIZE: u64 = 100_000;

/// Checks that every order lies in (1, 10⁴].
pub fn require_orders(orders: &[f64]) -> Result<()> {
    require(
        !orders.is_empty(),
        "orders",
        format_args!("an empty array"),
        "of at least one order",
    )?;
    for &order in orders {
        require(order > 1.0 && order <= MAX_ORDER, "orders", order, "in (1, 10000]")?;
    }
    Ok(())
}
