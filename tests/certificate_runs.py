"""Random runs to certify, each drawn from its number: the number reproduces it.

As a program, ``python tests/certificate_runs.py 0 200`` certifies and checks a range of them, in order, and
writes docs/certificates/random_runs.json after each: runs that are in it already are not repeated, so that it
may be stopped and continued. Each run has a minute of processor time. Without a range the program writes the
table of docs/certificates.md.
"""

import json
import math
import multiprocessing
import resource
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hockeystick as hs
from hockeystick_verify import (
    allocation,
    check,
    correlated,
    few_steps,
    lattice,
    read,
    shuffled,
    shuffled_pair,
    tilted_allocation,
)

SEED = 25
SCHEMES = ("poisson",) * 3 + ("fixed", "full", "rates", "norms", "orthogonal", "microbatches", "adaptive")
ADJACENCIES = ("add_remove",) * 3 + ("add", "remove", "replace")
GROUPS = (1, 1, 1, 2, 3, 4, 8, 16, 32)
OTHERS = 3500
"""From this number on, runs are of the schemes below."""
DERIVED = 4600
"""From this number on, runs are of `DERIVED_SCHEMES`."""
DERIVED_SCHEMES = ("chain", "history", "poisson replaced", "times", "renyi", "trade-off")
LATER = 5000
"""From this number on, runs are of `LATER_SCHEMES`, which have certificates since later."""
LATER_SCHEMES = (
    "clipped batches", "clipped replaced", "mixed", "cosine", "laplace poisson replaced",
    "response poisson replaced", "laplace allocation", "laplace bins", "allocation beside others",
    "chain of dealt", "correlated bins",
)  # fmt: skip
NEWEST = 5200
"""From this number on, runs are of `NEWEST_SCHEMES`: proven by moments, or with large shifts left out."""
NEWEST_SCHEMES = (
    "renyi of dealt", "renyi of laplace dealt", "renyi of dealt group", "renyi of truncated",
    "renyi of fixed replaced", "renyi of mixed", "group in truncated",
)  # fmt: skip
SHUFFLED = 5400
"""From this number on, runs have shuffled batches, and are of `SHUFFLED_SCHEMES`."""
SHUFFLED_SCHEMES = ("shuffled",) * 6 + ("renyi of shuffled", "trade-off of shuffled")
MOST_SECONDS = 60
"""Processor time for one run, to make its certificate and to check it."""
OTHER_SCHEMES = (
    "laplace", "laplace fixed", "laplace replaced", "response", "response fixed", "response replaced",
    "truncated", "truncated replaced", "fixed replaced", "allocation", "allocation", "bins",
)  # fmt: skip
CONTEXT = multiprocessing.get_context("forkserver")
"""Processes are forked from one that has imported everything: an import takes longer than most runs."""
CONTEXT.set_forkserver_preload(["hockeystick", "hockeystick_verify", "numpy"])
TABLE = Path(__file__).parents[1] / "docs" / "certificates" / "random_runs.json"
PAGE = TABLE.parents[1] / "certificates.md"
BEGIN, END = "<!-- table of random runs: begin -->", "<!-- table of random runs: end -->"


class RandomRun(NamedTuple):
    """A run, what it is about, and the point of its curve to certify."""

    schemes: tuple[str, ...]
    curve: hs.PrivacyCurve
    delta: float
    by_epsilon: bool
    """Whether delta is certified at the epsilon of `delta`, rather than epsilon at `delta`."""
    other: dict[str, float] = {}  # noqa: RUF012
    """The order of the Rényi divergence, or the rate of the trade-off function, to certify in place of it."""


def random_run(number):
    """Run of this number: it depends on nothing else."""
    generator = np.random.default_rng([SEED, number])
    if number >= SHUFFLED:
        return _shuffled(generator)
    if number >= NEWEST:
        return _newest(generator)
    if number >= LATER:
        return _later(generator)
    if number >= DERIVED:
        return _derived(generator)
    if number >= OTHERS:
        scheme, curve = _other(generator)
        delta = float(10 ** -generator.uniform(2.0, 9.0))
        return RandomRun((scheme,), curve, delta, bool(generator.random() < 0.5))
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


def _other(generator):
    """Draw a scheme that is not in `SCHEMES`, and the curve of some steps with it."""
    scheme = str(generator.choice(OTHER_SCHEMES))
    noise, rate = _log_uniform(generator, 0.8, 10.0), _log_uniform(generator, 0.01, 0.3)
    size, records = int(generator.choice((1, 1, 1, 2, 3))), int(generator.integers(50, 2000))
    batch = max(1, int(rate * records))
    direction = str(generator.choice(("add_remove", "add", "remove")))
    run = {"steps": int(_log_uniform(generator, 1.0, 300.0)), "adjacency": direction}
    noises = {"laplace": {"mechanism": hs.Laplace(2.0 * noise)}}
    noises["response"] = {"mechanism": hs.RandomizedResponse(0.5 + 0.4 * float(generator.random()))}
    run |= noises.get(scheme.split()[0], {"noise_multiplier": noise})
    if scheme.endswith("replaced"):
        run["adjacency"] = "replace"
    if scheme.startswith("truncated"):
        largest = batch + int(3 * math.sqrt(batch)) + 1
        run["sampling"] = hs.Poisson(rate, max_batch_size=min(largest, records), dataset_size=records)
        run["group_size"] = 1 if scheme.endswith("replaced") else size
    elif scheme in ("allocation", "bins"):
        batches = int(_log_uniform(generator, 2.0, 100.0))
        run["sampling"] = hs.RandomAllocation(batches) if scheme == "allocation" else hs.FixedBins(batches)
        run |= {"steps": batches * int(_log_uniform(generator, 1.0, 20.0)), "noise_multiplier": 1.0 + noise}
    elif scheme.endswith(("fixed", "replaced")):
        run["sampling"] = hs.WithoutReplacement(batch, records)
        run["group_size"] = 1 if scheme == "fixed replaced" else size
    else:
        run |= {"sample_rate": rate, "group_size": size}
    return scheme, hs.privacy_curve(**run)


def _derived(generator):
    """Draw a run of `DERIVED_SCHEMES`, and what to certify of it."""
    scheme, other = str(generator.choice(DERIVED_SCHEMES)), {}
    noise, rate = _log_uniform(generator, 0.8, 10.0), _log_uniform(generator, 1e-3, 0.3)
    size, steps = int(generator.integers(2, 7)), int(_log_uniform(generator, 2.0, 1000.0))
    run = {"noise_multiplier": noise, "steps": steps}
    if scheme == "chain":
        records = int(generator.integers(100, 2000))
        run |= {
            "sampling": hs.WithoutReplacement(max(1, int(rate * records / 4)), records),
            "group_size": size,
        }
        run |= {"adjacency": "replace", "noise_multiplier": 4.0 * noise, "steps": min(steps, 50)}
    elif scheme == "poisson replaced":
        parts = generator.uniform(0.2, 1.0, size).round(2).tolist()
        run |= {"adjacency": "replace", "group": hs.Group(rates=[rate * part for part in parts], norms=parts)}
    elif scheme == "times":
        batches = size * int(generator.integers(1, 12))
        run |= {
            "sampling": hs.RandomAllocation(batches, times=2),
            "steps": batches * int(generator.integers(1, 9)),
        }
        run["noise_multiplier"] = 1.0 + noise
    else:
        run |= {"sample_rate": rate, "group_size": 1 if scheme == "history" else size}
    if scheme == "history":
        norms = generator.uniform(0.05, 1.0, size).round(2).tolist()
        curves = [hs.privacy_curve(**run | {"group_size": 1}, group=hs.Group(norms=[norm])) for norm in norms]
        curve = sum(curves[1:], curves[0])
    else:
        curve = hs.privacy_curve(**run)
    if scheme == "renyi":
        other = {"order": float(generator.uniform(1.1, 20.0))}
    elif scheme == "trade-off":
        other = {"alpha": float(generator.uniform(0.01, 0.5))}
    delta = float(10 ** -generator.uniform(2.0, 9.0))
    return RandomRun((scheme,), curve, delta, bool(generator.random() < 0.5), other)


def _later(generator):
    """Draw a run of `LATER_SCHEMES`."""
    scheme = str(generator.choice(LATER_SCHEMES))
    noise, rate = _log_uniform(generator, 0.8, 8.0), _log_uniform(generator, 1e-3, 0.3)
    size, steps = int(generator.choice((1, 2, 3, 8))), int(_log_uniform(generator, 1.0, 1000.0))
    batches, epochs = int(_log_uniform(generator, 2.0, 50.0)), int(_log_uniform(generator, 1.0, 10.0))
    delta, by_epsilon = float(10 ** -generator.uniform(2.0, 9.0)), bool(generator.random() < 0.5)
    direction = str(generator.choice(("add_remove", "add", "remove")))
    dealt = {"sampling": hs.RandomAllocation(batches), "steps": batches * epochs, "adjacency": direction}
    plain = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps}
    if scheme.startswith("clipped"):
        adjacency = "replace" if scheme.endswith("replaced") else direction
        del plain["noise_multiplier"]
        curve = hs.privacy_curve(
            mechanism=hs.BatchClipping(2 * noise), group_size=size, adjacency=adjacency, **plain
        )
    elif scheme == "mixed":
        one = hs.privacy_curve(adjacency="add", **plain)
        curve = one + hs.privacy_curve(
            noise_multiplier=noise, sample_rate=rate / 2, steps=steps, adjacency="remove"
        )
    elif scheme == "cosine":
        group = hs.Group(size=min(size + 1, 4), gradients="bounded", cosine=float(generator.uniform(0, 1)))
        curve = hs.privacy_curve(group=group, adjacency=direction, **plain)
    elif scheme.endswith("poisson replaced"):
        mechanism = hs.Laplace(2 * noise) if scheme.startswith("laplace") else hs.RandomizedResponse(0.7)
        curve = hs.privacy_curve(
            mechanism=mechanism, sample_rate=rate, steps=min(steps, 300), group_size=size, adjacency="replace"
        )
    elif scheme.startswith("laplace"):
        if scheme == "laplace bins":
            dealt["sampling"] = hs.FixedBins(batches)
        curve = hs.privacy_curve(mechanism=hs.Laplace(1.0 + noise), **dealt)
    elif scheme == "allocation beside others":
        curve = hs.privacy_curve(noise_multiplier=2.0 + noise, **dealt)
        curve = curve + hs.privacy_curve(
            mechanism=hs.Laplace(2 * noise), sample_rate=rate, steps=min(steps, 50), adjacency=direction
        )
    elif scheme == "chain of dealt":
        curve = hs.privacy_curve(
            noise_multiplier=2.0 + noise, group_size=int(generator.integers(7, 17)), **dealt
        )
    else:
        decay = float(generator.uniform(0.1, 0.9))
        mechanism = hs.CorrelatedNoise.lambda_cgd(decay, noise)
        curve = hs.privacy_curve(
            mechanism=mechanism,
            sampling=hs.FixedBins(min(batches, 8)),
            steps=min(batches, 8) * min(epochs, 4),
            adjacency=direction,
        )
    return RandomRun((scheme,), curve, delta, by_epsilon)


def _newest(generator):
    """Draw a run of `NEWEST_SCHEMES`."""
    scheme = str(generator.choice(NEWEST_SCHEMES))
    noise, rate = _log_uniform(generator, 0.8, 8.0), _log_uniform(generator, 1e-3, 0.3)
    steps, batches = int(_log_uniform(generator, 1.0, 100.0)), int(_log_uniform(generator, 2.0, 50.0))
    direction = str(generator.choice(("add_remove", "add", "remove")))
    order = float(
        generator.choice((2.0, 7.0, float(generator.uniform(1.05, 2.0)), _log_uniform(generator, 2.0, 64.0)))
    )
    schemes_of_dealt = (hs.RandomAllocation(batches), hs.FixedBins(batches))
    dealt = {"sampling": schemes_of_dealt[int(generator.integers(2))], "steps": steps, "adjacency": direction}
    cut = hs.Poisson(rate, max_batch_size=int(60 * rate) + 8, dataset_size=60)
    drawn = {"noise_multiplier": noise, "steps": steps, "adjacency": direction}
    if scheme == "renyi of dealt":
        curve = hs.privacy_curve(noise_multiplier=noise, **dealt)
    elif scheme == "renyi of laplace dealt":
        curve = hs.privacy_curve(mechanism=hs.Laplace(1.0 + noise), **dealt)
    elif scheme == "renyi of dealt group":
        size = int(generator.integers(2, 7))
        curve = hs.privacy_curve(noise_multiplier=2.0 + noise, group_size=size, **dealt)
    elif scheme == "renyi of truncated":
        curve = hs.privacy_curve(sampling=cut, group_size=int(generator.integers(1, 25)), **drawn)
    elif scheme == "renyi of fixed replaced":
        fixed, size = hs.WithoutReplacement(int(60 * rate) + 1, 60), int(generator.integers(1, 25))
        curve = hs.privacy_curve(sampling=fixed, group_size=size, **drawn | {"adjacency": "replace"})
    elif scheme == "renyi of mixed":
        first = hs.privacy_curve(noise_multiplier=noise, **dealt | {"adjacency": "add"})
        second = hs.privacy_curve(sampling=cut, **drawn | {"adjacency": "replace"})
        curve = first + second
    else:
        size, steps = int(generator.integers(16, 25)), min(steps, 10)
        curve = hs.privacy_curve(
            noise_multiplier=1.0 + noise,
            sampling=hs.Poisson(rate / 100, max_batch_size=16, dataset_size=1000),
            steps=steps,
            group_size=size,
            adjacency=direction,
        )
    other = {"order": order} if scheme.startswith("renyi") else {}
    return RandomRun((scheme,), curve, float(10 ** -generator.uniform(2.0, 6.0)), True, other)


def _shuffled(generator):
    """Draw a run with shuffled batches: of one record or of a group, with one or two noise multipliers."""
    scheme, other = str(generator.choice(SHUFFLED_SCHEMES)), {}
    records = int(_log_uniform(generator, 20.0, 100_000.0))
    batch = max(1, int(records * _log_uniform(generator, 1e-3, 0.5)))
    rounds, epochs = records // batch, _log_uniform(generator, 0.3, 200.0)
    size = min(int(generator.choice((1, 1, 1, 2, 3, 8, 24, 64))), records)
    run = {"adjacency": str(generator.choice(("zero_out", "replace"))), "group_size": size}
    run |= {"sampling": hs.Shuffle(batch, records), "steps": max(1, int(epochs * rounds))}
    noise = _log_uniform(generator, 0.4, 8.0) * max(1.0, math.sqrt(epochs * size) / 3.0)
    if generator.random() < 0.25:
        run["steps"] = rounds * max(1, int(epochs))
        curve = hs.privacy_curve(noise_multiplier=noise, **run)
        curve = curve + hs.privacy_curve(noise_multiplier=1.5 * noise, **run)
    else:
        curve = hs.privacy_curve(noise_multiplier=noise, **run)
    if scheme.startswith("renyi"):
        other = {"order": float(generator.uniform(1.1, 20.0))}
    elif scheme.startswith("trade-off"):
        other = {"alpha": float(generator.uniform(0.01, 0.5))}
    low, high = (12.0, 100.0) if generator.random() < 0.1 else (2.0, 12.0)
    delta = float(10 ** -generator.uniform(low, high))
    return RandomRun((scheme,), curve, delta, bool(generator.random() < 0.5), other)


def certified(run):
    """Certificate of a random run; None if no finite epsilon is known."""
    if run.other:
        return run.curve.certify(**run.other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        epsilon = run.curve.epsilon(run.delta)
        if not math.isfinite(epsilon):
            return None
        return run.curve.certify(epsilon=epsilon) if run.by_epsilon else run.curve.certify(delta=run.delta)


def _about(number, run):
    """Entries of a row that say which run it is."""
    adjacency = getattr(run.curve, "adjacency", "mixed")
    row = {"run": number, "schemes": "+".join(run.schemes), "adjacency": adjacency}
    return row | {"steps": run.curve.steps, "delta": run.delta}


def _outcome(number):
    """One row of the table: what came out, and processor seconds to make and to check."""
    run = random_run(number)
    start = time.process_time()
    row = _about(number, run)
    try:
        certificate = certified(run)
    except hs.UnsupportedError:
        return row | {"outcome": "too expensive"}
    made = time.process_time()
    if certificate is None:
        return row | {"outcome": "no finite epsilon"}
    for cached in (allocation, tilted_allocation, correlated):
        cached.transforms.cache_clear()
    for kept in (few_steps.kept, lattice.composed_run, shuffled.patterns, shuffled_pair.known_cells):
        kept.cache_clear()
    found = check(read(certificate.to_json()))
    row |= {"outcome": "verified" if all(each.holds for each in found) else "NOT VERIFIED"}
    widths = [(each.upper - each.lower) / each.upper for each in found if each.upper]
    row |= {"width": float(f"{max(widths, default=0.0):.1e}")}
    return row | {
        "seconds_to_make": round(made - start, 3),
        "seconds_to_check": round(time.process_time() - made, 3),
    }


def _outcome_in_time(number):
    """`_outcome` in a process of its own, which ends after `MOST_SECONDS` of processor time."""
    with CONTEXT.Pool(1, _limited) as pool:
        worker = pool._pool[0]  # the pool puts another in the place of one that has ended
        answer = pool.apply_async(_outcome, (number,))
        while not answer.ready():
            answer.wait(0.02)
            if not worker.is_alive():
                return _about(number, random_run(number)) | {"outcome": "out of time"}
        return answer.get()


def _limited():
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))


def outcomes():
    """Rows of the table, by number."""
    return {row["run"]: row for row in json.loads(TABLE.read_text("utf-8"))["rows"]}


def write(rows):
    """Write the table of all rows, and its summary."""
    rows = [rows[number] for number in sorted(rows)]
    seconds = sorted(row["seconds_to_check"] for row in rows if "seconds_to_check" in row)
    summary = {"runs": len(rows), **Counter(row["outcome"] for row in rows)}
    summary |= {"median_seconds_to_check": seconds[len(seconds) // 2], "most_seconds": seconds[-1]}
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    TABLE.write_text(f'{{\n "summary": {json.dumps(summary)},\n "rows": [\n  {lines}\n ]\n}}\n', "utf-8")


def table():
    """Lines of the table of docs/certificates.md, one for each scheme."""
    lines = [
        "| scheme | runs | verified | too expensive | out of time | median and most seconds to check "
        "| median relative width, nine of ten below |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    groups = {}
    for row in outcomes().values():
        groups.setdefault("two kinds of steps" if "+" in row["schemes"] else row["schemes"], []).append(row)
    for scheme in sorted(groups):
        rows = groups[scheme]
        count = Counter(row["outcome"] for row in rows)
        seconds = sorted(row["seconds_to_check"] for row in rows if "seconds_to_check" in row)
        times = f"{seconds[len(seconds) // 2]:.2f}, {seconds[-1]:.1f}" if seconds else "-"
        counts = " | ".join(str(count[name]) for name in ("verified", "too expensive", "out of time"))
        widths = sorted(row["width"] for row in rows if "width" in row)
        spread = f"{widths[len(widths) // 2]:.0e}, {widths[9 * len(widths) // 10]:.0e}" if widths else "-"
        lines.append(f"| {scheme} | {len(rows)} | {counts} | {times} | {spread} |")
    return "\n".join(lines)


def write_table():
    """Put the table into docs/certificates.md, between its marks."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}", "utf-8")


def main(first, last):
    """Certify a range of runs, those that are not in the table yet."""
    rows = outcomes()
    for number in range(first, last):
        if number not in rows:
            rows[number] = _outcome_in_time(number)
            write(rows)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(int(sys.argv[1]), int(sys.argv[2]))
    else:
        write_table()
