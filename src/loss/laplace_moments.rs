//! Certified quadrature nodes of a Laplace loss, for moments E_P[e^{zℓ}] of complex order.
//!
//! The loss has atoms and, between whole numbers, smooth pieces, on which r(x) = A + Be^{2x/b} and the integrand is
//! r^{p}e^{−x/b}/2b with p = 1 + z for "remove" and p = −z for "add".

use crate::approx::Approx;
use crate::loss::laplace::{Branch, LaplaceLoss, Missing};
use crate::loss::laplace_law::{Part, ROUNDINGS, change_without_tilt, law_of, tilted_masses};
use crate::loss::laplace_sums::Knot;
use crate::loss::loss_curve::Atom;
use crate::loss::nodes::Nodes;
use crate::special::adaptive::{self, Address, Found, Integrand, RuleBounds, Tolerance};
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES, REAL_AXIS};
use crate::special::log_space::{LogSum, log_add, log_sum_exp};
use crate::step::Direction;
use rustc_hash::FxHashMap;

/// A panel is integrated where the integrand is at most e^[`MOST_GROWTH`] times as large on its ellipse: no bound on its error but that. What
/// is left out is at most e^-60 of the moment; half of this number would leave out more than rounding does. Half of the panels would not do for
/// groups of thousands.
const TOLERANCE: Tolerance = Tolerance {
    log_panel: 0.0,
    log_rest: -60.0,
    max_panels: 40_000,
};
/// log of how much larger the integrand may be on a panel's Bernstein ellipse than on the panel. The rule's error factor is
/// e^-52, so that its error is below e^-40 of the integrand; twice the value would leave e^-28.
const MOST_GROWTH: f64 = 12.0;
/// log of how much larger the integrand may be on a panel's ellipse where rules serve the transform alone: errors are then bounded one by one, so
/// that panels of little mass may be wide. The bound is e^−7 of the panel at least.
const MOST_GROWTH_OF_TRANSFORM: f64 = 45.0;
/// log of the part of the errors of a transform that one of its panels may have, and of what may be left out.
const LOG_PART_OF_PANEL: f64 = -8.0;
const LOG_PART_OF_REST: f64 = -3.0;
/// Errors of a transform below e^−36 are lost in rounding.
pub(crate) const LEAST_LOG_TOLERANCE: f64 = -36.0;
/// Maximum number of stretches into which one piece is cut.
const MOST_STRETCHES: f64 = 32.0;

impl LaplaceLoss {
    /// Nodes for Re z = c > −1 and |Im z| ≤ y; the error is large where that would take too many panels.
    ///
    /// **The ellipse.** On that of a panel of half-width w ≤ b/2, with real and imaginary reach d beyond the panel and h from
    /// the axis, the angle of e^{2x/b} is at most θ = 2h/b < 1. Let s be the largest fraction that Be^{2x/b} makes up of r
    /// there. log r changes by at most 2ds/b beyond the panel; |r| is at least κ = max(cos(θ/2), 1 − s(1 − cos θ)) of r at the real part, as
    /// its real part is A + Be^{2x/b} cos θ; arg r ≤ θs/cos θ, as tan arg r = Be^{2x/b} sin θ/(A + Be^{2x/b} cos θ). So the integrand grows
    /// by at most
    ///
    /// > e^{2d|p|s/b + d/b − |p| log κ + |y|·min(θ, θs/cos θ)}.
    ///
    /// Panels are halved until that is at most e^12. The search takes those first on which the integrand may be largest, and ends when all
    /// others together are at most e^-60 of the moment.
    ///
    /// **The moment.** E[e^{cℓ}] = 1 + E[e^{cℓ} − 1], and as E[e^{−ℓ}] = 1 the latter is E[e^{cℓ} − 1 + c(e^{−ℓ} − 1)], whose
    /// integrand is not negative for c > 0: it keeps its digits where all losses are small and their mean is far smaller. Most of
    /// P's own mass may lie on panels that were left out because e^{cℓ} is next to 0 there; their part, −P − c(P − Q), is added in
    /// closed form.
    pub(crate) fn nodes(&mut self, c: f64, y: f64) -> Nodes {
        self.nodes_for((c, y), TOLERANCE, MOST_GROWTH)
    }

    /// Nodes for a transform, with errors of about e^`log_tolerance` of the moment up to y; the moment itself has an error of that size, too.
    pub(crate) fn nodes_of_transform(&mut self, c: f64, y: f64, log_tolerance: f64) -> Nodes {
        let log_tolerance = log_tolerance.max(LEAST_LOG_TOLERANCE);
        let tolerance = Tolerance {
            log_panel: log_tolerance + LOG_PART_OF_PANEL,
            log_rest: log_tolerance + LOG_PART_OF_REST,
            ..TOLERANCE
        };
        self.nodes_for((c, y), tolerance, MOST_GROWTH_OF_TRANSFORM)
    }

    fn nodes_for(&mut self, (c, y): (f64, f64), tolerance: Tolerance, most_growth: f64) -> Nodes {
        let stretches = self.stretches();
        let mut tilted = TiltedDensity::new(self, (c, y), most_growth);
        let level = -(stretches.trailing_zeros() as i32);
        let roots: Vec<Address> = tilted
            .pieces
            .iter()
            .enumerate()
            .flat_map(|(number, &(_, _, piece))| {
                let root = move |i: usize| Address {
                    piece: number,
                    level,
                    index: (piece * stretches + i) as i64,
                };
                (0..stretches).map(root)
            })
            .collect();
        let log_atoms = log_sum_exp(
            &tilted
                .atoms
                .iter()
                .map(|atom| atom.log_mass + c * atom.loss)
                .collect::<Vec<_>>(),
        );
        let found = adaptive::integrate(&mut tilted, &roots, log_atoms, &tolerance);
        let (evaluated, nodes) = (tilted.nodes.len(), tilted.law(&found));
        self.add_work(evaluated * NODES);
        nodes
    }

    /// Every smooth piece of every branch, with the branch's place.
    pub(crate) fn all_pieces(&self) -> Vec<(usize, Branch, usize)> {
        let of = |(index, &branch): (usize, &Branch)| {
            (branch.first..self.pieces())
                .map(move |piece| (index, branch, piece))
                .collect::<Vec<_>>()
        };
        self.branches().iter().enumerate().flat_map(of).collect()
    }

    /// Stretches of one piece, a power of two: where next to nobody takes part the loss hardly changes, which must not count
    /// against the rest of the piece.
    pub(crate) fn stretches(&self) -> usize {
        (2.0 / self.scale())
            .log2()
            .ceil()
            .clamp(0.0, MOST_STRETCHES.log2())
            .exp2() as usize
    }

    /// log of how much larger the integrand can be on the ellipse of a panel than on the panel.
    fn growth(&self, direction: Direction, (piece, end, half): (usize, f64, f64), (c, y): (f64, f64)) -> f64 {
        let b = self.scale();
        if half > 0.5 * b {
            return f64::INFINITY;
        }
        let power = power(direction, c).abs().max(1.0); // P and Q themselves are integrated too
        let beyond = (REAL_AXIS - 1.0) * half / b;
        let angle = 2.0 * IMAGINARY_AXIS * half / b;
        let (_, slope) = self.log_ratio(piece, end);
        let fraction = (0.5 * b * slope * (2.0 * beyond).exp()).min(1.0);
        let turn = angle * (fraction / angle.cos()).min(1.0);
        // 1 − cos θ = 2 sin²(θ/2).
        let smaller = (2.0 * fraction * (0.5 * angle).sin().powi(2)).min(1.0 - (0.5 * angle).cos());
        (2.0 * power * fraction + 1.0) * beyond - power * (-smaller).ln_1p() + y * turn
    }

    /// P's mass on [start, end] of a piece.
    fn mass_between(&self, direction: Direction, piece: usize, (start, end): (f64, f64)) -> Approx {
        let (b, factor) = (self.scale(), self.log_factor());
        let width = -(-(end - start) / b).exp_m1(); // 1 − e^{−(v−u)/b}
        let part = |exponent: f64, error: f64| {
            let mass = 0.5 * exponent.exp() * width;
            let size = if mass > 0.0 { exponent.abs() + start / b } else { 0.0 };
            Approx::new(mass, mass * (ROUNDINGS * (4.0 + size) + error + factor.error))
        };
        match direction {
            Direction::Add => part(factor.value - start / b, 0.0),
            Direction::Remove => {
                // ∫ (A + Be^{2x/b})e^{−x/b}/2b
                let Knot { constant, rising, .. } = self.knots[piece];
                part(factor.value + constant.value - start / b, constant.error)
                    + part(factor.value + rising.value + end / b, rising.error)
            }
        }
    }

    /// An upper bound on the logs of the densities of P and Q on [start, end] of a piece.
    fn most_untilted(&self, piece: usize, start: f64, end: f64) -> f64 {
        let (log_ratio, _) = self.log_ratio(piece, end);
        log_ratio.max(0.0) - (2.0 * self.scale()).ln() - start / self.scale() + self.log_factor().upper()
    }

    /// An upper bound on the log of the tilted density on [start, end] of a piece: log r grows with x.
    fn most_tilted(&self, direction: Direction, (piece, start, end): (usize, f64, f64), c: f64) -> f64 {
        let power = power(direction, c);
        let (log_ratio, _) = self.log_ratio(piece, if power > 0.0 { end } else { start });
        power * log_ratio - (2.0 * self.scale()).ln() - start / self.scale() + self.log_factor().upper()
    }
}

/// Outputs [start, end] of a piece of a branch.
struct Panel {
    /// Place of the branch.
    index: usize,
    direction: Direction,
    piece: usize,
    start: f64,
    end: f64,
}

/// The tilted density of the outputs between the atoms, for Re z = c and |Im z| ≤ y, and the nodes on panels where it was integrated.
struct TiltedDensity<'a> {
    loss: &'a LaplaceLoss,
    /// Place of the branch, branch and piece; an [`Address`] has their number.
    pieces: Vec<(usize, Branch, usize)>,
    c: f64,
    y: f64,
    /// log of how much larger it may be on the ellipse of a panel than on the panel.
    most_growth: f64,
    atoms: Vec<Part>,
    nodes: FxHashMap<Address, Vec<Part>>,
}

impl<'a> TiltedDensity<'a> {
    fn new(loss: &'a LaplaceLoss, (c, y): (f64, f64), most_growth: f64) -> Self {
        let atom = |&Atom { loss: value, log_mass }: &Atom| Part {
            loss: value,
            log_mass,
            error: loss.atom_error(),
            output: (0, 0.0),
        };
        Self {
            loss,
            pieces: loss.all_pieces(),
            c,
            y,
            most_growth,
            atoms: loss.atoms().iter().map(atom).collect(),
            nodes: FxHashMap::default(),
        }
    }

    fn panel(&self, address: Address) -> Panel {
        let (index, branch, piece) = self.pieces[address.piece];
        let (middle, half) = address.centre_and_half_width(1.0);
        Panel {
            index,
            direction: branch.direction,
            piece,
            start: middle - half,
            end: middle + half,
        }
    }

    /// log of how much larger the integrand may be on the ellipse of a panel than on the panel.
    fn growth(&self, panel: &Panel) -> f64 {
        let half = 0.5 * (panel.end - panel.start);
        self.loss
            .growth(panel.direction, (panel.piece, panel.end, half), (self.c, self.y))
    }

    /// The part of E[e^{cℓ} − 1] on a panel where e^{cℓ} is next to nothing.
    fn left_out(&self, panel: &Panel) -> Approx {
        let of = |direction| self.loss.mass_between(direction, panel.piece, (panel.start, panel.end));
        let (plain, mixed) = (of(Direction::Add), of(Direction::Remove));
        match panel.direction {
            Direction::Add => change_without_tilt(self.c, plain, mixed),
            Direction::Remove => change_without_tilt(self.c, mixed, plain),
        }
    }

    /// log of the error of the rule over a panel in the parts of E[e^{cℓ} − 1 + c(e^{−ℓ} − 1)] that are not tilted.
    fn untilted_error(&self, panel: &Panel) -> f64 {
        let of_rule = GaussLegendre::log_error(self.growth(panel), 0.5 * (panel.end - panel.start));
        self.loss.most_untilted(panel.piece, panel.start, panel.end) + (1.0 + 2.0 * self.c.abs()).ln() + of_rule
    }

    /// The atoms and the nodes of the accepted panels, in the order of the outputs.
    fn law(mut self, found: &Found) -> Nodes {
        let mut panels: Vec<Address> = found.accepted.iter().map(|accepted| accepted.address).collect();
        panels.sort_by(|a, b| {
            let place = |address: &Address| address.centre_and_half_width(1.0).0;
            a.piece.cmp(&b.piece).then(place(a).total_cmp(&place(b)))
        });
        let (mut parts, mut untilted, mut left_out) =
            (std::mem::take(&mut self.atoms), LogSum::default(), Approx::default());
        for address in panels {
            untilted.add(self.untilted_error(&self.panel(address)));
            parts.extend(self.nodes.remove(&address).unwrap_or_default());
        }
        for &address in &found.left_out {
            left_out += self.left_out(&self.panel(address));
        }
        if let Some(Missing { p, q, .. }) = self.loss.missing {
            left_out += change_without_tilt(self.c, p, q);
        }
        left_out.error += untilted.ln().exp();
        let log_error = log_add(found.log_error, found.log_left_out);
        law_of(&parts, left_out, self.c, (log_error, self.loss.log_factor().error))
    }
}

impl Integrand for TiltedDensity<'_> {
    fn log_upper(&mut self, address: Address) -> f64 {
        let Panel {
            direction,
            piece,
            start,
            end,
            ..
        } = self.panel(address);
        self.loss.most_tilted(direction, (piece, start, end), self.c) + (end - start).ln()
    }

    fn rule_bounds(&mut self, address: Address) -> RuleBounds {
        let panel = self.panel(address);
        let (log_most, growth) = (self.log_upper(address), self.growth(&panel));
        // log_most is that of a function at its largest all over the panel, twice half a width.
        let log_error = GaussLegendre::log_error(growth + log_most, 0.5);
        RuleBounds {
            log_error: if growth > self.most_growth {
                f64::INFINITY
            } else {
                log_error
            },
            log_most,
        }
    }

    fn log_integral(&mut self, address: Address) -> f64 {
        let Panel {
            index,
            direction,
            piece,
            start,
            end,
        } = self.panel(address);
        let (rule, half) = (GaussLegendre::get(), 0.5 * (end - start));
        let outputs = rule.nodes.map(|node| 0.5 * (start + end) + half * node);
        let log_half = half.ln();
        let log_ratios = self.loss.log_ratios(piece, &outputs);
        let node = |i: usize| {
            let (x, log_ratio) = (outputs[i], log_ratios[i]);
            Part {
                loss: direction.sign() * log_ratio.value,
                log_mass: self.loss.log_density(direction, x, log_ratio.value) + rule.log_weights[i] + log_half,
                error: log_ratio.error,
                output: (index, x),
            }
        };
        let nodes: Vec<Part> = (0..NODES).map(node).collect();
        let (_, _, log_integral) = tilted_masses(&nodes, self.c);
        self.nodes.insert(address, nodes);
        log_integral
    }
}

/// The power of r in r^p e^{−x/b} at tilt c.
fn power(direction: Direction, c: f64) -> f64 {
    match direction {
        Direction::Remove => 1.0 + c,
        Direction::Add => -c,
    }
}

#[cfg(test)]
mod tests;
