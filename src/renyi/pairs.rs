//! The exact divergence of the dominating pair of each mechanism under Poisson sampling (`docs/theory/dominating-pairs.md`).

use crate::error::Result;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::power_excess::PowerExcess;
use crate::renyi::divergence::{ConstantPair, Divergence, ExactPair};
use crate::renyi::gaussian_pair::GaussianPair;
use crate::renyi::skellam_pair::SkellamPair;
use crate::special::log_space::{log_add, log1p_exp};
use crate::step::{Direction, GroupLaw, Mechanism};

/// The pair of one step: P with the group's members in the batch as `law` says, Q without.
///
/// | mechanism | pair | tight for |
/// |---|---|---|
/// | Gaussian | GROUP Theorem 18 | any dimension |
/// | Laplace, Skellam | shifts of the noise by the number of members | queries of one dimension |
/// | randomised response | a bit that is set if a member is in the batch | |
///
/// # Errors
/// A parameter outside its range.
pub(super) fn exact_pair(mechanism: Mechanism, law: &GroupLaw) -> Result<Box<dyn ExactPair>> {
    mechanism.check()?;
    if law.shifts() == [0.0] {
        return Ok(Box::new(ConstantPair(0.0)));
    }
    Ok(match mechanism {
        Mechanism::Gaussian { noise_multiplier } => Box::new(GaussianPair::new(law.clone(), noise_multiplier)?),
        Mechanism::Laplace { scale } => Box::new(LaplacePair {
            add: LaplaceLoss::new(law, scale, Direction::Add),
            remove: LaplaceLoss::new(law, scale, Direction::Remove),
        }),
        Mechanism::Skellam { variance, sensitivity } => Box::new(SkellamPair::new(law, variance, sensitivity)),
        Mechanism::RandomizedResponse { keep } => Box::new(ResponsePair {
            log_missed: law.log_probability_of_zero(),
            keep,
        }),
    })
}

/// Laplace noise.
#[derive(Debug)]
struct LaplacePair {
    add: LaplaceLoss,
    remove: LaplaceLoss,
}

impl ExactPair for LaplacePair {
    fn of_order(&mut self, order: f64, direction: Direction) -> Result<Divergence> {
        let loss = match direction {
            Direction::Add => &mut self.add,
            Direction::Remove => &mut self.remove,
        };
        let excess = loss.log_power_excess(direction.ratio_exponent(order));
        let upper = excess.upper() + f64::EPSILON * excess.value.abs();
        Ok(Divergence {
            value: log1p_exp(excess.value) / (order - 1.0),
            upper: log1p_exp(upper) / (order - 1.0) * (1.0 + 8.0 * f64::EPSILON),
        })
    }
}

/// Randomised response: Q answers 1 with probability 1 − p, P with 1 − p + s(2p − 1).
#[derive(Debug)]
struct ResponsePair {
    /// log(1 − s), s being the probability that a member of the group is in the batch.
    log_missed: f64,
    /// p.
    keep: f64,
}

/// Relative error of the divergence of randomised response, a formula of a dozen roundings.
const RESPONSE_ERROR: f64 = 1e-12;

impl ExactPair for ResponsePair {
    fn of_order(&mut self, order: f64, direction: Direction) -> Result<Divergence> {
        let exponent = direction.ratio_exponent(order);
        let seen = -self.log_missed.exp_m1();
        let offset = seen * (2.0 * self.keep - 1.0);
        let yes = (-self.keep).ln_1p() + PowerExcess::at((offset / (1.0 - self.keep)).ln_1p(), exponent).log_value;
        // The ratio of the other answer, 1 − s(2p − 1)/p = 1 − s + s(1 − p)/p: the difference would lose the digits of a small one.
        let fall = offset / self.keep;
        let log_ratio = if fall < 0.5 {
            (-fall).ln_1p()
        } else {
            (self.log_missed.exp() + seen * (1.0 - self.keep) / self.keep).ln()
        };
        let no = self.keep.ln() + PowerExcess::at(log_ratio, exponent).log_value;
        let value = log1p_exp(log_add(yes, no)) / (order - 1.0);
        Ok(Divergence {
            value,
            upper: value * (1.0 + RESPONSE_ERROR),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn always_sampled_pairs_have_their_components() {
        let law = GroupLaw::binomial(3, 1.0).unwrap();
        for noise in [
            Mechanism::Gaussian { noise_multiplier: 2.0 },
            Mechanism::Laplace { scale: 1.7 },
            Mechanism::RandomizedResponse { keep: 0.7 },
        ] {
            let mut pair = exact_pair(noise, &law).unwrap();
            for order in [1.2, 2.0, 5.5, 40.0] {
                let expected = noise.component(order, 3.0);
                for direction in [Direction::Add, Direction::Remove] {
                    let found = pair.of_order(order, direction).unwrap();
                    assert!(
                        (found.value / expected - 1.0).abs() < 1e-11 && found.upper >= found.value,
                        "{noise:?} {order} {direction:?}: {found:?} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn orders_next_to_1_have_hardly_less_than_those_above() {
        for noise in [
            Mechanism::Gaussian { noise_multiplier: 2.0 },
            Mechanism::Laplace { scale: 1.7 },
            Mechanism::Skellam {
                variance: 30.0,
                sensitivity: 2,
            },
            Mechanism::RandomizedResponse { keep: 0.7 },
        ] {
            for (size, rate) in [(1, 1e-3), (3, 0.1), (2, 1.0)] {
                let mut pair = exact_pair(noise, &GroupLaw::binomial(size, rate).unwrap()).unwrap();
                for direction in [Direction::Add, Direction::Remove] {
                    let above = pair.of_order(1.0 + 1e-5, direction).unwrap();
                    for beyond in [f64::EPSILON, 1e-14, 1e-11, 1e-8] {
                        let found = pair.of_order(1.0 + beyond, direction).unwrap();
                        assert!(
                            found.upper <= above.upper && above.value * (1.0 - 1e-4) <= found.upper,
                            "{noise:?} {size} {rate} {beyond}: {found:?} {above:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_component_of_skellam_bounds_its_divergence() {
        for (variance, sensitivity) in [(2.0, 1), (30.0, 1), (5.0, 3)] {
            let noise = Mechanism::Skellam { variance, sensitivity };
            for records in [1, 4] {
                let law = GroupLaw::binomial(records, 1.0).unwrap();
                let mut pair = exact_pair(noise, &law).unwrap();
                for order in [2.0, 4.0, 16.0] {
                    let found = pair.of_order(order, Direction::Remove).unwrap();
                    let bound = noise.component(order, records as f64);
                    assert!(found.upper <= bound, "{noise:?} {records} {order}: {found:?} {bound}");
                    assert!(found.value > 0.1 * bound);
                }
            }
        }
    }

    #[test]
    fn the_pairs_close_the_gap_of_figure_2() {
        // RGP Figure 2 at m = 16, q = 0.03, α = 4, τ = 1: T = 500, or 1 for randomised response.
        let law = GroupLaw::binomial(16, 0.03).unwrap();
        for (noise, steps) in [
            (
                Mechanism::Gaussian {
                    noise_multiplier: 15.24,
                },
                500.0,
            ),
            (Mechanism::Laplace { scale: 14.885 }, 500.0),
            (
                Mechanism::Skellam {
                    variance: 232.26,
                    sensitivity: 1,
                },
                500.0,
            ),
            (Mechanism::RandomizedResponse { keep: 0.8870 }, 1.0),
        ] {
            let mut pair = exact_pair(noise, &law).unwrap();
            let of = |pair: &mut dyn ExactPair, direction| pair.of_order(4.0, direction).unwrap().value;
            let tau = steps * of(&mut *pair, Direction::Add).max(of(&mut *pair, Direction::Remove));
            assert!((tau - 1.0).abs() < 2e-3, "{noise:?}: {tau}");
        }
    }

    /// Integrals and sums of P^α Q^{1−α} by mpmath at 40 digits, for (m, q) members, Laplace noise of scale b or randomised response
    /// that keeps the bit with probability p: `mpmath.quad` between the kinks, the whole numbers from 0 to m.
    #[test]
    fn divergences_are_those_at_high_precision() {
        for (mechanism, size, rate, order, add, remove) in [
            (
                Mechanism::Laplace { scale: 1.5 },
                2,
                0.125,
                3.0,
                0.030_632_159_339_529_38,
                0.035_157_366_404_628_26,
            ),
            (
                Mechanism::Laplace { scale: 4.0 },
                3,
                0.25,
                1.5,
                0.022_529_568_846_543_814,
                0.022_945_668_416_399_913,
            ),
            (
                Mechanism::RandomizedResponse { keep: 0.75 },
                4,
                0.125,
                3.0,
                0.204_457_304_675_639_33,
                0.296_929_657_597_954,
            ),
            (
                Mechanism::RandomizedResponse {
                    keep: 0.999_999_992_812_844_6,
                },
                30,
                0.5,
                8.0,
                18.629_123_132_080_41,
                18.750_970_363_374_492,
            ),
            (
                Mechanism::RandomizedResponse { keep: 0.625 },
                1,
                1.0 / 1024.0,
                1.0625,
                1.350_796_953_031_746_3e-7,
                1.350_928_727_260_251_5e-7,
            ),
        ] {
            let law = GroupLaw::binomial(size, rate).unwrap();
            let mut pair = exact_pair(mechanism, &law).unwrap();
            for (direction, exact) in [(Direction::Add, add), (Direction::Remove, remove)] {
                let found = pair.of_order(order, direction).unwrap();
                assert!(
                    (found.value / exact - 1.0).abs() < 1e-11,
                    "{mechanism:?} {direction:?} {found:?} {exact}"
                );
                assert!(found.upper >= exact * (1.0 - 1e-15) && found.lower() <= exact * (1.0 + 1e-15));
            }
        }
    }
}
