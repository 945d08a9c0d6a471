"""Classes of Opacus, recognised without importing it: whoever made the object has loaded its module."""

from __future__ import annotations

import sys
from typing import Any


def is_grad_sample_module(model: object) -> bool:
    """Whether a module is Opacus's GradSampleModule itself, not one of the other ways."""
    found = _opacus_class("opacus.grad_sample", "GradSampleModule")
    return found is not None and type(model) is found


def is_hooked(model: Any) -> bool:
    """Whether any hooks of Opacus are attached to a module or a part of it."""
    base = _opacus_class("opacus.grad_sample", "AbstractGradSampleModule")
    wrapped = base is not None and any(isinstance(each, base) for each in model.modules())
    return wrapped or any(hasattr(each, "autograd_grad_sample_hooks") for each in model.modules())


def is_plain_optimizer(optimizer: object) -> bool:
    """Whether an optimizer is Opacus's DPOptimizer itself, not one that clips in another way."""
    found = _opacus_class("opacus.optimizers", "DPOptimizer")
    return found is not None and type(optimizer) is found


def _opacus_class(module: str, name: str) -> type[Any] | None:
    return getattr(sys.modules.get(module), name, None)
