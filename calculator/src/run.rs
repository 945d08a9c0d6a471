//! A run as the page describes it, in seven numbers, and the answers about it.

use hockeystick::shuffle::{RecordChange, ShuffledRun};
use hockeystick::{Adjacency, Composition, Error, Group, Interval, Mechanism, Result, Sampling, Step};

/// How many numbers describe a run.
pub(crate) const FIELDS: usize = 7;

/// A run as the page describes it: noise multiplier, scheme, two numbers about the batches, steps, records of the group, neighbours.
///
/// | scheme | code | first number | second number |
/// |---|---|---|---|
/// | Poisson sampling | 0 | sample rate | – |
/// | fixed batches without replacement | 1 | batch size | records |
/// | every record in every step | 2 | – | – |
/// | each record in one batch of an epoch, at random and on its own | 3 | batches of an epoch | – |
/// | shuffled batches | 4 | batch size | records |
///
/// Neighbours are data sets with the group's records added or removed (0), replaced (1), or without their gradients (2, for
/// shuffled batches only).
pub(crate) type Fields = [f64; FIELDS];

/// What is asked about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// ε at a δ.
    Epsilon,
    /// δ at an ε.
    Delta,
    /// How often an attack misses at least, at a rate of false alarms.
    Misses,
    /// The upper end of ε at a δ, where that is known sooner than both.
    Upper,
}

/// A run that answers questions.
#[derive(Debug)]
pub(crate) enum Run {
    /// The composition of equal steps.
    Composed(Box<Composition>),
    /// Shuffled batches, of which an interval is known.
    Shuffled(ShuffledRun),
}

/// A whole number that an `f64` holds exactly.
fn whole(argument: &'static str, value: f64, least: f64) -> Result<u64> {
    /// Above this not every whole number is an `f64`.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    if value.fract() != 0.0 || !(least..=LARGEST).contains(&value) {
        let allowed = if least > 0.0 {
            "a whole number of at least 1"
        } else {
            "a whole number"
        };
        return Err(Error::out_of_range(argument, value, allowed));
    }
    Ok(value as u64)
}

/// A code that the page should not send.
fn unknown(what: &'static str, code: f64) -> Error {
    Error::out_of_range(what, code, "a code that this calculator knows")
}

impl Run {
    /// The run of these numbers.
    ///
    /// # Errors
    /// A number out of range, or a combination without a bound.
    pub(crate) fn new(fields: &Fields) -> Result<Self> {
        let [noise_multiplier, scheme, first, second, steps, group, neighbours] = *fields;
        let steps = whole("steps", steps, 0.0)?;
        let group_size = whole("group_size", group, 1.0)?;
        let batch_size = || whole("batch_size", first, 1.0);
        let dataset_size = || whole("dataset_size", second, 1.0);
        if scheme == 4.0 {
            return Ok(Self::Shuffled(ShuffledRun {
                dataset_size: dataset_size()?,
                batch_size: batch_size()?,
                group_size,
                steps,
                noise_multiplier,
                change: match neighbours {
                    2.0 => RecordChange::ZeroOut,
                    1.0 => RecordChange::Replace,
                    _ => {
                        return Err(refused(
                            "shuffled batches are compared for records that are replaced or left out",
                        ));
                    }
                },
            }));
        }
        let adjacency = match neighbours {
            0.0 => Adjacency::AddRemove,
            1.0 => Adjacency::Replace,
            2.0 => {
                return Err(refused(
                    "records whose gradients are left out are compared for shuffled batches only",
                ));
            }
            code => return Err(unknown("adjacency", code)),
        };
        let sampling = match scheme {
            0.0 => Sampling::Poisson { sample_rate: first },
            1.0 => Sampling::FixedBatch {
                batch_size: batch_size()?,
                dataset_size: dataset_size()?,
            },
            // The group is in every batch; other records do not matter.
            2.0 if adjacency == Adjacency::Replace => Sampling::FixedBatch {
                batch_size: group_size,
                dataset_size: group_size,
            },
            2.0 => Sampling::Poisson { sample_rate: 1.0 },
            3.0 => Sampling::RandomAllocation {
                batches: whole("batches", first, 1.0)?,
                times: 1,
            },
            code => return Err(unknown("sampling", code)),
        };
        let step = Step {
            mechanism: Mechanism::Gaussian { noise_multiplier },
            sampling,
            group: Group::of(group_size),
        };
        let run = Composition::new(&[(step, steps)], adjacency)?;
        Ok(Self::Composed(Box::new(run)))
    }

    /// The interval that holds the answer, to a relative width of `tolerance` where that can be had.
    ///
    /// # Errors
    /// An argument out of range, or a question that has no answer for shuffled batches.
    pub(crate) fn answer(&mut self, question: Question, at: f64, tolerance: f64) -> Result<Interval> {
        match (self, question) {
            (Self::Composed(run), Question::Epsilon | Question::Upper) => run.epsilon(at, tolerance),
            (Self::Composed(run), Question::Delta) => {
                let found = run.delta(at, tolerance)?;
                Ok(Interval {
                    lower: found.lower(),
                    upper: found.upper(),
                })
            }
            (Self::Composed(run), Question::Misses) => Ok(Interval {
                lower: run.beta(at, tolerance)?,
                upper: 1.0 - at,
            }),
            (Self::Shuffled(run), Question::Epsilon) => run.epsilon(at, tolerance),
            (Self::Shuffled(run), Question::Upper) => Ok(Interval {
                lower: 0.0,
                upper: run.epsilon_upper(at, tolerance)?,
            }),
            (Self::Shuffled(run), Question::Delta) => run.delta(at, tolerance),
            (Self::Shuffled(_), Question::Misses) => {
                Err(refused("misses of attacks are not known for shuffled batches"))
            }
        }
    }
}

fn refused(why: &str) -> Error {
    Error::Mismatch(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epsilon(fields: Fields) -> Interval {
        Run::new(&fields)
            .unwrap()
            .answer(Question::Epsilon, 1e-5, 1e-6)
            .unwrap()
    }

    #[test]
    fn runs_are_those_of_the_documentation() {
        let shown = |fields| format!("{:.4}", epsilon(fields).upper);
        assert_eq!(shown([2.0, 0.0, 0.01, 0.0, 1000.0, 8.0, 0.0]), "6.4602");
        assert_eq!(shown([1.0, 0.0, 0.01, 0.0, 1000.0, 1.0, 0.0]), "1.8282");
        let shuffled = epsilon([1.0, 4.0, 600.0, 60_000.0, 100.0, 1.0, 2.0]);
        assert_eq!(format!("{:.3} {:.3}", shuffled.lower, shuffled.upper), "4.063 4.377");
    }

    #[test]
    fn every_scheme_answers_every_question_that_it_can() {
        let batches = [[0.1, 0.0], [100.0, 1000.0], [0.0, 0.0], [10.0, 0.0], [100.0, 1000.0]];
        for (scheme, [first, second]) in batches.into_iter().enumerate() {
            for neighbours in 0..3 {
                let fields = [2.0, scheme as f64, first, second, 20.0, 1.0, f64::from(neighbours)];
                let wanted = match neighbours {
                    0 => scheme != 4,
                    1 => scheme != 3,
                    _ => scheme == 4,
                };
                let run = Run::new(&fields);
                assert_eq!(run.is_ok(), wanted, "{fields:?}");
                let Ok(mut run) = run else { continue };
                let found = run.answer(Question::Epsilon, 1e-5, 1e-6).unwrap();
                assert!(0.0 < found.lower && found.lower <= found.upper && found.upper < 100.0);
                let upper = run.answer(Question::Upper, 1e-5, 1e-6).unwrap();
                assert_eq!(upper.upper, found.upper);
                // δ at the ε of a δ is that δ, or less.
                let delta = run.answer(Question::Delta, found.upper, 1e-6).unwrap();
                assert!(delta.lower <= 1e-5 && delta.upper <= 1.1e-5, "{fields:?} {delta:?}");
                let misses = run.answer(Question::Misses, 0.01, 1e-6);
                assert_eq!(misses.is_ok(), scheme != 4);
                assert!(misses.is_ok_and(|misses| 0.0 <= misses.lower && misses.lower < 0.99) || scheme == 4);
            }
        }
    }

    #[test]
    fn numbers_that_are_not_whole_or_out_of_range_are_refused() {
        let good = [1.0, 0.0, 0.01, 0.0, 1000.0, 1.0, 0.0];
        assert!(Run::new(&good).is_ok());
        for (field, value) in [
            (0, -1.0),
            (0, f64::NAN),
            (1, 7.0),
            (2, 1.5),
            (4, 0.5),
            (4, -1.0),
            (4, 1e300),
            (5, 0.0),
            (5, f64::INFINITY),
            (6, 9.0),
        ] {
            let mut bad = good;
            bad[field] = value;
            let refused = Run::new(&bad).map(|mut run| run.answer(Question::Epsilon, 1e-5, 1e-6));
            assert!(!matches!(refused, Ok(Ok(_))), "{bad:?}");
        }
    }
}
