//! One task of a sweep: a curve of losses is followed through the cells of one chunk, and its masses deposited.
//!
//! Half-cells are integrated by Gauss–Legendre rules whose error is bounded by the derivatives of Gaussians
//! (n = 3, 6, 32 nodes: relative error below [`QUADRATURE`] for widths up to `WIDTH_OF_n`, in units of
//! scale/(distance to the farthest centre + 5), as |He_n(x)| ≤ (|x| + 5)ⁿ for the n that count).
//!
//! The distance is that at the start of an interval. Within it it grows by its width, which is below 0.3 with 6 nodes, where 2.2 and not
//! 5 would do for He₁₂; with 32 nodes the error is below e^−90 at any rate.

use crate::grid::cells::Part;
use crate::grid::frame::{Frame, HalfCell, HalfCells, QUADRATURE};
use crate::loss::loss_curve::Sweep;
use crate::loss::smooth_piece::{Point, Scratch};
use crate::special::gauss_legendre::{GaussLegendre, SIX_NODES, THREE_NODES};
use crate::stopping::checkpoint;

/// Widths up to which each rule has a relative error of at most [`QUADRATURE`], see above; for twice the first the error
/// of 3 nodes is 7e-12.
const WIDTH_OF_3: f64 = 0.0755;
const WIDTH_OF_6: f64 = 1.48;
const WIDTH_OF_32: f64 = 12.0;
/// Added to the distance to the farthest centre, so that powers of the sum bound the Hermite polynomials.
const HERMITE_MARGIN: f64 = 5.0;
/// Accepted distance of a boundary between cells from its place, in units of h. It counts as an error of the loss.
const BOUNDARY_TOLERANCE: f64 = 1e-9;
/// Accepted distance of a boundary inside a cell. Any place is correct; a good one makes the lower law tighter.
const MIDDLE_TOLERANCE: f64 = 1e-2;
/// Maximum numbers of attempts to find a boundary: by Newton's method first, then by safeguarded bisection.
const MAX_NEWTON_STEPS: usize = 6;
const MAX_ATTEMPTS: usize = 60;
/// The boundary inside a cell is moved from its middle by at most this fraction of its width.
const MAX_OFFSET: f64 = 0.3;
/// Number of boundaries from which on differences of the density of the loss estimate its derivative.
const MIN_DIFFERENCES: usize = 3;
/// Tilted masses below this do not count in the error of losses.
const MIN_MASS: f64 = 1e-25;

impl Frame {
    /// Adds the masses of the cells of a curve in one chunk, each of `size` grid intervals, to `masses`.
    pub(crate) fn sweep_chunk(&self, sweep: &Sweep<'_>, part: Part, masses: HalfCells, size: i64) -> HalfCells {
        Walk::new(self, sweep, part, masses, size).run()
    }
}

/// A walk along the curve, from one boundary of half-cells to the next.
struct Walk<'a> {
    frame: &'a Frame,
    sweep: &'a Sweep<'a>,
    part: Part,
    /// Grid intervals in a cell, and their width.
    size: i64,
    width: f64,
    masses: HalfCells,
    scratch: Scratch,
    /// The last boundary: coordinate, loss, slope of the loss and its derivative.
    x: f64,
    loss: f64,
    slope: f64,
    bend: f64,
    /// log of the density of the loss at the last boundary, its derivative by differences, and that one boundary before.
    log_density: f64,
    growth: f64,
    growth_before: f64,
    /// Boundaries so far.
    boundaries: usize,
}

impl<'a> Walk<'a> {
    fn new(frame: &'a Frame, sweep: &'a Sweep<'a>, part: Part, mut masses: HalfCells, size: i64) -> Self {
        let mut scratch = Scratch::default();
        let start = sweep.curve.point(part.from, &mut scratch);
        masses.loss_error = (frame.at(part.first) - start.loss).max(0.0);
        Self {
            frame,
            sweep,
            part,
            size,
            width: size as f64 * frame.spacing,
            masses,
            scratch,
            x: part.from,
            loss: start.loss,
            slope: start.slope,
            bend: 0.0,
            log_density: start.log_density - start.slope.ln(),
            growth: 0.0,
            growth_before: 0.0,
            boundaries: 0,
        }
    }

    fn point(&mut self, x: f64) -> Point {
        self.sweep.curve.point(x, &mut self.scratch)
    }

    fn run(mut self) -> HalfCells {
        let to = self.part.to;
        let mut first = self.part.first;
        while first <= self.part.last && self.x < to {
            checkpoint();
            for above in [false, true] {
                let cell = HalfCell {
                    first,
                    size: self.size,
                    above,
                };
                let target = self.target(cell);
                let found = if above && first + self.size > self.part.last {
                    // The rest of the chunk belongs to its last cell.
                    let beyond = self.point(to).loss - target;
                    self.masses.loss_error = self.masses.loss_error.max(beyond);
                    None
                } else {
                    self.boundary(target, above)
                };
                let next = found.map_or(to, |(x, _)| x);
                if next > self.x {
                    self.integrate(self.x, next, cell);
                }
                let Some((_, point)) = found.filter(|_| next < to) else {
                    self.x = to;
                    break;
                };
                // A sweep that starts in the upper half of a cell has nothing in the lower.
                if next > self.x {
                    self.advance(next, point);
                }
            }
            first += self.size;
        }
        self.masses
    }

    /// The loss at which a half-cell ends: the next grid point, or about the middle of the cell.
    ///
    /// The middle is moved so that the outputs that are merged around a grid point have its log(p/q): in a symmetric
    /// interval about g that would be h²/12·(ρ'/ρ − 1/2) above g, with ρ the density of the loss.
    fn target(&self, cell: HalfCell) -> f64 {
        if cell.above {
            return self.frame.at(cell.first + cell.size);
        }
        let ahead = if self.boundaries >= MIN_DIFFERENCES {
            self.growth + 1.5 * (self.growth - self.growth_before)
        } else {
            self.growth
        };
        let offset = self.width * self.width / 12.0 * (ahead - 0.5);
        let limit = MAX_OFFSET * self.width;
        self.frame.at(cell.first) + 0.5 * self.width - offset.clamp(-limit, limit)
    }

    /// Where the loss passes `target`, with the point there; `None` if that is beyond the end of the chunk.
    fn boundary(&mut self, target: f64, above: bool) -> Option<(f64, Point)> {
        let to = self.part.to;
        // A step along the curve with the slope in its middle, then Newton's method.
        let rough = (target - self.loss) / self.slope;
        let slope = (self.slope + 0.5 * self.bend * rough).max(0.5 * self.slope);
        let mut guess = self.x + (target - self.loss) / slope;
        let mut attempt = 0;
        loop {
            if guess.is_nan() || guess >= to {
                // Beyond the end of the chunk, or a guess that overshot it.
                if self.point(to).loss <= target {
                    return None;
                }
                guess = self.sweep.boundary(target, &mut self.scratch).min(to);
            }
            let point = self.point(guess);
            let miss = point.loss - target;
            let allowed = if above { BOUNDARY_TOLERANCE } else { MIDDLE_TOLERANCE };
            let newton = if attempt < MAX_NEWTON_STEPS {
                guess - miss / point.slope
            } else {
                f64::NAN
            };
            let fine = miss.abs() <= allowed * self.frame.spacing + 4.0 * f64::EPSILON * target.abs();
            attempt += 1;
            if fine || newton == guess || attempt == MAX_ATTEMPTS {
                if above {
                    self.masses.loss_error = self.masses.loss_error.max(miss.abs());
                }
                return Some((guess, point));
            }
            guess = if newton > self.x {
                newton
            } else {
                self.sweep.boundary(target, &mut self.scratch)
            };
        }
    }

    /// Makes a boundary that was found the last one.
    fn advance(&mut self, x: f64, point: Point) {
        self.bend = (point.slope - self.slope) / (x - self.x);
        let log_density = point.log_density - point.slope.ln();
        self.growth_before = self.growth;
        self.growth = (log_density - self.log_density) / (point.loss - self.loss);
        self.log_density = log_density;
        self.boundaries += 1;
        (self.x, self.slope, self.loss) = (x, point.slope, point.loss);
    }

    /// Deposits the mass of the outputs in [left, right], which lie in one half-cell. Where panels would be narrower than numbers are apart, the
    /// error of the masses becomes infinite.
    fn integrate(&mut self, left: f64, right: f64, cell: HalfCell) {
        let mut start = left;
        while start < right && self.frame.has_budget() {
            let before = self.masses.work;
            self.point(start);
            let curve = &*self.sweep.curve;
            let unit = curve.scale() / (curve.reach(start, self.frame.is_fine(), &self.scratch) + HERMITE_MARGIN);
            let mut end = right;
            if end - start > WIDTH_OF_32 * unit {
                // The reach grows by the width itself.
                end = (start + 0.5 * WIDTH_OF_32 * unit).min(right);
                if end <= start {
                    // No number lies inside so narrow a panel, and the error of any rule on a wider one is unknown.
                    self.masses.mass_error = f64::INFINITY;
                    return;
                }
            }
            let half_width = 0.5 * (end - start);
            let width = (end - start) / unit;
            let mut add = |node: f64, weight: f64| {
                self.add(cell, start + half_width * (1.0 + node), weight * half_width);
            };
            if width <= WIDTH_OF_3 {
                THREE_NODES.iter().for_each(|&(node, weight)| add(node, weight));
            } else if width <= WIDTH_OF_6 {
                SIX_NODES.iter().for_each(|&(node, weight)| add(node, weight));
            } else {
                let rule = GaussLegendre::get();
                rule.nodes
                    .iter()
                    .zip(&rule.weights)
                    .for_each(|(&node, &weight)| add(node, weight));
            }
            self.frame.spend(self.masses.work - before);
            start = end;
        }
    }

    /// Deposits one node of a rule, with its errors.
    fn add(&mut self, cell: HalfCell, x: f64, weight: f64) {
        let point = self.point(x);
        let (frame, masses) = (self.frame, &mut self.masses);
        masses.work += 3 * (16 + 2 * self.scratch.terms());
        let log_mass = point.log_density + weight.ln();
        let mass = (log_mass + frame.c * point.loss - frame.log_scale).exp();
        if mass > MIN_MASS {
            masses.loss_error = masses
                .loss_error
                .max(8.0 * f64::EPSILON * (point.size + frame.origin.abs()));
        }
        masses.mass_error += mass * (QUADRATURE + 8.0 * f64::EPSILON * (4.0 + point.log_density.abs()));
        frame.deposit(masses, cell, point.loss, log_mass);
    }
}

#[cfg(test)]
mod tests;
