"""Algorithm 1 of SHUFFLE as printed: any algorithm on clipped units, by its definition."""

import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import training
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

SIZE, BATCH = 40, 8
DATA = np.random.default_rng(5).normal(size=(SIZE, 3))
RUN = {
    "dataset_size": SIZE,
    "batch_size": BATCH,
    "epochs": 2,
    "max_grad_norm": 0.7,
    "noise_multiplier": 0.0,
    "learning_rate": 0.25,
    "seed": 1,
}
START = np.array([1.0, 2.0, 3.0])


def gradients(weights, indices):
    """Of half of the squared distance, with a bend that makes local steps differ from one large step."""
    return np.tanh(weights - DATA[indices]) * np.array([1.0, 2.0, 0.5])


def clipped(vector, norm):
    return vector / max(1.0, math.hypot(*vector) / norm)


# The local algorithms


@pytest.mark.parametrize(("epochs", "size", "momentum"), [(1, 1, 0.0), (3, 2, 0.0), (2, 3, 0.9)])
def test_local_sgd_is_sgd_with_momentum(epochs, size, momentum):
    torch_like, speed = START.copy(), np.zeros(3)
    indices = np.array([3, 1, 7, 30, 2])
    for _ in range(epochs):
        for start in range(0, 5, size):
            mean = gradients(torch_like, indices[start : start + size]).mean(axis=0)
            speed = momentum * speed + mean
            torch_like = torch_like - 0.1 * speed
    algorithm = training.LocalSGD(0.1, epochs=epochs, batch_size=size, momentum=momentum)
    update = algorithm(gradients, START, indices)
    np.testing.assert_allclose(START - 0.1 * update, torch_like, rtol=1e-12)
    assert START.tolist() == [1.0, 2.0, 3.0]


def test_classical_sgd_adds_up_the_gradients_where_they_are_taken():
    """Equation (2)."""
    current, total = START.copy(), np.zeros(3)
    for i in (4, 5, 6):
        gradient = gradients(current, np.array([i]))[0]
        total += gradient
        current = current - 0.3 * gradient
    np.testing.assert_allclose(
        training.LocalSGD(0.3)(gradients, START, np.array([4, 5, 6])), total, rtol=1e-12
    )


def test_local_adam_is_adam():
    mean, square, current = np.zeros(3), np.zeros(3), START.copy()
    indices = np.array([3, 1, 7, 30])
    for step, batch in enumerate([indices[:2], indices[2:], indices[:2], indices[2:]], start=1):
        gradient = gradients(current, batch).mean(axis=0)
        mean = 0.8 * mean + 0.2 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        corrected = mean / (1 - 0.8**step), square / (1 - 0.99**step)
        current = current - 0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-6)
    algorithm = training.LocalAdam(0.1, epochs=2, batch_size=2, betas=(0.8, 0.99), epsilon=1e-6)
    np.testing.assert_allclose(START - 0.1 * algorithm(gradients, START, indices), current, rtol=1e-12)


@pytest.mark.parametrize(
    ("algorithm", "changes", "name"),
    [
        (training.LocalSGD, {"learning_rate": 0.0}, "learning_rate"),
        (training.LocalSGD, {"epochs": 0}, "epochs"),
        (training.LocalSGD, {"momentum": 1.0}, "momentum"),
        (training.LocalAdam, {"batch_size": 0}, "batch_size"),
        (training.LocalAdam, {"betas": (0.9, 1.0)}, "betas"),
        (training.LocalAdam, {"epsilon": math.inf}, "epsilon"),
    ],
)
def test_settings_out_of_range_are_refused(algorithm, changes, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        algorithm(**{"learning_rate": 0.1} | changes)


# The loop


class Recorder:
    """A local algorithm that keeps what it is asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, gradients, weights, indices):
        self.asked.append((weights.copy(), indices.tolist()))
        update = 3.0 * gradients(weights, indices).sum(axis=0) + indices.min()
        weights += 1.0  # what it does to its copies changes nothing
        indices[:] = 0
        return update


@pytest.mark.parametrize("sampling", ["poisson", "subsample", "shuffle"])
@pytest.mark.parametrize("units", [None, 1, 2, 8])
def test_every_round_adds_the_clipped_updates_of_its_units(sampling, units):
    local = Recorder()
    norms = {step: 0.5 + step for step in range(1, 11)}
    passed = []

    def postprocess(step, weights):
        passed.append(weights.copy())
        return 0.5 * weights

    final, _ = training.train(
        gradients,
        START,
        **RUN | {"max_grad_norm": norms.__getitem__},
        units=units,
        sampling=sampling,
        local=local,
        postprocess=postprocess,
    )
    rounds = {}
    for weights, indices in local.asked:
        rounds.setdefault(tuple(weights), []).append(indices)
    current, asked = START, list(local.asked)
    for step in range(1, 11):
        update = np.zeros(3)
        while asked and np.array_equal(asked[0][0], current):
            _, indices = asked.pop(0)
            raw = 3.0 * gradients(current, indices).sum(axis=0) + min(indices)
            update += clipped(raw, norms[step])
            if sampling != "poisson":
                assert len(indices) == BATCH // (units or BATCH)
        before = current - 0.25 * update / (units or BATCH)
        np.testing.assert_allclose(passed[step - 1], before, rtol=1e-12)
        current = 0.5 * passed[step - 1]
    assert not asked
    np.testing.assert_array_equal(final, current)


@pytest.mark.parametrize("units", [1, 4])
def test_units_of_poisson_samples_are_drawn_on_their_own(units):
    seen = []

    def local(gradients, weights, indices):
        seen.append(indices.tolist())
        return np.zeros(3)

    training.train(gradients, START, **RUN | {"epochs": 400}, units=units, local=local)
    counts = np.bincount(np.concatenate(seen), minlength=SIZE)
    expected = 400 * (SIZE // BATCH) * BATCH / SIZE
    assert counts.mean() == pytest.approx(expected, rel=0.02)
    assert all(len(set(each)) == len(each) for each in seen)
    if units == 4:  # a record may be in several units of one step
        assert abs(np.mean([len(each) for each in seen]) - BATCH / 4) < 0.4


def test_a_model_that_arrives_takes_the_place_of_the_local_one():
    """Asynchronous rounds: every third step begins with the model of two steps ago."""
    past, used = [START], []

    def receive(step, weights):
        past.append(weights)
        return past[-3] if step % 3 == 0 else None

    def local(gradients, weights, indices):
        used.append(weights.copy())
        return gradients(weights, indices).mean(axis=0)

    training.train(gradients, START, **RUN, units=1, sampling="shuffle", local=local, receive=receive)
    assert len(used) == 10
    for step, weights in enumerate(used, start=1):
        expected = past[step - 2] if step % 3 == 0 else past[step]
        np.testing.assert_array_equal(weights, expected)


def test_the_mean_gradient_as_local_algorithm_is_the_default():
    def local(gradients, weights, indices):
        return gradients(weights, indices).mean(axis=0)

    for sampling in ("poisson", "subsample", "shuffle"):
        for units in (None, 1, 2):
            run = {**RUN, "noise_multiplier": 0.5, "units": units, "sampling": sampling}
            one, _ = training.train(gradients, START, **run)
            other, _ = training.train(gradients, START, **run, local=local)
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_no_change_of_a_batch_moves_the_update_by_more_than_is_charged():
    """Neighbouring data sets, the same batches: k changed units move U by at most 2kC."""
    random = np.random.default_rng(2)
    algorithm = training.LocalSGD(0.5, epochs=3, momentum=0.5)
    largest = 0.0
    for _ in range(200):
        other = DATA.copy()
        members = random.choice(SIZE, 3, replace=False)
        other[members] = random.normal(scale=30.0, size=(3, 3))
        tables = (DATA, other)
        order = random.permutation(SIZE)[:BATCH].reshape(4, 2)
        changed = sum(bool(np.isin(part, members).any()) for part in order)
        updates = []
        for table in tables:

            def of_table(weights, indices, table=table):
                return np.tanh(weights - table[indices])

            parts = [algorithm(of_table, np.zeros(3), part) for part in order]
            updates.append(sum(clipped(part, 0.7) for part in parts))
        distance = math.hypot(*(updates[0] - updates[1]))
        assert distance <= 2 * changed * 0.7 * (1 + 1e-12)
        if changed:
            largest = max(largest, distance / (changed * 0.7))
    assert largest > 1.5  # one clipping norm would not have been enough


def test_post_processing_of_clipped_updates_is_a_part_of_the_local_algorithm():
    """B([a]_C') with a norm of at most C: the clipping to C that follows changes nothing."""

    def transformed(gradients, weights, indices):
        update = clipped(gradients(weights, indices).mean(axis=0), 2.0)
        return 0.3 * np.sign(update) * np.abs(update) / 2.0

    run = {**RUN, "units": 1, "sampling": "subsample", "local": transformed}
    one, _ = training.train(gradients, START, **run)
    other, _ = training.train(gradients, START, **run | {"max_grad_norm": 100.0})
    np.testing.assert_array_equal(one, other)


def test_every_round_can_have_an_algorithm_of_its_own():
    """SHUFFLE, section 3, "a sequence of algorithms": `receive` says which round it is."""
    rounds, used = [], []

    def local(gradients, weights, indices):
        used.append(rounds[-1])
        return training.LocalSGD(0.1, epochs=1 + rounds[-1] % 2)(gradients, weights, indices)

    run = {**RUN, "units": 2, "sampling": "shuffle"}
    one, _ = training.train(gradients, START, **run, local=local, receive=lambda step, _: rounds.append(step))
    assert rounds == list(range(1, 11))
    assert used == [step for step in rounds for _ in range(2)]
    for epochs in (1, 2):
        other, _ = training.train(gradients, START, **run, local=training.LocalSGD(0.1, epochs=epochs))
        assert np.abs(one - other).max() > 1e-6


# What is charged


def test_private_moments_for_normalising_are_a_step_with_the_full_batch():
    """docs/shuffling.md: one replaced record moves the clipped sum of (x, x²) by up to two norms."""
    norm, noise = 2.0, 20.0
    ends = np.array([[-1e3, 1.0], [1e3, -1.0]])
    distances = []
    for first in ends:
        for second in ends:
            both = training.clip(np.hstack([[first, second], np.square([first, second])]), norm)
            distances.append(math.hypot(*(both[0] - both[1])))
    rows = np.random.default_rng(1).normal(scale=3.0, size=(500, 2, 2))
    for pair in rows:
        one, other = training.clip(np.hstack([pair, pair**2]), norm)
        distances.append(math.hypot(*(one - other)))
    assert norm * 1.2 < max(distances) <= 2.0 * norm  # one norm would not be enough
    # Gaussian curves compose to a Gaussian one.
    rounds = hs.shuffle.closed_form(hs.Shuffle(BATCH, SIZE), noise_multiplier=noise, epochs=10)
    both = rounds.compose(hs.TradeoffCurve.gaussian(2.0 / noise))
    assert both.mu() == pytest.approx(2.0 * math.sqrt(10 + 1) / noise, rel=1e-12)
    # Against the usual adversary: a group of four moves it by eight norms.
    accountant = GroupAccountant(group_size=4, adjacency="replace")
    accountant.step(noise_multiplier=noise, sampling=hs.FullBatch())
    alone = hs.TradeoffCurve.gaussian(4 * 2.0 / noise)
    assert accountant.get_epsilon(1e-5) == pytest.approx(alone.epsilon(1e-5), rel=1e-6)
    training.train(
        gradients, START, **RUN | {"noise_multiplier": 4.0}, sampling="subsample", accountant=accountant
    )
    of_training = hs.privacy_curve(
        noise_multiplier=4.0,
        sampling=hs.WithoutReplacement(BATCH, SIZE),
        steps=10,
        group_size=4,
        adjacency="replace",
    )
    of_moments = hs.privacy_curve(
        noise_multiplier=noise, sampling=hs.FullBatch(), steps=1, group_size=4, adjacency="replace"
    )
    together = (of_training + of_moments).epsilon(1e-5)
    assert accountant.get_epsilon(1e-5) == pytest.approx(together, rel=1e-6)
    assert together > of_training.epsilon(1e-5)


@pytest.mark.parametrize("group_size", [1, 4])
def test_clipped_units_are_charged_as_such(group_size):
    run = {**RUN, "noise_multiplier": 6.0}
    algorithm = training.LocalSGD(0.1, epochs=2)
    expected = {
        ("poisson", 1): (hs.BatchClipping(6.0), BATCH / SIZE),
        ("poisson", 4): (hs.BatchClipping(6.0), hs.Poisson(BATCH / 4 / SIZE, microbatches=4)),
        ("poisson", 8): (hs.BatchClipping(6.0), hs.Poisson(BATCH / 8 / SIZE, microbatches=8)),
        ("poisson", None): (6.0, BATCH / SIZE),
        ("subsample", 1): (hs.BatchClipping(6.0), hs.WithoutReplacement(BATCH, SIZE)),
        ("subsample", 2): (hs.BatchClipping(6.0, 2), hs.WithoutReplacement(BATCH, SIZE)),
        ("subsample", 8): (6.0, hs.WithoutReplacement(BATCH, SIZE)),
        ("subsample", None): (6.0, hs.WithoutReplacement(BATCH, SIZE)),
    }
    for (sampling, units), step in expected.items():
        accountant = GroupAccountant(group_size=group_size)
        training.train(
            gradients, START, **run, sampling=sampling, units=units, local=algorithm, accountant=accountant
        )
        assert accountant.history == [(*step, 10)]
        curve = hs.privacy_curve(
            **({"mechanism": step[0]} if units in (1, 2, 4) or isinstance(step[0], hs.BatchClipping)
               else {"noise_multiplier": step[0]}),
            sampling=hs.Poisson(step[1]) if isinstance(step[1], float) else step[1],
            steps=10,
            group_size=group_size,
        )  # fmt: skip
        assert accountant.get_epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-6)


def test_shuffled_units_are_charged_to_the_strong_adversary():
    for units, clipping in ((1, {"clipping": "batch"}), (2, {"clipping": "mixed", "units_per_batch": 2})):
        accountant = ShuffleAccountant(BATCH, SIZE, group_size=3, **clipping)
        training.train(
            gradients,
            START,
            **RUN | {"noise_multiplier": 8.0},
            sampling="shuffle",
            units=units,
            local=training.LocalAdam(0.1),
            accountant=accountant,
        )
        curve = hs.shuffle.tradeoff(
            hs.Shuffle(BATCH, SIZE), noise_multiplier=8.0, epochs=2, group_size=3, **clipping
        )
        assert accountant.get_epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-9)


# What is refused


def never(gradients, weights, indices):
    raise AssertionError("no step may be taken")


@pytest.mark.parametrize(
    "accountant",
    [RenyiGroupAccountant(), MonteCarloAccountant(2, samples=1000)],
    ids=["renyi", "monte carlo"],
)
def test_accountants_of_single_records_are_refused_for_units(accountant):
    with pytest.raises(ValueError, match=r"units must be None with a \w+, .* got 1"):
        training.train(gradients, START, **RUN, units=1, local=never, accountant=accountant)


def test_what_has_no_pair_is_refused_before_the_first_step():
    for accountant, changes in (
        (GroupAccountant(group=hs.Group(rates=[0.5])), {"units": 2, "sampling": "subsample"}),
        (GroupAccountant(group=hs.Group(norms=[0.5])), {"units": 1}),
        (GroupAccountant(group=hs.Group(3, gradients="orthogonal"), adjacency="replace"), {}),
    ):
        with pytest.raises(hs.UnsupportedError):
            training.train(gradients, START, **RUN, **changes, local=never, accountant=accountant)
        assert len(accountant) == 0


@pytest.mark.parametrize("sampling", ["poisson", "subsample"])
def test_replaced_records_of_several_units_are_accounted_for(sampling):
    accountant = GroupAccountant(2, adjacency="replace")
    training.train(gradients, START, **RUN, units=2, sampling=sampling, accountant=accountant)
    ((mechanism, draw, steps),) = accountant.history
    assert mechanism.units_per_batch == (2 if sampling == "subsample" else 1)
    exact = hs.get_epsilon(
        delta=1e-5,
        mechanism=mechanism,
        sampling=draw,
        steps=steps,
        group_size=2,
        adjacency="replace",
    )
    assert accountant.get_epsilon(1e-5) == pytest.approx(exact, rel=2e-6)


def test_accounts_of_examples_know_gradients_only():
    accountant = IndividualAccountant(SIZE, max_grad_norm=0.7)
    with pytest.raises(ValueError, match="local must be None with an IndividualAccountant"):
        training.train(gradients, START, **RUN, local=never, accountant=accountant)
    with pytest.raises(ValueError, match="max_grad_norm must be one number with an IndividualAccountant"):
        training.train(gradients, START, **RUN | {"max_grad_norm": lambda step: 0.7}, accountant=accountant)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"local": 3}, TypeError, "local must be a function"),
        ({"receive": "model"}, TypeError, "receive must be a function"),
        ({"postprocess": []}, TypeError, "postprocess must be a function"),
        ({"local": lambda g, w, i: np.zeros(2)}, ValueError, r"local update must be of shape \(3,\)"),
        ({"local": lambda g, w, i: np.full(3, np.nan)}, ValueError, "finite"),
        ({"receive": lambda s, w: np.zeros(2)}, ValueError, r"receive must be of shape \(3,\)"),
        ({"postprocess": lambda s, w: None}, ValueError, "postprocess must be a function that returns"),
        ({"postprocess": lambda s, w: w * np.inf}, ValueError, "weights must be finite"),
        ({"max_grad_norm": lambda s: 0.0}, ValueError, "max_grad_norm must be in"),
        ({"units": 3, "sampling": "shuffle"}, ValueError, "a divisor of batch_size 8"),
    ],
)
def test_what_cannot_be_used_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        training.train(gradients, START, **RUN | {"units": 1} | changes)
