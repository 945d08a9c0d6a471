"""Gradient norms of every example of a data set, at the weights of the moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from hockeystick._arguments import Floats, count_scalar, require
from hockeystick._extras import needed
from hockeystick._progress import Report, reporting
from hockeystick.opacus._restoring import state_restored

Loss: TypeAlias = Callable[[Any, Any], Any]
"""(outputs, targets) of a batch to its loss."""


CHUNK_SIZE = 128
"""Examples whose gradients are held at once by default."""


def per_example_norms(
    model: Any,
    dataset: Any,
    loss_fn: Loss,
    *,
    chunk_size: int = CHUNK_SIZE,
    device: Any = None,
    progress: Report | bool | None = None,
) -> Floats:
    """Gradient norm of every example of a data set, at the weights that the model has.

    The norms are private data: they belong to the examples, and are not covered by the guarantee of
    the weights.

    Parameters
    ----------
    model : torch.nn.Module
        The model in the mode in which it trains. An Opacus ``GradSampleModule`` (what ``make_private``
        returns) computes the gradients by its own hooks, as in training; any other module by
        ``torch.func``. All parameters that require a gradient count: where an optimizer moves only some
        of them, the norms are upper bounds.
    dataset : torch.utils.data.Dataset
        Examples as pairs (input, target) of tensors, arrays or numbers, by index 0, ..., n - 1.
    loss_fn : callable
        Function (outputs, targets), as in training. The loss of a batch must be the mean, the sum or the
        vector of losses that each depend on one example: for a ``GradSampleModule`` the one that it was
        told (its ``loss_reduction``) or the vector; for other modules it makes no difference, since
        every example is a batch of its own.
    chunk_size : int, optional
        Number of examples whose gradients are in memory at once, at least one.
    device : torch.device or str, optional
        Where the model is, and where examples are copied; by default that of its first parameter.
    progress : callable or bool, optional
        Function (done, total) of examples that is called after every chunk; or True for a bar, which
        needs tqdm.

    Returns
    -------
    ndarray, shape (n,)
        Euclidean norms of the gradients of the loss of each example, in the units of ``max_grad_norm``,
        not clipped. Gradients are computed in the precision of the model, squares are added in float64.

    Raises
    ------
    ValueError
        If the model, the loss or the data set draws at random (dropout, augmentation), batch
        normalisation mixes examples, the loss of a batch is not made of the losses of its examples, a
        norm is not finite, a parameter got no gradient, or `chunk_size` is out of range.
    TypeError
        If an argument has the wrong type, or the examples are not pairs.
    ImportError
        If torch is not installed; or if `progress` is True and tqdm is not installed.

    Notes
    -----
    The Z^(i) of INDIVIDUAL, Algorithm 2, before the minimum with C. Nothing stays behind: gradients,
    Opacus's gradients per example, the mode, buffers and random states are as they were. A random layer
    is refused because the step would take another gradient than the one whose norm was measured.

    Batches of another size may differ in the last bits of float32 from those of training.

    References
    ----------
    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    Examples
    --------
    >>> import hockeystick as hs
    >>> norms = hs.opacus.per_example_norms(model, dataset, loss_fn)  # doctest: +SKIP
    """
    torch = needed("torch", "opacus")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    total = check_dataset(dataset)
    size = count_scalar(chunk_size, "chunk_size", 1)
    if not any(each.requires_grad for each in model.parameters()):
        raise ValueError("model must have a parameter that requires a gradient")
    place = next(iter(model.parameters())).device if device is None else torch.device(device)
    _refuse_batch_statistics(torch, model)
    norms = np.empty(total)
    with state_restored(model, place), torch.enable_grad(), reporting(progress, "norms") as report:
        norms_of = _way(torch, model, loss_fn)
        done = 0
        for inputs, targets in _chunks(torch, dataset, total, size):
            chunk = norms_of(inputs.to(place), targets.to(place)).cpu().numpy()
            norms[done : done + len(chunk)] = chunk
            done += len(chunk)
            if report is not None:
                report(done, total)
    bad = np.flatnonzero(~np.isfinite(norms))
    if bad.size:
        raise ValueError(f"gradients must be finite, got norm {norms[bad[0]]} for example {bad[0]}")
    return norms


def check_dataset(dataset: object) -> int:
    """Size of a data set that is read by index."""
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise TypeError(f"dataset must have a length and items by index, got {type(dataset).__name__}")
    size = len(dataset)
    require(size >= 1, "dataset", f"{size} examples", "of at least one example")
    return size


def _way(torch: Any, model: Any, loss_fn: Loss) -> Callable[[Any, Any], Any]:
    """Return the function (inputs, targets) that computes the norms of a chunk."""
    from hockeystick.opacus._opacus_classes import is_grad_sample_module, is_hooked

    if is_grad_sample_module(model):
        if not model.training:
            raise ValueError("model must be in training mode, as it trains: call model.train()")
        return _ByHooks(torch, model, loss_fn)
    if is_hooked(model):
        raise TypeError(
            f"model must be a GradSampleModule (grad_sample_mode='hooks') or a module without hooks of "
            f"Opacus, got {type(model).__name__}"
        )
    return _by_functional(torch, model, loss_fn)


class _ByHooks:
    """Norms through the hooks of a GradSampleModule."""

    def __init__(self, torch: Any, model: Any, loss_fn: Loss) -> None:
        self._torch = torch
        self._model = model
        self._loss_fn = loss_fn
        self._named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
        self._checked = False

    def __call__(self, inputs: Any, targets: Any) -> Any:
        outputs = self._model(inputs)
        if not self._checked:
            self._check_loss(outputs.detach(), targets)
            self._checked = True
        loss = self._reduced(self._loss_fn(outputs, targets), len(targets))
        # Not backward(): that would also write to the parameters' gradients.
        self._torch.autograd.grad(loss, [each for _, each in self._named], allow_unused=True)
        gradients = []
        for name, parameter in self._named:
            if parameter.grad_sample is None:
                raise ValueError(f"parameter {name} got no gradient per example: is it used, and training?")
            gradients.append(parameter.grad_sample)
            parameter.grad_sample = None
        return _norms(self._torch, gradients)

    def _reduced(self, loss: Any, batch: int) -> Any:
        """Loss of a batch as one number, as ``loss_reduction`` of Opacus says."""
        if loss.numel() == 1:
            return loss.sum()
        if loss.shape != (batch,):
            raise ValueError(f"loss_fn must return one number, or one an example, got {tuple(loss.shape)}")
        return loss.mean() if self._model.loss_reduction == "mean" else loss.sum()

    def _check_loss(self, outputs: Any, targets: Any) -> None:
        """Compare the loss of two examples with the losses of each."""
        if len(targets) < 2:
            return
        both = float(self._reduced(self._loss_fn(outputs[:2], targets[:2]), 2))
        alone = [
            float(self._reduced(self._loss_fn(outputs[i : i + 1], targets[i : i + 1]), 1)) for i in (0, 1)
        ]
        kind = self._model.loss_reduction
        expected = sum(alone) / (2 if kind == "mean" else 1)
        if not abs(both - expected) <= _tolerance(self._torch, outputs) * max(map(abs, (*alone, both))):
            raise ValueError(
                f"loss_fn must return the {kind} of the losses of the examples, as Opacus was told, but two "
                f"examples of loss {alone[0]:.6g} and {alone[1]:.6g} have {both:.6g} together"
            )


def _tolerance(torch: Any, values: Any) -> float:
    """Relative difference that rounding in the precision of `values` explains."""
    kind = values.dtype if values.dtype.is_floating_point else torch.float32
    return math.sqrt(torch.finfo(kind).eps)


def _by_functional(torch: Any, model: Any, loss_fn: Loss) -> Callable[[Any, Any], Any]:
    """Norms through torch.func."""
    trained = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}
    fixed = {name: each.detach() for name, each in model.named_parameters() if not each.requires_grad}
    # Copies, so that layers that count their passes do not count these.
    fixed |= {name: each.clone() for name, each in model.named_buffers()}

    def loss_of(parameters: Any, example: Any, target: Any) -> Any:
        """Return the loss of one example."""
        outputs = torch.func.functional_call(model, {**parameters, **fixed}, (example[None],))
        loss = loss_fn(outputs, target[None])
        if loss.numel() != 1:
            raise ValueError(f"loss_fn must return one number for one example, got {tuple(loss.shape)}")
        return loss.sum()

    # Randomness shows in the random states, which are compared at the end.
    gradients = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0, 0), randomness="different")

    def norms_of(inputs: Any, targets: Any) -> Any:
        return _norms(torch, list(gradients(trained, inputs, targets).values()))

    return norms_of


def _norms(torch: Any, gradients: list[Any]) -> Any:
    """Norm over all parameters, of gradients of shape (batch, ...)."""
    parts = [torch.linalg.vector_norm(each.flatten(1), dim=1, dtype=torch.float64) for each in gradients]
    return torch.linalg.vector_norm(torch.stack(parts), dim=0)


def _chunks(torch: Any, dataset: Any, total: int, size: int) -> Iterator[tuple[Any, Any]]:
    """Yield inputs and targets of consecutive examples. A DataLoader would draw from the random state."""
    for start in range(0, total, size):
        end = min(start + size, total)
        if type(dataset) is torch.utils.data.TensorDataset:
            batch = dataset[start:end]
        else:
            batch = torch.utils.data.default_collate([dataset[i] for i in range(start, end)])
        if not (isinstance(batch, list | tuple) and len(batch) == 2 and all(map(torch.is_tensor, batch))):
            raise TypeError("dataset must yield pairs (input, target) of tensors, arrays or numbers")
        yield batch[0], batch[1]


def _refuse_batch_statistics(torch: Any, model: Any) -> None:
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and layer.training:
            raise ValueError(
                f"the gradient of an example must not depend on others, but {name} normalises over the batch"
            )
