//! The exact engine: many configurations in parallel, or one composition that answers many questions.

use crate::curve::composition::Bound as Proven;
use crate::curve::composition::Composition as Curve;
use crate::curve::mixed_directions::Part;
use crate::curve::planning::{Bracket, Target};
use crate::curve::routes::Route;
use crate::curve::{black_box, planning};
use crate::error::{Error, Result, require_epsilon};
use crate::interval::Interval;
use crate::locks::Renewable;
use crate::python::arrays::PyReadonlyArrayDyn;
use crate::python::convert::{count, entries, guarded};
use crate::python::monitor::{on_this_thread, unless_cancelled, watched};
use crate::python::vocabulary::{Numbers, Segment, Steps, questions, run_of};
use crate::python::words::Unknown;
use crate::step::{Adjacency, Sampling, Step};
use crate::stopping::carried;
use crate::threads::in_pool;
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;
use rayon::prelude::*;
use std::cell::Cell;
use std::sync::Arc;

type Vector<'py> = Bound<'py, PyArray1<f64>>;
type Pair<'py> = (Vector<'py>, Vector<'py>);
/// Lower ends, upper ends, and whether a search ended with the two too far apart.
type Solved<'py> = (Vector<'py>, Vector<'py>, Bound<'py, PyArray1<bool>>);

/// Answers question number 0..length, in parallel; the answers do not depend on their neighbours.
pub(crate) fn answer_all<T: Send + 'static>(
    py: Python<'_>,
    length: usize,
    answer: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
) -> PyResult<Vec<T>> {
    if length == 1 {
        return on_this_thread(py, move || answer(0).map(|found| vec![found]));
    }
    watched(py, None, move |monitor| {
        let one = carried(|i| unless_cancelled(monitor).and_then(|()| guarded(|| answer(i))));
        in_pool(|| (0..length).into_par_iter().with_max_len(1).map(one).collect())
    })
}

fn columns(py: Python<'_>, pairs: Vec<(f64, f64)>) -> Pair<'_> {
    let (lower, upper): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    (lower.to_pyarray(py), upper.to_pyarray(py))
}

/// Bounds on the unknown of every question, and whether a search ended with the two further apart than was asked for.
#[pyfunction]
pub(crate) fn solve<'py>(
    py: Python<'py>,
    unknown: Unknown,
    step: Steps,
    steps: Numbers<i64>,
    adjacency: Adjacency,
    epsilon: Numbers<f64>,
    delta: Numbers<f64>,
    tolerance: f64,
) -> PyResult<Solved<'py>> {
    let [noise, draw, group] = step.lengths();
    let length = questions([noise, draw, group, steps.length(), epsilon.length(), delta.length()])?;
    let above = |bracket: Bracket| (bracket.unsafe_side, bracket.safe, bracket.wide);
    let below = |bracket: Bracket| (bracket.safe, bracket.unsafe_side, bracket.wide);
    let answer = move |i: usize| -> Result<(f64, f64, bool)> {
        let target = || Target {
            epsilon: epsilon.at(i),
            delta: delta.at(i),
            tolerance,
        };
        let count = || count("steps", steps.at(i));
        let run = || Curve::new(&[(step.step(i, adjacency)?, count()?)], adjacency);
        match unknown {
            Unknown::Epsilon => {
                let found = run()?.epsilon(delta.at(i), tolerance)?;
                Ok((found.lower, found.upper, false))
            }
            Unknown::Delta => {
                let epsilon = epsilon.at(i);
                require_epsilon(epsilon)?;
                let found = run()?.delta(epsilon, tolerance)?;
                Ok((found.lower(), found.upper(), false))
            }
            Unknown::NoiseMultiplier => {
                planning::noise_multiplier(&step.step(i, adjacency)?, count()?, adjacency, target()).map(above)
            }
            Unknown::SampleRate => {
                planning::sample_rate(&step.step(i, adjacency)?, count()?, adjacency, target()).map(below)
            }
            Unknown::Steps => planning::steps(&step.step(i, adjacency)?, adjacency, target()).map(below),
            Unknown::GroupSize => {
                planning::group_size(&step.step(i, adjacency)?, count()?, adjacency, target()).map(below)
            }
        }
    };
    let mut ends = Vec::with_capacity(length);
    let mut wide = Vec::with_capacity(length);
    for (lower, upper, is_wide) in answer_all(py, length, answer)? {
        ends.push((lower, upper));
        wide.push(is_wide);
    }
    let (lower, upper) = columns(py, ends);
    Ok((lower, upper, wide.to_pyarray(py)))
}

/// The step of one record at the end of a chain of data sets, each with one of `records` less, where batches have a fixed size: it
/// is drawn from the smallest data set, of which a batch is the largest part.
fn worst_link(step: &mut Step, records: u64) {
    if let Sampling::FixedBatch {
        batch_size,
        dataset_size,
    } = &mut step.sampling
    {
        *dataset_size = dataset_size.saturating_sub(records.saturating_sub(1));
        *batch_size = (*batch_size).min(*dataset_size);
    }
}

/// Upper bounds on ε of groups from the curve of one record alone.
#[pyfunction]
pub(crate) fn black_box_epsilon<'py>(
    py: Python<'py>,
    step: Steps,
    steps: Numbers<i64>,
    adjacency: Adjacency,
    delta: Numbers<f64>,
    tolerance: f64,
) -> PyResult<Vector<'py>> {
    by_black_box(py, (step, steps, adjacency), delta, move |one, records, delta| {
        black_box::epsilon(one, records, delta, tolerance)
    })
}

/// Upper bounds on δ of groups from the curve of one record alone.
#[pyfunction]
pub(crate) fn black_box_delta<'py>(
    py: Python<'py>,
    step: Steps,
    steps: Numbers<i64>,
    adjacency: Adjacency,
    epsilon: Numbers<f64>,
    tolerance: f64,
) -> PyResult<Vector<'py>> {
    by_black_box(py, (step, steps, adjacency), epsilon, move |one, records, epsilon| {
        black_box::delta(one, records, epsilon, tolerance)
    })
}

/// Answers a question about groups of several runs from the curves of one record: the curve, the size of the group, and where.
fn by_black_box<'py>(
    py: Python<'py>,
    (step, steps, adjacency): (Steps, Numbers<i64>, Adjacency),
    at: Numbers<f64>,
    question: impl Fn(&mut Curve, u64, f64) -> Result<f64> + Send + Sync + 'static,
) -> PyResult<Vector<'py>> {
    let [noise, draw, group] = step.lengths();
    let length = questions([noise, draw, group, steps.length(), at.length()])?;
    let answer = move |i: usize| -> Result<f64> {
        let (mut one, records) = step.step_of_one_record(i, adjacency)?;
        if adjacency != Adjacency::Replace {
            worst_link(&mut one, records);
        }
        let mut curve = Curve::new(&[(one, count("steps", steps.at(i))?)], adjacency)?;
        question(&mut curve, records, at.at(i))
    };
    Ok(answer_all(py, length, answer)?.to_pyarray(py))
}

/// A composition of steps; what is computed for one question serves the next.
#[pyclass(frozen, module = "hockeystick._core")]
pub(crate) struct Composition {
    engine: Arc<Engine>,
    tolerance: f64,
}

/// The engine of a composition, and what it is made of: a forked process may need another, and so does the question after one
/// that was stopped.
struct Engine {
    /// One, unless parts are seen under relations of their own.
    parts: Vec<Part>,
    is_merged: bool,
    curve: Renewable<Curve>,
}

impl Engine {
    /// The curve, made anew.
    fn made(&self) -> Result<Curve> {
        let [(steps, adjacency)] = self.parts.as_slice() else {
            return Curve::of_parts(&self.parts);
        };
        if self.is_merged
            && let Some(curve) = Curve::merged(steps, *adjacency)?
        {
            return Ok(curve);
        }
        Curve::new(steps, *adjacency)
    }

    /// Lets `ask` have the curve; the lock is taken without the GIL and outside the pool.
    fn with_curve<T>(&self, ask: impl FnOnce(&mut Curve) -> Result<T>) -> Result<T> {
        let _holding = Holding::begin();
        self.curve.with(|| self.made(), ask)
    }

    /// Lets `ask` have the curve where no other thread has it; else nothing.
    fn try_with_curve<T>(&self, ask: impl FnOnce(&mut Curve) -> Result<T>) -> Result<Option<T>> {
        let _holding = Holding::begin();
        self.curve.try_with(|| self.made(), ask)
    }
}

thread_local! {
    /// Whether this thread has a curve, or waits for one.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// While it exists, the thread has a curve or waits for one.
///
/// The handler of a signal may ask meanwhile, on the same thread, for this curve or another. The thread cannot give back a lock before the handler
/// has ended: so the handler's questions are nested, and each makes a curve of its own.
struct Holding;

impl Holding {
    fn begin() -> Self {
        HOLDS.set(true);
        Self
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        HOLDS.set(false);
    }
}

impl Composition {
    fn holding(engine: Engine, tolerance: f64) -> Self {
        Self {
            engine: Arc::new(engine),
            tolerance,
        }
    }

    /// Asks every question in turn.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        questions: Vec<f64>,
        question: impl Fn(&mut Curve, f64) -> Result<T> + Send + Sync + 'static,
    ) -> PyResult<Vec<T>> {
        let (engine, question) = (Arc::clone(&self.engine), Arc::new(question));
        let is_nested = HOLDS.get();
        if let &[asked] = questions.as_slice()
            && !is_nested
        {
            let (engine, question) = (Arc::clone(&engine), Arc::clone(&question));
            let found = on_this_thread(py, move || engine.try_with_curve(|curve| question(curve, asked)))?;
            if let Some(found) = found {
                return Ok(vec![found]);
            }
        }
        // Where another thread has the curve, this one answers signals while it waits.
        watched(py, None, move |monitor| {
            let all = |curve: &mut Curve| {
                let answer = |asked: f64| {
                    unless_cancelled(monitor)?;
                    question(curve, asked)
                };
                questions.into_iter().map(answer).collect()
            };
            if is_nested {
                all(&mut engine.made()?)
            } else {
                engine.with_curve(all)
            }
        })
    }
}

#[pymethods]
impl Composition {
    #[new]
    fn new(py: Python<'_>, segments: Vec<Segment>, adjacency: Adjacency, tolerance: f64) -> PyResult<Self> {
        let engine = on_this_thread(py, move || {
            let steps = run_of(&segments, adjacency)?;
            let curve = Renewable::holding(Curve::new(&steps, adjacency)?);
            Ok(Engine {
                parts: vec![(steps, adjacency)],
                is_merged: false,
                curve,
            })
        })?;
        Ok(Self::holding(engine, tolerance))
    }

    /// The composition of parts that are seen under relations of their own.
    #[staticmethod]
    fn of_parts(py: Python<'_>, parts: Vec<(Vec<Segment>, Adjacency)>, tolerance: f64) -> PyResult<Self> {
        let engine = on_this_thread(py, move || {
            let made = |(segments, adjacency): &(Vec<Segment>, Adjacency)| {
                Ok((run_of(segments, *adjacency)?, *adjacency))
            };
            let parts: Vec<Part> = parts.iter().map(made).collect::<Result<_>>()?;
            let curve = Renewable::holding(Curve::of_parts(&parts)?);
            Ok(Engine {
                parts,
                is_merged: false,
                curve,
            })
        })?;
        Ok(Self::holding(engine, tolerance))
    }

    /// The composition of very many different steps, by a few hundred of them; None where they do not belong to noise schedules.
    #[staticmethod]
    fn merged(
        py: Python<'_>,
        segments: Vec<Segment>,
        adjacency: Adjacency,
        tolerance: f64,
    ) -> PyResult<Option<Self>> {
        let found = watched(py, None, move |_| {
            let steps = run_of(&segments, adjacency)?;
            let Some(curve) = Curve::merged(&steps, adjacency)? else {
                return Ok(None);
            };
            Ok(Some(Engine {
                parts: vec![(steps, adjacency)],
                is_merged: true,
                curve: Renewable::holding(curve),
            }))
        })?;
        Ok(found.map(|engine| Self::holding(engine, tolerance)))
    }

    fn delta<'py>(&self, py: Python<'py>, epsilon: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Pair<'py>> {
        let tolerance = self.tolerance;
        let found = self.ask(py, entries(&epsilon), move |curve, epsilon| {
            require_epsilon(epsilon)?;
            curve.delta(epsilon, tolerance)
        })?;
        Ok(columns(py, found.into_iter().map(|d| (d.lower(), d.upper())).collect()))
    }

    fn epsilon<'py>(&self, py: Python<'py>, delta: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Pair<'py>> {
        let tolerance = self.tolerance;
        let found = self.ask(py, entries(&delta), move |curve, delta| curve.epsilon(delta, tolerance))?;
        Ok(columns(py, found.into_iter().map(|e| (e.lower, e.upper)).collect()))
    }

    /// Which bound gives the upper end of ε at each δ, or of δ at each ε: "pair" or "chain".
    fn bound_used(
        &self,
        py: Python<'_>,
        unknown: Unknown,
        at: PyReadonlyArrayDyn<'_, f64>,
    ) -> PyResult<Vec<&'static str>> {
        let tolerance = self.tolerance;
        let found = self.ask(py, entries(&at), move |curve, at| {
            if matches!(unknown, Unknown::Epsilon) {
                return curve.bound_of_epsilon(at, tolerance);
            }
            require_epsilon(at)?;
            curve.bound_of_delta(at, tolerance)
        })?;
        let word = |bound: Proven| match bound {
            Proven::Pair => "pair",
            Proven::Chain => "chain",
        };
        Ok(found.into_iter().map(word).collect())
    }

    fn beta<'py>(&self, py: Python<'py>, alpha: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Vector<'py>> {
        let tolerance = self.tolerance;
        let found = self.ask(py, entries(&alpha), move |curve, alpha| curve.beta(alpha, tolerance))?;
        Ok(found.to_pyarray(py))
    }

    fn renyi<'py>(&self, py: Python<'py>, order: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Vector<'py>> {
        let found = self.ask(py, entries(&order), Curve::renyi)?;
        Ok(found.to_pyarray(py))
    }

    fn max_loss(&self, py: Python<'_>) -> PyResult<f64> {
        let found = self.ask(py, vec![0.0], |curve, _| Ok(curve.largest_loss()))?;
        Ok(found.into_iter().fold(0.0, f64::max))
    }

    fn delta_by<'py>(
        &self,
        py: Python<'py>,
        route: Route,
        epsilon: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Pair<'py>> {
        let tolerance = self.tolerance;
        let found = self.ask(py, entries(&epsilon), move |curve, epsilon| {
            curve.delta_by(route, epsilon, tolerance)
        })?;
        Ok(columns(py, found.into_iter().map(|d| (d.lower(), d.upper())).collect()))
    }
}

/// Both ends of the intervals between certified lower and upper bounds on the same numbers, found by different runs: those that cross
/// contradict each other, which is an error, unless it is by the last bits.
#[pyfunction]
pub(crate) fn meet_bounds<'py>(
    py: Python<'py>,
    lower: PyReadonlyArrayDyn<'py, f64>,
    upper: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Pair<'py>> {
    let (lower, upper) = (entries(&lower), entries(&upper));
    if lower.len() != upper.len() {
        return Err(Error::Mismatch("lower and upper must have one length".into()).into());
    }
    let met = lower.into_iter().zip(upper).map(|(lower, upper)| {
        let found = Interval::of_bounds(lower, upper)?;
        Ok((found.lower, found.upper))
    });
    Ok(columns(py, met.collect::<Result<Vec<_>>>()?))
}
