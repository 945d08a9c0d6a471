//! Complex-order inversion of runs that may well lose next to nothing: few steps, or small sample rates.
//!
//! The characteristic function of such a run hardly decays: with some probability every step had a loss near the same
//! value, that of "nobody of the group in the batch". A gate (see `loss::gate`) splits the law of each step into a near
//! part, of losses that all steps together cannot add up to ε, and a far part: E[e^{zℓ}] = N(z) + H(z). Then
//!
//! > Π (N + H)^T − Π N^T
//!
//! is the transform of the runs with at least one far step. It is E of a positive measure below the whole law, so that
//! the spacing's error is bounded as in `contour`, and it does decay, as for |N|, |N + H| ≤ φ(c) = N(c) + H(c)
//!
//! > |Π (N + H)^T − Π N^T| ≤ e^{A(c)}·Σ T·|H|/φ(c).
//!
//! What is left out, runs without a far step, adds to δ between 0 and e^{A_N(c') − c'ε} for every c' > 0, where A_N is
//! Σ T·log N: next to nothing, as the gates are placed so.

use crate::inversion::contour::{Contour, ContourPoint, Line, Power, find_reach};
use crate::inversion::segment::{Segment, Total};
use crate::inversion::tilt::Tilt;
use crate::loss::StepLoss;
use crate::loss::gate::Separation;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use crate::special::log_space::{LogSum, log_modulus_1p};
use std::f64::consts::PI;

/// Losses of the gates, as shares of the way from the usual loss to ε.
const SHARES: [f64; 13] = [
    0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.09, 0.06, 0.04, 0.025, 0.015,
];
/// Width of a gate over the way to it, in losses: narrower ones leave out less, wider ones decay faster.
const SHARPNESS: f64 = 0.12;
/// Tilts that are tried, over the saddle point of the far runs: at a smaller one a whole group in one batch, far out and
/// rare, has less weight, whose edge would keep the transform from decaying.
const FLATTER: [f64; 4] = [1.0, 0.7, 0.5, 0.35];
/// Products of nodes in x and y for which no other tilt is tried.
const CHEAP: f64 = 1e6;
/// Tilts at which the part that is left out is bounded, over the least that could do.
const STEEPER: [f64; 5] = [1.02, 1.2, 1.5, 2.0, 3.0];
/// log of what quadrature may leave out of the moments of the near parts.
const NEAR_TOLERANCE: f64 = -20.0;
/// Largest of them: squares are still finite. Only an ε next to zero would need more, and another route serves it.
const STEEPEST: f64 = 1e150;

/// One segment's loss, tilted, and the part of it with large losses.
struct Split<'a> {
    steps: f64,
    whole: Box<dyn TiltedLoss + 'a>,
    far: Box<dyn TiltedLoss + 'a>,
    /// log of the fraction H(c)/φ(c), and a bound on its error.
    log_share: (f64, f64),
}

/// The near parts of all segments at one choice of gates.
struct Near {
    gates: Vec<Separation>,
    /// (c', A_N(c')).
    left_out: Vec<(f64, f64)>,
}

/// The contour of the runs with a far step for δ at `epsilon`, with errors of about e^`log_tolerance` of δ or, if that is
/// less, of e^`hint`, where δ is known to be about that; `c` is the saddle point of the whole law. `None` where no loss
/// is usual, or that would cost more than `most_products` of nodes in x and y. Adds what moments of parts took to `work`.
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
    let mut usual = Vec::with_capacity(segments.len());
    for segment in segments.iter() {
        usual.push(segment.loss.usual_loss()?);
    }
    let sum: f64 = usual.iter().zip(segments.iter()).map(|(loss, s)| loss * s.steps).sum();
    let gates = |segments: &[Segment], share: f64| -> Option<Vec<Separation>> {
        let way = share * (epsilon - sum);
        let both = segments.iter().zip(&usual);
        both.map(|(segment, loss)| segment.loss.separation(loss + way, SHARPNESS * way))
            .collect()
    };
    let rough = Runs::saddle(segments, &gates(segments, SHARES[1])?, c, epsilon, work)?;
    let allowed = rough.log_delta.min(hint.unwrap_or(f64::INFINITY)) + log_tolerance;
    let near = SHARES.iter().find_map(|&share| {
        let gates = gates(segments, share)?;
        Near::new(segments, gates, epsilon, allowed, work)
    })?;
    let mut best: Option<(Tilt, f64, f64)> = None;
    for share in FLATTER {
        let c = share * rough.c;
        let log_moment = Total::at(segments, c)?.log_moment;
        let level = (log_moment - c * epsilon - allowed).max(2.0);
        let Some(tilt) = Tilt::at_level(segments, c, epsilon, level) else {
            continue;
        };
        let Some((reach, products)) = reach(segments, &near, &tilt, most_products) else {
            continue;
        };
        if best.is_none_or(|(.., least)| products < least) {
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
    decay(&mut split, reach, Some(level - (PI * reach).ln())); // leaves the lifts
    for part in &mut split {
        part.certify(reach)?;
    }
    let last = (reach / spacing).ceil().max(2.0);
    let size: usize = split.iter().map(Split::size).sum();
    if last * size as f64 > 2.0 * most_products {
        return None;
    }
    let decayed = decay(&mut split, reach, None).exp();

    let last = last as usize;
    let mut powers = vec![Powers::default(); last + 1];
    let (mut log_moment, mut log_moment_error) = (0.0, 0.0);
    for part in &split {
        let whole = part.whole.moments();
        log_moment += part.steps * whole.log_moment;
        log_moment_error += part.steps * (whole.log_moment_error + f64::EPSILON * whole.log_moment.abs());
        let (share, share_error) = (part.log_share.0.exp(), part.log_share.1.exp_m1());
        let both = part.whole.changes(spacing, last).into_iter();
        for (power, (whole, far)) in powers.iter_mut().zip(both.zip(part.far.changes(spacing, last))) {
            let far = (share * (1.0 + far.0), share * far.1, share * far.2);
            let rounding = (share_error + 4.0 * f64::EPSILON) * far.0.hypot(far.1);
            power.multiply(whole, (far.0, far.1, far.2 + rounding), part.steps);
        }
    }
    drop(split);
    *work += far.iter().map(|far| far.work()).sum::<u64>();
    let points = powers.into_iter().map(Powers::difference);
    let line = Line {
        c,
        log_moment,
        log_moment_error,
        spacing,
        decayed,
        left_out: near.left_out.clone(),
        size,
    };
    Some(Contour::through(line, tilt, points.collect()))
}

/// Π (N + H)^T and Π N^T at one y, over φ(c)^T.
#[derive(Debug, Clone, Copy, Default)]
struct Powers {
    whole: Power,
    near: Power,
    /// Σ T·log(1 + H/N), real and imaginary part, and a bound on its error.
    quotient: (f64, f64, f64),
}

impl Powers {
    /// A segment with φ/φ(c) − 1 = `whole` and H/φ(c) = `far`, each with a bound on its error.
    fn multiply(&mut self, whole: (f64, f64, f64), far: (f64, f64, f64), steps: f64) {
        let near = (whole.0 - far.0, whole.1 - far.1, whole.2 + far.2);
        self.whole.multiply(whole, steps);
        self.near.multiply(near, steps);
        let (real, imaginary) = (1.0 + near.0, near.1);
        let square = real * real + imaginary * imaginary;
        let ratio = (
            (far.0 * real + far.1 * imaginary) / square,
            (far.1 * real - far.0 * imaginary) / square,
        );
        let size = ratio.0.hypot(ratio.1);
        self.quotient.0 += steps * log_modulus_1p(ratio.0, ratio.1);
        self.quotient.1 += steps * ratio.1.atan2(1.0 + ratio.0);
        let error = (far.2 + size * near.2) / square.sqrt() + 8.0 * f64::EPSILON * size;
        // |log(1 + w)'| = 1/|1 + w|.
        let rest = 1.0 - size - error;
        self.quotient.2 += if rest > 0.0 {
            steps * error / rest
        } else {
            f64::INFINITY
        };
    }

    /// Π (N + H)^T − Π N^T, as Π N^T·(e^{Σ T·log(1 + H/N)} − 1) where that keeps more digits.
    fn difference(self) -> ContourPoint {
        let direct = self.whole.point().minus(self.near.point());
        let (real, imaginary, error) = self.quotient;
        if real.hypot(imaginary) + error > 0.5 || error.is_nan() {
            return direct;
        }
        let near = self.near.point();
        let (sine, cosine) = imaginary.sin_cos();
        let versine = 2.0 * (0.5 * imaginary).sin().powi(2);
        let change = (real.exp_m1() * cosine - versine, real.exp() * sine);
        let size = change.0.hypot(change.1);
        let modulus = near.modulus * size;
        let accurate = ContourPoint {
            modulus,
            phase: near.phase + change.1.atan2(change.0),
            error: near.error * size
                + (near.modulus + near.error) * real.exp() * error.exp_m1()
                + 8.0 * f64::EPSILON * modulus,
        };
        if accurate.error < direct.error {
            accurate
        } else {
            direct
        }
    }
}

/// log of the bound on the transform of the runs with a far step, over e^{A(c)}; where a decay is `wanted`, with the
/// best choice of what shows it, which is left in `split`.
fn decay(split: &mut [Split<'_>], y: f64, wanted: Option<f64>) -> f64 {
    let mut total = LogSum::default();
    for part in split {
        let log_steps = part.steps.ln() + part.log_share.0 + part.log_share.1;
        let decay = match wanted {
            Some(wanted) => part.far.best_log_decay(y, wanted + log_steps + 0.5),
            None => part.far.log_decay(y),
        };
        total.add(log_steps + decay);
    }
    total.ln()
}

/// The runs with a far step, tilted by c: rough figures, which decide how narrow the answer is and not whether it is
/// true.
struct Runs {
    c: f64,
    /// Mean loss of these runs.
    mean: f64,
    /// Approximate log δ, if c is the saddle point.
    log_delta: f64,
}

impl Runs {
    fn at(segments: &mut [Segment], gates: &[Separation], c: f64, epsilon: f64, work: &mut u64) -> Option<Self> {
        const ROUGH: f64 = -12.0;
        let (mut log_moment, mut log_near) = (0.0, 0.0);
        let (mut mean, mut variance) = (0.0, 0.0);
        let (mut near_mean, mut near_variance) = (0.0, 0.0);
        for (segment, gate) in segments.iter_mut().zip(gates) {
            let steps = segment.steps;
            let mut far = segment.loss.far_part(*gate)?;
            let split = Split::new(segment, &mut far, c, ROUGH - steps.ln())?;
            let (whole, far_moments) = (split.whole.moments(), split.far.moments());
            let share = split.log_share.0.exp().min(1.0 - 1e-9);
            drop(split);
            *work += far.work();
            // Moments of the near part of a step: φ = N + H.
            let square = |of: TiltedMoments| of.variance + of.mean * of.mean;
            let one = (whole.mean - share * far_moments.mean) / (1.0 - share);
            let two = (square(whole) - share * square(far_moments)) / (1.0 - share);
            log_moment += steps * whole.log_moment;
            log_near += steps * (-share).ln_1p();
            mean += steps * whole.mean;
            variance += steps * whole.variance;
            near_mean += steps * one;
            near_variance += steps * (two - one * one).max(0.0);
        }
        let near = log_near.exp();
        let share = -log_near.exp_m1();
        let runs_mean = (mean - near * near_mean) / share;
        let square = variance + mean * mean - near * (near_variance + near_mean * near_mean);
        let runs_variance = (square / share - runs_mean * runs_mean).max(0.0);
        let curvature = runs_variance + c.powi(-2) + (c + 1.0).powi(-2);
        let found = Self {
            c,
            mean: runs_mean,
            log_delta: log_moment + share.ln()
                - c * epsilon
                - (c * (c + 1.0)).ln()
                - 0.5 * (2.0 * PI * curvature).ln(),
        };
        found.log_delta.is_finite().then_some(found)
    }

    /// How far the mean is above that of a saddle point.
    fn excess(&self, epsilon: f64) -> f64 {
        self.mean - epsilon - 1.0 / self.c - 1.0 / (self.c + 1.0)
    }

    /// A saddle point between two tilts, by regula falsi in log c.
    fn between(
        segments: &mut [Segment],
        gates: &[Separation],
        (mut below, mut above): (Self, Self),
        epsilon: f64,
        work: &mut u64,
    ) -> Option<Self> {
        for _ in 0..3 {
            let (high, low) = (above.excess(epsilon), below.excess(epsilon));
            let c = below.c * (above.c / below.c).powf((-low / (high - low)).clamp(0.2, 0.8));
            let middle = Self::at(segments, gates, c, epsilon, work)?;
            if middle.excess(epsilon) > 0.0 {
                above = middle;
            } else {
                below = middle;
            }
        }
        Some(below)
    }

    /// At the saddle point of these runs, which is at or below that of the whole law.
    fn saddle(
        segments: &mut [Segment],
        gates: &[Separation],
        c: f64,
        epsilon: f64,
        work: &mut u64,
    ) -> Option<Self> {
        const FACTOR: f64 = 0.6;
        let mut above = Self::at(segments, gates, c, epsilon, work)?;
        for _ in 0..14 {
            if above.excess(epsilon) <= 0.0 {
                return Some(above);
            }
            let below = Self::at(segments, gates, FACTOR * above.c, epsilon, work)?;
            if below.excess(epsilon) < 0.0 {
                return Self::between(segments, gates, (below, above), epsilon, work);
            }
            above = below;
        }
        Some(above)
    }
}

impl Near {
    /// What is left out at `gates`; `None` if that is more than e^`allowed` of δ.
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
        let mut least = f64::INFINITY;
        for factor in STEEPER {
            let c = -factor * allowed / epsilon;
            if c > STEEPEST {
                break;
            }
            let of =
                |(part, steps): &mut (StepLoss, f64)| *steps * part.moments(c, NEAR_TOLERANCE).log_moment_upper();
            let log_moment: f64 = near.iter_mut().map(of).sum();
            let bound = log_moment - c * epsilon;
            if !bound.is_finite() || bound > least {
                break;
            }
            least = bound;
            left_out.push((c, log_moment));
            if bound <= allowed {
                break;
            }
        }
        *work += near.iter().map(|(part, _)| part.work()).sum::<u64>();
        (least <= allowed).then_some(Self { gates, left_out })
    }
}

impl<'a> Split<'a> {
    fn new(segment: &'a mut Segment, far: &'a mut StepLoss, c: f64, tolerance: f64) -> Option<Self> {
        let mut split = Self {
            steps: segment.steps,
            whole: segment.loss.tilted(c, tolerance),
            far: far.tilted(c, tolerance),
            log_share: (0.0, 0.0),
        };
        split.set_share();
        split.log_share.0.is_finite().then_some(split)
    }

    fn set_share(&mut self) {
        let (far, whole) = (self.far.moments(), self.whole.moments());
        self.log_share = (
            far.log_moment - whole.log_moment,
            far.log_moment_error + whole.log_moment_error,
        );
    }

    /// Standard deviation of the far loss.
    fn far_spread(&self) -> f64 {
        self.far.moments().variance.sqrt()
    }

    /// Nodes, for the cost of a point.
    fn size(&self) -> usize {
        self.whole.size() + self.far.size()
    }

    /// Nodes for every y up to `reach`.
    fn certify(&mut self, reach: f64) -> Option<()> {
        const MOST_ERROR: f64 = 1e-3;
        self.whole.certify(reach);
        self.far.certify(reach);
        if self.whole.quadrature_error() > MOST_ERROR || self.far.quadrature_error() > MOST_ERROR {
            return None;
        }
        self.set_share();
        Some(())
    }
}
