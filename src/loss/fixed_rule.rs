//! A rule of fixed nodes for the moments of a smooth loss at all tilts, without bounds on its error ([`crate::loss::smooth_estimate`]).

use crate::approx::Approx;
use crate::loss::pair_panel::PanelPoints;
use crate::loss::privacy_loss::TiltedMoments;
use crate::loss::smooth_panel::{COMPLETED, UNSCALED};
use crate::loss::smooth_piece::Point;
use crate::special::gauss_legendre::NODES;
use std::f64::consts::{LN_2, LOG2_E};

/// Nodes that are summed side by side, a divisor of those of a panel.
const LANES: usize = 8;

/// Nodes of a rule for all tilts.
#[derive(Debug, Default)]
pub(crate) struct FixedRule {
    losses: Vec<[f64; LANES]>,
    /// Density of P times the weight of the rule, and its logarithm.
    masses: Vec<[f64; LANES]>,
    log_masses: Vec<[f64; LANES]>,
}

impl FixedRule {
    /// Number of nodes.
    pub(crate) fn size(&self) -> usize {
        self.losses.len() * LANES
    }

    /// The rule of some nodes: losses, and logs of P's masses.
    pub(crate) fn of_nodes(nodes: &[(f64, f64)]) -> Self {
        let mut rule = Self::default();
        for lanes in nodes.chunks(LANES) {
            // Lanes beyond the last node have no mass.
            let node = |lane: usize| lanes.get(lane).copied().unwrap_or((0.0, f64::NEG_INFINITY));
            rule.losses.push(std::array::from_fn(|lane| node(lane).0));
            rule.log_masses.push(std::array::from_fn(|lane| node(lane).1));
            rule.masses.push(std::array::from_fn(|lane| node(lane).1.exp()));
        }
        rule
    }

    /// Adds the nodes of a panel.
    pub(crate) fn add(&mut self, PanelPoints { points, masses }: &PanelPoints) {
        for first in (0..NODES).step_by(LANES) {
            let lanes = |of: fn(&Point) -> f64| std::array::from_fn(|lane| of(&points[first + lane]));
            self.losses.push(lanes(|point| point.loss));
            self.log_masses.push(lanes(|point| point.log_density));
            self.masses.push(std::array::from_fn(|lane| masses[first + lane]));
        }
    }

    /// The moments at a tilt, with an atom at 0; P lacks the mass `removed`, if it is known what it lacks.
    pub(crate) fn moments(&self, c: f64, atom: f64, removed: Option<f64>) -> Option<TiltedMoments> {
        let mut largest = [f64::NEG_INFINITY; 2];
        for (losses, log_masses) in self.losses.iter().zip(&self.log_masses) {
            for (loss, log_mass) in losses.iter().zip(log_masses) {
                largest = [largest[0].max(log_mass + c * loss), largest[1].max(c * loss)];
            }
        }
        let [largest, largest_tilt] = largest;
        if !largest.is_finite() {
            return None;
        }
        let is_scaled = largest.abs() >= UNSCALED || largest_tilt >= UNSCALED;
        let log_scale = if is_scaled { largest } else { 0.0 };
        let (rule, arch) = (self, pulp::Arch::new());
        let sums = if is_scaled {
            arch.dispatch(AddUp::<true> { rule, c, log_scale })
        } else {
            arch.dispatch(AddUp::<false> { rule, c, log_scale })
        };
        let log_total = (sums.total + atom * (-log_scale).exp()).ln() + log_scale;
        let log_moment = match removed {
            Some(removed) if !is_scaled && COMPLETED.contains(&log_total) => (sums.change - removed).ln_1p(),
            _ => log_total,
        };
        Some(sums.moments(log_moment, log_scale))
    }

    /// Sums of the change and the value at all nodes, and of the value times powers of the loss, over e^`log_scale` where `SCALED`.
    #[inline(always)]
    fn sums<const SCALED: bool>(&self, c: f64, log_scale: f64) -> Sums {
        let mut sums = [[0.0; LANES]; 4];
        let nodes = self.losses.iter().zip(&self.masses).zip(&self.log_masses);
        for ((losses, masses), log_masses) in nodes {
            for i in 0..LANES {
                let tilt = c * losses[i];
                let (change, value) = if SCALED {
                    (0.0, 1.0 + rough_exp_m1(log_masses[i] + tilt - log_scale))
                } else {
                    let change = masses[i] * rough_exp_m1(tilt);
                    (change, masses[i] + change)
                };
                let weighted = value * losses[i];
                sums[0][i] += change;
                sums[1][i] += value;
                sums[2][i] += weighted;
                sums[3][i] += weighted * losses[i];
            }
        }
        let [change, total, first, second] = sums.map(|lanes| lanes.iter().sum());
        Sums {
            change,
            total,
            first,
            second,
        }
    }
}

/// A call of [`FixedRule::sums`], which `pulp` compiles for several instruction sets.
struct AddUp<'a, const SCALED: bool> {
    rule: &'a FixedRule,
    c: f64,
    log_scale: f64,
}

impl<const SCALED: bool> pulp::NullaryFnOnce for AddUp<'_, SCALED> {
    type Output = Sums;

    #[inline(always)]
    fn call(self) -> Sums {
        self.rule.sums::<SCALED>(self.c, self.log_scale)
    }
}

#[derive(Debug, Clone, Copy)]
struct Sums {
    /// E[e^{cℓ} − 1].
    change: f64,
    /// E[e^{cℓ}], E[ℓe^{cℓ}] and E[ℓ²e^{cℓ}].
    total: f64,
    first: f64,
    second: f64,
}

impl Sums {
    /// The moments, where these sums are those of e^−`log_scale` times the law.
    fn moments(self, log_moment: f64, log_scale: f64) -> TiltedMoments {
        let scale = (log_scale - log_moment).exp();
        let mean = self.first * scale;
        TiltedMoments {
            log_moment: Approx::new(log_moment, f64::INFINITY),
            mean,
            variance: self.second * scale - mean * mean,
        }
    }
}

/// e^x − 1 with a relative error of 1e-9, and −1 for x below −700; made of operations that compilers turn into those on vectors.
#[inline(always)]
fn rough_exp_m1(x: f64) -> f64 {
    /// Added to a number below 2^50, this leaves its nearest integer in the last bits.
    const INTEGER: f64 = 6_755_399_441_055_744.0;
    const DEGREE: i32 = 8;
    let rounded = x.clamp(-700.0, 700.0) * LOG2_E + INTEGER;
    let power = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    let rest = x.max(-700.0) - (rounded - INTEGER) * LN_2;
    let nested = (2..=DEGREE)
        .rev()
        .fold(1.0, |inner, n| 1.0 + rest / f64::from(n) * inner);
    power * rest * nested + (power - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rough_exponentials_have_nine_digits() {
        for i in -6000..=6000 {
            for x in [f64::from(i) * 0.1, f64::from(i) * 1e-9] {
                let exact = x.exp_m1();
                assert!((rough_exp_m1(x) - exact).abs() <= 2e-9 * exact.abs(), "{x}");
            }
        }
    }
}
