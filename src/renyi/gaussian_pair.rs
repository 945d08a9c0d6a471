//! Exact Rényi divergences of a mixture of Gaussians against one of its components, of any real order above 1.

use crate::error::Result;
use crate::loss::MixturePair;
use crate::loss::moment::LogMoment;
use crate::loss::moment::{Moments, crude_log_moment};
use crate::renyi::divergence::{Divergence, ExactPair};
use crate::step::{Direction, GroupLaw};
use crate::stopping::checkpoint;

/// Noise multiplier below which the output is taken to reveal the shift: shifts of 1 differ by 10⁸ standard deviations.
const MIN_NOISE: f64 = 1e-8;
/// Noise multiplier above which the pair is that of this one, which has larger divergences; they are below 1e-50 already.
const MAX_NOISE: f64 = 1e30;

/// The pair of one step of a group law with Gaussian noise; σ = 0 is allowed.
#[derive(Debug)]
pub enum GaussianPair {
    /// σ of at least 1e-8.
    Noisy(Box<Moments>),
    /// σ = 0, or below 1e-8: the output reveals the shift.
    Revealing {
        /// Law of the shift.
        law: GroupLaw,
        /// σ.
        noise_multiplier: f64,
    },
}

impl GaussianPair {
    /// Divergences of `law` at noise multiplier σ ≥ 0.
    ///
    /// # Errors
    /// `noise_multiplier` negative or not finite.
    pub fn new(law: GroupLaw, noise_multiplier: f64) -> Result<Self> {
        crate::error::require_noise_multiplier(noise_multiplier)?;
        if noise_multiplier < MIN_NOISE {
            return Ok(Self::Revealing { law, noise_multiplier });
        }
        // Divergences fall with the noise: those at the largest noise multiplier are upper bounds.
        let pair = MixturePair::new(&law, noise_multiplier.min(MAX_NOISE))?;
        Ok(Self::Noisy(Box::new(Moments::new(pair))))
    }

    /// D_α(P‖Q) = log E_{N(0, σ²)}[r^p]/(α − 1), with p = α for "remove" and 1 − α for "add".
    ///
    /// The value is within 1e-10 of the divergence in relative terms, for σ in [1e-8, 1e30], and `upper` is above it; outside only `upper`
    /// is meaningful.
    ///
    /// # Example
    /// ```
    /// use hockeystick::{Direction, GroupLaw};
    /// use hockeystick::renyi::GaussianPair;
    /// let mut step = GaussianPair::new(GroupLaw::binomial(1, 0.01)?, 1.0)?;
    /// let found = step.of_order(8.0, Direction::Remove);
    /// assert!((found.value / 0.00089364390760603185 - 1.0).abs() < 1e-12);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn of_order(&mut self, order: f64, direction: Direction) -> Divergence {
        checkpoint();
        match self {
            Self::Noisy(moments) => {
                let LogMoment { value, upper } = moments.log_power_moment(direction.ratio_exponent(order));
                Divergence {
                    value: value / (order - 1.0),
                    upper: upper / (order - 1.0) * (1.0 + f64::EPSILON),
                }
            }
            Self::Revealing { law, noise_multiplier } => {
                let value = revealed(law, *noise_multiplier, order, direction);
                // The logarithm of a probability, or a quotient of a few factors.
                Divergence {
                    value,
                    upper: value * (1.0 + 4.0 * f64::EPSILON),
                }
            }
        }
    }
}

/// Divergence where the noise is so small that the output reveals the shift.
///
/// Without noise, adding has −log w_0 and removing has ∞. For 0 < σ < 1e-8 both directions are bounded by the Gaussian of the largest shift,
/// and adding also by −log w_0; the smaller bound is taken.
fn revealed(law: &GroupLaw, noise_multiplier: f64, order: f64, direction: Direction) -> f64 {
    let shifts = law.shifts();
    if shifts == [0.0] {
        return 0.0;
    }
    let farthest = if noise_multiplier == 0.0 {
        f64::INFINITY
    } else {
        crude_log_moment((shifts[0], shifts[shifts.len() - 1]), noise_multiplier, order) / (order - 1.0)
    };
    match direction {
        Direction::Add => farthest.min(-law.log_probability_of_zero()),
        Direction::Remove => farthest,
    }
}

/// D_α of each order in nats (the kernel `renyi_mixture`).
///
/// # Errors
/// An order outside (1, 10⁴]; σ negative or not finite.
pub fn mixture_divergences(
    law: GroupLaw,
    noise_multiplier: f64,
    orders: &[f64],
    direction: Direction,
) -> Result<Vec<f64>> {
    crate::renyi::require_orders(orders)?;
    let mut step = GaussianPair::new(law, noise_multiplier)?;
    Ok(orders
        .iter()
        .map(|&order| step.of_order(order, direction).value)
        .collect())
}

impl ExactPair for GaussianPair {
    fn of_order(&mut self, order: f64, direction: Direction) -> Result<Divergence> {
        Ok(Self::of_order(self, order, direction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(spec: &str) -> GroupLaw {
        let words: Vec<&str> = spec.split_whitespace().collect();
        match words[0] {
            "binomial" => GroupLaw::binomial(words[1].parse().unwrap(), words[2].parse().unwrap()),
            "hypergeometric" => GroupLaw::hypergeometric(
                words[1].parse().unwrap(),
                words[2].parse().unwrap(),
                words[3].parse().unwrap(),
            ),
            other => panic!("no law {other}"),
        }
        .unwrap()
    }

    #[test]
    fn every_reference_divergence_is_met_to_1e_10_and_bounded() {
        let table = include_str!("../../tests/data/renyi.csv");
        let mut rows = 0;
        for line in table.lines().filter(|l| !l.starts_with('#')).skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let direction = if cells[2] == "add" {
                Direction::Add
            } else {
                Direction::Remove
            };
            let exact: f64 = cells[4].parse().unwrap();
            let mut step = GaussianPair::new(law(cells[1]), cells[0].parse().unwrap()).unwrap();
            let found = step.of_order(cells[3].parse().unwrap(), direction);
            assert!((found.value / exact - 1.0).abs() < 1e-12, "{line}: {found:?}");
            assert!(found.upper >= exact * (1.0 - 1e-15), "{line}: {found:?}");
            rows += 1;
        }
        assert!(rows >= 20);
    }

    #[test]
    fn a_single_gaussian_has_the_textbook_divergence() {
        let mut step = GaussianPair::new(GroupLaw::binomial(3, 1.0).unwrap(), 2.0).unwrap();
        for direction in [Direction::Add, Direction::Remove] {
            assert!((step.of_order(5.0, direction).value - 5.0 * 9.0 / 8.0).abs() < 1e-14);
        }
    }

    #[test]
    fn without_noise_only_adding_is_bounded() {
        let mut step = GaussianPair::new(GroupLaw::binomial(2, 0.5).unwrap(), 0.0).unwrap();
        assert_eq!(step.of_order(3.0, Direction::Remove).value, f64::INFINITY);
        assert!((step.of_order(3.0, Direction::Add).value - 4f64.ln()).abs() < 1e-15);
        let mut idle = GaussianPair::new(GroupLaw::binomial(2, 0.0).unwrap(), 0.0).unwrap();
        assert_eq!(idle.of_order(3.0, Direction::Remove).value, 0.0);
    }
}
