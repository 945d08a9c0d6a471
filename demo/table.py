"""What the trained model's history costs groups: exactly, by three upper bounds, and by simulation."""

from dataclasses import dataclass

from tqdm import tqdm

from hockeystick import black_box
from hockeystick.accountants import GroupAccountant, MonteCarloAccountant, RenyiGroupAccountant
from hockeystick.kernels import MonteCarloEstimate

History = list[tuple[float, float, int]]

DELTA = 1e-5
GROUP_SIZES = (1, 2, 4, 8, 16, 32)
SAMPLES = 100_000
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Row:
    """One group size: epsilon at ``DELTA``, three upper bounds on it, and the simulated delta at epsilon."""

    group_size: int
    exact: float
    """Upper end of the certified interval for the exact value (`GroupAccountant`)."""
    black_box: float
    """The best that follows from the exact curve of one record alone (GROUP, Theorem 4)."""
    renyi: float
    """From the exact Rényi divergences of the dominating pair."""
    jensen: float
    """From the Rényi divergences that RGP, Theorem 3.1, bounds by Jensen's inequality."""
    simulated_delta: MonteCarloEstimate


def exact_accountant(history: History, group_size: int) -> GroupAccountant:
    """Account for the same history with another group size."""
    accountant = GroupAccountant(group_size=group_size)
    accountant.history = history
    return accountant


def renyi_accountant(history: History, group_size: int, bound: str = "exact") -> RenyiGroupAccountant:
    """Account for the same history by a Rényi bound."""
    accountant = RenyiGroupAccountant(group_size=group_size, bound=bound)
    accountant.history = history
    return accountant


def simulated_delta(history: History, group_size: int, epsilon: float) -> MonteCarloEstimate:
    """Estimate delta at epsilon from samples of the privacy loss, with an interval."""
    accountant = MonteCarloAccountant(group_size=group_size, samples=SAMPLES, confidence=CONFIDENCE)
    accountant.history = history
    return accountant.get_delta_interval(epsilon)


def compute(history: History) -> list[Row]:
    """Fill the table, one row a group size. All steps of the demo are equal."""
    ((noise_multiplier, sample_rate, steps),) = history
    rows = []
    for group_size in tqdm(GROUP_SIZES, desc="group sizes", unit="size"):
        exact = exact_accountant(history, group_size).get_epsilon(DELTA)
        from_one_record = black_box.get_epsilon(
            delta=DELTA,
            noise_multiplier=noise_multiplier,
            sample_rate=sample_rate,
            steps=steps,
            group_size=group_size,
        )
        renyi, jensen = (
            renyi_accountant(history, group_size, bound).get_epsilon(DELTA) for bound in ("exact", "jensen")
        )
        delta = simulated_delta(history, group_size, exact)
        rows.append(Row(group_size, exact, float(from_one_record), renyi, jensen, delta))
    return rows


def render(rows: list[Row]) -> str:
    """Lay the table out as text."""
    lines = [
        f"epsilon at delta = {DELTA:g}, exactly and by three upper bounds, and Monte-Carlo delta there",
        f"({SAMPLES:,} samples; the interval holds with a confidence of {CONFIDENCE:.0%}, row by row)",
        "",
        f"{'group size':>10}{'exact':>10}{'black box':>13}{'Rényi':>10}{'Jensen':>10}"
        f"{'Monte-Carlo delta':>20}   {'interval':<23}",
    ]
    for row in rows:
        delta = row.simulated_delta
        interval = f"[{delta.lower:.2e}, {delta.upper:.2e}]"
        lines.append(
            f"{row.group_size:>10}{row.exact:>10.2f}{row.black_box:>13,.2f}{row.renyi:>10.2f}"
            f"{row.jensen:>10.2f}{delta.estimate:>20.2e}   {interval:<23}{verdict(row)}"
        )
    return "\n".join(lines)


def verdict(row: Row) -> str:
    """Say whether the simulation confirms the exact value."""
    delta = row.simulated_delta
    return "holds delta" if delta.lower <= DELTA <= delta.upper else "does NOT hold delta"
