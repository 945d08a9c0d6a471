//! The likelihood ratio W = dP/dQ of one epoch of random allocation, and the parameters of its law.
//!
//! A record is in one of the t batches of the epoch, each with probability 1/t, so that P is the mean of t laws, one for each batch. The
//! ratio of each of them to Q is a log-normal variable Y_i, as the noise is Gaussian: W is the mean of t independent log-normals.

use crate::error::{Error, Result};

/// Largest number of batches in an epoch.
const MOST_BATCHES: u64 = 1 << 40;
/// Smallest v: noise multipliers of at most 1e6.
const SMALLEST_VARIANCE: f64 = 1e-12;
/// Largest v for which moments are computed: a noise multiplier of 1/8, below which the quadrature in `kernel` is no longer affordable.
/// Bounds that hide nothing serve less noise.
pub(crate) const LARGEST_VARIANCE: f64 = 64.0;

/// Batches that are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    /// How many there are.
    pub(crate) count: f64,
    /// v > 0: one divided by the variance of the noise, summed over all releases of the batch.
    pub(crate) variance: f64,
}

/// The law of W = Σ Y_i/t under Q, where log Y_i = N(−v_i/2, v_i).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bins {
    /// t.
    pub(crate) total: f64,
    /// The batches that are released.
    pub(crate) parts: Vec<Part>,
    /// The share of those that are not, for which Y = 1.
    pub(crate) still: f64,
}

impl Bins {
    /// Batches given as numbers of them and their v, which is 0 for batches that are not released.
    ///
    /// # Errors
    /// No batch or too many; more noise than 1e6.
    pub(crate) fn new(batches: &[(u64, f64)]) -> Result<Self> {
        let total = batches.iter().fold(0u64, |sum, (count, _)| sum.saturating_add(*count));
        if !(1..=MOST_BATCHES).contains(&total) {
            return Err(Error::out_of_range("batches", total, "in [1, 2^40]"));
        }
        let total = total as f64;
        let mut parts = Vec::new();
        let mut still = 0.0;
        for &(count, variance) in batches.iter().filter(|(count, _)| *count > 0) {
            let count = count as f64;
            if variance == 0.0 {
                still += count / total;
            } else if variance >= SMALLEST_VARIANCE {
                parts.push(Part { count, variance });
            } else {
                let noise = variance.sqrt().recip();
                return Err(Error::out_of_range(
                    "noise_multiplier",
                    noise,
                    "at most 1e6 where records are dealt out",
                ));
            }
        }
        Ok(Self { total, parts, still })
    }

    /// Σ 1/v over the released batches: turning all Y by e^{iϑ} costs a factor of e^{ϑ²/2} times this.
    pub(crate) fn stiffness(&self) -> f64 {
        self.parts.iter().map(|part| part.count / part.variance).sum()
    }

    /// Σ v/t.
    pub(crate) fn mean_variance(&self) -> f64 {
        self.parts.iter().map(|part| part.count * part.variance).sum::<f64>() / self.total
    }

    /// log of a bound on E[W^−q], q ≥ 0: W is at least the geometric mean of all Y, whose logarithm is N(−V/2, V/t) for the mean V of
    /// all v.
    pub(crate) fn log_negative_moment(&self, q: f64) -> f64 {
        let v = self.mean_variance();
        0.5 * q * v * (1.0 + q / self.total) * (1.0 + 1e-14)
    }

    /// The largest v: E[W^w] ≤ E[Y^w] for the widest Y where w ≥ 1 or w ≤ 0, as powers are convex.
    pub(crate) fn widest(&self) -> f64 {
        self.parts.iter().fold(0.0, |widest, part| part.variance.max(widest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_counted_and_checked() {
        let bins = Bins::new(&[(3, 0.5), (7, 0.0), (2, 0.25)]).unwrap();
        assert_eq!((bins.total, bins.still), (12.0, 7.0 / 12.0));
        assert!((bins.stiffness() - 14.0).abs() < 1e-15 && bins.widest() == 0.5);
        assert!((bins.mean_variance() - 2.0 / 12.0).abs() < 1e-15);
        assert!(Bins::new(&[(0, 1.0)]).is_err() && Bins::new(&[(3, 1e-13)]).is_err());
    }

    /// One batch is its own geometric mean: the bound is attained.
    #[test]
    fn the_bound_on_negative_moments_is_attained_by_one_batch() {
        let bins = Bins::new(&[(1, 0.7)]).unwrap();
        for q in [0.5, 3.0, 40.0] {
            let exact = 0.5 * 0.7 * q * (q + 1.0);
            let bound = bins.log_negative_moment(q);
            assert!(bound >= exact * (1.0 - 1e-15) && bound <= exact * (1.0 + 1e-12));
        }
    }
}
