"""Questions of every kind that the core answers, drawn at random with a fixed seed."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import hockeystick as hs
from benches.compare import box
from benches.constants.comparing import Interval, Question

Random = np.random.Generator


def drawn(count: int, seed: int) -> list[Question]:
    """Draw so many questions of each kind."""
    generator = np.random.default_rng(seed)
    found = [
        Question(draw.__name__.strip("_"), _quiet(draw(generator))) for draw in _KINDS for _ in range(count)
    ]
    return [*found, *_of_boxes(count, seed)]


def _quiet(ask: Callable[[], Any]) -> Callable[[], list[Interval]]:
    """Ask without warnings, and take what comes back as intervals."""

    def asked() -> list[Interval]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _intervals(ask())

    return asked


def _intervals(found: Any) -> list[Interval]:
    """Intervals in a pair of ends, a number, an array of numbers, or a list of these."""
    if isinstance(found, tuple) and len(found) == 2:
        low, high = (np.atleast_1d(np.asarray(end, dtype=float)).ravel() for end in found)
        return list(zip(low.tolist(), high.tolist(), strict=True))
    if isinstance(found, list):
        return [interval for each in found for interval in _intervals(each)]
    return [(value, value) for value in np.atleast_1d(np.asarray(found, dtype=float)).ravel().tolist()]


def _of_boxes(count: int, seed: int) -> Iterator[Question]:
    """Yield questions of the boxes of `benches.compare.box`: every scheme, every unknown, and few steps."""
    low, high = np.log(box.TARGET_EPSILON)
    for scheme in box.SCHEMES:
        for unknown in box.UNKNOWNS:
            if scheme not in ("poisson", "replace") and unknown not in ("epsilon", "delta"):
                continue
            for few in (False, True):
                rows = box.questions(box.FEW if few else box.Box(), count, seed)
                epsilons = np.exp(np.random.default_rng(seed + 1).uniform(low, high, size=count))
                for row, epsilon in zip(rows, epsilons.tolist(), strict=True):
                    asked = row if unknown == "epsilon" else row | {"epsilon": epsilon}
                    run = box.run_of(
                        {name: value for name, value in asked.items() if name != unknown}, scheme
                    )
                    ask = partial(getattr(hs, f"get_{unknown}"), bounds=True, **run)
                    yield Question(f"{unknown}, {scheme}{', few steps' if few else ''}", _quiet(ask))


def _between(generator: Random, low: float, high: float) -> float:
    """Draw from a range, log-uniformly."""
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def _whole(generator: Random, low: float, high: float) -> int:
    return round(_between(generator, low, high))


def _noise(generator: Random) -> float:
    return _between(generator, 0.4, 8.0)


def _delta(generator: Random) -> float:
    return _between(generator, 1e-10, 1e-3)


def _epsilon_of(generator: Random, **run: Any) -> Callable[[], Any]:
    return partial(hs.get_epsilon, delta=_delta(generator), bounds=True, **run)


def _allocated(generator: Random) -> Callable[[], Any]:
    batches = _whole(generator, 2, 2000)
    steps = batches * int(generator.integers(1, 3))
    return _epsilon_of(
        generator, sampling=hs.RandomAllocation(batches), noise_multiplier=_noise(generator), steps=steps
    )


def _part_of_an_epoch(generator: Random) -> Callable[[], Any]:
    batches = _whole(generator, 3, 1000)
    steps = int(generator.integers(1, batches))
    return _epsilon_of(
        generator, sampling=hs.RandomAllocation(batches), noise_multiplier=_noise(generator), steps=steps
    )


def _one_large_ratio(generator: Random) -> Callable[[], Any]:
    batches = _whole(generator, 1500, 20_000)
    return partial(
        hs.get_epsilon,
        delta=_between(generator, 1e-30, 1e-16),
        bounds=True,
        sampling=hs.RandomAllocation(batches),
        noise_multiplier=_between(generator, 0.9, 1.7),
        steps=batches * _whole(generator, 4, 300),
    )


def _several_times(generator: Random) -> Callable[[], Any]:
    batches = _whole(generator, 10, 100)
    return _epsilon_of(
        generator,
        sampling=hs.RandomAllocation(batches, times=2),
        noise_multiplier=_noise(generator),
        steps=batches,
        tolerance=1e-4,
    )


def _allocated_pair(generator: Random) -> Callable[[], Any]:
    batches = _whole(generator, 4, 40)
    return _epsilon_of(
        generator,
        sampling=hs.RandomAllocation(batches),
        noise_multiplier=2.0 + _noise(generator),
        steps=batches,
        group_size=2,
        tolerance=1e-4,
    )


def _allocated_laplace(generator: Random) -> Callable[[], Any]:
    batches = _whole(generator, 2, 100)
    return _epsilon_of(
        generator,
        sampling=hs.RandomAllocation(batches),
        mechanism=hs.Laplace(1.0 + _noise(generator)),
        steps=batches,
        tolerance=1e-4,
    )


def _bins(generator: Random) -> Callable[[], Any]:
    sampling = hs.FixedBins(_whole(generator, 2, 30))
    return _epsilon_of(
        generator,
        sampling=sampling,
        noise_multiplier=2.0 + _noise(generator),
        steps=sampling.batches * int(generator.integers(1, 4)),
        tolerance=1e-3,
    )


def _correlated(generator: Random) -> Callable[[], Any]:
    batches, epochs = _whole(generator, 2, 8), int(generator.integers(1, 4))
    noise = hs.CorrelatedNoise.lambda_cgd(float(generator.uniform(0.1, 0.9)))
    return _epsilon_of(
        generator,
        mechanism=noise.with_noise(2.0 + _noise(generator)),
        sampling=hs.FixedBins(batches),
        steps=batches * epochs,
        tolerance=1e-3,
    )


def _in_a_fixed_order(generator: Random) -> Callable[[], Any]:
    noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5, 0.25])
    return _epsilon_of(
        generator,
        mechanism=noise.with_noise(_noise(generator)),
        sampling=hs.FixedOrder(_whole(generator, 4, 40)),
        steps=80,
    )


def _capped(generator: Random) -> Callable[[], Any]:
    size = _whole(generator, 50, 5000)
    rate = _between(generator, 0.01, 0.3)
    return _epsilon_of(
        generator,
        sampling=hs.Poisson(rate, max_batch_size=max(1, round(size * rate * 1.1)), dataset_size=size),
        noise_multiplier=_noise(generator),
        steps=_whole(generator, 1, 1000),
        adjacency=str(generator.choice(["add_remove", "replace"])),
    )


def _microbatches(generator: Random) -> Callable[[], Any]:
    return _epsilon_of(
        generator,
        sampling=hs.Poisson(_between(generator, 1e-3, 0.1), microbatches=int(generator.integers(2, 8))),
        noise_multiplier=_noise(generator),
        steps=_whole(generator, 1, 1000),
    )


def _shuffled(generator: Random) -> Callable[[], Any]:
    batch = _whole(generator, 2, 100)
    batches = _whole(generator, 4, 200)
    return _epsilon_of(
        generator,
        sampling=hs.Shuffle(batch, batch * batches),
        noise_multiplier=_noise(generator),
        steps=batches * int(generator.integers(1, 3)),
        adjacency="zero_out",
    )


def _other_noise(generator: Random) -> Callable[[], Any]:
    mechanism = [
        hs.AdaptiveClipping(_noise(generator), 5.0),
        hs.Skellam(_between(generator, 1.0, 100.0)),
        hs.RandomizedResponse(float(generator.uniform(0.55, 0.95))),
        hs.BatchClipping(_noise(generator), 4),
    ][int(generator.integers(4))]
    sampling: Any = hs.Poisson(_between(generator, 1e-3, 0.5))
    if isinstance(mechanism, hs.BatchClipping):
        sampling = hs.WithoutReplacement(8, 8 * _whole(generator, 2, 1000))
    return _epsilon_of(generator, mechanism=mechanism, sampling=sampling, steps=_whole(generator, 1, 1000))


def _zeroed_or_mixed(generator: Random) -> Callable[[], Any]:
    return _epsilon_of(
        generator,
        noise_multiplier=_noise(generator),
        sample_rate=_between(generator, 1e-3, 0.3),
        steps=_whole(generator, 1, 1000),
        group_size=_whole(generator, 1, 20),
        adjacency=str(generator.choice(["zero_out", "remove", "add"])),
    )


def _spread_gradients(generator: Random) -> Callable[[], Any]:
    size = _whole(generator, 2, 12)
    gradients = str(generator.choice(["aligned", "orthogonal"]))
    return _epsilon_of(
        generator,
        noise_multiplier=_noise(generator),
        sample_rate=_between(generator, 1e-3, 0.3),
        steps=_whole(generator, 1, 300),
        group=hs.Group(size, gradients=gradients),
        tolerance=1e-4,
    )


def _curve(generator: Random) -> Callable[[], Any]:
    """Draw a curve of one or two kinds of steps, which is made when it is asked."""
    runs: list[dict[str, Any]] = [
        {
            "noise_multiplier": _noise(generator),
            "sample_rate": _between(generator, 1e-3, 0.3),
            "steps": _whole(generator, 1, 100),
        }
        for _ in range(int(generator.integers(1, 3)))
    ]

    def made() -> Any:
        first, *others = [hs.privacy_curve(**run) for run in runs]
        return first + others[0] if others else first

    return made


def _points_of_curves(generator: Random) -> Callable[[], Any]:
    made = _curve(generator)
    levels = np.geomspace(1e-6, 0.5, 5)

    def ask() -> Any:
        curve = made()
        return [
            curve.bounds(delta=_DELTAS),
            curve.bounds(epsilon=_EPSILONS),
            curve.beta(levels),
            curve.advantage(),
        ]

    return ask


def _best_of_many(generator: Random) -> Callable[[], Any]:
    made, laws = _curve(generator), [hs.PoissonRuns(10.0), hs.GeometricRuns(5.0), hs.BinomialRuns(5.0, 20)]
    law = laws[int(generator.integers(3))]

    def ask() -> Any:
        best = made().best_of(law)
        return [best.epsilon(1e-6), best.delta(3.0)]

    return ask


def _tradeoffs(generator: Random) -> Callable[[], Any]:
    run: dict[str, Any] = {
        "noise_multiplier": 1.0 + _noise(generator),
        "sample_rate": _between(generator, 1e-3, 0.3),
        "steps": int(generator.integers(2, 10)),
    }
    levels = np.geomspace(1e-5, 0.9, 5)

    def ask() -> Any:
        f = hs.TradeoffCurve.from_curve(hs.privacy_curve(**run))
        laplace = hs.TradeoffCurve.laplace(0.5).compose(hs.TradeoffCurve.laplace(0.2))
        others = [f, f.symmetrize(), f.subsample(0.1), f.compose(f), f.inverse(), f.convexify(), laplace]
        found = [[each.beta(levels), each.advantage(), each.get_epsilon(1e-4), each.mu()] for each in others]
        return [*found, f.group(2).beta(levels)]

    return ask


def _shuffle_tradeoffs(generator: Random) -> Callable[[], Any]:
    sampling, noise = hs.Shuffle(10, 10 * _whole(generator, 3, 30)), _noise(generator)
    size, epochs = int(generator.integers(1, 5)), int(generator.integers(1, 4))
    arguments: dict[str, Any] = {"noise_multiplier": noise, "epochs": epochs, "group_size": size}
    levels = np.geomspace(1e-4, 0.9, 4)

    def ask() -> Any:
        found = [getattr(hs.shuffle, name)(sampling, **arguments) for name in ("lower_bound", "upper_bound")]
        return [each.beta(levels) for each in [*found, hs.shuffle.tradeoff(sampling, **arguments)]]

    return ask


def _renyi(generator: Random) -> Callable[[], Any]:
    orders = np.array([1.1, 1.5, 2.0, 4.0, 16.0, 64.0, 300.0])
    mechanisms: list[Any] = [
        hs.Gaussian(_noise(generator)),
        hs.Laplace(_noise(generator)),
        hs.RandomizedResponse(0.7),
        hs.Skellam(_between(generator, 2.0, 100.0)),
    ]
    rate, size = _between(generator, 1e-3, 0.5), _whole(generator, 1, 16)

    def ask() -> Any:
        return [
            np.asarray(hs.renyi.group_rdp(mechanism, orders, sample_rate=rate, group_size=size))
            for mechanism in mechanisms
        ]

    return ask


def _renyi_calibration(generator: Random) -> Callable[[], Any]:
    kinds: list[Any] = [hs.Gaussian, hs.Laplace, hs.Skellam]
    kind = kinds[int(generator.integers(3))]
    return partial(
        hs.renyi.calibrate_dp,
        kind,
        epsilon=_between(generator, 0.5, 8.0),
        delta=1e-5,
        sample_rate=_between(generator, 1e-3, 0.2),
        steps=_whole(generator, 1, 500),
        group_size=_whole(generator, 1, 8),
    )


def _renyi_accounts(generator: Random) -> Callable[[], Any]:
    size, rate, noise = _whole(generator, 1, 16), _between(generator, 1e-3, 0.2), _noise(generator)

    def ask() -> Any:
        accountant = hs.RenyiGroupAccountant(group_size=size)
        accountant.step(noise_multiplier=noise, sample_rate=rate, steps=100)
        return accountant.get_epsilon(1e-5)

    return ask


def _individual(generator: Random) -> Callable[[], Any]:
    norms = generator.uniform(0.01, 1.0, size=200)
    rate, noise, exact = _between(generator, 1e-3, 0.3), _noise(generator), bool(generator.uniform() < 0.7)
    steps = _whole(generator, 1, 100)

    def ask() -> Any:
        accountant = hs.IndividualAccountant(200, exact=exact)
        for part in range(3):
            accountant.update_norms(np.roll(norms, part))
            accountant.step(noise_multiplier=noise, sample_rate=rate, steps=max(1, steps // 3))
        return [accountant.get_epsilons(1e-5), accountant.get_group_epsilon([0, 1, 2], 1e-4)]

    return ask


def _simulated(generator: Random) -> Callable[[], Any]:
    noise, rate, size = _noise(generator), _between(generator, 1e-3, 0.3), _whole(generator, 1, 16)

    def ask() -> Any:
        accountant = hs.MonteCarloAccountant(group_size=size, samples=2000)
        accountant.step(noise_multiplier=noise, sample_rate=rate, steps=20)
        return accountant.get_delta(1.0)

    return ask


def _estimated(generator: Random) -> Callable[[], Any]:
    run: dict[str, Any] = {
        "sampling": hs.RandomAllocation(20),
        "steps": 20,
        "noise_multiplier": _noise(generator),
    }

    def ask() -> Any:
        sizes = (1, 3)
        found = [hs.estimate_delta(epsilon=0.5, group_size=k, samples=2000, seed=1, **run) for k in sizes]
        return [(each.lower, each.upper) for each in found]

    return ask


def _audited(generator: Random) -> Callable[[], Any]:
    hits, wrong = int(generator.integers(1, 200)), int(generator.integers(0, 50))
    return lambda: [
        hs.auditing.clopper_pearson(hits, 200),
        hs.auditing.epsilon_lower_bound(hits, 200, wrong, 200, 1e-5),
        hs.auditing.one_run_epsilon_lower_bound(max(hits, wrong), 200, 1000, 1e-5),
    ]


def _by_one_record(generator: Random) -> Callable[[], Any]:
    return partial(
        hs.black_box.get_epsilon,
        delta=1e-5,
        noise_multiplier=_noise(generator),
        sample_rate=_between(generator, 1e-3, 0.2),
        steps=_whole(generator, 1, 1000),
        group_size=_whole(generator, 2, 16),
    )


_DELTAS = np.array([1e-12, 1e-8, 1e-5, 1e-2])
_EPSILONS = np.array([0.0, 0.1, 1.0, 5.0])
_KINDS = (
    _allocated,
    _part_of_an_epoch,
    _several_times,
    _allocated_pair,
    _allocated_laplace,
    _bins,
    _correlated,
    _in_a_fixed_order,
    _capped,
    _microbatches,
    _shuffled,
    _other_noise,
    _zeroed_or_mixed,
    _spread_gradients,
    _points_of_curves,
    _best_of_many,
    _tradeoffs,
    _shuffle_tradeoffs,
    _renyi,
    _renyi_calibration,
    _renyi_accounts,
    _individual,
    _simulated,
    _estimated,
    _audited,
    _by_one_record,
    _one_large_ratio,
)
