"""Random allocation against its definition, without the engine: simulation, integrals, limits, order."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import hockeystick as hs


def ratios(rng, samples, batches, noise, removed):
    """Likelihood ratios of an epoch, drawn with or without the record, as the definition says."""
    outputs = noise * rng.standard_normal((samples, batches))
    if removed:
        outputs[np.arange(samples), rng.integers(batches, size=samples)] += 1.0
    return np.exp(outputs / noise**2 - 0.5 / noise**2).mean(axis=1)


@pytest.mark.parametrize(("batches", "noise", "epochs", "epsilon"), [(10, 1.0, 1, 0.5), (5, 2.0, 4, 0.3)])
def test_simulation_of_the_pair_agrees(batches, noise, epochs, epsilon):
    rng, samples = np.random.default_rng(7), 200_000
    for side, sign in (("remove", 1.0), ("add", -1.0)):
        loss = sign * sum(
            np.log(ratios(rng, samples, batches, noise, side == "remove")) for _ in range(epochs)
        )
        values = -np.expm1(np.minimum(epsilon - loss, 0.0))
        error = values.std() / math.sqrt(samples)
        exact = hs.get_delta(
            epsilon=epsilon,
            noise_multiplier=noise,
            sampling=hs.RandomAllocation(batches),
            steps=batches * epochs,
            adjacency=side,
        )
        assert abs(values.mean() - exact) < 5.0 * error
        assert error < 0.05 * exact


def law_of_two_batches(noise, width, up):
    """Masses of the loss of a removed record on a grid: by quadrature in two outputs, rounded to one side."""
    nodes, weights = np.polynomial.legendre.leggauss(300)
    normal, density = 9.0 * nodes, 9.0 * weights * np.exp(-40.5 * nodes**2) / math.sqrt(2.0 * math.pi)
    y = np.exp(normal / noise - 0.5 / noise**2)
    ratio = 0.5 * (y[:, None] + y)
    masses = (density[:, None] * density * ratio).ravel()
    cells = np.log(ratio.ravel()) / width
    places = (np.ceil(cells) if up else np.floor(cells)).astype(int)
    return places.min(), np.bincount(places - places.min(), weights=masses)


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_two_epochs_of_two_batches_lie_between_sums_of_rounded_losses(epsilon):
    noise, width, ends = 1.5, 4e-3, []
    for up in (False, True):
        first, masses = law_of_two_batches(noise, width, up)
        both = np.convolve(masses, masses)
        losses = width * (2 * first + np.arange(both.size))
        ends.append(both @ -np.expm1(np.minimum(epsilon - losses, 0.0)))
    exact = hs.get_delta(
        epsilon=epsilon, noise_multiplier=noise, sampling=hs.RandomAllocation(2), steps=4, adjacency="remove"
    )
    assert ends[0] * (1.0 - 1e-9) <= exact <= ends[1] * (1.0 + 1e-9)
    assert ends[1] < 1.08 * ends[0]


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("side", ["remove", "add"])
def test_much_noise_and_many_epochs_end_at_a_gaussian(side):
    """The variance of W is (e^v - 1)/t; sums of small losses are those of one Gaussian step.

    Of one epoch with that much noise, in which the record is removed, only a wide interval is known: the
    limit lies in it. All others are narrow.
    """
    for batches, noise, epochs in ((50, 20.0, 1), (20, 50.0, 1000), (100, 5.0, 10**5), (10, 20.0, 10**6)):
        distance = math.sqrt(epochs * math.expm1(noise**-2.0) / batches)
        gaussian = {"noise_multiplier": 1.0 / distance, "sampling": hs.FullBatch(), "steps": 1}
        dealt = {
            "noise_multiplier": noise,
            "sampling": hs.RandomAllocation(batches),
            "steps": batches * epochs,
        }
        for epsilon in (0.0, distance):
            expected = hs.get_delta(epsilon=epsilon, **gaussian)
            lower, upper = hs.get_delta(epsilon=epsilon, adjacency=side, bounds=True, **dealt)
            assert 0.98 * lower <= expected <= 1.02 * upper
            assert upper < 1.001 * lower or (epochs == 1 and side == "remove")


def test_the_curve_is_monotone_in_every_argument():
    run = {"noise_multiplier": 1.5, "steps": 60, "delta": 1e-5, "tolerance": 1e-4}
    by_times = [hs.get_epsilon(sampling=hs.RandomAllocation(12, times=k), **run) for k in (1, 2, 3, 12)]
    assert by_times == sorted(by_times)
    by_batches = [
        hs.get_epsilon(sampling=hs.RandomAllocation(t), **{**run, "steps": 5 * t}) for t in (2, 5, 12, 40)
    ]
    assert by_batches == sorted(by_batches, reverse=True)
    by_bins = [hs.get_epsilon(sampling=hs.FixedBins(t), **{**run, "steps": 5 * t}) for t in (2, 5, 12, 40)]
    assert by_bins == sorted(by_bins, reverse=True)
    for sampling in (hs.RandomAllocation(12), hs.FixedBins(12)):
        by_delta = [hs.get_epsilon(sampling=sampling, **{**run, "delta": d}) for d in (1e-3, 1e-5, 1e-8)]
        assert by_delta == sorted(by_delta)
        whole = hs.get_epsilon(sampling=sampling, **run)
        one_more = hs.get_epsilon(sampling=sampling, **{**run, "steps": 61})
        assert whole <= one_more <= hs.get_epsilon(sampling=sampling, **{**run, "steps": 72}) * (1.0 + 1e-4)
        assert whole <= hs.get_epsilon(sampling=hs.FullBatch(), **run)


@pytest.mark.parametrize(
    ("noise", "batches", "steps", "epsilon"),
    [(6.541, 101, 52, 0.0259), (11.458, 14, 11, 0.08), (6.206, 107, 19, 0.02), (8.0, 40, 13, 0.02)],
)
def test_parts_of_epochs_with_much_noise_are_powers_of_one_batch(noise, batches, steps, epsilon):
    # The record is in one of the `batches` batches of an epoch, of which the first `steps` are released. The
    # likelihood ratio of what is released is a mean over all batches: of a log-normal variable for each that
    # is released, and of 1 for each other one. The density of the sum of the log-normal variables is
    # computed by FFT on a fine grid, as a power of the transform of one; under a tilt that makes the kink
    # likely, as rounding errors of an FFT are relative to what is likely. Delta is the expectation of
    # max(ratio - e^epsilon, 0). Sums over the grid err at its kink only, by the second term of Euler and
    # Maclaurin's formula.
    length, spacing = 2**19, 4e-4
    ratio = spacing * np.arange(1, length)
    log = (np.log(ratio) + 0.5 / noise**2) * noise
    density = noise * np.exp(-0.5 * log**2) / (ratio * math.sqrt(2.0 * math.pi))
    one = np.concatenate([[0.0], spacing * density])
    mean = (one * spacing * np.arange(length)).sum()
    assert abs(mean - 1.0) < 1e-12
    assert abs(one.sum() - 1.0) < 1e-12
    kink = batches * math.exp(epsilon) - (batches - steps)
    tilt = (kink - steps) / (steps * math.expm1(noise**-2))
    place = spacing * np.arange(length)
    tilted = one * np.exp(np.minimum(tilt * (place - 1.0), 50.0))
    law = np.fft.irfft(np.fft.rfft(tilted) ** steps) * np.exp(-tilt * (place - steps))
    # Far above its tilted mean the law is nothing but rounding errors.
    law[place > kink + 12.0 * math.sqrt(steps) / noise] = 0.0
    above = math.ceil(kink / spacing)
    part = above - kink / spacing
    sums = (law * np.maximum(place - kink, 0.0)).sum()
    exact = (sums + 0.5 * spacing * (part * part - part + 1.0 / 6.0) * law[above]) / batches
    run = {"noise_multiplier": noise, "sampling": hs.RandomAllocation(batches), "steps": steps}
    lower, upper = hs.get_delta(epsilon=epsilon, adjacency="remove", bounds=True, **run)
    assert upper - lower < 1e-6 * upper
    assert lower * (1.0 - 1e-8) < exact < upper * (1.0 + 1e-8)


@pytest.mark.parametrize(
    ("batches", "steps", "noise", "epsilon", "adjacency"),
    [
        (1906, 38, 0.502, 0.4297, "remove"),
        (54, 13, 0.328, 0.274, "add"),
        (308, 143, 0.678, 1.38, "remove"),
    ],
)
def test_parts_of_epochs_with_little_noise_are_close_and_those_that_are_drawn(
    batches, steps, noise, epsilon, adjacency
):
    run = {
        "noise_multiplier": noise,
        "sampling": hs.RandomAllocation(batches),
        "steps": steps,
        "adjacency": adjacency,
    }
    lower, upper = hs.privacy_curve(**run).bounds(epsilon=epsilon)
    assert 0.0 < lower <= upper <= lower * (1 + 2e-6)
    estimate = hs.estimate_delta(epsilon=epsilon, samples=100_000, seed=7, **run)
    assert estimate.lower <= upper
    assert estimate.upper >= lower
    assert estimate.upper < 1.6 * lower  # so that half of delta, or twice it, would be seen
    low, high = hs.get_epsilon(delta=upper, bounds=True, **run)
    assert low <= epsilon * (1 + 1e-9)
    assert high >= epsilon * (1 - 1e-6)
    assert high - low <= 1e-6 * high


def delta_of_two_batches(noise, epsilon):
    """Half of E[(Y + Y' - 2 e^epsilon)+] of two log-normal ratios: calls on one, averaged over the other."""
    variance = 1 / mpf(noise) ** 2
    deviation, threshold = mp.sqrt(variance), 2 * mp.exp(mpf(epsilon))

    def call(strike):
        if strike <= 0:
            return 1 - strike
        distance = (mp.log(strike) + variance / 2) / deviation
        return mp.ncdf(deviation - distance) - strike * mp.ncdf(-distance)

    def integrand(z):
        return mp.npdf(z) * call(threshold - mp.exp(deviation * z - variance / 2))

    last = (mp.log(threshold) + variance / 2) / deviation
    cuts = [-30, -10, -5, 0, *(last * i / 8 for i in range(1, 9)), last + 5, last + 20]
    return mp.quad(integrand, cuts) / 2


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")  # of delta with much noise
@pytest.mark.parametrize(("noise", "epsilon"), [(2.0, 3.9126358), (20.0, 0.30665826), (1.0, 2.5)])
def test_an_epoch_of_two_batches_has_close_ends_at_small_deltas(noise, epsilon):
    # Inversion alone left 3.89 to 5.60 with noise 2 at a delta of 1e-20.
    with mp.workdps(30):
        exact = float(delta_of_two_batches(noise, epsilon))
    run = {"noise_multiplier": noise, "sampling": hs.RandomAllocation(2), "steps": 2, "bounds": True}
    lower, upper = hs.get_delta(epsilon=epsilon, adjacency="remove", **run)
    assert lower <= exact * (1 + 1e-12)
    assert exact <= upper * (1 + 1e-12)
    lower, upper = hs.get_epsilon(delta=exact, **run)
    assert lower <= epsilon <= upper * (1 + 1e-12)
    assert upper - lower <= 1e-6 * upper


def delta_of_epochs_of_two_batches(noise, epochs, epsilon, tilt, points):
    """The inversion of E[W^z] for W = exp(d g - v / 2) cosh(d h), normal g and h, d^2 = v / 2."""
    variance = 1 / mpf(noise) ** 2
    step = mpf(1) / 5
    # The logarithm of cosh is even: both signs of h count together.
    nodes = [
        (mp.npdf(step * j) * step * (2 if j else 1), mp.log(mp.cosh(mp.sqrt(variance / 2) * step * j)))
        for j in range(66)
    ]

    def log_moment(z):
        return (
            z * z * variance / 4
            - z * variance / 2
            + mp.log(sum(weight * mp.exp(z * x) for weight, x in nodes))
        )

    spread = mp.sqrt(2 * epochs * log_moment(mpf(2)) / 2)
    spacing = min(1 / (3 * spread), tilt / 10)
    total = mpf(0)
    for k in range(points):
        z = mp.mpc(tilt, k * spacing)
        term = mp.exp(epochs * log_moment(1 + z) - z * epsilon) / (z * (z + 1))
        total += term.real * (mpf(1) / 2 if k == 0 else 1)
    return total * spacing / mp.pi


@pytest.mark.parametrize(
    ("noise", "epochs", "epsilon", "tilt"),
    [
        (16.6039, 84_311_700, 78_516.3, 0.013),
        (30.0, 10_000_000_000_000, 2_778_699_000.0, 2e-5),
        (1.5, 7, 9.0, 1.1),
        (4.0, 40, 6.0, 2.0),
    ],
)
def test_epochs_of_two_batches_are_an_inversion_to_thirty_digits(noise, epochs, epsilon, tilt):
    with mp.workdps(40):
        first, second = (
            delta_of_epochs_of_two_batches(noise, epochs, epsilon, mpf(tilt) * factor, 500)
            for factor in (1, mpf(9) / 10)
        )
        assert abs(first / second - 1) < 1e-12
        exact = float(first)
    run = {
        "noise_multiplier": noise,
        "sampling": hs.RandomAllocation(2),
        "steps": 2 * epochs,
        "adjacency": "remove",
    }
    lower, upper = hs.get_delta(epsilon=epsilon, bounds=True, **run)
    assert lower <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-12) <= upper <= lower * (1 + 2e-6)


@pytest.mark.parametrize(
    ("batches", "noise", "epochs", "delta"),
    [
        (5, 0.994513, 2, 1.64533e-96),
        (3_076, 0.850455, 1_087, 4.4e-40),
        (209_709, 0.613647, 82, 3.2091e-38),
        (827, 5.90652, 16, 4.88937e-65),
        (2, 20.0, 10, 1e-5),
        (2_428, 2.19768, 5, 5.92165e-28),
        (137_162, 33.4134, 44_328_900, 2.4706e-10),
        (3_460, 56.4546, 356_637_000, 2.55571e-4),
    ],
)
def test_many_epochs_and_small_deltas_have_narrow_intervals(batches, noise, epochs, delta):
    # All were wider than 1e-6, some by half of epsilon.
    run = {"noise_multiplier": noise, "sampling": hs.RandomAllocation(batches), "steps": batches * epochs}
    lower, upper = hs.get_epsilon(delta=delta, bounds=True, **run)
    assert lower < upper <= lower * (1 + 1e-6)


# One large likelihood ratio matters as much as all others.
SINGLE_LARGE_RATIOS = [
    (174_630, 0.944079, 9, 1.16922e-12, 1e-7),
    (2_859, 1.249, 6, 1.9e-18, 1e-7),
    (20_847, 1.05683, 792, 8.90714e-21, 1e-7),
    (1_501, 1.75097, 37, 3.59104e-17, 1e-7),
    (72_495, 1.57272, 113, 1.25971e-45, 1e-7),
]
# Two are far more frequent than delta, but hardly add to it.
SEVERAL_LARGE_RATIOS = [
    (54_302, 1.29133, 5, 1.6e-88, 1e-6),
    (33_686, 1.046, 211, 3.87e-52, 1e-5),
    (6_149, 1.282, 3_923, 9e-84, 1e-7),
    (122_775, 1.0022, 178, 2.03e-60, 1e-6),
    (8_355, 1.0681, 4, 2.51e-23, 1e-6),
]


# Each epoch takes a part of the tilt of the run only; or one of them has nearly all of the loss.
TILTS_OF_MANY_EPOCHS = [
    (190, 4.6284, 70, 4.6e-96, 1e-6),
    (3, 20.952, 3, 3.3e-76, 1e-6),
    (989_320, 76.3875, 1_017_353, 1.77279e-9, 1e-6),
    (1_836, 1.9306, 84, 1.35e-31, 1e-6),
]
# The others only move the threshold of one batch, even where what they vary by is not small beside it.
ONE_BATCH_STANDS_OUT = [
    (684_109, 0.3162, 1, 1e-43, 1e-11),
    (2_160, 0.3162, 1, 5e-21, 1e-11),
    (883_060, 1.3411, 1, 8.7e-95, 1e-6),
    (34_421, 0.036585, 1, 4.5e-41, 1e-11),
]


@pytest.mark.parametrize(
    ("batches", "noise", "epochs", "delta", "width"),
    SINGLE_LARGE_RATIOS + SEVERAL_LARGE_RATIOS + TILTS_OF_MANY_EPOCHS + ONE_BATCH_STANDS_OUT,
)
def test_large_ratios_have_narrow_intervals(batches, noise, epochs, delta, width):
    lower, upper = hs.get_epsilon(
        noise_multiplier=noise,
        sampling=hs.RandomAllocation(batches),
        steps=batches * epochs,
        delta=delta,
        bounds=True,
    )
    assert 0 < upper - lower <= width * upper


def test_three_batches_in_three_epochs_are_a_sum_over_their_outputs_at_a_tiny_delta():
    """Moments are sums over three normal variables, and delta follows by a saddle point."""
    noise, epochs, delta = 20.952, 3, 3.3e-76
    place = np.linspace(-12.0, 45.0, 230)
    grid = np.meshgrid(place, place, place, indexing="ij")
    root = 1 / noise
    loss = np.log(sum(np.exp(root * g - 0.5 * root**2) for g in grid) / 3)
    log_mass = -0.5 * sum(g**2 for g in grid) - 1.5 * np.log(2 * np.pi) + 3 * np.log(place[1] - place[0])

    def at(tilt):
        exponents = (1 + tilt) * loss + log_mass
        largest = exponents.max()
        weights = np.exp(exponents - largest)
        mass = weights.sum()
        mean = float((weights * loss).sum() / mass)
        variance = float((weights * (loss - mean) ** 2).sum() / mass)
        epsilon = epochs * mean - 1 / tilt - 1 / (tilt + 1)
        spread = epochs * variance + tilt**-2 + (tilt + 1) ** -2
        log_delta = epochs * (largest + np.log(mass)) - tilt * epsilon
        return epsilon, log_delta - np.log(tilt * (tilt + 1)) - 0.5 * np.log(2 * np.pi * spread)

    points = sorted(at(tilt) for tilt in (376.0, 380.0, 384.0))
    expected = np.interp(-np.log(delta), [-log for _, log in points], [epsilon for epsilon, _ in points])
    found = hs.get_epsilon(noise_multiplier=noise, sampling=hs.RandomAllocation(3), steps=9, delta=delta)
    assert found == pytest.approx(float(expected), rel=1e-4)


def test_a_delta_next_to_one_is_narrow_with_little_noise():
    """Many batches count alike there, so that the bounds of one that stands out say nothing."""
    for noise, sampling, steps, epsilon in [
        (0.11166, hs.RandomAllocation(25_693), 25_693, 0.0568),
        (0.1395, hs.FixedBins(2), 6, 1.3424),
    ]:
        lower, upper = hs.get_delta(
            noise_multiplier=noise, sampling=sampling, steps=steps, epsilon=epsilon, bounds=True
        )
        assert 0.99 < lower < upper <= lower * (1 + 1e-6)


def test_a_last_part_of_an_epoch_counts_beside_large_ratios():
    """Two kinds of epochs are split by large ratios; half an epoch more is between none and one."""
    batches = 2_859

    def bounds(steps):
        run = {"noise_multiplier": 1.249, "sampling": hs.RandomAllocation(batches), "delta": 1.9e-18}
        return hs.get_epsilon(steps=steps, adjacency="remove", bounds=True, **run)

    none, half, one = (bounds(6 * batches + more) for more in (0, batches // 2, batches))
    assert none[1] < half[0] <= half[1] < one[0]
    assert half[1] - half[0] < 1e-6 * half[1]
