"""An accountant for dp-accounting, JAX Privacy and TF Privacy. Importing this does not import them.

- `ExactAccountant`: a ``dp_accounting.PrivacyAccountant`` that computes with the exact privacy curve.
- `AccumulatedPoissonDpEvent`, `RandomAllocationDpEvent`: events for batches that dp-accounting has none for.
- `correlated_event`: a run with correlated noise as an event.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hockeystick.dp_accounting._correlated import correlated_event
    from hockeystick.dp_accounting._events import AccumulatedPoissonDpEvent, RandomAllocationDpEvent
    from hockeystick.dp_accounting._exact_accountant import ExactAccountant

__all__ = ["AccumulatedPoissonDpEvent", "ExactAccountant", "RandomAllocationDpEvent", "correlated_event"]

# Subclasses of classes of dp-accounting, which must be there: they are made when they are asked for.
_WHEN_ASKED_FOR = {
    "AccumulatedPoissonDpEvent": "_events",
    "ExactAccountant": "_exact_accountant",
    "RandomAllocationDpEvent": "_events",
    "correlated_event": "_correlated",
}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHEN_ASKED_FOR[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
