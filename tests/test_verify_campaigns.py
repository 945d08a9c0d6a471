"""Certificates that were made to cost or to mislead the checker, and those of all answers of a page."""

import json
from collections import Counter

import documented_answers
import forging_campaign
import pytest
from test_documentation import TOP

import hockeystick as hs
from hockeystick_verify import RefusedError, check

CURVE = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)


def _many_groups(sampling, size, count):
    each = {"mechanism": {"name": "gaussian", "noise_multiplier": 2.0}, "sampling": sampling}
    return [each | {"group": {"size": size}, "count": number} for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("steps", "method", "reason"),
    [
        # Laws of large groups take seconds each, and there may be 64 of them.
        (_many_groups({"name": "poisson", "sample_rate": 0.1}, 1000, 30), {}, "25000 shifts"),
        (
            _many_groups(
                {
                    "name": "truncated_poisson",
                    "sample_rate": 0.5,
                    "max_batch_size": 9000,
                    "dataset_size": 20_000,
                },
                128,
                3,
            ),
            {"method": "lattice", "spacing": 0.1, "points": 100, "first": -50, "tilt": 1.0, "outer_tilt": 2.0,
             "left_tilt": 0.0, "kinds": []},
            "larger than are covered",
        ),
        # A chain asks for the curve at up to 64 places for each claim: one pass on a lattice, many on a line.
        (
            _many_groups({"name": "random_allocation", "batches": 10}, 64, 1),
            {"method": "chain",
             "one": {"bits": 128, "method": "allocation", "spacing": 0.1, "terms": 10**5, "rules": []},
             "splits": [[{"epsilon": 0.0, "links": 1}] * 64] * 16},
            "more points of the line",
        ),
    ],
)  # fmt: skip
def test_work_that_is_not_in_the_witness_is_bounded_too(steps, method, reason):
    way = "replace" if method.get("method") == "chain" else "remove"
    line = {"tilt": 1.0, "outer_tilt": 2.0, "spacing": 1.0, "terms": 10, "kinds": []}
    claims = [{"epsilon": 1.0, "at_most": 0.5}] * 16
    document = {"run": {"adjacency": way, "steps": steps}, "claims": claims}
    with pytest.raises(RefusedError, match=reason):
        check(document | {"witness": {way: {"bits": 128} | (method or line)}})


def test_exponentials_at_the_nodes_are_work_too():
    # 2048 different shifts: 43,000 nodes took eight minutes, when each counted like a product.
    norms = [1 / (n + 2) ** 0.5 for n in range(11)]
    step = {"mechanism": {"name": "gaussian", "noise_multiplier": 2.0}, "count": 2}
    step |= {"sampling": {"name": "poisson", "sample_rate": 0.1}, "group": {"size": 11, "norms": norms}}
    kind = {"start": -25.0, "spacing": 0.05, "nodes": 1200, "height": 0.1, "shift": 0.1, "shift_strip": 0.1}
    witness = {"bits": 128, "tilt": 1.0, "outer_tilt": 2.0, "spacing": 1.0, "terms": 10, "kinds": [kind]}
    document = {"run": {"adjacency": "remove", "steps": [step]}, "witness": {"remove": witness}}
    document["claims"] = [{"epsilon": 1.0, "at_most": 0.5}]
    with pytest.raises(RefusedError, match="more nodes and points of the line than are computed"):
        check(document)
    step["group"]["norms"] = [0.5] * 11  # multiples of one half: a polynomial
    assert check(document)[0].upper > 0.0


def test_claims_on_many_orders_share_the_work_of_one():
    document = json.loads(CURVE.certify(order=4.0).to_json())
    for witness in document["witness"].values():
        witness["kinds"][0]["nodes"] = 300_000
    document["claims"] = [{"order": 4.0 + place, "at_most": 1.0} for place in range(16)]
    with pytest.raises(RefusedError, match="more nodes and points of the line than are computed"):
        check(document)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/getting-started.md",
        *(
            pytest.param(f"docs/{name}.md", marks=pytest.mark.long)
            for name in ("curves", "group-privacy", "exact", "planning", "runs")
        ),
    ],
)
def test_answers_of_pages_are_certified(page):
    """All pages: ``python tests/documented_answers.py``."""
    answers = documented_answers.answers_of(TOP / page)
    assert answers
    assert [documented_answers.outcome(answer) for answer in answers] == ["verified"] * len(answers)


SOME = ("poisson", "norms", "laplace", "chain", "allocation", "shuffled")
"""Subjects with a witness of each kind, which take seconds; all take minutes."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("only", "count"), [(SOME, 12), pytest.param(None, 51, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_changed_witnesses_prove_nothing_that_is_not_true(only, count):
    """A thousand changes: ``python tests/forging_campaign.py 1000``."""
    total = sum(forging_campaign.campaign(count, only=only).values(), Counter())
    assert set(total) <= {"true", "not proven", "refused"}, total
    assert total["true"] > count // 10
    assert total["not proven"] + total["refused"] > count // 5
