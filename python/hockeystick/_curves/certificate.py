"""Certificates: a claim on a privacy curve with what makes its proof short, for an independent checker."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hockeystick._arguments import float_scalar, require
from hockeystick._atomic import write_atomically
from hockeystick._core import __version__
from hockeystick._curves.described_run import described, laws
from hockeystick._curves.witness import MOST_WORK, Witness
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._curves.curve import PrivacyCurve

FORMAT, VERSION = "hockeystick-certificate", 1
TOLERANCES = (1e-10, 1e-8, 1e-6, 1e-4)
"""Relative widths of the interval to be proven, finest first; the first that is cheap enough to check."""
SLACK = 10.0
"""Claims are wider than the certified interval by so many of these widths."""
CLOSED_FORM_BITS = 256


class Certificate:
    """A claim on the privacy curve of a run, which `hockeystick verify` checks without this library.

    Made by `PrivacyCurve.certify`.

    Examples
    --------
    >>> import hockeystick as hs
    >>> certificate = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000).certify(epsilon=2)
    >>> for claim in certificate.claims:
    ...     print(claim["epsilon"], [name for name in claim if name != "epsilon"])
    2.0 ['at_most']
    2.0 ['at_least']
    """

    __slots__ = ("_document",)

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    @property
    def claims(self) -> list[dict[str, float]]:
        """What is claimed: delta at "epsilon" is "at_most" or "at_least" a number."""
        return [dict(claim) for claim in self._document["claims"]]

    @property
    def run(self) -> dict[str, Any]:
        """The run that the claims are about, as the certificate describes it."""
        copied: dict[str, Any] = json.loads(json.dumps(self._document["run"]))
        return copied

    @property
    def sha256(self) -> str:
        """Hash of the file that `save` writes, in hexadecimal digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the text of the file that `save` writes."""
        return json.dumps(self._document, indent=1, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the certificate.

        Parameters
        ----------
        path : path-like
            File to write; an existing one is replaced, at once and as a whole.

        Returns
        -------
        pathlib.Path
            The file.
        """
        write_atomically(path, self.to_json().encode(), private=False)
        return Path(path)

    def verify(self) -> tuple[bool, list[str]]:
        """Ask the independent checker.

        Returns
        -------
        verified : bool
            Whether all claims are proven.
        lines : list of str
            The proven intervals, or which inequality failed.

        Raises
        ------
        ImportError
            If the checker's library of ball arithmetic is not installed, the extra "verify".
        """
        found: tuple[bool, list[str]] = needed("hockeystick_verify", "verify").verify_text(self.to_json())
        return found

    def __repr__(self) -> str:
        return f"<Certificate of {len(self.claims)} claims, sha256 {self.sha256[:16]}>"


class Certifiable:
    """What a curve has certificates by."""

    __slots__ = ()

    def certify(self, *, epsilon: float | None = None, delta: float | None = None) -> Certificate:
        """Certificate of delta at `epsilon`, or of epsilon at `delta`, for an independent checker.

        Parameters
        ----------
        epsilon : float, optional
            Finite and at least zero.
        delta : float, optional
            In (0, 1). Give either this or `epsilon`.

        Returns
        -------
        Certificate
            Claims both ends of the certified interval, a little wider: "at most" is the guarantee, "at least"
            says that the dominating pair has no smaller one.

        Raises
        ------
        UnsupportedError
            If the checker does not cover the run, or would need more than a minute or two.
        ValueError
            If the argument is out of range, or no finite epsilon exists.
        TypeError
            If the argument is not a number, or not exactly one is given.

        Notes
        -----
        What the checker proves, and how, is in docs/theory/certificates.md.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> curve.certify(delta=1e-5).save("certificate.json").name  # doctest: +SKIP
        'certificate.json'
        """
        if (epsilon is None) == (delta is None):
            raise TypeError("give exactly one of delta and epsilon")
        curve = cast("PrivacyCurve", self)
        run = described(curve.segments, curve.adjacency)
        for tolerance in TOLERANCES:
            found = _certificate(curve, run, epsilon, delta, tolerance)
            if found is not None:
                return found
        raise UnsupportedError(
            "the checker would need more than a minute or two for this claim: it is slowest for two to ten "
            "steps at small sample rates and small epsilon"
        )


def _certificate(
    curve: PrivacyCurve, run: dict[str, Any], epsilon: float | None, delta: float | None, tolerance: float
) -> Certificate | None:
    """Certificate with claims of a relative accuracy, or None if it takes too long to check."""
    if epsilon is not None:
        low = high = at = float_scalar(epsilon, "epsilon")
        least, level = (float(end) for end in curve.bounds(epsilon=at))
    else:
        level = float_scalar(delta, "delta")
        low, high = (float(end) for end in curve.bounds(delta=level))
        require(math.isfinite(high), "delta", level, "a delta for which epsilon is finite")
        least, at = level, high
    claims: list[dict[str, float]] = []
    directions = ("remove", "add") if curve.adjacency == "add_remove" else (curve.adjacency,)
    witnesses, flattest = {}, math.inf
    for direction in directions:
        kinds, mu_squared = laws(run, direction)
        closed = not kinds or (mu_squared == 0.0 and sum(kind.steps for kind in kinds) == 1) or level == 0.0
        if closed:
            witnesses[direction] = {"bits": CLOSED_FORM_BITS}
            continue
        search = Witness(kinds, mu_squared, at, math.log(level), tolerance)
        cost, witnesses[direction] = search.find()
        if cost > MOST_WORK:
            return None
        flattest = min(flattest, search.tilt)
    wider = SLACK * tolerance
    if epsilon is not None:
        claims.append({"epsilon": at, "at_most": min(1.0, level * (1.0 + wider))})
        if least > 0.0:
            claims.append({"epsilon": at, "at_least": least * (1.0 - wider)})
    else:
        further = wider * (2.0 / flattest + max(high, 1e-3))
        claims.append({"epsilon": high + further, "at_most": level})
        if low > further:
            claims.append({"epsilon": low - further, "at_least": level})
    document = {"format": FORMAT, "version": VERSION, "made_by": f"hockeystick {__version__}"}
    return Certificate({**document, "run": run, "claims": claims, "witness": witnesses})
