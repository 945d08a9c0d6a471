"""RGP, Theorem 4.2 and Lemma 4.5, and Laplace noise in several dimensions (docs/theory/renyi.md)."""

import math

import numpy as np
import pytest

import hockeystick as hs

SIZES = 4 ** np.arange(1, 6)


def saved(sizes, rates, spread, order):
    """Lemma 2.3 over Theorem 3.1."""
    found = []
    for size, rate in zip(sizes.tolist(), rates.tolist(), strict=True):
        step = {"orders": order, "sample_rate": rate, "group_size": size}
        noise = hs.Gaussian(spread * size)
        bounds = [hs.renyi.group_rdp(noise, bound=bound, **step) for bound in ("black_box", "jensen")]
        found.append(bounds[0] / bounds[1])
    return np.array(found)


def test_theorem_4_2_saves_a_factor_that_grows_with_slope_0_58():
    found = saved(SIZES, 4 / SIZES, 3.0, 2)
    np.testing.assert_allclose(found, [2.25, 4.26, 9.23, 20.6, 46.2], rtol=3e-3)
    slope = np.log(found[-1] / found[-2]) / np.log(4)
    assert slope == pytest.approx(math.log2(1.5), abs=3e-3)


@pytest.mark.parametrize("expected", [0.25, 1.0, 4.0])
@pytest.mark.parametrize(("spread", "order"), [(3.0, 2), (1.5, 3), (10.0, 4)])
def test_theorem_4_2_holds_with_the_constants_of_its_proof(expected, spread, order):
    rates = expected / SIZES
    rho = rates * SIZES / (rates * SIZES + 1 - rates)
    least = order * (order - 1) / (2 * spread**2)
    most = order**2 / (2 * spread**2)
    scale = rho * SIZES ** math.log2(1.5)
    found = saved(SIZES, rates, spread, order)
    assert np.all(found >= scale * least / math.expm1(least) * (1 - 1e-6))
    assert np.all(found <= scale * math.expm1(most) / most * (1 + 1e-6))


def test_without_its_condition_theorem_4_2_fails():
    """Where hardly a member is in a batch, the black box is the smaller bound."""
    sizes = SIZES[:4]
    assert np.all(saved(sizes, 0.01 / sizes, 3.0, 2) < 1)


def test_lemma_4_5_the_bound_of_randomised_response_rises_to_that_without_sampling():
    noise, order, rate = hs.RandomizedResponse(0.8), 4.0, 0.05
    sizes = np.array([1, 4, 16, 64, 256])
    step = {"orders": order, "sample_rate": rate}
    alone = hs.renyi.group_rdp(noise, order, sample_rate=1.0, group_size=1, bound="jensen")
    phi = 0.8**4 / 0.2**3 + 0.2**4 / 0.8**3
    assert alone == pytest.approx(math.log(phi) / 3, rel=1e-12)
    bound = np.asarray(hs.renyi.group_rdp(noise, group_size=sizes, bound="jensen", **step))
    exact = np.asarray(hs.renyi.group_rdp(noise, group_size=sizes, **step))
    assert np.all(np.diff(bound) > 0)
    assert np.all(exact <= bound)
    assert np.all(bound[:-1] < alone)
    unseen = (1 - rate) ** sizes
    np.testing.assert_allclose(alone - bound, -np.log1p(-unseen * (1 - 1 / phi)) / 3, rtol=1e-7, atol=1e-13)
    for bounds in (bound, exact):
        assert bounds[-1] == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("order", [1.5, 4.0, 20.0])
def test_laplace_noise_in_many_dimensions_is_worst_along_one_of_them(order):
    generator = np.random.default_rng(15)

    def divergence(distance, scale=2.0):
        """Of one coordinate that moves so far, without sampling."""
        return hs.renyi.group_rdp(hs.Laplace(scale / distance), order, sample_rate=1.0, group_size=1)

    for group_size in (1, 6):
        worst = hs.renyi.group_rdp(
            hs.Laplace(2.0), order, sample_rate=1.0, group_size=group_size, bound="jensen"
        )
        assert worst == pytest.approx(divergence(group_size), rel=1e-12)
        for dimensions in (2, 5):
            moves = generator.dirichlet(np.full(dimensions, 0.5)) * group_size
            assert sum(divergence(move) for move in moves) <= worst * (1 + 1e-12)
            # Composition over coordinates that may each move by all of it costs the number of dimensions.
            assert dimensions * divergence(group_size) > 1.9 * worst


def test_subsampled_laplace_noise_in_two_dimensions_lies_below_theorem_4_3():
    """One record in a fifth of the samples moves both coordinates by a half, on a grid of outputs."""
    scale, rate = 1.5, 0.2
    axis = np.linspace(-40.0, 40.0, 3201)
    width = axis[1] - axis[0]

    def density(mean):
        along = np.exp(-np.abs(axis - mean) / scale) / (2 * scale)
        return np.outer(along, along)

    unseen, seen = density(0.0), density(0.5)
    mixture = (1 - rate) * unseen + rate * seen
    for order in (2.0, 6.0):
        moments = [
            np.sum(p**order * q ** (1 - order)) * width**2 for p, q in ((mixture, unseen), (unseen, mixture))
        ]
        found = max(math.log(moment) / (order - 1) for moment in moments)
        bound = hs.renyi.group_rdp(hs.Laplace(scale), order, sample_rate=rate, group_size=1, bound="jensen")
        assert 0.0 < found < bound
