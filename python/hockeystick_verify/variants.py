"""Steps that are several plain ones, or a plain one for a larger group (V1), written as such."""

from __future__ import annotations

from hockeystick_verify.checker import (
    LARGEST_GROUP,
    LARGEST_KINDS,
    Object,
    RefusedError,
    choice,
    fields,
    items,
    steps_of,
    whole,
)


def plain(run: object) -> Object:
    """Return the run with neither several batches under one noise nor orthogonal gradients."""
    run = fields(run, "run", "adjacency steps")
    items(run["steps"], "steps", 1, LARGEST_KINDS)
    found = []
    for step, _ in steps_of(run):
        found += without_angles(without_batches(step, run["adjacency"]), run["adjacency"])
    return {**run, "steps": found}


def without_batches(step: Object, adjacency: object) -> Object:
    """Return a step on one batch: a member is one in each of the batches that are added up."""
    sampling, group = step["sampling"], fields(step["group"], "group", "size", "rates norms gradients")
    if sampling.get("name") != "poisson" or "microbatches" not in sampling:
        return step
    batches = whole(sampling["microbatches"], "microbatches", 1, LARGEST_GROUP)
    size = whole(group["size"], "group size", 1, LARGEST_GROUP)
    if size * batches > LARGEST_GROUP:
        raise RefusedError(f"a group of more than {LARGEST_GROUP} records in the batches of a step")
    if batches > 1 and (adjacency == "replace" or group.get("gradients", "aligned") != "aligned"):
        raise RefusedError("several batches of a step are covered for added or removed, aligned records")
    members = {**group, "size": size * batches}
    for name in ("rates", "norms"):
        if group.get(name) is not None:
            members[name] = items(group[name], name, size, size) * batches
    rest = {key: value for key, value in sampling.items() if key != "microbatches"}
    return {**step, "sampling": rest, "group": members}


def without_angles(step: Object, adjacency: object) -> list[Object]:
    """Return a step for each kind of member, if gradients are orthogonal: the members' pairs compose."""
    group = fields(step["group"], "group", "size", "rates norms gradients")
    if group.get("gradients") != "orthogonal":
        return [step]
    if adjacency == "replace" or step["sampling"].get("name") not in ("poisson", "full_batch"):
        raise RefusedError(
            "orthogonal gradients are covered for added or removed records of Poisson samples or full batches"
        )
    choice(step["mechanism"].get("name"), "mechanism of orthogonal gradients", "gaussian")
    size = whole(group["size"], "group size", 1, LARGEST_GROUP)
    given = {
        key: items(group[key], key, size, size) for key in ("rates", "norms") if group.get(key) is not None
    }
    alike: dict[str, tuple[Object, int]] = {}
    for place in range(size):
        member = {"size": 1, **{key: [values[place]] for key, values in given.items()}}
        alike[repr(member)] = member, alike.get(repr(member), (member, 0))[1] + 1
    return [{**step, "group": member, "count": step["count"] * times} for member, times in alike.values()]
