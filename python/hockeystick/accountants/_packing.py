"""Arrays as text: compact, exact, and of plain JSON types."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import shown

TYPES = ("<f8", "<i8", "|b1")
"""The types that are saved: float64, int64 and bool, with the least significant byte first."""

KEYS = ("type", "shape", "data")


def packed(array: NDArray[Any]) -> dict[str, Any]:
    """`array` as a dict of strings and numbers; the bytes are compressed."""
    kind = array.dtype.newbyteorder("<").str
    assert kind in TYPES
    data = zlib.compress(np.ascontiguousarray(array, dtype=kind).tobytes(), level=1)
    return {"type": kind, "shape": list(array.shape), "data": base64.b64encode(data).decode("ascii")}


def unpacked(saved: object, name: str, kind: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return the array of this type and shape that `saved` holds; None stands for any length.

    Raises
    ------
    ValueError
        If it holds another one, or is damaged.
    TypeError
        If it is not a mapping.
    """
    if not isinstance(saved, Mapping):
        raise TypeError(f"{name} must be a mapping, got {type(saved).__name__}")
    if sorted(map(str, saved)) != sorted(KEYS):
        raise ValueError(f"{name} must have the keys {list(KEYS)}, got {sorted(map(str, saved))}")
    dimensions = saved["shape"]
    fits = (
        saved["type"] == kind
        and isinstance(dimensions, list | tuple)
        and len(dimensions) == len(shape)
        and all(type(length) is int and length >= 0 for length in dimensions)
        and all(wanted in (None, length) for wanted, length in zip(shape, dimensions, strict=True))
    )
    if not fits:
        wanted = tuple("any" if length is None else length for length in shape)
        found = f"{shown(saved['type'])} and {shown(dimensions)}"
        raise ValueError(f"{name} must be of type {kind} and shape {wanted}, got {found}")
    size = math.prod(dimensions) * np.dtype(kind).itemsize
    try:
        # One byte more than there should be shows data that are too long, and bounds the memory they take.
        reader = zlib.decompressobj()
        compressed = base64.b64decode(saved["data"], validate=True)
        # Nothing is compressed more than this.
        if size > 1100 * len(compressed):
            raise ValueError(f"{len(compressed)} bytes cannot hold {size}")
        data = reader.decompress(compressed, size + 1)
    except (zlib.error, binascii.Error, ValueError, TypeError) as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    if len(data) != size or not reader.eof or reader.unused_data:
        raise ValueError(f"{name} is damaged: it holds fewer or more than {size} bytes")
    return np.frombuffer(data, dtype=kind).reshape(dimensions).astype(np.dtype(kind).newbyteorder("="))
