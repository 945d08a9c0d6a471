"""Gaussian noise that is correlated over the steps of a run: matrix factorisation, DP-FTRL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    Floats,
    count_scalar,
    float_array,
    float_scalar,
    float_vector,
    require,
    shown,
)
from hockeystick._factorization.bins import Matrix, apart
from hockeystick._factorization.dense import Dense
from hockeystick._factorization.patterns import most_participations
from hockeystick._factorization.rounding import Sensitivity, root
from hockeystick._factorization.toeplitz import FORMS, LARGEST_DENSE, Toeplitz
from hockeystick._vocabulary.mechanisms import WholeRun, check_noise_multiplier
from hockeystick._vocabulary.participation import FixedOrder, MinimumSeparation
from hockeystick._vocabulary.sampling import FullBatch
from hockeystick.errors import UnsupportedError

LARGEST_RUN = 2**27
"""Largest number of steps: a column of coefficients has a gigabyte."""


class CorrelatedNoise(WholeRun):
    """Gaussian noise that is correlated over the steps of a run.

    With the clipped sums x_t of the batches in the rows of X, a run releases ``C^-1 (C X + Z)``, that is
    X with the noise ``C^-1 Z``: the entries of Z are independent N(0, noise_multiplier^2), and C is a
    lower-triangular matrix with one row and one column for each step. Independent noise has the identity.
    Noise that cancels in the sums over many steps makes training better at equal privacy.

    Made by its classmethods: `toeplitz`, `blt`, `lambda_cgd`, `prefix_sum_root`, `from_matrix` and
    `from_products`. It is the mechanism of a whole run of `get_epsilon`, `get_delta`,
    `get_noise_multiplier`, `privacy_curve` and `GroupAccountant`, with ``sampling=`` `FullBatch`,
    `FixedOrder`, `MinimumSeparation` or `CyclicPoisson`, and `FixedBins` for matrices whose coefficients are
    geometric after the first. For `FixedBins`, `estimate_delta` takes any matrix.

    Notes
    -----
    A record that takes part in the steps of a set S moves C X by sum_{t in S} C e_t g_t with clipped
    gradients g_t, which may depend on all earlier outputs. With Z the guarantee is that of one Gaussian
    whose sensitivity is the largest norm of that sum over all sets S that the scheme allows, for records in
    a fixed order as for a person with several records (Denisov et al. 2022). Proofs and bounds on rounding
    errors: docs/theory/correlated-noise.md.

    The noise multiplier is the standard deviation of Z in units of the clipping norm. Libraries that scale C
    to sensitivity 1 call the quotient of the two by that name.

    References
    ----------
    - S. Denisov, H. B. McMahan, K. Rush, A. Smith and A. Thakurta, "Improved Differential Privacy for SGD
      via Optimal Private Linear Operators on Adaptive Streams", NeurIPS 2022. arXiv:2202.08312
    - C. A. Choquette-Choo et al., "(Amplified) Banded Matrix Factorization: A unified approach to private
      training", NeurIPS 2023. arXiv:2306.08153
    - N. Kalinin and C. Lampert, "Banded Square Root Matrix Factorization for Differentially Private Model
      Training", NeurIPS 2024. arXiv:2405.13763

    Examples
    --------
    >>> import hockeystick as hs
    >>> noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5, 0.25, 0.125])
    >>> found = noise.sensitivity(hs.FixedOrder(100), steps=400)
    >>> print(f"{found.lower:.12f} {found.upper:.12f} {found.exact}")
    2.304886114323 2.304886114323 True
    >>> sigma = hs.get_noise_multiplier(
    ...     epsilon=3.0, delta=1e-5, mechanism=noise, sampling=hs.FixedOrder(100), steps=400
    ... )
    >>> run = {"mechanism": noise.with_noise(sigma), "sampling": hs.FixedOrder(100), "steps": 400}
    >>> print(f"{hs.get_epsilon(delta=1e-5, **run):.4f}")
    3.0000
    >>> noise.noise_multiplier is None, noise.factor.is_nonnegative(4), noise.check_steps(400)
    (True, True, 400)
    >>> noise.is_stored_matrix
    False
    >>> hs.CorrelatedNoise.from_settings(noise.settings()) == noise
    True
    >>> hs.CorrelatedNoise.lambda_cgd(0.5).with_noise(2.0).matrix(3).tolist()
    [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]]
    """

    __slots__ = ("_matrix", "_noise_multiplier")

    _matrix: Toeplitz | Dense
    _noise_multiplier: float | None

    def __init__(self, matrix: Toeplitz | Dense, noise_multiplier: float | None = None) -> None:
        if not isinstance(matrix, Toeplitz | Dense):
            raise TypeError(
                f"matrix must come from a classmethod such as CorrelatedNoise.toeplitz, got {shown(matrix)}"
            )
        noise = None if noise_multiplier is None else check_noise_multiplier(noise_multiplier)
        self._matrix = matrix
        self._noise_multiplier = noise

    @classmethod
    def toeplitz(cls, coefficients: ArrayLike, noise_multiplier: float | None = None) -> CorrelatedNoise:
        """Toeplitz matrix: the first column is `coefficients`, and zero below them (banded).

        Parameters
        ----------
        coefficients : array_like, shape (bands,)
            Entries of the diagonal and of those below it; the first is not zero.
        noise_multiplier : float, optional
            Standard deviation of Z in units of the clipping norm, at least zero.

        Returns
        -------
        CorrelatedNoise
            For any number of steps.

        Raises
        ------
        ValueError
            If a number is not finite, or the first coefficient is zero.
        TypeError
            If an argument is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> hs.CorrelatedNoise.toeplitz([1.0, 0.5]).matrix(3).tolist()
        [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0]]
        """
        values = float_vector(coefficients, "coefficients")
        require(values.size > 0, "coefficients", "no value", "at least one value")
        require(bool(np.all(np.isfinite(values))), "coefficients", shown(values), "finite")
        require(values[0] != 0.0, "coefficients[0]", 0.0, "other than 0, as C is inverted")
        return cls(Toeplitz("toeplitz", tuple(values.tolist())), noise_multiplier)

    @classmethod
    def blt(
        cls, scales: ArrayLike, decays: ArrayLike, noise_multiplier: float | None = None
    ) -> CorrelatedNoise:
        """Buffered linear Toeplitz matrix: coefficients 1, and then sum_i scales[i] decays[i]^(t - 1).

        Parameters
        ----------
        scales, decays : array_like, shape (buffers,)
            Output scales, at least zero, and decays of the buffers, in [0, 1].
        noise_multiplier : float, optional
            As in `toeplitz`.

        Returns
        -------
        CorrelatedNoise
            For any number of steps.

        Raises
        ------
        ValueError
            If a number is out of range or the lengths differ.
        TypeError
            If an argument is not real.

        References
        ----------
        K. Dvijotham, H. B. McMahan, K. Pillutla, T. Steinke and A. Thakurta, "Efficient and Near-Optimal
        Noise Generation for Streaming Differential Privacy", FOCS 2024. arXiv:2404.16706

        Examples
        --------
        >>> import hockeystick as hs
        >>> noise = hs.CorrelatedNoise.blt([0.3, 0.2], [0.9, 0.5])
        >>> noise.matrix(4)[:, 0].round(4).tolist()
        [1.0, 0.5, 0.37, 0.293]
        """
        outputs, rates = float_vector(scales, "scales"), float_vector(decays, "decays")
        require(outputs.size == rates.size, "decays", f"{rates.size} values", f"{outputs.size} values")
        for value in outputs.tolist():
            require(math.isfinite(value) and value >= 0.0, "scales", value, "in [0, inf)")
        for value in rates.tolist():
            require(0.0 <= value <= 1.0, "decays", value, "in [0, 1]")
        return cls(Toeplitz("blt", (*outputs.tolist(), *rates.tolist())), noise_multiplier)

    @classmethod
    def lambda_cgd(cls, correlation: float, noise_multiplier: float | None = None) -> CorrelatedNoise:
        """DP-lambda-CGD: each step takes back `correlation` times the noise of the last one.

        C^-1 has ones on the diagonal and -`correlation` below it, C the coefficients `correlation`^t.

        Parameters
        ----------
        correlation : float
            In [0, 1].
        noise_multiplier : float, optional
            As in `toeplitz`.

        Returns
        -------
        CorrelatedNoise
            For any number of steps.

        Raises
        ------
        ValueError
            If `correlation` is not in [0, 1].
        TypeError
            If an argument is not real.
        """
        value = float_scalar(correlation, "correlation")
        require(0.0 <= value <= 1.0, "correlation", value, "in [0, 1]")
        return cls(Toeplitz("lambda_cgd", (value,)), noise_multiplier)

    @classmethod
    def prefix_sum_root(cls, noise_multiplier: float | None = None) -> CorrelatedNoise:
        """Square root of the matrix of prefix sums: coefficients binomial(2 t, t) / 4^t.

        Parameters
        ----------
        noise_multiplier : float, optional
            As in `toeplitz`.

        Returns
        -------
        CorrelatedNoise
            For any number of steps.

        References
        ----------
        H. Fichtenberger, M. Henzinger and J. Upadhyay, "Constant Matters: Fine-grained Error Bound on
        Differentially Private Continual Observation", ICML 2023. arXiv:2202.11205

        Examples
        --------
        >>> import hockeystick as hs
        >>> root = hs.CorrelatedNoise.prefix_sum_root().matrix(4)
        >>> (root @ root).tolist()
        [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
        """
        return cls(Toeplitz("prefix_sum_root", ()), noise_multiplier)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, noise_multiplier: float | None = None) -> CorrelatedNoise:
        """Any lower-triangular matrix.

        Parameters
        ----------
        matrix : array_like, shape (n, n)
            C, with n in [1, 4096], zeros above the diagonal and none on it. A shorter run has its leading
            part.
        noise_multiplier : float, optional
            As in `toeplitz`.

        Returns
        -------
        CorrelatedNoise
            For at most n steps.

        Raises
        ------
        ValueError
            If the shape is another one, or an entry is out of range.
        TypeError
            If an argument is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> hs.CorrelatedNoise.from_matrix([[1.0, 0.0], [0.5, 1.0]]).matrix(2).tolist()
        [[1.0, 0.0], [0.5, 1.0]]
        """
        array = np.array(float_array(matrix, "matrix"), dtype=np.float64, order="C")
        square = array.ndim == 2 and array.shape[0] == array.shape[1] and array.size > 0
        require(square, "matrix", f"an array of shape {array.shape}", "of shape (n, n)")
        require(
            len(array) <= LARGEST_DENSE, "matrix", f"{len(array)} rows", f"of at most {LARGEST_DENSE} rows"
        )
        require(bool(np.all(np.isfinite(array))), "matrix", "entries that are not finite", "finite")
        require(not np.any(np.triu(array, 1)), "matrix", "entries above the diagonal", "lower-triangular")
        require(bool(np.all(np.diag(array))), "matrix", "zeros on the diagonal", "invertible")
        array.setflags(write=False)
        return cls(Dense(array), noise_multiplier)

    @classmethod
    def from_products(
        cls,
        multiply: Callable[[Floats], ArrayLike],
        steps: int,
        noise_multiplier: float | None = None,
    ) -> CorrelatedNoise:
        """Matrix that is given by its products: what the function returns on unit vectors is C.

        Parameters
        ----------
        multiply : callable
            Takes an array of shape (steps, m) and returns C times it.
        steps : int
            Number of rows n of C, in [1, 4096].
        noise_multiplier : float, optional
            As in `toeplitz`.

        Returns
        -------
        CorrelatedNoise
            For at most n steps.

        Raises
        ------
        ValueError
            If the product is not a matrix that `from_matrix` takes.
        TypeError
            If `multiply` cannot be called, or an argument is not real.

        Examples
        --------
        >>> import numpy as np
        >>> import hockeystick as hs
        >>> hs.CorrelatedNoise.from_products(lambda v: np.cumsum(v, axis=0), steps=2).matrix(2).tolist()
        [[1.0, 0.0], [1.0, 1.0]]
        """
        if not callable(multiply):
            raise TypeError(f"multiply must be a function of an array, got {shown(multiply)}")
        size = count_scalar(steps, "steps", 1, LARGEST_DENSE)
        product = np.asarray(multiply(np.eye(size)), dtype=np.float64)
        require(
            product.shape == (size, size), "multiply", f"shape {product.shape}", f"of shape {(size, size)}"
        )
        return cls.from_matrix(product, noise_multiplier)

    @property
    def noise_multiplier(self) -> float | None:
        """Standard deviation of Z in units of the clipping norm; None where it is left open."""
        return self._noise_multiplier

    @property
    def factor(self) -> Matrix:
        """The matrix C, as the functions of this package take it."""
        return self._matrix

    @property
    def is_stored_matrix(self) -> bool:
        """Whether the matrix was given by its entries, which files of runs and states do not hold."""
        return isinstance(self._matrix, Dense)

    def with_noise(self, noise_multiplier: float | None) -> CorrelatedNoise:
        """Return the same matrix with another noise multiplier."""
        return type(self)(self._matrix, noise_multiplier)

    def matrix(self, steps: int) -> Floats:
        """C itself.

        Parameters
        ----------
        steps : int
            In [1, 4096], and at most the rows of a matrix that was given.

        Returns
        -------
        ndarray, shape (steps, steps)

        Raises
        ------
        ValueError
            If `steps` is out of range.
        """
        count = self.check_steps(count_scalar(steps, "steps", 1, LARGEST_DENSE))
        return self._matrix.leading(count).copy()

    def check_steps(self, steps: int) -> int:
        """Return `steps`, for which there must be rows."""
        largest = len(self._matrix.array) if isinstance(self._matrix, Dense) else LARGEST_RUN
        require(steps <= largest, "steps", steps, f"at most {largest} with this matrix")
        return steps

    def sensitivity(
        self, sampling: FullBatch | FixedOrder | MinimumSeparation, steps: int, group_size: int = 1
    ) -> Sensitivity:
        """Largest norm of what a record, or a group of records, adds to C X.

        Parameters
        ----------
        sampling : FullBatch, FixedOrder or MinimumSeparation
            In which steps a record may take part.
        steps : int
            Number of steps of the run, at least 1.
        group_size : int, optional
            Number of records that change together.

        Returns
        -------
        Sensitivity
            ``(lower, upper, exact, method)``, in units of the clipping norm. Where `exact` is true some
            gradients attain it, and the ends differ by rounding errors alone; otherwise upper is a bound.

        Raises
        ------
        ValueError
            If a number is out of range.
        UnsupportedError
            If who takes part is drawn at random.

        Notes
        -----
        Members of a group may share their steps, so that a group of m has m times the sensitivity of one
        record; those of ``FixedOrder(..., members="apart")`` have less: the exact maximum over the sets of
        their batches where these are at most 20,000, and a bound elsewhere.

        Examples
        --------
        >>> import hockeystick as hs
        >>> noise = hs.CorrelatedNoise.prefix_sum_root()
        >>> together = noise.sensitivity(hs.FixedOrder(10), steps=40, group_size=2)
        >>> apart = noise.sensitivity(hs.FixedOrder(10, members="apart"), steps=40, group_size=2)
        >>> print(f"{together.upper:.4f} {apart.upper:.4f} {apart.exact}")
        7.7626 7.3941 True
        """
        members = count_scalar(group_size, "group_size", 1)
        count = self.check_steps(count_scalar(steps, "steps", 1))
        if isinstance(sampling, FullBatch):
            return root(self._matrix.every(count, 1), members)
        if isinstance(sampling, FixedOrder):
            batches = min(sampling.batches, count)
            if sampling.members == "apart":
                require(
                    members <= sampling.batches, "group_size", members, f"at most {sampling.batches} batches"
                )
                return root(apart(self._matrix, count, batches, min(members, batches)))
            return root(self._matrix.every(count, batches), members)
        if isinstance(sampling, MinimumSeparation):
            separation = min(sampling.separation, count)
            often = most_participations(count, separation, sampling.participations)
            return root(self._matrix.separated(count, separation, often), members)
        raise UnsupportedError(
            f"sampling {shown(sampling)} has no sensitivity alone: FullBatch(), FixedOrder(batches) and "
            f"MinimumSeparation(separation, participations) have; CyclicPoisson is for get_epsilon, and "
            f"FixedBins for estimate_delta"
        )

    def settings(self) -> dict[str, Any]:
        """Return what makes this mechanism again, of plain JSON types.

        Raises
        ------
        UnsupportedError
            For a stored matrix.
        """
        if isinstance(self._matrix, Dense):
            raise UnsupportedError(
                "a saved state holds no matrices: use privacy_curve and compose curves by +, or "
                "CorrelatedNoise.toeplitz, blt, lambda_cgd or prefix_sum_root"
            )
        return {
            "form": self._matrix.form,
            "parameters": list(self._matrix.parameters),
            "noise_multiplier": self._noise_multiplier,
        }

    @classmethod
    def from_settings(cls, found: Mapping[str, Any]) -> CorrelatedNoise:
        """Return the mechanism whose `settings` are given."""
        form, noise = found["form"], found["noise_multiplier"]
        if form not in FORMS:
            raise ValueError(f"form must be one of {list(FORMS)}, got {shown(form)}")
        values = float_vector(found["parameters"], "parameters").tolist()
        if form == "toeplitz":
            return cls.toeplitz(values, noise)
        if form == "blt":
            half = len(values) // 2
            return cls.blt(values[:half], values[half:], noise)
        count = 1 if form == "lambda_cgd" else 0
        require(len(values) == count, "parameters", f"{len(values)} values", f"{count} values")
        return cls.lambda_cgd(values[0], noise) if count else cls.prefix_sum_root(noise)

    def _parts(self) -> tuple[Any, ...]:
        if isinstance(self._matrix, Dense):
            return self._matrix.array.shape, self._matrix.array.tobytes(), self._noise_multiplier
        return self._matrix.form, self._matrix.parameters, self._noise_multiplier

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CorrelatedNoise) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        noise = "" if self._noise_multiplier is None else f"noise_multiplier={self._noise_multiplier!r}"
        name = type(self).__name__
        if isinstance(self._matrix, Dense):
            size = len(self._matrix.array)
            return f"<{name} of a matrix of {size} steps{', ' if noise else ''}{noise}>"
        values = self._matrix.parameters
        half = len(values) // 2
        written = {
            "toeplitz": [repr(list(values))],
            "blt": [repr(list(values[:half])), repr(list(values[half:]))],
            "lambda_cgd": [repr(value) for value in values],
            "prefix_sum_root": [],
        }[self._matrix.form]
        return f"{name}.{self._matrix.form}({', '.join([*written, noise] if noise else written)})"
