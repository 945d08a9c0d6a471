"""One rank of a distributed Opacus run; the ranks are processes of this module.

``python distributed_training.py RANK RANKS ADDRESS OUTPUT``
"""

import json
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")  # what torch and Opacus warn about is theirs

EPOCHS = 2


def run(rank: int, ranks: int, address: str) -> dict[str, object]:
    """Train on this rank, and return what its accountant has."""
    import torch
    from opacus import PrivacyEngine
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
    from opacus_runs import parts, train, weights_of

    import hockeystick as hs

    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=ranks)
    hs.opacus.register(group_size=4)
    given = parts()
    given["module"] = DifferentiallyPrivateDistributedDataParallel(given["module"])
    engine = PrivacyEngine(accountant="hockeystick")
    made = engine.make_private(**given, noise_multiplier=1.0)
    torch.manual_seed(rank + 1)
    train(*made, epochs=EPOCHS)
    found = {
        "history": engine.accountant.history,
        "epsilon": engine.get_epsilon(1e-5),
        "optimizer": type(made[1]).__name__,
        "weights": weights_of(made[0]).tolist(),
    }
    torch.distributed.destroy_process_group()
    return found


if __name__ == "__main__":
    rank, ranks, address, output = sys.argv[1:]
    Path(output).write_text(json.dumps(run(int(rank), int(ranks), address)), "utf-8")
