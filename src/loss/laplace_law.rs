//! The tilted law of a Laplace loss from its atoms and the nodes between them.

use crate::approx::Approx;
use crate::loss::nodes::Nodes;
use crate::loss::power_excess::PowerExcess;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::exponential;
use crate::special::vector;

/// Units in the last place by which exponents may be wrong, with room: a few roundings each.
pub(super) const ROUNDINGS: f64 = 8.0 * f64::EPSILON;
/// Tilted probability below which a part is counted as error in place of a node.
const NEGLIGIBLE_WEIGHT: f64 = 1e-30;

/// Moments whose logarithm is below this, in absolute value, are found from their distance from 1.
const NEAR_ONE: f64 = 0.5;

/// An atom or a node.
pub(super) struct Part {
    pub(super) loss: f64,
    /// log of its mass under P.
    pub(super) log_mass: f64,
    /// Bound on the error of the loss.
    pub(super) error: f64,
    /// Branch and output; 0 for an atom.
    pub(super) output: (usize, f64),
}

/// The contribution to E[e^{cℓ}] − 1 of a panel with the masses `p` and `q` on which e^{cℓ} is next to nothing.
pub(super) fn change_without_tilt(c: f64, p: Approx, q: Approx) -> Approx {
    let tilt = c.max(0.0);
    Approx::new(
        tilt * (q.value - p.value) - p.value,
        (1.0 + tilt) * p.error + tilt * q.error,
    )
}

/// The contribution of one loss to E[e^{cℓ}] − 1.
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

/// e^{log p + cℓ} of each part over the largest of them, and the logs of that and of their sum. There may be a million parts, so that the sum carries what
/// additions round off.
pub(super) fn tilted_masses(parts: &[Part], c: f64) -> (Vec<f64>, f64, f64) {
    let mut masses: Vec<f64> = parts.iter().map(|part| part.log_mass + c * part.loss).collect();
    let largest = vector::largest(&masses);
    if largest == f64::NEG_INFINITY {
        return (vec![0.0; parts.len()], largest, largest);
    }
    for mass in &mut masses {
        *mass -= largest;
    }
    exponential::exp(&mut masses);
    let mut total = CompensatedSum::default();
    masses.iter().for_each(|&mass| total.add(mass));
    (masses, largest, largest + total.value().ln())
}

/// E[e^{cℓ} − 1] and a bound on its rounding error.
fn excess_of(parts: &[Part], left_out: Approx, c: f64) -> Approx {
    let (mut excess, mut rounding) = (CompensatedSum::default(), left_out.error);
    excess.add(left_out.value);
    for part in parts {
        let Change { value, slope, size } = Change::of(part.loss, part.log_mass, c);
        excess.add(value);
        rounding +=
            value.abs() * (ROUNDINGS * (4.0 + size + part.log_mass.abs()) + part.error) + slope * part.error;
    }
    Approx::new(excess.value(), rounding)
}

/// The law of `parts` tilted by c; e^`log_error` is what quadrature may be off by, and all masses may be off by one factor, whose log
/// is at most `factor_error`.
pub(super) fn law_of(parts: &[Part], left_out: Approx, c: f64, (log_error, factor_error): (f64, f64)) -> Nodes {
    let (masses, log_largest, log_total) = tilted_masses(parts, c);
    let scale = (log_largest - log_total).exp();
    let near_one = (log_total.abs() < NEAR_ONE).then(|| excess_of(parts, left_out, c));
    let mut nodes = Nodes {
        c,
        log_moment: Approx::exact(near_one.map_or(log_total, |excess| excess.value.ln_1p())),
        error: 2.0 * (log_error - log_total).exp(),
        ..Nodes::default()
    };
    for (part, mass) in parts.iter().zip(masses) {
        let &Part {
            loss,
            log_mass,
            error,
            output,
        } = part;
        let weight = mass * scale;
        if weight < NEGLIGIBLE_WEIGHT && output.1 > 0.0 {
            // φ − 1 loses both the weight times e^{iyℓ} and the weight.
            nodes.error += 2.0 * weight;
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
    let rounding = if let Some(excess) = near_one {
        let size = excess.value.abs();
        (excess.error + factor_error * size) * (-log_total).exp() + f64::EPSILON * size
    } else {
        nodes.weight_rounding.0
            + factor_error
            + ROUNDINGS * (4.0 + log_total.abs())
            + c.abs() * nodes.loss_rounding
    };
    nodes.log_moment.error = 1.1 * (nodes.error + rounding);
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn atoms(losses: &[(f64, f64)], error: f64) -> Vec<Part> {
        let atom = |&(loss, mass): &(f64, f64)| Part {
            loss,
            log_mass: mass.ln(),
            error,
            output: (0, 0.0),
        };
        losses.iter().map(atom).collect()
    }

    /// Losses ±1 with odds e: E[e^{cℓ}] = cosh(c + 1/2)/cosh(1/2), and the tilted law has the mean tanh(c + 1/2).
    #[test]
    fn two_atoms_have_the_moments_of_a_coin() {
        let likely = 1.0 / (1.0 + (-1.0f64).exp());
        for c in [-0.7f64, 1e-6, 0.4, 5.0] {
            let found = law_of(
                &atoms(&[(1.0, likely), (-1.0, 1.0 - likely)], 0.0),
                Approx::default(),
                c,
                (f64::NEG_INFINITY, 0.0),
            );
            let exact = ((c + 0.5).cosh() / 0.5f64.cosh()).ln();
            let off = (found.log_moment.value - exact).abs();
            assert!(
                off <= found.log_moment.error + 1e-16,
                "{c}: {:?} {exact}",
                found.log_moment
            );
            assert!(
                found.log_moment.error < 1e-13 * (1.0 + exact.abs()),
                "{c}: {:?}",
                found.log_moment
            );
            assert!((found.mean - (c + 0.5).tanh()).abs() < 1e-14);
            assert!((found.variance - (c + 0.5).cosh().powi(-2)).abs() < 1e-14);
        }
    }

    /// 2^18 atoms that are each less than half of a unit in the last place of the first one, with its loss: log E[e^{cℓ}] is c times that.
    #[test]
    fn very_many_parts_are_added_without_rounding_each() {
        let mut all = vec![(3.0, 1.0 - 0.5f64.powi(36))];
        all.resize((1 << 18) + 1, (3.0, 0.5f64.powi(54)));
        for c in [-0.1, 1.0] {
            let found = law_of(&atoms(&all, 0.0), Approx::default(), c, (f64::NEG_INFINITY, 0.0)).log_moment;
            assert!(
                (found.value - 3.0 * c).abs() <= found.error && found.error < 1e-12,
                "{c}: {found:?}"
            );
        }
    }

    /// All losses too large by as much as they may be wrong: log E[e^{cℓ}] is too large by c times that, and half of its error would not do.
    #[test]
    fn errors_of_losses_are_carried_and_attained() {
        const ERROR: f64 = 1e-7;
        let coin = [(1.0, 0.7), (-1.3, 0.3)];
        let moved: Vec<(f64, f64)> = coin.iter().map(|(loss, mass)| (loss + ERROR, *mass)).collect();
        for c in [3.0, 20.0] {
            let law = |losses: &[(f64, f64)], error| {
                law_of(&atoms(losses, error), Approx::default(), c, (f64::NEG_INFINITY, 0.0)).log_moment
            };
            let (found, exact) = (law(&moved, ERROR), law(&coin, 0.0).value);
            let off = found.value - exact;
            assert!(off <= found.error && 3.0 * off > found.error, "{c}: {found:?} {off}");
        }
    }

    /// On a panel far below 0 with the masses p and q, c > 0, the mean of e^{cℓ} − 1 + c(e^{−ℓ} − 1) is c(q − p) − p but for e^{cℓ}. Masses
    /// that are wrong by their errors change it by the error, of which a half would be too little.
    #[test]
    fn panels_without_tilt_carry_the_errors_of_their_masses() {
        let (p, q) = (Approx::new(0.01, 1e-6), Approx::new(0.3, 1e-5));
        for c in [-0.3f64, 0.8, 4.0] {
            let found = change_without_tilt(c, p, q);
            let at = |p: f64, q: f64| c.max(0.0) * (q - p) - p;
            let off = (at(p.value - p.error, q.value + q.error) - found.value).abs();
            assert!((found.value - at(0.01, 0.3)).abs() < 1e-15);
            assert!(
                off <= found.error * (1.0 + 1e-9) && 1.9 * off > found.error,
                "{c}: {off} {found:?}"
            );
        }
    }
}
