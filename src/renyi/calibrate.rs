//! The smallest amount of noise with which a run satisfies (m, α, τ)-RGP or (ε, δ)-differential privacy.

use crate::error::{Error, Result, require, require_delta, require_epsilon};
use crate::renyi::conversion::{Conversion, rdp_to_epsilon};
use crate::renyi::group_rdp::{GroupBound, StepBound};
use crate::renyi::run::Run;
use crate::renyi::{MAX_ORDER, require_orders};
use crate::special::root::solve_decreasing_between;
use crate::step::{Adjacency, Direction, Mechanism, Step};

/// Noise multipliers and scales that are searched. For one record at order 2 divergences are beyond 10⁵ nats at one end and about 1e-18 at the
/// other; larger groups and orders have more.
const NOISE: (f64, f64) = (1e-3, 1e9);
/// Range of the variances of Skellam noise over C²: the squares of 1e-2 and of 1e9.
const VARIANCE: (f64, f64) = (1e-4, 1e18);
/// Log odds of keeping the bit that are searched.
const LOG_ODDS: (f64, f64) = (1e-9, 30.0);
/// Width, in log noise, at which the search ends, on the side of more noise: the promised relative width is 1e-9.
const TOLERANCE: f64 = 2e-10;
/// First step in log noise away from the start, a factor 2; steps double.
const FIRST_STEP: f64 = 0.7;

/// The mechanism at log amount of noise x, and its parameter.
fn with_log_noise(mechanism: Mechanism, x: f64) -> (Mechanism, f64) {
    let parameter = match mechanism {
        // The amount is the variance over C².
        Mechanism::Skellam { sensitivity, .. } => x.exp() * (sensitivity as f64).powi(2),
        // The amount is one over the log odds.
        Mechanism::RandomizedResponse { .. } => 1.0 / (1.0 + (-(-x).exp()).exp()),
        _ => x.exp(),
    };
    (mechanism.with_parameter(parameter), parameter)
}

/// Name of the parameter that is searched.
fn parameter_name(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Gaussian { .. } => "noise_multiplier",
        Mechanism::Laplace { .. } => "scale",
        Mechanism::Skellam { .. } => "variance",
        Mechanism::RandomizedResponse { .. } => "p",
    }
}

/// log of the smallest and of the largest amount of noise that is searched.
fn log_range(mechanism: Mechanism) -> (f64, f64) {
    let (smallest, largest) = match mechanism {
        Mechanism::Gaussian { .. } | Mechanism::Laplace { .. } => NOISE,
        Mechanism::Skellam { .. } => VARIANCE,
        Mechanism::RandomizedResponse { .. } => (1.0 / LOG_ODDS.1, 1.0 / LOG_ODDS.0),
    };
    (smallest.ln(), largest.ln())
}

/// A run of equal steps whose amount of noise is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseSearch {
    /// The step; the parameter of its mechanism is ignored.
    pub step: Step,
    /// Number of steps.
    pub count: u64,
    /// Which bound on a step's divergence.
    pub bound: GroupBound,
    /// Which data sets are neighbours.
    pub adjacency: Adjacency,
}

/// The (ε, δ) that a run is to satisfy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DpTarget {
    /// ε ≥ 0.
    pub epsilon: f64,
    /// δ in (0, 1).
    pub delta: f64,
    /// The conversion of divergences to ε.
    pub conversion: Conversion,
}

impl NoiseSearch {
    /// The step at log amount of noise x.
    fn at(&self, x: f64) -> Step {
        Step {
            mechanism: with_log_noise(self.step.mechanism, x).0,
            ..self.step.clone()
        }
    }

    /// The parameter of the mechanism at log amount of noise x.
    fn parameter(&self, x: f64) -> f64 {
        with_log_noise(self.step.mechanism, x).1
    }

    /// The noise at which the search begins, by RGP Theorem 3.1: it is cheap, and the exact divergence is no larger.
    fn start(&self, target: f64, reached: impl FnMut(f64) -> Result<f64>) -> f64 {
        if self.bound == GroupBound::Exact {
            self.solve(target, 0.0, reached, |_, _| String::new()).unwrap_or(0.0)
        } else {
            0.0
        }
    }

    /// The smallest log amount of noise at which `reached`, which falls as noise grows, is at most `target`.
    ///
    /// The search begins at `start`; `unreachable` is the message that names the value nearest to the target and its parameter.
    fn solve(
        &self,
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
        let (smallest, largest) = log_range(self.step.mechanism);
        let start = start.clamp(smallest, largest);
        let at_start = excess(start)?;
        let (mut low, mut high) = ((start, at_start), (start, at_start));
        let mut step = FIRST_STEP;
        if at_start > 0.0 {
            while high.1 > 0.0 {
                if high.0 >= largest {
                    return Err(Error::Unreachable(unreachable(
                        reached(largest)?,
                        self.parameter(largest),
                    )));
                }
                low = high;
                let next = (high.0 + step).min(largest);
                high = (next, excess(next)?);
                step *= 2.0;
            }
        } else {
            while low.1 <= 0.0 {
                if low.0 <= smallest {
                    return Ok(smallest);
                }
                high = low;
                let next = (low.0 - step).max(smallest);
                low = (next, excess(next)?);
                step *= 2.0;
            }
        }
        solve_decreasing_between((low, high), TOLERANCE, excess)
    }
}

/// The parameter with which the divergence of order α of a whole run is at most τ, on the safe side (more noise),
/// to a relative width of 1e-9.
///
/// If the smallest amount of noise of the search suffices, its parameter.
///
/// # Errors
/// An argument out of range; [`Error::Unreachable`] if no parameter of the range reaches τ, with the τ that is reached.
///
/// # Example
/// ```
/// use hockeystick::renyi::{GroupBound, NoiseSearch, calibrate};
/// use hockeystick::{Adjacency, Mechanism, Step};
/// let step = Step::poisson(Mechanism::Gaussian { noise_multiplier: f64::NAN }, 0.03, 16);
/// let run = NoiseSearch { step, count: 500, bound: GroupBound::Exact, adjacency: Adjacency::AddRemove };
/// assert_eq!((100.0 * calibrate(&run, 4.0, 1.0)?).round(), 1524.0);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn calibrate(run: &NoiseSearch, order: f64, tau: f64) -> Result<f64> {
    require(tau > 0.0 && tau.is_finite(), "tau", tau, "in (0, inf)")?;
    require(order > 1.0 && order <= MAX_ORDER, "order", order, "in (1, 10000]")?;
    let at = |x: f64, bound: GroupBound, direction: Option<Direction>| -> Result<f64> {
        let mut step = StepBound::new(&run.at(x), bound, run.adjacency)?;
        Ok(run.count as f64 * step.of_order(order, direction)? * (1.0 + f64::EPSILON))
    };
    let unreachable = |nearest: f64, parameter: f64| {
        format!(
            "tau = {tau:?} is not reached at order {order:?} by any {} of the range; the nearest that is reached is \
             {nearest:?}, at {parameter:?}",
            parameter_name(run.step.mechanism)
        )
    };
    let pairs = run.adjacency.pairs();
    let worst = |x: f64| {
        pairs
            .iter()
            .try_fold(0.0f64, |most, &pair| Ok(most.max(at(x, run.bound, pair)?)))
    };
    let start = run.start(tau, |x| at(x, GroupBound::Jensen, None));
    // "remove" is the larger direction for Gaussian and Skellam noise, and mostly for the others.
    let enough = run.solve(tau, start, |x| at(x, run.bound, pairs[0]), unreachable)?;
    if worst(enough)? <= tau {
        return Ok(run.parameter(enough));
    }
    run.solve(tau, enough, worst, unreachable).map(|x| run.parameter(x))
}

/// The parameter with which a whole run is (ε, δ)-differentially private for the group by its Rényi divergences, on the safe
/// side (more noise), to a relative width of 1e-9; the order optimised over `orders`, or over the reals if there are none.
///
/// # Errors
/// As [`calibrate`]; [`Error::Unreachable`] names the ε that is reached.
///
/// # Example
/// ```
/// use hockeystick::renyi::{Conversion, DpTarget, GroupBound, NoiseSearch, calibrate_dp};
/// use hockeystick::{Adjacency, Mechanism, Step};
/// let step = Step::poisson(Mechanism::Gaussian { noise_multiplier: f64::NAN }, 0.01, 8);
/// let run = NoiseSearch { step, count: 1000, bound: GroupBound::Exact, adjacency: Adjacency::AddRemove };
/// let target = DpTarget { epsilon: 3.0, delta: 1e-5, conversion: Conversion::Canonne };
/// assert_eq!((100.0 * calibrate_dp(&run, target, &[])?).round(), 391.0);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn calibrate_dp(run: &NoiseSearch, target: DpTarget, orders: &[f64]) -> Result<f64> {
    let DpTarget {
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
        let whole = Run::new(&[(run.at(x), run.count)], run.adjacency, bound)?;
        let mut whole = whole.with_conversion(conversion);
        if orders.is_empty() {
            return Ok(whole.epsilon(delta)?.value);
        }
        let rdp = whole.renyi(orders)?;
        if rdp.iter().all(|&divergence| divergence == 0.0) {
            return Ok(0.0);
        }
        Ok(rdp_to_epsilon(orders, &rdp, delta, conversion)?.value)
    };
    let unreachable = |nearest: f64, parameter: f64| {
        format!(
            "epsilon = {epsilon:?} is not reached at delta = {delta:?} by any {} of the range; the nearest that is \
             reached is {nearest:?}, at {parameter:?}",
            parameter_name(run.step.mechanism)
        )
    };
    let start = run.start(epsilon, |x| reached(x, GroupBound::Jensen));
    run.solve(epsilon, start, |x| reached(x, run.bound), unreachable)
        .map(|x| run.parameter(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::renyi::group_rdp::group_rdp;

    fn run(mechanism: Mechanism, bound: GroupBound, count: u64, group_size: u64) -> NoiseSearch {
        NoiseSearch {
            step: Step::poisson(mechanism, 0.03, group_size),
            count,
            bound,
            adjacency: Adjacency::AddRemove,
        }
    }

    const GAUSSIAN: Mechanism = Mechanism::Gaussian {
        noise_multiplier: f64::NAN,
    };
    const LAPLACE: Mechanism = Mechanism::Laplace { scale: f64::NAN };
    const RESPONSE: Mechanism = Mechanism::RandomizedResponse { keep: f64::NAN };

    fn skellam(sensitivity: u64) -> Mechanism {
        Mechanism::Skellam {
            variance: f64::NAN,
            sensitivity,
        }
    }

    #[test]
    fn the_headline_of_figure_2() {
        for (mechanism, steps, bound, exact) in [
            (GAUSSIAN, 500, 26.59, 15.24),
            (LAPLACE, 500, 26.16, 14.885),
            (skellam(1), 500, 2.0 * 353.3, 2.0 * 116.13),
            (RESPONSE, 1, 0.7992, 0.8870),
        ] {
            for (bound, expected) in [(GroupBound::Jensen, bound), (GroupBound::Exact, exact)] {
                let found = calibrate(&run(mechanism, bound, steps, 16), 4.0, 1.0).unwrap();
                assert!(
                    (found / expected - 1.0).abs() < 4e-3,
                    "{mechanism:?} {bound:?}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn the_parameter_satisfies_its_target_and_is_tight() {
        for mechanism in [GAUSSIAN, LAPLACE, skellam(2), RESPONSE] {
            let is_response = matches!(mechanism, Mechanism::RandomizedResponse { .. });
            for bound in [GroupBound::Jensen, GroupBound::Exact, GroupBound::BlackBox] {
                let steps = if is_response { 1 } else { 200 };
                let found = calibrate(&run(mechanism, bound, steps, 8), 3.0, 0.7).unwrap();
                let total = |parameter: f64| {
                    let step = Step::poisson(mechanism.with_parameter(parameter), 0.03, 8);
                    steps as f64 * group_rdp(&step, &[3.0], bound, Adjacency::AddRemove).unwrap()[0]
                };
                let less = if is_response { 1.0 + 1e-8 } else { 1.0 - 1e-8 };
                assert!(
                    total(found) <= 0.7 && total(found * less) > 0.7,
                    "{mechanism:?} {bound:?} {found}"
                );
            }
        }
    }

    #[test]
    fn an_unreachable_target_names_the_nearest() {
        let error = calibrate(&run(GAUSSIAN, GroupBound::Exact, 1_000_000, 16), 4.0, 1e-20).unwrap_err();
        assert!(error.to_string().contains("nearest"), "{error}");
    }
}
