"""Epochs and sizes in place of steps and rates, other names of arguments, and hints for what was meant."""

import math
import warnings

import numpy as np
import pytest

import hockeystick as hs

PLAIN = {"delta": 1e-5, "noise_multiplier": 1.0}


def test_sizes_are_a_rate_and_epochs_are_steps():
    exact = hs.get_epsilon(sample_rate=0.01, steps=1000, **PLAIN)
    assert hs.get_epsilon(epochs=10, batch_size=100, dataset_size=10_000, **PLAIN) == exact
    assert hs.get_epsilon(epochs=10, sample_rate=0.01, **PLAIN) == exact
    assert (
        hs.get_epsilon(steps=1000, batch_size=100, dataset_size=10_000, sampling="poisson", **PLAIN) == exact
    )
    assert hs.get_epsilon(epochs=10, steps=1000, sample_rate=0.01, **PLAIN) == exact
    assert hs.get_epsilon(epochs=10, sampling=hs.Poisson(0.01), **PLAIN) == exact


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("fixed", hs.WithoutReplacement(100, 10_000)),
        ("without_replacement", hs.WithoutReplacement(100, 10_000)),
    ],
)
def test_a_scheme_by_its_name(name, scheme):
    sizes = {"batch_size": 100, "dataset_size": 10_000}
    by_name = hs.get_epsilon(sampling=name, epochs=2, **sizes, **PLAIN)
    assert by_name == hs.get_epsilon(sampling=scheme, steps=200, **PLAIN)


def test_shuffled_batches_by_name():
    named = {"sampling": "shuffle", "batch_size": 600, "dataset_size": 60_000, "adjacency": "zero_out"}
    both = hs.get_epsilon(epochs=1, bounds=True, **named, **PLAIN)
    scheme = hs.Shuffle(600, 60_000)
    assert both == hs.get_epsilon(sampling=scheme, steps=100, adjacency="zero_out", bounds=True, **PLAIN)


def test_terms_broadcast():
    found = hs.get_epsilon(epochs=[[1], [2]], batch_size=[100, 200, 400], dataset_size=10_000, **PLAIN)
    assert found.shape == (2, 3)
    assert found[1, 2] == hs.get_epsilon(sample_rate=0.04, steps=50, **PLAIN)


def test_planners_take_sizes():
    target = {"epsilon": 3.0, "delta": 1e-5}
    sizes = {"batch_size": 100, "dataset_size": 10_000}
    sigma = hs.get_noise_multiplier(epochs=10, **sizes, **target)
    assert sigma == hs.get_noise_multiplier(sample_rate=0.01, steps=1000, **target)
    assert hs.get_steps(noise_multiplier=1.0, **sizes, **target) == hs.get_steps(
        noise_multiplier=1.0, sample_rate=0.01, **target
    )
    curve = hs.privacy_curve(noise_multiplier=1.0, epochs=10, **sizes)
    assert curve == hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sample_rate": 0.02, "batch_size": 1, "dataset_size": 100, "steps": 3}, ValueError, "contradicts"),
        ({"sample_rate": 0.01, "steps": 10, "epochs": 1}, ValueError, "which are 100 steps"),
        ({"sampling": hs.Poisson(0.1), "batch_size": 1, "dataset_size": 9, "steps": 3}, ValueError, "contra"),
        ({"sampling": hs.Shuffle(10, 100), "batch_size": 20, "steps": 3}, ValueError, "contradicts"),
        ({"sampling": hs.FullBatch(), "batch_size": 20, "steps": 3}, TypeError, "batch_size"),
        ({"sampling": "fixed", "batch_size": 20, "steps": 3}, TypeError, "dataset_size is missing"),
        ({"batch_size": 20, "steps": 3}, TypeError, "needs dataset_size"),
        ({"dataset_size": 20, "steps": 3}, TypeError, "needs batch_size"),
        ({"epochs": 3}, TypeError, "epochs needs"),
        ({"sample_rate": 0.0, "epochs": 3}, ValueError, "above 0 where epochs"),
        ({"sample_rate": 0.1, "epochs": -3}, ValueError, "epochs"),
        ({"sample_rate": 0.1, "epochs": math.nan}, ValueError, "epochs"),
        ({"sample_rate": 0.1}, TypeError, "needs steps, or epochs"),
        ({"batch_size": 0, "dataset_size": 10, "steps": 1}, ValueError, "batch_size must be above 0"),
        ({"batch_size": [1, 20], "dataset_size": 10, "steps": 1}, ValueError, "at most dataset_size 10"),
    ],
)  # fmt: skip
def test_contradictions_and_halves_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        hs.get_epsilon(**arguments, **PLAIN)


@pytest.mark.parametrize(
    ("function", "name", "meant"),
    [
        (hs.get_epsilon, "sigma", "noise_multiplier"),
        (hs.get_epsilon, "q", "sample_rate"),
        (hs.get_epsilon, "num_steps", "steps"),
        (hs.get_epsilon, "num_epochs", "epochs"),
        (hs.get_noise_multiplier, "target_epsilon", "epsilon"),
        (hs.get_steps, "target_delta", "delta"),
        (hs.get_group_size, "sigma", "noise_multiplier"),
        (hs.get_sample_rate, "epochs", "steps"),
        (hs.get_delta, "replace_one", "adjacency='replace'"),
        (hs.privacy_curve, "nosie_multiplier", "noise_multiplier"),
        (hs.explain, "n", "dataset_size"),
        (hs.Run, "records_per_user", "records_per_person"),
        (hs.Poisson, "q", "sample_rate"),
        (hs.WithoutReplacement, "n", "dataset_size"),
        (hs.Shuffle, "lot_size", "batch_size"),
        (hs.Gaussian, "sigma", "noise_multiplier"),
    ],
)
def test_an_unknown_argument_is_answered_with_the_known_one(function, name, meant):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; did you mean {meant}"):
        function(**{name: 1.0})


@pytest.mark.parametrize(
    ("function", "name", "message"),
    [
        (hs.get_epsilon, "eps", r"'eps': get_epsilon finds it; get_noise_multiplier\(epsilon="),
        (hs.get_epsilon, "epsilon", r"'epsilon': get_epsilon finds it; get_noise_multiplier\(epsilon="),
        (hs.get_delta, "delta", r"'delta': get_delta finds it; get_noise_multiplier\(delta="),
        (hs.get_noise_multiplier, "sigma", r"get_noise_multiplier finds it; get_epsilon\(noise_multiplier="),
        (hs.get_epsilon, "k", "did you mean group_size"),
        (hs.get_epsilon, "max_grad_norm", "the clipping norm needs no argument"),
        (hs.privacy_curve, "l2_norm_clip", "the clipping norm needs no argument"),
        (hs.GroupAccountant, "k", r"GroupAccountant\(\) .*did you mean group_size"),
        (hs.IndividualAccountant, "n", "did you mean dataset_size"),
        (hs.RenyiGroupAccountant, "alphas", r"'alphas'$"),
        (hs.GroupAccountant().get_epsilon, "target_delta", "did you mean delta"),
    ],
)
def test_names_of_what_is_known_otherwise_are_explained(function, name, message):
    with pytest.raises(TypeError, match=message):
        function(**{name: 1.0})


def test_a_number_of_records_for_a_group_is_answered_with_group_size():
    with pytest.raises(TypeError, match="got 4; did you mean group_size=4"):
        hs.get_epsilon(sample_rate=0.01, steps=3, group=4, **PLAIN)


@pytest.mark.parametrize("name", ["Poisson", "POISSON", "Fixed"])
def test_a_scheme_in_capitals_is_answered_with_its_name(name):
    with pytest.raises(ValueError, match=f"did you mean '{name.lower()}'"):
        hs.get_epsilon(sampling=name, batch_size=10, dataset_size=100, steps=3, **PLAIN)


STANDARD_DEVIATION = "leaves nothing to learn in 100 steps at this rate; if it is the standard deviation"


@pytest.mark.parametrize(
    "arguments",
    [
        {"sample_rate": 0.01},
        {"sampling": hs.Poisson(0.01)},
        {"batch_size": 10, "dataset_size": 1000},
        {"sample_rate": [0.01, 0.001]},
        {"sampling": hs.Poisson(0.01), "group_size": 2},
    ],
)
def test_a_standard_deviation_for_a_multiplier_is_hinted_at(arguments):
    with pytest.warns(hs.UnusualValueWarning, match=STANDARD_DEVIATION):
        hs.get_epsilon(delta=1e-5, noise_multiplier=256.0, steps=100, **arguments)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "group"),
    [(99.0, 1e-3, 100, 1), (256.0, 1.0, 10_000, 1), (256.0, 0.01, 100, 100), (1e3, 0.1, 100_000, 1)],
)
def test_much_noise_that_fits_the_run_is_not(noise, rate, steps, group):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hs.get_epsilon(delta=1e-5, noise_multiplier=noise, sample_rate=rate, steps=steps, group_size=group)


@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_a_target_for_what_is_looked_for_leads_to_the_planner(name):
    function = {"epsilon": hs.get_epsilon, "delta": hs.get_delta}[name]
    with pytest.raises(
        TypeError, match=rf"'target_{name}': get_{name} finds it; get_noise_multiplier\({name}="
    ):
        function(**{f"target_{name}": 1.0})


def test_an_unknown_argument_that_is_like_none():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zebra'$"):
        hs.get_epsilon(zebra=3)


def test_a_percentage_is_recognised():
    with pytest.raises(ValueError, match=r"got 1\.5; did you mean 0\.015\? A rate is a fraction"):
        hs.get_epsilon(sample_rate=1.5, steps=10, **PLAIN)
    with pytest.raises(ValueError, match="give batch_size and dataset_size"):
        hs.get_epsilon(sample_rate=256, steps=10, **PLAIN)
    with pytest.raises(ValueError, match="did you mean 1e-5"):
        hs.get_epsilon(delta=-5, noise_multiplier=1.0, sample_rate=0.1, steps=10)


def test_a_large_delta_and_a_small_noise_are_warned_of():
    sizes = {"batch_size": 100, "dataset_size": 10_000, "epochs": 1}
    with pytest.warns(hs.UnusualValueWarning, match="above 1 / dataset_size") as caught:
        hs.get_epsilon(delta=1e-3, noise_multiplier=1.0, **sizes)
    assert caught[0].filename == __file__
    with pytest.warns(hs.UnusualValueWarning, match="standard deviation"):
        hs.get_epsilon(delta=1e-5, noise_multiplier=0.04, batch_size=1, dataset_size=10, epochs=0.1)
    with pytest.warns(hs.UnusualValueWarning, match="standard deviation") as caught:
        hs.get_epsilon(delta=1e-5, noise_multiplier=0.004, sample_rate=0.01, steps=3)
    assert caught[0].filename == __file__
    run = hs.Run(sampling="poisson", noise_multiplier=1.0, **sizes)
    with pytest.warns(hs.UnusualValueWarning, match="above 1 / dataset_size") as caught:
        hs.get_epsilon(run, delta=1e-3)
    assert caught[0].filename == __file__


def test_searches_that_pass_through_small_noise_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sigma = hs.get_noise_multiplier(tpr=0.9999, fpr=1e-9, sample_rate=1.0, steps=1)
        hs.get_epsilon(delta=1e-5, noise_multiplier=0.0, sample_rate=0.1, steps=1)
    assert sigma < 0.15


class Column:
    """What NumPy sees of a column of a data frame."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def test_columns_are_arguments():
    import pandas

    frame = pandas.DataFrame(
        {"sigma": [0.8, 1.0], "steps": pandas.array([10, 20], dtype="Int64")}, index=[7, 3]
    )
    want = hs.get_epsilon(delta=1e-5, noise_multiplier=[0.8, 1.0], steps=[10, 20], sample_rate=0.1)
    found = hs.get_epsilon(delta=1e-5, noise_multiplier=frame["sigma"], steps=frame["steps"], sample_rate=0.1)
    assert np.array_equal(found, want)
    like_polars = hs.get_epsilon(
        delta=1e-5, noise_multiplier=Column([0.8, 1.0]), steps=Column([10, 20]), sample_rate=0.1
    )
    assert np.array_equal(like_polars, want)
    missing = pandas.array([10, None], dtype="Int64")
    with pytest.raises((ValueError, TypeError), match="steps"):
        hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, steps=missing, sample_rate=0.1)


@pytest.mark.opacus
def test_scalars_of_torch_are_numbers():
    import torch

    want = hs.get_epsilon(delta=1e-5, noise_multiplier=1.5, steps=10, sample_rate=0.25)
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    sigmas = [torch.tensor(1.5, dtype=kind) for kind in kinds]
    sigmas.append(torch.tensor(1.5, requires_grad=True))
    for sigma in sigmas:
        arguments = {"noise_multiplier": sigma, "steps": torch.tensor(10), "sample_rate": torch.tensor(0.25)}
        assert hs.get_epsilon(delta=1e-5, **arguments) == want
        assert hs.privacy_curve(**arguments).epsilon(1e-5) == want


@pytest.mark.opacus
def test_scalars_of_jax_are_numbers():
    jnp = pytest.importorskip("jax.numpy")
    want = hs.get_epsilon(delta=1e-5, noise_multiplier=1.5, steps=10, sample_rate=0.25)
    for kind in (jnp.float32, jnp.float16, jnp.bfloat16):
        arguments = {
            "noise_multiplier": jnp.asarray(1.5, kind),
            "steps": jnp.asarray(10),
            "sample_rate": jnp.asarray(0.25, kind),
        }
        assert hs.get_epsilon(delta=1e-5, **arguments) == want
        assert hs.privacy_curve(**arguments).epsilon(1e-5) == want
