"""ExactAccountant in the seams of JAX Privacy 2.0 and later, on the settings of that library's own tests.

JAX Privacy has functions that make events and plans that calibrate themselves (``experimental.accounting``
and ``experimental.execution_plan``, without ``experimental`` in later releases), and in 2.0 training
accountants with a configuration (``accounting.analysis`` and ``accounting.calibrate``).
"""

import inspect
import math

import numpy as np
import pytest

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

DELTA = 1e-5
NOISE = 4.0
UPDATES = 10_000
BATCH, RECORDS = 1024, 50_000
CYCLE = 64

GRID = 1e-4
"""dp-accounting's default grid of losses: about how far its epsilon of this run lies above the exact one."""


def the_events():
    """The module of functions that make events."""
    accounting = pytest.importorskip("jax_privacy.accounting")
    if hasattr(accounting, "dpsgd_event"):
        return accounting
    from jax_privacy.experimental import accounting as events

    return events


@pytest.fixture(scope="module")
def jax_accounting():
    accounting = pytest.importorskip("jax_privacy.accounting")
    if not hasattr(accounting, "DpAccountantConfig"):
        pytest.skip("this JAX Privacy has no training accountants any more")
    return accounting


@pytest.fixture(scope="module")
def exact(jax_accounting):
    class ExactAccountantConfig(jax_accounting.DpAccountantConfig):
        def create_accountant(self):
            return hs.dp_accounting.ExactAccountant()

    return jax_accounting.DpsgdTrainingAccountant(dp_accountant_config=ExactAccountantConfig())


def by_peer(accounting, config):
    return accounting.DpsgdTrainingAccountant(dp_accountant_config=config)


def run(accounting, **changes):
    settings = {"noise_multipliers": NOISE, "batch_size": BATCH, "num_samples": RECORDS, "delta": DELTA}
    return accounting.DpParams(**{**settings, **changes})


def test_poisson_sampling_lies_below_both_of_their_accountants(jax_accounting, exact):
    ours = exact.compute_epsilon(UPDATES, run(jax_accounting))
    by_grid = by_peer(jax_accounting, jax_accounting.PldAccountantConfig()).compute_epsilon(
        UPDATES, run(jax_accounting)
    )
    by_renyi = by_peer(jax_accounting, jax_accounting.RdpAccountantConfig()).compute_epsilon(
        UPDATES, run(jax_accounting)
    )
    assert by_grid - GRID <= ours <= by_grid < by_renyi
    assert ours == hs.get_epsilon(
        delta=DELTA, noise_multiplier=NOISE, sample_rate=BATCH / RECORDS, steps=UPDATES
    )


def test_fixed_batches_are_posed_as_poisson_sampling_at_half_the_noise(jax_accounting, exact):
    fixed = run(
        jax_accounting,
        noise_multipliers=2 * NOISE,
        sampling_method=jax_accounting.SamplingMethod.FIXED_BATCH_SIZE,
    )
    posed = exact.compute_epsilon(UPDATES, fixed)
    scheme = hs.WithoutReplacement(BATCH, RECORDS)
    held = hs.get_epsilon(delta=DELTA, noise_multiplier=2 * NOISE, sampling=scheme, steps=UPDATES)
    assert posed == pytest.approx(held, rel=2e-6)


@pytest.mark.parametrize(
    ("records", "updates"),
    [
        (RECORDS * CYCLE, UPDATES * CYCLE),
        (RECORDS * CYCLE + CYCLE - 1, UPDATES * CYCLE),
        (RECORDS * CYCLE, (UPDATES - 1) * CYCLE + 1),
        (RECORDS * CYCLE + CYCLE - 1, (UPDATES - 1) * CYCLE + 1),
    ],
    ids=["even", "records left over", "updates left over", "both left over"],
)
def test_a_record_of_a_cycle_takes_part_in_its_own_rounds_alone(jax_accounting, exact, records, updates):
    cyclic = exact.compute_epsilon(updates, run(jax_accounting, num_samples=records, cycle_length=CYCLE))
    assert cyclic == exact.compute_epsilon(UPDATES, run(jax_accounting))


def test_users_with_two_records_are_groups_of_two(jax_accounting):
    """JAX Privacy takes its own accountant only there; the group of ours is the same pair on no grid."""
    config = jax_accounting.PldAccountantConfig(value_discretization_interval=1e-3)
    by_user = jax_accounting.DpsgdTrainingUserLevelAccountant(dp_accountant_config=config)
    theirs = by_user.compute_epsilon(UPDATES, run(jax_accounting, examples_per_user=2))
    ours = hs.get_epsilon(
        delta=DELTA, noise_multiplier=NOISE, sample_rate=BATCH / RECORDS, steps=UPDATES, group_size=2
    )
    assert ours == pytest.approx(4.604507, abs=1e-6)
    assert theirs - 0.01 <= ours <= theirs


def test_calibration_needs_less_than_their_renyi_accountant(jax_accounting, exact):
    by_renyi = by_peer(jax_accounting, jax_accounting.RdpAccountantConfig())
    target = by_renyi.compute_epsilon(UPDATES, run(jax_accounting))
    noise = jax_accounting.calibrate_noise_multiplier(
        target_epsilon=target,
        accountant=exact,
        batch_sizes=BATCH,
        num_updates=UPDATES,
        num_samples=RECORDS,
        target_delta=DELTA,
        tol=1e-5,
    )
    least = hs.get_noise_multiplier(epsilon=target, delta=DELTA, sample_rate=BATCH / RECORDS, steps=UPDATES)
    assert noise == pytest.approx(least, abs=2e-5)
    assert least < NOISE


def test_batches_with_a_cap_have_their_own_pair():
    capped = the_events().truncated_dpsgd_event(
        NOISE, 128, sampling_prob=0.01, num_examples=1000, truncated_batch_size=16
    )
    accountant = hs.dp_accounting.ExactAccountant().compose(capped)
    run = {"delta": DELTA, "noise_multiplier": NOISE, "steps": 128}
    cut = hs.Poisson(0.01, max_batch_size=16, dataset_size=1000)
    assert accountant.get_epsilon(DELTA) == pytest.approx(hs.get_epsilon(sampling=cut, **run), rel=2e-6)
    assert accountant.get_epsilon(DELTA) > hs.get_epsilon(sample_rate=0.01, **run)


def test_events_are_answered_below_both_of_their_accountants():
    import dp_accounting

    events = the_events()
    for event in (
        events.dpsgd_event(1.0, 128, sampling_prob=0.01),
        events.amplified_bandmf_event(1.0, 128, num_bands=16, sampling_prob=0.01),
    ):
        ours = hs.dp_accounting.ExactAccountant().compose(event).get_epsilon(DELTA)
        for peer in (dp_accounting.pld.PLDAccountant(), dp_accounting.rdp.RdpAccountant()):
            assert 0.0 < ours <= peer.compose(event).get_epsilon(DELTA)


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize(
    ("relation", "adjacency"), [("ADD_OR_REMOVE_ONE", "add_remove"), ("REPLACE_ONE", "replace")]
)
def test_fixed_batches_have_their_own_event(relation, adjacency, size):
    """dp-accounting's Rényi accountant knows one replaced record, by the noise over the change of the sum."""
    import dp_accounting

    events = the_events()
    relation = dp_accounting.NeighboringRelation[relation]
    event = events.fixed_dpsgd_event(2.0, 100, dataset_size=RECORDS, batch_size=500)
    ours = hs.dp_accounting.ExactAccountant(relation, group_size=size).compose(event).get_epsilon(DELTA)
    held = hs.get_epsilon(
        delta=DELTA,
        noise_multiplier=2.0,
        sampling=hs.WithoutReplacement(500, RECORDS),
        steps=100,
        adjacency=adjacency,
        group_size=size,
    )
    assert ours == pytest.approx(held, rel=2e-6)
    if adjacency == "replace" and size == 1:
        by_renyi = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
        over_change = events.fixed_dpsgd_event(1.0, 100, dataset_size=RECORDS, batch_size=500)
        assert ours < by_renyi.compose(over_change).get_epsilon(DELTA)


def test_batches_with_repeated_records_are_refused_by_name():
    event = the_events().fixed_dpsgd_event(2.0, 100, dataset_size=RECORDS, batch_size=500, replace=True)
    with pytest.raises(Exception, match="SampledWithReplacementDpEvent is not supported"):
        hs.dp_accounting.ExactAccountant().compose(event)


def test_rates_in_single_precision_are_taken_at_their_value():
    """Schedules of optax hand on float32 rates; an accountant that computes in float32 loses its digits."""
    import dp_accounting

    single = np.float32(0.02048)

    def epsilon(rate):
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(np.float32(4.0)))
        return hs.dp_accounting.ExactAccountant().compose(step, UPDATES).get_epsilon(DELTA)

    assert epsilon(single) == epsilon(float(single))
    assert math.isclose(epsilon(single), epsilon(0.02048), rel_tol=1e-5)


COEFFICIENTS = [1.0, 0.5, 0.375, 0.3125]


def bandmf_plan(accountant_fn, **changes):
    """A calibrated plan of 400 steps in four bands, in the words of the release that is installed."""
    import dp_accounting

    strategy = np.array(COEFFICIENTS)
    try:
        from jax_privacy.execution_plan import BandMFConfig
    except ImportError:
        from jax_privacy.experimental import execution_plan as plans

        accountant = accountant_fn(dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
        settings = {"iterations": 400, "strategy": strategy, "sampling_prob": 0.08, "accountant": accountant}
        return plans.BandMFExecutionPlanConfig(**settings, epsilon=2.0, delta=DELTA, **changes).plan
    plan = BandMFConfig(iterations=400, strategy=strategy, expected_participations=8, **changes)
    return plan.calibrate(epsilon=2.0, delta=DELTA, accountant_fn=accountant_fn).make()


def test_plans_with_banded_matrices_are_calibrated_by_the_exact_accountant():
    """Their plan takes our accountant; its noise over the norm of a column is ours, and their grid's."""
    import dp_accounting

    plan = bandmf_plan(hs.dp_accounting.ExactAccountant)
    theirs = bandmf_plan(dp_accounting.pld.PLDAccountant)
    mechanism = hs.CorrelatedNoise.toeplitz(COEFFICIENTS)
    ours = hs.get_noise_multiplier(
        epsilon=2.0, delta=DELTA, mechanism=mechanism, sampling=hs.CyclicPoisson(0.08, cycle=4), steps=400
    )
    step, their_step = plan.dp_event.event, theirs.dp_event.event
    norm = math.sqrt(sum(value * value for value in COEFFICIENTS))
    assert plan.dp_event.count == 100
    assert step.event.noise_multiplier == pytest.approx(ours / norm, rel=1e-4)
    assert step.event.noise_multiplier == pytest.approx(their_step.event.noise_multiplier, rel=1e-5)
    event = hs.dp_accounting.correlated_event(
        mechanism.with_noise(ours), sampling=hs.CyclicPoisson(0.08, cycle=4), steps=400
    )
    assert event.count == plan.dp_event.count
    assert event.event.sampling_probability == step.sampling_probability


def test_plans_with_a_cap_are_calibrated_for_replaced_records():
    """A record that becomes zero keeps its place in a batch that is cut, which REPLACE_ONE covers."""
    import dp_accounting

    capped = {"num_examples": 10_000, "truncated_batch_size": 300}
    replaced = dp_accounting.NeighboringRelation.REPLACE_ONE

    def accountant(relation=replaced):
        return hs.dp_accounting.ExactAccountant(relation)

    with pytest.raises(dp_accounting.UnsupportedEventError, match="REPLACE_ONE, which covers"):
        bandmf_plan(accountant, **capped)
    plan = bandmf_plan(lambda relation: accountant(), **capped)
    found = accountant().compose(plan.dp_event).get_epsilon(DELTA)
    assert 1.999 <= found <= 2.0


def minsep_sensitivity_squared(coefficients, separation, often):
    """Their function, whose later releases take the last arguments by name."""
    from jax_privacy.matrix_factorization import toeplitz

    found = toeplitz.minsep_sensitivity_squared
    named = {"n": len(coefficients)} if "n" in inspect.signature(found).parameters else {}
    return found(coefficients, separation, max_participations=often, **named)


def test_sensitivities_of_their_matrices_lie_in_our_intervals():
    import jax
    from jax_privacy.matrix_factorization import buffered_toeplitz, sensitivity
    from jax_privacy.matrix_factorization import toeplitz as factorization

    with jax.enable_x64():
        root = np.asarray(factorization.optimal_max_error_strategy_coefs(200), dtype=float)
        ours = hs.CorrelatedNoise.prefix_sum_root()
        assert ours.matrix(200)[:, 0] == pytest.approx(root, rel=1e-12)
        for separation, often in ((1, 1), (50, None), (30, 3), (1, None)):
            found = ours.sensitivity(hs.MinimumSeparation(separation, often), 200)
            theirs = minsep_sensitivity_squared(root, separation, often)
            assert found.upper == pytest.approx(math.sqrt(theirs), rel=1e-12)
        epochs = ours.sensitivity(hs.FixedOrder(50), 200)
        assert epochs.upper == pytest.approx(
            sensitivity.fixed_epoch_sensitivity(jax.numpy.asarray(ours.matrix(200)), 4), rel=1e-12
        )
        blt = buffered_toeplitz.BufferedToeplitz.build([0.9, 0.5], [0.3, 0.2])
        single = hs.CorrelatedNoise.blt([0.3, 0.2], [0.9, 0.5]).sensitivity(hs.MinimumSeparation(1, 1), 500)
        theirs = math.sqrt(buffered_toeplitz.sensitivity_squared(blt, 500))
        assert single.upper == pytest.approx(theirs, rel=1e-12)
        # Any matrix: their bound by dynamic programming, which ours is never above.
        array = np.tril(np.random.default_rng(4).normal(size=(30, 30)))
        mine = hs.CorrelatedNoise.from_matrix(array).sensitivity(hs.MinimumSeparation(3, 6), 30)
        bound = sensitivity.get_min_sep_sensitivity_upper_bound(jax.numpy.asarray(array), 3, 6)
        assert mine.lower <= bound
        assert mine.upper <= bound * (1.0 + 1e-12)
