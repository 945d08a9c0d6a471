//! ε of every account by complex-order inversion, and certified bounds on its error.
//!
//! A(z) = Σ_t K(z; v_t) of an account is a scalar product of its moments with the coefficients of K (`basis`, `octaves`), so that
//! one set of coefficients serves all accounts whose δ is best found on the same line Re z = c. Accounts are sorted by that
//! line, taken from a geometric grid; the sums along it are those of `hockey_stick::contour`, with their bounds. Where the
//! coefficients at the best line are not certified, or not to the accuracy that is wanted, lines further left are tried: they
//! cost digits, of which there are enough. The Chernoff bound over all lines is an upper bound in any case.

use super::accounts::{Account, Accounts, Slot};
use super::basis::{TERMS, Terms};
use super::octaves::{LineTerms, Octave, RealTerms};
use crate::error::{Result, require_delta};
use crate::hockey_stick::contour::{Contour, ContourPoint, Line};
use crate::hockey_stick::enclosure::Enclosure;
use crate::hockey_stick::inverse;
use crate::hockey_stick::monitor::Monitor;
use crate::hockey_stick::tilt::Tilt;
use crate::pair::Direction;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// The grid of c.
const LINES: usize = 60;
const FIRST: f64 = 0.2;
const RATIO: f64 = 1.22;
/// Relative width of ε that is aimed at.
const WANTED: f64 = 1e-10;
/// Lines that are tried, and how far apart.
const ATTEMPTS: usize = 5;
const BACK: usize = 2;
/// Levels of errors above this are not tried: they are beyond double precision.
const HIGHEST_LEVEL: f64 = 60.0;
/// Part of the height that a Gaussian loss would need up to which lines must be certified to be tried.
const MARGIN: f64 = 0.45;
/// Heights where a line may end, in units of what a Gaussian loss would need.
const ENDS: [f64; 5] = [1.0, 1.2, 1.5, 2.0, 3.0];
/// Heights of a line at most.
const MOST_HEIGHTS: usize = 4000;
const DIRECTIONS: [Direction; 2] = [Direction::Remove, Direction::Add];

type Key = (u16, i16);

fn line_at(index: usize) -> f64 {
    FIRST * RATIO.powi(index as i32)
}

/// A(c) on the grid, one direction.
#[derive(Debug, Clone)]
struct Grid {
    /// A(c) and bounds on the errors, as far as they are certified.
    values: Vec<(f64, f64)>,
    /// Up to about these Im z the coefficients are certified.
    reaches: Vec<f64>,
}

/// What one account needs.
#[derive(Debug, Clone)]
struct Plan {
    grids: [Grid; 2],
    /// Upper bound on ε.
    chernoff: f64,
    /// Line, if any is certified.
    line: Option<usize>,
}

/// Coefficients of one direction.
struct Tables {
    octaves: FxHashMap<Key, Octave>,
    real: FxHashMap<Key, Vec<RealTerms>>,
}

/// Lower and upper bounds on ε(δ) of each account, for "add" and "remove" together. The upper bound is infinite where nothing is
/// certified, as after steps with next to no noise.
///
/// # Errors
/// δ outside (0, 1); an interruption.
///
/// # Example
/// ```
/// use hockeystick::hockey_stick::monitor::Unwatched;
/// use hockeystick::individual::accounts::Accounts;
/// use hockeystick::individual::epsilons::epsilons;
/// let mut accounts = Accounts::new(1);
/// accounts.add(&[0.5], 1.0, 1.0, 0.01, 1000.0)?;
/// let found = epsilons(&accounts, 1e-5, &Unwatched)?;
/// // As 1,000 steps at full norm and twice the noise.
/// assert!((found[0].1 - 0.622_030).abs() < 1e-5);
/// # Ok::<(), hockeystick::error::Error>(())
/// ```
pub fn epsilons(accounts: &Accounts, delta: f64, monitor: &dyn Monitor) -> Result<Vec<(f64, f64)>> {
    require_delta(delta)?;
    let tables = [
        Tables::new(accounts, Direction::Remove),
        Tables::new(accounts, Direction::Add),
    ];
    let log_delta = delta.ln();
    let mut plans: Vec<Option<Plan>> = accounts
        .examples
        .par_iter()
        .map(|account| Plan::new(account, &tables, log_delta))
        .collect();
    let mut found: Vec<(f64, f64)> = accounts
        .examples
        .iter()
        .zip(&plans)
        .map(|(account, plan)| match plan {
            Some(plan) => (0.0, plan.chernoff),
            None if account.is_empty() => (0.0, 0.0),
            None => (0.0, f64::INFINITY),
        })
        .collect();
    for _ in 0..ATTEMPTS {
        let mut groups: BTreeMap<(usize, i32), Vec<usize>> = BTreeMap::new();
        for (i, plan) in plans.iter().enumerate() {
            let Some(plan) = plan else { continue };
            if let Some(line) = plan.line {
                let spread = plan.grids[0].spread(line);
                let class = (1.5 * spread.log2()).round().clamp(-200.0, 200.0) as i32;
                groups.entry((line, class)).or_default().push(i);
            }
        }
        if groups.is_empty() {
            break;
        }
        for members in groups.into_values() {
            if monitor.cancelled() {
                return Err(crate::error::Error::Interrupted);
            }
            let group = Group::new(&members, accounts, &plans, &tables);
            let answers: Vec<(f64, f64)> = members
                .par_iter()
                .map(|&i| match &plans[i] {
                    Some(plan) => group.epsilon(plan, &accounts.examples[i], log_delta),
                    None => (0.0, f64::INFINITY),
                })
                .collect();
            for (&i, answer) in members.iter().zip(answers) {
                let known = &mut found[i];
                *known = (known.0.max(answer.0), known.1.min(answer.1).max(0.0));
                let good = known.1 - known.0 <= 4.0 * WANTED * known.1;
                plans[i] = plans[i].take().filter(|_| !good).map(|plan| Plan {
                    line: plan.line.and_then(|line| plan.usable(line.checked_sub(BACK)?)),
                    ..plan
                });
            }
        }
    }
    Ok(found)
}

impl Account {
    fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.gaussian == 0.0 && !self.telling
    }
}

fn product(a: &Terms, b: &[f64; TERMS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Bound on the rounding of a product with the moments of a slot.
fn rounding(slot: &Slot, coefficients: &Terms) -> f64 {
    let size: f64 = coefficients.iter().map(|a| a.abs()).sum();
    f64::EPSILON * (32.0 + f64::from(slot.additions)) * slot.moments[0] * size
}

impl Tables {
    fn new(accounts: &Accounts, direction: Direction) -> Self {
        let mut keys: Vec<Key> = Vec::new();
        for account in &accounts.examples {
            for slot in &account.slots {
                let key = (slot.rate, slot.octave);
                if let Err(place) = keys.binary_search(&key) {
                    keys.insert(place, key);
                }
            }
        }
        let made: Vec<(Key, Octave, Vec<RealTerms>)> = keys
            .into_par_iter()
            .map(|key| {
                let octave = Octave::new(accounts.rates[usize::from(key.0)], i32::from(key.1), direction);
                let real = octave.real(&(0..LINES).map(line_at).collect::<Vec<f64>>());
                (key, octave, real)
            })
            .collect();
        let mut tables = Self {
            octaves: FxHashMap::default(),
            real: FxHashMap::default(),
        };
        for (key, octave, real) in made {
            tables.octaves.insert(key, octave);
            tables.real.insert(key, real);
        }
        tables
    }

    /// A(c) of an account on the grid.
    fn grid(&self, account: &Account) -> Grid {
        let rows: Vec<(&Slot, &Vec<RealTerms>)> = account
            .slots
            .iter()
            .filter_map(|slot| Some((slot, self.real.get(&(slot.rate, slot.octave))?)))
            .collect();
        let count = rows.iter().map(|(_, row)| row.len()).fold(LINES, usize::min);
        let value = |k: usize| {
            let c = line_at(k);
            let mut total = 0.5 * c * (c + 1.0) * account.gaussian;
            let mut error = 8.0 * f64::EPSILON * total;
            for (slot, row) in &rows {
                let terms = &row[k];
                total += product(&terms.value, &slot.moments);
                error += terms.error * slot.moments[0] + rounding(slot, &terms.value);
            }
            (total, error)
        };
        let reach = |k: usize| rows.iter().map(|(_, row)| row[k].reach).fold(f64::INFINITY, f64::min);
        Grid {
            values: (0..count).map(value).collect(),
            reaches: (0..count).map(reach).collect(),
        }
    }
}

impl Grid {
    /// The least Chernoff bound on ε, δ ≤ e^{A − cε} c^c/(c + 1)^{c+1}, and its line.
    fn chernoff(&self, log_delta: f64) -> Option<(f64, usize)> {
        let bound = |(k, (value, error)): (usize, &(f64, f64))| {
            let c = line_at(k);
            let gain = c * (c / (c + 1.0)).ln() - c.ln_1p();
            ((value + error - log_delta + gain) / c * (1.0 + 8.0 * f64::EPSILON), k)
        };
        let bounds = self.values.iter().enumerate().map(bound);
        bounds.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// A(c') − c'ε, the least on the grid.
    fn lowest(&self, epsilon: f64) -> f64 {
        let terms = self
            .values
            .iter()
            .enumerate()
            .map(|(k, (value, _))| value - line_at(k) * epsilon);
        terms.fold(f64::INFINITY, f64::min)
    }

    /// √A''(c) on a line, by differences: it only steers.
    fn spread(&self, line: usize) -> f64 {
        let first = line.clamp(1, self.values.len().saturating_sub(2).max(1)) - 1;
        let Some(&[(a, _), (b, _), (c, _)]) = self.values.get(first..first + 3) else {
            return 1e-150;
        };
        let (x, y, z) = (line_at(first), line_at(first + 1), line_at(first + 2));
        let bend = 2.0 * ((c - b) / (z - y) - (b - a) / (y - x)) / (z - x);
        bend.max(1e-300).sqrt()
    }

    /// The level of errors that makes them small in relation to δ, which is e^{A − cε} over about 1 + √(2π)·spread·c(c + 1), and less
    /// where the line is not the best.
    fn level(&self, line: usize, epsilon: f64) -> f64 {
        let c = line_at(line);
        let share = 1.0 + (2.0 * PI).sqrt() * self.spread(line) * c * (c + 1.0);
        let off = self.values[line].0 - c * epsilon - self.lowest(epsilon);
        share.ln() + off.max(0.0) - (WANTED * 0.1).ln()
    }

    /// True if sums along the line are likely to be certified.
    fn is_usable(&self, line: usize, epsilon: f64) -> bool {
        let level = self.level(line, epsilon);
        level < HIGHEST_LEVEL && self.reaches[line] * self.spread(line) > MARGIN * (2.0 * level).sqrt()
    }

    /// (c', A(c')) on one side of a line with the least e^{A(c') − c'ε − |c' − c|P}.
    fn side(&self, line: usize, epsilon: f64, period: f64, above: bool) -> Option<(f64, f64)> {
        let c = line_at(line);
        let range = if above { line + 1..self.values.len() } else { 0..line };
        let points = range.map(|k| (line_at(k), self.values[k].0 + self.values[k].1));
        let zero = (!above).then_some((0.0, 0.0));
        let cost = |&(other, value): &(f64, f64)| value - other * epsilon - (other - c).abs() * period;
        points.chain(zero).min_by(|a, b| cost(a).total_cmp(&cost(b)))
    }

    /// The shortest period whose aliases are e^−`level` of e^{A(c) − cε}.
    fn period(&self, line: usize, epsilon: f64, level: f64) -> Option<f64> {
        let c = line_at(line);
        let at = self.values[line].0;
        let need = |(other, value): (f64, f64)| (value - at - (other - c) * epsilon + level) / (other - c).abs();
        let of = |range: std::ops::Range<usize>| {
            let needs = range.map(|k| need((line_at(k), self.values[k].0)));
            needs.fold(f64::INFINITY, f64::min)
        };
        let below = of(0..line).min(need((0.0, 0.0)));
        let above = of(line + 1..self.values.len());
        let period = below.max(above);
        (period.is_finite() && period > 0.0).then_some(period)
    }
}

impl Plan {
    fn new(account: &Account, tables: &[Tables; 2], log_delta: f64) -> Option<Self> {
        if account.is_empty() || account.telling {
            return None;
        }
        let grids = [tables[0].grid(account), tables[1].grid(account)];
        let (first, line) = grids[0].chernoff(log_delta)?;
        let (second, _) = grids[1].chernoff(log_delta)?;
        let chernoff = first.max(second).max(0.0);
        // One more line is needed above.
        let certified = grids[0].values.len().min(grids[1].values.len());
        let start = certified.checked_sub(2).map(|last| line.min(last));
        let mut plan = Self {
            grids,
            chernoff,
            line: None,
        };
        plan.line = start.and_then(|start| plan.usable(start));
        Some(plan)
    }

    /// The best usable line at or below `start`.
    fn usable(&self, start: usize) -> Option<usize> {
        (0..=start)
            .rev()
            .find(|&line| self.grids.iter().all(|grid| grid.is_usable(line, self.chernoff)))
    }
}

/// Accounts that share a line.
struct Group {
    line: usize,
    spacing: f64,
    level: f64,
    ends: Vec<usize>,
    terms: [FxHashMap<Key, LineTerms>; 2],
}

impl Group {
    fn new(members: &[usize], accounts: &Accounts, plans: &[Option<Plan>], tables: &[Tables; 2]) -> Self {
        let (mut level, mut period, mut least) = (0.0f64, 0.0f64, f64::INFINITY);
        let mut line = 0;
        let mut keys: Vec<Key> = Vec::new();
        for &i in members {
            let Some(plan) = &plans[i] else { continue };
            let account = &accounts.examples[i];
            line = plan.line.unwrap_or(0);
            let grid = &plan.grids[0];
            let spread = grid.spread(line);
            let own = grid.level(line, plan.chernoff);
            level = level.max(own);
            let periods = plan
                .grids
                .iter()
                .filter_map(|grid| grid.period(line, plan.chernoff, own));
            period = period.max(periods.fold(0.0, f64::max));
            least = least.min(spread);
            for slot in &account.slots {
                let key = (slot.rate, slot.octave);
                if let Err(place) = keys.binary_search(&key) {
                    keys.insert(place, key);
                }
            }
        }
        let spacing = 2.0 * PI / (1.05 * period);
        let reach = (2.0 * level).sqrt() / least;
        let ends: Vec<usize> = ENDS
            .iter()
            .map(|factor| ((factor * reach / spacing).ceil().max(2.0) as usize).min(MOST_HEIGHTS))
            .collect();
        let last = ends.iter().copied().max().unwrap_or(2);
        let c = line_at(line);
        let terms = |side: usize| {
            let found: Vec<(Key, LineTerms)> = keys
                .par_iter()
                .filter_map(|key| {
                    let octave = tables[side].octaves.get(key)?;
                    Some((*key, octave.line(c, spacing, last, &ends)))
                })
                .collect();
            found.into_iter().collect::<FxHashMap<Key, LineTerms>>()
        };
        let terms = [terms(0), terms(1)];
        Self {
            line,
            spacing,
            level,
            ends,
            terms,
        }
    }

    /// Bounds on ε of a member.
    fn epsilon(&self, plan: &Plan, account: &Account, log_delta: f64) -> (f64, f64) {
        let contours: Vec<Contour> = (0..DIRECTIONS.len())
            .filter_map(|side| self.contour(plan, account, side))
            .collect();
        if contours.len() < DIRECTIONS.len() {
            return (0.0, f64::INFINITY);
        }
        let curve = |epsilon: f64| {
            let found = contours.iter().map(|contour| contour.delta(epsilon));
            found.fold(Enclosure::ZERO, Enclosure::max)
        };
        let c = line_at(self.line);
        inverse::epsilon(
            |epsilon, _| curve(epsilon),
            log_delta,
            WANTED,
            (0.98 * plan.chernoff, c),
        )
    }

    fn contour(&self, plan: &Plan, account: &Account, side: usize) -> Option<Contour> {
        let c = line_at(self.line);
        let grid = &plan.grids[side];
        let (log_moment, log_moment_error) = *grid.values.get(self.line)?;
        let parts: Vec<(&Slot, &LineTerms)> = account
            .slots
            .iter()
            .map(|slot| Some((slot, self.terms[side].get(&(slot.rate, slot.octave))?)))
            .collect::<Option<_>>()?;
        // The first height with a sufficient decay, or the last certified one.
        let mut decayed = None;
        for (place, &end) in self.ends.iter().enumerate() {
            let mut log_decay = -0.5 * (end as f64 * self.spacing).powi(2) * account.gaussian;
            let known = parts.iter().all(|(slot, columns)| match columns.decays.get(place) {
                Some((terms, error)) => {
                    log_decay += product(terms, &slot.moments) + error * slot.moments[0] + rounding(slot, terms);
                    log_decay.is_finite()
                }
                None => false,
            });
            if !known {
                break;
            }
            if decayed.is_none_or(|(least, _)| log_decay < least) {
                decayed = Some((log_decay, end));
            }
            if log_decay < -self.level {
                break;
            }
        }
        let (log_decay, end) = decayed?;
        let mut sums = vec![[0.0; 3]; end];
        for (j, sum) in sums.iter_mut().enumerate() {
            let y = (j + 1) as f64 * self.spacing;
            *sum = [
                -0.5 * y * y * account.gaussian,
                0.5 * y * (2.0 * c + 1.0) * account.gaussian,
                0.0,
            ];
            sum[2] = 4.0 * f64::EPSILON * (sum[0].abs() + sum[1].abs());
        }
        for (slot, columns) in parts {
            columns.add(&mut sums, slot);
        }
        let points = sums.iter().map(|&[real, imaginary, error]| {
            let modulus = real.exp();
            ContourPoint {
                modulus,
                phase: imaginary,
                error: (modulus * error.exp_m1()).min(modulus.max(1.0)),
            }
        });
        let start = ContourPoint {
            modulus: 1.0,
            phase: 0.0,
            error: 0.0,
        };
        let period = 2.0 * PI / self.spacing;
        let tilt = Tilt {
            c,
            saddle: c,
            spread: 1.0,
            level: self.level,
            below: grid.side(self.line, plan.chernoff, period, false)?,
            above: grid.side(self.line, plan.chernoff, period, true)?,
            period,
        };
        let line = Line {
            c,
            log_moment,
            log_moment_error,
            spacing: self.spacing,
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

impl LineTerms {
    /// Adds a slot's part of log φ and of its error at each height.
    fn add(&self, sums: &mut [[f64; 3]], slot: &Slot) {
        for (sum, (real, imaginary, error)) in sums.iter_mut().zip(&self.heights) {
            sum[0] += product(real, &slot.moments);
            sum[1] += product(imaginary, &slot.moments);
            sum[2] += error * slot.moments[0] + rounding(slot, real) + rounding(slot, imaginary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hockey_stick::monitor::Unwatched;

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
