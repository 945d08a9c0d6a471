"""Random allocation and fixed bins: references, limits, accountants and what is refused."""

import json
import math
import random

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

import hockeystick as hs
from hockeystick.accountants import GroupAccountant, IndividualAccountant


def epsilon(sampling, steps, *, noise=1.0, delta=1e-6, **others):
    lower, upper = hs.get_epsilon(
        delta=delta, noise_multiplier=noise, sampling=sampling, steps=steps, bounds=True, **others
    )
    assert 0.0 <= upper - lower <= 1e-6 * max(1.0, upper)
    return upper


@pytest.mark.parametrize(
    ("sampling", "steps", "noise", "delta", "expected", "digits"),
    [
        # Published brackets and values in ball arithmetic (batches of an epoch, fresh and fixed).
        (hs.RandomAllocation(2), 2, 1.0, 1e-3, 2.4957919, 1e-7),
        (hs.RandomAllocation(2), 2, 2.0, 1e-5, 1.4619453, 1e-7),
        (hs.RandomAllocation(10), 10, 1.0, 1e-6, 2.652405, 1e-6),
        (hs.RandomAllocation(100), 1000, 2.0, 1e-5, 0.6031, 5e-5),
        (hs.FixedBins(100), 1000, 2.0, 1e-5, 2.959, 5e-4),
    ],
)
def test_references_are_met(sampling, steps, noise, delta, expected, digits):
    found = epsilon(sampling, steps, noise=noise, delta=delta, tolerance=1e-8)
    assert found == pytest.approx(expected, abs=digits)


def test_bins_that_stay_for_many_epochs_are_the_full_batch_at_a_larger_threshold():
    """With little noise the batch of the record stands out: its likelihood ratio over t is that of all."""

    def curve(at):
        """N(10, 1) against N(0, 1): what a hundred releases of one batch say."""
        return ndtr(5.0 - at / 10.0) - np.exp(at + log_ndtr(-5.0 - at / 10.0))

    expected = brentq(lambda at: np.log(curve(at)) - np.log(1e-5), 50.0, 120.0, xtol=1e-12) - np.log(100.0)
    assert epsilon(hs.FixedBins(100), 10_000, delta=1e-5) == pytest.approx(expected, rel=1e-7)
    # Half of the batches are released once more.
    more = epsilon(hs.FixedBins(100), 10_050, delta=1e-5)
    assert expected < more < epsilon(hs.FixedBins(100), 10_100, delta=1e-5)


def test_one_batch_is_the_full_batch():
    full = hs.get_epsilon(delta=1e-6, noise_multiplier=3.0, sampling=hs.FullBatch(), steps=5)
    for one in (hs.RandomAllocation(1), hs.FixedBins(1)):
        assert epsilon(one, 5, noise=3.0) == pytest.approx(full, abs=1e-6)


def test_many_epochs_of_many_batches_are_near_poisson_sampling():
    dealt = epsilon(hs.RandomAllocation(1000), 200_000, noise=2.0)
    poisson = hs.get_epsilon(delta=1e-6, noise_multiplier=2.0, sample_rate=1e-3, steps=200_000)
    assert dealt == pytest.approx(poisson, rel=0.01)
    assert dealt != poisson


@pytest.mark.parametrize(
    ("batches", "noise", "epochs", "delta"),
    [(10**6, 5.0, 1, 1e-5), (10**6, 2.0, 100, 1e-20), (10**5, 2.0, 100, 1e-10)],
)
def test_removed_records_in_very_many_batches_are_near_the_central_limit(batches, noise, epochs, delta):
    run = {"delta": delta, "adjacency": "remove", "bounds": True}
    lower, upper = hs.get_epsilon(
        noise_multiplier=noise, sampling=hs.RandomAllocation(batches), steps=batches * epochs, **run
    )
    assert 0.0 <= upper - lower <= 1e-6 * upper
    # The mean of the likelihood ratios has the variance (e^v − 1)/t under Q, v = 1/noise².
    distance = math.sqrt(epochs * math.expm1(noise**-2) / batches)
    limit = hs.get_epsilon(noise_multiplier=1.0 / distance, sampling=hs.FullBatch(), steps=1, **run)[1]
    assert upper == pytest.approx(limit, rel=0.02)


@pytest.mark.parametrize(
    ("noise", "epochs", "delta", "adjacency"),
    [(0.3, 1, 1e-3, "remove"), (5.0, 10, 1e-10, "remove"), (5.0, 100, 1e-3, "add")],
)
def test_two_batches_have_narrow_intervals_for_little_and_much_noise(noise, epochs, delta, adjacency):
    run = {"delta": delta, "noise_multiplier": noise, "adjacency": adjacency, "bounds": True}
    lower, upper = hs.get_epsilon(sampling=hs.RandomAllocation(2), steps=2 * epochs, **run)
    assert 0.0 <= upper - lower <= 1e-6 * upper
    # Everybody sees the batch of each epoch.
    assert upper < hs.get_epsilon(sampling=hs.FullBatch(), steps=epochs, **run)[1]


@pytest.mark.parametrize(
    ("batches", "steps", "noise", "delta"),
    [
        (100, 50, 20, 1e-6),
        (4, 2, 23, 5e-9),
        (2, 2, 8, 5e-9),
        (10, 7, 60, 5e-9),
        (23, 2, 57.38, 6.1e-8),
        (7, 2, 66, 2e-8),
    ],
)
def test_few_batches_and_parts_of_epochs_with_much_noise_have_narrow_intervals(batches, steps, noise, delta):
    lower, upper = hs.get_epsilon(
        delta=delta,
        noise_multiplier=noise,
        sampling=hs.RandomAllocation(batches),
        steps=steps,
        adjacency="remove",
        bounds=True,
    )
    assert upper * (1 - 1e-6) < lower <= upper
    if steps == 2:
        exact = delta_of_two_batches(batches, noise, np.array([lower, upper]))
        assert exact[1] * (1 - 1e-8) <= delta <= exact[0] * (1 + 1e-8)


def delta_of_two_batches(batches, noise, epsilons):
    """E[(a + (Y1 + Y2)/t - e^epsilon)_+] for two batches of t: a sum over Y1, closed in Y2."""
    root = 1 / noise
    points = np.linspace(-14, 18, 400_001)
    first = np.exp(root * points - root**2 / 2)
    # What W exceeds e^epsilon by is small: it is formed without cancellation.
    needed = 1 + batches * np.expm1(epsilons)[:, None] + (1 - first)
    logs = np.log(np.maximum(needed, 1e-300))
    above = np.where(needed > 0, -logs / root + root / 2, np.inf)
    second = ndtr(above) - needed * ndtr(above - root)
    density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    return np.sum(second * density, axis=1) * (points[1] - points[0]) / batches


def test_epsilon_grows_with_epochs_and_falls_with_noise_and_batches():
    by_steps = [epsilon(hs.RandomAllocation(20), steps) for steps in (20, 27, 40, 200)]
    run = {"delta": 1e-6, "noise_multiplier": 1.0, "sampling": hs.RandomAllocation(20), "tolerance": 1e-4}
    by_steps.insert(0, hs.get_epsilon(steps=7, **run))
    assert by_steps == sorted(by_steps)
    by_noise = [epsilon(hs.RandomAllocation(20), 40, noise=noise) for noise in (0.6, 1.0, 2.0, 8.0)]
    assert by_noise == sorted(by_noise, reverse=True)
    by_batches = [epsilon(hs.RandomAllocation(batches), 2 * batches) for batches in (2, 5, 20, 100)]
    assert by_batches == sorted(by_batches, reverse=True)
    assert epsilon(hs.FixedBins(20), 60) > epsilon(hs.RandomAllocation(20), 60)


def test_removal_and_addition_are_the_two_directions():
    removed, added = (epsilon(hs.RandomAllocation(10), 10, adjacency=side) for side in ("remove", "add"))
    assert epsilon(hs.RandomAllocation(10), 10) == pytest.approx(max(removed, added), abs=1e-9)
    assert added < removed


def test_groups_and_several_batches_have_upper_bounds():
    run = {"noise": 2.0, "delta": 1e-5}
    by_size = [epsilon(hs.RandomAllocation(100), 1000, group_size=size, **run) for size in (1, 2, 4)]
    # For two and four members the values of an independent program.
    np.testing.assert_allclose(by_size, [0.6031, 1.2949, 2.8768], atol=6e-5)
    several = epsilon(hs.RandomAllocation(100, times=2), 1000, **run)
    assert several == pytest.approx(epsilon(hs.RandomAllocation(50), 1000, **run), abs=1e-5)
    curve = hs.privacy_curve(noise_multiplier=2.0, sampling=hs.RandomAllocation(9, times=3), steps=9)
    assert not curve.tight
    assert "RandomAllocation(9, times=3)" in str(curve)


def test_laplace_noise_is_between_poisson_sampling_and_the_full_batch():
    run = {"mechanism": hs.Laplace(2.0), "delta": 1e-6, "steps": 500, "tolerance": 1e-4}
    dealt = hs.get_epsilon(sampling=hs.RandomAllocation(50), **run)
    poisson = hs.get_epsilon(sample_rate=0.02, **run)
    full = hs.get_epsilon(sampling=hs.FullBatch(), **run | {"steps": 10})
    assert dealt < 0.7 * full
    assert dealt == pytest.approx(poisson, rel=0.15)
    curve = {"mechanism": hs.Laplace(2.0), "steps": 50}
    assert hs.privacy_curve(sampling=hs.RandomAllocation(50), **curve).tight
    assert not hs.privacy_curve(sampling=hs.RandomAllocation(50, times=2), **curve).tight
    # One batch is the full batch; several are blocks; noise and batches only help.
    one = hs.get_epsilon(sampling=hs.RandomAllocation(1), **run | {"steps": 3})
    assert one == pytest.approx(hs.get_epsilon(sampling=hs.FullBatch(), **run | {"steps": 3}), rel=1e-3)
    twice = hs.get_epsilon(sampling=hs.RandomAllocation(50, times=2), **run)
    assert twice == pytest.approx(hs.get_epsilon(sampling=hs.RandomAllocation(25), **run), rel=2e-3)
    by_batches = [
        hs.get_epsilon(sampling=hs.RandomAllocation(t), **run | {"steps": t}) for t in (1, 3, 30, 300)
    ]
    assert by_batches == sorted(by_batches, reverse=True)


def _laplace_epoch(scale, cells, released, batches):
    """Likelihood ratios of an epoch and their probabilities: those of a batch moved to the ends of cells."""
    low, high = np.exp(-1.0 / scale), np.exp(1.0 / scale)
    roots = np.sqrt(np.linspace(low, high, cells + 1))
    below, above = roots[:-1], roots[1:]
    mass = 0.5 * np.exp(-0.5 / scale) * (above - below) / (above * below)
    one = np.zeros(cells + 1)
    one[0], one[-1] = 0.5, 0.5 * low
    one[:-1] += mass * above / (above + below)
    one[1:] += mass * below / (above + below)
    length = 1 << (cells * released).bit_length()
    whole = np.fft.irfft(np.fft.rfft(one, length) ** released, length)[: cells * released + 1]
    ratios = batches - released + np.linspace(released * low, released * high, cells * released + 1)
    return ratios / batches, np.maximum(whole, 0.0)


def _extrapolated(deltas):
    """Value for cells of width 0, as their error falls with the square of the width, and its error."""
    first, second = (4.0 * deltas[1] - deltas[0]) / 3.0, (4.0 * deltas[2] - deltas[1]) / 3.0
    return second, abs(second - first) + 1e-12


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("adjacency", ["remove", "add"])
@pytest.mark.parametrize("epochs", [1, 2])
def test_laplace_intervals_hold_values_extrapolated_from_coarse_cells(adjacency, epochs):
    chance = random.Random(f"{adjacency} {epochs}")
    for _ in range(20 if epochs == 1 else 6):
        scale, batches = 10 ** chance.uniform(-0.3, 1.3), chance.randint(2, 40 if epochs == 1 else 20)
        released = batches if epochs == 2 else chance.randint(2, batches)
        epsilon, deltas = None, []
        for cells in (400, 800, 1600) if epochs == 1 else (20, 40, 80):
            ratios, masses = _laplace_epoch(scale, cells, released, batches)
            if epochs == 2:
                kept = masses > 1e-18
                ratios = np.multiply.outer(ratios[kept], ratios[kept])
                masses = np.multiply.outer(masses[kept], masses[kept])
            if epsilon is None:
                epsilon = chance.uniform(0.0, 3.5) * float(np.sqrt((masses * (ratios - 1.0) ** 2).sum()))
            gain = ratios - np.exp(epsilon) if adjacency == "remove" else 1.0 - np.exp(epsilon) * ratios
            deltas.append(float((masses * np.maximum(gain, 0.0)).sum()))
        value, error = _extrapolated(deltas)
        run = {"mechanism": hs.Laplace(scale), "sampling": hs.RandomAllocation(batches)}
        steps = released * epochs
        lower, upper = hs.get_delta(epsilon=epsilon, steps=steps, adjacency=adjacency, **run, bounds=True)
        assert lower - error <= value <= upper + error, (scale, batches, released, epsilon)
        if epochs == 1:
            assert upper - lower <= 5e-5 * upper + 1e-15


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
def test_chains_of_records_with_heavy_tails_fall_faster_than_gaussian_ones():
    """The tail of one record is heavy: equal links, and links of a Gaussian fall, have no epsilon."""
    run = {"noise_multiplier": 1.0, "sampling": hs.RandomAllocation(100), "steps": 1000}
    sizes = (7, 8, 9, 10)
    found = [hs.get_epsilon(delta=1e-5, group_size=size, **run) for size in sizes]
    assert found == sorted(found)
    one = hs.privacy_curve(**run)
    for size, epsilon in zip(sizes, found, strict=True):
        assert epsilon < 50.0
        # No chain is below the bound of its last link, and none above that of equal links.
        assert epsilon > size * one.epsilon(1e-5)
        assert hs.get_delta(epsilon=epsilon, group_size=size, **run) <= 1e-5


@pytest.mark.parametrize(
    ("sampling", "noise", "steps", "size", "most"),
    [
        (hs.RandomAllocation(600), 1.0, 60_000, 16, 82.1),
        (hs.RandomAllocation(600), 2.0, 60_000, 32, 53.3),
        (hs.RandomAllocation(100), 1.0, 1000, 24, 280.0),
        (hs.FixedBins(100), 3.0, 1000, 12, 29.9),
    ],
)
def test_chains_of_many_records_divide_epsilon_unevenly(sampling, noise, steps, size, most):
    # Parts that fall evenly had 13,481, 53.6, 3,203 and 133. No chain has less than as many single epsilons.
    run = {"delta": 1e-5, "noise_multiplier": noise, "sampling": sampling, "steps": steps}
    found = hs.get_epsilon(group_size=size, tolerance=1e-2, **run)
    assert size * hs.get_epsilon(**run) < found < most


def test_large_groups_are_bounded_by_a_chain_of_records():
    run = {"noise": 2.0, "delta": 1e-5}
    sizes = (1, 4, 6, 8, 16)
    found = [epsilon(hs.RandomAllocation(100), 1000, group_size=size, **run) for size in sizes]
    assert found == sorted(found)
    # Poisson sampling at the same rate is near; the chain of equal links is above.
    poisson = [
        hs.get_epsilon(delta=1e-5, noise_multiplier=2.0, sample_rate=0.01, steps=1000, group_size=size)
        for size in sizes
    ]
    np.testing.assert_allclose(found[:4], poisson[:4], rtol=0.08)
    settings = {"delta": 1e-5, "noise_multiplier": 2.0, "sampling": hs.RandomAllocation(100), "steps": 1000}
    for size, bound in zip(sizes, found, strict=True):
        if size > 6:
            assert bound <= hs.black_box.get_epsilon(group_size=size, **settings) * (1.0 + 1e-6)
    del settings["delta"]
    assert hs.privacy_curve(group_size=8, **settings).bound_used(delta=1e-5) == "chain"
    # Far tails are not computed to full accuracy: still a bound, below that of one release in one batch.
    crude = hs.get_epsilon(
        delta=1e-5, noise_multiplier=2.0, sampling=hs.FullBatch(), steps=10, group_size=32, tolerance=1e-3
    )
    assert found[-1] < hs.get_epsilon(delta=1e-5, group_size=32, tolerance=1e-2, **settings) <= crude * 1.01
    # Records in several batches, and bins that stay.
    twice = [
        epsilon(hs.RandomAllocation(20, times=2), 40, group_size=size, noise=3.0, delta=1e-5)
        for size in (1, 2, 3)
    ]
    assert 2.0 * twice[0] < twice[1] < twice[2]
    stay = {"delta": 1e-5, "noise_multiplier": 4.0, "sampling": hs.FixedBins(100), "steps": 200}
    bins = [hs.get_epsilon(group_size=size, tolerance=0.01, **stay) for size in (1, 6, 7, 12)]
    assert bins == sorted(bins)


def test_the_bound_of_a_large_group_is_above_its_estimate():
    run = {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(50), "steps": 100, "group_size": 10}
    for side in ("add", "remove"):
        level = 4.0
        found = hs.estimate_delta(epsilon=level, samples=20_000, seed=2, adjacency=side, **run)
        assert found.lower <= hs.get_delta(epsilon=level, adjacency=side, tolerance=1e-3, **run)


def test_curves_compose_with_others_where_epochs_are_whole():
    run = {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(50)}
    epoch = hs.privacy_curve(steps=50, **run)
    assert epoch * 4 == hs.privacy_curve(steps=200, **run)
    mixed = epoch + hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=100)
    assert mixed.epsilon(1e-6) > epoch.epsilon(1e-6)
    half = hs.privacy_curve(steps=25, **run)
    with pytest.raises(hs.UnsupportedError, match="whole"):
        half + half
    with pytest.raises(hs.UnsupportedError, match="bins"):
        hs.privacy_curve(noise_multiplier=2.0, sampling=hs.FixedBins(5), steps=5) * 2


def test_an_accountant_counts_batches_of_an_epoch():
    accountant = GroupAccountant()
    for _ in range(45):
        accountant.step(noise_multiplier=1.5, sampling=hs.RandomAllocation(20))
    expected = hs.get_epsilon(delta=1e-6, noise_multiplier=1.5, sampling=hs.RandomAllocation(20), steps=45)
    assert accountant.get_epsilon(1e-6) == expected
    loaded = GroupAccountant()
    loaded.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert loaded.get_epsilon(1e-6) == expected
    accountant.step(noise_multiplier=2.0, sampling=hs.RandomAllocation(20))
    with pytest.raises(hs.SamplingMismatchError, match="within an epoch"):
        accountant.get_epsilon(1e-6)
    assert len(accountant) == 46


def test_the_error_about_changing_noise_says_what_to_do():
    changed = [(2.0, hs.RandomAllocation(20), 30), (1.5, hs.RandomAllocation(20), 30)]
    accountant = GroupAccountant()
    accountant.history = changed
    with pytest.raises(hs.SamplingMismatchError, match="after a multiple of 20 steps") as caught:
        accountant.get_epsilon(1e-6)
    assert "smallest noise multiplier" in str(caught.value)
    ends = []
    # As the message says: earlier, later, and with the smallest noise in the epoch of both.
    for first, second in ((40, 20), (20, 40)):
        accountant.history = [(2.0, hs.RandomAllocation(20), first), (1.5, hs.RandomAllocation(20), second)]
        ends.append(accountant.get_epsilon(1e-6))
    assert ends[0] < ends[1]


def test_fixed_bins_are_one_release():
    accountant = GroupAccountant()
    for noise in (1.0, 2.0):
        accountant.step(noise_multiplier=noise, sampling=hs.FixedBins(5))
    with pytest.raises(hs.SamplingMismatchError, match=r"same bins.*smallest noise multiplier"):
        accountant.get_epsilon(1e-6)
    accountant.history = [(1.0, hs.FixedBins(5), 10)]
    assert accountant.get_epsilon(1e-6) > 0.0


def test_planning_and_words():
    run = {"epsilon": 2.0, "delta": 1e-5, "sampling": hs.RandomAllocation(100)}
    noise = hs.get_noise_multiplier(steps=1000, **run)
    assert (
        hs.get_epsilon(delta=1e-5, noise_multiplier=noise, sampling=hs.RandomAllocation(100), steps=1000)
        <= 2.0
    )
    assert (
        hs.get_epsilon(
            delta=1e-5, noise_multiplier=noise * 0.99, sampling=hs.RandomAllocation(100), steps=1000
        )
        > 2.0
    )
    explained = str(
        hs.explain(delta=1e-5, noise_multiplier=2.0, sampling=hs.RandomAllocation(100), steps=1000)
    )
    assert "RandomAllocation(100)" in explained
    assert "Poisson sampling, add or remove" in explained


@pytest.mark.slow
@pytest.mark.parametrize("members", [2, pytest.param(3, marks=pytest.mark.long)])
def test_groups_with_laplace_noise_are_bounded(members):
    run = {"mechanism": hs.Laplace(4.0), "delta": 1e-5, "tolerance": 1e-2}
    ten = run | {"steps": 500}
    one, group = (hs.get_epsilon(sampling=hs.RandomAllocation(50), group_size=k, **ten) for k in (1, members))
    full = hs.get_epsilon(sampling=hs.FullBatch(), group_size=members, **run | {"steps": 10})
    poisson = hs.get_epsilon(sample_rate=0.02, group_size=members, **ten)
    # The chain hides the batches of single records; Poisson samples of the same rate have a smaller epsilon.
    assert members * one < group < 0.7 * full
    assert poisson < group < 1.7 * poisson
    # In one batch all members move the same output: the bound is attained, so that less would be wrong.
    alone = hs.get_epsilon(sampling=hs.RandomAllocation(1), group_size=members, **run | {"steps": 3})
    known = hs.get_epsilon(sampling=hs.FullBatch(), group_size=members, **run | {"steps": 3})
    assert alone == pytest.approx(known, rel=1e-3)
    # Places of members count alike: two batches for each of them are twice the shift at most.
    twice = hs.get_epsilon(sampling=hs.RandomAllocation(2, times=2), group_size=members, **run | {"steps": 2})
    double = hs.get_epsilon(sampling=hs.FullBatch(), group_size=2 * members, **run | {"steps": 1})
    assert twice <= double * (1.0 + 1e-3)
    assert not hs.privacy_curve(
        sampling=hs.RandomAllocation(50), mechanism=hs.Laplace(4.0), steps=50, group_size=members
    ).tight


@pytest.mark.slow
@pytest.mark.parametrize("members", [1, pytest.param(2, marks=pytest.mark.long), 8])
def test_bins_that_stay_with_laplace_noise_are_taken_as_published(members):
    run = {"mechanism": hs.Laplace(20.0), "delta": 1e-5, "tolerance": 1e-4, "group_size": members}
    # Ten epochs, of which the last one is not complete: one output ten times, whatever batch it is.
    bins = hs.get_epsilon(sampling=hs.FixedBins(7), steps=64, **run)
    assert bins == pytest.approx(hs.get_epsilon(sampling=hs.FullBatch(), steps=10, **run), rel=2e-4)
    curve = hs.privacy_curve(
        sampling=hs.FixedBins(7), mechanism=hs.Laplace(20.0), steps=64, group_size=members
    )
    assert not curve.tight
    accountant = hs.accountants.GroupAccountant(group_size=members)
    accountant.step(mechanism=hs.Laplace(20.0), sampling=hs.FixedBins(7), steps=64)
    assert accountant.get_epsilon(1e-5) == pytest.approx(bins, rel=2e-4)


@pytest.mark.parametrize(
    ("sampling", "steps", "order", "expected"),
    [
        # Of the checker, in ball arithmetic: `privacy_curve(...).certify(order=...)`.
        (hs.RandomAllocation(10), 30, 32, 5.104469311434518),
        (hs.RandomAllocation(10), 34, 32, 6.776394295144775),
        (hs.RandomAllocation(10), 30, 300, 105.59224472101785),
        (hs.FixedBins(10), 30, 8, 0.7776142970720755),
        (hs.FixedBins(10), 30, 300, 110.19741490700595),
    ],
)
def test_divergences_of_large_orders_are_close_to_those_of_the_checker(sampling, steps, order, expected):
    curve = hs.privacy_curve(noise_multiplier=2.0, sampling=sampling, steps=steps)
    found = float(curve.renyi(order))
    assert expected <= found <= expected * (1 + 1e-9)


@pytest.mark.parametrize("group_size", [1, 3])
@pytest.mark.parametrize(
    "sampling", [hs.RandomAllocation(10), hs.FixedBins(10), hs.RandomAllocation(10, times=2)]
)
def test_divergences_of_large_orders_are_below_those_of_known_batches(sampling, group_size):
    curve = hs.privacy_curve(noise_multiplier=2.0, sampling=sampling, steps=30, group_size=group_size)
    orders = np.array([2.0, 3.5, 8.0, 31.0, 63.5, 300.0, 1024.0, 1500.5, 1e4])
    found = curve.renyi(orders)
    times = getattr(sampling, "times", 1)
    known = orders * group_size**2 * times * 3 / 8
    assert np.all(np.isfinite(found))
    assert np.all(found <= known * (1 + 1e-12))
    assert np.all(np.diff(found) > 0)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"adjacency": "replace"}, hs.UnsupportedError, "records replaced"),
        (
            {"mechanism": hs.RandomizedResponse(0.7), "noise_multiplier": None},
            hs.UnsupportedError,
            "andomi[sz]ed",
        ),
        (
            {
                "mechanism": hs.Laplace(1.0),
                "noise_multiplier": None,
                "sampling": hs.FixedBins(10),
                "adjacency": "replace",
            },
            hs.UnsupportedError,
            "replaced",
        ),
        ({"group": hs.Group(norms=(1.0, 0.5))}, hs.UnsupportedError, "norms"),
    ],
)
def test_what_has_no_proof_is_refused(arguments, error, words):
    run = {"delta": 1e-6, "noise_multiplier": 1.0, "sampling": hs.RandomAllocation(10), "steps": 10}
    with pytest.raises(error, match=words):
        hs.get_epsilon(**run | arguments)


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("noise", [1e-12, 1e-3, 0.1, 0.3])
@pytest.mark.parametrize("sampling", [hs.RandomAllocation(100), hs.FixedBins(100)])
def test_little_noise_has_the_bound_of_known_batches(noise, sampling):
    run = {"delta": 1e-6, "noise_multiplier": noise, "steps": 150, "bounds": True}
    lower, upper = hs.get_epsilon(sampling=sampling, **run)
    # Everybody sees the batch of each of the two epochs.
    known = hs.get_epsilon(sampling=hs.FullBatch(), **run | {"steps": 2})
    assert 0.0 <= lower <= upper <= known[1] * (1.0 + 1e-5)


def test_bad_numbers_of_batches_are_named():
    for batches, times in [(0, 1), (-1, 1), (2**40 + 1, 1), (10, 0), (10, 11)]:
        with pytest.raises(ValueError, match=r"batches|times"):
            hs.RandomAllocation(batches, times=times)
    with pytest.raises(ValueError, match="batches"):
        hs.FixedBins(0)
    with pytest.raises(hs.UnsupportedError, match="GroupAccountant"):
        IndividualAccountant(10).step(noise_multiplier=1.0, sampling=hs.RandomAllocation(10))
