//! Certified quadrature nodes of a smooth privacy loss, for moments E_P[e^{zℓ}] of complex order.
//!
//! The search is that of `special::adaptive`, for the integrand P·e^{zℓ} at all z = c + iy' with |y'| ≤ y at once (`loss::moment`
//! says why real powers of a ratio have an integrand of their own). What comes out is a discrete law whose moments are those of the loss up to a certified error. The nodes
//! also serve the integrand continued to x + ia (see [`SmoothLoss::log_decay`]): panels are certified with an ellipse that
//! reaches higher by a. A panel over which the path is partly on the real line is halved.

use crate::approx::Approx;
use crate::loss::line::MARGIN;
use crate::loss::nodes::Nodes;
use crate::loss::pair_panel::PanelPoints;
use crate::loss::path::Path;
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_panel::{COMPLETED, LEAST_CHANGE, PiecePanel};
use crate::loss::smooth_piece::Point;
use crate::special::adaptive::{self, Address, Integrand, RuleBounds, Tolerance};
use crate::special::compensated_sum::CompensatedSum;
use crate::special::gauss_legendre::{GaussLegendre, NODES};
use crate::special::log_space::log_add;

/// Maximum number of panels that one search examines; what is left then counts as error.
const MAX_PANELS: usize = 8_000;

/// Maximum number of terms of densities that one search evaluates: some 30 ms.
const MOST_WORK: u64 = 10_000_000;

/// Cost of examining a panel in terms of densities, and the number of evaluations that its bounds take.
const VISIT: u64 = 80;
const BOUNDS: u64 = 3;

/// Fraction of the tolerance that one panel may use.
const PANEL_SHARE: f64 = 1.0 / 64.0;

/// Nodes of a smaller tilted weight are dropped: what they add to φ is far below any tolerance and counts as error.
const NEGLIGIBLE_WEIGHT: f64 = 1e-30;

/// Units in the last place by which exponents may be wrong, with room: a few roundings each.
const ROUNDINGS: f64 = 8.0 * f64::EPSILON;

/// Outputs farther out than this, in σ, are not distinct numbers.
const FARTHEST: f64 = 1e15;

/// The integrand P·e^{zℓ} for Re z = c > −1, |Im z| ≤ y and paths up to the height of `paths[i]` in piece i.
struct Tilted<'a> {
    loss: &'a mut SmoothLoss,
    c: f64,
    y: f64,
    paths: &'a [Path],
    /// Work of the loss at which the search ends.
    limit: u64,
}

impl Tilted<'_> {
    /// The height of the path over a panel, and whether it is one height.
    fn height(&mut self, address: Address) -> (f64, bool) {
        let panel = self.loss.panel(address);
        let interval = panel.interval();
        let sigma = self.loss.pieces()[address.piece].noise_multiplier();
        self.paths[address.piece].height_over(interval, sigma)
    }
}

impl Integrand for Tilted<'_> {
    fn log_upper(&mut self, address: Address) -> f64 {
        let (height, _) = self.height(address);
        let panel = self.loss.panel(address);
        panel.log_upper(self.c, self.y, height) + (2.0 * panel.half_width()).ln()
    }

    fn rule_bounds(&mut self, address: Address) -> RuleBounds {
        let (height, is_level) = self.height(address);
        let panel = self.loss.panel(address);
        let log_bound = if is_level {
            panel.log_bound(self.c, self.y, height)
        } else {
            f64::INFINITY
        };
        let bounds = RuleBounds {
            log_error: GaussLegendre::log_error(log_bound, panel.half_width()),
            log_most: panel.log_upper(self.c, self.y, 0.0) + (2.0 * panel.half_width()).ln(),
        };
        let cost = VISIT + panel.cost() / NODES as u64 * BOUNDS;
        self.loss.work += cost;
        bounds
    }

    fn log_integral(&mut self, address: Address) -> f64 {
        let SmoothLoss {
            pieces,
            panels,
            scratch,
            work,
            ..
        } = &mut *self.loss;
        panels.get_mut(&address).map_or(f64::NEG_INFINITY, |panel| {
            *work += panel.cost();
            panel.tilted(self.c, &pieces[address.piece], scratch).log_integral
        })
    }

    fn is_exhausted(&self) -> bool {
        self.loss.work > self.limit
    }
}

impl SmoothLoss {
    /// Nodes for Re z = c > −1, |Im z| ≤ y and paths up to the height of `paths[i]` in piece i, leaving out at most e^`log_tolerance` of
    /// E_P[e^{cℓ}].
    pub(crate) fn nodes(&mut self, c: f64, y: f64, paths: &[Path], log_tolerance: f64) -> Nodes {
        let Some(roots) = self.roots(c) else {
            return Nodes::beyond_reach(c, self.pieces().len());
        };
        let tolerance = Tolerance {
            log_panel: log_tolerance + PANEL_SHARE.ln(),
            log_rest: log_tolerance,
            max_panels: MAX_PANELS,
        };
        let (log_atom, limit) = (self.atom().ln(), self.work + MOST_WORK);
        if log_atom == f64::NEG_INFINITY && tolerance.log_panel < GaussLegendre::log_least_relative_error() {
            // The first panel would have to be this accurate in relation to its own integral: however short, none is.
            return Nodes::beyond_reach(c, self.pieces().len());
        }
        let mut tilted = Tilted {
            loss: self,
            c,
            y,
            paths,
            limit,
        };
        let found = adaptive::integrate(&mut tilted, &roots, log_atom, &tolerance);
        let log_error = log_add(found.log_error, found.log_left_out);
        let accepted: Vec<Address> = found.accepted.iter().map(|panel| panel.address).collect();
        self.collect(c, found.log_total, log_error, &accepted)
    }

    /// Panels that cover all outputs that may count; `None` where these lie beyond the digits of an `f64`.
    fn roots(&self, c: f64) -> Option<Vec<Address>> {
        let mut roots = Vec::new();
        for piece in 0..self.pieces().len() {
            let of = &self.pieces()[piece];
            let sigma = of.noise_multiplier();
            let reach = of.largest_shift() / sigma * (2.0 + 2.0 * c.abs()) + MARGIN;
            if reach > FARTHEST {
                return None;
            }
            // The panels of a piece that was cut far out on one side start there, and the other side counts from 0.
            let start = (of.origin / sigma).abs();
            let level = (reach + start).log2().ceil() as i32;
            let from_left = of.start.is_infinite().then_some((level, -1));
            let panels = of.within(from_left.into_iter().chain([(level, 0)]).collect());
            roots.extend(panels.into_iter().map(|(level, index)| Address { piece, level, index }));
        }
        Some(roots)
    }

    /// The law of P at the nodes of a panel.
    pub(crate) fn points_of(&mut self, address: Address) -> Option<&PanelPoints> {
        self.panel(address);
        let Self {
            pieces,
            panels,
            scratch,
            ..
        } = self;
        let panel = panels.get_mut(&address)?;
        Some(panel.points(&pieces[address.piece], scratch))
    }

    fn panel(&mut self, address: Address) -> &mut PiecePanel {
        let has_gates = self.has_gates();
        let Self {
            pieces,
            lattices,
            panels,
            scratch,
            ..
        } = self;
        let piece = &pieces[address.piece];
        panels.entry(address).or_insert_with(|| {
            let mut panel = piece.panel(&lattices[address.piece], (address.level, address.index), scratch);
            panel.bounds_mass |= has_gates;
            panel
        })
    }

    /// The law of the accepted panels.
    fn collect(&self, c: f64, log_total: f64, log_error: f64, accepted: &[Address]) -> Nodes {
        let mut law = TiltedLaw::new(c, log_total, self.pieces().len());
        law.nodes.reserve(NODES * accepted.len());
        for address in accepted {
            if let Some(panel) = self.panels.get(address) {
                law.add_panel(address.piece, panel);
            }
        }
        // The nodes dropped weigh at most NEGLIGIBLE each.
        law.nodes.error = (log_error - log_total).exp() + NEGLIGIBLE_WEIGHT * NODES as f64 * accepted.len() as f64;
        law.finish(self.atom(), self.removed, self.has_gates())
    }
}

/// Sums over the nodes of accepted panels.
struct TiltedLaw {
    nodes: Nodes,
    log_total: f64,
    /// Weight of each piece.
    piece_weights: Vec<f64>,
    /// E[e^{cℓ} − 1], and the rounding error of its terms.
    excess: (CompensatedSum, f64),
    /// Sum of the weights.
    sum: f64,
    /// P-mass of all nodes, and the rounding error of its terms.
    mass: (CompensatedSum, f64),
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
            excess: (CompensatedSum::default(), 0.0),
            sum: 0.0,
            mass: (CompensatedSum::default(), 0.0),
        }
    }

    fn add_panel(&mut self, piece: usize, panel: &PiecePanel) {
        let Some((PanelPoints { points, masses }, tilted)) = panel.known() else {
            return;
        };
        let support = &mut self.nodes.supports[piece];
        let (low, high) = panel.interval();
        *support = (support.0.min(low), support.1.max(high));
        let outputs = GaussLegendre::get().points(panel.centre(), panel.half_width());
        let scale = (tilted.log_scale - self.log_total).exp();
        for (i, ((output, _), point)) in outputs.zip(points).enumerate() {
            let weight = scale * tilted.values[i];
            self.add_node((piece, output), point, weight, (masses[i], tilted.changes[i]));
        }
    }

    fn add_node(&mut self, (piece, output): (usize, f64), point: &Point, weight: f64, (mass, change): (f64, f64)) {
        let nodes = &mut self.nodes;
        let weight_rounding = ROUNDINGS * (4.0 + point.log_density.abs());
        self.mass.0.add(mass);
        self.mass.1 += mass * weight_rounding;
        self.excess.0.add(change);
        self.excess.1 += change.abs() * weight_rounding;
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

    /// The law with an atom of P-probability `atom` at 0, where P has the mass 1 less `removed` unless there are gates.
    fn finish(mut self, atom: f64, removed: Approx, has_gates: bool) -> Nodes {
        self.nodes.atom = (atom.ln() - self.log_total).exp();
        // The weights sum to 1 but for quadrature and rounding, which is counted below.
        let rounding = self.nodes.weight_rounding.0 + ROUNDINGS * (1.0 + self.log_total.abs());
        if (1.0 / (self.sum + self.nodes.atom) - 1.0).abs() > 1e-9 + 2.0 * rounding {
            self.nodes.error = f64::INFINITY; // the search stopped before it found the bulk
        }
        for (slope, weight) in self.nodes.slopes.iter_mut().zip(&self.piece_weights) {
            *slope /= weight.max(f64::MIN_POSITIVE);
        }
        if !has_gates && COMPLETED.contains(&self.log_total) {
            self.complete(removed);
        } else {
            self.count_missing(atom, removed, has_gates);
        }
        let nodes = &mut self.nodes;
        let mean = nodes.mean;
        let spread = |(weight, loss): (&f64, &f64)| weight * (loss - mean).powi(2);
        nodes.variance = nodes.weights.iter().zip(&nodes.losses).map(spread).sum();
        nodes.variance += nodes.atom * mean * mean;
        self.nodes
    }

    /// Puts the P-mass that the panels lack at a loss of 0.
    ///
    /// What the search bounds there is P·(e^{zℓ} − 1). So E[e^{zℓ}] = P + E[e^{zℓ} − 1] is P + Σ p_i (e^{zℓ_i} − 1), with P the whole
    /// mass and p_i that of a node, up to the certified error: the moment of the nodes and of P − Σ p_i at loss 0.
    fn complete(&mut self, removed: Approx) {
        let excess = Approx::new(self.excess.0.value(), self.excess.1) - removed;
        let log_moment = excess.value.ln_1p();
        let scale = (self.log_total - log_moment).exp();
        let nodes = &mut self.nodes;
        for weight in &mut nodes.weights {
            *weight *= scale;
        }
        for sum in [
            &mut nodes.atom,
            &mut nodes.error,
            &mut nodes.mean,
            &mut nodes.mean_size,
            &mut nodes.loss_rounding,
            &mut nodes.weight_rounding.0,
            &mut nodes.weight_rounding.1,
        ] {
            *sum *= scale;
        }
        nodes.atom += (1.0 - scale).max(0.0);
        let rounding = excess.error * (-log_moment).exp();
        let error = 1.1 * (nodes.error + rounding) + nodes.c.abs() * nodes.loss_rounding;
        nodes.log_moment = Approx::new(log_moment, error);
    }

    /// Bounds the tilted mass that the panels lack where it is not known, as what P has beyond all nodes has too few digits.
    fn count_missing(&mut self, atom: f64, removed: Approx, has_gates: bool) {
        let nodes = &mut self.nodes;
        nodes.missing = if has_gates {
            0.0 // the bounds are on P·e^{zℓ} itself
        } else {
            let lacking = Approx::exact(1.0 - atom) - removed - Approx::new(self.mass.0.value(), self.mass.1);
            let by_mass = (lacking.value.abs() + lacking.error) * (-self.log_total).exp();
            by_mass.min(nodes.error / LEAST_CHANGE)
        };
        // The sum over the panels rounds with each of them, and with each new scale.
        let panels = 1.0 + (nodes.losses.len() / NODES) as f64;
        let rounding = nodes.missing
            + nodes.weight_rounding.0
            + ROUNDINGS * (1.0 + self.log_total.abs())
            + f64::EPSILON * panels;
        let error = 1.1 * (nodes.error + rounding) + nodes.c.abs() * nodes.loss_rounding;
        nodes.log_moment = Approx::new(self.log_total, error);
    }
}

impl SmoothLoss {
    /// Whether a piece is behind a gate.
    pub(crate) fn has_gates(&self) -> bool {
        self.pieces().iter().any(|piece| piece.gate.is_some())
    }
}

#[cfg(test)]
mod tests;
