//! What the log-normal variable of a cell gives to both of its ends, if it is moved there at random so that its mean stays.
//!
//! In a cell [a, a + h] the left end gets E[(a + h − Y)/h] and the right end E[(Y − a)/h] over the outcomes of the cell. Where the density f hardly
//! changes within the cell, both are integrals by a Gauss–Legendre rule. Let R ≤ c/4 for the midpoint c, R ≤ c√v and R ≤ c/g, where log f changes at
//! most g times as fast as log y next to c. On the disc |y − c| ≤ R, |log(y/c)| ≤ 1.16·R/c, so that |log f| changes by at most
//! 1.16 + 1.16²/2 < 1.84. With n nodes the error of an integral over [−1, 1] of a function that is at most M on the ellipse with the sum of
//! semiaxes ρ is at most 64/15·M·ρ^{−2n}/(1 − ρ⁻²) (Trefethen 2013, Theorem 19.3); the ellipse lies in the disc for ρ = 1.9κ, κ = 2R/h ≥ 16. The
//! integrand is at most e^{1.84}·(κ + 1)/2 times f(c) there, and what is integrated at least e^{−1.84}·f(c), so that the error is at most
//! 85·(κ + 1)·(1.9κ)^{−2n} of it.
//!
//! Elsewhere both are differences of tails.

use crate::interval::Interval;
use crate::loss::allocation::log_normal::{LogNormal, Tails};
use crate::special::gauss_legendre::{SIX_NODES, THREE_NODES};
use crate::stopping::checkpoint;

/// Cells for which the rule is chosen together.
const BLOCK: usize = 32;
/// Least κ for each rule, and bounds on its error there.
const LEAST_FOR_SIX: f64 = 16.0;
const ERROR_OF_SIX: f64 = 2.4e-15;
const LEAST_FOR_THREE: f64 = 512.0;
const ERROR_OF_THREE: f64 = 5.2e-14;

/// The masses of the two ends of a cell, and bounds on their errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) left_error: f64,
    pub(super) right_error: f64,
}

/// The ends of the cells between neighbours of the places first, …, first + `cells` of the lattice of this start and spacing.
pub(super) fn ends(law: &LogNormal, (start, spacing): (f64, f64), first: usize, cells: usize) -> Vec<Ends> {
    let edge = |j: usize| start + spacing * j as f64;
    let mut found = Vec::with_capacity(cells);
    for block in (first..first + cells).step_by(BLOCK) {
        if block % (64 * BLOCK) == first % (64 * BLOCK) {
            checkpoint();
        }
        let last = (block + BLOCK).min(first + cells);
        let (low, high) = (edge(block), edge(last));
        let growth = if low > 0.0 {
            law.growth(low, high)
        } else {
            f64::INFINITY
        };
        let reach = 2.0 * low * 0.25f64.min(law.deviation()).min(1.0 / growth) / spacing;
        // Nodes are off by two units of an edge.
        let of_density = law.density(low).1.max(law.density(high).1) + 8.0 * f64::EPSILON * growth;
        if reach >= LEAST_FOR_THREE {
            by_rule(
                law,
                (edge, spacing),
                block..last,
                (&THREE_NODES, ERROR_OF_THREE + of_density),
                &mut found,
            );
        } else if reach >= LEAST_FOR_SIX {
            by_rule(
                law,
                (edge, spacing),
                block..last,
                (&SIX_NODES, ERROR_OF_SIX + of_density),
                &mut found,
            );
        } else {
            by_tails(law, (edge, spacing), block..last, &mut found);
        }
    }
    found
}

fn by_rule(
    law: &LogNormal,
    (edge, spacing): (impl Fn(usize) -> f64, f64),
    cells: std::ops::Range<usize>,
    (rule, error): (&[(f64, f64)], f64),
    found: &mut Vec<Ends>,
) {
    let half = 0.5 * spacing;
    for j in cells {
        let middle = edge(j) + half;
        let (mut left, mut right) = (0.0, 0.0);
        for &(node, weight) in rule {
            let mass = weight * law.density(middle + half * node).0;
            left += mass * (0.5 - 0.5 * node);
            right += mass * (0.5 + 0.5 * node);
        }
        let relative = error + 16.0 * f64::EPSILON;
        found.push(Ends {
            left: half * left,
            right: half * right,
            left_error: half * left * relative,
            right_error: half * right * relative,
        });
    }
}

fn by_tails(
    law: &LogNormal,
    (edge, spacing): (impl Fn(usize) -> f64, f64),
    cells: std::ops::Range<usize>,
    found: &mut Vec<Ends>,
) {
    let medians = law.medians();
    let mut left = law.tails(edge(cells.start));
    for j in cells {
        let (a, b) = (edge(j), edge(j + 1));
        let right = law.tails(b);
        // The smaller tails lose fewer digits.
        let difference = |part: fn(&Tails) -> Interval, is_above: bool| {
            let (one, other) = if is_above {
                (&left.above, &right.above)
            } else {
                (&right.below, &left.below)
            };
            let (one, other) = (part(one), part(other));
            (one.middle() - other.middle(), 0.5 * (one.width() + other.width()))
        };
        let (mass, mass_error) = difference(|tails| tails.mass, a > medians.0);
        let (mean, mean_error) = difference(|tails| tails.mean, a > medians.1);
        let rounding = 4.0 * f64::EPSILON * (b * mass.abs() + mean.abs());
        let error = (b * mass_error + mean_error + rounding) / spacing;
        found.push(Ends {
            left: ((b * mass - mean) / spacing).max(0.0),
            right: ((mean - a * mass) / spacing).max(0.0),
            left_error: error,
            right_error: error,
        });
        left = right;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Σ over the cells of (b − y)/h and (y − a)/h times the density at very many points.
    #[test]
    fn ends_are_integrals_over_their_cells() {
        let nodes = 4000;
        for (variance, spacing, start, first) in [
            (4.0, 0.125, 0.0, 0usize),
            (0.5, 0.01, 0.003, 20),
            (0.25, 0.0005, 0.0, 900),
            (0.5, 0.01, 0.0, 3000),
            (0.05, 0.2, 0.1, 1),
        ] {
            let law = LogNormal::new(variance);
            for (i, found) in ends(&law, (start, spacing), first, 70).iter().enumerate() {
                let a = start + spacing * (first + i) as f64;
                let (mut left, mut right) = (0.0, 0.0);
                // In log y, so that the first cell has its digits.
                let (low, high) = (a.max(1e-9).ln(), (a + spacing).ln());
                for k in 0..nodes {
                    let y = (low + (high - low) * (f64::from(k) + 0.5) / f64::from(nodes)).exp();
                    let mass = law.density(y).0 * y * (high - low) / f64::from(nodes);
                    left += mass * (a + spacing - y) / spacing;
                    right += mass * (y - a) / spacing;
                }
                let slack = if a == 0.0 { 1e-3 } else { 2e-6 };
                assert!(
                    (found.left - left).abs() <= slack * left + found.left_error,
                    "{variance} {i}: {found:?} {left}"
                );
                assert!(
                    (found.right - right).abs() <= slack * right + found.right_error,
                    "{variance} {i}: {found:?} {right}"
                );
                assert!(
                    found.left_error <= 1e-8 * left && found.right_error <= 1e-8 * right,
                    "{variance} {i}: {found:?}"
                );
            }
        }
    }

    /// Both Gauss–Legendre rules and the differences of tails give the same masses of a cell, up to the sum of their error bounds.
    #[test]
    fn rules_and_tails_agree_within_their_errors() {
        let law = LogNormal::new(1.0);
        for (spacing, first) in [(1.0 / 256.0, 64), (1.0 / 2048.0, 3000)] {
            let edge = |j: usize| spacing * j as f64;
            let (mut six, mut three, mut tails) = (Vec::new(), Vec::new(), Vec::new());
            let cells = first..first + 40;
            by_rule(
                &law,
                (edge, spacing),
                cells.clone(),
                (&SIX_NODES, ERROR_OF_SIX),
                &mut six,
            );
            by_rule(
                &law,
                (edge, spacing),
                cells.clone(),
                (&THREE_NODES, ERROR_OF_THREE),
                &mut three,
            );
            by_tails(&law, (edge, spacing), cells, &mut tails);
            for ((six, three), tails) in six.iter().zip(&three).zip(&tails) {
                assert!(
                    (six.left - tails.left).abs() <= six.left_error + tails.left_error,
                    "{six:?} {tails:?}"
                );
                assert!((six.right - tails.right).abs() <= six.right_error + tails.right_error);
                if first == 3000 {
                    assert!(
                        (six.left - three.left).abs() <= six.left_error + three.left_error,
                        "{six:?} {three:?}"
                    );
                }
            }
        }
    }
}
