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

use crate::pair::StepLoss;
use crate::pair::loss::{GaussianCurve, LaplaceCurve, LossCurve};
use crate::pair::piece::Scratch;
use crate::special::gauss_legendre::GaussLegendre;
use rayon::prelude::*;

/// Relative error of the mass of a part: w^{2n}(n!)⁴/((2n+1)(2n)!³) at the widths below.
const QUADRATURE: f64 = 2e-13;
const WIDTH_OF_3: f64 = 0.07;
const WIDTH_OF_6: f64 = 1.5;
const WIDTH_OF_32: f64 = 12.0;
/// Grid intervals that one task sweeps, and that share one resolution.
const CHUNK: i64 = 256;
/// Coarsest resolution: 2^this grid intervals in one cell.
const COARSEST: i32 = 8;
/// Variance that coarse cells may add altogether, relative to that of cells of width h holding all the mass.
const COARSENING: f64 = 0.05;
/// Distance of a boundary from its place, in h, that is left as it is; it counts as an error of the loss.
const BOUNDARY: f64 = 1e-9;

/// One law on the grid, tilted: masses times e^{c·loss − scale}.
#[derive(Debug, Clone, Default)]
pub(super) struct GridLaw {
    /// Index of the first mass.
    pub(super) first: i64,
    /// Tilted masses.
    pub(super) masses: Vec<f64>,
    /// Loss of index 0.
    pub(super) origin: f64,
}

/// Both laws of one step.
#[derive(Debug, Clone, Default)]
pub(super) struct Cells {
    pub(super) upper: GridLaw,
    pub(super) lower: GridLaw,
    /// log of what the masses are divided by.
    pub(super) log_scale: f64,
    /// Bound on the error of a loss: rounding, and boundaries out of place.
    pub(super) loss_error: f64,
    /// Bound on the error of all masses together (tilted): quadrature, rounding, what lies outside the support.
    pub(super) mass_error: f64,
    /// What the sweeps took, in terms of densities.
    pub(super) work: u64,
}

/// A curve, the interval of its coordinate that counts.
struct Sweep<'a> {
    curve: Box<dyn LossCurve + 'a>,
    start: f64,
    end: f64,
}

/// Masses of a run of half-cells, before the lower law is settled.
#[derive(Debug, Default)]
struct Swept {
    /// Index of the first grid point.
    first: i64,
    upper: Vec<f64>,
    /// P-mass nearest to each point, and the part of it that Q lacks.
    nearest: Vec<(f64, f64)>,
    loss_error: f64,
    mass_error: f64,
    /// Terms of densities that were evaluated.
    work: u64,
}

/// How many half-cells of width `spacing`/2 a step's loss takes at tilt c, and the range of its losses.
pub(super) fn range(loss: &mut StepLoss, c: f64, log_tolerance: f64) -> (f64, f64) {
    let (sweeps, atoms, _) = sweeps(loss, c, log_tolerance);
    let mut scratch = Scratch::default();
    let mut low = atoms.iter().map(|atom| atom.0).fold(f64::INFINITY, f64::min);
    let mut high = atoms.iter().map(|atom| atom.0).fold(f64::NEG_INFINITY, f64::max);
    for sweep in &sweeps {
        low = low.min(sweep.curve.point(sweep.start, &mut scratch).loss);
        high = high.max(sweep.curve.point(sweep.end, &mut scratch).loss);
    }
    (low, high)
}

/// The smooth parts of a loss, its atoms (loss, log mass), and the tilted mass outside their support, over e^K.
#[allow(clippy::type_complexity)]
fn sweeps(loss: &mut StepLoss, c: f64, log_tolerance: f64) -> (Vec<Sweep<'_>>, Vec<(f64, f64)>, f64) {
    match loss {
        StepLoss::Smooth(smooth) => {
            let none = vec![0.0; smooth.pieces().len()];
            let nodes = smooth.nodes(c, 0.0, &none, log_tolerance);
            let mut atoms = Vec::new();
            if smooth.atom() > 0.0 {
                atoms.push((0.0, smooth.atom().ln()));
            }
            let pieces = smooth.pieces().iter().zip(&nodes.supports);
            let sweeps = pieces
                .filter(|(_, support)| support.0 < support.1)
                .map(|(piece, support)| Sweep {
                    curve: Box::new(piece.clone()) as Box<dyn LossCurve>,
                    start: support.0,
                    end: support.1,
                })
                .collect();
            (sweeps, atoms, nodes.error)
        }
        StepLoss::Gaussian(gaussian) => {
            const REACH: f64 = 9.6; // P(|N(0, 1)| > 9.6) = 8e-22
            let mut atoms = Vec::new();
            let mut sweeps = Vec::new();
            for (distance, log_weight) in gaussian.parts() {
                if distance == 0.0 {
                    atoms.push((0.0, log_weight));
                    continue;
                }
                // Tilting by e^{cℓ} moves the centre to cμ.
                let centre = c * distance;
                sweeps.push(Sweep {
                    curve: Box::new(GaussianCurve { distance, log_weight }) as Box<dyn LossCurve>,
                    start: centre.min(0.0) - REACH,
                    end: centre.max(0.0) + REACH,
                });
            }
            (sweeps, atoms, 2e-21)
        }
        StepLoss::Laplace(laplace) => {
            let laplace = &*laplace;
            let sweeps = (0..laplace.pieces()).map(|piece| {
                let curve = LaplaceCurve { loss: laplace, piece };
                let (start, end) = curve.ends();
                Sweep {
                    curve: Box::new(curve) as Box<dyn LossCurve>,
                    start,
                    end,
                }
            });
            (sweeps.collect(), laplace.atoms().to_vec(), 0.0)
        }
    }
}

impl Cells {
    /// Both laws of `loss` at spacing h, tilted by c and scaled by e^−`log_scale` (about K(c)).
    ///
    /// Cells are coarse where a loss tilted by `saddle` has little mass.
    pub(super) fn new(
        loss: &mut StepLoss,
        (c, saddle): (f64, f64),
        log_scale: f64,
        spacing: f64,
        log_tolerance: f64,
    ) -> Self {
        let (sweeps, atoms, outside) = sweeps(loss, c, log_tolerance);
        let origin = heaviest(&sweeps, &atoms, c, spacing);
        let frame = Frame {
            origin,
            spacing,
            c,
            log_scale,
        };
        let profile = Profile::new(&sweeps, &frame, saddle);
        let mut parts: Vec<Swept> = Vec::new();
        for sweep in &sweeps {
            parts.extend(frame.sweep(sweep, &profile));
        }
        for &(loss, log_mass) in &atoms {
            parts.push(frame.atom(loss, log_mass));
        }
        frame.settle(&parts, outside)
    }
}

/// Where a histogram of width h of the tilted loss is highest: log(P/Q) of what lies there.
fn heaviest(sweeps: &[Sweep<'_>], atoms: &[(f64, f64)], c: f64, spacing: f64) -> f64 {
    const SAMPLES: usize = 600;
    let mut scratch = Scratch::default();
    let mut points: Vec<(f64, f64)> = atoms.to_vec();
    for sweep in sweeps {
        let width = (sweep.end - sweep.start) / SAMPLES as f64;
        for i in 0..SAMPLES {
            let point = sweep.curve.point(sweep.start + (i as f64 + 0.5) * width, &mut scratch);
            points.push((point.loss, point.log_density + width.ln()));
        }
    }
    let largest = points.iter().map(|(l, w)| w + c * l).fold(f64::NEG_INFINITY, f64::max);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let weight = |point: &(f64, f64)| (point.1 + c * point.0 - largest).exp();
    let (mut best, mut best_start, mut start, mut sum) = (0.0, 0, 0, 0.0);
    let mut best_end = 0;
    for end in 0..points.len() {
        sum += weight(&points[end]);
        while points[end].0 - points[start].0 > 0.5 * spacing {
            sum -= weight(&points[start]);
            start += 1;
        }
        if sum > best {
            (best, best_start, best_end) = (sum, start, end);
        }
    }
    let chosen = &points[best_start..=best_end.min(points.len().saturating_sub(1))];
    let base = chosen.first().map_or(0.0, |point| point.0);
    // log of Σp/Σp·e^{−ℓ}
    let mass: f64 = chosen.iter().map(|p| (p.1 - largest).exp()).sum();
    let missing: f64 = chosen
        .iter()
        .map(|p| (p.1 - largest).exp() * -(base - p.0).exp_m1())
        .sum();
    if mass > 0.0 {
        base - (-(missing / mass)).ln_1p()
    } else {
        base
    }
}

/// A cell: the grid points `first` and `first + size`, and which half of it.
#[derive(Debug, Clone, Copy)]
struct Cell {
    first: i64,
    size: i64,
    above: bool,
}

/// How coarse each chunk may be, from where the tilted mass lies.
///
/// Cells of width 2^j h in a chunk with a share m of the mass add m·4^j h² of variance. With n chunks and
/// 4^j ≤ COARSENING/(nm) that is COARSENING·h² altogether. The shares are estimates: they decide how narrow the
/// result is, not whether it is true.
struct Profile {
    first: i64,
    sizes: Vec<i64>,
}

impl Profile {
    fn new(sweeps: &[Sweep<'_>], frame: &Frame, saddle: f64) -> Self {
        const SAMPLES: usize = 2000;
        let mut scratch = Scratch::default();
        let chunk_width = CHUNK as f64 * frame.spacing;
        let position = |loss: f64| (loss - frame.origin) / chunk_width;
        let mut ends = (f64::INFINITY, f64::NEG_INFINITY);
        for sweep in sweeps {
            ends.0 = ends.0.min(position(sweep.curve.point(sweep.start, &mut scratch).loss));
            ends.1 = ends.1.max(position(sweep.curve.point(sweep.end, &mut scratch).loss));
        }
        const MOST_CHUNKS: f64 = 1e6;
        if !(ends.0 <= ends.1 && ends.1 - ends.0 < MOST_CHUNKS && ends.0.abs() < 1e15) {
            return Self {
                first: 0,
                sizes: Vec::new(),
            };
        }
        let first = ends.0.floor() as i64;
        let count = (ends.1.floor() as i64 - first + 1) as usize;
        let mut shares = vec![0.0; count];
        // Scale of the masses; they are divided by their sum in the end.
        let mut largest = f64::NEG_INFINITY;
        for sweep in sweeps {
            let width = (sweep.end - sweep.start) / SAMPLES as f64;
            for i in 0..=SAMPLES {
                let point = sweep.curve.point(sweep.start + i as f64 * width, &mut scratch);
                largest = largest.max(point.log_density + saddle * point.loss);
            }
        }
        for sweep in sweeps {
            let width = (sweep.end - sweep.start) / SAMPLES as f64;
            let mut last: Option<f64> = None;
            for i in 0..=SAMPLES {
                let point = sweep.curve.point(sweep.start + i as f64 * width, &mut scratch);
                let mass = width * (point.log_density + saddle * point.loss - largest).exp();
                let here = position(point.loss) - first as f64;
                let from = last.unwrap_or(here);
                let (low, high) = (from.max(0.0) as usize, (here.max(0.0) as usize).min(count - 1));
                let each = mass / (high - low.min(high) + 1) as f64;
                for share in &mut shares[low.min(high)..=high] {
                    *share += each;
                }
                last = Some(here);
            }
        }
        let most = (0.25 / ((frame.c + 1.0) * frame.spacing))
            .log2()
            .floor()
            .clamp(0.0, f64::from(COARSEST)) as i32;
        let most = if frame.is_fine() { most } else { 0 };
        let total: f64 = shares.iter().sum();
        let size = |mass: f64| {
            let share = mass / total.max(f64::MIN_POSITIVE);
            let coarse = (0.5 * (COARSENING / (count as f64 * share)).log2()).floor();
            1i64 << (coarse.clamp(0.0, f64::from(most)) as i32)
        };
        Self {
            first,
            sizes: shares.into_iter().map(size).collect(),
        }
    }

    /// Grid intervals in one cell of a chunk.
    fn size(&self, chunk: i64) -> i64 {
        usize::try_from(chunk - self.first)
            .ok()
            .and_then(|place| self.sizes.get(place).copied())
            .unwrap_or(1)
    }
}

struct Frame {
    origin: f64,
    spacing: f64,
    c: f64,
    log_scale: f64,
}

impl Frame {
    /// False if cells are so wide that most of Q's part of each lies in a corner of it, where quadrature would miss it:
    /// then all mass is moved to the upper end, or to the lower one, and Q is not needed.
    fn is_fine(&self) -> bool {
        self.spacing <= 1.0
    }

    /// Loss of grid point i.
    fn at(&self, i: i64) -> f64 {
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
        let mut scratch = Scratch::default();
        let index = |loss: f64| ((loss - self.origin) / self.spacing).floor() as i64;
        let low = index(sweep.curve.point(sweep.start, &mut scratch).loss);
        let high = index(sweep.curve.point(sweep.end, &mut scratch).loss);
        (low.div_euclid(CHUNK)..high.div_euclid(CHUNK) + 1)
            .into_par_iter()
            .map(|chunk| self.chunk(sweep, chunk, low, high, profile.size(chunk)))
            .collect()
    }

    /// The cells of a curve in one chunk, each of `size` grid intervals.
    fn chunk(&self, sweep: &Sweep<'_>, chunk: i64, low: i64, high: i64, size: i64) -> Swept {
        let curve = &*sweep.curve;
        let mut scratch = Scratch::default();
        let first = chunk * CHUNK + (low - chunk * CHUNK).max(0) / size * size;
        let last = ((chunk + 1) * CHUNK - 1).min(high);
        let mut swept = Swept::starting(chunk * CHUNK, CHUNK as usize);
        let width = size as f64 * self.spacing;
        let mut x = boundary_output(sweep, self.at(first), &mut scratch);
        let start = curve.point(x, &mut scratch);
        let mut slope = start.slope;
        let mut bend = 0.0;
        // Derivative of the log of the density of the loss, by differences.
        let mut log_density = start.log_density - slope.ln();
        let (mut growth, mut growth_before) = (0.0, 0.0);
        let mut seen = 0;
        let mut level = start.loss;
        let mut i = first;
        while i <= last && x < sweep.end {
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
                let mut next = sweep.end;
                let mut next_point = None;
                // A step along the curve with the slope in its middle, then Newton's method.
                let rough = (target - level) / slope;
                let mut guess = x + (target - level) / (slope + 0.5 * bend * rough).max(0.5 * slope);
                // Where the next chunk starts, to the bit.
                let shared = above && i + size > last;
                if shared {
                    let beyond = curve.point(sweep.end, &mut scratch).loss <= target;
                    guess = if beyond {
                        sweep.end
                    } else {
                        boundary_output(sweep, target, &mut scratch)
                    };
                }
                for attempt in 0..60 {
                    if guess.is_nan() || guess >= sweep.end {
                        // Beyond the end of the support, or a guess that overshot it.
                        let last = curve.point(sweep.end, &mut scratch);
                        if last.loss <= target {
                            break;
                        }
                        guess = boundary_output(sweep, target, &mut scratch);
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
                    if fine || shared || step == guess || attempt == 59 {
                        if above {
                            swept.loss_error = swept.loss_error.max(miss.abs());
                        }
                        break;
                    }
                    guess = if step > x {
                        step
                    } else {
                        boundary_output(sweep, target, &mut scratch)
                    };
                }
                if next > x {
                    self.integrate(curve, x, next, Cell { first: i, size, above }, &mut swept, &mut scratch);
                }
                let Some(point) = next_point.filter(|_| next < sweep.end) else {
                    x = sweep.end;
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
        while start < right {
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
            start = end;
        }
    }

    /// Adds up the parts and settles the lower law.
    fn settle(&self, parts: &[Swept], outside: f64) -> Cells {
        // Room below for atoms that are lowered.
        let first = parts.iter().map(|part| part.first).min().unwrap_or(0) - (1 << COARSEST) - 1;
        let last = parts
            .iter()
            .map(|part| part.first + part.upper.len() as i64)
            .max()
            .unwrap_or(0);
        let length = (last - first + 1) as usize;
        let mut upper = vec![0.0; length];
        let mut nearest = vec![(0.0, 0.0); length];
        let mut cells = Cells {
            log_scale: self.log_scale,
            mass_error: outside,
            ..Cells::default()
        };
        for part in parts {
            let start = (part.first - first) as usize;
            for (total, mass) in upper[start..].iter_mut().zip(&part.upper) {
                *total += mass;
            }
            for (total, mass) in nearest[start..].iter_mut().zip(&part.nearest) {
                total.0 += mass.0;
                total.1 += mass.1;
            }
            cells.loss_error = cells.loss_error.max(part.loss_error);
            cells.mass_error += part.mass_error;
            cells.work += part.work;
        }
        // Offsets log(p/q) − g_i = −log(1 − d/p), with room for the error of the quadrature.
        let offsets: Vec<f64> = nearest
            .iter()
            .map(|&(mass, missing)| {
                if mass > 0.0 {
                    -(-missing / mass).ln_1p() - 2.0 * QUADRATURE
                } else {
                    0.0
                }
            })
            .collect();
        let lowering = self.lowering(&nearest, &offsets);
        let mut lower = vec![0.0; length];
        for (i, (&(mass, _), &offset)) in nearest.iter().zip(&offsets).enumerate() {
            // The highest point of the lowered grid that is not above the atom.
            let rise = ((offset + lowering) / self.spacing).floor();
            let place = (i as f64 + rise).clamp(0.0, length as f64 - 1.0);
            if mass > 0.0 {
                lower[place as usize] += mass * (self.c * rise * self.spacing).exp();
            }
        }
        // The masses were tilted as if at g_i: they are at g_i − s.
        let factor = (-self.c * lowering).exp();
        lower.iter_mut().for_each(|mass| *mass *= factor);
        cells.upper = GridLaw {
            first,
            masses: upper,
            origin: self.origin,
        };
        cells.lower = GridLaw {
            first,
            masses: lower,
            origin: self.origin - lowering,
        };
        cells
    }

    /// s, which may be negative: atoms go to the highest g_j − s that is not above them.
    fn lowering(&self, nearest: &[(f64, f64)], offsets: &[f64]) -> f64 {
        // The mean loss of height, over the mass.
        let cost = |lowering: f64| -> f64 {
            let moved = nearest.iter().zip(offsets).map(|(&(mass, _), offset)| {
                let above = offset + lowering;
                mass * (above - (above / self.spacing).floor() * self.spacing)
            });
            moved.sum()
        };
        let mut best = self.usual_lowering(nearest, offsets);
        let mut least = cost(best);
        // Where one atom outweighs the rest it should stay where it is.
        let heaviest = (0..nearest.len()).max_by(|&i, &j| nearest[i].0.total_cmp(&nearest[j].0));
        if let Some(i) = heaviest {
            let exact = -offsets[i] + 4.0 * f64::EPSILON * (offsets[i].abs() + self.origin.abs());
            let there = cost(exact);
            if there < least {
                (best, least) = (exact, there);
            }
        }
        debug_assert!(least >= 0.0);
        best
    }

    /// s > 0: small, but larger than the offsets of nearly all of the mass.
    fn usual_lowering(&self, nearest: &[(f64, f64)], offsets: &[f64]) -> f64 {
        const CHOICES: usize = 48;
        let choice = |j: usize| self.spacing * 0.5f64.powf(0.75 * j as f64 + 1.0);
        let mut beyond = [0.0; CHOICES + 1]; // mass whose offset is below −choice(j), for the first such j
        let mut total = 0.0;
        for (&(mass, _), &offset) in nearest.iter().zip(offsets) {
            total += mass;
            if offset < -choice(CHOICES - 1) {
                let j = (((-offset / self.spacing).log2() + 1.0) / -0.75).ceil().max(0.0) as usize;
                beyond[j.min(CHOICES)] += mass;
            }
        }
        let (mut best, mut least) = (0.5 * self.spacing, f64::INFINITY);
        let mut moved = 0.0;
        for (j, more) in beyond.iter().enumerate().take(CHOICES) {
            moved += more;
            let cost = choice(j) + self.spacing * moved / total.max(f64::MIN_POSITIVE);
            if cost < least {
                (best, least) = (choice(j), cost);
            }
        }
        best
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

/// Where the loss of a curve passes `level`, within the curve's interval.
fn boundary_output(sweep: &Sweep<'_>, level: f64, scratch: &mut Scratch) -> f64 {
    let (mut low, mut high) = (sweep.start, sweep.end);
    if sweep.curve.point(low, scratch).loss >= level {
        return low;
    }
    let mut x = 0.5 * (low + high);
    for _ in 0..200 {
        let point = sweep.curve.point(x, scratch);
        if point.loss < level {
            low = x;
        } else {
            high = x;
        }
        let newton = x - (point.loss - level) / point.slope;
        let next = if newton > low && newton < high {
            newton
        } else {
            0.5 * (low + high)
        };
        if next == x || high - low <= f64::EPSILON * high.abs() {
            return next;
        }
        x = next;
    }
    x
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
    use crate::hockey_stick::one_step;
    use crate::pair::{Direction, GroupLaw};

    /// Σ mass·(1 − e^{ε − loss})₊ of a law that is not tilted.
    fn delta(law: &GridLaw, spacing: f64, epsilon: f64) -> f64 {
        let loss = |i: usize| law.origin + (law.first + i as i64) as f64 * spacing;
        let gain = |(i, mass): (usize, &f64)| mass * -(epsilon - loss(i)).min(0.0).exp_m1();
        law.masses.iter().enumerate().map(gain).sum()
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
                let cells = Cells::new(loss, (0.0, 0.0), 0.0, spacing, -40.0);
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
