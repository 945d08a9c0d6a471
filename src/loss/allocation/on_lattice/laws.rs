//! Two laws on lattices that enclose a log-normal variable Y of mean 1 in the convex order.
//!
//! C(k) = E[(Y − k)₊] determines the law of Y. A law is below another one in the convex order if its mean is the same and its C nowhere above.
//!
//! * **spread**: the places are 0, h, 2h, …, and Y is moved to both ends of its cell at random so that its mean stays. C of that law is the
//!   interpolation of C between the places, and above it, as C is convex.
//! * **merged**: between two neighbouring places the interpolation of C is above it by at most e = h²/8 times the largest density there, so that the
//!   interpolation of C − g is below C for any g that is at least e on both sides of a place. The first place y₀ is one where 1 − k is below C next to
//!   0: with the next place y₁, the line from 1 − y₀ to C(y₁) − g is below the tangent of C at y₁, and so below C, if y₁ − y₀ ≤ y₁ − E[Y | Y ≤ y₁].
//!   Between them no place has a mass.
//!
//! Sums of independent variables are in the same order as their terms (`docs/theory/random-allocation.md`, Proposition 15).

use crate::interval::Interval;
use crate::loss::allocation::log_normal::LogNormal;
use crate::loss::allocation::on_lattice::cells::{Ends, ends};
use crate::loss::lattice::places::Places;
use crate::special::root::bisect;
use std::convert::Infallible;
use std::sync::Arc;

/// Smaller masses are not told from 0: this, or nothing.
const TINY: f64 = 1e-290;
/// Numbers of intervals between the first place of a merged law and the next one that has a mass. With 1, masses next to the first one may be
/// negative where the density falls much within one interval.
const GAPS: [usize; 4] = [1, 2, 4, 8];
/// Relative accuracy to which y₁ is found, which is certified afterwards.
const NEXT_PLACE: f64 = 1e-6;
/// Relative room for rounding of what y₁ must satisfy.
const ROOM: f64 = 1e-12;
/// g over e: the density is known to a part of 1e-12 or so.
const ABOVE_DENSITY: f64 = 1.0 + 1e-9;
/// Bound on the relative rounding errors of masses, besides those that each has of its own: sums of a few terms.
const ERROR: f64 = 1e-15;
/// Rounding of a sum or quotient of a few terms.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// A law on the lattice `start` + h·j, of which the first places are listed.
#[derive(Debug, Clone)]
pub(super) struct LatticeLaw {
    pub(super) start: f64,
    pub(super) places: Arc<Places>,
    /// The probability of what is above the last place, and E[(Z − z)₊] there.
    pub(super) tail_mass: Interval,
    pub(super) tail_excess: Interval,
}

/// A law above that of Y, with the places 0, …, `last`; `None` where some mass is beyond the range of numbers.
pub(super) fn spread(law: &LogNormal, spacing: f64, last: usize) -> Option<LatticeLaw> {
    let cells = ends(law, (0.0, spacing), 0, last + 1);
    let mut masses = vec![0.0; last + 1];
    for (j, cell) in cells.iter().enumerate() {
        masses[j] += cell.left + cell.left_error;
        if j < last {
            masses[j + 1] += cell.right + cell.right_error;
        }
    }
    if !masses.iter().all(|mass| mass.is_finite()) {
        return None;
    }
    for mass in &mut masses {
        *mass = mass.max(TINY);
    }
    let end = spacing * last as f64;
    Some(LatticeLaw {
        start: 0.0,
        places: Arc::new(Places { masses, error: ERROR }),
        tail_mass: beyond(law, &cells[last], end + spacing),
        tail_excess: law.excess_above(end),
    })
}

/// The mass of all places from `next` on, of which the last cell gives a part to `next`.
fn beyond(law: &LogNormal, cell: &Ends, next: f64) -> Interval {
    let far = law.above(next).mass;
    Interval {
        lower: (cell.right - cell.right_error).max(0.0) + far.lower,
        upper: cell.right + cell.right_error + far.upper,
    }
}

/// A law below that of Y, with the places 0, …, `last`; `None` where some mass would be negative.
pub(super) fn merged(law: &LogNormal, spacing: f64, last: usize) -> Option<LatticeLaw> {
    GAPS.iter().find_map(|&gap| merged_with(law, spacing, last, gap))
}

/// The largest density over each cell, times h²/8.
fn excesses(
    law: &LogNormal,
    edge: impl Fn(usize) -> f64,
    spacing: f64,
    cells: std::ops::Range<usize>,
) -> Vec<f64> {
    let factor = spacing * spacing / 8.0 * ABOVE_DENSITY;
    let mode = law.mode();
    let mut left = law.density(edge(cells.start)).0;
    cells
        .map(|j| {
            let right = law.density(edge(j + 1)).0;
            let holds_mode = edge(j) < mode * (1.0 + 1e-9) && mode * (1.0 - 1e-9) < edge(j + 1);
            let largest = if holds_mode {
                law.density(mode).0
            } else {
                left.max(right)
            };
            left = right;
            factor * largest
        })
        .collect()
}

/// The law whose second place with a mass is `gap` intervals above the first.
fn merged_with(law: &LogNormal, spacing: f64, last: usize, gap: usize) -> Option<LatticeLaw> {
    let width = spacing * gap as f64;
    let next = next_place(law, width)?;
    let start = next - width;
    let edge = |j: usize| start + spacing * j as f64;
    // Cell j is between the places j and j + 1; g of the place `gap` + i is at i.
    let cells = ends(law, (start, spacing), gap, last + 1 - gap);
    let e = excesses(law, edge, spacing, gap..last + 2);
    let g: Vec<f64> = (0..e.len())
        .map(|i| if i == 0 { e[0] } else { e[i - 1].max(e[i]) })
        .collect();
    let (below, put) = (law.below(edge(gap)).mass, law.excess_below(edge(gap)));
    let mut masses = vec![0.0; last + 1];
    masses[0] = (put.lower - g[0]) / width * (1.0 - ROUNDING);
    let (mut of_left, mut slope) = (below.lower - put.upper / width, g[0] / width);
    for (i, cell) in cells.iter().enumerate() {
        let next_slope = (g[i + 1] - g[i]) / spacing;
        let size = below.upper * f64::from(u8::from(i == 0)) + cell.left + slope.abs() + next_slope.abs();
        masses[gap + i] = of_left + cell.left - cell.left_error - (next_slope - slope) - ROUNDING * size;
        (of_left, slope) = (cell.right - cell.right_error, next_slope);
    }
    let cell = cells.last()?;
    let at_last = last - gap;
    let fall = (g[at_last] - g[at_last + 1]) / spacing;
    let beyond = beyond(law, cell, edge(last + 1));
    let excess = law.excess_above(edge(last));
    let is_convex = cell.right - cell.right_error >= fall
        && excess.lower > g[at_last]
        && law.excess_above(edge(last + 1)).lower > g[at_last + 1];
    if !is_convex || !masses.iter().all(|mass| *mass >= 0.0) {
        return None;
    }
    for mass in &mut masses {
        *mass = if *mass < TINY { 0.0 } else { *mass };
    }
    Some(LatticeLaw {
        start,
        places: Arc::new(Places { masses, error: ERROR }),
        tail_mass: Interval {
            lower: (beyond.lower - fall) * (1.0 - ROUNDING),
            upper: (beyond.upper - fall) * (1.0 + ROUNDING),
        },
        tail_excess: Interval {
            lower: (excess.lower - g[at_last]) * (1.0 - ROUNDING),
            upper: (excess.upper - g[at_last]) * (1.0 + ROUNDING),
        },
    })
}

/// A y₁ with y₁ − E[Y | Y ≤ y₁] ≥ `width`.
fn next_place(law: &LogNormal, width: f64) -> Option<f64> {
    let is_met = |y: f64| {
        let mass = law.below(y).mass;
        let room = ROOM + 16.0 * f64::EPSILON * y / width;
        mass.lower > TINY && law.excess_below(y).lower >= width * mass.upper * (1.0 + room)
    };
    let mut high = 2.0 * width;
    while !is_met(high) {
        high *= 2.0;
        if high > 1e12 * (1.0 + width) {
            return None;
        }
    }
    let Ok(found) = bisect(
        (width, high),
        200,
        |high| NEXT_PLACE * high,
        |y| Ok::<_, Infallible>(is_met(y)),
    );
    Some(found)
}
