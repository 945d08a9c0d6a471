//! The law of one random variable on the places 0, 1, … of a lattice.

/// Terms that are added up before their sum is added to others, which bounds rounding.
const BLOCK: usize = 64;

/// Probabilities of places, which may add up to less than 1.
#[derive(Debug, Clone)]
pub(in crate::loss) struct Places {
    /// Probabilities.
    pub(in crate::loss) masses: Vec<f64>,
    /// Bound on their relative errors.
    pub(in crate::loss) error: f64,
}

/// Moments of a place under a tilt.
#[derive(Debug, Clone, Copy)]
pub(in crate::loss) struct PlaceMoments {
    /// log E[e^{θJ}].
    pub(in crate::loss) log_moment: f64,
    pub(in crate::loss) mean: f64,
    pub(in crate::loss) variance: f64,
}

impl Places {
    /// The largest place.
    pub(in crate::loss) fn top(&self) -> usize {
        self.masses.len() - 1
    }

    /// Moments of the place under the tilt e^{θJ}, the logarithm to [`Places::moment_error`].
    pub(in crate::loss) fn moments(&self, tilt: f64) -> PlaceMoments {
        let reference = if tilt > 0.0 { self.top() as f64 } else { 0.0 };
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for (i, block) in self.masses.chunks(BLOCK).enumerate() {
            let mut part = (0.0, 0.0, 0.0);
            for (j, mass) in block.iter().enumerate() {
                let place = (i * BLOCK + j) as f64 - reference;
                let weight = mass * (tilt * place).exp();
                part.0 += weight;
                part.1 += weight * place;
                part.2 += weight * place * place;
            }
            sum += part.0;
            first += part.1;
            second += part.2;
        }
        let mean = first / sum;
        PlaceMoments {
            log_moment: sum.ln() + tilt * reference,
            mean: mean + reference,
            variance: (second / sum - mean * mean).max(0.0),
        }
    }

    /// Bound on the error of a log moment: of masses, of exponentials, of sums, and of the logarithm.
    pub(in crate::loss) fn moment_error(&self, tilt: f64) -> f64 {
        let sums = (BLOCK + self.masses.len() / BLOCK + 8) as f64;
        self.error + f64::EPSILON * (sums + 4.0 * tilt.abs() * self.top() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A binomial law under tilts: E[e^{θJ}] = (1 − p + p·e^θ)^n.
    #[test]
    fn moments_are_those_of_a_binomial_law() {
        let (n, p) = (200u32, 0.25f64);
        let mut masses = vec![(1.0 - p).powi(n as i32)];
        for k in 0..n {
            let last = masses[k as usize];
            masses.push(last * f64::from(n - k) / f64::from(k + 1) * p / (1.0 - p));
        }
        let places = Places { masses, error: 1e-13 };
        for tilt in [-2.0f64, -0.1, 0.0, 0.3, 4.0] {
            let found = places.moments(tilt);
            let share = p * tilt.exp() / (1.0 - p + p * tilt.exp());
            let exact = f64::from(n) * (1.0 - p + p * tilt.exp()).ln();
            assert!((found.log_moment - exact).abs() <= places.moment_error(tilt) + 1e-13 * exact.abs());
            assert!((found.mean / (f64::from(n) * share) - 1.0).abs() < 1e-12);
            assert!((found.variance / (f64::from(n) * share * (1.0 - share)) - 1.0).abs() < 1e-9);
        }
    }
}
