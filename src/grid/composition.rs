//! δ(ε) of a composition on a grid: tilted one-step laws, composed by the fast Fourier transform.
//!
//! Masses are tilted by e^{cℓ} before the transform and untilted after (Wilson and Keich 2016), so that its rounding
//! error is relative to δ and not to 1. The transform composes modulo the period P = Nh: what belongs at S + mP is
//! found at S, times e^{−cmP}. For a window that starts at W, Chernoff's bound on the grid laws themselves
//! gives, for any c' < c and c'' > c,
//!
//! > e^{A(c') − c'W}·Σ_m e^{−(c−c')mP} + e^{A(c'') − c''W}·Σ_m e^{−(c''−c)mP}
//!
//! as a bound on what arrives from below and from above. **Rounding**: a transform of length N has a relative error
//! of at most η = (log₂N + 2)·7.4e-16 in the 2-norm (Higham 2002, Theorem 24.2), the T-th power of a spectrum of
//! norm √N‖v‖ and modulus at most 1 one of at most Tη√N‖v‖ (v without its heaviest mass, which is not transformed) and its own rounding, and
//! δ is the inner product of the composed masses with u_i = e^{−ct_i}(1 − e^{−t_i}), t_i = loss − ε, see `window`.
//! **Discretisation**: see `cells`; both laws are bounds.

use crate::grid::frame::{Cells, GridLaw};
use crate::grid::sweep::range;
use crate::grid::window::{Composed, Window};
use crate::interval::Enclosure;
use crate::inversion::segment::Segment;
use crate::inversion::tilt::Tilt;
use crate::loss::StepLoss;
use crate::special::log_space::LogSum;
use crate::stopping::{carried, checkpoint};
use crate::threads::in_pool;

/// Maximum fraction of a step's moment that its law on the grid may lack: far more than quadrature loses, and far less than a forgotten piece.
const MAX_MISSING_MOMENT: f64 = 1e-6;
/// Maximum number of grid points: they take less than 100 MB and half a second.
const MAX_POINTS: f64 = 1_048_576.0;
/// Maximum number of half-cells of one step.
const MAX_CELLS: f64 = 1.5e6;
/// Terms of a density that cost as much as the rest of a cell.
const TERMS_OF_A_CELL: f64 = 30.0;
/// Largest number of a grid point. Numbers are sums of at most a few thousand others and must be exact in an `f64`, below 2^53.
const MAX_NUMBER: f64 = 1e12;
/// A grid whose spacing is more than this many times the wanted one counts as the finest that fits.
const MUCH_COARSER: f64 = 1.5;
/// Cost of one grid point in the transforms, in terms of densities.
const POINT_COST: u64 = 50;
/// Maximum number of terms of densities evaluated for one grid: about two seconds. Only runs with next to no noise need more.
const MAX_TERMS: u64 = 2_000_000_000;
/// Maximum product of the numbers of segments and grid points.
const MAX_WORK: f64 = 1.7e7;
/// Minimum number of points of a window.
const MIN_POINTS: f64 = 8.0;
/// Distances of the tilts for Chernoff's bound on aliasing from c, relative to the best distance for a Gaussian loss.
const DISTANCES: [f64; 3] = [1.0, 0.4, 0.1];

/// Both composed laws of a run, for questions at losses from the window's start on.
#[derive(Debug)]
pub(crate) struct Grid {
    c: f64,
    upper: Composed,
    lower: Composed,
    /// Lowest ε that can be asked.
    pub(crate) start: f64,
    /// True if a finer grid would not fit.
    pub(crate) at_limit: bool,
    /// Work of the cells, in terms of densities.
    cell_work: u64,
}

/// The question that a grid is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// The tilt, for `epsilon`.
    pub(crate) tilt: Tilt,
    /// ε that is asked about.
    pub(crate) epsilon: f64,
    /// Wanted width of log δ.
    pub(crate) width: f64,
    /// Maximum spacing.
    pub(crate) spacing: f64,
}

impl Plan {
    /// The least width of log δ that the finest grid would leave: see [`Plan::spacing`].
    pub(crate) fn least_width(&self, steps: f64) -> f64 {
        let spacing = self.tilt.period / MAX_POINTS;
        steps * self.tilt.c * (self.tilt.c + 1.0) * spacing * spacing / 3.0
    }

    /// The spacing at which connecting the dots and merging should leave `width`: a variance of h²/6 and h²/12 a
    /// step changes A(c) by c(c + 1)/2 times that.
    fn spacing(&self, steps: f64) -> f64 {
        let c = self.tilt.c;
        let bend = c * (c + 1.0);
        (3.0 * self.width / (steps * bend))
            .sqrt()
            .min(0.5 / (c + 1.0))
            .min(self.spacing)
    }
}

impl Grid {
    /// The grid of `plan`; `None` if the losses are too far apart for any, or too many curves, or it takes too long: that is then
    /// added to `work`.
    pub(crate) fn new(segments: &mut [Segment], plan: &Plan, work: &mut u64) -> Option<Self> {
        let steps: f64 = segments.iter().map(|segment| segment.steps).sum();
        let wanted = plan.spacing(steps);
        // Part of E[e^{cℓ}] of one step that may be left out.
        let tolerance = -plan.tilt.level - steps.ln();
        let c = plan.tilt.c;
        let (mut widest, mut farthest) = (0.0f64, 0.0f64);
        for segment in segments.iter_mut() {
            let (low, high) = range(&mut segment.loss, c, tolerance)?;
            widest = widest.max(high - low);
            farthest = farthest.max(high.abs()).max(low.abs());
        }
        // The period is about this; it is settled below, for the law on the grid.
        let rough = plan.tilt.period;
        let points = (MAX_WORK / segments.len() as f64).min(MAX_POINTS);
        // Large groups make every evaluation more expensive; atoms are not evaluated.
        let terms = |loss: &StepLoss| loss.density_terms() as f64 / TERMS_OF_A_CELL;
        let effort: f64 = segments.iter().map(|segment| 1.0 + terms(&segment.loss)).sum();
        let least = (rough / points).max(2.0 * widest * effort / MAX_CELLS);
        // Grid points are numbered from 0 = the heaviest loss: the numbers must be exact.
        if !(least.is_finite() && least > 0.0 && farthest / least < MAX_NUMBER) {
            return None;
        }
        // On a lattice of all losses nothing is rounded, and a finer grid says no more.
        let is_exact = segments.iter().all(|segment| is_on_lattice(&segment.loss));
        let wanted = if is_exact {
            lattice_gap(segments).unwrap_or(wanted)
        } else {
            wanted
        };
        let mut spacing = wanted.max(least);
        let mut allowance = MAX_TERMS;
        for _ in 0..4 {
            checkpoint();
            spacing = on_lattice(segments, spacing);
            let tilts = (c, plan.tilt.saddle);
            let Some(cells) = all_cells(segments, tilts, spacing, tolerance, &mut allowance) else {
                *work += MAX_TERMS;
                return None;
            };
            match Self::compose(segments, &cells, plan, spacing, points) {
                Composition::Done(upper, lower, start) => {
                    return Some(Self {
                        c,
                        upper: *upper,
                        lower: *lower,
                        start,
                        at_limit: spacing > MUCH_COARSER * wanted || spacing <= least || is_exact,
                        cell_work: MAX_TERMS - allowance,
                    });
                }
                Composition::TooLong(factor) => spacing *= factor,
                Composition::Failed => return None,
            }
        }
        None
    }

    fn compose(segments: &[Segment], cells: &[Cells], plan: &Plan, spacing: f64, points: f64) -> Composition {
        let start = window_start(segments, plan);
        let sides = sides(segments, cells, plan, spacing, start);
        let Some(length) = window_length(&sides, plan, spacing) else {
            return Composition::Failed;
        };
        let limit = points.log2().ceil().exp2();
        if length > limit {
            return Composition::TooLong(length / limit);
        }
        let window = Window {
            c: plan.tilt.c,
            start,
            length: length as usize,
            spacing,
            log_aliasing: log_aliasing(&sides, plan.tilt.c, start, length * spacing),
        };
        let compose = carried(|law: fn(&Cells) -> &GridLaw| window.compose(segments, cells, law));
        let both = in_pool(|| rayon::join(|| compose(|cells| &cells.upper), || compose(|cells| &cells.lower)));
        match both {
            (Some(upper), Some(lower)) => Composition::Done(Box::new(upper), Box::new(lower), start),
            _ => Composition::Failed,
        }
    }

    /// Work so far, in terms of densities.
    pub(crate) fn work(&self) -> u64 {
        self.cell_work + POINT_COST * self.upper.sums.len() as u64
    }

    /// h.
    pub(crate) fn spacing(&self) -> f64 {
        self.upper.spacing
    }

    /// δ at ε, which must not be below the start of the window.
    pub(crate) fn delta(&self, epsilon: f64) -> Enclosure {
        let lowered = epsilon - self.upper.loss_error;
        // Of losses below the start nothing is known.
        if lowered < self.start {
            return Enclosure::TRIVIAL;
        }
        let (_, upper) = self.upper.delta(lowered, self.c);
        let (lower, _) = self.lower.delta(epsilon + self.lower.loss_error, self.c);
        Enclosure::of_logs(lower, upper)
    }
}

enum Composition {
    Done(Box<Composed>, Box<Composed>, f64),
    /// The spacing must grow by this factor.
    TooLong(f64),
    Failed,
}

/// A tilt below or above c for Chernoff's bound on aliasing.
#[derive(Debug, Clone, Copy)]
struct Side {
    /// c'.
    tilt: f64,
    /// log of the moment of the composed upper law at c', which has the larger moments of the two laws.
    log_moment: f64,
    /// The period at which the bound is small enough.
    period: f64,
}

/// Start of the window. It is below ε, so that questions about ε nearby can use the same transform, which is expensive.
fn window_start(segments: &[Segment], plan: &Plan) -> f64 {
    let reach = if segments.iter().all(|segment| is_on_lattice(&segment.loss)) {
        plan.tilt.spread
    } else {
        plan.tilt.spread.min(1.0 / plan.tilt.c)
    };
    plan.epsilon - 0.5 * reach
}

/// Tilts below and above that of `plan` that need the shortest period, among that of the plan and a few by the spread.
fn sides(segments: &[Segment], cells: &[Cells], plan: &Plan, spacing: f64, start: f64) -> [Side; 2] {
    let c = plan.tilt.c;
    let moment = |other: f64| -> f64 {
        let of = |(segment, cells): (&Segment, &Cells)| {
            segment.steps * cells.upper.log_moment(other, c, spacing, cells.log_scale)
        };
        segments.iter().zip(cells).map(of).sum()
    };
    let at_c = moment(c);
    let wanted = at_c - c * plan.epsilon - plan.tilt.level;
    let period_for = |other: f64, log_moment: f64| (log_moment - other * start - wanted) / (other - c).abs();
    let distance = (2.0 * plan.tilt.level).sqrt() / plan.tilt.spread;
    let best = |planned: f64, sign: f64| {
        let mut best = Side {
            tilt: 0.0,
            log_moment: 0.0,
            period: f64::INFINITY,
        };
        let others = DISTANCES.map(|factor| (c + sign * factor * distance).max(0.0));
        for tilt in std::iter::once(planned).chain(others) {
            let log_moment = moment(tilt);
            let period = period_for(tilt, log_moment);
            if period < best.period {
                best = Side {
                    tilt,
                    log_moment,
                    period,
                };
            }
        }
        best
    };
    [best(plan.tilt.below.c, -1.0), best(plan.tilt.above.c, 1.0)]
}

/// Points of the window, a power of two; `None` if no period is long enough.
fn window_length(sides: &[Side; 2], plan: &Plan, spacing: f64) -> Option<f64> {
    let period = sides[0]
        .period
        .max(sides[1].period)
        .max(MIN_POINTS * spacing)
        .max(2.0 * plan.tilt.spread);
    period.is_finite().then(|| (period / spacing).log2().ceil().exp2())
}

/// log of the bound on the mass that arrives above `start` from other periods, after untilting; rounded up.
fn log_aliasing(sides: &[Side; 2], c: f64, start: f64, period: f64) -> f64 {
    let mut aliasing = LogSum::default();
    for side in sides {
        let ratio = -(side.tilt - c).abs() * period;
        aliasing.add(side.log_moment - side.tilt * start + ratio - (-ratio.exp()).ln_1p());
    }
    aliasing.ln() + 1e-9
}

/// True for a loss whose values are known to lie on a lattice.
pub(crate) fn is_on_lattice(loss: &StepLoss) -> bool {
    loss.lattice_gap().is_some()
}

/// The finest of the lattices.
fn lattice_gap(segments: &[Segment]) -> Option<f64> {
    let gap = |segment: &Segment| segment.loss.lattice_gap();
    segments.iter().filter_map(gap).min_by(f64::total_cmp)
}

/// About `spacing`: a part of the finest lattice, or a power of two times it; else at most `spacing` and more than half of it, such that two
/// atoms are on one grid, of the first loss whose atoms are far enough apart for that.
///
/// Atoms between two grid points are moved to both, as all other outputs are.
fn on_lattice(segments: &[Segment], spacing: f64) -> f64 {
    if let Some(gap) = lattice_gap(segments) {
        return if spacing < gap {
            gap / (gap / spacing).ceil()
        } else {
            gap * (spacing / gap * (1.0 - 1e-9)).log2().ceil().max(0.0).exp2()
        };
    }
    let mut gaps = segments.iter().filter_map(|segment| segment.loss.atom_gap());
    let gap = gaps.find(|gap| *gap > 0.5 * spacing);
    gap.map_or(spacing, |gap| gap / (gap / spacing).ceil().max(1.0))
}

fn all_cells(
    segments: &mut [Segment],
    tilts: (f64, f64),
    spacing: f64,
    log_tolerance: f64,
    allowance: &mut u64,
) -> Option<Vec<Cells>> {
    let of = |segment: &mut Segment| {
        let moment = crate::inversion::segment::log_moment(&mut segment.loss, tilts.0);
        let scale = moment.unwrap_or(0.0);
        let cells = Cells::new(&mut segment.loss, tilts, scale, spacing, log_tolerance, allowance)?;
        // Moving mass to both ends of its cell raises every moment of positive order. A law whose moment is below that of the loss
        // has lost outputs, and is no bound.
        let least = 1.0 - MAX_MISSING_MOMENT.max(4.0 * log_tolerance.exp());
        let is_whole = moment.is_none() || tilts.0 <= 0.0 || cells.upper.masses.iter().sum::<f64>() >= least;
        is_whole.then_some(cells)
    };
    segments.iter_mut().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;
    use crate::inversion::saddle;
    use crate::loss::loss_curve::Atom;

    fn side(tilt: f64, log_moment: f64) -> Side {
        Side {
            tilt,
            log_moment,
            period: 0.0,
        }
    }

    #[test]
    fn an_atom_below_the_window_attains_the_bound_on_aliasing() {
        // All mass at −3, found at 4, 11, … with the factors e^{−7c}, e^{−14c}, …, all above the start of the window at 0.
        let (c, period) = (0.3, 7.0);
        let exact: f64 = (1..200).map(|m| f64::exp(-c * period * f64::from(m))).sum();
        let bound = log_aliasing(&[side(0.0, 0.0), side(50.0, -150.0)], c, 0.0, period);
        assert!(bound >= exact.ln() && bound < exact.ln() + 1e-8, "{bound} {exact}");
    }

    #[test]
    fn an_atom_one_period_above_the_window_attains_the_bound_on_aliasing() {
        // All mass at 10, found at 3, the start of the window, with the factor e^{7c}.
        let (c, period) = (0.3, 7.0);
        let bound = log_aliasing(&[side(0.0, -1000.0), side(5.0, 50.0)], c, 3.0, period);
        assert!(bound >= c * period && bound < c * period + 1e-8, "{bound}");
    }

    #[test]
    fn the_grid_contains_the_delta_of_a_gaussian_run_as_narrowly_as_planned() {
        for (distance, steps, epsilon, width) in
            [(0.5, 4.0, 4.0, 1e-3f64), (1.0, 2.0, 1.0, 1e-4), (0.1, 50.0, 3.0, 1e-2)]
        {
            let run = GaussianRun::new(distance, steps);
            let mut segments = run.segments();
            let c = saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
            let tilt = Tilt::near(&mut segments, c, epsilon, (width.ln() - 2.0, None)).unwrap();
            let plan = Plan {
                tilt,
                epsilon,
                width,
                spacing: f64::INFINITY,
            };
            let grid = Grid::new(&mut segments, &plan, &mut 0).unwrap();
            for epsilon in [epsilon, epsilon + 0.3] {
                let found = grid.delta(epsilon);
                let exact = run.log_delta(epsilon);
                assert!(
                    found.log_lower <= exact && exact <= found.log_upper,
                    "{found:?} {exact}"
                );
                assert!(found.width() < 3.0 * width, "{found:?} {width}");
            }
            let width = grid.delta(epsilon).width();
            assert!(width > 0.05 * plan.width, "{width}");
            assert_eq!(grid.delta(grid.start - 1.0), Enclosure::TRIVIAL);
            // Losses that may be too small by 0.1 are asked for 0.1 below ε.
            assert_ne!(grid.delta(grid.start + 0.05), Enclosure::TRIVIAL);
            let mut grid = grid;
            grid.upper.loss_error = 0.1;
            assert_eq!(grid.delta(grid.start + 0.05), Enclosure::TRIVIAL);
        }
    }

    #[test]
    fn a_spacing_on_a_lattice_divides_its_gap_or_is_a_power_of_two_times_it() {
        let atoms = [(0.75, 0.5f64), (0.0, 0.25), (-0.25, 0.25)].map(|(loss, mass)| Atom::new(loss, mass.ln()));
        let segments = [Segment {
            loss: StepLoss::new(crate::loss::atoms::AtomLoss::on_lattice(atoms.to_vec(), 0.25)),
            steps: 3.0,
        }];
        for (wanted, spacing) in [(0.25, 0.25), (0.1, 0.25 / 3.0), (0.3, 0.5), (1.0, 1.0), (1.1, 2.0)] {
            assert_eq!(on_lattice(&segments, wanted), spacing, "{wanted}");
        }
    }

    /// Two atoms 4e-7 apart would take a grid of that spacing, where another loss needs one of 0.01 and has two atoms 0.25 apart.
    #[test]
    fn atoms_next_to_each_other_do_not_settle_the_spacing() {
        let two = |gap: f64| Segment {
            loss: StepLoss::new(crate::loss::atoms::AtomLoss::new(vec![
                Atom::new(gap, 0.5f64.ln()),
                Atom::new(0.0, 0.5f64.ln()),
            ])),
            steps: 3.0,
        };
        assert_eq!(on_lattice(&[two(4e-7)], 0.01), 0.01);
        assert_eq!(on_lattice(&[two(4e-7), two(0.25)], 0.01), 0.01);
        assert_eq!(on_lattice(&[two(4e-7), two(0.25)], 0.1), 0.25 / 3.0);
        assert_eq!(on_lattice(&[two(0.25), two(4e-7)], 0.4), 0.25);
        assert_eq!(on_lattice(&[two(0.25), two(4e-7)], 0.5), 0.5);
    }
}
