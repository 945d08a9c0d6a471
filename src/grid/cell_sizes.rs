//! How coarse the cells of the grid may be, and where.

use crate::grid::cells::{CHUNK, COARSEST, Frame};
use crate::loss::loss_curve::Sweep;
use crate::loss::smooth_piece::Scratch;

/// Variance that coarse cells may add altogether, relative to that of cells of width h holding all the mass.
const COARSENING: f64 = 0.05;

/// How coarse each chunk may be, from where the tilted mass lies.
///
/// Cells of width 2^j h in a chunk with a share m of the mass add m·4^j h² of variance. With n chunks and
/// 4^j ≤ COARSENING/(nm) that is COARSENING·h² altogether. The shares are estimates: they decide how narrow the
/// result is, not whether it is true.
pub(crate) struct Profile {
    first: i64,
    sizes: Vec<i64>,
}

impl Profile {
    pub(crate) fn new(sweeps: &[Sweep<'_>], frame: &Frame, saddle: f64) -> Self {
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
    pub(crate) fn size(&self, chunk: i64) -> i64 {
        usize::try_from(chunk - self.first)
            .ok()
            .and_then(|place| self.sizes.get(place).copied())
            .unwrap_or(1)
    }
}
