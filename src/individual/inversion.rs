//! ε of many accounts by complex-order inversion, and certified bounds on its error.
//!
//! The losses of accounts whose δ is best found on the same line Re z = c are inverted together, from one set of tables: accounts
//! are sorted by that line, taken from a geometric grid, and by how finely it has to be sampled (`plans`). The sums along it are
//! those of `inversion::contour`, with their bounds. Where a line is not certified, or not to the accuracy that is wanted,
//! lines further left are tried: they cost digits, of which there are enough. The Chernoff bound over all lines is an upper
//! bound in any case.
//!
//! Nothing that is computed for an account depends on the others.

use crate::curve::epsilon_search::{self, Query, StartingPoint};
use crate::error::{Error, Result};
use crate::individual::losses::{AccountLosses, Frequencies, LogPoint};
use crate::individual::plans::{InversionPlan, LineShape, WANTED};
use crate::interval::{Enclosure, Interval};
use crate::inversion::contour::{Contour, ContourPoint, Line};
use crate::inversion::tilt::Tilt;
use crate::monitor::Monitor;
use crate::step::Direction;
use crate::threads::in_pool;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// Frequencies at which a line may end, in units of what a Gaussian loss would need.
const ENDS: [f64; 5] = [0.35, 0.5, 0.7, 1.0, 1.4];
/// Largest number of frequencies on a line. Lines on which more are needed before the characteristic function decays are not
/// tried: after a few steps, of which each may well have next to no loss, it never does.
const MAX_FREQUENCIES: usize = 1500;
/// Where the search for ε starts, as a part of Chernoff's bound, below which the answer lies.
const STARTING_FRACTION: f64 = 0.98;

/// Bounds on ε of an account, and the line to try next if they are not narrow enough.
type Answer = ((f64, f64), Option<LineShape>);

/// Bounds on ε(δ) of the first `count` accounts.
pub(crate) fn invert<L: AccountLosses>(
    losses: &L,
    count: usize,
    delta: f64,
    monitor: &dyn Monitor,
) -> Result<Vec<(f64, f64)>> {
    let log_delta = delta.ln();
    let start = |i: usize| first_shape(losses, i, delta);
    let (mut shapes, mut found): (Vec<Option<LineShape>>, Vec<(f64, f64)>) =
        in_pool(|| (0..count).into_par_iter().map(start).unzip());
    for (attempt, &(back, factor)) in L::ATTEMPTS.iter().enumerate() {
        let next = L::ATTEMPTS.get(attempt + 1).map(|(further, _)| further - back);
        for (shape, members) in grouped(&shapes, factor) {
            if monitor.cancelled() {
                return Err(Error::Interrupted);
            }
            let group = Group::new(losses, shape, factor, &members);
            let answer = |&i: &usize| group.answer(i, log_delta, next);
            let answers: Result<Vec<Answer>> = in_pool(|| members.par_iter().map(answer).collect());
            for (&i, (answer, next)) in members.iter().zip(answers?) {
                let known = &mut found[i];
                let met = Interval::of_bounds(known.0.max(answer.0), known.1.min(answer.1).max(0.0))?;
                *known = (met.lower, met.upper);
                shapes[i] = next;
            }
        }
    }
    Ok(found)
}

/// The plan for an account and its best usable line. Plans are large, and are made anew when they are needed.
fn plan<L: AccountLosses>(losses: &L, account: usize, log_delta: f64) -> Option<(InversionPlan, Option<usize>)> {
    InversionPlan::new([losses.grid(account, 0), losses.grid(account, 1)], log_delta)
}

/// The line to try first for an account, if any, and bounds on ε without inversion.
fn first_shape<L: AccountLosses>(losses: &L, account: usize, delta: f64) -> (Option<LineShape>, (f64, f64)) {
    let content = losses.content(account);
    if let Some(known) = content.known_epsilon(losses.batch_probability(account), delta) {
        return (None, known);
    }
    let Some((plan, line)) = plan(losses, account, delta.ln()) else {
        return (None, (0.0, f64::INFINITY));
    };
    (line.and_then(|line| plan.shape(line)), (0.0, plan.chernoff))
}

/// Accounts by the line on which they are inverted, for frequencies up to `factor` times those of a Gaussian loss.
fn grouped(shapes: &[Option<LineShape>], factor: f64) -> BTreeMap<LineShape, Vec<usize>> {
    let mut groups: BTreeMap<LineShape, Vec<usize>> = BTreeMap::new();
    for (i, shape) in shapes.iter().enumerate() {
        let few = |shape: &&LineShape| factor * shape.reach() <= MAX_FREQUENCIES as f64 * shape.spacing();
        if let Some(&shape) = shape.as_ref().filter(few) {
            groups.entry(shape).or_default().push(i);
        }
    }
    groups
}

/// Accounts that share a line.
struct Group<'a, L: AccountLosses> {
    losses: &'a L,
    line: usize,
    frequencies: Frequencies,
    tables: [L::Table; 2],
}

impl<'a, L: AccountLosses> Group<'a, L> {
    fn new(losses: &'a L, shape: LineShape, factor: f64, members: &[usize]) -> Self {
        let spacing = shape.spacing();
        let reach = factor * shape.reach();
        let end = |part: &f64| ((part * reach / spacing).ceil().max(2.0) as usize).min(MAX_FREQUENCIES);
        let frequencies = Frequencies {
            line: shape.line,
            c: shape.c(),
            spacing,
            ends: ENDS.iter().map(end).collect(),
        };
        Self {
            losses,
            line: shape.line,
            tables: [0, 1].map(|side| losses.table(members, side, &frequencies)),
            frequencies,
        }
    }

    /// Bounds on ε of a member; if they are wider than wanted, with its line `next` lines further left.
    fn answer(&self, account: usize, log_delta: f64, next: Option<usize>) -> Result<Answer> {
        let Some((plan, _)) = plan(self.losses, account, log_delta) else {
            return Ok(((0.0, f64::INFINITY), None));
        };
        let found = self.epsilon(&plan, account, log_delta)?;
        if found.1 - found.0 <= 4.0 * WANTED * found.1 {
            return Ok((found, None));
        }
        let next = next.and_then(|lines| plan.usable(self.line.checked_sub(lines)?));
        Ok((found, next.and_then(|line| plan.shape(line))))
    }

    /// Bounds on ε of a member.
    fn epsilon(&self, plan: &InversionPlan, account: usize, log_delta: f64) -> Result<(f64, f64)> {
        let contours: Vec<Contour> = (0..Direction::BOTH.len())
            .filter_map(|side| self.contour(plan, account, side))
            .collect();
        if contours.len() < Direction::BOTH.len() {
            return Ok((0.0, f64::INFINITY));
        }
        let curve = |epsilon: f64| {
            let found = contours.iter().map(|contour| contour.delta(epsilon));
            found.fold(Enclosure::ZERO, Enclosure::max)
        };
        let query = Query {
            log_delta,
            tolerance: WANTED,
            margin: 0.0,
            start: StartingPoint {
                epsilon: STARTING_FRACTION * plan.chernoff,
                slope: self.frequencies.c,
            },
            largest_loss: f64::INFINITY,
        };
        let found = epsilon_search::epsilon(|epsilon, _| curve(epsilon), &query)?.interval;
        Ok((found.lower, found.upper))
    }

    /// The line on one side, with the characteristic function at its frequencies; `None` where it is not certified.
    fn contour(&self, plan: &InversionPlan, account: usize, side: usize) -> Option<Contour> {
        let &Frequencies { line, c, spacing, .. } = &self.frequencies;
        let grid = &plan.grids[side];
        let (gaussian, level) = (self.losses.gaussian(account), plan.level(line, side));
        let log_moment = *grid.values.get(line)?;
        let (log_decay, end) = self.end(account, side, level)?;
        let points = self.losses.points(account, &self.tables[side], end);
        let points = points
            .iter()
            .enumerate()
            .map(|(j, point)| contour_point(*point, c, (j + 1) as f64 * spacing, gaussian));
        let start = ContourPoint {
            modulus: 1.0,
            phase: 0.0,
            error: 0.0,
        };
        let period = 2.0 * PI / spacing;
        let tilt = Tilt {
            c,
            saddle: c,
            spread: 1.0,
            level,
            below: grid.side(line, plan.chernoff, period, false)?,
            above: grid.side(line, plan.chernoff, period, true)?,
            period,
        };
        let line = Line {
            c,
            log_moment,
            spacing,
            decayed: log_decay.exp(),
            left_out: Vec::new(),
            size: 1,
        };
        Some(Contour::through(
            line,
            &tilt,
            std::iter::once(start).chain(points).collect(),
        ))
    }

    /// The first end beyond which the characteristic function is below e^−`level`, or else the one with the smallest bound on it:
    /// the log of that bound, and the number of the frequency.
    fn end(&self, account: usize, side: usize, level: f64) -> Option<(f64, usize)> {
        let gaussian = self.losses.gaussian(account);
        let mut decayed = None;
        for (place, &end) in self.frequencies.ends.iter().enumerate() {
            let Some(others) = self.losses.log_decay(account, &self.tables[side], place) else {
                break;
            };
            let log_decay = others - 0.5 * (end as f64 * self.frequencies.spacing).powi(2) * gaussian;
            if log_decay.is_finite() && decayed.is_none_or(|(smallest, _)| log_decay < smallest) {
                decayed = Some((log_decay, end));
            }
            if log_decay < -level {
                break;
            }
        }
        decayed
    }
}

/// A point at frequency y of the line at c, with Gaussian steps of this Σ v.
fn contour_point(point: LogPoint, c: f64, y: f64, gaussian: f64) -> ContourPoint {
    let (real, imaginary) = (-0.5 * y * y * gaussian, 0.5 * y * (2.0 * c + 1.0) * gaussian);
    let modulus = (point.modulus + real).exp();
    let upper = (point.upper + real + 4.0 * f64::EPSILON * (real.abs() + imaginary)).exp();
    // The difference of two numbers that are nearly equal by one of their logs.
    let excess = (point.upper - point.modulus) + 4.0 * f64::EPSILON * (real.abs() + imaginary);
    let error = if modulus > 0.0 {
        modulus * excess.exp_m1()
    } else {
        upper
    };
    ContourPoint {
        modulus,
        phase: point.phase + imaginary,
        // The exact number has a modulus of at most 1.
        error: error.min(modulus + 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of modulus 0.8 that stands for −1.
    #[test]
    fn the_error_of_a_point_is_at_most_its_distance_from_the_other_side_of_the_unit_circle() {
        let point = LogPoint {
            modulus: 0.8f64.ln(),
            upper: 5.0,
            phase: 0.0,
        };
        let found = contour_point(point, 1.5, 2.0, 0.0);
        assert!((found.error - 1.8).abs() < 1e-14, "{found:?}");
    }

    /// The modulus of a point whose logarithm is above the computed one by all of its error, with Gaussian steps and without.
    #[test]
    fn the_error_of_a_logarithm_is_that_of_the_point_and_attained() {
        for (modulus, error) in [(-0.5, 1e-3), (-3.0, 0.2), (-1.0, 1e-9)] {
            for (y, gaussian) in [(2.0f64, 0.0), (2.0, 0.3)] {
                let point = LogPoint {
                    modulus,
                    upper: modulus + error,
                    phase: 0.1,
                };
                let found = contour_point(point, 1.5, y, gaussian);
                let log = modulus - 0.5 * y * y * gaussian;
                let off = (log + error).exp() - log.exp();
                assert!((found.modulus - log.exp()).abs() < 1e-15);
                assert!(
                    off <= found.error * (1.0 + 1e-7) && off > 0.99 * found.error,
                    "{off:e} {found:?}"
                );
                // N(μ²/2, μ²) tilted by e^{cℓ} has the mean μ²(c + 1/2).
                assert!((found.phase - 0.1 - y * gaussian * 2.0).abs() < 1e-15, "{found:?}");
            }
        }
    }
}
