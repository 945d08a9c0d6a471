//! Rényi guarantees of a history.

use crate::error::Error;
use crate::monitor::Monitor;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArrayDyn};
use crate::python::convert::{MechanismTuple, adjacency, bound, conversion, count, entries, history, vector};
use crate::python::monitor::{unless_cancelled, watched};
use crate::renyi::Guarantee;
use crate::renyi::Run;
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;

type Vector<'py> = Bound<'py, PyArray1<f64>>;

/// MechanismTuple, sample rate and steps of every segment.
type Segments = Vec<(MechanismTuple, f64, i64)>;

/// How to make the run of a history, which takes a while.
fn run_of(
    segments: &Segments,
    group_size: i64,
    adjacency_word: &str,
    bound_word: &str,
    conversion_word: &str,
) -> Result<impl FnOnce() -> Result<Run, Error> + Send + use<>, Error> {
    let steps = history(segments, count("group_size", group_size)?)?;
    let (adjacency, bound) = (adjacency(adjacency_word)?, bound(bound_word)?);
    let conversion = conversion(conversion_word)?;
    Ok(move || Ok(Run::new(&steps, adjacency, bound)?.with_conversion(conversion)))
}

/// The answers of one run to many questions, until it is told to stop.
fn answers<T>(
    run: &mut Run,
    targets: &[f64],
    question: impl Fn(&mut Run, f64) -> Result<T, Error>,
    monitor: &dyn Monitor,
) -> Result<Vec<T>, Error> {
    targets
        .iter()
        .map(|&target| {
            unless_cancelled(monitor)?;
            question(run, target)
        })
        .collect()
}

#[pyfunction]
pub(crate) fn history_renyi<'py>(
    py: Python<'py>,
    orders: PyReadonlyArray1<'py, f64>,
    segments: Segments,
    group_size: i64,
    adjacency: &str,
    bound: &str,
) -> PyResult<Vector<'py>> {
    let orders = vector(&orders);
    let run = run_of(&segments, group_size, adjacency, bound, "canonne")?;
    let rdp = watched(py, None, move |monitor| {
        let mut run = run()?;
        crate::renyi::require_orders(&orders)?;
        answers(&mut run, &orders, |run, order| Ok(run.renyi(&[order])?[0]), monitor)
    })?;
    Ok(rdp.to_pyarray(py))
}

/// Values and orders of the answers to one question about a run.
fn ask<'py>(
    py: Python<'py>,
    targets: &PyReadonlyArrayDyn<'py, f64>,
    run: impl FnOnce() -> Result<Run, Error> + Send + 'static,
    question: impl Fn(&mut Run, f64) -> Result<Guarantee, Error> + Send + 'static,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let targets = entries(targets);
    let found = watched(py, None, move |monitor| {
        let mut run = run()?;
        answers(&mut run, &targets, &question, monitor)
    })?;
    let values: Vec<f64> = found.iter().map(|answer| answer.value).collect();
    let orders: Vec<f64> = found.iter().map(|answer| answer.order).collect();
    Ok((values.to_pyarray(py), orders.to_pyarray(py)))
}

#[pyfunction]
pub(crate) fn history_epsilon<'py>(
    py: Python<'py>,
    delta: PyReadonlyArrayDyn<'py, f64>,
    segments: Segments,
    group_size: i64,
    adjacency: &str,
    bound: &str,
    conversion: &str,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let run = run_of(&segments, group_size, adjacency, bound, conversion)?;
    ask(py, &delta, run, Run::epsilon)
}

#[pyfunction]
pub(crate) fn history_delta<'py>(
    py: Python<'py>,
    epsilon: PyReadonlyArrayDyn<'py, f64>,
    segments: Segments,
    group_size: i64,
    adjacency: &str,
    bound: &str,
    conversion: &str,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let run = run_of(&segments, group_size, adjacency, bound, conversion)?;
    ask(py, &epsilon, run, Run::delta)
}
