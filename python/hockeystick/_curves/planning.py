"""The noise and the sample rate with which a run meets a target."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, overload

from numpy.typing import ArrayLike

from hockeystick._arguments import DEFAULT_TOLERANCE, FloatOrFloats
from hockeystick._curves.meeting import value_that_meets
from hockeystick._curves.risk import check_target
from hockeystick._curves.whole_runs import solve_whole_run
from hockeystick._vocabulary.configuration import in_own_terms
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import BatchClipping, Mechanism
from hockeystick._vocabulary.participation import Participation
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling, Shuffle

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hockeystick._signatures import NoiseMultiplierArguments, SampleRateArguments


@overload
def get_noise_multiplier(
    run: Run | None = None, *, bounds: Literal[False] = False, **arguments: Unpack[NoiseMultiplierArguments]
) -> FloatOrFloats: ...


@overload
def get_noise_multiplier(
    run: Run | None = None, *, bounds: Literal[True], **arguments: Unpack[NoiseMultiplierArguments]
) -> tuple[FloatOrFloats, FloatOrFloats]: ...


@in_own_terms("noise_multiplier")
def get_noise_multiplier(
    run: Run | None = None,
    *,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    advantage: ArrayLike | None = None,
    tpr: ArrayLike | None = None,
    fpr: ArrayLike | None = None,
    bayes_success: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    mu: ArrayLike | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | Shuffle | Participation | str | None = None,
    steps: ArrayLike | None = None,
    epochs: ArrayLike | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: CorrelatedNoise | BatchClipping | None = None,
    bounds: bool = False,
    tolerance: float = DEFAULT_TOLERANCE,
    executor: Executor | None = None,
) -> Any:
    """Smallest noise multiplier with which a run meets a target.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    run : Run, optional
        A run, of which everything but the noise is taken.
    epsilon : array_like, optional
        Target epsilon, finite and at least zero; with `delta`. Give these two, or one of the targets below.
    delta : array_like, optional
        Target delta, in (0, 1).
    advantage : array_like, optional
        How far an attack's hit rate may exceed its false alarms, in (0, 1): delta at epsilon zero.
    tpr, fpr : array_like, optional
        The hit rate in (fpr, 1) that an attack may have at most at a false positive rate in (0, 1).
    bayes_success : array_like, optional
        How often an attack may be right, in (max(prior, 1 - prior), 1), whether the group takes part.
    prior : array_like, optional
        Probability in (0, 1), known to the attacker, that the group takes part; 1/2 if left out. With
        `bayes_success`.
    mu : array_like, optional
        A bound on the whole trade-off function, by that of a Gaussian query: positive. Attacks with few
        false alarms see the largest losses, so that sampling hardly helps it. Error rates and mu are searched
        for in this process, without the executor, and with mu there are no `bounds`.
    sample_rate, sampling, steps, group_size, group, adjacency
        As in `get_epsilon`.
    epochs, batch_size, dataset_size
        As in `get_epsilon`.
    mechanism : CorrelatedNoise or BatchClipping, optional
        Noise that is correlated over the run: finds the noise multiplier of Z. Batches that are clipped as a
        whole: finds the noise multiplier of the batch. It takes the place of the one that the mechanism has.
    bounds, tolerance, executor
        As in `get_epsilon`.

    Returns
    -------
    float or ndarray
        A noise multiplier sigma, rounded up: `get_epsilon` at sigma is at most `epsilon`. With
        ``bounds=True`` a tuple (lower, upper) around the smallest one. For shuffled batches (`Shuffle`) it is
        the smallest one whose upper end meets the target, and lower certainly misses it.

    Raises
    ------
    ValueError
        If an argument is out of range, the shapes do not broadcast or nothing
        in the supported range reaches the target.
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
    >>> plan = {"sample_rate": 0.01, "steps": 1000, "group_size": 8}
    >>> sigma = hs.get_noise_multiplier(epsilon=3.0, delta=1e-5, **plan)
    >>> 2.999 < hs.get_epsilon(delta=1e-5, noise_multiplier=sigma, **plan) <= 3.0
    True
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    target = check_target(
        epsilon=epsilon,
        delta=delta,
        advantage=advantage,
        tpr=tpr,
        fpr=fpr,
        bayes_success=bayes_success,
        prior=prior,
        mu=mu,
    )
    known: dict[str, Any] = {
        "sample_rate": sample_rate,
        "sampling": sampling,
        "steps": steps,
        "group_size": group_size,
        "group": group,
        "adjacency": adjacency,
    }
    how: dict[str, Any] = {"bounds": bounds, "tolerance": tolerance, "executor": executor}
    if isinstance(mechanism, CorrelatedNoise):
        point = dict(zip(("epsilon", "delta"), target.point("correlated noise"), strict=True))
        return solve_whole_run("noise_multiplier", mechanism, targets=point, **known, **how)
    if mechanism is not None and not isinstance(mechanism, BatchClipping):
        raise TypeError(
            "get_noise_multiplier() takes no mechanism but CorrelatedNoise and BatchClipping: the unknown is "
            "the noise multiplier of Gaussian noise; for the parameter of Laplace noise or randomized "
            "response search with get_epsilon"
        )
    return value_that_meets("noise_multiplier", target, {**known, "mechanism": mechanism}, **how)


@overload
def get_sample_rate(
    run: Run | None = None, *, bounds: Literal[False] = False, **arguments: Unpack[SampleRateArguments]
) -> FloatOrFloats: ...


@overload
def get_sample_rate(
    run: Run | None = None, *, bounds: Literal[True], **arguments: Unpack[SampleRateArguments]
) -> tuple[FloatOrFloats, FloatOrFloats]: ...


@in_own_terms("sample_rate")
def get_sample_rate(
    run: Run | None = None,
    *,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    advantage: ArrayLike | None = None,
    tpr: ArrayLike | None = None,
    fpr: ArrayLike | None = None,
    bayes_success: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    mu: ArrayLike | None = None,
    noise_multiplier: ArrayLike | None = None,
    steps: ArrayLike | None = None,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
    bounds: bool = False,
    tolerance: float = DEFAULT_TOLERANCE,
    executor: Executor | None = None,
) -> Any:
    """Largest sample rate of Poisson sampling with which a run meets a target.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    run : Run, optional
        A run with Poisson batches, of which everything but the rate is taken; its number of steps stays.
    epsilon, delta, advantage, tpr, fpr, bayes_success, prior, mu
        The target, as in `get_noise_multiplier`.
    noise_multiplier, mechanism, steps, group_size, group, adjacency
        As in `get_epsilon`.
    bounds, tolerance, executor
        As in `get_epsilon`.

    Returns
    -------
    float or ndarray
        A sample rate q in [0, 1], rounded down: `get_epsilon` at q is at most `epsilon`. With
        ``bounds=True`` a tuple (lower, upper) around the largest one.

    Raises
    ------
    ValueError
        If an argument is out of range, the shapes do not broadcast or nothing
        in the supported range reaches the target.
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
    >>> plan = {"noise_multiplier": 1.0, "steps": 1000}
    >>> rate = hs.get_sample_rate(epsilon=3.0, delta=1e-5, **plan)
    >>> 2.999 < hs.get_epsilon(delta=1e-5, sample_rate=rate, **plan) <= 3.0
    True
    """
    assert steps is not None
    target = check_target(
        epsilon=epsilon,
        delta=delta,
        advantage=advantage,
        tpr=tpr,
        fpr=fpr,
        bayes_success=bayes_success,
        prior=prior,
        mu=mu,
    )
    known = {
        "noise_multiplier": noise_multiplier,
        "mechanism": mechanism,
        "steps": steps,
        "group_size": group_size,
        "group": group,
        "adjacency": adjacency,
    }
    return value_that_meets(
        "sample_rate", target, known, bounds=bounds, tolerance=tolerance, executor=executor
    )
