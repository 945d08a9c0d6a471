"""PITFALLS, section 1: Rényi accounting of replaced records in fixed batches beside the joined pair."""

import numpy as np
import pytest

from benches.compare import replacement

pytestmark = pytest.mark.opacus  # needs dp-accounting


def test_no_renyi_accountant_gives_a_smaller_epsilon(monkeypatch):
    """A part of the settings of benches/compare/replacement.py, the paper's noise of 0.8 among them."""
    monkeypatch.setattr(replacement, "NOISE_MULTIPLIERS", (0.8, 4.0))
    monkeypatch.setattr(replacement, "BATCHES", ((100, 100_000), (10_000, 100_000)))
    monkeypatch.setattr(replacement, "STEPS", (1, 1_000))
    found = replacement.compare()
    assert len(found) == 24
    assert all(each.ours < each.by_renyi or each.ours == each.by_renyi == 0.0 for each in found)
    ratios = [each.by_renyi / each.ours for each in found if each.ours > 0.0]
    assert min(ratios) > 1.08
    assert np.median(ratios) > 1.3
