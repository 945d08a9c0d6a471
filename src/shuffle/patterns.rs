//! How many rounds have at least k units with members, for k = 1, 2, …: the pattern of a run (see `membership`).
//!
//! **One epoch.** The members take distinct positions one after the other. Let n_k rounds have k units with members
//! after j members, l units in all. The next member is uniform on N − j free positions. It is in a new unit of a round
//! that has k of them with probability
//!
//! > n_k (m − k) s / (N − j), with n_0 = R − Σ n_k,
//!
//! and otherwise leaves the pattern as it is, with probability (N − j − (R m − l) s) / (N − j). All of these are
//! quotients of whole numbers up to 2^53, so that probabilities are sums of products of positive numbers. Of
//! subsampled batches each round is a run of its own.
//!
//! **Several epochs** are independent: patterns add up. With T_k = n_k + n_{k+1} + … a pattern with larger T_k for all k
//! reveals no less, so that patterns may be put together by the largest T_k of each k. That is done where there are
//! very many (`docs/theory/filtering.md`, Theorem 3).

use crate::error::{Error, Result, require};
use crate::shuffle::epoch_run::{EpochRun, EpochSampling};
use crate::stopping::checkpoint;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Largest group: the patterns of an epoch are the partitions of up to so many.
const LARGEST_GROUP: u64 = 32;
/// Largest number of patterns of a law of which sums are computed.
const MAX_PATTERNS: usize = 512;
/// Smallest probability of a pattern that is kept.
const NEGLIGIBLE: f64 = 1e-26;
const UNIT: f64 = f64::EPSILON;

/// T_1, T_2, …: how many rounds have at least so many units with members.
type Tails = Box<[u64]>;

/// The law of the pattern of a run, or of one that reveals no less.
///
/// There is a law of pairs of patterns, of which the first are those of the run but for a probability of at most `left_out`, and the
/// second, no smaller in any T_k, have the listed probabilities up to a factor 1 ± `rounding`.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternLaw {
    /// T_1, T_2, … of each pattern, all of one length.
    pub tails: Vec<Vec<u64>>,
    /// Probability of each pattern, positive.
    pub probabilities: Vec<f64>,
    /// Bound on the probability of what is not listed.
    pub left_out: f64,
    /// Bound on the relative rounding error of every listed probability.
    pub rounding: f64,
}

#[derive(Clone)]
struct Law {
    masses: BTreeMap<Tails, f64>,
    left_out: f64,
    rounding: f64,
}

impl PatternLaw {
    /// The law over `epochs` whole epochs and the first `rounds` rounds of another, with at most `largest` patterns.
    ///
    /// `run.epochs` does not matter.
    ///
    /// # Errors
    /// A field of `run` outside its domain; groups of more than 32 records; `rounds` of an epoch or more.
    ///
    /// # Example
    /// Two of four records, in two rounds of two: they share a round in one of three cases.
    /// ```
    /// use hockeystick::shuffle::{EpochRun, EpochSampling, PatternLaw};
    /// let run = EpochRun {
    ///     sampling: EpochSampling::Shuffling,
    ///     dataset_size: 4,
    ///     batch_size: 2,
    ///     units_per_batch: 2,
    ///     group_size: 2,
    ///     epochs: 1,
    /// };
    /// let law = PatternLaw::of(&run, 1, 0, 64)?;
    /// assert_eq!(law.tails, [[1, 1], [2, 0]]);
    /// assert!((law.probabilities[0] - 1.0 / 3.0).abs() < 1e-15);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn of(run: &EpochRun, epochs: u64, rounds: u64, largest: usize) -> Result<Self> {
        EpochRun {
            epochs: epochs.max(1),
            ..*run
        }
        .check()?;
        require(
            run.group_size <= LARGEST_GROUP,
            "group_size",
            run.group_size,
            "at most 32 where units of several records of a group are kept by coins",
        )?;
        require(
            rounds < run.rounds().max(1),
            "rounds",
            rounds,
            "less than those of an epoch",
        )?;
        require(largest >= 1, "largest", largest, "at least 1")?;
        let mut law = match run.sampling {
            EpochSampling::Shuffling => {
                let whole = Law::of_rounds(run, run.rounds()).times(epochs);
                if rounds == 0 {
                    whole
                } else {
                    whole.and(&Law::of_rounds(run, rounds))
                }
            }
            EpochSampling::Subsampling => {
                let all = epochs.checked_mul(run.rounds()).and_then(|all| all.checked_add(rounds));
                let all = all.ok_or_else(|| Error::Mismatch("the run has more than 2^64 rounds".into()))?;
                Law::of_rounds(run, 1).times(all)
            }
        };
        law.put_together(largest);
        Ok(law.listed())
    }
}

impl Law {
    fn nothing(width: usize) -> Self {
        Self {
            masses: BTreeMap::from([(vec![0; width].into(), 1.0)]),
            left_out: 0.0,
            rounding: 0.0,
        }
    }

    /// The pattern of `rounds` rounds that take distinct records.
    fn of_rounds(run: &EpochRun, rounds: u64) -> Self {
        let units = run.units_per_batch;
        let slots = run.batch_size / units;
        let width = units.min(run.group_size) as usize;
        let mut law = Self::nothing(width);
        for placed in 0..run.group_size {
            let free = (run.dataset_size - placed) as f64;
            let mut next = BTreeMap::new();
            for (tails, mass) in std::mem::take(&mut law.masses) {
                checkpoint();
                let hit: u64 = tails.iter().sum();
                // Positions that are in no new unit: all that are free but those of units without members.
                let rest = run.dataset_size - placed - (rounds * units - hit) * slots;
                if rest > 0 {
                    add(&mut next, tails.clone(), mass * (rest as f64 / free));
                }
                for k in 0..width {
                    let before = if k == 0 { rounds } else { tails[k - 1] };
                    let places = (before - tails[k]) * (units - k as u64) * slots;
                    if places > 0 {
                        let mut grown = tails.clone();
                        grown[k] += 1;
                        add(&mut next, grown, mass * (places as f64 / free));
                    }
                }
            }
            law.masses = next;
            law.rounding += (width + 4) as f64 * UNIT;
        }
        law.leave_out_negligible();
        law
    }

    /// The sum of two independent patterns.
    fn and(&self, other: &Self) -> Self {
        let mut masses = BTreeMap::new();
        for (one, p) in &self.masses {
            checkpoint();
            for (another, q) in &other.masses {
                let mass = p * q;
                // What is left out here is bounded below by its number.
                if mass >= NEGLIGIBLE {
                    add(&mut masses, one.iter().zip(another).map(|(a, b)| a + b).collect(), mass);
                }
            }
        }
        let dropped = (self.masses.len() * other.masses.len()) as f64 * NEGLIGIBLE;
        let shorter = self.masses.len().min(other.masses.len());
        let mut law = Self {
            masses,
            left_out: (self.left_out + other.left_out + self.left_out * other.left_out + dropped) * (1.0 + 1e-9),
            rounding: self.rounding + other.rounding + (shorter + 4) as f64 * UNIT,
        };
        law.put_together(MAX_PATTERNS);
        law
    }

    /// The sum of `times` independent patterns.
    fn times(&self, times: u64) -> Self {
        let width = self.masses.keys().next().map_or(0, |tails| tails.len());
        let (mut total, mut power, mut left) = (Self::nothing(width), self.clone(), times);
        power.put_together(MAX_PATTERNS);
        while left > 0 {
            if left % 2 == 1 {
                total = total.and(&power);
            }
            left /= 2;
            if left > 0 {
                power = power.and(&power);
            }
        }
        total
    }

    fn leave_out_negligible(&mut self) {
        let mut dropped = 0.0;
        self.masses.retain(|_, mass| {
            let kept = *mass >= NEGLIGIBLE;
            dropped += if kept { 0.0 } else { *mass };
            kept
        });
        self.left_out += dropped * (1.0 + 1e-9);
    }

    /// Puts patterns together by the largest of each T_k, until there are at most `largest`: half of these are the likeliest patterns
    /// as they are, and the others are joined in the cells of a grid.
    fn put_together(&mut self, largest: usize) {
        if self.masses.len() <= largest {
            return;
        }
        let mut ranked: Vec<(Tails, f64)> = std::mem::take(&mut self.masses).into_iter().collect();
        ranked.sort_by(|(a, p), (b, q)| q.total_cmp(p).then_with(|| a.cmp(b)));
        let rest = ranked.split_off(largest / 2);
        self.rounding += rest.len() as f64 * UNIT;
        self.masses = ranked.into_iter().collect();
        for (tails, mass) in joined(rest, largest - largest / 2) {
            add(&mut self.masses, tails, mass);
        }
    }

    fn listed(self) -> PatternLaw {
        let mut patterns: Vec<(Tails, f64)> = self.masses.into_iter().collect();
        patterns.sort_by(|(a, _), (b, _)| a.cmp(b));
        let (tails, probabilities) = patterns
            .into_iter()
            .map(|(tails, mass)| (tails.into_vec(), mass))
            .unzip();
        PatternLaw {
            tails,
            probabilities,
            left_out: self.left_out,
            rounding: self.rounding,
        }
    }
}

/// Patterns in at most `largest` cells of a grid, each with the largest T_k of its cell.
fn joined(patterns: Vec<(Tails, f64)>, largest: usize) -> impl Iterator<Item = (Tails, f64)> {
    let width = patterns.first().map_or(0, |(tails, _)| tails.len());
    let mut shifts = vec![0u32; width];
    let cell = |tails: &Tails, shifts: &[u32]| -> Tails {
        tails.iter().zip(shifts).map(|(tail, &shift)| tail >> shift).collect()
    };
    loop {
        let cells: BTreeSet<Tails> = patterns.iter().map(|(tails, _)| cell(tails, &shifts)).collect();
        if cells.len() <= largest {
            break;
        }
        // The coordinate with the most values in use is the one that is made coarser.
        let values = |k: usize| cells.iter().map(|tails| tails[k]).collect::<BTreeSet<u64>>().len();
        let widest = (0..width).max_by_key(|&k| values(k)).unwrap_or(0);
        shifts[widest] += 1;
    }
    let mut found: BTreeMap<Tails, (Tails, f64)> = BTreeMap::new();
    for (tails, mass) in patterns {
        match found.entry(cell(&tails, &shifts)) {
            Entry::Vacant(place) => {
                place.insert((tails, mass));
            }
            Entry::Occupied(mut place) => {
                let (most, sum) = place.get_mut();
                for (a, b) in most.iter_mut().zip(&tails) {
                    *a = (*a).max(*b);
                }
                *sum += mass;
            }
        }
    }
    found.into_values()
}

fn add(masses: &mut BTreeMap<Tails, f64>, tails: Tails, mass: f64) {
    *masses.entry(tails).or_insert(0.0) += mass;
}

#[cfg(test)]
mod tests {
    use super::*;
    use EpochSampling::{Shuffling, Subsampling};

    fn run(sampling: EpochSampling, [n, b, m, g]: [u64; 4]) -> EpochRun {
        EpochRun {
            sampling,
            dataset_size: n,
            batch_size: b,
            units_per_batch: m,
            group_size: g,
            epochs: 1,
        }
    }

    /// From every choice of g of the N positions, for the first `rounds` rounds.
    fn enumerated(run: &EpochRun, rounds: u64) -> BTreeMap<Vec<u64>, f64> {
        let (m, slots) = (run.units_per_batch, run.batch_size / run.units_per_batch);
        let width = m.min(run.group_size);
        let choices: Vec<u64> = (0..1u64 << run.dataset_size)
            .filter(|set| u64::from(set.count_ones()) == run.group_size)
            .collect();
        let mut law = BTreeMap::new();
        for set in &choices {
            let hit = |unit: u64| (set >> (unit * slots)) & ((1 << slots) - 1) != 0;
            let in_round = |r: u64| (0..m).filter(|u| hit(r * m + u)).count() as u64;
            let tails = (1..=width)
                .map(|k| (0..rounds).filter(|&r| in_round(r) >= k).count() as u64)
                .collect();
            *law.entry(tails).or_insert(0.0) += 1.0 / choices.len() as f64;
        }
        law
    }

    fn sum(one: &BTreeMap<Vec<u64>, f64>, other: &BTreeMap<Vec<u64>, f64>) -> BTreeMap<Vec<u64>, f64> {
        let mut total = BTreeMap::new();
        for (a, p) in one {
            for (b, q) in other {
                let tails = a.iter().zip(b).map(|(x, y)| x + y).collect();
                *total.entry(tails).or_insert(0.0) += p * q;
            }
        }
        total
    }

    fn assert_law(law: &PatternLaw, exact: &BTreeMap<Vec<u64>, f64>, what: &EpochRun) {
        assert!(law.tails.iter().eq(exact.keys()), "{what:?}: {law:?}");
        for (probability, exact) in law.probabilities.iter().zip(exact.values()) {
            assert!((probability / exact - 1.0).abs() < 1e-12, "{what:?}");
        }
        assert!(law.rounding < 1e-11 && law.left_out < 1e-20);
    }

    #[test]
    fn patterns_agree_with_every_placement() {
        for (n, b) in [(12, 4), (11, 4), (12, 6), (9, 3)] {
            for m in (1..=b).filter(|m| b % m == 0) {
                for g in [1, 2, 4] {
                    let shuffled = run(Shuffling, [n, b, m, g]);
                    let epoch = enumerated(&shuffled, n / b);
                    assert_law(&PatternLaw::of(&shuffled, 1, 0, 4096).unwrap(), &epoch, &shuffled);
                    let more = sum(&sum(&epoch, &epoch), &enumerated(&shuffled, 1));
                    assert_law(&PatternLaw::of(&shuffled, 2, 1, 4096).unwrap(), &more, &shuffled);
                    let subsampled = run(Subsampling, [n, b, m, g]);
                    let round = enumerated(&subsampled, 1);
                    let rounds = (1..n / b).fold(round.clone(), |total, _| sum(&total, &round));
                    assert_law(&PatternLaw::of(&subsampled, 1, 0, 4096).unwrap(), &rounds, &subsampled);
                }
            }
        }
    }

    #[test]
    fn patterns_that_are_put_together_only_grow() {
        let large = run(Shuffling, [60_000, 600, 600, 16]);
        let exact = PatternLaw::of(&large, 2, 0, 4096).unwrap();
        for largest in [1, 7, 64] {
            let coarse = PatternLaw::of(&large, 2, 0, largest).unwrap();
            assert!(coarse.tails.len() <= largest);
            assert!((coarse.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            // Upper tails of every T_k grow, and so does that of the sum: the number of members that take part.
            for k in 0..16 {
                for level in 0..40 {
                    let above = |law: &PatternLaw| -> f64 {
                        let with = law
                            .tails
                            .iter()
                            .zip(&law.probabilities)
                            .filter(|(tails, _)| tails[k] >= level);
                        with.map(|(_, mass)| mass).sum()
                    };
                    assert!(above(&coarse) >= above(&exact) * (1.0 - 1e-12));
                }
            }
        }
    }

    #[test]
    fn large_groups_are_refused_by_name() {
        let error = PatternLaw::of(&run(Shuffling, [100, 10, 10, 33]), 1, 0, 64).unwrap_err();
        assert!(error.to_string().contains("group_size"));
    }
}
