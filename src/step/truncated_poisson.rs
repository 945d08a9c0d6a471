//! How many members of a group are in a Poisson sample that is cut to a largest size: the laws of the shift, given what is public.
//!
//! Every record of the (larger) data set of n joins the sample with probability q. If there are more than B, a uniformly random B of them
//! are kept. Of the k members j are kept, and they push d others out of the batch that there would be without the group. Let m be the
//! number of others in the sample, whose law, Bin(n − k, q), does not depend on the group. Given m the batch without the group has
//! min(m, B) others and that with it min(m, B − j), so that d = (j − (B − m)₊)₊ and the sum moves by at most j + d.
//!
//! The public outcome is m where B − k < m < B, and otherwise on which side of that range it is. Up to B − k nobody is dropped, and
//! j ~ Bin(k, q). From B on d = j, and the batch without the group is a uniformly random B of the others whatever m is, so that the laws of
//! j for these m may be mixed. The proof is `docs/theory/truncated-poisson.md`.

use crate::error::{Error, Result, require, require_sample_rate};
use crate::special::extended::Extended;
use crate::step::GroupLaw;
use crate::step::group_law::binomial_log_weights;
use crate::stopping::checkpoint;

/// Largest group: the laws take k³/4 operations of some 20 ns, a few hundredths of a second at this size.
pub(crate) const MAX_TRUNCATED_GROUP: u64 = 128;
/// Most sizes of a sample between the likeliest one and the cap: a second of work.
const MAX_SIZES: u64 = 20_000_000;
/// Standard deviations of a sample's size beyond which a tail is below e^−50 of the whole.
const TAIL_SPREADS: f64 = 11.0;
/// Sizes between two looks at whether the rest of a tail counts.
const BETWEEN_LOOKS: u64 = 32;
/// log of the fraction of a tail's mass that may be left out: below the digits of its `f64`.
const LOG_NEGLIGIBLE: f64 = -50.0;

/// A Poisson sample with a largest size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TruncatedSample {
    /// q.
    pub(crate) sample_rate: f64,
    /// B.
    pub(crate) max_batch_size: u64,
    /// n, of the larger data set.
    pub(crate) dataset_size: u64,
}

/// A public outcome and the law of the group's shift given that outcome.
#[derive(Debug, Clone)]
pub(crate) struct PublicLaw {
    /// log of its probability.
    pub(crate) log_probability: f64,
    /// The shift in units of the clipping norm.
    pub(crate) law: GroupLaw,
    /// Whether nobody can be dropped.
    pub(crate) is_poisson: bool,
}

impl TruncatedSample {
    /// Whether no sample is ever cut: Poisson sampling.
    pub(crate) fn is_never_cut(&self) -> bool {
        self.max_batch_size >= self.dataset_size
    }

    /// The public outcomes for a group of `members` of the larger data set.
    ///
    /// # Errors
    /// An argument out of range.
    pub(crate) fn public_laws(&self, members: u64) -> Result<Vec<PublicLaw>> {
        self.check(members)?;
        if self.is_never_cut() || self.sample_rate == 0.0 {
            return Ok(vec![PublicLaw {
                log_probability: 0.0,
                law: GroupLaw::binomial(members, self.sample_rate)?,
                is_poisson: true,
            }]);
        }
        let cap = self.max_batch_size;
        let first = (cap + 1).saturating_sub(members);
        let others = BinomialAround::new(self.dataset_size - members, self.sample_rate, first, cap)?;
        let mut laws = Vec::new();
        let mut add = |probability: Extended, law: Result<GroupLaw>, is_poisson: bool| -> Result<()> {
            if !probability.is_zero() {
                laws.push(PublicLaw {
                    log_probability: probability.ln(),
                    law: law?,
                    is_poisson,
                });
            }
            Ok(())
        };
        add(others.below, GroupLaw::binomial(members, self.sample_rate), true)?;
        for (i, &probability) in others.at.iter().enumerate() {
            add(probability, self.law_near_the_cap(members, first + i as u64), false)?;
        }
        add(others.from_last, self.law_at_the_cap(members), false)?;
        Ok(laws)
    }

    fn check(&self, members: u64) -> Result<()> {
        require_sample_rate(self.sample_rate)?;
        let (largest, most) = (1u64 << 53, MAX_TRUNCATED_GROUP);
        require(
            (1..=largest).contains(&self.dataset_size),
            "dataset_size",
            self.dataset_size,
            "in [1, 2^53]",
        )?;
        require(
            (1..=largest).contains(&self.max_batch_size),
            "max_batch_size",
            self.max_batch_size,
            "in [1, 2^53]",
        )?;
        require(
            (1..=most).contains(&members),
            "group_size",
            members,
            "in [1, 128] where batches have a largest size",
        )?;
        require(
            members <= self.dataset_size,
            "group_size",
            members,
            "at most dataset_size",
        )
    }

    /// The law of the shift if m = `others` of the others are in the sample, B − k < m < B.
    ///
    /// With a ~ Bin(k, q) members the sample has m + a records, of which those beyond B are dropped: a hypergeometric number of members.
    fn law_near_the_cap(&self, members: u64, others: u64) -> Result<GroupLaw> {
        let room = self.max_batch_size - others;
        let (mut log_weights, mut shifts) = (Vec::new(), Vec::new());
        for (sampled, log_weight) in (0..=members).zip(binomial_log_weights(members, self.sample_rate)) {
            if sampled <= room {
                log_weights.push(log_weight);
                shifts.push(sampled as f64);
                continue;
            }
            let kept = GroupLaw::hypergeometric(sampled, self.max_batch_size, others + sampled)?;
            for (log_probability, twice) in kept.log_weights().iter().zip(kept.shifts()) {
                let kept = 0.5 * twice;
                log_weights.push(log_weight + log_probability);
                shifts.push(kept + (kept - room as f64).max(0.0));
            }
        }
        GroupLaw::explicit_log(&log_weights, &shifts)
    }

    /// The law of the shift 2j if at least B of the others are in the sample.
    ///
    /// Of all records N ~ Bin(n, q) are in the sample, and the batch is a uniformly random B of all n if N ≥ B, so that it has j members with
    /// the probability of Hypergeometric(n, k, B). Of the N − B that were dropped x ~ Hypergeometric(n − B, k − j, N − B) are members. At
    /// least B of the others are in the sample, B − j of them in the batch, if x ≤ N − B − j: surely so if N ≥ B + k.
    fn law_at_the_cap(&self, members: u64) -> Result<GroupLaw> {
        let (size, cap) = (self.dataset_size, self.max_batch_size);
        let all = BinomialAround::new(size, self.sample_rate, cap, cap.saturating_add(members))?;
        let batch = GroupLaw::hypergeometric(members, cap, size)?;
        let (mut log_weights, mut shifts) = (Vec::new(), Vec::new());
        for (log_weight, &twice) in batch.log_weights().iter().zip(batch.shifts()) {
            let kept = (0.5 * twice) as u64;
            let mut enough = all.from_last;
            for (dropped, &probability) in all.at.iter().enumerate() {
                let fits = few_members(size - cap, members - kept, dropped as u64, kept)?;
                enough = enough + probability * fits;
            }
            if !enough.is_zero() {
                log_weights.push(log_weight + enough.ln());
                shifts.push(twice);
            }
        }
        let log_sum = crate::special::log_space::log_sum_exp(&log_weights);
        log_weights.iter_mut().for_each(|weight| *weight -= log_sum);
        GroupLaw::explicit_log(&log_weights, &shifts)
    }
}

/// P(x ≤ `drawn` − `spare`) for x ~ Hypergeometric(`size`, `marked`, `drawn`); 0 where that is below 0.
fn few_members(size: u64, marked: u64, drawn: u64, spare: u64) -> Result<Extended> {
    let Some(most) = drawn.checked_sub(spare) else {
        return Ok(Extended::ZERO);
    };
    if drawn > size {
        return Ok(Extended::ZERO); // no such sample
    }
    if marked == 0 || drawn == 0 {
        return Ok(Extended::ONE);
    }
    let law = GroupLaw::hypergeometric(marked, drawn, size)?;
    let few = law.shifts().iter().zip(law.log_weights());
    let few = few.filter(|(twice, _)| **twice <= 2.0 * most as f64);
    Ok(few.fold(Extended::ZERO, |sum, (_, log_weight)| {
        sum + Extended::from(log_weight.exp())
    }))
}

/// A binomial law around a range of counts: the mass on either side, each right to its own digits, however small.
#[derive(Debug)]
struct BinomialAround {
    /// Mass below `first`.
    below: Extended,
    /// Mass at each of `first`, …, `last` − 1.
    at: Vec<Extended>,
    /// Mass from `last` on.
    from_last: Extended,
}

impl BinomialAround {
    /// Bin(n, p), summed from its likeliest count outwards by the ratios of neighbours, and divided by the sum of all.
    ///
    /// A side is summed until what is left of it is at most e^−50 of it.
    ///
    /// # Errors
    /// A range so far from the likeliest count that the sums would take long.
    fn new(n: u64, p: f64, first: u64, last: u64) -> Result<Self> {
        let likeliest = (((n + 1) as f64 * p) as u64).min(n);
        let spread = TAIL_SPREADS * (n as f64 * p * (1.0 - p)).sqrt();
        let away = first.abs_diff(likeliest).max(last.min(n).abs_diff(likeliest));
        if away > MAX_SIZES || spread > MAX_SIZES as f64 {
            return Err(Error::out_of_range(
                "max_batch_size",
                last,
                "within 20,000,000 of the mean size of a sample, of which 11 standard deviations are no more",
            ));
        }
        let mut sums = Self {
            below: Extended::ZERO,
            at: vec![Extended::ZERO; (last - first) as usize],
            from_last: Extended::ZERO,
        };
        let (hit, miss) = (Extended::from(p), Extended::one_minus(p));
        let exact = |count: u64| Extended::from(count as f64);
        sums.add(likeliest, Extended::ONE, first, last);
        let mut weight = Extended::ONE;
        for count in likeliest + 1..=n {
            weight = weight * (exact(n - count + 1) / exact(count)) * (hit / miss);
            sums.add(count, weight, first, last);
            if count >= last && count.is_multiple_of(BETWEEN_LOOKS) {
                checkpoint();
                if weight.ln() + ((n - count) as f64).ln() <= sums.from_last.ln() + LOG_NEGLIGIBLE {
                    break;
                }
            }
        }
        weight = Extended::ONE;
        for count in (0..likeliest).rev() {
            weight = weight * (exact(count + 1) / exact(n - count)) * (miss / hit);
            sums.add(count, weight, first, last);
            if count < first && count.is_multiple_of(BETWEEN_LOOKS) {
                checkpoint();
                if weight.ln() + (count as f64).ln() <= sums.below.ln() + LOG_NEGLIGIBLE {
                    break;
                }
            }
        }
        Ok(sums.normalised())
    }

    fn add(&mut self, count: u64, weight: Extended, first: u64, last: u64) {
        let place = if count < first {
            &mut self.below
        } else if count >= last {
            &mut self.from_last
        } else {
            &mut self.at[(count - first) as usize]
        };
        *place = *place + weight;
    }

    fn normalised(mut self) -> Self {
        let total = self.at.iter().fold(self.below + self.from_last, |sum, &one| sum + one);
        self.below = self.below / total;
        self.from_last = self.from_last / total;
        self.at.iter_mut().for_each(|one| *one = *one / total);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn choose(n: u64, k: u64) -> f64 {
        if k > n {
            0.0
        } else {
            (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
        }
    }

    /// By the definition: every subset as the sample, every subset of size B of that as the batch; the first k records are the members.
    /// (public outcome, shift) → probability. The public outcome is m between B − k and B, and otherwise the nearer of both.
    fn enumerated(sample: &TruncatedSample, members: u32) -> BTreeMap<(u64, u64), f64> {
        let (n, cap, q) = (
            sample.dataset_size as u32,
            sample.max_batch_size as u32,
            sample.sample_rate,
        );
        let group = (1u32 << members) - 1;
        let mut found = BTreeMap::new();
        for drawn in 0..1u32 << n {
            let size = drawn.count_ones();
            let probability = q.powi(size as i32) * (1.0 - q).powi((n - size) as i32);
            let others = (drawn & !group).count_ones();
            let public = others.clamp(cap.saturating_sub(members), cap);
            for batch in 0..1u32 << n {
                if batch & !drawn != 0 || batch.count_ones() != size.min(cap) {
                    continue;
                }
                let kept = (batch & group).count_ones();
                let pushed_out = others.min(cap) - (batch & !group).count_ones();
                let each = probability / choose(u64::from(size), u64::from(size.min(cap)));
                *found
                    .entry((u64::from(public), u64::from(kept + pushed_out)))
                    .or_insert(0.0) += each;
            }
        }
        found.retain(|_, probability| *probability > 0.0);
        found
    }

    #[test]
    fn the_laws_are_those_of_all_samples_and_batches() {
        let mut compared = 0;
        for dataset_size in 1..=6u64 {
            for max_batch_size in 1..dataset_size {
                for members in 1..=dataset_size.min(4) {
                    for sample_rate in [0.3, 0.5, 1.0] {
                        let sample = TruncatedSample {
                            sample_rate,
                            max_batch_size,
                            dataset_size,
                        };
                        let mut exact = enumerated(&sample, members as u32);
                        for public in sample.public_laws(members).unwrap() {
                            let outcome = *exact.keys().map(|(outcome, _)| outcome).min().unwrap();
                            assert_eq!(public.is_poisson, outcome + members <= max_batch_size);
                            for (log_weight, shift) in public.law.log_weights().iter().zip(public.law.shifts()) {
                                let found = (public.log_probability + log_weight).exp();
                                let exact = exact.remove(&(outcome, *shift as u64)).unwrap_or(0.0);
                                assert!(
                                    (found - exact).abs() <= 1e-14,
                                    "{sample:?} {members} {shift}: {found} {exact}"
                                );
                                compared += 1;
                            }
                        }
                        assert!(exact.is_empty(), "{sample:?} {members}: {exact:?}");
                    }
                }
            }
        }
        assert!(compared > 500);
    }

    /// One record: τ = P(Bin(n − 1, q) ≥ B), and given that it is kept with probability P(Bin(n, q) > B)·B/(nτ). mpmath, 40 digits.
    #[test]
    fn one_record_in_a_large_data_set_has_its_closed_form() {
        let binomial = |n: u64, q: f64, from: u64| -> f64 {
            let weights = binomial_log_weights(n, q);
            weights[from as usize..].iter().rev().map(|w| w.exp()).sum()
        };
        for (n, q, cap) in [(1000, 0.01, 15), (1000, 0.01, 60), (5000, 0.1, 450), (300, 0.9, 299)] {
            let sample = TruncatedSample {
                sample_rate: q,
                max_batch_size: cap,
                dataset_size: n,
            };
            let laws = sample.public_laws(1).unwrap();
            let [poisson, capped] = &laws[..] else { panic!() };
            let tau = binomial(n - 1, q, cap);
            let rate = binomial(n, q, cap + 1) * cap as f64 / (n as f64 * tau);
            assert!((capped.log_probability.exp() / tau - 1.0).abs() < 1e-11, "{n} {cap}");
            assert!((poisson.log_probability.exp() + tau - 1.0).abs() < 1e-14);
            assert_eq!(capped.law.shifts(), [0.0, 2.0]);
            assert!(
                (capped.law.log_weights()[1].exp() / rate - 1.0).abs() < 1e-11,
                "{n} {cap}"
            );
        }
    }

    #[test]
    fn a_batch_that_holds_everybody_is_never_cut() {
        let sample = TruncatedSample {
            sample_rate: 0.3,
            max_batch_size: 10,
            dataset_size: 10,
        };
        let laws = sample.public_laws(3).unwrap();
        assert_eq!((laws.len(), laws[0].log_probability), (1, 0.0));
        assert_eq!(laws[0].law, GroupLaw::binomial(3, 0.3).unwrap());
    }

    #[test]
    fn arguments_out_of_range_are_refused_by_name() {
        let good = TruncatedSample {
            sample_rate: 0.3,
            max_batch_size: 10,
            dataset_size: 100,
        };
        let refused = |sample: TruncatedSample, members: u64| sample.public_laws(members).unwrap_err().to_string();
        assert!(
            refused(
                TruncatedSample {
                    sample_rate: 1.5,
                    ..good
                },
                1
            )
            .contains("sample_rate")
        );
        assert!(
            refused(
                TruncatedSample {
                    max_batch_size: 0,
                    ..good
                },
                1
            )
            .contains("max_batch_size")
        );
        assert!(
            refused(
                TruncatedSample {
                    dataset_size: 0,
                    ..good
                },
                1
            )
            .contains("dataset_size")
        );
        assert!(refused(good, 129).contains("group_size"));
        let far = TruncatedSample {
            sample_rate: 0.5,
            max_batch_size: 10,
            dataset_size: 1 << 40,
        };
        assert!(refused(far, 1).contains("max_batch_size"));
    }
}
