//! Where the gates are placed that split a run by its largest loss.
//!
//! The lowest gate leaves out the runs whose losses are all below it: it is the highest one for which that is negligible. The others
//! follow at losses four times as large each, until losses beyond are negligible too.

use crate::inversion::chernoff::MomentBound;
use crate::inversion::segment::Segment;
use crate::inversion::split::near::near_parts;
use crate::loss::gate::{Gate, MIN_DISTANCE, Separation};
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;

/// Losses of the lowest gate that are tried, as fractions of the way from the common loss to ε, descending.
const GATE_FRACTIONS: [f64; 19] = [
    0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.09, 0.06, 0.04, 0.025, 0.015, 0.01, 6e-3, 4e-3, 2.5e-3, 1.5e-3,
    1e-3,
];
/// The fraction below which losses are small where their runs are inverted too: low enough for their sums to have a light tail. At 0.1
/// and 0.04 some of them are not, and their contours lose the digits that are asked for.
const SMALL_FRACTION: f64 = 0.02;
/// The fraction at which δ is estimated.
const TYPICAL_FRACTION: f64 = 0.5;
/// Width of a gate over the way to it, in losses: narrower ones leave out less, wider ones decay faster.
const SHARPNESS: f64 = 0.12;
/// Outputs far above a gate are cut off where the normal edge of the gate is e^−40 of the error that is allowed.
const EDGE: f64 = 40.0;
/// Quotient of the losses of two gates. At 2 there are twice as many contours, at 8 each has three times as many points.
const LOSS_RATIO: f64 = 4.0;
/// Gates at most.
pub(super) const MAX_GATES: usize = 12;
/// How many times narrower than it would be by itself the lowest gate may become for the sake of higher ones.
const MAX_NARROWING: f64 = 3.0;
/// Sum of the common losses, about the log of the probability that all steps have theirs, below which gates are placed as if it were 0.
const LEAST_COMMON: f64 = -30.0;
/// Tilts at which the part that is left out is bounded, over the smallest at which the bound could suffice.
const STEEPER: [f64; 5] = [1.02, 1.2, 1.5, 2.0, 3.0];
/// log of what quadrature may leave out of the moments of the near parts.
pub(super) const NEAR_TOLERANCE: f64 = -20.0;
/// The largest such tilt, whose square is still finite. Only an ε next to the sum of the common losses would need a larger one;
/// another route serves it.
const STEEPEST: f64 = 1e150;

/// A way from the common losses to ε so short that it is rounding: gates on it would have no width.
const LEAST_WAY: f64 = 1e-12;

/// What becomes of the runs whose losses are all below the lowest gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lowest {
    /// They are left out, and the gates are placed so that this is negligible.
    LeftOut,
    /// They are inverted like those between two gates, and the gates are at [`SMALL_FRACTION`].
    Inverted,
}

/// Gates of all segments, from the lowest.
pub(super) struct Ladder {
    /// What becomes of the runs below the lowest gates.
    pub(super) lowest: Lowest,
    /// The gates of each segment at each rung.
    pub(super) gates: Vec<Vec<Separation>>,
    /// Losses of the rungs, less the common loss.
    pub(super) losses: Vec<f64>,
    /// Moments of the runs below the lowest gates, if they are left out.
    pub(super) left_out: Vec<MomentBound>,
    /// Whether runs beyond the highest gates are negligible.
    pub(super) is_closed: bool,
    /// How far above a gate, in its widths, outputs belong to the losses below it.
    pub(super) reach: f64,
    /// log of a bound on the probability of all runs with an output beyond that, and of those beyond the highest gates if they are
    /// negligible.
    pub(super) log_neglected: f64,
}

/// The common losses of segments, and how far their sum is from ε.
struct Way {
    common: Vec<f64>,
    length: f64,
}

impl Way {
    /// The way from the sum of the common losses.
    fn from_common(segments: &[Segment], epsilon: f64) -> Option<Self> {
        let common: Vec<f64> = segments
            .iter()
            .map(|segment| segment.loss.common_loss())
            .collect::<Option<_>>()?;
        let sum: f64 = common.iter().zip(segments).map(|(loss, s)| loss * s.steps).sum();
        Some(Self {
            common,
            length: epsilon - sum,
        })
    }

    /// The way that gates are placed on. Where all steps hardly ever have the common loss, small losses of many of them make up for its sum, and on average add
    /// up to next to 0.
    fn new(segments: &[Segment], epsilon: f64) -> Option<Self> {
        let way = Self::from_common(segments, epsilon)?;
        Some(if epsilon - way.length > LEAST_COMMON {
            way
        } else {
            Self { length: epsilon, ..way }
        })
    }

    /// The gates at this fraction of the way; `None` where a segment has no such losses, or the common losses reach ε.
    fn gates(&self, segments: &[Segment], fraction: f64) -> Option<Vec<Separation>> {
        if self.length <= LEAST_WAY {
            return None;
        }
        let way = fraction * self.length;
        let both = segments.iter().zip(&self.common);
        both.map(|(segment, loss)| segment.loss.separation(loss + way, SHARPNESS * way))
            .collect()
    }

    /// The highest lowest gates below which all runs may be left out, with their fraction of the way and the bounds on what is left out;
    /// `None` where even the lowest ones leave out more than e^`allowed` of δ at `epsilon`.
    fn highest_negligible(
        &self,
        segments: &[Segment],
        (epsilon, allowed): (f64, f64),
        reach: f64,
        work: &mut u64,
    ) -> Option<(f64, Vec<Separation>, Vec<MomentBound>)> {
        let mut lowest = |fraction: f64| {
            let gates = self.gates(segments, fraction)?;
            let left_out = left_out((segments, &gates, reach), (epsilon, self.length), allowed, work)?;
            Some((fraction, gates, left_out))
        };
        let (mut low, mut high) = (0, GATE_FRACTIONS.len());
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            match lowest(GATE_FRACTIONS[middle]) {
                Some(here) => (found, high) = (Some(here), middle),
                None => low = middle + 1,
            }
        }
        found
    }
}

/// Gates at which δ can be estimated; `None` where there is no common loss.
pub(super) fn typical_gates(segments: &[Segment], epsilon: f64) -> Option<Vec<Separation>> {
    Way::new(segments, epsilon)?.gates(segments, TYPICAL_FRACTION)
}

/// The losses below typical gates, of all steps together.
pub(super) struct NearLosses {
    /// log of the probability that every step has one.
    pub(super) log_mass: f64,
    /// Their standard deviation, over the way from the common loss to ε.
    pub(super) spread: f64,
}

/// Estimates of the near losses; `None` where there is no common loss.
pub(super) fn near_losses(segments: &[Segment], epsilon: f64) -> Option<NearLosses> {
    let way = Way::from_common(segments, epsilon)?;
    let near = near_parts(segments, &way.gates(segments, TYPICAL_FRACTION)?, f64::INFINITY)?;
    let (mut log_mass, mut variance) = (0.0, 0.0);
    for mut segment in near {
        let moments = segment.loss.moments(0.0, NEAR_TOLERANCE);
        log_mass += segment.steps * moments.log_moment.value;
        variance += segment.steps * moments.variance;
    }
    Some(NearLosses {
        log_mass,
        spread: variance.sqrt() / way.length,
    })
}

impl Ladder {
    /// At most `max_gates` gates for a δ at `epsilon` of which e^`allowed` may be left out; `None` where even the lowest gate leaves out
    /// more.
    pub(super) fn new(
        segments: &[Segment],
        (epsilon, allowed): (f64, f64),
        runs_below: Lowest,
        max_gates: usize,
        work: &mut u64,
    ) -> Option<Self> {
        let way = Way::new(segments, epsilon)?;
        // An edge so far out is below all errors even where the tilt favours it.
        let reach = (2.0 * (EDGE - allowed)).sqrt();
        let found = match runs_below {
            Lowest::LeftOut => way.highest_negligible(segments, (epsilon, allowed), reach, work),
            Lowest::Inverted => Some((SMALL_FRACTION, way.gates(segments, SMALL_FRACTION)?, Vec::new())),
        };
        let (mut fraction, gates, left_out) = found?;
        let mut ladder = Self {
            lowest: runs_below,
            gates: vec![gates],
            losses: vec![fraction * way.length],
            left_out,
            is_closed: false,
            reach,
            log_neglected: f64::NEG_INFINITY,
        };
        let mut neglected = LogSum::default();
        while ladder.gates.len() < max_gates && !ladder.is_closed {
            fraction *= LOSS_RATIO;
            let Some(mut gates) = way.gates(segments, fraction) else {
                break;
            };
            if ladder.add(&mut gates).is_none() {
                break;
            }
            let log_mass = log_mass_above(segments, &gates);
            ladder.gates.push(gates);
            ladder.losses.push(fraction * way.length);
            if log_mass < allowed {
                ladder.is_closed = true;
                neglected.add(log_mass);
            }
        }
        let steps: f64 = segments.iter().map(|segment| segment.steps).sum();
        neglected.add((steps * ladder.gates.len() as f64).ln() + log_upper_tail(reach));
        ladder.log_neglected = neglected.ln() + 4.0 * f64::EPSILON * (1.0 + allowed.abs());
        if runs_below == Lowest::LeftOut {
            let lowest = (segments, &*ladder.gates[0], reach);
            ladder.left_out = self::left_out(lowest, (epsilon, way.length), allowed, work)?;
        }
        Some(ladder)
    }

    /// Gives the gates of a new rung and those of the ladder one width; `None` where they would be too close to each other.
    fn add(&mut self, gates: &mut [Separation]) -> Option<()> {
        for (i, separation) in gates.iter_mut().enumerate() {
            let new = separation.gate()?;
            let last = self.gates.last()?[i].gate()?;
            let width = new
                .width
                .min(last.width)
                .max(self.gates[0][i].gate()?.width / MAX_NARROWING);
            if new.from < last.from + MIN_DISTANCE * last.width {
                return None;
            }
            *separation = Separation::Gate(Gate::above(new.from, width));
            for rung in &mut self.gates {
                rung[i] = Separation::Gate(Gate::above(rung[i].gate()?.from, width));
            }
        }
        Some(())
    }
}

/// log of a bound on the probability of a loss above gates in any step.
fn log_mass_above(segments: &[Segment], gates: &[Separation]) -> f64 {
    let mut total = LogSum::default();
    for (segment, gate) in segments.iter().zip(gates) {
        let far = segment.loss.far_part(*gate);
        let mass = far.map_or(0.0, |mut far| far.moments(0.0, NEAR_TOLERANCE).log_moment.upper());
        total.add(segment.steps.ln() + mass);
    }
    total.ln()
}

/// Bounds on what is left out below `gates`, and at most `reach` widths above them, `way` being how far the common losses are from ε;
/// `None` if they are above e^`allowed` of δ.
pub(super) fn left_out(
    (segments, gates, reach): (&[Segment], &[Separation], f64),
    (epsilon, way): (f64, f64),
    allowed: f64,
    work: &mut u64,
) -> Option<Vec<MomentBound>> {
    if way <= 0.0 {
        return None;
    }
    let mut near = near_parts(segments, gates, reach)?;
    let mut left_out = Vec::new();
    let mut smallest = f64::INFINITY;
    for factor in STEEPER {
        let c = -factor * allowed / way;
        if c > STEEPEST {
            break;
        }
        let of =
            |segment: &mut Segment| segment.steps * segment.loss.moments(c, NEAR_TOLERANCE).log_moment.upper();
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
    *work += near.iter().map(|part| part.loss.work()).sum::<u64>();
    (smallest <= allowed).then_some(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::StepLoss;
    use crate::step::{Direction, GroupLaw};

    /// The probability of a loss above a gate in some of T steps is 1 − (1 − m)^T, of which T·m is a good bound.
    #[test]
    fn the_probability_of_a_loss_above_the_gates_is_bounded_and_nearly_attained() {
        let law = GroupLaw::binomial(1, 1e-3).unwrap();
        for (steps, level) in [(1.0, 1.0), (50.0, 2.0), (300.0, 0.5)] {
            let loss = StepLoss::mixture(&law, 0.7, Direction::Remove).unwrap().unwrap();
            let gate = loss.separation(level, 0.1 * level).unwrap();
            let mass = loss.far_part(gate).unwrap().moments(0.0, -40.0).log_moment.value.exp();
            let exact = (-(steps * (-mass).ln_1p()).exp_m1()).ln();
            let bound = log_mass_above(&[Segment { loss, steps }], &[gate]);
            assert!(
                exact <= bound + 1e-9 && bound < exact + 0.5,
                "{steps} {level}: {exact} {bound}"
            );
        }
    }

    /// With one gate all that is neglected are outputs beyond the reach of the gate's edge, one normal tail in each of T steps.
    #[test]
    fn outputs_beyond_the_reach_of_a_gate_are_neglected_in_every_step() {
        let law = GroupLaw::binomial(1, 1e-3).unwrap();
        for (steps, allowed) in [(1.0f64, -20.0), (400.0, -30.0)] {
            let loss = StepLoss::mixture(&law, 0.7, Direction::Remove).unwrap().unwrap();
            let segments = [Segment { loss, steps }];
            let ladder = Ladder::new(&segments, (2.0, allowed), Lowest::Inverted, 1, &mut 0).unwrap();
            assert!(ladder.gates.len() == 1 && !ladder.is_closed);
            let exact = steps.ln() + log_upper_tail(ladder.reach);
            let found = ladder.log_neglected;
            assert!(exact <= found && found < exact + 1e-9, "{steps}: {exact} {found}");
            // The edge is e^−40 below what is allowed.
            let density = -0.5 * ladder.reach.powi(2);
            assert!((density - (allowed - EDGE)).abs() < 1e-9, "{density}");
        }
    }

    /// Where the common losses reach ε there is no way to place gates on.
    #[test]
    fn there_are_gates_between_the_common_losses_and_epsilon_only() {
        let law = GroupLaw::binomial(1, 1e-3).unwrap();
        let loss = StepLoss::mixture(&law, 0.7, Direction::Remove).unwrap().unwrap();
        let common = 100.0 * loss.common_loss().unwrap();
        let segments = [Segment { loss, steps: 100.0 }];
        assert!(near_losses(&segments, common + 0.1).is_some());
        for epsilon in [common, common + 1e-16, common - 0.1] {
            assert!(near_losses(&segments, epsilon).is_none(), "{epsilon}");
        }
    }
}
