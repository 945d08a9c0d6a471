//! The exact engine: many configurations in parallel, or one composition that answers many questions.

use crate::curve::composition::Bound as Proven;
use crate::curve::composition::Composition as Curve;
use crate::curve::planning::{Bracket, Target};
use crate::curve::routes::Route;
use crate::curve::{black_box, planning};
use crate::error::{Error, Result, require_epsilon};
use crate::interval::Enclosure;
use crate::locks::Renewable;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArrayDyn};
use crate::python::convert::{self, count, entries, guarded, vector};
use crate::python::monitor::{unless_cancelled, watched};
use crate::step::{Adjacency, Group, Mechanism, Sampling, Step};
use crate::stopping::carried;
use crate::threads::in_pool;
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;
use rayon::prelude::*;
use std::sync::Arc;

type Vector<'py> = Bound<'py, PyArray1<f64>>;
type Pair<'py> = (Vector<'py>, Vector<'py>);
/// Lower ends, upper ends, and whether a search ended with the two too far apart.
type Solved<'py> = (Vector<'py>, Vector<'py>, Bound<'py, PyArray1<bool>>);

fn mechanism(word: &str, noise: f64) -> Result<Mechanism> {
    match word {
        "gaussian" => Ok(Mechanism::Gaussian {
            noise_multiplier: noise,
        }),
        "laplace" => Ok(Mechanism::Laplace { scale: noise }),
        "randomized_response" => Ok(Mechanism::RandomizedResponse { keep: noise }),
        _ => Err(Error::out_of_range(
            "mechanism",
            word,
            "\"gaussian\", \"laplace\" or \"randomized_response\"",
        )),
    }
}

fn sampling(word: &str, sample_rate: f64, batch_size: i64, dataset_size: i64) -> Result<Sampling> {
    match word {
        "poisson" => Ok(Sampling::Poisson { sample_rate }),
        "fixed_batch" => Ok(Sampling::FixedBatch {
            batch_size: count("batch_size", batch_size)?,
            dataset_size: count("dataset_size", dataset_size)?,
        }),
        "mixture" => Ok(Sampling::Mixture),
        _ => Err(Error::out_of_range(
            "sampling",
            word,
            "\"poisson\", \"fixed_batch\" or \"mixture\"",
        )),
    }
}

/// The columns of a broadcast call.
struct Table {
    mechanism: String,
    noise: Vec<f64>,
    sampling: String,
    sample_rate: Vec<f64>,
    batch_size: Vec<i64>,
    dataset_size: Vec<i64>,
    steps: Vec<i64>,
    group_size: Vec<i64>,
    group: Group,
}

impl Table {
    fn check(&self, others: &[usize]) -> Result<usize> {
        let length = self.noise.len();
        let own = [
            self.sample_rate.len(),
            self.batch_size.len(),
            self.dataset_size.len(),
            self.steps.len(),
            self.group_size.len(),
        ];
        if own.iter().chain(others).all(|&other| other == length) {
            Ok(length)
        } else {
            Err(Error::Mismatch("all arguments must have one length".into()))
        }
    }

    fn scheme(&self, i: usize) -> Result<Step> {
        Ok(Step {
            mechanism: mechanism(&self.mechanism, self.noise[i])?,
            sampling: sampling(
                &self.sampling,
                self.sample_rate[i],
                self.batch_size[i],
                self.dataset_size[i],
            )?,
            group: Group {
                size: count("group_size", self.group_size[i])?,
                ..self.group.clone()
            },
        })
    }
}

/// Answers question number 0..length, in parallel; the answers do not depend on their neighbours.
fn answer_all<T: Send + 'static>(
    py: Python<'_>,
    length: usize,
    answer: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
) -> PyResult<Vec<T>> {
    watched(py, None, move |monitor| {
        let one = carried(|i| unless_cancelled(monitor).and_then(|()| guarded(|| answer(i))));
        in_pool(|| (0..length).into_par_iter().with_max_len(1).map(one).collect())
    })
}

fn columns(py: Python<'_>, pairs: Vec<(f64, f64)>) -> Pair<'_> {
    let (lower, upper): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    (lower.to_pyarray(py), upper.to_pyarray(py))
}

#[pyfunction]
pub(crate) fn solve<'py>(
    py: Python<'py>,
    unknown: &str,
    adjacency: &str,
    mechanism: &str,
    noise: PyReadonlyArray1<'py, f64>,
    sampling: &str,
    sample_rate: PyReadonlyArray1<'py, f64>,
    batch_size: PyReadonlyArray1<'py, i64>,
    dataset_size: PyReadonlyArray1<'py, i64>,
    steps: PyReadonlyArray1<'py, i64>,
    group_size: PyReadonlyArray1<'py, i64>,
    rates: Option<PyReadonlyArray1<'py, f64>>,
    norms: Option<PyReadonlyArray1<'py, f64>>,
    orthogonal: bool,
    epsilon: PyReadonlyArray1<'py, f64>,
    delta: PyReadonlyArray1<'py, f64>,
    tolerance: f64,
) -> PyResult<Solved<'py>> {
    let table = Table {
        mechanism: mechanism.into(),
        noise: vector(&noise),
        sampling: sampling.into(),
        sample_rate: vector(&sample_rate),
        batch_size: vector(&batch_size),
        dataset_size: vector(&dataset_size),
        steps: vector(&steps),
        group_size: vector(&group_size),
        group: Group {
            size: 1,
            rates: rates.map(|rates| vector(&rates)),
            norms: norms.map(|norms| vector(&norms)),
            orthogonal,
        },
    };
    let adjacency = convert::adjacency(adjacency)?;
    let (epsilons, deltas) = (vector(&epsilon), vector(&delta));
    let length = table.check(&[epsilons.len(), deltas.len()])?;
    let unknown = unknown.to_owned();
    let above = |bracket: Bracket| (bracket.unsafe_side, bracket.safe, bracket.wide);
    let below = |bracket: Bracket| (bracket.safe, bracket.unsafe_side, bracket.wide);
    let answer = move |i: usize| -> Result<(f64, f64, bool)> {
        let target = |i: usize| Target {
            epsilon: epsilons[i],
            delta: deltas[i],
            tolerance,
        };
        let run = |i: usize| Curve::new(&[(table.scheme(i)?, count("steps", table.steps[i])?)], adjacency);
        let steps_of = |i: usize| count("steps", table.steps[i]);
        match unknown.as_str() {
            "epsilon" => {
                let found = run(i)?.epsilon(deltas[i], tolerance)?;
                Ok((found.lower, found.upper, false))
            }
            "delta" => {
                let epsilon = epsilons[i];
                require_epsilon(epsilon)?;
                let found = run(i)?.delta(epsilon, tolerance)?;
                Ok((found.lower(), found.upper(), false))
            }
            "noise_multiplier" => {
                let scheme = Step {
                    mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
                    ..table.scheme(i)?
                };
                planning::noise_multiplier(&scheme, steps_of(i)?, adjacency, target(i)).map(above)
            }
            "sample_rate" => {
                planning::sample_rate(&table.scheme(i)?, steps_of(i)?, adjacency, target(i)).map(below)
            }
            "steps" => planning::steps(&table.scheme(i)?, adjacency, target(i)).map(below),
            "group_size" => planning::group_size(&table.scheme(i)?, steps_of(i)?, adjacency, target(i)).map(below),
            _ => Err(Error::out_of_range("unknown", &unknown, "the name of an argument")),
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

#[pyfunction]
pub(crate) fn black_box_epsilon<'py>(
    py: Python<'py>,
    adjacency: &str,
    mechanism: &str,
    noise: PyReadonlyArray1<'py, f64>,
    sampling: &str,
    sample_rate: PyReadonlyArray1<'py, f64>,
    batch_size: PyReadonlyArray1<'py, i64>,
    dataset_size: PyReadonlyArray1<'py, i64>,
    steps: PyReadonlyArray1<'py, i64>,
    group_size: PyReadonlyArray1<'py, i64>,
    delta: PyReadonlyArray1<'py, f64>,
    tolerance: f64,
) -> PyResult<Vector<'py>> {
    let table = Table {
        mechanism: mechanism.into(),
        noise: vector(&noise),
        sampling: sampling.into(),
        sample_rate: vector(&sample_rate),
        batch_size: vector(&batch_size),
        dataset_size: vector(&dataset_size),
        steps: vector(&steps),
        group_size: vector(&group_size),
        group: Group::of(1),
    };
    let adjacency = convert::adjacency(adjacency)?;
    let deltas = vector(&delta);
    let length = table.check(&[deltas.len()])?;
    let answer = move |i: usize| -> Result<f64> {
        let scheme = Step {
            group: Group::of(1),
            ..table.scheme(i)?
        };
        let mut one = Curve::new(&[(scheme, count("steps", table.steps[i])?)], adjacency)?;
        black_box::epsilon(
            &mut one,
            count("group_size", table.group_size[i])?,
            deltas[i],
            tolerance,
        )
    };
    Ok(answer_all(py, length, answer)?.to_pyarray(py))
}

pub(crate) type SegmentTuple = (
    String,
    f64,
    String,
    f64,
    i64,
    i64,
    i64,
    Option<Vec<f64>>,
    Option<Vec<f64>>,
    bool,
    i64,
);

/// The steps that segments stand for.
pub(crate) fn steps_of(segments: Vec<SegmentTuple>) -> Result<Vec<(Step, u64)>> {
    let of = |segment: SegmentTuple| -> Result<(Step, u64)> {
        let (word, noise, drawn, rate, batch, dataset, size, rates, norms, orthogonal, steps) = segment;
        let scheme = Step {
            mechanism: mechanism(&word, noise)?,
            sampling: sampling(&drawn, rate, batch, dataset)?,
            group: Group {
                size: count("group_size", size)?,
                rates,
                norms,
                orthogonal,
            },
        };
        Ok((scheme, count("steps", steps)?))
    };
    segments.into_iter().map(of).collect()
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
    steps: Vec<(Step, u64)>,
    adjacency: Adjacency,
    curve: Renewable<Curve>,
}

impl Composition {
    /// Asks every question in turn; the lock is taken without the GIL and outside the pool.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        questions: Vec<f64>,
        question: impl Fn(&mut Curve, f64) -> Result<T> + Send + 'static,
    ) -> PyResult<Vec<T>> {
        let engine = Arc::clone(&self.engine);
        watched(py, None, move |monitor| {
            let make = || Curve::new(&engine.steps, engine.adjacency);
            engine.curve.with(make, |curve| {
                let answer = |asked: f64| {
                    unless_cancelled(monitor)?;
                    question(curve, asked)
                };
                questions.into_iter().map(answer).collect()
            })
        })
    }
}

#[pymethods]
impl Composition {
    #[new]
    fn new(py: Python<'_>, segments: Vec<SegmentTuple>, adjacency: &str, tolerance: f64) -> PyResult<Self> {
        let adjacency = convert::adjacency(adjacency)?;
        let engine = watched(py, None, move |_| {
            let steps = steps_of(segments)?;
            let curve = Renewable::holding(Curve::new(&steps, adjacency)?);
            Ok(Engine {
                steps,
                adjacency,
                curve,
            })
        })?;
        Ok(Self {
            engine: Arc::new(engine),
            tolerance,
        })
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
        unknown: &str,
        at: PyReadonlyArrayDyn<'_, f64>,
    ) -> PyResult<Vec<&'static str>> {
        let tolerance = self.tolerance;
        let of_epsilon = unknown == "epsilon";
        let found = self.ask(py, entries(&at), move |curve, at| {
            if of_epsilon {
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

    fn most_loss(&self, py: Python<'_>) -> PyResult<f64> {
        let found = self.ask(py, vec![0.0], |curve, _| Ok(curve.largest_loss()))?;
        Ok(found.into_iter().fold(0.0, f64::max))
    }

    fn delta_by<'py>(
        &self,
        py: Python<'py>,
        route: &str,
        epsilon: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Pair<'py>> {
        let route = match route {
            "one_step" => Route::OneStep,
            "inversion" => Route::Inversion,
            "split_inversion" => Route::SplitInversion,
            "grid" => Route::Grid,
            "renyi" => Route::Renyi,
            _ => {
                let allowed = "\"one_step\", \"inversion\", \"split_inversion\", \"grid\" or \"renyi\"";
                return Err(Error::out_of_range("route", route, allowed).into());
            }
        };
        let tolerance = self.tolerance;
        let found = self.ask(py, entries(&epsilon), move |curve, epsilon| {
            curve.delta_by(route, epsilon, tolerance)
        })?;
        Ok(columns(py, found.into_iter().map(|d| (d.lower(), d.upper())).collect()))
    }
}

/// What two pairs of bounds on log δ allow together; how tests see that a contradiction reaches Python.
#[pyfunction]
pub(crate) fn meet_bounds(one: (f64, f64), other: (f64, f64)) -> Result<(f64, f64)> {
    let met = Enclosure::of_logs(one.0, one.1)
        .meet(Enclosure::of_logs(other.0, other.1))
        .certified()?;
    Ok((met.log_lower, met.log_upper))
}
