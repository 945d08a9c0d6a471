//! Guarantees of whole runs: one history, or many configurations in parallel.

use super::convert::{adjacency, bound, count, entries, history, vector};
use crate::error::Error;
use crate::pair::Adjacency;
use crate::renyi::run::{self, Guarantee, Run, Segment};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArrayDyn, ToPyArray};
use pyo3::prelude::*;
use rayon::prelude::*;

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

/// Answers question number 0..length, in parallel; the answers do not depend on their neighbours.
fn answer_all(
    py: Python<'_>,
    length: usize,
    answer: impl Fn(usize) -> Result<f64, Error> + Send + Sync,
) -> PyResult<Vector<'_>> {
    let answers = py.detach(|| {
        let all = (0..length).into_par_iter().with_max_len(1);
        all.map(answer).collect::<Result<Vec<f64>, Error>>()
    })?;
    Ok(answers.to_pyarray(py))
}

/// Checks that the columns of a broadcast call have one length.
fn require_lengths(length: usize, others: &[usize]) -> Result<(), Error> {
    if others.iter().all(|&other| other == length) {
        Ok(())
    } else {
        Err(Error::Mismatch("all arguments must have one length".into()))
    }
}

/// The same question about many runs of equal steps.
fn ask_all<'py>(
    py: Python<'py>,
    targets: &PyReadonlyArray1<'py, f64>,
    segments: &[Segment],
    group_sizes: &PyReadonlyArray1<'py, i64>,
    adjacency: Adjacency,
    question: impl Fn(&mut Run, f64) -> Result<Guarantee, Error> + Send + Sync,
) -> PyResult<Vector<'py>> {
    let (targets, group_sizes) = (vector(targets), vector(group_sizes));
    require_lengths(targets.len(), &[segments.len(), group_sizes.len()])?;
    answer_all(py, targets.len(), |i| {
        let group_size = count("group_size", group_sizes[i])?;
        let mut run = Run::new(&segments[i..=i], group_size, adjacency, run::Bound::Exact)?;
        Ok(question(&mut run, targets[i])?.value)
    })
}

#[pyfunction]
pub(super) fn epsilon_of_runs<'py>(
    py: Python<'py>,
    delta: PyReadonlyArray1<'py, f64>,
    noise_multiplier: PyReadonlyArray1<'py, f64>,
    sample_rate: PyReadonlyArray1<'py, f64>,
    steps: PyReadonlyArray1<'py, i64>,
    group_size: PyReadonlyArray1<'py, i64>,
    adjacency: &str,
) -> PyResult<Vector<'py>> {
    let adjacency = super::convert::adjacency(adjacency)?;
    let segments = history(&noise_multiplier, &sample_rate, &steps)?;
    ask_all(py, &delta, &segments, &group_size, adjacency, Run::epsilon)
}

#[pyfunction]
pub(super) fn delta_of_runs<'py>(
    py: Python<'py>,
    epsilon: PyReadonlyArray1<'py, f64>,
    noise_multiplier: PyReadonlyArray1<'py, f64>,
    sample_rate: PyReadonlyArray1<'py, f64>,
    steps: PyReadonlyArray1<'py, i64>,
    group_size: PyReadonlyArray1<'py, i64>,
    adjacency: &str,
) -> PyResult<Vector<'py>> {
    let adjacency = super::convert::adjacency(adjacency)?;
    let segments = history(&noise_multiplier, &sample_rate, &steps)?;
    ask_all(py, &epsilon, &segments, &group_size, adjacency, Run::delta)
}

#[pyfunction]
pub(super) fn noise_multiplier_of_runs<'py>(
    py: Python<'py>,
    epsilon: PyReadonlyArray1<'py, f64>,
    delta: PyReadonlyArray1<'py, f64>,
    sample_rate: PyReadonlyArray1<'py, f64>,
    steps: PyReadonlyArray1<'py, i64>,
    group_size: PyReadonlyArray1<'py, i64>,
    adjacency: &str,
) -> PyResult<Vector<'py>> {
    let adjacency = super::convert::adjacency(adjacency)?;
    let (epsilons, deltas) = (vector(&epsilon), vector(&delta));
    let (rates, steps, sizes) = (vector(&sample_rate), vector(&steps), vector(&group_size));
    require_lengths(epsilons.len(), &[deltas.len(), rates.len(), steps.len(), sizes.len()])?;
    answer_all(py, epsilons.len(), |i| {
        run::noise_multiplier_for(
            epsilons[i],
            deltas[i],
            rates[i],
            count("steps", steps[i])?,
            count("group_size", sizes[i])?,
            adjacency,
        )
    })
}
