"""Sampling by the name of a scheme and its sizes, which is what users know of their loaders."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hockeystick._arguments import (
    LARGEST_DATASET,
    Floats,
    count_scalar,
    float_array,
    float_scalar,
    require,
    shown,
)
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.participation import CyclicPoisson, FixedOrder, MinimumSeparation
from hockeystick._vocabulary.sampling import FullBatch, Poisson, Sampling, Shuffle, WithoutReplacement
from hockeystick._vocabulary.spelling import suggested_value

SCHEMES = ("poisson", "fixed", "full", "random_allocation", "fixed_bins", "shuffle")
"""Ways to draw batches, as `Run` and the command line name them."""

OTHER_NAMES = {"without_replacement": "fixed", "full_batch": "full"}
"""Names of the table of supported pairs."""

WAYS = (
    "'poisson' (each record joins each batch independently, as Opacus draws), 'fixed' (each batch is a fresh "
    "random subset of exactly batch_size records), 'shuffle' (every epoch walks through the data in a fresh "
    "random order), 'full' (every record is in every batch), 'random_allocation' (each record is in one of "
    "the batches of an epoch, drawn afresh in each) or 'fixed_bins' (the same bins in every epoch)"
)

_ROUNDING = 1e-9
"""Relative distance from a whole number of steps that is due to the rounding of a sample rate."""

_FARTHEST = 1e-3
"""The same absolutely, which counts from a million steps on."""


def check_scheme_name(value: object) -> str:
    """`value` as the name of a scheme.

    Raises
    ------
    TypeError
        For anything but a string.
    ValueError
        For a string that is no scheme; the message says what the schemes are.
    """
    if not isinstance(value, str):
        raise TypeError(f"sampling must be a string or a sampling scheme, got {shown(value)}")
    name = OTHER_NAMES.get(value, value)
    if name not in SCHEMES:
        meant = suggested_value("sampling", value, SCHEMES)
        raise ValueError(f"sampling must be {WAYS}, got {shown(value)}{meant}")
    return name


def described_scheme(scheme: Sampling | Shuffle) -> dict[str, Any]:
    """Return the name of a scheme and its sizes, of which `scheme_of` makes it again."""
    if isinstance(scheme, Poisson):
        found: dict[str, Any] = {"sampling": "poisson", "sample_rate": scheme.sample_rate}
        if scheme.microbatches > 1:
            found["microbatches"] = scheme.microbatches
        if scheme.max_batch_size is not None:
            found |= {"max_batch_size": scheme.max_batch_size, "dataset_size": scheme.dataset_size}
        return found
    if isinstance(scheme, WithoutReplacement | Shuffle):
        name = "fixed" if isinstance(scheme, WithoutReplacement) else "shuffle"
        return {"sampling": name, "batch_size": scheme.batch_size, "dataset_size": scheme.dataset_size}
    if isinstance(scheme, RandomAllocation):
        several = {} if scheme.times == 1 else {"times": scheme.times}
        return {"sampling": "random_allocation", "batches": scheme.batches, **several}
    if isinstance(scheme, FixedBins):
        return {"sampling": "fixed_bins", "batches": scheme.batches}
    if isinstance(scheme, FullBatch):
        return {"sampling": "full"}
    raise TypeError(f"sampling must be {WAYS}, or such a scheme, got {shown(scheme)}")


def rates_of(batch_size: object, dataset_size: object) -> Floats:
    """Sample rates of Poisson batches of these expected sizes.

    Raises
    ------
    ValueError
        If a batch is empty, or larger than the data set.
    """
    batches, records = float_array(batch_size, "batch_size"), float_array(dataset_size, "dataset_size")
    for name, values in (("batch_size", batches), ("dataset_size", records)):
        wrong = ~((values > 0.0) & (values <= LARGEST_DATASET))
        if np.any(wrong):
            require(False, name, float(values[wrong].ravel()[0]), "above 0 and at most 2**53")
    batches, records = np.broadcast_arrays(batches, records)
    wrong = batches > records
    if np.any(wrong):
        size, most = batches[wrong].ravel()[0], records[wrong].ravel()[0]
        require(False, "batch_size", float(size), f"at most dataset_size {most:.17g}")
    rates: Floats = batches / records
    return rates


def scheme_of(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the argument of `get_epsilon` that says how batches are drawn: `sample_rate` or `sampling`.

    Raises
    ------
    ValueError
        If a size is out of range, or two facts contradict each other.
    TypeError
        If a fact is missing, or belongs to another scheme.
    """
    given = {key: value for key, value in facts.items() if value is not None}
    takes = _TAKES[name]
    for key in given:
        if key not in takes:
            belongs = " or ".join(repr(other) for other in SCHEMES if key in _TAKES[other])
            raise TypeError(f"{key} belongs to sampling={belongs}, got sampling={name!r}")
    for key in _NEEDS.get(name, ()):
        if key not in given:
            raise TypeError(f"sampling={name!r} needs {' and '.join(_NEEDS[name])}: {key} is missing")
    if name == "poisson":
        return _poisson(given)
    if name == "full":
        return {"sampling": FullBatch()}
    if name == "random_allocation":
        return {"sampling": RandomAllocation(given["batches"], times=given.get("times", 1))}
    if name == "fixed_bins":
        return {"sampling": FixedBins(given["batches"])}
    kind = WithoutReplacement if name == "fixed" else Shuffle
    return {"sampling": kind(given["batch_size"], given["dataset_size"])}


_TAKES = {
    "poisson": ("sample_rate", "batch_size", "dataset_size", "max_batch_size", "microbatches"),
    "fixed": ("batch_size", "dataset_size"),
    "shuffle": ("batch_size", "dataset_size"),
    "full": ("dataset_size",),
    "random_allocation": ("batches", "times", "dataset_size"),
    "fixed_bins": ("batches", "dataset_size"),
}
_NEEDS = {
    "fixed": ("batch_size", "dataset_size"),
    "shuffle": ("batch_size", "dataset_size"),
    "random_allocation": ("batches",),
    "fixed_bins": ("batches",),
}


def _poisson(given: dict[str, Any]) -> dict[str, Any]:
    rate = given.get("sample_rate")
    if "batch_size" in given:
        if "dataset_size" not in given:
            raise TypeError("batch_size needs dataset_size: the sample rate is the one divided by the other")
        rates = rates_of(given["batch_size"], given["dataset_size"])
        if rate is not None:
            _require_same_rate(float_array(rate, "sample_rate"), rates)
        rate = rates if rates.ndim else float(rates)
    if rate is None:
        raise TypeError("sampling='poisson' needs batch_size and dataset_size, or sample_rate")
    together, most = given.get("microbatches", 1), given.get("max_batch_size")
    if together == 1 and most is None:
        return {"sample_rate": rate}
    sizes = {} if most is None else {"max_batch_size": most, "dataset_size": given.get("dataset_size")}
    if most is not None and "dataset_size" not in given:
        raise TypeError("max_batch_size needs dataset_size")
    return {"sampling": Poisson(float_scalar(rate, "sample_rate"), microbatches=together, **sizes)}


def _require_same_rate(stated: Floats, rates: Floats) -> None:
    both, sizes = np.broadcast_arrays(stated, rates)
    wrong = ~(np.abs(both - sizes) <= _ROUNDING * sizes)
    if np.any(wrong):
        rate, other = float(both[wrong].ravel()[0]), float(sizes[wrong].ravel()[0])
        raise ValueError(
            f"sample_rate {rate:g} contradicts batch_size / dataset_size = {other:g}: give one of the two"
        )


def steps_of(epochs: object, drawn: dict[str, Any]) -> Any:
    """Return the number of steps of `epochs`, rounded up: an integer, or an array of them.

    An epoch is as many steps as let a record be in one batch in expectation; of shuffled batches it is the
    number of whole batches, and of full batches one step.

    Raises
    ------
    ValueError
        If `epochs` is negative or not finite, or an epoch has no batch.
    """
    scheme = drawn.get("sampling")
    counts = float_array(epochs, "epochs")
    wrong = ~((counts >= 0.0) & (counts <= 2.0**53))
    if np.any(wrong):
        require(False, "epochs", float(counts[wrong].ravel()[0]), "finite and at least 0")
    if isinstance(scheme, WithoutReplacement):
        return _rounded_up(counts, Fraction(scheme.dataset_size, scheme.batch_size))
    if isinstance(scheme, Shuffle):
        return _rounded_up(counts, Fraction(scheme.dataset_size // scheme.batch_size))
    if isinstance(scheme, RandomAllocation | FixedBins | FixedOrder):
        return _rounded_up(counts, Fraction(scheme.batches))
    if isinstance(scheme, MinimumSeparation):
        raise TypeError(f"{shown(scheme)} does not say how many steps an epoch has: give steps")
    if isinstance(scheme, FullBatch):
        return _rounded_up(counts, Fraction(1))
    if isinstance(scheme, Poisson):
        rates = np.asarray(scheme.sample_rate * scheme.microbatches)
    elif isinstance(scheme, CyclicPoisson):
        rates = np.asarray(scheme.sample_rate / scheme.cycle)
    else:
        rates = float_array(drawn["sample_rate"], "sample_rate")
    if np.any(rates <= 0.0):
        raise ValueError("sample_rate must be above 0 where epochs are given: an epoch has 1 / rate steps")
    with np.errstate(over="ignore", invalid="ignore"):
        exact = counts / rates
    whole = np.rint(exact)
    near = np.minimum(_ROUNDING * exact, _FARTHEST)
    steps = np.where(np.abs(exact - whole) <= near, whole, np.ceil(exact))
    if np.any(~(steps < 2.0**63)):
        raise ValueError("epochs / sample_rate must be below 2**63")
    return int(steps) if steps.ndim == 0 else steps.astype(np.int64)


def _rounded_up(epochs: Floats, batches: Fraction) -> Any:
    found = [-int(-Fraction(count) * batches // 1) for count in epochs.ravel().tolist()]
    if epochs.ndim == 0:
        return count_scalar(found[0], "steps", 0)
    return np.array(found, dtype=np.int64).reshape(epochs.shape)
