//! The order at which a Rényi bound gives the best guarantee.

use crate::error::{Error, Result};
use crate::renyi::MAX_ORDER;
use crate::special::root::golden_section;
use crate::stopping::checkpoint;

/// A guarantee and the order that gives it (NaN where no order is needed).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guarantee {
    /// ε or δ, an upper bound.
    pub value: f64,
    /// The optimal order, in the direction whose guarantee is the larger one.
    pub order: f64,
}

/// Smallest α − 1 of the search: ε at smaller ones is about 10⁴·log(1/δ) or more, above any of interest unless δ is close to 1.
const MIN_EXCESS: f64 = 1e-4;
/// Points of the first pass over the orders, evenly spaced in log(α − 1): a factor 2.4 apart. Guarantees are flat enough around their
/// optimum for twice that factor.
const COARSE_ORDERS: usize = 22;
/// Evaluations of the second pass, around the best of the first: the bracket shrinks to 1e-3 of a factor,
/// and ε is flat to second order there.
const FINE_ORDERS: usize = 16;
/// Largest number of whole orders between neighbours of the first pass of which all are evaluated.
const FEW_ORDERS: f64 = 64.0;

/// The orders of a search, by their position log(α − 1).
struct Orders {
    whole: bool,
    low: f64,
    high: f64,
    spacing: f64,
}

impl Orders {
    fn new(whole: bool) -> Self {
        let (low, high) = (MIN_EXCESS.ln(), (MAX_ORDER - 1.0).ln());
        Self {
            whole,
            low,
            high,
            spacing: (high - low) / (COARSE_ORDERS - 1) as f64,
        }
    }

    fn at(&self, position: f64) -> f64 {
        let order = (1.0 + position.exp()).min(MAX_ORDER);
        if self.whole { order.ceil() } else { order }
    }

    fn coarse(&self, i: usize) -> f64 {
        self.low + self.spacing * i as f64
    }
}

/// The smallest `convert(order, rdp(order))`: a coarse pass over log(α − 1), then golden-section search around its best point.
///
/// Every order gives a valid guarantee, so that a missed minimum makes the guarantee larger, never wrong. Orders whose divergence is
/// refused as too expensive are passed over. With `whole` only whole orders are evaluated.
///
/// # Errors
/// The first of `rdp` if every order fails.
pub(crate) fn minimise_over_orders(
    whole: bool,
    mut rdp: impl FnMut(f64) -> Result<f64>,
    convert: impl Fn(f64, f64) -> f64,
) -> Result<Guarantee> {
    let orders = Orders::new(whole);
    let (value, best) = coarse_minimum(&orders, &mut rdp, &convert)?;
    let middle = orders.coarse(best);
    let (from, to) = (
        (middle - orders.spacing).max(orders.low),
        (middle + orders.spacing).min(orders.high),
    );
    let mut value_at = |order: f64| rdp(order).map_or(f64::INFINITY, |divergence| convert(order, divergence));
    let mut found = Guarantee {
        value,
        order: orders.at(middle),
    };
    let mut improve = |order: f64, value: f64| {
        if value < found.value {
            found = Guarantee { value, order };
        }
    };
    let (first, last) = (orders.at(from), orders.at(to));
    if whole && last - first <= FEW_ORDERS {
        // A function that is constant between whole orders misleads a search by intervals.
        let mut order = first;
        while order <= last {
            checkpoint();
            improve(order, value_at(order));
            order += 1.0;
        }
    } else {
        let (position, fine) = golden_section(from, to, FINE_ORDERS, |position| value_at(orders.at(position)));
        improve(orders.at(position), fine);
    }
    Ok(found)
}

/// The smallest value of the first pass, and its index.
///
/// `convert` grows with the divergence, and divergences grow with the order: the value of an order at the last
/// divergence is a lower bound on its own, and orders that it rules out are passed over. An order that is refused ends the pass, as
/// larger ones are more expensive.
fn coarse_minimum(
    orders: &Orders,
    rdp: &mut impl FnMut(f64) -> Result<f64>,
    convert: &impl Fn(f64, f64) -> f64,
) -> Result<(f64, usize)> {
    let mut best = (f64::INFINITY, 0);
    let (mut last, mut refusal): (f64, Option<Error>) = (0.0, None);
    for i in 0..COARSE_ORDERS {
        let order = orders.at(orders.coarse(i));
        if i > 0 && convert(order, last) >= best.0 {
            continue;
        }
        match rdp(order) {
            Ok(divergence) => {
                last = divergence;
                let value = convert(order, divergence);
                if value < best.0 {
                    best = (value, i);
                }
            }
            Err(error) => {
                refusal = Some(error);
                break;
            }
        }
    }
    match refusal {
        Some(error) if best.0 == f64::INFINITY => Err(error),
        _ => Ok(best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn the_minimum_over_real_orders_is_found() {
        // αρ + c/(α − 1) is smallest at α = 1 + √(c/ρ).
        let found =
            minimise_over_orders(false, |order| Ok(0.2 * order), |order, rdp| rdp + 12.0 / (order - 1.0)).unwrap();
        assert!((found.order - (1.0 + 60f64.sqrt())).abs() < 0.05, "{found:?}");
        assert!((found.value - (0.2 + 2.0 * 2.4f64.sqrt())).abs() < 1e-5);
        let whole = minimise_over_orders(true, |order| Ok(0.2 * order), |order, rdp| rdp + 12.0 / (order - 1.0));
        assert_eq!(whole.unwrap().order, 9.0);
    }

    #[test]
    fn orders_that_are_refused_are_passed_over() {
        let refuse = |largest: f64| {
            move |order: f64| {
                if order > largest {
                    Err(Error::Mismatch("too expensive".to_owned()))
                } else {
                    Ok(0.2 * order)
                }
            }
        };
        let convert = |order: f64, rdp: f64| rdp + 12.0 / (order - 1.0);
        let found = minimise_over_orders(false, refuse(5.0), convert).unwrap();
        assert!(found.order <= 5.0 && found.value < 4.1, "{found:?}");
        assert!(minimise_over_orders(false, refuse(1.0), convert).is_err());
    }
}
