//! Complex-order inversion of runs whose loss is next to nothing with a high probability: few steps, or small sample rates.
//!
//! The characteristic function of such a run hardly decays: with some probability every step had a loss near the same
//! value, that of "nobody of the group in the batch". Gates at increasing losses (see `loss::gate` and [`ladder`]) split the law of
//! each step into parts. With N_i the transform of the losses below gate i, N_0 those around the common loss and N_m all of them,
//!
//! > Π N_m^T − Π N_0^T = Σ_i (Π N_i^T − Π N_{i−1}^T),
//!
//! and the i-th term is the transform of the runs in which some step is above gate i − 1 and none above gate i. Their measure is
//! positive and at most the law of all runs below gate i, so that aliasing is bounded as in `contour`, and their transform decays,
//! as with N_i = N_{i−1} + H
//!
//! > |Π N_i^T − Π N_{i−1}^T| ≤ e^{A(c)}·Σ T·|H|/N_i(c).
//!
//! Every term is inverted on a line of its own, whose spacing is that of losses as large as gate i and whose reach is that of
//! losses as small as gate i − 1. One gate alone would need the reach of the smallest and the spacing of the largest losses at once.
//!
//! Outputs far above the gate that they were not found to pass are left out of the losses below that gate, as moments would consist of
//! them. The runs that have one have a probability of at most T·Φ(−r) for each gate, r being how far above, in widths of the gate.
//! Each N_i is a measure, so that leaving out some of it in one term and not in the next leaves out a part of the runs.
//!
//! Runs below gate 0 are left out. They add to δ between 0 and e^{A_N(c') − c'ε} for every c' > 0, where A_N is
//! Σ T·log N_0, and the gate is placed so that this is negligible. Where no gate is, because small losses of very many steps add
//! up, Π N_0^T is inverted as well, at the tilt of its own light tail.

mod difference;
mod far_runs;
mod ladder;
mod near;
mod tilted_step;

use crate::approx::Approx;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::contour::{COST_OF_POINT, Contour, Limits, Line, find_reach};
use crate::inversion::contour_sum::ContourSum;
use crate::inversion::saddle;
use crate::inversion::segment::{ApproxSum, Segment, Total};
use crate::inversion::split::difference::Powers;
use crate::inversion::split::far_runs::FarRuns;
use crate::inversion::split::ladder::{Ladder, Lowest};
use crate::inversion::split::near::near_parts;
use crate::inversion::split::tilted_step::Split;
use crate::inversion::tilt::Tilt;
use crate::loss::StepLoss;
use crate::loss::gate::Separation;
use crate::special::log_space::LogSum;
use std::f64::consts::PI;

/// Tilts that are tried, over the saddle point of the far runs: at a smaller one the event that a whole group is in one
/// batch, far out and rare, has less weight; its edge would slow the decay of the transform.
const FLATTER: [f64; 4] = [1.0, 0.7, 0.5, 0.35];
/// Products of nodes in x and y for which no other tilt is tried.
const CHEAP: f64 = 1e6;

/// log of the probability that no step is far above which far steps are rare.
const LOG_RARE: f64 = -6.0;
/// log of the probability of runs without any member in any batch below which they do not matter.
const LOG_NEGLIGIBLE: f64 = -30.0;
/// Standard deviation of the near losses of all steps, over the way to ε, below which they are next to the common loss. Of 1,500 random runs
/// with 10 to 10,000 steps all together take 8 % longer with 0.03, with which a run of 8,234 steps that inversion of all runs answers in 3 ms
/// takes 50; with 0.01 4 % longer; with 0 as long, though a few take up to three times as long.
const CONCENTRATED: f64 = 0.003;
/// Products of nodes in x and y that the contour of one of several bands may cost.
const MAX_BAND_PRODUCTS: f64 = 4e7;
/// Where the search for the saddle point of the runs with losses below ℓ starts, times ℓ: saddle points times ℓ between 30 and 50 were
/// measured.
const TYPICAL_SADDLE: f64 = 30.0;
/// Number of steps from which on their small losses may add up to ε more often than one of them is large, and a saddle-point estimate of
/// the probability is good enough. For two steps it was 300 times too large.
const MANY_STEPS: f64 = 10.0;
/// log of the factor by which the errors of quadrature are below the others: it converges so fast that they cost a few nodes. With 1 one of the
/// slowest answers of a random box took three contours in place of one.
const LOG_QUADRATURE_MARGIN: f64 = 3.0;
/// A band is left out as a whole where a bound on it is below e^−3 of the error that is allowed.
const NEGLIGIBLE: f64 = 3.0;

/// The near parts of all segments at one choice of gates.
struct Near {
    gates: Vec<Separation>,
    /// Moments of the sum of the near parts.
    left_out: Vec<MomentBound>,
}

/// What contours are to be computed for.
#[derive(Debug, Clone, Copy)]
struct Question {
    epsilon: f64,
    /// log of the error of δ that is allowed.
    allowed: f64,
    /// Products of nodes in x and y that one contour may cost.
    most_products: f64,
}

/// Where the search for a saddle point starts.
#[derive(Debug, Clone, Copy)]
enum Start {
    /// At the saddle point of the whole law; that of its runs with a far step is no larger.
    WholeLaw(f64),
    /// Anywhere.
    Guess(f64),
}

/// The contours of the runs with a far step for δ at `epsilon`, with errors of about e^`log_tolerance` of δ or, if that is
/// less, of e^`hint`, where δ is known to be about that; `c` is the saddle point of the whole law. `None` where there is no
/// common loss, or a contour would cost more than `most_products` of nodes in x and y. Adds what moments of parts took to `work`.
pub(crate) fn contours(
    segments: &mut [Segment],
    c: f64,
    epsilon: f64,
    (log_tolerance, hint): (f64, Option<f64>),
    most_products: f64,
    work: &mut u64,
) -> Option<ContourSum> {
    if c <= 0.0 {
        return None;
    }
    let is_rare = ladder::near_losses(segments, epsilon).is_some_and(|near| near.log_mass > LOG_RARE);
    let expected = match hint {
        Some(hint) if is_rare => hint,
        _ => {
            let typical = ladder::typical_gates(segments, epsilon)?;
            let mut far = far_parts(segments, &typical)?;
            let found = FarRuns::saddle(segments, &mut far, c, epsilon);
            *work += far.iter().map(|far| far.work()).sum::<u64>();
            let far = found?.log_delta;
            let small = log_delta_of_small(segments, &typical, epsilon, work)?;
            far.max(small).min(hint.unwrap_or(f64::INFINITY))
        }
    };
    let allowed = expected + log_tolerance;
    let mut on_ladder = |lowest: Lowest, max_gates: usize, most_products: f64| {
        let ladder = Ladder::new(segments, (epsilon, allowed), lowest, max_gates, work)?;
        let question = Question {
            epsilon,
            allowed: allowed - (ladder.gates.len() as f64 + 1.0).ln(),
            most_products,
        };
        by_bands(segments, ladder, c, &question, work)
    };
    // Where steps with a large loss are many, one gate alone serves better: it may be as wide as suits it.
    let many = if is_rare {
        on_ladder(Lowest::LeftOut, ladder::MAX_GATES, most_products.min(MAX_BAND_PRODUCTS))
    } else {
        None
    };
    many.or_else(|| on_ladder(Lowest::LeftOut, 1, most_products))
        .or_else(|| on_ladder(Lowest::Inverted, ladder::MAX_GATES, most_products))
}

/// The contours of all bands between the rungs of a ladder.
fn by_bands(
    segments: &mut [Segment],
    ladder: Ladder,
    c: f64,
    question: &Question,
    work: &mut u64,
) -> Option<ContourSum> {
    let mut found = ContourSum::default();
    found.neglect(0.0, ladder.log_neglected);
    if let Lowest::Inverted = ladder.lowest {
        let mut small = near_parts(segments, &ladder.gates[0], ladder.reach)?;
        let contour = small_losses(&mut small, question);
        *work += small.iter().map(|segment| segment.loss.work()).sum::<u64>();
        let contour = contour?;
        *work += contour.work();
        found.add(contour);
    }
    let mut left_out = ladder.left_out;
    let mut rungs = ladder.gates.into_iter().zip(ladder.losses).peekable();
    while let Some((gates, _)) = rungs.next() {
        let near = Near {
            gates,
            left_out: std::mem::take(&mut left_out),
        };
        match rungs.peek() {
            Some((upper, loss)) => {
                let mut below = near_parts(segments, upper, ladder.reach)?;
                let of_band = band(
                    &mut below,
                    &near,
                    Start::Guess(TYPICAL_SADDLE / loss),
                    question,
                    &mut found,
                    work,
                );
                *work += below.iter().map(|segment| segment.loss.work()).sum::<u64>();
                of_band?;
            }
            None if ladder.is_closed => {}
            None => band(segments, &near, Start::WholeLaw(c), question, &mut found, work)?,
        }
    }
    Some(found)
}

/// The contour of the runs whose losses are all below the lowest gates.
fn small_losses(small: &mut [Segment], question: &Question) -> Option<Contour> {
    let epsilon = question.epsilon;
    let c = saddle::for_epsilon(small, epsilon, None).filter(|&c| c > 0.0)?;
    let log_delta = saddle::log_delta_at(small, epsilon)?;
    let tilt = Tilt::near(small, c, epsilon, ((question.allowed - log_delta).min(0.0), None))?;
    Contour::new(small, &tilt, Limits::of_products(question.most_products))
}

/// How inversion of the runs with a far step compares with that of all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suitability {
    /// It is not expected to help.
    Unsuited,
    /// With a probability that is not small no step has a far loss, so that it serves where inversion of all runs takes many points.
    Alternative,
    /// All losses of those runs are next to the common one as well, so that inversion of all runs would take far more points.
    Needed,
}

impl Suitability {
    /// That for δ at `epsilon`.
    pub(crate) fn at(segments: &[Segment], epsilon: f64) -> Self {
        match ladder::near_losses(segments, epsilon) {
            Some(near) if near.log_mass > LOG_RARE && near.spread < CONCENTRATED => Self::Needed,
            Some(near) if near.log_mass > LOG_RARE && is_promising(segments) => Self::Alternative,
            _ => Self::Unsuited,
        }
    }
}

/// Whether it matters that runs of the common loss alone are left out. The common loss of a step is negative only where it is the log of
/// the probability that no member of the group is in the batch. Where that never happens in all steps, the transform of such runs is below
/// all errors, and what is left decays no sooner than that of all runs.
pub(crate) fn is_promising(segments: &[Segment]) -> bool {
    let common = |segment: &Segment| segment.steps * segment.loss.common_loss().unwrap_or(0.0);
    segments.iter().map(common).sum::<f64>() > LOG_NEGLIGIBLE
}

/// Approximate log of the probability that losses below the gates add up to ε; −∞ where steps are too few for a sum of small losses to be
/// told by its saddle point.
fn log_delta_of_small(segments: &[Segment], gates: &[Separation], epsilon: f64, work: &mut u64) -> Option<f64> {
    let steps: f64 = segments.iter().map(|segment| segment.steps).sum();
    if steps < MANY_STEPS {
        return Some(f64::NEG_INFINITY);
    }
    let mut near = near_parts(segments, gates, f64::INFINITY)?;
    let small = saddle::log_delta_at(&mut near, epsilon).unwrap_or(f64::NEG_INFINITY);
    *work += near.iter().map(|part| part.loss.work()).sum::<u64>();
    Some(small)
}

/// Adds the runs of `segments` with a step that is not near, by a contour of their own or as a bound where that is negligible.
fn band(
    segments: &mut [Segment],
    near: &Near,
    start: Start,
    question: &Question,
    found: &mut ContourSum,
    work: &mut u64,
) -> Option<()> {
    let mut far = far_parts(segments, &near.gates)?;
    let done = band_with((segments, &mut far), near, start, question, found);
    *work += far.iter().map(|far| far.work()).sum::<u64>();
    done
}

/// [`band`] with the parts of all segments that are not near.
fn band_with(
    (segments, far): (&mut [Segment], &mut [StepLoss]),
    near: &Near,
    start: Start,
    question: &Question,
    found: &mut ContourSum,
) -> Option<()> {
    let epsilon = question.epsilon;
    let rough = match start {
        Start::WholeLaw(c) => FarRuns::saddle(segments, far, c, epsilon)?,
        Start::Guess(c) => FarRuns::saddle_around(segments, far, c, epsilon)?,
    };
    let is_negligible = |log_moment: f64| log_moment - rough.c * epsilon < question.allowed - NEGLIGIBLE;
    if near.left_out.is_empty() && is_negligible(rough.log_moment) {
        let log_bound = far_runs::log_bound(segments, far, rough.c);
        if is_negligible(log_bound) {
            found.neglect(rough.c, log_bound);
            return Some(());
        }
    }
    let mut best: Option<(Tilt, f64, f64)> = None;
    for factor in FLATTER {
        let c = factor * rough.c;
        let log_moment = Total::at(segments, c)?.log_moment.value;
        let level = (log_moment - c * epsilon - question.allowed).max(2.0);
        let Some(tilt) = Tilt::at_level(segments, c, epsilon, level) else {
            continue;
        };
        let mut split = parts(segments, far, &tilt)?;
        let Some((reach, products)) = reach(&mut split, &tilt, question.most_products) else {
            continue;
        };
        if products < CHEAP {
            found.add(contour(split, near, (&tilt, reach), question.most_products)?);
            return Some(());
        }
        if best.is_none_or(|(.., fewest)| products < fewest) {
            best = Some((tilt, reach, products));
        }
    }
    let (tilt, reach, _) = best?;
    let split = parts(segments, far, &tilt)?;
    found.add(contour(split, near, (&tilt, reach), question.most_products)?);
    Some(())
}

/// The parts of all segments with large losses.
fn far_parts(segments: &[Segment], gates: &[Separation]) -> Option<Vec<StepLoss>> {
    let both = segments.iter().zip(gates);
    both.map(|(segment, gate)| segment.loss.far_part(*gate)).collect()
}

/// Parts of all segments at a tilt, not yet certified for any y.
fn parts<'a>(segments: &'a mut [Segment], far: &'a mut [StepLoss], tilt: &Tilt) -> Option<Vec<Split<'a>>> {
    let count = segments.len() as f64;
    let both = segments.iter_mut().zip(far);
    both.map(|(segment, far)| Split::new(segment, far, tilt.c, -tilt.level - count.ln() - LOG_QUADRATURE_MARGIN))
        .collect()
}

/// Where the transform at a tilt has decayed, and how many products of nodes in x and y that may take.
fn reach(split: &mut [Split<'_>], tilt: &Tilt, most_products: f64) -> Option<(f64, f64)> {
    let spacing = 2.0 * PI / tilt.period;
    let far_spread = split.iter().map(Split::far_spread).fold(0.0, f64::max);
    let size = cost_of_point(split) as f64;
    let start = 0.7 * (2.0 * tilt.level).sqrt() / far_spread;
    let reach = find_reach(start, spacing, most_products / size, tilt.level, |y, wanted| {
        decay(split, y, Some(wanted))
    })?;
    Some((reach, reach / spacing * size))
}

/// Cost of a point, in products of nodes in x and points in y: that of its sums over nodes, and of its two powers and their difference.
fn cost_of_point(split: &[Split<'_>]) -> usize {
    split.iter().map(|part| part.size() + 2 * COST_OF_POINT).sum()
}

/// The contour of parts at a tilt, up to `reach`.
fn contour(
    mut split: Vec<Split<'_>>,
    near: &Near,
    (tilt, reach): (&Tilt, f64),
    most_products: f64,
) -> Option<Contour> {
    let &Tilt { c, level, .. } = tilt;
    let spacing = 2.0 * PI / tilt.period;
    decay(&mut split, reach, Some(level - (PI * reach).ln())); // leaves the imaginary shifts in `split`
    let last = (reach / spacing).ceil().max(2.0);
    for part in &mut split {
        part.certify(last * spacing)?;
    }
    let size = cost_of_point(&split);
    if last * size as f64 > 2.0 * most_products {
        return None;
    }
    let decayed = decay(&mut split, reach, None).exp();

    let last = last as usize;
    let mut powers = vec![Powers::default(); last + 1];
    let mut log_moment = ApproxSum::default();
    for part in &split {
        log_moment.add(part.whole.moments().log_moment.times(part.steps));
        let (fraction, fraction_error) = (part.log_fraction.value.exp(), part.log_fraction.error.exp_m1());
        // The logarithm is a difference of two, and is rounded to its last bit.
        let fraction_rounding = f64::EPSILON * (4.0 + part.log_fraction.value.abs());
        let both = part.whole.changes(spacing, last).into_iter();
        for (power, (whole, far)) in powers.iter_mut().zip(both.zip(part.far.changes(spacing, last))) {
            let value = fraction * (1.0 + far.value);
            let rounding = (fraction_error + fraction_rounding) * value.norm();
            let far = Approx::new(value, fraction * far.error + rounding);
            power.multiply(whole, far, part.steps);
        }
    }
    let points = powers.into_iter().map(Powers::difference);
    let line = Line {
        c,
        log_moment: log_moment.value(),
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

#[cfg(test)]
mod tests;
