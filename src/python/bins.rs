//! Random bins with correlated noise.

use crate::bins::ChainRun;
use crate::error::{Error, Result};
use crate::interval::Interval;
use crate::python::arrays::PyReadonlyArray1;
use crate::python::convert::{count, guarded, vector};
use crate::python::monitor::watched;
use crate::python::words::Unknown;
use crate::step::{Adjacency, Direction};
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;

/// Both ends of the interval of every question.
type Ends<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// Certified bounds on ε at δ, or on δ at ε, of one run of E epochs of b bins; `at` is what is given. The coefficients of the noise are
/// c, cα, cαλ, cαλ², ..., and `coefficients` is (α, λ); `noise_multiplier` is that of a step over c. `ceiling` has an upper bound on each ε.
#[pyfunction]
pub(crate) fn correlated_bins_interval<'py>(
    py: Python<'py>,
    unknown: Unknown,
    sampling: (i64, i64),
    coefficients: (f64, f64),
    noise_multiplier: f64,
    adjacency: Adjacency,
    at: PyReadonlyArray1<'py, f64>,
    ceiling: PyReadonlyArray1<'py, f64>,
) -> PyResult<Ends<'py>> {
    let (at, ceiling) = (vector(&at), vector(&ceiling));
    let directions = match adjacency {
        Adjacency::AddRemove => vec![Direction::Remove, Direction::Add],
        Adjacency::Add => vec![Direction::Add],
        Adjacency::Remove => vec![Direction::Remove],
        Adjacency::Replace => {
            let allowed = "\"add_remove\", \"add\" or \"remove\" with random bins";
            return Err(Error::out_of_range("adjacency", "replace", allowed).into());
        }
    };
    let index = |argument, value: i64| -> Result<usize> {
        usize::try_from(count(argument, value)?)
            .map_err(|_| Error::out_of_range(argument, value, "a smaller number"))
    };
    let run = ChainRun {
        bins: index("batches", sampling.0)?,
        epochs: index("epochs", sampling.1)?,
        first: coefficients.0,
        decay: coefficients.1,
        noise: noise_multiplier,
    };
    if at.len() != ceiling.len() {
        return Err(
            Error::Mismatch(format!("ceiling must have {} values, got {}", at.len(), ceiling.len())).into(),
        );
    }
    let answer = move || -> Result<Vec<Interval>> {
        let mut curve = run.curve()?;
        let mut answer = |at: f64, ceiling: f64| match unknown {
            Unknown::Epsilon => curve.epsilon(at, ceiling, &directions),
            _ => curve.delta(at, &directions),
        };
        at.iter()
            .zip(&ceiling)
            .map(|(at, ceiling)| answer(*at, *ceiling))
            .collect()
    };
    let found = watched(py, None, move |_| guarded(answer))?;
    let (lower, upper): (Vec<f64>, Vec<f64>) = found.into_iter().map(|ends| (ends.lower, ends.upper)).unzip();
    Ok((lower.to_pyarray(py), upper.to_pyarray(py)))
}
