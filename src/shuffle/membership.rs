//! The law of c²: the squared sensitivity of a run to a group, in units of the clipping norm.
//!
//! A data set has N records, g of them (the group) differ. An epoch has R = ⌊N/b⌋ rounds of b = m·s records: m
//! clipped units of s records each, whose gradients are summed and clipped as one. L_b units of round b hold a member
//! of the group, and
//!
//! > c² = Σ_b L_b² over the rounds of all epochs,
//!
//! with law q_E, is the squared sensitivity of the run given the draws (SHUFFLE Definition 5.1).
//!
//! * **Subsampling**: every round draws b of the N records afresh. L_b is the number of m units of s slots that are
//!   hit by g members on N positions (`occupancy`), and c² the sum of R·E independent copies of its square.
//! * **Shuffling**: an epoch cuts a fresh random permutation into R rounds; N − Rb records are in none. J of the R·m
//!   units of an epoch are hit (`occupancy` again). Given J they are a uniformly random J-subset of all units, by
//!   symmetry, so (L_1, …, L_R) is multivariate hypergeometric and the law of Σ L_b² given J follows by a recurrence
//!   without negative terms. c² is the sum over E independent epochs.
//!
//! With m = 1 (batch clipping) L_b is 0 or 1; with m = b (individual clipping) it is the number of members in the
//! batch. Every step sums products of positive numbers, so that small probabilities are as accurate as large ones,
//! and all that is dropped is counted in `left_out`.

use crate::error::{Error, Result, require};
use crate::shuffle::convolution::{MAX_VALUES, convolve};
pub(super) use crate::shuffle::epoch_run::EpochRun;
use crate::shuffle::integer_law::{IntegerLaw, Real};
use crate::special::extended::Extended;

/// The law q_E of c².
///
/// There are numbers t_x with Σ_x |t_x − P(c² = x)| ≤ `left_out`, over all whole numbers x, listed or not, and each
/// listed probability is within a factor 1 ± `rounding` of its t_x.
#[derive(Debug, Clone, PartialEq)]
pub struct MembershipLaw {
    /// Values of c², ascending.
    pub squares: Vec<u64>,
    /// Probability of each value, positive.
    pub probabilities: Vec<f64>,
    /// Bound on the probability of what is not listed, absolute errors of the listed included: usually below 1e-30,
    /// in the order of 1e-12 where the result takes a Fourier transform (laws of many thousand values).
    pub left_out: f64,
    /// Bound on the relative rounding error of every listed probability.
    pub rounding: f64,
}

impl MembershipLaw {
    /// The law of c² over all epochs of a run.
    ///
    /// # Errors
    /// A field of `run` outside its domain; c² that may exceed 2^62; more than 3e9 multiplications or 2^23 values.
    ///
    /// # Example
    /// Batch clipping, 50 rounds: all four members of a group are in different rounds with probability 0.885.
    /// ```
    /// use hockeystick::shuffle::{MembershipLaw, EpochRun, EpochSampling};
    /// let law = MembershipLaw::of(&EpochRun {
    ///     sampling: EpochSampling::Shuffling,
    ///     dataset_size: 5000,
    ///     batch_size: 100,
    ///     units_per_batch: 1,
    ///     group_size: 4,
    ///     epochs: 1,
    /// })?;
    /// assert_eq!(law.squares, [1, 2, 3, 4]);
    /// assert!((law.probabilities[3] - 0.885_414).abs() < 1e-6);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn of(run: &EpochRun) -> Result<Self> {
        run.check()?;
        let law = run.law(run.rounds(), run.epochs);
        law.map(|law| Self::listing(&law)).ok_or_else(|| run.too_much())
    }

    /// The law of Σ_b L_b² over the first `rounds` rounds of one epoch, whatever `run.epochs` is.
    ///
    /// # Errors
    /// As [`MembershipLaw::of`]; `rounds` above [`EpochRun::rounds`].
    ///
    /// # Example
    /// Half an epoch of batches of one record misses half of the data set:
    /// ```
    /// use hockeystick::shuffle::{MembershipLaw, EpochRun, EpochSampling};
    /// let run = EpochRun {
    ///     sampling: EpochSampling::Shuffling,
    ///     dataset_size: 10,
    ///     batch_size: 1,
    ///     units_per_batch: 1,
    ///     group_size: 1,
    ///     epochs: 3,
    /// };
    /// let law = MembershipLaw::of_rounds(&run, 5)?;
    /// assert_eq!((law.squares, law.probabilities), (vec![0, 1], vec![0.5, 0.5]));
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn of_rounds(run: &EpochRun, rounds: u64) -> Result<Self> {
        run.check()?;
        require(
            rounds <= run.rounds(),
            "rounds",
            rounds,
            "at most the rounds of one epoch, dataset_size / batch_size",
        )?;
        let law = if rounds == 0 {
            Some(IntegerLaw::point(0))
        } else {
            run.law(rounds, 1)
        };
        law.map(|law| Self::listing(&law)).ok_or_else(|| run.too_much())
    }

    /// The law of the sum with another run's c² that is independent of this one.
    ///
    /// # Errors
    /// A law without values, lists of unequal lengths, values that do not ascend, or more than 2^23 values between
    /// the smallest and the largest sum.
    ///
    /// # Example
    /// ```
    /// use hockeystick::shuffle::MembershipLaw;
    /// let coin = MembershipLaw { squares: vec![0, 1], probabilities: vec![0.5; 2], left_out: 0.0, rounding: 0.0 };
    /// assert_eq!(coin.and(&coin)?.probabilities, [0.25, 0.5, 0.25]);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn and(&self, other: &Self) -> Result<Self> {
        let (a, b) = (self.counts()?, other.counts()?);
        let law = convolve(&a, &b).map(|law| Self::listing(&law));
        law.ok_or_else(|| Error::Mismatch(format!("the sum of the two laws has more than {MAX_VALUES} values")))
    }

    /// The mean of what is listed.
    ///
    /// # Example
    /// ```
    /// use hockeystick::shuffle::MembershipLaw;
    /// let coin = MembershipLaw { squares: vec![0, 4], probabilities: vec![0.5; 2], left_out: 0.0, rounding: 0.0 };
    /// assert_eq!(coin.mean(), 2.0);
    /// ```
    pub fn mean(&self) -> f64 {
        let terms = self.squares.iter().zip(&self.probabilities);
        terms.map(|(&square, probability)| square as f64 * probability).sum()
    }

    /// Upper bound on P(c² < `square`), in [0, 1].
    ///
    /// # Example
    /// ```
    /// use hockeystick::shuffle::MembershipLaw;
    /// let coin = MembershipLaw { squares: vec![0, 4], probabilities: vec![0.5; 2], left_out: 0.0, rounding: 0.0 };
    /// assert_eq!(coin.below(0), 0.0);
    /// assert!((coin.below(4) - 0.5).abs() < 1e-15);
    /// ```
    pub fn below(&self, square: u64) -> f64 {
        let end = self.squares.partition_point(|&value| value < square);
        self.at_most(&self.probabilities[..end])
    }

    /// Upper bound on P(c² > `square`), in [0, 1].
    ///
    /// # Example
    /// ```
    /// use hockeystick::shuffle::MembershipLaw;
    /// let coin = MembershipLaw { squares: vec![0, 4], probabilities: vec![0.5; 2], left_out: 0.0, rounding: 0.0 };
    /// assert_eq!(coin.above(4), 0.0);
    /// assert!((coin.above(1) - 0.5).abs() < 1e-15);
    /// ```
    pub fn above(&self, square: u64) -> f64 {
        let start = self.squares.partition_point(|&value| value <= square);
        self.at_most(&self.probabilities[start..])
    }

    /// Upper bound on the probability of some listed values and of all that are not listed.
    fn at_most(&self, probabilities: &[f64]) -> f64 {
        let sum: f64 = probabilities.iter().sum();
        // The rounding of the sum: one unit for every term, and a few for the operations below.
        let rounding =
            self.rounding / (1.0 - self.rounding).max(0.0) + (probabilities.len() + 4) as f64 * f64::UNIT;
        sum.mul_add(1.0 + rounding, self.left_out * (1.0 + 1e-9)).min(1.0)
    }

    fn listing(law: &IntegerLaw<Extended>) -> Self {
        let (squares, probabilities) = law
            .positive()
            .map(|(i, mass)| (law.first + i as u64, mass.to_f64()))
            .unzip();
        Self {
            squares,
            probabilities,
            left_out: law.left_out,
            rounding: law.rounding + f64::UNIT,
        }
    }

    fn counts(&self) -> Result<IntegerLaw<Extended>> {
        let (Some(&first), Some(&last)) = (self.squares.first(), self.squares.last()) else {
            return Err(Error::Mismatch("a law must have at least one value".into()));
        };
        if self.squares.len() != self.probabilities.len() || !self.squares.is_sorted_by(|a, b| a < b) {
            return Err(Error::Mismatch(
                "squares must ascend and have as many values as probabilities".into(),
            ));
        }
        require(
            last - first < MAX_VALUES,
            "squares",
            last,
            "less than 2^23 above the least of them",
        )?;
        let mut masses = vec![Extended::ZERO; (last - first + 1) as usize];
        for (square, &mass) in self.squares.iter().zip(&self.probabilities) {
            require((0.0..=1.0).contains(&mass), "probabilities", mass, "in [0, 1]")?;
            masses[(square - first) as usize] = Extended::from(mass);
        }
        Ok(IntegerLaw {
            first,
            masses,
            left_out: self.left_out,
            rounding: self.rounding,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shuffle::EpochSampling;
    use EpochSampling::{Shuffling, Subsampling};
    use std::collections::BTreeMap;

    fn run(sampling: EpochSampling, [n, b, m, g, e]: [u64; 5]) -> EpochRun {
        EpochRun {
            sampling,
            dataset_size: n,
            batch_size: b,
            units_per_batch: m,
            group_size: g,
            epochs: e,
        }
    }

    /// The law of the first `rounds` rounds, from every choice of g of the N positions.
    fn enumerated(run: &EpochRun, rounds: u64) -> BTreeMap<u64, f64> {
        let (n, g) = (run.dataset_size, run.group_size as u32);
        let slots = run.batch_size / run.units_per_batch;
        let mut law = BTreeMap::new();
        let choices: Vec<u64> = (0..1u64 << n).filter(|set| set.count_ones() == g).collect();
        for set in &choices {
            let hit = |unit: u64| (set >> (unit * slots)) & ((1 << slots) - 1) != 0;
            let in_round = |r: u64| {
                (0..run.units_per_batch)
                    .filter(|u| hit(r * run.units_per_batch + u))
                    .count()
            };
            let square: usize = (0..rounds).map(|r| in_round(r) * in_round(r)).sum();
            *law.entry(square as u64).or_insert(0.0) += 1.0 / choices.len() as f64;
        }
        law
    }

    fn repeated(law: &BTreeMap<u64, f64>, times: u64) -> BTreeMap<u64, f64> {
        let mut total = BTreeMap::from([(0, 1.0)]);
        for _ in 0..times {
            let mut next = BTreeMap::new();
            for (x, p) in &total {
                for (y, q) in law {
                    *next.entry(x + y).or_insert(0.0) += p * q;
                }
            }
            total = next;
        }
        total
    }

    fn assert_law(law: &MembershipLaw, exact: &BTreeMap<u64, f64>, what: &EpochRun) {
        assert!(law.squares.iter().eq(exact.keys()), "{what:?}: {law:?}");
        for (probability, exact) in law.probabilities.iter().zip(exact.values()) {
            assert!((probability / exact - 1.0).abs() < 1e-12, "{what:?}");
        }
        assert!(law.rounding < 1e-15 && law.left_out < 1e-30);
    }

    #[test]
    fn laws_agree_with_every_placement() {
        for (n, b) in [(12, 4), (11, 4), (12, 6), (9, 2), (7, 7)] {
            for m in (1..=b).filter(|m| b % m == 0) {
                for (g, e) in [(1, 1), (1, 2), (2, 2), (3, 1), (4, 1), (4, 2), (6, 1)] {
                    let shuffled = run(Shuffling, [n, b, m, g, e]);
                    let rounds = shuffled.rounds();
                    let exact = repeated(&enumerated(&shuffled, rounds), e);
                    assert_law(&MembershipLaw::of(&shuffled).unwrap(), &exact, &shuffled);
                    let subsampled = run(Subsampling, [n, b, m, g, e]);
                    let exact = repeated(&enumerated(&subsampled, 1), rounds * e);
                    assert_law(&MembershipLaw::of(&subsampled).unwrap(), &exact, &subsampled);
                    for first in 0..=rounds {
                        let law = MembershipLaw::of_rounds(&shuffled, first).unwrap();
                        assert_law(&law, &enumerated(&shuffled, first), &shuffled);
                    }
                }
            }
        }
    }

    #[test]
    fn the_binomial_law_of_one_record_has_the_known_lower_tail() {
        // X ~ Binomial(5000, 1/50), E = 100: P(X ≤ E − √(E/2)) = P(X ≤ 92).
        let law = MembershipLaw::of(&run(Subsampling, [5000, 100, 1, 1, 100])).unwrap();
        assert!((law.below(93) - 0.226_38).abs() < 1e-5, "{}", law.below(93));
        assert!((law.below(93) + law.above(92) - 1.0).abs() < 1e-12);
        let certain = MembershipLaw::of(&run(Shuffling, [5000, 100, 10, 1, 100])).unwrap();
        assert_eq!((certain.squares, certain.probabilities), (vec![100], vec![1.0]));
        // With 4 of 5004 records left over in every epoch, the member takes part in Binomial(100, 5000/5004).
        let law = MembershipLaw::of(&run(Shuffling, [5004, 100, 10, 1, 100])).unwrap();
        let all = law.probabilities[law.squares.len() - 1];
        assert!((all / (5000f64 / 5004.0).powi(100) - 1.0).abs() < 1e-13);
    }

    #[test]
    fn large_laws_sum_to_one_and_have_the_right_mean() {
        let (n, b, g, e) = (60_000, 64, 32, 100);
        for sampling in [Shuffling, Subsampling] {
            for m in [1, 8, 64] {
                let law = MembershipLaw::of(&run(sampling, [n, b, m, g, e])).unwrap();
                let sum: f64 = law.probabilities.iter().sum();
                assert!((sum - 1.0).abs() < 1e-12 + law.left_out);
                assert!(law.rounding < 1e-12 && law.left_out < 1e-30, "{law:?}");
                // E[L²] = m P(a unit is hit) + m(m − 1) P(two units are hit): the same for both samplings.
                let missed = |slots: u64| (0..slots).fold(1.0, |p, i| p * ((n - g - i) as f64 / (n - i) as f64));
                let (one, two) = (missed(b / m), missed(2 * b / m));
                let mean = m as f64 * (1.0 - one) + (m * (m - 1)) as f64 * (1.0 - 2.0 * one + two);
                let mean = mean * (937 * e) as f64;
                assert!((law.mean() / mean - 1.0).abs() < 1e-9, "{m}: {} {mean}", law.mean());
            }
        }
    }

    #[test]
    fn sums_of_parts_are_the_whole() {
        for sampling in [Shuffling, Subsampling] {
            let of = |e| MembershipLaw::of(&run(sampling, [600, 20, 4, 5, e])).unwrap();
            let (sum, whole) = (of(3).and(&of(4)).unwrap(), of(7));
            assert_eq!(sum.squares, whole.squares);
            for (x, y) in sum.probabilities.iter().zip(&whole.probabilities) {
                assert!((x - y).abs() <= 1e-14 * y + sum.left_out + whole.left_out);
            }
        }
        assert!(
            MembershipLaw {
                squares: vec![],
                ..MembershipLaw::of(&run(Shuffling, [2, 1, 1, 1, 1])).unwrap()
            }
            .and(&MembershipLaw::of(&run(Shuffling, [2, 1, 1, 1, 1])).unwrap())
            .is_err()
        );
    }

    #[test]
    fn bad_runs_are_refused_by_name() {
        for (fields, name) in [
            ([0, 1, 1, 1, 1], "dataset_size"),
            ([9, 0, 1, 1, 1], "batch_size"),
            ([9, 4, 3, 1, 1], "units_per_batch"),
            ([9, 4, 0, 1, 1], "units_per_batch"),
            ([9, 4, 2, 10, 1], "group_size"),
            ([9, 4, 2, 1, 0], "epochs"),
            ([9, 4, 2, 1, u64::MAX], "epochs"),
            ([1 << 40, 1 << 30, 1 << 30, 1 << 39, 1], "group_size"),
        ] {
            let error = MembershipLaw::of(&run(Shuffling, fields)).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        assert!(MembershipLaw::of_rounds(&run(Shuffling, [9, 4, 2, 1, 1]), 3).is_err());
    }
}
