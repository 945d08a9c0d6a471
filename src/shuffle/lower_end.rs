//! The lower end of the interval of shuffled batches: what two concrete data sets certainly reveal.
//!
//! A candidate is the composition of the pairs of all epochs ([`crate::shuffle::epoch_pair`]), for one length of blocks and one order of
//! the two data sets. Every candidate is a lower bound. The best by a rough score is computed with certainty: with p_i and q_i the
//! computed masses of the cells of an epoch and η a bound on their relative errors, those of P are at least p_i(1 − η) and those of
//! Q at most q_i(1 + η). So over E epochs
//!
//! > δ(ε) ≥ (1 − η)^E·δ'(ε + E·log((1 + η)/(1 − η))),
//!
//! with δ' the curve of the computed masses, of which the exact engine gives a lower bound (`docs/theory/shuffling-interval.md`).

use crate::curve::composed_loss::ComposedLoss;
use crate::curve::composition::Composition;
use crate::error::Result;
use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::loss_curve::Atom;
use crate::loss::pairs::StepOutcome;
use crate::shuffle::epoch_pair::{Blocks, Cell};
use crate::shuffle::shuffled_run::{Question, ShuffledRun};
use crate::special::log_space::LogSum;

/// Cells of an epoch that is composed with others. ε falls short by the square of their width, some 1e-5 of it; the grid by more.
const CELLS: usize = 1500;
/// Cells of a single epoch, where the event that is best lies within one of them: ε falls short by 2e-5 or less.
const CELLS_OF_ONE_EPOCH: usize = 6000;
/// Cells of the pairs among which the best is chosen.
const ROUGH_CELLS: usize = 200;
/// Relative widths that are asked for where a narrower interval was not to be had.
const WIDER: f64 = 1e-4;
const WIDEST: f64 = 1e-2;
/// A lower end of at least this part of what is certified above it is not computed again.
const GOOD: f64 = 0.9;
/// The lower end for less noise is that of this: masses of cells, 1e-150 at least, tell no losses above 345 apart.
const MIN_NOISE: f64 = 0.05;
/// Relative error of masses from which on nothing is concluded: only for epochs of more than 10¹¹ batches.
const MAX_ERROR: f64 = 0.5;
/// Orders of the moments by which pairs are compared: powers of √2 from 1/64 to 2¹⁰.
const ORDERS: std::ops::RangeInclusive<i32> = -12..=20;

/// Epochs of a run in one direction, as computed: the law of the loss of each kind with their number.
pub(super) struct Candidate {
    parts: Vec<(Vec<Atom>, u64)>,
    /// Σ over epochs of log(1 + η) − log(1 − η), and of −log(1 − η).
    slack: (f64, f64),
}

impl Candidate {
    /// A number that is larger for the candidate with the larger lower bound: exact for one epoch, else by Chernoff's bound.
    fn score(&self, question: Question) -> f64 {
        if let [(atoms, 1)] = self.parts.as_slice() {
            let delta = |epsilon: f64| -> f64 {
                let excesses = atoms.iter().filter(|atom| atom.loss > epsilon);
                excesses
                    .map(|atom| atom.log_mass.exp() * -(epsilon - atom.loss).exp_m1())
                    .sum()
            };
            return match question {
                Question::Delta(epsilon) => delta(epsilon),
                Question::Epsilon(wanted) => {
                    let (mut low, mut high) = (0.0, atoms.first().map_or(0.0, |atom| atom.loss.max(0.0)));
                    for _ in 0..50 {
                        let middle = 0.5 * (low + high);
                        if delta(middle) > wanted {
                            low = middle;
                        } else {
                            high = middle;
                        }
                    }
                    // Where no δ at 0 is large enough, the largest is nearest to it.
                    if low > 0.0 { low } else { delta(0.0) - 1.0 }
                }
            };
        }
        let bound = |exponent: i32| {
            let order = (0.5 * f64::from(exponent)).exp2();
            let moment: f64 = self
                .parts
                .iter()
                .map(|(atoms, count)| {
                    let mut sum = LogSum::default();
                    atoms.iter().for_each(|atom| sum.add(atom.log_mass + order * atom.loss));
                    *count as f64 * sum.ln()
                })
                .sum();
            match question {
                Question::Delta(epsilon) => moment - order * epsilon,
                Question::Epsilon(delta) => (moment - delta.ln()) / order,
            }
        };
        ORDERS.map(bound).fold(f64::INFINITY, f64::min)
    }

    /// A certified lower bound on the answer, and what is certified above it for this candidate.
    fn lower_bound(self, question: Question, tolerance: f64) -> Result<(f64, f64)> {
        let (shift, loss) = self.slack;
        if shift == f64::INFINITY {
            return Ok((0.0, 0.0));
        }
        let steps = self.parts.into_iter().map(|(atoms, count)| {
            let outcome = if atoms.len() > 1 {
                StepOutcome::Loss(StepLoss::new(AtomLoss::new(atoms)))
            } else {
                StepOutcome::Nothing
            };
            (outcome, count)
        });
        let mut curve = Composition::of_directions(vec![ComposedLoss::new(steps.collect(), false)]);
        match question {
            Question::Delta(epsilon) => {
                let found = curve.delta(epsilon + shift, tolerance)?;
                let lower = (found.lower() * (-loss).exp() * (1.0 - 4.0 * f64::EPSILON)).max(0.0);
                Ok((lower, found.upper()))
            }
            Question::Epsilon(delta) => {
                let wanted = delta * loss.exp() * (1.0 + 4.0 * f64::EPSILON);
                if wanted >= 1.0 {
                    return Ok((0.0, 0.0));
                }
                let found = curve.epsilon(wanted, tolerance)?;
                Ok((
                    ((found.lower - shift) * (1.0 - 4.0 * f64::EPSILON)).max(0.0),
                    found.upper,
                ))
            }
        }
    }
}

/// The law of the loss of P against Q, descending, with cells of the masses of both; both are made to sum to 1.
fn atoms(cells: &[Cell]) -> Vec<Atom> {
    let totals = cells
        .iter()
        .fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
    let mut found: Vec<Atom> = cells
        .iter()
        .map(|cell| {
            let (p, q) = (cell.0 / totals.0, cell.1 / totals.1);
            Atom::new((p / q).ln(), p.ln())
        })
        .collect();
    found.sort_by(|a, b| b.loss.total_cmp(&a.loss));
    found
}

impl ShuffledRun {
    /// A lower bound: the best of the pairs that the largest sum of blocks of batches has, in both directions.
    pub(super) fn lower(&self, question: Question, tolerance: f64) -> Result<f64> {
        if self.steps == 0 {
            return Ok(0.0);
        }
        if self.noise_multiplier == 0.0 {
            // The outputs of the data set with the record are others wherever it takes part.
            let revealed = self.taking_part() * (1.0 - 1e-12);
            return Ok(match question {
                Question::Delta(_) => revealed,
                Question::Epsilon(delta) if revealed > delta => f64::INFINITY,
                Question::Epsilon(_) => 0.0,
            });
        }
        let mut best: Option<(f64, u64, usize)> = None;
        for block in self.block_lengths() {
            for (direction, candidate) in self.candidates(block, ROUGH_CELLS).into_iter().enumerate() {
                let score = candidate.score(question);
                if best.is_none_or(|known| score > known.0) {
                    best = Some((score, block, direction));
                }
            }
        }
        let Some((_, block, direction)) = best else {
            return Ok(0.0);
        };
        let is_one_epoch = self.steps <= self.epochs(1).rounds();
        let cells = if is_one_epoch { CELLS_OF_ONE_EPOCH } else { CELLS };
        // Hundreds of epochs may be out of reach at the width that is asked for: wider intervals, and fewer cells, have a lower end too.
        let mut lower = 0.0f64;
        for (cells, tolerance) in [
            (cells, tolerance),
            (cells, tolerance.max(WIDER)),
            (cells, tolerance.max(WIDEST)),
            (ROUGH_CELLS, tolerance.max(WIDEST)),
        ] {
            let [first, second] = self.candidates(block, cells);
            let chosen = if direction == 0 { first } else { second };
            let (found, upper) = chosen.lower_bound(question, tolerance)?;
            lower = lower.max(found);
            if lower >= GOOD * upper {
                break;
            }
        }
        Ok(lower)
    }

    /// Numbers of batches that are added up in a block: powers of 2, and all of an epoch.
    fn block_lengths(&self) -> Vec<u64> {
        let longest = self.epochs(1).rounds().min(self.steps);
        let powers = (0..64).map(|exponent| 1 << exponent);
        powers.take_while(|&length| length < longest).chain([longest]).collect()
    }

    /// The run in both directions, with the largest sum of blocks of `length` batches as the output of an epoch.
    fn candidates(&self, length: u64, cells: usize) -> [Candidate; 2] {
        let (complete, rest) = self.complete();
        let mut found = [(); 2].map(|()| Candidate {
            parts: Vec::new(),
            slack: (0.0, 0.0),
        });
        for (rounds, count) in [(self.epochs(1).rounds(), complete), (rest, 1)] {
            if rounds == 0 || count == 0 {
                continue;
            }
            let length = length.min(rounds);
            let blocks = Blocks {
                blocks: rounds / length,
                block_size: length * self.batch_size,
                dataset_size: self.dataset_size,
                group_size: self.group_size,
                noise: self.noise_multiplier.max(MIN_NOISE) * (length as f64).sqrt(),
            };
            let (law, width) = blocks.cells(self.change.shifts(), cells);
            // Three times: the masses, their sums, and the quotients by these.
            let error = 3.0 * (blocks.error(width) + f64::EPSILON * law.len() as f64);
            let lost = if error < MAX_ERROR {
                (-error).ln_1p()
            } else {
                f64::NEG_INFINITY
            };
            let swapped: Vec<Cell> = law.iter().map(|cell| (cell.1, cell.0)).collect();
            for (candidate, law) in found.iter_mut().zip([law, swapped]) {
                candidate.parts.push((atoms(&law), count));
                candidate.slack.0 += count as f64 * (error.ln_1p() - lost);
                candidate.slack.1 -= count as f64 * lost;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shuffle::RecordChange;

    /// Two epochs in a few cells: all pairs of cells, one by one.
    #[test]
    fn epochs_are_composed() {
        let run = ShuffledRun {
            dataset_size: 60,
            batch_size: 6,
            group_size: 1,
            steps: 20,
            noise_multiplier: 0.8,
            change: RecordChange::ZeroOut,
        };
        for candidate in run.candidates(1, 60) {
            let [(atoms, 2)] = candidate.parts.as_slice() else {
                panic!("{:?}", candidate.parts);
            };
            let mut exact = 0.0;
            for one in atoms {
                for other in atoms {
                    let excess = one.loss + other.loss - 2.0;
                    exact += (one.log_mass + other.log_mass).exp() * -(-excess.max(0.0)).exp_m1();
                }
            }
            let (found, _) = candidate.lower_bound(Question::Delta(2.0), 1e-6).unwrap();
            assert!(found <= exact && found > 0.999 * exact, "{found} {exact}");
        }
    }

    /// With much noise the sum of all batches tells more than the largest one, with little noise the largest one does.
    #[test]
    fn blocks_are_long_where_there_is_much_noise() {
        let best = |noise_multiplier: f64| {
            let run = ShuffledRun {
                dataset_size: 6000,
                batch_size: 6,
                group_size: 1,
                steps: 1000,
                noise_multiplier,
                change: RecordChange::ZeroOut,
            };
            let score = |block: u64| run.candidates(block, ROUGH_CELLS)[0].score(Question::Epsilon(1e-5));
            let all = run.block_lengths();
            assert_eq!((all[0], all[all.len() - 1]), (1, 1000));
            all.into_iter().max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap()
        };
        assert_eq!(best(0.5), 1);
        assert!(best(3.0) > 100);
    }
    /// 800 epochs: what is out of reach at one width has a lower end at another, which is taken then.
    #[test]
    fn very_many_epochs_have_a_lower_end_at_every_tolerance() {
        let run = ShuffledRun {
            dataset_size: 60_000,
            batch_size: 600,
            group_size: 1,
            steps: 80_000,
            noise_multiplier: 10.0,
            change: RecordChange::ZeroOut,
        };
        let wide = run.lower(Question::Epsilon(1e-5), 1e-2).unwrap();
        let narrow = run.lower(Question::Epsilon(1e-5), 1e-6).unwrap();
        assert!(wide > 0.9 && narrow >= 0.99 * wide, "{wide} {narrow}");
    }
}
