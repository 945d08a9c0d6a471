"""Two classifiers with the gradient of every example."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    Counts,
    Floats,
    count_array,
    count_scalar,
    float_array,
    float_vector,
    require,
)
from hockeystick.training._seeds import Seed, generator_from


class DenseNetwork:
    """Fully connected layers with biases, tanh between them and softmax at the end.

    The weights are one flat vector, which the model does not keep: layer by layer the matrix of shape
    (inputs + 1, outputs) in C order, whose last row are the biases. The loss of an example is the
    negative logarithm, in nats, of the probability of its label.

    Parameters
    ----------
    sizes : tuple of int
        Number of features, of the units of every hidden layer, and of classes.

    Examples
    --------
    >>> import hockeystick as hs
    >>> model = hs.training.Perceptron(features=2, hidden=3, classes=2)
    >>> model.features, model.classes, model.parameters  # (2 + 1) 3 + (3 + 1) 2 weights
    (2, 2, 17)
    >>> weights, images, labels = model.initial_weights(seed=1), [[3.0, 4.0], [0.0, 1.0]], [0, 1]
    >>> model.gradients(weights, images, labels).shape, model.gradient_norms(weights, images, labels).shape
    ((2, 17), (2,))
    >>> 0.0 < model.loss(weights, images, labels) < 3.0, 0.0 <= model.accuracy(weights, images, labels) <= 1.0
    (True, True)
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self._sizes = sizes
        self._shapes = [(inputs + 1, outputs) for inputs, outputs in pairwise(sizes)]

    @property
    def features(self) -> int:
        """Number of features of an image."""
        return self._sizes[0]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self._sizes[-1]

    @property
    def parameters(self) -> int:
        """Length of the vector of weights."""
        return sum(rows * columns for rows, columns in self._shapes)

    def loss(self, weights: ArrayLike, images: ArrayLike, labels: ArrayLike) -> float:
        """Mean loss of the examples, in nats.

        Parameters
        ----------
        weights : array_like, shape (parameters,)
            Weights of the model.
        images : array_like, shape (n, features)
            At least one example.
        labels : array_like of int, shape (n,)
            Classes in [0, classes).

        Returns
        -------
        float
            The mean, at least zero.

        Raises
        ------
        ValueError
            If an argument has the wrong shape or is out of range, or there is no example.
        TypeError
            If an argument is not real.
        """
        rows, classes = self._examples(images, labels, minimum=1)
        log_probabilities = _log_softmax(self._forward(self._matrices(weights), rows)[-1])
        return float(-log_probabilities[np.arange(len(classes)), classes].mean())

    def accuracy(self, weights: ArrayLike, images: ArrayLike, labels: ArrayLike) -> float:
        """Fraction of the examples whose most probable class is their label.

        Parameters
        ----------
        weights : array_like, shape (parameters,)
            Weights of the model.
        images : array_like, shape (n, features)
            At least one example.
        labels : array_like of int, shape (n,)
            Classes in [0, classes).

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        ValueError
            If an argument has the wrong shape or is out of range, or there is no example.
        TypeError
            If an argument is not real.
        """
        rows, classes = self._examples(images, labels, minimum=1)
        scores = self._forward(self._matrices(weights), rows)[-1]
        return float(np.mean(scores.argmax(axis=1) == classes))

    def gradients(self, weights: ArrayLike, images: ArrayLike, labels: ArrayLike) -> Floats:
        """Gradient of the loss of every example.

        Parameters
        ----------
        weights : array_like, shape (parameters,)
            Weights of the model.
        images : array_like, shape (n, features)
            Examples; there may be none.
        labels : array_like of int, shape (n,)
            Classes in [0, classes).

        Returns
        -------
        ndarray, shape (n, parameters)
            One gradient a row, in nats.

        Raises
        ------
        ValueError
            If an argument has the wrong shape or is out of range.
        TypeError
            If an argument is not real.

        Notes
        -----
        The gradient of an example by the matrix of a layer is the outer product of what the layer takes
        (with a one for the biases) and the derivative of the loss by what it gives before the tanh.
        """
        factors = self._factors(weights, images, labels)
        gradients = np.empty((len(factors[0][0]), self.parameters))
        start = 0
        for taken, derivative in factors:
            stop = start + taken.shape[1] * derivative.shape[1]
            outer = taken[:, :, None] * derivative[:, None, :]
            gradients[:, start:stop] = outer.reshape(len(taken), stop - start)
            start = stop
        return gradients

    def gradient_norms(self, weights: ArrayLike, images: ArrayLike, labels: ArrayLike) -> Floats:
        """Euclidean norm of the gradient of every example, without forming the gradients.

        Parameters
        ----------
        weights : array_like, shape (parameters,)
            Weights of the model.
        images : array_like, shape (n, features)
            Examples; there may be none.
        labels : array_like of int, shape (n,)
            Classes in [0, classes).

        Returns
        -------
        ndarray, shape (n,)
            Norms, in nats.

        Raises
        ------
        ValueError
            If an argument has the wrong shape or is out of range.
        TypeError
            If an argument is not real.

        Notes
        -----
        The norm of an outer product is the product of the norms of its factors; the squares of the
        layers add up. It takes n (inputs + outputs) operations a layer in place of n inputs outputs.
        """
        factors = self._factors(weights, images, labels)
        squares = sum(_squared_norms(taken) * _squared_norms(derivative) for taken, derivative in factors)
        return np.sqrt(np.asarray(squares, dtype=np.float64))

    def _factors(
        self, weights: ArrayLike, images: ArrayLike, labels: ArrayLike
    ) -> list[tuple[Floats, Floats]]:
        """Layer by layer the two factors of the gradients, shapes (n, inputs + 1) and (n, outputs)."""
        matrices = self._matrices(weights)
        rows, classes = self._examples(images, labels)
        *taken, scores = self._forward(matrices, rows)
        derivative = np.exp(_log_softmax(scores))
        derivative[np.arange(len(classes)), classes] -= 1.0
        factors = [(taken[-1], derivative)]
        for layer in range(len(matrices) - 1, 0, -1):
            hidden = taken[layer][:, :-1]
            derivative = (derivative @ matrices[layer][:-1].T) * (1.0 - hidden**2)
            factors.append((taken[layer - 1], derivative))
        return factors[::-1]

    @staticmethod
    def _forward(matrices: list[Floats], images: Floats) -> list[Floats]:
        """Return what every layer takes, with a last column of ones, and the scores of the classes."""
        values = [_with_one(images)]
        for matrix in matrices[:-1]:
            values.append(_with_one(np.tanh(values[-1] @ matrix)))
        return [*values, values[-1] @ matrices[-1]]

    def _matrices(self, weights: ArrayLike) -> list[Floats]:
        """Cut the vector of weights into the matrices of the layers."""
        vector = float_vector(weights, "weights")
        require(vector.size == self.parameters, "weights", vector.size, f"{self.parameters} numbers")
        ends = np.cumsum([rows * columns for rows, columns in self._shapes])
        parts = np.split(vector, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _examples(self, images: ArrayLike, labels: ArrayLike, minimum: int = 0) -> tuple[Floats, Counts]:
        rows = float_array(images, "images")
        good = rows.ndim == 2 and rows.shape[1] == self.features and len(rows) >= minimum
        shape = f"of shape (n, {self.features}) with n >= {minimum}"
        require(good, "images", f"shape {rows.shape}", shape)
        classes = count_array(labels, "labels", 0)
        require(
            classes.shape == rows.shape[:1], "labels", f"shape {classes.shape}", f"of shape ({len(rows)},)"
        )
        largest = int(classes.max(initial=0))
        require(largest < self.classes, "labels", largest, f"in [0, {self.classes})")
        return rows, classes


class SoftmaxRegression(DenseNetwork):
    """Softmax regression: one layer from the features to the classes.

    The weights are one flat vector, which the model does not keep.

    Parameters
    ----------
    features : int
        Number of features of an image, at least one.
    classes : int
        Number of classes, at least two.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If a number is not real.

    Examples
    --------
    >>> from hockeystick import training
    >>> model = training.SoftmaxRegression(features=2, classes=2)
    >>> weights = model.initial_weights()
    >>> model.gradients(weights, [[3.0, 4.0]], [0])
    array([[-1.5,  1.5, -2. ,  2. , -0.5,  0.5]])
    >>> round(model.loss(weights, [[3.0, 4.0]], [0]), 6)
    0.693147
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__((count_scalar(features, "features", 1), count_scalar(classes, "classes", 2)))

    def initial_weights(self) -> Floats:
        """Return zeros: the loss is convex.

        Returns
        -------
        ndarray, shape (parameters,)
            Weights to start from.

        Examples
        --------
        >>> from hockeystick import training
        >>> training.SoftmaxRegression(features=2, classes=2).initial_weights().tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        """
        return np.zeros(self.parameters)


class Perceptron(DenseNetwork):
    """A perceptron with one hidden layer, whose activation is tanh.

    The weights are one flat vector, which the model does not keep.

    Parameters
    ----------
    features : int
        Number of features of an image, at least one.
    hidden : int
        Number of hidden units, at least one.
    classes : int
        Number of classes, at least two.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If a number is not real.

    Examples
    --------
    >>> from hockeystick import training
    >>> model = training.Perceptron(features=64, hidden=32, classes=10)
    >>> weights = model.initial_weights(seed=1)
    >>> weights.shape
    (2410,)
    """

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        sizes = (
            count_scalar(features, "features", 1),
            count_scalar(hidden, "hidden", 1),
            count_scalar(classes, "classes", 2),
        )
        super().__init__(sizes)

    def initial_weights(self, *, seed: Seed) -> Floats:
        """Draw weights at random.

        Parameters
        ----------
        seed : int or numpy.random.Generator
            In [0, 2**64), or the generator to draw from.

        Returns
        -------
        ndarray, shape (parameters,)
            Weights to start from: normal with variance 1 / inputs in every layer, biases zero.

        Raises
        ------
        ValueError
            If `seed` is out of range.
        TypeError
            If `seed` has the wrong type.

        Examples
        --------
        >>> from hockeystick import training
        >>> model = training.Perceptron(features=64, hidden=32, classes=10)
        >>> model.initial_weights(seed=1).shape
        (2410,)
        """
        random = generator_from(seed)
        matrices = [random.standard_normal(shape) / np.sqrt(shape[0] - 1) for shape in self._shapes]
        for matrix in matrices:
            matrix[-1] = 0.0
        return np.concatenate([matrix.ravel() for matrix in matrices])


def _with_one(rows: Floats) -> Floats:
    return np.hstack([rows, np.ones((len(rows), 1))])


def _log_softmax(scores: Floats) -> Floats:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _squared_norms(rows: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
