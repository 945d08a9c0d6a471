"""Planners, sweeps, reports, pictures and commands with batches that are clipped as a whole."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import hockeystick as hs
from hockeystick.cli._commands import hockeystick

pytestmark = pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")

DRAWS = {
    "poisson": {"sample_rate": 0.01},
    "accumulated": {"sampling": hs.Poisson(0.01, microbatches=3)},
    "fixed": {"sampling": hs.WithoutReplacement(40, 4000)},
    "full": {"sampling": hs.FullBatch()},
}
"""Ways to draw batches, as arguments."""

CASES = [
    (name, adjacency, members)
    for name in DRAWS
    for adjacency in ("add_remove", "add", "replace")
    for members in (1, 4)
]

TARGETS = ({"epsilon": 2.0, "delta": 1e-5}, {"advantage": 0.2}, {"bayes_success": 0.7}, {"mu": 2.0})


def run_of(name, adjacency, members, steps=50):
    return {"steps": steps, "group_size": members, "adjacency": adjacency, **DRAWS[name]}


def without(run, name):
    return {key: value for key, value in run.items() if key != name}


@pytest.mark.parametrize(("name", "adjacency", "members"), CASES)
def test_noise_meets_the_target_and_less_does_not(name, adjacency, members):
    run = run_of(name, adjacency, members)
    low, high = hs.get_noise_multiplier(
        epsilon=2.0, delta=1e-5, mechanism=hs.BatchClipping(7.0), bounds=True, **run
    )
    assert hs.get_epsilon(delta=1e-5, mechanism=hs.BatchClipping(high), **run) <= 2.0
    if low > 0.0:
        assert low == pytest.approx(high, rel=3e-6)
        less = hs.get_epsilon(delta=1e-5, mechanism=hs.BatchClipping(0.999 * low), bounds=True, **run)
        assert less[0] > 2.0
    # The noise that the mechanism has is not that which is asked for.
    other = hs.get_noise_multiplier(epsilon=2.0, delta=1e-5, mechanism=hs.BatchClipping(0.0), **run)
    assert other == high


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("adjacency", ["add_remove", "add", "replace"])
def test_a_rate_meets_the_target_and_a_larger_one_does_not(adjacency, members):
    run = {
        "mechanism": hs.BatchClipping(2.0), "steps": 50, "group_size": members, "adjacency": adjacency,
    }  # fmt: skip
    low, high = hs.get_sample_rate(epsilon=2.0, delta=1e-5, bounds=True, **run)
    assert low == pytest.approx(high, rel=3e-6)
    assert low == hs.get_sample_rate(epsilon=2.0, delta=1e-5, **run)
    assert hs.get_epsilon(delta=1e-5, sample_rate=low, **run) <= 2.0
    assert hs.get_epsilon(delta=1e-5, sample_rate=high, bounds=True, **run)[0] > 2.0 * (1.0 - 3e-6)
    assert hs.get_epsilon(delta=1e-5, sample_rate=1.001 * high, bounds=True, **run)[0] > 2.0


@pytest.mark.parametrize(("name", "adjacency", "members"), CASES)
def test_counts_meet_the_target_and_the_next_ones_do_not(name, adjacency, members):
    run = {**run_of(name, adjacency, members), "mechanism": hs.BatchClipping(32.0 if name == "full" else 3.0)}
    target = {"epsilon": 2.0, "delta": 1e-5}
    for unknown, find in (("steps", hs.get_steps), ("group_size", hs.get_group_size)):
        known = without(run, unknown)
        most, least = find(**target, bounds=True, **known)
        assert most == find(**target, **known)
        assert hs.get_epsilon(delta=1e-5, **known, **{unknown: most}) <= 2.0
        if np.isfinite(least):
            assert least <= max(most + 1, 1.00001 * most)
            missed = hs.get_epsilon(delta=1e-5, bounds=True, **known, **{unknown: int(least)})
            assert missed[0] > 2.0
        else:
            # All records of all groups move a full batch by the same distance.
            assert (name, unknown) == ("full", "group_size")


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("units", [1, 2, 8])
def test_mixed_clipping_of_fixed_batches_is_planned(units, adjacency):
    run = {
        "sampling": hs.WithoutReplacement(40, 400), "steps": 20, "group_size": 6, "adjacency": adjacency,
    }  # fmt: skip
    mixed = hs.BatchClipping(1.0, units_per_batch=units)
    sigma = hs.get_noise_multiplier(epsilon=3.0, delta=1e-5, mechanism=mixed, **run)
    found = hs.BatchClipping(sigma, units_per_batch=units)
    assert 3.0 * (1.0 - 3e-6) < hs.get_epsilon(delta=1e-5, mechanism=found, **run) <= 3.0
    for unknown, find in (("steps", hs.get_steps), ("group_size", hs.get_group_size)):
        assert find(epsilon=3.0, delta=1e-5, mechanism=found, **without(run, unknown)) == run[unknown]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "adjacency"), [("poisson", "add"), ("poisson", "replace"), ("fixed", "remove")]
)
def test_targets_of_attacks_are_met(name, adjacency, target):
    run = run_of(name, adjacency, 4)
    sigma = hs.get_noise_multiplier(mechanism=hs.BatchClipping(1.0), **target, **run)
    mechanism = hs.BatchClipping(sigma)
    assert hs.get_steps(mechanism=mechanism, **target, **without(run, "steps")) in (50, 49)
    members = hs.get_group_size(mechanism=mechanism, **target, **without(run, "group_size"))
    # Many steps of rare members are distinguished as if they were in all of them: mu hardly sees the rate.
    assert members >= 4 if "mu" in target else members == 4
    if name == "poisson":
        other = {key: value for key, value in run.items() if key != "sample_rate"}
        rate = hs.get_sample_rate(mechanism=mechanism, **target, **other)
        assert rate >= 0.01 * (1.0 - 3e-6) if "mu" in target else rate == pytest.approx(0.01, rel=3e-6)
    exact = {"mechanism": hs.BatchClipping(0.99 * sigma), **run}
    if "advantage" in target:
        assert hs.get_delta(epsilon=0.0, bounds=True, **exact)[0] > 0.2


def test_error_rates_are_met():
    run = run_of("poisson", "add_remove", 4)
    sigma = hs.get_noise_multiplier(tpr=0.3, fpr=0.1, mechanism=hs.BatchClipping(1.0), tolerance=1e-3, **run)
    curves = [hs.privacy_curve(mechanism=hs.BatchClipping(scale * sigma), **run) for scale in (1.0, 0.98)]
    assert 1.0 - curves[0].beta(0.1) <= 0.3 < 1.0 - curves[1].beta(0.1)


def test_numbers_broadcast():
    run = {"steps": 1000, "group_size": [[1], [8]], "sample_rate": 0.01, "delta": 1e-5, "epsilon": [1.0, 2.0]}
    sigma = hs.get_noise_multiplier(mechanism=hs.BatchClipping(1.0), **run)
    rates = hs.get_sample_rate(mechanism=hs.BatchClipping(4.0), **without(run, "sample_rate"))
    sizes = hs.get_group_size(mechanism=hs.BatchClipping(8.0), **without(run, "group_size"))
    assert sigma.shape == rates.shape == (2, 2)
    assert sizes.dtype == np.int64
    for row, members in enumerate((1, 8)):
        for column, epsilon in enumerate((1.0, 2.0)):
            one = {**run, "group_size": members, "epsilon": epsilon}
            assert sigma[row, column] == hs.get_noise_multiplier(mechanism=hs.BatchClipping(1.0), **one)
            assert rates[row, column] == hs.get_sample_rate(
                mechanism=hs.BatchClipping(4.0), **without(one, "sample_rate")
            )
            assert sizes[column] == hs.get_group_size(
                mechanism=hs.BatchClipping(8.0), **without(one, "group_size")
            )


def test_rates_of_members_have_a_noise_multiplier():
    run = {"group": hs.Group(rates=[0.01, 0.02]), "steps": 1000}
    sigma = hs.get_noise_multiplier(epsilon=2.0, delta=1e-5, mechanism=hs.BatchClipping(1.0), **run)
    assert hs.get_epsilon(delta=1e-5, mechanism=hs.BatchClipping(sigma), **run) == pytest.approx(
        2.0, rel=2e-6
    )


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_at_the_ends(rate):
    """Every batch, or none: with enough noise any rate meets the target, and without noise none does."""
    mechanism = hs.BatchClipping(1000.0 if rate else 0.0)
    found = hs.get_sample_rate(epsilon=1.0, delta=1e-5, mechanism=mechanism, steps=10, group_size=3)
    if rate:
        assert found == 1.0
    else:
        # One of the batches has a member with probability delta at most.
        assert 0.0 < found <= 1e-5 / 30 * (1.0 + 1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampling": hs.RandomAllocation(10)}, "have no proven pair together"),
        ({"group": hs.Group(norms=[1.0, 0.5]), "sample_rate": 0.1}, "norms and angles say nothing"),
    ],
)
def test_what_has_no_pair_has_no_plan(changes, words):
    with pytest.raises(hs.UnsupportedError, match=words):
        hs.get_noise_multiplier(epsilon=1.0, delta=1e-5, mechanism=hs.BatchClipping(1.0), steps=10, **changes)


def test_other_refusals():
    run = {"epsilon": 1.0, "delta": 1e-5, "steps": 10}
    with pytest.raises(TypeError, match="CorrelatedNoise and BatchClipping"):
        hs.get_noise_multiplier(mechanism=hs.Laplace(1.0), sample_rate=0.1, **run)
    with pytest.raises(TypeError, match="exactly one of noise_multiplier and mechanism"):
        hs.get_sample_rate(mechanism=hs.BatchClipping(1.0), noise_multiplier=1.0, **run)
    with pytest.raises(hs.UnsupportedError, match="units are parts of batches of a fixed size"):
        hs.get_sample_rate(mechanism=hs.BatchClipping(1.0, 4), **run)
    with pytest.raises(hs.UnsupportedError, match="leave out rates"):
        hs.get_sample_rate(mechanism=hs.BatchClipping(1.0), group=hs.Group(rates=[0.1]), **run)
    with pytest.raises(hs.UnreachableError, match="one record misses it"):
        hs.get_group_size(mechanism=hs.BatchClipping(0.1), sample_rate=0.5, **run)


# Runs


RUN = hs.Run(
    sampling="poisson", batch_size=100, dataset_size=10_000, epochs=10, mechanism=hs.BatchClipping(4.0),
    records_per_person=4,
)  # fmt: skip


def test_a_run_is_planned():
    target = {"epsilon": 2.0, "delta": 1e-5}
    asked = {"steps": 1000, "group_size": 4, "sample_rate": 0.01}
    sigma = hs.get_noise_multiplier(RUN, **target)
    assert sigma == hs.get_noise_multiplier(mechanism=hs.BatchClipping(1.0), **target, **asked)
    assert hs.get_epsilon(RUN.replace(noise_multiplier=sigma), delta=1e-5) <= 2.0
    for unknown, find in (
        ("steps", hs.get_steps), ("group_size", hs.get_group_size), ("sample_rate", hs.get_sample_rate),
    ):  # fmt: skip
        direct = find(mechanism=hs.BatchClipping(4.0), **target, **without(asked, unknown))
        assert find(RUN, **target) == direct


def test_another_noise_multiplier_of_a_run_leaves_its_clipping():
    changed = RUN.replace(noise_multiplier=2.0)
    assert changed.mechanism == hs.BatchClipping(2.0)
    assert RUN.replace(noise_multiplier=2.0, mechanism=None).noise_multiplier == 2.0
    adaptive = RUN.replace(mechanism=hs.AdaptiveClipping(4.0, 10.0))
    assert adaptive.replace(noise_multiplier=2.0).mechanism == hs.AdaptiveClipping(2.0, 10.0)
    correlated = hs.CorrelatedNoise.toeplitz([1.0, 0.5], noise_multiplier=4.0)
    full = hs.Run(sampling="full", dataset_size=100, steps=10, mechanism=correlated)
    assert full.replace(noise_multiplier=2.0).mechanism == correlated.with_noise(2.0)
    laplace = RUN.replace(mechanism=hs.Laplace(4.0))
    assert laplace.replace(noise_multiplier=2.0).mechanism is None


def test_a_sweep_of_noise_keeps_the_clipping():
    table = hs.sweep("epsilon", RUN, delta=1e-5, noise_multiplier=[2.0, 4.0])
    direct = [
        hs.get_epsilon(
            delta=1e-5, mechanism=hs.BatchClipping(sigma), sample_rate=0.01, steps=1000, group_size=4
        )
        for sigma in (2.0, 4.0)
    ]
    assert table["epsilon"].tolist() == direct
    swept = hs.sweep("noise_multiplier", RUN, delta=1e-5, epsilon=[1.0, 2.0])
    assert swept["noise_multiplier"].tolist() == [
        hs.get_noise_multiplier(RUN, delta=1e-5, epsilon=epsilon) for epsilon in (1.0, 2.0)
    ]


def test_a_plan_of_clipped_batches():
    choices = hs.plan(RUN, epsilon=2.0, delta=1e-5, batch_sizes=[64, 256], caps=[1, 4])
    assert choices["noise_per_gradient"].tolist() == choices["noise_multiplier"].tolist()
    for row in range(len(choices)):
        run = choices.run(row)
        assert run.mechanism == hs.BatchClipping(choices["noise_multiplier"][row])
        assert 2.0 * (1.0 - 3e-6) < hs.get_epsilon(run, delta=1e-5) <= 2.0
    assert "batches clipped as a whole" in str(choices)


# What is told, drawn and asked on the command line


@pytest.mark.slow
def test_reports_and_pictures_are_about_the_batches(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    mixed = hs.privacy_curve(
        mechanism=hs.BatchClipping(2.0, 4), sampling=hs.WithoutReplacement(40, 4000), steps=100, group_size=8
    )
    for about, size in ((RUN, 4), (hs.privacy_curve(RUN), 4), (mixed, 8)):
        text = hs.report(about, tmp_path / "report.html", delta=1e-5).read_text(encoding="utf-8")
        assert f"with at most {size} records" in text
        assert "the update of a batch, which is limited as a whole" in text
        axes = hs.plot.epsilon_by_group_size(about, delta=1e-5)
        (line,) = (line for line in axes.lines if len(line.get_xdata()) > 2)
        at = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
        curve = hs.privacy_curve(RUN) if about is RUN else about
        assert at[size] == pytest.approx(curve.epsilon(1e-5), rel=1e-5)
        for draw in (hs.plot.budget, hs.plot.schemes):
            assert draw(about, delta=1e-5).has_data()
        for draw in (hs.plot.privacy_curve, hs.plot.tradeoff_curve):
            assert draw(about).has_data()
        matplotlib.pyplot.close("all")


def invoke(*arguments):
    result = CliRunner().invoke(hockeystick, [str(part) for part in arguments])
    return result.exit_code, result.output


def test_commands_take_the_file_of_a_run(tmp_path):
    path = RUN.save(tmp_path / "run.toml")
    target = ("--config", path, "--epsilon", 2, "--delta", 1e-5, "--json")
    for command, find in (
        ("noise", hs.get_noise_multiplier), ("noise-multiplier", hs.get_noise_multiplier),
        ("sample-rate", hs.get_sample_rate), ("steps", hs.get_steps), ("group-size", hs.get_group_size),
    ):  # fmt: skip
        code, output = invoke(command, *target)
        assert code == 0, output
        (result,) = json.loads(output)["results"]
        assert find(RUN, epsilon=2.0, delta=1e-5) in result.values()


def test_options_of_the_noise_command():
    run = ("--epsilon", 2, "--delta", 1e-5, "--steps", 100, "--group-size", 4)
    drawn = ("--sampling", "fixed", "--batch-size", 40, "--dataset-size", 4000)
    clipped = ("--mechanism", "batch_clipping", "--units-per-batch", 4)
    code, output = invoke("noise", *run, *drawn, *clipped, "--json")
    assert code == 0, output
    found = json.loads(output)
    assert found["arguments"]["mechanism"] == "BatchClipping(units_per_batch=4)"
    assert found["results"][0]["noise_multiplier"] == hs.get_noise_multiplier(
        epsilon=2.0, delta=1e-5, steps=100, group_size=4, sampling=hs.WithoutReplacement(40, 4000),
        mechanism=hs.BatchClipping(1.0, 4),
    )  # fmt: skip
    code, output = invoke("noise", *run, *drawn, "--units-per-batch", 4)
    assert code == 2
    assert "--units-per-batch belongs to --mechanism batch_clipping" in output


def test_the_noise_of_other_mechanisms_in_a_file_is_refused(tmp_path):
    path = RUN.replace(mechanism=hs.Laplace(1.0)).save(tmp_path / "run.toml")
    code, output = invoke("noise", "--config", path, "--epsilon", 2, "--delta", 1e-5)
    assert code == 2
    assert "covers Gaussian noise and BatchClipping alone" in output
