"""The hazards of NIST SP 800-226 in a report for programs: what an accountant says of each, and cannot see.

NIST Special Publication 800-226, Guidelines for Evaluating Differential Privacy Guarantees (March 2025,
doi:10.6028/NIST.SP.800-226), orders them as a pyramid and names practical ones under it.
"""

from __future__ import annotations

from typing import Any

from hockeystick._guarantees.wording import RELATIONS
from hockeystick._rounding import rounded_up
from hockeystick.reporting._contents import Facts, Question

SOURCE = "NIST SP 800-226"

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
    ("utility_is_measured", "Is the result good enough for its use, as measured without the private data?"),
    ("bias_is_measured", "Were errors compared between groups of people? Noise harms small groups most."),
    ("timing_is_hidden", "Can nobody outside measure how long a step takes?"),
    ("backend_is_silent", "Do errors, logs and files of the software below reveal nothing of the data?"),
    ("access_is_controlled", "Are the raw data, and outputs that are not published, kept from others?"),
    ("collection_is_minimal", "Is no more collected, and kept no longer, than the purpose needs?"),
)  # fmt: skip
"""Questions that no accountant can answer. Each answer is yours, and null until `details` has it."""

TRUST = ("trust", "Who holds the raw data and adds the noise: a curator, everybody their own, or a shuffler?")

TERMS: dict[str, tuple[str, ...]] = {
    "Privacy Parameters": (),
    "Unit of Privacy": ("unit_is_the_person", "augmentation_is_per_record"),
    "Bounded and Unbounded Differential Privacy": ("dataset_size_is_public", "normaliser_is_public"),
    "Mixing Differential Privacy With Other Data Releases": ("other_releases", "preprocessing_is_public"),
    "Algorithms and Correctness": ("sampler_is_as_described", "clipping_is_as_described"),
    "Utility": ("utility_is_measured",),
    "Bias": ("bias_is_measured",),
    "Query Models": (),
    "Trust Models": ("trust",),
    "Floating-Point Arithmetic": ("noise_is_exact",),
    "Timing Channels": ("timing_is_hidden",),
    "Backend Issues": ("backend_is_silent",),
    "Tuning Hyperparameters": ("tuning_is_counted",),
    "Data Security and Access Control": ("access_is_controlled",),
    "Data Collection Exposure": ("collection_is_minimal",),
}
"""The publication's own terms, in its order, and the questions that belong to each."""

BOUNDED = {"replace": "bounded", "zero_out": "bounded"}
"""Whether both data sets have as many records; where records are added or removed, they have not."""


def hazards_of(question: Question, facts: Facts) -> dict[str, Any]:
    """Return what the accountant says of each hazard, and the questions that are left, by its term.

    `seen` is "yes", "in part" or "no": whether an accountant can see the hazard.
    """
    words, answers = dict([*UNSEEN, TRUST]), _answers(question, facts)
    found = {}
    for term, names in TERMS.items():
        answer = answers.get(term)
        seen = "no" if answer is None else "in part" if names else "yes"
        asked = {name: {"question": words[name], "answer": question.details.get(name)} for name in names}
        found[term] = {"source": SOURCE, "seen": seen, "answer": answer, "questions": asked}
    return found


def _answers(question: Question, facts: Facts) -> dict[str, str]:
    """Return what an accountant can say, by term; the others it cannot see."""
    run, delta = question.guarantee.run, question.delta
    found = {
        "Privacy Parameters": f"epsilon is at most {rounded_up(facts.upper)} at delta = {delta:g}; "
        f"{delta_in_words(question)}",
        "Unit of Privacy": facts.unit,
        "Query Models": "the output of every step counts as released, and steps may depend on those before",
        "Algorithms and Correctness": _correctness(question, facts),
        "Floating-Point Arithmetic": "epsilon counts the rounding of the accountant, not that of the run",
    }
    if run is not None:
        kind = BOUNDED.get(run.adjacency, "unbounded")
        found["Bounded and Unbounded Differential Privacy"] = f"{kind}: {RELATIONS[run.adjacency]}"
    return found


def _correctness(question: Question, facts: Facts) -> str:
    """Return how far the number itself was proven and checked."""
    status = facts.assumptions.get("status", "the guarantee is that of the trade-off function")
    if question.proof is None:
        return f"{status}; not checked by another program"
    checked = "proven" if question.proof.verified else "NOT proven"
    return f"{status}; epsilon was {checked} by {question.proof.checker}"


def delta_in_words(question: Question) -> str:
    """Return how delta compares with one record of all."""
    size = question.dataset_size
    if size is None:
        return "the number of records is not known to this report"
    if question.delta * size < 1.0:
        return f"delta is below 1/{size}"
    return f"delta is NOT below 1/{size}: a mechanism that publishes a record may satisfy it"
