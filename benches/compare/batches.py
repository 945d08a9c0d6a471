"""Ways to draw batches beside the public code for them: ``python -m benches.compare.batches``.

Poisson samples that are cut to a largest size, beside dp-accounting's privacy loss distributions; random
allocation, beside two packages of the authors of "Privacy Amplification by Random Allocation" (Feldman and
Shenfeld 2025, arXiv:2502.08202): ``random-allocation``, whose functions are upper bounds of different kinds,
and ``PLD-accounting`` (2026, arXiv:2602.17284), which encloses epsilon by privacy loss distributions. Times
are processor times of one thread; the ratio is of theirs to ours, the difference is theirs less our upper
end.
"""

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from importlib.util import find_spec

import hockeystick as hs
from benches.compare.accounting import DELTA, THREAD_SETTINGS, duration, measure, print_heading, print_row
from benches.compare.accounting_peers import missing, module
from benches.compare.machine import describe_machine

PACKAGE = "random_allocation"
"""Module of the package ``random-allocation``."""

DISTRIBUTIONS = "PLD_accounting"
"""Module of the package ``PLD-accounting``."""

GAPS = (0.05, 0.005)
"""Distances of its two bounds that are asked for, relative to our epsilon."""

ORDERS = list(range(2, 41))
"""Rényi orders of its "direct" bound."""

RECORDS, LARGEST, RATE, STEPS = 10_000, 128, 0.01, 1000
RELATIONS = {"add_remove": "ADD_OR_REMOVE_ONE", "replace": "REPLACE_ONE"}

ALLOCATIONS = ((1.0, 10, 1), (1.0, 100, 1), (2.0, 100, 10))
"""Noise multiplier, batches of an epoch, epochs."""

ONE_EPOCH = "decomposition"
"""The bound that is for one epoch alone."""


def ends(**run: object) -> tuple[float, float]:
    """Both ends of our epsilon."""
    lower, upper = hs.get_epsilon(delta=DELTA, bounds=True, **run)  # type: ignore[call-overload]  # a run as a dict has no overload
    return float(lower), float(upper)


def truncated_by_peer(relation: str) -> float:
    """Ask dp-accounting about samples that are cut."""
    peer = module("dp_accounting")
    event = module("dp_accounting.dp_event").TruncatedSubsampledGaussianDpEvent(
        dataset_size=RECORDS, sampling_probability=RATE, truncated_batch_size=LARGEST, noise_multiplier=1.0
    )
    accountant = module("dp_accounting.pld").PLDAccountant(
        peer.NeighboringRelation[relation], value_discretization_interval=1e-4
    )
    accountant.compose(event, STEPS)
    return float(accountant.get_epsilon(DELTA))


def allocation_by_peer(bound: str, noise_multiplier: float, batches: int, epochs: int) -> float:
    """Ask the package of the paper for one of its upper bounds."""
    package = module(f"{PACKAGE}.random_allocation_scheme")
    run = package.PrivacyParams(
        sigma=noise_multiplier, num_steps=batches, num_selected=1, num_epochs=epochs, delta=DELTA
    )
    config = package.SchemeConfig(allocation_direct_alpha_orders=ORDERS)
    return float(getattr(package, f"allocation_epsilon_{bound}")(run, config))


def enclosed_by_peer(gap: float, noise_multiplier: float, batches: int, epochs: int) -> float:
    """Ask for the upper bound by privacy loss distributions; the lower one is at most ``gap`` below."""
    upper, _ = module(DISTRIBUTIONS).gaussian_allocation_epsilon_range(
        delta=DELTA, sigma=noise_multiplier, num_steps=batches, num_epochs=epochs, epsilon_accuracy=gap
    )
    return float(upper)


def print_question(
    text: str, ours: Callable[[], tuple[float, float]], peers: Mapping[str, Callable[[], float]]
) -> None:
    """Print our line and one for each peer."""
    timing, (lower, upper) = measure(ours)
    width = f"certified within {upper - lower:.1e}"
    print_row(text, "hockeystick", duration(timing.median), "", f"{upper:.7g}", width)
    for name, call in peers.items():
        theirs, found = measure(call)
        ratio = f"{float(f'{theirs.median / timing.median:.2g}'):g}"
        print_row("", name, duration(theirs.median), ratio, f"{found:.7g}", f"{found - upper:+.1e}")


def main() -> None:
    """Print the table."""
    if os.environ.get("RAYON_NUM_THREADS") != "1":
        # Libraries read these when they are loaded.
        os.environ.update(dict.fromkeys(THREAD_SETTINGS, "1"))
        os.execv(sys.executable, [sys.executable, "-m", "benches.compare.batches"])
    has_theirs = find_spec(PACKAGE) is not None
    has_peer = "dp-accounting" not in missing()
    print(f"{describe_machine()}\n")
    has_distributions = find_spec(DISTRIBUTIONS) is not None
    for name, found in (("random-allocation", has_theirs), ("PLD-accounting", has_distributions)):
        if found:
            print(f"{name} {metadata.version(name)}\n")
        else:
            print(f"{name} is not installed and left out; `pip install {name}` has it.\n")
    print_heading("run", "accountant", "time", "ratio", "ε", "ε above ours", left=2)
    for adjacency, relation in RELATIONS.items():
        scheme = hs.Poisson(RATE, max_batch_size=LARGEST, dataset_size=RECORDS)
        run = {"noise_multiplier": 1.0, "sampling": scheme, "steps": STEPS, "adjacency": adjacency}
        name = "dp_accounting PLD, interval 0.0001"
        calls = {name: partial(truncated_by_peer, relation)} if has_peer else {}
        text = f"at most {LARGEST} of {RECORDS:,}, q {RATE}, σ 1, T {STEPS}, {adjacency}"
        print_question(text, partial(ends, **run), calls)
    for noise, batches, epochs in ALLOCATIONS:
        run = {"noise_multiplier": noise, "sampling": hs.RandomAllocation(batches), "steps": batches * epochs}
        bounds = ("direct", "RDP_DCO", *((ONE_EPOCH,) if epochs == 1 else ())) if has_theirs else ()
        question = (noise, batches, epochs)
        peers = {
            f"random-allocation, {bound}": partial(allocation_by_peer, bound, *question) for bound in bounds
        }
        if has_distributions:
            _, ours = ends(**run)
            for gap in GAPS:
                call = partial(enclosed_by_peer, gap * ours, *question)
                peers[f"PLD-accounting, within {gap:g}"] = call
        print_question(
            f"1 of {batches}, σ {noise:g}, {epochs} epoch{'s' if epochs > 1 else ''}",
            partial(ends, **run),
            peers,
        )


if __name__ == "__main__":
    main()
