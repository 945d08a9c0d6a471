//! The bounds behind `hockeystick.auditing`.

use crate::auditing;
use crate::python::convert::{count, guarded};
use pyo3::prelude::*;

#[pyfunction]
pub(crate) fn probability_at_least(py: Python<'_>, successes: i64, trials: i64, error: f64) -> PyResult<f64> {
    Ok(py.detach(|| {
        guarded(|| auditing::probability_at_least(count("successes", successes)?, count("trials", trials)?, error))
    })?)
}

#[pyfunction]
pub(crate) fn one_run_epsilon_lower_bound(
    py: Python<'_>,
    correct: i64,
    guesses: i64,
    canaries: i64,
    delta: f64,
    error: f64,
) -> PyResult<f64> {
    Ok(py.detach(|| {
        guarded(|| {
            let correct = count("correct", correct)?;
            let (guesses, canaries) = (count("guesses", guesses)?, count("canaries", canaries)?);
            auditing::one_run_epsilon_lower_bound(correct, guesses, canaries, delta, error)
        })
    })?)
}
