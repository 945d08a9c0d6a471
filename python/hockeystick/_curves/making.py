"""Privacy curves of runs of equal steps."""

from __future__ import annotations

from typing import overload

from hockeystick._arguments import DEFAULT_TOLERANCE, count_scalar
from hockeystick._curves.bins_curve import BinsCurve
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.shuffled_curve import ShuffledCurve
from hockeystick._curves.whole_runs import whole_run_curve
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.configuration import in_own_terms
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import Mechanism, check_noise_multiplier
from hockeystick._vocabulary.participation import Participation
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling, Shuffle
from hockeystick._vocabulary.shuffled_step import configure_shuffled
from hockeystick._vocabulary.step_kinds import step_kind


@overload
def privacy_curve(
    *,
    noise_multiplier: float | None = None,
    sample_rate: None = None,
    sampling: Shuffle,
    steps: int,
    group_size: int = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> ShuffledCurve: ...


@overload
def privacy_curve(  # type: ignore[overload-overlap]  # the next one says nothing of its mechanism
    *,
    noise_multiplier: None = None,
    sample_rate: None = None,
    sampling: FixedBins,
    steps: int,
    group_size: int = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: CorrelatedNoise,
    tolerance: float = DEFAULT_TOLERANCE,
) -> PrivacyCurve | BinsCurve: ...


@overload
def privacy_curve(
    run: Run | None = None,
    *,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    sampling: Sampling | Participation | str | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    batch_size: float | None = None,
    dataset_size: int | None = None,
    group_size: int = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | CorrelatedNoise | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> PrivacyCurve: ...


@in_own_terms()
def privacy_curve(
    run: Run | None = None,
    *,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    sampling: Sampling | Shuffle | Participation | str | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    batch_size: float | None = None,
    dataset_size: int | None = None,
    group_size: int = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | CorrelatedNoise | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> PrivacyCurve | ShuffledCurve | BinsCurve:
    """Privacy curve of a run of equal steps.

    Parameters
    ----------
    run : Run, optional
        A run in the terms of the training script, as in `get_epsilon`.
    noise_multiplier, mechanism, sample_rate, sampling, steps, group_size, group, adjacency, tolerance
        As in `get_epsilon`, each a single value.
    epochs, batch_size, dataset_size
        As in `get_epsilon`, in place of `steps` and `sample_rate`.

    Returns
    -------
    PrivacyCurve, ShuffledCurve or BinsCurve
        A curve that composes with others of the same adjacency by ``+``; for ``sampling=Shuffle(...)``, with
        ``adjacency="zero_out"`` or "replace", one of a certified interval; for `CorrelatedNoise` with
        ``sampling=FixedBins(...)``, one of a single record that does not compose.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If the combination of mechanism, sampling, adjacency and group has no proven dominating
        pair; the message says what to use instead.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)
    - Lebeda, Regehr, Kamath and Steinke 2024, "Avoiding Pitfalls for Privacy Accounting of Subsampled
      Mechanisms under Composition", arXiv:2405.20769 (PITFALLS)
    - Zhu, Dong and Wang 2022, "Optimal Accounting of Differential Privacy via Characteristic Function",
      arXiv:2106.08567

    Examples
    --------
    >>> import hockeystick as hs
    >>> epoch = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=100)
    >>> epoch * 10 == hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    True
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    if isinstance(mechanism, CorrelatedNoise):
        return whole_run_curve(
            mechanism,
            noise_multiplier=noise_multiplier,
            sample_rate=sample_rate,
            sampling=sampling,
            steps=steps,
            group_size=group_size,
            group=group,
            adjacency=adjacency,
            tolerance=tolerance,
        )
    count = count_scalar(steps, "steps", 0)
    if isinstance(sampling, Shuffle):
        step = configure_shuffled(
            adjacency=adjacency,
            noise_multiplier=noise_multiplier,
            mechanism=mechanism,
            sample_rate=sample_rate,
            sampling=sampling,
            group_size=group_size,
            group=group,
        )
        size = count_scalar(step.group_size, "group_size", 1)
        noise = check_noise_multiplier(step.noise_multiplier)
        return ShuffledCurve(sampling, ((noise, count),), size, step.adjacency, tolerance)
    kind, checked_adjacency = step_kind(
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        sampling=sampling,
        group_size=group_size,
        group=group,
        adjacency=adjacency,
        mechanism=mechanism,
    )
    counts = {kind: count} if count else {}
    return PrivacyCurve(counts, checked_adjacency, tolerance)
