"""A real cluster of processes: the bits of one process, also when a worker is killed in the middle."""

import os
import signal
import threading
import time

import dask
import dask.array as da
import dask_jobs
import distributed as dask_distributed
import numpy as np
import pytest
from dask_jobs import STEPS, norms_block, norms_of

import hockeystick as hs
from hockeystick import distributed, kernels
from hockeystick._executors import ordered_map
from hockeystick.accountants import IndividualAccountant

pytestmark = pytest.mark.distributed

EXAMPLES, PART = 3_000, 500
ORDERS = [2.0, 4.0, 8.0, 16.0, 32.0]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    place = str(tmp_path_factory.mktemp("dask"))
    with (
        dask.config.set({"temporary-directory": place, "distributed.worker.daemon": True}),
        dask_distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        dask_distributed.Client(cluster) as client,
    ):
        yield client


def norms(examples=EXAMPLES, part=PART):
    return da.map_blocks(
        norms_block, chunks=((part,) * (examples // part), (len(STEPS),)), dtype=float, meta=np.empty((0, 0))
    )


def kill_a_worker(client):
    """End one worker as a crash would, and return its process number."""
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    return victim


def killed_after(marker, client):
    """Start a thread that kills a worker when `marker` is there."""
    killed = []

    def wait_and_kill():
        while not marker.exists():
            time.sleep(0.005)
        killed.append(kill_a_worker(client))

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread, killed


def test_monte_carlo_has_the_bits_of_one_process(client):
    weights, shifts = kernels.binomial_law(2, 0.1)
    run = {"samples": 4_000, "direction": "remove", "seed": 3}
    alone = kernels.monte_carlo_delta(1.0, weights, shifts, 1.0, 40_000, **run)
    shared = kernels.monte_carlo_delta(
        1.0, weights, shifts, 1.0, 40_000, **run, executor=client.get_executor()
    )
    assert shared == alone


def test_sweeps_and_individual_epsilons_have_the_bits_of_one_process(monkeypatch, client):
    monkeypatch.setattr("hockeystick.accountants._individual.answers.SMALLEST_PART", 200)
    executor = client.get_executor()
    sweep = {"delta": [1e-7, 1e-5], "noise_multiplier": [[1.0], [2.0]], "sample_rate": 0.01, "steps": 50}
    np.testing.assert_array_equal(hs.get_epsilon(**sweep, executor=executor), hs.get_epsilon(**sweep))
    accountant = distributed.account(norms_of(0, 600)[:, 0], [(1.0, 0.05, 500)])
    np.testing.assert_array_equal(
        accountant.get_epsilons(1e-5, executor=executor), accountant.get_epsilons(1e-5)
    )


def test_a_worker_killed_in_the_middle_changes_nothing(client, tmp_path):
    marker = tmp_path / "begun"
    thread, killed = killed_after(marker, client)
    jobs = [(number, str(marker)) for number in range(60)]
    found = list(ordered_map(client.get_executor(), dask_jobs.slow_square, jobs))
    thread.join()
    assert killed
    assert found == [number * number for number in range(60)]


def test_monte_carlo_survives_a_killed_worker(client):
    weights, shifts = kernels.binomial_law(2, 0.1)
    run = {"samples": 8_000, "direction": "remove", "seed": 4}
    alone = kernels.monte_carlo_delta(1.0, weights, shifts, 1.0, 40_000, **run)
    killed = []

    def kill_once(done, total):
        if 0 < done < total and not killed:
            killed.append(kill_a_worker(client))

    executor = client.get_executor()
    shared = kernels.monte_carlo_delta(
        1.0, weights, shifts, 1.0, 40_000, **run, progress=kill_once, executor=executor
    )
    assert killed
    assert shared == alone


def test_a_job_that_kills_its_worker_is_done_by_another(client, tmp_path):
    flags = [(str(tmp_path / str(number)),) for number in range(2)]
    assert list(ordered_map(client.get_executor(), dask_jobs.die_once, flags)) == [None, None]


def test_a_dask_array_of_norms_becomes_one_of_accounts(client):
    lazy = distributed.accumulate(norms(), STEPS, orders=ORDERS)
    assert lazy.shape == (EXAMPLES, len(ORDERS))
    assert lazy.chunks[0] == (PART,) * (EXAMPLES // PART)
    expected = distributed.accumulate(norms_of(0, EXAMPLES), STEPS, orders=ORDERS)
    np.testing.assert_array_equal(lazy.compute(), expected)
    by_columns = distributed.accumulate(norms().rechunk({1: 1}), STEPS, orders=ORDERS)
    np.testing.assert_array_equal(by_columns.compute(), expected)
    vector = distributed.accumulate(norms()[:, 0], STEPS[:1], orders=ORDERS)
    np.testing.assert_array_equal(
        vector.compute(), distributed.accumulate(norms_of(0, EXAMPLES)[:, 0], STEPS[:1], orders=ORDERS)
    )
    with pytest.raises(ValueError, match="rdp must be None with a Dask array"):
        distributed.accumulate(norms(), STEPS, orders=ORDERS, rdp=expected)


def test_accountants_of_partitions_merge_into_that_of_one_process(client):
    starts = range(0, EXAMPLES, PART)
    parts = [client.submit(norms_of, start, start + PART) for start in starts]
    accounts = client.gather([client.submit(distributed.account, part, STEPS) for part in parts])
    single = distributed.account(norms_of(0, EXAMPLES), STEPS)
    assert distributed.merge(accounts).state_dict() == single.state_dict()


@pytest.mark.long
def test_ten_million_examples_need_the_memory_of_a_few_partitions(client):
    part, examples = 50_000, 10_000_000
    before = max(client.run(dask_jobs.peak_memory).values())
    rows = distributed.accumulate(norms(examples, part), STEPS)
    orders = IndividualAccountant(1).orders
    epsilons = rows.map_blocks(
        lambda block: kernels.rdp_to_epsilon(orders, block, 1e-5), drop_axis=1, dtype=float
    )
    largest, mean = da.compute(epsilons.max(), epsilons.mean())
    after = max(client.run(dask_jobs.peak_memory).values())
    # A partition's accounts, a second copy on the way to epsilons, and what else a worker holds: not 12 GB.
    assert after - before < 6 * part * len(orders) * 8 / 2**20
    sample = distributed.account(norms_of(0, 20_000), STEPS, exact=False)
    assert mean == pytest.approx(sample.get_epsilons(1e-5).mean(), rel=1e-2)
    assert largest <= kernels.rdp_to_epsilon(orders, distributed.accumulate([[1.0] * 3], STEPS), 1e-5)[0]
