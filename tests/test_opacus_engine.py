"""Opacus's own engine with a registered accountant: noise, batches, checkpoints, refusals."""

import json
import re

import pytest
from opacus_runs import BATCHES, RATE, parts, train, weights_of

import hockeystick as hs
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("_as_it_was"),
]

DELTA = 1e-5


@pytest.fixture
def _as_it_was(monkeypatch):
    """Forget what a test registers."""
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))


def engine(name="hockeystick"):
    from opacus import PrivacyEngine

    return PrivacyEngine(accountant=name)


def exact(group_size, noise_multiplier, steps, sample_rate=RATE):
    return hs.get_epsilon(
        delta=DELTA,
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        steps=steps,
        group_size=group_size,
    )


@pytest.mark.parametrize("group_size", [1, 8])
def test_the_engine_accounts_for_the_group_that_was_registered(group_size):
    hs.opacus.register(group_size=group_size)
    run = engine()
    assert isinstance(run.accountant, GroupAccountant)
    assert (run.accountant.group_size, run.accountant.mechanism()) == (group_size, "hockeystick")
    made = run.make_private(**parts(), noise_multiplier=1.5)
    train(*made, epochs=3)
    assert run.accountant.history == [(1.5, RATE, 3 * BATCHES)]
    assert run.get_epsilon(DELTA) == exact(group_size, 1.5, 3 * BATCHES)


def test_training_is_that_of_opacus_bit_by_bit():
    hs.opacus.register()
    weights = []
    for name in ("prv", "hockeystick"):
        run = engine(name)
        made = run.make_private(**parts(), noise_multiplier=1.0)
        train(*made)
        weights.append(weights_of(made[0]))
    assert weights[0].equal(weights[1])


def test_two_names_stand_for_two_accountants_and_a_name_can_be_registered_again():
    hs.opacus.register(group_size=2, name="two")
    hs.opacus.register(group_size=4, name="four", adjacency="remove")
    assert engine("two").accountant.group_size == 2
    assert (engine("four").accountant.group_size, engine("four").accountant.adjacency) == (4, "remove")
    hs.opacus.register(group_size=3, name="two")
    assert engine("two").accountant.group_size == 3
    members = hs.Group(norms=[1.0, 0.5])
    hs.opacus.register(group=members, name="two")
    assert engine("two").accountant.group == members


def test_a_registered_accountant_is_one_of_opacus_and_can_be_copied_and_pickled():
    import copy
    import pickle

    from opacus.accountants import IAccountant

    hs.opacus.register(group_size=8)
    accountant = engine().accountant
    assert isinstance(accountant, IAccountant)
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    for other in (copy.deepcopy(accountant), pickle.loads(pickle.dumps(accountant))):
        assert isinstance(other, GroupAccountant)
        assert other.state_dict() == accountant.state_dict()
        other.step(noise_multiplier=1.0, sample_rate=0.1)
    assert len(accountant) == 1


def test_names_of_others_are_theirs_unless_forced():
    from opacus.accountants import PRVAccountant

    with pytest.raises(ValueError, match="prv"):
        hs.opacus.register(name="prv")
    assert isinstance(engine("prv").accountant, PRVAccountant)
    hs.opacus.register(name="prv", force=True)
    assert isinstance(engine("prv").accountant, GroupAccountant)


@pytest.mark.parametrize(
    "accountant",
    [RenyiGroupAccountant(group_size=4, bound="jensen"), MonteCarloAccountant(group_size=4, seed=3)],
    ids=["renyi", "monte_carlo"],
)
def test_other_accountants_can_be_registered(accountant):
    hs.opacus.register(name="other", accountant=accountant)
    first, second = engine("other").accountant, engine("other").accountant
    assert isinstance(first, type(accountant))
    assert repr(first) == repr(accountant)
    first.step(noise_multiplier=1.0, sample_rate=0.1)
    assert (len(second), len(accountant)) == (0, 0)
    accountant.history = first.history
    assert first.get_epsilon(DELTA) == accountant.get_epsilon(DELTA)
    accountant.history = []


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"group_size": 0}, ValueError, "group_size must be a whole number in [1, 10000], got 0"),
        ({"adjacency": "swap"}, ValueError, "adjacency must be"),
        ({"name": ""}, ValueError, "name must be a name, got ''"),
        ({"name": 3}, TypeError, "name must be a string, got int"),
        ({"on_mismatch": "shout"}, ValueError, "on_mismatch must be one of"),
        ({"accountant": RenyiGroupAccountant}, TypeError, "got RenyiGroupAccountant"),
        ({"accountant": IndividualAccountant(3)}, TypeError, "IndividualTracker"),
        ({"accountant": GroupAccountant(), "group_size": 2}, TypeError, "either accountant or group_size"),
    ],
)
def test_what_cannot_be_registered_is_refused_by_name(arguments, error, words):
    from opacus.accountants import create_accountant

    with pytest.raises(error, match=re.escape(words)):
        hs.opacus.register(**arguments)
    with pytest.raises(ValueError, match="Unexpected"):
        create_accountant(arguments.get("name", "hockeystick"))


def test_an_accountant_with_steps_is_not_registered():
    accountant = GroupAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(ValueError, match=r"without steps, got .* after 1 steps"):
        hs.opacus.register(accountant=accountant)


@pytest.mark.parametrize("group_size", [1, 8])
@pytest.mark.parametrize("epsilon_tolerance", [0.01, 1e-6])
def test_opacus_finds_the_noise_for_a_group_by_its_own_search(group_size, epsilon_tolerance):
    hs.opacus.register(group_size=group_size)
    run = engine()
    made = run.make_private_with_epsilon(
        **parts(),
        target_epsilon=6.0,
        target_delta=DELTA,
        epochs=4,
        epsilon_tolerance=epsilon_tolerance,
    )
    train(*made, epochs=4)
    assert 6.0 - epsilon_tolerance <= run.get_epsilon(DELTA) <= 6.0
    least = hs.get_noise_multiplier(
        epsilon=6.0, delta=DELTA, sample_rate=RATE, steps=4 * BATCHES, group_size=group_size
    )
    # The search ends at noise whose own epsilon is in range; the least is the smallest such.
    assert made[1].noise_multiplier >= least * (1.0 - 2e-6)


def test_arguments_for_the_optimizer_do_not_reach_the_accountant():
    hs.opacus.register()
    run = engine()
    _, optimizer, _ = run.make_private_with_epsilon(
        **parts(),
        target_epsilon=6.0,
        target_delta=DELTA,
        epochs=2,
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.1,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=5.0,
    )
    assert 0.5 < optimizer.noise_multiplier < 5.0


def test_physical_batches_of_a_memory_manager_are_one_step():
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    hs.opacus.register(group_size=2)
    run = engine()
    model, optimizer, loader = run.make_private(**parts(), noise_multiplier=1.0)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as physical:
        assert train(model, optimizer, physical, epochs=2) > 6 * BATCHES
    assert run.accountant.history == [(1.0, RATE, 2 * BATCHES)]


def test_batches_that_are_joined_by_left_out_steps_are_charged_for_records_that_come_twice():
    hs.opacus.register()
    run = engine()
    model, optimizer, loader = run.make_private(**parts(), noise_multiplier=1.0)
    for number in range(BATCHES):
        optimizer.signal_skip_step(do_skip=number % 2 == 0)
    train(model, optimizer, loader)
    assert run.accountant.history == [(1.0, hs.Poisson(RATE, microbatches=2), BATCHES // 2)]
    assert run.get_epsilon(DELTA) == exact(2, 1.0, BATCHES // 2)


def test_ghost_clipping_is_accounted_for():
    import torch

    hs.opacus.register(group_size=2)
    run = engine()
    made = run.make_private(**parts(), noise_multiplier=1.0, grad_sample_mode="ghost")
    model, optimizer, criterion, loader = made
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
    assert isinstance(optimizer.original_optimizer, torch.optim.SGD)
    assert run.accountant.history == [(1.0, RATE, BATCHES)]


def test_accumulated_poisson_batches_are_charged_for_records_that_come_twice():
    hs.opacus.register()
    run = engine()
    model, optimizer, loader = run.make_private(**parts(), noise_multiplier=2.0)
    model.allow_grad_accumulation()
    train(model, optimizer, loader, accumulate=2)
    assert run.accountant.history == [(2.0, hs.Poisson(RATE, microbatches=2), BATCHES // 2)]
    # The exact law: a record is in 0, 1 or 2 of the batches, as of a group of two.
    as_opacus_charges = exact(1, 2.0, BATCHES // 2, 2 * RATE)
    assert as_opacus_charges < run.get_epsilon(DELTA) == exact(2, 2.0, BATCHES // 2)


def test_accumulated_batches_of_a_shuffled_loader_get_their_rate_together():
    hs.opacus.register(on_mismatch="ignore")
    run = engine()
    model, optimizer, loader = run.make_private(
        **parts(shuffle=True), noise_multiplier=1.0, poisson_sampling=False
    )
    train(model, optimizer, loader, accumulate=2)
    assert run.accountant.history == [(1.0, 2 * RATE, BATCHES // 2)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loader_without_poisson_sampling_is_refused_at_once_where_asked_for(shuffle):
    hs.opacus.register(on_mismatch="raise")
    with pytest.raises(hs.SamplingMismatchError, match="Poisson sampling is accounted for, but the loader"):
        engine().make_private(**parts(shuffle=shuffle), noise_multiplier=1.0, poisson_sampling=False)


@pytest.mark.parametrize("shuffle", [False, True])
def test_training_without_an_account_goes_on_and_only_the_number_is_refused(shuffle):
    hs.opacus.register()
    run = engine()
    with pytest.warns(hs.SamplingMismatchWarning, match="every question about their privacy") as told:
        made = run.make_private(**parts(shuffle=shuffle), noise_multiplier=1.0, poisson_sampling=False)
    told = [each for each in told if issubclass(each.category, hs.SamplingMismatchWarning)]
    assert [each.filename for each in told] == [__file__]
    train(*made)
    assert len(run.accountant) == BATCHES
    words = "the loader shuffles 240 records" if shuffle else "the loader walks through 240 records"
    with pytest.raises(hs.SamplingMismatchError, match=words):
        run.get_epsilon(DELTA)
    # Saved, loaded, copied and taken over, the steps stay what they are.
    state = json.loads(json.dumps(run.accountant.state_dict()))
    again = engine().accountant
    again.load_state_dict(state)
    for other in (again, hs.opacus.from_opacus(run.accountant, group_size=4), hs.opacus.from_opacus(state)):
        assert len(other) == BATCHES
        with pytest.raises(hs.SamplingMismatchError, match=words):
            other.get_delta(1.0)
        assert "no account is known" in str(other)
        other._repr_html_()


def test_full_batches_are_charged_as_such():
    hs.opacus.register()
    run = engine()
    with pytest.warns(hs.SamplingMismatchWarning, match=r"charged as those of FullBatch\(\)"):
        made = run.make_private(**parts(batch_size=240), noise_multiplier=3.0, poisson_sampling=False)
    train(*made, epochs=3)
    assert run.accountant.history == [(3.0, hs.FullBatch(), 3)]
    assert run.get_epsilon(DELTA) == exact(1, 3.0, 3, 1.0)


def test_steps_are_charged_at_the_rate_of_a_loader_of_their_own():
    from opacus.data_loader import DPDataLoader
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler
    from torch.utils.data import DataLoader

    hs.opacus.register()
    given = parts()
    data = given["data_loader"].dataset
    sampler = UniformWithReplacementSampler(num_samples=len(data), sample_rate=0.25, steps=20)
    given["data_loader"] = DataLoader(data, batch_sampler=sampler)
    run = engine()
    train(*run.make_private(**given, noise_multiplier=1.0, poisson_sampling=False))
    # Opacus says 1/20, and charges a fifth of what is drawn.
    assert run.accountant.history == [(1.0, 0.25, 20)]

    given = parts(records=930, batch_size=10)
    run = engine()
    made = run.make_private(**given, noise_multiplier=1.0)
    assert isinstance(made[2], DPDataLoader)
    assert (len(made[2]), made[2].sample_rate) == (92, 1 / 93)
    train(*made)
    assert run.accountant.history == [(1.0, 1 / 93, 92)]


def test_a_shuffle_accountant_takes_the_loader_that_it_is_about():
    hs.opacus.register(name="shuffled", accountant=ShuffleAccountant(24, 240))
    run = engine("shuffled")
    made = run.make_private(**parts(shuffle=True), noise_multiplier=1.0, poisson_sampling=False)
    train(*made)
    expected = ShuffleAccountant(24, 240)
    expected.history = [(1.0, RATE, BATCHES)]
    assert run.get_epsilon(DELTA) == expected.get_epsilon(DELTA)
    hs.opacus.register(name="shuffled", accountant=ShuffleAccountant(24, 240), on_mismatch="raise")
    for other in (parts(), parts(shuffle=True, batch_size=12)):
        with pytest.raises(hs.SamplingMismatchError, match="Shuffle"):
            engine("shuffled").make_private(**other, noise_multiplier=1.0, poisson_sampling=False)


def test_a_hook_made_without_an_engine_is_that_of_the_accountant():
    hs.opacus.register()
    accountant = engine().accountant

    class Stepping:
        noise_multiplier = 1.5
        accumulated_iterations = 2

    accountant.get_optimizer_hook_fn(0.1)(Stepping())
    assert accountant.history == [(1.5, hs.Poisson(0.1, microbatches=2), 1)]


def checkpoint_of(run, made, tmp_path):
    path = tmp_path / "run.pt"
    run.save_checkpoint(path=path, module=made[0], optimizer=made[1])
    return path


def test_a_checkpoint_goes_on_where_it_was(tmp_path):
    hs.opacus.register(group_size=8)
    run = engine()
    made = run.make_private(**parts(), noise_multiplier=1.0)
    train(*made)
    path = checkpoint_of(run, made, tmp_path)
    resumed = engine()
    again = resumed.make_private(**parts(), noise_multiplier=1.0)
    resumed.load_checkpoint(path=path, module=again[0], optimizer=again[1])
    assert weights_of(again[0]).equal(weights_of(made[0]))
    assert resumed.get_epsilon(DELTA) == run.get_epsilon(DELTA) > 0.0
    train(*again)
    assert resumed.accountant.history == [(1.0, RATE, 2 * BATCHES)]


def test_states_are_read_by_the_same_kind_with_the_same_settings_only():
    hs.opacus.register(group_size=8)
    hs.opacus.register(group_size=2, name="two")
    hs.opacus.register(name="rgp", accountant=RenyiGroupAccountant(group_size=8))
    run = engine().accountant
    run.step(noise_multiplier=1.0, sample_rate=0.1)
    state = run.state_dict()
    assert state["mechanism"] == "hockeystick"

    # Not registered at all, and back.
    bare = GroupAccountant(group_size=8)
    bare.load_state_dict(state)
    assert bare.history == run.history
    with pytest.raises(ValueError, match="group_size of the saved accountant is 8, of this one 2"):
        GroupAccountant(group_size=2).load_state_dict(state)
    with pytest.raises(ValueError, match="mechanism must be 'renyi_group', got 'hockeystick'"):
        RenyiGroupAccountant(group_size=8).load_state_dict(state)
    other = engine().accountant
    other.load_state_dict(bare.state_dict())
    assert other.history == run.history

    two = engine("two").accountant
    for foreign in (state, engine("rgp").accountant.state_dict()):
        with pytest.raises(ValueError, match="mechanism must be 'two'"):
            two.load_state_dict(foreign)
    with pytest.raises(ValueError, match="group_size of the saved accountant is 8, of this one 2"):
        two.load_state_dict({**state, "mechanism": "two"})
    assert len(two) == 0


@pytest.mark.parametrize("mechanism", ["rdp", "prv", "gdp"])
def test_states_of_opacus_are_refused_with_the_way_to_take_them_over(mechanism):
    hs.opacus.register(group_size=4)
    old = engine(mechanism)
    made = old.make_private(**parts(), noise_multiplier=1.0)
    train(*made)
    new = engine()
    with pytest.raises(ValueError, match=f"got '{mechanism}'.*from_opacus"):
        new.accountant.load_state_dict(old.accountant.state_dict())
    with pytest.raises(ValueError, match=f"got '{mechanism}'.*from_opacus"):
        GroupAccountant().load_state_dict(old.accountant.state_dict())
    assert len(new.accountant) == 0
    for taken in (old.accountant, old.accountant.state_dict()):
        accountant = hs.opacus.from_opacus(taken, group_size=4)
        assert accountant.history == [(1.0, RATE, BATCHES)]
        assert accountant.get_epsilon(DELTA) == exact(4, 1.0, BATCHES)
    assert old.accountant.mechanism() == mechanism


def test_a_run_of_opacus_goes_on_with_the_exact_accountant():
    run = engine("rdp")
    model, optimizer, loader = run.make_private(**parts(), noise_multiplier=1.0)
    train(model, optimizer, loader)
    old = run.get_epsilon(DELTA)
    run.accountant = hs.opacus.from_opacus(run.accountant)
    optimizer.attach_step_hook(run.accountant.get_optimizer_hook_fn(1 / len(loader)))
    assert run.get_epsilon(DELTA) < old
    train(model, optimizer, loader)
    assert run.get_epsilon(DELTA) == exact(1, 1.0, 2 * BATCHES)


@pytest.mark.parametrize("damaged", [{}, {"1": 2}, {"history": []}])
def test_damaged_states_are_refused(damaged):
    hs.opacus.register()
    accountant = engine().accountant
    with pytest.raises(ValueError, match="must have the keys"):
        accountant.load_state_dict(damaged)
    with pytest.raises(TypeError, match="state must be a mapping"):
        accountant.load_state_dict(None)


def test_an_engine_searches_noise_for_its_own_accountant_whoever_registers_later():
    hs.opacus.register(group_size=8)
    run = engine()
    hs.opacus.register()
    made = run.make_private_with_epsilon(**parts(), target_epsilon=3.0, target_delta=DELTA, epochs=2)
    train(*made, epochs=2)
    assert run.accountant.group_size == 8
    assert 3.0 - 0.01 <= run.get_epsilon(DELTA) <= 3.0
    assert run.accountant.state_dict()["mechanism"] == "hockeystick"
    assert engine().accountant.group_size == 1
    hs.opacus.register(group_size=8)
    engine().accountant.load_state_dict(run.accountant.state_dict())


def test_a_registered_accountant_is_printed_as_what_it_is():
    hs.opacus.register()
    kind = type(engine().accountant)
    assert f"{kind.__module__}.{kind.__qualname__}" == "hockeystick.accountants._group.GroupAccountant"


def test_arguments_of_other_accountants_are_left_alone():
    hs.opacus.register()
    accountant = engine().accountant
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    assert accountant.get_epsilon(DELTA, 0.01) == accountant.get_epsilon(DELTA, eps_error=0.01) > 0.0


def test_what_poisson_samples_have_no_pair_for_is_refused_at_once():
    with pytest.raises(hs.UnsupportedError, match="not supported together"):
        hs.opacus.register(adjacency="replace", group=hs.Group(2, gradients="orthogonal"))


def test_an_older_opacus_is_told_from_the_one_that_is_needed(monkeypatch):
    import opacus.accountants

    monkeypatch.delattr(opacus.accountants, "register_accountant")
    with pytest.raises(ImportError, match=r"register needs Opacus 1\.6 or newer, and this is"):
        hs.opacus.register()


def test_without_opacus_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opacus.accountants", None)
    with pytest.raises(ImportError, match=r'pip install "hockeystick\[opacus\]"'):
        hs.opacus.register()
