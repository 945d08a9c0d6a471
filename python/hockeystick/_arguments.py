"""Conversion of what users pass into what the compiled core takes.

The core checks ranges. Here stands only what it cannot see: types, dtypes, shapes and whether a
number is whole; and the few ranges that must be checked before any call into the core.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
FloatOrFloats: TypeAlias = float | Floats
"""A Python float where every broadcast argument is a scalar, an array otherwise."""
CountOrCounts: TypeAlias = int | Counts
"""A Python int where every broadcast argument is a scalar, an array otherwise."""


FLOAT_BYTES = 8
"""Size of the floats that the core takes."""

LARGEST_COUNT = 2**63 - 1
"""Largest whole number that an int64 holds."""

LARGEST_GROUP = 10_000
"""Largest group size whose law the core computes to full precision."""

LARGEST_RENYI_GROUP = 100_000
"""Largest group size of the Rényi bounds."""

LARGEST_DATASET = 2**53
"""Largest data set: up to here float64 tells whole numbers apart."""

DEFAULT_TOLERANCE = 1e-6
"""Relative width of the certified interval that the functions aim at."""

LARGEST_ORDER = 1e4
"""Largest Rényi order at which the core computes the exact divergence."""


LONGEST_SHOWN = 200
"""Characters of an argument that a message repeats."""

LONGEST_INTEGER = 600
"""Bits of an integer that is shown in digits: Python refuses to print those of more than 4,300 digits."""


class _Shown(reprlib.Repr):
    """Begins long lists and texts only, so that nothing of the size of the argument is ever made."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = self.maxarray = 30
        self.maxstring = self.maxother = LONGEST_SHOWN
        self.maxlevel = 4

    def repr_int(self, value: int, level: int) -> str:
        """Return the number, or how long it is."""
        if value.bit_length() > LONGEST_INTEGER:
            return f"an integer of {value.bit_length()} bits"
        return repr(value)

    def repr_str(self, value: str, level: int) -> str:
        """Return the string, or its beginning and how long it is."""
        if len(value) > LONGEST_SHOWN:
            return f"{value[: LONGEST_SHOWN // 2]!r}... ({len(value)} characters)"
        return repr(value)

    def repr_bytes(self, value: bytes, level: int) -> str:
        """Return the bytes, or their beginning and how many there are."""
        if len(value) > LONGEST_SHOWN:
            return f"{value[: LONGEST_SHOWN // 2]!r}... ({len(value)} bytes)"
        return repr(value)


_SHOWN = _Shown()


def shown(value: object) -> str:
    """`value` as a message shows it: its ``repr``, cut if it is long."""
    try:
        return _cut(_SHOWN.repr(value))
    except Exception:
        return f"a {type(value).__name__}"


def printed(value: object) -> str:
    """`value` as a message prints it: text as it is and numbers as ``str`` gives them, cut if long."""
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, np.generic | float):
        return _cut(str(value))
    return shown(value)


def _cut(words: str) -> str:
    if len(words) <= 2 * LONGEST_SHOWN:
        return words
    return f"{words[:LONGEST_SHOWN]}... ({len(words)} characters)"


def require(condition: bool, name: str, value: object, allowed: str) -> None:
    """Raise ``ValueError`` naming the argument, its value and what is allowed, unless `condition`."""
    if not condition:
        raise ValueError(f"{name} must be {allowed}, got {printed(value)}")


def float_array(value: object, name: str) -> Floats:
    """`value` as a C-contiguous float64 array of any shape."""
    if type(value) is float:
        return np.array(value)
    array = _real_array(value, name)
    if array.dtype.itemsize > FLOAT_BYTES and array.dtype.kind == "f":
        # Long doubles beyond the range of a float64 become infinite, without the warning of a cast.
        with np.errstate(over="ignore", under="ignore"):
            array = array.astype(np.float64)
    # Unlike np.ascontiguousarray, np.require keeps an array of no dimensions as it is. Fields of packed
    # records are not aligned.
    return np.require(array, dtype=np.float64, requirements=("C", "ALIGNED"))


def float_view(value: object, name: str) -> Floats:
    """`value` as a float64 array of any shape and strides: itself where it is one, however large."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    return float_array(value, name)


def float_or_floats(value: object, name: str) -> FloatOrFloats:
    """`value` as one Python float, or as a float64 array of at least one dimension."""
    if type(value) is float:
        return value
    array = float_array(value, name)
    return array if array.ndim else array.item()


def float_vector(value: object, name: str) -> Floats:
    """`value` as a contiguous one-dimensional float64 array."""
    array = float_array(value, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    return array


def float_scalar(value: object, name: str) -> float:
    """`value` as one Python float."""
    if type(value) is float:
        return value
    return float(_single(float_array(value, name), name))


def count_array(value: object, name: str, minimum: int) -> Counts:
    """`value` as an int64 array of whole numbers; floats such as 8.0 count as whole."""
    if type(value) is int and minimum <= value <= LARGEST_COUNT:
        return np.array(value, dtype=np.int64)
    array = _real_array(value, name)
    allowed = f"a whole number >= {minimum}"
    # NaN and the infinities fail the comparison with their floor or the range check.
    with np.errstate(invalid="ignore"):
        good = (np.floor(array) == array) & (array >= minimum)
    if not np.all(good):
        raise ValueError(f"{name} must be {allowed}, got {array[~good].flat[0]}")
    # 2**63 is the first float that does not fit: LARGEST_COUNT itself is not a float64.
    too_large = array >= np.float64(2**63)
    if np.any(too_large):
        raise ValueError(f"{name} must be {allowed} and < 2**63, got {array[too_large].flat[0]}")
    return np.require(array, dtype=np.int64, requirements=("C", "ALIGNED"))


def count_or_counts(value: object, name: str, minimum: int) -> CountOrCounts:
    """`value` as one Python integer, or as an int64 array of at least one dimension."""
    if type(value) is int and minimum <= value <= LARGEST_COUNT:
        return value
    array = count_array(value, name, minimum)
    return array if array.ndim else array.item()


def count_scalar(value: object, name: str, minimum: int, maximum: int = LARGEST_COUNT) -> int:
    """`value` as one Python integer in [minimum, maximum]."""
    number = _whole_number(value, name)
    bounded = maximum != LARGEST_COUNT
    limits = f"in [{minimum}, {maximum}]" if bounded else f">= {minimum}"
    if number is None or not minimum <= number <= maximum:
        raise ValueError(f"{name} must be a whole number {limits}, got {printed(value)}")
    return number


def require_type(value: object, kind: type | tuple[type, ...], name: str) -> None:
    """Raise ``TypeError`` naming the argument and what is allowed, unless `value` is of such a type."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        allowed = " or ".join(each.__name__ for each in kinds)
        raise TypeError(f"{name} must be of type {allowed}, got {type(value).__name__}")


def text(value: object, name: str) -> str:
    """`value`, which must be a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    return value


def choice(value: object, name: str, allowed: tuple[str, ...]) -> str:
    """`value`, which must be one of the strings in `allowed`."""
    chosen = text(value, name)
    if chosen not in allowed:
        require(False, name, shown(chosen), "one of " + ", ".join(map(repr, allowed)))
    return chosen


def in_shape(values: Floats, shape: tuple[int, ...]) -> FloatOrFloats:
    """Flat results in the shape the arguments broadcast to; a Python float for no dimensions."""
    return float(values[0]) if shape == () else values.reshape(shape)


def broadcast(**arguments: ArrayLike) -> tuple[int, ...]:
    """Shape to which all arguments broadcast; a ``ValueError`` that names them where there is none."""
    try:
        return np.broadcast(*arguments.values()).shape
    except ValueError:
        arrays = {name: np.asarray(value) for name, value in arguments.items()}
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items() if array.ndim)
        raise ValueError(f"shapes do not broadcast together: {shapes}") from None


def flat(arrays: Iterable[NDArray[Any]], shape: tuple[int, ...]) -> list[NDArray[Any]]:
    """Each of `arrays`, broadcast to `shape`, as a contiguous vector."""
    if shape == ():
        return [array.reshape(1) for array in arrays]
    return [np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1) for array in arrays]


def is_tensor(value: object) -> bool:
    """Whether `value` is a tensor of torch or an array of JAX."""
    return type(value).__module__.partition(".")[0] in ("torch", "jax", "jaxlib")


def as_numpy(value: object) -> NDArray[Any]:
    """`value` as an array of any type; tensors of torch and JAX too, wherever and however they are stored."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        tensor: Any = value.detach().cpu()
        # NumPy has no bfloat16; a float64 holds all numbers of the shorter formats.
        return np.asarray(tensor.double() if tensor.is_floating_point() else tensor)
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.name == "bfloat16" else array


def _real_array(value: object, name: str) -> NDArray[Any]:
    """`value` as an array of integers or floats; ``TypeError`` for any other type."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_COUNT:
        # NumPy would make an array of objects of it.
        try:
            return np.asarray(float(value))
        except OverflowError:
            raise ValueError(f"{name} must be finite, got an integer beyond the float64 range") from None
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: fill or drop the masked entries first")
    try:
        array = as_numpy(value)
    except (ValueError, TypeError) as error:
        raise TypeError(
            f"{name} must be a real number or an array of real numbers: {printed(str(error))}"
        ) from None
    if array.dtype.kind not in "iuf":
        kind = type(value).__name__ if array.ndim == 0 else f"{type(value).__name__} of {array.dtype}"
        raise TypeError(f"{name} must be a real number or an array of real numbers, got {kind}")
    return array


def _single(array: NDArray[Any], name: str) -> Any:
    if array.ndim != 0:
        raise ValueError(f"{name} must be a single number, got an array of shape {array.shape}")
    return array[()]


def _whole_number(value: object, name: str) -> int | None:
    """`value` as a Python integer of any size, or None where it is not whole."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = _single(_real_array(value, name), name)
    if isinstance(number, np.integer):
        return int(number)
    return int(number) if np.isfinite(number) and number == np.floor(number) else None
