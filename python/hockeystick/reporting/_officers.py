"""Sections of a report for who signs it: verdict, who is protected, what is not covered, and the form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hockeystick._rounding import rounded_up
from hockeystick.reporting._cited import REFERENCES
from hockeystick.reporting._document import Block, Paragraph, Points, Section, Table

NOT_COVERED = (
    "Other uses of the same data: training runs that were tried to find settings, earlier or "
    "later models, and statistics that were published. Each spends privacy of its own, and what "
    "they spend adds up.",
    "Whether the training code does what this report assumes: that it draws batches as stated, "
    "clips every contribution, and adds the stated noise from a sound source of random numbers.",
    "What the model learns about everybody. A fact that holds for a whole population can be "
    "learned, and applied to a person whose data were never used.",
    "Data of a person that reach the training outside of that person's own records, for instance "
    "in the records of somebody else.",
)


BLANK = "_" * 30
"""A line of a form to be filled in by hand."""


def one_in(delta: float) -> str:
    """Return a small probability as "1 in 100,000" where it is one over a whole number, else as a number."""
    whole = round(1.0 / delta)
    if 1 < whole <= 10**15 and abs(1.0 / whole - delta) <= 1e-12 * delta:
        return f"1 in {whole:,}"
    return f"{delta:.6g}"


def protected(unit: str, records: int) -> str:
    """Return who is protected: a person with several records, or the unit as it is."""
    return unit if records == 1 else f"any person with at most {records} records"


def verdict(epsilon: float, delta: float, target: float | None) -> list[Section]:
    """Return the verdict against a target, in a sentence; nothing without a target.

    Parameters
    ----------
    epsilon : float
        What is guaranteed.
    delta : float
        At which delta.
    target : float or None
        What epsilon should not exceed.
    """
    if target is None:
        return []
    shown, at = rounded_up(epsilon), f"at a failure probability of {one_in(delta)}"
    words = (
        f"The target is met: epsilon is {shown}, and should not exceed {target:g}, {at}."
        if epsilon <= target
        else f"The target is NOT met: epsilon is {shown}, and should not exceed {target:g}, {at}."
    )
    return [Section("Verdict", [Paragraph(words)])]


def protection(who: str, records: int, larger: tuple[int, str] | None) -> Section:
    """Return who is protected and who is not.

    Parameters
    ----------
    who : str
        The unit in words.
    records : int
        Records of the unit.
    larger : (int, str) or None
        A larger number of records, and the epsilon for it.
    """
    beyond = "one record" if records == 1 else f"{records} records"
    less = f"Protected less: a person with more than {beyond} in the data."
    if larger is not None:
        less += f" For {larger[0]} records epsilon is {larger[1]}."
    items = (f"Protected: {who}, as far as the number above says.", less)
    return Section("Who is protected, and who is not", [Points(items)])


def limits() -> Section:
    """Return what no privacy guarantee of a training run covers."""
    return Section("What is not covered", [Points(NOT_COVERED)])


def signature(fields: Mapping[str, str]) -> Section:
    """Return the form to sign: what is given, and empty lines for what is not and for the signature."""
    rows = [(name, text or BLANK) for name, text in {**fields, "signature": ""}.items()]
    return Section("Responsibility", [Table((), tuple(rows))])


def references(sections: Iterable[Section]) -> Section:
    """Return in full what some sections cite."""
    said = "\n".join(text for section in sections for block in section.blocks for text in _texts(block))
    cited = [(name, full) for name, full in REFERENCES.items() if name in said]
    return Section("References", [Table((), tuple(cited))] if cited else [])


def _texts(block: Block) -> Sequence[str]:
    if isinstance(block, Paragraph):
        return (block.text,)
    if isinstance(block, Points):
        return block.items
    if isinstance(block, Table):
        return [cell for row in block.rows for cell in row]
    return ()
