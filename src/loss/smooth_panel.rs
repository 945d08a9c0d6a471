//! Bounds on the integrand P·e^{zℓ} of a smooth piece around an interval of outputs, for complex z and off the real line.

use crate::loss::gate::Gate;
use crate::loss::line::{Line, Normal};
use crate::loss::pair_panel::{PairPanel, PairPanels, PanelPoints};
use crate::loss::smooth_piece::{Piece, Scratch};
use crate::special::exponential;
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Losses so small that e^{zℓ} − 1 hardly changes count as this much: what is left out of the integral of P·(e^{zℓ} − 1)
/// is then at most 1/this times as much of P itself.
pub(crate) const LEAST_CHANGE: f64 = 1e-4;

/// log E[e^{cℓ}] for which the mass that is missing follows from that of P. Below, 1 − Σ p_i loses digits next to E[e^{cℓ}]; above, all
/// of P is less than the last bit of it.
pub(crate) const COMPLETED: RangeInclusive<f64> = -0.5..=36.0;

impl Piece {
    /// The bounds around a panel, whose level and index these are, of the lattice of the piece.
    pub(crate) fn panel(&self, lattice: &PairPanels, place: (i32, i64), scratch: &mut Scratch) -> PiecePanel {
        self.bounds(lattice.panel(self, place, scratch))
    }

    /// The bounds that the panel of a pair has for this piece.
    fn bounds(&self, of_pair: Arc<PairPanel>) -> PiecePanel {
        PiecePanel {
            of_pair,
            normal: Normal::new(self.noise_multiplier()),
            gate: self.gate,
            bounds_mass: self.gate.is_some(),
            points: None,
            tilted: None,
        }
    }
}

/// Bounds on the integrand P·e^{zℓ} around one interval; independent of z.
#[derive(Debug)]
pub(crate) struct PiecePanel {
    /// What does not depend on the gate.
    of_pair: Arc<PairPanel>,
    normal: Normal,
    gate: Option<Gate>,
    /// Whether the bounds are on P·e^{zℓ} itself in place of P·(e^{zℓ} − 1): what they leave out is then all that is missing. So it is where a
    /// piece of the loss is behind a gate, as the mass of P there is not known.
    pub(crate) bounds_mass: bool,
    /// What does not depend on the tilt, once it was asked for.
    points: Option<Arc<PanelPoints>>,
    /// The integrand at the nodes for the last tilt that was asked for.
    tilted: Option<Box<TiltedPoints>>,
}

/// The integrand P·e^{cℓ} of real c at the nodes of a panel, with the weights of the rule.
#[derive(Debug)]
pub(crate) struct TiltedPoints {
    c: f64,
    /// P·(e^{cℓ} − 1).
    pub(crate) changes: [f64; NODES],
    /// P·e^{cℓ}·e^{−`log_scale`}.
    pub(crate) values: [f64; NODES],
    /// 0, but for panels whose values have no `f64`.
    pub(crate) log_scale: f64,
    /// log of the integral over the panel.
    pub(crate) log_integral: f64,
}

/// log of values up to which, and down to whose negative, they are not scaled.
pub(crate) const UNSCALED: f64 = 600.0;

impl TiltedPoints {
    fn new(PanelPoints { points, masses }: &PanelPoints, c: f64) -> Self {
        let largest = points.iter().map(|point| point.log_density + c * point.loss);
        let largest = largest.fold(f64::NEG_INFINITY, f64::max);
        let log_scale = if largest.abs() < UNSCALED || largest.is_infinite() {
            0.0
        } else {
            largest
        };
        let mut tilted = Self {
            c,
            changes: [0.0; NODES],
            values: [0.0; NODES],
            log_scale,
            log_integral: f64::NEG_INFINITY,
        };
        let tilts = points.map(|point| c * point.loss);
        let mut tilted_masses: [f64; NODES] = std::array::from_fn(|i| points[i].log_density + tilts[i]);
        let mut relative_changes = tilts;
        exponential::exp(&mut tilted_masses);
        exponential::exp_m1(&mut relative_changes);
        for (i, &mass) in masses.iter().enumerate() {
            // Either the change or the value is found first; the other follows by an addition that loses no digits.
            let (change, value) = if tilts[i].abs() < 1.0 {
                let change = mass * relative_changes[i];
                (change, mass + change)
            } else {
                (tilted_masses[i] - mass, tilted_masses[i])
            };
            tilted.changes[i] = change;
            tilted.values[i] = value;
        }
        if log_scale != 0.0 {
            tilted.values = std::array::from_fn(|i| points[i].log_density + tilts[i] - log_scale);
            exponential::exp(&mut tilted.values);
        }
        tilted.log_integral = tilted.values.iter().sum::<f64>().ln() + log_scale;
        tilted
    }
}

impl PiecePanel {
    /// The ends of the panel.
    pub(crate) fn interval(&self) -> (f64, f64) {
        let PairPanel { centre, half_width, .. } = *self.of_pair;
        (centre - half_width, centre + half_width)
    }

    /// Half of its length.
    pub(crate) fn half_width(&self) -> f64 {
        self.of_pair.half_width
    }

    /// Its middle.
    pub(crate) fn centre(&self) -> f64 {
        self.of_pair.centre
    }

    /// Cost of evaluating the losses at the nodes, in terms of densities.
    pub(crate) fn cost(&self) -> u64 {
        self.of_pair.cost
    }

    /// log of a bound on |P·(e^{zℓ} − 1)|, or on |P·e^{zℓ}| with [`PiecePanel::bounds_mass`], for Re z = c, |Im z| ≤ y and x in the ellipse around the
    /// interval, moved up by at most `imaginary_shift`; +∞ where the integrand may be singular.
    pub(crate) fn log_bound(&self, c: f64, y: f64, imaginary_shift: f64) -> f64 {
        self.log_bound_within(
            c,
            y,
            IMAGINARY_AXIS * self.of_pair.half_width + imaginary_shift,
            imaginary_shift,
        )
    }

    /// log of that bound for x in the interval itself, where |e^{iyℓ}| = 1.
    pub(crate) fn log_upper(&self, c: f64, y: f64, imaginary_shift: f64) -> f64 {
        self.log_bound_within(c, y, imaginary_shift, imaginary_shift)
    }

    fn log_bound_within(&self, c: f64, y: f64, height: f64, imaginary_shift: f64) -> f64 {
        let mut tilted = Line {
            at: self.of_pair.centre,
            value: 0.0,
            slope: 0.0,
        };
        let mut plain = tilted;
        let add = |line: &mut Line, part: &Line, factor: f64| {
            line.value += factor * part.at(self.of_pair.centre);
            line.slope += factor * part.slope;
        };
        let mut rest = 0.0;
        // Bounds on |ℓ|, and on how far it changes when x moves by `height` off the real line.
        let (mut size, mut change) = (0.0, 0.0);
        // With y' ≥ 0 an imaginary shift only makes |e^{iy'ℓ}| smaller: what counts is how far below it the ellipse reaches.
        let depth = height - imaginary_shift;
        if let Some(side) = &self.of_pair.in_p {
            // |r^{1+z}| ≤ r^{1+c}·e^{y|arg r|}; c > −1.
            let around = side.at_height(height);
            if around.modulus_ratio == 0.0 {
                return f64::INFINITY;
            }
            add(&mut tilted, &side.chord, 1.0 + c);
            add(&mut plain, &side.chord, 1.0);
            rest += y * side.turned((depth, height), &around);
            size += side.size(self.of_pair.left, self.of_pair.right) - around.modulus_ratio.min(1.0).ln();
            change += height * side.slope * around.speed;
        }
        if let Some(side) = &self.of_pair.in_q {
            let around = side.at_height(height);
            if around.modulus_ratio == 0.0 {
                return f64::INFINITY;
            }
            if c > 0.0 {
                add(&mut tilted, &side.tangent, -c);
                rest -= c * around.modulus_ratio.ln();
            } else {
                add(&mut tilted, &side.chord, -c);
            }
            rest += y * side.turned((depth, height), &around);
            size += side.size(self.of_pair.left, self.of_pair.right) - around.modulus_ratio.min(1.0).ln();
            change += height * side.slope * around.speed;
        }
        // |e^{zℓ} − 1| ≤ |zℓ|·max(1, |e^{zℓ}|); what an imaginary shift adds to the exponent is bounded likewise.
        let exponent = c.hypot(y) * (size + change)
            + if imaginary_shift > 0.0 {
                0.5 * imaginary_shift * imaginary_shift / self.normal.variance + 2.0 * (1.0 + c.abs() + y) * change
            } else {
                0.0
            };
        let growth = 0.5 * height * height / self.normal.variance;
        let highest = |line: Line| self.normal.highest(line, 1.0, self.of_pair.left, self.of_pair.right);
        let (a, b) = (highest(tilted) + rest, highest(plain));
        let (large, small) = if a > b { (a, b) } else { (b, a) };
        let density = growth + large + (small - large).exp().ln_1p();
        density + self.log_of_gate((depth, imaginary_shift)) + self.log_of_change(exponent)
    }

    /// log of a bound on the modulus of the probability that the gate is passed: continued to all heights up to the sum of both, and, as [`SmoothLoss::log_decay`] has it for the
    /// integrand along a path, at heights up to the depth only, times its growth from the real line to the path.
    ///
    /// [`SmoothLoss::log_decay`]: crate::loss::smooth::SmoothLoss
    fn log_of_gate(&self, (depth, imaginary_shift): (f64, f64)) -> f64 {
        let Some(gate) = &self.gate else { return 0.0 };
        let at = |height: f64| gate.log_bound(self.of_pair.left, self.of_pair.right, height);
        let along_path = at(depth) + 0.5 * (imaginary_shift / gate.width).powi(2);
        at(depth + imaginary_shift).max(along_path)
    }

    /// log of a bound on |e^{zℓ} − 1| over max(1, |e^{zℓ}|), where the bounds are on P·(e^{zℓ} − 1); 0 where they are on P·e^{zℓ} itself.
    fn log_of_change(&self, exponent: f64) -> f64 {
        if self.bounds_mass {
            0.0
        } else {
            exponent.clamp(LEAST_CHANGE, 1.0).ln()
        }
    }

    /// The losses at the nodes, and the weights of the rule and of the gate there.
    pub(crate) fn points(&mut self, piece: &Piece, scratch: &mut Scratch) -> &PanelPoints {
        let of_pair = &self.of_pair;
        self.points.get_or_insert_with(|| {
            let known = of_pair.points(piece, scratch);
            let Some(gate) = piece.gate else {
                return Arc::clone(known);
            };
            let outputs = GaussLegendre::get()
                .nodes
                .map(|node| of_pair.centre + of_pair.half_width * node);
            let mut points = known.points;
            for (point, output) in points.iter_mut().zip(outputs) {
                point.log_density += gate.log_probability(output);
            }
            Arc::new(PanelPoints::new(points))
        })
    }

    /// The integrand at the nodes at tilt c.
    pub(crate) fn tilted(&mut self, c: f64, piece: &Piece, scratch: &mut Scratch) -> &TiltedPoints {
        let kept = self.tilted.take().filter(|tilted| tilted.c == c);
        let tilted = kept.unwrap_or_else(|| Box::new(TiltedPoints::new(self.points(piece, scratch), c)));
        self.tilted.insert(tilted)
    }

    /// What [`PiecePanel::points`] and [`PiecePanel::tilted`] found, if they were asked; the second at the tilt that it was asked for last.
    pub(crate) fn known(&self) -> Option<(&PanelPoints, &TiltedPoints)> {
        self.points.as_deref().zip(self.tilted.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::MixturePair;
    use crate::special::gauss_legendre::REAL_AXIS;
    use crate::step::GroupLaw;
    use realfft::num_complex::Complex64;
    use std::f64::consts::{LN_2, PI};

    const RATE: f64 = 0.02;
    const SIGMA: f64 = 0.9;

    fn piece(in_p: bool, in_q: bool) -> Piece {
        let pair = MixturePair::new(&GroupLaw::binomial(1, RATE).unwrap(), SIGMA).unwrap();
        Piece::whole(pair, (in_p, in_q))
    }

    /// The panel around [centre − half_width, centre + half_width], which need not be on the lattice.
    fn around(piece: &Piece, centre: f64, half_width: f64) -> PiecePanel {
        let of_pair = PairPanel::new(piece, centre, half_width, &mut Scratch::default());
        piece.bounds(Arc::new(of_pair))
    }

    /// log |P(x)(e^{zℓ(x)} − 1)| for complex x and z by its definition.
    fn log_integrand(piece: &Piece, x: Complex64, z: Complex64) -> f64 {
        let variance = SIGMA * SIGMA;
        let ratio = |x: Complex64| (1.0 - RATE) + RATE * ((x - 0.5) / variance).exp();
        let mut loss = Complex64::new(0.0, 0.0);
        let mut density = (-x * x / (2.0 * variance)).exp() / (SIGMA * (2.0 * PI).sqrt());
        if piece.in_p {
            loss += ratio(x).ln();
            density *= ratio(x);
        }
        if piece.in_q {
            loss -= ratio(-x).ln();
        }
        (density * ((z * loss).exp() - 1.0)).norm().ln()
    }

    /// The bound holds for every |Im z| ≤ y all around the ellipse; half of it does not on short panels where e^{zℓ} is large.
    #[test]
    fn the_bound_holds_on_the_ellipse_and_is_close_for_short_panels() {
        for (in_p, in_q) in [(true, false), (false, true), (true, true)] {
            let piece = piece(in_p, in_q);
            let mut closest = f64::INFINITY;
            for centre in [-7.0, -2.0, 0.5, 3.0, 7.0] {
                for half_width in [0.5, 0.1, 0.005] {
                    let panel = around(&piece, centre, half_width);
                    for (c, y) in [(-0.6, 3.0), (0.4, 0.0), (5.0, 1.0), (0.3, 20.0)] {
                        let bound = panel.log_bound(c, y, 0.0);
                        let mut largest = f64::NEG_INFINITY;
                        for i in 0..128 {
                            let angle = 2.0 * PI * f64::from(i) / 128.0;
                            let offset = Complex64::new(REAL_AXIS * angle.cos(), IMAGINARY_AXIS * angle.sin());
                            for fraction in [-1.0, 0.0, 0.5, 1.0] {
                                let z = Complex64::new(c, fraction * y);
                                largest = largest.max(log_integrand(&piece, centre + half_width * offset, z));
                            }
                        }
                        let named = format!("{in_p} {in_q} {centre} {half_width} {c} {y}");
                        assert!(largest <= bound + 1e-9, "{named}: {largest} {bound}");
                        closest = closest.min(bound - largest);
                        let upper = panel.log_upper(c, y, 0.0);
                        for i in -8..=8 {
                            let x = Complex64::new(centre + half_width * f64::from(i) / 8.0, 0.0);
                            let here = log_integrand(&piece, x, Complex64::new(c, y));
                            assert!(here <= upper + 1e-9, "{named} {x}: {here} {upper}");
                        }
                    }
                }
            }
            assert!(closest < LN_2, "{in_p} {in_q}: {closest}");
        }
    }

    /// Small tilts lose no digits of the change, and values beyond the range of an `f64` are scaled.
    #[test]
    fn tilted_points_are_their_definition() {
        for (in_p, in_q) in [(true, false), (false, true), (true, true)] {
            let piece = piece(in_p, in_q);
            for (centre, half_width) in [(-3.0, 1.0), (0.5, 0.2), (7.0, 1.0), (30.0, 2.0)] {
                for c in [-0.6, 1e-9, 0.7, 6.0, 400.0] {
                    let mut panel = around(&piece, centre, half_width);
                    panel.tilted(-0.1, &piece, &mut Scratch::default());
                    panel.tilted(c, &piece, &mut Scratch::default());
                    let (PanelPoints { points, masses }, tilted) = panel.known().unwrap();
                    for (i, point) in points.iter().enumerate() {
                        let tilt = c * point.loss;
                        let exponent = point.log_density + tilt;
                        let found = tilted.values[i].ln() + tilted.log_scale;
                        let far_below = exponent < tilted.log_scale - UNSCALED;
                        assert!(
                            far_below || (found - exponent).abs() < 1e-13 * (1.0 + exponent.abs()),
                            "{c} {i}"
                        );
                        if exponent < UNSCALED {
                            let change = tilt.exp_m1() * masses[i];
                            let wrong = (tilted.changes[i] - change).abs();
                            assert!(
                                wrong <= 1e-13 * (1.0 + exponent.abs()) * change.abs(),
                                "{c} {i}: {wrong} {change}"
                            );
                        }
                    }
                    let largest = tilted.log_integral - tilted.log_scale;
                    assert!(largest.is_finite() && largest <= UNSCALED + 3.0, "{c}: {largest}");
                }
            }
        }
    }

    /// Along a path the probability of a gate counts as on the real line, with its growth up to there; far from the gate it is nearly 1 on both.
    #[test]
    fn gates_along_a_path_are_bounded_and_nearly_attained() {
        let mut piece = piece(true, false);
        let gate = Gate::above(-1.0, 0.1).and(Gate::above(1.0, 0.1).below()).unwrap();
        piece.gate = Some(gate);
        for shift in [0.2, 0.5, 0.8] {
            let panel = around(&piece, 0.0, 0.05);
            let bound = panel.log_bound(0.3, 0.0, shift);
            let ratio = (1.0 - RATE) + RATE * ((Complex64::new(0.0, shift) - 0.5) / (SIGMA * SIGMA)).exp();
            let growth = 0.5 * shift * shift * (SIGMA.powi(-2) + gate.width.powi(-2));
            let exact = -(SIGMA * (2.0 * PI).sqrt()).ln() + 1.3 * ratio.norm().ln() + growth;
            // Two moduli are added, and the ellipse has room for the noise.
            assert!(exact <= bound && bound < exact + 1.5, "{shift}: {exact} {bound}");
        }
    }

    /// With an imaginary shift of the output, which serves Im z ≥ 0.
    #[test]
    fn the_bound_holds_above_the_real_line() {
        let piece = piece(true, false);
        let (c, y, imaginary_shift) = (0.6, 4.0, 0.3);
        for (centre, half_width) in [(0.5, 0.2), (3.0, 0.1), (6.0, 0.05)] {
            let panel = around(&piece, centre, half_width);
            let bound = panel.log_bound(c, y, imaginary_shift);
            for i in 0..128 {
                let angle = 2.0 * PI * f64::from(i) / 128.0;
                let offset = Complex64::new(REAL_AXIS * angle.cos(), IMAGINARY_AXIS * angle.sin());
                for height in [0.0, 0.5 * imaginary_shift, imaginary_shift] {
                    let x = centre + half_width * offset + Complex64::new(0.0, height);
                    for fraction in [0.0, 0.5, 1.0] {
                        let here = log_integrand(&piece, x, Complex64::new(c, fraction * y));
                        assert!(here <= bound + 1e-9, "{centre} {x}: {here} {bound}");
                    }
                }
            }
        }
    }
}
