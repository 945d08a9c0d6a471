//! The loss of one step on a grid: an upper law and a lower law, both within O(h²) of the truth.
//!
//! The grid is g_i = a + ih. Outputs are cut where the loss passes a grid point, and about halfway between, so that
//! every part lies in one cell [g_i, g_{i+1}] and belongs to one grid point. Where little of the tilted mass lies,
//! cells span several grid intervals. With p and q the masses under P and Q:
//!
//! * **upper** (Doroshenko et al. 2022, "connect the dots"): the mass of [g_i, g_{i+1}] is moved to its two ends so
//!   that p and q are kept. E[(1 − e^{ε−ℓ})₊] is convex in e^{−ℓ}, whose mean this keeps: it can only grow.
//! * **lower**: all outputs that belong to g_i are merged, which leaves one atom at log(p/q) (data processing: it can
//!   only shrink) within O(h²) of g_i; atoms are then lowered to g_i − s, with one s for all (0 for the
//!   heaviest, where that outweighs the rest), and where log(p/q) is lower than that to a lower point. δ is monotone in every loss.
//!
//! The grid is placed so that the heaviest point, often nearly an atom (nobody of the group in the batch), is on it.
//! Parts are integrated by Gauss–Legendre rules whose error is bounded by the derivatives of Gaussians
//! (n = 3, 6, 32 nodes: relative error below [`QUADRATURE`] for widths up to `WIDTHS`, in units of
//! scale/(distance to the farthest centre + 5)).

use crate::grid::cell_sizes::Profile;
use crate::loss::StepLoss;
use crate::loss::loss_curve::{LossCurve, Sweep};
use crate::loss::smooth_piece::Scratch;
use crate::special::gauss_legendre::GaussLegendre;
use crate::stopping::{carried, checkpoint};
use crate::threads::in_pool;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Relative error of the mass of a part: w^{2n}(n!)⁴/((2n+1)(2n)!³) at the widths below.
pub(crate) const QUADRATURE: f64 = 2e-13;
const WIDTH_OF_3: f64 = 0.07;
const WIDTH_OF_6: f64 = 1.5;
const WIDTH_OF_32: f64 = 12.0;
/// Grid intervals that one task sweeps, and that share one resolution.
pub(crate) const CHUNK: i64 = 256;
/// Coarsest resolution: 2^this grid intervals in one cell.
pub(crate) const COARSEST: i32 = 8;
/// Distance of a boundary from its place, in h, that is left as it is; it counts as an error of the loss.
const BOUNDARY: f64 = 1e-9;

/// One law on the grid, tilted: masses times e^{c·loss − scale}.
#[derive(Debug, Clone, Default)]
pub(crate) struct GridLaw {
    /// Index of the first mass.
    pub(crate) first: i64,
    /// Tilted masses.
    pub(crate) masses: Vec<f64>,
    /// Loss of index 0.
    pub(crate) origin: f64,
}

/// Both laws of one step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    pub(crate) upper: GridLaw,
    pub(crate) lower: GridLaw,
    /// log of what the masses are divided by.
    pub(crate) log_scale: f64,
    /// Bound on the error of a loss: rounding, and boundaries out of place.
    pub(crate) loss_error: f64,
    /// Bound on the error of all masses together (tilted): quadrature, rounding, what lies outside the support.
    pub(crate) mass_error: f64,
}

/// Masses of a run of half-cells, before the lower law is settled.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Index of the first grid point.
    pub(crate) first: i64,
    pub(crate) upper: Vec<f64>,
    /// P-mass nearest to each point, and the part of it that Q lacks.
    pub(crate) nearest: Vec<(f64, f64)>,
    pub(crate) loss_error: f64,
    pub(crate) mass_error: f64,
    /// Terms of densities that were evaluated.
    pub(crate) work: u64,
}

impl Cells {
    /// Both laws of `loss` at spacing h, tilted by c and scaled by e^−`log_scale` (about K(c)).
    ///
    /// Cells are coarse where a loss tilted by `saddle` has little mass. What it takes is subtracted from `allowance`; `None` once
    /// that is spent.
    pub(crate) fn new(
        loss: &mut StepLoss,
        (c, saddle): (f64, f64),
        log_scale: f64,
        spacing: f64,
        log_tolerance: f64,
        allowance: &mut u64,
    ) -> Option<Self> {
        let support = loss.support(c, log_tolerance);
        let origin = support.heaviest(c, spacing);
        let frame = Frame {
            origin,
            spacing,
            c,
            log_scale,
            allowance: *allowance,
            spent: AtomicU64::new(0),
        };
        let profile = Profile::new(&support.sweeps, &frame, saddle);
        let mut parts: Vec<Swept> = Vec::new();
        for sweep in &support.sweeps {
            parts.extend(frame.sweep(sweep, &profile));
        }
        for &(loss, log_mass) in &support.atoms {
            parts.push(frame.atom(loss, log_mass));
        }
        let spent = frame.spent.load(Ordering::Relaxed);
        *allowance = allowance.saturating_sub(spent);
        (spent < frame.allowance).then(|| frame.settle(&parts, support.outside))
    }
}

/// A cell: the grid points `first` and `first + size`, and which half of it.
#[derive(Debug, Clone, Copy)]
struct Cell {
    first: i64,
    size: i64,
    above: bool,
}

/// What one task sweeps: the outputs in [from, to], whose losses lie from grid point `first` to beyond grid point `last`.
#[derive(Debug, Clone, Copy)]
struct Part {
    first: i64,
    last: i64,
    from: f64,
    to: f64,
}

/// A curve cut into chunks of grid intervals.
struct Cuts {
    /// Grid points below the smallest and below the largest loss.
    low: i64,
    high: i64,
    /// Numbers of the chunks.
    chunks: std::ops::Range<i64>,
    /// The curve's coordinate at both ends of each chunk, ascending.
    ends: Vec<f64>,
}

/// The grid and the tilt.
pub(crate) struct Frame {
    pub(crate) origin: f64,
    pub(crate) spacing: f64,
    pub(crate) c: f64,
    pub(crate) log_scale: f64,
    /// Terms of densities that may be evaluated, and those that were, by all threads: next to no noise makes panels so narrow that no
    /// end of them would be seen. Whether it is spent does not depend on the threads.
    allowance: u64,
    spent: AtomicU64,
}

impl Frame {
    /// False if cells are so wide that most of Q's part of each lies in a corner of it, where quadrature would miss it:
    /// then all mass is moved to the upper end, or to the lower one, and Q is not needed.
    pub(crate) fn is_fine(&self) -> bool {
        self.spacing <= 1.0
    }

    /// Loss of grid point i.
    pub(crate) fn at(&self, i: i64) -> f64 {
        self.origin + i as f64 * self.spacing
    }

    /// An atom between two grid points.
    fn atom(&self, loss: f64, log_mass: f64) -> Swept {
        let i = ((loss - self.origin) / self.spacing).floor() as i64;
        let mut swept = Swept::starting(i, 1);
        let above = loss - self.at(i) > 0.5 * self.spacing;
        self.deposit(
            &mut swept,
            Cell {
                first: i,
                size: 1,
                above,
            },
            loss,
            log_mass,
        );
        swept.loss_error = 2.0 * f64::EPSILON * (loss.abs() + self.origin.abs());
        swept.mass_error = f64::EPSILON * (4.0 + log_mass.abs()) * swept.upper.iter().sum::<f64>();
        swept
    }

    /// Adds mass at `loss` in a cell to both laws.
    fn deposit(&self, swept: &mut Swept, cell: Cell, loss: f64, log_mass: f64) {
        let place = (cell.first - swept.first) as usize;
        let width = cell.size as f64 * self.spacing;
        let t = (loss - self.at(cell.first)).clamp(0.0, width);
        // The margin covers the error of the quadrature, see QUADRATURE.
        let share = if self.is_fine() {
            ((-t).exp_m1() / (-width).exp_m1() + QUADRATURE / width).min(1.0)
        } else {
            1.0
        };
        let mass = (log_mass + self.c * self.at(cell.first) - self.log_scale).exp();
        let rise = (self.c * width).exp();
        let end = place + cell.size as usize;
        swept.upper[place] += mass * (1.0 - share);
        swept.upper[end] += mass * share * rise;
        if !self.is_fine() {
            swept.nearest[place].0 += mass;
            return;
        }
        let (nearest, distance, mass) = if cell.above {
            (end, t - width, mass * rise)
        } else {
            (place, t, mass)
        };
        let entry = &mut swept.nearest[nearest];
        entry.0 += mass;
        entry.1 += mass * -(-distance).exp_m1();
    }

    /// Sweeps one curve, in parallel; the chunks do not depend on the number of threads.
    fn sweep(&self, sweep: &Sweep<'_>, profile: &Profile) -> Vec<Swept> {
        let cuts = self.cuts(sweep);
        let parts = cuts.chunks.clone().zip(cuts.ends.windows(2)).collect::<Vec<_>>();
        let one = carried(|(chunk, ends): (i64, &[f64])| {
            let first = chunk * CHUNK;
            let size = profile.size(chunk);
            let part = Part {
                first: first + (cuts.low - first).max(0) / size * size,
                last: (first + CHUNK - 1).min(cuts.high),
                from: ends[0],
                to: ends[1],
            };
            self.chunk(sweep, part, Swept::starting(first, CHUNK as usize), size)
        });
        in_pool(|| parts.into_par_iter().map(one).collect())
    }

    /// Where each chunk of grid intervals begins on the curve: every output belongs to exactly one.
    ///
    /// A curve may be flat to the last bit, and then rounding decides on which side of a grid point its ends lie, and
    /// in which order. So the first chunk begins where the curve does, the last ends where it does, and no chunk
    /// begins before the one below it.
    fn cuts(&self, sweep: &Sweep<'_>) -> Cuts {
        let mut scratch = Scratch::default();
        let mut index =
            |x: f64| ((sweep.curve.point(x, &mut scratch).loss - self.origin) / self.spacing).floor() as i64;
        let (start, end) = (index(sweep.start), index(sweep.end));
        let (low, high) = (start.min(end), start.max(end));
        let chunks = low.div_euclid(CHUNK)..high.div_euclid(CHUNK) + 1;
        let inner = chunks.start + 1..chunks.end;
        let find = carried(|chunk: i64| sweep.boundary(self.at(chunk * CHUNK), &mut Scratch::default()));
        let found: Vec<f64> = in_pool(|| inner.into_par_iter().map(find).collect());
        let mut ends = vec![sweep.start];
        for cut in found {
            ends.push(cut.max(ends[ends.len() - 1]));
        }
        ends.push(sweep.end);
        Cuts {
            low,
            high,
            chunks,
            ends,
        }
    }

    /// The cells of a curve in one chunk, each of `size` grid intervals.
    fn chunk(&self, sweep: &Sweep<'_>, part: Part, mut swept: Swept, size: i64) -> Swept {
        let Part { first, last, from, to } = part;
        let curve = &*sweep.curve;
        let mut scratch = Scratch::default();
        let width = size as f64 * self.spacing;
        let mut x = from;
        let start = curve.point(x, &mut scratch);
        swept.loss_error = (self.at(first) - start.loss).max(0.0);
        let mut slope = start.slope;
        let mut bend = 0.0;
        // Derivative of the log of the density of the loss, by differences.
        let mut log_density = start.log_density - slope.ln();
        let (mut growth, mut growth_before) = (0.0, 0.0);
        let mut seen = 0;
        let mut level = start.loss;
        let mut i = first;
        while i <= last && x < to {
            checkpoint();
            for above in [false, true] {
                let target = if above {
                    self.at(i + size)
                } else {
                    // Half a cell, moved so that what is merged around a grid point has its log(p/q) there: in a
                    // cell about g it would be h²/12·(ρ'/ρ − 1/2) above g.
                    let ahead = if seen > 2 {
                        growth + 1.5 * (growth - growth_before)
                    } else {
                        growth
                    };
                    let lift = width * width / 12.0 * (ahead - 0.5);
                    self.at(i) + 0.5 * width - lift.clamp(-0.3 * width, 0.3 * width)
                };
                let mut next = to;
                let mut next_point = None;
                // What is left of the chunk belongs to its last cell.
                let is_last = above && i + size > last;
                if is_last {
                    let beyond = curve.point(to, &mut scratch).loss - target;
                    swept.loss_error = swept.loss_error.max(beyond);
                }
                // A step along the curve with the slope in its middle, then Newton's method.
                let rough = (target - level) / slope;
                let mut guess = x + (target - level) / (slope + 0.5 * bend * rough).max(0.5 * slope);
                for attempt in 0..if is_last { 0 } else { 60 } {
                    if guess.is_nan() || guess >= to {
                        // Beyond the end of the chunk, or a guess that overshot it.
                        if curve.point(to, &mut scratch).loss <= target {
                            // Not where an earlier guess was: the rest of the curve would be lost.
                            (next, next_point) = (to, None);
                            break;
                        }
                        guess = sweep.boundary(target, &mut scratch).min(to);
                    }
                    let point = curve.point(guess, &mut scratch);
                    next = guess;
                    next_point = Some(point);
                    let miss = point.loss - target;
                    // The boundary inside a cell may be anywhere.
                    let allowed = if above { BOUNDARY } else { 1e-2 };
                    let step = if attempt < 6 {
                        guess - miss / point.slope
                    } else {
                        f64::NAN
                    };
                    let fine = miss.abs() <= allowed * self.spacing + 4.0 * f64::EPSILON * target.abs();
                    if fine || step == guess || attempt == 59 {
                        if above {
                            swept.loss_error = swept.loss_error.max(miss.abs());
                        }
                        break;
                    }
                    guess = if step > x {
                        step
                    } else {
                        sweep.boundary(target, &mut scratch)
                    };
                }
                if next > x {
                    self.integrate(curve, x, next, Cell { first: i, size, above }, &mut swept, &mut scratch);
                }
                let Some(point) = next_point.filter(|_| next < to) else {
                    x = to;
                    break;
                };
                // A sweep that starts in the upper half of a cell has nothing in the lower.
                if next > x {
                    bend = (point.slope - slope) / (next - x);
                    let here = point.log_density - point.slope.ln();
                    growth_before = growth;
                    growth = (here - log_density) / (point.loss - level);
                    log_density = here;
                    seen += 1;
                    (x, slope, level) = (next, point.slope, point.loss);
                }
            }
            i += size;
        }
        swept
    }

    /// Deposits the mass of the outputs in [left, right], which lie in one half of `cell`.
    fn integrate(
        &self,
        curve: &dyn LossCurve,
        left: f64,
        right: f64,
        cell: Cell,
        swept: &mut Swept,
        scratch: &mut Scratch,
    ) {
        let mut start = left;
        while start < right && self.spent.load(Ordering::Relaxed) < self.allowance {
            let before = swept.work;
            curve.point(start, scratch);
            let unit = curve.scale() / (curve.reach(start, self.is_fine(), scratch) + 5.0);
            let mut end = right;
            if end - start > WIDTH_OF_32 * unit {
                // The reach grows by the width itself.
                end = (start + 0.5 * WIDTH_OF_32 * unit).min(right);
                if end <= start {
                    end = right;
                }
            }
            let half_width = 0.5 * (end - start);
            let width = (end - start) / unit;
            let mut add = |node: f64, weight: f64| {
                let point = curve.point(start + half_width * (1.0 + node), scratch);
                swept.work += 3 * (16 + 2 * scratch.terms());
                let log_mass = point.log_density + (weight * half_width).ln();
                let mass = (log_mass + self.c * point.loss - self.log_scale).exp();
                if mass > 1e-25 {
                    swept.loss_error = swept
                        .loss_error
                        .max(8.0 * f64::EPSILON * (point.size + self.origin.abs()));
                }
                swept.mass_error += mass * (QUADRATURE + 8.0 * f64::EPSILON * (4.0 + point.log_density.abs()));
                self.deposit(swept, cell, point.loss, log_mass);
            };
            if width <= WIDTH_OF_3 {
                SMALL_3.iter().for_each(|&(node, weight)| add(node, weight));
            } else if width <= WIDTH_OF_6 {
                SMALL_6.iter().for_each(|&(node, weight)| add(node, weight));
            } else {
                let rule = GaussLegendre::get();
                rule.nodes
                    .iter()
                    .zip(&rule.weights)
                    .for_each(|(&node, &weight)| add(node, weight));
            }
            self.spent.fetch_add(swept.work - before, Ordering::Relaxed);
            start = end;
        }
    }
}

impl Swept {
    /// Room for grid points `first`..=`first + cells`.
    fn starting(first: i64, cells: usize) -> Self {
        Self {
            first,
            upper: vec![0.0; cells + 1],
            nearest: vec![(0.0, 0.0); cells + 1],
            ..Self::default()
        }
    }
}

/// Gauss–Legendre rules of 3 and 6 nodes.
const SMALL_3: [(f64, f64); 3] = [
    (-0.774_596_669_241_483_4, 5.0 / 9.0),
    (0.0, 8.0 / 9.0),
    (0.774_596_669_241_483_4, 5.0 / 9.0),
];
const SMALL_6: [(f64, f64); 6] = [
    (-0.932_469_514_203_152, 0.171_324_492_379_170_35),
    (-0.661_209_386_466_264_5, 0.360_761_573_048_138_6),
    (-0.238_619_186_083_196_9, 0.467_913_934_572_691_04),
    (0.238_619_186_083_196_9, 0.467_913_934_572_691_04),
    (0.661_209_386_466_264_5, 0.360_761_573_048_138_6),
    (0.932_469_514_203_152, 0.171_324_492_379_170_35),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::one_step;
    use crate::step::{Direction, GroupLaw};

    /// Σ mass·(1 − e^{ε − loss})₊ of a law that is not tilted.
    fn delta(law: &GridLaw, spacing: f64, epsilon: f64) -> f64 {
        let loss = |i: usize| law.origin + (law.first + i as i64) as f64 * spacing;
        let gain = |(i, mass): (usize, &f64)| mass * -(epsilon - loss(i)).min(0.0).exp_m1();
        law.masses.iter().enumerate().map(gain).sum()
    }

    #[test]
    fn a_curve_that_is_flat_to_the_last_bit_keeps_its_mass() {
        // Five records at a tiny rate: the losses of three of the five pieces agree to 1e-17, and the lattice of the two
        // atoms puts a grid point among them.
        let law = GroupLaw::binomial(5, 2.0177e-6).unwrap();
        for direction in [Direction::Add, Direction::Remove] {
            let mut loss = StepLoss::laplace(&law, 10.876, direction).unwrap();
            let levels = loss.support(0.0, -40.0).atoms;
            let gap = (levels[1].0 - levels[0].0).abs();
            for (parts, tilt) in [(1378.0, 3.028e5), (1602.0, 1.056e6), (49.0, 0.0), (7.0, 1e5)] {
                let spacing = gap / parts;
                let mut allowance = u64::MAX;
                let scale = crate::inversion::segment::log_moment(&mut loss, tilt).unwrap();
                let cells = Cells::new(&mut loss, (tilt, tilt), scale, spacing, -40.0, &mut allowance).unwrap();
                for law in [&cells.upper, &cells.lower] {
                    let mass: f64 = law.masses.iter().sum();
                    let bend = tilt * (tilt + 1.0) * spacing * spacing + tilt * spacing;
                    assert!((mass - 1.0).abs() < 1e-9 + bend, "{direction:?} {parts} {tilt}: {mass}");
                }
                let upper: f64 = cells.upper.masses.iter().sum();
                assert!(
                    upper >= 1.0 - cells.mass_error - 1e-12,
                    "{direction:?} {parts} {tilt}: {upper}"
                );
            }
        }
    }

    #[test]
    fn both_laws_have_all_the_mass_and_bound_one_step() {
        let mut losses = Vec::new();
        for direction in [Direction::Remove, Direction::Add] {
            for (size, rate, sigma) in [(1, 0.01, 1.0), (3, 0.1, 0.8), (1, 1e-5, 0.1), (2, 0.3, 3.0)] {
                let law = GroupLaw::binomial(size, rate).unwrap();
                losses.push(StepLoss::mixture(&law, sigma, direction).unwrap().unwrap());
                losses.push(StepLoss::laplace(&law, 2.0 * sigma, direction).unwrap());
            }
        }
        losses.push(StepLoss::shift(1.5));
        losses.push(StepLoss::replace_poisson(0.1, 1.0).unwrap().unwrap());
        let law = GroupLaw::hypergeometric(1, 10, 100).unwrap();
        losses.push(StepLoss::replace_fixed_batch(&law, 2.0).unwrap().unwrap());
        for loss in &mut losses {
            for spacing in [3e-3, 4.7e-4] {
                let cells = Cells::new(loss, (0.0, 0.0), 0.0, spacing, -40.0, &mut u64::MAX.clone()).unwrap();
                let (upper, lower) = (&cells.upper, &cells.lower);
                let named = format!("{loss:?} {spacing}").chars().take(300).collect::<String>();
                for law in [upper, lower] {
                    let mass: f64 = law.masses.iter().sum();
                    assert!((mass - 1.0).abs() < 1e-9 + cells.mass_error, "{named}: {mass}");
                }
                for epsilon in [-0.01, 0.0, 0.004, 0.3, 1.0] {
                    let exact = one_step::delta(loss, epsilon);
                    let slack = 1e-9 + cells.mass_error + cells.loss_error;
                    let (high, low) = (delta(upper, spacing, epsilon), delta(lower, spacing, epsilon));
                    assert!(high >= exact.lower() - slack, "{named} {epsilon}: {high} {exact:?}");
                    assert!(low <= exact.upper() + slack, "{named} {epsilon}: {low} {exact:?}");
                }
            }
        }
    }
}
