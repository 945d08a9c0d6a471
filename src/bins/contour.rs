//! E[(K − W)₊] as an integral over a hyperbola: its nodes, and the error of the trapezoid rule.
//!
//! E[(K − W)₊] = (1/2πi)·∫ e^{sK}·φ(s)·s⁻² ds over s(u) = s₀ − μ·sin(d − iu). In the strip |Im u| < d the curves go from the vertical
//! line through s₀ to a hyperbola that is turned by 2d; the rule with spacing h is off by at most (M₊ + M₋)/(2π·(e^{2πd/h} − 1)), where
//! M₊ and M₋ bound the integrals of the modulus over these two.

use crate::bins::transform::Transform;
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;
use std::f64::consts::PI;

/// Half angles d that are tried: small ones where turning s is expensive.
const ANGLES: [f64; 8] = [0.05, 0.08, 0.12, 0.17, 0.23, 0.3, 0.4, 0.5];
/// Points s₀ that are tried: powers of √2 from the first to the second.
const STARTS: (i32, i32) = (-18, 18);
/// Nodes at most.
const MOST_NODES: usize = 1600;
/// The number of nodes is a multiple of it.
const NODE_STEP: usize = 4;
/// Nodes at which the errors of a contour are predicted.
const SAMPLES: usize = 12;
/// Parts of the error that is asked for: of the rule, of the nodes left out, of the values.
const RULE_PART: f64 = 0.3;
const TAIL_PART: f64 = 0.2;
const VALUES_PART: f64 = 0.5;
/// Width of the cells in u by which the integral over the left hyperbola is bounded, and the largest u.
const CELL: f64 = 0.1;
const LAST_CELL: usize = 200;
/// The left hyperbola ends where e^{Re sK} is below e^{−80}; the rest is bounded as a whole.
const NEGLIGIBLE: f64 = -80.0;

/// Nodes on a hyperbola: u = 0, h, ..., `count`·h and their mirror images.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contour {
    start: f64,
    angle: f64,
    scale: f64,
    spacing: f64,
    pub(super) count: usize,
}

impl Contour {
    /// The contour for K = `level` whose error, at most `tolerance` if that is possible, takes the fewest nodes.
    pub(super) fn choose(transform: &Transform, level: f64, tolerance: f64) -> Option<Self> {
        let mut best: Option<(f64, Self)> = None;
        for power in STARTS.0..=STARTS.1 {
            for angle in ANGLES {
                let start = (0.5 * f64::from(power)).exp2();
                let Some(contour) = Self::new(transform, level, tolerance, (start, angle)) else {
                    continue;
                };
                let count = contour.count as f64;
                if best.is_some_and(|(least, _)| count >= least) {
                    continue;
                }
                let excess = contour.predicted(transform, level) / (VALUES_PART * tolerance);
                // Ten times the error is worth some three times the nodes.
                let cost = count * excess.max(1.0).sqrt();
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, contour));
                }
            }
        }
        best.map(|(_, contour)| contour)
    }

    fn new(transform: &Transform, level: f64, tolerance: f64, (start, angle): (f64, f64)) -> Option<Self> {
        checkpoint();
        let scale = 0.5 * start / (2.0 * angle).sin();
        let mut found = Self {
            start,
            angle,
            scale,
            spacing: 1.0,
            count: 0,
        };
        let sides = found.sides(transform, level);
        if !sides.is_finite() {
            return None;
        }
        found.spacing = 2.0 * PI * angle / (sides / (RULE_PART * tolerance)).ln_1p();
        while found.count < MOST_NODES {
            found.count += NODE_STEP;
            if found.left_out(transform, level) < TAIL_PART * tolerance {
                return Some(found);
            }
        }
        None
    }

    /// s(u) for u = `node`·h, and (h/π)·ds/du, halved at u = 0.
    pub(super) fn node(&self, node: usize) -> (Complex64, Complex64) {
        let u = node as f64 * self.spacing;
        let angle = Complex64::new(self.angle, -u);
        let half = if node == 0 { 0.5 } else { 1.0 };
        let step = Complex64::i() * angle.cos() * (self.scale * self.spacing / PI * half);
        (self.start - self.scale * angle.sin(), step)
    }

    /// Bound on the error of the rule with all nodes.
    pub(super) fn of_rule(&self, transform: &Transform, level: f64) -> f64 {
        self.sides(transform, level) / (2.0 * PI * self.angle / self.spacing).exp_m1()
    }

    /// (M₊ + M₋)/2π.
    fn sides(&self, transform: &Transform, level: f64) -> f64 {
        let right = (self.start * level + transform.log_bound(self.start)).exp() * PI / self.start;
        (right + self.left_side(transform, level)) / (2.0 * PI) * (1.0 + 1e-9)
    }

    /// Bound on the integral of the modulus over the hyperbola that is turned by 2d, cell by cell.
    fn left_side(&self, transform: &Transform, level: f64) -> f64 {
        let (sin, cos) = (2.0 * self.angle).sin_cos();
        let real = |u: f64| self.start - self.scale * sin * u.cosh();
        let mut sum = 0.0;
        for cell in 0..LAST_CELL {
            let (from, to) = (cell as f64 * CELL, (cell + 1) as f64 * CELL);
            let (high, low) = (real(from), real(to));
            let imaginary = self.scale * cos * from.sinh();
            if high * level < NEGLIGIBLE {
                // |ds|/|s|² is at most cosh u/(μcos²·sinh²u), whose integral is 1/(cos·Im s); here the modulus only falls.
                let modulus = transform.log_modulus(Complex64::new(high, imaginary), 2.0 * self.angle);
                return 2.0 * (sum + (high * level + modulus).exp() / (cos * imaginary));
            }
            let nearest = if low > 0.0 {
                low
            } else if high < 0.0 {
                high
            } else {
                0.0
            };
            let modulus = transform.log_modulus_between(low, imaginary, 0.0);
            let length = self.scale * to.cosh() * CELL;
            sum += (high * level + modulus).exp() * length / (nearest * nearest + imaginary * imaginary);
        }
        f64::INFINITY
    }

    /// Bound on what the nodes from the last one on, without it, add up to.
    pub(super) fn left_out(&self, transform: &Transform, level: f64) -> f64 {
        let (s, _) = self.node(self.count);
        let modulus = transform.log_modulus(s, self.angle);
        (s.re * level + modulus).exp() / (PI * self.angle.cos() * s.im) * (1.0 + 1e-9)
    }

    /// About what the errors of the values of φ will contribute.
    fn predicted(&self, transform: &Transform, level: f64) -> f64 {
        let stride = (self.count / SAMPLES).max(1);
        (0..self.count)
            .step_by(stride)
            .map(|j| {
                let (s, step) = self.node(j);
                transform.turn(s).error * (s.re * level).exp() * step.norm() / s.norm_sqr() * stride as f64
            })
            .sum()
    }
}
