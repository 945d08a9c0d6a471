"""Running a model with its state restored at the end: gradients, buffers and random states."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hockeystick._extras import needed

PARAMETER_STATE = {"grad_sample": None, "_forward_counter": 0}
"""Attributes that Opacus stores at a parameter, with their values before a forward pass."""

PASSING_STATE = ("_current_grad_sample", "activations", "max_batch_len")
"""Attributes that Opacus stores only between a forward and its backward pass."""


@contextmanager
def state_restored(model: Any, device: Any) -> Iterator[None]:
    """Restore a model and all random states at the end, and refuse what draws at random.

    Parameters
    ----------
    model : torch.nn.Module
        Its parameters' gradients, of Opacus too, start as none.
    device : torch.device
        Where the model is.

    Raises
    ------
    ValueError
        At the end, if the random state of torch, NumPy or Python has changed.
    """
    torch = needed("torch", "opacus")
    states = _random_states(torch, device)
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with _gradients_set_aside(list(model.parameters())), _passes_set_aside([model, *model.modules()]):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, saved in buffers:
                    buffer.copy_(saved)
            changed = not _same(torch, states, _random_states(torch, device))
            _restore(torch, states, device)
    if changed:
        raise ValueError(
            "the norm of an example must depend on the weights and that example alone, but the model, the "
            "loss or the data set draws at random: turn dropout off (p=0, or eval() of those layers), and "
            "augmentation too"
        )


@contextmanager
def _gradients_set_aside(parameters: list[Any]) -> Iterator[None]:
    saved = [(each, each.grad, _state(each, PARAMETER_STATE)) for each in parameters]
    for parameter, _, state in saved:
        parameter.grad = None
        vars(parameter).update({name: PARAMETER_STATE[name] for name in state})
    try:
        with _passes_set_aside(parameters):
            yield
    finally:
        for parameter, gradient, state in saved:
            parameter.grad = gradient
            vars(parameter).update(state)


@contextmanager
def _passes_set_aside(owners: list[Any]) -> Iterator[None]:
    saved = [(owner, _state(owner, PASSING_STATE)) for owner in owners]

    def clear() -> None:
        for owner in owners:
            for name in PASSING_STATE:
                vars(owner).pop(name, None)

    clear()
    try:
        yield
    finally:
        clear()
        for owner, state in saved:
            vars(owner).update(state)


def _state(owner: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: vars(owner)[name] for name in names if name in vars(owner)}


def _random_states(torch: Any, device: Any) -> tuple[Any, Any, Any, Any]:
    on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    numbers = np.random.get_state(legacy=True)  # noqa: NPY002 (the state that users' transforms draw from)
    return random.getstate(), numbers, torch.get_rng_state(), on_device


def _same(torch: Any, one: tuple[Any, Any, Any, Any], other: tuple[Any, Any, Any, Any]) -> bool:
    numpy_same = all(np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True))
    device_same = one[3] is None or torch.equal(one[3], other[3])
    return one[0] == other[0] and numpy_same and torch.equal(one[2], other[2]) and device_same


def _restore(torch: Any, states: tuple[Any, Any, Any, Any], device: Any) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002 (as above)
    torch.set_rng_state(states[2])
    if states[3] is not None:
        torch.cuda.set_rng_state(states[3], device)
