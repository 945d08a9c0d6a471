//! Between Python's and the crate's words: errors, directions, laws, arrays.

use crate::error::Error;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArrayDyn};
use crate::renyi::Conversion;
use crate::renyi::GroupBound;
use crate::step::{Adjacency, Direction, GroupLaw, Mechanism, Step};
use crate::stopping::is_stopped;
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::import_exception!(hockeystick.errors, UnreachableError);
pyo3::import_exception!(hockeystick.errors, ContradictionError);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Interrupted => PyKeyboardInterrupt::new_err(error.to_string()),
            Error::Internal | Error::Forked => PyRuntimeError::new_err(error.to_string()),
            Error::TooLarge { .. } => PyMemoryError::new_err(error.to_string()),
            Error::Contradiction => ContradictionError::new_err(error.to_string()),
            Error::Unreachable(_) => UnreachableError::new_err(error.to_string()),
            _ => PyValueError::new_err(error.to_string()),
        }
    }
}

/// The result of `compute`, with a panic turned into an error: none may cross into Python. Every function of this module does
/// all but the conversion of its arguments inside, itself or by `watched`.
pub(crate) fn guarded<T>(compute: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(compute)).unwrap_or_else(|payload| {
        Err(if is_stopped(&*payload) {
            Error::Interrupted
        } else {
            Error::Internal
        })
    })
}

/// "add" or "remove".
pub(crate) fn direction(word: &str) -> Result<Direction, Error> {
    match word {
        "add" => Ok(Direction::Add),
        "remove" => Ok(Direction::Remove),
        _ => Err(Error::out_of_range("direction", word, "\"add\" or \"remove\"")),
    }
}

/// "add_remove", "add", "remove" or "replace".
pub(crate) fn adjacency(word: &str) -> Result<Adjacency, Error> {
    match word {
        "add_remove" => Ok(Adjacency::AddRemove),
        "add" => Ok(Adjacency::Add),
        "remove" => Ok(Adjacency::Remove),
        "replace" => Ok(Adjacency::Replace),
        _ => Err(Error::out_of_range(
            "adjacency",
            word,
            "\"add_remove\", \"add\", \"remove\" or \"replace\"",
        )),
    }
}

/// "exact", "jensen", "lower" or "black_box".
pub(crate) fn bound(word: &str) -> Result<GroupBound, Error> {
    match word {
        "exact" => Ok(GroupBound::Exact),
        "jensen" => Ok(GroupBound::Jensen),
        "lower" => Ok(GroupBound::Lower),
        "black_box" => Ok(GroupBound::BlackBox),
        _ => Err(Error::out_of_range(
            "bound",
            word,
            "\"exact\", \"jensen\", \"black_box\" or \"lower\"",
        )),
    }
}

/// "canonne" or "optimal".
pub(crate) fn conversion(word: &str) -> Result<Conversion, Error> {
    match word {
        "canonne" => Ok(Conversion::Canonne),
        "optimal" => Ok(Conversion::Optimal),
        _ => Err(Error::out_of_range("conversion", word, "\"canonne\" or \"optimal\"")),
    }
}

/// "gaussian", "laplace", "skellam" or "randomized_response"; the sensitivity is that of Skellam noise.
pub(crate) fn mechanism(word: &str, parameter: f64, sensitivity: i64) -> Result<Mechanism, Error> {
    match word {
        "gaussian" => Ok(Mechanism::Gaussian {
            noise_multiplier: parameter,
        }),
        "laplace" => Ok(Mechanism::Laplace { scale: parameter }),
        "skellam" => Ok(Mechanism::Skellam {
            variance: parameter,
            sensitivity: count("sensitivity", sensitivity)?,
        }),
        "randomized_response" => Ok(Mechanism::RandomizedResponse { keep: parameter }),
        _ => Err(Error::out_of_range(
            "family",
            word,
            "\"gaussian\", \"laplace\", \"skellam\" or \"randomized_response\"",
        )),
    }
}

/// The entries of an array of any shape and strides, in logical order.
pub(crate) fn entries(array: &PyReadonlyArrayDyn<'_, f64>) -> Vec<f64> {
    array.as_array().iter().copied().collect()
}

/// The entries of a vector.
pub(crate) fn vector<T: numpy::Element + Copy>(array: &PyReadonlyArray1<'_, T>) -> Vec<T> {
    array.as_array().iter().copied().collect()
}

/// The law of explicit weights or, in log space, their logarithms.
pub(crate) fn law(weights: &[f64], shifts: &[f64], log_space: bool) -> Result<GroupLaw, Error> {
    if log_space {
        GroupLaw::explicit_log(weights, shifts)
    } else {
        GroupLaw::explicit(weights, shifts)
    }
}

/// A count that Python passed as a signed number.
pub(crate) fn count(argument: &'static str, value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| Error::out_of_range(argument, value, "a whole number, at least 0"))
}

/// A mechanism as Python passes it: family, parameter, sensitivity.
pub(crate) type MechanismTuple = (String, f64, i64);

/// The mechanism that Python means.
pub(crate) fn noise((word, parameter, sensitivity): &MechanismTuple) -> Result<Mechanism, Error> {
    mechanism(word, *parameter, *sensitivity)
}

/// The steps of a history, seen by a group, from mechanism, sample rate and number of steps.
pub(crate) fn history(
    segments: &[(MechanismTuple, f64, i64)],
    group_size: u64,
) -> Result<Vec<(Step, u64)>, Error> {
    segments
        .iter()
        .map(|(mechanism, sample_rate, steps)| {
            let step = Step::poisson(noise(mechanism)?, *sample_rate, group_size);
            Ok((step, count("steps", *steps)?))
        })
        .collect()
}
