"""Replaced records in fixed batches: our upper bound beside the Rényi accountant of dp-accounting.

    python -m benches.compare.replacement

PITFALLS (section 8) joins the two halves of the bound for one step into a dominating pair and says that its
accountant "does not generally outperform the RDP accountant". `get_epsilon` composes the same pair, without
the grid of losses that the paper uses.
The Rényi accountant is the tighter one that is known, Theorem 27 of Wang, Balle and Kasiviswanathan 2020 for
Gaussian noise. Needs dp-accounting, of the extra "bench".
"""

import itertools
from typing import NamedTuple

import numpy as np

import hockeystick as hs
from benches.compare.accounting_peers import module

NOISE_MULTIPLIERS = (0.8, 1.0, 2.0, 4.0, 8.0, 16.0)
BATCHES = ((10, 100_000), (100, 100_000), (1_000, 100_000), (10_000, 100_000))
STEPS = (1, 10, 100, 1_000, 10_000)
DELTAS = (1e-4, 1e-5, 1e-8)
ORDERS = (*range(2, 65), 80, 96, 128, 192, 256)


class Comparison(NamedTuple):
    """One run, by both accountants."""

    noise_multiplier: float
    batch_size: int
    dataset_size: int
    steps: int
    delta: float
    ours: float
    by_renyi: float


def compare() -> list[Comparison]:
    """Ask both accountants about every run."""
    peers, rdp = module("dp_accounting"), module("dp_accounting.rdp")
    found: list[Comparison] = []
    for noise, (batch_size, dataset_size) in itertools.product(NOISE_MULTIPLIERS, BATCHES):
        # A record that is replaced moves the sum by up to two clipping norms; the peer takes noise over that.
        event = peers.GaussianDpEvent(noise / 2.0)
        peer = rdp.RdpAccountant(ORDERS, peers.NeighboringRelation.REPLACE_ONE)
        peer.compose(peers.SampledWithoutReplacementDpEvent(dataset_size, batch_size, event))
        one_step = np.array(peer._rdp)
        sampling = hs.WithoutReplacement(batch_size, dataset_size)
        for steps, delta in itertools.product(STEPS, DELTAS):
            ours = hs.get_epsilon(
                delta=delta, noise_multiplier=noise, sampling=sampling, steps=steps, adjacency="replace"
            )
            by_renyi, _ = rdp.compute_epsilon(ORDERS, steps * one_step, delta)
            run = (noise, batch_size, dataset_size, steps, delta)
            found.append(Comparison(*run, float(ours), float(by_renyi)))
    return found


def main() -> None:
    """Print how often ours is smaller, and by how much."""
    found = compare()
    smaller = [each for each in found if each.ours < each.by_renyi]
    nothing = [each for each in found if each.ours == each.by_renyi == 0.0]
    print(f"{len(found)} runs: ours is smaller in {len(smaller)}; both are 0 in {len(nothing)}")
    ratios = sorted((each.by_renyi / each.ours, each) for each in found if each.ours > 0.0)
    values = [ratio for ratio, _ in ratios]
    print(f"Rényi over ours: {values[0]:.3f} to {values[-1]:.3g}, median {np.median(values):.2f}")
    print("closest:", ratios[0][1])
    print("farthest:", ratios[-1][1])


if __name__ == "__main__":
    main()
