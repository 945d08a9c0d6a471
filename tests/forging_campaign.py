"""A campaign against the checker: sound certificates are changed at random, to prove what is not true.

``python tests/forging_campaign.py 3000`` changes so many witnesses and prints what came of it. The numbers
are drawn from a fixed seed, so that a count reproduces a campaign. What is true is what the engine answers:
an interval that the checker proves and that does not meet the engine's is a forgery.
"""

import json
import math
import sys
import time
import warnings
from collections import Counter
from typing import NamedTuple

import numpy as np

import hockeystick as hs
from hockeystick._curves.tilted_witness import tilted_witness
from hockeystick_verify import NotProvenError, RefusedError, check, read

SEED = 2509
FACTORS = (0.1, 0.5, 0.8, 0.95, 0.99, 1.01, 1.05, 1.25, 2.0, 10.0)
"""By which numbers of a witness are multiplied."""
SECONDS = 60.0
"""Most processor time that a changed certificate may take the checker."""
MARGIN = 1e-7
"""Relative margin between intervals that are said not to meet; the engine's have a relative width of 1e-6."""
MARGIN_OF_CHAINS = 0.02
"""Of chains, whose best division of epsilon the engine finds in a finite number of steps."""
MARGIN_OF_LOWER_ENDS = 1e-3
"""Of lower ends of shuffled batches, which finer cells bring closer to what two data sets reveal."""
MARGIN_OF_DIVERGENCES = 1e-6
"""Of divergences, which the engine bounds from above: by up to 4e-7 too much, for dealt Laplace noise."""
DELTA = 1e-4

GAUSSIAN, POISSON = {"noise_multiplier": 2.0}, {"noise_multiplier": 2.0, "sample_rate": 0.05}
FIXED = {"sampling": hs.WithoutReplacement(10, 200)}
SUBJECTS = {
    "poisson": hs.privacy_curve(**POISSON, steps=50),
    "few steps": hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.001, steps=2, adjacency="remove"),
    "group": hs.privacy_curve(**POISSON, steps=20, group_size=4),
    "rates": hs.privacy_curve(**GAUSSIAN, steps=20, group=hs.Group(rates=[0.01, 0.05, 0.2])),
    "norms": hs.privacy_curve(**POISSON, steps=20, group=hs.Group(norms=[1.0, 0.5, 0.25])),
    "orthogonal": hs.privacy_curve(**POISSON, steps=20, group=hs.Group(size=3, gradients="orthogonal")),
    "microbatches": hs.privacy_curve(**GAUSSIAN, sampling=hs.Poisson(0.05, microbatches=3), steps=20),
    "poisson replaced": hs.privacy_curve(**POISSON, steps=20, adjacency="replace"),
    "fixed": hs.privacy_curve(**GAUSSIAN, **FIXED, steps=20),
    "clipped": hs.privacy_curve(mechanism=hs.BatchClipping(4.0), sample_rate=0.05, steps=20, group_size=3),
    "clipped units": hs.privacy_curve(
        mechanism=hs.BatchClipping(6.0, units_per_batch=2), **FIXED, steps=20, group_size=4
    ),
    "clipped replaced": hs.privacy_curve(
        mechanism=hs.BatchClipping(12.0), **FIXED, steps=2, adjacency="replace", group_size=2
    ),
    "correlated bins": hs.privacy_curve(
        mechanism=hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0), sampling=hs.FixedBins(2), steps=2
    ),
    "cosine": hs.privacy_curve(**POISSON, steps=20, group=hs.Group(norms=[1.0, 0.5, 0.5], cosine=0.3)),
    "cosine, replaced": hs.privacy_curve(
        noise_multiplier=4.0, sample_rate=0.05, steps=9, group=hs.Group(3, cosine=0.6), adjacency="replace"
    ),
    "mixed": hs.privacy_curve(**POISSON, steps=9, adjacency="add")
    + hs.privacy_curve(noise_multiplier=3.0, sample_rate=0.1, steps=5),
    "mixed, dealt": hs.privacy_curve(
        noise_multiplier=4.0, sampling=hs.RandomAllocation(4), steps=8, adjacency="add"
    )
    + hs.privacy_curve(**POISSON, steps=10, adjacency="remove"),
    "mixed, on a lattice": hs.privacy_curve(
        mechanism=hs.Laplace(8.0), sample_rate=0.1, steps=2, adjacency="add"
    )
    + hs.privacy_curve(mechanism=hs.Laplace(8.0), sample_rate=0.1, steps=2, adjacency="remove"),
    "two kinds": hs.privacy_curve(**POISSON, steps=20)
    + hs.privacy_curve(noise_multiplier=4.0, sample_rate=0.1, steps=9),
    "laplace": hs.privacy_curve(mechanism=hs.Laplace(8.0), sample_rate=0.1, steps=4),
    "laplace replaced": hs.privacy_curve(mechanism=hs.Laplace(30.0), **FIXED, steps=3, adjacency="replace"),
    "response": hs.privacy_curve(mechanism=hs.RandomizedResponse(0.7), sample_rate=0.05, steps=30),
    "truncated": hs.privacy_curve(
        noise_multiplier=4.0, sampling=hs.Poisson(0.1, max_batch_size=6, dataset_size=20),
        steps=2, adjacency="remove",
    ),
    "fixed replaced": hs.privacy_curve(noise_multiplier=8.0, **FIXED, steps=2, adjacency="replace"),
    "chain": hs.privacy_curve(noise_multiplier=16.0, **FIXED, steps=4, adjacency="replace", group_size=3),
    "allocation": hs.privacy_curve(noise_multiplier=4.0, sampling=hs.RandomAllocation(4), steps=8),
    "part of an epoch": hs.privacy_curve(noise_multiplier=4.0, sampling=hs.RandomAllocation(4), steps=11),
    "bins": hs.privacy_curve(noise_multiplier=6.0, sampling=hs.FixedBins(4), steps=10),
    "dealt pair": hs.privacy_curve(
        noise_multiplier=6.0, sampling=hs.RandomAllocation(4), steps=8, group_size=2
    ),
    "dealt and drawn": hs.privacy_curve(noise_multiplier=4.0, sampling=hs.RandomAllocation(4), steps=8)
    + hs.privacy_curve(**POISSON, steps=10),
    "laplace dealt": hs.privacy_curve(
        mechanism=hs.Laplace(8.0), sampling=hs.RandomAllocation(4), steps=10, adjacency="remove"
    ),
}  # fmt: skip
SHUFFLED = {
    "shuffled": {"sampling": hs.Shuffle(5, 20), "steps": 4},
    "shuffled group": {"sampling": hs.Shuffle(5, 22), "steps": 4, "group_size": 3},
    "shuffled epochs": {"sampling": hs.Shuffle(5, 20), "steps": 10},
}
"""Runs whose two ends are bounds of their own, neither of which may be passed (noise 1.5)."""
RENYI = ("poisson", "group", "norms", "fixed")
"""Subjects of which the Rényi divergence of order 3 is attacked too, by the nodes of its integrals."""
MOMENTS = (
    "truncated", "fixed replaced", "allocation", "part of an epoch", "bins", "dealt pair", "mixed, dealt",
    "laplace dealt",
)  # fmt: skip
"""And of order 2.5, by the moments of its steps: with a rule for each epoch of dealt batches."""
SHORTENED = {"group": 2.0, "norms": 1.25, "poisson replaced": 0.0}
"""And whose curve is attacked on a lattice, without shifts above this one."""
TILTED = ("allocation", "part of an epoch", "dealt pair", "dealt and drawn", "mixed, dealt")
"""And whose curve is attacked on a line right of the origin."""


class Subject(NamedTuple):
    """A sound certificate, and what is true: upper ends are above `least`, lower ends below `most`."""

    document: dict
    least: float
    most: float


def subjects(only=None):
    """Sound certificates of all kinds, by name; or those of some curves only."""

    def asked(names):
        return [name for name in names if only is None or name in only]

    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        for name in asked(SUBJECTS):
            curve = SUBJECTS[name]
            epsilon = curve.epsilon(DELTA)
            document = json.loads(curve.certify(epsilon=epsilon).to_json())
            margin = MARGIN_OF_CHAINS if name == "chain" else MARGIN
            least, most = (float(end) for end in curve.bounds(epsilon=epsilon))
            found[name] = Subject(document, least * (1 - margin), most * (1 + margin))
        for name in asked(SHUFFLED):
            curve = hs.privacy_curve(noise_multiplier=1.5, adjacency="zero_out", **SHUFFLED[name])
            document = json.loads(curve.certify(epsilon=curve.epsilon(DELTA)).to_json())
            most, least = (document["claims"][place][end] for place, end in ((1, "at_least"), (0, "at_most")))
            found[name] = Subject(document, least * (1 - MARGIN), most * (1 + MARGIN_OF_LOWER_ENDS))
        for kind, order, names in (("renyi", 3.0, RENYI), ("moments", 2.5, MOMENTS)):
            for name in asked(names):
                document = json.loads(SUBJECTS[name].certify(order=order).to_json())
                margin, true = MARGIN_OF_DIVERGENCES, float(SUBJECTS[name].renyi(order))
                found[f"{kind} of {name}"] = Subject(document, true * (1 - margin), true * (1 + margin))
        for name in asked(SHORTENED):
            document = on_a_lattice(found[name].document, SHORTENED[name])
            found[f"some of {name}"] = found[name]._replace(document=document)
        for name in asked(TILTED):
            document = on_a_tilted_line(found[name].document)
            found[f"tilted {name}"] = found[name]._replace(document=document)
    return found


def on_a_tilted_line(document):
    """Return the certificate of dealt batches with a witness on a line right of the origin."""
    run, epsilon = document["run"], document["claims"][0]["epsilon"]
    witness = {way: tilted_witness(run, way, epsilon, math.log(DELTA), 1e-6) for way in document["witness"]}
    return document | {"witness": witness}


def on_a_lattice(document, largest):
    """Return the certificate of a line with a witness on a lattice, which leaves out shifts above one."""
    kind = {"start": 0.0, "ranges": [[-60, 120, 1]], "coarser": [1], "largest_shift": largest}
    lattice = {"bits": 128, "method": "lattice", "spacing": 0.02, "points": 1024, "first": -400, "tilt": 4.0}
    lattice |= {"outer_tilt": 8.0, "left_tilt": 1.0, "kinds": [kind]}
    return document | {"witness": dict.fromkeys(document["witness"], lattice)}


def leaves(node, path=()):
    """Paths of all numbers of a witness."""
    if isinstance(node, dict | list):
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        return [leaf for key, value in pairs for leaf in leaves(value, (*path, key))]
    return [path] if isinstance(node, int | float) else []


def change(witness, generator):
    """Change one to three numbers of a witness, or leave out or repeat an entry of a list."""
    for _ in range(int(generator.integers(1, 4))):
        found = leaves(witness)
        if not found:
            return
        *places, last = found[int(generator.integers(len(found)))]
        node = witness
        for place in places:
            node = node[place]
        if isinstance(node, list) and generator.random() < 0.1:
            node.insert(last, node[last]) if generator.random() < 0.5 else node.pop(last)
            continue
        node[last] = _changed(node[last], generator)


def _changed(value, generator):
    kind = generator.random()
    if kind < 0.06:
        return [0, 1, -1, 1e-9, 1e9, -value][int(generator.integers(6))]
    if isinstance(value, int):
        if kind < 0.5:
            return value + int(generator.integers(-3, 4))
        return int(value * float(generator.choice(FACTORS)))
    if kind < 0.3:
        return value * float(1 + 1e-3 * generator.normal())
    return value * float(generator.choice(FACTORS))


def outcome(subject, document):
    """Return the verdict of the checker: "refused", "not proven", "true", "FORGED" or "SLOW"."""
    start = time.process_time()
    try:
        found = check(read(json.dumps(document)))
    except RefusedError:
        return "refused"
    except NotProvenError:
        return "not proven"
    finally:
        seconds = time.process_time() - start
    if seconds > SECONDS:
        return "SLOW"
    true = all(each.lower <= subject.most and subject.least <= each.upper for each in found)
    return "true" if true and not any(math.isnan(each.upper) for each in found) else "FORGED"


def campaign(count, seed=SEED, report=lambda line: print(line, flush=True), only=None):
    """Change so many witnesses, and count outcomes; raises all but the two errors of the checker."""
    generator, known = np.random.default_rng(seed), subjects(only)
    names, counts = list(known), {name: Counter() for name in known}
    for name, subject in known.items():
        if outcome(subject, subject.document) != "true":
            raise AssertionError(f"the certificate of {name!r} is not sound to begin with")
    for number in range(count):
        name = names[number % len(names)]
        document = json.loads(json.dumps(known[name].document))
        change(document["witness"], generator)
        found = outcome(known[name], document)
        counts[name][found] += 1
        if found in ("FORGED", "SLOW"):
            report(f"{found}: {name}, number {number}: {json.dumps(document)}")
        if number % 100 == 99:
            report(f"{number + 1} of {count}: {dict(sum(counts.values(), Counter()))}")
    return counts


def lines(counts):
    """Return the outcome as a table."""
    kinds = ("true", "not proven", "refused", "FORGED", "SLOW")
    rows = [f"{'subject':20} " + " ".join(f"{kind:>10}" for kind in kinds)]
    for name, count in {**counts, "all": sum(counts.values(), Counter())}.items():
        rows.append(f"{name:20} " + " ".join(f"{count[kind]:>10}" for kind in kinds))
    return rows


if __name__ == "__main__":
    print("\n".join(lines(campaign(int(sys.argv[1]) if len(sys.argv) > 1 else 500))))
