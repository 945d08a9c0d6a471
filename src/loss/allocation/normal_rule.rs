//! The trapezoid rule over the normal variable of one batch's likelihood ratio, for the transform of that ratio ([`super::transform`]).
//!
//! L(ς) = E[e^{−ςY}] is a sum over the standard normal g in log Y = √v·g − v/2, on a line g − iβ. The saddle point of its integrand is
//! at g = −√v·q, log q + vq = log ς − v/2; with β = √v·Im q the terms have nearly one phase, and with q their curvature is 1 + v·Re q.
//!
//! * **Spacing.** The integrand is entire, and its modulus on the lines Im g = −b, b = β ± a, has the integral e^{b²/2}·E[e^{−xY}],
//!   x = |ς|·cos(θ − √vb), if the cosine is positive. So the error is at most the sum of both times e^{−2πa/h}/(1 − e^{−2πa/h}). For every q > 0,
//!   with Y₀ = q/x, Y ≥ Y₀(1 + log(Y/Y₀)) gives e^{−xY} ≤ e^{−q}(Y/Y₀)^{−q}, whose expectation is e^{−q}·(q/x)^q·e^{q(q+1)v/2}.
//! * **Ends.** The logarithms of the moduli of the terms are concave: what is left out is below a geometric series with the ratio of
//!   the two outermost terms.
//! * **Lattice.** The spacing h is such that log |ςY| is a multiple of one step at all points and nodes, up to a constant. What depends on
//!   |ςY| alone, which is all that costs much, then serves several points.

use crate::loss::allocation::places::Places;
use crate::special::root::first_where;
use realfft::num_complex::{Complex64, ComplexFloat};
use std::f64::consts::{FRAC_PI_2, TAU};
use std::ops::{Add, Div, Mul};

/// Distances a of the lines that bound the error of the rule, over the width of the terms: the one with the widest spacing is taken.
const LINES: [f64; 15] = [
    8.0, 6.5, 5.2, 4.2, 3.4, 2.7, 2.1, 1.7, 1.3, 1.0, 0.75, 0.5, 0.35, 0.25, 0.16,
];
/// The largest phase of ςY on these lines.
const WIDEST_PHASE: f64 = 1.5;
/// By how much β may exceed that of the saddle point, in widths of the terms: it costs digits.
const MOST_TURNED: f64 = 1.3;
/// −log of the relative error that the spacing may leave.
const LEVEL: f64 = 38.5;
/// Widths of terms to which sums reach.
const REACH: f64 = 9.2;
/// Terms whose logarithm is so far below the largest are left out, and counted as errors.
const NEGLIGIBLE: f64 = 42.0;
/// Steps of Newton's method: what it finds serves as a choice.
const ROUNDS: usize = 6;
/// A step of it that is the last.
const CLOSE: f64 = 1e-3;
/// Steps between two points up to which what is found at a place is kept: with more, points share few places, and those in between
/// take memory.
const MOST_KEPT: i64 = 8;

/// The points at which a transform is computed: log |ς| = (i − `origin`)·η + `residue` for whole i, where η divides v or is divided by it
/// exactly, and `unit` is η but for a rounding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Points {
    unit: f64,
    origin: i64,
    residue: f64,
}

impl Points {
    /// log |ς| = i·`unit` − `log_total`, but for [`Points::common_error`].
    pub(crate) fn new(unit: f64, log_total: f64) -> Self {
        let origin = (log_total / unit).round();
        Self {
            unit,
            origin: origin as i64,
            residue: origin * unit - log_total,
        }
    }

    /// A bound on the error of log |ς| that all points have in common: the roundings of log t and of `residue`. What else there is depends on the
    /// point: see [`Points::log_size`].
    pub(crate) fn common_error(log_total: f64) -> f64 {
        2.0 * f64::EPSILON * log_total.abs()
    }

    /// log |ς| at a point, which is off by 2.5 roundings of itself at most.
    pub(super) fn log_size(self, i: i64) -> f64 {
        (i - self.origin) as f64 * self.unit + self.residue
    }
}

/// Places log(|ς|Y) + v/2 = k·`step` + `residue` that points and nodes have in common.
#[derive(Debug, Clone, Copy)]
struct CommonLattice {
    step: f64,
    /// Steps between two points and between two nodes.
    by_point: i64,
    by_node: i64,
}

impl CommonLattice {
    /// With at most this distance of the nodes' √v·g.
    fn at_most(distance: f64, unit: f64) -> Self {
        if distance >= unit {
            return Self {
                step: unit,
                by_point: 1,
                by_node: (distance / unit).floor() as i64,
            };
        }
        let by_point = (unit / distance).ceil();
        Self {
            step: unit / by_point,
            by_point: by_point as i64,
            by_node: 1,
        }
    }
}

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    points: Points,
    lattice: CommonLattice,
    variance: f64,
    beta: f64,
    /// cos and sin of the phase θ − √vβ of ςY.
    pub(super) phase: (f64, f64),
    /// For both lines: log of e^{b²/2 − 2πa/h}/(1 − e^{−2πa/h}), and cos(θ − √vb).
    lines: [(f64, f64); 2],
    /// Whether both phases are within a right angle, so that |e^{−ςY}| ≤ 1 between the lines.
    has_admissible_lines: bool,
    /// log(h/√2π) + β²/2.
    pub(super) log_weight: f64,
    /// A bound on its rounding error.
    pub(super) log_weight_error: f64,
    /// The number of the first node, in units of the spacing.
    first: i64,
    pub(super) nodes: Vec<RuleNode>,
}

/// A node.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleNode {
    pub(super) y: f64,
    /// g²/2.
    pub(super) half_square: f64,
    /// e^{igβ}.
    pub(super) turned: Complex64,
    /// Bounds on the errors of g²/2 and gβ together, and on the error of √v·g, in units of [`f64::EPSILON`] like all counts of roundings here: a
    /// correctly rounded operation counts one half of its result.
    pub(super) roundings: f64,
    pub(super) y_slack: f64,
}

/// |ς|Y at one place, and its relative rounding but for that of the node, in units of the machine's: of the product of the place and the
/// step, which is a quotient, of two sums, of an exponential, and of the phase that it is multiplied with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) x: f64,
    pub(super) slack: f64,
}

/// q with log q + qv = `target`, about: vq is Lambert's function of v·e^`target`.
pub(super) fn saddle<T>(target: T, variance: f64) -> T
where
    T: ComplexFloat<Real = f64> + Mul<f64, Output = T> + Div<f64, Output = T> + Add<f64, Output = T>,
{
    let power = target.exp();
    let mut scaled = (power * variance + 1.0).ln();
    if scaled.abs() > 2.0 {
        scaled = scaled - scaled.ln();
    }
    let mut q = if variance * power.abs() < 1e-3 {
        power
    } else {
        scaled / variance
    };
    for _ in 0..ROUNDS {
        let step = (q.ln() + q * variance - target) / (q * variance + 1.0);
        q = q * (-step).exp();
        if step.abs() < CLOSE {
            break;
        }
    }
    q
}

/// log of a bound on E[e^{−xY}], x > 0: the best of e^{−q}·(q/x)^q·e^{q(q+1)v/2} that Newton's method finds, and 1.
pub(super) fn log_suppressed(x: f64, variance: f64) -> f64 {
    let q = saddle(x.ln() - 0.5 * variance, variance);
    let log = -q + q * (q / x).ln() + 0.5 * q * (q + 1.0) * variance;
    let size = q * (1.0 + q * variance + (q / x).ln().abs());
    if log < 0.0 { log + 1e-14 * size } else { 0.0 }
}

/// A choice of lines: β, a, h.
pub(super) struct Choice {
    pub(super) beta: f64,
    pub(super) line: f64,
    pub(super) spacing: f64,
}

impl Choice {
    /// The lines that allow the widest spacing, where `log_on_line` bounds the integral on a line over the sum. If none do, a choice that may have
    /// no bound on its error: see [`Rule::log_spacing_error`].
    fn best((variance, angle, beta): (f64, f64, f64), width: f64, log_on_line: impl Fn(f64) -> f64) -> Self {
        let root = variance.sqrt();
        let mut best = Self {
            beta,
            line: 0.1 * width,
            spacing: 1e-3 * width,
        };
        let natural = beta;
        for line in LINES.map(|line| line * width) {
            let beta = natural.max(line - (WIDEST_PHASE - angle) / root);
            if beta > natural + MOST_TURNED * width {
                continue;
            }
            let lines = [beta - line, beta + line];
            let phases = lines.map(|b| angle - root * b);
            if phases.iter().any(|phase| phase.abs() > WIDEST_PHASE + 1e-9) {
                continue;
            }
            let worst = lines.map(&log_on_line);
            let level = LEVEL + worst[0].max(worst[1]).max(0.0);
            let spacing = TAU * line / level;
            if spacing > best.spacing {
                best = Self { beta, line, spacing };
            }
        }
        best
    }
}

impl Rule {
    /// With these lines, nodes from g = `low` to `high`, and no wider a spacing than chosen.
    pub(super) fn new(
        points: Points,
        (variance, angle): (f64, f64),
        choice: &Choice,
        (low, high): (f64, f64),
    ) -> Self {
        let root = variance.sqrt();
        let lattice = CommonLattice::at_most(choice.spacing * root, points.unit);
        let distance = lattice.by_node as f64 * lattice.step;
        let spacing = distance / root;
        let &Choice { beta, line, .. } = choice;
        let suppressed = -TAU * line / spacing;
        let of = |b: f64| {
            (
                0.5 * b * b + suppressed - (-suppressed.exp()).ln_1p(),
                (angle - root * b).cos(),
            )
        };
        let node = |j: i64| {
            let (log, g) = (j as f64 * distance, j as f64 * spacing);
            let (half_square, turn) = (0.5 * g * g, g * beta);
            RuleNode {
                y: (log - 0.5 * variance).exp(),
                half_square,
                turned: Complex64::from_polar(1.0, turn),
                roundings: 1.5 * half_square + turn.abs(),
                y_slack: 4.0 * log.abs(),
            }
        };
        let (first, last) = ((low / spacing).floor() as i64, (high / spacing).ceil() as i64);
        let phase = angle - root * beta;
        let log_spacing = (spacing / TAU.sqrt()).ln();
        Self {
            points,
            lattice,
            variance,
            beta,
            phase: (phase.cos(), phase.sin()),
            lines: [of(beta - line), of(beta + line)],
            has_admissible_lines: [beta - line, beta + line]
                .iter()
                .all(|b| (angle - root * b).abs() < FRAC_PI_2),
            log_weight: log_spacing + 0.5 * beta * beta,
            log_weight_error: f64::EPSILON * (2.0 + log_spacing.abs() + beta * beta),
            first,
            nodes: (first..=last).map(node).collect(),
        }
    }

    /// For |ς| ≤ 1.
    pub(super) fn centred(points: Points, (variance, angle): (f64, f64)) -> Self {
        let root = variance.sqrt();
        let choice = Choice::best((variance, angle, 0.0), 1.0, |b| 0.5 * b * b + 2.0);
        Self::new(points, (variance, angle), &choice, (-REACH, REACH + 2.0 * root))
    }

    /// For log |ς| in an interval.
    pub(super) fn direct(points: Points, (variance, angle): (f64, f64), (low, high): (f64, f64)) -> Self {
        let root = variance.sqrt();
        let target = |log: f64| Complex64::new(log - 0.5 * variance, angle);
        let middle = 0.5 * (low + high);
        let q = saddle(target(middle), variance);
        let width = |q: Complex64| (1.0 + variance * q.re.max(0.0)).sqrt().recip();
        let beta = (root * q.im).max(0.0);
        let log = (-0.5 * variance * q * q - q).re + width(q).ln();
        let size = middle.exp();
        let choice = Choice::best((variance, angle, beta), width(q), |b| {
            0.5 * b * b + log_suppressed(size * (angle - root * b).cos(), variance) - log
        });
        let ends = [low, high].map(|log| saddle(target(log), variance));
        let right = -root * ends[0].re + REACH * width(ends[0]);
        let left = -root * ends[1].re - REACH;
        Self::new(points, (variance, angle), &choice, (left, right.max(left + 1.0)))
    }

    /// e^{`reference` − g²/2} at the nodes.
    pub(super) fn weights(&self, reference: f64) -> Vec<f64> {
        let nodes = self.nodes.iter();
        nodes.map(|node| (reference - node.half_square).exp()).collect()
    }

    /// Whether all terms are real.
    pub(super) fn is_real(&self) -> bool {
        self.phase.1 == 0.0 && self.beta == 0.0
    }

    /// The place of the term of the node with this index at a point.
    pub(super) fn place(&self, point: i64, index: usize) -> i64 {
        (point - self.points.origin) * self.lattice.by_point + (self.first + index as i64) * self.lattice.by_node
    }

    /// |ς|Y at a place.
    pub(super) fn product(&self, place: i64) -> Product {
        let log = place as f64 * self.lattice.step;
        Product {
            x: (log + self.points.residue - 0.5 * self.variance).exp(),
            slack: 3.5 * log.abs() + self.points.residue.abs() + self.variance + 5.0,
        }
    }

    /// What `find` finds at a place, from `known` if points share places.
    pub(super) fn cached<T: Copy>(&self, known: &mut Places<T>, place: i64, find: impl FnOnce(Product) -> T) -> T {
        if self.lattice.by_point > MOST_KEPT {
            return find(self.product(place));
        }
        if let Some(found) = known.get(place) {
            return found;
        }
        let found = find(self.product(place));
        known.set(place, found);
        found
    }

    /// log of a bound on the error that the spacing leaves, where e^`log_integral` bounds the integral on the line whose phase has that cosine;
    /// infinite where the phase of a line is beyond a right angle.
    pub(super) fn log_spacing_error(&self, log_integral: impl Fn(f64) -> f64) -> f64 {
        if !self.has_admissible_lines {
            return f64::INFINITY;
        }
        let [first, second] = self.lines.map(|(log, cosine)| log + log_integral(cosine));
        first.max(second) + std::f64::consts::LN_2
    }

    /// log of the modulus of the term at a node.
    pub(super) fn log_term(&self, size: f64, i: usize) -> f64 {
        -self.nodes[i].half_square - size * self.nodes[i].y * self.phase.0
    }

    /// The range of nodes whose terms count at |ς| = `size`, and the one of the largest.
    pub(super) fn range(&self, size: f64) -> (usize, usize, usize) {
        let last = self.nodes.len() - 1;
        let top = first_where(0, last, |i| self.log_term(size, i + 1) <= self.log_term(size, i));
        let log = self.log_term(size, top);
        let start = first_where(0, top, |i| self.log_term(size, i) > log - NEGLIGIBLE);
        let end = first_where(top, last, |i| self.log_term(size, i) <= log - NEGLIGIBLE);
        (start, end, top)
    }

    /// A bound on what lies beyond the node `outer`, next to which `inner` is, over e^`log`.
    pub(super) fn beyond(&self, size: f64, inner: usize, outer: usize, log: f64) -> f64 {
        let (inner, outer) = (self.log_term(size, inner), self.log_term(size, outer));
        geometric((inner - log).exp(), (outer - log).exp())
    }
}

/// What follows a term `outer` after `inner` at most.
pub(super) fn geometric(inner: f64, outer: f64) -> f64 {
    let ratio = outer / inner;
    match ratio {
        _ if outer == 0.0 => 0.0,
        ratio if ratio < 0.99 => outer * ratio / (1.0 - ratio),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests;
