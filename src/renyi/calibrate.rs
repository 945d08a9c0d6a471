//! The least noise with which a run satisfies (m, α, τ)-RGP.

use super::group_rdp::{GroupBound, group_rdp};
use super::noise::Noise;
use crate::error::{Error, Result, require};
use crate::special::root::solve_decreasing_between;

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

/// Parameters that are searched: noise multipliers and scales, variances, log odds of keeping the bit.
const NOISE: (f64, f64) = (1e-3, 1e6);
const VARIANCE: (f64, f64) = (1e-4, 1e10);
const LOG_ODDS: (f64, f64) = (1e-9, 30.0);
/// Relative width at which the search stops.
const TOLERANCE: f64 = 2e-10;

impl Family {
    /// The mechanism at log amount of noise x, and its parameter.
    fn at(self, x: f64) -> (Noise, f64) {
        let amount = x.exp();
        match self {
            Self::Gaussian => (
                Noise::Gaussian {
                    noise_multiplier: amount,
                },
                amount,
            ),
            Self::Laplace => (Noise::Laplace { scale: amount }, amount),
            Self::Skellam { sensitivity } => (
                Noise::Skellam {
                    variance: amount,
                    sensitivity,
                },
                amount,
            ),
            Self::RandomizedResponse => {
                // The amount is one over the log odds; rounded to the side of more noise.
                let keep = 1.0 / (1.0 + (-1.0 / amount).exp());
                (Noise::RandomizedResponse { keep }, keep)
            }
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
/// use hockeystick::renyi::calibrate::{Family, Setting, calibrate};
/// use hockeystick::renyi::group_rdp::GroupBound;
/// let setting = Setting { sample_rate: 0.03, steps: 500, group_size: 16, bound: GroupBound::Exact };
/// assert_eq!((100.0 * calibrate(Family::Gaussian, 4.0, 1.0, setting)?).round(), 1524.0);
/// # Ok::<(), hockeystick::error::Error>(())
/// ```
pub fn calibrate(family: Family, order: f64, tau: f64, setting: Setting) -> Result<f64> {
    require(tau > 0.0 && tau.is_finite(), "tau", tau, "in (0, inf)")?;
    let reached = |x: f64| -> Result<f64> {
        let (noise, _) = family.at(x);
        let one = group_rdp(noise, &[order], setting.sample_rate, setting.group_size, setting.bound)?[0];
        Ok(setting.steps as f64 * one * (1.0 + f64::EPSILON))
    };
    solve(family, tau, reached, |nearest| {
        format!(
            "tau = {tau:?} is not reached at order {order:?} by any noise of the range; the nearest that is reached is {nearest:?}"
        )
    })
}

/// The least noise at which `reached`, which falls as noise grows, is at most `target`.
fn solve(
    family: Family,
    target: f64,
    mut reached: impl FnMut(f64) -> Result<f64>,
    unreachable: impl Fn(f64) -> String,
) -> Result<f64> {
    let mut excess = |x: f64| -> Result<f64> {
        let value = reached(x)?;
        Ok(if value == 0.0 {
            f64::NEG_INFINITY
        } else {
            (value / target).ln()
        })
    };
    let (least, most) = family.range();
    // From an amount of 1 by factors that grow.
    let start = 0.0f64.clamp(least, most);
    let at_start = excess(start)?;
    let (mut low, mut high) = ((start, at_start), (start, at_start));
    let mut step = 0.7;
    if at_start > 0.0 {
        while high.1 > 0.0 {
            if high.0 >= most {
                return Err(Error::Unreachable(unreachable(target * high.1.exp())));
            }
            low = high;
            let next = (high.0 + step).min(most);
            high = (next, excess(next)?);
            step *= 2.0;
        }
    } else {
        while low.1 <= 0.0 {
            if low.0 <= least {
                return Ok(family.at(least).1);
            }
            high = low;
            let next = (low.0 - step).max(least);
            low = (next, excess(next)?);
            step *= 2.0;
        }
    }
    let root = solve_decreasing_between((low, high), TOLERANCE, excess)?;
    Ok(family.at(root).1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    let noise = match family {
                        Family::Gaussian => Noise::Gaussian {
                            noise_multiplier: parameter,
                        },
                        Family::Laplace => Noise::Laplace { scale: parameter },
                        Family::Skellam { sensitivity } => Noise::Skellam {
                            variance: parameter,
                            sensitivity,
                        },
                        Family::RandomizedResponse => Noise::RandomizedResponse { keep: parameter },
                    };
                    steps as f64 * group_rdp(noise, &[3.0], 0.03, 8, bound).unwrap()[0]
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
