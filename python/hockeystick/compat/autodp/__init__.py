"""Mechanisms, transformers and calibrators of autodp, answered by exact privacy curves.

All names are in this one module: ``from hockeystick.compat.autodp import ...`` stands for imports from
``autodp.mechanism_zoo``, ``autodp.transformer_zoo`` and ``autodp.calibrator_zoo``. What is different:

- A mechanism is its steps, and their composition has one exact curve. Which of autodp's bounds is used (Rényi
  divergences, characteristic functions, ``improved_bound_flag`` and other switches) has no effect.
- Records are added or removed. Both orders are accounted for, also where autodp has "remove_only" or
  "add_only".
- What no curve of this library answers is refused by name: exponential and stagewise mechanisms, sparse
  vectors, noisy screening, zero-concentrated guarantees, subsets of a fixed fraction.
"""

from hockeystick.compat.autodp._calibrator_zoo import (
    ana_gaussian_calibrator,
    eps_delta_calibrator,
    generalized_eps_delta_calibrator,
)
from hockeystick.compat.autodp._mechanism_zoo import (
    ComposedGaussianMechanism,
    ExactGaussianMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    NoisyGD_Mechanism,
    NoisySGD_Mechanism,
    PureDP_Mechanism,
    RandresponseMechanism,
    SubsampleGaussianMechanism,
)
from hockeystick.compat.autodp._transformer_zoo import (
    AmplificationBySampling,
    AmplificationBySampling_pld,
    ComposeAFA,
    ComposeGaussian,
    Composition,
)

__all__ = [
    "AmplificationBySampling",
    "AmplificationBySampling_pld",
    "ComposeAFA",
    "ComposeGaussian",
    "ComposedGaussianMechanism",
    "Composition",
    "ExactGaussianMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "NoisyGD_Mechanism",
    "NoisySGD_Mechanism",
    "PureDP_Mechanism",
    "RandresponseMechanism",
    "SubsampleGaussianMechanism",
    "ana_gaussian_calibrator",
    "eps_delta_calibrator",
    "generalized_eps_delta_calibrator",
]


def __dir__() -> list[str]:
    return list(__all__)
