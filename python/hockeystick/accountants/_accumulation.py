"""How many Poisson batches an Opacus optimizer adds up before it adds noise.

Batches come together in two ways: by several backward passes before a step, which the optimizer counts
itself (``accumulated_iterations``), and by steps that ``signal_skip_step`` leaves out, which it does not
count. A ``BatchMemoryManager`` leaves out steps too, but for the pieces of one batch. Which batch a piece is
of stands in the sampler that splits it, while it signals. Nothing is imported here: whoever made the
optimizer has loaded Opacus.
"""

from __future__ import annotations

import math
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDED_DOWN = 1.0 - 2.0**-51
"""Factor that more than undoes the rounding of a square root and a quotient."""


def in_equal_parts(noise_multiplier: float, batches: int) -> float:
    """Noise multiplier of each of `batches` steps whose noise is together that of one.

    Noise of variance σ² is the sum of m independent parts of variance σ²/m. Whoever sees the parts, each
    added to a batch of its own, knows more than who sees their sum: m steps at σ/√m bound the one at σ.
    """
    return noise_multiplier if batches == 1 else noise_multiplier / math.sqrt(batches) * _ROUNDED_DOWN


def whole_in_every_batch(noise_multiplier: float, batches: int) -> float:
    """Noise multiplier in units of what a record adds to `batches` batches, all of which it is in."""
    return noise_multiplier if batches == 1 else noise_multiplier / batches * _ROUNDED_DOWN


def batches_of() -> Callable[[Any], int]:
    """Return a function from an optimizer, in its step hook, to the number of batches that the noise is for.

    From now on the optimizers of Opacus keep count of the steps that are left out.
    """
    _watch()
    return _batches


def _batches(optimizer: Any) -> int:
    _watch()  # for the steps to come, where Opacus is loaded only now
    last = int(optimizer.accumulated_iterations)
    if not getattr(optimizer, "_is_last_step_skipped", False):
        return last
    signals = getattr(optimizer, "_step_skip_queue", None)
    if not isinstance(signals, Signals) or not signals.is_whole:
        raise RuntimeError(
            "steps of the optimizer were left out by signal_skip_step before the accountant could count them"
            ": attach its hook before the first batch (hockeystick.opacus.attach, or make_private), or end "
            "the logical batch first"
        )
    return signals.batches(last)


def _watch() -> None:
    """Let the optimizers of Opacus note who leaves out steps, once they do."""
    module = sys.modules.get("opacus.optimizers.optimizer")
    optimizer = getattr(module, "DPOptimizer", None)
    signal = getattr(optimizer, "signal_skip_step", None)
    if optimizer is None or signal is None or hasattr(signal, "_counts_batches"):
        return

    @wraps(signal)
    def counting(self: Any, do_skip: bool = True) -> None:
        """Signal as Opacus does, and note which logical batch the signal is about."""
        signals = self._step_skip_queue
        if not isinstance(signals, Signals):
            signals = self._step_skip_queue = Signals(self)
        signals.coming_from = _logical_batch(sys._getframe(1))
        signal(self, do_skip)

    counting._counts_batches = True  # type: ignore[attr-defined]  # functions declare no attributes
    optimizer.signal_skip_step = counting


def _logical_batch(caller: Any) -> object | None:
    """Return the batch that a ``BatchSplittingSampler`` is splitting, if that is who calls."""
    module = sys.modules.get("opacus.utils.batch_memory_manager")
    splitter = getattr(module, "BatchSplittingSampler", None)
    if splitter is None or caller.f_code is not splitter.__iter__.__code__:
        return None
    batch: object = caller.f_locals.get("batch_idxs")
    return batch


class _Signal:
    """Whether to leave out a step, and the logical batch that its gradients are a piece of, or None."""

    def __init__(self, do_skip: bool, batch: object | None) -> None:
        self.do_skip, self.batch = do_skip, batch

    def __bool__(self) -> bool:
        return bool(self.do_skip)


class Signals(list[Any]):
    """The signals that an optimizer has not come to yet; it keeps count of those that it has come to.

    Parameters
    ----------
    optimizer : opacus.optimizers.DPOptimizer
        Whose signals these are. It takes the first one at every step.
    """

    def __init__(self, optimizer: Any) -> None:
        waiting = list(optimizer._step_skip_queue)
        super().__init__(_Signal(each, None) for each in waiting)
        self.is_whole = not optimizer._is_last_step_skipped
        """Whether all steps that were left out since the last noise are known."""
        self.coming_from: object | None = None
        self._optimizer = optimizer
        self._open: list[tuple[object | None, int]] = []
        self._final: _Signal | None = None
        self._in_step = True

    def append(self, do_skip: Any) -> None:
        """Take a signal of the batch that `coming_from` says."""
        super().append(_Signal(do_skip, self.coming_from))
        self.coming_from = None

    def pop(self, index: Any = -1) -> Any:
        """Give the next signal to the optimizer, which has gradients and does as it says."""
        signal = super().pop(index)
        if not self._optimizer._is_last_step_skipped:
            # There was noise since the last step that was left out.
            self._open, self.is_whole = [], True
        # An optimizer that clips layer by layer has counted nothing yet where a step is left out.
        counted = getattr(self._optimizer, "accumulated_iterations", 1)
        count = max(1, int(counted))
        if signal.batch is not None and count > 1:
            # A signal a piece, but several pieces a step: from now on signals are of other pieces.
            self._in_step = False
        if signal:
            self._open.append((signal.batch, count))
            self._final = None
        else:
            self._final = signal
        return signal

    def batches(self, last: int) -> int:
        """Batches since the last noise, of which `last` are in the gradients of the step that ends them."""
        final = None if self._final is None else self._final.batch
        found = 0
        seen: list[object] = []
        for batch, count in [*self._open, (final, last)]:
            if batch is None or not self._in_step:
                found += count
            elif not any(batch is each for each in seen):
                seen.append(batch)
                found += count
        return found
