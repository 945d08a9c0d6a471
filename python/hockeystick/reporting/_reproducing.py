"""The Python code that makes an object again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hockeystick import Poisson, PrivacyCurve, ShuffledCurve
from hockeystick._arguments import DEFAULT_TOLERANCE
from hockeystick._curves.expression import steps_of
from hockeystick._guarantees.recorded_run import RecordedRun
from hockeystick.accountants import Accountant, GroupAccountant, IndividualAccountant
from hockeystick.accountants._adaptors import AnySegment
from hockeystick.tradeoff import TradeoffCurve


def code_for(curve_or_accountant: Any) -> tuple[str, str]:
    """Name of a variable, and the lines that give it an object with the same report; floats are exact.

    That of an `IndividualAccountant` has the same steps and no norms: norms are private, and its report does
    not depend on them.
    """
    if isinstance(curve_or_accountant, PrivacyCurve):
        return "curve", f"curve = {_privacy_curve(curve_or_accountant)}"
    if isinstance(curve_or_accountant, ShuffledCurve):
        return "curve", f"curve = {_shuffled_curve(curve_or_accountant)}"
    if isinstance(curve_or_accountant, TradeoffCurve):
        return "curve", f"curve = {_tradeoff_curve(curve_or_accountant)}"
    accountant: Accountant = curve_or_accountant
    if isinstance(accountant, IndividualAccountant):
        return "accountant", _individual(accountant)
    made = f"accountant = {_accountant(accountant)}"
    return "accountant", f"{made}\naccountant.history = {_history(accountant.history)}"


def _individual(accountant: IndividualAccountant) -> str:
    """Lines that repeat the steps of an accountant whose history cannot be assigned, without its norms."""
    settings = {"dataset_size": accountant.dataset_size, "max_grad_norm": accountant.max_grad_norm}
    made = f"accountant = hs.accountants.IndividualAccountant({_arguments(settings)})"
    lines = [f"{made}  # the report needs no norms"]
    for noise, draw, steps in accountant.history:
        step = {"noise_multiplier": noise, "sample_rate" if isinstance(draw, float) else "sampling": draw}
        lines += [f"for _ in range({steps}):", f"    accountant.step({_arguments(step)})"]
    return "\n".join(lines)


def _accountant(accountant: Accountant) -> str:
    settings = dict(accountant.state_dict()["settings"])
    if isinstance(accountant, GroupAccountant):
        settings["group"] = accountant.group
        if accountant.group is not None:
            del settings["group_size"]
    return f"hs.accountants.{type(accountant).__name__}({_arguments(settings)})"


def _privacy_curve(curve: PrivacyCurve) -> str:
    run = RecordedRun.of_curve(curve)
    parts = [_one_kind(run, segment) for segment in run.segments]
    if len(parts) == 1:
        return parts[0]
    return "(\n    " + "\n    + ".join(parts) + "\n)"


def _shuffled_curve(curve: ShuffledCurve) -> str:
    settings: dict[str, Any] = {"group_size": curve.group_size, "adjacency": curve.adjacency}
    if curve.tolerance != DEFAULT_TOLERANCE:
        settings["tolerance"] = curve.tolerance
    return f"hs.ShuffledCurve({_value(curve.sampling)}, {curve.segments!r}, {_arguments(settings)})"


def _one_kind(run: RecordedRun, segment: AnySegment) -> str:
    noise, draw, steps = segment
    settings: dict[str, Any] = {"noise_multiplier" if isinstance(noise, float) else "mechanism": noise}
    if not run.has_own_rates or isinstance(draw, Poisson):  # which says how many batches there are
        settings["sample_rate" if isinstance(draw, float) else "sampling"] = draw
    settings["steps"] = steps
    if run.group is not None:
        settings["group"] = run.group
    elif run.group_size > 1:
        settings["group_size"] = run.group_size
    if run.adjacency != "add_remove":
        settings["adjacency"] = run.adjacency
    if run.tolerance != DEFAULT_TOLERANCE:
        settings["tolerance"] = run.tolerance
    return f"hs.privacy_curve({_arguments(settings)})"


def _tradeoff_curve(curve: TradeoffCurve) -> str:
    stack: list[str] = []
    for operation, curves, arguments in steps_of(curve._recipe):
        if not curves:
            stack.append(_leaf(operation, arguments))
            continue
        others = [stack.pop() for _ in range(curves - 1)]
        first = stack.pop()
        if operation == "repeat":
            stack.append(f"({first} * {arguments[0]})")
        else:
            stack.append(f"{first}.{operation}({', '.join([*others, *map(repr, arguments)])})")
    (whole,) = stack
    return whole


def _leaf(operation: str, arguments: tuple[Any, ...]) -> str:
    if operation == "shuffle":
        function, sampling, named = arguments
        return f"hs.shuffle.{function.__name__}({_value(sampling)}, {_arguments(dict(named))})"
    inside = (
        _privacy_curve(value) if isinstance(value, PrivacyCurve) else repr(value) for value in arguments
    )
    return f"hs.TradeoffCurve.{operation}({', '.join(inside)})"


def _history(segments: Iterable[AnySegment]) -> str:
    parts = [f"({_value(noise)}, {_value(draw)}, {steps})" for noise, draw, steps in segments]
    return f"[{', '.join(parts)}]"


def _arguments(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in settings.items())


def _value(value: object) -> str:
    """`value` in Python; mechanisms, schemes and groups are those of this package."""
    known = type(value).__module__.partition(".")[0] == "hockeystick"
    return f"hs.{value!r}" if known else repr(value)
