"""A certified search for replaced records whose data sets change sides between the steps of a run.

    python -m benches.compare.mixed_pairs

PITFALLS (section 8) conjectures that the curve of replacing one record of a fixed batch, with Gaussian
noise and after any number of steps, is that of removing one. Its Figure 3 shows why this needs a proof: of a
run of T steps j may be seen as "add" and T - j as "remove", and with Laplace noise such a mixed pair can be
the worst. Here random runs are asked for certified intervals of epsilon: of the mixed pair, and of both pure
ones. A run in which the interval of the mixed pair lies above both others refutes the conjecture; one in
which it lies below supports it.
"""

import warnings
from collections import Counter
from typing import Any

import numpy as np

import hockeystick as hs

DATASET_SIZE = 10_000
DELTAS = (1e-2, 1e-5, 1e-9)
RUNS = 500
TOLERANCE = 1e-6
"""Relative width of the intervals: mixed and pure pairs differ by more than that in most runs."""


def verdict(step: dict[str, Any], steps: int, added: int, deltas: tuple[float, ...] = DELTAS) -> list[str]:
    """Say of each delta whether the mixed pair is certainly above both pure ones, or not above them."""
    once: dict[str, Any] = {"steps": 1, "tolerance": TOLERANCE, **step}
    parts = {way: hs.privacy_curve(adjacency=way, **once) for way in ("add", "remove")}
    mixed = parts["add"] * added + parts["remove"] * (steps - added)
    with warnings.catch_warnings():
        # A wide interval leaves a delta undecided, and is no reason to stop.
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        lower, upper = mixed.bounds(delta=deltas)
        pure = [(parts[way] * steps).bounds(delta=deltas) for way in parts]
    pure_lower, pure_upper = np.max(pure, axis=0)
    words = np.where(lower > pure_upper, "above", np.where(upper <= pure_lower, "below", "undecided"))
    return [str(word) for word in words]


def random_step(generator: np.random.Generator, noise: str) -> tuple[dict[str, Any], int, int]:
    """Return a step, a number of steps and how many of them are seen as "add"."""
    steps = int(np.exp(generator.uniform(np.log(2), np.log(100))))
    added = int(generator.integers(1, steps)) if steps > 1 else 1
    batch = int(np.exp(generator.uniform(0.0, np.log(0.9 * DATASET_SIZE))))
    scale = float(np.exp(generator.uniform(np.log(0.5), np.log(20.0))))
    randomised: dict[str, Any] = (
        {"noise_multiplier": scale} if noise == "gaussian" else {"mechanism": hs.Laplace(scale)}
    )
    return {**randomised, "sampling": hs.WithoutReplacement(batch, DATASET_SIZE)}, steps, added


def search(noise: str, runs: int, seed: int) -> Counter[str]:
    """Count the verdicts of random runs."""
    generator = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for _ in range(runs):
        found.update(verdict(*random_step(generator, noise)))
    return found


def main() -> None:
    """Print the verdicts for Gaussian noise, and for Laplace noise, whose mixed pairs do go above."""
    for noise, runs in (("gaussian", RUNS), ("laplace", RUNS // 5)):
        found = search(noise, runs, 8)
        print(f"{noise}: {runs} runs at {len(DELTAS)} deltas: {dict(sorted(found.items()))}")


if __name__ == "__main__":
    main()
