//! Panels of the outputs of one pair: bounds on its ratios around them, and its losses at their nodes.
//!
//! The parts of a loss behind gates are losses of one pair with other ends and gates. Their panels are those of one lattice ([`Piece::cut_near`] keeps ends on it),
//! so that what does not depend on the gate is computed once for all of them.

use crate::loss::Local;
use crate::loss::line::Line;
use crate::loss::mixture_pair::real_rooted::{AtHeight, Strip};
use crate::loss::smooth_piece::{Piece, Point, Scratch};
use crate::special::exponential;
use crate::special::gauss_legendre::{GaussLegendre, NODES, REAL_AXIS};
use rustc_hash::FxHashMap;
use std::f64::consts::FRAC_PI_2;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Part of the posterior law that the bounds leave outside the range of shifts they use.
const OUTSIDE: f64 = 1e-6;

/// The panels of one pair that were asked for so far, by level and index.
#[derive(Debug, Default)]
pub(crate) struct PairPanels(Mutex<FxHashMap<(i32, i64), Arc<PairPanel>>>);

impl PairPanels {
    /// The panel at a place of the lattice of `piece`, whose pair is that of all panels here.
    pub(super) fn panel(&self, piece: &Piece, place: (i32, i64), scratch: &mut Scratch) -> Arc<PairPanel> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let (centre, half_width) = piece.interval(place);
            Arc::new(PairPanel::new(piece, centre, half_width, scratch))
        };
        Arc::clone(known.entry(place).or_insert_with(new))
    }
}

/// What is known of a pair around one interval of outputs, whatever the gate, the tilt and the frequency.
#[derive(Debug)]
pub(crate) struct PairPanel {
    pub(crate) centre: f64,
    pub(crate) half_width: f64,
    /// The ends of the ellipse around the interval.
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) in_p: Option<Side>,
    pub(super) in_q: Option<Side>,
    /// Cost of evaluating the losses at the nodes, in terms of densities.
    pub(crate) cost: u64,
    /// The law at the nodes, once it was asked for.
    points: OnceLock<Arc<PanelPoints>>,
}

impl PairPanel {
    /// The bounds around [centre − half_width, centre + half_width].
    pub(super) fn new(piece: &Piece, centre: f64, half_width: f64, scratch: &mut Scratch) -> Self {
        let reach = REAL_AXIS * half_width;
        let (left, right) = (centre - reach, centre + reach);
        let variance = piece.noise_multiplier().powi(2);
        let mut side = |sign: f64| {
            let around = piece.pair.surroundings(sign * centre, reach, 0.0, &mut scratch.plain);
            let locals = (around.left, around.centre, around.right);
            let strip = piece.pair.strip([&locals.0, &locals.1, &locals.2], reach);
            Side::new((locals, strip), left, right, variance, sign)
        };
        Self {
            centre,
            half_width,
            left,
            right,
            in_p: piece.in_p.then(|| side(1.0)),
            in_q: piece.in_q.then(|| side(-1.0)),
            cost: NODES as u64 * piece.cost_at(centre),
            points: OnceLock::new(),
        }
    }

    /// The losses at the nodes without a gate, and the weights of the rule there.
    pub(super) fn points(&self, piece: &Piece, scratch: &mut Scratch) -> &Arc<PanelPoints> {
        self.points.get_or_init(|| {
            let rule = GaussLegendre::get();
            let log_half_width = self.half_width.ln();
            let outputs = rule.nodes.map(|node| self.centre + self.half_width * node);
            let mut points = piece.points_of_pair(&outputs, scratch);
            for (point, log_weight) in points.iter_mut().zip(&rule.log_weights) {
                point.log_density += log_weight + log_half_width;
            }
            Arc::new(PanelPoints::new(points))
        })
    }
}

/// The law of P at the nodes of a panel.
#[derive(Debug)]
pub(crate) struct PanelPoints {
    /// Losses, and the logs of the weights: density of P times that of the quadrature rule.
    pub(crate) points: [Point; NODES],
    /// P, with the weights of the rule.
    pub(crate) masses: [f64; NODES],
}

impl PanelPoints {
    /// The masses of weighted points.
    pub(super) fn new(points: [Point; NODES]) -> Self {
        let mut masses = points.map(|point| point.log_density);
        exponential::exp(&mut masses);
        Self { points, masses }
    }
}

/// Bounds on one ratio around an interval, in the coordinates of the piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    pub(super) chord: Line,
    pub(super) tangent: Line,
    /// Half the range of significant shifts, over σ².
    spread: f64,
    /// Largest slope of the log ratio.
    pub(super) slope: f64,
    /// Largest posterior mean of s², over 2σ⁴.
    bend: f64,
    /// For a count with real zeros.
    strip: Option<Strip>,
}

impl Side {
    /// `sign` is −1 for a ratio seen in a mirror: `local` is then of the mirrored interval.
    fn new(
        (local, strip): ((Local, Local, Local), Option<Strip>),
        left: f64,
        right: f64,
        variance: f64,
        sign: f64,
    ) -> Self {
        let (low, centre, high) = local;
        let (at_left, at_right) = if sign > 0.0 { (low, high) } else { (high, low) };
        Self {
            chord: Line {
                at: left,
                value: at_left.log_ratio,
                slope: (at_right.log_ratio - at_left.log_ratio) / (right - left),
            },
            tangent: Line {
                at: 0.5 * (left + right),
                value: centre.log_ratio,
                slope: sign * centre.mean_shift / variance,
            },
            spread: 0.5 * (high.high_shift - low.low_shift) / variance,
            slope: high.mean_shift / variance,
            bend: 0.5 * high.mean_square_shift / (variance * variance),
            strip,
        }
    }

    /// Largest |log r| on the interval: log r is monotone.
    pub(super) fn size(&self, left: f64, right: f64) -> f64 {
        self.chord.at(left).abs().max(self.chord.at(right).abs())
    }

    /// Bounds for |Im z| ≤ height; the modulus is 0 if r may vanish there.
    pub(super) fn at_height(&self, height: f64) -> AtHeight {
        let modulus_ratio = self.modulus_ratio(height);
        let of_any_law = AtHeight {
            modulus_ratio,
            turn: modulus_ratio.recip(),
            speed: modulus_ratio.recip(),
        };
        let of_strip = self.strip.and_then(|strip| strip.at(height));
        of_strip.map_or(of_any_law, |strip| strip.or(of_any_law))
    }

    /// Upper bound on |arg r(z)| for |Im z| ≤ depth, which is at most the height that belongs to the bounds.
    pub(super) fn turned(&self, (depth, height): (f64, f64), at_height: &AtHeight) -> f64 {
        let turn = if depth < height {
            self.at_height(depth).turn
        } else {
            at_height.turn
        };
        depth * self.slope * turn
    }

    /// |r(z)|/r(Re z) is at least this for |Im z| ≤ height; 0 if r may vanish there.
    ///
    /// r(x + iy)/r(x) = E[e^{iys/σ²}] under the posterior law: its real part is at least 1 − y²E\[s²\]/2σ⁴, and all but a
    /// negligible part of it lies within an angle of one direction.
    fn modulus_ratio(&self, height: f64) -> f64 {
        let angle = height * self.spread;
        let within = if angle < FRAC_PI_2 {
            (1.0 - OUTSIDE) * angle.cos() - OUTSIDE
        } else {
            0.0
        };
        (1.0 - height * height * self.bend).max(within).max(0.0)
    }
}
