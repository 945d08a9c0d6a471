//! Losses next to a few values: of outputs whose losses are atoms, or nearly so, beside a density.
//!
//! A few steps of Laplace noise have such losses: each of both tails of the noise has one loss, and where members of a group are rarely in a batch the
//! losses of the outputs next to a tail are next to that. What a sum of such losses comes to is nearly in closed form
//! ([`crate::inversion::cluster_runs`]).

use crate::interval::Interval;

/// Outputs whose losses are next to each other.
#[derive(Debug, Clone, Copy)]
pub struct Cluster {
    /// Logs of their probabilities under P and Q.
    pub(crate) log_p: f64,
    pub(crate) log_q: f64,
    /// Bound on the errors of both.
    pub(crate) error: f64,
    /// Bounds on the log of P's probability over Q's, the loss of all of them together.
    pub(crate) mean: Interval,
    /// Bounds on their losses.
    pub(crate) losses: Interval,
}

/// Relative width of a cluster that is one loss but for its error.
const ONE_LOSS: f64 = 1e-13;

impl Cluster {
    /// One loss, or two losses with the same probabilities together, whose law is above that of the cluster.
    ///
    /// With R the likelihood ratio of an output, δ is the mean of convex functions of R under Q, which grows if R moves to the ends of an interval so
    /// that its mean stays. Where the ends are the same but for their error, P's outputs have the larger loss.
    pub(crate) fn ends(&self) -> Vec<Self> {
        let (lowest, highest) = (self.losses.lower, self.losses.upper);
        if highest - lowest <= ONE_LOSS * highest.abs().max(lowest.abs()) {
            return vec![Self {
                mean: Interval::exact(highest),
                losses: Interval::exact(highest),
                ..*self
            }];
        }
        let share = ((self.mean.upper - lowest).exp_m1() / (highest - lowest).exp_m1()).clamp(0.0, 1.0);
        let at = |loss: f64, share: f64| Self {
            log_p: self.log_q + share.ln() + loss,
            log_q: self.log_q + share.ln(),
            error: self.error + 8.0 * f64::EPSILON * (1.0 + self.log_q.abs() + loss.abs()),
            mean: Interval::exact(loss),
            losses: Interval::exact(loss),
        };
        let ends = [at(lowest, 1.0 - share), at(highest, share)];
        ends.into_iter().filter(|end| end.log_q > f64::NEG_INFINITY).collect()
    }
}

/// What a tilted loss has beside its clusters: E[e^{zℓ}; outputs in none]/E[e^{cℓ}].
#[derive(Debug, Clone)]
pub struct BesideClusters {
    /// Tilted probability of all clusters.
    pub(crate) mass_of_clusters: f64,
    /// Tilted mass of each stretch of the others, and the total variation of the density of its losses.
    pub(crate) stretches: Vec<(f64, f64)>,
    /// The total variation of the density of their losses together.
    pub(crate) variation: f64,
}

impl BesideClusters {
    /// A bound for all |Im z| ≥ y.
    pub(crate) fn decay(&self, y: f64) -> f64 {
        decay_of((&self.stretches, self.variation), y) * (1.0 + 1e-12)
    }
}

/// A bound on E[e^{zℓ}] over outputs, for all |Im z| ≥ y: the sum of the masses of their stretches, or of the variation of the density of each over y,
/// whichever is less; or the variation of the density of all of them over y.
pub(crate) fn decay_of((stretches, variation): (&[(f64, f64)], f64), y: f64) -> f64 {
    let of = |&(mass, variation): &(f64, f64)| mass.min(variation / y);
    let by_stretches: f64 = stretches.iter().map(of).sum();
    by_stretches.min(variation / y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two losses in one cluster, 1 and 3 with masses 0.1 and 0.2 under P.
    fn pair() -> Cluster {
        let (p, q): (f64, f64) = (0.3, 0.1 * (-1.0f64).exp() + 0.2 * (-3.0f64).exp());
        let mean = (p / q).ln();
        Cluster {
            log_p: p.ln(),
            log_q: q.ln(),
            error: 0.0,
            mean: Interval::exact(mean),
            losses: Interval { lower: 0.5, upper: 3.5 },
        }
    }

    /// Their probabilities are those of the cluster, under P and Q, and δ is larger for them, as it is smaller for the mean.
    #[test]
    fn ends_have_the_probabilities_of_the_cluster_and_a_larger_delta() {
        let cluster = pair();
        let ends = cluster.ends();
        assert_eq!(ends.iter().map(|end| end.mean.upper).collect::<Vec<_>>(), [0.5, 3.5]);
        let total = |part: fn(&Cluster) -> f64| ends.iter().map(|end| part(end).exp()).sum::<f64>().ln();
        assert!((total(|end| end.log_p) - cluster.log_p).abs() < 1e-14);
        assert!((total(|end| end.log_q) - cluster.log_q).abs() < 1e-14);
        let part = |loss: f64, epsilon: f64| (-(epsilon - loss).exp_m1()).max(0.0);
        for epsilon in [0.0, 0.7, 1.5, 2.9, 3.2] {
            let exact = 0.1 * part(1.0, epsilon) + 0.2 * part(3.0, epsilon);
            let above: f64 = ends
                .iter()
                .map(|end| end.log_p.exp() * part(end.mean.upper, epsilon))
                .sum();
            let below = 0.3 * part(cluster.mean.lower, epsilon);
            let is_inside = (0.5..3.5).contains(&epsilon);
            assert!(above >= exact - 1e-15 && below <= exact + 1e-15, "{epsilon}");
            assert!(!is_inside || above > exact + 1e-4, "{epsilon}: {above} {exact}");
        }
    }

    /// A mean at one end leaves one loss; a loss with an error counts as the larger one.
    #[test]
    fn one_loss_has_one_end() {
        let atom = Cluster {
            mean: Interval::exact(2.0),
            losses: Interval {
                lower: 2.0 - 1e-15,
                upper: 2.0 + 1e-15,
            },
            ..pair()
        };
        let ends = atom.ends();
        assert_eq!(
            (ends.len(), ends[0].mean.lower, ends[0].log_p),
            (1, 2.0 + 1e-15, atom.log_p)
        );
        let at_end = Cluster {
            mean: Interval::exact(3.5),
            ..pair()
        };
        assert_eq!(at_end.ends().len(), 1);
    }

    /// A uniform loss on [0, 1] has the variation 2, and |E[e^{iyℓ}]| = |sin(y/2)|·2/y; of two stretches that meet, half of the jumps are there.
    #[test]
    fn the_smaller_bound_counts() {
        let beside = BesideClusters {
            mass_of_clusters: 0.0,
            stretches: vec![(0.5, 2.0), (0.5, 2.0)],
            variation: 2.0,
        };
        for half_turns in [1.0, 3.0, 15.0] {
            let y = half_turns * std::f64::consts::PI;
            let exact = 2.0 * (0.5 * y).sin().abs() / y;
            let found = beside.decay(y);
            assert!(found >= exact && found < exact * (1.0 + 1e-11), "{y}: {found} {exact}");
        }
        assert!((beside.decay(1.0) - 1.0).abs() < 1e-11);
    }
}
