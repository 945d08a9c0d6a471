//! Estimates of the moments of a Laplace loss, by one rule of fixed nodes for all tilts.
//!
//! As for Gaussian noise ([`crate::loss::smooth_estimate`]): nothing rests on an estimate, and what was chosen by estimates is confirmed by certified
//! moments. The nodes are those of one rule on every stretch of every piece, and the atoms.

use crate::loss::fixed_rule::FixedRule;
use crate::loss::laplace::{LaplaceLoss, LaplaceRule};
use crate::loss::privacy_loss::TiltedMoments;
use crate::special::gauss_legendre::GaussLegendre;

/// How much the exponent of e^{cℓ} may change on a stretch: with 32 nodes its integral has nine digits then.
const MOST_CHANGE: f64 = 40.0;

impl LaplaceLoss {
    /// The moments of the loss tilted by e^{cℓ}, of which no error is known; `None` where the fixed nodes do not serve.
    pub(crate) fn estimate(&mut self, c: f64) -> Option<TiltedMoments> {
        if c < 0.0 {
            return None;
        }
        let fixed = self.fixed_rule.clone();
        let LaplaceRule { rule, change } = fixed.get_or_init(|| self.make_fixed_rule());
        if c * change > MOST_CHANGE {
            return None;
        }
        self.work += rule.size() as u64;
        let removed = self.missing.as_ref().map_or(0.0, |missing| missing.p.value);
        rule.moments(c, 0.0, Some(removed))
    }

    fn make_fixed_rule(&self) -> LaplaceRule {
        let each = self.stretches();
        let (mut nodes, mut change) = (Vec::new(), 0.0f64);
        nodes.extend(self.atoms().iter().map(|atom| (atom.loss, atom.log_mass)));
        let half = 0.5 / each as f64;
        for (_, branch, piece) in self.all_pieces() {
            let (direction, sign) = (branch.direction, branch.direction.sign());
            for i in 0..each {
                let centre = piece as f64 + (2 * i + 1) as f64 * half;
                let [first, last] = [centre - half, centre + half].map(|x| self.log_ratio(piece, x).0);
                change = change.max(last - first);
                let rule = GaussLegendre::get();
                for (node, log_weight) in rule.nodes.iter().zip(&rule.log_weights) {
                    let (log_ratio, _) = self.log_ratio(piece, centre + half * node);
                    let log_mass = self.log_density(direction, centre + half * node, log_ratio);
                    nodes.push((sign * log_ratio, log_mass + log_weight + half.ln()));
                }
            }
        }
        LaplaceRule {
            rule: FixedRule::of_nodes(&nodes),
            change,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::loss::StepLoss;
    use crate::loss::laplace::LaplaceLoss;
    use crate::step::{Direction, GroupLaw};

    /// Estimates have eight digits of certified moments, and their error counts as infinite.
    #[test]
    fn estimates_are_close_to_certified_moments_and_no_bounds() {
        for (records, rate, scale) in [
            (1, 1.0, 1.0),
            (1, 1e-4, 0.3),
            (5, 0.3, 2.0),
            (40, 0.01, 0.7),
            (300, 0.02, 10.0),
        ] {
            let law = GroupLaw::binomial(records, rate).unwrap();
            let mut all = Direction::BOTH
                .map(|direction| LaplaceLoss::new(&law, scale, direction))
                .to_vec();
            if rate < 1.0 {
                all.push(LaplaceLoss::mirrored(&law, scale));
            }
            for mut loss in all {
                for c in [0.0, 0.1, 2.0, 30.0] {
                    let Some(found) = loss.estimate(c) else {
                        panic!("{records} {c}");
                    };
                    let certified = loss.nodes(c, 0.0).moments();
                    let off = (found.log_moment.value - certified.log_moment.value).abs();
                    assert!(found.log_moment.error.is_infinite());
                    assert!(
                        off <= 1e-8 * certified.log_moment.value.abs() + 1e-9 * c,
                        "{records} {c}: {found:?} {certified:?}"
                    );
                    let deviation = certified.variance.sqrt();
                    assert!(
                        (found.mean - certified.mean).abs() < 1e-7 * deviation,
                        "{records} {c}: {found:?} {certified:?}"
                    );
                    assert!(
                        (found.variance / certified.variance - 1.0).abs() < 1e-6,
                        "{records} {c}: {found:?} {certified:?}"
                    );
                }
            }
        }
    }

    /// Tilts below 0 and those at which one rule for a stretch does not serve have certified moments.
    #[test]
    fn what_fixed_nodes_do_not_serve_has_certified_moments() {
        let law = GroupLaw::binomial(2, 0.5).unwrap();
        let mut loss = StepLoss::laplace(&law, 1.0, Direction::Remove).unwrap();
        assert!(loss.estimated_moments(1.0, -30.0).log_moment.error.is_infinite());
        assert!(loss.estimated_moments(-0.5, -30.0).log_moment.error < 1e-10);
        assert!(loss.estimated_moments(1e4, -30.0).log_moment.error < 1e-6);
    }
}
