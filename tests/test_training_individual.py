"""Gradient norms, and the accounting of individual examples in NumPy training."""

import math

import numpy as np
import pytest
from norm_recorder import NormRecorder

from hockeystick import training

RUN = {
    "dataset_size": 40,
    "batch_size": 8,
    "epochs": 3,
    "max_grad_norm": 1.0,
    "noise_multiplier": 1.2,
    "learning_rate": 0.3,
    "seed": 1,
    "sampling": "poisson",
}
STEPS = 15
DATA = np.random.default_rng(5).normal(size=(40, 3)) * np.geomspace(0.05, 3.0, 40)[:, None]


class Model:
    """Half the squared distance to every example; it keeps the weights and the indices it is asked for."""

    def __init__(self):
        self.calls = []

    def __call__(self, weights, indices):
        self.calls.append((weights.copy(), indices.copy()))
        return weights - DATA[indices]


def train(accountant=None, model=None, **changes):
    return training.train(model or Model(), np.zeros(3), **RUN | changes, accountant=accountant)


def distances(weights):
    return np.array([math.dist(weights, row) for row in DATA])


@pytest.mark.parametrize("chunk_size", [1, 7, 40, 1000])
def test_the_norms_are_those_of_every_example_whatever_the_chunks(chunk_size):
    weights, seen = np.array([0.3, -0.2, 0.1]), []
    norms = training.gradient_norms(
        Model(), weights, dataset_size=40, chunk_size=chunk_size, progress=lambda *done: seen.append(done)
    )
    np.testing.assert_allclose(norms, distances(weights), rtol=1e-14)
    assert seen[-1] == (40, 40)
    assert len(seen) == -(-40 // chunk_size)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"gradients": None}, TypeError, "gradients must be a function"),
        ({"weights": [math.nan]}, ValueError, "weights must be finite, got nan"),
        ({"dataset_size": 0}, ValueError, "dataset_size"),
        ({"chunk_size": 0}, ValueError, "chunk_size"),
        ({"gradients": lambda w, i: np.zeros((1, 3))}, ValueError, r"gradients must be of shape \(40, 3\)"),
        ({"gradients": lambda w, i: np.full((40, 3), math.inf)}, ValueError, "rows of finite squared norm"),
        ({"progress": 3}, TypeError, "progress"),
    ],
)
def test_bad_arguments_of_gradient_norms_are_refused(arguments, error, message):
    usual = {"gradients": Model(), "weights": np.zeros(3), "dataset_size": 40}
    with pytest.raises(error, match=message):
        training.gradient_norms(**usual | arguments)


@pytest.mark.parametrize("refresh_every", [None, 1, 4, 100])
def test_accounting_changes_no_weight(refresh_every):
    recorder = NormRecorder(40)
    watched, _ = train(recorder, refresh_every=refresh_every)
    alone, _ = train()
    np.testing.assert_array_equal(watched, alone)
    assert len(recorder) == STEPS
    assert {step[:2] for step in recorder.steps} == {(1.2, 0.2)}


def test_every_step_is_accounted_with_the_norms_at_the_weights_of_its_gradients():
    model, recorder = Model(), NormRecorder(40)
    train(recorder, model)
    # The last call before a step is about its batch, unless that is empty; the one before about all.
    everyone = [weights for weights, indices in model.calls if np.array_equal(indices, np.arange(40))]
    assert len(everyone) == len(recorder.steps) == STEPS
    for weights, (_, _, norms) in zip(everyone, recorder.steps, strict=True):
        np.testing.assert_allclose(norms, np.minimum(distances(weights), 1.0), rtol=1e-14)
    batches = [(weights, indices) for weights, indices in model.calls if len(indices) < 40]
    for weights, _ in batches:
        assert any(np.array_equal(weights, each) for each in everyone)


def test_norms_serve_for_as_many_steps_as_told_and_a_resumed_run_keeps_the_rhythm():
    recorder = NormRecorder(40)
    train(recorder, refresh_every=4)
    assert len(recorder.told) == 4  # before steps 0, 4, 8 and 12 of 15
    train(recorder, refresh_every=4)
    assert len(recorder) == 2 * STEPS
    assert len(recorder.told) == 8  # and 16, 20, 24 and 28 of 30
    for step, (_, _, norms) in enumerate(recorder.steps):
        np.testing.assert_array_equal(norms, np.minimum(recorder.told[step // 4], 1.0))


def test_individual_clipping_clips_every_example_to_its_own_norm():
    model, recorder = Model(), NormRecorder(40, individual_clipping=True)
    final, _ = train(recorder, model, refresh_every=4, noise_multiplier=0.0)
    weights, step = np.zeros(3), 0
    for _, batch in model.calls:
        if len(batch) == 40:
            continue
        thresholds = np.minimum(recorder.told[step // 4], 1.0)[batch]
        rows = weights - DATA[batch]
        update = sum(row * min(1.0, z / math.hypot(*row)) for row, z in zip(rows, thresholds, strict=True))
        weights = weights - 0.3 * update / 8
        step += 1
    assert step == STEPS
    np.testing.assert_allclose(final, weights, rtol=1e-12)
    free, _ = train(noise_multiplier=0.0)
    assert not np.allclose(final, free, rtol=1e-3)


def test_removing_an_example_moves_the_update_by_at_most_its_own_norm():
    norms = np.array([0.0, 0.2, 0.5, 2.0])
    rows = np.array([[5.0, 0.0], [3.0, 4.0], [0.1, 0.0], [0.0, 7.0]])
    together = training.individual_clipping(rows, norms)
    for i, norm in enumerate(norms):
        rest = training.individual_clipping(np.delete(rows, i, 0), np.delete(norms, i))
        assert math.hypot(*(together - rest)) <= norm + 1e-14


def test_thresholds_of_zero_silence_an_example():
    rows = [[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]]
    np.testing.assert_array_equal(training.individual_clipping(rows, [0.0, 0.0, 1e150]), [3.0, 0.0])
    np.testing.assert_array_equal(training.individual_clipping(np.empty((0, 2)), []), [0.0, 0.0])


@pytest.mark.parametrize(
    ("norms", "message"),
    [
        ([1.0], r"max_grad_norm must be of shape \(2,\), got shape \(1,\)"),
        ([1.0, -1.0], r"max_grad_norm must be in \[0, 1e\+150\] for every example, got -1.0"),
        ([1.0, math.nan], "for every example, got nan"),
        ([1.0, math.inf], "for every example, got inf"),
        (0.0, r"max_grad_norm must be in \[1e-150"),
    ],
)
def test_bad_norms_are_refused(norms, message):
    with pytest.raises(ValueError, match=message):
        training.individual_clipping([[1.0], [2.0]], norms)


@pytest.mark.parametrize(
    ("accountant", "changes", "error", "message"),
    [
        (NormRecorder(41), {}, ValueError, "accountant.dataset_size must be that of training, 40, got 41"),
        (NormRecorder(40, 2.0), {}, ValueError, "accountant.max_grad_norm must be that of training, 1.0"),
        (NormRecorder(40), {"units": 1}, ValueError, "units must be None with an IndividualAccountant"),
        (NormRecorder(40), {"refresh_every": 0}, ValueError, "refresh_every"),
        (None, {"refresh_every": 1}, TypeError, "refresh_every is for an IndividualAccountant"),
    ],
)
def test_accountants_that_do_not_fit_are_refused(accountant, changes, error, message):
    with pytest.raises(error, match=message):
        train(accountant, **changes)
