//! One side of a curve from the other: f and δ are each other's conjugates, minima of convex functions.

use crate::error::Result;
use crate::interval::Interval;
use crate::special::normal::quantile;
use crate::stopping::checkpoint;
use crate::tradeoff::convex::minimum;

/// log of 1/α for the smallest α, and of the largest e^ε, of a search: their exponentials are far from overflow, at 709.
const LOG_RANGE: f64 = 700.0;
/// log α at which the power next to 0 is bounded, one after the other until it is small enough: the power grows with α, and at e^-700
/// that of a few steps takes seconds, where that at e^-30 takes milliseconds.
const NEXT_TO_ZERO: [f64; 3] = [-30.0, -150.0, -LOG_RANGE];
/// Range of the distance of the Gaussian pair whose optimum is the first guess.
const DISTANCES: (f64, f64) = (1e-3, 30.0);
/// Largest ε at which δ is searched for over α: e^ε times the smallest α, e^-700, is a normal number.
pub(super) const MAX_EPSILON: f64 = 650.0;
/// Smallest α at which the power is searched for over ε: e^ε would overflow below. The power there is bounded by that at 0 and here.
pub(super) const MIN_ALPHA: f64 = 1e-290;

/// The minimum of a convex function of e^u whose values may fail: [`minimum`] with the first error passed on.
fn fallible_minimum(
    range: (f64, f64),
    start: (f64, f64),
    kink: Option<f64>,
    mut value: impl FnMut(f64) -> Result<Interval>,
) -> Result<Interval> {
    let mut failure = None;
    let found = minimum(range, start, kink, |x| {
        value(x).unwrap_or_else(|error| {
            failure = Some(error);
            Interval::exact(f64::INFINITY)
        })
    });
    failure.map_or(Ok(found), Err)
}

/// e^ε = sup_α (F(α) − δ)/α for F = 1 − f and δ in (0, 1): the smallest ε ≥ 0 with f ≥ f_{ε,δ}, infinite if there is none.
///
/// With x = 1/α that is the supremum of xF(1/x) − δx, which is concave in x as the perspective of a concave function.
///
/// # Errors
/// The errors of `power`.
pub(super) fn epsilon_by_power(delta: f64, power: impl Fn(f64) -> Result<Interval>) -> Result<Interval> {
    checkpoint();
    let found = fallible_minimum((0.0, LOG_RANGE), (2.0, 0.25), None, |x| {
        let power = power((1.0 / x).min(1.0))?;
        Ok(Interval {
            lower: x * (delta - power.upper) - 2.0 * f64::EPSILON * x,
            upper: x * (delta - power.lower) + 2.0 * f64::EPSILON * x,
        })
    })?;
    let log = |t: f64| if t > 1.0 { t.ln() } else { 0.0 };
    // Where even the smallest α of the search has more power than δ, the supremum may lie beyond it.
    let at_smallest = power_next_to_zero(delta, &power)?;
    Ok(Interval {
        lower: log(-found.upper) * (1.0 - 4.0 * f64::EPSILON),
        upper: if at_smallest >= delta {
            f64::INFINITY
        } else {
            log(-found.lower) * (1.0 + 4.0 * f64::EPSILON)
        },
    })
}

/// 1 − f(α) = inf over e^ε = t of δ(ε) + tα, for α in [1e-290, 1).
///
/// # Errors
/// The errors of `delta`.
pub(super) fn power_by_delta(alpha: f64, delta: impl Fn(f64) -> Result<Interval>) -> Result<Interval> {
    checkpoint();
    // The optimum of the G_μ with the same advantage 2Φ(μ/2) − 1.
    let advantage = delta(0.0)?.upper;
    let mu = (2.0 * quantile(0.5 + 0.5 * advantage).value).clamp(DISTANCES.0, DISTANCES.1);
    let start = (-mu * quantile(alpha).value - 0.5 * mu * mu, 0.25 * mu.min(1.0));
    fallible_minimum((-LOG_RANGE, LOG_RANGE), start, Some(0.0), |t| {
        let epsilon = t.ln();
        let delta = delta(epsilon)?;
        // δ is that at the rounded logarithm, whose exponential is off by as many units of t as the logarithm is large.
        let rounding = f64::EPSILON * (2.0 + epsilon.abs());
        Ok(Interval {
            lower: delta.lower + t * alpha * (1.0 - rounding),
            upper: delta.upper + t * alpha * (1.0 + rounding),
        })
    })
}

/// δ(ε) = sup over α of F(α) − e^ε α for F = 1 − f, for ε of at most 650.
///
/// # Errors
/// The errors of `power`.
pub(super) fn delta_by_power(epsilon: f64, power: impl Fn(f64) -> Result<Interval>) -> Result<Interval> {
    checkpoint();
    let t = epsilon.exp();
    let start = (-0.5 * epsilon.abs() - 1.0, 0.25);
    // tα − F(α) is convex in α.
    let found = fallible_minimum((-LOG_RANGE, 0.0), start, None, |alpha| {
        let power = power(alpha.min(1.0))?;
        Ok(Interval {
            lower: t * alpha * (1.0 - 2.0 * f64::EPSILON) - power.upper,
            upper: t * alpha * (1.0 + 2.0 * f64::EPSILON) - power.lower,
        })
    })?;
    // α from 0 to the smallest of the search.
    let upper = -found.lower;
    Ok(Interval {
        lower: (-found.upper).max(power(0.0)?.lower),
        upper: upper.max(power_next_to_zero(upper, &power)?),
    })
}

/// A bound on F(α) for α of at most e^-700; any bound below `enough` will do.
fn power_next_to_zero(enough: f64, power: &impl Fn(f64) -> Result<Interval>) -> Result<f64> {
    let mut bound = 1.0;
    for log_alpha in NEXT_TO_ZERO {
        bound = power(f64::exp(log_alpha))?.upper;
        if bound < enough {
            break;
        }
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::tradeoff::closed_forms::{gaussian_tail, laplace_delta, laplace_power};

    fn assert_holds(found: Interval, exact: f64, width: f64) {
        let rounding = 4e-15 * exact.abs();
        assert!(
            found.lower <= exact + rounding && exact <= found.upper + rounding,
            "{found:?} {exact}"
        );
        assert!(found.width() <= width, "{found:?} {exact}");
    }

    #[test]
    fn either_side_of_laplace_noise_follows_from_the_other() {
        let mu = 1.3;
        for alpha in [1e-280, 1e-12, 0.01, 0.136, 0.3, 0.5, 0.7, 0.999] {
            let found = power_by_delta(alpha, |epsilon| Ok(Interval::around(laplace_delta(mu, epsilon), 1e-15)));
            assert_holds(found.unwrap(), laplace_power(mu, alpha), 1e-9);
        }
        for epsilon in [-1.0, 0.0, 0.4, 1.29, 1.31, 50.0] {
            let found = delta_by_power(epsilon, |alpha| Ok(Interval::around(laplace_power(mu, alpha), 1e-15)));
            assert_holds(found.unwrap(), laplace_delta(mu, epsilon), 1e-9);
        }
    }

    #[test]
    fn the_power_of_gaussian_noise_follows_from_delta() {
        use crate::curve::one_step;
        use crate::loss::StepLoss;
        use crate::tradeoff::closed_forms::mirrored;
        let delta = |epsilon: f64| {
            Ok(mirrored(
                epsilon,
                one_step::delta(&StepLoss::shift(0.8), epsilon.abs()).into(),
            ))
        };
        for alpha in [1e-9, 1e-3, 0.2, 0.6, 0.99] {
            assert_holds(
                power_by_delta(alpha, delta).unwrap(),
                gaussian_tail(0.8, alpha, true).middle(),
                1e-9,
            );
        }
    }

    #[test]
    fn epsilon_of_laplace_noise_follows_from_its_power() {
        // δ = 1 − e^{(ε − μ)/2}
        let mu = 2.0;
        for delta in [1e-9, 1e-4, 0.1, 0.5] {
            let found = epsilon_by_power(delta, |alpha| Ok(Interval::around(laplace_power(mu, alpha), 1e-15)));
            assert_holds(found.unwrap(), mu + 2.0 * f64::ln_1p(-delta), 1e-8);
        }
        // With the singular mass 0.1 there is no ε for a smaller δ.
        let power = |alpha: f64| Ok(Interval::exact(0.1 + 0.9 * alpha));
        assert_eq!(epsilon_by_power(0.05, power).unwrap().upper, f64::INFINITY);
        assert_eq!(epsilon_by_power(0.2, power).unwrap().upper, 0.0);
    }

    #[test]
    fn power_at_the_smallest_levels_is_asked_for_only_where_it_may_be_the_largest() {
        let smallest_asked = |epsilon: f64, singular: f64| {
            let smallest = std::cell::Cell::new(1.0f64);
            let power = |alpha: f64| {
                if alpha > 0.0 {
                    smallest.set(smallest.get().min(alpha));
                }
                Ok(Interval::around(
                    singular + (1.0 - singular) * laplace_power(1.3, alpha),
                    1e-15,
                ))
            };
            let found = delta_by_power(epsilon, power).unwrap();
            (smallest.get(), found)
        };
        let (smallest, found) = smallest_asked(0.4, 0.0);
        assert!(smallest > 1e-20, "{smallest}");
        assert_holds(found, laplace_delta(1.3, 0.4), 1e-9);
        // A mass that no level takes away is all that is left of δ beyond the largest loss.
        let (smallest, found) = smallest_asked(5.0, 0.1);
        assert!(
            smallest < 1e-300 && found.lower <= 0.1 && 0.1 <= found.upper,
            "{smallest} {found:?}"
        );
    }

    #[test]
    fn errors_are_passed_on() {
        let refuse = |_: f64| Err(Error::Internal);
        assert_eq!(power_by_delta(0.5, refuse), Err(Error::Internal));
        assert_eq!(delta_by_power(0.5, refuse), Err(Error::Internal));
        assert_eq!(epsilon_by_power(0.5, refuse), Err(Error::Internal));
    }
}
