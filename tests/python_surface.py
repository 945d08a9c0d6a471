"""Every public function with arguments that are good, and what its answers always satisfy."""

import numpy as np
from test_bad_input import GOOD as CHECKED
from test_bad_input import group_rdp, label

import hockeystick as hs
from hockeystick import kernels, training
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    IndividualFilter,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

SHUFFLED = hs.Shuffle(5, 50)
CURVE = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=10)
TRADEOFF = hs.TradeoffCurve.gaussian(1.0)
COMPOSED = hs.TradeoffCurve.from_curve(CURVE)


def stepped(accountant, **arguments):
    accountant.step(noise_multiplier=1.0, sample_rate=0.1, **arguments)
    return accountant


def individual_with(norms=(0.5, 1.0), indices=None):
    accountant = IndividualAccountant(2)
    accountant.update_norms(norms, indices)
    return stepped(accountant)


def filtered(norms, noise_multiplier, sample_rate, **budget):
    return IndividualFilter(**budget).step(norms, noise_multiplier=noise_multiplier, sample_rate=sample_rate)


def composed(times):
    return (TRADEOFF * times).beta(0.3)


def repeated(times):
    return (CURVE * times).epsilon(1e-5)


def state_of(accountant):
    stepped(accountant)
    return dict(accountant.state_dict())


def loader(make):
    """Load into a new accountant; one that accepts a state must answer."""

    def load(**entries):
        accountant = make()
        accountant.load_state_dict(entries)
        return accountant.get_epsilon(1e-5)

    load.__qualname__ = f"load_state_dict of {make.__name__}"
    return load


def make_group():
    return GroupAccountant(2)


def make_renyi():
    return RenyiGroupAccountant(2)


def make_individual():
    return IndividualAccountant(2)


def make_shuffle():
    return ShuffleAccountant(5, 50)


def make_monte_carlo():
    return MonteCarloAccountant(2, samples=200)


MAKERS = (make_group, make_renyi, make_individual, make_shuffle, make_monte_carlo)

SHUFFLE_RUN = {"noise_multiplier": 1.0, "epochs": 2, "group_size": 2, "clipping": "individual"}

MORE = {
    hs.TradeoffCurve.gaussian: {"mu": 1.0},
    hs.TradeoffCurve.laplace: {"mu": 1.0},
    hs.TradeoffCurve.from_epsilon_delta: {"epsilon": 1.0, "delta": 1e-3},
    hs.TradeoffCurve.from_points: {"alpha": [0.0, 0.2, 1.0], "beta": [1.0, 0.6, 0.0]},
    TRADEOFF.subsample: {"p": 0.3},
    TRADEOFF.group: {"k": 3},
    TRADEOFF.beta: {"alpha": 0.3},
    TRADEOFF.delta: {"epsilon": 0.3},
    TRADEOFF.epsilon: {"delta": 1e-3},
    TRADEOFF.attack_success: {"prior": 0.3},
    COMPOSED.beta: {"alpha": 0.3},
    composed: {"times": 3},
    repeated: {"times": 3},
    CURVE.bounds: {"delta": 1e-3},
    hs.shuffle.tradeoff: {"sampling": SHUFFLED, **SHUFFLE_RUN},
    hs.shuffle.upper_bound: {"sampling": SHUFFLED, **SHUFFLE_RUN},
    hs.shuffle.lower_bound: {"sampling": SHUFFLED, **SHUFFLE_RUN},
    hs.shuffle.closed_form: {"sampling": SHUFFLED, **SHUFFLE_RUN, "clipping": "batch"},
    hs.shuffle.membership_law: {
        "sampling": SHUFFLED,
        "epochs": 2,
        "group_size": 2,
        "clipping": "batch",
        "units_per_batch": 1,
    },
    training.clip: {"vectors": [[3.0, 4.0], [0.0, 0.5]], "max_norm": 1.0},
    training.individual_clipping: {"gradients": [[3.0, 4.0], [0.0, 0.5]], "max_grad_norm": 1.0},
    training.batch_clipping: {"gradients": [[3.0, 4.0], [0.0, 0.5]], "max_grad_norm": 1.0},
    training.mixed_clipping: {"gradients": [[3.0, 4.0], [0.0, 0.5]], "max_grad_norm": 1.0, "units": 1},
    MonteCarloAccountant: {"group_size": 2, "samples": 200, "confidence": 0.9, "seed": 1, "adjacency": "add"},
    stepped(MonteCarloAccountant(2, samples=200)).get_epsilon: {"delta": 1e-2},
    stepped(MonteCarloAccountant(2, samples=200)).get_delta: {"epsilon": 1.0},
    stepped(GroupAccountant(2)).get_epsilon: {"delta": 1e-3},
    stepped(RenyiGroupAccountant(2)).get_delta: {"epsilon": 1.0},
    ShuffleAccountant: {"batch_size": 5, "dataset_size": 50, "group_size": 2, "clipping": "batch"},
    individual_with: {"norms": [0.5, 1.0], "indices": [1, 0]},
    individual_with().get_epsilon: {"delta": 1e-3},
    individual_with().get_group_epsilon: {"members": [0, 1], "delta": 1e-3},
    filtered: {
        "norms": [0.5, 1.0],
        "noise_multiplier": 1.0,
        "sample_rate": 0.1,
        "epsilon": 3.0,
        "delta": 1e-5,
    },
    **{loader(make): state_of(make()) for make in MAKERS},
}

SURFACE = [(label(function), function, good) for function, good in {**CHECKED, **MORE}.items()]
"""Name, function and good arguments."""

COSTLY = {
    "samples": 300,
    "epochs": 50,
    "dataset_size": 10_000,
    "batch_size": 10_000,
}
"""Arguments that a caller pays for in time or memory: their largest value here."""

COSTLY_HERE = {
    (kernels.monte_carlo_delta, "steps"): 300,
    (composed, "times"): 10,
}

PROBABILITIES = {hs.get_delta, hs.TradeoffCurve.beta, TRADEOFF.delta, TRADEOFF.beta, CURVE.delta, CURVE.beta}


def largest(function, name):
    """Largest number to pass for this argument, or None."""
    return COSTLY_HERE.get((function, name), COSTLY.get(name))


def numbers_in(answer):
    """Yield all numbers of an answer, as arrays."""
    if isinstance(answer, bool | int | float | np.number | np.ndarray):
        yield np.asarray(answer)
    elif isinstance(answer, tuple | list):
        for part in answer:
            yield from numbers_in(part)


def check(function, answer):
    """Assert what every answer satisfies."""
    for numbers in numbers_in(answer):
        if numbers.dtype.kind in "iuf":
            assert not np.isnan(numbers).any()
    if function in PROBABILITIES:
        assert np.all((np.asarray(answer) >= 0.0) & (np.asarray(answer) <= 1.0))
    elif function in (hs.get_epsilon, CURVE.epsilon, TRADEOFF.epsilon, group_rdp):
        assert np.all(np.asarray(answer) >= 0.0)
    elif function == CURVE.bounds or isinstance(answer, kernels.MonteCarloEstimate):
        assert np.all(np.asarray(answer[-2]) <= np.asarray(answer[-1]))
