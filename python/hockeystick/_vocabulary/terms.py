"""Arguments in the user's own terms: a `Run`, epochs, batch and data set size, in place of rate and steps.

The functions themselves know one spelling of every fact. What stands here turns the others into it before
they are called, and says what was probably meant where an argument is unknown or out of range.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from hockeystick._arguments import float_array, shown
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.drawing import check_scheme_name, described_scheme, scheme_of, steps_of
from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import FullBatch, Poisson, Shuffle, WithoutReplacement
from hockeystick.errors import UnreachableError, UnsupportedError, UnusualValueWarning

TERMS = frozenset({"run", "batch_size", "dataset_size", "epochs"})
"""Arguments that stand for others."""

_OF_UNKNOWN = {
    "noise_multiplier": {"noise_multiplier", "mechanism"},
    "sample_rate": {"sample_rate", "sampling"},
    "steps": {"steps"},
    "group_size": {"group_size", "group"},
}
"""Arguments that a function does not take from a run, because it searches for them."""

_ADJUSTABLE = {"group_size": 1, "adjacency": "add_remove"}
"""Defaults of a run that an argument beside it may change: they are what is asked, not what was done."""

SMALL_NOISE = 0.05
"""Noise multiplier below which one is told what a noise multiplier is: at 0.05 a single step has an epsilon
of several hundred. The noise of an average over a batch of 256 has a standard deviation of that size."""


LARGE_NOISE = 100.0
"""Noise multiplier above which a run is looked at: published runs of DP-SGD have at most some tens."""

SMALL_SIGNAL = 0.01
"""Least group size * rate * sqrt(steps) / noise of a run with that much noise that goes without a word. It is
about the mu of Gaussian differential privacy: at 0.01 no attack has an advantage above half a per cent."""


def meant(error: ValueError, given: dict[str, Any]) -> str:
    """Return what was probably meant by a value that is out of range, or nothing."""
    text = str(error)
    if type(error) is UnreachableError:
        return _of_point(text, given)
    if type(error) is not ValueError:
        return ""
    if text.startswith("sample_rate must be"):
        value = _one_number(given.get("sample_rate"))
        if value is not None and 1.0 < value <= 100.0:
            return f"; did you mean {value / 100.0:g}? A rate is a fraction, not a percentage"
        if value is not None and value > 100.0:
            return "; for a number of records give batch_size and dataset_size"
    if text.startswith("delta must be"):
        value = _one_number(given.get("delta"))
        if value is not None and value < 0.0:
            return f"; did you mean 1e{value:g}?" if value == int(value) else ""
    return ""


def _of_point(text: str, given: dict[str, Any]) -> str:
    """Say which target is meant by a point of the curve that cannot be reached, if it is not one itself."""
    if not text.startswith("epsilon ="):
        return ""
    for name, is_what in (
        ("advantage", "this delta at epsilon 0"),
        ("bayes_success", "this delta at the epsilon of the prior"),
    ):
        if given.get(name) is not None:
            return f"; the target {name} = {shown(given[name])} is {is_what}"
    return ""


def _one_number(value: object) -> float | None:
    """Return the largest number of an argument, if it has one."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return None if array.size == 0 or not np.all(np.isfinite(array)) else float(array.max())


def resolved(
    run: object, given: dict[str, Any], known: frozenset[str], unknown: str, keeps: str
) -> dict[str, Any]:
    """Return the arguments with one spelling for every fact."""
    if run is not None and not isinstance(run, Run):
        raise TypeError(f"run must be a Run, got {shown(run)}; other arguments are given by name")
    stated = {name: value for name, value in given.items() if value is not None}
    if run is not None:
        found = _beside_run(run, stated, known, unknown)
        records = run.dataset_size
    else:
        found, records = _of_terms(stated)
    if keeps and records is not None:
        found[keeps] = records
    if "steps" in known and "steps" not in found:
        raise TypeError("steps is missing: give steps, or epochs with batch_size and dataset_size")
    _warn_if_unusual(found, records, unknown)
    return found


def _beside_run(run: Run, stated: dict[str, Any], known: frozenset[str], unknown: str) -> dict[str, Any]:
    """Return the facts of a run with other arguments, which must not contradict it."""
    facts = run.arguments
    left_out = _OF_UNKNOWN.get(unknown, set())
    if unknown == "noise_multiplier" and run.mechanism is not None:
        if isinstance(run.mechanism, CorrelatedNoise):
            facts["mechanism"] = run.mechanism.with_noise(None)  # its matrix is no noise
        elif not isinstance(run.mechanism, BatchClipping):  # whose units are no noise
            raise UnsupportedError(
                f"the noise of Gaussian steps is asked for, and the run has {run.mechanism!r}: ask about "
                "run.replace(mechanism=None), or search with get_epsilon"
            )
        left_out = {"noise_multiplier"}
    if unknown == "sample_rate" and run.sampling != "poisson":
        raise ValueError(f"get_sample_rate needs sampling='poisson', got a run with {run.sampling!r}")
    found = {name: value for name, value in facts.items() if name not in left_out}
    for name in ("batch_size", "dataset_size", "epochs"):
        if name in stated and not _agrees(getattr(run, name), stated.pop(name)):
            raise _contradiction(name, getattr(run, name))
    for name, value in stated.items():
        other = _RIVALS.get(name, name)
        present = name if name in found else other
        if (
            present not in found
            or (present == name and _agrees(found[name], value))
            or (name in _ADJUSTABLE and found[name] == _ADJUSTABLE[name])
        ):
            found[name] = value
        elif name == "group" and found.get("group_size") == 1:
            del found["group_size"]
            found[name] = value
        else:
            raise _contradiction(name, found[present])
    for name, value in found.items():
        if name not in known:
            raise UnsupportedError(f"this function takes no {name}, and the run states {name}={shown(value)}")
    return found


_RIVALS = {
    "sample_rate": "sampling",
    "sampling": "sample_rate",
    "noise_multiplier": "mechanism",
    "mechanism": "noise_multiplier",
    "group": "group_size",
    "group_size": "group",
}
"""Arguments that say the same in two ways."""


def _agrees(stated: object, given: object) -> bool:
    try:
        return bool(np.all(np.asarray(stated == given)))
    except (TypeError, ValueError):
        return False


def _contradiction(name: str, stated: object) -> ValueError:
    return ValueError(
        f"{name} contradicts the run, which states {shown(stated)}: use run.replace(...) for another run, or "
        f"hs.sweep for several"
    )


def step_in_terms(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of steps of an accountant with a rate or scheme in place of epochs and sizes."""
    return _of_terms({name: value for name, value in given.items() if value is not None})[0]


def _of_terms(stated: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments without the terms, and the size of the data set if it is one number."""
    terms = {name: stated.pop(name) for name in ("batch_size", "dataset_size", "epochs") if name in stated}
    scheme, rate = stated.get("sampling"), stated.get("sample_rate")
    sizes: dict[str, Any] = {name: terms[name] for name in ("batch_size", "dataset_size") if name in terms}
    if scheme is not None and not isinstance(scheme, str):
        drawn = _checked_scheme(scheme, sizes)
    else:
        drawn = _named_scheme(scheme, rate, sizes)
    found = {name: value for name, value in stated.items() if name not in ("sampling", "sample_rate")} | drawn
    epochs = terms.get("epochs")
    if epochs is not None:
        if not drawn:
            raise TypeError("epochs needs batch_size and dataset_size, or sample_rate, or sampling")
        steps = steps_of(epochs, drawn)
        if "steps" in found and not _agrees(np.asarray(found["steps"]), np.asarray(steps)):
            raise ValueError(
                f"steps {shown(found['steps'])} contradicts epochs {shown(epochs)}, which are {shown(steps)} "
                "steps: give one of the two"
            )
        found["steps"] = steps
    records = terms.get("dataset_size", getattr(drawn.get("sampling"), "dataset_size", None))
    return found, _one_count(records)


def _one_count(value: object) -> int | None:
    if value is None:
        return None
    array = float_array(value, "dataset_size")
    return int(array.min()) if array.size else None


def _named_scheme(scheme: str | None, rate: object, sizes: dict[str, Any]) -> dict[str, Any]:
    """Return how batches are drawn: as the name says, or Poisson samples as for a sample rate."""
    if scheme is None and rate is None and not sizes:
        return {}
    facts = dict(sizes) if rate is None else {**sizes, "sample_rate": rate}
    if scheme is None and "batch_size" not in sizes and rate is None:
        raise TypeError("dataset_size needs batch_size, or sample_rate, or sampling")
    return scheme_of("poisson" if scheme is None else check_scheme_name(scheme), facts)


def _checked_scheme(scheme: Any, sizes: dict[str, Any]) -> dict[str, Any]:
    """Return a scheme, which must have the sizes that are given beside it."""
    known = {}
    if isinstance(scheme, Poisson | WithoutReplacement | Shuffle | FullBatch):
        known = described_scheme(scheme)
    for name, value in sizes.items():
        own = known.get(name)
        if own is not None and not _agrees(own, value):
            raise ValueError(
                f"{name} {shown(value)} contradicts sampling {shown(scheme)}: give one of the two"
            )
    if isinstance(scheme, Poisson) and "batch_size" in sizes:
        scheme_of("poisson", {"sample_rate": scheme.sample_rate, **sizes})
    elif "batch_size" in sizes and "batch_size" not in known:
        raise TypeError(f"batch_size does not belong to sampling {shown(scheme)}")
    return {"sampling": scheme}


def _warn_if_unusual(found: dict[str, Any], records: int | None, unknown: str) -> None:
    """Warn of values that are allowed, and are hardly ever meant."""
    delta = _one_number(found.get("delta")) if "delta" in found else None
    if delta is not None and records is not None and 1.0 / records < delta < 1.0:
        warnings.warn(
            f"delta {delta:g} is above 1 / dataset_size = {1.0 / records:.2g}: a mechanism that publishes "
            f"whole records at random has such a delta; choose one well below 1 / dataset_size",
            UnusualValueWarning,
            stacklevel=4,
        )
    noise = found.get("noise_multiplier")
    least = None if noise is None else _smallest(noise)
    if least is not None:
        warn_of_small_noise(least, stacklevel=5)
        if unknown != "group_size":
            warn_of_large_noise(least, found, stacklevel=5)


def asked_from_outside(module: str) -> bool:
    """Return whether the module that calls is a user's or the command line, which warnings are for."""
    return not module.startswith("hockeystick.") or module.startswith("hockeystick.cli.")


def warn_of_small_noise(least: float, stacklevel: int = 3) -> None:
    """Warn of a noise multiplier that is hardly ever meant; 0 is."""
    if 0.0 < least < SMALL_NOISE:
        warnings.warn(
            f"noise_multiplier {least:g} protects hardly at all; if it is the standard deviation of the "
            f"noise on the averaged gradient, the noise multiplier is that times batch_size / clipping norm",
            UnusualValueWarning,
            stacklevel=stacklevel,
        )


def warn_of_large_noise(least: float, given: dict[str, Any], stacklevel: int = 3) -> None:
    """Warn of a noise multiplier that leaves nothing to learn, and is perhaps a standard deviation."""
    if least <= LARGE_NOISE:
        return
    rate, steps = (_one_number(given.get(name)) for name in ("sample_rate", "steps"))
    rate = getattr(given.get("sampling"), "sample_rate", 1.0) if rate is None else rate
    group = given.get("group_size", getattr(given.get("group"), "size", 1))
    members = _one_number(group)
    if steps is None or members is None or not 0.0 < members * rate * math.sqrt(steps) / least < SMALL_SIGNAL:
        return
    warnings.warn(
        f"noise_multiplier {least:g} leaves nothing to learn in {steps:g} steps at this rate; if it is the "
        "standard deviation of the noise itself, the noise multiplier is that divided by the clipping norm, "
        "or by the sensitivity of the sum",
        UnusualValueWarning,
        stacklevel=stacklevel,
    )


def _smallest(value: object) -> float | None:
    largest = _one_number(value)
    return None if largest is None or not math.isfinite(largest) else float(np.min(np.asarray(value)))
