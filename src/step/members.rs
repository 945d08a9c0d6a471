//! Groups whose members differ: the law of the sum of aligned gradients, and the steps that orthogonal gradients amount to.

use crate::error::{Error, Result, require_probability};
use crate::step::group::require_group_size;
use crate::step::{Group, GroupLaw, Mechanism, Sampling, Step};

/// Largest number of different subset sums: a group whose norms have more is refused.
const MAX_SUMS: usize = 20_000;
/// Sums closer than this, relatively, are taken as one number: they differ by rounding.
const SAME_SUM: f64 = 1e-13;

impl Step {
    /// Steps whose composition has the privacy curve of this one, with how often each occurs: the step itself, except for a
    /// group whose members' gradients are orthogonal, which is the composition of its members' steps.
    ///
    /// Let member i be in the batch with probability q_i, independently of the others, and shift the sum by a vector g_i of
    /// norm at most c_i, where the g_i are orthogonal. In the coordinates along the g_i the noise is independent, so that
    /// the output with the group has the density Π_i ((1 − q_i) N(x_i; 0, σ²) + q_i N(x_i; ‖g_i‖, σ²)) and the output
    /// without it Π_i N(x_i; 0, σ²); all other coordinates have one law in both. The likelihood ratio is the product of
    /// the members' ratios, each in a coordinate of its own: the pair is the product of the members' one-record pairs,
    /// which is what their composition is. Each is dominated by the pair of norm c_i, and attains it if ‖g_i‖ = c_i.
    ///
    /// The mixture over all subsets S with shifts sqrt(Σ_{i∈S} c_i²) (GROUP §6) is an upper bound too, but not attained: it
    /// turns the gradients of all subsets into one direction. Where every member is in every batch both agree, as Gaussians
    /// with distances c_i compose to one with distance sqrt(Σ c_i²).
    ///
    /// # Errors
    /// Orthogonal gradients with other noise than Gaussian or other sampling than Poisson; a number of rates or norms that
    /// is not that of the members.
    ///
    /// # Example
    /// ```
    /// use hockeystick::{Group, Mechanism, Sampling, Step};
    /// let step = Step {
    ///     mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
    ///     sampling: Sampling::Poisson { sample_rate: 0.1 },
    ///     group: Group {
    ///         norms: Some(vec![1.0, 0.5, 1.0]),
    ///         orthogonal: true,
    ///         ..Group::of(3)
    ///     },
    /// };
    /// let factors = step.factors()?;
    /// assert_eq!(factors.iter().map(|(_, times)| *times).collect::<Vec<_>>(), [1, 2]);
    /// assert_eq!(factors[0].0.group.norms, Some(vec![0.5]));
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn factors(&self) -> Result<Vec<(Self, u64)>> {
        let group = &self.group;
        if !group.orthogonal || group.size <= 1 {
            return Ok(vec![(self.clone(), 1)]);
        }
        require_group_size(group.size)?;
        let (Mechanism::Gaussian { .. }, Sampling::Poisson { sample_rate }) = (self.mechanism, self.sampling)
        else {
            return Err(needs_poisson());
        };
        let size = group.size as usize;
        let rates = group.rates.clone().unwrap_or_else(|| vec![sample_rate; size]);
        let norms = group.norms.clone().unwrap_or_else(|| vec![1.0; size]);
        require_one_length(&rates, &norms)?;
        let mut members: Vec<(f64, f64)> = norms.into_iter().zip(rates).collect();
        members.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let factor = |alike: &[(f64, f64)]| {
            let (norm, rate) = alike[0];
            let one = Group {
                norms: (norm != 1.0).then(|| vec![norm]),
                ..Group::of(1)
            };
            let step = Self {
                mechanism: self.mechanism,
                sampling: Sampling::Poisson { sample_rate: rate },
                group: one,
            };
            (step, alike.len() as u64)
        };
        Ok(members.chunk_by(|a, b| a == b).map(factor).collect())
    }
}

/// The steps of a run with each in place of its [`Step::factors`].
///
/// # Errors
/// As [`Step::factors`], or more steps than can be counted.
pub(crate) fn factored(steps: &[(Step, u64)]) -> Result<Vec<(Step, u64)>> {
    let mut all = Vec::with_capacity(steps.len());
    for (step, count) in steps {
        for (factor, times) in step.factors()? {
            let total = count.checked_mul(times);
            let total =
                total.ok_or_else(|| Error::out_of_range("steps", count, "below 2^64 over the group's size"))?;
            all.push((factor, total));
        }
    }
    Ok(all)
}

/// Rates, norms or orthogonal gradients without Poisson sampling.
pub(crate) fn needs_poisson() -> Error {
    Error::Mismatch(
        "rates, norms and orthogonal gradients are supported for Poisson sampling of Gaussian noise only".into(),
    )
}

fn require_one_length(rates: &[f64], norms: &[f64]) -> Result<()> {
    if rates.len() == norms.len() {
        return Ok(());
    }
    Err(Error::Mismatch(format!(
        "rates and norms must have one length, got {} and {}",
        rates.len(),
        norms.len()
    )))
}

/// Every subset of the members, with its probability and the norm Σ c_i that its sum has where gradients align (GROUP §6).
///
/// Members with equal rate and norm are one binomial; equal sums are merged as they arise.
pub(crate) fn subset_sums(rates: &[f64], norms: &[f64]) -> Result<GroupLaw> {
    require_one_length(rates, norms)?;
    let mut members: Vec<(f64, f64)> = Vec::with_capacity(rates.len());
    for (&rate, &norm) in rates.iter().zip(norms) {
        require_probability("rates", rate)?;
        require_probability("norms", norm)?;
        if norm > 0.0 && rate > 0.0 {
            members.push((norm, rate));
        }
    }
    members.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut sums = vec![(0.0f64, 0.0f64)]; // (sum, log probability)
    for class in members.chunk_by(|a, b| a == b) {
        let (norm, rate) = class[0];
        let law = GroupLaw::binomial(class.len() as u64, rate)?;
        let mut next: Vec<(f64, f64)> = Vec::with_capacity(sums.len() * law.shifts().len());
        for (sum, log_probability) in &sums {
            for (count, log_weight) in law.shifts().iter().zip(law.log_weights()) {
                next.push((sum + count * norm, log_probability + log_weight));
            }
        }
        next.sort_by(|a, b| a.0.total_cmp(&b.0));
        sums.clear();
        for (sum, log_probability) in next {
            match sums.last_mut() {
                Some(last) if sum - last.0 <= SAME_SUM * sum => {
                    let (large, small) = if last.1 > log_probability {
                        (last.1, log_probability)
                    } else {
                        (log_probability, last.1)
                    };
                    *last = (sum, large + (small - large).exp().ln_1p());
                }
                _ => sums.push((sum, log_probability)),
            }
        }
        if sums.len() > MAX_SUMS {
            return Err(Error::Mismatch(format!(
                "norms must have at most {MAX_SUMS} different subset sums: round them up to multiples of one number"
            )));
        }
    }
    let shifts: Vec<f64> = sums.iter().map(|part| part.0).collect();
    let log_weights: Vec<f64> = sums.iter().map(|part| part.1).collect();
    GroupLaw::explicit_log(&log_weights, &shifts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Direction;

    #[test]
    fn subset_sums_are_those_of_the_definition() {
        let (rates, norms) = ([0.1, 0.2, 0.2, 0.5], [1.0, 0.5, 0.5, 0.25]);
        let law = subset_sums(&rates, &norms).unwrap();
        let mut total = 0.0;
        for subset in 0..16u32 {
            let (mut sum, mut probability) = (0.0, 1.0);
            for i in 0..4 {
                let inside = subset & (1 << i) != 0;
                probability *= if inside { rates[i] } else { 1.0 - rates[i] };
                if inside {
                    sum += norms[i];
                }
            }
            assert!(law.shifts().iter().any(|s| (s - sum).abs() < 1e-12), "{sum}");
            total += probability;
        }
        assert!((total - 1.0).abs() < 1e-12);
        // Sums 0, 1/2, 1 of two members and the others': 3·2·2 subsets, of which some coincide.
        let mass: f64 = law.log_weights().iter().map(|w| w.exp()).sum();
        assert!((mass - 1.0).abs() < 1e-12);
        let both = 0.5f64.ln() + 0.9f64.ln() + 0.64f64.ln();
        assert!((law.log_weights()[0] - both).abs() < 1e-12);
    }

    #[test]
    fn orthogonal_members_are_steps_of_their_own() {
        let mut step = Step {
            mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
            sampling: Sampling::Poisson { sample_rate: 0.3 },
            group: Group {
                rates: Some(vec![0.1, 0.2, 0.1, 0.1]),
                norms: Some(vec![1.0, 1.0, 0.5, 1.0]),
                orthogonal: true,
                ..Group::of(4)
            },
        };
        let named = |step: &Step| {
            let factors = step.factors().unwrap();
            let of = |(one, times): &(Step, u64)| (one.law().unwrap(), *times);
            factors.iter().map(of).collect::<Vec<_>>()
        };
        let law = |rate: f64, norm: f64| GroupLaw::explicit(&[1.0 - rate, rate], &[0.0, norm]).unwrap();
        let found = named(&step);
        assert_eq!(found.iter().map(|(_, times)| *times).collect::<Vec<_>>(), [1, 2, 1]);
        for ((found, _), wanted) in found.iter().zip([law(0.1, 0.5), law(0.1, 1.0), law(0.2, 1.0)]) {
            assert_eq!(found.shifts(), wanted.shifts());
            for (a, b) in found.log_weights().iter().zip(wanted.log_weights()) {
                assert!((a - b).abs() < 1e-15);
            }
        }
        assert!(step.law().is_err() && step.outcome(Some(Direction::Add)).is_err());
        step.group.norms = Some(vec![1.0; 3]);
        assert!(step.factors().is_err());
        (step.group.rates, step.group.norms) = (None, None);
        assert_eq!(named(&step), [(GroupLaw::binomial(1, 0.3).unwrap(), 4)]);
        step.group.size = 1;
        assert_eq!(step.factors().unwrap(), [(step.clone(), 1)]);
    }

    #[test]
    fn a_large_group_of_equal_norms_is_cheap() {
        let law = subset_sums(&vec![0.01; 10_000], &vec![0.5; 10_000]).unwrap();
        assert!(law.shifts().len() > 1000 && (law.shifts()[4] - 2.0).abs() < 1e-15);
    }
}
