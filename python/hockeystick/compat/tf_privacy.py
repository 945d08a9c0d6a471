"""The privacy statement of TF Privacy, with users, by the exact privacy curve.

The functions have the names and arguments of ``tensorflow_privacy.privacy.analysis``. The text of the
statement is this library's, and so are the numbers: exact ones, by the same computation whatever
``accountant_type`` says.
"""

from __future__ import annotations

import enum
import math
import textwrap
from typing import Any

from hockeystick import FullBatch, PrivacyCurve, get_noise_multiplier, privacy_curve
from hockeystick._arguments import count_scalar, float_scalar, require

__all__ = [
    "AccountantType",
    "compute_dp_sgd_privacy",
    "compute_dp_sgd_privacy_statement",
    "compute_noise",
]


def __dir__() -> list[str]:
    return list(__all__)


class AccountantType(enum.Enum):
    """Kinds of accounting in TF Privacy. Both names are taken; the answers are exact with either.

    Examples
    --------
    >>> from hockeystick.compat.tf_privacy import AccountantType
    >>> AccountantType("PLD").name
    'PLD'
    """

    RDP = "RDP"
    PLD = "PLD"


_WIDTH = 80
"""Characters in a line of the statement."""

_LABELS = (
    "    Epsilon with each example occurring once per epoch:  ",
    "    Epsilon assuming Poisson sampling (*):               ",
)
"""Beginnings of the lines with numbers, as scripts that read statements of TF Privacy look for them."""


def compute_dp_sgd_privacy_statement(
    number_of_examples: int,
    batch_size: int,
    num_epochs: float,
    noise_multiplier: float,
    delta: float,
    used_microbatching: bool = True,
    max_examples_per_user: int | None = None,
    accountant_type: Any = AccountantType.RDP,
) -> str:
    """Privacy of a run of DP-SGD in words: for an example, and for a user with several of them.

    Parameters
    ----------
    number_of_examples : int
        Size of the data set.
    batch_size : int
        Examples in a batch, expected or exact, at most `number_of_examples`.
    num_epochs : float
        Passes over the data, positive; may be a fraction.
    noise_multiplier : float
        Standard deviation of the noise in units of the clipping norm, finite and at least zero.
    delta : float
        At which epsilon is stated, in (0, 1).
    used_microbatching : bool, optional
        Whether gradients were averaged over microbatches of more than one example before they were clipped.
        Then an example that joins moves a clipped average anywhere else, by up to two clipping norms, and the
        noise counts for half.
    max_examples_per_user : int, optional
        Largest number of examples that the training data have of one user, in [1, 10000]. With it the
        statement is about users too.
    accountant_type : AccountantType, optional
        Has no effect: the numbers are exact.

    Returns
    -------
    str
        Paragraphs for a reader, with two epsilons for an example and, if asked for, two for a user.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    Where each example occurs once per epoch, in any order, an example is in one step of an epoch and the
    others do not depend on it: one step of a full batch per epoch. The examples of a user are in one batch at
    worst, where they move its sum by as many clipping norms; in different batches they would move each by
    one, which is less, as the squares of the moves add up. Under Poisson sampling a user is a group, whose
    number of members in a batch is binomial (GROUP, Theorem 18). TF Privacy converts the guarantee of one
    example (Vadhan 2017, Lemma 2.2), which can be infinite, or takes a grid.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)
    - Ponomareva et al. 2023, "How to DP-fy ML", arXiv:2303.00654, sections 5.3 and 5.6

    Examples
    --------
    >>> from hockeystick.compat.tf_privacy import compute_dp_sgd_privacy_statement
    >>> run = {"number_of_examples": 10_000, "batch_size": 64, "num_epochs": 5.0, "noise_multiplier": 2.0}
    >>> text = compute_dp_sgd_privacy_statement(**run, delta=1e-6, max_examples_per_user=10)
    >>> for line in text.splitlines():
    ...     if "Epsilon" in line:
    ...         print(line.strip())
    Epsilon with each example occurring once per epoch:        12.595
    Epsilon assuming Poisson sampling (*):                      1.199
    Epsilon with each example occurring once per epoch:       355.383
    Epsilon assuming Poisson sampling (*):                     15.464
    """
    examples = count_scalar(number_of_examples, "number_of_examples", 1)
    batch = count_scalar(batch_size, "batch_size", 1, examples)
    epochs = _epochs(num_epochs, "num_epochs")
    if not isinstance(used_microbatching, bool):
        raise TypeError(f"used_microbatching must be True or False, got {type(used_microbatching).__name__}")
    noise = float_scalar(noise_multiplier, "noise_multiplier") / (2.0 if used_microbatching else 1.0)

    def epsilons(group_size: int) -> str:
        """Return the two lines of the statement about groups of this size."""
        ordered = _once_per_epoch(noise, epochs, group_size)
        sampled = _poisson(noise, epochs, batch / examples, group_size)
        found = (float(curve.epsilon(delta)) for curve in (ordered, sampled))
        return "\n".join(f"{label}{epsilon:12.3f}" for label, epsilon in zip(_LABELS, found, strict=True))

    microbatches = "with microbatches" if used_microbatching else "without microbatches"
    bound = (
        "the number of examples of a user is not bounded"
        if max_examples_per_user is None
        else f"a user has at most {max_examples_per_user} of them"
    )
    paragraphs = [
        _filled(
            f"DP-SGD on {examples} examples, {batch} in a batch, for {num_epochs} epochs, with noise "
            f"multiplier {noise_multiplier} and {microbatches}; {bound}."
        ),
        _filled("The guarantee is for everything that training shows: the model after every step."),
        _filled(f"One example, added or removed, at delta = {delta}, exact:") + "\n" + epsilons(1),
    ]
    if max_examples_per_user is None:
        paragraphs.append(
            _filled(
                "A guarantee for users needs a bound on how many examples one of them has; none was given."
            )
        )
    else:
        size = count_scalar(max_examples_per_user, "max_examples_per_user", 1, 10_000)
        head = f"One user with at most {size} examples, all added or removed, at delta = {delta}, exact:"
        paragraphs.append(_filled(head) + "\n" + epsilons(size))
    paragraphs.append(
        _filled(
            "(*) This number holds if every batch is a fresh Poisson sample. It is no bound for batches that "
            "are dealt from shuffled data, whose epsilon may be several times as large; for those the number "
            "above it holds, whatever the order."
        )
    )
    return "\n\n".join(paragraphs) + "\n"


def compute_dp_sgd_privacy(
    n: int, batch_size: int, noise_multiplier: float, epochs: float, delta: float
) -> tuple[float, None]:
    """Epsilon of a run of DP-SGD with Poisson samples and without microbatches, for one example.

    Parameters
    ----------
    n : int
        Size of the data set.
    batch_size : int
        Expected size of a batch, at most `n`.
    noise_multiplier : float
        Standard deviation of the noise in units of the clipping norm, finite and at least zero.
    epochs : float
        Passes over the data, positive.
    delta : float
        In (0, 1).

    Returns
    -------
    epsilon : float
        An upper bound.
    order : None
        Where TF Privacy returns the best Rényi order; the exact epsilon has none.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.tf_privacy import compute_dp_sgd_privacy
    >>> epsilon, _ = compute_dp_sgd_privacy(60_000, 150, noise_multiplier=1.3, epochs=15, delta=1e-5)
    >>> round(epsilon, 4)
    0.64
    """
    rate = _rate(n, batch_size)
    curve = _poisson(float_scalar(noise_multiplier, "noise_multiplier"), _epochs(epochs, "epochs"), rate, 1)
    return float(curve.epsilon(delta)), None


def compute_noise(
    n: int, batch_size: int, target_epsilon: float, epochs: float, delta: float, noise_lbd: float = 0.0
) -> float:
    """Smallest noise multiplier with which DP-SGD with Poisson samples meets a target.

    Parameters
    ----------
    n : int
        Size of the data set.
    batch_size : int
        Expected size of a batch, at most `n`.
    target_epsilon : float
        Finite and at least zero.
    epochs : float
        Passes over the data, positive.
    delta : float
        In (0, 1).
    noise_lbd : float, optional
        Smallest noise multiplier that is wanted, finite and at least zero.

    Returns
    -------
    float
        A noise multiplier of at least `noise_lbd` that meets the target, rounded up.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.tf_privacy import compute_noise
    >>> round(compute_noise(60_000, 150, target_epsilon=1.0, epochs=15, delta=1e-5), 4)
    0.9956
    """
    least = float_scalar(noise_lbd, "noise_lbd")
    require(math.isfinite(least) and least >= 0.0, "noise_lbd", least, "in [0, inf)")
    rate = _rate(n, batch_size)
    steps = _steps(_epochs(epochs, "epochs"), rate)
    found = get_noise_multiplier(epsilon=target_epsilon, delta=delta, sample_rate=rate, steps=steps)
    return max(least, float(found))


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH)


def _epochs(value: object, name: str) -> float:
    number = float_scalar(value, name)
    require(math.isfinite(number) and number > 0.0, name, number, "in (0, inf)")
    return number


def _rate(n: object, batch_size: object) -> float:
    examples = count_scalar(n, "n", 1)
    return count_scalar(batch_size, "batch_size", 1, examples) / examples


def _steps(epochs: float, rate: float) -> int:
    return math.ceil(epochs / rate)


def _once_per_epoch(noise: float, epochs: float, group_size: int) -> PrivacyCurve:
    return privacy_curve(
        noise_multiplier=noise, sampling=FullBatch(), steps=math.ceil(epochs), group_size=group_size
    )


def _poisson(noise: float, epochs: float, rate: float, group_size: int) -> PrivacyCurve:
    return privacy_curve(
        noise_multiplier=noise, sample_rate=rate, steps=_steps(epochs, rate), group_size=group_size
    )
