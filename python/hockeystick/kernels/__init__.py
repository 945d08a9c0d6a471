"""Array functions of the compiled core: NumPy in, NumPy out, float64, any strides.

A *dominating pair* is a Gaussian mixture against its noise,

    MoG = sum_j weights[j] N(shifts[j], noise_multiplier^2)   and   N(0, noise_multiplier^2).

The direction "remove" is the ordered pair (MoG, N(0)), "add" is (N(0), MoG). Every function
releases the GIL, takes scalars or arrays, and returns a Python float where its broadcast arguments
are all scalars.
"""

from hockeystick.kernels._gaussian_mixtures import gram_monte_carlo_delta
from hockeystick.kernels._group_laws import binomial_law, hypergeometric_law, poisson_binomial_law
from hockeystick.kernels._individual import accumulate_rdp
from hockeystick.kernels._monte_carlo import MonteCarloEstimate, monte_carlo_delta
from hockeystick.kernels._privacy_loss import hockey_stick, log_likelihood_ratio
from hockeystick.kernels._renyi import (
    rdp_to_delta,
    rdp_to_epsilon,
    renyi_group_bound,
    renyi_mixture,
)

__all__ = [
    "MonteCarloEstimate",
    "accumulate_rdp",
    "binomial_law",
    "gram_monte_carlo_delta",
    "hockey_stick",
    "hypergeometric_law",
    "log_likelihood_ratio",
    "monte_carlo_delta",
    "poisson_binomial_law",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "renyi_group_bound",
    "renyi_mixture",
]


def __dir__() -> list[str]:
    return list(__all__)
