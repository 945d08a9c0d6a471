"""Squared sensitivities of small matrices over all sets of steps, in fractions, and random runs."""

import itertools
import math
from fractions import Fraction

BANDED = {"form": "toeplitz", "coefficients": [1.0, 0.5, 0.25, 0.125], "steps": 12}
SIGNED = {"form": "toeplitz", "coefficients": [1.0, -0.5, 0.25], "steps": 10}
ROOT = {"form": "prefix_sum_root", "steps": 12}
FULL = {"name": "full_batch"}
TURNS = {"name": "cyclic_poisson", "sample_rate": 0.1, "cycle": 4}


def entry(mechanism, sampling, size=1, count=1, noise=1.0):
    """Entry of a run with correlated noise."""
    return {
        "mechanism": {"name": "correlated_noise", "noise_multiplier": noise, **mechanism},
        "sampling": sampling,
        "group": {"size": size},
        "count": count,
    }


def matrix(mechanism):
    """The matrix of a mechanism, row by row."""
    steps, form = mechanism["steps"], mechanism["form"]
    if form == "matrix":
        rows = [[Fraction(each) for each in row[:steps]] for row in mechanism["rows"][:steps]]
        return [row + [Fraction(0)] * (steps - len(row)) for row in rows]
    if form == "toeplitz":
        column = [Fraction(each) for each in mechanism["coefficients"]]
    elif form == "blt":
        pairs = [
            (Fraction(s), Fraction(d)) for s, d in zip(mechanism["scales"], mechanism["decays"], strict=True)
        ]
        column = [Fraction(1), *(sum((s * d**t for s, d in pairs), Fraction(0)) for t in range(steps))]
    elif form == "lambda_cgd":
        column = [Fraction(mechanism["correlation"]) ** t for t in range(steps)]
    else:
        column = [Fraction(math.comb(2 * t, t), 4**t) for t in range(steps)]
    column = (column + [Fraction(0)] * steps)[:steps]
    return [[column[s - t] if s >= t else Fraction(0) for t in range(steps)] for s in range(steps)]


def gram(rows):
    """Inner products of all columns."""
    columns = list(zip(*rows, strict=True))
    return [[sum(a * b for a, b in zip(one, other, strict=True)) for other in columns] for one in columns]


def sets_of_steps(sampling, steps):
    """All sets of steps in which a record may take part."""
    if sampling["name"] == "full_batch":
        return [list(range(steps))]
    if sampling["name"] == "fixed_order":
        batches = sampling["batches"]
        return [list(range(first, steps, batches)) for first in range(min(batches, steps))]
    separation, most = sampling["separation"], sampling.get("participations", steps)
    sizes = range(1, min(most, steps) + 1)
    every = itertools.chain.from_iterable(itertools.combinations(range(steps), size) for size in sizes)
    return [chosen for chosen in every if all(b - a >= separation for a, b in itertools.pairwise(chosen))]


def attained(products, chosen):
    """Largest squared norm of a sum of columns with signs: what gradients of one line attain."""
    if all(products[s][t] >= 0 for s in chosen for t in chosen):
        return sum(products[s][t] for s in chosen for t in chosen)
    best = max(
        ((1, *signs) for signs in itertools.product((1, -1), repeat=len(chosen) - 1)),
        key=lambda signs: sum(
            float(products[s][t]) * a * b
            for s, a in zip(chosen, signs, strict=True)
            for t, b in zip(chosen, signs, strict=True)
        ),
    )
    signed = dict(zip(chosen, best, strict=True))
    return sum(products[s][t] * signed[s] * signed[t] for s in chosen for t in chosen)


def both_ends(mechanism, sampling, size=1):
    """What signs attain of the squared sensitivity, and the largest sum of magnitudes of inner products."""
    rows = matrix(mechanism)
    products, steps = gram(rows), len(rows)
    if sampling.get("members") == "apart" and size > 1:
        batches = min(sampling["batches"], steps)
        sums = [[sum(map(abs, row[first::batches])) for row in rows] for first in range(batches)]
        inner = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in sums] for one in sums]
        groups = list(itertools.combinations(range(batches), min(size, batches)))
        largest = max(sum(inner[r][q] for r in group for q in group) for group in groups)
        every = [[s for first in group for s in range(first, steps, batches)] for group in groups]
        return max(attained(products, chosen) for chosen in every), largest
    every = sets_of_steps(sampling, steps)
    largest = max(sum(abs(products[s][t]) for s in chosen for t in chosen) for chosen in every)
    return max(attained(products, chosen) for chosen in every), largest


def random_run(draw):
    """Return a mechanism, a sampling and a size that a `random.Random` draws: small, and of all kinds."""

    def value(low, high):
        return draw.choice([0.0, 0.5, 1.0, -1.0, -0.5]) if draw.random() < 0.3 else draw.uniform(low, high)

    steps = draw.randint(1, 8)
    form = draw.choice(["toeplitz"] * 4 + ["blt"] * 2 + ["lambda_cgd", "prefix_sum_root"] + ["matrix"] * 2)
    mechanism = {"form": form, "steps": steps}
    if form == "toeplitz":
        kind, column = draw.random(), [value(-1, 1) for _ in range(draw.randint(1, 10))]
        column = [abs(each) for each in column] if kind < 0.3 else column
        column = sorted(column, reverse=True) if kind < 0.15 else column
        mechanism["coefficients"] = [column[0] or 1.0, *column[1:]]
    elif form == "blt":
        buffers = draw.randint(0, 3)
        mechanism["scales"] = [abs(value(0, 0.8)) for _ in range(buffers)]
        mechanism["decays"] = [abs(value(0, 1)) for _ in range(buffers)]
    elif form == "lambda_cgd":
        mechanism["correlation"] = draw.choice([0.0, 1.0, draw.random()])
    elif form == "matrix":
        signed = draw.random() < 0.6
        rows = [
            [value(-1, 1) if draw.random() < 0.7 else 0.0 for _ in range(place)]
            + [draw.choice([1.0, 0.7, -2.0])]
            for place in range(steps + draw.randint(0, 2))
        ]
        mechanism["rows"] = rows if signed else [[abs(each) for each in row] for row in rows]
    kind, size = draw.random(), 1
    if kind < 0.2:
        return mechanism, {"name": "full_batch"}, size
    if kind < 0.55:
        sampling = {"name": "fixed_order", "batches": draw.randint(1, steps + 1)}
        if draw.random() < 0.5:
            sampling["members"], size = "apart", draw.randint(1, sampling["batches"])
        return mechanism, sampling, size
    sampling = {"name": "minimum_separation", "separation": draw.randint(1, steps + 1)}
    if draw.random() < 0.7:
        sampling["participations"] = draw.randint(1, 4)
    return mechanism, sampling, size
