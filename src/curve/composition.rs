//! The privacy curve of a run: that of its dominating pairs, or that of a chain of single records where it is smaller.

use crate::curve::accuracy::{Accuracy, PointAccuracy};
use crate::curve::answers::Answers;
use crate::curve::composed_loss::ComposedLoss;
use crate::curve::epsilon_search::StartingPoint;
use crate::curve::group_chain::GroupChain;
use crate::curve::pair_curve::{PairCurve, confirmed};
use crate::curve::routes::Route;
use crate::curve::type_two_error;
use crate::error::{Result, require, require_delta, require_finite_epsilon, require_order, require_probability};
use crate::interval::{Enclosure, Interval};
use crate::step::members::factored;
use crate::step::{Adjacency, Step};

/// Distinct segments at most. Each takes some tenths of a millisecond and some kilobytes, so this many take minutes.
pub(crate) const MAX_SEGMENTS: usize = 1_000_000;

/// Relative width of δ in lines of the trade-off function, at least: their search resolves no more.
const NARROWEST_LINES: f64 = 1e-6;
/// The δ at which the search for the best line ends, over the smaller one of α and 1 − α.
const NEGLIGIBLE: f64 = 0.01;
/// Least min(α, 1 − α) from which that δ is computed.
const SMALLEST_ALPHA: f64 = 1e-12;
/// Range of the ε at which the search for the best line ends.
const LIMITS: (f64, f64) = (1e-3, 1e6);
/// Relative width of that ε.
const ROUGH: f64 = 1e-2;

/// The composition of steps, seen by a group. Work on one question serves the next and answers are remembered, but no answer depends on
/// what was asked before.
///
/// # Example
/// ```
/// use hockeystick::Composition;
/// use hockeystick::{Group, Mechanism, Adjacency, Sampling, Step};
/// let step = Step {
///     mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
///     sampling: Sampling::Poisson { sample_rate: 0.01 },
///     group: Group::of(1),
/// };
/// let mut run = Composition::new(&[(step, 1000)], Adjacency::AddRemove)?;
/// let epsilon = run.epsilon(1e-5, 1e-6)?;
/// assert!(epsilon.lower <= epsilon.upper && epsilon.upper - epsilon.lower < 4e-6);
/// assert_eq!(format!("{:.4}", epsilon.upper), "1.8282");
/// # Ok::<(), hockeystick::Error>(())
/// ```
#[derive(Debug)]
pub struct Composition {
    pairs: PairCurve,
    /// A second bound, where the pair of a group is not tight: every answer is the smaller of the two.
    chain: Option<GroupChain>,
    deltas: Answers<Enclosure>,
    /// With whether there is a margin: [`Composition::epsilon_with_margin`].
    epsilons: Answers<(Interval, bool)>,
}

/// Which of the proven bounds an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The curve of the group's dominating pair.
    Pair,
    /// A chain of data sets that differ in one record each (GROUP Theorem 5), by the curve of one record.
    Chain,
}

/// The segments, with the factors of steps in the place of steps that are compositions themselves.
fn checked(segments: &[(Step, u64)]) -> Result<Vec<(Step, u64)>> {
    let segments = factored(segments)?;
    require(
        segments.len() <= MAX_SEGMENTS,
        "segments",
        segments.len(),
        "at most 1000000 different ones",
    )?;
    Ok(segments)
}

impl Composition {
    /// The composition of each step with its number.
    ///
    /// # Errors
    /// An argument out of range, a combination without a pair in `docs/theory/dominating-pairs.md`, more than 1,000,000 segments.
    pub fn new(segments: &[(Step, u64)], adjacency: Adjacency) -> Result<Self> {
        let segments = &checked(segments)?;
        let pairs = PairCurve::new(segments, adjacency)?;
        Ok(Self::of(pairs, GroupChain::of(segments, adjacency)?))
    }

    /// The composition of very many different steps, as noise schedules make them: their losses are summed from those of a few hundred steps
    /// (`docs/theory/noise-schedules.md`). `None` where the steps belong to no schedule. Where that sum cannot be certified, answers are wide.
    ///
    /// # Errors
    /// As [`Composition::new`].
    pub fn merged(segments: &[(Step, u64)], adjacency: Adjacency) -> Result<Option<Self>> {
        let segments = &checked(segments)?;
        let Some(pairs) = PairCurve::merged(segments, adjacency)? else {
            return Ok(None);
        };
        Ok(Some(Self::of(pairs, GroupChain::of(segments, adjacency)?)))
    }

    /// The larger curve of some ordered pairs.
    pub fn of_directions(losses: Vec<ComposedLoss>) -> Self {
        Self::of(PairCurve::of_losses(losses), None)
    }

    fn of(pairs: PairCurve, chain: Option<GroupChain>) -> Self {
        Self {
            pairs,
            chain,
            deltas: Answers::new(),
            epsilons: Answers::new(),
        }
    }

    /// Certified δ at ε, to a relative width of `tolerance` where that can be had.
    ///
    /// # Errors
    /// ε not finite.
    pub fn delta(&mut self, epsilon: f64, tolerance: f64) -> Result<Enclosure> {
        require_finite_epsilon(epsilon)?;
        if let Some(known) = self.deltas.get(epsilon, tolerance) {
            return Ok(known);
        }
        let found = self.pairs.delta(epsilon, &Accuracy::of_width(tolerance));
        let found = self.with_chain(epsilon, found)?;
        self.deltas.insert(epsilon, tolerance, found);
        Ok(found)
    }

    /// Certified δ at ε by the pairs alone, for callers that ask for many points of one curve, such as conjugates: microseconds a point once
    /// a neighbouring one is known. Answers to each accuracy are kept apart.
    ///
    /// # Errors
    /// ε not finite.
    pub fn delta_nearby(&mut self, epsilon: f64, accuracy: PointAccuracy) -> Result<Enclosure> {
        Ok(self.pairs.delta_and_work(epsilon, accuracy)?.0)
    }

    /// Certified δ at ε where only the side of `log_delta` matters, or a relative width of `tolerance` near it.
    ///
    /// # Errors
    /// ε not finite.
    pub(crate) fn delta_compared_with(
        &mut self,
        log_delta: f64,
        epsilon: f64,
        tolerance: f64,
    ) -> Result<Enclosure> {
        require_finite_epsilon(epsilon)?;
        let accuracy = Accuracy::compared_with(log_delta, tolerance);
        let found = self.pairs.delta(epsilon, &accuracy).certified()?;
        if found.log_upper <= log_delta {
            return Ok(found); // a smaller bound is on the same side
        }
        self.with_chain(epsilon, found)
    }

    /// The smaller of the pair's δ at ε and that of the chain, each end on its own.
    fn with_chain(&mut self, epsilon: f64, pair: Enclosure) -> Result<Enclosure> {
        let pair = pair.certified()?;
        let chain = match &mut self.chain {
            Some(chain) if epsilon >= 0.0 => chain.delta_below(epsilon, pair.log_upper)?,
            _ => None,
        };
        let Some(chain) = chain else {
            return Ok(pair);
        };
        let chain = chain.certified()?;
        Ok(Enclosure::of_logs(
            pair.log_lower.min(chain.log_lower),
            pair.log_upper.min(chain.log_upper),
        ))
    }

    /// An estimate of ε at log δ by the pairs alone, not a bound: good to a fifth of a per cent where losses are nearly Gaussian under the tilt,
    /// and else off by a tenth and more. Where losses are rare it is that of the sum of the δ of single steps, which may be half of it. `None` where
    /// there is none.
    pub(super) fn estimate(&mut self, log_delta: f64) -> Option<StartingPoint> {
        self.pairs.estimate(log_delta)
    }

    /// Which bound gives the upper end of [`Composition::delta`].
    ///
    /// # Errors
    /// ε not finite.
    pub fn bound_of_delta(&mut self, epsilon: f64, tolerance: f64) -> Result<Bound> {
        if self.chain.is_none() {
            require_finite_epsilon(epsilon)?;
            return Ok(Bound::Pair);
        }
        let smallest = self.delta(epsilon, tolerance)?;
        let pair = self.pairs.delta(epsilon, &Accuracy::of_width(tolerance));
        Ok(if smallest.log_upper < pair.log_upper {
            Bound::Chain
        } else {
            Bound::Pair
        })
    }

    /// Which bound gives the upper end of [`Composition::epsilon`].
    ///
    /// # Errors
    /// δ outside (0, 1).
    pub fn bound_of_epsilon(&mut self, delta: f64, tolerance: f64) -> Result<Bound> {
        let smallest = self.epsilon(delta, tolerance)?;
        if self.chain.is_none() {
            return Ok(Bound::Pair);
        }
        let pair = self.pairs.epsilon(delta.ln(), tolerance)?;
        Ok(if smallest.upper < pair.upper {
            Bound::Chain
        } else {
            Bound::Pair
        })
    }

    /// Certified δ at ε by one route alone, so that routes can be compared.
    ///
    /// # Errors
    /// ε not finite, or a route that does not apply.
    pub fn delta_by(&mut self, route: Route, epsilon: f64, tolerance: f64) -> Result<Enclosure> {
        require_finite_epsilon(epsilon)?;
        self.pairs.delta_by(route, epsilon, tolerance)
    }

    /// Certified bounds on ε at δ, to a relative width of `tolerance` where that can be had; the upper one may be infinite. Asked for δ at
    /// the upper one, [`Composition::delta`] with that tolerance answers with an upper bound of at most δ, unless that answer is wider than
    /// the tolerance (`docs/theory/inversion.md`, Proposition 10).
    ///
    /// # Errors
    /// δ outside (0, 1).
    pub fn epsilon(&mut self, delta: f64, tolerance: f64) -> Result<Interval> {
        Ok(self.epsilon_with_margin(delta, tolerance)?.0)
    }

    /// [`Composition::epsilon`], and whether the search left room for what a question for δ at the upper end, or at a larger ε, may know less of it.
    pub(super) fn epsilon_with_margin(&mut self, delta: f64, tolerance: f64) -> Result<(Interval, bool)> {
        require_delta(delta)?;
        let log_delta = delta.ln();
        if let Some(known) = self.epsilons.get(log_delta, tolerance) {
            return Ok(known);
        }
        let pair = self.pairs.epsilon_with_margin(log_delta, tolerance)?;
        let mut found = pair.interval;
        let chain = match &mut self.chain {
            Some(chain) => chain.epsilon_below(log_delta, found.upper, tolerance)?,
            None => None,
        };
        if let Some(chain) = chain {
            found = found.min(chain);
        }
        // A smaller bound by the chain makes δ smaller too.
        let is_open_below = found.lower == 0.0 && found.upper > 0.0;
        let has_margin = pair.has_margin && !is_open_below && found.upper >= pair.interval.upper;
        if !has_margin {
            found = self.confirmed((found, pair.slope), delta, tolerance)?;
        }
        self.epsilons.insert(log_delta, tolerance, (found, has_margin));
        Ok((found, has_margin))
    }

    /// The bounds on ε with an upper one at which [`Composition::delta`] is at most δ.
    fn confirmed(&mut self, (found, slope): (Interval, f64), delta: f64, tolerance: f64) -> Result<Interval> {
        let is_met = |found: Enclosure| found.upper() <= delta;
        if found.lower == 0.0
            && (self.pairs.is_met_by_crude_bounds(tolerance, is_met) || is_met(self.delta(0.0, tolerance)?))
        {
            return Ok(Interval::exact(0.0));
        }
        confirmed((found, slope), delta.ln(), tolerance, is_met, |epsilon| {
            self.delta(epsilon, tolerance)
        })
    }

    /// The smallest ε at which δ is known to be 0: the largest loss of any output, rounded up; infinite where losses are unbounded.
    pub fn largest_loss(&self) -> f64 {
        self.pairs.largest_loss()
    }

    /// Upper bound on the Rényi divergence of order α > 1.
    ///
    /// # Errors
    /// An order that is not above 1 or not finite.
    pub fn renyi(&mut self, order: f64) -> Result<f64> {
        require_order("order", order)?;
        Ok(self.pairs.renyi(order))
    }

    /// Lower bound on the type II error of any test at level α between neighbours: the trade-off function.
    ///
    /// # Errors
    /// α outside [0, 1].
    pub fn beta(&mut self, alpha: f64, tolerance: f64) -> Result<f64> {
        require_probability("alpha", alpha)?;
        if alpha == 1.0 {
            return Ok(0.0);
        }
        self.pairs.forget();
        // No line gains beyond the ε at which δ no longer counts.
        let needed = (NEGLIGIBLE * alpha.min(1.0 - alpha).max(SMALLEST_ALPHA)).ln();
        let limit = LIMITS.0.max(self.pairs.rough_epsilon(needed, ROUGH, LIMITS.1)?);
        let mut failed = Ok(());
        let mut upper = |found: Result<Enclosure>| match found.and_then(Enclosure::certified) {
            Ok(found) => found.upper(),
            Err(error) => {
                failed = Err(error);
                1.0
            }
        };
        let width = tolerance.max(NARROWEST_LINES);
        let pairs = &mut self.pairs;
        let pair =
            type_two_error::lower_bound(alpha, limit, |epsilon| upper(Ok(pairs.delta_of_all(epsilon, width))));
        let chain = self.chain.as_mut().map_or(0.0, |chain| {
            type_two_error::lower_bound(alpha, limit, |epsilon| {
                upper(chain.delta(epsilon).map(|(found, _)| found))
            })
        });
        // Both are lower bounds.
        failed.map(|()| pair.max(chain))
    }
}

#[cfg(test)]
mod tests;
