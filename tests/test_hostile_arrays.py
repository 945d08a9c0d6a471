"""Arrays that do not lie as Rust's must, numbers that no float64 holds, arguments too long for a message."""

import threading
import warnings

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import _core, kernels
from hockeystick.accountants import GroupAccountant, IndividualAccountant, MonteCarloAccountant


def unaligned(values):
    """Return the same numbers in a field of packed records."""
    array = np.asarray(values, dtype=np.float64)
    records = np.zeros(array.shape, dtype=[("flag", "u1"), ("value", "f8")])
    records["value"] = array
    assert not records["value"].flags.aligned
    return records["value"]


RUN = {"sample_rate": 0.01, "steps": 100}
ORDERS, RDP = np.array([2.0, 8.0, 32.0]), np.array([[0.1, 0.4, 2.0], [0.2, 0.9, 5.0]])
WEIGHTS, SHIFTS = np.array([0.9, 0.1]), np.array([0.0, 1.0])
QUESTIONS = {
    "get_epsilon": lambda of: hs.get_epsilon(delta=of([1e-5, 1e-6]), noise_multiplier=of([1.0, 2.0]), **RUN),
    "get_delta": lambda of: hs.get_delta(epsilon=of([0.1, 1.0]), noise_multiplier=1.0, **RUN),
    "get_steps": lambda of: hs.get_steps(
        epsilon=of([1.0, 2.0]), delta=1e-5, noise_multiplier=1.0, sample_rate=of([0.01, 0.02])
    ),
    "epsilon": lambda of: hs.privacy_curve(noise_multiplier=1.0, **RUN).epsilon(of([1e-5, 1e-6])),
    "renyi": lambda of: hs.privacy_curve(noise_multiplier=1.0, **RUN).renyi(of([2.0, 3.0])),
    "rdp_to_epsilon": lambda of: kernels.rdp_to_epsilon(of(ORDERS), of(RDP), 1e-5),
    "renyi_mixture": lambda of: kernels.renyi_mixture(
        of(ORDERS), of(WEIGHTS), of(SHIFTS), 1.0, direction="remove"
    ),
    "log_likelihood_ratio": lambda of: kernels.log_likelihood_ratio(
        of([0.1, 2.0]), of(WEIGHTS), of(SHIFTS), 1.0
    ),
    "hockey_stick": lambda of: kernels.hockey_stick(of([0.1, 2.0]), of([0.5])),
    "poisson_binomial_law": lambda of: kernels.poisson_binomial_law(of([0.1, 0.2]))[0],
    "group_rdp": lambda of: hs.renyi.group_rdp(hs.Gaussian(2.0), of(ORDERS), sample_rate=0.01, group_size=3),
    "from_points": lambda of: hs.TradeoffCurve.from_points(of([0.0, 0.3, 1.0]), of([1.0, 0.2, 0.0])).beta(
        0.1
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_fields_of_packed_records_give_the_same_answers(name):
    wanted, found = QUESTIONS[name](np.asarray), QUESTIONS[name](unaligned)
    assert np.array_equal(np.asarray(wanted), np.asarray(found))


def test_the_core_copies_what_is_not_aligned():
    wanted = _core.rdp_to_epsilon(ORDERS, RDP, np.full(2, 1e-5), "canonne")
    found = _core.rdp_to_epsilon(unaligned(ORDERS), unaligned(RDP), unaligned(np.full(2, 1e-5)), "canonne")
    assert np.array_equal(wanted, found)
    with pytest.raises(ValueError, match="aligned"):
        _core.accumulate_rdp(unaligned(np.zeros((1, 3))), np.ones(1), ORDERS, 1.0, 0.1, 1.0)


def test_accounts_in_packed_records_are_changed_in_place():
    norms, wanted, found = [0.3, 1.0], np.zeros((2, 3)), unaligned(np.zeros((2, 3)))
    for accounts in (wanted, found):
        kernels.accumulate_rdp(accounts, unaligned(norms), unaligned(ORDERS), 1.0, 0.1)
    assert np.array_equal(wanted, found)
    assert found.min() > 0.0


@pytest.mark.parametrize("value", [np.longdouble(10) ** 4000, [np.longdouble(10) ** 4000]])
def test_long_doubles_out_of_range_are_refused_without_a_warning(value):
    if np.finfo(np.longdouble).max <= np.finfo(np.float64).max:
        pytest.skip("long doubles are float64 here")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="noise_multiplier"):
            hs.get_epsilon(delta=1e-5, noise_multiplier=value, **RUN)


@pytest.mark.parametrize("split", [np.inf, -np.inf, np.nan, 1.5, 0, 2.0**70, 10**400])
def test_a_split_that_is_no_count_is_refused(split):
    with pytest.raises(ValueError, match="split"):
        hs.shuffle.upper_bound(hs.Shuffle(5, 50), noise_multiplier=20.0, epochs=2, split=split)


@pytest.mark.slow
def test_two_threads_on_one_array_get_an_answer_or_a_clear_error():
    rdp, errors = np.zeros((20_000, 50)), []
    orders, norms = np.linspace(1.5, 500.0, 50), np.random.default_rng(1).random(20_000)

    def work():
        for rate in (0.01, 0.02, 0.03):
            try:
                kernels.accumulate_rdp(rdp, norms, orders, 1.0, rate)
                kernels.rdp_to_epsilon(orders, rdp, 1e-5)
            except Exception as error:  # noqa: PERF203 -- each call of the loop may fail
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors, "threads did not meet"
    assert all(isinstance(error, ValueError) and "another thread" in str(error) for error in errors), errors[
        :3
    ]


LONG = "x" * 100_000
MANY = list(range(100_000))
REFUSED = {
    "adjacency": lambda: hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, adjacency=LONG, **RUN),
    "mechanism": lambda: hs.get_epsilon(delta=1e-5, mechanism=LONG, **RUN),
    "noise of text": lambda: hs.get_epsilon(delta=1e-5, noise_multiplier=LONG, **RUN),
    "sampling": lambda: hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sampling=MANY, steps=5),
    "group": lambda: hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, group=LONG, **RUN),
    "steps": lambda: hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.1, steps=[LONG]),
    "a long number": lambda: GroupAccountant(group_size=-(10**5000)),
    "history": lambda: setattr(GroupAccountant(), "history", [MANY]),
    "samples": lambda: MonteCarloAccountant(samples=LONG),
    "group_size": lambda: GroupAccountant(group_size=LONG),
    "direction": lambda: kernels.renyi_mixture(ORDERS, WEIGHTS, SHIFTS, 1.0, direction=LONG),
    "direction in the core": lambda: _core.renyi_mixture(ORDERS, WEIGHTS, SHIFTS, 1.0, LONG, False),
    "bound": lambda: hs.renyi.group_rdp(hs.Gaussian(2.0), 2.0, sample_rate=0.1, bound=LONG),
    "state": lambda: GroupAccountant().load_state_dict(
        {**GroupAccountant().state_dict(), "mechanism": ["x" * 100_000]}
    ),
    "split": lambda: hs.shuffle.upper_bound(hs.Shuffle(5, 50), noise_multiplier=1.0, epochs=2, split=LONG),
    "norms": lambda: IndividualAccountant(2).update_norms(LONG),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_do_not_repeat_a_long_argument(name):
    with pytest.raises((ValueError, TypeError)) as caught:
        REFUSED[name]()
    assert len(str(caught.value)) < 1000


def test_orders_beyond_all_digits_have_a_bound():
    laplace = hs.privacy_curve(mechanism=hs.Laplace(1.0), sample_rate=0.01, steps=10)
    # No divergence is above the largest loss.
    assert laplace.renyi(1.7e308) == pytest.approx(10 * np.log1p(0.01 * np.expm1(1.0)), rel=1e-12)
    gaussian = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=10)
    assert gaussian.renyi(1.7e308) == np.inf
    assert gaussian.renyi(1e4) == pytest.approx(10 * (5e3 + np.log(0.01) * 1e4 / (1e4 - 1.0)), rel=1e-9)


def test_next_to_no_noise_takes_no_memory():
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accountant = MonteCarloAccountant(2, samples=200)
    accountant.step(noise_multiplier=1e-17, sample_rate=0.1)
    # The larger member moves the mean by 2e17 standard deviations, so that epsilon is about 2e34.
    assert accountant.get_epsilon(1e-3) == pytest.approx(2e34, rel=1e-3)
    assert accountant.get_delta(1.0) >= 1.0 - 0.9**2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
