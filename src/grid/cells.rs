//! The loss of one step on a grid: an upper law and a lower law, both within O(h²) of the truth.
//!
//! The grid is g_i = a + ih. Outputs are cut where the loss passes a grid point, and about halfway between, so that
//! every part lies in one cell [g_i, g_{i+1}] and belongs to one grid point. Where little of the tilted mass lies,
//! cells span several grid intervals. With p and q the masses under P and Q:
//!
//! * **upper** (Doroshenko et al. 2022, "connect the dots"): the mass of [g_i, g_{i+1}] is moved to its two ends so
//!   that p and q stay what they are. E[(1 − e^{ε−ℓ})₊] is convex in e^{−ℓ}, whose mean does not change, so that it can
//!   only grow.
//! * **lower**: all outputs that belong to g_i are merged, which leaves one atom at log(p/q) within O(h²) of g_i and can
//!   only lower δ (data processing). Atoms are then lowered to g_i − s, with one s for all, chosen so that the heaviest
//!   atom does not move where it outweighs the rest, and to a lower grid point where log(p/q) is below that. δ is monotone in every loss.
//!
//! The grid is placed so that the heaviest point, often nearly an atom (nobody of the group in the batch), is on it.

use crate::grid::cell_sizes::Profile;
use crate::grid::frame::{CHUNK, Cells, Frame, HalfCell, HalfCells};
use crate::loss::StepLoss;
use crate::loss::loss_curve::Atom;
use crate::loss::loss_curve::Sweep;
use crate::loss::smooth_piece::Scratch;
use crate::stopping::carried;
use crate::threads::in_pool;
use rayon::prelude::*;

/// Cells from the heaviest loss to an atom at most: more than a composition may have, and few enough for memory.
const FARTHEST_ATOM: f64 = 4e6;

/// The outputs that one task sweeps: those in [from, to], whose losses lie from grid point `first` to beyond grid point `last`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) from: f64,
    pub(crate) to: f64,
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

impl Cells {
    /// Both laws of `loss` at spacing h, tilted by c and scaled by e^−`log_scale` (about K(c)).
    ///
    /// Cells are coarse where a loss tilted by `saddle` has little mass. The work is subtracted from `allowance`, a budget
    /// in terms of densities; `None` if it runs out, or if an atom is farther away than [`FARTHEST_ATOM`].
    pub(crate) fn new(
        loss: &mut StepLoss,
        (c, saddle): (f64, f64),
        log_scale: f64,
        spacing: f64,
        log_tolerance: f64,
        allowance: &mut u64,
    ) -> Option<Self> {
        let support = loss.support(c, log_tolerance);
        if let Some(fine) = &support.fine {
            // Their own sum is known better than K(c).
            let frame = Frame::new((0.0, spacing), c, fine.log_scale, *allowance);
            return Some(frame.laws(&[frame.fine_atoms(fine)], support.outside));
        }
        let origin = support.heaviest(c, spacing);
        let is_near = |atom: &Atom| ((atom.loss - origin) / spacing).abs() < FARTHEST_ATOM;
        if !support.atoms.iter().all(is_near) {
            return None;
        }
        let frame = Frame::new((origin, spacing), c, log_scale, *allowance);
        let profile = Profile::new(&support.sweeps, &frame, saddle);
        let mut parts: Vec<HalfCells> = Vec::new();
        for sweep in &support.sweeps {
            parts.extend(frame.sweep(sweep, &profile));
        }
        for &Atom { loss, log_mass } in &support.atoms {
            parts.push(frame.atom(loss, log_mass));
        }
        *allowance = allowance.saturating_sub(frame.spent());
        frame.has_budget().then(|| frame.laws(&parts, support.outside))
    }
}

impl Frame {
    /// An atom between two grid points.
    fn atom(&self, loss: f64, log_mass: f64) -> HalfCells {
        let i = ((loss - self.origin) / self.spacing).floor() as i64;
        let mut masses = HalfCells::starting(i, 1);
        let above = loss - self.at(i) > 0.5 * self.spacing;
        self.deposit(
            &mut masses,
            HalfCell {
                first: i,
                size: 1,
                above,
            },
            loss,
            log_mass,
        );
        masses.loss_error = 2.0 * f64::EPSILON * (loss.abs() + self.origin.abs());
        masses.mass_error = f64::EPSILON * (4.0 + log_mass.abs()) * masses.upper.iter().sum::<f64>();
        masses
    }

    /// Sweeps one curve, in parallel; the chunks do not depend on the number of threads.
    fn sweep(&self, sweep: &Sweep<'_>, profile: &Profile) -> Vec<HalfCells> {
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
            self.sweep_chunk(sweep, part, HalfCells::starting(first, CHUNK as usize), size)
        });
        in_pool(|| parts.into_par_iter().map(one).collect())
    }

    /// The outputs at which the chunks of grid intervals begin on the curve. Every output belongs to exactly one chunk.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::one_step;
    use crate::grid::frame::GridLaw;
    use crate::step::{Direction, GroupLaw};

    /// Σ mass·(1 − e^{ε − loss})₊ of a law that is not tilted.
    fn delta(law: &GridLaw, spacing: f64, epsilon: f64) -> f64 {
        let loss = |i: usize| law.origin + (law.first + i as i64) as f64 * spacing;
        let gain = |(i, mass): (usize, &f64)| mass * -(epsilon - loss(i)).min(0.0).exp_m1();
        law.masses.iter().enumerate().map(gain).sum()
    }

    /// Replaced records with two answers have three atoms and nothing between: so fine a grid has no room for them.
    #[test]
    fn atoms_that_are_too_many_cells_apart_have_no_laws() {
        let mut loss = StepLoss::replaced_response(&GroupLaw::binomial(1, 0.3).unwrap(), 0.7).unwrap();
        let mut at = |spacing: f64| Cells::new(&mut loss, (0.0, 0.0), 0.0, spacing, -40.0, &mut u64::MAX.clone());
        assert!(at(1e-3).is_some());
        assert!(at(1e-300).is_none() && at(f64::MIN_POSITIVE).is_none());
    }

    #[test]
    fn a_curve_that_is_flat_to_the_last_bit_keeps_its_mass() {
        // Five records at a tiny rate: the losses of three of the five pieces agree to 1e-17, and the lattice of the two
        // atoms puts a grid point among them.
        let law = GroupLaw::binomial(5, 2.0177e-6).unwrap();
        for direction in [Direction::Add, Direction::Remove] {
            let mut loss = StepLoss::laplace(&law, 10.876, direction).unwrap();
            let levels = loss.support(0.0, -40.0).atoms;
            let gap = (levels[1].loss - levels[0].loss).abs();
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

    /// An atom whose probability is off by a unit in the last place of its logarithm, and one whose loss is by three.
    #[test]
    fn errors_of_an_atom_are_covered_and_attained() {
        let frame = Frame::new((0.0, 0.125), 0.0, -600.0, u64::MAX);
        let mass = |log_mass: f64| frame.atom(0.06, log_mass).upper.iter().sum::<f64>();
        let error = frame.atom(0.06, -600.0).mass_error;
        let off = mass((-600.0f64).next_up()) - mass(-600.0);
        assert!(off <= error && off > 0.8 * error, "{off:e} {error:e}");

        let frame = Frame::new((0.0, 0.125), 0.0, 0.0, u64::MAX);
        let log_of_q = |masses: &HalfCells| (masses.upper[0] + masses.upper[1] * (-0.125f64).exp()).ln();
        let (loss, moved) = (1000.0625f64, 1000.0625f64.next_up().next_up().next_up());
        let (exact, wrong) = (frame.atom(loss, 0.0), frame.atom(moved, 0.0));
        let off = log_of_q(&exact) - log_of_q(&wrong);
        assert!(
            off <= exact.loss_error && off > 0.7 * exact.loss_error,
            "{off:e} {:e}",
            exact.loss_error
        );
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
        losses.push(
            StepLoss::replace_poisson(&GroupLaw::binomial(1, 0.1).unwrap(), 1.0)
                .unwrap()
                .unwrap(),
        );
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
