"""Adaptive clipping: a clipped sum and a count, both with noise, are one Gaussian query."""

import itertools
import json
import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import GroupAccountant, RenyiGroupAccountant

DELTA = 1e-5
CLIPPING = hs.AdaptiveClipping(noise_multiplier=1.0, count_noise=2.0)
RUN = {"sample_rate": 0.05, "steps": 20}


def test_the_joint_noise_is_that_of_the_theorem_and_rounded_down():
    for total, count in itertools.product((1e-200, 0.3, 1.0, 7.0, 1e200), repeat=2):
        found = hs.AdaptiveClipping(total, count).joint_noise_multiplier
        least, most = sorted((total, 2.0 * count))
        exact = least / math.sqrt(1.0 + (least / most) ** 2)
        assert exact * (1.0 - 3e-15) <= found <= exact
    assert hs.AdaptiveClipping(0.0, 1.0).joint_noise_multiplier == 0.0
    assert hs.AdaptiveClipping(1.0, 0.0).joint_noise_multiplier == 0.0


def delta_in_the_plane(epsilon, rate, members, noise, count_noise, direction):
    """Delta of one step by a double sum over the noisy sum and the noisy count.

    All members have one gradient of full norm and all were clipped: k in the batch move the sum by k and the
    count, less one half each, by k / 2.
    """
    reach = 9.0
    x = np.linspace(-reach * noise, (members + reach) * noise + members, 1501)[:, None]
    y = np.linspace(-reach * count_noise, members + (reach + 1) * count_noise, 1501)[None, :]

    def density(k):
        return np.exp(-0.5 * ((x - k) / noise) ** 2 - 0.5 * ((y - 0.5 * k) / count_noise) ** 2) / (
            2.0 * math.pi * noise * count_noise
        )

    mixture = sum(
        math.comb(members, k) * rate**k * (1.0 - rate) ** (members - k) * density(k)
        for k in range(members + 1)
    )
    one, other = (mixture, density(0)) if direction == "remove" else (density(0), mixture)
    cell = (x[1, 0] - x[0, 0]) * (y[0, 1] - y[0, 0])
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum() * cell)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("members", "noise", "count_noise"), [(1, 1.0, 0.4), (1, 0.8, 3.0), (2, 1.0, 1.0), (3, 2.0, 1.5)]
)
def test_the_sum_and_the_count_are_one_query(members, noise, count_noise, direction):
    for epsilon in (0.1, 0.7):
        found = hs.get_delta(
            epsilon=epsilon,
            mechanism=hs.AdaptiveClipping(noise, count_noise),
            sample_rate=0.3,
            steps=1,
            group_size=members,
            adjacency=direction,
        )
        exact = delta_in_the_plane(epsilon, 0.3, members, noise, count_noise, direction)
        assert found == pytest.approx(exact, rel=2e-4, abs=1e-9)


def test_it_is_the_gaussian_of_the_joint_noise_everywhere():
    joint = CLIPPING.joint_noise_multiplier
    for how in (
        {},
        {"group_size": 3},
        {"adjacency": "replace"},
        {"group": hs.Group(norms=[1.0, 1.0])},
    ):
        found = hs.get_epsilon(delta=DELTA, mechanism=CLIPPING, **RUN, **how)
        assert found == hs.get_epsilon(delta=DELTA, noise_multiplier=joint, **RUN, **how)
        assert found > hs.get_epsilon(delta=DELTA, noise_multiplier=1.0, **RUN, **how)
    fixed = {"delta": DELTA, "sampling": hs.WithoutReplacement(5, 100), "steps": 3}
    assert hs.get_epsilon(mechanism=CLIPPING, **fixed) == hs.get_epsilon(noise_multiplier=joint, **fixed)
    both = hs.privacy_curve(mechanism=CLIPPING, **RUN) + hs.privacy_curve(noise_multiplier=1.0, **RUN)
    assert "AdaptiveClipping(1, 2)" in str(both)
    assert both.epsilon(DELTA) > hs.get_epsilon(delta=DELTA, mechanism=CLIPPING, **RUN)


@pytest.mark.parametrize(
    ("group", "moved"),
    [
        (hs.Group(norms=[1.0, 0.01]), 1.01),
        (hs.Group(size=2, gradients="orthogonal"), math.sqrt(2)),
        (hs.Group(size=2, cosine=0.5), math.sqrt(3)),
    ],
)
def test_members_that_move_the_sum_less_move_the_count_by_one_half_each(group, moved):
    # A full batch: the sum moves by `moved` under noise 1, and the count by 2/2 under noise 0.6.
    shift = math.hypot(moved, 2 * 0.5 / 0.6)
    attained = math.erf(shift / 2 / math.sqrt(2))
    noise = hs.AdaptiveClipping(1.0, 0.6)
    run = {"sampling": hs.FullBatch(), "steps": 1}
    scaled = hs.get_delta(epsilon=0.0, noise_multiplier=noise.joint_noise_multiplier, group=group, **run)
    assert scaled < attained
    assert hs.get_delta(epsilon=0.0, mechanism=noise, group_size=2, **run) > attained
    with pytest.raises(hs.UnsupportedError, match="moves the count of clipped gradients by 1/2"):
        hs.privacy_curve(mechanism=noise, group=group, **run)


def test_accountants_keep_it_and_states_do_too():
    for kind in (GroupAccountant, RenyiGroupAccountant):
        accountant = kind()
        accountant.step(mechanism=CLIPPING, sample_rate=0.05)
        assert accountant.history == [(CLIPPING, 0.05, 1)]
        plain = kind()
        plain.step(noise_multiplier=CLIPPING.joint_noise_multiplier, sample_rate=0.05)
        assert accountant.get_epsilon(DELTA) == plain.get_epsilon(DELTA)
        other = kind()
        other.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
        assert other.history == accountant.history


def test_what_is_printed_names_it(tmp_path):
    explained = hs.explain(delta=DELTA, mechanism=CLIPPING, **RUN)
    assert explained["mechanism"] == repr(CLIPPING)
    path = tmp_path / "privacy.md"
    hs.report(hs.privacy_curve(mechanism=CLIPPING, **RUN), path, delta=DELTA, group_sizes=[1])
    assert f"mechanism=hs.{CLIPPING!r}" in path.read_text()


def test_many_different_ones_are_answered():
    curve = hs.privacy_curve(mechanism=CLIPPING, **RUN)
    for i in range(30):
        curve = curve + hs.privacy_curve(
            mechanism=hs.AdaptiveClipping(1.0, 2.0 + 0.1 * i), sample_rate=0.05, steps=1
        )
    assert curve.epsilon(DELTA) > hs.get_epsilon(
        delta=DELTA, noise_multiplier=1.0, sample_rate=0.05, steps=50
    )


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_arguments_are_checked(wrong):
    with pytest.raises(ValueError, match="noise_multiplier"):
        hs.AdaptiveClipping(wrong, 1.0)
    with pytest.raises(ValueError, match="count_noise"):
        hs.AdaptiveClipping(1.0, wrong)
    with pytest.raises(TypeError, match="count_noise"):
        hs.AdaptiveClipping(1.0, "much")
    with pytest.raises(TypeError, match="takes no mechanism"):
        hs.get_noise_multiplier(
            epsilon=1.0, delta=DELTA, sample_rate=0.1, steps=3, mechanism=hs.AdaptiveClipping
        )


def adaptive_run(path, on_mismatch):
    """Two steps of Opacus's optimizer with adaptive clipping, accounted for in one of three ways."""
    import opacus
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    data = torch.utils.data.TensorDataset(torch.randn(40, 3), torch.randint(0, 2, (40,)))
    loader = torch.utils.data.DataLoader(data, batch_size=10)
    accountant = GroupAccountant()
    if path == "engine":
        engine = hs.opacus.PrivacyEngine(accountant=accountant, on_mismatch=on_mismatch)
    else:
        engine = opacus.PrivacyEngine()
        if path == "hook":
            engine.accountant = accountant
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.1,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=2.0,
    )
    if path == "attach":
        hs.opacus.attach(accountant, optimizer, loader, on_mismatch=on_mismatch)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data.tensors[0][:8]), data.tensors[1][:8]).backward()
        optimizer.step()
    return accountant


@pytest.mark.opacus
@pytest.mark.filterwarnings("ignore")  # what torch and Opacus warn about is theirs
@pytest.mark.parametrize("path", ["engine", "attach"])
def test_what_opacus_releases_is_charged(path):
    with pytest.warns(hs.SamplingMismatchWarning, match="exact number of records"):
        accountant = adaptive_run(path, "warn")
    assert len(accountant) == 2
    with pytest.raises(hs.SamplingMismatchError, match="AdaClipDPOptimizer"):
        accountant.get_epsilon(DELTA)
    with pytest.raises(hs.SamplingMismatchError, match="exact number of records"):
        adaptive_run(path, "raise")
    # The noise of the sum is (1 - 1/16)^(-1/2), that of the count, which a record changes by 1, is 2.
    charged = adaptive_run(path, "ignore")
    ((noise, rate, steps),) = charged.history
    assert noise == pytest.approx((1.0 + 0.75 / 4.0) ** -0.5, rel=1e-12)
    assert (rate, steps) == (0.25, 2)


@pytest.mark.opacus
@pytest.mark.filterwarnings("ignore")
def test_a_hook_alone_says_why_there_is_no_answer():
    accountant = adaptive_run("hook", "warn")
    with pytest.raises(hs.SamplingMismatchError, match="on_mismatch='ignore'"):
        accountant.get_epsilon(DELTA)
