//! The least noise with which a run satisfies (m, α, τ)-RGP.

use crate::error::{Error, Result, require, require_delta, require_epsilon};
use crate::renyi::conversion::{Conversion, rdp_to_epsilon};
use crate::renyi::group_rdp::{GroupBound, StepBound};
use crate::renyi::run::{Run, Segment};
use crate::renyi::{MAX_ORDER, require_orders};
use crate::special::root::solve_decreasing_between;
use crate::step::Mechanism;
use crate::step::{Adjacency, Direction};

/// A mechanism whose noise is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// By the noise multiplier.
    Gaussian,
    /// By the scale.
    Laplace,
    /// By the variance.
    Skellam {
        /// l1 sensitivity, whole.
        sensitivity: u64,
    },
    /// By the probability of keeping the bit, which falls as noise grows.
    RandomizedResponse,
}

/// Parameters that are searched: noise multipliers and scales, variances over C², log odds of keeping the bit.
const NOISE: (f64, f64) = (1e-3, 1e9);
const VARIANCE: (f64, f64) = (1e-4, 1e18);
const LOG_ODDS: (f64, f64) = (1e-9, 30.0);
/// Relative width at which the search stops.
const TOLERANCE: f64 = 2e-10;

impl Family {
    /// The mechanism with this parameter, which is not checked.
    pub fn with_parameter(self, parameter: f64) -> Mechanism {
        match self {
            Self::Gaussian => Mechanism::Gaussian {
                noise_multiplier: parameter,
            },
            Self::Laplace => Mechanism::Laplace { scale: parameter },
            Self::Skellam { sensitivity } => Mechanism::Skellam {
                variance: parameter,
                sensitivity,
            },
            Self::RandomizedResponse => Mechanism::RandomizedResponse { keep: parameter },
        }
    }

    /// The mechanism at log amount of noise x, and its parameter.
    fn at(self, x: f64) -> (Mechanism, f64) {
        let parameter = match self {
            // The amount is the variance over C².
            Self::Skellam { sensitivity } => x.exp() * (sensitivity as f64).powi(2),
            // The amount is one over the log odds.
            Self::RandomizedResponse => 1.0 / (1.0 + (-(-x).exp()).exp()),
            _ => x.exp(),
        };
        (self.with_parameter(parameter), parameter)
    }

    /// What its noise is called.
    fn parameter_name(self) -> &'static str {
        match self {
            Self::Gaussian => "noise_multiplier",
            Self::Laplace => "scale",
            Self::Skellam { .. } => "variance",
            Self::RandomizedResponse => "p",
        }
    }

    /// log of the least and the most noise that is searched.
    fn range(self) -> (f64, f64) {
        let (least, most) = match self {
            Self::Gaussian | Self::Laplace => NOISE,
            Self::Skellam { .. } => VARIANCE,
            Self::RandomizedResponse => (1.0 / LOG_ODDS.1, 1.0 / LOG_ODDS.0),
        };
        (least.ln(), most.ln())
    }
}

/// What a run is asked to satisfy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Poisson rate in [0, 1].
    pub sample_rate: f64,
    /// Number of steps.
    pub steps: u64,
    /// m.
    pub group_size: u64,
    /// Which bound on a step's divergence.
    pub bound: GroupBound,
}

/// The guarantee that a run is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// ε ≥ 0.
    pub epsilon: f64,
    /// δ in (0, 1).
    pub delta: f64,
    /// How divergences become ε.
    pub conversion: Conversion,
}

/// The parameter with which the divergence of order α of a whole run is at most τ, on the safe side (more noise),
/// to a relative width of 1e-9.
///
/// If even the least noise of the range will do, its parameter.
///
/// # Errors
/// An argument out of range; [`Error::Unreachable`] if no parameter of the range reaches τ, with the τ that is reached.
///
/// # Example
/// ```
/// use hockeystick::renyi::{Family, Setting, calibrate};
/// use hockeystick::renyi::GroupBound;
/// let setting = Setting { sample_rate: 0.03, steps: 500, group_size: 16, bound: GroupBound::Exact };
/// assert_eq!((100.0 * calibrate(Family::Gaussian, 4.0, 1.0, setting)?).round(), 1524.0);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn calibrate(family: Family, order: f64, tau: f64, setting: Setting) -> Result<f64> {
    require(tau > 0.0 && tau.is_finite(), "tau", tau, "in (0, inf)")?;
    require(order > 1.0 && order <= MAX_ORDER, "order", order, "in (1, 10000]")?;
    let at = |x: f64, bound: GroupBound, direction: Direction| -> Result<f64> {
        let (noise, _) = family.at(x);
        let mut step = StepBound::new(noise, setting.sample_rate, setting.group_size, bound)?;
        Ok(setting.steps as f64 * step.of_order(order, direction)? * (1.0 + f64::EPSILON))
    };
    let unreachable = |nearest: f64, parameter: f64| {
        format!(
            "tau = {tau:?} is not reached at order {order:?} by any {} of the range; the nearest that is reached is \
             {nearest:?}, at {parameter:?}",
            family.parameter_name()
        )
    };
    // Theorem 3.1 is cheap, and the exact divergence no larger.
    let start = match setting.bound {
        GroupBound::Exact => {
            let jensen = |x| at(x, GroupBound::Jensen, Direction::Remove);
            solve(family, tau, 0.0, jensen, unreachable).unwrap_or(0.0)
        }
        _ => 0.0,
    };
    // "remove" is the larger direction but for Laplace noise and randomised response, and there mostly.
    let remove = |x| at(x, setting.bound, Direction::Remove);
    let enough = solve(family, tau, start, remove, unreachable)?;
    if at(enough, setting.bound, Direction::Add)? <= tau {
        return Ok(family.at(enough).1);
    }
    let both = |x| Ok(at(x, setting.bound, Direction::Add)?.max(at(x, setting.bound, Direction::Remove)?));
    solve(family, tau, enough, both, unreachable).map(|x| family.at(x).1)
}

/// The parameter with which a whole run is (ε, δ)-differentially private for the group by its Rényi divergences, on the safe
/// side (more noise), to a relative width of 1e-9; the order optimised over `orders`, or over the reals if there are none.
///
/// # Errors
/// As [`calibrate`]; [`Error::Unreachable`] names the ε that is reached.
///
/// # Example
/// ```
/// use hockeystick::renyi::{Family, Setting, Target, calibrate_dp};
/// use hockeystick::renyi::Conversion;
/// use hockeystick::renyi::GroupBound;
/// let setting = Setting { sample_rate: 0.01, steps: 1000, group_size: 8, bound: GroupBound::Exact };
/// let target = Target { epsilon: 3.0, delta: 1e-5, conversion: Conversion::Canonne };
/// assert_eq!((100.0 * calibrate_dp(Family::Gaussian, target, &[], setting)?).round(), 391.0);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn calibrate_dp(family: Family, target: Target, orders: &[f64], setting: Setting) -> Result<f64> {
    let Target {
        epsilon,
        delta,
        conversion,
    } = target;
    require_epsilon(epsilon)?;
    require_delta(delta)?;
    if !orders.is_empty() {
        require_orders(orders)?;
    }
    let reached = |x: f64, bound: GroupBound| -> Result<f64> {
        let (noise, _) = family.at(x);
        let segment = Segment {
            noise,
            sample_rate: setting.sample_rate,
            steps: setting.steps,
        };
        let run = Run::new(&[segment], setting.group_size, Adjacency::AddRemove, bound)?;
        let mut run = run.with_conversion(conversion);
        if orders.is_empty() {
            return Ok(run.epsilon(delta)?.value);
        }
        let rdp = run.renyi(orders)?;
        if rdp.iter().all(|&divergence| divergence == 0.0) {
            return Ok(0.0);
        }
        Ok(rdp_to_epsilon(orders, &rdp, delta, conversion)?.value)
    };
    let unreachable = |nearest: f64, parameter: f64| {
        format!(
            "epsilon = {epsilon:?} is not reached at delta = {delta:?} by any {} of the range; the nearest that is \
             reached is {nearest:?}, at {parameter:?}",
            family.parameter_name()
        )
    };
    let start = match setting.bound {
        GroupBound::Exact => {
            let jensen = |x| reached(x, GroupBound::Jensen);
            solve(family, epsilon, 0.0, jensen, unreachable).unwrap_or(0.0)
        }
        _ => 0.0,
    };
    solve(family, epsilon, start, |x| reached(x, setting.bound), unreachable).map(|x| family.at(x).1)
}

/// The least noise at which `reached`, which falls as noise grows, is at most `target`.
///
/// In log amounts of noise; the search begins at `start`, and `unreachable` words the value nearest to the target and its
/// parameter.
fn solve(
    family: Family,
    target: f64,
    start: f64,
    mut reached: impl FnMut(f64) -> Result<f64>,
    unreachable: impl Fn(f64, f64) -> String,
) -> Result<f64> {
    let mut excess = |x: f64| -> Result<f64> {
        let value = reached(x)?;
        Ok(if value <= 0.0 {
            f64::NEG_INFINITY
        } else {
            (value / target).ln()
        })
    };
    let (least, most) = family.range();
    // Onward by factors that grow.
    let start = start.clamp(least, most);
    let at_start = excess(start)?;
    let (mut low, mut high) = ((start, at_start), (start, at_start));
    let mut step = 0.7;
    if at_start > 0.0 {
        while high.1 > 0.0 {
            if high.0 >= most {
                return Err(Error::Unreachable(unreachable(reached(most)?, family.at(most).1)));
            }
            low = high;
            let next = (high.0 + step).min(most);
            high = (next, excess(next)?);
            step *= 2.0;
        }
    } else {
        while low.1 <= 0.0 {
            if low.0 <= least {
                return Ok(least);
            }
            high = low;
            let next = (low.0 - step).max(least);
            low = (next, excess(next)?);
            step *= 2.0;
        }
    }
    solve_decreasing_between((low, high), TOLERANCE, excess)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::renyi::group_rdp::group_rdp;

    fn setting(bound: GroupBound, steps: u64, group_size: u64) -> Setting {
        Setting {
            sample_rate: 0.03,
            steps,
            group_size,
            bound,
        }
    }

    #[test]
    fn the_headline_of_figure_2() {
        for (family, steps, bound, exact) in [
            (Family::Gaussian, 500, 26.59, 15.24),
            (Family::Laplace, 500, 26.16, 14.885),
            (Family::Skellam { sensitivity: 1 }, 500, 2.0 * 353.3, 2.0 * 116.13),
            (Family::RandomizedResponse, 1, 0.7992, 0.8870),
        ] {
            for (bound, expected) in [(GroupBound::Jensen, bound), (GroupBound::Exact, exact)] {
                let found = calibrate(family, 4.0, 1.0, setting(bound, steps, 16)).unwrap();
                assert!(
                    (found / expected - 1.0).abs() < 4e-3,
                    "{family:?} {bound:?}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn the_parameter_satisfies_its_target_and_is_tight() {
        for family in [
            Family::Gaussian,
            Family::Laplace,
            Family::Skellam { sensitivity: 2 },
            Family::RandomizedResponse,
        ] {
            for bound in [GroupBound::Jensen, GroupBound::Exact, GroupBound::BlackBox] {
                let steps = if family == Family::RandomizedResponse { 1 } else { 200 };
                let found = calibrate(family, 3.0, 0.7, setting(bound, steps, 8)).unwrap();
                let total = |parameter: f64| {
                    steps as f64 * group_rdp(family.with_parameter(parameter), &[3.0], 0.03, 8, bound).unwrap()[0]
                };
                let less = if family == Family::RandomizedResponse {
                    1.0 + 1e-8
                } else {
                    1.0 - 1e-8
                };
                assert!(
                    total(found) <= 0.7 && total(found * less) > 0.7,
                    "{family:?} {bound:?} {found}"
                );
            }
        }
    }

    #[test]
    fn an_unreachable_target_names_the_nearest() {
        let error =
            calibrate(Family::Gaussian, 4.0, 1e-20, setting(GroupBound::Exact, 1_000_000, 16)).unwrap_err();
        assert!(error.to_string().contains("nearest"), "{error}");
    }
}
