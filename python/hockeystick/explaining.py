"""What a guarantee assumes, and what it would be under other assumptions: for a model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hockeystick._arguments import count_scalar, float_scalar, require
from hockeystick._comparison import BOUNDS, compared, status
from hockeystick._core import __version__
from hockeystick._rounding import rounded_up
from hockeystick._run import Run
from hockeystick.accountants.history import check_draw
from hockeystick.adjacency import ADVERSARY
from hockeystick.curve import privacy_curve
from hockeystick.groups import Group
from hockeystick.intervals import DEFAULT_TOLERANCE
from hockeystick.mechanisms import Mechanism, parameter_of
from hockeystick.sampling import LARGEST_DATASET, Poisson, Sampling

RELATIONS = {
    "add_remove": "the group's records are added or removed",
    "add": "the group's records are added",
    "remove": "the group's records are removed",
    "replace": "the group's records are replaced by as many others",
}


class Explanation(dict[str, Any]):
    """A guarantee with all that it assumes; printed, a text for a model card.

    Plain data but for how it prints: strings, numbers, lists and dicts, ready for ``json.dumps``. Its keys:
    "epsilon" and "lower" (the certified interval), "delta", "mechanism", "sampling", "adjacency",
    "group", "steps", "adversary", "status", "theorem", "bound", "certified",
    "other_schemes" and "disclosure".
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


def explain(
    *,
    delta: float,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    sampling: Sampling | None = None,
    steps: int,
    group_size: int = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
    dataset_size: int | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Explanation:
    """Epsilon of a run with everything that it assumes, and epsilon under the other assumptions.

    Parameters
    ----------
    delta : float
        In (0, 1).
    noise_multiplier, sample_rate, sampling, steps, group_size, group, adjacency, mechanism, tolerance
        As in `get_epsilon`, each a single value.
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

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = hs.explain(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    >>> print(run["statement"])
    (1.8283, 1e-05)-differential privacy for one record that is added or removed
    >>> for other in run["other_schemes"][:3]:
    ...     print(other["scheme"], round(other["epsilon"], 2))
    Poisson sampling, add or remove 1.83
    Poisson sampling, replace 2.84
    fixed batches, add or remove 13.36
    """
    level = float_scalar(delta, "delta")
    records = None if dataset_size is None else count_scalar(dataset_size, "dataset_size", 1, LARGEST_DATASET)
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
    require(curve.steps > 0, "steps", steps, "at least 1: a run without steps tells nothing")
    lower, upper = (float(end) for end in curve.bounds(delta=level))
    ((kind, _),) = curve.segments
    found = Explanation()
    size = kind.records
    unit = "one record" if size == 1 else f"a group of {size} records"
    scheme = sampling if sampling is not None else (Poisson(1.0 if sample_rate is None else sample_rate))
    drawn = repr(scheme)
    if kind.has_own_rates:
        several = "" if kind.microbatches == 1 else f", in each of {kind.microbatches} accumulated batches"
        drawn = f"each member at its own rate{several}"
    found["statement"] = (
        f"({rounded_up(upper)}, {level:g})-differential privacy for {unit} that "
        f"{'is' if size == 1 else 'are'} {CHANGED[adjacency]}"
    )
    found["epsilon"], found["lower"], found["delta"] = upper, lower, level
    found["mechanism"] = (
        repr(mechanism) if mechanism is not None else f"Gaussian({parameter_of(kind.noise):g})"
    )
    found["sampling"] = drawn
    found["adjacency"] = f"{adjacency}: {RELATIONS[adjacency]}"
    found["group"] = unit if group is None else f"{unit}: {group!r}"
    found["steps"] = curve.steps
    found["adversary"] = ADVERSARY
    found["status"] = status(curve)
    found["theorem"] = kind.pair.source
    found["bound"] = BOUNDS[str(curve.bound_used(delta=level))]
    subject = "the dominating pair" if found["bound"] == BOUNDS["pair"] else "this bound"
    found["certified"] = f"epsilon of {subject} lies in [{lower:.9g}, {upper:.9g}]"
    own = mechanism if mechanism is not None else kind.noise
    run = Run(
        ((own, check_draw(scheme, "sampling"), curve.steps),),
        size,
        group,
        adjacency,
        tolerance,
    )
    found["other_schemes"] = _others(run, level, records)
    found["disclosure"] = disclosure(found, unit)
    return found


CHANGED = {
    "add_remove": "added or removed",
    "add": "added",
    "remove": "removed",
    "replace": "replaced",
}


def _others(run: Run, delta: float, dataset_size: int | None) -> list[dict[str, Any]]:
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
    found.append(
        {
            "scheme": "shuffling (each record once an epoch)",
            "sampling": None,
            "adjacency": None,
            "epsilon": None,
            "status": None,
            "theorem": None,
            "note": "none of the numbers above is about it; hockeystick.shuffle bounds it against an "
            "adversary who knows every batch",
        }
    )
    return found


EXACT_ACCOUNTING = (
    f"exact privacy curve of the dominating pair, certified interval (hockeystick {__version__})"
)


def disclosure(found: Mapping[str, Any], unit: str) -> dict[str, str]:
    """Return the list of Ponomareva et al. 2023, section 5.3.3."""
    return {
        "setting": "central differential privacy: a trusted trainer adds the noise",
        "data accesses covered": f"the {found['steps']} steps of training alone; tuning and other uses of "
        "the data are not counted (please state them)",
        "what is released": "anything computed from the noisy sums, all checkpoints included: "
        f"{found['adversary']}",
        "unit of privacy": unit,
        "neighbouring relation": found["adjacency"],
        "type of accounting": found.get("accounting", EXACT_ACCOUNTING),
        "accounting assumptions": f"{found['sampling']}, {found['mechanism']}, contributions of norm at most "
        "the clipping norm; hockeystick.opacus.check_loader tells whether the loader draws so (state it)",
        "formal statement": f"{found['statement']}; {found['status']}; {found['theorem']}",
        "verifiability": "the code and the arguments that give this number (please link them)",
    }
