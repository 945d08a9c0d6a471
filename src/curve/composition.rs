//! The privacy curve of a run: that of its dominating pairs, or that of a chain of single records where it is smaller.

use crate::curve::accuracy::{Accuracy, PointAccuracy};
use crate::curve::answers::Answers;
use crate::curve::composed_loss::ComposedLoss;
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
/// The smaller one of α and 1 − α, at least, for that δ.
const SMALLEST_ALPHA: f64 = 1e-12;
/// Range of the ε at which the search for the best line ends.
const LIMITS: (f64, f64) = (1e-3, 1e6);
/// Relative width of that ε.
const ROUGH: f64 = 1e-2;
/// Splits of ε over the chain that are tried for a point of the trade-off function: each is valid.
const SPLITS_OF_LINES: usize = 2;

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
    epsilons: Answers<Interval>,
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
    /// a neighbouring one is known. `accuracy` must be the same in every question.
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

    /// An estimate of log δ at ε by the pairs alone, where δ is about e^`expected`: good to a tenth where losses are nearly Gaussian under the
    /// tilt, or rare. `None` where there is none.
    pub(super) fn rough_log_delta(&mut self, epsilon: f64, expected: f64) -> Option<f64> {
        self.pairs.rough_log_delta(epsilon, expected)
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
    /// the upper one, [`Composition::delta`] with that tolerance answers with an upper bound of at most δ.
    ///
    /// # Errors
    /// δ outside (0, 1).
    pub fn epsilon(&mut self, delta: f64, tolerance: f64) -> Result<Interval> {
        require_delta(delta)?;
        let log_delta = delta.ln();
        if let Some(known) = self.epsilons.get(log_delta, tolerance) {
            return Ok(known);
        }
        let mut found = self.pairs.epsilon(log_delta, tolerance)?;
        let chain = match &mut self.chain {
            Some(chain) => chain.epsilon_below(log_delta, found.upper, tolerance)?,
            None => None,
        };
        if let Some(chain) = chain {
            found = found.min(chain);
        }
        let found = self.confirmed(found, delta, tolerance)?;
        self.epsilons.insert(log_delta, tolerance, found);
        Ok(found)
    }

    /// The bounds on ε with an upper one at which [`Composition::delta`] is at most δ.
    fn confirmed(&mut self, found: Interval, delta: f64, tolerance: f64) -> Result<Interval> {
        let is_met = |found: Enclosure| found.upper() <= delta;
        if found.lower == 0.0
            && (self.pairs.is_met_by_crude_bounds(tolerance, is_met) || is_met(self.delta(0.0, tolerance)?))
        {
            return Ok(Interval::exact(0.0));
        }
        confirmed(found, delta.ln(), tolerance, is_met, |epsilon| {
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
                upper(chain.delta(epsilon, SPLITS_OF_LINES).map(|(found, _)| found))
            })
        });
        // Both are lower bounds.
        failed.map(|()| pair.max(chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Group, Mechanism, Sampling};

    fn gaussian(sigma: f64, sampling: Sampling, size: u64) -> Step {
        Step {
            mechanism: Mechanism::Gaussian {
                noise_multiplier: sigma,
            },
            sampling,
            group: Group::of(size),
        }
    }

    fn poisson(sample_rate: f64) -> Sampling {
        Sampling::Poisson { sample_rate }
    }

    /// The rows of tests/data/privacy_curves.csv: step, number of steps, direction, ε, δ, error of δ.
    fn references() -> Vec<(Step, u64, Adjacency, f64, f64, f64)> {
        let text = include_str!("../../tests/data/privacy_curves.csv");
        let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
        rows.map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |i: usize| fields[i].parse::<f64>().unwrap();
            let words: Vec<&str> = fields[2].split(' ').collect();
            let mut step = match words[0] {
                "binomial" => gaussian(number(1), poisson(words[2].parse().unwrap()), words[1].parse().unwrap()),
                "hypergeometric" => {
                    let sampling = Sampling::FixedBatch {
                        batch_size: words[2].parse().unwrap(),
                        dataset_size: words[3].parse().unwrap(),
                    };
                    gaussian(number(1), sampling, words[1].parse().unwrap())
                }
                _ => gaussian(number(1), poisson(0.0), 1),
            };
            if words[0] == "rates" {
                let rates: Vec<f64> = words[1].split(';').map(|rate| rate.parse().unwrap()).collect();
                step.group.size = rates.len() as u64;
                step.group.rates = Some(rates);
            }
            let adjacency = if fields[4] == "add" {
                Adjacency::Add
            } else {
                Adjacency::Remove
            };
            let error = 3.0 * 10f64.powf(-number(7));
            (step, number(3) as u64, adjacency, number(5), number(6), error)
        })
        .collect()
    }

    #[test]
    fn every_reference_lies_in_a_narrow_interval() {
        let rows = references();
        assert!(rows.len() > 20);
        for (step, steps, adjacency, epsilon, delta, error) in rows {
            let mut run = Composition::new(&[(step.clone(), steps)], adjacency).unwrap();
            let found = run.delta(epsilon, 1e-6).unwrap();
            let named = format!("{step:?} {steps} {adjacency:?}: {found:?} {delta}");
            assert!(
                found.lower() <= delta * (1.0 + error) && found.upper() >= delta * (1.0 - error),
                "{named}"
            );
            assert!(found.width() <= 1e-6, "{named}");
            let Interval { lower, upper } = run.epsilon(delta, 1e-6).unwrap();
            let slack = error / 0.01; // log δ falls by more than 0.01 per unit of ε in all of them
            assert!(
                lower <= epsilon + slack && upper >= epsilon - slack,
                "{named}: {lower} {upper}"
            );
        }
    }

    #[test]
    fn routes_agree_where_they_overlap() {
        let fixed = Sampling::FixedBatch {
            batch_size: 100,
            dataset_size: 1000,
        };
        let cases = [
            (gaussian(1.0, poisson(0.2), 1), 10, Adjacency::Remove, 4.0),
            (gaussian(1.0, poisson(0.2), 1), 10, Adjacency::Add, 1.5),
            (gaussian(2.0, poisson(0.05), 3), 50, Adjacency::Add, 1.5),
            (gaussian(1.5, poisson(0.05), 1), 40, Adjacency::Replace, 2.0),
            (gaussian(3.0, fixed, 1), 60, Adjacency::Replace, 2.0),
            (gaussian(60.0, fixed, 3), 400, Adjacency::Replace, 1.0),
        ];
        for (step, steps, adjacency, epsilon) in cases {
            let mut run = Composition::new(&[(step.clone(), steps)], adjacency).unwrap();
            let inversion = run
                .delta_by(Route::Inversion, epsilon, 1e-6)
                .unwrap_or_else(|error| panic!("{step:?} {adjacency:?} {error}"));
            let grid = run.delta_by(Route::Grid, epsilon, 1e-4).unwrap();
            let renyi = run.delta_by(Route::Renyi, epsilon, 1e-4).unwrap();
            assert!(
                inversion.log_lower <= grid.log_upper && grid.log_lower <= inversion.log_upper,
                "{step:?} {adjacency:?}: {inversion:?} {grid:?}"
            );
            assert!(
                inversion.width() < 1e-4 && grid.width() < 1e-2,
                "{step:?}: {inversion:?} {grid:?}"
            );
            assert!(renyi.log_upper >= grid.log_lower);
        }
    }

    #[test]
    fn one_step_on_a_grid_is_the_closed_form() {
        let laplace = Step {
            mechanism: Mechanism::Laplace { scale: 2.0 },
            sampling: poisson(0.1),
            group: Group::of(3),
        };
        for step in [gaussian(0.8, poisson(0.1), 3), laplace] {
            for adjacency in [Adjacency::Remove, Adjacency::Add] {
                let mut run = Composition::new(&[(step.clone(), 1)], adjacency).unwrap();
                for epsilon in [0.02, 0.1] {
                    let exact = run.delta_by(Route::OneStep, epsilon, 1e-6).unwrap();
                    let grid = run
                        .delta_by(Route::Grid, epsilon, 1e-4)
                        .unwrap_or_else(|error| panic!("{step:?} {adjacency:?} {epsilon} {exact:?} {error}"));
                    assert!(exact.width() < 1e-9, "{exact:?}");
                    assert!(
                        exact.log_lower <= grid.log_upper && grid.log_lower <= exact.log_upper,
                        "{step:?} {adjacency:?} {epsilon}: {exact:?} {grid:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_noise_reveals_whether_a_member_was_there() {
        let step = gaussian(0.0, poisson(0.01), 1);
        let mut run = Composition::new(&[(step, 10)], Adjacency::AddRemove).unwrap();
        let seen = -(10.0 * (-0.01f64).ln_1p()).exp_m1();
        assert!((run.delta(3.0, 1e-6).unwrap().upper() / seen - 1.0).abs() < 1e-12);
        assert_eq!(run.epsilon(1e-5, 1e-6).unwrap(), Interval::exact(f64::INFINITY));
    }

    #[test]
    fn extreme_corners_end_with_an_ordered_interval() {
        for (sigma, rate, steps, size, delta) in [
            (0.05, 0.5, 1_000, 10_000, 1e-5),
            (1e4, 1e-9, 1_000_000_000, 1, 1e-300),
            (0.3, 1e-6, 1_000_000, 100, 1e-30),
            (1e4, 1.0, 1, 1, 1e-300),
            (0.05, 1e-3, 3, 2, 0.5),
        ] {
            let step = gaussian(sigma, poisson(rate), size);
            let mut run = Composition::new(&[(step, steps)], Adjacency::AddRemove).unwrap();
            let Interval { lower, upper } = run.epsilon(delta, 1e-6).unwrap();
            assert!(
                0.0 <= lower && lower <= upper,
                "{sigma} {rate} {steps} {size}: {lower} {upper}"
            );
        }
    }
}
