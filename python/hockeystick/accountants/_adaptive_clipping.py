"""What the optimizer of Opacus that adapts its clipping norm releases in a step.

``AdaClipDPOptimizer`` adds noise to the sum of clipped gradients and to the number of those that were not
clipped, which a record in the batch changes by 1, not by the 1/2 of Andrew et al. 2021, as nothing is
subtracted. It then divides that number by the number of records in the batch, without noise, and
computes the next clipping norm from the quotient. Nothing is imported here: whoever made the optimizer has
loaded Opacus.
"""

from __future__ import annotations

from typing import Any

from hockeystick._vocabulary.mechanisms import AdaptiveClipping

PROBLEM = (
    "AdaClipDPOptimizer computes its clipping norm from the exact number of records in each batch, to which "
    "no noise is added, so that no guarantee is known for its steps"
)
"""Why there is no account."""

_ROUNDED_DOWN = 1.0 - 2.0**-51
"""Room for the roundings of sigma_e. It loses digits where the ratio is near 1, but its part in the joint
noise is then as small."""

ADVICE = (
    "With on_mismatch='ignore' the noise of the sum and that of the count are charged, as if batch sizes "
    "were public and told nothing of who is in the batch"
)


def adapts_clipping(optimizer: Any) -> bool:
    """Whether an optimizer releases the number of gradients that were not clipped."""
    return getattr(optimizer, "unclipped_num_std", None) is not None


def noise_of(optimizer: Any) -> float:
    """Noise multiplier of all that an optimizer releases in a step.

    Opacus's adaptive clipping draws noise sigma_e = (sigma^-2 - (2 sigma_u)^-2)^(-1/2) for the sum, where
    sigma is its ``noise_multiplier``, and sigma_u for the count. A record changes the count by 1, so that the
    two are one query with (sigma_e^-2 + sigma_u^-2)^(-1/2) < sigma, which is rounded down.
    """
    noise: float = optimizer.noise_multiplier
    if not adapts_clipping(optimizer) or noise <= 0.0:
        return noise
    ratio = float(noise) / (2.0 * float(optimizer.unclipped_num_std))
    if not ratio < 1.0:
        return 0.0  # Opacus refuses this much noise, and would draw a complex number of it
    of_sum = float(noise) / ((1.0 - ratio) * (1.0 + ratio)) ** 0.5
    joint = AdaptiveClipping(of_sum, 0.5 * float(optimizer.unclipped_num_std)).joint_noise_multiplier
    return joint * _ROUNDED_DOWN
