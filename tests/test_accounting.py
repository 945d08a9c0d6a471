"""Epsilon and delta of a run: against exact curves, closed forms and the ends of the domain."""

import math
import sys
import warnings

import by_definition
import numpy as np
import pytest
from reference_rows import rows
from scipy.special import log_ndtr, ndtr

import hockeystick as hs

CURVES = rows("privacy_curves.csv")
RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def run_of(row):
    kind, *numbers = row["weights"].split()
    run = {
        "noise_multiplier": float(row["sigma"]),
        "steps": int(row["steps"]),
        "adjacency": row["direction"],
    }
    if kind == "rates":
        rates = [float(rate) for rate in numbers[0].split(";")]
        return run | {"group": hs.Group(rates=rates)}
    if kind == "hypergeometric":
        group_size, batch_size, dataset_size = map(int, numbers)
        scheme = hs.WithoutReplacement(batch_size, dataset_size)
        return run | {"sampling": scheme, "group_size": group_size}
    return run | {"sample_rate": float(numbers[1]), "group_size": int(numbers[0])}


@pytest.mark.parametrize("row", CURVES, ids=lambda r: f"{r['name']} {r['sigma']} {r['direction']}")
def test_the_intervals_enclose_the_exact_curve_and_are_narrow(row):
    epsilon, delta = float(row["epsilon"]), float(row["delta"])
    error = 2.0 * 10.0 ** (1 - int(row["digits"]))
    lower, upper = hs.get_delta(epsilon=epsilon, bounds=True, **run_of(row))
    assert lower <= delta * (1 + error)
    assert upper >= delta * (1 - error)
    assert upper - lower <= (1e-6 if delta >= 1e-12 else 1e-3) * upper
    # delta falls with epsilon: an epsilon for a larger delta is smaller.
    assert hs.get_epsilon(delta=delta * (1 - error), **run_of(row)) >= epsilon
    lower, upper = hs.get_epsilon(delta=delta * (1 + error), bounds=True, **run_of(row))
    assert lower <= epsilon
    assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize(("sigma", "sample_rate", "steps"), [("1.0", "0.01", 1000), ("3.0", "0.2", 50)])
def test_epsilon_is_at_most_that_of_any_renyi_order(sigma, sample_rate, steps):
    best = min(
        by_definition.epsilon_of_rdp(
            order, steps * by_definition.renyi_of_one_record(order, sigma, sample_rate), 1e-6
        )
        for order in range(2, 80)
    )
    arguments = {"noise_multiplier": float(sigma), "sample_rate": float(sample_rate), "steps": steps}
    epsilon = hs.get_epsilon(delta=1e-6, adjacency="remove", **arguments)
    assert 0.7 * best <= epsilon < best


@pytest.mark.parametrize("adjacency", ["add", "remove", "add_remove", "replace"])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 20.0])
def test_without_sampling_delta_is_that_of_the_gaussian_mechanism(epsilon, adjacency):
    sigma, steps, group_size = 25.0, 20, 3
    distance = group_size * (2 if adjacency == "replace" else 1)
    mu = distance * np.sqrt(steps) / sigma
    exact = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    lower, upper = hs.get_delta(
        epsilon=epsilon,
        noise_multiplier=sigma,
        sampling=hs.FullBatch(),
        steps=steps,
        group_size=group_size,
        adjacency=adjacency,
        bounds=True,
    )
    assert lower <= exact * (1 + 1e-9)
    assert upper >= exact * (1 - 1e-9)
    assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize("adjacency", ["add", "remove"])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.2])
def test_one_step_of_laplace_noise_is_the_closed_form(epsilon, adjacency):
    # One record, rate q, scale b: the loss is monotone in x, so delta is a difference of two tails.
    scale, rate = 1.5, 0.3
    x = np.linspace(-60.0, 61.0, 2_000_001)
    noise = np.exp(-np.abs(x) / scale) / (2 * scale)
    mixture = (1 - rate) * noise + rate * np.exp(-np.abs(x - 1) / scale) / (2 * scale)
    first, second = (mixture, noise) if adjacency == "remove" else (noise, mixture)
    exact = np.sum(np.maximum(first - np.exp(epsilon) * second, 0.0)) * (x[1] - x[0])
    delta = hs.get_delta(
        epsilon=epsilon, mechanism=hs.Laplace(scale), sample_rate=rate, steps=1, adjacency=adjacency
    )
    assert delta == pytest.approx(exact, rel=1e-5, abs=1e-12)


def test_poisson_is_the_same_as_its_sample_rate():
    by_rate = hs.get_epsilon(delta=1e-5, **RUN)
    by_scheme = hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sampling=hs.Poisson(0.01), steps=1000)
    assert by_rate == by_scheme
    assert hs.Poisson(0.01) == hs.Poisson(np.float64(0.01))


@pytest.mark.parametrize("group_size", [1, 7, 300])
def test_the_larger_direction_decides(group_size):
    both, remove, add = (
        hs.get_epsilon(delta=1e-5, group_size=group_size, adjacency=a, **RUN)
        for a in ("add_remove", "remove", "add")
    )
    assert both == pytest.approx(max(remove, add), rel=2e-6)
    assert both >= max(remove, add) * (1 - 1e-6)
    assert remove != add


@pytest.mark.parametrize("group_size", [1, 3, 16])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 30.0])
def test_delta_and_epsilon_invert_each_other(epsilon, group_size):
    delta = hs.get_delta(epsilon=epsilon, group_size=group_size, **RUN)
    if delta < 1:
        assert hs.get_epsilon(delta=delta, group_size=group_size, **RUN) == pytest.approx(epsilon, rel=1e-5)


def test_nothing_released_costs_nothing_and_no_noise_costs_everything():
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=0) == 0.0
    assert hs.get_delta(epsilon=0.0, noise_multiplier=1.0, sample_rate=0.01, steps=0) == 0.0
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.0, steps=1000) == 0.0
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=0.0, sample_rate=0.01, steps=1) == np.inf
    # Without noise the output tells whether the record was in the batch, and only that.
    assert hs.get_delta(epsilon=5.0, noise_multiplier=0.0, sample_rate=0.01, steps=1) == pytest.approx(
        0.01, rel=1e-12
    )
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=0.0, sample_rate=0.01, steps=0) == 0.0
    assert hs.get_noise_multiplier(epsilon=1.0, delta=1e-5, sample_rate=0.0, steps=10) == 0.0
    assert hs.get_noise_multiplier(epsilon=1.0, delta=1e-5, sample_rate=0.1, steps=0) == 0.0


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("sigma", [0.1, 0.05])
def test_little_noise_costs_what_a_visible_member_costs(sigma):
    # With probability 1/2 the member is in the batch, and then the loss is about 1 / (2 sigma^2).
    run = {"noise_multiplier": sigma, "sample_rate": 0.5, "steps": 1}
    assert hs.get_epsilon(delta=1e-5, **run) >= 0.5 / sigma / sigma
    assert hs.get_delta(epsilon=0.25 / sigma / sigma, **run) >= 0.49


# Corners whose questions take from a quarter of a minute to a minute (long), or some seconds (slow).
MARKS = {
    (0.05, 0.5, 1, 10_000): pytest.mark.long,
    (0.05, 0.5, 10**9, 10_000): pytest.mark.long,
    (0.05, 1e-12, 10**9, 1): pytest.mark.slow,
    (0.05, 1e-12, 10**9, 100): pytest.mark.slow,
}
CORNERS = [
    pytest.param(
        {"noise_multiplier": sigma, "sample_rate": rate, "steps": steps, "group_size": group_size},
        marks=MARKS.get((sigma, rate, steps, group_size), pytest.mark.slow if group_size == 10_000 else []),
        id=f"{sigma:g}-{rate:g}-{steps:g}-{group_size}",
    )
    for sigma in (0.05, 1e4)
    for rate in (1e-12, 0.5, 1.0)
    for steps in (1, 10**9)
    for group_size in (1, 100, 10_000)
]
DELTAS = [1e-300, 1e-5, 1 - 2**-53]
EPSILONS = [0.0, 1.0, 1e5]


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("run", CORNERS)
def test_the_corners_of_the_domain_give_ordered_bounds(run):
    lower, upper = hs.get_epsilon(delta=DELTAS, bounds=True, **run)
    assert np.all((lower >= 0.0) & (lower <= upper))  # not NaN
    assert np.all(lower[1:] <= upper[:-1])  # epsilon and delta fall, whatever the widths
    lower, upper = hs.get_delta(epsilon=EPSILONS, bounds=True, **run)
    assert np.all((lower >= 0.0) & (lower <= upper) & (upper <= 1.0))
    assert np.all(lower[1:] <= upper[:-1])  # epsilon and delta fall, whatever the widths


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize(
    "run",
    [
        {"noise_multiplier": 5e-324, "sample_rate": 0.5, "steps": 1},
        {"noise_multiplier": 1e-150, "sample_rate": 0.5, "steps": 1},
        {"noise_multiplier": 1.7e308, "sample_rate": 0.5, "steps": 2**62},
        {"noise_multiplier": 1.0, "sample_rate": 5e-324, "steps": 2**62},
        {"noise_multiplier": 0.1, "sample_rate": 1.0, "steps": 2**62, "group_size": 10_000},
    ],
)
def test_beyond_the_domain_there_is_a_bound_or_an_error_but_no_nan(run):
    try:
        lower, upper = hs.get_epsilon(delta=DELTAS, bounds=True, **run)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert np.all((lower >= 0.0) & (lower <= upper))
    assert refusal == "" or any(name in refusal for name in ("noise_multiplier", "sample_rate", "steps"))


def test_tolerance_sets_the_width_of_the_interval():
    for tolerance in (1e-2, 1e-7):
        lower, upper = hs.get_epsilon(delta=1e-5, bounds=True, tolerance=tolerance, **RUN)
        assert lower <= 1.8283
        assert upper >= 1.8282
        assert upper - lower <= tolerance * upper
        assert hs.get_epsilon(delta=1e-5, tolerance=tolerance, **RUN) == upper


def test_a_member_without_gradient_changes_nothing():
    two = hs.get_epsilon(delta=1e-5, group=hs.Group(norms=[1.0, 0.5, 0.0]), **RUN)
    three = hs.get_epsilon(delta=1e-5, group=hs.Group(norms=[1.0, 0.5]), **RUN)
    assert two == pytest.approx(three, rel=2e-6)


def test_what_is_known_about_a_group_lowers_epsilon():
    def epsilon(**members):
        return hs.get_epsilon(delta=1e-5, group=hs.Group(4, **members), **RUN)

    alike = hs.get_epsilon(delta=1e-5, group_size=4, **RUN)
    assert epsilon() == alike
    assert epsilon(rates=[0.01] * 4) == pytest.approx(alike, rel=2e-6)
    assert epsilon(norms=[1.0] * 4) == pytest.approx(alike, rel=2e-6)
    assert epsilon(norms=[1.0, 1.0, 1.0, 0.5]) < alike
    assert epsilon(rates=[0.01, 0.01, 0.01, 0.005]) < alike
    assert epsilon(gradients="orthogonal") < alike
    assert epsilon(norms=[0.5] * 4, gradients="orthogonal") < epsilon(gradients="orthogonal")


def test_full_batches_are_poisson_batches_of_rate_one():
    run = {"delta": 1e-5, "noise_multiplier": 30.0, "steps": 50, "group_size": 2}
    assert hs.get_epsilon(sampling=hs.FullBatch(), **run) == hs.get_epsilon(sample_rate=1.0, **run)


def test_the_black_box_knows_one_record_exactly_and_groups_worse():
    for adjacency in ("add_remove", "add", "remove"):
        run = {"delta": 1e-5, "adjacency": adjacency, **RUN}
        exact = hs.get_epsilon(group_size=[1, 2, 4], **run)
        converted = hs.black_box.get_epsilon(group_size=[1, 2, 4], **run)
        assert converted[0] == pytest.approx(exact[0], rel=1e-4)
        assert np.all(converted >= exact * (1 - 1e-6))
        assert np.all(converted[1:] > 1.01 * exact[1:])


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
def test_the_black_box_covers_fixed_batches_and_laplace_noise():
    run = {"delta": 1e-5, "steps": 100, "group_size": 3}
    for setting in (
        {"noise_multiplier": 4.0, "sampling": hs.WithoutReplacement(10, 1000)},
        {"mechanism": hs.Laplace(5.0), "sample_rate": 0.01},
    ):
        exact = hs.get_epsilon(**setting, **run)
        assert exact < hs.black_box.get_epsilon(**setting, **run) < np.inf


def test_the_black_box_covers_replaced_records():
    run = {"delta": 1e-5, "noise_multiplier": 4.0, "steps": 100, "adjacency": "replace"}
    for sampling in (hs.Poisson(0.01), hs.WithoutReplacement(10, 1000), hs.FullBatch()):
        one = hs.get_epsilon(sampling=sampling, **run)
        converted = hs.black_box.get_epsilon(sampling=sampling, group_size=[1, 3], **run)
        assert converted[0] == pytest.approx(one, rel=1e-4)
        assert 3 * one < converted[1] < np.inf


def converted(one, k, delta):
    """GROUP, Theorem 4, by bisection: k times the smallest epsilon of one record that gives delta for k."""
    low, high = 0.0, 20.0
    for _ in range(25):
        middle = (low + high) / 2
        if one.delta(middle) * math.fsum(math.exp(j * middle) for j in range(k)) <= delta:
            high = middle
        else:
            low = middle
    return k * high


@pytest.mark.parametrize(
    ("adjacency", "links"),
    # Every removed record leaves a smaller data set, of which a batch is a larger part.
    [("add_remove", [(9, 10), (9, 9), (7, 7)]), ("replace", [(9, 10), (9, 10), (9, 10)])],
)
def test_the_black_box_asks_the_worst_link_of_a_chain_of_fixed_batches(adjacency, links):
    run = {"noise_multiplier": 30.0, "steps": 5, "adjacency": adjacency}
    groups = [1, 2, 4]
    found = hs.black_box.get_epsilon(
        delta=1e-5, group_size=groups, sampling=hs.WithoutReplacement(9, 10), **run
    )
    for epsilon, k, link in zip(found, groups, links, strict=True):
        one = hs.privacy_curve(sampling=hs.WithoutReplacement(*link), **run)
        assert epsilon == pytest.approx(converted(one, k, 1e-5), rel=1e-4)


@pytest.mark.parametrize("kind", ["Poisson", "FullBatch", "WithoutReplacement"])
def test_interval_ends_are_pairs_of_floats_with_the_safe_one_last(kind):
    scheme = {"Poisson": (0.1,), "FullBatch": (), "WithoutReplacement": (10, 100)}[kind]
    run = {"noise_multiplier": 2.0, "sampling": getattr(hs, kind)(*scheme), "steps": 10, "delta": 1e-5}
    lower, upper = hs.get_epsilon(bounds=True, **run)
    assert type(lower) is float
    assert 0.0 < lower <= upper == hs.get_epsilon(**run)


def test_a_wide_interval_is_announced_once_at_the_line_of_the_call(monkeypatch):
    def wide(unknown, step, steps, adjacency, epsilon, delta, tolerance):
        count = np.size(delta)
        return np.full(count, 1.0), np.full(count, 1.5), np.zeros(count, bool)

    monkeypatch.setattr(hs._core, "solve", wide)
    with pytest.warns(hs.WideIntervalWarning, match=r"\[1, 1\.5\].*tolerance 1e-06.*2 further") as caught:
        hs.get_epsilon(delta=[1e-6, 1e-5, 1e-4], **RUN)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(hs.WideIntervalWarning, match="delta is certified"):
        hs.get_delta(epsilon=1.0, bounds=True, **RUN)


@pytest.mark.parametrize(
    ("function", "lower", "upper", "announced"),
    [
        (hs.get_epsilon, 1.0, 1.0 + 0.9e-6, False),
        (hs.get_epsilon, 1.0, 1.0 + 1.1e-6, True),
        (hs.get_epsilon, 5.0, np.inf, True),
        (hs.get_epsilon, np.inf, np.inf, False),
        (hs.get_epsilon, 0.0, 0.9e-12, True),
        (hs.get_epsilon, 0.0, 1e-310, False),
        (hs.get_delta, 1e-11, 1e-11 * (1 + 1.1e-6), True),
        (hs.get_delta, 1e-13, 1e-13 * (1 + 0.9e-3), False),
        (hs.get_delta, 1e-13, 1e-13 * (1 + 1.1e-3), True),
        (hs.get_delta, 0.0, 0.9e-100, True),
        (hs.get_delta, 0.0, 1e-310, False),
    ],
)
def test_what_counts_as_a_wide_interval(monkeypatch, function, lower, upper, announced):
    answer = (np.array([lower]), np.array([upper]), np.array([False]))
    monkeypatch.setattr(hs._core, "solve", lambda *_: answer)
    given = {"delta": 1e-5} if function is hs.get_epsilon else {"epsilon": 1.0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert function(**given, **RUN) == upper
    assert len(caught) == announced


PLAIN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (hs.get_epsilon, {"delta": 1e-5, **PLAIN}),
        (hs.get_delta, {"epsilon": 1.0, **PLAIN}),
        (hs.privacy_curve, PLAIN),
        (hs.privacy_curve(**PLAIN).epsilon, {"delta": 1e-5}),
    ],
    ids=["get_epsilon", "get_delta", "privacy_curve", "PrivacyCurve.epsilon"],
)
def test_a_question_of_plain_numbers_takes_few_python_calls(function, arguments):
    """What a sweep pays for each question besides the core's work."""
    function(**arguments)
    calls = []
    sys.setprofile(
        lambda frame, event, _: calls.append(frame.f_code.co_filename) if event == "call" else None
    )
    try:
        function(**arguments)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 25
    # A curve is counted and compared by the kind of its steps, and curves are of two classes: what makes them
    # has a file of its own.
    assert len(set(calls) - {"<string>"}) <= (6 if function is hs.privacy_curve else 5)
