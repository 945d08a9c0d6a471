"""Options that say how batches are drawn, and the sampling schemes that they stand for."""

from __future__ import annotations

from typing import Any

from hockeystick import FixedBins, FullBatch, Poisson, RandomAllocation, Shuffle, WithoutReplacement
from hockeystick._extras import needed
from hockeystick._vocabulary.participation import Participation

click: Any = needed("click", "cli")

SCHEMES = ("poisson", "fixed", "full", "random_allocation", "fixed_bins", "shuffle")
"""Ways to draw batches, as --sampling names them."""

NO_SCHEME = (
    "--batch-size and --dataset-size alone do not say how batches are drawn, and epsilon depends on it. Add "
    "--sampling poisson if each record joins each batch independently with probability batch size / dataset "
    "size (Opacus's default), --sampling fixed if each batch is a random subset of exactly that size, drawn "
    "afresh, or --sampling shuffle if every epoch walks through data in a fresh random order."
)

_SIZED = ("poisson", "fixed", "shuffle")
"""Schemes that take --batch-size."""

_REQUIRED = {
    "fixed": ("batch_size", "dataset_size"),
    "random_allocation": ("batches",),
    "fixed_bins": ("batches",),
    "shuffle": ("batch_size", "dataset_size"),
}
"""Options without which a scheme is not complete."""

_ONE_SCHEME = {
    "max_batch_size": ("poisson",),
    "microbatches": ("poisson",),
    "batches": ("random_allocation", "fixed_bins"),
    "times": ("random_allocation",),
}
"""Options that belong to some schemes only, which have to be named."""


def flag(name: str) -> str:
    """Return the option that sets an argument."""
    return "--json" if name == "as_json" else "--" + name.replace("_", "-")


def sampling_of(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments that say how batches are drawn; `dataset_size` too, for what compares schemes.

    Raises
    ------
    click.UsageError
        If options exclude each other or belong together.
    ValueError
        If a number is out of range.
    """
    if given.get("sampling") is not None and not isinstance(given["sampling"], str):
        return {"sampling": given["sampling"]}  # that of a file, which has no options
    scheme = _scheme(given)
    dataset_size, batch_size = given.get("dataset_size"), given.get("batch_size")
    found: dict[str, Any] = {} if dataset_size is None else {"dataset_size": dataset_size}
    if scheme is None:
        return found
    wanted = [name for name in _REQUIRED.get(scheme, ()) if given.get(name) is None]
    if wanted:
        needed_options = " and ".join(flag(name) for name in _REQUIRED[scheme])
        raise click.UsageError(f"--sampling {scheme} needs {needed_options}")
    if scheme == "poisson":
        return found | _poisson(given)
    if scheme == "full":
        return found | {"sampling": FullBatch()}
    if scheme == "random_allocation":
        times = given.get("times")
        return found | {"sampling": RandomAllocation(given["batches"], times=1 if times is None else times)}
    if scheme == "fixed_bins":
        return found | {"sampling": FixedBins(given["batches"])}
    kind = WithoutReplacement if scheme == "fixed" else Shuffle
    # Both sizes are there: they are what such a scheme needs, which was checked above.
    return found | {"sampling": kind(batch_size, dataset_size)}  # type: ignore[arg-type]


def _scheme(given: dict[str, Any]) -> str | None:
    """Return the scheme that the options name or imply, None if they say nothing."""
    scheme, rate, batch_size = (given.get(name) for name in ("sampling", "sample_rate", "batch_size"))
    if rate is not None and batch_size is not None:
        raise click.UsageError("give either --sample-rate, or --batch-size with --dataset-size")
    if rate is not None and scheme not in (None, "poisson"):
        raise click.UsageError(f"--sample-rate is that of --sampling poisson, got --sampling {scheme}")
    implied = scheme or ("poisson" if rate is not None or given.get("rates") else None)
    for name, schemes in _ONE_SCHEME.items():
        if given.get(name) is not None and implied not in schemes:
            names = " or ".join(schemes)
            raise click.UsageError(f"{flag(name)} belongs to --sampling {names}")
    if implied is not None and batch_size is not None and implied not in _SIZED:
        instead = (
            "every record is in every batch" if implied == "full" else "--batches says how many there are"
        )
        raise click.UsageError(f"--sampling {implied} takes no --batch-size: {instead}")
    if batch_size is not None and given.get("dataset_size") is None:
        raise click.UsageError("--batch-size needs --dataset-size")
    if implied is None and batch_size is not None:
        raise click.UsageError(NO_SCHEME)
    return implied


def _poisson(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for Poisson samples, of which some may be added up or cut to a largest size."""
    rate, batch_size, dataset_size = (
        given.get(name) for name in ("sample_rate", "batch_size", "dataset_size")
    )
    largest, together = given.get("max_batch_size"), given.get("microbatches")
    if largest is not None and dataset_size is None:
        raise click.UsageError("--max-batch-size needs --dataset-size")
    if batch_size is not None:
        # Checks the sizes; the one of the data set is there, as `_scheme` refuses a batch size alone.
        WithoutReplacement(batch_size, dataset_size)  # type: ignore[arg-type]  # it checks what it is given
        rate = batch_size / dataset_size
    if rate is None and not given.get("rates"):
        raise click.UsageError("--sampling poisson needs --sample-rate, or --batch-size with --dataset-size")
    if largest is None and together is None:
        return {} if rate is None else {"sample_rate": rate}
    more: dict[str, Any] = {}
    if largest is not None:
        more |= {"max_batch_size": largest, "dataset_size": dataset_size}
    if together is not None:
        more["microbatches"] = together
    # Members' own rates take the place of the sample rate.
    return {"sampling": Poisson(1.0 if rate is None else rate, **more)}


def sampling_in_words(arguments: dict[str, Any]) -> str:
    """Say how the batches of a run are drawn, given the arguments of a Python function."""
    sampling, rate = arguments.get("sampling"), arguments.get("sample_rate")
    if "group" in arguments and arguments["group"].rates is not None:
        own = "each member joins each batch with a probability of its own"
        return f"Poisson ({own}{_together(sampling)})"
    if isinstance(sampling, WithoutReplacement):
        drawn = f"{sampling.batch_size} of {sampling.dataset_size} records"
        return f"fixed batches ({drawn}, a fresh random subset in each step)"
    if isinstance(sampling, Shuffle):
        drawn = f"{sampling.batch_size} of {sampling.dataset_size} records"
        return f"shuffled batches ({drawn}, a fresh random order in each epoch)"
    if isinstance(sampling, RandomAllocation):
        drawn = f"each record is in {sampling.times} of the {sampling.batches} batches of an epoch"
        return f"random allocation ({drawn}, drawn afresh in each epoch)"
    if isinstance(sampling, FixedBins):
        return f"fixed bins (each record is in 1 of {sampling.batches} batches, the same in each epoch)"
    if isinstance(sampling, FullBatch):
        return "full batches (every record in every batch)"
    if isinstance(sampling, Participation):
        return repr(sampling)
    if isinstance(sampling, Poisson):
        rate = sampling.sample_rate
    if rate is None:
        return "Poisson"
    return f"Poisson (each record joins each batch with probability {rate:g}{_together(sampling)})"


def _together(sampling: object) -> str:
    """Say what else happens to Poisson samples."""
    if not isinstance(sampling, Poisson):
        return ""
    several = f"; {sampling.microbatches} batches are added up in a step" if sampling.microbatches > 1 else ""
    if sampling.max_batch_size is None:
        return several
    return f"{several}; at most {sampling.max_batch_size} of {sampling.dataset_size} records"
