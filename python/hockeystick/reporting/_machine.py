"""A report for programs: what registries of deployments ask for, and what no accountant can see.

`registry` has the fields of the public registry of deployments, and `hazards` the terms of NIST SP 800-226.
"""

from __future__ import annotations

import json
import math
from typing import Any

from hockeystick._core import __version__
from hockeystick._guarantees.guarantee import warnings_left_out
from hockeystick.reporting._certified import fields_of
from hockeystick.reporting._contents import Question, facts_of
from hockeystick.reporting._hazards import SOURCE, UNSEEN, delta_in_words, hazards_of
from hockeystick.reporting._registry import entry_of

FORMAT, VERSION = "hockeystick-report", 1
"""By which programs know the file; the version changes when an entry changes its meaning."""


def to_json(question: Question) -> str:
    """Return the report as a JSON text.

    Numbers are upper bounds where the text report rounds up; infinity is null.
    """
    facts = facts_of(question)
    run, guarantee = question.guarantee.run, question.guarantee
    known = dict(facts.assumptions)
    details = dict(question.details)
    unseen = {name: {"question": words, "answer": details.pop(name, None)} for name, words in UNSEEN}
    with warnings_left_out():
        found: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "made_by": f"hockeystick {__version__}",
            "deployment": {"title": question.title, "records": question.dataset_size},
            "guarantee": {
                "flavour": "(epsilon, delta)-differential privacy",
                "statement": facts.statement,
                "epsilon": _finite(facts.upper),
                "epsilon_at_least": _finite(facts.lower),
                "delta": question.delta,
                "privacy_unit": facts.unit,
                "neighbours": None if run is None else run.adjacency,
            },
            "model": {
                "trust": details.pop("trust", None),
                "adversary": known.get("adversary"),
                "releases": "the output of every step",
            },
            "mechanism": {
                "noise": known.get("mechanism"),
                "sampling": known.get("sampling"),
                "steps": None if run is None else run.steps,
                "group_size": guarantee.group_size,
            },
            "accounting": {
                "status": known.get("status"),
                "theorem": known.get("theorem"),
                "interval": known.get("certified"),
                "independently_verified": fields_of(question.proof),
            },
            "hazards": {
                "arithmetic": "epsilon counts the rounding of the accountant, not that of the run",
                "composition": "of all steps that are listed, adaptively",
                "unit_of_privacy": facts.unit,
                "delta_and_records": delta_in_words(question),
                "assumptions_an_accountant_cannot_see": unseen,
                "source": SOURCE,
                "terms": hazards_of(question, facts),
            },
            "registry": entry_of(question, facts),
        }
        found["deployment"]["details"] = details
    return json.dumps(found, indent=1, allow_nan=False, default=str) + "\n"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
