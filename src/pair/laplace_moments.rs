//! Moments of a Laplace loss by quadrature.

use super::Direction;
use super::laplace_loss::LaplaceLoss;
use crate::special::gauss_legendre::{GaussLegendre, NODES};
use crate::special::log_space::LogSum;

/// Panels of one moment at most.
const MOST_PANELS: usize = 20_000;
/// A panel counts if the integrand may come within e^-60 of the largest atom there.
const NEGLIGIBLE: f64 = 60.0;

impl LaplaceLoss {
    /// K(c), its error, K'(c) and K''(c) for c > −1; the error is infinite where that would take too many panels.
    ///
    /// On panels of half-width w the integrand r^{1+c}e^{−x/b} is analytic for |Im x| < πb/2, and on the Bernstein
    /// ellipse at most e^{3w(1 + |c|)/b} times its largest value on the panel. With w ≤ b/2 and w(1 + |c|) ≤ 4b the
    /// relative error of the 32-node rule is below 3e-24·e^12. Panels on which the integrand stays below e^-60 times the
    /// largest atom's part of the moment are left out: all k of them together are k·e^-60 of it, where k ≤ 10⁴.
    pub fn moments(&mut self, c: f64) -> (f64, f64, f64, f64) {
        let rule = GaussLegendre::get();
        let sign = self.direction().sign();
        let half_width = (0.5 * self.scale()).min(4.0 * self.scale() / (1.0 + c.abs()));
        let mut parts: Vec<(f64, f64)> = self.atoms().to_vec();
        let largest = parts.iter().map(|(value, weight)| weight + c * value);
        let least = largest.fold(f64::NEG_INFINITY, f64::max) - NEGLIGIBLE;
        let (mut panels, mut complete) = (0, true);
        for piece in 0..self.pieces() {
            let mut open = vec![(piece as f64, (piece + 1) as f64)];
            while let Some((start, end)) = open.pop() {
                if self.most_tilted(piece, start, end, c) < least {
                    continue;
                }
                let (middle, half) = (0.5 * (start + end), 0.5 * (end - start));
                if half > half_width && panels < MOST_PANELS {
                    open.extend([(start, middle), (middle, end)]);
                    continue;
                }
                complete &= half <= half_width;
                panels += 1;
                for (node, weight) in rule.nodes.iter().zip(&rule.weights) {
                    let x = middle + half * node;
                    let (log_ratio, _) = self.log_ratio(piece, x);
                    let log_mass = self.log_density(x, log_ratio) + (half * weight).ln();
                    parts.push((sign * log_ratio, log_mass));
                }
            }
        }
        self.add_work(panels * NODES);
        let mut total = LogSum::default();
        for (value, log_weight) in &parts {
            total.add(log_weight + c * value);
        }
        let log_moment = total.ln();
        let (mut mean, mut size) = (0.0, 0.0);
        for (value, log_weight) in &mut parts {
            *log_weight = (*log_weight + c * *value - log_moment).exp(); // from here on the tilted weight
            mean += *log_weight * *value;
            size += *log_weight * (8.0 + (1.0 + c.abs()) * value.abs());
        }
        // In two passes: near the largest loss the variance is far below the mean's square.
        let variance: f64 = parts
            .iter()
            .map(|(value, weight)| weight * (value - mean).powi(2))
            .sum();
        let error = if complete {
            1e-14 + 8.0 * f64::EPSILON * (4.0 + size)
        } else {
            f64::INFINITY
        };
        (log_moment, error, mean, variance)
    }

    /// An upper bound on the log of the tilted density on [start, end] of a piece: log r grows with x.
    fn most_tilted(&self, piece: usize, start: f64, end: f64, c: f64) -> f64 {
        let power = match self.direction() {
            Direction::Remove => 1.0 + c,
            Direction::Add => -c,
        };
        let (log_ratio, _) = self.log_ratio(piece, if power > 0.0 { end } else { start });
        power * log_ratio - (2.0 * self.scale()).ln() - start / self.scale()
    }
}

#[cfg(test)]
mod tests {
    use super::super::GroupLaw;
    use super::*;

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
        let (log_moment, error, ..) = loss.moments(1.0);
        assert!(error < 1e-12);
        assert!((log_moment - (ends + between).ln()).abs() < 1e-13);
    }

    #[test]
    fn a_large_tilt_leaves_the_largest_loss() {
        let law = GroupLaw::binomial(3, 0.1).unwrap();
        for direction in [Direction::Remove, Direction::Add] {
            let mut loss = LaplaceLoss::new(&law, 2.0, direction);
            let [low, high] = loss.atoms();
            let atom = if low.0 > high.0 { low } else { high };
            let c = 1e7;
            let (log_moment, error, mean, variance) = loss.moments(c);
            assert!(error < 1e-6 && variance < 1e-9, "{direction:?} {error} {variance}");
            assert!((mean - atom.0).abs() < 1e-6, "{direction:?} {mean} {atom:?}");
            let rest = log_moment - c * atom.0 - atom.1; // what the continuous part next to the atom adds
            assert!(rest >= -error && rest < 1e-4, "{direction:?} {rest} {error}");
        }
    }
}
