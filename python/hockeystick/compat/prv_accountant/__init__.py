"""The interface of prv-accountant, with certified intervals in place of its estimates.

All names are in this one module: ``from hockeystick.compat.prv_accountant import ...`` stands for imports
from ``prv_accountant`` and from its modules ``dpsgd``, ``accountant`` and ``privacy_random_variables``. What
is different:

- Intervals are certified, and about a millionth wide. The errors that are asked for (``eps_error``,
  ``delta_error``) are checked, and otherwise not needed.
- The middle of the three numbers is the upper one, so that whoever reports the estimate reports a bound.
- Adding and removing a record are both accounted for; prv-accountant looks at removing alone.
- Runs for which it raises, hangs or asks for much memory are answered: little noise, large epsilon, small
  delta.
- A privacy random variable with a distribution function of one's own is refused: there is no proven pair for
  it.
"""

from hockeystick.compat.prv_accountant._accountant import (
    Accountant,
    ComposedPrivacyRandomVariable,
    PRVAccountant,
)
from hockeystick.compat.prv_accountant._dpsgd import DPSGDAccountant, find_noise_multiplier
from hockeystick.compat.prv_accountant._privacy_random_variables import (
    ApproximateDPMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PoissonSubsampledGaussianMechanism,
    PrivacyRandomVariable,
    PureDPMechanism,
)

__all__ = [
    "Accountant",
    "ApproximateDPMechanism",
    "ComposedPrivacyRandomVariable",
    "DPSGDAccountant",
    "GaussianMechanism",
    "LaplaceMechanism",
    "PRVAccountant",
    "PoissonSubsampledGaussianMechanism",
    "PrivacyRandomVariable",
    "PureDPMechanism",
    "find_noise_multiplier",
]


def __dir__() -> list[str]:
    return list(__all__)
