//! The privacy curve of a run: the worst of its ordered pairs.

use crate::curve::directed::{Directed, Route};
use crate::curve::epsilon_search;
use crate::curve::group_chain::GroupChain;
use crate::curve::range_cache::{Neighbourhoods, Wanted};
use crate::error::{Result, require};
use crate::interval::{Aim, Enclosure};
use crate::loss::pairs::{Noiseless, StepOutcome};
use crate::special::log_space::LogSum;
use crate::special::root::golden_section;
use crate::step::members::factored;
use crate::step::{Adjacency, Direction, Step};
use std::collections::HashMap;

/// First step out from an ε that is not confirmed, in units of the tolerance: an ε is found to 0.6 of it.
const FIRST_STEP: f64 = 0.1;
/// Steps out at most: the first seven multiply by 2⁷ at least, by 64⁷ where δ hardly falls; beyond the last nothing would be
/// gained by an ε that large.
const MOST_STEPS_OUT: usize = 24;

/// Distinct segments at most. Each takes some tenths of a millisecond and some kilobytes, so this many take minutes.
pub(crate) const MOST_SEGMENTS: usize = 1_000_000;

/// The composition of steps, seen by a group. Ratios found for one question serve the next and answers are remembered,
/// but no answer depends on what was asked before.
///
/// # Example
/// ```
/// use hockeystick::Composition;
/// use hockeystick::{Group, Mechanism, Adjacency, Sampling, Step};
/// let scheme = Step {
///     mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
///     sampling: Sampling::Poisson { sample_rate: 0.01 },
///     group: Group::of(1),
/// };
/// let mut run = Composition::new(&[(scheme, 1000)], Adjacency::AddRemove)?;
/// let (lower, upper) = run.epsilon(1e-5, 1e-6)?;
/// assert!(lower <= upper && upper - lower < 4e-6 && format!("{upper:.4}") == "1.8282");
/// # Ok::<(), hockeystick::Error>(())
/// ```
#[derive(Debug)]
pub struct Composition {
    directed: Vec<Directed>,
    /// Answers by question and the bits of its numbers.
    deltas: HashMap<(u64, u64), Enclosure>,
    epsilons: HashMap<(u64, u64), (f64, f64)>,
    /// By ordered pair, for [`Composition::delta_nearby`].
    neighbourhoods: Vec<Neighbourhoods>,
    /// A second bound, where the pair of a group is not tight: every answer is the smaller of the two.
    chain: Option<GroupChain>,
}

/// Which of the proven bounds an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The curve of the group's dominating pair.
    Pair,
    /// A chain of data sets that differ in one record each (GROUP Theorem 5), by the curve of one record.
    Chain,
}

/// Kinds of steps and their numbers.
type Steps = Vec<(StepOutcome, u64)>;

/// The steps without noise where it hides next to nothing, if there are any, and log of a bound on the probability that it hides
/// something after all.
fn noiseless(segments: &[(Step, u64)], direction: Option<Direction>) -> Result<Option<(Steps, f64)>> {
    let found: Vec<Option<Noiseless>> = segments
        .iter()
        .map(|(scheme, _)| scheme.noiseless(direction))
        .collect::<Result<_>>()?;
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut steps = Vec::with_capacity(segments.len());
    let mut confusion = LogSum::default();
    for ((scheme, count), noiseless) in segments.iter().zip(found) {
        let outcome = match noiseless {
            Some(Noiseless {
                log_unseen,
                log_confusion,
            }) => {
                confusion.add(log_confusion + (*count as f64).ln());
                StepOutcome::Telling { log_unseen }
            }
            None => scheme.outcome(direction)?,
        };
        steps.push((outcome, *count));
    }
    Ok(Some((steps, confusion.ln() + 1e-9)))
}

impl Composition {
    /// The composition of each scheme with its number of steps.
    ///
    /// # Errors
    /// An argument out of range, a combination without a pair in `docs/theory/dominating-pairs.md`, more than 1,000,000 segments.
    pub fn new(segments: &[(Step, u64)], adjacency: Adjacency) -> Result<Self> {
        let segments = &factored(segments)?;
        require(
            segments.len() <= MOST_SEGMENTS,
            "segments",
            segments.len(),
            "at most 1000000 different ones",
        )?;
        let mut directed = Vec::new();
        for &direction in adjacency.pairs() {
            let mut steps = Vec::with_capacity(segments.len());
            for (scheme, count) in segments {
                steps.push((scheme.outcome(direction)?, *count));
            }
            let adds = direction == Some(Direction::Add);
            let run = Directed::new(steps, adds);
            directed.push(match noiseless(segments, direction)? {
                Some((steps, log_confusion)) => run.with_noiseless(Directed::new(steps, adds), log_confusion),
                None => run,
            });
        }
        let mut run = Self::of_directions(directed);
        run.chain = GroupChain::of(segments, adjacency)?;
        Ok(run)
    }

    /// The worst of some ordered pairs.
    pub fn of_directions(directed: Vec<Directed>) -> Self {
        Self {
            neighbourhoods: directed.iter().map(|_| Neighbourhoods::default()).collect(),
            directed,
            deltas: HashMap::new(),
            epsilons: HashMap::new(),
            chain: None,
        }
    }

    /// Certified δ at ε, aiming for a relative width of `tolerance`.
    ///
    /// # Errors
    /// ε not finite.
    pub fn delta(&mut self, epsilon: f64, tolerance: f64) -> Result<Enclosure> {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
        let question = (epsilon.to_bits(), tolerance.to_bits());
        if let Some(known) = self.deltas.get(&question) {
            return Ok(*known);
        }
        self.directed.iter_mut().for_each(Directed::forget);
        let found = self.worst(epsilon, &Aim::of_width(tolerance));
        let found = self.smallest(epsilon, found)?;
        remember(&mut self.deltas, question, found);
        Ok(found)
    }

    /// Certified δ at ε for callers that ask for many points of one curve, such as conjugates and chains: microseconds a point once a
    /// neighbouring one is known. `wanted` must be the same in every question.
    ///
    /// # Errors
    /// ε not finite.
    pub fn delta_nearby(&mut self, epsilon: f64, wanted: Wanted) -> Result<Enclosure> {
        Ok(self.delta_and_cost(epsilon, wanted)?.0)
    }

    /// [`Composition::delta_nearby`], and the work that it takes in density evaluations if nothing is known yet.
    ///
    /// # Errors
    /// ε not finite.
    pub(crate) fn delta_and_cost(&mut self, epsilon: f64, wanted: Wanted) -> Result<(Enclosure, u64)> {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
        let (mut worst, mut cost) = (Enclosure::ZERO, 0);
        for (directed, nearby) in self.directed.iter_mut().zip(&mut self.neighbourhoods) {
            let (found, work) = nearby.delta(directed, epsilon, wanted);
            worst = worst.max(found);
            cost += work;
        }
        Ok((worst.certified()?, cost))
    }

    /// Bounds on the ε ≥ 0 at which δ(ε)·e^`log_factor`(ε) falls to e^`log_delta`, near `guess` (with its slope), and the work that
    /// they took in density evaluations.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub(crate) fn epsilon_of_multiple(
        &mut self,
        log_factor: impl Fn(f64) -> f64,
        (log_delta, tolerance): (f64, f64),
        guess: (f64, f64),
    ) -> Result<((f64, f64), u64)> {
        self.directed.iter_mut().for_each(Directed::forget);
        let work = |run: &Self| run.directed.iter().map(Directed::work).sum::<u64>();
        let before = work(self);
        let curve = |epsilon: f64, aim: &Aim| {
            let factor = log_factor(epsilon);
            let rounding = 16.0 * f64::EPSILON * (2.0 + factor.abs());
            let hint = aim.hint.map(|log| log - factor);
            let found = self.worst(epsilon, &Aim { hint, ..*aim });
            found.with_logs(found.log_lower + factor - rounding, found.log_upper + factor + rounding)
        };
        let found = epsilon_search::epsilon(curve, log_delta, tolerance, guess, f64::INFINITY)?;
        Ok((found, work(self) - before))
    }

    /// Certified δ at ε where only the side of `log_delta` matters, or a relative width of `tolerance` near it.
    ///
    /// # Errors
    /// ε not finite.
    pub(crate) fn delta_beside(&mut self, epsilon: f64, log_delta: f64, tolerance: f64) -> Result<Enclosure> {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
        self.directed.iter_mut().for_each(Directed::forget);
        let found = self.worst(epsilon, &Aim::beside(log_delta, tolerance)).certified()?;
        if found.log_upper <= log_delta {
            return Ok(found); // a smaller bound is on the same side
        }
        self.smallest(epsilon, found)
    }

    /// The smaller of the pair's δ at ε and that of the chain, each end on its own.
    fn smallest(&mut self, epsilon: f64, pair: Enclosure) -> Result<Enclosure> {
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

    /// Which bound gives the upper end of [`Composition::delta`].
    ///
    /// # Errors
    /// ε not finite.
    pub fn bound_of_delta(&mut self, epsilon: f64, tolerance: f64) -> Result<Bound> {
        if self.chain.is_none() {
            require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
            return Ok(Bound::Pair);
        }
        let smallest = self.delta(epsilon, tolerance)?;
        self.directed.iter_mut().for_each(Directed::forget);
        let pair = self.worst(epsilon, &Aim::of_width(tolerance));
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
        let (_, smallest) = self.epsilon(delta, tolerance)?;
        if self.chain.is_none() {
            return Ok(Bound::Pair);
        }
        let (_, pair) = self.epsilon_of_pair(delta.ln(), tolerance)?;
        Ok(if smallest < pair { Bound::Chain } else { Bound::Pair })
    }

    /// The larger δ of all directions.
    fn worst(&mut self, epsilon: f64, aim: &Aim) -> Enclosure {
        let mut found = Enclosure::ZERO;
        for (i, directed) in self.directed.iter_mut().enumerate() {
            // Another direction counts only where its δ may be larger: often a bound tells.
            if i > 0 && found.log_lower > f64::NEG_INFINITY {
                let other = directed.delta_for(epsilon, &Aim::beside(found.log_lower, aim.width));
                if other.log_upper <= found.log_lower && other.certified().is_ok() {
                    continue;
                }
            }
            found = found.max(directed.delta_for(epsilon, aim));
            directed.shrink();
        }
        found
    }

    /// Certified δ at ε by one route alone, so that routes can be compared.
    ///
    /// # Errors
    /// ε not finite, or a route that does not apply.
    pub fn delta_by(&mut self, route: Route, epsilon: f64, tolerance: f64) -> Result<Enclosure> {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
        self.directed.iter_mut().for_each(Directed::forget);
        let mut worst = Enclosure::ZERO;
        for directed in &mut self.directed {
            worst = worst.max(directed.delta_by(route, epsilon, tolerance)?);
        }
        worst.certified()
    }

    /// Certified bounds on ε at δ, aiming for a relative width of `tolerance`; the upper one may be infinite. Asked for δ at
    /// the upper one, [`Composition::delta`] with that tolerance answers with an upper bound of at most δ.
    ///
    /// # Errors
    /// δ outside (0, 1).
    pub fn epsilon(&mut self, delta: f64, tolerance: f64) -> Result<(f64, f64)> {
        crate::error::require_delta(delta)?;
        self.epsilon_where(delta.ln(), tolerance, |found| found.upper() <= delta)
    }

    /// Bounds on ε at log δ < 0, which may be below the range of an `f64`.
    ///
    /// # Errors
    /// Certified bounds that contradict each other.
    pub fn epsilon_of_log(&mut self, log_delta: f64, tolerance: f64) -> Result<(f64, f64)> {
        self.epsilon_where(log_delta, tolerance, |found| found.log_upper <= log_delta)
    }

    /// Bounds on ε; `is_met` says whether δ at an ε is small enough.
    fn epsilon_where(
        &mut self,
        log_delta: f64,
        tolerance: f64,
        is_met: impl Fn(Enclosure) -> bool,
    ) -> Result<(f64, f64)> {
        let question = (log_delta.to_bits(), tolerance.to_bits());
        if let Some(known) = self.epsilons.get(&question) {
            return Ok(*known);
        }
        let (mut lower, mut upper) = self.epsilon_of_pair(log_delta, tolerance)?;
        let chain = match &mut self.chain {
            Some(chain) => chain.epsilon_below(log_delta, upper, tolerance)?,
            None => None,
        };
        if let Some((low, high)) = chain {
            (lower, upper) = (lower.min(low), upper.min(high));
        }
        let found = self.confirmed((lower, upper), log_delta, tolerance, is_met)?;
        remember(&mut self.epsilons, question, found);
        Ok(found)
    }

    /// The larger ε of all directions, by the pair alone.
    fn epsilon_of_pair(&mut self, log_delta: f64, tolerance: f64) -> Result<(f64, f64)> {
        self.directed.iter_mut().for_each(Directed::forget);
        let (mut lower, mut upper) = (0.0f64, 0.0f64);
        for (i, directed) in self.directed.iter_mut().enumerate() {
            // Another direction counts only if its δ is larger at the ε found so far.
            let aim = Aim::beside(log_delta, tolerance);
            if i > 0 && directed.delta_for(upper, &aim).certified()?.log_upper <= log_delta {
                continue;
            }
            let (low, high) = directed.epsilon(log_delta, tolerance)?;
            lower = lower.max(low);
            upper = upper.max(high);
            directed.shrink();
        }
        Ok((lower, upper))
    }

    /// The bounds on ε with an upper one at which δ, asked for on its own, is small enough.
    ///
    /// A search for ε makes use of what it learned on the way, and of a narrower or wider aim than a question for δ has, so that
    /// two certified upper bounds on δ at one ε may differ. Where that for δ is too large, ε grows until it is not.
    fn confirmed(
        &mut self,
        (lower, upper): (f64, f64),
        log_delta: f64,
        tolerance: f64,
        is_met: impl Fn(Enclosure) -> bool,
    ) -> Result<(f64, f64)> {
        if lower == 0.0 && (self.is_met_by_crude_bounds(tolerance, &is_met) || is_met(self.delta(0.0, tolerance)?))
        {
            return Ok((0.0, 0.0));
        }
        if upper.is_infinite() {
            return Ok((lower, upper));
        }
        let (mut epsilon, mut step) = (upper, FIRST_STEP * tolerance * upper);
        let mut found = self.delta(epsilon, tolerance)?;
        for _ in 0..MOST_STEPS_OUT {
            if is_met(found) {
                return Ok((lower, epsilon));
            }
            let excess = found.log_upper - log_delta;
            epsilon += step;
            found = self.delta(epsilon, tolerance)?;
            // As far again as δ fell too little, if it goes on as it went, but not by less than twice the step nor by far more.
            let missing = found.log_upper - log_delta;
            let ahead = 1.1 * missing / (excess - missing);
            step *= if ahead.is_nan() { 2.0 } else { ahead.clamp(2.0, 64.0) };
        }
        Ok((lower, f64::INFINITY))
    }

    /// The least ε known to need no δ: the largest loss of any output, rounded up; infinite where there is none.
    pub fn most_loss(&self) -> f64 {
        self.directed.iter().map(Directed::most_loss).fold(0.0, f64::max)
    }

    /// True if bounds that δ(0) never exceeds are small enough, so that it need not be asked for.
    fn is_met_by_crude_bounds(&mut self, tolerance: f64, is_met: impl Fn(Enclosure) -> bool) -> bool {
        self.directed.iter_mut().all(|directed| {
            directed.forget();
            let bound = directed.crude_bound_at_zero(tolerance);
            bound.is_some_and(|log_delta| is_met(Enclosure::of_logs(f64::NEG_INFINITY, log_delta)))
        })
    }

    /// Upper bound on the Rényi divergence of order α > 1.
    ///
    /// # Errors
    /// An order that is not above 1 or not finite.
    pub fn renyi(&mut self, order: f64) -> Result<f64> {
        require(order > 1.0 && order.is_finite(), "order", order, "in (1, inf)")?;
        Ok(self
            .directed
            .iter_mut()
            .map(|directed| directed.renyi(order))
            .fold(0.0, f64::max))
    }

    /// Lower bound on the type II error of any test at level α between neighbours: the trade-off function.
    ///
    /// β(α) = sup over ε ≥ 0 of max(1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α)), the conjugate of the curve that holds in
    /// both orders of the pair (SHUFFLE §2; Dong, Roth and Su 2022, Proposition 6). Every ε gives a valid bound.
    ///
    /// # Errors
    /// α outside [0, 1].
    pub fn beta(&mut self, alpha: f64, tolerance: f64) -> Result<f64> {
        require((0.0..=1.0).contains(&alpha), "alpha", alpha, "in [0, 1]")?;
        if alpha == 1.0 {
            return Ok(0.0);
        }
        self.directed.iter_mut().for_each(Directed::forget);
        // Neither branch gains beyond the ε at which δ no longer counts.
        let needed = (0.01 * alpha.min(1.0 - alpha).max(1e-12)).ln();
        let mut limit = 1e-3f64;
        for directed in &mut self.directed {
            limit = limit.max(directed.epsilon(needed, 1e-2)?.1.min(1e6));
        }
        let mut failed = Ok(Enclosure::ZERO);
        let directed = &mut self.directed;
        let pair = error_by_lines(alpha, limit, |epsilon| {
            let all = directed
                .iter_mut()
                .map(|directed| directed.delta(epsilon, tolerance.max(1e-6)));
            let found = all.fold(Enclosure::ZERO, Enclosure::max);
            if found.certified().is_err() {
                failed = found.certified();
            }
            found.upper()
        });
        // Both are lower bounds. Of the chain, few splits will do: each is valid.
        let chain = self.chain.as_mut().map_or(0.0, |chain| {
            error_by_lines(alpha, limit, |epsilon| {
                let found = chain.delta(epsilon, 2).and_then(|(found, _)| found.certified());
                match found {
                    Ok(found) => found.upper(),
                    Err(error) => {
                        failed = Err(error);
                        1.0
                    }
                }
            })
        });
        failed.map(|_| pair.max(chain))
    }
}

/// The largest of the lines max(1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α)), 0 ≤ ε ≤ `limit`, that a search finds.
fn error_by_lines(alpha: f64, limit: f64, mut delta: impl FnMut(f64) -> f64) -> f64 {
    // Both are concave in e^ε or e^{−ε}: one maximum each.
    let steep_limit = if alpha > 0.0 { limit.min(-alpha.ln()) } else { limit };
    let (_, steep) = golden_section(0.0, steep_limit, 40, |epsilon| {
        delta(epsilon) - 1.0 + epsilon.exp() * alpha
    });
    let (_, flat) = golden_section(0.0, limit, 40, |epsilon| {
        (-epsilon).exp() * (delta(epsilon) - 1.0 + alpha)
    });
    let at_zero = 1.0 - delta(0.0) - alpha;
    at_zero.max(-steep).max(-flat).clamp(0.0, 1.0) * (1.0 - 4.0 * f64::EPSILON)
}

/// Remembers an answer; all are forgotten when there are many.
fn remember<T>(answers: &mut HashMap<(u64, u64), T>, question: (u64, u64), answer: T) {
    const MOST_ANSWERS: usize = 100_000;
    if answers.len() >= MOST_ANSWERS {
        answers.clear();
    }
    answers.insert(question, answer);
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

    /// The rows of tests/data/privacy_curves.csv: scheme, steps, direction, ε, δ, error of δ.
    fn references() -> Vec<(Step, u64, Adjacency, f64, f64, f64)> {
        let text = include_str!("../../tests/data/privacy_curves.csv");
        let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
        rows.map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |i: usize| fields[i].parse::<f64>().unwrap();
            let words: Vec<&str> = fields[2].split(' ').collect();
            let mut scheme = match words[0] {
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
                scheme.group.size = rates.len() as u64;
                scheme.group.rates = Some(rates);
            }
            let adjacency = if fields[4] == "add" {
                Adjacency::Add
            } else {
                Adjacency::Remove
            };
            let error = 3.0 * 10f64.powf(-number(7));
            (scheme, number(3) as u64, adjacency, number(5), number(6), error)
        })
        .collect()
    }

    #[test]
    fn every_reference_lies_in_a_narrow_interval() {
        let rows = references();
        assert!(rows.len() > 20);
        for (scheme, steps, adjacency, epsilon, delta, error) in rows {
            let mut run = Composition::new(&[(scheme.clone(), steps)], adjacency).unwrap();
            let found = run.delta(epsilon, 1e-6).unwrap();
            let named = format!("{scheme:?} {steps} {adjacency:?}: {found:?} {delta}");
            assert!(
                found.lower() <= delta * (1.0 + error) && found.upper() >= delta * (1.0 - error),
                "{named}"
            );
            assert!(found.width() <= 1e-6, "{named}");
            let (lower, upper) = run.epsilon(delta, 1e-6).unwrap();
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
        for (scheme, steps, adjacency, epsilon) in cases {
            let mut run = Composition::new(&[(scheme.clone(), steps)], adjacency).unwrap();
            let inversion = run
                .delta_by(Route::Inversion, epsilon, 1e-6)
                .unwrap_or_else(|error| panic!("{scheme:?} {adjacency:?} {error}"));
            let grid = run.delta_by(Route::Grid, epsilon, 1e-4).unwrap();
            let renyi = run.delta_by(Route::Renyi, epsilon, 1e-4).unwrap();
            assert!(
                inversion.log_lower <= grid.log_upper && grid.log_lower <= inversion.log_upper,
                "{scheme:?} {adjacency:?}: {inversion:?} {grid:?}"
            );
            assert!(
                inversion.width() < 1e-4 && grid.width() < 1e-2,
                "{scheme:?}: {inversion:?} {grid:?}"
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
        for scheme in [gaussian(0.8, poisson(0.1), 3), laplace] {
            for adjacency in [Adjacency::Remove, Adjacency::Add] {
                let mut run = Composition::new(&[(scheme.clone(), 1)], adjacency).unwrap();
                for epsilon in [0.02, 0.1] {
                    let exact = run.delta_by(Route::OneStep, epsilon, 1e-6).unwrap();
                    let grid = run
                        .delta_by(Route::Grid, epsilon, 1e-4)
                        .unwrap_or_else(|error| panic!("{scheme:?} {adjacency:?} {epsilon} {exact:?} {error}"));
                    assert!(exact.width() < 1e-9, "{exact:?}");
                    assert!(
                        exact.log_lower <= grid.log_upper && grid.log_lower <= exact.log_upper,
                        "{scheme:?} {adjacency:?} {epsilon}: {exact:?} {grid:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_noise_tells_whether_a_member_was_there() {
        let scheme = gaussian(0.0, poisson(0.01), 1);
        let mut run = Composition::new(&[(scheme, 10)], Adjacency::AddRemove).unwrap();
        let seen = -(10.0 * (-0.01f64).ln_1p()).exp_m1();
        assert!((run.delta(3.0, 1e-6).unwrap().upper() / seen - 1.0).abs() < 1e-12);
        assert_eq!(run.epsilon(1e-5, 1e-6).unwrap(), (f64::INFINITY, f64::INFINITY));
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
            let scheme = gaussian(sigma, poisson(rate), size);
            let mut run = Composition::new(&[(scheme, steps)], Adjacency::AddRemove).unwrap();
            let (lower, upper) = run.epsilon(delta, 1e-6).unwrap();
            assert!(
                0.0 <= lower && lower <= upper,
                "{sigma} {rate} {steps} {size}: {lower} {upper}"
            );
        }
    }
}
