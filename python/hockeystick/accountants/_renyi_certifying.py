"""Certificates of what `RenyiGroupAccountant` says, for the independent checker."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

from hockeystick._arguments import require
from hockeystick._curves.certificate import Certificate
from hockeystick._curves.making import privacy_curve
from hockeystick._progress import Report
from hockeystick._vocabulary.mechanisms import Skellam
from hockeystick._vocabulary.sampling import noise_and_sampling
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._arguments import FloatOrFloats
    from hockeystick._curves.curve import PrivacyCurve
    from hockeystick._vocabulary.groups import Group


ROUNDING = 1e-9
"""By which part a claim may be above the number of the accountant, whose exact divergences are rounded."""


class CertifiesRenyiBounds:
    """What an accountant of Rényi bounds has certificates by."""

    if TYPE_CHECKING:

        @property
        def adjacency(self) -> str: ...
        @property
        def group_size(self) -> int: ...
        @property
        def group(self) -> Group | None: ...
        def get_epsilon(self, delta: float) -> float: ...
        def get_delta(self, epsilon: float) -> float: ...

    @abstractmethod
    def get_renyi(self, orders: Any) -> FloatOrFloats:
        """Rényi divergence of the recorded run, which `certify` certifies."""

    def certify(
        self,
        *,
        order: float | None = None,
        delta: float | None = None,
        epsilon: float | None = None,
        progress: Report | bool | None = None,
        processes: int = 1,
    ) -> Certificate:
        """Certificate of one number of this accountant, for an independent checker.

        Parameters
        ----------
        order : float, optional
            In [1.001, 1e4]: certifies what `get_renyi` says of this order.
        delta : float, optional
            In (0, 1): certifies what `get_epsilon` says.
        epsilon : float, optional
            Finite and at least zero: certifies what `get_delta` says. Give exactly one of the three.
        progress : bool or callable, optional
            True for a bar, or a function of how many of a hundred parts of the work are done, and of 100.
        processes : int, optional
            Processes that share what the checker computes, at least 1; the result does not depend on it.

        Returns
        -------
        Certificate
            Its run is the recorded one. It claims that the divergence, or delta, of that run is at most the
            number of the accountant, whatever its `bound` is; or at most what is proven, where that is larger
            by rounding, less than a part in 10^9. The checker proves it from the pairs of the steps, and not
            by the theorem that the bound is from.

        Raises
        ------
        UnsupportedError
            If the checker does not cover a step, such as one with `Skellam` noise, would need more than a
            minute or two, or proves less than the accountant says.
        ValueError
            If the argument is out of range, if no step was recorded, or if there is no finite bound.
        TypeError
            If not exactly one number is given.
        ImportError
            If the extra "verify" is not installed.

        Notes
        -----
        `Laplace` noise is certified for queries of one dimension, as everywhere in certificates.

        Examples
        --------
        >>> from hockeystick.accountants import RenyiGroupAccountant
        >>> accountant = RenyiGroupAccountant(group_size=4, bound="jensen")
        >>> accountant.step(noise_multiplier=2.0, sample_rate=0.01, steps=100)
        >>> certificate = accountant.certify(order=4.0)
        >>> certificate.claims == [{"order": 4.0, "at_most": accountant.get_renyi(4.0)}]
        True
        >>> certificate.verify()[0]
        True
        """
        if [order, delta, epsilon].count(None) != 2:
            raise TypeError("give exactly one of order, delta and epsilon")
        curve = self._curve()
        about: dict[str, Any] = {"progress": progress, "processes": processes}
        if order is not None:
            found = curve.certify(order=order, **about)
            return _weaker(found, {"order": float(order)}, float(self.get_renyi(order)))
        if delta is not None:
            at, level = self.get_epsilon(delta), float(delta)
        else:
            assert epsilon is not None
            at, level = float(epsilon), self.get_delta(epsilon)
        require(math.isfinite(at), "delta", level, "a delta for which epsilon is finite")
        return _weaker(curve.certify(epsilon=at, **about), {"epsilon": at}, level)

    def _curve(self) -> PrivacyCurve:
        """Return the curve of the recorded run."""
        recorded: list[Any] = cast("Any", self).history
        history = [segment for segment in recorded if segment[2]]
        require(bool(history), "steps", 0, "at least 1: a run without steps reveals nothing")
        curves: list[PrivacyCurve] = []
        for noise, draw, count in history:
            if isinstance(noise, Skellam):
                raise UnsupportedError(
                    f"certificates do not cover {noise!r}, of which no exact curve is known: the Rényi "
                    "bounds of this accountant have their proofs in docs/theory/renyi.md"
                )
            curves.append(
                privacy_curve(
                    **noise_and_sampling(noise, draw),
                    steps=count,
                    group_size=self.group_size if self.group is None else 1,
                    group=self.group,
                    adjacency=self.adjacency,
                )
            )
        return sum(curves[1:], curves[0])


def _weaker(certificate: Certificate, about: dict[str, float], bound: float) -> Certificate:
    """Return the certificate with the bound of the accountant, which what was proven has to imply."""
    proven = min(claim["at_most"] for claim in certificate.claims if "at_most" in claim)
    if not proven <= bound * (1.0 + ROUNDING):
        raise UnsupportedError(
            f"the checker proves at most {proven!r} for this run, where the accountant says {bound!r}: "
            "certify the privacy_curve of the run, which claims what is proven"
        )
    return certificate.with_claims([{**about, "at_most": max(bound, proven)}])
