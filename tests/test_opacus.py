"""The accountants inside a real Opacus training loop; `make test-opacus` installs what it needs."""

import pytest

from hockeystick.accountants import MonteCarloAccountant, RenyiGroupAccountant

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
]

DELTA = 1e-5
RECORDS, BATCH_SIZE, EPOCHS = 512, 64, 2


def private_training(accountant=None, watchers=()):
    """Train with Opacus; `accountant` becomes the engine's own, `watchers` hook in beside it."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    inputs = torch.randn(RECORDS, 20)
    labels = (inputs[:, 0] > 0).long()
    engine = PrivacyEngine(accountant="rdp")
    if accountant is not None:
        engine.accountant = accountant
    model = torch.nn.Linear(20, 2)
    model, optimizer, batches = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(inputs, labels), batch_size=BATCH_SIZE),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    sample_rate = 1 / len(batches)
    hooks = [each.get_optimizer_hook_fn(sample_rate) for each in (engine.accountant, *watchers)]
    optimizer.attach_step_hook(lambda optim: [hook(optim) for hook in hooks])
    for _ in range(EPOCHS):
        for batch, targets in batches:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), targets).backward()
            optimizer.step()
    return engine, model, optimizer


def test_the_hook_sees_the_steps_that_opacus_sees():
    watchers = [RenyiGroupAccountant(group_size=4), MonteCarloAccountant(group_size=4)]
    engine, _, _ = private_training(watchers=watchers)
    for watcher in watchers:
        assert watcher.history == engine.accountant.history
        assert len(watcher) == EPOCHS * RECORDS // BATCH_SIZE


def test_one_record_gets_the_epsilon_of_opacus_or_a_little_less():
    # Opacus minimises the same divergences over a list of orders, we over the real numbers.
    watcher = RenyiGroupAccountant(group_size=1)
    engine, _, _ = private_training(watchers=[watcher])
    ratio = watcher.get_epsilon(DELTA) / engine.get_epsilon(DELTA)
    assert 0.999 < ratio <= 1.0


def test_every_abstract_method_of_opacus_is_there():
    from opacus.accountants import IAccountant

    for accountant in (RenyiGroupAccountant, MonteCarloAccountant):
        assert not [name for name in IAccountant.__abstractmethods__ if not hasattr(accountant, name)]


@pytest.mark.parametrize(
    "make", [lambda: RenyiGroupAccountant(group_size=4), lambda: MonteCarloAccountant(group_size=4)]
)
def test_the_engine_takes_our_accountant_and_keeps_it_in_checkpoints(make, tmp_path):
    accountant = make()
    engine, model, optimizer = private_training(accountant)
    epsilon = engine.get_epsilon(DELTA)
    assert epsilon == accountant.get_epsilon(DELTA) > 0.0
    engine.save_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)

    engine.accountant = make()
    assert engine.get_epsilon(DELTA) == 0.0
    engine.load_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    assert engine.get_epsilon(DELTA) == epsilon
