"""A run, epochs and sizes in every function that asks for rate and steps; a refusal by name elsewhere."""

import json

import pytest

import hockeystick as hs
from hockeystick import auditing, renyi, shuffle
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    IndividualFilter,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

SIZES = {"batch_size": 100, "dataset_size": 10_000}
RUN = hs.Run(sampling="poisson", epochs=10, noise_multiplier=1.0, records_per_person=4, **SIZES)
OWN = {"sample_rate": 0.01, "steps": 1000}
SHUFFLED = hs.Run(sampling="shuffle", epochs=3, noise_multiplier=8.0, records_per_person=2, **SIZES)


def test_black_box_takes_it():
    exact = hs.black_box.get_epsilon(delta=1e-5, noise_multiplier=1.0, group_size=4, **OWN)
    assert hs.black_box.get_epsilon(RUN, delta=1e-5) == exact
    sized = {"noise_multiplier": 1.0, "group_size": 4, "epochs": 10, **SIZES}
    assert hs.black_box.get_epsilon(delta=1e-5, **sized) == exact
    exact = hs.black_box.get_delta(epsilon=40.0, noise_multiplier=1.0, group_size=4, **OWN)
    assert hs.black_box.get_delta(RUN, epsilon=40.0) == exact
    assert hs.black_box.get_delta(epsilon=40.0, **sized) == exact


@pytest.mark.parametrize(
    ("calibrate", "target"),
    [(renyi.calibrate, {"order": 4.0, "tau": 1.0}), (renyi.calibrate_dp, {"epsilon": 4.0, "delta": 1e-5})],
)
def test_renyi_calibration_takes_it(calibrate, target):
    exact = calibrate(hs.Gaussian, group_size=4, **OWN, **target)
    assert calibrate(RUN, **target) == calibrate(hs.Gaussian, run=RUN, **target) == exact
    assert calibrate(hs.Gaussian, group_size=4, epochs=10, **SIZES, **target) == exact
    skellam = RUN.replace(mechanism=hs.Skellam(50.0, sensitivity=2))
    bound = {"bound": "jensen", **target}
    by_hand = calibrate(hs.Skellam, group_size=4, sensitivity=2, **OWN, **bound)
    assert calibrate(skellam, **bound) == by_hand
    with pytest.raises(ValueError, match="the run, which has Skellam, got Laplace"):
        calibrate(hs.Laplace, run=skellam, **target)
    with pytest.raises(ValueError, match="steps contradicts the run"):
        calibrate(RUN, steps=3, **target)


def test_renyi_divergence_is_about_one_step():
    exact = renyi.group_rdp(hs.Gaussian(2.0), 4.0, sample_rate=0.01, group_size=3)
    assert renyi.group_rdp(hs.Gaussian(2.0), 4.0, group_size=3, **SIZES) == exact
    fixed = renyi.group_rdp(hs.Gaussian(2.0), 4.0, group_size=3, sampling="fixed", **SIZES)
    scheme = hs.WithoutReplacement(100, 10_000)
    assert fixed == renyi.group_rdp(hs.Gaussian(2.0), 4.0, group_size=3, sampling=scheme)
    of_step = renyi.group_rdp(hs.Gaussian(1.0), 4.0, group_size=4, **SIZES)
    for given in (((RUN, 4.0), {}), ((), {"run": RUN, "orders": 4.0}), ((RUN, 4.0), {"sample_rate": 0.01})):
        assert renyi.group_rdp(*given[0], **given[1]) == of_step
    assert RUN.number_of_steps * of_step == pytest.approx(hs.privacy_curve(RUN).renyi(4.0), rel=1e-9)
    with pytest.raises(TypeError, match="takes no steps or epochs"):
        renyi.group_rdp(hs.Gaussian(2.0), 4.0, sample_rate=0.01, group_size=3, steps=10)


@pytest.mark.parametrize(
    ("change", "by_hand"),
    [
        ({"mechanism": hs.Laplace(6.0)}, {"mechanism": hs.Laplace(6.0), "group_size": 4, **SIZES}),
        ({"sampling": "fixed"}, {"sampling": hs.WithoutReplacement(100, 10_000), "group_size": 4}),
        ({"adjacency": "replace"}, {"adjacency": "replace", "group_size": 4, **SIZES}),
        (
            {"group": hs.Group(rates=[0.01, 0.03])},
            {"group": hs.Group(rates=[0.01, 0.03]), **SIZES},
        ),
    ],
)
def test_renyi_divergence_takes_all_facts_of_a_run(change, by_hand):
    noise = by_hand.pop("mechanism", hs.Gaussian(1.0))
    exact = renyi.group_rdp(noise, [2.0, 8.0], **by_hand)
    assert renyi.group_rdp(RUN.replace(**change), [2.0, 8.0]).tolist() == exact.tolist()
    assert exact.tolist() != renyi.group_rdp(RUN, [2.0, 8.0]).tolist()


def test_renyi_divergence_refuses_what_a_run_contradicts_or_it_cannot_answer():
    with pytest.raises(ValueError, match=r"mechanism contradicts the run, which states 1\.0"):
        renyi.group_rdp(hs.Gaussian(2.0), 4.0, run=RUN)
    with pytest.raises(ValueError, match="group_size contradicts the run, which states 4"):
        renyi.group_rdp(RUN, 4.0, group_size=8)
    with pytest.raises(TypeError, match="exactly one of mechanism and component"):
        renyi.group_rdp(RUN.replace(noise_multiplier=None), 4.0)
    with pytest.raises(TypeError, match="takes one run"):
        renyi.group_rdp(RUN, 4.0, run=RUN)
    with pytest.raises(TypeError, match=r"run must be a Run, got 'run\.toml'"):
        renyi.group_rdp(orders=4.0, run="run.toml")
    with pytest.raises(hs.UnsupportedError, match="RandomAllocation"):
        renyi.group_rdp(RUN.replace(sampling=hs.RandomAllocation(10)), 4.0)


@pytest.mark.parametrize("function", [shuffle.tradeoff, shuffle.lower_bound, shuffle.upper_bound])
def test_shuffled_bounds_take_it(function):
    run = SHUFFLED.replace(adjacency="replace")
    scheme = hs.Shuffle(100, 10_000)
    exact = function(scheme, noise_multiplier=8.0, epochs=3, group_size=2)
    assert function(run) == function(run=run) == exact
    clipped = run.replace(mechanism=hs.BatchClipping(8.0))
    assert function(clipped) == function(
        scheme, noise_multiplier=8.0, epochs=3, group_size=2, clipping="batch"
    )
    mixed = run.replace(mechanism=hs.BatchClipping(8.0, units_per_batch=20))
    assert function(mixed) == function(
        scheme, noise_multiplier=8.0, epochs=3, group_size=2, clipping="mixed", units_per_batch=20
    )


def test_other_functions_of_shuffled_batches_take_it():
    scheme = hs.Shuffle(100, 10_000)
    law = shuffle.membership_law(scheme, epochs=3, group_size=2)
    assert shuffle.membership_law(SHUFFLED).probabilities.tolist() == law.probabilities.tolist()
    one = SHUFFLED.replace(records_per_person=1)
    assert shuffle.closed_form(one) == shuffle.closed_form(scheme, noise_multiplier=8.0, epochs=3)
    clipped = SHUFFLED.replace(mechanism=hs.BatchClipping(8.0))
    by_hand = shuffle.filtered(scheme, noise_multiplier=8.0, epochs=3, group_size=2, clipping="batch")
    assert shuffle.filtered(clipped).epsilon(1e-5) == by_hand.epsilon(1e-5)
    # A zeroed record moves the sum by less than a replaced one, so that what bounds these bounds those.
    assert shuffle.tradeoff(SHUFFLED) == shuffle.tradeoff(SHUFFLED.replace(adjacency="replace"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampling": hs.Poisson(0.01), "epochs": 3}, "takes runs with sampling='shuffle' or 'fixed'"),
        ({"sampling": "fixed", "adjacency": "add_remove"}, "replaced records"),
        ({"mechanism": hs.Laplace(1.0)}, "Gaussian noise alone"),
        ({"steps": 250}, "whole epochs, of 100 steps here"),
        ({"group": hs.Group(norms=[1.0, 0.5])}, "by their size alone"),
    ],
)
def test_what_shuffled_bounds_do_not_cover_is_refused(change, message):
    with pytest.raises(hs.UnsupportedError, match=message):
        shuffle.tradeoff(SHUFFLED.replace(**change))


def test_an_upper_bound_about_replaced_records_says_nothing_of_zeroed_ones():
    with pytest.raises(hs.UnsupportedError, match="replaced records"):
        shuffle.upper_bound(SHUFFLED)
    with pytest.raises(ValueError, match="noise_multiplier contradicts the run"):
        shuffle.tradeoff(SHUFFLED, noise_multiplier=1.0)


def test_an_audit_takes_all_of_it_but_its_noise():
    rates = (600, 1000, 20, 1000)
    exact = auditing.noise_multiplier_upper_bound(*rates, sample_rate=1.0, steps=2)
    run = hs.Run(sampling="poisson", batch_size=100, dataset_size=100, epochs=2)
    assert auditing.noise_multiplier_upper_bound(*rates, run=run) == exact
    sized = {"batch_size": 100, "dataset_size": 100, "epochs": 2}
    assert auditing.noise_multiplier_upper_bound(*rates, **sized) == exact
    with pytest.raises(hs.UnsupportedError, match="about adjacency='add_remove'"):
        auditing.noise_multiplier_upper_bound(*rates, run=run.replace(adjacency="replace"))
    with pytest.raises(TypeError, match="needs steps, or epochs"):
        auditing.noise_multiplier_upper_bound(*rates, sample_rate=0.1)


def test_a_filter_is_about_one_step():
    exact, sized = (IndividualFilter(epsilon=1.0, delta=1e-5) for _ in range(2))
    norms = [0.1, 1.0]
    assert (
        exact.step(norms, noise_multiplier=1.0, sample_rate=0.1).tolist()
        == sized.step(norms, noise_multiplier=1.0, batch_size=10, dataset_size=100).tolist()
    )
    assert exact.state_dict() == sized.state_dict()
    of_run = IndividualFilter(epsilon=1.0, delta=1e-5)
    run = hs.Run(sampling="poisson", epochs=3, noise_multiplier=1.0, batch_size=10, dataset_size=100)
    of_run.step(norms, run)
    assert of_run.state_dict() == exact.state_dict()
    before = of_run.state_dict()
    for change in ({"records_per_person": 2}, {"adjacency": "replace"}, {"mechanism": hs.Laplace(1.0)}):
        with pytest.raises(hs.UnsupportedError, match=f"the run states .*{str(*change.values())[:7]}"):
            of_run.step(norms, run.replace(**change))
    with pytest.raises(hs.UnsupportedError, match="sampling must be Poisson or FullBatch"):
        of_run.step(norms, run.replace(sampling="fixed"))
    with pytest.raises(TypeError, match="noise_multiplier is missing"):
        of_run.step(norms, run.replace(noise_multiplier=None))
    with pytest.raises(ValueError, match=r"noise_multiplier contradicts the run, which states 1\.0"):
        of_run.step(norms, run, noise_multiplier=2.0)
    assert of_run.state_dict() == before
    with pytest.raises(TypeError, match="once a step"):
        exact.step(norms, noise_multiplier=1.0, sample_rate=0.1, epochs=2)


def test_a_plan_starts_from_a_run():
    target = {"epsilon": 3.0, "delta": 1e-5}
    found = hs.plan(RUN, caps=[4], **target)
    asked = {"dataset_size": 10_000, "records_per_person": 4, "epochs": 10, "caps": [4]}
    other = hs.plan(batch_sizes=[32, 64, 100, 128, 256, 512], **asked, **target)
    assert [row for row in found if row["batch_size"] in (32, 64, 100, 128, 256, 512)] == list(other)
    assert any(row["batch_size"] == 100 for row in found)
    by_steps = RUN.replace(steps=500)
    assert {row["epochs"] for row in hs.plan(by_steps, caps=[4], batch_sizes=[100], **target)} == {5.0}
    assert {row["epochs"] for row in hs.plan(RUN, epochs=2, caps=[4], batch_sizes=[100], **target)} == {2.0}
    with pytest.raises(ValueError, match="dataset_size contradicts the run"):
        hs.plan(RUN, dataset_size=5, **target)
    with pytest.raises(hs.UnsupportedError, match="plain Poisson samples"):
        hs.plan(RUN.replace(sampling="fixed"), **target)
    with pytest.raises(TypeError, match="plan\\(\\) needs dataset_size"):
        hs.plan(epochs=3, **target)


ACCOUNTANTS = [
    GroupAccountant(4),
    RenyiGroupAccountant(4),
    MonteCarloAccountant(4, samples=100),
    IndividualAccountant(10_000),
    ShuffleAccountant(100, 10_000),
]


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda each: type(each).__name__)
def test_accountants_take_sizes_and_epochs(accountant):
    accountant.step(noise_multiplier=1.0, epochs=2, **SIZES)
    assert accountant.history == [(1.0, 0.01, 200)]
    accountant.step(noise_multiplier=1.0, **SIZES)
    accountant.step(noise_multiplier=1.0, sample_rate=0.01, epochs=0.5)
    assert accountant.history == [(1.0, 0.01, 251)]
    with pytest.raises(ValueError, match="contradicts"):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01, epochs=0.5, steps=7)
    with pytest.raises((TypeError, ValueError), match=r"dataset_size|needs"):
        accountant.step(noise_multiplier=1.0, batch_size=100, dataset_size=50)
    assert len(accountant) == 251


def test_accountants_take_schemes_by_name_and_know_their_own_sizes():
    accountant = GroupAccountant()
    accountant.step(noise_multiplier=2.0, sampling="fixed", epochs=1, **SIZES)
    assert accountant.history == [(2.0, hs.WithoutReplacement(100, 10_000), 100)]
    own = IndividualAccountant(10_000)
    own.step(noise_multiplier=2.0, batch_size=100)
    assert own.history == [(2.0, 0.01, 1)]
    shuffled = ShuffleAccountant(300, 1000)
    shuffled.step(noise_multiplier=2.0, epochs=2)
    assert len(shuffled) == 6  # three whole batches an epoch
    with pytest.raises(TypeError, match="did you mean noise_multiplier"):
        accountant.step(sigma=1.0, **SIZES)


MECHANISMS = {
    "batch": hs.BatchClipping(16.0, units_per_batch=2),
    "adaptive": hs.AdaptiveClipping(1.0, 5.0),
    "skellam": hs.Skellam(100.0, sensitivity=3),
    "toeplitz": hs.CorrelatedNoise.toeplitz([1.0, 0.5], 2.0),
    "blt": hs.CorrelatedNoise.blt([0.3, 0.2], [0.9, 0.5], 4.0),
    "open": hs.CorrelatedNoise.prefix_sum_root(),
}
SCHEMES = {
    "order": hs.FixedOrder(100, members="apart"),
    "separation": hs.MinimumSeparation(100, participations=3),
    "any": hs.MinimumSeparation(100),
    "cyclic": hs.CyclicPoisson(0.04, cycle=4),
}


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_files_hold_every_mechanism(name, suffix, tmp_path):
    run = hs.Run(sampling=hs.WithoutReplacement(100, 10_000), steps=100, mechanism=MECHANISMS[name])
    again = hs.Run.load(run.save(tmp_path / f"run.{suffix}"))
    assert again == run
    assert again.mechanism == MECHANISMS[name]
    assert again.sha256 == run.sha256
    assert hs.Run.from_facts(json.loads(json.dumps(run.facts))) == run
    assert run.replace(mechanism=hs.Laplace(1.0)).sha256 != run.sha256


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize("name", SCHEMES)
def test_files_hold_schemes_of_correlated_noise(name, suffix, tmp_path):
    noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5], 2.0)
    run = hs.Run(sampling=SCHEMES[name], steps=400, mechanism=noise)
    assert run.scheme == SCHEMES[name]
    assert hs.Run.load(run.save(tmp_path / f"run.{suffix}")) == run
    exact = hs.get_epsilon(delta=1e-5, sampling=SCHEMES[name], steps=400, mechanism=noise)
    assert hs.get_epsilon(run, delta=1e-5) == exact
    target = {"epsilon": 3.0, "delta": 1e-5}
    found = hs.get_noise_multiplier(run, **target)
    by_hand = hs.get_noise_multiplier(sampling=SCHEMES[name], steps=400, mechanism=noise, **target)
    assert found == by_hand != hs.get_noise_multiplier(sampling=hs.FullBatch(), steps=400, **target)


def test_epochs_of_schemes_of_correlated_noise():
    noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5], 2.0)
    run = {"mechanism": noise, "epochs": 3}
    assert hs.Run(sampling=hs.FixedOrder(100), **run).number_of_steps == 300
    assert hs.Run(sampling=hs.CyclicPoisson(0.05, cycle=4), **run).number_of_steps == 240
    with pytest.raises(TypeError, match="give steps"):
        hs.Run(sampling=hs.MinimumSeparation(10), **run)
    with pytest.raises(TypeError, match="mechanism=CorrelatedNoise alone"):
        hs.Run(sampling=hs.FixedOrder(100), noise_multiplier=1.0, steps=3)
    with pytest.raises(TypeError, match="batch_size does not belong"):
        hs.Run(sampling=hs.FixedOrder(100), batch_size=3, **run)
    with pytest.raises(hs.UnsupportedError, match="holds no matrices"):
        hs.Run(sampling="full", steps=2, mechanism=hs.CorrelatedNoise.from_matrix([[1.0, 0.0], [0.5, 1.0]]))


def test_a_group_with_a_bound_on_cosines_comes_back():
    run = RUN.replace(group=hs.Group(3, cosine=0.5))
    assert hs.Run.from_facts(run.facts) == run


def test_functions_answer_what_they_know_of_such_runs_and_refuse_the_rest():
    fixed = {"sampling": "poisson", "sample_rate": 0.01, "steps": 1000}
    clipped = hs.Run(mechanism=hs.BatchClipping(16.0), records_per_person=256, **fixed)
    exact = hs.get_epsilon(delta=1e-5, mechanism=hs.BatchClipping(16.0), group_size=256, **OWN)
    assert hs.get_epsilon(clipped, delta=1e-5) == exact
    accountant = GroupAccountant(256)
    accountant.step(clipped)
    assert accountant.get_epsilon(1e-5) == exact
    skellam = hs.Run(mechanism=hs.Skellam(100.0), **fixed)
    with pytest.raises(hs.UnsupportedError, match="RenyiGroupAccountant"):
        hs.get_epsilon(skellam, delta=1e-5)
    known = RenyiGroupAccountant()
    known.step(skellam)
    assert known.get_epsilon(1e-5) > 0.0
    sigma = hs.get_noise_multiplier(clipped, epsilon=3.0, delta=1e-5)
    assert hs.get_epsilon(clipped.replace(noise_multiplier=sigma), delta=1e-5) <= 3.0
    for run in (skellam, hs.Run(mechanism=hs.Laplace(1.0), **fixed)):
        with pytest.raises(hs.UnsupportedError, match="the noise of Gaussian steps is asked for"):
            hs.get_noise_multiplier(run, epsilon=3.0, delta=1e-5)
    with pytest.raises(hs.UnsupportedError, match="IndividualAccountant takes no mechanism"):
        IndividualAccountant(100).step(hs.Run(mechanism=hs.Laplace(1.0), **fixed))


def test_a_shuffle_accountant_takes_runs_that_clip_as_it_assumes():
    run = hs.Run(sampling="shuffle", epochs=1, mechanism=hs.BatchClipping(8.0), **SIZES)
    clipped = ShuffleAccountant(100, 10_000, clipping="batch")
    clipped.step(run)
    assert clipped.history == [(8.0, 0.01, 100)]
    with pytest.raises(hs.UnsupportedError, match="clipping='individual'"):
        ShuffleAccountant(100, 10_000).step(run)
