//! The characteristic function of a tilted smooth loss, and how it decays.

use crate::loss::characteristic_function::smooth_changes;
use crate::loss::nodes::Nodes;
use crate::loss::privacy_loss::{TiltedLoss, TiltedMoments};
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_piece::{ImaginaryShift, Piece};
use crate::stopping::checkpoint;
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
        self.nodes.error
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
        let highest = self.loss.imaginary_shifts(&self.nodes, y);
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

    fn changes(&self, spacing: f64, last: usize) -> Vec<(f64, f64, f64)> {
        smooth_changes(&self.nodes, spacing, last)
    }

    fn forget_panels(&mut self) {
        self.loss.panels = FxHashMap::default();
    }
}

impl SmoothLoss {
    /// Imaginary shifts that make the bound of [`SmoothLoss::log_decay`] small at Im z = y.
    pub(crate) fn imaginary_shifts(&self, nodes: &Nodes, y: f64) -> Vec<f64> {
        let of = |(i, piece): (usize, &Piece)| {
            let variance = piece.noise_multiplier().powi(2);
            // −y·a·slope + a²/2s² is least at a = ys²·slope; no sine of a·s/σ² may be negative, and the terms of r
            // that count must point within a right angle of one direction, with room for the panels.
            let best = y * piece.imaginary_scale().powi(2) * nodes.slopes[i];
            let spread = piece.widest_spread(nodes.supports[i]);
            best.min(0.7 / spread.max(f64::MIN_POSITIVE))
                .min(3.0 * variance / piece.largest_shift().max(f64::MIN_POSITIVE))
        };
        self.pieces.iter().enumerate().map(of).collect()
    }

    /// log of a bound on |E_P[e^{zℓ}]|/E_P[e^{cℓ}] for every z = c + iy' with |y'| ≥ y.
    ///
    /// The integral over the output x is taken along x + ia (for y' < 0 along x − ia, the mirror image).
    /// There |e^{iy'ℓ}| = e^{−y'θ(x)} with θ = arg r_P(x + ia) + arg r_Q(x + ia) ≥ 0, so that the integral of
    /// the modulus falls with y'. At a finite end of a piece the contour returns to the real line, which adds at most
    /// a times the modulus there.
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
                let point = piece.point(end, scratch);
                let continued = piece.continued(end, &tables[i], scratch);
                let log_change = continued.log_change(nodes.c, imaginary_shifts[i], piece.imaginary_scale());
                let log_weight = point.log_density + nodes.c * point.loss - nodes.log_moment;
                change += imaginary_shifts[i] * (log_weight + log_change.max(0.0)).exp();
            }
        }
        (change + nodes.error + 1.1 * nodes.weight_rounding.0.min(1e-6)).ln_1p()
    }
}
