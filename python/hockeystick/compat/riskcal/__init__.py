"""Noise for a bound on attacks, and attacks under a guarantee, under the names of riskcal.

All names are in this one module: ``from hockeystick.compat.riskcal import ...`` stands for imports from
``riskcal.analysis``, ``riskcal.calibration.dpsgd`` and ``riskcal.accountants``.

riskcal finds noise by a grid of privacy losses whose step is to be chosen (``grid_step``), and stops within a
tolerance of the target on either side. Here the target is met, by certified bounds, and nothing is to be
chosen: the arguments that say how to search are checked and have no effect. The same questions, for groups
and other ways of sampling, are answered by `hockeystick.get_noise_multiplier` with ``advantage=`` or ``tpr=``
and ``fpr=``. What starts from a grid, or from a function or an accountant of the caller, is refused by name.
"""

from typing import Any

from hockeystick.compat.riskcal._accountant import CTDAccountant
from hockeystick.compat.riskcal._analysis import (
    get_advantage_from_adp,
    get_advantage_from_gdp,
    get_bayes_risk_from_gdp,
    get_beta_from_adp,
    get_beta_from_gdp,
    get_epsilon_from_err_rates,
)
from hockeystick.compat.riskcal._concentrated import (
    get_advantage_from_zcdp,
    get_beta_from_rdp,
    get_beta_from_zcdp,
)
from hockeystick.compat.riskcal._dpsgd import (
    find_noise_multiplier_for_advantage,
    find_noise_multiplier_for_err_rates,
    get_advantage_for_dpsgd,
    get_beta_for_dpsgd,
)
from hockeystick.compat.riskcal._refused import REFUSED, refusal

__all__ = [
    "CTDAccountant",
    "find_noise_multiplier_for_advantage",
    "find_noise_multiplier_for_err_rates",
    "get_advantage_for_dpsgd",
    "get_advantage_from_adp",
    "get_advantage_from_gdp",
    "get_advantage_from_zcdp",
    "get_bayes_risk_from_gdp",
    "get_beta_for_dpsgd",
    "get_beta_from_adp",
    "get_beta_from_gdp",
    "get_beta_from_rdp",
    "get_beta_from_zcdp",
    "get_epsilon_from_err_rates",
]

_ALIASES = {
    "find_noise_multiplier_for_advantage_dpsgd": find_noise_multiplier_for_advantage,
    "find_noise_multiplier_for_err_rates_dpsgd": find_noise_multiplier_for_err_rates,
    "get_advantage_for_epsilon_delta": get_advantage_from_adp,
    "get_advantage_for_mu": get_advantage_from_gdp,
    "get_bayes_risk_for_mu": get_bayes_risk_from_gdp,
    "get_beta_for_epsilon_delta": get_beta_from_adp,
    "get_beta_for_mu": get_beta_from_gdp,
    "get_epsilon_for_err_rates": get_epsilon_from_err_rates,
}
"""Older names of riskcal, and those of ``riskcal.calibration``."""


def __getattr__(name: str) -> Any:
    if name in _ALIASES:
        return _ALIASES[name]
    if name in REFUSED:
        raise refusal(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
