//! The privacy curve of a run: the worst of its ordered pairs.

use super::directed::{Directed, Route};
use super::enclosure::Enclosure;
use crate::error::{Result, require};
use crate::pair::scheme::{Neighbours, Scheme};
use crate::special::root::golden_section;
use std::collections::HashMap;

/// Distinct segments at most.
pub const MOST_SEGMENTS: usize = 10_000;

/// The composition of steps, seen by a group. Ratios found for one question serve the next and answers are remembered,
/// but no answer depends on what was asked before.
///
/// # Example
/// ```
/// use hockeystick::hockey_stick::composition::Composition;
/// use hockeystick::pair::scheme::{Group, Mechanism, Neighbours, Sampling, Scheme};
/// let scheme = Scheme {
///     mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
///     sampling: Sampling::Poisson { sample_rate: 0.01 },
///     group: Group::of(1),
/// };
/// let mut run = Composition::new(&[(scheme, 1000)], Neighbours::AddRemove)?;
/// let (lower, upper) = run.epsilon(1e-5, 1e-6)?;
/// assert!(lower <= upper && upper - lower < 4e-6 && format!("{upper:.4}") == "1.8282");
/// # Ok::<(), hockeystick::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Composition {
    directed: Vec<Directed>,
    /// Answers by question and the bits of its numbers.
    deltas: HashMap<(u64, u64), Enclosure>,
    epsilons: HashMap<(u64, u64), (f64, f64)>,
}

impl Composition {
    /// The composition of each scheme with its number of steps.
    ///
    /// # Errors
    /// An argument out of range, a combination that theory §2 does not list, more than 10,000 segments.
    pub fn new(segments: &[(Scheme, u64)], neighbours: Neighbours) -> Result<Self> {
        require(
            segments.len() <= MOST_SEGMENTS,
            "segments",
            segments.len(),
            "at most 10000 different ones",
        )?;
        let mut directed = Vec::new();
        for &direction in neighbours.pairs() {
            let mut steps = Vec::with_capacity(segments.len());
            for (scheme, count) in segments {
                steps.push((scheme.outcome(direction)?, *count));
            }
            let adds = direction == Some(crate::pair::Direction::Add);
            directed.push(Directed::new(steps, adds));
        }
        Ok(Self {
            directed,
            deltas: HashMap::new(),
            epsilons: HashMap::new(),
        })
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
        let all = self.directed.iter_mut().map(|directed| directed.delta(epsilon, tolerance));
        let found = all.fold(Enclosure::ZERO, Enclosure::max);
        remember(&mut self.deltas, question, found);
        Ok(found)
    }

    /// The same by one route.
    ///
    /// # Errors
    /// ε not finite, or a route that does not apply.
    pub fn delta_by(&mut self, route: Route, epsilon: f64, tolerance: f64) -> Result<Enclosure> {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
        let mut worst = Enclosure::ZERO;
        for directed in &mut self.directed {
            worst = worst.max(directed.delta_by(route, epsilon, tolerance)?);
        }
        Ok(worst)
    }

    /// Certified bounds on ε at δ, aiming for a relative width of `tolerance`; the upper one may be infinite.
    ///
    /// # Errors
    /// δ outside (0, 1).
    pub fn epsilon(&mut self, delta: f64, tolerance: f64) -> Result<(f64, f64)> {
        crate::error::require_delta(delta)?;
        Ok(self.epsilon_of_log(delta.ln(), tolerance))
    }

    /// The same at log δ < 0, which may be below the range of an `f64`.
    pub fn epsilon_of_log(&mut self, log_delta: f64, tolerance: f64) -> (f64, f64) {
        let question = (log_delta.to_bits(), tolerance.to_bits());
        if let Some(known) = self.epsilons.get(&question) {
            return *known;
        }
        self.directed.iter_mut().for_each(Directed::forget);
        let (mut lower, mut upper) = (0.0f64, 0.0f64);
        for (i, directed) in self.directed.iter_mut().enumerate() {
            // Another direction counts only if its δ is larger at the ε found so far.
            if i > 0 && directed.delta_near(upper, 1e-3, Some(log_delta)).log_upper <= log_delta {
                continue;
            }
            let (low, high) = directed.epsilon(log_delta, tolerance);
            lower = lower.max(low);
            upper = upper.max(high);
        }
        remember(&mut self.epsilons, question, (lower, upper));
        (lower, upper)
    }

    /// Upper bound on the Rényi divergence of order α > 1.
    ///
    /// # Errors
    /// An order that is not above 1 or not finite.
    pub fn renyi(&mut self, order: f64) -> Result<f64> {
        require(order > 1.0 && order.is_finite(), "order", order, "in (1, inf)")?;
        Ok(self.directed.iter_mut().map(|directed| directed.renyi(order)).fold(0.0, f64::max))
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
        let needed = (0.01 * (1.0 - alpha)).max(1e-290).ln();
        let mut limit = 1e-3f64;
        for directed in &mut self.directed {
            limit = limit.max(directed.epsilon(needed, 1e-2).1.min(1e6));
        }
        let mut delta = |epsilon: f64| {
            let all = self.directed.iter_mut().map(|directed| directed.delta(epsilon, tolerance.max(1e-6)).upper());
            all.fold(0.0, f64::max)
        };
        // Both are concave in e^ε or e^{−ε}: one maximum each.
        let steep_limit = if alpha > 0.0 { limit.min(-alpha.ln()) } else { limit };
        let (_, steep) = golden_section(0.0, steep_limit, 40, |epsilon| delta(epsilon) - 1.0 + epsilon.exp() * alpha);
        let (_, flat) = golden_section(0.0, limit, 40, |epsilon| (-epsilon).exp() * (delta(epsilon) - 1.0 + alpha));
        let at_zero = 1.0 - delta(0.0) - alpha;
        Ok(at_zero.max(-steep).max(-flat).clamp(0.0, 1.0) * (1.0 - 4.0 * f64::EPSILON))
    }
}

/// Remembers an answer; all are forgotten when there are many.
fn remember<T>(answers: &mut HashMap<(u64, u64), T>, question: (u64, u64), answer: T) {
    const MOST_ANSWERS: usize = 100_000;
    if answers.len() >= MOST_ANSWERS {
        answers.clear();
    }
    answers.insert(question, answer);
}
