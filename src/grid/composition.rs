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
//! of at most η = (log₂N + 2)·8e-16 in the 2-norm (Higham 2002, Theorem 24.2), the T-th power of a spectrum of
//! norm √N‖v‖ and modulus at most 1 one of at most Tη√N‖v‖ (v without its heaviest mass, which is not transformed), and δ is the inner product of the composed
//! masses with u_i = e^{−ct_i}(1 − e^{−t_i}), t_i = loss − ε. **Discretisation**: see `cells`; both laws are bounds.

use crate::grid::cells::{Cells, GridLaw};
use crate::grid::sweep::range;
use crate::interval::Enclosure;
use crate::inversion::segment::Segment;
use crate::inversion::tilt::Tilt;
use crate::loss::StepLoss;
use crate::special::log_space::{LogSum, log_modulus_1p};
use crate::stopping::{carried, checkpoint};
use crate::threads::in_pool;
use realfft::RealFftPlanner;
use realfft::num_complex::Complex64;

/// Part of a step's moment that its law on the grid may lack: far more than quadrature loses, far less than a lost piece.
const LOST_MOMENT: f64 = 1e-6;
/// Grid points at most: memory below 100 MB and half a second of work.
const MOST_POINTS: f64 = 1_048_576.0;
/// Half-cells of one step at most.
const MOST_CELLS: f64 = 1.5e6;
/// Terms of densities that may be evaluated for one grid: about two seconds, more than any but those of next to no noise need.
const MOST_TERMS: u64 = 2_000_000_000;
/// Part of the error of a sum that is not counted.
const NEGLIGIBLE_SUM: f64 = 1e-3;
/// What segments times points may come to.
const MOST_WORK: f64 = 1.7e7;

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

/// One composed law: for each grid point, sums over it and all points above.
#[derive(Debug)]
struct Composed {
    /// Loss of the first point, and the spacing.
    first: f64,
    spacing: f64,
    /// log of the masses' scale, A(c).
    log_scale: f64,
    /// Σ v_j e^{−c(s_j − s_i)} and Σ v_j e^{−(c+1)(s_j − s_i)} over j ≥ i.
    sums: Vec<(f64, f64)>,
    /// Error of Σ v u, over e^{A(c) − cε}.
    error: f64,
    /// log of the aliasing bound, in δ.
    log_aliasing: f64,
    /// How far losses may be wrong altogether.
    loss_error: f64,
}

/// What is asked of a grid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// The tilt, for `epsilon`.
    pub(crate) tilt: Tilt,
    /// ε that is asked about.
    pub(crate) epsilon: f64,
    /// Wanted width of log δ.
    pub(crate) width: f64,
    /// Spacing at most.
    pub(crate) spacing: f64,
}

impl Plan {
    /// The least width of log δ that the finest grid would leave: see [`Plan::spacing`].
    pub(crate) fn least_width(&self, steps: f64) -> f64 {
        let spacing = self.tilt.period / MOST_POINTS;
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
        let points = (MOST_WORK / segments.len() as f64).min(MOST_POINTS);
        // Large groups make every evaluation more expensive; atoms are not evaluated.
        let terms = |loss: &StepLoss| loss.density_terms() as f64 / 30.0;
        let effort: f64 = segments.iter().map(|segment| 1.0 + terms(&segment.loss)).sum();
        let least = (rough / points).max(2.0 * widest * effort / MOST_CELLS);
        // Grid points are numbered from 0 = the heaviest loss: the numbers must be exact.
        if !(least.is_finite() && least > 0.0 && farthest / least < 1e12) {
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
        let mut allowance = MOST_TERMS;
        for _ in 0..4 {
            checkpoint();
            spacing = on_lattice(segments, spacing);
            let tilts = (c, plan.tilt.saddle);
            let Some(cells) = all_cells(segments, tilts, spacing, tolerance, &mut allowance) else {
                *work += MOST_TERMS;
                return None;
            };
            match Self::compose(segments, &cells, plan, spacing, points) {
                Composition::Done(upper, lower, start) => {
                    return Some(Self {
                        c,
                        upper: *upper,
                        lower: *lower,
                        start,
                        at_limit: spacing > 1.5 * wanted || spacing <= least || is_exact,
                        cell_work: MOST_TERMS - allowance,
                    });
                }
                Composition::TooLong(factor) => spacing *= factor,
                Composition::Failed => return None,
            }
        }
        None
    }

    fn compose(segments: &[Segment], cells: &[Cells], plan: &Plan, spacing: f64, points: f64) -> Composition {
        let c = plan.tilt.c;
        // As far down as a neighbourhood of questions reaches, where the transform is expensive.
        let reach = if segments.iter().all(|segment| is_on_lattice(&segment.loss)) {
            plan.tilt.spread
        } else {
            plan.tilt.spread.min(1.0 / c)
        };
        let start = plan.epsilon - 0.5 * reach;
        // Moments of the upper law, which has the larger ones of the two.
        let moment = |other: f64| -> f64 {
            let of = |(segment, cells): (&Segment, &Cells)| {
                segment.steps * cells.upper.log_moment(other, c, spacing, cells.log_scale)
            };
            segments.iter().zip(cells).map(of).sum()
        };
        let at_c = moment(c);
        let wanted = at_c - c * plan.epsilon - plan.tilt.level;
        let period_for = |other: f64, log_moment: f64| (log_moment - other * start - wanted) / (other - c).abs();
        let mut sides = [(0.0, 0.0, f64::INFINITY); 2];
        let rise = (2.0 * plan.tilt.level).sqrt() / plan.tilt.spread;
        for (side, sign) in [(0, -1.0), (1, 1.0)] {
            let steered = if side == 0 {
                plan.tilt.below.0
            } else {
                plan.tilt.above.0
            };
            for factor in [0.0, 1.0, 0.4, 0.1] {
                let other = if factor == 0.0 {
                    steered
                } else {
                    (c + sign * factor * rise).max(0.0)
                };
                let log_moment = moment(other);
                let period = period_for(other, log_moment);
                if period < sides[side].2 {
                    sides[side] = (other, log_moment, period);
                }
            }
        }
        let period = sides[0]
            .2
            .max(sides[1].2)
            .max(8.0 * spacing)
            .max(2.0 * plan.tilt.spread);
        if !period.is_finite() {
            return Composition::Failed;
        }
        let length = (period / spacing).log2().ceil().exp2();
        if length > points.log2().ceil().exp2() {
            return Composition::TooLong(length / points.log2().ceil().exp2());
        }
        let period = length * spacing;
        let mut aliasing = LogSum::default();
        for (other, log_moment, _) in sides {
            let ratio = -(other - c).abs() * period;
            aliasing.add(log_moment - other * start + ratio - (-ratio.exp()).ln_1p());
        }
        let frame = Window {
            c,
            start,
            length: length as usize,
            spacing,
            log_aliasing: aliasing.ln() + 1e-9,
        };
        let compose = carried(|law: fn(&Cells) -> &GridLaw| frame.compose(segments, cells, law));
        let both = in_pool(|| rayon::join(|| compose(|cells| &cells.upper), || compose(|cells| &cells.lower)));
        match both {
            (Some(upper), Some(lower)) => Composition::Done(Box::new(upper), Box::new(lower), start),
            _ => Composition::Failed,
        }
    }

    /// What it took, in terms of densities.
    pub(crate) fn work(&self) -> u64 {
        self.cell_work + 50 * self.upper.sums.len() as u64
    }

    /// h.
    pub(crate) fn spacing(&self) -> f64 {
        self.upper.spacing
    }

    /// δ at ε, which must not be below the start of the window.
    pub(crate) fn delta(&self, epsilon: f64) -> Enclosure {
        if epsilon < self.start {
            return Enclosure::TRIVIAL;
        }
        let (_, upper) = self.upper.delta(epsilon - self.upper.loss_error, self.c);
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

/// True for a loss whose values are known to lie on a lattice.
pub(crate) fn is_on_lattice(loss: &StepLoss) -> bool {
    loss.lattice_gap().is_some()
}

/// The finest of the lattices.
fn lattice_gap(segments: &[Segment]) -> Option<f64> {
    let gap = |segment: &Segment| segment.loss.lattice_gap();
    segments.iter().filter_map(gap).min_by(f64::total_cmp)
}

/// About `spacing`: a part of the finest lattice, or a power of two times it; else at most `spacing`, such that two atoms of the
/// first loss that has some are on one grid.
fn on_lattice(segments: &[Segment], spacing: f64) -> f64 {
    if let Some(gap) = lattice_gap(segments) {
        return if spacing < gap {
            gap / (gap / spacing).ceil()
        } else {
            gap * (spacing / gap * (1.0 - 1e-9)).log2().ceil().max(0.0).exp2()
        };
    }
    let gap = segments.iter().find_map(|segment| segment.loss.atom_gap());
    match gap {
        Some(gap) if gap > 0.0 => gap / (gap / spacing).ceil().max(1.0),
        _ => spacing,
    }
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
        let least = 1.0 - LOST_MOMENT.max(4.0 * log_tolerance.exp());
        let is_whole = moment.is_none() || tilts.0 <= 0.0 || cells.upper.masses.iter().sum::<f64>() >= least;
        is_whole.then_some(cells)
    };
    segments.iter_mut().map(of).collect()
}

impl GridLaw {
    /// log of a bound on the moment at c' ≥ 0: Σ mass·e^{(c' − c)·loss}.
    ///
    /// Masses whose tilted value may underflow, m·e^{cℓ − scale} < e^-670, add at most e^{(scale − 670)c'/c}, as m ≤ 1; at
    /// c' = 0 the law has mass 1.
    fn log_moment(&self, other: f64, c: f64, spacing: f64, log_scale: f64) -> f64 {
        if other == 0.0 {
            return 1e-9;
        }
        // e^{(c' − c)h} to the powers 0, 1, … of one block: within e^30, so that no mass above e^-670 underflows.
        let step = (other - c) * spacing;
        let length = (30.0 / step.abs()).clamp(1.0, 64.0) as usize;
        let powers: Vec<f64> = (0..length).map(|i| (step * i as f64).exp()).collect();
        let mut sum = LogSum::default();
        for (i, block) in self.masses.chunks(length).enumerate() {
            let tilted: f64 = block.iter().zip(&powers).map(|(mass, power)| mass * power).sum();
            if tilted > 0.0 {
                let loss = self.origin + (self.first + (i * length) as i64) as f64 * spacing;
                sum.add(tilted.ln() + (other - c) * loss + log_scale);
            }
        }
        if other < c {
            sum.add((log_scale - 670.0) * other / c);
        }
        sum.ln()
    }
}

struct Window {
    c: f64,
    start: f64,
    length: usize,
    spacing: f64,
    log_aliasing: f64,
}

impl Window {
    /// Composes one of the two laws of every segment.
    fn compose(
        &self,
        segments: &[Segment],
        cells: &[Cells],
        law: impl Fn(&Cells) -> &GridLaw,
    ) -> Option<Composed> {
        let length = self.length;
        let mut planner = RealFftPlanner::<f64>::new();
        let forward = planner.plan_fft_forward(length);
        let inverse = planner.plan_fft_inverse(length);
        let eta = ((length as f64).log2() + 2.0) * 8e-16;
        let mut product = vec![Complex64::new(1.0, 0.0); length / 2 + 1];
        let mut spectrum = forward.make_output_vec();
        let mut buffer = forward.make_input_vec();
        let (mut log_scale, mut origin, mut errors, mut loss_error) = (0.0, 0.0, 0.0, 0.0);
        let (mut powers, mut size) = (0.0, 0.0);
        let mut mass_error = 0.0;
        for (segment, cells) in segments.iter().zip(cells) {
            checkpoint();
            let (law, steps) = (law(cells), segment.steps);
            let sum: f64 = law.masses.iter().sum();
            if sum.is_nan() || sum <= 0.0 {
                return None;
            }
            // The heaviest mass is put at index 0 and left out of the transform: φ − 1 = F(rest) − Σ rest, whose
            // rounding errors are relative to the rest.
            let heaviest = (0..law.masses.len()).max_by(|&i, &j| law.masses[i].total_cmp(&law.masses[j]))?;
            buffer.fill(0.0);
            let mut rest = 0.0;
            for (i, mass) in law.masses.iter().enumerate().filter(|(i, _)| *i != heaviest) {
                let place = (i as i64 - heaviest as i64).rem_euclid(length as i64) as usize;
                buffer[place] += mass / sum;
                rest += mass / sum;
            }
            let norm = buffer.iter().map(|v| v * v).sum::<f64>().sqrt();
            forward.process(&mut buffer, &mut spectrum).ok()?;
            for (total, value) in product.iter_mut().zip(&spectrum) {
                *total *= power(*value - rest, steps);
            }
            errors += steps * eta * norm;
            powers += steps * rest.min(1.0) * 2.0;
            let shift = (law.first + heaviest as i64) as f64 * self.spacing;
            origin += steps * shift;
            size += steps * shift.abs() * f64::EPSILON;
            let relative = cells.mass_error / sum + 4.0 * f64::EPSILON * (law.masses.len() as f64).log2();
            mass_error += steps * relative;
            log_scale += steps * (sum.ln() + cells.log_scale);
            origin += steps * law.origin;
            loss_error += steps * (cells.loss_error + 2.0 * f64::EPSILON * law.origin.abs());
        }
        // (1 + pointwise error)^T must stay near 1 for the bound on powers.
        let pointwise = errors * (length as f64).sqrt();
        if pointwise.is_nan() || pointwise >= 0.1 {
            return None;
        }
        let norm = (product[0].norm_sqr() + 2.0 * product[1..].iter().map(Complex64::norm_sqr).sum::<f64>())
            .sqrt()
            / (length as f64).sqrt();
        if let Some(first) = product.first_mut() {
            first.im = 0.0;
        }
        if let Some(last) = product.last_mut() {
            last.im = 0.0;
        }
        inverse.process(&mut product, &mut buffer).ok()?;
        let scale = 1.0 / length as f64;
        // Index of the first grid point of the window.
        let first = ((self.start - origin) / self.spacing).ceil();
        let offset = first.rem_euclid(length as f64) as usize;
        let mut sums = vec![(0.0, 0.0); length];
        let (fall, faster) = ((-self.c * self.spacing).exp(), (-(self.c + 1.0) * self.spacing).exp());
        let mut next = (0.0, 0.0);
        for i in (0..length).rev() {
            let value = buffer[(offset + i) % length] * scale;
            next = (value + fall * next.0, value + faster * next.1);
            sums[i] = next;
        }
        // ‖u‖² ≤ Σ e^{−2ct}(1 − e^{−t})² on the grid: at most its integral over h and twice its largest value.
        let c = self.c;
        let integral = 0.5 / c - 2.0 / (2.0 * c + 1.0) + 0.5 / (c + 1.0);
        let largest = (c / (1.0 + c)).powf(c) / (1.0 + c);
        let weight = (integral.max(0.0) / self.spacing + 2.0 * largest * largest).sqrt();
        let rounding = 1.2 * errors + norm * (eta + 16.0 * f64::EPSILON * powers) + 1e-15 * norm;
        // The two running sums lose what their difference cancels.
        let cancelled =
            8.0 * f64::EPSILON * sums.iter().take(2).map(|s| s.0.abs() + s.1.abs()).fold(0.0, f64::max);
        let log_error = 8.0 * f64::EPSILON * log_scale.abs();
        let error = weight * rounding
            + largest * mass_error.exp_m1()
            + cancelled / self.spacing.clamp(1e-3, 1.0)
            + log_error;
        // Sums that are nothing beside the error are not kept; they count as 0.
        let counts = |sum: &(f64, f64)| sum.0.abs() + sum.1.abs() > NEGLIGIBLE_SUM * error;
        sums.truncate(sums.iter().rposition(counts).map_or(0, |last| last + 1));
        sums.shrink_to_fit();
        Some(Composed {
            first: origin + first * self.spacing,
            spacing: self.spacing,
            log_scale,
            sums,
            error: error * (1.0 + NEGLIGIBLE_SUM),
            log_aliasing: self.log_aliasing,
            loss_error: loss_error + size + 4.0 * f64::EPSILON * (origin.abs() + first.abs() * self.spacing),
        })
    }
}

/// (1 + z)^T for whole T.
fn power(z: Complex64, steps: f64) -> Complex64 {
    let log_modulus = steps * log_modulus_1p(z.re, z.im);
    if log_modulus.is_nan() || log_modulus <= -745.0 {
        return Complex64::new(0.0, 0.0);
    }
    Complex64::from_polar(log_modulus.exp(), steps * z.im.atan2(1.0 + z.re))
}

impl Composed {
    /// Bounds on log δ at ε.
    fn delta(&self, epsilon: f64, c: f64) -> (f64, f64) {
        let place = ((epsilon - self.first) / self.spacing).ceil().max(0.0) as usize;
        let scale = self.log_scale - c * epsilon;
        let value = self.sums.get(place).map_or(0.0, |&(slow, fast)| {
            let t = self.first + place as f64 * self.spacing - epsilon;
            (-c * t).exp() * (slow - (-t).exp() * fast)
        });
        let aliasing = (self.log_aliasing - scale).exp();
        let log = |x: f64| if x > 0.0 { x.ln() + scale } else { f64::NEG_INFINITY };
        (log(value - self.error - aliasing), log(value + self.error + aliasing))
    }
}
