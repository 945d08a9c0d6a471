"""Write tests/data/states/VERSION: a checkpoint of every kind of accountant, and what each one answers.

Run it before a release. The states of a version that CHANGELOG.md lists as released stay as they are.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import hockeystick as hs
from hockeystick import accountants, checkpoints

TOP = Path(__file__).parents[1]
STATES = TOP / "tests" / "data" / "states"
DELTA = 1e-5
ANSWERS = "answers.json"


def with_steps(accountant: Any, *steps: tuple[int, dict[str, Any]]) -> Any:
    """`accountant` after some numbers of equal steps."""
    for count, step in steps:
        for _ in range(count):
            accountant.step(**step)
    return accountant


def individual(**settings: Any) -> accountants.IndividualAccountant:
    """Return an accountant of five examples after refreshed norms, fixed batches and full ones."""
    accountant = accountants.IndividualAccountant(5, **settings)
    accountant.update_norms([0.1, 0.4, 0.0, 0.9, 3.0])
    with_steps(accountant, (40, {"noise_multiplier": 1.2, "sample_rate": 0.05}))
    accountant.update_norms([0.3, 0.2], [1, 4])
    batches = {"noise_multiplier": 2.0, "sampling": hs.WithoutReplacement(2, 5)}
    full = {"noise_multiplier": 30.0, "sampling": hs.FullBatch()}
    with_steps(accountant, (3, batches), (2, full))
    return accountant


def stopped(step: dict[str, Any], **settings: Any) -> accountants.IndividualFilter:
    """Return a filter that has stopped some of its examples."""
    gate = accountants.IndividualFilter(1.0, DELTA, **settings)
    for _ in range(300):
        gate.step([0.1, 0.5, 1.0, 2.0], **step)
    return gate


def examples() -> dict[str, Any]:
    """Return an accountant of every kind, by the name of its file."""
    poisson = (
        (100, {"noise_multiplier": 1.1, "sample_rate": 0.02}),
        (50, {"noise_multiplier": 0.9, "sample_rate": 1 / 3}),
    )
    mixed = (
        *poisson,
        (3, {"mechanism": hs.Laplace(3.0), "sample_rate": 0.1}),
        (5, {"noise_multiplier": 2.0, "sampling": hs.WithoutReplacement(64, 1000)}),
        (2, {"noise_multiplier": 20.0, "sampling": hs.FullBatch()}),
    )
    group = hs.Group(norms=[1.0, 0.5, 0.25])
    shuffled = (20, {"noise_multiplier": 8.0, "sample_rate": 0.1})
    return {
        "group": with_steps(accountants.GroupAccountant(4, "add"), *poisson),
        "group-empty": accountants.GroupAccountant(),
        "group-mixed": with_steps(accountants.GroupAccountant(tolerance=1e-5), *mixed),
        "group-unequal": with_steps(accountants.GroupAccountant(group=group), *poisson),
        "individual": individual(max_grad_norm=1.0),
        "individual-clipping": individual(max_grad_norm=2.0, rounding=0.02, individual_clipping=True),
        "individual-renyi": individual(exact=False, orders=[2.0, 8.5, 32.0]),
        "filter": stopped({"noise_multiplier": 1.0, "sample_rate": 0.05}),
        "filter-empty": accountants.IndividualFilter(2.0, DELTA, order=8.0),
        "filter-gaussian": stopped({"noise_multiplier": 40.0, "sample_rate": 1.0}),
        "monte-carlo": with_steps(accountants.MonteCarloAccountant(2, 2000, 0.95, 2**64 - 1), *poisson),
        "renyi": with_steps(
            accountants.RenyiGroupAccountant(3, "jensen", [1.1, 1.2, 2.0, 8.5], "remove"), *poisson
        ),
        "renyi-exact": with_steps(accountants.RenyiGroupAccountant(2, conversion="optimal"), *poisson),
        "shuffle": with_steps(accountants.ShuffleAccountant(10, 100, 2), shuffled),
    }


def answers(accountant: Any) -> dict[str, Any]:
    """Return what an accountant says, as plain JSON types."""
    if isinstance(accountant, accountants.IndividualFilter):
        active, used = accountant.active, accountant.used
        return {
            "order": accountant.order,
            "active": None if active is None else active.tolist(),
            "used": None if used is None else used.tolist(),
        }
    found: dict[str, Any] = {"steps": len(accountant), "epsilon": accountant.get_epsilon(DELTA)}
    if isinstance(accountant, accountants.IndividualAccountant):
        found["epsilons"] = accountant.get_epsilons(DELTA).tolist()
        found["norms"] = accountant.norms.tolist()
        found["is_guarantee"] = accountant.is_guarantee
    return found


def released(changelog: str) -> list[str]:
    """Return the versions that a changelog has."""
    return re.findall(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)


def write(folder: Path, version: str, changelog: str) -> None:
    """Write the states of this version into a folder of `folder`, unless it is released."""
    if version in released(changelog):
        raise SystemExit(f"{version} is released: its states stay as they are")
    (folder / version).mkdir(parents=True, exist_ok=True)
    found = {}
    for name, accountant in examples().items():
        checkpoints.save(accountant, folder / version / f"{name}.json")
        found[name] = answers(accountant)
    (folder / version / ANSWERS).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    write(STATES, hs.__version__, (TOP / "CHANGELOG.md").read_text("utf-8"))
