//! The words that Python passes for the choices of an argument, and the types that they stand for.

use crate::curve::routes::Route;
use crate::error::Error;
use crate::renyi::{Conversion, GroupBound};
use crate::step::{Adjacency, Direction};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The unknown of a question.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unknown {
    Epsilon,
    Delta,
    NoiseMultiplier,
    SampleRate,
    Steps,
    GroupSize,
}

/// Reads words of an argument into a type: a table of both, and the words as an error lists them.
macro_rules! words {
    ($type:ty, $argument:literal, $allowed:literal, $($word:literal => $value:expr),+ $(,)?) => {
        impl<'a, 'py> FromPyObject<'a, 'py> for $type {
            type Error = PyErr;

            fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                match value.cast::<PyString>()?.to_str()? {
                    $($word => Ok($value),)+
                    other => Err(Error::out_of_range($argument, other, $allowed).into()),
                }
            }
        }
    };
}

words!(Adjacency, "adjacency", "\"add_remove\", \"add\", \"remove\" or \"replace\"",
    "add_remove" => Self::AddRemove,
    "add" => Self::Add,
    "remove" => Self::Remove,
    "replace" => Self::Replace,
);

words!(Direction, "direction", "\"add\" or \"remove\"",
    "add" => Self::Add,
    "remove" => Self::Remove,
);

words!(GroupBound, "bound", "\"exact\", \"jensen\", \"black_box\" or \"lower\"",
    "exact" => Self::Exact,
    "jensen" => Self::Jensen,
    "black_box" => Self::BlackBox,
    "lower" => Self::Lower,
);

words!(Conversion, "conversion", "\"canonne\" or \"optimal\"",
    "canonne" => Self::Canonne,
    "optimal" => Self::Optimal,
);

words!(Route, "route", "\"one_step\", \"inversion\", \"split_inversion\", \"grid\" or \"renyi\"",
    "one_step" => Self::OneStep,
    "inversion" => Self::Inversion,
    "split_inversion" => Self::SplitInversion,
    "grid" => Self::Grid,
    "renyi" => Self::Renyi,
);

words!(Unknown, "unknown", "the name of an argument",
    "epsilon" => Self::Epsilon,
    "delta" => Self::Delta,
    "noise_multiplier" => Self::NoiseMultiplier,
    "sample_rate" => Self::SampleRate,
    "steps" => Self::Steps,
    "group_size" => Self::GroupSize,
);

words!(crate::shuffle::EpochSampling, "sampling", "\"shuffle\" or \"without_replacement\"",
    "shuffle" => Self::Shuffling,
    "without_replacement" => Self::Subsampling,
);

words!(crate::shuffle::RecordChange, "adjacency", "\"zero_out\" or \"replace\"",
    "zero_out" => Self::ZeroOut,
    "replace" => Self::Replace,
);
