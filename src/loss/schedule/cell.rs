//! Steps whose noise and rates lie in a short range: nodes for the sum of their losses, and what that is off by.

use crate::approx::Approx;
use crate::loss::StepLoss;
use crate::loss::schedule::axis::{Axis, Ellipse, NODES, Terms};
use crate::loss::schedule::kind::{Kind, Pair};
use crate::special::compensated_sum::CompensatedSum;
use std::f64::consts::PI;

/// Largest b for which |log(1 + w)| ≤ −log(1 − b) is used for |w| ≤ b: with b nearer to 1 the errors would be useless.
const MAX_EXCESS: f64 = 0.95;
/// The arguments of the terms of a ratio differ by less than this times π: its cosine bounds how far they cancel.
const MAX_OPENING: f64 = 0.9;
/// The largest sample rate in an ellipse.
const MAX_RATE: f64 = 0.95;
/// log of the tolerance of the moments that bound errors, for which three digits are enough.
const BOUND_TOLERANCE: f64 = -28.0;

/// A loss whose moments count with a weight, which is off by `rounding` at most.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) weight: f64,
    pub(super) rounding: f64,
    pub(super) loss: StepLoss,
}

/// Steps in a short range of log v and log q.
#[derive(Debug)]
pub(super) struct Cell {
    /// Their number.
    pub(super) steps: f64,
    pub(super) nodes: Vec<Node>,
    /// The factor by which errors of interpolation in log q may grow.
    lebesgue: f64,
    /// Ellipses around the range of log v, and of log q.
    around: [Vec<Surrounding>; 2],
    /// The step with the most noise and the lowest rate, and that with the least noise and the highest rate.
    pub(super) lowest: StepLoss,
    highest: StepLoss,
    /// log of the factor by which the law of the loss of any step exceeds that of the lowest one, at least.
    log_fraction: f64,
}

/// An ellipse around a range, and what bounds K there: |E[r^p] − 1| is at most κ·e^growth·|E[r^p'] − 1| of the step `loss`, where growth is
/// `constant` + |y|·`turn` + p'₊·`rise` + (2 − p')₊·`fall` (`docs/theory/noise-schedules.md`, Propositions 1 and 2).
#[derive(Debug)]
struct Surrounding {
    factor: f64,
    constant: f64,
    turn: f64,
    rise: f64,
    fall: f64,
    loss: StepLoss,
}

/// A bound on the error of interpolating K(c + iy) in one variable, by one ellipse.
#[derive(Debug, Clone, Copy)]
struct Bound {
    factor: f64,
    /// log of all but κ and the turn.
    log_size: f64,
    turn: f64,
}

/// Bounds on the error of the sum of K(c + iy) over the steps of a cell.
#[derive(Debug, Clone)]
pub(super) struct SumError {
    c: f64,
    steps: f64,
    lebesgue: f64,
    bounds: [Option<Vec<Bound>>; 2],
}

impl Cell {
    /// The cell of these kinds; `None` where there are no fewer nodes than kinds, or where it reaches beyond rates of steps.
    pub(super) fn new(pair: Pair, kinds: &[Kind]) -> Option<Self> {
        let noise = axis(kinds.iter().map(Kind::log_v));
        let rates = axis(kinds.iter().map(Kind::log_rate));
        let (low, high) = (noise.ends(), rates.ends());
        let nodes = nodes(pair, kinds, &noise, &rates)?;
        if nodes.len() >= kinds.len() {
            return None;
        }
        let of_noise = |ellipse: &Ellipse| Surrounding::of_noise(pair, ellipse, high.1);
        let of_rates = |ellipse: &Ellipse| Surrounding::of_rates(pair, ellipse, low.1);
        Some(Self {
            steps: kinds.iter().map(|kind| kind.steps).sum(),
            nodes,
            lebesgue: noise.lebesgue(),
            around: [
                noise.ellipses().iter().filter_map(of_noise).collect(),
                rates.ellipses().iter().filter_map(of_rates).collect(),
            ],
            lowest: pair.loss_at(low.0, high.0)?,
            highest: pair.loss_at(low.1, high.1)?,
            log_fraction: log_fraction(pair.records, low, high),
        })
        .filter(|cell| {
            let is_bounded =
                |axis: &Axis, around: &[Surrounding]| matches!(axis, Axis::Exact(_)) || !around.is_empty();
            is_bounded(&noise, &cell.around[0]) && is_bounded(&rates, &cell.around[1])
        })
    }

    /// The errors at Re z = c.
    pub(super) fn errors(&mut self, pair: Pair, c: f64) -> SumError {
        let exponent = pair.exponent(c);
        let of = |around: &mut Vec<Surrounding>| {
            let bounds: Vec<Bound> = around.iter_mut().map(|one| one.bound(c, exponent)).collect();
            (!bounds.is_empty()).then_some(bounds)
        };
        let [noise, rates] = &mut self.around;
        SumError {
            c,
            steps: self.steps,
            lebesgue: self.lebesgue,
            bounds: [of(noise), of(rates)],
        }
    }

    /// log of λ: the tilted law of the loss of each step is at least λ times that of the lowest one.
    pub(super) fn log_fraction(&mut self, c: f64) -> f64 {
        // E[r^p] is 1 at least for the lowest step, and largest for the highest; for −1 < c < 0 the former is the larger one.
        let growth = if c > 0.0 {
            excess(&mut self.highest, c).ln_1p()
        } else {
            0.0
        };
        self.log_fraction - growth - 1e-12
    }
}

impl SumError {
    /// The bound at frequency y; infinite where nothing is known.
    pub(super) fn at(&self, y: f64) -> f64 {
        let c = self.c;
        if c == 0.0 {
            return if y == 0.0 { 0.0 } else { f64::INFINITY };
        }
        let log_kappa = (c.hypot(y) * (c + 1.0).hypot(y) / (c * (c + 1.0)).abs()).ln();
        let of = |bounds: &Option<Vec<Bound>>| {
            let Some(bounds) = bounds else { return 0.0 };
            let at = |bound: &Bound| {
                bound.factor * bound_on_log((log_kappa + bound.log_size + y.abs() * bound.turn).exp())
            };
            bounds.iter().map(at).fold(f64::INFINITY, f64::min)
        };
        self.steps * (of(&self.bounds[0]) + self.lebesgue * of(&self.bounds[1]))
    }
}

impl Surrounding {
    /// Proposition 1: complex v around a range of noise, at the highest rate of the cell.
    fn of_noise(pair: Pair, ellipse: &Ellipse, log_rate: f64) -> Option<Self> {
        let log_farthest = ellipse.log_farthest();
        if !log_farthest.is_finite() {
            return None;
        }
        let (farthest, sine) = (log_farthest.exp(), ellipse.short.sin());
        let distance = farthest * sine * sine;
        let curvature = bend(pair.records);
        let turn = curvature * farthest * sine;
        (turn < MAX_OPENING * PI).then_some(())?;
        Some(Self {
            factor: ellipse.factor,
            constant: (pair.records as f64).powi(2) * distance / 8.0,
            turn,
            rise: 0.0,
            fall: curvature * distance - (0.5 * turn).cos().ln(),
            loss: pair.loss_at(log_farthest, log_rate)?,
        })
    }

    /// Proposition 2: complex q around a range of rates, at the least noise of the cell.
    fn of_rates(pair: Pair, ellipse: &Ellipse, log_v: f64) -> Option<Self> {
        let (records, rate, angle) = (pair.records as f64, ellipse.largest().exp(), ellipse.short);
        if rate >= MAX_RATE || angle >= 0.5 * PI {
            return None;
        }
        // Arguments of q and of 1 − q, and |q| + |1 − q|.
        let other = rate * angle.sin() / (1.0 - rate);
        let log_sum = (rate * (1.0 - angle.cos()) / (1.0 - rate)).ln_1p();
        let opening = records * (angle + other);
        (opening < MAX_OPENING * PI).then_some(())?;
        Some(Self {
            factor: ellipse.factor,
            constant: 0.0,
            turn: records * angle.max(other),
            rise: records * log_sum,
            fall: -(0.5 * opening).cos().ln(),
            loss: pair.loss_at(log_v, ellipse.largest())?,
        })
    }

    fn bound(&mut self, c: f64, exponent: f64) -> Bound {
        let growth = self.constant + exponent.max(0.0) * self.rise + (2.0 - exponent).max(0.0) * self.fall;
        Bound {
            factor: self.factor,
            log_size: growth + excess(&mut self.loss, c).ln() + 1e-9,
            turn: self.turn,
        }
    }
}

/// max k(K − k)/2 over the numbers k of members in a batch.
fn bend(records: u64) -> f64 {
    let half = records / 2;
    0.5 * (half * (records - half)) as f64
}

/// An upper bound on |E[e^{cℓ}] − 1|.
fn excess(loss: &mut StepLoss, c: f64) -> f64 {
    let Approx { value, error } = loss.moments(c, BOUND_TOLERANCE).log_moment;
    let found = (value + error).exp_m1().abs().max((value - error).exp_m1().abs());
    if found.is_nan() { f64::INFINITY } else { found }
}

/// −log(1 − b), infinite for b of at least [`MAX_EXCESS`].
fn bound_on_log(size: f64) -> f64 {
    if size < MAX_EXCESS {
        -(-size).ln_1p()
    } else {
        f64::INFINITY
    }
}

/// The axis of all different ones of these places.
fn axis(places: impl Iterator<Item = f64>) -> Axis {
    let mut places: Vec<f64> = places.collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    Axis::of(&places)
}

/// The nodes of a cell with their weights.
fn nodes(pair: Pair, kinds: &[Kind], noise: &Axis, rates: &Axis) -> Option<Vec<Node>> {
    let mut sums = vec![CompensatedSum::default(); NODES * NODES];
    let mut steps = 0.0;
    for kind in kinds {
        let (first, second) = (noise.functions(kind.log_v()), rates.functions(kind.log_rate()));
        for (k, a) in first.iter().enumerate().filter(|(_, a)| **a != 0.0) {
            for (l, b) in second.iter().enumerate().filter(|(_, b)| **b != 0.0) {
                sums[k * NODES + l].add(kind.steps * a * b);
            }
        }
        steps += kind.steps;
    }
    let sums: Vec<f64> = sums.into_iter().map(CompensatedSum::value).collect();
    // A cardinal function is at most 1.3 in modulus, and a step gives each node the product of two.
    let rounding = 1.3 * (noise.rounding() + rates.rounding()) * (1.0 + 1e-3) + 8.0 * f64::EPSILON;
    let rate_nodes: Vec<(f64, Terms)> = numbered(rates).collect();
    let mut nodes = Vec::new();
    for (log_v, first) in numbered(noise) {
        for (log_rate, second) in &rate_nodes {
            let of_row = |row: &[f64]| row.iter().zip(second).map(|(sum, b)| sum * b).sum::<f64>();
            let weight: f64 = sums
                .chunks_exact(NODES)
                .zip(&first)
                .map(|(row, a)| a * of_row(row))
                .sum();
            let is_exact = rounding <= 8.0 * f64::EPSILON;
            if weight == 0.0 && is_exact {
                continue; // no step has this noise and this rate
            }
            nodes.push(Node {
                weight,
                rounding: rounding * steps,
                loss: pair.loss_at(log_v, *log_rate)?,
            });
        }
    }
    Some(nodes)
}

/// The nodes of an axis, with the factors of their weights.
fn numbered(axis: &Axis) -> impl Iterator<Item = (f64, Terms)> + '_ {
    axis.nodes()
        .into_iter()
        .enumerate()
        .map(|(j, place)| (place, axis.factors(j)))
}

/// log of the factor by which the density of the loss of any step of a cell exceeds that of the lowest one, at least, without the tilt
/// (`docs/theory/noise-schedules.md`, Propositions 4 and 5).
fn log_fraction(records: u64, noise: (f64, f64), rates: (f64, f64)) -> f64 {
    let squares = (records as f64).powi(2);
    let (low, high) = (noise.0.exp(), noise.1.exp());
    let by_noise = -0.5 * (noise.1 - noise.0) - squares * (high - low) / 8.0;
    if rates.1 == rates.0 {
        return by_noise;
    }
    by_noise - steepest_fall(records, (low, high), rates.1.exp()) * (rates.1 - rates.0)
}

/// L of Proposition 5: the density of a loss falls by no more than a power L of the rate, for v in this range and rates up to `rate`.
fn steepest_fall(records: u64, (low, high): (f64, f64), rate: f64) -> f64 {
    let k = records as f64;
    // M₀: mean of k² over that of k under the weights w_k e^{−k²v/2}, at the least v.
    let (mut first, mut second) = (0.0, 0.0);
    // Mean of e^{−(j+1)²v/2} for j of the other members, at the largest v.
    let mut seen = 0.0;
    let mut weight = (1.0 - rate).powi(records.saturating_sub(1).min(1 << 20) as i32);
    for j in 0..records {
        // w_k·k = K q·Bin(K − 1, q)(k − 1)
        let own = (j + 1) as f64;
        let term = weight * (-0.5 * own * own * low).exp();
        first += term;
        second += own * term;
        seen += weight * (-0.5 * own * own * high).exp();
        weight *= (k - 1.0 - j as f64) / own * rate / (1.0 - rate);
    }
    let (mean, slowest) = (second / first, 1.0 / seen);
    let bent = high * mean * mean;
    let peak = if bent > 1.0 {
        (bent - 1.0).exp() / (high * mean)
    } else {
        mean
    };
    let left = slowest * peak.max(mean) + mean;
    let largest = left.max(2.0 * k * slowest).max(k) / (1.0 - rate);
    if largest.is_nan() {
        f64::INFINITY
    } else {
        largest * (1.0 + 1e-9)
    }
}

#[cfg(test)]
mod tests;
