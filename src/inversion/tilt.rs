//! A tilt c, and the period P at which discretisation is accurate enough for questions near one ε.
//!
//! Points in y at the spacing 2π/P, like a grid of length P, add what lies a multiple of P away (aliasing). For
//! c' < c < c'' in one strip that is at most, up to the rest of two geometric series,
//!
//! > e^{A(c') − A(c) − (c'−c)ε − (c−c')P} + e^{A(c'') − A(c) − (c''−c)ε − (c''−c)P}
//!
//! relative to e^{A(c) − cε}. Large groups make A explode just above the saddle point (the whole group in one
//! batch: probability q^k, loss k²/2σ²), so that c'' must stay near c and P grows; a smaller c then serves better.

use crate::inversion::chernoff::MomentBound;
use crate::inversion::segment::{Segment, Total};
use crate::inversion::tilt_lattice::Cell;
use std::f64::consts::PI;

/// Period over that of a Gaussian loss that is accepted at the saddle point; beyond it, smaller tilts are tried.
const MAX_EXCESS: f64 = 2.5;
/// Smaller tilts that are tried at most, each 3/4 of the one before: down to 0.18 of the saddle point.
const MAX_STEPS_BACK: usize = 6;

/// A tilt, with the period that discretisation needs there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tilt {
    /// c.
    pub(crate) c: f64,
    /// The saddle point, at or above c: the law tilted by it has its mass where δ comes from.
    pub(crate) saddle: f64,
    /// sqrt A''(c).
    pub(crate) spread: f64,
    /// Errors of e^−`level` relative to e^{A(c) − cε} are wanted.
    pub(crate) level: f64,
    /// The moment at a tilt below c.
    pub(crate) below: MomentBound,
    /// The moment at a tilt above c.
    pub(crate) above: MomentBound,
    /// P.
    pub(crate) period: f64,
}

impl Tilt {
    /// At the saddle point `c` of `epsilon`, or back from it where that makes the period much shorter; relative errors
    /// of δ are to be near e^`log_tolerance`.
    pub(crate) fn near(segments: &mut [Segment], c: f64, epsilon: f64, log_tolerance: f64) -> Option<Self> {
        Self::back_from(segments, c, (epsilon, epsilon), log_tolerance)
    }

    /// At the lower tilt of a cell, or back from it, for every ε of the cell.
    pub(crate) fn over(segments: &mut [Segment], cell: &Cell, log_tolerance: f64) -> Option<Self> {
        let (low, high) = (cell.low, cell.high);
        let last = high.saddle.epsilon;
        // At the other end δ is smaller relative to e^{A(c) − cε}.
        let range = (low.saddle.epsilon, last);
        Self::back_from(segments, low.saddle.c, range, log_tolerance - cell.log_loss())
    }

    /// At `c` for the ε of a range, or back from it where that makes the period much shorter.
    fn back_from(segments: &mut [Segment], c: f64, range: (f64, f64), log_tolerance: f64) -> Option<Self> {
        let total = usable(segments, c)?;
        let spread = total.variance.sqrt();
        // δ·e^{−A + cε} is about this at the saddle point.
        let saddle = 1.0 / (1.0 + (2.0 * PI).sqrt() * spread * c.abs() * (c + 1.0));
        let level = -log_tolerance - saddle.ln();
        let last = range.1;
        let mut best = Self::at(segments, &total, c, range, level)?;
        let mut steps_back = 0;
        while c > 0.0 && best.excess() > MAX_EXCESS && steps_back < MAX_STEPS_BACK {
            steps_back += 1;
            let back = best.c * 0.75;
            let Some(there) = usable(segments, back) else { break };
            let higher = (there.log_moment.value - back * last) - (total.log_moment.value - c * last);
            let Some(tilt) = Self::at(segments, &there, back, range, level + higher.max(0.0)) else {
                break;
            };
            if tilt.period > 0.9 * best.period {
                break;
            }
            best = Self { saddle: c, ..tilt };
        }
        Some(best)
    }

    /// At `c`, for errors of e^−`level` relative to e^{A(c) − cε}.
    pub(crate) fn at_level(segments: &mut [Segment], c: f64, epsilon: f64, level: f64) -> Option<Self> {
        let total = usable(segments, c)?;
        Self::at(segments, &total, c, (epsilon, epsilon), level)
    }

    /// The period over that of a Gaussian loss.
    fn excess(&self) -> f64 {
        self.period / ((2.0 * self.level).sqrt() * self.spread)
    }

    fn at(segments: &mut [Segment], total: &Total, c: f64, (first, last): (f64, f64), level: f64) -> Option<Self> {
        let spread = total.variance.sqrt();
        let period = |other: f64, log_moment: f64| {
            // The ε of the range at which aliasing is largest.
            let epsilon = if other < c { last } else { first };
            (log_moment - total.log_moment.value - (other - c) * epsilon + level) / (other - c).abs()
        };
        let (floor, ceiling) = if c > 0.0 { (0.0, f64::INFINITY) } else { (-1.0, 0.0) };
        let mut best = [None::<(MomentBound, f64)>; 2];
        for (side, sign) in [(0, -1.0), (1, 1.0)] {
            let mut distance = (2.0 * level).sqrt() / spread;
            for _ in 0..12 {
                let other = (c + sign * distance).clamp(floor, ceiling);
                // E[e^{−S}] ≤ 1, whatever P leaves out of Q.
                let log_moment = if other == 0.0 || other == -1.0 {
                    0.0
                } else {
                    Total::at(segments, other).map_or(f64::INFINITY, |total| total.log_moment.upper())
                };
                let found = period(other, log_moment);
                let better = best[side].is_none_or(|(_, shortest)| found < shortest);
                if better && found.is_finite() {
                    best[side] = Some((MomentBound { c: other, log_moment }, found));
                } else if best[side].is_some() {
                    break;
                }
                if found.is_finite() && found * (c - other).abs() < 2.2 * level {
                    break; // as good as a Gaussian's
                }
                distance = 0.4 * (other - c).abs();
            }
        }
        let (below, above) = (best[0]?, best[1]?);
        Some(Self {
            c,
            saddle: c,
            spread,
            level,
            below: below.0,
            above: above.0,
            period: below.1.max(above.1).max(1e-300),
        })
    }
}

fn usable(segments: &mut [Segment], c: f64) -> Option<Total> {
    let total = Total::at(segments, c)?;
    (total.variance > 0.0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;
    use crate::inversion::tilt_lattice::TiltLattice;
    use crate::special::log_space::LogSum;

    /// log of Σ E[g(S − ε + mP)]·e^{−cmP} over m ≠ 0, relative to e^{A(c) − cε}: what is found P away, c > 0.
    fn log_aliased(run: GaussianRun, c: f64, epsilon: f64, period: f64) -> f64 {
        let mut sum = LogSum::default();
        for m in 1..40 {
            let shift = f64::from(m) * period;
            sum.add(run.log_delta(epsilon - shift) - c * shift);
            sum.add(run.log_delta(epsilon + shift) + c * shift);
        }
        sum.ln() - run.log_moment(c) + c * epsilon
    }

    #[test]
    fn the_period_makes_aliasing_as_small_as_wanted_and_half_of_it_would_not() {
        for (distance, steps, epsilon) in [(1.0, 1.0, 2.0), (0.1, 100.0, 3.0), (0.02, 1e5, 60.0), (3.0, 2.0, 9.0)]
        {
            let run = GaussianRun::new(distance, steps);
            for log_tolerance in [-8.0, -14.0, -25.0] {
                let mut segments = run.segments();
                let c = crate::inversion::saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
                let tilt = Tilt::near(&mut segments, c, epsilon, log_tolerance).unwrap();
                let log_delta = run.log_delta(epsilon) - run.log_moment(c) + c * epsilon;
                assert!(-tilt.level <= log_delta + log_tolerance + 1.0, "{tilt:?} {log_delta}");
                let aliased = log_aliased(run, tilt.c, epsilon, tilt.period);
                // e^−level from each side at most, and the rest of two geometric series.
                assert!(aliased <= -tilt.level + 1.0, "{tilt:?} {aliased}");
                let half = log_aliased(run, tilt.c, epsilon, 0.5 * tilt.period);
                assert!(half > -tilt.level + 1.0, "{tilt:?} {half}");
            }
        }
    }

    /// At both ends of a cell aliasing is as small as wanted, and with half of the period it is not at one of them.
    #[test]
    fn the_period_over_a_cell_suffices_at_both_of_its_ends() {
        for (distance, steps, epsilon) in [(1.0, 1.0, 2.0), (0.1, 100.0, 3.0), (0.02, 1e5, 60.0)] {
            let run = GaussianRun::new(distance, steps);
            let mut segments = run.segments();
            let cell = TiltLattice::default().cell(&mut segments, epsilon).unwrap();
            let ends = [cell.low.saddle.epsilon, cell.high.saddle.epsilon];
            for log_tolerance in [-8.0, -14.0, -25.0] {
                let tilt = Tilt::over(&mut segments, &cell, log_tolerance).unwrap();
                let aliased = |period: f64| ends.map(|end| log_aliased(run, tilt.c, end, period));
                assert!(
                    aliased(tilt.period).iter().all(|log| *log <= -tilt.level + 1.0),
                    "{tilt:?}"
                );
                assert!(
                    aliased(0.5 * tilt.period).iter().any(|log| *log > -tilt.level + 1.0),
                    "{tilt:?}"
                );
                // The level is that of the smaller δ, at the upper end.
                let log_delta = run.log_delta(ends[1]) - run.log_moment(tilt.c) + tilt.c * ends[1];
                assert!(-tilt.level <= log_delta + log_tolerance + 1.0, "{tilt:?} {log_delta}");
            }
        }
    }

    #[test]
    fn both_bounds_hold_at_the_period_and_one_is_attained() {
        for epsilon in [-2.0, 0.4, 3.0, 20.0] {
            let run = GaussianRun::new(0.5, 10.0);
            let mut segments = run.segments();
            let c = crate::inversion::saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
            let tilt = Tilt::at_level(&mut segments, c, epsilon, 20.0).unwrap();
            let side = |MomentBound { c: other, log_moment }: MomentBound| {
                assert!(log_moment >= run.log_moment(other) - 1e-12, "{tilt:?}");
                let distance = (other - c).abs();
                log_moment - run.log_moment(c) - (other - c) * epsilon - distance * tilt.period
            };
            let (below, above) = (side(tilt.below), side(tilt.above));
            assert!(below <= -20.0 + 1e-9 && above <= -20.0 + 1e-9, "{below} {above}");
            assert!(below.max(above) > -20.0 - 1e-9, "{below} {above}");
            assert!(tilt.below.c < c && c < tilt.above.c);
            // Both other tilts are in the strip of c.
            let strip = if c > 0.0 { 0.0..=f64::INFINITY } else { -1.0..=0.0 };
            assert!(
                strip.contains(&tilt.below.c) && strip.contains(&tilt.above.c),
                "{tilt:?}"
            );
        }
    }
}
