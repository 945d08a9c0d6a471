//! Guarantees of a whole training run through its Rényi divergences, the order optimised over the reals.

use super::conversion::{delta_of_order, epsilon_of_order};
use super::divergence::StepDivergence;
use super::group_bound::{black_box, checked_law, jensen_gaussian};
use super::{MAX_ORDER, require_orders};
use crate::error::{Error, Result, require_delta, require_epsilon, require_noise_multiplier};
use crate::pair::{Adjacency, Direction, GroupLaw};
use crate::special::root::{golden_section, solve_decreasing};

/// Which bound on the divergences of a group is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The divergence of the dominating pair itself (GROUP Theorem 18).
    Exact,
    /// RGP Theorem 4.1.
    Jensen,
    /// RGP Lemma 2.3 on the exact divergences of one record.
    BlackBox,
}

/// Steps that share one noise multiplier and sample rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// σ ≥ 0.
    pub noise_multiplier: f64,
    /// Poisson rate in [0, 1].
    pub sample_rate: f64,
    /// Number of steps.
    pub steps: u64,
}

/// A guarantee and the order it was found at (NaN where no order was needed).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guarantee {
    /// ε or δ, an upper bound.
    pub value: f64,
    /// The optimal order in the direction that decides.
    pub order: f64,
}

/// Orders are searched in [1 + SMALLEST_EXCESS, MAX_ORDER].
const SMALLEST_EXCESS: f64 = 1e-4;
/// Points of the first pass over the orders, evenly spaced in log(α − 1): a factor 2.4 apart.
const COARSE_ORDERS: usize = 22;
/// Evaluations of the second pass, around the best of the first: the bracket shrinks to 1e-3 of a factor,
/// and ε is flat to second order there.
const FINE_ORDERS: usize = 16;

/// Noise multipliers that are searched.
pub const NOISE_MULTIPLIER_RANGE: (f64, f64) = (1e-3, 1e6);
/// Relative width at which the search for a noise multiplier stops.
const NOISE_MULTIPLIER_TOLERANCE: f64 = 1e-7;

struct Step {
    divergence: StepDivergence,
    law: GroupLaw,
    noise_multiplier: f64,
    steps: f64,
}

/// A run of DP-SGD with Poisson sampling and Gaussian noise, seen by a group.
///
/// Divergences found for one order speed up the next, so one `Run` should answer all questions about it.
pub struct Run {
    segments: Vec<Step>,
    group_size: u64,
    adjacency: Adjacency,
    bound: Bound,
}

impl Run {
    /// The run made of `segments`; segments of 0 steps count for nothing.
    ///
    /// # Errors
    /// `group_size` outside [1, 10000], a `sample_rate` outside [0, 1], a `noise_multiplier` negative or
    /// not finite.
    pub fn new(segments: &[Segment], group_size: u64, adjacency: Adjacency, bound: Bound) -> Result<Self> {
        let mut prepared = Vec::with_capacity(segments.len());
        for segment in segments {
            require_noise_multiplier(segment.noise_multiplier)?;
            let law = checked_law(group_size, segment.sample_rate)?;
            if segment.steps == 0 {
                continue;
            }
            let seen = match bound {
                Bound::Exact | Bound::Jensen => law.clone(),
                Bound::BlackBox => checked_law(1, segment.sample_rate)?,
            };
            prepared.push(Step {
                divergence: StepDivergence::new(seen, segment.noise_multiplier)?,
                law,
                noise_multiplier: segment.noise_multiplier,
                steps: segment.steps as f64,
            });
        }
        crate::pair::law::require_group_size(group_size)?;
        Ok(Self {
            segments: prepared,
            group_size,
            adjacency,
            bound,
        })
    }

    /// Upper bound on the divergence of the whole run in one direction (RGP Lemma 2.1: divergences add).
    fn directed_renyi(&mut self, order: f64, direction: Direction) -> f64 {
        let (group_size, bound) = (self.group_size, self.bound);
        let mut total = 0.0;
        for step in &mut self.segments {
            let one = match bound {
                Bound::Exact => step.divergence.of_order(order, direction).upper,
                Bound::Jensen => jensen_gaussian(order, &step.law, step.noise_multiplier),
                Bound::BlackBox => black_box(order, group_size, &mut step.divergence, direction),
            };
            total += step.steps * one;
        }
        // One rounding a segment for the product, one for the sum.
        total * (1.0 + 2.0 * (self.segments.len() + 1) as f64 * f64::EPSILON)
    }

    /// Upper bound on D_α of the run for each order in (1, 10⁴], the larger of the directions.
    ///
    /// # Errors
    /// An order out of range.
    pub fn renyi(&mut self, orders: &[f64]) -> Result<Vec<f64>> {
        require_orders(orders)?;
        let directions = self.adjacency.directions();
        Ok(orders
            .iter()
            .map(|&order| {
                let all = directions
                    .iter()
                    .map(|&direction| self.directed_renyi(order, direction));
                all.fold(0.0, f64::max)
            })
            .collect())
    }

    /// ε at δ.
    ///
    /// # Errors
    /// δ outside (0, 1).
    ///
    /// # Example
    /// ```
    /// use hockeystick::pair::Adjacency;
    /// use hockeystick::renyi::run::{Bound, Run, Segment};
    /// let segment = Segment { noise_multiplier: 1.0, sample_rate: 0.01, steps: 1000 };
    /// let mut run = Run::new(&[segment], 8, Adjacency::AddRemove, Bound::Exact)?;
    /// assert_eq!(run.epsilon(1e-5)?.value.round(), 23.0);
    /// # Ok::<(), hockeystick::error::Error>(())
    /// ```
    pub fn epsilon(&mut self, delta: f64) -> Result<Guarantee> {
        require_delta(delta)?;
        Ok(self.best(|order, rdp| epsilon_of_order(order, rdp, delta)))
    }

    /// δ at ε.
    ///
    /// # Errors
    /// ε negative or not finite.
    pub fn delta(&mut self, epsilon: f64) -> Result<Guarantee> {
        require_epsilon(epsilon)?;
        if self.is_idle() {
            return Ok(Guarantee {
                value: 0.0,
                order: f64::NAN,
            });
        }
        Ok(self.best(|order, rdp| delta_of_order(order, rdp, epsilon)))
    }

    /// True if the group is never in a batch: the two output laws are equal.
    fn is_idle(&self) -> bool {
        self.segments.iter().all(|step| step.law.shifts() == [0.0])
    }

    /// The smallest `convert(order, divergence)` over real orders, the larger of the directions.
    fn best(&mut self, convert: impl Fn(f64, f64) -> f64) -> Guarantee {
        if self.is_idle() {
            return Guarantee {
                value: 0.0,
                order: f64::NAN,
            };
        }
        // The guarantee is the larger of the directions' minima. Where the other direction is no larger at
        // the optimum of the first, its minimum is not either, and need not be searched for.
        let [first, others @ ..] = self.adjacency.directions() else {
            return Guarantee {
                value: f64::INFINITY,
                order: f64::NAN,
            };
        };
        let mut worst = minimise_over_orders(|order| convert(order, self.directed_renyi(order, *first)));
        for &direction in others {
            if convert(worst.order, self.directed_renyi(worst.order, direction)) > worst.value {
                let found = minimise_over_orders(|order| convert(order, self.directed_renyi(order, direction)));
                if found.value > worst.value {
                    worst = found;
                }
            }
        }
        worst
    }
}

/// A coarse pass over log(α − 1), then golden-section search around its best point.
///
/// Every order gives a valid guarantee, so a missed minimum costs tightness, never truth.
fn minimise_over_orders(mut value: impl FnMut(f64) -> f64) -> Guarantee {
    let (low, high) = (SMALLEST_EXCESS.ln(), (MAX_ORDER - 1.0).ln());
    let spacing = (high - low) / (COARSE_ORDERS - 1) as f64;
    let order_at = |position: f64| (1.0 + position.exp()).min(MAX_ORDER);
    let mut best = (f64::INFINITY, 0);
    for i in 0..COARSE_ORDERS {
        let found = value(order_at(low + spacing * i as f64));
        if found < best.0 {
            best = (found, i);
        }
    }
    let middle = low + spacing * best.1 as f64;
    let (position, fine) = golden_section(
        (middle - spacing).max(low),
        (middle + spacing).min(high),
        FINE_ORDERS,
        |position| value(order_at(position)),
    );
    if fine < best.0 {
        Guarantee {
            value: fine,
            order: order_at(position),
        }
    } else {
        Guarantee {
            value: best.0,
            order: order_at(middle),
        }
    }
}

/// The smallest noise multiplier, rounded up, with which a run satisfies (ε, δ).
///
/// Searched in [`NOISE_MULTIPLIER_RANGE`] to 1e-7 relative; the returned value satisfies the target itself.
/// A run that never samples the group needs no noise: 0.
///
/// # Errors
/// As [`Run::new`] and [`Run::epsilon`]; [`Error::Unreachable`] if even the largest noise multiplier does
/// not reach ε, naming the smallest ε that is.
///
/// # Example
/// ```
/// use hockeystick::pair::Adjacency;
/// use hockeystick::renyi::run::noise_multiplier_for;
/// let sigma = noise_multiplier_for(3.0, 1e-5, 0.01, 1000, 8, Adjacency::AddRemove)?;
/// assert_eq!((100.0 * sigma).round(), 391.0);
/// # Ok::<(), hockeystick::error::Error>(())
/// ```
pub fn noise_multiplier_for(
    epsilon: f64,
    delta: f64,
    sample_rate: f64,
    steps: u64,
    group_size: u64,
    adjacency: Adjacency,
) -> Result<f64> {
    require_epsilon(epsilon)?;
    require_delta(delta)?;
    let epsilon_at = |noise_multiplier: f64| -> Result<f64> {
        let segment = Segment {
            noise_multiplier,
            sample_rate,
            steps,
        };
        Ok(Run::new(&[segment], group_size, adjacency, Bound::Exact)?
            .epsilon(delta)?
            .value)
    };
    let (lowest, highest) = NOISE_MULTIPLIER_RANGE;
    if epsilon_at(0.0)? <= epsilon {
        return Ok(0.0);
    }
    // Powers of 4 away from 1 bracket the answer.
    let (mut low, mut high) = (1.0, 1.0);
    if epsilon_at(1.0)? > epsilon {
        while epsilon_at(high)? > epsilon {
            if high >= highest {
                return Err(Error::Unreachable(format!(
                    "epsilon {epsilon} is not reached by any noise_multiplier up to {highest}; \
                     the smallest epsilon reached at delta {delta} is {}",
                    epsilon_at(highest)?
                )));
            }
            low = high;
            high = (4.0 * high).min(highest);
        }
    } else {
        while epsilon_at(low)? <= epsilon {
            if low <= lowest {
                return Ok(lowest);
            }
            high = low;
            low = (0.25 * low).max(lowest);
        }
    }
    let logarithm = solve_decreasing(low.ln(), high.ln(), NOISE_MULTIPLIER_TOLERANCE, |position| {
        let reached = epsilon_at(position.exp())?;
        let log_ratio = (reached / epsilon).ln();
        // 0/0: a target of 0 that is met.
        Ok(if log_ratio.is_nan() {
            f64::NEG_INFINITY
        } else {
            log_ratio
        })
    })?;
    Ok(logarithm.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(segments: &[(f64, f64, u64)], group_size: u64, bound: Bound) -> Run {
        let segments: Vec<Segment> = segments
            .iter()
            .map(|&(noise_multiplier, sample_rate, steps)| Segment {
                noise_multiplier,
                sample_rate,
                steps,
            })
            .collect();
        Run::new(&segments, group_size, Adjacency::AddRemove, bound).unwrap()
    }

    #[test]
    fn the_gaussian_mechanism_has_its_closed_form_optimum() {
        // q = 1: D_α = αT/2σ² =: αρ; the optimum over a fine grid of orders cannot beat the search by much.
        let epsilon = run(&[(5.0, 1.0, 10)], 1, Bound::Exact).epsilon(1e-6).unwrap();
        let fine = (1..2_000_000)
            .map(|i| 1.0 + f64::from(i) * 1e-4)
            .map(|order| epsilon_of_order(order, order * 0.2, 1e-6))
            .fold(f64::INFINITY, f64::min);
        assert!(epsilon.value >= fine * (1.0 - 1e-12) && epsilon.value <= fine * (1.0 + 1e-6));
    }

    #[test]
    fn the_exact_bound_is_the_smallest_and_jensen_wins_for_large_groups_only() {
        for group_size in [2, 5, 16, 64] {
            let of = |bound| run(&[(4.0, 0.02, 300)], group_size, bound).epsilon(1e-5).unwrap().value;
            let (exact, jensen, black_box) = (of(Bound::Exact), of(Bound::Jensen), of(Bound::BlackBox));
            assert!(
                exact <= jensen && exact <= black_box,
                "{group_size}: {exact} {jensen} {black_box}"
            );
            assert_eq!(
                jensen <= black_box,
                group_size >= 16,
                "{group_size}: {jensen} {black_box}"
            );
        }
    }

    #[test]
    fn splitting_a_history_changes_nothing() {
        let whole = run(&[(1.2, 0.01, 500)], 4, Bound::Exact).epsilon(1e-5).unwrap().value;
        let split = run(&[(1.2, 0.01, 1), (1.2, 0.01, 499), (9.0, 0.5, 0)], 4, Bound::Exact);
        let split = { split }.epsilon(1e-5).unwrap().value;
        assert!((whole / split - 1.0).abs() < 1e-13);
    }

    #[test]
    fn runs_that_reveal_nothing_cost_nothing() {
        for segments in [&[][..], &[(1.0, 0.0, 100)], &[(0.0, 0.5, 0)], &[(0.0, 0.0, 5)]] {
            let mut idle = run(segments, 3, Bound::Exact);
            assert_eq!(idle.epsilon(1e-9).unwrap().value, 0.0);
            assert_eq!(idle.delta(0.0).unwrap().value, 0.0);
        }
        let mut naked = run(&[(0.0, 0.5, 1)], 3, Bound::Exact);
        assert_eq!(naked.epsilon(1e-5).unwrap().value, f64::INFINITY);
        assert_eq!(naked.delta(1.0).unwrap().value, 1.0);
    }

    #[test]
    fn the_noise_multiplier_satisfies_its_own_constraint_and_is_tight() {
        for (epsilon, k) in [(3.0, 1), (3.0, 8), (0.5, 4), (200.0, 16)] {
            let sigma = noise_multiplier_for(epsilon, 1e-5, 0.01, 1000, k, Adjacency::AddRemove).unwrap();
            let of = |sigma| {
                run(&[(sigma, 0.01, 1000)], k, Bound::Exact)
                    .epsilon(1e-5)
                    .unwrap()
                    .value
            };
            assert!(
                of(sigma) <= epsilon && of(sigma * (1.0 - 1e-5)) > epsilon,
                "{epsilon} {k}: {sigma}"
            );
        }
    }

    #[test]
    fn an_unreachable_epsilon_says_what_is_reachable() {
        let error = noise_multiplier_for(1e-7, 1e-5, 0.01, 1000, 1, Adjacency::AddRemove).unwrap_err();
        assert!(error.to_string().contains("smallest epsilon reached"));
        assert_eq!(
            noise_multiplier_for(1.0, 1e-5, 0.0, 10, 1, Adjacency::AddRemove).unwrap(),
            0.0
        );
    }
}
