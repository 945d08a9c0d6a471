//! Certified quadrature nodes of a Laplace loss, for moments E_P[e^{zℓ}] of complex order.
//!
//! The loss has atoms and, between whole numbers, smooth pieces, on which r(x) = A + Be^{2x/b} and the integrand is
//! r^{p}e^{−x/b}/2b with p = 1 + z for "remove" and p = −z for "add".

use crate::approx::Approx;
use crate::loss::laplace::{Branch, LaplaceLoss};
use crate::loss::laplace_sums::Knot;
use crate::loss::nodes::Nodes;
use crate::loss::power_excess::PowerExcess;
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES, REAL_AXIS};
use crate::special::log_space::LogSum;
use crate::step::Direction;

/// Maximum number of panels for one moment; beyond, nothing is certified.
const MOST_PANELS: usize = 20_000;
/// A panel is integrated if the tilted density may exceed e^-60 times the heaviest atom's tilted mass on it. All others together
/// add 2k·e^-60 of the moment; half of this number would leave out more than rounding does.
const NEGLIGIBLE: f64 = 60.0;
/// log of how much larger the integrand may be on a panel's Bernstein ellipse than on the panel. The rule's error factor is
/// e^-52, so that its error is below e^-40 of the integrand; twice the value would leave e^-28.
const MOST_GROWTH: f64 = 12.0;
/// Maximum number of stretches into which one piece is cut.
const MOST_STRETCHES: f64 = 32.0;
/// Units in the last place by which exponents may be wrong, with room: a few roundings each.
const ROUNDINGS: f64 = 8.0 * f64::EPSILON;

impl LaplaceLoss {
    /// Nodes for Re z = c > −1 and |Im z| ≤ y; the error is infinite where that would take too many panels.
    ///
    /// **The ellipse.** On that of a panel of half-width w ≤ b/2, with real and imaginary reach d beyond the panel and h from
    /// the axis, the angle of e^{2x/b} is at most θ = 2h/b < 1. Let s be the largest fraction that Be^{2x/b} makes up of r
    /// there. log r changes by at most 2ds/b beyond the panel; |r| is at least cos(θ/2) of r at the real part; arg r ≤ θs/cos
    /// θ, as tan arg r = Be^{2x/b} sin θ/(A + Be^{2x/b} cos θ). So the integrand grows by at most
    ///
    /// > e^{2d|p|s/b + d/b − |p| log cos(θ/2) + |y|·min(θ, θs/cos θ)}.
    ///
    /// Panels are halved until that is at most e^12. Those on which the integrand stays below e^-60 times the largest
    /// atom's part of the moment are left out: all of them together, k in each branch, are 2k·e^-60 of it.
    ///
    /// **The moment.** E[e^{cℓ}] = 1 + E[e^{cℓ} − 1], and as E[e^{−ℓ}] = 1 the latter is E[e^{cℓ} − 1 + c(e^{−ℓ} − 1)], whose
    /// integrand is not negative for c > 0: it keeps its digits where all losses are small and their mean is far smaller. P may
    /// well be on the panels that were left out, where e^{cℓ} is next to nothing: their part is −P − c(P − Q), in closed form.
    pub(crate) fn nodes(&mut self, c: f64, y: f64) -> Nodes {
        let mut search = Search::new(self, c, y);
        let stretches = self.stretches();
        for (index, branch, piece) in self.all_pieces() {
            let ends = |i: usize| (piece * stretches + i) as f64 / stretches as f64;
            let mut open: Vec<(f64, f64)> = (0..stretches).map(|i| (ends(i), ends(i + 1))).collect();
            while let Some((start, end)) = open.pop() {
                let panel = Panel {
                    index,
                    direction: branch.direction,
                    piece,
                    start,
                    end,
                };
                if search.is_negligible(self, &panel) {
                    search.leave_out(self, &panel);
                } else if !search.integrate(self, &panel) {
                    let middle = 0.5 * (start + end);
                    open.extend([(start, middle), (middle, end)]);
                }
            }
        }
        self.add_work(search.panels * NODES);
        search.law()
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
        let share = (0.5 * b * slope * (2.0 * beyond).exp()).min(1.0);
        let turn = angle * (share / angle.cos()).min(1.0);
        (2.0 * power * share + 1.0) * beyond - power * (0.5 * angle).cos().ln() + y * turn
    }

    /// P's mass on [start, end] of a piece.
    fn mass_between(&self, direction: Direction, piece: usize, (start, end): (f64, f64)) -> Approx {
        let b = self.scale();
        let width = -(-(end - start) / b).exp_m1(); // 1 − e^{−(v−u)/b}
        let part = |exponent: f64, error: f64| {
            let mass = 0.5 * exponent.exp() * width;
            let size = if mass > 0.0 { exponent.abs() + start / b } else { 0.0 };
            Approx::new(mass, mass * (ROUNDINGS * (4.0 + size) + error))
        };
        match direction {
            Direction::Add => part(-start / b, 0.0),
            Direction::Remove => {
                // ∫ (A + Be^{2x/b})e^{−x/b}/2b
                let Knot { constant, rising, .. } = self.knots[piece];
                part(constant.value - start / b, constant.error) + part(rising.value + end / b, rising.error)
            }
        }
    }

    /// An upper bound on the logs of the densities of P and Q on [start, end] of a piece.
    fn most_untilted(&self, piece: usize, start: f64, end: f64) -> f64 {
        let (log_ratio, _) = self.log_ratio(piece, end);
        log_ratio.max(0.0) - (2.0 * self.scale()).ln() - start / self.scale()
    }

    /// An upper bound on the log of the tilted density on [start, end] of a piece: log r grows with x.
    fn most_tilted(&self, direction: Direction, (piece, start, end): (usize, f64, f64), c: f64) -> f64 {
        let power = power(direction, c);
        let (log_ratio, _) = self.log_ratio(piece, if power > 0.0 { end } else { start });
        power * log_ratio - (2.0 * self.scale()).ln() - start / self.scale()
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

/// The nodes found so far, for Re z = c and |Im z| ≤ y.
struct Search {
    c: f64,
    y: f64,
    parts: Vec<Part>,
    /// What the panels that were left out, where e^{cℓ} is next to nothing, add to E[e^{cℓ}] − 1.
    left_out: Approx,
    /// log of the tilted mass of the heaviest atom.
    log_heaviest: f64,
    /// What quadrature may be off by, of E[e^{cℓ}], and of the parts of E[e^{cℓ} − 1 + c(e^{−ℓ} − 1)] that are not tilted.
    error: LogSum,
    untilted_error: LogSum,
    /// Panels integrated so far.
    panels: usize,
    /// False if some panel was integrated that should have been halved.
    complete: bool,
}

impl Search {
    /// The atoms, and the error of all panels that will be left out.
    fn new(loss: &LaplaceLoss, c: f64, y: f64) -> Self {
        let atoms = loss.atoms();
        let tilted = atoms.iter().map(|(value, weight)| weight + c * value);
        let log_heaviest = tilted.fold(f64::NEG_INFINITY, f64::max);
        let mut error = LogSum::default();
        error.add(log_heaviest - NEGLIGIBLE + (2.0 * loss.pieces() as f64).ln());
        let part = |&(value, log_mass): &(f64, f64)| Part {
            loss: value,
            log_mass,
            error: loss.atom_error(),
            output: (0, 0.0),
        };
        Self {
            c,
            y,
            parts: atoms.iter().map(part).collect(),
            left_out: Approx::default(),
            log_heaviest,
            error,
            untilted_error: LogSum::default(),
            panels: 0,
            complete: true,
        }
    }

    fn is_negligible(&self, loss: &LaplaceLoss, panel: &Panel) -> bool {
        loss.most_tilted(panel.direction, (panel.piece, panel.start, panel.end), self.c)
            < self.log_heaviest - NEGLIGIBLE
    }

    /// Counts the part of E[e^{cℓ} − 1] on a panel where e^{cℓ} is next to nothing.
    fn leave_out(&mut self, loss: &LaplaceLoss, panel: &Panel) {
        let of = |direction| loss.mass_between(direction, panel.piece, (panel.start, panel.end));
        let (plain, mixed) = (of(Direction::Add), of(Direction::Remove));
        self.left_out += match panel.direction {
            Direction::Add => change_without_tilt(self.c, plain, mixed),
            Direction::Remove => change_without_tilt(self.c, mixed, plain),
        };
    }

    /// Adds the nodes of a panel; false if it has to be halved first.
    fn integrate(&mut self, loss: &LaplaceLoss, panel: &Panel) -> bool {
        let &Panel {
            index,
            direction,
            piece,
            start,
            end,
        } = panel;
        let (middle, half) = (0.5 * (start + end), 0.5 * (end - start));
        let growth = loss.growth(direction, (piece, end, half), (self.c, self.y));
        if growth > MOST_GROWTH && self.panels < MOST_PANELS {
            return false;
        }
        self.complete &= growth <= MOST_GROWTH;
        self.panels += 1;
        let of_rule = GaussLegendre::log_error(growth, half);
        self.error
            .add(loss.most_tilted(direction, (piece, start, end), self.c) + of_rule);
        self.untilted_error
            .add(loss.most_untilted(piece, start, end) + (1.0 + 2.0 * self.c.abs()).ln() + of_rule);
        for (x, weight) in GaussLegendre::get().points(middle, half) {
            let (log_ratio, _) = loss.log_ratio(piece, x);
            let log_mass = loss.log_density(direction, x, log_ratio) + weight.ln();
            self.parts.push(Part {
                loss: direction.sign() * log_ratio,
                log_mass,
                error: loss.log_ratio_error(piece, x, log_ratio),
                output: (index, x),
            });
        }
        true
    }

    fn law(mut self) -> Nodes {
        self.left_out.error += self.untilted_error.ln().exp();
        let mut nodes = law_of(&self.parts, self.left_out, self.c, self.error.ln());
        if !self.complete {
            nodes.error = f64::INFINITY;
            nodes.log_moment.error = f64::INFINITY;
        }
        nodes
    }
}

/// The power of r in r^p e^{−x/b} at tilt c.
fn power(direction: Direction, c: f64) -> f64 {
    match direction {
        Direction::Remove => 1.0 + c,
        Direction::Add => -c,
    }
}

/// An atom or a node.
struct Part {
    loss: f64,
    /// log of its mass under P.
    log_mass: f64,
    /// Bound on the error of the loss.
    error: f64,
    /// Branch and output; 0 for an atom.
    output: (usize, f64),
}

/// What a panel with the masses `p` and `q`, on which e^{cℓ} is next to nothing, adds to E[e^{cℓ}] − 1.
fn change_without_tilt(c: f64, p: Approx, q: Approx) -> Approx {
    let tilt = c.max(0.0);
    Approx::new(
        tilt * (q.value - p.value) - p.value,
        (1.0 + tilt) * p.error + tilt * q.error,
    )
}

/// What one loss adds to E[e^{cℓ}] − 1.
struct Change {
    value: f64,
    /// Its derivative by the loss, in absolute value.
    slope: f64,
    /// Units in the last place of the value that its own exponents cost.
    size: f64,
}

impl Change {
    /// For c > 0 the mass times e^{cℓ} − 1 + c(e^{−ℓ} − 1), as E[e^{−ℓ}] = 1: that is not negative.
    fn of(loss: f64, log_mass: f64, c: f64) -> Self {
        if c > 0.0 {
            let excess = PowerExcess::at(-loss, -c);
            let value = (log_mass + excess.log_value).exp();
            return Self {
                value,
                slope: (log_mass + excess.log_slope).exp(),
                size: if value > 0.0 { excess.log_value.abs() } else { 0.0 },
            };
        }
        let tilt = c * loss;
        let tilted = (log_mass + tilt).exp();
        Self {
            value: if tilt < 1.0 {
                log_mass.exp() * tilt.exp_m1()
            } else {
                tilted - log_mass.exp()
            },
            slope: c.abs() * tilted,
            size: 0.0,
        }
    }
}

/// The law of `parts` tilted by c; e^`log_error` is what quadrature may be off by.
fn law_of(parts: &[Part], left_out: Approx, c: f64, log_error: f64) -> Nodes {
    let mut total = LogSum::default();
    let (mut excess, mut excess_rounding) = (left_out.value, left_out.error); // E[e^{cℓ} − 1]
    for part in parts {
        let Part {
            loss, log_mass, error, ..
        } = *part;
        total.add(log_mass + c * loss);
        let Change { value, slope, size } = Change::of(loss, log_mass, c);
        excess += value;
        excess_rounding += value.abs() * (ROUNDINGS * (4.0 + size + log_mass.abs()) + error) + slope * error;
    }
    let log_total = total.ln();
    let near_one = log_total.abs() < 0.5;
    let mut nodes = Nodes {
        c,
        log_moment: Approx::exact(if near_one { excess.ln_1p() } else { log_total }),
        error: 2.0 * (log_error - log_total).exp(),
        ..Nodes::default()
    };
    for &Part {
        loss,
        log_mass,
        error,
        output,
    } in parts
    {
        let weight = (log_mass + c * loss - log_total).exp();
        if weight < 1e-30 && output.1 > 0.0 {
            nodes.error += weight;
            continue;
        }
        let weight_rounding = ROUNDINGS * (4.0 + log_mass.abs()) + error;
        nodes.mean += weight * loss;
        nodes.mean_size += weight * loss.abs();
        nodes.loss_rounding += weight * error;
        nodes.weight_rounding.0 += weight * weight_rounding;
        nodes.weight_rounding.1 += weight * weight_rounding * loss.abs();
        nodes.losses.push(loss);
        nodes.weights.push(weight);
        nodes.outputs.push(output);
    }
    // In two passes: near the largest loss the variance is far below the mean's square.
    let mean = nodes.mean;
    let spread = |(weight, loss): (&f64, &f64)| weight * (loss - mean).powi(2);
    nodes.variance = nodes.weights.iter().zip(&nodes.losses).map(spread).sum();
    let rounding = if near_one {
        excess_rounding * (-log_total).exp() + f64::EPSILON * excess.abs()
    } else {
        nodes.weight_rounding.0 + ROUNDINGS * (4.0 + log_total.abs()) + c.abs() * nodes.loss_rounding
    };
    nodes.log_moment.error = 1.1 * (nodes.error + rounding);
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::privacy_loss::{PrivacyLoss, TiltedMoments};
    use crate::step::GroupLaw;
    use realfft::num_complex::Complex64;

    fn log_moment(loss: &mut LaplaceLoss, c: f64) -> Approx {
        loss.moments(c, 0.0).log_moment
    }

    /// With one record, r = A + B e^{2x/b} from e^{−u} to e^{v}, and E[e^ℓ; "remove"] has a closed form.
    #[test]
    fn moments_of_whole_order_are_sums_of_exponentials() {
        let (scale, rate) = (0.7, 0.2);
        let law = GroupLaw::binomial(1, rate).unwrap();
        let mut loss = LaplaceLoss::new(&law, scale, Direction::Remove);
        let constant = 1.0 - rate;
        // r = (1 − q) + q e^{(2x − 1)/b} on [0, 1], under Q of density e^{−x/b}/2b.
        let rising = rate * (-1.0 / scale).exp();
        let ends = 0.5
            * ((constant + rising).powi(2)
                + (-1.0 / scale).exp() * (constant + rate * (1.0 / scale).exp()).powi(2));
        let between = 0.5
            * (constant * constant * -(-1.0 / scale).exp_m1()
                + 2.0 * constant * rising * (1.0 / scale).exp_m1()
                + rising * rising / 3.0 * (3.0 / scale).exp_m1());
        let Approx {
            value: log_moment,
            error,
        } = log_moment(&mut loss, 1.0);
        assert!(error < 1e-12);
        assert!((log_moment - (ends + between).ln()).abs() < 1e-13);
    }

    #[test]
    fn a_large_tilt_leaves_the_largest_loss() {
        let law = GroupLaw::binomial(3, 0.1).unwrap();
        for direction in [Direction::Remove, Direction::Add] {
            let mut loss = LaplaceLoss::new(&law, 2.0, direction);
            let &[low, high] = loss.atoms() else { panic!() };
            let atom = if low.0 > high.0 { low } else { high };
            let c = 1e7;
            let TiltedMoments {
                log_moment:
                    Approx {
                        value: log_moment,
                        error,
                    },
                mean,
                variance,
            } = loss.moments(c, 0.0);
            assert!(error < 1e-6 && variance < 1e-9, "{direction:?} {error} {variance}");
            assert!((mean - atom.0).abs() < 1e-6, "{direction:?} {mean} {atom:?}");
            let rest = log_moment - c * atom.0 - atom.1; // what the continuous part next to the atom adds
            assert!(rest >= -error && rest < 1e-4, "{direction:?} {rest} {error}");
        }
    }

    /// log E[e^{cℓ}] by integration of the definition at 30 digits.
    #[test]
    fn outputs_that_a_tilt_hides_keep_their_probability() {
        for (scale, rate, records, c, expected) in [
            (0.1, 1e-3, 1, 100.0, 0.098_161_359_469_491_1),
            (0.1, 1e-3, 1, 300.0, 0.296_873_822_458_523_7),
            (0.2, 1e-2, 2, 30.0, 0.544_972_243_841_120_1),
            (0.2, 1e-3, 2, 200.0, 0.353_106_754_212_323_8),
        ] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            let Approx { value: found, error } = log_moment(&mut LaplaceLoss::new(&law, scale, Direction::Add), c);
            assert!(
                (found - expected).abs() <= error + 2e-16 && error < 1e-12,
                "{scale} {rate} {c}: {found} {expected} {error}"
            );
        }
    }

    #[test]
    fn nodes_give_moments_of_complex_order_and_decay_bounds_them() {
        for (scale, rate, records) in [(0.3, 0.05, 2), (3.0, 0.2, 1), (1.0, 1e-3, 4)] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            for direction in [Direction::Remove, Direction::Add] {
                let mut loss = LaplaceLoss::new(&law, scale, direction);
                for c in [-0.5, 0.7, 3.0] {
                    let real = loss.nodes(c, 0.0);
                    let decay = loss.decay(&real);
                    for y in [0.3, 20.0, 150.0] {
                        let nodes = loss.nodes(c, y);
                        let moment = |nodes: &Nodes, y: f64| -> Complex64 {
                            let parts = nodes.weights.iter().zip(&nodes.losses);
                            parts.map(|(weight, loss)| weight * Complex64::cis(y * loss)).sum()
                        };
                        let found = moment(&nodes, y);
                        // Panels for a height four times as far are at least twice as fine.
                        let finer = moment(&loss.nodes(c, 4.0 * y + 400.0), y);
                        assert!(nodes.error < 1e-13, "{}", nodes.error);
                        assert!((found - finer).norm() < 1e-12);
                        assert!(found.norm() <= decay.log_at(y).exp());
                        assert!(
                            (nodes.log_moment.value - real.log_moment.value).abs() <= 2.0 * nodes.log_moment.error
                        );
                    }
                }
            }
        }
    }
}
