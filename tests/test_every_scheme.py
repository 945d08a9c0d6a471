"""Every way to draw batches, asked by every function: an answer, or a refusal that names the reason."""

import json
import math
import re
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner

import hockeystick as hs
from hockeystick._rounding import rounded_down
from hockeystick.cli._commands import hockeystick

pytestmark = pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")

DELTA = 1e-5
NOISE = {"noise_multiplier": 2.0}
ADAPTIVE = {"mechanism": hs.AdaptiveClipping(2.0, 5.0)}
SCHEMES = {
    "allocation": {**NOISE, "sampling": hs.RandomAllocation(10)},
    "several": {**NOISE, "sampling": hs.RandomAllocation(10, times=2)},
    "bins": {**NOISE, "sampling": hs.FixedBins(10)},
    "truncated": {**NOISE, "sampling": hs.Poisson(0.1, max_batch_size=15, dataset_size=100)},
    "microbatches": {**NOISE, "sampling": hs.Poisson(0.05, microbatches=2)},
    "adaptive": {**ADAPTIVE, "sampling": hs.Poisson(0.1)},
    "adaptive allocation": {**ADAPTIVE, "sampling": hs.RandomAllocation(10)},
    "shuffle": {**NOISE, "sampling": hs.Shuffle(10, 100), "adjacency": "zero_out"},
    "laplace allocation": {"mechanism": hs.Laplace(4.0), "sampling": hs.RandomAllocation(10)},
    "laplace bins": {"mechanism": hs.Laplace(20.0), "sampling": hs.FixedBins(10)},
}
STEPS = 20


def certain(**run):
    lower, upper = hs.get_epsilon(delta=DELTA, bounds=True, steps=STEPS, tolerance=1e-3, **run)
    assert lower <= upper
    return upper


def delta_back(**run):
    """Delta at the epsilon of `DELTA`, which brings back `DELTA`."""
    epsilon = certain(**run)
    assert hs.get_delta(epsilon=epsilon, steps=STEPS, tolerance=1e-3, **run) <= DELTA * 1.1
    return epsilon


def accounted(accountant, **run):
    accountant.step(**{name: value for name, value in run.items() if name != "adjacency"}, steps=STEPS)
    return accountant.get_epsilon(DELTA)


def by_group_accountant(**run):
    return accounted(hs.GroupAccountant(adjacency=run.get("adjacency", "add_remove"), tolerance=1e-3), **run)


def curve_of(**run):
    return hs.privacy_curve(steps=STEPS, tolerance=1e-3, **run)


def zeroed(**run):
    return certain(**{**run, "adjacency": "zero_out"})


def stated(**run):
    return hs.get_epsilon(hs.Run(steps=STEPS, **run), delta=DELTA, tolerance=1e-3)


def swept(**run):
    return hs.sweep("epsilon", delta=DELTA, **{**run, "steps": [STEPS]}, tolerance=1e-3)["epsilon"][0]


def noise_of_target(**run):
    return hs.get_noise_multiplier(
        epsilon=2.0,
        delta=DELTA,
        steps=STEPS,
        **{name: value for name, value in run.items() if name != "noise_multiplier"},
    )


def simulated(**run):
    return accounted(hs.MonteCarloAccountant(samples=2_000), **run)


def estimated(**run):
    sided = {**run, "adjacency": "remove"}
    return hs.estimate_delta(epsilon=1.0, samples=2_000, seed=1, steps=STEPS, **sided).upper


def reported(**run):
    """The epsilon that a report for programs states; its text has tables of slow questions."""
    with tempfile.TemporaryDirectory() as folder:
        found = json.loads(hs.report(curve_of(**run), Path(folder) / "privacy.json", delta=DELTA).read_text())
    assert found["mechanism"]["sampling"] == repr(run["sampling"]) or "Poisson" in repr(run["sampling"])
    return found["guarantee"]["epsilon"]


def certified(**run):
    claims = curve_of(**run).certify(delta=DELTA).claims
    return min(claim["epsilon"] for claim in claims if "at_most" in claim)


def drawn(picture):
    """The largest height of the lines, marks and areas of a picture of the run."""

    def asked(**run):
        try:
            axes = picture(curve_of(**run))
            return float(max(axes.dataLim.get_points().max(), 0.0))
        finally:
            plt.close("all")

    return asked


def saved(**run):
    """Epsilon of an accountant that was written to JSON and read back."""
    accountant, other = (
        hs.GroupAccountant(adjacency=run.get("adjacency", "add_remove"), tolerance=1e-3) for _ in range(2)
    )
    epsilon = accounted(accountant, **run)
    other.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert other.get_epsilon(DELTA) == epsilon
    return epsilon


def repeated(**run):
    curve = curve_of(**run)
    both, one = (curve * 2).epsilon(DELTA), curve.epsilon(DELTA)
    assert one <= both
    return both


def individual(**run):
    return accounted(hs.IndividualAccountant(3), **run)


FUNCTIONS = {
    "get_epsilon": delta_back,
    "zero_out": zeroed,
    "group of two": lambda **run: certain(group_size=2, **run),
    "get_noise_multiplier": noise_of_target,
    "Run": stated,
    "sweep": swept,
    "GroupAccountant": by_group_accountant,
    "beta": lambda **run: curve_of(**run).beta(0.1),
    "advantage": lambda **run: curve_of(**run).advantage(),
    "renyi": lambda **run: curve_of(**run).renyi(2.0),
    "explain": lambda **run: hs.explain(delta=DELTA, steps=STEPS, tolerance=1e-3, **run)["epsilon"],
    "MonteCarloAccountant": simulated,
    "RenyiGroupAccountant": lambda **run: accounted(hs.RenyiGroupAccountant(), **run),
    "IndividualAccountant": individual,
    "estimate_delta": estimated,
    "report": reported,
    "certify": certified,
    "state": saved,
    "repeated": repeated,
    "best_of": lambda **run: curve_of(**run).best_of(hs.GeometricRuns(5.0)).epsilon(DELTA),
    "get_steps": lambda **run: float(hs.get_steps(epsilon=4.0, delta=DELTA, tolerance=1e-3, **run)),
    "replace": lambda **run: certain(**{**run, "adjacency": "replace"}),
    "black_box": lambda **run: hs.black_box.get_epsilon(delta=DELTA, steps=STEPS, group_size=2, **run),
    "TradeoffCurve": lambda **run: hs.TradeoffCurve.from_curve(curve_of(**run)).beta(0.1),
    "plot.privacy_curve": drawn(hs.plot.privacy_curve),
    "plot.tradeoff_curve": drawn(hs.plot.tradeoff_curve),
    "plot.schemes": drawn(lambda curve: hs.plot.schemes(curve, delta=DELTA)),
    "plot.budget": drawn(lambda curve: hs.plot.budget(curve, delta=DELTA)),
}

NOT_GAUSSIAN = (hs.UnsupportedError, "must be Gaussian noise")
STAYING = (hs.UnsupportedError, "bins are drawn afresh")
NO_MECHANISM = (TypeError, "mechanism")
"""Only Gaussian noise, given as `noise_multiplier`."""
DEALT = (hs.UnsupportedError, "deals records into the batches of an epoch")
ONLY_POISSON = (hs.UnsupportedError, "Poisson")
CUT = (hs.UnsupportedError, "without a largest batch size")
NOT_AGAINST_ALL = (hs.UnsupportedError, "no proven dominating pair")
NO_ESTIMATE = (hs.UnsupportedError, "has no estimate here")

REFUSED = {
    ("truncated", "zero_out"): (hs.UnsupportedError, "pushes others out"),
    ("adaptive", "zero_out"): (hs.UnsupportedError, "more is released than a sum"),
    ("adaptive allocation", "zero_out"): (hs.UnsupportedError, "more is released than a sum"),
    **{
        (scheme, "get_noise_multiplier"): NO_MECHANISM
        for scheme in ("adaptive", "adaptive allocation", "laplace allocation", "laplace bins")
    },
    **{
        (scheme, "IndividualAccountant"): NO_MECHANISM
        for scheme in ("adaptive", "adaptive allocation", "laplace allocation", "laplace bins")
    },
    **{(scheme, "MonteCarloAccountant"): NOT_GAUSSIAN for scheme in ("laplace allocation", "laplace bins")},
    **{(scheme, "repeated"): STAYING for scheme in ("bins", "laplace bins")},
    **{
        (scheme, "replace"): (hs.UnsupportedError, "records replaced")
        for scheme in (
            "allocation",
            "several",
            "bins",
            "adaptive allocation",
            "laplace allocation",
            "laplace bins",
        )
    },
    ("microbatches", "replace"): (hs.UnsupportedError, "no proven pair for replaced records"),
    **{
        (scheme, "TradeoffCurve"): (hs.UnsupportedError, "one release an epoch")
        for scheme in SCHEMES
        if scheme.endswith(("allocation", "several", "bins"))
    },
    ("truncated", "black_box"): (hs.UnsupportedError, "has no black-box bound"),
    ("shuffle", "black_box"): NOT_AGAINST_ALL,
    ("truncated", "MonteCarloAccountant"): CUT,
    ("truncated", "RenyiGroupAccountant"): CUT,
    ("truncated", "IndividualAccountant"): CUT,
    **{
        (scheme, "RenyiGroupAccountant"): ONLY_POISSON
        for scheme in (
            "allocation",
            "several",
            "bins",
            "adaptive allocation",
            "laplace allocation",
            "laplace bins",
        )
    },
    **{(scheme, "IndividualAccountant"): DEALT for scheme in ("allocation", "several", "bins")},
    **{
        ("shuffle", name): NOT_AGAINST_ALL
        for name in ("MonteCarloAccountant", "RenyiGroupAccountant", "IndividualAccountant")
    },
    **{(scheme, "estimate_delta"): NO_ESTIMATE for scheme in ("truncated", "microbatches", "shuffle")},
    **{
        (scheme, "estimate_delta"): NO_MECHANISM
        for scheme in ("adaptive", "adaptive allocation", "laplace allocation", "laplace bins")
    },
}
"""What has no answer, with the words of the reason."""


SECONDS = ("get_steps", "black_box", "best_of", "TradeoffCurve", "plot.")
"""Functions with many questions, each of which takes tenths of a second with Laplace noise."""
SLOW = {("truncated", "certify"), ("laplace bins", "certify")}
"""Others that take seconds."""
ONE_EPOCH = {"laplace bins": hs.FixedBins(STEPS), "laplace allocation": hs.RandomAllocation(STEPS)}
"""Batches with which these functions have one epoch, where each of several ones takes seconds more."""

CASES = [
    pytest.param(
        scheme,
        function,
        marks=[pytest.mark.slow]
        if (scheme, function) in SLOW or (scheme.startswith("laplace") and function.startswith(SECONDS))
        else [],
    )
    for scheme in SCHEMES
    for function in FUNCTIONS
]


@pytest.mark.parametrize(("scheme", "function"), CASES)
def test_every_scheme_has_an_answer_or_a_reason(scheme, function):
    if (scheme, function) in REFUSED:
        error, words = REFUSED[scheme, function]
        with pytest.raises(error, match=words):
            FUNCTIONS[function](**SCHEMES[scheme])
        return
    run = SCHEMES[scheme]
    if scheme in ONE_EPOCH and function.startswith(SECONDS):
        run = run | {"sampling": ONE_EPOCH[scheme]}
    found = float(FUNCTIONS[function](**run))
    assert found > 0.0
    assert math.isfinite(found)


@pytest.mark.parametrize("scheme", ["allocation", "shuffle"])
def test_a_report_says_what_poisson_accounting_would_claim(scheme, tmp_path):
    run = SCHEMES[scheme]
    text = hs.report(curve_of(**run), tmp_path / "privacy.md", delta=DELTA, pictures=False).read_text()
    claimed = hs.get_epsilon(delta=DELTA, noise_multiplier=2.0, sample_rate=0.1, steps=STEPS)
    (shown,) = re.findall(r"\| Poisson sampling, add or remove \| ([\d.]+) \|", text)
    assert claimed * (1.0 - 1e-3) <= float(shown) <= claimed * (1.0 + 1e-3)
    lower, _ = hs.get_epsilon(delta=DELTA, bounds=True, steps=STEPS, **run)
    if scheme == "shuffle":
        shown_lower = rounded_down(curve_of(**run).bounds(delta=DELTA)[0])
        assert f"at least {shown_lower}; Poisson accounting says {shown} |" in text
        assert lower > claimed


SAME = [name for name in SCHEMES if name not in ("truncated", "shuffle") and "adaptive" not in name]


@pytest.mark.parametrize("scheme", SAME)
def test_a_record_whose_gradient_is_zero_is_one_that_is_gone(scheme):
    run = SCHEMES[scheme]
    assert zeroed(**run) == certain(**run) == by_group_accountant(**run, adjacency="zero_out")
    assert curve_of(**run, adjacency="zero_out") == curve_of(**run)
    found = hs.explain(delta=DELTA, steps=STEPS, tolerance=1e-3, **run, adjacency="zero_out")
    assert "zeroed out" in found["statement"]
    assert found["adjacency"].startswith("zero_out")


@pytest.mark.parametrize(
    "sampling", [hs.RandomAllocation(4), hs.FixedBins(4), hs.RandomAllocation(4, times=2)]
)
def test_more_noise_and_fewer_steps_never_cost_more(sampling):
    """Up to much noise, which costs little."""
    at = {"delta": DELTA, "sampling": sampling, "tolerance": 1e-3}
    epsilons = [hs.get_epsilon(noise_multiplier=noise, steps=8, **at) for noise in (1.0, 2.0, 4.0, 30.0)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[-1] < 0.2
    longer = [hs.get_epsilon(noise_multiplier=2.0, steps=steps, **at) for steps in (4, 8, 12, 40)]
    assert longer == sorted(longer)
    groups = [hs.get_epsilon(noise_multiplier=4.0, steps=8, group_size=size, **at) for size in (1, 2, 3)]
    assert groups == sorted(groups)
    deltas = [
        hs.get_delta(epsilon=epsilon, noise_multiplier=2.0, steps=8, sampling=sampling)
        for epsilon in (0.1, 0.5, 1.0)
    ]
    assert deltas == sorted(deltas, reverse=True)


@pytest.mark.parametrize("scheme", ["allocation", "bins", "several"])
def test_the_command_line_gives_the_same_answer(scheme):
    sampling = SCHEMES[scheme]["sampling"]
    name = "random_allocation" if isinstance(sampling, hs.RandomAllocation) else "fixed_bins"
    options = ["--sampling", name, "--batches", "10", "--noise-multiplier", "2", "--steps", str(STEPS)]
    if scheme == "several":
        options += ["--times", "2"]
    arguments = ["epsilon", "--delta", "1e-5", "--json", *options]
    found = CliRunner().invoke(hockeystick, arguments, prog_name="hockeystick")
    assert found.exit_code == 0, found.output
    (result,) = json.loads(found.stdout)["results"]
    assert result["epsilon"] == hs.get_epsilon(
        delta=DELTA, noise_multiplier=2.0, sampling=sampling, steps=STEPS
    )
