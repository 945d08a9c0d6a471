"""Certificates: a claim about a run with what makes its proof short, for an independent checker."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hockeystick._arguments import require, require_type
from hockeystick._atomic import write_atomically
from hockeystick._extras import needed
from hockeystick._progress import Report, reporting


class Certificate:
    """A claim on the privacy curve of a run, which `hockeystick verify` checks without this library.

    Made by `certify` of a `PrivacyCurve` or a `MixedCurve`.

    Examples
    --------
    >>> import hockeystick as hs
    >>> certificate = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000).certify(epsilon=2)
    >>> for claim in certificate.claims:
    ...     print(claim["epsilon"], [name for name in claim if name != "epsilon"])
    2.0 ['at_most']
    2.0 ['at_least']
    >>> certificate.run["steps"][0]["count"], len(certificate.sha256)
    (1000, 64)
    """

    __slots__ = ("_document",)

    def __init__(self, document: dict[str, Any]) -> None:
        require_type(document, dict, "document")
        missing = [name for name in ("run", "claims") if name not in document]
        require(not missing, "document", f"one without {missing}", "a certificate, with a run and its claims")
        self._document = document

    @property
    def claims(self) -> list[dict[str, float]]:
        """What is claimed to be "at_most" or "at_least" a number.

        Delta at "epsilon"; the Rényi divergence of an "order"; or, with "alpha" and "epsilon", the trade-off
        function at "alpha", which is proven from delta at that epsilon.
        """
        return [dict(claim) for claim in self._document["claims"]]

    def with_claims(self, claims: list[dict[str, float]]) -> Certificate:
        """Return a certificate with other claims and the same witness.

        Parameters
        ----------
        claims : list of dict
            As `claims` returns them.

        Returns
        -------
        Certificate
            Whether its claims are proven, the checker says.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> certificate = curve.certify(epsilon=2)
        >>> weaker = certificate.with_claims([{"epsilon": 2.0, "at_most": 0.5}])
        >>> weaker.claims
        [{'epsilon': 2.0, 'at_most': 0.5}]
        """
        return Certificate({**self._document, "claims": [dict(claim) for claim in claims]})

    @property
    def run(self) -> dict[str, Any]:
        """The run that the claims are about, as the certificate describes it."""
        copied: dict[str, Any] = json.loads(json.dumps(self._document["run"]))
        return copied

    @property
    def sha256(self) -> str:
        """Hash of the file that `save` writes, in hexadecimal digits."""
        import hashlib  # takes six milliseconds, which starts should not pay

        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the text of the file that `save` writes.

        Examples
        --------
        >>> import json
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> certificate = curve.certify(epsilon=2)
        >>> json.loads(certificate.to_json())["claims"] == certificate.claims
        True
        """
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

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> certificate = curve.certify(epsilon=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = certificate.save(Path(folder) / "run.json")
        ...     path.name, path.read_text("utf-8") == certificate.to_json()
        ('run.json', True)
        """
        write_atomically(path, self.to_json().encode(), private=False)
        return Path(path)

    def verify(self, *, progress: Report | bool | None = None, processes: int = 1) -> tuple[bool, list[str]]:
        """Ask the independent checker.

        Parameters
        ----------
        progress : bool or callable, optional
            True for a bar, or a function of how many parts of the work are done, and of their number.
        processes : int, optional
            Processes that share the work, at least 1; the result does not depend on it.

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
        ValueError
            If `processes` is below 1.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> certificate = curve.certify(epsilon=2)
        >>> verified, lines = certificate.verify()
        >>> verified
        True
        """
        checker = needed("hockeystick_verify", "verify")
        require(processes >= 1, "processes", processes, "at least 1")
        with reporting(progress, "verify") as report:
            found: tuple[bool, list[str]] = checker.verify_text(
                self.to_json(), progress=report, processes=processes
            )
        return found

    def __repr__(self) -> str:
        return f"<Certificate of {len(self.claims)} claims, sha256 {self.sha256[:16]}>"
