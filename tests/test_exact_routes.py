"""Different routes to the same delta: certified intervals of one number have a point in common."""

import numpy as np
import pytest
from nightly import some

import hockeystick as hs

pytestmark = pytest.mark.slow

ADDED = {
    "poisson": {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "poisson group": {"noise_multiplier": 1.0, "sample_rate": 0.02, "steps": 200, "group_size": 4},
    "few steps": {"noise_multiplier": 1.0, "sample_rate": 0.2, "steps": 10},
    "small sigma": {"noise_multiplier": 0.3, "sample_rate": 0.01, "steps": 100},
    "many steps": {"noise_multiplier": 10.0, "sample_rate": 0.001, "steps": 10**6, "group_size": 16},
    "rates": {"noise_multiplier": 1.0, "group": hs.Group(rates=[0.01, 0.05, 0.002]), "steps": 300},
    "norms": {
        "noise_multiplier": 1.5,
        "sample_rate": 0.03,
        "group": hs.Group(norms=[1.0, 0.5, 0.25]),
        "steps": 200,
    },
    "orthogonal": {
        "noise_multiplier": 1.0,
        "sample_rate": 0.02,
        "group": hs.Group(4, gradients="orthogonal"),
        "steps": 200,
    },
    "fixed batch": {
        "noise_multiplier": 2.0,
        "sampling": hs.WithoutReplacement(100, 10_000),
        "steps": 500,
        "group_size": 2,
    },
    "full batch": {"noise_multiplier": 20.0, "sampling": hs.FullBatch(), "steps": 50, "group_size": 2},
    "laplace group": {"mechanism": hs.Laplace(4.0), "sample_rate": 0.05, "steps": 50, "group_size": 3},
    "laplace": {"mechanism": hs.Laplace(2.0), "sample_rate": 0.1, "steps": 20},
    "laplace many steps": {"mechanism": hs.Laplace(2.0), "sample_rate": 0.1, "steps": 500},
    "laplace little noise": {
        "mechanism": hs.Laplace(0.2),
        "sample_rate": 0.01,
        "steps": 1000,
        "group_size": 2,
    },
    "laplace small rate": {
        "mechanism": hs.Laplace(0.5),
        "sample_rate": 0.002,
        "steps": 3000,
        "group_size": 4,
    },
}
REPLACED = {
    "poisson": {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 300},
    "fixed batch": {"noise_multiplier": 2.0, "sampling": hs.WithoutReplacement(50, 1000), "steps": 300},
    "fixed batch group": {
        "noise_multiplier": 8.0,
        "sampling": hs.WithoutReplacement(100, 1000),
        "steps": 300,
        "group_size": 3,
    },
    "full batch": {"noise_multiplier": 40.0, "sampling": hs.FullBatch(), "steps": 100, "group_size": 2},
    "laplace": {"mechanism": hs.Laplace(4.0), "sampling": hs.WithoutReplacement(50, 1000), "steps": 300},
    "laplace few steps": {
        "mechanism": hs.Laplace(1.0),
        "sampling": hs.WithoutReplacement(30, 100),
        "steps": 10,
    },
}
OFTEN = {"poisson", "few steps", "rates", "fixed batch", "laplace", "laplace few steps"}
"""Runs that every test compares in every direction; the others only for removed members, but nightly."""

RUNS = [
    pytest.param(
        run | {"adjacency": adjacency},
        id=f"{adjacency} {name}",
        marks=() if adjacency == "remove" or name in OFTEN else pytest.mark.long,
    )
    for adjacency, runs in (("add", ADDED), ("remove", ADDED), ("replace", REPLACED))
    for name, run in runs.items()
]

RARE = {
    "two steps": {"noise_multiplier": 0.542, "sample_rate": 0.00646, "steps": 2},
    "ten steps": {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10, "group_size": 4},
    "rates": {"noise_multiplier": 0.8, "group": hs.Group(rates=[0.01, 0.002]), "steps": 4},
    "norms": {"noise_multiplier": 0.7, "sample_rate": 0.01, "group": hs.Group(norms=[1.0, 0.5]), "steps": 5},
    "fixed batch": {
        "noise_multiplier": 0.8,
        "sampling": hs.WithoutReplacement(10, 1000),
        "steps": 5,
        "group_size": 2,
    },
}
"""Runs with a large loss now and then: what split inversion is for."""

RARELY_REPLACED = {
    "poisson": {"noise_multiplier": 0.8, "sample_rate": 0.01, "steps": 5},
    "fixed batch": {"noise_multiplier": 1.5, "sampling": hs.WithoutReplacement(10, 1000), "steps": 4},
}

ONE_STEP = [
    pytest.param(
        run | {"adjacency": adjacency, "steps": 1},
        id=f"{adjacency} {name}",
        marks=() if adjacency == "remove" or name in OFTEN else pytest.mark.long,
    )
    for adjacency, runs in (("add", ADDED), ("remove", ADDED), ("replace", REPLACED))
    for name, run in runs.items()
    if "laplace" not in name and name != "orthogonal"
]
"""One step of every run with Gaussian noise, but for orthogonal members, whose step is a composition; the
grid refuses most single steps of Laplace noise."""

GAUSSIANS = [0.01, 0.1, 0.3, 1.0, 2.0, 3.0, 6.0]
"""Distances of two Gaussians, where the grid's intervals are the narrowest."""

DELTAS = [1e-2, 1e-5, 1e-10]


def by_routes(curve, epsilon, routes):
    """Intervals of delta at every epsilon, by every one of the routes."""
    composed = curve._run.composition()
    return {route: composed.delta_by(route, np.asarray(epsilon)) for route in routes}


def assert_they_meet(intervals):
    lowers = np.array([lower for lower, _ in intervals.values()])
    uppers = np.array([upper for _, upper in intervals.values()])
    assert np.all((lowers >= 0.0) & (lowers <= uppers))
    assert np.all(lowers.max(axis=0) <= uppers.min(axis=0)), intervals


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("run", some(RUNS))
def test_inversion_and_grid_enclose_the_same_delta_and_renyi_bounds_it(run):
    curve = hs.privacy_curve(**run)
    epsilon = curve.epsilon(DELTAS)
    found = by_routes(curve, epsilon, ("inversion", "grid", "renyi"))
    chosen = curve.bounds(epsilon=epsilon)
    # Routes are to the curve of the pair; where another proven bound is smaller, that is the answer.
    if all(used == "pair" for used in curve.bound_used(epsilon=epsilon)):
        found["chosen"] = chosen
    else:
        assert all(np.all(chosen[1] <= upper) for _, upper in found.values())
    assert_they_meet(found)
    renyi = found.pop("renyi")[1]
    for lower, _ in found.values():
        assert np.all(lower <= renyi)
    # It is a bound by moments, within a factor of the truth that the chosen interval shows.
    assert np.all(renyi > chosen[1])
    # At least one of the two is narrow, or the comparison says nothing.
    width = np.min([(upper - lower) / upper for lower, upper in found.values()], axis=0)
    assert np.all(width[:2] <= 1e-3)


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize(
    "run",
    some(
        pytest.param(run | {"adjacency": adjacency}, id=f"{adjacency} {name}")
        for adjacency, runs in (("remove", RARE), ("replace", RARELY_REPLACED))
        for name, run in runs.items()
    ),
)
def test_split_inversion_and_grid_enclose_the_same_delta(run):
    curve = hs.privacy_curve(**run)
    epsilon = curve.epsilon(curve.advantage() * np.array([1e-2, 1e-4, 1e-7]))
    found = by_routes(curve, epsilon, ("split_inversion", "grid", "renyi"))
    assert_they_meet(found)
    lower, upper = found["split_inversion"]
    assert np.all(upper - lower <= 1e-4 * upper)


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("run", ONE_STEP)
def test_the_grid_encloses_the_closed_form_of_one_step(run):
    curve = hs.privacy_curve(**run)
    advantage = curve.advantage()
    epsilon = np.append(curve.epsilon(advantage * np.array([0.5, 1e-2, 1e-5])), 0.0)
    found = by_routes(curve, epsilon, ("one_step", "grid", "renyi"))
    assert_they_meet(found)
    lower, upper = found["one_step"]
    assert np.all(upper - lower <= 1e-9 * upper)


@pytest.mark.parametrize("distance", GAUSSIANS)
def test_the_grid_encloses_the_closed_form_of_two_gaussians(distance):
    curve = hs.privacy_curve(
        noise_multiplier=1 / distance, sampling=hs.FullBatch(), steps=1, adjacency="remove"
    )
    epsilon = curve.epsilon([0.3, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-7, 1e-10])
    assert_they_meet(by_routes(curve, epsilon, ("one_step", "grid", "renyi")))


def test_a_route_that_does_not_apply_or_exist_is_refused():
    composed = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=2)._run.composition()
    with pytest.raises(ValueError, match="does not apply"):
        composed.delta_by("one_step", np.array([1.0]))
    with pytest.raises(ValueError, match="route"):
        composed.delta_by("guess", np.array([1.0]))
