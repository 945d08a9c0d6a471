//! Between Python's and the crate's words: errors, directions, laws, arrays.

use crate::error::Error;
use crate::pair::{Adjacency, Direction, GroupLaw};
use crate::renyi::run::{Bound, Segment};
use numpy::{PyReadonlyArray1, PyReadonlyArrayDyn};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Interrupted => PyKeyboardInterrupt::new_err(error.to_string()),
            Error::Internal => PyRuntimeError::new_err(error.to_string()),
            _ => PyValueError::new_err(error.to_string()),
        }
    }
}

/// The result of `compute`, with a panic turned into an error: none may cross into Python.
pub(super) fn guarded<T>(compute: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(compute)).unwrap_or(Err(Error::Internal))
}

/// "add" or "remove".
pub(super) fn direction(word: &str) -> Result<Direction, Error> {
    match word {
        "add" => Ok(Direction::Add),
        "remove" => Ok(Direction::Remove),
        _ => Err(Error::out_of_range("direction", word, "\"add\" or \"remove\"")),
    }
}

/// "add_remove", "add" or "remove".
pub(super) fn adjacency(word: &str) -> Result<Adjacency, Error> {
    match word {
        "add_remove" => Ok(Adjacency::AddRemove),
        "add" => Ok(Adjacency::Add),
        "remove" => Ok(Adjacency::Remove),
        _ => Err(Error::out_of_range(
            "adjacency",
            word,
            "\"add_remove\", \"add\" or \"remove\"",
        )),
    }
}

/// "exact", "jensen" or "black_box".
pub(super) fn bound(word: &str) -> Result<Bound, Error> {
    match word {
        "exact" => Ok(Bound::Exact),
        "jensen" => Ok(Bound::Jensen),
        "black_box" => Ok(Bound::BlackBox),
        _ => Err(Error::out_of_range(
            "bound",
            word,
            "\"exact\", \"jensen\" or \"black_box\"",
        )),
    }
}

/// The entries of an array of any shape and strides, in logical order.
pub(super) fn entries(array: &PyReadonlyArrayDyn<'_, f64>) -> Vec<f64> {
    array.as_array().iter().copied().collect()
}

/// The entries of a vector.
pub(super) fn vector<T: numpy::Element + Copy>(array: &PyReadonlyArray1<'_, T>) -> Vec<T> {
    array.as_array().iter().copied().collect()
}

/// The law of explicit weights or, in log space, their logarithms.
pub(super) fn law(weights: &[f64], shifts: &[f64], log_space: bool) -> Result<GroupLaw, Error> {
    if log_space {
        GroupLaw::explicit_log(weights, shifts)
    } else {
        GroupLaw::explicit(weights, shifts)
    }
}

/// A count that Python passed as a signed number.
pub(super) fn count(argument: &'static str, value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| Error::out_of_range(argument, value, "a whole number, at least 0"))
}

/// The segments of a history from its columns.
pub(super) fn history(
    noise_multipliers: &PyReadonlyArray1<'_, f64>,
    sample_rates: &PyReadonlyArray1<'_, f64>,
    steps: &PyReadonlyArray1<'_, i64>,
) -> Result<Vec<Segment>, Error> {
    let (noise, rates, steps) = (vector(noise_multipliers), vector(sample_rates), vector(steps));
    if noise.len() != rates.len() || noise.len() != steps.len() {
        return Err(Error::Mismatch("the columns of a history must have one length".into()));
    }
    (0..noise.len())
        .map(|i| {
            Ok(Segment {
                noise_multiplier: noise[i],
                sample_rate: rates[i],
                steps: count("steps", steps[i])?,
            })
        })
        .collect()
}
