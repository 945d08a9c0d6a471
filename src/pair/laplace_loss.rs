//! Privacy loss of the one-dimensional Laplace mechanism under Poisson sampling (theory §2).
//!
//! With noise of scale b the ratio of the mixture Σ w_j Lap(j, b) to Lap(0, b) is constant left of 0 and right of
//! k, and A_j + B_j e^{2x/b} on [j, j + 1]: the loss has two atoms and k smooth pieces.
//!
//! A record replaced in a fixed batch takes the outputs on one side of the middle twice: once for each [`Branch`].

use super::{Direction, GroupLaw};
use crate::special::log_space::{LogSum, log_add};

/// The outputs from a whole number on, of one of the two pairs.
#[derive(Debug, Clone, Copy)]
pub struct Branch {
    /// "add" or "remove".
    pub direction: Direction,
    /// The first of its pieces.
    pub first: usize,
}

/// Mixture of Laplace distributions against the one at 0.
#[derive(Debug, Clone)]
pub struct LaplaceLoss {
    scale: f64,
    branches: Vec<Branch>,
    /// (loss, log of its probability under P), ascending.
    atoms: Vec<(f64, f64)>,
    /// log A_j and log B_j for j = 0..k.
    constant: Vec<f64>,
    rising: Vec<f64>,
    /// log r at 0, 1, …, k.
    knots: Vec<f64>,
    /// Densities that moments took so far.
    work: u64,
}

impl LaplaceLoss {
    /// The loss of `law`, whose shifts must be whole numbers from 0 on, at noise of scale b > 0.
    pub fn new(law: &GroupLaw, scale: f64, direction: Direction) -> Self {
        let last = law.shifts().last().copied().unwrap_or(0.0) as usize;
        let mut weights = vec![f64::NEG_INFINITY; last + 1];
        for (log_weight, shift) in law.log_weights().iter().zip(law.shifts()) {
            weights[*shift as usize] = *log_weight;
        }
        Self::of_weights(&weights, scale, direction)
    }

    /// The same for the logs of the weights of 0, 1, …, k.
    fn of_weights(weights: &[f64], scale: f64, direction: Direction) -> Self {
        let last = weights.len() - 1;
        let mut constant = Vec::with_capacity(last + 1);
        let mut running = LogSum::default();
        for (i, weight) in weights.iter().enumerate() {
            running.add(weight + i as f64 / scale);
            constant.push(running.ln());
        }
        let mut rising = vec![f64::NEG_INFINITY; last + 1];
        let mut running = LogSum::default();
        for i in (0..=last).rev() {
            rising[i] = running.ln();
            running.add(weights[i] - i as f64 / scale);
        }
        let lowest = running.ln();
        let mut knots: Vec<f64> = (0..=last)
            .map(|j| log_add(constant[j], rising[j] + 2.0 * j as f64 / scale))
            .collect();
        knots[0] = lowest;
        let first = Branch { direction, first: 0 };
        let mut loss = Self {
            scale,
            branches: vec![first],
            atoms: Vec::new(),
            constant,
            rising,
            knots,
            work: 0,
        };
        loss.atoms = match direction {
            Direction::Remove => vec![loss.lowest(direction), loss.highest(direction)],
            Direction::Add => vec![loss.highest(direction), loss.lowest(direction)],
        };
        loss
    }

    /// One record replaced in a fixed batch of which it is part with probability γ = `seen` in (0, 1), at noise of scale b in
    /// units of half the distance of the two answers (PITFALLS Theorem 14 and §8): the hockey-stick curve is that of
    /// (1−γ)Lap(0) + γLap(2) against Lap(0) for ε ≥ 0 and that of Lap(0) against the mixture for ε < 0.
    ///
    /// As for Gaussian noise (`StepLoss::replace_fixed_batch`) this is the law of the first pair above 0, that of the second
    /// below 0, and the rest of the mass at 0. Both ratios pass through 1 at x = 1. With a = P(Lap(0) > 1) = e^{−1/b}/2,
    /// P(ℓ > 0) = (1−γ)a + γ(1−a) and P(ℓ < 0) = a, which leaves (1−γ)(1 − e^{−1/b}).
    pub fn replaced(seen: f64, scale: f64) -> Self {
        let law = [(-seen).ln_1p(), f64::NEG_INFINITY, seen.ln()];
        let mut loss = Self::of_weights(&law, scale, Direction::Remove);
        // (1 − γ) + γ, which logarithms would round.
        loss.knots[1] = 0.0;
        let both = [Direction::Add, Direction::Remove];
        loss.branches = both.map(|direction| Branch { direction, first: 1 }).to_vec();
        let still = (-seen).ln_1p() + (-(-1.0 / scale).exp_m1()).ln();
        loss.atoms = vec![
            loss.highest(Direction::Add),
            (0.0, still),
            loss.highest(Direction::Remove),
        ];
        loss
    }

    /// What moments cost so far, in terms of densities.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Adds the logarithms and exponentials of `nodes`.
    pub(super) fn add_work(&mut self, nodes: usize) {
        self.work += 10 * nodes as u64;
    }

    /// b.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Which outputs have losses other than those of the atoms.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Number of smooth pieces, [j, j + 1] for j below it.
    pub fn pieces(&self) -> usize {
        self.knots.len() - 1
    }

    /// log r at the whole number j.
    pub fn log_ratio_at(&self, j: usize) -> f64 {
        self.knots[j]
    }

    /// log A and log B of a piece.
    pub(super) fn coefficients(&self, piece: usize) -> (f64, f64) {
        (self.constant[piece], self.rising[piece])
    }

    /// log r and its derivative at x in [j, j + 1].
    pub fn log_ratio(&self, j: usize, x: f64) -> (f64, f64) {
        let rising = self.rising[j] + 2.0 * x / self.scale;
        let log_ratio = log_add(self.constant[j], rising);
        (log_ratio, 2.0 / self.scale * (rising - log_ratio).exp())
    }

    /// Atoms of the loss, ascending: (loss, log of its probability under P).
    pub fn atoms(&self) -> &[(f64, f64)] {
        &self.atoms
    }

    /// The largest loss, and the log of its probability under P.
    pub fn most_loss(&self) -> (f64, f64) {
        self.atoms
            .last()
            .copied()
            .unwrap_or((f64::NEG_INFINITY, f64::NEG_INFINITY))
    }

    /// The outputs below 0.
    fn lowest(&self, direction: Direction) -> (f64, f64) {
        let (level, mass) = (self.knots[0], 0.5f64.ln());
        match direction {
            Direction::Remove => (level, mass + level),
            Direction::Add => (-level, mass),
        }
    }

    /// The outputs above k.
    fn highest(&self, direction: Direction) -> (f64, f64) {
        let last = self.pieces();
        let (level, mass) = (self.knots[last], 0.5f64.ln() - last as f64 / self.scale);
        match direction {
            Direction::Remove => (level, mass + level),
            Direction::Add => (-level, mass),
        }
    }

    /// log of the density of P at x ≥ 0 with log ratio u.
    pub fn log_density(&self, direction: Direction, x: f64, log_ratio: f64) -> f64 {
        let noise = -(2.0 * self.scale).ln() - x / self.scale;
        match direction {
            Direction::Remove => noise + log_ratio,
            Direction::Add => noise,
        }
    }

    /// Where log r crosses `level`, with the piece it is in; `None` outside (log r(0), log r(k)).
    fn crossing(&self, level: f64) -> Option<(usize, f64)> {
        let last = self.pieces();
        if level < self.knots[0] || level >= self.knots[last] {
            return None;
        }
        let j = self.knots.partition_point(|&knot| knot <= level).clamp(1, last) - 1;
        // A + B e^{2x/b} = e^level
        let gap = level + (-(self.constant[j] - level).exp()).ln_1p();
        let x = 0.5 * self.scale * (gap - self.rising[j]);
        let x = if x.is_finite() { x } else { j as f64 };
        Some((j, x.clamp(j as f64, (j + 1) as f64)))
    }

    /// log of the hockey-stick divergence of one step at any real ε: sums of positive terms in closed form.
    pub fn log_one_step(&self, epsilon: f64) -> f64 {
        let mut total = LogSum::default();
        let half = 0.5f64.ln();
        let last = self.pieces();
        let b = self.scale;
        let direction = match self.branches.as_slice() {
            [one] => one.direction,
            // Joined at 0.
            _ if epsilon < 0.0 => Direction::Add,
            _ => Direction::Remove,
        };
        match direction {
            Direction::Remove => {
                let (first, from) = if epsilon < self.knots[0] {
                    // All outputs count: P − e^ε Q is 1 − e^ε.
                    return (-epsilon.exp_m1()).max(0.0).ln();
                } else {
                    match self.crossing(epsilon) {
                        Some(found) => found,
                        None => return f64::NEG_INFINITY,
                    }
                };
                // ∫ e^{−x/b}/2b·(r − e^ε) over [u, v], by r(x) − e^ε = (r(u) − e^ε) + B(e^{2x/b} − e^{2u/b}).
                for j in first..last {
                    let u = if j == first { from } else { j as f64 };
                    let width = ((j + 1) as f64 - u) / b;
                    if width <= 0.0 {
                        continue;
                    }
                    let part = (-(-width).exp_m1()).ln();
                    let (at_start, _) = self.log_ratio(j, u);
                    let above = if j == first { 0.0 } else { at_start - epsilon };
                    total.add(half + epsilon + above.max(0.0).exp_m1().ln() - u / b + part);
                    total.add(half + self.rising[j] + u / b + part + width + part);
                }
                let above = self.knots[last] - epsilon;
                total.add(half + epsilon + log_exp_m1(above) - last as f64 / b);
            }
            Direction::Add => {
                if -epsilon >= self.knots[last] {
                    return (-epsilon.exp_m1()).max(0.0).ln();
                }
                let Some((end, to)) = self.crossing(-epsilon) else {
                    return f64::NEG_INFINITY;
                };
                // ∫ e^{−x/b}/2b·(1 − e^ε r) over [u, v], by the value at v and B(e^{2v/b} − e^{2x/b}).
                for j in 0..=end {
                    let (u, v) = (j as f64, if j == end { to } else { (j + 1) as f64 });
                    let width = (v - u) / b;
                    if width <= 0.0 {
                        continue;
                    }
                    let part = (-(-width).exp_m1()).ln();
                    let (at_end, _) = self.log_ratio(j, v);
                    let below = if j == end { 0.0 } else { epsilon + at_end };
                    total.add(half + (-below.min(0.0).exp_m1()).ln() - u / b + part);
                    total.add(half + epsilon + self.rising[j] + u / b + part + width + log_exp_m1(width));
                }
                let below = epsilon + self.knots[0];
                total.add(half + (-below.min(0.0).exp_m1()).ln());
            }
        }
        total.ln()
    }
}

/// log(e^a − 1) for a ≥ 0.
fn log_exp_m1(a: f64) -> f64 {
    if a > 30.0 { a } else { a.max(0.0).exp_m1().ln() }
}
