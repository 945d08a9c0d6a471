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
