//! Certified quadrature nodes of a smooth privacy loss, for moments E_P[e^{zℓ}] of complex order.
//!
//! A best-first search over dyadic panels, as in `loss::moment`, but for the integrand P·e^{zℓ} at all
//! z = c + iy' with |y'| ≤ y at once: what comes out is a discrete law whose moments are those of the loss up to a
//! certified error. The same nodes serve the integrand continued to x + ia (see [`SmoothLoss::log_decay`]): the panels
//! are certified with the ellipse lifted by a.

use crate::loss::gate::Gate;
use crate::loss::smooth_piece::{LEAST_CHANGE, Lift, Piece, PiecePanel, Scratch};
use crate::special::gauss_legendre::{GaussLegendre, NODES};
use crate::special::log_space::LogSum;
use crate::stopping::checkpoint;
use rustc_hash::FxHashMap;
use std::collections::BinaryHeap;

/// Panels examined at most; what is left then counts as error.
const MAX_PANELS: usize = 8_000;

/// Terms of densities that one search may evaluate.
const MOST_WORK: u64 = 10_000_000;

/// What looking at a panel costs, in terms of densities; and how many evaluations its bounds take.
const VISIT: u64 = 80;
const BOUNDS: u64 = 3;

/// How far beyond the outermost possible peak the line is searched, in σ.
const MARGIN: f64 = 40.0;

/// Share of the tolerance that one panel may use.
const PANEL_SHARE: f64 = 1.0 / 64.0;

/// Units in the last place by which exponents may be wrong, with room: a few roundings each.
const ROUNDINGS: f64 = 8.0 * f64::EPSILON;

/// Piece and dyadic interval [index, index + 1]·2^level from the piece's finite end, in units of σ or of the piece.
type Address = (usize, i32, i64);

#[derive(Debug, PartialEq)]
struct Candidate {
    log_upper: f64,
    address: Address,
}

impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.log_upper
            .total_cmp(&other.log_upper)
            .then_with(|| self.address.cmp(&other.address))
    }
}

/// The privacy loss of a step as smooth pieces and an atom at loss 0, with the panels found so far.
#[derive(Debug)]
pub struct SmoothLoss {
    pieces: Vec<Piece>,
    /// P's probability of a loss of exactly 0, where that is an atom.
    atom: f64,
    panels: FxHashMap<Address, PiecePanel>,
    scratch: Scratch,
    /// The latest answers of [`SmoothLoss::moments`].
    moments: Vec<Remembered>,
    /// What all questions so far would have cost without the panels of earlier ones, in terms of densities.
    work: u64,
}

/// Moments at one tilt and tolerance, and what they cost.
#[derive(Debug)]
struct Remembered {
    question: (f64, f64),
    answer: (f64, f64, f64, f64),
    work: u64,
}

/// How far out, in σ, outputs can be told apart at all.
const FARTHEST: f64 = 1e15;

/// Moments that are remembered.
const REMEMBERED: usize = 16;

/// A discrete law that has the moments of the loss under P tilted by e^{cℓ}.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    /// The tilt c.
    pub c: f64,
    /// Losses.
    pub losses: Vec<f64>,
    /// Tilted weights; with `atom` they sum to 1.
    pub weights: Vec<f64>,
    /// Tilted weight of the loss 0.
    pub atom: f64,
    /// K(c) = log E_P[e^{cℓ}].
    pub log_moment: f64,
    /// Bound on the error of `log_moment`.
    pub log_moment_error: f64,
    /// Bound on quadrature and truncation errors of E_P[e^{zℓ}]/E_P[e^{cℓ}] up to the certified Im z.
    pub error: f64,
    /// Mean and variance of the tilted loss.
    pub mean: f64,
    /// Variance of the tilted loss.
    pub variance: f64,
    /// Mean rounding error of a loss.
    pub loss_rounding: f64,
    /// Relative rounding error of a weight: the mean, and the mean of its product with |loss|.
    pub weight_rounding: (f64, f64),
    /// Mean |loss|.
    pub mean_size: f64,
    /// Mean slope of the loss in the output, for each piece, over the piece's weight.
    pub(crate) slopes: Vec<f64>,
    /// Piece and output of each node.
    pub(crate) outputs: Vec<(usize, f64)>,
    /// For each piece, an interval of outputs outside which the integrand adds no more than `error`.
    pub supports: Vec<(f64, f64)>,
}

impl Nodes {
    /// What stands for the moments at a tilt whose outputs lie beyond the digits of an `f64`: nothing is known.
    fn beyond_reach(c: f64, pieces: usize) -> Self {
        Self {
            c,
            log_moment: f64::INFINITY,
            log_moment_error: f64::INFINITY,
            error: f64::INFINITY,
            slopes: vec![0.0; pieces],
            supports: vec![(f64::INFINITY, f64::NEG_INFINITY); pieces],
            ..Self::default()
        }
    }
}

impl SmoothLoss {
    /// The loss made of `pieces` and an atom of P-probability `atom` at 0.
    pub(crate) fn new(pieces: Vec<Piece>, atom: f64) -> Self {
        Self {
            pieces,
            atom,
            panels: FxHashMap::default(),
            scratch: Scratch::default(),
            moments: Vec::new(),
            work: 0,
        }
    }

    /// Gives the memory of the panels back; they are evaluated again when they are needed.
    pub fn forget_panels(&mut self) {
        self.panels = FxHashMap::default();
    }

    /// K(c), its error, K'(c) and K''(c), where quadrature may leave out e^`log_tolerance` of the moment.
    pub fn moments(&mut self, c: f64, log_tolerance: f64) -> (f64, f64, f64, f64) {
        let question = (c, log_tolerance);
        if let Some(known) = self.moments.iter().find(|known| known.question == question) {
            self.work += known.work;
            return known.answer;
        }
        let before = self.work;
        let none = vec![0.0; self.pieces.len()];
        let nodes = self.nodes(c, 0.0, &none, log_tolerance);
        let answer = (nodes.log_moment, nodes.log_moment_error, nodes.mean, nodes.variance);
        if self.moments.len() == REMEMBERED {
            self.moments.remove(0);
        }
        self.moments.push(Remembered {
            question,
            answer,
            work: self.work - before,
        });
        answer
    }

    /// What the questions so far cost, in terms of densities (two or three nanoseconds each): the same whatever was
    /// asked in between.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// The pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// P's probability of the atom at loss 0.
    pub fn atom(&self) -> f64 {
        self.atom
    }

    /// This loss without the outputs of each piece above which P has mass e^`log_mass`, and the log of the mass that is
    /// left out of all pieces together.
    pub fn cut(&self, log_mass: f64) -> (Self, f64) {
        let mut lost = LogSum::default();
        let mut pieces = self.pieces.clone();
        for piece in pieces.iter_mut().filter(|piece| piece.end.is_infinite()) {
            let sigma = piece.noise_multiplier();
            let (mut low, mut high) = (piece.start.max(-60.0 * sigma), piece.largest_shift() + 60.0 * sigma);
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                if piece.log_masses_above(middle).0 > log_mass {
                    low = middle;
                } else {
                    high = middle;
                }
                if high - low < 1e-3 * sigma {
                    break;
                }
            }
            piece.end = high;
            lost.add(piece.log_masses_above(high).0);
        }
        (Self::new(pieces, self.atom), lost.ln() + 1e-9)
    }

    /// The losses on one side of a coin that is tossed at the outputs of the first piece; the other pieces and the
    /// atom belong to the near side.
    pub fn side(&self, gate: Gate) -> Self {
        let mut pieces = self.pieces.clone();
        if gate.open {
            pieces.truncate(1);
        }
        if let Some(first) = pieces.first_mut() {
            first.gate = Some(gate);
        }
        Self::new(pieces, if gate.open { 0.0 } else { self.atom })
    }

    /// The loss where nothing of the group is in the batch: what most outputs have if members are rarely there. `None`
    /// where the largest losses do not lie far above it.
    pub fn usual_loss(&self) -> Option<f64> {
        let first = self.pieces.first().filter(|piece| piece.in_p)?;
        if first.start.is_finite() || first.in_q {
            return Some(0.0);
        }
        first.least_loss()
    }

    /// The gate that opens where the loss passes `level`, within about `width` of it.
    pub fn gate(&self, level: f64, width: f64) -> Option<Gate> {
        let piece = self.pieces.first()?;
        let mut scratch = Scratch::default();
        let centre = piece.output_at(level, &mut scratch);
        let inside = centre.is_finite() && centre > piece.start && centre < piece.end;
        inside.then(|| Gate {
            centre,
            width: (width / piece.point(centre, &mut scratch).slope).min(0.5 * piece.noise_multiplier()),
            open: true,
        })
    }

    fn panel(&mut self, address: Address) -> &mut PiecePanel {
        let Self {
            pieces,
            panels,
            scratch,
            ..
        } = self;
        let piece = &pieces[address.0];
        panels.entry(address).or_insert_with(|| {
            let width = f64::powi(2.0, address.1) * unit(piece);
            piece.panel(origin(piece) + (address.2 as f64 + 0.5) * width, 0.5 * width, scratch)
        })
    }

    /// Nodes for Re z = c > −1, |Im z| ≤ y and lifts of up to `lifts[i]` in piece i, leaving out at most
    /// e^`log_tolerance` of E_P[e^{cℓ}].
    pub fn nodes(&mut self, c: f64, y: f64, lifts: &[f64], log_tolerance: f64) -> Nodes {
        let mut heap = BinaryHeap::new();
        for (i, &lift) in lifts.iter().enumerate() {
            let piece = &self.pieces[i];
            let reach = piece.largest_shift() / piece.noise_multiplier() * (2.0 + 2.0 * c.abs()) + MARGIN;
            if reach > FARTHEST {
                return Nodes::beyond_reach(c, self.pieces.len());
            }
            let level = reach.log2().ceil() as i32;
            let (from_left, to_right) = (piece.start.is_infinite(), piece.end.is_infinite());
            if !from_left && !to_right {
                self.push(&mut heap, (i, 0, 0), (c, y), lift);
                continue;
            }
            for index in [-1, 0] {
                if (index == -1 && from_left) || (index == 0 && to_right) {
                    self.push(&mut heap, (i, level, index), (c, y), lift);
                }
            }
        }
        let mut total = LogSum::default();
        total.add(self.atom.ln());
        let mut error = LogSum::default();
        let mut accepted: Vec<Address> = Vec::new();
        let panel_tolerance = log_tolerance + PANEL_SHARE.ln();
        let mut examined = 0;
        let end = self.work + MOST_WORK;
        while let Some(best) = heap.peek() {
            checkpoint();
            let rest = best.log_upper + (heap.len() as f64).ln();
            if rest <= total.ln() + log_tolerance || examined >= MAX_PANELS || self.work > end {
                break;
            }
            examined += 1;
            let Some(Candidate { address, .. }) = heap.pop() else {
                break;
            };
            let lift = lifts[address.0];
            let so_far = total.ln();
            let piece = self.pieces[address.0].clone();
            let Self { panels, scratch, .. } = self;
            let Some(panel) = panels.get_mut(&address) else {
                continue;
            };
            self.work += VISIT + panel.cost / NODES as u64 * BOUNDS;
            let log_bound = panel.log_bound(c, y, lift) + panel.half_width.ln();
            let log_error = log_bound + GaussLegendre::log_error_factor();
            let upper = panel.log_upper(c, y, 0.0) + (2.0 * panel.half_width).ln();
            let mut good = log_error <= panel_tolerance + so_far.max(upper);
            if good {
                self.work += panel.cost;
            }
            if good && log_error > panel_tolerance + so_far {
                let points = panel.points(&piece, scratch);
                let mut value = LogSum::default();
                for point in points {
                    value.add(point.log_density + c * point.loss);
                }
                good = log_error <= panel_tolerance + so_far.max(value.ln());
            }
            if good {
                let points = panel.points(&piece, scratch);
                for point in points {
                    total.add(point.log_density + c * point.loss);
                }
                error.add(log_error);
                accepted.push(address);
            } else {
                let (i, level, index) = address;
                self.push(&mut heap, (i, level - 1, 2 * index), (c, y), lift);
                self.push(&mut heap, (i, level - 1, 2 * index + 1), (c, y), lift);
            }
        }
        for candidate in heap.drain() {
            error.add(candidate.log_upper);
        }
        self.collect(c, total.ln(), error.ln(), &accepted)
    }

    fn push(&mut self, heap: &mut BinaryHeap<Candidate>, address: Address, (c, y): (f64, f64), lift: f64) {
        let panel = self.panel(address);
        let log_upper = panel.log_upper(c, y, lift) + (2.0 * panel.half_width).ln();
        heap.push(Candidate { log_upper, address });
    }

    /// The law of the accepted panels.
    fn collect(&mut self, c: f64, log_total: f64, log_error: f64, accepted: &[Address]) -> Nodes {
        let mut nodes = Nodes {
            c,
            slopes: vec![0.0; self.pieces.len()],
            supports: vec![(f64::INFINITY, f64::NEG_INFINITY); self.pieces.len()],
            ..Nodes::default()
        };
        let mut piece_weights = vec![0.0; self.pieces.len()];
        let mut excess = 0.0; // E[e^{cℓ} − 1]
        let mut excess_size = 0.0;
        let mut sum = 0.0;
        let rule = GaussLegendre::get();
        for &address in accepted {
            let Some(panel) = self.panels.get(&address) else {
                continue;
            };
            let Some(points) = panel.points_if_known() else {
                continue;
            };
            let support = &mut nodes.supports[address.0];
            support.0 = support.0.min(panel.centre - panel.half_width);
            support.1 = support.1.max(panel.centre + panel.half_width);
            for (i, point) in points.iter().enumerate() {
                let tilt = c * point.loss;
                let weight = (point.log_density + tilt - log_total).exp();
                let change = if tilt < 1.0 {
                    point.log_density.exp() * tilt.exp_m1()
                } else {
                    (point.log_density + tilt).exp() - point.log_density.exp()
                };
                let weight_rounding = ROUNDINGS * (4.0 + point.log_density.abs());
                excess += change;
                excess_size += change.abs() * weight_rounding;
                if weight < 1e-30 {
                    continue;
                }
                sum += weight;
                nodes.mean += weight * point.loss;
                nodes.mean_size += weight * point.loss.abs();
                nodes.loss_rounding += weight * ROUNDINGS * point.size;
                nodes.weight_rounding.0 += weight * weight_rounding;
                nodes.weight_rounding.1 += weight * weight_rounding * point.loss.abs();
                nodes.slopes[address.0] += weight * point.slope;
                piece_weights[address.0] += weight;
                nodes.losses.push(point.loss);
                nodes.weights.push(weight);
                nodes
                    .outputs
                    .push((address.0, panel.centre + panel.half_width * rule.nodes[i]));
            }
        }
        for (slope, weight) in nodes.slopes.iter_mut().zip(&piece_weights) {
            *slope /= weight.max(f64::MIN_POSITIVE);
        }
        let mean = nodes.mean;
        let spread = |(weight, loss): (&f64, &f64)| weight * (loss - mean).powi(2);
        nodes.variance = nodes.weights.iter().zip(&nodes.losses).map(spread).sum();
        nodes.atom = (self.atom.ln() - log_total).exp();
        nodes.variance += nodes.atom * mean * mean;
        // The nodes dropped above weigh at most 1e-30 each.
        nodes.error = (log_error - log_total).exp() + 1e-30 * 32.0 * accepted.len() as f64;
        // E[e^{cℓ}] = 1 + E[e^{cℓ} − 1], unless a part of the law is on the other side of a gate.
        let gated = self.pieces.iter().any(|piece| piece.gate.is_some());
        let near_one = log_total.abs() < 0.5 && !gated;
        nodes.log_moment = if near_one { excess.ln_1p() } else { log_total };
        let rounding = if near_one {
            excess_size * (-log_total).exp()
        } else {
            // The sum of the weights, from which more may be missing.
            nodes.error / LEAST_CHANGE + nodes.weight_rounding.0 + ROUNDINGS * (1.0 + log_total.abs())
        };
        nodes.log_moment_error = 1.1 * (nodes.error + rounding) + c.abs() * nodes.loss_rounding;
        // The weights sum to 1 but for quadrature and rounding.
        let scale = 1.0 / (sum + nodes.atom);
        if (scale - 1.0).abs() > 1e-9 {
            nodes.error = f64::INFINITY; // the search stopped before it found the bulk
        }
        nodes
    }

    /// Lifts that make the bound of [`SmoothLoss::log_decay`] small at Im z = y.
    pub fn lifts(&self, nodes: &Nodes, y: f64) -> Vec<f64> {
        let of = |(i, piece): (usize, &Piece)| {
            let variance = piece.noise_multiplier().powi(2);
            // −y·a·slope + a²/2s² is least at a = ys²·slope; no sine of a·s/σ² may be negative, and the terms of r
            // that count must point within a right angle of one direction, with room for the panels.
            let best = y * piece.lift_scale().powi(2) * nodes.slopes[i];
            let spread = piece.widest_spread(nodes.supports[i]);
            best.min(0.7 / spread.max(f64::MIN_POSITIVE))
                .min(3.0 * variance / piece.largest_shift().max(f64::MIN_POSITIVE))
        };
        self.pieces.iter().enumerate().map(of).collect()
    }

    /// log of a bound on |E_P[e^{zℓ}]|/E_P[e^{cℓ}] for every z = c + iy' with |y'| ≥ y.
    ///
    /// The contour of integration over the output x is moved to x + ia (for y' < 0: x − ia, the mirror image).
    /// There |e^{iy'ℓ}| = e^{−y'θ(x)} with θ = arg r_P(x + ia) + arg r_Q(x + ia) ≥ 0, so that the integral of
    /// the modulus falls with y'. At a finite end of a piece the contour returns to the real line, which adds at most
    /// a times the modulus there.
    pub fn log_decay(&mut self, nodes: &Nodes, y: f64, lifts: &[f64]) -> f64 {
        let tables: Vec<Lift> = self.pieces.iter().zip(lifts).map(|(p, &a)| Lift::new(p, a)).collect();
        let Self {
            pieces, scratch, work, ..
        } = self;
        let mut change = 0.0;
        for (weight, &(i, x)) in nodes.weights.iter().zip(&nodes.outputs) {
            checkpoint();
            *work += 8;
            let lifted = pieces[i].lifted(x, &tables[i], scratch);
            *work += 2 * scratch.terms();
            let log_change = lifted.log_change(nodes.c, lifts[i], pieces[i].lift_scale());
            change += weight * (log_change - y * lifted.angle).exp_m1();
        }
        for (i, piece) in pieces.iter().enumerate() {
            let finite = [piece.start, piece.end].into_iter().filter(|end| end.is_finite());
            for end in finite {
                let point = piece.point(end, scratch);
                let lifted = piece.lifted(end, &tables[i], scratch);
                let log_change = lifted.log_change(nodes.c, lifts[i], piece.lift_scale());
                let log_weight = point.log_density + nodes.c * point.loss - nodes.log_moment;
                change += lifts[i] * (log_weight + log_change.max(0.0)).exp();
            }
        }
        (change + nodes.error + 1.1 * nodes.weight_rounding.0.min(1e-6)).ln_1p()
    }
}

/// Width of a panel of level 0: all of a bounded piece.
fn unit(piece: &Piece) -> f64 {
    if piece.start.is_finite() && piece.end.is_finite() {
        piece.end - piece.start
    } else {
        piece.noise_multiplier()
    }
}

/// Where the dyadic panels of a piece start.
fn origin(piece: &Piece) -> f64 {
    if piece.start.is_finite() {
        piece.start
    } else if piece.end.is_finite() {
        piece.end
    } else {
        0.0
    }
}
