//! Group laws: the distribution of the shift by which a group's records change the sum of a batch.

use crate::error::{Error, Result, require, require_probability, require_sample_rate};
use crate::special::extended::Extended;
use crate::special::log_space::log_sum_exp;
use crate::step::group::require_group_size;
use crate::stopping::checkpoint;

/// Largest distance from 1 of the sum of the weights of an explicit law.
///
/// Double-precision weights from any library sum to 1 within 1e-12; single-precision weights do not.
const WEIGHT_SUM_TOLERANCE: f64 = 1e-9;

/// A probability distribution of finitely many shifts: `shifts[j]` has probability `exp(log_weights[j])`.
///
/// Shifts ascend strictly and every weight is positive. The logarithms of the group laws are correct to
/// the last bit but one, so weights are exact to 1e-13 relative wherever an `f64` can hold them, and the
/// logarithm stays exact where it cannot (a group of 10,000 at rate 0.01 has weights below 1e-20000).
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLaw {
    log_weights: Vec<f64>,
    shifts: Vec<f64>,
    /// See [`GroupLaw::is_real_rooted`].
    real_rooted: bool,
}

impl GroupLaw {
    /// Logarithms of the weights.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// Shifts in units of the clipping norm, ascending.
    pub fn shifts(&self) -> &[f64] {
        &self.shifts
    }

    /// True if the shifts are known to be evenly spaced and not negative, with weights w_j for which all zeros of Σ_j w_j t^j are real.
    ///
    /// Such is the law of the number of members in a batch: they are drawn independently, or the batch is drawn without replacement (Vatutin
    /// and Mikhailov 1982, "Limit theorems for the number of empty cells in an equiprobable scheme for group allocation of particles").
    pub(crate) fn is_real_rooted(&self) -> bool {
        self.real_rooted
    }

    /// This law with its shifts divided by `unit` > 0.
    #[must_use]
    pub fn in_units_of(mut self, unit: f64) -> Self {
        self.shifts.iter_mut().for_each(|shift| *shift /= unit);
        self
    }

    /// Logarithm of the probability that the group does not change the sum: −∞ if 0 is not among the shifts.
    pub fn log_probability_of_zero(&self) -> f64 {
        let position = self.shifts.iter().position(|&shift| shift == 0.0);
        position.map_or(f64::NEG_INFINITY, |j| self.log_weights[j])
    }

    /// Poisson sampling of `group_size` records at one rate: Binomial(k, q) on 0..=k (GROUP Theorem 18).
    ///
    /// # Errors
    /// `group_size` outside [1, 10000] or `sample_rate` outside [0, 1].
    ///
    /// # Example
    /// ```
    /// use hockeystick::GroupLaw;
    /// let law = GroupLaw::binomial(2, 0.25)?;
    /// assert_eq!(law.shifts(), [0.0, 1.0, 2.0]);
    /// assert!((law.log_weights()[1].exp() - 0.375).abs() < 1e-15);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn binomial(group_size: u64, sample_rate: f64) -> Result<Self> {
        require_group_size(group_size)?;
        Self::binomial_of_any_size(group_size, sample_rate)
    }

    /// As [`GroupLaw::binomial`], for a caller that has checked the size of the group itself.
    ///
    /// # Errors
    /// `sample_rate` outside [0, 1].
    pub(crate) fn binomial_of_any_size(group_size: u64, sample_rate: f64) -> Result<Self> {
        require_sample_rate(sample_rate)?;
        Ok(Self::counting(0, &binomial_weights(group_size, sample_rate), 1.0))
    }

    /// Poisson sampling with a rate for every member: Poisson-binomial law on 0..=k (GROUP Lemma 14).
    ///
    /// Equal rates are convolved as one binomial; k distinct rates cost O(k²).
    ///
    /// # Errors
    /// No rate at all, more than 10,000, or one outside [0, 1].
    ///
    /// # Example
    /// ```
    /// use hockeystick::GroupLaw;
    /// let law = GroupLaw::poisson_binomial(&[0.5, 0.25])?;
    /// assert!((law.log_weights()[0].exp() - 0.375).abs() < 1e-15);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn poisson_binomial(rates: &[f64]) -> Result<Self> {
        require(
            !rates.is_empty(),
            "rates",
            format_args!("an empty array"),
            "of at least one rate",
        )?;
        require_group_size(rates.len() as u64)?;
        for &rate in rates {
            require_probability("rates", rate)?;
        }
        let mut sorted = rates.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut weights = vec![Extended::ONE];
        for class in sorted.chunk_by(|a, b| a == b) {
            weights = convolve(&weights, &binomial_weights(class.len() as u64, class[0]));
        }
        Ok(Self::counting(0, &weights, 1.0))
    }

    /// A batch of fixed size drawn without replacement: Hypergeometric(n, k, b) on shifts 0, 2, …, 2k.
    ///
    /// `dataset_size` is the size of the larger data set. A member in the batch takes the place of another record, so that j members shift
    /// the sum by 2j (PITFALLS Proposition 9).
    ///
    /// # Errors
    /// `group_size` outside [1, 10000] or above `dataset_size`; `batch_size` outside [1, `dataset_size`];
    /// `dataset_size` above 2^53.
    ///
    /// # Example
    /// ```
    /// use hockeystick::GroupLaw;
    /// let law = GroupLaw::hypergeometric(1, 256, 60_000)?;
    /// assert_eq!(law.shifts(), [0.0, 2.0]);
    /// assert!((law.log_weights()[1].exp() - 256.0 / 60_000.0).abs() < 1e-17);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn hypergeometric(group_size: u64, batch_size: u64, dataset_size: u64) -> Result<Self> {
        require_group_size(group_size)?;
        require(
            (1..=1u64 << 53).contains(&dataset_size),
            "dataset_size",
            dataset_size,
            "in [1, 2^53]",
        )?;
        require(
            (1..=dataset_size).contains(&batch_size),
            "batch_size",
            batch_size,
            "in [1, dataset_size]",
        )?;
        require(
            group_size <= dataset_size,
            "group_size",
            group_size,
            "at most dataset_size",
        )?;
        let first = (group_size + batch_size).saturating_sub(dataset_size);
        let last = group_size.min(batch_size);
        // Ratios of neighbours are ratios of integers; the sum then fixes the scale.
        let mut weights = vec![Extended::ONE];
        let mut sum = Extended::ONE;
        let mut weight = Extended::ONE;
        let exact = |count: u64| Extended::from(count as f64);
        for j in first..last {
            let rise = exact(group_size - j) * exact(batch_size - j);
            let fall = exact(j + 1) * exact(dataset_size + j + 1 - group_size - batch_size);
            weight = weight * (rise / fall);
            sum = sum + weight;
            weights.push(weight);
        }
        let weights: Vec<Extended> = weights.into_iter().map(|w| w / sum).collect();
        Ok(Self::counting(first, &weights, 2.0))
    }

    /// Any weights on any shifts; equal shifts are merged and zero weights dropped.
    ///
    /// Weights are divided by their sum, which must be within 1e-9 of 1.
    ///
    /// # Errors
    /// Empty or unequal lengths, a negative or non-finite weight, a non-finite shift, a sum away from 1.
    ///
    /// # Example
    /// ```
    /// use hockeystick::GroupLaw;
    /// let law = GroupLaw::explicit(&[0.1, 0.7, 0.2], &[1.0, 0.0, 1.0])?;
    /// assert_eq!(law.shifts(), [0.0, 1.0]);
    /// assert!(GroupLaw::explicit(&[0.5, 0.4], &[0.0, 1.0]).is_err());
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn explicit(weights: &[f64], shifts: &[f64]) -> Result<Self> {
        for &weight in weights {
            require((0.0..=f64::MAX).contains(&weight), "weights", weight, "in [0, 1]")?;
        }
        let log_weights: Vec<f64> = weights.iter().map(|w| w.ln()).collect();
        Self::explicit_log(&log_weights, shifts)
    }

    /// As [`GroupLaw::explicit`], from the logarithms of the weights (−∞ for a weight of 0).
    ///
    /// # Errors
    /// As [`GroupLaw::explicit`].
    pub fn explicit_log(log_weights: &[f64], shifts: &[f64]) -> Result<Self> {
        require(
            !log_weights.is_empty(),
            "weights",
            format_args!("an empty array"),
            "of at least one weight",
        )?;
        if log_weights.len() != shifts.len() {
            return Err(Error::Mismatch(format!(
                "weights and shifts must have one length, got {} and {}",
                log_weights.len(),
                shifts.len()
            )));
        }
        for &weight in log_weights {
            require(
                weight < f64::INFINITY,
                "weights",
                weight,
                "finite (logarithms: below inf)",
            )?;
        }
        for &shift in shifts {
            require(shift.is_finite(), "shifts", shift, "finite")?;
        }
        let log_sum = log_sum_exp(log_weights);
        require(
            log_sum.exp_m1().abs() <= WEIGHT_SUM_TOLERANCE,
            "weights",
            format_args!("a sum of {}", log_sum.exp()),
            "non-negative with sum 1 (within 1e-9)",
        )?;
        let mut atoms: Vec<(f64, f64)> = shifts
            .iter()
            .copied()
            .zip(log_weights.iter().map(|w| w - log_sum))
            .filter(|atom| atom.1 > f64::NEG_INFINITY)
            .collect();
        atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut law = Self {
            log_weights: Vec::with_capacity(atoms.len()),
            shifts: Vec::with_capacity(atoms.len()),
            real_rooted: false,
        };
        for equal in atoms.chunk_by(|a, b| a.0 == b.0) {
            let weights: Vec<f64> = equal.iter().map(|atom| atom.1).collect();
            law.shifts.push(equal[0].0);
            law.log_weights.push(log_sum_exp(&weights));
        }
        law.real_rooted = law.shifts.len() <= 2 && law.shifts[0] >= 0.0;
        Ok(law)
    }

    /// The law of consecutive counts from `first` with these weights, where each member shifts the sum by `unit`. All zeros of the polynomial
    /// with these weights are real.
    fn counting(first: u64, weights: &[Extended], unit: f64) -> Self {
        let (shifts, log_weights) = weights
            .iter()
            .enumerate()
            .filter(|(_, weight)| !weight.is_zero())
            .map(|(j, weight)| (unit * (first + j as u64) as f64, weight.ln()))
            .unzip();
        Self {
            log_weights,
            shifts,
            real_rooted: true,
        }
    }
}

/// Binomial(n, p) on 0..=n by the ratio of neighbours, (n − j)/(j + 1) · p/(1 − p).
fn binomial_weights(n: u64, p: f64) -> Vec<Extended> {
    let count = n as usize + 1;
    let mut weights = vec![Extended::ZERO; count];
    if p == 1.0 {
        weights[count - 1] = Extended::ONE;
        return weights;
    }
    let miss = Extended::one_minus(p);
    let odds = Extended::from(p) / miss;
    let mut weight = power(miss, n);
    weights[0] = weight;
    for j in 0..n {
        weight = weight * odds * (Extended::from((n - j) as f64) / Extended::from((j + 1) as f64));
        weights[j as usize + 1] = weight;
    }
    weights
}

/// Logarithms of the weights of Binomial(n, p) on 0..=n for any n; −∞ for those that are 0.
pub(crate) fn binomial_log_weights(n: u64, p: f64) -> Vec<f64> {
    let weights = binomial_weights(n, p);
    let log = |weight: &Extended| {
        if weight.is_zero() {
            f64::NEG_INFINITY
        } else {
            weight.ln()
        }
    };
    weights.iter().map(log).collect()
}

/// `base` to the `exponent`, by squaring.
pub(crate) fn power(base: Extended, mut exponent: u64) -> Extended {
    let (mut square, mut result) = (base, Extended::ONE);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square;
        }
        square = square * square;
        exponent >>= 1;
    }
    result
}

/// Law of the sum of two independent counts.
fn convolve(a: &[Extended], b: &[Extended]) -> Vec<Extended> {
    let mut sum = vec![Extended::ZERO; a.len() + b.len() - 1];
    for (i, &x) in a.iter().enumerate().filter(|(_, x)| !x.is_zero()) {
        checkpoint();
        for (j, &y) in b.iter().enumerate().filter(|(_, y)| !y.is_zero()) {
            sum[i + j] = sum[i + j] + x * y;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_weights_agree_with_exact_fractions() {
        // q = 1/4 is exact in binary: weights are C(4, j) 3^(4-j) / 4^4.
        let law = GroupLaw::binomial(4, 0.25).unwrap();
        for (j, numerator) in [81.0, 108.0, 54.0, 12.0, 1.0].into_iter().enumerate() {
            let exact: f64 = numerator / 256.0;
            assert!((law.log_weights()[j] - exact.ln()).abs() <= 2.0 * f64::EPSILON * exact.ln().abs());
        }
    }

    #[test]
    fn equal_rates_give_the_binomial_law() {
        let binomial = GroupLaw::binomial(300, 0.037).unwrap();
        let poisson_binomial = GroupLaw::poisson_binomial(&[0.037; 300]).unwrap();
        assert_eq!(binomial, poisson_binomial);
    }

    #[test]
    fn distinct_rates_agree_with_a_direct_enumeration() {
        let rates = [0.01, 0.3, 0.0, 1.0, 0.5];
        let law = GroupLaw::poisson_binomial(&rates).unwrap();
        let mut direct = [0.0; 6];
        for subset in 0..32u32 {
            let probability: f64 = rates
                .iter()
                .enumerate()
                .map(|(i, q)| if subset >> i & 1 == 1 { *q } else { 1.0 - q })
                .product();
            direct[subset.count_ones() as usize] += probability;
        }
        assert_eq!(law.shifts(), [1.0, 2.0, 3.0, 4.0]);
        for (weight, &shift) in law.log_weights().iter().zip(law.shifts()) {
            assert!((weight.exp() / direct[shift as usize] - 1.0).abs() < 1e-14);
        }
    }

    #[test]
    fn hypergeometric_law_counts_members_and_shifts_by_two() {
        // Population 5, group 3, batch 4: P(2) = C(3,2) C(2,2) / C(5,4) = 3/5, P(3) = 2/5.
        let law = GroupLaw::hypergeometric(3, 4, 5).unwrap();
        assert_eq!(law.shifts(), [4.0, 6.0]);
        assert!((law.log_weights()[0].exp() - 0.6).abs() < 1e-15);
        assert!((law.log_weights()[1].exp() - 0.4).abs() < 1e-15);
    }

    #[test]
    fn laws_of_10_000_members_sum_to_one() {
        for law in [
            GroupLaw::binomial(10_000, 0.01).unwrap(),
            GroupLaw::hypergeometric(10_000, 256, 60_000).unwrap(),
        ] {
            assert!(log_sum_exp(law.log_weights()).abs() < 1e-13);
        }
    }

    #[test]
    fn bad_laws_are_refused_by_name() {
        for (result, name) in [
            (GroupLaw::binomial(0, 0.5), "group_size"),
            (GroupLaw::binomial(3, f64::NAN), "sample_rate"),
            (GroupLaw::poisson_binomial(&[]), "rates"),
            (GroupLaw::poisson_binomial(&[0.5, -0.1]), "rates"),
            (GroupLaw::hypergeometric(3, 9, 8), "batch_size"),
            (GroupLaw::hypergeometric(9, 3, 8), "group_size"),
            (GroupLaw::explicit(&[0.5, 0.4], &[0.0, 1.0]), "weights"),
            (GroupLaw::explicit(&[0.5, 0.5], &[0.0, f64::NAN]), "shifts"),
            (GroupLaw::explicit(&[1.5, -0.5], &[0.0, 1.0]), "weights"),
            (GroupLaw::explicit(&[1.0], &[0.0, 1.0]), "weights"),
        ] {
            assert!(result.unwrap_err().to_string().contains(name));
        }
    }
}
