"""DP-SGD with clipped units of any size and with several ways of drawing batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import Gaussian
from hockeystick._arguments import Floats, choice, count_scalar, require, require_type
from hockeystick._gradients import Gradients, check_callable, check_weights, gradient_rows
from hockeystick._progress import Report, reporting
from hockeystick.accountants._adaptors import NormAccountant, NormRefresher
from hockeystick.training._accounting import SAMPLINGS, StepAccountant, step_charger
from hockeystick.training._batches import Units, check_sizes, drawn_units, kept_units
from hockeystick.training._clipping import individual_clipping, mixed_clipping
from hockeystick.training._local import Local, mean_gradient, unit_updates
from hockeystick.training._norms import gradient_norms
from hockeystick.training._schedules import clipping_schedule, rate_schedule
from hockeystick.training._seeds import Seed, generator_from

_Result = TypeVar("_Result")


def train(
    gradients: Gradients,
    weights: ArrayLike,
    *,
    dataset_size: int,
    batch_size: int,
    epochs: int,
    max_grad_norm: float | Callable[[int], float],
    noise_multiplier: float,
    learning_rate: float | Callable[[int], float],
    seed: Seed,
    units: int | None = None,
    filtered: bool = False,
    sampling: str = "poisson",
    local: Local | None = None,
    receive: Callable[[int, Floats], ArrayLike | None] | None = None,
    postprocess: Callable[[int, Floats], ArrayLike] | None = None,
    accountant: StepAccountant | None = None,
    refresh_every: int | None = None,
    callback: Callable[[int, Floats], _Result] | None = None,
    progress: Report | bool | None = None,
) -> tuple[Floats, list[_Result]]:
    """Train a model by DP-SGD, or by any algorithm whose updates are clipped as a whole.

    Parameters
    ----------
    gradients : callable
        Function (weights, indices) that returns the gradients of the loss of these examples, shape
        (batch, parameters).
    weights : array_like, shape (parameters,)
        Weights to start from; they are not changed.
    dataset_size : int
        Number of records N, in [1, 2**53].
    batch_size : int
        Number of records in a batch, in [1, dataset_size]; for Poisson sampling the expected number.
    epochs : int
        Number of epochs, at least one, of N // batch_size steps each.
    max_grad_norm : float or callable
        Clipping norm C in [1e-150, 1e150], in the units of the updates; or a function that returns it for
        steps 1, 2, ... of the run. It may depend on public numbers and on what was released, such as the
        weights that `callback` or `postprocess` has seen, and on nothing else.
    noise_multiplier : float
        Standard deviation of the noise in units of C, at least zero, as in Opacus. SHUFFLE writes the
        noise N(0, (2 C sigma)^2 I): its sigma is half of this.
    learning_rate : float or callable
        Step size, finite and at least zero; or a function that returns it for steps 1, 2, ... of the
        run. It is asked right before each update, so that it may follow what `callback` has seen.
    seed : int or numpy.random.Generator
        In [0, 2**64), or the generator to draw from. Equal seeds give equal weights, and with any noise
        multiplier they draw the same batches.
    units : int, optional
        Number m of equal parts of a batch whose mean gradients, or updates by `local`, are clipped; it
        divides `batch_size`. By default every record is a unit: individual clipping; 1 is batch clipping.
        With Poisson sampling every part is a Poisson sample of its own, at the rate
        ``batch_size / units / dataset_size``.
    filtered : bool, optional
        Whether every clipped unit of a shuffled batch is kept with probability 1/2, by a coin of its own that
        nobody may see (SHUFFLE, Appendix D). Its noise is added even if no unit is kept, and the sum is
        divided by the expected number of units, half of them.
    sampling : {"poisson", "subsample", "shuffle"}, optional
        How the batches are drawn: by `poisson_batches`, by `subsampled_batches`, or as by
        `shuffled_batches`, afresh for each epoch.
    local : callable, optional
        Algorithm that computes the update of a unit, such as `LocalSGD` or `LocalAdam`, or any function
        (gradients, weights, indices) that returns an array of shape (parameters,), to be clipped and
        subtracted like a gradient. It is called for every unit that is not empty, with the weights of the
        round. It must not keep anything from one unit to another. By default the mean gradient.
    receive : callable, optional
        Function (step, weights) that is called before each step: a new global model that has arrived takes
        the place of the weights, None leaves them. It may know what was released, and data of others, but
        not the data that is trained on.
    postprocess : callable, optional
        Function (step, weights) that is called after each step and returns the weights to go on with, as a
        projection, an average or a momentum on the noisy updates does. It must not use the data either.
    accountant : optional
        Its ``step`` is called for every step with the noise multiplier and how the batch was drawn; see
        the notes for which accountants fit which batches. An `IndividualAccountant` also gets the
        gradient norms of all examples; if it has ``individual_clipping=True``, every example is clipped
        to its norm in the accountant in place of C.
    refresh_every : int, optional
        Number K of steps for which an `IndividualAccountant` uses norms before `gradients` is asked for
        those of all examples again, at least one. By default 1: every step knows its norms, which are
        taken at the weights where it takes its gradients.
    callback : callable, optional
        Function (epoch, weights) that is called at the end of epochs 1, 2, ...; what it returns is
        kept.
    progress : callable or bool, optional
        Function (done, total) that is called after every step; or True for a bar, which needs tqdm.

    Returns
    -------
    weights : ndarray, shape (parameters,)
        Weights at the end.
    history : list
        What `callback` returned, one entry an epoch; empty without it.

    Raises
    ------
    SamplingMismatchError
        If `accountant` is not about batches that are drawn as `sampling` says; before the first step.
    ValueError
        If an argument is out of range, `accountant` assumes other clipping, or gradients, updates or weights
        have the wrong shape or are not finite.
    TypeError
        If an argument has the wrong type.
    UnsupportedError
        If the accountant has no proven pair for such steps; before the first of them.
    ImportError
        If `progress` is True and tqdm is not installed.

    Notes
    -----
    SHUFFLE, Algorithm 1: a step computes U by `mixed_clipping`, with `units` parts, or from the updates a_h
    of the units by `local` as U = sum_h [a_h]_C, and moves the weights by the learning rate times
    -(U + N(0, (noise_multiplier C)^2 I)) / m. For individual clipping m is `batch_size`, the expected one for
    Poisson sampling: dividing by the size of the batch that was drawn would not be covered by the
    accounting. Within a unit `local` may normalise by what it holds. A unit without records counts as 0.

    The paper's interrupt service routine is `receive`, which runs between rounds. Its post-processing B of
    clipped updates, with ||B(x)|| <= C where ||x|| <= C', can be a part of `local`: what comes out is clipped
    to C, which changes nothing if B keeps its promise, and keeps the guarantee if not.

    Where k units of a batch change, U moves by at most 2kC, so that the step, once its batch is known, is
    Gaussian-DP with mu = 2k / noise_multiplier = k / sigma (SHUFFLE, Section 5).

    What is drawn is what is charged:

    - ``"poisson"``: every accountant but `ShuffleAccountant`, and those of Opacus. ``step`` is given
      ``sample_rate=batch_size / dataset_size``.
    - ``"subsample"``: accountants whose ``step`` has a parameter ``sampling``, as `GroupAccountant` and
      `IndividualAccountant`. It is given `hockeystick.WithoutReplacement`.
    - ``"shuffle"``: a `ShuffleAccountant` of the same sizes, between two epochs, whose ``units_per_batch`` is
      `units`, or `batch_size` without them, and whose ``filtered`` is that of the training. ``step`` is given
      ``sample_rate=batch_size / dataset_size``.

    With `units`, a `ShuffleAccountant` or a `GroupAccountant` is needed, which records
    `hockeystick.BatchClipping`: the others assume that one record added or removed moves the update by C,
    while it may move the clipped update of a unit of several records by 2C. An `IndividualAccountant` knows
    the norms of gradients, and cannot be combined with `local`, nor with clipping norms that change.

    With an `IndividualAccountant` this is INDIVIDUAL, Algorithms 1 and 2, and with individual clipping
    that of its Appendix B.2; `gradients` must then give an example the same gradient in whatever company
    it is asked for. The accounting draws nothing from `seed`, and without individual clipping it changes
    no weight.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    Examples
    --------
    The mean of a data set, by the squared distance as loss:

    >>> import numpy as np
    >>> from hockeystick import training
    >>> data = np.random.default_rng(1).normal(3.0, 1.0, size=(1000, 1))
    >>> weights, history = training.train(
    ...     lambda weights, indices: weights - data[indices],
    ...     [0.0],
    ...     dataset_size=1000,
    ...     batch_size=50,
    ...     epochs=3,
    ...     max_grad_norm=4.0,
    ...     noise_multiplier=1.0,
    ...     learning_rate=0.3,
    ...     seed=1,
    ...     callback=lambda epoch, weights: round(float(weights[0])),
    ... )
    >>> history
    [3, 3, 3]
    """
    check_callable(gradients, "gradients")
    current = check_weights(weights).copy()
    records, size = check_sizes(dataset_size, batch_size)
    total_epochs = count_scalar(epochs, "epochs", 1)
    norm_of = clipping_schedule(max_grad_norm)
    noise = Gaussian(noise_multiplier).noise_multiplier
    rate_of = rate_schedule(learning_rate)
    random = generator_from(seed)
    scheme = choice(sampling, "sampling", SAMPLINGS)
    parts = _check_units(units, size, scheme)
    share = _check_filtered(filtered, scheme)
    for name, function in (
        ("callback", callback),
        ("local", local),
        ("receive", receive),
        ("postprocess", postprocess),
    ):
        if function is not None:
            check_callable(function, name)
    individual = _individual(accountant, refresh_every, parts, local, max_grad_norm)
    charge = step_charger(accountant, scheme, records, size, parts, filtered)
    refresher = None
    if individual is not None:
        every = 1 if refresh_every is None else refresh_every
        refresher = NormRefresher(
            individual,
            lambda: gradient_norms(gradients, current, dataset_size=records),
            every,
            records,
            norm_of(1),
        )

    rounds = records // size
    step = 0
    history: list[_Result] = []
    with reporting(progress, "training") as report:
        for epoch in range(1, total_epochs + 1):
            for batch in drawn_units(scheme, records, size, rounds, parts, random):
                step += 1
                current = _replaced(receive, step, current, "receive")
                if refresher is not None:
                    refresher.before_step()
                norm = norm_of(step)
                bound = _bound(individual, batch, norm)
                kept = kept_units(batch, parts, random) if filtered else batch
                update = _update(gradients, local, current, kept, bound, parts)
                noisy = update + noise * norm * random.standard_normal(current.size)
                charge(noise)
                current = current - rate_of(step) * noisy / (share * (size if parts is None else parts))
                current = _replaced(postprocess, step, current, "postprocess")
                if report is not None:
                    report(step, total_epochs * rounds)
            if callback is not None:
                history.append(callback(epoch, current))
    return current, history


def _check_filtered(filtered: object, scheme: str) -> float:
    """Share of the units that is kept on average."""
    require_type(filtered, bool, "filtered")
    if not filtered:
        return 1.0
    require(
        scheme == "shuffle",
        "filtered",
        filtered,
        f"False with sampling={scheme!r}: coins are accounted for with sampling='shuffle', and make of "
        "Poisson samples others at half of the rate",
    )
    return 0.5


def _update(
    gradients: Gradients,
    local: Local | None,
    weights: Floats,
    batch: Units,
    norm: float | Floats,
    units: int | None,
) -> Floats:
    """U of one batch, before the noise."""
    if units is None:
        assert isinstance(batch, np.ndarray)
        if local is None:
            rows = gradient_rows(gradients, weights, batch) if len(batch) else np.zeros((0, weights.size))
            return individual_clipping(rows, norm)
        return individual_clipping(unit_updates(local, gradients, weights, list(batch[:, None])), norm)
    if local is None and isinstance(batch, np.ndarray) and isinstance(norm, float):
        return mixed_clipping(gradient_rows(gradients, weights, batch), norm, units)
    parts = list(np.split(batch, units)) if isinstance(batch, np.ndarray) else batch
    return individual_clipping(unit_updates(local or mean_gradient, gradients, weights, parts), norm)


def _replaced(
    function: Callable[[int, Floats], ArrayLike | None] | None, step: int, weights: Floats, name: str
) -> Floats:
    """Weights that a function gives in place of these, or these."""
    found = None if function is None else function(step, weights.copy())
    if found is None:
        require(function is None or name == "receive", name, None, "a function that returns the weights")
        return weights
    replaced = check_weights(found)
    require(
        replaced.shape == weights.shape,
        name,
        f"weights of shape {replaced.shape}",
        f"of shape {weights.shape}",
    )
    return replaced.copy()


def _individual(
    accountant: object, refresh_every: object, units: object, local: object, max_grad_norm: object
) -> NormAccountant | None:
    """`accountant` if it is one of individual examples, which only individual clipping is about."""
    if isinstance(accountant, NormAccountant):
        require(units is None, "units", units, "None with an IndividualAccountant")
        require(local is None, "local", local, "None with an IndividualAccountant, which knows gradients")
        if callable(max_grad_norm):
            raise ValueError(
                "max_grad_norm must be one number with an IndividualAccountant, whose norms are in its units"
            )
        return accountant
    if refresh_every is not None:
        raise TypeError("refresh_every is for an IndividualAccountant")
    return None


def _bound(individual: NormAccountant | None, batch: Units, norm: float) -> float | Floats:
    """Norm to which the gradients of a batch are clipped, or one for each of them."""
    if individual is None or not individual.individual_clipping:
        return norm
    return np.asarray(individual.norms[batch])


def _check_units(units: object, batch_size: int, sampling: str) -> int | None:
    if units is None:
        return None
    parts = count_scalar(units, "units", 1, batch_size)
    if sampling != "poisson":
        require(batch_size % parts == 0, "units", parts, f"a divisor of batch_size {batch_size}")
    return parts
