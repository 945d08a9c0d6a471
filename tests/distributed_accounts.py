"""One rank of a training whose ranks account for their own examples; the ranks are processes of this module.

``python distributed_accounts.py RANK RANKS ADDRESS FOLDER DIES_AT``

After each step a rank saves weights and accountant as FOLDER/RANK-STEP.json, and goes on from the last step
that all ranks have saved. Rank 1 is killed while it saves step DIES_AT, unless that is negative.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

from hockeystick import distributed
from hockeystick.accountants import IndividualAccountant

EXAMPLES, FEATURES, STEPS = 60, 4, 12
CLIP, NOISE, RATE = 1.0, 1.5, 0.2


def shard_of(rank, ranks):
    """Features of this rank's examples."""
    data = (
        np.random.default_rng(7).normal(size=(EXAMPLES, FEATURES)) * np.linspace(0.1, 2.0, EXAMPLES)[:, None]
    )
    return np.array_split(data, ranks)[rank]


def clipped_sum(shard, weights, accountant, step, rank):
    """Account for a step on a shard, and return the sum of its batch's clipped gradients."""
    gradients = weights - shard
    norms = np.linalg.norm(gradients, axis=1)
    accountant.update_norms(norms)
    accountant.step(noise_multiplier=NOISE, sample_rate=RATE)
    drawn = np.random.default_rng([step, rank]).random(len(shard)) < RATE
    factors = drawn * np.minimum(1.0, CLIP / norms)
    return (factors[:, None] * gradients).sum(axis=0)


def updated(weights, gradient, step):
    """Weights after a noisy step."""
    noise = np.random.default_rng([step, 99]).normal(size=FEATURES) * NOISE * CLIP
    return weights - 0.1 * (gradient + noise) / (RATE * EXAMPLES)


def new_accountant(shard):
    return IndividualAccountant(len(shard), max_grad_norm=CLIP)


def alone(ranks):
    """Accountants' whole and weights of the same training in one process."""
    shards = [shard_of(rank, ranks) for rank in range(ranks)]
    everyone = np.concatenate(shards)
    accountant, unused = new_accountant(everyone), [new_accountant(shard) for shard in shards]
    weights = np.zeros(FEATURES)
    for step in range(STEPS):
        accountant.update_norms(np.linalg.norm(weights - everyone, axis=1))
        accountant.step(noise_multiplier=NOISE, sample_rate=RATE)
        parts = [clipped_sum(*each, step, rank) for rank, each in enumerate(triples(shards, weights, unused))]
        weights = updated(weights, np.add.reduce(parts), step)
    return accountant, weights


def triples(shards, weights, accountants):
    return [(shard, weights, accountant) for shard, accountant in zip(shards, accountants, strict=True)]


def save(folder, rank, step, weights, accountant, dies):
    """Save as a whole or not at all: the file has its name when it is complete."""
    text = json.dumps({"weights": weights.tolist(), "accountant": accountant.state_dict()})
    unfinished = folder / f"{rank}.unfinished"
    if dies:
        unfinished.write_text(text[: len(text) // 2], "utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
    unfinished.write_text(text, "utf-8")
    unfinished.replace(folder / f"{rank}-{step}.json")


def load(folder, rank, step):
    """Weights and accountant of a rank after a step."""
    saved = json.loads((folder / f"{rank}-{step}.json").read_text("utf-8"))
    accountant = IndividualAccountant(**saved["accountant"]["settings"])
    accountant.load_state_dict(saved["accountant"])
    return np.array(saved["weights"]), accountant


def last_common_step(folder, ranks):
    """Last step that all ranks have saved; -1 before the first."""
    have = [{int(path.stem.split("-")[1]) for path in folder.glob(f"{rank}-*.json")} for rank in range(ranks)]
    return max(set.intersection(*have), default=-1)


def run(rank, ranks, address, folder, dies_at):
    """Train on this rank; return the account of all ranks and the weights."""
    import torch

    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=ranks)
    shard = shard_of(rank, ranks)
    done = last_common_step(folder, ranks)
    torch.distributed.barrier()
    weights, accountant = (
        load(folder, rank, done) if done >= 0 else (np.zeros(FEATURES), new_accountant(shard))
    )
    for step in range(done + 1, STEPS):
        gradient = torch.from_numpy(clipped_sum(shard, weights, accountant, step, rank))
        torch.distributed.all_reduce(gradient)
        weights = updated(weights, gradient.numpy(), step)
        save(folder, rank, step, weights, accountant, rank == 1 and step == dies_at)
    before = accountant.state_dict()
    everyone = distributed.all_gather(accountant)
    assert accountant.state_dict() == before
    torch.distributed.destroy_process_group()
    return {"everyone": everyone.state_dict(), "weights": weights.tolist(), "resumed_from": done}


if __name__ == "__main__":
    rank, ranks, address, folder, dies_at = sys.argv[1:]
    found = run(int(rank), int(ranks), address, Path(folder), int(dies_at))
    (Path(folder) / f"found-{rank}.json").write_text(json.dumps(found), "utf-8")
