"""A report about a curve or an accountant, in one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import PrivacyCurve, Run, Shuffle, ShuffledCurve, WithoutReplacement, privacy_curve
from hockeystick._arguments import LARGEST_DATASET, count_array, count_scalar, float_scalar, require, text
from hockeystick._atomic import write_atomically
from hockeystick._guarantees.guarantee import (
    ExactGuarantee,
    Guarantee,
    ShuffledGuarantee,
    guarantee_of,
    warnings_left_out,
)
from hockeystick._vocabulary.spelling import spelled
from hockeystick.accountants import Accountant, IndividualAccountant, ShuffleAccountant
from hockeystick.errors import UnsupportedError
from hockeystick.reporting._certified import Proof, proof_of, proven
from hockeystick.reporting._contents import FORM, TITLE, Question, document_of
from hockeystick.reporting._html import to_html
from hockeystick.reporting._machine import to_json
from hockeystick.reporting._markdown import to_markdown
from hockeystick.tradeoff import TradeoffCurve

GROUP_SIZES = (1, 2, 4, 8, 16, 32)
"""Group sizes of a report by default; each takes another curve."""
SUFFIXES = (".html", ".htm", ".md", ".json")


@spelled
def report(
    curve_or_accountant: Run | PrivacyCurve | ShuffledCurve | TradeoffCurve | Accountant,
    path: str | os.PathLike[str] = "privacy.html",
    *,
    delta: float = 1e-5,
    group_sizes: ArrayLike | None = None,
    dataset_size: int | None = None,
    target: float | None = None,
    title: str = TITLE,
    details: Mapping[str, object] | None = None,
    pictures: bool = True,
    certified: bool = False,
    model: str | None = None,
    dataset: str | None = None,
    responsible: str | None = None,
    date: str | None = None,
) -> Path:
    """Write a report: the guarantee in plain words, what it assumes, and how to get the same numbers.

    Parameters
    ----------
    curve_or_accountant : Run, PrivacyCurve, ShuffledCurve, TradeoffCurve or Accountant
        Of at least one step. With a `Run` the report quotes the hash of its facts. Of an
        `IndividualAccountant` the report says what holds for every example, whatever its norms: nothing in it
        depends on them.
    path : str or path-like, optional
        File to write, in a folder that exists: ``.html`` for one page with pictures that needs nothing
        else, ``.md`` for text and tables, ``.json`` for programs: the fields that registries of deployments
        ask for, and questions about what no accountant can see, whose answers `details` gives under their
        names. An existing file is replaced, at once and as a whole;
        a symbolic link is followed.
    delta : float, optional
        In (0, 1).
    group_sizes : array_like of int, shape (n,), optional
        Group sizes whose epsilon is reported, ascending; by default 1 to 32. What a `TradeoffCurve` implies
        for groups is reported only if asked for, as it can take long.
    dataset_size : int, optional
        Number of records: for other ways of drawing batches, and to say whether delta is small enough. By
        default that of the sampling or the accountant, where they have one.
    target : float, optional
        Epsilon above 0 that the run should not exceed: the report says whether it is met, and draws a line in
        the picture of the budget.
    title : str, optional
        Heading of the report.
    details : mapping of str to anything, optional
        Further hyper-parameters to disclose, such as the clipping norm or the learning rate.
    pictures : bool, optional
        Whether to draw; without pictures Matplotlib is not needed.
    certified : bool, optional
        Whether to have epsilon proven by the independent checker, to state the proven epsilon, which is a
        little larger, and to attach the certificate. If the proof fails, the report says so first. Needs the
        extra "verify", and a run that the checker covers.
    model, dataset, responsible, date : str, optional
        For the form that the responsible person signs: what was trained, on which data, who answers for
        it, and when. What is left out is an empty line.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ValueError
        If an argument is out of range, the run has no steps, or `path` is a folder, lies in a folder that
        does not exist or has another suffix. Nothing is written then.
    TypeError
        If an argument has the wrong type.
    ImportError
        If Matplotlib is needed and not installed, or the checker.
    UnsupportedError
        If `certified` is true and there is no certificate of this guarantee.

    Warns
    -----
    WideIntervalWarning
        If the certified interval of epsilon is wider than the tolerance.

    Notes
    -----
    Numbers are rounded to the safe side. The same arguments give the same file with the same versions of
    hockeystick, NumPy, Matplotlib and Python. What to disclose is from Ponomareva et al. 2023, "How to
    DP-fy ML", section 5.3.3.

    References
    ----------
    N. Ponomareva et al., "How to DP-fy ML: A Practical Guide to Machine Learning with Differential Privacy",
    Journal of Artificial Intelligence Research 77, 2023. arXiv:2303.00654. P. Nanayakkara, E. Ghazi and
    S. Vadhan, "Practitioners' Perspectives on a Differential Privacy Deployment Registry", 2025,
    arXiv:2509.13509. J. Near, D. Darais, N. Lefkovitz and G. Howarth, "Guidelines for Evaluating
    Differential Privacy Guarantees", NIST SP 800-226, 2025.

    Examples
    --------
    >>> import hockeystick as hs
    >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    >>> hs.report(curve, "privacy.html", dataset_size=60_000).name  # doctest: +SKIP
    'privacy.html'
    """
    file = _check_path(path)
    if isinstance(curve_or_accountant, Run):
        details = {**(details or {}), "run (sha256)": curve_or_accountant.sha256}
        dataset_size = curve_or_accountant.dataset_size if dataset_size is None else dataset_size
        curve_or_accountant = privacy_curve(curve_or_accountant)
    guarantee = guarantee_of(curve_or_accountant)
    level = float_scalar(delta, "delta")
    require(0.0 < level < 1.0, "delta", level, "in (0, 1)")
    steps = guarantee.run.steps if guarantee.run is not None else 1
    require(steps >= 1, "steps", steps, "at least 1: a run without steps reveals nothing")
    limit = None if target is None else float_scalar(target, "target")
    require(limit is None or 0.0 < limit < float("inf"), "target", target, "in (0, inf)")
    form = {"model": model, "dataset": dataset, "responsible": responsible, "date": date}
    sizes = _check_group_sizes(group_sizes, guarantee)
    records = _check_dataset_size(dataset_size, curve_or_accountant, guarantee)
    named, noted = text(title, "title"), _check_details(details)
    signed = {row: text(value, name) for row, name in FORM.items() if (value := form[name]) is not None}
    guarantee, proof = _proven(guarantee, level) if certified else (guarantee, None)  # last: it takes longest
    question = Question(
        curve_or_accountant,
        guarantee,
        level,
        sizes,
        records,
        limit,
        named,
        noted,
        file.name,
        bool(pictures),
        proof,
        signed,
    )
    if file.suffix == ".json":
        written = to_json(question)
    else:
        document = document_of(question)
        is_text = file.suffix == ".md"
        written = to_markdown(document) if is_text else to_html(document, pictures=question.pictures)
    write_atomically(file, written.encode("utf-8"), private=False)
    return file


def _check_path(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a string or path-like, got {type(path).__name__}")
    file = Path(os.fsdecode(path))
    require(not file.is_dir(), "path", file, "a file, not an existing folder")
    require(file.suffix in SUFFIXES, "path", file, f"a name that ends with one of {', '.join(SUFFIXES)}")
    require(file.parent.is_dir(), "path", file, "in a folder that exists")
    return file


def _proven(guarantee: Guarantee, delta: float) -> tuple[Guarantee, Proof]:
    """Have epsilon proven, and return the guarantee with what is proven."""
    if not isinstance(guarantee, ExactGuarantee | ShuffledGuarantee):
        raise UnsupportedError(
            "certificates are about exact privacy curves and intervals of shuffled batches: use "
            "certified=False, or report a PrivacyCurve, a ShuffledCurve or a GroupAccountant"
        )
    with warnings_left_out():
        proof = proof_of(guarantee, delta)
    return proven(guarantee, delta, proof), proof


def _check_group_sizes(value: ArrayLike | None, guarantee: Guarantee) -> tuple[int, ...]:
    if value is None:
        # Trade-off functions of groups can take long, and nothing is known if members differ.
        alone = guarantee.run is None or guarantee.run.group is not None
        return tuple(sorted({*(() if alone else GROUP_SIZES), guarantee.group_size}))
    sizes = count_array(value, "group_sizes", 1)
    require(sizes.ndim == 1 and sizes.size >= 1, "group_sizes", sizes.tolist(), "at least one size")
    require(bool(np.all(np.diff(sizes) > 0)), "group_sizes", sizes.tolist(), "ascending")
    return tuple(sizes.tolist())


def _check_dataset_size(value: int | None, source: Any, guarantee: Guarantee) -> int | None:
    if value is not None:
        return count_scalar(value, "dataset_size", 1, LARGEST_DATASET)
    if isinstance(source, IndividualAccountant):
        return source.dataset_size
    if isinstance(source, ShuffleAccountant):
        return source.sampling.dataset_size
    draws = () if guarantee.run is None else (draw for _, draw, _ in guarantee.run.segments)
    sizes = {draw.dataset_size for draw in draws if isinstance(draw, WithoutReplacement | Shuffle)}
    return sizes.pop() if len(sizes) == 1 else None


def _check_details(details: object) -> dict[str, str]:
    if details is None:
        return {}
    if not isinstance(details, Mapping):
        raise TypeError(f"details must be a mapping, got {type(details).__name__}")
    return {text(name, "a name in details"): str(value) for name, value in details.items()}
