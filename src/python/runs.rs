//! Rényi guarantees of a history.

use crate::error::Error;
use crate::monitor::Monitor;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArrayDyn};
use crate::python::convert::{entries, vector};
use crate::python::monitor::{unless_cancelled, watched};
use crate::python::vocabulary::{self, Segment};
use crate::renyi::{self, Conversion, GroupBound, Guarantee, Run};
use crate::step::Adjacency;
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;

type Vector<'py> = Bound<'py, PyArray1<f64>>;

/// How to make the run of some steps, for groups of one size, which takes a while.
fn run_of(
    segments: &[Segment],
    adjacency: Adjacency,
    bound: GroupBound,
    conversion: Conversion,
) -> Result<impl FnOnce() -> Result<Run, Error> + Send + use<>, Error> {
    let steps = vocabulary::run_of(segments, adjacency)?;
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
    segments: Vec<Segment>,
    adjacency: Adjacency,
    bound: GroupBound,
) -> PyResult<Vector<'py>> {
    let orders = vector(&orders);
    let run = run_of(&segments, adjacency, bound, Conversion::Canonne)?;
    let rdp = watched(py, None, move |monitor| {
        let mut run = run()?;
        renyi::require_orders(&orders)?;
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
    segments: Vec<Segment>,
    adjacency: Adjacency,
    bound: GroupBound,
    conversion: Conversion,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let run = run_of(&segments, adjacency, bound, conversion)?;
    ask(py, &delta, run, Run::epsilon)
}

#[pyfunction]
pub(crate) fn history_delta<'py>(
    py: Python<'py>,
    epsilon: PyReadonlyArrayDyn<'py, f64>,
    segments: Vec<Segment>,
    adjacency: Adjacency,
    bound: GroupBound,
    conversion: Conversion,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let run = run_of(&segments, adjacency, bound, conversion)?;
    ask(py, &epsilon, run, Run::delta)
}
