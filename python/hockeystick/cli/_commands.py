"""The commands: each asks one of the Python functions and prints its answer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hockeystick import (
    BatchClipping,
    Shuffle,
    get_delta,
    get_epsilon,
    get_group_size,
    get_noise_multiplier,
    get_sample_rate,
    get_steps,
    privacy_curve,
    report,
)
from hockeystick._arguments import LARGEST_GROUP
from hockeystick._core import __version__
from hockeystick._curves.solving import LARGEST_STEPS, SAFE_SIDE, WHOLE
from hockeystick._explaining import explain
from hockeystick._extras import needed
from hockeystick._rounding import rounded_down, rounded_up
from hockeystick.cli._config import with_config
from hockeystick.cli._extras import MORE, guarded
from hockeystick.cli._hints import Command
from hockeystick.cli._options import (
    ALWAYS,
    CLIPPED,
    DRAWING,
    MEMBERS,
    NOISE,
    OF_CLIPPED,
    OF_TARGET,
    REPORTED,
    SIGNED,
    TARGET,
    arguments_of,
    options,
    require_all,
)
from hockeystick.cli._schemes import sampling_in_words
from hockeystick.errors import UnsupportedError

click: Any = needed("click", "cli")


class Question(NamedTuple):
    """A command that asks for one unknown."""

    unknown: str
    find: Callable[..., Any]
    options: tuple[str, ...]
    help: str
    changed: dict[str, dict[str, Any]] | None = None


QUESTIONS = {
    "epsilon": Question(
        "epsilon", get_epsilon, ("delta", *NOISE, *DRAWING, "steps", "epochs", *MEMBERS), "Epsilon of a run."
    ),
    "delta": Question(
        "delta", get_delta, ("epsilon", *NOISE, *DRAWING, "steps", "epochs", *MEMBERS), "Delta of a run."
    ),
    "noise": Question(
        "noise_multiplier",
        get_noise_multiplier,
        (*TARGET, *CLIPPED, *DRAWING, "steps", "epochs", *MEMBERS),
        "Smallest noise multiplier that meets a target.",
        OF_TARGET | OF_CLIPPED,
    ),
    "noise-multiplier": Question(
        "noise_multiplier",
        get_noise_multiplier,
        (*TARGET, *CLIPPED, *DRAWING, "steps", "epochs", *MEMBERS),
        "Smallest noise multiplier that meets a target: the name of the unknown, as for other commands; "
        "noise is short for it.",
        OF_TARGET | OF_CLIPPED,
    ),
    "sample-rate": Question(
        "sample_rate",
        get_sample_rate,
        (*TARGET, *NOISE, "steps", "group_size", "norms", "gradients"),
        "Largest Poisson sample rate that meets a target.",
        OF_TARGET,
    ),
    "steps": Question(
        "steps",
        get_steps,
        (*TARGET, *NOISE, *DRAWING, *MEMBERS),
        "Largest number of steps that meets a target.",
        OF_TARGET,
    ),
    "group-size": Question(
        "group_size",
        get_group_size,
        (*TARGET, *NOISE, *DRAWING, "steps", "epochs"),
        "Largest group for which a run meets a target.",
        OF_TARGET,
    ),
}


def _answer(question: Question, given: dict[str, Any]) -> None:
    """Print the answer to `question`."""
    arguments = arguments_of(given)
    dataset_size = arguments.pop("dataset_size", None)
    sized = any(given.get(name) is not None for name in ("batch_size", "max_batch_size", "run_sha256"))
    if dataset_size is not None and not sized:
        raise click.UsageError("--dataset-size needs --batch-size")
    lower, upper = (np.atleast_1d(end) for end in _ends(question, arguments))
    sizes = _group_sizes(arguments)
    ends = list(zip(lower.tolist(), upper.tolist(), strict=True))
    drawn = sampling_in_words(arguments)
    if not given["as_json"]:
        shown = [_shown(question.unknown, *both, arguments) for both in ends]
        if isinstance(arguments.get("sampling"), Shuffle):
            shown = [f"{answer}{_interval(*both)}" for answer, both in zip(shown, ends, strict=True)]
        _print_table(question.unknown, sizes, shown)
        click.echo(f"sampling: {drawn}")
        return
    results = [
        _result(question.unknown, size, both, arguments) for size, both in zip(sizes, ends, strict=True)
    ]
    of_file = {"run_sha256": given["run_sha256"]} if "run_sha256" in given else {}
    _print_json(
        {
            "version": __version__,
            **of_file,
            "sampling": drawn,
            "arguments": _plain(_without_noise(question.unknown, arguments)),
            "results": results,
        }
    )


def _without_noise(unknown: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without the noise of a mechanism, where that is what is asked for."""
    mechanism = arguments.get("mechanism")
    if unknown != "noise_multiplier" or not isinstance(mechanism, BatchClipping):
        return arguments
    return arguments | {"mechanism": f"BatchClipping(units_per_batch={mechanism.units_per_batch})"}


def _ends(question: Question, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Return both ends of an answer. For a mu only the safe end is known, and the range has the other."""
    if arguments.get("mu") is None:
        both: tuple[Any, Any] = question.find(bounds=True, **arguments)
        return both
    found = question.find(**arguments)
    if SAFE_SIDE[question.unknown] == "upper":
        return np.zeros_like(found, dtype=np.float64), found
    return found, np.full_like(
        found, 1.0 if question.unknown == "sample_rate" else math.inf, dtype=np.float64
    )


def _safe(unknown: str, lower: float, upper: float) -> float:
    """Return the end of the interval at which the guarantee holds."""
    return (lower, upper)[("lower", "upper").index(SAFE_SIDE[unknown])]


def _result(
    unknown: str, size: int, ends: tuple[float, float], arguments: dict[str, Any]
) -> dict[str, object]:
    """One answer as JSON shows it."""
    found: dict[str, object] = {} if unknown == "group_size" else {"group_size": size}
    found |= {unknown: _safe(unknown, *ends), "bounds": list(ends)}
    if unknown in WHOLE:
        found["at_least"] = _why_at_least(unknown, *ends, arguments) is not None
    return found


def _why_at_least(unknown: str, lower: float, upper: float, arguments: dict[str, Any]) -> str | None:
    """Say why a whole number larger than `lower` may meet the target too; None if none does.

    No number is known to miss the target where the upper end is infinite.
    """
    if math.isfinite(upper):
        return None
    records = getattr(arguments.get("sampling"), "dataset_size", None) or LARGEST_GROUP + 1
    if unknown == "group_size" and lower == records:
        return None
    most = LARGEST_STEPS if unknown == "steps" else LARGEST_GROUP
    return (
        "larger numbers are not searched" if lower >= most else "no larger number is known to miss the target"
    )


def _explain(given: dict[str, Any]) -> None:
    """Print what a guarantee assumes."""
    arguments = arguments_of(given)
    if isinstance(arguments.get("group_size"), list):
        raise click.UsageError("explain covers one --group-size")
    explanation = explain(**arguments)
    if given["as_json"]:
        _print_json(explanation)
    else:
        click.echo(str(explanation))


def _report(given: dict[str, Any]) -> None:
    """Write a report and print where it is."""
    arguments = arguments_of(given)
    if isinstance(arguments.get("group_size"), list):
        raise click.UsageError("the guarantee covers one --group-size; --group-sizes are those of the table")
    delta, dataset_size = arguments.pop("delta"), arguments.pop("dataset_size", None)
    drawn = sampling_in_words(arguments)
    written = report(
        privacy_curve(**arguments),
        given["path"],
        delta=delta,
        group_sizes=given["group_sizes"] or None,
        dataset_size=dataset_size,
        target=given["target"],
        title=given["title"],
        details=_details(given) or None,
        certified=given["certified"],
        **{name: given[name] for name in SIGNED},
    )
    if given["as_json"]:
        _print_json({"version": __version__, "sampling": drawn, "path": str(written)})
    else:
        click.echo(str(written))


def _details(given: dict[str, Any]) -> dict[str, str]:
    """Return what is to be disclosed: what is asked for, and the hash of the file of the run."""
    found: dict[str, str] = dict(given["details"] or {})
    return found | ({"run (sha256)": given["run_sha256"]} if "run_sha256" in given else {})


def _certify(given: dict[str, Any]) -> None:
    """Write a certificate and print what it claims."""
    if (given["epsilon"] is None) == (given["delta"] is None):
        raise click.UsageError("give exactly one of --epsilon and --delta")
    arguments = arguments_of(given)
    if isinstance(arguments.get("group_size"), list):
        raise click.UsageError("a certificate covers one --group-size")
    arguments.pop("dataset_size", None)
    point = {name: arguments.pop(name) for name in ("epsilon", "delta") if name in arguments}
    bar = needed("hockeystick_verify", "verify").bar if given["progress"] else None
    try:
        certificate = privacy_curve(**arguments).certify(**point, progress=bar, processes=given["processes"])
    except UnsupportedError:
        if bar is not None:
            click.echo(err=True)  # the message has a line of its own
        raise
    path = str(certificate.save(given["path"]))
    if given["as_json"]:
        hashed = {"path": path, "sha256": certificate.sha256, "claims": certificate.claims}
        _print_json({"version": __version__, **hashed})
        return
    for claim in certificate.claims:
        side = "at_most" if "at_most" in claim else "at_least"
        click.echo(f"delta({claim['epsilon']!r}) is {side.replace('_', ' ')} {claim[side]!r}")
    click.echo(f"{path}, sha256 {certificate.sha256}")


def _verify(paths: tuple[str, ...], processes: int, progress: bool, as_json: bool) -> None:
    """Check certificates with the independent checker; its exit status is that of this process."""
    try:
        checker = needed("hockeystick_verify", "verify")
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    flags = [name for name, is_set in (("--progress", progress), ("--json", as_json)) if is_set]
    given = [f"--processes={processes}", *flags, "--", *paths]
    click.get_current_context().exit(checker.main(given))


SHARED = ("processes", "progress")
CERTIFIED_POINT: dict[str, dict[str, Any]] = {
    "epsilon": {"required": False, "help": "Certify delta at this epsilon, at least 0."},
    "delta": {"required": False, "help": "Certify epsilon at this delta, in (0, 1)."},
    "path": {"default": "certificate.json", "help": "File to write."},
}
"""Options of `certify` that differ from those of other commands."""


def _command(
    name: str,
    action: Callable[[dict[str, Any]], None],
    names: tuple[str, ...],
    text: str,
    changed: dict[str, dict[str, Any]] | None = None,
) -> Any:
    """Return a command that turns warnings into lines on stderr, and errors into exit statuses."""
    every = (*names, *ALWAYS)

    def run(**given: Any) -> None:
        whole = with_config(given, every)
        require_all(every, whole, changed)
        action(whole)

    return Command(name, callback=guarded(run), params=options(every, changed), help=text)


def _group_sizes(arguments: dict[str, Any]) -> list[int]:
    if "group" in arguments:
        return [arguments["group"].size]
    sizes = arguments.get("group_size", 1)
    return sizes if isinstance(sizes, list) else [sizes]


def _shown(unknown: str, lower: float, upper: float, arguments: dict[str, Any]) -> str:
    """Return an answer in a few digits, rounded to the safe side."""
    value = _safe(unknown, lower, upper)
    if unknown in WHOLE:
        why = _why_at_least(unknown, lower, upper, arguments)
        return f"{value}" if why is None else f"at least {value} ({why})"
    return rounded_up(value) if SAFE_SIDE[unknown] == "upper" else rounded_down(value)


def _interval(lower: float, upper: float) -> str:
    """Return both ends, of a scheme for which no tight bound is known; nothing if the second is infinite."""
    if not math.isfinite(upper):
        return ""
    return f" (certified interval {rounded_down(lower)} to {rounded_up(upper)})"


def _print_table(unknown: str, sizes: list[int], answers: list[str]) -> None:
    if len(answers) == 1:
        click.echo(f"{unknown} {answers[0]}")
        return
    width = len("group_size")
    click.echo(f"group_size  {unknown}")
    for size, answer in zip(sizes, answers, strict=True):
        click.echo(f"{size:>{width}}  {answer}")


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` as JSON can hold them: schemes, mechanisms and groups as they are written in Python."""
    known = (bool, int, float, str, list)
    return {name: value if isinstance(value, known) else repr(value) for name, value in arguments.items()}


def _print_json(document: object) -> None:
    click.echo(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    """`value` with null for what is infinite: JSON has no number for it."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _asking(question: Question) -> Callable[[dict[str, Any]], None]:
    return lambda given: _answer(question, given)


hockeystick: Any = click.version_option(__version__, prog_name="hockeystick")(
    click.Group(
        "hockeystick",
        help="Privacy of DP-SGD: one record, one person's records, any group. Options have the names of the "
        "arguments of the Python functions. Exit status: 0 an answer, 1 no answer (an unreachable target or "
        "an unsupported combination), 2 bad arguments.",
        commands=[
            *(
                _command(name, _asking(question), question.options, question.help, question.changed)
                for name, question in QUESTIONS.items()
            ),
            _command(
                "explain",
                _explain,
                ("delta", *NOISE, *DRAWING, "steps", "epochs", *MEMBERS),
                "What a guarantee assumes, and what it would be under other assumptions.",
            ),
            _command(
                "report",
                _report,
                ("path", "delta", *NOISE, *DRAWING, "steps", "epochs", *MEMBERS, *REPORTED, *SIGNED),
                "One page with the guarantee in plain words, its assumptions and curves.",
            ),
            _command(
                "certify",
                _certify,
                ("path", "epsilon", "delta", *NOISE, *DRAWING, "steps", "epochs", *MEMBERS, *SHARED),
                "A certificate of epsilon or delta, for an independent checker.",
                CERTIFIED_POINT,
            ),
            Command(
                "verify",
                callback=_verify,
                params=[
                    click.Argument(["paths"], nargs=-1, required=True),
                    click.Option(
                        ["--processes"],
                        type=click.IntRange(1),
                        default=1,
                        help="Processes that share the work.",
                    ),
                    click.Option(["--progress"], is_flag=True, help="Show a bar."),
                    click.Option(
                        ["--json", "as_json"], is_flag=True, help="Print JSON: an entry for each file."
                    ),
                ],
                help="Check certificates with the independent checker, which uses no code of this library. "
                "Exit status: 0 all are proven, 1 one is not, 2 one cannot be read.",
            ),
            *MORE,
        ],
    )
)
"""The command line."""
