"""Algorithms that compute the update of a clipped unit: several local steps from the weights of the round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import Floats, count_scalar, float_scalar, float_vector, require
from hockeystick._gradients import Gradients, Indices, gradient_rows

Local: TypeAlias = Callable[[Gradients, Floats, Indices], ArrayLike]
"""(gradients, weights, indices of the records of a unit) to the update, shape (parameters,)."""


Direction: TypeAlias = Callable[[Floats, int], Floats]
"""(mean gradient of a batch, number of the local step from 1) to the direction of the step."""


class _LocalSteps:
    """Local steps along directions that a class for each algorithm computes from the gradients."""

    learning_rate: float
    epochs: int
    batch_size: int

    def _directions(self) -> Direction:
        """Return a function that starts without memory of other units."""
        raise NotImplementedError

    def __call__(self, gradients: Gradients, weights: Floats, indices: Indices) -> Floats:
        """Update of one unit.

        Parameters
        ----------
        gradients : callable
            Function (weights, indices) that returns the gradients of these examples, one a row.
        weights : ndarray, shape (parameters,)
            Where the local steps start; not changed.
        indices : ndarray of int, shape (records,)
            Records of the unit.

        Returns
        -------
        ndarray, shape (parameters,)
            Before clipping.
        """
        current, direction = weights.copy(), self._directions()
        for step, batch in enumerate(_local_batches(indices, self.epochs, self.batch_size), start=1):
            gradient = gradient_rows(gradients, current, batch).mean(axis=0)
            current = current - self.learning_rate * direction(gradient, step)
        return np.asarray((weights - current) / self.learning_rate)


@dataclass(frozen=True)
class LocalSGD(_LocalSteps):
    """Several steps of SGD on the records of a unit, with momentum if wanted.

    Parameters
    ----------
    learning_rate : float
        Step size of the local steps, in (0, inf).
    epochs : int, optional
        How often the unit is walked through, at least once.
    batch_size : int, optional
        Number of records of a local step, at least one; the last step of an epoch takes those that are left.
        1 is the classical SGD of SHUFFLE, equation (2).
    momentum : float, optional
        Factor in [0, 1) by which the last local step is kept. It starts at zero in every unit.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    Called with (gradients, weights, indices), it returns how far the local steps went from the weights, over
    the learning rate: without momentum the sum of the gradients that were used,
    a_h = sum_j grad f(w_j, xi_j) of SHUFFLE, equation (2). Records are taken in the order of `indices`.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> import numpy as np
    >>> from hockeystick import training
    >>> data = np.array([[2.0], [4.0]])
    >>> algorithm = training.LocalSGD(learning_rate=0.5)
    >>> algorithm(lambda weights, indices: weights - data[indices], np.zeros(1), np.array([0, 1]))
    array([-5.])
    """

    learning_rate: float
    epochs: int = 1
    batch_size: int = 1
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check_steps(self)
        object.__setattr__(self, "momentum", _in_unit_interval(self.momentum, "momentum"))

    def _directions(self) -> Direction:
        speed: Floats | float = 0.0

        def direction(gradient: Floats, step: int) -> Floats:
            """Return the gradient with what is left of earlier ones."""
            nonlocal speed
            speed = self.momentum * speed + gradient
            return speed

        return direction


@dataclass(frozen=True)
class LocalAdam(_LocalSteps):
    """Several steps of Adam on the records of a unit.

    Parameters
    ----------
    learning_rate : float
        Step size of the local steps, in (0, inf).
    epochs : int, optional
        How often the unit is walked through, at least once.
    batch_size : int, optional
        Number of records of a local step, at least one.
    betas : tuple of float, optional
        Factors in [0, 1) by which the means of gradients and of their squares are kept. Both start at zero in
        every unit.
    epsilon : float, optional
        Added to the root of the mean square, in (0, inf).

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    Called with (gradients, weights, indices), it returns how far the local steps went from the weights, over
    the learning rate, as `LocalSGD` does.

    References
    ----------
    D. P. Kingma and J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015. arXiv:1412.6980

    Examples
    --------
    >>> import numpy as np
    >>> from hockeystick import training
    >>> data = np.array([[2.0], [4.0]])
    >>> algorithm = training.LocalAdam(learning_rate=0.5)
    >>> algorithm(lambda weights, indices: weights - data[indices], np.zeros(1), np.array([0, 1])).round(2)
    array([-1.98])
    """

    learning_rate: float
    epochs: int = 1
    batch_size: int = 1
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check_steps(self)
        object.__setattr__(self, "betas", _two(self.betas))
        object.__setattr__(self, "epsilon", _positive(self.epsilon, "epsilon"))

    def _directions(self) -> Direction:
        mean: Floats | float = 0.0
        square: Floats | float = 0.0

        def direction(gradient: Floats, step: int) -> Floats:
            """Return the mean gradient over the root of the mean square, both corrected for their start."""
            nonlocal mean, square
            mean = mean + (1.0 - self.betas[0]) * (gradient - mean)
            square = square + (1.0 - self.betas[1]) * (gradient**2 - square)
            size = np.sqrt(square / (1.0 - self.betas[1] ** step)) + self.epsilon
            return np.asarray(mean / (1.0 - self.betas[0] ** step) / size)

        return direction


def mean_gradient(gradients: Gradients, weights: Floats, indices: Indices) -> Floats:
    """Mean of the gradients of a unit: SHUFFLE, equation (4)."""
    return np.asarray(gradient_rows(gradients, weights, indices).mean(axis=0))


def unit_updates(local: Local, gradients: Gradients, weights: Floats, parts: list[Indices]) -> Floats:
    """Update of every unit that holds a record, one a row, before clipping."""
    rows = [_update(local, gradients, weights, part) for part in parts if len(part)]
    return np.array(rows).reshape(len(rows), weights.size)


def _update(local: Local, gradients: Gradients, weights: Floats, part: Indices) -> Floats:
    # What is the caller's to change is a copy: the noisy update is taken from the weights as they were.
    update = float_vector(local(gradients, weights.copy(), part.copy()), "local update")
    require(
        update.shape == weights.shape, "local update", f"shape {update.shape}", f"of shape {weights.shape}"
    )
    return update


def _local_batches(indices: Indices, epochs: int, size: int) -> Iterator[Indices]:
    for _ in range(epochs):
        for start in range(0, len(indices), size):
            yield indices[start : start + size]


def _check_steps(algorithm: LocalSGD | LocalAdam) -> None:
    """Check what all algorithms of several local steps have."""
    object.__setattr__(algorithm, "learning_rate", _positive(algorithm.learning_rate, "learning_rate"))
    for name in ("epochs", "batch_size"):
        object.__setattr__(algorithm, name, count_scalar(getattr(algorithm, name), name, 1))


def _two(betas: object) -> tuple[float, ...]:
    if not isinstance(betas, tuple) or len(betas) != 2:
        raise TypeError(f"betas must be two numbers, got {betas!r}")
    return tuple(_in_unit_interval(beta, "betas") for beta in betas)


def _positive(value: object, name: str) -> float:
    number = float_scalar(value, name)
    require(0.0 < number < np.inf, name, number, "in (0, inf)")
    return number


def _in_unit_interval(value: object, name: str) -> float:
    number = float_scalar(value, name)
    require(0.0 <= number < 1.0, name, number, "in [0, 1)")
    return number
