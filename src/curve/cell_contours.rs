//! Contours that all questions about the ε of one cell share ([`crate::inversion::tilt_lattice`]).
//!
//! A search for ε asks for δ at several neighbouring ε, and one more question for δ, which uses nothing of the search, confirms its answer. All
//! these ε mostly lie in one cell. A contour is chosen by the cell alone, so that one contour serves all of them. It is kept, which does not
//! change any answer: the same contour, computed again, would have the same bits.

use crate::inversion::cluster_runs;
use crate::inversion::contour::Limits;
use crate::inversion::contour_sum::ContourSum;
use crate::inversion::segment::Segment;
use crate::inversion::split::Suitability;
use crate::inversion::tilt::Tilt;
use crate::inversion::tilt_lattice::{Cell, TiltLattice};
use std::sync::Arc;

/// Contours that are kept: the latest ones. A search needs one or two; one of many points takes 5 MB.
const CAPACITY: usize = 4;

/// The contours of the cells of all questions so far.
#[derive(Debug, Default)]
pub(super) struct CellContours {
    lattice: TiltLattice,
    contours: Vec<CellContour>,
    /// Work of all contours that were asked for. One that was kept counts again each time, so that work does not depend on what is kept.
    work: u64,
}

/// The outcome of choosing a contour for the inversion of all runs in a cell.
#[derive(Debug, Clone)]
pub(super) enum CellInversion {
    /// There is this contour.
    Contour(Arc<ContourSum>),
    /// Every contour takes too many points.
    TooLong,
    /// Inversion of the runs with a large loss takes far fewer points.
    LeftToSplit,
}

/// That outcome for one cell and one tolerance, with the work that it took.
#[derive(Debug)]
struct CellContour {
    place: i32,
    log_tolerance: f64,
    inversion: CellInversion,
    work: u64,
}

impl CellContours {
    /// Forgets what could make the work of the next answer depend on earlier questions.
    pub(super) fn forget(&mut self) {
        self.lattice.forget();
    }

    /// Work so far, in density evaluations.
    pub(super) fn work(&self) -> u64 {
        self.work + self.lattice.repeated_work()
    }

    /// The cell of ε; `None` where its saddle point is not above 0.
    pub(super) fn cell(&mut self, segments: &mut [Segment], epsilon: f64) -> Option<Cell> {
        self.lattice.cell(segments, epsilon)
    }

    /// The cell of the ε whose δ is about e^`log_delta`.
    pub(super) fn cell_of_delta(&mut self, segments: &mut [Segment], log_delta: f64) -> Option<Cell> {
        self.lattice.cell_of_delta(segments, log_delta)
    }

    /// The contour of a cell for relative errors of δ near e^`log_tolerance`, within `limits`, which may depend on the
    /// contour for the runs with a large loss.
    pub(super) fn contour(
        &mut self,
        segments: &mut [Segment],
        cell: &Cell,
        log_tolerance: f64,
        limits: impl Fn(Suitability) -> Limits,
    ) -> CellInversion {
        let is_known = |known: &&CellContour| known.place == cell.place && known.log_tolerance == log_tolerance;
        if let Some(known) = self.contours.iter().find(is_known) {
            self.work += known.work;
            return known.inversion.clone();
        }
        let work_of = |segments: &[Segment]| segments.iter().map(|segment| segment.loss.work()).sum::<u64>();
        let before = work_of(segments);
        let suitability = Suitability::at(segments, cell.high.saddle.epsilon);
        let inversion = if suitability == Suitability::Needed {
            CellInversion::LeftToSplit
        } else {
            let tilt = Tilt::over(segments, cell, log_tolerance);
            let contour =
                tilt.and_then(|tilt| cluster_runs::contours(segments, &tilt, log_tolerance, limits(suitability)));
            contour.map_or(CellInversion::TooLong, |contour| {
                CellInversion::Contour(Arc::new(contour))
            })
        };
        let points = match &inversion {
            CellInversion::Contour(contour) => contour.work(),
            _ => 0,
        };
        if self.contours.len() == CAPACITY {
            self.contours.remove(0);
        }
        self.contours.push(CellContour {
            place: cell.place,
            log_tolerance,
            inversion: inversion.clone(),
            work: points + work_of(segments) - before,
        });
        self.work += points;
        inversion
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;

    /// The contour for an ε, with the cell.
    fn made(
        cells: &mut CellContours,
        run: GaussianRun,
        epsilon: f64,
        log_tolerance: f64,
    ) -> (Cell, Arc<ContourSum>) {
        let mut segments = run.segments();
        let cell = cells.cell(&mut segments, epsilon).unwrap();
        match cells.contour(&mut segments, &cell, log_tolerance, |_| Limits::of_products(1e7)) {
            CellInversion::Contour(contour) => (cell, contour),
            other => panic!("{other:?}"),
        }
    }

    /// At both ends of a cell and in its middle the contour encloses the curve to the width it was designed for, and one of another cell does
    /// not serve.
    #[test]
    fn a_contour_serves_its_whole_cell() {
        for (distance, steps, above) in [(0.05, 1000.0, 3.0), (0.3, 10.0, 1.0), (0.01, 1e5, 8.0)] {
            let run = GaussianRun::new(distance, steps);
            let epsilon = 0.5 * run.variance + above * run.variance.sqrt();
            let (cell, contour) = made(&mut CellContours::default(), run, epsilon, -14.0);
            let (first, last) = (cell.low.saddle.epsilon, cell.high.saddle.epsilon);
            for epsilon in [first, 0.5 * (first + last), last] {
                let (found, exact) = (contour.delta(epsilon), run.log_delta(epsilon));
                assert!(
                    found.log_lower <= exact && exact <= found.log_upper,
                    "{found:?} {exact}"
                );
                assert!(found.width() <= 1e-5, "{found:?}");
            }
            let far = last + 6.0 * run.variance.sqrt();
            assert!(contour.delta(far).width() > 1e-3);
        }
    }

    #[test]
    fn a_contour_is_computed_once_and_counted_twice() {
        let run = GaussianRun::new(0.05, 1000.0);
        let mut cells = CellContours::default();
        let (_, first) = made(&mut cells, run, 3.0, -14.0);
        let work = cells.contours[0].work;
        let before = cells.work;
        let (_, second) = made(&mut cells, run, 3.0, -14.0);
        assert!(Arc::ptr_eq(&first, &second));
        assert!(work > 0 && cells.work == before + work);
        let (_, finer) = made(&mut cells, run, 3.0, -20.0);
        assert!(finer.delta(3.0).width() < first.delta(3.0).width());
    }
}
