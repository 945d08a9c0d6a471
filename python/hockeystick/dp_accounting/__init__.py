"""At home in dp-accounting, and so in JAX Privacy and TF Privacy. Importing this does not import it.

- `ExactAccountant`: a ``dp_accounting.PrivacyAccountant`` that computes with the exact privacy curve.
- `correlated_event`: a run with correlated noise as an event.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hockeystick.dp_accounting.correlated import correlated_event
    from hockeystick.dp_accounting.exact_accountant import ExactAccountant

__all__ = ["ExactAccountant", "correlated_event"]

# A subclass of a class of dp-accounting, which must be there: it is made when it is asked for.
_WHEN_ASKED_FOR = {"ExactAccountant": "exact_accountant", "correlated_event": "correlated"}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHEN_ASKED_FOR[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
