"""Several batches before one noise: by backward passes or by steps left out, on every path."""

import numpy as np
import pytest
from opacus_runs import BATCHES, NORM, RATE, parts, train, weights_of

import hockeystick as hs
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
)

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
]

DELTA = 1e-5
FIVE = [(1.0, hs.Poisson(RATE, microbatches=5), 2)]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """Forget what a test registers."""
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))


def by_name(**how):
    from opacus import PrivacyEngine

    hs.opacus.register()
    engine = PrivacyEngine(accountant="hockeystick")
    return engine.accountant, engine.make_private(**parts(), noise_multiplier=1.0, **how)


def by_engine(**how):
    engine = hs.opacus.PrivacyEngine()
    return engine.accountant, engine.make_private(**parts(), noise_multiplier=1.0, **how)


def by_recipe(**how):
    from opacus import PrivacyEngine

    engine = PrivacyEngine(accountant="rdp")
    made = engine.make_private(**parts(), noise_multiplier=1.0, **how)
    engine.accountant = hs.opacus.from_opacus(engine.accountant)
    made[1].attach_step_hook(engine.accountant.get_optimizer_hook_fn(1 / len(made[-1])))
    return engine.accountant, made


def by_attaching(accountant=None, **how):
    from opacus import PrivacyEngine

    accountant = GroupAccountant() if accountant is None else accountant
    made = PrivacyEngine(accountant="rdp").make_private(**parts(), noise_multiplier=1.0, **how)
    hs.opacus.attach(accountant, made[1], made[-1])
    return accountant, made


PATHS = pytest.mark.parametrize("path", [by_name, by_engine, by_recipe, by_attaching])


def leave_out(optimizer, together):
    """Join so many batches of an epoch for each step."""
    for number in range(1, BATCHES + 1):
        optimizer.signal_skip_step(do_skip=number % together != 0)


def ghost_training(model, optimizer, criterion, loader):
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()


@PATHS
def test_backward_passes_and_left_out_steps_are_charged_alike(path):
    accountant, (model, optimizer, loader) = path()
    model.allow_grad_accumulation()
    train(model, optimizer, loader, accumulate=5)
    assert accountant.history == FIVE
    leave_out(optimizer, 5)
    train(model, optimizer, loader)
    assert accountant.history == [(*FIVE[0][:2], 4)]
    # Both at once: a step is left out after two backward passes.
    accountant.history = []
    optimizer.signal_skip_step(True)
    optimizer.signal_skip_step(True)
    train(model, optimizer, list(loader)[:6], accumulate=2)
    assert accountant.history == [(1.0, hs.Poisson(RATE, microbatches=6), 1)]
    truth = hs.get_epsilon(delta=DELTA, noise_multiplier=1.0, sample_rate=RATE, steps=1, group_size=6)
    assert accountant.get_epsilon(DELTA) == truth


@PATHS
def test_pieces_of_one_batch_are_one_batch(path):
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    accountant, (model, optimizer, loader) = path()
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as pieces:
        assert train(model, optimizer, pieces, epochs=2) > 6 * BATCHES
    assert accountant.history == [(1.0, RATE, 2 * BATCHES)]


@PATHS
def test_ghost_clipping_is_counted_too(path):
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    accountant, made = path(grad_sample_mode="ghost")
    leave_out(made[1], 5)
    ghost_training(*made)
    assert accountant.history == FIVE
    accountant.history = []
    with BatchMemoryManager(data_loader=made[-1], max_physical_batch_size=4, optimizer=made[1]) as pieces:
        ghost_training(*made[:-1], pieces)
    assert accountant.history == [(1.0, RATE, BATCHES)]


def test_a_record_moves_the_sum_once_for_each_joined_batch():
    # Where a record is in all of them, the sum has its clipped gradient four times: what is charged for.
    import torch

    _, (model, optimizer, loader) = by_engine()
    inputs = loader.dataset.tensors[0][:1] * 100.0
    optimizer.noise_multiplier = 0.0
    sums = []
    optimizer.attach_step_hook(
        lambda stepping: sums.append(
            torch.cat([p.summed_grad.flatten() for p in stepping.params]).norm().item()
        )
    )
    for together in (1, 4):
        for number in range(together):
            optimizer.signal_skip_step(number < together - 1)
            optimizer.zero_grad()
            outputs = model(inputs)
            torch.nn.functional.cross_entropy(outputs, outputs.detach().argmin(1)).backward()
            optimizer.step()
    assert sums == pytest.approx([NORM, 4 * NORM], rel=1e-4)


def test_a_batch_that_was_given_up_half_way_counts():
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    accountant, (model, optimizer, loader) = by_engine()
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer) as pieces:
        for inputs, labels in pieces:
            _one_step(model, optimizer, inputs, labels)
            break
        assert accountant.history == []
        for inputs, labels in pieces:
            _one_step(model, optimizer, inputs, labels)
            if len(accountant):
                break
    # A record may be in the first batch and in the second one.
    assert accountant.history == [(1.0, hs.Poisson(RATE, microbatches=2), 1)]


def _one_step(model, optimizer, inputs, labels):
    import torch

    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def test_several_pieces_a_step_are_each_counted():
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    accountant, (model, optimizer, loader) = by_engine()
    model.allow_grad_accumulation()
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as pieces:
        number = train(model, optimizer, pieces, accumulate=2)
    # Signals are one a piece, and steps one for two: they no longer say what is a batch.
    counted = sum(getattr(draw, "microbatches", 1) * count for _, draw, count in accountant.history)
    assert number - 40 < counted <= number
    assert counted > BATCHES


def test_what_was_left_out_before_anyone_counted_is_refused(monkeypatch):
    from opacus.optimizers import DPOptimizer

    accountant, (model, optimizer, loader) = by_recipe()
    original = getattr(DPOptimizer.signal_skip_step, "__wrapped__", DPOptimizer.signal_skip_step)
    monkeypatch.setattr(DPOptimizer, "signal_skip_step", original)
    leave_out(optimizer, 2)
    with pytest.raises(RuntimeError, match="before the accountant could count them"):
        train(model, optimizer, loader)
    assert accountant.history == []


@pytest.mark.parametrize("make", [RenyiGroupAccountant, MonteCarloAccountant])
def test_other_accountants_are_told_of_the_law_too(make):
    accountant, (model, optimizer, loader) = by_attaching(make(2))
    leave_out(optimizer, 5)
    train(model, optimizer, loader)
    assert accountant.history == FIVE


def test_replaced_records_are_charged_by_parts_of_the_noise():
    accountant, (model, optimizer, loader) = by_attaching(GroupAccountant(adjacency="replace"))
    leave_out(optimizer, 5)
    train(model, optimizer, loader)
    [(noise, rate, steps)] = accountant.history
    assert (rate, steps) == (RATE, BATCHES)
    assert 0.0 < 5**-0.5 - noise < 1e-14


def test_batches_of_an_epoch_are_no_more_than_all_records():
    engine = hs.opacus.PrivacyEngine(on_mismatch="ignore")
    model, optimizer, loader = engine.make_private(
        **parts(shuffle=True), noise_multiplier=1.0, poisson_sampling=False
    )
    with pytest.raises(
        ValueError, match=r"11 accumulated batches at sample rate 0.1 each have a rate above 1"
    ):
        train(model, optimizer, [*loader, *loader], accumulate=11)
    assert len(engine.accountant) == 0


@pytest.mark.parametrize("joined", ["left out", "backward"])
def test_the_tracker_charges_every_example_for_the_batches_it_may_be_in(joined):
    import torch

    worst, (model, optimizer, loader) = by_engine()
    individual = IndividualAccountant(240, max_grad_norm=NORM)
    tracker = hs.opacus.IndividualTracker(model, loader.dataset, torch.nn.CrossEntropyLoss(), individual)
    tracker.attach(optimizer, sample_rate=RATE)
    if joined == "left out":
        leave_out(optimizer, 5)
        train(model, optimizer, loader)
    else:
        model.allow_grad_accumulation()
        train(model, optimizer, loader, accumulate=5)
    assert individual.history == worst.history == FIVE
    assert individual.is_guarantee
    epsilons = individual.get_epsilons(DELTA)
    assert 0.0 < epsilons.max() <= worst.get_epsilon(DELTA)


def test_the_tracker_says_early_what_it_does_not_follow():
    import torch

    individual = IndividualAccountant(240, max_grad_norm=NORM)
    loss = torch.nn.CrossEntropyLoss()
    for how in ({"wrap_model": False}, {"grad_sample_mode": "ghost"}):
        given = parts()
        made = hs.opacus.PrivacyEngine().make_private(**given, noise_multiplier=1.0, **how)
        with pytest.raises(TypeError, match=r"model must be the GradSampleModule.*update_norms"):
            hs.opacus.IndividualTracker(made[0], made[-1].dataset, loss, individual)
    _, (model, _, loader) = by_engine()
    bare = torch.nn.Linear(5, 2)
    with pytest.raises(TypeError, match=r"model must be the GradSampleModule.*got Linear"):
        hs.opacus.IndividualTracker(bare, loader.dataset, loss, individual)
    tracker = hs.opacus.IndividualTracker(model, loader.dataset, loss, individual)
    other = by_engine(clipping="adaptive", **ADAPTIVE)[1][1]
    with pytest.raises(TypeError, match=r"got AdaClipDPOptimizer: .*per_example_norms"):
        tracker.attach(other, sample_rate=RATE)


ADAPTIVE = {
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.1,
    "max_clipbound": 10.0,
    "min_clipbound": 0.1,
    "unclipped_num_std": 5.0,
}


def test_a_tracker_that_fails_has_charged_nobody():

    worst, (model, optimizer, loader) = by_engine()
    individual = IndividualAccountant(240, max_grad_norm=NORM)

    def loss(outputs, targets):
        raise ArithmeticError("no loss today")

    tracker = hs.opacus.IndividualTracker(model, loader.dataset, loss, individual)
    tracker.attach(optimizer, sample_rate=RATE)
    before = weights_of(model)
    with pytest.raises(ArithmeticError, match="no loss today"):
        train(model, optimizer, loader)
    assert (len(worst), len(individual)) == (0, 0)
    assert weights_of(model).equal(before)


def test_a_scheduler_of_the_optimizer_that_was_replaced_is_told():
    from opacus.schedulers import ExponentialNoise

    _, (_, optimizer, _) = by_engine()
    scheduler = ExponentialNoise(optimizer, gamma=0.5)
    individual = IndividualAccountant(240, max_grad_norm=NORM, individual_clipping=True)
    clipping = hs.opacus.IndividualClippingOptimizer(optimizer, individual)
    with pytest.raises(RuntimeError, match="Make schedulers of noise and clipping for that one"):
        scheduler.step()
    ExponentialNoise(clipping, gamma=0.5).step()
    assert clipping.noise_multiplier == 0.5


def test_joined_batches_have_no_norms_of_their_own():
    import torch

    worst, (model, optimizer, loader) = by_engine()
    individual = IndividualAccountant(240, max_grad_norm=NORM, individual_clipping=True)
    clipping = hs.opacus.IndividualClippingOptimizer(optimizer, individual)
    dataset = loader.dataset
    tracker = hs.opacus.IndividualTracker(model, dataset, torch.nn.CrossEntropyLoss(), individual)
    tracker.attach(clipping, sample_rate=RATE)
    clipping.signal_skip_step(True)
    for indices in (np.arange(10), np.arange(10, 20)):
        inputs, labels = dataset[indices]
        clipping.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        clipping.announce(indices)
        if indices[0] == 0:
            clipping.step()
    with pytest.raises(ValueError, match="must be of one batch, got 2"):
        clipping.step()
    assert (len(worst), len(individual)) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"accountant": IndividualAccountant(240)}, TypeError, "IndividualTracker"),
        ({"accountant": "rdp"}, TypeError, "got str"),
        ({"optimizer": object()}, TypeError, "optimizer must be an opacus DPOptimizer"),
        ({"data_loader": [1]}, TypeError, "loader must be a torch"),
        ({"on_mismatch": "shout"}, ValueError, "on_mismatch must be one of"),
    ],
)
def test_what_cannot_be_attached_is_refused(arguments, error, words):
    _, (_, optimizer, loader) = by_engine()
    hook = optimizer.step_hook
    whole = {"accountant": GroupAccountant(), "optimizer": optimizer, "data_loader": loader} | arguments
    with pytest.raises(error, match=words):
        hs.opacus.attach(whole.pop("accountant"), whole.pop("optimizer"), whole.pop("data_loader"), **whole)
    assert optimizer.step_hook is hook
