"""Chains of added or removed records (V16): the curve of one record has to be that of every link."""

import math

import numpy as np
import pytest
from flint import ctx
from scipy.special import ndtr

import hockeystick as hs
from hockeystick._curves.lattice_witness import LatticeWitness
from hockeystick_verify import RefusedError, check, checker, claims

GAUSSIAN = {"name": "gaussian", "noise_multiplier": 1.0}
TRUNCATED = {"name": "truncated_poisson", "sample_rate": 0.5, "max_batch_size": 4, "dataset_size": 12}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::hockeystick.errors.WideIntervalWarning")]


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 128
    yield
    ctx.prec = before


def fixed(batch, records):
    return {"name": "without_replacement", "batch_size": batch, "dataset_size": records}


def run_of(sampling, way, size, count=1, mechanism=GAUSSIAN):
    step = {"mechanism": mechanism, "sampling": sampling, "group": {"size": size}, "count": count}
    return {"adjacency": way, "steps": [step]}


def chained(run, one, way, parts):
    """Upper end of delta at the sum of the parts, where `one` is the run of one record."""
    witness = LatticeWitness(one, way, max(parts), math.log(1e-7), min(parts)).find()
    split = [{"epsilon": part, "links": 1} for part in parts]
    chain = {"bits": witness["bits"], "method": "chain", "splits": [split], "one": witness}
    document = {
        "run": run,
        "claims": [{"epsilon": math.fsum(parts), "at_most": 1.0}],
        "witness": {way: chain},
    }
    return check(document)[0].upper


def delta_of_group(size, batch, records, way, epsilon):
    """Delta of one step with Gaussian noise 1, whose best test is a half line."""
    law = checker.hypergeometric(size, batch, records)
    shifts, weights = np.array([float(s) for s in law]), np.array([float(w) for w in law.values()])
    ends = np.linspace(-30.0, 40.0, 200_001)[:, None]
    mixed, alone = (weights * ndtr(shifts - ends)).sum(axis=1), ndtr(-ends[:, 0])
    if way == "add":  # the test is the half line below
        mixed, alone = 1 - alone, (weights * ndtr(ends - shifts)).sum(axis=1)
    return float((mixed - math.exp(epsilon) * alone).max())


def test_the_curve_of_one_record_is_that_of_the_smallest_data_set():
    def link(sampling, way, size):
        one, links = claims.single(run_of(sampling, way, size), way)
        assert links == size
        assert one["steps"][0]["group"] == {"size": 1}
        return one["steps"][0]["sampling"]

    for way in ("add", "remove"):
        assert link(fixed(4, 12), way, 8) == fixed(4, 5)
        assert link(fixed(4, 9), way, 8) == fixed(4, 4)
        assert link(fixed(4, 12), way, 1) == fixed(4, 12)
        for other in ({"name": "full_batch"}, {"name": "poisson", "sample_rate": 0.1}):
            assert link(other, way, 8) == other
        with pytest.raises(RefusedError, match="truncated samples"):
            link(TRUNCATED, way, 2)
        for batch, records in ((4, 7), (13, 12)):
            with pytest.raises(RefusedError, match="more records than the data set"):
                link(fixed(batch, records), way, 8)
    assert link(fixed(4, 12), "replace", 8) == fixed(4, 12)
    assert link(TRUNCATED, "replace", 8) == TRUNCATED


def test_chains_of_other_groups_or_neighbours_are_refused():
    run = run_of({"name": "full_batch"}, "remove", 2)
    other = run_of({"name": "full_batch"}, "remove", 3)
    with pytest.raises(RefusedError, match="one group in all steps"):
        claims.single({**run, "steps": run["steps"] + other["steps"]}, "remove")
    with pytest.raises(RefusedError, match="added, removed or replaced in all steps"):
        claims.chain(run, "mixed", {"one": {}, "splits": []}, [])


@pytest.mark.parametrize("way", ["add", pytest.param("remove", marks=pytest.mark.long)])
@pytest.mark.parametrize(("size", "batch", "records"), [(2, 1, 2), (2, 2, 5), (3, 2, 6)])
def test_chains_of_fixed_batches_are_above_the_group(way, size, batch, records):
    run = run_of(fixed(batch, records), way, size)
    one = run_of(fixed(batch, max(batch, records - size + 1)), way, 1)
    for part in (0.25, 0.75):
        truth = delta_of_group(size, batch, records, way, size * part)
        found = chained(run, one, way, [part] * size)
        assert truth <= found * (1 + 1e-6) + 1e-15
    # One record of the larger data set is in the batch less often: its loss, if it is added, has an end that
    # the group exceeds.
    end = -math.log1p(-batch / records) * 1.001
    if way == "add":
        short = run_of(fixed(batch, records), way, 1)
        (least,) = check(
            {
                "run": short,
                "claims": [{"epsilon": end, "at_most": 1.0}],
                "witness": {"add": LatticeWitness(short, way, end, math.log(1e-7)).find()},
            }
        )
        assert (
            size * math.exp(size * end) * least.upper
            < 1e-6
            < delta_of_group(size, batch, records, way, size * end)
        )


def test_dealt_records_beside_fixed_batches_are_a_chain_of_the_smallest_data_set():
    curve = sum_of(8, hs.WithoutReplacement(4, 60))
    certificate = curve.certify(delta=1e-3)
    assert certificate.verify()[0]
    (claim,) = certificate.claims
    assert claim["epsilon"] == pytest.approx(float(curve.epsilon(1e-3)), rel=2e-3)
    one = sum_of(1, hs.WithoutReplacement(4, 53))
    assert float(curve.epsilon(1e-3)) > float(sum_of(1, hs.WithoutReplacement(4, 60)).epsilon(1e-3)) * 8
    assert float(curve.epsilon(1e-3)) > float(one.epsilon(1e-3)) * 8


def sum_of(size, sampling):
    """Runs of dealt and of fixed batches, of which the record is removed."""
    more = {"noise_multiplier": 4.0, "group_size": size, "adjacency": "remove"}
    dealt = hs.privacy_curve(sampling=hs.RandomAllocation(20), steps=20, **more)
    return dealt + hs.privacy_curve(sampling=sampling, steps=5, **more)
