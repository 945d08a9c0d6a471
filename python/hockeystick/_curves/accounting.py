"""Epsilon and delta of a run of DP-SGD, for one record or a group of records."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, overload

from numpy.typing import ArrayLike

from hockeystick._arguments import DEFAULT_TOLERANCE, FloatOrFloats
from hockeystick._curves.shuffled import solve_shuffled
from hockeystick._curves.solving import solve
from hockeystick._curves.whole_runs import solve_whole_run
from hockeystick._vocabulary.configuration import configure, in_own_terms
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import Mechanism
from hockeystick._vocabulary.participation import Participation
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling, Shuffle
from hockeystick._vocabulary.shuffled_step import configure_shuffled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hockeystick._signatures import DeltaArguments, EpsilonArguments


@overload
def get_epsilon(
    run: Run | None = None, *, bounds: Literal[False] = False, **arguments: Unpack[EpsilonArguments]
) -> FloatOrFloats: ...


@overload
def get_epsilon(
    run: Run | None = None, *, bounds: Literal[True], **arguments: Unpack[EpsilonArguments]
) -> tuple[FloatOrFloats, FloatOrFloats]: ...


@in_own_terms()
def get_epsilon(
    run: Run | None = None,
    *,
    delta: ArrayLike,
    noise_multiplier: ArrayLike | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | Shuffle | Participation | str | None = None,
    steps: ArrayLike | None = None,
    epochs: ArrayLike | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | CorrelatedNoise | None = None,
    bounds: bool = False,
    tolerance: float = DEFAULT_TOLERANCE,
    executor: Executor | None = None,
) -> Any:
    """Epsilon of DP-SGD, for one record or a group of records.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    run : Run, optional
        A run in the terms of the training script, in place of the arguments that it states. What is given
        beside it must not contradict it.
    delta : array_like
        In (0, 1).
    noise_multiplier : array_like
        Standard deviation of Gaussian noise in units of the clipping norm, at least zero. Left out
        with `mechanism`.
    sample_rate : array_like, optional
        Probability in [0, 1] that a record is in a batch: short for ``sampling=Poisson(...)``.
    sampling : Poisson, WithoutReplacement, FullBatch, Shuffle or str, optional
        How batches are drawn. Give either this or `sample_rate`. With `CorrelatedNoise`: FullBatch,
        FixedOrder, MinimumSeparation, CyclicPoisson, or FixedBins for matrices whose coefficients are
        geometric after the first (lambda-CGD, one buffer, two bands), one record and whole epochs. A string
        is a name as `Run` takes it, such as "fixed" or "shuffle", and takes its sizes from `batch_size` and
        `dataset_size`.
    steps : array_like
        Number of steps, whole and at least zero.
    epochs : array_like, optional
        Number of epochs, in place of `steps`: an epoch is ``dataset_size / batch_size`` steps, or
        ``1 / sample_rate``. The number of steps of all epochs is rounded up.
    batch_size, dataset_size : array_like, optional
        Records in a batch and in the data set, in place of `sample_rate`: their quotient is the rate of
        Poisson batches, of which the first is the expected size, unless `sampling` says otherwise.
    group_size : array_like, optional
        Number of records that change together, whole, in [1, 10000].
    group : Group, optional
        A group whose members differ, in place of `group_size`. Members' rates take the place of the
        sample rate.
    adjacency : {"add_remove", "add", "remove", "replace", "zero_out"}, optional
        Whether the group's records are added, removed, either of the two (the default) or replaced; or
        whether their gradients are replaced by 0. `Shuffle` has this and "replace" alone; where no record
        pushes another one out, it is the same as "add_remove".
    mechanism : Gaussian, Laplace, RandomizedResponse or CorrelatedNoise, optional
        The noise, in place of `noise_multiplier`.
    bounds : bool, optional
        Whether to return both ends of the certified interval.
    tolerance : float, optional
        Relative width of the certified interval to aim at, in [1e-9, 0.1].
    executor : concurrent.futures.Executor, optional
        Computes parts of the broadcast elements: a process pool, Dask's ``client.get_executor()`` or
        another. Answers are the same to the last bit.

    Returns
    -------
    float or ndarray
        An upper bound on epsilon, inf where no noise protects: a Python float where all arguments are
        scalars. With ``bounds=True`` a tuple (lower, upper).

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes do not broadcast.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If the combination of mechanism, sampling, adjacency and group has no proven dominating
        pair; the message says what to use instead.

    Warns
    -----
    WideIntervalWarning
        If an interval wider than `tolerance` had to be used; its ends still hold. Of shuffled batches only
        if both ends are not asked for.
    UnusualValueWarning
        Of runs and sizes: if delta is above ``1 / dataset_size``, or the noise multiplier so small that it
        was probably meant as a standard deviation.

    Notes
    -----
    The composed privacy curve of the dominating pair of each step is evaluated with every numerical
    error bounded on the safe side, in each direction that the adjacency asks for; the larger counts.
    (lower, upper) encloses the curve of the pair. For records replaced in fixed batches
    (`WithoutReplacement`) the pair is an upper bound that need not be attained. For several of them
    the smaller of its curve and that of a chain of single records (GROUP, Theorem 5) is taken, which
    `PrivacyCurve.bound_used` tells. There the guarantee is upper; lower says how closely the bound
    was computed, and the true epsilon may be below it. Pairs: GROUP, Theorem 18 and Lemma 14
    ("Optimal Group Privacy for DP-SGD"); PITFALLS, Propositions 9 and 13 and Theorem 14
    ("Avoiding Pitfalls for Privacy Accounting of Subsampled Mechanisms").

    For shuffled batches (`Shuffle`) no tight pair is known, and (lower, upper) encloses the true epsilon:
    lower is what two concrete data sets certainly reveal, upper holds even if the adversary knows every
    batch. `steps` counts batches; the last epoch may be incomplete.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)
    - Lebeda, Regehr, Kamath and Steinke 2024, "Avoiding Pitfalls for Privacy Accounting of Subsampled
      Mechanisms under Composition", arXiv:2405.20769 (PITFALLS)
    - Zhu, Dong and Wang 2022, "Optimal Accounting of Differential Privacy via Characteristic Function",
      arXiv:2106.08567
    - Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha and Zhang 2024, "How Private are DP-SGD
      Implementations?", arXiv:2403.17673 (shuffled batches)

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    >>> round(hs.get_epsilon(delta=1e-5, **run), 4)
    1.8282
    >>> hs.get_epsilon(delta=[1e-6, 1e-5], group_size=[[1], [2], [4]], **run).shape
    (3, 2)
    >>> lower, upper = hs.get_epsilon(delta=1e-5, group_size=8, bounds=True, **run)
    >>> lower <= upper <= lower * (1 + 2e-6)
    True
    >>> run = hs.Run(batch_size=100, dataset_size=10_000, epochs=10, noise_multiplier=1.0, sampling="poisson")
    >>> round(hs.get_epsilon(run, delta=1e-5), 4)
    1.8282
    >>> epoch = {"noise_multiplier": 1.0, "sampling": hs.Shuffle(600, 60_000), "steps": 100}
    >>> lower, upper = hs.get_epsilon(delta=1e-5, adjacency="zero_out", bounds=True, **epoch)
    >>> print(f"{lower:.3f} {upper:.3f}")
    4.063 4.377
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    known = {
        "noise_multiplier": noise_multiplier,
        "mechanism": mechanism,
        "sample_rate": sample_rate,
        "sampling": sampling,
        "group_size": group_size,
        "group": group,
        "adjacency": adjacency,
    }
    how = {"bounds": bounds, "tolerance": tolerance, "executor": executor}
    return _answer("epsilon", {"delta": delta}, known, steps, how)


@overload
def get_delta(
    run: Run | None = None, *, bounds: Literal[False] = False, **arguments: Unpack[DeltaArguments]
) -> FloatOrFloats: ...


@overload
def get_delta(
    run: Run | None = None, *, bounds: Literal[True], **arguments: Unpack[DeltaArguments]
) -> tuple[FloatOrFloats, FloatOrFloats]: ...


@in_own_terms()
def get_delta(
    run: Run | None = None,
    *,
    epsilon: ArrayLike,
    noise_multiplier: ArrayLike | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | Shuffle | Participation | str | None = None,
    steps: ArrayLike | None = None,
    epochs: ArrayLike | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | CorrelatedNoise | None = None,
    bounds: bool = False,
    tolerance: float = DEFAULT_TOLERANCE,
    executor: Executor | None = None,
) -> Any:
    """Delta of DP-SGD, for one record or a group of records.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    run : Run, optional
        As in `get_epsilon`.
    epsilon : array_like
        Finite and at least zero.
    noise_multiplier, mechanism, sample_rate, sampling, steps, group_size, group, adjacency
        As in `get_epsilon`.
    epochs, batch_size, dataset_size
        As in `get_epsilon`, in place of `steps` and `sample_rate`.
    bounds, tolerance, executor
        As in `get_epsilon`.

    Returns
    -------
    float or ndarray
        An upper bound on delta, in [0, 1]: a Python float where all arguments are scalars. With
        ``bounds=True`` a tuple (lower, upper).

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes do not broadcast.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If the combination of mechanism, sampling, adjacency and group has no proven dominating
        pair; the message says what to use instead.

    Warns
    -----
    WideIntervalWarning
        If an interval wider than `tolerance` had to be used; its ends still hold.

    Notes
    -----
    The same privacy curve as in `get_epsilon`, read in the other direction; the same remark on fixed
    batches applies to lower.

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
    >>> run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    >>> f"{hs.get_delta(epsilon=2.53773, adjacency='remove', **run):.6e}"
    '3.618179e-08'
    >>> fixed = hs.WithoutReplacement(256, 60_000)
    >>> delta = hs.get_delta(epsilon=1.65008, noise_multiplier=2.0, sampling=fixed, steps=2000)
    >>> f"{delta:.5e}"
    '2.37119e-09'
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    known = {
        "noise_multiplier": noise_multiplier,
        "mechanism": mechanism,
        "sample_rate": sample_rate,
        "sampling": sampling,
        "group_size": group_size,
        "group": group,
        "adjacency": adjacency,
    }
    how = {"bounds": bounds, "tolerance": tolerance, "executor": executor}
    return _answer("delta", {"epsilon": epsilon}, known, steps, how)


def _answer(
    unknown: str, at: dict[str, Any], known: dict[str, Any], steps: ArrayLike, how: dict[str, Any]
) -> Any:
    """Return epsilon at a delta or the other way round, or both ends, by what computes it for such a run."""
    if isinstance(known["mechanism"], CorrelatedNoise):
        return solve_whole_run(unknown, **known, steps=steps, targets=at, **how)
    if isinstance(known["sampling"], Shuffle):
        (value,) = at.values()
        return solve_shuffled(unknown, configure_shuffled(**known), steps=steps, at=value, **how)
    return solve(unknown, configure(**known), steps=steps, **at, **how)
