//! The tilted law of a Laplace loss from its atoms and the nodes between them.

use crate::approx::Approx;
use crate::loss::nodes::Nodes;
use crate::loss::power_excess::PowerExcess;
use crate::special::log_space::LogSum;

/// Units in the last place by which exponents may be wrong, with room: a few roundings each.
pub(super) const ROUNDINGS: f64 = 8.0 * f64::EPSILON;

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

/// What a panel with the masses `p` and `q`, on which e^{cℓ} is next to nothing, adds to E[e^{cℓ}] − 1.
pub(super) fn change_without_tilt(c: f64, p: Approx, q: Approx) -> Approx {
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
pub(super) fn law_of(parts: &[Part], left_out: Approx, c: f64, log_error: f64) -> Nodes {
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
