"""A PyTorch optimizer that clips whole batches, and what is charged for its steps."""

import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import GroupAccountant, RenyiGroupAccountant, ShuffleAccountant

pytestmark = [
    pytest.mark.opacus,
    # What torch warns about on import and in hooks is its own.
    pytest.mark.filterwarnings("ignore"),
]


def examples():
    """Inputs and labels of 20 examples."""
    import torch

    inputs = torch.linspace(-1.0, 1.0, 60).reshape(20, 3)
    return inputs, inputs.sum(dim=1, keepdim=True)


def made(noise=0.0, norm=0.5, inner="SGD", **more):
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1).double()
    optimizer = hs.opacus.BatchClippingOptimizer(
        getattr(torch.optim, inner)(model.parameters(), lr=0.1),
        noise_multiplier=noise,
        max_grad_norm=norm,
        **more,
    )
    return model, optimizer


def loss(model, rows):
    inputs, labels = examples()
    return ((model(inputs[rows].double()) - labels[rows]) ** 2).mean()


def vector(model, of=lambda each: each):
    return np.concatenate([of(each).detach().numpy().ravel() for each in model.parameters()])


def gradient(model, rows):
    model.zero_grad()
    loss(model, rows).backward()
    found = vector(model, lambda each: each.grad)
    model.zero_grad()
    return found


def clipped(update, norm):
    return update / max(1.0, (math.hypot(*update) + 1e-6) / norm)


def test_the_whole_gradient_is_clipped():
    for norm in (0.05, 100.0):
        model, optimizer = made(norm=norm)
        before, update = vector(model), gradient(model, range(8))
        optimizer.zero_grad()
        loss(model, range(8)).backward()
        optimizer.step()
        np.testing.assert_allclose(vector(model), before - 0.1 * clipped(update, norm), rtol=1e-12)
        assert (math.hypot(*update) > norm) is (norm == 0.05)


def test_batches_that_are_added_up_are_one_unit():
    model, optimizer = made(norm=0.05)
    before, update = vector(model), gradient(model, range(8)) + gradient(model, range(8, 16))
    for rows in (range(8), range(8, 16)):
        loss(model, rows).backward()
    optimizer.step()
    np.testing.assert_allclose(vector(model), before - 0.1 * clipped(update, 0.05), rtol=1e-12)


@pytest.mark.parametrize("last_is_ended", [False, True])
def test_units_are_clipped_one_by_one_and_divided_by_their_number(last_is_ended):
    model, optimizer = made(norm=0.05)
    before = vector(model)
    parts = [clipped(gradient(model, rows), 0.05) for rows in (range(4), range(4, 8), range(8, 12))]
    for place, rows in enumerate((range(4), range(4, 8), range(8, 12))):
        optimizer.zero_grad()
        loss(model, rows).backward()
        if place < 2 or last_is_ended:
            optimizer.end_unit()
    optimizer.step()
    np.testing.assert_allclose(vector(model), before - 0.1 * sum(parts) / 3, rtol=1e-12)


def test_the_noise_is_that_of_the_multiplier_and_of_the_generator():
    import torch

    drawn = []
    for seed in range(400):
        model, optimizer = made(noise=3.0, norm=0.5, generator=torch.Generator().manual_seed(seed))
        before = vector(model)
        optimizer.step()  # an empty batch
        drawn.append((before - vector(model)) / 0.1)
    assert np.std(drawn) == pytest.approx(1.5, rel=0.05)
    assert abs(np.mean(drawn)) < 0.15
    model, optimizer = made(noise=3.0, norm=0.5, generator=torch.Generator().manual_seed(7))
    before = vector(model)
    optimizer.step()
    np.testing.assert_array_equal((before - vector(model)) / 0.1, drawn[7])


def test_a_gradient_that_is_not_finite_counts_as_zero():
    model, optimizer = made(norm=0.5)
    before = vector(model)
    (loss(model, range(4)) * math.nan).backward()
    optimizer.step()
    np.testing.assert_array_equal(vector(model), before)


def test_adam_and_a_scheduler_are_those_of_torch():
    import torch

    model, optimizer = made(norm=0.05, inner="Adam")
    other, _ = made()
    plain = torch.optim.Adam(other.parameters(), lr=0.1)
    schedulers = [torch.optim.lr_scheduler.StepLR(each, 1, 0.5) for each in (optimizer, plain)]
    for rows in (range(4), range(4, 8), range(8, 12)):
        optimizer.zero_grad()
        loss(model, rows).backward()
        optimizer.step()
        update = torch.tensor(clipped(gradient(other, rows), 0.05))
        other.weight.grad, other.bias.grad = update[:3].reshape(1, 3), update[3:]
        plain.step()
        for scheduler in schedulers:
            scheduler.step()
    np.testing.assert_allclose(vector(model), vector(other), rtol=1e-9)
    assert optimizer.param_groups[0]["lr"] == 0.1 / 8
    _, again = made(norm=0.05, inner="Adam")
    again.load_state_dict(optimizer.state_dict())
    assert again.param_groups[0]["lr"] == 0.1 / 8


# What is charged


def test_steps_are_charged_as_batches_clipped_as_a_whole():
    for sampling, charged in (
        (hs.Poisson(0.1), 0.1),
        (hs.WithoutReplacement(4, 20), hs.WithoutReplacement(4, 20)),
        (hs.FullBatch(), hs.FullBatch()),
    ):
        accountant = GroupAccountant(group_size=3)
        model, optimizer = made(noise=4.0, accountant=accountant, sampling=sampling)
        for rows in (range(4), range(4, 8)):
            optimizer.zero_grad()
            loss(model, rows).backward()
            optimizer.step()
        assert accountant.history == [(hs.BatchClipping(4.0), charged, 2)]
        assert accountant.get_epsilon(1e-5) > 0.0


def test_several_batches_under_one_noise_are_charged():
    accountant = GroupAccountant()
    model, optimizer = made(noise=4.0, accountant=accountant, sampling=hs.Poisson(0.1))
    for rows in (range(4), range(4, 8), range(8, 12)):
        loss(model, rows).backward()
    optimizer.step()  # one unit of three batches
    for rows in (range(4), range(4, 8)):
        loss(model, rows).backward()
        optimizer.end_unit()
    optimizer.step()  # two units
    (_, first, _), (_, second, _) = accountant.history
    assert first == pytest.approx(1 - 0.9**3, rel=1e-12)
    assert first >= 1 - 0.9**3
    assert second == hs.Poisson(0.1, microbatches=2)


def test_shuffled_batches_are_charged_to_the_strong_adversary():
    for units, more in ((1, {"clipping": "batch"}), (2, {"clipping": "mixed", "units_per_batch": 2})):
        accountant = ShuffleAccountant(4, 20, group_size=2, **more)
        model, optimizer = made(noise=8.0, accountant=accountant, sampling=hs.Shuffle(4, 20))
        for start in range(0, 20, 4):
            for unit in range(units):
                size = 4 // units
                rows = range(start + unit * size, start + (unit + 1) * size)
                loss(model, rows).backward()
                if units > 1:
                    optimizer.end_unit()
            optimizer.step()
        assert accountant.history == [(8.0, 0.2, 5)]


def test_a_loader_says_how_it_draws():
    import torch
    from opacus.data_loader import DPDataLoader

    data = torch.utils.data.TensorDataset(*examples())
    loader = DPDataLoader(data, sample_rate=0.25)
    accountant = GroupAccountant()
    model, optimizer = made(noise=4.0, accountant=accountant, sampling=hs.sampling_of(loader))
    for batch, labels in loader:
        optimizer.zero_grad()
        ((model(batch.double()) - labels) ** 2).mean().backward()
        optimizer.step()
    assert accountant.history == [(hs.BatchClipping(4.0), 0.25, 4)]


# What is refused


def test_a_step_without_an_account_is_not_taken():
    accountant = GroupAccountant()
    model, optimizer = made(noise=4.0, accountant=accountant, sampling=hs.WithoutReplacement(4, 20))
    before = vector(model)
    for rows in (range(4), range(4, 8)):
        loss(model, rows).backward()
    with pytest.raises(RuntimeError, match="covered for Poisson samples only"):
        optimizer.step()
    assert len(accountant) == 0
    np.testing.assert_array_equal(vector(model), before)
    accountant = ShuffleAccountant(4, 20, clipping="batch")
    model, optimizer = made(noise=4.0, accountant=accountant, sampling=hs.Shuffle(4, 20))
    for rows in (range(2), range(2, 4)):
        loss(model, rows).backward()
        optimizer.end_unit()
    with pytest.raises(RuntimeError, match="about 1 units in a batch, got 2"):
        optimizer.step()
    assert len(accountant) == 0


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"accountant": GroupAccountant()}, TypeError, "both of accountant and sampling"),
        ({"sampling": hs.Poisson(0.1)}, TypeError, "both of accountant and sampling"),
        ({"accountant": RenyiGroupAccountant(), "sampling": hs.Poisson(0.1)}, TypeError, "GroupAccountant"),
        ({"accountant": GroupAccountant(), "sampling": hs.Shuffle(4, 20)}, ValueError, "ShuffleAccountant"),
        (
            {"accountant": GroupAccountant(), "sampling": hs.Poisson(0.1, microbatches=2)},
            TypeError,
            "that of one batch",
        ),
        ({"accountant": GroupAccountant(), "sampling": 0.1}, TypeError, "sampling must be Poisson"),
        (
            {"accountant": ShuffleAccountant(4, 20), "sampling": hs.Shuffle(4, 20)},
            ValueError,
            "accountant.clipping must be",
        ),
        (
            {"accountant": ShuffleAccountant(4, 20, clipping="batch"), "sampling": hs.Shuffle(5, 20)},
            hs.SamplingMismatchError,
            "sampling must be Shuffle",
        ),
        (
            {"accountant": GroupAccountant(group=hs.Group(norms=[0.5])), "sampling": hs.Poisson(0.1)},
            hs.UnsupportedError,
            "norms and angles",
        ),
        ({"norm": 0.0}, ValueError, "max_grad_norm"),
        ({"noise": -1.0}, ValueError, "noise_multiplier"),
    ],
)
def test_settings_without_an_account_are_refused(more, error, words):
    with pytest.raises(error, match=words):
        made(**more)


def test_only_plain_optimizers_are_wrapped():
    import torch

    _, optimizer = made()
    for wrong in (3, None):
        with pytest.raises(TypeError, match="optimizer must be a torch optimizer"):
            hs.opacus.BatchClippingOptimizer(wrong, noise_multiplier=1.0, max_grad_norm=1.0)
    accountant = GroupAccountant()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(examples()[0]), batch_size=4)
    with pytest.raises(TypeError, match="optimizer must be an opacus DPOptimizer"):
        hs.opacus.attach(accountant, optimizer, loader)
