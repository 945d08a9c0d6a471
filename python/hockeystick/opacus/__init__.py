"""At home in Opacus and PyTorch training loops. Importing this imports neither.

- `check_loader`: whether a data loader draws its batches as the accountant assumes.
- `IndividualTracker`: keeps the account of every example beside the training.
- `per_example_norms`: the gradient norms of a whole data set.
- `IndividualClippingOptimizer`, `IndexedDataset`: every example clipped to a norm of its own.
"""

from typing import TYPE_CHECKING

from hockeystick.opacus.indexed import IndexedDataset
from hockeystick.opacus.loaders import LoaderScheme, check_loader
from hockeystick.opacus.per_example import per_example_norms
from hockeystick.opacus.tracker import IndividualTracker

if TYPE_CHECKING:
    from hockeystick.opacus.individual_optimizer import IndividualClippingOptimizer

__all__ = [
    "IndexedDataset",
    "IndividualClippingOptimizer",
    "IndividualTracker",
    "LoaderScheme",
    "check_loader",
    "per_example_norms",
]


def __getattr__(name: str) -> type["IndividualClippingOptimizer"]:
    # A subclass of one of Opacus's classes, which is made when it is first asked for.
    if name != "IndividualClippingOptimizer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hockeystick.opacus.individual_optimizer import IndividualClippingOptimizer

    return IndividualClippingOptimizer
