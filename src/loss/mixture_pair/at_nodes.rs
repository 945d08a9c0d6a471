//! A mixture at all nodes of a panel at once, in the lanes of the processor's vectors.
//!
//! One node after the other, most of the time went into calls of functions and into waiting for one addition after the other: an ε for a group
//! of 16 took a third longer.

use super::{FEW, MixturePair, NEAR_ONE};
use crate::special::exponential;
use crate::special::gauss_legendre::NODES;

/// Numbers at the nodes of a panel.
pub(crate) type AtNodes = [f64; NODES];

/// Logarithms of the likelihood ratio and of the density, and the posterior means of the shift.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RatiosAtNodes {
    /// log of the likelihood ratio r.
    pub(crate) log_ratio: AtNodes,
    /// log of the mixture's density but for 1/(σ√2π).
    pub(crate) log_density: AtNodes,
    /// Means of the posterior law of the shift.
    pub(crate) mean_shift: AtNodes,
    /// The first and the last atom that were counted; the others are negligible at all nodes.
    pub(crate) atoms: (usize, usize),
}

/// An array of the results for every node.
#[inline(always)]
fn at_nodes(value: impl FnMut(usize) -> f64) -> AtNodes {
    std::array::from_fn(value)
}

impl MixturePair {
    /// What [`crate::loss::posterior::Posterior::at`] finds, at all nodes x, which rise or fall. `terms` is working memory.
    ///
    /// `None` where a mixture of many atoms has terms with more than one mode, of which most may be negligible.
    pub(crate) fn at_nodes(&self, nodes: &AtNodes, terms: &mut Vec<AtNodes>) -> Option<RatiosAtNodes> {
        let sigma = self.noise_multiplier;
        let (first, end) = self.atoms_at_nodes(nodes)?;
        let x = at_nodes(|i| nodes[i] / sigma);
        // log w_j − (x − s_j)²/2σ², which far out keeps the digits that the logarithm of the ratio has lost, and the largest of both.
        let (mut densest, mut largest) = ([f64::NEG_INFINITY; NODES], [f64::NEG_INFINITY; NODES]);
        terms.clear();
        for (log_weight, shift) in self.log_weights[first..end].iter().zip(&self.scaled_shifts[first..end]) {
            let density = at_nodes(|i| log_weight - 0.5 * (x[i] - shift) * (x[i] - shift));
            let ratio = at_nodes(|i| log_weight + shift * (x[i] - 0.5 * shift));
            densest = at_nodes(|i| {
                if density[i] > densest[i] {
                    density[i]
                } else {
                    densest[i]
                }
            });
            largest = at_nodes(|i| if ratio[i] > largest[i] { ratio[i] } else { largest[i] });
            terms.push(density);
        }
        for term in terms.iter_mut() {
            *term = at_nodes(|i| term[i] - densest[i]);
        }
        exponential::exp(terms.as_flattened_mut());
        let (mut sum, mut moment) = ([0.0; NODES], [0.0; NODES]);
        for (term, shift) in terms.iter().zip(&self.shifts[first..end]) {
            sum = at_nodes(|i| sum[i] + term[i]);
            moment = at_nodes(|i| moment[i] + term[i] * shift);
        }
        let log_sum = sum.map(f64::ln);
        let mut log_ratio = at_nodes(|i| largest[i] + log_sum[i]);
        if log_ratio.iter().any(|log| log.abs() <= NEAR_ONE) {
            if self.has_few_atoms() {
                let excess = self.excess_at_nodes(&x, terms);
                for (log, excess) in log_ratio.iter_mut().zip(excess) {
                    if log.abs() <= NEAR_ONE && excess.is_finite() {
                        *log = excess.ln_1p();
                    }
                }
            } else {
                for (log, &x) in log_ratio.iter_mut().zip(nodes) {
                    *log = self.refined(x, (first, end), *log);
                }
            }
        }
        Some(RatiosAtNodes {
            log_ratio,
            log_density: at_nodes(|i| densest[i] + log_sum[i]),
            mean_shift: at_nodes(|i| moment[i] / sum[i]),
            atoms: (first, end - 1),
        })
    }

    /// Whether all atoms are evaluated at every node.
    pub(crate) fn has_few_atoms(&self) -> bool {
        self.shifts.len() <= FEW
    }

    /// The first atom and the one after the last that are not negligible at all nodes: where the terms rise to one mode and fall, those that count move
    /// up with x.
    fn atoms_at_nodes(&self, nodes: &AtNodes) -> Option<(usize, usize)> {
        if self.has_few_atoms() {
            return Some((0, self.shifts.len()));
        }
        let [a, b] = [nodes[0], nodes[NODES - 1]];
        self.unimodal
            .then(|| (self.window(a.min(b)).start, self.window(a.max(b)).end))
    }

    /// Σ w_j (N(s_j)/N(0) − 1) at all nodes, given over σ.
    fn excess_at_nodes(&self, x: &AtNodes, terms: &mut Vec<AtNodes>) -> AtNodes {
        terms.clear();
        let exponents = |shift: &f64| at_nodes(|i| shift * (x[i] - 0.5 * shift));
        terms.extend(self.scaled_shifts.iter().map(exponents));
        exponential::exp_m1(terms.as_flattened_mut());
        let mut excess = [0.0; NODES];
        for (term, weight) in terms.iter().zip(&self.weights) {
            excess = at_nodes(|i| excess[i] + weight * term[i]);
        }
        excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::mixture_pair::NEGLIGIBLE_TERM;
    use crate::loss::posterior::Posterior;
    use crate::step::GroupLaw;

    /// As the posterior law at one point after the other, from the middle of the mixture to far beyond where its terms have an `f64`, and where
    /// the ratio is next to 1 though no weight is.
    #[test]
    fn ratios_at_all_nodes_are_those_at_each() {
        let laws = [
            GroupLaw::binomial(1, 0.01).unwrap(),
            GroupLaw::binomial(1, 1e-60).unwrap(),
            GroupLaw::binomial(31, 0.3).unwrap(),
            GroupLaw::binomial(300, 0.2).unwrap(),
            GroupLaw::explicit(&[0.5, 0.2, 0.3], &[0.0, 0.7, 5.0]).unwrap(),
        ];
        for (law, sigma) in laws.iter().zip([0.5, 1.0, 2.0, 7.0, 0.4]) {
            let pair = MixturePair::new(law, sigma).unwrap();
            let (mut terms, mut posterior) = (Vec::new(), Posterior::default());
            for width in [1e-9, 1.0, 40.0, 1e4] {
                let x = at_nodes(|i| width * (i as f64 - 11.3) / 20.0);
                let found = pair.at_nodes(&x, &mut terms).unwrap();
                for (i, &x) in x.iter().enumerate() {
                    posterior.at(&pair, x);
                    let size = (x / sigma).abs() * pair.scaled_shifts.last().unwrap().max(1.0) + 1.0;
                    // One point leaves out the terms that are negligible there, which may be all but one.
                    let left_out = NEGLIGIBLE_TERM * pair.shifts.iter().sum::<f64>();
                    for (found, one, left_out) in [
                        (found.log_ratio[i], posterior.log_ratio, 0.0),
                        (found.mean_shift[i], posterior.mean_shift, left_out),
                    ] {
                        let rounding = 8.0 * f64::EPSILON * size * one.abs();
                        assert!((found - one).abs() <= rounding + left_out, "{x}: {found:e} {one:e}");
                    }
                    let (found, one) = (found.log_density[i], posterior.log_density);
                    assert!(
                        (found - one).abs() <= 8.0 * f64::EPSILON * (1.0 + one.abs()),
                        "{x}: {found} {one}"
                    );
                }
            }
        }
    }
}
