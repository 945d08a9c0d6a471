//! Shuffled batches against the ordinary adversary: certified intervals.

use crate::error::Result;
use crate::python::convert::count;
use crate::python::exact::answer_all;
use crate::python::vocabulary::{Numbers, questions};
use crate::python::words::Unknown;
use crate::shuffle::{RecordChange, ShuffledRun};
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;

/// Both ends of the interval of every question.
type Ends<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// Certified bounds on ε at δ, or on δ at ε, of runs of shuffled batches; `at` is what is given.
#[pyfunction]
pub(crate) fn shuffled_interval<'py>(
    py: Python<'py>,
    unknown: Unknown,
    sampling: (i64, i64),
    noise_multiplier: Numbers<f64>,
    group_size: Numbers<i64>,
    steps: Numbers<i64>,
    adjacency: RecordChange,
    at: Numbers<f64>,
    tolerance: f64,
) -> PyResult<Ends<'py>> {
    let lengths = [
        noise_multiplier.length(),
        group_size.length(),
        steps.length(),
        at.length(),
    ];
    let (batch_size, dataset_size) = (count("batch_size", sampling.0)?, count("dataset_size", sampling.1)?);
    let answer = move |i: usize| -> Result<(f64, f64)> {
        let run = ShuffledRun {
            dataset_size,
            batch_size,
            group_size: count("group_size", group_size.at(i))?,
            steps: count("steps", steps.at(i))?,
            noise_multiplier: noise_multiplier.at(i),
            change: adjacency,
        };
        let found = if matches!(unknown, Unknown::Delta) {
            run.delta(at.at(i), tolerance)?
        } else {
            run.epsilon(at.at(i), tolerance)?
        };
        Ok((found.lower, found.upper))
    };
    let found = answer_all(py, questions(lengths)?, answer)?;
    let (lower, upper): (Vec<f64>, Vec<f64>) = found.into_iter().unzip();
    Ok((lower.to_pyarray(py), upper.to_pyarray(py)))
}
