//! From Rényi divergences to (ε, δ).

use crate::error::{Error, Result, require, require_delta};
use crate::renyi::best_order::Guarantee;
use crate::renyi::optimal_conversion as optimal;
use crate::renyi::require_some_order;

/// The conversion of the divergence of one order to (ε, δ).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// RGP Lemma 2.2 (Canonne, Kamath and Steinke 2020, Proposition 12).
    Canonne,
    /// The smallest ε and δ that follow from one order (Asoodeh et al. 2021, Theorem 3): never larger.
    Optimal,
}

impl Conversion {
    /// ε at δ of a divergence `rdp` ≥ 0 of order α > 1, rounded up.
    pub fn epsilon(self, order: f64, rdp: f64, delta: f64) -> f64 {
        let canonne = epsilon_of_order(order, rdp, delta);
        match self {
            Self::Canonne => canonne,
            Self::Optimal => optimal::epsilon_of_order(order, rdp, delta, canonne),
        }
    }

    /// δ at ε of a divergence `rdp` ≥ 0 of order α > 1, rounded up and at most 1.
    pub fn delta(self, order: f64, rdp: f64, epsilon: f64) -> f64 {
        let canonne = delta_of_order(order, rdp, epsilon);
        match self {
            Self::Canonne => canonne,
            Self::Optimal => optimal::delta_of_order(order, rdp, epsilon, canonne),
        }
    }
}

/// Relative rounding error of each term of the formulas below: a handful of operations and logarithms.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// log of the factor that Lemma 2.2 gains over e^{(α−1)(τ−ε)}: (α−1)·log(1 − 1/α) − log α.
///
/// Its terms are both negative, and each is right to a few units in its last place: log(1 − 1/α) of a large α by its distance from 0, of
/// an α next to 1 by the quotient, whose rounding of the logarithm is multiplied by α − 1, which is no more than 2·log α.
fn log_gain(order: f64) -> f64 {
    let excess = order - 1.0;
    let log_part = if order < 2.0 {
        (excess / order).ln()
    } else {
        (-1.0 / order).ln_1p()
    };
    excess * log_part - order.ln()
}

/// ε at δ of a divergence `rdp`, rounded up; 0 if the guarantee holds with ε = 0.
///
/// ε = τ + (log(1/δ) + (α − 1)·log(1 − 1/α) − log α)/(α − 1).
fn epsilon_of_order(order: f64, rdp: f64, delta: f64) -> f64 {
    if rdp == f64::INFINITY {
        return f64::INFINITY;
    }
    let (log_delta, gain) = (delta.ln(), log_gain(order));
    let epsilon = rdp + (gain - log_delta) / (order - 1.0);
    let rounding = ROUNDING * (rdp + (gain.abs() + log_delta.abs()) / (order - 1.0));
    (epsilon + rounding).max(0.0)
}

/// δ at ε of a divergence `rdp`, rounded up and at most 1.
///
/// δ = exp((α − 1)(τ − ε) + (α − 1)·log(1 − 1/α) − log α).
fn delta_of_order(order: f64, rdp: f64, epsilon: f64) -> f64 {
    if rdp == f64::INFINITY {
        return 1.0;
    }
    let gain = log_gain(order);
    let log_delta = (order - 1.0) * (rdp - epsilon) + gain;
    if log_delta == f64::NEG_INFINITY {
        // The size of its rounding is infinite, too, and the sum of both would be no number.
        return f64::from_bits(1);
    }
    let rounding = ROUNDING * ((order - 1.0) * (rdp + epsilon) + gain.abs() + 1.0);
    // A δ below the smallest positive number is rounded up to it.
    (log_delta + rounding).exp().clamp(f64::from_bits(1), 1.0)
}

/// The smallest ε over `orders` at δ.
///
/// # Errors
/// Orders not above 1, `rdp` negative, NaN or of another length, δ outside (0, 1).
///
/// # Example
/// ```
/// use hockeystick::renyi::{Conversion, rdp_to_epsilon};
/// let best = rdp_to_epsilon(&[2.0, 4.0, 8.0], &[0.5, 1.0, 2.0], 1e-5, Conversion::Canonne)?;
/// assert_eq!((best.order, (1e4 * best.value).round()), (8.0, 32141.0));
/// assert!(rdp_to_epsilon(&[8.0], &[2.0], 1e-5, Conversion::Optimal)?.value < best.value);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn rdp_to_epsilon(orders: &[f64], rdp: &[f64], delta: f64, conversion: Conversion) -> Result<Guarantee> {
    require_delta(delta)?;
    smallest(orders, rdp, f64::INFINITY, |order, rdp| {
        conversion.epsilon(order, rdp, delta)
    })
}

/// The smallest δ over `orders` at ε ≥ 0.
///
/// # Errors
/// Orders not above 1, `rdp` negative, NaN or of another length, ε negative or not finite.
///
/// # Example
/// ```
/// use hockeystick::renyi::{Conversion, rdp_to_delta, rdp_to_epsilon};
/// let epsilon = rdp_to_epsilon(&[4.0], &[1.0], 1e-5, Conversion::Canonne)?.value;
/// assert!((rdp_to_delta(&[4.0], &[1.0], epsilon, Conversion::Canonne)?.value / 1e-5 - 1.0).abs() < 1e-12);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn rdp_to_delta(orders: &[f64], rdp: &[f64], epsilon: f64, conversion: Conversion) -> Result<Guarantee> {
    crate::error::require_epsilon(epsilon)?;
    smallest(orders, rdp, 1.0, |order, rdp| conversion.delta(order, rdp, epsilon))
}

/// The smallest `value` over `orders`, none of which is above `largest`.
fn smallest(orders: &[f64], rdp: &[f64], largest: f64, value: impl Fn(f64, f64) -> f64) -> Result<Guarantee> {
    require_some_order(orders)?;
    if orders.len() != rdp.len() {
        return Err(Error::Mismatch(format!(
            "the last axis of rdp must have one entry an order ({}), got {}",
            orders.len(),
            rdp.len()
        )));
    }
    let mut best = Guarantee {
        value: largest,
        order: orders[0],
    };
    for (&order, &divergence) in orders.iter().zip(rdp) {
        require(order > 1.0 && order.is_finite(), "orders", order, "in (1, inf)")?;
        require(divergence >= 0.0, "rdp", divergence, "in [0, inf]")?;
        let value = value(order, divergence);
        if value < best.value {
            best = Guarantee { value, order };
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_conversion_is_met() {
        // RGP: (4, 1)-RDP is (4.0878…, 1e-5)-DP.
        let epsilon = rdp_to_epsilon(&[4.0], &[1.0], 1e-5, Conversion::Canonne).unwrap().value;
        assert!((epsilon / 4.087_861_628_831_665 - 1.0).abs() < 1e-14);
    }

    #[test]
    fn epsilon_and_delta_are_inverse_and_rounded_up() {
        for order in [1.01, 2.0, 37.5, 9000.0] {
            for delta in [1e-300, 1e-12, 0.1] {
                let epsilon = epsilon_of_order(order, 0.7, delta);
                let back = delta_of_order(order, 0.7, epsilon);
                if epsilon > 0.0 {
                    assert!((back.ln() - delta.ln()).abs() < 1e-11 * delta.ln().abs() * order);
                }
            }
        }
        assert_eq!(epsilon_of_order(2.0, f64::INFINITY, 0.1), f64::INFINITY);
        assert_eq!(delta_of_order(2.0, f64::INFINITY, 5.0), 1.0);
    }

    #[test]
    fn the_best_order_is_found_and_bad_input_refused() {
        let found = rdp_to_epsilon(&[2.0, 8.0, 64.0], &[0.1, 0.2, 30.0], 1e-5, Conversion::Canonne).unwrap();
        assert_eq!(found.order, 8.0);
        for (orders, rdp, name) in [
            (vec![1.0], vec![0.1], "orders"),
            (vec![2.0], vec![-0.1], "rdp"),
            (vec![2.0], vec![f64::NAN], "rdp"),
            (vec![2.0, 3.0], vec![0.1], "rdp"),
            (vec![], vec![], "orders"),
        ] {
            let error = rdp_to_epsilon(&orders, &rdp, 1e-5, Conversion::Canonne).unwrap_err();
            assert!(error.to_string().contains(name));
        }
    }

    /// `mpmath.mp.dps = 40`: τ + log((α−1)/α) − (log δ + log α)/(α − 1) and e^{(α−1)(τ−ε) + (α−1)·log(1−1/α) − log α}.
    #[test]
    fn values_are_those_at_high_precision_rounded_up() {
        for (order, rdp, delta, exact) in [
            (2.0, 0.5, 0.001_953_125, 5.352_030_263_919_617),
            (32.0, 3.0, 1e-12, 3.747_776_631_141_188),
            (1.5, 0.0625, 0.125, 2.311_840_578_475_233_6),
        ] {
            let found = epsilon_of_order(order, rdp, delta);
            assert!(found >= exact && found <= exact * (1.0 + 1e-13), "{found} {exact}");
        }
        for (order, rdp, epsilon, exact) in [
            (2.0, 0.5, 4.0, 0.007_549_345_855_579_625),
            (32.0, 3.0, 5.0, 1.384_061_297_444_295_2e-29),
            (64.0, 1.0, 2.0, 2.525_712_541_241_277_6e-30),
        ] {
            let found = delta_of_order(order, rdp, epsilon);
            assert!(found >= exact && found <= exact * (1.0 + 1e-12), "{found} {exact}");
        }
    }

    /// As above, for orders at which the factor α − 1 multiplies the rounding of log(1 − 1/α).
    #[test]
    fn large_orders_are_rounded_up() {
        let found = delta_of_order(
            9_807.059_359_783_421,
            4.405_880_764_575_093e-4,
            3.005_017_504_308_438e-4,
        );
        let exact = 0.000_148_175_683_984_180_75;
        assert!(found >= exact && found <= exact * (1.0 + 1e-13), "{found} {exact}");
        let found = epsilon_of_order(9999.0, 5.729_656_504_955_509e-4, 0.011_264_547_193_997_92);
        let exact = 4.415_998_279_681_100_5e-07;
        assert!(found >= exact && found <= exact + 1e-17, "{found} {exact}");
        let found = epsilon_of_order(1.000_000_1, 0.0625, 0.75);
        let exact = 2_876_803.667_242_428;
        assert!(found >= exact && found <= exact * (1.0 + 1e-13), "{found} {exact}");
    }

    /// log δ is below every number, and δ is rounded up to the smallest positive one.
    #[test]
    fn delta_far_beyond_the_divergence_is_the_smallest_positive_number() {
        for conversion in [Conversion::Canonne, Conversion::Optimal] {
            for (order, epsilon) in [(1e4, 1e305), (64.0, 1e308), (1e300, 1e10)] {
                let found = rdp_to_delta(&[order], &[0.0], epsilon, conversion).unwrap();
                assert_eq!((found.value, found.order), (f64::from_bits(1), order));
            }
            let found = rdp_to_delta(&[2.0, 3.0], &[f64::INFINITY; 2], 1.0, conversion).unwrap();
            assert_eq!((found.value, found.order), (1.0, 2.0));
        }
    }

    /// Two coins whose divergence is τ reach more than half of the δ that the conversion allows: half of it would be wrong.
    #[test]
    fn coins_stay_below_the_conversion_and_come_close() {
        let (order, epsilon) = (3.0, 8.0f64);
        let mut closest = 0.0f64;
        for i in 1..4000 {
            let p = 10f64.powf(-6.0 * f64::from(i) / 4000.0);
            for j in 1..60 {
                let q = p * (-epsilon - 0.05 * f64::from(j)).exp();
                let moment =
                    p.powf(order) * q.powf(1.0 - order) + (1.0 - p).powf(order) * (1.0 - q).powf(1.0 - order);
                let rdp = moment.ln() / (order - 1.0);
                let reached = (p - epsilon.exp() * q).max(0.0);
                let allowed = delta_of_order(order, rdp, epsilon);
                assert!(reached <= allowed, "{p} {q} {reached} {allowed}");
                closest = closest.max(reached / allowed);
            }
        }
        assert!(closest > 0.55, "{closest}");
    }
}
