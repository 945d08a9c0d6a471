"""At home in Opacus and PyTorch training loops. Importing this imports neither.

- `register`: the accountants of this library by name, for ``PrivacyEngine(accountant="hockeystick")``.
- `PrivacyEngine`: Opacus's engine with exact noise for a target, and a look at the loader.
- `from_opacus`: what one of Opacus's accountants, or a checkpoint, has recorded, for any group.
- `attach`: an accountant for the steps of an optimizer that nobody's engine made.
- `check_loader`: whether a data loader draws its batches as the accountant assumes.
- `IndividualTracker`: keeps the account of every example during training.
- `per_example_norms`: the gradient norms of a whole data set.
- `IndividualClippingOptimizer`, `IndexedDataset`: every example clipped to a norm of its own.
- `BatchClippingOptimizer`: batches clipped as a whole, for any model and optimizer of PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hockeystick._loaders.torch_loaders import LoaderScheme, check_loader
from hockeystick.opacus._hooks import attach
from hockeystick.opacus._registering import register
from hockeystick.opacus._taking_over import from_opacus

if TYPE_CHECKING:
    from hockeystick.opacus._batch_clipping_optimizer import BatchClippingOptimizer
    from hockeystick.opacus._engine import PrivacyEngine
    from hockeystick.opacus._indexed import IndexedDataset
    from hockeystick.opacus._individual_optimizer import IndividualClippingOptimizer
    from hockeystick.opacus._per_example import per_example_norms
    from hockeystick.opacus._tracker import IndividualTracker

__all__ = [
    "BatchClippingOptimizer",
    "IndexedDataset",
    "IndividualClippingOptimizer",
    "IndividualTracker",
    "LoaderScheme",
    "PrivacyEngine",
    "attach",
    "check_loader",
    "from_opacus",
    "per_example_norms",
    "register",
]

# Engine and optimizer are subclasses of Opacus's, which must be there; the others keep the import short.
_WHEN_ASKED_FOR = {
    "BatchClippingOptimizer": "_batch_clipping_optimizer",
    "IndexedDataset": "_indexed",
    "IndividualClippingOptimizer": "_individual_optimizer",
    "IndividualTracker": "_tracker",
    "PrivacyEngine": "_engine",
    "per_example_norms": "_per_example",
}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHEN_ASKED_FOR[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
