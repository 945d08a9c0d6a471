//! ε of many accounts by complex-order inversion, and certified bounds on its error.
//!
//! The losses of accounts whose δ is best found on the same line Re z = c are inverted together, from one set of tables: accounts
//! are sorted by that line, taken from a geometric grid, and by how finely it has to be sampled (`plans`). The sums along it are
//! those of `inversion::contour`, with their bounds. Where a line is not certified, or not to the accuracy that is wanted,
//! lines further left are tried: they cost digits, of which there are enough. The Chernoff bound over all lines is an upper
//! bound in any case.
//!
//! Nothing that is computed for an account depends on the others.

use crate::curve::epsilon_search;
use crate::curve::epsilon_search::{Query, StartingPoint};
use crate::error::{Error, Result, require_delta};
use crate::individual::accounts::Accounts;
use crate::individual::histories::{Histories, HistoryLosses};
use crate::individual::moment_losses::MomentLosses;
use crate::individual::one_by_one;
use crate::individual::plans::{Grid, Plan, Shape, WANTED};
use crate::interval::{Enclosure, Interval};
use crate::inversion::contour::{Contour, ContourPoint, Line};
use crate::inversion::tilt::Tilt;
use crate::monitor::Monitor;
use crate::step::Direction;
use crate::threads::in_pool;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// Heights where a line may end, in units of what a Gaussian loss would need.
const ENDS: [f64; 5] = [0.35, 0.5, 0.7, 1.0, 1.4];
/// Heights of a line at most, and where more are needed before anything decays it is not tried: after a few steps, of which each
/// may well have next to no loss, nothing ever decays.
const MOST_HEIGHTS: usize = 1500;
/// Different histories that the exact engine is asked about: a millisecond each after a single step, 3 to 150 of them after a few.
const MOST_ONE_BY_ONE: usize = 256;
/// Relative width above which bounds from inversion leave something open.
const OPEN: f64 = 1e-9;
/// The two directions.
pub(crate) const DIRECTIONS: [Direction; 2] = [Direction::Remove, Direction::Add];

/// What is known of an account beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// No loss at all.
    Empty,
    /// Steps without noise.
    Telling,
    /// A loss to be bounded.
    Steps,
}

impl Content {
    pub(crate) fn of(is_telling: bool, gaussian: f64, has_no_others: bool) -> Self {
        if is_telling {
            Self::Telling
        } else if has_no_others && gaussian == 0.0 {
            Self::Empty
        } else {
            Self::Steps
        }
    }
}

/// Heights on a line where losses are tabulated.
#[derive(Debug)]
pub(crate) struct Heights {
    /// Index of c.
    pub(crate) line: usize,
    /// c.
    pub(crate) c: f64,
    /// Distance of two heights.
    pub(crate) spacing: f64,
    /// Numbers of the heights where the line may end, ascending.
    pub(crate) ends: Vec<usize>,
}

/// The privacy losses of many accounts, in both directions.
pub(crate) trait Losses: Sync {
    /// What the losses on one line are computed from.
    type Table: Send + Sync;

    /// What is tried one after the other: lines so far to the left of the first, and heights that are so many times as large.
    const ATTEMPTS: &'static [(usize, f64)];

    /// What an account holds.
    fn content(&self, account: usize) -> Content;

    /// Σ qT of an account, infinite after Gaussian steps: δ(0) is the distance in total variation, and no more than that.
    fn chance(&self, account: usize) -> f64;

    /// Σ v of an account's Gaussian steps.
    fn gaussian(&self, account: usize) -> f64;

    /// A(c) of an account.
    fn grid(&self, account: usize, side: usize) -> Grid;

    /// The table that serves these accounts on a line.
    fn table(&self, accounts: &[usize], side: usize, heights: &Heights) -> Self::Table;

    /// log of a bound on |E[e^{zS}]|/e^{A(c)} from the `place`-th end on, without Gaussian steps; `None` if unknown.
    fn log_decay(&self, account: usize, table: &Self::Table, place: usize) -> Option<f64>;

    /// E[e^{zS}]/e^{A(c)} at `last` heights from the first above 0 on, without Gaussian steps: logs of its modulus and of that plus
    /// its error, and its phase.
    fn points(&self, account: usize, table: &Self::Table, last: usize) -> Vec<[f64; 3]>;
}

/// Lower and upper bounds on ε(δ) of each account, for "add" and "remove" together. The upper bound is infinite where nothing is
/// certified, as after steps with next to no noise.
///
/// # Errors
/// δ outside (0, 1); an interruption.
///
/// # Example
/// ```
/// use hockeystick::Unwatched;
/// use hockeystick::individual::Accounts;
/// use hockeystick::individual::epsilons;
/// let mut accounts = Accounts::new(1);
/// accounts.add(&[0.5], 1.0, 1.0, 0.01, 1000.0)?;
/// let found = epsilons(&accounts, 1e-5, &Unwatched)?;
/// // As 1,000 steps at full norm and twice the noise.
/// assert!((found[0].1 - 0.622_030).abs() < 1e-5);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn epsilons(accounts: &Accounts, delta: f64, monitor: &dyn Monitor) -> Result<Vec<(f64, f64)>> {
    require_delta(delta)?;
    invert(&MomentLosses::new(accounts), accounts.examples.len(), delta, monitor)
}

/// Bounds on ε(δ) of every example from its history of norms: slower than from moments, and certified for fewer steps.
///
/// The exact engine is asked about single steps, and about up to `MOST_ONE_BY_ONE` different histories that are short, or that
/// inversion leaves open.
///
/// # Errors
/// δ outside (0, 1); an interruption.
///
/// # Example
/// ```
/// use hockeystick::Unwatched;
/// use hockeystick::individual::epsilons_of_histories;
/// use hockeystick::individual::Histories;
/// let mut histories = Histories::new(1);
/// histories.add(&[1.0], 1.0, 1.0, 0.1, 60.0)?;
/// histories.add(&[0.25], 1.0, 1.0, 0.1, 60.0)?;
/// let (lower, upper) = epsilons_of_histories(&histories, 1e-5, &Unwatched)?[0];
/// assert!(lower > 0.0 && upper - lower < 1e-9 * upper);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn epsilons_of_histories(histories: &Histories, delta: f64, monitor: &dyn Monitor) -> Result<Vec<(f64, f64)>> {
    require_delta(delta)?;
    let mut found = vec![(0.0, f64::INFINITY); histories.len()];
    let (single, others): (Vec<usize>, Vec<usize>) =
        (0..histories.len()).partition(|&i| histories.history(i).count() <= 1.0);
    put(
        &mut found,
        &single,
        one_by_one::epsilons(histories, &single, delta, monitor)?,
    );
    let (short, mut long): (Vec<usize>, Vec<usize>) =
        others.into_iter().partition(|&i| histories.history(i).is_short());
    if one_by_one::count_different(histories, &short) <= MOST_ONE_BY_ONE {
        put(
            &mut found,
            &short,
            one_by_one::epsilons(histories, &short, delta, monitor)?,
        );
    } else {
        long.extend(short);
    }
    let taken = histories.taken(&long);
    put(
        &mut found,
        &long,
        invert(&HistoryLosses::new(&taken), long.len(), delta, monitor)?,
    );
    long.retain(|&i| found[i].1 == f64::INFINITY || found[i].1 - found[i].0 > OPEN * found[i].1);
    if one_by_one::count_different(histories, &long) <= MOST_ONE_BY_ONE {
        put(
            &mut found,
            &long,
            one_by_one::epsilons(histories, &long, delta, monitor)?,
        );
    }
    Ok(found)
}

/// Takes new bounds on ε of some examples into account.
fn put(found: &mut [(f64, f64)], members: &[usize], bounds: Vec<(f64, f64)>) {
    for (&i, (lower, upper)) in members.iter().zip(bounds) {
        found[i] = (found[i].0.max(lower), found[i].1.min(upper));
    }
}

fn invert<L: Losses>(losses: &L, count: usize, delta: f64, monitor: &dyn Monitor) -> Result<Vec<(f64, f64)>> {
    let log_delta = delta.ln();
    // Plans are large, and are made anew when they are needed.
    let plan = |i: usize| Plan::new([losses.grid(i, 0), losses.grid(i, 1)], log_delta);
    let shape = |(plan, line): (Plan, Option<usize>)| plan.shape(line?);
    let (mut shapes, mut found): (Vec<Option<Shape>>, Vec<(f64, f64)>) = in_pool(|| {
        (0..count)
            .into_par_iter()
            .map(|i| match losses.content(i) {
                Content::Empty => (None, (0.0, 0.0)),
                Content::Telling => (None, (0.0, f64::INFINITY)),
                Content::Steps if losses.chance(i) <= delta * (1.0 - 1e-9) => (None, (0.0, 0.0)),
                Content::Steps => {
                    let plan = plan(i);
                    let chernoff = plan.as_ref().map_or(f64::INFINITY, |(plan, _)| plan.chernoff);
                    (plan.and_then(shape), (0.0, chernoff))
                }
            })
            .unzip()
    });
    for (attempt, &(back, factor)) in L::ATTEMPTS.iter().enumerate() {
        let next = L::ATTEMPTS.get(attempt + 1).map(|(further, _)| further - back);
        let mut groups: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
        for (i, shape) in shapes.iter().enumerate() {
            let few = |shape: &&Shape| factor * shape.reach() <= MOST_HEIGHTS as f64 * shape.spacing();
            if let Some(&shape) = shape.as_ref().filter(few) {
                groups.entry(shape).or_default().push(i);
            }
        }
        for (shape, members) in groups {
            if monitor.cancelled() {
                return Err(Error::Interrupted);
            }
            let group = Group::new(losses, shape, factor, &members);
            let answers: Result<Vec<_>> = in_pool(|| {
                members
                    .par_iter()
                    .map(|&i| {
                        let Some((plan, _)) = plan(i) else {
                            return Ok(((0.0, f64::INFINITY), None));
                        };
                        let answer = group.epsilon(&plan, i, log_delta)?;
                        if answer.1 - answer.0 <= 4.0 * WANTED * answer.1 {
                            return Ok((answer, None));
                        }
                        let next = next.and_then(|lines| plan.usable(shape.line.checked_sub(lines)?));
                        Ok((answer, next.and_then(|line| plan.shape(line))))
                    })
                    .collect()
            });
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

/// Accounts that share a line.
struct Group<'a, L: Losses> {
    losses: &'a L,
    heights: Heights,
    tables: [L::Table; 2],
}

impl<'a, L: Losses> Group<'a, L> {
    fn new(losses: &'a L, shape: Shape, factor: f64, members: &[usize]) -> Self {
        let spacing = shape.spacing();
        let reach = factor * shape.reach();
        let end = |part: &f64| ((part * reach / spacing).ceil().max(2.0) as usize).min(MOST_HEIGHTS);
        let heights = Heights {
            line: shape.line,
            c: shape.c(),
            spacing,
            ends: ENDS.iter().map(end).collect(),
        };
        Self {
            losses,
            tables: [0, 1].map(|side| losses.table(members, side, &heights)),
            heights,
        }
    }

    /// Bounds on ε of a member.
    fn epsilon(&self, plan: &Plan, account: usize, log_delta: f64) -> Result<(f64, f64)> {
        let contours: Vec<Contour> = (0..DIRECTIONS.len())
            .filter_map(|side| self.contour(plan, account, side))
            .collect();
        if contours.len() < DIRECTIONS.len() {
            return Ok((0.0, f64::INFINITY));
        }
        let curve = |epsilon: f64| {
            let found = contours.iter().map(|contour| contour.delta(epsilon));
            found.fold(Enclosure::ZERO, Enclosure::max)
        };
        let query = Query {
            log_delta,
            tolerance: WANTED,
            start: StartingPoint {
                epsilon: 0.98 * plan.chernoff,
                slope: self.heights.c,
            },
            largest_loss: f64::INFINITY,
        };
        let found = epsilon_search::epsilon(|epsilon, _| curve(epsilon), &query)?;
        Ok((found.lower, found.upper))
    }

    fn contour(&self, plan: &Plan, account: usize, side: usize) -> Option<Contour> {
        let &Heights { line, c, spacing, .. } = &self.heights;
        let (grid, table) = (&plan.grids[side], &self.tables[side]);
        let (gaussian, level) = (self.losses.gaussian(account), plan.level(line, side));
        let (log_moment, log_moment_error) = *grid.values.get(line)?;
        // The first height with a sufficient decay, or the one with the most.
        let mut decayed = None;
        for (place, &end) in self.heights.ends.iter().enumerate() {
            let Some(others) = self.losses.log_decay(account, table, place) else {
                break;
            };
            let log_decay = others - 0.5 * (end as f64 * spacing).powi(2) * gaussian;
            if log_decay.is_finite() && decayed.is_none_or(|(least, _)| log_decay < least) {
                decayed = Some((log_decay, end));
            }
            if log_decay < -level {
                break;
            }
        }
        let (log_decay, end) = decayed?;
        let points = self.losses.points(account, table, end);
        let points = points
            .iter()
            .enumerate()
            .map(|(j, &[log_modulus, log_largest, phase])| {
                let y = (j + 1) as f64 * spacing;
                let (real, imaginary) = (-0.5 * y * y * gaussian, 0.5 * y * (2.0 * c + 1.0) * gaussian);
                let modulus = (log_modulus + real).exp();
                let largest = (log_largest + real + 4.0 * f64::EPSILON * (real.abs() + imaginary)).exp();
                // The difference of two numbers that are nearly equal by one of their logs.
                let excess = (log_largest - log_modulus) + 4.0 * f64::EPSILON * (real.abs() + imaginary);
                let error = if modulus > 0.0 {
                    modulus * excess.exp_m1()
                } else {
                    largest
                };
                ContourPoint {
                    modulus,
                    phase: phase + imaginary,
                    error: error.min(modulus.max(1.0)),
                }
            });
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
            log_moment_error,
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Unwatched;

    /// Example i at 1/2^i of the full norm, all steps alike.
    fn halved(noise: f64, rate: f64, steps: f64, delta: f64) -> Vec<(f64, f64)> {
        let norms: Vec<f64> = (0..8).map(|i| 0.5f64.powi(i)).collect();
        let mut accounts = Accounts::new(norms.len());
        accounts.add(&norms, 1.0, noise, rate, steps).unwrap();
        epsilons(&accounts, delta, &Unwatched).unwrap()
    }

    #[test]
    fn half_the_norm_is_twice_the_noise() {
        let (one, other) = (halved(1.0, 0.02, 2000.0, 1e-6), halved(2.0, 0.02, 2000.0, 1e-6));
        for (found, expected) in one[1..].iter().zip(&other) {
            assert!(found.0 <= expected.1 && expected.0 <= found.1);
            assert!(found.1 - found.0 < 1e-8 * found.1, "{found:?}");
        }
    }

    #[test]
    fn gaussian_steps_have_their_closed_form() {
        // G_μ with μ = √10/4: δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).
        let found = halved(4.0, 1.0, 10.0, 1e-5)[0];
        assert!(found.0 <= found.1 && (found.1 - 3.341_409_469_239).abs() < 1e-11);
    }

    #[test]
    fn few_steps_are_bounded_if_not_exact() {
        for (_, upper) in halved(1.0, 0.1, 5.0, 1e-5) {
            assert!(upper > 0.0 && upper < 10.0);
        }
    }

    #[test]
    fn nothing_is_certified_without_noise_and_nothing_is_lost_without_steps() {
        assert_eq!(halved(0.0, 0.1, 5.0, 1e-5)[0], (0.0, f64::INFINITY));
        assert_eq!(halved(1.0, 0.0, 5.0, 1e-5)[0], (0.0, 0.0));
    }
}
