"""DP-SGD in NumPy: every step of the loop by its definition, digits that it learns, and bad input."""

import math
from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_digits

import hockeystick as hs
from hockeystick import training
from hockeystick.accountants import GroupAccountant


def clipped(vector, norm):
    return vector / max(1.0, math.hypot(*vector) / norm)


def some_gradients(batch, parameters, seed=1):
    """Of norms from about 1/20 to 20."""
    random = np.random.default_rng(seed)
    directions = random.standard_normal((batch, parameters)) / math.sqrt(parameters)
    return directions * np.geomspace(0.05, 20.0, batch)[random.permutation(batch), None]


# The loop


class Recorder:
    """A model without sense that keeps what it was asked."""

    def __init__(self, parameters=3):
        self.table = some_gradients(40, parameters)
        self.weights = []
        self.batches = []

    def __call__(self, weights, indices):
        self.weights.append(weights.copy())
        self.batches.append(indices.tolist())
        return self.table[indices]


RUN = {
    "dataset_size": 40,
    "batch_size": 8,
    "epochs": 3,
    "max_grad_norm": 0.7,
    "noise_multiplier": 0.0,
    "learning_rate": 0.25,
    "seed": 1,
}


@pytest.mark.parametrize(
    ("sampling", "units"),
    [*product(["shuffle", "subsample"], [None, 1, 2, 8]), ("poisson", None), ("poisson", 1)],
)
def test_every_step_is_that_of_algorithm_1(sampling, units):
    model = Recorder()
    start = np.array([1.0, 2.0, 3.0])
    rates = {step: 1.0 / step for step in range(1, 16)}
    final, history = training.train(
        model, start, **RUN | {"learning_rate": rates.__getitem__}, units=units, sampling=sampling
    )
    assert history == []
    assert len(model.batches) == 15
    assert start.tolist() == model.weights[0].tolist() == [1.0, 2.0, 3.0]
    for step, batch in enumerate(model.batches, start=1):
        parts = len(batch) if units is None else units
        update = sum(clipped(part.mean(axis=0), 0.7) for part in np.split(model.table[batch], parts))
        after = [*model.weights, final][step]
        expected = model.weights[step - 1] - rates[step] * update / (units or 8)
        np.testing.assert_allclose(after, expected, rtol=1e-13, atol=1e-14)


def test_the_loop_draws_batches_as_it_says():
    drawn = {}
    for sampling in ("shuffle", "subsample", "poisson"):
        model = Recorder()
        training.train(model, np.zeros(3), **RUN, sampling=sampling)
        drawn[sampling] = model.batches
    epochs = np.reshape(drawn["shuffle"], (3, 40))
    np.testing.assert_array_equal(np.sort(epochs), [np.arange(40)] * 3)
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 3
    assert {len(set(batch)) for batch in drawn["subsample"]} == {8}
    assert len(set(np.ravel(drawn["subsample"][:5]).tolist())) < 40
    sizes = [len(batch) for batch in drawn["poisson"]]
    assert len(set(sizes)) > 1
    assert abs(sum(sizes) - 15 * 8) < 4 * math.sqrt(15 * 40 * 0.2 * 0.8)


@pytest.mark.parametrize(("units", "divisor"), [(None, 8), (1, 1), (4, 4)])
def test_noise_is_normal_of_the_noise_multiplier_times_the_clipping_norm(units, divisor):
    count = 100_000
    weights, _ = training.train(
        lambda weights, indices: np.zeros((len(indices), count)),
        np.zeros(count),
        dataset_size=8,
        batch_size=8,
        epochs=1,
        max_grad_norm=0.7,
        noise_multiplier=3.0,
        learning_rate=0.5,
        units=units,
        sampling="shuffle",
        seed=1,
    )
    noise = weights * divisor / 0.5 / (3.0 * 0.7)
    # The mean has standard deviation 1 / sqrt(count), the standard deviation about 1 / sqrt(2 count).
    assert abs(noise.mean()) < 4 / math.sqrt(count)
    assert abs(noise.std() - 1.0) < 4 / math.sqrt(2 * count)
    beyond = [float(np.mean(np.abs(noise) > bound)) for bound in (1.0, 2.0)]
    assert beyond == pytest.approx([math.erfc(1 / math.sqrt(2)), math.erfc(2 / math.sqrt(2))], abs=0.006)


def test_equal_seeds_give_equal_weights_and_batches_with_any_noise():
    def run(**changes):
        model = Recorder()
        weights, _ = training.train(model, np.zeros(3), **RUN | {"noise_multiplier": 1.0} | changes)
        return weights.tolist(), model.batches

    assert run() == run()
    assert run() == run(seed=np.random.default_rng(1))
    assert run()[0] != run(seed=2)[0]
    assert run()[1] != run(seed=2)[1]
    assert run()[0] != run(noise_multiplier=2.0)[0]
    assert run()[1] == run(noise_multiplier=2.0)[1]


def test_the_accountant_is_right_about_poisson_batches_clipped_one_by_one():
    accountant = GroupAccountant(group_size=2)
    settings = RUN | {"noise_multiplier": 1.5}
    training.train(Recorder(), np.zeros(3), **settings, sampling="poisson", accountant=accountant)
    planned = hs.get_epsilon(noise_multiplier=1.5, sample_rate=0.2, steps=15, delta=1e-3, group_size=2)
    assert accountant.get_epsilon(1e-3) == pytest.approx(planned, rel=2e-6)


def test_an_empty_batch_is_a_step_of_noise_alone():
    model, accountant = Recorder(), GroupAccountant()
    settings = RUN | {"batch_size": 1, "epochs": 1, "noise_multiplier": 1.0}
    steps = []
    training.train(
        model,
        np.zeros(3),
        **settings,
        sampling="poisson",
        accountant=accountant,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert 0 < len(model.batches) < 40
    assert all(model.batches)
    assert len(accountant) == 40
    assert steps == [(step, 40) for step in range(1, 41)]


def test_the_step_size_may_follow_the_callback():
    # As SHUFFLE, Appendix H: the step size shrinks after an epoch that made it worse.
    rate, seen = [0.25], []

    def at_the_end(epoch, weights):
        seen.append(weights.copy())
        rate[0] *= 0.5
        return epoch * 10

    model = Recorder()
    final, history = training.train(
        model, np.zeros(3), **RUN | {"learning_rate": lambda step: rate[0]}, callback=at_the_end
    )
    assert history == [10, 20, 30]
    np.testing.assert_array_equal(seen[-1], final)
    np.testing.assert_array_equal(seen[0], model.weights[5])
    constant = Recorder()
    ends = []
    training.train(constant, np.zeros(3), **RUN, callback=lambda epoch, weights: ends.append(weights))
    moves = np.diff([np.zeros(3), *seen], axis=0)
    np.testing.assert_allclose(
        moves, np.diff([np.zeros(3), *ends], axis=0) * [[1.0], [0.5], [0.25]], rtol=1e-12
    )


# Digits


@pytest.fixture(scope="module")
def digits():
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(20).permutation(len(labels))
    images, labels = pixels[order] / 16.0, labels[order]
    return (images[:1437], labels[:1437]), (images[1437:], labels[1437:])


def accuracy_on_digits(digits, model, weights, **changes):
    (images, labels), test = digits
    settings = {
        "dataset_size": len(labels),
        "batch_size": 64,
        "epochs": 20,
        "max_grad_norm": 1.0,
        "learning_rate": 0.5,
        "seed": 3,
    }

    def gradients(weights, indices):
        return model.gradients(weights, images[indices], labels[indices])

    trained, _ = training.train(gradients, weights, **settings | changes)
    return model.accuracy(trained, *test)


@pytest.mark.parametrize("sampling", ["shuffle", "subsample"])
@pytest.mark.parametrize("units", [None, 8, 1])
def test_softmax_regression_learns_digits(digits, units, sampling):
    model = training.SoftmaxRegression(64, 10)
    start = model.initial_weights()
    rule = {"units": units, "sampling": sampling}
    assert accuracy_on_digits(digits, model, start, noise_multiplier=0.0, **rule) > 0.9
    # In proportion to the number of units, noise is the same in all three.
    noise = 2.0 * (units or 64) / 64
    assert accuracy_on_digits(digits, model, start, noise_multiplier=noise, **rule) > 0.8


def test_a_perceptron_learns_digits(digits):
    model = training.Perceptron(64, 32, 10)
    start = model.initial_weights(seed=1)
    assert accuracy_on_digits(digits, model, start, noise_multiplier=0.0, sampling="shuffle") > 0.9
    assert accuracy_on_digits(digits, model, start, noise_multiplier=2.0, sampling="poisson") > 0.8


def test_noise_that_drowns_the_gradients_is_seen_in_the_accuracy(digits):
    model = training.SoftmaxRegression(64, 10)
    assert accuracy_on_digits(digits, model, model.initial_weights(), noise_multiplier=500.0) < 0.5


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: training.clip([1.0, 2.0], 1.0), r"vectors must be two-dimensional, got shape \(2,\)"),
        (lambda: training.clip([[1.0]], 0.0), r"max_norm must be in \[1e-150, 1e\+150\], got 0.0"),
        (lambda: training.clip([[1.0]], math.nan), r"max_norm must be in .*, got nan"),
        (lambda: training.clip([[1.0], [math.nan]], 1.0), "vectors must have rows of finite .* row 1"),
        (lambda: training.clip([[1e200]], 1.0), "vectors must have rows of finite .* row 0"),
        (lambda: training.individual_clipping([[math.inf]], 1.0), "gradients must have rows of finite"),
        (lambda: training.individual_clipping([[1.0]], -1.0), "max_grad_norm must be in .*, got -1.0"),
        (lambda: training.batch_clipping(np.empty((0, 2)), 1.0), "gradients must be of at least one"),
        (lambda: training.mixed_clipping([[1.0]] * 6, 1.0, 4), "units must be a divisor .* 6, got 4"),
        (lambda: training.mixed_clipping([[1.0]] * 6, 1.0, 0), "units must be a whole number >= 1, got 0"),
        (lambda: training.shuffled_batches(5, 6, seed=1), "batch_size must be at most dataset_size 5, got 6"),
        (lambda: training.shuffled_batches(5, 0, seed=1), "batch_size must be a whole number .*, got 0"),
        (lambda: training.shuffled_batches(5, 1, seed=-1), "seed must be a whole number .*, got -1"),
        (lambda: training.subsampled_batches(5, 6, 1, seed=1), "batch_size must be at most .*, got 6"),
        (lambda: training.subsampled_batches(5, 2, -1, seed=1), "rounds must be .*, got -1"),
        (lambda: training.poisson_batches(5, 1.1, 1, seed=1), r"sample_rate must be in \[0, 1\], got 1.1"),
        (lambda: training.poisson_batches(0, 0.1, 1, seed=1), "dataset_size must be .*, got 0"),
        (lambda: training.poisson_batches(5, 0.1, 0.5, seed=1), "steps must be a whole number .*, got 0.5"),
        (lambda: training.SoftmaxRegression(0, 2), "features must be .*, got 0"),
        (lambda: training.SoftmaxRegression(1, 1), "classes must be .*, got 1"),
        (lambda: training.Perceptron(1, 0, 2), "hidden must be .*, got 0"),
    ],
)
def test_a_bad_value_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("method", ["loss", "accuracy", "gradients", "gradient_norms"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": np.zeros(7)}, "weights must be 6 numbers, got 7"),
        ({"weights": np.zeros((2, 3))}, "weights must be one-dimensional"),
        ({"images": np.zeros((3, 1))}, r"images must be of shape \(n, 2\) .*, got shape \(3, 1\)"),
        ({"labels": [0, 1]}, r"labels must be of shape \(3,\), got shape \(2,\)"),
        ({"labels": [0, 1, 2]}, r"labels must be in \[0, 2\), got 2"),
        ({"labels": [0, 1, -1]}, "labels must be a whole number >= 0, got -1"),
    ],
)
def test_a_model_names_what_does_not_fit(method, changes, message):
    arguments = {"weights": np.zeros(6), "images": np.zeros((3, 2)), "labels": [0, 1, 1]} | changes
    with pytest.raises(ValueError, match=message):
        getattr(training.SoftmaxRegression(2, 2), method)(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 41}, "batch_size must be at most dataset_size 40, got 41"),
        ({"epochs": 0}, "epochs must be a whole number >= 1, got 0"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be in .*, got 0.0"),
        ({"noise_multiplier": -1.0}, r"noise_multiplier must be in \[0, inf\), got -1.0"),
        ({"learning_rate": -0.1}, r"learning_rate must be in \[0, inf\), got -0.1"),
        ({"learning_rate": lambda step: math.nan}, r"learning_rate must be in \[0, inf\), got nan"),
        ({"units": 3, "sampling": "shuffle"}, "units must be a divisor of batch_size 8, got 3"),
        ({"units": 16}, r"units must be a whole number in \[1, 8\], got 16"),
        ({"sampling": "sorted"}, "sampling must be one of 'poisson', 'subsample', 'shuffle', got 'sorted'"),
        ({"seed": -1}, "seed must be .*, got -1"),
        ({"weights": [0.0, math.inf, 0.0]}, r"weights must be finite, got inf"),
        ({"weights": np.zeros((1, 3))}, "weights must be one-dimensional"),
        (
            {"weights": np.zeros(4), "sampling": "subsample"},
            r"gradients must be of shape \(8, 4\), got shape \(8, 3\)",
        ),
        (
            {"gradients": lambda weights, indices: np.full((len(indices), 3), np.nan)},
            "gradients must have rows of finite",
        ),
    ],
)
def test_the_loop_names_a_bad_value(changes, message):
    with pytest.raises(ValueError, match=message):
        training.train(**{"gradients": Recorder(), "weights": np.zeros(3)} | RUN | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gradients": 3}, "gradients must be a function, got int"),
        ({"weights": "abc"}, "weights must be a real number or an array"),
        ({"learning_rate": "fast"}, "learning_rate must be a real number"),
        ({"learning_rate": None}, "learning_rate must be a real number"),
        ({"seed": None}, "seed must be a real number"),
        ({"sampling": None}, "sampling must be a string, got NoneType"),
        ({"accountant": 3}, "accountant.step must be a function, got NoneType"),
        ({"callback": 3}, "callback must be a function, got int"),
        ({"progress": 3}, "progress must be a function"),
    ],
)
def test_the_loop_names_a_wrong_type(changes, message):
    with pytest.raises(TypeError, match=message):
        training.train(**{"gradients": Recorder(), "weights": np.zeros(3)} | RUN | changes)


def test_every_exported_name_exists():
    assert all(hasattr(training, name) for name in training.__all__)
