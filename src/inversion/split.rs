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

use crate::inversion::characteristic_function::smooth_changes;
use crate::inversion::contour::{Contour, Line, best_lifts, find_reach};
use crate::inversion::segment::{Segment, Total};
use crate::inversion::split::difference::Powers;
use crate::inversion::split::far_runs::FarRuns;
use crate::inversion::tilt::Tilt;
use crate::loss::StepLoss;
use crate::loss::gate::Gate;
use crate::loss::gaussian::{GaussianLoss, TiltedGaussians};
use crate::loss::smooth::{Nodes, SmoothLoss};
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
/// The largest such tilt, whose square is still finite. Only an ε next to zero would need a larger one; another route
/// serves it.
const STEEPEST: f64 = 1e150;

/// One segment's loss, tilted and split.
struct Split<'a> {
    steps: f64,
    whole: Whole<'a>,
    far: Far,
    /// log of the far fraction H(c)/φ(c), and a bound on its error.
    log_fraction: (f64, f64),
    /// log of the part that quadrature may leave out.
    tolerance: f64,
}

enum Whole<'a> {
    Smooth(&'a mut SmoothLoss, Box<Nodes>),
    Gaussian(TiltedGaussians),
}

enum Far {
    Smooth(Box<SmoothLoss>, Box<Nodes>, Vec<f64>),
    Gaussian(TiltedGaussians),
}

/// The near parts of all segments at one choice of gates.
struct Near {
    gates: Vec<Option<Gate>>,
    /// (c', A_N(c')).
    left_out: Vec<(f64, f64)>,
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
        common.push(common_loss(&segment.loss)?);
    }
    let sum: f64 = common.iter().zip(segments.iter()).map(|(loss, s)| loss * s.steps).sum();
    let gates = |segments: &[Segment], fraction: f64| -> Option<Vec<Option<Gate>>> {
        let way = fraction * (epsilon - sum);
        let both = segments.iter().zip(&common);
        both.map(|(segment, loss)| gate(&segment.loss, loss + way, SHARPNESS * way))
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
        let log_moment = Total::at(segments, c)?.log_moment;
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

/// Parts of all segments at a tilt, not yet certified for any y.
fn parts<'a>(segments: &'a mut [Segment], near: &Near, tilt: &Tilt) -> Option<Vec<Split<'a>>> {
    let count = segments.len() as f64;
    let both = segments.iter_mut().zip(&near.gates);
    both.map(|(segment, gate)| {
        let tolerance = -tilt.level - segment.steps.ln() - count.ln() - 1.0;
        Split::new(&mut segment.loss, segment.steps, *gate, tilt.c, tolerance)
    })
    .collect()
}

/// Where the transform at a tilt has decayed, and how many products of nodes in x and y that may take.
fn reach(segments: &mut [Segment], near: &Near, tilt: &Tilt, most_products: f64) -> Option<(f64, f64)> {
    let mut split = parts(segments, near, tilt)?;
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
    let mut split = parts(segments, near, tilt)?;
    decay(&mut split, reach, Some(level - (PI * reach).ln())); // leaves the imaginary shifts in `split`
    for part in &mut split {
        part.certify(c, reach)?;
    }
    let last = (reach / spacing).ceil().max(2.0);
    let size: usize = split.iter().map(Split::size).sum();
    if last * size as f64 > 2.0 * most_products {
        return None;
    }
    let decayed = decay(&mut split, reach, None).exp();

    *work += split.iter().map(|part| part.far.work()).sum::<u64>();
    let last = last as usize;
    let mut powers = vec![Powers::default(); last + 1];
    let (mut log_moment, mut log_moment_error) = (0.0, 0.0);
    for part in &split {
        let (value, error) = part.whole.log_moment();
        log_moment += part.steps * value;
        log_moment_error += part.steps * (error + f64::EPSILON * value.abs());
        let (fraction, fraction_error) = (part.log_fraction.0.exp(), part.log_fraction.1.exp_m1());
        let both = part.whole.changes(spacing, last).into_iter();
        for (power, (whole, far)) in powers.iter_mut().zip(both.zip(part.far.changes(spacing, last))) {
            let far = (fraction * (1.0 + far.0), fraction * far.1, fraction * far.2);
            let rounding = (fraction_error + 4.0 * f64::EPSILON) * far.0.hypot(far.1);
            power.multiply(whole, (far.0, far.1, far.2 + rounding), part.steps);
        }
    }
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

/// log of the bound on the transform of the runs with a far step, over e^{A(c)}; where a decay is `wanted`, with the
/// imaginary shifts that give the best bound, which are left in `split`.
fn decay(split: &mut [Split<'_>], y: f64, wanted: Option<f64>) -> f64 {
    let mut total = LogSum::default();
    for part in split {
        let log_steps = part.steps.ln() + part.log_fraction.0 + part.log_fraction.1;
        let decay = match &mut part.far {
            Far::Smooth(loss, nodes, lifts) => match wanted {
                Some(wanted) => best_lifts(loss, nodes, lifts, y, wanted + log_steps + 0.5),
                None => loss.log_decay(nodes, y, lifts),
            },
            Far::Gaussian(law) => law.log_decay(y),
        };
        total.add(log_steps + decay);
    }
    total.ln()
}

impl Near {
    /// Bounds on what is left out at `gates`; `None` if they are above e^`allowed` of δ.
    fn new(
        segments: &[Segment],
        gates: Vec<Option<Gate>>,
        epsilon: f64,
        allowed: f64,
        work: &mut u64,
    ) -> Option<Self> {
        if epsilon <= 0.0 {
            return None;
        }
        let mut near: Vec<(NearPart, f64)> = segments
            .iter()
            .zip(&gates)
            .map(|(segment, gate)| (NearPart::new(&segment.loss, *gate), segment.steps))
            .collect();
        let mut left_out = Vec::new();
        let mut smallest = f64::INFINITY;
        for factor in STEEPER {
            let c = -factor * allowed / epsilon;
            if c > STEEPEST {
                break;
            }
            let of = |(part, steps): &mut (NearPart, f64)| *steps * part.log_moment(c);
            let log_moment: f64 = near.iter_mut().map(of).sum();
            let bound = log_moment - c * epsilon;
            if !bound.is_finite() || bound > smallest {
                break;
            }
            smallest = bound;
            left_out.push((c, log_moment));
            if bound <= allowed {
                break;
            }
        }
        *work += near.iter().map(|(part, _)| part.work()).sum::<u64>();
        (smallest <= allowed).then_some(Self { gates, left_out })
    }
}

/// The loss of a step with nobody of the group in the batch; `None` if there is no such thing.
fn common_loss(loss: &StepLoss) -> Option<f64> {
    match loss {
        StepLoss::Smooth(smooth) => smooth.usual_loss(),
        StepLoss::Gaussian(gaussian) => gaussian.split().map(|_| 0.0),
        StepLoss::Laplace(_) | StepLoss::Atoms(_) => None,
    }
}

/// The gate at a loss; none is needed where the near part is an atom.
fn gate(loss: &StepLoss, level: f64, width: f64) -> Option<Option<Gate>> {
    match loss {
        StepLoss::Smooth(smooth) => smooth.gate(level, width).map(Some),
        _ => Some(None),
    }
}

/// The near part of one loss.
enum NearPart {
    Smooth(Box<SmoothLoss>),
    Atom(f64),
}

impl NearPart {
    fn new(loss: &StepLoss, gate: Option<Gate>) -> Self {
        match (loss, gate) {
            (StepLoss::Smooth(smooth), Some(gate)) => {
                Self::Smooth(Box::new(smooth.side(Gate { open: false, ..gate })))
            }
            (StepLoss::Gaussian(gaussian), _) => Self::Atom(gaussian.split().map_or(f64::NAN, |(_, log)| log)),
            _ => Self::Atom(f64::NAN),
        }
    }

    /// Upper bound on log N(c').
    fn log_moment(&mut self, c: f64) -> f64 {
        match self {
            Self::Smooth(loss) => {
                let none = vec![0.0; loss.pieces().len()];
                let nodes = loss.nodes(c, 0.0, &none, -20.0);
                nodes.log_moment + nodes.log_moment_error
            }
            Self::Atom(log_mass) => *log_mass,
        }
    }
}

impl NearPart {
    fn work(&self) -> u64 {
        match self {
            Self::Smooth(loss) => loss.work(),
            Self::Atom(_) => 0,
        }
    }
}

impl<'a> Split<'a> {
    fn new(loss: &'a mut StepLoss, steps: f64, gate: Option<Gate>, c: f64, tolerance: f64) -> Option<Self> {
        let (whole, far) = match (loss, gate) {
            (StepLoss::Smooth(smooth), Some(gate)) => {
                let mut far = smooth.side(Gate { open: true, ..gate });
                let none = vec![0.0; smooth.pieces().len()];
                let nodes = smooth.nodes(c, 0.0, &none, tolerance);
                let far_nodes = far.nodes(c, 0.0, &[0.0], tolerance);
                (
                    Whole::Smooth(smooth, Box::new(nodes)),
                    Far::Smooth(Box::new(far), Box::new(far_nodes), vec![0.0]),
                )
            }
            (StepLoss::Gaussian(gaussian), _) => {
                let (moving, _): (GaussianLoss, f64) = gaussian.split()?;
                (Whole::Gaussian(gaussian.tilted(c)), Far::Gaussian(moving.tilted(c)))
            }
            _ => return None,
        };
        let mut split = Self {
            steps,
            whole,
            far,
            log_fraction: (0.0, 0.0),
            tolerance,
        };
        split.set_fraction();
        split.log_fraction.0.is_finite().then_some(split)
    }

    fn set_fraction(&mut self) {
        let (far, far_error) = self.far.log_moment();
        let (whole, error) = self.whole.log_moment();
        self.log_fraction = (far - whole, far_error + error);
    }

    /// Standard deviation of the far loss.
    fn far_spread(&self) -> f64 {
        self.far.mean_and_variance().1.sqrt()
    }

    /// Nodes, for the cost of a point.
    fn size(&self) -> usize {
        match (&self.whole, &self.far) {
            (Whole::Smooth(_, whole), Far::Smooth(_, far, _)) => whole.losses.len() + far.losses.len(),
            _ => 16,
        }
    }

    /// Nodes for every y up to `reach`.
    fn certify(&mut self, c: f64, reach: f64) -> Option<()> {
        const MOST_ERROR: f64 = 1e-3;
        if let (Whole::Smooth(loss, nodes), Far::Smooth(far, far_nodes, lifts)) = (&mut self.whole, &mut self.far)
        {
            let none = vec![0.0; loss.pieces().len()];
            **nodes = loss.nodes(c, reach, &none, self.tolerance);
            **far_nodes = far.nodes(c, reach, lifts, self.tolerance);
            if nodes.error > MOST_ERROR || far_nodes.error > MOST_ERROR {
                return None;
            }
        }
        self.set_fraction();
        Some(())
    }
}

impl Whole<'_> {
    fn mean_and_variance(&self) -> (f64, f64) {
        match self {
            Self::Smooth(_, nodes) => (nodes.mean, nodes.variance),
            Self::Gaussian(law) => law.mean_and_variance(),
        }
    }

    fn log_moment(&self) -> (f64, f64) {
        match self {
            Self::Smooth(_, nodes) => (nodes.log_moment, nodes.log_moment_error),
            Self::Gaussian(law) => (law.log_moment, law.log_moment_error),
        }
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<(f64, f64, f64)> {
        match self {
            Self::Smooth(_, nodes) => smooth_changes(nodes, spacing, last),
            Self::Gaussian(law) => (0..=last).map(|j| law.change(j as f64 * spacing)).collect(),
        }
    }
}

impl Far {
    fn work(&self) -> u64 {
        match self {
            Self::Smooth(loss, ..) => loss.work(),
            Self::Gaussian(_) => 0,
        }
    }

    fn mean_and_variance(&self) -> (f64, f64) {
        match self {
            Self::Smooth(_, nodes, _) => (nodes.mean, nodes.variance),
            Self::Gaussian(law) => law.mean_and_variance(),
        }
    }

    fn log_moment(&self) -> (f64, f64) {
        match self {
            Self::Smooth(_, nodes, _) => (nodes.log_moment, nodes.log_moment_error),
            Self::Gaussian(law) => (law.log_moment, law.log_moment_error),
        }
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<(f64, f64, f64)> {
        match self {
            Self::Smooth(_, nodes, _) => smooth_changes(nodes, spacing, last),
            Self::Gaussian(law) => (0..=last).map(|j| law.change(j as f64 * spacing)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
