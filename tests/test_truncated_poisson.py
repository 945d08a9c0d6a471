"""Poisson samples that are cut to a largest size: the bound against all batches of small data sets."""

import itertools
import json
import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
)

DELTA = 1e-5
NOISE = 1.0
CAPPED = hs.Poisson(0.1, max_batch_size=120, dataset_size=1000)
RUN = {"noise_multiplier": 2.0, "steps": 10}


def law_of_the_sum(records, rate, largest):
    """Probability of every sum of a batch by the definition: all samples, and all batches of each."""
    law = {}
    for drawn in itertools.product((False, True), repeat=len(records)):
        sample = [value for value, inside in zip(records, drawn, strict=True) if inside]
        weight = rate ** len(sample) * (1.0 - rate) ** (len(records) - len(sample))
        batches = list(itertools.combinations(sample, min(len(sample), largest)))
        for batch in batches:
            law[sum(batch)] = law.get(sum(batch), 0.0) + weight / len(batches)
    return law


def hockey_stick(one, other, epsilon):
    """Divergence of two mixtures of Gaussians, by a fine trapezoidal rule."""
    grid = np.linspace(-16.0, 16.0, 6_001)

    def density(law):
        parts = (weight * np.exp(-0.5 * ((grid - mean) / NOISE) ** 2) for mean, weight in law.items())
        return sum(parts) / (NOISE * math.sqrt(2.0 * math.pi))

    excess = np.maximum(density(one) - math.exp(epsilon) * density(other), 0.0)
    return float(np.trapezoid(excess, grid))


def bound(epsilon, rate, largest, size, **how):
    sampling = hs.Poisson(rate, max_batch_size=largest, dataset_size=size)
    return hs.get_delta(epsilon=epsilon, noise_multiplier=NOISE, steps=1, sampling=sampling, **how)


SMALL = [
    (size, largest, members)
    for size in range(2, 7)
    for largest in range(1, size + 1)
    for members in range(1, min(size, 3) + 1)
]


@pytest.mark.parametrize(("size", "largest", "members"), SMALL)
@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_no_data_set_exceeds_the_curve_of_a_group(size, largest, members, rate):
    closest = 0.0
    # Others against the group, without effect, half and half, and not all alike.
    for others in ([-1.0], [0.0], [-1.0, 1.0]):
        rest = list(itertools.islice(itertools.cycle(others), size - members))
        with_group = law_of_the_sum([1.0] * members + rest, rate, largest)
        without = law_of_the_sum(rest, rate, largest)
        for epsilon in (0.0, 1.0):
            for direction, pair in (("remove", (with_group, without)), ("add", (without, with_group))):
                true = hockey_stick(*pair, epsilon)
                proven = bound(epsilon, rate, largest, size, group_size=members, adjacency=direction)
                assert true <= proven * (1.0 + 1e-5) + 1e-7, (others, epsilon, direction)
                closest = max(closest, true / proven) if proven > 1e-6 else closest
    # A bound of half the size would be wrong.
    assert closest > 0.5


@pytest.mark.parametrize(("size", "largest"), [(size, largest) for size, largest, k in SMALL if k == 1])
def test_no_replaced_record_exceeds_the_curve(size, largest):
    closest = 0.0
    for others in ([-1.0], [0.0], [1.0], [-1.0, 1.0]):
        rest = list(itertools.islice(itertools.cycle(others), size - 1))
        for value, other in ((1.0, -1.0), (1.0, 0.0), (0.0, 1.0), (0.5, -1.0)):
            pair = [law_of_the_sum([mine, *rest], 0.4, largest) for mine in (value, other)]
            for epsilon in (0.0, 0.5, 2.0):
                true = hockey_stick(*pair, epsilon)
                proven = bound(epsilon, 0.4, largest, size, adjacency="replace")
                assert true <= proven * (1.0 + 1e-5) + 1e-7, (others, value, other, epsilon)
                closest = max(closest, true / proven)
    assert closest > 0.5


@pytest.mark.parametrize("adjacency", ["add_remove", "add", "remove", "replace"])
def test_a_size_that_holds_all_records_is_poisson_sampling(adjacency):
    for largest in (1000, 2000):
        whole = hs.Poisson(0.1, max_batch_size=largest, dataset_size=1000)
        found = hs.get_epsilon(delta=DELTA, sampling=whole, adjacency=adjacency, **RUN)
        assert found == hs.get_epsilon(delta=DELTA, sample_rate=0.1, adjacency=adjacency, **RUN)
    assert hs.privacy_curve(sampling=whole, **RUN).tight


def test_all_records_drawn_are_a_fixed_batch():
    cut = hs.Poisson(1.0, max_batch_size=3, dataset_size=10)
    fixed = hs.WithoutReplacement(3, 10)
    for size in (1, 2, 4):
        run = {"delta": DELTA, "noise_multiplier": 2.0, "steps": 1, "group_size": size}
        assert hs.get_epsilon(sampling=cut, **run) == pytest.approx(
            hs.get_epsilon(sampling=fixed, **run), rel=3e-6
        )


def test_a_larger_batch_reveals_less_above_the_mean_size_and_more_below():
    epsilons = [
        hs.get_epsilon(
            delta=DELTA, sampling=hs.Poisson(0.1, max_batch_size=largest, dataset_size=1000), **RUN
        )
        for largest in (100, 110, 120, 140, 180)
    ]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[-1] == pytest.approx(hs.get_epsilon(delta=DELTA, sample_rate=0.1, **RUN), rel=1e-4)
    small = hs.Poisson(0.1, max_batch_size=50, dataset_size=1000)
    assert hs.get_epsilon(delta=DELTA, sampling=small, **RUN) < epsilons[0]


def test_the_rate_alone_understates():
    cut = hs.get_epsilon(delta=DELTA, sampling=CAPPED, **RUN)
    assert cut > 1.5 * hs.get_epsilon(delta=DELTA, sample_rate=0.1, **RUN)
    curve = hs.privacy_curve(sampling=CAPPED, **RUN)
    assert not curve.tight
    assert "at most 120 of 1000" in str(curve)


@pytest.mark.opacus
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_dp_accounting_says_more(adjacency):
    import dp_accounting

    relation = {"add_remove": "ADD_OR_REMOVE_ONE", "replace": "REPLACE_ONE"}[adjacency]
    event = dp_accounting.TruncatedSubsampledGaussianDpEvent(1000, 0.05, 60, 4.0)
    theirs = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation[relation])
    theirs.compose(event, 10)
    ours = hs.dp_accounting.ExactAccountant(dp_accounting.NeighboringRelation[relation])
    ours.compose(event, 10)
    sampling = hs.Poisson(0.05, max_batch_size=60, dataset_size=1000)
    epsilon = hs.get_epsilon(
        delta=DELTA, noise_multiplier=4.0, sampling=sampling, steps=10, adjacency=adjacency
    )
    assert ours.get_epsilon(DELTA) == pytest.approx(epsilon, rel=2e-6)
    # Two opposite shifts where a sample is cut, in place of one: an upper bound of ours.
    assert 0.75 * theirs.get_epsilon(DELTA) < epsilon < theirs.get_epsilon(DELTA)


@pytest.mark.opacus
def test_events_that_hold_no_data_cost_nothing_and_those_without_noise_everything():
    import dp_accounting

    event = dp_accounting.TruncatedSubsampledGaussianDpEvent
    for nothing in (event(0, 0.1, 5, 1.0), event(10, 0.0, 5, 1.0), event(10, 0.1, 0, 1.0)):
        assert hs.dp_accounting.ExactAccountant().compose(nothing).get_epsilon(DELTA) == 0.0
    everything = hs.dp_accounting.ExactAccountant().compose(event(10, 0.1, 5, 0.0))
    assert everything.get_epsilon(DELTA) == math.inf
    special = hs.dp_accounting.ExactAccountant(dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
    with pytest.raises(dp_accounting.UnsupportedEventError, match="REPLACE_ONE"):
        special.compose(event(10, 0.1, 5, 1.0))


def test_the_other_unknowns_of_the_equation():
    epsilon = hs.get_epsilon(delta=DELTA, sampling=CAPPED, **RUN)
    wanted = {"epsilon": epsilon * (1.0 + 1e-5), "delta": DELTA, "sampling": CAPPED}
    assert hs.get_noise_multiplier(**wanted, steps=10) == pytest.approx(2.0, rel=1e-4)
    assert hs.get_steps(**wanted, noise_multiplier=2.0) == 10
    assert hs.get_group_size(**wanted, **RUN) == 1


def test_the_accountant_keeps_the_scheme_and_states_do_too():
    accountant = GroupAccountant(group_size=2)
    for _ in range(10):
        accountant.step(noise_multiplier=2.0, sampling=CAPPED)
    assert accountant.history == [(2.0, CAPPED, 10)]
    assert accountant.get_epsilon(DELTA) == hs.get_epsilon(delta=DELTA, sampling=CAPPED, group_size=2, **RUN)
    assert repr(CAPPED) in accountant.description["sampling"]
    state = json.loads(json.dumps(accountant.state_dict()))
    other = GroupAccountant(group_size=2)
    other.load_state_dict(state)
    assert other.history == accountant.history
    # A state of an earlier version, whose Poisson samples had no largest size.
    state["history"] = [[2.0, {"scheme": "poisson", "sample_rate": 0.1, "microbatches": 3}, 10]]
    other.load_state_dict(state)
    assert other.history == [(2.0, hs.Poisson(0.1, microbatches=3), 10)]
    whole = GroupAccountant()
    whole.step(noise_multiplier=2.0, sampling=hs.Poisson(0.1, max_batch_size=10, dataset_size=10))
    assert whole.history == [(2.0, 0.1, 1)]


def test_what_is_printed_names_the_scheme():
    explained = hs.explain(delta=DELTA, sampling=CAPPED, **RUN)
    assert explained["sampling"] == repr(CAPPED)
    assert explained["status"].startswith("upper bound")
    first = explained["other_schemes"][0]
    assert first["epsilon"] == pytest.approx(explained["epsilon"], rel=1e-3)
    assert "120 of 1000" in first["note"]
    json.dumps(explained)


def test_the_report_reproduces_it(tmp_path):
    path = tmp_path / "privacy.md"
    hs.report(hs.privacy_curve(sampling=CAPPED, **RUN), path, delta=DELTA, group_sizes=[1, 2])
    text = path.read_text()
    assert f"sampling=hs.{CAPPED!r}" in text
    assert "upper bound" in text


def test_the_command_line_takes_a_largest_size():
    from click import testing

    from hockeystick.cli._commands import hockeystick

    options = ["--delta", "1e-5", "--noise-multiplier", "2", "--steps", "10"]
    size = ["--max-batch-size", "120", "--dataset-size", "1000"]
    for drawing in (["--sample-rate", "0.1"], ["--sampling", "poisson", "--batch-size", "100"]):
        found = testing.CliRunner().invoke(hockeystick, ["epsilon", *options, *drawing, *size])
        assert found.exit_code == 0, found.output
        assert "at most 120 of 1000 records" in found.output
        shown = f"{hs.get_epsilon(delta=DELTA, sampling=CAPPED, **RUN):.3f}"
        assert shown[:-1] in found.output
    for wrong in (["--max-batch-size", "120"], [*size, "--sampling", "full"], size):
        given = wrong if "full" in wrong or wrong is size else [*wrong, "--sample-rate", "0.1"]
        assert testing.CliRunner().invoke(hockeystick, ["epsilon", *options, *given]).exit_code != 0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"max_batch_size": 3}, TypeError, "give both"),
        ({"dataset_size": 3}, TypeError, "give both"),
        ({"max_batch_size": 0, "dataset_size": 3}, ValueError, "max_batch_size"),
        ({"max_batch_size": 3, "dataset_size": 0}, ValueError, "dataset_size"),
        ({"max_batch_size": "3", "dataset_size": 9}, TypeError, "max_batch_size"),
        ({"max_batch_size": 3, "dataset_size": 9, "microbatches": 2}, hs.UnsupportedError, "microbatches=1"),
    ],
)
def test_arguments_are_checked(arguments, error, words):
    with pytest.raises(error, match=words):
        hs.Poisson(0.1, **arguments)


def test_what_has_no_proven_pair_is_refused():
    refused = [
        {"mechanism": hs.Laplace(1.0)},
        {"mechanism": hs.RandomizedResponse(0.7)},
        {"noise_multiplier": 1.0, "group": hs.Group(rates=[0.1, 0.2])},
        {"noise_multiplier": 1.0, "group": hs.Group(norms=[0.1, 0.2])},
        {"noise_multiplier": 1.0, "group": hs.Group(3, gradients="orthogonal")},
        {"noise_multiplier": 1.0, "group_size": 2, "adjacency": "replace"},
    ]
    for how in refused:
        with pytest.raises(hs.UnsupportedError):
            hs.get_epsilon(delta=DELTA, sampling=CAPPED, steps=3, **how)
    with pytest.raises(hs.UnsupportedError, match="black-box"):
        hs.black_box.get_epsilon(delta=DELTA, sampling=CAPPED, group_size=2, **RUN)
    with pytest.raises(ValueError, match="at most 128"):
        hs.get_epsilon(delta=DELTA, sampling=CAPPED, group_size=129, **RUN)
    small = hs.Poisson(0.1, max_batch_size=2, dataset_size=5)
    with pytest.raises(ValueError, match="at most dataset_size 5"):
        hs.get_epsilon(delta=DELTA, sampling=small, group_size=6, **RUN)
    far = hs.Poisson(0.5, max_batch_size=2, dataset_size=2**50)
    with pytest.raises(ValueError, match="max_batch_size"):
        hs.get_epsilon(delta=DELTA, sampling=far, **RUN)


@pytest.mark.parametrize(
    "accountant",
    [RenyiGroupAccountant(), MonteCarloAccountant(samples=100), IndividualAccountant(1000)],
    ids=lambda accountant: type(accountant).__name__,
)
def test_accountants_of_other_schemes_refuse_it(accountant):
    with pytest.raises(hs.UnsupportedError, match="GroupAccountant"):
        accountant.step(noise_multiplier=1.0, sampling=CAPPED)
    assert len(accountant) == 0


def test_rounding_of_long_histories_leaves_it_alone():
    curve = hs.privacy_curve(sampling=CAPPED, noise_multiplier=2.0, steps=3)
    for i in range(40):
        curve = curve + hs.privacy_curve(sampling=CAPPED, noise_multiplier=2.0 + 0.01 * i, steps=1)
    assert curve.epsilon(DELTA) > hs.get_epsilon(
        delta=DELTA, sampling=CAPPED, noise_multiplier=2.39, steps=43
    )


def test_both_directions_know_delta_of_rare_groups():
    """The wider bound of the second direction is no excuse where a first question about it knew better."""
    sampling = hs.Poisson(0.000158478, max_batch_size=16, dataset_size=1000)
    curve = hs.privacy_curve(noise_multiplier=2.01635, sampling=sampling, steps=2, group_size=21)
    lower, upper = curve.bounds(epsilon=0.0)
    assert 0.00095 < lower <= upper < 0.00095042
    assert curve.bounds(delta=0.0012) == (0.0, 0.0)
