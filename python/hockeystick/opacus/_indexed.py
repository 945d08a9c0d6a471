"""A data set that says which example it hands out."""

from __future__ import annotations

from typing import Any

from hockeystick.opacus._per_example import check_dataset


class IndexedDataset:
    """A data set whose examples carry their index as last entry.

    Indices that travel with the batch stay right however the loader shuffles, prefetches or splits.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        Examples as tuples or lists, by index.

    Raises
    ------
    TypeError
        If `dataset` has no length or no items, or, on reading, an example is neither tuple nor list.
    ValueError
        If `dataset` is empty.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.opacus.IndexedDataset([("x", 0), ("y", 1)])[1]
    ('y', 1, 1)
    """

    def __init__(self, dataset: Any) -> None:
        self._size = check_dataset(dataset)
        self._dataset = dataset

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        item = self._dataset[index]
        if not isinstance(item, list | tuple):
            raise TypeError(f"dataset must yield tuples, got {type(item).__name__}")
        return (*item, index)
