"""The table of docs/peers.md of what other accountants can answer, asked of the accountants themselves."""

import inspect
import re
from pathlib import Path

import pytest

import hockeystick as hs

pytestmark = pytest.mark.opacus

PAGE = Path(__file__).parents[1] / "docs" / "peers.md"

RUN = {"delta": 1e-5, "noise_multiplier": 1.0, "steps": 2}

EVENTS = {
    "Poisson sampling, add or remove": (
        lambda events: events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(1.0)),
        "ADD_OR_REMOVE_ONE",
    ),
    "Poisson sampling, replace": (
        lambda events: events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(1.0)),
        "REPLACE_ONE",
    ),
    "fixed batches, add or remove": (
        lambda events: events.SampledWithoutReplacementDpEvent(1000, 10, events.GaussianDpEvent(1.0)),
        "ADD_OR_REMOVE_ONE",
    ),
    "fixed batches, replace": (
        lambda events: events.SampledWithoutReplacementDpEvent(1000, 10, events.GaussianDpEvent(1.0)),
        "REPLACE_ONE",
    ),
    "Poisson sampling with a largest batch": (
        lambda events: events.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 1.0),
        "ADD_OR_REMOVE_ONE",
    ),
    "Laplace noise with Poisson sampling": (
        lambda events: events.PoissonSampledDpEvent(0.01, events.LaplaceDpEvent(1.0)),
        "ADD_OR_REMOVE_ONE",
    ),
    "a group of records": (
        lambda events: events.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.81, 0.18, 0.01]),
        "ADD_OR_REMOVE_ONE",
    ),
}
"""How dp-accounting names the step of a row, and its relation."""

OURS = {
    "Poisson sampling, add or remove": {"sample_rate": 0.01},
    "Poisson sampling, replace": {"sample_rate": 0.01, "adjacency": "replace"},
    "fixed batches, add or remove": {"sampling": hs.WithoutReplacement(10, 1000)},
    "fixed batches, replace": {"sampling": hs.WithoutReplacement(10, 1000), "adjacency": "replace"},
    "Poisson sampling with a largest batch": {
        "sampling": hs.Poisson(0.01, max_batch_size=20, dataset_size=1000)
    },
    "one random batch of an epoch (random allocation)": {"sampling": hs.RandomAllocation(2)},
    "shuffled batches": {"sampling": hs.Shuffle(500, 1000), "adjacency": "zero_out"},
    "Laplace noise with Poisson sampling": {
        "sample_rate": 0.01,
        "mechanism": hs.Laplace(1.0),
        "noise_multiplier": None,
    },
    "a group of records": {"sample_rate": 0.1, "group_size": 2},
    "members with rates and norms of their own": {
        "sample_rate": 0.1,
        "group": hs.Group(size=2, rates=[0.1, 0.2], norms=[1.0, 0.5]),
    },
}


def cells(row):
    """The cells of a row of the table: ours, dp-accounting's two, Opacus's two, prv-accountant's."""
    found = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert found, row
    return [cell.strip() for cell in found[1].split("|")]


@pytest.mark.parametrize("row", EVENTS)
def test_dp_accounting_supports_what_the_table_says(row):
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    make, relation = EVENTS[row]
    event = make(dp_accounting.dp_event)
    for column, kind in ((1, PLDAccountant), (2, RdpAccountant)):
        accountant = kind(neighboring_relation=dp_accounting.NeighboringRelation[relation])
        assert accountant.supports(event) == (cells(row)[column] != "no"), (row, kind)


def test_dp_accounting_has_no_event_for_allocation_or_shuffling():
    import dp_accounting

    names = " ".join(name.lower() for name in dir(dp_accounting.dp_event))
    for row, word in (
        ("one random batch of an epoch (random allocation)", "alloc"),
        ("shuffled batches", "shuf"),
    ):
        assert word not in names
        assert cells(row)[1:] == ["no"] * 5


def test_opacus_knows_noise_and_rate_alone():
    from opacus.accountants import PRVAccountant, RDPAccountant

    for kind in (PRVAccountant, RDPAccountant):
        assert set(inspect.signature(kind.step).parameters) == {"self", "noise_multiplier", "sample_rate"}
    for row in OURS:
        expected = ["yes", "yes"] if row == "Poisson sampling, add or remove" else ["no", "no"]
        assert cells(row)[3:5] == expected, row


def test_prv_accountant_samples_gaussian_noise_alone():
    import prv_accountant

    sampled = [name for name in dir(prv_accountant) if "Subsampled" in name]
    assert sampled == ["PoissonSubsampledGaussianMechanism"]
    for row in OURS:
        assert cells(row)[5] == ("yes" if row == "Poisson sampling, add or remove" else "no"), row


@pytest.mark.parametrize("row", OURS)
def test_we_answer_every_row(row):
    lower, upper = hs.get_epsilon(**{**RUN, **OURS[row]}, bounds=True)
    assert 0 < lower <= upper < 100
    assert cells(row)[0] in ("yes", "bound", "interval")
