//! The kernels behind `hockeystick.kernels`.

use crate::error::Error;
use crate::loss::MixturePair;
use crate::monitor::Monitor;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn};
use crate::python::convert::{count, entries, guarded, law, vector};
use crate::python::monitor::{unless_cancelled, watched, watched_views};
use crate::python::vocabulary::{Segment as RunSegment, run_of};
use crate::renyi;
use crate::renyi::{Conversion, Guarantee};
use crate::simulation;
use crate::simulation::{Segment, Settings};
use crate::step::{Adjacency, Direction, GroupLaw};
use crate::stopping::carried;
use crate::threads::in_pool;
use numpy::ndarray::{ArrayView1, ArrayViewD};
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, ToPyArray};
use pyo3::prelude::*;
use rayon::prelude::*;
use std::sync::Arc;

type Array<'py> = Bound<'py, PyArrayDyn<f64>>;
type Vector<'py> = Bound<'py, PyArray1<f64>>;

/// Points evaluated by one task of `log_likelihood_ratio`.
const POINTS_PER_TASK: usize = 256;

/// Gives `values` the shape of `like`.
fn shaped<'py>(py: Python<'py>, values: &[f64], like: &[usize]) -> PyResult<Array<'py>> {
    values.to_pyarray(py).reshape(like)
}

/// Laws as rows of two tables, of log weights and of shifts, whose leading axes have the shape `leading`. Rows of laws with fewer counts
/// than the longest one end with counts of probability 0 and shift 0.
fn law_tables<'py>(py: Python<'py>, laws: &[GroupLaw], leading: &[usize]) -> PyResult<(Array<'py>, Array<'py>)> {
    let longest = laws.iter().map(|law| law.shifts().len()).max().unwrap_or(0);
    let mut log_weights = vec![f64::NEG_INFINITY; laws.len() * longest];
    let mut shifts = vec![0.0; laws.len() * longest];
    let rows = log_weights
        .chunks_mut(longest.max(1))
        .zip(shifts.chunks_mut(longest.max(1)));
    for ((log_weights, shifts), law) in rows.zip(laws) {
        let counts = law.shifts().len();
        log_weights[..counts].copy_from_slice(law.log_weights());
        shifts[..counts].copy_from_slice(law.shifts());
    }
    let shape = [leading, &[longest]].concat();
    Ok((shaped(py, &log_weights, &shape)?, shaped(py, &shifts, &shape)?))
}

/// Arguments of laws must have one shape.
fn require_one_shape(shapes: &[&[usize]]) -> Result<(), Error> {
    if shapes.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(());
    }
    Err(Error::Mismatch(format!(
        "all arguments must have one shape, got {shapes:?}"
    )))
}

/// The law of each question; a single one is answered here, which takes less than to start a thread for it.
fn laws_of<T: Send + Sync + 'static>(
    py: Python<'_>,
    questions: Vec<T>,
    law: impl Fn(&T) -> Result<GroupLaw, Error> + Send + Sync + 'static,
) -> PyResult<Vec<GroupLaw>> {
    if let [question] = questions.as_slice() {
        return Ok(vec![py.detach(|| guarded(|| law(question)))?]);
    }
    watched(py, None, move |monitor| {
        let answer = carried(|question: &T| {
            unless_cancelled(monitor)?;
            law(question)
        });
        in_pool(|| questions.par_iter().map(answer).collect())
    })
}

#[pyfunction]
pub(crate) fn binomial_law<'py>(
    py: Python<'py>,
    group_size: PyReadonlyArrayDyn<'py, i64>,
    sample_rate: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<(Array<'py>, Array<'py>)> {
    let (sizes, rates) = (group_size.as_array(), sample_rate.as_array());
    require_one_shape(&[sizes.shape(), rates.shape()])?;
    let questions: Vec<(i64, f64)> = sizes.iter().copied().zip(rates.iter().copied()).collect();
    let laws = laws_of(py, questions, |&(size, rate)| {
        GroupLaw::binomial(count("group_size", size)?, rate)
    })?;
    law_tables(py, &laws, sizes.shape())
}

#[pyfunction]
pub(crate) fn poisson_binomial_law<'py>(
    py: Python<'py>,
    rates: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<(Array<'py>, Array<'py>)> {
    let table = rates.as_array();
    let Some((_, leading)) = table.shape().split_last() else {
        return Err(Error::Mismatch("rates must have at least one dimension".into()).into());
    };
    let rows: Vec<Vec<f64>> = table.rows().into_iter().map(|row| row.to_vec()).collect();
    // Ten thousand different rates take a second: a single law must be interruptible too.
    let laws = watched(py, None, move |monitor| {
        let answer = carried(|row: &Vec<f64>| {
            unless_cancelled(monitor)?;
            GroupLaw::poisson_binomial(row)
        });
        in_pool(|| rows.par_iter().map(answer).collect::<Result<Vec<_>, Error>>())
    })?;
    law_tables(py, &laws, leading)
}

#[pyfunction]
pub(crate) fn hypergeometric_law<'py>(
    py: Python<'py>,
    group_size: PyReadonlyArrayDyn<'py, i64>,
    batch_size: PyReadonlyArrayDyn<'py, i64>,
    dataset_size: PyReadonlyArrayDyn<'py, i64>,
) -> PyResult<(Array<'py>, Array<'py>)> {
    let [sizes, batches, records] = [&group_size, &batch_size, &dataset_size].map(|array| array.as_array());
    require_one_shape(&[sizes.shape(), batches.shape(), records.shape()])?;
    let drawn = sizes.iter().zip(&batches).zip(&records);
    let questions = drawn
        .map(|((size, batch), records)| [*size, *batch, *records])
        .collect();
    let laws = laws_of(py, questions, |&[size, batch, records]: &[i64; 3]| {
        GroupLaw::hypergeometric(
            count("group_size", size)?,
            count("batch_size", batch)?,
            count("dataset_size", records)?,
        )
    })?;
    law_tables(py, &laws, sizes.shape())
}

/// Entries of an array below which it is copied, which takes less than to start a thread that borrows it (about 30 µs): 128 KiB.
const FEW_ENTRIES: usize = 1 << 14;

/// What `compute` makes of the entries of an array in logical order, which are copied only where they are few or do not lie so.
fn of_entries<T: Send + 'static>(
    py: Python<'_>,
    array: &PyReadonlyArrayDyn<'_, f64>,
    compute: impl FnOnce(&[f64], &dyn Monitor) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let view = array.as_array();
    match view.as_slice() {
        Some(values) if values.len() > FEW_ENTRIES => watched_views(py, |monitor| compute(values, monitor)),
        _ => {
            let values = entries(array);
            watched(py, None, move |monitor| compute(&values, monitor))
        }
    }
}

#[pyfunction]
pub(crate) fn log_likelihood_ratio<'py>(
    py: Python<'py>,
    x: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArray1<'py, f64>,
    shifts: PyReadonlyArray1<'py, f64>,
    noise_multiplier: f64,
    log_space: bool,
) -> PyResult<Array<'py>> {
    let (weights, shifts) = (vector(&weights), vector(&shifts));
    let values = of_entries(py, &x, move |points, monitor| {
        let pair = MixturePair::new(&law(&weights, &shifts, log_space)?, noise_multiplier)?;
        if let Some(bad) = points.iter().find(|point| !(*point / noise_multiplier).is_finite()) {
            return Err(Error::out_of_range(
                "x",
                bad,
                "finite, and so must x / noise_multiplier be",
            ));
        }
        let mut values = vec![0.0; points.len()];
        in_pool(|| {
            values
                .par_chunks_mut(POINTS_PER_TASK)
                .zip(points.par_chunks(POINTS_PER_TASK))
                .try_for_each(|(values, points)| {
                    for (value, &point) in values.iter_mut().zip(points) {
                        *value = pair.log_ratio(point);
                    }
                    unless_cancelled(monitor)
                })
        })?;
        Ok(values)
    })?;
    shaped(py, &values, x.as_array().shape())
}

#[pyfunction]
pub(crate) fn hockey_stick<'py>(
    py: Python<'py>,
    log_ratio: PyReadonlyArrayDyn<'py, f64>,
    epsilon: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Array<'py>> {
    let epsilons = entries(&epsilon);
    let values = of_entries(py, &log_ratio, move |losses, _| {
        simulation::hockey_stick(losses, &epsilons)
    })?;
    shaped(py, &values, epsilon.as_array().shape())
}

/// A segment as Python passes it: weights, shifts, noise multiplier, steps.
type SegmentArrays<'py> = (PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, f64>, f64, i64);

fn segments_of(segments: &[SegmentArrays<'_>], log_space: bool) -> Result<Vec<Segment>, Error> {
    segments
        .iter()
        .map(|(weights, shifts, noise_multiplier, steps)| {
            Ok(Segment {
                law: law(&vector(weights), &vector(shifts), log_space)?,
                noise_multiplier: *noise_multiplier,
                steps: count("steps", *steps)?,
            })
        })
        .collect()
}

#[pyfunction]
pub(crate) fn monte_carlo_delta<'py>(
    py: Python<'py>,
    epsilon: f64,
    segments: Vec<SegmentArrays<'py>>,
    log_space: bool,
    samples: i64,
    direction: Direction,
    tilt: Option<f64>,
    seed: u64,
    confidence: f64,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<(f64, f64, f64)> {
    let settings = Settings {
        samples: count("samples", samples)?,
        direction,
        tilt,
        seed,
        confidence,
    };
    let segments = segments_of(&segments, log_space)?;
    let found = watched(py, progress.as_ref(), move |monitor| {
        simulation::monte_carlo_delta(epsilon, &segments, &settings, monitor)
    })?;
    Ok((found.estimate, found.lower, found.upper))
}

/// δ of a run with dealt batches and Poisson samples, estimated from samples.
#[pyfunction]
pub(crate) fn run_monte_carlo_delta<'py>(
    py: Python<'py>,
    epsilon: f64,
    segments: Vec<RunSegment>,
    samples: i64,
    direction: Direction,
    seed: u64,
    confidence: f64,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<(f64, f64, f64)> {
    let settings = Settings {
        samples: count("samples", samples)?,
        direction,
        tilt: None,
        seed,
        confidence,
    };
    let steps = run_of(&segments, Adjacency::AddRemove)?;
    let found = watched(py, progress.as_ref(), move |monitor| {
        simulation::run_monte_carlo_delta(epsilon, &steps, &settings, monitor)
    })?;
    Ok((found.estimate, found.lower, found.upper))
}

/// A run that several processes draw.
#[pyclass(frozen, module = "hockeystick._core")]
pub(crate) struct Simulation(Arc<simulation::Simulation>);

#[pymethods]
impl Simulation {
    #[new]
    fn new<'py>(
        py: Python<'py>,
        epsilon: f64,
        segments: Vec<SegmentArrays<'py>>,
        log_space: bool,
        samples: i64,
        direction: Direction,
        tilt: Option<f64>,
        seed: u64,
        confidence: f64,
    ) -> PyResult<Self> {
        let settings = Settings {
            samples: count("samples", samples)?,
            direction,
            tilt,
            seed,
            confidence,
        };
        let segments = segments_of(&segments, log_space)?;
        let run = watched(py, None, move |monitor| {
            simulation::Simulation::new(epsilon, &segments, &settings, monitor)
        })?;
        Ok(Self(Arc::new(run)))
    }

    /// Number of tasks.
    fn tasks(&self) -> PyResult<u64> {
        Ok(guarded(|| Ok(self.0.tasks()))?)
    }

    /// Samples of all tasks before this one.
    fn samples_before(&self, task: u64) -> PyResult<u64> {
        Ok(guarded(|| Ok(self.0.samples_before(task)))?)
    }

    /// Sums and sums of squares of the tasks from `first` on and before `end`.
    fn draw<'py>(&self, py: Python<'py>, first: u64, end: u64) -> PyResult<(Vector<'py>, Vector<'py>)> {
        let run = Arc::clone(&self.0);
        let parts = watched(py, None, move |monitor| run.draw(first..end, monitor))?;
        let sums: Vec<f64> = parts.iter().map(|part| part.sum).collect();
        let squares: Vec<f64> = parts.iter().map(|part| part.sum_of_squares).collect();
        Ok((sums.to_pyarray(py), squares.to_pyarray(py)))
    }

    /// (estimate, lower, upper) from the sums over all tasks.
    fn estimate(&self, sum: f64, sum_of_squares: f64) -> PyResult<(f64, f64, f64)> {
        let found = guarded(|| self.0.estimate(sum, sum_of_squares))?;
        Ok((found.estimate, found.lower, found.upper))
    }
}

#[pyfunction]
pub(crate) fn renyi_mixture<'py>(
    py: Python<'py>,
    orders: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArray1<'py, f64>,
    shifts: PyReadonlyArray1<'py, f64>,
    noise_multiplier: f64,
    direction: Direction,
    log_space: bool,
) -> PyResult<Array<'py>> {
    let (values, weights, shifts) = (entries(&orders), vector(&weights), vector(&shifts));
    let divergences = watched(py, None, move |_| {
        let law = law(&weights, &shifts, log_space)?;
        renyi::mixture_divergences(law, noise_multiplier, &values, direction)
    })?;
    shaped(py, &divergences, orders.as_array().shape())
}

#[pyfunction]
pub(crate) fn renyi_group_bound<'py>(
    py: Python<'py>,
    orders: PyReadonlyArray1<'py, f64>,
    component_rdp: PyReadonlyArray2<'py, f64>,
    sample_rate: f64,
) -> PyResult<Vector<'py>> {
    let orders = vector(&orders);
    // Rows are read as they lie, where they lie at all.
    let table = component_rdp.as_array();
    let table = table.as_standard_layout();
    let rows: Vec<&[f64]> = table.rows().into_iter().filter_map(|row| row.to_slice()).collect();
    let bound = watched_views(py, |_| renyi::renyi_group_bound(&orders, &rows, sample_rate))?;
    Ok(bound.to_pyarray(py))
}

/// A conversion of Rényi bounds at some orders, to ε at δ or to δ at ε.
type Convert = fn(&[f64], &[f64], f64, Conversion) -> Result<Guarantee, Error>;

/// Converts each row of `rdp`, its last axis, by one of `targets`: the values and the orders that give them.
fn converted(
    orders: &[f64],
    rdp: &ArrayViewD<'_, f64>,
    targets: &ArrayViewD<'_, f64>,
    convert: impl Fn(&[f64], &[f64], f64) -> Result<Guarantee, Error> + Sync,
    monitor: &dyn Monitor,
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let rows: Vec<ArrayView1<'_, f64>> = rdp.rows().into_iter().collect();
    let targets: Vec<f64> = targets.iter().copied().collect();
    let answer = |(row, &target): (&ArrayView1<'_, f64>, &f64)| {
        unless_cancelled(monitor)?;
        let found = match row.as_slice() {
            Some(row) => convert(orders, row, target)?,
            None => convert(orders, &row.to_vec(), target)?,
        };
        Ok((found.value, found.order))
    };
    let found: Result<Vec<(f64, f64)>, Error> = in_pool(|| rows.par_iter().zip(&targets).map(answer).collect());
    Ok(found?.into_iter().unzip())
}

/// Applies a conversion to the last axis of `rdp`, one `target` (δ or ε) a row; only a small table is copied.
fn convert_rows<'py>(
    py: Python<'py>,
    orders: &PyReadonlyArray1<'py, f64>,
    rdp: &PyReadonlyArrayDyn<'py, f64>,
    targets: &PyReadonlyArrayDyn<'py, f64>,
    conversion: Conversion,
    convert: Convert,
) -> PyResult<(Array<'py>, Array<'py>)> {
    let (orders, table, targets) = (vector(orders), rdp.as_array(), targets.as_array());
    let (shape, leading) = (table.shape().to_vec(), targets.shape().to_vec());
    if shape.last() != Some(&orders.len()) || shape[..shape.len() - 1] != leading[..] {
        return Err(Error::Mismatch(format!(
            "the last axis of rdp must have one entry an order ({}), got shape {shape:?}",
            orders.len()
        ))
        .into());
    }
    let convert = move |orders: &[f64], row: &[f64], target| convert(orders, row, target, conversion);
    let (values, best) = if table.len() > FEW_ENTRIES {
        watched_views(py, |monitor| converted(&orders, &table, &targets, convert, monitor))?
    } else {
        let (table, targets) = (table.to_owned(), targets.to_owned());
        watched(py, None, move |monitor| {
            converted(&orders, &table.view(), &targets.view(), convert, monitor)
        })?
    };
    Ok((shaped(py, &values, &leading)?, shaped(py, &best, &leading)?))
}

#[pyfunction]
pub(crate) fn rdp_to_epsilon<'py>(
    py: Python<'py>,
    orders: PyReadonlyArray1<'py, f64>,
    rdp: PyReadonlyArrayDyn<'py, f64>,
    delta: PyReadonlyArrayDyn<'py, f64>,
    conversion: Conversion,
) -> PyResult<(Array<'py>, Array<'py>)> {
    convert_rows(py, &orders, &rdp, &delta, conversion, renyi::rdp_to_epsilon)
}

#[pyfunction]
pub(crate) fn rdp_to_delta<'py>(
    py: Python<'py>,
    orders: PyReadonlyArray1<'py, f64>,
    rdp: PyReadonlyArrayDyn<'py, f64>,
    epsilon: PyReadonlyArrayDyn<'py, f64>,
    conversion: Conversion,
) -> PyResult<(Array<'py>, Array<'py>)> {
    convert_rows(py, &orders, &rdp, &epsilon, conversion, renyi::rdp_to_delta)
}
