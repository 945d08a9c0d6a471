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
/// Maximum number of nodes.
const MOST_NODES: usize = 1600;
/// The number of nodes is a multiple of this.
const NODE_STEP: usize = 4;
/// Nodes at which the errors of a contour are predicted.
const SAMPLES: usize = 12;
/// Parts of the error that is asked for: of the rule, of the nodes left out, of the values.
const RULE_PART: f64 = 0.3;
const TAIL_PART: f64 = 0.2;
const VALUES_PART: f64 = 0.5;
/// Cells in u by which the integral over the left hyperbola is bounded: how many narrow ones there are near u = 0, where the integrand changes most, their
/// width, that of the others, and how many there are at most. With narrow ones of twice the width a bound was an eighth larger.
const NARROW_CELLS: usize = 50;
const NARROW_CELL: f64 = 0.02;
const CELL: f64 = 0.1;
const LAST_CELL: usize = 250;
/// The left hyperbola ends where e^{Re sK} is below e^{−80}; the rest is bounded as a whole.
const NEGLIGIBLE: f64 = -80.0;

/// The smallest u of a cell.
fn start_of_cell(cell: usize) -> f64 {
    let narrow = cell.min(NARROW_CELLS);
    narrow as f64 * NARROW_CELL + (cell - narrow) as f64 * CELL
}

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
            let (from, to) = (start_of_cell(cell), start_of_cell(cell + 1));
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
            let length = self.scale * to.cosh() * (to - from);
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

    /// An estimate of what the errors of the values of φ will contribute.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bins::chain::Chain;
    use crate::bins::lattice::Lattice;

    /// One bin in one epoch: W is log-normal with the variance 1/σ², and B = σ².
    fn one_bin(noise: f64) -> Transform {
        let chain = Chain::new(1, 1, 0.0, 0.0, noise);
        let lattice = Lattice::new(&chain);
        Transform::new(chain, lattice)
    }

    /// The nodes from `first` to `last`, as they enter E[(K − W)₊].
    fn sum(contour: &Contour, transform: &Transform, level: f64, (first, last): (usize, usize)) -> f64 {
        let term = |j: usize| {
            let (s, step) = contour.node(j);
            ((s * level).exp() * step / (s * s) * transform.at(s).value).im
        };
        (first..=last).map(term).sum()
    }

    /// φ is near 1 on the contour, and the spacing such that the first error term of the vertical line through s₀ is 0.735 times its
    /// bound: half of the bound is too little.
    #[test]
    fn the_error_of_the_rule_is_as_large_as_bounded_on_the_right() {
        let transform = one_bin(3.0);
        let (start, angle) = (1.0 / 64.0, 0.05_f64);
        let scale = 0.5 * start / (2.0 * angle).sin();
        let contour = Contour {
            start,
            angle,
            scale,
            spacing: 2.0 * PI / (7.0 * scale / start),
            count: 60,
        };
        let level = 8.0 / start;
        let found = sum(&contour, &transform, level, (0, contour.count));
        let off = (found - (level - 1.0)).abs();
        let bound = contour.of_rule(&transform, level);
        assert!(contour.left_out(&transform, level) < 1e-3 * bound);
        assert!(off <= bound && 0.5 * bound < off, "{off} {bound}");
    }

    /// A contour that passes next to the pole at 0, and K near 0: nearly all of the error is that of the hyperbola on the left.
    #[test]
    fn the_error_of_the_rule_is_as_large_as_bounded_on_the_left() {
        let transform = one_bin(3.0);
        let (start, angle) = (1.0 / 256.0, 0.2_f64);
        let contour = Contour {
            start,
            angle,
            scale: 0.9 * start / (2.0 * angle).sin(),
            spacing: 0.3,
            count: 40,
        };
        let level = 0.01 / start;
        let found = sum(&contour, &transform, level, (0, contour.count));
        let mut narrow = contour;
        narrow.spacing /= 8.0;
        narrow.count *= 8;
        let exact = sum(&narrow, &transform, level, (0, narrow.count));
        let off = (found - exact).abs();
        let bound = contour.of_rule(&transform, level);
        assert!(off <= bound && 0.5 * bound < off, "{off} {bound}");
    }

    /// The nodes after the last one, added up.
    #[test]
    fn what_is_left_out_is_as_large_as_bounded() {
        let transform = one_bin(10.0);
        let (start, angle) = (1.0 / 64.0, 0.05_f64);
        let contour = Contour {
            start,
            angle,
            scale: 0.5 * start / (2.0 * angle).sin(),
            spacing: 0.05,
            count: 80,
        };
        let level = 1.0;
        let rest = sum(&contour, &transform, level, (contour.count + 1, contour.count + 200)).abs();
        let bound = contour.left_out(&transform, level);
        assert!(rest <= bound && 0.5 * bound < rest, "{rest} {bound}");
    }
}
