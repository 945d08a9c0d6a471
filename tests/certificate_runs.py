"""Random runs to certify, each drawn from its number: the number reproduces it.

As a program, ``python tests/certificate_runs.py 0 200 table.json`` certifies and checks a range of them, in
order, and writes what came out.
"""

import json
import math
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hockeystick as hs

SEED = 25
SCHEMES = ("poisson",) * 3 + ("fixed", "full", "rates", "norms", "orthogonal", "microbatches", "adaptive")
ADJACENCIES = ("add_remove",) * 3 + ("add", "remove", "replace")
GROUPS = (1, 1, 1, 2, 3, 4, 8, 16, 32)


class RandomRun(NamedTuple):
    """A run, what it is about, and the point of its curve to certify."""

    schemes: tuple[str, ...]
    curve: hs.PrivacyCurve
    delta: float
    by_epsilon: bool
    """Whether delta is certified at the epsilon of `delta`, rather than epsilon at `delta`."""


def random_run(number):
    """Run of this number: it depends on nothing else."""
    generator = np.random.default_rng([SEED, number])
    adjacency = str(generator.choice(ADJACENCIES))
    scheme, curve = _one(generator, adjacency)
    schemes = [scheme]
    if generator.random() < 0.25:
        scheme, other = _one(generator, adjacency)
        schemes.append(scheme)
        curve = curve + other
    low, high = (12.0, 100.0) if generator.random() < 0.1 else (2.0, 12.0)
    delta = float(10 ** -generator.uniform(low, high))
    return RandomRun(tuple(schemes), curve, delta, bool(generator.random() < 0.5))


def _log_uniform(generator, low, high):
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def _one(generator, adjacency):
    """Draw a scheme and the curve of some steps with it."""
    noise = _log_uniform(generator, 0.4, 20.0)
    scheme = str(generator.choice(("poisson", "full") if adjacency == "replace" else SCHEMES))
    size, rate = int(generator.choice(GROUPS)), _log_uniform(generator, 1e-4, 0.5)
    run = {"noise_multiplier": noise, "steps": int(_log_uniform(generator, 1.0, 1e5)), "adjacency": adjacency}
    parts = generator.uniform(0.2, 1.0, min(size, 6)).round(2).tolist()
    if scheme == "poisson":
        run |= {"sample_rate": rate, "group_size": 1 if adjacency == "replace" else size}
    elif scheme == "fixed":
        records = int(generator.integers(100, 100_000))
        run |= {"sampling": hs.WithoutReplacement(max(1, int(rate * records)), records), "group_size": size}
    elif scheme == "full":
        run |= {"sampling": hs.FullBatch(), "group_size": size}
    elif scheme == "rates":
        run |= {"group": hs.Group(rates=[rate * part for part in parts])}
    elif scheme in ("norms", "orthogonal"):
        gradients = "aligned" if scheme == "norms" else "orthogonal"
        run |= {"sample_rate": rate, "group": hs.Group(norms=parts[:4], gradients=gradients)}
    elif scheme == "microbatches":
        batches = int(generator.integers(2, 5))
        run |= {"sampling": hs.Poisson(rate, microbatches=batches), "group_size": min(size, 8)}
    else:
        del run["noise_multiplier"]
        run |= {"mechanism": hs.AdaptiveClipping(noise, 5 * noise), "sample_rate": rate, "group_size": size}
    return scheme, hs.privacy_curve(**run)


def certified(run):
    """Certificate of a random run; None if no finite epsilon is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        epsilon = run.curve.epsilon(run.delta)
        if not math.isfinite(epsilon):
            return None
        return run.curve.certify(epsilon=epsilon) if run.by_epsilon else run.curve.certify(delta=run.delta)


def _outcome(number):
    """One row of the table: what came out, and processor seconds to make and to check."""
    run = random_run(number)
    start = time.process_time()
    row = {"run": number, "schemes": "+".join(run.schemes), "adjacency": run.curve.adjacency}
    row |= {"steps": run.curve.steps, "delta": run.delta}
    try:
        certificate = certified(run)
    except hs.UnsupportedError:
        return row | {"outcome": "too expensive"}
    made = time.process_time()
    if certificate is None:
        return row | {"outcome": "no finite epsilon"}
    verified, _ = certificate.verify()
    row |= {"outcome": "verified" if verified else "NOT VERIFIED"}
    return row | {
        "seconds_to_make": round(made - start, 3),
        "seconds_to_check": round(time.process_time() - made, 3),
    }


def main(first, last, path):
    """Write the table of a range of runs, again after each of them."""
    rows = []
    for number in range(first, last):
        rows.append(_outcome(number))
        counts = Counter(row["outcome"] for row in rows)
        seconds = sorted(row["seconds_to_check"] for row in rows if "seconds_to_check" in row)
        summary = {"runs": len(rows), **counts}
        if seconds:
            summary |= {"median_seconds_to_check": seconds[len(seconds) // 2], "most_seconds": seconds[-1]}
        lines = ",\n  ".join(json.dumps(row) for row in rows)
        text = f'{{\n "summary": {json.dumps(summary)},\n "rows": [\n  {lines}\n ]\n}}\n'
        Path(path).write_text(text, "utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
