"""Options from a file: the facts of a run, and other options of the command by their names."""

from __future__ import annotations

from typing import Any

from hockeystick import CorrelatedNoise, Poisson, Run
from hockeystick._extras import needed
from hockeystick._vocabulary.run_files import read_facts
from hockeystick._vocabulary.spelling import suggestion
from hockeystick.cli._options import NOISE, RISKS, TARGET
from hockeystick.cli._schemes import flag

click: Any = needed("click", "cli")

_DRAWING = ("sample_rate", "sampling", "batch_size", "max_batch_size", "microbatches", "batches", "times")
_MEMBERS = ("group_size", "rates", "norms", "gradients")
_LENGTH = ("steps", "epochs")

FACTS = frozenset(Run.__dataclass_fields__) - {"_drawn"}


def with_config(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a command, and for those that were not typed what the file --config has.

    Raises
    ------
    click.UsageError
        If the file has an option that no command has.
    ValueError
        If the file is broken, or a fact in it out of range.
    TypeError
        If a fact is unknown or has the wrong type.
    """
    path = given.get("config")
    if path is None:
        return given
    stated, _ = read_facts(path)
    others = {name: value for name, value in stated.items() if name not in FACTS}
    for name in others:
        if name not in names:
            hint = suggestion(name, {*FACTS, *names})
            raise click.UsageError(
                f"{name} in {path} is no fact of a run, and this command has no {flag(name)}{hint}"
            )
    run = Run.from_facts({name: value for name, value in stated.items() if name in FACTS})
    filled = _options_of(run) | others
    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    typed = {name for name in given if context.get_parameter_source(name) not in (default, None)}
    for rivals in (_DRAWING, NOISE, _MEMBERS, _LENGTH):
        if typed & set(rivals):
            filled = {name: value for name, value in filled.items() if name not in rivals}
    if typed & set(RISKS):
        filled = {name: value for name, value in filled.items() if name not in TARGET}
    is_asked = "noise_multiplier" not in names  # of the noise multiplier, or of noise alone
    if "mechanism" in filled and (
        "mechanism" not in names or (is_asked and filled["mechanism"] != "batch_clipping")
    ):
        covered = "Gaussian noise and BatchClipping" if "mechanism" in names else "Gaussian noise"
        raise click.UsageError(f"this command covers {covered} alone, and the file states {run.mechanism!r}")
    kept = {name: value for name, value in filled.items() if name in names and name not in typed}
    return {**given, **kept, "run_sha256": run.sha256}


def _options_of(run: Run) -> dict[str, Any]:
    """Return the options that say what a run says."""
    found: dict[str, Any] = {"sampling": run.sampling, "adjacency": run.adjacency}
    for name in ("noise_multiplier", "dataset_size", "max_batch_size", "batches", "times"):
        found[name] = getattr(run, name)
    if run.microbatches > 1:
        found["microbatches"] = run.microbatches
    scheme = run.scheme
    if isinstance(scheme, Poisson):
        # Expected sizes of batches need not be whole, which those of the command line are.
        found["sample_rate"] = scheme.sample_rate
    else:
        found["batch_size"] = run.batch_size
    if not isinstance(run.sampling, str):
        found["sampling"] = scheme
    found["steps"] = run.number_of_steps
    if run.group is None:
        found["group_size"] = [run.records_per_person]
    else:
        members = {"rates": run.group.rates, "norms": run.group.norms}
        found |= {name: list(values) for name, values in members.items() if values is not None}
        found |= {"group_size": [run.group.size], "gradients": run.group.gradients}
    if isinstance(run.mechanism, CorrelatedNoise):
        found["mechanism"] = run.mechanism
    elif run.mechanism is not None:
        table = dict(run.facts["mechanism"])
        found |= {"mechanism": table.pop("name"), **table}
    return {name: value for name, value in found.items() if value is not None}
