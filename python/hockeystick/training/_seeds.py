"""A seed argument: a whole number, or a generator to go on drawing from."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from hockeystick._arguments import count_scalar

Seed: TypeAlias = int | np.random.Generator


def generator_from(seed: object) -> np.random.Generator:
    """Give the generator that `seed` stands for; a generator stands for itself."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(count_scalar(seed, "seed", 0, 2**64 - 1))
