//! The nouns that Python passes, one parser each.
//!
//! Nouns are objects of the public classes: a mechanism (`hs.Laplace`), a sampling scheme (`hs.WithoutReplacement`), a group
//! (`hs.Group`). Each may be given by its main number instead: a noise multiplier of Gaussian noise, a rate of Poisson samples, a
//! number of records; or, where many questions are asked at once, by an array with one such number for each. A segment of a run is
//! `(noise, draw, group, steps)`, here as everywhere.

use crate::error::{Error, Result};
use crate::python::arrays::PyReadonlyArray1;
use crate::python::convert::{count, vector};
use crate::step::group::listable;
use crate::step::{Adjacency, Group, Mechanism, Sampling, Step};
use numpy::{Element, PyUntypedArray};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyType};

/// A public class of hockeystick, imported when it is first asked for.
struct Class {
    module: &'static str,
    name: &'static str,
    class: PyOnceLock<Py<PyType>>,
}

impl Class {
    const fn new(module: &'static str, name: &'static str) -> Self {
        let class = PyOnceLock::new();
        Self { module, name, class }
    }

    fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyType>> {
        self.class.import(py, self.module, self.name)
    }

    /// Whether `value` is an object of the class.
    fn has(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        value.is_instance(self.get(value.py())?)
    }
}

static GAUSSIAN: Class = Class::new("hockeystick._vocabulary.mechanisms", "Gaussian");
static ADAPTIVE_CLIPPING: Class = Class::new("hockeystick._vocabulary.mechanisms", "AdaptiveClipping");
static LAPLACE: Class = Class::new("hockeystick._vocabulary.mechanisms", "Laplace");
static SKELLAM: Class = Class::new("hockeystick._vocabulary.mechanisms", "Skellam");
static RANDOMIZED_RESPONSE: Class = Class::new("hockeystick._vocabulary.mechanisms", "RandomizedResponse");
static POISSON: Class = Class::new("hockeystick._vocabulary.sampling", "Poisson");
static WITHOUT_REPLACEMENT: Class = Class::new("hockeystick._vocabulary.sampling", "WithoutReplacement");
static FULL_BATCH: Class = Class::new("hockeystick._vocabulary.sampling", "FullBatch");
static RANDOM_ALLOCATION: Class = Class::new("hockeystick._vocabulary.allocation", "RandomAllocation");
static FIXED_BINS: Class = Class::new("hockeystick._vocabulary.allocation", "FixedBins");
static MIXTURE: Class = Class::new("hockeystick._vocabulary.sampling", "Mixture");
static GROUP: Class = Class::new("hockeystick._vocabulary.groups", "Group");

fn wrong_type(noun: &str, allowed: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let found = value
        .get_type()
        .name()
        .map_or_else(|_| "?".into(), |name| name.to_string());
    PyTypeError::new_err(format!("{noun} must be {allowed}, got {found}"))
}

/// Reads a mechanism.
impl<'a, 'py> FromPyObject<'a, 'py> for Mechanism {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        if GAUSSIAN.has(&value)? {
            let noise_multiplier = value.getattr(intern!(py, "noise_multiplier"))?.extract()?;
            return Ok(Self::Gaussian { noise_multiplier });
        }
        if ADAPTIVE_CLIPPING.has(&value)? {
            // The sum and the count are one Gaussian query.
            let noise_multiplier = value.getattr(intern!(py, "joint_noise_multiplier"))?.extract()?;
            return Ok(Self::Gaussian { noise_multiplier });
        }
        if LAPLACE.has(&value)? {
            let scale = value.getattr(intern!(py, "scale"))?.extract()?;
            return Ok(Self::Laplace { scale });
        }
        if SKELLAM.has(&value)? {
            return Ok(Self::Skellam {
                variance: value.getattr(intern!(py, "variance"))?.extract()?,
                sensitivity: count("sensitivity", value.getattr(intern!(py, "sensitivity"))?.extract()?)?,
            });
        }
        if RANDOMIZED_RESPONSE.has(&value)? {
            let keep = value.getattr(intern!(py, "p"))?.extract()?;
            return Ok(Self::RandomizedResponse { keep });
        }
        Err(wrong_type(
            "mechanism",
            "a Gaussian, Laplace, Skellam or RandomizedResponse",
            &value,
        ))
    }
}

/// A mechanism by its class, whose parameter is to be found.
pub(crate) struct MechanismClass(Bare);

enum Bare {
    Gaussian,
    Laplace,
    Skellam,
    RandomizedResponse,
}

impl MechanismClass {
    /// A mechanism of the class whose parameter is NaN; the sensitivity is that of Skellam noise.
    pub(crate) fn with_unknown_parameter(&self, sensitivity: i64) -> Result<Mechanism> {
        let unknown = f64::NAN;
        Ok(match self.0 {
            Bare::Gaussian => Mechanism::Gaussian {
                noise_multiplier: unknown,
            },
            Bare::Laplace => Mechanism::Laplace { scale: unknown },
            Bare::Skellam => Mechanism::Skellam {
                variance: unknown,
                sensitivity: count("sensitivity", sensitivity)?,
            },
            Bare::RandomizedResponse => Mechanism::RandomizedResponse { keep: unknown },
        })
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for MechanismClass {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        for (class, bare) in [
            (&GAUSSIAN, Bare::Gaussian),
            (&LAPLACE, Bare::Laplace),
            (&SKELLAM, Bare::Skellam),
            (&RANDOMIZED_RESPONSE, Bare::RandomizedResponse),
        ] {
            if value.is(class.get(value.py())?) {
                return Ok(Self(bare));
            }
        }
        Err(wrong_type(
            "mechanism",
            "Gaussian, Laplace, Skellam or RandomizedResponse, the class itself",
            &value,
        ))
    }
}

/// Reads a group of records: a number of records of which nothing more is known, or a `Group`.
impl<'a, 'py> FromPyObject<'a, 'py> for Group {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        if !GROUP.has(&value)? {
            return Err(wrong_type("group", "a Group or a number of records", &value));
        }
        let size = count("group_size", value.getattr(intern!(py, "size"))?.extract()?)?;
        let rates: Option<Vec<f64>> = value.getattr(intern!(py, "rates"))?.extract()?;
        let norms: Option<Vec<f64>> = value.getattr(intern!(py, "norms"))?.extract()?;
        let cosine: f64 = value.getattr(intern!(py, "cosine"))?.extract()?;
        let norms = match norms {
            None if cosine == 0.0 && size > 1 => Some(vec![1.0; listable(size)?]),
            given => given,
        };
        Ok(Self {
            size,
            rates,
            norms,
            cosine,
        })
    }
}

/// A number for every question: one for all of them, or one for each.
pub(crate) enum Numbers<T> {
    /// For all.
    All(T),
    /// For each. Copied, as a computation that Ctrl-C leaves behind may outlive what it was asked with.
    Each(Vec<T>),
}

impl<T: Copy> Numbers<T> {
    /// The number for question i.
    pub(crate) fn at(&self, i: usize) -> T {
        match self {
            Self::All(value) => *value,
            Self::Each(values) => values[i],
        }
    }

    /// Their number, where each question has its own.
    pub(crate) fn length(&self) -> Option<usize> {
        match self {
            Self::All(_) => None,
            Self::Each(values) => Some(values.len()),
        }
    }
}

impl<'a, 'py, T: Element + Copy + FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Numbers<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if value.cast::<PyUntypedArray>().is_ok() {
            return Ok(Self::Each(vector(&PyReadonlyArray1::<T>::extract(value)?)));
        }
        Ok(Self::All(T::extract(value).map_err(Into::into)?))
    }
}

/// Whether `value` is a number or an array, which stands for a noun by its main number.
fn is_numeric(value: Borrowed<'_, '_, PyAny>) -> bool {
    value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>() || value.cast::<PyUntypedArray>().is_ok()
}

/// The number of questions: 1 where no argument is an array.
pub(crate) fn questions(lengths: impl IntoIterator<Item = Option<usize>>) -> Result<usize> {
    let mut given = lengths.into_iter().flatten();
    let first = given.next().unwrap_or(1);
    if given.all(|length| length == first) {
        Ok(first)
    } else {
        Err(Error::Mismatch("all arguments must have one length".into()))
    }
}

/// The mechanism of each question.
pub(crate) enum Noise {
    /// Gaussian noise, by its multipliers.
    Gaussian(Numbers<f64>),
    /// One mechanism.
    Mechanism(Mechanism),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Noise {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if is_numeric(value) {
            return Ok(Self::Gaussian(Numbers::extract(value)?));
        }
        Ok(Self::Mechanism(Mechanism::extract(value)?))
    }
}

/// The sampling of each question.
pub(crate) enum Draw {
    /// Poisson samples, by their rates.
    Poisson(Numbers<f64>),
    /// Several Poisson samples of one rate, added up before noise.
    Microbatches { sample_rate: f64, batches: u64 },
    /// Poisson samples that are cut to a largest size.
    Truncated {
        sample_rate: f64,
        max_batch_size: u64,
        dataset_size: u64,
    },
    /// A fixed number without replacement.
    FixedBatch { batch_size: u64, dataset_size: u64 },
    /// All records.
    FullBatch,
    /// One of the batches of an epoch, drawn afresh in each, or once.
    Allocated(Sampling),
    /// The law itself.
    Mixture { weights: Vec<f64>, shifts: Vec<f64> },
}

impl<'a, 'py> FromPyObject<'a, 'py> for Draw {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        if is_numeric(value) {
            return Ok(Self::Poisson(Numbers::extract(value)?));
        }
        if POISSON.has(&value)? {
            let sample_rate = value.getattr(intern!(py, "sample_rate"))?.extract()?;
            let (largest, dataset) = (intern!(py, "max_batch_size"), intern!(py, "dataset_size"));
            if let Some(largest) = value.getattr(largest)?.extract()? {
                return Ok(Self::Truncated {
                    sample_rate,
                    max_batch_size: count("max_batch_size", largest)?,
                    dataset_size: count("dataset_size", value.getattr(dataset)?.extract()?)?,
                });
            }
            return Ok(Self::Microbatches {
                sample_rate,
                batches: count("microbatches", value.getattr(intern!(py, "microbatches"))?.extract()?)?,
            });
        }
        if WITHOUT_REPLACEMENT.has(&value)? {
            let (batch, dataset) = (intern!(py, "batch_size"), intern!(py, "dataset_size"));
            return Ok(Self::FixedBatch {
                batch_size: count("batch_size", value.getattr(batch)?.extract()?)?,
                dataset_size: count("dataset_size", value.getattr(dataset)?.extract()?)?,
            });
        }
        if FULL_BATCH.has(&value)? {
            return Ok(Self::FullBatch);
        }
        let batches =
            || -> PyResult<u64> { Ok(count("batches", value.getattr(intern!(py, "batches"))?.extract()?)?) };
        if RANDOM_ALLOCATION.has(&value)? {
            let times = count("times", value.getattr(intern!(py, "times"))?.extract()?)?;
            return Ok(Self::Allocated(Sampling::RandomAllocation {
                batches: batches()?,
                times,
            }));
        }
        if FIXED_BINS.has(&value)? {
            return Ok(Self::Allocated(Sampling::FixedBins { batches: batches()? }));
        }
        if MIXTURE.has(&value)? {
            return Ok(Self::Mixture {
                weights: value.getattr(intern!(py, "weights"))?.extract()?,
                shifts: value.getattr(intern!(py, "shifts"))?.extract()?,
            });
        }
        Err(wrong_type(
            "sampling",
            "a Poisson, WithoutReplacement or FullBatch, or sample rates",
            &value,
        ))
    }
}

/// Whose records change in each question.
pub(crate) enum Members {
    /// So many records of which nothing more is known.
    Alike(Numbers<i64>),
    /// One group.
    Group(Group),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Members {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if is_numeric(value) {
            return Ok(Self::Alike(Numbers::extract(value)?));
        }
        Ok(Self::Group(Group::extract(value)?))
    }
}

/// The step of each question: `(noise, draw, group)`.
pub(crate) struct Steps {
    pub(crate) noise: Noise,
    pub(crate) draw: Draw,
    pub(crate) group: Members,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Steps {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let (noise, draw, group) = value.extract()?;
        Ok(Self { noise, draw, group })
    }
}

impl Steps {
    /// How many numbers each of the three has, where questions have their own.
    pub(crate) fn lengths(&self) -> [Option<usize>; 3] {
        let noise = match &self.noise {
            Noise::Gaussian(multipliers) => multipliers.length(),
            Noise::Mechanism(_) => None,
        };
        let draw = match &self.draw {
            Draw::Poisson(rates) => rates.length(),
            _ => None,
        };
        let group = match &self.group {
            Members::Alike(sizes) => sizes.length(),
            Members::Group(_) => None,
        };
        [noise, draw, group]
    }

    /// The step of question i.
    pub(crate) fn step(&self, i: usize, adjacency: Adjacency) -> Result<Step> {
        let group = match &self.group {
            Members::Alike(sizes) => Group::of(count("group_size", sizes.at(i))?),
            Members::Group(group) => group.clone(),
        };
        self.step_of(i, group, adjacency)
    }

    /// The step of question i for one record, and how many records in one batch the group is, if each of its members is as many as
    /// there are batches under one noise.
    pub(crate) fn step_of_one_record(&self, i: usize, adjacency: Adjacency) -> Result<(Step, u64)> {
        let (Members::Alike(sizes), batches) = (&self.group, self.microbatches()) else {
            return Err(Error::Mismatch(
                "nothing is known of a group from one of its members where these differ".into(),
            ));
        };
        let records = count("group_size", sizes.at(i))?.saturating_mul(batches);
        let mut step = self.step_of(i, Group::of(1), adjacency)?;
        step.group = Group::of(1);
        Ok((step, records))
    }

    fn microbatches(&self) -> u64 {
        match self.draw {
            Draw::Microbatches { batches, .. } => batches,
            _ => 1,
        }
    }

    fn step_of(&self, i: usize, mut group: Group, adjacency: Adjacency) -> Result<Step> {
        let mechanism = match &self.noise {
            Noise::Gaussian(multipliers) => Mechanism::Gaussian {
                noise_multiplier: multipliers.at(i),
            },
            Noise::Mechanism(mechanism) => *mechanism,
        };
        let sampling = match &self.draw {
            Draw::Poisson(rates) => Sampling::Poisson {
                sample_rate: rates.at(i),
            },
            Draw::Microbatches { sample_rate, batches } => {
                group = group.in_batches(*batches)?;
                Sampling::Poisson {
                    sample_rate: *sample_rate,
                }
            }
            Draw::Truncated {
                sample_rate,
                max_batch_size,
                dataset_size,
            } => Sampling::TruncatedPoisson {
                sample_rate: *sample_rate,
                max_batch_size: *max_batch_size,
                dataset_size: *dataset_size,
            },
            Draw::FixedBatch {
                batch_size,
                dataset_size,
            } => Sampling::FixedBatch {
                batch_size: *batch_size,
                dataset_size: *dataset_size,
            },
            // All members are in every batch; other records do not matter.
            Draw::FullBatch if adjacency == Adjacency::Replace => Sampling::FixedBatch {
                batch_size: group.size,
                dataset_size: group.size,
            },
            Draw::FullBatch => Sampling::Poisson { sample_rate: 1.0 },
            Draw::Allocated(sampling) => *sampling,
            Draw::Mixture { weights, shifts } => {
                group.rates = Some(weights.clone());
                group.norms = Some(shifts.clone());
                Sampling::Mixture
            }
        };
        Ok(Step {
            mechanism,
            sampling,
            group,
        })
    }
}

/// Equal steps of a run: `(noise, draw, group, steps)`.
pub(crate) struct Segment {
    step: Steps,
    count: u64,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Segment {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let (noise, draw, group, steps) = value.extract()?;
        let step = Steps { noise, draw, group };
        if step.lengths().iter().any(Option::is_some) {
            let message = "a segment has one noise, one way to draw batches and one group, not an array of them";
            return Err(Error::Mismatch(message.into()).into());
        }
        let count = count("steps", steps)?;
        Ok(Self { step, count })
    }
}

impl Segment {
    /// Its step, and how often it is taken.
    pub(crate) fn under(&self, adjacency: Adjacency) -> Result<(Step, u64)> {
        Ok((self.step.step(0, adjacency)?, self.count))
    }
}

/// The steps of a run.
pub(crate) fn run_of(segments: &[Segment], adjacency: Adjacency) -> Result<Vec<(Step, u64)>> {
    segments.iter().map(|segment| segment.under(adjacency)).collect()
}
