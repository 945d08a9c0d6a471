"""Privacy accounting for DP-SGD whose unit is a record, a person's records or any group.

- `get_epsilon`, `get_delta`, `get_noise_multiplier`: the answer for a planned run.
- `hockeystick.accountants`: accountants that follow a run step by step.
- `hockeystick.kernels`: the functions of the compiled core on NumPy arrays.
"""

from hockeystick import accountants, kernels
from hockeystick._core import __version__
from hockeystick.accounting import get_delta, get_epsilon, get_noise_multiplier
from hockeystick.errors import OptimalOrderWarning, UnsupportedError
from hockeystick.sampling import Poisson

__all__ = [
    "OptimalOrderWarning",
    "Poisson",
    "UnsupportedError",
    "__version__",
    "accountants",
    "get_delta",
    "get_epsilon",
    "get_noise_multiplier",
    "kernels",
]
