"""Gradient norms per example: against gradients one at a time, and without a trace."""

import random

import numpy as np
import pytest

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
]

RECORDS = 23


def make(kind="convolution", seed=0):
    """A module, its data set and its loss."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    labels = torch.randint(0, 3, (RECORDS,))
    layers = {
        "linear": [nn.Linear(6, 3)],
        "convolution": [nn.Conv1d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)],
        "embedding": [nn.Embedding(10, 4), nn.Flatten(), nn.LayerNorm(24), nn.Linear(24, 3)],
        "frozen": [nn.Linear(6, 8).requires_grad_(False), nn.Tanh(), nn.Linear(8, 3)],
    }[kind]
    inputs = torch.randint(0, 10, (RECORDS, 6)) if kind == "embedding" else torch.randn(RECORDS, 6)
    if kind == "convolution":
        inputs = inputs[:, None]
    return nn.Sequential(*layers), torch.utils.data.TensorDataset(inputs, labels), nn.CrossEntropyLoss()


def wrapped(model, **options):
    from opacus import GradSampleModule

    return GradSampleModule(model, **options)


def one_at_a_time(model, dataset, loss_fn):
    """By ordinary backward passes, in float64."""
    import copy

    model = copy.deepcopy(model).double()
    norms = []
    for image, label in dataset:
        image = image.double() if image.is_floating_point() else image
        model.zero_grad()
        loss_fn(model(image[None]), label[None]).backward()
        norms.append(sum(float((p.grad**2).sum()) for p in model.parameters() if p.grad is not None) ** 0.5)
    return np.array(norms)


@pytest.mark.parametrize("kind", ["linear", "convolution", "embedding", "frozen"])
@pytest.mark.parametrize("chunk_size", [1, 10, 100])
def test_both_ways_give_the_norms_of_gradients_taken_one_at_a_time(kind, chunk_size):
    model, dataset, loss_fn = make(kind)
    expected = one_at_a_time(model, dataset, loss_fn)
    plain = hs.opacus.per_example_norms(model, dataset, loss_fn, chunk_size=chunk_size)
    np.testing.assert_allclose(plain, expected, rtol=2e-6)
    hooked = hs.opacus.per_example_norms(wrapped(model), dataset, loss_fn, chunk_size=chunk_size)
    np.testing.assert_allclose(hooked, expected, rtol=2e-6)
    assert plain.dtype == hooked.dtype == np.float64


def test_a_data_set_need_not_be_of_tensors():
    model, dataset, loss_fn = make("linear")
    pairs = [(inputs.numpy(), int(label)) for inputs, label in dataset]
    expected = hs.opacus.per_example_norms(model, dataset, loss_fn)
    for data in (pairs, __import__("torch").utils.data.Subset(dataset, range(RECORDS))):
        np.testing.assert_array_equal(hs.opacus.per_example_norms(model, data, loss_fn), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_reduction_that_opacus_was_told_makes_no_difference(reduction):
    import torch

    model, dataset, loss_fn = make()
    expected = one_at_a_time(model, dataset, loss_fn)
    loss = torch.nn.CrossEntropyLoss(reduction=reduction)
    for told in ("mean", "sum") if reduction == "none" else (reduction,):
        hooked = wrapped(make()[0], loss_reduction=told)
        np.testing.assert_allclose(hs.opacus.per_example_norms(hooked, dataset, loss), expected, rtol=2e-6)
    np.testing.assert_allclose(hs.opacus.per_example_norms(model, dataset, loss), expected, rtol=2e-6)


def test_a_loss_that_is_not_made_of_those_of_its_examples_is_refused():
    import torch

    model, dataset, _ = make()
    hooked = wrapped(model)
    for loss in (
        torch.nn.CrossEntropyLoss(reduction="sum"),  # Opacus was told the mean
        torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.2])),  # a weighted mean
        lambda outputs, labels: outputs.std(dim=0).sum() + outputs.sum(),
    ):
        with pytest.raises(ValueError, match="loss_fn must return the mean of the losses of the examples"):
            hs.opacus.per_example_norms(hooked, dataset, loss)
    with pytest.raises(ValueError, match="one number, or one an example"):
        hs.opacus.per_example_norms(hooked, dataset, lambda outputs, labels: outputs)
    plain, _, _ = make()
    with pytest.raises(ValueError, match="one number for one example"):
        hs.opacus.per_example_norms(plain, dataset, lambda outputs, labels: outputs)


def states(model):
    import torch

    def copy(value):
        return [each.clone() for each in value] if isinstance(value, list) else value.clone()

    legacy = np.random.get_state()  # noqa: NPY002 (the state that must not move)
    return {
        "numbers": (random.getstate(), [*map(str, legacy)]),
        "torch": torch.get_rng_state().tolist(),
        "modes": [each.training for each in model.modules()],
        "attributes": [sorted(vars(each)) for each in (*model.parameters(), *model.modules())],
        "counters": [vars(each).get("_forward_counter") for each in model.parameters()],
        "weights": [each.tolist() for each in model.state_dict().values()],
        "gradients": [None if each.grad is None else each.grad.tolist() for each in model.parameters()],
        "samples": [
            None if vars(each).get("grad_sample") is None else copy(each.grad_sample)[0].tolist()
            for each in model.parameters()
        ],
    }


@pytest.mark.parametrize("moment", ["at first", "after backward", "between passes", "accumulated"])
@pytest.mark.parametrize("way", ["plain", "hooked"])
def test_nothing_stays_behind(way, moment):
    import torch

    model, dataset, loss_fn = make()
    model.register_buffer("count", torch.tensor(3.0))
    model = wrapped(model, strict=False) if way == "hooked" else model
    inputs, labels = dataset[:5]
    loss = None
    if moment != "at first":
        loss = loss_fn(model(inputs), labels)
    if moment in ("after backward", "accumulated"):
        loss.backward()
    if moment == "accumulated":
        loss_fn(model(inputs), labels).backward()
    before = states(model)
    hs.opacus.per_example_norms(model, dataset, loss_fn, chunk_size=7)
    assert states(model) == before
    if moment == "between passes":
        loss.backward()
        other, _, _ = make()
        other = wrapped(other) if way == "hooked" else other
        loss_fn(other(inputs), labels).backward()
        for one, two in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(one.grad, two.grad, rtol=0.0, atol=0.0)
            if way == "hooked":
                torch.testing.assert_close(one.grad_sample, two.grad_sample, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("way", ["plain", "hooked"])
def test_random_models_losses_and_data_are_refused_and_leave_no_trace(way):
    import torch

    def attempt(layers, data, loss_fn):
        model = torch.nn.Sequential(*layers)
        model = wrapped(model) if way == "hooked" else model
        before = states(model)
        with pytest.raises(ValueError, match="draws at random: turn dropout off"):
            hs.opacus.per_example_norms(model, data, loss_fn)
        assert states(model) == before
        return model

    _, dataset, loss_fn = make("linear")

    def linear():
        return torch.nn.Linear(6, 3)

    model = attempt([torch.nn.Dropout(0.5), linear()], dataset, loss_fn)
    attempt([linear()], dataset, lambda x, y: loss_fn(x + torch.randn(()), y))
    for draw in (random.random, np.random.rand, lambda: torch.rand(())):

        class Augmented(list):
            def __getitem__(self, index, draw=draw):
                inputs, label = super().__getitem__(index)
                return inputs + draw(), label

        attempt([linear()], Augmented(dataset), loss_fn)
    # Dropout that is off draws nothing.
    dropout = next(each for each in model.modules() if isinstance(each, torch.nn.Dropout))
    dropout.eval()
    layer = linear()
    layer.load_state_dict(dict(zip(("weight", "bias"), model.state_dict().values(), strict=True)))
    np.testing.assert_allclose(
        hs.opacus.per_example_norms(model, dataset, loss_fn),
        one_at_a_time(layer, dataset, loss_fn),
        rtol=2e-6,
    )


def test_models_that_cannot_be_measured_are_refused():
    import torch
    from opacus.grad_sample import GradSampleModuleExpandedWeights

    model, dataset, loss_fn = make("linear")
    norms = hs.opacus.per_example_norms
    with pytest.raises(ValueError, match="must be in training mode"):
        norms(wrapped(make("linear")[0]).eval(), dataset, loss_fn)
    with pytest.raises(TypeError, match="GradSampleModuleExpandedWeights"):
        norms(GradSampleModuleExpandedWeights(make("linear")[0]), dataset, loss_fn)
    hooked = wrapped(make("linear")[0])
    with pytest.raises(TypeError, match="without hooks"):
        norms(hooked._module, dataset, loss_fn)
    batch_norm = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="1 normalises over the batch"):
        norms(batch_norm, dataset, loss_fn)
    counts = batch_norm[1].num_batches_tracked.clone()
    assert np.all(norms(batch_norm.eval(), dataset, loss_fn) > 0.0)
    assert batch_norm[1].num_batches_tracked == counts
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module"):
        norms(lambda x: x, dataset, loss_fn)
    with pytest.raises(ValueError, match="must have a parameter"):
        norms(torch.nn.Tanh(), dataset, loss_fn)
    with pytest.raises(TypeError, match="dataset must have a length"):
        norms(model, iter(dataset), loss_fn)
    with pytest.raises(ValueError, match="at least one example"):
        norms(model, [], loss_fn)
    with pytest.raises(TypeError, match="must yield pairs"):
        norms(model, [(torch.zeros(6), 1, 2)], loss_fn)
    with pytest.raises(ValueError, match="chunk_size"):
        norms(model, dataset, loss_fn, chunk_size=0)
    broken = torch.utils.data.TensorDataset(torch.full((2, 6), torch.inf), torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="gradients must be finite, got norm nan for example 0"):
        norms(model, broken, loss_fn)
    two = torch.nn.ModuleDict({"used": torch.nn.Linear(6, 3), "idle": torch.nn.Linear(6, 3)})
    two.forward = lambda x: two["used"](x)
    with pytest.raises(ValueError, match=r"parameter _module.idle.weight got no gradient per example"):
        norms(wrapped(two), dataset, loss_fn)


def test_progress_is_told_of_examples():
    seen = []
    model, dataset, loss_fn = make()
    hs.opacus.per_example_norms(model, dataset, loss_fn, chunk_size=10, progress=lambda *a: seen.append(a))
    assert seen == [(10, RECORDS), (20, RECORDS), (RECORDS, RECORDS)]


@pytest.mark.parametrize("module", ["torch", "opacus.optimizers"])
def test_a_missing_extra_is_named(module, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "hockeystick.opacus._individual_optimizer", raising=False)
    uses = {
        "torch": lambda: hs.opacus.per_example_norms(None, [1], None),
        "opacus.optimizers": lambda: hs.opacus.IndividualClippingOptimizer,
    }
    with pytest.raises(ImportError, match=r'pip install "hockeystick\[opacus\]"'):
        uses[module]()
