"""Training charges an accountant for the batches that it draws, or refuses to."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import norm as normal

import hockeystick as hs
from hockeystick import training
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

SIZE, BATCH, EPOCHS, NOISE = 39, 8, 3, 1.5
ROUNDS = SIZE // BATCH
RUN = {
    "dataset_size": SIZE,
    "batch_size": BATCH,
    "epochs": EPOCHS,
    "max_grad_norm": 1.0,
    "noise_multiplier": NOISE,
    "learning_rate": 0.1,
    "seed": 1,
}


class PoissonOnly:
    """What Opacus's accountants are to the loop: a step is noise and a sample rate."""

    def __init__(self):
        self.history = []

    def step(self, *, noise_multiplier, sample_rate):
        self.history.append((noise_multiplier, sample_rate))


ACCOUNTANTS = {
    "group": GroupAccountant,
    "group of three": lambda: GroupAccountant(group_size=3),
    "replace": lambda: GroupAccountant(adjacency="replace"),
    "renyi": RenyiGroupAccountant,
    "monte carlo": lambda: MonteCarloAccountant(2, samples=1000),
    "individual": lambda: IndividualAccountant(SIZE),
    "shuffle": lambda: ShuffleAccountant(BATCH, SIZE),
    "poisson only": PoissonOnly,
}
"""Every kind of accountant, and how many."""

TELL_SAMPLING = ("group", "group of three", "replace", "individual")
"""Those that can be told of batches of a fixed size."""


def train(accountant, **changes):
    asked = []

    def gradients(weights, indices):
        asked.append(len(indices))
        return np.ones((len(indices), 2))

    try:
        training.train(gradients, np.zeros(2), **RUN | changes, accountant=accountant)
    except ValueError:
        assert asked == []  # before the first step
        raise


def steps_of(accountant):
    history = accountant.history
    return [(*step, 1) for step in history] if isinstance(accountant, PoissonOnly) else list(history)


@pytest.mark.parametrize("sampling", ["poisson", "subsample", "shuffle"])
@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_what_is_drawn_is_what_is_charged(name, sampling):
    accountant = ACCOUNTANTS[name]()
    fits = {
        "poisson": name != "shuffle",
        "subsample": name in TELL_SAMPLING,
        "shuffle": name == "shuffle",
    }[sampling]
    if not fits:
        before = steps_of(accountant)
        with pytest.raises(hs.SamplingMismatchError, match=rf"use \w+|sampling={sampling!r}"):
            train(accountant, sampling=sampling)
        assert steps_of(accountant) == before
        return
    train(accountant, sampling=sampling)
    draw = hs.WithoutReplacement(BATCH, SIZE) if sampling == "subsample" else BATCH / SIZE
    charged = steps_of(accountant)
    assert {step[:2] for step in charged} == {(NOISE, draw)}
    assert sum(step[2] for step in charged) == EPOCHS * ROUNDS


def test_batches_are_poisson_samples_unless_something_else_is_asked_for():
    sizes, accountant = [], GroupAccountant()

    def gradients(weights, indices):
        sizes.append(len(indices))
        return np.ones((len(indices), 2))

    training.train(gradients, np.zeros(2), **RUN, accountant=accountant)
    assert len(set(sizes)) > 1
    assert accountant.history == [(NOISE, BATCH / SIZE, EPOCHS * ROUNDS)]


def test_shuffled_batches_have_the_epsilon_of_the_strong_adversary():
    # In each epoch a record is in one batch, which the adversary knows, or among those left over:
    # replacing it moves as many Gaussian steps by 2C as there are epochs that it is in.
    accountant = ShuffleAccountant(BATCH, SIZE)
    train(accountant, sampling="shuffle")
    epsilon, delta = accountant.get_epsilon(1e-5), 0.0
    for epochs in range(1, EPOCHS + 1):
        mu = 2.0 * math.sqrt(epochs) / NOISE
        left, right = normal.cdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        delta += binom.pmf(epochs, EPOCHS, ROUNDS * BATCH / SIZE) * (left - math.exp(epsilon) * right)
    assert delta == pytest.approx(1e-5, rel=1e-6)


def test_fixed_batches_have_the_epsilon_of_fixed_batches():
    accountant = GroupAccountant()
    train(accountant, sampling="subsample")
    setting = {"delta": 1e-5, "noise_multiplier": NOISE, "steps": EPOCHS * ROUNDS}
    fixed = hs.get_epsilon(**setting, sampling=hs.WithoutReplacement(BATCH, SIZE))
    assert accountant.get_epsilon(1e-5) == pytest.approx(fixed, rel=1e-5)
    assert fixed > 1.5 * hs.get_epsilon(**setting, sample_rate=BATCH / SIZE)


@pytest.mark.parametrize("size", [(BATCH, SIZE + 1), (BATCH - 1, SIZE)])
def test_a_shuffle_accountant_of_other_sizes_is_refused(size):
    with pytest.raises(hs.SamplingMismatchError, match=r"accountant.sampling must be Shuffle\("):
        train(ShuffleAccountant(*size), sampling="shuffle")


@pytest.mark.parametrize(
    ("clipping", "units", "fits"),
    [
        ({}, None, True),
        ({}, BATCH, True),
        ({}, 1, False),
        ({"clipping": "batch"}, 1, True),
        ({"clipping": "batch"}, None, False),
        ({"clipping": "mixed", "units_per_batch": 4}, 4, True),
        ({"clipping": "mixed", "units_per_batch": 4}, 2, False),
    ],
)
def test_a_shuffle_accountant_must_know_what_is_clipped(clipping, units, fits):
    accountant = ShuffleAccountant(BATCH, SIZE, **clipping)
    if fits:
        train(accountant, sampling="shuffle", units=units)
        assert len(accountant) == EPOCHS * ROUNDS
        return
    with pytest.raises(ValueError, match=r"accountant\.units_per_batch must be"):
        train(accountant, sampling="shuffle", units=units)


@pytest.mark.parametrize("name", ["renyi", "poisson only"])
def test_other_accountants_are_about_records_clipped_one_by_one(name):
    # A record may move the clipped mean of its unit by 2C, which they would charge as C.
    with pytest.raises(ValueError, match=r"units must be None with a \w+, .* got 1"):
        train(ACCOUNTANTS[name](), sampling="poisson", units=1)


def test_a_group_accountant_takes_clipped_units():
    for sampling, units in (("poisson", 1), ("subsample", 1), ("subsample", 4), ("subsample", BATCH)):
        accountant = GroupAccountant()
        train(accountant, sampling=sampling, units=units)
        ((noise, _, count),) = accountant.history
        assert count == EPOCHS * ROUNDS
        # Where every record is a unit, it is clipped on its own.
        assert isinstance(noise, hs.BatchClipping) is (units < BATCH)


def test_shuffled_epochs_begin_where_those_of_the_accountant_do():
    accountant = ShuffleAccountant(BATCH, SIZE)
    train(accountant, sampling="shuffle")
    resumed = ShuffleAccountant(BATCH, SIZE)
    resumed.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    train(resumed, sampling="shuffle")
    assert len(resumed) == 2 * EPOCHS * ROUNDS
    resumed.step(noise_multiplier=NOISE, sample_rate=BATCH / SIZE)
    with pytest.raises(ValueError, match=f"accountant must be at the start of an epoch of {ROUNDS} steps"):
        train(resumed, sampling="shuffle")


def test_an_individual_accountant_is_told_of_fixed_batches():
    accountant = IndividualAccountant(SIZE)
    train(accountant, sampling="subsample")
    assert accountant.is_guarantee
    assert accountant.history == [(NOISE, hs.WithoutReplacement(BATCH, SIZE), EPOCHS * ROUNDS)]
