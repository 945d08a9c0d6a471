//! A tilt c, and the period P at which discretisation is accurate enough for questions near one ε.
//!
//! Points in y at the spacing 2π/P, like a grid of length P, add what lies a multiple of P away (aliasing). For
//! c' < c < c'' in one strip that is at most, up to the rest of two geometric series,
//!
//! > e^{A(c') − A(c) − (c'−c)ε − (c−c')P} + e^{A(c'') − A(c) − (c''−c)ε − (c''−c)P}
//!
//! relative to e^{A(c) − cε}. Large groups make A explode just above the saddle point (the whole group in one
//! batch: probability q^k, loss k²/2σ²), so that c'' must stay near c and P grows; a smaller c then serves better.

use crate::approx::Approx;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::saddle::Moments;
use crate::inversion::segment::{Segment, Total};
use crate::inversion::tilt_lattice::Cell;
use std::f64::consts::PI;

/// Period over that of a Gaussian loss that is accepted at the saddle point; beyond it, smaller tilts are tried.
const MAX_EXCESS: f64 = 2.5;
/// How many times longer than estimated a period may be. Estimates agree with certified moments to many digits, or not at all.
const MOST_LONGER: f64 = 1.05;
/// log of the factor by which δ may be below what the saddle point suggests, at most, where it is said to be: that may be wrong. With 6 a
/// random box took a tenth longer, with 16 as long.
const MOST_BELOW_SADDLE: f64 = 10.0;
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
    /// of δ are to be near e^`log_tolerance`, where log δ is known to be about `expected` or is that of the saddle point.
    pub(crate) fn near(
        segments: &mut [Segment],
        c: f64,
        epsilon: f64,
        (log_tolerance, expected): (f64, Option<f64>),
    ) -> Option<Self> {
        Self::back_from(segments, c, (epsilon, epsilon), (log_tolerance, expected))
    }

    /// At the lower tilt of a cell, or back from it, for every ε of the cell.
    pub(crate) fn over(segments: &mut [Segment], cell: &Cell, log_tolerance: f64) -> Option<Self> {
        let (low, high) = (cell.low, cell.high);
        let last = high.saddle.epsilon;
        // At the other end δ is smaller relative to e^{A(c) − cε}.
        let range = (low.saddle.epsilon, last);
        Self::back_from(segments, low.saddle.c, range, (log_tolerance - cell.log_loss(), None))
    }

    /// At `c` for the ε of a range, or back from it where that makes the period much shorter.
    fn back_from(
        segments: &mut [Segment],
        c: f64,
        range: (f64, f64),
        accuracy: (f64, Option<f64>),
    ) -> Option<Self> {
        let found = Self::chosen(segments, |segments, moments| {
            Choice::back_from((segments, moments), c, range, accuracy)
        })?;
        Some(Self { saddle: c, ..found })
    }

    /// At `c`, for errors of e^−`level` relative to e^{A(c) − cε}.
    pub(crate) fn at_level(segments: &mut [Segment], c: f64, epsilon: f64, level: f64) -> Option<Self> {
        Self::chosen(segments, |segments, moments| {
            let total = usable(segments, moments, c)?;
            Choice::at((segments, moments), &total, c, (epsilon, epsilon), level)
        })
    }

    /// What is chosen by estimates, if certified moments confirm its period; else what is chosen by certified moments.
    fn chosen(
        segments: &mut [Segment],
        choose: impl Fn(&mut [Segment], Moments) -> Option<Choice>,
    ) -> Option<Self> {
        if let Some(choice) = choose(segments, Total::estimated)
            && let Some(tilt) = choice.certified(segments)
            && tilt.period <= MOST_LONGER * choice.period()
        {
            return Some(tilt);
        }
        choose(segments, Total::at)?.certified(segments)
    }
}

/// A tilt on one side of another one, by which aliasing is bounded.
#[derive(Debug, Clone, Copy)]
struct Other {
    c: f64,
    /// A(c), with an infinite error where it is an estimate.
    log_moment: Approx,
    /// The period that it leads to.
    period: f64,
}

/// A tilt that was chosen by moments which may be estimates.
#[derive(Debug, Clone, Copy)]
struct Choice {
    c: f64,
    /// A(c).
    log_moment: f64,
    spread: f64,
    level: f64,
    /// The ε that the period is for.
    range: (f64, f64),
    below: Other,
    above: Other,
}

impl Choice {
    fn back_from(
        (segments, moments): (&mut [Segment], Moments),
        c: f64,
        range: (f64, f64),
        (log_tolerance, expected): (f64, Option<f64>),
    ) -> Option<Self> {
        let total = usable(segments, moments, c)?;
        let spread = total.variance.sqrt();
        // log of e^{A − cε}/δ, about, by the saddle point; after a few steps δ can be far smaller.
        let above = (1.0 + (2.0 * PI).sqrt() * spread * c.abs() * (c + 1.0)).ln();
        let last = range.1;
        let known = expected
            .filter(|_| c > 0.0)
            .map_or(above, |expected| total.log_moment.value - c * last - expected);
        let level = known.min(above + MOST_BELOW_SADDLE).max(above) - log_tolerance;
        let mut best = Self::at((segments, moments), &total, c, range, level)?;
        let mut steps_back = 0;
        while c > 0.0 && best.excess() > MAX_EXCESS && steps_back < MAX_STEPS_BACK {
            steps_back += 1;
            let back = best.c * 0.75;
            let Some(there) = usable(segments, moments, back) else {
                break;
            };
            let higher = (there.log_moment.value - back * last) - (total.log_moment.value - c * last);
            let level = level + higher.max(0.0);
            let Some(choice) = Self::at((segments, moments), &there, back, range, level) else {
                break;
            };
            if choice.period() > 0.9 * best.period() {
                break;
            }
            best = choice;
        }
        Some(best)
    }

    fn at(
        (segments, moments): (&mut [Segment], Moments),
        total: &Total,
        c: f64,
        range: (f64, f64),
        level: f64,
    ) -> Option<Self> {
        let spread = total.variance.sqrt();
        let log_moment = total.log_moment.value;
        let (floor, ceiling) = if c > 0.0 { (0.0, f64::INFINITY) } else { (-1.0, 0.0) };
        let mut side = |sign: f64| {
            let mut best: Option<Other> = None;
            let mut distance = (2.0 * level).sqrt() / spread;
            for _ in 0..12 {
                let other = (c + sign * distance).clamp(floor, ceiling);
                let there = moment_at(segments, moments, other);
                let period = period((c, log_moment), (other, most_likely(there)), range, level);
                if period.is_finite() && best.is_none_or(|best| period < best.period) {
                    best = Some(Other {
                        c: other,
                        log_moment: there,
                        period,
                    });
                } else if best.is_some() {
                    break;
                }
                if period.is_finite() && period * (c - other).abs() < 2.2 * level {
                    break; // as good as a Gaussian's
                }
                distance = 0.4 * (other - c).abs();
            }
            best
        };
        let (below, above) = (side(-1.0), side(1.0));
        Some(Self {
            c,
            log_moment,
            spread,
            level,
            range,
            below: below?,
            above: above?,
        })
    }

    /// P.
    fn period(&self) -> f64 {
        self.below.period.max(self.above.period).max(1e-300)
    }

    /// The period over that of a Gaussian loss.
    fn excess(&self) -> f64 {
        self.period() / ((2.0 * self.level).sqrt() * self.spread)
    }

    /// The tilt with certified moments at those by which aliasing is bounded; `None` where they are beyond the range of an `f64`.
    fn certified(&self, segments: &mut [Segment]) -> Option<Tilt> {
        let mut bound = |other: &Other| {
            let known = other.log_moment.upper();
            let log_moment = if known.is_finite() {
                known
            } else {
                Total::at(segments, other.c)?.log_moment.upper()
            };
            let here = (self.c, self.log_moment);
            let period = period(here, (other.c, log_moment), self.range, self.level);
            let bound = MomentBound { c: other.c, log_moment };
            period.is_finite().then_some((bound, period))
        };
        let (below, above) = (bound(&self.below)?, bound(&self.above)?);
        Some(Tilt {
            c: self.c,
            saddle: self.c,
            spread: self.spread,
            level: self.level,
            below: below.0,
            above: above.0,
            period: below.1.max(above.1).max(1e-300),
        })
    }
}

/// The period at which the tilt `other` bounds aliasing at c by e^−`level`, for the ε of the range at which it is largest.
fn period(
    (c, log_moment): (f64, f64),
    (other, log_moment_there): (f64, f64),
    (first, last): (f64, f64),
    level: f64,
) -> f64 {
    let epsilon = if other < c { last } else { first };
    (log_moment_there - log_moment - (other - c) * epsilon + level) / (other - c).abs()
}

/// A(c): infinite beyond the range of an `f64`, and 0 at 0 and −1, as E[e^{−S}] ≤ 1, whatever P leaves out of Q.
fn moment_at(segments: &mut [Segment], moments: Moments, c: f64) -> Approx {
    if c == 0.0 || c == -1.0 {
        return Approx::exact(0.0);
    }
    moments(segments, c).map_or(Approx::exact(f64::INFINITY), |total| total.log_moment)
}

/// The upper bound on a moment, or its estimate.
fn most_likely(log_moment: Approx) -> f64 {
    if log_moment.error.is_finite() {
        log_moment.upper()
    } else {
        log_moment.value
    }
}

fn usable(segments: &mut [Segment], moments: Moments, c: f64) -> Option<Total> {
    let total = moments(segments, c)?;
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
                let tilt = Tilt::near(&mut segments, c, epsilon, (log_tolerance, None)).unwrap();
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

    /// A δ below that of the saddle point makes errors smaller by as much, up to a limit; one above it changes nothing.
    #[test]
    fn errors_are_relative_to_the_delta_that_is_expected() {
        let run = GaussianRun::new(0.1, 100.0);
        let (mut segments, epsilon) = (run.segments(), 3.0);
        let c = crate::inversion::saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
        let mut level = |expected| {
            let tilt = Tilt::near(&mut segments, c, epsilon, (-14.0, expected)).unwrap();
            tilt.level
        };
        let by_saddle = level(None);
        let log_delta = run.log_moment(c) - c * epsilon - (by_saddle - 14.0);
        for (lower, wanted) in [(5.0, 5.0), (50.0, MOST_BELOW_SADDLE), (-5.0, 0.0)] {
            let found = level(Some(log_delta - lower)) - by_saddle;
            assert!((found - wanted).abs() < 1e-9, "{lower}: {found}");
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
