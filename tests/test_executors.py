"""Work given to executors: the same bits as without, whoever does it, or an error that says what was lost."""

import multiprocessing
import os
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import _core, kernels
from hockeystick._executors import ATTEMPTS, IN_FLIGHT, ordered_map, slices
from hockeystick.accountants import IndividualAccountant, MonteCarloAccountant

LOSSES = kernels.binomial_law(2, 0.1)
DRAWING = {"samples": 2_000, "direction": "remove", "seed": 3}
STEPS = 40_000  # 26 samples a task: 77 tasks, three jobs


class Backwards(Executor):
    """Does what it was given last first, when the first answer is waited for."""

    def __init__(self):
        self.waiting = []
        self.done = 0

    def submit(self, function, /, *arguments, **named):
        future = Asked(self)
        self.waiting.append((future, function, arguments, named))
        return future

    def work(self):
        while self.waiting:
            future, function, arguments, named = self.waiting.pop()
            if future.set_running_or_notify_cancel():
                future.set_result(function(*arguments, **named))
                self.done += 1


class Asked(Future):
    def __init__(self, executor):
        super().__init__()
        self.executor = executor

    def result(self, timeout=None):
        self.executor.work()
        return super().result(timeout)


class Forgetful(Executor):
    """Loses each job as often as it is told to."""

    def __init__(self, losses, error=OSError):
        self.losses, self.error, self.seen = losses, error, {}

    def submit(self, function, /, *arguments, **named):
        job, future = repr(arguments[:2]), Future()
        self.seen[job] = self.seen.get(job, 0) + 1
        if self.seen[job] <= self.losses:
            future.set_exception(self.error("connection lost"))
        else:
            future.set_result(function(*arguments, **named))
        return future


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


def drawn(executor=None, **others):
    levels = [1.0, 20.0]
    return kernels.monte_carlo_delta(levels, *LOSSES, 1.0, STEPS, **DRAWING, **others, executor=executor)


@pytest.mark.slow
def test_monte_carlo_has_the_same_bits_by_any_executor(pool):
    alone = drawn()
    with ThreadPoolExecutor(3) as threads:
        for executor in (pool, threads, backwards := Backwards(), Forgetful(2)):
            np.testing.assert_array_equal(drawn(executor), alone)
    assert backwards.done > 2


@pytest.mark.slow
def test_sums_of_tasks_add_up_to_the_run_however_they_are_split():
    run = (1.0, [(*LOSSES, 1.0, STEPS)], False, 2_000, "remove", None, 3, 0.99)
    simulation = _core.Simulation(*run)
    tasks = simulation.tasks()
    assert tasks > 70
    assert simulation.samples_before(tasks) == 2_000
    whole = simulation.draw(0, tasks)
    for cut in (1, 40, tasks):
        parts = simulation.draw(0, cut), simulation.draw(cut, tasks)
        np.testing.assert_array_equal(np.hstack(parts), whole)
    with pytest.raises(ValueError, match="end"):
        simulation.draw(0, tasks + 1)


def test_a_run_without_anything_to_draw_needs_no_worker():
    run = {"samples": 5, "direction": "add", "seed": 0}
    for steps in (0, 3):
        args = (0.0, [1.0], [0.0], 1.0, steps)
        assert kernels.monte_carlo_delta(*args, **run, executor=Backwards()).upper == 0.0


def test_the_monte_carlo_accountant_has_the_same_bits(pool):
    answers = []
    for executor in (None, pool, Backwards()):
        accountant = MonteCarloAccountant(group_size=2, samples=1_000, executor=executor)
        for _ in range(20):
            accountant.step(noise_multiplier=1.0, sample_rate=0.05)
        answers.append((accountant.get_delta_interval(2.0), accountant.get_epsilon(1e-3)))
        assert "executor" not in repr(accountant.state_dict())
    assert answers[1] == answers[0] == answers[2]


def test_progress_counts_the_samples_that_workers_drew():
    seen = []
    drawn(Backwards(), progress=lambda *count: seen.append(count))
    assert seen[-1] == (4_000, 4_000)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


FUNCTIONS = [
    (hs.get_epsilon, {"delta": np.geomspace(1e-9, 1e-3, 150), "noise_multiplier": 1.0, "steps": 100}),
    (hs.get_delta, {"epsilon": 1.0, "noise_multiplier": [[1.0], [2.0]], "steps": 100}),
    (hs.get_noise_multiplier, {"epsilon": [1.0, 3.0], "delta": 1e-5, "steps": 50}),
    (hs.get_steps, {"epsilon": [1.0, 3.0], "delta": 1e-5, "noise_multiplier": 1.0}),
    (hs.get_group_size, {"epsilon": [3.0, 9.0], "delta": 1e-5, "noise_multiplier": 2.0, "steps": 50}),
]


@pytest.mark.parametrize(("function", "arguments"), FUNCTIONS)
@pytest.mark.parametrize("bounds", [False, True])
def test_sweeps_have_the_same_bits(pool, function, arguments, bounds):
    alone = function(**arguments, sample_rate=0.02, bounds=bounds)
    for executor in (pool, Backwards(), Forgetful(1)):
        shared = function(**arguments, sample_rate=0.02, bounds=bounds, executor=executor)
        np.testing.assert_array_equal(shared, alone)
        assert type(shared) is type(alone)


def test_a_sweep_for_the_sample_rate_has_the_same_bits(pool):
    target = {"epsilon": [1.0, 3.0], "delta": 1e-5, "noise_multiplier": 1.0, "steps": 50}
    np.testing.assert_array_equal(hs.get_sample_rate(**target, executor=pool), hs.get_sample_rate(**target))


def test_a_sweep_keeps_scalars_empty_arrays_and_groups():
    run = {"delta": 1e-5, "noise_multiplier": 1.0, "steps": 10}
    one = hs.get_epsilon(**run, sample_rate=0.1, executor=Backwards())
    assert isinstance(one, float)
    assert one == hs.get_epsilon(**run, sample_rate=0.1)
    empty = hs.get_epsilon(**run | {"delta": []}, sample_rate=0.1, executor=Backwards())
    assert empty.shape == (0,)
    group = {"group": hs.Group(size=2, norms=(0.5, 1.0)), "sample_rate": [0.1, 0.2]}
    found = hs.get_epsilon(**run, **group, executor=Backwards())
    np.testing.assert_array_equal(found, hs.get_epsilon(**run, **group))


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
def test_individual_epsilons_have_the_same_bits(monkeypatch, pool, exact):
    monkeypatch.setattr("hockeystick.accountants._individual.answers.SMALLEST_PART", 150)
    norms = np.random.default_rng(1).uniform(0.1, 1.0, (3, 300))
    accountant = IndividualAccountant(300, exact=exact)
    for row in norms:
        accountant.update_norms(row)
        for _ in range(50):
            accountant.step(noise_multiplier=1.0, sample_rate=0.05)
    alone = accountant.get_epsilons(1e-5)
    for executor in (pool, Backwards()):
        np.testing.assert_array_equal(accountant.get_epsilons(1e-5, executor=executor), alone)


def test_what_the_function_raises_is_raised_here_and_not_tried_again(pool):
    forgetful = Forgetful(0)
    for executor in (pool, forgetful):
        with pytest.raises(ValueError, match="noise_multiplier"):
            hs.get_epsilon(
                delta=1e-5, noise_multiplier=[1.0, -1.0], sample_rate=0.1, steps=1, executor=executor
            )
    assert set(forgetful.seen.values()) == {1}


@pytest.mark.parametrize(
    "ask",
    [
        lambda it: hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.1, steps=1, executor=it),
        drawn,
        lambda it: MonteCarloAccountant(executor=it),
        lambda it: IndividualAccountant(2).get_epsilons(1e-5, executor=it),
    ],
)
def test_what_is_no_executor_is_refused(ask):
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor, got int"):
        ask(4)


def test_a_job_is_submitted_again_until_it_was_lost_too_often():
    jobs = [(i,) for i in range(5)]
    for error in (OSError, CancelledError):
        executor = Forgetful(ATTEMPTS - 1, error)
        assert list(ordered_map(executor, abs, jobs)) == [0, 1, 2, 3, 4]
        assert set(executor.seen.values()) == {ATTEMPTS}
        with pytest.raises(RuntimeError, match=f"lost {ATTEMPTS} times.*connection lost"):
            list(ordered_map(Forgetful(ATTEMPTS, error), abs, jobs))


def test_a_process_that_dies_breaks_the_pool_with_a_clear_error():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        for _ in range(2):  # while it breaks, and when it is broken
            with pytest.raises(RuntimeError, match="a worker of the executor died"):
                list(ordered_map(executor, os._exit, [(1,)]))


def test_ctrl_c_cancels_what_has_not_begun():
    class Pressed(Backwards):
        def work(self):
            raise KeyboardInterrupt

    executor = Pressed()
    with pytest.raises(KeyboardInterrupt):
        list(ordered_map(executor, abs, [(i,) for i in range(1_000)]))
    assert len(executor.waiting) == IN_FLIGHT
    assert all(future.cancelled() for future, *_ in executor.waiting)


def test_parts_cover_all_elements_once():
    for length in (0, 1, 127, 128, 129, 5_000):
        parts = slices(length, 7, 30)
        assert [i for part in parts for i in range(length)[part]] == list(range(length))
        assert all(0 < part.stop - part.start <= 30 for part in parts)


class Spoiling(ThreadPoolExecutor):
    """Has workers that change one answer."""

    def __init__(self, spoil):
        super().__init__(1)
        self.spoil = spoil

    def submit(self, function, /, *arguments, **named):
        def spoiled():
            outcome = function(*arguments, **named)
            return self.spoil(outcome)

        return super().submit(spoiled)


def instead(change):
    return lambda outcome: outcome._replace(answer=change(outcome.answer))


def with_entry(value, end=1):
    def change(answer):
        ends = [each.copy() for each in answer]
        ends[end][0] = value
        return tuple(ends)

    return instead(change)


WRONG_BOUNDS = {
    "nan": (with_entry(np.nan), "nan"),
    "a negative number": (with_entry(-1.0, 0), "-1.0"),
    "ends the wrong way round": (with_entry(1e9, 0), "1000000000.0"),
    "one end": (instead(lambda answer: answer[0]), "must be"),
    "too few": (instead(lambda answer: tuple(each[:-1] for each in answer)), "shape"),
    "whole numbers": (instead(lambda answer: tuple(each.astype(int) for each in answer)), "int64"),
    "objects": (instead(lambda answer: tuple(each.astype(object) for each in answer)), "object"),
    "nothing": (instead(lambda answer: None), "None"),
    "text": (instead(lambda answer: "x" * 100_000), "xxx"),
    "no outcome": (lambda outcome: 3.0, "3.0"),
}


@pytest.mark.parametrize("spoilt", WRONG_BOUNDS)
def test_bounds_of_workers_that_cannot_be_are_named(spoilt):
    spoil, message = WRONG_BOUNDS[spoilt]
    accountant = IndividualAccountant(3)
    accountant.update_norms([0.1, 0.5, 0.7])
    for _ in range(20):  # a single step has a closed form, for which no worker is asked
        accountant.step(noise_multiplier=1.0, sample_rate=0.3)
    before = accountant.get_epsilons(1e-5)
    with Spoiling(spoil) as executor:
        run = {"noise_multiplier": [1.0, 2.0], "sample_rate": 0.01, "steps": 10, "executor": executor}
        questions = (
            lambda: hs.get_epsilon(delta=1e-5, **run),
            lambda: hs.get_delta(epsilon=1.0, **run),
            lambda: accountant.get_epsilons(1e-5, executor=executor),
        )
        for question in questions:
            with pytest.raises(RuntimeError, match="worker of the executor") as caught:
                question()
            assert message in str(caught.value)
            assert len(str(caught.value)) < 1000
    assert np.array_equal(accountant.get_epsilons(1e-5), before)


WRONG_SUMS = {
    "nan": (np.nan, 0, "nan"),
    "infinity": (np.inf, 0, "inf"),
    "a negative sum": (-1e-9, 0, "-1e-09"),
    "more than there are samples": (1e9, 0, "1000000000.0"),
    "squares above the sum": (1e3, 1, "1000.0"),
}


@pytest.mark.parametrize("spoilt", WRONG_SUMS)
def test_sums_of_workers_that_cannot_be_are_named(spoilt):
    value, column, message = WRONG_SUMS[spoilt]

    def change(answer):
        answer = answer.copy()
        answer[-1, column] = value
        return answer

    with Spoiling(instead(change)) as executor:
        with pytest.raises(RuntimeError, match="worker of the executor") as caught:
            drawn(executor)
        assert message in str(caught.value)
        accountant = MonteCarloAccountant(2, samples=200, executor=executor)
        accountant.history = [(1.0, 0.1, 40_000)]
        with pytest.raises(RuntimeError, match="worker of the executor"):
            accountant.get_delta(1.0)
