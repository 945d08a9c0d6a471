//! δ(ε) of a composition by complex-order inversion: a sum over a line Re z = c.
//!
//! With A(z) = Σ T·K(z), the log of E[e^{zS}] for the total loss S of all steps,
//!
//! > δ(ε) = (1/2π) ∫ e^{A(c+iy) − (c+iy)ε} / ((c+iy)(c+iy+1)) dy for c > 0 (theory §3),
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

use super::enclosure::Enclosure;
use super::segment::Segment;
use super::tilt::Tilt;
use crate::pair::gaussian_loss::TiltedGaussians;
use crate::pair::nodes::Nodes;
use crate::pair::{StepLoss, nodes::SmoothLoss};
use crate::special::log_space::log_modulus_1p;
use std::f64::consts::PI;

/// Products of nodes in x and y that an inversion may cost: 20 ms or so.
const MOST_PRODUCTS: f64 = 6e7;
/// Nodes in y at most.
const MOST_NODES: f64 = 2e5;

/// E[e^{zS}] on a line, ready for any ε near the one it was made for.
#[derive(Debug)]
pub(super) struct Contour {
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
}

/// E[e^{zS}]/e^{A(c)} at one y.
#[derive(Debug, Clone, Copy)]
struct ContourPoint {
    modulus: f64,
    phase: f64,
    error: f64,
}

/// One segment's loss tilted by c, with what its characteristic function needs.
enum Tilted<'a> {
    Smooth(&'a mut SmoothLoss, Box<Nodes>, Vec<f64>),
    Gaussian(TiltedGaussians),
}

impl Contour {
    /// The contour at a tilt, with errors of about e^−`level` of e^{A(c) − cε}; `None` where that would cost too much
    /// or a step's loss has no analytic form.
    pub(super) fn new(segments: &mut [Segment], tilt: &Tilt) -> Option<Self> {
        let &Tilt {
            c,
            level,
            below,
            above,
            period,
            ..
        } = tilt;
        let spacing = 2.0 * PI / period;

        let quadrature = |segment: &Segment, count: usize| -level - segment.steps.ln() - (count as f64).ln() - 1.0;
        let count = segments.len();
        let mut tilted: Vec<(Tilted<'_>, f64, f64)> = Vec::with_capacity(count);
        for segment in segments.iter_mut() {
            let (steps, tolerance) = (segment.steps, quadrature(segment, count));
            let part = match &mut segment.loss {
                StepLoss::Smooth(loss) => {
                    let none = vec![0.0; loss.pieces().len()];
                    let nodes = loss.nodes(c, 0.0, &none, tolerance);
                    Tilted::Smooth(loss, Box::new(nodes), none)
                }
                StepLoss::Gaussian(loss) => Tilted::Gaussian(loss.tilted(c)),
                StepLoss::Laplace(_) => return None,
            };
            tilted.push((part, steps, tolerance));
        }
        let reach = find_reach(&mut tilted, level, 1.2 * (2.0 * level).sqrt() / tilt.spread, spacing)?;
        let size: usize = tilted.iter().map(|(part, ..)| part.size()).sum();
        if (reach / spacing).max(1.0) * size as f64 > MOST_PRODUCTS {
            return None;
        }
        // Again, certified up to that height.
        let mut decay = 0.0;
        for (part, steps, tolerance) in &mut tilted {
            if let Tilted::Smooth(loss, nodes, lifts) = part {
                **nodes = loss.nodes(c, reach, lifts, *tolerance);
                if nodes.error > 1e-3 {
                    return None;
                }
            }
            decay += *steps * part.log_decay(reach);
        }
        let last = (reach / spacing).ceil().max(2.0);
        let size: usize = tilted.iter().map(|(part, ..)| part.size()).sum();
        if last * size as f64 > 2.0 * MOST_PRODUCTS {
            return None;
        }
        let mut contour = Self {
            c,
            log_moment: 0.0,
            log_moment_error: 0.0,
            spacing,
            points: Vec::new(),
            tail: decay.exp() / (PI * spacing * last),
            below,
            above,
        };
        contour.fill(&tilted, last as usize);
        Some(contour)
    }

    fn fill(&mut self, tilted: &[(Tilted<'_>, f64, f64)], last: usize) {
        let mut powers = vec![(0.0, 0.0, 0.0); last + 1]; // log modulus, phase, log of the growth by errors
        for (part, steps, _) in tilted {
            let (log_moment, error) = part.log_moment();
            self.log_moment += steps * log_moment;
            self.log_moment_error += steps * (error + f64::EPSILON * log_moment.abs());
            let changes = part.changes(self.spacing, last);
            for (power, (real, imaginary, error)) in powers.iter_mut().zip(changes) {
                let log_modulus = log_modulus_1p(real, imaginary).max(-1e4);
                let phase = imaginary.atan2(1.0 + real);
                let modulus = log_modulus.exp();
                power.0 += steps * log_modulus;
                power.1 += steps * phase;
                let rounding = 4.0 * f64::EPSILON * (log_modulus.abs() + phase.abs());
                power.2 += steps * ((error / modulus).ln_1p() + rounding);
            }
        }
        let point = |(log_modulus, phase, growth): (f64, f64, f64)| {
            let modulus = log_modulus.exp();
            let error = if growth < 1.0 {
                modulus * growth.exp_m1()
            } else {
                (log_modulus + growth).min(0.0).exp().max(modulus)
            };
            ContourPoint { modulus, phase, error }
        };
        self.points = powers.into_iter().map(point).collect();
    }

    /// The sum at ε, its derivative in ε and its error, all over e^{A(c) − cε}.
    fn sum(&self, epsilon: f64) -> (f64, f64, f64) {
        let c = self.c;
        let (mut value, mut slope, mut error) = (0.0, 0.0, 0.0);
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
            value += part;
            slope -= c * part - y * turned; // Re of −z·(part + i·turned)
            let size = scale * (real * real + imaginary * imaginary).sqrt();
            let angle = 4.0 * f64::EPSILON * (2.0 + point.phase.abs() + y * epsilon.abs());
            error += size * angle + point.error * weight / (real * real + imaginary * imaginary).sqrt();
        }
        let scale = self.spacing / PI;
        (scale * value, scale * slope, scale * error + self.tail)
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

    /// δ(ε), certified.
    pub(super) fn delta(&self, epsilon: f64) -> Enclosure {
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
            Enclosure::of_logs(lower, upper)
        } else {
            Enclosure::of_complement_logs(lower, upper)
        }
    }
}

fn ln_or_zero(x: f64) -> f64 {
    if x > 0.0 { x.ln() } else { f64::NEG_INFINITY }
}

impl Tilted<'_> {
    fn size(&self) -> usize {
        match self {
            Self::Smooth(_, nodes, _) => nodes.losses.len(),
            Self::Gaussian(_) => 8,
        }
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        match self {
            Self::Smooth(loss, nodes, lifts) => loss.log_decay(nodes, y, lifts),
            Self::Gaussian(law) => law.log_decay(y),
        }
    }

    fn log_moment(&self) -> (f64, f64) {
        match self {
            Self::Smooth(_, nodes, _) => (nodes.log_moment, nodes.log_moment_error),
            Self::Gaussian(law) => (law.log_moment, law.log_moment_error),
        }
    }

    /// φ − 1 at y = 0, h, …, `last`·h: real and imaginary part and a bound on the error.
    fn changes(&self, spacing: f64, last: usize) -> Vec<(f64, f64, f64)> {
        match self {
            Self::Smooth(_, nodes, _) => smooth_changes(nodes, spacing, last),
            Self::Gaussian(law) => (0..=last).map(|j| law.change(j as f64 * spacing)).collect(),
        }
    }
}

/// Σ w (e^{ijhℓ} − 1) for j = 0..=last, by turning each node's e^{ijhℓ} − 1 by e^{ihℓ} from one j to the next.
///
/// E ← E + D + ED with D = e^{ihℓ} − 1 exact: small changes keep their digits, and j turns add at most 3j
/// roundings of the largest |E|.
fn smooth_changes(nodes: &Nodes, spacing: f64, last: usize) -> Vec<(f64, f64, f64)> {
    let count = nodes.losses.len().next_multiple_of(LANES);
    let mut turns = Turns {
        weights: vec![0.0; count],
        step: (vec![0.0; count], vec![0.0; count]),
        state: (vec![0.0; count], vec![0.0; count]),
    };
    for (i, (&weight, &loss)) in nodes.weights.iter().zip(&nodes.losses).enumerate() {
        turns.weights[i] = weight;
        let angle = spacing * loss;
        turns.step.0[i] = -2.0 * (0.5 * angle).sin().powi(2);
        turns.step.1[i] = angle.sin();
    }
    let sums = pulp::Arch::new().dispatch(|| turns.run(last));
    sums.into_iter()
        .enumerate()
        .map(|(j, (real, imaginary))| {
            let y = j as f64 * spacing;
            let size = (y * nodes.mean_size).min(2.0);
            let rounding = (3.0 * j as f64 + 16.0) * f64::EPSILON * size
                + (nodes.weight_rounding.1 * y).min(2.0 * nodes.weight_rounding.0)
                + nodes.c.hypot(y) * nodes.loss_rounding;
            (real, imaginary, 1.5 * nodes.error + rounding)
        })
        .collect()
}

/// Nodes handled at once, so that sums have a fixed order whatever the processor's vectors are.
const LANES: usize = 8;

struct Turns {
    weights: Vec<f64>,
    step: (Vec<f64>, Vec<f64>),
    state: (Vec<f64>, Vec<f64>),
}

impl Turns {
    #[inline(always)]
    fn run(&mut self, last: usize) -> Vec<(f64, f64)> {
        let mut sums = Vec::with_capacity(last + 1);
        sums.push((0.0, 0.0));
        for _ in 0..last {
            let (mut real, mut imaginary) = ([0.0; LANES], [0.0; LANES]);
            let weights = self.weights.chunks_exact(LANES);
            let steps = self.step.0.chunks_exact(LANES).zip(self.step.1.chunks_exact(LANES));
            let states = self
                .state
                .0
                .chunks_exact_mut(LANES)
                .zip(self.state.1.chunks_exact_mut(LANES));
            for ((w, (dr, di)), (er, ei)) in weights.zip(steps).zip(states) {
                for i in 0..LANES {
                    let r = er[i] + dr[i] + (er[i] * dr[i] - ei[i] * di[i]);
                    let m = ei[i] + di[i] + (er[i] * di[i] + ei[i] * dr[i]);
                    er[i] = r;
                    ei[i] = m;
                    real[i] += w[i] * r;
                    imaginary[i] += w[i] * m;
                }
            }
            sums.push((real.iter().sum(), imaginary.iter().sum()));
        }
        sums
    }
}

/// Y: where the bound on the characteristic function is below e^{−level}. Leaves the lifts that show it.
fn find_reach(tilted: &mut [(Tilted<'_>, f64, f64)], level: f64, start: f64, spacing: f64) -> Option<f64> {
    let size: usize = tilted.iter().map(|(part, ..)| part.size()).sum();
    let mut reach = start;
    for _ in 0..24 {
        let wanted = level - (PI * reach).ln();
        let decay = -best_decay(tilted, reach, wanted);
        if decay >= wanted {
            return Some(reach);
        }
        let short = (wanted / decay.max(1e-3 * wanted)).sqrt();
        reach *= (1.03 * short).clamp(1.05, 3.0);
        let count = reach / spacing;
        if count > MOST_NODES || count * size as f64 > MOST_PRODUCTS {
            return None;
        }
    }
    None
}

/// The bound on log |φ| of all steps at y with the best of a few lifts, the first that meets `wanted`.
///
/// The lift that suits a loss without gaps is too high where most of the mass is nearly an atom, which lifting raises.
fn best_decay(tilted: &mut [(Tilted<'_>, f64, f64)], y: f64, wanted: f64) -> f64 {
    let mut total = 0.0;
    for (part, steps, _) in tilted.iter_mut() {
        let share = wanted / *steps;
        let Tilted::Smooth(loss, nodes, lifts) = part else {
            total += *steps * part.log_decay(y);
            continue;
        };
        let highest = loss.lifts(nodes, y);
        *lifts = highest.clone();
        let mut least = loss.log_decay(nodes, y, lifts);
        for factor in [0.5, 0.25, 0.1] {
            if -least >= share {
                break;
            }
            let lower: Vec<f64> = highest.iter().map(|lift| factor * lift).collect();
            let decay = loss.log_decay(nodes, y, &lower);
            if decay < least {
                least = decay;
                *lifts = lower;
            } else if factor < 0.5 {
                break;
            }
        }
        total += *steps * least;
    }
    total
}
