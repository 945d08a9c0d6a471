//! Rényi group privacy of one step: every bound of RGP for every mechanism of its §4, for Poisson samples and fixed batches, and for records
//! that are added, removed or replaced (`docs/theory/renyi.md`).

use crate::error::{Error, Result, require};
use crate::renyi::batch_law::BatchLaw;
use crate::renyi::divergence::ExactPair;
use crate::renyi::group_bound::{CountLaw, doublings};
use crate::renyi::lower_bound::lower_bound;
use crate::renyi::pairs::exact_pair;
use crate::renyi::replaced_pair::replaced_pair;
use crate::renyi::{MAX_ORDER, require_orders};
use crate::special::log_space::log_sum_exp;
use crate::step::{Adjacency, Direction, Group, Mechanism, Sampling, Step};
use crate::stopping::checkpoint;

/// Largest order at which the tight bound for one record is computed, which takes a second there.
const MAX_SINGLE_ORDER: f64 = 1e6;

/// Which bound on D_α.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBound {
    /// RGP Theorem 3.1 with the components of §4: an upper bound.
    Jensen,
    /// The divergence of the dominating pair, the larger of both directions: an upper bound, and attained where the
    /// pair is tight.
    Exact,
    /// RGP equation 12 (Ξ⁻): a lower bound.
    Lower,
    /// RGP Lemma 2.3 on the bound for one record: an upper bound.
    BlackBox,
}

/// A bound on D_α in nats for each order in (1, 10⁴], of one step on a Poisson sample or a batch of fixed size.
///
/// Upper bounds are rounded up, the lower one down.
///
/// # Errors
/// An argument out of range; an exact divergence of Skellam noise that sums too many masses; as [`StepBound::new`].
///
/// # Example
/// ```
/// use hockeystick::renyi::{GroupBound, group_rdp};
/// use hockeystick::{Adjacency, Mechanism, Step};
/// // RGP Figure 2: for 500 steps a divergence of 1 takes σ = 26.59 by their bound, and 15.24 in truth.
/// let of = |noise_multiplier, bound, adjacency| {
///     let step = Step::poisson(Mechanism::Gaussian { noise_multiplier }, 0.03, 16);
///     group_rdp(&step, &[4.0], bound, adjacency).map(|rdp| 500.0 * rdp[0])
/// };
/// assert!((of(26.59, GroupBound::Jensen, Adjacency::AddRemove)? - 1.0).abs() < 1e-2);
/// assert!((of(15.24, GroupBound::Exact, Adjacency::AddRemove)? - 1.0).abs() < 1e-3);
/// // Replaced records move the sum by two clipping norms.
/// assert!((of(2.0 * 26.59, GroupBound::Jensen, Adjacency::Replace)? - 1.0).abs() < 1e-2);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn group_rdp(step: &Step, orders: &[f64], bound: GroupBound, adjacency: Adjacency) -> Result<Vec<f64>> {
    require_orders(orders)?;
    let mut step = StepBound::new(step, bound, adjacency)?;
    orders.iter().map(|&order| step.worst(order)).collect()
}

/// A bound on the divergences of one step. Values that one order needs are stored and speed up the next order.
#[derive(Debug)]
pub struct StepBound {
    adjacency: Adjacency,
    group_size: u64,
    batch: BatchLaw,
    law: CountLaw,
    bound: GroupBound,
    /// The pair of the group for the exact bound, of one record for the black box; none where the latter is Theorem 3.1.
    pair: Option<Box<dyn ExactPair>>,
}

impl StepBound {
    /// The bound for a step on a Poisson sample, or a fixed or full batch, and 1 to 100,000 records (10,000 in fixed batches or with rates)
    /// of which nothing more is known.
    ///
    /// # Errors
    /// An argument out of range; other sampling; a group with norms or a bound on cosines, or rates in fixed batches; the exact divergence of
    /// replaced records with Skellam noise; the lower bound for added records of which there are so many that a batch is all of the smaller
    /// data set.
    pub fn new(step: &Step, bound: GroupBound, adjacency: Adjacency) -> Result<Self> {
        let batch = BatchLaw::of(step, adjacency)?;
        let pair = match bound {
            GroupBound::Exact => Some(pair_of_group(step, &batch, adjacency)?),
            GroupBound::BlackBox => pair_of_one(step, &batch, adjacency)?,
            GroupBound::Jensen => None,
            GroupBound::Lower => {
                require_attained(step, adjacency)?;
                None
            }
        };
        Ok(Self {
            adjacency,
            group_size: step.group.size,
            law: CountLaw::new(batch.law.clone()),
            batch,
            bound,
            pair,
        })
    }

    /// True if the group is never in a batch: the two output laws are equal.
    pub fn is_idle(&self) -> bool {
        self.batch.law.shifts() == [0.0]
    }

    /// True if the formula is proven for whole orders only: equation 18 of Skellam noise (Agarwal, Kairouz and Liu 2021).
    pub fn needs_whole_orders(&self) -> bool {
        let by_formula = matches!(self.bound, GroupBound::Jensen | GroupBound::BlackBox);
        by_formula && matches!(self.batch.mechanism, Mechanism::Skellam { .. })
    }

    /// RGP Theorem 3.1.
    fn jensen(&self, order: f64) -> f64 {
        let component = |count: usize| self.batch.mechanism.component(order, count as f64);
        self.law.subsampled(order, component)
    }

    /// The bound on D_α in one direction, α in (1, 10⁴], or in both for replaced records (`None`); Theorem 3.1 and equation 12 are about both.
    ///
    /// # Errors
    /// An order that is not whole where [`StepBound::needs_whole_orders`]; an exact divergence of Skellam noise that sums too
    /// many masses.
    pub fn of_order(&mut self, order: f64, direction: Option<Direction>) -> Result<f64> {
        require(
            !self.needs_whole_orders() || order.fract() == 0.0,
            "orders",
            order,
            "whole numbers for Skellam noise with this bound, whose formula is proven for those only (\"exact\" takes any)",
        )?;
        match self.bound {
            GroupBound::Jensen => Ok(self.jensen(order)),
            GroupBound::Lower => Ok(lower_bound(self.batch.of_lower_bound, order, &self.batch.law)),
            GroupBound::Exact => {
                let found = self.pair_in(order, direction)?;
                let is_proven = order.fract() == 0.0 || !matches!(self.batch.mechanism, Mechanism::Skellam { .. });
                // Losses of 10⁵ nats overflow the moments of Laplace noise; Theorem 3.1 is a bound too. It is above the exact value of
                // replaced records, whose errors it limits where they are relatively large.
                Ok(match direction {
                    Some(_) if found < f64::INFINITY => found,
                    _ if is_proven => found.min(self.jensen(order)),
                    _ => found,
                })
            }
            GroupBound::BlackBox => self.black_box(order, direction),
        }
    }

    /// The divergence of the pair in one direction, or the larger of both.
    fn pair_in(&mut self, order: f64, direction: Option<Direction>) -> Result<f64> {
        let Some(pair) = &mut self.pair else {
            return Ok(f64::INFINITY);
        };
        let mut of = |direction| Ok(pair.of_order(order, direction)?.upper);
        match direction {
            Some(direction) => of(direction),
            // Of replaced records all pairs but that of randomised response are their own mirror images.
            None if matches!(self.batch.mechanism, Mechanism::RandomizedResponse { .. }) => {
                Ok(f64::max(of(Direction::Remove)?, of(Direction::Add)?))
            }
            None => of(Direction::Remove),
        }
    }

    /// The largest of the directions that the adjacency asks for.
    ///
    /// # Errors
    /// As [`StepBound::of_order`].
    pub fn worst(&mut self, order: f64) -> Result<f64> {
        checkpoint();
        if matches!(self.bound, GroupBound::Jensen | GroupBound::Lower) {
            return self.of_order(order, None);
        }
        let mut worst = 0.0f64;
        for &direction in self.adjacency.pairs() {
            worst = worst.max(self.of_order(order, direction)?);
        }
        Ok(worst)
    }

    /// RGP Lemma 2.3: 3^c times the bound for one record at the order 2^c·α ≥ 2^{c+1}, 2^c ≥ m.
    ///
    /// Below order 2 the lemma says nothing; the divergence grows with the order, so order 2 serves there. The bound for one
    /// record is the tight form of Zhu and Wang 2019: where the component is attained it is the divergence of the pair, at any
    /// real order; for Skellam noise it is their sum over the components of equation 18. Above the order 10⁶, where
    /// either is too expensive (10⁴ for replaced records), and where no such form is known, it is Theorem 3.1 for one record. Randomised
    /// response keeps its bit private from any group, sampled or not (equation 20): the smaller of both counts.
    fn black_box(&mut self, order: f64, direction: Option<Direction>) -> Result<f64> {
        if self.is_idle() {
            return Ok(0.0);
        }
        let c = doublings(self.group_size);
        let smallest = if c == 0 { order } else { order.max(2.0) };
        let scaled = smallest * f64::from(1u32 << c);
        let mechanism = self.batch.mechanism;
        let largest = if direction.is_none() {
            MAX_ORDER
        } else {
            MAX_SINGLE_ORDER
        };
        let single = match (mechanism, self.batch.rate_of_one) {
            (Mechanism::Skellam { .. }, Some(rate)) if scaled <= largest => {
                whole_order_bound(mechanism, scaled, rate)
            }
            _ if self.pair.is_some() && scaled <= largest => self.pair_in(scaled, direction)?,
            _ => {
                let component = |count: usize| mechanism.component(scaled, count as f64);
                CountLaw::new(self.batch.one.clone()).subsampled(scaled, component)
            }
        };
        let found = f64::powi(3.0, c as i32) * single * (1.0 + 4.0 * f64::EPSILON);
        Ok(match mechanism {
            Mechanism::RandomizedResponse { .. } => found.min(mechanism.component(order, 1.0) * (1.0 + 1e-14)),
            _ => found,
        })
    }
}

/// The dominating pair of the group.
///
/// # Errors
/// As [`StepBound::new`].
fn pair_of_group(step: &Step, batch: &BatchLaw, adjacency: Adjacency) -> Result<Box<dyn ExactPair>> {
    if adjacency != Adjacency::Replace || batch.is_certain() {
        return exact_pair(batch.mechanism, &batch.law);
    }
    match (step.mechanism, step.sampling) {
        // Given the other records, the laws of the output are mixtures of two coins, and E_Q[(dP/dQ)^α] is jointly convex: one of them is
        // that of the records that say nothing.
        (Mechanism::RandomizedResponse { .. }, _) => exact_pair(batch.mechanism, &batch.law),
        (Mechanism::Gaussian { .. } | Mechanism::Laplace { .. }, _) => replaced_pair(step),
        _ => Err(Error::Mismatch(
            "the exact divergence of replaced records is not known for this noise and sampling: use bound \"jensen\"".into(),
        )),
    }
}

/// The dominating pair of one record, where there is one for queries of any dimension.
///
/// # Errors
/// As [`StepBound::new`].
fn pair_of_one(step: &Step, batch: &BatchLaw, adjacency: Adjacency) -> Result<Option<Box<dyn ExactPair>>> {
    let replaced = adjacency == Adjacency::Replace;
    Ok(match batch.mechanism {
        Mechanism::Gaussian { .. } if replaced => {
            let one = Step {
                group: Group::of(1),
                sampling: match step.sampling {
                    Sampling::Poisson { .. } => Sampling::Poisson {
                        sample_rate: batch.one.log_weights().last().map_or(0.0, |w| w.exp().min(1.0)),
                    },
                    other => other,
                },
                mechanism: step.mechanism,
            };
            Some(replaced_pair(&one)?)
        }
        Mechanism::Gaussian { .. } | Mechanism::RandomizedResponse { .. } => {
            Some(exact_pair(batch.mechanism, &batch.one)?)
        }
        Mechanism::Laplace { .. } if batch.rate_of_one.is_some() => Some(exact_pair(batch.mechanism, &batch.one)?),
        Mechanism::Laplace { .. } | Mechanism::Skellam { .. } => None,
    })
}

/// Refuses the lower bound where the pair is not attained.
fn require_attained(step: &Step, adjacency: Adjacency) -> Result<()> {
    match step.sampling {
        Sampling::FixedBatch {
            batch_size,
            dataset_size,
        } if adjacency != Adjacency::Replace && batch_size > dataset_size - step.group.size => {
            Err(Error::Mismatch(format!(
                "the lower bound needs batches of at most the smaller data set, dataset_size - group_size = {}, got batch_size = \
                 {batch_size}",
                dataset_size - step.group.size
            )))
        }
        _ => Ok(()),
    }
}

/// log(Σ_l C(α, l)(1−q)^{α−l} q^l e^{(l−1)τ(l)})/(α − 1) for whole α ≥ 2 (Zhu and Wang 2019, the tight form).
fn whole_order_bound(mechanism: Mechanism, order: f64, sample_rate: f64) -> f64 {
    let law = crate::step::group_law::binomial_log_weights(order as u64, sample_rate);
    let terms: Vec<f64> = law
        .iter()
        .enumerate()
        .map(|(l, log_weight)| {
            let l = l as f64;
            log_weight
                + if l < 2.0 {
                    0.0
                } else {
                    (l - 1.0) * mechanism.component(l, 1.0)
                }
        })
        .collect();
    let size = order * mechanism.component(order, 1.0);
    (log_sum_exp(&terms).max(0.0) + 1e-14 * (1.0 + size)) / (order - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE_2: [(&str, u64, f64, f64, &str, f64); 20] = [
        ("gaussian", 16, 500.0, 34.203125, "baseline", 0.1),
        ("gaussian", 16, 500.0, 26.5859375, "bound", 0.1),
        ("gaussian", 16, 500.0, 15.26983642578125, "exact", 0.1),
        ("gaussian", 64, 500.0, 204.98046875, "baseline", 0.1),
        ("gaussian", 64, 500.0, 74.7265625, "bound", 0.1),
        ("gaussian", 64, 500.0, 60.799102783203125, "exact", 0.1),
        ("laplace", 16, 500.0, 34.03515625, "baseline", 0.1),
        ("laplace", 16, 500.0, 26.1640625, "bound", 0.1),
        ("laplace", 16, 500.0, 14.8849 + 1e-4, "exact", 1e-3),
        ("laplace", 64, 500.0, 73.935546875, "bound", 0.1),
        ("laplace", 64, 500.0, 60.0513 + 1e-4, "exact", 1e-3),
        ("skellam", 16, 500.0, 585.2184600830078, "baseline", 0.1),
        ("skellam", 16, 500.0, 353.2549743652344, "bound", 0.1),
        ("skellam", 16, 500.0, 116.18081665039062, "exact", 0.1),
        ("skellam", 64, 500.0, 2788.3435440063477, "bound", 0.1),
        ("skellam", 64, 500.0, 1846.3228950500488, "exact", 0.1),
        ("response", 16, 1.0, 0.749452880859375, "baseline", 1e-4),
        ("response", 16, 1.0, 0.79924072265625, "bound", 1e-4),
        ("response", 16, 1.0, 0.88702294921875, "exact", 1e-4),
        ("response", 64, 1.0, 0.757842041015625, "bound", 1e-4),
    ];

    /// RGP Figure 2 (reference/published.csv): bisections that stop above the root, by up to the last number; of
    /// p for randomised response, whose noise falls with p, below it.
    #[test]
    fn the_published_noise_of_figure_2_is_reproduced() {
        for (family, group_size, steps, found, bound, tolerance) in FIGURE_2 {
            let bound = match bound {
                "baseline" => GroupBound::BlackBox,
                "bound" => GroupBound::Jensen,
                _ => GroupBound::Exact,
            };
            let total = |parameter: f64| {
                let noise = match family {
                    "gaussian" => Mechanism::Gaussian {
                        noise_multiplier: parameter,
                    },
                    "laplace" => Mechanism::Laplace { scale: parameter },
                    // Their parameter is the rate of each Poisson variable.
                    "skellam" => Mechanism::Skellam {
                        variance: 2.0 * parameter,
                        sensitivity: 1,
                    },
                    _ => Mechanism::RandomizedResponse { keep: parameter },
                };
                steps
                    * group_rdp(
                        &Step::poisson(noise, 0.03, group_size),
                        &[4.0],
                        bound,
                        Adjacency::AddRemove,
                    )
                    .unwrap()[0]
            };
            let beyond = if family == "response" {
                found + tolerance
            } else {
                found - tolerance
            };
            assert!(
                total(found) <= 1.0 + 1e-9 && total(beyond) > 1.0,
                "{family} {group_size} {bound:?} {found}: {} {}",
                total(found),
                total(beyond)
            );
        }
    }

    #[test]
    fn the_black_box_bound_of_a_pure_gaussian_is_loose_but_valid() {
        // q = 1: exact αm²/2σ²; Lemma 2.3 gives 3^c·2^c·α/2σ².
        let noise = Mechanism::Gaussian { noise_multiplier: 3.0 };
        let bound = group_rdp(
            &Step::poisson(noise, 1.0, 8),
            &[2.5],
            GroupBound::BlackBox,
            Adjacency::AddRemove,
        )
        .unwrap()[0];
        assert!((bound / (27.0 * 8.0 * 2.5 / 18.0) - 1.0).abs() < 1e-13);
        assert!(bound > 2.5 * 64.0 / 18.0);
    }

    #[test]
    fn losses_beyond_the_range_of_numbers_are_bounded_by_the_formula() {
        let noise = Mechanism::Laplace { scale: 0.012 };
        let of = |bound| {
            group_rdp(
                &Step::poisson(noise, 0.083, 615),
                &[1.0001],
                bound,
                Adjacency::AddRemove,
            )
            .unwrap()[0]
        };
        let (low, exact, jensen) = (of(GroupBound::Lower), of(GroupBound::Exact), of(GroupBound::Jensen));
        assert!(
            low <= exact && exact <= jensen && jensen.is_finite(),
            "{low} {exact} {jensen}"
        );
    }

    #[test]
    fn the_formula_of_skellam_noise_asks_for_whole_orders() {
        let noise = Mechanism::Skellam {
            variance: 9.0,
            sensitivity: 1,
        };
        for bound in [GroupBound::Jensen, GroupBound::BlackBox] {
            let error = group_rdp(&Step::poisson(noise, 0.1, 3), &[2.5], bound, Adjacency::AddRemove).unwrap_err();
            assert!(error.to_string().contains("orders must be whole"), "{error}");
        }
        for bound in [GroupBound::Exact, GroupBound::Lower] {
            assert!(group_rdp(&Step::poisson(noise, 0.1, 3), &[2.5], bound, Adjacency::AddRemove).is_ok());
        }
    }

    #[test]
    fn steps_of_other_kinds_are_refused() {
        let gaussian = Mechanism::Gaussian { noise_multiplier: 1.0 };
        let mut step = Step::poisson(gaussian, 0.1, 2);
        step.group.cosine = 0.0;
        assert!(group_rdp(&step, &[2.0], GroupBound::Exact, Adjacency::AddRemove).is_err());
        let step = Step {
            sampling: Sampling::FixedBins { batches: 3 },
            ..Step::poisson(gaussian, 0.1, 2)
        };
        assert!(group_rdp(&step, &[2.0], GroupBound::Exact, Adjacency::AddRemove).is_err());
    }

    #[test]
    fn groups_that_are_never_sampled_lose_nothing() {
        for noise in [
            Mechanism::Gaussian { noise_multiplier: 0.0 },
            Mechanism::Laplace { scale: 1.0 },
            Mechanism::Skellam {
                variance: 2.0,
                sensitivity: 1,
            },
            Mechanism::RandomizedResponse { keep: 0.9 },
        ] {
            for bound in [
                GroupBound::Jensen,
                GroupBound::Exact,
                GroupBound::Lower,
                GroupBound::BlackBox,
            ] {
                let found =
                    group_rdp(&Step::poisson(noise, 0.0, 5), &[2.0, 30.0], bound, Adjacency::AddRemove).unwrap();
                assert_eq!(found, [0.0, 0.0], "{noise:?} {bound:?}");
            }
        }
    }

    #[test]
    fn bounds_are_in_order() {
        for noise in [
            Mechanism::Gaussian { noise_multiplier: 5.0 },
            Mechanism::Laplace { scale: 6.0 },
            Mechanism::Skellam {
                variance: 40.0,
                sensitivity: 1,
            },
            Mechanism::RandomizedResponse { keep: 0.8 },
        ] {
            let orders: &[f64] = match noise {
                Mechanism::Skellam { .. } => &[2.0, 3.0, 4.0, 9.0, 30.0],
                _ => &[1.5, 2.0, 4.0, 9.5, 30.0],
            };
            let of =
                |bound| group_rdp(&Step::poisson(noise, 0.05, 6), orders, bound, Adjacency::AddRemove).unwrap();
            let (low, exact) = (of(GroupBound::Lower), of(GroupBound::Exact));
            let (jensen, black_box) = (of(GroupBound::Jensen), of(GroupBound::BlackBox));
            for i in 0..orders.len() {
                let named = format!(
                    "{noise:?} {}: {} {} {} {}",
                    orders[i], low[i], exact[i], jensen[i], black_box[i]
                );
                assert!(
                    low[i] <= exact[i] && exact[i] <= jensen[i] && exact[i] <= black_box[i],
                    "{named}"
                );
            }
        }
    }
}
