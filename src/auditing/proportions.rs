//! A lower bound on a probability from how often an event was seen.

use crate::error::{Result, require};
use crate::special::binomial::Binomial;
use crate::special::root::solve_decreasing;

/// Largest number of trials: the sum over the successes of a tail then has at most some 10⁵ terms.
const MAX_TRIALS: u64 = 100_000_000;
/// Relative width to which the bound is found.
const WIDTH: f64 = 1e-13;

/// A lower bound on the probability of an event that was seen in `successes` of `trials` independent trials.
///
/// It is wrong with a probability of at most `error` in (0, 1): the one-sided bound of Clopper and Pearson 1934
/// (doi:10.1093/biomet/26.4.404), the p at which `successes` or more have the probability `error`. The tail is rounded up and the
/// search ends below its root, so that rounding makes the bound smaller.
///
/// # Errors
/// `trials` is not in [1, 10⁸], `successes` is larger, or `error` is not in (0, 1).
///
/// # Example
/// ```
/// use hockeystick::auditing::probability_at_least;
/// // All of 100 trials: p^100 = 0.025.
/// let bound = probability_at_least(100, 100, 0.025)?;
/// assert!((bound - 0.025f64.powf(0.01)).abs() < 1e-12);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn probability_at_least(successes: u64, trials: u64, error: f64) -> Result<f64> {
    require(
        (1..=MAX_TRIALS).contains(&trials),
        "trials",
        trials,
        "in [1, 100000000]",
    )?;
    require(
        successes <= trials,
        "successes",
        successes,
        "at most the number of trials",
    )?;
    require(error > 0.0 && error < 1.0, "error", error, "in (0, 1)")?;
    if successes == 0 {
        return Ok(0.0);
    }
    let (seen, all) = (successes as f64, trials as f64);
    let frequency = seen / all;
    let excess =
        |log_p: f64| Binomial::new(all, (frequency * log_p.exp()).min(frequency)).upper_tail(seen) / error - 1.0;
    // At the frequency as many successes or more have a probability of about a half; for a larger error the frequency will do.
    if excess(0.0) <= 0.0 {
        return Ok(frequency);
    }
    // Chernoff: P(X ≥ k) ≤ (np/k)^k·e^{k − np} ≤ (e·p/frequency)^k, which is at most the error at the lower end.
    let lowest = (error.ln() - 1e-9) / seen - 1.0;
    let found = solve_decreasing(0.0, -lowest, WIDTH, |x| Ok::<_, crate::error::Error>(excess(-x)))?;
    Ok(frequency * (-found).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Beta, ContinuousCDF};

    #[test]
    fn the_bound_is_a_quantile_of_the_beta_law() {
        for (seen, trials, error) in [(1u64, 10u64, 0.025), (7, 20, 0.4), (50, 1000, 1e-6), (999, 1000, 0.05)] {
            let found = probability_at_least(seen, trials, error).unwrap();
            let law = Beta::new(seen as f64, (trials - seen + 1) as f64).unwrap();
            assert!(
                (law.cdf(found) / error - 1.0).abs() < 1e-9,
                "{seen} {trials} {error}: {found}"
            );
        }
    }

    #[test]
    fn extreme_counts_and_errors_are_answered() {
        assert_eq!(probability_at_least(0, 5, 0.1).unwrap(), 0.0);
        // One success in n: (1 − p)^n = 1 − error.
        let one = probability_at_least(1, 100_000_000, 1e-15).unwrap();
        assert!((one / 1e-23 - 1.0).abs() < 1e-6);
        assert_eq!(probability_at_least(3, 6, 0.9).unwrap(), 0.5);
        let half = probability_at_least(50_000_000, 100_000_000, 0.025).unwrap();
        assert!((half - (0.5 - 0.5 * 1.959_963_985e-4)).abs() < 1e-8);
    }

    #[test]
    fn counts_out_of_range_are_refused() {
        for (seen, trials, error) in [
            (1, 0, 0.1),
            (2, 1, 0.1),
            (1, 100_000_001, 0.1),
            (1, 2, 0.0),
            (1, 2, 1.0),
        ] {
            assert!(probability_at_least(seen, trials, error).is_err());
        }
    }
}
