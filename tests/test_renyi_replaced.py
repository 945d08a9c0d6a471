"""RGP, Theorem 3.1 and the exact divergences for replaced records, members' rates and fixed batches."""

import itertools
import math

import numpy as np
import pytest
from renyi_by_formula import component
from scipy.special import logsumexp
from scipy.stats import hypergeom

import hockeystick as hs
from hockeystick import checkpoints
from hockeystick.accountants import RenyiGroupAccountant

ORDERS = np.array([2.0, 3.0, 5.0, 12.0])
MECHANISMS = [hs.Gaussian(6.0), hs.Laplace(8.0), hs.Skellam(60.0, sensitivity=1), hs.RandomizedResponse(0.7)]
FIXED = hs.WithoutReplacement(3, 9)


def divergence_of(mechanism, order, count):
    """The component of `count` records without sampling, in 40 digits."""
    if isinstance(mechanism, hs.Gaussian):
        return component("gaussian", mechanism.noise_multiplier, order, count)
    if isinstance(mechanism, hs.Laplace):
        return component("laplace", mechanism.scale, order, count)
    if isinstance(mechanism, hs.Skellam):
        return component("skellam", mechanism.variance, order, count, mechanism.sensitivity)
    return component("randomized_response", mechanism.p, order, count)


def at_distance(mechanism, factor):
    """`mechanism` with its noise in units of what one record moves."""
    if isinstance(mechanism, hs.Gaussian):
        return hs.Gaussian(mechanism.noise_multiplier / factor)
    if isinstance(mechanism, hs.Laplace):
        return hs.Laplace(mechanism.scale / factor)
    if isinstance(mechanism, hs.Skellam):
        return hs.Skellam(mechanism.variance, sensitivity=factor * mechanism.sensitivity)
    return mechanism


def by_theorem(mechanism, law, factor, order):
    noise = at_distance(mechanism, factor)
    terms = [
        weight * math.exp((order - 1) * float(divergence_of(noise, order, k))) for k, weight in enumerate(law)
    ]
    return math.log(sum(terms)) / (order - 1)


def subsets(rates):
    law = np.zeros(len(rates) + 1)
    for chosen in itertools.product((0, 1), repeat=len(rates)):
        law[sum(chosen)] += np.prod([q if c else 1 - q for q, c in zip(rates, chosen, strict=True)])
    return law


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_theorem_3_1_is_the_mean_over_all_batches(mechanism, adjacency):
    factor = 2 if adjacency == "replace" else 1
    rates = (0.1, 0.3, 0.3, 0.05)
    batches = list(itertools.combinations(range(9), 3))
    of_batches = np.bincount([sum(record < 4 for record in batch) for batch in batches]) / len(batches)
    for law, moves, drawing in (
        (subsets((0.2,) * 4), factor, {"sample_rate": 0.2, "group_size": 4}),
        (subsets(rates), factor, {"group": hs.Group(rates=rates)}),
        (of_batches, 2, {"sampling": FIXED, "group_size": 4}),
    ):
        found = hs.renyi.group_rdp(mechanism, ORDERS, bound="jensen", adjacency=adjacency, **drawing)
        expected = [by_theorem(mechanism, law, moves, order) for order in ORDERS]
        np.testing.assert_allclose(found, expected, rtol=1e-11)
        assert np.all(found >= np.array(expected) * (1 - 1e-13))


def divergence(laws, order):
    """Of two laws, by the logarithms of their densities on a grid (the trapezoidal rule is exact here)."""
    (log_p, log_q), width = laws
    return (logsumexp(order * log_p + (1 - order) * log_q) + math.log(width)) / (order - 1)


def gaussian_laws(weights, before, after, sigma):
    outputs, width = np.linspace(-150.0, 150.0, 12_001, retstep=True)
    laws = []
    for means in (before, after):
        centres = (outputs[:, None] - np.asarray(means)) / sigma
        terms = np.log(weights) - 0.5 * centres**2 - math.log(sigma * math.sqrt(2 * math.pi))
        laws.append(logsumexp(terms, axis=1))
    return tuple(laws), width


def exchanged(laws):
    return laws[0][::-1], laws[1]


@pytest.mark.parametrize("order", [1.25, 2.0, 4.5])
def test_the_exact_divergence_of_replaced_records_is_attained(order):
    """Members that contribute 1 are replaced by members that contribute -1; others contribute nothing."""
    for rates in ((0.3,) * 3, (0.5, 0.1)):
        law, sigma = subsets(rates), 4.0
        counts = np.arange(len(law))
        attained = divergence(gaussian_laws(law, counts, -counts, sigma), order)
        found = hs.renyi.group_rdp(
            hs.Gaussian(sigma), order, group=hs.Group(rates=rates), adjacency="replace"
        )
        assert found == pytest.approx(attained, rel=1e-8)
        assert found.statement.tight
        assert attained > 0.5 * found
    full = hs.renyi.group_rdp(
        hs.Gaussian(4.0), order, sampling=hs.FullBatch(), group_size=3, adjacency="replace"
    )
    assert full == pytest.approx(order * 6**2 / (2 * 4.0**2), rel=1e-12)


def test_no_divergence_of_replaced_records_is_above_the_bound_and_half_is_too_small():
    """All batches of small data sets; where every batch has all records the bound is attained."""
    generator = np.random.default_rng(3)
    sigma = 3.0
    for sampling, size, records, replaced in (
        (hs.WithoutReplacement(2, 5), 2, 5, 2),
        (hs.WithoutReplacement(4, 5), 3, 5, 3),
        (hs.FullBatch(), 2, 3, 2),
    ):
        batch = records if isinstance(sampling, hs.FullBatch) else sampling.batch_size
        batches = list(itertools.combinations(range(records), batch))
        pairs = [(np.full(records, 1.0), np.r_[np.full(replaced, -1.0), np.full(records - replaced, 1.0)])]
        for _ in range(20):
            before = generator.uniform(-1, 1, records)
            after = before.copy()
            after[:replaced] = generator.uniform(-1, 1, replaced)
            pairs.append((before, after))
        for order in (2.0, 6.0):
            noise = {"sampling": sampling, "group_size": size, "adjacency": "replace"}
            bounds = [
                hs.renyi.group_rdp(hs.Gaussian(sigma), order, bound=bound, **noise)
                for bound in ("exact", "jensen", "black_box")
            ]
            lower = hs.renyi.group_rdp(hs.Gaussian(sigma), order, bound="lower", **noise)
            worst = 0.0
            for before, after in pairs:
                sums = [[data[list(chosen)].sum() for chosen in batches] for data in (before, after)]
                weights = np.full(len(batches), 1 / len(batches))
                laws = gaussian_laws(weights, *sums, sigma)
                worst = max(worst, divergence(laws, order), divergence(exchanged(laws), order))
            assert lower <= worst * (1 + 1e-9)
            assert worst <= min(bounds) * (1 + 1e-9)
            assert sorted(bounds) == bounds
            if isinstance(sampling, hs.FullBatch):
                assert worst > 0.99 * bounds[1]


def test_the_two_coins_of_replaced_records_are_those_of_added_and_removed_ones():
    noise = hs.RandomizedResponse(0.8)
    for drawing in (
        {"sample_rate": 0.1, "group_size": 3},
        {"sampling": hs.WithoutReplacement(10, 50), "group_size": 3},
    ):
        both = hs.renyi.group_rdp(noise, ORDERS, adjacency="replace", **drawing)
        ways = [hs.renyi.group_rdp(noise, ORDERS, adjacency=way, **drawing) for way in ("add", "remove")]
        np.testing.assert_array_equal(both, np.max(ways, axis=0))
        assert both.statement.tight


def test_fixed_batches_have_the_hypergeometric_pair():
    """PITFALLS, Proposition 9, for a group: members contribute 1, others -1."""
    law = hypergeom(20, 3, 5).pmf(np.arange(4))
    laws = gaussian_laws(law, 2.0 * np.arange(4), np.zeros(4), 5.0)
    drawing = {"sampling": hs.WithoutReplacement(5, 20), "group_size": 3}
    for adjacency, pair in (("remove", laws), ("add", exchanged(laws))):
        found = hs.renyi.group_rdp(hs.Gaussian(5.0), 3.0, adjacency=adjacency, **drawing)
        assert found == pytest.approx(divergence(pair, 3.0), rel=1e-8)
    assert hs.renyi.group_rdp(hs.Gaussian(5.0), 3.0, **drawing).statement.tight


@pytest.mark.parametrize("mechanism", [hs.Laplace(9.0), hs.Skellam(80.0)], ids=["laplace", "skellam"])
def test_other_noise_in_fixed_batches_has_the_pair_of_poisson_samples_at_twice_the_distance(mechanism):
    """Batches of one of n records and a group of one: the law of a Poisson sample of rate 1/n."""
    fixed = hs.renyi.group_rdp(mechanism, ORDERS, sampling=hs.WithoutReplacement(1, 10), group_size=1)
    poisson = hs.renyi.group_rdp(at_distance(mechanism, 2), ORDERS, sample_rate=0.1, group_size=1)
    np.testing.assert_allclose(fixed, poisson, rtol=1e-9)


@pytest.mark.parametrize(
    "sampling", [hs.Poisson(0.02), hs.WithoutReplacement(20, 1000)], ids=["poisson", "fixed"]
)
@pytest.mark.parametrize("group_size", [1, 4, 16])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_no_exact_epsilon_is_above_that_of_theorem_3_1(sampling, group_size, adjacency):
    """docs/theory/renyi.md, Proposition 4."""
    for noise, steps in ((4.0, 300), (16.0, 1)):
        accountant = RenyiGroupAccountant(
            group_size, bound="jensen", adjacency=adjacency, conversion="optimal"
        )
        accountant.step(noise_multiplier=noise, sampling=sampling, steps=steps)
        run = {"noise_multiplier": noise, "sampling": sampling, "steps": steps, "adjacency": adjacency}
        for delta in (1e-3, 1e-7):
            exact = hs.get_epsilon(delta=delta, group_size=group_size, **run)
            assert exact <= accountant.get_epsilon(delta) * (1 + 1e-9)


def test_calibrated_noise_meets_its_target_for_replaced_records():
    run = {"steps": 100, "adjacency": "replace"}
    for drawing in (
        {"sample_rate": 0.05, "group_size": 4},
        {"group": hs.Group(rates=[0.05, 0.1])},
        {"sampling": hs.WithoutReplacement(50, 1000), "group_size": 4},
    ):
        for bound in ("exact", "jensen"):
            sigma = hs.renyi.calibrate(hs.Gaussian, order=4, tau=0.5, bound=bound, **drawing, **run)
            at = [
                100 * hs.renyi.group_rdp(hs.Gaussian(s), 4, bound=bound, adjacency="replace", **drawing)
                for s in (sigma, sigma * (1 - 1e-6))
            ]
            assert at[0] <= 0.5 < at[1]
        sigma = hs.renyi.calibrate_dp(
            hs.Gaussian, epsilon=2.0, delta=1e-5, bound="jensen", orders=[2, 4, 8, 16, 32], **drawing, **run
        )
        group = drawing.get("group")
        accountant = RenyiGroupAccountant(
            drawing.get("group_size", 1), "jensen", [2, 4, 8, 16, 32], "replace", group=group
        )
        sampling = drawing.get("sampling", hs.Poisson(0.05))
        accountant.step(noise_multiplier=sigma, sampling=sampling, steps=100)
        assert accountant.get_epsilon(1e-5) == pytest.approx(2.0, rel=1e-6)


def test_replaced_poisson_noise_is_twice_that_of_added_records_by_theorem_3_1():
    run = {"order": 4, "tau": 1, "sample_rate": 0.03, "steps": 500, "bound": "jensen"}
    sizes = np.array([1, 16, 64])
    one = hs.renyi.calibrate(hs.Gaussian, group_size=sizes, **run)
    two = hs.renyi.calibrate(hs.Gaussian, group_size=sizes, adjacency="replace", **run)
    np.testing.assert_allclose(two, 2 * one, rtol=1e-8)


def test_accountants_keep_groups_and_schemes_in_their_states(tmp_path):
    accountant = RenyiGroupAccountant(bound="jensen", adjacency="replace", group=hs.Group(rates=[0.1, 0.2]))
    accountant.step(noise_multiplier=3.0, sample_rate=0.5, steps=10)
    expected = 10 * hs.renyi.group_rdp(
        hs.Gaussian(3.0), 4.0, group=hs.Group(rates=[0.1, 0.2]), adjacency="replace", bound="jensen"
    )
    assert accountant.get_renyi(4.0) == pytest.approx(expected, rel=1e-12)
    checkpoints.save(accountant, tmp_path / "account")
    restored = checkpoints.load(tmp_path / "account")
    assert restored.group == accountant.group
    assert restored.get_renyi(4.0) == accountant.get_renyi(4.0)
    with pytest.raises(hs.UnsupportedError, match="rates of Poisson samples"):
        accountant.step(noise_multiplier=3.0, sampling=FIXED)
    fixed = RenyiGroupAccountant(2, adjacency="replace")
    fixed.step(noise_multiplier=3.0, sampling=FIXED)
    fixed.step(noise_multiplier=30.0, sampling=hs.FullBatch())
    assert fixed.history == [(3.0, FIXED, 1), (30.0, hs.FullBatch(), 1)]
    copy = RenyiGroupAccountant(2, adjacency="replace")
    copy.load_state_dict(fixed.state_dict())
    assert copy.get_epsilon(1e-5) == fixed.get_epsilon(1e-5) > 0.0


def test_accumulated_batches_hold_a_replaced_record_several_times():
    accountant = RenyiGroupAccountant(2, bound="jensen", adjacency="replace")
    accountant.step(noise_multiplier=5.0, sampling=hs.Poisson(0.1, microbatches=3))
    together = hs.renyi.group_rdp(
        hs.Gaussian(5.0), 3.0, sample_rate=0.1, group_size=6, adjacency="replace", bound="jensen"
    )
    assert accountant.get_renyi(3.0) == pytest.approx(together, rel=1e-12)


def test_what_is_not_known_is_refused_with_what_is():
    replaced = {"orders": 2, "group_size": 2, "adjacency": "replace"}
    with pytest.raises(hs.UnsupportedError, match="bound='jensen'"):
        hs.renyi.group_rdp(hs.Skellam(9.0), sample_rate=0.1, **replaced)
    plan = {"order": 2, "tau": 1, "sample_rate": 0.1, "steps": 1, "group_size": 2, "adjacency": "replace"}
    with pytest.raises(hs.UnsupportedError, match="bound='jensen'"):
        hs.renyi.calibrate(hs.Skellam, **plan)
    noise = hs.renyi.calibrate(hs.Laplace, **plan)
    assert hs.renyi.group_rdp(hs.Laplace(noise), sample_rate=0.1, **replaced) == pytest.approx(1.0, rel=1e-5)
    with pytest.raises(hs.UnsupportedError, match="rates, and no norms"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), 2, sample_rate=0.1, group=hs.Group(norms=[0.5]))
    with pytest.raises(hs.UnsupportedError, match="no Rényi bound"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), 2, sampling=hs.RandomAllocation(10), group_size=1)
    with pytest.raises(TypeError, match="at most one of group_size and group"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), 2, sample_rate=0.1, group_size=2, group=hs.Group(2))
    with pytest.raises(TypeError, match="sample_rate and sampling"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), 2, group_size=2)
    with pytest.raises(ValueError, match="group_size"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), 2, sampling=FIXED, group_size=10)
    with pytest.raises(ValueError, match="lower bound needs batches"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), 2, sampling=FIXED, group_size=8, bound="lower")
