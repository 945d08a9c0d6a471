//! Tilts on a lattice, which questions about neighbouring ε share, and the moments there.
//!
//! A contour at the saddle point c of one ε is nearly as good at the ε around it: at ε' it loses the factor e^{(c' − c)²A''/2}, with c' the
//! saddle point of ε'. So the axis of ε is divided into cells [ε(c_j), ε(c_{j+1})), where ε(c) is the ε whose saddle point is c and
//! c_j = e^{j/8}, and every ε of a cell is served by the tilt c_j. The cell of an ε does not depend on where a search for it began,
//! because ε(c) grows with c: a question is answered alike whatever was asked before it, and moments found for one serve the next.

use crate::inversion::saddle;
use crate::inversion::saddle::{Node, Saddle};
use crate::inversion::segment::{Segment, Total};
use rustc_hash::FxHashMap;

/// log c_{j+1} − log c_j. A contour at the other end of a cell loses a fifth of a digit where c is 4.5 standard deviations, and a digit
/// and a half at 15; with a spacing twice as large four times as many digits would be lost. With half of it twice as many ε are the first of
/// their cell.
const SPACING: f64 = 0.125;
/// log of the largest factor that a contour may lose over its cell, as it does at 22 standard deviations.
const MAX_LOG_LOSS: f64 = 4.0;
/// How many times wider the range of losses that δ comes from may be at the upper end of a cell. It changes by a few per cent, unless a
/// rare and large loss takes over.
const MAX_WIDENING: f64 = 1.5;
/// How many times wider than that it is by estimates where certified moments are not asked.
const CLEARLY: f64 = 1.2;
/// Places of the lattice: tilts from 1e-12 to 1e12.
const PLACES: std::ops::RangeInclusive<i32> = -221..=221;
/// Maximum number of moments for one search. Newton's method takes three or four.
const MAX_ROUNDS: usize = 60;
/// Rounds of Newton's method before steps are doubled.
const NEWTON_ROUNDS: usize = 3;
/// Places that a search goes back at first where moments are beyond the range of an `f64`: a factor of 8 in c.
const BACK: f64 = 16.0;

/// The cell of an ε: the tilts at its ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// j.
    pub(crate) place: i32,
    pub(crate) low: Node,
    /// Perhaps an estimate: the contour is at the lower tilt.
    pub(crate) high: Node,
}

impl Cell {
    /// log of the factor that a contour at the lower tilt loses at the upper end of the cell.
    pub(crate) fn log_loss(&self) -> f64 {
        let (low, high) = (self.low.saddle, self.high.saddle);
        (low.log_moment - high.log_moment + (high.c - low.c) * high.epsilon).max(0.0)
    }

    /// Whether one contour serves the cell: not where moments explode between its tilts, so that it reaches far out.
    pub(crate) fn is_narrow(&self) -> bool {
        self.log_loss() <= MAX_LOG_LOSS && self.high.saddle.width <= MAX_WIDENING * self.low.saddle.width
    }
}

/// The nodes of one run that questions needed so far.
#[derive(Debug, Default)]
pub(crate) struct TiltLattice {
    nodes: FxHashMap<i32, (Option<Node>, u64)>,
    /// Where the next search starts.
    start: Option<i32>,
    /// Work of the nodes that were asked for again, as if they had been computed again.
    repeated: u64,
}

/// The tilt at a place.
fn tilt_at(place: i32) -> f64 {
    (f64::from(place) * SPACING).exp()
}

/// The last place whose tilt is at most c.
fn place_below(c: f64) -> i32 {
    (c.ln() / SPACING).floor() as i32
}

/// Work on moments so far.
fn work_of(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.loss.work()).sum()
}

/// Whether a search on the lattice, which takes a few moments more than one off it, costs little.
fn are_moments_cheap(segments: &[Segment]) -> bool {
    segments.iter().all(|segment| segment.loss.has_cheap_moments())
}

impl TiltLattice {
    /// Forgets where the last search ended. The nodes stay: they are the same for every question.
    pub(crate) fn forget(&mut self) {
        self.start = None;
    }

    /// Work of nodes that were asked for again.
    pub(crate) fn repeated_work(&self) -> u64 {
        self.repeated
    }

    /// The cell of ε; `None` where its saddle point is not in (0, ∞) or out of reach, or where moments are expensive.
    pub(crate) fn cell(&mut self, segments: &mut [Segment], epsilon: f64) -> Option<Cell> {
        if !are_moments_cheap(segments) {
            return None;
        }
        let start = match self.start {
            Some(place) => place,
            None => place_below(saddle::upper_guess(segments, epsilon)?),
        };
        self.find(segments, start, |saddle| {
            let gap = epsilon - saddle.epsilon;
            (gap, gap / (saddle.c * saddle.width.powi(2)))
        })
    }

    /// The cell of the ε whose δ is about e^`log_delta`, likewise.
    pub(crate) fn cell_of_delta(&mut self, segments: &mut [Segment], log_delta: f64) -> Option<Cell> {
        if !are_moments_cheap(segments) {
            return None;
        }
        let target = log_delta.min(saddle::MAX_LOG_DELTA);
        let start = match self.start {
            Some(place) => place,
            None => place_below(saddle::guess_for_log_delta(segments, target)?),
        };
        self.find(segments, start, |saddle| {
            let gap = saddle.log_delta - target;
            (gap, gap / (saddle.c * saddle.width).powi(2))
        })
    }

    /// The node at a place; `None` where its moments are beyond the range of an `f64`.
    fn node(&mut self, segments: &mut [Segment], place: i32) -> Option<Node> {
        if let Some((node, work)) = self.nodes.get(&place) {
            self.repeated += work;
            return *node;
        }
        let before = work_of(segments);
        let node = saddle::node(segments, tilt_at(place), Total::at);
        self.nodes.insert(place, (node, work_of(segments) - before));
        node
    }

    /// The cell from the last place at which a gap that falls along the lattice is not negative: by estimates, if certified moments there agree
    /// with them, else by certified moments alone. `None`, too, for a cell that is far from narrow by estimates.
    fn find(&mut self, segments: &mut [Segment], start: i32, gap: impl Fn(&Saddle) -> (f64, f64)) -> Option<Cell> {
        let cell = match self.find_by_estimates(segments, start, &gap) {
            Estimated::Cell(cell) => cell,
            Estimated::Wide => return None,
            Estimated::Nothing => {
                let place = last_place(start, &gap, |place| self.node(segments, place))?;
                Cell {
                    place,
                    low: self.node(segments, place)?,
                    high: self.node(segments, place + 1)?,
                }
            }
        };
        self.start = Some(cell.place);
        Some(cell)
    }

    fn find_by_estimates(
        &mut self,
        segments: &mut [Segment],
        start: i32,
        gap: impl Fn(&Saddle) -> (f64, f64),
    ) -> Estimated {
        let mut estimates = FxHashMap::default();
        let mut estimated = |place: i32| {
            *estimates
                .entry(place)
                .or_insert_with(|| saddle::node(segments, tilt_at(place), Total::estimated))
        };
        let first = estimated(start);
        let is_certified = first.is_none_or(|node| node.bound.log_moment.is_finite());
        let found = if is_certified {
            None
        } else {
            last_place(start, &gap, &mut estimated)
        };
        let Some(place) = found else {
            return Estimated::Nothing;
        };
        let (Some(below), Some(high)) = (estimated(place), estimated(place + 1)) else {
            return Estimated::Nothing;
        };
        if high.saddle.width > CLEARLY * MAX_WIDENING * below.saddle.width {
            return Estimated::Wide;
        }
        match self.node(segments, place) {
            Some(low) if saddle::agree(&below.saddle, &low.saddle) && gap(&low.saddle).0 >= 0.0 => {
                Estimated::Cell(Cell { place, low, high })
            }
            _ => Estimated::Nothing,
        }
    }
}

/// What estimates say of a cell.
enum Estimated {
    /// This one, with a certified lower tilt.
    Cell(Cell),
    /// No contour serves the cell.
    Wide,
    /// There are no estimates, or they are no good.
    Nothing,
}

/// The last place at which a gap that falls along the lattice is not negative. `gap` also says how far its root is in log c, as far as
/// its slope tells; `None` if there is no such place.
fn last_place(
    start: i32,
    gap: impl Fn(&Saddle) -> (f64, f64),
    mut node: impl FnMut(i32) -> Option<Node>,
) -> Option<i32> {
    let (mut low, mut high) = (*PLACES.start() - 1, *PLACES.end() + 1);
    let mut place = start.clamp(*PLACES.start(), *PLACES.end());
    let mut least = 1.0f64;
    for round in 0..MAX_ROUNDS {
        let (is_low, ahead) = match node(place) {
            Some(node) => {
                let (gap, distance) = gap(&node.saddle);
                (gap >= 0.0, distance / SPACING)
            }
            None => (false, -BACK),
        };
        if is_low {
            low = place;
        } else {
            high = place;
        }
        if high - low == 1 {
            return (PLACES.contains(&low) && PLACES.contains(&high)).then_some(low);
        }
        let is_bracketed = PLACES.contains(&low) && PLACES.contains(&high);
        // The place next to the root, on its other side where this one is next to it; farther each time while only one side is known,
        // as moments that explode do not say how far the root is.
        let step = (f64::from(place) + ahead).floor() - f64::from(place);
        let step = if is_low { step.max(least) } else { step.min(-least) };
        if !is_bracketed && round >= NEWTON_ROUNDS {
            least *= 2.0;
        }
        let next = f64::from(place) + step;
        let inside = next > f64::from(low) && next < f64::from(high);
        place = if inside {
            next as i32
        } else if is_bracketed {
            low + (high - low) / 2
        } else if is_low {
            high - 1
        } else {
            low + 1
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;

    /// ε(c) of a Gaussian run in closed form.
    fn epsilon_of(run: GaussianRun, c: f64) -> f64 {
        0.5 * (2.0 * c + 1.0) * run.variance - 1.0 / c - 1.0 / (c + 1.0)
    }

    #[test]
    fn the_cell_of_an_epsilon_is_the_one_that_holds_it_wherever_the_search_began() {
        for (distance, steps) in [(1.0, 1.0), (0.05, 1000.0), (1e-3, 1e4), (4.0, 3.0)] {
            let run = GaussianRun::new(distance, steps);
            let spread = run.variance.sqrt();
            for above in [-0.9, 0.0, 1.0, 4.0, 12.0] {
                let epsilon = 0.5 * run.variance + above * spread;
                let mut found = Vec::new();
                for start in [None, Some(-200), Some(0), Some(7), Some(200)] {
                    let mut lattice = TiltLattice {
                        start,
                        ..TiltLattice::default()
                    };
                    let cell = lattice.cell(&mut run.segments(), epsilon).unwrap();
                    found.push(cell.place);
                    assert!(lattice.nodes.len() <= 25, "{start:?}: {}", lattice.nodes.len());
                    assert!(cell.low.saddle.epsilon <= epsilon && epsilon < cell.high.saddle.epsilon);
                    assert!((cell.low.saddle.epsilon / epsilon_of(run, tilt_at(cell.place)) - 1.0).abs() < 1e-9);
                }
                assert!(found.iter().all(|place| *place == found[0]), "{found:?}");
            }
        }
    }

    #[test]
    fn few_moments_are_needed_and_none_twice() {
        let run = GaussianRun::new(0.05, 1000.0);
        let (mut lattice, mut segments) = (TiltLattice::default(), run.segments());
        let cell = lattice.cell_of_delta(&mut segments, -11.5).unwrap();
        assert!(cell.low.saddle.log_delta >= -11.5 && cell.high.saddle.log_delta < -11.5);
        let count = lattice.nodes.len();
        assert!(count <= 5, "{count}");
        let middle = 0.5 * (cell.low.saddle.epsilon + cell.high.saddle.epsilon);
        assert_eq!(lattice.cell(&mut segments, middle).unwrap().place, cell.place);
        assert_eq!(lattice.nodes.len(), count);
    }

    /// With V the variance of the loss and d = c' − c, ε is A'(c') − 1/c' − 1/(c' + 1) at the upper end, where a contour at the lower tilt
    /// loses e^{d²V/2 − d(1/c' + 1/(c' + 1))}.
    #[test]
    fn what_a_contour_loses_over_a_cell_is_that_of_a_gaussian() {
        for (distance, steps, above) in [
            (0.05, 1000.0, 2.0),
            (0.05, 1000.0, 6.0),
            (1.0, 9.0, 12.0),
            (1.0, 9.0, 30.0),
        ] {
            let run = GaussianRun::new(distance, steps);
            let epsilon = 0.5 * run.variance + above * run.variance.sqrt();
            let cell = TiltLattice::default().cell(&mut run.segments(), epsilon).unwrap();
            let high = cell.high.saddle.c;
            let change = high - cell.low.saddle.c;
            let exact = 0.5 * change * change * run.variance - change * (1.0 / high + 1.0 / (high + 1.0));
            assert!((cell.log_loss() - exact.max(0.0)).abs() < 1e-8, "{cell:?} {exact}");
            assert_eq!(cell.is_narrow(), above < 20.0);
        }
    }

    #[test]
    fn an_epsilon_below_the_loss_has_no_cell() {
        let run = GaussianRun::new(1.0, 100.0);
        assert!(TiltLattice::default().cell(&mut run.segments(), -1000.0).is_none());
        assert!(TiltLattice::default().cell(&mut [], 1.0).is_none());
    }
}
