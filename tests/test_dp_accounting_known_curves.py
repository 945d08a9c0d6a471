"""Events that are no noisy sums: their curves against sums over all outcomes, alone and composed."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting_events import event, exact, gaussian, peer, poisson

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

FIELDS = {
    "EpsilonDeltaDpEvent": "epsilon delta",
    "DiscreteGaussianDpEvent": "sigma sensitivity dimension",
    "ExponentialMechanismDpEvent": "epsilon",
    "PermuteAndFlipDpEvent": "epsilon",
}
"""Events of dp-accounting's repository that 0.6 does not have, with their fields."""


@pytest.fixture(autouse=True)
def later_events(monkeypatch):
    """Have the events of later releases, as those declare them."""
    import attr
    import dp_accounting as dpa

    for name, fields in FIELDS.items():
        if not hasattr(dpa.dp_event, name):
            made = attr.make_class(name, fields.split(), bases=(dpa.dp_event.DpEvent,), frozen=True)
            monkeypatch.setattr(dpa.dp_event, name, made, raising=False)


def delta_of(losses, masses, epsilon):
    return float(np.sum(masses * -np.expm1(np.minimum(epsilon - losses, 0.0))))


def composed(losses, masses, times):
    """Sums of all losses, each with the probability under the first law."""
    sums, chances = np.zeros(1), np.ones(1)
    for _ in range(times):
        sums = (sums[:, None] + losses).ravel()
        chances = (chances[:, None] * masses).ravel()
        whole, places = np.unique(np.round(sums, 9), return_inverse=True)
        sums, chances = whole, np.bincount(places.ravel(), chances)
    return sums, chances


def close(found, expected, **limits):
    """Whether a bound is at least the value, and not much more."""
    limits = {"rel": 1e-6, "abs": 1e-10, **limits}
    return expected * (1 - 1e-9) - 1e-13 <= found <= expected * (1 + limits["rel"]) + limits["abs"]


def discrete_laplace(parameter, distance):
    x = np.arange(-400, 401 + distance)
    masses = math.tanh(0.5 * parameter) * np.exp(-parameter * np.abs(x))
    return parameter * (np.abs(x - distance) - np.abs(x)), masses


def discrete_gaussian(sigma, distance):
    x = np.arange(-400, 401)
    masses = np.exp(-0.5 * (x / sigma) ** 2)
    return distance * (distance - 2.0 * x) / (2.0 * sigma**2), masses / masses.sum()


@pytest.mark.parametrize(("parameter", "distance"), [(1.0, 1), (0.5, 2), (0.3, 5), (0.11, 12)])
@pytest.mark.parametrize("times", [1, 2, 6])
def test_discrete_laplace_noise(parameter, distance, times):
    accountant = exact().compose(event("DiscreteLaplace", parameter, distance), times)
    losses, masses = composed(*discrete_laplace(parameter, distance), times)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        assert close(accountant.get_delta(epsilon), delta_of(losses, masses, epsilon))
    assert accountant.get_epsilon(0.0) == pytest.approx(times * parameter * distance)
    theirs = peer().compose(event("DiscreteLaplace", parameter, distance), times)
    assert accountant.get_epsilon(1e-4) <= theirs.get_epsilon(1e-4) + 1e-6


def test_a_replaced_record_and_a_group_move_discrete_noise_further():
    far = exact().compose(event("DiscreteLaplace", 0.4, 6))
    replaced = exact("REPLACE_ONE").compose(event("DiscreteLaplace", 0.4, 3))
    group = exact(group_size=3).compose(event("DiscreteLaplace", 0.4, 2))
    assert far.get_delta(0.7) == replaced.get_delta(0.7) == group.get_delta(0.7)
    assert exact("REPLACE_SPECIAL").compose(event("DiscreteLaplace", 0.4, 6)).get_delta(0.7) == far.get_delta(
        0.7
    )


@pytest.mark.parametrize(("sigma", "sensitivity", "distance"), [(1.0, 1.0, 1), (2.0, 1.7, 1), (5.0, 3.0, 3)])
@pytest.mark.parametrize("times", [1, 3])
def test_discrete_gaussian_noise(sigma, sensitivity, distance, times):
    accountant = exact().compose(event("DiscreteGaussian", sigma, sensitivity, 1), times)
    losses, masses = composed(*discrete_gaussian(sigma, distance), times)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        assert close(accountant.get_delta(epsilon), delta_of(losses, masses, epsilon), rel=1e-3)
    assert accountant.get_epsilon(0.0) == math.inf
    assert 0.0 < accountant.get_delta(math.inf) < 1e-17


def test_discrete_gaussian_noise_of_a_large_scale_is_nearly_continuous():
    for sigma in (50.0, 300.0):
        discrete = exact().compose(event("DiscreteGaussian", sigma, sigma, 1), 5).get_epsilon(1e-6)
        continuous = exact().compose(gaussian(sigma / math.floor(sigma)), 5).get_epsilon(1e-6)
        assert discrete == pytest.approx(continuous, rel=1e-3)


@pytest.mark.parametrize("sigma", [10.0, 1335.0])
def test_many_releases_of_discrete_gaussian_noise_are_nearly_continuous(sigma):
    discrete = exact().compose(event("DiscreteGaussian", sigma, 1.0, 1), 30).get_epsilon(1e-5)
    continuous = exact().compose(gaussian(sigma), 30).get_epsilon(1e-5)
    assert discrete == pytest.approx(continuous, rel=5e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (0.1, 1e-6), (2.0, 1e-3)])
@pytest.mark.parametrize("times", [1, 4, 30])
def test_an_epsilon_delta_guarantee_composes_as_its_worst_mechanism(epsilon, delta, times):
    accountant = exact().compose(event("EpsilonDelta", epsilon, delta), times)
    likely = 1.0 / (1.0 + math.exp(-epsilon))
    counts = np.arange(times + 1)
    ways = np.array([math.comb(times, count) for count in counts], dtype=float)
    masses = ways * likely**counts * (1.0 - likely) ** (times - counts)
    losses = epsilon * (2.0 * counts - times)
    lost = -math.expm1(times * math.log1p(-delta))
    for at in (0.0, 0.5 * epsilon, 3.0 * epsilon):
        assert close(accountant.get_delta(at), lost + (1.0 - lost) * delta_of(losses, masses, at))
    assert accountant.get_delta(math.inf) == pytest.approx(lost, rel=1e-9)
    assert accountant.get_epsilon(0.0) == (math.inf if delta else pytest.approx(times * epsilon))


def two_losses(epsilon, t):
    """The pair with the losses t and t - ε."""
    q = -math.expm1(epsilon - t) / (math.exp(-t) * -math.expm1(epsilon))
    return np.array([t, t - epsilon]), np.array([q, 1.0 - q])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_exponential_mechanism_is_at_least_every_pair_of_bounded_range(epsilon):
    alone = exact().compose(event("ExponentialMechanism", epsilon))
    twice = exact().compose(event("ExponentialMechanism", epsilon), 2)
    pairs = [two_losses(epsilon, t) for t in np.linspace(0.0, epsilon, 81)[1:-1]]
    for at in (0.0, 0.25 * epsilon, 0.6 * epsilon):
        worst = max(delta_of(*pair, at) for pair in pairs)
        assert close(alone.get_delta(at), worst, rel=2e-3)
        product = max(
            delta_of(np.add.outer(one[0], other[0]).ravel(), np.outer(one[1], other[1]).ravel(), at)
            for one, other in itertools.product(pairs[::4], repeat=2)
        )
        # A pair that is fixed beforehand loses less than one that is the worst at every ε.
        assert product <= twice.get_delta(at) <= 2.0 * product
    pure = exact().compose(event("EpsilonDelta", epsilon, 0.0), 20)
    ranged = exact().compose(event("ExponentialMechanism", epsilon), 20)
    assert ranged.get_epsilon(1e-6) < 0.9 * pure.get_epsilon(1e-6)
    assert alone.get_epsilon(0.0) == epsilon


def flips(scores, epsilon):
    """Probabilities of the answers of permute and flip with sensitivity 1, over all orders."""
    keep = np.exp(0.5 * epsilon * (np.asarray(scores) - max(scores)))
    chances = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1.0
        for answer in order:
            chances[answer] += left * keep[answer]
            left *= 1.0 - keep[answer]
    return chances / math.factorial(len(scores))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_permute_and_flip_gains_no_more_than_laplace_noise_and_two_answers_as_much(epsilon):
    accountant = exact().compose(event("PermuteAndFlip", epsilon))
    random = np.random.default_rng(6)
    near = 0.0
    for at in (0.0, 0.3 * epsilon, 0.7 * epsilon):
        bound = accountant.get_delta(at)
        assert bound == pytest.approx(-math.expm1(0.5 * (at - epsilon)), rel=1e-8)
        for _ in range(60):
            scores = random.exponential(1.0, size=int(random.integers(2, 5)))
            other = scores + random.choice([-1.0, 1.0], size=scores.size)
            one, two = flips(scores, epsilon), flips(other, epsilon)
            assert np.sum(np.maximum(one - math.exp(at) * two, 0.0)) <= bound * (1 + 1e-12)
        for gap in np.linspace(-2.0, 0.0, 201):
            one, two = flips([gap + 2.0, 0.0], epsilon), flips([gap, 0.0], epsilon)
            near = max(near, np.sum(np.maximum(two - math.exp(at) * one, 0.0)) / bound)
    assert near > 0.99
    assert accountant.get_epsilon(0.0) == epsilon


@pytest.mark.parametrize("buckets", [3, 10])
def test_randomised_response_with_several_answers(buckets):
    accountant = exact("REPLACE_ONE").compose(event("RandomizedResponse", 0.4, buckets), 3)
    likely, unlikely = 0.6 + 0.4 / buckets, 0.4 / buckets
    loss = math.log(likely / unlikely)
    losses = np.array([loss, -loss, 0.0])
    sums, masses = composed(losses, np.array([likely, unlikely, 1.0 - likely - unlikely]), 3)
    for epsilon in (0.0, 1.0, 3.0):
        assert close(accountant.get_delta(epsilon), delta_of(sums, masses, epsilon))


def test_the_best_of_several_runs():
    one = poisson(0.01, gaussian(1.0))
    inner = event("SelfComposed", one, 1000)
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    for shape, runs in ((math.inf, hs.PoissonRuns(10)), (1.0, hs.GeometricRuns(10))):
        select = event("RepeatAndSelect", inner, 10.0, shape)
        found = exact().compose(select).get_epsilon(1e-6)
        best = curve.best_of(runs).epsilon(1e-6)
        assert best * (1 - 1e-6) <= found <= best * 1.002
        assert found <= peer(kind="rdp").compose(select).get_epsilon(1e-6)
    twice = exact().compose(select, 2).get_epsilon(1e-6)
    assert found < twice < 2.0 * found


def test_they_compose_with_noisy_sums_in_any_order():
    parts = [
        poisson(0.02, gaussian(1.0)),
        event("DiscreteLaplace", 0.2, 3),
        gaussian(6.0),
        event("EpsilonDelta", 0.05, 1e-8),
    ]
    forward, backward = exact(), exact()
    for part in parts:
        forward.compose(part, 3)
    for part in reversed(parts):
        backward.compose(event("SelfComposed", part, 3))
    assert forward.get_epsilon(1e-5) == backward.get_epsilon(1e-5)
    assert isinstance(forward.curve, hs.TradeoffCurve)
    assert isinstance(exact().compose(parts[0]).curve, hs.PrivacyCurve)
    theirs = peer()
    for part in parts[:3]:
        theirs.compose(part, 3)
    ours = exact().compose(event("Composed", parts[:3]), 3)
    assert ours.get_epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=2e-3)
    assert ours.get_epsilon(1e-5) <= theirs.get_epsilon(1e-5) + 1e-6


def test_true_positive_rates_and_mu_are_bounds():
    run = exact().compose(poisson(0.01, gaussian(1.0)), 1000)
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    rates = np.array([0.0, 0.01, 0.1, 1.0])
    assert run.get_true_positive_rates(rates) == pytest.approx(1.0 - curve.beta(rates), abs=1e-6)
    assert isinstance(run.get_true_positive_rates(0.01), float)
    noisy = exact().compose(gaussian(2.0), 9)
    mu = noisy.get_gdp_parameter_estimate()
    assert 1.5 <= mu <= 1.5 * (1 + 1e-9)
    assert run.get_gdp_parameter_estimate() > 1.0
    for alpha in (1e-12, 1e-6, 0.01, 0.3):
        assert (
            run.get_true_positive_rates(alpha)
            <= 1.0 - hs.TradeoffCurve.gaussian(run.get_gdp_parameter_estimate())(alpha) + 1e-9
        )
    bare = exact().compose(event("NonPrivate"))
    assert bare.get_true_positive_rates([0.0, 0.5]).tolist() == [1.0, 1.0]
    assert bare.get_gdp_parameter_estimate() == math.inf
    assert exact().get_gdp_parameter_estimate() == 0.0
    assert exact().compose(event("EpsilonDelta", 0.0, 0.1)).get_gdp_parameter_estimate() == math.inf
    with pytest.raises(ValueError, match="false_positive_rates must be in"):
        run.get_true_positive_rates(1.5)


def test_the_ends_of_parameters():
    nothing = [
        event("EpsilonDelta", 0.0, 0.0),
        event("DiscreteLaplace", 1.0, 0),
        event("DiscreteGaussian", 1.0, 0.9, 1),
        event("RepeatAndSelect", event("NoOp"), 3.0, 1.0),
    ]
    for each in nothing:
        assert exact().compose(each).get_epsilon(1e-9) == 0.0
    everything = [
        event("EpsilonDelta", 0.0, 1.0),
        event("DiscreteGaussian", 0.0, 1.0, 1),
        event("RepeatAndSelect", event("NonPrivate"), 3.0, 1.0),
    ]
    for each in everything:
        assert exact().compose(each).get_delta(1.0) == pytest.approx(1.0)
    assert exact().compose(event("ExponentialMechanism", 0.0)).get_epsilon(1e-9) == 0.0


@pytest.mark.parametrize(
    ("make", "settings", "words"),
    [
        (lambda: event("EpsilonDelta", 1.0, 0.0), {"group_size": 2}, "group_size must be 1"),
        (lambda: event("ExponentialMechanism", 1.0), {"group_size": 2}, "group_size must be 1"),
        (lambda: event("PermuteAndFlip", 1.0), {"group_size": 2}, "group_size must be 1"),
        (lambda: event("DiscreteGaussian", 1.0, 1.0, None), {}, "dimension must be 1"),
        (lambda: event("RepeatAndSelect", event("EpsilonDelta", 1.0, 0.0), 2.0, 1.0), {}, "noisy sums"),
    ],
)
def test_what_has_no_curve_is_refused_by_name(make, settings, words):
    import dp_accounting

    with pytest.raises(dp_accounting.UnsupportedEventError, match=words):
        exact(**settings).compose(make())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: event("EpsilonDelta", -1.0, 0.0), "epsilon must be in"),
        (lambda: event("EpsilonDelta", 1.0, 2.0), "delta must be in"),
        (lambda: event("ExponentialMechanism", 1e9), "epsilon must be in"),
        (lambda: event("DiscreteLaplace", 0.0, 1), "noise_parameter must be in"),
        (lambda: event("DiscreteLaplace", 1.0, 10**6), "sensitivity must be in"),
        (lambda: event("DiscreteGaussian", 1e9, 1.0, 1), "sigma must be in"),
        (lambda: event("DiscreteGaussian", 1.0, math.nan, 1), "sensitivity must be in"),
    ],
)
def test_values_out_of_range_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        exact().compose(make())
