//! A smooth loss split by its large likelihood ratios.
//!
//! A run at a small δ reaches ε in two ways: by many steps with a moderate loss, or by one with a large loss. No tilt serves both, as the one that the first asks for makes nearly all of a
//! moment of single large losses. The loss grows with the output x, so that gates at increasing outputs ([`Gate`]) split a step into the outputs without a large ratio, those with one in a
//! range, and those beyond all ranges (`docs/theory/split-inversion.md`, Theorem 6). Let y = x + width·Z be what a gate sees. P has it above an output with the probability of its Gaussians
//! with a variance that is larger by that of the gate.

use crate::loss::gate::{Gate, MIN_DISTANCE};
use crate::loss::privacy_loss::{LossByRatio, ManyRatios, PrivacyLoss, RatioRange, RatioSplit, StepLoss};
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_piece::{Piece, Scratch};
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;
use crate::special::root::bisect;
use std::convert::Infallible;

/// Width of the gates, in σ. With half of it 12 of 300 random runs at δ between 1e-100 and 1e-15 had an ε wider than 1e-6, and with this one 9.
const WIDTH: f64 = 0.125;
/// Length of the ranges, in σ, about. With 0.75 17 of these runs had an ε wider than 1e-6, and with 2 eight.
const LENGTH: f64 = 2.0;
/// Least −log of what may be left out of δ for which a loss is split: where more may be, at a δ above about 1e-17, other routes are faster.
const LEAST_LEVEL: f64 = 60.0;
/// Standard deviations beyond the outermost centre, and widths above a gate, that are searched: P has e^-1800 beyond.
const REACH: f64 = 60.0;
/// Halvings of the interval in which an output is found, and the part of σ or of the width of a gate at which they end: where gates are need not be exact.
const HALVINGS: usize = 60;
const ACCURACY: f64 = 1e-3;
/// Tolerance of moments.
const LOG_TOLERANCE: f64 = -30.0;
/// Room for the errors of the tails, which are below 1e-11.
const ROOM: f64 = 1e-9;
/// By how much of themselves outputs are moved outwards that were divided by σ and are multiplied by it again.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// The outputs of a step without large ratios, and those with one in a range.
struct Split {
    none: SmoothLoss,
    one: Vec<(SmoothLoss, RatioRange)>,
    many: OneOutput,
    log_some: f64,
    log_beyond: f64,
}

/// The loss split by large ratios, or as it is where that is of no use.
pub(super) fn by_large_ratio(loss: &SmoothLoss, split: &RatioSplit) -> LossByRatio {
    let Some(found) = split_at_gates(loss, split) else {
        return LossByRatio::without_large(loss, split);
    };
    let one = found.one.into_iter();
    LossByRatio {
        none: StepLoss::new(found.none),
        one: one.map(|(loss, range)| (StepLoss::new(loss), range)).collect(),
        many: Some(Box::new(found.many)),
        log_some: found.log_some,
        log_beyond: found.log_beyond,
    }
}

/// The parts of the loss; `None` where P is the noise alone, whose losses are bounded, where a large loss is no larger than those of a run, and where δ is not small.
fn split_at_gates(loss: &SmoothLoss, split: &RatioSplit) -> Option<Split> {
    let piece = loss.pieces.first().filter(|piece| piece.in_p && piece.gate.is_none())?;
    let (sigma, width) = (piece.noise_multiplier(), gate_width(piece));
    let (start, end) = (
        output_with(piece, split.log_mass),
        output_with(piece, split.log_mass_beyond),
    );
    let is_small = split.log_mass_beyond + split.steps.ln() <= -LEAST_LEVEL;
    if !is_small || end - start < MIN_DISTANCE * width {
        return None;
    }
    let count = ((end - start) / (LENGTH * sigma)).round().max(1.0);
    let log_lacking_each = split.log_mass_beyond - (count + 1.0).ln();
    let mut log_beyond = LogSum::default();
    log_beyond.add(log_mass_above(piece, end));
    let mut cut_above = |to: f64| {
        let (end, log_lacking) = cut(piece, to, log_lacking_each);
        log_beyond.add(log_lacking);
        end
    };
    let mut none = part(loss, Gate::above(start, width).below(), cut_above(start))?;
    let mut scratch = Scratch::default();
    let deviation = (split.steps * none.moments(0.0, LOG_TOLERANCE).variance).sqrt();
    if piece.point(end, &mut scratch).loss <= deviation {
        return None; // a ratio whose loss is below that matters for none of the outputs of a run that are rare
    }
    let output = |i: usize| start + (end - start) * i as f64 / count;
    let (mut one, mut cuts) = (Vec::new(), Vec::new());
    for i in 0..count as usize {
        let (from, to) = (output(i), output(i + 1));
        let cut = cut_above(to);
        let range = RatioRange {
            lowest: piece.point(from, &mut scratch).loss,
            log_mass: log_mass_above(piece, from),
            part: 0,
            ends: (from / sigma, to / sigma),
        };
        one.push((part(loss, Gate { from, to, width }, cut)?, range));
        cuts.push((from, cut));
    }
    let piece = piece.clone();
    Some(Split {
        none,
        one,
        log_some: log_mass_above(&piece, start),
        log_beyond: log_beyond.ln() + ROOM,
        many: OneOutput { piece, cuts },
    })
}

fn gate_width(piece: &Piece) -> f64 {
    WIDTH * piece.noise_multiplier()
}

/// log of a bound on the probability under P that y is above an output.
fn log_mass_above(piece: &Piece, output: f64) -> f64 {
    piece
        .tails_with(output, piece.noise_multiplier() * WIDTH.hypot(1.0))
        .0
        .value
        + ROOM
}

/// The output above which P has y with a probability of at most e^`log_mass`.
fn output_with(piece: &Piece, log_mass: f64) -> f64 {
    let sigma = piece.noise_multiplier();
    let range = (piece.start.max(-REACH * sigma), piece.largest_shift() + REACH * sigma);
    let is_light = |x: f64| Ok::<_, Infallible>(log_mass_above(piece, x) <= log_mass);
    let Ok(output) = bisect(range, HALVINGS, |_| ACCURACY * sigma, is_light);
    output
}

/// The output at which the part below a gate at `to` is cut off, and log of a bound on the probability under P of what it lacks, which is to be at most e^`log_mass`: an output that is r
/// widths above the gate has y below it only where Z is below −r.
fn cut(piece: &Piece, to: f64, log_mass: f64) -> (f64, f64) {
    let width = gate_width(piece);
    let log_lacking = |r: f64| piece.log_masses_above(to + r * width).0 + log_upper_tail(r) + ROOM;
    let is_light = |r: f64| Ok::<_, Infallible>(log_lacking(r) <= log_mass);
    let Ok(r) = bisect((0.0, REACH), HALVINGS, |_| ACCURACY, is_light);
    (to + r * width, log_lacking(r))
}

/// The part behind a gate, cut off at an output.
fn part(loss: &SmoothLoss, gate: Gate, end: f64) -> Option<SmoothLoss> {
    let mut part = loss.part(gate)?;
    if let Some(first) = part.pieces.first_mut() {
        first.cut_near(end.max(first.start + gate.width));
    }
    Some(part)
}

/// A step whose likelihood ratio is large where y is in one of some ranges: it has one output, and hence never several large ratios.
#[derive(Debug)]
struct OneOutput {
    piece: Piece,
    /// The lower ends of the ranges, and where their parts are cut off, ascending.
    cuts: Vec<(f64, f64)>,
}

impl OneOutput {
    /// log of a bound on the moment over outputs with y between two numbers of standard deviations.
    fn log_moment(&self, c: f64, ends: (f64, f64)) -> f64 {
        let (sigma, width) = (self.piece.noise_multiplier(), gate_width(&self.piece));
        let [from, to] = [(ends.0, -ROUNDING), (ends.1, ROUNDING)].map(|(end, by)| sigma * (end + by * end.abs()));
        let cuts = self.cuts.iter().filter(|(from, _)| *from < to);
        let end = cuts.map(|(_, cut)| *cut).fold(self.cuts[0].1, f64::max);
        let to = to.max(from + MIN_DISTANCE * width);
        let loss = SmoothLoss::new(vec![self.piece.clone()], 0.0);
        let part = part(&loss, Gate { from, to, width }, end);
        part.map_or(f64::INFINITY, |mut part| {
            part.moments(c, LOG_TOLERANCE).log_moment.upper()
        })
    }
}

impl ManyRatios for OneOutput {
    fn log_some(&self, c: f64, high: f64) -> f64 {
        let start = self.cuts[0].0 / self.piece.noise_multiplier();
        if high <= start * (1.0 - ROUNDING) {
            return f64::NEG_INFINITY;
        }
        self.log_moment(c, (start, high))
    }

    fn log_one(&self, c: f64, range: &RatioRange) -> f64 {
        self.log_moment(c, range.ends)
    }

    fn log_several(&self, _c: f64, _range: &RatioRange) -> f64 {
        f64::NEG_INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::MixturePair;
    use crate::step::{Direction, GroupLaw};
    use std::f64::consts::LN_2;

    fn whole(records: u64, rate: f64, sigma: f64) -> Piece {
        let law = GroupLaw::binomial(records, rate).unwrap();
        Piece::whole(MixturePair::new(&law, sigma).unwrap(), (true, false))
    }

    /// log of Σ f(x)·P(x)·e^{cℓ(x)} over outputs between two ends, by the midpoint rule, with the logarithm of f.
    fn log_sum(piece: &Piece, c: f64, (low, high): (f64, f64), f: impl Fn(f64) -> f64) -> f64 {
        let (count, mut scratch) = (40_000, Scratch::default());
        let step = (high - low) / f64::from(count);
        let (mut sum, mut point) = (LogSum::default(), |x: f64| piece.point(x, &mut scratch));
        for i in 0..count {
            let x = low + (f64::from(i) + 0.5) * step;
            let at = point(x);
            sum.add(at.log_density + c * at.loss + f(x));
        }
        sum.ln() + step.ln()
    }

    fn split_of(loss: &SmoothLoss, log_mass: f64) -> Split {
        let split = RatioSplit {
            steps: 100.0,
            log_mass,
            log_mass_beyond: -90.0,
            losses: &[],
        };
        split_at_gates(loss, &split).unwrap()
    }

    const PAIRS: [(u64, f64, f64); 4] = [(1, 0.01, 1.0), (1, 1e-4, 3.0), (5, 0.02, 0.7), (30, 1e-3, 8.0)];

    #[test]
    fn what_is_above_a_gate_has_its_probability() {
        for (records, rate, sigma) in PAIRS {
            let piece = whole(records, rate, sigma);
            for log_mass in [-10.0, -60.0, -150.0] {
                let output = output_with(&piece, log_mass);
                let gate = Gate::above(output, gate_width(&piece));
                let ends = (output - 15.0 * sigma, output + 15.0 * sigma);
                let exact = log_sum(&piece, 0.0, ends, |x| gate.log_probability(x));
                let found = log_mass_above(&piece, output);
                assert!(
                    exact <= found && found < exact + 1e-6 && found <= log_mass,
                    "{records} {found} {exact}"
                );
            }
        }
    }

    /// Where an output is just below the gate's width above it, what a cut leaves out is nearly its bound.
    #[test]
    fn what_a_cut_leaves_out_is_bounded() {
        let piece = whole(1, 0.01, 1.0);
        for (to, log_mass, closest) in [(30.0, -435.0, LN_2), (30.0, -450.0, 1.5), (8.0, -60.0, 4.0)] {
            let (end, bound) = cut(&piece, to, log_mass);
            let gate = Gate::above(to, gate_width(&piece)).below();
            let exact = log_sum(&piece, 0.0, (end, end + 5.0), |x| gate.log_probability(x));
            assert!(
                exact <= bound && bound < exact + closest,
                "{to} {log_mass}: {bound} {exact}"
            );
            assert!(bound <= log_mass && bound > log_mass - 0.1, "{bound}");
        }
    }

    /// Parts add up to the loss: their moments to that of the whole one, and of those with a large ratio to the probability of one.
    #[test]
    fn moments_of_the_parts_are_those_of_the_loss() {
        for (records, rate, sigma) in PAIRS {
            let mut loss = SmoothLoss::new(vec![whole(records, rate, sigma)], 0.0);
            let mut found = split_of(&loss, -12.0);
            for c in [0.0, 0.2, 0.5] {
                let moment = |loss: &mut SmoothLoss| loss.moments(c, -40.0).log_moment.value.exp();
                let large: f64 = found.one.iter_mut().map(|(one, _)| moment(one)).sum();
                let (all, whole) = (moment(&mut found.none) + large, moment(&mut loss));
                assert!((all / whole - 1.0).abs() < 1e-9, "{records} {c}: {all} {whole}");
                if c == 0.0 {
                    let off = large.ln() - found.log_some;
                    assert!(off.abs() < 1e-6, "{records}: {off}");
                }
            }
            assert!(found.log_beyond <= -90.0 + LN_2 + 0.01 && found.log_beyond > -91.0);
        }
    }

    #[test]
    fn moments_with_large_ratios_are_bounded() {
        for (records, rate, sigma) in PAIRS {
            let loss = SmoothLoss::new(vec![whole(records, rate, sigma)], 0.0);
            let Split { one, many, .. } = split_of(&loss, -40.0);
            let width = gate_width(&many.piece);
            let moment = |c: f64, (from, to): (f64, f64), cut: f64| {
                let gate = Gate { from, to, width };
                let ends = (from - 12.0 * width, cut);
                log_sum(&many.piece, c, ends, |x| gate.log_probability(x))
            };
            let first = one[0].1.ends.0 * sigma;
            for ((_, range), (_, output)) in one.iter().zip(&many.cuts) {
                let mut piece = many.piece.clone();
                piece.cut_near(*output);
                let cut = piece.end;
                for c in [0.5, 3.0] {
                    let exact = moment(c, (range.ends.0 * sigma, range.ends.1 * sigma), cut);
                    let found = many.log_one(c, range);
                    assert!(
                        exact <= found + 1e-6 && found < exact + 1e-3,
                        "{records} {c}: {found} {exact}"
                    );
                    let exact = moment(c, (first, range.ends.1 * sigma), cut);
                    let found = many.log_some(c, range.ends.1);
                    assert!(
                        exact <= found + 1e-6 && found < exact + 1e-3,
                        "{records} {c}: {found} {exact}"
                    );
                    assert_eq!(many.log_several(c, range), f64::NEG_INFINITY);
                }
            }
            assert_eq!(many.log_some(1.0, 0.9 * one[0].1.ends.0), f64::NEG_INFINITY);
        }
    }

    /// Losses that are bounded, and a δ that is not small, leave the loss as it is.
    #[test]
    fn what_a_split_does_not_serve_is_left_as_it_is() {
        let split = |log_mass_beyond: f64| RatioSplit {
            steps: 10.0,
            log_mass: 0.5 * log_mass_beyond,
            log_mass_beyond,
            losses: &[],
        };
        let law = GroupLaw::binomial(2, 0.1).unwrap();
        for (direction, log_mass_beyond, is_split) in [
            (Direction::Remove, -80.0, true),
            (Direction::Remove, -50.0, false),
            (Direction::Add, -80.0, false),
        ] {
            let loss = StepLoss::mixture(&law, 1.0, direction).unwrap().unwrap();
            let found = loss.by_large_ratio(&split(log_mass_beyond));
            assert_eq!(!found.one.is_empty(), is_split);
            assert_eq!(found.many.is_some(), is_split);
            assert!(found.log_beyond <= log_mass_beyond + 1.0);
        }
    }
}
