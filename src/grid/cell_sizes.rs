//! The sizes of the cells of the grid.

use crate::grid::frame::{CHUNK, COARSEST, Frame};
use crate::loss::loss_curve::Sweep;
use crate::loss::smooth_piece::Scratch;

/// Variance that coarse cells may add altogether, relative to that of cells of width h that hold all the mass: what
/// discretisation adds to the width of log δ grows by as much.
const COARSENING: f64 = 0.05;
/// Points at which each curve is sampled.
const SAMPLES: usize = 2000;
/// Chunks for which sizes are chosen; more than this are all swept at the finest.
const MAX_CHUNKS: f64 = 1e6;
/// Grid indices must be whole numbers of an `f64` with room for what is added to them.
const MAX_POSITION: f64 = 1e15;
/// Maximum width of a cell, times c + 1: e^{(c+1)ℓ} then changes by at most a quarter within a cell.
const MAX_TILTED_WIDTH: f64 = 0.25;

/// The size of the cells of each chunk, from the distribution of the tilted mass.
///
/// Cells of width 2^j h in a chunk with a fraction m of the mass add m·4^j h² of variance. With n chunks and
/// 4^j ≤ COARSENING/(nm) that is COARSENING·h² altogether. The fractions are estimates: they decide how narrow the
/// result is, not whether it is true.
#[derive(Debug)]
pub(crate) struct Profile {
    first: i64,
    sizes: Vec<i64>,
}

impl Profile {
    /// The sizes for the mass of `sweeps`, tilted by `saddle`.
    pub(crate) fn new(sweeps: &[Sweep<'_>], frame: &Frame, saddle: f64) -> Self {
        let chunk_width = CHUNK as f64 * frame.spacing;
        let position = |loss: f64| (loss - frame.origin) / chunk_width;
        let (low, high) = positions(sweeps, position);
        if !(low <= high && high - low < MAX_CHUNKS && low.abs() < MAX_POSITION) {
            return Self {
                first: 0,
                sizes: Vec::new(),
            };
        }
        let first = low.floor() as i64;
        let count = (high.floor() as i64 - first + 1) as usize;
        let masses = chunk_masses(sweeps, saddle, count, |loss| position(loss) - first as f64);
        let total: f64 = masses.iter().sum();
        let max_exponent = max_exponent(frame);
        let size = |mass: f64| {
            let fraction = mass / total.max(f64::MIN_POSITIVE);
            let coarse = (0.5 * (COARSENING / (count as f64 * fraction)).log2()).floor();
            1i64 << (coarse.clamp(0.0, f64::from(max_exponent)) as i32)
        };
        Self {
            first,
            sizes: masses.into_iter().map(size).collect(),
        }
    }

    /// Grid intervals in one cell of a chunk.
    pub(crate) fn size(&self, chunk: i64) -> i64 {
        usize::try_from(chunk - self.first)
            .ok()
            .and_then(|place| self.sizes.get(place).copied())
            .unwrap_or(1)
    }
}

/// The least and the largest position of a loss.
fn positions(sweeps: &[Sweep<'_>], position: impl Fn(f64) -> f64) -> (f64, f64) {
    let mut scratch = Scratch::default();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for sweep in sweeps {
        low = low.min(position(sweep.curve.point(sweep.start, &mut scratch).loss));
        high = high.max(position(sweep.curve.point(sweep.end, &mut scratch).loss));
    }
    (low, high)
}

/// Estimates of the tilted mass in each of `count` chunks, up to a common factor.
fn chunk_masses(sweeps: &[Sweep<'_>], saddle: f64, count: usize, place: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut scratch = Scratch::default();
    let mut masses = vec![0.0; count];
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
            let here = place(point.loss);
            let from = last.unwrap_or(here);
            let (low, high) = (from.max(0.0) as usize, (here.max(0.0) as usize).min(count - 1));
            let each = mass / (high - low.min(high) + 1) as f64;
            for chunk in &mut masses[low.min(high)..=high] {
                *chunk += each;
            }
            last = Some(here);
        }
    }
    masses
}

/// The largest j of cells of 2^j grid intervals.
fn max_exponent(frame: &Frame) -> i32 {
    if !frame.is_fine() {
        return 0;
    }
    (MAX_TILTED_WIDTH / ((frame.c + 1.0) * frame.spacing))
        .log2()
        .floor()
        .clamp(0.0, f64::from(COARSEST)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::StepLoss;
    use crate::special::normal::log_upper_tail;

    #[test]
    fn coarse_cells_add_no_more_variance_than_they_may() {
        // N(μ, 1) against N(0, 1), tilted by c: losses N((2c + 1)μ²/2, μ²).
        for (distance, saddle, spacing) in [(1.0, 0.0, 1e-3), (1.0, 4.0, 1e-4), (0.1, 20.0, 1e-5)] {
            let mut loss = StepLoss::shift(distance);
            let support = loss.support(saddle, -40.0);
            let frame = Frame::new((0.0, spacing), saddle, 0.0, u64::MAX);
            let profile = Profile::new(&support.sweeps, &frame, saddle);
            let centre = 0.5 * (2.0 * saddle + 1.0) * distance * distance;
            let above = |loss: f64| log_upper_tail((loss - centre) / distance).exp();
            let chunk_width = CHUNK as f64 * spacing;
            let (mut added, mut covered) = (0.0, 0.0);
            for (place, &size) in profile.sizes.iter().enumerate() {
                let low = (profile.first + place as i64) as f64 * chunk_width;
                let mass = above(low) - above(low + chunk_width);
                covered += mass;
                if size > 1 {
                    added += mass * (size * size) as f64;
                }
                assert!(size as f64 * spacing * (saddle + 1.0) <= 0.25 && CHUNK % size == 0);
            }
            assert!(covered > 1.0 - 1e-12);
            // Powers of 4 leave out up to three quarters; the estimates of 2000 samples are within some per cent.
            assert!(
                added < 1.02 * COARSENING && added > 0.05 * COARSENING,
                "{distance} {saddle}: {added}"
            );
            assert_eq!(profile.size(profile.first - 1), 1);
        }
    }

    #[test]
    fn no_cell_is_coarse_where_the_spacing_is_above_one() {
        let mut loss = StepLoss::shift(40.0);
        let support = loss.support(0.0, -40.0);
        let frame = Frame::new((0.0, 1.5), 0.0, 0.0, u64::MAX);
        let profile = Profile::new(&support.sweeps, &frame, 0.0);
        assert!(!profile.sizes.is_empty() && profile.sizes.iter().all(|&size| size == 1));
    }
}
