"""Accounts in partitions, whoever computes them: the bits of a single accountant."""

import numpy as np
import pytest
import zarr

import hockeystick as hs
from hockeystick import distributed, kernels
from hockeystick.accountants import IndividualAccountant

ORDERS = [1.5, 2.0, 8.0, 32.0]
STEPS = [(1.2, 0.02, 60), (1.5, hs.WithoutReplacement(5, 100), 3), (6.0, hs.FullBatch(), 1)]
NORMS = np.random.default_rng(1).uniform(0.0, 1.2, (40, 3))


def whole(exact, **settings):
    accountant = IndividualAccountant(len(NORMS), exact=exact, **settings)
    for norms, (noise, draw, count) in zip(NORMS.T, STEPS, strict=True):
        accountant.update_norms(norms)
        for _ in range(count):
            if isinstance(draw, float):
                accountant.step(noise_multiplier=noise, sample_rate=draw)
            else:
                accountant.step(noise_multiplier=noise, sampling=draw)
    return accountant


def test_rows_are_those_of_an_accountant():
    expected = whole(False, orders=ORDERS, max_grad_norm=0.9).get_rdp()
    settings = {"orders": ORDERS, "max_grad_norm": 0.9}
    np.testing.assert_array_equal(distributed.accumulate(NORMS, STEPS, **settings), expected)
    parts = [distributed.accumulate(NORMS[i : i + 7], STEPS, **settings) for i in range(0, 40, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    one = distributed.accumulate(NORMS[:, 0], STEPS[:1])
    assert one.shape == (40, 151)


def test_accumulated_batches_are_those_of_an_accountant():
    accountant = IndividualAccountant(len(NORMS), exact=False, orders=ORDERS)
    accountant.update_norms(NORMS[:, 0])
    accountant.step(noise_multiplier=1.2, sample_rate=0.02)
    accountant.update_norms(NORMS[:, 1])
    for _ in range(5):
        accountant.step(noise_multiplier=1.2, sampling=hs.Poisson(0.02, microbatches=3))
    steps = [(1.2, 0.02, 1), (1.2, hs.Poisson(0.02, microbatches=3), 5)]
    rows = distributed.accumulate(NORMS[:, :2], steps, orders=ORDERS)
    np.testing.assert_array_equal(rows, accountant.get_rdp())


def test_a_memory_map_is_filled_in_partitions(tmp_path):
    path = tmp_path / "accounts.npy"
    store = np.lib.format.open_memmap(path, "w+", np.float64, (len(NORMS), len(ORDERS)))
    for column, step in zip(NORMS.T, STEPS, strict=True):
        for start in range(0, len(NORMS), 16):
            part = store[start : start + 16]
            norms = column[start : start + 16]
            assert distributed.accumulate(norms, [step], orders=ORDERS, rdp=part) is part
    store.flush()
    np.testing.assert_array_equal(np.load(path), whole(False, orders=ORDERS).get_rdp())


def test_a_zarr_array_is_filled_in_partitions(tmp_path):
    shape, chunks = (len(NORMS), len(ORDERS)), (16, len(ORDERS))
    store = zarr.open(str(tmp_path / "accounts.zarr"), mode="w", shape=shape, chunks=chunks, dtype="f8")
    for column, step in zip(NORMS.T, STEPS, strict=True):
        for start in range(0, len(NORMS), 16):
            part = slice(start, start + 16)
            store[part] = distributed.accumulate(column[part], [step], orders=ORDERS, rdp=store[part])
    kept = zarr.open(str(tmp_path / "accounts.zarr"), mode="r")
    np.testing.assert_array_equal(kept[:], whole(False, orders=ORDERS).get_rdp())


@pytest.mark.parametrize(
    ("size", "exact"), [(40, True), pytest.param(9, True, marks=pytest.mark.slow), (40, False), (9, False)]
)
def test_accountants_of_partitions_merge_into_that_of_the_run(exact, size):
    parts = [distributed.account(NORMS[i : i + size], STEPS, exact=exact) for i in range(0, 40, size)]
    merged, single = distributed.merge(parts), whole(exact)
    assert merged.state_dict() == single.state_dict()
    assert merged.is_guarantee is single.is_guarantee is False
    np.testing.assert_array_equal(merged.get_epsilons(1e-5), single.get_epsilons(1e-5))


def test_one_step_a_refresh_is_a_guarantee():
    assert distributed.account(NORMS[:, :2], [(1.0, 0.1, 1)] * 2).is_guarantee
    assert distributed.account(np.ones((3, 2)), [(1.0, 0.1, 9)] * 2).is_guarantee
    assert distributed.account(NORMS[:, 0], [(1.0, 0.1, 9)], individual_clipping=True).is_guarantee


def changed(norms=NORMS, steps=STEPS, **others):
    return {"norms": norms, "steps": steps, **others}


@pytest.mark.parametrize("function", [distributed.accumulate, distributed.account])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (changed(norms=NORMS[:, :2]), ValueError, r"norms must have shape \(n, 3\).*got \(40, 2\)"),
        (changed(norms=NORMS[0, 0]), ValueError, "norms must have shape"),
        (changed(norms=-NORMS), ValueError, "norms"),
        (changed(norms=np.full((2, 3), np.nan)), ValueError, "norms"),
        (changed(norms="long"), TypeError, "norms"),
        (changed(steps=[(1.0, 0.1)]), ValueError, r"steps\[0\]"),
        (changed(steps=[*STEPS[:2], (1.0, 1.5, 1)]), ValueError, r"steps\[2\] sample_rate"),
        (changed(steps=[*STEPS[:2], (-1.0, 0.5, 1)]), ValueError, "noise_multiplier"),
        (changed(steps=[*STEPS[:2], (hs.Laplace(1.0), 0.5, 1)]), TypeError, "noise_multiplier"),
        (changed(steps=3), TypeError, "steps must be a list"),
        (changed(max_grad_norm=0.0), ValueError, "max_grad_norm"),
        (changed(orders=[0.5]), ValueError, "orders"),
    ],
)
def test_bad_input_is_refused(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(**arguments)


@pytest.mark.parametrize(
    "bad",
    [
        {"norms": np.vstack((NORMS[:39], [0.1, 0.1, -1.0]))},
        {"steps": [*STEPS[:2], (1.0, 2.0, 1)]},
        {"rdp": np.ones((39, 4))},
        {"rdp": np.ones((40, 4), dtype=np.float32)},
    ],
)
def test_accounts_stay_as_they_were_when_input_is_refused(bad):
    accounts = np.ones((40, len(ORDERS)))
    given = {"norms": NORMS, "steps": STEPS, "rdp": accounts} | bad
    with pytest.raises((ValueError, TypeError)):
        distributed.accumulate(**given, orders=ORDERS)
    np.testing.assert_array_equal(given["rdp"], 1.0)


def test_what_cannot_be_merged_is_refused():
    with pytest.raises(ValueError, match="accountants must be at least one accountant, got none"):
        distributed.merge([])
    with pytest.raises(TypeError, match="accountants must be IndividualAccountants, got a str"):
        distributed.merge([IndividualAccountant(1), "other"])
    with pytest.raises(TypeError, match="accountant must be an IndividualAccountant, got NoneType"):
        distributed.all_gather(None)
    with pytest.raises(ValueError, match="history of both must be the same"):
        distributed.merge([IndividualAccountant(1), distributed.account([0.1], [(1.0, 0.1, 1)])])


def test_nothing_is_merged_where_a_later_accountant_is_refused():
    parts = [distributed.account([norm], STEPS[:1]) for norm in (0.1, 0.5, 2.0)]
    parts.append(distributed.account([0.3], [(9.0, 0.5, 7)]))
    before = [part.state_dict() for part in parts]
    with pytest.raises(ValueError, match="history of both must be the same"):
        distributed.merge(parts)
    assert [part.state_dict() for part in parts] == before
    assert distributed.merge(parts[:3]).dataset_size == 3
    assert [part.state_dict() for part in parts] == before


def test_epsilons_of_rows_are_bounds_on_the_exact_ones():
    rows = distributed.accumulate(NORMS, STEPS)
    epsilons = kernels.rdp_to_epsilon(IndividualAccountant(1).orders, rows, 1e-5)
    assert np.all(epsilons >= distributed.account(NORMS, STEPS).get_epsilons(1e-5))
