//! The characteristic function of a tilted smooth loss, and how it decays.

use crate::approx::Approx;
use crate::loss::characteristic_function::smooth_changes;
use crate::loss::nodes::Nodes;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_piece::{ImaginaryShift, Piece, Scratch};
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;
use rustc_hash::FxHashMap;

/// A smooth loss tilted by e^{cℓ}, with the imaginary shifts of the output that show how its characteristic function decays.
#[derive(Debug)]
pub(crate) struct TiltedSmoothLoss<'a> {
    loss: &'a mut SmoothLoss,
    nodes: Nodes,
    /// a for each piece: its integral is taken over x + ia.
    imaginary_shifts: Vec<f64>,
    log_tolerance: f64,
}

impl<'a> TiltedSmoothLoss<'a> {
    /// The loss tilted by e^{cℓ}, where quadrature may leave out e^`log_tolerance` of the moment.
    pub(crate) fn new(loss: &'a mut SmoothLoss, c: f64, log_tolerance: f64) -> Self {
        let imaginary_shifts = vec![0.0; loss.pieces().len()];
        let nodes = loss.nodes(c, 0.0, &imaginary_shifts, log_tolerance);
        Self {
            loss,
            nodes,
            imaginary_shifts,
            log_tolerance,
        }
    }
}

/// log of the growth of the integrand off the real line, less −log of the tolerance, beyond which no panel however short meets the
/// tolerance: the error of the rule is e^−52.6 of the bound on the ellipse (`GaussLegendre::log_error`), and a panel may use a
/// 64th of the tolerance.
const MAX_LOG_GROWTH: f64 = 46.0;
/// Growth that is allowed at every tolerance.
const MIN_LOG_GROWTH: f64 = 2.0;

impl TiltedLoss for TiltedSmoothLoss<'_> {
    fn moments(&self) -> TiltedMoments {
        self.nodes.moments()
    }

    fn size(&self) -> usize {
        self.nodes.losses.len()
    }

    fn certify(&mut self, reach: f64) {
        self.nodes = self
            .loss
            .nodes(self.nodes.c, reach, &self.imaginary_shifts, self.log_tolerance);
    }

    fn quadrature_error(&self) -> f64 {
        self.nodes.error + self.nodes.missing
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        self.loss.log_decay(&self.nodes, y, &self.imaginary_shifts)
    }

    /// The shift that suits a loss without gaps is too high where most of the mass is nearly an atom, which it raises; so lower
    /// ones are tried.
    fn best_log_decay(&mut self, y: f64, wanted: f64) -> f64 {
        /// Fractions of the highest shift, and how many of them in a row may do no better before the rest is given up.
        const FRACTIONS: [f64; 6] = [0.7, 0.5, 0.35, 0.25, 0.15, 0.1];
        const MOST_WORSE: usize = 2;
        let max_growth = (MAX_LOG_GROWTH + self.log_tolerance).max(MIN_LOG_GROWTH);
        let highest = self.loss.imaginary_shifts(&self.nodes, y, max_growth);
        self.imaginary_shifts.clone_from(&highest);
        let mut least = self.log_decay(y);
        let mut worse = 0;
        for fraction in FRACTIONS {
            if -least >= wanted || worse >= MOST_WORSE {
                break;
            }
            let lower: Vec<f64> = highest
                .iter()
                .map(|imaginary_shift| fraction * imaginary_shift)
                .collect();
            let decay = self.loss.log_decay(&self.nodes, y, &lower);
            if decay < least {
                least = decay;
                self.imaginary_shifts = lower;
            } else {
                worse += 1;
            }
        }
        least
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        smooth_changes(&self.nodes, spacing, last)
    }

    fn forget_panels(&mut self) {
        self.loss.panels = FxHashMap::default();
    }
}

impl SmoothLoss {
    /// Imaginary shifts that make the bound of [`SmoothLoss::log_decay`] small at Im z = y, of those by which the noise and the gates
    /// grow by at most e^`max_growth`.
    pub(crate) fn imaginary_shifts(&self, nodes: &Nodes, y: f64, max_growth: f64) -> Vec<f64> {
        let of = |(i, piece): (usize, &Piece)| {
            let variance = piece.noise_multiplier().powi(2);
            // −y·a·slope + a²/2s² is least at a = ys²·slope; no sine of a·s/σ² may be negative, and the terms of r
            // that count must point within a right angle of one direction, with room for the panels.
            let best = y * piece.imaginary_scale().powi(2) * nodes.slopes[i];
            let spread = piece.widest_spread(nodes.supports[i]);
            best.min(0.7 / spread.max(f64::MIN_POSITIVE))
                .min(3.0 * variance / piece.largest_shift().max(f64::MIN_POSITIVE))
                .min(piece.imaginary_scale() * (2.0 * max_growth).sqrt())
        };
        self.pieces.iter().enumerate().map(of).collect()
    }

    /// log of a bound on |E_P[e^{zℓ}]|/E_P[e^{cℓ}] for every z = c + iy' with |y'| ≥ y.
    ///
    /// The integral over the output x is taken along x + ia (for y' < 0 along x − ia, the mirror image).
    /// There |e^{iy'ℓ}| = e^{−y'θ(x)} with θ = arg r_P(x + ia) + arg r_Q(x + ia) ≥ 0, so that the integral of
    /// the modulus falls with y'. At a finite end of a piece the contour returns to the real line ([`end_segment`]).
    pub(crate) fn log_decay(&mut self, nodes: &Nodes, y: f64, imaginary_shifts: &[f64]) -> f64 {
        let tables: Vec<ImaginaryShift> = self
            .pieces
            .iter()
            .zip(imaginary_shifts)
            .map(|(p, &a)| ImaginaryShift::new(p, a))
            .collect();
        let Self {
            pieces, scratch, work, ..
        } = self;
        let mut change = 0.0;
        for (weight, &(i, x)) in nodes.weights.iter().zip(&nodes.outputs) {
            checkpoint();
            *work += 8;
            let continued = pieces[i].continued(x, &tables[i], scratch);
            *work += 2 * scratch.terms();
            let log_change = continued.log_change(nodes.c, imaginary_shifts[i], pieces[i].imaginary_scale());
            change += weight * (log_change - y * continued.angle).exp_m1();
        }
        for (i, piece) in pieces.iter().enumerate() {
            let finite = [piece.start, piece.end].into_iter().filter(|end| end.is_finite());
            for end in finite {
                let log_weight = {
                    let point = piece.point(end, scratch);
                    point.log_density + nodes.c * point.loss - nodes.log_moment.value
                };
                change += log_weight.exp() * end_segment(piece, end, nodes.c, imaginary_shifts[i], scratch);
            }
        }
        (change + nodes.error + nodes.missing + 1.1 * nodes.weight_rounding.0.min(1e-6)).ln_1p()
    }
}

/// Parts into which the segment at a finite end of a piece is cut. With one part the bound is up to e times as large.
const SEGMENT_PARTS: usize = 8;

/// A bound on the integral of the modulus of P·e^{zℓ} over the segment from x to x + ia, over its modulus at x.
///
/// At x + is the noise grows with s by at most e^{s²/2σ²}. |r(x + is)|² = Σ w_j w_k e^{…} cos((s_j − s_k)s/σ²) falls with s, as no angle
/// exceeds 3 < π ([`SmoothLoss::imaginary_shifts`]). So on every part each factor is at most its value at one of the two ends.
fn end_segment(piece: &Piece, x: f64, c: f64, imaginary_shift: f64, scratch: &mut Scratch) -> f64 {
    let length = imaginary_shift / SEGMENT_PARTS as f64;
    let (mut below_p, mut below_q) = (0.0, 0.0);
    let mut sum = 0.0;
    for part in 1..=SEGMENT_PARTS {
        let height = part as f64 * length;
        let above = piece.continued(x, &ImaginaryShift::new(piece, height), scratch);
        let log_q = if c > 0.0 { above.log_q } else { below_q };
        let log_change = 0.5 * (height / piece.imaginary_scale()).powi(2) + (1.0 + c) * below_p - c * log_q;
        sum += length * log_change.exp();
        (below_p, below_q) = (above.log_p, above.log_q);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::MixturePair;
    use crate::step::GroupLaw;
    use std::sync::Arc;

    /// Sums of a thousand parts are right to a part in 500.
    #[test]
    fn the_segment_at_an_end_is_bounded_and_nearly_attained() {
        let law = GroupLaw::hypergeometric(1, 300, 1000).unwrap();
        let pair = Arc::new(MixturePair::new(&law, 0.7).unwrap());
        let mut scratch = Scratch::default();
        for (in_p, in_q) in [(true, false), (false, true)] {
            let piece = Piece {
                pair: Arc::clone(&pair),
                in_p,
                in_q,
                start: f64::NEG_INFINITY,
                end: 0.4,
                gate: None,
            };
            for c in [-0.6, 0.0, 0.7, 4.0, 20.0] {
                for shift in [0.05, 0.3, 0.7] {
                    let modulus = |i: usize| {
                        let height = shift * (i as f64 + 0.5) / 1000.0;
                        let table = ImaginaryShift::new(&piece, height);
                        let continued = piece.continued(0.4, &table, &mut Scratch::default());
                        continued.log_change(c, height, piece.imaginary_scale()).exp()
                    };
                    let exact: f64 = (0..1000).map(modulus).sum::<f64>() * shift / 1000.0;
                    let bound = end_segment(&piece, 0.4, c, shift, &mut scratch);
                    let named = format!("{in_p} {c} {shift}: {bound} {exact}");
                    assert!(bound >= exact * 0.998, "{named}");
                    assert!(bound < 2.0 * exact, "{named}");
                }
            }
        }
    }
}
