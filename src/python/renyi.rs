//! Rényi group privacy of single steps, and the noise that reaches a target.

use crate::error::Error;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArrayDyn};
use crate::python::convert::{count, entries, vector};
use crate::python::monitor::{unless_cancelled, watched};
use crate::python::vocabulary::{MechanismClass, questions};
use crate::renyi::{
    Conversion, DpTarget, GroupBound, NoiseSearch, StepBound, calibrate, calibrate_dp, require_orders,
};
use crate::step::{Mechanism, Step};
use crate::stopping::carried;
use crate::threads::in_pool;
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

type Vector<'py> = Bound<'py, PyArray1<f64>>;

/// One bound an element: flat arrays of orders, sample rates and group sizes.
#[pyfunction]
pub(crate) fn group_rdp<'py>(
    py: Python<'py>,
    mechanism: Mechanism,
    orders: PyReadonlyArray1<'py, f64>,
    sample_rates: PyReadonlyArray1<'py, f64>,
    group_sizes: PyReadonlyArray1<'py, i64>,
    bound: GroupBound,
) -> PyResult<Vector<'py>> {
    let (orders, rates, sizes) = (vector(&orders), vector(&sample_rates), vector(&group_sizes));
    questions([orders.len(), rates.len(), sizes.len()].map(Some))?;
    let found = watched(py, None, move |monitor| {
        mechanism.check()?;
        require_orders(&orders)?;
        // Elements with one rate and size share their preparation.
        let mut settings: FxHashMap<(u64, i64), Vec<usize>> = FxHashMap::default();
        for i in 0..orders.len() {
            settings.entry((rates[i].to_bits(), sizes[i])).or_default().push(i);
        }
        let mut settings: Vec<Vec<usize>> = settings.into_values().collect();
        settings.sort_unstable();
        let answer = |elements: &Vec<usize>| -> Result<Vec<(usize, f64)>, Error> {
            let first = elements[0];
            let size = count("group_size", sizes[first])?;
            let mut step = StepBound::new(&Step::poisson(mechanism, rates[first], size), bound)?;
            let each = elements.iter().map(|&i| {
                unless_cancelled(monitor)?;
                Ok((i, step.worst(orders[i])?))
            });
            each.collect()
        };
        let answer = carried(answer);
        let parts: Result<Vec<Vec<(usize, f64)>>, Error> = in_pool(|| settings.par_iter().map(answer).collect());
        let mut values = vec![0.0; orders.len()];
        for (i, value) in parts?.into_iter().flatten() {
            values[i] = value;
        }
        Ok(values)
    })?;
    Ok(found.to_pyarray(py))
}

/// Sample rates, steps, group sizes: what runs share, one element a run.
type RunArrays<'py> = (
    PyReadonlyArray1<'py, f64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
);

/// Solves for the noise of every run, in parallel.
fn calibrated<'py>(
    py: Python<'py>,
    (rates, steps, sizes): &RunArrays<'py>,
    targets: [usize; 2],
    mechanism: Mechanism,
    bound: GroupBound,
    solve: impl Fn(usize, &NoiseSearch) -> Result<f64, Error> + Sync + Send + 'static,
) -> PyResult<Vector<'py>> {
    let (rates, steps, sizes) = (vector(rates), vector(steps), vector(sizes));
    questions([rates.len(), steps.len(), sizes.len(), targets[0], targets[1]].map(Some))?;
    let found = watched(py, None, move |monitor| {
        let answer = |i: usize| {
            unless_cancelled(monitor)?;
            let run = NoiseSearch {
                count: count("steps", steps[i])?,
                step: Step::poisson(mechanism, rates[i], count("group_size", sizes[i])?),
                bound,
            };
            solve(i, &run)
        };
        let answer = carried(answer);
        in_pool(|| {
            (0..rates.len())
                .into_par_iter()
                .map(answer)
                .collect::<Result<Vec<f64>, Error>>()
        })
    })?;
    Ok(found.to_pyarray(py))
}

#[pyfunction]
pub(crate) fn renyi_calibrate<'py>(
    py: Python<'py>,
    mechanism: MechanismClass,
    sensitivity: i64,
    order: PyReadonlyArray1<'py, f64>,
    tau: PyReadonlyArray1<'py, f64>,
    runs: RunArrays<'py>,
    bound: GroupBound,
) -> PyResult<Vector<'py>> {
    let mechanism = mechanism.with_unknown_parameter(sensitivity)?;
    let (orders, taus) = (vector(&order), vector(&tau));
    calibrated(
        py,
        &runs,
        [orders.len(), taus.len()],
        mechanism,
        bound,
        move |i, run| calibrate(run, orders[i], taus[i]),
    )
}

#[pyfunction]
pub(crate) fn renyi_calibrate_dp<'py>(
    py: Python<'py>,
    mechanism: MechanismClass,
    sensitivity: i64,
    epsilon: PyReadonlyArray1<'py, f64>,
    delta: PyReadonlyArray1<'py, f64>,
    orders: Option<PyReadonlyArrayDyn<'py, f64>>,
    runs: RunArrays<'py>,
    bound: GroupBound,
    conversion: Conversion,
) -> PyResult<Vector<'py>> {
    let mechanism = mechanism.with_unknown_parameter(sensitivity)?;
    let (epsilons, deltas) = (vector(&epsilon), vector(&delta));
    let orders = orders.map_or_else(Vec::new, |orders| entries(&orders));
    calibrated(
        py,
        &runs,
        [epsilons.len(), deltas.len()],
        mechanism,
        bound,
        move |i, run| {
            let target = DpTarget {
                epsilon: epsilons[i],
                delta: deltas[i],
                conversion,
            };
            calibrate_dp(run, target, &orders)
        },
    )
}
