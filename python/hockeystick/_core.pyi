"""Types of the compiled extension (checked against the binary by stubtest)."""

from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import NDArray

from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import Mechanism
from hockeystick._vocabulary.sampling import Mixture, Sampling

_Array = NDArray[np.float64]
_Counts = NDArray[np.int64]

# A step: noise, draw, group, each a noun or its main number; arrays of numbers ask many questions at once.
_Steps = tuple[float | _Array | Mechanism, float | _Array | Sampling | Mixture, int | _Counts | Group]
# Equal steps of a run: noise, draw, group, number of steps.
_Segment = tuple[float | Mechanism, float | Sampling | Mixture, int | Group, int]

__all__ = [
    "Composition",
    "IndividualAccounts",
    "Simulation",
    "TradeoffCurve",
    "__version__",
    "accumulate_rdp",
    "binomial_law",
    "black_box_delta",
    "black_box_epsilon",
    "correlated_bins_interval",
    "epsilons_of_histories",
    "group_rdp",
    "history_delta",
    "history_epsilon",
    "history_renyi",
    "hockey_stick",
    "hypergeometric_law",
    "log_likelihood_ratio",
    "meet_bounds",
    "membership_law",
    "monte_carlo_delta",
    "one_run_epsilon_lower_bound",
    "pattern_law",
    "poisson_binomial_law",
    "probability_at_least",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "renyi_calibrate",
    "renyi_calibrate_dp",
    "renyi_group_bound",
    "renyi_mixture",
    "run_monte_carlo_delta",
    "shuffled_interval",
    "solve",
]

__version__: str

# Group laws: (log_weights, shifts), shifts ascending, zero weights dropped.
def binomial_law(group_size: _Counts, sample_rate: _Array) -> tuple[_Array, _Array]: ...
def poisson_binomial_law(rates: _Array) -> tuple[_Array, _Array]: ...
def hypergeometric_law(
    group_size: _Counts, batch_size: _Counts, dataset_size: _Counts
) -> tuple[_Array, _Array]: ...

# Kernels. `log_space` says whether `weights` holds logarithms.
def log_likelihood_ratio(
    x: _Array, weights: _Array, shifts: _Array, noise_multiplier: float, log_space: bool
) -> _Array: ...
def hockey_stick(log_ratio: _Array, epsilon: _Array) -> _Array: ...
def monte_carlo_delta(
    epsilon: float,
    segments: list[tuple[_Array, _Array, float, int]],
    log_space: bool,
    samples: int,
    direction: str,
    tilt: float | None,
    seed: int,
    confidence: float,
    progress: Callable[[int, int], object] | None,
) -> tuple[float, float, float]: ...

# A run with dealt batches and Poisson samples.
def run_monte_carlo_delta(
    epsilon: float,
    segments: list[_Segment],
    samples: int,
    direction: str,
    seed: int,
    confidence: float,
    progress: Callable[[int, int], object] | None,
) -> tuple[float, float, float]: ...

# A Monte-Carlo run in tasks: their sums and sums of squares, added in order, give `monte_carlo_delta`.
@final
class Simulation:
    def __new__(
        cls,
        epsilon: float,
        segments: list[tuple[_Array, _Array, float, int]],
        log_space: bool,
        samples: int,
        direction: str,
        tilt: float | None,
        seed: int,
        confidence: float,
    ) -> Simulation: ...
    def tasks(self) -> int: ...
    def samples_before(self, task: int) -> int: ...
    def draw(self, first: int, end: int) -> tuple[_Array, _Array]: ...
    def estimate(self, sum: float, sum_of_squares: float) -> tuple[float, float, float]: ...

def renyi_mixture(
    orders: _Array, weights: _Array, shifts: _Array, noise_multiplier: float, direction: str, log_space: bool
) -> _Array: ...
def renyi_group_bound(orders: _Array, component_rdp: _Array, sample_rate: float) -> _Array: ...
def rdp_to_epsilon(orders: _Array, rdp: _Array, delta: _Array, conversion: str) -> tuple[_Array, _Array]: ...
def rdp_to_delta(orders: _Array, rdp: _Array, epsilon: _Array, conversion: str) -> tuple[_Array, _Array]: ...

# Rényi group privacy. `bound` is "exact", "jensen", "black_box" or "lower"; `conversion` is "canonne" or
# "optimal"; runs are (draw, steps, group). All arrays are one-dimensional, of one length, but for `orders` of
# renyi_calibrate_dp.
_Runs = tuple[_Array | Sampling, _Counts, _Counts | Group]

def group_rdp(step: _Steps, orders: _Array, bound: str, adjacency: str) -> _Array: ...
def renyi_calibrate(
    mechanism: type[Mechanism],
    sensitivity: int,
    order: _Array,
    tau: _Array,
    runs: _Runs,
    bound: str,
    adjacency: str,
) -> _Array: ...
def renyi_calibrate_dp(
    mechanism: type[Mechanism],
    sensitivity: int,
    epsilon: _Array,
    delta: _Array,
    orders: _Array | None,
    runs: _Runs,
    bound: str,
    adjacency: str,
    conversion: str,
) -> _Array: ...

# Rényi bounds of a run of Poisson samples and fixed batches, for a group of one size. Every number is an
# upper bound, so that `bound` is not "lower".
def history_renyi(orders: _Array, segments: list[_Segment], adjacency: str, bound: str) -> _Array: ...
def history_epsilon(
    delta: _Array, segments: list[_Segment], adjacency: str, bound: str, conversion: str
) -> tuple[_Array, _Array]: ...
def history_delta(
    epsilon: _Array, segments: list[_Segment], adjacency: str, bound: str, conversion: str
) -> tuple[_Array, _Array]: ...

# The exact engine. Arrays are one-dimensional and of one length, one number for each question; every pair is
# a certified interval (lower, upper).
def meet_bounds(lower: _Array, upper: _Array) -> tuple[_Array, _Array]: ...
def solve(
    unknown: str,
    step: _Steps,
    steps: int | _Counts,
    adjacency: str,
    epsilon: float | _Array,
    delta: float | _Array,
    tolerance: float,
) -> tuple[_Array, _Array, NDArray[np.bool_]]: ...
def black_box_epsilon(
    step: _Steps, steps: int | _Counts, adjacency: str, delta: float | _Array, tolerance: float
) -> _Array: ...
def black_box_delta(
    step: _Steps, steps: int | _Counts, adjacency: str, epsilon: float | _Array, tolerance: float
) -> _Array: ...

@final
class Composition:
    def __new__(cls, segments: list[_Segment], adjacency: str, tolerance: float) -> Composition: ...
    @staticmethod
    def merged(segments: list[_Segment], adjacency: str, tolerance: float) -> Composition | None: ...
    @staticmethod
    def of_parts(parts: list[tuple[list[_Segment], str]], tolerance: float) -> Composition: ...
    def delta(self, epsilon: _Array) -> tuple[_Array, _Array]: ...
    def epsilon(self, delta: _Array) -> tuple[_Array, _Array]: ...
    def bound_used(self, unknown: str, at: _Array) -> list[str]: ...
    def beta(self, alpha: _Array) -> _Array: ...
    def renyi(self, order: _Array) -> _Array: ...
    def max_loss(self) -> float: ...
    def delta_by(self, route: str, epsilon: _Array) -> tuple[_Array, _Array]: ...

# Auditing: bounds from counts, each wrong with probability `error` at most.
def probability_at_least(successes: int, trials: int, error: float) -> float: ...
def one_run_epsilon_lower_bound(
    correct: int, guesses: int, canaries: int, delta: float, error: float
) -> float: ...

# Individual accounts: rdp of shape (examples, orders), changed in place.
def accumulate_rdp(
    rdp: _Array,
    norms: _Array,
    orders: _Array,
    noise_multiplier: float,
    sample_rate: float,
    steps: float,
) -> None: ...

# Steps: shifts of all examples, the largest possible, noise multiplier, sample rate and number.
def epsilons_of_histories(
    examples: int, steps: list[tuple[_Array, float, float, float, float]], delta: float
) -> tuple[_Array, _Array]: ...

@final
class IndividualAccounts:
    def __new__(cls, examples: int) -> IndividualAccounts: ...
    def __len__(self) -> int: ...
    def add(
        self, shifts: _Array, largest: float, noise_multiplier: float, sample_rate: float, steps: float
    ) -> None: ...
    def epsilons(self, delta: float) -> tuple[_Array, _Array]: ...
    def taken(self, places: NDArray[np.int64]) -> IndividualAccounts: ...
    def mixed(self, other: IndividualAccounts, own: NDArray[np.int64]) -> IndividualAccounts: ...
    # Rates, sums of squared shifts, steps without noise, places of slots and their moments.
    def state(
        self,
    ) -> tuple[list[float], _Array, NDArray[np.bool_], NDArray[np.int64], _Array]: ...
    @staticmethod
    def from_state(
        rates: list[float],
        gaussian: _Array,
        revealing: NDArray[np.bool_],
        places: NDArray[np.int64],
        moments: _Array,
    ) -> IndividualAccounts: ...

@final
class TradeoffCurve:
    @staticmethod
    def gaussian(mu: float) -> TradeoffCurve: ...
    @staticmethod
    def laplace(mu: float) -> TradeoffCurve: ...
    @staticmethod
    def epsilon_delta(epsilon: float, delta: float) -> TradeoffCurve: ...
    @staticmethod
    def points(alpha: _Array, beta: _Array) -> TradeoffCurve: ...
    @staticmethod
    def of_steps(segments: list[_Segment], adjacency: str) -> TradeoffCurve: ...
    @staticmethod
    def mixture(
        distances: _Array, probabilities: _Array, left_out: float, rounding: float, widest: float
    ) -> TradeoffCurve: ...
    @staticmethod
    def split(is_upper: bool, tail: float, distance: float) -> TradeoffCurve: ...
    def subsample(self, p: float) -> TradeoffCurve: ...
    def group(self, k: int) -> TradeoffCurve: ...
    def compose(self, other: TradeoffCurve) -> TradeoffCurve: ...
    def repeat(self, times: int) -> TradeoffCurve: ...
    def inverse(self) -> TradeoffCurve: ...
    def symmetrize(self) -> TradeoffCurve: ...
    def minimum(self, other: TradeoffCurve) -> TradeoffCurve: ...
    def maximum(self, other: TradeoffCurve) -> TradeoffCurve: ...
    def is_symmetric(self) -> bool: ...
    def beta(self, alpha: _Array) -> tuple[_Array, _Array]: ...
    def delta(self, epsilon: _Array) -> tuple[_Array, _Array]: ...
    def epsilon(self, delta: _Array) -> tuple[_Array, _Array]: ...
    def attack_success(self, prior: _Array) -> tuple[_Array, _Array]: ...
    def worst_case_probability(self, p: _Array) -> tuple[_Array, _Array]: ...
    def mu(self, regret: float) -> float: ...

def shuffled_interval(
    unknown: str,
    sampling: tuple[int, int],
    noise_multiplier: float | _Array,
    group_size: int | _Counts,
    steps: int | _Counts,
    adjacency: str,
    at: float | _Array,
    tolerance: float,
) -> tuple[_Array, _Array]: ...
def correlated_bins_interval(
    unknown: str,
    sampling: tuple[int, int],
    coefficients: tuple[float, float],
    noise_multiplier: float,
    adjacency: str,
    at: _Array,
    ceiling: _Array,
) -> tuple[_Array, _Array]: ...
def membership_law(
    sampling: str,
    dataset_size: int,
    batch_size: int,
    units_per_batch: int,
    group_size: int,
    epochs: int,
    rounds: int,
) -> tuple[_Counts, _Array, float, float]: ...
def pattern_law(
    sampling: str,
    dataset_size: int,
    batch_size: int,
    units_per_batch: int,
    group_size: int,
    epochs: int,
    rounds: int,
    largest: int,
) -> tuple[_Counts, int, _Array, float, float]: ...
