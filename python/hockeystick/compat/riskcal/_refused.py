"""What riskcal has and a certified curve does not answer, with the reason."""

from __future__ import annotations

from hockeystick.errors import UnsupportedError

__all__ = ["REFUSED", "refusal"]


def __dir__() -> list[str]:
    return list(__all__)


_GRID = (
    "it starts from a grid of privacy losses, whose error is not known here; translate the events of the run"
    " (hockeystick.dp_accounting) and ask the curve: beta, advantage, attack_success"
)
_EVALUATOR = (
    "it searches with a function that the caller gives; ask hockeystick.get_noise_multiplier,"
    " get_steps, get_sample_rate or get_group_size for the target"
)
_ACCOUNTANT = (
    "it searches with the accountant that it is given; riskcal's own function takes the CTDAccountant of this"
    " module, and hockeystick.get_noise_multiplier needs none"
)
_FIT = "it is a fit without a bound; use get_beta_from_zcdp or get_advantage_from_zcdp"

REFUSED = {
    **dict.fromkeys(
        [
            "PLRVs",
            "get_advantage_from_pld",
            "get_bayes_risk_from_pld",
            "get_beta_from_pld",
            "get_beta_from_plrvs",
            "pld_to_plrvs",
            "plrvs_from_pld",
        ],
        _GRID,
    ),
    **dict.fromkeys(
        [
            "CalibrationConfig",
            "CalibrationResult",
            "CalibrationTarget",
            "PrivacyEvaluator",
            "PrivacyMetrics",
            "calibrate_parameter",
            "create_dpsgd_epsilon_evaluator",
            "create_dpsgd_evaluator",
        ],
        _EVALUATOR,
    ),
    **dict.fromkeys(
        [
            "BlackboxCalibrationResult",
            "create_accountant_evaluator",
            "find_noise_multiplier_for_advantage_blackbox",
            "find_noise_multiplier_for_epsilon_delta",
            "find_noise_multiplier_for_err_rates_blackbox",
        ],
        _ACCOUNTANT,
    ),
    **dict.fromkeys(
        ["get_advantage_from_zcdp_approx", "get_beta_from_zcdp_approx", "get_mu_from_zcdp_approx"], _FIT
    ),
}
"""Reason by name: every public name of riskcal 1.5 that is not in this package."""


def refusal(name: str) -> UnsupportedError:
    """Return the error for one of `REFUSED`."""
    return UnsupportedError(f"{name} of riskcal is not available: {REFUSED[name]}")
