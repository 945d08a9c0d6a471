"""Models of the experiments: gradients against finite differences and against the library's reference."""

import numpy as np
import pytest

from benches.experiments import clipping
from benches.experiments.clipping import Candidate, Data, SoftmaxCandidates, train
from benches.experiments.convolutional import Convolutional
from benches.experiments.dpsgd import Training
from benches.experiments.membership import success
from benches.experiments.models import Linear, accuracy
from hockeystick import training

ROWS = np.hstack([np.random.default_rng(1).random((6, 784)), np.ones((6, 1))]).astype(np.float32)
LABELS = np.array([0, 1, 2, 1, 0, 2])
MODELS = {
    "softmax": Linear(785, 3),
    "hinge": Linear(785, 3, "hinge"),
    "convolutional": Convolutional(3),
}


def weights_of(name):
    model = MODELS[name]
    random = np.random.default_rng(2)
    return model.initial(1) + 0.05 * random.standard_normal(model.initial(1).size).astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_finite_differences(name):
    model, weights = MODELS[name], weights_of(name)
    direction = np.random.default_rng(3).standard_normal(weights.size).astype(np.float32)
    step = 1e-2 if name != "hinge" else 1e-4
    for i in range(len(ROWS)):
        one, label = ROWS[i : i + 1], LABELS[i : i + 1]
        gradient, _ = model.clipped_sum(weights, one, label, np.inf)
        # Along the gradient the loss changes by its norm, and along any other way by a product.
        for way in (gradient / np.linalg.norm(gradient), direction / np.linalg.norm(direction)):
            ahead, behind = (model.losses(weights + s * way, one, label)[0] for s in (step, -step))
            found = (ahead - behind) / (2 * step)
            assert found == pytest.approx(float(gradient @ way), rel=2e-2, abs=5e-3)
        assert model.norms(weights, one, label)[0] == pytest.approx(np.linalg.norm(gradient), rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_every_gradient_is_clipped_to_its_own_bound(name):
    model, weights = MODELS[name], weights_of(name)
    norms = model.norms(weights, ROWS, LABELS)
    bounds = np.median(norms) * np.array([0.1, 0.5, 0.9, 1.1, 2.0, 4.0])
    total, unclipped = model.clipped_sum(weights, ROWS, LABELS, bounds)
    alone = [model.clipped_sum(weights, ROWS[i : i + 1], LABELS[i : i + 1], np.inf)[0] for i in range(6)]
    expected = sum(g * min(1.0, b / max(np.linalg.norm(g), 1e-9)) for g, b in zip(alone, bounds, strict=True))
    assert total == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert unclipped == np.count_nonzero(norms <= bounds)


def test_the_sum_of_the_library_s_softmax_regression_is_the_same():
    reference = training.SoftmaxRegression(784, 3)
    weights = weights_of("softmax")
    gradients = reference.gradients(weights.astype(float), ROWS[:, :-1], LABELS)
    bound = float(np.median(np.linalg.norm(gradients, axis=1)))
    total, _ = MODELS["softmax"].clipped_sum(weights, ROWS, LABELS, bound)
    assert total == pytest.approx(training.individual_clipping(gradients, bound), rel=1e-4, abs=1e-5)


def run(**options):
    values = {
        "model": MODELS["softmax"],
        "rows": ROWS,
        "labels": LABELS,
        "sample_rate": 0.5,
        "steps": 30,
        "noise_multiplier": 0.0,
        "clipping_norm": 5.0,
        "learning_rate": 0.02,
    }
    return Training(**(values | options))


def test_training_without_noise_fits_and_equal_seeds_give_equal_weights():
    first, second = (run(sample_rate=1.0, steps=300).run(seed=3) for _ in range(2))
    assert np.array_equal(first, second)
    assert accuracy(MODELS["softmax"], first, ROWS, LABELS) == 1.0


def test_the_noise_has_the_size_that_is_accounted_for():
    quiet = run(sample_rate=0.0, steps=1, noise_multiplier=2.0, learning_rate=1.0)
    quiet.sample_rate = 1e-9  # an empty batch: the move is the noise alone, divided by the expected size
    moved = quiet.run(seed=1) * 1e-9 * len(ROWS)
    assert np.std(moved) == pytest.approx(2.0 * 5.0, rel=0.05)


def test_the_bounds_of_single_examples_are_used():
    weights = run(sample_rate=1.0, steps=1, bounds=lambda batch: np.where(batch == 0, 1.0, 0.0)).run(seed=1)
    alone, _ = MODELS["softmax"].clipped_sum(np.zeros(785 * 3, dtype=np.float32), ROWS[:1], LABELS[:1], 1.0)
    assert weights == pytest.approx(-0.02 / 6 * alone, rel=1e-4, abs=1e-8)


def test_the_clipping_norm_follows_the_quantile():
    rows = ROWS * np.arange(1.0, 7.0, dtype=np.float32)[:, None]
    norms = np.sort(MODELS["softmax"].norms(np.zeros(785 * 3, dtype=np.float32), rows, LABELS))
    adaptive = run(rows=rows, sample_rate=1.0, steps=60, quantile=0.5, learning_rate=0.0)
    adaptive.run(seed=1)
    assert adaptive.norms[0] == 5.0
    assert norms[2] <= adaptive.norms[-1] <= norms[3]


def test_the_updates_of_side_by_side_candidates_are_those_of_single_models():
    model = MODELS["softmax"]
    kinds = [Candidate(False, 2.0, 1.0), Candidate(True, 0.5, 1.0), Candidate(True, 1e3, 1.0)]
    side_by_side = SoftmaxCandidates(785, 3, kinds)
    side_by_side.weights += np.linspace(-0.1, 0.1, 785 * 3, dtype=np.float32)
    weights = side_by_side.weights[0]
    individual, batch, far = side_by_side.updates(ROWS, LABELS)
    assert individual == pytest.approx(model.clipped_sum(weights, ROWS, LABELS, 2.0)[0] / 12, abs=1e-5)
    mean = model.clipped_sum(weights, ROWS, LABELS, np.inf)[0] / 6
    assert np.linalg.norm(mean) > 0.5
    assert batch == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    assert far == pytest.approx(mean / 1e3, abs=1e-7)


def test_the_noise_of_both_ways_to_clip_has_its_size():
    kinds = [Candidate(False, 2.0, 1.0), Candidate(True, 0.5, 1.0)]
    rows = np.zeros((6, 785), dtype=np.float32)  # no gradient: the move is the noise alone
    models = SoftmaxCandidates(785, 3, kinds)
    data = Data(rows, LABELS, (rows, LABELS), (rows, LABELS))
    found = train(models, kinds, data, batch_size=3, epochs=1, noise_multiplier=4.0)
    # Two steps of 1/2 each, noise 4 for a batch, and a third of it for the mean of three examples.
    expected = [4.0 * 0.5 * 2**0.5 / 3, 4.0 * 0.5 * 2**0.5]
    assert models.weights.std(axis=1) == pytest.approx(expected, rel=0.05)
    assert found["held_out"].shape == found["tests"].shape == (1, 2)


def test_the_epochs_after_which_is_tested_end_with_the_last():
    assert clipping.tested_after(3) == [1, 2, 3]
    assert clipping.tested_after(100)[0] == 5
    assert clipping.tested_after(100)[-1] == 100
    assert len(clipping.tested_after(100)) == 20


def test_the_attack_finds_members_with_smaller_losses_and_nobody_else():
    random = np.random.default_rng(1)
    assert success(np.full(50, 0.1), np.full(80, 0.9), random) == 1.0
    same = success(random.random(4000), random.random(4000), random)
    assert same == pytest.approx(0.5, abs=0.03)
