"""Privacy accounting for DP-SGD whose unit is a record, a person's records or any group.

- `Run`: a run in the terms of the training script, in place of the arguments of functions and accountants.
- `get_epsilon`, `get_delta`: the privacy of a planned run, with certified bounds.
- `CorrelatedNoise`, `estimate_delta`: runs with correlated noise (matrix factorisation, DP-FTRL).
- `get_noise_multiplier`, `get_sample_rate`, `get_steps`, `get_group_size`: the run that meets a target.
- `sweep`: one question for many runs, as a table. `plan`: batch, steps, cap and noise that meet a target.
- `privacy_curve`: the whole curve of a run, to compose and to ask many questions.
- `TradeoffCurve`: trade-off functions (f-DP) and their algebra.
- `explain`: a guarantee with everything it assumes, and what it would be under other assumptions.
- `sampling_of`: how a data loader draws its batches.
- `report`: one page for who signs: the guarantee in plain words, its assumptions, attacks, groups and curves.
- `hockeystick.accountants`: accountants that follow a run step by step.
- `hockeystick.checkpoints`: accountants in files.
- `hockeystick.renyi`: Rényi group privacy of four mechanisms, and the noise that reaches a target.
- `hockeystick.opacus`: our accountants in Opacus's engine and one of our own, accounts of single examples,
  and whether a PyTorch data loader draws its batches as the accountant assumes.
- `hockeystick.dp_accounting`: the exact accountant as one of dp-accounting's.
- `hockeystick.compat`: the names of prv-accountant, TF Privacy, autodp and riskcal, answered by exact curves.
- `hockeystick.distributed`: accounts of more examples than memory holds, and of training on several ranks.
- `hockeystick.release`: statistics of individual privacy parameters, with noise.
- `hockeystick.plot`: pictures.
- `hockeystick.shuffle`: shuffled batches and batch clipping, against an adversary who knows every batch.
- `hockeystick.training`: clipping, sampling and DP-SGD in NumPy, as references.
- `hockeystick.auditing`: lower bounds on epsilon from attacks, to set beside what is reported.
- `hockeystick.black_box`: group privacy from the privacy of one record alone, for comparison.
- `hockeystick.kernels`: the functions of the compiled core on NumPy arrays.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hockeystick._core import __version__

if TYPE_CHECKING:
    from hockeystick import (
        accountants,
        auditing,
        black_box,
        checkpoints,
        compat,
        distributed,
        dp_accounting,
        kernels,
        opacus,
        plot,
        release,
        renyi,
        shuffle,
        training,
    )
    from hockeystick._curves.accounting import get_delta, get_epsilon
    from hockeystick._curves.best_of import BestOf
    from hockeystick._curves.bins_curve import BinsCurve
    from hockeystick._curves.bins_estimate import estimate_delta
    from hockeystick._curves.certificate import Certificate
    from hockeystick._curves.counting import get_group_size, get_steps
    from hockeystick._curves.curve import PrivacyCurve
    from hockeystick._curves.making import privacy_curve
    from hockeystick._curves.mixed_curve import MixedCurve
    from hockeystick._curves.number_of_runs import (
        BinomialRuns,
        GeometricRuns,
        NegativeBinomialRuns,
        PoissonRuns,
    )
    from hockeystick._curves.planning import get_noise_multiplier, get_sample_rate
    from hockeystick._curves.run_planning import Plan, plan
    from hockeystick._curves.shuffled_curve import ShuffledCurve
    from hockeystick._curves.sweeping import sweep
    from hockeystick._explaining import Explanation, explain
    from hockeystick._loaders.recognition import sampling_of
    from hockeystick._tables import Table
    from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
    from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
    from hockeystick._vocabulary.groups import Group
    from hockeystick._vocabulary.mechanisms import (
        AdaptiveClipping,
        BatchClipping,
        Gaussian,
        Laplace,
        RandomizedResponse,
        Skellam,
    )
    from hockeystick._vocabulary.participation import CyclicPoisson, FixedOrder, MinimumSeparation
    from hockeystick._vocabulary.run import Run
    from hockeystick._vocabulary.sampling import FullBatch, Poisson, Shuffle, WithoutReplacement
    from hockeystick.accountants import (
        Accountant,
        GroupAccountant,
        IndividualAccountant,
        IndividualFilter,
        MonteCarloAccountant,
        RenyiGroupAccountant,
        ShuffleAccountant,
    )
    from hockeystick.errors import (
        ContradictionError,
        OptimalOrderWarning,
        SamplingMismatchError,
        SamplingMismatchWarning,
        UnreachableError,
        UnsupportedError,
        UnusualValueWarning,
        WideIntervalWarning,
    )
    from hockeystick.reporting import report
    from hockeystick.tradeoff import TradeoffCurve

__all__ = [
    "Accountant",
    "AdaptiveClipping",
    "BatchClipping",
    "BestOf",
    "BinomialRuns",
    "BinsCurve",
    "Certificate",
    "ContradictionError",
    "CorrelatedNoise",
    "CyclicPoisson",
    "Explanation",
    "FixedBins",
    "FixedOrder",
    "FullBatch",
    "Gaussian",
    "GeometricRuns",
    "Group",
    "GroupAccountant",
    "IndividualAccountant",
    "IndividualFilter",
    "Laplace",
    "MinimumSeparation",
    "MixedCurve",
    "MonteCarloAccountant",
    "NegativeBinomialRuns",
    "OptimalOrderWarning",
    "Plan",
    "Poisson",
    "PoissonRuns",
    "PrivacyCurve",
    "RandomAllocation",
    "RandomizedResponse",
    "RenyiGroupAccountant",
    "Run",
    "SamplingMismatchError",
    "SamplingMismatchWarning",
    "Shuffle",
    "ShuffleAccountant",
    "ShuffledCurve",
    "Skellam",
    "Table",
    "TradeoffCurve",
    "UnreachableError",
    "UnsupportedError",
    "UnusualValueWarning",
    "WideIntervalWarning",
    "WithoutReplacement",
    "__version__",
    "accountants",
    "auditing",
    "black_box",
    "checkpoints",
    "compat",
    "distributed",
    "dp_accounting",
    "estimate_delta",
    "explain",
    "get_delta",
    "get_epsilon",
    "get_group_size",
    "get_noise_multiplier",
    "get_sample_rate",
    "get_steps",
    "kernels",
    "opacus",
    "plan",
    "plot",
    "privacy_curve",
    "release",
    "renyi",
    "report",
    "sampling_of",
    "shuffle",
    "sweep",
    "training",
]

# An import of everything takes half as long as one of NumPy, and most scripts use a few names: so a module is
# when one of its names is first asked for. A test compares this table with what type checkers read above.
_ORIGINS = {
    "_curves.accounting": "get_delta get_epsilon",
    "_curves.best_of": "BestOf",
    "_curves.bins_curve": "BinsCurve",
    "_curves.bins_estimate": "estimate_delta",
    "_curves.certificate": "Certificate",
    "_curves.counting": "get_group_size get_steps",
    "_curves.curve": "PrivacyCurve",
    "_curves.making": "privacy_curve",
    "_curves.mixed_curve": "MixedCurve",
    "_curves.number_of_runs": "BinomialRuns GeometricRuns NegativeBinomialRuns PoissonRuns",
    "_curves.planning": "get_noise_multiplier get_sample_rate",
    "_curves.run_planning": "Plan plan",
    "_curves.shuffled_curve": "ShuffledCurve",
    "_curves.sweeping": "sweep",
    "_explaining": "Explanation explain",
    "_loaders.recognition": "sampling_of",
    "_tables": "Table",
    "_vocabulary.allocation": "FixedBins RandomAllocation",
    "_vocabulary.correlated_noise": "CorrelatedNoise",
    "_vocabulary.groups": "Group",
    "_vocabulary.mechanisms": "AdaptiveClipping BatchClipping Gaussian Laplace RandomizedResponse Skellam",
    "_vocabulary.participation": "CyclicPoisson FixedOrder MinimumSeparation",
    "_vocabulary.run": "Run",
    "_vocabulary.sampling": "FullBatch Poisson Shuffle WithoutReplacement",
    "accountants": (
        "Accountant GroupAccountant IndividualAccountant IndividualFilter MonteCarloAccountant "
        "RenyiGroupAccountant ShuffleAccountant"
    ),
    "errors": (
        "ContradictionError OptimalOrderWarning SamplingMismatchError SamplingMismatchWarning "
        "UnreachableError UnsupportedError UnusualValueWarning WideIntervalWarning"
    ),
    "reporting": "report",
    "tradeoff": "TradeoffCurve",
}
_MODULE_OF = {name: module for module, names in _ORIGINS.items() for name in names.split()}
_MODULES = {*__all__, "errors", "reporting", "tradeoff"} - {*_MODULE_OF, "__version__"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"hockeystick.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"hockeystick.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
