"""Two private functions that the tests of TF Privacy ask for, made of those behind our statement."""

from __future__ import annotations

from hockeystick.compat import tf_privacy

__all__ = ["example_privacy", "user_privacy"]


def example_privacy(
    num_epochs: float,
    noise_multiplier: float,
    example_delta: float,
    used_microbatching: bool = True,
    poisson_subsampling_probability: float | None = None,
) -> float:
    """Epsilon of one example; microbatches halve the noise."""
    return user_privacy(
        num_epochs, noise_multiplier, example_delta, 1, used_microbatching, poisson_subsampling_probability
    )


def user_privacy(
    num_epochs: float,
    noise_multiplier: float,
    user_delta: float,
    max_examples_per_user: int,
    used_microbatching: bool = True,
    poisson_subsampling_probability: float | None = None,
) -> float:
    """Epsilon of a user with several examples."""
    epochs = tf_privacy._epochs(num_epochs, "num_epochs")
    noise = noise_multiplier / 2.0 if used_microbatching else noise_multiplier
    rate = poisson_subsampling_probability
    if rate is None:
        curve = tf_privacy._once_per_epoch(noise, epochs, max_examples_per_user)
    else:
        curve = tf_privacy._poisson(noise, epochs, rate, max_examples_per_user)
    return float(curve.epsilon(user_delta))
