"""A report for programs: what registries of deployments ask for, and what no accountant can see."""

from __future__ import annotations

import json
import math
from typing import Any

from hockeystick._core import __version__
from hockeystick._guarantees.guarantee import warnings_left_out
from hockeystick.reporting._certified import fields_of
from hockeystick.reporting._contents import Question, facts_of

FORMAT, VERSION = "hockeystick-report", 1

UNSEEN = (
    ("dataset_size_is_public", "Is the number of records public? Rates that are computed from it reveal it."),
    ("normaliser_is_public", "Is the sum divided by a public number, not by the size of the batch?"),
    ("sampler_is_as_described", "Did the loader draw batches in the way stated under sampling?"),
    ("clipping_is_as_described", "Was every record clipped to the norm that noise is relative to?"),
    ("noise_is_exact", "Has the sampler of noise no floating-point artefacts, and a secure generator?"),
    ("tuning_is_counted", "Were hyper-parameters chosen without the data, or are tuning runs composed too?"),
    ("augmentation_is_per_record", "Are augmented copies of a record one record to clipping and sampling?"),
    ("preprocessing_is_public", "Were vocabularies, statistics and filters computed without the data?"),
    ("unit_is_the_person", "Does one person have no more records than the unit of the guarantee?"),
    ("other_releases", "Are all releases from the same data composed with this one?"),
)  # fmt: skip
"""Questions that no accountant can answer. Each answer is yours, and null until `details` has it."""


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
                "delta_and_records": _delta_in_words(question),
                "assumptions_an_accountant_cannot_see": unseen,
            },
        }
        found["deployment"]["details"] = details
    return json.dumps(found, indent=1, allow_nan=False, default=str) + "\n"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _delta_in_words(question: Question) -> str:
    size = question.dataset_size
    if size is None:
        return "the number of records is not known to this report"
    if question.delta * size < 1.0:
        return f"delta is below 1/{size}"
    return f"delta is NOT below 1/{size}: a mechanism that publishes a record may satisfy it"
