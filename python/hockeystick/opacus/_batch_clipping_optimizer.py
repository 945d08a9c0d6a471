"""A PyTorch optimizer that clips the gradient of a whole batch. Importing this imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hockeystick import BatchClipping, FullBatch, Poisson, Shuffle, WithoutReplacement
from hockeystick._arguments import float_scalar, require
from hockeystick._extras import needed
from hockeystick._vocabulary.mechanisms import check_noise_multiplier
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.accountants import GroupAccountant, ShuffleAccountant
from hockeystick.errors import SamplingMismatchError, UnsupportedError

torch: Any = needed("torch", "opacus")

_SMALL = 1e-6
"""Added to norms before the clipping norm is divided by them, as Opacus does, to make up for rounding."""

_UP = 1.0 + 4e-15
"""Makes up for the rounding of a probability."""


class BatchClippingOptimizer(torch.optim.Optimizer):  # type: ignore[misc]  # a base class of type Any
    """An optimizer for batches whose gradient is clipped as a whole, with noise, accounted for.

    The gradient of the batch's loss, in all parameters together, is clipped to a norm, Gaussian noise is
    added, and the optimizer that is wrapped takes its step. Gradients of single examples are not
    needed: the model may be any module, and batch normalisation is allowed during training.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        What takes the steps: SGD, Adam, or any other. What it keeps from step to step is computed from noisy
        gradients, so that it costs nothing.
    noise_multiplier : float
        Standard deviation of the noise in units of the clipping norm, at least zero. It may be changed
        between steps, as the attribute.
    max_grad_norm : float
        Clipping norm, in (0, inf). It may be changed between steps, by what was released alone.
    accountant : GroupAccountant or ShuffleAccountant, optional
        Records every step before it is taken. A `ShuffleAccountant` must be made with ``clipping="batch"``,
        or ``"mixed"`` where steps have several units.
    sampling : Poisson, WithoutReplacement, FullBatch or Shuffle, optional
        How the loader draws a batch, for an accountant; ``hs.sampling_of(loader)`` finds out.
    generator : torch.Generator, optional
        Of the noise; PyTorch's own by default. Neither is cryptographic.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If an argument has the wrong type, or only one of `accountant` and `sampling` is given.
    SamplingMismatchError
        If the accountant is about batches that are drawn in another way.
    UnsupportedError
        If the accountant has no proven pair for such steps.

    Notes
    -----
    SHUFFLE, Algorithm 1, with equation (4) in the place of the algorithm: U = [gradient]_C for one unit. What
    several backward passes add up before a step is one unit, whose batches are counted: m batches at rate q
    are charged as one at 1 - (1 - q)^m. `end_unit` ends a unit before the step, so that the units are clipped
    each on its own and then added up (mixed clipping), and their sum with noise is divided by their number.

    A gradient that is not finite counts as zero, as the mean over an empty batch gives. Batches that have no
    records at all are charged as all others: call ``step()`` for them too.

    *Not accounted for*: running statistics of batch normalisation, which are computed from batches without
    noise and must not be published; a closure is called once; several processes are refused.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> import hockeystick as hs
    >>> optimizer = hs.opacus.BatchClippingOptimizer(  # doctest: +SKIP
    ...     torch.optim.Adam(model.parameters()),
    ...     noise_multiplier=4.0,
    ...     max_grad_norm=1.0,
    ...     accountant=hs.GroupAccountant(group_size=8),
    ...     sampling=hs.sampling_of(loader),
    ... )
    >>> for inputs, labels in loader:  # doctest: +SKIP
    ...     optimizer.zero_grad()
    ...     loss_fn(model(inputs), labels).backward()
    ...     optimizer.step()
    >>> optimizer.param_groups is optimizer.original_optimizer.param_groups  # doctest: +SKIP
    True
    >>> sorted(optimizer.state_dict()), len(optimizer.state), "lr" in optimizer.defaults  # doctest: +SKIP
    (['param_groups', 'state'], 2, True)
    """

    def __init__(
        self,
        optimizer: Any,
        *,
        noise_multiplier: float,
        max_grad_norm: float,
        accountant: GroupAccountant | ShuffleAccountant | None = None,
        sampling: Sampling | Shuffle | None = None,
        generator: Any = None,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer) or hasattr(optimizer, "attach_step_hook"):
            raise TypeError(
                f"optimizer must be a torch optimizer that is not wrapped, got {type(optimizer).__name__}"
            )
        self.original_optimizer = optimizer
        self.noise_multiplier = check_noise_multiplier(noise_multiplier)
        self.max_grad_norm = _check_norm(max_grad_norm)
        self.accountant = accountant
        self.sampling = sampling
        self.generator = generator
        _check_accountant(accountant, sampling)
        self._sums: list[Any] = []
        self._batches: list[int] = []
        self._open = 0
        first = next(iter(self._parameters()), None)
        require(first is not None, "optimizer", optimizer, "one of at least one parameter with a gradient")
        for parameter in self._parameters():
            parameter.register_post_accumulate_grad_hook(self._count)
        self._seen: dict[int, int] = {}

    def _parameters(self) -> list[Any]:
        groups = self.original_optimizer.param_groups
        return [each for group in groups for each in group["params"] if each.requires_grad]

    def _count(self, parameter: Any) -> None:
        """Count the backward passes that reach a parameter; the unit has had as many as any of them."""
        self._seen[id(parameter)] = self._seen.get(id(parameter), 0) + 1
        self._open = max(self._open, self._seen[id(parameter)])

    # What schedulers and checkpoints ask of an optimizer is the wrapped one's.

    @property
    def param_groups(self) -> Any:
        """Parameters and settings of the wrapped optimizer."""
        return self.original_optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: Any) -> None:
        self.original_optimizer.param_groups = groups

    @property
    def state(self) -> Any:
        """State of the wrapped optimizer."""
        return self.original_optimizer.state

    @state.setter
    def state(self, state: Any) -> None:
        self.original_optimizer.state = state

    @property
    def defaults(self) -> Any:
        """Settings of the wrapped optimizer."""
        return self.original_optimizer.defaults

    @defaults.setter
    def defaults(self, defaults: Any) -> None:
        self.original_optimizer.defaults = defaults

    def state_dict(self) -> Any:
        """State of the wrapped optimizer; accountants have states of their own."""
        return self.original_optimizer.state_dict()

    def load_state_dict(self, state_dict: Any) -> None:
        """Load a state into the wrapped optimizer.

        Parameters
        ----------
        state_dict : mapping
            What `state_dict` returned.
        """
        self.original_optimizer.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of the open unit; units that have ended wait for the step.

        Parameters
        ----------
        set_to_none : bool, optional
            As in torch.
        """
        self.original_optimizer.zero_grad(set_to_none)
        self._open, self._seen = 0, {}

    def end_unit(self) -> None:
        """End a clipped unit: what was added up since the last one is clipped, and gradients are dropped.

        Examples
        --------
        >>> for inputs, labels in loader:  # doctest: +SKIP
        ...     optimizer.zero_grad()
        ...     loss_fn(model(inputs), labels).backward()
        ...     optimizer.end_unit()
        ...     optimizer.step()
        """
        parameters = self._parameters()
        with torch.no_grad():
            unit = _clipped([each.grad for each in parameters], _check_norm(self.max_grad_norm))
            if not self._sums:
                self._sums = [torch.zeros_like(each) for each in parameters]
            for total, part in zip(self._sums, unit, strict=True):
                if part is not None:
                    total.add_(part)
        self._batches.append(max(1, self._open))
        self.zero_grad()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Record the step, add noise to the clipped gradients and let the wrapped optimizer move.

        Parameters
        ----------
        closure : callable, optional
            Called once, with gradients, before anything else.

        Returns
        -------
        object
            What `closure` returned.

        Raises
        ------
        RuntimeError
            If several processes train together, or batches that are not Poisson samples were added up; the
            accountant stays as it was.
        """
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            processes = torch.distributed.get_world_size()
            if processes > 1:
                raise RuntimeError(f"BatchClippingOptimizer is for one process, got {processes}")
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        noise, norm = check_noise_multiplier(self.noise_multiplier), _check_norm(self.max_grad_norm)
        pending = [*self._batches, max(1, self._open)] if self._open or not self._batches else self._batches
        self._record(noise, pending)
        if len(pending) > len(self._batches):
            self.end_unit()
        with torch.no_grad():
            for parameter, total in zip(self._parameters(), self._sums, strict=True):
                drawn = torch.randn(
                    total.shape, generator=self.generator, device=total.device, dtype=total.dtype
                )
                parameter.grad = (total + noise * norm * drawn) / len(pending)
        self._sums, self._batches = [], []
        self.original_optimizer.step()
        return result

    def _record(self, noise: float, batches: list[int]) -> None:
        """Let the accountant record a step whose units are of so many batches each."""
        if self.accountant is None:
            return
        units, most = len(batches), max(batches)
        if isinstance(self.accountant, ShuffleAccountant):
            self._require_single(most)
            wanted = self.accountant.units_per_batch
            if units != wanted:
                raise RuntimeError(f"the accountant is about {wanted} units in a batch, got {units}")
            drawn = self.accountant.sampling
            self.accountant.step(noise_multiplier=noise, sample_rate=drawn.batch_size / drawn.dataset_size)
            return
        sampling: Any = self.sampling
        if isinstance(sampling, Poisson):
            rate = sampling.sample_rate
            if most > 1:
                rate = min(1.0, -math.expm1(most * math.log1p(-rate)) * _UP) if rate < 1.0 else 1.0
            sampling = Poisson(rate, microbatches=units)
        else:
            self._require_single(most * units)
        self.accountant.step(mechanism=BatchClipping(noise), sampling=sampling)

    def _require_single(self, batches: int) -> None:
        if batches > 1:
            raise RuntimeError(
                f"{batches} batches or units before one step are covered for Poisson samples only, got "
                f"sampling {self.sampling!r}: make the batches larger, and call step() after each"
            )


def _clipped(gradients: list[Any], norm: float) -> list[Any]:
    """Gradients of all parameters, clipped together; zero where they are not finite."""
    found = [None if each is None else each.detach().to_dense() for each in gradients]
    squares = [each.double().square().sum() for each in found if each is not None]
    length = math.sqrt(sum(float(square) for square in squares))
    if not math.isfinite(length):
        return [None] * len(found)
    factor = min(1.0, norm / (length + _SMALL))
    return [None if each is None else each * factor for each in found]


def _check_norm(value: object) -> float:
    norm = float_scalar(value, "max_grad_norm")
    require(0.0 < norm < math.inf, "max_grad_norm", norm, "in (0, inf)")
    return norm


def _check_accountant(accountant: object, sampling: object) -> None:
    """Check that an accountant covers batches that are clipped as a whole and drawn like this."""
    if (accountant is None) != (sampling is None):
        raise TypeError("give both of accountant and sampling, or neither")
    if accountant is None:
        return
    if isinstance(accountant, ShuffleAccountant):
        accountant.require_all_units("BatchClippingOptimizer keeps")
        if accountant.sampling != sampling:
            raise SamplingMismatchError(f"sampling must be {accountant.sampling!r}, got {sampling!r}")
        require(
            accountant.clipping != "individual",
            "accountant.clipping",
            accountant.clipping,
            "'batch', or 'mixed' where steps have several units",
        )
        return
    if not isinstance(accountant, GroupAccountant):
        raise TypeError(
            f"accountant must be a GroupAccountant or a ShuffleAccountant, which account for batches clipped "
            f"as a whole, got {type(accountant).__name__}"
        )
    if isinstance(sampling, Shuffle):
        raise UnsupportedError(
            f"batches clipped as a whole of {sampling!r} have no proven pair: use ShuffleAccountant, against "
            f"a strong adversary who knows batch membership"
        )
    if not isinstance(sampling, Poisson | WithoutReplacement | FullBatch):
        raise TypeError(f"sampling must be Poisson, WithoutReplacement or FullBatch, got {sampling!r}")
    if isinstance(sampling, Poisson) and sampling.microbatches > 1:
        raise TypeError("sampling must be that of one batch: the optimizer counts how many are added up")
    trial = GroupAccountant(accountant.group_size, accountant.adjacency, accountant.group)
    trial.step(mechanism=BatchClipping(1.0), sampling=sampling)
