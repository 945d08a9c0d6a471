"""Rényi bounds that say what they are: which bound, for which queries, and whether it is attained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import Counts, Floats, choice, count_array, float_array, require_type, text
from hockeystick._vocabulary.sampling import WithoutReplacement
from hockeystick.renyi._drawing import Drawing

BOUNDS = ("exact", "jensen", "black_box", "lower")
KINDS = ("upper bound", "lower bound")

_ANY, _LINE, _BIT = "queries of any dimension", "queries of one dimension", "one bit"

_EXACT = {
    "gaussian": (_ANY, "GROUP, Theorem 18"),
    "laplace": (_LINE, "GROUP, Lemma 14 for log-concave noise"),
    "skellam": (_LINE, "GROUP, Lemma 14 for log-concave noise"),
    "randomized_response": (_BIT, "the pair of two coins"),
}
"""For which queries the divergence of the dominating pair is a bound, and attained; and by which theorem."""

_COMPONENTS = {
    "gaussian": "Theorem 4.1",
    "laplace": "Theorems 3.1 and 4.3",
    "skellam": "Theorem 4.4",
    "randomized_response": "Theorem 3.1 and equation 20",
}


_LAW = ", by the law of the members in a batch"
_TWICE = ", of twice the sensitivity"


@dataclass(frozen=True)
class Statement:
    """What a Rényi bound is.

    Attributes
    ----------
    bound : str
        "exact", "jensen", "black_box" or "lower".
    kind : str
        "upper bound" or "lower bound" on the largest divergence of neighbouring data sets.
    tight : bool
        Whether some pair of data sets attains it.
    scope : str
        Queries for which it holds.
    source : str
        Paper and theorem.
    rounded_group_size : ndarray or None
        Group sizes that the number really is about: the next powers of two for "black_box".

    Examples
    --------
    >>> import hockeystick as hs
    >>> statement = hs.renyi.group_rdp(hs.Gaussian(2.0), 4.0, sample_rate=0.01, group_size=8).statement
    >>> statement.bound, statement.kind, statement.tight
    ('exact', 'upper bound', True)
    """

    bound: str
    kind: str
    tight: bool
    scope: str
    source: str
    rounded_group_size: Counts | None = None

    def __post_init__(self) -> None:
        choice(self.bound, "bound", BOUNDS)
        choice(self.kind, "kind", KINDS)
        require_type(self.tight, bool, "tight")
        text(self.scope, "scope")
        text(self.source, "source")
        if self.rounded_group_size is not None:
            count_array(self.rounded_group_size, "rounded_group_size", 1)

    def __str__(self) -> str:
        attained = ", attained" if self.tight else ""
        rounded = ""
        if self.rounded_group_size is not None:
            sizes = sorted(set(self.rounded_group_size.ravel().tolist()))
            shown = ", ".join(map(str, sizes[:5])) + (", ..." if len(sizes) > 5 else "")
            rounded = f", group size rounded up to {shown}"
        return f"{self.kind} ({self.bound}) for {self.scope}{attained}{rounded}; {self.source}"


def statement_of(family: str, bound: str, drawing: Drawing) -> Statement:
    """Return what `bound` says of a mechanism of the paper, for such batches and such a group."""
    anywhere = _BIT if family == "randomized_response" else _ANY
    if bound == "exact":
        scope, tight, source = _of_pair(family, drawing)
        return Statement(bound, "upper bound", tight, scope, source)
    if bound == "jensen":
        law = "" if drawing.scheme is None and drawing.group is None else _LAW
        twice = _TWICE if drawing.is_replaced and family != "randomized_response" else ""
        return Statement(bound, "upper bound", False, anywhere, f"RGP, {_COMPONENTS[family]}{law}{twice}")
    if bound == "lower":
        return Statement(bound, "lower bound", False, anywhere, "RGP, equation 12")
    sizes = drawing.all_sizes
    rounded = np.array(
        [1 << (size - 1).bit_length() for size in sizes.ravel().tolist()], dtype=np.int64
    ).reshape(sizes.shape)
    one = "the tight bound for one record of Zhu and Wang 2019"
    if drawing.is_replaced or isinstance(drawing.scheme, WithoutReplacement):
        exact = family in ("gaussian", "randomized_response")
        one = "the pair of one record" if exact else "Theorem 3.1 for one record"
    return Statement(bound, "upper bound", False, anywhere, f"RGP, Lemma 2.3, on {one}", rounded)


def _of_pair(family: str, drawing: Drawing) -> tuple[str, bool, str]:
    """Return for which queries the pair's divergence is a bound, whether it is attained, and the theorem."""
    scope, source = _EXACT[family]
    fixed = drawing.scheme if isinstance(drawing.scheme, WithoutReplacement) else None
    if family == "randomized_response":
        filled = fixed is not None and not drawing.is_replaced and _fills(fixed, drawing)
        return scope, not filled, source
    if drawing.is_full:
        return scope, True, "every member in every batch"
    if not drawing.is_replaced:
        if fixed is None:
            return scope, True, source
        return scope, not _fills(fixed, drawing), "PITFALLS, Proposition 9, for a group"
    if fixed is None:
        return scope, True, "PITFALLS, Proposition 13, for a group"
    return scope, False, "PITFALLS, Theorem 14, for a group"


def _fills(scheme: WithoutReplacement, drawing: Drawing) -> bool:
    """Whether a batch is all of the smaller data set."""
    return bool(np.any(drawing.all_sizes > scheme.dataset_size - scheme.batch_size))


COMPONENT_STATEMENT = Statement(
    "jensen", "upper bound", False, "whatever the component bounds are about", "RGP, Theorem 3.1"
)
"""What Theorem 3.1 says with component bounds of the user's."""


class RenyiBound(float):
    """A Rényi bound in nats that carries its `statement`; in every other way a float.

    Examples
    --------
    >>> import hockeystick as hs
    >>> bound = hs.renyi.group_rdp(hs.Laplace(14.885), 4.0, sample_rate=0.03, group_size=16)
    >>> bound.statement.scope
    'queries of one dimension'
    >>> f"{500 * bound:.2f}"
    '1.00'
    """

    statement: Statement

    def __new__(cls, value: float, statement: Statement) -> RenyiBound:
        """Return `value` with its statement."""
        require_type(statement, Statement, "statement")
        bound = super().__new__(cls, value)
        bound.statement = statement
        return bound

    def __repr__(self) -> str:
        return f"{float(self)!r}  # {self.statement}"

    def __str__(self) -> str:
        return float.__repr__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (float(self), self.statement))


class RenyiBounds(np.ndarray[Any, np.dtype[np.float64]]):
    """An array of Rényi bounds in nats that carries their `statement`; in every other way an ndarray.

    Results of arithmetic are plain arrays: what they are bounds on is for the caller to say.

    Examples
    --------
    >>> import hockeystick as hs
    >>> bounds = hs.renyi.group_rdp(hs.Gaussian(2.0), [2.0, 4.0], sample_rate=0.01, group_size=8)
    >>> bounds.shape, bounds.statement.bound
    ((2,), 'exact')
    >>> type(500 * bounds).__name__
    'ndarray'
    """

    statement: Statement | None

    def __new__(cls, values: Floats, statement: Statement) -> RenyiBounds:
        """Return `values` with their statement."""
        require_type(statement, Statement, "statement")
        bounds = float_array(values, "values").view(cls)
        bounds.statement = statement
        return bounds

    def __array_finalize__(self, source: NDArray[Any] | None) -> None:
        self.statement = getattr(source, "statement", None)

    def __array_wrap__(self, array: NDArray[Any], context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __repr__(self) -> str:
        return f"{np.asarray(self)!r}  # {self.statement}"

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        if self.statement is None:  # a view of another array, made by NumPy
            return (np.asarray, (np.asarray(self),))
        return (type(self), (np.asarray(self), self.statement))
