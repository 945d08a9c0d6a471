//! The order at which a Rényi bound says most.

use crate::error::Result;
use crate::renyi::MAX_ORDER;
use crate::special::root::golden_section;
use crate::stopping::checkpoint;

/// A guarantee and the order it was found at (NaN where no order was needed).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guarantee {
    /// ε or δ, an upper bound.
    pub value: f64,
    /// The optimal order in the direction that decides.
    pub order: f64,
}

/// Orders are searched in [1 + SMALLEST_EXCESS, MAX_ORDER].
const SMALLEST_EXCESS: f64 = 1e-4;
/// Points of the first pass over the orders, evenly spaced in log(α − 1): a factor 2.4 apart.
const COARSE_ORDERS: usize = 22;
/// Evaluations of the second pass, around the best of the first: the bracket shrinks to 1e-3 of a factor,
/// and ε is flat to second order there.
const FINE_ORDERS: usize = 16;

/// Whole orders between neighbours of the first pass that are all looked at.
const FEW_ORDERS: f64 = 64.0;

/// The smallest `convert(order, rdp(order))`: a coarse pass over log(α − 1), then golden-section search around its best point.
///
/// `convert` grows with the divergence, and divergences grow with the order: what an order would give with the last
/// divergence is a lower bound on what it gives, and orders that it rules out are passed over.
/// Every order gives a valid guarantee, so a missed minimum costs tightness, never truth. Orders whose divergence is refused
/// as too expensive are passed over too. With `whole` only whole orders are looked at.
///
/// # Errors
/// The first of `rdp` if every order fails.
pub(crate) fn minimise_over_orders(
    whole: bool,
    mut rdp: impl FnMut(f64) -> Result<f64>,
    convert: impl Fn(f64, f64) -> f64,
) -> Result<Guarantee> {
    let (low, high) = (SMALLEST_EXCESS.ln(), (MAX_ORDER - 1.0).ln());
    let spacing = (high - low) / (COARSE_ORDERS - 1) as f64;
    let order_at = |position: f64| {
        let order = (1.0 + position.exp()).min(MAX_ORDER);
        if whole { order.ceil() } else { order }
    };
    let mut best = (f64::INFINITY, 0);
    let (mut last, mut refusal) = (0.0, None);
    for i in 0..COARSE_ORDERS {
        let order = order_at(low + spacing * i as f64);
        if i > 0 && convert(order, last) >= best.0 {
            continue;
        }
        match rdp(order) {
            Ok(divergence) => {
                last = divergence;
                let found = convert(order, divergence);
                if found < best.0 {
                    best = (found, i);
                }
            }
            Err(error) => {
                refusal = refusal.or(Some(error));
                break;
            }
        }
    }
    if let Some(error) = refusal
        && best.0 == f64::INFINITY
    {
        return Err(error);
    }
    let middle = low + spacing * best.1 as f64;
    let (from, to) = ((middle - spacing).max(low), (middle + spacing).min(high));
    let mut value = |order: f64| rdp(order).map_or(f64::INFINITY, |divergence| convert(order, divergence));
    let mut found = Guarantee {
        value: best.0,
        order: order_at(middle),
    };
    let mut meet = |order: f64, value: f64| {
        if value < found.value {
            found = Guarantee { value, order };
        }
    };
    let (first, last) = (order_at(from), order_at(to));
    if whole && last - first <= FEW_ORDERS {
        // Steps of whole orders would mislead a search by intervals.
        let mut order = first;
        while order <= last {
            checkpoint();
            meet(order, value(order));
            order += 1.0;
        }
    } else {
        let (position, fine) = golden_section(from, to, FINE_ORDERS, |position| value(order_at(position)));
        meet(order_at(position), fine);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn the_minimum_over_real_orders_is_found() {
        // αρ + c/(α − 1) is least at α = 1 + √(c/ρ).
        let found =
            minimise_over_orders(false, |order| Ok(0.2 * order), |order, rdp| rdp + 12.0 / (order - 1.0)).unwrap();
        assert!((found.order - (1.0 + 60f64.sqrt())).abs() < 0.05, "{found:?}");
        assert!((found.value - (0.2 + 2.0 * 2.4f64.sqrt())).abs() < 1e-5);
        let whole = minimise_over_orders(true, |order| Ok(0.2 * order), |order, rdp| rdp + 12.0 / (order - 1.0));
        assert_eq!(whole.unwrap().order, 9.0);
    }

    #[test]
    fn orders_that_are_refused_are_passed_over() {
        let refuse = |most: f64| {
            move |order: f64| {
                if order > most {
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
