//! A mixture at half of the nodes of a panel at once, in the lanes of the processor's vectors.
//!
//! One node after the other, most of the time went into calls of functions and into waiting for one addition after the other: an ε for a group
//! of 16 took a sixth longer.

use super::{FEW, MixturePair, NEAR_ONE, OverAtom};
use crate::special::exponential;
use crate::special::gauss_legendre::NODES;

/// Largest distance of two nodes, in σ. Over distances of 5σ, differences of exponents have ten times the rounding that is counted.
pub(crate) const WIDEST: f64 = 2.0;

/// Nodes that are evaluated at once: half a panel, as a whole one may be longer than [`WIDEST`].
pub(crate) const LANES: usize = NODES / 2;

/// Numbers at those nodes.
pub(crate) type AtNodes = [f64; LANES];

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

/// The logarithms of the terms of atoms `first..end` over the largest one at each node, into `terms`, and the places of the largest ones, as numbers that vectors
/// have.
#[inline(always)]
fn log_terms(
    over: &OverAtom<'_>,
    (first, end): (usize, usize),
    nodes: &AtNodes,
    terms: &mut Vec<AtNodes>,
) -> AtNodes {
    let (mut largest, mut modes) = ([f64::NEG_INFINITY; LANES], [first as f64; LANES]);
    terms.clear();
    for j in first..end {
        let (slope, middle, at_middle) = over.line(j);
        let (mut exponents, place) = ([0.0; LANES], j as f64);
        for i in 0..LANES {
            let exponent = at_middle + slope * (nodes[i] - middle);
            let is_larger = exponent > largest[i];
            exponents[i] = exponent;
            largest[i] = if is_larger { exponent } else { largest[i] };
            modes[i] = if is_larger { place } else { modes[i] };
        }
        terms.push(exponents);
    }
    for term in terms {
        for i in 0..LANES {
            term[i] -= largest[i];
        }
    }
    modes
}

/// Σ t_j and Σ t_j·s_j at every node.
#[inline(always)]
fn sums(terms: &[AtNodes], shifts: &[f64]) -> [AtNodes; 2] {
    let [mut sum, mut moment] = [[0.0; LANES]; 2];
    for (term, shift) in terms.iter().zip(shifts) {
        for i in 0..LANES {
            sum[i] += term[i];
            moment[i] += term[i] * shift;
        }
    }
    [sum, moment]
}

impl MixturePair {
    /// What [`crate::loss::posterior::Posterior::at`] finds, at that many outputs x, which rise or fall and are within [`WIDEST`] standard deviations of the noise, as
    /// terms are compared with one that is the largest in the middle. `terms` is working memory.
    pub(crate) fn at_nodes(&self, nodes: &AtNodes, terms: &mut Vec<AtNodes>) -> RatiosAtNodes {
        let (first, end) = self.atoms_at_nodes(nodes);
        let over = self.over_atom(self.window(nodes[LANES / 2]).mode);
        let arch = pulp::Arch::new();
        let modes = arch.dispatch(|| log_terms(&over, (first, end), nodes, terms));
        exponential::exp(terms.as_flattened_mut());
        let [sum, moment] = arch.dispatch(|| sums(terms, &self.shifts[first..end]));
        let log_sum = sum.map(f64::ln);
        let mut log_ratio = at_nodes(|i| self.term(modes[i] as usize, nodes[i]) + log_sum[i]);
        if log_ratio.iter().any(|log| log.abs() <= NEAR_ONE) {
            if self.has_few_atoms() {
                let excess = self.excess_at_nodes(nodes, terms);
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
        RatiosAtNodes {
            log_ratio,
            log_density: at_nodes(|i| {
                let mode = modes[i] as usize;
                let distance = (nodes[i] - self.shifts[mode]) / self.noise_multiplier;
                self.log_weights[mode] - 0.5 * distance * distance + log_sum[i]
            }),
            mean_shift: at_nodes(|i| moment[i] / sum[i]),
            atoms: (first, end - 1),
        }
    }

    /// Whether all atoms are evaluated at every node.
    pub(crate) fn has_few_atoms(&self) -> bool {
        self.shifts.len() <= FEW
    }

    /// The first atom and the one after the last that are not negligible at all nodes.
    ///
    /// The ratio of the term of a larger shift to that of a smaller one grows with x. So an atom below the first one that counts at the least x is
    /// negligible beside that one at every x, and one above the last that counts at the largest x beside this one.
    fn atoms_at_nodes(&self, nodes: &AtNodes) -> (usize, usize) {
        if self.has_few_atoms() {
            return (0, self.shifts.len());
        }
        let [a, b] = [nodes[0], nodes[LANES - 1]];
        (self.window(a.min(b)).start, self.window(a.max(b)).end)
    }

    /// Σ w_j (N(s_j)/N(0) − 1) at all nodes.
    fn excess_at_nodes(&self, nodes: &AtNodes, terms: &mut Vec<AtNodes>) -> AtNodes {
        let x = nodes.map(|x| x / self.noise_multiplier);
        terms.clear();
        let exponents = |shift: &f64| at_nodes(|i| shift * (x[i] - 0.5 * shift));
        terms.extend(self.scaled_shifts.iter().map(exponents));
        exponential::exp_m1(terms.as_flattened_mut());
        let mut excess = [0.0; LANES];
        for (j, term) in terms.iter().enumerate() {
            excess = at_nodes(|i| excess[i] + self.excess_of_term(j, term[i], nodes[i]));
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
    /// The weight e^−800 has no `f64`, and the change e^795 − 1 that belongs to it has none either; their product e^−5 counts.
    #[test]
    fn a_weight_without_a_number_counts_where_its_density_is_large() {
        let law = GroupLaw::explicit_log(&[0.0, -800.0], &[0.0, 1.0]).unwrap();
        let pair = MixturePair::new(&law, 1.0).unwrap();
        let nodes = at_nodes(|i| 795.5 + 0.01 * (i as f64 - 5.0));
        let found = pair.at_nodes(&nodes, &mut Vec::new()).log_ratio[5];
        for log_ratio in [found, pair.log_ratio(795.5)] {
            assert!(
                (log_ratio / (-5.0f64).exp().ln_1p() - 1.0).abs() < 1e-12,
                "{log_ratio:e}"
            );
        }
    }

    type Reference = (u64, f64, f64, f64, f64, f64);

    const REFERENCES: [Reference; 10] = [
        (4, 0.5, 100.0, 1700.0, 0.354_147_660_647_550_77, -144.145_852_339_352_44),
        (4, 0.5, 100.0, 3000.0, 0.644_519_402_567_296_7, -449.355_480_597_432_7),
        (4, 0.5, 30.0, 250.0, 0.590_592_706_516_833_7, -34.131_629_515_705_39),
        (16, 0.3, 50.0, -400.0, -0.730_217_069_639_927_8, -32.730_217_069_639_93),
        (1, 0.5, 10.0, 80.0, 0.474_506_288_545_042_84, -31.525_493_711_454_956),
        (
            31,
            0.5,
            1.0 / 3.0,
            15.3,
            1_051.187_074_776_172_5,
            -2.217_925_223_827_801_8,
        ),
        (31, 0.25, 0.2, 9.7, 1_172.712_551_106_030_6, -3.412_448_893_969_197_3),
        (31, 0.5, 1.0, 18.0, 160.559_902_940_392_45, -1.440_097_059_607_551_7),
        (200, 0.3, 5.0, 75.0, 110.332_009_698_775_21, -2.167_990_301_224_795),
        (1, 0.7, 0.1, 0.45, -1.188_373_236_412_814_8, -11.313_373_236_412_813),
    ];

    /// log of Σ_j C(k, j) q^j (1 − q)^{k − j}·N(j, σ²) over N(0, σ²) at x, and of its density. mpmath, 40 digits.
    ///
    /// `w = [binomial(k, j)*mpf(q)**j*(1 - mpf(q))**(k - j) for j in range(k + 1)]`
    /// `log(fsum(w[j]*exp(-(x - j)**2/(2*s**2)) for j in range(k + 1)))`, and that plus `x**2/(2*s**2)`
    #[test]
    fn roundings_are_below_what_is_counted_with_much_and_with_little_noise() {
        for (k, q, sigma, x, log_ratio, log_density) in REFERENCES {
            let pair = MixturePair::new(&GroupLaw::binomial(k, q).unwrap(), sigma).unwrap();
            let nodes = at_nodes(|i| x + 0.01 * sigma * (i as f64 - 5.0));
            let (mut terms, mut posterior) = (Vec::new(), Posterior::default());
            let found = pair.at_nodes(&nodes, &mut terms);
            posterior.at(&pair, x);
            assert_eq!(nodes[5], x);
            for (ratio, density, mean) in [
                (found.log_ratio[5], found.log_density[5], found.mean_shift[5]),
                (posterior.log_ratio, posterior.log_density, posterior.mean_shift),
            ] {
                let shift = mean.abs() / sigma;
                let size = shift * ((x / sigma).abs() + shift) + log_ratio.abs();
                let off = (ratio - log_ratio).abs() / (8.0 * f64::EPSILON * size);
                assert!(off <= 1.0, "{k} {sigma} {x}: {ratio} {off}");
                let off = (density - log_density).abs() / (8.0 * f64::EPSILON * (4.0 + log_density.abs()));
                assert!(off <= 1.0, "{k} {sigma} {x}: {density} {off}");
            }
        }
    }

    #[test]
    fn ratios_at_all_nodes_are_those_at_each() {
        let laws = [
            GroupLaw::binomial(1, 0.01).unwrap(),
            GroupLaw::binomial(1, 1e-60).unwrap(),
            GroupLaw::binomial(31, 0.3).unwrap(),
            GroupLaw::binomial(300, 0.2).unwrap(),
            GroupLaw::explicit(&[0.5, 0.2, 0.3], &[0.0, 0.7, 5.0]).unwrap(),
            GroupLaw::explicit(
                &[1.0 / 64.0; 64],
                &std::array::from_fn::<f64, 64, _>(|i| (i * i) as f64 / 64.0),
            )
            .unwrap(),
        ];
        for (law, sigma) in laws.iter().zip([0.5, 1.0, 2.0, 7.0, 0.4, 0.3]) {
            let pair = MixturePair::new(law, sigma).unwrap();
            let (mut terms, mut posterior) = (Vec::new(), Posterior::default());
            for centre in [-1e4, -40.0, -1.0, 0.0, 0.7, 3.0, 40.0, 1e4] {
                let x = at_nodes(|i| centre + sigma * (i as f64 - 7.5) / 7.5);
                let found = pair.at_nodes(&x, &mut terms);
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
