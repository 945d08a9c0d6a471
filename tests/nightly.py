"""Parameters of which every run tries some, and the nightly tests all."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def some(parameters: Iterable[Any], every: int = 2) -> Sequence[Any]:
    """Return all parameters, and mark all but the first, the second after it and so on as long.

    A tuple has the values of several arguments, as in ``pytest.mark.parametrize``.
    """
    found = []
    for number, parameter in enumerate(parameters):
        if number % every == 0:
            found.append(parameter)
            continue
        if not hasattr(parameter, "marks"):
            parameter = pytest.param(*parameter) if isinstance(parameter, tuple) else pytest.param(parameter)
        found.append(
            pytest.param(*parameter.values, marks=[*parameter.marks, pytest.mark.long], id=parameter.id)
        )
    return found
