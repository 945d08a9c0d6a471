"""The examples of docstrings that need torch, with the objects that they take for granted."""

import doctest
import importlib
from operator import attrgetter

import pytest

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
]

RECORDS = 256
RATE = 0.25


@pytest.fixture
def run():
    """A private training run as its user has it: the names that the examples use."""
    import torch
    from opacus import PrivacyEngine

    torch.manual_seed(0)
    dataset = torch.utils.data.TensorDataset(torch.randn(RECORDS, 4), torch.randint(0, 2, (RECORDS,)))
    bare = torch.nn.Linear(4, 2)
    model, optimizer, loader = PrivacyEngine(accountant="rdp").make_private(
        module=bare,
        optimizer=torch.optim.SGD(bare.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(
            hs.opacus.IndexedDataset(dataset), batch_size=int(RATE * RECORDS)
        ),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    return {
        "model": model,
        "dataset": dataset,
        "loss_fn": torch.nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "loader": loader,
        "accountant": hs.accountants.IndividualAccountant(RECORDS, max_grad_norm=1.0),
    }


def run_examples(module, name, names):
    """Run the examples of a docstring, also those that are left out where torch is missing."""
    found = importlib.import_module(f"hockeystick.{module}")
    text = attrgetter(name)(found).__doc__.replace("# doctest: +SKIP", "")
    test = doctest.DocTestParser().get_doctest(text, dict(names), name, found.__file__, None)
    assert test.examples
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    runner, report = doctest.DocTestRunner(optionflags=flags), []
    results = runner.run(test, out=report.append, clear_globs=False)
    assert results.failed == 0, "".join(report)
    return test.globs


def test_norms_of_a_data_set(run):
    assert run_examples("opacus._per_example", "per_example_norms", run)["norms"].shape == (RECORDS,)


def test_a_loader_that_shuffles_is_refused(run):
    run_examples("_loaders.torch_loaders", "check_loader", run)


def test_a_tracker_that_is_attached(run):
    run_examples("opacus._tracker", "IndividualTracker", run)
    run["loss_fn"](run["model"](run["dataset"].tensors[0]), run["dataset"].tensors[1]).backward()
    run["optimizer"].step()
    [(noise, rate, steps, *_)] = [tuple(entry) for entry in run["accountant"].history]
    assert (noise, rate, steps) == (1.0, RATE, 1)


def test_clipping_to_norms_of_their_own(run):
    accountant = hs.accountants.IndividualAccountant(RECORDS, individual_clipping=True)
    accountant.update_norms([0.5] * RECORDS)
    before = [each.detach().clone() for each in run["model"].parameters()]
    # The loop of the example takes model and gradients to be there.
    names = run_examples(
        "opacus._individual_optimizer", "IndividualClippingOptimizer", run | {"accountant": accountant}
    )
    assert isinstance(names["optimizer"], hs.opacus.IndividualClippingOptimizer)
    after = run["model"].parameters()
    assert all(not one.equal(other) for one, other in zip(before, after, strict=True))


def test_clipping_of_whole_batches(run):
    import torch
    from opacus.data_loader import DPDataLoader

    loader = DPDataLoader(run["dataset"], sample_rate=RATE)
    run |= {"torch": torch, "model": torch.nn.Linear(4, 2), "loader": loader}
    names = run_examples("opacus._batch_clipping_optimizer", "BatchClippingOptimizer", run)
    assert names["optimizer"].accountant.history == [(hs.BatchClipping(4.0), RATE, len(loader))]
    run_examples("opacus._batch_clipping_optimizer", "BatchClippingOptimizer.end_unit", names)
    assert names["optimizer"].accountant.history == [(hs.BatchClipping(4.0), RATE, 2 * len(loader))]


@pytest.fixture
def _registry(monkeypatch):
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))


@pytest.mark.usefixtures("_registry")
def test_an_accountant_under_a_name():
    engine = run_examples("opacus._registering", "register", {})["engine"]
    assert type(engine.accountant).__name__ == "GroupAccountant"


def test_an_engine_with_noise_that_is_known(run):
    import torch

    bare = torch.nn.Linear(4, 2)
    run |= {"model": bare, "optimizer": torch.optim.SGD(bare.parameters(), lr=0.1)}
    names = run_examples("opacus._engine", "PrivacyEngine.make_private", run)
    assert names["optimizer"].noise_multiplier == 1.0


def test_an_engine_that_finds_the_noise(run, monkeypatch, tmp_path):
    import torch

    monkeypatch.chdir(tmp_path)  # the example writes a file
    bare = torch.nn.Linear(4, 2)
    run |= {"model": bare, "optimizer": torch.optim.SGD(bare.parameters(), lr=0.1)}
    names = run_examples("opacus._engine", "PrivacyEngine", run)
    steps = 10 * len(run["loader"])
    needed = {"epsilon": 8.0, "delta": 1e-5, "sample_rate": RATE, "steps": steps, "group_size": 8}
    assert names["optimizer"].noise_multiplier == hs.get_noise_multiplier(**needed)
