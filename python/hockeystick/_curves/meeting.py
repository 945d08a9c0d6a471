"""Which search finds the number with which a run meets a target: one choice for all planners."""

from __future__ import annotations

from typing import Any

from hockeystick._curves.clipped_planning import plan_clipped
from hockeystick._curves.risk import Target, search
from hockeystick._curves.shuffled_planning import plan_shuffled
from hockeystick._curves.solving import solve
from hockeystick._vocabulary.configuration import configure
from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick._vocabulary.sampling import Shuffle


def value_that_meets(unknown: str, target: Target, known: dict[str, Any], **how: Any) -> Any:
    """Return the value of the unknown with which a run meets a target.

    Parameters
    ----------
    unknown : {"noise_multiplier", "sample_rate", "steps", "group_size"}
        What is looked for.
    target : Target
        What has to be met.
    known : dict
        The other arguments, as `privacy_curve` takes them; numbers may be arrays.
    **how
        `bounds`, `tolerance` and `executor`, as in `get_epsilon`.
    """
    mechanism, shuffled = known.get("mechanism"), isinstance(known.get("sampling"), Shuffle)
    if isinstance(mechanism, BatchClipping) and unknown != "steps" and not shuffled:
        return plan_clipped(unknown, mechanism, target, known, **how)
    if shuffled and target.is_point:
        return plan_shuffled(unknown, epsilon=target.epsilon, delta=target.delta, **known, **how)
    if not shuffled:
        of_step = {name: value for name, value in known.items() if name != "steps"}
        of_step["adjacency"] = target.adjacency(known["adjacency"])
        step = configure(**of_step, unknown="" if unknown == "steps" else unknown)
    if not target.is_point:
        return search(unknown, target, known, bounds=how["bounds"], tolerance=how["tolerance"])
    steps = {} if unknown == "steps" else {"steps": known["steps"]}
    return solve(unknown, step, **steps, epsilon=target.epsilon, delta=target.delta, **how)
