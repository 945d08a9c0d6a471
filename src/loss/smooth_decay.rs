//! The characteristic function of a tilted smooth loss, and how it decays (`docs/theory/inversion.md`, Propositions 4 to 4d).

mod segments;

use crate::approx::Approx;
use crate::loss::characteristic_function::{cost_of_frequency, smooth_changes};
use crate::loss::continuation::{Continued, ImaginaryShift, NodeLaws};
use crate::loss::joint::Joint;
use crate::loss::nodes::Nodes;
use crate::loss::path::{BEYOND, Path};
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_piece::Piece;
use crate::special::exponential::exp_m1;
use crate::special::vector::dot;
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;
use segments::{crude_end_segment, end_segment};

/// A smooth loss tilted by e^{cℓ}, with the paths over the output that show how its characteristic function decays.
#[derive(Debug)]
pub(crate) struct TiltedSmoothLoss<'a> {
    loss: &'a mut SmoothLoss,
    nodes: Nodes,
    /// The posterior laws at the nodes, as far as they were needed.
    laws: NodeLaws,
    /// One for each piece: its integral is taken along it.
    paths: Vec<Path>,
    /// The limits of the heights, computed when first needed.
    limits: Vec<Limits>,
    /// Which of [`HEIGHTS`] was the best at the last frequency, with paths of one height and with paths of their own heights.
    best_height: [Option<usize>; 2],
    /// Error that the last search for a height may have had.
    negligible: f64,
    log_tolerance: f64,
}

impl<'a> TiltedSmoothLoss<'a> {
    /// The loss tilted by e^{cℓ}, where quadrature may leave out e^`log_tolerance` of the moment.
    pub(crate) fn new(loss: &'a mut SmoothLoss, c: f64, log_tolerance: f64) -> Self {
        let paths = loss.real_paths();
        let nodes = loss.nodes(c, 0.0, &paths, log_tolerance);
        Self {
            loss,
            laws: NodeLaws::new(nodes.outputs.len()),
            nodes,
            paths,
            limits: Vec::new(),
            best_height: [None; 2],
            negligible: 0.0,
            log_tolerance,
        }
    }
}

/// Fractions of the largest height at which a path is tried.
const HEIGHTS: [f64; 8] = [1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05];
/// The logarithm of the modulus falls about in proportion to the height, where that is low; the height that seems enough is multiplied by this.
const ENOUGH_HEIGHT: f64 = 1.3;
/// How many heights in a row may do no better before the lower ones are given up: at the first frequency, and at others, where the best
/// one is near that of the last frequency.
const MOST_WORSE: [usize; 2] = [2, 1];
/// Error that a search for the best height may have, over the decay that is wanted: nodes of so little weight are not evaluated. A random box
/// takes a twentieth longer if all are, and at 0.1 as long.
const ROUGH_DECAY: f64 = 0.02;

/// The part of that error that a crude bound at an end of a piece or of a path may take.
const NEGLIGIBLE_END: f64 = 0.1;

/// log of the growth of the integrand off the real line, less −log of the tolerance, beyond which no panel however short meets the
/// tolerance: the error of the rule is e^−52.6 of the bound on the ellipse (`GaussLegendre::log_error`), and a panel may use a
/// 64th of the tolerance.
const MAX_LOG_GROWTH: f64 = 46.0;
/// Largest angle as/σ² of a significant shift s at a height a of the path: below π, so that its sine is positive.
const LARGEST_ANGLE: f64 = 3.0;
/// Standard deviations of the noise beyond the nodes up to which the path is above the real line: nodes for larger frequencies, which
/// reach farther out by a panel or so, are to be below it.
const ROOM: f64 = 1.5;
/// Largest angle between shifts that are significant together, where angles may be larger than [`LARGEST_ANGLE`]; its cosine is above 0.169.
const LARGEST_DIFFERENCE: f64 = 1.4;
/// Growth that is allowed at every tolerance.
const MIN_LOG_GROWTH: f64 = 2.0;
/// The angle on either side of their common direction at which the terms of r that count may point: π/4, less room for the panels.
const ENOUGH_ANGLE: f64 = 0.7;

/// The outputs over which the path of one piece may be above the real line, and its largest heights.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Ends of the path, a little beyond the nodes.
    from: f64,
    to: f64,
    /// The height at which the terms of r that count still point within a right angle of one direction, with room for the panels.
    spread: f64,
    /// The heights at which no angle of a shift is too large: of any shift, and of those that are significant up to the ends.
    any: f64,
    significant: f64,
    /// The height at which, for r_P and for r_Q, no angle of a significant shift is too large or shifts that are significant together are within
    /// [`LARGEST_DIFFERENCE`].
    together: f64,
    /// The height at which the zeros of counts are far, where they are known to be real: no other condition is needed then.
    below_zeros: Option<f64>,
}

impl Limits {
    /// The limits for the outputs at which piece i has nodes.
    fn new(loss: &SmoothLoss, nodes: &Nodes, i: usize) -> Self {
        let piece = &loss.pieces[i];
        let (sigma, (low, high)) = (piece.noise_multiplier(), nodes.supports[i]);
        let (from, to) = panels_around(piece, (low - ROOM * sigma, high + ROOM * sigma));
        let interval = (from - BEYOND * sigma, to + BEYOND * sigma);
        let height = |angle: f64, shift: f64| angle * sigma * sigma / shift.max(f64::MIN_POSITIVE);
        let below_zeros = piece.height_far_from_zeros(interval);
        let spread = below_zeros
            .unwrap_or_else(|| ENOUGH_ANGLE / piece.widest_spread(nodes.supports[i]).max(f64::MIN_POSITIVE));
        let below_angle = |shift: Option<f64>| height(LARGEST_ANGLE, shift.unwrap_or(0.0));
        let any = height(LARGEST_ANGLE, piece.largest_shift());
        if below_zeros.is_some() {
            return Self {
                from,
                to,
                spread,
                any,
                significant: any,
                together: any,
                below_zeros,
            };
        }
        let shifts = piece.largest_significant_shifts(interval);
        let significant = below_angle(shifts[0]).min(below_angle(shifts[1]));
        let is_enough = significant >= spread;
        // Either of the two conditions does for r_P, and either for r_Q.
        let together = || {
            let ranges = piece.widest_significant_ranges(interval);
            let of = |(shift, range): (Option<f64>, Option<f64>)| {
                below_angle(shift).max(height(LARGEST_DIFFERENCE, range.unwrap_or(0.0)))
            };
            shifts.into_iter().zip(ranges).map(of).fold(f64::INFINITY, f64::min)
        };
        Self {
            from,
            to,
            spread,
            any,
            significant,
            together: if is_enough { 0.0 } else { together() },
            below_zeros,
        }
    }

    /// The path of the height that is asked for, or of the largest one below.
    fn path(&self, piece: &Piece, height: f64) -> Path {
        let &Self { from, to, .. } = self;
        if height <= self.any {
            Path::above(height)
        } else if let Some(highest) = self.below_zeros {
            Path {
                height: height.min(highest),
                from: if piece.in_q && from > piece.start {
                    from
                } else {
                    f64::NEG_INFINITY
                },
                to: if piece.in_p && to < piece.end {
                    to
                } else {
                    f64::INFINITY
                },
                turns: true,
            }
        } else if height <= self.significant || self.together <= self.significant {
            Path {
                height: height.min(self.significant),
                from: if piece.in_q { from } else { f64::NEG_INFINITY },
                to: if piece.in_p { to } else { f64::INFINITY },
                turns: false,
            }
        } else {
            Path {
                height: height.min(self.together),
                from,
                to,
                turns: true,
            }
        }
    }
}

/// The smallest interval around another one, within the piece, whose ends are those of panels of at most σ.
fn panels_around(piece: &Piece, (low, high): (f64, f64)) -> (f64, f64) {
    let (start, width) = (piece.origin, piece.noise_multiplier());
    let from = start + ((low - start) / width).floor() * width;
    let to = start + ((high - start) / width).ceil() * width;
    (from.max(piece.start), to.min(piece.end))
}

impl TiltedLoss for TiltedSmoothLoss<'_> {
    fn moments(&self) -> TiltedMoments {
        self.nodes.moments()
    }

    fn size(&self) -> usize {
        cost_of_frequency(&self.nodes)
    }

    fn certify(&mut self, reach: f64) {
        self.nodes = self.loss.nodes(self.nodes.c, reach, &self.paths, self.log_tolerance);
        self.laws = NodeLaws::new(self.nodes.outputs.len());
    }

    fn quadrature_error(&self) -> f64 {
        self.nodes.error + self.nodes.missing
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        self.loss
            .log_decay((&self.nodes, &mut self.laws), y, &self.paths, self.negligible)
    }

    /// The height that suits a loss without gaps is too large where most of the mass is nearly an atom, which it raises; so lower
    /// ones are tried.
    fn best_log_decay(&mut self, y: f64, wanted: f64) -> f64 {
        let max_growth = (MAX_LOG_GROWTH + self.log_tolerance).max(MIN_LOG_GROWTH);
        if self.limits.is_empty() {
            let of = |i: usize| Limits::new(self.loss, &self.nodes, i);
            self.limits = (0..self.loss.pieces.len()).map(of).collect();
        }
        let highest = self.loss.paths(&self.nodes, &self.limits, y, max_growth);
        self.negligible = ROUGH_DECAY * wanted.clamp(0.0, 1.0) * (-wanted).exp();
        let (mut least, mut paths) = (f64::INFINITY, highest.clone());
        // Ends that meet cancel each other up to the lower height, which is the one of a piece that has little weight.
        let choices = [levelled(&self.loss.pieces, &highest), Some(highest)];
        for (choice, highest) in choices.into_iter().enumerate() {
            let Some(highest) = highest else { continue };
            let (decay, of_these) = self.best_lowered((choice, &highest), y, wanted);
            if decay < least {
                (least, paths) = (decay, of_these);
            }
            if -least >= wanted {
                break;
            }
        }
        self.paths = paths;
        least
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        smooth_changes(&self.nodes, spacing, last, self.log_tolerance.exp())
    }

    fn forget_panels(&mut self) {
        self.loss.forget_panels();
    }
}

impl TiltedSmoothLoss<'_> {
    /// The best bound along `highest`, which is that choice, lowered by one of [`HEIGHTS`], and those paths; or one along lower paths that is good enough, as
    /// nodes for those are fewer.
    fn best_lowered(&mut self, (choice, highest): (usize, &[Path]), y: f64, wanted: f64) -> (f64, Vec<Path>) {
        let last = self.best_height[choice];
        let first = last.map_or(0, |best| best.saturating_sub(1));
        let most_worse = MOST_WORSE[usize::from(last.is_some())];
        let (mut least, mut least_paths, mut worse) = (f64::INFINITY, highest.to_vec(), 0);
        for (i, fraction) in HEIGHTS.into_iter().enumerate().skip(first) {
            let (decay, paths) = self.lowered(highest, i, y);
            if decay < least {
                (least, worse) = (decay, 0);
                least_paths = paths;
                self.best_height[choice] = Some(i);
            } else {
                worse += 1;
            }
            if -least >= wanted {
                let enough = ENOUGH_HEIGHT * fraction * wanted / -least;
                let lower = (i + 1..HEIGHTS.len()).rev().find(|lower| HEIGHTS[*lower] >= enough);
                let of_lower = lower.map(|lower| self.lowered(highest, lower, y));
                return of_lower
                    .filter(|(decay, _)| -decay >= wanted)
                    .unwrap_or((least, least_paths));
            }
            if worse >= most_worse {
                break;
            }
        }
        (least, least_paths)
    }

    /// The bound along `highest`, lowered by number i of [`HEIGHTS`], and those paths.
    fn lowered(&mut self, highest: &[Path], i: usize, y: f64) -> (f64, Vec<Path>) {
        let paths: Vec<Path> = highest.iter().map(|path| path.lowered(HEIGHTS[i])).collect();
        let laws = &mut self.laws;
        let decay = self.loss.log_decay((&self.nodes, laws), y, &paths, self.negligible);
        (decay, paths)
    }
}

/// Paths of one height, the lowest, where two pieces meet; `None` where that is no choice.
fn levelled(pieces: &[Piece], paths: &[Path]) -> Option<Vec<Path>> {
    Joint::of(pieces)?;
    let lowest = paths.iter().map(|path| path.height).fold(f64::INFINITY, f64::min);
    let is_other = lowest > 0.0 && paths.iter().any(|path| path.height > lowest);
    let lower = |path: &Path| Path {
        height: lowest,
        ..*path
    };
    is_other.then(|| paths.iter().map(lower).collect())
}

impl SmoothLoss {
    /// Paths that make the bound of [`SmoothLoss::log_decay`] small at Im z = y, of those along which the noise and the gates grow by at
    /// most e^`max_growth`.
    fn paths(&self, nodes: &Nodes, limits: &[Limits], y: f64, max_growth: f64) -> Vec<Path> {
        let of = |(i, (piece, limits)): (usize, (&Piece, &Limits))| {
            // −y·a·slope + a²/2s² is least at a = ys²·slope.
            let best = y * piece.imaginary_scale().powi(2) * nodes.slopes[i];
            let height = best
                .min(limits.spread)
                .min(piece.imaginary_scale() * (2.0 * max_growth).sqrt());
            limits.path(piece, height)
        };
        self.pieces.iter().zip(limits).enumerate().map(of).collect()
    }

    /// log of a bound on |E_P[e^{zℓ}]|/E_P[e^{cℓ}] for every z = c + iy' with |y'| ≥ y.
    ///
    /// The integral over the output x is taken along x + ia (for y' < 0 along x − ia, the mirror image).
    /// There |e^{iy'ℓ}| = e^{−y'θ(x)} with θ = arg r_P(x + ia) + arg r_Q(x + ia) ≥ 0, so that the integral of
    /// the modulus falls with y'. At an end of the path, and at a finite end of a piece, it returns to the real line ([`end_segment`]).
    /// The paths are those of [`SmoothLoss::paths`] or lower ones.
    ///
    /// Nodes that add at most `negligible` altogether count with a bound: |r_P(x + ia)| ≤ r_P(x), so that the modulus grows by the factor of the
    /// noise at most, unless a power of 1/r_Q grows too.
    fn log_decay(
        &mut self,
        (nodes, laws): (&Nodes, &mut NodeLaws),
        y: f64,
        paths: &[Path],
        negligible: f64,
    ) -> f64 {
        let mut change = self.change_at_nodes((nodes, laws), y, paths, negligible);
        let Self { pieces, scratch, .. } = self;
        let z = Complex64::new(nodes.c, y);
        let joint = Joint::of(pieces).and_then(|joint| Some((joint, joint.common_height(paths)?)));
        for (i, (piece, path)) in pieces.iter().zip(paths).enumerate() {
            let ends = [piece.start.max(path.from), piece.end.min(path.to)];
            for (side, end) in ends.into_iter().enumerate().filter(|(_, end)| end.is_finite()) {
                let log_weight = {
                    let point = piece.point(end, scratch);
                    point.log_density + nodes.c * point.loss - nodes.log_moment.value
                };
                // Where two pieces meet, both ends are bounded together as far as both have one; the start of the first stands for them.
                let (common, from) = match joint {
                    Some((joint, height)) if (i, side) == (0, 0) => (joint.bound(z, height), height),
                    Some((_, height)) if (i, side) == (1, 1) => (0.0, height),
                    _ => (0.0, 0.0),
                };
                let crude = crude_end_segment(piece, z, (from, path.height));
                let length = if (log_weight + crude.ln()).exp() <= NEGLIGIBLE_END * negligible {
                    crude
                } else {
                    end_segment(piece, end, z, (from, *path), scratch)
                };
                change += (log_weight + (common + length).ln()).exp();
            }
        }
        (change + nodes.error + nodes.missing + 1.1 * nodes.weight_rounding.0).ln_1p()
    }

    /// The part of the bound of [`SmoothLoss::log_decay`] that the nodes add, less 1.
    fn change_at_nodes(
        &mut self,
        (nodes, laws): (&Nodes, &mut NodeLaws),
        y: f64,
        paths: &[Path],
        negligible: f64,
    ) -> f64 {
        let Self { pieces, work, .. } = self;
        let both = || pieces.iter().zip(paths);
        let tables: Vec<ImaginaryShift> = both()
            .map(|(piece, path)| ImaginaryShift::new(piece, path.height))
            .collect();
        let growth = |(piece, path): (&Piece, &Path)| match piece.in_q && nodes.c > 0.0 {
            true => f64::INFINITY,
            false => (0.5 * (path.height / piece.imaginary_scale()).powi(2)).exp(),
        };
        let growths: Vec<f64> = both().map(growth).collect();
        let count = nodes.weights.len();
        let negligible = negligible / count as f64;
        let (mut change, mut weights, mut places) = (0.0, Vec::with_capacity(count), Vec::with_capacity(count));
        laws.begin();
        for (node, (&weight, &(i, x))) in nodes.weights.iter().zip(&nodes.outputs).enumerate() {
            if node % NODES_BETWEEN_CHECKPOINTS == 0 {
                checkpoint();
            }
            let height = paths[i].height_at(x);
            if height == 0.0 {
                continue;
            }
            if weight * growths[i] <= negligible {
                change += weight * (growths[i] - 1.0);
                continue;
            }
            *work += 8 + 2 * laws.add(&pieces[i], (node, x), &tables[i]);
            weights.push(weight);
            places.push((i, height));
        }
        let of_pieces = places.iter().map(|(i, _)| &pieces[*i]);
        let of_node = |(continued, &(i, height)): (Continued, &(usize, f64))| {
            continued.log_change(nodes.c, height, pieces[i].imaginary_scale()) - y * continued.angle
        };
        let mut changes: Vec<f64> = laws.changes(of_pieces).zip(&places).map(of_node).collect();
        exp_m1(&mut changes);
        change + dot(&weights, &changes)
    }
}

/// Nodes between two looks at whether to stop.
const NODES_BETWEEN_CHECKPOINTS: usize = 64;

#[cfg(test)]
mod tests;
