"""Training with clipping and noise: reference implementations in NumPy, for notebooks and tests.

- `train`: DP-SGD with any split of a batch into clipped units, any way of drawing batches, and any algorithm
  that computes the update of a unit.
- `LocalSGD`, `LocalAdam`: such algorithms, of several local steps.
- `clip`, `individual_clipping`, `batch_clipping`, `mixed_clipping`: what bounds the sensitivity of a step.
- `gradient_norms`: of every example of a data set, as individual accounting asks for them.
- `shuffled_batches`, `subsampled_batches`, `poisson_batches`: how the batches are drawn.
- `SoftmaxRegression`, `Perceptron`: two models with the gradient of every example.

The sources are SHUFFLE ("Generalizing DP-SGD with shuffling and batch clipping") and INDIVIDUAL ("Individual
Privacy Accounting for Differentially Private Stochastic Gradient Descent"). Noise and batches come
from NumPy's generators, which are not cryptographic: train on data that matters with a library made for it.
"""

from hockeystick.training._accounting import StepAccountant
from hockeystick.training._batches import poisson_batches, shuffled_batches, subsampled_batches
from hockeystick.training._clipping import batch_clipping, clip, individual_clipping, mixed_clipping
from hockeystick.training._local import LocalAdam, LocalSGD
from hockeystick.training._models import Perceptron, SoftmaxRegression
from hockeystick.training._norms import gradient_norms
from hockeystick.training._sgd import train

__all__ = [
    "LocalAdam",
    "LocalSGD",
    "Perceptron",
    "SoftmaxRegression",
    "StepAccountant",
    "batch_clipping",
    "clip",
    "gradient_norms",
    "individual_clipping",
    "mixed_clipping",
    "poisson_batches",
    "shuffled_batches",
    "subsampled_batches",
    "train",
]


def __dir__() -> list[str]:
    return list(__all__)
