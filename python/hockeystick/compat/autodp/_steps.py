"""Equal steps, of which the mechanisms under autodp's names are made."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hockeystick import Gaussian, Laplace, RandomizedResponse
from hockeystick._arguments import count_scalar, float_scalar, require

Noise = Gaussian | Laplace | RandomizedResponse


ROUNDED_UP = 1.0 + 1e-14
"""Makes up for the rounding of a few operations. It is a factor of answers, so that any other is wrong."""


@dataclass(frozen=True)
class Steps:
    """Equal steps of a mechanism."""

    noise: Noise
    sample_rate: float
    """1 for a query of all records."""
    times: int
    pure_epsilon: float
    """Largest loss of one step."""


def gaussian(sigma: float, rate: float = 1.0, count: int = 1) -> Steps:
    """Return steps with Gaussian noise on samples at a rate."""
    noise = float_scalar(sigma, "sigma")
    require(math.isfinite(noise) and noise >= 0.0, "sigma", noise, "in [0, inf)")
    fraction = float_scalar(rate, "prob")
    require(0.0 <= fraction <= 1.0, "prob", fraction, "in [0, 1]")
    pure = 0.0 if fraction == 0.0 else math.inf
    return Steps(Gaussian(noise), fraction, count_scalar(count, "coeff", 0), pure)


def responses(response: RandomizedResponse) -> Steps:
    """Return one answer of a randomised response."""
    return Steps(response, 1.0, 1, math.log(response.p / (1.0 - response.p)))
