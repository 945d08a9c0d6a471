"""The accountant of single examples: exact and Rényi epsilons, norms, and what is a guarantee."""

import copy
import math
import os
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm as normal

import hockeystick as hs
from hockeystick import kernels
from hockeystick._vocabulary.sampling import UnaccountedSampling
from hockeystick.accountants import GroupAccountant, IndividualAccountant, _adaptors
from hockeystick.errors import WideIntervalWarning

NORMS = np.array([3e-4, 0.004, 0.05, 0.3, 0.77, 0.999])
DELTAS = (1e-3, 1e-5, 1e-8, 1e-12)
WIDTHS = {1e-3: 1e-9, 1e-5: 1e-9, 1e-8: 1e-8, 1e-12: 1e-6}
"""How far above the exact engine an epsilon may lie, relatively."""
FIXED = hs.WithoutReplacement(50, 1000)
SLOW = {"marks": pytest.mark.slow}


def run(accountant, *segments, norms=None):
    """Steps (noise multiplier, sampling, count), with `norms` from the first on."""
    if norms is not None:
        accountant.update_norms(norms)
    for noise, draw, count in segments:
        given = {"sample_rate": draw} if isinstance(draw, float) else {"sampling": draw}
        for _ in range(count):
            accountant.step(noise_multiplier=noise, **given)
    return accountant


def curve(norm, *segments):
    """The exact curve of an example with one norm, whose noise is that much larger for its gradient."""
    total = None
    for noise, draw, count in segments:
        given = {"sample_rate": draw} if isinstance(draw, float) else {"sampling": draw}
        shift = (1.0 + norm) / 2.0 if isinstance(draw, hs.WithoutReplacement) else norm
        part = hs.privacy_curve(noise_multiplier=noise / shift, steps=count, tolerance=1e-9, **given)
        total = part if total is None else total + part
    return total


def bounds(one, delta):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WideIntervalWarning)  # bounds all the same
        return one.bounds(delta=delta)


def assert_exact(epsilons, curves, delta, width):
    for epsilon, one in zip(epsilons, curves, strict=True):
        lower, upper = bounds(one, delta)
        assert lower <= epsilon <= upper * (1.0 + width) + 1e-300


@pytest.mark.parametrize(
    ("noise", "draw", "count"),
    [
        (1.0, 0.01, 500),
        (0.8, 0.004, 2000),
        (2.0, 0.3, 1000),
        (5.0, 0.9, 700),
        pytest.param(1.3, 1e-3, 10_000, marks=pytest.mark.slow),
        (20.0, hs.FullBatch(), 1000),
        (4.0, FIXED, 800),
    ],
)
def test_an_example_whose_norm_stays_has_the_epsilon_of_the_exact_engine(noise, draw, count):
    accountant = run(IndividualAccountant(6), (noise, draw, count), norms=NORMS)
    curves = [curve(norm, (noise, draw, count)) for norm in NORMS]
    for delta in DELTAS:
        assert_exact(accountant.get_epsilons(delta), curves, delta, WIDTHS[delta])


def test_a_small_delta_has_the_accuracy_that_is_promised():
    accountant = run(IndividualAccountant(1), (1.0, 0.01, 500), norms=[0.77])
    assert_exact(accountant.get_epsilons(1e-12), [curve(0.77, (1.0, 0.01, 500))], 1e-12, 1e-9)


@pytest.mark.parametrize("count", [1, 7, 40, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(("noise", "draw"), [(1.0, 0.01), (0.6, 0.2), (3.0, hs.FullBatch()), (2.5, FIXED)])
def test_after_a_few_steps_with_one_norm_it_still_has(noise, draw, count):
    accountant = run(IndividualAccountant(6), (noise, draw, count), norms=NORMS)
    curves = [curve(norm, (noise, draw, count)) for norm in NORMS]
    for delta in (1e-3, 1e-8):
        assert_exact(accountant.get_epsilons(delta), curves, delta, 2e-6)


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 3e-5, 2e-6])
def test_next_to_no_noise_ends_soon_and_with_the_epsilon_of_the_norm(noise):
    accountant = run(IndividualAccountant(6), (noise, 0.1, 1), norms=NORMS)
    found = accountant.get_epsilons(1e-5)
    for norm, epsilon in zip(NORMS, found, strict=True):
        assert epsilon == pytest.approx(curve(norm, (noise, 0.1, 1)).epsilon(1e-5), rel=2e-9)
    assert len(set(found)) == len(NORMS)


def test_who_is_hardly_ever_in_a_batch_has_no_epsilon():
    accountant = run(IndividualAccountant(6), (0.5, 1e-9, 900), norms=NORMS)
    assert not np.any(accountant.get_epsilons(1e-6))
    assert hs.get_epsilon(delta=1e-6, noise_multiplier=0.5, sample_rate=1e-9, steps=900) == 0.0


def test_an_epsilon_is_never_negative():
    noise, rate, norm = 3.6673640615261762, 0.0026962748606548055, 3.612823330117118e-4
    accountant = run(IndividualAccountant(4), (noise, rate, 1), norms=[norm, 0.222, 0.495, 0.042])
    assert np.all(accountant.get_epsilons(1e-6) >= 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4, 7, 10])
def test_random_runs_have_the_epsilons_of_the_exact_engine(seed):
    rng = np.random.default_rng(seed)
    noise, rate = float(10 ** rng.uniform(-0.2, 1.0)), float(10 ** rng.uniform(-3.5, -0.05))
    count, norms = int(10 ** rng.uniform(0, 4)), 10 ** rng.uniform(-3.5, 0, 4)
    accountant = run(IndividualAccountant(4), (noise, rate, count), norms=norms)
    curves = [curve(float(norm), (noise, rate, count)) for norm in norms]
    for delta in (1e-3, 1e-6, 1e-12):
        assert_exact(accountant.get_epsilons(delta), curves, delta, 2e-6)


def test_a_very_small_norm_has_its_own_epsilon():
    accountant = run(IndividualAccountant(1), (4.0, 0.015, 5000), norms=[1e-4])
    assert_exact(accountant.get_epsilons(1e-8), [curve(1e-4, (4.0, 0.015, 5000))], 1e-8, 1e-6)


@pytest.mark.parametrize("delta", DELTAS)
def test_norms_and_steps_that_change_compose(delta):
    first, second = [(1.0, 0.01, 400), (3.0, hs.FullBatch(), 20)], [(1.5, 0.03, 300), (1.0, 0.01, 50)]
    accountant = run(IndividualAccountant(6), *first, norms=NORMS)
    run(accountant, *second, norms=NORMS[::-1])
    curves = [curve(a, *first) + curve(b, *second) for a, b in zip(NORMS, NORMS[::-1], strict=True)]
    assert_exact(accountant.get_epsilons(delta), curves, delta, max(1e-8, WIDTHS[delta]))


@pytest.mark.parametrize(("noise", "draw"), [(1.0, 0.1), (0.8, 0.03), (2.0, 0.4), (4.0, FIXED)])
def test_a_hundred_steps_with_norms_that_shrink_are_exact(noise, draw):
    # More steps than those after which the exact engine is asked first.
    examples, refreshes, count = 60, 6, 18
    shrinking = np.random.default_rng(7).uniform(0.0, 1.5, size=examples)
    accountant = IndividualAccountant(examples)
    for t in range(refreshes):
        run(accountant, (noise, draw, count), norms=np.exp(-shrinking * t))
    epsilons = accountant.get_epsilons(1e-5)
    chosen = np.argsort(shrinking)[:: examples // 4]
    curves = []
    for i in chosen:
        parts = [curve(math.exp(-shrinking[i] * t), (noise, draw, count)) for t in range(refreshes)]
        curves.append(sum(parts[1:], start=parts[0]))
    assert_exact(epsilons[chosen], curves, 1e-5, 1e-9)


def one_step_delta(shift, rate, epsilon):
    """δ of one sampled Gaussian step: each direction by the output with that ratio of densities."""

    def masses_above(ratio):
        output = np.log((ratio - 1.0 + rate) / rate) / shift + 0.5 * shift
        alone, moved = normal.sf(output), normal.sf(output - shift)
        return (1.0 - rate) * alone + rate * moved, alone

    mixture, noise = masses_above(np.exp(epsilon))
    remove = mixture - np.exp(epsilon) * noise
    if np.exp(-epsilon) <= 1.0 - rate:
        return remove
    mixture, noise = masses_above(np.exp(-epsilon))
    return max(remove, 1.0 - noise - np.exp(epsilon) * (1.0 - mixture))


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.01), (1.0, 0.1), (2.0, 0.5)])
def test_a_single_step_has_its_closed_form_for_many_examples(noise, rate):
    # More examples than the exact engine is asked about after several steps: none gets a fallback.
    norms = np.minimum(np.exp(np.random.default_rng(1).normal(-1.0, 1.0, 400)), 1.0)
    accountant = run(IndividualAccountant(400), (noise, rate, 1), norms=norms)
    epsilons = accountant.get_epsilons(1e-5)
    for norm, epsilon in zip(norms, epsilons, strict=True):
        if epsilon == 0.0:
            assert one_step_delta(norm / noise, rate, 0.0) <= 1e-5
        elif norm < 1.0:
            assert one_step_delta(norm / noise, rate, epsilon) == pytest.approx(1e-5, rel=1e-7)


@pytest.mark.parametrize("count", [1, 4])
def test_few_steps_with_norms_of_their_own_are_exact(count):
    norms = np.random.default_rng(3).uniform(0.05, 0.95, (3, 40))
    accountant = IndividualAccountant(40)
    for row in norms:
        run(accountant, (0.8, 0.2, count), norms=row)
    epsilons = accountant.get_epsilons(1e-5)
    chosen = range(0, 40, 10)
    parts = [[curve(norm, (0.8, 0.2, count)) for norm in norms[:, i]] for i in chosen]
    assert_exact(epsilons[list(chosen)], [sum(part[1:], start=part[0]) for part in parts], 1e-5, 1.2e-7)


@pytest.mark.parametrize("count", [pytest.param(5, marks=pytest.mark.long), pytest.param(30, **SLOW)])
def test_after_few_steps_with_changing_norms_the_answer_is_an_upper_bound(count):
    accountant = run(IndividualAccountant(6), (1.0, 0.02, count), norms=NORMS)
    run(accountant, (1.0, 0.02, count), norms=NORMS[::-1])
    curves = [
        curve(a, (1.0, 0.02, count)) + curve(b, (1.0, 0.02, count))
        for a, b in zip(NORMS, NORMS[::-1], strict=True)
    ]
    for delta in DELTAS:
        worst = accountant.get_epsilon(delta)
        for epsilon, one in zip(accountant.get_epsilons(delta), curves, strict=True):
            assert bounds(one, delta)[0] <= epsilon <= worst


@pytest.mark.parametrize("exact", [True, False])
def test_no_example_has_more_than_the_worst_and_full_norms_have_just_that(exact):
    accountant = run(IndividualAccountant(4, exact=exact), (1.0, 0.02, 30), norms=[1.0, 5.0, 0.9999, 0.0])
    run(accountant, (2.0, FIXED if exact else 0.1, 3))
    for delta in (0.9, *DELTAS):
        epsilons = accountant.get_epsilons(delta)
        assert epsilons[0] == epsilons[1] == accountant.get_epsilon(delta)
        assert np.all(epsilons <= accountant.get_epsilon(delta))
    worst = GroupAccountant()
    worst.history = accountant.history
    assert accountant.get_epsilon(1e-5) == worst.get_epsilon(1e-5)
    assert accountant.get_delta(1.0) == worst.get_delta(1.0)


def rdp_by_formula(norm, order, noise, rate, steps):
    """The sum of the binomial theorem, as in Opacus."""
    v = (norm / noise) ** 2
    terms = (
        mp.binomial(order, j)
        * (1 - mp.mpf(rate)) ** (order - j)
        * mp.mpf(rate) ** j
        * mp.exp(j * (j - 1) * v / 2)
        for j in range(order + 1)
    )
    return float(steps * mp.log(mp.fsum(terms)) / (order - 1))


@pytest.mark.slow
@pytest.mark.parametrize("rounding", [None, 0.01])
def test_renyi_accounts_are_those_of_the_formula(rounding):
    orders, norms = list(range(2, 64)), np.array([0.0, 0.0112, 0.3, 0.455, 1.0])
    accountant = IndividualAccountant(5, orders=orders, exact=False, rounding=rounding)
    run(accountant, (1.1, 0.02, 40), norms=norms)
    run(accountant, (2.0, 0.05, 7), norms=norms[::-1])
    counted = norms if rounding is None else np.array([0.0, 0.02, 0.3, 0.46, 1.0])
    np.testing.assert_allclose(accountant.norms, counted[::-1], rtol=1e-15)
    with mp.workdps(30):
        expected = [
            [rdp_by_formula(a, o, 1.1, 0.02, 40) + rdp_by_formula(b, o, 2.0, 0.05, 7) for o in orders]
            for a, b in zip(counted, counted[::-1], strict=True)
        ]
    rdp = accountant.get_rdp()
    np.testing.assert_allclose(rdp, expected, rtol=2e-10)
    for delta in DELTAS:
        converted = kernels.rdp_to_epsilon(orders, expected, delta)
        worst = accountant.get_epsilon(delta)
        np.testing.assert_allclose(accountant.get_epsilons(delta), np.minimum(converted, worst), rtol=1e-9)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("rounding", [pytest.param(0.01, **SLOW), pytest.param(0.1, **SLOW), 0.3, 1 / 3])
def test_rounding_goes_up(exact, rounding):
    norms = np.random.default_rng(0).uniform(0, 1.2, 60)
    norms[:40] = np.arange(40) * rounding  # multiples, as well as division can tell
    plain = run(IndividualAccountant(60, exact=exact), (1.0, 0.02, 300), norms=norms)
    rounded = run(IndividualAccountant(60, exact=exact, rounding=rounding), (1.0, 0.02, 300), norms=norms)
    assert np.all(rounded.norms >= plain.norms)
    assert np.all(rounded.norms <= np.minimum(plain.norms + rounding * (1 + 1e-12), 1.0))
    for delta in (1e-5, 1e-12):
        assert np.all(rounded.get_epsilons(delta) >= plain.get_epsilons(delta) * (1 - 1e-9))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("limit", [1e-120, 0.1, 7.3, 1e120])
def test_norms_are_in_the_units_of_the_clipping_norm(exact, limit):
    one = run(IndividualAccountant(6, exact=exact), (1.0, 0.02, 600), norms=NORMS)
    other = run(IndividualAccountant(6, limit, exact=exact), (1.0, 0.02, 600), norms=NORMS * limit)
    np.testing.assert_allclose(other.get_epsilons(1e-5), one.get_epsilons(1e-5), rtol=1e-9)
    other.update_norms(np.full(6, 3 * limit))
    np.testing.assert_array_equal(other.norms, limit)


def test_only_the_named_examples_get_new_norms():
    accountant = IndividualAccountant(4)
    before = accountant.norms
    accountant.update_norms([0.2, 0.1], [3, 1])
    assert accountant.norms.tolist() == [1.0, 0.1, 1.0, 0.2]
    assert before.tolist() == [1.0] * 4
    accountant.update_norms([], [])
    assert accountant.norms.tolist() == [1.0, 0.1, 1.0, 0.2]
    with pytest.raises(ValueError, match="read-only"):
        accountant.norms[0] = 0.0
    given = np.array([0.1, 0.2, 0.3, 0.4])
    accountant.update_norms(given)
    given[:] = 0.0
    assert accountant.norms.tolist() == [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.1, -0.2, 0.3],), ValueError, r"norms.*-0\.2.*1"),
        (([0.1, 0.2, math.nan],), ValueError, "norms.*nan.*2"),
        (([math.inf, 0.2, 0.3],), ValueError, "norms.*inf.*0"),
        (([0.1, 0.2],), ValueError, "norms.*3 examples"),
        (([[0.1, 0.2, 0.3]],), ValueError, "norms"),
        ((["a", "b", "c"],), TypeError, "norms"),
        (([0.1, 0.2], [0, 3]), ValueError, "indices.*3"),
        (([0.1, 0.2], [0, -1]), ValueError, "indices"),
        (([0.1, 0.2], [1, 1]), ValueError, "indices.*once"),
        (([0.1, 0.2], [0, 0.5]), ValueError, "indices"),
        (([0.1, 0.2], [True, False]), TypeError, "indices"),
        (([0.1, 0.2], [[0, 1]]), ValueError, "indices"),
    ],
)
def test_bad_norms_are_refused_and_change_nothing(arguments, error, message):
    accountant = run(IndividualAccountant(3), (1.0, 0.1, 5), norms=[0.1, 0.2, 0.3])
    state = accountant.state_dict()
    with pytest.raises(error, match=message):
        accountant.update_norms(*arguments)
    assert accountant.state_dict() == state


def test_norms_of_every_step_make_a_guarantee_and_old_norms_an_estimate():
    accountant = IndividualAccountant(3)
    assert accountant.is_guarantee
    for _ in range(3):
        run(accountant, (1.0, 0.1, 1), norms=[0.1, 0.2, 0.0])
        assert accountant.is_guarantee
        accountant.get_epsilons(1e-5)
        accountant.state_dict()
    run(accountant, (1.0, 0.1, 1))
    assert not accountant.is_guarantee
    run(accountant, (1.0, 0.1, 1), norms=[0.1, 0.2, 0.3])
    assert not accountant.is_guarantee


def test_full_norms_and_individual_clipping_need_no_refresh():
    assert run(IndividualAccountant(3), (1.0, 0.1, 9)).is_guarantee
    assert run(IndividualAccountant(3), (1.0, 0.1, 9), norms=[1.0, 2.0, 9.0]).is_guarantee
    clipped = IndividualAccountant(3, individual_clipping=True)
    assert run(clipped, (1.0, 0.1, 9), norms=[0.1, 0.0, 0.5]).is_guarantee


@pytest.mark.parametrize("question", ["get_epsilons", "none"])
def test_one_stale_example_spoils_the_guarantee(question):
    accountant = run(IndividualAccountant(3), (1.0, 0.1, 1), norms=[0.1, 0.2, 0.3])
    accountant.update_norms([0.1, 0.2], [0, 1])
    if question == "get_epsilons":
        accountant.get_epsilons(1e-5)
    assert not run(accountant, (1.0, 0.1, 1)).is_guarantee
    whole = run(IndividualAccountant(3), (1.0, 0.1, 1), norms=[0.1, 0.2, 1.0])
    whole.update_norms([0.1], [0])
    whole.update_norms([0.2], [1])
    assert run(whole, (1.0, 0.1, 1)).is_guarantee


@pytest.mark.parametrize("exact", [True, False])
def test_no_step_no_noise_and_no_sampling_have_the_obvious_answers(exact):
    accountant = IndividualAccountant(3, exact=exact)
    assert accountant.get_epsilons(1e-5).tolist() == [0.0] * 3
    run(accountant, (1.0, 0.0, 5), (0.0, 0.0, 5), norms=[0.0, 0.5, 1.0])
    assert accountant.get_epsilons(1e-5).tolist() == [0.0] * 3
    run(accountant, (0.0, 0.01, 1))
    assert accountant.get_epsilons(1e-5).tolist() == [0.0, math.inf, math.inf]


def test_the_smallest_norms_have_an_epsilon():
    accountant = run(IndividualAccountant(2), (1.0, 0.01, 1), norms=[5e-324, 0.5])
    assert accountant.get_epsilons(1e-5)[0] <= 1e-9


BITS = """
import numpy as np
from hockeystick.accountants import IndividualAccountant
rng = np.random.default_rng(0)
for exact in (True, False):
    accountant = IndividualAccountant(20, exact=exact)
    for noise, rate in ((1.0, 0.02), (1.5, 0.02)):
        accountant.update_norms(rng.uniform(0.2, 1.1, 20))
        for _ in range(100):
            accountant.step(noise_multiplier=noise, sample_rate=rate)
    print(accountant.get_epsilons(1e-5).tobytes().hex())
"""


def test_the_number_of_threads_changes_no_bit():
    command, found = [sys.executable, "-c", BITS], set()
    for threads in ("1", "3"):
        environment = {**os.environ, "RAYON_NUM_THREADS": threads}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize("exact", [pytest.param(True, **SLOW), False])
def test_examples_may_stand_in_any_order(exact):
    rng = np.random.default_rng(1)
    norms, order = rng.uniform(0, 1.1, (3, 80)), rng.permutation(80)
    one, other = IndividualAccountant(80, exact=exact), IndividualAccountant(80, exact=exact)
    for row in norms:
        run(one, (1.0, 0.02, 80), norms=row)
        other.update_norms(row[order[::-1]], np.arange(80)[::-1])
        run(other, (1.0, 0.02, 80))
    np.testing.assert_array_equal(other.get_epsilons(1e-5), one.get_epsilons(1e-5)[order])


@pytest.mark.parametrize("exact", [True, False])
def test_what_is_printed_has_no_number_of_an_example(exact):
    accountant = run(IndividualAccountant(6, exact=exact), (1.0, 0.02, 300), norms=NORMS)
    private = [*accountant.get_epsilons(1e-5).tolist(), *accountant.norms.tolist()]
    for text in (repr(accountant), str(accountant), f"{accountant}"):
        numbers = re.findall(r"\d+\.\d+", text)
        assert not any(math.isclose(float(a), b, rel_tol=1e-2) for a in numbers for b in private)
        assert not any(f"{number:.5f}"[-5:] in text for number in private)


def test_the_history_is_a_copy_and_cannot_be_assigned():
    accountant = run(IndividualAccountant(2), (1.0, 0.1, 3), (2.0, FIXED, 2))
    assert accountant.history == [(1.0, 0.1, 3), (2.0, FIXED, 2)]
    accountant.history.clear()
    assert len(accountant) == 5
    with pytest.raises(ValueError, match="history"):
        accountant.history = []
    assert len(accountant) == 5


def test_the_hook_of_an_optimizer_steps():
    hooked, stepped = IndividualAccountant(2), IndividualAccountant(2)
    hook = hooked.get_optimizer_hook_fn(0.02)
    hook(SimpleNamespace(noise_multiplier=1.5, accumulated_iterations=4))
    # Four Poisson samples under one noise.
    stepped.step(noise_multiplier=1.5, sampling=hs.Poisson(0.02, microbatches=4))
    assert hooked.history == stepped.history
    assert hooked.state_dict() == stepped.state_dict()


def test_get_rdp_is_a_copy_and_only_for_renyi_accounts():
    accountant = run(IndividualAccountant(2, orders=[2.0], exact=False), (1.0, 0.1, 3))
    accountant.get_rdp()[:] = 0.0
    assert np.all(accountant.get_rdp() > 0.0)
    with pytest.raises(ValueError, match="exact"):
        IndividualAccountant(2).get_rdp()


def test_an_accountant_can_be_copied():
    accountant = run(IndividualAccountant(6), (1.0, 0.02, 300), norms=NORMS)
    assert copy.deepcopy(accountant).state_dict() == accountant.state_dict()


@pytest.mark.parametrize("exact", [True, False])
def test_steps_count_once_after_an_interruption_between_kinds_of_steps(exact, monkeypatch):
    def prepared():
        accountant = IndividualAccountant(2, exact=exact)
        accountant.update_norms([0.3, 0.7])
        for noise in (1.0, 2.0, 1.0):
            accountant.step(noise_multiplier=noise, sample_rate=0.1)
        return accountant

    accountant = prepared()
    kind = type(accountant._state.accounts)
    add = kind.add

    def interrupted(self, norms, noise_multiplier, draw, steps):
        if noise_multiplier == 2.0:
            raise KeyboardInterrupt
        add(self, norms, noise_multiplier, draw, steps)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            accountant.update_norms([0.1, 0.1])
    assert accountant.norms.tolist() == [0.3, 0.7]
    expected = prepared()
    for each in (accountant, expected):
        assert len(each) == 3
        each.step(noise_multiplier=1.0, sample_rate=0.1)
        each.update_norms([0.4, 0.2])
    assert accountant.get_epsilons(1e-5) == pytest.approx(expected.get_epsilons(1e-5), rel=1e-12)


def test_adaptors_record_steps_where_they_count():
    accountant = IndividualAccountant(2)
    _adaptors.record(accountant, 1.0, 0.1)
    _adaptors.record_equal_steps(accountant, 1.0, FIXED, 3)
    assert accountant.history == [(1.0, 0.1, 1), (1.0, FIXED, 3)]
    refused = UnaccountedSampling(0.1, "nobody knows how")
    with pytest.raises((TypeError, ValueError)):
        _adaptors.record(accountant, 1.0, refused)
    assert accountant.history == [(1.0, 0.1, 1), (1.0, FIXED, 3)]
