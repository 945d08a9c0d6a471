"""The names of other accountants, answered by the exact privacy curve: change an import, keep the script.

- `hockeystick.compat.prv_accountant`: PRVAccountant, DPSGDAccountant and find_noise_multiplier of
  prv-accountant.
- `hockeystick.compat.tf_privacy`: the privacy statement of TF Privacy, with the line about users.
- `hockeystick.compat.riskcal`: noise for a bound on attacks, as riskcal finds it.
- `hockeystick.compat.autodp`: mechanisms, composition, subsampling and calibration of autodp.
- `hockeystick.compat.opendp`: a privacy curve as a privacy profile of OpenDP.

None of the other libraries is needed, except OpenDP for its profiles. Importing this imports none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hockeystick.compat import autodp, opendp, prv_accountant, riskcal, tf_privacy

__all__ = ["autodp", "opendp", "prv_accountant", "riskcal", "tf_privacy"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return list(__all__)
