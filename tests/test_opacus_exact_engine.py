"""`hockeystick.opacus.PrivacyEngine`: noise without slack, and a look at the loader before anything else."""

import inspect
import math
import warnings

import pytest
from opacus_runs import BATCHES, RATE, parts, train, weights_of

import hockeystick as hs
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)
from hockeystick.opacus._opacus_classes import is_hooked

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
]

DELTA = 1e-5
TARGET = {"target_epsilon": 6.0, "target_delta": DELTA}


def engine(accountant=None, **options):
    return hs.opacus.PrivacyEngine(accountant=accountant, **options)


@pytest.mark.parametrize(
    "whose", [{}, {"group_size": 8}, {"group": hs.Group(norms=[1.0, 0.5, 0.25])}, {"adjacency": "remove"}]
)
def test_noise_is_the_smallest_for_the_target(whose):
    run = engine(GroupAccountant(**whose))
    made = run.make_private_with_epsilon(**parts(), **TARGET, epochs=4)
    least = hs.get_noise_multiplier(
        epsilon=6.0, delta=DELTA, sample_rate=RATE, steps=4 * BATCHES, bounds=True, **whose
    )
    assert least[0] <= made[1].noise_multiplier <= least[1]
    train(*made, epochs=4)
    assert 6.0 * (1.0 - 1e-5) < run.get_epsilon(DELTA) <= 6.0


@pytest.mark.parametrize(
    "accountant",
    [RenyiGroupAccountant(group_size=4), RenyiGroupAccountant(group_size=4, bound="jensen"), "prv"],
    ids=["renyi", "jensen", "prv"],
)
def test_other_accountants_search_for_their_own_epsilon(accountant):
    run = engine(accountant)
    made = run.make_private_with_epsilon(**parts(), **TARGET, epochs=2)
    train(*made, epochs=2)
    assert run.accountant.history == [(made[1].noise_multiplier, RATE, 2 * BATCHES)]
    assert 6.0 * (1.0 - 1e-4) < run.get_epsilon(DELTA) <= 6.0


def test_steps_so_far_are_part_of_the_target():
    run = engine(GroupAccountant(group_size=2))
    train(*run.make_private(**parts(), noise_multiplier=2.0))
    spent = run.get_epsilon(DELTA)
    made = run.make_private_with_epsilon(**parts(), **TARGET, epochs=2)
    train(*made, epochs=2)
    assert 0.0 < spent < 6.0 * (1.0 - 1e-5) < run.get_epsilon(DELTA) <= 6.0


def test_a_target_that_is_spent_already_is_refused_and_nothing_changes():
    run = engine()
    train(*run.make_private(**parts(), noise_multiplier=0.5))
    given, history = parts(), list(run.accountant.history)
    with pytest.raises(ValueError, match=r"target_epsilon 0\.1 is out of reach"):
        run.make_private_with_epsilon(**given, target_epsilon=0.1, target_delta=DELTA, epochs=1)
    assert run.accountant.history == history
    assert not is_hooked(given["module"])


def test_every_step_of_every_epoch_is_planned_for():
    # int(3 / (1 / 75)) is 224.
    given = parts(records=750, batch_size=10)
    run = engine()
    made = run.make_private_with_epsilon(**given, **TARGET, epochs=3)
    assert train(*made, epochs=3) == 225
    assert 6.0 * (1.0 - 1e-5) < run.get_epsilon(DELTA) <= 6.0


@pytest.mark.parametrize("search", [False, True])
def test_a_mismatch_is_found_before_anything_changes(search):
    given = parts(shuffle=True)
    run = engine(on_mismatch="raise")
    before = weights_of(given["module"])
    make = run.make_private_with_epsilon if search else run.make_private
    how = TARGET | {"epochs": 1} if search else {"noise_multiplier": 1.0}
    with pytest.raises(hs.SamplingMismatchError, match="the loader shuffles"):
        make(**given, **how, poisson_sampling=False)
    assert weights_of(given["module"]).equal(before)
    assert not is_hooked(given["module"])
    # The same model, the right loader.
    train(*make(**given, **how))
    assert is_hooked(given["module"])
    assert len(run.accountant) == BATCHES


@pytest.mark.parametrize("search", [False, True])
def test_a_mismatch_can_be_told_or_left_alone(search):
    def made_private(on_mismatch):
        run = engine(GroupAccountant(), on_mismatch=on_mismatch)
        make = run.make_private_with_epsilon if search else run.make_private
        how = TARGET | {"epochs": 1} if search else {"noise_multiplier": 1.0}
        return run, make(**parts(shuffle=True), **how, poisson_sampling=False)

    if search:
        # No noise is known with which the loader meets a target.
        with pytest.raises(hs.SamplingMismatchError, match="the loader shuffles"):
            made_private("warn")
    else:
        with pytest.warns(hs.SamplingMismatchWarning, match="the loader shuffles") as told:
            run, made = made_private("warn")
        assert sum(issubclass(each.category, hs.SamplingMismatchWarning) for each in told) == 1
        train(*made)
        assert len(run.accountant) == BATCHES
        with pytest.raises(hs.SamplingMismatchError, match="the loader shuffles"):
            run.get_epsilon(DELTA)
    with warnings.catch_warnings():
        warnings.simplefilter("error", hs.SamplingMismatchWarning)
        run, made = made_private("ignore")
    train(*made)
    assert run.accountant.history == [(made[1].noise_multiplier, RATE, BATCHES)]


SHUFFLED = hs.Shuffle(24, 240)


@pytest.mark.parametrize("search", [False, True])
def test_shuffled_batches_are_charged_as_what_they_are(search):
    run = engine()
    make = run.make_private_with_epsilon if search else run.make_private
    how = TARGET | {"epochs": 2} if search else {"noise_multiplier": 2.0}
    with pytest.warns(hs.SamplingMismatchWarning, match="upper end of a certified interval") as told:
        made = make(**parts(shuffle=True), **how, poisson_sampling=False)
    assert sum(issubclass(each.category, hs.SamplingMismatchWarning) for each in told) == 1
    train(*made, epochs=2)
    noise = made[1].noise_multiplier
    assert run.accountant.history == [(noise, SHUFFLED, 2 * BATCHES)]
    # In every epoch each record is in one batch, which an adversary may know: one Gaussian step an epoch.
    ends = hs.get_epsilon(
        delta=DELTA,
        noise_multiplier=noise,
        sampling=SHUFFLED,
        steps=2 * BATCHES,
        adjacency="zero_out",
        bounds=True,
    )
    found = run.get_epsilon(DELTA)
    assert found == pytest.approx(float(ends[1]), rel=1e-6)
    full = hs.get_epsilon(delta=DELTA, noise_multiplier=noise, sampling=hs.FullBatch(), steps=2)
    assert found == pytest.approx(full, rel=1e-5)
    if search:
        assert 6.0 * (1.0 - 1e-4) < found <= 6.0


def test_an_accountant_for_zeroed_records_takes_a_shuffled_loader():
    run = engine(GroupAccountant(2, "zero_out"), on_mismatch="raise", sampling=SHUFFLED)
    with warnings.catch_warnings():
        warnings.simplefilter("error", hs.SamplingMismatchWarning)
        made = run.make_private(**parts(shuffle=True), noise_multiplier=2.0)
    train(*made, accumulate=2)
    # Two batches that share no record are one larger batch.
    assert run.accountant.history == [(2.0, hs.Shuffle(48, 240), BATCHES // 2)]
    assert run.get_epsilon(DELTA) > 0.0
    other = parts(shuffle=True, batch_size=12)
    with pytest.raises(hs.SamplingMismatchError, match="Shuffle"):
        engine(GroupAccountant(2, "zero_out"), on_mismatch="raise", sampling=SHUFFLED).make_private(
            **other, noise_multiplier=2.0
        )
    assert not is_hooked(other["module"])


def test_the_engine_chooses_anew_while_no_step_was_taken():
    run = engine()
    with pytest.warns(hs.SamplingMismatchWarning):
        run.make_private(**parts(shuffle=True), noise_multiplier=2.0, poisson_sampling=False)
    assert run.accountant.adjacency == "zero_out"
    train(*run.make_private(**parts(), noise_multiplier=2.0))
    assert run.accountant.adjacency == "add_remove"
    assert run.accountant.history == [(2.0, RATE, BATCHES)]
    # After steps the neighbours stay what they are.
    with pytest.warns(hs.SamplingMismatchWarning, match="refused"):
        train(*run.make_private(**parts(shuffle=True), noise_multiplier=2.0, poisson_sampling=False))
    with pytest.raises(hs.SamplingMismatchError, match="the loader shuffles"):
        run.get_epsilon(DELTA)


def test_a_loader_that_draws_by_itself_is_planned_for_at_its_rate():
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler
    from torch.utils.data import DataLoader

    given = parts()
    data = given["data_loader"].dataset
    sampler = UniformWithReplacementSampler(num_samples=len(data), sample_rate=0.25, steps=20)
    given["data_loader"] = DataLoader(data, batch_sampler=sampler)
    run = engine()
    made = run.make_private_with_epsilon(**given, **TARGET, epochs=2, poisson_sampling=False)
    train(*made, epochs=2)
    assert run.accountant.history == [(made[1].noise_multiplier, 0.25, 40)]
    assert 6.0 * (1.0 - 1e-5) < run.get_epsilon(DELTA) <= 6.0


def test_a_shuffle_accountant_searches_for_the_loader_that_it_is_about():
    run = engine(ShuffleAccountant(24, 240))
    given = parts(shuffle=True)
    made = run.make_private_with_epsilon(**given, **TARGET, epochs=1, poisson_sampling=False)
    train(*made)
    assert 6.0 * (1.0 - 1e-4) < run.get_epsilon(DELTA) <= 6.0
    given = parts(shuffle=True)
    with pytest.raises(hs.SamplingMismatchError, match="poisson_sampling=True draws Poisson samples"):
        engine(ShuffleAccountant(24, 240)).make_private(**given, noise_multiplier=1.0)
    assert not is_hooked(given["module"])


def test_accumulated_poisson_batches_are_charged_by_their_law():
    run = engine()
    model, optimizer, loader = run.make_private(**parts(), noise_multiplier=2.0)
    model.allow_grad_accumulation()
    train(model, optimizer, loader, accumulate=5)
    assert run.accountant.history == [(2.0, hs.Poisson(RATE, microbatches=5), BATCHES // 5)]


def test_accountants_of_opacus_are_told_of_accumulated_batches_as_steps_with_a_part_of_the_noise():
    run = engine("rdp")
    model, optimizer, loader = run.make_private(**parts(), noise_multiplier=2.0)
    model.allow_grad_accumulation()
    train(model, optimizer, loader, accumulate=5)
    [(noise, rate, steps)] = run.accountant.history
    assert (rate, steps) == (RATE, BATCHES)
    assert 0.0 < 2.0 / math.sqrt(5.0) - noise < 1e-14


def test_accumulation_can_be_planned_for():
    run = engine(sampling=hs.Poisson(RATE, microbatches=5))
    made = run.make_private_with_epsilon(**parts(), **TARGET, epochs=2)
    made[0].allow_grad_accumulation()
    train(*made, epochs=2, accumulate=5)
    assert 6.0 * (1.0 - 1e-5) < run.get_epsilon(DELTA) <= 6.0
    least = hs.get_noise_multiplier(
        epsilon=6.0, delta=DELTA, sample_rate=RATE, group_size=5, steps=2 * BATCHES // 5, bounds=True
    )
    assert least[0] <= made[1].noise_multiplier <= least[1]


def fresh_batches(data, size, number):
    """A loader that draws a fresh batch of a fixed size every time."""
    import torch

    class Fresh(torch.utils.data.Sampler):
        def __iter__(self):
            for _ in range(number):
                yield torch.randperm(len(data))[:size].tolist()

        def __len__(self):
            return number

    return torch.utils.data.DataLoader(data, batch_sampler=Fresh())


def test_fresh_fixed_batches_of_ones_own_are_charged_as_what_they_are_said_to_be():
    fixed = hs.WithoutReplacement(24, 240)
    for accumulate in (1, 2):
        given = parts()
        given["data_loader"] = fresh_batches(given["data_loader"].dataset, 24, BATCHES)
        run = engine(GroupAccountant(group_size=2), sampling=fixed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", hs.SamplingMismatchWarning)
            made = run.make_private_with_epsilon(**given, **TARGET, epochs=2)
        train(*made, epochs=2, accumulate=accumulate)
        [(noise, draw, steps)] = run.accountant.history
        assert (draw, steps) == (fixed, 2 * BATCHES)
        if accumulate == 1:
            assert 6.0 * (1.0 - 1e-5) < run.get_epsilon(DELTA) <= 6.0
        else:
            assert 0.0 < made[1].noise_multiplier / math.sqrt(2.0) - noise < 1e-14
    # What is said must not contradict what is seen, nor what Opacus is asked for.
    with pytest.warns(hs.SamplingMismatchWarning, match=r"WithoutReplacement.*but the loader shuffles"):
        engine(sampling=fixed).make_private(**parts(shuffle=True), noise_multiplier=1.0)
    for sampling in (fixed, hs.Poisson(0.2)):
        given = parts()
        with pytest.raises(hs.SamplingMismatchError, match="poisson_sampling=True draws Poisson samples"):
            engine(sampling=sampling).make_private(**given, noise_multiplier=1.0, poisson_sampling=True)
        assert not is_hooked(given["module"])


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_full_batches_and_several_of_them_under_one_noise(adjacency):
    run = engine(GroupAccountant(adjacency=adjacency), sampling=hs.FullBatch())
    made = run.make_private(**parts(batch_size=240), noise_multiplier=6.0)
    train(*made, epochs=2)
    assert run.accountant.history == [(6.0, hs.FullBatch(), 2)]
    made = run.make_private(**parts(batch_size=240), noise_multiplier=6.0)
    run.accountant.history = []
    train(*made, epochs=4, accumulate=2)
    # A record moves the sum by two clipping norms.
    [(noise, draw, steps)] = run.accountant.history
    assert (draw, steps) == (hs.FullBatch(), 2)
    assert 0.0 < 3.0 - noise < 1e-14


def test_opacus_accountants_are_refused_by_the_engine_where_they_would_answer(tmp_path):
    run = engine("rdp")
    with pytest.warns(hs.SamplingMismatchWarning, match="the loader shuffles"):
        made = run.make_private(**parts(shuffle=True), noise_multiplier=1.0, poisson_sampling=False)
    train(*made)
    with pytest.raises(hs.SamplingMismatchError, match="the loader shuffles"):
        run.get_epsilon(DELTA)
    run.save_checkpoint(path=tmp_path / "run.pt", module=made[0], optimizer=made[1])
    resumed = engine("rdp")
    again = resumed.make_private(**parts(), noise_multiplier=1.0)
    resumed.load_checkpoint(path=tmp_path / "run.pt", module=again[0], optimizer=again[1])
    with pytest.raises(hs.SamplingMismatchError, match="the loader shuffles"):
        resumed.get_epsilon(DELTA)


def test_the_noise_of_gdp_is_found_though_its_own_search_fails_below():
    targets = {"target_epsilon": 3.0, "target_delta": DELTA, "epochs": 2}
    noise = engine("gdp").make_private_with_epsilon(**parts(), **targets)[1].noise_multiplier
    from opacus import PrivacyEngine

    theirs = (
        PrivacyEngine(accountant="gdp")
        .make_private_with_epsilon(**parts(), **targets, epsilon_tolerance=1e-4)[1]
        .noise_multiplier
    )
    assert theirs * (1.0 - 1e-3) < noise <= theirs


def test_states_of_a_registered_accountant_are_read_and_those_of_opacus_say_how_to_go_on(
    tmp_path, monkeypatch
):
    from opacus import PrivacyEngine
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    hs.opacus.register(group_size=2)
    for name in ("hockeystick", "rdp"):
        run = PrivacyEngine(accountant=name)
        made = run.make_private(**parts(), noise_multiplier=1.0)
        train(*made)
        run.save_checkpoint(path=tmp_path / f"{name}.pt", module=made[0], optimizer=made[1])
    resumed = engine(GroupAccountant(group_size=2))
    resumed.load_checkpoint(path=tmp_path / "hockeystick.pt", module=made[0], optimizer=made[1])
    assert resumed.accountant.history == [(1.0, RATE, BATCHES)]
    with pytest.raises(ValueError, match=r"got 'rdp' of Opacus: take the history over by .*from_opacus"):
        resumed.load_checkpoint(path=tmp_path / "rdp.pt", module=made[0], optimizer=made[1])


def test_a_number_of_steps_can_be_planned_for():
    run = engine()
    made = run.make_private_with_epsilon(**parts(), **TARGET, steps=7)
    least = hs.get_noise_multiplier(epsilon=6.0, delta=DELTA, sample_rate=RATE, steps=7, bounds=True)
    assert least[0] <= made[1].noise_multiplier <= least[1]
    for wrong in ({}, {"epochs": 1, "steps": 7}):
        with pytest.raises(TypeError, match="exactly one of epochs and steps"):
            run.make_private_with_epsilon(**parts(), **TARGET, **wrong)


def test_an_individual_accountant_is_refused_with_what_to_use():
    with pytest.raises(TypeError, match="attach an IndividualTracker"):
        engine(IndividualAccountant(240))


def test_what_the_accountant_has_no_pair_for_is_refused_before_anything_changes():
    given = parts()
    orthogonal = hs.Group(2, gradients="orthogonal")
    with pytest.raises(hs.UnsupportedError, match="not supported together"):
        engine(GroupAccountant(group=orthogonal, adjacency="replace")).make_private(
            **given, noise_multiplier=1.0
        )
    assert not is_hooked(given["module"])


def test_a_registered_name_is_taken_too(monkeypatch):
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    hs.opacus.register(group_size=3, name="three", on_mismatch="raise")
    run = engine("three", on_mismatch="ignore")
    assert run.accountant.group_size == 3
    # The engine's word counts: it looks at the loader.
    given = parts(shuffle=True)
    train(*run.make_private(**given, noise_multiplier=2.0, poisson_sampling=False))
    made = run.make_private_with_epsilon(**parts(), target_epsilon=9.0, target_delta=DELTA, epochs=1)
    train(*made)
    assert run.accountant.history[0] == (2.0, RATE, BATCHES)
    assert 9.0 * (1.0 - 1e-5) < run.get_epsilon(DELTA) <= 9.0


def test_checkpoints_keep_the_account(tmp_path):
    run = engine(GroupAccountant(group_size=4))
    made = run.make_private(**parts(), noise_multiplier=1.0)
    train(*made)
    run.save_checkpoint(path=tmp_path / "run.pt", module=made[0], optimizer=made[1])
    resumed = engine(GroupAccountant(group_size=4))
    again = resumed.make_private(**parts(), noise_multiplier=1.0)
    resumed.load_checkpoint(path=tmp_path / "run.pt", module=again[0], optimizer=again[1])
    train(*again)
    assert resumed.accountant.history == [(1.0, RATE, 2 * BATCHES)]
    other = engine(GroupAccountant(group_size=2))
    with pytest.raises(ValueError, match="group_size of the saved accountant is 4, of this one 2"):
        other.load_checkpoint(path=tmp_path / "run.pt", module=made[0], optimizer=made[1])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"target_epsilon": 0.0}, ValueError, "target_epsilon must be positive and finite, got 0"),
        ({"target_epsilon": math.nan}, ValueError, "target_epsilon must be positive and finite, got nan"),
        ({"target_delta": 0.0}, ValueError, r"target_delta must be in \(0, 1\), got 0"),
        ({"target_delta": 1.0}, ValueError, r"target_delta must be in \(0, 1\), got 1"),
        ({"epochs": 0}, ValueError, "epochs must be a whole number >= 1, got 0"),
        ({"epochs": 1.5}, ValueError, "epochs must be a whole number >= 1, got 1.5"),
        ({"target_epsilon": "6"}, TypeError, "target_epsilon"),
    ],
)
def test_targets_out_of_range_are_refused_by_name(arguments, error, words):
    given = parts()
    with pytest.raises(error, match=words):
        engine().make_private_with_epsilon(**given, **(TARGET | {"epochs": 1} | arguments))
    assert not is_hooked(given["module"])


@pytest.mark.parametrize("name", ["make_private", "make_private_with_epsilon"])
def test_prompts_see_the_arguments_of_opacus_too(name):
    from opacus import PrivacyEngine

    ours = inspect.signature(getattr(hs.opacus.PrivacyEngine, name)).parameters
    theirs = inspect.signature(getattr(PrivacyEngine, name)).parameters
    assert set(theirs) <= set(ours)
    assert {"module", "optimizer", "data_loader", "max_grad_norm"} <= set(ours)
    assert ours["poisson_sampling"].default is None


def test_what_is_no_accountant_is_refused():
    with pytest.raises(TypeError, match="accountant must be an accountant or the name of one, got float"):
        engine(1.5)
    with pytest.raises(ValueError, match="Unexpected accounting mechanism"):
        engine("nobody's")
    with pytest.raises(ValueError, match="on_mismatch must be one of"):
        engine(on_mismatch="shout")
