"""How the privacy of individual examples is distributed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import Floats, count_scalar, float_scalar, float_vector, require
from hockeystick._guarantees.guarantee import guarantee_of
from hockeystick._rounding import rounded_up
from hockeystick.accountants import Accountant
from hockeystick.plot._style import ORANGE, Axes, canvas, entitle, epsilon_label, ink, palette, paper

PERCENTILES = (30.0, 50.0, 70.0)
"""The percentiles of INDIVIDUAL, Figure 1."""

MAX_BINS = 100_000
"""Most bins of a histogram: more than it has pixels, so that a mistaken number does not fill the memory."""

ROOM = 0.85
"""Part of the axis in which the label of a line has room on its right, at a third of a page's width."""


def individual_histogram(
    accountant_or_epsilons: Any,
    delta: float | None = None,
    *,
    worst_case: float | None = None,
    percentiles: ArrayLike = PERCENTILES,
    bins: int = 50,
    title: bool | str = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a histogram of the epsilons of examples. The picture is private data: do not publish it.

    Whoever sees it learns about examples, by more than the guarantee of the training says. What may be
    published is made by `hockeystick.release`.

    Parameters
    ----------
    accountant_or_epsilons : IndividualAccountant or array_like, shape (n,)
        Where the epsilons come from: finite ones, at least one.
    delta : float, optional
        In (0, 1). Needed with an accountant, and otherwise only written at the axis.
    worst_case : float, optional
        Epsilon to mark by a solid line: what DP-SGD guarantees to every example, with all norms at the
        clipping norm. By default that of ``accountant.get_epsilon(delta)``; for numbers the largest.
    percentiles : array_like, optional
        Percentages in [0, 100] of examples whose largest epsilon is marked by a dashed line.
    bins : int, optional
        Number of bars, in [1, 100000].
    title : bool or str, optional
        True for a title that states the run of an accountant, or the text of one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, to change and to save from.

    Raises
    ------
    ValueError
        If an argument is out of range or missing, or an epsilon is not finite.
    TypeError
        If an argument has the wrong type.
    ImportError
        If Matplotlib is not installed.

    Notes
    -----
    INDIVIDUAL, Figure 1.

    References
    ----------
    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    Examples
    --------
    >>> import numpy as np
    >>> import hockeystick as hs
    >>> epsilons = np.random.default_rng(1).gamma(2.0, 0.5, size=1000)
    >>> hs.plot.individual_histogram(epsilons, worst_case=7.8).get_ylabel()  # doctest: +SKIP
    'examples'
    """
    epsilons, largest, label = _epsilons(accountant_or_epsilons, delta)
    if worst_case is not None:
        largest, label = float_scalar(worst_case, "worst_case"), "worst case"
    require(np.isfinite(largest), "worst_case", largest, "finite")
    shares = np.atleast_1d(np.asarray(percentiles, dtype=np.float64))
    bad = shares[~((shares >= 0.0) & (shares <= 100.0))]
    if bad.size:
        raise ValueError(f"percentiles must be in [0, 100], got {bad[0]}")
    number = count_scalar(bins, "bins", 1, MAX_BINS)
    with canvas(ax) as axes:
        low, high = float(epsilons.min()), max(largest, float(epsilons.max()))
        axes.hist(epsilons, bins=number, color=palette()[0], alpha=0.6, label=f"{len(epsilons):,} examples")
        for row, (share, place) in enumerate(zip(shares, np.percentile(epsilons, shares), strict=True)):
            axes.axvline(place, color=ORANGE, linestyle="--", linewidth=1.0)
            # Beside the top of the line, each a row further down than the one before; near the right end on
            # the left of the line, which would lead them out of the axes.
            fits = place < low + ROOM * (high - low)
            axes.annotate(
                f"{share:g} %",
                (place, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2 if fits else -2, -1 - 9 * row),
                textcoords="offset points",
                va="top",
                ha="left" if fits else "right",
                color=ink(),
                fontsize=7,
                bbox={"facecolor": paper(), "edgecolor": "none", "alpha": 0.8, "pad": 0.3},
            )
        axes.axvline(
            largest, color=ink(), linestyle="-", linewidth=1.0, label=f"{label}: {rounded_up(largest, 3)}"
        )
        axes.set_xlabel(epsilon_label(delta))
        axes.set_ylabel("examples")
        # Above the axes: lines go from their bottom to their top, wherever it stood within.
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, ncols=2)
        known = (
            guarantee_of(accountant_or_epsilons) if isinstance(accountant_or_epsilons, Accountant) else None
        )
        entitle(axes, title, known, above=True)
        return axes


def _epsilons(source: Any, delta: float | None) -> tuple[Floats, float, str]:
    """Epsilons, which one to mark, and what to call it."""
    if hasattr(source, "get_epsilons"):
        if delta is None:
            raise ValueError("delta must be given with an accountant")
        epsilons = float_vector(source.get_epsilons(delta), "epsilons")
        largest, label = float(source.get_epsilon(delta)), "worst case"
    else:
        epsilons = float_vector(source, "epsilons")
        largest, label = float(epsilons.max(initial=-np.inf)), "largest"
    require(epsilons.size >= 1, "epsilons", "none", "at least one number")
    finite = np.isfinite(epsilons)
    if not finite.all():
        raise ValueError(f"epsilons must be finite, got {epsilons[~finite][0]}")
    return epsilons, largest, label
