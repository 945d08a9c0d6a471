//! The law of the sums of a record's noise in each bin: a cyclic Gaussian Markov chain.
//!
//! With h_t = z_t + λ·h_{t+1} for independent standard normal z_t, H_a = Σ_e h_{eb+a} and x = H_{b+1}, the logarithm of the a-th term of W
//! is g_a − G_a/2 with g_a = (H_a + (α − λ)·H_{a+1})/σ. The density of v = (x, H_b, ..., H_1) is
//! Π_a φ_E(H_a − λ·H_{a+1}) times that of x − w̄·(H_1 − λ^b·x), which is N(0, τ²·Σ_{d<b} λ^{2d}). In one epoch x = 0, and v = (H_b, ..., H_1).

use crate::special::compensated_sum::CompensatedSum;

/// The chain of a run, in units of the noise of one step.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// Number of bins b.
    pub(super) bins: usize,
    /// Number of epochs E.
    pub(super) epochs: f64,
    /// λ.
    pub(super) decay: f64,
    /// α − λ: how much of H_{a+1} is in g_a.
    pub(super) excess: f64,
    /// The noise σ: the noise multiplier over the diagonal of the matrix.
    pub(super) noise: f64,
    /// G_a/2 of the bins 1, ..., b.
    pub(super) half_variances: Vec<f64>,
    /// The kernel from H_1 to x; none in a single epoch, where x = 0.
    pub(super) closing: Option<Closing>,
    /// Largest variance of a coordinate of v.
    pub(super) largest_variance: f64,
    /// Real shift of v per unit of phase: v − iθ·`shift` turns every g_a by −iθ.
    pub(super) shift: Vec<f64>,
    /// Λ·`shift` for the precision matrix Λ of v.
    pub(super) pull: Vec<f64>,
    /// `shift`ᵀ·Λ·`shift`: turning by θ costs a factor e^{θ²·`turning_cost`/2}.
    pub(super) turning_cost: f64,
    /// Weights r with wᵀΛw ≤ Σ_k r_k·w_k² for all w: the first coordinate, those between, the last.
    pub(super) stiffness: [f64; 3],
    /// Largest change of a g_a if no coordinate of v changes by more than 1.
    pub(super) reach: f64,
    /// Bound on the relative rounding error of e^{g_a − G_a/2}, in units of 2⁻⁵³, without the part that grows with H.
    pub(super) exponent_operations: f64,
    /// Bounds on the rounding errors of `pull`, summed, and of `turning_cost`, in the same units.
    pub(super) pull_operations: f64,
    pub(super) cost_operations: f64,
}

/// The last kernel of the chain: x·`stretch` − w̄·H_1 is N(0, `variance`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    /// w̄.
    pub(super) weight: f64,
    /// λ^b.
    pub(super) power: f64,
    /// The mean of λ^{be} over the epochs e, which is 1 − w̄·(1 − λ^b).
    pub(super) mean_power: f64,
    /// τ²·Σ_{d<b} λ^{2d}.
    pub(super) variance: f64,
}

impl Closing {
    /// 1 + w̄·λ^b.
    pub(super) fn stretch(self) -> f64 {
        self.weight.mul_add(self.power, 1.0)
    }

    /// Bound on the relative rounding error of `variance`, in units of 2⁻⁵³: weights have 10 of them, and their norm is at most
    /// √(1 + E) times that of their differences from the mean, of which the first is the mean itself.
    pub(super) fn variance_operations(epochs: f64) -> f64 {
        20.0 * (1.0 + epochs).sqrt() + 20.0
    }
}

impl Chain {
    /// The chain of the coefficients 1, α, αλ, αλ², ... with α = `first` and λ = `decay`.
    pub(super) fn new(bins: usize, epochs: usize, first: f64, decay: f64, noise: f64) -> Self {
        let weights = geometric_sums(decay, bins, epochs);
        let squares = square_sums(decay, bins);
        let half_variances = half_variances(bins, first, decay, noise, &weights, &squares);
        let largest_half = half_variances.iter().copied().fold(0.0, f64::max);
        let largest_variance = squares[bins] * weights[1..].iter().map(|w| w * w).sum::<f64>() * (1.0 + 1e-9);
        let excess = first - decay;
        let mut chain = Self {
            bins,
            epochs: epochs as f64,
            decay,
            excess,
            noise,
            half_variances,
            closing: (epochs > 1).then(|| closing(decay, bins, &weights[..epochs], squares[bins])),
            largest_variance,
            shift: Vec::new(),
            pull: Vec::new(),
            turning_cost: 0.0,
            stiffness: [0.0; 3],
            reach: (1.0 + excess.abs()) / noise,
            exponent_operations: 32.0 + 40.0 * largest_half,
            pull_operations: 0.0,
            cost_operations: 0.0,
        };
        chain.shift = chain.turning_shift();
        chain.stiffness = chain.weights_of_squares();
        chain.set_turning();
        chain
    }

    /// Number of coordinates of v.
    pub(super) fn coordinates(&self) -> usize {
        self.bins + usize::from(self.closing.is_some())
    }

    /// The shift of v that adds 1 to every g_a.
    fn turning_shift(&self) -> Vec<f64> {
        if self.closing.is_some() {
            return vec![self.noise / (1.0 + self.excess); self.bins + 1];
        }
        let mut before = 0.0;
        (0..self.bins)
            .map(|_| {
                before = self.noise - self.excess * before;
                before
            })
            .collect()
    }

    /// Sets what depends on the shift that turns all terms. It is constant where there is a closing kernel, whose argument is then
    /// shift·(1 − w̄·(1 − λ^b)), computed without cancellation.
    fn set_turning(&mut self) {
        let shift = self.shift.clone();
        let innovations = self.innovations(&shift);
        let rest = self
            .closing
            .map_or(0.0, |closing| shift[0] * closing.mean_power / closing.variance);
        self.pull = self.pulled(&innovations, rest);
        self.turning_cost = innovations.iter().map(|i| i * i / self.epochs).sum();
        let between = self.stiffness[1];
        self.pull_operations = shift
            .iter()
            .zip(&self.pull)
            .map(|(t, p)| 3.0 * p.abs() + 6.0 * between * t.abs())
            .sum();
        let largest = shift.iter().map(|t| t.abs()).fold(0.0, f64::max);
        let parts: f64 = innovations.iter().map(|i| i.abs() / self.epochs).sum();
        self.cost_operations = 8.0 * (1.0 + self.decay) * largest * parts + 4.0 * self.turning_cost;
        if let Some(closing) = self.closing {
            let operations = Closing::variance_operations(self.epochs) + 20.0;
            let square = rest * rest * closing.variance;
            self.turning_cost += square;
            self.pull_operations += operations * rest * (closing.stretch() + closing.weight);
            self.cost_operations += operations * square;
        }
    }

    /// `w`_a − λ·`w`_{a+1} for each bin, in the order of the coordinates.
    fn innovations(&self, w: &[f64]) -> Vec<f64> {
        let first = if self.closing.is_none() { Some(w[0]) } else { None };
        let others = w.windows(2).map(|pair| pair[1] - self.decay * pair[0]);
        first.into_iter().chain(others).collect()
    }

    /// Λ·w for the precision matrix Λ of v, from the innovations of w and the argument of the closing kernel over its variance.
    fn pulled(&self, innovations: &[f64], rest: f64) -> Vec<f64> {
        let offset = usize::from(self.closing.is_some());
        let mut found = vec![0.0; innovations.len() + offset];
        for (k, innovation) in innovations.iter().enumerate() {
            found[k + offset] += innovation / self.epochs;
            if k + offset > 0 {
                found[k + offset - 1] -= self.decay * innovation / self.epochs;
            }
        }
        if let Some(closing) = self.closing {
            let last = found.len() - 1;
            found[0] += closing.stretch() * rest;
            found[last] -= closing.weight * rest;
        }
        found
    }

    /// From (w_k − λw_{k−1})² ≤ (1 + λ)(w_k² + λw_{k−1}²) and (uw − w̄w')² ≤ (u + w̄)(uw² + w̄w'²).
    fn weights_of_squares(&self) -> [f64; 3] {
        let own = (1.0 + self.decay) / self.epochs;
        let between = own * (1.0 + self.decay);
        self.closing.map_or([between; 3], |closing| {
            let (stretch, weight) = (closing.stretch(), closing.weight);
            let rest = (stretch + weight) / closing.variance;
            [own * self.decay + rest * stretch, between, own + rest * weight]
        })
    }
}

/// (1 − q^e)/(1 − q) for q = λ^b and e = 0, ..., `count`, with a relative error of 10 roundings at most.
fn geometric_sums(decay: f64, bins: usize, count: usize) -> Vec<f64> {
    let log = bins as f64 * decay.ln();
    let sum = |e: usize| {
        if e <= 1 || decay == 0.0 {
            e.min(1) as f64
        } else {
            (e as f64 * log).exp_m1() / log.exp_m1()
        }
    };
    (0..=count).map(sum).collect()
}

/// Σ_{d<k} λ^{2d} for k = 0, ..., `bins`.
fn square_sums(decay: f64, bins: usize) -> Vec<f64> {
    let mut sum = CompensatedSum::default();
    let mut found = vec![0.0];
    for d in 0..bins {
        sum.add(decay.powf(2.0 * d as f64));
        found.push(sum.value());
    }
    found
}

/// Half the variances of g_1, ..., g_b: squared norms of what a record adds in each bin, over 2σ².
fn half_variances(bins: usize, first: f64, decay: f64, noise: f64, weights: &[f64], squares: &[f64]) -> Vec<f64> {
    let epochs = weights.len() - 1;
    let at_start = first * decay.powf(bins as f64 - 1.0);
    let mut heads = CompensatedSum::default();
    let mut full = CompensatedSum::default();
    for e in 0..epochs {
        heads.add((1.0 + at_start * weights[e]).powi(2));
        if e + 1 < epochs {
            full.add((first * weights[e + 1]).powi(2));
        }
    }
    let last = (first * weights[epochs]).powi(2);
    (1..=bins)
        .map(|a| {
            let tails = full.value() * squares[bins - 1] + last * squares[bins - a];
            0.5 * (heads.value() + tails) / noise / noise
        })
        .collect()
}

/// The closing kernel from the weights (1 − λ^{be})/(1 − λ^b) of all epochs and Σ_{d<b} λ^{2d}.
fn closing(decay: f64, bins: usize, weights: &[f64], squares: f64) -> Closing {
    let epochs = weights.len() as f64;
    let mean = |terms: &mut dyn Iterator<Item = f64>| {
        let mut sum = CompensatedSum::default();
        terms.for_each(|term| sum.add(term));
        sum.value() / epochs
    };
    let weight = mean(&mut weights.iter().copied());
    Closing {
        weight,
        power: decay.powf(bins as f64),
        mean_power: mean(&mut (0..weights.len()).map(|e| decay.powf((bins * e) as f64))),
        variance: epochs * mean(&mut weights.iter().map(|w| (w - weight).powi(2))) * squares,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of the matrix, summed over the epochs.
    fn gram(bins: usize, epochs: usize, first: f64, decay: f64) -> Vec<Vec<f64>> {
        let n = bins * epochs;
        let coefficient = |k: usize| if k == 0 { 1.0 } else { first * decay.powi(k as i32 - 1) };
        let sum = |a: usize| -> Vec<f64> {
            (0..n)
                .map(|t| {
                    (0..epochs)
                        .filter(|e| e * bins + a <= t)
                        .map(|e| coefficient(t - e * bins - a))
                        .sum()
                })
                .collect()
        };
        let sums: Vec<Vec<f64>> = (0..bins).map(sum).collect();
        let dot = |p: &Vec<f64>, q: &Vec<f64>| p.iter().zip(q).map(|(x, y)| x * y).sum();
        sums.iter().map(|p| sums.iter().map(|q| dot(p, q)).collect()).collect()
    }

    /// Λ·Cov(v, g) must be the weights of v in g: this fixes the covariances of all g_a.
    #[test]
    fn the_chain_has_the_covariances_of_the_matrix() {
        for (bins, epochs, first, decay) in [
            (4, 3, 0.5, 0.5),
            (5, 1, 0.7, 0.2),
            (3, 2, 0.6, 0.0),
            (2, 4, 0.3, 0.9),
            (3, 5, 0.0, 0.4),
        ] {
            let chain = Chain::new(bins, epochs, first, decay, 2.0);
            let exact = gram(bins, epochs, first, decay);
            let size = chain.coordinates();
            let offset = size - bins;
            // Weights of g_a in v, a = b at the first place after x.
            let weights: Vec<Vec<f64>> = (1..=bins)
                .map(|a| {
                    let mut w = vec![0.0; size];
                    let at = offset + bins - a;
                    w[at] = 0.5;
                    if at > 0 {
                        w[at - 1] = 0.5 * chain.excess;
                    }
                    w
                })
                .collect();
            for a in 0..bins {
                assert!((2.0 * chain.half_variances[a] - exact[a][a] / 4.0).abs() < 1e-13 * exact[a][a]);
                let solved = solve(&chain, &weights[a]);
                for c in 0..bins {
                    let found: f64 = solved.iter().zip(&weights[c]).map(|(x, y)| x * y).sum();
                    assert!(
                        (found - exact[a][c] / 4.0).abs() < 1e-11,
                        "{bins} {epochs} {a} {c}: {found} {}",
                        exact[a][c] / 4.0
                    );
                }
            }
        }
    }

    /// Λ·`w`, by the definition of the density.
    fn precision_times(chain: &Chain, w: &[f64]) -> Vec<f64> {
        let rest = chain.closing.map_or(0.0, |closing| {
            (closing.stretch() * w[0] - closing.weight * w[w.len() - 1]) / closing.variance
        });
        chain.pulled(&chain.innovations(w), rest)
    }

    /// Λ⁻¹·`right` by Gaussian elimination.
    fn solve(chain: &Chain, right: &[f64]) -> Vec<f64> {
        let n = right.len();
        let mut rows: Vec<Vec<f64>> = vec![vec![0.0; n + 1]; n];
        for j in 0..n {
            let mut unit = vec![0.0; n];
            unit[j] = 1.0;
            for (i, value) in precision_times(chain, &unit).into_iter().enumerate() {
                rows[i][j] = value;
            }
        }
        for (row, value) in rows.iter_mut().zip(right) {
            row[n] = *value;
        }
        for k in 0..n {
            let pivot = rows[k].clone();
            for (i, row) in rows.iter_mut().enumerate() {
                if i != k {
                    let factor = row[k] / pivot[k];
                    row.iter_mut().zip(&pivot).for_each(|(x, p)| *x -= factor * p);
                }
            }
        }
        (0..n).map(|k| rows[k][n] / rows[k][k]).collect()
    }

    #[test]
    fn the_shift_turns_all_terms_alike_and_its_cost_is_below_the_weights() {
        for (bins, epochs) in [(4, 3), (5, 1)] {
            let chain = Chain::new(bins, epochs, 0.4, 0.7, 3.0);
            let before = if epochs > 1 { chain.shift[0] } else { 0.0 };
            let terms = &chain.shift[usize::from(epochs > 1)..];
            let mut last = before;
            for t in terms {
                assert!(((t + chain.excess * last) / chain.noise - 1.0).abs() < 1e-12);
                last = *t;
            }
            let [head, middle, tail] = chain.stiffness;
            let squares: Vec<f64> = chain.shift.iter().map(|t| t * t).collect();
            let inner: f64 = squares[1..squares.len() - 1].iter().sum();
            let bound = head * squares[0] + middle * inner + tail * squares[squares.len() - 1];
            assert!(0.0 < chain.turning_cost && chain.turning_cost <= bound);
            let direct = precision_times(&chain, &chain.shift);
            assert!(direct.iter().zip(&chain.pull).all(|(x, y)| (x - y).abs() < 1e-12));
            let cost: f64 = direct.iter().zip(&chain.shift).map(|(p, t)| p * t).sum();
            assert!((cost / chain.turning_cost - 1.0).abs() < 1e-12);
            // The largest variance is that of H_1.
            let mut unit = vec![0.0; chain.coordinates()];
            *unit.last_mut().unwrap() = 1.0;
            let variance = *solve(&chain, &unit).last().unwrap();
            let above = chain.largest_variance / variance - 1.0;
            assert!((0.0..2e-9).contains(&above), "{above}");
        }
    }
}
