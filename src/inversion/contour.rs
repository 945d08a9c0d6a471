//! δ(ε) of a composition by complex-order inversion: a sum over a line Re z = c.
//!
//! With A(z) = Σ T·K(z), the log of E[e^{zS}] for the total loss S of all steps,
//!
//! > δ(ε) = (1/2π) ∫ e^{A(c+iy) − (c+iy)ε} / ((c+iy)(c+iy+1)) dy for c > 0 (`docs/theory/inversion.md`),
//!
//! as (1 − e^{−u})₊ has the Laplace transform 1/(z(z + 1)). For −1 < c < 0 the same integral is δ(ε) − 1, the
//! residue at 0 being 1: it is minus the expectation of min(1, e^{−u}), u = S − ε. Errors of the sum
//! h Σ_j … over y_j = jh, |y_j| ≤ Y, relative to e^{A(c) − cε}:
//!
//! * **Spacing.** By Poisson summation the sum over all j is Σ_m E[g(u + mP)]·e^{−cmP}, P = 2π/h, with
//!   g(u) the function above. |g(u)| ≤ e^{c'u} for every c' in the same strip (0, ∞) or [−1, 0], so
//!   the terms m ≥ 1 add at most Σ e^{A(c') − A(c) − (c'−c)ε}·e^{−(c−c')mP} for any c' < c and those m ≤ −1 the
//!   like for any c' > c. Every term has the sign of g: the sum can only overstate |δ| or |1 − δ|.
//! * **Tail.** |E[e^{zS}]| ≤ e^{A(c)}·B for |y| ≥ Y with B from [`TiltedLoss::log_decay`], so what is left out is at
//!   most B/(πY).
//! * **Quadrature in x and rounding.** Each φ = E[e^{zℓ}]/E[e^{cℓ}] has an error of at most e (see
//!   `loss::nodes`), its T-th power one of at most (|φ| + e)^T − |φ|^T.
//!
//! The cost does not depend on the numbers of steps. Where the characteristic function does not decay, because a run has
//! only tiny losses with a high probability, `split` takes over.

use crate::approx::Approx;
use crate::interval::Enclosure;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::segment::{ApproxSum, KEEPING_PANELS, Segment};
use crate::inversion::tilt::Tilt;
use crate::loss::privacy_loss::TiltedLoss;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::log_space::{complex_ln_1p, log_add};
use crate::special::trigonometric::{self, sin_cos};
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;
use std::f64::consts::PI;

/// Points of a contour at most: 5 MB, and the sum over them takes 10 ms for each ε. Routes that need more are left to the
/// grid.
pub(super) const MAX_POINTS: f64 = 2e5;

/// Levels beyond which no contour is tried: errors of e^−40 of e^{A(c) − cε} are lost in those of rounding, and nodes for them take all the
/// work that a search may take.
const MOST_LEVEL: f64 = 40.0;

/// Points whose sines and cosines are found at once.
const BLOCK: usize = 256;

/// Products of nodes in x and points in y that a contour may cost, or a few times as many where the points are few.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Where the errors that are asked for are large enough for rounding not to matter.
    pub(crate) products: f64,
    /// For errors of e^−30 of e^{A(c) − cε} and less, which rounding may exceed.
    pub(crate) products_of_small_errors: f64,
}

/// Level from which on rounding may keep a contour from the width that is asked for.
const SMALL_ERRORS: f64 = 30.0;

impl Limits {
    /// So many products in any case.
    pub(crate) fn of_products(products: f64) -> Self {
        Self {
            products,
            products_of_small_errors: products,
        }
    }

    fn at(self, level: f64) -> f64 {
        if level < SMALL_ERRORS {
            self.products
        } else {
            self.products_of_small_errors
        }
    }
}

/// Points of a contour that are few: another route would hardly take fewer, so that nodes in x may be more.
const FEW_POINTS: f64 = 2_000.0;
/// How many times more products of nodes and points few points may take.
const FEW_POINTS_ALLOWANCE: f64 = 4.0;

/// Cost of a point beyond that of its sums over the nodes, in products of nodes and points: a logarithm, an exponential, and terms of δ at a few
/// ε. Without it some runs had contours of a hundred thousand points, and took up to eight times as long.
pub(super) const COST_OF_POINT: usize = 150;

/// Points of a contour at most where there are that many nodes in x.
pub(super) fn max_points(most_products: f64, nodes: usize) -> f64 {
    let points = most_products / (nodes + COST_OF_POINT) as f64;
    points.max(FEW_POINTS.min(FEW_POINTS_ALLOWANCE * points))
}

/// E[e^{zS}] at the points of a line Re z = c, from which δ follows at every ε near the one that c was chosen for.
#[derive(Debug)]
pub(crate) struct Contour {
    c: f64,
    /// A(c).
    log_moment: Approx,
    /// h.
    spacing: f64,
    points: Vec<ContourPoint>,
    /// Bound on what lies beyond the last point.
    tail: f64,
    /// The moments at tilts below and above c.
    below: MomentBound,
    above: MomentBound,
    /// Moments of the part of the law that the points leave out; empty if they leave out nothing.
    left_out: Vec<MomentBound>,
    /// Cost: nodes in x times points in y.
    products: u64,
}

/// E[e^{zS}]/e^{A(c)} at one y.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContourPoint {
    pub(crate) modulus: f64,
    pub(crate) phase: f64,
    pub(crate) error: f64,
}

/// The parameters of a contour: everything but its points.
pub(crate) struct Line {
    /// Re z.
    pub(crate) c: f64,
    /// A(c).
    pub(crate) log_moment: Approx,
    /// h.
    pub(crate) spacing: f64,
    /// Bound on |E[e^{zS}]|/e^{A(c)} from the last point on.
    pub(crate) decayed: f64,
    /// Moments of the part of the law that the points leave out.
    pub(crate) left_out: Vec<MomentBound>,
    /// Nodes in x.
    pub(crate) size: usize,
}

/// One segment's tilted loss, and how often it is added.
struct Part<'a> {
    tilted: Box<dyn TiltedLoss + 'a>,
    steps: f64,
}

impl Contour {
    /// The contour at a tilt, with errors of about e^−`level` of e^{A(c) − cε}; `None` where that is beyond the limits, or a step's loss has no
    /// analytic form.
    pub(crate) fn new(segments: &mut [Segment], tilt: &Tilt, limits: Limits) -> Option<Self> {
        let &Tilt { c, level, period, .. } = tilt;
        if level > MOST_LEVEL {
            return None;
        }
        let most_products = limits.at(level);
        let spacing = 2.0 * PI / period;

        let quadrature = |segment: &Segment, count: usize| -level - segment.steps.ln() - (count as f64).ln() - 1.0;
        let count = segments.len();
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(count);
        for segment in segments.iter_mut() {
            checkpoint();
            let (steps, tolerance) = (segment.steps, quadrature(segment, count));
            let mut tilted = segment.loss.tilted(c, tolerance);
            if count > KEEPING_PANELS {
                tilted.forget_panels();
            }
            parts.push(Part { tilted, steps });
        }
        let size: usize = parts.iter().map(|part| part.tilted.size()).sum();
        let start = 1.2 * (2.0 * level).sqrt() / tilt.spread;
        let reach = find_reach(start, spacing, max_points(most_products, size), level, |y, wanted| {
            best_decay(&mut parts, y, wanted)
        })?;
        // The nodes again, certified up to the last frequency; one segment at a time, as those of very many would take much memory.
        let last = (reach / spacing).ceil().max(2.0);
        let mut powers = vec![Power::default(); last as usize + 1];
        let (mut log_moment, mut decay) = (ApproxSum::default(), 0.0);
        let mut size = 0;
        for Part { mut tilted, steps } in parts {
            checkpoint();
            tilted.certify(last * spacing);
            if count > KEEPING_PANELS {
                tilted.forget_panels();
            }
            size += tilted.size();
            if tilted.quadrature_error() > 1e-3 || last > 2.0 * max_points(most_products, size) {
                return None;
            }
            decay += steps * tilted.log_decay(reach);
            log_moment.add(tilted.moments().log_moment.times(steps));
            for (power, change) in powers.iter_mut().zip(tilted.changes(spacing, last as usize)) {
                power.multiply(change, steps);
            }
        }
        let line = Line {
            c,
            log_moment: log_moment.value(),
            spacing,
            decayed: decay.exp(),
            left_out: Vec::new(),
            size,
        };
        let points = powers.into_iter().map(Power::point).collect();
        Some(Self::through(line, tilt, points))
    }

    /// The contour of these parameters and points.
    pub(crate) fn through(line: Line, tilt: &Tilt, points: Vec<ContourPoint>) -> Self {
        let last = points.len().saturating_sub(1).max(1) as f64;
        Self {
            c: line.c,
            log_moment: line.log_moment,
            spacing: line.spacing,
            tail: line.decayed / (PI * line.spacing * last),
            points,
            below: tilt.below,
            above: tilt.above,
            left_out: line.left_out,
            products: (line.size + COST_OF_POINT) as u64 * last as u64,
        }
    }

    /// True for −1 < c < 0, where the integral is δ less the mass of the law.
    pub(crate) fn is_below_zero(&self) -> bool {
        self.c < 0.0
    }

    /// Work that the points took, in terms of densities.
    pub(crate) fn work(&self) -> u64 {
        self.products / 8
    }

    /// The sum at ε over e^{A(c) − cε}, with its errors other than aliasing.
    fn sum(&self, epsilon: f64) -> Approx {
        let c = self.c;
        // Next to c = 0 there may be 10^5 points: plain addition would lose five digits.
        let (mut value, mut error) = (CompensatedSum::default(), 0.0);
        let (mut cosines, mut sines) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (block, points) in self.points.chunks(BLOCK).enumerate() {
            let first = block * BLOCK;
            let y = |i: usize| (first + i) as f64 * self.spacing;
            let (cosines, sines) = (&mut cosines[..points.len()], &mut sines[..points.len()]);
            for (i, (angle, point)) in cosines.iter_mut().zip(points).enumerate() {
                *angle = point.phase - y(i) * epsilon;
            }
            sin_cos(cosines, sines);
            for (i, point) in points.iter().enumerate() {
                let y = y(i);
                let weight = if first + i == 0 { 0.5 } else { 1.0 };
                // z(z + 1) = c² + c − y² + iy(2c + 1)
                let divisor = Complex64::new(c * (c + 1.0) - y * y, y * (2.0 * c + 1.0));
                let square = divisor.norm_sqr();
                let turned = cosines[i] * divisor.re + sines[i] * divisor.im;
                value.add(weight * point.modulus / square * turned);
                let rounding = rounding_of_term(point.phase, y * epsilon);
                error += weight * (point.modulus * rounding + point.error) / square.sqrt();
            }
        }
        let scale = self.spacing / PI;
        Approx::new(scale * value.value(), scale * error + self.tail)
    }

    /// Bound on what the spacing of the points adds to the sum, over e^{A(c) − cε}.
    fn aliasing(&self, epsilon: f64) -> f64 {
        let period = 2.0 * PI / self.spacing;
        let side = |MomentBound { c, log_moment }: MomentBound| {
            let first = log_moment - self.log_moment.value - (c - self.c) * epsilon;
            let ratio = -(c - self.c).abs() * period;
            let sum = (first + ratio).exp() / -ratio.exp_m1();
            if sum.is_nan() { f64::INFINITY } else { sum }
        };
        side(self.below) + side(self.above)
    }

    /// log of a bound on the part of δ that the points leave out, by (1 − e^{−u})₊ ≤ e^{c'u}.
    fn log_left_out(&self, epsilon: f64) -> f64 {
        let at = |bound: &MomentBound| {
            let size = bound.log_moment.abs() + (bound.c * epsilon).abs();
            bound.log_above(epsilon) + 4.0 * f64::EPSILON * size
        };
        if self.left_out.is_empty() {
            return f64::NEG_INFINITY;
        }
        self.left_out.iter().map(at).fold(0.0, f64::min)
    }

    /// δ(ε), certified.
    pub(crate) fn delta(&self, epsilon: f64) -> Enclosure {
        let mut sum = self.sum(epsilon);
        let Approx {
            value: log_moment,
            error: log_moment_error,
        } = self.log_moment;
        let scale = log_moment - self.c * epsilon;
        let slack = log_moment_error + 4.0 * f64::EPSILON * (log_moment.abs() + (self.c * epsilon).abs());
        // For c < 0 the sum is δ − 1.
        sum.value *= self.c.signum();
        let (lower, upper) = (sum.lower() - self.aliasing(epsilon), sum.upper());
        let (lower, upper) = (ln_or_zero(lower) + scale - slack, upper.ln() + scale + slack);
        if self.c > 0.0 {
            Enclosure::of_logs(lower, log_add(upper, self.log_left_out(epsilon)))
        } else {
            Enclosure::of_complement_logs(lower, upper)
        }
    }
}

impl ContourPoint {
    /// The difference of two points, with its error.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self::of(self.cartesian() - other.cartesian())
    }

    /// The point that a complex number is.
    pub(super) fn of(Approx { value, error }: Approx<Complex64>) -> Self {
        let (modulus, phase) = value.to_polar();
        Self { modulus, phase, error }
    }

    /// The point as a complex number; its error includes the rounding of the sine and the cosine of the phase.
    pub(super) fn cartesian(self) -> Approx<Complex64> {
        let rounding = self.modulus * f64::EPSILON * (4.0 + self.phase.abs());
        Approx::new(Complex64::from_polar(self.modulus, self.phase), self.error + rounding)
    }
}

/// Smallest log modulus of one factor: a modulus of 0 would make the logarithm of the product and its error infinite.
const MIN_LOG_MODULUS: f64 = -1e4;

/// A product of powers (1 + z)^T, as its logarithm. Each 1 + z is a moment E[e^{(c+iy)ℓ}] over the computed E[e^{cℓ}].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Power {
    /// The logarithm. A product may have a million factors.
    log_modulus: CompensatedSum,
    phase: CompensatedSum,
    /// log of the factor by which errors can make it grow.
    growth: f64,
    /// log of a bound on the modulus of the true product.
    log_largest: f64,
}

impl Power {
    /// Multiplies by (1 + z)^`steps`.
    ///
    /// The true modulus is at most 1 + `error`, as the computed E[e^{cℓ}] has no larger error than 1 + z.
    pub(crate) fn multiply(&mut self, Approx { value: z, error }: Approx<Complex64>, steps: f64) {
        let mut log = complex_ln_1p(z);
        log.re = log.re.max(MIN_LOG_MODULUS);
        self.log_modulus.add(steps * log.re);
        self.phase.add(steps * log.im);
        let rounding = 4.0 * f64::EPSILON * log.l1_norm();
        self.growth += steps * ((error / log.re.exp()).ln_1p() + rounding);
        self.log_largest += steps * error;
    }

    /// The power and a bound on its error: how much errors can make it grow, or where that is more than it can be off, the sum of its modulus
    /// and the largest modulus that the truth can have. The two may have opposite signs.
    pub(crate) fn point(self) -> ContourPoint {
        let (log_modulus, phase) = (self.log_modulus.value(), self.phase.value());
        let modulus = log_modulus.exp();
        // The rounding of both sums, and that of the exponential.
        let growth = self.growth + f64::EPSILON * (1.0 + log_modulus.abs() + phase.abs());
        let error = if growth < 1.0 {
            modulus * growth.exp_m1()
        } else {
            (log_modulus + growth).exp().min(modulus + self.log_largest.exp())
        };
        ContourPoint { modulus, phase, error }
    }
}

/// Bound on the rounding error of a term of modulus 1 whose angle is `phase` − `turn`, where `turn` = (jh)ε.
///
/// The turn is a product of two roundings, and their difference has a third: together at most (3·|turn| + |phase|)/2 times
/// [`f64::EPSILON`]. What made `phase` itself inexact is part of the point's error. Beside the errors of the sine and the cosine, z(z + 1), its
/// square, and their products and quotient have no more than eleven roundings.
fn rounding_of_term(phase: f64, turn: f64) -> f64 {
    0.5 * f64::EPSILON * (11.0 + phase.abs() + 3.0 * turn.abs()) + 2.0 * trigonometric::ERROR
}

fn ln_or_zero(x: f64) -> f64 {
    if x > 0.0 { x.ln() } else { f64::NEG_INFINITY }
}

/// Y from which on the tail B/(πY) is at most e^−`level`, where log B = `decay`(Y, wanted) and wanted = `level` − ln(πY).
/// `None` where that takes more than `max_points` points.
pub(crate) fn find_reach(
    start: f64,
    spacing: f64,
    max_points: f64,
    level: f64,
    mut decay: impl FnMut(f64, f64) -> f64,
) -> Option<f64> {
    let mut reach = start;
    let mut before: Option<(f64, f64)> = None;
    for round in 0..24 {
        checkpoint();
        let count = reach / spacing;
        if count.max(1.0) > max_points.min(MAX_POINTS) {
            return None;
        }
        let wanted = level - (PI * reach).ln();
        let found = -decay(reach, wanted);
        if found >= wanted {
            return Some(reach);
        }
        // Between the decay of a Gaussian and that of an exponential.
        let short = (wanted / found.max(1e-3 * wanted)).powf(0.7);
        let mut next = reach * (1.03 * short).clamp(1.05, 3.0);
        if let Some((at, then)) = before {
            // A Gaussian's decay from here on; and how far it is if it goes on as it went.
            let (gain, missing) = (found - then, wanted - found);
            let gaussian = (reach * reach + missing * (reach * reach - at * at) / gain).sqrt();
            let straight = reach + missing * (reach - at) / gain;
            if gaussian.is_finite() {
                next = next.max(gaussian.min(6.0 * reach));
            }
            if round >= 4 && found > 0.25 * wanted && (gain <= 0.0 || straight > 2.0 * max_points * spacing) {
                return None;
            }
        }
        before = Some((reach, found));
        reach = next;
    }
    None
}

/// A bound on log |φ| of all steps at y, the smallest that is found or the first below −`wanted`.
fn best_decay(parts: &mut [Part<'_>], y: f64, wanted: f64) -> f64 {
    let of = |part: &mut Part<'_>| part.steps * part.tilted.best_log_decay(y, wanted / part.steps);
    parts.iter_mut().map(of).sum()
}

#[cfg(test)]
mod tests;
