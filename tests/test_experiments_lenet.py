"""LeNet-5 of the experiments: its clipped means against gradients of single examples."""

import numpy as np
import pytest

from benches.experiments.clipping import Candidate

pytestmark = pytest.mark.opacus  # needs PyTorch

ROWS = np.random.default_rng(1).standard_normal((6, 785)).astype(np.float32)
LABELS = np.array([0, 3, 1, 9, 3, 2])


def made(*candidates):
    from benches.experiments.lenet import LeNetCandidates

    return LeNetCandidates(10, list(candidates))


def test_every_gradient_is_clipped_on_its_own():
    far = Candidate(False, 1e6, 1.0)
    alone = [1e6 * made(far).updates(ROWS[i : i + 1], LABELS[i : i + 1])[0] for i in range(6)]
    norms = np.linalg.norm(alone, axis=1)
    bound = float(np.median(norms))
    expected = np.mean([g * min(1.0, bound / n) for g, n in zip(alone, norms, strict=True)], axis=0) / bound
    found = made(Candidate(False, bound, 1.0)).updates(ROWS, LABELS)[0]
    assert np.count_nonzero(norms > bound) == 3
    assert found == pytest.approx(expected, abs=1e-5)


def test_batch_clipping_clips_the_mean():
    far, near = made(Candidate(True, 1e3, 1.0), Candidate(True, 1e-3, 1.0)).updates(ROWS, LABELS)
    without = 1e6 * made(Candidate(False, 1e6, 1.0)).updates(ROWS, LABELS)[0]
    assert 1e3 * far == pytest.approx(without, abs=1e-4)
    assert np.linalg.norm(near) == pytest.approx(1.0, rel=1e-5)
    assert near == pytest.approx(without / np.linalg.norm(without), abs=1e-5)


def test_gradients_are_those_that_pytorch_derives():
    import torch
    from torch.nn import functional

    models = made(Candidate(False, 1e6, 1.0))
    found = 1e6 * models.updates(ROWS, LABELS)[0]
    weights = torch.from_numpy(models.weights[0].copy()).requires_grad_()
    parts = models._parts()[0]
    parts = [
        part.view(shape.shape)
        for part, shape in zip(torch.split(weights, [each.numel() for each in parts]), parts, strict=True)
    ]
    layer = torch.from_numpy(ROWS[:, :784].copy()).reshape(-1, 1, 28, 28)
    for kernels, biases, shape, padding in ((*parts[:2], (6, 1, 5, 5), 2), (*parts[2:4], (16, 6, 5, 5), 0)):
        given = functional.conv2d(layer, kernels.reshape(shape), biases, padding=padding)
        layer = functional.avg_pool2d(torch.tanh(given), 2)
    hidden = torch.tanh(functional.linear(layer.flatten(1), *parts[4:6]))
    hidden = torch.tanh(functional.linear(hidden, *parts[6:8]))
    scores = functional.linear(hidden, *parts[8:])
    functional.cross_entropy(scores, torch.from_numpy(LABELS)).backward()
    expected = weights.grad.numpy()
    # A gradient divided by a clipping norm of a million has seven digits, as every float of 32 bits.
    assert found == pytest.approx(expected, abs=1e-6 * float(np.abs(expected).max()) + 1e-7)
    hits = np.mean(scores.argmax(dim=1).numpy() == LABELS)
    assert models.accuracies(ROWS, LABELS)[0] == hits


def test_large_batches_are_the_mean_of_their_pieces():
    from benches.experiments.lenet import AT_ONCE

    random = np.random.default_rng(2)
    size = 2 * AT_ONCE + 7
    rows, labels = random.standard_normal((size, 785)).astype(np.float32), random.integers(0, 10, size)
    own, batch = Candidate(False, 0.7, 1.0), Candidate(True, 1e3, 1.0)
    found = made(own, batch).updates(rows, labels)
    pieces = [slice(0, 10), slice(10, size)]
    means = [
        (part.stop - part.start) / size * made(own, batch).updates(rows[part], labels[part])
        for part in pieces
    ]
    assert found[0] == pytest.approx(sum(means)[0], abs=1e-6)
    assert found[1] == pytest.approx(sum(means)[1], abs=1e-8)


def test_long_trainings_have_longer_paths():
    from benches.experiments.shuffle_training import CLIPPINGS, LONG_EPOCHS, candidates_of

    for is_batch in (clipping == "batch" for clipping in CLIPPINGS):
        of = {
            epochs: [each.path for each in candidates_of("LeNet-5", epochs) if each.is_batch == is_batch]
            for epochs in (3, LONG_EPOCHS)
        }
        assert min(of[3]) < min(of[LONG_EPOCHS]), is_batch


def test_the_best_is_trained_on_as_if_alone():
    from benches.experiments.clipping import Data, SoftmaxCandidates, train

    random = np.random.default_rng(3)
    rows, labels = random.standard_normal((64, 785)).astype(np.float32), random.integers(0, 10, 64)
    parts = Data(rows, labels, (rows[:32], labels[:32]), (rows[32:], labels[32:]))
    candidates = [Candidate(way, 1.0, path) for way in (False, True) for path in (1e-4, 30.0)]
    for models in (lambda: made(*candidates), lambda: SoftmaxCandidates(785, 10, candidates)):
        whole = train(models(), candidates, parts, 16, 4, 0.1)
        found = train(models(), candidates, parts, 16, 4, 0.1, choose_after=2)
        for accuracies, every in ((found["held_out"], whole["held_out"]), (found["tests"], whole["tests"])):
            given_up = np.isnan(accuracies[-1])
            for own in (slice(0, 2), slice(2, 4)):
                assert np.argmax(given_up[own]) != np.argmax(whole["held_out"][1, own])
            assert np.count_nonzero(given_up) == 2
            assert np.isnan(accuracies[2:, given_up]).all()
            assert (accuracies[:, ~given_up] == every[:, ~given_up]).all()
            assert (accuracies[:2] == every[:2]).all()
