"""The statement of TF Privacy, by exact numbers."""

import re

import pytest

import hockeystick as hs
from hockeystick.compat.tf_privacy import (
    AccountantType,
    compute_dp_sgd_privacy,
    compute_dp_sgd_privacy_statement,
    compute_noise,
)

RUN = {
    "number_of_examples": 10_000,
    "batch_size": 64,
    "num_epochs": 5.0,
    "noise_multiplier": 2.0,
    "delta": 1e-6,
}


def numbers(text):
    return [float(found) for found in re.findall(r"Epsilon.*?: +(\S+)$", text, re.MULTILINE)]


@pytest.mark.parametrize(
    ("users", "of_pld", "of_rdp"),
    [
        # What its tests expect of both kinds of accounting; its conversion for users by RDP gives up at ten.
        ({}, [12.595, 1.199], [13.376, 1.616]),
        ({"max_examples_per_user": 2}, [12.595, 1.199, 30.579, 2.532], None),
        ({"max_examples_per_user": 3}, None, [13.376, 1.616, 56.224, 6.425]),
        ({"max_examples_per_user": 10}, None, [13.376, 1.616, 366.374, float("inf")]),
    ],
)
def test_the_numbers_are_those_of_a_fine_grid_and_below_those_of_renyi(users, of_pld, of_rdp):
    found = numbers(compute_dp_sgd_privacy_statement(**RUN, **users))
    assert len(found) == (4 if users else 2)
    if of_pld is not None:
        assert found == of_pld
    if of_rdp is not None:
        assert all(exact < bound for exact, bound in zip(found, of_rdp, strict=True))


@pytest.mark.parametrize(
    ("used_microbatching", "of_rdp"),
    [(False, [10.8602036, 3.2391922]), (True, [26.2880374, 22.5970358])],  # two more of its cases
)
def test_parts_of_epochs_cost_less_than_by_renyi_divergences(used_microbatching, of_rdp):
    run = {"number_of_examples": 10_000, "batch_size": 100, "num_epochs": 1.2, "noise_multiplier": 0.7}
    text = compute_dp_sgd_privacy_statement(**run, delta=1e-5, used_microbatching=used_microbatching)
    for exact, bound in zip(numbers(text), of_rdp, strict=True):
        assert 0.7 * bound < exact < bound


def test_a_user_is_a_group_and_microbatches_halve_the_noise():
    text = compute_dp_sgd_privacy_statement(**RUN, used_microbatching=False, max_examples_per_user=8)
    run = {"delta": 1e-6, "noise_multiplier": 2.0}
    expected = [
        hs.get_epsilon(sampling=sampling, steps=steps, group_size=size, **run)
        for size in (1, 8)
        for sampling, steps in ((hs.FullBatch(), 5), (hs.Poisson(0.0064), 782))
    ]
    assert numbers(text) == [round(epsilon, 3) for epsilon in expected]
    halved = {**RUN, "noise_multiplier": 1.0}
    with_microbatches = compute_dp_sgd_privacy_statement(**RUN, max_examples_per_user=8)
    without = compute_dp_sgd_privacy_statement(**halved, used_microbatching=False, max_examples_per_user=8)
    assert numbers(with_microbatches) == numbers(without)


def test_the_kind_of_accounting_has_no_effect():
    texts = {compute_dp_sgd_privacy_statement(**RUN, accountant_type=kind) for kind in AccountantType}
    assert len(texts) == 1
    assert max(map(len, texts.pop().splitlines())) <= 80


@pytest.mark.parametrize(
    ("n", "batch", "noise", "epochs", "delta", "of_rdp"),
    [
        # The cases of its test.
        (60_000, 150, 1.3, 15, 1e-5, 0.7242234026109595),
        (100_000, 100, 1.0, 30, 1e-7, 1.4154988495444842),
        (100_000_000, 1024, 0.1, 10, 1e-7, 5907982.3113984),
    ],
)
def test_epsilons_are_below_those_of_renyi(n, batch, noise, epochs, delta, of_rdp):
    epsilon, order = compute_dp_sgd_privacy(n, batch, noise, epochs, delta)
    assert order is None
    steps = -(-epochs * n // batch)
    assert epsilon == hs.get_epsilon(delta=delta, noise_multiplier=noise, sample_rate=batch / n, steps=steps)
    assert epsilon < of_rdp


def test_noise_meets_the_target_and_the_least_that_is_wanted():
    noise = compute_noise(60_000, 150, target_epsilon=1.0, epochs=15, delta=1e-5, noise_lbd=0.5)
    assert 0.9999 < compute_dp_sgd_privacy(60_000, 150, noise, 15, 1e-5)[0] <= 1.0
    assert compute_noise(60_000, 150, 1.0, 15, 1e-5, noise_lbd=2.0) == 2.0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"batch_size": 20_000}, ValueError, "batch_size must be a whole number"),
        ({"num_epochs": -1.0}, ValueError, "num_epochs must be in"),
        ({"noise_multiplier": -1.0}, ValueError, "noise_multiplier must be"),
        ({"delta": 1.5}, ValueError, "delta must be in"),
        ({"max_examples_per_user": 0}, ValueError, "max_examples_per_user must be"),
        ({"used_microbatching": 1}, TypeError, "used_microbatching must be"),
    ],
)
def test_what_is_out_of_range_is_named(change, error, words):
    with pytest.raises(error, match=words):
        compute_dp_sgd_privacy_statement(**{**RUN, **change})
