"""The table of events on the page of dp-accounting says what `ExactAccountant` answers."""

import re
from pathlib import Path

import pytest

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PAGE = Path(__file__).parents[1] / "docs" / "dp-accounting.md"
RELATIONS = ("ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL", "REPLACE_ONE")
MEANINGS = {"groups": (True, True), "yes": (True, True), "one record": (True, False), "": (False, False)}
"""Whether one record and a group of three have an answer."""


def events():
    """An event for every row that dp-accounting 0.6 can state, by how the row begins."""
    from dp_accounting import dp_event

    from hockeystick.dp_accounting import AccumulatedPoissonDpEvent, RandomAllocationDpEvent

    gaussian, laplace = dp_event.GaussianDpEvent(2.0), dp_event.LaplaceDpEvent(2.0)
    return {
        "`GaussianDpEvent`": gaussian,
        "`PoissonSampledDpEvent` of Gaussian": dp_event.PoissonSampledDpEvent(0.01, gaussian),
        "`PoissonSampledDpEvent` of one Laplace": dp_event.PoissonSampledDpEvent(0.01, laplace),
        "`SampledWithoutReplacementDpEvent` of Gaussian": dp_event.SampledWithoutReplacementDpEvent(
            1000, 10, gaussian
        ),
        "`SampledWithoutReplacementDpEvent` of one Laplace": dp_event.SampledWithoutReplacementDpEvent(
            1000, 10, laplace
        ),
        "`TruncatedSubsampledGaussianDpEvent`": dp_event.TruncatedSubsampledGaussianDpEvent(
            dataset_size=1000, sampling_probability=0.01, truncated_batch_size=20, noise_multiplier=2.0
        ),
        "`AccumulatedPoissonDpEvent`": AccumulatedPoissonDpEvent(0.01, 4, gaussian),
        "`RandomAllocationDpEvent`": RandomAllocationDpEvent(100, gaussian),
        "`MixtureOfGaussiansDpEvent`": dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1]),
        "`RandomizedResponseDpEvent`": dp_event.RandomizedResponseDpEvent(0.3, 2),
        "`DiscreteLaplaceDpEvent`": dp_event.DiscreteLaplaceDpEvent(0.02, 3),
        "`RepeatAndSelectDpEvent`": dp_event.RepeatAndSelectDpEvent(gaussian, 10.0, 1.0),
        "`NoOpDpEvent`": dp_event.ComposedDpEvent([dp_event.NoOpDpEvent(), gaussian]),
    }


def rows():
    """Rows of the table as the first cell and what it says of each relation."""
    lines = re.findall(r"^\| (`\w+DpEvent`.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def is_answered(event, relation, group_size):
    import dp_accounting

    accountant = hs.dp_accounting.ExactAccountant(dp_accounting.NeighboringRelation[relation], group_size)
    return accountant.supports(event)


def test_the_table_says_what_is_answered():
    table = rows()
    assert len(table) > 12
    for start, event in events().items():
        [(name, *cells)] = [row for row in table if row[0].startswith(start)]
        for relation, cell in zip(RELATIONS, cells, strict=True):
            found = tuple(is_answered(event, relation, size) for size in (1, 3))
            assert found == MEANINGS[cell], f"{name}, {relation}: the page says {cell!r}"
