//! Confidence intervals for the mean of a variable bounded in [0, 1] that hold at every sample size.

use crate::special::root::solve_decreasing;

/// The size and the sums of a sample of values in [0, 1].
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Number of values.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Sum of their squares.
    pub sum_of_squares: f64,
}

impl Sample {
    /// The mean.
    pub fn mean(self) -> f64 {
        self.sum / self.count
    }

    /// The unbiased sample variance; 1/4 (its largest possible value) for a single observation.
    fn variance(self) -> f64 {
        if self.count < 2.0 {
            return 0.25;
        }
        let mean = self.mean();
        ((self.sum_of_squares - self.sum * mean) / (self.count - 1.0)).max(0.0)
    }

    /// (lower, upper) with P(lower ≤ E ≤ upper) ≥ `confidence`, whatever the law on [0, 1].
    ///
    /// Either end is the better of two one-sided bounds, each at a quarter of the allowed error:
    ///
    /// * Chernoff with the exact moment generating function of the extremal (Bernoulli) law,
    ///   P(mean ≥ x) ≤ e^{−n·KL(x, E)} (Hoeffding 1963, Theorem 1): best when few values are not 0;
    /// * empirical Bernstein, E ≤ mean + √(2V·log(2/β)/n) + 7·log(2/β)/(3(n − 1)) (Maurer and Pontil 2009,
    ///   Theorem 4): best when the values vary less than a coin.
    ///
    /// Nothing is known from no values: (0, 1).
    ///
    /// # Example
    /// ```
    /// use hockeystick::simulation::Sample;
    /// let (lower, upper) = Sample { count: 1e4, sum: 500.0, sum_of_squares: 500.0 }.interval(0.99);
    /// assert!(0.04 < lower && lower < 0.05 && 0.05 < upper && upper < 0.06);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn interval(self, confidence: f64) -> (f64, f64) {
        let mean = self.mean().clamp(0.0, 1.0);
        if mean.is_nan() || confidence.is_nan() {
            return (0.0, 1.0);
        }
        let error = 0.25 * (1.0 - confidence);
        let log_inverse = -error.ln();
        let bernstein = if self.count < 2.0 {
            f64::INFINITY
        } else {
            let log_two = log_inverse + std::f64::consts::LN_2;
            (2.0 * self.variance() * log_two / self.count).sqrt() + 7.0 * log_two / (3.0 * (self.count - 1.0))
        };
        let divergence = log_inverse / self.count * (1.0 + ROUNDING);
        let upper = farthest_above(mean, divergence).min(mean + bernstein);
        // KL(x, E) = KL(1 − x, 1 − E).
        let lower = (1.0 - farthest_above(1.0 - mean, divergence) - f64::EPSILON).max(mean - bernstein);
        (lower.clamp(0.0, mean), upper.clamp(mean, 1.0))
    }
}

/// Bound on the relative rounding error of a few operations.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// Relative entropy of coins, rounded down, for 0 < a ≤ b: KL(a, b) = a·log(a/b) + (1 − a)·log((1 − a)/(1 − b)).
///
/// The two parts are about a − b and b − a, and cancel to (b − a)²/(2a(1 − a)): they are computed from b − a, so that their errors are small
/// parts of it.
fn relative_entropy(a: f64, b: f64) -> f64 {
    let gain = (1.0 - a) * ((b - a) / (1.0 - b)).ln_1p();
    let loss = a * ((b - a) / a).ln_1p();
    gain * (1.0 - ROUNDING) - loss * (1.0 + ROUNDING)
}

/// The largest b ≥ a with KL(a, b) ≤ `divergence`, rounded up.
fn farthest_above(a: f64, divergence: f64) -> f64 {
    if a >= 1.0 {
        return 1.0;
    }
    if a == 0.0 {
        return -(-divergence).exp_m1() * (1.0 + ROUNDING);
    }
    // KL(a, b) ≥ (b − a)²/(2b) for b ≥ a, which bounds b; KL grows with b there.
    let far = (a + divergence + (divergence * (divergence + 2.0 * a)).sqrt()) * (1.0 + ROUNDING);
    let far = far.min(1.0);
    let solved = solve_decreasing(a, far, 1e-12 * a, |b| {
        Ok::<_, std::convert::Infallible>(divergence - relative_entropy(a, b))
    });
    let Ok(b) = solved;
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Binomial, Discrete};

    fn coin(successes: f64, count: f64) -> Sample {
        Sample {
            count,
            sum: successes,
            sum_of_squares: successes,
        }
    }

    #[test]
    fn no_success_gives_the_exact_chernoff_bound() {
        let (lower, upper) = coin(0.0, 1000.0).interval(0.99);
        // (1 − p)^n = error.
        assert_eq!(lower, 0.0);
        assert!((upper - (1.0 - 0.0025f64.powf(1e-3))).abs() < 1e-15);
    }

    #[test]
    fn the_interval_of_a_coin_holds_the_exact_binomial_tail() {
        // P(X ≤ 5) for X ~ Bin(100, upper) must be at most the error allowed for one side.
        let (lower, upper) = coin(5.0, 100.0).interval(0.95);
        let tail = |p: f64, range: std::ops::RangeInclusive<u64>| -> f64 {
            let law = Binomial::new(p, 100).unwrap();
            range.map(|j| law.pmf(j)).sum()
        };
        assert!(tail(upper, 0..=5) <= 0.025 && tail(lower, 5..=100) <= 0.025);
        assert!(lower > 0.005 && upper < 0.2, "{lower} {upper}");
    }

    #[test]
    fn values_that_vary_little_have_a_narrow_interval() {
        let steady = Sample {
            count: 1e6,
            sum: 3e5,
            sum_of_squares: 9e4 + 1.0,
        };
        let (lower, upper) = steady.interval(0.99);
        assert!(lower < 0.3 && 0.3 < upper && upper - lower < 5e-5);
    }

    /// KL(a, b) of neighbouring coins, as they are seen in 10^14 values (mpmath, of the numbers nearest to these).
    #[test]
    fn relative_entropies_of_neighbours_are_rounded_down_and_keep_their_digits() {
        for (a, b, exact) in [
            (0.35, 0.350_000_2, 8.791_207_246_008_423e-14),
            (0.45, 0.450_000_1, 2.020_201_965_902_031e-14),
            (0.45, 0.450_000_2, 8.080_807_645_943_77e-14),
            (0.3, 0.300_000_1, 2.380_952_078_746_253_2e-14),
        ] {
            let found = relative_entropy(a, b) / exact - 1.0;
            assert!((-1e-7..=0.0).contains(&found), "{a} {b} {found}");
        }
    }

    #[test]
    fn no_observations_say_nothing() {
        assert_eq!(Sample::default().interval(0.9), (0.0, 1.0));
    }

    #[test]
    fn one_observation_says_little_but_not_nothing() {
        let (lower, upper) = coin(1.0, 1.0).interval(0.9);
        assert!(upper == 1.0 && lower > 0.0 && lower < 0.1);
    }

    #[test]
    fn the_interval_is_the_tighter_of_the_two_published_bounds() {
        // n = 1000, mean 0.5, V = 0.01: log(2/β) = log 400 at 98 % confidence, and Bernstein's radius is
        // √(2·0.01·log 400/1000) + 7·log 400/(3·999) = 0.010946657 + 0.013994078; Chernoff's is about √(log 200/2000) = 0.0515.
        let sample = Sample {
            count: 1000.0,
            sum: 500.0,
            sum_of_squares: 250.0 + 9.99,
        };
        let (lower, upper) = sample.interval(0.98);
        assert!(
            (upper - 0.524_940_735).abs() < 1e-8 && (lower - 0.475_059_265).abs() < 1e-8,
            "{lower} {upper}"
        );
        // A coin: KL(0.5, b) = log(200)/1000 at b = (1 + √(1 − e^{−2·log(200)/1000}))/2.
        let (lower, upper) = coin(500.0, 1000.0).interval(0.98);
        let chernoff = 0.5 * (1.0 + (1.0 - 200f64.powf(-2e-3)).sqrt());
        assert!(
            (upper - chernoff).abs() < 1e-11 && (lower - (1.0 - chernoff)).abs() < 1e-11,
            "{lower} {upper}"
        );
    }
}
