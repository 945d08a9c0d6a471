"""An accountant with a trade-off function, under the name of riskcal."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from hockeystick._arguments import FloatOrFloats
from hockeystick.accountants import GroupAccountant
from hockeystick.tradeoff import TradeoffCurve

__all__ = [
    "CTDAccountant",
]


def __dir__() -> list[str]:
    return list(__all__)


class CTDAccountant(GroupAccountant):
    """Accountant with a trade-off function and Opacus's interface: `GroupAccountant` for one record.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import CTDAccountant
    >>> accountant = CTDAccountant()
    >>> for _ in range(100):
    ...     accountant.step(noise_multiplier=0.5, sample_rate=0.002)
    >>> round(accountant.get_advantage(), 4), round(float(accountant.get_beta(alpha=0.1)), 4)
    (0.0368, 0.873)
    >>> 0.0 < accountant.get_epsilon(1e-5) < 10.0
    True
    """

    def __init__(self) -> None:
        super().__init__()

    def get_epsilon(self, delta: float, **grid: Any) -> float:
        """Upper bound on epsilon of all steps so far.

        Parameters
        ----------
        delta : float
            In (0, 1).
        **grid
            ``grid_step`` and ``use_connect_dots`` of riskcal, without effect.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If `delta` is out of range.
        TypeError
            If another argument is given.
        """
        _grid_only(grid)
        return super().get_epsilon(delta)

    def get_beta(self, *, alpha: ArrayLike, **grid: Any) -> FloatOrFloats:
        """Lower bound on the false negative rate of an attack.

        Parameters
        ----------
        alpha : array_like
            False positive rate, in [0, 1].
        **grid
            ``grid_step`` and ``use_connect_dots`` of riskcal, without effect.

        Returns
        -------
        float or ndarray, shape of `alpha`

        Raises
        ------
        ValueError
            If `alpha` is out of range.
        TypeError
            If another argument is given.
        """
        _grid_only(grid)
        return TradeoffCurve.from_curve(self._exact_curve()).beta(alpha)

    def get_advantage(self, **grid: Any) -> float:
        """Upper bound on the advantage of an attack.

        Parameters
        ----------
        **grid
            ``grid_step`` and ``use_connect_dots`` of riskcal, without effect.

        Returns
        -------
        float

        Raises
        ------
        TypeError
            If another argument is given.
        """
        _grid_only(grid)
        return self.privacy_curve().advantage()


def _grid_only(named: dict[str, Any]) -> None:
    unknown = set(named) - {"grid_step", "use_connect_dots"}
    if unknown:
        raise TypeError(f"grid_step and use_connect_dots are all that is taken, got {sorted(unknown)}")
