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
//! * **Tail.** |E[e^{zS}]| ≤ e^{A(c)}·B for |y| ≥ Y with B from `SmoothLoss::log_decay`, so what is left out is at
//!   most B/(πY).
//! * **Quadrature in x and rounding.** Each φ = E[e^{zℓ}]/E[e^{cℓ}] has an error of at most e (see
//!   [`Nodes`]), its T-th power one of at most (|φ| + e)^T − |φ|^T.
//!
//! The cost does not depend on the numbers of steps.
//!
//! Where the characteristic function does not decay, because a run may well have no loss but tiny ones, see `split`.

use crate::interval::Enclosure;
use crate::inversion::characteristic_function::smooth_changes;
use crate::inversion::segment::{KEEPING_PANELS, Segment};
use crate::inversion::tilt::Tilt;
use crate::loss::StepLoss;
use crate::loss::gaussian::TiltedGaussians;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::laplace_moments::LaplaceDecay;
use crate::loss::smooth::{Nodes, SmoothLoss};
use crate::special::compensated_sum::CompensatedSum;
use crate::special::log_space::{log_add, log_modulus_1p};
use crate::stopping::checkpoint;
use std::f64::consts::PI;

/// Points of a contour at most: 5 MB, and the sum over them takes 10 ms for each ε. Routes that need more are left to the
/// grid.
const MAX_POINTS: f64 = 2e5;

/// E[e^{zS}] on a line, ready for any ε near the one it was made for.
#[derive(Debug)]
pub(crate) struct Contour {
    c: f64,
    /// A(c), and a bound on its error.
    log_moment: f64,
    log_moment_error: f64,
    /// h.
    spacing: f64,
    points: Vec<ContourPoint>,
    /// Bound on what lies beyond the last point.
    tail: f64,
    /// (c', A(c')) below and above c.
    below: (f64, f64),
    above: (f64, f64),
    /// What the points leave out of E[e^{c'S}], as (c', its log); empty if nothing.
    left_out: Vec<(f64, f64)>,
    /// Products of nodes in x and y.
    products: u64,
}

/// E[e^{zS}]/e^{A(c)} at one y.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContourPoint {
    pub(crate) modulus: f64,
    pub(crate) phase: f64,
    pub(crate) error: f64,
}

/// What a contour is made of, but for its points.
pub(crate) struct Line {
    /// Re z.
    pub(crate) c: f64,
    /// A(c), and a bound on its error.
    pub(crate) log_moment: f64,
    pub(crate) log_moment_error: f64,
    /// h.
    pub(crate) spacing: f64,
    /// Bound on |E[e^{zS}]|/e^{A(c)} from the last point on.
    pub(crate) decayed: f64,
    pub(crate) left_out: Vec<(f64, f64)>,
    /// Nodes in x.
    pub(crate) size: usize,
}

/// One segment's loss tilted by c, with what its characteristic function needs.
enum Tilted<'a> {
    Smooth(&'a mut SmoothLoss, Box<Nodes>, Vec<f64>),
    Gaussian(TiltedGaussians),
    Laplace(&'a mut LaplaceLoss, Box<Nodes>, LaplaceDecay),
    /// A lattice law, whose transform never decays: other losses of the run have to.
    Atoms(Box<Nodes>),
}

impl Contour {
    /// The contour at a tilt, with errors of about e^−`level` of e^{A(c) − cε}; `None` where that would cost more than
    /// `most_products` of nodes in x and y, or a step's loss has no analytic form.
    pub(crate) fn new(segments: &mut [Segment], tilt: &Tilt, most_products: f64) -> Option<Self> {
        let &Tilt { c, level, period, .. } = tilt;
        let spacing = 2.0 * PI / period;

        let quadrature = |segment: &Segment, count: usize| -level - segment.steps.ln() - (count as f64).ln() - 1.0;
        let count = segments.len();
        let mut tilted: Vec<(Tilted<'_>, f64, f64)> = Vec::with_capacity(count);
        for segment in segments.iter_mut() {
            checkpoint();
            let (steps, tolerance) = (segment.steps, quadrature(segment, count));
            let part = match &mut segment.loss {
                StepLoss::Smooth(loss) => {
                    let none = vec![0.0; loss.pieces().len()];
                    let nodes = loss.nodes(c, 0.0, &none, tolerance);
                    if count > KEEPING_PANELS {
                        loss.forget_panels();
                    }
                    Tilted::Smooth(loss, Box::new(nodes), none)
                }
                StepLoss::Gaussian(loss) => Tilted::Gaussian(loss.tilted(c)),
                StepLoss::Laplace(loss) => {
                    let nodes = loss.nodes(c, 0.0);
                    let decay = loss.decay(&nodes);
                    Tilted::Laplace(loss, Box::new(nodes), decay)
                }
                StepLoss::Atoms(loss) => Tilted::Atoms(Box::new(loss.tilted(c))),
            };
            tilted.push((part, steps, tolerance));
        }
        let size: usize = tilted.iter().map(|(part, ..)| part.size()).sum();
        let start = 1.2 * (2.0 * level).sqrt() / tilt.spread;
        let reach = find_reach(start, spacing, most_products / size as f64, level, |y, wanted| {
            best_decay(&mut tilted, y, wanted)
        })?;
        // Again, certified up to that height; one by one, as the nodes of very many segments would take much memory.
        let last = (reach / spacing).ceil().max(2.0);
        let mut powers = vec![Power::default(); last as usize + 1];
        let (mut total, mut total_error, mut decay) = (0.0, 0.0, 0.0);
        let mut size = 0;
        for (mut part, steps, tolerance) in tilted {
            checkpoint();
            match &mut part {
                Tilted::Smooth(loss, nodes, lifts) => {
                    **nodes = loss.nodes(c, reach, lifts, tolerance);
                    if count > KEEPING_PANELS {
                        loss.forget_panels();
                    }
                }
                Tilted::Laplace(loss, nodes, _) => **nodes = loss.nodes(c, reach),
                Tilted::Gaussian(_) | Tilted::Atoms(_) => {}
            }
            size += part.size();
            if part.quadrature_error() > 1e-3 || last * size as f64 > 2.0 * most_products {
                return None;
            }
            decay += steps * part.log_decay(reach);
            let (log_moment, error) = part.log_moment();
            total += steps * log_moment;
            total_error += steps * (error + f64::EPSILON * log_moment.abs());
            for (power, change) in powers.iter_mut().zip(part.changes(spacing, last as usize)) {
                power.multiply(change, steps);
            }
        }
        let line = Line {
            c,
            log_moment: total,
            log_moment_error: total_error,
            spacing,
            decayed: decay.exp(),
            left_out: Vec::new(),
            size,
        };
        let points = powers.into_iter().map(Power::point).collect();
        Some(Self::through(line, tilt, points))
    }

    /// The contour with these points.
    pub(crate) fn through(line: Line, tilt: &Tilt, points: Vec<ContourPoint>) -> Self {
        let last = points.len().saturating_sub(1).max(1) as f64;
        Self {
            c: line.c,
            log_moment: line.log_moment,
            log_moment_error: line.log_moment_error,
            spacing: line.spacing,
            tail: line.decayed / (PI * line.spacing * last),
            points,
            below: tilt.below,
            above: tilt.above,
            left_out: line.left_out,
            products: (line.size + 100) as u64 * last as u64,
        }
    }

    /// What the points took, in terms of densities.
    pub(crate) fn work(&self) -> u64 {
        self.products / 8
    }

    /// The sum at ε, its derivative in ε and its error, all over e^{A(c) − cε}.
    fn sum(&self, epsilon: f64) -> (f64, f64, f64) {
        let c = self.c;
        // Next to c = 0 there may be 10^5 points: plain addition would lose five digits.
        let mut value = CompensatedSum::default();
        let (mut slope, mut error) = (0.0, 0.0);
        for (j, point) in self.points.iter().enumerate() {
            let y = j as f64 * self.spacing;
            let weight = if j == 0 { 0.5 } else { 1.0 };
            let (sine, cosine) = (point.phase - y * epsilon).sin_cos();
            // 1/(z(z + 1)): z(z + 1) = c² + c − y² + iy(2c + 1).
            let (real, imaginary) = (c * (c + 1.0) - y * y, y * (2.0 * c + 1.0));
            let scale = weight * point.modulus / (real * real + imaginary * imaginary);
            let (part, turned) = (
                scale * (cosine * real + sine * imaginary),
                scale * (sine * real - cosine * imaginary),
            );
            value.add(part);
            slope -= c * part - y * turned; // Re of −z·(part + i·turned)
            let size = scale * (real * real + imaginary * imaginary).sqrt();
            let angle = 4.0 * f64::EPSILON * (3.0 + point.phase.abs() + y * epsilon.abs());
            error += size * angle + point.error * weight / (real * real + imaginary * imaginary).sqrt();
        }
        let scale = self.spacing / PI;
        (scale * value.value(), scale * slope, scale * error + self.tail)
    }

    /// What the spacing of the points can add.
    fn aliasing(&self, epsilon: f64) -> f64 {
        let period = 2.0 * PI / self.spacing;
        let side = |(c, log_moment): (f64, f64)| {
            let first = log_moment - self.log_moment - (c - self.c) * epsilon;
            let ratio = -(c - self.c).abs() * period;
            let sum = (first + ratio).exp() / -ratio.exp_m1();
            if sum.is_nan() { f64::INFINITY } else { sum }
        };
        side(self.below) + side(self.above)
    }

    /// log of what the points may leave out of δ: (1 − e^{−u})₊ ≤ e^{c'u}.
    fn log_left_out(&self, epsilon: f64) -> f64 {
        let at = |&(c, log_moment): &(f64, f64)| {
            log_moment - c * epsilon + 4.0 * f64::EPSILON * (log_moment.abs() + (c * epsilon).abs())
        };
        if self.left_out.is_empty() {
            return f64::NEG_INFINITY;
        }
        self.left_out.iter().map(at).fold(0.0, f64::min)
    }

    /// δ(ε), certified.
    pub(crate) fn delta(&self, epsilon: f64) -> Enclosure {
        let (value, _, error) = self.sum(epsilon);
        let aliasing = self.aliasing(epsilon);
        let scale = self.log_moment - self.c * epsilon;
        let slack =
            self.log_moment_error + 4.0 * f64::EPSILON * (self.log_moment.abs() + (self.c * epsilon).abs());
        // For c < 0 the sum is δ − 1.
        let value = if self.c > 0.0 { value } else { -value };
        let lower = value - error - aliasing;
        let upper = value + error;
        let (lower, upper) = (ln_or_zero(lower) + scale - slack, upper.ln() + scale + slack);
        if self.c > 0.0 {
            Enclosure::of_logs(lower, log_add(upper, self.log_left_out(epsilon)))
        } else {
            Enclosure::of_complement_logs(lower, upper)
        }
    }
}

impl ContourPoint {
    /// The difference of two, with its error.
    pub(crate) fn minus(self, other: Self) -> Self {
        let real = self.modulus * self.phase.cos() - other.modulus * other.phase.cos();
        let imaginary = self.modulus * self.phase.sin() - other.modulus * other.phase.sin();
        let rounding = |point: Self| point.modulus * f64::EPSILON * (4.0 + point.phase.abs());
        Self {
            modulus: real.hypot(imaginary),
            phase: imaginary.atan2(real),
            error: self.error + other.error + rounding(self) + rounding(other),
        }
    }
}

/// (1 + change)^T, kept in logarithms.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Power {
    log_modulus: f64,
    phase: f64,
    /// log of the factor by which errors can make it grow.
    growth: f64,
}

impl Power {
    /// Multiplies by (1 + z)^`steps`; z comes with a bound on its error.
    pub(crate) fn multiply(&mut self, (real, imaginary, error): (f64, f64, f64), steps: f64) {
        let log_modulus = log_modulus_1p(real, imaginary).max(-1e4);
        let phase = imaginary.atan2(1.0 + real);
        self.log_modulus += steps * log_modulus;
        self.phase += steps * phase;
        let rounding = 4.0 * f64::EPSILON * (log_modulus.abs() + phase.abs());
        self.growth += steps * ((error / log_modulus.exp()).ln_1p() + rounding);
    }

    /// The power and a bound on its error.
    pub(crate) fn point(self) -> ContourPoint {
        let modulus = self.log_modulus.exp();
        let error = if self.growth < 1.0 {
            modulus * self.growth.exp_m1()
        } else {
            (self.log_modulus + self.growth).min(0.0).exp().max(modulus)
        };
        ContourPoint {
            modulus,
            phase: self.phase,
            error,
        }
    }
}

fn ln_or_zero(x: f64) -> f64 {
    if x > 0.0 { x.ln() } else { f64::NEG_INFINITY }
}

impl Tilted<'_> {
    fn size(&self) -> usize {
        match self {
            Self::Smooth(_, nodes, _) | Self::Laplace(_, nodes, _) | Self::Atoms(nodes) => nodes.losses.len(),
            Self::Gaussian(_) => 8,
        }
    }

    fn quadrature_error(&self) -> f64 {
        match self {
            Self::Smooth(_, nodes, _) | Self::Laplace(_, nodes, _) | Self::Atoms(nodes) => nodes.error,
            Self::Gaussian(_) => 0.0,
        }
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        match self {
            Self::Smooth(loss, nodes, lifts) => loss.log_decay(nodes, y, lifts),
            Self::Gaussian(law) => law.log_decay(y),
            Self::Laplace(_, _, decay) => decay.log_at(y),
            Self::Atoms(_) => 0.0,
        }
    }

    fn log_moment(&self) -> (f64, f64) {
        match self {
            Self::Smooth(_, nodes, _) | Self::Laplace(_, nodes, _) | Self::Atoms(nodes) => {
                (nodes.log_moment, nodes.log_moment_error)
            }
            Self::Gaussian(law) => (law.log_moment, law.log_moment_error),
        }
    }

    /// φ − 1 at y = 0, h, …, `last`·h: real and imaginary part and a bound on the error.
    fn changes(&self, spacing: f64, last: usize) -> Vec<(f64, f64, f64)> {
        match self {
            Self::Smooth(_, nodes, _) | Self::Laplace(_, nodes, _) | Self::Atoms(nodes) => {
                smooth_changes(nodes, spacing, last)
            }
            Self::Gaussian(law) => (0..=last).map(|j| law.change(j as f64 * spacing)).collect(),
        }
    }
}

/// Y: where the bound on the characteristic function, log |E[e^{zS}]|/e^{A(c)} ≤ `decay`(Y, wanted), is below −`level`.
/// `None` where that takes more than `most` points.
pub(crate) fn find_reach(
    start: f64,
    spacing: f64,
    most: f64,
    level: f64,
    mut decay: impl FnMut(f64, f64) -> f64,
) -> Option<f64> {
    let mut reach = start;
    let mut before: Option<(f64, f64)> = None;
    for round in 0..24 {
        checkpoint();
        let count = reach / spacing;
        if count.max(1.0) > most.min(MAX_POINTS) {
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
            if round >= 4 && found > 0.25 * wanted && (gain <= 0.0 || straight > 2.0 * most * spacing) {
                return None;
            }
        }
        before = Some((reach, found));
        reach = next;
    }
    None
}

/// The bound on log |φ| of all steps at y. Leaves the lifts that show it.
fn best_decay(tilted: &mut [(Tilted<'_>, f64, f64)], y: f64, wanted: f64) -> f64 {
    let mut total = 0.0;
    for (part, steps, _) in tilted.iter_mut() {
        total += *steps
            * match part {
                Tilted::Smooth(loss, nodes, lifts) => best_lifts(loss, nodes, lifts, y, wanted / *steps),
                other => other.log_decay(y),
            };
    }
    total
}

/// [`SmoothLoss::log_decay`] with the best of a few lifts, the first that shows a decay by e^−`wanted`.
///
/// The lift that suits a loss without gaps is too high where most of the mass is nearly an atom, which lifting raises.
pub(crate) fn best_lifts(loss: &mut SmoothLoss, nodes: &Nodes, lifts: &mut Vec<f64>, y: f64, wanted: f64) -> f64 {
    let highest = loss.lifts(nodes, y);
    *lifts = highest.clone();
    let mut least = loss.log_decay(nodes, y, lifts);
    let mut worse = 0;
    for factor in [0.7, 0.5, 0.35, 0.25, 0.15, 0.1] {
        if -least >= wanted || worse >= 2 {
            break;
        }
        let lower: Vec<f64> = highest.iter().map(|lift| factor * lift).collect();
        let decay = loss.log_decay(nodes, y, &lower);
        if decay < least {
            least = decay;
            *lifts = lower;
        } else {
            worse += 1;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::{GaussianRun, tilt};

    /// A contour of a Gaussian run at tilt c with period `period`, so long that nothing is left beyond its end.
    fn long_contour(run: GaussianRun, c: f64, (below, above): (f64, f64), period: f64) -> Contour {
        let spacing = 2.0 * PI / period;
        let last = (9.0 / run.variance.sqrt() / spacing).ceil();
        let line = Line {
            c,
            log_moment: run.log_moment(c),
            log_moment_error: 0.0,
            spacing,
            decayed: 0.0,
            left_out: Vec::new(),
            size: 1,
        };
        let with_moment = |other: f64| (other, run.log_moment(other));
        let tilt = tilt(c, with_moment(below), with_moment(above), period);
        let points = (0..=last as usize).map(|j| run.point(c, j as f64 * spacing));
        Contour::through(line, &tilt, points.collect())
    }

    /// A contour of an atom at `loss` up to y = `reach`.
    fn atom_contour(loss: f64, c: f64, (below, above): (f64, f64), (spacing, reach): (f64, f64)) -> Contour {
        let line = Line {
            c,
            log_moment: c * loss,
            log_moment_error: 0.0,
            spacing,
            decayed: 1.0,
            left_out: Vec::new(),
            size: 1,
        };
        let with_moment = |other: f64| (other, other * loss);
        let tilt = tilt(c, with_moment(below), with_moment(above), 2.0 * PI / spacing);
        let point = |j: f64| ContourPoint {
            modulus: 1.0,
            phase: j * spacing * loss,
            error: 0.0,
        };
        Contour::through(
            line,
            &tilt,
            (0..=(reach / spacing) as usize).map(|j| point(j as f64)).collect(),
        )
    }

    #[test]
    fn aliasing_above_zero_attains_its_bound() {
        // g(S − ε + mP) is nearly 1 for every m ≥ 1, as c' = 0 has it; what comes from above is e^−50.
        let run = GaussianRun::new(1.0, 1.0);
        for (epsilon, period) in [(1.0, 12.0), (2.5, 15.0)] {
            let contour = long_contour(run, 0.3, (0.0, 10.0), period);
            let found = contour.delta(epsilon);
            let exact = run.log_delta(epsilon);
            assert!(
                found.log_lower <= exact + 1e-12 && exact <= found.log_upper,
                "{found:?} {exact}"
            );
            assert!(found.log_lower > exact - 1e-2, "{found:?} {exact}");
            // The sum is far above δ, so that half of the bound would not do.
            assert!(found.log_upper > exact + 0.1, "{found:?} {exact}");
        }
    }

    #[test]
    fn aliasing_below_zero_attains_its_bound_from_both_sides() {
        let run = GaussianRun::new(1.0, 1.0);
        for (epsilon, period) in [(-1.0, 12.0), (-3.0, 14.0)] {
            let contour = long_contour(run, -0.5, (-1.0, 0.0), period);
            let (value, _, error) = contour.sum(epsilon);
            let scale = (contour.log_moment - contour.c * epsilon).exp();
            let complement = run.log_complement(epsilon).exp();
            let (wrong, bound) = (-value * scale - complement, contour.aliasing(epsilon) * scale);
            assert!(wrong <= bound + error * scale && wrong > 0.9 * bound, "{wrong} {bound}");
            let found = contour.delta(epsilon);
            assert!(found.lower() <= 1.0 - complement && 1.0 - complement <= found.upper());
        }
    }

    #[test]
    fn an_atom_at_epsilon_attains_the_bound_on_the_tail() {
        // Every term beyond the last point is −h/(πy²), all but.
        let epsilon = 2.0;
        for reach in [40.0, 300.0] {
            let contour = atom_contour(epsilon, 0.5, (0.0, 1.0), (0.1, reach));
            let (value, _, error) = contour.sum(epsilon);
            let aliasing: f64 = (1..5)
                .map(|m| 2.0 * PI / 0.1 * f64::from(m))
                .map(|shift| -(-shift).exp_m1() * (-0.5 * shift).exp())
                .sum();
            let wrong = value - aliasing; // δ is 0
            assert!(wrong <= error && wrong > 0.9 * error, "{reach}: {wrong} {error}");
            assert_eq!(contour.delta(epsilon).lower(), 0.0);
            // Below 0 what is cut off makes 1 − δ = 1 too small.
            let contour = atom_contour(epsilon, -0.5, (-1.0, 0.0), (0.1, reach));
            assert_eq!(contour.delta(epsilon).lower(), 0.0);
            let (value, _, error) = contour.sum(epsilon);
            assert!(
                1.0 + value <= error && 1.0 + value > 0.9 * error,
                "{reach}: {value} {error}"
            );
        }
    }

    #[test]
    fn the_errors_of_the_points_bound_what_they_add_and_are_attained() {
        // Each point off by 1e-6 in the direction in which it counts most.
        let (run, c, epsilon) = (GaussianRun::new(1.0, 4.0), 0.8, 3.0);
        let exact = long_contour(run, c, (0.1, 10.0), 60.0);
        let mut wrong = long_contour(run, c, (0.1, 10.0), 60.0);
        for (j, point) in wrong.points.iter_mut().enumerate() {
            const ERROR: f64 = 1e-6;
            let y = j as f64 * exact.spacing;
            let towards = y * epsilon + (y * (2.0 * c + 1.0)).atan2(c * (c + 1.0) - y * y);
            let real = point.modulus * point.phase.cos() + ERROR * towards.cos();
            let imaginary = point.modulus * point.phase.sin() + ERROR * towards.sin();
            *point = ContourPoint {
                modulus: real.hypot(imaginary),
                phase: imaginary.atan2(real),
                error: ERROR,
            };
        }
        let (before, after) = (exact.sum(epsilon), wrong.sum(epsilon));
        let off = after.0 - before.0;
        assert!(off <= after.2 && off > 0.99 * after.2, "{off} {}", after.2);
    }

    #[test]
    fn rounding_is_within_its_bound_and_the_bound_is_not_idle() {
        // Far from c = 0 and at a large ε the phases are rounded by up to 1e-10.
        let mut worst = 0.0f64;
        for shift in [1e3, 1e5, 1e6] {
            let run = GaussianRun::new(1.0, 1.0);
            let mut contour = long_contour(run, 1.5, (0.1, 12.0), 40.0);
            let epsilon = 1.0;
            let (plain, _, plain_error) = contour.sum(epsilon);
            // All losses moved by `shift`, and ε with them.
            for (j, point) in contour.points.iter_mut().enumerate() {
                point.phase += j as f64 * contour.spacing * shift;
            }
            let (value, _, error) = contour.sum(epsilon + shift);
            assert!(
                (value - plain).abs() <= error + plain_error,
                "{shift}: {value} {plain} {error}"
            );
            worst = worst.max((value - plain).abs() / error);
        }
        assert!(worst > 0.001, "{worst}");
    }

    #[test]
    fn what_the_points_leave_out_is_added_once() {
        // All that is left out lies 12 above ε, where 1 − e^−u is 1: with c' near 0 the bound is its mass.
        let (epsilon, log_mass) = (1.0, -8.0);
        let mut contour = long_contour(GaussianRun::new(1.0, 1.0), 1.5, (0.1, 12.0), 40.0);
        let without = contour.delta(epsilon);
        contour.left_out = [1e-4, 0.3].map(|c| (c, log_mass + c * (epsilon + 12.0))).to_vec();
        let with = contour.delta(epsilon);
        let added = with.log_upper.exp() - without.log_upper.exp();
        let mass = f64::exp(log_mass) * -(-12.0f64).exp_m1();
        assert!(added >= mass && added < 1.01 * mass, "{added} {mass}");
        assert_eq!(with.log_lower, without.log_lower);
    }

    #[test]
    fn a_power_carries_the_error_of_its_base() {
        for (base, error, steps) in [
            (0.9, 1e-9, 7.0),
            (0.999, 1e-6, 2000.0),
            (0.5, 0.1, 3.0),
            (0.2, 0.3, 5.0),
        ] {
            let mut power = Power::default();
            power.multiply((base - 1.0, 0.0, error), steps);
            let point = power.point();
            let off = (base + error).powf(steps) - base.powf(steps);
            assert!(point.error + 1e-13 >= off, "{base} {steps}: {} {off}", point.error);
            assert!(
                point.error <= 1.1 * off + 1e-14,
                "{base} {steps}: {} {off}",
                point.error
            );
        }
    }

    #[test]
    fn a_high_power_is_that_of_high_precision() {
        // mpmath: (1 + mpc(mpf(-1e-7), mpf(3e-4)))**10**7
        let (real, imaginary) = (-0.562_946_215_861_236_5, 0.126_343_400_674_526_37);
        let mut power = Power::default();
        power.multiply((-1e-7, 3e-4, 0.0), 1e7);
        let point = power.point();
        let off = (point.modulus * point.phase.cos() - real).hypot(point.modulus * point.phase.sin() - imaginary);
        assert!(off <= point.error && point.error < 1e-11, "{off} {}", point.error);
        // mpmath: (1 + mpc(mpf(-1e-7), mpf(3e-4)*(1 + mpf(1e-9))))**10**7 is off by 1e-9·3000 of its modulus.
        let mut moved = Power::default();
        moved.multiply((-1e-7, 3e-4 * (1.0 + 1e-9), 3e-13), 1e7);
        let moved = moved.point();
        let off = (moved.modulus * moved.phase.cos() - real).hypot(moved.modulus * moved.phase.sin() - imaginary);
        assert!(off <= moved.error && off > 0.9 * moved.error, "{off} {}", moved.error);
    }

    #[test]
    fn a_difference_of_points_has_the_errors_of_both() {
        let point = |modulus: f64, phase: f64, error: f64| ContourPoint { modulus, phase, error };
        let difference = point(0.7, 0.0, 1e-5).minus(point(0.7 - 1e-5, 0.0, 1e-5));
        // The first may be too small by 1e-5 and the second too large.
        let off = (0.7 - 1e-5) - (0.7 - 1e-5 + 1e-5) - difference.modulus;
        assert!(off.abs() <= difference.error && off.abs() > 0.99 * difference.error);
        // Phases of 1e6 have 1e-10 in their last place: mpmath 2*sin(mpf(0.5)**21) is |e^{ia} − e^{ib}|, b − a = 2^−20.
        let turned = point(1.0, 1e6, 0.0).minus(point(1.0, 1e6 + 0.5f64.powi(20), 0.0));
        let exact = 9.536_743_164_062_139e-7;
        assert!((turned.modulus - exact).abs() <= turned.error && turned.error < 1e-9);
    }

    #[test]
    fn the_reach_is_where_the_bound_has_fallen_to_the_level_and_not_far_beyond() {
        let (level, spacing) = (40.0, 1e-3);
        let wanted = |reach: f64| level - (PI * reach).ln();
        for (start, decay) in [
            (0.1, (|y| -y) as fn(f64) -> f64),
            (1.0, |y| -0.5 * y * y),
            (3.0, |y| -y.sqrt()),
        ] {
            let reach = find_reach(start, spacing, 1e9, level, |y, _| decay(y)).filter(|&reach| reach > 0.0);
            let Some(reach) = reach else {
                assert!(decay(4.0) == -2.0, "only √y needs more than {MAX_POINTS} points");
                continue;
            };
            assert!(-decay(reach) >= wanted(reach), "{reach}");
            assert!(-decay(0.6 * reach) < wanted(0.6 * reach), "{reach}");
        }
        // A transform that does not decay: no number of points would do.
        assert_eq!(find_reach(1.0, spacing, 1e9, level, |_, _| -0.5), None);
        assert_eq!(find_reach(1.0, spacing, 900.0, level, |y, _| -y), None);
    }

    #[test]
    fn a_certified_contour_has_the_tail_of_a_gaussian_and_its_delta() {
        for (distance, steps, epsilon) in [(1.0, 1.0, 2.0), (0.1, 100.0, 3.0), (0.02, 1e5, 60.0)] {
            let run = GaussianRun::new(distance, steps);
            let mut segments = run.segments();
            let c = crate::inversion::saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
            let tilt = Tilt::near(&mut segments, c, epsilon, -14.0).unwrap();
            let contour = Contour::new(&mut segments, &tilt, 1e8).unwrap();
            // The bound on the modulus from the last point on is that modulus.
            let last = (contour.points.len() - 1) as f64 * contour.spacing;
            let bound = contour.tail * PI * last;
            let modulus = contour.points[contour.points.len() - 1].modulus;
            let at_reach = modulus.powf(((last - contour.spacing) / last).powi(2));
            assert!(bound >= modulus && bound <= 1.001 * at_reach, "{bound} {modulus}");
            let found = contour.delta(epsilon);
            let exact = run.log_delta(epsilon);
            let slack = 1e-13 * (10.0 + epsilon * epsilon);
            assert!(
                found.log_lower <= exact + slack && exact <= found.log_upper + slack,
                "{found:?} {exact}"
            );
            assert!(found.width() < 1e-4, "{found:?}");
        }
    }
}
