"""The tables of tests/data, and the mixtures their rows name."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
from by_definition import binomial, hypergeometric, poisson_binomial

DATA = Path(__file__).parent / "data"


@cache
def rows(name):
    """Rows of one table as dicts of strings."""
    with (DATA / name).open(encoding="utf-8") as file:
        return tuple(csv.DictReader(line for line in file if not line.startswith("#")))


@cache
def mixture(spec):
    """Weights and shifts, float64, of 'binomial k q', 'hypergeometric k b n' or 'rates q1;q2;...'."""
    kind, *numbers = spec.split()
    if kind == "binomial":
        weights, shifts = binomial(int(numbers[0]), numbers[1])
    elif kind == "hypergeometric":
        weights, shifts = hypergeometric(*map(int, numbers))
    else:
        weights, shifts = poisson_binomial(numbers[0].split(";"))
    return np.array(weights, dtype=float), np.array(shifts, dtype=float)
