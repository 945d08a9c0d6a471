"""Arguments of the public functions as type checkers see them, but for `bounds`.

Each function returns a pair with ``bounds=True`` and one answer without: two overloads, which name
their common arguments through these classes. There is no such module at run time.
"""

from concurrent.futures import Executor
from typing import TypedDict

from numpy.typing import ArrayLike
from typing_extensions import NotRequired

from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import BatchClipping, Mechanism
from hockeystick._vocabulary.participation import Participation
from hockeystick._vocabulary.sampling import Sampling, Shuffle

class _Common(TypedDict):
    adjacency: NotRequired[str]
    tolerance: NotRequired[float]
    executor: NotRequired[Executor | None]

class _Noise(TypedDict):
    mechanism: NotRequired[Mechanism | None]
    noise_multiplier: NotRequired[ArrayLike | None]

class _NoiseOfRuns(TypedDict):
    mechanism: NotRequired[Mechanism | CorrelatedNoise | None]
    noise_multiplier: NotRequired[ArrayLike | None]

class _Drawing(TypedDict):
    sample_rate: NotRequired[ArrayLike | None]
    sampling: NotRequired[Sampling | Shuffle | str | None]

class _DrawingOrShuffling(TypedDict):
    sample_rate: NotRequired[ArrayLike | None]
    sampling: NotRequired[Sampling | Shuffle | Participation | str | None]

class _Members(TypedDict):
    group_size: NotRequired[ArrayLike]
    group: NotRequired[Group | None]

class _Sizes(TypedDict):
    batch_size: NotRequired[ArrayLike | None]
    dataset_size: NotRequired[ArrayLike | None]

class _Steps(TypedDict):
    steps: NotRequired[ArrayLike | None]

class _Length(_Steps, _Sizes):
    epochs: NotRequired[ArrayLike | None]

class _Target(TypedDict):
    epsilon: NotRequired[ArrayLike | None]
    delta: NotRequired[ArrayLike | None]
    advantage: NotRequired[ArrayLike | None]
    tpr: NotRequired[ArrayLike | None]
    fpr: NotRequired[ArrayLike | None]
    bayes_success: NotRequired[ArrayLike | None]
    prior: NotRequired[ArrayLike | None]
    mu: NotRequired[ArrayLike | None]

class EpsilonArguments(_Common, _NoiseOfRuns, _DrawingOrShuffling, _Members, _Length):
    """Of `get_epsilon`."""

    delta: ArrayLike

class DeltaArguments(_Common, _NoiseOfRuns, _DrawingOrShuffling, _Members, _Length):
    """Of `get_delta`."""

    epsilon: ArrayLike

class NoiseMultiplierArguments(_Common, _Members, _Length, _Target):
    """Of `get_noise_multiplier`."""

    mechanism: NotRequired[CorrelatedNoise | BatchClipping | None]
    sample_rate: NotRequired[ArrayLike | None]
    sampling: NotRequired[Sampling | Shuffle | Participation | str | None]

class SampleRateArguments(_Common, _Noise, _Members, _Steps, _Target):
    """Of `get_sample_rate`."""

class StepsArguments(_Common, _Noise, _Drawing, _Sizes, _Members, _Target):
    """Of `get_steps`."""

class GroupSizeArguments(_Common, _Noise, _Drawing, _Length, _Target):
    """Of `get_group_size`."""
