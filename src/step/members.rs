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
    ///         cosine: 0.0,
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
        if !group.is_orthogonal() {
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

/// Rates, norms or gradients with a bound on their cosines without Poisson sampling.
pub(crate) fn needs_poisson() -> Error {
    Error::Mismatch(
        "rates, norms and gradients that are not aligned are supported for Poisson sampling of Gaussian noise only".into(),
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

/// A bound on the norm of a sum of gradients with norms of which `sum` is the sum and `squares` the sum of squares, where no two have
/// an angle of a cosine above `cosine`.
///
/// ‖Σ g_i‖² = Σ ‖g_i‖² + Σ_{i ≠ j} ⟨g_i, g_j⟩ ≤ Σ c_i² + ρ((Σ c_i)² − Σ c_i²). What rounding may take off is added.
fn norm_of_sum(sum: f64, squares: f64, cosine: f64) -> f64 {
    if cosine == 1.0 {
        return sum;
    }
    ((1.0 - cosine) * squares + cosine * sum * sum).sqrt() * (1.0 + 8.0 * f64::EPSILON)
}

/// The law of the norm of the sum for members with norm 1, from the law of their number.
pub(crate) fn norms_of_equal_sums(numbers: GroupLaw, cosine: f64) -> Result<GroupLaw> {
    if cosine == 1.0 {
        return Ok(numbers);
    }
    let norm = |&number: &f64| norm_of_sum(number, number, cosine);
    let shifts: Vec<f64> = numbers.shifts().iter().map(norm).collect();
    GroupLaw::explicit_log(numbers.log_weights(), &shifts)
}

/// A sum over some of the members.
#[derive(Debug, Clone, Copy)]
struct Subset {
    sum: f64,
    /// The sum of squares, where it matters.
    squares: f64,
    log_probability: f64,
}

impl Subset {
    /// Whether both sums are those of `other`, but for rounding.
    fn is_like(&self, other: &Self) -> bool {
        let same = |a: f64, b: f64| (a - b).abs() <= SAME_SUM * a.max(b);
        same(self.sum, other.sum) && same(self.squares, other.squares)
    }

    /// Both together, with the larger of their sums.
    fn joined(self, other: Self) -> Self {
        let (large, small) = if self.log_probability > other.log_probability {
            (self.log_probability, other.log_probability)
        } else {
            (other.log_probability, self.log_probability)
        };
        Self {
            sum: self.sum.max(other.sum),
            squares: self.squares.max(other.squares),
            log_probability: large + (small - large).exp().ln_1p(),
        }
    }
}

/// Every subset of the members, with its probability and the largest norm that its sum has where no two gradients have an angle of a
/// cosine above `cosine`: the law of GROUP §6, which is that of Lemma 14 for aligned gradients.
///
/// Members with equal rate and norm are one binomial; equal sums are merged as they arise.
pub(crate) fn norms_of_sums(rates: &[f64], norms: &[f64], cosine: f64) -> Result<GroupLaw> {
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
    // Sums of squares of aligned gradients do not matter, and subsets that differ in them alone are one.
    let square = |norm: f64| if cosine == 1.0 { 0.0 } else { norm * norm };
    let mut subsets = vec![Subset {
        sum: 0.0,
        squares: 0.0,
        log_probability: 0.0,
    }];
    for class in members.chunk_by(|a, b| a == b) {
        let (norm, rate) = class[0];
        let law = GroupLaw::binomial(class.len() as u64, rate)?;
        let mut next: Vec<Subset> = Vec::with_capacity(subsets.len() * law.shifts().len());
        for subset in &subsets {
            for (count, log_weight) in law.shifts().iter().zip(law.log_weights()) {
                next.push(Subset {
                    sum: subset.sum + count * norm,
                    squares: subset.squares + count * square(norm),
                    log_probability: subset.log_probability + log_weight,
                });
            }
        }
        subsets = merged(next);
        if subsets.len() > MAX_SUMS {
            return Err(Error::Mismatch(format!(
                "norms must have at most {MAX_SUMS} different subset sums: round them up to multiples of one number"
            )));
        }
    }
    let shifts: Vec<f64> = subsets
        .iter()
        .map(|subset| norm_of_sum(subset.sum, subset.squares, cosine))
        .collect();
    let log_weights: Vec<f64> = subsets.iter().map(|subset| subset.log_probability).collect();
    GroupLaw::explicit_log(&log_weights, &shifts)
}

/// Subsets with equal sums as one each.
fn merged(mut subsets: Vec<Subset>) -> Vec<Subset> {
    subsets.sort_by(|a, b| a.sum.total_cmp(&b.sum).then(a.squares.total_cmp(&b.squares)));
    let mut found: Vec<Subset> = Vec::new();
    for subset in subsets {
        match found.last_mut() {
            Some(last) if last.is_like(&subset) => *last = last.joined(subset),
            _ => found.push(subset),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Direction;

    #[test]
    fn subset_sums_are_those_of_the_definition() {
        let (rates, norms) = ([0.1, 0.2, 0.2, 0.5], [1.0, 0.5, 0.5, 0.25]);
        let law = norms_of_sums(&rates, &norms, 1.0).unwrap();
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

    /// Gradients that have the angle of the bound with each other attain the norms of all sums.
    #[test]
    fn gradients_of_the_largest_cosine_attain_the_norms_of_sums() {
        let (rates, norms) = ([0.1, 0.2, 0.2, 0.5], [1.0, 0.5, 0.5, 0.25]);
        for cosine in [0.0, 0.01, 0.5, 0.99] {
            let law = norms_of_sums(&rates, &norms, cosine).unwrap();
            for subset in 0..16u32 {
                // √ρ of each norm along one axis, and √(1 − ρ) along an axis of its own.
                let members = (0..4).filter(|i| subset & (1 << i) != 0);
                let (common, own) = members.fold((0.0, 0.0), |(common, own): (f64, f64), i| {
                    (
                        common + f64::sqrt(cosine) * norms[i],
                        own + (1.0 - cosine) * norms[i] * norms[i],
                    )
                });
                let exact = (common * common + own).sqrt();
                let next = law.shifts().iter().map(|s| s - exact).filter(|gap| *gap >= -1e-300);
                assert!(next.fold(f64::INFINITY, f64::min) <= 1e-14, "{cosine} {subset}");
            }
            let mean: f64 = law
                .shifts()
                .iter()
                .zip(law.log_weights())
                .map(|(s, w)| s * s * w.exp())
                .sum();
            // E‖Σ B_i g_i‖² = Σ q_i c_i² + ρ Σ_{i ≠ j} q_i q_j c_i c_j.
            let both: f64 = rates.iter().zip(norms).map(|(q, c)| q * c).sum();
            let squares: f64 = rates.iter().zip(norms).map(|(q, c)| q * q * c * c).sum();
            let alone: f64 = rates.iter().zip(norms).map(|(q, c)| q * c * c).sum();
            assert!((mean - alone - cosine * (both * both - squares)).abs() < 1e-13);
        }
        let equal = norms_of_equal_sums(GroupLaw::binomial(3, 0.2).unwrap(), 0.5).unwrap();
        for (found, exact) in equal.shifts().iter().zip([0.0, 1.0, 3f64.sqrt(), 6f64.sqrt()]) {
            assert!(*found >= exact && *found <= exact * (1.0 + 1e-14), "{found} {exact}");
        }
    }

    #[test]
    fn orthogonal_members_are_steps_of_their_own() {
        let mut step = Step {
            mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
            sampling: Sampling::Poisson { sample_rate: 0.3 },
            group: Group {
                rates: Some(vec![0.1, 0.2, 0.1, 0.1]),
                norms: Some(vec![1.0, 1.0, 0.5, 1.0]),
                cosine: 0.0,
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
        let law = norms_of_sums(&vec![0.01; 10_000], &vec![0.5; 10_000], 1.0).unwrap();
        assert!(law.shifts().len() > 1000 && (law.shifts()[4] - 2.0).abs() < 1e-15);
    }
}
