"""Options of the command line, and the arguments of the Python functions that they stand for."""

from __future__ import annotations

from typing import Any

from hockeystick import Group
from hockeystick._arguments import DEFAULT_TOLERANCE
from hockeystick._extras import needed
from hockeystick._vocabulary.adjacency import ADJACENCIES, ZERO_OUT
from hockeystick._vocabulary.drawing import steps_of
from hockeystick._vocabulary.run_facts import MECHANISMS
from hockeystick.cli._hints import NamedChoice
from hockeystick.cli._schemes import SCHEMES, flag, sampling_of

click: Any = needed("click", "cli")

PARAMETERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "adaptive_clipping": (("noise_multiplier", "count_noise"), ()),
    "batch_clipping": (("noise_multiplier",), ("units_per_batch",)),
    "laplace": (("scale",), ()),
    "randomized_response": (("p",), ()),
    "skellam": (("variance",), ("sensitivity",)),
}
"""The options that each mechanism needs, and those that it may have."""


def _numbers(kind: type[int] | type[float]) -> Any:
    """Return a callback that reads numbers separated by commas, of an option that may be repeated."""

    def read(context: Any, option: Any, texts: tuple[str, ...]) -> list[Any]:
        """Read the numbers of all texts."""
        try:
            return [kind(part) for text in texts for part in text.split(",")]
        except ValueError:
            wanted = "whole numbers" if kind is int else "numbers"
            given = " ".join(texts)
            raise click.BadParameter(f"expected {wanted} separated by commas, got {given!r}") from None

    return read


def _named(context: Any, option: Any, texts: tuple[str, ...]) -> dict[str, str]:
    """Read pairs of a name and a text, of an option that may be repeated."""
    parts = [text.partition("=") for text in texts]
    for name, sign, _ in parts:
        if not (name and sign):
            raise click.BadParameter(f"expected NAME=TEXT, got {name!r}")
    return {name: text for name, _, text in parts}


_SETTINGS: dict[str, dict[str, Any]] = {
    "epsilon": {"type": float, "required": True, "help": "Target epsilon, at least 0."},
    "delta": {"type": float, "required": True, "help": "Delta, in (0, 1)."},
    "advantage": {
        "type": float,
        "help": "Target: how far an attack's hit rate may exceed its rate of false alarms.",
    },
    "tpr": {
        "type": float,
        "help": "Target, with --fpr: largest rate of hits of an attack with that rate of false alarms.",
    },
    "fpr": {"type": float, "help": "Rate of false alarms of --tpr."},
    "bayes_success": {
        "type": float,
        "help": "Target, with --prior: largest probability that an attacker guesses right.",
    },
    "prior": {"type": float, "help": "Probability of membership before the attack, of --bayes-success."},
    "mu": {"type": float, "help": "Target: the run is to be mu-GDP."},
    "noise_multiplier": {
        "type": float,
        "help": "Standard deviation of Gaussian noise over the clipping norm.",
    },
    "mechanism": {
        "type": click.Choice(sorted(PARAMETERS)),
        "help": "Other noise. laplace has --scale, randomized_response --p, skellam --variance (and "
        "--sensitivity); batch_clipping and adaptive_clipping have --noise-multiplier, and --units-per-batch "
        "or --count-noise.",
    },
    "scale": {"type": float, "help": "Scale of --mechanism laplace, over the clipping norm."},
    "p": {"type": float, "help": "Probability of a true answer of --mechanism randomized_response."},
    "variance": {"type": float, "help": "Variance of the noise of --mechanism skellam."},
    "sensitivity": {"type": int, "help": "Sensitivity of one record, of --mechanism skellam; by default 1."},
    "units_per_batch": {
        "type": int,
        "help": "Parts of a batch that are clipped each, of --mechanism batch_clipping; by default 1.",
    },
    "count_noise": {
        "type": float,
        "help": "Standard deviation of the noise on the count of clipped records, of --mechanism "
        "adaptive_clipping.",
    },
    "sample_rate": {"type": float, "help": "Poisson sampling: probability that a record is in a batch."},
    "sampling": {
        "type": NamedChoice("sampling", SCHEMES),
        "help": "How batches are drawn. poisson: each record joins each batch independently, as in Opacus. "
        "fixed: each batch is a fresh random subset of exactly --batch-size records. full: every record is "
        "in every batch. random_allocation: each record is in one (or --times) of the --batches batches of "
        "an epoch, drawn afresh in each epoch. fixed_bins: the same, drawn once. shuffle: each epoch walks "
        "through the data in a fresh random order, in batches of --batch-size.",
    },
    "batch_size": {
        "type": int,
        "help": "Records in a batch (with --sampling poisson: expected), with --dataset-size and --sampling.",
    },
    "dataset_size": {"type": int, "help": "Number of records (the larger data set)."},
    "max_batch_size": {
        "type": int,
        "help": "Largest number of records in a Poisson batch: a random part of a larger sample is kept. "
        "Needs --dataset-size.",
    },
    "microbatches": {
        "type": int,
        "help": "Number of Poisson batches that are added up before noise (gradient accumulation).",
    },
    "batches": {
        "type": int,
        "help": "Number of batches in an epoch, of --sampling random_allocation or fixed_bins.",
    },
    "times": {
        "type": int,
        "help": "Number of batches of an epoch that each record is in, of --sampling random_allocation; "
        "by default 1.",
    },
    "steps": {"type": int, "required": True, "help": "Number of steps; or give --epochs."},
    "epochs": {
        "type": float,
        "help": "Number of epochs, in place of --steps: each lets a record be in one batch in expectation.",
    },
    "config": {
        "type": click.Path(exists=True, dir_okay=False),
        "help": "TOML or JSON file of a run (hs.Run), and other options by their names. Options on the "
        "command line take the place of those in the file.",
    },
    "group_size": {
        "multiple": True,
        "callback": _numbers(int),
        "metavar": "INTEGERS",
        "help": "Records that change together, by default 1. Several: repeat it, or separate by commas.",
    },
    "rates": {
        "multiple": True,
        "callback": _numbers(float),
        "metavar": "FLOATS",
        "help": "Sample rates of the group's members, in place of --sample-rate.",
    },
    "norms": {
        "multiple": True,
        "callback": _numbers(float),
        "metavar": "FLOATS",
        "help": "Bounds on the norms of the members' contributions, over the clipping norm.",
    },
    "gradients": {
        "type": click.Choice(("aligned", "orthogonal")),
        "help": "Whether the members' gradients are orthogonal.",
    },
    "cosine": {
        "type": float,
        "metavar": "FLOAT",
        "help": "Bound in [0, 1] on the cosine of the angle between two members' gradients.",
    },
    "adjacency": {
        "type": NamedChoice("adjacency", (*ADJACENCIES, ZERO_OUT)),
        "default": "add_remove",
        "show_default": True,
        "help": "What happens to the group's records. zero_out: their gradients are replaced by 0, which is "
        "the same as add_remove where no record pushes another one out. --sampling shuffle takes zero_out "
        "and replace alone.",
    },
    "tolerance": {
        "type": float,
        "default": DEFAULT_TOLERANCE,
        "show_default": True,
        "help": "Relative width of the certified interval to aim at.",
    },
    "path": {
        "default": "privacy.html",
        "show_default": True,
        "help": "File to write: .html, .md without pictures, or .json for programs.",
    },
    "group_sizes": {
        "multiple": True,
        "callback": _numbers(int),
        "metavar": "INTEGERS",
        "help": "Group sizes to report on, by default 1 to 32.",
    },
    "certified": {
        "is_flag": True,
        "help": 'Have epsilon proven by the independent checker, and attach the certificate; extra "verify".',
    },
    "target": {"type": float, "help": "Epsilon that the run should not exceed."},
    "title": {"default": "Privacy report", "show_default": True, "help": "Heading of the report."},
    "details": {
        "multiple": True,
        "callback": _named,
        "metavar": "NAME=TEXT",
        "help": "A hyper-parameter to disclose; may be repeated.",
    },
    "model": {"help": "What was trained, for the form that the responsible person signs."},
    "dataset": {"help": "The data that it was trained on, for that form."},
    "responsible": {"help": "Who answers for it, for that form."},
    "date": {"help": "Date of the report, for that form."},
    "progress": {"is_flag": True, "help": "Show a bar."},
    "processes": {"type": click.IntRange(1), "default": 1, "help": "Processes that share the work."},
    "as_json": {"is_flag": True, "help": "Print JSON, with all digits and both ends of the interval."},
}

RISKS = ("advantage", "tpr", "fpr", "bayes_success", "prior", "mu")
"""Targets in terms of attacks."""

TARGET = ("epsilon", "delta", *RISKS)
OF_TARGET: dict[str, dict[str, Any]] = {
    "epsilon": {"required": False},
    "delta": {"required": False, "help": "Target delta, in (0, 1)."},
}
"""How the options of a target differ from those of an answer: one target of several is enough."""

NOISE = (
    "noise_multiplier",
    "mechanism",
    "scale",
    "p",
    "variance",
    "sensitivity",
    "units_per_batch",
    "count_noise",
)
CLIPPED = ("mechanism", "units_per_batch")
OF_CLIPPED: dict[str, dict[str, Any]] = {
    "mechanism": {
        "type": click.Choice(["batch_clipping"]),
        "help": "batch_clipping: every batch is clipped as a whole, or --units-per-batch parts of it, in "
        "place of every record.",
    },
}
"""What is said of the mechanism where its noise multiplier is asked for, and how its options differ."""
DRAWING = (
    "sample_rate",
    "sampling",
    "batch_size",
    "dataset_size",
    "max_batch_size",
    "microbatches",
    "batches",
    "times",
)
MEMBERS = ("group_size", "rates", "norms", "gradients", "cosine")
REPORTED = ("group_sizes", "target", "title", "details", "certified")
SIGNED = ("model", "dataset", "responsible", "date")
"""Options that fill in the form at the end of a report. A report has the form if any of them is given."""
ALWAYS = ("adjacency", "tolerance", "config", "as_json")


def options(names: tuple[str, ...], changed: dict[str, dict[str, Any]] | None = None) -> list[Any]:
    """Return options by the names of the arguments they set, some with other settings."""
    found = []
    for name in names:
        settings = _SETTINGS[name] | (changed or {}).get(name, {})
        # A file may have what is required, which is looked for when it has been read.
        found.append(click.Option([flag(name), name], **{**settings, "required": False}))
    return found


def require_all(
    names: tuple[str, ...], given: dict[str, Any], changed: dict[str, dict[str, Any]] | None = None
) -> None:
    """Raise ``click.UsageError`` if a required option is neither on the command line nor in a file."""
    for name in names:
        needed_here = (_SETTINGS[name] | (changed or {}).get(name, {})).get("required", False)
        if (
            needed_here
            and given.get(name) is None
            and not (name == "steps" and given.get("epochs") is not None)
        ):
            raise click.UsageError(f"Missing option '{flag(name)}'.")


def arguments_of(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a Python function that the given options stand for; what was left out is left out.

    Raises
    ------
    click.UsageError
        If options exclude each other or belong together.
    ValueError
        If a number is out of range.
    """
    found = {name: value for name, value in given.items() if name in _PLAIN and value is not None}
    made = _mechanism(given)
    if made:
        found.pop("noise_multiplier", None)  # which is part of the mechanism
    found |= made
    found |= sampling_of(given)
    found |= _members(given)
    if given.get("epochs") is not None:
        found["steps"] = _steps(given, found)
    return {name: found.pop(name) for name in _FIRST if name in found} | found


def _steps(given: dict[str, Any], found: dict[str, Any]) -> int:
    """Return the number of steps of --epochs."""
    if "sample_rate" not in found and "sampling" not in found:
        raise click.UsageError("--epochs needs --sample-rate, or --sampling with its sizes")
    steps = int(steps_of(given["epochs"], found))
    if given.get("steps") not in (None, steps):
        raise click.UsageError(f"--steps {given['steps']} contradicts --epochs, which are {steps} steps")
    return steps


_FIRST = (*TARGET, "noise_multiplier", "sample_rate", "steps")
"""Arguments that stand before the others in what is printed."""

_PLAIN = (*TARGET, "noise_multiplier", "steps", "adjacency", "tolerance")


def _mechanism(given: dict[str, Any]) -> dict[str, Any]:
    chosen = given.get("mechanism")
    if chosen is not None and not isinstance(chosen, str):
        return {"mechanism": chosen}  # that of a file, which has no options
    if "noise_multiplier" not in given and chosen is not None:
        given = {**given, "noise_multiplier": 0.0}  # which is asked for, and not that of the mechanism
    wanted, more = PARAMETERS.get(chosen or "", ((), ()))
    for mechanism, (some, others) in PARAMETERS.items():
        for name in (*some, *others):
            if name not in (*wanted, *more, "noise_multiplier") and given.get(name) is not None:
                raise click.UsageError(f"{flag(name)} belongs to --mechanism {mechanism}")
    if chosen is None:
        return {}
    for name in wanted:
        if given.get(name) is None:
            raise click.UsageError(f"--mechanism {chosen} needs {flag(name)}")
    if "noise_multiplier" not in wanted and given.get("noise_multiplier") is not None:
        raise click.UsageError(f"give exactly one of --noise-multiplier and --mechanism {chosen}")
    stated = {name: given[name] for name in (*wanted, *more) if given.get(name) is not None}
    return {"mechanism": MECHANISMS[chosen](**stated)}


def _members(given: dict[str, Any]) -> dict[str, Any]:
    sizes = given.get("group_size") or []
    members = {name: given[name] for name in ("rates", "norms", "gradients") if given.get(name)}
    if given.get("cosine") is not None:
        members["cosine"] = given["cosine"]
    if not members:
        return {"group_size": sizes[0] if len(sizes) == 1 else sizes} if sizes else {}
    if len(sizes) > 1:
        raise click.UsageError("--rates, --norms, --gradients and --cosine apply to one --group-size")
    return {"group": Group(size=sizes[0] if sizes else None, **members)}
