"""Histories of Opacus's accountants, taken over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hockeystick import Group
from hockeystick._arguments import DEFAULT_TOLERANCE
from hockeystick.accountants import GroupAccountant
from hockeystick.accountants._adaptors import segments_from_json


def from_opacus(
    accountant: Any,
    group_size: int = 1,
    adjacency: str = "add_remove",
    *,
    group: Group | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> GroupAccountant:
    """Exact accountant with the steps that another accountant has recorded.

    Parameters
    ----------
    accountant : opacus.accountants.IAccountant, Accountant or mapping
        Whose history to take: of any mechanism ("rdp", "prv", "gdp"); or a saved state, in an Opacus
        checkpoint ``checkpoint["privacy_accountant_state_dict"]``. It is not changed.
    group_size : int, optional
        Number of records that change together, in [1, 10000].
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation.
    group : Group, optional
        A group whose members differ, in place of `group_size`.
    tolerance : float, optional
        Relative width of the certified intervals to aim at, in [1e-9, 0.1].

    Returns
    -------
    GroupAccountant
        A new accountant, which shares nothing with the other one.

    Raises
    ------
    TypeError
        If there is no history, or an argument has the wrong type.
    ValueError
        If an entry of the history or an argument is out of range.
    UnsupportedError
        If the steps have no proven dominating pair for this group and adjacency.

    Notes
    -----
    The numbers of the history are believed: that the batches were Poisson samples at those rates is what
    Opacus's accountants assume too. `check_loader` tells whether a loader makes such batches.

    Examples
    --------
    >>> import hockeystick as hs
    >>> state = {"mechanism": "prv", "history": [(1.0, 0.01, 1000)]}
    >>> for k in (1, 8):
    ...     print(k, round(hs.opacus.from_opacus(state, group_size=k).get_epsilon(1e-5), 2))
    1 1.83
    8 20.9
    """
    taken = GroupAccountant(group_size, adjacency, group, tolerance)
    if isinstance(accountant, Mapping):
        history = accountant.get("history")
    else:
        history = getattr(accountant, "history", None)
    if not isinstance(history, list | tuple):
        raise TypeError(
            f"accountant must be an accountant or a saved state with a history, "
            f"got {type(accountant).__name__}"
        )
    taken.history = list(segments_from_json(history, "history"))  # type: ignore[call-overload]  # it is a list
    return taken
