"""Questions about what neither those of the core nor the examples ask about."""

import contextlib
import importlib
import io
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benches.constants.comparing import Interval, Question
from benches.python_constants.examples import DOCS, numbers_in

DELTA = 1e-5
RUN: dict[str, Any] = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
SHUFFLED: dict[str, Any] = {"sampling": hs.Shuffle(20, 200), "adjacency": "zero_out"}
MATRIX = np.tril(1.0 / (1.0 + np.abs(np.subtract.outer(np.arange(8), np.arange(8)))))


def questions() -> Iterator[Question]:
    """Yield them."""
    for line in re.findall(
        r"^\$ (hockeystick .*)$", (DOCS / "command-line.md").read_text("utf-8"), re.MULTILINE
    ):
        yield Question("command line", partial(_command, line))
    for ask in (*_ACCOUNTS, *_PLANS, *_CERTIFIED, *_TEXTS, *_EVENTS, *_PICTURES):
        yield Question(ask.__name__.strip("_"), partial(_numbers, ask))


def _numbers(ask: Callable[[], Any]) -> list[Interval]:
    """Return the numbers of an answer: of a text, or of arrays."""
    found = ask()
    if isinstance(found, str):
        return numbers_in(found)
    flat = np.concatenate([np.ravel(np.asarray(each, dtype=float)) for each in found])
    return [(value, value) for value in flat.tolist()]


def _command(line: str) -> list[Interval]:
    command = importlib.import_module("hockeystick.cli._commands").hockeystick
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        contextlib.suppress(SystemExit),
    ):
        command(shlex.split(line)[1:])
    return numbers_in(printed.getvalue())


# ---- accounts


def _simulated_epsilon() -> Any:
    accountant = hs.MonteCarloAccountant(group_size=4, samples=2_000)
    accountant.step(noise_multiplier=1.0, sample_rate=0.02, steps=20)
    return [accountant.get_epsilon(DELTA)]


def _simulated_beside_dealt() -> Any:
    accountant = hs.MonteCarloAccountant(group_size=2, samples=500)
    accountant.step(noise_multiplier=2.0, sampling=hs.RandomAllocation(10), steps=10)
    accountant.step(noise_multiplier=2.0, sample_rate=0.05, steps=5)
    return [accountant.get_epsilon(DELTA), accountant.get_delta(1.0)]


def _accumulated() -> Any:
    accountant = hs.GroupAccountant(group_size=3)
    for batches in (1, 3, 2):
        accountant.step(noise_multiplier=2.0, sampling=hs.Poisson(0.02, microbatches=batches), steps=5)
    return [accountant.get_epsilon(DELTA)]


def _moments_of_accumulated() -> Any:
    accountant = hs.RenyiGroupAccountant(group_size=2)
    for batches in (1, 3):
        accountant.step(noise_multiplier=2.0, sampling=hs.Poisson(0.02, microbatches=batches), steps=5)
    return [accountant.get_epsilon(DELTA)]


def _histories() -> Any:
    norms = np.random.default_rng(1).uniform(0.001, 1.0, size=30)
    accountant = hs.IndividualAccountant(30, exact=True)
    for part in range(2):
        accountant.update_norms(np.roll(norms, part))
        accountant.step(noise_multiplier=0.5, sample_rate=0.5, steps=1)
    found = [accountant.get_epsilons(DELTA), accountant.get_epsilons(1e-14)]
    return [*found, accountant.get_group_epsilon(np.arange(12), 1e-4)]


# ---- plans


def _noise_for_error_rates() -> Any:
    return [hs.get_noise_multiplier(tpr=0.05, fpr=0.01, sample_rate=0.01, steps=100)]


def _rate_for_error_rates() -> Any:
    return [hs.get_sample_rate(tpr=0.05, fpr=0.01, noise_multiplier=2.0, steps=100)]


def _steps_for_error_rates() -> Any:
    return [hs.get_steps(tpr=0.05, fpr=0.01, noise_multiplier=4.0, sample_rate=0.01)]


def _group_for_error_rates() -> Any:
    return [hs.get_group_size(tpr=0.2, fpr=0.01, noise_multiplier=4.0, sample_rate=0.01, steps=100)]


def _epochs_of_shuffled() -> Any:
    return [np.asarray(hs.get_steps(epsilon=4.0, delta=DELTA, noise_multiplier=4.0, bounds=True, **SHUFFLED))]


def _noise_for_bins() -> Any:
    mechanism = hs.CorrelatedNoise.lambda_cgd(0.5)
    run: dict[str, Any] = {"mechanism": mechanism, "sampling": hs.FixedBins(2), "steps": 2, "tolerance": 3e-2}
    return [hs.get_noise_multiplier(epsilon=1.0, delta=DELTA, **run)]


def _planned() -> Any:
    return str(hs.plan(dataset_size=6_000, epochs=2, epsilon=3.0, delta=DELTA))


def _errors_under_bins() -> Any:
    mechanism = hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0)
    curve = hs.privacy_curve(mechanism=mechanism, sampling=hs.FixedBins(2), steps=2, tolerance=3e-2)
    return [curve.beta(np.array([0.01, 0.1]))]


def _sensitivities() -> Any:
    noise = hs.CorrelatedNoise.from_matrix(MATRIX, noise_multiplier=2.0)
    found = [
        noise.sensitivity(hs.FixedOrder(2), steps=8),
        noise.sensitivity(hs.MinimumSeparation(3), steps=8),
    ]
    return [[each.lower, each.upper] for each in found]


# ---- certificates


def _certified(curve: Any) -> list[Any]:
    certificate = curve.certify(delta=DELTA)
    proven, _ = certificate.verify()
    return [[value for claim in certificate.claims for value in claim.values()], float(proven)]


def _certified_matrix() -> Any:
    noise = hs.CorrelatedNoise.from_matrix(MATRIX, noise_multiplier=4.0)
    return _certified(hs.privacy_curve(mechanism=noise, sampling=hs.FixedOrder(2), steps=8))


def _certified_norms() -> Any:
    norms = [1.0 / (2.0 + place) for place in range(7)]
    return _certified(hs.privacy_curve(group=hs.Group(norms=norms), **(RUN | {"steps": 1})))


def _certified_cosine() -> Any:
    return _certified(hs.privacy_curve(group=hs.Group(3, cosine=0.3), **RUN))


def _certified_example() -> Any:
    accountant = hs.IndividualAccountant(70)
    for part in range(70):
        accountant.update_norms(np.roll(np.linspace(0.01, 1.0, 70), part))
        accountant.step(noise_multiplier=2.0, sample_rate=0.05)
    return _certified_of(accountant.certify(0, delta=DELTA))


def _certified_of(certificate: Any) -> list[Any]:
    proven, _ = certificate.verify()
    return [[value for claim in certificate.claims for value in claim.values()], float(proven)]


# ---- texts


def _explained() -> Any:
    return str(hs.explain(delta=DELTA, **RUN)) + str(
        hs.explain(delta=DELTA, steps=20, noise_multiplier=2.0, **SHUFFLED)
    )


def _misspelt() -> Any:
    try:
        # The name is wrong on purpose: the message that corrects it is what is asked for.
        hs.get_epsilon(delta=DELTA, nosie_multiplier=1.0, sample_rate=0.01, steps=1)  # type: ignore[call-overload]
    except TypeError as error:
        return str(error)
    return ""


def _refused() -> Any:
    try:
        hs.RandomAllocation(10**700)
    except ValueError as error:
        return str(error)
    return ""


def _of_many_kinds() -> Any:
    accountant = hs.GroupAccountant()
    for part in range(25):
        accountant.step(noise_multiplier=1.0 + part, sample_rate=0.01)
    with tempfile.TemporaryDirectory() as folder:
        page = hs.report(accountant, Path(folder) / "report.md", delta=DELTA).read_text("utf-8")
    curve = accountant.privacy_curve()
    return repr(curve) + str(curve) + page


def _composed() -> Any:
    curve = hs.TradeoffCurve.gaussian(0.1)
    for _ in range(9):
        curve = curve.compose(hs.TradeoffCurve.laplace(0.1))
    return curve._repr_html_()


# ---- dp-accounting


def _events() -> Any:
    events = importlib.import_module("dp_accounting")
    accountant = importlib.import_module("hockeystick.dp_accounting").ExactAccountant
    gaussian = events.GaussianDpEvent(2.0)
    run = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, gaussian), 100)
    mixture = events.dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1])
    return [accountant().compose(event, 10).get_epsilon(DELTA) for event in (run, gaussian, mixture)]


def _counts() -> Any:
    events = importlib.import_module("dp_accounting").dp_event
    accountant = importlib.import_module("hockeystick.dp_accounting").ExactAccountant
    noise = events.DiscreteLaplaceDpEvent(noise_parameter=0.1, sensitivity=3)
    return [accountant().compose(noise, 10).get_epsilon(DELTA)]


def _tuned() -> Any:
    events = importlib.import_module("dp_accounting")
    accountant = importlib.import_module("hockeystick.dp_accounting").ExactAccountant
    run = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(4.0)), 10)
    tuned = events.dp_event.RepeatAndSelectDpEvent(run, mean=10, shape=1)
    return [accountant().compose(tuned).get_epsilon(DELTA)]


# ---- pictures


def _drawn(axes: Any) -> list[Any]:
    """Return what a picture says: its lines, its limits, its size and its title."""
    lines = [line.get_xydata() for line in axes.get_lines()]
    edges = [axes.get_xlim(), axes.get_ylim(), axes.figure.get_size_inches(), [axes.figure.dpi]]
    return [*lines, *edges, [len(axes.get_title()), len(axes.texts), len(axes.patches)]]


def _curves_drawn() -> Any:
    curve = hs.privacy_curve(**RUN)
    pictures = [hs.plot.privacy_curve(curve, delta=DELTA, title=True), hs.plot.tradeoff_curve(curve)]
    return [part for axes in pictures for part in _drawn(axes)]


def _groups_drawn() -> Any:
    return _drawn(hs.plot.epsilon_by_group_size(delta=DELTA, black_box=True, title=True, **RUN))


def _schemes_drawn() -> Any:
    return _drawn(hs.plot.schemes(delta=DELTA, **RUN))


def _examples_drawn() -> Any:
    accountant = hs.IndividualAccountant(50)
    accountant.update_norms(np.linspace(0.1, 1.0, 50))
    accountant.step(noise_multiplier=1.0, sample_rate=0.05, steps=5)
    return _drawn(hs.plot.individual_histogram(accountant.get_epsilons(DELTA)))


def _tables_drawn() -> Any:
    table = hs.sweep("epsilon", delta=DELTA, sample_rate=0.01, steps=[10, 20], noise_multiplier=[1.0, 2.0])
    return _drawn(table.plot())


_ACCOUNTS = (_simulated_epsilon, _simulated_beside_dealt, _accumulated, _moments_of_accumulated, _histories)
_PLANS = (
    _noise_for_error_rates, _rate_for_error_rates, _steps_for_error_rates, _group_for_error_rates,
    _epochs_of_shuffled, _noise_for_bins, _planned, _errors_under_bins, _sensitivities,
)  # fmt: skip
_CERTIFIED = (_certified_matrix, _certified_norms, _certified_cosine, _certified_example)
_TEXTS = (_explained, _misspelt, _refused, _of_many_kinds, _composed)
_EVENTS = (_events, _counts, _tuned)
_PICTURES = (_curves_drawn, _groups_drawn, _schemes_drawn, _examples_drawn, _tables_drawn)
