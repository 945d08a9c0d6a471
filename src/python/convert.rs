//! Between Python's and the crate's errors, numbers and arrays.

use crate::error::Error;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArrayDyn};
use crate::step::GroupLaw;
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
