//! Rényi guarantees of a history.

use super::convert::{adjacency, bound, count, entries, history, vector};
use crate::error::Error;
use crate::renyi::run::{Guarantee, Run};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArrayDyn, ToPyArray};
use pyo3::prelude::*;

type Vector<'py> = Bound<'py, PyArray1<f64>>;

/// The run of a history, ready to be asked.
fn run_of(
    columns: (
        &PyReadonlyArray1<'_, f64>,
        &PyReadonlyArray1<'_, f64>,
        &PyReadonlyArray1<'_, i64>,
    ),
    group_size: i64,
    adjacency_word: &str,
    bound_word: &str,
) -> Result<Run, Error> {
    let segments = history(columns.0, columns.1, columns.2)?;
    let group_size = count("group_size", group_size)?;
    Run::new(&segments, group_size, adjacency(adjacency_word)?, bound(bound_word)?)
}

#[pyfunction]
pub(super) fn history_renyi<'py>(
    py: Python<'py>,
    orders: PyReadonlyArray1<'py, f64>,
    noise_multipliers: PyReadonlyArray1<'py, f64>,
    sample_rates: PyReadonlyArray1<'py, f64>,
    steps: PyReadonlyArray1<'py, i64>,
    group_size: i64,
    adjacency: &str,
    bound: &str,
) -> PyResult<Vector<'py>> {
    let mut run = run_of(
        (&noise_multipliers, &sample_rates, &steps),
        group_size,
        adjacency,
        bound,
    )?;
    let orders = vector(&orders);
    let rdp = py.detach(|| run.renyi(&orders))?;
    Ok(rdp.to_pyarray(py))
}

/// Asks one run many questions; returns the answers and their orders.
fn ask<'py>(
    py: Python<'py>,
    mut run: Run,
    targets: &PyReadonlyArrayDyn<'py, f64>,
    question: impl Fn(&mut Run, f64) -> Result<Guarantee, Error> + Send + Sync,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let targets = entries(targets);
    let answers = py.detach(|| {
        let mut answer = |&target: &f64| question(&mut run, target);
        targets
            .iter()
            .map(&mut answer)
            .collect::<Result<Vec<Guarantee>, Error>>()
    })?;
    let values: Vec<f64> = answers.iter().map(|answer| answer.value).collect();
    let orders: Vec<f64> = answers.iter().map(|answer| answer.order).collect();
    Ok((values.to_pyarray(py), orders.to_pyarray(py)))
}

#[pyfunction]
pub(super) fn history_epsilon<'py>(
    py: Python<'py>,
    delta: PyReadonlyArrayDyn<'py, f64>,
    noise_multipliers: PyReadonlyArray1<'py, f64>,
    sample_rates: PyReadonlyArray1<'py, f64>,
    steps: PyReadonlyArray1<'py, i64>,
    group_size: i64,
    adjacency: &str,
    bound: &str,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let run = run_of(
        (&noise_multipliers, &sample_rates, &steps),
        group_size,
        adjacency,
        bound,
    )?;
    ask(py, run, &delta, Run::epsilon)
}

#[pyfunction]
pub(super) fn history_delta<'py>(
    py: Python<'py>,
    epsilon: PyReadonlyArrayDyn<'py, f64>,
    noise_multipliers: PyReadonlyArray1<'py, f64>,
    sample_rates: PyReadonlyArray1<'py, f64>,
    steps: PyReadonlyArray1<'py, i64>,
    group_size: i64,
    adjacency: &str,
    bound: &str,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let run = run_of(
        (&noise_multipliers, &sample_rates, &steps),
        group_size,
        adjacency,
        bound,
    )?;
    ask(py, run, &epsilon, Run::delta)
}
