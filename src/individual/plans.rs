//! On which line Re z = c the loss of an account is inverted, and how finely.

use crate::approx::Approx;
use crate::inversion::chernoff::{MomentBound, log_supremum};
use std::f64::consts::PI;

/// Number of lines, the c of the first, and the ratio of two: up to c = 25,000. Some line is within a factor √1.22 of the
/// saddle point, where the Chernoff bound for a Gaussian loss is 0.5 % above its minimum over all c; with the square of the
/// ratio, 2 %.
pub(crate) const LINES: usize = 60;
const FIRST: f64 = 0.2;
const RATIO: f64 = 1.22;
/// Relative width of ε that is wanted.
pub(crate) const WANTED: f64 = 1e-10;
/// Largest log of the inverse relative error that a line is tried for: 60 is beyond what double precision can resolve.
const MAX_LEVEL: f64 = 60.0;
/// Fraction of the frequencies that a Gaussian loss would need up to which a line must be certified to be tried.
const MARGIN: f64 = 0.45;
/// A spread that stands for none: its square is still a normal number.
const SMALLEST_SPREAD: f64 = 1e-150;
/// The part of the wanted error that each of several errors may have.
const PART_OF_ONE_ERROR: f64 = 0.1;
/// Steps of [`REACHES`] or [`PERIODS`] up and down from 1: no reach or period of an `f64` is beyond.
const OCTAVES: f64 = 4000.0;
/// Number of classes of the largest frequency, and of the period, in each octave: both are rounded up, so that many accounts
/// share a table.
const REACHES: f64 = 1.0;
const PERIODS: f64 = 2.0;
/// Factor on the period, which is found at the Chernoff bound on ε, as ε itself is a few per cent smaller.
const SPACING_MARGIN: f64 = 1.05;

/// The c of a line.
pub(crate) fn line_at(index: usize) -> f64 {
    FIRST * RATIO.powi(index as i32)
}

/// A(c) on the grid, one direction.
#[derive(Debug, Clone)]
pub(crate) struct CumulantGrid {
    /// A(c), as far as it is certified.
    pub(crate) values: Vec<Approx>,
    /// For each line, about the largest Im z up to which the loss is known.
    pub(crate) reaches: Vec<f64>,
}

/// A(c) of one account in both directions, from which its line is chosen.
#[derive(Debug, Clone)]
pub(crate) struct InversionPlan {
    pub(crate) grids: [CumulantGrid; 2],
    /// Upper bound on ε.
    pub(crate) chernoff: f64,
}

/// Line, spacing and largest frequency, rounded to the safe side, so that what is computed for an account does not depend on
/// which others share the line with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineShape {
    /// Index of c.
    pub(crate) line: usize,
    reach: i32,
    period: i32,
}

impl LineShape {
    /// c.
    pub(crate) fn c(&self) -> f64 {
        line_at(self.line)
    }

    /// Distance of the frequencies y.
    pub(crate) fn spacing(&self) -> f64 {
        2.0 * PI / (SPACING_MARGIN * (f64::from(self.period) / PERIODS).exp2())
    }

    /// The frequency where the characteristic function of a Gaussian loss of this spread has decayed.
    pub(crate) fn reach(&self) -> f64 {
        (f64::from(self.reach) / REACHES).exp2()
    }
}

impl CumulantGrid {
    /// The smallest Chernoff bound on ε, δ ≤ e^{A − cε} c^c/(c + 1)^{c+1}, and its line.
    fn chernoff(&self, log_delta: f64) -> Option<(f64, usize)> {
        let bound = |(k, value): (usize, &Approx)| {
            let c = line_at(k);
            let (most, gain) = (value.upper(), log_supremum(c));
            let rounding = 8.0 * f64::EPSILON * (most.abs() + log_delta.abs() + gain.abs());
            ((most - log_delta + gain + rounding) / c, k)
        };
        let bounds = self.values.iter().enumerate().map(bound);
        bounds.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The smallest A(c') − c'ε on the grid.
    fn lowest(&self, epsilon: f64) -> f64 {
        let terms = self
            .values
            .iter()
            .enumerate()
            .map(|(k, at)| at.value - line_at(k) * epsilon);
        terms.fold(f64::INFINITY, f64::min)
    }

    /// √A''(c) on a line, by divided differences. Only the choice of the line depends on it, and no bound.
    fn spread(&self, line: usize) -> f64 {
        let first = line.clamp(1, self.values.len().saturating_sub(2).max(1)) - 1;
        let Some(&[a, b, c]) = self.values.get(first..first + 3) else {
            return SMALLEST_SPREAD;
        };
        let (x, y, z) = (line_at(first), line_at(first + 1), line_at(first + 2));
        let bend = 2.0 * ((c.value - b.value) / (z - y) - (b.value - a.value) / (y - x)) / (z - x);
        bend.sqrt().max(SMALLEST_SPREAD)
    }

    /// The moment at a tilt c' on one side of a line with the smallest e^{A(c') − c'ε − |c' − c|P}.
    pub(crate) fn side(&self, line: usize, epsilon: f64, period: f64, above: bool) -> Option<MomentBound> {
        let c = line_at(line);
        let range = if above { line + 1..self.values.len() } else { 0..line };
        let points = range.map(|k| MomentBound {
            c: line_at(k),
            log_moment: self.values[k].upper(),
        });
        let zero = (!above).then_some(MomentBound {
            c: 0.0,
            log_moment: 0.0,
        });
        let cost = |other: &MomentBound| other.log_above(epsilon) - (other.c - c).abs() * period;
        points.chain(zero).min_by(|a, b| cost(a).total_cmp(&cost(b)))
    }

    /// The shortest period whose aliases are e^−`level` of e^{A(c) − cε}.
    fn period(&self, line: usize, epsilon: f64, level: f64) -> Option<f64> {
        let c = line_at(line);
        let at = self.values[line].value;
        let need = |(other, value): (f64, f64)| (value - at - (other - c) * epsilon + level) / (other - c).abs();
        let of = |range: std::ops::Range<usize>| {
            let needs = range.map(|k| need((line_at(k), self.values[k].value)));
            needs.fold(f64::INFINITY, f64::min)
        };
        let below = of(0..line).min(need((0.0, 0.0)));
        let above = of(line + 1..self.values.len());
        let period = below.max(above);
        (period.is_finite() && period > 0.0).then_some(period)
    }
}

impl InversionPlan {
    /// The plan for a loss whose A(c) stand on these grids, and its best usable line; `None` if nothing is known of it.
    pub(crate) fn new(grids: [CumulantGrid; 2], log_delta: f64) -> Option<(Self, Option<usize>)> {
        let (first, line) = grids[0].chernoff(log_delta)?;
        let (second, _) = grids[1].chernoff(log_delta)?;
        let plan = Self {
            chernoff: first.max(second).max(0.0),
            grids,
        };
        // One more line is needed above.
        let certified = plan.grids[0].values.len().min(plan.grids[1].values.len());
        let usable = certified.checked_sub(2).and_then(|last| plan.usable(line.min(last)));
        Some((plan, usable))
    }

    /// The best usable line at or below `start`.
    pub(crate) fn usable(&self, start: usize) -> Option<usize> {
        (0..=start)
            .rev()
            .find(|&line| (0..self.grids.len()).all(|side| self.is_usable(line, side)))
    }

    /// The level at which errors of e^−level·e^{A(c) − cε} are small in relation to δ.
    ///
    /// δ is about the larger of e^{A(c) − cε} on the two best lines over 1 + √(2π)·spread·c(c + 1): one direction need not be
    /// known where the other has much the larger δ.
    pub(crate) fn level(&self, line: usize, side: usize) -> f64 {
        let c = line_at(line);
        let grid = &self.grids[side];
        let fraction = 1.0 + (2.0 * PI).sqrt() * grid.spread(line) * c * (c + 1.0);
        let lowest = self.grids.iter().map(|grid| grid.lowest(self.chernoff));
        let off = grid.values[line].value - c * self.chernoff - lowest.fold(f64::NEG_INFINITY, f64::max);
        (fraction.ln() + off - (WANTED * PART_OF_ONE_ERROR).ln()).max(1.0)
    }

    /// True if sums along the line are likely to be certified.
    fn is_usable(&self, line: usize, side: usize) -> bool {
        let (grid, level) = (&self.grids[side], self.level(line, side));
        level < MAX_LEVEL && grid.reaches[line] * grid.spread(line) > MARGIN * (2.0 * level).sqrt()
    }

    /// How the loss is inverted on a line.
    pub(crate) fn shape(&self, line: usize) -> Option<LineShape> {
        let (mut period, mut reach) = (0.0f64, 0.0f64);
        for (side, grid) in self.grids.iter().enumerate() {
            let level = self.level(line, side);
            period = period.max(grid.period(line, self.chernoff, level)?);
            reach = reach.max((2.0 * level).sqrt() / grid.spread(line));
        }
        Some(LineShape {
            line,
            reach: (REACHES * reach.log2()).ceil().clamp(-OCTAVES, OCTAVES) as i32,
            period: (PERIODS * period.log2()).ceil().clamp(-OCTAVES, OCTAVES) as i32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A(c) = c(c + 1)μ²/2 of a Gaussian loss.
    fn gaussian(mu: f64) -> CumulantGrid {
        let value = |k: usize| Approx::exact(0.5 * line_at(k) * (line_at(k) + 1.0) * mu * mu);
        CumulantGrid {
            values: (0..LINES).map(value).collect(),
            reaches: vec![f64::INFINITY; LINES],
        }
    }

    #[test]
    fn chernoff_bounds_are_above_epsilon_by_a_few_per_cent() {
        // δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2), at ε where it is 1e-5.
        let tail = |t: f64| 0.5 * libm::erfc(t / std::f64::consts::SQRT_2);
        for mu in [0.1, 0.5, 1.0, 3.0] {
            let (chernoff, _) = gaussian(mu).chernoff(1e-5f64.ln()).unwrap();
            let delta =
                |epsilon: f64| tail(epsilon / mu - 0.5 * mu) - epsilon.exp() * tail(epsilon / mu + 0.5 * mu);
            assert!(delta(chernoff) <= 1e-5, "{mu} {chernoff} {}", delta(chernoff));
            assert!(delta(0.8 * chernoff) > 1e-5, "{mu} {chernoff}");
        }
    }

    /// A = 0 at c ≈ 24,903 and a δ for which the bound on ε is 0, by c·ln(1 + 1/c) = 1 − 1/(2c) + 1/(3c²) − 1/(4c³) to 1e-18: nothing else may
    /// make it negative.
    #[test]
    fn chernoff_bounds_at_large_orders_are_rounded_up() {
        let last = LINES - 1;
        let value = |k: usize| Approx::exact(if k == last { 0.0 } else { 1e300 });
        let grid = CumulantGrid {
            values: (0..LINES).map(value).collect(),
            reaches: vec![f64::INFINITY; LINES],
        };
        let c = line_at(last);
        let log_delta = -c.ln_1p() - 1.0 + 0.5 / c - 1.0 / (3.0 * c * c) + 0.25 / (c * c * c);
        let (found, line) = grid.chernoff(log_delta).unwrap();
        assert!(line == last && (0.0..1e-17).contains(&found), "{line} {found}");
    }

    #[test]
    fn the_spread_of_a_gaussian_loss_is_its_deviation() {
        for line in [0, 1, 17, LINES - 1] {
            assert!((gaussian(0.7).spread(line) / 0.7 - 1.0).abs() < 1e-6, "{line}");
        }
    }

    #[test]
    fn periods_leave_aliases_of_the_level_and_no_shorter_ones_do() {
        let (grid, line, epsilon, level) = (gaussian(1.0), 16, 4.0, 30.0);
        let period = grid.period(line, epsilon, level).unwrap();
        // log of the alias on one side over e^{A(c) − cε}, the least over the other lines.
        let alias = |period: f64, above: bool| {
            let MomentBound {
                c: other,
                log_moment: value,
            } = grid.side(line, epsilon, period, above).unwrap();
            let c = line_at(line);
            value - grid.values[line].value - (other - c) * epsilon - (other - c).abs() * period
        };
        let largest = |period: f64| alias(period, false).max(alias(period, true));
        assert!((largest(period) + level).abs() < 1e-9, "{period} {}", largest(period));
        assert!(largest(0.5 * period) > -0.8 * level);
    }

    #[test]
    fn shapes_are_rounded_to_finer_spacing_and_larger_reach() {
        let plan = InversionPlan::new([gaussian(0.4), gaussian(0.4)], 1e-6f64.ln()).unwrap();
        let (plan, line) = (plan.0, plan.1.unwrap());
        let shape = plan.shape(line).unwrap();
        let level = plan.level(line, 0);
        let period = plan.grids[0].period(line, plan.chernoff, level).unwrap();
        let spacing = 2.0 * PI / period;
        assert!(shape.spacing() < spacing && shape.spacing() > spacing / 1.5);
        let reach = (2.0 * level).sqrt() / 0.4;
        assert!(shape.reach() >= reach * (1.0 - 1e-6) && shape.reach() < 2.0 * reach);
        // e^{-y²μ²/2} at the end of the line is e^-level.
        assert!(0.5 * (shape.reach() * 0.4).powi(2) >= level * (1.0 - 1e-6));
    }
}
