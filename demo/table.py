"""What the trained model's history costs groups of several sizes: by three bounds, and by simulation."""

from dataclasses import dataclass

from tqdm import tqdm

from hockeystick.accountants import MonteCarloAccountant, RenyiGroupAccountant
from hockeystick.kernels import MonteCarloEstimate

History = list[tuple[float, float, int]]

DELTA = 1e-5
GROUP_SIZES = (1, 2, 4, 8, 16, 32)
SAMPLES = 100_000
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Row:
    """One group size: epsilon at ``DELTA`` by each bound, and the simulated delta at the smallest of them."""

    group_size: int
    exact: float
    jensen: float
    black_box: float
    simulated_delta: MonteCarloEstimate


def renyi_accountant(history: History, group_size: int, bound: str = "exact") -> RenyiGroupAccountant:
    """Account for the same history with another group size or bound."""
    accountant = RenyiGroupAccountant(group_size=group_size, bound=bound)
    accountant.history = history
    return accountant


def simulated_delta(history: History, group_size: int, epsilon: float) -> MonteCarloEstimate:
    """Estimate delta at epsilon from samples of the privacy loss, with an interval."""
    accountant = MonteCarloAccountant(group_size=group_size, samples=SAMPLES, confidence=CONFIDENCE)
    accountant.history = history
    return accountant.get_delta_interval(epsilon)


def compute(history: History) -> list[Row]:
    """Fill the table, one row a group size."""
    rows = []
    for group_size in tqdm(GROUP_SIZES, desc="group sizes", unit="size"):
        exact, jensen, black_box = (
            renyi_accountant(history, group_size, bound).get_epsilon(DELTA)
            for bound in ("exact", "jensen", "black_box")
        )
        delta = simulated_delta(history, group_size, exact)
        rows.append(Row(group_size, exact, jensen, black_box, delta))
    return rows


def render(rows: list[Row]) -> str:
    """Lay the table out as text."""
    lines = [
        f"epsilon at delta = {DELTA:g} by three bounds, and a Monte-Carlo delta at the exact pair's epsilon",
        f"({SAMPLES:,} samples; the interval holds with a confidence of {CONFIDENCE:.0%}, row by row)",
        "",
        f"{'group size':>10}{'exact pair':>12}{'Jensen':>12}{'black box':>12}"
        f"{'Monte-Carlo delta':>21}   {'interval':<23}",
    ]
    for row in rows:
        delta = row.simulated_delta
        interval = f"[{delta.lower:.2e}, {delta.upper:.2e}]"
        lines.append(
            f"{row.group_size:>10}{row.exact:>12.2f}{row.jensen:>12.2f}{row.black_box:>12.2f}"
            f"{delta.estimate:>21.2e}   {interval:<23}{verdict(row)}"
        )
    return "\n".join(lines)


def verdict(row: Row) -> str:
    """Say whether the simulation confirms the bound."""
    return "below delta" if row.simulated_delta.upper <= DELTA else "NOT below delta"
