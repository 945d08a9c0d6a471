//! Gauss–Legendre nodes and weights on [−1, 1], with a certified error for analytic integrands.

use std::f64::consts::{LN_2, PI};

/// Number of nodes of the rule.
pub(crate) const NODES: usize = 32;

/// Parameter ρ of the Bernstein ellipse in which integrands are bounded: sum of its half-axes.
///
/// Larger ρ makes the error factor smaller but needs the integrand to be analytic, and bounded, further
/// out. With 32 nodes, 2.4 gives a factor of 1.4e-23, enough for 12 digits of an integral 1e-11 times its bound.
pub(crate) const ELLIPSE: f64 = 2.4;

/// Half-axis of the ellipse along the real line, in half-widths of the interval: (ρ + 1/ρ)/2.
pub(crate) const REAL_AXIS: f64 = 0.5 * (ELLIPSE + 1.0 / ELLIPSE);

/// Half-axis of the ellipse along the imaginary direction: (ρ − 1/ρ)/2.
pub(crate) const IMAGINARY_AXIS: f64 = 0.5 * (ELLIPSE - 1.0 / ELLIPSE);

/// Nodes in [−1, 1] of the rules with three and with six nodes, each with its weight.
pub(crate) const THREE_NODES: [(f64, f64); 3] = [
    (-0.774_596_669_241_483_4, 5.0 / 9.0),
    (0.0, 8.0 / 9.0),
    (0.774_596_669_241_483_4, 5.0 / 9.0),
];
pub(crate) const SIX_NODES: [(f64, f64); 6] = [
    (-0.932_469_514_203_152, 0.171_324_492_379_170_35),
    (-0.661_209_386_466_264_5, 0.360_761_573_048_138_6),
    (-0.238_619_186_083_196_9, 0.467_913_934_572_691_04),
    (0.238_619_186_083_196_9, 0.467_913_934_572_691_04),
    (0.661_209_386_466_264_5, 0.360_761_573_048_138_6),
    (0.932_469_514_203_152, 0.171_324_492_379_170_35),
];

/// The rule: nodes ascending, and their weights (which sum to 2).
#[derive(Debug)]
pub(crate) struct GaussLegendre {
    /// Nodes in (−1, 1).
    pub nodes: [f64; NODES],
    /// Positive weights.
    pub weights: [f64; NODES],
    /// Their logarithms.
    pub log_weights: [f64; NODES],
}

impl GaussLegendre {
    /// The rule, computed once a process.
    pub(crate) fn get() -> &'static Self {
        static RULE: std::sync::OnceLock<GaussLegendre> = std::sync::OnceLock::new();
        RULE.get_or_init(Self::compute)
    }

    /// Newton's method on the Legendre polynomial from the usual cosine guesses.
    fn compute() -> Self {
        let mut rule = Self {
            nodes: [0.0; NODES],
            weights: [0.0; NODES],
            log_weights: [0.0; NODES],
        };
        let n = NODES as f64;
        for i in 0..NODES {
            let mut x = -(PI * (i as f64 + 0.75) / (n + 0.5)).cos();
            let mut derivative = 1.0;
            for _ in 0..10 {
                let (mut previous, mut value) = (1.0, x);
                for degree in 2..=NODES {
                    let d = degree as f64;
                    (previous, value) = (value, ((2.0 * d - 1.0) * x * value - (d - 1.0) * previous) / d);
                }
                derivative = n * (x * value - previous) / (x * x - 1.0);
                x -= value / derivative;
            }
            rule.nodes[i] = x;
            rule.weights[i] = 2.0 / ((1.0 - x * x) * derivative * derivative);
            rule.log_weights[i] = rule.weights[i].ln();
        }
        rule
    }

    /// The points of the rule on an interval, ascending, and their weights.
    pub(crate) fn points(&self, centre: f64, half_width: f64) -> impl Iterator<Item = (f64, f64)> {
        let both = self.nodes.iter().zip(&self.weights);
        both.map(move |(node, weight)| (centre + half_width * node, half_width * weight))
    }

    /// log of a bound on the error of the rule on an interval, where |integrand| ≤ e^`log_bound` on the ellipse around it.
    pub(crate) fn log_error(log_bound: f64, half_width: f64) -> f64 {
        log_bound + half_width.ln() + Self::log_error_factor()
    }

    /// log of the least error that [`GaussLegendre::log_error`] may give in relation to the bound 2·half-width·M on the integral itself.
    pub(crate) fn log_least_relative_error() -> f64 {
        Self::log_error_factor() - LN_2
    }

    /// log of the factor E with |∫ − rule| ≤ half-width · M · E, when |integrand| ≤ M on the ellipse.
    ///
    /// (64/15)·ρ^(−2(n−1))/(1 − ρ^−2) for n nodes: Trefethen, Approximation Theory and Approximation
    /// Practice, Theorem 19.3.
    fn log_error_factor() -> f64 {
        let rho = ELLIPSE;
        (64.0 / 15.0 / (1.0 - rho.powi(-2))).ln() - 2.0 * (NODES as f64 - 1.0) * rho.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a constant the bounds on the error and on the integral have that quotient.
    #[test]
    fn no_error_is_smaller_in_relation_to_the_integral() {
        for half_width in [1e-3, 1.0, 7.0f64] {
            let relative = GaussLegendre::log_error(0.0, half_width) - (2.0 * half_width).ln();
            assert!((relative - GaussLegendre::log_least_relative_error()).abs() < 1e-12);
        }
        assert!((GaussLegendre::log_least_relative_error() + 53.3).abs() < 0.1);
    }

    #[test]
    fn the_rule_is_exact_for_polynomials_of_degree_63() {
        let rule = GaussLegendre::get();
        for degree in [0, 2, 31, 62, 63] {
            let sum: f64 = (0..NODES).map(|i| rule.weights[i] * rule.nodes[i].powi(degree)).sum();
            let exact = if degree % 2 == 1 {
                0.0
            } else {
                2.0 / f64::from(degree + 1)
            };
            assert!((sum - exact).abs() < 1e-14, "degree {degree}: {sum}");
        }
    }

    #[test]
    fn the_error_bound_holds_for_a_function_with_a_pole_just_outside() {
        // 1/(a − x) is at most 1/(a − REAL_AXIS) on the ellipse.
        let rule = GaussLegendre::get();
        let a = REAL_AXIS + 0.05;
        let sum: f64 = (0..NODES).map(|i| rule.weights[i] / (a - rule.nodes[i])).sum();
        let error = (sum - ((a + 1.0) / (a - 1.0)).ln()).abs();
        assert!(error <= (GaussLegendre::log_error_factor()).exp() / 0.05 + 4e-15);
    }
}
