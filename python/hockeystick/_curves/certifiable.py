"""The method by which curves have certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hockeystick._curves.certificate import Certificate
from hockeystick._curves.shared_work import shared_work
from hockeystick._progress import Report

if TYPE_CHECKING:
    from hockeystick._curves.checked_bounds import Curve


class Certifiable:
    """What a curve has certificates by."""

    __slots__ = ()

    def certify(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        order: float | None = None,
        alpha: float | None = None,
        progress: Report | bool | None = None,
        processes: int = 1,
    ) -> Certificate:
        """Certificate of one number of the curve, for an independent checker.

        Parameters
        ----------
        epsilon : float, optional
            Finite and at least zero: certifies delta there.
        delta : float, optional
            In (0, 1): certifies epsilon there.
        order : float, optional
            In [1.001, 1e4]: certifies the Rényi divergence of this order.
        alpha : float, optional
            In (0, 1): certifies the trade-off function at this false positive rate, `beta`. For the
            adjacencies "add_remove" and "replace". Give exactly one of the four.
        progress : bool or callable, optional
            True for a bar, or a function of how many of a hundred parts of the work are done, and of 100.
        processes : int, optional
            Processes that share what the checker computes, at least 1; the result does not depend on it.

        Returns
        -------
        Certificate
            Claims both ends of the certified interval, a little wider: "at most" is the guarantee, "at least"
            says that the dominating pair has no smaller one. Of the trade-off function, and of bounds that
            are not the curve of a pair, the guarantee alone is claimed.

        Raises
        ------
        UnsupportedError
            If the checker does not cover the run, or would need more than a minute or two.
        ValueError
            If the argument is out of range, or no finite epsilon exists.
        TypeError
            If the argument is not a number, or not exactly one is given.
        ImportError
            If the extra "verify" is not installed, for Rényi divergences, and for runs that are proven on a
            lattice or are dealt into batches, whose claims are what the checker proves; and for delta below
            1e-60, an epsilon of 0, large groups, correlated noise and influences below 0.002 of the noise,
            whose claims are always checked. Others are checked before they are handed out if it is installed.

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
        given = [each for each in (epsilon, delta, order, alpha) if each is not None]
        if len(given) != 1:
            raise TypeError("give exactly one of delta, epsilon, order and alpha")
        # Importing the modules that make certificates takes a fifth of the time of importing the
        # package. Most programs make no certificate, so that is done when the first one is made.
        from hockeystick._curves.certifying import certificate_of_curve

        with shared_work(progress, processes):
            return certificate_of_curve(cast("Curve", self), epsilon, delta, order, alpha)
