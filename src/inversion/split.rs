//! Complex-order inversion of runs whose loss is next to nothing with a high probability: few steps, or small sample rates.
//!
//! The characteristic function of such a run hardly decays: with some probability every step had a loss near the same
//! value, that of "nobody of the group in the batch". A gate (see `loss::gate`) splits the law of each step into a near
//! part, of losses that all steps together cannot add up to ε, and a far part: E[e^{zℓ}] = N(z) + H(z). Then
//!
//! > Π (N + H)^T − Π N^T
//!
//! is the transform of the runs with at least one far step. Their measure is positive and below the whole law, so that
//! aliasing is bounded as in `contour`, and their transform decays, as |N|, |N + H| ≤ φ(c) = N(c) + H(c) give
//!
//! > |Π (N + H)^T − Π N^T| ≤ e^{A(c)}·Σ T·|H|/φ(c).
//!
//! Runs without a far step are left out. They add to δ between 0 and e^{A_N(c') − c'ε} for every c' > 0, where A_N is
//! Σ T·log N, and the gates are placed so that this is negligible.

mod difference;
mod far_runs;
mod tilted_step;

use crate::approx::Approx;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::contour::{Contour, Line, find_reach};
use crate::inversion::segment::{Segment, Total};
use crate::inversion::split::difference::Powers;
use crate::inversion::split::far_runs::FarRuns;
use crate::inversion::split::tilted_step::Split;
use crate::inversion::tilt::Tilt;
use crate::loss::StepLoss;
use crate::loss::gate::Separation;
use crate::special::log_space::LogSum;
use std::f64::consts::PI;

/// Losses of the gates, as fractions of the way from the common loss to ε; the first that leaves out little enough is used.
const GATE_FRACTIONS: [f64; 13] = [
    0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.09, 0.06, 0.04, 0.025, 0.015,
];
/// Width of a gate over the way to it, in losses: narrower ones leave out less, wider ones decay faster.
const SHARPNESS: f64 = 0.12;
/// Tilts that are tried, over the saddle point of the far runs: at a smaller one the event that a whole group is in one
/// batch, far out and rare, has less weight; its edge would slow the decay of the transform.
const FLATTER: [f64; 4] = [1.0, 0.7, 0.5, 0.35];
/// Products of nodes in x and y for which no other tilt is tried.
const CHEAP: f64 = 1e6;
/// Tilts at which the part that is left out is bounded, over the smallest at which the bound could suffice.
const STEEPER: [f64; 5] = [1.02, 1.2, 1.5, 2.0, 3.0];
/// log of what quadrature may leave out of the moments of the near parts.
const NEAR_TOLERANCE: f64 = -20.0;
/// The largest such tilt, whose square is still finite. Only an ε next to zero would need a larger one; another route
/// serves it.
const STEEPEST: f64 = 1e150;

/// The near parts of all segments at one choice of gates.
struct Near {
    gates: Vec<Separation>,
    /// Moments of the sum of the near parts.
    left_out: Vec<MomentBound>,
}

/// The contour of the runs with a far step for δ at `epsilon`, with errors of about e^`log_tolerance` of δ or, if that is
/// less, of e^`hint`, where δ is known to be about that; `c` is the saddle point of the whole law. `None` where there is no
/// common loss, or that would cost more than `most_products` of nodes in x and y. Adds what moments of parts took to `work`.
pub(crate) fn contour(
    segments: &mut [Segment],
    c: f64,
    epsilon: f64,
    (log_tolerance, hint): (f64, Option<f64>),
    most_products: f64,
    work: &mut u64,
) -> Option<Contour> {
    if c <= 0.0 {
        return None;
    }
    let mut common = Vec::with_capacity(segments.len());
    for segment in segments.iter() {
        common.push(segment.loss.usual_loss()?);
    }
    let sum: f64 = common.iter().zip(segments.iter()).map(|(loss, s)| loss * s.steps).sum();
    let gates = |segments: &[Segment], fraction: f64| -> Option<Vec<Separation>> {
        let way = fraction * (epsilon - sum);
        let both = segments.iter().zip(&common);
        both.map(|(segment, loss)| segment.loss.separation(loss + way, SHARPNESS * way))
            .collect()
    };
    let rough = FarRuns::saddle(segments, &gates(segments, GATE_FRACTIONS[1])?, c, epsilon, work)?;
    let allowed = rough.log_delta.min(hint.unwrap_or(f64::INFINITY)) + log_tolerance;
    let near = GATE_FRACTIONS.iter().find_map(|&fraction| {
        let gates = gates(segments, fraction)?;
        Near::new(segments, gates, epsilon, allowed, work)
    })?;
    let mut best: Option<(Tilt, f64, f64)> = None;
    for factor in FLATTER {
        let c = factor * rough.c;
        let log_moment = Total::at(segments, c)?.log_moment.value;
        let level = (log_moment - c * epsilon - allowed).max(2.0);
        let Some(tilt) = Tilt::at_level(segments, c, epsilon, level) else {
            continue;
        };
        let Some((reach, products)) = reach(segments, &near, &tilt, most_products) else {
            continue;
        };
        if best.is_none_or(|(.., fewest)| products < fewest) {
            best = Some((tilt, reach, products));
        }
        if products < CHEAP {
            break;
        }
    }
    let (tilt, reach, _) = best?;
    at_tilt(segments, &near, &tilt, reach, most_products, work)
}

/// The parts of all segments with large losses.
fn far_parts(segments: &[Segment], near: &Near) -> Option<Vec<StepLoss>> {
    let both = segments.iter().zip(&near.gates);
    both.map(|(segment, gate)| segment.loss.far_part(*gate)).collect()
}

/// Parts of all segments at a tilt, not yet certified for any y.
fn parts<'a>(segments: &'a mut [Segment], far: &'a mut [StepLoss], tilt: &Tilt) -> Option<Vec<Split<'a>>> {
    let count = segments.len() as f64;
    let both = segments.iter_mut().zip(far);
    both.map(|(segment, far)| {
        let tolerance = -tilt.level - segment.steps.ln() - count.ln() - 1.0;
        Split::new(segment, far, tilt.c, tolerance)
    })
    .collect()
}

/// Where the transform at a tilt has decayed, and how many products of nodes in x and y that may take.
fn reach(segments: &mut [Segment], near: &Near, tilt: &Tilt, most_products: f64) -> Option<(f64, f64)> {
    let mut far = far_parts(segments, near)?;
    let mut split = parts(segments, &mut far, tilt)?;
    let spacing = 2.0 * PI / tilt.period;
    let far_spread = split.iter().map(Split::far_spread).fold(0.0, f64::max);
    let size = split.iter().map(Split::size).sum::<usize>() as f64;
    let start = 0.7 * (2.0 * tilt.level).sqrt() / far_spread;
    let reach = find_reach(start, spacing, most_products / size, tilt.level, |y, wanted| {
        decay(&mut split, y, Some(wanted))
    })?;
    Some((reach, reach / spacing * size))
}

/// The contour at a tilt, up to `reach`.
fn at_tilt(
    segments: &mut [Segment],
    near: &Near,
    tilt: &Tilt,
    reach: f64,
    most_products: f64,
    work: &mut u64,
) -> Option<Contour> {
    let &Tilt { c, level, .. } = tilt;
    let spacing = 2.0 * PI / tilt.period;
    let mut far = far_parts(segments, near)?;
    let mut split = parts(segments, &mut far, tilt)?;
    decay(&mut split, reach, Some(level - (PI * reach).ln())); // leaves the imaginary shifts in `split`
    let last = (reach / spacing).ceil().max(2.0);
    for part in &mut split {
        part.certify(last * spacing)?;
    }
    let size: usize = split.iter().map(Split::size).sum();
    if last * size as f64 > 2.0 * most_products {
        return None;
    }
    let decayed = decay(&mut split, reach, None).exp();

    let last = last as usize;
    let mut powers = vec![Powers::default(); last + 1];
    let mut log_moment = Approx::default();
    for part in &split {
        log_moment += part.whole.moments().log_moment.times(part.steps);
        let (fraction, fraction_error) = (part.log_fraction.value.exp(), part.log_fraction.error.exp_m1());
        let both = part.whole.changes(spacing, last).into_iter();
        for (power, (whole, far)) in powers.iter_mut().zip(both.zip(part.far.changes(spacing, last))) {
            let value = fraction * (1.0 + far.value);
            let rounding = (fraction_error + 4.0 * f64::EPSILON) * value.norm();
            let far = Approx::new(value, fraction * far.error + rounding);
            power.multiply(whole, far, part.steps);
        }
    }
    drop(split);
    *work += far.iter().map(|far| far.work()).sum::<u64>();
    let points = powers.into_iter().map(Powers::difference);
    let line = Line {
        c,
        log_moment,
        spacing,
        decayed,
        left_out: near.left_out.clone(),
        size,
    };
    Some(Contour::through(line, tilt, points.collect()))
}

/// log of the bound on the transform of the runs with a far step, over e^{A(c)}; where a decay is `wanted`, with the
/// best choice of what shows it, which is left in `split`.
fn decay(split: &mut [Split<'_>], y: f64, wanted: Option<f64>) -> f64 {
    let mut total = LogSum::default();
    for part in split {
        let log_steps = part.steps.ln() + part.log_fraction.upper();
        let decay = match wanted {
            Some(wanted) => part.far.best_log_decay(y, wanted + log_steps + 0.5),
            None => part.far.log_decay(y),
        };
        total.add(log_steps + decay);
    }
    total.ln()
}

impl Near {
    /// Bounds on what is left out at `gates`; `None` if they are above e^`allowed` of δ.
    fn new(
        segments: &[Segment],
        gates: Vec<Separation>,
        epsilon: f64,
        allowed: f64,
        work: &mut u64,
    ) -> Option<Self> {
        if epsilon <= 0.0 {
            return None;
        }
        let both = segments.iter().zip(&gates);
        let near = both.map(|(segment, gate)| Some((segment.loss.near_part(*gate)?, segment.steps)));
        let mut near: Vec<(StepLoss, f64)> = near.collect::<Option<_>>()?;
        let mut left_out = Vec::new();
        let mut smallest = f64::INFINITY;
        for factor in STEEPER {
            let c = -factor * allowed / epsilon;
            if c > STEEPEST {
                break;
            }
            let of =
                |(part, steps): &mut (StepLoss, f64)| *steps * part.moments(c, NEAR_TOLERANCE).log_moment.upper();
            let log_moment: f64 = near.iter_mut().map(of).sum();
            let moment = MomentBound { c, log_moment };
            let bound = moment.log_above(epsilon);
            if !bound.is_finite() || bound > smallest {
                break;
            }
            smallest = bound;
            left_out.push(moment);
            if bound <= allowed {
                break;
            }
        }
        *work += near.iter().map(|(part, _)| part.work()).sum::<u64>();
        (smallest <= allowed).then_some(Self { gates, left_out })
    }
}

#[cfg(test)]
mod tests;
