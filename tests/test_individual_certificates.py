"""Certificates of single examples: proven by the checker, for a run that dominates the recorded one."""

from fractions import Fraction

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import IndividualAccountant
from hockeystick.accountants._individual import certifying
from hockeystick.accountants._individual.certifying import Step, coarsened, raised

RANDOM = np.random.default_rng(7)
DELTA = 1e-5


def run(accountant, norms, *, count=1, noise=1.0, draw=0.02):
    accountant.update_norms(norms)
    for _ in range(count):
        accountant.step(
            noise_multiplier=noise, **{"sample_rate" if isinstance(draw, float) else "sampling": draw}
        )
    return accountant


def followed(size, refreshes, *, max_grad_norm=1.0, count=10, **settings):
    accountant = IndividualAccountant(size, max_grad_norm, **settings)
    for norms in RANDOM.uniform(0.05, 1.0, (refreshes, size)):
        run(accountant, norms * max_grad_norm, count=count)
    return accountant


def at_most(certificate):
    (found,) = [claim["epsilon"] for claim in certificate.claims if "at_most" in claim]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("max_grad_norm", [1.0, 3.0])
def test_a_history_is_proven_as_it_was_recorded(max_grad_norm):
    accountant = followed(3, 20, max_grad_norm=max_grad_norm)
    for example, epsilon in enumerate(accountant.get_epsilons(DELTA)):
        certificate = accountant.certify(example, delta=DELTA)
        upper, lower = certificate.claims
        assert epsilon * (1 - 1e-8) <= upper["epsilon"] <= epsilon * (1 + 1e-6)
        assert lower["epsilon"] <= epsilon
        assert len(certificate.run["steps"]) == 20
        verified, lines = certificate.verify()
        assert verified, lines


def test_delta_is_certified_as_well():
    accountant = followed(2, 5)
    epsilon = accountant.get_epsilons(DELTA)[1]
    certificate = accountant.certify(1, epsilon=float(epsilon))
    assert certificate.claims[0]["at_most"] == pytest.approx(DELTA, rel=1e-4)
    assert certificate.verify()[0]


def test_norms_are_not_rounded_down_by_a_quotient():
    accountant = run(IndividualAccountant(1, 3.0), [0.1])
    (step,) = accountant.certify(0, delta=DELTA).run["steps"]
    assert step["group"]["norms"][0] > 0.1 / 3.0
    halves = run(IndividualAccountant(1, 2.0), [0.1])
    assert halves.certify(0, delta=DELTA).run["steps"][0]["group"]["norms"] == [0.05]


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, pytest.param(False, marks=pytest.mark.long)])
def test_long_histories_are_raised_to_few_levels(exact):
    accountant = followed(2, 200, count=5, exact=exact)
    certificate = accountant.certify(0, delta=DELTA)
    assert len(certificate.run["steps"]) == 64
    assert sum(step["count"] for step in certificate.run["steps"]) == len(accountant)
    assert [list(claim) for claim in certificate.claims] == [["epsilon", "at_most"]]
    assert certificate.verify()[0]
    if exact:
        epsilon = accountant.get_epsilons(DELTA)[0]
        assert epsilon <= at_most(certificate) <= 1.03 * epsilon


def test_the_full_norm_and_no_norm_are_proven():
    accountant = run(IndividualAccountant(3), [1.0, 0.0, 0.0], count=500)
    run(accountant, [1.0, 0.0, 0.5], count=10)
    whole = hs.get_epsilon(delta=DELTA, noise_multiplier=1.0, sample_rate=0.02, steps=510)
    assert at_most(accountant.certify(0, delta=DELTA)) == pytest.approx(whole, rel=1e-6)
    nothing = accountant.certify(1, delta=DELTA)
    assert at_most(nothing) < 1e-9
    assert nothing.verify()[0]
    some = accountant.certify(2, delta=DELTA)
    assert at_most(some) == pytest.approx(accountant.get_epsilons(DELTA)[2], rel=1e-5)
    assert some.verify()[0]


@pytest.mark.parametrize(("tiny", "count"), [(1e-7, 100), (5e-4, 100), (1e-4, 1_000)])
def test_tiny_norms_are_raised_until_the_checker_agrees(tiny, count):
    accountant = run(IndividualAccountant(2), [tiny, tiny], count=count)
    alone = accountant.certify(0, delta=DELTA)
    assert alone.verify()[0]
    assert accountant.get_epsilons(DELTA)[0] <= at_most(alone) < 0.01
    assert alone.run["steps"][0]["group"]["norms"][0] > tiny
    run(accountant, [0.5, 0.5], count=100)
    beside = accountant.certify(0, delta=DELTA)
    assert beside.verify()[0]
    assert at_most(beside) == pytest.approx(accountant.get_epsilons(DELTA)[0], rel=1e-2)
    assert all("at_most" in claim for claim in beside.claims)


@pytest.mark.slow
def test_curves_with_a_tiny_norm_are_certified():
    common = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
    tiny = hs.privacy_curve(group=hs.Group(norms=[2.0**-11]), **common)
    some = hs.privacy_curve(group=hs.Group(norms=[0.3]), **common)
    certificate = (tiny + some).certify(delta=DELTA)  # exponents above the largest float
    assert certificate.verify()[0]
    assert at_most(certificate) == pytest.approx((tiny + some).epsilon(DELTA), rel=1e-5)


def test_steps_of_full_batches_keep_tiny_norms():
    accountant = run(IndividualAccountant(1), [1e-4], count=10, draw=hs.FullBatch())
    certificate = accountant.certify(0, delta=1e-9)
    assert certificate.run["steps"][0]["group"]["norms"] == [1e-4]
    assert certificate.verify()[0]


def test_several_batches_under_one_noise_are_proven_as_they_are():
    accountant = run(IndividualAccountant(1), [0.5], count=300, draw=hs.Poisson(0.02, microbatches=2))
    certificate = accountant.certify(0, delta=DELTA)
    curve = hs.privacy_curve(
        noise_multiplier=1.0,
        sampling=hs.Poisson(0.02, microbatches=2),
        steps=300,
        group=hs.Group(norms=[0.5]),
    )
    assert at_most(certificate) == at_most(curve.certify(delta=DELTA))
    assert at_most(certificate) <= accountant.get_epsilons(DELTA)[0]
    assert certificate.verify()[0]


@pytest.mark.slow
def test_schedules_of_noise_are_covered():
    accountant = IndividualAccountant(1)
    for i in range(100):
        run(accountant, [0.3 + i / 200], noise=1.0 + i / 50, count=3)
    certificate = accountant.certify(0, delta=DELTA)
    assert len(certificate.run["steps"]) == 64
    epsilon = accountant.get_epsilons(DELTA)[0]
    assert epsilon <= at_most(certificate) <= 1.05 * epsilon
    assert certificate.verify()[0]


def test_shortened_histories_count_the_largest_norm(monkeypatch):
    monkeypatch.setattr("hockeystick.accountants._individual.norm_history.MAX_BYTES", 64)
    accountant = followed(2, 30)
    certificate = accountant.certify(0, delta=DELTA)
    assert len(certificate.run["steps"]) < 30
    assert sum(step["count"] for step in certificate.run["steps"]) == len(accountant)
    assert at_most(certificate) >= accountant.get_epsilons(DELTA)[0]
    assert [list(claim) for claim in certificate.claims] == [["epsilon", "at_most"]]
    assert certificate.verify()[0]


# ---- which steps are merged


def dominates(coarse, fine):
    """Whether some assignment of steps raises each: greedily, from the largest shifts on."""
    for draw in {step.draw for step in fine}:
        ends = [
            np.repeat(
                [step.shift for step in levels if step.draw == draw],
                [count for step, count in levels.items() if step.draw == draw],
            )
            for levels in (coarse, fine)
        ]
        if len(ends[0]) != len(ends[1]) or np.any(np.sort(ends[0]) < np.sort(ends[1])):
            return False
    return True


@pytest.mark.parametrize("most", [2, 5, 30, 64])
@pytest.mark.parametrize("noises", [1, 2, 200])
def test_fewer_levels_dominate_what_was_recorded(most, noises):
    draws = [0.01, hs.FullBatch()]
    levels = {}
    for i in range(200):
        step = Step(1.0 + (i % noises) / 7, draws[i % 2], float(RANDOM.uniform(0.0, 1.0)))
        levels[step] = levels.get(step, 0) + int(RANDOM.integers(1, 5))
    found = coarsened(levels, most)
    assert len(found) == most
    assert dominates(found, levels)
    assert set(found) <= set(levels)


def test_the_cheapest_merge_comes_first():
    levels = {Step(1.0, 0.01, norm): count for norm, count in [(0.1, 1), (0.2, 1), (0.9, 1), (0.95, 1)]}
    assert coarsened(levels, 3) == {
        Step(1.0, 0.01, 0.2): 2,
        Step(1.0, 0.01, 0.9): 1,
        Step(1.0, 0.01, 0.95): 1,
    }
    assert coarsened({**levels, Step(1.0, 0.01, 0.1): 100}, 3)[Step(1.0, 0.01, 0.95)] == 2
    assert coarsened(levels, 4) == levels


def test_one_noise_is_merged_before_two_are_mixed():
    levels = {Step(noise, 0.01, norm): 1 for noise in (1.0, 1.0001) for norm in (0.1, 0.9)}
    assert coarsened(levels, 2) == {Step(1.0, 0.01, 0.9): 2, Step(1.0001, 0.01, 0.9): 2}


def test_many_sample_rates_are_rounded_up():
    levels = {Step(1.0, float(rate), 0.5): 1 for rate in np.linspace(0.01, 0.1, 100)}
    found = coarsened(levels)
    assert len(found) == certifying.MOST_RATES
    given = np.sort([step.draw for step in levels])
    kept = np.sort(np.repeat([step.draw for step in found], list(found.values())))
    assert len(kept) == len(given)
    assert np.all(kept >= given)
    several = {
        Step(1.0, hs.Poisson(float(rate), microbatches=2), 0.5): 1 for rate in np.linspace(0.01, 0.1, 70)
    }
    with pytest.raises(hs.UnsupportedError, match="at most 64 different ways"):
        coarsened(several)


@pytest.mark.parametrize("noise", [0.0, 5e-324, 1e-200, 1e-5])
def test_steps_with_next_to_no_noise_are_not_merged_into_others_that_reveal_less(noise):
    little = Step(noise, 0.01, 1e-4)
    levels = {little: 1} | {Step(1 + i / 1000, 0.01, 0.10001 + i / 100): 1 for i in range(64)}
    found = coarsened(levels)
    assert len(found) == 64
    # Its norm over its noise, 10 or more, is the largest of all.
    assert found[little] == 1
    # Without noise no norm tells more than another, and a step that nobody is in tells nothing.
    without = {Step(noise, rate, norm): 1 for rate in (0.0, 0.01) for norm in (0.0, 0.1, 0.5)}
    assert coarsened(without, 2) == {Step(noise, 0.0, 0.5): 3, Step(noise, 0.01, 0.5): 3}


def test_equal_quotients_are_told_apart_by_their_exact_values():
    # 0.292 / 1.646 is the same float as the quotient of the two floats below these.
    one = Step(1.646, 0.01, 0.292)
    other = Step(float(np.nextafter(1.646, 0.0)), 0.01, float(np.nextafter(0.292, 0.0)))
    assert one.shift == other.shift
    smaller, larger = sorted((one, other), key=lambda step: Fraction(step.norm) / Fraction(step.noise))
    assert coarsened({larger: 1, smaller: 1}, 1) == {larger: 2}


def test_raising_a_shift_lowers_no_norm():
    # The shift is 0.05 with the noise that there is, and 0.0005 with noise of 0.001.
    levels = {Step(1e-5, 0.01, 5e-7): 1}
    assert raised(levels, certifying.TINY_SHIFTS[1]) == levels
    assert raised({Step(1e-5, 0.01, 1e-8): 1}, 2.0**-8) == {Step(1e-5, 0.01, 2.0**-8 * 1e-5): 1}


# ---- what is refused


def test_noise_below_what_the_checker_covers_is_refused_in_long_histories_too():
    accountant = run(IndividualAccountant(1), [1e-4], noise=1e-5, draw=0.01)
    for i in range(64):
        noise = 1 + i / 1000
        run(accountant, [(0.10001 + i / 100) * noise], noise=noise, draw=0.01)
    with pytest.raises(hs.UnsupportedError, match=r"noise of 0\.001 or more"):
        accountant.certify(0, delta=DELTA)


@pytest.mark.parametrize("draw", [hs.WithoutReplacement(2, 4)])
def test_fixed_batches_are_refused(draw):
    accountant = run(IndividualAccountant(4), [0.5] * 4, draw=draw)
    with pytest.raises(
        hs.UnsupportedError, match="no certificate of a single example with WithoutReplacement"
    ):
        accountant.certify(0, delta=DELTA)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"example": 2, "delta": DELTA}, ValueError, "example"),
        ({"example": -1, "delta": DELTA}, ValueError, "example"),
        ({"example": 0.5, "delta": DELTA}, ValueError, "example"),
        ({"example": "0", "delta": DELTA}, TypeError, "example"),
        ({"example": 0}, TypeError, "exactly one of delta and epsilon"),
        ({"example": 0, "delta": DELTA, "epsilon": 1.0}, TypeError, "exactly one of delta and epsilon"),
        ({"example": 0, "delta": 1.5}, ValueError, "delta"),
        ({"example": 0, "epsilon": -1.0}, ValueError, "epsilon"),
    ],
)
def test_bad_arguments_are_refused(given, error, message):
    accountant = run(IndividualAccountant(2), [0.5, 0.5])
    with pytest.raises(error, match=message):
        accountant.certify(**given)


def test_without_steps_there_is_nothing_to_certify():
    with pytest.raises(ValueError, match="steps must be at least 1"):
        IndividualAccountant(2).certify(0, delta=DELTA)


def test_the_accountant_stays_as_it_was():
    accountant = followed(2, 4)
    before = accountant.state_dict()
    accountant.certify(0, delta=DELTA)
    assert accountant.state_dict() == before
