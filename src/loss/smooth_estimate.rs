//! Estimates of the moments of a smooth loss, by one rule of fixed nodes for all tilts.
//!
//! A search for a tilt asks for the moments at ten or twenty tilts and needs few digits of each. The certified search of `smooth_nodes`
//! examines the panels anew for every tilt, which takes fifty times as long as a sum over nodes that are known. Nothing rests on an
//! estimate: its error counts as infinite, so that no bound can be made of it, and what was chosen by estimates is confirmed by
//! certified moments (`inversion::saddle`, `inversion::tilt`).
//!
//! The nodes are those of the Gauss–Legendre rule on all dyadic panels of about [`PANEL_WIDTH`] standard deviations of the noise. On an
//! output with a maximum of the integrand P·e^{cℓ} it falls no faster than the noise does, as the loss of a mixture against the noise is
//! convex, so that the panels need not be shorter for large tilts. They depend on the loss alone, and not on earlier questions.

use crate::approx::Approx;
use crate::loss::privacy_loss::TiltedMoments;
use crate::loss::smooth::SmoothLoss;
use crate::loss::smooth_nodes::{COMPLETED, origin, unit};
use crate::loss::smooth_panel::{PanelPoints, UNSCALED};
use crate::loss::smooth_piece::{Piece, Point};
use crate::special::adaptive::Address;
use crate::special::gauss_legendre::NODES;
use std::f64::consts::{LN_2, LOG2_E};
use std::ops::Range;

/// Largest length of a panel, in standard deviations of the noise. With twice as long ones the moments of one record at noise 5 and tilt 30 have
/// four digits in place of ten.
const PANEL_WIDTH: f64 = 8.0;
/// Length of panels where the largest shift is more than so many standard deviations: with longer ones 16 records at noise 1/2 have five digits
/// at tilt 2, with these nine.
const SHORT_PANEL_WIDTH: f64 = 4.0;
const FAR_APART: f64 = 1.5;
/// Most panels of one loss: a group of hundreds with little noise, of which only some outputs matter at a tilt, is left to the certified search.
const MOST_PANELS: i64 = 40;
/// Standard deviations of the noise beyond which it has less than 1e-20 of its mass.
const NOISE_REACH: f64 = 9.5;

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

impl SmoothLoss {
    /// The moments of the loss tilted by e^{cℓ}, of which no error is known; `None` where the fixed nodes do not serve.
    pub(crate) fn estimate(&mut self, c: f64) -> Option<TiltedMoments> {
        if c < 0.0 {
            return None;
        }
        if self.fixed_rule.is_none() {
            let rule = self.make_fixed_rule();
            self.fixed_rule = Some(rule);
        }
        let rule = self.fixed_rule.as_ref()?.as_ref()?;
        self.work += (rule.losses.len() * LANES) as u64;
        rule.moments(c, self.atom, self.removed.value)
    }

    /// The rule, if every piece has one.
    fn make_fixed_rule(&mut self) -> Option<FixedRule> {
        let mut addresses = Vec::new();
        for (piece, of) in self.pieces().iter().enumerate() {
            let (level, places) = panels_of(of)?;
            addresses.extend(places.map(|index| Address { piece, level, index }));
        }
        let mut rule = FixedRule::default();
        for address in addresses {
            rule.add(self.points_of(address)?);
        }
        Some(rule)
    }
}

/// The level and the places of the panels that cover a piece; `None` for one behind a gate, which may be narrow, for one that no end bounds
/// where tilts move its mass, and where there would be too many.
fn panels_of(piece: &Piece) -> Option<(i32, Range<i64>)> {
    if piece.gate.is_some() || (piece.in_p && piece.end.is_infinite()) {
        return None;
    }
    let sigma = piece.noise_multiplier();
    let reach = NOISE_REACH * sigma;
    let from = piece.start.max(-reach);
    let to = if piece.in_p { piece.end } else { piece.end.min(reach) };
    let far_apart = piece.largest_shift() > FAR_APART * sigma;
    let longest = sigma * if far_apart { SHORT_PANEL_WIDTH } else { PANEL_WIDTH };
    let level = (longest / unit(piece)).log2().floor() as i32;
    let width = f64::powi(2.0, level) * unit(piece);
    let place = |x: f64| (x - origin(piece)) / width;
    let (first, last) = (place(from).floor(), place(to).ceil());
    if !(last > first && last - first <= MOST_PANELS as f64) {
        return None;
    }
    Some((level, first as i64..last as i64))
}

impl FixedRule {
    fn add(&mut self, PanelPoints { points, masses }: &PanelPoints) {
        for first in (0..NODES).step_by(LANES) {
            let lanes = |of: fn(&Point) -> f64| std::array::from_fn(|lane| of(&points[first + lane]));
            self.losses.push(lanes(|point| point.loss));
            self.log_masses.push(lanes(|point| point.log_density));
            self.masses.push(std::array::from_fn(|lane| masses[first + lane]));
        }
    }

    /// The moments at a tilt, with an atom at 0; P lacks the mass `removed`.
    fn moments(&self, c: f64, atom: f64, removed: f64) -> Option<TiltedMoments> {
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
        let log_moment = if !is_scaled && COMPLETED.contains(&log_total) {
            (sums.change - removed).ln_1p()
        } else {
            log_total
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
    use crate::loss::StepLoss;
    use crate::step::{Direction, GroupLaw};

    #[test]
    fn rough_exponentials_have_nine_digits() {
        for i in -6000..=6000 {
            for x in [f64::from(i) * 0.1, f64::from(i) * 1e-9] {
                let exact = x.exp_m1();
                assert!((rough_exp_m1(x) - exact).abs() <= 2e-9 * exact.abs(), "{x}");
            }
        }
    }

    /// At the tilts of most questions estimates have nine digits of what the certified search finds, and their error counts as infinite.
    #[test]
    fn estimates_are_close_to_certified_moments_and_no_bounds() {
        for (records, rate, sigma) in [
            (1, 0.01, 1.0),
            (1, 1e-5, 0.3),
            (1, 0.5, 20.0),
            (4, 0.01, 0.6),
            (16, 0.05, 4.0),
            (64, 0.01, 1.0),
        ] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            for direction in [Direction::Remove, Direction::Add] {
                let loss = StepLoss::mixture(&law, sigma, direction).unwrap().unwrap();
                let (mut loss, _) = loss.truncated(-40.0);
                for c in [0.1, 0.5, 2.0] {
                    let (found, certified) = (loss.estimated_moments(c, -40.0), loss.moments(c, -40.0));
                    let relative = |found: f64, exact: f64| ((found - exact) / exact).abs();
                    let named = format!("{records} {rate} {sigma} {direction:?} {c}: {found:?} {certified:?}");
                    assert!(found.log_moment.error.is_infinite(), "{named}");
                    assert!(
                        relative(found.log_moment.value, certified.log_moment.value) < 1e-9,
                        "{named}"
                    );
                    assert!(
                        (found.mean - certified.mean).abs() < 1e-8 * certified.variance.sqrt(),
                        "{named}"
                    );
                    assert!(relative(found.variance, certified.variance) < 1e-7, "{named}");
                }
            }
        }
    }

    /// Tilts below 0, losses that are not cut off, and those with gates are left to the certified search.
    #[test]
    fn what_fixed_nodes_do_not_serve_has_certified_moments() {
        let law = GroupLaw::binomial(2, 0.1).unwrap();
        let mut loss = StepLoss::mixture(&law, 1.0, Direction::Remove).unwrap().unwrap();
        assert!(loss.estimated_moments(1.0, -30.0).log_moment.error < 1e-10);
        let (mut loss, _) = loss.truncated(-40.0);
        assert!(loss.estimated_moments(-0.5, -30.0).log_moment.error < 1e-10);
        assert!(loss.estimated_moments(0.5, -30.0).log_moment.error.is_infinite());
        let separation = loss.separation(1.0, 0.3).unwrap();
        let mut part = loss.far_part(separation).unwrap();
        assert!(part.estimated_moments(0.5, -30.0).log_moment.error < 1e-6);
    }
}
