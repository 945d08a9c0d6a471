"""Tables of docs/experiments.md, from the stored numbers: ``python -m benches.experiments.page`` writes them.

The page has the tables between two comments for each; a test compares them with the files, so that the page
cannot say other numbers than the last run found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"
FOLDER = PAGE.with_suffix("")
PAPERS = ("individual", "rgp", "group", "shuffle")
"""Papers whose numbers are stored."""
MARKS = re.compile(r"(<!-- table (\w+): written by `make experiments` -->\n\n)(.*?)(<!-- end -->)", re.DOTALL)

Numbers = dict[str, Any]

NAMES = {
    "softmax": "Fashion-MNIST, softmax",
    "hinge": "Fashion-MNIST, hinge loss",
    "cnn": "Fashion-MNIST, convolutional",
    "adult": "Adult, logistic",
}
BOUNDS = {
    "black_box": "black box (Lemma 2.3)",
    "jensen": "the paper's bound (Theorem 3.1)",
    "exact": "exact divergences",
    "curve": "exact curve",
}


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(filled(PAGE.read_text("utf-8"), FOLDER), encoding="utf-8")


def filled(text: str, folder: Path) -> str:
    """Return the text of the page with the tables of the numbers in `folder`."""
    numbers = {paper: json.loads((folder / f"{paper}.json").read_text("utf-8")) for paper in PAPERS}
    return MARKS.sub(lambda found: found[1] + TABLES[found[2]](numbers) + "\n" + found[4], text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown, which ends with an end of line."""
    first, *others = head
    lines = [[first, *others], ["---", *("---:" for _ in others)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def percent(value: float, digits: int = 1) -> str:
    """Return a fraction in per cent."""
    return f"{100 * value:.{digits}f} %"


def settings(numbers: Numbers) -> str:
    """Which runs the numbers come from."""
    rows = []
    for paper in PAPERS:
        found = numbers[paper]
        seconds = sum(found["processor_seconds"].values())
        rows.append((paper.upper(), found["machine"].split(", Python")[0], f"{seconds:.0f}"))
    return table(("paper", "machine", "processor seconds"), rows)


def runs(numbers: Numbers) -> str:
    """Trainings of INDIVIDUAL."""
    head = (
        "training",
        "examples",
        "epochs",
        "test accuracy",
        "largest ε",
        "mean ε",
        "median ε",
        "at the largest",
        "r of ε and log loss",
    )
    rows = []
    for name, run in numbers["individual"]["runs"].items():
        rows.append(
            (
                NAMES[name],
                f"{run['examples']:,}",
                f"{run['epochs']}",
                percent(run["test_accuracy"]),
                f"{run['worst_epsilon']:.2f}",
                f"{run['mean_epsilon']:.2f}",
                f"{run['median_epsilon']:.2f}",
                percent(run["fraction_at_the_worst"]),
                f"{run['correlation_with_log_loss']:.2f}",
            )
        )
    return table(head, rows)


def estimates(numbers: Numbers) -> str:
    """Figure 4 of INDIVIDUAL in numbers."""
    rows = [
        (
            NAMES[name],
            f"{float(rate):g}",
            *(f"{found[key]:.4f}" for key in ("correlation", "mean_error", "largest_error")),
        )
        for name, run in numbers["individual"]["runs"].items()
        for rate, found in run["estimates"].items()
    ]
    return table(("training", "γ", "Pearson's r", "mean error", "largest error"), rows)


def groups(numbers: Numbers) -> str:
    """Figures 2 and 6 of INDIVIDUAL in numbers: groups by race and by sex, and the extreme classes."""
    rows: list[tuple[str, ...]] = []
    for name, way in (("softmax", "class"), ("cnn", "class"), ("adult", "race"), ("adult", "sex")):
        found = numbers["individual"]["runs"][name]["groups"][way]
        order = np.argsort(found["mean_epsilon"])
        shown = order if way != "class" else (order[0], order[-1])
        rows.extend(
            (
                f"{NAMES[name]}: {found['names'][i]}",
                f"{found['sizes'][i]:,}",
                f"{found['mean_epsilon'][i]:.3f}",
                percent(found["test_accuracy"][i]),
            )
            for i in shown
        )
    return table(("group", "examples", "mean ε", "test accuracy"), rows)


def clipping(numbers: Numbers) -> str:
    """Table 3 of INDIVIDUAL."""
    found = numbers["individual"]["individual_clipping"]
    keys = ("own_thresholds", "one_threshold", "difference")
    rows = [
        (
            f"{NAMES[name]} ({row['seeds']} seeds)",
            *(f"{100 * row[key][0]:.2f} ± {100 * row[key][1]:.2f}" for key in keys),
            f"{row['mean_change_of_epsilon']:+.3f}",
        )
        for name, row in found.items()
    ]
    return table(
        ("training", "own thresholds (%)", "one threshold (%)", "difference", "mean change of ε"), rows
    )


def norms(numbers: Numbers) -> str:
    """Figures 9, 10 and 12 of INDIVIDUAL in numbers."""
    found = numbers["individual"]["clipping_norms"] | {"1 M": numbers["individual"]["runs"]["softmax"]}
    rows = [
        (
            name,
            f"{run['clipping_norm']:.2f}",
            percent(run["test_accuracy"]),
            f"{run['mean_epsilon']:.2f}",
            percent(run["fraction_at_the_worst"]),
            f"{run['correlation_with_log_loss']:.2f}",
        )
        for name, run in sorted(found.items(), key=lambda item: item[1]["clipping_norm"])
    ]
    head = ("C", "its value", "test accuracy", "mean ε", "at the largest", "r of ε and log loss")
    return table(head, rows)


def paid(numbers: Numbers) -> str:
    """Clipping norms that are paid for."""
    found = numbers["individual"]["paid_for"]
    rows = (
        (
            "the median, not paid for",
            f"{found['true_median']:.2f}",
            percent(found["not_paid_for"]),
            "2.40 and more",
        ),
        (
            f"a private median (ε = {found['its_price']:.2f})",
            f"{found['private_median']:.2f}",
            percent(found["private_median_accuracy"]),
            f"{found['private_median_epsilon']:.2f}",
        ),
        (
            "adaptive (Andrew et al.)",
            f"{found['adaptive_last_norm']:.2f} at the end",
            percent(found["adaptive_accuracy"]),
            f"{found['adaptive_epsilon']:.2f}",
        ),
    )
    return table(("clipping norm", "value", "test accuracy", "ε of all of it"), rows)


def attacks(numbers: Numbers) -> str:
    """Figure 11 of INDIVIDUAL in numbers."""
    found = numbers["individual"]["membership"]
    order = np.argsort(found["mean_epsilon"])
    rows = [
        (
            found["names"][i],
            f"{found['mean_epsilon'][i]:.2f}",
            percent(found["success"]["not_private"][i]),
            percent(found["success"]["private"][i]),
        )
        for i in order
    ]
    return table(("class", "mean ε", "attack without privacy", "attack with privacy"), rows)


def released(numbers: Numbers) -> str:
    """Table 2 of INDIVIDUAL."""
    rows = [
        (f"{NAMES[name]}, {kind}", *(f"{value:.3f}" for value in found[kind]))
        for name, found in numbers["individual"]["released"].items()
        for kind in ("true", "released")
    ]
    levels = numbers["individual"]["released"]["softmax"]["levels"]
    return table(("", "mean", *(f"{level:g}-quantile" for level in levels)), rows)


def cost(numbers: Numbers) -> str:
    """Table 1 of INDIVIDUAL."""
    found = numbers["individual"]["cost"]
    paper = found["paper_seconds"]
    words = {
        "without_rounding": ("without rounding", f"{paper['without_rounding']:,.0f}"),
        "with_rounding": ("rounded to C / 100", f"< {paper['with_rounding']:.0f}"),
        "the_different_norms_alone": ("the 100 values alone", f"< {paper['with_rounding']:.0f}"),
    }
    rows = [
        (
            label,
            f"{found[key]['different_norms']:,}",
            f"{found[key]['processor_seconds']:.3g}",
            theirs,
        )
        for key, (label, theirs) in words.items()
    ]
    return table(("norms", "different ones", "processor seconds", "paper, seconds on five cores"), rows)


def noise(numbers: Numbers) -> str:
    """Noise multipliers of RGP."""
    found = numbers["rgp"]
    rows = [
        (BOUNDS[bound], *(f"{value:.2f}" for value in row))
        for bound, row in found["noise_multipliers"]["by_size"].items()
    ]
    return table(("noise multiplier", *(f"m = {size}" for size in found["sizes"])), rows)


def accuracy(numbers: Numbers) -> str:
    """Accuracies of RGP."""
    found = numbers["rgp"]
    rows = []
    for name, run in found["accuracies"].items():
        for bound, row in run["by_size"].items():
            by_size = dict(zip(run["sizes"], row, strict=True))
            cells = [
                percent(float(np.mean(by_size[size]))) if size in by_size else "" for size in found["sizes"]
            ]
            rows.append((f"{name}: {BOUNDS[bound]}", *cells))
        rows.append(
            (f"{name}: no noise", percent(float(np.mean(run["no_noise"]))), *("" for _ in found["sizes"][1:]))
        )
    return table(("test accuracy", *(f"m = {size}" for size in found["sizes"])), rows)


def bounds(numbers: Numbers) -> str:
    """Figure 1 of GROUP in numbers."""
    found = numbers["group"]["bounds"]
    places = [i for i, size in enumerate(found["sizes"]) if size in (1, 2, 4, 6, 8, 10, 12)]
    rows = [
        (label, *(f"{found[key][i]:,.2f}" for i in places))
        for key, label in (
            ("exact", "exact (Theorem 18)"),
            ("tradeoff", "by f-DP (Theorem 5)"),
            ("black_box", "black box (Theorem 4)"),
        )
    ]
    return table(("ε at δ = 0.001", *(f"k = {found['sizes'][i]}" for i in places)), rows)


def simulated(numbers: Numbers) -> str:
    """Monte Carlo estimates of GROUP."""
    found = numbers["group"]["bounds"]
    rows = [
        (
            f"{size}",
            f"{bar['samples']:,}",
            f"{bar['delta']:.6f}",
            f"{bar['lower']:.6f} to {bar['upper']:.6f}",
            percent(bar["half_width"], 2),
        )
        for size, bar in zip(found["sizes"], found["monte_carlo"], strict=True)
        if size in (1, 2, 4, 8, 12)
    ]
    return table(("records", "samples", "δ, simulated", "99 % interval", "half width"), rows)


def audits(numbers: Numbers) -> str:
    """Audits of GROUP."""
    found = numbers["group"]["audit"]
    rows = [
        (
            f"{label}, {row['copies']} copies",
            f"{row['true_positives']} and {row['false_positives']} of {found['runs_of_each_kind']:,}",
            f"{row['by_error_rates']:.2f}",
            f"{row['epsilon_at_least']:.2f}",
            f"{ideal['epsilon_at_least'][1]:.2f}",
            f"{row['reported']:.2f}",
        )
        for name, label in (("crafted", "crafted"), ("picture", "mislabelled picture"))
        for row, ideal in zip(found[name], numbers["group"]["ideal_audit"], strict=True)
    ]
    head = (
        "copies of",
        "found, false alarms",
        "ε at least, error rates",
        "ε at least, trade-off",
        "the same of the two laws",
        "ε reported",
    )
    return table(head, rows)


def poisoned(numbers: Numbers) -> str:
    """Poisoning of GROUP."""
    rows = []
    for found in numbers["group"]["poisoning"]["targets"].values():
        name = f"{found['true_label']}, called {found['label']}"
        rows.append((f"{name}: 0", percent(found["without_copies"], 1), "", "", ""))
        rows.extend(
            (
                f"{name}: {row['copies']}",
                percent(row["success"], 1),
                percent(row["interval"][0]) + " to " + percent(row["interval"][1]),
                percent(row["at_most"]),
                percent(row["at_most_black_box"]),
            )
            for row in found["rows"]
        )
    return table(("copies", "seen", "95 % interval", "at most, exact", "at most, black box"), rows)


def people(numbers: Numbers) -> str:
    """Persons of MovieLens."""
    found = numbers["group"]["movielens"]
    words = ("fewest", "a quarter has fewer", "median", "a quarter has more", "a tenth has more", "most")
    rows = [
        (word, f"{size}", f"{exact:,.2f}", f"{box:,.2f}" if box is not None else "none")
        for word, size, exact, box in zip(
            words, found["sizes"], found["exact"], found["black_box"], strict=True
        )
    ]
    return table(("person", "records", "ε, exact", "ε, black box"), rows)


def shuffled(numbers: Numbers) -> str:
    """Accuracies of SHUFFLE, with what was chosen."""
    rows = []
    for name, found in numbers["shuffle"]["models"].items():
        pairs: dict[int, dict[str, Any]] = {run["batch_size"]: {} for run in found["runs"]}
        for run in found["runs"]:
            pairs[run["batch_size"]][run["clipping"]] = run
        for size, both in pairs.items():
            one, whole = both["individual"], both["batch"]
            rows.append(
                (
                    f"{name}, {found['epochs']} epochs, batches of {size:,}",
                    percent(one["test_accuracy"]),
                    percent(whole["test_accuracy"]),
                    f"{100 * (whole['test_accuracy'] - one['test_accuracy']):+.1f}",
                    chosen(one),
                    chosen(whole),
                )
            )
    head = (
        "test accuracy",
        "individual clipping",
        "batch clipping",
        "difference (points)",
        "path, individual",
        "path, batch",
    )
    return table(head, rows)


def chosen(run: Numbers) -> str:
    """Which length of the path was chosen, of which."""
    return f"{run['path']:g} of " + ", ".join(f"{each['path']:g}" for each in run["tried"])


def strong(numbers: Numbers) -> str:
    """Epsilons of SHUFFLE."""
    found = numbers["shuffle"]["epsilons"]
    rows = [
        (
            f"{row['batch_size']:,}",
            f"{row['individual'][0]:.1f}",
            f"{row['individual'][1]:.0f}",
            f"{row['batch'][1]:.0f}",
            f"{row['usual_adversary']:.2f}",
        )
        for row in found
    ]
    size = found[0]["group_size"]
    head = (
        "records in a batch",
        "one record, either clipping",
        f"{size} records, individual",
        f"{size} records, batch",
        "one record, usual adversary",
    )
    return table(head, rows)


TABLES: dict[str, Callable[[Numbers], str]] = {
    function.__name__: function
    for function in (
        settings, runs, estimates, groups, clipping, norms, paid, attacks, released, cost,
        noise, accuracy, bounds, simulated, audits, poisoned, people, shuffled, strong,
    )
}  # fmt: skip


if __name__ == "__main__":
    main()
