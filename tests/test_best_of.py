"""The best of a random number of runs, against integrals over its law and against dp-accounting."""

import math

import numpy as np
import pytest

import hockeystick as hs

SIGMA = 1.0
CURVE = hs.privacy_curve(noise_multiplier=SIGMA, sampling=hs.FullBatch(), steps=1)
LAWS = [
    hs.PoissonRuns(0.5),
    hs.PoissonRuns(3.0),
    hs.GeometricRuns(1.0),
    hs.GeometricRuns(4.0),
    hs.NegativeBinomialRuns(4.0, shape=0.0),
    hs.NegativeBinomialRuns(4.0, shape=2.5),
    hs.BinomialRuns(3.0, most=4),
    hs.BinomialRuns(2.0, most=2),
    hs.BinomialRuns(0.5, most=1),
]


NEAR_ONE = [
    hs.PoissonRuns(0.5),
    hs.PoissonRuns(1.0),
    hs.GeometricRuns(1.25),
    hs.NegativeBinomialRuns(1.25, shape=0.0),
    hs.NegativeBinomialRuns(1.25, shape=2.5),
    hs.BinomialRuns(1.0, most=4),
    hs.BinomialRuns(0.5, most=1),
]
"""Laws of few runs, where Gaussian noise and a score that grows with the output come near the bound."""


def derivative(runs, z):
    """φ'(z) from the probabilities of the law, summed one by one; by its formula for many runs."""
    if runs.mean > 5.0:
        return runs.mean * np.exp(runs.log_weight(1.0 - z))
    if isinstance(runs, hs.PoissonRuns):
        counts = np.arange(1, 60)
        logs = counts * math.log(runs.mean) - runs.mean - np.array([math.lgamma(k + 1) for k in counts])
        chances = np.exp(logs)
    elif isinstance(runs, hs.BinomialRuns):
        counts = np.arange(1, runs.most + 1)
        rate = runs.mean / runs.most
        chances = [math.comb(runs.most, k) * rate**k * (1 - rate) ** (runs.most - k) for k in counts]
    else:
        counts = np.arange(1, 150)
        keep, shape = 1.0 - runs.success, runs.shape
        if shape == 0.0:
            chances = keep**counts / counts
        else:
            logs = [math.lgamma(k + shape) - math.lgamma(k + 1) - math.lgamma(shape) for k in counts]
            chances = np.exp(np.array(logs) + counts * math.log(keep)) if keep > 1e-9 else 1.0 * (counts == 1)
        chances = chances / np.sum(chances)
    assert np.sum(counts * np.asarray(chances)) == pytest.approx(runs.mean, rel=1e-6)
    found = np.zeros_like(z)
    for count, chance in zip(counts, chances, strict=True):
        found += chance * count * z ** (count - 1)
    return found


def exact_deltas(runs, epsilons, sign):
    """Delta of the best run where larger outputs (sign 1) or smaller ones are better, by midpoints."""
    y = np.linspace(-10.0, 11.0, 20_001)
    y = 0.5 * (y[1:] + y[:-1])
    width = y[1] - y[0]

    def best(mean):
        density = np.exp(-0.5 * ((y - mean) / SIGMA) ** 2) / (SIGMA * math.sqrt(2 * math.pi))
        below = np.cumsum(density) * width - 0.5 * density * width
        return density * derivative(runs, np.clip(below if sign > 0 else 1.0 - below, 0.0, 1.0))

    one, other = best(1.0), best(0.0)
    pairs = ((one, other), (other, one))
    return [max(np.sum(np.maximum(p - math.exp(e) * q, 0.0)) * width for p, q in pairs) for e in epsilons]


@pytest.mark.parametrize("runs", [*LAWS, *NEAR_ONE], ids=repr)
def test_no_integral_is_above_the_bound_and_half_of_it_is_too_small(runs):
    best = CURVE.best_of(runs)
    epsilons = [0.0, 0.5, 2.0, 4.0]
    truth = np.maximum(exact_deltas(runs, epsilons, 1), exact_deltas(runs, epsilons, -1))
    bounds = best.delta(epsilons)
    assert np.all(truth <= bounds * (1 + 1e-4))  # of the midpoint rule
    if runs in NEAR_ONE:
        assert np.max(truth / bounds) > 0.5  # half of the bound would be below the truth


MANY = [
    hs.PoissonRuns(10.0),
    hs.GeometricRuns(10.0),
    hs.GeometricRuns(100.0),
    hs.GeometricRuns(1000.0),
    hs.NegativeBinomialRuns(100.0, shape=0.0),
    hs.NegativeBinomialRuns(100.0, shape=0.5),
    hs.BinomialRuns(20.0, most=40),
]
"""Laws of many runs, where no mechanism is known that comes near delta; epsilon is compared there."""


@pytest.mark.parametrize("runs", MANY, ids=repr)
def test_half_of_epsilon_is_too_small_for_many_runs(runs):
    delta = 1e-6
    bound = CURVE.best_of(runs).epsilon(delta)
    low, high = 0.0, bound
    for _ in range(12):
        middle = 0.5 * (low + high)
        found = max(exact_deltas(runs, [middle], sign)[0] for sign in (1, -1))
        low, high = (middle, high) if found > delta else (low, middle)
    assert high <= bound * (1 + 1e-4)
    assert low > 0.5 * bound
    assert low > CURVE.epsilon(delta)  # many runs reveal more than one


@pytest.mark.parametrize("runs", LAWS, ids=repr)
def test_epsilon_and_delta_are_inverse(runs):
    best = CURVE.best_of(runs)
    for delta in (1e-3, 1e-6, 1e-10):
        epsilon = best.epsilon(delta)
        assert best.delta(epsilon) <= delta * (1 + 1e-6)
        if best.bound_used(delta) == "profile":
            assert best.delta(epsilon * (1 - 1e-4)) > delta


def test_one_run_is_the_curve_and_more_runs_cost_more():
    once = CURVE.best_of(hs.GeometricRuns(1.0)).epsilon(1e-6)
    assert CURVE.epsilon(1e-6) <= once <= CURVE.epsilon(1e-6) * 1.001
    means = [1.0, 2.0, 10.0, 100.0, 1000.0]
    for law in (hs.GeometricRuns, hs.PoissonRuns):
        epsilons = [CURVE.best_of(law(mean)).epsilon(1e-6) for mean in means]
        assert np.all(np.diff(epsilons) > 0.0)


@pytest.mark.parametrize("runs", [hs.PoissonRuns(3.0), hs.GeometricRuns(20.0)], ids=repr)
def test_answers_do_not_depend_on_earlier_questions(runs):
    first = CURVE.best_of(runs)
    answers = first.epsilon(1e-5), first.delta(1.5)
    later = CURVE.best_of(runs)
    later.epsilon([1e-12, 1e-2])
    later.delta([0.1, 9.0])
    assert (later.epsilon(1e-5), later.delta(1.5)) == answers


def test_it_answers_arrays():
    best = CURVE.best_of(hs.PoissonRuns(3.0))
    assert best.epsilon([[1e-5, 1e-6]]).shape == (1, 2)
    assert best.epsilon([1e-5, 1e-6])[1] == best.epsilon(1e-6)
    assert best.get_epsilon(1e-6) == best.epsilon(1e-6)
    assert isinstance(best.delta(1.0), float)


def test_runs_without_noise_and_without_steps():
    nothing = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.1, steps=0).best_of(hs.PoissonRuns(3.0))
    assert nothing.epsilon(1e-6) < 1e-3  # the cells are not points
    bare = hs.privacy_curve(noise_multiplier=0.0, sample_rate=0.01, steps=10).best_of(hs.GeometricRuns(3.0))
    assert bare.epsilon(1e-6) == math.inf
    assert bare.delta(5.0) > hs.get_delta(epsilon=5.0, noise_multiplier=0.0, sample_rate=0.01, steps=10)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: hs.PoissonRuns(0.0), ValueError, "mean must be in"),
        (lambda: hs.PoissonRuns(math.nan), ValueError, "mean must be in"),
        (lambda: hs.GeometricRuns(0.5), ValueError, "mean must be in"),
        (lambda: hs.NegativeBinomialRuns(2.0, shape=-0.5), ValueError, "shape must be in"),
        (lambda: hs.BinomialRuns(3.0, most=2), ValueError, "at most most"),
        (lambda: hs.PoissonRuns("many"), TypeError, "mean"),
        (lambda: CURVE.best_of(10), TypeError, "PoissonRuns"),
        (lambda: CURVE.best_of(hs.PoissonRuns(2.0)).epsilon(0.0), ValueError, "delta must be in"),
        (lambda: CURVE.best_of(hs.PoissonRuns(2.0)).delta(-1.0), ValueError, "epsilon must be"),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_one_order_of_the_data_sets_is_not_enough():
    added = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.1, steps=3, adjacency="add")
    with pytest.raises(hs.UnsupportedError, match="both orders"):
        added.best_of(hs.PoissonRuns(2.0))


@pytest.mark.opacus
@pytest.mark.parametrize("mean", [1.0, 2.0, 10.0, 100.0])
def test_it_is_never_above_dp_accounting(mean):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    laws = {math.inf: hs.PoissonRuns(mean), 1.0: hs.GeometricRuns(mean)}
    laws |= {shape: hs.NegativeBinomialRuns(mean, shape=shape) for shape in (0.0, 0.5, 2.0)}
    sampled = {"sample_rate": 0.01, "steps": 1000}
    cases = []
    for sigma in (0.1, 1.0, 10.0):
        curve = hs.privacy_curve(noise_multiplier=sigma, sampling=hs.FullBatch(), steps=1)
        cases.append((curve, dp_event.GaussianDpEvent(sigma)))
    one = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    cases.append((hs.privacy_curve(noise_multiplier=1.0, **sampled), dp_event.SelfComposedDpEvent(one, 1000)))
    for curve, event in cases:
        for shape, runs in laws.items():
            theirs = RdpAccountant().compose(dp_event.RepeatAndSelectDpEvent(event, mean, shape))
            ours = curve.best_of(runs)
            for delta in (1e-3, 1e-6, 1e-10):
                assert ours.epsilon(delta) <= theirs.get_epsilon(delta) * (1 + 1e-9)
