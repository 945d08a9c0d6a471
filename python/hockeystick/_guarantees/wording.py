"""Names of neighbouring relations, and the facts to disclose with a guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hockeystick._core import __version__
from hockeystick._vocabulary.adjacency import ADVERSARY, ZERO_OUT

__all__ = ["ADVERSARY", "CHANGED", "NORMALISER", "RELATIONS", "ZERO_OUT", "disclosure"]

RELATIONS = {
    "add_remove": "the group's records are added or removed",
    "add": "the group's records are added",
    "remove": "the group's records are removed",
    "replace": "the group's records are replaced by as many others",
    "zero_out": "the gradients of the group's records are replaced by 0",
}
"""The change of the records of a group, by adjacency."""

CHANGED = {
    "add_remove": "added or removed",
    "add": "added",
    "remove": "removed",
    "replace": "replaced",
    "zero_out": "zeroed out",
}
"""Participle for each adjacency, as in "one record that is added or removed"."""

EXACT_ACCOUNTING = (
    f"exact privacy curve of the dominating pair, certified interval (hockeystick {__version__})"
)


NORMALISER = (
    "the noisy sums are divided by numbers that are public: an expected batch size that is computed from the "
    "number of records reveals that number, which differs between data sets with and without the group"
)
"""Assumption of add/remove guarantees: what noisy sums are divided by must not depend on private data."""


def disclosure(found: Mapping[str, Any], unit: str) -> dict[str, str]:
    """Return the list of Ponomareva et al. 2023, section 5.3.3."""
    same_size = str(found["adjacency"]).startswith(("replace", "zero_out"))
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
        "the clipping norm; hockeystick.opacus.check_loader tells whether the loader draws so (state it)"
        + ("" if same_size else f"; {NORMALISER}"),
        "formal statement": f"{found['statement']}; {found['status']}; {found['theorem']}",
        "verifiability": "the code and the arguments that give this number (please link them)",
    }
