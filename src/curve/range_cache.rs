//! Curves of which many points are wanted: what one question left serves all ε in its neighbourhood.
//!
//! The range of ε is cut into neighbourhoods as wide as the loss spreads. Contours and grids that are made for the middle of one
//! are good near it: their errors are bounded at every ε. An answer depends on its ε alone, not on earlier questions,
//! as each neighbourhood is computed as if nothing had been asked before.

use crate::curve::directed::Directed;
use crate::grid::composition::Grid;
use crate::interval::Enclosure;
use crate::inversion::contour::Contour;
use crate::special::log_space::LogSum;
use std::collections::HashMap;

/// The middle of a neighbourhood is computed to this part of the width that is wanted.
const REFINED: f64 = 0.2;
/// Width of a neighbourhood in standard deviations of the loss.
const REACH: f64 = 0.7;

/// Where even the middle of a neighbourhood stays wider than wanted, how many times as wide answers beside it may be: more work
/// would not help.
const BESIDE: f64 = 4.0;

/// How close δ is wanted: to `relative` of it or, for the sake of trade-off functions, to `absolute`; in any case to `coarse`
/// of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// Relative width that is always good enough.
    pub relative: f64,
    /// Absolute width that is good enough,
    pub absolute: f64,
    /// if the relative one is at most this.
    pub coarse: f64,
}

impl Wanted {
    /// Requirements that a point near `reached` can meet: these, or a few times the width of `reached` where it missed them.
    fn or_reached(self, reached: Enclosure) -> Self {
        if self.is_met(reached) {
            return self;
        }
        let (relative, absolute) = (BESIDE * reached.width(), BESIDE * (reached.upper() - reached.lower()));
        Self {
            relative: self.relative.max(relative),
            absolute: self.absolute.max(absolute),
            coarse: self.coarse.max(relative),
        }
    }

    fn is_met(self, found: Enclosure) -> bool {
        let width = found.width();
        width <= self.relative || (width <= self.coarse && found.upper() - found.lower() <= self.absolute)
    }

    /// δ at ε, `finer` times as closely.
    fn of(self, directed: &mut Directed, epsilon: f64, finer: f64) -> Enclosure {
        let found = directed.delta(epsilon, finer * self.coarse);
        let needed = (self.absolute / found.upper()).clamp(self.relative, self.coarse);
        if needed >= self.coarse {
            return found;
        }
        directed.delta(epsilon, finer * needed).meet(found)
    }
}

/// Contours and grids of one truncation, and the log of the probability that it leaves out.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) contours: Vec<Contour>,
    pub(crate) grids: Vec<Grid>,
    pub(crate) log_lost: f64,
}

impl Kept {
    fn delta(&self, epsilon: f64) -> Enclosure {
        let contours = self.contours.iter().map(|contour| contour.delta(epsilon));
        let grids = self.grids.iter().map(|grid| grid.delta(epsilon));
        let found = contours.chain(grids).fold(Enclosure::TRIVIAL, Enclosure::meet);
        let mut upper = LogSum::default();
        upper.add(found.log_upper);
        upper.add(self.log_lost);
        found.with_logs(found.log_lower, upper.ln() + 2.0 * f64::EPSILON)
    }
}

/// The neighbourhoods of one ordered pair: what was kept, and the middle.
#[derive(Debug, Default)]
pub(crate) struct Neighbourhoods {
    known: HashMap<i64, Neighbourhood>,
}

/// What the question about the middle left, its answer, and the work that it took in density evaluations.
#[derive(Debug)]
struct Neighbourhood {
    kept: Vec<Kept>,
    middle: Enclosure,
    cost: u64,
}

impl Neighbourhoods {
    /// δ at ε as closely as `wanted`, from the neighbourhood if that will do, else from scratch; and the work that it took in
    /// density evaluations, with that of the neighbourhood whether it was done now or for an earlier question.
    pub(crate) fn delta(&mut self, directed: &mut Directed, epsilon: f64, wanted: Wanted) -> (Enclosure, u64) {
        let from_scratch = |directed: &mut Directed| {
            directed.forget();
            let before = directed.work();
            let found = wanted.of(directed, epsilon, 1.0);
            (found, directed.work() - before)
        };
        let Some(spread) = directed.spread() else {
            return from_scratch(directed);
        };
        let width = REACH * spread;
        let place = ((epsilon - directed.moved()) / width).round();
        if !(width > 0.0 && place.abs() < 1e6) {
            return from_scratch(directed);
        }
        let Neighbourhood { kept, middle, cost } = self.known.entry(place as i64).or_insert_with(|| {
            directed.forget();
            let before = directed.work();
            let middle = wanted.of(directed, place * width + directed.moved(), REFINED);
            let cost = directed.work() - before;
            let kept = directed.take_kept();
            directed.forget();
            Neighbourhood { kept, middle, cost }
        });
        let inner = epsilon - directed.moved();
        let found = kept
            .iter()
            .map(|kept| kept.delta(inner))
            .fold(Enclosure::TRIVIAL, Enclosure::meet);
        let found = directed.with_lost(found);
        if wanted.or_reached(*middle).is_met(found) {
            return (found, *cost);
        }
        let (scratch, more) = from_scratch(directed);
        (scratch.meet(found), *cost + more)
    }
}
