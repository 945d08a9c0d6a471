//! Arrays that Python passes, checked: numpy's own readers of the same names trust what they are given.
//!
//! * Fields of packed records need not lie at multiples of their size, where Rust must not read them: they are copied.
//! * NumPy allows 64 dimensions, the reader of any number of dimensions 32.
//! * An array that another thread is changing in place must not be read: that is an error.

use numpy::ndarray::{Dimension, Ix1, Ix2, IxDyn};
use numpy::{Element, PyArray, PyArrayMethods, PyReadwriteArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ops::Deref;

/// Dimensions that the reader of any number of them takes.
const MOST_DIMENSIONS: usize = 32;

/// An array of known dimensions, aligned, which nobody changes.
pub(crate) struct Readonly<'py, T: Element, D: Dimension>(numpy::PyReadonlyArray<'py, T, D>);

pub(crate) type PyReadonlyArray1<'py, T> = Readonly<'py, T, Ix1>;
pub(crate) type PyReadonlyArray2<'py, T> = Readonly<'py, T, Ix2>;
pub(crate) type PyReadonlyArrayDyn<'py, T> = Readonly<'py, T, IxDyn>;

impl<'py, T: Element, D: Dimension> Deref for Readonly<'py, T, D> {
    type Target = numpy::PyReadonlyArray<'py, T, D>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Whether every element lies where its type must.
fn is_aligned<T: Element, D: Dimension>(array: &Bound<'_, PyArray<T, D>>) -> bool {
    let (address, alignment) = (array.data() as usize, align_of::<T>());
    array.is_empty()
        || (address.is_multiple_of(alignment)
            && array
                .strides()
                .iter()
                .zip(array.shape())
                .all(|(stride, &length)| length == 1 || stride.unsigned_abs().is_multiple_of(alignment)))
}

fn in_use() -> PyErr {
    PyValueError::new_err("an array must not be used while another thread changes it: give each thread its own")
}

impl<'a, 'py, T: Element + 'a, D: Dimension + 'a> FromPyObject<'a, 'py> for Readonly<'py, T, D> {
    type Error = PyErr;

    fn extract(argument: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let array = argument.cast::<PyArray<T, D>>()?.to_owned();
        if array.ndim() > MOST_DIMENSIONS {
            return Err(PyValueError::new_err(format!(
                "an array must have at most {MOST_DIMENSIONS} dimensions, got {}",
                array.ndim()
            )));
        }
        let checked = array.try_readonly().map_err(|_| in_use())?;
        if is_aligned(&array) {
            return Ok(Self(checked));
        }
        let copied = array.call_method1("copy", ("C",))?.cast_into::<PyArray<T, D>>()?;
        Ok(Self(copied.try_readonly().map_err(|_| in_use())?))
    }
}

/// A matrix that is changed in place.
pub(crate) struct Changed<'py>(pub(crate) PyReadwriteArray2<'py, f64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Changed<'py> {
    type Error = PyErr;

    fn extract(argument: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let array = argument.cast::<PyArray<f64, Ix2>>()?.to_owned();
        if !is_aligned(&array) {
            return Err(PyValueError::new_err(
                "an array that is changed in place must be aligned",
            ));
        }
        let changed = array.try_readwrite().map_err(|error| match error {
            numpy::BorrowError::NotWriteable => {
                PyValueError::new_err("an array that is changed in place must be writeable")
            }
            _ => in_use(),
        })?;
        Ok(Self(changed))
    }
}
