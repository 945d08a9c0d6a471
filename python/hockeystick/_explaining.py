"""The assumptions of a guarantee, and the guarantee under other assumptions: for a model card."""

from __future__ import annotations

from typing import Any

from hockeystick import (
    BatchClipping,
    Group,
    Poisson,
    PrivacyCurve,
    Run,
    Shuffle,
    WithoutReplacement,
    get_epsilon,
    privacy_curve,
)
from hockeystick._arguments import DEFAULT_TOLERANCE, LARGEST_DATASET, count_scalar, float_scalar, require
from hockeystick._guarantees.comparison import (
    BOUNDS,
    INTERVAL_SOURCE,
    INTERVAL_STATUS,
    compared,
    enclosed,
    status,
)
from hockeystick._guarantees.recorded_run import RecordedRun
from hockeystick._guarantees.wording import ADVERSARY, CHANGED, RELATIONS, disclosure
from hockeystick._rounding import rounded_up
from hockeystick._vocabulary.configuration import in_own_terms
from hockeystick._vocabulary.mechanisms import Mechanism, check_mechanism, parameter_of
from hockeystick._vocabulary.sampling import Sampling
from hockeystick._vocabulary.step_kinds import StepKind
from hockeystick.accountants._adaptors import check_draw


class Explanation(dict[str, Any]):
    """A guarantee with all that it assumes; printed, a text for a model card.

    Plain data but for how it prints: strings, numbers, lists and dicts, ready for ``json.dumps``. Its keys:
    "epsilon" and "lower" (the certified interval), "delta", "mechanism", "sampling", "adjacency",
    "group", "steps", "adversary", "status", "theorem", "bound", "certified",
    "other_schemes" and "disclosure".

    Examples
    --------
    >>> import hockeystick as hs
    >>> found = hs.explain(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    >>> isinstance(found, hs.Explanation), found["steps"], f"{found['epsilon']:.4f}"
    (True, 1000, '1.8282')
    """

    def __str__(self) -> str:
        lines = [
            self["statement"],
            "",
            "What this assumes",
            *(f"  {name}: {self[name]}" for name in _ASSUMPTIONS),
            "",
            "The same noise and steps under other assumptions",
        ]
        width = max(len(other["scheme"]) for other in self["other_schemes"])
        for other in self["other_schemes"]:
            epsilon = "not covered" if other["epsilon"] is None else f"epsilon {rounded_up(other['epsilon'])}"
            note = f" ({other['note']})" if other["note"] else ""
            lines.append(f"  {other['scheme']:<{width}}  {epsilon}{note}")
        lines += ["", "To be disclosed with the guarantee (Ponomareva et al. 2023, section 5.3.3)"]
        lines += [f"  {name}: {text}" for name, text in self["disclosure"].items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        # An interpreter that is asked for an explanation shows the text; dict(explanation) shows the keys.
        return str(self)

    def _repr_markdown_(self) -> str:
        return f"```text\n{self}\n```"


_ASSUMPTIONS = (
    "mechanism",
    "sampling",
    "adjacency",
    "group",
    "steps",
    "adversary",
    "status",
    "theorem",
    "bound",
    "certified",
)


@in_own_terms(keeps="dataset_size")
def explain(
    run: Run | None = None,
    *,
    delta: float,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    sampling: Sampling | Shuffle | str | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    batch_size: float | None = None,
    dataset_size: int | None = None,
    group_size: int = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Explanation:
    """Epsilon of a run with everything that it assumes, and epsilon under the other assumptions.

    Parameters
    ----------
    run : Run, optional
        A run in the terms of the training script, as in `get_epsilon`.
    delta : float
        In (0, 1).
    noise_multiplier, sample_rate, sampling, steps, group_size, group, adjacency, mechanism, tolerance
        As in `get_epsilon`, each a single value.
    epochs, batch_size : float, optional
        As in `get_epsilon`, in place of `steps` and `sample_rate`.
    dataset_size : int, optional
        Number of records, to compare Poisson sampling with fixed batches. By default that of
        `sampling`, or a large one.

    Returns
    -------
    Explanation
        A dict that prints as text for a model card.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type, is missing or excludes another one.
    UnsupportedError
        If the combination has no proven dominating pair.

    Warns
    -----
    WideIntervalWarning
        If the interval of the run itself is wider than `tolerance`.

    Notes
    -----
    Ponomareva et al. 2023, "How to DP-fy ML", section 5.3.3, asks for the setting, the data that are
    covered, what is released, the unit of privacy, the neighbouring relation, the type of accounting,
    its assumptions and whether they hold, and the parameters. What only the user can know is marked so.

    References
    ----------
    N. Ponomareva et al., "How to DP-fy ML: A Practical Guide to Machine Learning with Differential Privacy",
    Journal of Artificial Intelligence Research 77, 2023. arXiv:2303.00654

    Examples
    --------
    >>> import hockeystick as hs
    >>> told = hs.explain(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    >>> print(told["statement"])
    (1.8283, 1e-05)-differential privacy for one record that is added or removed
    >>> for other in told["other_schemes"][:3]:
    ...     print(other["scheme"], round(other["epsilon"], 2))
    Poisson sampling, add or remove 1.83
    Poisson sampling, replace 2.84
    fixed batches, add or remove 13.36
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    level = float_scalar(delta, "delta")
    if mechanism is not None:
        check_mechanism(mechanism)
    records = None if dataset_size is None else count_scalar(dataset_size, "dataset_size", 1, LARGEST_DATASET)
    if isinstance(sampling, Shuffle):
        arguments: dict[str, Any] = {
            "noise_multiplier": noise_multiplier,
            "sample_rate": sample_rate,
            "steps": count_scalar(steps, "steps", 1),
            "group_size": group_size,
            "group": group,
            "adjacency": adjacency,
            "mechanism": mechanism,
            "tolerance": tolerance,
        }
        return _of_shuffled(sampling, level, arguments)
    noise: dict[str, Any] = {"noise_multiplier": noise_multiplier, "mechanism": mechanism}
    members: dict[str, Any] = {"group_size": group_size, "group": group}
    curve = privacy_curve(
        sample_rate=sample_rate,
        sampling=sampling,
        steps=steps,
        adjacency=adjacency,
        tolerance=tolerance,
        **noise,
        **members,
    )
    require(curve.steps > 0, "steps", steps, "at least 1: a run without steps reveals nothing")
    scheme = sampling if sampling is not None else Poisson(1.0 if sample_rate is None else sample_rate)
    ((kind, _),) = curve.segments
    size = kind.records
    if isinstance(mechanism, BatchClipping):  # of which a step of one record is the account
        size = count_scalar(group_size, "group_size", 1) if group is None else group.size
    unit = "one record" if size == 1 else f"a group of {size} records"
    found = Explanation()
    found.update(_interval(curve, level, unit, adjacency))
    found["mechanism"] = (
        repr(mechanism) if mechanism is not None else f"Gaussian({parameter_of(kind.noise):g})"
    )
    found["sampling"] = _sampling(kind, scheme)
    found["adjacency"] = f"{adjacency}: {RELATIONS[adjacency]}"
    found["group"] = unit if group is None else f"{unit}: {group!r}"
    found["steps"] = curve.steps
    found["adversary"] = ADVERSARY
    found.update(_evidence(curve, level, found["lower"], found["epsilon"]))
    own = mechanism if mechanism is not None else kind.noise
    steps_so_far = ((own, check_draw(scheme, "sampling"), curve.steps),)
    recorded = RecordedRun(steps_so_far, size, group, curve.adjacency, tolerance)
    found["other_schemes"] = _others(recorded, level, records)
    found["disclosure"] = disclosure(found, unit)
    return found


def _of_shuffled(sampling: Shuffle, delta: float, arguments: dict[str, Any]) -> Explanation:
    """Return the explanation of a run with shuffled batches, of which an interval is known."""
    lower, upper = map(float, get_epsilon(delta=delta, sampling=sampling, bounds=True, **arguments))
    group, mechanism, adjacency = (arguments[name] for name in ("group", "mechanism", "adjacency"))
    records = arguments["group_size"] if group is None else group.size
    unit = "one record" if records == 1 else f"a group of {records} records"
    own = float(arguments["noise_multiplier"] if mechanism is None else mechanism.noise_multiplier)
    verb = "is" if records == 1 else "are"
    found = Explanation()
    found["statement"] = (
        f"({rounded_up(upper)}, {delta:g})-differential privacy for {unit} that {verb} {CHANGED[adjacency]}"
    )
    found.update(epsilon=upper, lower=lower, delta=delta)
    found["mechanism"] = f"Gaussian({own:g})"
    found["sampling"] = repr(sampling)
    found["adjacency"] = f"{adjacency}: {RELATIONS[adjacency]}"
    found["group"] = unit
    found["steps"] = arguments["steps"]
    found["adversary"] = ADVERSARY
    found["status"] = INTERVAL_STATUS
    found["theorem"] = INTERVAL_SOURCE
    found["bound"] = "no amplification by sampling"
    found["certified"] = f"epsilon of the run lies in [{lower:.9g}, {upper:.9g}]"
    found["accounting"] = "certified interval for shuffled batches"
    draw = WithoutReplacement(sampling.batch_size, sampling.dataset_size)
    run = RecordedRun(((own, draw, found["steps"]),), records, None, "add_remove", arguments["tolerance"])
    found["other_schemes"] = _others(run, delta, sampling.dataset_size)
    found["disclosure"] = disclosure(found, unit)
    return found


def _interval(curve: PrivacyCurve, delta: float, unit: str, adjacency: str) -> dict[str, Any]:
    """Return the guarantee in one sentence, and the certified interval of epsilon."""
    lower, upper = (float(end) for end in curve.bounds(delta=delta))
    verb = "is" if unit == "one record" else "are"
    statement = (
        f"({rounded_up(upper)}, {delta:g})-differential privacy for {unit} that {verb} {CHANGED[adjacency]}"
    )
    return {"statement": statement, "epsilon": upper, "lower": lower, "delta": delta}


def _sampling(kind: StepKind, scheme: Sampling) -> str:
    """Return how batches are drawn, for members with rates of their own too."""
    if not kind.has_own_rates:
        return repr(scheme)
    several = "" if kind.microbatches == 1 else f", in each of {kind.microbatches} accumulated batches"
    return f"each member at its own rate{several}"


def _evidence(curve: PrivacyCurve, delta: float, lower: float, upper: float) -> dict[str, str]:
    """Return by which theorem the guarantee holds, and how closely it is known."""
    ((kind, _),) = curve.segments
    bound = BOUNDS[str(curve.bound_used(delta=delta))]
    about = "the dominating pair" if bound == BOUNDS["pair"] else "this bound"
    return {
        "status": status(curve),
        "theorem": kind.pair.source,
        "bound": bound,
        "certified": f"epsilon of {about} lies in [{lower:.9g}, {upper:.9g}]",
    }


def _others(run: RecordedRun, delta: float, dataset_size: int | None) -> list[dict[str, Any]]:
    """Epsilon under every scheme and relation, with the same noise."""
    found = [
        {
            "scheme": entry.scheme,
            "sampling": entry.sampling,
            "adjacency": entry.relation,
            "epsilon": entry.epsilon,
            "status": entry.status,
            "theorem": entry.theorem,
            "note": entry.note,
        }
        for entry in compared(run, delta, dataset_size)
    ]
    return [*found, _shuffling(run, delta, dataset_size)]


def _shuffling(run: RecordedRun, delta: float, dataset_size: int | None) -> dict[str, Any]:
    """Return the interval of shuffled batches, where it is known, beside what Poisson accounting claims."""
    entry = enclosed(run, delta, dataset_size)
    none_of_these = (
        "none of the numbers above is about it; hockeystick.shuffle bounds it against an adversary "
    )
    return {
        "scheme": "shuffling (each record once an epoch)",
        "sampling": None if entry is None else entry.sampling,
        "adjacency": None if entry is None else entry.relation,
        "epsilon": None if entry is None else entry.epsilon,
        "status": None if entry is None else entry.status,
        "theorem": None if entry is None else entry.theorem,
        "note": none_of_these + "who knows every batch" if entry is None else entry.note,
    }
