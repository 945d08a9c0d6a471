//! Certified quadrature nodes of a smooth privacy loss, for moments E_P[e^{zℓ}] of complex order.
//!
//! The search is best-first over dyadic panels, as in `loss::moment`, but for the integrand P·e^{zℓ} at all z = c + iy' with
//! |y'| ≤ y at once. What comes out is a discrete law whose moments are those of the loss up to a certified error. The nodes
//! also serve the integrand continued to x + ia (see [`SmoothLoss::log_decay`]): panels are certified with an ellipse that
//! reaches higher by a.

use crate::approx::Approx;
use crate::loss::nodes::Nodes;
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_panel::{Address, LEAST_CHANGE, PiecePanel};
use crate::loss::smooth_piece::{Piece, Point};
use crate::special::gauss_legendre::{GaussLegendre, NODES};
use crate::special::log_space::LogSum;
use crate::stopping::checkpoint;
use std::collections::BinaryHeap;

/// Maximum number of panels that one search examines; what is left then counts as error.
const MAX_PANELS: usize = 8_000;

/// Maximum number of terms of densities that one search evaluates: some 30 ms.
const MOST_WORK: u64 = 10_000_000;

/// Cost of examining a panel in terms of densities, and the number of evaluations that its bounds take.
const VISIT: u64 = 80;
const BOUNDS: u64 = 3;

/// How far beyond the outermost possible peak the line is searched, in σ.
const MARGIN: f64 = 40.0;

/// Fraction of the tolerance that one panel may use.
const PANEL_SHARE: f64 = 1.0 / 64.0;

/// Nodes of a smaller tilted weight are dropped: what they add to φ is far below any tolerance and counts as error.
const NEGLIGIBLE_WEIGHT: f64 = 1e-30;

/// Units in the last place by which exponents may be wrong, with room: a few roundings each.
const ROUNDINGS: f64 = 8.0 * f64::EPSILON;

/// A panel that waits, with the log of a bound on its part of the integral.
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

/// Outputs farther out than this, in σ, are not distinct numbers.
const FARTHEST: f64 = 1e15;

/// What nodes are asked for: Re z = c > −1, |Im z| ≤ y, imaginary shifts of up to `imaginary_shifts[i]` in piece i, leaving out
/// at most e^`log_tolerance` of E_P[e^{cℓ}].
struct Question<'a> {
    c: f64,
    y: f64,
    imaginary_shifts: &'a [f64],
    log_tolerance: f64,
}

/// The state of a search.
#[derive(Default)]
struct Search {
    /// Panels that are neither integrated nor halved, by the largest possible contribution.
    heap: BinaryHeap<Candidate>,
    /// The integral so far.
    total: LogSum,
    /// Certified errors so far.
    error: LogSum,
    accepted: Vec<Address>,
}

impl Search {
    /// log of a bound on what is left in the heap.
    fn log_rest(&self) -> Option<f64> {
        Some(self.heap.peek()?.log_upper + (self.heap.len() as f64).ln())
    }
}

impl SmoothLoss {
    /// Nodes for Re z = c > −1, |Im z| ≤ y and imaginary shifts of up to `imaginary_shifts[i]` in piece i, leaving out at most
    /// e^`log_tolerance` of E_P[e^{cℓ}].
    pub(crate) fn nodes(&mut self, c: f64, y: f64, imaginary_shifts: &[f64], log_tolerance: f64) -> Nodes {
        let question = Question {
            c,
            y,
            imaginary_shifts,
            log_tolerance,
        };
        let mut search = Search::default();
        if self.start(&mut search, &question).is_none() {
            return Nodes::beyond_reach(c, self.pieces().len());
        }
        search.total.add(self.atom().ln());
        let mut examined = 0;
        let end = self.work + MOST_WORK;
        while let Some(rest) = search.log_rest() {
            checkpoint();
            if rest <= search.total.ln() + log_tolerance || examined >= MAX_PANELS || self.work > end {
                break;
            }
            examined += 1;
            let Some(Candidate { address, .. }) = search.heap.pop() else {
                break;
            };
            if !self.accept(&mut search, address, &question) {
                let (i, level, index) = address;
                self.push(&mut search, (i, level - 1, 2 * index), &question);
                self.push(&mut search, (i, level - 1, 2 * index + 1), &question);
            }
        }
        for candidate in search.heap.drain() {
            search.error.add(candidate.log_upper);
        }
        self.collect(c, search.total.ln(), search.error.ln(), &search.accepted)
    }

    /// Panels that cover all outputs that may count; `None` where these lie beyond the digits of an `f64`.
    fn start(&mut self, search: &mut Search, question: &Question<'_>) -> Option<()> {
        for i in 0..question.imaginary_shifts.len() {
            let piece = &self.pieces()[i];
            let reach = piece.largest_shift() / piece.noise_multiplier() * (2.0 + 2.0 * question.c.abs()) + MARGIN;
            if reach > FARTHEST {
                return None;
            }
            let level = reach.log2().ceil() as i32;
            let (from_left, to_right) = (piece.start.is_infinite(), piece.end.is_infinite());
            if !from_left && !to_right {
                self.push(search, (i, 0, 0), question);
                continue;
            }
            for index in [-1, 0] {
                if (index == -1 && from_left) || (index == 0 && to_right) {
                    self.push(search, (i, level, index), question);
                }
            }
        }
        Some(())
    }

    /// Adds a panel to those that wait.
    fn push(&mut self, search: &mut Search, address: Address, question: &Question<'_>) {
        let imaginary_shift = question.imaginary_shifts[address.0];
        let panel = self.panel(address);
        let log_upper = panel.log_upper(question.c, question.y, imaginary_shift) + (2.0 * panel.half_width).ln();
        search.heap.push(Candidate { log_upper, address });
    }

    /// Integrates a panel if the rule is certified to be accurate there.
    fn accept(&mut self, search: &mut Search, address: Address, question: &Question<'_>) -> bool {
        let &Question {
            c, y, imaginary_shifts, ..
        } = question;
        let tolerance = question.log_tolerance + PANEL_SHARE.ln();
        let so_far = search.total.ln();
        let piece = self.pieces()[address.0].clone();
        let Self {
            panels, scratch, work, ..
        } = self;
        let Some(panel) = panels.get_mut(&address) else {
            return true;
        };
        *work += VISIT + panel.cost / NODES as u64 * BOUNDS;
        let log_bound = panel.log_bound(c, y, imaginary_shifts[address.0]) + panel.half_width.ln();
        let log_error = log_bound + GaussLegendre::log_error_factor();
        // No use evaluating where even the largest possible integral would not make the error small enough.
        let upper = panel.log_upper(c, y, 0.0) + (2.0 * panel.half_width).ln();
        let may_do = log_error <= tolerance + so_far.max(upper);
        if !may_do {
            return false;
        }
        *work += panel.cost;
        let points = panel.points(&piece, scratch);
        let tilted = |point: &Point| point.log_density + c * point.loss;
        if log_error > tolerance + so_far {
            let mut value = LogSum::default();
            for point in points {
                value.add(tilted(point));
            }
            let does = log_error <= tolerance + so_far.max(value.ln());
            if !does {
                return false;
            }
        }
        for point in points {
            search.total.add(tilted(point));
        }
        search.error.add(log_error);
        search.accepted.push(address);
        true
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

    /// The law of the accepted panels.
    fn collect(&self, c: f64, log_total: f64, log_error: f64, accepted: &[Address]) -> Nodes {
        let mut law = TiltedLaw::new(c, log_total, self.pieces().len());
        for address in accepted {
            if let Some(panel) = self.panels.get(address) {
                law.add_panel(address.0, panel);
            }
        }
        // The nodes dropped weigh at most NEGLIGIBLE each.
        law.nodes.error = (log_error - log_total).exp() + NEGLIGIBLE_WEIGHT * NODES as f64 * accepted.len() as f64;
        // E[e^{cℓ}] = 1 + E[e^{cℓ} − 1], unless a part of the law is on the other side of a gate.
        let is_whole = self.pieces().iter().all(|piece| piece.gate.is_none());
        law.finish(self.atom(), is_whole)
    }
}

/// Sums over the nodes of accepted panels.
struct TiltedLaw {
    nodes: Nodes,
    log_total: f64,
    /// Weight of each piece.
    piece_weights: Vec<f64>,
    /// E[e^{cℓ} − 1], and a bound on its rounding error.
    excess: f64,
    excess_rounding: f64,
    /// Sum of the weights.
    sum: f64,
}

impl TiltedLaw {
    fn new(c: f64, log_total: f64, pieces: usize) -> Self {
        Self {
            nodes: Nodes {
                c,
                slopes: vec![0.0; pieces],
                supports: vec![(f64::INFINITY, f64::NEG_INFINITY); pieces],
                ..Nodes::default()
            },
            log_total,
            piece_weights: vec![0.0; pieces],
            excess: 0.0,
            excess_rounding: 0.0,
            sum: 0.0,
        }
    }

    fn add_panel(&mut self, piece: usize, panel: &PiecePanel) {
        let Some(points) = panel.points_if_known() else {
            return;
        };
        let support = &mut self.nodes.supports[piece];
        support.0 = support.0.min(panel.centre - panel.half_width);
        support.1 = support.1.max(panel.centre + panel.half_width);
        for (node, point) in GaussLegendre::get().nodes.iter().zip(points) {
            self.add_node(piece, panel.centre + panel.half_width * node, point);
        }
    }

    fn add_node(&mut self, piece: usize, output: f64, point: &Point) {
        let nodes = &mut self.nodes;
        let tilt = nodes.c * point.loss;
        let weight = (point.log_density + tilt - self.log_total).exp();
        let change = if tilt < 1.0 {
            point.log_density.exp() * tilt.exp_m1()
        } else {
            (point.log_density + tilt).exp() - point.log_density.exp()
        };
        let weight_rounding = ROUNDINGS * (4.0 + point.log_density.abs());
        self.excess += change;
        self.excess_rounding += change.abs() * weight_rounding;
        if weight < NEGLIGIBLE_WEIGHT {
            return;
        }
        self.sum += weight;
        nodes.mean += weight * point.loss;
        nodes.mean_size += weight * point.loss.abs();
        nodes.loss_rounding += weight * ROUNDINGS * point.size;
        nodes.weight_rounding.0 += weight * weight_rounding;
        nodes.weight_rounding.1 += weight * weight_rounding * point.loss.abs();
        nodes.slopes[piece] += weight * point.slope;
        self.piece_weights[piece] += weight;
        nodes.losses.push(point.loss);
        nodes.weights.push(weight);
        nodes.outputs.push((piece, output));
    }

    /// The law with an atom of P-probability `atom` at 0; `is_whole` if P has mass 1.
    fn finish(self, atom: f64, is_whole: bool) -> Nodes {
        let Self {
            mut nodes, log_total, ..
        } = self;
        for (slope, weight) in nodes.slopes.iter_mut().zip(&self.piece_weights) {
            *slope /= weight.max(f64::MIN_POSITIVE);
        }
        let mean = nodes.mean;
        let spread = |(weight, loss): (&f64, &f64)| weight * (loss - mean).powi(2);
        nodes.variance = nodes.weights.iter().zip(&nodes.losses).map(spread).sum();
        nodes.atom = (atom.ln() - log_total).exp();
        nodes.variance += nodes.atom * mean * mean;
        let near_one = log_total.abs() < 0.5 && is_whole;
        let log_moment = if near_one { self.excess.ln_1p() } else { log_total };
        let rounding = if near_one {
            self.excess_rounding * (-log_total).exp()
        } else {
            // The sum of the weights, from which more may be missing.
            nodes.error / LEAST_CHANGE + nodes.weight_rounding.0 + ROUNDINGS * (1.0 + log_total.abs())
        };
        let error = 1.1 * (nodes.error + rounding) + nodes.c.abs() * nodes.loss_rounding;
        nodes.log_moment = Approx::new(log_moment, error);
        // The weights sum to 1 but for quadrature and rounding.
        let scale = 1.0 / (self.sum + nodes.atom);
        if (scale - 1.0).abs() > 1e-9 {
            nodes.error = f64::INFINITY; // the search stopped before it found the bulk
        }
        nodes
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::MixturePair;
    use crate::loss::characteristic_function::smooth_changes;
    use crate::step::{Direction, GroupLaw};
    use realfft::num_complex::Complex64;
    use std::sync::Arc;

    fn loss(records: u64, rate: f64, sigma: f64, direction: Direction) -> SmoothLoss {
        let piece = Piece {
            pair: Arc::new(MixturePair::new(&GroupLaw::binomial(records, rate).unwrap(), sigma).unwrap()),
            in_p: direction == Direction::Remove,
            in_q: direction == Direction::Add,
            start: f64::NEG_INFINITY,
            end: f64::INFINITY,
            gate: None,
        };
        SmoothLoss::new(vec![piece], 0.0)
    }

    /// mpmath, 34 digits, with r(x) = sum(w[j]*exp((j*x - j*j/2)/sigma**2)), N(x) the density of the noise and
    /// g = N*r**(1+z) for "remove", N*r**(-z) for "add": log(quad(g(c))) and quad(g(c+iy))/quad(g(c)).
    #[test]
    fn moments_of_complex_order_are_within_their_errors() {
        use Direction::{Add, Remove};
        #[rustfmt::skip]
        let cases = [
            (1, 0.02, 0.9, Remove, -0.4, 1.5, -1.064_591_499_733_293_3e-4, 0.999_004_645_929_669_4, 0.000_034_240_728_748_371_72),
            (1, 0.02, 0.9, Remove, 0.5, 4.0, 0.000_352_478_678_502_695_1, 0.992_334_113_981_248_4, 0.001_802_325_507_956_488_4),
            (1, 0.02, 0.9, Remove, 6.0, 2.0, 0.287_669_067_708_129_34, 0.758_290_294_607_099_7, 0.031_939_401_228_694_216),
            (1, 0.02, 0.9, Add, -0.4, 1.5, -0.000_105_201_875_898_173_26, 0.999_038_413_038_814_2, 0.000_223_401_780_332_422_62),
            (1, 0.02, 0.9, Add, 0.5, 4.0, 3.127_240_678_712_841e-4, 0.994_330_692_384_366_5, 0.004_314_892_550_693_498_7),
            (1, 0.02, 0.9, Add, 6.0, 2.0, 0.013_908_614_914_937_441, 0.999_150_756_075_704_2, 0.007_696_193_946_789_47),
            (3, 0.1, 2.0, Remove, -0.4, 1.5, -0.002_885_716_297_033_246, 0.973_379_201_379_051_1, 0.000_325_200_248_907_815_2),
            (3, 0.1, 2.0, Remove, 0.5, 4.0, 0.009_670_261_122_896_837, 0.808_337_935_524_907_4, 0.030_554_423_001_404_27),
            (3, 0.1, 2.0, Remove, 6.0, 2.0, 2.259_084_355_711_782, 0.102_420_821_477_402_98, 0.122_972_305_048_037_52),
        ];
        for (k, q, sigma, direction, c, y, log_moment, real, imaginary) in cases {
            let mut loss = loss(k, q, sigma, direction);
            let named = format!("{k} {direction:?} {c}");
            for log_tolerance in [-8.0, -20.0, -33.0] {
                let nodes = loss.nodes(c, y, &[0.0], log_tolerance);
                let wrong = (nodes.log_moment.value - log_moment).abs();
                assert!(wrong <= nodes.log_moment.error, "{named} {log_tolerance}: {nodes:?}");
                let change = smooth_changes(&nodes, y, 1)[1];
                let wrong = (1.0 + change.value - Complex64::new(real, imaginary)).norm();
                assert!(wrong <= change.error, "{named} {log_tolerance}: {wrong} {change:?}");
                // The search does not leave out much more than it may.
                assert!(
                    nodes.error <= 2.0 * f64::exp(log_tolerance) + 1e-14,
                    "{named}: {}",
                    nodes.error
                );
            }
            let nodes = loss.nodes(c, y, &[0.0], -33.0);
            assert!(
                nodes.log_moment.error <= 1e-12 * (1.0 + log_moment.abs()),
                "{named}: {}",
                nodes.log_moment.error
            );
        }
    }

    #[test]
    fn outputs_beyond_the_digits_of_a_number_are_not_searched() {
        let nodes = loss(1, 0.02, 0.9, Direction::Remove).nodes(1e16, 0.0, &[0.0], -20.0);
        assert!(nodes.error.is_infinite() && nodes.log_moment.error.is_infinite() && nodes.losses.is_empty());
    }

    /// Answers and their cost are the same whatever was asked before.
    #[test]
    fn earlier_questions_change_neither_answers_nor_costs() {
        let mut fresh = loss(2, 0.1, 1.0, Direction::Add);
        let alone = fresh.nodes(0.7, 3.0, &[0.0], -25.0);
        let alone_work = fresh.work;
        let mut used = loss(2, 0.1, 1.0, Direction::Add);
        used.nodes(5.0, 40.0, &[0.2], -30.0);
        let before = used.work;
        let again = used.nodes(0.7, 3.0, &[0.0], -25.0);
        assert_eq!((again.weights, again.losses), (alone.weights, alone.losses));
        assert_eq!(used.work - before, alone_work);
    }
}
