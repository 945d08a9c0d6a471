//! The smallest Rényi divergence of a pair with a given δ(ε), and from it the conversion that is optimal for one order.
//!
//! Asoodeh, Liao, Calmon, Kosut and Sankar 2021, "Three variants of differential privacy: lossless conversion and
//! applications", Theorem 3. Merging the outputs of a pair into {dP > e^ε dQ} and the rest keeps the hockey-stick divergence of ε
//! and does not raise D_α, so that the smallest D_α at a given δ is that of two coins P = (p, 1 − p) and Q = (q, 1 − q) with
//! p − e^ε q = δ.

use crate::special::root::solve_decreasing;

/// Width in log s at which the search for the minimum over coins ends; its error is of second order, 1e-16, and is subtracted.
const COIN_WIDTH: f64 = 1e-8;
/// Relative width of an ε, or of log δ, at which the search for it ends, on the safe side.
const WIDTH: f64 = 1e-13;
/// Orders above this are treated as this one, whose divergences are smaller: α and α − 1 are one number then.
const LARGEST_ORDER: f64 = 1e12;
/// Relative rounding error of a term: a handful of operations and logarithms.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Lower bound on D_α of every pair whose hockey-stick divergence at ε is δ in (0, 1).
///
/// With s = e^ε q in (0, 1 − δ]: D_α = ε + log M/(α − 1), M = (δ+s)^α s^{1−α} + (1−δ−s)^α (e^ε − s)^{1−α}, convex in s. The
/// second term falls, the first falls up to s = (α−1)δ, so the minimum lies beyond that. By convexity M is no smaller than
/// its tangent at a point where it rises, followed down to where it falls. Divergences grow with the order: those of the largest
/// are bounded by that of a smaller one, as α and α − 1 are one number then.
fn smallest_divergence(order: f64, epsilon: f64, delta: f64) -> f64 {
    let order = order.min(LARGEST_ORDER);
    let rest = 1.0 - delta;
    let excess = order - 1.0;
    if excess * delta >= rest {
        // M falls all the way to s = 1 − δ, p = 1.
        return (epsilon - (-delta).ln_1p()) * (1.0 - ROUNDING);
    }
    let far = |s: f64| epsilon + (-s * (-epsilon).exp()).ln_1p(); // log(e^ε − s)
    let first = |s: f64| order * (delta + s).ln() - excess * s.ln();
    let second = |s: f64| order * (rest - s).ln() - excess * far(s);
    // log of the falling part of M′ over the rising part: it decreases through 0 at the minimum.
    let imbalance = |s: f64| {
        if s <= excess * delta {
            return f64::INFINITY;
        }
        if s >= rest {
            return f64::NEG_INFINITY;
        }
        let rise = (s - excess * delta) / (s * (delta + s));
        // α/(1 − δ − s) − (α − 1)/(e^ε − s), without the cancellation.
        let gap = (delta * (-epsilon).exp() - (-epsilon).exp_m1()) / (1.0 - s * (-epsilon).exp());
        let fall = (1.0 + excess * gap) / (rest - s);
        second(s) + fall.ln() - first(s) - rise.ln()
    };
    let s = root((excess * delta).ln(), rest.ln(), COIN_WIDTH, |x| imbalance(x.exp()))
        .exp()
        .min(rest);
    let (a, b) = (first(s), if s < rest { second(s) } else { f64::NEG_INFINITY });
    let top = a.max(b);
    let log_m = top + ((a - top).exp() + (b - top).exp()).ln();
    // M′·s·width over M, M′ at most its rising part.
    let descent = (a - log_m).exp() * (s - excess * delta) / (delta + s) * -imbalance(s).min(0.0).exp_m1();
    let tangent = (-descent * COIN_WIDTH).ln_1p();
    // The sums that logarithms are taken of are rounded too, each by a part that the order multiplies.
    let size = order * (1.0 + (delta + s).ln().abs()) + excess * (1.0 + s.ln().abs() + epsilon) + 2.0;
    epsilon + (log_m + tangent - ROUNDING * size) / excess - ROUNDING * epsilon
}

/// A point just above the root of a decreasing function.
fn root(low: f64, high: f64, width: f64, value: impl Fn(f64) -> f64) -> f64 {
    let Ok(found) = solve_decreasing(low, high, width, |x| Ok::<f64, std::convert::Infallible>(value(x)));
    found
}

/// ε at δ of a divergence `rdp` at order α, rounded up and no larger than `above`, an ε that holds.
pub(crate) fn epsilon_of_order(order: f64, rdp: f64, delta: f64, above: f64) -> f64 {
    let short = |epsilon: f64| rdp - smallest_divergence(order, epsilon, delta);
    if above == 0.0 || !above.is_finite() || short(0.0) <= 0.0 {
        return if above.is_finite() { 0.0 } else { above };
    }
    if short(above) > 0.0 {
        return above;
    }
    root(0.0, above, WIDTH * above, short)
}

/// δ at ε of a divergence `rdp` at order α, rounded up and no larger than `above`, a δ that holds.
pub(crate) fn delta_of_order(order: f64, rdp: f64, epsilon: f64, above: f64) -> f64 {
    let short = |log_delta: f64| rdp - smallest_divergence(order, epsilon, log_delta.exp());
    let (low, high) = (f64::MIN_POSITIVE.ln(), above.min(1.0 - 1e-12).ln());
    if high <= low || short(high) > 0.0 {
        return above;
    }
    if short(low) <= 0.0 {
        return f64::MIN_POSITIVE;
    }
    // The exponential adds a rounding of its own.
    (root(low, high, WIDTH * low.abs(), short).exp() * (1.0 + ROUNDING)).min(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D_α of two coins.
    fn coins(order: f64, p: f64, q: f64) -> f64 {
        let heads = order * p.ln() + (1.0 - order) * q.ln();
        let tails = order * (1.0 - p).ln() + (1.0 - order) * (1.0 - q).ln();
        (heads.exp() + tails.exp()).ln() / (order - 1.0)
    }

    #[test]
    fn no_coins_do_better_and_some_do_as_well() {
        for order in [1.1f64, 2.0, 4.0, 30.0] {
            for epsilon in [0.0f64, 0.5, 3.0] {
                for delta in [1e-9f64, 1e-5, 0.02, 0.4] {
                    let smallest = smallest_divergence(order, epsilon, delta);
                    let seen = (1..100_000)
                        .map(|i| delta + (1.0 - delta) * (-18.0 * f64::from(i) / 1e5).exp())
                        .map(|p| coins(order, p, (p - delta) * (-epsilon).exp()))
                        .filter(|d| d.is_finite())
                        .fold(f64::INFINITY, f64::min);
                    let named = format!("{order} {epsilon} {delta}: {smallest} {seen}");
                    assert!(smallest <= seen + 1e-12, "{named}");
                    if order * delta < 0.9 && delta > 1e-6 {
                        assert!(seen - smallest < 1e-4 * smallest + 1e-9, "{named}");
                    }
                }
            }
        }
    }

    #[test]
    fn huge_orders_have_the_limit_of_large_ones() {
        // D_∞ ≥ ε − log(1 − δ) at smallest.
        for order in [1e10, 1e15, 1e16, 1e50, 1e120, f64::MAX] {
            for delta in [1e-300, 1e-17, 1e-13, 1e-5] {
                for epsilon in [0.0, 0.3, 800.0] {
                    let smallest = smallest_divergence(order, epsilon, delta);
                    let limit = epsilon - f64::ln_1p(-delta);
                    assert!(
                        smallest <= limit && limit - smallest < 1e-7,
                        "{order} {epsilon} {delta}: {smallest}"
                    );
                }
            }
            let delta = delta_of_order(order, 0.1, 0.0, 0.9999);
            assert!((delta + f64::exp_m1(-0.1)).abs() < 1e-7, "{order} {delta}");
        }
    }

    #[test]
    fn epsilon_and_delta_are_inverse() {
        for (order, rdp) in [(1.5, 0.3), (4.0, 1.0), (60.0, 2.0)] {
            for delta in [1e-12, 1e-5, 1e-2] {
                let epsilon = epsilon_of_order(order, rdp, delta, 1e3);
                if epsilon > 0.0 {
                    let back = delta_of_order(order, rdp, epsilon, 0.999);
                    assert!((back / delta - 1.0).abs() < 1e-8, "{order} {delta} {epsilon} {back}");
                }
            }
        }
    }
}
