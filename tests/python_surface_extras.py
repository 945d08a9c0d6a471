"""What may need more than NumPy, with good arguments: pictures, reports, releases, audits, command line."""

import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from click.testing import CliRunner
from python_surface import CURVE

import hockeystick as hs
from hockeystick import auditing, checkpoints, distributed, plot, release
from hockeystick.cli._commands import hockeystick as command_line

mpl.use("agg")

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 20}
ATTACK = {"true_positives": 60, "positives": 100, "false_positives": 10, "negatives": 100, "confidence": 0.9}


def pictured(draw):
    """Draw, and close the figure whatever happens."""

    def picture(**arguments):
        try:
            draw(**arguments)
        finally:
            plt.close("all")

    picture.__qualname__ = f"plot.{draw.__name__}"
    return picture


def reported(**arguments):
    with tempfile.TemporaryDirectory() as folder:
        hs.report(CURVE, Path(folder) / "report.html", pictures=False, **arguments)


def saved(content, most_bytes):
    """Load a checkpoint with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
        return type(checkpoints.load(path, most_bytes=most_bytes)).__name__


def asked(command, **options):
    """Ask the command line; a wrong option is a refusal, anything else that fails a failure."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    found = CliRunner().invoke(command_line, [str(command), *words], prog_name="hockeystick")
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    if found.exit_code:
        assert found.exit_code in (1, 2), found.output
        assert "Error" in found.stderr, found.output
        raise ValueError(found.stderr)
    assert "nan" not in found.stdout


def attacked(true_positives, false_positives):
    return auditing.refutes(hs.TradeoffCurve.gaussian(1.0), true_positives, 100, false_positives, 100)


def found_in_one_run(correct, guesses, canaries, delta, confidence):
    return auditing.one_run_epsilon_lower_bound(correct, guesses, canaries, delta, confidence)


def noise_of_attack(**attack):
    """Of one step: little noise and some steps take seconds for each noise that is tried."""
    return auditing.noise_multiplier_upper_bound(**attack, steps=1)


def accounts(norms, noise_multiplier, sample_rate, steps, max_grad_norm):
    return distributed.account(
        norms, [(noise_multiplier, sample_rate, steps)], max_grad_norm=max_grad_norm
    ).get_epsilons(1e-5)


EXTRAS = {
    release.mean: {
        "values": [0.1, 0.5, 0.9],
        "epsilon": 1.0,
        "delta": 1e-6,
        "upper": 1.0,
        "lower": 0.0,
        "adjacency": "replace",
    },
    release.quantiles: {
        "values": [0.1, 0.5, 0.9],
        "probabilities": [0.25, 0.5],
        "epsilon": 1.0,
        "delta": 1e-6,
        "upper": 1.0,
        "lower": 0.0,
        "adjacency": "add_remove",
        "candidates": 20,
    },
    pictured(plot.privacy_curve): {"epsilons": [0.1, 0.5, 1.0], "delta": 1e-3, "label": "a run", **RUN},
    pictured(plot.tradeoff_curve): {"false_alarms": [0.1, 0.2], "label": "a run", **RUN},
    pictured(plot.epsilon_by_group_size): {"delta": 1e-3, "group_sizes": [1, 2], "black_box": True, **RUN},
    pictured(plot.budget): {"delta": 1e-3, "target": 1.0, "points": 3, **RUN},
    pictured(plot.schemes): {"delta": 1e-3, "dataset_size": 1000, **RUN},
    pictured(plot.individual_histogram): {
        "accountant_or_epsilons": [0.1, 0.2, 0.4],
        "delta": 1e-5,
        "worst_case": 1.0,
        "percentiles": [50.0],
        "bins": 5,
    },
    reported: {
        "delta": 1e-5,
        "group_sizes": [1, 2],
        "dataset_size": 1000,
        "target": 3.0,
        "title": "A report",
    },
    saved: {"content": b"{}", "most_bytes": 1000},
    asked: {
        "command": "epsilon",
        "delta": 1e-5,
        "noise_multiplier": 1.0,
        "sample_rate": 0.01,
        "steps": 20,
        "group_size": 2,
    },
    auditing.epsilon_lower_bound: {**ATTACK, "delta": 1e-5},
    attacked: {"true_positives": 60, "false_positives": 10},
    noise_of_attack: {**ATTACK, "sample_rate": 0.1, "group_size": 2},
    found_in_one_run: {"correct": 80, "guesses": 100, "canaries": 200, "delta": 1e-5, "confidence": 0.9},
    distributed.accumulate: {
        "norms": [0.5, 1.0],
        "steps": [(1.0, 0.1, 2)],
        "max_grad_norm": 1.0,
        "orders": [2.0, 4.0],
    },
    accounts: {
        "norms": [0.5, 1.0],
        "noise_multiplier": 1.0,
        "sample_rate": 0.1,
        "steps": 3,
        "max_grad_norm": 1.0,
    },
}

SURFACE = [
    (getattr(function, "__qualname__", "function"), function, good) for function, good in EXTRAS.items()
]
"""Name, function and good arguments."""
