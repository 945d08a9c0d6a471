//! Guarantees of a whole training run through its Rényi divergences, the order optimised over the reals.

use crate::error::{Error, Result, require_delta, require_epsilon};
use crate::renyi::best_order::{Guarantee, minimise_over_orders};
use crate::renyi::conversion::Conversion;
use crate::renyi::group_rdp::{GroupBound, StepBound};
use crate::renyi::require_orders;
use crate::step::{Adjacency, Direction, Step};

/// Equal steps of a run.
#[derive(Debug)]
struct Segment {
    bound: StepBound,
    steps: f64,
}

/// A run of steps on Poisson samples and fixed batches.
///
/// Values that one order needs are stored and speed up the next, so that all questions about a run are best put to one `Run`.
#[derive(Debug)]
pub struct Run {
    segments: Vec<Segment>,
    adjacency: Adjacency,
    conversion: Conversion,
}

impl Run {
    /// The run made of `steps`, with how often each occurs; a step that occurs 0 times is checked and left out.
    ///
    /// # Errors
    /// An argument out of range; the lower bound, which is no guarantee; as [`StepBound::new`].
    pub fn new(steps: &[(Step, u64)], adjacency: Adjacency, bound: GroupBound) -> Result<Self> {
        if bound == GroupBound::Lower {
            return Err(Error::out_of_range(
                "bound",
                "lower",
                "\"exact\", \"jensen\" or \"black_box\": a lower bound guarantees nothing",
            ));
        }
        let mut segments = Vec::with_capacity(steps.len());
        for (step, count) in steps {
            let bound = StepBound::new(step, bound, adjacency)?;
            if *count > 0 {
                segments.push(Segment {
                    bound,
                    steps: *count as f64,
                });
            }
        }
        Ok(Self {
            segments,
            adjacency,
            conversion: Conversion::Canonne,
        })
    }

    /// This run with its divergences converted to (ε, δ) by `conversion` in place of RGP Lemma 2.2.
    #[must_use]
    pub fn with_conversion(self, conversion: Conversion) -> Self {
        Self { conversion, ..self }
    }

    /// Upper bound on the divergence of the whole run in one direction (RGP Lemma 2.1: divergences add); of replaced records, whose two orders
    /// may take turns in the steps of a run, in both.
    fn directed_renyi(&mut self, order: f64, direction: Option<Direction>) -> Result<f64> {
        let mut total = 0.0;
        for segment in &mut self.segments {
            total += segment.steps * segment.bound.of_order(order, direction)?;
        }
        // One rounding a segment for the product, one for the sum.
        Ok(total * (1.0 + 2.0 * (self.segments.len() + 1) as f64 * f64::EPSILON))
    }

    /// Upper bound on D_α of the run for each order in (1, 10⁴], the larger of the directions.
    ///
    /// # Errors
    /// An order out of range; an exact divergence of Skellam noise that is too expensive.
    pub fn renyi(&mut self, orders: &[f64]) -> Result<Vec<f64>> {
        require_orders(orders)?;
        let pairs = self.adjacency.pairs();
        let mut worst = |&order: &f64| -> Result<f64> {
            let mut largest = 0.0f64;
            for &direction in pairs {
                largest = largest.max(self.directed_renyi(order, direction)?);
            }
            Ok(largest)
        };
        orders.iter().map(&mut worst).collect()
    }

    /// ε at δ.
    ///
    /// # Errors
    /// δ outside (0, 1); exact divergences of Skellam noise that are too expensive at every order.
    ///
    /// # Example
    /// ```
    /// use hockeystick::renyi::{GroupBound, Run};
    /// use hockeystick::{Adjacency, Mechanism, Step};
    /// let step = Step::poisson(Mechanism::Gaussian { noise_multiplier: 1.0 }, 0.01, 8);
    /// let mut run = Run::new(&[(step, 1000)], Adjacency::AddRemove, GroupBound::Exact)?;
    /// assert_eq!(run.epsilon(1e-5)?.value.round(), 23.0);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn epsilon(&mut self, delta: f64) -> Result<Guarantee> {
        require_delta(delta)?;
        let conversion = self.conversion;
        self.best(|order, rdp| conversion.epsilon(order, rdp, delta))
    }

    /// δ at ε.
    ///
    /// # Errors
    /// ε negative or not finite; exact divergences of Skellam noise that are too expensive at every order.
    pub fn delta(&mut self, epsilon: f64) -> Result<Guarantee> {
        require_epsilon(epsilon)?;
        let conversion = self.conversion;
        self.best(|order, rdp| conversion.delta(order, rdp, epsilon))
    }

    /// True if the group is never in a batch: the two output laws are equal.
    fn is_idle(&self) -> bool {
        self.segments.iter().all(|segment| segment.bound.is_idle())
    }

    /// The smallest `convert(order, divergence)` over real orders, the larger of the directions.
    fn best(&mut self, convert: impl Fn(f64, f64) -> f64) -> Result<Guarantee> {
        if self.is_idle() {
            return Ok(Guarantee {
                value: 0.0,
                order: f64::NAN,
            });
        }
        let whole = self.segments.iter().any(|segment| segment.bound.needs_whole_orders());
        // The guarantee is the larger of the directions' minima. Where the second direction is no larger at the optimum of the first,
        // its minimum is no larger either, and is not searched for.
        let mut worst: Option<Guarantee> = None;
        for &direction in self.adjacency.pairs() {
            if let Some(worst) = worst {
                let here = self.directed_renyi(worst.order, direction)?;
                if convert(worst.order, here) <= worst.value {
                    continue;
                }
            }
            let found = minimise_over_orders(whole, |order| self.directed_renyi(order, direction), &convert)?;
            if worst.is_none_or(|worst| found.value > worst.value) {
                worst = Some(found);
            }
        }
        Ok(worst.unwrap_or(Guarantee {
            value: f64::INFINITY,
            order: f64::NAN,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Mechanism;

    fn run(segments: &[(f64, f64, u64)], group_size: u64, bound: GroupBound) -> Run {
        let step = |&(noise_multiplier, sample_rate, count): &(f64, f64, u64)| {
            (
                Step::poisson(Mechanism::Gaussian { noise_multiplier }, sample_rate, group_size),
                count,
            )
        };
        let steps: Vec<(Step, u64)> = segments.iter().map(step).collect();
        Run::new(&steps, Adjacency::AddRemove, bound).unwrap()
    }

    #[test]
    fn the_gaussian_mechanism_has_its_closed_form_optimum() {
        // q = 1: D_α = αT/2σ² =: αρ; the optimum over a fine grid of orders cannot beat the search by much.
        let epsilon = run(&[(5.0, 1.0, 10)], 1, GroupBound::Exact).epsilon(1e-6).unwrap();
        let fine = (1..2_000_000)
            .map(|i| 1.0 + f64::from(i) * 1e-4)
            .map(|order| Conversion::Canonne.epsilon(order, order * 0.2, 1e-6))
            .fold(f64::INFINITY, f64::min);
        assert!(epsilon.value >= fine * (1.0 - 1e-12) && epsilon.value <= fine * (1.0 + 1e-6));
    }

    #[test]
    fn the_exact_bound_is_the_smallest_and_jensen_wins_for_large_groups_only() {
        for group_size in [2, 5, 16, 64] {
            let of = |bound| run(&[(4.0, 0.02, 300)], group_size, bound).epsilon(1e-5).unwrap().value;
            let (exact, jensen, black_box) =
                (of(GroupBound::Exact), of(GroupBound::Jensen), of(GroupBound::BlackBox));
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
        let whole = run(&[(1.2, 0.01, 500)], 4, GroupBound::Exact)
            .epsilon(1e-5)
            .unwrap()
            .value;
        let split = run(&[(1.2, 0.01, 1), (1.2, 0.01, 499), (9.0, 0.5, 0)], 4, GroupBound::Exact);
        let split = { split }.epsilon(1e-5).unwrap().value;
        assert!((whole / split - 1.0).abs() < 1e-13);
    }

    #[test]
    fn runs_that_reveal_nothing_cost_nothing() {
        for segments in [&[][..], &[(1.0, 0.0, 100)], &[(0.0, 0.5, 0)], &[(0.0, 0.0, 5)]] {
            let mut idle = run(segments, 3, GroupBound::Exact);
            assert_eq!(idle.epsilon(1e-9).unwrap().value, 0.0);
            assert_eq!(idle.delta(0.0).unwrap().value, 0.0);
        }
        let mut naked = run(&[(0.0, 0.5, 1)], 3, GroupBound::Exact);
        assert_eq!(naked.epsilon(1e-5).unwrap().value, f64::INFINITY);
        assert_eq!(naked.delta(1.0).unwrap().value, 1.0);
    }

    #[test]
    fn a_lower_bound_is_refused() {
        let error = Run::new(&[], Adjacency::AddRemove, GroupBound::Lower).unwrap_err();
        assert!(error.to_string().contains("guarantees nothing"));
    }

    #[test]
    fn the_optimal_conversion_gives_less_and_more_than_half() {
        for (bound, q) in [(GroupBound::Exact, 0.02), (GroupBound::Jensen, 0.1)] {
            let one = run(&[(4.0, q, 300)], 8, bound).epsilon(1e-5).unwrap().value;
            let run = run(&[(4.0, q, 300)], 8, bound).with_conversion(Conversion::Optimal);
            let other = { run }.epsilon(1e-5).unwrap().value;
            assert!(other < one && other > 0.5 * one, "{other} {one}");
        }
    }
}
