//! Rényi group privacy of single steps, and the noise that reaches a target.

use crate::error::Error;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArrayDyn};
use crate::python::convert::{count, entries, vector};
use crate::python::monitor::{unless_cancelled, watched};
use crate::python::vocabulary::{Draw, MechanismClass, Members, Noise, Steps, questions};
use crate::renyi::{
    Conversion, DpTarget, GroupBound, NoiseSearch, StepBound, calibrate, calibrate_dp, require_orders,
};
use crate::step::{Adjacency, Mechanism};
use crate::stopping::carried;
use crate::threads::in_pool;
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

type Vector<'py> = Bound<'py, PyArray1<f64>>;

/// One bound an element: flat arrays of orders, and of sample rates and group sizes where the step has several.
#[pyfunction]
pub(crate) fn group_rdp<'py>(
    py: Python<'py>,
    step: Steps,
    orders: PyReadonlyArray1<'py, f64>,
    bound: GroupBound,
    adjacency: Adjacency,
) -> PyResult<Vector<'py>> {
    let orders = vector(&orders);
    let [noise, draw, group] = step.lengths();
    questions([noise, draw, group, Some(orders.len())])?;
    let found = watched(py, None, move |monitor| {
        require_orders(&orders)?;
        // Elements with one rate and size share their preparation.
        let mut settings: FxHashMap<(u64, i64), Vec<usize>> = FxHashMap::default();
        for i in 0..orders.len() {
            settings.entry(setting(&step, i)).or_default().push(i);
        }
        let mut settings: Vec<Vec<usize>> = settings.into_values().collect();
        settings.sort_unstable();
        let answer = |elements: &Vec<usize>| -> Result<Vec<(usize, f64)>, Error> {
            let mut step = StepBound::new(&step.step(elements[0], adjacency)?, bound, adjacency)?;
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

/// The numbers in which the steps of two questions may differ.
fn setting(step: &Steps, i: usize) -> (u64, i64) {
    let rate = match &step.draw {
        Draw::Poisson(rates) => rates.at(i).to_bits(),
        _ => 0,
    };
    let size = match &step.group {
        Members::Alike(sizes) => sizes.at(i),
        Members::Group(_) => 0,
    };
    (rate, size)
}

/// The sampling, the numbers of steps and the adjacency of runs: one for all of them, or one for each.
type Runs<'py> = (Draw, PyReadonlyArray1<'py, i64>, Members);

/// Solves for the noise of every run, in parallel.
fn calibrated<'py>(
    py: Python<'py>,
    (draw, steps, group): Runs<'py>,
    targets: [usize; 2],
    mechanism: Mechanism,
    (bound, adjacency): (GroupBound, Adjacency),
    solve: impl Fn(usize, &NoiseSearch) -> Result<f64, Error> + Sync + Send + 'static,
) -> PyResult<Vector<'py>> {
    let steps = vector(&steps);
    let noise = Noise::Mechanism(mechanism);
    let step = Steps { noise, draw, group };
    let [_, draws, groups] = step.lengths();
    let length = questions([draws, groups, Some(steps.len()), Some(targets[0]), Some(targets[1])])?;
    let found = watched(py, None, move |monitor| {
        let answer = |i: usize| {
            unless_cancelled(monitor)?;
            let run = NoiseSearch {
                count: count("steps", steps[i])?,
                step: step.step(i, adjacency)?,
                bound,
                adjacency,
            };
            solve(i, &run)
        };
        let answer = carried(answer);
        in_pool(|| {
            (0..length)
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
    runs: Runs<'py>,
    bound: GroupBound,
    adjacency: Adjacency,
) -> PyResult<Vector<'py>> {
    let mechanism = mechanism.with_unknown_parameter(sensitivity)?;
    let (orders, taus) = (vector(&order), vector(&tau));
    calibrated(
        py,
        runs,
        [orders.len(), taus.len()],
        mechanism,
        (bound, adjacency),
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
    runs: Runs<'py>,
    bound: GroupBound,
    adjacency: Adjacency,
    conversion: Conversion,
) -> PyResult<Vector<'py>> {
    let mechanism = mechanism.with_unknown_parameter(sensitivity)?;
    let (epsilons, deltas) = (vector(&epsilon), vector(&delta));
    let orders = orders.map_or_else(Vec::new, |orders| entries(&orders));
    calibrated(
        py,
        runs,
        [epsilons.len(), deltas.len()],
        mechanism,
        (bound, adjacency),
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
