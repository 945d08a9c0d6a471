"""The explanation of a guarantee: what it assumes, and the same run under other assumptions."""

import json

import pytest

import hockeystick as hs

RUN = {"delta": 1e-5, "noise_multiplier": 1.0, "steps": 1000}


def epsilon_of(explanation, scheme):
    (entry,) = [other for other in explanation["other_schemes"] if other["scheme"] == scheme]
    return entry["epsilon"]


def test_the_numbers_are_those_of_the_functions():
    found = hs.explain(sample_rate=0.01, **RUN)
    lower, upper = hs.get_epsilon(sample_rate=0.01, bounds=True, **RUN)
    assert (found["lower"], found["epsilon"]) == (
        pytest.approx(lower, rel=2e-6),
        pytest.approx(upper, rel=2e-6),
    )
    for scheme, arguments in [
        ("Poisson sampling, add or remove", {"sample_rate": 0.01}),
        ("Poisson sampling, replace", {"sample_rate": 0.01, "adjacency": "replace"}),
        ("fixed batches, add or remove", {"sampling": hs.WithoutReplacement(10**7, 10**9)}),
        ("fixed batches, replace", {"sampling": hs.WithoutReplacement(10**7, 10**9), "adjacency": "replace"}),
        ("no sampling, add or remove", {"sampling": hs.FullBatch()}),
        ("no sampling, replace", {"sampling": hs.FullBatch(), "adjacency": "replace"}),
    ]:
        expected = hs.get_epsilon(**arguments, **RUN)
        assert epsilon_of(found, scheme) == pytest.approx(expected, rel=1e-3), scheme
    # Proposition 9: a fixed batch has the epsilon of half the noise.
    halved = hs.get_epsilon(sample_rate=0.01, **{**RUN, "noise_multiplier": 0.5})
    assert epsilon_of(found, "fixed batches, add or remove") == pytest.approx(halved, rel=1e-3)


def test_an_interpreter_shows_the_text_and_the_keys_are_those_of_a_dict():
    found = hs.explain(sample_rate=0.01, **RUN)
    assert repr(found) == str(found)
    assert repr(found).startswith("(1.8283, 1e-05)-differential privacy for one record")
    assert dict(found) == found
    assert json.loads(json.dumps(found)) == found
    assert repr(dict(found)).startswith("{'statement': ")


def test_it_prints_every_assumption():
    text = str(hs.explain(sample_rate=0.01, group_size=4, **RUN))
    for part in (
        "a group of 4 records that are added or removed",
        "mechanism: Gaussian(1)",
        "sampling: Poisson(sample_rate=0.01)",
        "adjacency: add_remove",
        "steps: 1000",
        "sees the output of every step",
        "tight",
        "GROUP, Theorem 18",
        "certified",
        "Poisson sampling, replace",
        "not covered",
        "shuffling",
        "unit of privacy",
        "neighbouring relation",
        "check_loader",
    ):
        assert part in text, part
    assert "```" in hs.explain(sample_rate=0.01, **RUN)._repr_markdown_()


def test_the_printed_epsilon_is_not_below_the_certified_one():
    for noise in (0.7, 1.0, 1.3, 3.0, 40.0):
        found = hs.explain(sample_rate=0.013, **{**RUN, "noise_multiplier": noise})
        printed = float(found["statement"].partition(",")[0].lstrip("("))
        assert found["epsilon"] <= printed <= found["epsilon"] * (1 + 2e-4)


@pytest.mark.slow
def test_it_is_plain_data():
    for arguments in (
        {"sample_rate": 0.01},
        {"sampling": hs.WithoutReplacement(10, 500), "adjacency": "replace"},
        {"sampling": hs.FullBatch(), "group_size": 3},
        {"group": hs.Group(rates=[0.1, 0.2])},
    ):
        found = hs.explain(**arguments, **RUN)
        assert json.loads(json.dumps(found)) == found
        assert found["theorem"]
    laplace = hs.explain(delta=1e-5, mechanism=hs.Laplace(3.0), sample_rate=0.1, steps=5)
    assert laplace["mechanism"] == "Laplace(scale=3.0)"
    assert json.loads(json.dumps(laplace)) == laplace


def test_upper_bounds_say_so():
    found = hs.explain(sampling=hs.WithoutReplacement(10, 500), adjacency="replace", **RUN)
    assert found["status"].startswith("upper bound")
    assert found["theorem"] == "PITFALLS, Theorem 14"
    assert epsilon_of(found, "fixed batches, replace") == pytest.approx(found["epsilon"], rel=1e-3)


def test_the_size_of_the_data_set_is_used():
    found = hs.explain(sample_rate=0.01, group_size=3, dataset_size=1000, **RUN)
    expected = hs.get_epsilon(sampling=hs.WithoutReplacement(10, 1000), group_size=3, **RUN)
    assert epsilon_of(found, "fixed batches, add or remove") == pytest.approx(expected, rel=1e-3)
    assert "batches of 10 of 1000" in str(found)


def test_bad_arguments_are_named():
    for name, value in [("steps", 0), ("delta", 0.0), ("dataset_size", 0), ("group_size", 0), ("steps", 2.5)]:
        with pytest.raises(ValueError, match=name):
            hs.explain(**{"sample_rate": 0.01, **RUN, name: value})
    with pytest.raises(TypeError, match="exactly one of sample_rate and sampling"):
        hs.explain(**RUN)
    with pytest.raises(ValueError, match="noise_multiplier must be a single number"):
        hs.explain(sample_rate=0.1, **{**RUN, "noise_multiplier": [1.0, 2.0]})
    with pytest.raises(hs.UnsupportedError):
        hs.explain(sample_rate=0.1, group=hs.Group(2, gradients="orthogonal"), adjacency="replace", **RUN)


def test_it_says_that_averages_must_be_taken_by_public_numbers():
    run = {"delta": 1e-5, "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
    assert "an expected batch size that is computed from the number of records" in str(hs.explain(**run))
    # The number of records is the same where one is replaced.
    assert "expected batch size" not in str(hs.explain(**run, adjacency="replace"))
