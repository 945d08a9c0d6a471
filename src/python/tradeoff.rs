//! Trade-off functions.

use crate::error::Result;
use crate::interval::Interval;
use crate::python::arrays::{PyReadonlyArray1, PyReadonlyArrayDyn};
use crate::python::convert::{count, entries, guarded, vector};
use crate::python::monitor::{unless_cancelled, watched};
use crate::python::vocabulary::{Segment, run_of};
use crate::shuffle::{EpochRun, EpochSampling, MembershipLaw, PatternLaw};
use crate::step::Adjacency;
use crate::stopping::carried;
use crate::threads::in_pool;
use crate::tradeoff::PublicMixture;
use crate::tradeoff::SplitBound;
use crate::tradeoff::TradeoffCurve as Curve;
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;
use rayon::prelude::*;

type Vector<'py> = Bound<'py, PyArray1<f64>>;
type Pair<'py> = (Vector<'py>, Vector<'py>);

/// A trade-off function.
#[pyclass(frozen, module = "hockeystick._core")]
pub(crate) struct TradeoffCurve(Curve);

impl TradeoffCurve {
    /// Makes a curve without the GIL.
    fn made(py: Python<'_>, make: impl FnOnce() -> Result<Curve> + Send + 'static) -> PyResult<Self> {
        Ok(Self(watched(py, None, |_| make())?))
    }

    /// Asks every question: in parallel, or one after the other where all would wait for one engine.
    fn ask<'py>(
        &self,
        py: Python<'py>,
        questions: &PyReadonlyArrayDyn<'py, f64>,
        question: impl Fn(&Curve, f64) -> Result<Interval> + Send + Sync + 'static,
    ) -> PyResult<Pair<'py>> {
        let (curve, asked) = (self.0.clone(), entries(questions));
        let (lower, upper): (Vec<f64>, Vec<f64>) = watched(py, None, move |monitor| {
            let answer = |&asked: &f64| {
                unless_cancelled(monitor)?;
                let found = guarded(|| question(&curve, asked))?;
                Ok((found.lower, found.upper))
            };
            let answers: Result<Vec<(f64, f64)>> = if curve.needs_engine() {
                asked.iter().map(answer).collect()
            } else {
                let answer = carried(answer);
                in_pool(|| asked.par_iter().map(answer).collect())
            };
            Ok(answers?.into_iter().unzip())
        })?;
        Ok((lower.to_pyarray(py), upper.to_pyarray(py)))
    }
}

#[pymethods]
impl TradeoffCurve {
    #[staticmethod]
    fn gaussian(py: Python<'_>, mu: f64) -> PyResult<Self> {
        Self::made(py, move || Curve::gaussian(mu))
    }

    #[staticmethod]
    fn laplace(py: Python<'_>, mu: f64) -> PyResult<Self> {
        Self::made(py, move || Curve::laplace(mu))
    }

    #[staticmethod]
    fn epsilon_delta(py: Python<'_>, epsilon: f64, delta: f64) -> PyResult<Self> {
        Self::made(py, move || Curve::epsilon_delta(epsilon, delta))
    }

    #[staticmethod]
    fn points<'py>(
        py: Python<'py>,
        alpha: PyReadonlyArray1<'py, f64>,
        beta: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Self> {
        let (alpha, beta) = (vector(&alpha), vector(&beta));
        Self::made(py, move || Curve::points(&alpha, &beta))
    }

    #[staticmethod]
    fn of_steps(py: Python<'_>, segments: Vec<Segment>, adjacency: Adjacency) -> PyResult<Self> {
        Self::made(py, move || Curve::of_steps(&run_of(&segments, adjacency)?, adjacency))
    }

    #[staticmethod]
    fn mixture<'py>(
        py: Python<'py>,
        distances: PyReadonlyArray1<'py, f64>,
        probabilities: PyReadonlyArray1<'py, f64>,
        left_out: f64,
        rounding: f64,
        widest: f64,
    ) -> PyResult<Self> {
        let mixture = PublicMixture {
            distances: vector(&distances),
            log_weights: vector(&probabilities).iter().map(|weight| weight.ln()).collect(),
            left_out,
            rounding,
            widest,
        };
        Self::made(py, move || Curve::mixture(mixture))
    }

    #[staticmethod]
    fn split(py: Python<'_>, is_upper: bool, tail: f64, distance: f64) -> PyResult<Self> {
        Self::made(py, move || {
            Curve::split(SplitBound {
                is_upper,
                tail,
                distance,
            })
        })
    }

    fn subsample(&self, py: Python<'_>, p: f64) -> PyResult<Self> {
        let curve = self.0.clone();
        Self::made(py, move || curve.subsample(p))
    }

    fn group(&self, py: Python<'_>, k: i64) -> PyResult<Self> {
        let curve = self.0.clone();
        Self::made(py, move || curve.group(count("k", k)?))
    }

    fn compose(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let (curve, other) = (self.0.clone(), other.0.clone());
        Self::made(py, move || curve.compose(&other))
    }

    fn repeat(&self, py: Python<'_>, times: i64) -> PyResult<Self> {
        let curve = self.0.clone();
        Self::made(py, move || curve.repeat(count("times", times)?))
    }

    fn inverse(&self, py: Python<'_>) -> PyResult<Self> {
        let curve = self.0.clone();
        Self::made(py, move || curve.inverse())
    }

    fn symmetrize(&self, py: Python<'_>) -> PyResult<Self> {
        let curve = self.0.clone();
        Self::made(py, move || curve.symmetrize())
    }

    fn minimum(&self, other: &Self) -> PyResult<Self> {
        Ok(guarded(|| Ok(Self(self.0.minimum(&other.0))))?)
    }

    fn maximum(&self, other: &Self) -> PyResult<Self> {
        Ok(guarded(|| Ok(Self(self.0.maximum(&other.0))))?)
    }

    fn is_symmetric(&self) -> PyResult<bool> {
        Ok(guarded(|| Ok(self.0.is_symmetric()))?)
    }

    fn beta<'py>(&self, py: Python<'py>, alpha: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Pair<'py>> {
        self.ask(py, &alpha, Curve::beta)
    }

    fn delta<'py>(&self, py: Python<'py>, epsilon: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Pair<'py>> {
        self.ask(py, &epsilon, Curve::delta_of_epsilon)
    }

    fn epsilon<'py>(&self, py: Python<'py>, delta: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Pair<'py>> {
        self.ask(py, &delta, Curve::epsilon_of_delta)
    }

    fn attack_success<'py>(&self, py: Python<'py>, prior: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Pair<'py>> {
        self.ask(py, &prior, Curve::attack_success)
    }

    fn worst_case_probability<'py>(
        &self,
        py: Python<'py>,
        p: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Pair<'py>> {
        self.ask(py, &p, Curve::worst_case_probability)
    }

    fn mu(&self, py: Python<'_>, regret: f64) -> PyResult<f64> {
        let curve = self.0.clone();
        watched(py, None, move |_| curve.mu(regret))
    }
}

/// The batches of some epochs, from the sizes of the data set, a batch, its units and the group.
fn epoch_run(sampling: EpochSampling, sizes: [i64; 4], epochs: i64) -> Result<EpochRun> {
    let [dataset_size, batch_size, units_per_batch, group_size] = sizes;
    Ok(EpochRun {
        sampling,
        dataset_size: count("dataset_size", dataset_size)?,
        batch_size: count("batch_size", batch_size)?,
        units_per_batch: count("units_per_batch", units_per_batch)?,
        group_size: count("group_size", group_size)?,
        epochs: count("epochs", epochs)?,
    })
}

/// c², its probabilities, a bound on what is left out and one on relative rounding.
type Law<'py> = (Bound<'py, PyArray1<i64>>, Vector<'py>, f64, f64);

#[pyfunction]
pub(crate) fn membership_law<'py>(
    py: Python<'py>,
    sampling: EpochSampling,
    dataset_size: i64,
    batch_size: i64,
    units_per_batch: i64,
    group_size: i64,
    epochs: i64,
    rounds: i64,
) -> PyResult<Law<'py>> {
    let law = watched(py, None, move |_| {
        let rounds = u64::try_from(rounds).unwrap_or(0);
        let sizes = [dataset_size, batch_size, units_per_batch, group_size];
        let run = epoch_run(sampling, sizes, epochs.max(1))?;
        match (epochs, rounds) {
            (0, rounds) => MembershipLaw::of_rounds(&run, rounds),
            (_, 0) => MembershipLaw::of(&run),
            (_, rounds) => MembershipLaw::of(&run)?.and(&MembershipLaw::of_rounds(&run, rounds)?),
        }
    })?;
    let squares: Vec<i64> = law.squares.iter().map(|&square| square as i64).collect();
    Ok((
        squares.to_pyarray(py),
        law.probabilities.to_pyarray(py),
        law.left_out,
        law.rounding,
    ))
}

/// T_1, T_2, … of every pattern, one pattern after the other; their number; probabilities, what is left out, and rounding.
type Patterns<'py> = (Bound<'py, PyArray1<i64>>, usize, Vector<'py>, f64, f64);

#[pyfunction]
pub(crate) fn pattern_law<'py>(
    py: Python<'py>,
    sampling: EpochSampling,
    dataset_size: i64,
    batch_size: i64,
    units_per_batch: i64,
    group_size: i64,
    epochs: i64,
    rounds: i64,
    largest: i64,
) -> PyResult<Patterns<'py>> {
    let law = watched(py, None, move |_| {
        let run = epoch_run(sampling, [dataset_size, batch_size, units_per_batch, group_size], 1)?;
        let (epochs, rounds) = (count("epochs", epochs)?, count("rounds", rounds)?);
        PatternLaw::of(&run, epochs, rounds, count("largest", largest)? as usize)
    })?;
    let tails: Vec<i64> = law.tails.iter().flatten().map(|&tail| tail as i64).collect();
    Ok((
        tails.to_pyarray(py),
        law.tails.len(),
        law.probabilities.to_pyarray(py),
        law.left_out,
        law.rounding,
    ))
}
